/*
 * A perf.data recording: the survey of who was where, and the samples in file order.
 *
 * When every event records time and every record carries it, time orders them; otherwise the
 * place in the file does. A forked child begins with its parent's images, an exec begins anew.
 */
#include <trace/trace_internal.h>

#include <base/guid.h>
#include <base/limits.h>
#include <base/text.h>
#include <format/perfdata/perfdata.h>
#include <trace/elf_images.h>

#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_TIME = 1 << 2, /* PERF_SAMPLE_TIME */
    BRANCH_ANY = 1 << 3,  /* PERF_SAMPLE_BRANCH_ANY */
    FLAG_SAMPLE_ID_ALL = 1 << 18,
    PROT_EXECUTE = 4
};
#define CONTEXT_MARKER_MIN ((uint64_t)-4095) /* PERF_CONTEXT_MAX */
#define KERNEL_ADDRESSES (UINT64_C(1) << 63)

/* A build-id that some mapping carries; its index is the mapping's tag - 1. */
typedef struct mapped_id {
    spgo_image_id id;
} mapped_id;

/* A build-id of the header by its path. */
typedef struct recorded_path {
    spgo_str path;
    size_t index;
} recorded_path;

struct perfdata_session {
    bool by_time, is_order_known;
    bool no_memory; /* for a build-id */
    mapped_id *ids;
    size_t id_count, id_cap;
    recorded_path *recorded; /* the build-ids of the header, sorted; NULL before it is needed */
    size_t recorded_count;
    elf_images *images;
    perfdata_walk *walk;
    uint32_t *source_of; /* index of an attribute -> index of a source + 1 */
    size_t source_cap;
    uint64_t start_bytes;
};

void perfdata_session_free(session *s)
{
    struct perfdata_session *p = s->perfdata;
    if (!p)
        return;
    free(p->ids);
    free(p->recorded);
    elf_images_free(p->images);
    perfdata_walk_free(p->walk);
    free(p->source_of);
    free(p);
    s->perfdata = NULL;
}

/* ------------------------------------------------------------------ survey */

static bool all_have_time(const perfdata *data)
{
    size_t n = perfdata_attr_count(data);
    for (size_t i = 0; i < n; i++) {
        const perfdata_attr *a = perfdata_get_attr(data, i);
        if (!(a->sample_type & SAMPLE_TIME) || !(a->flags & FLAG_SAMPLE_ID_ALL))
            return false;
    }
    return n > 0;
}

/* What orders this record among the others. */
static uint64_t order_of(session *s, const perfdata_record *r, uint64_t time_ns)
{
    struct perfdata_session *p = s->perfdata;
    if (!p->is_order_known) {
        p->is_order_known = true;
        p->by_time = all_have_time(s->files[0]->perfdata);
    }
    return p->by_time ? time_ns : r->offset;
}

static spgo_image_id id_from_build_id(const uint8_t *build_id, size_t size)
{
    spgo_image_id id = {{{0}}, 0};
    memcpy(id.guid.bytes, build_id, size < 16 ? size : 16);
    return id;
}

/* The tag of a build-id: equal ones share it; 0 for none or without memory. */
static uint64_t tag_of(struct perfdata_session *p, const perfdata_mmap *m)
{
    if (m->build_id_size == 0)
        return 0;
    spgo_image_id id = id_from_build_id(m->build_id, m->build_id_size);
    for (size_t i = p->id_count; i-- > 0 && p->id_count - i < 256;) {
        if (image_id_equal(&p->ids[i].id, &id))
            return i + 1;
    }
    if (p->id_count == p->id_cap) {
        size_t cap = p->id_cap ? p->id_cap * 2 : 64;
        mapped_id *grown = realloc(p->ids, cap * sizeof *grown);
        if (!grown) {
            p->no_memory = true;
            return 0;
        }
        p->ids = grown;
        p->id_cap = cap;
    }
    p->ids[p->id_count++].id = id;
    return p->id_count;
}

/* Memory that no image stands behind. */
static bool is_image_path(spgo_str path)
{
    static const char *const others[] = {"//anon*", "[heap*",       "[stack*",
                                         "[anon*",  "/dev/*",       "/memfd:*",
                                         "/SYSV*",  "anon_inode:*", "/anon_hugepage*"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (text_match(text_str(others[i]), path))
            return false;
    }
    return path.len > 0;
}

/* The kernel's own map is named after the symbol it starts at: "[kernel.kallsyms]_text". */
static spgo_str kernel_name(spgo_str path)
{
    const char *end = path.len && path.ptr[0] == '[' ? memchr(path.ptr, ']', path.len) : NULL;
    return end ? (spgo_str){path.ptr, (size_t)(end - path.ptr) + 1} : path;
}

