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

static inline const table_column *column(const table_out *w)
{
    return &w->t->columns[w->column];
}

static inline bool is_last(const table_out *w)
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

/* Room for a text of this length among the blanks of its column, whose writing it ends. Cells are
 * what a dump is made of: more blanks are written than are needed, as that is quicker. */
static inline char *place(table_out *w, size_t len)
{
    static const char blanks[] = "                                                ";
    enum { GAP = 2, BLANKS = sizeof blanks - 1 };
    int width = column(w)->width;
    size_t columns = (size_t)(width < 0 ? -width : width);
    size_t pad = len < columns ? columns - len : 0;
    char *p = out_room(w->o, BLANKS + len);
    memcpy(p, blanks, BLANKS);
    p += GAP;
    if (width >= 0)
        p += pad;
    else if (is_last(w))
        pad = 0;
    w->o->len += GAP + pad + len;
    w->column++;
    return p;
}

static void put_word(table_out *w, const char *text, size_t len)
{
    memcpy(place(w, len), text, len);
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

static unsigned count_digits(uint64_t v)
{
    unsigned n = 1;
    for (; v >= 1000; v /= 1000)
        n += 3;
    return n + (v >= 10) + (v >= 100);
}

static void put_digits(char *p, unsigned n, uint64_t v)
{
    for (; v > UINT32_MAX; v /= 10)
        p[--n] = (char)('0' + v % 10);
    for (uint32_t low = (uint32_t)v; n > 0; low /= 10)
        p[--n] = (char)('0' + low % 10);
}

void cell_u64(table_out *w, uint64_t v)
{
    if (in_json(w)) {
        json_u64(&w->j, v);
        return;
    }
    unsigned n = count_digits(v);
    put_digits(place(w, n), n, v);
}

static void put_hex(char *p, uint64_t v, int digits)
{
    for (int i = digits; i-- > 0; v >>= 4)
        p[i] = "0123456789abcdef"[v & 15];
}

void cell_hex(table_out *w, uint64_t v, int digits)
{
    if (in_json(w))
        json_u64(&w->j, v);
    else
        put_hex(place(w, (size_t)digits), v, digits);
}

void cell_id(table_out *w, uint64_t v, int digits)
{
    char text[16];
    if (in_json(w)) {
        put_hex(text, v, digits);
        json_str(&w->j, (spgo_str){text, (size_t)digits});
    } else {
        put_hex(place(w, (size_t)digits), v, digits);
    }
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
