/*
 * Buffered text output into a sink, made for printing hundreds of megabytes per second. Failure
 * sticks and is read at the end (out_flush).
 */
#ifndef BASE_OUT_H
#define BASE_OUT_H

#include <base/fail.h>

enum { OUT_BUFFER_SIZE = 128 * 1024 };

typedef struct out {
    spgo_sink sink;
    char *buf;
    size_t len;
    bool failed;
} out;

spgo_code out_init(out *o, spgo_sink sink, spgo_error *err);
bool out_flush(out *o); /* false if any byte was refused since out_init */
void out_free(out *o);  /* does not flush */

/* At least n free bytes at o->buf + o->len (n <= OUT_BUFFER_SIZE), flushing if needed. Hot loops
 * write there themselves and advance o->len. */
static inline char *out_room(out *o, size_t n)
{
    if (__builtin_expect(OUT_BUFFER_SIZE - o->len < n, 0))
        (void)out_flush(o);
    return o->buf + o->len;
}

void out_bytes(out *o, const char *text, size_t len);
void out_text(out *o, const char *text);
void out_str(out *o, spgo_str s);
/* As out_str, with control characters and ill-formed UTF-8 as \xNN, so that a name from a file
 * cannot steer a terminal. A backslash stays itself. */
void out_name(out *o, spgo_str s);
/* As out_name between double quotes, with \" and \\ for the two characters, so that the text can be
 * told from what follows and read back. */
void out_quoted(out *o, spgo_str s);
SPGO_PRINTF(2, 3) void out_printf(out *o, const char *fmt, ...);
void out_u64(out *o, uint64_t v); /* decimal */
void out_i64(out *o, int64_t v);
void out_u64_width(out *o, uint64_t v, int width);  /* decimal, right-aligned with spaces */
void out_u64_fixed(out *o, uint64_t v, int digits); /* decimal, zero-padded, 1 to 20 digits */
void out_hex(out *o, uint64_t v);                   /* lower case, no prefix, no padding */
void out_hex_fixed(out *o, uint64_t v, int digits); /* lower case, zero-padded, 1 to 16 digits */
void out_digits(out *o, spgo_span b);               /* two lower-case hexadecimal digits a byte */

/* For hot loops: eight lower-case hex digits at p. */
extern const char out_hex_pairs[512];
static inline char *put_hex8(char *p, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        const char *pair = out_hex_pairs + 2 * ((v >> shift) & 0xff);
        *p++ = pair[0];
        *p++ = pair[1];
    }
    return p;
}

#endif
