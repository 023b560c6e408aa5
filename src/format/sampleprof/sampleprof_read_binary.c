/*
 * The two binary forms. Both tell functions in the same way; the plain one has summary, names and
 * functions one after the other, the extensible one in sections.
 */
#include "sampleprof_internal.h"

#include <base/limits.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#if SPGO_HAVE_ZLIB
#include <zlib.h>
#endif

#define WHERE "sampleprof"

enum {
    SECTION_ENTRY_BYTES = 32,
    LINE_BYTES_MIN = 4,   /* offset, discriminator, count, number of targets */
    TARGET_BYTES_MIN = 2, /* name, count */
    SITE_BYTES_MIN = 6,   /* offset, discriminator, name, total, two numbers of parts */
    METADATA_BYTES_MIN = 4,
    CUTOFF_BYTES_MIN = 3,
    DEFLATE_RATIO_MAX = 1032
};

typedef struct section {
    uint64_t type, flags, offset, size;
    uint64_t entry_off; /* of its row in the table */
} section;

typedef struct binary_reader {
    sampleprof *p;
    diag *d;
    spgo_error *err;
    spgo_span file;
    arena *scratch; /* names and expanded sections: gone when all is read */
    const spgo_str *names;
    size_t name_count;
    uint64_t expanded_left; /* that compressed sections may still expand to */
    spgo_code refused;      /* *err tells why */
} binary_reader;

/* ------------------------------------------------------------------ failing */

/* The reader's failure, with a sentence of its own. */
SPGO_PRINTF(5, 6)
static void refuse(binary_reader *b, reader *r, spgo_code code, uint64_t offset, const char *fmt,
                   ...)
{
    char sentence[160];
    va_list args;
    if (r->code)
        return;
    va_start(args, fmt);
    (void)vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    b->refused = spgo_fail(b->err, code, WHERE, offset, "%s", sentence);
    reader_fail(r, code, offset);
}

static spgo_code finish(const binary_reader *b, const reader *r, const char *where)
{
    if (b->refused)
        return b->refused;
    if (r->code == SPGO_NOMEM)
        return sampleprof_fail_memory(b->p, b->err);
    return reader_finish(r, where, b->err);
}

static void no_memory(reader *r)
{
    reader_fail(r, SPGO_NOMEM, reader_offset(r));
}

/* ------------------------------------------------------------------ numbers */

static uint32_t read_u32(binary_reader *b, reader *r, uint64_t max)
{
    uint64_t start = reader_offset(r);
    uint64_t value = reader_uleb(r);
    if (value > max)
        refuse(b, r, SPGO_CORRUPT, start, "a number %llu is too large for its field",
               (unsigned long long)value);
    return r->code ? 0 : (uint32_t)value;
}

static sampleprof_place read_place(binary_reader *b, reader *r)
{
    sampleprof_place place;
    place.line_offset = read_u32(b, r, SAMPLEPROF_LINE_OFFSET_MAX);
    place.discriminator = read_u32(b, r, UINT32_MAX);
    return place;
}

/* The name that a number stands for. */
static spgo_str read_name(binary_reader *b, reader *r)
{
    uint64_t start = reader_offset(r);
    uint64_t number = reader_uleb(r);
    if (!r->code && number >= b->name_count)
        refuse(b, r, SPGO_CORRUPT, start, "the table of names has no number %llu",
               (unsigned long long)number);
    else if (!r->code && b->names[number].len == 0)
        refuse(b, r, SPGO_CORRUPT, start, "name %llu is empty", (unsigned long long)number);
    return r->code ? (spgo_str){"", 0} : b->names[number];
}

/* ------------------------------------------------------------------ functions */

static void read_line(binary_reader *b, reader *r, sampleprof_function *f)
{
    sampleprof_place place = read_place(b, r);
    uint64_t count = reader_uleb(r);
    size_t targets = reader_count(r, reader_uleb(r), TARGET_BYTES_MIN);
    if (!r->code && !sampleprof_add_line(b->p, f, place, count))
        no_memory(r);
    for (size_t i = 0; i < targets && !r->code; i++) {
        spgo_str callee = read_name(b, r);
        count = reader_uleb(r);
        if (!r->code && !sampleprof_add_target(b->p, f, place, callee, count))
            no_memory(r);
    }
}

