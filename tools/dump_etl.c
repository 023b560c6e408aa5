/*
 * spgo dump for ETL files. Names and fields come from the format itself (etl_dump.h); here stand
 * the columns that every event has, the two orders of walking, and which process an event is of.
 */
#include "dump.h"

#include <base/filetime.h>
#include <base/guid.h>
#include <base/text.h>
#include <format/etl/etl.h>
#include <format/etl/etl_dump.h>
#include <format/etl/etl_tally.h>

#include <stdio.h>
#include <string.h>

enum { RELEASE_EVERY = 4096 };

/* Walks over all records of a file in one of the two orders. */
typedef struct walker {
    dump *d;
    const etl_file *file;
    bool by_time;
    etl_stream *stream;
    etl_walk walk;
    size_t next_buffer;
    bool in_buffer;
    uint64_t step_count;
} walker;

static spgo_code start_walk(walker *w, dump *d, const etl_file *file, bool by_time, diag *found,
                            spgo_error *err)
{
    *w = (walker){.d = d, .file = file, .by_time = by_time};
    if (by_time)
        return etl_stream_open(&file, 1, found, &w->stream, err);
    w->walk = etl_walk_new(file, found);
    return SPGO_OK;
}

static bool next_in_file(walker *w, etl_record *r)
{
    for (;;) {
        if (w->in_buffer && etl_walk_next(&w->walk, r))
            return true;
        if (w->next_buffer == etl_buffer_count(w->file))
            return false;
        os_input_release(w->d->in, etl_get_buffer(w->file, w->next_buffer)->offset);
        w->in_buffer = etl_walk_buffer(&w->walk, w->next_buffer++);
    }
}

static bool next_record(walker *w, etl_record *r)
{
    size_t ignored;
    if (!w->by_time)
        return next_in_file(w, r);
    if (++w->step_count % RELEASE_EVERY == 0)
        os_input_release(w->d->in, etl_stream_done_until(w->stream, 0));
    return etl_stream_next(w->stream, r, &ignored);
}

/* True if every record could be read. */
static bool end_walk(walker *w)
{
    bool whole;
    if (w->by_time) {
        whole = !w->stream ||
                (etl_stream_bad_records(w->stream) == 0 && etl_stream_bad_buffers(w->stream) == 0);
        etl_stream_close(w->stream);
    } else {
        whole = w->walk.bad_records == 0 && w->walk.bad_buffers == 0;
        etl_walk_free(&w->walk);
    }
    return whole;
}

/* ------------------------------------------------------------------ processes */

/* The ids that an event is about, from its header and from its payload. */
typedef struct subject {
    uint32_t pids[2];
    uint32_t tids[3];
    unsigned pid_count, tid_count;
} subject;

static void add_ids(subject *s, uint32_t pid, uint32_t tid)
{
    if (pid != ETL_NO_ID)
        s->pids[s->pid_count++] = pid;
    if (tid != ETL_NO_ID)
        s->tids[s->tid_count++] = tid;
}

/* Events about a process are often logged by another one, and samples name their thread in the
 * payload alone. */
