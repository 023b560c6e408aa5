/*
 * The JSON writer. It keeps one bit per depth ("something stands here already") and from it places
 * commas, line breaks and indents; everything else is escaping.
 */
#include <base/json.h>

#include <base/text.h>

#include <assert.h>
#include <float.h>
#include <stdio.h>
#include <string.h>

static void new_line(json *j)
{
    out_bytes(j->o, "\n", 1);
    for (int i = 0; i < j->depth; i++)
        out_bytes(j->o, "  ", 2);
}

/* Comma and line break before a key or an element. */
static void start_item(json *j)
{
    if (j->has_item[j->depth])
        out_bytes(j->o, ",", 1);
    j->has_item[j->depth] = true;
    if (j->pretty && j->depth > 0)
        new_line(j);
}

static void start_value(json *j)
{
    if (j->after_key)
        j->after_key = false;
    else
        start_item(j);
}

static void open_level(json *j, const char *bracket)
{
    start_value(j);
    out_bytes(j->o, bracket, 1);
    j->depth++;
    assert(j->depth < JSON_DEPTH_MAX);
    j->has_item[j->depth] = false;
}

static void close_level(json *j, const char *bracket)
{
    assert(j->depth > 0 && !j->after_key);
    bool had_items = j->has_item[j->depth];
    j->depth--;
    if (j->pretty && had_items)
        new_line(j);
    out_bytes(j->o, bracket, 1);
}

void json_open_object(json *j)
{
    open_level(j, "{");
}

void json_close_object(json *j)
{
    close_level(j, "}");
}

void json_open_array(json *j)
{
    open_level(j, "[");
}

void json_close_array(json *j)
{
    close_level(j, "]");
}

/* The two-character escape of a character that has one, or 0. */
static char short_escape(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

/* The character at `at`, which does not stand for itself; returns its length. */
static size_t put_special(out *o, spgo_str s, size_t at)
{
    unsigned char c = (unsigned char)s.ptr[at];
    uint32_t code_point = c;
    size_t len = c < 0x80 ? 1 : text_utf8_next(s.ptr + at, s.len - at, &code_point);
    char escape = short_escape(c);
    if (escape)
        out_bytes(o, (const char[2]){'\\', escape}, 2);
    else if (len > 0)
        out_printf(o, "\\u%04x", (unsigned)code_point);
    else
        out_text(o, "\xEF\xBF\xBD"); /* U+FFFD for an ill-formed byte */
    return len > 0 ? len : 1;
}

/* The length of the character at `at` if it stands for itself, else 0: control characters do not,
 * for they could command a terminal. ASCII, which nearly all text is, needs no decoding. */
static size_t plain_len(spgo_str s, size_t at)
{
    unsigned char c = (unsigned char)s.ptr[at];
    if (c >= 0x80) {
        uint32_t code_point;
        size_t len = text_utf8_next(s.ptr + at, s.len - at, &code_point);
        return len > 0 && code_point < 0xA0 ? 0 : len;
    }
    return c >= 0x20 && c != 0x7F && c != '"' && c != '\\';
}

/* The inside of a string. */
static void put_escaped(out *o, spgo_str s)
{
    size_t plain = 0; /* start of the run that goes out as it is */
    size_t at = 0;

    if (s.len == 0)
        return;
    while (at < s.len) {
        size_t len = plain_len(s, at);
        if (len > 0) {
            at += len;
            continue;
        }
        out_bytes(o, s.ptr + plain, at - plain);
        at += put_special(o, s, at);
        plain = at;
    }
    out_bytes(o, s.ptr + plain, at - plain);
}

static void put_string(out *o, spgo_str s)
{
    out_bytes(o, "\"", 1);
    put_escaped(o, s);
    out_bytes(o, "\"", 1);
}

void json_key(json *j, const char *key)
{
    assert(j->depth > 0 && !j->after_key);
    start_item(j);
    put_string(j->o, text_str(key));
    out_bytes(j->o, ": ", j->pretty ? 2 : 1);
    j->after_key = true;
}

void json_str(json *j, spgo_str s)
{
    start_value(j);
    put_string(j->o, s);
}

void json_text(json *j, const char *s)
{
    json_str(j, text_str(s));
}

void json_u64(json *j, uint64_t v)
{
    start_value(j);
    out_u64(j->o, v);
}

void json_i64(json *j, int64_t v)
{
    start_value(j);
    out_i64(j->o, v);
}

void json_f64(json *j, double v, int decimals)
{
    char text[512]; /* the longest double has 309 digits before the point */

    if (!(v >= -DBL_MAX && v <= DBL_MAX)) {
        json_null(j);
        return;
    }
    start_value(j);
    assert(decimals >= 0 && decimals <= 100);
    (void)snprintf(text, sizeof text, "%.*f", decimals, v);
    char *comma = strchr(text, ','); /* of a locale that writes numbers so */
    if (comma)
        *comma = '.';
    out_text(j->o, text);
}

void json_bool(json *j, bool v)
{
    start_value(j);
    out_text(j->o, v ? "true" : "false");
}

void json_null(json *j)
{
    start_value(j);
    out_text(j->o, "null");
}

void json_hex(json *j, uint64_t v)
{
    start_value(j);
    out_bytes(j->o, "\"0x", 3);
    out_hex(j->o, v);
    out_bytes(j->o, "\"", 1);
}

void json_bytes(json *j, spgo_span b)
{
    start_value(j);
    out_bytes(j->o, "\"", 1);
    out_digits(j->o, b);
    out_bytes(j->o, "\"", 1);
}

void json_end_line(json *j)
{
    assert(j->depth == 0 && !j->after_key);
    out_bytes(j->o, "\n", 1);
    j->has_item[0] = false;
}
