/* spgo probe report: what the functions of instrumented programs took. */
#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <os/folder.h>
#include <report/views.h>

#include "cli.h"
#include "probe_files.h"

enum {
    OPT_VIEW,
    OPT_SORT,
    OPT_TOP,
    OPT_FUNCTION,
    OPT_FORMAT,
    OPT_COLUMNS,
    OPT_PERCENT_OF,
    OPT_LEAST,
    OPT_FOLD,
    OPT_FROM,
    OPT_TO,
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
    [OPT_VIEW] = {.name = "view|v",
                  .kind = CLI_TEXT,
                  .metavar = "name",
                  .help = "summary (default), functions, callers, tree, modules, threads,\n"
                          "processes or marks"},
    [OPT_SORT] = {.name = "sort",
                  .kind = CLI_TEXT,
                  .metavar = "column",
                  .help = "elapsed-inclusive (default of functions), elapsed-exclusive (default\n"
                          "of the summary), application-inclusive, application-exclusive,\n"
                          "calls or name"},
    [OPT_TOP] = {.name = "top|n",
                 .kind = CLI_NUMBER,
                 .metavar = "n",
                 .help = "only the first n rows"},
    [OPT_FUNCTION] = {.name = "function|f",
                      .kind = CLI_TEXT,
                      .metavar = "name",
                      .help = "functions of this name only (* and ? match any text, any\n"
                              "character); in the view of modules, modules"},
    [OPT_FORMAT] = {.name = "format",
                    .kind = CLI_TEXT,
                    .metavar = "name",
                    .help = "text (default), csv, xml or json; all but text have all columns"},
    [OPT_COLUMNS] = {.name = "all-columns|a", .help = "all columns in text too"},
    [OPT_PERCENT_OF] = {.name = "percent-of",
                        .kind = CLI_TEXT,
                        .metavar = "family",
                        .help = "own (default): application values in percent of all application\n"
                                "time; elapsed: of all elapsed time"},
    [OPT_LEAST] = {.name = "least",
                   .kind = CLI_TEXT,
                   .metavar = "percent",
                   .help = "tree: leave out what has less of the session (default: 1)"},
    [OPT_FOLD] = {.name = "no-fold",
                  .help = "tree: show every function of a chain of single calls"},
    [OPT_FROM] = {.name = "from",
                  .kind = CLI_TEXT,
                  .metavar = "when",
                  .help = "only what was after this: milliseconds since the process started, or\n"
                          "mark:id; needs a recording with events (--mode=ring or stream)"},
    [OPT_TO] = {.name = "to", .kind = CLI_TEXT, .metavar = "when", .help = "only what was before"},
    [OPT_PID] = {.name = "pid", .kind = CLI_NUMBER, .metavar = "id", .help = "only this process"},
    [OPT_TID] = {.name = "tid", .kind = CLI_NUMBER, .metavar = "id", .help = "only this thread"},
    [OPT_SYMBOLS] = {.name = "symbols|s",
                     .kind = CLI_FILES,
                     .metavar = "folder,...",
                     .help = "where images and debug files may be"},
    [OPT_NO_NAMES] = {.name = "no-names", .help = "addresses instead of names: reads no image"},
    [OPT_FORCE] = {.name = "force", .help = "take names from images of another build too"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_JSON] = {.name = "json", .help = "as --format=json; messages too"},
};

static const cli_command command = {
    .tool = "spgo probe report",
    .prefix = "--",
    .purpose = "show what the functions of instrumented programs took",
    .synopsis = "[options] file.spp|folder...",
    .notes = "Inputs are the files that libspgo_probe wrote, or folders of them.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 an input is damaged (what could be read was "
             "used).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "an SPP file, or a folder of them,",
};

/* ------------------------------------------------------------------ options */

static const char *const sort_names[] = {"elapsed-inclusive",
                                         "elapsed-exclusive",
                                         "application-inclusive",
                                         "application-exclusive",
                                         "calls",
                                         "name"};
static const char *const format_names[] = {"text", "csv", "xml", "json"};

static int index_of(const char *word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (text_equal_nocase(text_str(word), text_str(names[i])))
            return (int)i;
    }
    return -1;
}

