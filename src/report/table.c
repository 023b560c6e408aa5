/* Printing tables: see table.h. */
#include <report/table.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <base/text.h>

enum { CELL_MAX = 64 };

/* A number as every form but JSON writes it; the length. */
static size_t format_number(char text[CELL_MAX], report_kind kind, const report_cell *c)
{
    int n = 0;
    if (c->is_empty)
        return 0;
    switch (kind) {
    case REPORT_COUNT:
        n = snprintf(text, CELL_MAX, "%" PRIu64, c->count);
        break;
    case REPORT_ADDRESS:
        n = snprintf(text, CELL_MAX, "0x%" PRIx64, c->count);
        break;
    case REPORT_MS:
        n = snprintf(text, CELL_MAX, "%.6f", c->number / 1e6);
        break;
    case REPORT_PERCENT:
        n = snprintf(text, CELL_MAX, "%.2f", c->number);
        break;
    case REPORT_NUMBER:
        n = snprintf(text, CELL_MAX, "%.0f", c->number);
        break;
    case REPORT_TEXT:
        break;
    }
    return n > 0 ? (size_t)n : 0;
}

/* ------------------------------------------------------------------ text */

static size_t cell_width(const report_table *t, size_t row, size_t column)
{
    char text[CELL_MAX];
    const report_cell c = t->cell(t->ctx, row, column);
    if (t->columns[column].kind != REPORT_TEXT)
        return format_number(text, t->columns[column].kind, &c);
    return c.is_empty ? 1 : c.text.len + c.indent;
}

static const char *head_of(const report_column *c)
{
    return c->head ? c->head : c->name;
}

static void pad(out *o, size_t n)
{
    while (n-- > 0)
        out_bytes(o, " ", 1);
}

static void put_aligned(out *o, spgo_str s, size_t width, bool is_text, bool is_last)
{
    const size_t missing = width > s.len ? width - s.len : 0;
    if (!is_text)
        pad(o, missing);
    out_name(o, s);
    if (is_text && !is_last)
        pad(o, missing);
}

static void put_text_row(out *o, const report_table *t, const size_t *widths, size_t row)
{
    size_t last = 0;
    for (size_t i = 0; i < t->column_count; i++)
        last = widths[i] ? i : last;
    for (size_t i = 0; i < t->column_count; i++) {
        char number[CELL_MAX];
        if (!widths[i])
            continue;
        const bool is_text = t->columns[i].kind == REPORT_TEXT;
        report_cell c = {.text = text_str(head_of(&t->columns[i]))};
        if (row != SIZE_MAX) {
            c = t->cell(t->ctx, row, i);
            if (!is_text)
                c.text = (spgo_str){number, format_number(number, t->columns[i].kind, &c)};
            if (c.is_empty)
                c.text = text_str("-");
        }
        pad(o, c.indent);
        put_aligned(o, c.text, widths[i] - c.indent, is_text, i == last);
        if (i != last)
            out_bytes(o, "  ", 2);
    }
    out_bytes(o, "\n", 1);
}

enum { COLUMNS_MAX = 64 };

static void print_text(out *o, const report_table *t, bool all_columns)
{
    size_t widths[COLUMNS_MAX] = {0};
    for (size_t i = 0; i < t->column_count && i < COLUMNS_MAX; i++) {
        if (!t->columns[i].head && !all_columns)
            continue;
        widths[i] = strlen(head_of(&t->columns[i]));
        for (size_t row = 0; row < t->row_count; row++) {
            const size_t width = cell_width(t, row, i);
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    put_text_row(o, t, widths, SIZE_MAX);
    for (size_t row = 0; row < t->row_count; row++)
        put_text_row(o, t, widths, row);
}

/* ------------------------------------------------------------------ CSV */

static void put_csv_text(out *o, spgo_str s)
{
    out_bytes(o, "\"", 1);
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '"')
            out_bytes(o, "\"", 1);
        out_bytes(o, &s.ptr[i], 1);
    }
    out_bytes(o, "\"", 1);
}

