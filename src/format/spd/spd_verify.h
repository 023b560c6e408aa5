/* What the files of spd_verify share. */
#ifndef SPD_VERIFY_H
#define SPD_VERIFY_H

#include "spd_internal.h"

typedef struct verifier {
    const spd *doc;
    bool (*found)(void *ctx, const spd_finding *finding);
    void *ctx;
    spd_verdict *verdict;
    bool stopped;
    bool no_memory;
    uint64_t *sums;    /* room for as many as the largest function has blocks */
    spd_range *ranges; /* room for as many as the largest function has ranges */
} verifier;

SPGO_PRINTF(5, 6)
void spd_report(verifier *v, spd_severity severity, const char *rule, uint64_t offset,
                const char *fmt, ...);

/* A word that is `usual` in all known files. */
void spd_check_word(verifier *v, uint64_t offset, const char *what, uint32_t word, uint32_t usual);

/* Bits that no known file has. */
void spd_check_bits(verifier *v, uint64_t offset, const char *what, uint32_t flags, uint32_t known);

/* All rules about the inside of a function. */
void spd_verify_function(verifier *v, const spd_function *f);

#endif
