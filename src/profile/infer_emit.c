/* From the flows of procedures to ranges and branches. */
#include <profile/infer_internal.h>

#include <stdlib.h>

#include <base/fail.h>

/* ------------------------------------------------------------------ the lists */

static bool grow(infer_sink *s, void **list, size_t count, size_t *room, size_t elem_size)
{
    if (s->failed || count < *room)
        return !s->failed;
    size_t more = *room ? 2 * *room : 256;
    void *p = more > SIZE_MAX / elem_size ? NULL : realloc(*list, more * elem_size);
    if (!p) {
        s->failed = true;
        return false;
    }
    *list = p;
    *room = more;
    return true;
}

void infer_add_range(infer_sink *s, uint32_t begin_rva, uint32_t last_rva, uint64_t count)
{
    void *list = s->found.ranges;
    bool done =
        count > 0 && grow(s, &list, s->found.range_count, &s->range_room, sizeof *s->found.ranges);
    s->found.ranges = list;
    if (done)
        s->found.ranges[s->found.range_count++] = (address_range){begin_rva, last_rva, count};
}

void infer_add_branch(infer_sink *s, uint32_t from_rva, uint32_t to_rva, uint64_t count)
{
    void *list = s->found.branches;
    bool done = count > 0 &&
                grow(s, &list, s->found.branch_count, &s->branch_room, sizeof *s->found.branches);
    s->found.branches = list;
    if (!done)
        return;
    s->found.branches[s->found.branch_count++] = (address_branch){from_rva, to_rva, count};
    uint64_t key = to_rva;
    counts_add(&s->entered, &key, 1, count);
    s->failed |= s->entered.failed;
}

static int range_order(const void *a, const void *b)
{
    const address_range *x = a, *y = b;
    uint64_t p = samples_pair(x->begin_rva, x->last_rva),
             q = samples_pair(y->begin_rva, y->last_rva);
    return (p > q) - (p < q);
}

static int branch_order(const void *a, const void *b)
{
    const address_branch *x = a, *y = b;
    uint64_t p = samples_pair(x->from_rva, x->to_rva), q = samples_pair(y->from_rva, y->to_rva);
    return (p > q) - (p < q);
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void sort_ranges(address_profile *p)
{
    size_t kept = 0;
    if (p->range_count == 0)
        return;
    qsort(p->ranges, p->range_count, sizeof *p->ranges, range_order);
    for (size_t i = 1; i < p->range_count; i++) {
        if (range_order(&p->ranges[i], &p->ranges[kept]) == 0)
            p->ranges[kept].count = sum_of(p->ranges[kept].count, p->ranges[i].count);
        else
            p->ranges[++kept] = p->ranges[i];
    }
    p->range_count = kept + 1;
}

static void sort_branches(address_profile *p)
{
    size_t kept = 0;
    if (p->branch_count == 0)
        return;
    qsort(p->branches, p->branch_count, sizeof *p->branches, branch_order);
    for (size_t i = 1; i < p->branch_count; i++) {
        if (branch_order(&p->branches[i], &p->branches[kept]) == 0)
            p->branches[kept].count = sum_of(p->branches[kept].count, p->branches[i].count);
        else
            p->branches[++kept] = p->branches[i];
    }
    p->branch_count = kept + 1;
}

spgo_code infer_finish(infer_sink *s, address_profile *out, spgo_error *err)
{
    if (s->failed)
        return spgo_fail_nomem(err, "infer", s->found.range_count * sizeof(address_range));
    sort_ranges(&s->found);
    sort_branches(&s->found);
    address_profile_free(out);
    *out = s->found;
    s->found = (address_profile){0};
    return SPGO_OK;
}

void infer_sink_free(infer_sink *s)
{
    address_profile_free(&s->found);
    counts_free(&s->entered);
}

/* ------------------------------------------------------------------ flows */

/* Where a call or jump arrives in the end, if that is told. */
static uint32_t through_thunk(symbols *sy, uint32_t rva)
{
    const symbol_procedure *p = symbols_procedure_at(sy, rva);
    bool is_thunk =
        p && p->entry_rva == rva && (p->flags & SYMBOL_THUNK) && p->thunk_target_rva != UINT32_MAX;
    return is_thunk ? p->thunk_target_rva : rva;
}

static void emit_calls(infer_sink *s, const infer_unit *u, uint32_t block, symbols *sy)
{
    const flow_block *b = &u->code.blocks[block];
    for (uint32_t i = 0; i < b->instruction_count; i++) {
        const code_instruction *in = &u->code.instructions[b->first_instruction + i];
        if (in->kind == CODE_CALL && in->has_target)
            infer_add_branch(s, in->rva, through_thunk(sy, in->target_rva),
                             u->flow.blocks[block].flow);
    }
}

/* What leaves a block along no edge goes where its last jump says: into another function. */
static void emit_tail_call(infer_sink *s, const infer_unit *u, uint32_t block, symbols *sy)
{
    const flow_block *b = &u->code.blocks[block];
    const code_instruction *last =
        &u->code.instructions[b->first_instruction + b->instruction_count - 1];
    bool is_jump = last->kind == CODE_JUMP || last->kind == CODE_BRANCH;
    if (!(b->flags & FLOW_EXIT) || !is_jump || !last->has_target)
        return;
    uint64_t stays = 0;
    for (uint32_t e = b->first_edge; e < b->first_edge + b->edge_count; e++)
        stays += u->flow.jumps[e].flow;
    uint64_t flow = u->flow.blocks[block].flow;
    if (flow > stays)
        infer_add_branch(s, last->rva, through_thunk(sy, last->target_rva), flow - stays);
}

void infer_emit(infer_sink *s, const infer_unit *u, symbols *sy, bool with_calls)
{
    const flow_graph *g = &u->code;
    for (uint32_t b = 0; b < g->block_count; b++) {
        infer_add_range(s, g->blocks[b].begin_rva, g->blocks[b].last_rva, u->flow.blocks[b].flow);
        if (with_calls && u->flow.blocks[b].flow > 0) {
            emit_calls(s, u, b, sy);
            emit_tail_call(s, u, b, sy);
        }
    }
    for (size_t e = 0; e < g->edge_count; e++) {
        if (g->edges[e].kind != FLOW_FALL_THROUGH)
            infer_add_branch(s, g->blocks[g->edges[e].from].last_rva,
                             g->blocks[g->edges[e].to].begin_rva, u->flow.jumps[e].flow);
    }
}
