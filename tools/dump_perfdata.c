/*
 * spgo dump for perf.data: header, events of the recording, features and every record in file
 * order. A recording has a monotonic clock of its own, so times are seconds of that clock.
 */
#include "dump.h"

#include <base/text.h>
#include <format/perfdata/perfdata.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RELEASE_EVERY = 4096, TYPES = 256 };

/* One record with what its decoder says. */
typedef struct decoded {
    enum { PLAIN, MMAP, COMM, TASK, LOST, SAMPLE } kind;
    perfdata_id id; /* has_time tells whether time_ns is known */
    bool has_pid;
    union {
        perfdata_mmap mmap;
        perfdata_comm comm;
        perfdata_task task;
        uint64_t lost;
        perfdata_sample sample;
    } u;
} decoded;

static void decode_task(const perfdata *p, const perfdata_record *r, decoded *v)
{
    if (!perfdata_decode_task(p, r, &v->u.task))
        return;
    const perfdata_task *t = &v->u.task;
    v->kind = TASK;
    v->has_pid = true;
    v->id = (perfdata_id){.pid = t->pid, .tid = t->tid, .time_ns = t->time_ns, .has_time = true};
}

static void decode(const perfdata *p, const perfdata_record *r, decoded *v)
{
    v->kind = PLAIN;
    v->has_pid = false;
    v->id = (perfdata_id){.has_time = false};
    switch (r->type) {
    case PERFDATA_RECORD_MMAP:
    case PERFDATA_RECORD_MMAP2:
        if (perfdata_decode_mmap(p, r, &v->u.mmap)) {
            v->kind = MMAP;
            v->id = v->u.mmap.sid;
            v->id.pid = v->u.mmap.pid;
            v->id.tid = v->u.mmap.tid;
            v->has_pid = true;
        }
        break;
    case PERFDATA_RECORD_COMM:
        if (perfdata_decode_comm(p, r, &v->u.comm)) {
            v->kind = COMM;
            v->id = v->u.comm.sid;
            v->id.pid = v->u.comm.pid;
            v->id.tid = v->u.comm.tid;
            v->has_pid = true;
        }
        break;
    case PERFDATA_RECORD_FORK:
    case PERFDATA_RECORD_EXIT:
        decode_task(p, r, v);
        break;
    case PERFDATA_RECORD_LOST:
    case PERFDATA_RECORD_LOST_SAMPLES:
        if (perfdata_decode_lost(p, r, &v->u.lost))
            v->kind = LOST;
        break;
    case PERFDATA_RECORD_SAMPLE:
        if (perfdata_decode_sample(p, r, &v->u.sample)) {
            v->kind = SAMPLE;
            v->id = v->u.sample.sid;
            v->has_pid = true;
        }
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------ fields */

/* Each field goes to text as " name=value" or to JSON as a member. */
static void field_hex(dump *d, const char *name, uint64_t v)
{
    if (d->args->json) {
        json_key(&d->j, name);
        json_hex(&d->j, v);
        return;
    }
    out_bytes(d->o, " ", 1);
    out_text(d->o, name);
    out_bytes(d->o, "=0x", 3);
    out_hex(d->o, v);
}

static void field_u64(dump *d, const char *name, uint64_t v)
{
    if (d->args->json) {
        dump_member_u64(d, name, v);
        return;
    }
    out_bytes(d->o, " ", 1);
    out_text(d->o, name);
    out_bytes(d->o, "=", 1);
    out_u64(d->o, v);
}

static void field_str(dump *d, const char *name, spgo_str v)
{
    if (d->args->json) {
        dump_member_str(d, name, v);
        return;
    }
    out_bytes(d->o, " ", 1);
    out_text(d->o, name);
    out_bytes(d->o, "=", 1);
    out_name(d->o, v);
}

static void field_bytes(dump *d, const char *name, spgo_span v)
{
    if (d->args->json) {
        json_key(&d->j, name);
        json_bytes(&d->j, v);
        return;
    }
    out_bytes(d->o, " ", 1);
    out_text(d->o, name);
    out_bytes(d->o, "=", 1);
    for (size_t i = 0; i < v.len; i++)
        out_bytes(d->o, out_hex_pairs + 2 * (size_t)v.ptr[i], 2);
}

/* A list of groups of `width` numbers: callchains (1) and branches (3: from, to, flags). */
static void field_list(dump *d, const char *name, const perfdata *p, spgo_span words, size_t width)
{
    size_t count = words.len / 8 / width;
    if (d->args->json) {
        json_key(&d->j, name);
        json_open_array(&d->j);
        for (size_t i = 0; i < count; i++) {
            if (width > 1)
                json_open_array(&d->j);
            for (size_t k = 0; k < width; k++)
                json_hex(&d->j, perfdata_u64(p, words.ptr + 8 * (width * i + k)));
            if (width > 1)
                json_close_array(&d->j);
        }
        json_close_array(&d->j);
        return;
    }
    out_bytes(d->o, " ", 1);
    out_text(d->o, name);
    out_bytes(d->o, "=", 1);
    for (size_t i = 0; i < count * width; i++) {
        if (i)
            out_bytes(d->o, i % width ? ">" : ",", 1);
        out_hex(d->o, perfdata_u64(p, words.ptr + 8 * i));
    }
}

static const char *cpumode_name(perfdata_cpumode mode)
{
    static const char *const names[] = {
        [PERFDATA_CPUMODE_UNKNOWN] = "unknown",
        [PERFDATA_CPUMODE_KERNEL] = "kernel",
        [PERFDATA_CPUMODE_USER] = "user",
        [PERFDATA_CPUMODE_HYPERVISOR] = "hypervisor",
        [PERFDATA_CPUMODE_GUEST_KERNEL] = "guest-kernel",
        [PERFDATA_CPUMODE_GUEST_USER] = "guest-user",
    };
    return (unsigned)mode < sizeof names / sizeof names[0] ? names[mode] : names[0];
}

static void put_sample(dump *d, const perfdata *p, const perfdata_sample *s)
{
    const perfdata_attr *attr =
        s->attr_index != SIZE_MAX ? perfdata_get_attr(p, s->attr_index) : NULL;
    if (attr && attr->name.len)
        field_str(d, "event", attr->name);
    else if (attr)
        field_u64(d, "event", s->attr_index);
    if (s->has_ip)
        field_hex(d, "ip", s->ip);
    field_str(d, "mode", text_str(cpumode_name(s->cpumode)));
    if (s->period)
        field_u64(d, "period", s->period);
    if (s->callchain_count)
        field_list(d, "callchain", p, s->callchain, 1);
    if (s->branch_count)
        field_list(d, "branches", p, s->branches, 3);
}

static void put_mmap(dump *d, const perfdata_mmap *m)
{
    field_hex(d, "addr", m->addr);
    field_hex(d, "len", m->len);
    field_hex(d, "pgoff", m->pgoff);
    field_hex(d, "prot", m->prot);
    if (m->build_id_size)
        field_bytes(d, "build_id", (spgo_span){m->build_id, m->build_id_size});
    field_str(d, "path", m->path);
}

static void put_fields(dump *d, const perfdata *p, const perfdata_record *r, const decoded *v)
{
    switch (v->kind) {
    case MMAP:
        put_mmap(d, &v->u.mmap);
        break;
    case COMM:
        field_u64(d, "exec", v->u.comm.is_exec);
        field_str(d, "comm", v->u.comm.comm);
        break;
    case TASK:
        field_u64(d, "ppid", v->u.task.ppid);
        field_u64(d, "ptid", v->u.task.ptid);
        break;
    case LOST:
        field_u64(d, "lost", v->u.lost);
        break;
    case SAMPLE:
        put_sample(d, p, &v->u.sample);
        break;
    case PLAIN:
        if (r->body.len)
            field_bytes(d, "body", r->body);
        break;
    }
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

static void text_record(dump *d, const perfdata *p, const perfdata_record *r, const decoded *v)
{
    char number[16];
    out *o = d->o;
    out_bytes(o, "event 0x", 8);
    out_hex(o, r->offset);
    if (v->id.has_time) {
        out_bytes(o, " ", 1);
        out_u64(o, v->id.time_ns / 1000000000);
        out_printf(o, ".%09" PRIu64, v->id.time_ns % 1000000000);
    } else {
        out_bytes(o, " -", 2);
    }
    if (v->has_pid) {
        out_bytes(o, " ", 1);
        out_u64(o, v->id.cpu);
        out_bytes(o, " ", 1);
        out_u64(o, v->id.pid);
        out_bytes(o, " ", 1);
        out_u64(o, v->id.tid);
        out_bytes(o, " ", 1);
    } else {
        out_bytes(o, " - - - ", 7);
    }
    out_text(o, type_name(r->type, number));
    out_bytes(o, " 0x", 3);
    out_hex(o, r->misc);
    out_bytes(o, " ", 1);
    out_u64(o, r->size_bytes);
    put_fields(d, p, r, v);
    out_bytes(o, "\n", 1);
}

static void json_record(dump *d, const perfdata *p, const perfdata_record *r, const decoded *v)
{
    char number[16];
    dump_open_line(d, "event");
    dump_member_u64(d, "offset", r->offset);
    if (v->id.has_time)
        dump_member_u64(d, "time_ns", v->id.time_ns);
    if (v->has_pid) {
        dump_member_u64(d, "cpu", v->id.cpu);
        dump_member_u64(d, "pid", v->id.pid);
        dump_member_u64(d, "tid", v->id.tid);
    }
    dump_member_text(d, "kind", type_name(r->type, number));
    dump_member_u64(d, "misc", r->misc);
    dump_member_u64(d, "size", r->size_bytes);
    json_key(&d->j, "fields");
    json_open_object(&d->j);
    put_fields(d, p, r, v);
    json_close_object(&d->j);
    dump_close_line(d);
}

/* Records without a time, such as those of perf itself, are outside of every window. */
static bool is_wanted(const dump *d, const perfdata_record *r, const decoded *v,
                      const dump_processes *processes, uint64_t *first_ns)
{
    char number[16];
    if (v->id.has_time && *first_ns == UINT64_MAX && v->id.time_ns)
        *first_ns = v->id.time_ns;
    if (d->from.clock != DUMP_NO_LIMIT || d->to.clock != DUMP_NO_LIMIT) {
        uint64_t ns = v->id.time_ns;
        dump_time t = {.relative_ns = ns > *first_ns ? ns - *first_ns : 0, .raw = ns};
        if (!v->id.has_time || !dump_in_window(d, &t))
            return false;
    }
    if (!processes->any && !(v->has_pid && dump_wants_pid(processes, v->id.pid)))
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
    decoded v;
    spgo_error err;

    if (perfdata_walk_new(p, found, &w, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    if (d->show_events && !d->args->json)
        out_text(d->o, "# event offset time cpu pid tid kind misc size fields\n");
    while (!d->o->failed && perfdata_walk_next(w, &r)) {
        if (++step % RELEASE_EVERY == 0)
            os_input_release(d->in, r.offset);
        decode(p, &r, &v);
        if (!is_wanted(d, &r, &v, processes, &first_ns))
            continue;
        d->shown++;
        if (d->show_counts)
            numbers[r.type < TYPES ? r.type : TYPES]++;
        else if (d->args->json)
            json_record(d, p, &r, &v);
        else
            text_record(d, p, &r, &v);
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

static void header_line(dump *d, const char *name, spgo_str value)
{
    if (d->args->json) {
        dump_member_str(d, name, value);
    } else if (value.len) {
        out_printf(d->o, "%s: ", name);
        out_name(d->o, value);
        out_text(d->o, "\n");
    }
}

static void put_attr(dump *d, size_t index, const perfdata_attr *a)
{
    if (d->args->json)
        dump_open_line(d, "attr");
    else
        out_text(d->o, "attr");
    field_u64(d, "index", index);
    field_str(d, "name", a->name);
    field_u64(d, "event_type", a->type);
    field_hex(d, "config", a->config);
    field_u64(d, "period_or_frequency", a->sample_period);
    field_hex(d, "sample_type", a->sample_type);
    field_hex(d, "read_format", a->read_format);
    field_hex(d, "flags", a->flags);
    field_hex(d, "branch_sample_type", a->branch_sample_type);
    if (d->args->json)
        dump_close_line(d);
    else
        out_text(d->o, "\n");
}

static void put_build_id(dump *d, const perfdata_build_id *b)
{
    if (d->args->json)
        dump_open_line(d, "build_id");
    else
        out_text(d->o, "build-id");
    field_bytes(d, "build_id", (spgo_span){b->id, b->size});
    if (b->pid != UINT32_MAX)
        field_u64(d, "pid", b->pid);
    field_hex(d, "misc", b->misc);
    field_str(d, "path", b->path);
    if (d->args->json)
        dump_close_line(d);
    else
        out_text(d->o, "\n");
}

static void put_header(dump *d, const perfdata *p)
{
    if (d->args->json)
        dump_open_line(d, "header");
    header_line(d, "mode", text_str(perfdata_is_pipe(p) ? "pipe" : "file"));
    header_line(d, "byte_order",
                text_str(perfdata_is_big_endian(p) ? "big-endian" : "little-endian"));
    header_line(d, "host", perfdata_hostname(p));
    header_line(d, "os_release", perfdata_os_release(p));
    header_line(d, "arch", perfdata_arch(p));
    header_line(d, "command_line", perfdata_cmdline(p));
    if (d->args->json)
        dump_close_line(d);
    for (size_t i = 0; i < perfdata_attr_count(p); i++)
        put_attr(d, i, perfdata_get_attr(p, i));
    for (size_t i = 0; i < perfdata_build_id_count(p); i++)
        put_build_id(d, perfdata_get_build_id(p, i));
    if (!d->args->json)
        out_text(d->o, "\n");
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
