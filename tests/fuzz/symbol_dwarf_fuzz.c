/*
 * DWARF: opens the input as an image, reads every unit and all procedures, also those of its
 * symbol table and .eh_frame.
 */
#include "fuzz.h"

#include <stdlib.h>

#include <symbol/image.h>

enum { MEMORY_MAX = 64 * 1024 * 1024, UNITS_ASKED_MAX = 1024 };

static void read_units(const symbol_image *image, const symbol_backend *b)
{
    uint32_t last = UINT32_MAX;
    size_t asked = 0;
    for (size_t i = 0; i < image->code.segment_count; i++) {
        const code_segment *s = &image->code.segments[i];
        for (uint64_t at = 0; at < s->bytes.len && asked < UNITS_ASKED_MAX; at += 16) {
            uint32_t number;
            symbol_unit unit;
            if (!b->unit_at(b->self, (uint32_t)(s->rva + at), &number) || number == last)
                continue;
            last = number;
            asked++;
            if (b->read_unit(b->self, number, &unit, image->mem, NULL, NULL) != SPGO_OK)
                continue;
            for (size_t k = 0; k < unit.run_count; k++) {
                FUZZ_CHECK(unit.runs[k].begin_rva < unit.runs[k].end_rva);
                FUZZ_CHECK(k == 0 || unit.runs[k - 1].end_rva <= unit.runs[k].begin_rva);
                FUZZ_CHECK(unit.runs[k].leaf && unit.runs[k].leaf->function);
            }
        }
    }
}

static void check_procedures(const symbol_found *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const symbol_procedure *p = &found->procedures[i];
        bool has_entry = false;
        for (uint32_t k = 0; k < p->piece_count; k++) {
            FUZZ_CHECK(p->pieces[k].begin_rva < p->pieces[k].end_rva);
            has_entry |=
                p->entry_rva >= p->pieces[k].begin_rva && p->entry_rva < p->pieces[k].end_rva;
        }
        FUZZ_CHECK(has_entry);
    }
}

static void ask(const symbol_image *image)
{
    const symbols_opts opts = {0};
    symbol_backend b = {0};
    symbol_found found = {0};
    if (symbol_dwarf_open(image, &opts, &b, NULL, NULL) == SPGO_OK) {
        read_units(image, &b);
        (void)b.procedures(b.self, &found, image->mem, NULL, NULL);
        b.close(b.self);
    }
    if (!image->is_pe)
        (void)symbol_elf_procedures(image, &found, NULL, NULL);
    check_procedures(&found);
    free(found.procedures);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    intern names = {0};
    symbols_info info = {0};
    symbol_image image = {.mem = arena_new(MEMORY_MAX), .names = &names};
    if (!image.mem)
        return 0;
    if (image_read((spgo_span){data, size}, &image, &info, NULL, NULL) == SPGO_OK)
        ask(&image);
    arena_free(image.mem);
    intern_free(&names);
    return 0;
}
