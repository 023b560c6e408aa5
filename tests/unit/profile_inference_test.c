/* Flow inference on graphs of numbers: small ones by hand, many random ones against another way to
 * find the least cost, and those that are made to be hard. */
#include "test_data.h"

#include <profile/inference.h>
#include <profile/inference_network.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS_MAX = 64, JUMPS_MAX = 256 };

typedef struct fixture {
    inference_block blocks[BLOCKS_MAX];
    inference_jump jumps[JUMPS_MAX];
    inference_graph g;
} fixture;

static fixture *graph_new(void)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->g.blocks = f->blocks;
    f->g.jumps = f->jumps;
    return f;
}

static uint32_t known(fixture *f, uint64_t weight)
{
    f->blocks[f->g.block_count] = (inference_block){.weight = weight, .is_known = true};
    return (uint32_t)f->g.block_count++;
}

static uint32_t unknown(fixture *f)
{
    f->blocks[f->g.block_count] = (inference_block){0};
    return (uint32_t)f->g.block_count++;
}

static void jump(fixture *f, uint32_t from, uint32_t to)
{
    f->jumps[f->g.jump_count++] = (inference_jump){.from = from, .to = to};
}

static void known_jump(fixture *f, uint32_t from, uint32_t to, uint64_t weight)
{
    f->jumps[f->g.jump_count++] =
        (inference_jump){.from = from, .to = to, .weight = weight, .is_known = true};
}

static void run(fixture *f)
{
    bool exact = false;
    assert_int_equal(inference_run(&f->g, &exact, NULL), SPGO_OK);
    assert_true(exact);
}

static void reach(const inference_graph *g, bool *reached, bool with_flow, bool backwards)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t j = 0; j < g->jump_count; j++) {
            const inference_jump *jump_ = &g->jumps[j];
            uint32_t a = backwards ? jump_->to : jump_->from;
            uint32_t b = backwards ? jump_->from : jump_->to;
            if (reached[a] && !reached[b] && (!with_flow || jump_->flow > 0))
                changed = reached[b] = true;
        }
    }
}

/* What enters a block by jumps is its flow, unless it is where the function is entered; what leaves
 * it likewise. Whatever has flow is reached by flow. */
static void check_flow(const inference_graph *g)
{
    uint64_t *in = calloc(g->block_count, sizeof *in), *out = calloc(g->block_count, sizeof *out);
    bool *reached = calloc(g->block_count, 1), *leaves = calloc(g->block_count, 1);
    bool *entered = calloc(g->block_count, 1);
    assert_true(in && out && reached && leaves && entered);
    for (size_t j = 0; j < g->jump_count; j++) {
        in[g->jumps[j].to] += g->jumps[j].flow;
        out[g->jumps[j].from] += g->jumps[j].flow;
    }
    for (size_t b = 0; b < g->block_count; b++)
        leaves[b] = g->blocks[b].is_exit;
    reach(g, leaves, false, true);
    reached[g->entry] = entered[g->entry] = true;
    reach(g, reached, false, false);
    for (size_t b = 0; b < g->block_count; b++) {
        assert_true(in[b] <= g->blocks[b].flow && out[b] <= g->blocks[b].flow);
        if (b != g->entry && reached[b])
            assert_int_equal(in[b], g->blocks[b].flow);
        if (!g->blocks[b].is_exit && leaves[b])
            assert_int_equal(out[b], g->blocks[b].flow);
        entered[b] = b == g->entry || in[b] < g->blocks[b].flow;
    }
    reach(g, entered, true, false);
    for (size_t b = 0; b < g->block_count; b++)
        assert_true(g->blocks[b].flow == 0 || entered[b] || !reached[b]);
    free(in);
    free(out);
    free(reached);
    free(leaves);
    free(entered);
}

/* ------------------------------------------------------------------ by hand */

