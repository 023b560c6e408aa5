/* From the instructions that were found to blocks and edges. */
#include <code/flow_internal.h>

#include <base/fail.h>

#include <stdlib.h>
#include <string.h>

static const char where[] = "code.flow";

static int compare_runs(const void *x, const void *y)
{
    const flow_run *a = x, *b = y;
    return a->begin_rva < b->begin_rva ? -1 : a->begin_rva > b->begin_rva;
}

/* Runs do not overlap, so that sorting them sorts all instructions. */
static code_instruction *sorted_instructions(flow_builder *b, arena *mem)
{
    code_instruction *sorted = arena_push(mem, b->instruction_count, sizeof(*sorted));
    if (!sorted)
        return NULL;
    qsort(b->runs, b->run_count, sizeof(*b->runs), compare_runs);
    size_t at = 0;
    for (size_t i = 0; i < b->run_count; i++) {
        const flow_run *r = &b->runs[i];
        memcpy(sorted + at, b->instructions + r->first, r->count * sizeof(*sorted));
        at += r->count;
    }
    return sorted;
}

static int compare_jumps(const void *x, const void *y)
{
    const flow_jump *a = x, *b = y;
    if (a->from_rva != b->from_rva)
        return a->from_rva < b->from_rva ? -1 : 1;
    return a->to_rva < b->to_rva ? -1 : a->to_rva > b->to_rva;
}

/* ------------------------------------------------------------------ blocks */

static bool ends_block(flow_builder *b, const code_instruction *in)
{
    switch ((code_kind)in->kind) {
    case CODE_PLAIN:
    case CODE_PADDING:
        return false;
    case CODE_CALL:
    case CODE_CALL_INDIRECT:
        return (*flow_byte(b, in->rva) & FLOW_BYTE_NO_RETURN) != 0;
    default:
        return true;
    }
}

/* Does a block begin with instruction i? */
static bool begins_block(flow_builder *b, const code_instruction *instructions, size_t i)
{
    if (i == 0 || *flow_byte(b, instructions[i].rva) & FLOW_BYTE_LEADER)
        return true;
    const code_instruction *last = &instructions[i - 1];
    return last->rva + last->size_bytes != instructions[i].rva || ends_block(b, last);
}

static uint8_t flags_of_begin(flow_builder *b, uint32_t rva)
{
    uint8_t marks = *flow_byte(b, rva);
    if (rva == b->entry_rva)
        return FLOW_ENTRY;
    return marks & FLOW_BYTE_NAMED && !(marks & FLOW_BYTE_TARGET) ? FLOW_LANDING : 0;
}

static flow_block *make_blocks(flow_builder *b, const code_instruction *instructions, arena *mem,
                               size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < b->instruction_count; i++) {
        if (begins_block(b, instructions, i)) {
            *flow_byte(b, instructions[i].rva) |= FLOW_BYTE_LEADER;
            (*count)++;
        }
    }
    flow_block *blocks = arena_push(mem, *count, sizeof(*blocks));
    flow_block *block = NULL;
    if (!blocks)
        return NULL;
    for (size_t i = 0; i < b->instruction_count; i++) {
        const code_instruction *in = &instructions[i];
        if (*flow_byte(b, in->rva) & FLOW_BYTE_LEADER) {
            block = block ? block + 1 : blocks;
            block->begin_rva = in->rva;
            block->first_instruction = (uint32_t)i;
            block->flags = flags_of_begin(b, in->rva);
        }
        block->instruction_count++;
        block->last_rva = in->rva;
        block->end_rva = in->rva + in->size_bytes;
    }
    return blocks;
}

/* ------------------------------------------------------------------ edges */

typedef struct edge_maker {
    flow_builder *b;
    const flow_graph *g;
    flow_edge *edges; /* with room for all */
    size_t count;
    size_t next_jump; /* of b->jumps: blocks and jumps are in the same order */
} edge_maker;

/* An edge to code of the function that was found; else the block's flags say where it goes. */
static void add_edge(edge_maker *m, flow_block *block, uint32_t to_rva, flow_edge_kind kind)
{
    const uint8_t *marks = flow_byte(m->b, to_rva);
    if (!marks) {
        block->flags |= FLOW_EXIT;
        return;
    }
    if (!(*marks & FLOW_BYTE_START)) {
        block->flags |= FLOW_UNKNOWN_EXIT;
        m->b->is_simple = false;
        return;
    }
    m->edges[m->count++] = (flow_edge){.from = (uint32_t)(block - m->g->blocks),
                                       .to = flow_block_at(m->g, to_rva),
                                       .kind = (uint8_t)kind};
}

