/* x64: the function table and what its rows point to. */
#include <format/pe/pe_internal.h>

#include <inttypes.h>

#include <base/fail.h>

enum {
    X64_ROW_SIZE = 12,
    ARM64_ROW_SIZE = 8,
    INDIRECT = 1 /* of unwind_rva: it points to another row */
};

spgo_code pe_functions_open(const pe_image *image, pe_table *out, spgo_error *err)
{
    const bool is_x64 = image->machine == PE_MACHINE_AMD64;
    const pe_directory *d = &image->directories[PE_DIRECTORY_EXCEPTION];
    *out = (pe_table){.row_size = is_x64 ? X64_ROW_SIZE : ARM64_ROW_SIZE};
    if (d->rva == 0 || d->size_bytes == 0)
        return SPGO_OK;
    if (!is_x64 && image->machine != PE_MACHINE_ARM64)
        return spgo_fail(err, SPGO_UNSUPPORTED, "pe.functions", image->header_off + 4,
                         "function tables are read for x64 and ARM64, and the machine is 0x%x",
                         image->machine);
    return pe_directory_table(image, PE_DIRECTORY_EXCEPTION, out->row_size, out, err);
}

static pe_runtime_function take_runtime_function(reader *r)
{
    pe_runtime_function f;
    f.begin_rva = reader_u32(r);
    f.end_rva = reader_u32(r);
    f.unwind_rva = reader_u32(r);
    return f;
}

pe_runtime_function pe_x64_function_at(const pe_table *t, size_t index)
{
    reader r = reader_from((spgo_span){pe_row(t, index), X64_ROW_SIZE}, 0);
    return take_runtime_function(&r);
}

/* ------------------------------------------------------------------ unwind information */

static spgo_code unwind_outside(uint32_t unwind_rva, spgo_error *err)
{
    return spgo_fail(err, SPGO_CORRUPT, "pe.unwind", SPGO_NO_OFFSET,
                     "the unwind information at RVA 0x%" PRIx32
                     " does not lie in one section of the image",
                     unwind_rva);
}

static void take_tail(reader *r, pe_unwind *out)
{
    if (out->flags & PE_UNWIND_CHAINED) {
        out->chained = take_runtime_function(r);
    } else if (out->flags & (PE_UNWIND_EXCEPTION_HANDLER | PE_UNWIND_TERMINATE_HANDLER)) {
        out->handler_rva = reader_u32(r);
        out->handler_data = reader_bytes(r, reader_left(r));
    }
}

spgo_code pe_unwind_read(const pe_image *image, uint32_t unwind_rva, pe_unwind *out,
                         spgo_error *err)
{
    static const char where[] = "pe.unwind";
    *out = (pe_unwind){0};
    spgo_span rest = pe_rest_at_rva(image, unwind_rva);
    if (rest.len < 4)
        return unwind_outside(unwind_rva, err);
    reader r = pe_reader(image, rest);
    uint8_t kind = reader_u8(&r);
    out->version = kind & 7;
    out->flags = kind >> 3;
    out->prolog_size = reader_u8(&r);
    out->code_count = reader_u8(&r);
    uint8_t frame = reader_u8(&r);
    out->frame_register = frame & 15;
    out->frame_offset = frame >> 4;
    if (out->version != 1 && out->version != 2)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, pe_offset_of(image, rest.ptr),
                         "unwind information of version %u; 1 and 2 are read", out->version);
    out->codes = reader_bytes(&r, 2 * (size_t)out->code_count);
    reader_skip(&r, out->code_count % 2 * 2); /* what follows is aligned */
    take_tail(&r, out);
    return r.code == SPGO_OK ? SPGO_OK : unwind_outside(unwind_rva, err);
}

/* How many slots a code takes, and 0 for an unknown one. */
static size_t slots_of(unsigned op, unsigned info)
{
    static const uint8_t slots[] = {1, 2, 1, 1, 2, 3, 2, 3, 2, 3, 1};
    if (op == PE_UNWIND_ALLOC_LARGE && info > 1)
        return 0;
    if (op == PE_UNWIND_ALLOC_LARGE && info == 1)
        return 3;
    return op < sizeof slots ? slots[op] : 0;
}

static uint32_t unwind_value(const pe_unwind *u, const pe_unwind_code *c, const uint8_t *operand,
                             size_t slots)
{
    uint32_t word = slots == 3 ? load_u32(operand) : slots == 2 ? load_u16(operand) : 0;
    switch (c->op) {
    case PE_UNWIND_ALLOC_SMALL:
        return c->info * 8u + 8;
    case PE_UNWIND_SET_FPREG:
        return u->frame_offset * 16u;
    case PE_UNWIND_ALLOC_LARGE:
    case PE_UNWIND_SAVE_NONVOL:
        return slots == 2 ? word * 8 : word;
    case PE_UNWIND_SAVE_XMM128:
        return word * 16;
    default:
        return word;
    }
}

bool pe_unwind_code_next(const pe_unwind *u, size_t *slot, pe_unwind_code *out)
{
    size_t left = u->codes.len / 2 - *slot;
    if (left == 0)
        return false;
    const uint8_t *p = u->codes.ptr + 2 * *slot;
    out->prolog_off = p[0];
    out->op = p[1] & 15;
    out->info = p[1] >> 4;
    size_t slots = slots_of(out->op, out->info);
    if (slots == 0 || slots > left)
        return false;
    out->value = unwind_value(u, out, p + 2, slots);
    *slot += slots;
    return true;
}

/* ------------------------------------------------------------------ chains */

/* The row behind an indirection. */
static spgo_code follow_indirection(const pe_image *image, pe_runtime_function *row,
                                    spgo_error *err)
{
    uint32_t rva = row->unwind_rva & ~(uint32_t)INDIRECT;
    spgo_span bytes = {NULL, 0};
    if (!pe_span_at_rva(image, rva, X64_ROW_SIZE, &bytes))
        return unwind_outside(rva, err);
    reader r = pe_reader(image, bytes);
    *row = take_runtime_function(&r);
    return SPGO_OK;
}

spgo_code pe_x64_primary(const pe_image *image, const pe_runtime_function *row,
                         pe_runtime_function *out, spgo_error *err)
{
    *out = *row;
    for (int step = 0; step <= PE_CHAIN_MAX; step++) {
        if (out->unwind_rva & INDIRECT) {
            SPGO_TRY(follow_indirection(image, out, err));
            continue;
        }
        pe_unwind u;
        SPGO_TRY(pe_unwind_read(image, out->unwind_rva, &u, err));
        if (!(u.flags & PE_UNWIND_CHAINED))
            return SPGO_OK;
        *out = u.chained;
    }
    uint64_t off = SPGO_NO_OFFSET;
    (void)pe_offset_from_rva(image, row->unwind_rva & ~(uint32_t)INDIRECT, &off);
    return spgo_fail(err, SPGO_CORRUPT, "pe.unwind", off,
                     "the function at RVA 0x%" PRIx32 " is chained over more than %d steps: a loop",
                     row->begin_rva, PE_CHAIN_MAX);
}