static void measured_flow_that_fits_stays(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 100), b = known(f, 70), c = known(f, 30), d = known(f, 100);
    jump(f, a, b);
    jump(f, a, c);
    jump(f, b, d);
    jump(f, c, d);
    f->blocks[d].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[a].flow, 100);
    assert_int_equal(f->blocks[b].flow, 70);
    assert_int_equal(f->blocks[c].flow, 30);
    assert_int_equal(f->blocks[d].flow, 100);
    assert_int_equal(f->jumps[0].flow, 70);
    assert_int_equal(f->jumps[3].flow, 30);
    free(f);
}

static void unknown_blocks_take_what_the_known_leave(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 100), b = known(f, 60), c = unknown(f), d = unknown(f);
    jump(f, a, b);
    jump(f, a, c);
    jump(f, b, d);
    jump(f, c, d);
    f->blocks[d].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[c].flow, 40);
    assert_int_equal(f->blocks[d].flow, 100);
    free(f);
}

/* A chain has one count. The likeliest is the mean of those measured, as far as pieces of the cost
 * can tell: it lies at a bound of one of them. */
static void a_chain_has_about_the_mean(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 120), b = known(f, 240), c = known(f, 240), d = known(f, 120);
    jump(f, a, b);
    jump(f, b, c);
    jump(f, c, d);
    f->blocks[d].is_exit = true;
    run(f);
    for (uint32_t i = a; i <= d; i++)
        assert_int_equal(f->blocks[i].flow, f->blocks[a].flow);
    assert_in_range(f->blocks[a].flow, 160, 200);
    free(f);
}

static void a_block_that_was_missed_does_not_stop_a_flow(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 1000), b = known(f, 0), c = known(f, 1000);
    jump(f, a, b);
    jump(f, b, c);
    f->blocks[c].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[b].flow, f->blocks[a].flow);
    assert_in_range(f->blocks[b].flow, 500, 1000);
    free(f);
}

static void confidence_decides_between_two(void **state)
{
    (void)state;
    for (int sure = 1; sure <= 2; sure++) {
        fixture *f = graph_new();
        uint32_t a = unknown(f), b = known(f, 12), c = known(f, 48);
        jump(f, a, b);
        jump(f, b, c);
        f->blocks[c].is_exit = true;
        f->blocks[sure].confidence = 100;
        run(f);
        assert_int_equal(f->blocks[a].flow, sure == 1 ? 12 : 48);
        free(f);
    }
}

static void equal_ways_share_evenly(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 900), z = known(f, 900);
    for (int i = 0; i < 3; i++) {
        uint32_t way = unknown(f);
        jump(f, a, way);
        jump(f, way, z);
    }
    f->blocks[z].is_exit = true;
    run(f);
    for (uint32_t way = 2; way < 5; way++)
        assert_in_range(f->blocks[way].flow, 299, 301);
    free(f);
}

static void jumps_between_the_same_two_share_evenly(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 100), b = known(f, 100);
    jump(f, a, b);
    jump(f, a, b);
    f->blocks[b].is_exit = true;
    run(f);
    assert_int_equal(f->jumps[0].flow, 50);
    assert_int_equal(f->jumps[1].flow, 50);
    free(f);
}

static void a_loop_keeps_its_count(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 1), loop = known(f, 1000), z = known(f, 1);
    jump(f, a, loop);
    jump(f, loop, loop);
    jump(f, loop, z);
    f->blocks[z].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[loop].flow, 1000);
    assert_int_equal(f->jumps[1].flow, 999);
    assert_int_equal(f->blocks[z].flow, 1);
    free(f);
}

/* A loop that nothing else tells to be entered is joined along blocks that had no count. */
static void an_island_is_joined(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 0), b = known(f, 0), head = known(f, 500), body = known(f, 500),
             z = known(f, 0);
    f->blocks[a].is_known = false;
    jump(f, a, b);
    jump(f, b, head);
    jump(f, head, body);
    jump(f, body, head);
    jump(f, body, z);
    f->blocks[z].is_exit = true;
    run(f);
    check_flow(&f->g);
    assert_int_equal(f->blocks[a].flow, 1);
    assert_int_equal(f->blocks[b].flow, 1);
    assert_int_equal(f->blocks[z].flow, 1);
    assert_int_equal(f->blocks[head].flow, 501);
    free(f);
}

