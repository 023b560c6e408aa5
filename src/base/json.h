/*
 * A streaming JSON writer: keys and commas are placed by it, nesting is checked by assertion.
 * Numbers above 2^53 are written as decimal integers all the same; consumers that need them exact
 * read them with 64-bit integers. Text that is not UTF-8 has its bad bytes replaced by U+FFFD.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <base/out.h>

enum { JSON_DEPTH_MAX = 32 };

typedef struct json {
    out *o;
    int depth;
    bool pretty;                   /* one member a line, two spaces of indent */
    bool has_item[JSON_DEPTH_MAX]; /* at this depth something was written already */
    bool after_key;
} json;

static inline json json_on(out *o, bool pretty)
{
    return (json){.o = o, .pretty = pretty};
}

void json_open_object(json *j);
void json_close_object(json *j);
void json_open_array(json *j);
void json_close_array(json *j);
void json_key(json *j, const char *key);
void json_str(json *j, spgo_str s);
void json_text(json *j, const char *s);
void json_u64(json *j, uint64_t v);
void json_i64(json *j, int64_t v);
void json_f64(json *j, double v, int decimals); /* not finite: null */
void json_bool(json *j, bool v);
void json_null(json *j);
void json_hex(json *j, uint64_t v);    /* a string "0x1a2b" */
void json_bytes(json *j, spgo_span b); /* a string of hexadecimal digits */
void json_end_line(json *j);           /* ends a document: newline */

#endif
