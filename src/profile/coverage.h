/*
 * Coverage: how often each instruction ran, from ranges that may overlap. The walk over everything
 * that counts, for all who turn counts by address into something else.
 */
#ifndef PROFILE_COVERAGE_H
#define PROFILE_COVERAGE_H

#include <profile/address_profile.h>

enum {                       /* marks of procedures */
       COVERAGE_TOUCHED = 1, /* enters the profile whole */
       COVERAGE_SAMPLED = 2, /* some instruction has a count */
       COVERAGE_USED = 4     /* for the caller: something of it is in the profile */
};

typedef struct coverage_piece {
    uint32_t begin_rva, end_rva;
    uint32_t procedure;
} coverage_piece;

/* Counts come from files, and may add up to more than 64 bits. */
typedef struct coverage_sum {
    uint64_t low, high;
} coverage_sum;

typedef struct coverage {
    const address_profile *measured;
    const symbol_procedure *procedures; /* by entry */
    size_t procedure_count;
    uint8_t *marks;         /* of each procedure */
    coverage_piece *pieces; /* by begin, without overlap */
    size_t piece_count;
    address_range *by_last; /* the ranges again, by their ends */
    coverage_sum *begun;    /* of coverage_index: sums of the first so many ranges, by begin */
    coverage_sum *ended;    /* and by last */
} coverage;

/* Leaves a value that coverage_close takes, also when it fails. */
spgo_code coverage_open(coverage *c, const address_profile *measured, symbols *s, spgo_error *err);
void coverage_close(coverage *c);

typedef struct coverage_step {
    uint32_t procedure;
    code_instruction instruction;
    uint64_t count; /* how often it ran; saturates */
} coverage_step;

/* False ends the walk. */
typedef bool coverage_visitor(void *ctx, const coverage_step *step);

/* Every instruction of the touched procedures and every other one in a procedure that some range
 * covers, by RVA. False: the visitor ended it. */
bool coverage_walk(coverage *c, code_decoder *d, coverage_visitor *visit, void *ctx);

/* How often the instruction at an RVA ran, in any order, once coverage_index has said true (false:
 * no memory); saturates. */
bool coverage_index(coverage *c);
uint64_t coverage_count_at(const coverage *c, uint32_t rva);

/* The procedure that has the RVA in one of its pieces, and the one that is entered there; NULL:
 * none. */
const symbol_procedure *coverage_procedure_at(const coverage *c, uint32_t rva);
const symbol_procedure *coverage_entered_at(const coverage *c, uint32_t rva);

#endif
