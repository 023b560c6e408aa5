/* spgo overlap: how alike two sample profiles are, for the program, its functions and their
 * blocks. */
#include "commands.h"

#include <base/json.h>
#include <base/text.h>
#include <format/etl/etl.h>
#include <format/perfdata/perfdata.h>
#include <profile/overlap.h>

#include <stdint.h>
#include <string.h>

#include "cli.h"

enum { OPT_FUNCTION, OPT_FUNCTIONS, OPT_HELP, OPT_HOT, OPT_JSON, OPT_COUNT };

enum { FUNCTIONS_SHOWN = 20, HOT_DEFAULT = 990000, HOT_MAX = 999999, JSON_DECIMALS = 6 };

static const cli_option options[OPT_COUNT] = {
    [OPT_FUNCTION] = {.name = "function",
                      .kind = CLI_LIST,
                      .metavar = "name,...",
                      .help = "also every place of these functions, with its counts; names may "
                              "have * and ?"},
    [OPT_FUNCTIONS] = {.name = "functions",
                       .kind = CLI_NUMBER,
                       .value_optional = true,
                       .metavar = "n",
                       .help = "also the n functions (20) that take most from the similarity"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_HOT] = {.name = "hot",
                 .kind = CLI_TEXT,
                 .metavar = "percent",
                 .help = "hot are the largest counts that together make up this share of all\n"
                         "(99; rounded up to the next of LLVM's cutoffs)"},
    [OPT_JSON] = {.name = "json", .help = "report as a JSON object, messages too"},
};

static const cli_command command = {
    .tool = "spgo overlap",
    .prefix = "--",
    .purpose = "tell how alike two sample profiles are",
    .synopsis = "[options] a b",
    .notes = "Profiles in any of LLVM's forms; the figures are those of llvm-profdata overlap "
             "--sample.\n\"-\" is standard input.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 a profile is damaged (what could be read was "
             "compared).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 2,
    .operands_max = 2,
    .operands = "a profile",
};

/* Whose figures stand where. */
typedef struct comparison {
    const cli_args *args;
    const char *names[2];
    sampleprof *profiles[2];
    overlap_result r;
    out *o;
    json j;
} comparison;

/* ------------------------------------------------------------------ profiles */

static bool looks_like_spt(spgo_span input)
{
    return input.len >= 4 && (memcmp(input.ptr, "\x3A\x54\x50\x53", 4) == 0 ||
                              memcmp(input.ptr, "\x53\x50\x54\x3A", 4) == 0);
}

/* What people hand over instead of a profile. */
static const char *recording_of(spgo_span input)
{
    return looks_like_spt(input)   ? "an SPT"
           : perfdata_sniff(input) ? "a perf.data"
           : etl_sniff(input)      ? "an ETL"
                                   : NULL;
}

static void report_findings(const comparison *c, const char *file, const diag *found)
{
    for (size_t i = 0; i < found->kept_count; i++)
        cli_message(c->args, CLI_WARNING, file, found->kept[i].offset, "%s",
                    found->kept[i].sentence);
    if (found->total > found->kept_count)
        cli_message(c->args, CLI_WARNING, file, SPGO_NO_OFFSET,
                    "%llu further findings are not shown",
                    (unsigned long long)(found->total - found->kept_count));
}

static int read_profile(const comparison *c, const char *file, sampleprof **profile)
{
    os_input *in;
    spgo_error err;
    diag found = {0};
    if (os_input_open(file, &in, &err) != SPGO_OK)
        return cli_fail(c->args, file, &err);
    spgo_span input = os_input_bytes(in);
    int exit_code = CLI_OK;
    const char *recording = sampleprof_sniff(input) == SAMPLEPROF_NOT ? recording_of(input) : NULL;
    if (recording) {
        cli_message(c->args, CLI_ERROR, file, SPGO_NO_OFFSET,
                    "this is %s file, not a profile; spgo profile makes one of it", recording);
        exit_code = CLI_FAILED;
    } else if (sampleprof_read(input, 0, profile, &found, &err) != SPGO_OK) {
        exit_code = cli_fail(c->args, file, &err);
    }
    os_input_close(in);
    report_findings(c, file, &found);
    for (size_t i = 0; i < found.kept_count && exit_code == CLI_OK; i++)
        exit_code = cli_is_damage(found.kept[i].code) ? CLI_PARTIAL : CLI_OK;
    return exit_code;
}

