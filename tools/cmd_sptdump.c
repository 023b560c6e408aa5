/*
 * sptdump: shows what an SPT file holds. The documented views are the header, the program ids, the
 * string table and the events; ours are the summary, the hottest entries and the verification.
 *
 * A damaged file is shown as far as it goes: damage stands among the events where it was met, and
 * the exit code says that not all is well.
 */
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <os/system.h>

#include "sptdump_print.h"

enum {
    TOP_DEFAULT = 20,
    NAMES_OFFERED_MAX = 8,
    DAMAGE_MESSAGES_MAX = 8, /* more of one file are only counted on standard error */
    RELEASE_BYTES = 8 << 20
};

/* Below this share of sensible ranges no order of the branches is believed. */
#define ORDER_SHARE_MIN 0.9

enum {
    OPT_ALL,
    OPT_HEADER,
    OPT_PROGID,
    OPT_STRTAB,
    OPT_EVENT,
    OPT_HELP,
    OPT_VERIFY,
    OPT_SUMMARY,
    OPT_TOP,
    OPT_BINARY,
    OPT_JSON,
    OPT_THREADS,
    OPT_COUNT
};

static const cli_option options[OPT_COUNT] = {
    [OPT_ALL] = {.name = "all", .help = "the whole file: the four views below (default)"},
    [OPT_HEADER] = {.name = "header", .help = "the header's fields, with what is typical"},
    [OPT_PROGID] = {.name = "progid", .help = "program ids: GUID and age of each binary"},
    [OPT_STRTAB] = {.name = "strtab", .help = "the string table"},
    [OPT_EVENT] = {.name = "event|events", .help = "sample events, one line a record"},
    [OPT_HELP] = {.name = "help|h|?", .help = "this text"},
    [OPT_VERIFY] = {.name = "verify",
                    .ours = true,
                    .help = "check every rule of the format and list what breaks it"},
    [OPT_SUMMARY] = {.name = "summary",
                     .ours = true,
                     .help = "records, hits, distinct RVAs and arcs of each program and opcode;\n"
                             "how many code ranges between branches make sense"},
    [OPT_TOP] = {.name = "top",
                 .kind = CLI_NUMBER,
                 .value_optional = true,
                 .ours = true,
                 .metavar = "n",
                 .help = "the n hottest RVAs or arcs of each program and opcode\n"
                         "(20 without n, 0: all of them)"},
    [OPT_BINARY] = {.name = "binary",
                    .kind = CLI_LIST,
                    .ours = true,
                    .metavar = "names",
                    .help = "show only these programs; * and ? match any text, any character"},
    [OPT_JSON] = {.name = "json", .ours = true, .help = "one JSON object a line, messages too"},
    [OPT_THREADS] = {.name = "threads",
                     .kind = CLI_NUMBER,
                     .ours = true,
                     .metavar = "n",
                     .help = "count /summary and /top on n threads (default: one a processor)"},
};

static const cli_command command = {
    .tool = "sptdump",
    .prefix = "/",
    .purpose = "show what a sample profile trace (SPT) file holds",
    .synopsis = "[options] sptfile",
    .notes = "sptfile may be \"-\" for standard input. Offsets, RVAs and arcs are hexadecimal: an "
             "arc\n00001040->00001000 is a branch from 00001040 to 00001000, a frame "
             "00001000<-00002000\nwas called from 00002000.\n"
             "Exit code: 0 ok, 1 failed, 2 usage, 3 damaged (what could be read is shown).\n",
    .options = options,
    .option_count = OPT_COUNT,
    .operands_min = 1,
    .operands_max = 1,
    .operands = "an SPT file",
};

static const sptdump_printer *printer(const sptdump *d)
{
    return d->args->json ? &sptdump_json : &sptdump_text;
}

static bool is_wanted(const sptdump *d, size_t program)
{
    return !d->wanted || d->wanted[program];
}

/* Is this documented view asked for, by name, by /all or by nothing at all? */
static bool wants(const cli_args *args, int option)
{
    const cli_value *v = args->values;
    bool any = v[OPT_HEADER].given || v[OPT_PROGID].given || v[OPT_STRTAB].given ||
               v[OPT_EVENT].given || v[OPT_SUMMARY].given || v[OPT_TOP].given ||
               v[OPT_VERIFY].given;
    return v[option].given || v[OPT_ALL].given || !any;
}

/* ------------------------------------------------------------------ documented views */

