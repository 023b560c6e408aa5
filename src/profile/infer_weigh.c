/*
 * Measured counts on the blocks and jumps of a flow graph. What they are measured by decides what
 * is known: ranges tell of every block and of what falls through, branches of what is taken, and
 * hits of instruction pointers how long a block took, which is how often it ran only on the
 * average.
 */
#include <profile/infer_internal.h>

#include <stdlib.h>

#include <base/fail.h>
#include <profile/inference_paths.h>

enum { IP_SCALE = 1000, BRANCH_SCALE = 16 };

#define COUNT_SUM_MAX ((uint64_t)1 << 61)

/* ------------------------------------------------------------------ coverage */

typedef struct event {
    uint32_t rva;
    bool is_end;
    uint64_t count;
} event;

static int by_rva(const void *a, const void *b)
{
    const event *x = a, *y = b;
    return (x->rva > y->rva) - (x->rva < y->rva);
}

static unsigned find_shift(const address_profile *p, uint64_t scale)
{
    uint64_t high = 0, low = 0; /* the sum is high * 2^32 + low */
    for (size_t i = 0; i < p->range_count; i++) {
        high += p->ranges[i].count >> 32;
        low += p->ranges[i].count & UINT32_MAX;
    }
    for (size_t i = 0; i < p->branch_count; i++) {
        high += p->branches[i].count >> 32;
        low += p->branches[i].count & UINT32_MAX;
    }
    high += low >> 32;
    unsigned shift = 0;
    while (high >> shift >= (COUNT_SUM_MAX >> 32) / scale)
        shift++;
    return shift;
}

static spgo_code cover(infer_measured *m, spgo_error *err)
{
    infer_coverage *c = &m->coverage;
    size_t n = 2 * m->range_count;
    event *events = malloc((n + 1) * sizeof *events);
    c->starts = malloc((n + 1) * sizeof *c->starts);
    c->counts = malloc((n + 1) * sizeof *c->counts);
    if (!events || !c->starts || !c->counts) {
        free(events);
        return spgo_fail_nomem(err, "infer", n * sizeof *events);
    }
    for (size_t i = 0; i < m->range_count; i++) {
        const address_range *r = &m->ranges[i];
        uint64_t count = infer_count(m, r->count);
        uint32_t end = r->last_rva < UINT32_MAX ? r->last_rva + 1 : UINT32_MAX;
        events[2 * i] = (event){r->begin_rva, false, count};
        events[2 * i + 1] = (event){end, true, count};
    }
    qsort(events, n, sizeof *events, by_rva);
    uint64_t now = 0;
    for (size_t i = 0; i < n; i++) {
        now = events[i].is_end ? now - events[i].count : now + events[i].count;
        if (i + 1 == n || events[i + 1].rva != events[i].rva) {
            c->starts[c->count] = events[i].rva;
            c->counts[c->count++] = now;
        }
    }
    free(events);
    return SPGO_OK;
}

spgo_code infer_measure(infer_measured *m, const address_profile *p, bool is_ips, spgo_error *err)
{
    *m = (infer_measured){.ranges = p->ranges,
                          .branches = p->branches,
                          .range_count = p->range_count,
                          .branch_count = p->branch_count,
                          .scale = is_ips ? IP_SCALE : BRANCH_SCALE,
                          .is_ips = is_ips};
    m->shift = find_shift(p, m->scale);
    return cover(m, err);
}

void infer_measured_free(infer_measured *m)
{
    free(m->coverage.starts);
    free(m->coverage.counts);
    *m = (infer_measured){0};
}

/* The stretch of coverage that holds an RVA; SIZE_MAX: before the first. */
static size_t stretch_at(const infer_coverage *c, uint32_t rva)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->starts[middle] <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? SIZE_MAX : low - 1;
}

static uint64_t covered(const infer_coverage *c, uint32_t rva)
{
    size_t i = stretch_at(c, rva);
    return i == SIZE_MAX ? 0 : c->counts[i];
}

