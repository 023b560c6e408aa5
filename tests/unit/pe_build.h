/*
 * A small PE image with one of everything, built byte by byte for the tests of its reader. Its
 * places are constants here, so that a test breaks a field by its offset.
 */
#ifndef PE_BUILD_H
#define PE_BUILD_H

#include "test_data.h"

#include <string.h>

#include <base/bytes.h>
#include <base/out.h>
#include <format/pe/pe_dump.h>

enum {
    AT_PE = 0x40,
    AT_FILE_HEADER = AT_PE + 4,
    AT_OPTIONAL = AT_PE + 24,
    AT_SECTIONS = AT_OPTIONAL + 240, /* of a 64-bit image, as the next two */
    AT_DIRECTORIES = AT_OPTIONAL + 112,
    AT_DIRECTORIES_32 = AT_OPTIONAL + 96,
    HEADERS_SIZE = 0x200,
    AT_TEXT = 0x200,
    TEXT_SIZE = 0x40,
    AT_RDATA = AT_TEXT + TEXT_SIZE,
    RDATA_SIZE = 0x380,
    AT_DWARF = AT_RDATA + RDATA_SIZE,
    DWARF_RAW_SIZE = 0x20,
    DWARF_SIZE = 0x18,
    AT_SYMBOLS = AT_DWARF + DWARF_RAW_SIZE,
    SYMBOL_COUNT = 4,
    AT_STRINGS = AT_SYMBOLS + 18 * SYMBOL_COUNT,

    /* RVAs in .rdata */
    RVA_DEBUG = 0x2000,
    DEBUG_COUNT = 7,
    RVA_NB10 = 0x20c8,
    RVA_PORTABLE = 0x20e0,
    RVA_RSDS = 0x2100,
    RVA_POGO = 0x2124,
    RVA_REPRO = 0x214c,
    RVA_CHECKSUM = 0x2154,
    RVA_EXPORTS = 0x2180,
    RVA_PDATA = 0x21e0,
    PDATA_COUNT = 6,
    RVA_UNWIND = 0x2240,
    RVA_UNWIND_CHAINED = 0x2248,
    RVA_UNWIND_TWICE = 0x2258,
    RVA_UNWIND_HANDLER = 0x2270,
    RVA_LOAD_CONFIG = 0x2290,
    RVA_HYBRID = 0x2360,
    RVA_CODE_RANGES = 0x2370
};

static inline size_t at_rva(uint32_t rva)
{
    return AT_RDATA + rva - 0x2000;
}

/* Zeros up to an offset. */
static inline void pad_to(bytes *b, size_t at)
{
    assert_true(b->len <= at);
    bytes_fill(b, 0, at - b->len);
}

static inline void put_z(bytes *b, const char *text)
{
    bytes_put(b, text, strlen(text) + 1);
}

