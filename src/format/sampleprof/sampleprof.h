/*
 * LLVM's sample profile: what clang and rustc take with -fprofile-sample-use. The document in
 * memory, and its two common forms on disk, text and extensible binary ("extbinary").
 * doc/formats/sampleprof.md has both layouts and their sources.
 *
 * A profile holds functions by linkage name. A function has body samples at places of its source
 * and, at the places of calls that were inlined, profiles of the callees, nested the same way. A
 * place is the distance from the function's first line and a discriminator; in a profile of pseudo
 * probes (has_probes) it is the number of a probe, and functions carry the checksum of their flow
 * graph. Counts saturate at 2^64-1.
 */
#ifndef FORMAT_SAMPLEPROF_H
#define FORMAT_SAMPLEPROF_H

#include <base/arena.h>
#include <base/diag.h>
#include <base/out.h>

typedef struct sampleprof sampleprof;

typedef struct sampleprof_place {
    uint32_t line_offset;   /* 16 bits, as LLVM keeps them; or a probe's number */
    uint32_t discriminator; /* as the profile spells it: base discriminators are decoded */
} sampleprof_place;

/* A function that was called from a place, and how often. */
typedef struct sampleprof_target {
    spgo_str callee;
    uint64_t count;
} sampleprof_target;

typedef struct sampleprof_line {
    sampleprof_place place;
    uint64_t count;
    const sampleprof_target *targets; /* by falling count, then by name */
    size_t target_count;
} sampleprof_line;

typedef struct sampleprof_function sampleprof_function;

/* Callees that were inlined at a place: one for each name. */
typedef struct sampleprof_callsite {
    sampleprof_place place;
    const sampleprof_function *callee;
} sampleprof_callsite;

sampleprof *sampleprof_new(uint64_t budget_bytes); /* 0: no limit; NULL without memory */
void sampleprof_free(sampleprof *p);               /* NULL is fine */

bool sampleprof_has_probes(const sampleprof *p);
void sampleprof_set_probes(sampleprof *p, bool has_probes);

/* Discriminators are flow-sensitive ones. The text form cannot say so. */
bool sampleprof_has_fs_discriminators(const sampleprof *p);
void sampleprof_set_fs_discriminators(sampleprof *p, bool has_them);

/* All names are numbers: the first 8 bytes of MD5 of the names that they stand for. */
bool sampleprof_has_md5_names(const sampleprof *p);

/* ------------------------------------------------------------------ filling */

/*
 * All of these are cheap on the place or callee of the call before, and on places that come in
 * order; the others cost a look into a table. What was asked before (lines, targets, call sites) is
 * gone with the first change.
 */

/* Finds or adds. NULL: no memory or over budget; inlined: also deeper than LIMIT_INLINE_DEPTH.
 * Names are copied; they must not be empty. */
sampleprof_function *sampleprof_function_named(sampleprof *p, spgo_str name);
sampleprof_function *sampleprof_inlined(sampleprof *p, sampleprof_function *caller,
                                        sampleprof_place place, spgo_str callee);

/* Each returns false without memory. raise keeps the larger of old and new. */
bool sampleprof_add_line(sampleprof *p, sampleprof_function *f, sampleprof_place place,
                         uint64_t count);
bool sampleprof_raise_line(sampleprof *p, sampleprof_function *f, sampleprof_place place,
                           uint64_t count);
bool sampleprof_add_target(sampleprof *p, sampleprof_function *f, sampleprof_place place,
                           spgo_str callee, uint64_t count);
void sampleprof_add_total(sampleprof_function *f, uint64_t count);
void sampleprof_add_head(sampleprof_function *f, uint64_t count);
void sampleprof_set_total(sampleprof_function *f, uint64_t count);
void sampleprof_set_checksum(sampleprof_function *f, uint64_t checksum); /* 0: none */
void sampleprof_set_attributes(sampleprof_function *f, uint32_t attributes);

