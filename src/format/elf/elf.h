/*
 * ELF, as far as a profiler needs it: what kind of image it is, where its segments stand in file
 * and memory, its GNU build-id, its sections and symbols. 32 and 64 bits, both byte orders.
 * doc/formats/elf.md has the layout and its sources.
 *
 * Everything is a view into the caller's bytes, which must outlive it; nothing allocates.
 */
#ifndef FORMAT_ELF_H
#define FORMAT_ELF_H

#include <spgo/error.h>

enum {
    ELF_SEGMENT_MAX = 64,
    ELF_BUILD_ID_MAX = 64, /* bytes kept; linkers write 8, 16 or 20 */

    ELF_NAME_MAX = 64 * 1024, /* longer names are passed over */

    ELF_TYPE_REL = 1,
    ELF_TYPE_EXEC = 2,
    ELF_TYPE_DYN = 3, /* shared libraries and position-independent programs */
    ELF_TYPE_CORE = 4,

    ELF_MACHINE_386 = 3,
    ELF_MACHINE_ARM = 40,
    ELF_MACHINE_X86_64 = 62,
    ELF_MACHINE_AARCH64 = 183,
    ELF_MACHINE_RISCV = 243,

    ELF_SEGMENT_EXECUTE = 1,
    ELF_SEGMENT_WRITE = 2,
    ELF_SEGMENT_READ = 4,

    ELF_SECTION_TYPE_PROGRAM = 1,
    ELF_SECTION_TYPE_SYMBOLS = 2, /* .symtab */
    ELF_SECTION_TYPE_STRINGS = 3,
    ELF_SECTION_TYPE_NOTE = 7,
    ELF_SECTION_TYPE_NO_BITS = 8,          /* has a size, but no bytes in this file */
    ELF_SECTION_TYPE_DYNAMIC_SYMBOLS = 11, /* .dynsym */

    ELF_SECTION_ALLOCATED = 2, /* is in memory while the program runs */
    ELF_SECTION_EXECUTE = 4,
    ELF_SECTION_COMPRESSED = 0x800,

    ELF_COMPRESSION_ZLIB = 1,
    ELF_COMPRESSION_ZSTD = 2,

    ELF_SYMBOL_NO_TYPE = 0,
    ELF_SYMBOL_OBJECT = 1,
    ELF_SYMBOL_FUNCTION = 2,
    ELF_SYMBOL_SECTION = 3,
    ELF_SYMBOL_FILE = 4,
    ELF_SYMBOL_INDIRECT_FUNCTION = 10, /* GNU: its value is a function that chooses one */

    ELF_BIND_LOCAL = 0,
    ELF_BIND_GLOBAL = 1,
    ELF_BIND_WEAK = 2,

    ELF_INDEX_UNDEFINED = 0,
    ELF_INDEX_RESERVED_MIN = 0xff00, /* from here on no section: absolute, common, ... */
    ELF_INDEX_EXTENDED = 0xffff      /* the number did not fit and stands elsewhere */
};

/* A PT_LOAD segment. */
typedef struct elf_segment {
    uint64_t offset; /* in the file */
    uint64_t vaddr;
    uint64_t file_size, mem_size;
    uint32_t flags; /* ELF_SEGMENT_* */
} elf_segment;

typedef struct elf_image {
    bool is_64bit, is_big_endian;
    uint16_t type, machine;
    uint64_t entry; /* a vaddr */
    /*
     * The vaddr of the page that holds the start of the first PT_LOAD segment. The RVA of an
     * address is address - load bias - base_vaddr: for a module that starts in memory at
     * `start` (= load bias + base_vaddr), it is address - start, as in PE.
     */
    uint64_t base_vaddr;
    size_t segment_count; /* 0 for relocatable objects and separate debug files without any */
    elf_segment segments[ELF_SEGMENT_MAX];
    size_t segments_left_out; /* beyond ELF_SEGMENT_MAX */

    size_t build_id_size; /* 0: none */
    uint8_t build_id[ELF_BUILD_ID_MAX];
    spgo_image_id id; /* of the build-id, by the rule in spgo/types.h; zero without one */
} elf_image;

/* Could these be the first bytes of an ELF file? (At least 16 of them.) */
bool elf_sniff(spgo_span bytes);

