/* Counts into SPD documents: where code belongs, imports whose result is known, merges, smoothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <profile/spd_counts.h>
#include <profile/spd_places.h>

#include "spd_build.h"
#include "test_data.h"

static spd_function *function(spd *doc, const char *name)
{
    for (size_t i = 0; i < doc->modules[0].function_count; i++) {
        spd_function *f = &doc->modules[0].functions[i];
        if (f->name.len == strlen(name) && memcmp(f->name.ptr, name, f->name.len) == 0)
            return f;
    }
    fail_msg("no function %s", name);
    return NULL;
}

static void add_range(samples_program *p, uint32_t start, uint32_t last, uint64_t hits)
{
    const uint64_t key = (uint64_t)start << 32 | last;
    counts_add(&p->ranges, &key, 1, hits);
    p->lbr_records += hits;
}

static void add_arc(samples_program *p, uint32_t from, uint32_t to, uint64_t hits)
{
    const uint64_t key = (uint64_t)from << 32 | to;
    counts_add(&p->arcs, &key, 1, hits);
}

static void add_ip(samples_program *p, uint32_t rva, uint64_t hits)
{
    const unsigned kind = samples_ip_kind(SPGO_SPT_RETIRE_INSTR);
    const uint64_t key = rva;
    counts_add(&p->ips[kind], &key, 1, hits);
    p->ip_hits[kind] += hits;
}

static void free_samples(samples_program *p)
{
    counts_free(&p->arcs);
    counts_free(&p->ranges);
    for (size_t i = 0; i < SAMPLES_IP_KINDS; i++)
        counts_free(&p->ips[i]);
}

static void assert_flow_is_conserved(const spd *doc)
{
    for (size_t m = 0; m < doc->module_count; m++) {
        for (size_t i = 0; i < doc->modules[m].function_count; i++) {
            const spd_function *f = &doc->modules[m].functions[i];
            uint64_t *in = calloc(f->block_count + 1, sizeof *in);
            assert_non_null(in);
            for (uint32_t b = 0; b < f->block_count; b++) {
                uint64_t sum = 0;
                for (uint32_t e = 0; e < f->blocks[b].edge_count; e++) {
                    sum += f->blocks[b].edges[e].count;
                    in[f->blocks[b].edges[e].target] += f->blocks[b].edges[e].count;
                }
                if (b + 1 < f->block_count && f->blocks[b].edge_count > 0)
                    assert_int_equal(sum, f->blocks[b].count);
            }
            for (uint32_t b = 1; b < f->block_count; b++)
                assert_true(in[b] <= f->blocks[b].count);
            free(in);
        }
    }
}

/* ------------------------------------------------------------------ places */

static void test_innermost_code_owns_an_rva(void **state)
{
    (void)state;
    spd *doc = spd_build("small", 0);
    spd_places p;
    assert_int_equal(spd_places_of(&doc->modules[0], &p, NULL), SPGO_OK);
    const struct {
        uint32_t rva;
        const char *name;
        uint32_t block;
    } wanted[] = {{0x1000, "main", 1}, {0x100f, "main", 1},   {0x1010, "main", 2},
                  {0x1017, "main", 2}, {0x1018, "helper", 1}, {0x101f, "helper", 1},
                  {0x1020, "main", 2}, {0x103f, "main", 3},   {0x1040, "callback", 1}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const spd_place *place = spd_place_at(&p, wanted[i].rva);
        assert_non_null(place);
        const spd_copy *c = &p.copies[place->copy];
        assert_ptr_equal(c->function, function(doc, wanted[i].name));
        assert_int_equal(c->block, wanted[i].block);
    }
    assert_null(spd_place_at(&p, 0xfff));
    assert_null(spd_place_at(&p, 0x9000));
    spd_places_free(&p);
    spd_free(doc);
}

/* ------------------------------------------------------------------ import */

/* The loop of `main` ten times a call, a hundred calls. */
static void add_loop(samples_program *p)
{
    add_range(p, 0x1000, 0x102e, 900);
    add_range(p, 0x1000, 0x100e, 100);
    add_range(p, 0x1030, 0x103f, 100);
    add_arc(p, 0x102e, 0x1000, 900);
    add_arc(p, 0x100e, 0x1030, 100);
}

static void test_branches(void **state)
{
    (void)state;
    spd *doc = spd_build("fresh", 0);
    samples_program p = {0};
    spd_import_tally tally;
    add_loop(&p);
    assert_int_equal(doc->flags, 4);
    assert_int_equal(
        spd_import(doc, &p, &(spd_import_opts){.by_branches = true, .retire = 8}, &tally, NULL),
        SPGO_OK);
    const spd_function *f = function(doc, "main");
    const uint64_t wanted[] = {100, 1000, 900, 100, 100};
    for (uint32_t b = 0; b < 5; b++)
        assert_int_equal(f->blocks[b].count, wanted[b] * SPD_HIT_WEIGHT);
    assert_int_equal(function(doc, "helper")->blocks[1].count, 900 * SPD_HIT_WEIGHT);
    assert_int_equal(doc->flags, 7);
    assert_int_equal(doc->modules[0].flags, 7);
    assert_int_equal(tally.hits, 1000);
    assert_int_equal(tally.found, 1000);
    assert_int_equal(tally.functions, 2);
    assert_int_equal(tally.before.live_blocks, 0);
    assert_int_equal(tally.after.live_blocks, 8);
    assert_flow_is_conserved(doc);
    assert_int_equal(doc->dynamic_total, (uint64_t)(9000 + 2700) * SPD_HIT_WEIGHT);
    free_samples(&p);
    spd_free(doc);
}

