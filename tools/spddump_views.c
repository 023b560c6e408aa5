/* spddump: header, modules, symbols, functions, coverage and instructions run. */
#include "spddump_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>

enum { HASH_DIGITS = 16, RVA_DIGITS = 8, FLAG_DIGITS = 2, NUMBER_WIDTH = 20 };

void spddump_begin_view(spddump *d)
{
    if (d->any_view && !d->w.is_json)
        out_text(d->w.o, "\n");
    d->any_view = true;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : NAN;
}

static bool is_wanted(const spddump *d, const spd_function *f)
{
    return !d->one_function || (f->has_symbol && f->id == d->function_id);
}

/* ------------------------------------------------------------------ cells */

const char *spddump_decision(const spd *doc, uint64_t dynamic_instructions)
{
    if (!doc->hot_threshold)
        return "-";
    return dynamic_instructions >= doc->hot_threshold ? "speed" : "size";
}

void spddump_cell_function(spddump *d, const spd_function *f)
{
    if (f && f->has_symbol)
        cell_u64(&d->w, f->id);
    else
        cell_none(&d->w);
}

void spddump_cell_function_name(spddump *d, const spd_function *f)
{
    if (f)
        cell_name(&d->w, f->name);
    else
        cell_none(&d->w);
}

void spddump_cell_flags(spddump *d, spd_flag_kind kind, uint32_t flags)
{
    char text[64] = "";
    size_t len = 0;
    for (uint32_t bit = 1; flags && bit; bit <<= 1) {
        const char *name = flags & bit ? spd_flag_name(kind, bit) : NULL;
        int n = name ? snprintf(text + len, sizeof text - len, "%s%s", len ? "," : "", name) : 0;
        len += n > 0 ? (size_t)n : 0;
    }
    if (len)
        cell_text(&d->w, text);
    else
        cell_none(&d->w);
}

static void put_range(spddump *d, const spd_range *r)
{
    uint64_t end = (uint64_t)r->offset + spd_range_length(r);
    if (d->w.is_json) {
        json_open_array(&d->w.j);
        json_u64(&d->w.j, r->offset);
        json_u64(&d->w.j, end);
        json_close_array(&d->w.j);
        return;
    }
    out_hex(d->w.o, r->offset);
    out_bytes(d->w.o, "-", 1);
    out_hex(d->w.o, end);
}

void spddump_cell_ranges(spddump *d, const spd_range *ranges, uint32_t count)
{
    if (!d->with_ranges)
        count = 0;
    cell_open_list(&d->w);
    for (uint32_t i = 0; i < count; i++) {
        cell_item(&d->w, i == 0);
        put_range(d, &ranges[i]);
    }
    cell_close_list(&d->w, count == 0);
}

/* ------------------------------------------------------------------ header */

/* A field as text and JSON show it. */
typedef struct header_field {
    const char *name, *key;
    uint64_t value;
    bool is_hex;
    const char *meaning;
} header_field;

static void text_field(out *o, const header_field *f)
{
    char value[24];
    snprintf(value, sizeof value, f->is_hex ? "0x%" PRIx64 : "%" PRIu64, f->value);
    out_printf(o, "header     %-20s  %20s  %s\n", f->name, value, f->meaning);
}

static void show_fields(spddump *d, const header_field *f, size_t count)
{
    if (!d->w.is_json) {
        out_text(d->w.o, "# header   field                                value  meaning\n");
        for (size_t i = 0; i < count; i++)
            text_field(d->w.o, &f[i]);
        return;
    }
    json_open_object(&d->w.j);
    json_key(&d->w.j, "type");
    json_text(&d->w.j, "header");
    for (size_t i = 0; i < count; i++) {
        json_key(&d->w.j, f[i].key);
        json_u64(&d->w.j, f[i].value);
    }
    table_close(&d->w);
}