/* The mean over the instructions of a block, rounded, but not to nothing. */
static uint64_t mean_coverage(const infer_coverage *c, const flow_graph *g, const flow_block *b)
{
    uint64_t n = b->instruction_count, whole = 0, rest = 0;
    size_t at = stretch_at(c, b->begin_rva);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rva = g->instructions[b->first_instruction + i].rva;
        while (at + 1 < c->count && c->starts[at + 1] <= rva)
            at++;
        uint64_t count = at < c->count ? c->counts[at] : 0;
        whole += count / n;
        rest += count % n;
    }
    uint64_t mean = whole + (rest + n / 2) / n;
    return mean == 0 && rest > 0 ? 1 : mean;
}

/* ------------------------------------------------------------------ branches and ranges */

size_t infer_first_branch(const address_branch *branches, size_t count, uint32_t from_rva,
                          uint32_t to_rva)
{
    uint64_t wanted = samples_pair(from_rva, to_rva);
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (samples_pair(branches[middle].from_rva, branches[middle].to_rva) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t taken(const infer_measured *m, uint32_t from_rva, uint32_t to_rva)
{
    size_t i = infer_first_branch(m->branches, m->branch_count, from_rva, to_rva);
    uint64_t sum = 0;
    for (; i < m->branch_count && m->branches[i].from_rva == from_rva &&
           m->branches[i].to_rva == to_rva;
         i++)
        sum += infer_count(m, m->branches[i].count);
    return sum;
}

static uint64_t taken_from(const infer_measured *m, uint32_t from_rva)
{
    size_t i = infer_first_branch(m->branches, m->branch_count, from_rva, 0);
    uint64_t sum = 0;
    for (; i < m->branch_count && m->branches[i].from_rva == from_rva; i++)
        sum += infer_count(m, m->branches[i].count);
    return sum;
}

/* The hits of ranges that begin at an RVA. */
static uint64_t begun(const infer_measured *m, uint32_t rva)
{
    size_t low = 0, high = m->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->ranges[middle].begin_rva < rva)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t sum = 0;
    for (; low < m->range_count && m->ranges[low].begin_rva == rva; low++)
        sum += infer_count(m, m->ranges[low].count);
    return sum;
}

static const code_instruction *last_of(const flow_graph *g, const flow_block *b)
{
    return &g->instructions[b->first_instruction + b->instruction_count - 1];
}

/* ------------------------------------------------------------------ weights */

/* Rounded down. */
static uint64_t square_root(uint64_t n)
{
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit > 0; bit >>= 1) {
        if ((root + bit) * (root + bit) <= n)
            root += bit;
    }
    return root;
}

/*
 * How much the hits of a block count. Were each a random event of its own, a unit of their mean
 * would count as much as the block has instructions. But instructions also differ in what they
 * cost, so that many hits do not make as sure as they seem: 100 * size / sqrt(1 + hits / 4), found
 * by experiment (doc/inference.md).
 */
static uint32_t confidence_of(uint64_t mean, uint64_t size, uint64_t scale)
{
    const uint64_t many = (uint64_t)1 << 40, large = 4096;
    uint64_t n = size < large ? size : large;
    uint64_t hits = (mean < many ? mean : many) * n / scale;
    uint64_t confidence = square_root(100 * 100 * 4 * n * n / (4 + hits));
    return confidence > 0 ? (uint32_t)confidence : 1;
}

/* That none hit counts by the hits that there would have been, had the block run like those before
 * or behind it. */
static bool weigh_by_neighbours(infer_unit *u, const infer_measured *m)
{
    const inference_graph *f = &u->flow;
    uint64_t *before = arena_push(u->mem, f->block_count, sizeof *before);
    uint64_t *behind = arena_push(u->mem, f->block_count, sizeof *behind);
    if (!before || !behind)
        return false;
    for (size_t j = 0; j < f->jump_count; j++) {
        uint32_t from = f->jumps[j].from, to = f->jumps[j].to;
        if (f->blocks[from].weight > before[to])
            before[to] = f->blocks[from].weight;
        if (f->blocks[to].weight > behind[from])
            behind[from] = f->blocks[to].weight;
    }
    for (size_t b = 0; b < f->block_count; b++) {
        inference_block *block = &f->blocks[b];
        bool is_end = block->is_exit || b == f->entry;
        uint64_t lower = before[b] < behind[b] ? before[b] : behind[b];
        uint64_t higher = before[b] < behind[b] ? behind[b] : before[b];
        uint64_t mean = block->weight > 0 ? block->weight : is_end ? higher : lower;
        block->confidence = confidence_of(mean, u->code.blocks[b].instruction_count, m->scale);
    }
    return true;
}

