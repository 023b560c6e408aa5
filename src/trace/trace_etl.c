/*
 * ETL files of one session: the survey of who was where, and the samples in time order.
 *
 * A stack record says which event it belongs to by that event's time stamp and thread; only those
 * of samples are wanted. A stack can also come as a key whose frames are defined later. An LBR
 * record names its trigger by time stamp; the trigger is looked for among the last events of the
 * same processor.
 */
#include <trace/trace_internal.h>

#include <base/limits.h>
#include <base/reader.h>
#include <base/text.h>
#include <format/etl/etl.h>
#include <trace/image_ids.h>
#include <trace/recent.h>
#include <trace/stack_keys.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TRIGGERS_PER_CPU = 64,
    SOURCE_NUMBERS = 65536,
    /* Which branches a session left out, in an LBR record's options: everything but the kernel
     * (1) and user (2) bits breaks the chain from one branch to the next. */
    LBR_KINDS_LEFT_OUT = 0x3FC
};

#define KERNEL_START_32 UINT64_C(0x80000000)
#define KERNEL_START_64 (UINT64_C(1) << 63)

typedef struct cpu_triggers {
    struct {
        uint64_t time;
        uint32_t tid; /* ETL_NO_ID: the event does not say */
    } last[TRIGGERS_PER_CPU];
    uint32_t next;
} cpu_triggers;

struct etl_session {
    image_ids *ids;
    uint32_t *source_of; /* a profile source's number -> index in the trace's sources + 1 */
    uint32_t timer_source;
    etl_stream *stream;
    const etl_file **files; /* what the stream reads */
    cpu_triggers *triggers;
    uint32_t trigger_cpus;
    recent samples; /* kept only when there are stacks to tie to them */
    bool has_stacks;
    stack_keys *keys;
    const stack_waiter *waiter; /* of the key being defined, next to get its frames */
    etl_record defining;        /* the record that does */
    uint64_t bad_buffers;       /* that the survey met */
    uint64_t start_bytes;       /* of the run's progress, when the reading began */
};

void etl_session_free(session *s)
{
    struct etl_session *e = s->etl;
    if (!e)
        return;
    image_ids_free(e->ids);
    free(e->source_of);
    etl_stream_close(e->stream);
    free(e->files);
    free(e->triggers);
    recent_free(&e->samples);
    stack_keys_free(e->keys);
    free(e);
    s->etl = NULL;
}

/* ------------------------------------------------------------------ survey */

/* Sources that Windows numbers the same everywhere; traces before Windows 8 carry no names. */
static const char *usual_source_name(uint32_t number)
{
    switch (number) {
    case 0:
        return "Timer";
    case 2:
        return "TotalIssues";
    case 6:
        return "BranchInstructions";
    case 8:
        return "DcacheMisses";
    case 9:
        return "IcacheMisses";
    case 10:
        return "CacheMisses";
    case 11:
        return "BranchMispredictions";
    case 19:
        return "TotalCycles";
    default:
        return NULL;
    }
}

static uint32_t source_index(session *s, uint32_t number, spgo_str name, uint64_t interval)
{
    uint32_t *slot = &s->etl->source_of[number & (SOURCE_NUMBERS - 1)];
    if (*slot && interval == 0)
        return *slot - 1;
    char numbered[32];
    const char *usual = usual_source_name(number);
    if (name.len == 0 && usual)
        name = text_str(usual);
    if (*slot)
        name = trace_get_source(s->t, *slot - 1)->name;
    if (name.len == 0) {
        snprintf(numbered, sizeof numbered, "source %" PRIu32, number);
        name = text_str(numbered);
    }
    uint32_t index = trace_add_source(s->t, name, trace_counter_of_name(name), interval);
    if (index != TIMELINE_NONE)
        *slot = index + 1;
    return index;
}

