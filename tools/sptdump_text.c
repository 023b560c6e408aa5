/*
 * sptdump's text: lines for a person to read and for grep and awk to cut. Each line starts with
 * the word that names its kind and holds all of its context; columns are separated by blanks, and
 * blanks inside a program's name are written \x20 wherever the name is not the last column. Lines
 * that start with '#' are column titles.
 */
#include "sptdump_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/guid.h>
#include <base/text.h>

enum { OPCODE_WIDTH = 15 };

static const char *const titles[VIEW_COUNT] = {
    [VIEW_HEADER] = "# header  field                      value  meaning\n",
    [VIEW_PROGRAMS] = ("# program  index  guid                                           age  "
                       "symbol key                                string  name\n"),
    [VIEW_STRINGS] = "# string   index  name\n",
    [VIEW_COUNTS] = "opcode             records       entries          hits       rvas       arcs  "
                    "   outside\n",
    [VIEW_RANGES] = "opcode              ranges  newest-first  oldest-first  order\n",
    [VIEW_TOP] = "opcode             rank          hits    share  entry\n",
    [VIEW_EVENTS] = "opcode           count    repeat      hits  entries\n",
    [VIEW_VERIFY] = "# finding  severity  offset      rule                    sentence\n",
};

static void put_spaces(out *o, size_t n)
{
    char *p = out_room(o, n);
    memset(p, ' ', n);
    o->len += n;
}

/* A right-aligned column; a number that is too wide still stands apart. */
static void put_number(out *o, uint64_t value, int width)
{
    out_bytes(o, " ", 1);
    out_u64_width(o, value, width - 1);
}

static void put_padded(out *o, const char *text, size_t width)
{
    size_t len = strlen(text);
    out_bytes(o, text, len);
    put_spaces(o, len < width ? width - len : 0);
}

static void put_offset(sptdump *d, uint64_t offset)
{
    out_hex_fixed(d->o, offset, d->offset_digits);
}

/* "# event     offset   ix  name  " up to the titles of the view's own columns. */
static void put_row_title(sptdump *d, const char *word, bool offset)
{
    out_text(d->o, "# ");
    put_padded(d->o, word, 7);
    if (offset)
        put_padded(d->o, "offset", (size_t)d->offset_digits + 2);
    out_text(d->o, "  ix  ");
    put_padded(d->o, "name", (size_t)d->name_width + 2);
}

static void text_begin_view(sptdump *d, sptdump_view view)
{
    if (d->any_view)
        out_text(d->o, "\n");
    d->any_view = true;
    switch (view) {
    case VIEW_EVENTS:
        put_row_title(d, "event", true);
        break;
    case VIEW_COUNTS:
        put_row_title(d, "count", false);
        break;
    case VIEW_RANGES:
        put_row_title(d, "range", false);
        break;
    case VIEW_TOP:
        put_row_title(d, "top", false);
        break;
    default:
        break;
    }
    out_text(d->o, titles[view]);
}

/* ------------------------------------------------------------------ tables */

static void text_header(sptdump *d, const sptdump_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const sptdump_field *f = &fields[i];
        out_text(d->o, "header    ");
        put_padded(d->o, f->name, 20);
        if (f->hex)
            out_printf(d->o, "%#12" PRIx64, f->value);
        else
            out_u64_width(d->o, f->value, 12);
        out_printf(d->o, "  %s\n", f->meaning);
    }
}

static void text_program(sptdump *d, size_t index, const spgo_spt_program *program)
{
    char guid[GUID_TEXT_SIZE];
    char key[SYMBOL_KEY_SIZE];
    guid_text(guid, &program->id.guid);
    symbol_key_text(key, &program->id);
    out_text(d->o, "program    ");
    out_u64_width(d->o, index, 5);
    out_printf(d->o, "  %s  %10" PRIu32 "  %-40s  %6" PRIu32 "  ", guid, program->id.age, key,
               program->string_index);
    out_name(d->o, program->name.len ? program->name : text_str("-"));
    out_text(d->o, "\n");
}

static void text_string(sptdump *d, size_t index, spgo_str text)
{
    out_text(d->o, "string     ");
    out_u64_width(d->o, index, 5);
    out_text(d->o, "  ");
    out_name(d->o, text);
    out_text(d->o, "\n");
}

