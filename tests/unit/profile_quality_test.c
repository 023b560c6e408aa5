/* How good a profile is, and which way it went. */
#include "profile_fake_code.h"

#include <profile/quality.h>

static const uint32_t F = 0x100, G = 0x200;
static const symbol_function f = {
    .name = {"f", 1}, .linkage_name = {"f", 1}, .line = 10, .line_source = SYMBOL_LINE_DECLARED};
static const symbol_function g = {
    .name = {"g", 1}, .linkage_name = {"g", 1}, .line = 20, .line_source = SYMBOL_LINE_DECLARED};
static const symbol_frame f_first = {.function = &f, .line = 11};
static const symbol_frame f_second = {.function = &f, .line = 12};
static const symbol_frame g_only = {.function = &g, .line = 21};

/* f: 100 to 107 line 1, 108 to 10f line 2, from 107 a branch to 10c; g: one line. */
static int two_functions(void **state)
{
    (void)set_up(state);
    add_procedure(&f, F, F + 0x10);
    add_procedure(&g, G, G + 0x10);
    add_run(F, F + 8, &f_first);
    add_run(F + 8, F + 0x10, &f_second);
    add_run(G, G + 0x10, &g_only);
    put_branch(F + 6, F + 0xc);
    put_return(F + 0xf);
    put_return(G + 0xf);
    return 0;
}

static profile_result make(const samples_program *p, profile_opts opts)
{
    profile_result r;
    code_decoder *d = new_decoder();
    spgo_error err = {0};
    opts.keep_measured = true;
    if (profile_count(p, &fake, d, &opts, &r, &err) != SPGO_OK ||
        profile_correlate(&fake, d, &opts, &r, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    code_decoder_free(d);
    return r;
}

static quality measure(const profile_result *r)
{
    quality q;
    code_decoder *d = new_decoder();
    assert_int_equal(quality_measure(r, &fake, d, &q, NULL), SPGO_OK);
    code_decoder_free(d);
    return q;
}

static quality quality_of(samples_program *p, profile_opts opts)
{
    profile_result r = make(p, opts);
    quality q = measure(&r);
    profile_result_free(&r);
    free_samples(p);
    return q;
}

static void assert_near(double a, double b)
{
    assert_true(a - b < 1e-9 && b - a < 1e-9);
}

/* f has 10 + 10 at two places, g 1 at one: f alone has less than 99 % of the samples. */
static void density_is_that_of_the_least_dense_one_that_matters(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F + 0xf, 10);
    add_range(&p, G, G + 0xf, 1);
    add_arc(&p, F + 0xf, G, 1);
    quality q = quality_of(&p, (profile_opts){0});
    assert_near(q.density, 1);
    assert_near(q.more_samples_wanted, 50);
}

static void what_is_below_one_percent_does_not_matter(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F + 0xf, 100);
    add_range(&p, G, G + 0xf, 1);
    add_arc(&p, F + 0xf, G, 1);
    quality q = quality_of(&p, (profile_opts){0});
    assert_near(q.density, 100);
    assert_near(q.more_samples_wanted, 0);
}

static void inference_does_not_add_samples(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F + 6, 10);
    add_range(&p, F + 8, F + 0xf, 2);
    add_arc(&p, F + 6, F + 0xc, 5);
    quality q = quality_of(&p, (profile_opts){.inference = PROFILE_ON});
    assert_near(q.density, 6);
    assert_true(q.flow_gap_before > 0);
    assert_near(q.flow_gap_after, 0);
    assert_int_equal(q.blocks, 3);
    assert_int_equal(q.blocks_before, 3);
    assert_int_equal(q.blocks_after, 3);
}

static void blocks_without_inference_are_as_measured(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F + 6, 10);
    add_arc(&p, F + 6, F + 0xc, 10);
    quality q = quality_of(&p, (profile_opts){0});
    assert_int_equal(q.blocks, 3);
    assert_int_equal(q.blocks_before, q.blocks_after);
    assert_near(q.flow_gap_before, q.flow_gap_after);
}

