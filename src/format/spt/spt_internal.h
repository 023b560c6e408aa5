/*
 * What the files of the SPT library share. The byte layout is in doc/formats/spt.md; the constants
 * are in spgo/spt.h.
 */
#ifndef SPT_INTERNAL_H
#define SPT_INTERNAL_H

#include <spgo/spt.h>

#include <base/bytes.h>
#include <base/fail.h>
#include <base/reader.h>

#include <inttypes.h>

enum {
    SPT_REPEAT_SIZE = 10,   /* opcode, pad, u64 count */
    SPT_COUNT_OFF = 2,      /* of the count in REPEAT */
    SPT_BINARY_ID_SIZE = 8, /* opcode, pad, u16 id, u32 length */
    SPT_LENGTH_OFF = 4,     /* of the length field in BINARY_ID, and the bytes it does not count */
    SPT_ENTRY_BYTES_MAX = 8 * SPGO_SPT_ENTRIES_MAX,
    SPT_HEADER_FAULTS_MAX = 8
};

/* Offsets of the header's fields. */
enum {
    SPT_OFF_SIGNATURE = 0x00,
    SPT_OFF_VERSION = 0x04,
    SPT_OFF_RAW_DATA_ID = 0x08,
    SPT_OFF_TARGET_ARCH = 0x0C,
    SPT_OFF_STRING_TABLE = 0x10,
    SPT_OFF_PROGRAM_TABLE = 0x14,
    SPT_OFF_STRINGS_USED = 0x18,
    SPT_OFF_STRINGS_CAPACITY = 0x1A,
    SPT_OFF_PROGRAMS_USED = 0x1C,
    SPT_OFF_PROGRAMS_CAPACITY = 0x1E
};

/* A broken rule: its name in doc/formats/spt.md and the failure. */
typedef struct spt_fault {
    const char *rule;
    spgo_error error;
} spt_fault;

struct spgo_spt {
    spgo_span file;
    spgo_spt_header header;
    spgo_span strings;  /* the used part of the string table, as far as it is inside the file */
    size_t listed_size; /* the same without the zeros that pad it */
    spgo_spt_program *programs;
    size_t program_count; /* used entries inside the file */
    uint64_t data_off;
    uint64_t data_end;
    bool recognized;    /* the signature is ours, if perhaps in the wrong byte order */
    bool tables_known;  /* the version is ours, so the fields below it mean what we think */
    bool ordinal_names; /* string indices count strings instead of bytes */
    size_t fault_count;
    spt_fault faults[SPT_HEADER_FAULTS_MAX]; /* of the header, in order of its fields */
};

/* Reads header and tables as far as they go; every broken rule is in spt->faults. Fails only
 * without memory. Release with spt_unload. */
spgo_code spt_load(spgo_span file, spgo_spt *spt, spgo_error *err);
void spt_unload(spgo_spt *spt);

/* spgo_spt_next, and the name of the rule that a failure breaks. */
spgo_code spt_next(spgo_spt_cursor *c, spgo_spt_record *record, const char **rule, spgo_error *err);

/* Is the string index the start of a string, as a byte offset into the used table? */
bool spt_is_string_start(spgo_span strings, uint64_t index);

/* Bytes of one entry: 4, 8, or 0 for opcodes without entries. */
static inline unsigned spt_entry_width(uint8_t opcode)
{
    switch (opcode) {
    case SPGO_SPT_LBR:
        return 8;
    case SPGO_SPT_UNHALT_CYCLE:
    case SPGO_SPT_RETIRE_INSTR:
    case SPGO_SPT_RETIRE_BR_INSTR:
    case SPGO_SPT_L1_ICACHE_MISS:
    case SPGO_SPT_L1_DCACHE_MISS:
    case SPGO_SPT_ETW_INSTR:
    case SPGO_SPT_ETW_CALLSTACK:
        return 4;
    default:
        return 0;
    }
}

/* How often the record's hits count: entries of IP and LBR, arcs of a callstack. */
static inline unsigned spt_hit_count(uint8_t opcode, unsigned entry_count)
{
    return opcode == SPGO_SPT_ETW_CALLSTACK && entry_count > 0 ? entry_count - 1 : entry_count;
}

/* The offset behind the bytes of the current segment that the file holds. */
static inline uint64_t spt_segment_limit(const spgo_spt_cursor *c)
{
    return c->segment_end < c->size ? c->segment_end : c->size;
}

/*
 * Programs by identity: find or add, and the string table that their names need. A format with
 * 16-bit counts needs no growing hash tables: their pages stay untouched until they are used.
 */
enum { SPT_PROGRAM_SLOTS = 1 << 17 };

typedef struct spt_program_entry {
    spgo_image_id id;
    uint32_t string_index;
    uint32_t name_len;
} spt_program_entry;

typedef struct spt_program_set {
    spt_program_entry *entries;
    size_t count;
    size_t cap;
    bytes strings;           /* NUL-terminated names, each once */
    uint32_t *program_slots; /* index + 1; 0: free */
    uint32_t *name_slots;    /* string index + 1; 0: free */
} spt_program_set;

spgo_code spt_program_set_add(spt_program_set *set, const spgo_image_id *id, spgo_str name,
                              uint16_t *index, spgo_error *err);
spgo_str spt_program_set_name(const spt_program_set *set, size_t index);
void spt_program_set_free(spt_program_set *set);

/* spgo_spt_writer_add with the entries as they stand in a file; n > 0. */
spgo_code spt_writer_add_raw(spgo_spt_writer *w, uint16_t program, uint8_t opcode,
                             const uint8_t *entries, unsigned entry_count, uint64_t hits,
                             spgo_error *err);

/* Records taken so far, equal neighbours counted once. */
uint64_t spt_writer_record_count(const spgo_spt_writer *w);

/* Hands every run of entries that the filter keeps to `emit`, as a record of its own. Damage is
 * passed over; the first is returned at the end. A failure of emit ends the walk. */
typedef spgo_code (*spt_emit)(void *ctx, const spgo_spt_record *run, spgo_error *err);
spgo_code spt_select(const spgo_spt *spt, const spgo_spt_filter *filter, spt_emit emit, void *ctx,
                     spgo_spt_tally *tally, spgo_error *err);

/* Does the filter (NULL is fine) keep everything? */
bool spt_filter_is_empty(const spgo_spt_filter *filter);

/* a + b * n, saturating; *saturated is set when it did. */
uint64_t spt_add_hits(uint64_t a, uint64_t b, uint64_t n, bool *saturated);

#endif
