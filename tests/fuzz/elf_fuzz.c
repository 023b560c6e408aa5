/*
 * ELF: reads the input as an image, and asks for the RVAs around the borders of its segments.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spgo_span file = {data, size};
    elf_image image;
    spgo_error err = {0};
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
