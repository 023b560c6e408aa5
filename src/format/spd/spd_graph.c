/*
 * Reads the flow graph of a function: its blocks one behind the other, each with its ranges of
 * code, its indirect calls, what was inlined into it, and its edges. doc/formats/spd.md, "Flow
 * graph".
 */
#include "spd_internal.h"

#include <base/limits.h>

/* A block of the graph, or of something inlined, as its fixed part counts what follows. */
typedef struct block_parts {
    uint32_t edge_count, range_count, call_count, inline_bytes;
} block_parts;

static spd_range *read_ranges(spd_blob_reader *b, reader *r, uint32_t count)
{
    size_t n = reader_count(r, count, SPD_RANGE_SIZE);
    spd_range *ranges = spd_room(b, n, sizeof *ranges);
    for (size_t i = 0; ranges && i < n; i++) {
        ranges[i].offset = reader_u32(r);
        ranges[i].length_word = reader_u32(r);
    }
    return ranges;
}

static void read_site(reader *r, spd_site *site)
{
    site->place_word = reader_u32(r);
    site->ordinal_word = reader_u32(r);
}

static spd_site *read_sites(spd_blob_reader *b, reader *r, uint32_t count)
{
    size_t n = reader_count(r, count, SPD_SITE_SIZE);
    spd_site *sites = spd_room(b, n, sizeof *sites);
    for (size_t i = 0; sites && i < n; i++)
        read_site(r, &sites[i]);
    return sites;
}

static spd_indirect *read_indirects(spd_blob_reader *b, reader *r, uint32_t count)
{
    size_t n = reader_count(r, count, SPD_INDIRECT_SIZE);
    spd_indirect *indirects = spd_room(b, n, sizeof *indirects);
    for (size_t i = 0; indirects && i < n; i++) {
        read_site(r, &indirects[i].site);
        indirects[i].total = reader_u64(r);
        for (unsigned t = 0; t < SPD_TARGETS; t++) {
            indirects[i].targets[t].hash = reader_u64(r);
            indirects[i].targets[t].count = reader_u64(r);
        }
    }
    return indirects;
}

/* ------------------------------------------------------------------ what was inlined */

static spd_instance *read_instances(spd_blob_reader *b, reader *r, unsigned depth, uint32_t *count);

static bool read_inline_block(spd_blob_reader *b, reader *r, unsigned depth,
                              spd_inline_block *block)
{
    block->id = reader_u32(r);
    block->flags = reader_u16(r);
    block->number = reader_u16(r);
    block->instruction_count = reader_u32(r);
    block->range_count = reader_u32(r);
    block->site_count = reader_u32(r);
    uint32_t nested_bytes = reader_u32(r);
    block->ranges = read_ranges(b, r, block->range_count);
    block->sites = read_sites(b, r, block->site_count);
    reader nested = reader_sub(r, nested_bytes);
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

static void read_edges(reader *r, spd_edge *edges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        edges[i].target = reader_u32(r); /* an offset so far: resolve_edges */
        edges[i].count = reader_u64(r);
        edges[i].flags = reader_u32(r);
    }
}

static block_parts read_block_head(reader *r, spd_block *block, uint32_t *id)
{
    block_parts parts;
    block->offset = reader_offset(r);
    *id = reader_u32(r);
    block->flags = reader_u16(r);
    block->number = reader_u16(r);
    block->count = reader_u64(r);
    block->instruction_count = reader_u32(r);
    parts.edge_count = reader_u32(r);
    parts.range_count = reader_u32(r);
    parts.call_count = reader_u32(r);
    parts.inline_bytes = reader_u32(r);
    return parts;
}

static bool read_block(spd_blob_reader *b, reader *r, spd_block *block, uint32_t expected_id)
{
    uint32_t id;
    block_parts parts = read_block_head(r, block, &id);
    block->edge_count = parts.edge_count;
    block->range_count = parts.range_count;
    block->indirect_count = parts.call_count;
    block->ranges = read_ranges(b, r, parts.range_count);
    block->indirects = read_indirects(b, r, parts.call_count);
    reader inlined = reader_sub(r, parts.inline_bytes);
    size_t edge_count = reader_count(r, parts.edge_count, SPD_EDGE_SIZE);
    if (!spd_sound(b, r, "a block reaches behind the flow graph"))
        return false;
    if (id != expected_id)
        return spd_misfit(b, block->offset, "the ids of the blocks are not 1, 2, 3, ...");
    block->edges = spd_room(b, edge_count, sizeof *block->edges);
    if (block->edges)
        read_edges(r, block->edges, block->edge_count);
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
