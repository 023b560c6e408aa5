/* Rendering a recording: see perfdata_dump.h. */
#include <format/perfdata/perfdata_dump.h>

#include <format/perfdata/perfdata_internal.h>

#include <base/text.h>

/* Where fields go: ` name=value` on `o`, or members of the object open in `j`. */
typedef struct field_sink {
    out *o;
    json *j;
    const perfdata *p;
} field_sink;

static void put_key(const field_sink *s, const char *name)
{
    if (s->j)
        json_key(s->j, name);
    else
        out_printf(s->o, " %s=", name);
}

static void put_number(const field_sink *s, const char *name, uint64_t v)
{
    put_key(s, name);
    if (s->j)
        json_u64(s->j, v);
    else
        out_u64(s->o, v);
}

static void put_hex(const field_sink *s, const char *name, uint64_t v)
{
    put_key(s, name);
    if (s->j) {
        json_hex(s->j, v);
        return;
    }
    out_text(s->o, "0x");
    out_hex(s->o, v);
}

static void put_flag(const field_sink *s, const char *name, bool v)
{
    put_key(s, name);
    if (s->j)
        json_bool(s->j, v);
    else
        out_text(s->o, v ? "true" : "false");
}

static void put_str(const field_sink *s, const char *name, spgo_str v)
{
    put_key(s, name);
    if (s->j) {
        json_str(s->j, v);
        return;
    }
    out_text(s->o, "\"");
    out_name(s->o, v);
    out_text(s->o, "\"");
}

static void put_digits(const field_sink *s, const char *name, spgo_span content)
{
    put_key(s, name);
    if (s->j) {
        json_bytes(s->j, content);
        return;
    }
    for (size_t i = 0; i < content.len; i++)
        out_hex_fixed(s->o, content.ptr[i], 2);
}

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

static void put_sample_fields_text(out *o, uint64_t sample_type)
{
    bool first = true;
    for (unsigned bit = 0; bit < SAMPLE_FIELD_COUNT; bit++) {
        if (!(sample_type >> bit & 1))
            continue;
        out_text(o, first ? "" : "|");
        out_text(o, sample_fields[bit]);
        first = false;
    }
}

static void put_event(const field_sink *s, const perfdata_attr *a)
{
    put_str(s, "name", a->name);
    put_number(s, "type", a->type);
    put_hex(s, "config", a->config);
    put_number(s, a->flags & PERFDATA_ATTR_FREQ ? "frequency" : "period", a->sample_period);
    put_key(s, "sample");
    if (s->j) {
        json_open_array(s->j);
        for (unsigned bit = 0; bit < SAMPLE_FIELD_COUNT; bit++) {
            if (a->sample_type >> bit & 1)
                json_text(s->j, sample_fields[bit]);
        }
        json_close_array(s->j);
    } else {
        put_sample_fields_text(s->o, a->sample_type);
    }
    put_hex(s, "sample_type", a->sample_type);
    put_hex(s, "read_format", a->read_format);
    put_hex(s, "flags", a->flags);
    put_hex(s, "branch_sample_type", a->branch_sample_type);
    put_number(s, "ids", a->id_count);
}

static void put_build_id(const field_sink *s, const perfdata_build_id *b)
{
    put_digits(s, "id", (spgo_span){b->id, b->size});
    put_number(s, "pid", b->pid);
    put_hex(s, "misc", b->misc);
    put_str(s, "path", b->path);
}

static void put_header_text(out *o, const perfdata *p)
{
    const struct {
        const char *name;
        spgo_str value;
    } lines[] = {
        {"mode", text_str(p->is_pipe ? "pipe" : "file")},
        {"byte order", text_str(p->big_endian ? "big-endian" : "little-endian")},
        {"host name", p->hostname},
        {"OS release", p->os_release},
        {"architecture", p->arch},
        {"command line", p->cmdline},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        out_printf(o, "%s: ", lines[i].name);
        out_name(o, lines[i].value);
        out_text(o, "\n");
    }
    field_sink s = {.o = o, .p = p};
    for (size_t i = 0; i < p->event_count; i++) {
        out_printf(o, "event %zu:", i);
        put_event(&s, &p->events[i]->attr);
        out_text(o, "\n");
    }
    for (size_t i = 0; i < p->build_id_count; i++) {
        out_text(o, "build-id:");
        put_build_id(&s, &p->build_ids[i]);
        out_text(o, "\n");
    }
}

static void put_header_json(json *j, const perfdata *p)
{
    field_sink s = {.j = j, .p = p};
    put_str(&s, "mode", text_str(p->is_pipe ? "pipe" : "file"));
    put_str(&s, "byte_order", text_str(p->big_endian ? "big-endian" : "little-endian"));
    put_str(&s, "host_name", p->hostname);
    put_str(&s, "os_release", p->os_release);
    put_str(&s, "architecture", p->arch);
    put_str(&s, "command_line", p->cmdline);
    json_key(j, "events");
    json_open_array(j);
    for (size_t i = 0; i < p->event_count; i++) {
        json_open_object(j);
        put_event(&s, &p->events[i]->attr);
        json_close_object(j);
    }
    json_close_array(j);
    json_key(j, "build_ids");
    json_open_array(j);
    for (size_t i = 0; i < p->build_id_count; i++) {
        json_open_object(j);
        put_build_id(&s, &p->build_ids[i]);
        json_close_object(j);
    }
    json_close_array(j);
}

void perfdata_dump_header(out *o, json *j, const perfdata *p)
{
    if (j)
        put_header_json(j, p);
    else
        put_header_text(o, p);
}

