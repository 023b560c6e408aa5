/*
 * Writes an SPD document: everything from its values, and what they do not explain from the bytes
 * that were kept.
 */
#include "spd_internal.h"

#include <stdlib.h>
#include <string.h>

/* A module being written: where its parts went, and the offsets of its names and blobs. */
typedef struct module_writer {
    const spd_module *m;
    size_t start;
    uint32_t *name_offs, *blob_offs;
    size_t table, table_end, data, data_end, strings, strings_end;
} module_writer;

/* The bytes that were kept, or as many zeros as are usual. */
static void write_gap(bytes *out, spgo_span kept, size_t usual)
{
    if (kept.ptr)
        bytes_put(out, kept.ptr, kept.len);
    else
        bytes_fill(out, 0, usual);
}

/* ------------------------------------------------------------------ module */

/* The table stands before the data, and takes the offsets of the blobs: data first. */
static spgo_code write_data(module_writer *w, bytes *data, spgo_error *err)
{
    for (size_t i = 0; i < w->m->function_count; i++) {
        w->blob_offs[i] = (uint32_t)data->len;
        SPGO_TRY(spd_write_blob(&w->m->functions[i], data, err));
        if (data->len > UINT32_MAX)
            return spgo_fail(err, SPGO_LIMIT, "spd.data", w->m->offset,
                             "the functions of a module take more than 4 GiB");
    }
    bytes_put(data, w->m->data_rest.ptr, w->m->data_rest.len);
    return SPGO_OK;
}

static spgo_code write_strings(module_writer *w, bytes *strings, spgo_error *err)
{
    const spd_module *m = w->m;
    if (!m->kept_strings.ptr)
        return spd_write_strings(m, w->name_offs, strings, err);
    for (size_t i = 0; i < m->function_count; i++)
        w->name_offs[i] = m->functions[i].name_off;
    bytes_put(strings, m->kept_strings.ptr, m->kept_strings.len);
    return SPGO_OK;
}

static spgo_code write_table(module_writer *w, bytes *out, spgo_error *err)
{
    const spd_module *m = w->m;
    spd_places places = {.name_offs = w->name_offs, .blob_offs = w->blob_offs};
    if (!m->kept_table.ptr)
        return spd_write_table(m, &places, out, err);
    size_t start = out->len;
    bytes_put(out, m->kept_table.ptr, m->kept_table.len);
    for (size_t i = 0; !out->failed && i < m->function_count; i++) {
        const spd_function *f = &m->functions[i];
        if (f->has_symbol && f->slot < m->kept_table.len / SPD_SLOT_SIZE)
            spd_store_slot(out->ptr + start + f->slot * SPD_SLOT_SIZE, f, w->name_offs[i],
                           w->blob_offs[i]);
    }
    return SPGO_OK;
}

static void write_head(const module_writer *w, bytes *out)
{
    const spd_module *m = w->m;
    const size_t words[SPD_MODULE_HEADER_SIZE / 4] = {
        out->len - w->start,
        m->flags,
        m->generation,
        w->data - w->start,
        w->data_end - w->data,
        w->data_end - w->start,
        m->word_18,
        m->function_count,
        m->word_20,
        w->table - w->start,
        w->table_end - w->table,
        m->bucket_count,
        w->strings - w->start,
        w->strings_end - w->strings,
    };
    for (size_t i = 0; i < SPD_MODULE_HEADER_SIZE / 4; i++)
        bytes_set_u32(out, w->start + 4 * i, (uint32_t)words[i]);
}

static spgo_code write_parts(module_writer *w, bytes *data, bytes *strings, bytes *out,
                             spgo_error *err)
{
    const spd_module *m = w->m;
    SPGO_TRY(write_data(w, data, err));
    SPGO_TRY(write_strings(w, strings, err));
    bytes_fill(out, 0, SPD_MODULE_HEADER_SIZE);
    write_gap(out, m->gap_header, 0);
    w->table = out->len;
    SPGO_TRY(write_table(w, out, err));
    w->table_end = out->len;
    write_gap(out, m->gap_table, 0);
    w->data = out->len;
    bytes_put(out, data->ptr, data->len);
    w->data_end = out->len;
    write_gap(out, m->gap_data, 0);
    w->strings = out->len;
    bytes_put(out, strings->ptr, strings->len);
    w->strings_end = out->len;
    write_gap(out, m->gap_strings, spd_padding(out->len - w->start, SPD_STRINGS_ALIGN));
    if (out->failed || data->failed || strings->failed)
        return spgo_fail_nomem(err, "spd.module", out->len);
    if (out->len > UINT32_MAX)
        return spgo_fail(err, SPGO_LIMIT, "spd.module", m->offset,
                         "an SPD file cannot be larger than 4 GiB");
    write_head(w, out);
    return SPGO_OK;
}

