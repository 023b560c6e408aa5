/*
 * Indirect calls that lost their place in the source, and where they may have stood.
 *
 * Where two ways through the source end in the same call, the optimizer makes one call of both, and
 * of their places it can keep neither. Whom a direct call calls is known all the same, but an
 * indirect one is worth nothing to a compiler without its place. What prepared the arguments still
 * stands on either way with its own place, the call's as a rule. So this goes backward from the
 * call, along ways that lead nowhere else, to the first instructions that know where they are.
 */
#include <profile/correlate_internal.h>

#include <stdlib.h>

#include <spgo/spt.h>

/* Instructions looked at for one call, and places found for it: two as a rule. */
enum { STEPS_MAX = 256, ENDS_MAX = 16 };

struct lost_call {
    uint32_t procedure;
    size_t branch; /* of the measured ones */
};

typedef struct trail_end {
    uint32_t rva;
    uint64_t count;
} trail_end;

/* One procedure with its ways backward, and what was found for one call of it. */
typedef struct trail {
    lost_calls *lost;
    const lost_call_places *places;
    arena *mem;
    flow_graph graph;      /* without blocks: could not be recovered */
    uint32_t *first_edges; /* of each block, among those that enter it */
    uint32_t *entering;    /* edges by the blocks they enter */
    uint32_t blocks[STEPS_MAX];
    size_t block_count, steps_left;
    trail_end ends[ENDS_MAX];
    size_t end_count;
    uint64_t whole; /* what shares are of */
    uint32_t call_rva;
} trail;

/* ------------------------------------------------------------------ the list */

bool lost_calls_add(lost_calls *l, const address_branch *branch)
{
    const coverage *c = l->coverage;
    const symbol_procedure *p = coverage_procedure_at(c, branch->from_rva);
    uint8_t kind = code_decode(l->d, branch->from_rva).kind;
    /* A jump into the function itself is one of a table. */
    bool is_call = kind == CODE_CALL_INDIRECT ||
                   (kind == CODE_JUMP_INDIRECT && coverage_procedure_at(c, branch->to_rva) != p);
    if (!p || !is_call)
        return true;
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 64;
        struct lost_call *rows = realloc(l->rows, capacity * sizeof *rows);
        if (!rows)
            return false;
        l->rows = rows;
        l->capacity = capacity;
    }
    l->rows[l->count++] =
        (struct lost_call){(uint32_t)(p - c->procedures), (size_t)(branch - c->measured->branches)};
    return true;
}

void lost_calls_free(lost_calls *l)
{
    free(l->rows);
    *l = (lost_calls){0};
}

static int by_procedure(const void *a, const void *b)
{
    const struct lost_call *x = a, *y = b;
    if (x->procedure != y->procedure)
        return x->procedure < y->procedure ? -1 : 1;
    return (x->branch > y->branch) - (x->branch < y->branch);
}

/* ------------------------------------------------------------------ ways backward */