/* ------------------------------------------------------------------ as text */

static void put_percent(out *o, double share)
{
    out_printf(o, "%9.3f%%", 100 * share);
}

static void put_set(out *o, const char *name, const overlap_set *set)
{
    out_printf(o, "%-16s", name);
    put_percent(o, set->share);
    out_printf(o, "  %llu in both, %llu only in a, %llu only in b\n", (unsigned long long)set->both,
               (unsigned long long)set->only_a, (unsigned long long)set->only_b);
}

static void put_program(const comparison *c)
{
    const overlap_result *r = &c->r;
    const uint64_t samples[2] = {r->samples_a, r->samples_b};
    const uint64_t hot_counts[2] = {r->hot_count_a, r->hot_count_b};
    for (int i = 0; i < 2; i++) {
        out_printf(c->o, "%c  ", "ab"[i]);
        out_name(c->o, text_str(c->names[i]));
        out_printf(c->o, "  %llu samples", (unsigned long long)samples[i]);
        if (hot_counts[i] != UINT64_MAX)
            out_printf(c->o, ", hot from %llu", (unsigned long long)hot_counts[i]);
        out_text(c->o, "\n");
    }
    out_printf(c->o, "%-16s", "similarity");
    put_percent(c->o, r->program);
    out_printf(c->o, "\n%-16s", "sample overlap");
    put_percent(c->o, r->sample_overlap);
    out_printf(c->o, "  unique: %.3f%% of a, %.3f%% of b\n",
               100 * (double)r->unique_a / (double)r->samples_a,
               100 * (double)r->unique_b / (double)r->samples_b);
    put_set(c->o, "functions", &r->functions);
    put_set(c->o, "hot functions", &r->hot_functions);
    put_set(c->o, "hot blocks", &r->hot_blocks);
}

static double overlap_of(const overlap_function *f)
{
    return f->samples_union ? (double)f->samples_overlap / (double)f->samples_union : 0.0;
}

static void put_functions(const comparison *c, size_t count)
{
    out_printf(c->o, "\n%10s  %10s  %10s  %10s  %10s  %12s  %12s  %s\n", "difference", "similarity",
               "overlap", "weight a", "weight b", "samples a", "samples b", "function");
    for (size_t i = 0; i < count; i++) {
        const overlap_function *f = &c->r.items[i];
        const double shares[] = {f->difference, f->similarity, overlap_of(f), f->weight_a,
                                 f->weight_b};
        for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
            put_percent(c->o, shares[k]);
            out_text(c->o, "  ");
        }
        out_u64_width(c->o, f->samples_a, 12);
        out_text(c->o, "  ");
        out_u64_width(c->o, f->samples_b, 12);
        out_text(c->o, "  ");
        out_name(c->o, f->name);
        out_text(c->o, "\n");
    }
}

/* What is shown of a function's blocks. */
typedef struct block_view {
    comparison *c;
    const overlap_function *f;
} block_view;

static uint64_t samples_of(const sampleprof_function *f)
{
    return f ? overlap_samples(f) : 0;
}

static double part(uint64_t count, uint64_t whole)
{
    return whole ? (double)count / (double)whole : 0.0;
}

static void put_side(out *o, bool is_there, uint64_t count, uint64_t whole)
{
    if (is_there) {
        out_u64_width(o, count, 12);
        put_percent(o, part(count, whole));
    } else {
        out_printf(o, "%12s%10s", "-", "");
    }
    out_text(o, "  ");
}

static void put_block(void *ctx, const overlap_block *b)
{
    const block_view *view = ctx;
    out *o = view->c->o;
    const sampleprof_function *callee = b->callee_a ? b->callee_a : b->callee_b;
    put_side(o, b->in_a, callee ? samples_of(b->callee_a) : b->count_a, view->f->samples_a);
    put_side(o, b->in_b, callee ? samples_of(b->callee_b) : b->count_b, view->f->samples_b);
    for (unsigned i = 0; i < b->depth; i++)
        out_text(o, " ");
    out_u64(o, b->place.line_offset);
    if (b->place.discriminator)
        out_printf(o, ".%lu", (unsigned long)b->place.discriminator);
    if (callee) {
        out_text(o, ": ");
        out_name(o, sampleprof_name(callee));
    }
    out_text(o, "\n");
}

