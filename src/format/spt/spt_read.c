/*
 * The walk over an SPT file's records. Records carry no length, so the way on after a damaged one
 * is the end of its segment; and as the length of a segment is easily misread by a writer (it
 * counts its own four bytes, and not the four before it), the other two readings are tried before
 * records are given up.
 */
#include <format/spt/spt_internal.h>

static const char where[] = "spt.records";

/* Where a record ends is known only from its second byte, so the hardware cannot run ahead of the
 * walk: cache lines are asked for this far ahead. */
enum { PREFETCH_BYTES = 1024 };

spgo_spt_cursor spgo_spt_records(const spgo_spt *spt)
{
    return (spgo_spt_cursor){.base = spt->file.ptr,
                             .pos = spt->data_off,
                             .size = spt->data_end,
                             .program_count = spt->program_count};
}

static void leave_segment(spgo_spt_cursor *c, uint64_t pos)
{
    c->pos = pos;
    c->in_segment = false;
    c->has_repeat = false;
    c->endless = false;
}

/* Could a segment end at this offset? */
static bool is_segment_border(const spgo_spt_cursor *c, uint64_t off)
{
    return off == c->size || (off < c->size && c->base[off] == SPGO_SPT_BINARY_ID);
}

static const char *name_of(uint8_t opcode)
{
    const char *name = spgo_spt_opcode_name(opcode);
    return name ? name : "unknown";
}

static uint32_t segment_length(const spgo_spt_cursor *c)
{
    return load_u32(c->base + c->segment_off + SPT_LENGTH_OFF);
}

/* The length counts the whole record instead of what begins with itself. */
static spgo_code fail_length_whole(const spgo_spt_cursor *c, uint64_t actual_end, spgo_error *err)
{
    return spgo_fail(
        err, SPGO_CORRUPT, where, c->segment_off + SPT_LENGTH_OFF,
        "length %" PRIu32 " of the segment at 0x%" PRIx64 " ends it 4 bytes behind its "
        "last record at 0x%" PRIx64 ": it counts opcode, pad and id too; it must count "
        "only itself and the records",
        segment_length(c), c->segment_off, actual_end);
}

/* The length counts only the records and not itself. */
static spgo_code fail_length_payload(const spgo_spt_cursor *c, uint64_t actual_end, spgo_error *err)
{
    return spgo_fail(err, SPGO_CORRUPT, where, c->segment_off + SPT_LENGTH_OFF,
                     "length %" PRIu32 " of the segment at 0x%" PRIx64
                     " ends it 4 bytes before the "
                     "end of its last record at 0x%" PRIx64 ": it counts only the records; it must "
                     "count its own 4 bytes too",
                     segment_length(c), c->segment_off, actual_end);
}

/* The record at c->pos needs more bytes than the segment or the file has. */
static spgo_code fail_cut(spgo_spt_cursor *c, uint64_t need, const char **rule, spgo_error *err)
{
    uint64_t at = c->pos, end = at + need, segment_end = c->segment_end;
    uint8_t opcode = c->base[at];
    if (c->endless || segment_end > c->size) {
        leave_segment(c, c->size);
        *rule = "truncated";
        return spgo_fail(err, SPGO_TRUNCATED, where, at,
                         "the records end at 0x%" PRIx64 " inside a record of opcode %s, at least "
                         "%" PRIu64 " bytes long",
                         c->size, name_of(opcode), need);
    }
    if (end == segment_end + SPT_LENGTH_OFF && is_segment_border(c, end)) {
        *rule = "segment-length";
        leave_segment(c, end);
        return fail_length_payload(c, end, err);
    }
    leave_segment(c, segment_end);
    *rule = "record-bounds";
    return spgo_fail(err, SPGO_CORRUPT, where, at,
                     "a %s record of at least %" PRIu64 " bytes does not fit before the end of its "
                     "segment at 0x%" PRIx64,
                     name_of(opcode), need, segment_end);
}

/* The segment says it goes on, but the data stream ends on a record's border. */
static spgo_code fail_early_end(spgo_spt_cursor *c, const char **rule, spgo_error *err)
{
    uint64_t missing = c->segment_end - c->size;
    leave_segment(c, c->size);
    if (missing == SPT_LENGTH_OFF) {
        *rule = "segment-length";
        return fail_length_whole(c, c->size, err);
    }
    *rule = "truncated";
    return spgo_fail(err, SPGO_TRUNCATED, where, c->size,
                     "the records end at 0x%" PRIx64 ", %" PRIu64 " bytes before the end of the "
                     "segment at 0x%" PRIx64 " of length %" PRIu32,
                     c->size, missing, c->segment_off, segment_length(c));
}

/* BINARY_ID where the segment should still go on: the new segment is believed. */
static spgo_code fail_early_segment(spgo_spt_cursor *c, const char **rule, spgo_error *err)
{
    uint64_t left = c->segment_end - c->pos;
    leave_segment(c, c->pos);
    *rule = "segment-length";
    if (left == SPT_LENGTH_OFF)
        return fail_length_whole(c, c->pos, err);
    return spgo_fail(err, SPGO_CORRUPT, where, c->segment_off + SPT_LENGTH_OFF,
                     "length %" PRIu32 " of the segment at 0x%" PRIx64 " ends it %" PRIu64 " bytes "
                     "behind the next BINARY_ID at 0x%" PRIx64,
                     segment_length(c), c->segment_off, left, c->pos);
}

