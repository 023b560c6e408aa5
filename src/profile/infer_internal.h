/*
 * Between the parts of inference on programs: infer.c goes from procedure to procedure,
 * infer_weigh.c puts what was measured on their flow graphs, infer_emit.c takes the flows to counts
 * by address.
 */
#ifndef PROFILE_INFER_INTERNAL_H
#define PROFILE_INFER_INTERNAL_H

#include <base/counts.h>
#include <profile/infer.h>

/* How often each instruction ran by the ranges that cover it. */
typedef struct infer_coverage {
    uint32_t *starts; /* rising; the count holds from one to before the next */
    uint64_t *counts;
    size_t count;
} infer_coverage;

/* Measured counts, all shifted down by the same so that no sum of them needs more than 62 bits. */
typedef struct infer_measured {
    const address_range *ranges;
    const address_branch *branches;
    size_t range_count, branch_count;
    unsigned shift;
    uint64_t scale; /* of hits: so that a part of one is more than nothing */
    bool is_ips;
    infer_coverage coverage;
} infer_measured;

/* One procedure at work. */
typedef struct infer_unit {
    const symbol_procedure *procedure;
    flow_graph code;
    inference_graph flow; /* blocks as those of code, jumps as its edges */
    arena *mem;
} infer_unit;

/* Ranges and branches in the making, in any order. */
typedef struct infer_sink {
    address_profile found;
    size_t range_room, branch_room;
    counts entered; /* by the RVA of an entry: what branches bring there */
    bool failed;    /* without memory */
} infer_sink;

spgo_code infer_measure(infer_measured *m, const address_profile *p, bool is_ips, spgo_error *err);
void infer_measured_free(infer_measured *m);

static inline uint64_t infer_count(const infer_measured *m, uint64_t count)
{
    uint64_t shifted = count >> m->shift;
    return (shifted == 0 && count > 0 ? 1 : shifted) * m->scale;
}

/* Puts weights on the blocks and jumps of a unit. False without memory. */
bool infer_weigh(infer_unit *u, const infer_measured *m);

void infer_add_range(infer_sink *s, uint32_t begin_rva, uint32_t last_rva, uint64_t count);
void infer_add_branch(infer_sink *s, uint32_t from_rva, uint32_t to_rva, uint64_t count);

/* Adds the flows of a unit: what its blocks ran and where its jumps went; with calls, also what it
 * called, since only branch records measure that. */
void infer_emit(infer_sink *s, const infer_unit *u, symbols *sy, bool with_calls);

/* Sorts all, adds up what is the same, and gives it away. */
spgo_code infer_finish(infer_sink *s, address_profile *out, spgo_error *err);
void infer_sink_free(infer_sink *s);

/* The first branch that leaves an address at or above from_rva, in a sorted list. */
size_t infer_first_branch(const address_branch *branches, size_t count, uint32_t from_rva,
                          uint32_t to_rva);

#endif
