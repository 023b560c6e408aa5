/*
 * Reads a module: header, function table, data (the blobs of the functions), strings.
 *
 * A module that is cut or whose parts overlap keeps its bytes as `raw` and shows the functions that
 * are still there.
 */
#include "spd_internal.h"

#include <inttypes.h>
#include <string.h>

/* A part of a module, as its header places it. */
typedef struct part {
    uint64_t off, end;
} part;

typedef struct module_layout {
    uint32_t size_bytes, data_end_word, function_count;
    part table, data, strings;
} module_layout;

/* The module being read: all its bytes, of which damage may have cut some. */
typedef struct module_reader {
    spd *doc;
    spd_module *m;
    spgo_span bytes;
    module_layout at;
    uint32_t *name_offs, *blob_offs; /* as stored, per function */
    uint64_t name_allowance;         /* bytes that may still be looked at for names */
} module_reader;

static part read_part(reader *r)
{
    uint32_t off = reader_u32(r);
    uint32_t size = reader_u32(r);
    return (part){.off = off, .end = (uint64_t)off + size};
}

static module_layout read_head(reader *r, spd_module *m)
{
    module_layout at;
    at.size_bytes = reader_u32(r);
    m->flags = reader_u32(r);
    m->generation = reader_u32(r);
    at.data = read_part(r);
    at.data_end_word = reader_u32(r);
    m->word_18 = reader_u32(r);
    at.function_count = reader_u32(r);
    m->word_20 = reader_u32(r);
    at.table = read_part(r);
    m->bucket_count = reader_u32(r);
    at.strings = read_part(r);
    return at;
}

static void keep_raw(module_reader *r)
{
    r->m->raw = r->bytes;
}

static bool is_layout_known(const module_layout *at)
{
    return at->table.off >= SPD_MODULE_HEADER_SIZE && at->table.end <= at->data.off &&
           at->data.end == at->data_end_word && at->data.end <= at->strings.off &&
           at->strings.end <= at->size_bytes;
}

/* ------------------------------------------------------------------ functions */

/* The size of the blob at the reader's place, or 0 if no blob can be there. */
static uint32_t blob_size(const reader *r)
{
    size_t left = reader_left(r);
    if (left < SPD_BLOB_HEADER_SIZE)
        return 0;
    uint32_t size = load_u32(r->base + r->pos + 0x10);
    return size >= SPD_BLOB_HEADER_SIZE && size <= left ? size : 0;
}

static size_t count_blobs(reader r)
{
    size_t count = 0;
    for (uint32_t size; (size = blob_size(&r)) != 0; count++)
        reader_skip(&r, size);
    return count;
}

/* Where the functions are; what is in them comes when they have their names. */
static spgo_code find_functions(module_reader *r, spgo_error *err)
{
    spd_module *m = r->m;
    spgo_span data = spd_slice(r->bytes, r->at.data.off, r->at.data.end);
    reader blobs = reader_from(data, m->offset + r->at.data.off);
    m->function_count = count_blobs(blobs);
    m->functions = arena_push(r->doc->memory, m->function_count, sizeof *m->functions);
    r->name_offs = arena_push(r->doc->memory, m->function_count, sizeof *r->name_offs);
    r->blob_offs = arena_push(r->doc->memory, m->function_count, sizeof *r->blob_offs);
    if (!m->functions || !r->name_offs || !r->blob_offs)
        return spd_no_room(err);
    for (size_t i = 0; i < m->function_count; i++) {
        m->functions[i].offset = reader_offset(&blobs);
        r->blob_offs[i] = (uint32_t)blobs.pos;
        reader_skip(&blobs, blob_size(&blobs));
    }
    m->data_rest = reader_bytes(&blobs, reader_left(&blobs));
    return SPGO_OK;
}

