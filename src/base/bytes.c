/* A growable run of bytes: see bytes.h. */
#include <base/bytes.h>

#include <base/text.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void bytes_free(bytes *b)
{
    free(b->ptr);
    *b = (bytes){0};
}

bool bytes_reserve(bytes *b, size_t n)
{
    if (b->failed)
        return false;
    if (n <= b->cap - b->len)
        return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap - b->len < n) {
        if (cap > SIZE_MAX / 2) {
            b->failed = true;
            return false;
        }
        cap *= 2;
    }
    uint8_t *grown = realloc(b->ptr, cap);
    if (!grown) {
        b->failed = true;
        return false;
    }
    b->ptr = grown;
    b->cap = cap;
    return true;
}

void bytes_put(bytes *b, const void *data, size_t n)
{
    if (n == 0 || !bytes_reserve(b, n))
        return;
    memcpy(b->ptr + b->len, data, n);
    b->len += n;
}

void bytes_fill(bytes *b, uint8_t value, size_t n)
{
    if (n == 0 || !bytes_reserve(b, n))
        return;
    memset(b->ptr + b->len, value, n);
    b->len += n;
}

void bytes_u8(bytes *b, uint8_t v)
{
    bytes_put(b, &v, 1);
}

void bytes_u16(bytes *b, uint16_t v)
{
    uint8_t p[2];
    store_u16(p, v);
    bytes_put(b, p, sizeof p);
}

void bytes_u32(bytes *b, uint32_t v)
{
    uint8_t p[4];
    store_u32(p, v);
    bytes_put(b, p, sizeof p);
}

void bytes_u64(bytes *b, uint64_t v)
{
    uint8_t p[8];
    store_u64(p, v);
    bytes_put(b, p, sizeof p);
}

void bytes_ptr(bytes *b, uint64_t v, unsigned ptr_size)
{
    if (ptr_size == 8)
        bytes_u64(b, v);
    else
        bytes_u32(b, (uint32_t)v);
}

void bytes_uleb(bytes *b, uint64_t v)
{
    uint8_t digits[10];
    size_t n = 0;
    do {
        digits[n] = (uint8_t)(v & 0x7f);
        v >>= 7;
        digits[n++] |= v ? 0x80 : 0;
    } while (v);
    bytes_put(b, digits, n);
}

void bytes_utf16z(bytes *b, const char *utf8)
{
    const char *end = utf8 + strlen(utf8);
    while (utf8 < end) {
        uint32_t c = 0xFFFD; /* for each byte that belongs to no character */
        size_t len = text_utf8_next(utf8, (size_t)(end - utf8), &c);
        utf8 += len ? len : 1;
        if (c >= 0x10000) {
            bytes_u16(b, (uint16_t)(0xD800 + ((c - 0x10000) >> 10)));
            bytes_u16(b, (uint16_t)(0xDC00 + (c & 0x3FF)));
        } else {
            bytes_u16(b, (uint16_t)c);
        }
    }
    bytes_u16(b, 0);
}

void bytes_set_u16(bytes *b, size_t at, uint16_t v)
{
    assert(b->failed || at + 2 <= b->len);
    if (!b->failed)
        store_u16(b->ptr + at, v);
}

void bytes_set_u32(bytes *b, size_t at, uint32_t v)
{
    assert(b->failed || at + 4 <= b->len);
    if (!b->failed)
        store_u32(b->ptr + at, v);
}

void bytes_set_u64(bytes *b, size_t at, uint64_t v)
{
    assert(b->failed || at + 8 <= b->len);
    if (!b->failed)
        store_u64(b->ptr + at, v);
}

static bool sink_write(void *ctx, const void *data, size_t len)
{
    bytes *b = ctx;
    bytes_put(b, data, len);
    return !b->failed;
}

static bool sink_patch(void *ctx, uint64_t offset, const void *data, size_t len)
{
    bytes *b = ctx;
    if (b->failed || offset > b->len || len > b->len - offset)
        return false;
    if (len)
        memcpy(b->ptr + offset, data, len);
    return true;
}

static bool sink_read(void *ctx, uint64_t offset, void *data, size_t len)
{
    const bytes *b = ctx;
    if (b->failed || offset > b->len || len > b->len - offset)
        return false;
    if (len)
        memcpy(data, b->ptr + offset, len);
    return true;
}

spgo_sink bytes_sink(bytes *b)
{
    return (spgo_sink){.ctx = b, .write = sink_write, .patch = sink_patch, .read = sink_read};
}
