/* Shares and reasons in words: see profile_report.h. */
#include "profile_report.h"

#include <inttypes.h>
#include <stdio.h>

#include <base/json.h>
#include <os/system.h>
#include <profile/quality.h>

/* Shares above these are worth a warning: llvm-profgen's own limits. */
static const double BOGUS_WARNED = 0.01, MISMATCH_WARNED = 0.05;

static void warn_share(const profile_report *r, uint64_t part, uint64_t whole, double limit,
                       const char *what)
{
    if (quality_share(part, whole) > limit)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET, "%.1f %% %s",
                    100 * quality_share(part, whole), what);
}

static void warn_addresses(const profile_report *r)
{
    const address_tally *t = &r->result->addresses;
    warn_share(r, t->bogus_range_hits, t->range_hits, BOGUS_WARNED,
               "of the code ranges run across a jump, call or return: the image may be another "
               "build, or the recording lost branches");
    warn_share(r, t->no_code_range_hits, t->range_hits, MISMATCH_WARNED,
               "of the hits are at no instruction of a known function: the image may be another "
               "build, or lack symbols");
    warn_share(r, t->source_mismatch_hits, t->branch_hits, MISMATCH_WARNED,
               "of the branches start at an instruction that is none: the image is another build");
    warn_share(r, t->target_mismatch_hits, t->branch_hits, MISMATCH_WARNED,
               "of the direct branches go elsewhere than their instruction says: the image is "
               "another build, or code was patched");
}

static void note_functions(const profile_report *r)
{
    const correlate_tally *t = &r->result->correlated;
    if (!r->result->profile)
        return;
    if (t->functions_approximate > 0)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "the first lines of %" PRIu64 " of %" PRIu64
                    " functions are found in the sources or guessed from their code, since the "
                    "debug information does not tell them; their line offsets may be off; DWARF "
                    "would tell%s",
                    t->functions_approximate, t->functions,
                    r->has_source_roots ? "" : ", and --source-root the sources");
    if (t->functions_left_out > 0)
        cli_message(
            r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
            "functions with samples that have no name or no lines and are left out: %" PRIu64,
            t->functions_left_out);
    if (t->inlinees_unnamed > 0 && !r->quiet)
        cli_message(r->args, CLI_NOTE, NULL, SPGO_NO_OFFSET,
                    "the linkage names of %" PRIu64
                    " inlined functions are not known; they count for their callers",
                    t->inlinees_unnamed);
}

/* What was wrong in the debug information that was read. */
static int tell_damage(const profile_report *r)
{
    const diag *d = symbols_findings(r->s);
    const char *path = symbols_get_info(r->s)->debug_path;
    for (size_t i = 0; i < d->kept_count; i++)
        cli_message(r->args, CLI_WARNING, path ? path : symbols_get_info(r->s)->image_path,
                    d->kept[i].offset, "%s", d->kept[i].sentence);
    if (d->total > d->kept_count)
        cli_message(r->args, CLI_WARNING, NULL, SPGO_NO_OFFSET, "and %" PRIu64 " findings more",
                    d->total - d->kept_count);
    return d->total > 0 ? CLI_PARTIAL : CLI_OK;
}

int profile_report_findings(const profile_report *r)
{
    warn_addresses(r);
    note_functions(r);
    return tell_damage(r);
}

/* ------------------------------------------------------------------ --quality */

static const char *mode_name(const profile_result *result)
{
    return result->mode == PROFILE_BRANCHES ? "lbr" : "ip";
}

/* The opcode of a kind of instruction pointer. */
static uint8_t opcode_of_kind(unsigned kind)
{
    return kind < 5 ? (uint8_t)(kind + 1) : (uint8_t)(SPGO_SPT_ETW_INSTR + (kind - 5));
}

static void put_samples(out *o, const profile_result *result)
{
    if (result->mode == PROFILE_BRANCHES) {
        out_printf(o, "\nsamples        %" PRIu64 " branches, %" PRIu64 " code ranges\n",
                   result->addresses.branch_hits, result->addresses.range_hits);
        return;
    }
    out_printf(o, "\nsamples        %" PRIu64 " instruction pointers",
               result->addresses.range_hits);
    for (unsigned i = 0; i < SAMPLES_IP_KINDS; i++) {
        if (result->ip_kinds >> i & 1u)
            out_printf(o, " %s", spgo_spt_opcode_name(opcode_of_kind(i)));
    }
    out_text(o, "\n");
}