/* The line that sptdump /progid has for a program of a trace. */
static void show_program(spddump *d)
{
    static const table program = {
        "program",
        {{"index", 5}, {"guid", 38}, {"age", 10}, {"symbol_key", -40}, {"string", 6}, {"name", 0}}};
    char text[GUID_TEXT_SIZE];
    char key[SYMBOL_KEY_SIZE];
    guid_text(text, &d->doc->id.guid);
    symbol_key_text(key, &d->doc->id);
    table_title(&d->w, &program);
    table_open(&d->w, &program);
    cell_u64(&d->w, 0);
    cell_text(&d->w, text);
    cell_u64(&d->w, d->doc->id.age);
    cell_text(&d->w, key);
    cell_u64(&d->w, 0);
    cell_name(&d->w, d->doc->image_name);
    table_close(&d->w);
}

void spddump_header(spddump *d)
{
    const spd *doc = d->doc;
    const header_field fields[] = {
        {"Format", "format", doc->format, true,
         doc->format == SPD_FORMAT ? "as all known files"
                                   : "not 0x100c, which all known files have"},
        {"Flags", "flags", doc->flags, true,
         doc->flags == 7   ? "with counts"
         : doc->flags == 4 ? "as the linker makes it, without counts"
                           : "unknown"},
        {"ImageHash", "image_hash", doc->image_hash, true,
         spd_image_hash(doc->image_name) == doc->image_hash ? "of the image's name"
                                                            : "not that of the image's name"},
        {"Modules", "modules", doc->module_count, false,
         "parts of the program, with functions of their own"},
        {"HotThreshold", "hot_threshold", doc->hot_threshold, false,
         "a function that runs as many instructions is compiled for speed"},
        {"DynamicInstructions", "dynamic_instructions", doc->dynamic_total, false,
         "run, by the counts"},
        {"StaticInstructions", "static_instructions", doc->static_total, false,
         "there are; 0 before the first import"},
        {"Size", "size", doc->file.len, false, "bytes (not stored)"},
    };
    spddump_begin_view(d);
    show_fields(d, fields, sizeof fields / sizeof fields[0]);
    spddump_begin_view(d);
    show_program(d);
}

/* ------------------------------------------------------------------ modules and symbols */

void spddump_modules(spddump *d)
{
    static const table module = {"module",
                                 {{"index", 5},
                                  {"offset", 8},
                                  {"flags", 5},
                                  {"generation", 10},
                                  {"buckets", 7},
                                  {"functions", 9},
                                  {"emitted", 7},
                                  {"folded", 6},
                                  {"blocks", 8},
                                  {"name", 0}}};
    spddump_begin_view(d);
    table_title(&d->w, &module);
    for (size_t i = 0; i < d->doc->module_count; i++) {
        const spd_module *m = &d->doc->modules[i];
        uint64_t folded = 0, blocks = 0;
        for (size_t k = 0; k < m->function_count; k++) {
            folded += (m->functions[k].symbol_flags & SPD_SYMBOL_FOLDED) != 0;
            blocks += m->functions[k].block_count;
        }
        table_open(&d->w, &module);
        cell_u64(&d->w, i);
        cell_hex(&d->w, m->offset, RVA_DIGITS);
        cell_hex(&d->w, m->flags, FLAG_DIGITS);
        cell_u64(&d->w, m->generation);
        cell_u64(&d->w, m->bucket_count);
        cell_u64(&d->w, m->function_count);
        cell_u64(&d->w, m->by_rva_count);
        cell_u64(&d->w, folded);
        cell_u64(&d->w, blocks);
        cell_name(&d->w, m->name);
        table_close(&d->w);
    }
}

/* The hash of a static function is that of its object file and its name. */
static void cell_object(spddump *d, const spd_function *f)
{
    if (f->symbol_flags & SPD_SYMBOL_STATIC)
        cell_id(&d->w, spd_hash_before(f->hash, f->name), HASH_DIGITS);
    else
        cell_none(&d->w);
}