static void flow_may_leave_at_each_exit(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 100), b = known(f, 30), c = known(f, 70);
    jump(f, a, b);
    jump(f, a, c);
    f->blocks[b].is_exit = f->blocks[c].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[b].flow, 30);
    assert_int_equal(f->blocks[c].flow, 70);
    free(f);
}

static void unlikely_blocks_are_passed_by(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 100), trap = unknown(f), b = known(f, 60);
    jump(f, a, trap);
    jump(f, a, b);
    f->blocks[a].confidence = 10;
    f->blocks[trap].is_unlikely = true;
    f->blocks[trap].is_exit = f->blocks[b].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[trap].flow, 0);
    assert_int_equal(f->blocks[b].flow, 100);
    free(f);
}

static void measured_jumps_are_kept(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 100), b = unknown(f), c = unknown(f), z = known(f, 100);
    known_jump(f, a, b, 20);
    jump(f, a, c);
    jump(f, b, z);
    jump(f, c, z);
    f->blocks[z].is_exit = true;
    assert_int_equal(inference_run(&f->g, NULL, NULL), SPGO_OK);
    assert_int_equal(f->blocks[b].flow, 20);
    assert_int_equal(f->blocks[c].flow, 80);
    free(f);
}

static void an_endless_loop_needs_no_exit(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 1), b = known(f, 1), head = known(f, 800), body = known(f, 800);
    jump(f, a, b);
    jump(f, b, head);
    jump(f, head, body);
    jump(f, body, head);
    run(f);
    check_flow(&f->g);
    assert_int_equal(f->blocks[b].flow, 1);
    assert_in_range(f->blocks[head].flow, 800, 801);
    assert_in_range(f->blocks[body].flow, 799, 801);
    free(f);
}

static void what_the_entry_does_not_reach_keeps_its_count(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 5), z = known(f, 5), pad = known(f, 40), next = known(f, 0);
    jump(f, a, z);
    jump(f, pad, next);
    jump(f, next, z);
    f->blocks[z].is_exit = true;
    run(f);
    check_flow(&f->g);
    assert_int_equal(f->blocks[a].flow + f->blocks[pad].flow, f->blocks[z].flow);
    assert_in_range(f->blocks[pad].flow, 0, 40);
    f->blocks[z].weight = 45;
    f->blocks[next].weight = 40;
    run(f);
    assert_int_equal(f->blocks[pad].flow, 40);
    assert_int_equal(f->blocks[z].flow, 45);
    free(f);
}

static void a_single_block(void **state)
{
    (void)state;
    fixture *f = graph_new();
    uint32_t a = known(f, 7);
    f->blocks[a].is_exit = true;
    run(f);
    assert_int_equal(f->blocks[a].flow, 7);
    f->blocks[a].is_exit = false; /* and neither exit nor jump */
    run(f);
    assert_int_equal(f->blocks[a].flow, 7);
    free(f);
}

static void graphs_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    fixture *f = graph_new();
    spgo_error err;
    assert_int_equal(inference_run(&f->g, NULL, &err), SPGO_CORRUPT);
    uint32_t a = known(f, 7);
    jump(f, a, a);
    jump(f, a, 1);
    assert_int_equal(inference_run(&f->g, NULL, &err), SPGO_CORRUPT);
    assert_string_equal(err.sentence, "jump 1 of a flow graph leads from block 0 to block 1 of 1");
    f->g.jump_count = 1;
    f->g.entry = 3;
    assert_int_equal(inference_run(&f->g, NULL, &err), SPGO_CORRUPT);
    assert_string_equal(err.sentence, "the entry of a flow graph is block 3 of 1");
    free(f);
}

static void huge_weights_keep_their_proportions(void **state)
{
    (void)state;
    fixture *f = graph_new();
    const uint64_t unit = (uint64_t)1 << 58;
    uint32_t a = known(f, 4 * unit), b = known(f, 3 * unit), c = unknown(f), z = known(f, 4 * unit);
    jump(f, a, b);
    jump(f, a, c);
    jump(f, b, z);
    jump(f, c, z);
    f->blocks[z].is_exit = true;
    run(f);
    check_flow(&f->g);
    assert_int_equal(f->blocks[a].flow, 4 * unit);
    assert_int_equal(f->blocks[b].flow, 3 * unit);
    assert_int_equal(f->blocks[c].flow, unit);
    for (uint32_t i = a; i <= z; i++)
        f->blocks[i].weight = UINT64_MAX;
    f->blocks[c].is_known = true;
    run(f);
    check_flow(&f->g);
    assert_true(f->blocks[a].flow == f->blocks[b].flow + f->blocks[c].flow);
    free(f);
}

