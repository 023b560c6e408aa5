/* The clock of the probes: the time stamp counter where it is fit, CLOCK_MONOTONIC otherwise. */
#include "runtime.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

bool probe_clock_is_tsc;

COLD uint64_t probe_clock_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__) || defined(__i386__)
/* Runs at one rate in all states of the processor, and the kernel has found it the same on all
 * processors: it would not use it otherwise, nor offer it. */
static COLD bool is_fit(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return false;
    char sources[256] = {0};
    int fd = open("/sys/devices/system/clocksource/clocksource0/available_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* a sandbox; the processor's word has to do */
    ssize_t n = read(fd, sources, sizeof sources - 1);
    close(fd);
    return n > 0 && strstr(sources, "tsc");
}
#elif defined(__aarch64__)
static COLD bool is_fit(void)
{
    return true; /* the architecture says so of the virtual counter */
}
#else
static COLD bool is_fit(void)
{
    return false;
}
#endif

COLD void probe_clock_choose(void)
{
    probe_clock_is_tsc = is_fit();
}

/* The closest of a few: an interruption between the two readings would spoil the pair. */
COLD void probe_clock_pair(uint64_t *clock, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = probe_clock();
        uint64_t now_ns = probe_clock_monotonic_ns();
        uint64_t after = probe_clock();
        if (after - before < best) {
            best = after - before;
            *clock = before + (after - before) / 2;
            *ns = now_ns;
        }
    }
}

COLD uint64_t probe_clock_of_ns(uint64_t ns)
{
    const spgo_spp_header *h = probe_process_now.header;
    if (!probe_clock_is_tsc)
        return ns;
    const double span_ns = (double)(h->clock_last_ns - h->clock_first_ns);
    if (span_ns <= 0)
        return h->clock_first;
    const double rate = (double)(h->clock_last - h->clock_first) / span_ns;
    return h->clock_first + (uint64_t)(int64_t)(((double)ns - (double)h->clock_first_ns) * rate);
}
