/* Tables as text or JSON: see spddump_table.h. */
#include "spddump_table.h"

#include <math.h>
#include <string.h>

#include <base/text.h>

enum { WORD_WIDTH = 9 };

static void put_spaces(out *o, size_t n)
{
    char *p = out_room(o, n);
    memset(p, ' ', n);
    o->len += n;
}

static const table_column *column(const table_out *w)
{
    return &w->t->columns[w->column];
}

static bool is_last(const table_out *w)
{
    return w->column + 1 == TABLE_COLUMNS_MAX || !w->t->columns[w->column + 1].name;
}

/* Text of a known width goes between its blanks: those before it if it is right-aligned. */
static void before(table_out *w, size_t len)
{
    int width = column(w)->width;
    put_spaces(w->o, 2);
    if (width > 0 && len < (size_t)width)
        put_spaces(w->o, (size_t)width - len);
}

static void after(table_out *w, size_t len)
{
    int width = column(w)->width;
    if (width < 0 && len < (size_t)-width && !is_last(w))
        put_spaces(w->o, (size_t)-width - len);
    w->column++;
}

static void put_word(table_out *w, const char *text, size_t len)
{
    before(w, len);
    out_bytes(w->o, text, len);
    after(w, len);
}

/* ------------------------------------------------------------------ rows */

void table_title(table_out *w, const table *t)
{
    if (w->is_json)
        return;
    size_t len = strlen(t->word);
    out_text(w->o, "# ");
    out_text(w->o, t->word);
    if (len + 2 < WORD_WIDTH)
        put_spaces(w->o, WORD_WIDTH - 2 - len);
    w->t = t;
    w->column = 0;
    while (w->column < TABLE_COLUMNS_MAX && t->columns[w->column].name) {
        const char *name = column(w)->name;
        put_word(w, name, strlen(name));
    }
    out_text(w->o, "\n");
}

void table_open(table_out *w, const table *t)
{
    w->t = t;
    w->column = 0;
    if (w->is_json) {
        json_open_object(&w->j);
        json_key(&w->j, "type");
        json_text(&w->j, t->word);
        return;
    }
    size_t len = strlen(t->word);
    out_bytes(w->o, t->word, len);
    if (len < WORD_WIDTH)
        put_spaces(w->o, WORD_WIDTH - len);
}

void table_close(table_out *w)
{
    if (w->is_json) {
        json_close_object(&w->j);
        json_end_line(&w->j);
        w->j = json_on(w->o, false); /* each line is a document of its own */
    } else {
        out_bytes(w->o, "\n", 1);
    }
}

/* ------------------------------------------------------------------ cells */

/* Begins a member; true in JSON. */
static bool in_json(table_out *w)
{
    if (w->is_json) {
        json_key(&w->j, column(w)->name);
        w->column++;
    }
    return w->is_json;
}

void cell_u64(table_out *w, uint64_t v)
{
    if (in_json(w)) {
        json_u64(&w->j, v);
        return;
    }
    char text[20];
    char *p = text + sizeof text;
    do
        *--p = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    put_word(w, p, (size_t)(text + sizeof text - p));
}

static size_t hex_text(char text[16], uint64_t v, int digits)
{
    for (int i = digits; i-- > 0; v >>= 4)
        text[i] = "0123456789abcdef"[v & 15];
    return (size_t)digits;
}

void cell_hex(table_out *w, uint64_t v, int digits)
{
    char text[16];
    if (in_json(w))
        json_u64(&w->j, v);
    else
        put_word(w, text, hex_text(text, v, digits));
}

void cell_id(table_out *w, uint64_t v, int digits)
{
    char text[16];
    size_t len = hex_text(text, v, digits);
    if (in_json(w))
        json_str(&w->j, (spgo_str){text, len});
    else
        put_word(w, text, len);
}

/* Per cent with two decimals. */
static size_t share_text(char text[16], double v)
{
    uint64_t hundredths = (uint64_t)(v * 10000 + 0.5);
    char *p = text + 16;
    *--p = '%';
    *--p = (char)('0' + hundredths % 10);
    *--p = (char)('0' + hundredths / 10 % 10);
    *--p = '.';
    hundredths /= 100;
    do
        *--p = (char)('0' + hundredths % 10);
    while ((hundredths /= 10) != 0 && p > text);
    size_t len = (size_t)(text + 16 - p);
    memmove(text, p, len);
    return len;
}

void cell_share(table_out *w, double v)
{
    enum { DECIMALS = 6 };
    char text[16];
    if (isnan(v))
        cell_none(w);
    else if (in_json(w))
        json_f64(&w->j, v, DECIMALS);
    else
        put_word(w, text, share_text(text, v));
}

void cell_text(table_out *w, const char *text)
{
    if (in_json(w))
        json_text(&w->j, text);
    else
        put_word(w, text, strlen(text));
}

/* A name that is one word of a line. */
static void put_name_word(out *o, spgo_str name)
{
    while (name.len) {
        const char *blank = memchr(name.ptr, ' ', name.len);
        size_t len = blank ? (size_t)(blank - name.ptr) : name.len;
        out_name(o, (spgo_str){name.ptr, len});
        if (!blank)
            return;
        out_text(o, "\\x20");
        name.ptr += len + 1;
        name.len -= len + 1;
    }
}

void cell_name(table_out *w, spgo_str name)
{
    if (in_json(w)) {
        json_str(&w->j, name);
        return;
    }
    before(w, name.len);
    if (!name.len)
        out_text(w->o, "-");
    else if (is_last(w))
        out_name(w->o, name);
    else
        put_name_word(w->o, name);
    after(w, name.len ? name.len : 1);
}

void cell_bytes(table_out *w, spgo_span b)
{
    if (in_json(w)) {
        json_bytes(&w->j, b);
        return;
    }
    before(w, 2 * b.len);
    out_digits(w->o, b);
    after(w, 2 * b.len);
}

void cell_none(table_out *w)
{
    if (in_json(w))
        json_null(&w->j);
    else
        put_word(w, "-", 1);
}

void cell_open_list(table_out *w)
{
    if (in_json(w))
        json_open_array(&w->j);
    else
        before(w, 0);
}

void cell_item(table_out *w, bool is_first)
{
    if (!w->is_json && !is_first)
        out_bytes(w->o, ",", 1);
}

void cell_close_list(table_out *w, bool is_empty)
{
    if (w->is_json) {
        json_close_array(&w->j);
        return;
    }
    if (is_empty)
        out_bytes(w->o, "-", 1);
    w->column++;
}
