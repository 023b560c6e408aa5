/*
 * SPD: the profile database of MSVC's sample profile-guided optimization. The linker writes it:
 * each function of the image with its flow graph, the code that each block became, the calls, and
 * what was inlined where. An import fills in how often blocks and edges ran; the next build reads
 * that.
 *
 * The layout is not published. doc/formats/spd.md has it as far as real files tell, with what is
 * proved and what is guessed. The document below holds every value of a file, those of unknown
 * meaning too (they are named by their place: word_08), so that spd_write gives back the bytes that
 * spd_open read, or, where counts were changed, bytes that differ in those counts alone.
 *
 * What does not follow the known layout stays as it is: the file, one module, or one function is
 * then kept as `raw` bytes, which spd_write repeats, with a finding that says what and where.
 *
 * Documents are open structures, for reading and changing. Everything hangs on the arena of the
 * document. Use one document from one thread at a time.
 */
#ifndef FORMAT_SPD_H
#define FORMAT_SPD_H

#include <base/arena.h>
#include <base/fail.h>

enum {
    SPD_SIGNATURE = 0x5F515F48, /* "H_Q_" */
    SPD_FORMAT = 0x100C,        /* the format word of all known files */

    /* On disk, in bytes. */
    SPD_HEADER_SIZE = 0x74,
    SPD_LIST_ENTRY_SIZE = 12,
    SPD_MODULE_HEADER_SIZE = 0x38,
    SPD_SLOT_SIZE = 36, /* of the function table */
    SPD_BLOB_HEADER_SIZE = 0x54,
    SPD_BLOCK_SIZE = 0x24, /* without what follows its fixed part */
    SPD_EDGE_SIZE = 16,
    SPD_RANGE_SIZE = 8,
    SPD_INDIRECT_SIZE = 64,
    SPD_CALL_SIZE = 24, /* without the block ids */
    SPD_EMITTED_SIZE = 24,
    SPD_INSTANCE_SIZE = 16,
    SPD_INLINE_BLOCK_SIZE = 24,
    SPD_SITE_SIZE = 8,

    SPD_TARGETS = 3 /* of an indirect call */
};

/* Flags whose meaning is known or likely; others are kept as they are. */
enum {
    SPD_SYMBOL_STATIC = 0x04,
    SPD_SYMBOL_FOLDED = 0x20,        /* emitted as another function with the same code */
    SPD_SYMBOL_ADDRESS_TAKEN = 0x40, /* likely */

    SPD_FUNCTION_NEW = 0x2,           /* was not in the profile that the build used */
    SPD_FUNCTION_TAIL_INDIRECT = 0x8, /* has a tail jump through a pointer or an import */

    SPD_CALL_DIRECT = 1, /* kinds of calls, not bits */
    SPD_CALL_IMPORT = 3,

    SPD_EMITTED_CALL = 0x4,
    SPD_EMITTED_TAIL = 0x8,

    SPD_EDGE_BACK = 1, /* closes a loop */

    SPD_BLOCK_TRIPS = 0x04, /* a loop of so many trips as `number` says */
    SPD_BLOCK_CLONED = 0x20 /* `number` copies were made */
};

/* A piece of a block's code, from the start of its function. */
typedef struct spd_range {
    uint32_t offset;
    uint32_t length_word; /* twice the length; bit 0 is always 0 */
} spd_range;

static inline uint32_t spd_range_length(const spd_range *r)
{
    return r->length_word >> 1;
}

/* Where an indirect call stands. */
typedef struct spd_site {
    uint32_t place_word;   /* offset in the function, above it 4 bits of instruction length */
    uint32_t ordinal_word; /* number among those of the function or inlined callee; the upper half
                              is 1 and of unknown meaning */
} spd_site;

static inline uint32_t spd_site_offset(const spd_site *s)
{
    return s->place_word & 0x0FFFFFFF;
}
static inline uint32_t spd_site_length(const spd_site *s)
{
    return s->place_word >> 28;
}
static inline uint32_t spd_site_ordinal(const spd_site *s)
{
    return s->ordinal_word & 0xFFFF;
}