/* ------------------------------------------------------------------ the program column */

/* A name as one word. */
static void put_word(out *o, spgo_str name)
{
    while (name.len) {
        const char *blank = memchr(name.ptr, ' ', name.len);
        size_t len = blank ? (size_t)(blank - name.ptr) : name.len;
        out_name(o, (spgo_str){name.ptr, len});
        if (!blank)
            return;
        out_text(o, "\\x20");
        name.ptr += len + 1;
        name.len -= len + 1;
    }
}

/* "   0  textCount.exe  ", padded; made once for a run of records of one program. */
static void make_label(sptdump *d, uint16_t program)
{
    bytes text = {0};
    out o;
    spgo_str name = sptdump_program_name(d, program);
    d->label_len = 0;
    free(d->label);
    d->label = NULL;
    d->label_program = program;
    if (out_init(&o, bytes_sink(&text), NULL) != SPGO_OK)
        return;
    out_u64_width(&o, program, 4);
    out_text(&o, "  ");
    put_word(&o, name);
    put_spaces(&o, (size_t)(2 + d->name_width - sptdump_word_width(name)));
    (void)out_flush(&o);
    out_free(&o);
    d->label = (char *)text.ptr;
    d->label_len = text.len;
}

static void put_label(sptdump *d, uint16_t program)
{
    if (d->label_program != program || !d->label)
        make_label(d, program);
    out_bytes(d->o, d->label, d->label_len);
}

/* ------------------------------------------------------------------ events */

static char *put_arc(char *p, uint32_t first, uint32_t second, char head, char tail)
{
    p = put_hex8(p, first);
    *p++ = head;
    *p++ = tail;
    return put_hex8(p, second);
}

static char *put_rvas(char *p, const spgo_spt_record *r)
{
    for (unsigned i = 0; i < r->entry_count; i++) {
        *p++ = ' ';
        p = put_hex8(p, spgo_spt_rva(r, i));
    }
    return p;
}

static char *put_branches(char *p, const spgo_spt_record *r)
{
    for (unsigned i = 0; i < r->entry_count; i++) {
        *p++ = ' ';
        p = put_arc(p, spgo_spt_arc_from(r, i), spgo_spt_arc_to(r, i), '-', '>');
    }
    return p;
}

/* Frames from the leaf on: each was called by the one to its right. */
static char *put_frames(char *p, const spgo_spt_record *r)
{
    for (unsigned i = 0; i < r->entry_count; i++) {
        *p++ = i ? '<' : ' ';
        if (i)
            *p++ = '-';
        p = put_hex8(p, spgo_spt_rva(r, i));
    }
    return p;
}

static void put_entries(out *o, const spgo_spt_record *r)
{
    char *p = out_room(o, 20 * SPGO_SPT_ENTRIES_MAX);
    char *start = p;
    *p++ = ' ';
    switch (spgo_spt_opcode_kind(r->opcode)) {
    case SPGO_SPT_KIND_IP:
        p = put_rvas(p, r);
        break;
    case SPGO_SPT_KIND_ARC:
        p = put_branches(p, r);
        break;
    case SPGO_SPT_KIND_CALLSTACK:
        p = put_frames(p, r);
        break;
    case SPGO_SPT_KIND_NONE:
        break;
    }
    o->len += (size_t)(p - start);
}

static void text_event(sptdump *d, const spgo_spt_record *r)
{
    out *o = d->o;
    out_bytes(o, "event    ", 9);
    put_offset(d, r->offset);
    put_label(d, r->program);
    put_padded(o, sptdump_opcode_name(r->opcode), OPCODE_WIDTH);
    put_number(o, r->entry_count, 7);
    put_number(o, r->repeat, 10);
    put_number(o, r->hits, 10);
    if (r->opcode == SPGO_SPT_BINARY_ID)
        out_printf(o, "  length=%" PRIu32 ",end=%0*" PRIx64, r->segment_bytes, d->offset_digits,
                   r->offset + 4 + r->segment_bytes);
    else if (!r->entry_count)
        out_text(o, "  -");
    else
        put_entries(o, r);
    out_bytes(o, "\n", 1);
}

