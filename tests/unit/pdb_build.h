/*
 * A small PDB of every kind of record that is read, for tests that break one field of it: two
 * modules, a procedure with inlined and separated code, lines with and without columns, imports and
 * exports, publics, an OMAP.
 */
#ifndef PDB_BUILD_H
#define PDB_BUILD_H

#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <format/pdb/pdb.h>

enum {
    S_OLD,
    S_INFO,
    S_TPI,
    S_DBI,
    S_IPI,
    S_NAMES,
    S_MODULE_A,
    S_MODULE_B,
    S_SYMBOLS,
    S_SECTIONS,
    S_ORIGINAL,
    S_OMAP_TO,
    S_OMAP_FROM,
    S_NIL,
    S_COUNT
};

typedef struct build {
    bytes streams[S_COUNT];
    uint32_t page_size;
    bool scattered; /* pages of streams in falling order, so that none is in one piece */
    bool omap;
    uint32_t symbol_bytes_a, c13_bytes_a, c13_bytes_b;
    uint32_t first_page[S_COUNT], page_count[S_COUNT];
    uint64_t directory_off;                         /* set by build_file */
    uint32_t name_file1, name_file2, name_module_b; /* in /names */
    size_t proc_off, site_off;                      /* of records in module A */
} build;

/* ------------------------------------------------------------------ records */

static inline void put_name(bytes *b, const char *name)
{
    bytes_put(b, name, strlen(name) + 1);
}

static inline size_t begin_record(bytes *b, uint16_t kind)
{
    size_t at = b->len;
    bytes_u16(b, 0);
    bytes_u16(b, kind);
    return at;
}

static inline void end_record(bytes *b, size_t at)
{
    while ((b->len - at) % 4)
        bytes_u8(b, 0);
    bytes_set_u16(b, at, (uint16_t)(b->len - at - 2));
}

static inline void put_end(bytes *b, uint16_t kind)
{
    end_record(b, begin_record(b, kind));
}

static inline size_t put_proc(bytes *b, uint16_t kind, uint16_t section, uint32_t off,
                              uint32_t length, const char *name)
{
    size_t at = begin_record(b, kind);
    bytes_fill(b, 0, 12);
    bytes_u32(b, length);
    bytes_u32(b, 1);
    bytes_u32(b, length - 1);
    bytes_u32(b, 0x1234);
    bytes_u32(b, off);
    bytes_u16(b, section);
    bytes_u8(b, 8);
    put_name(b, name);
    end_record(b, at);
    return at;
}

static inline size_t put_site(bytes *b, uint32_t inlinee, const uint8_t *annotations, size_t size)
{
    size_t at = begin_record(b, PDB_S_INLINESITE);
    bytes_fill(b, 0, 8);
    bytes_u32(b, inlinee);
    bytes_put(b, annotations, size);
    end_record(b, at);
    return at;
}

static inline void put_site2(bytes *b, uint32_t inlinee, uint32_t invocations,
                             const uint8_t *annotations, size_t size)
{
    size_t at = begin_record(b, PDB_S_INLINESITE2);
    bytes_fill(b, 0, 8);
    bytes_u32(b, inlinee);
    bytes_u32(b, invocations);
    bytes_put(b, annotations, size);
    end_record(b, at);
}

static inline void put_sepcode(bytes *b, uint32_t off, uint32_t length, uint32_t parent_off)
{
    size_t at = begin_record(b, PDB_S_SEPCODE);
    bytes_fill(b, 0, 8);
    bytes_u32(b, length);
    bytes_u32(b, 2);
    bytes_u32(b, off);
    bytes_u32(b, parent_off);
    bytes_u16(b, 1);
    bytes_u16(b, 1);
    end_record(b, at);
    put_end(b, PDB_S_END);
}

/* ------------------------------------------------------------------ the modules */