static spgo_code write_module(const spd_module *m, bytes *out, spgo_error *err)
{
    if (m->raw.ptr) {
        bytes_put(out, m->raw.ptr, m->raw.len);
        return SPGO_OK;
    }
    module_writer w = {.m = m, .start = out->len};
    bytes data = {0}, strings = {0};
    w.name_offs = calloc(m->function_count + 1, sizeof *w.name_offs);
    w.blob_offs = calloc(m->function_count + 1, sizeof *w.blob_offs);
    spgo_code code = w.name_offs && w.blob_offs
                         ? write_parts(&w, &data, &strings, out, err)
                         : spgo_fail_nomem(err, "spd.module", m->function_count * 8);
    free(w.name_offs);
    free(w.blob_offs);
    bytes_free(&data);
    bytes_free(&strings);
    return code;
}

/* ------------------------------------------------------------------ file */

/* What stands at 0x28: places and sizes that are known in the end. */
typedef struct file_layout {
    size_t list, names, names_bytes, body;
} file_layout;

static void write_header(const spd *doc, const file_layout *at, bytes *out)
{
    const uint32_t first[] = {SPD_SIGNATURE,       doc->format,
                              doc->word_08,        doc->word_0c,
                              doc->word_10,        doc->flags,
                              doc->image_hash,     doc->word_1c,
                              doc->word_20,        doc->word_24,
                              (uint32_t)at->list,  (uint32_t)doc->module_count,
                              (uint32_t)at->names, (uint32_t)at->names_bytes,
                              (uint32_t)at->body,  doc->word_3c,
                              doc->word_40,        doc->word_44,
                              doc->id.age};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        bytes_u32(out, first[i]);
    bytes_put(out, doc->id.guid.bytes, sizeof doc->id.guid.bytes);
    bytes_u64(out, doc->hot_threshold);
    bytes_u64(out, doc->dynamic_total);
    bytes_u32(out, doc->static_total);
    bytes_u32(out, doc->word_70);
}

/* Header, list of modules and names: everything before the first module. */
static spgo_code write_front(const spd *doc, bytes *out, spgo_error *err)
{
    bytes names = {0};
    uint32_t *offs = calloc(doc->module_count + 1, sizeof *offs);
    if (!offs)
        return spgo_fail_nomem(err, "spd.names", doc->module_count * sizeof *offs);
    if (doc->kept_names.ptr)
        bytes_put(&names, doc->kept_names.ptr, doc->kept_names.len);
    else
        spd_write_names(doc, offs, &names);
    file_layout at = {.list = SPD_HEADER_SIZE + doc->gap_header.len, .names_bytes = names.len};
    at.names = at.list + doc->module_count * SPD_LIST_ENTRY_SIZE + doc->gap_list.len;
    size_t names_end = at.names + names.len;
    at.body = names_end +
              (doc->gap_names.ptr ? doc->gap_names.len : spd_padding(names_end, SPD_NAMES_ALIGN));
    write_header(doc, &at, out);
    write_gap(out, doc->gap_header, 0);
    for (size_t i = 0; i < doc->module_count; i++) {
        bytes_u32(out, doc->kept_names.ptr ? doc->modules[i].name_off : offs[i]);
        bytes_u32(out, doc->modules[i].list_word_04);
        bytes_u32(out, doc->modules[i].list_word_08);
    }
    write_gap(out, doc->gap_list, 0);
    bytes_put(out, names.ptr, names.len);
    bytes_fill(out, 0, doc->gap_names.ptr ? 0 : at.body - names_end);
    bytes_put(out, doc->gap_names.ptr, doc->gap_names.len);
    if (names.failed)
        out->failed = true;
    bytes_free(&names);
    free(offs);
    return SPGO_OK;
}

static spgo_code write_file(const spd *doc, bytes *out, spgo_error *err)
{
    if (doc->raw.ptr) {
        bytes_put(out, doc->raw.ptr, doc->raw.len);
        return SPGO_OK;
    }
    SPGO_TRY(write_front(doc, out, err));
    for (size_t i = 0; i < doc->module_count; i++)
        SPGO_TRY(write_module(&doc->modules[i], out, err));
    bytes_put(out, doc->tail.ptr, doc->tail.len);
    return SPGO_OK;
}

spgo_code spd_write(const spd *doc, spgo_sink sink, spgo_error *err)
{
    bytes out = {0};
    spgo_code code = write_file(doc, &out, err);
    if (code == SPGO_OK && out.failed)
        code = spgo_fail_nomem(err, "spd", out.len);
    if (code == SPGO_OK && !sink.write(sink.ctx, out.ptr, out.len))
        code = spgo_fail(err, SPGO_IO, "spd", SPGO_NO_OFFSET, "the file cannot be written");
    bytes_free(&out);
    return code;
}
