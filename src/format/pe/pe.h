/*
 * PE images (Windows executables, libraries, drivers), as far as a profiler needs them: what build
 * an image is, where its sections stand in file and memory, which PDB belongs to it, which names it
 * exports, and where its functions lie by its unwind tables. doc/formats/pe.md has the layout, its
 * sources and what was decided where they leave a choice.
 *
 * Everything is a view into the caller's bytes, which must outlive it; nothing but pe_extents_build
 * allocates. A table is opened once (pe_*_open), which checks that it lies in the image; its rows
 * are then decoded by number and cannot fail. Error offsets count from the start of the bytes.
 */
#ifndef FORMAT_PE_H
#define FORMAT_PE_H

#include <base/arena.h>
#include <base/diag.h>
#include <base/reader.h>

enum {
    PE_MACHINE_I386 = 0x14c,
    PE_MACHINE_ARMNT = 0x1c4,
    PE_MACHINE_AMD64 = 0x8664,
    PE_MACHINE_ARM64 = 0xaa64,

    PE_FILE_EXECUTABLE_IMAGE = 0x2,
    PE_FILE_DLL = 0x2000,

    PE_SECTION_CODE = 0x20,
    PE_SECTION_INITIALIZED_DATA = 0x40,
    PE_SECTION_UNINITIALIZED_DATA = 0x80,
    PE_SECTION_DISCARDABLE = 0x2000000,
    PE_SECTION_EXECUTE = 0x20000000,
    PE_SECTION_READ = 0x40000000,

    PE_DIRECTORY_EXPORT = 0,
    PE_DIRECTORY_EXCEPTION = 3,
    PE_DIRECTORY_DEBUG = 6,
    PE_DIRECTORY_LOAD_CONFIG = 10,
    PE_DIRECTORY_CLR = 14,
    PE_DIRECTORY_MAX = 16,

    PE_DEBUG_CODEVIEW = 2,
    PE_DEBUG_POGO = 13,
    PE_DEBUG_REPRO = 16,
    PE_DEBUG_EMBEDDED_PPDB = 17,
    PE_DEBUG_SPGO = 18,
    PE_DEBUG_PDB_CHECKSUM = 19,
    PE_DEBUG_EX_DLL_CHARACTERISTICS = 20,

    PE_UNWIND_EXCEPTION_HANDLER = 1,
    PE_UNWIND_TERMINATE_HANDLER = 2,
    PE_UNWIND_CHAINED = 4
};

/* Too large for an enumerator. */
#define PE_SECTION_WRITE 0x80000000u

/* How the bytes stand: as in the file, or as the loader has put them (a copy out of memory). */
typedef enum pe_layout { PE_LAYOUT_FILE, PE_LAYOUT_MAPPED } pe_layout;

typedef struct pe_directory {
    uint32_t rva, size_bytes;
} pe_directory;

typedef struct pe_version {
    uint16_t major, minor;
} pe_version;

typedef struct pe_image {
    spgo_span bytes;
    pe_layout layout;
    uint64_t header_off; /* of the PE signature */

    uint16_t machine;
    uint32_t time_date_stamp; /* of a reproducible build: a hash (pe_repro_hash) */
    uint16_t optional_header_size;
    uint16_t characteristics;

    bool is_64bit;
    pe_version linker; /* each a u8 */
    uint32_t code_size, initialized_data_size, uninitialized_data_size;
    uint32_t entry_rva, code_rva;
    uint32_t data_rva; /* 32-bit images only */
    uint64_t image_base;
    uint32_t section_alignment, file_alignment;
    pe_version operating_system, image_version, subsystem_version;
    uint32_t size_of_image, size_of_headers, checksum;
    uint16_t subsystem, dll_characteristics;
    uint64_t stack_reserve_size, stack_commit_size, heap_reserve_size, heap_commit_size;
    uint32_t directory_count_stated;            /* NumberOfRvaAndSizes as it stands */
    size_t directory_count;                     /* those that are there, at most PE_DIRECTORY_MAX */
    pe_directory directories[PE_DIRECTORY_MAX]; /* absent ones are zero */

    size_t section_count;
    uint64_t section_table_off;
    bool sections_are_ordered; /* by RVA and without overlap, as linkers write them */

    uint32_t symbol_table_off, symbol_count; /* as they stand; see pe_symbols_open */
    spgo_span strings; /* the COFF string table with its size field; empty if not there */
} pe_image;

/* Could these be the first bytes of a PE image? (At least 64 of them.) */
bool pe_sniff(spgo_span bytes);

/*
 * Reads the headers; section table and directories must fit into the bytes, what they point to need
 * not. Fails with SPGO_CORRUPT (no PE, fields that contradict each other), SPGO_TRUNCATED,
 * SPGO_UNSUPPORTED (a ROM image, a plain DOS, 16-bit or OS/2 program).
 */
