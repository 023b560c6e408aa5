/* All procedures of an image, put together from what a back end and the tables of the image say. */
#ifndef SYMBOL_PROCEDURES_H
#define SYMBOL_PROCEDURES_H

#include <symbol/symbol_internal.h>

/* A piece of the index: no two overlap. */
typedef struct procedure_piece {
    uint32_t begin_rva, end_rva;
    uint32_t procedure;
} procedure_piece;

typedef struct procedure_names {
    const spgo_str *names; /* further ones, sorted */
    size_t count;
} procedure_names;

typedef struct procedure_table {
    symbol_procedure *rows;  /* by entry */
    procedure_names *others; /* in step with rows */
    size_t count;
    procedure_piece *pieces; /* by begin */
    size_t piece_count;
    uint32_t *no_return; /* entries, sorted */
    size_t no_return_count;
} procedure_table;

/*
 * Where two sources say different things of the same bytes, the first of these counts: exact
 * extents of the back end, exact ones of the tables, guessed ones of the back end, guessed ones of
 * the tables. What is in none of the executable segments is left out. Allocates from image->mem.
 */
spgo_code procedure_table_build(const symbol_image *image, const symbol_found *backend,
                                const symbol_found *tables, procedure_table *out, spgo_error *err);

/* The index of the piece that holds an RVA; SIZE_MAX: none. */
size_t procedure_piece_at(const procedure_table *t, uint32_t rva);

/* Is it a function of the languages' libraries that never returns? */
bool procedure_name_never_returns(spgo_str name);

#endif
