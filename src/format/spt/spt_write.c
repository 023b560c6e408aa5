/*
 * The writer. Records wait in one buffer per program until together they exceed a limit; then
 * every buffer becomes a segment, so that a trace whose samples alternate between programs does
 * not become a file of tiny segments. The tables stand before the records but are complete only
 * at the end: space is reserved when the first segment is written and patched at the end, and the
 * records are moved in the rare case that the tables have outgrown it.
 */
#include <format/spt/spt_internal.h>

#include <stdlib.h>
#include <string.h>

static const char where[] = "spt.write";

enum {
    BUFFER_BYTES_DEFAULT = 4 << 20, /* stays in the caches */
    MOVE_BYTES = 1 << 20,
    UNIT_BYTES_MAX = SPT_REPEAT_SIZE + 2 + SPT_ENTRY_BYTES_MAX
};
_Static_assert(SPGO_SPT_SEGMENT_MIN == 4 + UNIT_BYTES_MAX, "a segment must hold the largest unit");

/* What waits of one program: units, each a record with the REPEAT before it, if any. */
typedef struct waiting_records {
    bytes units;
    size_t last_off;  /* of the last record, behind its REPEAT */
    size_t last_size; /* 0: none */
    uint64_t last_hits;
} waiting_records;

struct spgo_spt_writer {
    spgo_sink sink;
    uint64_t segment_bytes_max;
    uint64_t buffer_bytes_max;
    spt_program_set programs;
    waiting_records *waiting; /* of each program */
    uint16_t *dirty;          /* the programs that have something waiting */
    size_t program_cap;       /* of both arrays */
    size_t dirty_count;
    uint64_t waiting_bytes;
    uint64_t record_count;
    bool started;           /* the tables' space is reserved */
    size_t string_capacity; /* what is reserved */
    size_t program_capacity;
    uint64_t end;            /* bytes given to the sink */
    uint64_t segment_off;    /* of the BINARY_ID that was written last; 0: none */
    uint64_t segment_length; /* its length field */
    uint16_t segment_program;
    spgo_error failure; /* the first, which sticks */
};

static spgo_code pass_failure(spgo_spt_writer *w, spgo_error *err)
{
    if (err)
        *err = w->failure;
    return w->failure.code;
}

static bool fail_output(spgo_spt_writer *w)
{
    spgo_fail(&w->failure, SPGO_IO, where, SPGO_NO_OFFSET, "the output could not be written");
    return false;
}

static bool put(spgo_spt_writer *w, const void *data, size_t size)
{
    if (!w->sink.write(w->sink.ctx, data, size))
        return fail_output(w);
    w->end += size;
    return true;
}

static bool put_zeros(spgo_spt_writer *w, uint64_t size)
{
    static const uint8_t zeros[4096];
    while (size > 0) {
        size_t n = size < sizeof zeros ? (size_t)size : sizeof zeros;
        if (!put(w, zeros, n))
            return false;
        size -= n;
    }
    return true;
}

static bool patch(spgo_spt_writer *w, uint64_t offset, const void *data, size_t size)
{
    return w->sink.patch(w->sink.ctx, offset, data, size) || fail_output(w);
}

spgo_code spgo_spt_writer_new(spgo_sink sink, const spgo_spt_writer_opts *opts,
                              spgo_spt_writer **out, spgo_error *err)
{
    *out = NULL;
    spgo_spt_writer_opts o = {0};
    if (opts)
        memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
    if (!sink.write || !sink.patch)
        return spgo_fail(err, SPGO_USAGE, where, SPGO_NO_OFFSET,
                         "an SPT file cannot be written to a stream: its header is known last");
    if (o.segment_bytes_max != 0 && o.segment_bytes_max < SPGO_SPT_SEGMENT_MIN)
        return spgo_fail(err, SPGO_USAGE, where, SPGO_NO_OFFSET,
                         "segments of at most %" PRIu64 " bytes cannot hold every record; allow %d",
                         o.segment_bytes_max, SPGO_SPT_SEGMENT_MIN);
    spgo_spt_writer *w = calloc(1, sizeof *w);
    if (!w)
        return spgo_fail_nomem(err, where, sizeof *w);
    w->sink = sink;
    w->segment_bytes_max = o.segment_bytes_max - 1 < UINT32_MAX ? o.segment_bytes_max : UINT32_MAX;
    w->buffer_bytes_max = o.buffer_bytes_max ? o.buffer_bytes_max : BUFFER_BYTES_DEFAULT;
    *out = w;
    return SPGO_OK;
}

