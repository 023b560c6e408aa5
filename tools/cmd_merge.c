/* spgo merge: one SPT file of several, with every record of theirs. */
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
    .tool = "spgo merge",
    .prefix = "--",
    .purpose = "make one SPT file of several",
    .synopsis = "[options] input... output",
    .notes = "Programs that agree in name, GUID and age become one. An input given twice counts "
             "twice.\n\"-\" is standard output or input.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 an input is damaged (what could be read was "
             "merged).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 2,
    .operands_max = SIZE_MAX,
    .operands = "an input or the output",
};

static spgo_code take(void *ctx, const spgo_spt *spt, spgo_spt_tally *tally, spgo_error *err)
{
    return spgo_spt_writer_add_file(ctx, spt, NULL, tally, err);
}

int cmd_merge(int argc, char **argv)
{
    cli_args args;
    spt_rewrite rw;
    int exit_code;
    if (!cli_parse(&command, argc, argv, &args, &exit_code))
        return exit_code;
    const char *output = args.operands[args.operand_count - 1];
    if (!args.values[OPT_FORCE].given && spt_rewrite_is_taken(&args, output)) {
        exit_code = CLI_USAGE;
    } else if (spt_rewrite_begin(&rw, &args, output, args.values[OPT_QUIET].given)) {
        bool ok = spt_rewrite_add(&rw, args.operands, args.operand_count - 1, take, rw.writer);
        exit_code = spt_rewrite_end(&rw, ok);
    } else {
        exit_code = CLI_FAILED;
    }
    cli_free(&args);
    return exit_code;
}
