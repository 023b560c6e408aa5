/* spgo profile: from samples and the program they are of to what compilers and other tools take. */
#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>
#include <profile/profile.h>
#include <profile/quality.h>

#include "profile_inputs.h"
#include "profile_output.h"
#include "profile_report.h"

enum {
    OPT_IMAGE,
    OPT_OUTPUT,
    OPT_FORMAT,
    OPT_MODE,
    OPT_INFERENCE,
    OPT_PROBES,
    OPT_RULES,
    OPT_PROGRAM,
    OPT_SYMBOLS,
    OPT_DEBUG_FILE,
    OPT_SOURCE_ROOT,
    OPT_WEIGHT,
    OPT_QUALITY,
    OPT_FORCE,
    OPT_HELP,
    OPT_JSON,
    OPT_QUIET,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_IMAGE] = {.name = "image|binary",
                   .kind = CLI_TEXT,
                   .metavar = "file",
                   .help = "the program or library that the profile is of (default: looked for\n"
                           "by the name in the inputs, in the --symbols folders and beside the\n"
                           "first input)"},
    [OPT_OUTPUT] = {.name = "output|o",
                    .kind = CLI_TEXT,
                    .metavar = "file",
                    .help = "where the result goes (default: -, standard output)"},
    [OPT_FORMAT] = {.name = "format",
                    .kind = CLI_TEXT,
                    .metavar = "name",
                    .help = "text (default) or extbinary for clang and rustc; unsymbolized or\n"
                            "perf-script for llvm-profgen; autofdo for create_llvm_prof; bolt for\n"
                            "perf2bolt -pa; pprof, folded or speedscope for viewers"},
    [OPT_MODE] = {.name = "mode",
                  .kind = CLI_TEXT,
                  .metavar = "lbr|ip",
                  .help = "what to count: branch records or instruction pointers (default:\n"
                          "branch records if there are any)"},
    [OPT_INFERENCE] = {.name = "inference",
                       .kind = CLI_TEXT,
                       .metavar = "on|off",
                       .help = "make the counts consistent by flow inference (default: on for\n"
                               "instruction pointers and folded files, off for branch records and\n"
                               "for viewers)"},
    [OPT_PROBES] = {.name = "probes",
                    .kind = CLI_TEXT,
                    .metavar = "on|off",
                    .help = "count by pseudo probes or by lines (default: by probes if the image\n"
                            "has them)"},
    [OPT_RULES] = {.name = "rules",
                   .kind = CLI_TEXT,
                   .metavar = "name",
                   .help = "how counts become those of lines or probes: best (default), or\n"
                           "llvm-profgen, which gives the very profile that it would"},
    [OPT_PROGRAM] = {.name = "program",
                     .kind = CLI_TEXT,
                     .metavar = "name",
                     .help = "which program of the inputs; * and ? match any text, any character\n"
                             "(default: the one that --image is, or the only one)"},
    [OPT_SYMBOLS] = {.name = "symbols|images",
                     .kind = CLI_FILES,
                     .metavar = "dir,...",
                     .help = "where images, PDBs and debug files are: folders, symbol stores,\n"
                             ".build-id trees"},
    [OPT_DEBUG_FILE] = {.name = "debug-file",
                        .kind = CLI_TEXT,
                        .metavar = "file",
                        .help = "the PDB or separate debug file (default: looked for)"},
    [OPT_SOURCE_ROOT] = {.name = "source-root",
                         .kind = CLI_FILES,
                         .metavar = "dir,...",
                         .help = "where the sources are, for first lines that a PDB does not tell"},
    [OPT_WEIGHT] = {.name = "weight",
                    .kind = CLI_LIST,
                    .metavar = "n,...",
                    .help = "count each input so many times; one number each, in order (a file\n"
                            "that is named twice counts twice as well)"},
    [OPT_QUALITY] = {.name = "quality", .help = "report how good the profile is"},
    [OPT_FORCE] = {.name = "force|f",
                   .help = "go on although image, debug file and samples are of different builds"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "report and messages as JSON objects, one a line"},
    [OPT_QUIET] = {.name = "quiet|q", .help = "no notes, only warnings and errors"},
};