static void add_indirect_edges(edge_maker *m, flow_block *block)
{
    const flow_builder *b = m->b;
    while (m->next_jump < b->jump_count && b->jumps[m->next_jump].from_rva < block->last_rva)
        m->next_jump++;
    for (; m->next_jump < b->jump_count; m->next_jump++) {
        const flow_jump *j = &b->jumps[m->next_jump];
        if (j->from_rva != block->last_rva)
            break;
        add_edge(m, block, j->to_rva, (flow_edge_kind)j->kind);
    }
}

static void add_direct_edge(edge_maker *m, flow_block *block, const code_instruction *in)
{
    if (in->has_target)
        add_edge(m, block, in->target_rva, FLOW_TAKEN);
    else
        block->flags |= FLOW_EXIT;
}

static void add_edges(edge_maker *m, flow_block *block)
{
    const code_instruction *last =
        &m->g->instructions[block->first_instruction + block->instruction_count - 1];
    uint8_t marks = *flow_byte(m->b, last->rva);
    if (marks & FLOW_BYTE_EXIT)
        block->flags |= FLOW_EXIT;
    if (marks & FLOW_BYTE_UNKNOWN)
        block->flags |= FLOW_UNKNOWN_EXIT;
    switch ((code_kind)last->kind) {
    case CODE_JUMP:
        add_direct_edge(m, block, last);
        return;
    case CODE_JUMP_INDIRECT:
        add_indirect_edges(m, block);
        return;
    case CODE_RETURN:
        block->flags |= FLOW_EXIT;
        return;
    case CODE_TRAP:
    case CODE_INVALID:
        block->flags |= FLOW_NO_RETURN;
        return;
    case CODE_BRANCH:
        add_direct_edge(m, block, last);
        break;
    case CODE_PLAIN:
    case CODE_PADDING:
    case CODE_CALL:
    case CODE_CALL_INDIRECT:
        if (marks & FLOW_BYTE_NO_RETURN) {
            block->flags |= FLOW_NO_RETURN;
            return;
        }
        break;
    }
    add_edge(m, block, block->end_rva, FLOW_FALL_THROUGH);
}

static int compare_edges(const void *x, const void *y)
{
    const flow_edge *a = x, *b = y;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (int)a->kind - (int)b->kind;
}

/* The edges of one block by where they lead to, each kind once; returns how many are left. */
static size_t sort_edges(flow_edge *edges, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(edges, count, sizeof(*edges), compare_edges);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || compare_edges(&edges[i], &edges[kept - 1]) != 0)
            edges[kept++] = edges[i];
    }
    return kept;
}

static flow_edge *make_edges(flow_builder *b, flow_block *blocks, flow_graph *g, arena *mem)
{
    size_t room = 2 * g->block_count + b->jump_count;
    edge_maker m = {.b = b, .g = g, .edges = malloc(room * sizeof(*m.edges))};
    if (!m.edges)
        return NULL;
    for (size_t i = 0; i < g->block_count; i++) {
        size_t first = m.count;
        add_edges(&m, &blocks[i]);
        m.count = first + sort_edges(m.edges + first, m.count - first);
        blocks[i].first_edge = (uint32_t)first;
        blocks[i].edge_count = (uint32_t)(m.count - first);
    }
    flow_edge *edges = arena_push(mem, m.count, sizeof(*edges));
    if (edges)
        memcpy(edges, m.edges, m.count * sizeof(*edges));
    g->edge_count = m.count;
    free(m.edges);
    return edges;
}

spgo_code flow_make_blocks(flow_builder *b, arena *mem, flow_graph *out)
{
    flow_graph g = {.instruction_count = b->instruction_count};
    code_instruction *instructions = sorted_instructions(b, mem);
    if (!instructions)
        return spgo_fail_nomem(b->err, where, b->instruction_count * sizeof(*instructions));
    g.instructions = instructions;
    flow_block *blocks = make_blocks(b, instructions, mem, &g.block_count);
    if (!blocks)
        return spgo_fail_nomem(b->err, where, g.block_count * sizeof(*blocks));
    g.blocks = blocks;
    if (b->jump_count > 1)
        qsort(b->jumps, b->jump_count, sizeof(*b->jumps), compare_jumps);
    g.edges = make_edges(b, blocks, &g, mem);
    if (!g.edges)
        return spgo_fail_nomem(b->err, where,
                               (2 * g.block_count + b->jump_count) * sizeof(flow_edge));
    g.entry = flow_block_at(&g, b->entry_rva);
    g.is_simple = b->is_simple;
    *out = g;
    return SPGO_OK;
}
