/*
 * Walking the records: those of the file, those inside COMPRESSED ones, and the metadata records
 * of pipe mode, which the walk also takes in. doc/formats/perfdata.md, "Records".
 */
#include <format/perfdata/perfdata_internal.h>

#include <inttypes.h>
#include <stdlib.h>

#include <base/limits.h>
#include <base/text.h>

struct perfdata_walk {
    perfdata *p;
    diag *d;
    uint64_t pos; /* of the next record of the file */
    perfdata_unpacker *unpacker;
    uint64_t unpacked_left; /* of what all COMPRESSED records together may grow to */
    uint64_t packed_off;    /* of the COMPRESSED record whose contents are being delivered */
    size_t unread_size;     /* of the unpacked record delivered last, still in the unpacker */
    bool unpacking_lost;    /* the unpacked stream has lost its record borders for good */
    bool cut_short;
    uint64_t bad_records, unknown_records;
};

const char *perfdata_record_name(uint32_t type)
{
    static const char *const names[] = {
#define RECORD(value, name) [value] = #name,
#include "perfdata_names.def"
    };
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

/* ------------------------------------------------------------------ metadata */

static bool take_attr_record(perfdata *p, const perfdata_record *r)
{
    uint32_t size = r->body.len >= PERFDATA_ATTR_SIZE_VER0
                        ? perfdata_word32(p->big_endian, r->body.ptr + 4)
                        : 0;
    if (size == 0)
        size = PERFDATA_ATTR_SIZE_VER0;
    reader body = record_reader(r);
    if (size < PERFDATA_ATTR_SIZE_VER0)
        return false;
    reader attr = reader_sub(&body, size);
    if (body.code != SPGO_OK || perfdata_add_event(p, &attr, NULL) != SPGO_OK)
        return false;
    while (reader_left(&body) >= 8) {
        if (!perfdata_add_id(p, take_u64(&body, p->big_endian), p->event_count - 1))
            return false;
    }
    return true;
}

/* An event's name that came after its attribute; other updates change nothing here. */
static bool take_event_update(perfdata *p, const perfdata_record *r)
{
    const uint64_t update_name = 2;
    reader body = record_reader(r);
    uint64_t kind = take_u64(&body, p->big_endian);
    size_t index = perfdata_find_id(p, take_u64(&body, p->big_endian));
    if (kind == update_name && index != SIZE_MAX) {
        spgo_str name = reader_cstr(&body);
        if (body.code == SPGO_OK)
            p->events[index]->attr.name = name;
    }
    return body.code == SPGO_OK;
}

static bool take_feature_record(perfdata *p, const perfdata_record *r, diag *d)
{
    reader body = record_reader(r);
    uint64_t feature = take_u64(&body, p->big_endian);
    uint64_t offset = reader_offset(&body);
    spgo_span content = reader_bytes(&body, reader_left(&body));
    if (body.code != SPGO_OK)
        return false;
    return feature >= PERFDATA_FEATURE_COUNT ||
           perfdata_take_feature(p, (unsigned)feature, content, offset, d);
}

/* False if the record is damaged. Each record is taken once, however often the file is walked. */
static bool take_metadata(perfdata *p, const perfdata_record *r, diag *d)
{
    if (!p->is_pipe || r->offset < p->meta_end)
        return true;
    bool good = true;
    reader body = record_reader(r);
    switch (r->type) {
    case PERFDATA_RECORD_HEADER_ATTR:
        good = take_attr_record(p, r);
        break;
    case PERFDATA_RECORD_EVENT_UPDATE:
        good = take_event_update(p, r);
        break;
    case PERFDATA_RECORD_HEADER_FEATURE:
        good = take_feature_record(p, r, d);
        break;
    case PERFDATA_RECORD_HEADER_BUILD_ID:
        good = perfdata_take_build_id(p, r->misc, &body);
        break;
    default:
        return true;
    }
    p->meta_end = r->offset + r->size_bytes;
    if (!good)
        diag_add(d, SPGO_CORRUPT, r->offset, "the %s record is damaged and left out",
                 perfdata_record_name(r->type));
    return good;
}

/* ------------------------------------------------------------------ records of the file */

static void fill_record(perfdata_record *r, const perfdata *p, const uint8_t *at, uint64_t offset)
{
    *r = (perfdata_record){.offset = offset};
    r->type = perfdata_word32(p->big_endian, at);
    r->misc = perfdata_half(p->big_endian, at + 4);
    r->size_bytes = perfdata_half(p->big_endian, at + 6);
    if (r->size_bytes >= PERFDATA_RECORD_HEADER_SIZE)
        r->body = (spgo_span){at + PERFDATA_RECORD_HEADER_SIZE,
                              r->size_bytes - (size_t)PERFDATA_RECORD_HEADER_SIZE};
}

/* Bytes that stand behind the record without being counted in its 16-bit size. */
static uint64_t trailing_bytes(const perfdata *p, const perfdata_record *r)
{
    if (r->type == PERFDATA_RECORD_AUXTRACE && r->body.len >= 8)
        return perfdata_word(p->big_endian, r->body.ptr);
    if (r->type == PERFDATA_RECORD_HEADER_TRACING_DATA && r->body.len >= 4)
        return ((uint64_t)perfdata_word32(p->big_endian, r->body.ptr) + 7) & ~7ull;
    return 0;
}

static bool stop(perfdata_walk *w)
{
    w->pos = w->p->data_end;
    w->cut_short = true;
    return false;
}

static bool next_in_file(perfdata_walk *w, perfdata_record *r)
{
    const perfdata *p = w->p;
    uint64_t left = p->data_end - w->pos;
    if (left == 0)
        return false;
    if (left < PERFDATA_RECORD_HEADER_SIZE) {
        diag_add(w->d, SPGO_TRUNCATED, w->pos,
                 "%" PRIu64 " bytes are left at the end of the data, too few for a record", left);
        return stop(w);
    }
    fill_record(r, p, p->bytes.ptr + w->pos, w->pos);
    if (r->size_bytes < PERFDATA_RECORD_HEADER_SIZE) {
        diag_add(w->d, SPGO_CORRUPT, w->pos + 6,
                 "a record of type %" PRIu32 " says its size is %" PRIu32
                 ", less than its header; the rest of the data cannot be read",
                 r->type, r->size_bytes);
        return stop(w);
    }
    if (r->size_bytes > left) {
        diag_add(w->d, SPGO_TRUNCATED, w->pos,
                 "a record of type %" PRIu32 " and %" PRIu32 " bytes has only %" PRIu64
                 " left before the end of the data",
                 r->type, r->size_bytes, left);
        return stop(w);
    }
    w->pos += r->size_bytes;
    left -= r->size_bytes;
    uint64_t trailing = trailing_bytes(p, r);
    if (trailing > left) {
        diag_add(w->d, SPGO_TRUNCATED, r->offset,
                 "%" PRIu64 " bytes of trace data follow the %s record, but only %" PRIu64
                 " are left before the end of the data",
                 trailing, perfdata_record_name(r->type), left);
        (void)stop(w); /* the record itself is whole */
        return true;
    }
    w->pos += trailing;
    /* Records are too far apart for the processor to guess where the next one starts. */
    __builtin_prefetch(p->bytes.ptr + w->pos);
    return true;
}

/* ------------------------------------------------------------------ records inside others */

static bool is_compressed(uint32_t type)
{
    return type == PERFDATA_RECORD_COMPRESSED || type == PERFDATA_RECORD_COMPRESSED2;
}

/* The packed bytes of a record; the second kind says how many of its own are no padding. */
static bool packed_bytes(const perfdata *p, const perfdata_record *r, spgo_span *packed)
{
    reader body = record_reader(r);
    uint64_t size = r->body.len;
    if (r->type == PERFDATA_RECORD_COMPRESSED2)
        size = take_u64(&body, p->big_endian);
    *packed = reader_bytes(&body, size);
    return body.code == SPGO_OK;
}

static void lose_packed(perfdata_walk *w, const char *why, spgo_code code)
{
    diag_add(w->d, code, w->packed_off, "the COMPRESSED record %s", why);
    w->bad_records++;
    w->cut_short = true;
}

static void begin_unpacking(perfdata_walk *w, const perfdata_record *r)
{
    spgo_span packed;
    w->packed_off = r->offset;
    if (!perfdata_can_unpack()) {
        lose_packed(w,
                    "cannot be read: this build has no zstd; build with SPGO_WITH_ZSTD=ON or "
                    "record without -z",
                    SPGO_UNSUPPORTED);
    } else if (w->unpacked_left == 0) {
        lose_packed(w, "is left out: those before it unpacked to all that a file of this size may",
                    SPGO_LIMIT);
    } else if (w->unpacking_lost) {
        lose_packed(w, "continues a stream whose record borders are lost", SPGO_CORRUPT);
    } else if (!packed_bytes(w->p, r, &packed)) {
        lose_packed(w, "counts more packed bytes than it has", SPGO_CORRUPT);
    } else if (!w->unpacker && !(w->unpacker = perfdata_unpacker_new())) {
        w->p->no_memory = true;
        lose_packed(w, "cannot be unpacked: no memory", SPGO_NOMEM);
    } else {
        uint64_t max = w->p->unpacked_max;
        perfdata_unpacker_feed(w->unpacker, packed,
                               max < w->unpacked_left ? max : w->unpacked_left);
    }
}

/* Records cost time as well as bytes. */
enum { RECORD_CHARGE = 56 };

static void charge(perfdata_walk *w, uint64_t unpacked)
{
    w->unpacked_left -= unpacked < w->unpacked_left ? unpacked : w->unpacked_left;
}

/* `available` were unpacked to no use; they count too, or endless ones could be made to fail. */
static bool fail_unpacking(perfdata_walk *w, spgo_code code, size_t available)
{
    bool is_all = code == SPGO_LIMIT && w->unpacked_left < w->p->unpacked_max;
    charge(w, is_all ? w->unpacked_left : available);
    if (code == SPGO_LIMIT)
        lose_packed(w, "unpacks to more than a recorder's buffers hold; its rest is left out",
                    code);
    else
        lose_packed(w, "is no continuation of the zstd stream; its rest is left out", code);
    perfdata_unpacker_reset(w->unpacker);
    return false;
}

/* A whole record from the unpacked stream, or false: the file's next record has to bring more. */
static bool next_unpacked(perfdata_walk *w, perfdata_record *r)
{
    const uint8_t *at;
    size_t available;
    if (!w->unpacker)
        return false;
    perfdata_unpacker_skip(w->unpacker, w->unread_size);
    w->unread_size = 0;
    spgo_code code =
        perfdata_unpacker_peek(w->unpacker, PERFDATA_RECORD_HEADER_SIZE, &at, &available);
    if (code != SPGO_OK)
        return fail_unpacking(w, code, available);
    if (available < PERFDATA_RECORD_HEADER_SIZE)
        return false;
    fill_record(r, w->p, at, w->packed_off);
    if (r->size_bytes < PERFDATA_RECORD_HEADER_SIZE) {
        lose_packed(w, "holds a record smaller than its header; all later ones are left out",
                    SPGO_CORRUPT);
        perfdata_unpacker_reset(w->unpacker);
        w->unpacking_lost = true;
        return false;
    }
    code = perfdata_unpacker_peek(w->unpacker, r->size_bytes, &at, &available);
    if (code != SPGO_OK)
        return fail_unpacking(w, code, available);
    if (available < r->size_bytes)
        return false;
    fill_record(r, w->p, at, w->packed_off); /* it may have moved */
    r->from_compressed = true;
    w->unread_size = r->size_bytes;
    charge(w, r->size_bytes + RECORD_CHARGE);
    return true;
}

static void check_leftover(perfdata_walk *w)
{
    const uint8_t *at;
    size_t available = 0;
    if (w->unpacker)
        (void)perfdata_unpacker_peek(w->unpacker, 0, &at, &available);
    if (available == 0)
        return;
    diag_add(w->d, SPGO_TRUNCATED, w->packed_off,
             "the last COMPRESSED record ends inside a record (%zu bytes of it)", available);
    w->cut_short = true;
    perfdata_unpacker_reset(w->unpacker);
}

/* ------------------------------------------------------------------ the walk */

spgo_code perfdata_walk_new(perfdata *p, diag *d, perfdata_walk **out, spgo_error *err)
{
    perfdata_walk *w = calloc(1, sizeof *w);
    *out = w;
    if (!w)
        return spgo_fail_nomem(err, "perfdata.walk", sizeof *w);
    w->p = p;
    w->d = d;
    w->pos = p->data_off;
    w->unpacked_left =
        LIMIT_PERFDATA_EXPANDED_BYTES + LIMIT_PERFDATA_EXPANSION * (uint64_t)p->bytes.len;
    w->cut_short = p->data_cut;
    return SPGO_OK;
}

bool perfdata_walk_next(perfdata_walk *w, perfdata_record *r)
{
    if (!next_unpacked(w, r)) {
        if (!next_in_file(w, r)) {
            check_leftover(w);
            return false;
        }
        if (is_compressed(r->type))
            begin_unpacking(w, r);
        else if (!take_metadata(w->p, r, w->d))
            w->bad_records++;
    }
    if (!perfdata_record_name(r->type))
        w->unknown_records++;
    return true;
}

uint64_t perfdata_walk_bad_records(const perfdata_walk *w)
{
    return w->bad_records;
}

uint64_t perfdata_walk_unknown_records(const perfdata_walk *w)
{
    return w->unknown_records;
}

bool perfdata_walk_cut_short(const perfdata_walk *w)
{
    return w->cut_short;
}

bool perfdata_no_memory(const perfdata *p)
{
    return p->no_memory;
}

void perfdata_walk_free(perfdata_walk *w)
{
    if (!w)
        return;
    perfdata_unpacker_free(w->unpacker);
    free(w);
}

void perfdata_take_leading_metadata(perfdata *p, diag *d)
{
    perfdata_walk w = {.p = p, .pos = p->data_off}; /* silent: the real walk reports */
    perfdata_record r;
    while (next_in_file(&w, &r) && r.type >= PERFDATA_RECORD_HEADER_ATTR && !is_compressed(r.type))
        (void)take_metadata(p, &r, d);
}