static void note_mmap(session *s, const perfdata_record *r)
{
    perfdata_mmap m;
    if (!perfdata_decode_mmap(s->files[0]->perfdata, r, &m)) {
        s->t->tally.bad_records++;
        return;
    }
    if (m.is_data || !(m.prot & PROT_EXECUTE) || !is_image_path(m.path))
        return;
    timeline_image image = {.time = order_of(s, r, m.sid.time_ns),
                            .pid = m.is_kernel ? TIMELINE_KERNEL_PID : m.pid,
                            .edge = TIMELINE_START,
                            .start = m.addr,
                            .size = m.len,
                            .path = m.is_kernel ? kernel_name(m.path) : m.path,
                            .file_off = m.pgoff,
                            .tag = tag_of(s->perfdata, &m)};
    timeline_add_image(s->who, &image);
}

static void note_comm(session *s, const perfdata_record *r)
{
    perfdata_comm c;
    if (!perfdata_decode_comm(s->files[0]->perfdata, r, &c)) {
        s->t->tally.bad_records++;
        return;
    }
    if (c.pid != c.tid)
        return; /* a thread's own name */
    uint64_t when = order_of(s, r, c.sid.time_ns);
    if (c.is_exec)
        timeline_add_process(s->who, TIMELINE_START, when, c.pid, c.comm, 0, false);
    else
        timeline_add_process(s->who, TIMELINE_DC_START, when, c.pid, c.comm, 0, false);
}

static void note_fork(session *s, const perfdata_record *r)
{
    perfdata_task t;
    if (!perfdata_decode_task(s->files[0]->perfdata, r, &t)) {
        s->t->tally.bad_records++;
        return;
    }
    if (t.pid != t.ppid) /* else a new thread */
        timeline_add_process(s->who, TIMELINE_START, order_of(s, r, t.time_ns), t.pid,
                             (spgo_str){NULL, 0}, t.ppid, true);
}

static void note_lost(session *s, const perfdata_record *r)
{
    uint64_t lost;
    if (perfdata_decode_lost(s->files[0]->perfdata, r, &lost))
        s->t->tally.lost_events += lost;
}

static void survey_record(session *s, const perfdata_record *r)
{
    switch (r->type) {
    case PERFDATA_RECORD_MMAP:
    case PERFDATA_RECORD_MMAP2:
        note_mmap(s, r);
        break;
    case PERFDATA_RECORD_COMM:
        note_comm(s, r);
        break;
    case PERFDATA_RECORD_FORK:
        note_fork(s, r);
        break;
    case PERFDATA_RECORD_LOST:
    case PERFDATA_RECORD_LOST_SAMPLES:
        note_lost(s, r);
        break;
    default:
        break;
    }
}

static int by_path(const void *left, const void *right)
{
    const recorded_path *a = left, *b = right;
    size_t common = a->path.len < b->path.len ? a->path.len : b->path.len;
    int order = common ? memcmp(a->path.ptr, b->path.ptr, common) : 0;
    if (order == 0)
        order = (a->path.len > b->path.len) - (a->path.len < b->path.len);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static bool sort_recorded(struct perfdata_session *p, const perfdata *data)
{
    size_t n = perfdata_build_id_count(data);
    if (p->recorded || n == 0)
        return n > 0;
    p->recorded = malloc(n * sizeof *p->recorded);
    p->no_memory |= !p->recorded;
    if (!p->recorded)
        return false;
    for (size_t i = 0; i < n; i++)
        p->recorded[i] = (recorded_path){kernel_name(perfdata_get_build_id(data, i)->path), i};
    qsort(p->recorded, n, sizeof *p->recorded, by_path);
    p->recorded_count = n;
    return true;
}

/* The first build-id that the header has for this path. */
static bool recorded_id(struct perfdata_session *p, const perfdata *data, spgo_str path,
                        spgo_image_id *id)
{
    if (!sort_recorded(p, data))
        return false;
    const recorded_path wanted = {path, 0};
    size_t low = 0, high = p->recorded_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_path(&p->recorded[mid], &wanted) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == p->recorded_count || !text_equal(p->recorded[low].path, path))
        return false;
    const perfdata_build_id *b = perfdata_get_build_id(data, p->recorded[low].index);
    *id = id_from_build_id(b->id, b->size);
    return true;
}

