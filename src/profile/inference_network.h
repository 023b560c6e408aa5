/*
 * Minimum-cost circulations: flows through a directed graph that enter a node as much as they leave
 * it, keep to the capacities, and cost least in sum. Costs may be negative: an arc that earns. This
 * is what flow inference is made into.
 */
#ifndef PROFILE_INFERENCE_NETWORK_H
#define PROFILE_INFERENCE_NETWORK_H

#include <base/arena.h>
#include <base/fail.h>

#define NETWORK_NO_GROUP UINT32_MAX

/* Sums of capacities of arcs that earn stay below half of this, so it is as good as no bound. */
#define NETWORK_UNBOUNDED ((uint64_t)1 << 62)

typedef struct network_arc {
    uint32_t from, to;
    uint32_t group; /* arcs whose flows are one for network_even, or NETWORK_NO_GROUP */
    int64_t cost;   /* of a unit */
    uint64_t capacity;
    uint64_t flow; /* the result */
} network_arc;

typedef struct network {
    network_arc *arcs;
    size_t arc_count;
    uint32_t node_count, group_count;
    uint32_t root;     /* every node has a way to it along arcs with capacity */
    uint64_t work_max; /* steps; then the best flow so far stays */
    uint64_t work;     /* the result: how many it took */
} network;

/*
 * Finds a circulation of least cost, then among those of that cost a more even one: the sum of the
 * squares of the groups' flows is lowered as far as turning along single cycles can. *exact:
 * whether the bound on work was kept; the flow is a circulation in any case. Memory for the time of
 * the work is taken from mem.
 */
spgo_code network_solve(network *net, arena *mem, bool *exact, spgo_error *err);

#endif