static inline void build_procs(build *b, bytes *s)
{
    /* Rows: 0x14 line 11, 0x18 line 12 (length 2), then in the separated code from 0x100 on: at
     * +4 line 12, length 3. */
    static const uint8_t rows[] = {6, 2, 3, 4, 0x0b, 0x24, 4, 2, 2, 1, 3, 4, 4, 3};
    static const uint8_t nested[] = {0x0c, 1, 4};
    b->proc_off = put_proc(s, PDB_S_GPROC32, 1, 0x10, 0x40, "outer");
    size_t at = begin_record(s, PDB_S_POGODATA);
    bytes_u32(s, 7);
    bytes_u64(s, 1234567890123u);
    bytes_u32(s, 20);
    bytes_u32(s, 21);
    end_record(s, at);
    at = begin_record(s, PDB_S_BLOCK32);
    bytes_fill(s, 0, 8);
    bytes_u32(s, 8);
    bytes_u32(s, 0x20);
    bytes_u16(s, 1);
    put_name(s, "");
    end_record(s, at);
    b->site_off = put_site(s, 0x1001, rows, sizeof rows);
    put_site2(s, 0x80000000u, 99, nested, sizeof nested);
    put_end(s, PDB_S_INLINESITE_END);
    put_end(s, PDB_S_INLINESITE_END);
    put_end(s, PDB_S_END); /* of the block */
    at = begin_record(s, PDB_S_LABEL32);
    bytes_u32(s, 0x30);
    bytes_u16(s, 1);
    bytes_u8(s, 0);
    put_name(s, "label");
    end_record(s, at);
    at = begin_record(s, PDB_S_CALLSITEINFO);
    bytes_u32(s, 0x33);
    bytes_u16(s, 1);
    bytes_u16(s, 0);
    bytes_u32(s, 0x1777);
    end_record(s, at);
    put_end(s, PDB_S_END); /* of the procedure */
    put_sepcode(s, 0x100, 0x20, 0x10);
    put_proc(s, PDB_S_LPROC32, 1, 0x60, 0x10, "folded");
    put_end(s, PDB_S_END);
    put_sepcode(s, 0x120, 0x10, 0x10); /* behind another procedure */
}

static inline void build_others(bytes *s)
{
    size_t at = begin_record(s, PDB_S_THUNK32);
    bytes_fill(s, 0, 12);
    bytes_u32(s, 0x80);
    bytes_u16(s, 1);
    bytes_u16(s, 6);
    bytes_u8(s, 4);
    put_name(s, "thunk");
    end_record(s, at);
    put_end(s, PDB_S_END);
    at = begin_record(s, PDB_S_TRAMPOLINE);
    bytes_u16(s, 0);
    bytes_u16(s, 5);
    bytes_u32(s, 0x90);
    bytes_u32(s, 0x10);
    bytes_u16(s, 1);
    bytes_u16(s, 1);
    end_record(s, at);
    at = begin_record(s, PDB_S_ARMSWITCHTABLE);
    bytes_u32(s, 0x10);
    bytes_u16(s, 1);
    bytes_u16(s, 4);
    bytes_u32(s, 0x1c);
    bytes_u32(s, 0x40);
    bytes_u16(s, 1);
    bytes_u16(s, 2);
    bytes_u32(s, 5);
    end_record(s, at);
    at = begin_record(s, PDB_S_COFFGROUP);
    bytes_u32(s, 0x130);
    bytes_u32(s, 0x60000020);
    bytes_u32(s, 0);
    bytes_u16(s, 1);
    put_name(s, ".text$mn");
    end_record(s, at);
    at = begin_record(s, PDB_S_FASTLINK);
    bytes_u32(s, 5);
    bytes_u16(s, 1);
    put_name(s, "mini");
    end_record(s, at);
    at = begin_record(s, PDB_S_COMPILE3);
    bytes_u32(s, 1 | 4 << 8);
    bytes_u16(s, 0xd0);
    for (uint16_t i = 1; i <= 8; i++)
        bytes_u16(s, i);
    put_name(s, "compiler");
    end_record(s, at);
}

static inline size_t begin_part(bytes *b, uint32_t kind)
{
    bytes_u32(b, kind);
    bytes_u32(b, 0);
    return b->len;
}

static inline void end_part(bytes *b, size_t start)
{
    bytes_set_u32(b, start - 4, (uint32_t)(b->len - start));
    while (b->len % 4)
        bytes_u8(b, 0);
}

