/*
 * What the fuzz targets share: the check that ends a run, and output that nobody reads.
 *
 * A target gets its input in a block of exactly its size, from libFuzzer as from replay.c, so that
 * AddressSanitizer sees the first byte read behind its end; targets need not copy it.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <base/bytes.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not assert: a rule must hold in builds of every kind. */
#define FUZZ_CHECK(rule)                                                                           \
    do {                                                                                           \
        if (!(rule)) {                                                                             \
            fprintf(stderr, "%s:%d: broken rule: %s\n", __FILE__, __LINE__, #rule);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Reads every byte of a view. */
static inline void fuzz_read(spgo_span view)
{
    for (size_t i = 0; i < view.len; i++)
        (void)*(const volatile uint8_t *)(view.ptr + i);
}

static inline bool fuzz_take_nothing(void *ctx, const void *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return true;
}

/* A sink for text that nobody reads. */
static inline spgo_sink fuzz_null_sink(void)
{
    return (spgo_sink){.write = fuzz_take_nothing};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