spgo_code pe_open(spgo_span bytes, pe_layout layout, pe_image *out, spgo_error *err);

/* "AMD64", ...; NULL for numbers without a name. */
const char *pe_machine_name(uint16_t machine);
const char *pe_directory_name(size_t index);
const char *pe_subsystem_name(uint16_t subsystem);

static inline bool pe_is_managed(const pe_image *image)
{
    return image->directories[PE_DIRECTORY_CLR].rva != 0;
}

/* ------------------------------------------------------------------ sections and addresses */

typedef struct pe_section {
    spgo_str name;        /* in full: "/123" is looked up in the string table, if that is there */
    spgo_span short_name; /* its eight bytes in the table */
    uint32_t virtual_size, rva;
    uint32_t raw_size, raw_off;
    uint32_t relocations_off, line_numbers_off;
    uint16_t relocation_count, line_number_count;
    uint32_t flags; /* PE_SECTION_* */
} pe_section;

pe_section pe_section_at(const pe_image *image, size_t index); /* index < section_count */

/* The first section of this name. */
bool pe_section_find(const pe_image *image, const char *name, pe_section *out);

/*
 * What the bytes hold of a section: without the padding behind its virtual size, cut at the end of
 * the bytes. So for ".debug_info" it is the DWARF of the image and nothing else.
 */
spgo_span pe_section_data(const pe_image *image, const pe_section *section);

/* The index of the section that an RVA is in: by max(virtual size, raw size), of overlapping ones
 * the first. */
bool pe_section_of_rva(const pe_image *image, uint32_t rva, size_t *index);

/* Bytes from an RVA to the end of its section or of the headers; empty where the bytes have
 * nothing, such as the zeros behind a section's raw data. */
spgo_span pe_rest_at_rva(const pe_image *image, uint32_t rva);

/* Exactly `size` bytes; false if they do not all lie in one section (or the headers) and in the
 * bytes. */
bool pe_span_at_rva(const pe_image *image, uint32_t rva, uint64_t size_bytes, spgo_span *out);

/* Between RVAs and offsets into the bytes; false where nothing corresponds. */
bool pe_offset_from_rva(const pe_image *image, uint32_t rva, uint64_t *off);
bool pe_rva_from_offset(const pe_image *image, uint64_t off, uint32_t *rva);

/* Rows of equal size that lie in the image one after the other. */
typedef struct pe_table {
    spgo_span bytes;
    uint64_t off;
    size_t row_size, count;
} pe_table;

/* ------------------------------------------------------------------ debug directory */

typedef struct pe_debug {
    uint32_t characteristics, time_date_stamp;
    pe_version version;
    uint32_t type;                           /* PE_DEBUG_* */
    uint32_t size_bytes, data_rva, data_off; /* of the payload; not all are in memory (RVA 0) */
    spgo_span data; /* the payload, empty where it does not lie in the bytes */
    uint64_t row_off;
} pe_debug;

/* A directory that is absent has no rows; a row that is cut does not count. */
spgo_code pe_debug_open(const pe_image *image, pe_table *out, spgo_error *err);
pe_debug pe_debug_at(const pe_image *image, const pe_table *t, size_t index);

/* The first row of a type; a directory that cannot be read has none. */
bool pe_debug_find(const pe_image *image, uint32_t type, pe_debug *out);
const char *pe_debug_type_name(uint32_t type); /* NULL for numbers without a name */

/* Linked with /SPGO? */
bool pe_is_spgo(const pe_image *image);

/* Is the time stamp a hash? *hash is empty if the row does not carry it in full. */
bool pe_repro_hash(const pe_image *image, spgo_span *hash);

/* Of a row of type PE_DEBUG_PDB_CHECKSUM: "SHA256" and its bytes. */
bool pe_pdb_checksum(const pe_debug *row, spgo_str *algorithm, spgo_span *checksum);

typedef enum pe_codeview_kind {
    PE_CODEVIEW_OTHER, /* a signature that is none of those below */
    PE_CODEVIEW_RSDS,
    PE_CODEVIEW_NB10 /* PDBs before 7.00: a time stamp instead of a GUID */
} pe_codeview_kind;

typedef struct pe_codeview {
    pe_codeview_kind kind;
    uint32_t signature;  /* the first four bytes, little-endian */
    spgo_image_id id;    /* RSDS; of NB10 only the age */
    uint32_t time_stamp; /* NB10 */
    bool is_portable;    /* for a Portable PDB: managed code */
    spgo_str pdb_path;   /* bytes of no certain encoding; may be empty */
} pe_codeview;

/* Of a row of type PE_DEBUG_CODEVIEW: SPGO_TRUNCATED if it is too short for its kind. */
spgo_code pe_codeview_read(const pe_debug *row, pe_codeview *out, spgo_error *err);