static bool note_interval(session *s, const etl_record *r)
{
    etl_interval interval;
    char name[256];
    if (!etl_decode_interval(r, &interval)) {
        s->t->tally.bad_records++;
        return true;
    }
    spgo_str text = {name, text_from_utf16_into(name, sizeof name, interval.name)};
    return source_index(s, interval.source, text, interval.new_interval) != TIMELINE_NONE;
}

static bool is_kernel_addr(const etl_record *r, uint64_t addr)
{
    return addr >= (r->ptr_size == 8 ? KERNEL_START_64 : KERNEL_START_32);
}

/* Kernel images are one address space, whichever process a record names. */
static uint32_t space_of(const etl_record *r, uint64_t base, uint32_t pid)
{
    return is_kernel_addr(r, base) ? TIMELINE_KERNEL_PID : pid;
}

static void note_process(session *s, const etl_record *r, timeline_edge edge)
{
    etl_process p;
    if (etl_decode_process(r, &p))
        timeline_add_process(s->who, edge, r->time, p.pid, p.image_name, p.parent_pid, false);
    else
        s->t->tally.bad_records++;
}

static void note_thread(session *s, const etl_record *r, timeline_edge edge)
{
    etl_thread th;
    if (etl_decode_thread(r, &th))
        timeline_add_thread(s->who, edge, r->time, th.tid, th.pid);
    else
        s->t->tally.bad_records++;
}

static void note_image(session *s, const etl_record *r, timeline_edge edge)
{
    etl_image i;
    char path[1024];
    if (!etl_decode_image(r, &i)) {
        s->t->tally.bad_records++;
        return;
    }
    size_t len = text_from_utf16_into(path, sizeof path, i.file_name);
    timeline_add_image(s->who, &(timeline_image){.time = r->time,
                                                 .pid = space_of(r, i.base, i.pid),
                                                 .edge = edge,
                                                 .start = i.base,
                                                 .size = i.size,
                                                 .path = {path, len}});
}

static bool note_image_id(session *s, const etl_record *r)
{
    etl_image_id i;
    if (!etl_decode_image_id(r, &i)) {
        s->t->tally.bad_records++;
        return true;
    }
    return image_ids_add(s->etl->ids, i.base, space_of(r, i.base, i.pid), r->time, &i.id);
}

/* One record of the survey; false without memory. */
static bool survey_record(session *s, const etl_record *r)
{
    if (r->has_hook && r->ptr_size == 8)
        s->kernel_start = KERNEL_START_64;
    switch (etl_record_event(r)) {
    case ETL_EV_PROCESS_START:
        note_process(s, r, TIMELINE_START);
        break;
    case ETL_EV_PROCESS_END:
        note_process(s, r, TIMELINE_END);
        break;
    case ETL_EV_PROCESS_DC_START:
        note_process(s, r, TIMELINE_DC_START);
        break;
    case ETL_EV_PROCESS_DC_END:
        note_process(s, r, TIMELINE_DC_END);
        break;
    case ETL_EV_THREAD_START:
        note_thread(s, r, TIMELINE_START);
        break;
    case ETL_EV_THREAD_END:
        note_thread(s, r, TIMELINE_END);
        break;
    case ETL_EV_THREAD_DC_START:
        note_thread(s, r, TIMELINE_DC_START);
        break;
    case ETL_EV_THREAD_DC_END:
        note_thread(s, r, TIMELINE_DC_END);
        break;
    case ETL_EV_IMAGE_LOAD:
        note_image(s, r, TIMELINE_START);
        break;
    case ETL_EV_IMAGE_UNLOAD:
        note_image(s, r, TIMELINE_END);
        break;
    case ETL_EV_IMAGE_DC_START:
        note_image(s, r, TIMELINE_DC_START);
        break;
    case ETL_EV_IMAGE_DC_END:
        note_image(s, r, TIMELINE_DC_END);
        break;
    case ETL_EV_IMAGE_RSDS:
        return note_image_id(s, r);
    case ETL_EV_INTERVAL_SET:
    case ETL_EV_INTERVAL_DC_START:
    case ETL_EV_INTERVAL_DC_END:
        return note_interval(s, r);
    case ETL_EV_STACK:
    case ETL_EV_STACK_KEY_KERNEL:
    case ETL_EV_STACK_KEY_USER:
        s->etl->has_stacks = true;
        break;
    case ETL_EV_LOST_EVENT:
        s->t->tally.lost_events++;
        break;
    case ETL_EV_LOST_BUFFER:
    case ETL_EV_LOST_FILE:
        s->t->tally.lost_buffers++;
        break;
    default:
        break;
    }
    return true;
}

