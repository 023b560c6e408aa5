/*
 * A growable run of bytes with little-endian appends and a sticky out-of-memory flag: the body of
 * every writer, and the memory sink of the tests.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <spgo/types.h>

typedef struct bytes {
    uint8_t *ptr;
    size_t len;
    size_t cap;
    bool failed; /* an append found no memory; all later appends do nothing */
} bytes;

void bytes_free(bytes *b); /* leaves an empty, usable value */
static inline void bytes_clear(bytes *b)
{
    b->len = 0;
}
static inline spgo_span bytes_span(const bytes *b)
{
    return (spgo_span){b->ptr, b->len};
}

/* Room for n more bytes at b->ptr + b->len (len does not move); false and failed without memory. */
bool bytes_reserve(bytes *b, size_t n);

void bytes_put(bytes *b, const void *data, size_t n);
void bytes_fill(bytes *b, uint8_t value, size_t n);
void bytes_u8(bytes *b, uint8_t v);
void bytes_u16(bytes *b, uint16_t v);
void bytes_u32(bytes *b, uint32_t v);
void bytes_u64(bytes *b, uint64_t v);
void bytes_ptr(bytes *b, uint64_t v, unsigned ptr_size); /* 4 or 8 bytes */
void bytes_uleb(bytes *b, uint64_t v);                   /* ULEB128, as short as it can be */

/* UTF-8 text as UTF-16LE with a final NUL unit; ill-formed input becomes U+FFFD. */
void bytes_utf16z(bytes *b, const char *utf8);

/* Overwrite bytes already there. */
void bytes_set_u16(bytes *b, size_t at, uint16_t v);
void bytes_set_u32(bytes *b, size_t at, uint32_t v);
void bytes_set_u64(bytes *b, size_t at, uint64_t v);

/* A sink that appends to b, patches it and gives its bytes back. */
spgo_sink bytes_sink(bytes *b);

static inline void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void store_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static inline void store_u64(uint8_t *p, uint64_t v)
{
    store_u32(p, (uint32_t)v);
    store_u32(p + 4, (uint32_t)(v >> 32));
}

#endif