/*
 * Which PDB belongs to the image: of several rows the first RSDS one for native code, else the
 * first RSDS one, else the first NB10 one. SPGO_NOT_FOUND without any; an unreadable row among
 * readable ones is passed over.
 */
spgo_code pe_codeview_find(const pe_image *image, pe_codeview *out, spgo_error *err);

/* Of a row of type PE_DEBUG_POGO: what the linker has put where, by the names of the parts. */
typedef struct pe_pogo {
    uint32_t signature; /* PE_POGO_* or 0 */
    reader rest;
} pe_pogo;

enum {
    PE_POGO_LTCG = 0x4c544347, /* link-time code generation */
    PE_POGO_PGI = 0x50474900,  /* 'PGI': instrumented */
    PE_POGO_PGU = 0x50475500   /* 'PGU': optimized with an updated profile */
};

typedef struct pe_pogo_group {
    uint32_t rva, size_bytes;
    spgo_str name; /* ".text$mn" */
} pe_pogo_group;

pe_pogo pe_pogo_open(const pe_debug *row);
bool pe_pogo_next(pe_pogo *p, pe_pogo_group *out); /* false at the end: p->rest.code tells why */

/* ------------------------------------------------------------------ exports */

typedef struct pe_exports {
    const pe_image *image;
    spgo_str dll_name;
    uint32_t ordinal_base;
    pe_directory directory;
    pe_table functions;           /* RVAs by ordinal - ordinal_base; unused ones are 0 */
    pe_table names, name_indices; /* name RVAs and indices into functions, in step */
} pe_exports;

typedef struct pe_export {
    spgo_str name; /* empty where it is exported by ordinal alone */
    uint32_t ordinal;
    uint32_t rva; /* 0: not used, or an index outside the table */
    bool is_forwarder;
    spgo_str forwarder; /* "OTHER.Function" or "OTHER.#17" */
} pe_export;

/* An image without exports has none; a table that does not lie in the image is SPGO_CORRUPT. */
spgo_code pe_exports_open(const pe_image *image, pe_exports *out, spgo_error *err);
pe_export pe_export_at(const pe_exports *e, size_t index);      /* index < functions.count */
pe_export pe_export_by_name(const pe_exports *e, size_t index); /* index < names.count */

/* ------------------------------------------------------------------ functions, x64 */

typedef struct pe_runtime_function {
    uint32_t begin_rva, end_rva;
    uint32_t unwind_rva; /* of UNWIND_INFO; with bit 0 set, of another such row */
} pe_runtime_function;

/* The rows of .pdata, of either machine: 12 bytes each for x64, 8 for ARM64. SPGO_UNSUPPORTED for
 * other machines that have some. */
spgo_code pe_functions_open(const pe_image *image, pe_table *out, spgo_error *err);

pe_runtime_function pe_x64_function_at(const pe_table *t, size_t index);

typedef struct pe_unwind {
    uint8_t version, flags; /* PE_UNWIND_* */
    uint8_t prolog_size;
    uint8_t frame_register, frame_offset; /* register 0: none; the offset in units of 16 bytes */
    uint8_t code_count;
    spgo_span codes;             /* two bytes each */
    uint32_t handler_rva;        /* with a handler flag */
    spgo_span handler_data;      /* what follows it in the section, of a size only it knows */
    pe_runtime_function chained; /* with PE_UNWIND_CHAINED */
} pe_unwind;

/* Versions 1 and 2; SPGO_UNSUPPORTED for others, SPGO_CORRUPT if it does not lie in the image. */
spgo_code pe_unwind_read(const pe_image *image, uint32_t unwind_rva, pe_unwind *out,
                         spgo_error *err);

typedef enum pe_unwind_op {
    PE_UNWIND_PUSH_NONVOL,
    PE_UNWIND_ALLOC_LARGE,
    PE_UNWIND_ALLOC_SMALL,
    PE_UNWIND_SET_FPREG,
    PE_UNWIND_SAVE_NONVOL,
    PE_UNWIND_SAVE_NONVOL_FAR,
    PE_UNWIND_EPILOG, /* version 2 */
    PE_UNWIND_SPARE,
    PE_UNWIND_SAVE_XMM128,
    PE_UNWIND_SAVE_XMM128_FAR,
    PE_UNWIND_PUSH_MACHFRAME
} pe_unwind_op;

typedef struct pe_unwind_code {
    uint8_t prolog_off; /* behind the instruction; of an epilog, its size or a low byte */
    uint8_t op, info;   /* pe_unwind_op; a register mostly */
    uint32_t value;     /* bytes: the size of an allocation, the place of a saved register */
} pe_unwind_code;

/* The code that starts with slot *slot, which moves behind it; false at the end. A code that is
 * cut or unknown ends them: *slot is then less than code_count. */