static spgo_code survey_file(session *s, trace_file *f, spgo_error *err)
{
    etl_walk w = etl_walk_new(f->etl, &f->input.findings);
    const uint64_t before = s->t->done_bytes;
    size_t n = etl_buffer_count(f->etl);
    spgo_code code = SPGO_OK;
    for (size_t i = 0; i < n && code == SPGO_OK; i++) {
        const etl_buffer *b = etl_get_buffer(f->etl, i);
        etl_record r;
        for (bool ok = etl_walk_buffer(&w, i); ok && etl_walk_next(&w, &r);) {
            s->t->tally.records++;
            ok = survey_record(s, &r);
            if (!ok)
                code = spgo_fail_nomem(err, "trace.etl", 1);
        }
        if (code == SPGO_OK && w.no_memory)
            code = spgo_fail_nomem(err, "trace.etl", b->data_end);
        os_input_release(f->bytes, b->offset);
        trace_report_progress(s->t, before + b->offset + b->size_bytes);
    }
    s->t->tally.bad_records += w.bad_records;
    s->t->tally.bad_buffers += w.bad_buffers;
    s->etl->bad_buffers += w.bad_buffers;
    etl_walk_free(&w);
    const etl_header *h = etl_get_header(f->etl);
    s->t->tally.lost_events += h->events_lost;
    s->t->tally.lost_buffers += h->buffers_lost;
    return code;
}

static bool learn_path(void *ctx, const timeline_image *image)
{
    image_ids *ids = ctx;
    const spgo_image_id *id = image_ids_take(ids, image->start, image->pid, image->time);
    return !id || image->path.len == 0 || image_ids_learn(ids, image->path, image->size, id);
}

static bool resolve_image(void *ctx, const timeline_image *image, uint32_t *which,
                          uint64_t *rva_of_start)
{
    session *s = ctx;
    image_ids *ids = s->etl->ids;
    const spgo_image_id *id = image_ids_take(ids, image->start, image->pid, image->time);
    if (!id)
        id = image_ids_of_path(ids, image->path, image->size);
    if (!id)
        id = image_ids_nearest(ids, image->start, image->pid, image->time);
    *which = module_table_add(s->t->modules, image->path, id);
    s->no_memory |= *which == TIMELINE_NONE;
    *rva_of_start = 0;
    s->t->tally.images++;
    s->t->tally.images_with_id += id != NULL;
    return *which != TIMELINE_NONE;
}

spgo_code etl_session_survey(session *s, spgo_error *err)
{
    struct etl_session *e = calloc(1, sizeof *e);
    if (!e)
        return spgo_fail_nomem(err, "trace.etl", sizeof *e);
    s->etl = e;
    e->ids = image_ids_new();
    e->source_of = calloc(SOURCE_NUMBERS, sizeof *e->source_of);
    if (!e->ids || !e->source_of)
        return spgo_fail_nomem(err, "trace.etl", SOURCE_NUMBERS * sizeof *e->source_of);
    s->kernel_start = KERNEL_START_32;
    e->timer_source = source_index(s, 0, text_str("Timer"), 0);
    if (e->timer_source == TIMELINE_NONE)
        return spgo_fail_nomem(err, "trace.etl", 1);
    for (size_t i = 0; i < s->file_count; i++)
        SPGO_TRY(survey_file(s, s->files[i], err));
    image_ids_seal(e->ids);
    if (!timeline_each_image(s->who, learn_path, e->ids))
        return spgo_fail_nomem(err, "trace.etl", 1);
    SPGO_TRY(timeline_seal(s->who, resolve_image, s, err));
    return s->no_memory ? spgo_fail_nomem(err, "trace.etl", 1) : SPGO_OK;
}