typedef struct spd_target {
    uint64_t hash; /* of the function called; 0: none */
    uint64_t count;
} spd_target;

typedef struct spd_indirect {
    spd_site site;
    uint64_t total;
    spd_target targets[SPD_TARGETS]; /* by falling count */
} spd_indirect;

typedef struct spd_edge {
    uint32_t target; /* index of a block of the same function */
    uint32_t flags;
    uint64_t count;
} spd_edge;

typedef struct spd_inline_block spd_inline_block;

/* A callee inlined into a block. It holds no counts: its runs are counted in the callee. */
typedef struct spd_instance {
    uint64_t callee_hash;
    uint64_t offset; /* in the file; 0 if not read from one */
    uint32_t word_08;
    uint32_t block_count;
    spd_inline_block *blocks;
} spd_instance;

struct spd_inline_block {
    uint32_t id; /* of the callee's block */
    uint16_t flags;
    uint16_t number;
    uint32_t instruction_count; /* with everything inlined into it */
    uint32_t range_count, site_count, instance_count;
    spd_range *ranges; /* offsets count from the outermost function */
    spd_site *sites;
    spd_instance *instances;
};

/* Block i of a function has the id i + 1. The first is the entry, the last the only exit. */
typedef struct spd_block {
    uint64_t offset; /* in the file; 0 if not read from one */
    uint64_t count;
    uint16_t flags;
    uint16_t number;            /* goes with the flags */
    uint32_t instruction_count; /* with everything inlined into it */
    uint32_t edge_count, range_count, indirect_count, instance_count;
    spd_edge *edges;
    spd_range *ranges;
    spd_indirect *indirects;
    spd_instance *instances;
} spd_block;

/* All calls of one callee, those that were inlined too. */
typedef struct spd_call {
    uint64_t callee_hash;
    uint64_t count; /* the sum over its blocks: spd_recompute_calls */
    uint64_t offset;
    uint32_t kind;
    uint32_t block_count;
    uint32_t *blocks; /* indices; twice where a block calls twice */
} spd_call;

/* A call that is left in the code, with the count that the build was given for it. */
typedef struct spd_emitted {
    uint64_t callee_hash;
    uint64_t count;
    uint32_t flags;
    uint32_t word_14;
} spd_emitted;

typedef struct spd_function {
    /* Of the function table. */
    spgo_str name; /* bytes as stored */
    uint64_t hash; /* spd_name_hash of the name, or of object file and name */
    uint32_t symbol_flags;
    uint32_t id; /* what /funcid takes */
    uint32_t symbol_word_14;
    uint32_t folded_rva;    /* of the function that this one was folded into */
    uint32_t name_off;      /* used only where the module keeps its strings (kept_strings) */
    bool has_symbol;        /* false: no slot of the table leads to this blob */
    size_t slot;            /* in the table; used only where the module keeps it (kept_table) */
    uint64_t symbol_offset; /* of the slot in the file; 0 if not read from one */

    /* Of the blob. */
    uint64_t offset; /* in the file; 0 if not read from one */
    uint64_t blob_hash;
    uint32_t word_08, word_0c;
    uint32_t flags;
    uint32_t checksum;    /* of the flow graph as the compiler saw it */
    uint32_t rva, length; /* of the code; both 0 if there is none */
    uint32_t word_28, word_2c;
    uint32_t word_4c, word_50;
    uint32_t call_count, block_count, emitted_count;
    spd_call *calls;
    spd_block *blocks;
    spd_emitted *emitted;
    spgo_span raw; /* the whole blob, when its inside is not understood; then no calls and blocks */
} spd_function;

