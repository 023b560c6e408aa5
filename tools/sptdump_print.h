/*
 * What sptdump shows, apart from how: the views walk over the file and call a printer, of which
 * there are two, text and JSON.
 */
#ifndef SPTDUMP_PRINT_H
#define SPTDUMP_PRINT_H

#include <base/json.h>
#include <spgo/spt.h>

#include "cli.h"
#include "spt_summary.h"

typedef enum sptdump_view {
    VIEW_HEADER,
    VIEW_PROGRAMS,
    VIEW_STRINGS,
    VIEW_EVENTS,
    VIEW_COUNTS,
    VIEW_RANGES,
    VIEW_TOP,
    VIEW_VERIFY,
    VIEW_COUNT
} sptdump_view;

/* One dump in progress. */
typedef struct sptdump {
    const cli_args *args;
    const char *file;
    os_input *in;
    const spgo_spt *spt;
    bool *wanted; /* per program; NULL: all */
    out *o;
    json j;         /* on o, for the JSON printer */
    int name_width; /* of the column of program names */
    int offset_digits;
    bool any_view; /* a view was printed already */
    char *label;   /* text printer: program column of the events of label_program */
    size_t label_len;
    uint32_t label_program;
} sptdump;

/* A field of the header as all printers show it. */
typedef struct sptdump_field {
    const char *name; /* as documented */
    const char *key;  /* in JSON */
    uint64_t value;
    bool hex;
    bool typical;
    char meaning[96];
} sptdump_field;

enum { SPTDUMP_FIELDS = 12 };
void sptdump_header_fields(const sptdump *d, sptdump_field fields[SPTDUMP_FIELDS]);

/* In which order an LBR record's ranges make sense. */
typedef enum sptdump_order {
    ORDER_NEWEST_FIRST,
    ORDER_OLDEST_FIRST,
    ORDER_EITHER,
    ORDER_UNCLEAR
} sptdump_order;

/* One row of the summary: a program's records with one opcode. */
typedef struct sptdump_row {
    uint16_t program;
    uint8_t opcode;
    const spt_cell *cell;
    spt_distinct distinct;
    double newest_first_share; /* of the ranges that make sense; 0 to 1 */
    double oldest_first_share;
    sptdump_order order;
} sptdump_row;

typedef struct sptdump_total {
    uint64_t program_count; /* with records */
    uint64_t record_count;
    uint64_t entry_count;
    uint64_t hits;
} sptdump_total;

/* One of the hottest entries of a row. */
typedef struct sptdump_top {
    const sptdump_row *row;
    size_t rank; /* from 1 */
    uint64_t key;
    uint64_t hits;
    double share; /* of the row's hits */
} sptdump_top;

typedef struct sptdump_printer {
    void (*begin_view)(sptdump *d, sptdump_view view);
    void (*header)(sptdump *d, const sptdump_field *fields, size_t count);
    void (*program)(sptdump *d, size_t index, const spgo_spt_program *program);
    void (*string)(sptdump *d, size_t index, spgo_str text);
    void (*event)(sptdump *d, const spgo_spt_record *record);
    void (*damage)(sptdump *d, const spgo_error *error);
    void (*count)(sptdump *d, const sptdump_row *row);
    void (*total)(sptdump *d, const sptdump_total *total);
    void (*range)(sptdump *d, const sptdump_row *row);
    void (*top)(sptdump *d, const sptdump_top *top);
    void (*finding)(sptdump *d, const spgo_spt_finding *finding);
    void (*verdict)(sptdump *d, const spgo_spt_verdict *verdict);
} sptdump_printer;

extern const sptdump_printer sptdump_text;
extern const sptdump_printer sptdump_json;

const char *sptdump_opcode_name(uint8_t opcode); /* never NULL */
const char *sptdump_order_name(sptdump_order order);
const char *sptdump_severity_name(spgo_spt_severity severity);
spgo_str sptdump_program_name(const sptdump *d, uint16_t program); /* "-" if it has none */

/* Columns that the name takes as one word of a line; SPTDUMP_NAME_WIDTH for all longer ones. */
enum { SPTDUMP_NAME_WIDTH = 32 };
int sptdump_word_width(spgo_str name);

#endif