/* ------------------------------------------------------------------ reading */

spgo_code etl_session_start(session *s, spgo_error *err)
{
    struct etl_session *e = s->etl;
    e->files = calloc(s->file_count, sizeof *e->files);
    e->keys = stack_keys_new();
    e->triggers = calloc(LIMIT_ETL_CPUS, sizeof *e->triggers);
    e->trigger_cpus = LIMIT_ETL_CPUS;
    if (!e->files || !e->keys || !e->triggers || !recent_init(&e->samples))
        return spgo_fail_nomem(err, "trace.etl", LIMIT_ETL_CPUS * sizeof *e->triggers);
    for (size_t i = 0; i < s->file_count; i++) {
        e->files[i] = s->files[i]->etl;
        os_input_release(s->files[i]->bytes, 0);
    }
    e->start_bytes = s->t->done_bytes;
    return etl_stream_open(e->files, s->file_count, NULL, &e->stream, err);
}

static void note_trigger(struct etl_session *e, const etl_record *r, uint32_t tid)
{
    if (r->cpu >= e->trigger_cpus)
        return;
    cpu_triggers *c = &e->triggers[r->cpu];
    c->last[c->next % TRIGGERS_PER_CPU].time = r->time;
    c->last[c->next % TRIGGERS_PER_CPU].tid = tid;
    c->next++;
}

static bool has_trigger(const struct etl_session *e, uint16_t cpu, uint64_t time, uint32_t tid)
{
    if (cpu >= e->trigger_cpus)
        return false;
    const cpu_triggers *c = &e->triggers[cpu];
    uint32_t n = c->next < TRIGGERS_PER_CPU ? c->next : TRIGGERS_PER_CPU;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t at = (c->next - i) % TRIGGERS_PER_CPU;
        if (c->last[at].time == time && (c->last[at].tid == tid || c->last[at].tid == ETL_NO_ID))
            return true;
    }
    return false;
}

static uint32_t process_of_thread(const session *s, uint32_t tid, uint64_t time)
{
    uint32_t pid;
    if (!timeline_pid_of_thread(s->who, tid, time, &pid))
        return TIMELINE_NONE;
    return timeline_process_at(s->who, pid, time);
}

static uint32_t process_of(const session *s, uint32_t pid, uint32_t tid, uint64_t time)
{
    uint32_t process =
        pid == TIMELINE_KERNEL_PID ? TIMELINE_NONE : timeline_process_at(s->who, pid, time);
    return process != TIMELINE_NONE ? process : process_of_thread(s, tid, time);
}

static bool add_ip(session *s, trace_batch *batch, const etl_record *r, const etl_sample *sample,
                   uint32_t source)
{
    if (source == TIMELINE_NONE)
        return false;
    note_trigger(s->etl, r, sample->tid);
    if (s->etl->has_stacks)
        recent_add(&s->etl->samples, r->time, sample->tid);
    trace_sample out = {.time = r->time,
                        .hits = sample->count ? sample->count : 1,
                        .process = process_of_thread(s, sample->tid, r->time),
                        .part = TRACE_IP,
                        .counter = (uint8_t)trace_note_sample(s->t, source),
                        .flags = sample->flags & 3 ? TRACE_INTERRUPT : 0};
    uint64_t *addr = batch_add(batch, &out, 1);
    if (addr)
        *addr = sample->ip;
    return addr != NULL;
}