typedef struct spd_module {
    spgo_str name;   /* UTF-8 */
    uint64_t offset; /* in the file; 0 if not read from one */
    /* Of the list in the header. */
    uint32_t name_off; /* used only where the document keeps its names */
    uint32_t list_word_04, list_word_08;

    uint32_t flags;
    uint32_t generation; /* builds with a profile since the first without */
    uint32_t word_18, word_20;
    uint32_t bucket_count;
    spd_function *functions; /* in the order of their blobs */
    size_t function_count;

    /* What spd_write could not make from the rest: bytes between the parts (`ptr` NULL: what is
     * usual there, nothing or zeros up to a multiple of 4), and parts with another order. */
    spgo_span gap_header, gap_table, gap_data, gap_strings;
    spgo_span data_rest; /* of the data block, behind the last blob that could be told apart */
    spgo_span kept_table, kept_strings;
    spgo_span raw; /* the whole module, when it is damaged; functions are what could be read, and
                      changes to them are not written */

    uint32_t *by_hash; /* indices of functions by rising hash: spd_index */
    uint32_t *by_rva;  /* of those with code, by rising RVA */
    size_t by_rva_count;
} spd_module;

typedef enum spd_severity {
    SPD_NOTE,    /* not as in the known files; nothing is lost */
    SPD_WARNING, /* values contradict each other */
    SPD_DAMAGE   /* a part cannot be read, or says what cannot be */
} spd_severity;

typedef struct spd_finding {
    spd_severity severity;
    const char *rule; /* stable short name, as in doc/formats/spd.md; static text */
    uint64_t offset;  /* in the file, or SPGO_NO_OFFSET */
    char sentence[240];
} spd_finding;

enum { SPD_FINDINGS_KEPT = 256 };

typedef struct spd {
    arena *memory;
    uint64_t origin; /* offset in its file of the first byte, of an embedded SPD */
    spgo_span file;  /* what it was read from, if it was */

    uint32_t format;
    uint32_t word_08, word_0c, word_10;
    uint32_t flags;
    uint32_t image_hash; /* spd_image_hash of the image's name */
    uint32_t word_1c, word_20, word_24, word_3c, word_40, word_44;
    spgo_image_id id;
    uint64_t hot_threshold; /* instructions run by the coldest hot function; 0 without a profile */
    uint64_t dynamic_total; /* instructions run */
    uint32_t static_total;  /* instructions there are */
    uint32_t word_70;
    spgo_str image_name; /* UTF-8 */
    spd_module *modules;
    size_t module_count;

    spgo_span gap_header, gap_list, gap_names, tail; /* as in spd_module; names end at 8 */
    spgo_span kept_names;
    spgo_span raw; /* the whole file, when nothing but the header makes sense */

    spd_finding *findings; /* of reading: what was not as known, up to SPD_FINDINGS_KEPT */
    size_t finding_count;
    uint64_t finding_total, damage_total;
} spd;

/* ------------------------------------------------------------------ reading and writing */

/*
 * Reads the SPD in `file`, whose bytes must stay in place until spd_free. origin: where it begins
 * in the file it is in, for offsets. Fails with SPGO_TRUNCATED (shorter than its header),
 * SPGO_CORRUPT (no signature) or SPGO_NOMEM, and then *out is NULL; everything else that is wrong
 * is a finding.
 */
spgo_code spd_open(spgo_span file, uint64_t origin, spd **out, spgo_error *err);

/* An empty document, to be filled. NULL without memory. budget_bytes as in arena_new. */
spd *spd_new(uint64_t budget_bytes);
void spd_free(spd *doc); /* NULL is fine */

/* Writes a document. SPGO_USAGE: it cannot be stored (a name with a NUL, a block index out of
 * range, a nesting deeper than LIMIT_SPD_NESTING); SPGO_LIMIT: past 4 GiB. */
spgo_code spd_write(const spd *doc, spgo_sink sink, spgo_error *err);

/* The number of buckets that the linker takes for so many functions. */
uint32_t spd_bucket_count(size_t function_count);

/* Sorts the indices of all modules anew: after functions were added or have got another hash, RVA
 * or length. spd_open has done it. */
spgo_code spd_index(spd *doc, spgo_error *err);

