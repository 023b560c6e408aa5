/* The forms that list ranges and branches by address. */
#include <export/export.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

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

/* ------------------------------------------------------------------ BOLT */

/* Branches into an address, from its own procedure and from elsewhere. */
typedef struct arrivals {
    uint64_t inner, outer;
} arrivals;

static int compare_targets(const void *pa, const void *pb)
{
    const address_branch *a = pa, *b = pb;
    return (a->to_rva > b->to_rva) - (a->to_rva < b->to_rva);
}

static void add(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

/* Branches to `rva` among those sorted by target, from *at on, which moves behind them. */
static arrivals count_arrivals(const address_branch *by_target, size_t count, size_t *at,
                               uint32_t rva, symbols *s)
{
    arrivals found = {0};
    const symbol_procedure *here = symbols_procedure_at(s, rva);
    while (*at < count && by_target[*at].to_rva < rva)
        ++*at;
    for (; *at < count && by_target[*at].to_rva == rva; ++*at) {
        const address_branch *b = &by_target[*at];
        bool is_inner =
            here && b->from_rva != SPGO_SPT_OUTSIDE && symbols_procedure_at(s, b->from_rva) == here;
        add(is_inner ? &found.inner : &found.outer, b->count);
    }
    return found;
}

/* How many of a range's runs began with a branch from elsewhere: by the share of such branches,
 * since ranges do not remember theirs. */
static uint64_t outer_runs(uint64_t runs, arrivals a)
{
    if (a.outer == 0 || a.inner == 0)
        return a.outer ? runs : 0;
    double outer = (double)a.outer, part = (double)runs * (outer / (outer + (double)a.inner));
    return part < (double)runs ? (uint64_t)(part + 0.5) : runs;
}

static void put_run(char mark, uint64_t base, const address_range *r, uint64_t runs, out *o)
{
    if (runs > 0)
        out_printf(o, "%c %" PRIx64 " %" PRIx64 " %" PRIu64 "\n", mark, base + r->begin_rva,
                   base + r->last_rva, runs);
}

/* F: entered from the same function; f: from elsewhere, as by a return, which tells BOLT that the
 * call before it came back. */
static void put_runs(const address_profile *profile, const address_branch *by_target, symbols *s,
                     out *o)
{
    const uint64_t base = symbols_code(s)->base_addr;
    arrivals a = {0};
    size_t at = 0;
    for (size_t i = 0; i < profile->range_count; i++) {
        const address_range *r = &profile->ranges[i];
        if (i == 0 || r->begin_rva != r[-1].begin_rva)
            a = count_arrivals(by_target, profile->branch_count, &at, r->begin_rva, s);
        uint64_t outer = outer_runs(r->count, a);
        put_run('F', base, r, r->count - outer, o);
        put_run('f', base, r, outer, o);
    }
}

spgo_code export_bolt(const address_profile *profile, symbols *s, out *o, spgo_error *err)
{
    const uint64_t base = symbols_code(s)->base_addr;
    size_t n = profile->branch_count, size_bytes = n * sizeof(address_branch);
    address_branch *by_target = malloc(size_bytes + 1);
    if (!by_target)
        return spgo_fail_nomem(err, "bolt", size_bytes);
    if (n > 0) {
        memcpy(by_target, profile->branches, size_bytes);
        qsort(by_target, n, sizeof *by_target, compare_targets);
    }
    for (size_t i = 0; i < n; i++) { /* mispredictions are not recorded */
        const address_branch *b = &profile->branches[i];
        out_printf(o, "B %" PRIx64 " %" PRIx64 " %" PRIu64 " 0\n",
                   b->from_rva == SPGO_SPT_OUTSIDE ? 0 : base + b->from_rva,
                   b->to_rva == SPGO_SPT_OUTSIDE ? 0 : base + b->to_rva, b->count);
    }
    put_runs(profile, by_target, s, o);
    free(by_target);
    return SPGO_OK;
}