static const cli_command command = {
    .tool = "spgo profile",
    .prefix = "--",
    .purpose = "make the profile that a compiler takes of SPT files or traces",
    .synopsis = "[options] input...",
    .notes = "Inputs are SPT files, or ETL or perf.data traces. With --quality alone, the report "
             "is the\nresult and no profile is written.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 an input is damaged (what could be read was "
             "used).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "an SPT file or a trace",
};

/* ------------------------------------------------------------------ options */

/* What the words of the command line mean. */
typedef struct plan {
    const cli_args *args;
    profile_output_format format;
    profile_opts opts;
    uint64_t *weights; /* by input */
    const char **dirs; /* --symbols, the folder of the first input, then that of the image, which
                          symbols are looked for in anyway */
    size_t dir_count, symbols_dir_count;
    bool force;
} plan;

/* The index of the word of an option among `count` words; false after saying that it is none. */
static bool word_of(const cli_args *args, int option, const char *const *words, size_t count,
                    size_t *index)
{
    const char *text = args->values[option].text;
    for (*index = 0; *index < count; ++*index) {
        if (text_equal_nocase(text_str(text), text_str(words[*index])))
            return true;
    }
    char list[256] = "";
    for (size_t i = 0; i < count; i++) {
        strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, words[i], sizeof list - strlen(list) - 1);
    }
    (void)cli_usage(args, "--%.*s takes one of %s, not '%s'",
                    (int)strcspn(options[option].name, "|"), options[option].name, list, text);
    return false;
}

static bool choice_of(const cli_args *args, int option, profile_choice *choice)
{
    static const char *const words[] = {"auto", "on", "off"};
    static const profile_choice choices[] = {PROFILE_DEFAULT, PROFILE_ON, PROFILE_OFF};
    size_t i;
    if (!args->values[option].given)
        return true;
    if (!word_of(args, option, words, 3, &i))
        return false;
    *choice = choices[i];
    return true;
}

static bool mode_of(const cli_args *args, profile_mode *mode)
{
    static const char *const words[] = {"auto", "lbr", "ip"};
    static const profile_mode modes[] = {PROFILE_AUTO, PROFILE_BRANCHES, PROFILE_IPS};
    size_t i;
    if (!args->values[OPT_MODE].given)
        return true;
    if (!word_of(args, OPT_MODE, words, 3, &i))
        return false;
    *mode = modes[i];
    return true;
}

static bool rules_of(const cli_args *args, correlate_rules *rules)
{
    static const char *const words[] = {"best", "llvm-profgen"};
    static const correlate_rules all[] = {CORRELATE_BEST, CORRELATE_PROFGEN};
    size_t i;
    if (!args->values[OPT_RULES].given)
        return true;
    if (!word_of(args, OPT_RULES, words, 2, &i))
        return false;
    *rules = all[i];
    return true;
}

static bool format_of(const cli_args *args, profile_output_format *format)
{
    size_t i, count;
    const char *const *words = profile_output_names(&count);
    if (!args->values[OPT_FORMAT].given)
        return true;
    if (!word_of(args, OPT_FORMAT, words, count, &i))
        return false;
    *format = (profile_output_format)i;
    return true;
}

static bool weights_of(const cli_args *args, uint64_t *weights)
{
    const cli_value *v = &args->values[OPT_WEIGHT];
    for (size_t i = 0; i < args->operand_count; i++)
        weights[i] = 1;
    if (!v->given)
        return true;
    if (v->item_count != args->operand_count) {
        (void)cli_usage(args, "--weight has %zu numbers for %zu inputs; give one each",
                        v->item_count, args->operand_count);
        return false;
    }
    for (size_t i = 0; i < v->item_count; i++) {
        const char *text = v->items[i];
        if (!cli_number(text, strlen(text), 10, &weights[i]) || weights[i] == 0) {
            (void)cli_usage(args, "--weight: '%s' is no number from 1 on", text);
            return false;
        }
    }
    return true;
}