static void show_header(sptdump *d)
{
    sptdump_field fields[SPTDUMP_FIELDS];
    sptdump_header_fields(d, fields);
    printer(d)->begin_view(d, VIEW_HEADER);
    printer(d)->header(d, fields, SPTDUMP_FIELDS);
}

static void show_programs(sptdump *d)
{
    printer(d)->begin_view(d, VIEW_PROGRAMS);
    for (size_t i = 0; i < spgo_spt_program_count(d->spt); i++) {
        if (is_wanted(d, i))
            printer(d)->program(d, i, spgo_spt_get_program(d->spt, i));
    }
}

static void show_strings(sptdump *d)
{
    size_t index = 0;
    size_t at;
    spgo_str text;
    printer(d)->begin_view(d, VIEW_STRINGS);
    while (spgo_spt_next_string(d->spt, &index, &at, &text)) {
        if (cli_match_any(&d->args->values[OPT_BINARY], text_base_name(text)))
            printer(d)->string(d, at, text);
    }
}

/* Also says it on standard error, for those who keep only that. */
static void report_damage(sptdump *d, uint64_t count, const spgo_error *err)
{
    printer(d)->damage(d, err);
    if (count <= DAMAGE_MESSAGES_MAX)
        (void)cli_partial(d->args, d->file, err);
}

static void count_unreported(const sptdump *d, uint64_t count)
{
    if (count > DAMAGE_MESSAGES_MAX)
        cli_message(d->args, CLI_WARNING, d->file, SPGO_NO_OFFSET,
                    "%" PRIu64 " more damaged places; /verify lists them all",
                    count - DAMAGE_MESSAGES_MAX);
}

static int show_events(sptdump *d)
{
    spgo_spt_cursor c = spgo_spt_records(d->spt);
    spgo_spt_record record;
    spgo_error err;
    uint64_t damages = 0;
    uint64_t release_at = c.pos + RELEASE_BYTES;
    printer(d)->begin_view(d, VIEW_EVENTS);
    while (!d->o->failed) {
        spgo_code code = spgo_spt_next(&c, &record, &err);
        if (code == SPGO_NOT_FOUND)
            break;
        if (code != SPGO_OK)
            report_damage(d, ++damages, &err);
        else if (is_wanted(d, record.program))
            printer(d)->event(d, &record);
        if (c.pos >= release_at) {
            os_input_release(d->in, c.pos);
            release_at = c.pos + RELEASE_BYTES;
        }
    }
    count_unreported(d, damages);
    return damages ? CLI_PARTIAL : CLI_OK;
}

/* ------------------------------------------------------------------ summary and top */

static sptdump_order order_of(double newest_first, double oldest_first)
{
    if (newest_first < ORDER_SHARE_MIN && oldest_first < ORDER_SHARE_MIN)
        return ORDER_UNCLEAR;
    if (newest_first > oldest_first)
        return ORDER_NEWEST_FIRST;
    return newest_first < oldest_first ? ORDER_OLDEST_FIRST : ORDER_EITHER;
}

