/* The forms that list ranges and branches by address. */
#include <export/export.h>

#include <inttypes.h>

/* A count of lines, then "begin-last:count" lines. `from`: what offsets count from. */
static void put_ranges(const address_profile *profile, uint64_t from, out *o)
{
    out_u64(o, profile->range_count);
    out_bytes(o, "\n", 1);
    for (size_t i = 0; i < profile->range_count; i++) {
        const address_range *r = &profile->ranges[i];
        out_hex(o, r->begin_rva - from);
        out_bytes(o, "-", 1);
        out_hex(o, r->last_rva - from);
        out_bytes(o, ":", 1);
        out_u64(o, r->count);
        out_bytes(o, "\n", 1);
    }
}

static void put_branch(const address_branch *b, uint64_t source, uint64_t from, out *o)
{
    out_hex(o, source);
    out_bytes(o, "->", 2);
    out_hex(o, b->to_rva - from);
    out_bytes(o, ":", 1);
    out_u64(o, b->count);
    out_bytes(o, "\n", 1);
}

void export_unsymbolized(const address_profile *profile, const symbols *s, out *o)
{
    /* Where llvm-profgen puts a source that is not in the program, before it subtracts. */
    enum { EXTERNAL_ADDR = 1 };
    const uint64_t from = symbols_get_info(s)->text_rva;
    size_t n = 0;
    put_ranges(profile, from, o);
    for (size_t i = 0; i < profile->branch_count; i++)
        n += profile->branches[i].to_rva != SPGO_SPT_OUTSIDE;
    out_u64(o, n);
    out_bytes(o, "\n", 1);
    for (size_t i = 0; i < profile->branch_count; i++) {
        const address_branch *b = &profile->branches[i];
        bool external = b->from_rva == SPGO_SPT_OUTSIDE;
        if (b->to_rva != SPGO_SPT_OUTSIDE)
            put_branch(b, (external ? EXTERNAL_ADDR : b->from_rva) - from, from, o);
    }
}

static bool is_inside(const address_branch *b)
{
    return b->from_rva != SPGO_SPT_OUTSIDE && b->to_rva != SPGO_SPT_OUTSIDE;
}

void export_autofdo(const address_profile *profile, const symbols *s, out *o)
{
    const uint64_t from = 0 - symbols_code(s)->base_addr;
    size_t n = 0;
    put_ranges(profile, from, o);
    out_text(o, "0\n");
    for (size_t i = 0; i < profile->branch_count; i++)
        n += is_inside(&profile->branches[i]);
    out_u64(o, n);
    out_bytes(o, "\n", 1);
    for (size_t i = 0; i < profile->branch_count; i++) {
        const address_branch *b = &profile->branches[i];
        if (is_inside(b))
            put_branch(b, b->from_rva - from, from, o);
    }
}

void export_bolt(const address_profile *profile, const symbols *s, out *o)
{
    const uint64_t base = symbols_code(s)->base_addr;
    for (size_t i = 0; i < profile->branch_count; i++) {
        const address_branch *b = &profile->branches[i];
        if (is_inside(b)) /* mispredictions are not recorded */
            out_printf(o, "B %" PRIx64 " %" PRIx64 " %" PRIu64 " 0\n", base + b->from_rva,
                       base + b->to_rva, b->count);
    }
    for (size_t i = 0; i < profile->range_count; i++) {
        const address_range *r = &profile->ranges[i];
        out_printf(o, "F %" PRIx64 " %" PRIx64 " %" PRIu64 "\n", base + r->begin_rva,
                   base + r->last_rva, r->count);
    }
}
