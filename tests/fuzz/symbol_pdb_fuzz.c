/*
 * Symbols of a PDB, as a file or as streams: every unit, all procedures and their hints, in an
 * image that has code wherever the PDB says.
 */
#include "fuzz.h"
#include "fuzz_pdb.h"

#include <stdlib.h>

#include <symbol/procedures.h>
#include <symbol/symbol_internal.h>

enum { MEMORY_MAX = 64 * 1024 * 1024, CODE_RVA = 0x1000, CODE_SIZE = 0x8000 };

static const uint8_t code_bytes[CODE_SIZE];

static void read_units(const symbol_image *image, const symbol_backend *b)
{
    uint32_t last = UINT32_MAX, number;
    for (uint32_t rva = CODE_RVA; rva < CODE_RVA + CODE_SIZE; rva += 8) {
        symbol_unit unit;
        if (!b->unit_at(b->self, rva, &number) || number == last)
            continue;
        last = number;
        if (b->read_unit(b->self, number, &unit, image->mem, NULL, NULL) != SPGO_OK)
            continue;
        for (size_t i = 0; i < unit.run_count; i++) {
            FUZZ_CHECK(unit.runs[i].begin_rva < unit.runs[i].end_rva);
            FUZZ_CHECK(i == 0 || unit.runs[i - 1].end_rva <= unit.runs[i].begin_rva);
            FUZZ_CHECK(unit.runs[i].leaf && unit.runs[i].leaf->function);
        }
    }
}

static void check_row(const symbol_backend *b, const symbol_procedure *p, arena *mem)
{
    bool has_entry = false;
    flow_hints hints = {0};
    for (uint32_t k = 0; k < p->piece_count; k++) {
        FUZZ_CHECK(p->pieces[k].begin_rva < p->pieces[k].end_rva);
        FUZZ_CHECK(k == 0 || p->pieces[k - 1].end_rva <= p->pieces[k].begin_rva);
        has_entry |= p->entry_rva >= p->pieces[k].begin_rva && p->entry_rva < p->pieces[k].end_rva;
    }
    FUZZ_CHECK(has_entry);
    b->hints(b->self, p, &hints, mem);
}

static void list_procedures(const symbol_image *image, const symbol_backend *b)
{
    const symbol_found none = {0};
    symbol_found found = {0};
    procedure_table table;
    if (b->procedures(b->self, &found, image->mem, NULL, NULL) == SPGO_OK &&
        procedure_table_build(image, &found, &none, &table, NULL) == SPGO_OK) {
        for (size_t i = 0; i < table.count; i++) {
            FUZZ_CHECK(i == 0 || table.rows[i - 1].entry_rva < table.rows[i].entry_rva);
            check_row(b, &table.rows[i], image->mem);
        }
        for (size_t i = 0; i < table.piece_count; i++)
            FUZZ_CHECK(i == 0 || table.pieces[i - 1].end_rva <= table.pieces[i].begin_rva);
    }
    free(found.procedures);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes wrapped;
    const symbols_opts opts = {0};
    intern names = {0};
    code_segment segment = {CODE_RVA, {code_bytes, CODE_SIZE}, true};
    symbol_image image = {.debug = fuzz_pdb_file(data, size, &wrapped),
                          .code = {CODE_X64, 0x140000000, &segment, 1},
                          .mem = arena_new(MEMORY_MAX),
                          .names = &names};
    symbol_backend b;
    if (image.mem && symbol_pdb_open(&image, &opts, &b, NULL, NULL) == SPGO_OK) {
        read_units(&image, &b);
        list_procedures(&image, &b);
        b.close(b.self);
    }
    arena_free(image.mem);
    intern_free(&names);
    bytes_free(&wrapped);
    return 0;
}
