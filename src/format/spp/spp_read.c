/* Reading SPP files: see spp.h. */
#include <format/spp/spp.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/reader.h>

enum { TREE_CHUNKS_MAX = (1 << SPGO_SPP_EVENT_NODE_BITS) / SPGO_SPP_NODES_PER_CHUNK };

bool spp_is_file(spgo_span bytes)
{
    return bytes.len >= 8 && memcmp(bytes.ptr, SPGO_SPP_MAGIC, 8) == 0;
}

/* ------------------------------------------------------------------ header */

static spgo_str fixed_text(reader *r, size_t size)
{
    const uint8_t *p = reader_take(r, size);
    const uint8_t *nul = p ? memchr(p, 0, size) : NULL;
    return (spgo_str){(const char *)p, nul ? (size_t)(nul - p) : p ? size : 0};
}

static spgo_span words(reader *r, size_t size)
{
    const uint8_t *p = reader_take(r, size);
    size_t len = p ? size : 0;
    while (len > 0 && p[len - 1] == 0)
        len--;
    return (spgo_span){p, len < size && len > 0 ? len + 1 : len};
}

static void read_counters(reader *r, spp_header *h)
{
    h->pid = reader_u32(r);
    h->parent_pid = reader_u32(r);
    h->mode = reader_u32(r);
    h->os_events = reader_u32(r);
    h->clock = reader_u32(r);
    h->flags = reader_u32(r);
    reader_skip(r, 4); /* control */
    h->start_count = (int32_t)reader_u32(r);
    h->suspend_count = (int32_t)reader_u32(r);
    h->lost_threads = reader_u32(r);
    h->lost_events = reader_u64(r);
    h->clock_first = reader_u64(r);
    h->clock_first_ns = reader_u64(r);
    h->clock_last = reader_u64(r);
    h->clock_last_ns = reader_u64(r);
    h->start_wall_ns = reader_u64(r);
    h->end_clock = reader_u64(r);
    h->probe_inside = reader_u64(r);
    h->probe_outside = reader_u64(r);
}

static spgo_code read_header(spgo_span bytes, spp_header *h, spgo_error *err)
{
    reader r = reader_from(bytes, 0);
    if (!spp_is_file(bytes))
        return spgo_fail(err, SPGO_CORRUPT, "spp.header", 0,
                         "not an SPP file: it does not start with \"" SPGO_SPP_MAGIC "\"");
    reader_skip(&r, 8);
    const uint32_t version = reader_u32(&r);
    const uint32_t header_bytes = reader_u32(&r);
    const uint32_t chunk_bytes = reader_u32(&r);
    reader_skip(&r, 12); /* counts: the chunks themselves are believed */
    if (r.code == SPGO_OK &&
        (version != SPGO_SPP_VERSION || header_bytes != SPGO_SPP_HEADER_BYTES ||
         chunk_bytes != SPGO_SPP_CHUNK_BYTES))
        return spgo_fail(
            err, SPGO_UNSUPPORTED, "spp.header", 8,
            "version %u with a header of %u and chunks of %u bytes; this program reads "
            "version %d with %d and %d: use the one that came with the runtime",
            version, header_bytes, chunk_bytes, SPGO_SPP_VERSION, SPGO_SPP_HEADER_BYTES,
            SPGO_SPP_CHUNK_BYTES);
    read_counters(&r, h);
    h->program = fixed_text(&r, SPGO_SPP_PATH_BYTES);
    h->command = words(&r, SPGO_SPP_COMMAND_BYTES);
    h->name = fixed_text(&r, SPGO_SPP_NAME_BYTES);
    h->notice = fixed_text(&r, 256);
    return reader_finish(&r, "spp.header", err);
}

/* Two readings of both clocks. Those of a program that ended at once may be too close. */
static double tick_length(const spp_header *h)
{
    const uint64_t ticks = h->clock_last - h->clock_first;
    const uint64_t ns = h->clock_last_ns - h->clock_first_ns;
    const bool usable = h->clock_last > h->clock_first && h->clock_last_ns > h->clock_first_ns;
    return h->clock != SPGO_SPP_CLOCK_MONOTONIC && usable ? (double)ns / (double)ticks : 1.0;
}

/* ------------------------------------------------------------------ chunks */

typedef struct chunk {
    const uint8_t *at;
    uint16_t kind;
    uint32_t owner, sequence, used;
} chunk;