static inline void put_rows(bytes *s, uint32_t file, size_t count, const uint32_t (*rows)[2],
                            bool columns)
{
    bytes_u32(s, file);
    bytes_u32(s, (uint32_t)count);
    bytes_u32(s, (uint32_t)(12 + count * (columns ? 12 : 8)));
    for (size_t i = 0; i < count; i++) {
        bytes_u32(s, rows[i][0]);
        bytes_u32(s, rows[i][1]);
    }
    for (size_t i = 0; columns && i < count; i++) {
        bytes_u16(s, (uint16_t)(10 + i));
        bytes_u16(s, (uint16_t)(20 + i));
    }
}

static inline void build_lines(bytes *s, uint32_t off, uint32_t size, bool columns)
{
    static const uint32_t first[][2] = {{0, 0x80000005}, {0, 6}, {0x20, 0xfeefee}, {0x24, 9}};
    static const uint32_t second[][2] = {{8, 100}, {0x10, 101}};
    size_t at = begin_part(s, 0xf2);
    bytes_u32(s, off);
    bytes_u16(s, 1);
    bytes_u16(s, columns);
    bytes_u32(s, size);
    put_rows(s, 0, columns ? 2 : 4, first, columns);
    if (!columns)
        put_rows(s, 24, 2, second, columns);
    end_part(s, at);
}

static inline void build_c13(const build *b, bytes *s)
{
    size_t at = begin_part(s, 0xf4);
    bytes_u32(s, b->name_file1);
    bytes_u8(s, 16);
    bytes_u8(s, 1);
    bytes_fill(s, 0xab, 16);
    bytes_fill(s, 0, 2);
    bytes_u32(s, b->name_file2);
    bytes_u8(s, 0);
    bytes_u8(s, 0);
    bytes_fill(s, 0, 2);
    end_part(s, at);
    build_lines(s, 0x60, 0x10, true);
    build_lines(s, 0x10, 0x40, false);
    at = begin_part(s, 0x800000f2u); /* to be ignored */
    bytes_fill(s, 0xff, 8);
    end_part(s, at);
    at = begin_part(s, 0xf6);
    bytes_u32(s, 1);
    bytes_u32(s, 0x1001);
    bytes_u32(s, 24);
    bytes_u32(s, 10);
    bytes_u32(s, 1);
    bytes_u32(s, 0);
    bytes_u32(s, 0x80000000u);
    bytes_u32(s, 0);
    bytes_u32(s, 50);
    bytes_u32(s, 0);
    end_part(s, at);
    at = begin_part(s, 0xf7);
    bytes_u32(s, b->name_module_b);
    bytes_u32(s, 1);
    bytes_u32(s, 0x80001234u);
    end_part(s, at);
}

static inline void build_modules(build *b)
{
    bytes *a = &b->streams[S_MODULE_A], *other = &b->streams[S_MODULE_B];
    bytes_u32(a, 4);
    build_procs(b, a);
    build_others(a);
    b->symbol_bytes_a = (uint32_t)a->len;
    build_c13(b, a);
    b->c13_bytes_a = (uint32_t)a->len - b->symbol_bytes_a;
    bytes_u32(a, 0);
    bytes_u32(other, 4);
    size_t at = begin_part(other, 0xf8);
    bytes_u32(other, 0x80001234u);
    bytes_u32(other, 0x1002);
    end_part(other, at);
    b->c13_bytes_b = (uint32_t)other->len - 4;
}

/* ------------------------------------------------------------------ types */

static inline void put_types_header(bytes *b, uint32_t count, const bytes *records)
{
    bytes_u32(b, 20040203);
    bytes_u32(b, 56);
    bytes_u32(b, 0x1000);
    bytes_u32(b, 0x1000 + count);
    bytes_u32(b, (uint32_t)records->len);
    bytes_u16(b, 0xffff);
    bytes_u16(b, 0xffff);
    bytes_fill(b, 0, 32);
    bytes_put(b, records->ptr, records->len);
}