void spddump_symbols(spddump *d)
{
    static const table symbol = {"symbol",
                                 {{"id", 6},
                                  {"hash", 16},
                                  {"flags", 5},
                                  {"flag_names", -20},
                                  {"folded_rva", 10},
                                  {"object_hash", 16},
                                  {"name", 0}}};
    spddump_begin_view(d);
    table_title(&d->w, &symbol);
    for (size_t i = 0; i < d->doc->module_count; i++) {
        const spd_module *m = &d->doc->modules[i];
        for (size_t k = 0; k < m->function_count && !d->w.o->failed; k++) {
            const spd_function *f = &m->functions[k];
            if (!f->has_symbol || !is_wanted(d, f))
                continue;
            table_open(&d->w, &symbol);
            cell_u64(&d->w, f->id);
            cell_id(&d->w, f->hash, HASH_DIGITS);
            cell_hex(&d->w, f->symbol_flags, FLAG_DIGITS);
            spddump_cell_flags(d, SPD_FLAGS_SYMBOL, f->symbol_flags);
            if (f->folded_rva && d->with_ranges)
                cell_hex(&d->w, f->folded_rva, RVA_DIGITS);
            else
                cell_none(&d->w);
            cell_object(d, f);
            cell_name(&d->w, f->name);
            table_close(&d->w);
        }
    }
}

/* ------------------------------------------------------------------ functions */

static const table function_table = {"function",
                                     {{"id", 6},
                                      {"rva", 8},
                                      {"length", 6},
                                      {"flags", 5},
                                      {"flag_names", -17},
                                      {"checksum", 8},
                                      {"blocks", 6},
                                      {"live", 6},
                                      {"entry", NUMBER_WIDTH - 6},
                                      {"dyninst", NUMBER_WIDTH - 4},
                                      {"for", -5},
                                      {"name", 0}}};

static void show_function(spddump *d, const spd_function *f)
{
    uint64_t dyninst = spd_dynamic_instructions(f);
    spd_coverage c = {0};
    spd_add_coverage(&c, f);
    table_open(&d->w, &function_table);
    spddump_cell_function(d, f);
    if (f->length && d->with_ranges) {
        cell_hex(&d->w, f->rva, RVA_DIGITS);
        cell_hex(&d->w, f->length, RVA_DIGITS - 2);
    } else {
        cell_none(&d->w);
        cell_none(&d->w);
    }
    cell_hex(&d->w, f->flags, FLAG_DIGITS);
    spddump_cell_flags(d, SPD_FLAGS_FUNCTION, f->flags);
    cell_id(&d->w, f->checksum, RVA_DIGITS);
    cell_u64(&d->w, f->block_count);
    cell_u64(&d->w, c.live_blocks);
    cell_u64(&d->w, f->block_count ? f->blocks[0].count : 0);
    cell_u64(&d->w, dyninst);
    cell_text(&d->w, spddump_decision(d->doc, dyninst));
    cell_name(&d->w, f->name);
    table_close(&d->w);
}

void spddump_functions(spddump *d)
{
    spddump_begin_view(d);
    table_title(&d->w, &function_table);
    if (d->with_calls)
        spddump_call_titles(d);
    if (d->with_graph)
        spddump_graph_titles(d);
    for (size_t i = 0; i < d->doc->module_count; i++) {
        const spd_module *m = &d->doc->modules[i];
        for (size_t k = 0; k < m->function_count && !d->w.o->failed; k++) {
            const spd_function *f = &m->functions[k];
            if (!is_wanted(d, f))
                continue;
            show_function(d, f);
            if (d->with_calls)
                spddump_calls(d, f);
            if (d->with_graph)
                spddump_graph(d, f);
        }
    }
}

/* ------------------------------------------------------------------ coverage */

static const table coverage_table = {
    "coverage",
    {{"module", 6}, {"blocks_of", -9}, {"live", 9}, {"blocks", 9}, {"share", 7}, {"name", 0}}};

static void show_coverage(spddump *d, const size_t *module, const char *kind, uint64_t live,
                          uint64_t blocks, spgo_str name)
{
    table_open(&d->w, &coverage_table);
    if (module)
        cell_u64(&d->w, *module);
    else
        cell_text(&d->w, "all");
    cell_text(&d->w, kind);
    cell_u64(&d->w, live);
    cell_u64(&d->w, blocks);
    cell_share(&d->w, share(live, blocks));
    cell_name(&d->w, name);
    table_close(&d->w);
}