static chunk chunk_at(const uint8_t *p)
{
    return (chunk){.at = p,
                   .kind = load_u16(p + 4),
                   .owner = load_u32(p + 8),
                   .sequence = load_u32(p + 12),
                   .used = load_u32(p + 16)};
}

/* The chunk at an index of the file; false if there is none, or one that is not finished. */
static bool get_chunk(spgo_span bytes, size_t index, chunk *out, diag *d)
{
    const uint64_t off = SPGO_SPP_HEADER_BYTES + (uint64_t)index * SPGO_SPP_CHUNK_BYTES;
    const uint8_t *p = bytes.ptr + off;
    const uint32_t magic = load_u32(p);
    if (magic == 0)
        return false; /* given out, not begun */
    *out = chunk_at(p);
    if (magic != SPGO_SPP_CHUNK_MAGIC || out->used < SPGO_SPP_CHUNK_HEAD_BYTES ||
        out->used > SPGO_SPP_CHUNK_BYTES) {
        diag_add(d, SPGO_CORRUPT, off, "no chunk (magic 0x%08x, %u bytes used): left out", magic,
                 out->used);
        return false;
    }
    return true;
}

typedef struct tally {
    size_t tree_chunks, event_chunks;
} tally;

static size_t chunk_total(spgo_span bytes)
{
    return bytes.len < SPGO_SPP_HEADER_BYTES
               ? 0
               : (bytes.len - SPGO_SPP_HEADER_BYTES) / SPGO_SPP_CHUNK_BYTES;
}

/* ------------------------------------------------------------------ records of the process */

static void read_module(reader *r, spp_module *m)
{
    m->bias = reader_u64(r);
    m->begin = reader_u64(r);
    m->end = reader_u64(r);
    m->loaded = reader_u64(r);
    m->unloaded = reader_u64(r);
    const uint32_t id_bytes = reader_u32(r);
    reader_skip(r, 4);
    const uint8_t *id = reader_take(r, SPGO_SPP_BUILD_ID_BYTES + 4);
    m->build_id = (spgo_span){id, id_bytes <= SPGO_SPP_BUILD_ID_BYTES ? id_bytes : 0};
    m->path = fixed_text(r, SPGO_SPP_PATH_BYTES);
}

static void read_mark(reader *r, spp_mark *m)
{
    m->clock = reader_u64(r);
    m->id = (int64_t)reader_u64(r);
    m->kind = reader_u32(r);
    m->owner = reader_u32(r);
    m->comment = fixed_text(r, SPGO_SPP_COMMENT_BYTES);
}

