/*
 * Buffered text output. Numbers are formatted by hand: dumps print millions of them, and printf
 * would be most of the time.
 */
#include <base/out.h>

#include <base/text.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DECIMAL_MAX = 20, HEX_MAX = 16 };

static const char hex_digits[] = "0123456789abcdef";

#define PAIRS_16(high)                                                                             \
    high "0" high "1" high "2" high "3" high "4" high "5" high "6" high "7" high "8" high "9" high \
         "a" high "b" high "c" high "d" high "e" high "f"

/* "000102...feff"; the array is as long as its text and has no final NUL. */
const char out_hex_pairs[512] = PAIRS_16("0") PAIRS_16("1") PAIRS_16("2") PAIRS_16("3")
    PAIRS_16("4") PAIRS_16("5") PAIRS_16("6") PAIRS_16("7") PAIRS_16("8") PAIRS_16("9")
        PAIRS_16("a") PAIRS_16("b") PAIRS_16("c") PAIRS_16("d") PAIRS_16("e") PAIRS_16("f");

spgo_code out_init(out *o, spgo_sink sink, spgo_error *err)
{
    *o = (out){.sink = sink, .buf = malloc(OUT_BUFFER_SIZE)};
    return o->buf ? SPGO_OK : spgo_fail_nomem(err, "output", OUT_BUFFER_SIZE);
}

bool out_flush(out *o)
{
    /* After a refused write the rest is dropped: a gap in the output would be worse than its end.
     */
    if (o->len > 0 && !o->failed)
        o->failed = !o->sink.write(o->sink.ctx, o->buf, o->len);
    o->len = 0;
    return !o->failed;
}

void out_free(out *o)
{
    free(o->buf);
    *o = (out){.sink = o->sink};
}

void out_bytes(out *o, const char *text, size_t len)
{
    while (len > 0) {
        size_t space = OUT_BUFFER_SIZE - o->len;
        size_t n = len < space ? len : space;
        memcpy(o->buf + o->len, text, n);
        o->len += n;
        text += n;
        len -= n;
        if (o->len == OUT_BUFFER_SIZE)
            (void)out_flush(o);
    }
}

void out_text(out *o, const char *text)
{
    out_bytes(o, text, strlen(text));
}

void out_str(out *o, spgo_str s)
{
    out_bytes(o, s.ptr, s.len);
}

static void put_escaped(out *o, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char *p = out_room(o, 4);
        p[0] = '\\';
        p[1] = 'x';
        p[2] = hex_digits[c >> 4];
        p[3] = hex_digits[c & 15];
        o->len += 4;
    }
}

/* C0, DEL and C1 (U+0080 to U+009F, which terminals obey as well). */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0x9F);
}

/* What is escaped: what could steer a terminal, and in quotes what would end or imitate an escape.
 */
static bool is_special(uint32_t c, bool in_quotes)
{
    return is_control(c) || (in_quotes && (c == '"' || c == '\\'));
}

static void put_special(out *o, const char *text, size_t len)
{
    if (*text == '"' || *text == '\\')
        out_bytes(o, (const char[2]){'\\', *text}, 2);
    else
        put_escaped(o, text, len);
}

/* The byte eight times. */
#define REPEATED(byte) (0x0101010101010101u * (uint64_t)(byte))

/* Is one of the eight bytes 0? Exact as an answer, whatever borrows do to single bits. */
static uint64_t has_zero(uint64_t x)
{
    return (x - REPEATED(0x01)) & ~x & REPEATED(0x80);
}

/* How many bytes, in eights, are printable ASCII and not special: nearly all of nearly all names.
 */
static size_t plain_words(const char *p, size_t left, bool in_quotes)
{
    size_t n = 0;
    for (; left - n >= 8; n += 8) {
        uint64_t x;
        memcpy(&x, p + n, sizeof x);
        uint64_t bad = (x & REPEATED(0x80)) | ((x - REPEATED(0x20)) & ~x & REPEATED(0x80)) |
                       has_zero(x ^ REPEATED(0x7f));
        if (in_quotes)
            bad |= has_zero(x ^ REPEATED('"')) | has_zero(x ^ REPEATED('\\'));
        if (bad)
            break;
    }
    return n;
}

