/*
 * spdconvert: fills an SPD file with the counts of SPT files, joins SPD files, and takes one out of
 * a PDB or object file. The file is written beside its place and renamed: an interrupted run leaves
 * the old one.
 */
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/guid.h>
#include <base/json.h>
#include <base/text.h>
#include <profile/quality.h>
#include <profile/spd_counts.h>

#include "profile_inputs.h"
#include "spddump_print.h"

enum {
    OPT_MODE,
    OPT_RESET,
    OPT_SPTLIST,
    OPT_SUMMARY,
    OPT_RETIRE,
    OPT_MERGE,
    OPT_EXTRACT,
    OPT_HELP,
    OPT_BACKUP,
    OPT_FORCE,
    OPT_QUIET,
    OPT_JSON,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_MODE] = {.name = "mode",
                  .kind = CLI_TEXT,
                  .metavar = "IP|LBR",
                  .help = "what of the SPT files counts: instruction pointers (default, if there\n"
                          "are any) or branch records"},
    [OPT_RESET] = {.name = "reset", .help = "set all counts to zero and read no SPT file"},
    [OPT_SPTLIST] = {.name = "sptlist",
                     .kind = CLI_TEXT,
                     .metavar = "file",
                     .help = "a file with names of SPT files, one a line"},
    [OPT_SUMMARY] = {.name = "summary", .help = "what became of the samples"},
    [OPT_RETIRE] = {.name = "retire",
                    .kind = CLI_NUMBER,
                    .metavar = "n",
                    .help = "sixteenths of the old counts to drop before the new ones are added\n"
                            "(default: 8; 16: all)"},
    [OPT_MERGE] = {.name = "merge", .help = "join SPD files: output first, then from old to new"},
    [OPT_EXTRACT] = {.name = "extract", .help = "take the SPD out of a PDB or object file"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_BACKUP] = {.name = "backup", .ours = true, .help = "keep the old file as file.spd.old"},
    [OPT_FORCE] = {.name = "force",
                   .ours = true,
                   .help = "take samples of a program of another id; replace the output of\n"
                           "/extract and /merge"},
    [OPT_QUIET] = {.name = "quiet", .ours = true, .help = "no report, only warnings and errors"},
    [OPT_JSON] = {.name = "json", .ours = true, .help = "report and messages as JSON"},
};

static const cli_command command = {
    .tool = "spdconvert",
    .prefix = "/",
    .purpose = "fill an SPD file with the counts of SPT files",
    .synopsis = "[options] file.spd trace.spt...\n"
                "/reset file.spd\n"
                "/merge [/retire:n] out.spd old.spd... new.spd\n"
                "/extract program.pdb out.spd",
    .notes =
        "An SPT file that is named twice counts twice. /merge takes the program's structure from "
        "the\nlast file, and the counts of functions that have the same flow graph from all.\n"
        "Exit code: 0 ok, 1 failed (the SPD is as it was), 2 usage, 3 an input is damaged (what "
        "could\nbe read was used).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "an SPD file",
};

/* ------------------------------------------------------------------ files */

typedef struct opened {
    os_input *in;
    arena *memory;
    spd *doc;
} opened;

static void close_file(opened *f)
{
    spd_free(f->doc);
    arena_free(f->memory);
    os_input_close(f->in);
    *f = (opened){0};
}

/* embedded: an SPD inside a PDB or object file will do too. */
static int open_file(const cli_args *args, const char *file, bool embedded, opened *f,
                     spgo_span *spd_bytes)
{
    spgo_error err;
    uint64_t at = SPGO_NO_OFFSET;
    *f = (opened){.memory = arena_new(0)};
    spgo_code code =
        f->memory ? os_input_open(file, &f->in, &err) : spgo_fail_nomem(&err, "spdconvert", 0);
    if (code == SPGO_OK) {
        *spd_bytes = os_input_bytes(f->in);
        if (embedded)
            code = spddump_locate(os_input_bytes(f->in), f->memory, spd_bytes, &at, &err);
    }
    if (code == SPGO_OK)
        code = spd_open(*spd_bytes, at == SPGO_NO_OFFSET ? 0 : at, &f->doc, &err);
    if (code == SPGO_OK)
        return CLI_OK;
    const int exit_code = cli_fail(args, file, &err);
    close_file(f);
    return exit_code;
}