/* What follows the name; calls itself for callees that were inlined. */
static void read_body(binary_reader *b, reader *r, sampleprof_function *f, unsigned depth)
{
    sampleprof_add_total(f, reader_uleb(r));
    size_t lines = reader_count(r, reader_uleb(r), LINE_BYTES_MIN);
    for (size_t i = 0; i < lines && !r->code; i++)
        read_line(b, r, f);
    size_t sites = reader_count(r, reader_uleb(r), SITE_BYTES_MIN);
    for (size_t i = 0; i < sites && !r->code; i++) {
        sampleprof_place place = read_place(b, r);
        spgo_str name = read_name(b, r);
        if (depth >= LIMIT_INLINE_DEPTH)
            refuse(b, r, SPGO_LIMIT, reader_offset(r),
                   "more than %d callees are inlined into each other", (int)LIMIT_INLINE_DEPTH);
        sampleprof_function *callee = r->code ? NULL : sampleprof_inlined(b->p, f, place, name);
        if (callee)
            read_body(b, r, callee, depth + 1);
        else if (!r->code)
            no_memory(r);
    }
}

static void read_functions(binary_reader *b, reader *r)
{
    while (reader_left(r) > 0) {
        uint64_t head = reader_uleb(r);
        spgo_str name = read_name(b, r);
        sampleprof_function *f = r->code ? NULL : sampleprof_function_named(b->p, name);
        if (f) {
            sampleprof_add_head(f, head);
            read_body(b, r, f, 0);
        } else if (!r->code) {
            no_memory(r);
        }
    }
}

/* f NULL: the profile has no such function, and what is told of it is passed over. */
static void read_metadata_of(binary_reader *b, reader *r, uint64_t flags, sampleprof_function *f,
                             unsigned depth)
{
    uint64_t checksum = flags & METADATA_PROBES ? reader_uleb(r) : 0;
    uint32_t attributes = flags & METADATA_ATTRIBUTES ? read_u32(b, r, UINT32_MAX) : 0;
    if (f && !r->code && checksum)
        sampleprof_set_checksum(f, checksum);
    if (f && !r->code && attributes)
        sampleprof_set_attributes(f, attributes);
    size_t sites = reader_count(r, reader_uleb(r), METADATA_BYTES_MIN);
    for (size_t i = 0; i < sites && !r->code; i++) {
        sampleprof_place place = read_place(b, r);
        spgo_str name = read_name(b, r);
        if (depth >= LIMIT_INLINE_DEPTH)
            refuse(b, r, SPGO_LIMIT, reader_offset(r),
                   "more than %d callees are inlined into each other", (int)LIMIT_INLINE_DEPTH);
        if (!r->code)
            read_metadata_of(b, r, flags, f ? sampleprof_look_up(b->p, f, place, name) : NULL,
                             depth + 1);
    }
}

static void read_metadata(binary_reader *b, reader *r, uint64_t flags)
{
    while (reader_left(r) > 0) {
        spgo_str name = read_name(b, r);
        if (!r->code)
            read_metadata_of(b, r, flags,
                             sampleprof_look_up(b->p, NULL, (sampleprof_place){0, 0}, name), 0);
    }
}

/* ------------------------------------------------------------------ summary and names */

static void pass_summary(reader *r)
{
    for (int i = 0; i < 5; i++)
        (void)reader_uleb(r);
    size_t cutoffs = reader_count(r, reader_uleb(r), CUTOFF_BYTES_MIN);
    for (size_t i = 0; i < 3 * cutoffs && !r->code; i++)
        (void)reader_uleb(r);
}