static void put_blocks(comparison *c, const overlap_function *f)
{
    block_view view = {c, f};
    out_text(c->o, "\n");
    out_name(c->o, f->name);
    out_printf(c->o, ": similarity %.3f%%, overlap %.3f%%, weight %.3f%% and %.3f%%\n",
               100 * f->similarity, 100 * overlap_of(f), 100 * f->weight_a, 100 * f->weight_b);
    out_printf(c->o, "%12s%10s  %12s%10s  %s\n", "samples a", "share", "samples b", "share",
               "place");
    overlap_walk(sampleprof_find(c->profiles[0], f->name), sampleprof_find(c->profiles[1], f->name),
                 put_block, &view);
}

static void put_text(comparison *c, size_t function_count)
{
    put_program(c);
    if (function_count)
        put_functions(c, function_count);
    const cli_value *patterns = &c->args->values[OPT_FUNCTION];
    for (size_t i = 0; i < c->r.item_count && patterns->given; i++) {
        if (cli_match_any(patterns, c->r.items[i].name))
            put_blocks(c, &c->r.items[i]);
    }
}

/* ------------------------------------------------------------------ as JSON */

static void member_u64(json *j, const char *key, uint64_t v)
{
    json_key(j, key);
    json_u64(j, v);
}

static void member_share(json *j, const char *key, double share)
{
    json_key(j, key);
    json_f64(j, share, JSON_DECIMALS);
}

static void json_side(json *j, const char *key, const char *file, uint64_t samples, uint64_t unique,
                      uint64_t hot_count)
{
    json_key(j, key);
    json_open_object(j);
    json_key(j, "file");
    json_text(j, file);
    member_u64(j, "samples", samples);
    member_u64(j, "unique", unique);
    json_key(j, "hot_count");
    if (hot_count == UINT64_MAX)
        json_null(j);
    else
        json_u64(j, hot_count);
    json_close_object(j);
}

static void json_set(json *j, const char *key, const overlap_set *set)
{
    json_key(j, key);
    json_open_object(j);
    member_share(j, "share", set->share);
    member_u64(j, "both", set->both);
    member_u64(j, "only_a", set->only_a);
    member_u64(j, "only_b", set->only_b);
    json_close_object(j);
}

static void json_block(void *ctx, const overlap_block *b)
{
    const block_view *view = ctx;
    json *j = &view->c->j;
    const sampleprof_function *callee = b->callee_a ? b->callee_a : b->callee_b;
    json_open_object(j);
    member_u64(j, "depth", b->depth);
    member_u64(j, "line", b->place.line_offset);
    member_u64(j, "discriminator", b->place.discriminator);
    if (callee) {
        json_key(j, "callee");
        json_str(j, sampleprof_name(callee));
    }
    if (b->in_a)
        member_u64(j, "samples_a", callee ? samples_of(b->callee_a) : b->count_a);
    if (b->in_b)
        member_u64(j, "samples_b", callee ? samples_of(b->callee_b) : b->count_b);
    json_close_object(j);
}

static void json_function(comparison *c, const overlap_function *f, bool with_blocks)
{
    json *j = &c->j;
    block_view view = {c, f};
    json_open_object(j);
    json_key(j, "name");
    json_str(j, f->name);
    json_key(j, "in_a");
    json_bool(j, f->in_a);
    json_key(j, "in_b");
    json_bool(j, f->in_b);
    member_share(j, "difference", f->difference);
    member_share(j, "similarity", f->similarity);
    member_share(j, "overlap", overlap_of(f));
    member_share(j, "weight_a", f->weight_a);
    member_share(j, "weight_b", f->weight_b);
    member_u64(j, "samples_a", f->samples_a);
    member_u64(j, "samples_b", f->samples_b);
    member_u64(j, "unique_a", f->unique_a);
    member_u64(j, "unique_b", f->unique_b);
    if (with_blocks) {
        json_key(j, "blocks");
        json_open_array(j);
        overlap_walk(sampleprof_find(c->profiles[0], f->name),
                     sampleprof_find(c->profiles[1], f->name), json_block, &view);
        json_close_array(j);
    }
    json_close_object(j);
}