static void add_payload_ids(subject *s, const etl_record *r)
{
    union {
        etl_process process;
        etl_thread thread;
        etl_image image;
        etl_image_id image_id;
        etl_sample sample;
        etl_cswitch cswitch;
        etl_lbr lbr;
        etl_stack stack;
    } u;
    switch (etl_record_family(r)) {
    case ETL_FAMILY_PROCESS:
        if (etl_decode_process(r, &u.process))
            add_ids(s, u.process.pid, ETL_NO_ID);
        break;
    case ETL_FAMILY_THREAD:
    case ETL_FAMILY_THREAD_NAME:
        if (etl_decode_thread(r, &u.thread))
            add_ids(s, u.thread.pid, ETL_NO_ID);
        break;
    case ETL_FAMILY_IMAGE:
        if (etl_decode_image(r, &u.image))
            add_ids(s, u.image.pid, ETL_NO_ID);
        break;
    case ETL_FAMILY_IMAGE_ID:
        if (etl_decode_image_id(r, &u.image_id))
            add_ids(s, u.image_id.pid, ETL_NO_ID);
        break;
    case ETL_FAMILY_SAMPLE:
        if (etl_decode_sample(r, &u.sample))
            add_ids(s, ETL_NO_ID, u.sample.tid);
        break;
    case ETL_FAMILY_CSWITCH:
        if (etl_decode_cswitch(r, &u.cswitch)) {
            add_ids(s, ETL_NO_ID, u.cswitch.new_tid);
            add_ids(s, ETL_NO_ID, u.cswitch.old_tid);
        }
        break;
    case ETL_FAMILY_LBR:
        if (etl_decode_lbr(r, &u.lbr))
            add_ids(s, u.lbr.pid, ETL_NO_ID);
        break;
    case ETL_FAMILY_STACK:
        if (etl_decode_stack(r, &u.stack))
            add_ids(s, u.stack.pid, ETL_NO_ID);
        break;
    default:
        break;
    }
}

static bool has_cached_sample(const dump_processes *p, const etl_record *r)
{
    etl_sample sample;
    for (size_t i = 0; i < etl_sample_cache_count(r); i++) {
        if (etl_decode_cached_sample(r, i, &sample) && dump_wants_tid(p, sample.tid))
            return true;
    }
    return false;
}

static bool is_of_process(const dump_processes *p, const etl_record *r)
{
    if (p->any)
        return true;
    subject s = {.pid_count = 0};
    add_ids(&s, r->pid, r->pid == ETL_NO_ID ? r->tid : ETL_NO_ID);
    if (etl_record_family(r) == ETL_FAMILY_SAMPLE_CACHE)
        return has_cached_sample(p, r);
    add_payload_ids(&s, r);
    for (unsigned i = 0; i < s.pid_count; i++) {
        if (dump_wants_pid(p, s.pids[i]))
            return true;
    }
    for (unsigned i = 0; i < s.tid_count; i++) {
        if (dump_wants_tid(p, s.tids[i]))
            return true;
    }
    return false;
}

static bool gather_processes(dump *d, const etl_file *file, dump_processes *p)
{
    walker w;
    etl_record r;
    p->any = !d->processes->given;
    if (p->any)
        return true;
    (void)start_walk(&w, d, file, false, NULL, NULL);
    while (next_record(&w, &r)) {
        etl_process process;
        etl_thread thread;
        etl_family f = etl_record_family(&r);
        if (f == ETL_FAMILY_PROCESS && etl_decode_process(&r, &process))
            dump_saw_process(p, d, process.pid, process.image_name);
        else if ((f == ETL_FAMILY_THREAD || f == ETL_FAMILY_THREAD_NAME) &&
                 etl_decode_thread(&r, &thread))
            dump_saw_thread(p, thread.pid, thread.tid);
    }
    (void)end_walk(&w);
    return dump_end_gathering(p, d);
}

/* ------------------------------------------------------------------ events */

static void put_id(out *o, uint32_t id)
{
    out_bytes(o, " ", 1);
    if (id == ETL_NO_ID)
        out_bytes(o, "-", 1);
    else
        out_u64(o, id);
}

static void put_event_title(dump *d)
{
    out_text(d->o, "# event time raw cpu pid tid header kind opcode version length buffer offset "
                   "fields\n");
}

static void put_type(out *o, uint8_t type)
{
    const char *name = etl_record_type_name(type);
    if (name)
        out_text(o, name);
    else
        out_printf(o, "T%u", type);
}

static size_t wall_clock(char text[FILETIME_TEXT_SIZE], const etl_file *file, const etl_record *r)
{
    return filetime_text(text, etl_filetime(etl_get_header(file), r->time));
}

