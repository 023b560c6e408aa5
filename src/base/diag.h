/*
 * A bounded list of findings: what was wrong in an input that could be read all the same. Beyond
 * the bound findings are only counted, so that one bad record neither discards a file nor floods
 * a terminal.
 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include <base/fail.h>

enum { DIAG_KEPT_MAX = 64 };

typedef struct diag_item {
    spgo_code code;     /* the kind of finding */
    uint64_t offset;    /* of the first bad byte, or SPGO_NO_OFFSET */
    char sentence[240]; /* what is wrong, with the value */
} diag_item;

typedef struct diag {
    diag_item kept[DIAG_KEPT_MAX];
    size_t kept_count;
    uint64_t total;
} diag;

SPGO_PRINTF(4, 5)
void diag_add(diag *d, spgo_code code, uint64_t offset, const char *fmt, ...); /* d may be NULL */

#endif
