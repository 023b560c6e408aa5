/*
 * Opening a recording: the header of file mode and pipe mode, attributes with their ids, and the
 * table of features. doc/formats/perfdata.md, "Header".
 */
#include <format/perfdata/perfdata_internal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What one COMPRESSED record may hold when the recording does not say more. */
#define UNPACKED_MAX_DEFAULT (64ull * 1024 * 1024)

typedef struct section {
    uint64_t off, size;
} section;

typedef struct file_header {
    uint64_t size, attr_size;
    section attrs, data;
    uint64_t features[PERFDATA_FEATURE_COUNT / 64];
} file_header;

/* ------------------------------------------------------------------ magic */

static bool has_magic(spgo_span input, const char *magic)
{
    return input.len >= 8 && memcmp(input.ptr, magic, 8) == 0;
}

bool perfdata_sniff(spgo_span input)
{
    return has_magic(input, "PERFILE2") || has_magic(input, "2ELIFREP") ||
           has_magic(input, "PERFFILE") || has_magic(input, "ELIFFREP");
}

static spgo_code read_magic(perfdata *p, spgo_error *err)
{
    static const char where[] = "perfdata.magic";
    spgo_span input = p->bytes;
    if (input.len < 8)
        return spgo_fail(err, SPGO_TRUNCATED, where, input.len,
                         "the file has %zu bytes, too few for the magic of perf.data", input.len);
    if (has_magic(input, "PERFFILE") || has_magic(input, "ELIFFREP"))
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                         "the recording has version 1, of a perf from before 2012; version 2 "
                         "is read: record again with a newer perf");
    if (!perfdata_sniff(input))
        return spgo_fail(err, SPGO_CORRUPT, where, 0,
                         "no perf.data: it starts with neither PERFILE2 nor 2ELIFREP");
    p->big_endian = has_magic(input, "2ELIFREP");
    return SPGO_OK;
}

/* ------------------------------------------------------------------ header */

static section take_section(reader *r, bool big_endian)
{
    section s;
    s.off = take_u64(r, big_endian);
    s.size = take_u64(r, big_endian);
    return s;
}

/*
 * The bits are an array of the recorder's `unsigned long`. A big-endian recorder of 32 bits
 * therefore has the halves of each 64 the other way round; every recorder sets the host name's
 * bit, which tells.
 */
static void read_feature_bits(reader *r, bool big_endian, file_header *h)
{
    const uint64_t hostname = 1u << PERFDATA_FEATURE_HOSTNAME;
    size_t count = sizeof h->features / sizeof *h->features;
    for (size_t i = 0; i < count; i++)
        h->features[i] = take_u64(r, big_endian);
    if (!big_endian || h->features[0] & hostname || !(h->features[0] >> 32 & hostname))
        return;
    for (size_t i = 0; i < count; i++)
        h->features[i] = h->features[i] << 32 | h->features[i] >> 32;
}

static spgo_code read_file_header(const perfdata *p, file_header *h, spgo_error *err)
{
    reader r = reader_from(p->bytes, 0);
    *h = (file_header){0};
    reader_skip(&r, 8);
    h->size = take_u64(&r, p->big_endian);
    if (!r.code && h->size != PERFDATA_OLD_FILE_HEADER_SIZE &&
        h->size != PERFDATA_FILE_HEADER_SIZE && h->size != PERFDATA_PIPE_HEADER_SIZE)
        return spgo_fail(err, SPGO_CORRUPT, "perfdata.header", 8,
                         "the header's size is %" PRIu64 ", not 104, 72 or, in pipe mode, 16",
                         h->size);
    if (h->size == PERFDATA_PIPE_HEADER_SIZE)
        return reader_finish(&r, "perfdata.header", err);
    h->attr_size = take_u64(&r, p->big_endian);
    h->attrs = take_section(&r, p->big_endian);
    h->data = take_section(&r, p->big_endian);
    reader_skip(&r, PERFDATA_SECTION_SIZE); /* event types, no longer used */
    if (h->size == PERFDATA_FILE_HEADER_SIZE)
        read_feature_bits(&r, p->big_endian, h);
    return reader_finish(&r, "perfdata.header", err);
}

/* ------------------------------------------------------------------ attributes */