static void test_instruction_pointers(void **state)
{
    (void)state;
    spd *doc = spd_build("fresh", 0);
    samples_program p = {0};
    spd_import_tally tally;
    add_ip(&p, 0x1004, 4000); /* 4 instructions */
    add_ip(&p, 0x1012, 4500); /* 5 of its own */
    add_ip(&p, 0x101c, 2700); /* helper's 3 */
    add_ip(&p, 0x1034, 500);  /* 5 */
    add_ip(&p, 0x8000, 7);
    assert_int_equal(spd_import(doc, &p, &(spd_import_opts){.retire = 16}, &tally, NULL), SPGO_OK);
    const spd_function *f = function(doc, "main");
    assert_int_equal(f->blocks[1].count, 1000 * SPD_HIT_WEIGHT);
    assert_int_equal(f->blocks[2].count, 900 * SPD_HIT_WEIGHT);
    assert_int_equal(f->blocks[3].count, 100 * SPD_HIT_WEIGHT);
    assert_int_equal(function(doc, "helper")->blocks[1].count, 900 * SPD_HIT_WEIGHT);
    assert_int_equal(tally.outside, 7);
    assert_flow_is_conserved(doc);
    free_samples(&p);
    spd_free(doc);
}

static void test_nothing_found_halves(void **state)
{
    (void)state;
    spd *doc = spd_build("small", 0), *halved = spd_build("halved", 0);
    samples_program p = {0};
    spd_import_tally tally;
    add_ip(&p, 0x8000, 7);
    assert_int_equal(spd_import(doc, &p, &(spd_import_opts){.retire = 8}, &tally, NULL), SPGO_OK);
    assert_int_equal(tally.found, 0);
    for (size_t i = 0; i < doc->modules[0].function_count; i++) {
        const spd_function *a = &doc->modules[0].functions[i],
                           *b = &halved->modules[0].functions[i];
        for (uint32_t k = 0; k < a->block_count; k++)
            assert_int_equal(a->blocks[k].count, b->blocks[k].count);
    }
    free_samples(&p);
    spd_free(doc);
    spd_free(halved);
}

/* ------------------------------------------------------------------ merge */

static void test_merge_of_one_build(void **state)
{
    (void)state;
    spd *doc = spd_build("small", 0), *other = spd_build("small", 0);
    const uint64_t count = function(doc, "main")->blocks[1].count;
    spd_merge_tally tally;
    assert_int_equal(spd_merge(doc, other, 0, NULL, NULL, &tally, NULL), SPGO_OK);
    assert_true(tally.same_build);
    assert_int_equal(tally.carried, tally.functions);
    assert_int_equal(function(doc, "main")->blocks[1].count, 2 * count);
    assert_int_equal(spd_merge(doc, other, 16, NULL, NULL, &tally, NULL), SPGO_OK);
    assert_int_equal(function(doc, "main")->blocks[1].count, count);
    spd_free(doc);
    spd_free(other);
}

static void count_missing(void *ctx, const spd_function *f, bool is_reshaped)
{
    size_t *missing = ctx;
    (void)f;
    missing[is_reshaped]++;
}

static void test_merge_of_two_builds(void **state)
{
    (void)state;
    spd *doc = spd_build("next", 0), *old = spd_build("small", 0);
    size_t missing[2] = {0};
    spd_merge_tally tally;
    assert_int_equal(spd_merge(doc, old, 16, count_missing, missing, &tally, NULL), SPGO_OK);
    assert_int_equal(tally.reshaped, 1); /* callback */
    assert_int_equal(tally.gone, 1);     /* cold, which never ran */
    assert_int_equal(missing[1], 1);
    assert_int_equal(missing[0], 0);
    assert_int_equal(function(doc, "main")->blocks[1].count,
                     function(old, "main")->blocks[1].count);
    assert_flow_is_conserved(doc);
    spd_free(doc);
    spd_free(old);
}

/* ------------------------------------------------------------------ real files */

typedef struct real_file {
    spgo_span bytes;
    spd *doc;
} real_file;

static real_file open_real(const char *name)
{
    real_file r = {0};
    spgo_error err;
    r.bytes = test_data_or_skip(name);
    assert_int_equal(spd_open(r.bytes, 0, &r.doc, &err), SPGO_OK);
    return r;
}

static void close_real(real_file *r)
{
    spd_free(r->doc);
    test_data_free(r->bytes);
}

