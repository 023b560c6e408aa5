/* spgo probe diff: what became slower or faster from one recording to another. */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <report/diff.h>

#include "cli.h"
#include "probe_files.h"

enum {
    OPT_TABLE,
    OPT_COLUMN,
    OPT_THRESHOLD,
    OPT_TOP,
    OPT_FORMAT,
    OPT_SYMBOLS,
    OPT_FORCE,
    OPT_HELP,
    OPT_JSON,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_TABLE] = {.name = "table",
                   .kind = CLI_TEXT,
                   .metavar = "name",
                   .help = "functions (default) or modules"},
    [OPT_COLUMN] = {.name = "column|c",
                    .kind = CLI_TEXT,
                    .metavar = "name",
                    .help = "elapsed-inclusive, elapsed-exclusive (default),\n"
                            "application-inclusive, application-exclusive or calls"},
    [OPT_THRESHOLD] = {.name = "threshold",
                       .kind = CLI_TEXT,
                       .metavar = "percent",
                       .help = "leave out differences below this share of the session\n"
                               "(default: 0.1)"},
    [OPT_TOP] = {.name = "top|n",
                 .kind = CLI_NUMBER,
                 .metavar = "n",
                 .help = "only the first n rows"},
    [OPT_FORMAT] = {.name = "format",
                    .kind = CLI_TEXT,
                    .metavar = "name",
                    .help = "text (default), csv, xml or json"},
    [OPT_SYMBOLS] = {.name = "symbols|s",
                     .kind = CLI_FILES,
                     .metavar = "folder,...",
                     .help = "where images and debug files may be"},
    [OPT_FORCE] = {.name = "force", .help = "take names from images of another build too"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "as --format=json; messages too"},
};

static const cli_command command = {
    .tool = "spgo probe diff",
    .prefix = "--",
    .purpose = "compare two recordings",
    .synopsis = "[options] before after",
    .notes =
        "Each is an SPP file or a folder of them. Rows are ordered by the size of their "
        "difference.\nExit code: 0 ok, 1 failed, 2 usage, 3 an input is damaged (what could be "
        "read was used).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 2,
    .operands_max = 2,
    .operands = "two recordings",
};

static int choose(const cli_args *args, int option, const char *const *words, size_t count,
                  int otherwise, int *chosen)
{
    const char *word = args->values[option].text;
    *chosen = otherwise;
    for (size_t i = 0; word && i < count; i++) {
        if (text_equal_nocase(text_str(word), text_str(words[i]))) {
            *chosen = (int)i;
            return CLI_OK;
        }
    }
    return word ? cli_usage(args, "--%s cannot be '%s'",
                            option == OPT_TABLE    ? "table"
                            : option == OPT_COLUMN ? "column"
                                                   : "format",
                            word)
                : CLI_OK;
}

static int parse(const cli_args *args, report_diff_opts *o, int *format)
{
    static const char *const tables[] = {"functions", "modules"};
    static const char *const columns[] = {"elapsed-inclusive", "elapsed-exclusive",
                                          "application-inclusive", "application-exclusive",
                                          "calls"};
    static const char *const formats[] = {"text", "csv", "xml", "json"};
    int table;
    const int bad =
        choose(args, OPT_TABLE, tables, 2, 0, &table) |
        choose(args, OPT_COLUMN, columns, 5, PROBE_ELAPSED_EXCLUSIVE, &o->column) |
        choose(args, OPT_FORMAT, formats, 4, args->json ? REPORT_AS_JSON : REPORT_AS_TEXT, format);
    const char *threshold = args->values[OPT_THRESHOLD].text;
    char *end = NULL;
    o->threshold = threshold ? strtod(threshold, &end) : 0.1;
    if (bad == CLI_OK && end && (*end || end == threshold || !(o->threshold >= 0)))
        return cli_usage(args, "--threshold is a percentage, not '%s'", threshold);
    o->modules = table == 1;
    o->top = (size_t)args->values[OPT_TOP].number;
    return bad;
}

static int print(const cli_args *args, const probe_files files[2], const report_diff_opts *opts,
                 int format)
{
    report_diff *d;
    spgo_error err;
    out o;
    if (report_diff_make(probe_session_view(files[0].session), probe_session_view(files[1].session),
                         opts, &d, &err) != SPGO_OK)
        return cli_fail(args, NULL, &err);
    int exit_code = CLI_FAILED;
    if (cli_open_out(args, &o)) {
        report_print(&o, report_diff_table(d), (report_format)format, false);
        exit_code = cli_close_out(args, &o, CLI_OK);
    }
    report_diff_free(d);
    return exit_code;
}

static int diff(const cli_args *args)
{
    const cli_value *v = args->values;
    report_diff_opts opts;
    int format;
    const int usage = parse(args, &opts, &format);
    if (usage != CLI_OK)
        return CLI_USAGE;
    const probe_names_opts names = {.dirs = v[OPT_SYMBOLS].items,
                                    .dir_count = v[OPT_SYMBOLS].item_count,
                                    .any_id = v[OPT_FORCE].given};
    probe_files files[2] = {{0}, {0}};
    int exit_code = CLI_OK;
    for (size_t i = 0; i < 2 && exit_code != CLI_FAILED; i++) {
        const int result = probe_files_open(args, &args->operands[i], 1, NULL, &names, &files[i]);
        exit_code = result != CLI_OK ? result : exit_code;
    }
    if (exit_code != CLI_FAILED && print(args, files, &opts, format) != CLI_OK)
        exit_code = CLI_FAILED;
    probe_files_close(&files[0]);
    probe_files_close(&files[1]);
    return exit_code;
}

int cmd_probe_diff(int argc, char **argv)
{
    return cli_run(&command, argc, argv, diff);
}