/* Where images may be: in the folder of a file, "." without one. */
static void add_folder(plan *p, const char *path)
{
    size_t len = text_str(path).len - text_base_name(text_str(path)).len;
    const char *folder = len ? arena_copy_text(p->args->memory, path, len) : ".";
    for (size_t i = 0; folder && i < p->dir_count; i++)
        folder = strcmp(p->dirs[i], folder) == 0 ? NULL : folder;
    if (folder)
        p->dirs[p->dir_count++] = folder;
}

/* Is the result to replace what it is made of? */
static bool overwrites_input(const cli_args *args)
{
    const cli_value *v = args->values;
    const char *output = v[OPT_OUTPUT].text;
    const char *const read[] = {v[OPT_IMAGE].text, v[OPT_DEBUG_FILE].text};
    bool found = false;
    for (size_t i = 0; output && i < args->operand_count; i++)
        found = found || os_same_file(args->operands[i], output);
    for (size_t i = 0; output && i < sizeof read / sizeof read[0]; i++)
        found = found || (read[i] && os_same_file(read[i], output));
    if (found)
        (void)cli_usage(args, "%s is an input; give the result another name", output);
    return found;
}

static bool is_for_viewers(profile_output_format format)
{
    return format == PROFILE_PPROF || format == PROFILE_FOLDED || format == PROFILE_SPEEDSCOPE;
}

static bool is_for_compilers(profile_output_format format)
{
    return format == PROFILE_TEXT || format == PROFILE_EXTBINARY;
}

/* Records are there or not: nothing is counted or inferred for their format. */
static bool settle_format(plan *p)
{
    if (p->format != PROFILE_PERF_SCRIPT)
        return true;
    if (p->opts.mode == PROFILE_IPS || p->opts.inference == PROFILE_ON) {
        (void)cli_usage(p->args, "perf-script has the branch records themselves; leave out %s",
                        p->opts.mode == PROFILE_IPS ? "--mode=ip" : "--inference=on");
        return false;
    }
    p->opts.mode = PROFILE_BRANCHES;
    p->opts.inference = PROFILE_OFF;
    return true;
}

static bool make_plan(const cli_args *args, plan *p)
{
    const cli_value *symbols_dirs = &args->values[OPT_SYMBOLS];
    *p = (plan){.args = args, .force = args->values[OPT_FORCE].given};
    if (!mode_of(args, &p->opts.mode) || !format_of(args, &p->format) ||
        !choice_of(args, OPT_INFERENCE, &p->opts.inference) ||
        !choice_of(args, OPT_PROBES, &p->opts.probes) || !rules_of(args, &p->opts.rules) ||
        !settle_format(p))
        return false;
    p->opts.keep_measured = args->values[OPT_QUALITY].given;
    p->weights = arena_push(args->memory, args->operand_count, sizeof *p->weights);
    p->dirs = arena_push(args->memory, symbols_dirs->item_count + 2, sizeof *p->dirs);
    if (!p->weights || !p->dirs) {
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET, "no memory for the options");
        return false;
    }
    for (size_t i = 0; i < symbols_dirs->item_count; i++)
        p->dirs[p->dir_count++] = symbols_dirs->items[i];
    add_folder(p, args->operands[0]);
    p->symbols_dir_count = p->dir_count;
    if (args->values[OPT_IMAGE].given)
        add_folder(p, args->values[OPT_IMAGE].text);
    return weights_of(args, p->weights) && !overwrites_input(args);
}

/* ------------------------------------------------------------------ image and program */

static symbols_opts symbols_wanted(const plan *p)
{
    const cli_value *v = p->args->values;
    return (symbols_opts){.image_path = v[OPT_IMAGE].text,
                          .debug_path = v[OPT_DEBUG_FILE].text,
                          .dirs = p->dirs,
                          .dir_count = p->symbols_dir_count,
                          .source_roots = (const char *const *)v[OPT_SOURCE_ROOT].items,
                          .source_root_count = v[OPT_SOURCE_ROOT].item_count,
                          .any_id = p->force};
}

