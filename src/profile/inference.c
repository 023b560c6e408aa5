/*
 * From a flow graph to a network whose circulations are its flows, and back.
 *
 * Each block is two nodes with arcs from the one where it is entered to the one where it is left.
 * What a flow through it costs is a convex function of the flow, made of straight pieces, and each
 * piece is an arc: one of lower cost is filled before the next. Jumps are the same between two
 * blocks. A last node, the world around, closes the circle from where functions are left to where
 * they are entered.
 */
#include <profile/inference.h>

#include <profile/inference_network.h>
#include <profile/inference_paths.h>

#define UNLIKELY_COST ((uint64_t)1 << 32)
#define COST_MAX ((uint64_t)1 << 34) /* times the nodes of a path: still in 63 bits */
#define WEIGHT_SUM_MAX ((uint64_t)1 << 60)

/* A step takes 10 to 40 ns. A function of 10,000 blocks takes some 600 steps an arc. */
#define WORK_BASE ((uint64_t)1 << 20)
#define WORK_PER_ARC ((uint64_t)1 << 12)
#define WORK_MAX ((uint64_t)1 << 27)

/* ------------------------------------------------------------------ into the network */

/* How far weights are shifted down, so that sums of them are no trouble. */
static unsigned weight_shift(const inference_graph *g)
{
    uint64_t high = 0, low = 0; /* the sum is high * 2^32 + low */
    for (size_t i = 0; i < g->block_count + g->jump_count; i++) {
        uint64_t w = i < g->block_count ? g->blocks[i].weight : g->jumps[i - g->block_count].weight;
        high += w >> 32;
        low += w & UINT32_MAX;
    }
    high += low >> 32;
    unsigned shift = 0;
    while (high >> shift >= WEIGHT_SUM_MAX >> 32)
        shift++;
    return shift;
}

static uint64_t shifted(uint64_t weight, unsigned shift)
{
    uint64_t w = weight >> shift;
    return w == 0 && weight > 0 ? 1 : w;
}

static void add_arc(network *net, uint32_t from, uint32_t to, uint32_t group, int64_t cost,
                    uint64_t capacity)
{
    net->arcs[net->arc_count++] =
        (network_arc){.from = from, .to = to, .group = group, .cost = cost, .capacity = capacity};
}

/*
 * The cost of a flow f where w was measured is f - w ln f, which is how unlikely w is, as a number
 * of random events, if f is expected. This is its slope, in thousandths, between parts of w.
 */
enum { PARTS = 24 }; /* bounds are 24ths of w */

static const struct piece {
    uint32_t end;
    int32_t slope;
} pieces[] = {
    {3, -20000}, {6, -4545}, {12, -1773}, {18, -622}, {24, -151}, {32, 137}, {48, 392}, {96, 653},
};

enum { PIECE_COUNT = sizeof pieces / sizeof *pieces, SLOPE_AT_LAST = 1000 };

/* What is known of the flow between two nodes. */
typedef struct measure {
    bool is_known, is_unlikely;
    uint64_t weight;
    uint32_t confidence;
} measure;

static int64_t cost_of(const measure *m, int32_t slope)
{
    uint64_t cost = (uint64_t)(slope < 0 ? -slope : slope) * (m->confidence ? m->confidence : 1);
    if (cost > COST_MAX)
        cost = COST_MAX;
    return slope < 0 ? -(int64_t)cost : (int64_t)cost;
}

static uint64_t part_of(uint64_t weight, uint32_t part)
{
    return weight / PARTS * part + weight % PARTS * part / PARTS;
}