void spgo_spt_writer_cancel(spgo_spt_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->programs.count; i++)
        bytes_free(&w->waiting[i].units);
    free(w->waiting);
    free(w->dirty);
    spt_program_set_free(&w->programs);
    free(w);
}

/* Room for one more program in the arrays beside the set. */
static spgo_code reserve_program(spgo_spt_writer *w, spgo_error *err)
{
    if (w->programs.count < w->program_cap)
        return SPGO_OK;
    size_t cap = w->program_cap ? 2 * w->program_cap : 16;
    waiting_records *waiting = realloc(w->waiting, cap * sizeof waiting[0]);
    if (waiting)
        w->waiting = waiting;
    uint16_t *dirty = realloc(w->dirty, cap * sizeof dirty[0]);
    if (dirty)
        w->dirty = dirty;
    if (!waiting || !dirty)
        return spgo_fail_nomem(err, where, cap * sizeof waiting[0]);
    memset(waiting + w->program_cap, 0, (cap - w->program_cap) * sizeof waiting[0]);
    w->program_cap = cap;
    return SPGO_OK;
}

spgo_code spgo_spt_writer_program(spgo_spt_writer *w, const spgo_image_id *id, spgo_str name,
                                  uint16_t *index, spgo_error *err)
{
    if (w->failure.code != SPGO_OK)
        return pass_failure(w, err);
    SPGO_TRY(reserve_program(w, err));
    return spt_program_set_add(&w->programs, id, name, index, err);
}

/* ------------------------------------------------------------------ records that wait */

/* Is the record equal to the last one of its program, and can their hits be added? */
static bool is_repetition(const waiting_records *q, const uint8_t head[2], const uint8_t *entries,
                          size_t entry_bytes, uint64_t hits)
{
    if (q->last_size != 2 + entry_bytes || q->last_hits > UINT64_MAX - hits)
        return false;
    const uint8_t *last = q->units.ptr + q->last_off;
    return memcmp(last, head, 2) == 0 && memcmp(last + 2, entries, entry_bytes) == 0;
}

/* Puts a REPEAT before the last record, or adds to the one that is there. */
static void add_to_last(waiting_records *q, uint64_t hits)
{
    uint8_t *last = q->units.ptr + q->last_off;
    if (q->last_hits == 1) {
        if (!bytes_reserve(&q->units, SPT_REPEAT_SIZE))
            return;
        last = q->units.ptr + q->last_off;
        memmove(last + SPT_REPEAT_SIZE, last, q->last_size);
        last[0] = SPGO_SPT_REPEAT;
        last[1] = 0;
        q->units.len += SPT_REPEAT_SIZE;
        q->last_off += SPT_REPEAT_SIZE;
        last += SPT_REPEAT_SIZE;
    }
    q->last_hits += hits;
    store_u64(last - 8, q->last_hits - 1);
}

static void append(waiting_records *q, const uint8_t head[2], const uint8_t *entries,
                   size_t entry_bytes, uint64_t hits)
{
    if (!bytes_reserve(&q->units, SPT_REPEAT_SIZE + 2 + entry_bytes))
        return;
    uint8_t *p = q->units.ptr + q->units.len;
    if (hits > 1) {
        p[0] = SPGO_SPT_REPEAT;
        p[1] = 0;
        store_u64(p + SPT_COUNT_OFF, hits - 1);
        p += SPT_REPEAT_SIZE;
    }
    memcpy(p, head, 2);
    memcpy(p + 2, entries, entry_bytes);
    q->last_off = (size_t)(p - q->units.ptr);
    q->last_size = 2 + entry_bytes;
    q->last_hits = hits;
    q->units.len = q->last_off + q->last_size;
}

/* ------------------------------------------------------------------ segments */

static size_t at_least(size_t value, size_t floor)
{
    return value > floor ? value : floor;
}

/* Reserves the typical space for the tables, or what they need by now. */
static bool start_output(spgo_spt_writer *w)
{
    w->started = true;
    w->string_capacity = at_least(w->programs.strings.len, SPGO_SPT_TYPICAL_STRINGS);
    w->program_capacity = at_least(w->programs.count, SPGO_SPT_TYPICAL_PROGRAMS);
    return put_zeros(w, SPGO_SPT_HEADER_SIZE + w->string_capacity +
                            SPGO_SPT_PROGRAM_SIZE * (uint64_t)w->program_capacity);
}

/* How many bytes of whole units fit into `room`. */
static size_t whole_units(const uint8_t *units, size_t size, uint64_t room)
{
    if (size <= room)
        return size;
    size_t fits = 0;
    for (;;) {
        size_t end = fits;
        if (units[end] == SPGO_SPT_REPEAT)
            end += SPT_REPEAT_SIZE;
        end += 2 + (size_t)spt_entry_width(units[end]) * units[end + 1];
        if (end > room)
            return fits;
        fits = end;
    }
}