/* ------------------------------------------------------------------ at random */

static uint64_t random_u64(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(random_u64(seed) % n);
}

/* The least cost of a circulation by another way: from nothing, along any cycle that saves, found
 * by Bellman and Ford, until there is none (Klein). */
static int64_t least_cost(const network *net)
{
    size_t n = net->node_count, m = net->arc_count;
    int64_t *distance = calloc(n, sizeof *distance), total = 0;
    size_t *by = calloc(n, sizeof *by); /* 2 * arc, + 1 when walked backwards */
    uint64_t *flow = calloc(m, sizeof *flow);
    assert_true(distance && by && flow);
    for (;;) {
        size_t last = SIZE_MAX;
        memset(distance, 0, n * sizeof *distance);
        for (size_t round = 0; round < n; round++) {
            last = SIZE_MAX;
            for (size_t i = 0; i < 2 * m; i++) {
                const network_arc *a = &net->arcs[i / 2];
                bool backwards = i % 2;
                uint32_t from = backwards ? a->to : a->from, to = backwards ? a->from : a->to;
                uint64_t room = backwards ? flow[i / 2] : a->capacity - flow[i / 2];
                int64_t d = distance[from] + (backwards ? -a->cost : a->cost);
                if (room > 0 && d < distance[to]) {
                    distance[to] = d;
                    by[to] = i;
                    last = to;
                }
            }
        }
        if (last == SIZE_MAX)
            break;
#define BEFORE(v) (by[v] % 2 ? net->arcs[by[v] / 2].to : net->arcs[by[v] / 2].from)
        for (size_t i = 0; i < n; i++)
            last = BEFORE(last);
        uint64_t amount = UINT64_MAX;
        size_t v = last;
        do {
            uint64_t room =
                by[v] % 2 ? flow[by[v] / 2] : net->arcs[by[v] / 2].capacity - flow[by[v] / 2];
            amount = room < amount ? room : amount;
            v = BEFORE(v);
        } while (v != last);
        do {
            flow[by[v] / 2] += by[v] % 2 ? -amount : amount;
            total += (by[v] % 2 ? -1 : 1) * net->arcs[by[v] / 2].cost * (int64_t)amount;
            v = BEFORE(v);
        } while (v != last);
#undef BEFORE
    }
    free(distance);
    free(by);
    free(flow);
    return total;
}

/* Each node has an unbounded arc to the root, node 0. */
static void random_network(uint64_t *seed, network *net, network_arc *arcs)
{
    uint32_t n = 2 + below(seed, 8), m = below(seed, 24);
    *net = (network){.arcs = arcs, .node_count = n, .group_count = m, .work_max = UINT64_MAX};
    for (uint32_t v = 1; v < n; v++)
        arcs[net->arc_count++] = (network_arc){.from = v,
                                               .group = NETWORK_NO_GROUP,
                                               .cost = below(seed, 8),
                                               .capacity = NETWORK_UNBOUNDED};
    for (uint32_t i = 0; i < m; i++) {
        int64_t cost = (int64_t)below(seed, 21) - 10;
        bool bounded = cost < 0 || below(seed, 2);
        arcs[net->arc_count++] =
            (network_arc){.from = below(seed, n),
                          .to = below(seed, n),
                          .group = i,
                          .cost = cost,
                          .capacity = bounded ? below(seed, 30) : NETWORK_UNBOUNDED};
    }
}

