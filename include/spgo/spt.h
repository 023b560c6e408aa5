/*
 * SPT: the Sample Profile Trace format of MSVC's sample profile-guided optimization.
 *
 * Layout and meaning follow Microsoft's page "SPTDump" (learn.microsoft.com, cpp/build/sptdump);
 * what that page leaves open is decided in doc/formats/spt.md, each decision marked as an
 * assumption and checked by spgo_spt_verify. All integers are little-endian.
 *
 *   header (32 bytes) | string table | program id table | records...
 *
 * The records are a stream. BINARY_ID starts a segment: the records of one program. REPEAT gives
 * the next record of any kind but BINARY_ID a weight. Every other record is a list of up to 255
 * RVAs (u32) or arcs (two u32: to, then from). RVAs count from the image's load address.
 *
 * Nothing here opens a file or prints. A reader or writer is used by one thread at a time;
 * different ones are independent.
 */
#ifndef SPGO_SPT_H
#define SPGO_SPT_H

#include <spgo/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPGO_SPT_SIGNATURE = 0x5350543A, /* on disk 3A 54 50 53 */
    SPGO_SPT_VERSION = 1,
    SPGO_SPT_HEADER_SIZE = 32,
    SPGO_SPT_PROGRAM_SIZE = 24,        /* of an entry of the program id table */
    SPGO_SPT_TYPICAL_STRINGS = 0x4000, /* typical capacity of the string table, bytes */
    SPGO_SPT_TYPICAL_PROGRAMS = 0x100, /* typical capacity of the program id table, entries */
    SPGO_SPT_ENTRIES_MAX = 255,        /* RVAs or arcs of one record */
    SPGO_SPT_PROGRAMS_MAX = 0xFFFF,    /* entries of the program id table */
    SPGO_SPT_STRINGS_MAX = 0xFFFF,     /* bytes of the string table */

    /* Ours: the RVA that stands for an end in another image. RVA 0 is an image's header and never
     * code. An arc from outside is the last (oldest) entry of its record, one to outside the
     * first, so that every two neighbours still bound a stretch of this image's code. */
    SPGO_SPT_OUTSIDE = 0,

    /* Ours: a stretch of code between two branches that runs backwards or is longer than this many
     * bytes cannot have run without a branch; such neighbours did not follow each other. */
    SPGO_SPT_RANGE_MAX = 1 << 20
};

typedef enum spgo_spt_opcode {
    SPGO_SPT_UNHALT_CYCLE = 0x01,
    SPGO_SPT_RETIRE_INSTR = 0x02,
    SPGO_SPT_RETIRE_BR_INSTR = 0x03,
    SPGO_SPT_L1_ICACHE_MISS = 0x04,
    SPGO_SPT_L1_DCACHE_MISS = 0x05,
    SPGO_SPT_LBR = 0x10,
    SPGO_SPT_ETW_INSTR = 0x41,
    SPGO_SPT_ETW_CALLSTACK = 0x42,
    SPGO_SPT_BINARY_ID = 0x81,
    SPGO_SPT_REPEAT = 0x82
} spgo_spt_opcode;

/* The documented name without its prefix ("LBR", "UNHALT_CYCLE", ...), or NULL if unknown. */
const char *spgo_spt_opcode_name(uint8_t opcode);

/* Records that carry entries fall into three kinds. */
typedef enum spgo_spt_kind {
    SPGO_SPT_KIND_NONE,     /* BINARY_ID, REPEAT, unknown */
    SPGO_SPT_KIND_IP,       /* each RVA is a hit */
    SPGO_SPT_KIND_ARC,      /* LBR: each entry is an arc */
    SPGO_SPT_KIND_CALLSTACK /* n RVAs, leaf first: n-1 arcs between neighbours */
} spgo_spt_kind;

spgo_spt_kind spgo_spt_opcode_kind(uint8_t opcode);

/* The header's fields as they stand in the file. */
typedef struct spgo_spt_header {
    uint32_t signature;
    uint32_t version;
    uint32_t raw_data_id;
    uint32_t target_arch;
    uint32_t string_table_off;
    uint32_t program_table_off;
    uint16_t string_table_used;     /* bytes */
    uint16_t string_table_capacity; /* bytes */
    uint16_t programs_used;         /* entries */
    uint16_t program_capacity;      /* entries */
} spgo_spt_header;

