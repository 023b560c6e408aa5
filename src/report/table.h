/*
 * A table and the forms it can be printed in. A view describes its columns once and answers for
 * single cells; text for people, CSV, XML and JSON lines come from here.
 *
 * Column names are those of the Visual Studio profiling tools where these have the column.
 */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <base/json.h>
#include <base/out.h>

typedef enum report_kind {
    REPORT_TEXT,
    REPORT_COUNT,
    REPORT_MS, /* a cell's number is in nanoseconds; shown in milliseconds */
    REPORT_PERCENT,
    REPORT_NUMBER, /* whole, may be below zero */
    REPORT_ADDRESS
} report_kind;

typedef struct report_cell {
    bool is_empty; /* not known, or of no meaning here */
    spgo_str text;
    uint64_t count;  /* REPORT_COUNT, REPORT_ADDRESS */
    double number;   /* REPORT_MS, REPORT_PERCENT */
    unsigned indent; /* REPORT_TEXT in text: spaces before it */
} report_cell;

typedef struct report_column {
    const char *name; /* in CSV and XML, as the original has it */
    const char *head; /* in text; NULL: left out there unless all columns are wanted */
    const char *key;  /* in JSON */
    report_kind kind;
} report_column;

typedef struct report_table {
    const char *name; /* "Functions": in XML */
    const char *row;  /* "Function" */
    const report_column *columns;
    size_t column_count;
    size_t row_count;
    const void *ctx;
    report_cell (*cell)(const void *ctx, size_t row, size_t column);
} report_table;

typedef enum report_format {
    REPORT_AS_TEXT,
    REPORT_AS_CSV,
    REPORT_AS_XML,
    REPORT_AS_JSON
} report_format;

/* Text has the columns with a head, aligned, or all with `all_columns`; the last one is not padded.
 */
void report_print(out *o, const report_table *t, report_format format, bool all_columns);

#endif
