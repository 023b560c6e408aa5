/*
 * Reads the flow graph of a function: its blocks one behind the other, each with its ranges of
 * code, its indirect calls, what was inlined into it, and its edges. doc/formats/spd.md, "Flow
 * graph".
 */
#include "spd_internal.h"

#include <base/limits.h>

/* Records of one size: the bytes of all of them, NULL when there are none or too few. */
static const uint8_t *take_records(reader *r, uint32_t count, size_t size)
{
    size_t n = reader_count(r, count, size);
    return n ? reader_take(r, n * size) : NULL;
}

static spd_range *read_ranges(spd_blob_reader *b, reader *r, uint32_t count)
{
    const uint8_t *p = take_records(r, count, SPD_RANGE_SIZE);
    spd_range *ranges = p ? spd_room(b, count, sizeof *ranges) : NULL;
    for (uint32_t i = 0; ranges && i < count; i++, p += SPD_RANGE_SIZE)
        ranges[i] = (spd_range){.offset = load_u32(p), .length_word = load_u32(p + 4)};
    return ranges;
}

static spd_site load_site(const uint8_t *p)
{
    return (spd_site){.place_word = load_u32(p), .ordinal_word = load_u32(p + 4)};
}

static spd_site *read_sites(spd_blob_reader *b, reader *r, uint32_t count)
{
    const uint8_t *p = take_records(r, count, SPD_SITE_SIZE);
    spd_site *sites = p ? spd_room(b, count, sizeof *sites) : NULL;
    for (uint32_t i = 0; sites && i < count; i++, p += SPD_SITE_SIZE)
        sites[i] = load_site(p);
    return sites;
}

static spd_indirect *read_indirects(spd_blob_reader *b, reader *r, uint32_t count)
{
    enum { TOTAL = 8, TARGETS = 16, TARGET_SIZE = 16 };
    const uint8_t *p = take_records(r, count, SPD_INDIRECT_SIZE);
    spd_indirect *indirects = p ? spd_room(b, count, sizeof *indirects) : NULL;
    for (uint32_t i = 0; indirects && i < count; i++, p += SPD_INDIRECT_SIZE) {
        indirects[i].site = load_site(p);
        indirects[i].total = load_u64(p + TOTAL);
        for (unsigned t = 0; t < SPD_TARGETS; t++) {
            const uint8_t *target = p + TARGETS + t * TARGET_SIZE;
            indirects[i].targets[t] =
                (spd_target){.hash = load_u64(target), .count = load_u64(target + 8)};
        }
    }
    return indirects;
}

/* ------------------------------------------------------------------ what was inlined */

static spd_instance *read_instances(spd_blob_reader *b, reader *r, unsigned depth, uint32_t *count);

static bool read_inline_block(spd_blob_reader *b, reader *r, unsigned depth,
                              spd_inline_block *block)
{
    const uint8_t *p = reader_take(r, SPD_INLINE_BLOCK_SIZE);
    if (p) {
        block->id = load_u32(p);
        block->flags = load_u16(p + 0x04);
        block->number = load_u16(p + 0x06);
        block->instruction_count = load_u32(p + 0x08);
        block->range_count = load_u32(p + 0x0c);
        block->site_count = load_u32(p + 0x10);
    }
    block->ranges = read_ranges(b, r, block->range_count);
    block->sites = read_sites(b, r, block->site_count);
    reader nested = reader_sub(r, p ? load_u32(p + 0x14) : 0);
    if (!spd_sound(b, r, "a block of an inlined function reaches behind its end"))
        return false;
    block->instances = read_instances(b, &nested, depth, &block->instance_count);
    return !b->no_memory && !b->misfit;
}

/* The number of blocks in the rest of r, a copy that may move. */
static uint32_t count_inline_blocks(reader r)
{
    uint32_t count = 0;
    for (; reader_left(&r); count++) {
        reader_skip(&r, 12);
        uint64_t ranges = reader_u32(&r);
        uint64_t sites = reader_u32(&r);
        uint64_t nested = reader_u32(&r);
        reader_skip(&r, ranges * SPD_RANGE_SIZE + sites * SPD_SITE_SIZE + nested);
    }
    return count;
}

static bool read_instance(spd_blob_reader *b, reader *r, unsigned depth, spd_instance *instance)
{
    instance->offset = reader_offset(r);
    instance->callee_hash = reader_u64(r);
    instance->word_08 = reader_u32(r);
    uint32_t size_bytes = reader_u32(r);
    reader part = reader_sub(r, size_bytes);
    if (!spd_sound(b, r, "an inlined function reaches behind what is inlined into its block"))
        return false;
    instance->block_count = count_inline_blocks(part);
    instance->blocks = spd_room(b, instance->block_count, sizeof *instance->blocks);
    for (uint32_t i = 0; instance->blocks && i < instance->block_count; i++) {
        if (!read_inline_block(b, &part, depth, &instance->blocks[i]))
            return false;
    }
    return !b->no_memory;
}

