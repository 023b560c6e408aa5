/*
 * spddump: shows what an SPD file holds. The documented views are the header, modules, symbols,
 * functions, calls, flow graphs, data, coverage and instructions run; ours are the verification,
 * the difference of two files, and graphs for Graphviz.
 *
 * A damaged file is shown as far as it can be read; the exit code says that not all is well.
 */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

#include <base/text.h>

#include "spddump_print.h"

enum { DYNINST_DEFAULT = 50, DAMAGE_MESSAGES_MAX = 8 };

enum {
    OPT_ALL,
    OPT_HEADER,
    OPT_MODULE,
    OPT_SYMBOL,
    OPT_FUNC,
    OPT_FUNCID,
    OPT_CG,
    OPT_FG,
    OPT_DATA,
    OPT_MINIDUMP,
    OPT_COVERAGE,
    OPT_DYNINST,
    OPT_HELP,
    OPT_VERIFY,
    OPT_DIFF,
    OPT_GRAPH,
    OPT_JSON,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_ALL] = {.name = "all", .help = "the whole file: header to data (default)"},
    [OPT_HEADER] = {.name = "header", .help = "the header's fields; GUID and age of the image"},
    [OPT_MODULE] = {.name = "module", .help = "the modules; implies /header"},
    [OPT_SYMBOL] = {.name = "symbol", .help = "the function table; implies /module"},
    [OPT_FUNC] = {.name = "func", .help = "the functions, one line each; implies /module"},
    [OPT_FUNCID] = {.name = "funcid",
                    .kind = CLI_NUMBER,
                    .metavar = "fid",
                    .help = "only the function of this id; alone, everything about it"},
    [OPT_CG] = {.name = "cg",
                .help = "with each function its calls: callees, counts, indirect targets;\n"
                        "implies /func"},
    [OPT_FG] = {.name = "fg",
                .help = "with each function its flow graph: blocks, edges, code ranges, what\n"
                        "was inlined; implies /func"},
    [OPT_DATA] = {.name = "data",
                  .help = "data of unknown meaning; no known file has a data profile"},
    [OPT_MINIDUMP] = {.name = "minidump",
                      .help =
                          "leave out RVAs and code ranges, so that dumps of two builds compare"},
    [OPT_COVERAGE] = {.name = "coverage", .help = "how many blocks have a count"},
    [OPT_DYNINST] = {.name = "dyninst",
                     .kind = CLI_NUMBER,
                     .value_optional = true,
                     .metavar = "n",
                     .help = "the n functions that run most instructions (50 without n, 0: all)"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_VERIFY] = {.name = "verify",
                    .ours = true,
                    .help = "check every rule of the format and list what breaks it"},
    [OPT_DIFF] = {.name = "diff",
                  .kind = CLI_TEXT,
                  .ours = true,
                  .metavar = "old.spd",
                  .help = "what changed since old.spd: functions, flow graphs, counts"},
    [OPT_GRAPH] = {.name = "graph",
                   .kind = CLI_TEXT,
                   .ours = true,
                   .metavar = "name",
                   .help = "the flow graphs of the functions of this name (with * and ?), for\n"
                           "Graphviz: spddump /graph:main a.spd | dot -Tsvg >main.svg"},
    [OPT_JSON] = {.name = "json", .ours = true, .help = "one JSON object a line, messages too"},
};

static const cli_command command = {
    .tool = "spddump",
    .prefix = "/",
    .purpose = "show what a sample profile database (SPD) file holds",
    .synopsis = "[options] spdfile|objfile|pdbfile",
    .notes =
        "The file may be \"-\" for standard input. In an object file or a PDB the SPD that is\n"
        "embedded in it is looked for. Offsets, RVAs, ranges, hashes and flags are hexadecimal;"
        "\nblocks count from 1.\n"
        "Exit code: 0 ok, 1 failed, 2 usage, 3 damaged (what could be read is shown).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = 1,
    .operands = "an SPD file",
};

/* ------------------------------------------------------------------ which views */

static bool given(const spddump *d, int option)
{
    return d->args->values[option].given;
}

/* A view of the document's structure, by name or by one that implies it. */
static bool names_structure(const spddump *d)
{
    return given(d, OPT_HEADER) || given(d, OPT_MODULE) || given(d, OPT_SYMBOL) ||
           given(d, OPT_FUNC) || given(d, OPT_CG) || given(d, OPT_FG) || given(d, OPT_DATA);
}

static bool names_report(const spddump *d)
{
    return given(d, OPT_COVERAGE) || given(d, OPT_DYNINST) || given(d, OPT_VERIFY) ||
           given(d, OPT_DIFF);
}

static bool wants_all(const spddump *d)
{
    return given(d, OPT_ALL) || (!names_structure(d) && !names_report(d) && !given(d, OPT_FUNCID));
}

/* /funcid alone asks for all about one function. */
static bool wants_function_alone(const spddump *d)
{
    return given(d, OPT_FUNCID) && !names_structure(d) && !names_report(d);
}

static void show_structure(spddump *d)
{
    bool all = wants_all(d), alone = wants_function_alone(d);
    bool functions = all || alone || given(d, OPT_FUNC) || given(d, OPT_CG) || given(d, OPT_FG);
    bool symbols = all || alone || given(d, OPT_SYMBOL);
    bool modules = functions || symbols || given(d, OPT_MODULE);
    d->with_calls = all || alone || given(d, OPT_CG);
    d->with_graph = all || alone || given(d, OPT_FG);
    if (modules || given(d, OPT_HEADER))
        spddump_header(d);
    if (modules)
        spddump_modules(d);
    if (symbols)
        spddump_symbols(d);
    if (functions)
        spddump_functions(d);
    if (all || given(d, OPT_DATA))
        spddump_data(d);
}