static void random_networks_cost_least(void **state)
{
    (void)state;
    uint64_t seed = 1;
    network_arc arcs[64];
    for (int round = 0; round < 20000; round++) {
        network net;
        bool exact = false;
        random_network(&seed, &net, arcs);
        arena *mem = arena_new(0);
        assert_int_equal(network_solve(&net, mem, &exact, NULL), SPGO_OK);
        arena_free(mem);
        assert_true(exact);
        int64_t cost = 0, balance[16] = {0};
        for (size_t a = 0; a < net.arc_count; a++) {
            assert_true(arcs[a].flow <= arcs[a].capacity);
            cost += arcs[a].cost * (int64_t)arcs[a].flow;
            balance[arcs[a].from] -= (int64_t)arcs[a].flow;
            balance[arcs[a].to] += (int64_t)arcs[a].flow;
        }
        for (uint32_t v = 0; v < net.node_count; v++)
            assert_int_equal(balance[v], 0);
        assert_int_equal(cost, least_cost(&net));
    }
}

/* Without loops there are no islands, so that the flow costs least. */
static void random_graph(uint64_t *seed, fixture *f, bool loops)
{
    uint32_t n = 1 + below(seed, 9), m = below(seed, 20);
    for (uint32_t b = 0; b < n; b++) {
        known(f, below(seed, 3) ? below(seed, 100) : 0);
        f->blocks[b].is_known = below(seed, 4) > 0;
        f->blocks[b].confidence = below(seed, 4);
        f->blocks[b].is_unlikely = below(seed, 10) == 0;
        f->blocks[b].is_exit = b + 1 == n || below(seed, 6) == 0;
    }
    for (uint32_t j = 0; j < m; j++) {
        uint32_t a = below(seed, n), b = below(seed, n);
        if (!loops && a == b)
            continue;
        known_jump(f, loops || a < b ? a : b, loops || a < b ? b : a, below(seed, 50));
        f->jumps[f->g.jump_count - 1].is_known = below(seed, 3) == 0;
    }
}

/* f - w ln f in straight pieces, as doc/inference.md has it: bounds in 24ths of w, slopes in
 * thousandths. */
static const struct {
    uint64_t end;
    int64_t slope;
} pieces[] = {{3, -20000}, {6, -4545}, {12, -1773}, {18, -622}, {24, -151},
              {32, 137},   {48, 392},  {96, 653},   {0, 1000}};

enum { PIECES = sizeof pieces / sizeof *pieces, UNBOUNDED = 1 << 20 };

/* The pieces for what is known of a block or jump; returns how many. */
static size_t pieces_of(bool is_known, bool is_unlikely, uint64_t weight, uint32_t confidence,
                        network_arc *arcs)
{
    size_t count = 0;
    uint64_t begin = 0;
    for (size_t i = 0; i < PIECES; i++) {
        bool is_last = i + 1 == PIECES, is_raise = pieces[i].slope > 0;
        uint64_t end = is_last ? begin + UNBOUNDED : weight * pieces[i].end / 24;
        int64_t cost = is_known ? pieces[i].slope * (confidence ? confidence : 1) : 0;
        if (is_raise && is_unlikely)
            cost = (int64_t)1 << 32;
        if (is_last || (is_known && weight > 0))
            arcs[count++] = (network_arc){.cost = cost, .capacity = end - begin};
        begin = is_known && weight > 0 ? end : 0;
    }
    return count;
}

static int64_t cost_of_flow(uint64_t flow, const network_arc *arcs, size_t count)
{
    int64_t cost = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t part = flow < arcs[i].capacity ? flow : arcs[i].capacity;
        cost += arcs[i].cost * (int64_t)part;
        flow -= part;
    }
    assert_int_equal(flow, 0);
    return cost;
}

static void add_arcs(network *net, uint32_t from, uint32_t to, const network_arc *arcs,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        net->arcs[net->arc_count] = arcs[i];
        net->arcs[net->arc_count].from = from;
        net->arcs[net->arc_count++].to = to;
    }
}

