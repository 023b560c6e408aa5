/*
 * System calls without the C library: in a signal handler nothing may touch errno, and a program
 * may have put its own functions in place of the library's.
 */
#ifndef STEP_RUNTIME_STEP_SYSTEM_H
#define STEP_RUNTIME_STEP_SYSTEM_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

/* The result, or -errno. */
static inline long step_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long step_sys(long n, long a, long b, long c, long d)
{
    return step_sys6(n, a, b, c, d, 0, 0);
}

static inline uint64_t step_clock_ns(clockid_t clock)
{
    struct timespec t = {0};
    (void)step_sys(SYS_clock_gettime, clock, (long)&t, 0, 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint32_t step_pid(void)
{
    return (uint32_t)step_sys(SYS_getpid, 0, 0, 0, 0);
}

#endif
