/*
 * Records of several files in time order. Buffers wait, sorted by the time of their first record;
 * one joins the merge when the merge has reached that time, and leaves it at its end. So nothing
 * is assumed of the order of buffers in the file, and as one processor's buffers do not overlap,
 * the merge is as wide as there are processors.
 *
 * Inside a buffer records are in time order, but for sessions without per-processor buffers: there,
 * and from any step back on, the rest of the buffer is sorted first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/limits.h>
#include <format/etl/etl_internal.h>

/* A buffer that waits. The fields are those of the merge's order. */
typedef struct waiting {
    uint64_t time, sequence;
    uint32_t file, buffer;
    uint16_t cpu;
} waiting;

typedef struct place {
    uint64_t time;
    uint32_t pos;
} place;

/* A buffer in the merge, at its next record. */
typedef struct slot {
    etl_walk walk;
    etl_record record;
    waiting from;
    place *sorted; /* the rest of a buffer that was out of order, or NULL */
    size_t sorted_count, sorted_next;
} slot;

typedef struct file_state {
    const etl_file *file;
    bool *is_done; /* per buffer */
    size_t first_undone;
} file_state;

struct etl_stream {
    file_state *files;
    size_t file_count;
    waiting *queue;
    size_t queue_count, queue_next;
    slot **heap; /* the first heap_count are the merge, those behind are idle */
    size_t heap_count, slot_count, slot_cap;
    bool delivered; /* heap[0]'s record was given out */
    uint64_t expanded_bytes;
    uint64_t bad_records, bad_buffers; /* of buffers that have left the merge */
    uint64_t steps_back;
    bool no_memory;
    diag *d;
};

/* ------------------------------------------------------------------ order */

static int compare_places_of_equal_time(const waiting *a, const waiting *b)
{
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static int compare_waiting(const void *a, const void *b)
{
    const waiting *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return compare_places_of_equal_time(x, y);
}

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

static bool before(const slot *a, const slot *b)
{
    if (a->record.time != b->record.time)
        return a->record.time < b->record.time;
    return compare_places_of_equal_time(&a->from, &b->from) < 0;
}

static void sift_down(etl_stream *s)
{
    slot *moving = s->heap[0];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count && before(s->heap[child + 1], s->heap[child]))
            child++;
        if (!before(s->heap[child], moving))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = moving;
}

/* heap[heap_count] joins the merge. */
static void sift_up(etl_stream *s)
{
    size_t at = s->heap_count++;
    slot *moving = s->heap[at];
    while (at > 0 && before(moving, s->heap[(at - 1) / 2])) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = moving;
}

/* ------------------------------------------------------------------ one buffer */

static void sorted_append(slot *t, size_t *cap, bool *failed)
{
    if (t->sorted_count == *cap) {
        size_t grown_cap = *cap ? 2 * *cap : 256;
        place *grown = realloc(t->sorted, grown_cap * sizeof *grown);
        if (!grown) {
            *failed = true;
            return;
        }
        t->sorted = grown;
        *cap = grown_cap;
    }
    t->sorted[t->sorted_count++] = (place){t->record.time, t->record.offset};
}

/* Sorts the records from position `pos` on. Without memory they stay in the buffer's order. */
static void sort_rest(etl_stream *s, slot *t, uint32_t pos)
{
    etl_walk start = t->walk;
    size_t cap = 0;
    bool failed = false;
    t->walk.pos = pos;
    start.pos = pos;
    while (!failed && etl_walk_next(&t->walk, &t->record))
        sorted_append(t, &cap, &failed);
    if (failed) {
        s->no_memory = true;
        diag_add(s->d, SPGO_NOMEM, t->record.buffer_off, "no memory to sort a buffer's records");
        free(t->sorted);
        t->sorted = NULL;
        t->walk = start;
        return;
    }
    if (t->sorted)
        qsort(t->sorted, t->sorted_count, sizeof *t->sorted, compare_places);
}

static bool slot_next(etl_stream *s, slot *t)
{
    if (t->sorted) {
        if (t->sorted_next == t->sorted_count)
            return false;
        const place *next = &t->sorted[t->sorted_next++];
        t->walk.pos = next->pos;
        t->walk.last_time = next->time;
        return etl_walk_next(&t->walk, &t->record);
    }
    uint64_t last_time = t->walk.last_time;
    if (!etl_walk_next(&t->walk, &t->record))
        return false;
    if (t->record.time >= last_time || t->record.offset == ETL_BUFFER_HEADER_SIZE)
        return true;
    if (s->steps_back++ == 0)
        diag_add(s->d, SPGO_CORRUPT, t->record.buffer_off,
                 "time steps back in the buffer at offset %" PRIu64 ", %" PRIu32
                 " bytes in; the rest of such buffers is sorted",
                 t->record.buffer_off, t->record.offset);
    sort_rest(s, t, t->record.offset);
    return t->sorted ? slot_next(s, t) : etl_walk_next(&t->walk, &t->record);
}

