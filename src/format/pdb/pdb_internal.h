/* What the parts of the reader share. */
#ifndef FORMAT_PDB_INTERNAL_H
#define FORMAT_PDB_INTERNAL_H

#include <base/reader.h>

#include <format/pdb/msf.h>
#include <format/pdb/pdb.h>

enum {
    PDB_STREAM_INFO = 1,
    PDB_STREAM_TPI = 2,
    PDB_STREAM_DBI = 3,
    PDB_STREAM_IPI = 4,

    PDB_CV_SIGNATURE_C13 = 4
};

/* An entry of an OMAP: what starts at rva went to `to`, or nowhere. */
typedef struct pdb_omap {
    uint32_t rva, to;
} pdb_omap;

/* A row of the OMAP to the source, the other way round. */
typedef struct pdb_source {
    uint32_t linked, rva, length;
} pdb_source;

typedef struct pdb_sections {
    pdb_section *rows;
    size_t count;
} pdb_sections;

typedef struct pdb_omaps {
    pdb_omap *rows;
    size_t count;
} pdb_omaps;

struct pdb {
    arena *mem;
    msf file;
    pdb_info info;

    pdb_named_stream *named;
    size_t named_count;
    spgo_span strings; /* of /names */

    spgo_span dbi;
    uint16_t symbol_stream; /* publics and globals; 0xffff: none */
    pdb_module_header *modules;
    size_t module_count;
    pdb_contribution *contributions;
    size_t contribution_count;
    pdb_sections sections, original_sections;
    pdb_omaps to_source, from_source;
    pdb_source *sources; /* by linked, then rva */
    size_t source_count;
};

/* reader_finish for a reader over a whole stream: offsets become those of the file. */
spgo_code pdb_finish(const pdb *p, uint32_t stream, const reader *r, const char *where,
                     spgo_error *err);

static inline reader pdb_part(spgo_span stream, size_t off, size_t size)
{
    return reader_from((spgo_span){stream.ptr + off, size}, off);
}

static inline spgo_code pdb_no_room(const pdb *p, const arena *mem, const char *where,
                                    uint64_t size_bytes, spgo_error *err)
{
    return msf_no_room(&p->file, mem, where, size_bytes, err);
}

/* Rows of `size` bytes in the order of compare, equal ones as they stood; false: no memory. */
bool pdb_stable_sort(void *rows, size_t count, size_t size,
                     int (*compare)(const void *a, const void *b));

/* pdb_dbi.c: the DBI stream and what it names. */
spgo_code pdb_read_dbi(pdb *p, diag *d, spgo_error *err);

/* pdb_lines.c: the C13 subsections [off, off + size) of the module's stream, into m. */
spgo_code pdb_read_c13(pdb_module *m, size_t off, size_t size, diag *d, spgo_error *err);
/* The index of the module's file whose checksum entry starts at an offset, or PDB_NONE. */
uint32_t pdb_file_index(const pdb_module *m, uint32_t checksum_off);
const pdb_inlinee_line *pdb_find_inlinee(const pdb_module *m, uint32_t id);
/* Exports alone, for the resolution of another module's imports. */
spgo_span pdb_find_exports(spgo_span c13);

/* pdb_symbols.c: the symbol records up to `end` of the module's stream, into m. */
spgo_code pdb_read_symbols(pdb_module *m, size_t end, diag *d, spgo_error *err);

#endif
