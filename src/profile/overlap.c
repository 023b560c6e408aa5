/* Both profiles are sorted by name, place and callee: everything is one merge. */
#include <profile/overlap.h>

#include <base/saturate.h>
#include <base/text.h>

#include <math.h>
#include <stdlib.h>

#define WHERE "overlap"

/* Sums of fractions are this far from what they should be at most; percentages are shown with three
 * digits. */
static const double epsilon = 0.000005;

/* ------------------------------------------------------------------ the walk */

typedef struct walk {
    overlap_visit *visit;
    void *ctx;
} walk;

static int order_places(sampleprof_place a, sampleprof_place b)
{
    uint64_t key_a = (uint64_t)a.line_offset << 32 | a.discriminator;
    uint64_t key_b = (uint64_t)b.line_offset << 32 | b.discriminator;
    return (key_a > key_b) - (key_a < key_b);
}

static void walk_lines(const walk *w, const sampleprof_function *a, const sampleprof_function *b,
                       unsigned depth)
{
    size_t count_a = 0, count_b = 0;
    const sampleprof_line *line_a = a ? sampleprof_lines(a, &count_a) : NULL;
    const sampleprof_line *line_b = b ? sampleprof_lines(b, &count_b) : NULL;
    size_t i = 0, j = 0;
    while (i < count_a || j < count_b) {
        int order = j == count_b   ? -1
                    : i == count_a ? 1
                                   : order_places(line_a[i].place, line_b[j].place);
        overlap_block block = {.depth = depth, .in_a = order <= 0, .in_b = order >= 0};
        block.place = block.in_a ? line_a[i].place : line_b[j].place;
        block.count_a = block.in_a ? line_a[i++].count : 0;
        block.count_b = block.in_b ? line_b[j++].count : 0;
        w->visit(w->ctx, &block);
    }
}

static int order_sites(const sampleprof_callsite *a, const sampleprof_callsite *b)
{
    int order = order_places(a->place, b->place);
    return order ? order
                 : sampleprof_compare_names(sampleprof_name(a->callee), sampleprof_name(b->callee));
}

static void walk_function(const walk *w, const sampleprof_function *a, const sampleprof_function *b,
                          unsigned depth)
{
    walk_lines(w, a, b, depth);
    size_t count_a = 0, count_b = 0;
    const sampleprof_callsite *site_a = a ? sampleprof_callsites(a, &count_a) : NULL;
    const sampleprof_callsite *site_b = b ? sampleprof_callsites(b, &count_b) : NULL;
    size_t i = 0, j = 0;
    while (i < count_a || j < count_b) {
        int order = j == count_b ? -1 : i == count_a ? 1 : order_sites(&site_a[i], &site_b[j]);
        overlap_block block = {.depth = depth, .in_a = order <= 0, .in_b = order >= 0};
        block.place = block.in_a ? site_a[i].place : site_b[j].place;
        block.callee_a = block.in_a ? site_a[i++].callee : NULL;
        block.callee_b = block.in_b ? site_b[j++].callee : NULL;
        w->visit(w->ctx, &block);
        if (order == 0)
            walk_function(w, block.callee_a, block.callee_b, depth + 1);
    }
}

void overlap_walk(const sampleprof_function *a, const sampleprof_function *b, overlap_visit *visit,
                  void *ctx)
{
    const walk w = {visit, ctx};
    walk_function(&w, a, b, 0);
}

/* ------------------------------------------------------------------ sums */

static void add_to(uint64_t *sum, uint64_t count)
{
    *sum = saturating_add(*sum, count);
}

typedef struct function_sums {
    uint64_t samples, max_count, hot_blocks;
} function_sums;

static void add_function(function_sums *s, const sampleprof_function *f, uint64_t hot_count)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (size_t i = 0; i < count; i++) {
        add_to(&s->samples, lines[i].count);
        s->max_count = lines[i].count > s->max_count ? lines[i].count : s->max_count;
        s->hot_blocks += lines[i].count >= hot_count;
    }
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    for (size_t i = 0; i < count; i++)
        add_function(s, sites[i].callee, hot_count);
}