static int parse_view(const cli_args *args, report_opts *o)
{
    const char *word = args->values[OPT_VIEW].text;
    o->view = REPORT_SUMMARY;
    for (report_view v = 0; word && v < REPORT_VIEW_COUNT; v++) {
        if (text_equal_nocase(text_str(word), text_str(report_view_name(v)))) {
            o->view = v;
            return CLI_OK;
        }
    }
    return word ? cli_usage(args, "no view '%s'", word) : CLI_OK;
}

static int parse_options(const cli_args *args, report_opts *o, report_format *format)
{
    const cli_value *v = args->values;
    const int bad_view = parse_view(args, o);
    if (bad_view != CLI_OK)
        return bad_view;
    const char *sort = v[OPT_SORT].text;
    o->sort = o->view == REPORT_SUMMARY ? PROBE_ELAPSED_EXCLUSIVE : PROBE_ELAPSED_INCLUSIVE;
    if (sort && (o->sort = index_of(sort, sort_names, 6)) < 0)
        return cli_usage(args, "cannot sort by '%s'", sort);
    *format = args->json ? REPORT_AS_JSON : REPORT_AS_TEXT;
    if (v[OPT_FORMAT].text) {
        const int f = index_of(v[OPT_FORMAT].text, format_names, 4);
        if (f < 0)
            return cli_usage(args, "no format '%s'", v[OPT_FORMAT].text);
        *format = (report_format)f;
    }
    const char *of = v[OPT_PERCENT_OF].text;
    o->percent_of_elapsed = of && strcmp(of, "elapsed") == 0;
    if (of && !o->percent_of_elapsed && strcmp(of, "own") != 0)
        return cli_usage(args, "--percent-of is own or elapsed, not '%s'", of);
    char *end = NULL;
    o->least_percent = v[OPT_LEAST].text ? strtod(v[OPT_LEAST].text, &end) : 1;
    if (end && (*end || !(o->least_percent >= 0 && o->least_percent <= 100)))
        return cli_usage(args, "--least is a number from 0 to 100, not '%s'", v[OPT_LEAST].text);
    o->top = v[OPT_TOP].given ? (size_t)v[OPT_TOP].number : o->view == REPORT_SUMMARY ? 20 : 0;
    o->pattern = v[OPT_FUNCTION].text;
    o->fold = !v[OPT_FOLD].given;
    return CLI_OK;
}

/* Milliseconds, or "mark:id". */
static int parse_when(const cli_args *args, int option, probe_when *when)
{
    const char *text = args->values[option].text;
    char *end;
    if (!args->values[option].given)
        return CLI_OK;
    when->is_mark = strncmp(text, "mark:", 5) == 0;
    if (when->is_mark)
        when->mark = strtoll(text + 5, &end, 10);
    else
        when->ns = strtod(text, &end) * 1e6;
    const bool is_bad = *end || end == text || end == text + 5 || !(when->ns >= 0);
    return is_bad ? cli_usage(args, "'%s' is no time in milliseconds and no mark:id", text)
                  : CLI_OK;
}

static int parse_window(const cli_args *args, probe_filter *f)
{
    f->has_window = args->values[OPT_FROM].given || args->values[OPT_TO].given;
    f->to.ns = 1e300;
    const int bad = parse_when(args, OPT_FROM, &f->from);
    return bad != CLI_OK ? bad : parse_when(args, OPT_TO, &f->to);
}

/* ------------------------------------------------------------------ summary */

static void put_policy(out *o, uint32_t os_events)
{
    static const char *const names[] = {"switches and signals", "switches", "the time switched out",
                                        "system calls", "page faults"};
    size_t put = 0;
    for (unsigned i = 0; i < 5; i++) {
        if (os_events >> i & 1)
            out_printf(o, "%s%s", put++ ? ", " : "", names[i]);
    }
    out_text(o, put ? "\n" : "none: application time is elapsed time\n");
}

