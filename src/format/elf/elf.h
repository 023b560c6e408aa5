/*
 * ELF, as far as a profiler needs it: what kind of image it is, where its segments stand in file
 * and memory, and its GNU build-id. 32 and 64 bits, both byte orders. doc/formats/elf.md has the
 * layout and its sources.
 */
#ifndef FORMAT_ELF_H
#define FORMAT_ELF_H

#include <spgo/error.h>

enum {
    ELF_SEGMENT_MAX = 64,
    ELF_BUILD_ID_MAX = 64, /* bytes kept; linkers write 8, 16 or 20 */

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
    ELF_SEGMENT_READ = 4
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

#endif
