/*
 * The extensible binary form, in the layout that llvm-profdata gives it: the table lists sections
 * in the order in which they are read; behind it they stand in the order in which they are made.
 * Sections are made in memory, so that the sink is written front to back.
 */
#include "sampleprof_internal.h"

#include <base/bytes.h>

#include <stdlib.h>
#include <string.h>

#define WHERE "sampleprof.extbinary"

/* By place in the table. */
enum {
    PART_SUMMARY,
    PART_NAMES,
    PART_CONTEXT_NAMES,
    PART_OFFSETS,
    PART_FUNCTIONS,
    PART_SYMBOLS,
    PART_METADATA,
    PART_COUNT
};

/* How they follow each other in the file. */
static const unsigned char file_order[PART_COUNT] = {
    PART_SUMMARY, PART_NAMES,   PART_CONTEXT_NAMES, PART_FUNCTIONS,
    PART_SYMBOLS, PART_OFFSETS, PART_METADATA};

typedef struct part {
    uint64_t type, flags;
    bytes contents;
} part;

typedef struct ext_writer {
    const sampleprof *p;
    spgo_error *err;
    const sampleprof_function **tops;
    size_t top_count;
    bool has_attributes, has_preinlined; /* some function has */
    part parts[PART_COUNT];
} ext_writer;

static void put_place(bytes *b, sampleprof_place place)
{
    bytes_uleb(b, place.line_offset);
    bytes_uleb(b, place.discriminator);
}

static void put_name(const ext_writer *w, bytes *b, spgo_str name)
{
    bytes_uleb(b, sampleprof_name_number(w->p, name));
}

/* ------------------------------------------------------------------ sections */

static spgo_code make_summary(ext_writer *w)
{
    bytes *b = &w->parts[PART_SUMMARY].contents;
    sampleprof_summary s;
    SPGO_TRY(sampleprof_summarize(w->p, &s, w->err));
    bytes_uleb(b, s.total);
    bytes_uleb(b, s.max_count);
    bytes_uleb(b, s.max_function_count);
    bytes_uleb(b, s.count_count);
    bytes_uleb(b, s.function_count);
    bytes_uleb(b, SAMPLEPROF_CUTOFF_COUNT);
    for (size_t i = 0; i < SAMPLEPROF_CUTOFF_COUNT; i++) {
        bytes_uleb(b, s.cutoffs[i].cutoff);
        bytes_uleb(b, s.cutoffs[i].min_count);
        bytes_uleb(b, s.cutoffs[i].count);
    }
    return SPGO_OK;
}

static bool has_unique_suffix(spgo_str name)
{
    static const char suffix[] = ".__uniq.";
    enum { SUFFIX_LEN = sizeof suffix - 1 };
    for (size_t at = 0; at + SUFFIX_LEN <= name.len; at++) {
        if (memcmp(name.ptr + at, suffix, SUFFIX_LEN) == 0)
            return true;
    }
    return false;
}

static uint64_t number_of(spgo_str digits)
{
    uint64_t v = 0;
    for (size_t i = 0; i < digits.len; i++)
        v = v * 10 + (uint64_t)(digits.ptr[i] - '0');
    return v;
}

static spgo_code make_names(ext_writer *w)
{
    part *names = &w->parts[PART_NAMES];
    bool is_md5 = sampleprof_has_md5_names(w->p);
    size_t count;
    const spgo_str *sorted = sampleprof_sort_names(w->p, &count);
    if (!sorted)
        return sampleprof_fail_memory(w->p, w->err);
    names->flags = is_md5 ? NAMES_MD5 | NAMES_MD5_FIXED : 0;
    bytes_uleb(&names->contents, count);
    for (size_t i = 0; i < count; i++) {
        if (is_md5) {
            bytes_u64(&names->contents, number_of(sorted[i]));
            continue;
        }
        if (memchr(sorted[i].ptr, 0, sorted[i].len))
            return spgo_fail(w->err, SPGO_UNSUPPORTED, WHERE, SPGO_NO_OFFSET,
                             "the name '%s' goes on behind a NUL, which no form can hold",
                             sorted[i].ptr);
        if (has_unique_suffix(sorted[i]))
            names->flags |= NAMES_UNIQUE_SUFFIX;
        bytes_put(&names->contents, sorted[i].ptr, sorted[i].len);
        bytes_u8(&names->contents, 0);
    }
    return SPGO_OK;
}

