/*
 * What the parts of the PDB back end share. pdb.c opens and answers; pdb_runs.c flattens a module;
 * pdb_functions.c knows names and first lines; pdb_procedures.c lists what stands in the image.
 *
 * A unit is a module. A module is read, used and let go: what is kept of it are runs, functions,
 * and an index of its procedures. Texts are interned, since a module's stream may have been a copy.
 */
#ifndef SYMBOL_PDB_BACKEND_H
#define SYMBOL_PDB_BACKEND_H

#include <symbol/source_lines.h>
#include <symbol/symbol_internal.h>

/* A procedure, for those that look for it from another module. */
typedef struct pdb_proc_place {
    uint32_t symbol_off; /* of its record: rising */
    uint32_t off, type;
    uint16_t section;
    bool is_local;
} pdb_proc_place;

/* What is kept of a module. */
typedef struct pdb_kept_module {
    const pdb_proc_place *places; /* by the index of the procedure; NULL: not read yet */
    symbol_function **functions;  /* likewise; NULL where none was asked for */
    size_t proc_count;
    bool was_read;                   /* and its findings were told */
    bool has_functions, has_sources; /* see pdb_settle_functions */
} pdb_kept_module;

/* A text's hash and what it belongs to, sorted by both. */
typedef struct pdb_hashed {
    uint64_t hash;
    uint32_t index;
} pdb_hashed;

typedef struct pdb_hashes {
    pdb_hashed *rows; /* NULL: not made yet */
    size_t count;
} pdb_hashes;

/* The functions that were made for inlinees: open addressing by what tells them apart. */
typedef struct pdb_inlinee_slot {
    uint32_t id, line;
    const char *file;
    symbol_function *function; /* NULL: free */
} pdb_inlinee_slot;

typedef struct pdb_inlinee_map {
    pdb_inlinee_slot *slots;
    size_t slot_count, used;
} pdb_inlinee_map;

/* Work and memory that a hostile file could ask for with few bytes: what is left of several times
 * of what an honest one of its size takes. */
typedef struct pdb_budget {
    uint64_t compared_bytes; /* of names of publics */
    uint64_t visits, frames; /* of cells, and for them: see pdb_runs.c */
} pdb_budget;

typedef struct pdb_backend {
    const symbol_image *image;
    pdb *file;
    pdb_ids *ids;
    pdb_publics *publics;       /* NULL: not read yet */
    const pdb_public **entries; /* those that are functions, by address */
    size_t entry_count;
    source_lines *sources;
    pdb_kept_module *modules;
    pdb_inlinee_map inlinees;
    pdb_hashes decorated_names;   /* of publics, by the start of their SHA-256 */
    pdb_hashes proc_names;        /* of procedure references */
    flow_table *tables;           /* of all modules, by branch; made with the procedures */
    uint32_t *labels, *no_return; /* likewise, sorted */
    size_t table_count, label_count, no_return_count;
    size_t table_capacity, label_capacity, no_return_capacity;
    pdb_budget left;
} pdb_backend;

/* Room for one more element in a malloc'd array: the array, which may have moved, or NULL without
 * memory, and then it is as it was. */
void *pdb_grown(void *array, size_t *capacity, size_t used, size_t elem_size);

/* ------------------------------------------------------------------ pdb_layout.c */

/* Addresses of the linked image as one number. */
static inline uint64_t pdb_key(uint16_t section, uint32_t off)
{
    return (uint64_t)section << 32 | off;
}

/* Code of one procedure in one place. */
typedef struct pdb_piece {
    uint64_t begin, end;
    uint32_t proc; /* of those that share an address, the one whose name sorts first */
    bool is_chunk;
} pdb_piece;

/* Code of one line. */
typedef struct pdb_span {
    uint64_t begin, end;
    uint32_t file, line; /* as in the line table: see pdb_line_kind_of */
    bool is_lead; /* before the first row of its table, which stands for it: in procedures code
                     whose rows are all inlined, in assembler padding */
} pdb_span;

/* Where the procedures and lines of a module are. */
typedef struct pdb_layout {
    pdb_piece *pieces; /* by begin, without overlap */
    pdb_span *spans;   /* likewise */
    size_t piece_count, span_count, span_capacity;
    uint32_t *set_of_proc; /* the line set that starts with a procedure, or PDB_NONE */
    spgo_str *files;       /* interned names, by the index of the file */
} pdb_layout;

spgo_code pdb_layout_make(pdb_backend *b, const pdb_module *m, pdb_layout *out, spgo_error *err);
void pdb_layout_free(pdb_layout *l);

/* ------------------------------------------------------------------ pdb.c */

spgo_code pdb_need_publics(pdb_backend *b, diag *d, spgo_error *err);

/* Reads a module and lays it out; *m NULL: it cannot be read, which is a finding. Else the caller
 * frees both. */
spgo_code pdb_with_module(pdb_backend *b, uint32_t unit, pdb_module **m, pdb_layout *l, diag *d,
                          spgo_error *err);

/* ------------------------------------------------------------------ pdb_functions.c */

/* The index of the first public at or behind an address. */
size_t pdb_public_from(const pdb_publics *publics, uint16_t section, uint32_t off);
/* How many of the entries start at or before an address. */
size_t pdb_entries_to(const pdb_backend *b, uint64_t key);

/* What a public may be the decorated name of. */
typedef struct pdb_named_place {
    spgo_str name;
    uint32_t off;
    uint16_t section;
    bool is_local;
} pdb_named_place;

/* Which of the publics at the place is the function's own; NULL: none. */
const pdb_public *pdb_public_of(pdb_backend *b, const pdb_named_place *place);
pdb_named_place pdb_place_of(const pdb_proc *proc);

/* Keeps the index of a module's procedures. */
spgo_code pdb_keep_module(pdb_backend *b, const pdb_module *m, spgo_error *err);

/* A procedure's function, NULL without memory. The module must have been kept. */
symbol_function *pdb_function_of_proc(pdb_backend *b, const pdb_module *m, uint32_t proc);
/* Of code without a procedure; p NULL: without a name. */
symbol_function *pdb_function_of_public(pdb_backend *b, const pdb_public *p);

/* Of an inlinee: one for each id, file and line. A site whose id leads nowhere gets a function
 * without a name. */
spgo_code pdb_function_of_site(pdb_backend *b, const pdb_module *m, const pdb_layout *l,
                               uint32_t site, diag *d, const symbol_function **out,
                               spgo_error *err);

/*
 * Makes the functions of all procedures of a module with their first lines: what the module's
 * inlinees declare, else what the source says, else the first row of the code. Sources are only
 * looked into when code of the module is asked for, not for the list of all procedures.
 */
spgo_code pdb_settle_functions(pdb_backend *b, const pdb_module *m, const pdb_layout *l,
                               bool with_sources, spgo_error *err);

/* ------------------------------------------------------------------ pdb_runs.c */

spgo_code pdb_flatten(pdb_backend *b, const pdb_module *m, const pdb_layout *l, symbol_unit *out,
                      arena *mem, diag *d, spgo_error *err);

/* ------------------------------------------------------------------ pdb_procedures.c */

spgo_code pdb_list_procedures(void *self, symbol_found *out, arena *mem, diag *d, spgo_error *err);
void pdb_give_hints(void *self, const symbol_procedure *p, flow_hints *out, arena *mem);

#endif
