/*
 * What sptaggregate has to say besides the counts. Every zero gets its reason and the way out,
 * because an empty profile without one is the commonest complaint about tools of this kind.
 */
#include "aggregate_report.h"

#include <base/text.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NEAR_NAMES = 5, NEAR_EDITS = 6, MISSING_NAMED = 8 };

static const char HOW_ETL_LBR[] =
    "record with: xperf -on LOADER+PROC_THREAD+PMC_PROFILE -pmcprofile BranchInstructionRetired "
    "-LastBranch PmcInterrupt -setProfInt BranchInstructionRetired 65537";
static const char HOW_PERF_LBR[] = "record with: perf record -b -e branches:u -c 100003 -- "
                                   "program; where the machine has none, as "
                                   "most virtual ones, more instruction pointers help: perf record "
                                   "-e cpu-clock:u -F max -- program";

static bool has_format(const trace *t, trace_format format)
{
    for (size_t i = 0; i < trace_input_count(t); i++) {
        if (trace_get_input(t, i)->format == format)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ names that match nothing */

typedef struct near_names {
    const char *pattern;
    spgo_str found[NEAR_NAMES];
    unsigned distance[NEAR_NAMES];
    size_t count;
    bool matches;
} near_names;

/* How far the name is from the pattern; a name that only goes on is near: "app" of "app.exe". */
static unsigned distance_of(spgo_str pattern, spgo_str name)
{
    spgo_str start = {name.ptr, pattern.len};
    bool goes_on = pattern.len > 0 && name.len > pattern.len && text_equal_nocase(start, pattern);
    return goes_on ? 1 : text_distance(pattern, name, NEAR_EDITS);
}

static void consider(near_names *n, spgo_str name)
{
    spgo_str pattern = text_base_name(text_str(n->pattern));
    n->matches |= text_match(pattern, name);
    for (size_t i = 0; i < n->count; i++) {
        if (text_equal_nocase(n->found[i], name))
            return;
    }
    size_t longer = name.len > pattern.len ? name.len : pattern.len;
    unsigned d = distance_of(pattern, name);
    size_t at = n->count < NEAR_NAMES ? n->count : NEAR_NAMES;
    while (at > 0 && n->distance[at - 1] > d)
        at--;
    if (name.len == 0 || d > NEAR_EDITS || 2 * d > longer || at == NEAR_NAMES)
        return;
    size_t kept = n->count < NEAR_NAMES ? n->count : NEAR_NAMES - 1;
    memmove(n->found + at + 1, n->found + at, (kept - at) * sizeof n->found[0]);
    memmove(n->distance + at + 1, n->distance + at, (kept - at) * sizeof n->distance[0]);
    n->found[at] = name;
    n->distance[at] = d;
    n->count = kept + 1;
}

static void tell_near(const aggregate_report *r, const near_names *n, const char *what,
                      const char *option, size_t seen)
{
    char list[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < n->count && len < sizeof list; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%.*s", i ? ", " : "",
                                (int)n->found[i].len, n->found[i].ptr);
    cli_message(
        r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
        "none of the %zu %s in this trace is named %s; /%s takes base names with * and ?%s%s", seen,
        what, n->pattern, option, n->count ? "; the nearest: " : "", list);
}

static void check_binaries(const aggregate_report *r)
{
    const module_table *modules = trace_modules(r->t);
    for (size_t p = 0; p < r->opts->binary_count; p++) {
        near_names n = {.pattern = r->opts->binaries[p]};
        for (uint32_t i = 0; i < module_table_count(modules); i++)
            consider(&n, module_table_get(modules, i)->name);
        if (!n.matches)
            tell_near(r, &n, "images", "binary", module_table_count(modules));
    }
}

static void check_processes(const aggregate_report *r)
{
    for (size_t p = 0; p < r->opts->process_count; p++) {
        near_names n = {.pattern = r->opts->processes[p]};
        size_t seen = 0;
        for (size_t s = 0; s < trace_session_count(r->t); s++) {
            const timeline *who = trace_get_timeline(r->t, s);
            seen += timeline_process_count(who);
            for (uint32_t i = 0; i < timeline_process_count(who); i++) {
                consider(&n, timeline_get_process(who, i)->name);
                consider(&n, timeline_get_process(who, i)->image_name);
            }
        }
        if (!n.matches)
            tell_near(r, &n, "processes", "process", seen);
    }
}

/* ------------------------------------------------------------------ zeros */

/* None was used: how many there were, and why most of them were dropped. */
static void tell_unused(const aggregate_report *r, trace_part which, const char *what)
{
    const aggregate_part *part = &r->result->tally.parts[which];
    size_t most = 0;
    for (size_t i = 1; i < AGGREGATE_DROP_COUNT; i++)
        most = part->dropped[i] > part->dropped[most] ? i : most;
    cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                "none of the %" PRIu64 " %s could be used; the main reason (%" PRIu64
                " of them): %s",
                part->seen, what, part->dropped[most], aggregate_drop_text((aggregate_drop)most));
}

static void explain_branches(const aggregate_report *r)
{
    const trace_tally *t = trace_get_tally(r->t);
    const aggregate_part *part = &r->result->tally.parts[TRACE_BRANCHES];
    const char *how = has_format(r->t, TRACE_ETL) ? HOW_ETL_LBR : HOW_PERF_LBR;
    if (t->lbr_records == 0 && !r->quiet)
        cli_message(r->args, CLI_NOTE, NULL, SPGO_NO_OFFSET,
                    "no LBR events in this trace, so no branches; %s", how);
    else if (part->seen && part->used == 0)
        tell_unused(r, TRACE_BRANCHES, "LBR entries");
}

static void explain_ips(const aggregate_report *r)
{
    const trace_tally *t = trace_get_tally(r->t);
    const aggregate_part *part = &r->result->tally.parts[TRACE_IP];
    if (t->timer_samples + t->pmc_samples == 0)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "no timer or PMC samples in this trace, so no instruction pointers; record "
                    "with PROFILE or PMC_PROFILE switched on (xperf -on "
                    "LOADER+PROC_THREAD+PROFILE), or with perf record");
    else if (part->used == 0)
        tell_unused(r, TRACE_IP, "samples");
    else if (t->stacks == 0 && !r->quiet)
        cli_message(r->args, CLI_NOTE, NULL, SPGO_NO_OFFSET,
                    "no call stacks in this trace; they are optional (xperf -stackwalk profile, "
                    "perf record -g)");
}

