/* spddump: findings, and the parts of a file that are data of unknown meaning. */
#include "spddump_print.h"

#include <base/bytes.h>
#include <base/text.h>

enum { OFFSET_DIGITS = 8 };

static const char *severity_name(spd_severity severity)
{
    switch (severity) {
    case SPD_NOTE:
        return "note";
    case SPD_WARNING:
        return "warning";
    case SPD_DAMAGE:
        break;
    }
    return "damage";
}

static void cell_offset(spddump *d, uint64_t offset)
{
    if (offset == SPGO_NO_OFFSET)
        cell_none(&d->w);
    else
        cell_hex(&d->w, offset, OFFSET_DIGITS);
}

void spddump_finding(spddump *d, const spd_finding *finding)
{
    static const table findings = {
        "finding", {{"severity", -8}, {"offset", 8}, {"rule", -20}, {"sentence", 0}}};
    if (!finding) {
        table_title(&d->w, &findings);
        return;
    }
    table_open(&d->w, &findings);
    cell_text(&d->w, severity_name(finding->severity));
    cell_offset(d, finding->offset);
    cell_text(&d->w, finding->rule);
    cell_name(&d->w, text_str(finding->sentence));
    table_close(&d->w);
}

void spddump_verdict(spddump *d, const spd_verdict *v)
{
    static const table verdict = {"verdict",
                                  {{"verdict", -7},
                                   {"damages", 7},
                                   {"warnings", 8},
                                   {"notes", 6},
                                   {"modules", 7},
                                   {"functions", 9},
                                   {"blocks", 9},
                                   {"edges", 9}}};
    table_title(&d->w, &verdict);
    table_open(&d->w, &verdict);
    cell_text(&d->w, v->damages ? "damaged" : "ok");
    cell_u64(&d->w, v->damages);
    cell_u64(&d->w, v->warnings);
    cell_u64(&d->w, v->notes);
    cell_u64(&d->w, v->module_count);
    cell_u64(&d->w, v->function_count);
    cell_u64(&d->w, v->block_count);
    cell_u64(&d->w, v->edge_count);
    table_close(&d->w);
}

/* ------------------------------------------------------------------ data */

static const table data_table = {"data",
                                 {{"offset", 8}, {"size", 8}, {"place", -14}, {"bytes", 0}}};

/* Up to so many bytes are shown; sizes tell of the rest. */
enum { BYTES_SHOWN = 32 };

static void show_bytes(spddump *d, spgo_span part, const char *place)
{
    if (!part.ptr)
        return;
    spgo_span shown = {part.ptr, part.len < BYTES_SHOWN ? part.len : BYTES_SHOWN};
    table_open(&d->w, &data_table);
    cell_offset(d, d->doc->origin + (uint64_t)(part.ptr - d->doc->file.ptr));
    cell_u64(&d->w, part.len);
    cell_text(&d->w, place);
    cell_bytes(&d->w, shown);
    table_close(&d->w);
}

static void show_word(spddump *d, uint64_t offset, uint32_t word, const char *place)
{
    uint8_t stored[sizeof word];
    store_u32(stored, word);
    table_open(&d->w, &data_table);
    cell_offset(d, offset);
    cell_u64(&d->w, sizeof word);
    cell_text(&d->w, place);
    cell_bytes(&d->w, (spgo_span){stored, sizeof stored});
    table_close(&d->w);
}

void spddump_data(spddump *d)
{
    const spd *doc = d->doc;
    spddump_begin_view(d);
    table_title(&d->w, &data_table);
    show_bytes(d, doc->gap_header, "header-end");
    show_bytes(d, doc->gap_list, "list-end");
    show_bytes(d, doc->gap_names, "names-end");
    for (size_t i = 0; i < doc->module_count; i++) {
        const spd_module *m = &doc->modules[i];
        if (!m->raw.ptr) {
            show_word(d, m->offset + 0x18, m->word_18, "module-word-18");
            show_word(d, m->offset + 0x20, m->word_20, "module-word-20");
        }
        show_bytes(d, m->gap_header, "module-header");
        show_bytes(d, m->gap_table, "table-end");
        show_bytes(d, m->data_rest.len ? m->data_rest : (spgo_span){NULL, 0}, "data-rest");
        show_bytes(d, m->gap_data, "data-end");
        show_bytes(d, m->gap_strings, "strings-end");
        show_bytes(d, m->raw, "module");
        for (size_t k = 0; k < m->function_count; k++)
            show_bytes(d, m->functions[k].raw, "function");
    }
    show_bytes(d, doc->tail.len ? doc->tail : (spgo_span){NULL, 0}, "file-end");
    show_bytes(d, doc->raw, "file");
}
