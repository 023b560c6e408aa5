/*
 * spgo dump for perf.data: header and every record in file order. Names and fields come from the
 * format itself (perfdata_dump.h). A recording has a monotonic clock of its own, so times are
 * seconds of that clock.
 */
#include "dump.h"

#include <base/text.h>
#include <format/perfdata/perfdata.h>
#include <format/perfdata/perfdata_dump.h>

#include <inttypes.h>
#include <stdio.h>

enum { RELEASE_EVERY = 4096, TYPES = 256 };

/* Whose record it is and of what time, as far as it says. */
typedef struct subject {
    bool has_pid, has_time;
    uint32_t pid;
    uint64_t time_ns;
} subject;

static subject subject_of_id(uint32_t pid, const perfdata_id *id)
{
    return (subject){.has_pid = true, .pid = pid, .has_time = id->has_time, .time_ns = id->time_ns};
}

static subject subject_of(const perfdata *p, const perfdata_record *r)
{
    perfdata_mmap mmap;
    perfdata_comm comm;
    perfdata_task task;
    perfdata_sample sample;
    switch (r->type) {
    case PERFDATA_RECORD_MMAP:
    case PERFDATA_RECORD_MMAP2:
        if (perfdata_decode_mmap(p, r, &mmap))
            return subject_of_id(mmap.pid, &mmap.sid);
        break;
    case PERFDATA_RECORD_COMM:
        if (perfdata_decode_comm(p, r, &comm))
            return subject_of_id(comm.pid, &comm.sid);
        break;
    case PERFDATA_RECORD_FORK:
    case PERFDATA_RECORD_EXIT:
        if (perfdata_decode_task(p, r, &task))
            return (subject){
                .has_pid = true, .pid = task.pid, .has_time = true, .time_ns = task.time_ns};
        break;
    case PERFDATA_RECORD_SAMPLE:
        if (perfdata_decode_sample(p, r, &sample))
            return subject_of_id(sample.sid.pid, &sample.sid);
        break;
    default:
        break;
    }
    return (subject){.has_pid = false};
}

/* ------------------------------------------------------------------ records */

static const char *type_name(uint32_t type, char number[16])
{
    const char *name = perfdata_record_name(type);
    if (name)
        return name;
    (void)snprintf(number, 16, "T%" PRIu32, type);
    return number;
}

static void text_record(dump *d, const perfdata *p, const perfdata_record *r, const subject *s)
{
    char number[16];
    out *o = d->o;
    out_bytes(o, "event 0x", 8);
    out_hex(o, r->offset);
    if (s->has_time) {
        out_bytes(o, " ", 1);
        out_u64(o, s->time_ns / 1000000000);
        out_bytes(o, ".", 1);
        out_u64_fixed(o, s->time_ns % 1000000000, 9);
    } else {
        out_bytes(o, " -", 2);
    }
    out_bytes(o, " ", 1);
    out_text(o, type_name(r->type, number));
    out_bytes(o, " 0x", 3);
    out_hex(o, r->misc);
    out_bytes(o, " ", 1);
    out_u64(o, r->size_bytes);
    perfdata_dump_record_fields(o, NULL, p, r);
    out_bytes(o, "\n", 1);
}

static void json_record(dump *d, const perfdata *p, const perfdata_record *r, const subject *s)
{
    char number[16];
    dump_open_line(d, "event");
    dump_member_u64(d, "offset", r->offset);
    if (s->has_time)
        dump_member_u64(d, "time_ns", s->time_ns);
    dump_member_text(d, "kind", type_name(r->type, number));
    dump_member_u64(d, "misc", r->misc);
    dump_member_u64(d, "size", r->size_bytes);
    dump_open_fields(d);
    perfdata_dump_record_fields(d->o, &d->j, p, r);
    dump_close_fields(d);
    dump_close_line(d);
}

/* Records without a time, such as those of perf itself, are outside of every window. */
static bool is_wanted(const dump *d, const perfdata_record *r, const subject *s,
                      const dump_processes *processes, uint64_t *first_ns)
{
    char number[16];
    if (s->has_time && *first_ns == UINT64_MAX && s->time_ns)
        *first_ns = s->time_ns;
    if (d->from.clock != DUMP_NO_LIMIT || d->to.clock != DUMP_NO_LIMIT) {
        uint64_t ns = s->time_ns;
        dump_time t = {.relative_ns = ns > *first_ns ? ns - *first_ns : 0, .raw = ns};
        if (!s->has_time || !dump_in_window(d, &t))
            return false;
    }
    if (!processes->any && !(s->has_pid && dump_wants_pid(processes, s->pid)))
        return false;
    return dump_wants_event(d, text_str(type_name(r->type, number)), r->type);
}