static spgo_code check_place(const ext_writer *w, sampleprof_place place)
{
    if (place.line_offset <= SAMPLEPROF_LINE_OFFSET_MAX)
        return SPGO_OK;
    return spgo_fail(w->err, SPGO_UNSUPPORTED, WHERE, SPGO_NO_OFFSET,
                     "the line offset %lu is above %u, the largest that LLVM reads",
                     (unsigned long)place.line_offset, (unsigned)SAMPLEPROF_LINE_OFFSET_MAX);
}

static spgo_code put_lines(const ext_writer *w, bytes *b, const sampleprof_function *f)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    bytes_uleb(b, count);
    for (const sampleprof_line *l = lines; l < lines + count; l++) {
        SPGO_TRY(check_place(w, l->place));
        put_place(b, l->place);
        bytes_uleb(b, l->count);
        bytes_uleb(b, l->target_count);
        for (size_t i = 0; i < l->target_count; i++) {
            put_name(w, b, l->targets[i].callee);
            bytes_uleb(b, l->targets[i].count);
        }
    }
    return SPGO_OK;
}

static spgo_code put_body(ext_writer *w, bytes *b, const sampleprof_function *f)
{
    size_t count;
    put_name(w, b, sampleprof_name(f));
    bytes_uleb(b, sampleprof_total(f));
    SPGO_TRY(put_lines(w, b, f));
    w->has_attributes |= sampleprof_attributes(f) != 0;
    w->has_preinlined |= (sampleprof_attributes(f) & ATTRIBUTE_SHOULD_BE_INLINED) != 0;
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    bytes_uleb(b, count);
    for (size_t i = 0; i < count; i++) {
        SPGO_TRY(check_place(w, sites[i].place));
        put_place(b, sites[i].place);
        SPGO_TRY(put_body(w, b, sites[i].callee));
    }
    return SPGO_OK;
}

/* The functions, and where in their section each of them begins. */
static spgo_code make_functions(ext_writer *w)
{
    bytes *functions = &w->parts[PART_FUNCTIONS].contents;
    bytes *offsets = &w->parts[PART_OFFSETS].contents;
    bytes_uleb(offsets, w->top_count);
    for (size_t i = 0; i < w->top_count && !functions->failed; i++) {
        put_name(w, offsets, sampleprof_name(w->tops[i]));
        bytes_uleb(offsets, functions->len);
        bytes_uleb(functions, sampleprof_head(w->tops[i]));
        SPGO_TRY(put_body(w, functions, w->tops[i]));
    }
    return SPGO_OK;
}

static void put_metadata_of(const ext_writer *w, bytes *b, const sampleprof_function *f)
{
    size_t count;
    uint64_t checksum;
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    (void)sampleprof_checksum(f, &checksum);
    put_name(w, b, sampleprof_name(f));
    if (sampleprof_has_probes(w->p))
        bytes_uleb(b, checksum);
    if (w->has_attributes)
        bytes_uleb(b, sampleprof_attributes(f));
    bytes_uleb(b, count);
    for (size_t i = 0; i < count; i++) {
        put_place(b, sites[i].place);
        put_metadata_of(w, b, sites[i].callee);
    }
}

static void make_metadata(ext_writer *w)
{
    part *metadata = &w->parts[PART_METADATA];
    bool has_probes = sampleprof_has_probes(w->p);
    if (!has_probes && !w->has_attributes)
        return;
    metadata->flags =
        (has_probes ? METADATA_PROBES : 0) | (w->has_attributes ? METADATA_ATTRIBUTES : 0);
    for (size_t i = 0; i < w->top_count && !metadata->contents.failed; i++)
        put_metadata_of(w, &metadata->contents, w->tops[i]);
}