static bool resolve_image(void *ctx, const timeline_image *image, uint32_t *which,
                          uint64_t *rva_of_start)
{
    session *s = ctx;
    struct perfdata_session *p = s->perfdata;
    spgo_image_id recorded, id;
    bool is_recorded = image->tag != 0;
    if (is_recorded)
        recorded = p->ids[image->tag - 1].id;
    else
        is_recorded = recorded_id(p, s->files[0]->perfdata, image->path, &recorded);
    bool has_id;
    elf_images_resolve(p->images, image->path, image->file_off, image->size,
                       is_recorded ? &recorded : NULL, &id, &has_id, rva_of_start);
    if (image->pid == TIMELINE_KERNEL_PID) /* file_off is the address of the kernel's start */
        *rva_of_start = image->file_off ? image->start - image->file_off : 0;
    *which = module_table_add(s->t->modules, image->path, has_id ? &id : NULL);
    s->t->tally.images++;
    s->t->tally.images_with_id += has_id;
    s->no_memory |= *which == TIMELINE_NONE || elf_images_failed(p->images);
    return *which != TIMELINE_NONE;
}

static spgo_code survey_all(session *s, spgo_error *err)
{
    trace_file *f = s->files[0];
    perfdata_walk *w;
    perfdata_record r;
    const uint64_t before = s->t->done_bytes;
    SPGO_TRY(perfdata_walk_new(f->perfdata, &f->input.findings, &w, err));
    for (uint64_t n = 0; perfdata_walk_next(w, &r); n++) {
        s->t->tally.records++;
        survey_record(s, &r);
        if ((n & 4095) == 0) {
            os_input_release(f->bytes, r.offset);
            trace_report_progress(s->t, before + r.offset);
        }
    }
    s->t->tally.bad_records += perfdata_walk_bad_records(w);
    perfdata_walk_free(w);
    trace_report_progress(s->t, before + os_input_bytes(f->bytes).len);
    if (perfdata_no_memory(f->perfdata))
        return spgo_fail_nomem(err, "trace.perfdata", 1);
    return SPGO_OK;
}

spgo_code perfdata_session_survey(session *s, spgo_error *err)
{
    trace_file *f = s->files[0];
    struct perfdata_session *p = calloc(1, sizeof *p);
    if (!p)
        return spgo_fail_nomem(err, "trace.perfdata", sizeof *p);
    s->perfdata = p;
    s->kernel_start = KERNEL_ADDRESSES;
    p->images = elf_images_new(f->input.path, s->t->opts.image_dirs, s->t->opts.image_dir_count,
                               &f->input.findings);
    if (!p->images)
        return spgo_fail_nomem(err, "trace.perfdata", 1);
    SPGO_TRY(survey_all(s, err));
    SPGO_TRY(timeline_seal(s->who, resolve_image, s, err));
    return s->no_memory || p->no_memory ? spgo_fail_nomem(err, "trace.perfdata", 1) : SPGO_OK;
}

/* ------------------------------------------------------------------ reading */

spgo_code perfdata_session_start(session *s, spgo_error *err)
{
    s->perfdata->start_bytes = s->t->done_bytes;
    return perfdata_walk_new(s->files[0]->perfdata, NULL, &s->perfdata->walk, err);
}

/* What a generic hardware, software or cache event counts, whatever it is called. */
static trace_counter counter_of_attr(const perfdata_attr *a)
{
    enum { HARDWARE = 0, SOFTWARE = 1, CACHE = 3 };
    enum { MISSED_READS = 0x10000, L1D = 0, L1I = 1 };
    if (a->type == HARDWARE && a->config == 0)
        return TRACE_COUNTER_CYCLES;
    if (a->type == HARDWARE && a->config == 1)
        return TRACE_COUNTER_INSTRUCTIONS;
    if (a->type == HARDWARE && a->config == 4)
        return TRACE_COUNTER_BRANCHES;
    if (a->type == SOFTWARE && a->config <= 1) /* CPU clock, task clock */
        return TRACE_COUNTER_TIMER;
    if (a->type == CACHE && a->config == (MISSED_READS | L1I))
        return TRACE_COUNTER_ICACHE_MISSES;
    if (a->type == CACHE && a->config == (MISSED_READS | L1D))
        return TRACE_COUNTER_DCACHE_MISSES;
    return trace_counter_of_name(a->name);
}

static uint32_t source_of_attr(session *s, size_t attr)
{
    struct perfdata_session *p = s->perfdata;
    const perfdata_attr *a = perfdata_get_attr(s->files[0]->perfdata, attr);
    if (!a)
        return trace_add_source(s->t, text_str("unknown event"), TRACE_COUNTER_OTHER, 0);
    if (attr >= p->source_cap) {
        size_t cap = attr + 16;
        uint32_t *grown = realloc(p->source_of, cap * sizeof *grown);
        if (!grown)
            return TIMELINE_NONE;
        memset(grown + p->source_cap, 0, (cap - p->source_cap) * sizeof *grown);
        p->source_of = grown;
        p->source_cap = cap;
    }
    if (p->source_of[attr] == 0) {
        static const char *const usual[] = {"other event",  "timer",    "cycles",
                                            "instructions", "branches", "icache misses",
                                            "dcache misses"};
        trace_counter counter = counter_of_attr(a);
        spgo_str name = a->name.len ? a->name : text_str(usual[counter]);
        p->source_of[attr] = trace_add_source(s->t, name, counter, a->sample_period) + 1;
    }
    return p->source_of[attr] - 1;
}

