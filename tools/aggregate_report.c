/* The report of sptaggregate: see aggregate_report.h. */
#include "aggregate_report.h"

#include <base/guid.h>
#include <base/json.h>
#include <base/text.h>

#include <inttypes.h>
#include <string.h>

/* One line of the table of counts. */
typedef struct count_row {
    const char *label, *key;
    uint64_t seen, used;
    bool has_used;
} count_row;

enum { ROW_COUNT = 7 };

static const char *const part_labels[] = {"instruction pointers", "LBR entries", "stack arcs"};
static const char *const part_keys[] = {"instruction_pointers", "lbr_entries", "stack_arcs"};

static const char *format_name(trace_format format)
{
    return format == TRACE_ETL ? "ETL" : "perf.data";
}

static void fill_rows(count_row rows[ROW_COUNT], const aggregate_report *r)
{
    const trace_tally *t = trace_get_tally(r->t);
    const aggregate_tally *a = &r->result->tally;
    const count_row all[ROW_COUNT] = {
        {"timer samples", "timer_samples", t->timer_samples, 0, false},
        {"PMC samples", "pmc_samples", t->pmc_samples, 0, false},
        {"instruction pointers", "instruction_pointers", a->parts[TRACE_IP].seen,
         a->parts[TRACE_IP].used, true},
        {"LBR records", "lbr_records", t->lbr_records, a->lbr_records_used, true},
        {"LBR entries", "lbr_entries", a->parts[TRACE_BRANCHES].seen, a->parts[TRACE_BRANCHES].used,
         true},
        {"stacks", "stacks", t->stacks, a->stacks_used, true},
        {"stack arcs", "stack_arcs", a->parts[TRACE_STACK].seen, a->parts[TRACE_STACK].used, true},
    };
    memcpy(rows, all, sizeof all);
}

/* ------------------------------------------------------------------ text */

static void text_inputs(out *o, const aggregate_report *r)
{
    for (size_t i = 0; i < trace_input_count(r->t); i++) {
        const trace_input *in = trace_get_input(r->t, i);
        out_printf(o, "%-24s", "input");
        out_name(o, text_str(in->path));
        out_printf(o, " (%s)\n", format_name(in->format));
    }
    const trace_tally *t = trace_get_tally(r->t);
    out_printf(o, "%-24s%" PRIu64 "\n", "records", t->records);
    out_printf(o, "%-24s%" PRIu64 " (with identity: %" PRIu64 ")\n", "images", t->images,
               t->images_with_id);
    out_printf(o, "%-24s%" PRIu64 " events, %" PRIu64 " buffers\n", "lost", t->lost_events,
               t->lost_buffers);
    out_printf(o, "%-24s%" PRIu64 " records, %" PRIu64 " buffers\n", "damaged", t->bad_records,
               t->bad_buffers);
}

static void text_counts(out *o, const aggregate_report *r)
{
    count_row rows[ROW_COUNT];
    fill_rows(rows, r);
    out_printf(o, "\n%-24s%14s%14s\n", "", "in the trace", "used");
    for (size_t i = 0; i < ROW_COUNT; i++) {
        out_printf(o, "%-24s%14" PRIu64, rows[i].label, rows[i].seen);
        if (rows[i].has_used)
            out_printf(o, "%14" PRIu64, rows[i].used);
        out_text(o, "\n");
    }
    const trace_tally *t = trace_get_tally(r->t);
    out_printf(o, "%-24s%14" PRIu64 "\n", "LBR without trigger",
               t->lbr_records - t->lbr_with_trigger);
    out_printf(o, "%-24s%14" PRIu64 "\n", "runs cut, bogus range", r->result->tally.bogus_ranges);
}

static void text_sources(out *o, const aggregate_report *r)
{
    for (size_t i = 0; i < trace_source_count(r->t); i++) {
        const trace_source *s = trace_get_source(r->t, i);
        if (s->samples == 0)
            continue;
        out_text(o, "counter                 ");
        out_name(o, s->name);
        out_printf(o, ": %" PRIu64 " samples", s->samples);
        if (s->interval)
            out_printf(o, ", interval %" PRIu64, s->interval);
        out_text(o, s->counter == TRACE_COUNTER_OTHER ? " (no SPT opcode)\n" : "\n");
    }
}

static void text_drops(out *o, const aggregate_report *r)
{
    bool any = false;
    for (size_t part = 0; part < 3; part++) {
        for (size_t why = 0; why < AGGREGATE_DROP_COUNT; why++) {
            uint64_t n = r->result->tally.parts[part].dropped[why];
            if (n == 0)
                continue;
            out_text(o, any ? "" : "\ndropped\n");
            any = true;
            out_printf(o, "  %-22s%14" PRIu64 "  %-16s %s\n", part_labels[part], n,
                       aggregate_drop_name((aggregate_drop)why),
                       aggregate_drop_text((aggregate_drop)why));
        }
    }
    const trace_tally *t = trace_get_tally(r->t);
    if (t->stacks_untied)
        out_printf(o, "%s  %-22s%14" PRIu64 "  %-16s %s\n", any ? "" : "\ndropped\n", "stacks",
                   t->stacks_untied, "no-sample", "of events that are no samples");
    any |= t->stacks_untied > 0;
    if (t->stacks_undefined)
        out_printf(o, "%s  %-22s%14" PRIu64 "  %-16s %s\n", any ? "" : "\ndropped\n", "stacks",
                   t->stacks_undefined, "no-frames", "whose key was never defined");
}