/* The first measured branch that does not come from before an RVA. */
static size_t first_branch(const address_profile *measured, uint32_t rva)
{
    size_t low = 0, high = measured->branch_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (measured->branches[mid].from_rva < rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Where indirect jumps of the procedure were seen to go in it. */
static bool add_observed(const trail *t, const symbol_procedure *p, flow_hints *hints)
{
    const coverage *c = t->lost->coverage;
    const address_profile *measured = c->measured;
    size_t room = 0, count = 0;
    for (uint32_t i = 0; i < p->piece_count; i++)
        room += first_branch(measured, p->pieces[i].end_rva) -
                first_branch(measured, p->pieces[i].begin_rva);
    flow_branch *list = arena_push(t->mem, room, sizeof *list);
    if (!list)
        return false;
    for (uint32_t i = 0; i < p->piece_count; i++) {
        size_t end = first_branch(measured, p->pieces[i].end_rva);
        for (size_t k = first_branch(measured, p->pieces[i].begin_rva); k < end; k++) {
            const address_branch *b = &measured->branches[k];
            if (coverage_procedure_at(c, b->to_rva) == p &&
                code_decode(t->lost->d, b->from_rva).kind == CODE_JUMP_INDIRECT)
                list[count++] = (flow_branch){b->from_rva, b->to_rva};
        }
    }
    hints->branches = list;
    hints->branch_count = count;
    return true;
}

static bool sort_edges(trail *t)
{
    const flow_graph *g = &t->graph;
    t->first_edges = arena_push(t->mem, g->block_count + 2, sizeof *t->first_edges);
    t->entering = arena_push(t->mem, g->edge_count + 1, sizeof *t->entering);
    if (!t->first_edges || !t->entering)
        return false;
    for (size_t i = 0; i < g->edge_count; i++)
        t->first_edges[g->edges[i].to + 2]++;
    for (size_t b = 2; b < g->block_count + 2; b++)
        t->first_edges[b] += t->first_edges[b - 1];
    for (size_t i = 0; i < g->edge_count; i++)
        t->entering[t->first_edges[g->edges[i].to + 1]++] = (uint32_t)i;
    return true;
}

static spgo_code open_procedure(trail *t, const symbol_procedure *p, spgo_error *err)
{
    flow_hints hints = symbols_flow_hints(t->lost->s, p);
    if (!add_observed(t, p, &hints))
        return spgo_fail_nomem(err, "correlate", sizeof(flow_branch));
    spgo_code code = flow_graph_build(t->lost->d, p->entry_rva, p->pieces, p->piece_count, &hints,
                                      t->mem, &t->graph, err);
    if (code == SPGO_NOMEM)
        return code;
    return sort_edges(t)
               ? SPGO_OK
               : spgo_fail_nomem(err, "correlate", t->graph.edge_count * sizeof(uint32_t));
}

static void look_into(trail *t, uint32_t block)
{
    for (size_t i = 0; i < t->block_count; i++) {
        if (t->blocks[i] == block)
            return;
    }
    if (t->block_count < STEPS_MAX)
        t->blocks[t->block_count++] = block;
}

static void add_end(trail *t, uint32_t rva)
{
    if (t->end_count < ENDS_MAX)
        t->ends[t->end_count++] = (trail_end){rva, coverage_count_at(t->lost->coverage, rva)};
}

/* Backward through a block, to where its way ends: at what knows its place, or in nothing at
 * another call, since what stands before that need not belong to this one. In the call's own block
 * what knows its place stands before the ways parted, if there are no two ways any more. */
static void walk_block(trail *t, uint32_t block)
{
    const flow_graph *g = &t->graph;
    const flow_block *b = &g->blocks[block];
    for (uint32_t i = b->instruction_count; i-- > 0;) {
        const code_instruction *instruction = &g->instructions[b->first_instruction + i];
        uint8_t kind = instruction->kind;
        if (instruction->rva > t->call_rva && block == t->blocks[0])
            continue;
        if (t->steps_left-- == 0) {
            t->steps_left = 0;
            return;
        }
        bool is_call = kind == CODE_CALL || kind == CODE_CALL_INDIRECT;
        if (is_call && instruction->rva != t->call_rva)
            return;
        if (t->places->knows(t->places->ctx, instruction->rva)) {
            if (block != t->blocks[0])
                add_end(t, instruction->rva);
            return;
        }
    }
    for (uint32_t e = t->first_edges[block]; e < t->first_edges[block + 1]; e++) {
        uint32_t from = g->edges[t->entering[e]].from;
        if (g->blocks[from].edge_count == 1)
            look_into(t, from);
    }
}

/* Shares are of what the call ran, or of the ends together if that is more: what came along ways
 * that know nothing stays without a place. Numbers of 32 bits, so that shares can be multiplied. */
static void scale_ends(trail *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->end_count; i++)
        sum = saturating_add(sum, t->ends[i].count);
    t->whole = coverage_count_at(t->lost->coverage, t->call_rva);
    if (t->whole < sum)
        t->whole = sum;
    for (; t->whole > UINT32_MAX; t->whole >>= 1) {
        for (size_t i = 0; i < t->end_count; i++)
            t->ends[i].count >>= 1;
    }
}

static void follow(trail *t, uint32_t call_rva)
{
    t->call_rva = call_rva;
    t->block_count = t->end_count = 0;
    t->steps_left = STEPS_MAX;
    uint32_t block = flow_block_at(&t->graph, call_rva);
    if (block != FLOW_NONE)
        look_into(t, block);
    for (size_t i = 0; i < t->block_count && t->steps_left > 0; i++)
        walk_block(t, t->blocks[i]);
    scale_ends(t);
}

static bool place_call(trail *t, const address_branch *b)
{
    if (b->from_rva != t->call_rva)
        follow(t, b->from_rva);
    for (size_t i = 0; i < t->end_count && t->whole > 0; i++) {
        uint64_t part = t->ends[i].count;
        uint64_t share = b->count / t->whole * part + b->count % t->whole * part / t->whole;
        if (share > 0 && !t->places->place(t->places->ctx, b, t->ends[i].rva, share))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ all of them */

static spgo_code place_in_procedure(lost_calls *l, size_t first, size_t end,
                                    const lost_call_places *places, spgo_error *err)
{
    const coverage *c = l->coverage;
    trail t = {.lost = l, .places = places, .call_rva = SPGO_SPT_OUTSIDE, .mem = arena_new(0)};
    if (!t.mem)
        return spgo_fail_nomem(err, "correlate", sizeof t);
    spgo_code code = open_procedure(&t, &c->procedures[l->rows[first].procedure], err);
    for (size_t i = first; i < end && code == SPGO_OK; i++) {
        if (!place_call(&t, &c->measured->branches[l->rows[i].branch]))
            code = spgo_fail_nomem(err, "correlate", sizeof(sampleprof_target));
    }
    arena_free(t.mem);
    return code;
}

spgo_code lost_calls_place(lost_calls *l, const lost_call_places *places, spgo_error *err)
{
    if (l->count == 0)
        return SPGO_OK;
    if (!coverage_index(l->coverage))
        return spgo_fail_nomem(err, "correlate", l->coverage->measured->range_count);
    qsort(l->rows, l->count, sizeof *l->rows, by_procedure);
    for (size_t first = 0, end; first < l->count; first = end) {
        end = first + 1;
        while (end < l->count && l->rows[end].procedure == l->rows[first].procedure)
            end++;
        SPGO_TRY(place_in_procedure(l, first, end, places, err));
    }
    return SPGO_OK;
}
