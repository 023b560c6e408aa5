/*
 * Checks a file against the rules of doc/formats/spt.md, whose names the findings carry. Broken
 * rules come from the reader itself, so that verifying and reading cannot disagree; what is added
 * here is what the reader accepts without a word.
 */
#include <format/spt/spt_internal.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>

typedef struct verifier {
    const spgo_spt *spt;
    bool (*found)(void *ctx, const spgo_spt_finding *finding);
    void *ctx;
    spgo_spt_verdict *verdict;
    bool stopped;
    uint64_t repeat_off; /* of the REPEAT that the last record was; 0: it was another */
    uint8_t has_records[(SPGO_SPT_PROGRAMS_MAX + 8) / 8]; /* a bit for each program */
} verifier;

static void submit(verifier *v, const spgo_spt_finding *finding)
{
    if (v->stopped)
        return;
    switch (finding->severity) {
    case SPGO_SPT_NOTE:
        v->verdict->notes++;
        break;
    case SPGO_SPT_WARNING:
        v->verdict->warnings++;
        break;
    case SPGO_SPT_DAMAGE:
        v->verdict->damages++;
        break;
    }
    v->stopped = v->found && !v->found(v->ctx, finding);
}

SPGO_PRINTF(5, 6)
static void report(verifier *v, spgo_spt_severity severity, const char *rule, uint64_t offset,
                   const char *fmt, ...)
{
    spgo_spt_finding finding = {.severity = severity, .rule = rule, .offset = offset};
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding.sentence, sizeof finding.sentence, fmt, args);
    va_end(args);
    submit(v, &finding);
}

static void report_failure(verifier *v, const char *rule, const spgo_error *e)
{
    report(v, SPGO_SPT_DAMAGE, rule, e->offset, "%s", e->sentence);
}

/* ------------------------------------------------------------------ header and tables */

static void check_reserved(verifier *v)
{
    const spgo_spt_header *h = &v->spt->header;
    if (h->raw_data_id != 0)
        report(v, SPGO_SPT_NOTE, "reserved-field", SPT_OFF_RAW_DATA_ID,
               "RawDataId is 0x%" PRIx32 "; the field is reserved and should be 0", h->raw_data_id);
    if (h->target_arch != 0)
        report(v, SPGO_SPT_NOTE, "reserved-field", SPT_OFF_TARGET_ARCH,
               "TargetArch is 0x%" PRIx32 "; the field is reserved and should be 0",
               h->target_arch);
}

static void check_typical(verifier *v, uint64_t field_off, const char *field, uint64_t value,
                          uint64_t typical)
{
    if (value != typical)
        report(v, SPGO_SPT_NOTE, "typical-layout", field_off,
               "%s is 0x%" PRIx64 " and not 0x%" PRIx64 " as usual", field, value, typical);
}

static void check_layout(verifier *v)
{
    const spgo_spt_header *h = &v->spt->header;
    uint64_t strings_off = h->string_table_off, programs_off = h->program_table_off;
    uint64_t strings_end = strings_off + h->string_table_capacity;
    uint64_t programs_end = programs_off + (uint64_t)SPGO_SPT_PROGRAM_SIZE * h->program_capacity;
    check_typical(v, SPT_OFF_STRING_TABLE, "StringTableOffset", strings_off, SPGO_SPT_HEADER_SIZE);
    check_typical(v, SPT_OFF_PROGRAM_TABLE, "ProgramIdTableOffset", programs_off, strings_end);
    check_typical(v, SPT_OFF_STRINGS_CAPACITY, "StringTableCapacity", h->string_table_capacity,
                  SPGO_SPT_TYPICAL_STRINGS);
    check_typical(v, SPT_OFF_PROGRAMS_CAPACITY, "ProgramIdCapacity", h->program_capacity,
                  SPGO_SPT_TYPICAL_PROGRAMS);
    uint64_t start = strings_off > programs_off ? strings_off : programs_off;
    uint64_t end = strings_end < programs_end ? strings_end : programs_end;
    if (start < end)
        report(v, SPGO_SPT_DAMAGE, "tables-overlap", SPT_OFF_PROGRAM_TABLE,
               "the string table and the program id table share the bytes from 0x%" PRIx64
               " to 0x%" PRIx64,
               start, end);
    if (h->string_table_used <= h->string_table_capacity && strings_end > v->spt->file.len &&
        v->spt->strings.len == h->string_table_used)
        report(v, SPGO_SPT_WARNING, "string-table-capacity", SPT_OFF_STRINGS_CAPACITY,
               "the string table's capacity of %u bytes reaches to 0x%" PRIx64
               ", behind the end of the file; only its used part is read",
               h->string_table_capacity, strings_end);
}