/* The decimal digits of an MD5 value, which are its name. */
static spgo_str digits_of(char *room, uint64_t value)
{
    enum { DIGITS_MAX = 20 };
    size_t at = DIGITS_MAX;
    do {
        room[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    return (spgo_str){room + at, DIGITS_MAX - at};
}

static void read_names(binary_reader *b, reader *r, uint64_t flags)
{
    enum { DIGITS_ROOM = 20 };
    bool is_fixed = flags & NAMES_MD5_FIXED;
    bool is_md5 = flags & (NAMES_MD5 | NAMES_MD5_FIXED);
    size_t count = reader_count(r, reader_uleb(r), is_fixed ? sizeof(uint64_t) : 1);
    spgo_str *names = arena_push(b->scratch, count, sizeof *names);
    char *digits = is_md5 ? arena_push(b->scratch, count, DIGITS_ROOM) : NULL;
    if (!names || (is_md5 && !digits)) {
        no_memory(r);
        return;
    }
    for (size_t i = 0; i < count && !r->code; i++) {
        if (is_md5)
            names[i] =
                digits_of(digits + i * DIGITS_ROOM, is_fixed ? reader_u64(r) : reader_uleb(r));
        else
            names[i] = reader_cstr(r);
    }
    b->names = names;
    b->name_count = count;
}

/* ------------------------------------------------------------------ sections */

static spgo_code fail_section(const binary_reader *b, const section *s, spgo_code code,
                              const char *what)
{
    return spgo_fail(b->err, code, "sampleprof.section", s->entry_off, "section type %llu %s",
                     (unsigned long long)s->type, what);
}

/* Kinds of profiles that flags announce and that are not read. */
static spgo_code check_flags(const binary_reader *b, const section *s)
{
    const uint64_t common = SECTION_COMPRESSED | SECTION_FLAT;
    const uint64_t summary = common | SUMMARY_PARTIAL | SUMMARY_FS_DISCRIMINATORS |
                             SUMMARY_PREINLINED | SUMMARY_CONTEXTS;
    if (s->type == SECTION_SUMMARY && (s->flags & SUMMARY_CONTEXTS))
        return fail_section(b, s, SPGO_UNSUPPORTED,
                            "announces profiles by calling context, which are not read; "
                            "llvm-profdata merge --sample --convert-sample-profile-layout=nest "
                            "makes a nested one");
    if (s->type == SECTION_SUMMARY && (s->flags & ~summary))
        return fail_section(b, s, SPGO_UNSUPPORTED, "has flags of a later version of LLVM");
    if (s->type > SECTION_PROFILES)
        return fail_section(b, s, SPGO_UNSUPPORTED, "holds profiles of a later version of LLVM");
    return SPGO_OK;
}

#if SPGO_HAVE_ZLIB
static spgo_code inflate_section(binary_reader *b, const section *s, reader *r)
{
    uint64_t raw_bytes = reader_uleb(r);
    uint64_t packed_bytes = reader_uleb(r);
    spgo_span packed = reader_bytes(r, packed_bytes);
    if (r->code)
        return finish(b, r, "sampleprof.compressed");
    if (raw_bytes / DEFLATE_RATIO_MAX > packed.len)
        return fail_section(b, s, SPGO_CORRUPT, "claims more than it can expand to");
    if (raw_bytes > b->expanded_left || raw_bytes > UINT32_MAX)
        return fail_section(b, s, SPGO_LIMIT, "expands to more than this program allows");
    b->expanded_left -= raw_bytes;
    uint8_t *raw = arena_push(b->scratch, (size_t)raw_bytes, 1);
    if (!raw)
        return sampleprof_fail_memory(b->p, b->err);
    uLongf got = (uLongf)raw_bytes;
    if (uncompress(raw, &got, packed.ptr, (uLong)packed.len) != Z_OK || got != raw_bytes)
        return fail_section(b, s, SPGO_CORRUPT, "cannot be expanded");
    *r = reader_from((spgo_span){raw, (size_t)raw_bytes}, 0);
    return SPGO_OK;
}
#else
static spgo_code inflate_section(binary_reader *b, const section *s, reader *r)
{
    (void)r;
    return fail_section(b, s, SPGO_UNSUPPORTED,
                        "is compressed, and this build lacks zlib (configure it with "
                        "SPGO_WITH_ZLIB=ON); llvm-profdata merge --sample --text makes a text "
                        "profile");
}
#endif

static spgo_code read_contents(binary_reader *b, const section *s, reader *r)
{
    static const char *const places[] = {
        [SECTION_SUMMARY] = "sampleprof.summary",
        [SECTION_NAMES] = "sampleprof.names",
        [SECTION_METADATA] = "sampleprof.metadata",
        [SECTION_PROFILES] = "sampleprof.functions",
    };
    switch (s->type) {
    case SECTION_SUMMARY:
        pass_summary(r);
        break;
    case SECTION_NAMES:
        read_names(b, r, s->flags);
        break;
    case SECTION_METADATA:
        read_metadata(b, r, s->flags);
        break;
    case SECTION_PROFILES:
        read_functions(b, r);
        break;
    case SECTION_SYMBOLS:       /* for the compiler alone */
    case SECTION_OFFSETS:       /* of functions, all of which are read anyway */
    case SECTION_CONTEXT_NAMES: /* of profiles by context */
        return SPGO_OK;
    default:
        diag_add(b->d, SPGO_UNSUPPORTED, s->entry_off, "section type %llu is not known; left out",
                 (unsigned long long)s->type);
        return SPGO_OK;
    }
    if (reader_left(r) > 0)
        reader_fail(r, SPGO_CORRUPT, reader_offset(r));
    return finish(b, r, places[s->type]);
}

static spgo_code read_section(binary_reader *b, const section *s)
{
    SPGO_TRY(check_flags(b, s));
    if (s->type == SECTION_SUMMARY && (s->flags & SUMMARY_FS_DISCRIMINATORS))
        sampleprof_set_fs_discriminators(b->p, true);
    if (s->type == SECTION_METADATA && (s->flags & METADATA_PROBES))
        sampleprof_set_probes(b->p, true);
    if (s->size == 0)
        return SPGO_OK;
    reader r = reader_from((spgo_span){b->file.ptr + s->offset, (size_t)s->size}, s->offset);
    if (!(s->flags & SECTION_COMPRESSED))
        return read_contents(b, s, &r);
    SPGO_TRY(inflate_section(b, s, &r));
    spgo_code code = read_contents(b, s, &r);
    if (code != SPGO_OK && b->err) /* offsets in what was expanded mean nothing in the file */
        b->err->offset = s->offset;
    return code;
}

/* Sections may stand anywhere, but all of them together have no more bytes than the file: nothing
 * is read twice. */
static spgo_code read_sections(binary_reader *b, reader *r)
{
    size_t count = reader_count(r, reader_u64(r), SECTION_ENTRY_BYTES);
    uint64_t left = b->file.len;
    for (size_t i = 0; i < count; i++) {
        section s = {.entry_off = reader_offset(r)};
        s.type = reader_u64(r);
        s.flags = reader_u64(r);
        s.offset = reader_u64(r);
        s.size = reader_u64(r);
        if (s.offset > b->file.len || s.size > b->file.len - s.offset)
            return fail_section(b, &s, SPGO_TRUNCATED, "lies outside of the file");
        if (s.size > left)
            return fail_section(b, &s, SPGO_CORRUPT, "shares bytes with others");
        left -= s.size;
        SPGO_TRY(read_section(b, &s));
    }
    return finish(b, r, "sampleprof.sections");
}

static spgo_code read_plain(binary_reader *b, reader *r)
{
    pass_summary(r);
    read_names(b, r, 0);
    read_functions(b, r);
    return finish(b, r, "sampleprof.functions");
}

static spgo_code read_all(binary_reader *b)
{
    reader r = reader_from(b->file, 0);
    uint64_t magic = reader_uleb(&r);
    uint64_t version_off = reader_offset(&r);
    uint64_t version = reader_uleb(&r);
    if (r.code)
        return finish(b, &r, "sampleprof.header");
    if (version != SAMPLEPROF_VERSION)
        return spgo_fail(b->err, SPGO_UNSUPPORTED, "sampleprof.header", version_off,
                         "version %llu of the format is not read, only %d is",
                         (unsigned long long)version, (int)SAMPLEPROF_VERSION);
    return magic == SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_EXT) ? read_sections(b, &r)
                                                           : read_plain(b, &r);
}

spgo_code sampleprof_read_binary(spgo_span bytes, uint64_t budget_bytes, sampleprof **read, diag *d,
                                 spgo_error *err)
{
    binary_reader b = {.p = sampleprof_new(budget_bytes),
                       .d = d,
                       .err = err,
                       .file = bytes,
                       .scratch = arena_new(budget_bytes)};
    b.expanded_left =
        LIMIT_SAMPLEPROF_EXPANDED_BYTES + LIMIT_SAMPLEPROF_EXPANSION * (uint64_t)bytes.len;
    spgo_code code = b.p && b.scratch ? read_all(&b) : spgo_fail_nomem(err, WHERE, 0);
    arena_free(b.scratch);
    if (code == SPGO_OK)
        *read = b.p;
    else
        sampleprof_free(b.p);
    return code;
}
