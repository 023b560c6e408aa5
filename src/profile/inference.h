/*
 * Flow inference: given a flow graph whose blocks and jumps carry measured weights, or none, the
 * most likely flow through it: what enters a block leaves it, and the weights are what such a flow
 * would most probably have been measured as. The graph is of plain numbers: it knows nothing of
 * code.
 *
 * A minimum-cost flow problem after Levin, Newman and Haber ("Complementing missing and inaccurate
 * profiling using a minimum cost circulation algorithm", 2008) and He, Mestre, Pupyrev, Wang and Yu
 * ("Profile inference revisited", 2022), written from their descriptions; doc/inference.md tells
 * what is done otherwise and why.
 */
#ifndef PROFILE_INFERENCE_H
#define PROFILE_INFERENCE_H

#include <spgo/error.h>

typedef struct inference_block {
    uint64_t weight;     /* measured; only with is_known */
    uint32_t confidence; /* how much the weight counts against others; 0 is as 1 */
    bool is_known;       /* false: nothing is known, any flow costs nothing */
    bool is_unlikely;    /* only if there is no other way: leads to a trap or to cold code only */
    bool is_exit;        /* flow may leave the function here */
    uint64_t flow;       /* the result */
} inference_block;

typedef struct inference_jump {
    uint32_t from, to;
    uint32_t confidence;
    bool is_known, is_unlikely;
    uint64_t weight;
    uint64_t flow; /* the result */
} inference_jump;

typedef struct inference_graph {
    inference_block *blocks;
    inference_jump *jumps; /* any order; several between two blocks are fine */
    size_t block_count, jump_count;
    uint32_t entry;
    uint64_t work_max; /* 0: as much as a function of this size should need */
    uint64_t work;     /* the result: steps, of some 15 ns each */
} inference_graph;

enum { INFERENCE_SIZE_MAX = 1 << 20 }; /* of block_count and jump_count */

/*
 * Fills in the flows. The same graph gives the same flows. A weight says most about flows if it is
 * some dozens or more, so counts of few are better multiplied first.
 *
 * Work is bounded: beyond the bound the best flow found so far is used and *exact is false (may be
 * NULL). Blocks that no exit can be reached from (endless loops) and blocks that the entry does not
 * reach may be left and entered from nowhere. Weights of more than 2^60 in sum are rounded to a
 * common multiple, and where the flows would not fit into 63 bits they are all smaller by a power
 * of two.
 *
 * SPGO_CORRUPT: a jump to or an entry at no block; SPGO_LIMIT; SPGO_NOMEM.
 */
spgo_code inference_run(inference_graph *g, bool *exact, spgo_error *err);

#endif
