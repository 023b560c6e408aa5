/*
 * Between symbols.c, which opens images and answers, and the back ends, which know what stands in
 * debug information: dwarf.c (DWARF of ELF and PE), pdb.c (PDB), and, for what there is without
 * either, elf_procedures.c and pe_procedures.c (symbol tables, exports, unwind tables).
 */
#ifndef SYMBOL_INTERNAL_H
#define SYMBOL_INTERNAL_H

#include <base/intern.h>
#include <format/elf/elf.h>
#include <format/pdb/pdb.h>
#include <format/pe/pe.h>
#include <symbol/symbol.h>

/* An opened image: filled by symbols.c before a back end is made. */
typedef struct symbol_image {
    spgo_span bytes; /* of the image file */
    spgo_span debug; /* of the PDB or the separate debug file; empty: none */
    bool is_pe;
    elf_image elf;       /* of the image; not for PE */
    elf_image debug_elf; /* of the debug file, if there is one and it is ELF */
    pe_image pe;         /* for PE */
    code_image code;
    arena *mem;    /* lives as long as the symbols */
    intern *names; /* likewise: for names that are made or kept */
} symbol_image;

/* What a back end knows of one unit: runs by begin_rva, without overlap. */
typedef struct symbol_unit {
    symbol_run *runs;
    size_t run_count;
} symbol_unit;

/* Procedures as a back end finds them, in any order, possibly several at one address. */
typedef struct symbol_found {
    symbol_procedure *procedures; /* malloc'd by the back end's growing, freed by symbols.c */
    size_t count, capacity;
} symbol_found;

/* Sorts extents and makes one of those that touch or overlap; returns how many are left. */
size_t symbol_join_extents(flow_extent *rows, size_t count);

/* False without memory. */
bool symbol_found_add(symbol_found *list, const symbol_procedure *p);

typedef struct symbol_backend {
    void *self;
    /* The unit that holds an RVA; false: none. */
    bool (*unit_at)(void *self, uint32_t rva, uint32_t *unit);
    /* Called once for each unit, when it is first needed. Allocates from mem, which lives as long
     * as the symbols. A unit that is damaged gives what could be read, and a finding. */
    spgo_code (*read_unit)(void *self, uint32_t unit, symbol_unit *out, arena *mem, diag *d,
                           spgo_error *err);
    /* Called once. */
    spgo_code (*procedures)(void *self, symbol_found *out, arena *mem, diag *d, spgo_error *err);
    /* Tables, labels and the like of a procedure; may be NULL. */
    void (*hints)(void *self, const symbol_procedure *p, flow_hints *out, arena *mem);
    void (*close)(void *self);
} symbol_backend;

/* Each: SPGO_NOT_FOUND when the image (or its debug file) has nothing of the kind, which is no
 * failure of opening. */
spgo_code symbol_dwarf_open(const symbol_image *image, const symbols_opts *opts,
                            symbol_backend *out, diag *d, spgo_error *err);
spgo_code symbol_pdb_open(const symbol_image *image, const symbols_opts *opts, symbol_backend *out,
                          diag *d, spgo_error *err);

/* Names and extents that need no debug information: ELF .symtab and .dynsym, .eh_frame; COFF
 * symbols, exports, .pdata. symbols.c lets them fill what a back end does not cover. */
spgo_code symbol_elf_procedures(const symbol_image *image, symbol_found *out, diag *d,
                                spgo_error *err);
spgo_code symbol_pe_procedures(const symbol_image *image, symbol_found *out, diag *d,
                               spgo_error *err);

#endif