static void print_csv(out *o, const report_table *t)
{
    for (size_t i = 0; i < t->column_count; i++) {
        if (i > 0)
            out_bytes(o, ",", 1);
        put_csv_text(o, text_str(t->columns[i].name));
    }
    out_bytes(o, "\r\n", 2);
    for (size_t row = 0; row < t->row_count; row++) {
        for (size_t i = 0; i < t->column_count; i++) {
            char number[CELL_MAX];
            const report_cell c = t->cell(t->ctx, row, i);
            if (i > 0)
                out_bytes(o, ",", 1);
            if (t->columns[i].kind != REPORT_TEXT)
                out_bytes(o, number, format_number(number, t->columns[i].kind, &c));
            else if (!c.is_empty)
                put_csv_text(o, c.text);
        }
        out_bytes(o, "\r\n", 2);
    }
}

/* ------------------------------------------------------------------ XML */

/* Characters that XML has no way to write become U+FFFD. */
static void put_xml_text(out *o, spgo_str s)
{
    for (size_t i = 0; i < s.len;) {
        uint32_t code = 0;
        const size_t n = text_utf8_next(s.ptr + i, s.len - i, &code);
        if (n == 0 || (code < 0x20 && code != '\t' && code != '\n' && code != '\r') ||
            code == 0xFFFE || code == 0xFFFF)
            out_text(o, "\xEF\xBF\xBD");
        else if (code == '&')
            out_text(o, "&amp;");
        else if (code == '<')
            out_text(o, "&lt;");
        else if (code == '"')
            out_text(o, "&quot;");
        else
            out_bytes(o, s.ptr + i, n);
        i += n ? n : 1;
    }
}

/* "Elapsed Inclusive Time %" as the name of an attribute: ElapsedInclusiveTimePercent. */
static void put_xml_name(out *o, const char *name)
{
    for (; *name; name++) {
        if (*name == '%')
            out_text(o, "Percent");
        else if ((*name >= 'A' && *name <= 'Z') || (*name >= 'a' && *name <= 'z'))
            out_bytes(o, name, 1);
    }
}

static void print_xml(out *o, const report_table *t)
{
    out_printf(o, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s>\n", t->name);
    for (size_t row = 0; row < t->row_count; row++) {
        out_printf(o, "  <%s", t->row);
        for (size_t i = 0; i < t->column_count; i++) {
            char number[CELL_MAX];
            const report_cell c = t->cell(t->ctx, row, i);
            if (c.is_empty)
                continue;
            out_bytes(o, " ", 1);
            put_xml_name(o, t->columns[i].name);
            out_bytes(o, "=\"", 2);
            if (t->columns[i].kind == REPORT_TEXT)
                put_xml_text(o, c.text);
            else
                out_bytes(o, number, format_number(number, t->columns[i].kind, &c));
            out_bytes(o, "\"", 1);
        }
        out_text(o, "/>\n");
    }
    out_printf(o, "</%s>\n", t->name);
}

/* ------------------------------------------------------------------ JSON */

static void print_json(out *o, const report_table *t)
{
    json j = json_on(o, false);
    for (size_t row = 0; row < t->row_count; row++) {
        json_open_object(&j);
        for (size_t i = 0; i < t->column_count; i++) {
            const report_cell c = t->cell(t->ctx, row, i);
            if (c.is_empty)
                continue;
            json_key(&j, t->columns[i].key);
            switch (t->columns[i].kind) {
            case REPORT_TEXT:
                json_str(&j, c.text);
                break;
            case REPORT_COUNT:
                json_u64(&j, c.count);
                break;
            case REPORT_ADDRESS:
                json_hex(&j, c.count);
                break;
            case REPORT_MS:
                json_f64(&j, c.number / 1e6, 6);
                break;
            case REPORT_PERCENT:
                json_f64(&j, c.number, 4);
                break;
            case REPORT_NUMBER:
                json_f64(&j, c.number, 0);
                break;
            }
        }
        json_close_object(&j);
        json_end_line(&j);
    }
}

void report_print(out *o, const report_table *t, report_format format, bool all_columns)
{
    switch (format) {
    case REPORT_AS_TEXT:
        print_text(o, t, all_columns);
        break;
    case REPORT_AS_CSV:
        print_csv(o, t);
        break;
    case REPORT_AS_XML:
        print_xml(o, t);
        break;
    case REPORT_AS_JSON:
        print_json(o, t);
        break;
    }
}