static function_sums sums_of(const sampleprof_function *f, uint64_t hot_count)
{
    function_sums s = {0};
    if (f)
        add_function(&s, f, hot_count);
    return s;
}

uint64_t overlap_samples(const sampleprof_function *f)
{
    return sums_of(f, UINT64_MAX).samples;
}

static uint64_t samples_of_all(const sampleprof *p)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < sampleprof_function_count(p); i++)
        add_to(&samples, overlap_samples(sampleprof_get_function(p, i)));
    return samples;
}

static double share_of(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0.0;
}

/* ------------------------------------------------------------------ comparing */

typedef struct comparing {
    overlap_result *r;
    overlap_function *f;
    double distance; /* sum of |share_a - share_b| over the blocks of f */
    uint64_t samples_overlap, samples_union;
} comparing;

static void count_in(overlap_set *set, bool in_a, bool in_b, uint64_t n)
{
    set->both += in_a && in_b ? n : 0;
    set->only_a += in_a && !in_b ? n : 0;
    set->only_b += in_b && !in_a ? n : 0;
}

/* n blocks whose counts, taken together, are hot or not. */
static void count_hot_blocks(overlap_result *r, uint64_t count_a, uint64_t count_b, uint64_t n)
{
    count_in(&r->hot_blocks, count_a >= r->hot_count_a, count_b >= r->hot_count_b, n);
}

static void compare_block(void *ctx, const overlap_block *block)
{
    comparing *c = ctx;
    function_sums a = {.samples = block->count_a, .hot_blocks = 1};
    function_sums b = {.samples = block->count_b, .hot_blocks = 1};
    if (block->callee_a && block->callee_b)
        return; /* its blocks follow */
    if (block->callee_a || block->callee_b) {
        a = sums_of(block->callee_a, c->r->hot_count_a);
        b = sums_of(block->callee_b, c->r->hot_count_b);
    }
    if (!block->in_b)
        add_to(&c->f->unique_a, a.samples);
    if (!block->in_a)
        add_to(&c->f->unique_b, b.samples);
    add_to(&c->f->samples_overlap, a.samples < b.samples ? a.samples : b.samples);
    add_to(&c->f->samples_union, a.samples > b.samples ? a.samples : b.samples);
    c->distance +=
        fabs(share_of(a.samples, c->f->samples_a) - share_of(b.samples, c->f->samples_b));
    count_hot_blocks(c->r, a.samples, b.samples, block->in_a ? a.hot_blocks : b.hot_blocks);
}

/* Fills in f, a function that is in a, in b or in both. */
static void compare_function(comparing *c, overlap_function *f, const sampleprof_function *a,
                             const sampleprof_function *b)
{
    overlap_result *r = c->r;
    function_sums sums_a = sums_of(a, r->hot_count_a);
    function_sums sums_b = sums_of(b, r->hot_count_b);
    *f = (overlap_function){.name = sampleprof_name(a ? a : b),
                            .in_a = a,
                            .in_b = b,
                            .samples_a = sums_a.samples,
                            .samples_b = sums_b.samples,
                            .weight_a = share_of(sums_a.samples, r->samples_a),
                            .weight_b = share_of(sums_b.samples, r->samples_b)};
    c->f = f;
    c->distance = 0;
    if (a && b) {
        overlap_walk(a, b, compare_block, c);
        double inside = (2.0 - c->distance) / 2;
        f->similarity =
            (fabs(inside) < epsilon ? 0 : inside) * (1 - fabs(f->weight_a - f->weight_b));
    } else {
        f->unique_a = sums_a.samples;
        f->unique_b = sums_b.samples;
        f->samples_union = saturating_add(sums_a.samples, sums_b.samples);
        count_hot_blocks(r, sums_a.samples, sums_b.samples,
                         a ? sums_a.hot_blocks : sums_b.hot_blocks);
    }
    double weight = (f->weight_a + f->weight_b) / 2;
    f->difference = weight * (1 - f->similarity);
    r->program += weight * f->similarity;
    add_to(&r->unique_a, f->unique_a);
    add_to(&r->unique_b, f->unique_b);
    add_to(&c->samples_overlap, f->samples_overlap);
    add_to(&c->samples_union, f->samples_union);
    count_in(&r->functions, a, b, 1);
    count_in(&r->hot_functions, a && sums_a.max_count >= r->hot_count_a,
             b && sums_b.max_count >= r->hot_count_b, 1);
}