/* ------------------------------------------------------------------ joining and leaving */

static void mark_done(etl_stream *s, const waiting *w)
{
    file_state *f = &s->files[w->file];
    f->is_done[w->buffer] = true;
    while (f->first_undone < f->file->buffer_count && f->is_done[f->first_undone])
        f->first_undone++;
}

static void retire(etl_stream *s, slot *t)
{
    s->bad_records += t->walk.bad_records;
    s->bad_buffers += t->walk.bad_buffers;
    s->no_memory |= t->walk.no_memory;
    t->walk.bad_records = 0;
    t->walk.bad_buffers = 0;
    free(t->sorted);
    t->sorted = NULL;
    t->sorted_count = t->sorted_next = 0;
    mark_done(s, &t->from);
}

/* An idle slot at heap[heap_count]; NULL without memory. */
static slot *idle_slot(etl_stream *s)
{
    if (s->heap_count < s->slot_count)
        return s->heap[s->heap_count];
    if (s->slot_count == s->slot_cap) {
        size_t cap = s->slot_cap ? 2 * s->slot_cap : 32;
        slot **grown = realloc(s->heap, cap * sizeof *grown);
        if (!grown)
            return NULL;
        s->heap = grown;
        s->slot_cap = cap;
    }
    slot *t = calloc(1, sizeof *t);
    if (t)
        s->heap[s->slot_count++] = t;
    return t;
}

/* Keeps the sum of expanded buffers within its limit. */
static bool may_expand(etl_stream *s, const slot *t, const etl_buffer *b)
{
    if (!(b->flags & ETL_FLAG_COMPRESSED) || b->data_end <= t->walk.scratch.cap ||
        s->expanded_bytes - t->walk.scratch.cap + b->data_end <= LIMIT_ETL_EXPANDED_BYTES)
        return true;
    diag_add(s->d, SPGO_LIMIT, b->offset,
             "too many compressed buffers overlap in time; the one at offset %" PRIu64
             " is left out",
             b->offset);
    return false;
}

/* The next waiting buffer joins the merge, if it holds any record. */
static void join(etl_stream *s)
{
    const waiting *w = &s->queue[s->queue_next++];
    const etl_file *f = s->files[w->file].file;
    slot *t = idle_slot(s);
    if (!t || !may_expand(s, t, &f->buffers[w->buffer])) {
        if (!t)
            diag_add(s->d, SPGO_NOMEM, f->buffers[w->buffer].offset,
                     "no memory to read a buffer; it is left out");
        s->no_memory |= !t;
        s->bad_buffers++;
        mark_done(s, w);
        return;
    }
    t->from = *w;
    t->walk.file = f;
    t->walk.d = s->d;
    size_t cap_before = t->walk.scratch.cap;
    bool has_record = etl_walk_buffer(&t->walk, w->buffer);
    s->expanded_bytes += t->walk.scratch.cap - cap_before;
    if (has_record && f->header.log_file_mode & ETL_MODE_NO_PER_PROCESSOR)
        sort_rest(s, t, ETL_BUFFER_HEADER_SIZE);
    if (has_record && slot_next(s, t))
        sift_up(s);
    else
        retire(s, t);
}

/* The buffer at the top of the merge has no more records. */
static void leave(etl_stream *s)
{
    slot *t = s->heap[0];
    retire(s, t);
    s->heap[0] = s->heap[--s->heap_count];
    s->heap[s->heap_count] = t;
    if (s->heap_count)
        sift_down(s);
}

bool etl_stream_next(etl_stream *s, etl_record *record, size_t *file_index)
{
    if (s->delivered) {
        s->delivered = false;
        if (slot_next(s, s->heap[0]))
            sift_down(s);
        else
            leave(s);
    }
    while (s->queue_next < s->queue_count &&
           (!s->heap_count || s->queue[s->queue_next].time <= s->heap[0]->record.time))
        join(s);
    if (!s->heap_count)
        return false;
    *record = s->heap[0]->record;
    if (file_index)
        *file_index = s->heap[0]->from.file;
    s->delivered = true;
    return true;
}

/* ------------------------------------------------------------------ opening */

/* When a buffer must join. Without per-processor buffers, its first record need not be its
 * earliest. */
static uint64_t join_time(const etl_file *f, size_t index, etl_walk *w)
{
    uint64_t time = f->header.first_time;
    if (!(f->header.log_file_mode & ETL_MODE_NO_PER_PROCESSOR))
        return etl_buffer_first_time(f, index, &time) ? time : f->header.first_time;
    etl_record r;
    bool any = false;
    for (bool ok = etl_walk_buffer(w, index); ok && etl_walk_next(w, &r); any = true)
        if (!any || r.time < time)
            time = r.time;
    return time;
}