static void add_measured(network *net, uint32_t from, uint32_t to, uint32_t group, const measure *m)
{
    uint64_t begin = 0;
    for (size_t i = 0; i < PIECE_COUNT && m->is_known && m->weight > 0; i++) {
        uint64_t end = part_of(m->weight, pieces[i].end);
        bool is_raise = pieces[i].slope > 0;
        if (end > begin && !(is_raise && m->is_unlikely))
            add_arc(net, from, to, group, cost_of(m, pieces[i].slope), end - begin);
        begin = end;
    }
    int64_t cost = m->is_known ? cost_of(m, SLOPE_AT_LAST) : 0;
    if (m->is_unlikely && cost < (int64_t)UNLIKELY_COST)
        cost = (int64_t)UNLIKELY_COST;
    add_arc(net, from, to, group, cost, NETWORK_UNBOUNDED);
}

static uint32_t entered_node(uint32_t block)
{
    return 2 * block;
}

static uint32_t left_node(uint32_t block)
{
    return 2 * block + 1;
}

static void add_block(network *net, const inference_graph *g, uint32_t b, unsigned shift)
{
    const inference_block *block = &g->blocks[b];
    measure m = {.is_known = block->is_known,
                 .is_unlikely = block->is_unlikely,
                 .weight = shifted(block->weight, shift),
                 .confidence = block->confidence};
    add_measured(net, entered_node(b), left_node(b), NETWORK_NO_GROUP, &m);
}

static void add_jump(network *net, const inference_graph *g, uint32_t j, unsigned shift)
{
    const inference_jump *jump = &g->jumps[j];
    measure m = {.is_known = jump->is_known,
                 .is_unlikely = jump->is_unlikely,
                 .weight = shifted(jump->weight, shift),
                 .confidence = jump->confidence};
    add_measured(net, left_node(jump->from), entered_node(jump->to), j, &m);
}

/* The most arcs there can be. */
static size_t arc_room(const inference_graph *g)
{
    enum { ENDS = 2 }; /* of a block: into the function and out of it */
    size_t count = ENDS * g->block_count;
    for (size_t b = 0; b < g->block_count; b++)
        count += g->blocks[b].is_known && g->blocks[b].weight > 0 ? PIECE_COUNT + 1 : 1;
    for (size_t j = 0; j < g->jump_count; j++)
        count += g->jumps[j].is_known && g->jumps[j].weight > 0 ? PIECE_COUNT + 1 : 1;
    return count;
}

static bool build_network(const inference_graph *g, unsigned shift, const bool *enters,
                          const bool *leaves, arena *mem, network *net)
{
    uint32_t n = (uint32_t)g->block_count;
    net->arcs = arena_push(mem, arc_room(g), sizeof *net->arcs);
    if (!net->arcs)
        return false;
    net->node_count = 2 * n + 1;
    net->group_count = (uint32_t)g->jump_count;
    net->root = 2 * n;
    for (uint32_t b = 0; b < n; b++)
        add_block(net, g, b, shift);
    for (uint32_t j = 0; j < g->jump_count; j++)
        add_jump(net, g, j, shift);
    for (uint32_t b = 0; b < n; b++) {
        if (enters[b])
            add_arc(net, net->root, entered_node(b), NETWORK_NO_GROUP, 0, NETWORK_UNBOUNDED);
        if (leaves[b])
            add_arc(net, left_node(b), net->root, NETWORK_NO_GROUP, 0, NETWORK_UNBOUNDED);
    }
    uint64_t most = g->work_max > 0 && g->work_max < WORK_MAX ? g->work_max : WORK_MAX;
    uint64_t work = WORK_BASE + WORK_PER_ARC * net->arc_count;
    net->work_max = work < most ? work : most;
    return true;
}

/* ------------------------------------------------------------------ and back */

static void read_flows(inference_graph *g, const network *net)
{
    for (size_t b = 0; b < g->block_count; b++)
        g->blocks[b].flow = 0;
    for (size_t j = 0; j < g->jump_count; j++)
        g->jumps[j].flow = 0;
    for (size_t i = 0; i < net->arc_count; i++) {
        const network_arc *a = &net->arcs[i];
        if (a->group != NETWORK_NO_GROUP)
            g->jumps[a->group].flow += a->flow;
        else if (a->from != net->root && a->to != net->root)
            g->blocks[a->from / 2].flow += a->flow;
    }
}

