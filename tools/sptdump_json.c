/*
 * sptdump's JSON: one object a line, each with its "type", so that a dump of any size can be read
 * as a stream. Offsets, RVAs and counts are plain integers up to 2^64-1.
 */
#include "sptdump_print.h"

#include <base/guid.h>
#include <base/text.h>

static void open_line(sptdump *d, const char *type)
{
    json_open_object(&d->j);
    json_key(&d->j, "type");
    json_text(&d->j, type);
}

/* Each line is a document of its own. */
static void close_line(sptdump *d)
{
    json_close_object(&d->j);
    json_end_line(&d->j);
    d->j = json_on(d->o, false);
}

static void member_u64(sptdump *d, const char *key, uint64_t value)
{
    json_key(&d->j, key);
    json_u64(&d->j, value);
}

static void member_text(sptdump *d, const char *key, const char *value)
{
    json_key(&d->j, key);
    json_text(&d->j, value);
}

static void member_str(sptdump *d, const char *key, spgo_str value)
{
    json_key(&d->j, key);
    json_str(&d->j, value);
}

static void member_offset(sptdump *d, uint64_t offset)
{
    if (offset != SPGO_NO_OFFSET)
        member_u64(d, "offset", offset);
}

static void member_program(sptdump *d, uint16_t program)
{
    member_u64(d, "program", program);
    member_str(d, "name", sptdump_program_name(d, program));
}

static void json_begin_view(sptdump *d, sptdump_view view)
{
    (void)view;
    d->any_view = true;
}

static void json_header(sptdump *d, const sptdump_field *fields, size_t count)
{
    open_line(d, "header");
    for (size_t i = 0; i < count; i++)
        member_u64(d, fields[i].key, fields[i].value);
    json_key(&d->j, "atypical");
    json_open_array(&d->j);
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].typical)
            json_text(&d->j, fields[i].key);
    }
    json_close_array(&d->j);
    close_line(d);
}

static void json_program(sptdump *d, size_t index, const spgo_spt_program *program)
{
    char guid[GUID_TEXT_SIZE];
    char key[SYMBOL_KEY_SIZE];
    guid_text(guid, &program->id.guid);
    symbol_key_text(key, &program->id);
    open_line(d, "program");
    member_u64(d, "index", index);
    member_text(d, "guid", guid);
    member_u64(d, "age", program->id.age);
    member_text(d, "symbol_key", key);
    member_u64(d, "string", program->string_index);
    member_str(d, "name", program->name);
    close_line(d);
}

static void json_string(sptdump *d, size_t index, spgo_str text)
{
    open_line(d, "string");
    member_u64(d, "index", index);
    member_str(d, "text", text);
    close_line(d);
}

static void member_rvas(sptdump *d, const char *key, const spgo_spt_record *r)
{
    json_key(&d->j, key);
    json_open_array(&d->j);
    for (unsigned i = 0; i < r->entry_count; i++)
        json_u64(&d->j, spgo_spt_rva(r, i));
    json_close_array(&d->j);
}

static void member_arc(sptdump *d, uint32_t from, uint32_t to)
{
    json_open_array(&d->j);
    json_u64(&d->j, from);
    json_u64(&d->j, to);
    json_close_array(&d->j);
}

static void member_entries(sptdump *d, const spgo_spt_record *r)
{
    switch (spgo_spt_opcode_kind(r->opcode)) {
    case SPGO_SPT_KIND_IP:
        member_rvas(d, "rvas", r);
        break;
    case SPGO_SPT_KIND_CALLSTACK:
        member_rvas(d, "frames", r);
        break;
    case SPGO_SPT_KIND_ARC:
        json_key(&d->j, "arcs");
        json_open_array(&d->j);
        for (unsigned i = 0; i < r->entry_count; i++)
            member_arc(d, spgo_spt_arc_from(r, i), spgo_spt_arc_to(r, i));
        json_close_array(&d->j);
        break;
    case SPGO_SPT_KIND_NONE:
        break;
    }
}

