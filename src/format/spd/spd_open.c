/* Reads an SPD file: header, list of modules, names; and what every document has. */
#include "spd_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>

/* A document takes at most about four times the bytes of its file. */
enum { BUDGET_FACTOR = 16, BUDGET_MIN = 1 << 20 };

/* Where the header says that things are. */
typedef struct header_layout {
    uint32_t list_off, module_count;
    uint32_t names_off, names_bytes;
    uint32_t body_off;
} header_layout;

spgo_code spd_no_room(spgo_error *err)
{
    return spgo_fail(err, SPGO_NOMEM, "spd", SPGO_NO_OFFSET,
                     "out of memory, or the file claims more than a file of its size can hold");
}

void spd_note(spd *doc, spd_severity severity, const char *rule, uint64_t offset, const char *fmt,
              ...)
{
    doc->finding_total++;
    doc->damage_total += severity == SPD_DAMAGE;
    if (doc->finding_count == SPD_FINDINGS_KEPT)
        return;
    if (!doc->findings)
        doc->findings = arena_push(doc->memory, SPD_FINDINGS_KEPT, sizeof *doc->findings);
    if (!doc->findings)
        return;
    spd_finding *f = &doc->findings[doc->finding_count++];
    *f = (spd_finding){.severity = severity, .rule = rule, .offset = offset};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->sentence, sizeof f->sentence, fmt, ap);
    va_end(ap);
}

spd *spd_new(uint64_t budget_bytes)
{
    spd *doc = calloc(1, sizeof *doc);
    if (!doc)
        return NULL;
    doc->memory = arena_new(budget_bytes);
    if (!doc->memory) {
        free(doc);
        return NULL;
    }
    doc->format = SPD_FORMAT;
    doc->word_20 = SPD_HEADER_SIZE;
    return doc;
}

void spd_free(spd *doc)
{
    if (!doc)
        return;
    arena_free(doc->memory);
    free(doc);
}

/* ------------------------------------------------------------------ header */

static header_layout read_header(reader *r, spd *doc)
{
    header_layout at;
    reader_skip(r, 4);
    doc->format = reader_u32(r);
    doc->word_08 = reader_u32(r);
    doc->word_0c = reader_u32(r);
    doc->word_10 = reader_u32(r);
    doc->flags = reader_u32(r);
    doc->image_hash = reader_u32(r);
    doc->word_1c = reader_u32(r);
    doc->word_20 = reader_u32(r);
    doc->word_24 = reader_u32(r);
    at.list_off = reader_u32(r);
    at.module_count = reader_u32(r);
    at.names_off = reader_u32(r);
    at.names_bytes = reader_u32(r);
    at.body_off = reader_u32(r);
    doc->word_3c = reader_u32(r);
    doc->word_40 = reader_u32(r);
    doc->word_44 = reader_u32(r);
    doc->id.age = reader_u32(r);
    doc->id.guid = reader_guid(r);
    doc->hot_threshold = reader_u64(r);
    doc->dynamic_total = reader_u64(r);
    doc->static_total = reader_u32(r);
    doc->word_70 = reader_u32(r);
    return at;
}

/* List, names and modules follow each other, and there is room for what is counted. */
static bool is_layout_known(const header_layout *at, size_t size_bytes)
{
    uint64_t list_end = at->list_off + (uint64_t)at->module_count * SPD_LIST_ENTRY_SIZE;
    uint64_t names_end = (uint64_t)at->names_off + at->names_bytes;
    return at->list_off >= SPD_HEADER_SIZE && list_end <= at->names_off &&
           names_end <= at->body_off && at->body_off <= size_bytes &&
           at->module_count <= (size_bytes - at->body_off) / SPD_MODULE_HEADER_SIZE;
}

spgo_span spd_gap(spgo_span s, uint64_t off, uint64_t end, size_t usual)
{
    spgo_span g = spd_slice(s, off, end);
    bool is_usual = g.len == usual;
    for (size_t i = 0; is_usual && i < g.len; i++)
        is_usual = g.ptr[i] == 0;
    return is_usual ? (spgo_span){NULL, 0} : g;
}

static spgo_span keep_gap(spd *doc, uint64_t off, uint64_t end, size_t usual)
{
    spgo_span g = spd_gap(doc->file, off, end, usual);
    if (g.ptr)
        spd_note(doc, SPD_NOTE, "gap", doc->origin + off,
                 "%zu bytes before 0x%" PRIx64 " are of unknown meaning; they are kept", g.len,
                 end);
    return g;
}

/* ------------------------------------------------------------------ names */

/* The name at byte `off` of the block of names; NULL without memory. *allowance: bytes that may
 * still be looked at, so that names that share their ends do not cost their number times their
 * length. */
static spgo_str read_name(spd *doc, spgo_span names, uint32_t off, uint64_t *allowance)
{
    uint64_t names_off = doc->origin + (uint64_t)(names.ptr - doc->file.ptr);
    reader r = reader_from(names, names_off);
    reader_seek(&r, off);
    if (reader_left(&r) > *allowance)
        r.len = r.pos + (size_t)*allowance;
    size_t left = reader_left(&r);
    spgo_span utf16 = reader_utf16z(&r);
    *allowance -= r.code == SPGO_OK ? utf16.len : left;
    if (r.code == SPGO_OK) {
        spgo_str name = text_from_utf16(doc->memory, utf16);
        return utf16.len && !name.len ? (spgo_str){NULL, 0} : name;
    }
    spd_note(doc, SPD_DAMAGE, "names", names_off,
             "a name is at 0x%" PRIx32 " of the names and does not end in them; they are 0x%zx "
             "bytes long",
             off, names.len);
    return (spgo_str){"", 0};
}