static void shares_are_of_what_was_recorded(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F + 6, 5);
    add_range(&p, F, G + 0xf, 3);   /* across a return */
    add_range(&p, 0x300, 0x310, 2); /* in no function */
    add_arc(&p, F + 6, F + 0xc, 6);
    add_arc(&p, F + 1, F + 0xc, 4); /* from a plain instruction */
    quality q = quality_of(&p, (profile_opts){0});
    assert_near(q.bogus_share, 0.3);
    assert_near(q.unmapped_share, 0.2);
    assert_near(q.mismatched_share, 0.4);
    assert_int_equal(q.stale_procedures, 0);
}

/* ------------------------------------------------------------------ choices */

static void branches_come_before_instruction_pointers(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F + 6, 5);
    add_arc(&p, F + 6, F + 0xc, 5);
    add_ip(&p, SPGO_SPT_RETIRE_BR_INSTR, F + 6, 1);
    profile_result r = make(&p, (profile_opts){0});
    assert_int_equal(r.mode, PROFILE_BRANCHES);
    assert_false(r.is_inferred);
    assert_false(r.is_by_probes);
    profile_result_free(&r);
    free_samples(&p);
}

static void instructions_come_before_other_counters(void **state)
{
    (void)state;
    samples_program p = {0};
    add_ip(&p, SPGO_SPT_L1_DCACHE_MISS, F, 100);
    add_ip(&p, SPGO_SPT_RETIRE_INSTR, F, 1);
    profile_result r = make(&p, (profile_opts){0});
    assert_int_equal(r.mode, PROFILE_IPS);
    assert_int_equal(r.ip_kinds, 1u << samples_ip_kind(SPGO_SPT_RETIRE_INSTR));
    assert_true(r.is_inferred);
    assert_int_equal(r.measured.range_count, 1);
    assert_int_equal(r.measured.ranges[0].count, 1);
    profile_result_free(&r);
    free_samples(&p);
}

/* A folded file has branches and no code between them; a recording of another build has code
 * between them that is none, and is not to be made up. */
static void only_files_without_ranges_are_inferred(void **state)
{
    (void)state;
    samples_program folded = {0}, stale = {0};
    add_arc(&folded, F + 6, F + 0xc, 5);
    add_arc(&stale, F + 6, F + 0xc, 5);
    add_range(&stale, 0x300, 0x310, 5);
    profile_result a = make(&folded, (profile_opts){0});
    profile_result b = make(&stale, (profile_opts){0});
    assert_true(a.is_inferred);
    assert_true(a.counts.range_count > 0);
    assert_false(b.is_inferred);
    profile_result_free(&a);
    profile_result_free(&b);
    free_samples(&folded);
    free_samples(&stale);
}

static void nothing_of_the_wanted_kind(void **state)
{
    (void)state;
    samples_program p = {.name = {"app.exe", 7}};
    profile_result r;
    spgo_error err;
    code_decoder *d = new_decoder();
    const profile_opts branches = {.mode = PROFILE_BRANCHES}, ips = {0};
    assert_int_equal(profile_count(&p, &fake, d, &branches, &r, &err), SPGO_NOT_FOUND);
    assert_non_null(strstr(err.sentence, "no branch records to count for app.exe"));
    assert_int_equal(profile_count(&p, &fake, d, &ips, &r, &err), SPGO_NOT_FOUND);
    assert_non_null(strstr(err.sentence, "app.exe"));
    code_decoder_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(density_is_that_of_the_least_dense_one_that_matters, two_functions),
        cmocka_unit_test_setup(what_is_below_one_percent_does_not_matter, two_functions),
        cmocka_unit_test_setup(inference_does_not_add_samples, two_functions),
        cmocka_unit_test_setup(blocks_without_inference_are_as_measured, two_functions),
        cmocka_unit_test_setup(shares_are_of_what_was_recorded, two_functions),
        cmocka_unit_test_setup(branches_come_before_instruction_pointers, two_functions),
        cmocka_unit_test_setup(instructions_come_before_other_counters, two_functions),
        cmocka_unit_test_setup(only_files_without_ranges_are_inferred, two_functions),
        cmocka_unit_test_setup(nothing_of_the_wanted_kind, two_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
