/* From procedure to procedure: recover the blocks, weigh, solve, put out. */
#include <profile/infer.h>

#include <math.h>
#include <stdlib.h>

#include <base/fail.h>
#include <profile/infer_internal.h>

/* Steps of the solver for all procedures of a program: about a minute. */
#define WORK_MAX ((uint64_t)1 << 32)

/* A range or branch and the procedure that owns it. */
typedef struct owned {
    const symbol_procedure *procedure;
    size_t index;
} owned;

typedef struct inferring {
    symbols *symbols;
    code_decoder *decoder;
    infer_measured measured;
    const address_branch *observed; /* branches that tell where indirect jumps go */
    size_t observed_count;
    infer_observer *observe;
    void *observe_ctx;
    infer_tally *tally;
    infer_sink sink;
    uint64_t work_left;
    double gap[2], gap_of[2]; /* before and after: sums of differences, and of what they are of */
} inferring;

/* ------------------------------------------------------------------ how consistent */

static void add_gap(inferring *r, int when, uint64_t a, uint64_t b)
{
    r->gap[when] += a > b ? (double)(a - b) : (double)(b - a);
    r->gap_of[when] += a > b ? (double)a : (double)b;
}

/* What jumps bring to a block and take from it. */
typedef struct jump_sums {
    uint64_t in_weight, out_weight, in_flow, out_flow;
    bool in_is_known, out_is_known; /* the weights, of all of them */
} jump_sums;

static jump_sums *sum_jumps(const inference_graph *g, arena *mem)
{
    jump_sums *sums = arena_push(mem, g->block_count, sizeof *sums);
    if (!sums)
        return NULL;
    for (size_t b = 0; b < g->block_count; b++)
        sums[b].in_is_known = sums[b].out_is_known = true;
    for (size_t i = 0; i < g->jump_count; i++) {
        const inference_jump *j = &g->jumps[i];
        sums[j->to].in_weight += j->weight;
        sums[j->to].in_flow += j->flow;
        sums[j->to].in_is_known &= j->is_known;
        sums[j->from].out_weight += j->weight;
        sums[j->from].out_flow += j->flow;
        sums[j->from].out_is_known &= j->is_known;
    }
    return sums;
}

/* How far from a flow the counts are: between a block and the jumps that enter and leave it where
 * those are known; where only blocks are, between them and the flow that was found. */
static bool measure_gap(inferring *r, const infer_unit *u)
{
    const inference_graph *g = &u->flow;
    const jump_sums *sums = sum_jumps(g, u->mem);
    for (uint32_t b = 0; sums && b < g->block_count; b++) {
        const inference_block *block = &g->blocks[b];
        const jump_sums *s = &sums[b];
        bool is_entered = b == g->entry || (u->code.blocks[b].flags & FLOW_LANDING);
        if (r->measured.is_ips)
            add_gap(r, 0, block->weight, block->flow);
        else if (!is_entered && block->is_known && s->in_is_known)
            add_gap(r, 0, s->in_weight, block->weight);
        if (!r->measured.is_ips && !block->is_exit && block->is_known && s->out_is_known)
            add_gap(r, 0, s->out_weight, block->weight);
        if (!is_entered)
            add_gap(r, 1, s->in_flow, block->flow);
        if (!block->is_exit)
            add_gap(r, 1, s->out_flow, block->flow);
    }
    return sums != NULL;
}

static double share(double part, double of)
{
    return of > 0 ? part / of : 0;
}

/* ------------------------------------------------------------------ one procedure */

static bool is_inside(const symbol_procedure *p, uint32_t rva)
{
    for (uint32_t i = 0; i < p->piece_count; i++) {
        if (rva >= p->pieces[i].begin_rva && rva < p->pieces[i].end_rva)
            return true;
    }
    return false;
}

/* Observed branches of indirect jumps from one place in the procedure to another. */
static bool add_observed(inferring *r, const symbol_procedure *p, arena *mem, flow_hints *hints)
{
    size_t room = 0, count = 0;
    flow_branch *list = NULL;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < p->piece_count; i++) {
            size_t b =
                infer_first_branch(r->observed, r->observed_count, p->pieces[i].begin_rva, 0);
            for (; b < r->observed_count && r->observed[b].from_rva < p->pieces[i].end_rva; b++) {
                const address_branch *o = &r->observed[b];
                if (!is_inside(p, o->to_rva) ||
                    code_decode(r->decoder, o->from_rva).kind != CODE_JUMP_INDIRECT)
                    continue;
                if (pass == 0)
                    room++;
                else
                    list[count++] = (flow_branch){o->from_rva, o->to_rva};
            }
        }
        if (pass == 0 && !(list = arena_push(mem, room, sizeof *list)))
            return false;
    }
    hints->branches = list;
    hints->branch_count = count;
    return true;
}

static void keep_as_measured(inferring *r, const owned *from, size_t count,
                             const flow_graph *outside_of)
{
    for (size_t i = 0; i < count; i++) {
        if (from[i].index >= r->measured.range_count)
            continue;
        const address_range *range = &r->measured.ranges[from[i].index];
        if (!outside_of || flow_block_at(outside_of, range->begin_rva) == FLOW_NONE)
            infer_add_range(&r->sink, range->begin_rva, range->last_rva,
                            infer_count(&r->measured, range->count));
    }
}