static bool extend_segment(spgo_spt_writer *w, const uint8_t *units, size_t size)
{
    uint8_t length[4];
    store_u32(length, (uint32_t)(w->segment_length + size));
    if (!put(w, units, size) || !patch(w, w->segment_off + SPT_LENGTH_OFF, length, sizeof length))
        return false;
    w->segment_length += size;
    return true;
}

static bool new_segment(spgo_spt_writer *w, uint16_t program, const uint8_t *units, size_t size)
{
    uint8_t head[SPT_BINARY_ID_SIZE] = {SPGO_SPT_BINARY_ID};
    store_u16(head + 2, program);
    store_u32(head + SPT_LENGTH_OFF, (uint32_t)(SPT_LENGTH_OFF + size));
    w->segment_off = w->end;
    w->segment_program = program;
    w->segment_length = SPT_LENGTH_OFF + size;
    return put(w, head, sizeof head) && put(w, units, size);
}

static bool write_program(spgo_spt_writer *w, uint16_t program)
{
    const uint8_t *units = w->waiting[program].units.ptr;
    size_t left = w->waiting[program].units.len;
    if (w->segment_off > 0 && w->segment_program == program) {
        size_t n = whole_units(units, left, w->segment_bytes_max - w->segment_length);
        if (n > 0 && !extend_segment(w, units, n))
            return false;
        units += n;
        left -= n;
    }
    while (left > 0) {
        size_t n = whole_units(units, left, w->segment_bytes_max - SPT_LENGTH_OFF);
        if (!new_segment(w, program, units, n))
            return false;
        units += n;
        left -= n;
    }
    return true;
}

static int compare_u16(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* Empties the buffers, but keeps the memory of the first ones, as most traces are dominated by
 * few programs. */
static void empty_buffers(spgo_spt_writer *w)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < w->dirty_count; i++) {
        waiting_records *q = &w->waiting[w->dirty[i]];
        kept += q->units.cap;
        if (kept > 2 * w->buffer_bytes_max) /* a buffer is up to twice what it holds */
            bytes_free(&q->units);
        bytes_clear(&q->units);
        q->last_size = 0;
    }
    w->dirty_count = 0;
    w->waiting_bytes = 0;
}

static bool flush(spgo_spt_writer *w)
{
    if (!w->started && !start_output(w))
        return false;
    if (w->dirty_count > 1)
        qsort(w->dirty, w->dirty_count, sizeof w->dirty[0], compare_u16);
    for (size_t i = 0; i < w->dirty_count; i++) {
        if (!write_program(w, w->dirty[i]))
            return false;
    }
    empty_buffers(w);
    return true;
}

uint64_t spt_writer_record_count(const spgo_spt_writer *w)
{
    return w->record_count;
}

spgo_code spt_writer_add_raw(spgo_spt_writer *w, uint16_t program, uint8_t opcode,
                             const uint8_t *entries, unsigned entry_count, uint64_t hits,
                             spgo_error *err)
{
    if (w->failure.code != SPGO_OK)
        return pass_failure(w, err);
    const uint8_t head[2] = {opcode, (uint8_t)entry_count};
    size_t entry_bytes = (size_t)spt_entry_width(opcode) * entry_count;
    waiting_records *q = &w->waiting[program];
    size_t before = q->units.len;
    if (before == 0)
        w->dirty[w->dirty_count++] = program;
    if (is_repetition(q, head, entries, entry_bytes, hits)) {
        add_to_last(q, hits);
    } else {
        append(q, head, entries, entry_bytes, hits);
        w->record_count++;
    }
    if (q->units.failed) {
        spgo_fail_nomem(&w->failure, where, q->units.len);
        return pass_failure(w, err);
    }
    w->waiting_bytes += q->units.len - before;
    if (w->waiting_bytes > w->buffer_bytes_max && !flush(w))
        return pass_failure(w, err);
    return SPGO_OK;
}