/* Sections of honest files do not overlap, so that there are never more ids than words. */
static bool take_ids(perfdata *p, section ids, size_t index, size_t *ids_left, spgo_error *err)
{
    if (ids.off > p->bytes.len || ids.size > p->bytes.len - ids.off || ids.size / 8 > *ids_left)
        return false;
    *ids_left -= (size_t)(ids.size / 8);
    const uint8_t *at = p->bytes.ptr + ids.off;
    for (uint64_t i = 0; i < ids.size / 8; i++) {
        if (!perfdata_add_id(p, perfdata_word(p->big_endian, at + 8 * i), index)) {
            (void)spgo_fail_nomem(err, "perfdata.ids", (size_t)ids.size);
            return false;
        }
    }
    return true;
}

static spgo_code read_attr_entry(perfdata *p, reader *entry, size_t *ids_left, diag *d,
                                 spgo_error *err)
{
    uint64_t start = reader_offset(entry);
    uint32_t size = perfdata_word32(p->big_endian, entry->base + 4);
    if (size == 0)
        size = PERFDATA_ATTR_SIZE_VER0; /* the first perf did not set it */
    if (size < PERFDATA_ATTR_SIZE_VER0 || size > entry->len - PERFDATA_SECTION_SIZE)
        return spgo_fail(err, SPGO_CORRUPT, "perfdata.attr", start + 4,
                         "attribute %zu says its size is %" PRIu32
                         "; its entry has room for 64 to %zu",
                         p->event_count, size, entry->len - PERFDATA_SECTION_SIZE);
    reader attr = reader_sub(entry, size);
    SPGO_TRY(perfdata_add_event(p, &attr, err));
    section ids = take_section(entry, p->big_endian);
    spgo_error why = {.code = SPGO_OK};
    if (!take_ids(p, ids, p->event_count - 1, ids_left, &why)) {
        if (why.code != SPGO_OK) {
            if (err)
                *err = why;
            return why.code;
        }
        diag_add(d, SPGO_CORRUPT, start + size,
                 "the ids of event %zu (%" PRIu64 " bytes at 0x%" PRIx64
                 ") do not fit into the file; its records may go to no event",
                 p->event_count - 1, ids.size, ids.off);
    }
    return SPGO_OK;
}

static spgo_code read_attrs(perfdata *p, const file_header *h, diag *d, spgo_error *err)
{
    static const char where[] = "perfdata.attrs";
    const uint64_t entry_min = PERFDATA_ATTR_SIZE_VER0 + PERFDATA_SECTION_SIZE;
    if (h->attr_size < entry_min || h->attr_size > UINT32_MAX)
        return spgo_fail(err, SPGO_CORRUPT, where, 16,
                         "the size of an attribute entry is %" PRIu64 ", less than 80 or absurd; "
                         "perf record may have been killed as it started",
                         h->attr_size);
    if (h->attrs.off > p->bytes.len || h->attrs.size > p->bytes.len - h->attrs.off)
        return spgo_fail(err, SPGO_TRUNCATED, where, p->bytes.len,
                         "the attributes (%" PRIu64 " bytes at 0x%" PRIx64
                         ") reach behind the end of the file",
                         h->attrs.size, h->attrs.off);
    size_t ids_left = p->bytes.len / 8;
    reader all =
        reader_from((spgo_span){p->bytes.ptr + h->attrs.off, (size_t)h->attrs.size}, h->attrs.off);
    while (reader_left(&all) >= h->attr_size) {
        reader entry = reader_sub(&all, h->attr_size);
        SPGO_TRY(read_attr_entry(p, &entry, &ids_left, d, err));
    }
    if (p->event_count == 0)
        diag_add(d, SPGO_CORRUPT, 24, "the recording describes no event: no sample can be read");
    return SPGO_OK;
}

/* ------------------------------------------------------------------ data and features */

static void place_data(perfdata *p, const file_header *h, diag *d)
{
    uint64_t file_size = p->bytes.len;
    p->data_off = h->data.off < file_size ? h->data.off : file_size;
    uint64_t room = file_size - p->data_off;
    p->data_end = p->data_off + (h->data.size < room ? h->data.size : room);
    if (h->data.size == 0) {
        p->data_end = file_size;
        if (room > 0)
            diag_add(
                d, SPGO_TRUNCATED, 48,
                "the size of the data is 0: perf record did not finish; records are read up to "
                "the end of the file, and there are no features");
    } else if (h->data.off > file_size || h->data.size > room) {
        p->data_cut = true;
        diag_add(d, SPGO_TRUNCATED, file_size,
                 "the file ends at 0x%" PRIx64 ", inside its data (%" PRIu64 " bytes at 0x%" PRIx64
                 "); features are lost",
                 file_size, h->data.size, h->data.off);
    }
}