bool pe_unwind_code_next(const pe_unwind *u, size_t *slot, pe_unwind_code *out);
const char *pe_unwind_op_name(unsigned op);        /* NULL for numbers without a name */
const char *pe_x64_register_name(unsigned number); /* 0 to 15 */

/*
 * The row that a piece of a function belongs to: itself, or by indirections and chained unwind
 * information the one that starts the function. SPGO_CORRUPT for chains of more than
 * PE_CHAIN_MAX steps, as loops are.
 */
enum { PE_CHAIN_MAX = 32 };
spgo_code pe_x64_primary(const pe_image *image, const pe_runtime_function *row,
                         pe_runtime_function *out, spgo_error *err);

/* ------------------------------------------------------------------ functions, ARM64 */

typedef struct pe_arm64_function {
    uint32_t begin_rva, size_bytes;
    bool is_packed;
    bool is_fragment;   /* has no prolog of its own: a piece of another function */
    uint32_t packed;    /* the second word, if packed */
    uint32_t xdata_rva; /* if not */
    uint8_t version;
    bool has_handler, has_single_epilog;
    uint32_t epilog_count; /* or, of a single one, the index of its first code */
    spgo_span epilogs;     /* their scopes: four bytes each */
    spgo_span codes;
    uint32_t handler_rva;
} pe_arm64_function;

spgo_code pe_arm64_function_at(const pe_image *image, const pe_table *t, size_t index,
                               pe_arm64_function *out, spgo_error *err);

/* ------------------------------------------------------------------ functions of either machine */

/* A piece of a function. */
typedef struct pe_extent {
    uint32_t function_rva; /* where the function starts that it belongs to */
    uint32_t begin_rva, end_rva;
    bool is_loose; /* an ARM64 fragment away from its function, which nothing names */
} pe_extent;

/* Sorted by function, then by start; the pieces of one function never touch or overlap. */
typedef struct pe_extents {
    pe_extent *rows;
    size_t count;
    size_t rows_left_out; /* rows of .pdata that are no range of the image */
    size_t rows_alone;    /* rows whose unwind information is damaged or of an unknown version: kept
                             as functions of their own */
} pe_extents;

/* From all rows of .pdata. What is wrong with rows becomes findings; d may be NULL. */
spgo_code pe_extents_build(const pe_image *image, arena *a, pe_extents *out, diag *d,
                           spgo_error *err);

typedef struct pe_function {
    uint32_t rva;
    const pe_extent *pieces; /* the first is not always the start: cold code may lie before it */
    size_t piece_count;
} pe_function;

/* The function whose pieces start with row *at, which moves behind them; false at the end. */
bool pe_function_next(const pe_extents *e, size_t *at, pe_function *out);

/* ------------------------------------------------------------------ COFF symbols */

typedef struct pe_symbols {
    const pe_image *image;
    pe_table table;
    size_t at;
} pe_symbols;

enum { PE_SYMBOL_EXTERNAL = 2, PE_SYMBOL_STATIC = 3, PE_SYMBOL_FILE = 103, PE_SYMBOL_FUNCTION = 2 };

typedef struct pe_symbol {
    spgo_str name;
    uint32_t value;
    int16_t section; /* from 1; 0 undefined, -1 absolute, -2 for debuggers */
    uint16_t type;   /* type >> 4 == PE_SYMBOL_FUNCTION: a function */
    uint8_t storage_class;
    bool has_rva;
    uint32_t rva;
    spgo_span auxiliary; /* 18 bytes each */
} pe_symbol;

/* MinGW images keep their symbols; MSVC's have none, nor have images in memory. SPGO_TRUNCATED if
 * the table reaches behind the end of the file. */
spgo_code pe_symbols_open(const pe_image *image, pe_symbols *out, spgo_error *err);
bool pe_symbols_next(pe_symbols *s, pe_symbol *out);

/* ------------------------------------------------------------------ hybrid images */

/* ARM64EC, ARM64X and x86-on-ARM64 images: code of more than one machine in one image. */
typedef struct pe_hybrid {
    uint32_t metadata_rva; /* 0: no such image */
    uint32_t version;
    pe_table code_ranges; /* 64-bit images only */
} pe_hybrid;

typedef enum pe_code_kind {
    PE_CODE_ARM64,
    PE_CODE_ARM64EC,
    PE_CODE_X64,
    PE_CODE_UNKNOWN
} pe_code_kind;

typedef struct pe_code_range {
    uint32_t begin_rva, size_bytes;
    pe_code_kind kind;
} pe_code_range;

spgo_code pe_hybrid_read(const pe_image *image, pe_hybrid *out, spgo_error *err);
pe_code_range pe_code_range_at(const pe_hybrid *h, size_t index);

#endif
