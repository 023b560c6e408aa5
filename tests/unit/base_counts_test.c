/* Counts per key: sums, growth, saturation, order, and keys made to collide. */
#include "test_data.h"

#include <base/counts.h>

#include <stdlib.h>

static void an_empty_table_answers(void **state)
{
    (void)state;
    counts c = {0};
    size_t n = 99;
    assert_int_equal(counts_get(&c, 0), 0);
    assert_int_equal(counts_get(&c, 5), 0);
    assert_null(counts_sorted_by_key(&c, &n));
    assert_int_equal(n, 0);
    counts_add(&c, NULL, 0, 1);
    assert_int_equal(c.used, 0);
    counts_free(&c);
}

static void equal_keys_of_one_call_add_up(void **state)
{
    (void)state;
    counts c = {0};
    const uint64_t keys[] = {5, 0, 5, UINT64_MAX, 5, 0};
    counts_add(&c, keys, 6, 10);
    counts_add(&c, keys, 1, 1);
    assert_int_equal(counts_get(&c, 5), 31);
    assert_int_equal(counts_get(&c, 0), 20);
    assert_int_equal(counts_get(&c, UINT64_MAX), 10);
    assert_int_equal(counts_get(&c, 1), 0);
    assert_int_equal(c.used, 3);
    assert_false(c.saturated);
    counts_free(&c);
    assert_int_equal(counts_get(&c, 5), 0);
}

static uint64_t mixed(uint64_t i)
{
    i = (i ^ i >> 30) * 0xBF58476D1CE4E5B9u;
    return i ^ i >> 27;
}

/* Key k of `distinct` is added k + 1 times, in blocks of a size that never divides anything. */
static void growth_loses_nothing(void **state)
{
    (void)state;
    enum { DISTINCT = 3000 };
    counts c = {0};
    uint64_t block[255];
    size_t n = 0;
    for (unsigned round = 0; round < DISTINCT; round++) {
        for (unsigned k = round; k < DISTINCT; k++) {
            block[n++] = mixed(k);
            if (n == 255) {
                counts_add(&c, block, n, 3);
                n = 0;
            }
        }
    }
    counts_add(&c, block, n, 3);
    assert_int_equal(c.used, DISTINCT);
    assert_true(c.slot_count >= 2 * c.used);
    for (unsigned k = 0; k < DISTINCT; k++)
        assert_int_equal(counts_get(&c, mixed(k)), 3 * (k + 1));
    counts_free(&c);
}

static void a_call_may_be_longer_than_a_block(void **state)
{
    (void)state;
    enum { N = 300001 };
    uint64_t *keys = malloc(N * sizeof *keys);
    assert_non_null(keys);
    for (unsigned i = 0; i < N; i++)
        keys[i] = (uint64_t)(i % 100000) << 32 | i % 7;
    counts c = {0};
    counts_add(&c, keys, N, 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < c.slot_count; i++)
        sum += c.slots[i].count;
    assert_int_equal(sum, N);
    counts_free(&c);
    free(keys);
}

static void sums_saturate_and_say_so(void **state)
{
    (void)state;
    counts c = {0};
    const uint64_t keys[] = {1, 2};
    counts_add(&c, keys, 2, UINT64_MAX - 1);
    counts_add(&c, keys, 1, 1);
    assert_false(c.saturated);
    counts_add(&c, keys, 1, 1);
    assert_true(c.saturated);
    assert_true(counts_get(&c, 1) == UINT64_MAX);
    assert_true(counts_get(&c, 2) == UINT64_MAX - 1);
    counts_free(&c);
}

static void merging_adds_all_and_keeps_the_flags(void **state)
{
    (void)state;
    counts a = {0};
    counts b = {0};
    for (uint64_t k = 0; k < 50000; k++) {
        uint64_t key = mixed(k);
        counts_add(k % 2 ? &a : &b, &key, 1, k + 1);
    }
    uint64_t both = 7;
    counts_add(&a, &both, 1, 1);
    counts_add(&b, &both, 1, UINT64_MAX);
    counts_merge(&a, &b);
    for (uint64_t k = 0; k < 50000; k++)
        assert_int_equal(counts_get(&a, mixed(k)), k + 1);
    assert_true(counts_get(&a, 7) == UINT64_MAX);
    assert_true(a.saturated);
    counts none = {0};
    counts_merge(&none, &a);
    assert_int_equal(none.used, a.used);
    assert_true(none.saturated);
    counts_free(&a);
    counts_free(&b);
    counts_free(&none);
}

static void sorting_by_key_and_by_count(void **state)
{
    (void)state;
    counts c = {0};
    for (uint64_t k = 0; k < 20000; k++) {
        uint64_t key = mixed(k);
        counts_add(&c, &key, 1, 1 + k % 300 * 1000003u);
    }
    size_t n;
    counts_slot *s = counts_sorted_by_key(&c, &n);
    assert_int_equal(n, 20000);
    for (size_t i = 1; i < n; i++)
        assert_true(s[i - 1].key < s[i].key);
    free(s);
    s = counts_sorted_by_count(&c, &n);
    assert_int_equal(n, 20000);
    for (size_t i = 1; i < n; i++)
        assert_true(s[i - 1].count > s[i].count ||
                    (s[i - 1].count == s[i].count && s[i - 1].key < s[i].key));
    free(s);
    counts_free(&c);
}

static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

/* Keys whose product with the first multiplier is small all start at slot 0. Without a change of
 * multiplier this would take 10^10 steps. */
static void keys_made_to_collide_cost_no_more(void **state)
{
    (void)state;
    enum { N = 200000 };
    counts c = {0};
    uint64_t first = 1;
    counts_add(&c, &first, 1, 1);
    uint64_t back = inverse(c.multiplier);
    for (uint64_t k = 1; k <= N; k++) {
        uint64_t key = k * back;
        counts_add(&c, &key, 1, k);
    }
    for (uint64_t k = 1; k <= N; k++) {
        uint64_t want = k + (k * back == first);
        if (counts_get(&c, k * back) != want)
            assert_int_equal(counts_get(&c, k * back), want);
    }
    assert_int_not_equal(inverse(c.multiplier), back);
    counts_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_answers),
        cmocka_unit_test(equal_keys_of_one_call_add_up),
        cmocka_unit_test(growth_loses_nothing),
        cmocka_unit_test(a_call_may_be_longer_than_a_block),
        cmocka_unit_test(sums_saturate_and_say_so),
        cmocka_unit_test(merging_adds_all_and_keeps_the_flags),
        cmocka_unit_test(sorting_by_key_and_by_count),
        cmocka_unit_test(keys_made_to_collide_cost_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
