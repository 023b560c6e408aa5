/* The only place an error is born: one breakpoint on spgo_fail_ catches them all. */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include <spgo/error.h>

#if defined(__MINGW32__)
#define SPGO_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#elif defined(__GNUC__)
#define SPGO_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define SPGO_PRINTF(fmt, args)
#endif

/* Fills err (which may be NULL) and returns code, so that callers write `return spgo_fail(...)`. */
SPGO_PRINTF(5, 6)
spgo_code spgo_fail(spgo_error *err, spgo_code code, const char *where, uint64_t offset,
                    const char *fmt, ...);

/* As spgo_fail with SPGO_IO, keeping errno value `sys`. Its text goes before the way out, the part
 * of the sentence that begins with "; ", or to the end. */
SPGO_PRINTF(4, 5)
spgo_code spgo_fail_sys(spgo_error *err, int sys, const char *where, const char *fmt, ...);

spgo_code spgo_fail_nomem(spgo_error *err, const char *where, size_t size_bytes);

#define SPGO_TRY(expr)                                                                             \
    do {                                                                                           \
        spgo_code try_code_ = (expr);                                                              \
        if (try_code_ != SPGO_OK)                                                                  \
            return try_code_;                                                                      \
    } while (0)

#endif
