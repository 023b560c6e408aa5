/* Rendering an image: see pe_dump.h. */
#include <format/pe/pe_dump.h>

#include <stdlib.h>

#include <base/guid.h>
#include <base/text.h>

/* Where fields go: ` name=value` on `o`, or members of the object open in `j`. */
typedef struct field_sink {
    out *o;
    json *j;
} field_sink;

static void put_key(const field_sink *s, const char *name)
{
    if (s->j)
        json_key(s->j, name);
    else
        out_printf(s->o, " %s=", name);
}

static void put_number(const field_sink *s, const char *name, uint64_t v)
{
    put_key(s, name);
    if (s->j)
        json_u64(s->j, v);
    else
        out_u64(s->o, v);
}

static void put_hex(const field_sink *s, const char *name, uint64_t v)
{
    put_key(s, name);
    if (s->j) {
        json_hex(s->j, v);
        return;
    }
    out_text(s->o, "0x");
    out_hex(s->o, v);
}

static void put_flag(const field_sink *s, const char *name, bool v)
{
    put_key(s, name);
    if (s->j)
        json_bool(s->j, v);
    else
        out_text(s->o, v ? "true" : "false");
}

static void put_str(const field_sink *s, const char *name, spgo_str v)
{
    put_key(s, name);
    if (s->j) {
        json_str(s->j, v);
        return;
    }
    out_text(s->o, "\"");
    out_name(s->o, v);
    out_text(s->o, "\"");
}

static void put_digits(const field_sink *s, const char *name, spgo_span content)
{
    put_key(s, name);
    if (s->j) {
        json_bytes(s->j, content);
        return;
    }
    for (size_t i = 0; i < content.len; i++)
        out_hex_fixed(s->o, content.ptr[i], 2);
}

/* A name, or the number where there is none. */
static void put_named(const field_sink *s, const char *key, const char *name, uint64_t v)
{
    if (name)
        put_str(s, key, text_str(name));
    else
        put_hex(s, key, v);
}

static void open_list(const field_sink *s, const char *name)
{
    if (!s->j)
        return;
    json_key(s->j, name);
    json_open_array(s->j);
}

static void close_list(const field_sink *s)
{
    if (s->j)
        json_close_array(s->j);
}

static void open_row(const field_sink *s, const char *kind, size_t index)
{
    if (s->j)
        json_open_object(s->j);
    else
        out_printf(s->o, "%s %zu:", kind, index);
}

static void close_row(const field_sink *s)
{
    if (s->j)
        json_close_object(s->j);
    else
        out_text(s->o, "\n");
}

/*
 * Names and payloads of an honest image do not overlap: together they are no longer than it is.
 * Those that are would make a small file a huge text, so what exceeds the image is left out.
 */
typedef struct budget {
    uint64_t left;
} budget;

static budget budget_for(const pe_image *image)
{
    return (budget){image->bytes.len};
}

static bool spend(budget *b, size_t len)
{
    if (len > b->left)
        return false;
    b->left -= len;
    return true;
}

static void put_name(const field_sink *s, budget *b, const char *key, spgo_str name)
{
    put_str(s, key, spend(b, name.len) ? name : (spgo_str){NULL, 0});
}

/* ------------------------------------------------------------------ header */

static void put_codeview(const field_sink *s, const pe_codeview *cv)
{
    char text[GUID_TEXT_SIZE];
    if (cv->kind == PE_CODEVIEW_RSDS) {
        guid_text(text, &cv->id.guid);
        put_str(s, "guid", text_str(text));
        put_number(s, "age", cv->id.age);
        put_flag(s, "portable", cv->is_portable);
    } else if (cv->kind == PE_CODEVIEW_NB10) {
        put_hex(s, "time_stamp", cv->time_stamp);
        put_number(s, "age", cv->id.age);
    } else {
        put_hex(s, "signature", cv->signature);
        return;
    }
    put_str(s, "pdb", cv->pdb_path);
}

static void put_header_numbers(const field_sink *s, const pe_image *image)
{
    put_named(s, "machine", pe_machine_name(image->machine), image->machine);
    put_number(s, "bits", image->is_64bit ? 64 : 32);
    put_hex(s, "characteristics", image->characteristics);
    put_named(s, "subsystem", pe_subsystem_name(image->subsystem), image->subsystem);
    put_hex(s, "dll_characteristics", image->dll_characteristics);
    put_hex(s, "time_stamp", image->time_date_stamp);
    put_hex(s, "image_base", image->image_base);
    put_hex(s, "size_of_image", image->size_of_image);
    put_hex(s, "checksum", image->checksum);
    put_hex(s, "entry_rva", image->entry_rva);
}

static void put_traits(const field_sink *s, const pe_image *image)
{
    spgo_span hash;
    pe_hybrid hybrid;
    put_flag(s, "reproducible", pe_repro_hash(image, &hash));
    put_flag(s, "spgo", pe_is_spgo(image));
    put_flag(s, "managed", pe_is_managed(image));
    (void)pe_hybrid_read(image, &hybrid, NULL);
    put_flag(s, "hybrid", hybrid.metadata_rva != 0);
}

