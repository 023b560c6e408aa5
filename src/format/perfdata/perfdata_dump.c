/* Rendering a recording: see perfdata_dump.h. */
#include <format/perfdata/perfdata_dump.h>

#include <format/perfdata/perfdata_internal.h>

#include <base/fields.h>
#include <base/text.h>

/* ------------------------------------------------------------------ header */

static const char *const sample_fields[] = {
    "IP",
    "TID",
    "TIME",
    "ADDR",
    "READ",
    "CALLCHAIN",
    "ID",
    "CPU",
    "PERIOD",
    "STREAM_ID",
    "RAW",
    "BRANCH_STACK",
    "REGS_USER",
    "STACK_USER",
    "WEIGHT",
    "DATA_SRC",
    "IDENTIFIER",
    "TRANSACTION",
    "REGS_INTR",
    "PHYS_ADDR",
    "AUX",
    "CGROUP",
    "DATA_PAGE_SIZE",
    "CODE_PAGE_SIZE",
    "WEIGHT_STRUCT",
};
enum { SAMPLE_FIELD_COUNT = sizeof sample_fields / sizeof *sample_fields };

static void put_sample_fields(const fields *f, uint64_t sample_type)
{
    bool is_first = true;
    field_open_list(f, "sample");
    for (unsigned bit = 0; bit < SAMPLE_FIELD_COUNT; bit++) {
        if (!(sample_type >> bit & 1))
            continue;
        field_next_item(f, is_first);
        value_word(f, sample_fields[bit]);
        is_first = false;
    }
    field_close_list(f);
}

static void put_attr(const fields *f, const perfdata_attr *a)
{
    field_str(f, "name", a->name);
    field_u64(f, "type", a->type);
    field_hex(f, "config", a->config);
    field_u64(f, a->flags & PERFDATA_ATTR_FREQ ? "frequency" : "period", a->sample_period);
    put_sample_fields(f, a->sample_type);
    field_hex(f, "sample_type", a->sample_type);
    field_hex(f, "read_format", a->read_format);
    field_hex(f, "flags", a->flags);
    field_hex(f, "branch_sample_type", a->branch_sample_type);
    field_u64(f, "ids", a->id_count);
}

static void put_build_id(const fields *f, const perfdata_build_id *b)
{
    field_bytes(f, "id", (spgo_span){b->id, b->size});
    field_u64(f, "pid", b->pid);
    field_hex(f, "misc", b->misc);
    field_str(f, "path", b->path);
}

static void put_attrs(const fields *f, const perfdata *p)
{
    for (size_t i = 0; i < p->event_count; i++) {
        fields_open_row(f, "attr", i);
        put_attr(f, &p->events[i]->attr);
        fields_close_row(f);
    }
}

static void put_build_ids(const fields *f, const perfdata *p)
{
    for (size_t i = 0; i < p->build_id_count; i++) {
        fields_open_row(f, "build_id", i);
        put_build_id(f, &p->build_ids[i]);
        fields_close_row(f);
    }
}

void perfdata_dump_header(out *o, json *j, const perfdata *p)
{
    fields lines = fields_lines(o, j);
    fields pairs = fields_pairs(o, j);
    field_str(&lines, "mode", text_str(p->is_pipe ? "pipe" : "file"));
    field_str(&lines, "byte_order", text_str(p->big_endian ? "big-endian" : "little-endian"));
    field_str(&lines, "host_name", p->hostname);
    field_str(&lines, "os_release", p->os_release);
    field_str(&lines, "architecture", p->arch);
    field_str(&lines, "command_line", p->cmdline);
    fields_open_table(j, "events");
    put_attrs(&pairs, p);
    fields_close_table(j);
    fields_open_table(j, "build_ids");
    put_build_ids(&pairs, p);
    fields_close_table(j);
}

/* ------------------------------------------------------------------ records */

static void put_sid(const fields *f, const perfdata_id *sid)
{
    if (sid->has_time)
        field_u64(f, "time_ns", sid->time_ns);
    if (sid->id != 0)
        field_u64(f, "id", sid->id);
}

static bool put_mmap(const fields *f, const perfdata *p, const perfdata_record *r)
{
    perfdata_mmap m;
    if (!perfdata_decode_mmap(p, r, &m))
        return false;
    field_u64(f, "pid", m.pid);
    field_u64(f, "tid", m.tid);
    field_hex(f, "addr", m.addr);
    field_hex(f, "len", m.len);
    field_hex(f, "pgoff", m.pgoff);
    field_u64(f, "prot", m.prot);
    field_bool(f, "kernel", m.is_kernel);
    field_bool(f, "data", m.is_data);
    if (m.build_id_size > 0)
        field_bytes(f, "build_id", (spgo_span){m.build_id, m.build_id_size});
    field_str(f, "path", m.path);
    put_sid(f, &m.sid);
    return true;
}