static bool add_profile(session *s, trace_batch *batch, const etl_record *r)
{
    etl_sample sample;
    if (!etl_decode_sample(r, &sample))
        return true;
    s->t->tally.timer_samples++;
    return add_ip(s, batch, r, &sample, s->etl->timer_source);
}

static bool add_cached_profiles(session *s, trace_batch *batch, const etl_record *r)
{
    size_t n = etl_sample_cache_count(r);
    for (size_t i = 0; i < n; i++) {
        etl_sample sample;
        if (!etl_decode_cached_sample(r, i, &sample))
            continue;
        s->t->tally.timer_samples++;
        if (!add_ip(s, batch, r, &sample, s->etl->timer_source))
            return false;
    }
    return true;
}

static bool add_pmc(session *s, trace_batch *batch, const etl_record *r)
{
    etl_sample sample;
    if (!etl_decode_sample(r, &sample))
        return true;
    s->t->tally.pmc_samples++;
    return add_ip(s, batch, r, &sample, source_index(s, sample.source, (spgo_str){NULL, 0}, 0));
}

static uint64_t load_ptr(const uint8_t *p, unsigned ptr_size)
{
    return ptr_size == 8 ? load_u64(p) : load_u32(p);
}

static bool add_lbr(session *s, trace_batch *batch, const etl_record *r)
{
    etl_lbr lbr;
    if (!etl_decode_lbr(r, &lbr))
        return true;
    s->t->tally.lbr_records++;
    s->t->tally.lbr_entries += lbr.branch_count;
    s->t->tally.lbr_with_trigger += has_trigger(s->etl, r->cpu, lbr.time, lbr.tid);
    trace_sample out = {.time = lbr.time,
                        .hits = 1,
                        .process = process_of(s, lbr.pid, lbr.tid, lbr.time),
                        .part = TRACE_BRANCHES,
                        .flags = lbr.options & LBR_KINDS_LEFT_OUT ? TRACE_GAPS : 0};
    uint64_t *addrs = batch_add(batch, &out, 2 * lbr.branch_count);
    if (!addrs)
        return false;
    const uint8_t *p = lbr.branches.ptr;
    for (size_t i = 0; i < lbr.branch_count; i++, p += 3 * (size_t)r->ptr_size) {
        addrs[2 * i] = load_ptr(p, r->ptr_size);
        addrs[2 * i + 1] = load_ptr(p + r->ptr_size, r->ptr_size);
    }
    return true;
}

static bool add_frames(trace_batch *batch, const etl_record *r, const etl_stack *stack,
                       uint32_t process, uint64_t time, uint64_t hits)
{
    trace_sample out = {.time = time, .hits = hits, .process = process, .part = TRACE_STACK};
    uint64_t *addrs = batch_add(batch, &out, stack->frame_count);
    for (size_t i = 0; addrs && i < stack->frame_count; i++)
        addrs[i] = load_ptr(stack->frames.ptr + i * r->ptr_size, r->ptr_size);
    return addrs != NULL;
}

static bool is_tied(session *s, const etl_stack *stack)
{
    s->t->tally.stacks++;
    if (recent_has(&s->etl->samples, stack->time, stack->tid))
        return true;
    s->t->tally.stacks_untied++;
    return false;
}

static bool add_stack(session *s, trace_batch *batch, const etl_record *r)
{
    etl_stack stack;
    if (!etl_decode_stack(r, &stack) || !is_tied(s, &stack))
        return true;
    uint32_t process = process_of(s, stack.pid, stack.tid, stack.time);
    return add_frames(batch, r, &stack, process, stack.time, 1);
}

static bool use_stack_key(session *s, const etl_record *r)
{
    etl_stack stack;
    if (!etl_decode_stack(r, &stack) || !is_tied(s, &stack))
        return true;
    uint32_t process = process_of(s, stack.pid, stack.tid, stack.time);
    if (!stack_keys_use(s->etl->keys, stack.key, process, stack.time))
        s->t->tally.stacks_undefined++;
    return !stack_keys_no_memory(s->etl->keys);
}

