/* From the flows of procedures to ranges and branches. */
#include <profile/infer_internal.h>

#include <stdlib.h>

#include <base/fail.h>
#include <base/saturate.h>

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

spgo_code infer_finish(infer_sink *s, address_profile *out, spgo_error *err)
{
    if (s->failed)
        return spgo_fail_nomem(err, "infer", s->found.range_count * sizeof(address_range));
    address_profile_sort(&s->found);
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

static void emit_calls(infer_sink *s, const infer_unit *u, uint32_t block, symbols *sy)
{
    const flow_block *b = &u->code.blocks[block];
    for (uint32_t i = 0; i < b->instruction_count; i++) {
        const code_instruction *in = &u->code.instructions[b->first_instruction + i];
        if (in->kind == CODE_CALL && in->has_target)
            infer_add_branch(s, in->rva, symbols_past_thunk(sy, in->target_rva),
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
        infer_add_branch(s, last->rva, symbols_past_thunk(sy, last->target_rva), flow - stays);
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