/* Other tools read the debug information themselves. */
static bool needs_lines(const plan *p)
{
    return is_for_compilers(p->format) || is_for_viewers(p->format) ||
           p->args->values[OPT_QUALITY].given;
}

static symbols *open_symbols(const plan *p, const symbols_opts *opts)
{
    diag findings = {0};
    spgo_error err;
    symbols *s = NULL;
    spgo_code code = symbols_open(opts, &s, &findings, &err);
    const char *name = opts->image_path ? opts->image_path : opts->name;
    for (size_t i = 0; i < findings.kept_count; i++) {
        if (findings.kept[i].code != SPGO_NOT_FOUND || needs_lines(p))
            cli_message(p->args, CLI_WARNING, name, findings.kept[i].offset, "%s",
                        findings.kept[i].sentence);
    }
    if (code != SPGO_OK)
        (void)cli_fail(p->args, name, &err);
    return code == SPGO_OK ? s : NULL;
}

/* The image was named: its id tells the program, or else its name. */
static const samples_program *program_of_image(const plan *p, const samples *all, const symbols *s)
{
    const symbols_info *info = symbols_get_info(s);
    const char *name = p->args->values[OPT_PROGRAM].text;
    return profile_inputs_program(p->args, all, true, info->has_id ? &info->id : NULL,
                                  name ? name : info->image_path, p->force);
}

/* The program tells the name and id of the image. */
static symbols *image_of_program(const plan *p, const samples_program *program)
{
    char *name = arena_copy_text(p->args->memory, program->name.ptr, program->name.len);
    symbols_opts opts = symbols_wanted(p);
    opts.name = name ? name : "";
    opts.wanted = guid_is_null(&program->id.guid) ? NULL : &program->id;
    return open_symbols(p, &opts);
}

/* ------------------------------------------------------------------ the profile */

/* --quality without --output: the report is the result. */
static bool is_report_only(const plan *p)
{
    return p->args->values[OPT_QUALITY].given && !p->args->values[OPT_OUTPUT].given;
}

/* Correlation is for compilers and for the report; viewers and other tools do their own. */
static spgo_code correlate(const plan *p, symbols *s, code_decoder *d, profile_result *r,
                           spgo_error *err)
{
    bool wanted = is_for_compilers(p->format) || p->args->values[OPT_QUALITY].given;
    return wanted ? profile_correlate(s, d, &p->opts, r, err) : SPGO_OK;
}

/* A profile without functions helps no compiler, and most do not even read it. */
static bool is_useless(const plan *p, const profile_result *r)
{
    if (!is_for_compilers(p->format) || r->correlated.functions > 0)
        return false;
    cli_message(p->args, CLI_ERROR, NULL, SPGO_NO_OFFSET,
                r->correlated.functions_left_out > 0
                    ? "no function with samples has lines, so there is no profile to write; build "
                      "the program with -gline-tables-only -fdebug-info-for-profiling, or name its "
                      "PDB, its debug file or, of a stripped one, the program before that with "
                      "--debug-file"
                    : "no function got any samples, so there is no profile to write; --quality and "
                      "spgo symbolize tell more");
    return true;
}

static int write_result(const plan *p, const profile_inputs *inputs, const profile_report *report)
{
    const cli_value *v = p->args->values;
    const char *path = v[OPT_OUTPUT].text ? v[OPT_OUTPUT].text : "-";
    int exit_code = profile_report_findings(report);
    if (!is_report_only(p)) {
        if (is_useless(p, report->result))
            return CLI_FAILED;
        profile_output to = {.args = p->args,
                             .format = p->format,
                             .path = path,
                             .inputs = inputs,
                             .program = report->program,
                             .s = report->s,
                             .d = report->d,
                             .result = report->result};
        if (profile_output_write(&to) != CLI_OK)
            return CLI_FAILED;
    }
    /* Standard output may be the profile's. */
    if (v[OPT_QUALITY].given &&
        profile_report_quality(report, !is_report_only(p) && strcmp(path, "-") == 0 ? 2 : 1) !=
            CLI_OK)
        return CLI_FAILED;
    return exit_code;
}

