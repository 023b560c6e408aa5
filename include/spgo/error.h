/*
 * Failures are values. A fallible function returns an spgo_code and fills an optional spgo_error.
 * Damaged input is never an assertion; a caller that breaks a contract is.
 */
#ifndef SPGO_ERROR_H
#define SPGO_ERROR_H

#include <spgo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum spgo_code {
    SPGO_OK = 0,
    SPGO_TRUNCATED,   /* the input ends inside a structure */
    SPGO_CORRUPT,     /* the input breaks a rule of its format */
    SPGO_UNSUPPORTED, /* well-formed as far as can be told, but a kind that is not read here */
    SPGO_LIMIT,       /* a limit of the format or of this library is exceeded */
    SPGO_MISMATCH,    /* two inputs do not belong together */
    SPGO_NOT_FOUND,
    SPGO_NOMEM,
    SPGO_IO,    /* the operating system said no; see sys_errno */
    SPGO_USAGE, /* the caller asked for something that makes no sense */
    SPGO_CODE_COUNT
} spgo_code;

#define SPGO_NO_OFFSET UINT64_MAX

/* The first thing that went wrong. `where` is static text such as "spt.header". */
typedef struct spgo_error {
    spgo_code code;
    int sys_errno;   /* 0 if the operating system was not involved */
    uint64_t offset; /* absolute offset of the first bad byte in the input, or SPGO_NO_OFFSET */
    const char *where;
    char sentence[320]; /* what is wrong, with the value, and the way out; no final newline */
} spgo_error;

/* "truncated", "corrupt", ...; never NULL. */
const char *spgo_code_name(spgo_code code);

#ifdef __cplusplus
}
#endif
#endif
