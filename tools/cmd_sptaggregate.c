/* sptaggregate: ETL and perf.data traces into one SPT file. */
#include "aggregate_report.h"
#include "cli_progress.h"
#include "commands.h"

enum {
    OPT_ETL,
    OPT_PROCESS,
    OPT_BINARY,
    OPT_NOKERNEL,
    OPT_HELP,
    OPT_IMAGES,
    OPT_REQUIRE_ID,
    OPT_THREADS,
    OPT_QUIET,
    OPT_JSON,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_ETL] = {.name = "etl",
                 .kind = CLI_FILES,
                 .metavar = "file,...",
                 .help = "the traces: ETL files, or perf.data files of Linux; - is standard input"},
    [OPT_PROCESS] = {.name = "process",
                     .kind = CLI_LIST,
                     .metavar = "name,...",
                     .help = "only samples of these processes (image names, * and ? allowed)"},
    [OPT_BINARY] = {.name = "binary",
                    .kind = CLI_LIST,
                    .metavar = "name,...",
                    .help = "only samples in these images (base names, * and ? allowed)"},
    [OPT_NOKERNEL] = {.name = "nokernel", .help = "leave out kernel addresses"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_IMAGES] = {.name = "images",
                    .kind = CLI_FILES,
                    .ours = true,
                    .metavar = "dir,...",
                    .help = "where the ELF images of perf.data files are, for their layout and "
                            "build-ids"},
    [OPT_REQUIRE_ID] = {.name = "require-id",
                        .ours = true,
                        .help = "fail if an image has no GUID and age (or build-id)"},
    [OPT_THREADS] = {.name = "threads",
                     .kind = CLI_NUMBER,
                     .ours = true,
                     .metavar = "n",
                     .help = "use n threads (default: one per processor, at most 8)"},
    [OPT_QUIET] = {.name = "quiet|q", .ours = true, .help = "no report, only warnings and errors"},
    [OPT_JSON] = {.name = "json", .ours = true, .help = "report and messages as JSON"},
};

static const cli_command command = {
    .tool = "sptaggregate",
    .prefix = "/",
    .purpose = "make an SPT file from ETL or perf.data traces",
    .synopsis = "[options] /etl file,... output.spt",
    .notes =
        "Exit code: 0 ok, 1 failed or nothing could be used (then no file is written), 2 usage,"
        "\n3 an input is damaged (what could be read was used).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX, /* but see run */
    .operands = "the SPT file to write",
};

static aggregate_opts wanted(const cli_args *args)
{
    const cli_value *v = args->values;
    return (aggregate_opts){
        .processes = v[OPT_PROCESS].given ? v[OPT_PROCESS].items : NULL,
        .process_count = v[OPT_PROCESS].item_count,
        .binaries = v[OPT_BINARY].given ? v[OPT_BINARY].items : NULL,
        .binary_count = v[OPT_BINARY].item_count,
        .no_kernel = v[OPT_NOKERNEL].given,
        .require_id = v[OPT_REQUIRE_ID].given,
        .threads = v[OPT_THREADS].number > 64 ? 64 : (unsigned)v[OPT_THREADS].number,
    };
}

/* The output must not be one of the inputs: a failed run would destroy what it reads. */
static bool overwrites_input(const cli_args *args)
{
    const cli_value *etl = &args->values[OPT_ETL];
    for (size_t i = 0; i < etl->item_count; i++) {
        if (os_same_file(etl->items[i], args->operands[0]))
            return true;
    }
    return false;
}

static int report(const aggregate_report *r)
{
    int exit_code = aggregate_report_findings(r);
    if (r->quiet)
        return exit_code;
    out o;
    if (!cli_open_out(r->args, &o))
        return CLI_FAILED;
    if (r->args->json)
        aggregate_report_json(&o, r);
    else
        aggregate_report_text(&o, r);
    return cli_close_out(r->args, &o, exit_code);
}

/* Writes the SPT file, unless nothing could be used. */
static int convert(const cli_args *args, trace *t, cli_progress *progress)
{
    const char *path = args->operands[0];
    const aggregate_opts opts = wanted(args);
    os_output *file;
    spgo_error err;
    aggregate_result result = {0};
    if (os_output_open(path, &file, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    spgo_code code = aggregate_to_spt(t, &opts, os_output_sink(file), &result, &err);
    cli_progress_end(progress);
    aggregate_report r = {args, path, t, &opts, &result, args->values[OPT_QUIET].given};
    int exit_code;
    if (code == SPGO_IO) {
        os_output_commit(file, &err); /* knows why the bytes were refused */
        exit_code = cli_fail(args, path, &err);
    } else if (code != SPGO_OK) {
        os_output_discard(file);
        exit_code = cli_fail(args, NULL, &err);
    } else if (result.program_count == 0) {
        os_output_discard(file);
        r.output_path = NULL;
        (void)report(&r);
        cli_message(args, CLI_ERROR, path, SPGO_NO_OFFSET,
                    "no sample could be used, so no SPT file was written");
        exit_code = CLI_FAILED;
    } else if (os_output_commit(file, &err) != SPGO_OK) {
        exit_code = cli_fail(args, path, &err);
    } else {
        exit_code = report(&r);
    }
    aggregate_result_free(&result);
    return exit_code;
}

static int run(const cli_args *args)
{
    const cli_value *etl = &args->values[OPT_ETL];
    if (!etl->given)
        return cli_usage(args, "/etl and the traces to read are missing: /etl trace.etl %s",
                         args->operands[args->operand_count - 1]);
    if (args->operand_count > 1) /* often the second trace of "/etl *.etl" */
        return cli_usage(args,
                         "unexpected argument '%s'; several traces are separated by commas, as in "
                         "/etl a.etl,b.etl, and one SPT file follows",
                         args->operands[1]);
    if (overwrites_input(args))
        return cli_usage(args, "%s is an input; give the SPT file another name", args->operands[0]);
    cli_progress progress = cli_progress_start(command.tool);
    trace_opts opts = {.image_dirs = args->values[OPT_IMAGES].items,
                       .image_dir_count = args->values[OPT_IMAGES].item_count,
                       .progress = cli_progress_show,
                       .progress_ctx = &progress};
    trace *t;
    const char *failed_path;
    spgo_error err;
    if (trace_open(etl->items, etl->item_count, &opts, &t, &failed_path, &err) != SPGO_OK) {
        cli_progress_end(&progress);
        return cli_fail(args, failed_path, &err);
    }
    int exit_code = convert(args, t, &progress);
    trace_close(t);
    return exit_code;
}

int cmd_sptaggregate(int argc, char **argv)
{
    return cli_run(&command, argc, argv, run);
}