/* The unused part of a table should be zeros. */
static void check_unused(verifier *v, const char *rule, const char *table, uint64_t start,
                         uint64_t end)
{
    spgo_span file = v->spt->file;
    for (uint64_t at = start; at < end && at < file.len; at++) {
        if (file.ptr[at] != 0) {
            report(v, SPGO_SPT_NOTE, rule, at,
                   "unused space of the %s holds 0x%02x; it should be zero", table, file.ptr[at]);
            return;
        }
    }
}

static void check_strings(verifier *v)
{
    const spgo_spt_header *h = &v->spt->header;
    spgo_span strings = v->spt->strings;
    uint64_t off = h->string_table_off;
    if (strings.len > 0 && strings.ptr[strings.len - 1] != 0)
        report(v, SPGO_SPT_WARNING, "string-table-end", off + strings.len - 1,
               "StringTableUsed (%u) does not include the NUL of the last string",
               h->string_table_used);
    /* That NUL is no stray byte, and a table outside the file has no unused part. */
    if (off >= SPGO_SPT_HEADER_SIZE)
        check_unused(v, "string-table-unused", "string table", off + strings.len,
                     off + h->string_table_capacity);
}

static void check_name(verifier *v, const spgo_spt_program *p, uint64_t entry_off)
{
    uint64_t index_off = entry_off + SPGO_SPT_PROGRAM_SIZE - 4;
    bool is_ordinal = v->spt->ordinal_names;
    if (!is_ordinal && p->string_index >= v->spt->strings.len)
        report(v, SPGO_SPT_DAMAGE, "string-index", index_off,
               "string index 0x%" PRIx32 " is outside the %zu used bytes of the string table",
               p->string_index, v->spt->strings.len);
    else if (!is_ordinal && !spt_is_string_start(v->spt->strings, p->string_index))
        report(v, SPGO_SPT_WARNING, "string-index-inside", index_off,
               "string index 0x%" PRIx32 " points into the middle of a string; the name is read "
               "from there",
               p->string_index);
    else if (p->name.len == 0)
        report(v, SPGO_SPT_NOTE, "program-name-empty", index_off, "the program's name is empty");
    if (!text_is_utf8(p->name))
        report(v, SPGO_SPT_NOTE, "program-name-utf8", index_off, "the program's name is not UTF-8");
}

static uint64_t program_off(const spgo_spt *spt, size_t index)
{
    return spt->header.program_table_off + (uint64_t)SPGO_SPT_PROGRAM_SIZE * index;
}

/* By identity, unknown identities by name too, then by place. */
static int compare_programs(const void *a, const void *b)
{
    const spgo_spt_program *p = *(const spgo_spt_program *const *)a;
    const spgo_spt_program *q = *(const spgo_spt_program *const *)b;
    int order = memcmp(p->id.guid.bytes, q->id.guid.bytes, sizeof p->id.guid.bytes);
    if (order == 0)
        order = (p->id.age > q->id.age) - (p->id.age < q->id.age);
    if (order == 0 && guid_is_null(&p->id.guid)) {
        size_t n = p->name.len < q->name.len ? p->name.len : q->name.len;
        order = n > 0 ? memcmp(p->name.ptr, q->name.ptr, n) : 0;
        if (order == 0)
            order = (p->name.len > q->name.len) - (p->name.len < q->name.len);
    }
    return order ? order : (p > q) - (p < q);
}

