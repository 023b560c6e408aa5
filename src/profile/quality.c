/* Measures of a profile: see quality.h. */
#include <profile/quality.h>

#include <stdlib.h>

#include <base/fail.h>

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
        all[n++] = (function_density){quality_share(hits, places), hits};
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
    if (r->is_inferred) {
        *tally = r->inferred;
        return SPGO_OK;
    }
    address_profile copy;
    SPGO_TRY(address_profile_copy(&r->counts, &copy, err));
    *tally = (infer_tally){0};
    spgo_code code = infer_repair(&copy, s, d, tally, NULL, NULL, err);
    tally->blocks_after = tally->blocks_measured;
    tally->flow_gap_after = tally->flow_gap_before;
    address_profile_free(&copy);
    return code;
}

/* As llvm-profgen has it, of what was sampled: inference adds counts that no sample told of. Folded
 * files have none for code, so that only inference tells. */
static spgo_code measure_samples(const profile_result *r, symbols *s, code_decoder *d,
                                 double *density, spgo_error *err)
{
    const address_profile *sampled = r->measured.range_count > 0 ? &r->measured : &r->counts;
    correlate_tally tally = {0};
    sampleprof *profile = sampleprof_new(0);
    if (!profile)
        return spgo_fail_nomem(err, "quality", 1);
    spgo_code code = r->is_by_probes
                         ? correlate_probes(sampled, s, d, CORRELATE_PROFGEN, profile, &tally, err)
                         : correlate_lines(sampled, s, d, CORRELATE_PROFGEN, profile, &tally, err);
    if (code == SPGO_OK)
        code = measure_density(profile, density, err);
    sampleprof_free(profile);
    return code;
}

spgo_code quality_measure(const profile_result *r, symbols *s, code_decoder *d, quality *q,
                          spgo_error *err)
{
    const address_tally *t = &r->addresses;
    infer_tally blocks;
    *q = (quality){0};
    SPGO_TRY(measure_samples(r, s, d, &q->density, err));
    SPGO_TRY(measure_blocks(r, s, d, &blocks, err));
    if (q->density > 0 && q->density < QUALITY_DENSITY_THRESHOLD)
        q->more_samples_wanted = QUALITY_DENSITY_THRESHOLD / q->density;
    q->blocks = blocks.blocks;
    q->blocks_before = blocks.blocks_measured;
    q->blocks_after = blocks.blocks_after;
    q->flow_gap_before = blocks.flow_gap_before;
    q->flow_gap_after = blocks.flow_gap_after;
    q->bogus_share = quality_share(t->bogus_range_hits, t->range_hits);
    q->unmapped_share = quality_share(t->no_code_range_hits, t->range_hits);
    q->mismatched_share =
        quality_share(t->source_mismatch_hits + t->target_mismatch_hits, t->branch_hits);
    q->stale_procedures = t->stale_procedures;
    return SPGO_OK;
}