/* A jump or branch within a graph is replaced by its flow; a call of the function by itself and a
 * return to it are none. */
static bool is_of_graph(const flow_graph *g, const address_branch *branch)
{
    uint32_t from = flow_block_at(g, branch->from_rva);
    if (from == FLOW_NONE || g->blocks[from].last_rva != branch->from_rva)
        return false;
    const flow_block *b = &g->blocks[from];
    for (uint32_t e = b->first_edge; e < b->first_edge + b->edge_count; e++) {
        if (g->edges[e].kind != FLOW_FALL_THROUGH &&
            g->blocks[g->edges[e].to].begin_rva == branch->to_rva)
            return true;
    }
    return false;
}

static void keep_branches(inferring *r, const owned *from, size_t count, const flow_graph *g)
{
    for (size_t i = 0; i < count; i++) {
        if (from[i].index < r->measured.range_count)
            continue;
        const address_branch *b = &r->measured.branches[from[i].index - r->measured.range_count];
        if (!g || !is_of_graph(g, b))
            infer_add_branch(&r->sink, b->from_rva, b->to_rva, infer_count(&r->measured, b->count));
    }
}

/* IPs do not tell who called a function: those that no direct call explains come from somewhere. */
static void note_entry(inferring *r, const infer_unit *u, counts *entries)
{
    uint64_t key = u->procedure->entry_rva, flow = u->flow.blocks[u->flow.entry].flow;
    for (size_t j = 0; j < u->flow.jump_count; j++) {
        if (u->flow.jumps[j].to == u->flow.entry)
            flow -= u->flow.jumps[j].flow;
    }
    if (flow > 0)
        counts_add(entries, &key, 1, flow);
    r->sink.failed |= entries->failed;
}

static void count_blocks(infer_tally *t, const infer_unit *u)
{
    t->procedures_simple += u->code.is_simple;
    t->blocks += u->flow.block_count;
    for (size_t b = 0; b < u->flow.block_count; b++) {
        t->blocks_measured += u->flow.blocks[b].weight > 0;
        t->blocks_after += u->flow.blocks[b].flow > 0;
    }
}

/* Finds the flow of a procedure. *found: false if there is none that could be used. */
static spgo_code find_flow(inferring *r, infer_unit *u, bool *found, spgo_error *err)
{
    const symbol_procedure *p = u->procedure;
    flow_hints hints = symbols_flow_hints(r->symbols, p);
    bool exact = false;
    *found = false;
    if (!add_observed(r, p, u->mem, &hints))
        return spgo_fail_nomem(err, "infer", sizeof(flow_branch));
    spgo_code code = flow_graph_build(r->decoder, p->entry_rva, p->pieces, p->piece_count, &hints,
                                      u->mem, &u->code, err);
    if (code != SPGO_OK || u->code.block_count == 0)
        return code == SPGO_NOMEM ? code : SPGO_OK;
    if (!infer_weigh(u, &r->measured))
        return spgo_fail_nomem(err, "infer", u->code.block_count * sizeof(inference_block));
    u->flow.work_max = r->work_left;
    code = inference_run(&u->flow, &exact, err);
    r->work_left -= u->flow.work < r->work_left ? u->flow.work : r->work_left - 1;
    if (code != SPGO_OK)
        return code == SPGO_NOMEM ? code : SPGO_OK;
    /* What the bound cut off began at nothing and may be further from the truth than the counts. */
    r->tally->procedures_bounded += !exact;
    *found = exact;
    if (exact && !measure_gap(r, u))
        return spgo_fail_nomem(err, "infer", u->code.block_count * sizeof(inference_block));
    return SPGO_OK;
}

