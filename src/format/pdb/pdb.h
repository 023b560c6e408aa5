/*
 * PDB files as Microsoft's, LLVM's and Rust's linkers write them: the MSF 7 container, and in it
 * what ties an address of an image to functions, inlined calls, files and lines.
 * doc/formats/pdb.md has the layout, its sources, and what was decided where they are silent.
 *
 * Reading is lazy. Opening reads the directory, the identity, the module list, the section headers
 * and the section contributions; the stream of a module, of the publics or of the types is read
 * when asked for. A stream that stands in one piece is viewed in place, others are copied flat.
 *
 * Addresses are section:offset (sections count from 1) in the image as it was linked. pdb_rva turns
 * one into an RVA of the image as it was shipped, which is another one where a tool has moved code
 * (OMAP). Names are bytes: UTF-8 as a rule, the code page of the build host now and then.
 *
 * Threads: an open pdb does not change, so that any number of threads may read modules from it at
 * once. What they get (pdb_module, pdb_publics, pdb_ids) belongs to the caller; pdb_ids remembers
 * what it has found and is for one thread at a time, the others do not change. The bytes of the
 * file must outlive everything.
 */
#ifndef FORMAT_PDB_H
#define FORMAT_PDB_H

#include <base/arena.h>
#include <base/diag.h>

#define PDB_NONE UINT32_MAX   /* no index */
#define PDB_NO_RVA UINT32_MAX /* nowhere in the image */

/* ------------------------------------------------------------------ the file */

typedef enum pdb_container {
    PDB_NOT,      /* something else */
    PDB_MSF7,     /* what is read here */
    PDB_MSF2,     /* Small MSF, from before 2002 */
    PDB_PORTABLE, /* metadata of managed code */
    PDB_MSFZ,     /* the compressed container */
    PDB_IMAGE     /* an executable image, not its PDB */
} pdb_container;

/* What kind of file do these first bytes (32 suffice) begin? */
pdb_container pdb_sniff(spgo_span bytes);

typedef struct pdb pdb;

typedef struct pdb_opts {
    size_t size;           /* sizeof(pdb_opts) */
    uint64_t budget_bytes; /* of the file, and again of each thing read from it; 0: no limit */
} pdb_opts;

/*
 * SPGO_UNSUPPORTED: another container, named; or versions from before 1998. Damage that leaves the
 * rest readable is a finding in d (which may be NULL), and what it hit is left out.
 */
spgo_code pdb_open(spgo_span bytes, const pdb_opts *opts, pdb **out, diag *d, spgo_error *err);
void pdb_close(pdb *p); /* NULL is fine */

enum {
    PDB_FEATURE_VC110 = 1, /* an IPI stream, and no more features */
    PDB_FEATURE_VC140 = 2, /* an IPI stream */
    PDB_FEATURE_NO_TYPE_MERGE = 4,
    PDB_FEATURE_MINI = 8 /* /DEBUG:FASTLINK: procedures and lines stayed in the object files */
};

enum {
    PDB_MACHINE_X86 = 0x14c,
    PDB_MACHINE_ARM_THUMB2 = 0x1c4,
    PDB_MACHINE_AMD64 = 0x8664,
    PDB_MACHINE_ARM64 = 0xaa64,
    PDB_MACHINE_ARM64EC = 0xa641
};

typedef struct pdb_info {
    spgo_image_id id;  /* as in the image's RSDS record: the GUID, and the age of the DBI stream
                          (of the info stream where there is none) */
    uint32_t info_age; /* also counts changes made after the link, as by pdbstr */
    uint32_t info_version, signature;
    uint32_t features;   /* PDB_FEATURE_* */
    bool has_dbi;        /* false: a compiler's PDB of types */
    bool is_incremental; /* linked so */
    bool is_stripped;    /* publics only */
    bool has_conflicting_types;
    bool has_omap;    /* a tool has moved code since the link */
    uint16_t machine; /* PDB_MACHINE_*, 0 without DBI */
    uint32_t dbi_version;
    uint8_t linker_major, linker_minor;
    uint32_t page_size, page_count;
} pdb_info;

const pdb_info *pdb_get_info(const pdb *p);

/* ------------------------------------------------------------------ streams */