/* What the flow of a graph costs, and the network in which to look for the least cost. */
static int64_t cost_of_graph(const inference_graph *g, network *net)
{
    const network_arc open = {.capacity = UNBOUNDED};
    network_arc arcs[PIECES];
    bool reached[BLOCKS_MAX] = {false};
    int64_t cost = 0;
    uint32_t world = net->node_count++;
    for (uint32_t i = 0; i < g->block_count; i++) {
        const inference_block *b = &g->blocks[i];
        size_t n = pieces_of(b->is_known, b->is_unlikely, b->weight, b->confidence, arcs);
        cost += cost_of_flow(b->flow, arcs, n);
        add_arcs(net, 2 * i, 2 * i + 1, arcs, n);
    }
    for (size_t i = 0; i < g->jump_count; i++) {
        const inference_jump *j = &g->jumps[i];
        size_t n = pieces_of(j->is_known, j->is_unlikely, j->weight, j->confidence, arcs);
        cost += cost_of_flow(j->flow, arcs, n);
        add_arcs(net, 2 * j->from + 1, 2 * j->to, arcs, n);
    }
    for (uint32_t i = 0; i < g->block_count; i++) {
        if (!reached[i]) {
            reached[i] = true;
            reach(g, reached, false, false);
            add_arcs(net, world, 2 * i, &open, 1);
        }
        if (g->blocks[i].is_exit)
            add_arcs(net, 2 * i + 1, world, &open, 1);
    }
    return cost;
}

static void random_graphs_without_loops_cost_least(void **state)
{
    (void)state;
    static network_arc arcs[(PIECES + 2) * (BLOCKS_MAX + JUMPS_MAX)];
    uint64_t seed = 2;
    for (int round = 0; round < 4000; round++) {
        fixture *f = graph_new();
        random_graph(&seed, f, false);
        /* Where all that ends leaves: what has no way out has its own rules. */
        for (uint32_t b = 0; b < f->g.block_count; b++) {
            f->blocks[b].is_exit = true;
            for (size_t j = 0; j < f->g.jump_count; j++)
                f->blocks[b].is_exit &= f->jumps[j].from != b || below(&seed, 4) == 0;
        }
        run(f);
        check_flow(&f->g);
        network net = {.arcs = arcs, .node_count = 2 * (uint32_t)f->g.block_count};
        int64_t cost = cost_of_graph(&f->g, &net);
        assert_int_equal(cost, least_cost(&net));
        free(f);
    }
}

static void random_graphs_with_loops_are_flows(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 20000; round++) {
        fixture *f = graph_new();
        random_graph(&seed, f, true);
        if (round % 4 == 0) { /* up to 2^60 each */
            for (size_t b = 0; b < f->g.block_count; b++)
                f->blocks[b].weight = random_u64(&seed) >> (4 + below(&seed, 60));
        }
        run(f);
        check_flow(&f->g);
        free(f);
    }
}

/* ------------------------------------------------------------------ large */

typedef struct large {
    inference_graph g;
    uint64_t seed;
} large;

static large large_new(size_t blocks)
{
    large l = {.g.block_count = blocks, .seed = 9};
    l.g.blocks = calloc(blocks, sizeof *l.g.blocks);
    l.g.jumps = calloc(3 * blocks, sizeof *l.g.jumps);
    assert_true(l.g.blocks && l.g.jumps);
    return l;
}

static void large_jump(large *l, size_t from, size_t to)
{
    if (from < l->g.block_count && to < l->g.block_count)
        l->g.jumps[l->g.jump_count++] =
            (inference_jump){.from = (uint32_t)from, .to = (uint32_t)to};
}

static double seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Branches over the next few blocks and back, as compilers make them; a fifth was not sampled. */
static void ten_thousand_blocks_are_no_burden(void **state)
{
    (void)state;
    large l = large_new(10000);
    for (size_t b = 0; b < l.g.block_count; b++) {
        uint32_t kind = below(&l.seed, 10);
        large_jump(&l, b, b + 1);
        if (kind < 6)
            large_jump(&l, b, b + 2 + below(&l.seed, 6));
        else if (kind < 7)
            large_jump(&l, b, b - below(&l.seed, b < 30 ? (uint32_t)b + 1 : 30));
        l.g.blocks[b] = (inference_block){.weight = kind < 2 ? 0 : random_u64(&l.seed) % 100000,
                                          .confidence = 1 + below(&l.seed, 12),
                                          .is_known = true,
                                          .is_exit = b + 1 == l.g.block_count || kind == 9};
    }
    double start = seconds();
    bool exact = false;
    assert_int_equal(inference_run(&l.g, &exact, NULL), SPGO_OK);
    double took = seconds() - start;
    print_message("10,000 blocks, %zu jumps: %.3f s\n", l.g.jump_count, took);
    assert_true(exact);
    check_flow(&l.g);
    assert_true(took < 20); /* under sanitizers, on a busy machine */
    free(l.g.blocks);
    free(l.g.jumps);
}

