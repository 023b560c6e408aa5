/* What the files of this folder share. */
#ifndef FORMAT_SAMPLEPROF_INTERNAL_H
#define FORMAT_SAMPLEPROF_INTERNAL_H

#include <format/sampleprof/sampleprof.h>

#include <base/reader.h>
#include <base/saturate.h>

enum { SAMPLEPROF_VERSION = 103, SAMPLEPROF_LINE_OFFSET_MAX = 0xffff };

/* ULEB128 of the magic numbers: "SPROF42" and the form, of which the first byte on disk holds the
 * low bits. */
#define SAMPLEPROF_MAGIC(form) (0x5350524f46343200u | (uint64_t)(form))
enum { SAMPLEPROF_MAGIC_COMPACT = 0x02, SAMPLEPROF_MAGIC_EXT = 0x04, SAMPLEPROF_MAGIC_RAW = 0xff };

/* Sections of an extensible binary, and their flags. */
enum {
    SECTION_SUMMARY = 1,
    SECTION_NAMES = 2,
    SECTION_SYMBOLS = 3,
    SECTION_OFFSETS = 4,
    SECTION_METADATA = 5,
    SECTION_CONTEXT_NAMES = 6,
    SECTION_PROFILES = 32 /* this and all above hold profiles */
};

#define SECTION_COMPRESSED (1ull << 0)
#define SECTION_FLAT (1ull << 1)
#define NAMES_MD5 (1ull << 32)
#define NAMES_MD5_FIXED (1ull << 33)
#define NAMES_UNIQUE_SUFFIX (1ull << 34)
#define SUMMARY_PARTIAL (1ull << 32)
#define SUMMARY_CONTEXTS (1ull << 33)
#define SUMMARY_FS_DISCRIMINATORS (1ull << 34)
#define SUMMARY_PREINLINED (1ull << 36)
#define METADATA_PROBES (1ull << 32)
#define METADATA_ATTRIBUTES (1ull << 33)

/* Of sampleprof_attributes: the callee is to be inlined. */
enum { ATTRIBUTE_SHOULD_BE_INLINED = 2, ATTRIBUTE_DUPLICATED_INTO_BASE = 4 };

/* How many functions there are, top and inlined. */
size_t sampleprof_size(const sampleprof *p);

/* The function that is inlined there, or with caller NULL the top one; NULL: none. */
sampleprof_function *sampleprof_look_up(const sampleprof *p, const sampleprof_function *caller,
                                        sampleprof_place place, spgo_str name);

/* SPGO_LIMIT when the budget is used up, else SPGO_NOMEM. */
spgo_code sampleprof_fail_memory(const sampleprof *p, spgo_error *err);

/* The top functions by falling total, then name; malloc'd. NULL also when there are none. */
const sampleprof_function **sampleprof_by_total(const sampleprof *p, size_t *count);

/* Numbers all names in their order and returns how many there are, sorted, in the document's
 * memory; NULL: no memory. */
const spgo_str *sampleprof_sort_names(const sampleprof *p, size_t *count);
/* The number that a name got; it must be one of the document's. */
uint32_t sampleprof_name_number(const sampleprof *p, spgo_str name);

static inline uint64_t sampleprof_place_key(sampleprof_place place)
{
    return (uint64_t)place.line_offset << 32 | place.discriminator;
}

/* Each reads one form; *read is set only on success. */
spgo_code sampleprof_read_text(spgo_span bytes, uint64_t budget_bytes, sampleprof **read, diag *d,
                               spgo_error *err);
spgo_code sampleprof_read_binary(spgo_span bytes, uint64_t budget_bytes, sampleprof **read, diag *d,
                                 spgo_error *err);

/* Does it start with the number of a binary form that is read? */
bool sampleprof_has_magic(spgo_span bytes);

/* Is the first line that is no comment the head of a function? */
bool sampleprof_looks_like_text(spgo_span bytes);

#endif