/* All records of a kind, chunk after chunk in their order. */
static spgo_code read_records(spgo_span bytes, unsigned kind, size_t record_bytes, arena *mem,
                              spp_file *f, spgo_error *err)
{
    size_t n = 0, count = 0;
    chunk c;
    for (size_t i = 0; i < chunk_total(bytes); i++)
        if (get_chunk(bytes, i, &c, NULL) && c.kind == kind)
            n += (c.used - SPGO_SPP_CHUNK_HEAD_BYTES) / record_bytes;
    void *records = kind == SPGO_SPP_MODULES
                        ? (void *)(f->modules = arena_push(mem, n, sizeof *f->modules))
                        : (void *)(f->marks = arena_push(mem, n, sizeof *f->marks));
    if (!records)
        return spgo_fail_nomem(err, "spp records", n * record_bytes);
    for (size_t i = 0; i < chunk_total(bytes); i++) {
        if (!get_chunk(bytes, i, &c, NULL) || c.kind != kind)
            continue;
        reader r = reader_from(
            (spgo_span){c.at + SPGO_SPP_CHUNK_HEAD_BYTES, c.used - SPGO_SPP_CHUNK_HEAD_BYTES}, 0);
        while (reader_left(&r) >= record_bytes) {
            if (kind == SPGO_SPP_MODULES)
                read_module(&r, &f->modules[count++]);
            else
                read_mark(&r, &f->marks[count++]);
        }
    }
    *(kind == SPGO_SPP_MODULES ? &f->module_count : &f->mark_count) = count;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ threads */

static void read_thread(spp_thread *t, const uint8_t *first_chunk)
{
    reader r = reader_from(
        (spgo_span){first_chunk + SPGO_SPP_CHUNK_HEAD_BYTES, sizeof(spgo_spp_thread)}, 0);
    t->tid = reader_u32(&r);
    reader_skip(&r, 4);
    t->begin = reader_u64(&r);
    t->end = reader_u64(&r);
    t->last = reader_u64(&r);
    t->lost_events = reader_u64(&r);
    t->lost_exits = reader_u64(&r);
    t->stray_exits = reader_u64(&r);
    t->unknown_os = reader_u64(&r);
    t->off_cpu = reader_u64(&r);
    t->clock_steps = reader_u64(&r);
    t->deep_calls = reader_u64(&r);
    t->name = fixed_text(&r, SPGO_SPP_NAME_BYTES);
}

/* By owner, then kind, then sequence; of two alike the first in the file stays first. */
static int chunk_order(const void *pa, const void *pb)
{
    const chunk *a = pa, *b = pb;
    if (a->owner != b->owner)
        return a->owner < b->owner ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool add_tree(spp_thread *t, const chunk *c, size_t n, arena *mem, diag *d)
{
    t->tree_chunks = arena_push(mem, n, sizeof *t->tree_chunks);
    if (!t->tree_chunks)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (c[i].sequence != i) {
            diag_add(d, SPGO_CORRUPT, SPGO_NO_OFFSET,
                     "thread %u: part %zu of its tree is missing or there twice: what follows is "
                     "left out",
                     t->number, i);
            break;
        }
        t->tree_chunks[t->tree_chunk_count++] = c[i].at;
    }
    return true;
}

/* A chunk of a stream that was copied when the program was killed is there twice. */
static bool add_events(spp_thread *t, const chunk *c, size_t n, arena *mem)
{
    t->event_chunks = arena_push(mem, n, sizeof *t->event_chunks);
    if (!t->event_chunks)
        return false;
    for (size_t i = 0; i < n; i++) {
        const bool is_unused = c[i].sequence == UINT32_MAX;
        const bool is_again = i > 0 && c[i].sequence == c[i - 1].sequence;
        if (!is_unused && !is_again)
            t->event_chunks[t->event_chunk_count++] = c[i].at;
    }
    return true;
}

static spgo_code read_threads(spgo_span bytes, arena *mem, spp_file *f, diag *d, spgo_error *err)
{
    size_t n = 0, threads = 0;
    const size_t total = chunk_total(bytes);
    chunk *chunks = arena_push(mem, total, sizeof *chunks);
    if (!chunks)
        return spgo_fail_nomem(err, "spp chunks", total * sizeof *chunks);
    for (size_t i = 0; i < total; i++) {
        chunk c;
        if (!get_chunk(bytes, i, &c, d))
            continue;
        const bool of_thread = c.kind == SPGO_SPP_TREE || c.kind == SPGO_SPP_EVENTS;
        threads += c.kind == SPGO_SPP_TREE && c.sequence == 0;
        if (of_thread && c.owner > 0)
            chunks[n++] = c;
    }
    if (n > 0)
        qsort(chunks, n, sizeof *chunks, chunk_order);
    f->threads = arena_push(mem, threads, sizeof *f->threads);
    if (!f->threads)
        return spgo_fail_nomem(err, "spp threads", threads * sizeof *f->threads);
    for (size_t i = 0, end; i < n; i = end) {
        size_t trees = 0;
        for (end = i; end < n && chunks[end].owner == chunks[i].owner; end++)
            trees += chunks[end].kind == SPGO_SPP_TREE;
        if (trees == 0 || chunks[i].sequence != 0 || f->thread_count == threads)
            continue; /* nothing but events of nodes that are not known */
        spp_thread *t = &f->threads[f->thread_count++];
        t->number = chunks[i].owner;
        read_thread(t, chunks[i].at);
        if (!add_tree(t, chunks + i, trees, mem, d) ||
            !add_events(t, chunks + i + trees, end - i - trees, mem))
            return spgo_fail_nomem(err, "spp chunks", (end - i) * sizeof(void *));
    }
    return SPGO_OK;
}

spgo_code spp_open(spgo_span bytes, arena *mem, spp_file *out, diag *d, spgo_error *err)
{
    *out = (spp_file){0};
    SPGO_TRY(read_header(bytes, &out->header, err));
    out->ns_per_tick = tick_length(&out->header);
    if (bytes.len < SPGO_SPP_HEADER_BYTES)
        return spgo_fail(err, SPGO_TRUNCATED, "spp.header", bytes.len, "the header is cut short");
    /* A program that was killed leaves what it was just writing. */
    if (out->header.flags & SPGO_SPP_FINISHED &&
        (bytes.len - SPGO_SPP_HEADER_BYTES) % SPGO_SPP_CHUNK_BYTES != 0)
        diag_add(d, SPGO_TRUNCATED, bytes.len, "the file ends inside a chunk, which is left out");
    SPGO_TRY(read_records(bytes, SPGO_SPP_MODULES, sizeof(spgo_spp_module), mem, out, err));
    SPGO_TRY(read_records(bytes, SPGO_SPP_MARKS, sizeof(spgo_spp_mark), mem, out, err));
    return read_threads(bytes, mem, out, d, err);
}

/* ------------------------------------------------------------------ nodes */

uint32_t spp_node_count(const spp_thread *t)
{
    const size_t chunks =
        t->tree_chunk_count < TREE_CHUNKS_MAX ? t->tree_chunk_count : TREE_CHUNKS_MAX;
    return (uint32_t)chunks * SPGO_SPP_NODES_PER_CHUNK;
}

bool spp_node(const spp_thread *t, uint32_t number, spgo_spp_node *out)
{
    if (number >= spp_node_count(t) || number % SPGO_SPP_NODES_PER_CHUNK == 0 ||
        number < SPGO_SPP_ROOT)
        return false;
    const uint8_t *p = t->tree_chunks[number / SPGO_SPP_NODES_PER_CHUNK] +
                       (size_t)(number % SPGO_SPP_NODES_PER_CHUNK) * SPGO_SPP_NODE_BYTES;
    *out = (spgo_spp_node){.function = load_u64(p),
                           .parent = load_u32(p + 8),
                           .elapsed_exclusive = load_u64(p + 16),
                           .application_exclusive = load_u64(p + 24),
                           .calls = load_u64(p + 32),
                           .os_events = load_u32(p + 40),
                           .module = load_u32(p + 44),
                           .call_site = load_u64(p + 48),
                           .off_cpu = load_u64(p + 56)};
    for (int i = 0; i < 4; i++) {
        out->not_min[i] = load_u64(p + 64 + 8 * i);
        out->max[i] = load_u64(p + 96 + 8 * i);
    }
    const bool is_root = number == SPGO_SPP_ROOT;
    return is_root ? out->parent == 0
                   : out->parent >= SPGO_SPP_ROOT && out->parent < number &&
                         out->parent % SPGO_SPP_NODES_PER_CHUNK != 0;
}

/* ------------------------------------------------------------------ events */

spp_events spp_events_of(const spp_thread *t)
{
    return (spp_events){.thread = t, .is_gap = true};
}

static bool next_chunk(spp_events *e)
{
    const spp_thread *t = e->thread;
    if (e->chunk == t->event_chunk_count)
        return false;
    const uint8_t *p = t->event_chunks[e->chunk];
    const chunk c = chunk_at(p);
    const uint32_t lost = load_u32(p + 20);
    const uint64_t clock = load_u64(p + 24);
    e->is_gap = e->is_gap || e->chunk == 0 || c.sequence != e->next_sequence || lost > 0;
    e->lost += lost;
    e->clock = clock;
    e->next_sequence = c.sequence + 1;
    e->at = p + SPGO_SPP_CHUNK_HEAD_BYTES;
    e->end = p + c.used - (c.used - SPGO_SPP_CHUNK_HEAD_BYTES) % SPGO_SPP_EVENT_BYTES;
    e->chunk++;
    return true;
}

bool spp_next_event(spp_events *e, spp_event *out)
{
    const uint64_t before = e->clock;
    uint64_t later = 0;
    for (;;) {
        if (e->at == e->end) {
            if (!next_chunk(e))
                return false;
            later = e->is_gap ? 0 : later + (e->clock - before);
            continue;
        }
        const uint64_t word = load_u64(e->at);
        const unsigned kind = (unsigned)(word >> 62);
        e->at += SPGO_SPP_EVENT_BYTES;
        if (kind > SPGO_SPP_EXIT) {
            const uint64_t ticks = word & (UINT64_MAX >> 3);
            e->clock += ticks;
            later += ticks;
            continue;
        }
        e->clock += (uint32_t)word;
        *out = (spp_event){.kind = (uint8_t)kind,
                           .has_os_event = word >> 61 & 1,
                           .node = (uint32_t)(word >> 32) & ((1u << SPGO_SPP_EVENT_NODE_BITS) - 1),
                           .clock = e->clock,
                           .since = e->is_gap ? 0 : later + (uint32_t)word};
        e->is_gap = false;
        return true;
    }
}