static void put_json(comparison *c, size_t function_count)
{
    const overlap_result *r = &c->r;
    const cli_value *patterns = &c->args->values[OPT_FUNCTION];
    json *j = &c->j;
    json_open_object(j);
    json_side(j, "a", c->names[0], r->samples_a, r->unique_a, r->hot_count_a);
    json_side(j, "b", c->names[1], r->samples_b, r->unique_b, r->hot_count_b);
    member_share(j, "similarity", r->program);
    member_share(j, "sample_overlap", r->sample_overlap);
    json_set(j, "functions", &r->functions);
    json_set(j, "hot_functions", &r->hot_functions);
    json_set(j, "hot_blocks", &r->hot_blocks);
    json_key(j, "details");
    json_open_array(j);
    for (size_t i = 0; i < r->item_count; i++) {
        bool with_blocks = patterns->given && cli_match_any(patterns, r->items[i].name);
        if (i < function_count || with_blocks)
            json_function(c, &r->items[i], with_blocks);
    }
    json_close_array(j);
    json_close_object(j);
    json_end_line(j);
}

/* ------------------------------------------------------------------ the command line */

/* "99" or "99.95" as millionths. */
static bool parse_percent(const char *text, uint32_t *millionths)
{
    enum { DECIMALS = 4 };
    size_t whole = strcspn(text, ".");
    size_t decimals = text[whole] ? strlen(text + whole + 1) : 0;
    uint64_t value, fraction = 0;
    if (!cli_number(text, whole, 10, &value) || value > 100 || decimals > DECIMALS ||
        (text[whole] && !cli_number(text + whole + 1, decimals, 10, &fraction)))
        return false;
    for (size_t i = decimals; i < DECIMALS; i++)
        fraction *= 10;
    *millionths = (uint32_t)(value * 10000 + fraction);
    return *millionths > 0 && *millionths <= HOT_MAX;
}

static size_t function_count_of(const comparison *c)
{
    const cli_value *v = &c->args->values[OPT_FUNCTIONS];
    uint64_t wanted = !v->given ? 0 : v->has_number ? v->number : FUNCTIONS_SHOWN;
    return wanted < c->r.item_count ? (size_t)wanted : c->r.item_count;
}

static int report(comparison *c, uint32_t hot_cutoff, int exit_code)
{
    spgo_error err;
    out o;
    if (overlap_compare(c->profiles[0], c->profiles[1], hot_cutoff, &c->r, &err) != SPGO_OK)
        return cli_fail(c->args, NULL, &err);
    if (!cli_open_out(c->args, &o)) {
        overlap_free(&c->r);
        return CLI_FAILED;
    }
    c->o = &o;
    c->j = json_on(&o, false);
    if (c->args->json)
        put_json(c, function_count_of(c));
    else
        put_text(c, function_count_of(c));
    overlap_free(&c->r);
    return cli_close_out(c->args, &o, exit_code);
}

static int compare_files(const cli_args *args)
{
    uint32_t hot_cutoff = HOT_DEFAULT;
    const cli_value *hot = &args->values[OPT_HOT];
    if (hot->given && !parse_percent(hot->text, &hot_cutoff))
        return cli_usage(args, "--hot %s is no share: write percent above 0 and up to 99.9999",
                         hot->text);
    if (strcmp(args->operands[0], "-") == 0 && strcmp(args->operands[1], "-") == 0)
        return cli_usage(args, "standard input can only be one of the profiles");
    comparison c = {.args = args, .names = {args->operands[0], args->operands[1]}};
    int exit_code = CLI_OK;
    for (int i = 0; i < 2 && exit_code != CLI_FAILED; i++) {
        int of_profile = read_profile(&c, c.names[i], &c.profiles[i]);
        exit_code = of_profile == CLI_OK ? exit_code : of_profile;
    }
    if (exit_code != CLI_FAILED)
        exit_code = report(&c, hot_cutoff, exit_code);
    sampleprof_free(c.profiles[0]);
    sampleprof_free(c.profiles[1]);
    return exit_code;
}

int cmd_overlap(int argc, char **argv)
{
    return cli_run(&command, argc, argv, compare_files);
}
