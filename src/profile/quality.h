/* How good a profile is: whether there were enough samples, and how much of them could be used. */
#ifndef PROFILE_QUALITY_H
#define PROFILE_QUALITY_H

#include <profile/profile.h>

/* llvm-profgen's threshold of density. */
#define QUALITY_DENSITY_THRESHOLD 50

/* Shares are of 1. */
typedef struct quality {
    double density; /* llvm-profgen's: body samples for each place of the profile, in the functions
                       that together hold 99 % of them, of the least dense one */
    double more_samples_wanted;             /* threshold / density; 0: there are enough */
    uint64_t blocks;                        /* of the procedures with samples */
    uint64_t blocks_before, blocks_after;   /* with counts: as measured, and after inference */
    double flow_gap_before, flow_gap_after; /* sum of |in - out| over sum of max(in, out) */
    double bogus_share;        /* of ranges: across an instruction that always leaves */
    double unmapped_share;     /* of ranges or hits: in no known function */
    double mismatched_share;   /* of branches: do not fit the instruction they start from */
    uint64_t stale_procedures; /* most of whose branches do not fit their code: it is of another
                                  build */
} quality;

static inline double quality_share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* Of a result that is correlated. */
spgo_code quality_measure(const profile_result *r, symbols *s, code_decoder *d, quality *q,
                          spgo_error *err);

#endif
