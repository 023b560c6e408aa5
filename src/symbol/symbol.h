/*
 * Symbols: which function, which inlined calls, which file and line an RVA of an image comes from.
 *
 * An image with its debug information is opened once; what is known of a unit (a compilation unit
 * of DWARF, a module of a PDB) is read when an address in it is first asked for. Either back end
 * makes the same of it: runs of code that share one chain of frames. Sources, best first: DWARF (of
 * an ELF or PE image, with libdw), a PDB, the symbol table or publics and exports (names only), and
 * unwind tables (extents only).
 *
 * RVAs count from the image base; elf.h says what that is for ELF. Everything that is handed out
 * lives until symbols_close. One thread at a time.
 */
#ifndef SYMBOL_SYMBOL_H
#define SYMBOL_SYMBOL_H

#include <base/diag.h>
#include <code/flow_graph.h>

typedef struct symbols symbols;

typedef struct symbols_opts {
    const char *image_path;  /* NULL: look for `name` in the directories; may be a PDB that has
                                its image beside it */
    const char *name;        /* the image's base name as a trace spells it, or NULL */
    const char *debug_path;  /* a PDB or a separate ELF debug file; NULL: look for it */
    const char *const *dirs; /* --symbols: plain folders, symbol stores (x.pdb/<GUID age>/x.pdb),
                                and .build-id trees */
    size_t dir_count;
    const char *const *source_roots; /* where sources may be, for lines that a PDB lacks */
    size_t source_root_count;
    const spgo_image_id *wanted; /* the image must be this one; NULL: any */
    bool any_id; /* --force: go on with another image or debug file, with a finding */
} symbols_opts;

/*
 * SPGO_NOT_FOUND: no image; the sentence says where was looked. SPGO_MISMATCH: another build; the
 * sentence has both ids. An image without debug information opens with a finding that says what is
 * missing and how to get it.
 */
spgo_code symbols_open(const symbols_opts *opts, symbols **out, diag *d, spgo_error *err);
void symbols_close(symbols *s); /* NULL is fine */

/* What was found wrong since the open, when units were read. */
const diag *symbols_findings(const symbols *s);

typedef enum symbols_source {
    SYMBOLS_EXTENTS, /* no names */
    SYMBOLS_TABLE,   /* names, no lines */
    SYMBOLS_PDB,
    SYMBOLS_DWARF
} symbols_source;

typedef struct symbols_info {
    const char *image_path, *debug_path; /* debug_path NULL: in the image, or none */
    spgo_image_id id;
    bool has_id;
    bool is_pe;
    symbols_source source;
    uint32_t text_rva; /* of the page of the first executable segment (ELF), 0 for PE: where
                          llvm-profgen's offsets count from */
    uint64_t text_off; /* of that page in the file (ELF) */
    bool has_fs_discriminators; /* line discriminators are flow-sensitive: not to be decoded */
    spgo_span probe_section, probe_desc_section; /* pseudo probes; empty: none */
} symbols_info;

const symbols_info *symbols_get_info(const symbols *s);
const code_image *symbols_code(const symbols *s);

/* ------------------------------------------------------------------ procedures */

/* Flags of procedures. */
enum {
    SYMBOL_NO_RETURN = 1,
    SYMBOL_THUNK = 2,       /* a jump that the linker or compiler made; see thunk_target_rva */
    SYMBOL_FOLDED = 4,      /* other functions have the same address (identical code folding) */
    SYMBOL_SIZE_GUESSED = 8 /* from unwind tables or the next symbol */
};

typedef struct symbol_function symbol_function;

/* Code that stands somewhere in the image under a name. */
typedef struct symbol_procedure {
    uint32_t entry_rva;
    spgo_str name; /* as the linker knows it, decorated if that is known; empty: none */
    const symbol_function *function; /* what the debug information says of it; NULL: nothing */
    const flow_extent *pieces;       /* by rva; the entry is in one of them */
    uint32_t piece_count;
    uint32_t flags;
    uint32_t thunk_target_rva; /* with SYMBOL_THUNK; UINT32_MAX: not known */
} symbol_procedure;

/* All procedures by entry, without two at one address: of folded ones the first name. */
spgo_code symbols_procedures(symbols *s, const symbol_procedure **out, size_t *count,
                             spgo_error *err);

/* The procedure one of whose pieces holds the RVA; NULL: none (or no memory). */
const symbol_procedure *symbols_procedure_at(symbols *s, uint32_t rva);

/* Where a jump or call to an RVA arrives in the end: behind the thunk that is entered there, if its
 * target is known, else at the RVA itself. */
static inline uint32_t symbols_past_thunk(symbols *s, uint32_t rva)
{
    const symbol_procedure *p = symbols_procedure_at(s, rva);
    bool enters_thunk =
        p && (p->flags & SYMBOL_THUNK) && p->entry_rva == rva && p->thunk_target_rva != UINT32_MAX;
    return enters_thunk ? p->thunk_target_rva : rva;
}

/* Further names of a folded procedure, for people and for choosing; *count 0: none. */
const spgo_str *symbols_other_names(symbols *s, const symbol_procedure *p, size_t *count);

/* A name that the linker kept for a place in code. */
typedef struct symbol_label {
    uint32_t rva;
    spgo_str name;
} symbol_label;

/* All of them by RVA, then by name: also names that procedures do not show, such as those of the
 * parts of split functions ("f.cold", "f.__part.1"). Only of ELF images with a symbol table. */
spgo_code symbols_labels(symbols *s, const symbol_label **out, size_t *count, spgo_error *err);

/* What helps to recover the blocks of a procedure: tables, labels, functions that do not return.
 * Views that live until close; branches are left empty for the caller. */
flow_hints symbols_flow_hints(symbols *s, const symbol_procedure *p);

/* ------------------------------------------------------------------ frames */

/* Where symbol_function.line is from. */
typedef enum symbol_line_source {
    SYMBOL_LINE_NONE,
    SYMBOL_LINE_DECLARED,  /* told by the debug information: exact */
    SYMBOL_LINE_IN_SOURCE, /* found in the source file: nearly always right */
    SYMBOL_LINE_FIRST_ROW  /* the first line of its code: at or a few lines behind the start */
} symbol_line_source;

struct symbol_function {
    spgo_str name; /* for people: qualified by namespaces and classes, undecorated */
    /* Empty: not known (C functions: the same as name). A function in a namespace that is of C
     * linkage, or local and compiled by gcc, has its plain name here. */
    spgo_str linkage_name;
    spgo_str file;       /* empty: not known */
    uint32_t line;       /* of its declaration: what profiles count from */
    uint8_t line_source; /* symbol_line_source */
};

/* One level of a chain of inlined calls. */
typedef struct symbol_frame symbol_frame;
struct symbol_frame {
    const symbol_function *function;
    spgo_str file;              /* empty: not known */
    uint32_t line;              /* 0: none */
    uint32_t discriminator;     /* as stored; of callers, of the call site */
    const symbol_frame *caller; /* where this one was inlined; NULL: it is the procedure itself */
};

/* Code that shares a chain: [begin, end). */
typedef struct symbol_run {
    uint32_t begin_rva, end_rva;
    const symbol_frame *leaf;
} symbol_run;

/* SPGO_NOT_FOUND: nothing is known of the address. Asking in rising order is cheapest. */
spgo_code symbols_run_at(symbols *s, uint32_t rva, symbol_run *out, spgo_error *err);

#endif
