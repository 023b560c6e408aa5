/* The rare paths of the cursor: see reader.h. */
#include <base/reader.h>

#include <base/fail.h>

#include <inttypes.h>
#include <string.h>

void reader_fail(reader *r, spgo_code code, uint64_t offset)
{
    if (r->code != SPGO_OK)
        return;
    r->code = code;
    r->bad_off = offset;
}

void reader_seek(reader *r, uint64_t pos)
{
    if (r->code != SPGO_OK)
        return;
    if (pos > r->len)
        reader_fail(r, SPGO_TRUNCATED, r->origin + r->len);
    else
        r->pos = (size_t)pos;
}

reader reader_sub(reader *r, uint64_t n)
{
    uint64_t origin = reader_offset(r);
    spgo_span part = reader_bytes(r, n);
    reader child = reader_from(part, origin);
    child.code = r->code;
    child.bad_off = r->bad_off;
    return child;
}

size_t reader_count(reader *r, uint64_t n, size_t min_elem_size)
{
    if (r->code != SPGO_OK)
        return 0;
    size_t left = r->len - r->pos;
    if (min_elem_size == 0 || n <= left / min_elem_size)
        return (size_t)n;
    reader_fail(r, SPGO_CORRUPT, reader_offset(r));
    return 0;
}

uint64_t reader_uleb(reader *r)
{
    enum { BITS_MAX = 70 }; /* of ten bytes; the last one holds a single bit */
    uint64_t start = reader_offset(r), value = 0;
    for (unsigned shift = 0; shift < BITS_MAX; shift += 7) {
        uint64_t byte = reader_u8(r), bits = byte & 0x7f;
        bool fits = shift < 63 || bits <= 1;
        if (r->code || !fits)
            break;
        value |= bits << shift;
        if (byte < 0x80)
            return value;
    }
    reader_fail(r, SPGO_CORRUPT, start);
    return 0;
}

spgo_str reader_cstr(reader *r)
{
    if (r->code != SPGO_OK)
        return (spgo_str){NULL, 0};
    size_t left = r->len - r->pos;
    const uint8_t *start = r->base + r->pos;
    const uint8_t *end = left ? memchr(start, 0, left) : NULL;
    if (!end) {
        reader_fail(r, SPGO_TRUNCATED, r->origin + r->len);
        return (spgo_str){NULL, 0};
    }
    size_t len = (size_t)(end - start);
    r->pos += len + 1;
    return (spgo_str){(const char *)start, len};
}

spgo_span reader_utf16z(reader *r)
{
    if (r->code != SPGO_OK)
        return (spgo_span){NULL, 0};
    const uint8_t *start = r->base + r->pos;
    size_t left = r->len - r->pos;
    for (size_t i = 0; i + 2 <= left; i += 2) {
        if (start[i] == 0 && start[i + 1] == 0) {
            r->pos += i + 2;
            return (spgo_span){start, i};
        }
    }
    reader_fail(r, SPGO_TRUNCATED, r->origin + r->len);
    return (spgo_span){NULL, 0};
}

spgo_code reader_finish(const reader *r, const char *where, spgo_error *err)
{
    if (r->code == SPGO_OK)
        return SPGO_OK;
    if (r->code == SPGO_TRUNCATED)
        return spgo_fail(err, r->code, where, r->bad_off,
                         "the input ends inside %s; the file was cut short or is no such file",
                         where);
    return spgo_fail(err, r->code, where, r->bad_off, "%s is damaged (%s)", where,
                     spgo_code_name(r->code));
}
