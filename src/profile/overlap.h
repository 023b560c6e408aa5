/*
 * How alike two sample profiles are, by the formulas of llvm-profdata overlap --sample, and where
 * they differ. All shares are fractions from 0 to 1.
 *
 * What is compared are the counts of places: a function's own, and those of callees inlined into
 * it, place by place, as long as both profiles have the callee there. The samples of a function are
 * the sum of these counts, so that neither totals in bytes nor head counts matter.
 *
 *   block      |count_a / samples_a - count_b / samples_b|, with the samples of its function
 *   function   (1 - half the sum of its blocks) * (1 - |weight_a - weight_b|)
 *   program    sum of function similarity * (weight_a + weight_b) / 2
 *
 * where the weight of a function is its share of all samples.
 */
#ifndef PROFILE_OVERLAP_H
#define PROFILE_OVERLAP_H

#include <format/sampleprof/sampleprof.h>

typedef struct overlap_function {
    spgo_str name; /* of a profile, which must live as long */
    bool in_a, in_b;
    double similarity;
    double weight_a, weight_b;
    double difference; /* what it takes from the program's similarity */
    uint64_t samples_a, samples_b;
    uint64_t samples_overlap, samples_union; /* sums of the smaller and of the larger counts */
    uint64_t unique_a, unique_b;             /* samples at places or in callees that only one has */
} overlap_function;

/* How many are in both profiles and in one alone; share: of those in any, in both. */
typedef struct overlap_set {
    uint64_t both, only_a, only_b;
    double share;
} overlap_set;

typedef struct overlap_result {
    double program;
    double sample_overlap; /* sum of the smaller counts over that of the larger ones */
    uint64_t samples_a, samples_b;
    uint64_t unique_a, unique_b; /* samples at places, in callees or functions that only one has */
    uint64_t hot_count_a, hot_count_b; /* least counts that are hot */
    overlap_set functions, hot_functions, hot_blocks;
    overlap_function *items; /* by falling difference, then name; owned */
    size_t item_count;
} overlap_result;

/*
 * Hot is what LLVM calls so at the cutoff, of 1,000,000 (its default is 990,000); with less than
 * the first or more than the last cutoff of its summary nothing is hot. SPGO_NOT_FOUND: a profile
 * without samples; SPGO_MISMATCH: only one has probes, or MD5 names.
 */
spgo_code overlap_compare(const sampleprof *a, const sampleprof *b, uint32_t hot_cutoff,
                          overlap_result *result, spgo_error *err);
void overlap_free(overlap_result *r);

/* A place with a count, or a callee that is inlined at one. */
typedef struct overlap_block {
    unsigned depth; /* 0: of the function itself, more: of callees */
    sampleprof_place place;
    bool in_a, in_b;
    uint64_t count_a, count_b; /* of a place */
    const sampleprof_function *callee_a,
        *callee_b; /* NULL both: a place. Both: its blocks follow */
} overlap_block;

typedef void overlap_visit(void *ctx, const overlap_block *block);

/* Calls visit for all blocks of a function in order: lines, then callees. Either may be NULL. */
void overlap_walk(const sampleprof_function *a, const sampleprof_function *b, overlap_visit *visit,
                  void *ctx);

/* The samples of a function, in all callees too. */
uint64_t overlap_samples(const sampleprof_function *f);

#endif
