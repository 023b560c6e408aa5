/* ARM64: rows of the function table, packed into a word or with a record of their own. */
#include <format/pe/pe_internal.h>

#include <inttypes.h>

#include <base/fail.h>

enum {
    KIND_XDATA = 0,
    KIND_PACKED = 1,
    KIND_PACKED_FRAGMENT = 2, /* without prolog and epilog */
    CODE_END_C = 0xe5,        /* as the first code: the prolog stands elsewhere */
    ARM64_ROW_SIZE = 8,
    INSTRUCTION_SIZE = 4
};

static uint32_t bits(uint32_t word, unsigned from, unsigned count)
{
    return word >> from & ((1u << count) - 1);
}

static bool take_xdata(reader *r, pe_arm64_function *out)
{
    uint32_t head = reader_u32(r);
    out->size_bytes = bits(head, 0, 18) * INSTRUCTION_SIZE;
    out->version = (uint8_t)bits(head, 18, 2);
    out->has_handler = bits(head, 20, 1);
    out->has_single_epilog = bits(head, 21, 1);
    out->epilog_count = bits(head, 22, 5);
    uint32_t code_words = bits(head, 27, 5);
    if (out->epilog_count == 0 && code_words == 0) {
        uint32_t more = reader_u32(r); /* the numbers did not fit */
        out->epilog_count = bits(more, 0, 16);
        code_words = bits(more, 16, 8);
    }
    if (!out->has_single_epilog)
        out->epilogs = reader_bytes(r, 4 * (uint64_t)out->epilog_count);
    out->codes = reader_bytes(r, 4 * (uint64_t)code_words);
    if (out->has_handler)
        out->handler_rva = reader_u32(r);
    out->is_fragment = out->codes.len > 0 && out->codes.ptr[0] == CODE_END_C;
    return r->code == SPGO_OK;
}

spgo_code pe_arm64_function_at(const pe_image *image, const pe_table *t, size_t index,
                               pe_arm64_function *out, spgo_error *err)
{
    static const char where[] = "pe.functions";
    const uint8_t *row = pe_row(t, index);
    const uint64_t off = t->off + (uint64_t)index * ARM64_ROW_SIZE;
    uint32_t word = load_u32(row + 4), kind = bits(word, 0, 2);
    *out = (pe_arm64_function){.begin_rva = load_u32(row)};
    if (kind == KIND_PACKED || kind == KIND_PACKED_FRAGMENT) {
        out->is_packed = true;
        out->is_fragment = kind == KIND_PACKED_FRAGMENT;
        out->packed = word;
        out->size_bytes = bits(word, 2, 11) * INSTRUCTION_SIZE;
        return SPGO_OK;
    }
    if (kind != KIND_XDATA)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, off + 4,
                         "row %zu has the reserved kind 3 (word 0x%08" PRIx32 ")", index, word);
    out->xdata_rva = word;
    reader r = pe_reader(image, pe_rest_at_rva(image, word));
    if (!take_xdata(&r, out))
        return spgo_fail(err, SPGO_CORRUPT, where, off + 4,
                         "the unwind information of row %zu (RVA 0x%" PRIx32
                         ") does not lie in one section of the image",
                         index, word);
    if (out->version != 0)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, off + 4,
                         "the unwind information of row %zu has version %u; 0 is read", index,
                         out->version);
    return SPGO_OK;
}
