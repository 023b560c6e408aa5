/* Measures of a profile: see quality.h. */
#include <profile/quality.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* ------------------------------------------------------------------ density */

typedef struct function_density {
    double density;
    uint64_t hits;
} function_density;

enum { INLINE_DEPTH_MAX = 1024 };

/* The body samples of a function and of all that was inlined into it, and at how many places. */
static void count_body(const sampleprof_function *f, int depth, uint64_t *hits, uint64_t *places)
{
    size_t n;
    const sampleprof_line *lines = sampleprof_lines(f, &n);
    for (size_t i = 0; i < n; i++)
        *hits += lines[i].count;
    *places += n;
    const sampleprof_callsite *calls = sampleprof_callsites(f, &n);
    for (size_t i = 0; i < n && depth < INLINE_DEPTH_MAX; i++)
        count_body(calls[i].callee, depth + 1, hits, places);
}

static int densest_first(const void *pa, const void *pb)
{
    const function_density *a = pa, *b = pb;
    if (a->density != b->density)
        return a->density < b->density ? 1 : -1;
    return (a->hits > b->hits) - (a->hits < b->hits);
}

static spgo_code measure_density(const sampleprof *profile, double *density, spgo_error *err)
{
    const double covered = 0.99;
    size_t count = sampleprof_function_count(profile), n = 0;
    uint64_t total = 0, reached = 0;
    function_density *all = malloc((count + 1) * sizeof *all);
    *density = 0;
    if (!all)
        return spgo_fail_nomem(err, "quality", (count + 1) * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        uint64_t hits = 0, places = 0;
        count_body(sampleprof_get_function(profile, i), 0, &hits, &places);
        if (places == 0)
            continue;
        total += hits;
        all[n++] = (function_density){share(hits, places), hits};
    }
    if (n > 0)
        qsort(all, n, sizeof *all, densest_first);
    for (size_t i = 0; i < n && (double)reached < (double)total * covered; i++) {
        reached += all[i].hits;
        *density = all[i].density;
    }
    free(all);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ blocks and staleness */

/* What inference would see, for results that went without. */
static spgo_code measure_blocks(const profile_result *r, symbols *s, code_decoder *d,
                                infer_tally *tally, spgo_error *err)
{
    const address_profile *from = &r->counts;
    if (r->is_inferred) {
        *tally = r->inferred;
        return SPGO_OK;
    }
    address_profile copy = {.range_count = from->range_count, .branch_count = from->branch_count};
    copy.ranges = malloc((copy.range_count + 1) * sizeof *copy.ranges);
    copy.branches = malloc((copy.branch_count + 1) * sizeof *copy.branches);
    spgo_code code = SPGO_NOMEM;
    if (copy.ranges && copy.branches) {
        if (copy.range_count)
            memcpy(copy.ranges, from->ranges, copy.range_count * sizeof *copy.ranges);
        if (copy.branch_count)
            memcpy(copy.branches, from->branches, copy.branch_count * sizeof *copy.branches);
        *tally = (infer_tally){0};
        code = infer_repair(&copy, s, d, tally, NULL, NULL, err);
        tally->blocks_after = tally->blocks_measured;
        tally->flow_gap_after = tally->flow_gap_before;
    } else {
        (void)spgo_fail_nomem(err, "quality", copy.range_count * sizeof *copy.ranges);
    }
    address_profile_free(&copy);
    return code;
}

static bool fits_code(code_decoder *d, const address_branch *b)
{
    code_instruction in = code_decode(d, b->from_rva);
    return code_is_transfer(in.kind) &&
           (!in.has_target || b->to_rva == SPGO_SPT_OUTSIDE || in.target_rva == b->to_rva);
}

static uint64_t count_stale(const address_profile *profile, symbols *s, code_decoder *d)
{
    const symbol_procedure *current = NULL;
    uint64_t stale = 0, hits = 0, misfits = 0;
    for (size_t i = 0; i < profile->branch_count; i++) {
        const address_branch *b = &profile->branches[i];
        if (b->from_rva == SPGO_SPT_OUTSIDE)
            continue;
        const symbol_procedure *p = symbols_procedure_at(s, b->from_rva);
        if (p != current) {
            stale += misfits > hits / 2;
            current = p;
            hits = misfits = 0;
        }
        hits += b->count;
        misfits += fits_code(d, b) ? 0 : b->count;
    }
    return stale + (misfits > hits / 2);
}

spgo_code quality_measure(const profile_result *r, symbols *s, code_decoder *d, quality *q,
                          spgo_error *err)
{
    const address_tally *t = &r->addresses;
    infer_tally blocks;
    *q = (quality){0};
    SPGO_TRY(measure_density(r->profile, &q->density, err));
    SPGO_TRY(measure_blocks(r, s, d, &blocks, err));
    if (q->density > 0 && q->density < QUALITY_DENSITY_THRESHOLD)
        q->more_samples_wanted = QUALITY_DENSITY_THRESHOLD / q->density;
    q->blocks = blocks.blocks;
    q->blocks_before = blocks.blocks_measured;
    q->blocks_after = blocks.blocks_after;
    q->flow_gap_before = blocks.flow_gap_before;
    q->flow_gap_after = blocks.flow_gap_after;
    q->bogus_share = share(t->bogus_range_hits, t->range_hits);
    q->unmapped_share = share(t->no_code_range_hits, t->range_hits);
    q->mismatched_share = share(t->source_mismatch_hits + t->target_mismatch_hits, t->branch_hits);
    q->stale_procedures = count_stale(&r->counts, s, d);
    return SPGO_OK;
}
