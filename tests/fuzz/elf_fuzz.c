/*
 * ELF: reads the input as an image, asks for the RVAs around the borders of its segments, and reads
 * all sections and symbols.
 */
#include "fuzz.h"

#include <format/elf/elf.h>

static void ask_around(const elf_image *image, uint64_t file_off)
{
    for (uint64_t off = file_off - 2; off != file_off + 2; off++) {
        uint64_t rva = 0;
        (void)elf_rva_from_file_offset(image, off, &rva);
    }
}

static void check_span(spgo_span file, const uint8_t *ptr, size_t len)
{
    FUZZ_CHECK(len == 0 ||
               (ptr >= file.ptr && len <= file.len && (size_t)(ptr - file.ptr) <= file.len - len));
}

static void read_symbols(spgo_span file, const elf_sections *s, uint32_t type)
{
    elf_symbols t;
    if (elf_symbols_open(s, type, &t, NULL) != SPGO_OK)
        return;
    for (size_t i = 0; i < t.count; i++) {
        elf_symbol symbol = elf_symbol_at(&t, i);
        check_span(file, (const uint8_t *)symbol.name.ptr, symbol.name.len);
    }
}

static void read_sections(spgo_span file)
{
    elf_sections s;
    spgo_str name;
    uint32_t crc;
    if (elf_sections_open(file, &s, NULL) != SPGO_OK)
        return;
    for (size_t i = 0; i < s.count; i++) {
        elf_section one = elf_section_at(&s, i);
        elf_compression packing;
        check_span(file, one.data.ptr, one.data.len);
        check_span(file, (const uint8_t *)one.name.ptr, one.name.len);
        if (elf_section_compression(&s, &one, &packing))
            check_span(file, packing.packed.ptr, packing.packed.len);
    }
    if (elf_debuglink(&s, &name, &crc))
        check_span(file, (const uint8_t *)name.ptr, name.len);
    read_symbols(file, &s, ELF_SECTION_TYPE_SYMBOLS);
    read_symbols(file, &s, ELF_SECTION_TYPE_DYNAMIC_SYMBOLS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spgo_span file = {data, size};
    elf_image image;
    spgo_error err = {0};
    read_sections(file);
    if (elf_read(file, &image, &err) != SPGO_OK) {
        FUZZ_CHECK(err.code != SPGO_OK && err.sentence[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(elf_sniff(file));
    FUZZ_CHECK(image.segment_count <= ELF_SEGMENT_MAX && image.build_id_size <= ELF_BUILD_ID_MAX);
    FUZZ_CHECK(image.segments_left_out == 0 || image.segment_count == ELF_SEGMENT_MAX);
    for (size_t i = 0; i < image.segment_count; i++) {
        const elf_segment *s = &image.segments[i];
        ask_around(&image, s->offset);
        ask_around(&image, s->offset + s->file_size);
    }
    return 0;
}
