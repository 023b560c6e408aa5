/*
 * spgo dump: any file that is read here, as text or JSON. The microscope: it shows what stands in
 * a file, in the file's own terms, and draws no conclusions.
 */
#include "commands.h"

#include <format/elf/elf.h>
#include <format/etl/etl.h>
#include <format/pdb/pdb.h>
#include <format/pe/pe.h>
#include <format/perfdata/perfdata.h>
#include <format/sampleprof/sampleprof.h>
#include <spgo/spt.h>

#include <string.h>

#include "dump.h"

enum {
    OPT_COUNTS,
    OPT_HEADERS,
    OPT_BUFFERS,
    OPT_EVENTS,
    OPT_PROCESS,
    OPT_FROM,
    OPT_TO,
    OPT_ORDER,
    OPT_JSON,
    OPT_HELP,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_COUNTS] = {.name = "counts",
                    .kind = CLI_FLAG,
                    .help = "one line per kind of event with its number, separated by tabs"},
    [OPT_HEADERS] = {.name = "headers", .kind = CLI_FLAG, .help = "only the file's headers"},
    [OPT_BUFFERS] = {.name = "buffers",
                     .kind = CLI_FLAG,
                     .help = "only the buffers of an ETL file; with --headers, both"},
    [OPT_EVENTS] = {.name = "events|event",
                    .kind = CLI_LIST,
                    .metavar = "kind,...",
                    .help =
                        "only events of these kinds: names such as Process/Start or MMAP2 with\n"
                        "* and ?, or numbers: hooks (0x0F2E), record types, opcodes"},
    [OPT_PROCESS] = {.name = "process",
                     .kind = CLI_LIST,
                     .metavar = "name|pid,...",
                     .help = "only events of these processes; of an SPT file, these programs"},
    [OPT_FROM] = {.name = "from",
                  .kind = CLI_TEXT,
                  .metavar = "time",
                  .help =
                      "only events from this time on: seconds from the start (1.25), raw clock\n"
                      "units (123456raw) or a UTC date (2024-05-01T12:00:00.5Z)"},
    [OPT_TO] = {.name = "to",
                .kind = CLI_TEXT,
                .metavar = "time",
                .help = "only events up to this time, inclusive"},
    [OPT_ORDER] = {.name = "order",
                   .kind = CLI_TEXT,
                   .metavar = "file|time",
                   .help = "the order of an ETL file's events: as they stand in the file, or by\n"
                           "time over all processors (the default)"},
    [OPT_JSON] = {.name = "json", .kind = CLI_FLAG, .help = "one JSON object a line"},
    [OPT_HELP] = {.name = "help|h|?", .kind = CLI_FLAG, .help = "this text"},
};

static const cli_command command = {
    .tool = "spgo dump",
    .prefix = "--",
    .purpose = "show what stands in ETL, perf.data, SPT, PE, ELF and PDB files and sample profiles",
    .synopsis = "[options] file...",
    .notes = "Without --counts, --headers or --buffers everything is shown; with --events,\n"
             "--process, --from or --to only the events. file may be \"-\" for standard input.\n"
             "Exit code: 0 ok, 1 a file could not be read, 2 usage, 3 damaged (what could be read "
             "is shown).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .operands = "a file",
};

/* ------------------------------------------------------------------ printing */

void dump_open_line(dump *d, const char *type)
{
    json_open_object(&d->j);
    dump_member_text(d, "type", type);
}

void dump_open_fields(dump *d)
{
    json_key(&d->j, "fields");
    json_open_object(&d->j);
}

void dump_close_fields(dump *d)
{
    json_close_object(&d->j);
}

void dump_close_line(dump *d)
{
    json_close_object(&d->j);
    json_end_line(&d->j);
}

void dump_member_u64(dump *d, const char *key, uint64_t value)
{
    json_key(&d->j, key);
    json_u64(&d->j, value);
}

void dump_member_text(dump *d, const char *key, const char *value)
{
    json_key(&d->j, key);
    json_text(&d->j, value);
}

int dump_report(const dump *d, const diag *found)
{
    int exit_code = CLI_OK;
    for (size_t i = 0; i < found->kept_count; i++) {
        const diag_item *item = &found->kept[i];
        if (cli_is_damage(item->code))
            exit_code = CLI_PARTIAL;
        cli_message(d->args, CLI_WARNING, d->file, item->offset, "%s", item->sentence);
    }
    if (found->total > found->kept_count) {
        cli_message(d->args, CLI_WARNING, d->file, SPGO_NO_OFFSET,
                    "%llu further findings are not shown",
                    (unsigned long long)(found->total - found->kept_count));
        exit_code = CLI_PARTIAL;
    }
    return exit_code;
}

/* ------------------------------------------------------------------ files */

typedef struct format {
    const char *name;
    int (*dump)(dump *d);
    bool is_recording; /* has events to choose among and to count */
} format;

static bool looks_like_spt(spgo_span input)
{
    return input.len >= 4 && (memcmp(input.ptr, "\x3A\x54\x50\x53", 4) == 0 ||
                              memcmp(input.ptr, "\x53\x50\x54\x3A", 4) == 0);
}

static bool looks_like_pdb(spgo_span input)
{
    pdb_container container = pdb_sniff(input);
    return container != PDB_NOT && container != PDB_IMAGE;
}