/* Jumps from anywhere to anywhere. */
static void work_on_tangles_is_bounded(void **state)
{
    (void)state;
    large l = large_new(20000);
    for (size_t b = 0; b < l.g.block_count; b++) {
        for (int i = 0; i < 3; i++)
            large_jump(&l, b, below(&l.seed, (uint32_t)l.g.block_count));
        l.g.blocks[b] = (inference_block){.weight = random_u64(&l.seed) >> 8,
                                          .confidence = below(&l.seed, 1000),
                                          .is_known = true,
                                          .is_exit = b % 100 == 0};
    }
    double start = seconds();
    bool exact = true;
    assert_int_equal(inference_run(&l.g, &exact, NULL), SPGO_OK);
    print_message("a tangle of 20,000 blocks: %.3f s, %s\n", seconds() - start,
                  exact ? "solved" : "cut off");
    uint64_t *in = calloc(l.g.block_count, sizeof *in);
    assert_non_null(in);
    for (size_t j = 0; j < l.g.jump_count; j++)
        in[l.g.jumps[j].to] += l.g.jumps[j].flow;
    for (size_t b = 1; b < l.g.block_count; b++)
        assert_true(in[b] <= l.g.blocks[b].flow);
    free(in);
    free(l.g.blocks);
    free(l.g.jumps);
}

static void the_same_graph_gives_the_same_flows(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 200; round++) {
        fixture *a = graph_new(), *b = graph_new();
        random_graph(&seed, a, true);
        memcpy(b->blocks, a->blocks, sizeof a->blocks);
        memcpy(b->jumps, a->jumps, sizeof a->jumps);
        b->g.block_count = a->g.block_count;
        b->g.jump_count = a->g.jump_count;
        run(a);
        run(b);
        assert_memory_equal(a->blocks, b->blocks, sizeof a->blocks);
        assert_memory_equal(a->jumps, b->jumps, sizeof a->jumps);
        run(a); /* what an earlier run left does not matter */
        assert_memory_equal(a->blocks, b->blocks, sizeof a->blocks);
        free(a);
        free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_flow_that_fits_stays),
        cmocka_unit_test(unknown_blocks_take_what_the_known_leave),
        cmocka_unit_test(a_chain_has_about_the_mean),
        cmocka_unit_test(a_block_that_was_missed_does_not_stop_a_flow),
        cmocka_unit_test(confidence_decides_between_two),
        cmocka_unit_test(equal_ways_share_evenly),
        cmocka_unit_test(jumps_between_the_same_two_share_evenly),
        cmocka_unit_test(a_loop_keeps_its_count),
        cmocka_unit_test(an_island_is_joined),
        cmocka_unit_test(flow_may_leave_at_each_exit),
        cmocka_unit_test(unlikely_blocks_are_passed_by),
        cmocka_unit_test(measured_jumps_are_kept),
        cmocka_unit_test(an_endless_loop_needs_no_exit),
        cmocka_unit_test(what_the_entry_does_not_reach_keeps_its_count),
        cmocka_unit_test(a_single_block),
        cmocka_unit_test(graphs_that_make_no_sense_are_refused),
        cmocka_unit_test(huge_weights_keep_their_proportions),
        cmocka_unit_test(random_networks_cost_least),
        cmocka_unit_test(random_graphs_without_loops_cost_least),
        cmocka_unit_test(random_graphs_with_loops_are_flows),
        cmocka_unit_test(ten_thousand_blocks_are_no_burden),
        cmocka_unit_test(work_on_tangles_is_bounded),
        cmocka_unit_test(the_same_graph_gives_the_same_flows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
