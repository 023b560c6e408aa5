/*
 * MSF 7, the container of PDB files: a file of pages, numbered from 0, in which every stream has a
 * list of pages. doc/formats/pdb.md, "Container".
 */
#ifndef FORMAT_PDB_MSF_H
#define FORMAT_PDB_MSF_H

#include <base/arena.h>
#include <base/diag.h>

typedef struct msf_stream {
    uint32_t size_bytes; /* UINT32_MAX: nil */
    uint64_t list_pos;   /* of its page list in the directory */
    spgo_code fault;     /* why it cannot be read, or SPGO_OK */
    uint32_t fault_page; /* which page of its list */
} msf_stream;

typedef struct msf {
    spgo_span file;
    uint64_t budget_bytes; /* of the arenas in use; 0: none */
    uint32_t page_size, page_count;
    unsigned page_shift;
    spgo_span directory;
    const uint8_t *map; /* the directory's own page numbers, u32 each, little-endian */
    uint32_t stream_count;
    msf_stream *streams;
} msf;

/* Checks every page list: a page belongs to one stream only, so that the streams together are never
 * larger than the file. Streams with a bad list are findings, and fail when they are read. */
spgo_code msf_open(spgo_span file, uint64_t budget_bytes, arena *mem, msf *out, diag *d,
                   spgo_error *err);

/* UINT32_MAX: nil, or no such stream. */
uint32_t msf_stream_size(const msf *m, uint32_t stream);

/* The whole stream: a view where its pages follow each other, else a copy in mem. */
spgo_code msf_stream_bytes(const msf *m, uint32_t stream, arena *mem, spgo_span *out,
                           spgo_error *err);

/* Copies a part of a stream, or as much of it as there is; returns the number of bytes. The stream
 * must be without fault. */
size_t msf_copy(const msf *m, uint32_t stream, uint64_t off, void *out, size_t size);

/* An arena gave NULL for size bytes: the budget's fault, or the machine's. */
spgo_code msf_no_room(const msf *m, const arena *mem, const char *where, uint64_t size_bytes,
                      spgo_error *err);

uint64_t msf_file_offset(const msf *m, uint32_t stream, uint64_t off);

#endif
