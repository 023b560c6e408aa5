/* Sums: the summary by LLVM's rules, and profiles that are added up. */
#include "sampleprof_build.h"

/* ------------------------------------------------------------------ summary */

static sampleprof_summary summary_of(const char *text)
{
    sampleprof *p = read_text(text);
    sampleprof_summary s;
    spgo_error err;
    assert_int_equal(sampleprof_summarize(p, &s, &err), SPGO_OK);
    sampleprof_free(p);
    return s;
}

static void test_summary_counts_lines_of_all_callees(void **state)
{
    (void)state;
    sampleprof_summary s =
        summary_of("f:1000:7\n 1: 600\n 2: 0\n 3: g:5\n  1: 300\n  2: h:5\n   1: 90\n"
                   "g:1:9\n 1: 10\n");
    assert_int_equal(s.total, 1000);
    assert_int_equal(s.max_count, 600);
    assert_int_equal(s.max_function_count, 9);
    assert_int_equal(s.count_count, 5);
    assert_int_equal(s.function_count, 2);
    assert_int_equal(s.cutoffs[0].cutoff, 10000);
    assert_int_equal(s.cutoffs[0].min_count, 600);
    assert_int_equal(s.cutoffs[0].count, 1);
    assert_int_equal(s.cutoffs[9].cutoff, 900000);
    assert_int_equal(s.cutoffs[9].min_count, 300);
    assert_int_equal(s.cutoffs[9].count, 2);
    assert_int_equal(s.cutoffs[11].min_count, 90);
    assert_int_equal(s.cutoffs[11].count, 3);
    assert_int_equal(s.cutoffs[15].min_count, 10);
    assert_int_equal(s.cutoffs[15].count, 4);
}

static void test_equal_counts_are_reached_together(void **state)
{
    (void)state;
    sampleprof_summary s = summary_of("f:1:0\n 1: 500\n 2: 500\n 3: 500\n 4: 100\n");
    assert_int_equal(s.cutoffs[0].count, 3);
    assert_int_equal(s.cutoffs[0].min_count, 500);
}

static void test_callees_that_are_in_their_own_profile_are_not_counted_twice(void **state)
{
    (void)state;
    sampleprof_summary s = summary_of("f:1:0\n 1: 5\n 2: g:7\n  1: 7\n  !Attributes: 4\n");
    assert_int_equal(s.total, 5);
}

static void test_summary_of_counts_that_overflow(void **state)
{
    (void)state;
    sampleprof_summary s =
        summary_of("f:1:0\n 1: 18446744073709551615\n 2: 18446744073709551615\n 3: 1\n");
    assert_int_equal(s.total, UINT64_MAX);
    assert_int_equal(s.cutoffs[15].count, 2);
}

static void test_hot_count_is_that_of_the_next_cutoff(void **state)
{
    (void)state;
    sampleprof_summary s = summary_of("f:1:0\n 1: 600\n 2: 300\n 3: 90\n 4: 10\n");
    assert_int_equal(sampleprof_hot_count(&s, 990000), 90);
    assert_int_equal(sampleprof_hot_count(&s, 990001), 10);
    assert_int_equal(sampleprof_hot_count(&s, 1), 600);
    assert_int_equal(sampleprof_hot_count(&s, 0), UINT64_MAX);
    assert_int_equal(sampleprof_hot_count(&s, 1000000), UINT64_MAX);
}

/* ------------------------------------------------------------------ merging */

static sampleprof *merged(const char *a, uint64_t weight_a, const char *b, uint64_t weight_b,
                          uint64_t *mismatched)
{
    sampleprof *sum = sampleprof_new(0);
    const char *const texts[] = {a, b};
    const uint64_t weights[] = {weight_a, weight_b};
    for (size_t i = 0; i < 2; i++) {
        sampleprof *p = read_text(texts[i]);
        spgo_error err;
        assert_int_equal(sampleprof_merge(sum, p, weights[i], mismatched, &err), SPGO_OK);
        sampleprof_free(p);
    }
    return sum;
}

static void test_counts_are_added_times_their_weight(void **state)
{
    (void)state;
    sampleprof *p = merged(
        "f:10:1\n 1: 5 x:2\n 3: g:3\n  1: 3\n", 1,
        "f:20:2\n 1: 6 x:1 y:1\n 2: 7\n 3: g:4\n  2: 4\n 3: h:1\n  1: 1\nk:1:1\n 1: 1\n", 10, NULL);
    assert_text(p, "f:210:21\n 1: 65 x:12 y:10\n 2: 70\n 3: g:43\n  1: 3\n  2: 40\n 3: h:10\n"
                   "  1: 10\nk:10:10\n 1: 10\n");
    sampleprof_free(p);
}