static void put_text(out *o, const profile_report *r, const quality *q)
{
    const profile_result *result = r->result;
    const correlate_tally *c = &result->correlated;
    out_text(o, "program        ");
    out_name(o, r->program->name);
    out_printf(o, "\nmode           %s, inference %s, by %s", mode_name(result),
               result->is_inferred ? "on" : "off", result->is_by_probes ? "probes" : "lines");
    put_samples(o, result);
    out_printf(o,
               "functions      %" PRIu64 " (%" PRIu64 " exact, %" PRIu64 " approximate, %" PRIu64
               " left out)\n",
               c->functions, c->functions_exact, c->functions_approximate, c->functions_left_out);
    out_printf(o, "density        %.1f (%d is good", q->density, QUALITY_DENSITY_THRESHOLD);
    if (q->more_samples_wanted > 1)
        out_printf(o, "; %.1f times as many samples would reach it", q->more_samples_wanted);
    out_printf(o, ")\nblock coverage %.2f %% (%" PRIu64 " of %" PRIu64 ")",
               100 * quality_share(q->blocks_before, q->blocks), q->blocks_before, q->blocks);
    if (result->is_inferred)
        out_printf(o, ", %.2f %% (%" PRIu64 ") after inference",
                   100 * quality_share(q->blocks_after, q->blocks), q->blocks_after);
    out_printf(o, "\nflow gap       %.2f %%", 100 * q->flow_gap_before);
    if (result->is_inferred)
        out_printf(o, ", %.2f %% after inference", 100 * q->flow_gap_after);
    out_printf(o, "\nbogus          %.2f %%\nunmapped       %.2f %%\nmismatched     %.2f %%\n",
               100 * q->bogus_share, 100 * q->unmapped_share, 100 * q->mismatched_share);
    out_printf(o, "stale          %" PRIu64 " functions\n", q->stale_procedures);
}

static void put_json(out *o, const profile_report *r, const quality *q)
{
    const profile_result *result = r->result;
    const correlate_tally *c = &result->correlated;
    json j = json_on(o, false);
    json_open_object(&j);
    json_key(&j, "program");
    json_str(&j, r->program->name);
    json_key(&j, "mode");
    json_text(&j, mode_name(result));
    json_key(&j, "inference");
    json_bool(&j, result->is_inferred);
    json_key(&j, "by");
    json_text(&j, result->is_by_probes ? "probes" : "lines");
    json_key(&j, "opcodes");
    json_open_array(&j);
    for (unsigned i = 0; i < SAMPLES_IP_KINDS; i++) {
        if (result->ip_kinds >> i & 1u)
            json_text(&j, spgo_spt_opcode_name(opcode_of_kind(i)));
    }
    if (result->mode == PROFILE_BRANCHES)
        json_text(&j, spgo_spt_opcode_name(SPGO_SPT_LBR));
    json_close_array(&j);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"branch_hits", result->addresses.branch_hits},
        {"range_hits", result->addresses.range_hits},
        {"functions", c->functions},
        {"functions_exact", c->functions_exact},
        {"functions_approximate", c->functions_approximate},
        {"functions_left_out", c->functions_left_out},
        {"blocks", q->blocks},
        {"blocks_before", q->blocks_before},
        {"blocks_after", q->blocks_after},
        {"stale_functions", q->stale_procedures},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_key(&j, numbers[i].key);
        json_u64(&j, numbers[i].value);
    }
    const struct {
        const char *key;
        double value;
    } ratios[] = {
        {"density", q->density},
        {"density_threshold", QUALITY_DENSITY_THRESHOLD},
        {"more_samples_wanted", q->more_samples_wanted},
        {"flow_gap_before", q->flow_gap_before},
        {"flow_gap_after", q->flow_gap_after},
        {"bogus_share", q->bogus_share},
        {"unmapped_share", q->unmapped_share},
        {"mismatched_share", q->mismatched_share},
    };
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        json_key(&j, ratios[i].key);
        json_f64(&j, ratios[i].value, 6);
    }
    json_close_object(&j);
    json_end_line(&j);
}

int profile_report_quality(const profile_report *r, int fd)
{
    quality q;
    spgo_error err;
    out o;
    if (quality_measure(r->result, r->s, r->d, &q, &err) != SPGO_OK ||
        out_init(&o, os_stream_sink(fd), &err) != SPGO_OK)
        return cli_fail(r->args, NULL, &err);
    if (r->args->json)
        put_json(&o, r, &q);
    else
        put_text(&o, r, &q);
    return cli_close_out(r->args, &o, CLI_OK);
}
