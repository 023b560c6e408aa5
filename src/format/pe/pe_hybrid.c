/*
 * Images with code of two machines. The load configuration names their metadata, whose first words
 * are the same in all versions: a map of which ranges are code of which machine.
 */
#include <format/pe/pe_internal.h>

#include <inttypes.h>

#include <base/fail.h>

enum {
    METADATA_FIELD_32 = 124, /* CHPEMetadataPointer in the load configuration */
    METADATA_FIELD_64 = 200,
    CODE_RANGE_SIZE = 8,
    CODE_KIND_MASK = 3
};

/* The metadata's virtual address: 0 if the load configuration is too short to name any. */
static uint64_t metadata_address(const pe_image *image)
{
    uint32_t rva = image->directories[PE_DIRECTORY_LOAD_CONFIG].rva;
    if (rva == 0)
        return 0;
    reader r = pe_reader(image, pe_rest_at_rva(image, rva));
    size_t field = image->is_64bit ? METADATA_FIELD_64 : METADATA_FIELD_32;
    size_t field_size = image->is_64bit ? 8 : 4;
    /* Its own size counts: that of the directory is a constant in old 32-bit images. */
    if (reader_u32(&r) < field + field_size)
        return 0;
    reader_seek(&r, field);
    return reader_ptr(&r, (unsigned)field_size);
}

spgo_code pe_hybrid_read(const pe_image *image, pe_hybrid *out, spgo_error *err)
{
    static const char where[] = "pe.hybrid";
    *out = (pe_hybrid){.code_ranges = {.row_size = CODE_RANGE_SIZE}};
    uint64_t address = metadata_address(image);
    if (address == 0)
        return SPGO_OK;
    uint64_t rva = address - image->image_base;
    spgo_span head = {NULL, 0};
    if (rva > UINT32_MAX || !pe_span_at_rva(image, (uint32_t)rva, 12, &head))
        return spgo_fail(err, SPGO_CORRUPT, where, SPGO_NO_OFFSET,
                         "the hybrid metadata (address 0x%" PRIx64 ") does not lie in the image",
                         address);
    out->metadata_rva = (uint32_t)rva;
    reader r = pe_reader(image, head);
    out->version = reader_u32(&r);
    if (!image->is_64bit)
        return SPGO_OK;
    pe_table *t = &out->code_ranges;
    uint32_t ranges_rva = reader_u32(&r);
    t->count = reader_u32(&r);
    if (!pe_span_at_rva(image, ranges_rva, (uint64_t)t->count * CODE_RANGE_SIZE, &t->bytes)) {
        size_t count = t->count;
        t->count = 0;
        return spgo_fail(err, SPGO_CORRUPT, where, pe_offset_of(image, head.ptr) + 8,
                         "the map of code ranges (%zu rows at RVA 0x%" PRIx32
                         ") does not lie in the image",
                         count, ranges_rva);
    }
    t->off = t->count > 0 ? pe_offset_of(image, t->bytes.ptr) : 0;
    return SPGO_OK;
}

pe_code_range pe_code_range_at(const pe_hybrid *h, size_t index)
{
    const uint8_t *row = pe_row(&h->code_ranges, index);
    uint32_t word = load_u32(row);
    return (pe_code_range){.begin_rva = word & ~(uint32_t)CODE_KIND_MASK,
                           .size_bytes = load_u32(row + 4),
                           .kind = (pe_code_kind)(word & CODE_KIND_MASK)};
}