static void text_event(dump *d, const etl_file *file, const char *kind, const etl_record *r)
{
    char time[FILETIME_TEXT_SIZE];
    size_t time_len = wall_clock(time, file, r);
    out *o = d->o;
    out_bytes(o, "event ", 6);
    out_bytes(o, time, time_len);
    out_bytes(o, " ", 1);
    out_u64(o, r->time);
    out_bytes(o, " ", 1);
    out_u64(o, r->cpu);
    put_id(o, r->pid);
    put_id(o, r->tid);
    out_bytes(o, " ", 1);
    put_type(o, r->type);
    out_bytes(o, " ", 1);
    out_text(o, kind);
    out_bytes(o, " ", 1);
    out_u64(o, r->opcode);
    out_bytes(o, " ", 1);
    out_u64(o, r->version);
    out_bytes(o, " ", 1);
    out_u64(o, r->payload.len);
    out_bytes(o, " 0x", 3);
    out_hex(o, r->buffer_off);
    out_bytes(o, "+0x", 3);
    out_hex(o, r->offset);
    etl_dump_record_fields(o, NULL, r);
    out_bytes(o, "\n", 1);
}

static void member_id(dump *d, const char *key, uint32_t id)
{
    if (id != ETL_NO_ID)
        dump_member_u64(d, key, id);
}

static void json_identity(dump *d, const etl_record *r)
{
    char text[GUID_TEXT_SIZE];
    if (r->has_hook) {
        (void)snprintf(text, sizeof text, "0x%04X", r->hook);
        dump_member_text(d, "hook", text);
    } else {
        guid_text_lower(text, &r->guid);
        dump_member_text(d, "guid", text);
    }
    dump_member_u64(d, "opcode", r->opcode);
    if (r->type == ETL_EVENT32 || r->type == ETL_EVENT64)
        dump_member_u64(d, "id", r->id);
    dump_member_u64(d, "version", r->version);
}

static void json_event(dump *d, const etl_file *file, const char *kind, const etl_record *r)
{
    const char *type = etl_record_type_name(r->type);
    char number[8], time[FILETIME_TEXT_SIZE];
    (void)snprintf(number, sizeof number, "T%u", r->type);
    (void)wall_clock(time, file, r);
    dump_open_line(d, "event");
    dump_member_text(d, "time", time);
    dump_member_u64(d, "raw", r->time);
    dump_member_u64(d, "cpu", r->cpu);
    member_id(d, "pid", r->pid);
    member_id(d, "tid", r->tid);
    dump_member_text(d, "header", type ? type : number);
    dump_member_text(d, "kind", kind);
    json_identity(d, r);
    dump_member_u64(d, "length", r->payload.len);
    dump_member_u64(d, "buffer", r->buffer_off);
    dump_member_u64(d, "offset", r->offset);
    dump_open_fields(d);
    etl_dump_record_fields(d->o, &d->j, r);
    dump_close_fields(d);
    dump_close_line(d);
}

/* Cheap tests first: most events of a filtered dump are not wanted. */
static bool is_wanted(const dump *d, const etl_file *file, const etl_record *r,
                      const dump_processes *processes, char kind[ETL_KIND_NAME_SIZE])
{
    if (d->from.clock != DUMP_NO_LIMIT || d->to.clock != DUMP_NO_LIMIT) {
        const etl_header *h = etl_get_header(file);
        dump_time t = {etl_relative_ns(h, r->time), r->time, etl_filetime(h, r->time)};
        if (!dump_in_window(d, &t))
            return false;
    }
    if (!is_of_process(processes, r))
        return false;
    if (!d->show_events && !d->events->given)
        return true;
    etl_kind_name(kind, r);
    return dump_wants_event(d, text_str(kind), r->has_hook ? r->hook : UINT64_MAX);
}