static void put_summary(out *o, const probe_view *s)
{
    const probe_values *t = &s->total;
    uint64_t lost = 0, exits = 0, deep = 0, threads = 0;
    for (size_t i = 0; i < s->process_count; i++)
        threads += s->processes[i].lost_threads;
    for (size_t i = 0; i < s->thread_count; i++) {
        lost += s->threads[i].lost_events;
        exits += s->threads[i].lost_exits;
        deep += s->threads[i].deep_calls;
    }
    out_printf(o, "processes          %zu, threads %zu, functions %zu, paths of calls %zu\n",
               s->process_count, s->thread_count, s->function_count,
               s->node_count ? s->node_count - 1 : 0);
    out_printf(o, "calls              %" PRIu64 "\n", t->calls);
    out_printf(o, "elapsed time       %.6f ms, over all threads\n",
               t->ns[PROBE_ELAPSED_INCLUSIVE] / 1e6);
    out_printf(o, "application time   %.6f ms\n", t->ns[PROBE_APPLICATION_INCLUSIVE] / 1e6);
    out_printf(o, "probe overhead     %.6f ms, taken off\n", t->overhead_ns[0] / 1e6);
    if (s->process_count > 0) {
        out_printf(o,
                   "cost of a call     %.1f ns (%.1f ns in the function, %.1f ns in its caller)\n",
                   s->processes[0].probe_inside_ns + s->processes[0].probe_outside_ns,
                   s->processes[0].probe_inside_ns, s->processes[0].probe_outside_ns);
        out_text(o, "system events      ");
        put_policy(o, s->processes[0].os_events);
    }
    if (lost || exits || deep || threads)
        out_printf(o,
                   "lost               %" PRIu64 " probes in interrupted ones, %" PRIu64
                   " exits that never came, %" PRIu64 " calls too deep, %" PRIu64
                   " threads without room\n",
                   lost, exits, deep, threads);
    out_text(o, "\nFunctions with most individual work:\n");
}

/* ------------------------------------------------------------------ the command */

static int print(const cli_args *args, const probe_view *s, const report_opts *opts,
                 report_format format)
{
    report_rows *rows;
    spgo_error err;
    out o;
    if (report_make(s, opts, &rows, &err) != SPGO_OK)
        return cli_fail(args, NULL, &err);
    int exit_code = CLI_FAILED;
    if (cli_open_out(args, &o)) {
        if (opts->view == REPORT_SUMMARY && format == REPORT_AS_TEXT)
            put_summary(&o, s);
        report_print(&o, report_rows_table(rows), format, args->values[OPT_COLUMNS].given);
        exit_code = cli_close_out(args, &o, CLI_OK);
    }
    report_free(rows);
    return exit_code;
}

static int report(const cli_args *args)
{
    const cli_value *v = args->values;
    report_opts opts = {0};
    report_format format = REPORT_AS_TEXT;
    const int usage = parse_options(args, &opts, &format);
    if (usage != CLI_OK)
        return usage;
    probe_filter filter = {.pid = (uint32_t)v[OPT_PID].number, .tid = (uint32_t)v[OPT_TID].number};
    const int bad_time = parse_window(args, &filter);
    if (bad_time != CLI_OK)
        return bad_time;
    const probe_names_opts names = {.dirs = v[OPT_SYMBOLS].items,
                                    .dir_count = v[OPT_SYMBOLS].item_count,
                                    .any_id = v[OPT_FORCE].given};
    probe_files files;
    int exit_code = probe_files_open(args, args->operands, args->operand_count, &filter,
                                     v[OPT_NO_NAMES].given ? NULL : &names, &files);
    if (files.session && probe_session_view(files.session)->total.calls == 0)
        cli_message(args, CLI_WARNING, args->operands[0], SPGO_NO_OFFSET,
                    "no probe was called: was the program built with -finstrument-functions, and "
                    "are its processes and threads not all filtered away?");
    if (files.session)
        exit_code = exit_code == CLI_OK || exit_code == CLI_PARTIAL
                        ? (print(args, probe_session_view(files.session), &opts, format) == CLI_OK
                               ? exit_code
                               : CLI_FAILED)
                        : exit_code;
    probe_files_close(&files);
    return exit_code;
}

int cmd_probe_report(int argc, char **argv)
{
    return cli_run(&command, argc, argv, report);
}