static spgo_code fail_lost_repeat(spgo_spt_cursor *c, const char **rule, spgo_error *err)
{
    c->has_repeat = false;
    *rule = "repeat-lost";
    return spgo_fail(err, SPGO_CORRUPT, where, c->pos - SPT_REPEAT_SIZE,
                     "REPEAT %" PRIu64 " has no record to apply to before its segment ends",
                     c->repeat);
}

/* The next BINARY_ID that can be reached from record to record, or the end. */
static uint64_t find_segment(const spgo_spt_cursor *c, uint64_t at)
{
    while (at < c->size && c->base[at] != SPGO_SPT_BINARY_ID) {
        uint8_t opcode = c->base[at];
        unsigned width = spt_entry_width(opcode);
        if (opcode == SPGO_SPT_REPEAT)
            at += SPT_REPEAT_SIZE;
        else if (width > 0 && c->size - at >= 2)
            at += 2 + (uint64_t)width * c->base[at + 1];
        else
            return c->size;
    }
    return at < c->size ? at : c->size;
}

static bool rest_is_zero(const spgo_spt_cursor *c)
{
    uint64_t at = c->pos;
    while (at < c->size && c->base[at] == 0)
        at++;
    return at == c->size;
}

static spgo_code pass_outsider(spgo_spt_cursor *c, const char **rule, spgo_error *err)
{
    if (c->segment_off > 0 && rest_is_zero(c)) {
        c->pos = c->size;
        return SPGO_NOT_FOUND;
    }
    uint64_t at = c->pos;
    leave_segment(c, find_segment(c, at));
    *rule = "record-outside-segment";
    return spgo_fail(err, SPGO_CORRUPT, where, at,
                     "opcode 0x%02x stands %s; a segment must start with BINARY_ID (0x81); reading "
                     "goes on at 0x%" PRIx64,
                     c->base[at],
                     c->segment_off ? "behind the end of a segment" : "before the first segment",
                     c->pos);
}

/* A length that does not even count itself. Empty if another border follows at once; else the
 * segment lasts to the next BINARY_ID, as after a writer that died before it knew the length. */
static spgo_code fail_short_length(spgo_spt_cursor *c, const char **rule, spgo_error *err)
{
    *rule = "segment-length";
    if (is_segment_border(c, c->pos)) {
        leave_segment(c, c->pos);
    } else {
        c->endless = true;
        c->segment_end = c->size;
    }
    return spgo_fail(err, SPGO_CORRUPT, where, c->segment_off + SPT_LENGTH_OFF,
                     "length %" PRIu32 " of the segment at 0x%" PRIx64
                     " is less than the 4 bytes of "
                     "the length itself; %s",
                     segment_length(c), c->segment_off,
                     c->endless ? "its records are read up to the next BINARY_ID"
                                : "the segment is empty, and its length should be 4");
}

static spgo_code start_segment(spgo_spt_cursor *c, spgo_spt_record *record, const char **rule,
                               spgo_error *err)
{
    uint64_t at = c->pos;
    if (at >= c->size)
        return SPGO_NOT_FOUND;
    if (c->base[at] != SPGO_SPT_BINARY_ID)
        return pass_outsider(c, rule, err);
    c->segment_off = at;
    if (c->size - at < SPT_BINARY_ID_SIZE) {
        leave_segment(c, c->size);
        *rule = "truncated";
        return spgo_fail(err, SPGO_TRUNCATED, where, at,
                         "the records end at 0x%" PRIx64 " inside a BINARY_ID record of 8 bytes",
                         c->size);
    }
    uint16_t program = load_u16(c->base + at + 2);
    uint32_t length = segment_length(c);
    c->segment_end = at + SPT_LENGTH_OFF + length;
    if (program >= c->program_count) {
        leave_segment(c, length < SPT_LENGTH_OFF ? c->size : spt_segment_limit(c));
        *rule = "segment-program";
        return spgo_fail(
            err, SPGO_CORRUPT, where, at + 2,
            "BINARY_ID names program %u, but the table has %zu; the segment is skipped", program,
            c->program_count);
    }
    c->pos = at + SPT_BINARY_ID_SIZE;
    c->program = program;
    c->in_segment = true;
    c->has_repeat = false;
    c->endless = false;
    if (length < SPT_LENGTH_OFF)
        return fail_short_length(c, rule, err);
    *record = (spgo_spt_record){.offset = at,
                                .opcode = SPGO_SPT_BINARY_ID,
                                .program = program,
                                .size_bytes = SPT_BINARY_ID_SIZE,
                                .segment_bytes = length,
                                .entries = c->base + c->pos};
    return SPGO_OK;
}

/* Takes the record with entries at c->pos, of which `left` bytes are there; false if it does not
 * fit. */