static spgo_code make_parts(ext_writer *w)
{
    static const uint64_t types[PART_COUNT] = {
        [PART_SUMMARY] = SECTION_SUMMARY,
        [PART_NAMES] = SECTION_NAMES,
        [PART_CONTEXT_NAMES] = SECTION_CONTEXT_NAMES,
        [PART_OFFSETS] = SECTION_OFFSETS,
        [PART_FUNCTIONS] = SECTION_PROFILES,
        [PART_SYMBOLS] = SECTION_SYMBOLS,
        [PART_METADATA] = SECTION_METADATA,
    };
    for (size_t i = 0; i < PART_COUNT; i++)
        w->parts[i].type = types[i];
    SPGO_TRY(make_summary(w));
    SPGO_TRY(make_names(w));
    bytes_uleb(&w->parts[PART_CONTEXT_NAMES].contents, 0);
    SPGO_TRY(make_functions(w));
    make_metadata(w);
    w->parts[PART_SUMMARY].flags =
        (sampleprof_has_fs_discriminators(w->p) ? SUMMARY_FS_DISCRIMINATORS : 0) |
        (w->has_preinlined ? SUMMARY_PREINLINED : 0);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the file */

static void put_table(ext_writer *w, bytes *header)
{
    enum { ENTRY_BYTES = 32, FIELD_BYTES = 8, OFFSET_FIELD = 2 };
    bytes_u64(header, PART_COUNT);
    size_t table = header->len;
    for (size_t i = 0; i < PART_COUNT; i++) {
        bytes_u64(header, w->parts[i].type);
        bytes_u64(header, w->parts[i].flags);
        bytes_u64(header, 0);
        bytes_u64(header, w->parts[i].contents.len);
    }
    uint64_t offset = header->len;
    for (size_t i = 0; i < PART_COUNT && !header->failed; i++) {
        size_t entry = table + file_order[i] * (size_t)ENTRY_BYTES;
        bytes_set_u64(header, entry + OFFSET_FIELD * FIELD_BYTES, offset);
        offset += w->parts[file_order[i]].contents.len;
    }
}

static spgo_code put_file(ext_writer *w, spgo_sink sink)
{
    bytes header = {0};
    bytes_uleb(&header, SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_EXT));
    bytes_uleb(&header, SAMPLEPROF_VERSION);
    put_table(w, &header);
    bool failed = header.failed;
    for (size_t i = 0; i < PART_COUNT; i++)
        failed |= w->parts[i].contents.failed;
    bool taken = !failed && sink.write(sink.ctx, header.ptr, header.len);
    for (size_t i = 0; i < PART_COUNT && taken; i++) {
        const bytes *b = &w->parts[file_order[i]].contents;
        taken = b->len == 0 || sink.write(sink.ctx, b->ptr, b->len);
    }
    bytes_free(&header);
    if (failed)
        return spgo_fail_nomem(w->err, WHERE, 0);
    return taken ? SPGO_OK
                 : spgo_fail(w->err, SPGO_IO, WHERE, SPGO_NO_OFFSET, "the output refused bytes");
}

spgo_code sampleprof_write_extbinary(const sampleprof *p, spgo_sink sink, spgo_error *err)
{
    ext_writer w = {.p = p, .err = err};
    w.tops = sampleprof_by_total(p, &w.top_count);
    spgo_code code = w.tops || !w.top_count
                         ? make_parts(&w)
                         : spgo_fail_nomem(err, WHERE, w.top_count * sizeof *w.tops);
    if (code == SPGO_OK)
        code = put_file(&w, sink);
    for (size_t i = 0; i < PART_COUNT; i++)
        bytes_free(&w.parts[i].contents);
    free(w.tops);
    return code;
}
