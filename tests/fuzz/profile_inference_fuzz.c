/*
 * Flow inference: the input is a graph, four bytes a block and six a jump. The flows must be flows:
 * what jumps bring to a block and take from it is no more than its own, and the same graph gives
 * the same.
 */
#include "fuzz.h"

#include <base/reader.h>
#include <profile/inference.h>

static void read_graph(reader *r, inference_graph *g)
{
    for (size_t b = 0; b < g->block_count; b++) {
        uint8_t flags = reader_u8(r), confidence = reader_u8(r), weight = reader_u8(r);
        g->blocks[b] = (inference_block){.weight = (uint64_t)weight << (reader_u8(r) & 63),
                                         .confidence = confidence,
                                         .is_known = flags & 1,
                                         .is_unlikely = (flags & 6) == 6,
                                         .is_exit = (flags & 24) == 24};
    }
    for (size_t j = 0; j < g->jump_count; j++) {
        uint8_t from = reader_u8(r), to = reader_u8(r), flags = reader_u8(r), weight = reader_u8(r);
        g->jumps[j] = (inference_jump){.from = from % (uint32_t)g->block_count,
                                       .to = to % (uint32_t)g->block_count,
                                       .is_known = flags & 1,
                                       .is_unlikely = (flags & 6) == 6,
                                       .confidence = flags >> 4,
                                       .weight = (uint64_t)weight << (flags >> 3 & 31)};
    }
}

static void check_flows(const inference_graph *g)
{
    uint64_t in[256] = {0}, out[256] = {0};
    for (size_t j = 0; j < g->jump_count; j++) {
        in[g->jumps[j].to] += g->jumps[j].flow;
        out[g->jumps[j].from] += g->jumps[j].flow;
    }
    for (size_t b = 0; b < g->block_count; b++) {
        FUZZ_CHECK(g->blocks[b].flow >> 63 == 0);
        FUZZ_CHECK(in[b] <= g->blocks[b].flow && out[b] <= g->blocks[b].flow);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    inference_block blocks[256];
    inference_jump jumps[1024];
    reader r = reader_from((spgo_span){data, size}, 0);
    inference_graph g = {.blocks = blocks, .jumps = jumps};
    g.block_count = 1 + (size_t)reader_u8(&r);
    g.jump_count = reader_u16(&r) % 1024;
    g.entry = reader_u8(&r) % (uint32_t)g.block_count;
    read_graph(&r, &g);
    bool exact;
    FUZZ_CHECK(inference_run(&g, &exact, NULL) == SPGO_OK);
    check_flows(&g);
    uint64_t first = g.blocks[g.block_count - 1].flow;
    FUZZ_CHECK(inference_run(&g, &exact, NULL) == SPGO_OK);
    FUZZ_CHECK(g.blocks[g.block_count - 1].flow == first);
    return 0;
}