static void text_damage(sptdump *d, const spgo_error *error)
{
    out_text(d->o, "damage   ");
    if (error->offset == SPGO_NO_OFFSET)
        out_text(d->o, "-");
    else
        put_offset(d, error->offset);
    out_printf(d->o, "  %s  ", spgo_code_name(error->code));
    out_name(d->o, text_str(error->sentence));
    out_text(d->o, "\n");
}

/* ------------------------------------------------------------------ summary */

static void put_row_head(sptdump *d, const char *word, const sptdump_row *row)
{
    put_padded(d->o, word, 9);
    put_label(d, row->program);
    put_padded(d->o, sptdump_opcode_name(row->opcode), OPCODE_WIDTH);
}

static void text_count(sptdump *d, const sptdump_row *row)
{
    put_row_head(d, "count", row);
    put_number(d->o, row->cell->record_count, 11);
    put_number(d->o, row->cell->entry_count, 14);
    put_number(d->o, row->cell->hits, 14);
    put_number(d->o, row->distinct.rvas, 11);
    put_number(d->o, row->distinct.arcs, 11);
    put_number(d->o, row->cell->outside_hits, 12);
    out_text(d->o, "\n");
}

static void text_total(sptdump *d, const sptdump_total *total)
{
    put_padded(d->o, "total", 9);
    put_number(d->o, total->program_count, 4);
    out_text(d->o, "  ");
    put_padded(d->o, "programs", (size_t)d->name_width + 2);
    put_padded(d->o, "*", OPCODE_WIDTH);
    put_number(d->o, total->record_count, 11);
    put_number(d->o, total->entry_count, 14);
    put_number(d->o, total->hits, 14);
    out_text(d->o, "          -          -           -\n");
}

static void text_range(sptdump *d, const sptdump_row *row)
{
    put_row_head(d, "range", row);
    put_number(d->o, row->cell->range_count, 11);
    out_printf(d->o, "%13.2f%%%13.2f%%  %s\n", 100 * row->newest_first_share,
               100 * row->oldest_first_share, sptdump_order_name(row->order));
}

static void text_top(sptdump *d, const sptdump_top *top)
{
    uint32_t first = spt_arc_first(top->key);
    uint32_t second = spt_arc_second(top->key);
    put_row_head(d, "top", top->row);
    put_number(d->o, top->rank, 8);
    put_number(d->o, top->hits, 14);
    out_printf(d->o, " %7.2f%%  ", 100 * top->share);
    switch (spgo_spt_opcode_kind(top->row->opcode)) {
    case SPGO_SPT_KIND_ARC:
        out_printf(d->o, "%08" PRIx32 "->%08" PRIx32 "\n", first, second);
        break;
    case SPGO_SPT_KIND_CALLSTACK:
        out_printf(d->o, "%08" PRIx32 "<-%08" PRIx32 "\n", first, second);
        break;
    case SPGO_SPT_KIND_IP:
    case SPGO_SPT_KIND_NONE:
        out_printf(d->o, "%08" PRIx64 "\n", top->key);
        break;
    }
}

/* ------------------------------------------------------------------ verify */

static void text_finding(sptdump *d, const spgo_spt_finding *finding)
{
    out_text(d->o, "finding    ");
    put_padded(d->o, sptdump_severity_name(finding->severity), 10);
    put_offset(d, finding->offset);
    out_text(d->o, "  ");
    put_padded(d->o, finding->rule, 24);
    out_name(d->o, text_str(finding->sentence));
    out_text(d->o, "\n");
}

static void text_verdict(sptdump *d, const spgo_spt_verdict *v)
{
    out_printf(d->o,
               "verdict    %s  damages=%" PRIu64 " warnings=%" PRIu64 " notes=%" PRIu64
               " records=%" PRIu64 " segments=%" PRIu64 "\n",
               v->damages ? "damaged" : "ok", v->damages, v->warnings, v->notes, v->record_count,
               v->segment_count);
}

const sptdump_printer sptdump_text = {
    .begin_view = text_begin_view,
    .header = text_header,
    .program = text_program,
    .string = text_string,
    .event = text_event,
    .damage = text_damage,
    .count = text_count,
    .total = text_total,
    .range = text_range,
    .top = text_top,
    .finding = text_finding,
    .verdict = text_verdict,
};
