/*
 * The cursor that all parsers read through. Errors stick: after the first failure every read
 * returns 0 and nothing moves, so that a parser reads like the format's description and checks
 * once at its end. The absolute offset of the first bad byte is kept.
 *
 * Two rules: never use a value as a loop bound or an allocation size before reader_count or a
 * comparison has checked it; loops test r->code in their condition.
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <spgo/error.h>

typedef struct reader {
    const uint8_t *base;
    size_t len;
    size_t pos;
    uint64_t origin;  /* absolute offset of base[0] in the input */
    uint64_t bad_off; /* absolute offset of the first bad byte once code is set */
    spgo_code code;   /* SPGO_OK until the first failure */
} reader;

static inline reader reader_from(spgo_span data, uint64_t origin)
{
    /* An empty span may have no address, and arithmetic on NULL is undefined. */
    const uint8_t *base = data.ptr ? data.ptr : (const uint8_t *)"";
    return (reader){.base = base, .len = data.len, .origin = origin};
}

static inline size_t reader_left(const reader *r)
{
    return r->code ? 0 : r->len - r->pos;
}

/* Absolute offset of the next byte. */
static inline uint64_t reader_offset(const reader *r)
{
    return r->origin + r->pos;
}

/* Marks the reader as failed at absolute offset `offset`, unless it already is. */
void reader_fail(reader *r, spgo_code code, uint64_t offset);

/* n bytes, or NULL after marking the reader truncated. */
static inline const uint8_t *reader_take(reader *r, uint64_t n)
{
    if (__builtin_expect(r->code != SPGO_OK || n > r->len - r->pos, 0)) {
        reader_fail(r, SPGO_TRUNCATED, reader_offset(r));
        return NULL;
    }
    const uint8_t *p = r->base + r->pos;
    r->pos += (size_t)n;
    return p;
}

static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | (unsigned)p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t load_u64(const uint8_t *p)
{
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

static inline uint8_t reader_u8(reader *r)
{
    const uint8_t *p = reader_take(r, 1);
    return p ? p[0] : 0;
}

static inline uint16_t reader_u16(reader *r)
{
    const uint8_t *p = reader_take(r, 2);
    return p ? load_u16(p) : 0;
}

static inline uint32_t reader_u32(reader *r)
{
    const uint8_t *p = reader_take(r, 4);
    return p ? load_u32(p) : 0;
}

static inline uint64_t reader_u64(reader *r)
{
    const uint8_t *p = reader_take(r, 8);
    return p ? load_u64(p) : 0;
}

/* A pointer-sized value of a trace: ptr_size 4 or 8. */
static inline uint64_t reader_ptr(reader *r, unsigned ptr_size)
{
    return ptr_size == 8 ? reader_u64(r) : reader_u32(r);
}

static inline spgo_guid reader_guid(reader *r)
{
    spgo_guid g = {{0}};
    const uint8_t *p = reader_take(r, 16);
    for (int i = 0; p && i < 16; i++)
        g.bytes[i] = p[i];
    return g;
}

/* A view, not a copy. */
static inline spgo_span reader_bytes(reader *r, uint64_t n)
{
    const uint8_t *p = reader_take(r, n);
    return (spgo_span){p, p ? (size_t)n : 0};
}

static inline void reader_skip(reader *r, uint64_t n)
{
    (void)reader_take(r, n);
}

/* To position pos (relative to this reader's start); past the end is a failure. */
void reader_seek(reader *r, uint64_t pos);

/* A child that cannot see past its n bytes; this reader moves behind them. */
reader reader_sub(reader *r, uint64_t n);

/* n when n elements of at least min_elem_size bytes fit in what is left; else 0 and CORRUPT. */
size_t reader_count(reader *r, uint64_t n, size_t min_elem_size);

/* ULEB128. A number of more than 64 bits, or of more than 10 bytes, is CORRUPT where it starts. */
uint64_t reader_uleb(reader *r);

/* Text up to a NUL, which is skipped and not part of the result. No NUL: TRUNCATED. */
spgo_str reader_cstr(reader *r);

/* UTF-16LE up to a NUL unit, which is skipped and not part of the result (a span of bytes). */
spgo_span reader_utf16z(reader *r);

/* SPGO_OK, or fills err with "the <where> ends/is wrong at this offset". */
spgo_code reader_finish(const reader *r, const char *where, spgo_error *err);

#endif