static bool add_ip(session *s, trace_batch *batch, const perfdata_sample *sample, trace_sample *out)
{
    uint32_t source = source_of_attr(s, sample->attr_index);
    if (source == TIMELINE_NONE)
        return false;
    out->part = TRACE_IP;
    out->counter = (uint8_t)trace_note_sample(s->t, source);
    if (out->counter == TRACE_COUNTER_TIMER)
        s->t->tally.timer_samples++;
    else
        s->t->tally.pmc_samples++;
    uint64_t *addr = batch_add(batch, out, 1);
    if (addr)
        *addr = sample->ip;
    return addr != NULL;
}

static bool add_branches(session *s, trace_batch *batch, const perfdata_sample *sample,
                         trace_sample *out)
{
    const perfdata *data = s->files[0]->perfdata;
    const perfdata_attr *a = perfdata_get_attr(data, sample->attr_index);
    out->part = TRACE_BRANCHES;
    out->flags =
        a && a->branch_sample_type && !(a->branch_sample_type & BRANCH_ANY) ? TRACE_GAPS : 0;
    s->t->tally.lbr_records++;
    s->t->tally.lbr_with_trigger++; /* one record holds both */
    s->t->tally.lbr_entries += sample->branch_count;
    uint64_t *addrs = batch_add(batch, out, 2 * sample->branch_count);
    if (!addrs)
        return false;
    const uint8_t *p = sample->branches.ptr;
    const bool is_big = perfdata_is_big_endian(data);
    for (size_t i = 0; i < sample->branch_count; i++, p += 24) {
        addrs[2 * i] = perfdata_word(is_big, p);
        addrs[2 * i + 1] = perfdata_word(is_big, p + 8);
    }
    out->flags = 0;
    return true;
}

static bool add_stack(session *s, trace_batch *batch, const perfdata_sample *sample,
                      trace_sample *out)
{
    out->part = TRACE_STACK;
    s->t->tally.stacks++;
    uint64_t *addrs = batch_add(batch, out, sample->callchain_count);
    if (!addrs)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < sample->callchain_count; i++) {
        uint64_t frame = perfdata_u64(s->files[0]->perfdata, sample->callchain.ptr + 8 * i);
        if (frame < CONTEXT_MARKER_MIN)
            addrs[n++] = frame;
    }
    batch->samples[batch->count - 1].addr_count = (uint32_t)n;
    return true;
}

static bool read_sample(session *s, trace_batch *batch, const perfdata_record *r)
{
    perfdata_sample sample;
    if (!perfdata_decode_sample(s->files[0]->perfdata, r, &sample)) {
        s->t->tally.bad_records++;
        return true;
    }
    uint64_t when = order_of(s, r, sample.sid.time_ns);
    bool has_pid = sample.sid.pid != TIMELINE_KERNEL_PID; /* -1: of a task that is gone */
    trace_sample out = {.time = when,
                        .hits = 1,
                        .process = has_pid ? timeline_process_at(s->who, sample.sid.pid, when)
                                           : TIMELINE_NONE};
    if (sample.has_ip && !add_ip(s, batch, &sample, &out))
        return false;
    if (sample.branch_count && !add_branches(s, batch, &sample, &out))
        return false;
    return sample.callchain_count == 0 || add_stack(s, batch, &sample, &out);
}

bool perfdata_session_read(session *s, trace_batch *batch, spgo_error *err)
{
    struct perfdata_session *p = s->perfdata;
    trace_file *f = s->files[0];
    perfdata_record r = {0};
    while (!batch_is_full(batch)) {
        if (!perfdata_walk_next(p->walk, &r)) {
            if (perfdata_no_memory(f->perfdata))
                spgo_fail_nomem(err, "trace.perfdata", 1);
            return false;
        }
        if (r.type == PERFDATA_RECORD_SWITCH)
            s->t->tally.context_switches++;
        if (r.type == PERFDATA_RECORD_SAMPLE && !read_sample(s, batch, &r)) {
            spgo_fail_nomem(err, "trace.perfdata", batch->addr_cap * sizeof *batch->addrs);
            return false;
        }
    }
    os_input_release(f->bytes, r.offset);
    trace_report_progress(s->t, p->start_bytes + r.offset);
    return true;
}