static spgo_code gather_processes(dump *d, perfdata *p, dump_processes *processes, spgo_error *err)
{
    perfdata_walk *w = NULL;
    perfdata_record r;
    processes->any = !d->processes->given;
    if (processes->any)
        return SPGO_OK;
    spgo_code code = perfdata_walk_new(p, NULL, &w, err);
    while (code == SPGO_OK && perfdata_walk_next(w, &r)) {
        perfdata_comm comm;
        if (r.type == PERFDATA_RECORD_COMM && perfdata_decode_comm(p, &r, &comm))
            dump_saw_process(processes, d, comm.pid, comm.comm);
    }
    perfdata_walk_free(w);
    if (code == SPGO_OK && !dump_end_gathering(processes, d))
        code = spgo_fail_nomem(err, "processes", 0);
    return code;
}

static void put_counts(dump *d, const uint64_t numbers[TYPES])
{
    if (!d->args->json)
        out_text(d->o, "# record\tnumber\n");
    for (uint32_t type = 0; type < TYPES; type++) {
        char number[16];
        const char *name = type_name(type, number);
        if (numbers[type] == 0)
            continue;
        if (d->args->json) {
            dump_open_line(d, "counts");
            dump_member_text(d, "kind", name);
            dump_member_u64(d, "records", numbers[type]);
            dump_close_line(d);
        } else {
            out_printf(d->o, "%s\t%" PRIu64 "\n", name, numbers[type]);
        }
    }
}

static int run_records(dump *d, perfdata *p, const dump_processes *processes, diag *found)
{
    uint64_t numbers[TYPES + 1] = {0}; /* the last: types that no version of perf knows */
    uint64_t first_ns = UINT64_MAX;
    uint64_t step = 0;
    perfdata_walk *w = NULL;
    perfdata_record r;
    spgo_error err;

    if (perfdata_walk_new(p, found, &w, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    if (d->show_events && !d->args->json)
        out_text(d->o, "# event offset time kind misc size fields\n");
    while (!d->o->failed && perfdata_walk_next(w, &r)) {
        if (++step % RELEASE_EVERY == 0)
            os_input_release(d->in, r.offset);
        subject s = subject_of(p, &r);
        if (!is_wanted(d, &r, &s, processes, &first_ns))
            continue;
        d->shown++;
        if (d->show_counts)
            numbers[r.type < TYPES ? r.type : TYPES]++;
        else if (d->args->json)
            json_record(d, p, &r, &s);
        else
            text_record(d, p, &r, &s);
    }
    if (d->show_counts)
        put_counts(d, numbers);
    if (numbers[TYPES])
        cli_message(d->args, CLI_NOTE, d->file, SPGO_NO_OFFSET,
                    "%" PRIu64 " records have types above 255 and are not among the counts",
                    numbers[TYPES]);
    bool whole = perfdata_walk_bad_records(w) == 0 && !perfdata_walk_cut_short(w);
    perfdata_walk_free(w);
    return whole ? CLI_OK : CLI_PARTIAL;
}

/* ------------------------------------------------------------------ header */

static void put_header(dump *d, const perfdata *p)
{
    if (d->args->json) {
        dump_open_line(d, "header");
        dump_open_fields(d);
        perfdata_dump_header(d->o, &d->j, p);
        dump_close_fields(d);
        dump_close_line(d);
    } else {
        perfdata_dump_header(d->o, NULL, p);
        out_text(d->o, "\n");
    }
}

static int dump_opened(dump *d, perfdata *p, diag *found)
{
    dump_processes processes = {.any = false};
    spgo_error err;
    int exit_code = CLI_OK;
    if (d->show_headers)
        put_header(d, p);
    if (d->show_events || d->show_counts) {
        if (gather_processes(d, p, &processes, &err) == SPGO_OK)
            exit_code = run_records(d, p, &processes, found);
        else
            exit_code = cli_fail(d->args, d->file, &err);
    }
    dump_processes_free(&processes);
    return exit_code;
}

int dump_perfdata(dump *d)
{
    diag found = {.kept_count = 0};
    perfdata *p = NULL;
    spgo_error err;
    if (d->from.clock == DUMP_WALL || d->to.clock == DUMP_WALL) {
        cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET,
                    "a recording of perf has no wall-clock times: give --from and --to in seconds "
                    "from its start, or in nanoseconds of its clock (123456raw)");
        return CLI_USAGE;
    }
    if (perfdata_open(d->bytes, &p, &found, &err) != SPGO_OK) {
        perfdata_close(p);
        (void)dump_report(d, &found);
        return cli_fail(d->args, d->file, &err);
    }
    int exit_code = dump_opened(d, p, &found);
    int of_findings = dump_report(d, &found);
    perfdata_close(p);
    return exit_code != CLI_OK ? exit_code : of_findings;
}