static double share_of(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static spgo_code make_row(uint16_t program, size_t cell_index, const spt_cell *cell,
                          sptdump_row *row, spgo_error *err)
{
    *row = (sptdump_row){.program = program, .opcode = spt_cell_opcode(cell_index), .cell = cell};
    row->newest_first_share = share_of(cell->range_good, cell->range_count);
    row->oldest_first_share = share_of(cell->backward_good, cell->backward_count);
    row->order = order_of(row->newest_first_share, row->oldest_first_share);
    return spt_cell_distinct(cell, row->opcode, &row->distinct, err);
}

/* Calls show for each program and opcode that has records. */
static spgo_code each_row(sptdump *d, const spt_summary *s,
                          spgo_code (*show)(sptdump *d, const sptdump_row *row, spgo_error *err),
                          spgo_error *err)
{
    for (size_t p = 0; p < s->program_count; p++) {
        for (size_t i = 0; s->rows[p] && i < SPT_CELLS; i++) {
            sptdump_row row;
            if (!s->rows[p][i].record_count)
                continue;
            spgo_code code = make_row((uint16_t)p, i, &s->rows[p][i], &row, err);
            if (code == SPGO_OK)
                code = show(d, &row, err);
            if (code != SPGO_OK)
                return code;
        }
    }
    return SPGO_OK;
}

static spgo_code show_count(sptdump *d, const sptdump_row *row, spgo_error *err)
{
    (void)err;
    printer(d)->count(d, row);
    return SPGO_OK;
}

static spgo_code show_range(sptdump *d, const sptdump_row *row, spgo_error *err)
{
    (void)err;
    if (row->cell->range_count)
        printer(d)->range(d, row);
    return SPGO_OK;
}

static spgo_code show_top(sptdump *d, const sptdump_row *row, spgo_error *err)
{
    const cli_value *option = &d->args->values[OPT_TOP];
    uint64_t limit = option->has_number ? option->number : TOP_DEFAULT;
    bool is_ip = spgo_spt_opcode_kind(row->opcode) == SPGO_SPT_KIND_IP;
    size_t n;
    counts_slot *slots = counts_sorted_by_count(is_ip ? &row->cell->rvas : &row->cell->arcs, &n);
    if (!slots && n)
        return spgo_fail(err, SPGO_NOMEM, "sptdump.top", SPGO_NO_OFFSET,
                         "out of memory while sorting %zu entries", n);
    for (size_t i = 0; i < n && (!limit || i < limit); i++) {
        sptdump_top top = {.row = row, .rank = i + 1, .key = slots[i].key, .hits = slots[i].count};
        top.share = share_of(top.hits, row->cell->hits);
        printer(d)->top(d, &top);
    }
    free(slots);
    return SPGO_OK;
}

static void show_total(sptdump *d, const spt_summary *s)
{
    sptdump_total total = {0};
    for (size_t p = 0; p < s->program_count; p++) {
        uint64_t records_before = total.record_count;
        for (size_t i = 0; s->rows[p] && i < SPT_CELLS; i++) {
            const spt_cell *cell = &s->rows[p][i];
            total.record_count += cell->record_count;
            total.entry_count += cell->entry_count;
            bool overflows = total.hits + cell->hits < total.hits;
            total.hits = overflows ? UINT64_MAX : total.hits + cell->hits;
        }
        total.program_count += total.record_count > records_before;
    }
    printer(d)->total(d, &total);
}

static spgo_code show_counted(sptdump *d, const spt_summary *s, spgo_error *err)
{
    spgo_code code = SPGO_OK;
    if (d->args->values[OPT_SUMMARY].given) {
        printer(d)->begin_view(d, VIEW_COUNTS);
        code = each_row(d, s, show_count, err);
        if (code != SPGO_OK)
            return code;
        show_total(d, s);
        printer(d)->begin_view(d, VIEW_RANGES);
        code = each_row(d, s, show_range, err);
    }
    if (code == SPGO_OK && d->args->values[OPT_TOP].given) {
        printer(d)->begin_view(d, VIEW_TOP);
        code = each_row(d, s, show_top, err);
    }
    return code;
}

static int show_summary(sptdump *d)
{
    const cli_value *threads = &d->args->values[OPT_THREADS];
    uint64_t thread_count = threads->has_number ? threads->number : os_cpu_count();
    spt_summary s;
    spgo_error err;
    if (thread_count > UINT16_MAX)
        thread_count = UINT16_MAX;
    bool with_hits = d->args->values[OPT_TOP].given;
    if (spt_summarize(d->spt, d->in, d->wanted, with_hits, (unsigned)thread_count, &s, &err) !=
        SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    int exit_code = CLI_OK;
    if (show_counted(d, &s, &err) != SPGO_OK) {
        exit_code = cli_fail(d->args, d->file, &err);
    } else if (s.damage_count && !wants(d->args, OPT_EVENT)) {
        exit_code = cli_partial(d->args, d->file, &s.damage);
        count_unreported(d, s.damage_count - 1 + DAMAGE_MESSAGES_MAX);
    } else if (s.damage_count) {
        exit_code = CLI_PARTIAL; /* the events told it */
    }
    spt_summary_free(&s);
    return exit_code;
}

/* ------------------------------------------------------------------ verify */

static bool on_finding(void *ctx, const spgo_spt_finding *finding)
{
    sptdump *d = ctx;
    printer(d)->finding(d, finding);
    return !d->o->failed;
}

static int show_verdict(sptdump *d)
{
    spgo_spt_verdict verdict;
    spgo_error err;
    printer(d)->begin_view(d, VIEW_VERIFY);
    if (spgo_spt_verify(os_input_bytes(d->in), on_finding, d, &verdict, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    printer(d)->verdict(d, &verdict);
    return verdict.damages ? CLI_PARTIAL : CLI_OK;
}

/* ------------------------------------------------------------------ the command */

/* The worse of two exit codes: failed before damaged before ok. */
static int worse(int a, int b)
{
    if (a == CLI_FAILED || b == CLI_FAILED)
        return CLI_FAILED;
    return a > b ? a : b;
}

static int no_program_matches(const sptdump *d)
{
    char names[256] = "";
    size_t count = spgo_spt_program_count(d->spt);
    size_t used = 0;
    for (size_t i = 0; i < count && i < NAMES_OFFERED_MAX && used < sizeof names; i++) {
        spgo_str name = sptdump_program_name(d, (uint16_t)i);
        int n = snprintf(names + used, sizeof names - used, "%s%.*s", i ? ", " : "",
                         name.len < 64 ? (int)name.len : 64, name.ptr);
        used += n > 0 ? (size_t)n : 0;
    }
    const char *more = count > NAMES_OFFERED_MAX ? ", ..." : "";
    cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET,
                "no program matches /binary; the file has %zu: %s%s", count, names, more);
    return CLI_FAILED;
}

/* Chooses the programs that /binary names. */
static int choose_programs(sptdump *d)
{
    const cli_value *patterns = &d->args->values[OPT_BINARY];
    size_t count = spgo_spt_program_count(d->spt);
    bool any = false;
    if (!patterns->given)
        return CLI_OK;
    d->wanted = calloc(count + 1, sizeof *d->wanted);
    if (!d->wanted) {
        cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET, "out of memory");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < count; i++) {
        spgo_str name = spgo_spt_get_program(d->spt, i)->name;
        d->wanted[i] = cli_match_any(patterns, text_base_name(name));
        any = any || d->wanted[i];
    }
    return any ? CLI_OK : no_program_matches(d);
}

static void measure_columns(sptdump *d)
{
    d->name_width = (int)strlen("programs");
    for (size_t i = 0; i < spgo_spt_program_count(d->spt); i++) {
        int width = sptdump_word_width(spgo_spt_get_program(d->spt, i)->name);
        if (is_wanted(d, i) && width > d->name_width)
            d->name_width = width;
    }
    d->offset_digits = os_input_bytes(d->in).len > UINT32_MAX ? 12 : 8;
}

static int show_file(sptdump *d)
{
    int exit_code = choose_programs(d);
    if (exit_code != CLI_OK)
        return exit_code;
    measure_columns(d);
    if (wants(d->args, OPT_HEADER))
        show_header(d);
    if (wants(d->args, OPT_PROGID))
        show_programs(d);
    if (wants(d->args, OPT_STRTAB))
        show_strings(d);
    if (wants(d->args, OPT_EVENT))
        exit_code = show_events(d);
    if (d->args->values[OPT_SUMMARY].given || d->args->values[OPT_TOP].given)
        exit_code = worse(exit_code, show_summary(d));
    return exit_code;
}

static bool only_verifies(const cli_args *args)
{
    return args->values[OPT_VERIFY].given && !wants(args, OPT_HEADER) && !wants(args, OPT_PROGID) &&
           !wants(args, OPT_STRTAB) && !wants(args, OPT_EVENT) &&
           !args->values[OPT_SUMMARY].given && !args->values[OPT_TOP].given;
}

static int dump(sptdump *d)
{
    spgo_spt *spt = NULL;
    spgo_error err;
    int exit_code = CLI_OK;
    d->offset_digits = 8;
    if (!only_verifies(d->args)) {
        spgo_code code = spgo_spt_open(os_input_bytes(d->in), &spt, &err);
        d->spt = spt;
        if (spt)
            exit_code = show_file(d);
        if (code != SPGO_OK)
            exit_code = worse(exit_code, spt ? cli_partial(d->args, d->file, &err)
                                             : cli_fail(d->args, d->file, &err));
    }
    if (d->args->values[OPT_VERIFY].given && exit_code != CLI_FAILED)
        exit_code = worse(exit_code, show_verdict(d));
    spgo_spt_close(spt);
    free(d->wanted);
    free(d->label);
    return exit_code;
}

int cmd_sptdump(int argc, char **argv)
{
    cli_args args;
    int exit_code;
    if (!cli_parse(&command, argc, argv, &args, &exit_code))
        return exit_code;

    sptdump d = {.args = &args, .file = args.operands[0]};
    spgo_error err;
    out o;
    exit_code = CLI_FAILED;
    if (os_input_open(d.file, &d.in, &err) != SPGO_OK) {
        exit_code = cli_fail(&args, d.file, &err);
    } else if (cli_open_out(&args, &o)) {
        os_input_sequential(d.in);
        d.o = &o;
        d.j = json_on(&o, false);
        exit_code = cli_close_out(&args, &o, dump(&d));
    }
    os_input_close(d.in);
    cli_free(&args);
    return exit_code;
}