void pe_dump_header(out *o, json *j, const pe_image *image)
{
    field_sink s = {.o = o, .j = j};
    pe_codeview cv;
    if (!j)
        out_text(o, "image:");
    put_header_numbers(&s, image);
    if (!j)
        out_text(o, "\ntraits:");
    put_traits(&s, image);
    if (!j)
        out_text(o, "\n");
    if (pe_codeview_find(image, &cv, NULL) != SPGO_OK)
        return;
    if (j) {
        json_key(j, "codeview");
        json_open_object(j);
    } else {
        out_text(o, "codeview:");
    }
    put_codeview(&s, &cv);
    close_row(&s);
}

void pe_dump_directories(out *o, json *j, const pe_image *image)
{
    field_sink s = {.o = o, .j = j};
    open_list(&s, "directories");
    for (size_t i = 0; i < image->directory_count; i++) {
        if (image->directories[i].rva == 0)
            continue;
        open_row(&s, "directory", i);
        put_str(&s, "name", text_str(pe_directory_name(i)));
        put_hex(&s, "rva", image->directories[i].rva);
        put_hex(&s, "size", image->directories[i].size_bytes);
        close_row(&s);
    }
    close_list(&s);
}

void pe_dump_sections(out *o, json *j, const pe_image *image)
{
    field_sink s = {.o = o, .j = j};
    budget text = budget_for(image);
    open_list(&s, "sections");
    for (size_t i = 0; i < image->section_count; i++) {
        pe_section section = pe_section_at(image, i);
        open_row(&s, "section", i);
        put_name(&s, &text, "name", section.name);
        put_hex(&s, "rva", section.rva);
        put_hex(&s, "virtual_size", section.virtual_size);
        put_hex(&s, "raw_off", section.raw_off);
        put_hex(&s, "raw_size", section.raw_size);
        put_hex(&s, "flags", section.flags);
        close_row(&s);
    }
    close_list(&s);
}

/* ------------------------------------------------------------------ debug directory */

static void put_pogo(const field_sink *s, const pe_debug *d)
{
    pe_pogo p = pe_pogo_open(d);
    pe_pogo_group group;
    put_hex(s, "signature", p.signature);
    open_list(s, "groups");
    while (pe_pogo_next(&p, &group)) {
        if (s->j)
            json_open_object(s->j);
        else
            out_text(s->o, "\n  group:");
        put_hex(s, "rva", group.rva);
        put_hex(s, "size", group.size_bytes);
        put_str(s, "name", group.name);
        if (s->j)
            json_close_object(s->j);
    }
    close_list(s);
}

static void put_debug_payload(const field_sink *s, const pe_debug *d)
{
    pe_codeview cv;
    spgo_str algorithm;
    spgo_span checksum;
    if (d->type == PE_DEBUG_CODEVIEW && pe_codeview_read(d, &cv, NULL) == SPGO_OK) {
        put_codeview(s, &cv);
    } else if (d->type == PE_DEBUG_POGO) {
        put_pogo(s, d);
    } else if (d->type == PE_DEBUG_PDB_CHECKSUM && pe_pdb_checksum(d, &algorithm, &checksum)) {
        put_str(s, "algorithm", algorithm);
        put_digits(s, "checksum", checksum);
    } else if (d->data.len > 0) {
        enum { SHOWN_MAX = 64 };
        put_digits(s, "data",
                   (spgo_span){d->data.ptr, d->data.len < SHOWN_MAX ? d->data.len : SHOWN_MAX});
    }
}