/* ------------------------------------------------------------------ records */

static void put_sid(const field_sink *s, const perfdata_id *sid)
{
    if (sid->has_time)
        put_number(s, "time_ns", sid->time_ns);
    if (sid->id != 0)
        put_number(s, "id", sid->id);
}

static bool put_mmap(const field_sink *s, const perfdata_record *r)
{
    perfdata_mmap m;
    if (!perfdata_decode_mmap(s->p, r, &m))
        return false;
    put_number(s, "pid", m.pid);
    put_number(s, "tid", m.tid);
    put_hex(s, "addr", m.addr);
    put_hex(s, "len", m.len);
    put_hex(s, "pgoff", m.pgoff);
    put_number(s, "prot", m.prot);
    put_flag(s, "kernel", m.is_kernel);
    put_flag(s, "data", m.is_data);
    if (m.build_id_size > 0)
        put_digits(s, "build_id", (spgo_span){m.build_id, m.build_id_size});
    put_str(s, "path", m.path);
    put_sid(s, &m.sid);
    return true;
}

static bool put_task(const field_sink *s, const perfdata_record *r)
{
    perfdata_task t;
    if (!perfdata_decode_task(s->p, r, &t))
        return false;
    put_number(s, "pid", t.pid);
    put_number(s, "ppid", t.ppid);
    put_number(s, "tid", t.tid);
    put_number(s, "ptid", t.ptid);
    put_number(s, "time_ns", t.time_ns);
    return true;
}

static bool put_comm(const field_sink *s, const perfdata_record *r)
{
    perfdata_comm c;
    if (!perfdata_decode_comm(s->p, r, &c))
        return false;
    put_number(s, "pid", c.pid);
    put_number(s, "tid", c.tid);
    put_flag(s, "exec", c.is_exec);
    put_str(s, "comm", c.comm);
    put_sid(s, &c.sid);
    return true;
}

static bool put_lost(const field_sink *s, const perfdata_record *r)
{
    uint64_t lost;
    if (!perfdata_decode_lost(s->p, r, &lost))
        return false;
    put_number(s, "lost", lost);
    return true;
}

static const char *cpumode_name(perfdata_cpumode mode)
{
    static const char *const names[] = {"unknown",    "kernel",       "user",
                                        "hypervisor", "guest kernel", "guest user"};
    return names[mode];
}

static void put_callchain(const field_sink *s, const perfdata_sample *m)
{
    put_key(s, "callchain");
    if (s->j)
        json_open_array(s->j);
    for (size_t i = 0; i < m->callchain_count; i++) {
        uint64_t frame = perfdata_word(s->p->big_endian, m->callchain.ptr + 8 * i);
        if (s->j) {
            json_hex(s->j, frame);
        } else {
            out_text(s->o, i ? ",0x" : "0x");
            out_hex(s->o, frame);
        }
    }
    if (s->j)
        json_close_array(s->j);
}

/* Newest first; each as from/to/flags. */
static void put_branches(const field_sink *s, const perfdata_sample *m)
{
    put_key(s, "branches");
    if (s->j)
        json_open_array(s->j);
    for (size_t i = 0; i < m->branch_count; i++) {
        const uint8_t *at = m->branches.ptr + 24 * i;
        uint64_t words[] = {perfdata_u64(s->p, at), perfdata_u64(s->p, at + 8),
                            perfdata_branch_flags(s->p, at + 16)};
        if (s->j) {
            json_open_array(s->j);
            for (size_t k = 0; k < 3; k++)
                json_hex(s->j, words[k]);
            json_close_array(s->j);
            continue;
        }
        for (size_t k = 0; k < 3; k++) {
            out_text(s->o, k ? "/0x" : i ? ",0x" : "0x");
            out_hex(s->o, words[k]);
        }
    }
    if (s->j)
        json_close_array(s->j);
}

static bool put_sample(const field_sink *s, const perfdata_record *r)
{
    perfdata_sample m;
    if (!perfdata_decode_sample(s->p, r, &m))
        return false;
    if (m.attr_index != SIZE_MAX)
        put_number(s, "event", m.attr_index);
    put_number(s, "pid", m.sid.pid);
    put_number(s, "tid", m.sid.tid);
    put_sid(s, &m.sid);
    put_number(s, "cpu", m.sid.cpu);
    put_str(s, "mode", text_str(cpumode_name(m.cpumode)));
    if (m.has_ip)
        put_hex(s, "ip", m.ip);
    put_number(s, "period", m.period);
    if (m.callchain_count > 0)
        put_callchain(s, &m);
    if (m.branch_count > 0)
        put_branches(s, &m);
    return true;
}

static bool put_decoded(const field_sink *s, const perfdata_record *r)
{
    switch (r->type) {
    case PERFDATA_RECORD_MMAP:
    case PERFDATA_RECORD_MMAP2:
        return put_mmap(s, r);
    case PERFDATA_RECORD_COMM:
        return put_comm(s, r);
    case PERFDATA_RECORD_FORK:
    case PERFDATA_RECORD_EXIT:
        return put_task(s, r);
    case PERFDATA_RECORD_LOST:
    case PERFDATA_RECORD_LOST_SAMPLES:
        return put_lost(s, r);
    case PERFDATA_RECORD_SAMPLE:
        return put_sample(s, r);
    default:
        return false;
    }
}

void perfdata_dump_record_fields(out *o, json *j, const perfdata *p, const perfdata_record *r)
{
    field_sink s = {.o = o, .j = j, .p = p};
    if (!put_decoded(&s, r) && r->body.len > 0)
        put_digits(&s, "body", r->body);
}
