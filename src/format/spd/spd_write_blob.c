/* Writes the blob of a function: see spd_blob.c. */
#include "spd_internal.h"

#include <stdlib.h>

#include <base/limits.h>

/* A part whose size is known when it is done: where its size stands. */
static void end_part(bytes *out, size_t size_at, size_t start)
{
    if (!out->failed)
        bytes_set_u32(out, size_at, (uint32_t)(out->len - start));
}

/* Room for n records at the end, which the caller fills; NULL when there is no memory. */
static uint8_t *append(bytes *out, size_t n, size_t size)
{
    if (!bytes_reserve(out, n * size))
        return NULL;
    uint8_t *p = out->ptr + out->len;
    out->len += n * size;
    return p;
}

static void write_ranges(bytes *out, const spd_range *ranges, uint32_t count)
{
    uint8_t *p = append(out, count, SPD_RANGE_SIZE);
    for (uint32_t i = 0; p && i < count; i++, p += SPD_RANGE_SIZE) {
        store_u32(p, ranges[i].offset);
        store_u32(p + 4, ranges[i].length_word);
    }
}

static void store_site(uint8_t *p, const spd_site *site)
{
    store_u32(p, site->place_word);
    store_u32(p + 4, site->ordinal_word);
}

static bool write_instance(bytes *out, const spd_instance *instance, unsigned depth);

static bool write_instances(bytes *out, const spd_instance *instances, uint32_t count,
                            unsigned depth)
{
    if (count && depth == LIMIT_SPD_NESTING)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!write_instance(out, &instances[i], depth + 1))
            return false;
    }
    return true;
}

static bool write_inline_block(bytes *out, const spd_inline_block *block, unsigned depth)
{
    enum { NESTED_BYTES = 0x14 };
    size_t head = out->len;
    uint8_t *p = append(out, 1, SPD_INLINE_BLOCK_SIZE);
    if (p) {
        store_u32(p, block->id);
        store_u16(p + 0x04, block->flags);
        store_u16(p + 0x06, block->number);
        store_u32(p + 0x08, block->instruction_count);
        store_u32(p + 0x0c, block->range_count);
        store_u32(p + 0x10, block->site_count);
    }
    write_ranges(out, block->ranges, block->range_count);
    p = append(out, block->site_count, SPD_SITE_SIZE);
    for (uint32_t i = 0; p && i < block->site_count; i++, p += SPD_SITE_SIZE)
        store_site(p, &block->sites[i]);
    size_t start = out->len;
    bool ok = write_instances(out, block->instances, block->instance_count, depth);
    end_part(out, head + NESTED_BYTES, start);
    return ok;
}

static bool write_instance(bytes *out, const spd_instance *instance, unsigned depth)
{
    bytes_u64(out, instance->callee_hash);
    bytes_u32(out, instance->word_08);
    size_t size_at = out->len;
    bytes_u32(out, 0);
    size_t start = out->len;
    for (uint32_t i = 0; i < instance->block_count; i++) {
        if (!write_inline_block(out, &instance->blocks[i], depth))
            return false;
    }
    end_part(out, size_at, start);
    return true;
}

static void write_indirects(bytes *out, const spd_block *block)
{
    enum { TOTAL = 8, TARGETS = 16, TARGET_SIZE = 16 };
    uint8_t *p = append(out, block->indirect_count, SPD_INDIRECT_SIZE);
    for (uint32_t i = 0; p && i < block->indirect_count; i++, p += SPD_INDIRECT_SIZE) {
        const spd_indirect *call = &block->indirects[i];
        store_site(p, &call->site);
        store_u64(p + TOTAL, call->total);
        for (unsigned t = 0; t < SPD_TARGETS; t++) {
            store_u64(p + TARGETS + t * TARGET_SIZE, call->targets[t].hash);
            store_u64(p + TARGETS + t * TARGET_SIZE + 8, call->targets[t].count);
        }
    }
}

/* Their targets come when all blocks have a place: link_edges. */
static void write_edges(bytes *out, const spd_block *block)
{
    uint8_t *p = append(out, block->edge_count, SPD_EDGE_SIZE);
    for (uint32_t i = 0; p && i < block->edge_count; i++, p += SPD_EDGE_SIZE) {
        store_u64(p + 0x04, block->edges[i].count);
        store_u32(p + 0x0c, block->edges[i].flags);
    }
}

static bool write_block(bytes *out, const spd_block *block, uint32_t id)
{
    enum { INLINE_BYTES = 0x20 };
    size_t head = out->len;
    uint8_t *p = append(out, 1, SPD_BLOCK_SIZE);
    if (p) {
        store_u32(p, id);
        store_u16(p + 0x04, block->flags);
        store_u16(p + 0x06, block->number);
        store_u64(p + 0x08, block->count);
        store_u32(p + 0x10, block->instruction_count);
        store_u32(p + 0x14, block->edge_count);
        store_u32(p + 0x18, block->range_count);
        store_u32(p + 0x1c, block->indirect_count);
    }
    write_ranges(out, block->ranges, block->range_count);
    write_indirects(out, block);
    size_t start = out->len;
    bool ok = write_instances(out, block->instances, block->instance_count, 0);
    end_part(out, head + INLINE_BYTES, start);
    write_edges(out, block);
    return ok;
}