static void json_event(sptdump *d, const spgo_spt_record *r)
{
    open_line(d, "event");
    member_offset(d, r->offset);
    member_program(d, r->program);
    member_text(d, "opcode", sptdump_opcode_name(r->opcode));
    if (r->opcode == SPGO_SPT_BINARY_ID) {
        member_u64(d, "length", r->segment_bytes);
        member_u64(d, "end", r->offset + 4 + r->segment_bytes);
    } else {
        member_u64(d, "repeat", r->repeat);
    }
    if (spgo_spt_opcode_kind(r->opcode) != SPGO_SPT_KIND_NONE) {
        member_u64(d, "hits", r->hits);
        member_entries(d, r);
    }
    close_line(d);
}

static void json_damage(sptdump *d, const spgo_error *error)
{
    open_line(d, "damage");
    member_offset(d, error->offset);
    member_text(d, "code", spgo_code_name(error->code));
    member_text(d, "message", error->sentence);
    close_line(d);
}

static void open_row(sptdump *d, const char *type, const sptdump_row *row)
{
    open_line(d, type);
    member_program(d, row->program);
    member_text(d, "opcode", sptdump_opcode_name(row->opcode));
}

static void json_count(sptdump *d, const sptdump_row *row)
{
    open_row(d, "count", row);
    member_u64(d, "records", row->cell->record_count);
    member_u64(d, "entries", row->cell->entry_count);
    member_u64(d, "hits", row->cell->hits);
    member_u64(d, "distinct_rvas", row->distinct.rvas);
    member_u64(d, "distinct_arcs", row->distinct.arcs);
    member_u64(d, "outside_hits", row->cell->outside_hits);
    close_line(d);
}

static void json_total(sptdump *d, const sptdump_total *total)
{
    open_line(d, "total");
    member_u64(d, "programs", total->program_count);
    member_u64(d, "records", total->record_count);
    member_u64(d, "entries", total->entry_count);
    member_u64(d, "hits", total->hits);
    close_line(d);
}

static void member_share(sptdump *d, const char *key, double share)
{
    json_key(&d->j, key);
    json_f64(&d->j, share, 6);
}

static void json_range(sptdump *d, const sptdump_row *row)
{
    open_row(d, "range", row);
    member_u64(d, "ranges", row->cell->range_count);
    member_share(d, "newest_first_share", row->newest_first_share);
    member_share(d, "oldest_first_share", row->oldest_first_share);
    member_text(d, "order", sptdump_order_name(row->order));
    close_line(d);
}

static void json_top(sptdump *d, const sptdump_top *top)
{
    open_row(d, "top", top->row);
    member_u64(d, "rank", top->rank);
    member_u64(d, "hits", top->hits);
    member_share(d, "share", top->share);
    switch (spgo_spt_opcode_kind(top->row->opcode)) {
    case SPGO_SPT_KIND_ARC:
        json_key(&d->j, "arc");
        member_arc(d, spt_arc_first(top->key), spt_arc_second(top->key));
        break;
    case SPGO_SPT_KIND_CALLSTACK:
        json_key(&d->j, "frames");
        member_arc(d, spt_arc_first(top->key), spt_arc_second(top->key));
        break;
    case SPGO_SPT_KIND_IP:
    case SPGO_SPT_KIND_NONE:
        member_u64(d, "rva", top->key);
        break;
    }
    close_line(d);
}

static void json_finding(sptdump *d, const spgo_spt_finding *finding)
{
    open_line(d, "finding");
    member_text(d, "severity", sptdump_severity_name(finding->severity));
    member_offset(d, finding->offset);
    member_text(d, "rule", finding->rule);
    member_text(d, "message", finding->sentence);
    close_line(d);
}

static void json_verdict(sptdump *d, const spgo_spt_verdict *v)
{
    open_line(d, "verdict");
    member_text(d, "verdict", v->damages ? "damaged" : "ok");
    member_u64(d, "damages", v->damages);
    member_u64(d, "warnings", v->warnings);
    member_u64(d, "notes", v->notes);
    member_u64(d, "records", v->record_count);
    member_u64(d, "segments", v->segment_count);
    close_line(d);
}

const sptdump_printer sptdump_json = {
    .begin_view = json_begin_view,
    .header = json_header,
    .program = json_program,
    .string = json_string,
    .event = json_event,
    .damage = json_damage,
    .count = json_count,
    .total = json_total,
    .range = json_range,
    .top = json_top,
    .finding = json_finding,
    .verdict = json_verdict,
};
