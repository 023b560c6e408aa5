/* The debug directory and the payloads of its rows that a profiler asks for. */
#include <format/pe/pe_internal.h>

#include <inttypes.h>
#include <string.h>

#include <base/fail.h>

enum {
    DEBUG_ROW_SIZE = 28,
    SIGNATURE_RSDS = 0x53445352,
    SIGNATURE_NB10 = 0x3031424e,
    MINOR_VERSION_PORTABLE = 0x504d /* "MP" in a CodeView row: the PDB is a portable one */
};

spgo_code pe_debug_open(const pe_image *image, pe_table *out, spgo_error *err)
{
    return pe_directory_table(image, PE_DIRECTORY_DEBUG, DEBUG_ROW_SIZE, out, err);
}

/* In a file the offset counts, since payloads need not be mapped; in memory only the RVA does. */
static spgo_span payload(const pe_image *image, const pe_debug *d)
{
    spgo_span data = {NULL, 0};
    if (image->layout == PE_LAYOUT_FILE && d->data_off != 0) {
        if (d->data_off <= image->bytes.len && d->size_bytes <= image->bytes.len - d->data_off)
            data = (spgo_span){image->bytes.ptr + d->data_off, d->size_bytes};
    } else if (d->data_rva != 0) {
        (void)pe_span_at_rva(image, d->data_rva, d->size_bytes, &data);
    }
    return data;
}

pe_debug pe_debug_at(const pe_image *image, const pe_table *t, size_t index)
{
    uint64_t off = t->off + (uint64_t)index * DEBUG_ROW_SIZE;
    reader r = reader_from((spgo_span){pe_row(t, index), DEBUG_ROW_SIZE}, off);
    pe_debug d = {.row_off = off};
    d.characteristics = reader_u32(&r);
    d.time_date_stamp = reader_u32(&r);
    d.version.major = reader_u16(&r);
    d.version.minor = reader_u16(&r);
    d.type = reader_u32(&r);
    d.size_bytes = reader_u32(&r);
    d.data_rva = reader_u32(&r);
    d.data_off = reader_u32(&r);
    d.data = payload(image, &d);
    return d;
}

bool pe_debug_find(const pe_image *image, uint32_t type, pe_debug *out)
{
    pe_table t;
    if (pe_debug_open(image, &t, NULL) != SPGO_OK)
        return false;
    for (size_t i = 0; i < t.count; i++) {
        pe_debug d = pe_debug_at(image, &t, i);
        if (d.type == type) {
            *out = d;
            return true;
        }
    }
    return false;
}

bool pe_is_spgo(const pe_image *image)
{
    pe_debug d;
    return pe_debug_find(image, PE_DEBUG_SPGO, &d);
}

bool pe_repro_hash(const pe_image *image, spgo_span *hash)
{
    pe_debug d;
    *hash = (spgo_span){NULL, 0};
    if (!pe_debug_find(image, PE_DEBUG_REPRO, &d))
        return false;
    reader r = pe_reader(image, d.data);
    *hash = reader_bytes(&r, reader_u32(&r));
    return true;
}

bool pe_pdb_checksum(const pe_debug *row, spgo_str *algorithm, spgo_span *checksum)
{
    reader r = reader_from(row->data, 0);
    *algorithm = reader_cstr(&r);
    *checksum = reader_bytes(&r, reader_left(&r));
    return r.code == SPGO_OK && algorithm->len > 0 && checksum->len > 0;
}

/* ------------------------------------------------------------------ CodeView */

static uint64_t payload_offset(const pe_debug *row)
{
    return row->data_off; /* 0 in an image from memory whose linker left it out */
}

spgo_code pe_codeview_read(const pe_debug *row, pe_codeview *out, spgo_error *err)
{
    static const char where[] = "pe.codeview";
    *out = (pe_codeview){.is_portable = row->version.minor == MINOR_VERSION_PORTABLE};
    if (row->data.len < row->size_bytes)
        return spgo_fail(err, SPGO_TRUNCATED, where, row->row_off,
                         "the record (%" PRIu32 " bytes at file offset 0x%" PRIx32
                         ", RVA 0x%" PRIx32 ") does not lie in the input",
                         row->size_bytes, row->data_off, row->data_rva);
    reader r = reader_from(row->data, payload_offset(row));
    out->signature = reader_u32(&r);
    if (out->signature == SIGNATURE_RSDS) {
        out->kind = PE_CODEVIEW_RSDS;
        out->id.guid = reader_guid(&r);
        out->id.age = reader_u32(&r);
    } else if (out->signature == SIGNATURE_NB10) {
        out->kind = PE_CODEVIEW_NB10;
        reader_skip(&r, 4); /* an offset, always 0 */
        out->time_stamp = reader_u32(&r);
        out->id.age = reader_u32(&r);
    } else {
        return reader_finish(&r, where, err);
    }
    out->pdb_path = pe_text(reader_bytes(&r, reader_left(&r)));
    return reader_finish(&r, where, err);
}

/* The less, the better. */
static unsigned codeview_rank(const pe_codeview *cv)
{
    if (cv->kind == PE_CODEVIEW_RSDS)
        return cv->is_portable ? 1 : 0;
    return cv->kind == PE_CODEVIEW_NB10 ? 2 : 3;
}

spgo_code pe_codeview_find(const pe_image *image, pe_codeview *out, spgo_error *err)
{
    pe_table t;
    spgo_error first_failure = {0};
    *out = (pe_codeview){0};
    SPGO_TRY(pe_debug_open(image, &t, err));
    for (size_t i = 0; i < t.count; i++) {
        pe_debug d = pe_debug_at(image, &t, i);
        pe_codeview cv;
        if (d.type != PE_DEBUG_CODEVIEW)
            continue;
        spgo_error *failure = first_failure.code == SPGO_OK ? &first_failure : NULL;
        if (pe_codeview_read(&d, &cv, failure) == SPGO_OK &&
            codeview_rank(&cv) < codeview_rank(out))
            *out = cv;
    }
    if (out->kind != PE_CODEVIEW_OTHER)
        return SPGO_OK;
    if (first_failure.code != SPGO_OK) {
        if (err)
            *err = first_failure;
        return first_failure.code;
    }
    return spgo_fail(err, SPGO_NOT_FOUND, "pe.codeview", SPGO_NO_OFFSET,
                     "the image names no PDB: link it with /DEBUG, or with MinGW --build-id");
}

/* ------------------------------------------------------------------ POGO */

pe_pogo pe_pogo_open(const pe_debug *row)
{
    pe_pogo p = {.rest = reader_from(row->data, payload_offset(row))};
    p.signature = reader_u32(&p.rest);
    return p;
}

bool pe_pogo_next(pe_pogo *p, pe_pogo_group *out)
{
    reader *r = &p->rest;
    if (reader_left(r) == 0)
        return false;
    out->rva = reader_u32(r);
    out->size_bytes = reader_u32(r);
    out->name = reader_cstr(r);
    size_t padding = (4 - r->pos % 4) % 4; /* from the payload's start */
    size_t left = reader_left(r);
    reader_skip(r, padding < left ? padding : left); /* the last row may lack it */
    return r->code == SPGO_OK;
}
