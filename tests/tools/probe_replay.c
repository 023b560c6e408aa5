/*
 * probe_replay: makes the probe runtime see calls, times and events that a script tells, and so an
 * SPP file whose values are known. The runtime is linked in; its clock is the script's, and its
 * quick ways, which read the processor's, stay closed.
 *
 * The script is standard input, one thread after the other, each begun by "T":
 *     E function site ticks event     a call is entered, so many ticks after the last probe
 *     X function site ticks event     the call on top returns
 *     L                               the call on top ends without its exit probe
 * Functions and sites are hexadecimal numbers; event is 1 if one of the operating system came.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../src/probe_runtime/runtime.h"

static uint64_t clock_ns = 1000000000;

void __wrap_probe_clock_choose(void);
uint64_t __wrap_probe_clock_monotonic_ns(void);

void __wrap_probe_clock_choose(void)
{
    probe_clock_is_tsc = false;
}

uint64_t __wrap_probe_clock_monotonic_ns(void)
{
    return clock_ns;
}

static char line[256];

static bool next_line(void)
{
    return fgets(line, sizeof line, stdin) != NULL;
}

static void probe(void)
{
    unsigned long long function, site;
    long long ticks;
    int event;
    char kind;
    if (sscanf(line, "%c %llx %llx %lld %d", &kind, &function, &site, &ticks, &event) != 5) {
        fprintf(stderr, "probe_replay: what is this: %s", line);
        exit(2);
    }
    clock_ns += (uint64_t)ticks;
    probe_self->os_none += event != 0;
    void *const f = (void *)(uintptr_t)function, *const s = (void *)(uintptr_t)site;
    if (kind == 'E')
        __cyg_profile_func_enter(f, s);
    else
        __cyg_profile_func_exit(f, s);
}

/* Frames of the script are frames of this program, so that deeper calls lie deeper. */
static __attribute__((noinline)) void call(volatile char *outer)
{
    volatile char inner[32];
    inner[0] = outer ? outer[0] : 0;
    probe();
    while (next_line()) {
        if (line[0] == 'E') {
            call(inner);
            if (line[0] == 'T')
                return;
            continue;
        }
        if (line[0] == 'X')
            probe();
        return;
    }
    line[0] = 'T';
    line[1] = '\0';
}

static void *thread(void *unused)
{
    (void)unused;
    while (next_line() && line[0] == 'E')
        call(NULL);
    return NULL;
}

int main(void)
{
    if (!next_line())
        return 0;
    while (line[0] == 'T' && !feof(stdin)) {
        pthread_t t;
        if (pthread_create(&t, NULL, thread, NULL) != 0)
            return 1;
        pthread_join(t, NULL);
    }
    return 0;
}
