/*
 * PE: reads the input as an image, as a file and as a loader leaves it, and asks for everything.
 * The functions must be sets of ranges that neither touch nor leave the image.
 */
#include "fuzz.h"

#include <format/pe/pe_dump.h>

static void dump_all(out *o, json *j, const pe_image *image)
{
    pe_dump_header(o, j, image);
    pe_dump_directories(o, j, image);
    pe_dump_sections(o, j, image);
    (void)pe_dump_debug(o, j, image, NULL);
    (void)pe_dump_exports(o, j, image, NULL);
    (void)pe_dump_symbols(o, j, image, NULL);
    (void)pe_dump_code_ranges(o, j, image, NULL);
    (void)pe_dump_functions(o, j, image, NULL, NULL);
}

static void read_unwind(const pe_image *image)
{
    pe_table t;
    if (image->machine != PE_MACHINE_AMD64 || pe_functions_open(image, &t, NULL) != SPGO_OK)
        return;
    for (size_t i = 0; i < t.count; i++) {
        pe_unwind u;
        pe_unwind_code c;
        size_t slot = 0;
        if (pe_unwind_read(image, pe_x64_function_at(&t, i).unwind_rva, &u, NULL) != SPGO_OK)
            continue;
        while (pe_unwind_code_next(&u, &slot, &c))
            continue;
        FUZZ_CHECK(slot <= u.code_count);
        fuzz_read(u.handler_data);
    }
}

static void check_functions(const pe_image *image)
{
    pe_extents e;
    pe_function f;
    size_t at = 0;
    arena *a = arena_new(0);
    FUZZ_CHECK(a);
    if (pe_extents_build(image, a, &e, NULL, NULL) == SPGO_OK) {
        while (pe_function_next(&e, &at, &f)) {
            FUZZ_CHECK(f.piece_count > 0);
            for (size_t i = 0; i < f.piece_count; i++) {
                FUZZ_CHECK(f.pieces[i].begin_rva < f.pieces[i].end_rva);
                FUZZ_CHECK(f.pieces[i].end_rva <= image->size_of_image);
                FUZZ_CHECK(i == 0 || f.pieces[i - 1].end_rva < f.pieces[i].begin_rva);
            }
        }
        FUZZ_CHECK(at == e.count);
    }
    arena_free(a);
}

static void check_sections(const pe_image *image)
{
    for (size_t i = 0; i < image->section_count; i++) {
        pe_section s = pe_section_at(image, i);
        uint64_t off;
        size_t index;
        fuzz_read(pe_section_data(image, &s));
        if (pe_section_of_rva(image, s.rva, &index))
            FUZZ_CHECK(index < image->section_count);
        if (pe_offset_from_rva(image, s.rva, &off))
            FUZZ_CHECK(off < image->bytes.len);
    }
}

static void read_image(spgo_span view, pe_layout layout)
{
    pe_image image;
    spgo_error err = {0};
    if (pe_open(view, layout, &image, &err) != SPGO_OK) {
        FUZZ_CHECK(err.code != SPGO_OK && err.sentence[0] != '\0');
        return;
    }
    FUZZ_CHECK(pe_sniff(view));
    out o;
    FUZZ_CHECK(out_init(&o, fuzz_null_sink(), NULL) == SPGO_OK);
    json j = json_on(&o, false);
    dump_all(&o, NULL, &image);
    json_open_object(&j);
    dump_all(NULL, &j, &image);
    json_close_object(&j);
    out_free(&o);
    read_unwind(&image);
    check_functions(&image);
    check_sections(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spgo_span view = {data, size};
    read_image(view, PE_LAYOUT_FILE);
    read_image(view, PE_LAYOUT_MAPPED);
    return 0;
}