/* Counts can only be written where all is understood. */
static int check_whole(const cli_args *args, const char *file, const spd *doc)
{
    if (!doc->damage_total)
        return CLI_OK;
    cli_message(args, CLI_ERROR, file, doc->finding_count ? doc->findings[0].offset : 0,
                "the SPD is damaged in %" PRIu64
                " places and is left as it is; spddump /verify lists them",
                doc->damage_total);
    return CLI_FAILED;
}

/* An output that is written, and waits for its inputs to be closed: Windows replaces no file that
 * is mapped, and a document is a view into its file. */
static int commit(const cli_args *args, const char *path, os_output *file)
{
    spgo_error err;
    return os_output_commit(file, &err) == SPGO_OK ? CLI_OK : cli_fail(args, path, &err);
}

static int write_bytes(const cli_args *args, const char *path, spgo_span bytes, os_output **file)
{
    spgo_error err;
    if (os_output_open(path, file, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    const spgo_sink sink = os_output_sink(*file);
    (void)sink.write(sink.ctx, bytes.ptr, bytes.len); /* the commit tells */
    return CLI_OK;
}

static int write_document(const cli_args *args, const char *path, const spd *doc, os_output **file)
{
    spgo_error err;
    if (os_output_open(path, file, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    if (spd_write(doc, os_output_sink(*file), &err) == SPGO_OK)
        return CLI_OK;
    os_output_discard(*file);
    return cli_fail(args, path, &err);
}

static int keep_backup(const cli_args *args, const char *path, spgo_span bytes)
{
    const size_t size = strlen(path) + sizeof ".old";
    char *backup = arena_push(args->memory, size, 1);
    if (!args->values[OPT_BACKUP].given)
        return CLI_OK;
    if (!backup) {
        cli_message(args, CLI_ERROR, path, SPGO_NO_OFFSET, "out of memory");
        return CLI_FAILED;
    }
    snprintf(backup, size, "%s.old", path);
    os_output *file;
    const int exit_code = write_bytes(args, backup, bytes, &file);
    return exit_code == CLI_OK ? commit(args, backup, file) : exit_code;
}

static int check_new(const cli_args *args, const char *path)
{
    if (args->values[OPT_FORCE].given || !os_file_exists(path))
        return CLI_OK;
    cli_message(args, CLI_ERROR, path, SPGO_NO_OFFSET, "is there already; /force replaces it");
    return CLI_FAILED;
}

/* ------------------------------------------------------------------ reports */

static void put_coverage(out *o, const char *when, const spd_coverage *c)
{
    out_printf(o, "Block coverage (%s)%s : %5.2f%% (%6" PRIu64 "/%6" PRIu64 ")\n", when,
               strlen(when) < 6 ? " " : "", 100 * quality_share(c->live_blocks, c->blocks),
               c->live_blocks, c->blocks);
}

static void json_coverage(json *j, const char *key, const spd_coverage *c)
{
    json_key(j, key);
    json_open_object(j);
    json_key(j, "blocks");
    json_u64(j, c->blocks);
    json_key(j, "live_blocks");
    json_u64(j, c->live_blocks);
    json_key(j, "code_blocks");
    json_u64(j, c->code_blocks);
    json_key(j, "live_code_blocks");
    json_u64(j, c->live_code_blocks);
    json_close_object(j);
}

static void put_number(out *o, json *j, bool is_json, const char *key, const char *what,
                       uint64_t value)
{
    if (is_json) {
        json_key(j, key);
        json_u64(j, value);
    } else {
        out_printf(o, "%-24s: %" PRIu64 "\n", what, value);
    }
}

static void advise(const cli_args *args, const char *file, const spd_import_tally *t)
{
    if (t->found == 0) {
        cli_message(args, CLI_WARNING, file, SPGO_NO_OFFSET,
                    "no sample is in the code of a block: counts are the old ones, retired. Is the "
                    "trace of this build, and of the part of the program that matters?");
        return;
    }
    if (t->density > 0 && t->density < QUALITY_DENSITY_THRESHOLD)
        cli_message(
            args, CLI_WARNING, file, SPGO_NO_OFFSET,
            "samples are sparse: the compiler may be conservative with hot functions. It is "
            "estimated to do better with %.1fx as many; sample longer or more often",
            QUALITY_DENSITY_THRESHOLD / t->density);
}

static int report_import(const cli_args *args, const char *file, const spd_import_tally *t,
                         bool by_branches)
{
    out o;
    advise(args, file, t);
    if (args->values[OPT_QUIET].given)
        return CLI_OK;
    if (!cli_open_out(args, &o))
        return CLI_FAILED;
    json j = json_on(&o, false);
    const bool is_json = args->json;
    if (is_json) {
        json_open_object(&j);
        json_key(&j, "mode");
        json_text(&j, by_branches ? "LBR" : "IP");
        json_coverage(&j, "before", &t->before);
        json_coverage(&j, "after", &t->after);
        json_key(&j, "density");
        json_f64(&j, t->density, 3);
    } else {
        put_coverage(&o, "before", &t->before);
        put_coverage(&o, "after", &t->after);
    }
    if (is_json || args->values[OPT_SUMMARY].given) {
        put_number(&o, &j, is_json, "samples", by_branches ? "Branch targets" : "Samples", t->hits);
        put_number(&o, &j, is_json, "found", "in a block's code", t->found);
        put_number(&o, &j, is_json, "between", "in a function, no block", t->between);
        put_number(&o, &j, is_json, "outside", "in no function", t->outside);
        put_number(&o, &j, is_json, "functions", "Functions with samples", t->functions);
        put_number(&o, &j, is_json, "inexact", "Smoothing not exact", t->inexact);
    }
    if (is_json) {
        json_close_object(&j);
        json_end_line(&j);
    }
    return cli_close_out(args, &o, CLI_OK);
}

/* ------------------------------------------------------------------ import */

typedef struct spt_paths {
    const char **paths;
    size_t count;
} spt_paths;

/* The operands behind the SPD, and the lines of /sptlist. */
static int list_spts(const cli_args *args, spt_paths *list)
{
    const char *list_path = args->values[OPT_SPTLIST].text;
    os_input *in = NULL;
    spgo_error err;
    spgo_span text = {0};
    size_t lines = 0;
    if (list_path && os_input_open(list_path, &in, &err) != SPGO_OK)
        return cli_fail(args, list_path, &err);
    if (in)
        text = os_input_bytes(in);
    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    list->paths = arena_push(args->memory, args->operand_count + lines + 1, sizeof *list->paths);
    bool good = list->paths != NULL;
    for (size_t i = 1; good && i < args->operand_count; i++)
        list->paths[list->count++] = args->operands[i];
    for (size_t at = 0; good && at < text.len;) {
        const uint8_t *end = memchr(text.ptr + at, '\n', text.len - at);
        const size_t whole = end ? (size_t)(end - text.ptr) - at : text.len - at;
        size_t len = whole;
        while (len > 0 && strchr("\r\t ", text.ptr[at + len - 1]))
            len--;
        if (len > 0) {
            const char *path = arena_copy_text(args->memory, (const char *)text.ptr + at, len);
            good = path != NULL;
            list->paths[list->count++] = path;
        }
        at += whole + 1;
    }
    os_input_close(in);
    if (!good)
        cli_message(args, CLI_ERROR, list_path, SPGO_NO_OFFSET, "out of memory");
    return good ? CLI_OK : CLI_FAILED;
}

static void put_id(char text[64], const spgo_image_id *id)
{
    guid_text(text, &id->guid);
    const size_t len = strlen(text);
    snprintf(text + len, 64 - len, " age %u", id->age);
}

/* The program of the samples that the SPD is of; NULL after a message with both ids. */
static const samples_program *find_program(const cli_args *args, const char *file, const samples *s,
                                           const spgo_image_id *id)
{
    char wanted[64], found[64];
    for (size_t i = 0; i < s->program_count; i++) {
        if (image_id_equal(&s->programs[i].id, id))
            return &s->programs[i];
    }
    put_id(wanted, id);
    if (s->program_count == 0) {
        cli_message(args, CLI_ERROR, file, SPGO_NO_OFFSET, "the SPT files have no program");
        return NULL;
    }
    if (args->values[OPT_FORCE].given && s->program_count == 1)
        return &s->programs[0];
    put_id(found, &s->programs[0].id);
    cli_message(
        args, CLI_ERROR, file, SPGO_NO_OFFSET,
        "SPD version incompatible: it is of %s; the SPT files have %zu programs, %.*s %s%s. "
        "Record the program that this SPD was linked with, or take the SPD of its build",
        wanted, s->program_count,
        (int)(s->programs[0].name.len < 60 ? s->programs[0].name.len : 60), s->programs[0].name.ptr,
        found, s->program_count > 1 ? " and others" : "");
    return NULL;
}

static bool has_ips(const samples_program *p)
{
    for (unsigned i = 0; i < SAMPLES_IP_KINDS; i++) {
        if (p->ip_hits[i])
            return true;
    }
    return false;
}

/* Fills in by_branches; false after a message. */
static bool choose_mode(const cli_args *args, const char *file, const samples_program *p,
                        bool *by_branches)
{
    const char *mode = args->values[OPT_MODE].text;
    const bool ips = has_ips(p), branches = p->lbr_records > 0;
    *by_branches = mode ? text_equal_nocase(text_str(mode), text_str("lbr")) : !ips && branches;
    if (*by_branches ? branches : ips)
        return true;
    cli_message(args, CLI_ERROR, file, SPGO_NO_OFFSET,
                "the SPT files have no %s of this program%s: nothing was imported",
                *by_branches ? "branch records" : "instruction pointers",
                ips        ? ", but instruction pointers; take /mode:IP"
                : branches ? ", but branch records; take /mode:LBR"
                           : "");
    return false;
}

/* What an import has done so far. */
typedef struct imported {
    spd_import_tally tally;
    bool by_branches;
    os_output *output; /* written, not committed */
} imported;

static int convert(const cli_args *args, const char *file, spd *doc, const samples *s,
                   imported *done)
{
    const samples_program *program = find_program(args, file, s, &doc->id);
    spd_import_opts opts = {.retire = args->values[OPT_RETIRE].given
                                          ? (unsigned)args->values[OPT_RETIRE].number
                                          : SPD_RETIRE_DEFAULT};
    spgo_error err;
    if (!program || !choose_mode(args, file, program, &opts.by_branches))
        return CLI_FAILED;
    if (spd_import(doc, program, &opts, &done->tally, &err) != SPGO_OK)
        return cli_fail(args, file, &err);
    done->by_branches = opts.by_branches;
    return write_document(args, file, doc, &done->output);
}

static int import_samples(const cli_args *args, const char *file, spd *doc, imported *done)
{
    spt_paths list = {0};
    profile_inputs inputs;
    const int bad = list_spts(args, &list);
    if (bad != CLI_OK)
        return bad;
    if (list.count == 0)
        return cli_usage(args, "an SPT file is missing");
    uint64_t *weights = arena_push(args->memory, list.count, sizeof *weights);
    for (size_t i = 0; weights && i < list.count; i++)
        weights[i] = 1;
    if (!weights)
        return CLI_FAILED;
    int exit_code = CLI_FAILED;
    if (profile_inputs_read(args, list.paths, weights, list.count, NULL, 0, &inputs)) {
        exit_code = convert(args, file, doc, &inputs.samples, done);
        if (exit_code == CLI_OK && inputs.damaged)
            exit_code = CLI_PARTIAL;
    }
    profile_inputs_free(&inputs);
    return exit_code;
}

static int reset(const cli_args *args, const char *file, spd *doc, imported *done)
{
    spgo_error err;
    spd_reset_counts(doc);
    if (spd_recompute(doc, &err) != SPGO_OK)
        return cli_fail(args, file, &err);
    return write_document(args, file, doc, &done->output);
}

static int import(const cli_args *args)
{
    const char *file = args->operands[0];
    opened f;
    spgo_span bytes;
    imported done = {.output = NULL};
    int exit_code = open_file(args, file, false, &f, &bytes);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = check_whole(args, file, f.doc);
    if (exit_code == CLI_OK)
        exit_code = keep_backup(args, file, bytes);
    if (exit_code == CLI_OK)
        exit_code = args->values[OPT_RESET].given ? reset(args, file, f.doc, &done)
                                                  : import_samples(args, file, f.doc, &done);
    close_file(&f);
    if (!done.output)
        return exit_code;
    int result = commit(args, file, done.output);
    if (result == CLI_OK && !args->values[OPT_RESET].given)
        result = report_import(args, file, &done.tally, done.by_branches);
    return result == CLI_OK ? exit_code : result;
}

/* ------------------------------------------------------------------ merge and extract */

typedef struct merging {
    const cli_args *args;
    const char *file;
    size_t said;
} merging;

enum { MISSING_SAID_MAX = 10 };

static void say_missing(void *ctx, const spd_function *f, bool is_reshaped)
{
    merging *m = ctx;
    if (m->said++ < MISSING_SAID_MAX)
        cli_message(m->args, CLI_NOTE, m->file, SPGO_NO_OFFSET, "%.*s: %s; its counts are left out",
                    (int)f->name.len, f->name.ptr,
                    is_reshaped ? "has another flow graph in the newest build"
                                : "is not in the newest build");
}

static int merge_one(const cli_args *args, spd *doc, const char *path, unsigned retire,
                     spd_merge_tally *tally)
{
    merging m = {.args = args, .file = path};
    opened f;
    spgo_span bytes;
    spgo_error err;
    int exit_code = open_file(args, path, false, &f, &bytes);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = check_whole(args, path, f.doc);
    if (exit_code == CLI_OK &&
        spd_merge(doc, f.doc, retire, say_missing, &m, tally, &err) != SPGO_OK)
        exit_code = cli_fail(args, path, &err);
    if (m.said > MISSING_SAID_MAX)
        cli_message(args, CLI_NOTE, path, SPGO_NO_OFFSET, "and %zu more functions",
                    m.said - MISSING_SAID_MAX);
    close_file(&f);
    return exit_code;
}

static int merge(const cli_args *args)
{
    const unsigned retire = args->values[OPT_RETIRE].given
                                ? (unsigned)args->values[OPT_RETIRE].number
                                : SPD_RETIRE_DEFAULT;
    const char *newest = args->operands[args->operand_count - 1];
    opened f;
    spgo_span bytes;
    out o;
    spd_merge_tally tally = {0};
    int exit_code = check_new(args, args->operands[0]);
    if (exit_code == CLI_OK)
        exit_code = open_file(args, newest, false, &f, &bytes);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = check_whole(args, newest, f.doc);
    spd_reset_counts(f.doc);
    for (size_t i = 1; i < args->operand_count && exit_code == CLI_OK; i++)
        exit_code = merge_one(args, f.doc, args->operands[i], retire, &tally);
    os_output *output;
    if (exit_code == CLI_OK)
        exit_code = write_document(args, args->operands[0], f.doc, &output);
    close_file(&f);
    if (exit_code == CLI_OK)
        exit_code = commit(args, args->operands[0], output);
    if (exit_code == CLI_OK && !args->values[OPT_QUIET].given && !args->json &&
        cli_open_out(args, &o)) {
        put_coverage(&o, "after", &tally.after);
        exit_code = cli_close_out(args, &o, CLI_OK);
    }
    return exit_code;
}

static int extract(const cli_args *args)
{
    opened f;
    spgo_span bytes;
    int exit_code = check_new(args, args->operands[1]);
    if (exit_code == CLI_OK)
        exit_code = open_file(args, args->operands[0], true, &f, &bytes);
    if (exit_code != CLI_OK)
        return exit_code;
    os_output *output;
    exit_code = write_bytes(args, args->operands[1], bytes, &output);
    close_file(&f);
    return exit_code == CLI_OK ? commit(args, args->operands[1], output) : exit_code;
}

static int check_options(const cli_args *args)
{
    const cli_value *v = args->values;
    const char *mode = v[OPT_MODE].text;
    if (v[OPT_MERGE].given + v[OPT_EXTRACT].given + v[OPT_RESET].given > 1)
        return cli_usage(args, "/merge, /extract and /reset exclude each other");
    if (mode && !text_equal_nocase(text_str(mode), text_str("ip")) &&
        !text_equal_nocase(text_str(mode), text_str("lbr")))
        return cli_usage(args, "/mode is IP or LBR, not '%s'", mode);
    if (v[OPT_RETIRE].number > SPD_RETIRE_MAX)
        return cli_usage(args, "/retire is 0 to 16, not %" PRIu64, v[OPT_RETIRE].number);
    if (v[OPT_MERGE].given && args->operand_count < 2)
        return cli_usage(args, "/merge needs an output and the SPD files to join");
    if (v[OPT_EXTRACT].given && args->operand_count != 2)
        return cli_usage(args, "/extract needs a PDB or object file, and an output");
    if (v[OPT_RESET].given && args->operand_count != 1)
        return cli_usage(args, "/reset takes one SPD file and no SPT file");
    return CLI_OK;
}

static int run(const cli_args *args)
{
    const int usage = check_options(args);
    if (usage != CLI_OK)
        return usage;
    if (args->values[OPT_MERGE].given)
        return merge(args);
    return args->values[OPT_EXTRACT].given ? extract(args) : import(args);
}

int cmd_spdconvert(int argc, char **argv)
{
    return cli_run(&command, argc, argv, run);
}
