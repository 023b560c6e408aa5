/* spgo fold: distinct entries with their hits instead of records, for a file that is small and
 * counts the same. */
#include "commands.h"

#include <stdint.h>

#include "spt_rewrite_files.h"

enum { OPT_FORCE, OPT_HELP, OPT_JSON, OPT_QUIET, OPT_COUNT };

static const cli_option options[OPT_COUNT] = {
    [OPT_FORCE] = {.name = "force|f", .help = "replace an output that exists"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "report and messages as JSON objects, one a line"},
    [OPT_QUIET] = {.name = "quiet|q", .help = "no report on standard output"},
};

static const cli_command command = {
    .tool = "spgo fold",
    .prefix = "--",
    .purpose = "make an SPT file small: each distinct RVA or arc once, with its hits",
    .synopsis = "[options] input... output",
    .notes = "Every hit count is kept; which branches followed each other is not, so fold last, "
             "and\nonly what needs no fall-through ranges any more. \"-\" is standard output or "
             "input.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 an input is damaged (what could be read was "
             "folded).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 2,
    .operands_max = SIZE_MAX,
    .operands = "an input or the output",
};

static spgo_code take(void *ctx, const spgo_spt *spt, spgo_spt_tally *tally, spgo_error *err)
{
    return spgo_spt_fold_add_file(ctx, spt, NULL, tally, err);
}

static bool fold_files(spt_rewrite *rw, const cli_args *args)
{
    spgo_spt_fold *fold;
    spgo_error err;
    if (spgo_spt_fold_new(&fold, &err) != SPGO_OK) {
        spt_rewrite_fail(rw, NULL, &err);
        return false;
    }
    bool ok = spt_rewrite_add(rw, args->operands, args->operand_count - 1, take, fold);
    if (ok && spgo_spt_fold_write(fold, rw->writer, &rw->tally, &err) != SPGO_OK) {
        spt_rewrite_fail(rw, NULL, &err);
        ok = false;
    }
    spgo_spt_fold_free(fold);
    return ok;
}

int cmd_fold(int argc, char **argv)
{
    cli_args args;
    spt_rewrite rw;
    int exit_code;
    if (!cli_parse(&command, argc, argv, &args, &exit_code))
        return exit_code;
    const char *output = args.operands[args.operand_count - 1];
    if (!args.values[OPT_FORCE].given && spt_rewrite_is_taken(&args, output))
        exit_code = CLI_USAGE;
    else if (spt_rewrite_begin(&rw, &args, output, args.values[OPT_QUIET].given))
        exit_code = spt_rewrite_end(&rw, fold_files(&rw, &args));
    else
        exit_code = CLI_FAILED;
    cli_free(&args);
    return exit_code;
}
