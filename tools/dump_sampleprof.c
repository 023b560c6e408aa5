/*
 * spgo dump of sample profiles: the text form, whatever the file's own is, with the summary as
 * comments above it. As JSON one object for each function; callees that were inlined stand in its
 * list of places, each with its depth, as they can be nested deeper than JSON is read.
 */
#include "dump.h"

#include <base/fields.h>
#include <base/text.h>
#include <format/sampleprof/sampleprof.h>

static const char *form_name(sampleprof_form form)
{
    switch (form) {
    case SAMPLEPROF_TEXT:
        return "text";
    case SAMPLEPROF_BINARY:
        return "binary";
    case SAMPLEPROF_EXTBINARY:
        return "extbinary";
    case SAMPLEPROF_NOT:
        break;
    }
    return "unknown";
}

/* ------------------------------------------------------------------ summary */

static void put_summary(const dump *d, json *j, const sampleprof *p, const sampleprof_summary *s)
{
    fields f = {d->o, j, "# ", ": ", "\n"};
    field_str(&f, "form", text_str(form_name(sampleprof_sniff(d->bytes))));
    field_bool(&f, "pseudo_probes", sampleprof_has_probes(p));
    field_bool(&f, "fs_discriminators", sampleprof_has_fs_discriminators(p));
    field_bool(&f, "md5_names", sampleprof_has_md5_names(p));
    field_u64(&f, "functions", s->function_count);
    field_u64(&f, "counts", s->count_count);
    field_u64(&f, "total", s->total);
    field_u64(&f, "max_count", s->max_count);
    field_u64(&f, "max_function_count", s->max_function_count);
    f = fields_pairs(d->o, j);
    fields_open_table(j, "cutoffs");
    for (size_t i = 0; i < SAMPLEPROF_CUTOFF_COUNT; i++) {
        if (!j)
            out_text(d->o, "# ");
        fields_open_row(&f, "cutoff", i);
        field_u64(&f, "share", s->cutoffs[i].cutoff);
        field_u64(&f, "min_count", s->cutoffs[i].min_count);
        field_u64(&f, "counts", s->cutoffs[i].count);
        fields_close_row(&f);
    }
    fields_close_table(j);
}

static int show_summary(dump *d, const sampleprof *p)
{
    sampleprof_summary s;
    spgo_error err;
    if (sampleprof_summarize(p, &s, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    if (d->args->json) {
        dump_open_line(d, "summary");
        put_summary(d, &d->j, p, &s);
        dump_close_line(d);
    } else {
        put_summary(d, NULL, p, &s);
    }
    return CLI_OK;
}

/* ------------------------------------------------------------------ functions as JSON */

static void open_place(dump *d, uint64_t depth, sampleprof_place place)
{
    json_open_object(&d->j);
    dump_member_u64(d, "depth", depth);
    dump_member_u64(d, "line", place.line_offset);
    dump_member_u64(d, "discriminator", place.discriminator);
}

static void put_name(dump *d, const char *key, spgo_str name)
{
    json_key(&d->j, key);
    json_str(&d->j, name);
}

static void put_metadata(dump *d, const sampleprof_function *f)
{
    uint64_t checksum;
    if (sampleprof_checksum(f, &checksum))
        dump_member_u64(d, "checksum", checksum);
    if (sampleprof_attributes(f))
        dump_member_u64(d, "attributes", sampleprof_attributes(f));
}

static void put_line(dump *d, uint64_t depth, const sampleprof_line *l)
{
    open_place(d, depth, l->place);
    dump_member_u64(d, "count", l->count);
    if (l->target_count) {
        json_key(&d->j, "targets");
        json_open_array(&d->j);
        for (size_t i = 0; i < l->target_count; i++) {
            json_open_object(&d->j);
            put_name(d, "callee", l->targets[i].callee);
            dump_member_u64(d, "count", l->targets[i].count);
            json_close_object(&d->j);
        }
        json_close_array(&d->j);
    }
    json_close_object(&d->j);
}

static void put_places(dump *d, uint64_t depth, const sampleprof_function *f)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (size_t i = 0; i < count; i++)
        put_line(d, depth, &lines[i]);
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    for (size_t i = 0; i < count; i++) {
        open_place(d, depth, sites[i].place);
        put_name(d, "inlined", sampleprof_name(sites[i].callee));
        dump_member_u64(d, "total", sampleprof_total(sites[i].callee));
        put_metadata(d, sites[i].callee);
        json_close_object(&d->j);
        put_places(d, depth + 1, sites[i].callee);
    }
}

static void put_function(dump *d, const sampleprof_function *f)
{
    dump_open_line(d, "function");
    put_name(d, "name", sampleprof_name(f));
    dump_member_u64(d, "total", sampleprof_total(f));
    dump_member_u64(d, "head", sampleprof_head(f));
    put_metadata(d, f);
    json_key(&d->j, "places");
    json_open_array(&d->j);
    put_places(d, 0, f);
    json_close_array(&d->j);
    dump_close_line(d);
}

static int show_functions(dump *d, const sampleprof *p)
{
    spgo_error err;
    if (!d->args->json)
        return sampleprof_write_text(p, d->o, &err) == SPGO_OK ? CLI_OK
                                                               : cli_fail(d->args, d->file, &err);
    for (size_t i = 0; i < sampleprof_function_count(p) && !d->o->failed; i++)
        put_function(d, sampleprof_get_function(p, i));
    return CLI_OK;
}

int dump_sampleprof(dump *d)
{
    sampleprof *p;
    spgo_error err;
    diag found = {0};
    if (sampleprof_read(d->bytes, 0, &p, &found, &err) != SPGO_OK) {
        (void)dump_report(d, &found);
        return cli_fail(d->args, d->file, &err);
    }
    int exit_code = d->show_headers ? show_summary(d, p) : CLI_OK;
    if (exit_code == CLI_OK && d->show_events)
        exit_code = show_functions(d, p);
    sampleprof_free(p);
    int damaged = dump_report(d, &found);
    return exit_code != CLI_OK ? exit_code : damaged;
}