static spgo_code infer_procedure(inferring *r, const owned *from, size_t count, counts *entries,
                                 arena *mem, spgo_error *err)
{
    infer_unit u = {.procedure = from[0].procedure, .mem = mem};
    bool found;
    r->tally->procedures++;
    SPGO_TRY(find_flow(r, &u, &found, err));
    keep_as_measured(r, from, count, found ? &u.code : NULL);
    keep_branches(r, from, count, found ? &u.code : NULL);
    if (!found) {
        r->tally->procedures_left++;
        return SPGO_OK;
    }
    count_blocks(r->tally, &u);
    if (r->observe)
        r->observe(r->observe_ctx, u.procedure, &u.code, &u.flow);
    infer_emit(&r->sink, &u, r->symbols, r->measured.is_ips);
    if (r->measured.is_ips)
        note_entry(r, &u, entries);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ all of them */

static int by_procedure(const void *a, const void *b)
{
    const owned *x = a, *y = b;
    uint32_t p = x->procedure->entry_rva, q = y->procedure->entry_rva;
    if (p != q)
        return p < q ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Every range and branch with the procedure it begins in; branches from elsewhere stay as they
 * are. */
static spgo_code list_owned(inferring *r, owned **out, size_t *count, spgo_error *err)
{
    const infer_measured *m = &r->measured;
    size_t n = m->range_count + m->branch_count;
    owned *list = malloc((n + 1) * sizeof *list);
    *out = list;
    if (!list)
        return spgo_fail_nomem(err, "infer", n * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        bool is_range = i < m->range_count;
        const address_branch *b = is_range ? NULL : &m->branches[i - m->range_count];
        uint32_t rva = is_range ? m->ranges[i].begin_rva : b->from_rva;
        bool is_outside = !is_range && rva == SPGO_SPT_OUTSIDE;
        const symbol_procedure *p = is_outside ? NULL : symbols_procedure_at(r->symbols, rva);
        if (p)
            list[(*count)++] = (owned){p, i};
        else if (b)
            infer_add_branch(&r->sink, b->from_rva, b->to_rva, infer_count(m, b->count));
        else
            infer_add_range(&r->sink, m->ranges[i].begin_rva, m->ranges[i].last_rva,
                            infer_count(m, m->ranges[i].count));
    }
    qsort(list, *count, sizeof *list, by_procedure);
    return SPGO_OK;
}

static spgo_code infer_owned(inferring *r, const owned *list, size_t count, counts *entries,
                             spgo_error *err)
{
    for (size_t first = 0, next; first < count; first = next) {
        next = first + 1;
        while (next < count && list[next].procedure == list[first].procedure)
            next++;
        arena *mem = arena_new(0);
        if (!mem)
            return spgo_fail_nomem(err, "infer", sizeof(owned));
        spgo_code code = infer_procedure(r, list + first, next - first, entries, mem, err);
        arena_free(mem);
        SPGO_TRY(code);
    }
    return SPGO_OK;
}

static spgo_code add_unexplained_entries(inferring *r, const counts *entries, spgo_error *err)
{
    size_t n;
    counts_slot *sorted = counts_sorted_by_key(entries, &n);
    if (n > 0 && !sorted)
        return spgo_fail_nomem(err, "infer", n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
        uint64_t told = counts_get(&r->sink.entered, sorted[i].key);
        if (sorted[i].count > told)
            infer_add_branch(&r->sink, SPGO_SPT_OUTSIDE, (uint32_t)sorted[i].key,
                             sorted[i].count - told);
    }
    free(sorted);
    return SPGO_OK;
}

/* Replaces *p. */
static spgo_code infer_all(inferring *r, address_profile *p, bool is_ips, spgo_error *err)
{
    owned *list = NULL;
    size_t count = 0;
    counts entries = {0};
    *r->tally = (infer_tally){0};
    spgo_code code = infer_measure(&r->measured, p, is_ips, err);
    r->tally->scale = r->measured.scale;
    r->work_left = WORK_MAX;
    if (code == SPGO_OK)
        code = list_owned(r, &list, &count, err);
    if (code == SPGO_OK)
        code = infer_owned(r, list, count, &entries, err);
    if (code == SPGO_OK)
        code = add_unexplained_entries(r, &entries, err);
    if (code == SPGO_OK)
        code = infer_finish(&r->sink, p, err);
    r->tally->flow_gap_before = share(r->gap[0], r->gap_of[0]);
    r->tally->flow_gap_after = share(r->gap[1], r->gap_of[1]);
    free(list);
    counts_free(&entries);
    infer_measured_free(&r->measured);
    infer_sink_free(&r->sink);
    return code;
}

/* The arcs of a program as a sorted list. */
static address_branch *arcs_of(const samples_program *program, size_t *count)
{
    size_t n;
    counts_slot *sorted = counts_sorted_by_key(&program->arcs, &n);
    address_branch *list = n > 0 && !sorted ? NULL : malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = (address_branch){(uint32_t)(sorted[i].key >> 32), (uint32_t)sorted[i].key,
                                   sorted[i].count};
    free(sorted);
    *count = n;
    return list;
}

spgo_code infer_from_ips(const samples_program *program, unsigned ip_kinds, symbols *s,
                         code_decoder *d, address_profile *out, address_tally *tally,
                         infer_tally *inferred, infer_observer *observe, void *ctx, spgo_error *err)
{
    SPGO_TRY(address_profile_from_ips(program, ip_kinds, s, d, out, tally, err));
    inferring r = {
        .symbols = s, .decoder = d, .observe = observe, .observe_ctx = ctx, .tally = inferred};
    address_branch *arcs = arcs_of(program, &r.observed_count);
    if (!arcs)
        return spgo_fail_nomem(err, "infer", r.observed_count * sizeof *arcs);
    r.observed = arcs;
    spgo_code code = infer_all(&r, out, true, err);
    free(arcs);
    return code;
}

spgo_code infer_repair(address_profile *p, symbols *s, code_decoder *d, infer_tally *inferred,
                       infer_observer *observe, void *ctx, spgo_error *err)
{
    inferring r = {.symbols = s,
                   .decoder = d,
                   .observe = observe,
                   .observe_ctx = ctx,
                   .tally = inferred,
                   .observed = p->branches,
                   .observed_count = p->branch_count};
    return infer_all(&r, p, false, err);
}