static spgo_code read_functions(module_reader *r, spgo_error *err)
{
    spgo_span data = spd_slice(r->bytes, r->at.data.off, r->at.data.end);
    reader blobs = reader_from(data, r->m->offset + r->at.data.off);
    for (size_t i = 0; i < r->m->function_count; i++) {
        spd_function *f = &r->m->functions[i];
        spgo_span blob = reader_bytes(&blobs, blob_size(&blobs));
        SPGO_TRY(spd_read_blob(r->doc, blob, f->offset, f, err));
        if (!f->has_symbol)
            f->hash = f->blob_hash;
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ symbols */

static spd_function *function_at(const module_reader *r, uint32_t blob_off)
{
    size_t low = 0, high = r->m->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->blob_offs[middle] < blob_off)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < r->m->function_count && r->blob_offs[low] == blob_off;
    return found ? &r->m->functions[low] : NULL;
}

static void read_name(module_reader *r, uint64_t slot_off, spd_function *f)
{
    spgo_span strings = spd_slice(r->bytes, r->at.strings.off, r->at.strings.end);
    reader s = reader_from(strings, 0);
    reader_seek(&s, f->name_off);
    if (reader_left(&s) > r->name_allowance)
        s.len = s.pos + (size_t)r->name_allowance;
    size_t left = reader_left(&s);
    f->name = reader_cstr(&s);
    r->name_allowance -= s.code == SPGO_OK ? f->name.len : left;
    if (s.code == SPGO_OK)
        return;
    f->name = (spgo_str){"", 0};
    if (!r->m->raw.ptr)
        spd_note(r->doc, SPD_DAMAGE, "symbol-name", slot_off + 0x08,
                 "the name of function %" PRIu32 " is at 0x%" PRIx32
                 " of the strings and does not end in them; they are 0x%zx bytes long",
                 f->id, f->name_off, strings.len);
}

static void read_symbol(module_reader *r, const uint8_t *slot, size_t index, uint64_t slot_off)
{
    uint32_t blob_off = load_u32(slot + 0x1c);
    spd_function *f = function_at(r, blob_off);
    if (!f || f->has_symbol) {
        if (!r->m->raw.ptr)
            spd_note(r->doc, SPD_WARNING, "symbol-blob", slot_off + 0x1c,
                     "the symbol of id %" PRIu32 " leads to 0x%" PRIx32 " of the data, where %s",
                     load_u32(slot + 0x10), blob_off,
                     f ? "the function of another symbol is" : "no function begins");
        return;
    }
    f->has_symbol = true;
    f->slot = index;
    f->symbol_offset = slot_off;
    f->hash = load_u64(slot);
    f->name_off = load_u32(slot + 0x08);
    f->symbol_flags = load_u32(slot + 0x0c);
    f->id = load_u32(slot + 0x10);
    f->symbol_word_14 = load_u32(slot + 0x14);
    f->folded_rva = load_u32(slot + 0x18);
    read_name(r, slot_off, f);
}

static bool is_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

static void read_symbols(module_reader *r)
{
    spgo_span table = spd_slice(r->bytes, r->at.table.off, r->at.table.end);
    uint64_t strings_bytes = spd_slice(r->bytes, r->at.strings.off, r->at.strings.end).len;
    r->name_allowance = SPD_SHARED_NAMES * strings_bytes;
    for (size_t i = 0; i < table.len / SPD_SLOT_SIZE; i++) {
        const uint8_t *slot = table.ptr + i * SPD_SLOT_SIZE;
        if (!is_zero(slot, SPD_SLOT_SIZE))
            read_symbol(r, slot, i, r->m->offset + r->at.table.off + i * SPD_SLOT_SIZE);
    }
    for (size_t i = 0; i < r->m->function_count; i++) {
        spd_function *f = &r->m->functions[i];
        if (f->has_symbol)
            continue;
        f->name = (spgo_str){"", 0};
        if (!r->m->raw.ptr)
            spd_note(r->doc, SPD_WARNING, "blob-symbol", f->offset,
                     "no symbol of the table leads to the function at 0x%" PRIx64, f->offset);
    }
}

/* ------------------------------------------------------------------ as the linker writes it? */

static bool same_bytes(const bytes *made, spgo_span stored)
{
    return made->len == stored.len && (!stored.len || !memcmp(made->ptr, stored.ptr, stored.len));
}

static spgo_code check_strings(module_reader *r, spgo_error *err)
{
    spgo_span stored = spd_slice(r->bytes, r->at.strings.off, r->at.strings.end);
    bytes made = {0};
    spgo_code code = spd_write_strings(r->m, r->name_offs, &made, err);
    bool usual = code == SPGO_OK && same_bytes(&made, stored);
    bytes_free(&made);
    for (size_t i = 0; i < r->m->function_count; i++) {
        const spd_function *f = &r->m->functions[i];
        usual = usual && (!f->has_symbol || r->name_offs[i] == f->name_off);
        r->name_offs[i] = f->name_off;
    }
    if (code != SPGO_OK || usual)
        return code;
    r->m->kept_strings = stored;
    spd_note(r->doc, SPD_NOTE, "strings-order", r->m->offset + r->at.strings.off,
             "the strings are not the names of the functions in their order; they are kept");
    return SPGO_OK;
}

static spgo_code check_table(module_reader *r, spgo_error *err)
{
    spgo_span stored = spd_slice(r->bytes, r->at.table.off, r->at.table.end);
    spd_places places = {.name_offs = r->name_offs, .blob_offs = r->blob_offs};
    bytes made = {0};
    bool usual = false;
    if ((uint64_t)r->m->bucket_count * SPD_SLOT_SIZE <= stored.len &&
        (r->m->bucket_count || !r->m->function_count)) {
        spgo_code code = spd_write_table(r->m, &places, &made, err);
        usual = code == SPGO_OK && same_bytes(&made, stored);
        bytes_free(&made);
        if (code != SPGO_OK)
            return code;
    }
    if (usual)
        return SPGO_OK;
    r->m->kept_table = stored;
    spd_note(r->doc, SPD_NOTE, "table-order", r->m->offset + r->at.table.off,
             "the function table is not filled as the linker fills it; it is kept");
    return SPGO_OK;
}

static void note_gap(module_reader *r, spgo_span g, const char *where)
{
    if (g.ptr)
        spd_note(r->doc, SPD_NOTE, "gap", r->m->offset + (uint64_t)(g.ptr - r->bytes.ptr),
                 "%zu bytes %s are of unknown meaning; they are kept", g.len, where);
}

static spgo_code check_usual(module_reader *r, spgo_error *err)
{
    const module_layout *at = &r->at;
    spd_module *m = r->m;
    size_t end_pad = spd_padding((size_t)at->strings.end, SPD_STRINGS_ALIGN);
    m->gap_header = spd_gap(r->bytes, SPD_MODULE_HEADER_SIZE, at->table.off, 0);
    m->gap_table = spd_gap(r->bytes, at->table.end, at->data.off, 0);
    m->gap_data = spd_gap(r->bytes, at->data.end, at->strings.off, 0);
    m->gap_strings = spd_gap(r->bytes, at->strings.end, at->size_bytes, end_pad);
    note_gap(r, m->gap_header, "between the header of the module and its table");
    note_gap(r, m->gap_table, "between the function table and the data");
    note_gap(r, m->gap_data, "between the data and the strings");
    note_gap(r, m->gap_strings, "behind the strings");
    SPGO_TRY(check_strings(r, err));
    return check_table(r, err);
}

/* ------------------------------------------------------------------ the module */

/* Finds what makes it impossible to write the module from its values. */
static void check_layout(module_reader *r)
{
    const module_layout *at = &r->at;
    uint64_t offset = r->m->offset;
    if (at->size_bytes > r->bytes.len || at->size_bytes < SPD_MODULE_HEADER_SIZE) {
        keep_raw(r);
        spd_note(r->doc, SPD_DAMAGE, "module-size", offset,
                 "the module is %" PRIu32 " bytes long by its header, and %zu are there",
                 at->size_bytes, r->bytes.len);
    } else if (!is_layout_known(at)) {
        keep_raw(r);
        spd_note(r->doc, SPD_DAMAGE, "module-layout", offset + 0x0c,
                 "table, data and strings of the module do not follow each other inside it");
    }
}

static void check_functions(module_reader *r)
{
    spd_module *m = r->m;
    if (m->raw.ptr)
        return;
    if (m->data_rest.len)
        spd_note(r->doc, SPD_DAMAGE, "data-rest",
                 m->offset + (uint64_t)(m->data_rest.ptr - r->bytes.ptr),
                 "no function can be read from here on: the last %zu bytes of the data",
                 m->data_rest.len);
    if (m->function_count == r->at.function_count)
        return;
    keep_raw(r);
    spd_note(r->doc, SPD_DAMAGE, "module-functions", m->offset + 0x1c,
             "the module has %" PRIu32 " functions by its header, and %zu in its data",
             r->at.function_count, m->function_count);
}

spgo_code spd_read_module(spd *doc, reader *r, spd_module *m, spgo_error *err)
{
    module_reader mod = {.doc = doc, .m = m};
    m->offset = reader_offset(r);
    size_t left = reader_left(r);
    mod.bytes = (spgo_span){r->base + r->pos, left};
    if (left < SPD_MODULE_HEADER_SIZE) {
        keep_raw(&mod);
        reader_skip(r, left);
        spd_note(doc, SPD_DAMAGE, "module-header", m->offset,
                 "%zu bytes are left for a module, whose header takes %d", left,
                 SPD_MODULE_HEADER_SIZE);
        return SPGO_OK;
    }
    reader head = reader_from(mod.bytes, m->offset);
    mod.at = read_head(&head, m);
    if (mod.at.size_bytes >= SPD_MODULE_HEADER_SIZE && mod.at.size_bytes <= left)
        mod.bytes.len = mod.at.size_bytes;
    reader_skip(r, mod.bytes.len);
    check_layout(&mod);
    SPGO_TRY(find_functions(&mod, err));
    check_functions(&mod);
    read_symbols(&mod);
    SPGO_TRY(read_functions(&mod, err));
    return m->raw.ptr ? SPGO_OK : check_usual(&mod, err);
}
