/* The COFF symbol table, which MinGW's linkers leave in an image. */
#include <format/pe/pe_internal.h>

#include <inttypes.h>

#include <base/fail.h>

enum { SYMBOL_ROW_SIZE = 18, SYMBOL_NAME_SIZE = 8 };

spgo_code pe_symbols_open(const pe_image *image, pe_symbols *out, spgo_error *err)
{
    *out = (pe_symbols){.image = image, .table = {.row_size = SYMBOL_ROW_SIZE}};
    uint64_t off = image->symbol_table_off;
    uint64_t size = (uint64_t)image->symbol_count * SYMBOL_ROW_SIZE;
    if (image->layout != PE_LAYOUT_FILE || off == 0 || size == 0)
        return SPGO_OK;
    if (off > image->bytes.len || size > image->bytes.len - off)
        return spgo_fail(err, SPGO_TRUNCATED, "pe.symbols", image->bytes.len,
                         "the symbol table (%" PRIu32 " rows at 0x%" PRIx64
                         ") reaches behind the end of the file",
                         image->symbol_count, off);
    out->table.bytes = (spgo_span){image->bytes.ptr + off, (size_t)size};
    out->table.off = off;
    out->table.count = image->symbol_count;
    return SPGO_OK;
}

static spgo_str symbol_name(const pe_image *image, const uint8_t *row)
{
    spgo_str name = {NULL, 0};
    if (load_u32(row) == 0)
        (void)pe_string_at(image, load_u32(row + 4), &name);
    else
        name = pe_text((spgo_span){row, SYMBOL_NAME_SIZE});
    return name;
}

bool pe_symbols_next(pe_symbols *s, pe_symbol *out)
{
    if (s->at >= s->table.count)
        return false;
    const uint8_t *row = pe_row(&s->table, s->at++);
    *out = (pe_symbol){.name = symbol_name(s->image, row),
                       .value = load_u32(row + 8),
                       .section = (int16_t)load_u16(row + 12),
                       .type = load_u16(row + 14),
                       .storage_class = row[16]};
    size_t left = s->table.count - s->at, auxiliary = row[17] < left ? row[17] : left;
    out->auxiliary = (spgo_span){row + SYMBOL_ROW_SIZE, auxiliary * SYMBOL_ROW_SIZE};
    s->at += auxiliary;
    if (out->section > 0 && (size_t)out->section <= s->image->section_count) {
        uint32_t start = pe_section_at(s->image, (size_t)out->section - 1).rva;
        out->has_rva = out->value <= UINT32_MAX - start;
        out->rva = out->has_rva ? start + out->value : 0;
    }
    return true;
}