static bool is_in_own_body(const spd_copy *c)
{
    return c->first_rva >= c->function->rva &&
           c->first_rva - c->function->rva < c->function->length;
}

/* Samples as the counts of the document would have made them, if no function were inlined: at the
 * blocks of every body. is_whole: of each function, whether all of its code is in its body. */
static void sample_counts(spd *doc, samples_program *p, bool *is_whole)
{
    spd_places places;
    assert_int_equal(spd_places_of(&doc->modules[0], &places, NULL), SPGO_OK);
    for (size_t i = 0; i < doc->modules[0].function_count; i++)
        is_whole[i] = doc->modules[0].functions[i].length > 0;
    for (size_t i = 0; i < places.copy_count; i++) {
        const spd_copy *c = &places.copies[i];
        const uint64_t count = c->function->blocks[c->block].count;
        if (!is_in_own_body(c))
            is_whole[c->function - doc->modules[0].functions] = false;
        else if (count > 0)
            add_range(p, c->first_rva, c->first_rva, count);
    }
    spd_places_free(&places);
}

/* The share that two documents' counts have in common, of blocks and of edges of some functions. */
static void overlap(const spd *a, const spd *b, const bool *is_wanted, double *blocks,
                    double *edges)
{
    double sums[4] = {0};
    *blocks = *edges = 0;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < a->modules[0].function_count; i++) {
            const spd_function *f = &a->modules[0].functions[i], *g = &b->modules[0].functions[i];
            for (uint32_t k = 0; is_wanted[i] && k < f->block_count; k++) {
                const double x = (double)f->blocks[k].count, y = (double)g->blocks[k].count;
                sums[0] += round ? 0 : x;
                sums[1] += round ? 0 : y;
                if (round)
                    *blocks += x / sums[0] < y / sums[1] ? x / sums[0] : y / sums[1];
                for (uint32_t e = 0; e < f->blocks[k].edge_count; e++) {
                    const double v = (double)f->blocks[k].edges[e].count;
                    const double w = (double)g->blocks[k].edges[e].count;
                    sums[2] += round ? 0 : v;
                    sums[3] += round ? 0 : w;
                    if (round)
                        *edges += v / sums[2] < w / sums[3] ? v / sums[2] : w / sums[3];
                }
            }
        }
    }
}

static void test_own_counts_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"spd/EbpfCore-0a43f877.spd", "spd/EbpfCore-4bbfc1d0.spd",
                                        "spd/EbpfCore-8f1fae3b.spd", "spd/EbpfCore-dd2fb4d3.spd"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        real_file truth = open_real(names[i]), filled = open_real(names[i]);
        samples_program p = {0};
        spd_import_tally tally;
        double blocks, edges;
        bool *is_whole = calloc(truth.doc->modules[0].function_count, sizeof *is_whole);
        sample_counts(truth.doc, &p, is_whole);
        assert_int_equal(spd_import(filled.doc, &p,
                                    &(spd_import_opts){.by_branches = true, .retire = 16}, &tally,
                                    NULL),
                         SPGO_OK);
        overlap(truth.doc, filled.doc, is_whole, &blocks, &edges);
        free(is_whole);
        print_message("%s: blocks %.4f, edges %.4f\n", names[i], blocks, edges);
        assert_true(blocks >= 0.95);
        assert_true(edges >= 0.92);
        assert_flow_is_conserved(filled.doc);
        free_samples(&p);
        close_real(&truth);
        close_real(&filled);
    }
}

/* Nothing but counts, totals and the flags of counts may differ. */
static void test_only_counts_change(void **state)
{
    (void)state;
    real_file before = open_real("spd/map.spd"), after = open_real("spd/map.spd");
    samples_program p = {0};
    spd_import_tally tally;
    const spd_function *f = NULL;
    for (size_t i = 0; i < after.doc->modules[0].function_count && !f; i++) {
        if (after.doc->modules[0].functions[i].length)
            f = &after.doc->modules[0].functions[i];
    }
    assert_non_null(f);
    add_range(&p, f->rva, f->rva + f->length - 1, 100);
    assert_int_equal(spd_import(after.doc, &p, &(spd_import_opts){.by_branches = true, .retire = 8},
                                &tally, NULL),
                     SPGO_OK);
    assert_true(tally.after.live_blocks > 0);
    spd_reset_counts(after.doc);
    assert_int_equal(spd_recompute(after.doc, NULL), SPGO_OK);
    after.doc->static_total = before.doc->static_total;
    after.doc->flags = before.doc->flags;
    after.doc->modules[0].flags = before.doc->modules[0].flags;
    assert_null(spd_difference(before.doc, after.doc));
    free_samples(&p);
    close_real(&before);
    close_real(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_innermost_code_owns_an_rva),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_instruction_pointers),
        cmocka_unit_test(test_nothing_found_halves),
        cmocka_unit_test(test_merge_of_one_build),
        cmocka_unit_test(test_merge_of_two_builds),
        cmocka_unit_test(test_own_counts_come_back),
        cmocka_unit_test(test_only_counts_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
