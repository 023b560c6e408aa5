/*
 * The records of one buffer. A record starts with a marker: 0xC0, the header type, and for some
 * types the version or size. Each header type has its own layout; all become an etl_record.
 *
 * Damage: a record whose inside is wrong is skipped by its size. A size that is wrong itself makes
 * the walk search for the next record whose successor is in place too.
 */
#include <inttypes.h>
#include <string.h>

#include <base/limits.h>
#include <format/etl/etl_internal.h>

enum {
    EVENT_FLAG_EXTENDED = 0x01,
    VERSION_PEBS = 0x8000, /* PERFINFO version word: a PEBS value follows the header */
    MESSAGE_FLAG_SEQUENCE = 0x01,
    MESSAGE_FLAG_GUID = 0x02,
    MESSAGE_FLAG_COMPONENT = 0x04,
    MESSAGE_FLAG_TIME = 0x08,
    MESSAGE_FLAG_IDS = 0x20,
    MESSAGE_HEADER_SIZE = 8,
    OPAQUE_HEADER_SIZE = 8,
    RECORD_ALIGN = 8
};

typedef struct header_kind {
    uint8_t size;    /* of the header; 0: unknown type */
    uint8_t size_at; /* where the record's size stands */
    uint8_t ptr_size;
} header_kind;

static const header_kind kinds[32] = {
    [ETL_SYSTEM32] = {32, 4, 4},   [ETL_SYSTEM64] = {32, 4, 8},   [ETL_COMPACT32] = {24, 4, 4},
    [ETL_COMPACT64] = {24, 4, 8},  [ETL_FULL32] = {48, 0, 4},     [ETL_FULL64] = {48, 0, 8},
    [ETL_INSTANCE32] = {72, 0, 4}, [ETL_INSTANCE64] = {72, 0, 8}, [ETL_ERROR] = {8, 0, 8},
    [ETL_PERFINFO32] = {16, 4, 4}, [ETL_PERFINFO64] = {16, 4, 8}, [ETL_EVENT32] = {80, 0, 4},
    [ETL_EVENT64] = {80, 0, 8},
};

static const header_kind message_kind = {MESSAGE_HEADER_SIZE, 0, 8};
/* A type from the future or the past: most have their size in front. */
static const header_kind opaque_kind = {OPAQUE_HEADER_SIZE, 0, 8};

static bool is_known(const uint8_t *p)
{
    return p[3] == ETL_MARKER_TOP && p[2] < 32 && kinds[p[2]].size != 0;
}

static bool is_message(const uint8_t *p)
{
    return (p[3] & 0xD0) == 0x90;
}

/* ------------------------------------------------------------------ buffers */

etl_walk etl_walk_new(const etl_file *f, diag *d)
{
    return (etl_walk){.file = f, .d = d};
}

void etl_walk_free(etl_walk *w)
{
    bytes_free(&w->scratch);
    w->data = NULL;
}

/* The uncompressed form of a buffer, or as much of it as can be had. */
static bool expand_buffer(etl_walk *w, const etl_buffer *b)
{
    const uint8_t *at = w->file->bytes.ptr + b->offset;
    bytes_clear(&w->scratch);
    if (b->data_end <= ETL_BUFFER_HEADER_SIZE || !bytes_reserve(&w->scratch, b->data_end)) {
        if (b->data_end > ETL_BUFFER_HEADER_SIZE)
            diag_add(w->d, SPGO_NOMEM, b->offset,
                     "no memory to expand a buffer of %" PRIu32 " bytes", b->data_end);
        w->no_memory |= w->scratch.failed;
        w->scratch.failed = false;
        return false;
    }
    memcpy(w->scratch.ptr, at, ETL_BUFFER_HEADER_SIZE);
    spgo_span in = {at + ETL_BUFFER_HEADER_SIZE, b->size_bytes - ETL_BUFFER_HEADER_SIZE};
    size_t wanted = b->data_end - ETL_BUFFER_HEADER_SIZE;
    size_t used;
    size_t made = xpress_expand_some(in, w->scratch.ptr + ETL_BUFFER_HEADER_SIZE, wanted, &used);
    w->data = w->scratch.ptr;
    w->end = (uint32_t)(ETL_BUFFER_HEADER_SIZE + made);
    w->is_partial = made < wanted;
    if (w->is_partial) {
        diag_add(w->d, b->is_cut ? SPGO_TRUNCATED : SPGO_CORRUPT,
                 b->offset + ETL_BUFFER_HEADER_SIZE + used,
                 "the buffer at offset %" PRIu64 " expands to %zu of %zu bytes; the records in "
                 "them are read",
                 b->offset, made, wanted);
        w->bad_buffers++;
    }
    return true;
}