static void test_sums_saturate(void **state)
{
    (void)state;
    sampleprof *p = merged("f:10:1\n 1: 5 x:2\n", UINT64_MAX, "f:1:1\n 1: 1 x:1\n", 1, NULL);
    assert_text(p, "f:18446744073709551615:18446744073709551615\n"
                   " 1: 18446744073709551615 x:18446744073709551615\n");
    sampleprof_free(p);
}

static void test_functions_of_other_checksums_are_left_out_and_counted(void **state)
{
    (void)state;
    uint64_t mismatched = 0;
    sampleprof *p = merged("f:10:1\n 1: 5\n 3: g:3\n  1: 3\n  !CFGChecksum: 1\n !CFGChecksum: 7\n"
                           "k:3:0\n 1: 3\n !CFGChecksum: 8\n",
                           1,
                           "f:20:2\n 1: 6\n 3: g:4\n  1: 4\n  !CFGChecksum: 2\n !CFGChecksum: 7\n"
                           "k:2:0\n 1: 2\n !CFGChecksum: 9\nn:1:0\n 1: 1\n !CFGChecksum: 4\n",
                           1, &mismatched);
    assert_int_equal(mismatched, 2);
    assert_text(p, "f:30:3\n 1: 11\n 3: g:3\n  1: 3\n  !CFGChecksum: 1\n !CFGChecksum: 7\n"
                   "k:3:0\n 1: 3\n !CFGChecksum: 8\nn:1:0\n 1: 1\n !CFGChecksum: 4\n");
    sampleprof_free(p);
}

static void test_attributes_are_those_of_the_first(void **state)
{
    (void)state;
    sampleprof *p =
        merged("f:10:1\n 1: 5\n !Attributes: 1\n", 1, "f:1:1\n 1: 5\n !Attributes: 2\n", 1, NULL);
    assert_text(p, "f:11:2\n 1: 10\n !Attributes: 1\n");
    sampleprof_free(p);
}

static void test_kinds_that_do_not_go_together(void **state)
{
    static const char *const pairs[][2] = {{"f:1:1\n 1: 1\n", "f:1:1\n 1: 1\n !CFGChecksum: 1\n"},
                                           {"f:1:1\n", "12:1:1\n"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sampleprof *a = read_text(pairs[i][0]);
        sampleprof *b = read_text(pairs[i][1]);
        spgo_error err = {0};
        assert_int_equal(sampleprof_merge(a, b, 1, NULL, &err), SPGO_MISMATCH);
        assert_text(a, pairs[i][0]);
        sampleprof_free(a);
        sampleprof_free(b);
    }
}

static void test_an_empty_profile_takes_after_the_first(void **state)
{
    (void)state;
    uint64_t mismatched = 0;
    sampleprof *p = merged("f:1:1\n 1: 1\n !CFGChecksum: 1\n", 1,
                           "g:1:1\n 1: 1\n !CFGChecksum: 1\n", 1, &mismatched);
    assert_true(sampleprof_has_probes(p));
    assert_int_equal(mismatched, 0);
    sampleprof_free(p);
}

static void test_merging_beyond_the_budget(void **state)
{
    (void)state;
    sampleprof *p = read_text("f:1:1\n 1: 1 a:1 b:1 c:1\n");
    sampleprof *sum = sampleprof_new(2500);
    spgo_error err = {0};
    assert_int_equal(sampleprof_merge(sum, p, 1, NULL, &err), SPGO_LIMIT);
    sampleprof_free(sum);
    sampleprof_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary_counts_lines_of_all_callees),
        cmocka_unit_test(test_equal_counts_are_reached_together),
        cmocka_unit_test(test_callees_that_are_in_their_own_profile_are_not_counted_twice),
        cmocka_unit_test(test_summary_of_counts_that_overflow),
        cmocka_unit_test(test_hot_count_is_that_of_the_next_cutoff),
        cmocka_unit_test(test_counts_are_added_times_their_weight),
        cmocka_unit_test(test_sums_saturate),
        cmocka_unit_test(test_functions_of_other_checksums_are_left_out_and_counted),
        cmocka_unit_test(test_attributes_are_those_of_the_first),
        cmocka_unit_test(test_kinds_that_do_not_go_together),
        cmocka_unit_test(test_an_empty_profile_takes_after_the_first),
        cmocka_unit_test(test_merging_beyond_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
