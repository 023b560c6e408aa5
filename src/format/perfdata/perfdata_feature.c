/*
 * Features: what the header says about the machine, the command and the files. A recording in
 * file mode has them behind its data, one in pipe mode as records; their bytes are the same.
 * doc/formats/perfdata.md, "Features".
 */
#include <format/perfdata/perfdata_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/text.h>

enum { BUILD_ID_SIZE = 20, BUILD_ID_FIELD_SIZE = 24 };

static const char *const feature_names[] = {
    [1] = "tracing data",
    [2] = "build-ids",
    [3] = "host name",
    [4] = "OS release",
    [5] = "perf version",
    [6] = "architecture",
    [7] = "CPU counts",
    [8] = "CPU",
    [9] = "CPU id",
    [10] = "memory",
    [11] = "command line",
    [12] = "event descriptions",
    [13] = "CPU topology",
    [14] = "NUMA topology",
    [15] = "branch stack",
    [16] = "PMU mappings",
    [17] = "event groups",
    [18] = "AUX traces",
    [19] = "statistics",
    [20] = "caches",
    [21] = "sample times",
    [22] = "memory topology",
    [23] = "clock id",
    [24] = "directory format",
    [25] = "BPF programs",
    [26] = "BPF types",
    [27] = "compression",
    [28] = "CPU PMU capabilities",
    [29] = "clock data",
    [30] = "hybrid topology",
    [31] = "PMU capabilities",
};

const char *perfdata_feature_name(unsigned feature)
{
    size_t known = sizeof feature_names / sizeof *feature_names;
    return feature < known && feature_names[feature] ? feature_names[feature] : "unknown";
}

/* A length, then so many bytes of text padded with NULs. */
static spgo_str take_text(reader *r, bool big_endian)
{
    spgo_span padded = reader_bytes(r, take_u32(r, big_endian));
    const uint8_t *nul = padded.len ? memchr(padded.ptr, 0, padded.len) : NULL;
    size_t len = nul ? (size_t)(nul - padded.ptr) : padded.len;
    return (spgo_str){(const char *)padded.ptr, len};
}

/* Arguments, joined with spaces. */
static spgo_str take_cmdline(perfdata *p, reader *r)
{
    size_t count = reader_count(r, take_u32(r, p->big_endian), 4);
    char *joined = arena_push(p->mem, reader_left(r) + 1, 1);
    p->no_memory |= !joined;
    size_t len = 0;
    for (size_t i = 0; i < count && r->code == SPGO_OK && joined; i++) {
        spgo_str argument = take_text(r, p->big_endian);
        if (i > 0)
            joined[len++] = ' ';
        if (argument.len > 0)
            memcpy(joined + len, argument.ptr, argument.len);
        len += argument.len;
    }
    return (spgo_str){joined, len};
}

/* Names of the events, in the order of the attributes. */
static void take_event_descriptions(perfdata *p, reader *r)
{
    uint32_t count = take_u32(r, p->big_endian);
    uint32_t attr_size = take_u32(r, p->big_endian);
    for (uint32_t i = 0; i < count && r->code == SPGO_OK; i++) {
        reader_skip(r, attr_size);
        uint32_t id_count = take_u32(r, p->big_endian);
        spgo_str name = take_text(r, p->big_endian);
        reader_skip(r, 8 * (uint64_t)id_count);
        if (r->code == SPGO_OK && i < p->event_count)
            p->events[i]->attr.name = name;
    }
}

static void take_build_ids(perfdata *p, reader *r)
{
    while (reader_left(r) > 0) {
        uint64_t start = reader_offset(r);
        reader_skip(r, 4); /* a record's type, not set here */
        const uint8_t *head = reader_take(r, 4);
        if (!head)
            return;
        uint16_t misc = perfdata_half(p->big_endian, head);
        uint16_t size = perfdata_half(p->big_endian, head + 2);
        if (size < PERFDATA_RECORD_HEADER_SIZE) {
            reader_fail(r, SPGO_CORRUPT, start + 6);
            return;
        }
        reader body = reader_sub(r, size - (unsigned)PERFDATA_RECORD_HEADER_SIZE);
        if (!r->code && !perfdata_take_build_id(p, misc, &body))
            reader_fail(r, body.code ? body.code : SPGO_NOMEM, body.bad_off);
    }
}