static void explain_sources(const aggregate_report *r)
{
    for (size_t i = 0; i < trace_source_count(r->t); i++) {
        const trace_source *s = trace_get_source(r->t, i);
        if (s->samples && s->counter == TRACE_COUNTER_OTHER)
            cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                        "%" PRIu64 " samples of the counter %.*s were left out: SPT has opcodes "
                        "for cycles, instructions, branches, cache misses and the timer only",
                        s->samples, (int)s->name.len, s->name.ptr);
    }
}

static void explain_images(const aggregate_report *r)
{
    const trace_tally *t = trace_get_tally(r->t);
    if (t->images == 0)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "no image events in this trace, so no address can be told; record with LOADER "
                    "and PROC_THREAD switched on");
    else if (t->images_with_id == 0 && has_format(r->t, TRACE_ETL))
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "no RSDS records: the trace was not merged, so programs have no GUID and age "
                    "and the SPT will match no database; stop with xperf -stop -d merged.etl or "
                    "merge with xperf -merge on the machine that recorded it");
}

static void name_missing_ids(const aggregate_report *r)
{
    size_t named = 0;
    for (size_t i = 0; i < r->result->program_count; i++) {
        const trace_module *m =
            module_table_get(trace_modules(r->t), r->result->programs[i].module);
        if (m->has_id || named++ >= MISSING_NAMED)
            continue;
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "%.*s has no identity in this trace and gets a null GUID: nobody can check "
                    "that an image is the one that was recorded (link with --build-id)%s",
                    (int)m->name.len, m->name.ptr,
                    r->args->command->prefix[0] == '/' ? "; /require-id makes this an error" : "");
    }
    if (named > MISSING_NAMED)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "and %zu more programs without identity", named - MISSING_NAMED);
}

static int tell_losses(const aggregate_report *r)
{
    const trace_tally *t = trace_get_tally(r->t);
    if (t->lost_events || t->lost_buffers)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "the recording lost %" PRIu64 " events and %" PRIu64 " buffers; give it more "
                    "and larger buffers (xperf -MinBuffers -BufferSize, perf record -m)",
                    t->lost_events, t->lost_buffers);
    if (t->bad_records == 0 && t->bad_buffers == 0)
        return CLI_OK;
    cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                "%" PRIu64 " damaged records and %" PRIu64 " damaged buffers were skipped; spgo "
                "dump shows where",
                t->bad_records, t->bad_buffers);
    return CLI_PARTIAL;
}

static int tell_input_findings(const aggregate_report *r)
{
    int exit_code = CLI_OK;
    for (size_t i = 0; i < trace_input_count(r->t); i++) {
        const trace_input *in = trace_get_input(r->t, i);
        for (size_t k = 0; k < in->findings.kept_count; k++) {
            const diag_item *item = &in->findings.kept[k];
            cli_message(r->args, CLI_WARNING, in->path, item->offset, "%s", item->sentence);
            if (cli_is_damage(item->code))
                exit_code = CLI_PARTIAL;
        }
        if (in->findings.total > in->findings.kept_count)
            cli_message(r->args, CLI_WARNING, in->path, SPGO_NO_OFFSET,
                        "and %" PRIu64 " more findings of this kind",
                        in->findings.total - in->findings.kept_count);
    }
    return exit_code;
}

int aggregate_report_findings(const aggregate_report *r)
{
    int damaged = tell_input_findings(r);
    int lossy = tell_losses(r);
    explain_images(r);
    explain_ips(r);
    explain_branches(r);
    explain_sources(r);
    check_binaries(r);
    check_processes(r);
    name_missing_ids(r);
    return damaged != CLI_OK ? damaged : lossy;
}
