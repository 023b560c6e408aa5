/* spgo probe export: sessions for other tools. */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

#include <base/text.h>
#include <report/export.h>

#include "cli.h"
#include "probe_files.h"

enum {
    OPT_FORMAT,
    OPT_OUTPUT,
    OPT_VALUE,
    OPT_LIMIT,
    OPT_PID,
    OPT_TID,
    OPT_SYMBOLS,
    OPT_NO_NAMES,
    OPT_FORCE,
    OPT_HELP,
    OPT_JSON,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_FORMAT] = {.name = "format|f",
                    .kind = CLI_TEXT,
                    .metavar = "name",
                    .help = "folded (default), for flame graphs, in nanoseconds; speedscope;\n"
                            "callgrind, for kcachegrind; chrome, for Perfetto and\n"
                            "chrome://tracing, of recordings with events (--mode=ring or\n"
                            "stream)"},
    [OPT_OUTPUT] = {.name = "output|o",
                    .kind = CLI_TEXT,
                    .metavar = "file",
                    .help = "where it goes (default: -, standard output)"},
    [OPT_VALUE] = {.name = "value",
                   .kind = CLI_TEXT,
                   .metavar = "family",
                   .help = "folded, speedscope: elapsed (default) or application time"},
    [OPT_LIMIT] = {.name = "limit",
                   .kind = CLI_NUMBER,
                   .metavar = "MB",
                   .help = "chrome: write no more events than that (default: 100; 0: all)"},
    [OPT_PID] = {.name = "pid", .kind = CLI_NUMBER, .metavar = "id", .help = "only this process"},
    [OPT_TID] = {.name = "tid", .kind = CLI_NUMBER, .metavar = "id", .help = "only this thread"},
    [OPT_SYMBOLS] = {.name = "symbols|s",
                     .kind = CLI_FILES,
                     .metavar = "folder,...",
                     .help = "where images and debug files may be"},
    [OPT_NO_NAMES] = {.name = "no-names", .help = "addresses instead of names: reads no image"},
    [OPT_FORCE] = {.name = "force", .help = "take names from images of another build too"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "messages as JSON"},
};

static const cli_command command = {
    .tool = "spgo probe export",
    .prefix = "--",
    .purpose = "give the calls of instrumented programs to other tools",
    .synopsis = "[options] file.spp|folder...",
    .notes = "Exit code: 0 ok, 1 failed, 2 usage, 3 an input is damaged (what could be read was "
             "used).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "an SPP file, or a folder of them,",
};

enum { LIMIT_MB_DEFAULT = 100 };

static int parse(const cli_args *args, report_export *format, report_export_opts *opts)
{
    const cli_value *v = args->values;
    const char *word = v[OPT_FORMAT].given ? v[OPT_FORMAT].text : "folded";
    for (*format = 0; *format < REPORT_EXPORT_COUNT; ++*format) {
        if (text_equal_nocase(text_str(word), text_str(report_export_name(*format))))
            break;
    }
    if (*format == REPORT_EXPORT_COUNT)
        return cli_usage(args, "no format '%s': folded, speedscope, callgrind or chrome", word);
    const char *value = v[OPT_VALUE].given ? v[OPT_VALUE].text : "elapsed";
    const bool is_application = strcmp(value, "application") == 0;
    if (!is_application && strcmp(value, "elapsed") != 0)
        return cli_usage(args, "--value is elapsed or application, not '%s'", value);
    opts->family = is_application ? PROBE_APPLICATION_EXCLUSIVE : PROBE_ELAPSED_EXCLUSIVE;
    const uint64_t limit_mb = v[OPT_LIMIT].given ? v[OPT_LIMIT].number : LIMIT_MB_DEFAULT;
    opts->limit_bytes = limit_mb < UINT64_MAX >> 20 ? limit_mb << 20 : 0;
    return CLI_OK;
}

static bool has_events(const probe_session *s)
{
    const probe_view *v = probe_session_view(s);
    for (size_t i = 0; i < v->thread_count; i++) {
        probe_events events = probe_events_of(s, i);
        probe_event e;
        if (probe_next_event(&events, &e))
            return true;
    }
    return false;
}

static int write_output(const cli_args *args, report_export format, const report_export_opts *opts,
                        const probe_session *s)
{
    const char *path = args->values[OPT_OUTPUT].given ? args->values[OPT_OUTPUT].text : "-";
    os_output *file;
    spgo_error err;
    out o;
    uint64_t left_out = 0;
    if (os_output_open(path, &file, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    if (out_init(&o, os_output_sink(file), &err) != SPGO_OK) {
        os_output_discard(file);
        return cli_fail(args, path, &err);
    }
    report_export_write(&o, format, s, opts, &left_out);
    (void)out_flush(&o);
    out_free(&o);
    if (os_output_commit(file, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    if (left_out > 0)
        cli_message(args, CLI_WARNING, path, SPGO_NO_OFFSET,
                    "%" PRIu64
                    " events beyond the limit were left out; --limit raises it, --pid and "
                    "--tid choose",
                    left_out);
    return CLI_OK;
}

static int export(const cli_args *args)
{
    const cli_value *v = args->values;
    report_export format;
    report_export_opts opts;
    probe_files files;
    const int usage = parse(args, &format, &opts);
    if (usage != CLI_OK)
        return usage;
    const probe_filter filter = {.pid = (uint32_t)v[OPT_PID].number,
                                 .tid = (uint32_t)v[OPT_TID].number,
                                 .keeps_events = report_export_needs_events(format)};
    const probe_names_opts names = {.dirs = v[OPT_SYMBOLS].items,
                                    .dir_count = v[OPT_SYMBOLS].item_count,
                                    .any_id = v[OPT_FORCE].given};
    int exit_code = probe_files_open(args, args->operands, args->operand_count, &filter,
                                     v[OPT_NO_NAMES].given ? NULL : &names, &files);
    if (exit_code == CLI_OK || exit_code == CLI_PARTIAL) {
        int result = CLI_FAILED;
        if (report_export_needs_events(format) && !has_events(files.session))
            cli_message(
                args, CLI_ERROR, args->operands[0], SPGO_NO_OFFSET,
                "has no events: record with --mode=stream, or --mode=ring for the last ones");
        else
            result = write_output(args, format, &opts, files.session);
        exit_code = result == CLI_OK ? exit_code : result;
    }
    probe_files_close(&files);
    return exit_code;
}

int cmd_probe_export(int argc, char **argv)
{
    return cli_run(&command, argc, argv, export);
}