/* False without memory. */
static bool put_tally(dump *d, const etl_tally *tally)
{
    if (!d->args->json) {
        out_text(d->o, "# header_type\thook_or_guid\topcode\tid\tversion\trecords\n");
        return etl_dump_tally(d->o, NULL, tally);
    }
    dump_open_line(d, "counts");
    bool complete = etl_dump_tally(d->o, &d->j, tally);
    dump_close_line(d);
    return complete;
}

/* Prints or counts the wanted records. */
static int run_events(dump *d, const etl_file *file, const dump_processes *processes, diag *found)
{
    walker w;
    etl_record r;
    spgo_error err;
    char kind[ETL_KIND_NAME_SIZE] = "";
    etl_tally *tally = d->show_counts ? etl_tally_new() : NULL;
    bool counted = !d->show_counts || tally;
    bool by_time = !d->in_file_order && !d->show_counts;

    if (start_walk(&w, d, file, by_time, found, &err) != SPGO_OK) {
        etl_tally_free(tally);
        return cli_fail(d->args, d->file, &err);
    }
    if (d->show_events && !d->args->json)
        put_event_title(d);
    while (counted && !d->o->failed && next_record(&w, &r)) {
        if (!is_wanted(d, file, &r, processes, kind))
            continue;
        d->shown++;
        if (tally)
            counted = etl_tally_add(tally, &r);
        else if (d->args->json)
            json_event(d, file, kind, &r);
        else
            text_event(d, file, kind, &r);
    }
    if (tally && !put_tally(d, tally))
        counted = false;
    etl_tally_free(tally);
    bool whole = end_walk(&w);
    if (!counted)
        cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET, "no memory to count the events");
    return !counted ? CLI_FAILED : whole ? CLI_OK : CLI_PARTIAL;
}

/* ------------------------------------------------------------------ the file */

static void put_header(dump *d, const etl_file *file)
{
    if (d->args->json) {
        dump_open_line(d, "header");
        dump_open_fields(d);
        etl_dump_header(d->o, &d->j, file);
        dump_close_fields(d);
        dump_close_line(d);
    } else {
        etl_dump_header(d->o, NULL, file);
        out_text(d->o, "\n");
    }
}

static void put_buffers(dump *d, const etl_file *file)
{
    for (size_t i = 0; i < etl_buffer_count(file) && !d->o->failed; i++) {
        if (d->args->json) {
            dump_open_line(d, "buffer");
            dump_open_fields(d);
            etl_dump_buffer(d->o, &d->j, file, i);
            dump_close_fields(d);
            dump_close_line(d);
        } else {
            etl_dump_buffer(d->o, NULL, file, i);
        }
    }
    if (!d->args->json)
        out_text(d->o, "\n");
}

static int dump_opened(dump *d, const etl_file *file, diag *found)
{
    dump_processes processes = {.any = false};
    int exit_code = CLI_OK;
    if (d->show_headers)
        put_header(d, file);
    if (d->show_buffers)
        put_buffers(d, file);
    if (d->show_events || d->show_counts) {
        if (gather_processes(d, file, &processes)) {
            exit_code = run_events(d, file, &processes, found);
        } else {
            cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET,
                        "no memory for the processes of the trace");
            exit_code = CLI_FAILED;
        }
    }
    dump_processes_free(&processes);
    return exit_code;
}

int dump_etl(dump *d)
{
    diag found = {.kept_count = 0};
    etl_file *file = NULL;
    spgo_error err;
    if (etl_open(d->bytes, &file, &found, &err) != SPGO_OK) {
        etl_close(file);
        (void)dump_report(d, &found);
        return cli_fail(d->args, d->file, &err);
    }
    os_input_release(d->in, d->bytes.len); /* indexing has touched all of the file */
    int exit_code = dump_opened(d, file, &found);
    int of_findings = dump_report(d, &found);
    etl_close(file);
    return exit_code != CLI_OK ? exit_code : of_findings;
}
