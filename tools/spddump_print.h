/*
 * What spddump shows. The views walk over a document and print the rows of tables; text and JSON
 * are made of the same rows.
 */
#ifndef SPDDUMP_PRINT_H
#define SPDDUMP_PRINT_H

#include <format/spd/spd.h>

#include "cli.h"
#include "spddump_table.h"

/* One dump in progress. */
typedef struct spddump {
    const cli_args *args;
    const char *file;
    const spd *doc;
    table_out w;
    bool any_view;
    bool with_ranges; /* no /minidump */
    bool with_calls, with_graph;
    bool one_function; /* only the one of this id: /funcid */
    uint32_t function_id;
} spddump;

/* A blank line between the views of a text. */
void spddump_begin_view(spddump *d);

void spddump_header(spddump *d);
void spddump_modules(spddump *d);
void spddump_symbols(spddump *d);
void spddump_functions(spddump *d); /* with calls and graphs as asked for */
void spddump_data(spddump *d);
void spddump_coverage(spddump *d);
spgo_code spddump_dyninst(spddump *d, uint64_t limit, spgo_error *err); /* limit 0: all */

/* Calls and graph of one function, and the titles of their rows. */
void spddump_call_titles(spddump *d);
void spddump_calls(spddump *d, const spd_function *f);
void spddump_graph_titles(spddump *d);
void spddump_graph(spddump *d, const spd_function *f);

/* The functions of that name, with * and ?, as a Graphviz document. The number of functions. */
size_t spddump_graphviz(spddump *d, spgo_str pattern);

/* What changed from `old` to d->doc. */
void spddump_diff(spddump *d, const spd *old);

void spddump_finding(spddump *d, const spd_finding *finding);
void spddump_verdict(spddump *d, const spd_verdict *verdict);

/* ------------------------------------------------------------------ cells that several views have
 */

/* "speed", "size", or "-" in a file without counts. */
const char *spddump_decision(const spd *doc, uint64_t dynamic_instructions);
/* The id of a function, and its name; none for NULL. */
void spddump_cell_function(spddump *d, const spd_function *f);
void spddump_cell_function_name(spddump *d, const spd_function *f);
/* The names of the flags that are set, with commas between them. */
void spddump_cell_flags(spddump *d, spd_flag_kind kind, uint32_t flags);
void spddump_cell_ranges(spddump *d, const spd_range *ranges, uint32_t count);

/* ------------------------------------------------------------------ where the document is */

/*
 * An SPD file; or, in an object file or a PDB, the SPD that was embedded in it. *at is where it
 * begins in the input, SPGO_NO_OFFSET if its bytes are scattered. The bytes belong to mem or to the
 * input.
 */
spgo_code spddump_locate(spgo_span input, arena *mem, spgo_span *spd_bytes, uint64_t *at,
                         spgo_error *err);

#endif