static void show_both(spddump *d, const size_t *module, const spd_coverage *c, spgo_str name)
{
    show_coverage(d, module, "all", c->live_blocks, c->blocks, name);
    show_coverage(d, module, "with-code", c->live_code_blocks, c->code_blocks, name);
}

void spddump_coverage(spddump *d)
{
    spd_coverage whole = {0};
    spddump_begin_view(d);
    table_title(&d->w, &coverage_table);
    for (size_t i = 0; i < d->doc->module_count; i++) {
        const spd_module *m = &d->doc->modules[i];
        spd_coverage c = {0};
        for (size_t k = 0; k < m->function_count; k++) {
            if (is_wanted(d, &m->functions[k])) {
                spd_add_coverage(&c, &m->functions[k]);
                spd_add_coverage(&whole, &m->functions[k]);
            }
        }
        show_both(d, &i, &c, m->name);
    }
    if (d->doc->module_count > 1)
        show_both(d, NULL, &whole, d->doc->image_name);
}

/* ------------------------------------------------------------------ instructions run */

typedef struct ranked {
    const spd_function *f;
    uint64_t dyninst;
    size_t order;
} ranked;

static int by_dyninst(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->dyninst != y->dyninst)
        return x->dyninst > y->dyninst ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static ranked *rank_functions(const spd *doc, size_t *count)
{
    size_t n = 0;
    for (size_t i = 0; i < doc->module_count; i++)
        n += doc->modules[i].function_count;
    ranked *list = calloc(n + 1, sizeof *list);
    *count = n;
    n = 0;
    for (size_t i = 0; list && i < doc->module_count; i++) {
        for (size_t k = 0; k < doc->modules[i].function_count; k++, n++) {
            const spd_function *f = &doc->modules[i].functions[k];
            list[n] = (ranked){.f = f, .dyninst = spd_dynamic_instructions(f), .order = n};
        }
    }
    if (list)
        qsort(list, n, sizeof *list, by_dyninst);
    return list;
}

static void show_ranked(spddump *d, const table *t, size_t rank, const ranked *r, uint64_t so_far)
{
    table_open(&d->w, t);
    cell_u64(&d->w, rank);
    cell_u64(&d->w, r->dyninst);
    cell_share(&d->w, share(r->dyninst, d->doc->dynamic_total));
    cell_share(&d->w, share(so_far, d->doc->dynamic_total));
    cell_text(&d->w, spddump_decision(d->doc, r->dyninst));
    cell_u64(&d->w, r->f->id);
    cell_name(&d->w, r->f->name);
    table_close(&d->w);
}

static void show_instruction_total(spddump *d, uint64_t functions, uint64_t sum)
{
    static const table total = {
        "total",
        {{"functions", 9}, {"dyninst", NUMBER_WIDTH}, {"header", NUMBER_WIDTH}, {"verdict", -7}}};
    table_title(&d->w, &total);
    table_open(&d->w, &total);
    cell_u64(&d->w, functions);
    cell_u64(&d->w, sum);
    cell_u64(&d->w, d->doc->dynamic_total);
    cell_text(&d->w, sum == d->doc->dynamic_total ? "equal" : "differ");
    table_close(&d->w);
}

spgo_code spddump_dyninst(spddump *d, uint64_t limit, spgo_error *err)
{
    static const table dyninst = {"dyninst",
                                  {{"rank", 5},
                                   {"dyninst", NUMBER_WIDTH},
                                   {"share", 7},
                                   {"together", 8},
                                   {"for", -5},
                                   {"id", 6},
                                   {"name", 0}}};
    size_t count;
    uint64_t sum = 0, running = 0;
    ranked *list = rank_functions(d->doc, &count);
    if (!list)
        return spgo_fail_nomem(err, "spddump.dyninst", count * sizeof *list);
    spddump_begin_view(d);
    table_title(&d->w, &dyninst);
    for (size_t i = 0; i < count; i++) {
        sum += list[i].dyninst;
        running += list[i].dyninst != 0;
        if (list[i].dyninst && (!limit || i < limit) && is_wanted(d, list[i].f))
            show_ranked(d, &dyninst, i + 1, &list[i], sum);
    }
    show_instruction_total(d, running, sum);
    free(list);
    return SPGO_OK;
}