static void put_clean(out *o, spgo_str s, bool in_quotes)
{
    size_t plain = 0; /* start of the run that goes out as it is */
    size_t at = 0;

    if (s.len == 0)
        return;
    while (at < s.len) {
        at += plain_words(s.ptr + at, s.len - at, in_quotes);
        if (at == s.len)
            break;
        uint32_t c = 0;
        size_t len = text_utf8_next(s.ptr + at, s.len - at, &c);
        if (len > 0 && !is_special(c, in_quotes)) {
            at += len;
            continue;
        }
        if (len == 0)
            len = 1;
        out_bytes(o, s.ptr + plain, at - plain);
        put_special(o, s.ptr + at, len);
        at += len;
        plain = at;
    }
    out_bytes(o, s.ptr + plain, at - plain);
}

void out_name(out *o, spgo_str s)
{
    put_clean(o, s, false);
}

void out_quoted(out *o, spgo_str s)
{
    out_bytes(o, "\"", 1);
    put_clean(o, s, true);
    out_bytes(o, "\"", 1);
}

void out_printf(out *o, const char *fmt, ...)
{
    enum { TRY_SIZE = 1024 };
    char *p = out_room(o, TRY_SIZE);
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(p, TRY_SIZE, fmt, args);
    va_end(args);
    if (len >= 0 && len < TRY_SIZE) {
        o->len += (size_t)len;
        return;
    }
    char *text = len < 0 ? NULL : malloc((size_t)len + 1);
    if (!text) {
        o->failed = true;
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    out_bytes(o, text, (size_t)len);
    free(text);
}

/* The decimal digits of v, right-aligned in text; returns their number. */
static size_t decimal(char text[DECIMAL_MAX], uint64_t v)
{
    size_t at = DECIMAL_MAX;
    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    return DECIMAL_MAX - at;
}

void out_u64(out *o, uint64_t v)
{
    char text[DECIMAL_MAX];
    size_t len = decimal(text, v);
    char *p = out_room(o, DECIMAL_MAX);
    memcpy(p, text + DECIMAL_MAX - len, len);
    o->len += len;
}

void out_i64(out *o, int64_t v)
{
    if (v < 0)
        out_bytes(o, "-", 1);
    out_u64(o, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void out_u64_width(out *o, uint64_t v, int width)
{
    char text[DECIMAL_MAX];
    size_t len = decimal(text, v);
    for (size_t n = len; width > 0 && n < (size_t)width; n++)
        out_bytes(o, " ", 1);
    out_bytes(o, text + DECIMAL_MAX - len, len);
}

void out_u64_fixed(out *o, uint64_t v, int digits)
{
    assert(digits >= 1 && digits <= DECIMAL_MAX);
    char *p = out_room(o, DECIMAL_MAX);
    for (int i = digits; i-- > 0; v /= 10)
        p[i] = (char)('0' + v % 10);
    o->len += (size_t)digits;
}

static int hex_len(uint64_t v)
{
    int digits = 1;
    while (v >>= 4)
        digits++;
    return digits;
}

void out_hex(out *o, uint64_t v)
{
    out_hex_fixed(o, v, hex_len(v));
}

void out_hex_fixed(out *o, uint64_t v, int digits)
{
    assert(digits >= 1 && digits <= HEX_MAX);
    char *p = out_room(o, HEX_MAX);
    for (int i = digits; i-- > 0; v >>= 4)
        p[i] = hex_digits[v & 15];
    o->len += (size_t)digits;
}

void out_digits(out *o, spgo_span b)
{
    for (size_t i = 0; i < b.len; i++)
        out_bytes(o, out_hex_pairs + 2 * (size_t)b.ptr[i], 2);
}