static void text_programs(out *o, const aggregate_report *r)
{
    if (r->result->program_count)
        out_printf(o, "\n%-24s%14s  %s\n", "program", "hits", "GUID and age");
    for (size_t i = 0; i < r->result->program_count; i++) {
        const aggregate_program *p = &r->result->programs[i];
        const trace_module *m = module_table_get(trace_modules(r->t), p->module);
        char guid[GUID_TEXT_SIZE];
        guid_text(guid, &m->id.guid);
        size_t before = m->name.len;
        out_name(o, m->name);
        out_printf(o, "%*s%14" PRIu64 "  %s %" PRIu32 "\n", before < 24 ? (int)(24 - before) : 1,
                   "", p->hits, guid, m->id.age);
    }
}

void aggregate_report_text(out *o, const aggregate_report *r)
{
    text_inputs(o, r);
    text_sources(o, r);
    text_counts(o, r);
    text_drops(o, r);
    text_programs(o, r);
    out_printf(o,
               "\nUsed LBR Samples: %" PRIu64 "\nUsed IP samples: %" PRIu64
               "\nUsed stack samples: %" PRIu64 "\n",
               r->result->tally.lbr_records_used, r->result->tally.parts[TRACE_IP].used,
               r->result->tally.stacks_used);
    out_text(o, "Written: ");
    out_name(o, text_str(r->output_path ? r->output_path : "nothing"));
    out_text(o, "\n");
}

/* ------------------------------------------------------------------ JSON */

static void json_inputs(json *j, const aggregate_report *r)
{
    json_key(j, "inputs");
    json_open_array(j);
    for (size_t i = 0; i < trace_input_count(r->t); i++) {
        const trace_input *in = trace_get_input(r->t, i);
        json_open_object(j);
        json_key(j, "path");
        json_text(j, in->path);
        json_key(j, "format");
        json_text(j, format_name(in->format));
        json_close_object(j);
    }
    json_close_array(j);
}

static void json_count(json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_u64(j, value);
}

static void json_counts(json *j, const aggregate_report *r)
{
    count_row rows[ROW_COUNT];
    const trace_tally *t = trace_get_tally(r->t);
    fill_rows(rows, r);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        json_key(j, rows[i].key);
        json_open_object(j);
        json_count(j, "seen", rows[i].seen);
        if (rows[i].has_used)
            json_count(j, "used", rows[i].used);
        json_close_object(j);
    }
    json_count(j, "records", t->records);
    json_count(j, "images", t->images);
    json_count(j, "images_with_id", t->images_with_id);
    json_count(j, "lbr_without_trigger", t->lbr_records - t->lbr_with_trigger);
    json_count(j, "bogus_ranges", r->result->tally.bogus_ranges);
    json_count(j, "stacks_no_sample", t->stacks_untied);
    json_count(j, "stacks_no_frames", t->stacks_undefined);
    json_count(j, "lost_events", t->lost_events);
    json_count(j, "lost_buffers", t->lost_buffers);
    json_count(j, "bad_records", t->bad_records);
    json_count(j, "bad_buffers", t->bad_buffers);
}

static void json_drops(json *j, const aggregate_report *r)
{
    json_key(j, "dropped");
    json_open_object(j);
    for (size_t part = 0; part < 3; part++) {
        json_key(j, part_keys[part]);
        json_open_object(j);
        for (size_t why = 0; why < AGGREGATE_DROP_COUNT; why++) {
            uint64_t n = r->result->tally.parts[part].dropped[why];
            if (n)
                json_count(j, aggregate_drop_name((aggregate_drop)why), n);
        }
        json_close_object(j);
    }
    json_close_object(j);
}

static void json_sources(json *j, const aggregate_report *r)
{
    json_key(j, "counters");
    json_open_array(j);
    for (size_t i = 0; i < trace_source_count(r->t); i++) {
        const trace_source *s = trace_get_source(r->t, i);
        if (s->samples == 0)
            continue;
        json_open_object(j);
        json_key(j, "name");
        json_str(j, s->name);
        json_count(j, "samples", s->samples);
        json_count(j, "interval", s->interval);
        json_key(j, "has_opcode");
        json_bool(j, s->counter != TRACE_COUNTER_OTHER);
        json_close_object(j);
    }
    json_close_array(j);
}

static void json_programs(json *j, const aggregate_report *r)
{
    json_key(j, "programs");
    json_open_array(j);
    for (size_t i = 0; i < r->result->program_count; i++) {
        const aggregate_program *p = &r->result->programs[i];
        const trace_module *m = module_table_get(trace_modules(r->t), p->module);
        char guid[GUID_TEXT_SIZE];
        guid_text(guid, &m->id.guid);
        json_open_object(j);
        json_key(j, "name");
        json_str(j, m->name);
        json_key(j, "guid");
        json_text(j, guid);
        json_count(j, "age", m->id.age);
        json_count(j, "hits", p->hits);
        json_close_object(j);
    }
    json_close_array(j);
}

void aggregate_report_json(out *o, const aggregate_report *r)
{
    json j = json_on(o, false);
    json_open_object(&j);
    json_key(&j, "output");
    if (r->output_path)
        json_text(&j, r->output_path);
    else
        json_null(&j);
    json_inputs(&j, r);
    json_counts(&j, r);
    json_drops(&j, r);
    json_sources(&j, r);
    json_programs(&j, r);
    json_close_object(&j);
    json_end_line(&j);
}
