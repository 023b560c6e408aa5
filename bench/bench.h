/*
 * What the benchmark programs share. Each of them compares the product with a bare reference, in
 * rounds that alternate: reference, product, reference, product. A round's two results go to
 * standard output as one line, which bench/run collects:
 *
 *     name<TAB>unit<TAB>reference<TAB>product
 */
#ifndef BENCH_H
#define BENCH_H

#include <base/reader.h>
#include <os/file.h>
#include <os/system.h>
#include <spgo/spt.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline _Noreturn void bench_die(const char *what, const spgo_error *err)
{
    fprintf(stderr, "bench: %s%s%s\n", what, err ? ": " : "", err ? err->sentence : "");
    exit(1);
}

/* Processor time of this process, all threads: what other programs do meanwhile does not count. */
static inline uint64_t bench_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The input, mapped anew: each round pays for its page faults. */
static inline os_input *bench_map(const char *path)
{
    os_input *in;
    spgo_error err;
    if (os_input_open(path, &in, &err) != SPGO_OK)
        bench_die(path, &err);
    return in;
}

static inline spgo_spt *bench_open_spt(spgo_span file)
{
    spgo_spt *spt;
    spgo_error err;
    if (spgo_spt_open(file, &spt, &err) != SPGO_OK)
        bench_die("the SPT file", &err);
    return spt;
}

/* Nothing but reading: the sum of all 64-bit words. */
static inline uint64_t bench_sum(spgo_span bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 8 <= bytes.len; i += 8)
        sum += load_u64(bytes.ptr + i);
    return sum;
}

static inline void bench_row(const char *name, const char *unit, double reference, double product)
{
    printf("%s\t%s\t%.6g\t%.6g\n", name, unit, reference, product);
    fflush(stdout);
}

/* 10^9 units a second, or 10^6 with 1000 for scale. */
static inline double bench_rate(uint64_t units, uint64_t time_ns, double scale)
{
    return (double)units * scale / (double)(time_ns ? time_ns : 1);
}

static inline unsigned bench_number(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || n == 0 || n > 1000)
        bench_die("not a number from 1 to 1000", NULL);
    return (unsigned)n;
}

#endif