uint32_t pdb_stream_count(const pdb *p);
uint32_t pdb_stream_size(const pdb *p, uint32_t stream); /* PDB_NONE: nil, or no such stream */
/* The bytes of a stream, viewed in the file or copied into mem. */
spgo_code pdb_stream_bytes(const pdb *p, uint32_t stream, arena *mem, spgo_span *out,
                           spgo_error *err);
/* Where byte `off` of a stream stands in the file, or SPGO_NO_OFFSET. */
uint64_t pdb_stream_file_offset(const pdb *p, uint32_t stream, uint64_t off);

typedef struct pdb_named_stream {
    spgo_str name; /* "/names", "/LinkInfo", "sourcelink$1" */
    uint32_t stream;
} pdb_named_stream;

size_t pdb_named_stream_count(const pdb *p);
const pdb_named_stream *pdb_get_named_stream(const pdb *p, size_t i);
uint32_t pdb_find_stream(const pdb *p, const char *name); /* PDB_NONE: no such name */

/* A text of the string table "/names" by its offset; empty where there is none. */
spgo_str pdb_string(const pdb *p, uint32_t off);

/* ------------------------------------------------------------------ addresses */

typedef struct pdb_section {
    char name[9];
    uint32_t rva, virtual_size;
    uint32_t raw_size, raw_off;
    uint32_t characteristics;
} pdb_section;

/* The sections of the image as shipped, and as linked (the same without OMAP). i counts from 0. */
size_t pdb_section_count(const pdb *p);
const pdb_section *pdb_get_section(const pdb *p, size_t i);
size_t pdb_original_section_count(const pdb *p);
const pdb_section *pdb_get_original_section(const pdb *p, size_t i);

/* PDB_NO_RVA: no such section (dropped COMDATs have section 0), or code that was removed. */
uint32_t pdb_rva(const pdb *p, uint16_t section, uint32_t off);

/* The way back; false: in no section, or bytes that the linker did not place. */
bool pdb_section_offset(const pdb *p, uint32_t rva, uint16_t *section, uint32_t *off);

typedef struct pdb_range {
    uint32_t rva, length;
    uint32_t off; /* of its first byte, in the section */
} pdb_range;

/* Where the bytes [off, off + length) are in the shipped image: one range, or several where code
 * was taken apart. Fills at most max and returns how many there are. */
size_t pdb_ranges(const pdb *p, uint16_t section, uint32_t off, uint32_t length, pdb_range *out,
                  size_t max);

/* A piece that one module gave to a section. */
typedef struct pdb_contribution {
    uint16_t section, module;
    uint32_t off, size;
    uint32_t characteristics;
    uint32_t coff_section; /* in the object file, from 1; 0: not told */
} pdb_contribution;

/* Sorted by section and offset. */
size_t pdb_contribution_count(const pdb *p);
const pdb_contribution *pdb_get_contribution(const pdb *p, size_t i);
/* The one that holds an address: which module to read for it; NULL: none does. */
const pdb_contribution *pdb_contribution_at(const pdb *p, uint16_t section, uint32_t off);

/* ------------------------------------------------------------------ modules */

/* An object file, an import, or what the linker made. Names are not unique: the index counts. */
typedef struct pdb_module_header {
    spgo_str name, object_name; /* the second names the library it came from, if any */
    uint32_t stream;            /* PDB_NONE: no symbols */
    uint32_t symbol_bytes, c11_bytes, c13_bytes;
    uint16_t flags, file_count;
    pdb_contribution first; /* module 0xffff: none */
} pdb_module_header;

size_t pdb_module_count(const pdb *p);
const pdb_module_header *pdb_get_module_header(const pdb *p, size_t i);

typedef enum pdb_symbol_kind {
#define PDB_SYMBOL(kind, name) PDB_##name = kind,
#include <format/pdb/pdb_names.def>
    PDB_S_KIND_MAX = 0xffff
} pdb_symbol_kind;

/* "S_GPROC32"; NULL for kinds that are not read here. */
const char *pdb_symbol_name(uint16_t kind);
const char *pdb_machine_name(uint16_t machine); /* "x64"; NULL */

enum {
    PDB_PROC_NO_FPO = 1,
    PDB_PROC_INTERRUPT = 2,
    PDB_PROC_FAR_RETURN = 4,
    PDB_PROC_NO_RETURN = 8,
    PDB_PROC_UNREACHABLE = 0x10,
    PDB_PROC_CUSTOM_CALL = 0x20,
    PDB_PROC_NO_INLINE = 0x40,
    PDB_PROC_OPTIMIZED_DEBUG = 0x80
};