/* How much one COMPRESSED record holds at most: the size of the recorder's ring buffers. */
static void take_compression(perfdata *p, reader *r)
{
    const uint64_t sane_max = 1ull << 30;
    reader_skip(r, 16); /* version, type, level, ratio */
    uint64_t ring_size = take_u32(r, p->big_endian);
    if (ring_size > p->unpacked_max)
        p->unpacked_max = ring_size < sane_max ? ring_size : sane_max;
}

bool perfdata_take_feature(perfdata *p, unsigned feature, spgo_span content, uint64_t offset,
                           diag *d)
{
    reader r = reader_from(content, offset);
    switch (feature) {
    case PERFDATA_FEATURE_BUILD_ID:
        take_build_ids(p, &r);
        break;
    case PERFDATA_FEATURE_HOSTNAME:
        p->hostname = take_text(&r, p->big_endian);
        break;
    case PERFDATA_FEATURE_OS_RELEASE:
        p->os_release = take_text(&r, p->big_endian);
        break;
    case PERFDATA_FEATURE_ARCH:
        p->arch = take_text(&r, p->big_endian);
        break;
    case PERFDATA_FEATURE_CMDLINE:
        p->cmdline = take_cmdline(p, &r);
        break;
    case PERFDATA_FEATURE_EVENT_DESC:
        take_event_descriptions(p, &r);
        break;
    case PERFDATA_FEATURE_COMPRESSED:
        take_compression(p, &r);
        break;
    case PERFDATA_FEATURE_DIR_FORMAT:
        diag_add(d, SPGO_UNSUPPORTED, offset,
                 "this is the header of a recording made in a directory; its samples are in the "
                 "data files beside it, which are not read; record without --threads");
        break;
    default:
        break;
    }
    if (r.code != SPGO_OK)
        diag_add(d, r.code, r.bad_off, "the feature %u (%s) is damaged; the rest of it is left out",
                 feature, perfdata_feature_name(feature));
    return r.code == SPGO_OK;
}

/* ------------------------------------------------------------------ build-ids */

static bool room_for_build_id(perfdata *p)
{
    if (p->build_id_count < p->build_id_cap)
        return true;
    size_t cap = p->build_id_cap ? 2 * p->build_id_cap : 16;
    perfdata_build_id *grown = realloc(p->build_ids, cap * sizeof *grown);
    p->no_memory |= !grown;
    if (!grown)
        return false;
    p->build_ids = grown;
    p->build_id_cap = cap;
    return true;
}

bool perfdata_take_build_id(perfdata *p, uint16_t misc, reader *body)
{
    perfdata_build_id id = {.misc = misc, .size = BUILD_ID_SIZE};
    id.pid = take_u32(body, p->big_endian);
    uint64_t field_off = reader_offset(body);
    const uint8_t *field = reader_take(body, BUILD_ID_FIELD_SIZE);
    spgo_span path = reader_bytes(body, reader_left(body));
    if (!field)
        return false;
    if (misc & PERFDATA_MISC_BUILD_ID_SIZE)
        id.size = field[BUILD_ID_SIZE];
    if (id.size == 0 || id.size > BUILD_ID_SIZE) {
        reader_fail(body, SPGO_CORRUPT, field_off + BUILD_ID_SIZE);
        return false;
    }
    memcpy(id.id, field, id.size);
    const uint8_t *nul = path.len ? memchr(path.ptr, 0, path.len) : NULL;
    id.path = (spgo_str){(const char *)path.ptr, nul ? (size_t)(nul - path.ptr) : path.len};
    if (!room_for_build_id(p))
        return false;
    p->build_ids[p->build_id_count++] = id;
    return true;
}