bool etl_walk_buffer(etl_walk *w, size_t buffer_index)
{
    const etl_buffer *b = &w->file->buffers[buffer_index];
    w->buffer_index = buffer_index;
    w->pos = ETL_BUFFER_HEADER_SIZE;
    w->last_time = w->file->header.first_time;
    w->data = NULL;
    w->end = 0;
    if (!(b->flags & ETL_FLAG_COMPRESSED)) {
        w->data = w->file->bytes.ptr + b->offset;
        w->end = b->data_end;
        w->is_partial = b->is_cut;
    } else if (!expand_buffer(w, b)) {
        w->bad_buffers++;
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ headers */

static spgo_guid load_guid(const uint8_t *p)
{
    spgo_guid g;
    memcpy(g.bytes, p, sizeof g.bytes);
    return g;
}

static void set_payload(etl_record *r, const uint8_t *p, uint32_t header_size)
{
    r->payload = (spgo_span){p + header_size, r->size_bytes - header_size};
}

static void parse_hook(etl_record *r, const uint8_t *p)
{
    r->has_hook = true;
    r->hook = load_u16(p + 6);
    r->opcode = p[6];
    r->version = load_u16(p);
}

static bool parse_system(etl_record *r, const uint8_t *p, uint32_t header_size)
{
    parse_hook(r, p);
    r->tid = load_u32(p + 0x08);
    r->pid = load_u32(p + 0x0C);
    r->time = load_u64(p + 0x10);
    set_payload(r, p, header_size);
    return true;
}

/* The version word tells how many counter values stand between header and payload. */
static bool parse_perfinfo(etl_record *r, const uint8_t *p, uint32_t header_size)
{
    parse_hook(r, p);
    r->time = load_u64(p + 0x08);
    unsigned word = r->version;
    r->version = word & 0xFF;
    if (word & (VERSION_PEBS | 0x700)) {
        uint32_t values_at = header_size + (word & VERSION_PEBS ? 8 : 0);
        r->pmc_count = (uint8_t)(word >> 8 & 7);
        header_size = values_at + 8u * r->pmc_count;
        if (header_size > r->size_bytes)
            return false;
        r->pmc_values = (spgo_span){p + values_at, 8u * r->pmc_count};
    }
    set_payload(r, p, header_size);
    return true;
}

static bool parse_classic(etl_record *r, const uint8_t *p, uint32_t header_size)
{
    r->opcode = p[4];
    r->level = p[5];
    r->version = load_u16(p + 6);
    r->tid = load_u32(p + 0x08);
    r->pid = load_u32(p + 0x0C);
    r->time = load_u64(p + 0x10);
    r->guid = load_guid(p + 0x18);
    set_payload(r, p, header_size);
    return true;
}

/* Extended items: u16 size (with this header), u16 type, u16 bit 0 = another follows, u16 data
 * size. The payload starts behind the last one. */
static bool parse_extended(etl_record *r, const uint8_t *p, uint32_t *header_size)
{
    uint32_t at = *header_size;
    bool more = true;
    while (more) {
        if (r->size_bytes - at < 8)
            return false;
        uint32_t item_size = load_u16(p + at);
        if (item_size < 8 || item_size > r->size_bytes - at || load_u16(p + at + 6) > item_size - 8)
            return false;
        more = load_u16(p + at + 4) & 1;
        at += item_size;
    }
    r->extended = (spgo_span){p + *header_size, at - *header_size};
    *header_size = at;
    return true;
}

static bool parse_event(etl_record *r, const uint8_t *p, uint32_t header_size)
{
    r->tid = load_u32(p + 0x08);
    r->pid = load_u32(p + 0x0C);
    r->time = load_u64(p + 0x10);
    r->guid = load_guid(p + 0x18);
    r->id = load_u16(p + 0x28);
    r->version = p[0x2A];
    r->channel = p[0x2B];
    r->level = p[0x2C];
    r->opcode = p[0x2D];
    r->task = load_u16(p + 0x2E);
    r->keyword = load_u64(p + 0x30);
    if (load_u16(p + 4) & EVENT_FLAG_EXTENDED && !parse_extended(r, p, &header_size))
        return false;
    set_payload(r, p, header_size);
    return true;
}

/* WPP: message number and flags, then the fields that the flags announce. */
static bool parse_message(etl_record *r, const uint8_t *p)
{
    reader c = reader_from((spgo_span){p, r->size_bytes}, 0);
    reader_skip(&c, 4);
    r->id = reader_u16(&c);
    unsigned flags = reader_u16(&c);
    if (flags & MESSAGE_FLAG_SEQUENCE)
        reader_skip(&c, 4);
    if (flags & MESSAGE_FLAG_GUID)
        r->guid = reader_guid(&c);
    else if (flags & MESSAGE_FLAG_COMPONENT)
        reader_skip(&c, 4);
    if (flags & MESSAGE_FLAG_TIME)
        r->time = reader_u64(&c);
    if (flags & MESSAGE_FLAG_IDS) {
        r->tid = reader_u32(&c);
        r->pid = reader_u32(&c);
    }
    if (c.code)
        return false;
    set_payload(r, p, (uint32_t)c.pos);
    return true;
}

static bool parse_inside(etl_record *r, const uint8_t *p, uint32_t header_size)
{
    switch (r->type) {
    case ETL_SYSTEM32:
    case ETL_SYSTEM64:
    case ETL_COMPACT32:
    case ETL_COMPACT64:
        return parse_system(r, p, header_size);
    case ETL_PERFINFO32:
    case ETL_PERFINFO64:
        return parse_perfinfo(r, p, header_size);
    case ETL_FULL32:
    case ETL_FULL64:
    case ETL_INSTANCE32:
    case ETL_INSTANCE64:
        return parse_classic(r, p, header_size);
    case ETL_EVENT32:
    case ETL_EVENT64:
        return parse_event(r, p, header_size);
    case ETL_MESSAGE:
        return parse_message(r, p);
    default:
        set_payload(r, p, header_size);
        return true;
    }
}

/* ------------------------------------------------------------------ the walk */

/* How to read the record at p, and its size; NULL if there is none or its size cannot be. */
static const header_kind *kind_at(const uint8_t *p, uint32_t left, uint32_t *size)
{
    const header_kind *kind;
    if (is_known(p))
        kind = &kinds[p[2]];
    else if (p[3] == ETL_MARKER_TOP)
        kind = &opaque_kind;
    else if (is_message(p))
        kind = &message_kind;
    else
        return NULL;
    *size = load_u16(p + kind->size_at);
    return *size >= kind->size && *size <= left ? kind : NULL;
}

static uint32_t stride(uint32_t size)
{
    return (size + RECORD_ALIGN - 1) & ~(uint32_t)(RECORD_ALIGN - 1);
}

/* For the search behind a damaged record: a known type, and behind it another record or the end. */
static bool plausible_record(const etl_walk *w, uint32_t pos)
{
    const uint8_t *p = w->data + pos;
    uint32_t size;
    if (!is_known(p) || !kind_at(p, w->end - pos, &size))
        return false;
    uint32_t next = pos + stride(size);
    if (next >= w->end || w->end - next < RECORD_ALIGN)
        return true;
    p = w->data + next;
    return is_known(p) && (kind_at(p, w->end - next, &size) || w->is_partial);
}

static void find_next_record(etl_walk *w)
{
    uint32_t pos = w->pos + RECORD_ALIGN;
    while (pos < w->end && w->end - pos >= RECORD_ALIGN && !plausible_record(w, pos))
        pos += RECORD_ALIGN;
    w->pos = pos < w->end && w->end - pos >= RECORD_ALIGN ? pos : w->end;
}

/* Nothing but zeros or ones up to the end: unused room, not damage. */
static bool only_filler(const etl_walk *w)
{
    const uint8_t *p = w->data + w->pos;
    uint32_t left = w->end - w->pos;
    if (*p != 0 && *p != 0xFF)
        return false;
    return left == 1 || !memcmp(p, p + 1, left - 1);
}

static void note_bad_record(etl_walk *w, const char *what)
{
    const etl_buffer *b = &w->file->buffers[w->buffer_index];
    bool compressed = b->flags & ETL_FLAG_COMPRESSED;
    w->bad_records++;
    diag_add(w->d, SPGO_CORRUPT, compressed ? b->offset : b->offset + w->pos,
             "%s at %" PRIu32 " in the %sbuffer at offset %" PRIu64 " (it starts %08" PRIx32
             " %08" PRIx32 "); it is skipped",
             what, w->pos, compressed ? "expanded " : "", b->offset, load_u32(w->data + w->pos),
             load_u32(w->data + w->pos + 4));
}

/* At w->pos is no record that fits: the end, filler or damage. */
static void pass_damage(etl_walk *w, bool runs_over)
{
    if ((runs_over && w->is_partial) || only_filler(w)) {
        w->pos = w->end;
        return;
    }
    note_bad_record(w, runs_over ? "a record's size is wrong" : "no record");
    find_next_record(w);
}

/* What all headers have in common, and nothing in the rest. Field by field, because compilers turn
 * an initializer of this size into a string store that costs more than all of the parsing. */
static void start_record(const etl_walk *w, etl_record *r, const uint8_t *p, uint32_t size_bytes,
                         uint8_t ptr_size)
{
    const spgo_span none = {NULL, 0};
    const etl_buffer *b = &w->file->buffers[w->buffer_index];
    r->buffer_off = b->offset;
    r->offset = w->pos;
    r->size_bytes = (uint16_t)size_bytes;
    r->type = p[3] == ETL_MARKER_TOP ? p[2] : ETL_MESSAGE;
    r->ptr_size = ptr_size;
    r->time = w->last_time;
    r->pid = ETL_NO_ID;
    r->tid = ETL_NO_ID;
    r->cpu = b->cpu;
    r->has_hook = false;
    r->hook = 0;
    memset(&r->guid, 0, sizeof r->guid);
    r->id = 0;
    r->opcode = 0;
    r->level = 0;
    r->channel = 0;
    r->version = 0;
    r->task = 0;
    r->keyword = 0;
    r->pmc_count = 0;
    r->pmc_values = none;
    r->extended = none;
    r->payload = none;
}

bool etl_walk_next(etl_walk *w, etl_record *record)
{
    while (w->data && w->end - w->pos >= RECORD_ALIGN) {
        const uint8_t *p = w->data + w->pos;
        uint32_t size = 0;
        const header_kind *kind = kind_at(p, w->end - w->pos, &size);
        if (!kind) {
            pass_damage(w, p[3] == ETL_MARKER_TOP || is_message(p));
            continue;
        }
        start_record(w, record, p, size, kind->ptr_size);
        bool whole = parse_inside(record, p, kind->size);
        if (!whole)
            note_bad_record(w, "a record's header is wrong");
        uint32_t next = stride(size);
        w->pos = next < w->end - w->pos ? w->pos + next : w->end;
        /* A merge comes back to this buffer only after records of others. */
        __builtin_prefetch(w->data + w->pos);
        if (whole) {
            w->last_time = record->time;
            return true;
        }
    }
    return false;
}

bool etl_buffer_first_time(const etl_file *f, size_t index, uint64_t *time)
{
    enum { HEAD_SIZE = 24 }; /* up to the time field of every header type */
    const etl_buffer *b = &f->buffers[index];
    const uint8_t *p = f->bytes.ptr + b->offset + ETL_BUFFER_HEADER_SIZE;
    size_t in_file = b->size_bytes - ETL_BUFFER_HEADER_SIZE;
    uint8_t head[HEAD_SIZE];
    if (b->data_end - ETL_BUFFER_HEADER_SIZE < HEAD_SIZE)
        return false;
    if (b->flags & ETL_FLAG_COMPRESSED) {
        size_t used;
        if (!xpress_expand((spgo_span){p, in_file}, head, sizeof head, &used))
            return false;
        p = head;
    }
    if (!is_known(p))
        return false;
    uint8_t type = p[2];
    if (type == ETL_ERROR)
        return false;
    *time = load_u64(p + (type == ETL_PERFINFO32 || type == ETL_PERFINFO64 ? 0x08 : 0x10));
    return true;
}