/* Viewers show what was sampled, as long as it tells what code ran; folded files do not. */
static profile_opts opts_for(const plan *p, const samples_program *program)
{
    profile_opts opts = p->opts;
    bool is_lbr = opts.mode != PROFILE_IPS && program->lbr_entries > 0;
    if (is_for_viewers(p->format) && opts.inference == PROFILE_DEFAULT &&
        (!is_lbr || program->ranges.used > 0))
        opts.inference = PROFILE_OFF;
    return opts;
}

/* The records are written as they are, so that no code has to be decoded. */
static int write_records(const plan *p, const profile_inputs *inputs,
                         const samples_program *program, symbols *s)
{
    const profile_result none = {.mode = PROFILE_BRANCHES};
    const char *path = p->args->values[OPT_OUTPUT].text;
    if (program->lbr_entries == 0) {
        cli_message(p->args, CLI_ERROR, NULL, SPGO_NO_OFFSET,
                    "there are no branch records to write for %.*s", (int)program->name.len,
                    program->name.ptr);
        return CLI_FAILED;
    }
    const profile_output to = {.args = p->args,
                               .format = p->format,
                               .path = path ? path : "-",
                               .inputs = inputs,
                               .program = program,
                               .s = s,
                               .result = &none};
    return profile_output_write(&to);
}

static int make_profile(const plan *p, const profile_inputs *inputs, const samples_program *program,
                        symbols *s, code_decoder *d)
{
    const profile_opts opts = opts_for(p, program);
    profile_result r;
    spgo_error err;
    if (profile_count(program, s, d, &opts, &r, &err) != SPGO_OK)
        return cli_fail(p->args, NULL, &err);
    int exit_code;
    if (correlate(p, s, d, &r, &err) != SPGO_OK) {
        exit_code = cli_fail(p->args, NULL, &err);
    } else {
        const profile_report report = {.args = p->args,
                                       .program = program,
                                       .s = s,
                                       .d = d,
                                       .result = &r,
                                       .has_source_roots = p->args->values[OPT_SOURCE_ROOT].given,
                                       .quiet = p->args->values[OPT_QUIET].given};
        exit_code = write_result(p, inputs, &report);
    }
    profile_result_free(&r);
    return exit_code;
}

static int with_program(const plan *p, const profile_inputs *inputs)
{
    symbols *s = NULL;
    const samples_program *program = NULL;
    if (p->args->values[OPT_IMAGE].given) {
        symbols_opts opts = symbols_wanted(p);
        s = open_symbols(p, &opts);
        program = s ? program_of_image(p, &inputs->samples, s) : NULL;
    } else {
        program = profile_inputs_program(p->args, &inputs->samples, false, NULL,
                                         p->args->values[OPT_PROGRAM].text, p->force);
        s = program ? image_of_program(p, program) : NULL;
    }
    int exit_code = CLI_FAILED;
    spgo_error err;
    code_decoder *d = NULL;
    if (s && program && p->format == PROFILE_PERF_SCRIPT && !p->args->values[OPT_QUALITY].given) {
        exit_code = write_records(p, inputs, program, s);
    } else if (s && program) {
        if (code_decoder_new(symbols_code(s), &d, &err) == SPGO_OK)
            exit_code = make_profile(p, inputs, program, s, d);
        else
            exit_code = cli_fail(p->args, symbols_get_info(s)->image_path, &err);
    }
    code_decoder_free(d);
    symbols_close(s);
    return exit_code;
}

static int run(const cli_args *args)
{
    plan p;
    if (!make_plan(args, &p))
        return CLI_USAGE;
    profile_inputs inputs;
    int exit_code = CLI_FAILED;
    if (profile_inputs_read(args, args->operands, p.weights, args->operand_count, p.dirs,
                            p.dir_count, &inputs)) {
        exit_code = with_program(&p, &inputs);
        if (exit_code == CLI_OK && inputs.damaged)
            exit_code = CLI_PARTIAL;
    }
    profile_inputs_free(&inputs);
    return exit_code;
}

int cmd_profile(int argc, char **argv)
{
    return cli_run(&command, argc, argv, run);
}