/* What a PGO build left in its own PDB (S_POGODATA). */
typedef struct pdb_pogo {
    uint32_t invocations;
    int64_t dynamic_count;
    uint32_t instruction_count, static_instruction_count;
} pdb_pogo;

typedef struct pdb_proc {
    spgo_str name; /* undecorated; the decorated one is a public at the same address */
    uint32_t rva;  /* of the first byte, or PDB_NO_RVA */
    uint32_t off, length;
    uint16_t section, kind;
    uint8_t flags; /* PDB_PROC_* */
    bool has_pogo;
    uint32_t type;                   /* in TPI; in IPI for the _ID kinds */
    uint32_t debug_start, debug_end; /* from the first byte: behind the prologue, at the epilogue */
    uint32_t symbol_off;             /* of its record in the module's stream */
    uint32_t first_site, site_count; /* inline sites, parents before children */
    uint32_t first_chunk, chunk_count; /* separated code */
    pdb_pogo pogo;
} pdb_proc;

/* A call that was replaced by the callee's code. */
typedef struct pdb_inline_site {
    uint32_t proc;
    uint32_t parent;      /* the site it is nested in, or PDB_NONE: directly in proc */
    uint32_t end;         /* the index behind its last descendant */
    uint32_t inlinee;     /* a function id: see pdb_ids_function */
    uint32_t file, line;  /* of the inlinee's declaration; PDB_NONE and 0: not known */
    uint32_t invocations; /* of a PGO build; PDB_NONE: not known */
    spgo_span annotations;
} pdb_inline_site;

typedef struct pdb_block {
    spgo_str name; /* mostly empty */
    uint32_t proc;
    uint32_t off, length;
    uint16_t section;
} pdb_block;

typedef struct pdb_label {
    spgo_str name;
    uint32_t proc; /* PDB_NONE: in none */
    uint32_t off;
    uint16_t section;
    uint8_t flags;
} pdb_label;

/* Code of a procedure that stands apart from it: what profile-guided layout moves away. */
typedef struct pdb_chunk {
    uint32_t proc; /* whose parent address it names, or PDB_NONE */
    uint32_t rva;
    uint32_t off, length, parent_off;
    uint16_t section, parent_section;
    uint32_t flags; /* 1: a lexical scope, 2: returns to the parent */
} pdb_chunk;

typedef struct pdb_thunk {
    spgo_str name;
    uint32_t rva;
    uint32_t off;
    uint16_t section, length;
    uint8_t ordinal; /* 0 none, 1 adjustor, 2 virtual call, 3 p-code, 4 load, 5 and 6 trampolines */
} pdb_thunk;

/* A jump that the linker made. Only in the module "* Linker *". */
typedef struct pdb_trampoline {
    uint32_t rva, target_rva;
    uint32_t off, target_off;
    uint16_t section, target_section;
    uint16_t kind; /* 0: of an incremental link, 1: a branch island */
    uint16_t length;
} pdb_trampoline;

typedef struct pdb_switch_table {
    uint32_t proc; /* PDB_NONE: in none */
    uint32_t base_off, branch_off, table_off;
    uint16_t base_section, branch_section, table_section;
    uint16_t entry_type; /* 0 i8, 1 u8, 2 i16, 3 u16, 4 i32, 5 u32, 6 pointer, 7 u8, 8 u16, 9 i8,
                            10 i16 shifted left by one */
    uint32_t entry_count;
} pdb_switch_table;

typedef struct pdb_call_site {
    uint32_t proc; /* PDB_NONE: in none */
    uint32_t off;  /* of the indirect call */
    uint16_t section;
    uint32_t type; /* of what is called */
} pdb_call_site;

/* A part of a section: ".text$mn". */
typedef struct pdb_coff_group {
    spgo_str name;
    uint32_t off, length, characteristics;
    uint16_t section;
} pdb_coff_group;