/* Without ranges a block is known if it has an instruction that never just goes on. */
static void weigh_by_branches(inference_block *to, const flow_graph *g, const flow_block *b,
                              const infer_measured *m)
{
    for (uint32_t i = 0; i < b->instruction_count; i++) {
        const code_instruction *in = &g->instructions[b->first_instruction + i];
        if (!code_always_leaves(in->kind))
            continue;
        uint64_t count = taken_from(m, in->rva);
        to->is_known = true;
        if (count > to->weight)
            to->weight = count;
    }
}

static void weigh_block(inference_block *to, const flow_graph *g, const flow_block *b,
                        const infer_measured *m)
{
    if (m->range_count == 0) {
        weigh_by_branches(to, g, b, m);
    } else {
        to->is_known = true;
        to->weight = mean_coverage(&m->coverage, g, b);
    }
    to->is_exit = (b->flags & (FLOW_EXIT | FLOW_NO_RETURN | FLOW_UNKNOWN_EXIT)) != 0;
}

static void weigh_jump(inference_jump *to, const flow_graph *g, const flow_edge *e,
                       const infer_measured *m)
{
    const flow_block *from = &g->blocks[e->from];
    uint32_t target_rva = g->blocks[e->to].begin_rva;
    *to = (inference_jump){.from = e->from, .to = e->to};
    if (m->is_ips)
        return;
    if (e->kind != FLOW_FALL_THROUGH) {
        to->weight = taken(m, from->last_rva, target_rva);
        to->is_known = true;
    } else if (m->range_count > 0 && !code_always_leaves(last_of(g, from)->kind)) {
        /* Ranges that cover the target but begin before it; behind a call all begin there. */
        uint64_t all = covered(&m->coverage, target_rva), new = begun(m, target_rva);
        to->weight = all > new ? all - new : 0;
        to->is_known = true;
    }
}

/* Blocks without hits from which nothing but a trap or a call that never returns can be reached. */
static bool mark_unlikely(infer_unit *u)
{
    const flow_graph *g = &u->code;
    inference_ways in;
    uint32_t *likely_ways = arena_push(u->mem, g->block_count, sizeof *likely_ways);
    uint32_t *queue = arena_push(u->mem, g->block_count, sizeof *queue);
    if (!likely_ways || !queue || !inference_ways_list(&u->flow, true, u->mem, &in))
        return false;
    size_t head = 0, tail = 0;
    for (uint32_t b = 0; b < g->block_count; b++) {
        likely_ways[b] = g->blocks[b].edge_count;
        if (likely_ways[b] == 0 && (g->blocks[b].flags & FLOW_NO_RETURN))
            queue[tail++] = b;
    }
    while (head < tail) {
        uint32_t b = queue[head++];
        if (u->flow.blocks[b].weight > 0)
            continue;
        u->flow.blocks[b].is_unlikely = true;
        for (uint32_t i = in.start[b]; i < in.start[b + 1]; i++) {
            uint32_t before = inference_ways_next(&in, in.jumps[i]);
            if (--likely_ways[before] == 0 && !u->flow.blocks[before].is_exit)
                queue[tail++] = before;
        }
    }
    return true;
}

bool infer_weigh(infer_unit *u, const infer_measured *m)
{
    const flow_graph *g = &u->code;
    inference_graph *f = &u->flow;
    *f = (inference_graph){
        .block_count = g->block_count, .jump_count = g->edge_count, .entry = g->entry};
    f->blocks = arena_push(u->mem, g->block_count, sizeof *f->blocks);
    f->jumps = arena_push(u->mem, g->edge_count, sizeof *f->jumps);
    if (!f->blocks || !f->jumps)
        return false;
    for (size_t b = 0; b < g->block_count; b++)
        weigh_block(&f->blocks[b], g, &g->blocks[b], m);
    for (size_t e = 0; e < g->edge_count; e++)
        weigh_jump(&f->jumps[e], g, &g->edges[e], m);
    if (m->is_ips && !weigh_by_neighbours(u, m))
        return false;
    return mark_unlikely(u);
}
