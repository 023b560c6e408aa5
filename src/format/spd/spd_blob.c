/*
 * Reads the blob of a function: header, calls, flow graph, emitted calls. Nothing in a blob can be
 * found again behind a wrong count, so a blob that has one stays the bytes that it is.
 */
#include "spd_internal.h"

#include <inttypes.h>

/* Sizes and offsets in the header of a blob. */
typedef struct blob_layout {
    uint32_t size_bytes, edge_count;
    uint32_t call_off, call_bytes;
    uint32_t graph_off, graph_bytes;
    uint32_t emitted_off, emitted_bytes;
} blob_layout;

bool spd_misfit(spd_blob_reader *b, uint64_t offset, const char *what)
{
    if (!b->misfit) {
        b->misfit = what;
        b->misfit_off = offset;
    }
    return false;
}

void *spd_room(spd_blob_reader *b, size_t n, size_t size)
{
    if (!n)
        return NULL;
    void *p = arena_push(b->memory, n, size);
    if (!p)
        b->no_memory = true;
    return p;
}

bool spd_sound(spd_blob_reader *b, const reader *r, const char *what)
{
    if (r->code != SPGO_OK)
        return spd_misfit(b, r->bad_off, what);
    return !b->no_memory && !b->misfit;
}

static blob_layout read_head(reader *r, spd_function *f)
{
    blob_layout at;
    f->blob_hash = reader_u64(r);
    f->word_08 = reader_u32(r);
    f->word_0c = reader_u32(r);
    at.size_bytes = reader_u32(r);
    f->flags = reader_u32(r);
    f->checksum = reader_u32(r);
    at.graph_off = reader_u32(r);
    f->rva = reader_u32(r);
    f->length = reader_u32(r);
    f->word_28 = reader_u32(r);
    f->word_2c = reader_u32(r);
    at.graph_bytes = reader_u32(r);
    f->block_count = reader_u32(r);
    at.edge_count = reader_u32(r);
    at.call_off = reader_u32(r);
    at.call_bytes = reader_u32(r);
    at.emitted_off = reader_u32(r);
    at.emitted_bytes = reader_u32(r);
    f->word_4c = reader_u32(r);
    f->word_50 = reader_u32(r);
    return at;
}

/* The three parts follow the header and each other without gaps. */
static bool is_layout_known(const blob_layout *at)
{
    uint64_t graph_off = (uint64_t)SPD_BLOB_HEADER_SIZE + at->call_bytes;
    uint64_t emitted_off = graph_off + at->graph_bytes;
    return at->call_off == SPD_BLOB_HEADER_SIZE && at->graph_off == graph_off &&
           at->emitted_off == emitted_off && at->size_bytes == emitted_off + at->emitted_bytes;
}

static uint32_t count_calls(reader r)
{
    uint32_t count = 0;
    for (; reader_left(&r); count++) {
        reader_skip(&r, SPD_CALL_SIZE - 4);
        reader_skip(&r, 4 * (uint64_t)reader_u32(&r));
    }
    return count;
}

static bool read_call(spd_blob_reader *b, reader *r, uint32_t block_count, spd_call *call)
{
    call->offset = reader_offset(r);
    call->callee_hash = reader_u64(r);
    call->kind = reader_u32(r);
    call->count = reader_u64(r);
    call->block_count = reader_u32(r);
    size_t n = reader_count(r, call->block_count, 4);
    if (!spd_sound(b, r, "a call reaches behind the list of calls"))
        return false;
    call->blocks = spd_room(b, n, sizeof *call->blocks);
    for (size_t i = 0; call->blocks && i < n; i++) {
        uint32_t id = reader_u32(r);
        if (id == 0 || id > block_count)
            return spd_misfit(b, call->offset, "a call stands in a block that there is not");
        call->blocks[i] = id - 1;
    }
    return !b->no_memory;
}

static bool read_calls(spd_blob_reader *b, reader *r, spd_function *f)
{
    f->call_count = count_calls(*r);
    f->calls = spd_room(b, f->call_count, sizeof *f->calls);
    for (uint32_t i = 0; f->calls && i < f->call_count; i++) {
        if (!read_call(b, r, f->block_count, &f->calls[i]))
            return false;
    }
    return !b->no_memory;
}

static bool read_emitted(spd_blob_reader *b, reader *r, spd_function *f)
{
    size_t left = reader_left(r);
    if (left % SPD_EMITTED_SIZE)
        return spd_misfit(b, reader_offset(r), "the list of emitted calls ends inside an entry");
    f->emitted_count = (uint32_t)(left / SPD_EMITTED_SIZE);
    f->emitted = spd_room(b, f->emitted_count, sizeof *f->emitted);
    for (uint32_t i = 0; f->emitted && i < f->emitted_count; i++) {
        f->emitted[i].callee_hash = reader_u64(r);
        f->emitted[i].flags = reader_u32(r);
        f->emitted[i].count = reader_u64(r);
        f->emitted[i].word_14 = reader_u32(r);
    }
    return !b->no_memory;
}

static bool read_parts(spd_blob_reader *b, reader *r, spd_function *f)
{
    blob_layout at = read_head(r, f);
    if (!is_layout_known(&at) || at.size_bytes != r->len)
        return spd_misfit(b, f->offset, "its parts do not follow each other");
    reader calls = reader_sub(r, at.call_bytes);
    reader graph = reader_sub(r, at.graph_bytes);
    reader emitted = reader_sub(r, at.emitted_bytes);
    return read_calls(b, &calls, f) && spd_read_graph(b, &graph, at.edge_count, f) &&
           read_emitted(b, &emitted, f);
}

spgo_code spd_read_blob(spd *doc, spgo_span stored, uint64_t offset, spd_function *f,
                        spgo_error *err)
{
    spd_blob_reader b = {.memory = doc->memory};
    reader r = reader_from(stored, offset);
    f->offset = offset;
    if (read_parts(&b, &r, f))
        return SPGO_OK;
    if (b.no_memory)
        return spd_no_room(err);
    f->raw = stored;
    f->calls = NULL;
    f->blocks = NULL;
    f->emitted = NULL;
    f->call_count = f->block_count = f->emitted_count = 0;
    char label[SPD_LABEL_SIZE];
    spd_note(doc, SPD_DAMAGE, "blob", b.misfit_off,
             "function %s at 0x%" PRIx64 " cannot be read: %s", spd_label(label, f), offset,
             b.misfit);
    return SPGO_OK;
}