/*
 * Adds all counts of `from` times weight, as llvm-profdata merge does. Functions, top or inlined,
 * whose checksums contradict are kept as they stand in `into`, and counted in *mismatched (may be
 * NULL). SPGO_MISMATCH: only one of the two has probes, or MD5 names; an empty `into` takes after
 * `from`. Without memory `into` holds a part of the sum.
 */
spgo_code sampleprof_merge(sampleprof *into, const sampleprof *from, uint64_t weight,
                           uint64_t *mismatched, spgo_error *err);

/* ------------------------------------------------------------------ asking */

spgo_str sampleprof_name(const sampleprof_function *f); /* "" never; MD5 names: decimal digits */
uint64_t sampleprof_total(const sampleprof_function *f);
uint64_t sampleprof_head(const sampleprof_function *f);
bool sampleprof_checksum(const sampleprof_function *f, uint64_t *checksum); /* false: none */
uint32_t sampleprof_attributes(const sampleprof_function *f);

/* The order of names, less than, equal to or greater than 0: that of their bytes, and among those
 * that begin with a digit (MD5 names) that of their value. */
int sampleprof_compare_names(spgo_str a, spgo_str b);

/* The top functions, by name; sorted when first asked after a change, so that one document is for
 * one thread at a time. */
size_t sampleprof_function_count(const sampleprof *p);
const sampleprof_function *sampleprof_get_function(const sampleprof *p, size_t i);
const sampleprof_function *sampleprof_find(const sampleprof *p, spgo_str name); /* NULL: none */

/* Sorted by place; callsites then by name. Never NULL. */
const sampleprof_line *sampleprof_lines(const sampleprof_function *f, size_t *count);
const sampleprof_callsite *sampleprof_callsites(const sampleprof_function *f, size_t *count);

typedef struct sampleprof_cutoff {
    uint32_t cutoff;           /* of 1,000,000: this share of all counts ... */
    uint64_t min_count, count; /* ... is in the `count` counts of at least min_count */
} sampleprof_cutoff;

enum { SAMPLEPROF_CUTOFF_COUNT = 16 };

/* LLVM's summary, by its own rules. */
typedef struct sampleprof_summary {
    uint64_t total, max_count, max_function_count;
    uint64_t count_count, function_count;
    sampleprof_cutoff cutoffs[SAMPLEPROF_CUTOFF_COUNT];
} sampleprof_summary;
spgo_code sampleprof_summarize(const sampleprof *p, sampleprof_summary *summary, spgo_error *err);

/* The least count that is hot at a cutoff: that of the summary's next cutoff, as LLVM has it. 0 and
 * what is above the last cutoff: nothing is hot (UINT64_MAX). */
uint64_t sampleprof_hot_count(const sampleprof_summary *s, uint32_t cutoff);

/* ------------------------------------------------------------------ on disk */

typedef enum sampleprof_form {
    SAMPLEPROF_NOT,
    SAMPLEPROF_TEXT,
    SAMPLEPROF_BINARY, /* read only */
    SAMPLEPROF_EXTBINARY
} sampleprof_form;

sampleprof_form sampleprof_sniff(spgo_span bytes); /* text: what could be one */

/*
 * Reads any of the three forms. SPGO_CORRUPT, SPGO_TRUNCATED, SPGO_UNSUPPORTED (another version,
 * context-sensitive profiles, another kind of profile, ...) name line or offset; with a diag, text
 * lines that make no sense become findings as long as what follows is clear. The summary and the
 * list of symbols that a file may carry are not kept.
 */
spgo_code sampleprof_read(spgo_span bytes, uint64_t budget_bytes, sampleprof **read, diag *d,
                          spgo_error *err);

/*
 * As llvm-profdata and llvm-profgen write it: functions by falling total, then by name.
 * SPGO_UNSUPPORTED: a line offset above 65535 or a name that the form cannot hold. The sink is
 * only written to; text is left in `o` unflushed, whose failure is its owner's to see.
 */
spgo_code sampleprof_write_text(const sampleprof *p, out *o, spgo_error *err);
spgo_code sampleprof_write_extbinary(const sampleprof *p, spgo_sink sink, spgo_error *err);

#endif