/* Undoes the shift of the weights, as far as the largest flow stays below 2^63. */
static void scale_flows(inference_graph *g, unsigned shift)
{
    uint64_t bits = 0;
    for (size_t b = 0; b < g->block_count; b++)
        bits |= g->blocks[b].flow;
    while (shift > 0 && bits << shift >> shift != bits)
        shift--;
    while (shift > 0 && bits << shift >> 63 != 0)
        shift--;
    for (size_t b = 0; b < g->block_count; b++)
        g->blocks[b].flow <<= shift;
    for (size_t j = 0; j < g->jump_count; j++)
        g->jumps[j].flow <<= shift;
}

static spgo_code check(const inference_graph *g, spgo_error *err)
{
    if (g->block_count > INFERENCE_SIZE_MAX || g->jump_count > INFERENCE_SIZE_MAX)
        return spgo_fail(err, SPGO_LIMIT, "inference", SPGO_NO_OFFSET,
                         "a flow graph of %zu blocks and %zu jumps is larger than %d of either",
                         g->block_count, g->jump_count, INFERENCE_SIZE_MAX);
    if (g->entry >= g->block_count)
        return spgo_fail(err, SPGO_CORRUPT, "inference", SPGO_NO_OFFSET,
                         "the entry of a flow graph is block %u of %zu", g->entry, g->block_count);
    for (size_t j = 0; j < g->jump_count; j++) {
        uint32_t from = g->jumps[j].from, to = g->jumps[j].to;
        if (from >= g->block_count || to >= g->block_count)
            return spgo_fail(err, SPGO_CORRUPT, "inference", SPGO_NO_OFFSET,
                             "jump %zu of a flow graph leads from block %u to block %u of %zu", j,
                             from, to, g->block_count);
    }
    return SPGO_OK;
}

/* Where flow enters and leaves: as the graph says, and where else nothing could. */
static bool find_ends(const inference_graph *g, arena *mem, bool **enters, bool **leaves)
{
    inference_ways out, in;
    *enters = arena_push(mem, g->block_count, sizeof **enters);
    *leaves = arena_push(mem, g->block_count, sizeof **leaves);
    if (!*enters || !*leaves || !inference_ways_list(g, false, mem, &out) ||
        !inference_ways_list(g, true, mem, &in))
        return false;
    (*enters)[g->entry] = true;
    for (size_t b = 0; b < g->block_count; b++)
        (*leaves)[b] = g->blocks[b].is_exit;
    return inference_complete_starts(&out, *enters, mem) &&
           inference_complete_starts(&in, *leaves, mem);
}

static spgo_code run(inference_graph *g, bool *exact, arena *mem, spgo_error *err)
{
    network net = {0};
    bool *enters, *leaves;
    unsigned shift = weight_shift(g);
    if (!find_ends(g, mem, &enters, &leaves) || !build_network(g, shift, enters, leaves, mem, &net))
        return spgo_fail_nomem(err, "inference", g->block_count * sizeof(network_arc));
    SPGO_TRY(network_solve(&net, mem, exact, err));
    g->work = net.work;
    read_flows(g, &net);
    uint64_t work = net.work_max;
    if (!inference_join_islands(g, enters, leaves, &work, mem))
        return spgo_fail_nomem(err, "inference", g->block_count * sizeof(network_arc));
    if (work == 0)
        *exact = false;
    scale_flows(g, shift);
    return SPGO_OK;
}

spgo_code inference_run(inference_graph *g, bool *exact, spgo_error *err)
{
    bool within_bound;
    SPGO_TRY(check(g, err));
    arena *mem = arena_new(0);
    if (!mem)
        return spgo_fail_nomem(err, "inference", 0);
    spgo_code code = run(g, &within_bound, mem, err);
    arena_free(mem);
    if (code == SPGO_OK && exact)
        *exact = within_bound;
    return code;
}
