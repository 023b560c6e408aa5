/*
 * What the parts of the DWARF back end share: the open file, its units, walking DIEs, and the
 * functions and frames that are made of them.
 */
#ifndef SYMBOL_DWARF_INTERNAL_H
#define SYMBOL_DWARF_INTERNAL_H

#include <base/bytes.h>
#include <symbol/dwarf_leb.h>
#include <symbol/dwarf_lines.h>
#include <symbol/symbol_internal.h>

#if SPGO_HAVE_DWARF

#include <dwarf.h>
#include <elfutils/libdw.h>

#define DBG_NONE UINT32_MAX
#define DBG_PRUNE (UINT32_MAX - 1) /* of a visit: do not enter the DIE */

typedef struct dbg_unit {
    Dwarf_Off die_off; /* of its own DIE: units are sorted by this */
    Dwarf_Die die;     /* the unit's own, in the image or its debug file */
    Dwarf_Die code;    /* where its functions are: the same, or the root of a .dwo file */
    dbg_lines lines;
    bool has_asked_for_lines, has_lines;
} dbg_unit;

/* Code of a unit: [begin, end). */
typedef struct dbg_unit_range {
    uint32_t begin_rva, end_rva;
    uint32_t unit;
} dbg_unit_range;

/* Pointers by a hash of what they point to (or were made of). */
typedef struct dbg_table {
    const void **slots; /* NULL: free */
    uint64_t *hashes;
    size_t slot_count, used;
} dbg_table;

typedef struct dbg_file {
    const symbol_image *image;
    bytes made; /* the ELF that holds the DWARF of a PE image */
    Elf *elf;
    Dwarf *dwarf;
    bool lacks_alternate; /* dwz has moved parts of the DWARF to a file that is not there */
    dbg_line_sections line_sections;
    spgo_span info_section, ranges_section, rnglists_section, addr_section;

    dbg_unit *units;
    size_t unit_count;
    dbg_unit_range *ranges; /* by begin, without overlap */
    size_t range_count;

    dbg_texts texts;
    uint64_t seed;
    dbg_table known;     /* by DIE: what function it is */
    dbg_table functions; /* by content */
    dbg_table frames;
    dbg_table scopes; /* by unit: dwarf_scopes.c */
    bytes joined;     /* a qualified name that is being made */

    flow_extent *extents; /* of the DIE that was asked for last */
    size_t extent_count, extent_capacity;
    /* Work that damaged input could make endless is bounded by what an honest file needs. */
    uint64_t ranges_left, line_bytes_left, abbreviation_bytes_left;
    const Dwarf *checked_file; /* the table that was looked through last */
    uint64_t checked_abbreviations;
    bool no_memory;
    diag *findings; /* of the call that is under way */
} dbg_file;

/* Room for one more element of a malloc'd list; false without memory. */
bool dbg_room(void **list, size_t count, size_t *capacity, size_t elem_size);

/* dwarf_elf.c: opens what libdw reads. SPGO_NOT_FOUND: there is no DWARF. */
spgo_code dbg_elf_open(dbg_file *f, spgo_error *err);
void dbg_elf_close(dbg_file *f);

/* dwarf_dies.c */

/* Called for each DIE that is or may hold code; gets what was returned for its parent. */
typedef uint32_t (*dbg_visit)(void *ctx, Dwarf_Die *die, int tag, uint32_t parent);

/* Visits the DIEs below `root` in their order. False: they are damaged, and some were left out. */
bool dbg_walk(dbg_file *f, Dwarf_Die *root, dbg_visit visit, void *ctx);

/* A number of a DIE's own; 0 if it has none. */
uint64_t dbg_number(Dwarf_Die *die, unsigned attribute);

/* The line table of a unit, opened when it is first asked for; NULL: none. */
dbg_lines *dbg_unit_lines(dbg_file *f, dbg_unit *unit);

/* dwarf_ranges.c: fills f->extents with the ranges of a DIE of the unit that are code of the image,
 * in the DIE's order. */
void dbg_extents(dbg_file *f, const dbg_unit *unit, Dwarf_Die *die);

/*
 * dwarf_functions.c: everything is made once for equal content, so that pointers can be compared.
 * NULL without memory. `unit` is the one that the DIE was met in; its own may be another.
 */
const symbol_function *dbg_function(dbg_file *f, dbg_unit *unit, Dwarf_Die *die);
const symbol_frame *dbg_frame(dbg_file *f, const symbol_frame *content);
void dbg_tables_free(dbg_file *f);

/* The slot of what is wanted, or a free one for it; SIZE_MAX without memory. */
size_t dbg_table_find(dbg_table *t, uint64_t hash, const void *wanted,
                      bool (*is_same)(const void *kept, const void *wanted));
/* Fills a free slot, and returns what it was filled with. */
const void *dbg_table_put(dbg_table *t, size_t at, uint64_t hash, const void *made);
uint64_t dbg_hash_pointer(uint64_t seed, const void *p);

/* dwarf_scopes.c: the name behind those of the namespaces and classes that the function is in; as
 * it is if there are none. */
spgo_str dbg_qualified_name(dbg_file *f, Dwarf_Die *die, spgo_str name);

/* dbg_unit.c */
spgo_code dbg_unit_read(dbg_file *f, dbg_unit *unit, symbol_unit *out, arena *mem, diag *d,
                        spgo_error *err);

#endif
#endif