static bool is_duplicate(const spgo_spt_program *p, const spgo_spt_program *q)
{
    return image_id_equal(&p->id, &q->id) &&
           (!guid_is_null(&p->id.guid) || text_equal(p->name, q->name));
}

static spgo_code check_duplicates(verifier *v, spgo_error *err)
{
    const spgo_spt *spt = v->spt;
    size_t n = spt->program_count;
    const spgo_spt_program **sorted = malloc((n + 1) * sizeof sorted[0]);
    if (!sorted)
        return spgo_fail_nomem(err, "spt.verify", (n + 1) * sizeof sorted[0]);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &spt->programs[i];
    qsort(sorted, n, sizeof sorted[0], compare_programs);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (is_duplicate(sorted[first], sorted[i]))
            report(v, SPGO_SPT_NOTE, "program-duplicate",
                   program_off(spt, (size_t)(sorted[i] - spt->programs)),
                   "program %zu has the same id and age as program %zu",
                   (size_t)(sorted[i] - spt->programs), (size_t)(sorted[first] - spt->programs));
        else
            first = i;
    }
    free(sorted);
    return SPGO_OK;
}

static void check_programs(verifier *v)
{
    const spgo_spt *spt = v->spt;
    if (spt->ordinal_names)
        report(v, SPGO_SPT_WARNING, "string-ordinal",
               program_off(spt, 0) + SPGO_SPT_PROGRAM_SIZE - 4,
               "string indices count strings here; they should be byte offsets into the string "
               "table");
    for (size_t i = 0; i < spt->program_count; i++) {
        check_name(v, &spt->programs[i], program_off(spt, i));
        if (guid_is_null(&spt->programs[i].id.guid))
            report(v, SPGO_SPT_NOTE, "program-id-null", program_off(spt, i),
                   "program %zu has a null GUID: it cannot be matched with an image", i);
    }
    if (spt->header.program_table_off >= SPGO_SPT_HEADER_SIZE)
        check_unused(v, "program-table-unused", "program id table",
                     program_off(spt, spt->program_count),
                     program_off(spt, spt->header.program_capacity));
}

/* ------------------------------------------------------------------ records */

/* The second byte of BINARY_ID and of REPEAT. */
static void check_pad(verifier *v, const char *rule, const spgo_spt_record *r)
{
    uint8_t pad = v->spt->file.ptr[r->offset + 1];
    if (pad != 0)
        report(v, SPGO_SPT_NOTE, rule, r->offset + 1,
               "the pad byte of %s is 0x%02x; it should be 0", spgo_spt_opcode_name(r->opcode),
               pad);
}

static void check_segment(verifier *v, const spgo_spt_record *r)
{
    v->verdict->segment_count++;
    check_pad(v, "segment-pad", r);
    if (r->segment_bytes == SPT_BINARY_ID_SIZE - SPT_LENGTH_OFF)
        report(v, SPGO_SPT_NOTE, "segment-empty", r->offset, "the segment holds no records");
}

static void check_repeat(verifier *v, const spgo_spt_record *r)
{
    check_pad(v, "repeat-pad", r);
    if (v->repeat_off != 0)
        report(v, SPGO_SPT_WARNING, "repeat-replaced", v->repeat_off,
               "this REPEAT is followed by another, which replaces it");
    if (r->repeat == UINT64_MAX)
        report(v, SPGO_SPT_WARNING, "repeat-saturates", r->offset + SPT_COUNT_OFF,
               "REPEAT %" PRIu64 " makes 2^64 hits, one more than can be counted", r->repeat);
}

/* An end in another image may stand only where it has no neighbour. */
static void check_outside_ends(verifier *v, const spgo_spt_record *r)
{
    for (unsigned i = 0; i < r->entry_count; i++) {
        bool from_outside = spgo_spt_arc_from(r, i) == SPGO_SPT_OUTSIDE;
        bool to_outside = spgo_spt_arc_to(r, i) == SPGO_SPT_OUTSIDE;
        if (!(from_outside && i + 1u < r->entry_count) && !(to_outside && i > 0))
            continue;
        report(v, SPGO_SPT_WARNING, "outside-inside", r->offset + 2 + 8 * (uint64_t)i,
               "entry %u of %u has an end at RVA 0, another image, beside a neighbour; the code "
               "range between them is none",
               i, r->entry_count);
        return;
    }
}