static spgo_code read_names(spd *doc, spgo_span file, const header_layout *at, spgo_error *err)
{
    spgo_span names = {file.ptr + at->names_off, at->names_bytes};
    uint64_t names_off = doc->origin + at->names_off;
    uint32_t *made_offs = arena_push(doc->memory, doc->module_count, sizeof *made_offs);
    uint64_t allowance = SPD_SHARED_NAMES * (uint64_t)names.len;
    doc->image_name = read_name(doc, names, 0, &allowance);
    bool has_memory = made_offs && doc->image_name.ptr;
    for (size_t i = 0; i < doc->module_count; i++) {
        doc->modules[i].name = read_name(doc, names, doc->modules[i].name_off, &allowance);
        has_memory = has_memory && doc->modules[i].name.ptr;
    }
    if (!has_memory)
        return spd_no_room(err);
    bytes made = {0};
    spd_write_names(doc, made_offs, &made);
    bool usual = made.len == names.len && !made.failed && !memcmp(made.ptr, names.ptr, names.len);
    for (size_t i = 0; i < doc->module_count; i++)
        usual = usual && made_offs[i] == doc->modules[i].name_off;
    bool failed = made.failed;
    bytes_free(&made);
    if (failed)
        return spd_no_room(err);
    if (!usual) {
        doc->kept_names = names;
        spd_note(doc, SPD_NOTE, "names-order", names_off,
                 "the block of names is not the image's and the modules' one behind the other; it "
                 "is kept");
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ modules */

static spgo_code read_list(spd *doc, spgo_span file, const header_layout *at, spgo_error *err)
{
    reader r = reader_from(file, doc->origin);
    reader_seek(&r, at->list_off);
    doc->modules = arena_push(doc->memory, at->module_count, sizeof *doc->modules);
    if (!doc->modules)
        return spd_no_room(err);
    doc->module_count = at->module_count;
    for (size_t i = 0; i < doc->module_count; i++) {
        doc->modules[i].name_off = reader_u32(&r);
        doc->modules[i].list_word_04 = reader_u32(&r);
        doc->modules[i].list_word_08 = reader_u32(&r);
    }
    return SPGO_OK;
}

static spgo_code read_modules(spd *doc, spgo_span file, const header_layout *at, spgo_error *err)
{
    reader r = reader_from(file, doc->origin);
    reader_seek(&r, at->body_off);
    for (size_t i = 0; i < doc->module_count; i++)
        SPGO_TRY(spd_read_module(doc, &r, &doc->modules[i], err));
    if (!reader_left(&r))
        return SPGO_OK;
    spd_note(doc, SPD_NOTE, "tail", reader_offset(&r),
             "%zu bytes follow the last module; they are kept", reader_left(&r));
    doc->tail = reader_bytes(&r, reader_left(&r));
    return SPGO_OK;
}

static spgo_code read_body(spd *doc, spgo_span file, const header_layout *at, spgo_error *err)
{
    size_t list_end = at->list_off + (size_t)at->module_count * SPD_LIST_ENTRY_SIZE;
    size_t names_end = (size_t)at->names_off + at->names_bytes;
    doc->gap_header = keep_gap(doc, SPD_HEADER_SIZE, at->list_off, 0);
    doc->gap_list = keep_gap(doc, list_end, at->names_off, 0);
    doc->gap_names =
        keep_gap(doc, names_end, at->body_off, spd_padding(names_end, SPD_NAMES_ALIGN));
    SPGO_TRY(read_list(doc, file, at, err));
    SPGO_TRY(read_names(doc, file, at, err));
    SPGO_TRY(read_modules(doc, file, at, err));
    return spd_index(doc, err);
}

static spgo_code read_file(spd *doc, spgo_span file, spgo_error *err)
{
    reader r = reader_from(file, doc->origin);
    header_layout at = read_header(&r, doc);
    SPGO_TRY(reader_finish(&r, "the header of an SPD file", err));
    if (doc->format != SPD_FORMAT)
        spd_note(doc, SPD_NOTE, "format", doc->origin + 4,
                 "the format word is 0x%" PRIx32 "; all known files have 0x%x", doc->format,
                 SPD_FORMAT);
    if (is_layout_known(&at, file.len))
        return read_body(doc, file, &at, err);
    doc->raw = file;
    spd_note(doc, SPD_DAMAGE, "header-layout", doc->origin + 0x28,
             "list of %" PRIu32 " modules at 0x%" PRIx32 ", names at 0x%" PRIx32
             " and modules from 0x%" PRIx32 " on do not follow each other inside the %zu bytes "
             "there are; the file was cut or is of a kind not known",
             at.module_count, at.list_off, at.names_off, at.body_off, file.len);
    return SPGO_OK;
}

spgo_code spd_open(spgo_span file, uint64_t origin, spd **out, spgo_error *err)
{
    *out = NULL;
    if (file.len >= 4 && load_u32(file.ptr) != SPD_SIGNATURE)
        return spgo_fail(err, SPGO_CORRUPT, "spd.header", origin,
                         "the file begins with 0x%08" PRIx32
                         " and not with \"H_Q_\": it is no SPD file",
                         load_u32(file.ptr));
    spd *doc = spd_new((uint64_t)file.len * BUDGET_FACTOR + BUDGET_MIN);
    if (!doc)
        return spgo_fail_nomem(err, "spd", sizeof *doc);
    doc->origin = origin;
    doc->file = file;
    spgo_code code = read_file(doc, file, err);
    bool is_one_lost = doc->finding_count < doc->finding_total;
    if (code == SPGO_OK && is_one_lost && doc->finding_count < SPD_FINDINGS_KEPT)
        code = spd_no_room(err);
    if (code != SPGO_OK) {
        spd_free(doc);
        return code;
    }
    *out = doc;
    return SPGO_OK;
}