static inline void build_types(build *b)
{
    bytes r = {0};
    size_t at = begin_record(&r, 0x1505); /* LF_STRUCTURE */
    bytes_u16(&r, 2);
    bytes_u16(&r, 0);
    bytes_fill(&r, 0, 12);
    bytes_u16(&r, 0x8002); /* a u16 follows */
    bytes_u16(&r, 0x9000);
    put_name(&r, "space::Class");
    end_record(&r, at);
    put_types_header(&b->streams[S_TPI], 1, &r);
    bytes_clear(&r);
    at = begin_record(&r, 0x1605); /* 1000: LF_STRING_ID */
    bytes_u32(&r, 0);
    put_name(&r, "space");
    end_record(&r, at);
    at = begin_record(&r, 0x1601); /* 1001: LF_FUNC_ID */
    bytes_u32(&r, 0x1000);
    bytes_u32(&r, 0x1111);
    put_name(&r, "inlined");
    bytes_u64(&r, 0x0123456789abcdefu);
    end_record(&r, at);
    at = begin_record(&r, 0x1602); /* 1002: LF_MFUNC_ID */
    bytes_u32(&r, 0x1000);
    bytes_u32(&r, 0x1112);
    put_name(&r, "method");
    end_record(&r, at);
    at = begin_record(&r, 0x1604); /* 1003: LF_SUBSTR_LIST */
    bytes_u32(&r, 2);
    bytes_u32(&r, 0x1000);
    bytes_u32(&r, 0x1000);
    end_record(&r, at);
    at = begin_record(&r, 0x1605); /* 1004: of the list */
    bytes_u32(&r, 0x1003);
    put_name(&r, "::tail");
    end_record(&r, at);
    at = begin_record(&r, 0x1601); /* 1005 */
    bytes_u32(&r, 0x1004);
    bytes_u32(&r, 0);
    put_name(&r, "deep");
    end_record(&r, at);
    put_types_header(&b->streams[S_IPI], 6, &r);
    bytes_free(&r);
}

/* ------------------------------------------------------------------ the other streams */

static inline uint32_t put_string(bytes *strings, const char *text)
{
    uint32_t off = (uint32_t)strings->len;
    put_name(strings, text);
    return off;
}

static inline void build_names(build *b)
{
    bytes texts = {0}, *s = &b->streams[S_NAMES];
    bytes_u8(&texts, 0);
    b->name_file1 = put_string(&texts, "c:\\a.cpp");
    b->name_file2 = put_string(&texts, "c:\\b.h");
    b->name_module_b = put_string(&texts, "C:\\B.OBJ");
    bytes_u32(s, 0xeffeeffe);
    bytes_u32(s, 1);
    bytes_u32(s, (uint32_t)texts.len);
    bytes_put(s, texts.ptr, texts.len);
    bytes_u32(s, 0);
    bytes_free(&texts);
}

static inline void build_info(build *b)
{
    bytes *s = &b->streams[S_INFO];
    bytes_u32(s, 20000404);
    bytes_u32(s, 0x5abc1234);
    bytes_u32(s, 3); /* age */
    for (uint8_t i = 0; i < 16; i++)
        bytes_u8(s, i);
    bytes_u32(s, 7);
    put_name(s, "/names");
    bytes_u32(s, 1); /* entries */
    bytes_u32(s, 2);
    bytes_u32(s, 1); /* words of present bits */
    bytes_u32(s, 1);
    bytes_u32(s, 0);
    bytes_u32(s, 0); /* offset of the name */
    bytes_u32(s, S_NAMES);
    bytes_u32(s, 0);
    bytes_u32(s, 20140508);
}

static inline void put_contribution(bytes *s, uint16_t section, uint32_t off, uint32_t size,
                                    uint16_t module)
{
    bytes_u16(s, section);
    bytes_u16(s, 0);
    bytes_u32(s, off);
    bytes_u32(s, size);
    bytes_u32(s, 0x60000020);
    bytes_u16(s, module);
    bytes_u16(s, 0);
    bytes_u64(s, 0);
}

static inline void put_module(bytes *s, uint16_t stream, uint32_t symbols, uint32_t c13,
                              const char *name)
{
    bytes_u32(s, 0);
    put_contribution(s, 1, 0x10, 0x40, 0);
    bytes_u16(s, 0);
    bytes_u16(s, stream);
    bytes_u32(s, symbols);
    bytes_u32(s, 0);
    bytes_u32(s, c13);
    bytes_u16(s, 2);
    bytes_fill(s, 0, 14);
    put_name(s, name);
    put_name(s, "c:\\x.lib");
    while (s->len % 4)
        bytes_u8(s, 0);
}

