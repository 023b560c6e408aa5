/* Errors are born here: see fail.h. */
#include <base/fail.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *spgo_code_name(spgo_code code)
{
    static const char *const names[SPGO_CODE_COUNT] = {
        [SPGO_OK] = "ok",
        [SPGO_TRUNCATED] = "truncated",
        [SPGO_CORRUPT] = "corrupt",
        [SPGO_UNSUPPORTED] = "unsupported",
        [SPGO_LIMIT] = "limit",
        [SPGO_MISMATCH] = "mismatch",
        [SPGO_NOT_FOUND] = "not-found",
        [SPGO_NOMEM] = "out-of-memory",
        [SPGO_IO] = "input-output",
        [SPGO_USAGE] = "usage",
    };
    return (unsigned)code < SPGO_CODE_COUNT ? names[code] : "unknown";
}

SPGO_PRINTF(6, 0)
static spgo_code fill(spgo_error *err, spgo_code code, int sys, const char *where, uint64_t offset,
                      const char *fmt, va_list args)
{
    if (!err)
        return code;
    err->code = code;
    err->sys_errno = sys;
    err->offset = offset;
    err->where = where;
    vsnprintf(err->sentence, sizeof err->sentence, fmt, args);
    return code;
}

spgo_code spgo_fail(spgo_error *err, spgo_code code, const char *where, uint64_t offset,
                    const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, code, 0, where, offset, fmt, args);
    va_end(args);
    return code;
}

spgo_code spgo_fail_sys(spgo_error *err, int sys, const char *where, const char *fmt, ...)
{
    if (!err)
        return SPGO_IO;
    va_list args;
    va_start(args, fmt);
    fill(err, SPGO_IO, sys, where, SPGO_NO_OFFSET, fmt, args);
    va_end(args);
    char way_out[sizeof err->sentence] = "";
    char *end = strstr(err->sentence, "; ");
    if (end)
        strcpy(way_out, end);
    else
        end = err->sentence + strlen(err->sentence);
    size_t room = sizeof err->sentence - (size_t)(end - err->sentence);
    snprintf(end, room, ": %s%s", strerror(sys), way_out);
    return SPGO_IO;
}

spgo_code spgo_fail_nomem(spgo_error *err, const char *where, size_t size_bytes)
{
    return spgo_fail(err, SPGO_NOMEM, where, SPGO_NO_OFFSET,
                     "no memory for %zu bytes; free some or use a machine with more", size_bytes);
}