/*
 * Reads the header, the program headers and the build-id: of the PT_NOTE segments, or if they
 * have none, of the SHT_NOTE sections. A table that does not fit into the file is an error; a
 * note that does not is passed over. Fails with SPGO_CORRUPT (no ELF, or a table with entries
 * too small), SPGO_TRUNCATED, SPGO_UNSUPPORTED (class, byte order or version of a kind unknown).
 */
spgo_code elf_read(spgo_span bytes, elf_image *out, spgo_error *err);

/* The RVA of a byte of the file: false if no segment maps it. Of overlapping segments the first
 * executable one counts, then the first. */
bool elf_rva_from_file_offset(const elf_image *image, uint64_t file_off, uint64_t *rva);

/* The RVA of the start of an executable mapping of `size` bytes from file_off on, which begins at a
 * page and so may begin with bytes of another segment: by the first executable segment that the
 * mapping shows. False if it shows none. */
bool elf_rva_of_map(const elf_image *image, uint64_t file_off, uint64_t size, uint64_t *rva);

/* ------------------------------------------------------------------ sections */

typedef struct elf_sections {
    spgo_span bytes;
    bool is_64bit, is_big_endian;
    uint64_t table_off, entry_size;
    size_t count;
    spgo_span names; /* empty: sections have none */
} elf_sections;

typedef struct elf_section {
    spgo_str name; /* empty if it does not lie in the file */
    uint32_t type, link, info;
    uint64_t flags, addr, offset, size_bytes, entry_size;
    spgo_span data; /* as it stands in the file; empty if there is nothing or it does not fit */
} elf_section;

/* A file without a whole section table has no sections. Fails as elf_read does for the header. */
spgo_code elf_sections_open(spgo_span bytes, elf_sections *out, spgo_error *err);

elf_section elf_section_at(const elf_sections *s, size_t index); /* index < s->count */

/* The first section of this name that has bytes in the file, else the first of this name. */
bool elf_section_find(const elf_sections *s, const char *name, elf_section *out);

/* How a section with ELF_SECTION_COMPRESSED is packed, and the bytes that are to be unpacked. */
typedef struct elf_compression {
    uint32_t type;       /* ELF_COMPRESSION_* */
    uint64_t size_bytes; /* when unpacked, as the file says */
    spgo_span packed;
} elf_compression;

/* False: it is not compressed, or its header does not fit into it. */
bool elf_section_compression(const elf_sections *s, const elf_section *section,
                             elf_compression *out);

/* The file that holds the debug information, by .gnu_debuglink, and what elf_crc32 says of it. */
bool elf_debuglink(const elf_sections *s, spgo_str *name, uint32_t *crc);
uint32_t elf_crc32(spgo_span bytes);

/* ------------------------------------------------------------------ symbols */

typedef struct elf_symbols {
    elf_sections sections;
    spgo_span rows, names;
    uint64_t entry_size;
    size_t count;
} elf_symbols;

typedef struct elf_symbol {
    spgo_str name; /* empty: none, or not in the file */
    uint64_t value, size_bytes;
    uint8_t type, bind; /* ELF_SYMBOL_*, ELF_BIND_* */
    uint8_t visibility; /* 0 default, 1 internal, 2 hidden, 3 protected */
    uint16_t section;   /* an index, or ELF_INDEX_* */
} elf_symbol;

/*
 * Of the first section of this type (ELF_SECTION_TYPE_SYMBOLS or .._DYNAMIC_SYMBOLS).
 * SPGO_NOT_FOUND: there is none, or it has no bytes here, as in an image whose debug file has them;
 * SPGO_CORRUPT: its rows are too small.
 */
spgo_code elf_symbols_open(const elf_sections *s, uint32_t section_type, elf_symbols *out,
                           spgo_error *err);

elf_symbol elf_symbol_at(const elf_symbols *t, size_t index); /* index < t->count */

/* Does it name a place in the image: neither undefined nor absolute nor common? */
static inline bool elf_symbol_has_place(const elf_symbol *s)
{
    return s->section != ELF_INDEX_UNDEFINED &&
           (s->section < ELF_INDEX_RESERVED_MIN || s->section == ELF_INDEX_EXTENDED);
}

#endif
