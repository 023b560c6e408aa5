/* Walks over the jumps of an inference graph, in or against their direction. */
#ifndef PROFILE_INFERENCE_PATHS_H
#define PROFILE_INFERENCE_PATHS_H

#include <base/arena.h>
#include <profile/inference.h>

/* The jumps of each block: those of block b are jumps[start[b]] to jumps[start[b + 1]]. */
typedef struct inference_ways {
    const inference_graph *graph;
    uint32_t *start, *jumps;
    bool against; /* lists the jumps that end at a block and walks them backwards */
} inference_ways;

bool inference_ways_list(const inference_graph *g, bool against, arena *mem, inference_ways *out);

static inline uint32_t inference_ways_next(const inference_ways *w, uint32_t jump)
{
    return w->against ? w->graph->jumps[jump].from : w->graph->jumps[jump].to;
}

/*
 * Completes a set of starts, so that each block can be reached from one of them: first as many as
 * it takes, by choosing one block of each strongly connected part that nothing outside leads to.
 */
bool inference_complete_starts(const inference_ways *w, bool *is_start, arena *mem);

/*
 * Parts with flow that the entry reaches by no jumps with flow, loops for example, are given one
 * unit from the entry and on to a leaving block, along blocks that have flow if possible. enters,
 * leaves: where flow may enter and leave the function. False without memory. *work: steps that may
 * still be done; when none are left the rest stays as it is.
 */
bool inference_join_islands(inference_graph *g, const bool *enters, const bool *leaves,
                            uint64_t *work, arena *mem);

#endif