static void finish_set(overlap_set *set)
{
    set->share = share_of(set->both, set->both + set->only_a + set->only_b);
}

static int order_functions(const void *a, const void *b)
{
    const overlap_function *function_a = a, *function_b = b;
    if (function_a->difference != function_b->difference)
        return function_a->difference > function_b->difference ? -1 : 1;
    return sampleprof_compare_names(function_a->name, function_b->name);
}

static void compare_all(overlap_result *r, const sampleprof *a, const sampleprof *b)
{
    comparing c = {.r = r};
    size_t count_a = sampleprof_function_count(a);
    size_t count_b = sampleprof_function_count(b);
    size_t i = 0, j = 0;
    while (i < count_a || j < count_b) {
        const sampleprof_function *in_a = i < count_a ? sampleprof_get_function(a, i) : NULL;
        const sampleprof_function *in_b = j < count_b ? sampleprof_get_function(b, j) : NULL;
        int order = !in_b ? -1
                    : !in_a
                        ? 1
                        : sampleprof_compare_names(sampleprof_name(in_a), sampleprof_name(in_b));
        i += order <= 0;
        j += order >= 0;
        compare_function(&c, &r->items[r->item_count++], order <= 0 ? in_a : NULL,
                         order >= 0 ? in_b : NULL);
    }
    if (fabs(r->program - 1) < epsilon)
        r->program = 1;
    r->sample_overlap = share_of(c.samples_overlap, c.samples_union);
    finish_set(&r->functions);
    finish_set(&r->hot_functions);
    finish_set(&r->hot_blocks);
    qsort(r->items, r->item_count, sizeof *r->items, order_functions);
}

static spgo_code check_kinds(const sampleprof *a, const sampleprof *b, spgo_error *err)
{
    if (sampleprof_has_probes(a) != sampleprof_has_probes(b))
        return spgo_fail(err, SPGO_MISMATCH, WHERE, SPGO_NO_OFFSET,
                         "a profile of pseudo probes and one of lines have no places in common");
    if (sampleprof_has_md5_names(a) != sampleprof_has_md5_names(b))
        return spgo_fail(err, SPGO_MISMATCH, WHERE, SPGO_NO_OFFSET,
                         "a profile with MD5 names and one with names have no names in common");
    return SPGO_OK;
}

spgo_code overlap_compare(const sampleprof *a, const sampleprof *b, uint32_t hot_cutoff,
                          overlap_result *result, spgo_error *err)
{
    sampleprof_summary summary_a, summary_b;
    *result = (overlap_result){.samples_a = samples_of_all(a), .samples_b = samples_of_all(b)};
    if (result->samples_a == 0 || result->samples_b == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, WHERE, SPGO_NO_OFFSET,
                         "the %s profile has no samples to compare",
                         result->samples_a == 0 ? "first" : "second");
    SPGO_TRY(check_kinds(a, b, err));
    SPGO_TRY(sampleprof_summarize(a, &summary_a, err));
    SPGO_TRY(sampleprof_summarize(b, &summary_b, err));
    result->hot_count_a = sampleprof_hot_count(&summary_a, hot_cutoff);
    result->hot_count_b = sampleprof_hot_count(&summary_b, hot_cutoff);
    size_t items = sampleprof_function_count(a) + sampleprof_function_count(b);
    result->items = calloc(items, sizeof *result->items);
    if (!result->items)
        return spgo_fail_nomem(err, WHERE, items * sizeof *result->items);
    compare_all(result, a, b);
    return SPGO_OK;
}

void overlap_free(overlap_result *r)
{
    free(r->items);
    *r = (overlap_result){0};
}