static inline void build_dbi(build *b)
{
    bytes modules = {0}, places = {0}, *s = &b->streams[S_DBI];
    put_module(&modules, S_MODULE_A, b->symbol_bytes_a, b->c13_bytes_a, "c:\\a.obj");
    put_module(&modules, S_MODULE_B, 4, b->c13_bytes_b, "c:\\b.obj");
    put_module(&modules, 0xffff, 0, 0, "import.dll");
    bytes_u32(&places, 0xeffe0000 + 19970605);
    put_contribution(&places, 1, 0x80, 0x100, 1); /* not sorted */
    put_contribution(&places, 1, 0x10, 0x70, 0);
    bytes_u32(s, UINT32_MAX);
    bytes_u32(s, 19990903);
    bytes_u32(s, 2); /* age */
    bytes_u16(s, 0xffff);
    bytes_u16(s, 0x8e20); /* linker 14.32 */
    bytes_u16(s, 0xffff);
    bytes_u16(s, 0);
    bytes_u16(s, S_SYMBOLS);
    bytes_u16(s, 0);
    bytes_u32(s, (uint32_t)modules.len);
    bytes_u32(s, (uint32_t)places.len);
    bytes_fill(s, 0, 12);
    bytes_u32(s, 0);
    bytes_u32(s, 22);
    bytes_u32(s, 0);
    bytes_u16(s, 1); /* incremental */
    bytes_u16(s, PDB_MACHINE_AMD64);
    bytes_u32(s, 0);
    bytes_put(s, modules.ptr, modules.len);
    bytes_put(s, places.ptr, places.len);
    for (int i = 0; i < 11; i++)
        bytes_u16(s, i == 5               ? S_SECTIONS
                     : i == 10 && b->omap ? S_ORIGINAL
                     : i == 3 && b->omap  ? S_OMAP_TO
                     : i == 4 && b->omap  ? S_OMAP_FROM
                                          : 0xffff);
    bytes_free(&modules);
    bytes_free(&places);
}

static inline void put_section(bytes *s, const char *name, uint32_t rva, uint32_t size)
{
    char padded[8] = {0};
    memcpy(padded, name, strlen(name));
    bytes_put(s, padded, 8);
    bytes_u32(s, size);
    bytes_u32(s, rva);
    bytes_u32(s, size);
    bytes_u32(s, 0x400);
    bytes_fill(s, 0, 12);
    bytes_u32(s, 0x60000020);
}

static inline void build_places(build *b)
{
    static const uint32_t to[][2] = {{0x2000, 0x1000}, {0x2030, 0}, {0x2040, 0x1030}, {0x3000, 0}};
    static const uint32_t from[][2] = {{0x1000, 0x2000}, {0x1030, 0x2040}, {0x1180, 0}};
    put_section(&b->streams[S_SECTIONS], ".text", b->omap ? 0x2000 : 0x1000, 0x1000);
    put_section(&b->streams[S_SECTIONS], ".rdata", 0x3000, 0x100);
    put_section(&b->streams[S_ORIGINAL], ".text", 0x1000, 0x1000);
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        bytes_u32(&b->streams[S_OMAP_TO], to[i][0]);
        bytes_u32(&b->streams[S_OMAP_TO], to[i][1]);
    }
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        bytes_u32(&b->streams[S_OMAP_FROM], from[i][0]);
        bytes_u32(&b->streams[S_OMAP_FROM], from[i][1]);
    }
}

static inline void put_public(bytes *s, uint32_t flags, uint32_t off, const char *name)
{
    size_t at = begin_record(s, PDB_S_PUB32);
    bytes_u32(s, flags);
    bytes_u32(s, off);
    bytes_u16(s, 1);
    put_name(s, name);
    end_record(s, at);
}