static inline void put_words(bytes *b, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes_u32(b, words[i]);
}
#define PUT_WORDS(b, ...)                                                                          \
    put_words(b, (const uint32_t[]){__VA_ARGS__},                                                  \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static inline void put_directory(bytes *b, bool is_64bit, size_t index, uint32_t rva, uint32_t size)
{
    size_t at = (is_64bit ? AT_DIRECTORIES : AT_DIRECTORIES_32) + 8 * index;
    bytes_set_u32(b, at, rva);
    bytes_set_u32(b, at + 4, size);
}

static inline void put_optional(bytes *b, bool is_64bit)
{
    unsigned wide = is_64bit ? 8 : 4;
    bytes_u16(b, is_64bit ? 0x20b : 0x10b);
    bytes_u8(b, 14);
    bytes_u8(b, 36);
    PUT_WORDS(b, 0x40, 0x380, 0, 0x1004, 0x1000);
    if (!is_64bit)
        bytes_u32(b, 0x2000);
    bytes_ptr(b, is_64bit ? 0x140000000 : 0x400000, wide);
    PUT_WORDS(b, 0x1000, 0x20, 6 | 1 << 16, 2 | 3 << 16, 6, 0, 0x4000, HEADERS_SIZE, 0x1234);
    bytes_u16(b, 3);
    bytes_u16(b, 0x8160);
    for (uint64_t i = 1; i <= 4; i++)
        bytes_ptr(b, i << 12, wide);
    bytes_u32(b, 0);
    bytes_u32(b, PE_DIRECTORY_MAX);
    bytes_fill(b, 0, 8 * PE_DIRECTORY_MAX);
}

static inline void put_section(bytes *b, const char *name, uint32_t virtual_size, uint32_t rva,
                               uint32_t raw_size, uint32_t raw_off, uint32_t flags)
{
    char short_name[8] = {0};
    memcpy(short_name, name, strlen(name));
    bytes_put(b, short_name, 8);
    PUT_WORDS(b, virtual_size, rva, raw_size, raw_off, 0, 0, 0, flags);
}

static inline void put_headers(bytes *b, bool is_64bit, uint16_t machine)
{
    bytes_put(b, "MZ", 2);
    pad_to(b, 60);
    bytes_u32(b, AT_PE);
    bytes_put(b, "PE\0", 4);
    bytes_u16(b, machine);
    bytes_u16(b, 3);
    PUT_WORDS(b, 0x5eed1234, AT_SYMBOLS, SYMBOL_COUNT);
    bytes_u16(b, is_64bit ? 240 : 224);
    bytes_u16(b, PE_FILE_EXECUTABLE_IMAGE);
    put_optional(b, is_64bit);
    put_directory(b, is_64bit, PE_DIRECTORY_EXPORT, RVA_EXPORTS, 0x54);
    put_directory(b, is_64bit, PE_DIRECTORY_EXCEPTION, RVA_PDATA, 12 * PDATA_COUNT);
    put_directory(b, is_64bit, PE_DIRECTORY_DEBUG, RVA_DEBUG, 28 * DEBUG_COUNT);
    put_directory(b, is_64bit, PE_DIRECTORY_LOAD_CONFIG, RVA_LOAD_CONFIG, 0x40);
    put_section(b, ".text", 0x800, 0x1000, TEXT_SIZE, AT_TEXT, 0x60000020);
    put_section(b, ".rdata", RDATA_SIZE, 0x2000, RDATA_SIZE, AT_RDATA, 0x40000040);
    put_section(b, "/4", DWARF_SIZE, 0x3000, DWARF_RAW_SIZE, AT_DWARF, 0x42000040);
}

static inline void put_debug_row(bytes *b, uint32_t type, uint32_t minor, uint32_t rva,
                                 uint32_t size)
{
    PUT_WORDS(b, 0, 0x5eed1234, minor << 16, type, size, rva, rva ? (uint32_t)at_rva(rva) : 0);
}

static inline void put_rsds(bytes *b, uint8_t fill, uint32_t age, const char *path)
{
    bytes_put(b, "RSDS", 4);
    bytes_fill(b, fill, 16);
    bytes_u32(b, age);
    put_z(b, path);
}

static inline void put_debug(bytes *b)
{
    put_debug_row(b, PE_DEBUG_CODEVIEW, 0, RVA_NB10, 24);
    put_debug_row(b, PE_DEBUG_CODEVIEW, 0x504d, RVA_PORTABLE, 30);
    put_debug_row(b, PE_DEBUG_CODEVIEW, 0, RVA_RSDS, 35);
    put_debug_row(b, PE_DEBUG_POGO, 0, RVA_POGO, 40);
    put_debug_row(b, PE_DEBUG_REPRO, 0, RVA_REPRO, 8);
    put_debug_row(b, PE_DEBUG_SPGO, 0, 0, 0);
    put_debug_row(b, PE_DEBUG_PDB_CHECKSUM, 0, RVA_CHECKSUM, 39);
    pad_to(b, at_rva(RVA_NB10));
    bytes_put(b, "NB10", 4);
    PUT_WORDS(b, 0, 0x3c3c3c3c, 2);
    put_z(b, "old.pdb");
    pad_to(b, at_rva(RVA_PORTABLE));
    put_rsds(b, 0x22, 1, "m.pdb");
    pad_to(b, at_rva(RVA_RSDS));
    put_rsds(b, 0x33, 7, "C:\\a\\b.pdb");
    pad_to(b, at_rva(RVA_POGO));
    PUT_WORDS(b, PE_POGO_PGU, 0x1000, 0x30);
    put_z(b, ".text$mn");
    bytes_fill(b, 0, 3);
    PUT_WORDS(b, 0x1030, 0x10);
    put_z(b, ".text$x");
    pad_to(b, at_rva(RVA_POGO) + 40);
    PUT_WORDS(b, 4, 0xdeadbeef);
    put_z(b, "SHA256");
    bytes_fill(b, 0x5a, 32);
}

/* f is number 5, number 6 is not used, g is 7 and elsewhere, 8 has no name. */
static inline void put_exports(bytes *b)
{
    const uint32_t e = RVA_EXPORTS;
    pad_to(b, at_rva(e));
    PUT_WORDS(b, 0, 0x5eed1234, 0, e + 0x44, 5, 4, 2, e + 0x28, e + 0x38, e + 0x40);
    PUT_WORDS(b, 0x1000, 0, e + 0x4e, 0x1010);
    PUT_WORDS(b, e + 0x4a, e + 0x4c);
    bytes_u16(b, 0);
    bytes_u16(b, 2);
    put_z(b, "a.dll");
    put_z(b, "f");
    put_z(b, "g");
    put_z(b, "b.h");
}

/* One function in four pieces (its start, chained once and twice, behind an indirection), one with
 * a handler, and a row that is free. */
static inline void put_functions(bytes *b)
{
    pad_to(b, at_rva(RVA_PDATA));
    PUT_WORDS(b, 0x1000, 0x1010, RVA_UNWIND);
    PUT_WORDS(b, 0x1010, 0x1018, RVA_UNWIND_CHAINED);
    PUT_WORDS(b, 0x1018, 0x101c, RVA_UNWIND_HANDLER);
    PUT_WORDS(b, 0x1020, 0x1028, RVA_UNWIND_TWICE);
    PUT_WORDS(b, 0x1030, 0x1034, RVA_PDATA | 1);
    PUT_WORDS(b, 0, 0, 0);
    pad_to(b, at_rva(RVA_UNWIND));
    PUT_WORDS(b, 0x00010401, 0x00004204);
    PUT_WORDS(b, 0x00000021, 0x1000, 0x1010, RVA_UNWIND);
    PUT_WORDS(b, 0x00000221, 0x1010, 0x1018, RVA_UNWIND_CHAINED);
    pad_to(b, at_rva(RVA_UNWIND_HANDLER));
    PUT_WORDS(b, 0x25030509, 0x01030305, 0x00000020, 0x1004, 0x99);
}

static inline void put_load_config(bytes *b, bool is_64bit)
{
    pad_to(b, at_rva(RVA_LOAD_CONFIG));
    bytes_u32(b, 0xd0);
    pad_to(b, at_rva(RVA_LOAD_CONFIG) + (is_64bit ? 200 : 124));
    bytes_ptr(b, (is_64bit ? 0x140000000 : 0x400000) + RVA_HYBRID, is_64bit ? 8 : 4);
    pad_to(b, at_rva(RVA_HYBRID));
    PUT_WORDS(b, 2, RVA_CODE_RANGES, 2);
    pad_to(b, at_rva(RVA_CODE_RANGES));
    PUT_WORDS(b, 0x1000 | PE_CODE_ARM64EC, 0x10, 0x1020 | PE_CODE_X64, 8);
}

static inline void put_symbol(bytes *b, const char *name, uint32_t string, uint32_t value,
                              int section, uint16_t type, uint8_t class, uint8_t auxiliary)
{
    char short_name[8] = {0};
    memcpy(short_name, name, strlen(name));
    store_u32((uint8_t *)short_name + 4, string ? string : load_u32((uint8_t *)short_name + 4));
    bytes_put(b, short_name, 8);
    bytes_u32(b, value);
    bytes_u16(b, (uint16_t)section);
    bytes_u16(b, type);
    bytes_u8(b, class);
    bytes_u8(b, auxiliary);
}

static inline void put_symbols(bytes *b)
{
    put_symbol(b, ".file", 0, 0, -2, 0, PE_SYMBOL_FILE, 1);
    put_z(b, "source.c");
    pad_to(b, AT_SYMBOLS + 36);
    put_symbol(b, "eightchr", 0, 0x10, 1, 0x20, PE_SYMBOL_EXTERNAL, 0);
    put_symbol(b, "", 16, 0x20, 1, 0x20, PE_SYMBOL_STATIC, 0);
    bytes_u32(b, 4 + 12 + 14);
    put_z(b, ".debug_info");
    put_z(b, "a_long_symbol");
}

static inline bytes build_pe(bool is_64bit, uint16_t machine)
{
    bytes b = {0};
    put_headers(&b, is_64bit, machine);
    pad_to(&b, AT_TEXT);
    bytes_fill(&b, 0xcc, TEXT_SIZE);
    put_debug(&b);
    put_exports(&b);
    put_functions(&b);
    put_load_config(&b, is_64bit);
    pad_to(&b, AT_DWARF);
    bytes_fill(&b, 0xdd, DWARF_SIZE);
    pad_to(&b, AT_SYMBOLS);
    put_symbols(&b);
    assert_false(b.failed);
    return b;
}

/* Rewrites the rows for ARM64: two packed pieces of one function, one with a record of its own, a
 * fragment away from its function, and one that follows it. */
static inline bytes build_arm64(void)
{
    bytes b = build_pe(true, PE_MACHINE_ARM64);
    static const uint32_t rows[] = {
        0x1000, 1 | 4 << 2,       /* packed, 16 bytes */
        0x1010, 2 | 2 << 2,       /* packed fragment, 8 bytes */
        0x1018, RVA_UNWIND,       /* 8 bytes */
        0x1030, RVA_UNWIND_TWICE, /* 8 bytes, a fragment */
        0x1038, 2 | 1 << 2,       /* packed fragment, 4 bytes */
    };
    static const uint32_t record[] = {2 | 1 << 20 | 1 << 22 | 1u << 27, 0x00000001, 0xe4e4e4e1,
                                      0x1004}; /* head, epilog, codes, handler */
    static const uint32_t long_record[] = {2, 1 << 16, 0xe4e4e4e5};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bytes_set_u32(&b, at_rva(RVA_PDATA) + 4 * i, rows[i]);
    for (size_t i = 0; i < sizeof record / sizeof *record; i++)
        bytes_set_u32(&b, at_rva(RVA_UNWIND) + 4 * i, record[i]);
    for (size_t i = 0; i < sizeof long_record / sizeof *long_record; i++)
        bytes_set_u32(&b, at_rva(RVA_UNWIND_TWICE) + 4 * i, long_record[i]);
    put_directory(&b, true, PE_DIRECTORY_EXCEPTION, RVA_PDATA, sizeof rows);
    return b;
}

#endif