static inline bool take_entries(spgo_spt_cursor *c, spgo_spt_record *record, unsigned width,
                                uint64_t left)
{
    const uint8_t *p = c->base + c->pos;
    if (left < 2)
        return false;
    if (left > PREFETCH_BYTES)
        __builtin_prefetch(p + PREFETCH_BYTES);
    uint32_t size = 2 + width * (uint32_t)p[1];
    if (size > left)
        return false;
    uint64_t repeat = c->has_repeat ? c->repeat : 0;
    *record = (spgo_spt_record){.offset = c->pos,
                                .opcode = p[0],
                                .entry_count = p[1],
                                .program = c->program,
                                .size_bytes = size,
                                .repeat = repeat,
                                .hits = repeat == UINT64_MAX ? repeat : repeat + 1,
                                .entries = p + 2};
    c->has_repeat = false;
    c->pos += size;
    return true;
}

static void take_repeat(spgo_spt_cursor *c, spgo_spt_record *record)
{
    c->repeat = load_u64(c->base + c->pos + SPT_COUNT_OFF);
    c->has_repeat = true;
    *record = (spgo_spt_record){.offset = c->pos,
                                .opcode = SPGO_SPT_REPEAT,
                                .program = c->program,
                                .size_bytes = SPT_REPEAT_SIZE,
                                .repeat = c->repeat,
                                .entries = c->base + c->pos + SPT_REPEAT_SIZE};
    c->pos += SPT_REPEAT_SIZE;
}

static spgo_code fail_unknown(spgo_spt_cursor *c, const char **rule, spgo_error *err)
{
    uint64_t at = c->pos;
    leave_segment(c, spt_segment_limit(c));
    *rule = "unknown-opcode";
    return spgo_fail(err, SPGO_UNSUPPORTED, where, at,
                     "opcode 0x%02x is not known and records carry no length; the rest of the "
                     "segment up to 0x%" PRIx64 " is skipped",
                     c->base[at], c->pos);
}

static spgo_code next_in_segment(spgo_spt_cursor *c, spgo_spt_record *record, const char **rule,
                                 spgo_error *err)
{
    uint64_t left = spt_segment_limit(c) - c->pos;
    if (left == 0)
        return fail_early_end(c, rule, err);
    const uint8_t *p = c->base + c->pos;
    if (p[0] == SPGO_SPT_BINARY_ID)
        return fail_early_segment(c, rule, err);
    unsigned width = spt_entry_width(p[0]);
    if (width > 0) {
        if (take_entries(c, record, width, left))
            return SPGO_OK;
        return fail_cut(c, left < 2 ? 2 : 2 + (uint64_t)width * p[1], rule, err);
    }
    if (p[0] != SPGO_SPT_REPEAT)
        return fail_unknown(c, rule, err);
    if (left < SPT_REPEAT_SIZE)
        return fail_cut(c, SPT_REPEAT_SIZE, rule, err);
    take_repeat(c, record);
    return SPGO_OK;
}

spgo_code spt_next(spgo_spt_cursor *c, spgo_spt_record *record, const char **rule, spgo_error *err)
{
    if (c->in_segment) {
        bool at_end =
            c->pos >= c->segment_end || (c->endless && c->base[c->pos] == SPGO_SPT_BINARY_ID);
        if (!at_end)
            return next_in_segment(c, record, rule, err);
        if (c->has_repeat)
            return fail_lost_repeat(c, rule, err);
        leave_segment(c, c->pos);
    }
    return start_segment(c, record, rule, err);
}

spgo_code spgo_spt_next(spgo_spt_cursor *c, spgo_spt_record *record, spgo_error *err)
{
    const char *rule;
    return spt_next(c, record, &rule, err);
}

/* What is not the ordinary next record: a segment's border, REPEAT, the end, damage. False ends
 * the walk with *code, and damage leaves the cursor before it. */
static bool step_slowly(spgo_spt_cursor *c, spgo_spt_record *record, spgo_code *code)
{
    spgo_spt_cursor before = *c;
    const char *rule;
    *code = spt_next(c, record, &rule, NULL);
    if (*code != SPGO_OK && *code != SPGO_NOT_FOUND)
        *c = before;
    return *code == SPGO_OK;
}

bool spgo_spt_next_entries(spgo_spt_cursor *c, spgo_spt_record *record, spgo_code *code)
{
    for (;;) {
        uint64_t limit = c->in_segment ? spt_segment_limit(c) : 0;
        if (c->pos < limit) {
            uint64_t left = limit - c->pos;
            uint8_t opcode = c->base[c->pos];
            unsigned width = spt_entry_width(opcode);
            if (width > 0 && take_entries(c, record, width, left))
                return true;
            if (opcode == SPGO_SPT_REPEAT && left >= SPT_REPEAT_SIZE) {
                c->repeat = load_u64(c->base + c->pos + SPT_COUNT_OFF);
                c->has_repeat = true;
                c->pos += SPT_REPEAT_SIZE;
                continue;
            }
        }
        if (!step_slowly(c, record, code))
            return false;
        if (spt_entry_width(record->opcode) > 0)
            return true;
    }
}