spgo_code spgo_spt_writer_add(spgo_spt_writer *w, uint16_t program, spgo_spt_opcode opcode,
                              const uint32_t *entries, unsigned entry_count, uint64_t hits,
                              spgo_error *err)
{
    unsigned width = (unsigned)opcode <= UINT8_MAX ? spt_entry_width((uint8_t)opcode) : 0;
    if (width == 0 || entry_count == 0 || entry_count > SPGO_SPT_ENTRIES_MAX || hits == 0 ||
        program >= w->programs.count)
        return spgo_fail(err, SPGO_USAGE, where, SPGO_NO_OFFSET,
                         "a record needs an opcode with entries (0x%02x), 1 to 255 entries (%u), a "
                         "hit (%" PRIu64 ") and a known program (%u of %zu)",
                         (unsigned)opcode, entry_count, hits, program, w->programs.count);
    uint8_t raw[SPT_ENTRY_BYTES_MAX];
    unsigned value_count = entry_count * (width / 4);
    for (unsigned i = 0; i < value_count; i++)
        store_u32(raw + 4 * (size_t)i, entries[i]);
    return spt_writer_add_raw(w, program, (uint8_t)opcode, raw, entry_count, hits, err);
}

/* ------------------------------------------------------------------ the end */

/* Moves [from, w->end) up by `shift` bytes, the last part first. */
static bool move_records(spgo_spt_writer *w, uint64_t from, uint64_t shift)
{
    uint64_t at = w->end;
    uint8_t *part = malloc(MOVE_BYTES);
    if (!part) {
        spgo_fail_nomem(&w->failure, where, MOVE_BYTES);
        return false;
    }
    bool ok = put_zeros(w, shift);
    while (ok && at > from) {
        size_t n = at - from < MOVE_BYTES ? (size_t)(at - from) : MOVE_BYTES;
        at -= n;
        ok = w->sink.read(w->sink.ctx, at, part, n) || fail_output(w);
        ok = ok && patch(w, at + shift, part, n);
    }
    free(part);
    return ok;
}

/* Gives the tables the space that they turned out to need. */
static bool fit_tables(spgo_spt_writer *w)
{
    uint64_t from = SPGO_SPT_HEADER_SIZE + w->string_capacity +
                    SPGO_SPT_PROGRAM_SIZE * (uint64_t)w->program_capacity;
    size_t string_capacity = at_least(w->programs.strings.len, w->string_capacity);
    size_t program_capacity = at_least(w->programs.count, w->program_capacity);
    uint64_t shift = (string_capacity - w->string_capacity) +
                     SPGO_SPT_PROGRAM_SIZE * (uint64_t)(program_capacity - w->program_capacity);
    w->string_capacity = string_capacity;
    w->program_capacity = program_capacity;
    if (shift == 0)
        return true;
    if (w->end > from && !w->sink.read) {
        spgo_fail(
            &w->failure, SPGO_USAGE, where, SPGO_NO_OFFSET,
            "the tables have outgrown their place and this output cannot be read back to move "
            "the records; add the programs before the records");
        return false;
    }
    return move_records(w, from, shift);
}

static void build_head(const spgo_spt_writer *w, bytes *b)
{
    size_t table_off = SPGO_SPT_HEADER_SIZE + w->string_capacity;
    bytes_u32(b, SPGO_SPT_SIGNATURE);
    bytes_u32(b, SPGO_SPT_VERSION);
    bytes_u32(b, 0); /* RawDataId */
    bytes_u32(b, 0); /* TargetArch */
    bytes_u32(b, SPGO_SPT_HEADER_SIZE);
    bytes_u32(b, (uint32_t)table_off);
    bytes_u16(b, (uint16_t)w->programs.strings.len);
    bytes_u16(b, (uint16_t)w->string_capacity);
    bytes_u16(b, (uint16_t)w->programs.count);
    bytes_u16(b, (uint16_t)w->program_capacity);
    if (w->programs.strings.len > 0)
        bytes_put(b, w->programs.strings.ptr, w->programs.strings.len);
    bytes_fill(b, 0, w->string_capacity - w->programs.strings.len);
    for (size_t i = 0; i < w->programs.count; i++) {
        const spt_program_entry *e = &w->programs.entries[i];
        bytes_put(b, e->id.guid.bytes, sizeof e->id.guid.bytes);
        bytes_u32(b, e->id.age);
        bytes_u32(b, e->string_index);
    }
    bytes_fill(b, 0, SPGO_SPT_PROGRAM_SIZE * (w->program_capacity - w->programs.count));
}

static bool write_head(spgo_spt_writer *w)
{
    bytes head = {0};
    build_head(w, &head);
    bool ok = !head.failed;
    if (!ok)
        spgo_fail_nomem(&w->failure, where, head.len);
    else
        ok = patch(w, 0, head.ptr, head.len);
    bytes_free(&head);
    return ok;
}

spgo_code spgo_spt_writer_finish(spgo_spt_writer *w, spgo_error *err)
{
    bool ok = w->failure.code == SPGO_OK && flush(w) && fit_tables(w) && write_head(w);
    spgo_code code = ok ? SPGO_OK : pass_failure(w, err);
    spgo_spt_writer_cancel(w);
    return code;
}