static inline void build_symbols(build *b)
{
    bytes *s = &b->streams[S_SYMBOLS];
    put_public(s, 2, 0x60, "?folded@@YAXXZ");
    put_public(s, 3, 0x10, "?outer@@YAXXZ");
    put_public(s, 2, 0x60, "?also@@YAXXZ");
    size_t at = begin_record(s, PDB_S_PROCREF);
    bytes_u32(s, 0);
    bytes_u32(s, (uint32_t)b->proc_off);
    bytes_u16(s, 1);
    put_name(s, "outer");
    end_record(s, at);
    at = begin_record(s, PDB_S_REF_MINIPDB);
    bytes_u32(s, 3);
    bytes_u16(s, 2);
    bytes_u16(s, 0);
    put_name(s, "mini");
    end_record(s, at);
}

/* ------------------------------------------------------------------ the file */

static inline build build_streams(uint32_t page_size)
{
    build b = {.page_size = page_size};
    build_names(&b);
    build_info(&b);
    build_types(&b);
    build_modules(&b);
    build_symbols(&b);
    return b;
}

/* After what build_streams made was changed: places and sizes are set from it. */
static inline void build_settle(build *b)
{
    build_dbi(b);
    build_places(b);
}

static inline uint32_t pages_for(const build *b, size_t size)
{
    return (uint32_t)((size + b->page_size - 1) / b->page_size);
}

static inline uint32_t build_page(const build *b, int stream, uint32_t i)
{
    return b->first_page[stream] + (b->scattered ? b->page_count[stream] - 1 - i : i);
}

/* Where a byte of a stream stands in the file. */
static inline uint64_t build_offset(const build *b, int stream, uint64_t off)
{
    return (uint64_t)build_page(b, stream, (uint32_t)(off / b->page_size)) * b->page_size +
           off % b->page_size;
}

static inline bytes build_directory(build *b, uint32_t *next_page)
{
    bytes directory = {0};
    bytes_u32(&directory, S_COUNT);
    for (int i = 0; i < S_COUNT; i++)
        bytes_u32(&directory, i == S_NIL ? UINT32_MAX : (uint32_t)b->streams[i].len);
    for (int i = 0; i < S_COUNT; i++) {
        b->first_page[i] = *next_page;
        b->page_count[i] = i == S_NIL ? 0 : pages_for(b, b->streams[i].len);
        *next_page += b->page_count[i];
        for (uint32_t k = 0; k < b->page_count[i]; k++)
            bytes_u32(&directory, build_page(b, i, k));
    }
    return directory;
}

static inline void put_at(bytes *file, uint64_t at, const void *data, size_t len)
{
    if (len)
        memcpy(file->ptr + at, data, len);
}

/* The whole file; the streams stay. */
static inline bytes build_file(build *b)
{
    uint32_t page = 3;
    bytes directory = build_directory(b, &page), file = {0};
    uint32_t directory_page = page, directory_pages = pages_for(b, directory.len);
    uint32_t map_page = page + directory_pages, map_pages = pages_for(b, 4 * directory_pages);
    bytes_fill(&file, 0, (size_t)(map_page + map_pages) * b->page_size);
    assert_false(file.failed);
    put_at(&file, 0, "Microsoft C/C++ MSF 7.00\r\n\x1a\x44S\0\0\0", 32);
    bytes_set_u32(&file, 32, b->page_size);
    bytes_set_u32(&file, 36, 1);
    bytes_set_u32(&file, 40, map_page + map_pages);
    bytes_set_u32(&file, 44, (uint32_t)directory.len);
    for (uint32_t i = 0; i < map_pages; i++)
        bytes_set_u32(&file, 52 + 4 * i, map_page + i);
    for (uint32_t i = 0; i < directory_pages; i++)
        bytes_set_u32(&file, (size_t)map_page * b->page_size + 4 * i, directory_page + i);
    b->directory_off = (uint64_t)directory_page * b->page_size;
    put_at(&file, b->directory_off, directory.ptr, directory.len);
    for (int i = 0; i < S_COUNT; i++)
        for (size_t off = 0; off < b->streams[i].len; off += b->page_size) {
            size_t left = b->streams[i].len - off;
            put_at(&file, build_offset(b, i, off), b->streams[i].ptr + off,
                   left < b->page_size ? left : b->page_size);
        }
    bytes_free(&directory);
    return file;
}

static inline void build_free(build *b)
{
    for (int i = 0; i < S_COUNT; i++)
        bytes_free(&b->streams[i]);
}

#endif
