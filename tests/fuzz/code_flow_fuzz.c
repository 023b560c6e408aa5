/*
 * Code: the input is a function of some machine with its extents and hints, and the bytes of an
 * image. The graph's numbers must stay inside the tables they point into, blocks and instructions
 * be in order, and every block leave by an edge or say why it does not.
 */
#include "fuzz.h"

#include <base/reader.h>
#include <code/flow_graph.h>

enum { LIST_MAX = 8 };

typedef struct input {
    code_machine machine;
    uint32_t entry_rva;
    flow_extent extents[LIST_MAX];
    size_t extent_count;
    uint32_t leaders[LIST_MAX], no_return[LIST_MAX];
    flow_branch branches[LIST_MAX];
    flow_table tables[LIST_MAX];
    flow_hints hints;
} input;

static size_t take_count(reader *r)
{
    return reader_u8(r) % (LIST_MAX + 1);
}

/* Hints are sorted by contract: each RVA is a distance from the last one. */
static uint32_t take_rva(reader *r, uint32_t last)
{
    return last + reader_u16(r);
}

static void take_input(reader *r, input *in)
{
    in->machine = (code_machine)(CODE_X86 + reader_u8(r) % 3);
    in->entry_rva = reader_u16(r);
    in->extent_count = take_count(r);
    for (size_t i = 0; i < in->extent_count; i++) {
        in->extents[i].begin_rva = reader_u16(r);
        in->extents[i].end_rva = reader_u16(r);
    }
    in->hints = (flow_hints){.leaders = in->leaders,
                             .leader_count = take_count(r),
                             .branches = in->branches,
                             .branch_count = take_count(r),
                             .tables = in->tables,
                             .table_count = take_count(r),
                             .no_return = in->no_return,
                             .no_return_count = take_count(r)};
    for (size_t i = 0; i < in->hints.leader_count; i++)
        in->leaders[i] = take_rva(r, i ? in->leaders[i - 1] : 0);
    for (size_t i = 0; i < in->hints.branch_count; i++)
        in->branches[i] =
            (flow_branch){take_rva(r, i ? in->branches[i - 1].from_rva : 0), reader_u16(r)};
    for (size_t i = 0; i < in->hints.table_count; i++)
        in->tables[i] =
            (flow_table){.branch_rva = take_rva(r, i ? in->tables[i - 1].branch_rva : 0),
                         .base_rva = reader_u32(r),
                         .table_rva = reader_u32(r),
                         .entry_count = reader_u32(r),
                         .entry_size = reader_u8(r),
                         .is_signed = reader_u8(r) & 1,
                         .shift = reader_u8(r)};
    for (size_t i = 0; i < in->hints.no_return_count; i++)
        in->no_return[i] = take_rva(r, i ? in->no_return[i - 1] : 0);
}

static void check_block(const flow_graph *g, size_t i)
{
    const flow_block *b = &g->blocks[i];
    FUZZ_CHECK(b->instruction_count > 0 && b->begin_rva <= b->last_rva);
    FUZZ_CHECK(b->first_instruction + b->instruction_count <= g->instruction_count);
    FUZZ_CHECK(b->first_edge + b->edge_count <= g->edge_count);
    FUZZ_CHECK(b->edge_count > 0 || b->flags & (FLOW_EXIT | FLOW_NO_RETURN | FLOW_UNKNOWN_EXIT));
    FUZZ_CHECK(!g->is_simple || !(b->flags & FLOW_UNKNOWN_EXIT));
    FUZZ_CHECK((b->flags & FLOW_ENTRY) == (i == g->entry ? FLOW_ENTRY : 0));
    FUZZ_CHECK(flow_block_at(g, b->last_rva) == i);
    FUZZ_CHECK(i == 0 || g->blocks[i - 1].end_rva <= b->begin_rva);
    uint32_t rva = b->begin_rva;
    for (uint32_t k = 0; k < b->instruction_count; k++) {
        const code_instruction *in = &g->instructions[b->first_instruction + k];
        FUZZ_CHECK(in->rva == rva && in->kind != CODE_INVALID);
        rva += in->size_bytes;
    }
    FUZZ_CHECK(rva == b->end_rva);
}

static void check_graph(const flow_graph *g)
{
    size_t instructions = 0;
    FUZZ_CHECK(g->block_count > 0 && g->entry < g->block_count);
    for (size_t i = 0; i < g->block_count; i++) {
        check_block(g, i);
        instructions += g->blocks[i].instruction_count;
    }
    FUZZ_CHECK(instructions == g->instruction_count);
    for (size_t i = 0; i < g->edge_count; i++) {
        const flow_edge *e = &g->edges[i], *last = i > 0 ? e - 1 : NULL;
        FUZZ_CHECK(e->from < g->block_count && e->to < g->block_count);
        FUZZ_CHECK(i >= g->blocks[e->from].first_edge &&
                   i < g->blocks[e->from].first_edge + g->blocks[e->from].edge_count);
        FUZZ_CHECK(!last || last->from < e->from ||
                   (last->from == e->from &&
                    (last->to < e->to || (last->to == e->to && last->kind < e->kind))));
    }
}

static void decode_all(code_decoder *d, uint32_t size_bytes)
{
    for (uint32_t rva = 0; rva < size_bytes;) {
        code_instruction in = code_decode(d, rva);
        FUZZ_CHECK(in.rva == rva && in.size_bytes > 0);
        FUZZ_CHECK(in.kind == CODE_INVALID || in.size_bytes <= size_bytes - rva);
        rva += in.size_bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = reader_from((spgo_span){data, size}, 0);
    input in;
    memset(&in, 0, sizeof(in));
    take_input(&r, &in);
    size_t left = reader_left(&r);
    if (left > 0x10000 || !code_can_decode(in.machine))
        return 0;
    /* The code ends where the input does, so that reads behind it are seen. */
    code_segment segment = {0, {data + (size - left), left}, true};
    code_image image = {in.machine, 0x400000, &segment, 1};
    code_decoder *d;
    arena *mem = arena_new(0);
    FUZZ_CHECK(mem && code_decoder_new(&image, &d, NULL) == SPGO_OK);
    flow_graph g;
    spgo_error err = {0};
    spgo_code code =
        flow_graph_build(d, in.entry_rva, in.extents, in.extent_count, &in.hints, mem, &g, &err);
    if (code == SPGO_OK)
        check_graph(&g);
    else
        FUZZ_CHECK(err.code == code && err.sentence[0] != '\0');
    decode_all(d, (uint32_t)left);
    code_decoder_free(d);
    arena_free(mem);
    return 0;
}
