/* Small ELF images for tests of opening and finding: one executable segment, a build-id, a symbol
 * table, and what a test adds. */
#ifndef SYMBOL_BUILD_H
#define SYMBOL_BUILD_H

#include "test_data.h"

#include <string.h>

#include <base/bytes.h>

typedef struct build_symbol {
    const char *name;
    uint64_t value, size;
    uint8_t type; /* 1 data, 2 function */
} build_symbol;

typedef struct build_section {
    const char *name;
    uint32_t type; /* 1: plain bytes */
    spgo_span data;
    uint32_t link;
    uint64_t entry_size;
} build_section;

typedef struct build_elf {
    uint16_t type;           /* 0: 3, ET_DYN */
    uint64_t vaddr;          /* of the first segment, which holds the headers */
    uint64_t text_vaddr;     /* of the code; 0: vaddr + 0x1000 */
    uint64_t far_vaddr;      /* of a third segment; 0: none */
    uint32_t text_size;      /* 0: 0x100 */
    const uint8_t *build_id; /* 20 bytes; NULL: none */
    const build_symbol *symbols;
    size_t symbol_count;
    const build_section *sections; /* further ones */
    size_t section_count;
    uint8_t fill; /* of the code: what tells two files with one build-id apart */
} build_elf;

enum {
    BUILD_HEADER_SIZE = 64,
    BUILD_SEGMENT_SIZE = 56,
    BUILD_SECTION_SIZE = 64,
    BUILD_NOTE_OFF = 0x180,
    BUILD_TEXT_OFF = 0x200,
    BUILD_SECTIONS_MAX = 16
};

static inline void build_pad(bytes *b, size_t at)
{
    assert_true(b->len <= at);
    bytes_fill(b, 0, at - b->len);
}

static inline void build_segment(bytes *b, uint32_t type, uint32_t flags, uint64_t off,
                                 uint64_t vaddr, uint64_t size)
{
    bytes_u32(b, type);
    bytes_u32(b, flags);
    bytes_u64(b, off);
    bytes_u64(b, vaddr);
    bytes_u64(b, vaddr);
    bytes_u64(b, size);
    bytes_u64(b, size);
    bytes_u64(b, 0x1000);
}

static inline void build_header(bytes *b, const build_elf *e, uint16_t segments)
{
    bytes_put(b, "\177ELF\2\1\1\0\0\0\0\0\0\0\0", 16);
    bytes_u16(b, e->type ? e->type : 3);
    bytes_u16(b, 62);
    bytes_u32(b, 1);
    bytes_u64(b, 0);
    bytes_u64(b, BUILD_HEADER_SIZE);
    bytes_u64(b, 0); /* of the sections: set at the end */
    bytes_u32(b, 0);
    bytes_u16(b, BUILD_HEADER_SIZE);
    bytes_u16(b, BUILD_SEGMENT_SIZE);
    bytes_u16(b, segments);
    bytes_u16(b, BUILD_SECTION_SIZE);
    bytes_u16(b, 0);
    bytes_u16(b, 0);
}

static inline void build_symbols(const build_elf *e, bytes *rows, bytes *names)
{
    bytes_fill(rows, 0, 24);
    bytes_u8(names, 0);
    for (size_t i = 0; i < e->symbol_count; i++) {
        const build_symbol *s = &e->symbols[i];
        bytes_u32(rows, (uint32_t)names->len);
        bytes_u8(rows, (uint8_t)(1 << 4 | s->type));
        bytes_u8(rows, 0);
        bytes_u16(rows, 1);
        bytes_u64(rows, s->value);
        bytes_u64(rows, s->size);
        bytes_put(names, s->name, strlen(s->name) + 1);
    }
}

/* Section headers behind everything else, and their names. */
static inline void build_sections(bytes *b, const build_section *sections, size_t count)
{
    bytes names = {0}, rows = {0};
    bytes_u8(&names, 0);
    bytes_fill(&rows, 0, BUILD_SECTION_SIZE);
    for (size_t i = 0; i <= count; i++) {
        build_section s = {.name = ".shstrtab", .type = 3};
        if (i < count)
            s = sections[i];
        bytes_u32(&rows, (uint32_t)names.len);
        bytes_put(&names, s.name, strlen(s.name) + 1);
        if (i == count)
            s.data = bytes_span(&names);
        bytes_u32(&rows, s.type);
        bytes_u64(&rows, 0);
        bytes_u64(&rows, 0);
        bytes_u64(&rows, b->len);
        bytes_u64(&rows, s.data.len);
        bytes_u32(&rows, s.link);
        bytes_u32(&rows, 0);
        bytes_u64(&rows, 1);
        bytes_u64(&rows, s.entry_size);
        bytes_put(b, s.data.ptr, s.data.len);
    }
    bytes_set_u64(b, 40, b->len);
    bytes_set_u16(b, 60, (uint16_t)(count + 2));
    bytes_set_u16(b, 62, (uint16_t)(count + 1));
    bytes_put(b, rows.ptr, rows.len);
    bytes_free(&rows);
    bytes_free(&names);
}

static inline bytes build_image(const build_elf *e)
{
    bytes b = {0}, rows = {0}, names = {0};
    uint32_t text_size = e->text_size ? e->text_size : 0x100;
    uint64_t text_vaddr = e->text_vaddr ? e->text_vaddr : e->vaddr + 0x1000;
    build_header(&b, e, (uint16_t)(2 + (e->build_id != NULL) + (e->far_vaddr != 0)));
    build_segment(&b, 1, 4, 0, e->vaddr, BUILD_TEXT_OFF);
    build_segment(&b, 1, 5, BUILD_TEXT_OFF, text_vaddr, text_size);
    if (e->far_vaddr)
        build_segment(&b, 1, 5, BUILD_TEXT_OFF, e->far_vaddr, text_size);
    if (e->build_id)
        build_segment(&b, 4, 4, BUILD_NOTE_OFF, e->vaddr + BUILD_NOTE_OFF, 36);
    build_pad(&b, BUILD_NOTE_OFF);
    bytes_u32(&b, 4);
    bytes_u32(&b, 20);
    bytes_u32(&b, 3);
    bytes_put(&b, "GNU", 4);
    if (e->build_id)
        bytes_put(&b, e->build_id, 20);
    build_pad(&b, BUILD_TEXT_OFF);
    bytes_fill(&b, e->fill, text_size);

    build_section sections[BUILD_SECTIONS_MAX] = {{.name = ".text", .type = 1}};
    size_t count = 1;
    if (e->symbol_count > 0) {
        build_symbols(e, &rows, &names);
        sections[count++] = (build_section){".symtab", 2, bytes_span(&rows), 3, 24};
        sections[count++] = (build_section){".strtab", 3, bytes_span(&names), 0, 0};
    }
    for (size_t i = 0; i < e->section_count; i++)
        sections[count++] = e->sections[i];
    build_sections(&b, sections, count);
    bytes_free(&rows);
    bytes_free(&names);
    assert_false(b.failed);
    return b;
}

#endif
