/*
 * What the readers of ELF share: words as wide and in the order that the file says, and its two
 * tables.
 */
#ifndef FORMAT_ELF_INTERNAL_H
#define FORMAT_ELF_INTERNAL_H

#include <base/reader.h>
#include <format/elf/elf.h>

/* A table of the file: program headers or section headers. */
typedef struct elf_table {
    uint64_t off;
    uint64_t entry_size, count;
} elf_table;

typedef struct elf_file {
    spgo_span bytes;
    bool is_64bit, big_endian;
    elf_table segments,
        sections;             /* the segments are not checked yet, the sections lie in the file */
    uint64_t section_names;   /* the index of the section that holds their names */
    uint64_t note_bytes_left; /* to look through: an honest file's notes are met twice at most */
} elf_file;

/* Reads identification and header, and settles how many sections there are. */
spgo_code elf_file_open(spgo_span bytes, elf_file *f, elf_image *out, spgo_error *err);

static inline uint16_t elf_take_half(reader *r, const elf_file *f)
{
    uint16_t value = reader_u16(r);
    return f->big_endian ? __builtin_bswap16(value) : value;
}

static inline uint32_t elf_take_word(reader *r, const elf_file *f)
{
    uint32_t value = reader_u32(r);
    return f->big_endian ? __builtin_bswap32(value) : value;
}

/* An address, offset or size: as wide as the class. */
static inline uint64_t elf_take_wide(reader *r, const elf_file *f)
{
    if (!f->is_64bit)
        return elf_take_word(r, f);
    uint64_t value = reader_u64(r);
    return f->big_endian ? __builtin_bswap64(value) : value;
}

static inline bool elf_inside(spgo_span bytes, uint64_t off, uint64_t size)
{
    return off <= bytes.len && size <= bytes.len - off;
}

static inline reader elf_part_reader(spgo_span bytes, uint64_t off, uint64_t size)
{
    return reader_from((spgo_span){bytes.ptr + off, (size_t)size}, off);
}

/* Without name and data; index < f->sections.count. *name_off is where its name begins. */
elf_section elf_take_section(const elf_file *f, uint64_t index, uint32_t *name_off);

#endif