spgo_code pe_dump_debug(out *o, json *j, const pe_image *image, spgo_error *err)
{
    field_sink s = {.o = o, .j = j};
    pe_table t;
    SPGO_TRY(pe_debug_open(image, &t, err));
    budget payloads = budget_for(image);
    open_list(&s, "debug");
    for (size_t i = 0; i < t.count; i++) {
        pe_debug d = pe_debug_at(image, &t, i);
        open_row(&s, "debug", i);
        put_named(&s, "type", pe_debug_type_name(d.type), d.type);
        put_hex(&s, "row_time_stamp", d.time_date_stamp);
        put_hex(&s, "size", d.size_bytes);
        put_hex(&s, "rva", d.data_rva);
        put_hex(&s, "off", d.data_off);
        if (spend(&payloads, d.data.len))
            put_debug_payload(&s, &d);
        close_row(&s);
    }
    close_list(&s);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ exports, symbols */

static void put_export(const field_sink *s, budget *text, size_t index, const pe_export *x)
{
    open_row(s, "export", index);
    put_number(s, "ordinal", x->ordinal);
    put_name(s, text, "name", x->name);
    if (x->is_forwarder)
        put_name(s, text, "forwarder", x->forwarder);
    else
        put_hex(s, "rva", x->rva);
    close_row(s);
}

/* Which functions have a name. NULL: no memory. */
static uint8_t *mark_named(const pe_exports *e)
{
    uint8_t *named = calloc(e->functions.count + 1, 1);
    for (size_t i = 0; named && i < e->names.count; i++) {
        uint16_t index = load_u16(e->name_indices.bytes.ptr + 2 * i);
        if (index < e->functions.count)
            named[index] = 1;
    }
    return named;
}

spgo_code pe_dump_exports(out *o, json *j, const pe_image *image, spgo_error *err)
{
    field_sink s = {.o = o, .j = j};
    pe_exports e;
    SPGO_TRY(pe_exports_open(image, &e, err));
    uint8_t *named = mark_named(&e);
    if (!named)
        return spgo_fail_nomem(err, "pe.exports", e.functions.count + 1);
    budget text = budget_for(image);
    open_list(&s, "exports");
    for (size_t i = 0; i < e.names.count; i++) {
        pe_export x = pe_export_by_name(&e, i);
        put_export(&s, &text, i, &x);
    }
    size_t shown = e.names.count;
    for (size_t i = 0; i < e.functions.count; i++) {
        pe_export x = pe_export_at(&e, i);
        if (!named[i] && x.rva != 0)
            put_export(&s, &text, shown++, &x);
    }
    close_list(&s);
    free(named);
    return SPGO_OK;
}

spgo_code pe_dump_symbols(out *o, json *j, const pe_image *image, spgo_error *err)
{
    field_sink s = {.o = o, .j = j};
    pe_symbols symbols;
    pe_symbol symbol;
    SPGO_TRY(pe_symbols_open(image, &symbols, err));
    budget text = budget_for(image);
    open_list(&s, "symbols");
    for (size_t at = 0; pe_symbols_next(&symbols, &symbol); at = symbols.at) {
        open_row(&s, "symbol", at);
        put_name(&s, &text, "name", symbol.name);
        if (symbol.has_rva)
            put_hex(&s, "rva", symbol.rva);
        else
            put_hex(&s, "value", symbol.value);
        put_key(&s, "section");
        if (j)
            json_i64(j, symbol.section);
        else
            out_printf(o, "%d", symbol.section);
        put_hex(&s, "type", symbol.type);
        put_number(&s, "class", symbol.storage_class);
        close_row(&s);
    }
    close_list(&s);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ functions */

static void put_function(const field_sink *s, size_t index, const pe_function *f)
{
    open_row(s, "function", index);
    put_hex(s, "rva", f->rva);
    if (f->pieces[0].is_loose)
        put_flag(s, "loose", true);
    put_key(s, "pieces");
    if (s->j)
        json_open_array(s->j);
    for (size_t i = 0; i < f->piece_count; i++) {
        const pe_extent *piece = &f->pieces[i];
        if (s->j) {
            json_open_array(s->j);
            json_hex(s->j, piece->begin_rva);
            json_hex(s->j, piece->end_rva);
            json_close_array(s->j);
            continue;
        }
        out_text(s->o, i ? ",0x" : "0x");
        out_hex(s->o, piece->begin_rva);
        out_text(s->o, "..0x");
        out_hex(s->o, piece->end_rva);
    }
    if (s->j)
        json_close_array(s->j);
    close_row(s);
}

spgo_code pe_dump_functions(out *o, json *j, const pe_image *image, diag *d, spgo_error *err)
{
    field_sink s = {.o = o, .j = j};
    pe_extents extents;
    pe_function f;
    arena *a = arena_new(0);
    if (!a)
        return spgo_fail_nomem(err, "pe.functions", sizeof(pe_extent));
    spgo_code code = pe_extents_build(image, a, &extents, d, err);
    if (code == SPGO_OK) {
        size_t at = 0;
        open_list(&s, "functions");
        for (size_t i = 0; pe_function_next(&extents, &at, &f); i++)
            put_function(&s, i, &f);
        close_list(&s);
    }
    arena_free(a);
    return code;
}

static const char *code_kind_name(pe_code_kind kind)
{
    static const char *const names[] = {"ARM64", "ARM64EC", "x64", "unknown"};
    return names[kind];
}

spgo_code pe_dump_code_ranges(out *o, json *j, const pe_image *image, spgo_error *err)
{
    field_sink s = {.o = o, .j = j};
    pe_hybrid hybrid;
    SPGO_TRY(pe_hybrid_read(image, &hybrid, err));
    open_list(&s, "code_ranges");
    for (size_t i = 0; i < hybrid.code_ranges.count; i++) {
        pe_code_range range = pe_code_range_at(&hybrid, i);
        open_row(&s, "code range", i);
        put_str(&s, "kind", text_str(code_kind_name(range.kind)));
        put_hex(&s, "rva", range.begin_rva);
        put_hex(&s, "size", range.size_bytes);
        close_row(&s);
    }
    close_list(&s);
    return SPGO_OK;
}
