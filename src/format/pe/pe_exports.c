/* The export directory: functions by ordinal, and names that point to them. */
#include <format/pe/pe_internal.h>

#include <inttypes.h>

#include <base/fail.h>

enum { EXPORT_DIRECTORY_SIZE = 40 };

/* `count` rows at an RVA; the count stands in the directory at `field`. */
static spgo_code open_part(const pe_image *image, uint64_t directory_off, unsigned field,
                           const char *what, uint32_t rva, pe_table *t, spgo_error *err)
{
    if (t->count == 0)
        return SPGO_OK;
    if (!pe_span_at_rva(image, rva, (uint64_t)t->count * t->row_size, &t->bytes))
        return spgo_fail(err, SPGO_CORRUPT, "pe.exports", directory_off + field,
                         "the %s (%zu rows at RVA 0x%" PRIx32
                         ") do not lie in one section of the image",
                         what, t->count, rva);
    t->off = pe_offset_of(image, t->bytes.ptr);
    return SPGO_OK;
}

spgo_code pe_exports_open(const pe_image *image, pe_exports *out, spgo_error *err)
{
    *out = (pe_exports){.image = image, .directory = image->directories[PE_DIRECTORY_EXPORT]};
    if (out->directory.rva == 0)
        return SPGO_OK;
    spgo_span head = {NULL, 0};
    if (!pe_span_at_rva(image, out->directory.rva, EXPORT_DIRECTORY_SIZE, &head))
        return spgo_fail(err, SPGO_CORRUPT, "pe.exports", SPGO_NO_OFFSET,
                         "the export directory (at RVA 0x%" PRIx32
                         ") does not lie in one section of the image",
                         out->directory.rva);
    reader r = pe_reader(image, head);
    uint64_t off = reader_offset(&r);
    reader_skip(&r, 12); /* flags, time stamp, version */
    uint32_t name_rva = reader_u32(&r);
    out->ordinal_base = reader_u32(&r);
    out->functions = (pe_table){.row_size = 4, .count = reader_u32(&r)};
    out->names = (pe_table){.row_size = 4, .count = reader_u32(&r)};
    out->name_indices = (pe_table){.row_size = 2, .count = out->names.count};
    uint32_t functions_rva = reader_u32(&r);
    uint32_t names_rva = reader_u32(&r);
    uint32_t indices_rva = reader_u32(&r);
    (void)pe_text_at_rva(image, name_rva, &out->dll_name);
    SPGO_TRY(open_part(image, off, 20, "functions", functions_rva, &out->functions, err));
    SPGO_TRY(open_part(image, off, 24, "names", names_rva, &out->names, err));
    return open_part(image, off, 24, "indices of names", indices_rva, &out->name_indices, err);
}

pe_export pe_export_at(const pe_exports *e, size_t index)
{
    pe_export x = {.ordinal = e->ordinal_base + (uint32_t)index,
                   .rva = load_u32(pe_row(&e->functions, index))};
    /* A function does not lie in the directory: such an RVA is that of a forwarder's text. */
    x.is_forwarder =
        x.rva >= e->directory.rva && x.rva - e->directory.rva < e->directory.size_bytes;
    if (x.is_forwarder && !pe_text_at_rva(e->image, x.rva, &x.forwarder))
        x.forwarder = (spgo_str){NULL, 0};
    return x;
}

pe_export pe_export_by_name(const pe_exports *e, size_t index)
{
    uint16_t function = load_u16(pe_row(&e->name_indices, index));
    pe_export x = {.ordinal = e->ordinal_base + function};
    if (function < e->functions.count)
        x = pe_export_at(e, function);
    uint32_t name_rva = load_u32(pe_row(&e->names, index));
    if (!pe_text_at_rva(e->image, name_rva, &x.name))
        x.name = (spgo_str){NULL, 0};
    return x;
}