/* A symbol of a /DEBUG:FASTLINK file, whose details are in an object file. */
typedef struct pdb_mini_ref {
    spgo_str name;
    uint32_t coff_section_or_type; /* of the object file, see pdb_contribution; or of TPI */
    uint32_t module;               /* an index, or PDB_NONE */
    uint16_t flags;                /* 1 local, 2 data, 4 type, 8 label, 16 constant; 0 or 1: code */
} pdb_mini_ref;

typedef struct pdb_compiler {
    bool present;
    uint8_t language;           /* 0 C, 1 C++, 3 MASM, 7 link, 8 cvtres, 21 Rust, ... */
    uint32_t flags;             /* the record's, without the language; see PDB_COMPILED_* */
    uint16_t machine;           /* a CodeView processor number: 0xd0 x64, 0xf6 ARM64 */
    uint16_t front[4], back[4]; /* versions */
    spgo_str name;
} pdb_compiler;

enum {
    PDB_COMPILED_LTCG = 1 << 2,
    PDB_COMPILED_HOT_PATCH = 1 << 6,
    PDB_COMPILED_PGO = 1 << 10 /* S_COMPILE3 only */
};

/* ------------------------------------------------------------------ lines */

typedef enum pdb_line_kind {
    PDB_LINE_REAL,
    PDB_LINE_NONE,     /* 0: no line of the source */
    PDB_LINE_HIDDEN,   /* 0xfeefee: code that debuggers step over */
    PDB_LINE_STEP_INTO /* 0xf00f00: code that debuggers step into */
} pdb_line_kind;

static inline pdb_line_kind pdb_line_kind_of(uint32_t line)
{
    return line == 0xfeefee   ? PDB_LINE_HIDDEN
           : line == 0xf00f00 ? PDB_LINE_STEP_INTO
           : line == 0        ? PDB_LINE_NONE
                              : PDB_LINE_REAL;
}

typedef struct pdb_line {
    uint32_t off, length;        /* length 0: another row follows at the same offset */
    uint32_t file;               /* of the module's files, or PDB_NONE */
    uint32_t line;               /* pdb_line_kind_of tells real ones */
    uint16_t column, column_end; /* 0: not known */
    uint8_t line_end_delta;
    bool is_statement;
} pdb_line;

/* The rows of one run of code, sorted by offset; rows of equal offset keep their order. */
typedef struct pdb_line_set {
    uint16_t section;
    bool has_columns;
    uint32_t off, size;
    uint32_t first, count; /* of the module's lines */
    uint32_t reach;        /* the largest end of this set and those before it in its section */
} pdb_line_set;

typedef struct pdb_file {
    spgo_str name;
    uint32_t checksum_off; /* of its entry in the module's table */
    uint8_t checksum_kind; /* 0 none, 1 MD5, 2 SHA-1, 3 SHA-256 */
    spgo_span checksum;
} pdb_file;

typedef struct pdb_inlinee_line {
    uint32_t id; /* as in pdb_inline_site */
    uint32_t file, line;
} pdb_inlinee_line;

/* ------------------------------------------------------------------ a module's contents */

typedef struct pdb_import {
    spgo_str module; /* whose exports these are */
    spgo_span ids;   /* u32 each */
} pdb_import;

/* Everything of a module, in the order of its records where nothing else is said. */
typedef struct pdb_module {
    const pdb *file;
    uint32_t index;
    pdb_compiler compiler;
    spgo_str object_name;

    const pdb_proc *procs;
    const pdb_inline_site *sites;
    const pdb_block *blocks;
    const pdb_label *labels;
    const pdb_chunk *chunks; /* those of one procedure together */
    const pdb_thunk *thunks;
    const pdb_trampoline *trampolines;
    const pdb_switch_table *switch_tables;
    const pdb_call_site *call_sites;
    const pdb_coff_group *coff_groups;
    const pdb_mini_ref *mini_refs; /* S_FASTLINK */
    size_t proc_count, site_count, block_count, label_count, chunk_count, thunk_count;
    size_t trampoline_count, switch_table_count, call_site_count, coff_group_count;
    size_t mini_ref_count;

    const pdb_file *files;         /* by checksum_off */
    const pdb_line_set *line_sets; /* by section and offset */
    const pdb_line *lines;
    const pdb_inlinee_line *inlinees; /* by id; of equal ids the first counts */
    const pdb_import *imports;
    spgo_span exports; /* {u32 local id, u32 global id} each */
    size_t file_count, line_set_count, line_count, inlinee_count, import_count;

    arena *mem;       /* not for users */
    spgo_span stream; /* likewise */
} pdb_module;