/*
 * Is there an SPD in `data` at or behind `from`, by its signature and the rules of its header? Then
 * *at is where it begins and *size its length as its header and modules tell it, cut at the end of
 * the data.
 */
bool spd_find(spgo_span data, uint64_t from, uint64_t *at, uint64_t *size);

/* ------------------------------------------------------------------ finding functions */

spd_function *spd_by_hash(const spd_module *m, uint64_t hash); /* NULL: none */
spd_function *spd_by_id(const spd_module *m, uint32_t id);     /* linear */
spd_function *spd_by_rva(const spd_module *m, uint32_t rva);   /* whose code holds it */
const spd_function *spd_callee(const spd *doc, uint64_t hash); /* in any module */
static inline const spd_block *spd_exit(const spd_function *f)
{
    return f->block_count ? &f->blocks[f->block_count - 1] : NULL;
}

/* ------------------------------------------------------------------ hashes */

/* djb2 of 64 bits, going on from `start`: SPD_HASH_START, or the hash of what stands before. */
#define SPD_HASH_START UINT64_C(5381)
uint64_t spd_name_hash(uint64_t start, spgo_str name);
/* The start from which `name` leads to `hash`: the hash of the object file of a static function. */
uint64_t spd_hash_before(uint64_t hash, spgo_str name);
/* djb2 of 32 bits. */
uint32_t spd_image_hash(spgo_str name);

/* ------------------------------------------------------------------ derived numbers */

/* The instructions of a block that are its own and not of something inlined into it: at least 1
 * unless the block has none at all. */
uint32_t spd_own_instructions(const spd_block *b);
/* The own instructions of all blocks, each as often as it ran; saturating. */
uint64_t spd_dynamic_instructions(const spd_function *f);

/* Is the function among those that together run 99 % of all instructions? The linker very
 * likely compiles these for speed and all others for size. */
bool spd_is_hot(const spd *doc, const spd_function *f);

/* The share of an edge among all edges out of its block, 0 to 1; without counts NAN. */
double spd_probability(const spd_block *b, const spd_edge *e);

typedef struct spd_coverage {
    uint64_t blocks, live_blocks;           /* live: with a count */
    uint64_t code_blocks, live_code_blocks; /* of those with code */
} spd_coverage;
void spd_add_coverage(spd_coverage *c, const spd_function *f);

/* Each call's count: the sum of the counts of its blocks. */
void spd_recompute_calls(spd_function *f);

typedef struct spd_totals {
    uint64_t hot_threshold, dynamic_total;
    uint32_t static_total;
} spd_totals;
spgo_code spd_compute_totals(const spd *doc, spd_totals *totals, spgo_error *err);
/* Calls of all functions, and the totals of the header. */
spgo_code spd_recompute(spd *doc, spgo_error *err);

/* All counts and totals that an import fills in: 0. */
void spd_reset_counts(spd *doc);

/* ------------------------------------------------------------------ verifying */

typedef struct spd_verdict {
    uint64_t notes, warnings, damages;
    uint64_t module_count, function_count, block_count, edge_count;
} spd_verdict;

/* Checks every rule of doc/formats/spd.md and calls `found` (NULL: only counts) for each finding,
 * those of reading first; it returns false to stop. SPGO_OK unless memory ran out. */
spgo_code spd_verify(const spd *doc, bool (*found)(void *ctx, const spd_finding *finding),
                     void *ctx, spd_verdict *verdict, spgo_error *err);

/* ------------------------------------------------------------------ names of flags */

typedef enum spd_flag_kind {
    SPD_FLAGS_SYMBOL,
    SPD_FLAGS_FUNCTION,
    SPD_FLAGS_EMITTED,
    SPD_FLAGS_BLOCK,
    SPD_FLAGS_EDGE,
    SPD_FLAGS_KINDS
} spd_flag_kind;

/* The name of one bit, NULL if it has none. */
const char *spd_flag_name(spd_flag_kind kind, uint32_t bit);
const char *spd_call_kind_name(uint32_t kind); /* NULL: unknown */

#endif