/* ------------------------------------------------------------------ reading */

/* One file and the document in it. */
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
}

static int open_file(const cli_args *args, const char *file, opened *f)
{
    spgo_error err;
    spgo_span spd_bytes;
    uint64_t at;
    *f = (opened){.memory = arena_new(0)};
    if (!f->memory)
        spgo_fail_nomem(&err, "spddump", 0);
    else if (os_input_open(file, &f->in, &err) == SPGO_OK &&
             spddump_locate(os_input_bytes(f->in), f->memory, &spd_bytes, &at, &err) == SPGO_OK &&
             spd_open(spd_bytes, at == SPGO_NO_OFFSET ? 0 : at, &f->doc, &err) == SPGO_OK)
        return CLI_OK;
    int exit_code = cli_fail(args, file, &err);
    close_file(f);
    return exit_code;
}

/* Damage that reading met; notes are for /verify. */
static int report_damage(const cli_args *args, const char *file, const spd *doc)
{
    uint64_t shown = 0;
    for (size_t i = 0; i < doc->finding_count && shown < DAMAGE_MESSAGES_MAX; i++) {
        const spd_finding *f = &doc->findings[i];
        if (f->severity != SPD_DAMAGE)
            continue;
        cli_message(args, CLI_WARNING, file, f->offset, "%s", f->sentence);
        shown++;
    }
    if (doc->damage_total > shown)
        cli_message(args, CLI_WARNING, file, SPGO_NO_OFFSET,
                    "%" PRIu64 " more damaged places; /verify lists them",
                    doc->damage_total - shown);
    return doc->damage_total ? CLI_PARTIAL : CLI_OK;
}

/* ------------------------------------------------------------------ reports */

static int worse(int a, int b)
{
    if (a == CLI_FAILED || b == CLI_FAILED)
        return CLI_FAILED;
    return a > b ? a : b;
}

static bool on_finding(void *ctx, const spd_finding *finding)
{
    spddump *d = ctx;
    spddump_finding(d, finding);
    return !d->w.o->failed;
}

static int show_verdict(spddump *d)
{
    spd_verdict verdict;
    spgo_error err;
    spddump_begin_view(d);
    spddump_finding(d, NULL);
    if (spd_verify(d->doc, on_finding, d, &verdict, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    spddump_verdict(d, &verdict);
    return verdict.damages ? CLI_PARTIAL : CLI_OK;
}

static int show_diff(spddump *d)
{
    const char *file = d->args->values[OPT_DIFF].text;
    opened old;
    int exit_code = open_file(d->args, file, &old);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = report_damage(d->args, file, old.doc);
    spddump_diff(d, old.doc);
    close_file(&old);
    return exit_code;
}

static int show_dyninst(spddump *d)
{
    const cli_value *v = &d->args->values[OPT_DYNINST];
    spgo_error err;
    if (spddump_dyninst(d, v->has_number ? v->number : DYNINST_DEFAULT, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    return CLI_OK;
}

static int show_graph(spddump *d)
{
    const char *name = d->args->values[OPT_GRAPH].text;
    if (spddump_graphviz(d, text_str(name)))
        return CLI_OK;
    cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET,
                "no function is called '%s'; spddump /symbol lists them", name);
    return CLI_FAILED;
}

/* ------------------------------------------------------------------ the command */

static int choose_function(spddump *d)
{
    uint64_t id = d->args->values[OPT_FUNCID].number;
    if (!given(d, OPT_FUNCID))
        return CLI_OK;
    d->one_function = true;
    d->function_id = (uint32_t)id;
    for (size_t i = 0; id <= UINT32_MAX && i < d->doc->module_count; i++) {
        if (spd_by_id(&d->doc->modules[i], d->function_id))
            return CLI_OK;
    }
    cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET,
                "no function has the id %" PRIu64 "; spddump /symbol lists them", id);
    return CLI_FAILED;
}

static int dump(spddump *d)
{
    int exit_code = choose_function(d);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = report_damage(d->args, d->file, d->doc);
    if (given(d, OPT_GRAPH))
        return worse(exit_code, show_graph(d));
    show_structure(d);
    if (given(d, OPT_COVERAGE))
        spddump_coverage(d);
    if (given(d, OPT_DYNINST))
        exit_code = worse(exit_code, show_dyninst(d));
    if (given(d, OPT_DIFF))
        exit_code = worse(exit_code, show_diff(d));
    if (given(d, OPT_VERIFY))
        exit_code = worse(exit_code, show_verdict(d));
    return exit_code;
}

static int dump_file(const cli_args *args)
{
    spddump d = {.args = args, .file = args->operands[0]};
    opened f;
    out o;
    if (given(&d, OPT_GRAPH) && args->json)
        return cli_usage(args, "/graph writes a graph for Graphviz; leave /json away, or use /fg");
    int exit_code = open_file(args, d.file, &f);
    if (exit_code != CLI_OK)
        return exit_code;
    exit_code = CLI_FAILED;
    if (cli_open_out(args, &o)) {
        d.doc = f.doc;
        d.with_ranges = !given(&d, OPT_MINIDUMP);
        d.w = (table_out){.o = &o, .j = json_on(&o, false), .is_json = args->json};
        exit_code = cli_close_out(args, &o, dump(&d));
    }
    close_file(&f);
    return exit_code;
}

int cmd_spddump(int argc, char **argv)
{
    return cli_run(&command, argc, argv, dump_file);
}