/* The edges of a block are its last bytes, so that they end where the next block begins. */
static bool link_edges(const spd_function *f, uint8_t *graph, const uint32_t *ends)
{
    for (uint32_t i = 0; i < f->block_count; i++) {
        const spd_block *block = &f->blocks[i];
        uint8_t *edge = graph + ends[i] - (size_t)block->edge_count * SPD_EDGE_SIZE;
        for (uint32_t k = 0; k < block->edge_count; k++, edge += SPD_EDGE_SIZE) {
            uint32_t target = block->edges[k].target;
            if (target >= f->block_count)
                return false;
            store_u32(edge, target ? ends[target - 1] : 0);
        }
    }
    return true;
}

static spgo_code write_graph(const spd_function *f, bytes *out, spgo_error *err)
{
    size_t start = out->len;
    uint32_t *ends = malloc((f->block_count + (size_t)1) * sizeof *ends);
    bool ok = true;
    if (!ends)
        return spgo_fail_nomem(err, "spd.graph", f->block_count * sizeof *ends);
    for (uint32_t i = 0; ok && i < f->block_count; i++) {
        ok = write_block(out, &f->blocks[i], i + 1);
        ends[i] = (uint32_t)(out->len - start);
    }
    bool nesting_ok = ok;
    if (ok && !out->failed && f->block_count)
        ok = link_edges(f, out->ptr + start, ends);
    free(ends);
    if (ok)
        return SPGO_OK;
    return spgo_fail(err, SPGO_USAGE, "spd.graph", f->offset, "function %u: %s", f->id,
                     nesting_ok ? "an edge leads to a block that there is not"
                                : "functions are inlined into each other deeper than is read");
}

static spgo_code write_calls(const spd_function *f, bytes *out, spgo_error *err)
{
    for (uint32_t i = 0; i < f->call_count; i++) {
        const spd_call *call = &f->calls[i];
        bytes_u64(out, call->callee_hash);
        bytes_u32(out, call->kind);
        bytes_u64(out, call->count);
        bytes_u32(out, call->block_count);
        for (uint32_t k = 0; k < call->block_count; k++) {
            if (call->blocks[k] >= f->block_count)
                return spgo_fail(err, SPGO_USAGE, "spd.calls", f->offset,
                                 "function %u: a call stands in block index %u of %u", f->id,
                                 call->blocks[k], f->block_count);
            bytes_u32(out, call->blocks[k] + 1);
        }
    }
    return SPGO_OK;
}

static void write_emitted(const spd_function *f, bytes *out)
{
    for (uint32_t i = 0; i < f->emitted_count; i++) {
        bytes_u64(out, f->emitted[i].callee_hash);
        bytes_u32(out, f->emitted[i].flags);
        bytes_u64(out, f->emitted[i].count);
        bytes_u32(out, f->emitted[i].word_14);
    }
}

static uint32_t count_edges(const spd_function *f)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->block_count; i++)
        count += f->blocks[i].edge_count;
    return count;
}

/* The sizes and offsets in it are filled in by write_parts. */
static void write_head(const spd_function *f, bytes *out)
{
    bytes_u64(out, f->blob_hash);
    bytes_u32(out, f->word_08);
    bytes_u32(out, f->word_0c);
    bytes_u32(out, 0);
    bytes_u32(out, f->flags);
    bytes_u32(out, f->checksum);
    bytes_u32(out, 0);
    bytes_u32(out, f->rva);
    bytes_u32(out, f->length);
    bytes_u32(out, f->word_28);
    bytes_u32(out, f->word_2c);
    bytes_u32(out, 0);
    bytes_u32(out, f->block_count);
    bytes_u32(out, count_edges(f));
    bytes_fill(out, 0, 16);
    bytes_u32(out, f->word_4c);
    bytes_u32(out, f->word_50);
}

spgo_code spd_write_blob(const spd_function *f, bytes *out, spgo_error *err)
{
    size_t start = out->len;
    if (f->raw.ptr) {
        bytes_put(out, f->raw.ptr, f->raw.len);
        return SPGO_OK;
    }
    write_head(f, out);
    SPGO_TRY(write_calls(f, out, err));
    size_t graph = out->len;
    SPGO_TRY(write_graph(f, out, err));
    size_t emitted = out->len;
    write_emitted(f, out);
    if (out->failed)
        return spgo_fail_nomem(err, "spd.blob", out->len);
    bytes_set_u32(out, start + 0x10, (uint32_t)(out->len - start));
    bytes_set_u32(out, start + 0x1c, (uint32_t)(graph - start));
    bytes_set_u32(out, start + 0x30, (uint32_t)(emitted - graph));
    bytes_set_u32(out, start + 0x3c, SPD_BLOB_HEADER_SIZE);
    bytes_set_u32(out, start + 0x40, (uint32_t)(graph - start - SPD_BLOB_HEADER_SIZE));
    bytes_set_u32(out, start + 0x44, (uint32_t)(emitted - start));
    bytes_set_u32(out, start + 0x48, (uint32_t)(out->len - emitted));
    return SPGO_OK;
}