static void check_entries(verifier *v, const spgo_spt_record *r)
{
    v->verdict->record_count++;
    v->has_records[r->program / 8] |= (uint8_t)(1u << r->program % 8);
    if (r->entry_count == 0)
        report(v, SPGO_SPT_WARNING, "record-empty", r->offset + 1, "the %s record has no entries",
               spgo_spt_opcode_name(r->opcode));
    if (r->entry_count == 1 && r->opcode == SPGO_SPT_ETW_CALLSTACK)
        report(v, SPGO_SPT_NOTE, "callstack-single", r->offset + 1,
               "a callstack of one frame holds no arc");
    if (r->opcode == SPGO_SPT_LBR)
        check_outside_ends(v, r);
}

static void check_record(verifier *v, const spgo_spt_record *r)
{
    if (r->opcode == SPGO_SPT_BINARY_ID)
        check_segment(v, r);
    else if (r->opcode == SPGO_SPT_REPEAT)
        check_repeat(v, r);
    else
        check_entries(v, r);
    v->repeat_off = r->opcode == SPGO_SPT_REPEAT ? r->offset : 0;
}

static void report_trailing(verifier *v, uint64_t start, uint64_t end)
{
    if (start < end)
        report(v, SPGO_SPT_NOTE, "trailing-bytes", start,
               "%" PRIu64 " bytes follow that belong to no segment and no table", end - start);
}

static void check_stream(verifier *v)
{
    const spgo_spt *spt = v->spt;
    spgo_spt_cursor c = spgo_spt_records(spt);
    if (c.pos == c.size && spt->fault_count == 0)
        report(v, SPGO_SPT_NOTE, "stream-empty", c.pos, "the file holds no records");
    while (!v->stopped) {
        spgo_spt_record record;
        spgo_error failure;
        const char *rule;
        uint64_t before = c.pos;
        spgo_code code = spt_next(&c, &record, &rule, &failure);
        if (code == SPGO_NOT_FOUND) {
            report_trailing(v, before, c.size);
            break;
        }
        if (code == SPGO_OK) {
            check_record(v, &record);
        } else {
            report_failure(v, rule, &failure);
            v->repeat_off = 0;
        }
    }
    /* Behind a string table that follows the records. */
    if (spt->data_end < spt->file.len)
        report_trailing(v, spt->data_end + spt->header.string_table_capacity, spt->file.len);
}

static void check_program_use(verifier *v)
{
    for (size_t i = 0; i < v->spt->program_count && !v->stopped; i++) {
        if (!(v->has_records[i / 8] & 1u << i % 8))
            report(v, SPGO_SPT_NOTE, "program-unused", program_off(v->spt, i),
                   "no record belongs to program %zu", i);
    }
}

static spgo_code check_file(verifier *v, spgo_error *err)
{
    for (size_t i = 0; i < v->spt->fault_count; i++)
        report_failure(v, v->spt->faults[i].rule, &v->spt->faults[i].error);
    if (!v->spt->tables_known)
        return SPGO_OK;
    check_reserved(v);
    check_layout(v);
    check_strings(v);
    check_programs(v);
    SPGO_TRY(check_duplicates(v, err));
    check_stream(v);
    check_program_use(v);
    return SPGO_OK;
}

spgo_code spgo_spt_verify(spgo_span file, bool (*found)(void *ctx, const spgo_spt_finding *finding),
                          void *ctx, spgo_spt_verdict *verdict, spgo_error *err)
{
    spgo_spt spt;
    spgo_spt_verdict unused;
    verifier v = {.spt = &spt, .found = found, .ctx = ctx, .verdict = verdict ? verdict : &unused};
    *v.verdict = (spgo_spt_verdict){0};
    spgo_code code = spt_load(file, &spt, err);
    if (code == SPGO_OK)
        code = check_file(&v, err);
    spt_unload(&spt);
    return code;
}