/* One entry of the program id table. */
typedef struct spgo_spt_program {
    spgo_image_id id;
    uint32_t string_index; /* as stored: normally a byte offset into the string table */
    spgo_str name;         /* into the file's bytes; empty if the index is bad */
} spgo_spt_program;

/* One record. `offset` is absolute, of the opcode byte. */
typedef struct spgo_spt_record {
    uint64_t offset;
    uint8_t opcode;
    uint8_t entry_count;
    uint16_t program;       /* index into the program table, always valid; of BINARY_ID: the new */
    uint32_t size_bytes;    /* of the record in the file */
    uint64_t repeat;        /* of the REPEAT in force; of REPEAT: its own count */
    uint64_t hits;          /* 1 + repeat, saturating; of BINARY_ID and REPEAT: 0 */
    uint32_t segment_bytes; /* of BINARY_ID: its length field, which counts itself */
    const uint8_t *entries; /* entry_count * 4 or 8 bytes in the file */
} spgo_spt_record;

/* Little-endian load that compilers make one instruction. */
static inline uint32_t spgo_spt_load(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Entry i of an IP or CALLSTACK record. */
static inline uint32_t spgo_spt_rva(const spgo_spt_record *r, unsigned i)
{
    return spgo_spt_load(r->entries + 4 * (size_t)i);
}

/* Source and target RVA of entry i of an LBR record. */
static inline uint32_t spgo_spt_arc_from(const spgo_spt_record *r, unsigned i)
{
    return spgo_spt_load(r->entries + 8 * (size_t)i + 4);
}
static inline uint32_t spgo_spt_arc_to(const spgo_spt_record *r, unsigned i)
{
    return spgo_spt_load(r->entries + 8 * (size_t)i);
}

/* ------------------------------------------------------------------ reading */

typedef struct spgo_spt spgo_spt;

/*
 * Reads header and tables of the SPT file in `file`, which must stay in place until
 * spgo_spt_close. The tables may stand in any order and anywhere; other oddities are findings
 * (spgo_spt_verify). Fails with SPGO_TRUNCATED (shorter than its tables), SPGO_CORRUPT (not an
 * SPT file, swapped signature, more used than there is capacity, tables that overlap the header),
 * SPGO_UNSUPPORTED (another version), SPGO_NOMEM; the offset is that of the header field, or the
 * end of a file that is shorter than its header.
 * When *out is not NULL after a failure, it holds what could be read: the header (missing fields
 * are 0), and with a known version the tables as far as they are inside the file, and the records
 * if the place where they start is. Close it too.
 */
spgo_code spgo_spt_open(spgo_span file, spgo_spt **out, spgo_error *err);
void spgo_spt_close(spgo_spt *spt); /* NULL is fine */

const spgo_spt_header *spgo_spt_get_header(const spgo_spt *spt);
size_t spgo_spt_program_count(const spgo_spt *spt);
const spgo_spt_program *spgo_spt_get_program(const spgo_spt *spt, size_t index); /* NULL: none */

/* The records stand in [data_off, data_end): from the end of the program id table to the end of
 * the file, or to a string table that lies behind them. */
uint64_t spgo_spt_data_off(const spgo_spt *spt);
uint64_t spgo_spt_data_end(const spgo_spt *spt);

/* The strings of the table in order, without the zeros that may pad its used part: *index is the
 * next byte offset, 0 to start. False at the end. *at receives the string's own offset in the
 * table. */
bool spgo_spt_next_string(const spgo_spt *spt, size_t *index, size_t *at, spgo_str *text);

/* Walks the records. Plain value: copy it to remember a place. */
typedef struct spgo_spt_cursor {
    const uint8_t *base;
    uint64_t pos;         /* offset of the next record */
    uint64_t size;        /* offset behind the data stream */
    uint64_t segment_off; /* of the BINARY_ID of the current or the last segment; 0: none yet */
    uint64_t segment_end; /* offset behind the current segment, as its length says */
    uint64_t repeat;      /* waiting for the next record */
    size_t program_count;
    uint16_t program;
    bool in_segment;
    bool has_repeat;
    bool endless; /* the segment's length is unusable: it lasts to the next BINARY_ID */
} spgo_spt_cursor;

spgo_spt_cursor spgo_spt_records(const spgo_spt *spt);

/*
 * The next record, in file order, BINARY_ID and REPEAT among them. SPGO_OK and *record;
 * SPGO_NOT_FOUND at the clean end of the file; else the failure, and the cursor has moved to
 * where reading can go on (the end of the segment) or to the end of the file, so that a caller
 * may call again until SPGO_NOT_FOUND.
 */
spgo_code spgo_spt_next(spgo_spt_cursor *c, spgo_spt_record *record, spgo_error *err);

/* The same for hot loops: only records with entries; skips BINARY_ID and REPEAT silently. True
 * and *record; or false with *code SPGO_NOT_FOUND at the clean end, or another at a failure. The
 * cursor then stands before the failure: spgo_spt_next reports it in full and moves on. */
bool spgo_spt_next_entries(spgo_spt_cursor *c, spgo_spt_record *record, spgo_code *code);

/* ------------------------------------------------------------------ verifying */

typedef enum spgo_spt_severity {
    SPGO_SPT_NOTE,    /* legal but not typical */
    SPGO_SPT_WARNING, /* read here, but another reader may see it differently */
    SPGO_SPT_DAMAGE   /* breaks a rule: data is lost or its meaning is in doubt */
} spgo_spt_severity;

typedef struct spgo_spt_finding {
    spgo_spt_severity severity;
    const char *rule; /* stable short name, e.g. "segment-length"; static text */
    uint64_t offset;  /* absolute */
    char sentence[240];
} spgo_spt_finding;

/* How many findings of each severity, and what the walk saw. */
typedef struct spgo_spt_verdict {
    uint64_t notes;
    uint64_t warnings;
    uint64_t damages;
    uint64_t record_count; /* records with entries */
    uint64_t segment_count;
} spgo_spt_verdict;

/* Checks every rule of doc/formats/spt.md over the whole file, header included (so it takes bytes,
 * not an opened file). Calls `found` (NULL: only counts) for each finding in order of discovery;
 * it returns false to stop. SPGO_OK unless memory ran out: findings are no failure. */
spgo_code spgo_spt_verify(spgo_span file, bool (*found)(void *ctx, const spgo_spt_finding *finding),
                          void *ctx, spgo_spt_verdict *verdict, spgo_error *err);

/* ------------------------------------------------------------------ writing */

typedef struct spgo_spt_writer spgo_spt_writer;

typedef struct spgo_spt_writer_opts {
    size_t size;                /* sizeof(spgo_spt_writer_opts) */
    uint64_t segment_bytes_max; /* start a new segment before its length field exceeds this;
                                   at least SPGO_SPT_SEGMENT_MIN; 0: the format's own limit,
                                   2^32-1 */
    uint64_t buffer_bytes_max;  /* records of all programs that wait in memory; 0: 4 MiB */
} spgo_spt_writer_opts;

/* The length of a segment that holds one record of the largest size and its REPEAT. */
enum { SPGO_SPT_SEGMENT_MIN = 4 + 10 + 2 + 8 * SPGO_SPT_ENTRIES_MAX };

/*
 * Writes an SPT file into sink, which must be able to patch. Records may be added for any program
 * in any order: they wait in memory, program by program, until together they exceed
 * buffer_bytes_max; then each program's become a segment, in the order of the program table. When
 * the first of these continues the segment written last, that one is extended instead. A record
 * and its REPEAT are never parted. The bytes depend only on the sequence of calls.
 * Of the records that wait together, equal consecutive ones of a program become one with REPEAT.
 * The tables get the typical capacities when they suffice, else the smallest that hold everything.
 * When they have outgrown what was reserved as the first segment was written, the records move
 * behind them once at the end, for which the sink must be able to read.
 * A failure sticks: all later calls return it.
 */
spgo_code spgo_spt_writer_new(spgo_sink sink, const spgo_spt_writer_opts *opts,
                              spgo_spt_writer **out, spgo_error *err);

/* Finds or adds a program; the name, normally the image's base name, is stored as given. The same
 * id, age and name give the same index; programs of the same name share its bytes. SPGO_LIMIT:
 * more than 65,535 programs or bytes of names (the writer stays usable); SPGO_USAGE: a NUL in the
 * name. */
spgo_code spgo_spt_writer_program(spgo_spt_writer *w, const spgo_image_id *id, spgo_str name,
                                  uint16_t *index, spgo_error *err);

/*
 * Adds a record with `hits` (at least 1) to program `program`. entry_count 1 to 255. entries are
 * u32 values in memory order of the record: RVAs, or to, from, to, from, ... for LBR
 * (2 * entry_count values). hits > 1 becomes a REPEAT of hits - 1.
 */
spgo_code spgo_spt_writer_add(spgo_spt_writer *w, uint16_t program, spgo_spt_opcode opcode,
                              const uint32_t *entries, unsigned entry_count, uint64_t hits,
                              spgo_error *err);

/* Writes what waits, the tables and the header. The writer is gone afterwards either way. */
spgo_code spgo_spt_writer_finish(spgo_spt_writer *w, spgo_error *err);
void spgo_spt_writer_cancel(spgo_spt_writer *w); /* NULL is fine */

/* ------------------------------------------------------------------ rewriting */

/* What a rewrite keeps; zero keeps everything. The wildcards * and ? of the patterns match base
 * names of programs, whatever the case of ASCII letters. */
typedef struct spgo_spt_filter {
    size_t size;                 /* sizeof(spgo_spt_filter) */
    const char *const *programs; /* patterns, any of which must match; NULL: all programs */
    size_t program_count;
    const uint8_t *opcodes; /* opcodes to keep; NULL: all */
    size_t opcode_count;
    /* Entries with an RVA outside [rva_min, rva_max] are left out. LBR and callstack records are
     * split there, because neighbours in a record mean adjacency; a single frame that is left over
     * holds no arc and goes too. rva_max 0: no upper bound. */
    uint32_t rva_min;
    uint32_t rva_max;
} spgo_spt_filter;

/* What a rewrite did with the hits of its inputs (saturating). Functions add to it: start with
 * zeros. records_in counts records with entries as read, records_out as they stand in the output
 * (equal neighbours merged). */
typedef struct spgo_spt_tally {
    uint64_t records_in;
    uint64_t records_out;
    uint64_t hits_in; /* IP hits, arcs and callstack arcs, each times its record's hits */
    uint64_t hits_out;
    bool saturated;
} spgo_spt_tally;

/* Appends the records of `spt` that the filter keeps (NULL: all) to the writer; merging is adding
 * several files to one writer. Programs with equal id, age and name become one. Programs without
 * records are kept too when nothing is filtered. Records with no entries are dropped: they say
 * nothing. A damaged input adds what comes before the damage and after it where reading can go
 * on; the first failure is returned at the end. tally may be NULL. */
spgo_code spgo_spt_writer_add_file(spgo_spt_writer *w, const spgo_spt *spt,
                                   const spgo_spt_filter *filter, spgo_spt_tally *tally,
                                   spgo_error *err);

/*
 * Folds: distinct entries with their hits instead of records. Keeps every hit count and drops
 * adjacency: each arc stands once, in a record of its own with all its hits, and a callstack's arcs
 * become records of two frames; instruction pointers stand in a group for each binary digit of
 * their hits. Several files can be added before the fold is written. Folding a fold gives the same
 * bytes.
 */
typedef struct spgo_spt_fold spgo_spt_fold;
spgo_code spgo_spt_fold_new(spgo_spt_fold **out, spgo_error *err);
spgo_code spgo_spt_fold_add_file(spgo_spt_fold *f, const spgo_spt *spt,
                                 const spgo_spt_filter *filter, spgo_spt_tally *tally,
                                 spgo_error *err);
spgo_code spgo_spt_fold_write(const spgo_spt_fold *f, spgo_spt_writer *w, spgo_spt_tally *tally,
                              spgo_error *err);
void spgo_spt_fold_free(spgo_spt_fold *f);

#ifdef __cplusplus
}
#endif
#endif
