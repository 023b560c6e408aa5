/* What the tests of sample profiles share: text to a document and back, and binaries by hand. */
#ifndef SAMPLEPROF_BUILD_H
#define SAMPLEPROF_BUILD_H

#include "test_data.h"

#include <base/bytes.h>
#include <base/reader.h>
#include <base/text.h>
#include <format/sampleprof/sampleprof.h>

#include <string.h>

static inline spgo_span as_span(const char *text)
{
    spgo_str s = text_str(text);
    return (spgo_span){(const uint8_t *)s.ptr, s.len};
}

static inline sampleprof_place place_at(uint32_t line_offset, uint32_t discriminator)
{
    return (sampleprof_place){line_offset, discriminator};
}

static inline sampleprof *read_good(spgo_span input)
{
    sampleprof *p;
    spgo_error err = {0};
    if (sampleprof_read(input, 0, &p, NULL, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return p;
}

static inline sampleprof *read_text(const char *text)
{
    return read_good(as_span(text));
}

/* As text, NUL-terminated. */
static inline bytes text_of(const sampleprof *p)
{
    bytes b = {0};
    out o;
    spgo_error err = {0};
    assert_int_equal(out_init(&o, bytes_sink(&b), NULL), SPGO_OK);
    if (sampleprof_write_text(p, &o, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    assert_true(out_flush(&o));
    out_free(&o);
    bytes_u8(&b, 0);
    assert_false(b.failed);
    return b;
}

static inline void assert_text(const sampleprof *p, const char *expected)
{
    bytes b = text_of(p);
    assert_string_equal((const char *)b.ptr, expected);
    bytes_free(&b);
}

static inline bytes extbinary_of(const sampleprof *p)
{
    bytes b = {0};
    spgo_error err = {0};
    if (sampleprof_write_extbinary(p, bytes_sink(&b), &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return b;
}

static inline void assert_same_profile(const sampleprof *a, const sampleprof *b)
{
    bytes text = text_of(a);
    assert_text(b, (const char *)text.ptr);
    bytes_free(&text);
}

/* Fails with that code at that offset, and says why. */
static inline void assert_bad(spgo_span input, spgo_code code, uint64_t offset, const char *part)
{
    sampleprof *p = NULL;
    spgo_error err = {0};
    assert_int_equal(sampleprof_read(input, 0, &p, NULL, &err), code);
    assert_null(p);
    assert_int_equal(err.code, code);
    assert_int_equal(err.offset, offset);
    if (!strstr(err.sentence, part))
        fail_msg("\"%s\" does not say \"%s\"", err.sentence, part);
}

/* ------------------------------------------------------------------ binaries by hand */

static inline void put_uleb(bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        bytes_u8(b, (uint8_t)(v | 0x80));
    bytes_u8(b, (uint8_t)v);
}

/* Numbers up to the first that is negative. */
#define PUT_ULEBS(b, ...) put_ulebs(b, (const int[]){__VA_ARGS__, -1})
static inline void put_ulebs(bytes *b, const int *numbers)
{
    for (; *numbers >= 0; numbers++)
        put_uleb(b, (uint64_t)*numbers);
}

static inline void put_magic(bytes *b, uint8_t form)
{
    put_uleb(b, 0x5350524f46343200u | form);
    put_uleb(b, 103);
}

static inline void put_names(bytes *b, const char *const *names, size_t count)
{
    put_uleb(b, count);
    for (size_t i = 0; i < count; i++)
        bytes_put(b, names[i], strlen(names[i]) + 1);
}

enum { SECTION_MAX = 8, MAGIC_BYTES = 10, SECTION_ROW_BYTES = 32 };

typedef struct built_section {
    uint64_t type, flags;
    bytes contents; /* freed by build_extbinary */
} built_section;

static inline bytes build_extbinary(built_section *sections, size_t count)
{
    bytes b = {0};
    put_magic(&b, 4);
    bytes_u64(&b, count);
    uint64_t offset = MAGIC_BYTES + 8 + SECTION_ROW_BYTES * count;
    for (size_t i = 0; i < count; i++) {
        bytes_u64(&b, sections[i].type);
        bytes_u64(&b, sections[i].flags);
        bytes_u64(&b, offset);
        bytes_u64(&b, sections[i].contents.len);
        offset += sections[i].contents.len;
    }
    for (size_t i = 0; i < count; i++) {
        bytes_put(&b, sections[i].contents.ptr, sections[i].contents.len);
        bytes_free(&sections[i].contents);
    }
    return b;
}

/* Where the row of a section stands in the table. */
static inline uint64_t row_off(size_t section)
{
    return MAGIC_BYTES + 8 + SECTION_ROW_BYTES * section;
}

#endif
