/*
 * The lines of spddump: tables whose columns are written down once and shown as text or as JSON.
 *
 * Text: a line starts with the table's word, columns are separated by blanks; a line that starts
 * with '#' has their names. JSON: one object a line, with "type" and a member for each column.
 * A row is opened, gets one cell for each column in order, and is closed.
 */
#ifndef SPDDUMP_TABLE_H
#define SPDDUMP_TABLE_H

#include <base/json.h>

typedef struct table_column {
    const char *name; /* of the title and of the member */
    int width;        /* of the text; negative: left-aligned; 0: as long as it is */
} table_column;

enum { TABLE_COLUMNS_MAX = 14 };

typedef struct table {
    const char *word;
    table_column columns[TABLE_COLUMNS_MAX]; /* up to the first without a name */
} table;

/* Where rows go; one row is open at a time. */
typedef struct table_out {
    out *o;
    json j;
    bool is_json;
    const table *t; /* of the open row */
    unsigned column;
} table_out;

void table_title(table_out *w, const table *t); /* nothing in JSON */
void table_open(table_out *w, const table *t);
void table_close(table_out *w);

void cell_u64(table_out *w, uint64_t v);
void cell_hex(table_out *w, uint64_t v, int digits); /* JSON: a number */
void cell_id(table_out *w, uint64_t v,
             int digits);                /* hexadecimal; JSON: text of that many digits */
void cell_share(table_out *w, double v); /* 0 to 1, as per cent; JSON: v; NAN: none */
void cell_text(table_out *w, const char *text);
/* Text of a file: what could steer a terminal as \xNN. In all columns but the last, blanks too. */
void cell_name(table_out *w, spgo_str name);
void cell_bytes(table_out *w, spgo_span b); /* hexadecimal digits */
void cell_none(table_out *w);               /* "-"; JSON: null */

/* A list, in a column without a width: opened, then its items through w->o or w->j, which the
 * caller announces, then closed. An empty list is "-" in text. */
void cell_open_list(table_out *w);
void cell_item(table_out *w, bool is_first);
void cell_close_list(table_out *w, bool is_empty);

#endif
