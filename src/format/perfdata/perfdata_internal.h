/*
 * What the files of this folder share: the recording, its events, and reading words in the
 * recording's own byte order.
 */
#ifndef FORMAT_PERFDATA_INTERNAL_H
#define FORMAT_PERFDATA_INTERNAL_H

#include <base/arena.h>
#include <format/perfdata/perfdata.h>

enum {
    PERFDATA_PIPE_HEADER_SIZE = 16,
    PERFDATA_FILE_HEADER_SIZE = 104,
    PERFDATA_OLD_FILE_HEADER_SIZE = 72, /* without the feature bits */
    PERFDATA_RECORD_HEADER_SIZE = 8,
    PERFDATA_SECTION_SIZE = 16, /* offset and size */
    PERFDATA_ATTR_SIZE_VER0 = 64,
    PERFDATA_FEATURE_COUNT = 256,
    PERFDATA_NO_ID_POS = -1
};

enum {
    PERFDATA_FEATURE_BUILD_ID = 2,
    PERFDATA_FEATURE_HOSTNAME = 3,
    PERFDATA_FEATURE_OS_RELEASE = 4,
    PERFDATA_FEATURE_ARCH = 6,
    PERFDATA_FEATURE_CMDLINE = 11,
    PERFDATA_FEATURE_EVENT_DESC = 12,
    PERFDATA_FEATURE_DIR_FORMAT = 24,
    PERFDATA_FEATURE_COMPRESSED = 27
};

/* An attribute, and what its bits mean for the length of fields. */
typedef struct perfdata_event {
    perfdata_attr attr;
    uint32_t user_reg_count, intr_reg_count;
    uint32_t trailer_size; /* of the sample_id behind records that are no samples; 0: none */
    bool has_branch_index, has_branch_counters;
} perfdata_event;

typedef struct perfdata_id_slot {
    uint64_t id; /* 0: free; perf itself uses 0 for "no id" */
    size_t attr_index;
} perfdata_id_slot;

struct perfdata {
    spgo_span bytes;
    bool big_endian, is_pipe;
    uint64_t data_off, data_end; /* of the records; data_end is inside the file */
    bool data_cut;               /* the header promises more data than there is */
    uint64_t meta_end;           /* pipe: metadata records before this offset have been taken */
    uint64_t unpacked_max;       /* bytes that one COMPRESSED record may hold */

    bool no_memory; /* something is missing for that alone */
    arena *mem;
    perfdata_event **events;
    size_t event_count, event_cap;
    /* Where all events agree to keep the id: in a sample from its start, in other records'
     * trailers from the end; PERFDATA_NO_ID_POS if they do not. */
    int sample_id_pos, trailer_id_pos;
    bool same_layout; /* all events describe the same sample fields */
    perfdata_id_slot *ids;
    size_t id_count, id_slot_count; /* slots: a power of two, or 0 */

    perfdata_build_id *build_ids;
    size_t build_id_count, build_id_cap;
    spgo_str hostname, os_release, arch, cmdline;
};

/* ------------------------------------------------------------------ words */

static inline uint16_t perfdata_half(bool big_endian, const uint8_t *at)
{
    uint16_t value = load_u16(at);
    return big_endian ? __builtin_bswap16(value) : value;
}

static inline uint32_t perfdata_word32(bool big_endian, const uint8_t *at)
{
    uint32_t value = load_u32(at);
    return big_endian ? __builtin_bswap32(value) : value;
}

static inline uint32_t take_u32(reader *r, bool big_endian)
{
    const uint8_t *at = reader_take(r, 4);
    return at ? perfdata_word32(big_endian, at) : 0;
}

static inline uint64_t take_u64(reader *r, bool big_endian)
{
    const uint8_t *at = reader_take(r, 8);
    return at ? perfdata_word(big_endian, at) : 0;
}

static inline reader record_reader(const perfdata_record *r)
{
    return reader_from(r->body, r->offset + PERFDATA_RECORD_HEADER_SIZE);
}

/* ------------------------------------------------------------------ perfdata_attr.c */

/* Adds the attribute that `attr` holds (all of its own size) as the next event. */
spgo_code perfdata_add_event(perfdata *p, reader *attr, spgo_error *err);
/* Says that `id` belongs to event `index`; the first event to claim an id keeps it. False without
 * memory. */
bool perfdata_add_id(perfdata *p, uint64_t id, size_t index);
/* The event of an id, or SIZE_MAX. */
size_t perfdata_find_id(const perfdata *p, uint64_t id);

/* ------------------------------------------------------------------ perfdata_feature.c */

/* Takes one feature's content, found at `offset`. Damage goes to d; false if there was any. */
bool perfdata_take_feature(perfdata *p, unsigned feature, spgo_span content, uint64_t offset,
                           diag *d);
/* Adds the build-id of one record or entry of the feature (the body behind the record header). */
bool perfdata_take_build_id(perfdata *p, uint16_t misc, reader *body);
const char *perfdata_feature_name(unsigned feature);

/* ------------------------------------------------------------------ perfdata_walk.c */

/* Reads the attributes, features and build-ids at the start of a pipe-mode recording. */
void perfdata_take_leading_metadata(perfdata *p, diag *d);

/* ------------------------------------------------------------------ perfdata_unpack.c */

/*
 * The zstd stream of a walk. COMPRESSED records are pieces of one stream, and records of the
 * unpacked stream cross their borders, so what is left of the last record stays here.
 */
typedef struct perfdata_unpacker perfdata_unpacker;

bool perfdata_can_unpack(void);
perfdata_unpacker *perfdata_unpacker_new(void); /* NULL without memory */
void perfdata_unpacker_free(perfdata_unpacker *u);
/* The next piece of the stream; the one before must have been read to its end. */
void perfdata_unpacker_feed(perfdata_unpacker *u, spgo_span packed, uint64_t unpacked_max);
/* How many bytes stand unread at *at; asks for more when they are fewer than `want` (at most
 * 65535) and the fed piece has more. SPGO_CORRUPT, SPGO_LIMIT: the piece's rest is lost. */
spgo_code perfdata_unpacker_peek(perfdata_unpacker *u, size_t want, const uint8_t **at,
                                 size_t *available);
void perfdata_unpacker_skip(perfdata_unpacker *u, size_t size_bytes);
/* Forgets what is left of the stream, so that a new one can start. */
void perfdata_unpacker_reset(perfdata_unpacker *u);

#endif