/* By content alone. ETL comes last: its first bytes are the least telling. */
static const format *format_of(spgo_span input)
{
    static const format spt = {"SPT", dump_spt, true};
    static const format perf = {"perf.data", dump_perfdata, true};
    static const format etl = {"ETL", dump_etl, true};
    static const format pe = {"PE", dump_pe, false};
    static const format elf = {"ELF", dump_elf, false};
    static const format program_database = {"PDB", dump_pdb, false};
    static const format profile = {"sample profile", dump_sampleprof, false};
    return looks_like_spt(input)                       ? &spt
           : perfdata_sniff(input)                     ? &perf
           : elf_sniff(input)                          ? &elf
           : looks_like_pdb(input)                     ? &program_database
           : pe_sniff(input)                           ? &pe
           : sampleprof_sniff(input) != SAMPLEPROF_NOT ? &profile
           : etl_sniff(input)                          ? &etl
                                                       : NULL;
}

static void put_file(dump *d, const char *format_name)
{
    if (d->args->json) {
        dump_open_line(d, "file");
        dump_member_text(d, "file", d->file);
        dump_member_text(d, "format", format_name);
        dump_close_line(d);
    } else if (d->args->operand_count > 1) {
        out_text(d->o, "# file ");
        out_name(d->o, (spgo_str){d->file, strlen(d->file)});
        out_printf(d->o, " (%s)\n", format_name);
    }
}

/* A selection that selects nothing is often a typing error; say so, as the dump cannot. */
static void note_absence(const dump *d, const format *f)
{
    const cli_value *v = d->args->values;
    bool selects =
        v[OPT_EVENTS].given || v[OPT_PROCESS].given || v[OPT_FROM].given || v[OPT_TO].given;
    if (!f->is_recording && (selects || d->show_counts))
        cli_message(d->args, CLI_WARNING, d->file, SPGO_NO_OFFSET,
                    "%s files have no events to choose among or to count", f->name);
    else if (selects && d->shown == 0)
        cli_message(d->args, CLI_WARNING, d->file, SPGO_NO_OFFSET,
                    "no event is selected; spgo dump --counts tells which kinds the file has");
    if (v[OPT_BUFFERS].given && strcmp(f->name, "ETL") != 0)
        cli_message(d->args, CLI_WARNING, d->file, SPGO_NO_OFFSET,
                    "only an ETL file has buffers; this one is %s", f->name);
}

static int dump_file(dump *d)
{
    spgo_error err;
    if (os_input_open(d->file, &d->in, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    os_input_sequential(d->in);
    d->bytes = os_input_bytes(d->in);
    const format *f = format_of(d->bytes);
    int exit_code = CLI_FAILED;
    if (f) {
        put_file(d, f->name);
        d->shown = 0;
        exit_code = f->dump(d);
        if (exit_code == CLI_OK)
            note_absence(d, f);
    } else {
        cli_message(
            d->args, CLI_ERROR, d->file, 0,
            "this is no ETL, perf.data, SPT, PE, ELF or PDB file and no sample profile, going by "
            "its first bytes");
    }
    os_input_close(d->in);
    d->in = NULL;
    return exit_code;
}

/* ------------------------------------------------------------------ the command line */

static int parse_limit(const cli_args *args, int option, dump_limit *limit)
{
    const cli_value *v = &args->values[option];
    if (!v->given || dump_parse_limit(v->text, limit))
        return CLI_OK;
    return cli_usage(args,
                     "--%s %s is no time: write seconds (1.25), raw units (123456raw) or a UTC "
                     "date (2024-05-01T12:00:00Z)",
                     options[option].name, v->text);
}

static int parse_order(const cli_args *args, bool *in_file_order)
{
    const char *order = args->values[OPT_ORDER].text;
    *in_file_order = order && strcmp(order, "file") == 0;
    if (!order || *in_file_order || strcmp(order, "time") == 0)
        return CLI_OK;
    return cli_usage(args, "--order %s is no order: write file or time", order);
}

static int prepare(const cli_args *args, dump *d)
{
    const cli_value *v = args->values;
    bool parts = v[OPT_HEADERS].given || v[OPT_BUFFERS].given || v[OPT_COUNTS].given;
    bool filtered =
        v[OPT_EVENTS].given || v[OPT_PROCESS].given || v[OPT_FROM].given || v[OPT_TO].given;

    *d = (dump){.args = args,
                .events = &v[OPT_EVENTS],
                .processes = &v[OPT_PROCESS],
                .show_headers = v[OPT_HEADERS].given || (!parts && !filtered),
                .show_buffers = v[OPT_BUFFERS].given || (!parts && !filtered),
                .show_events = !parts,
                .show_counts = v[OPT_COUNTS].given};
    if (parts && !d->show_counts && filtered)
        return cli_usage(args, "--headers and --buffers show no events: leave them away, or "
                               "--events, --process, --from and --to");
    int exit_code = parse_limit(args, OPT_FROM, &d->from);
    if (exit_code == CLI_OK)
        exit_code = parse_limit(args, OPT_TO, &d->to);
    return exit_code == CLI_OK ? parse_order(args, &d->in_file_order) : exit_code;
}

static int dump_files(const cli_args *args)
{
    dump d;
    out o;
    int exit_code = prepare(args, &d);
    if (exit_code != CLI_OK)
        return exit_code;
    if (!cli_open_out(args, &o))
        return CLI_FAILED;
    d.o = &o;
    d.j = json_on(&o, false);
    for (size_t i = 0; i < args->operand_count && !o.failed; i++) {
        d.file = args->operands[i];
        int of_file = dump_file(&d);
        /* A file that could not be read outweighs one that could in part. */
        if (exit_code == CLI_OK || of_file == CLI_FAILED)
            exit_code = of_file;
    }
    return cli_close_out(args, &o, exit_code);
}

int cmd_dump(int argc, char **argv)
{
    return cli_run(&command, argc, argv, dump_files);
}
