/*
 * What the targets that read PDBs share: an input that does not start as a PDB is a row of streams
 * instead (a u16 length and the bytes of each), put into a container here: changes then reach
 * records at once, without page lists around them.
 */
#ifndef FUZZ_PDB_H
#define FUZZ_PDB_H

#include <base/bytes.h>
#include <format/pdb/pdb.h>

enum { FUZZ_PAGE = 512, FUZZ_STREAMS_MAX = 24, FUZZ_HEADER_PAGES = 3 };

static inline void fuzz_put_page_aligned(bytes *b, const void *data, size_t len)
{
    bytes_put(b, data, len);
    bytes_fill(b, 0, (FUZZ_PAGE - b->len % FUZZ_PAGE) % FUZZ_PAGE);
}

static inline size_t fuzz_take_streams(const uint8_t *data, size_t size,
                                       spgo_span streams[FUZZ_STREAMS_MAX])
{
    size_t count = 0;
    while (size >= 2 && count < FUZZ_STREAMS_MAX) {
        size_t len = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len > size)
            len = size;
        streams[count++] = (spgo_span){data, len};
        data += len;
        size -= len;
    }
    return count;
}

static inline bytes fuzz_wrap_pdb(const uint8_t *data, size_t size)
{
    spgo_span streams[FUZZ_STREAMS_MAX];
    size_t count = fuzz_take_streams(data, size, streams);
    bytes file = {0}, directory = {0};
    fuzz_put_page_aligned(&file, "Microsoft C/C++ MSF 7.00\r\n\x1a\x44S\0\0\0", 32);
    bytes_fill(&file, 0, (FUZZ_HEADER_PAGES - 1) * FUZZ_PAGE);
    bytes_u32(&directory, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        bytes_u32(&directory, (uint32_t)streams[i].len);
    for (size_t i = 0; i < count; i++) {
        for (size_t off = 0; off < streams[i].len; off += FUZZ_PAGE)
            bytes_u32(&directory, (uint32_t)((file.len + off) / FUZZ_PAGE));
        fuzz_put_page_aligned(&file, streams[i].ptr, streams[i].len);
    }
    uint32_t first = (uint32_t)(file.len / FUZZ_PAGE);
    size_t directory_bytes = directory.len;
    fuzz_put_page_aligned(&file, directory.ptr, directory.len);
    uint32_t map = (uint32_t)(file.len / FUZZ_PAGE);
    for (uint32_t page = first; page < map; page++)
        bytes_u32(&file, page);
    bytes_fill(&file, 0, (FUZZ_PAGE - file.len % FUZZ_PAGE) % FUZZ_PAGE);
    if (!file.failed && !directory.failed) {
        bytes_set_u32(&file, 32, FUZZ_PAGE);
        bytes_set_u32(&file, 36, 1);
        bytes_set_u32(&file, 40, (uint32_t)(file.len / FUZZ_PAGE));
        bytes_set_u32(&file, 44, (uint32_t)directory_bytes);
        bytes_set_u32(&file, 52, map);
    }
    bytes_free(&directory);
    return file;
}

/* The input as a PDB; *wrapped is to be freed. */
static inline spgo_span fuzz_pdb_file(const uint8_t *data, size_t size, bytes *wrapped)
{
    const spgo_span input = {data, size};
    const bool is_file = pdb_sniff(input) != PDB_NOT;
    *wrapped = is_file ? (bytes){0} : fuzz_wrap_pdb(data, size);
    return is_file ? input : bytes_span(wrapped);
}

#endif