static void read_features(perfdata *p, const file_header *h, diag *d)
{
    if (h->data.size == 0 || p->data_cut)
        return;
    spgo_span behind = {p->bytes.ptr + p->data_end, p->bytes.len - (size_t)p->data_end};
    reader table = reader_from(behind, p->data_end);
    for (unsigned feature = 0; feature < PERFDATA_FEATURE_COUNT; feature++) {
        if (!(h->features[feature / 64] >> feature % 64 & 1))
            continue;
        uint64_t entry_off = reader_offset(&table);
        section s = take_section(&table, p->big_endian);
        if (table.code != SPGO_OK) {
            diag_add(d, SPGO_TRUNCATED, table.bad_off,
                     "the file ends inside the table of features, at feature %u (%s)", feature,
                     perfdata_feature_name(feature));
            return;
        }
        if (s.off > p->bytes.len || s.size > p->bytes.len - s.off) {
            diag_add(d, SPGO_TRUNCATED, entry_off,
                     "feature %u (%s, %" PRIu64 " bytes at 0x%" PRIx64
                     ") reaches behind the end of the file; it is left out",
                     feature, perfdata_feature_name(feature), s.size, s.off);
            continue;
        }
        spgo_span content = {p->bytes.ptr + s.off, (size_t)s.size};
        (void)perfdata_take_feature(p, feature, content, s.off, d);
    }
}

/* ------------------------------------------------------------------ open and close */

static spgo_code open_into(perfdata *p, diag *d, spgo_error *err)
{
    SPGO_TRY(read_magic(p, err));
    file_header h;
    SPGO_TRY(read_file_header(p, &h, err));
    p->is_pipe = h.size == PERFDATA_PIPE_HEADER_SIZE;
    if (p->is_pipe) {
        p->data_off = PERFDATA_PIPE_HEADER_SIZE;
        p->data_end = p->bytes.len;
        perfdata_take_leading_metadata(p, d);
        return SPGO_OK;
    }
    SPGO_TRY(read_attrs(p, &h, d, err));
    place_data(p, &h, d);
    read_features(p, &h, d);
    return SPGO_OK;
}

spgo_code perfdata_open(spgo_span input, perfdata **out, diag *d, spgo_error *err)
{
    *out = NULL;
    perfdata *p = calloc(1, sizeof *p);
    arena *mem = arena_new(0);
    if (!p || !mem) {
        free(p);
        arena_free(mem);
        return spgo_fail_nomem(err, "perfdata.open", sizeof *p);
    }
    p->bytes = input;
    p->mem = mem;
    p->sample_id_pos = p->trailer_id_pos = PERFDATA_NO_ID_POS;
    p->unpacked_max = UNPACKED_MAX_DEFAULT;
    spgo_code code = open_into(p, d, err);
    if (code != SPGO_OK) {
        perfdata_close(p);
        return code;
    }
    *out = p;
    return SPGO_OK;
}

void perfdata_close(perfdata *p)
{
    if (!p)
        return;
    arena_free(p->mem);
    free(p->events);
    free(p->ids);
    free(p->build_ids);
    free(p);
}

/* ------------------------------------------------------------------ what it says */

bool perfdata_is_pipe(const perfdata *p)
{
    return p->is_pipe;
}

bool perfdata_is_big_endian(const perfdata *p)
{
    return p->big_endian;
}

size_t perfdata_attr_count(const perfdata *p)
{
    return p->event_count;
}

const perfdata_attr *perfdata_get_attr(const perfdata *p, size_t index)
{
    return index < p->event_count ? &p->events[index]->attr : NULL;
}

spgo_str perfdata_hostname(const perfdata *p)
{
    return p->hostname;
}

spgo_str perfdata_os_release(const perfdata *p)
{
    return p->os_release;
}

spgo_str perfdata_arch(const perfdata *p)
{
    return p->arch;
}

spgo_str perfdata_cmdline(const perfdata *p)
{
    return p->cmdline;
}

size_t perfdata_build_id_count(const perfdata *p)
{
    return p->build_id_count;
}

const perfdata_build_id *perfdata_get_build_id(const perfdata *p, size_t index)
{
    return index < p->build_id_count ? &p->build_ids[index] : NULL;
}