/* Gives the frames of the key being defined to those that wait for it, as many as the batch takes:
 * a key that thousands of processes used goes on in the next one. */
static bool serve_waiters(session *s, trace_batch *batch)
{
    struct etl_session *e = s->etl;
    etl_stack stack;
    bool ok = e->waiter && etl_decode_stack(&e->defining, &stack);
    for (; ok && e->waiter && !batch_is_full(batch);
         e->waiter = stack_keys_next(e->keys, e->waiter))
        ok = add_frames(batch, &e->defining, &stack, e->waiter->process, e->waiter->time,
                        e->waiter->hits);
    if (!e->waiter)
        stack_keys_done(e->keys);
    return ok;
}

static bool define_stack_key(session *s, trace_batch *batch, const etl_record *r)
{
    struct etl_session *e = s->etl;
    etl_stack stack;
    if (!etl_decode_stack(r, &stack))
        return true;
    e->waiter = stack_keys_take(e->keys, stack.key);
    e->defining = *r;
    return !e->waiter || serve_waiters(s, batch);
}

/* One record of the reading; false without memory. */
static bool read_record(session *s, trace_batch *batch, const etl_record *r)
{
    switch (etl_record_event(r)) {
    case ETL_EV_SAMPLED_PROFILE:
        return add_profile(s, batch, r);
    case ETL_EV_SAMPLED_CACHE:
        return add_cached_profiles(s, batch, r);
    case ETL_EV_PMC_INTERRUPT:
        return add_pmc(s, batch, r);
    case ETL_EV_LBR:
        return add_lbr(s, batch, r);
    case ETL_EV_STACK:
        return add_stack(s, batch, r);
    case ETL_EV_STACK_KEY_KERNEL:
    case ETL_EV_STACK_KEY_USER:
        return use_stack_key(s, r);
    case ETL_EV_STACK_KEY_DELETE:
    case ETL_EV_STACK_KEY_RUNDOWN:
        return define_stack_key(s, batch, r);
    case ETL_EV_CSWITCH:
        s->t->tally.context_switches++;
        note_trigger(s->etl, r, ETL_NO_ID);
        return true;
    case ETL_EV_SYSCALL_ENTER:
        note_trigger(s->etl, r, ETL_NO_ID);
        return true;
    default:
        return true;
    }
}

/* Gives back what all processors have passed and says how far the reading is. */
static void release_read(session *s)
{
    uint64_t done = 0;
    for (size_t i = 0; i < s->file_count; i++) {
        uint64_t until = etl_stream_done_until(s->etl->stream, i);
        os_input_release(s->files[i]->bytes, until);
        done += until;
    }
    trace_report_progress(s->t, s->etl->start_bytes + done);
}

static void finish_reading(session *s, spgo_error *err)
{
    struct etl_session *e = s->etl;
    uint64_t bad = etl_stream_bad_buffers(e->stream);
    s->t->tally.stacks_undefined += stack_keys_waiting(e->keys);
    if (bad > e->bad_buffers) /* good ones, but more at a time than may be expanded */
        s->t->tally.bad_buffers += bad - e->bad_buffers;
    if (etl_stream_no_memory(e->stream))
        spgo_fail_nomem(err, "trace.etl", 1);
}

bool etl_session_read(session *s, trace_batch *batch, spgo_error *err)
{
    struct etl_session *e = s->etl;
    etl_record r;
    size_t file;
    while (!batch_is_full(batch)) {
        bool is_serving = e->waiter != NULL; /* the record of before is not done yet */
        if (!is_serving && !etl_stream_next(e->stream, &r, &file)) {
            finish_reading(s, err);
            return false;
        }
        if (!(is_serving ? serve_waiters(s, batch) : read_record(s, batch, &r))) {
            spgo_fail_nomem(err, "trace.etl", batch->addr_cap * sizeof *batch->addrs);
            return false;
        }
    }
    release_read(s);
    return true;
}