/* Bad records are findings and left out; a module without a stream is empty. */
spgo_code pdb_module_read(const pdb *p, uint32_t index, pdb_module **out, diag *d, spgo_error *err);
void pdb_module_free(pdb_module *m); /* NULL is fine */

/* The first set that holds an address; NULL: none does. */
const pdb_line_set *pdb_line_set_at(const pdb_module *m, uint16_t section, uint32_t off);
/* The last row at or before an address in that set; NULL: none, as before the set's first row. */
const pdb_line *pdb_line_at(const pdb_module *m, uint16_t section, uint32_t off);

/* ------------------------------------------------------------------ inline sites */

/* A run of an inlinee's code that comes from one line. */
typedef struct pdb_inline_row {
    uint16_t section;
    uint32_t off, length;
    uint32_t file, line;
    uint16_t column, column_end;
    bool is_expression;
} pdb_inline_row;

typedef struct pdb_inline_reader {
    const pdb_module *module;
    const pdb_inline_site *site;
    const uint8_t *at, *end;
    uint32_t chunk_start; /* where offsets count from */
    uint32_t offset;
    pdb_inline_row state; /* what the next row starts from */
    pdb_inline_row pending;
    bool has_pending, has_length;
    bool damaged; /* the annotations ended in the middle, or with an unknown operation */
} pdb_inline_reader;

/* The rows of one site, decoded one after the other. A row that says no length ends where the next
 * one starts, the last with length 0. Rows are not sorted. */
pdb_inline_reader pdb_inline_rows(const pdb_module *m, uint32_t site);
bool pdb_inline_next(pdb_inline_reader *r, pdb_inline_row *out);

/* ------------------------------------------------------------------ names of functions by id */

typedef struct pdb_ids pdb_ids;

typedef struct pdb_function {
    uint32_t id;        /* in IPI: without bit 31 */
    spgo_str name;      /* without its scope */
    spgo_str qualified; /* "std::vector<int>::push_back"; both NUL-terminated */
    uint32_t type;
    bool is_member;
    bool has_decorated_hash;
    uint64_t decorated_hash; /* the first 8 bytes, little-endian, of the SHA-256 of the decorated
                                name */
} pdb_function;

spgo_code pdb_ids_new(const pdb *p, const pdb_opts *opts, pdb_ids **out, spgo_error *err);
void pdb_ids_free(pdb_ids *ids); /* NULL is fine */

/* An id of a module as an index into IPI: imports (bit 31) are looked up among the exports of the
 * module they name. */
spgo_code pdb_ids_resolve(pdb_ids *ids, const pdb_module *m, uint32_t id, uint32_t *out,
                          spgo_error *err);

/* The function of an inline site's inlinee, kept until pdb_ids_free. */
spgo_code pdb_ids_function(pdb_ids *ids, const pdb_module *m, uint32_t id, const pdb_function **out,
                           spgo_error *err);

/* ------------------------------------------------------------------ publics and globals */

enum { PDB_PUBLIC_CODE = 1, PDB_PUBLIC_FUNCTION = 2, PDB_PUBLIC_MANAGED = 4, PDB_PUBLIC_MSIL = 8 };

typedef struct pdb_public {
    spgo_str name; /* decorated */
    uint32_t rva;
    uint32_t off;
    uint16_t section;
    uint32_t flags; /* PDB_PUBLIC_* */
} pdb_public;

/* Where the record of a procedure is. */
typedef struct pdb_proc_ref {
    spgo_str name;
    uint32_t module;     /* an index, or PDB_NONE */
    uint32_t symbol_off; /* pdb_proc.symbol_off */
    bool is_local;
} pdb_proc_ref;

typedef struct pdb_publics {
    const pdb_public *publics; /* by section, offset and name */
    const pdb_proc_ref *proc_refs;
    const pdb_mini_ref *mini_refs; /* S_REF_MINIPDB */
    size_t public_count, proc_ref_count, mini_ref_count;
    arena *mem; /* not for users */
} pdb_publics;

spgo_code pdb_publics_read(const pdb *p, pdb_publics **out, diag *d, spgo_error *err);
void pdb_publics_free(pdb_publics *publics); /* NULL is fine */

#endif