static uint32_t count_instances(reader r)
{
    uint32_t count = 0;
    for (; reader_left(&r); count++) {
        reader_skip(&r, 12);
        reader_skip(&r, reader_u32(&r));
    }
    return count;
}

/* All that was inlined into a block: r holds it and nothing else. */
static spd_instance *read_instances(spd_blob_reader *b, reader *r, unsigned depth, uint32_t *count)
{
    *count = 0;
    if (!reader_left(r))
        return NULL;
    if (depth == LIMIT_SPD_NESTING) {
        spd_misfit(b, reader_offset(r), "more functions are inlined into each other than are read");
        return NULL;
    }
    uint32_t n = count_instances(*r);
    spd_instance *instances = spd_room(b, n, sizeof *instances);
    for (uint32_t i = 0; instances && i < n; i++) {
        if (!read_instance(b, r, depth + 1, &instances[i]))
            return NULL;
    }
    *count = n;
    return instances;
}

/* ------------------------------------------------------------------ blocks */

/* Their targets are offsets so far: resolve_edges. */
static spd_edge *read_edges(spd_blob_reader *b, reader *r, uint32_t count)
{
    const uint8_t *p = take_records(r, count, SPD_EDGE_SIZE);
    spd_edge *edges = p ? spd_room(b, count, sizeof *edges) : NULL;
    for (uint32_t i = 0; edges && i < count; i++, p += SPD_EDGE_SIZE)
        edges[i] = (spd_edge){
            .target = load_u32(p), .count = load_u64(p + 0x04), .flags = load_u32(p + 0x0c)};
    return edges;
}

static bool read_block(spd_blob_reader *b, reader *r, spd_block *block, uint32_t expected_id)
{
    block->offset = reader_offset(r);
    const uint8_t *p = reader_take(r, SPD_BLOCK_SIZE);
    if (!p)
        return spd_sound(b, r, "a block reaches behind the flow graph");
    block->flags = load_u16(p + 0x04);
    block->number = load_u16(p + 0x06);
    block->count = load_u64(p + 0x08);
    block->instruction_count = load_u32(p + 0x10);
    block->edge_count = load_u32(p + 0x14);
    block->range_count = load_u32(p + 0x18);
    block->indirect_count = load_u32(p + 0x1c);
    block->ranges = read_ranges(b, r, block->range_count);
    block->indirects = read_indirects(b, r, block->indirect_count);
    reader inlined = reader_sub(r, load_u32(p + 0x20));
    block->edges = read_edges(b, r, block->edge_count);
    if (!spd_sound(b, r, "a block reaches behind the flow graph"))
        return false;
    if (load_u32(p) != expected_id)
        return spd_misfit(b, block->offset, "the ids of the blocks are not 1, 2, 3, ...");
    block->instances = read_instances(b, &inlined, 0, &block->instance_count);
    return !b->no_memory && !b->misfit;
}

/* The block that stands at this offset in the file, or block_count. */
static uint32_t block_at(const spd_function *f, uint64_t offset)
{
    uint32_t low = 0, high = f->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (f->blocks[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->block_count && f->blocks[low].offset == offset ? low : f->block_count;
}

/* Edges lead to places in the graph, at which blocks begin. */
static bool resolve_edges(spd_blob_reader *b, uint64_t graph_off, spd_function *f)
{
    for (uint32_t i = 0; i < f->block_count; i++) {
        spd_block *block = &f->blocks[i];
        for (uint32_t k = 0; k < block->edge_count; k++) {
            spd_edge *edge = &block->edges[k];
            edge->target = block_at(f, graph_off + edge->target);
            if (edge->target == f->block_count)
                return spd_misfit(b, block->offset, "an edge of a block leads to no block");
        }
    }
    return true;
}

bool spd_read_graph(spd_blob_reader *b, reader *r, uint32_t edge_count, spd_function *f)
{
    uint64_t graph_off = reader_offset(r);
    uint64_t edges_seen = 0;
    size_t n = reader_count(r, f->block_count, SPD_BLOCK_SIZE);
    if (!spd_sound(b, r, "the flow graph is too short for its blocks"))
        return false;
    f->blocks = spd_room(b, n, sizeof *f->blocks);
    for (uint32_t i = 0; f->blocks && i < n; i++) {
        if (!read_block(b, r, &f->blocks[i], i + 1))
            return false;
        edges_seen += f->blocks[i].edge_count;
    }
    if (b->no_memory)
        return false;
    if (reader_left(r))
        return spd_misfit(b, reader_offset(r), "the flow graph goes on behind its last block");
    if (edges_seen != edge_count)
        return spd_misfit(b, graph_off, "the number of edges is not the sum over the blocks");
    return resolve_edges(b, graph_off, f);
}