static spgo_code add_file(etl_stream *s, size_t index, const etl_file *f, spgo_error *err)
{
    file_state *state = &s->files[index];
    state->file = f;
    state->is_done = calloc(f->buffer_count + 1, sizeof *state->is_done);
    if (!state->is_done)
        return spgo_fail_nomem(err, "etl.stream", f->buffer_count);
    etl_walk w = etl_walk_new(f, NULL);
    for (size_t i = 0; i < f->buffer_count; i++)
        s->queue[s->queue_count++] = (waiting){
            .time = join_time(f, i, &w),
            .sequence = f->buffers[i].sequence,
            .file = (uint32_t)index,
            .buffer = (uint32_t)i,
            .cpu = f->buffers[i].cpu,
        };
    etl_walk_free(&w);
    return SPGO_OK;
}

/* Raw times of different clocks cannot be compared; those of different boots can, but mean
 * nothing. */
static spgo_code check_clocks(const etl_file *const *files, size_t count, diag *d, spgo_error *err)
{
    enum { APART_MAX_S = 3600 };
    const etl_header *a = count ? &files[0]->header : NULL;
    for (size_t i = 1; i < count; i++) {
        const etl_header *b = &files[i]->header;
        if (etl_clock_freq(a) != etl_clock_freq(b) ||
            (a->clock_type == ETL_CLOCK_SYSTEM) != (b->clock_type == ETL_CLOCK_SYSTEM))
            return spgo_fail(
                err, SPGO_MISMATCH, "etl.stream", SPGO_NO_OFFSET,
                "file %zu counts time at %" PRIu64 " Hz (clock %" PRIu32
                "), the first one at %" PRIu64 " Hz (clock %" PRIu32 "): they are not of one trace",
                i + 1, etl_clock_freq(b), b->clock_type, etl_clock_freq(a), a->clock_type);
        uint64_t at_a = etl_filetime(a, b->first_time);
        uint64_t apart =
            at_a > b->start_filetime ? at_a - b->start_filetime : b->start_filetime - at_a;
        if (apart / 10000000 > APART_MAX_S)
            diag_add(d, SPGO_MISMATCH, SPGO_NO_OFFSET,
                     "by the clock of the first file, file %zu starts %" PRIu64
                     " seconds away from the start that it names itself: are they of one boot?",
                     i + 1, apart / 10000000);
    }
    return SPGO_OK;
}

static spgo_code fill(etl_stream *s, const etl_file *const *files, size_t count, spgo_error *err)
{
    size_t buffers = 0;
    for (size_t i = 0; i < count; i++)
        buffers += files[i]->buffer_count;
    s->files = calloc(count + 1, sizeof *s->files);
    s->queue = calloc(buffers + 1, sizeof *s->queue);
    if (!s->files || !s->queue)
        return spgo_fail_nomem(err, "etl.stream", buffers * sizeof *s->queue);
    s->file_count = count;
    for (size_t i = 0; i < count; i++)
        SPGO_TRY(add_file(s, i, files[i], err));
    qsort(s->queue, s->queue_count, sizeof *s->queue, compare_waiting);
    return SPGO_OK;
}

spgo_code etl_stream_open(const etl_file *const *files, size_t file_count, diag *d,
                          etl_stream **out, spgo_error *err)
{
    *out = NULL;
    SPGO_TRY(check_clocks(files, file_count, d, err));
    etl_stream *s = calloc(1, sizeof *s);
    if (!s)
        return spgo_fail_nomem(err, "etl.stream", sizeof *s);
    s->d = d;
    spgo_code code = fill(s, files, file_count, err);
    if (code) {
        etl_stream_close(s);
        return code;
    }
    *out = s;
    return SPGO_OK;
}

void etl_stream_close(etl_stream *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->slot_count; i++) {
        free(s->heap[i]->sorted);
        etl_walk_free(&s->heap[i]->walk);
        free(s->heap[i]);
    }
    for (size_t i = 0; s->files && i < s->file_count; i++)
        free(s->files[i].is_done);
    free(s->heap);
    free(s->files);
    free(s->queue);
    free(s);
}

/* ------------------------------------------------------------------ state */

uint64_t etl_stream_done_until(const etl_stream *s, size_t file_index)
{
    const file_state *f = &s->files[file_index];
    return f->first_undone < f->file->buffer_count ? f->file->buffers[f->first_undone].offset
                                                   : f->file->bytes.len;
}

uint64_t etl_stream_bad_records(const etl_stream *s)
{
    uint64_t sum = s->bad_records;
    for (size_t i = 0; i < s->heap_count; i++)
        sum += s->heap[i]->walk.bad_records;
    return sum;
}

uint64_t etl_stream_bad_buffers(const etl_stream *s)
{
    uint64_t sum = s->bad_buffers;
    for (size_t i = 0; i < s->heap_count; i++)
        sum += s->heap[i]->walk.bad_buffers;
    return sum;
}

bool etl_stream_no_memory(const etl_stream *s)
{
    return s->no_memory;
}