static bool put_task(const fields *f, const perfdata *p, const perfdata_record *r)
{
    perfdata_task t;
    if (!perfdata_decode_task(p, r, &t))
        return false;
    field_u64(f, "pid", t.pid);
    field_u64(f, "ppid", t.ppid);
    field_u64(f, "tid", t.tid);
    field_u64(f, "ptid", t.ptid);
    field_u64(f, "time_ns", t.time_ns);
    return true;
}

static bool put_comm(const fields *f, const perfdata *p, const perfdata_record *r)
{
    perfdata_comm c;
    if (!perfdata_decode_comm(p, r, &c))
        return false;
    field_u64(f, "pid", c.pid);
    field_u64(f, "tid", c.tid);
    field_bool(f, "exec", c.is_exec);
    field_str(f, "comm", c.comm);
    put_sid(f, &c.sid);
    return true;
}

static bool put_lost(const fields *f, const perfdata *p, const perfdata_record *r)
{
    uint64_t lost;
    if (!perfdata_decode_lost(p, r, &lost))
        return false;
    field_u64(f, "lost", lost);
    return true;
}

static const char *cpumode_name(perfdata_cpumode mode)
{
    static const char *const names[] = {"unknown",    "kernel",       "user",
                                        "hypervisor", "guest kernel", "guest user"};
    return names[mode];
}

static void put_callchain(const fields *f, const perfdata *p, const perfdata_sample *m)
{
    field_open_list(f, "callchain");
    for (size_t i = 0; i < m->callchain_count; i++) {
        field_next_item(f, i == 0);
        value_hex(f, perfdata_u64(p, m->callchain.ptr + 8 * i));
    }
    field_close_list(f);
}

/* Newest first; each as from/to/flags. */
static void put_branches(const fields *f, const perfdata *p, const perfdata_sample *m)
{
    field_open_list(f, "branches");
    for (size_t i = 0; i < m->branch_count; i++) {
        const uint8_t *at = m->branches.ptr + 24 * i;
        const uint64_t words[] = {perfdata_u64(p, at), perfdata_u64(p, at + 8),
                                  perfdata_branch_flags(p, at + 16)};
        field_next_item(f, i == 0);
        if (f->j)
            json_open_array(f->j);
        for (size_t k = 0; k < 3; k++) {
            if (!f->j && k > 0)
                out_bytes(f->o, "/", 1);
            value_hex(f, words[k]);
        }
        if (f->j)
            json_close_array(f->j);
    }
    field_close_list(f);
}

static bool put_sample(const fields *f, const perfdata *p, const perfdata_record *r)
{
    perfdata_sample m;
    if (!perfdata_decode_sample(p, r, &m))
        return false;
    if (m.attr_index != SIZE_MAX)
        field_u64(f, "event", m.attr_index);
    field_u64(f, "pid", m.sid.pid);
    field_u64(f, "tid", m.sid.tid);
    put_sid(f, &m.sid);
    field_u64(f, "cpu", m.sid.cpu);
    field_str(f, "mode", text_str(cpumode_name(m.cpumode)));
    if (m.has_ip)
        field_hex(f, "ip", m.ip);
    field_u64(f, "period", m.period);
    if (m.callchain_count > 0)
        put_callchain(f, p, &m);
    if (m.branch_count > 0)
        put_branches(f, p, &m);
    return true;
}

static bool put_decoded(const fields *f, const perfdata *p, const perfdata_record *r)
{
    switch (r->type) {
    case PERFDATA_RECORD_MMAP:
    case PERFDATA_RECORD_MMAP2:
        return put_mmap(f, p, r);
    case PERFDATA_RECORD_COMM:
        return put_comm(f, p, r);
    case PERFDATA_RECORD_FORK:
    case PERFDATA_RECORD_EXIT:
        return put_task(f, p, r);
    case PERFDATA_RECORD_LOST:
    case PERFDATA_RECORD_LOST_SAMPLES:
        return put_lost(f, p, r);
    case PERFDATA_RECORD_SAMPLE:
        return put_sample(f, p, r);
    default:
        return false;
    }
}

void perfdata_dump_record_fields(out *o, json *j, const perfdata *p, const perfdata_record *r)
{
    fields f = fields_pairs(o, j);
    if (!put_decoded(&f, p, r) && r->body.len > 0)
        field_bytes(&f, "body", r->body);
}
