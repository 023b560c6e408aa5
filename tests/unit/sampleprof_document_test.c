/* The document: what is added is found, summed and sorted, whatever the order it came in. */
#include "sampleprof_build.h"

#include <base/limits.h>

#include <stdio.h>

static sampleprof_function *function_in(sampleprof *p, const char *name)
{
    sampleprof_function *f = sampleprof_function_named(p, text_str(name));
    assert_non_null(f);
    return f;
}

static void test_a_function_is_added_once(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *a = function_in(p, "a");
    sampleprof_function *b = function_in(p, "b");
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(function_in(p, "a"), a);
    assert_ptr_equal(function_in(p, "a"), a);
    assert_int_equal(sampleprof_function_count(p), 2);
    assert_ptr_equal(sampleprof_find(p, text_str("b")), b);
    assert_null(sampleprof_find(p, text_str("c")));
    assert_null(sampleprof_find(p, text_str("")));
    sampleprof_free(p);
}

static void test_an_inlined_callee_belongs_to_caller_place_and_name(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *a = function_in(p, "a");
    sampleprof_function *at_3 = sampleprof_inlined(p, a, place_at(3, 0), text_str("x"));
    assert_ptr_equal(sampleprof_inlined(p, a, place_at(3, 0), text_str("x")), at_3);
    assert_ptr_not_equal(sampleprof_inlined(p, a, place_at(3, 1), text_str("x")), at_3);
    assert_ptr_not_equal(sampleprof_inlined(p, a, place_at(3, 0), text_str("y")), at_3);
    assert_ptr_not_equal(sampleprof_inlined(p, at_3, place_at(3, 0), text_str("x")), at_3);
    assert_ptr_equal(sampleprof_inlined(p, a, place_at(3, 0), text_str("x")), at_3);
    assert_null(sampleprof_find(p, text_str("x")));
    size_t count;
    assert_non_null(sampleprof_callsites(a, &count));
    assert_int_equal(count, 3);
    sampleprof_free(p);
}

static void test_call_sites_are_sorted_by_place_then_name(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *a = function_in(p, "a");
    sampleprof_inlined(p, a, place_at(4, 0), text_str("x"));
    sampleprof_inlined(p, a, place_at(3, 2), text_str("x"));
    sampleprof_inlined(p, a, place_at(3, 0), text_str("y"));
    sampleprof_inlined(p, a, place_at(3, 0), text_str("x"));
    assert_text(p, "a:0:0\n 3: x:0\n 3: y:0\n 3.2: x:0\n 4: x:0\n");
    sampleprof_free(p);
}

static void test_raise_keeps_the_larger_and_add_saturates(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *a = function_in(p, "a");
    assert_true(sampleprof_raise_line(p, a, place_at(1, 0), 0));
    assert_true(sampleprof_raise_line(p, a, place_at(2, 0), 5));
    assert_true(sampleprof_raise_line(p, a, place_at(2, 0), 3));
    assert_true(sampleprof_add_line(p, a, place_at(3, 0), UINT64_MAX - 1));
    assert_true(sampleprof_add_line(p, a, place_at(3, 0), 7));
    sampleprof_add_total(a, UINT64_MAX);
    sampleprof_add_total(a, 1);
    sampleprof_add_head(a, 4);
    sampleprof_add_head(a, 4);
    assert_text(p, "a:18446744073709551615:8\n 1: 0\n 2: 5\n 3: 18446744073709551615\n");
    sampleprof_set_total(a, 9);
    assert_int_equal(sampleprof_total(a), 9);
    sampleprof_free(p);
}

enum { MODEL_LINES = 700, MODEL_DISCRIMINATORS = 3 };

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static void test_lines_in_any_order_agree_with_a_plain_array(void **state)
{
    (void)state;
    static uint64_t model[MODEL_LINES][MODEL_DISCRIMINATORS];
    static bool is_there[MODEL_LINES][MODEL_DISCRIMINATORS];
    uint32_t seed = 1;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *f = function_in(p, "f");
    for (int i = 0; i < 20000; i++) {
        uint32_t line = next_random(&seed) % MODEL_LINES;
        uint32_t discriminator = next_random(&seed) % MODEL_DISCRIMINATORS;
        uint64_t count = next_random(&seed);
        if (i % 2)
            sampleprof_raise_line(p, f, place_at(line, discriminator), count);
        else
            sampleprof_add_line(p, f, place_at(line, discriminator), count);
        uint64_t *sum = &model[line][discriminator];
        *sum = i % 2 ? (*sum > count ? *sum : count) : *sum + count;
        is_there[line][discriminator] = true;
        size_t ignored;
        if (i % 1000 == 0) /* sorting in between */
            (void)sampleprof_lines(f, &ignored);
    }
    size_t count, at = 0;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (uint32_t line = 0; line < MODEL_LINES; line++) {
        for (uint32_t d = 0; d < MODEL_DISCRIMINATORS; d++) {
            if (!is_there[line][d])
                continue;
            assert_true(at < count);
            assert_int_equal(lines[at].place.line_offset, line);
            assert_int_equal(lines[at].place.discriminator, d);
            assert_int_equal(lines[at++].count, model[line][d]);
        }
    }
    assert_int_equal(at, count);
    sampleprof_free(p);
}

static void test_targets_are_summed_and_sorted(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *a = function_in(p, "a");
    assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str("x"), 1));
    assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str("z"), 5));
    assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str("y"), 2));
    assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str("x"), 1));
    assert_text(p, "a:0:0\n 1: 0 z:5 x:2 y:2\n");
    assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str("y"), 8));
    assert_text(p, "a:0:0\n 1: 0 y:10 z:5 x:2\n");
    sampleprof_free(p);
}

static void test_many_targets_are_summed(void **state)
{
    enum { TARGETS = 300, ROUNDS = 7 };
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *a = function_in(p, "a");
    for (unsigned i = 0; i < TARGETS * ROUNDS; i++) {
        char name[16];
        unsigned target = i * 7 % TARGETS;
        snprintf(name, sizeof name, "t%03u", target);
        assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str(name), target));
    }
    size_t count;
    const sampleprof_line *line = sampleprof_lines(a, &count);
    assert_int_equal(line->target_count, TARGETS);
    for (size_t i = 0; i < TARGETS; i++)
        assert_int_equal(line->targets[i].count, ROUNDS * (TARGETS - 1 - i));
    sampleprof_free(p);
}

static void test_repeated_targets_take_no_more_memory(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(64 * 1024);
    sampleprof_function *a = function_in(p, "a");
    for (unsigned i = 0; i < 100000; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", i % 20);
        assert_true(sampleprof_add_target(p, a, place_at(1, 0), text_str(name), 1));
    }
    sampleprof_free(p);
}

static void test_functions_stand_in_order_of_names_and_text_by_total(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_set_total(function_in(p, "b"), 5);
    sampleprof_set_total(function_in(p, "ba"), 5);
    sampleprof_set_total(function_in(p, "a"), 1);
    sampleprof_set_total(function_in(p, "c"), 9);
    const char *const names[] = {"a", "b", "ba", "c"};
    for (size_t i = 0; i < 4; i++)
        assert_true(text_equal(sampleprof_name(sampleprof_get_function(p, i)), text_str(names[i])));
    assert_text(p, "c:9:0\nb:5:0\nba:5:0\na:1:0\n");
    sampleprof_free(p);
}

static void test_names_that_are_numbers_are_md5_and_in_order_of_value(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    assert_false(sampleprof_has_md5_names(p));
    function_in(p, "18446744073709551615");
    function_in(p, "9");
    function_in(p, "10");
    assert_true(sampleprof_has_md5_names(p));
    assert_text(p, "9:0:0\n10:0:0\n18446744073709551615:0:0\n");
    function_in(p, "18446744073709551616");
    assert_false(sampleprof_has_md5_names(p));
    sampleprof_free(p);
}

static void test_inlining_ends_at_the_limit(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    sampleprof_function *f = function_in(p, "f");
    for (int depth = 0; depth < LIMIT_INLINE_DEPTH; depth++) {
        f = sampleprof_inlined(p, f, place_at(1, 0), text_str("f"));
        assert_non_null(f);
    }
    assert_null(sampleprof_inlined(p, f, place_at(1, 0), text_str("f")));
    bytes b = extbinary_of(p);
    sampleprof *again = read_good(bytes_span(&b));
    assert_same_profile(p, again);
    sampleprof_free(again);
    bytes_free(&b);
    sampleprof_free(p);
}

/* Every step that can run out of memory does at some budget; what is there can still be asked. */
static void test_a_used_up_budget_leaves_a_usable_document(void **state)
{
    (void)state;
    for (uint64_t budget = 300; budget < 40000; budget += 97) {
        sampleprof *p = sampleprof_new(budget);
        uint32_t seed = 7;
        bool ok = p;
        for (int i = 0; i < 400 && ok; i++) {
            char name[16];
            snprintf(name, sizeof name, "f%u", next_random(&seed) % 9);
            sampleprof_function *f = sampleprof_function_named(p, text_str(name));
            sampleprof_place place = place_at(next_random(&seed) % 50, 0);
            ok = f && sampleprof_add_line(p, f, place, 1) &&
                 sampleprof_add_target(p, f, place, text_str(name), 1) &&
                 sampleprof_inlined(p, f, place, text_str("g"));
        }
        for (size_t i = 0; p && i < sampleprof_function_count(p); i++) {
            sampleprof_function *f =
                sampleprof_function_named(p, sampleprof_name(sampleprof_get_function(p, i)));
            for (uint32_t line = 0; f && line < 50; line++)
                (void)sampleprof_add_line(p, f, place_at(49 - line, 0), 1);
        }
        if (p) {
            bytes b = text_of(p);
            bytes_free(&b);
        }
        sampleprof_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_function_is_added_once),
        cmocka_unit_test(test_an_inlined_callee_belongs_to_caller_place_and_name),
        cmocka_unit_test(test_call_sites_are_sorted_by_place_then_name),
        cmocka_unit_test(test_raise_keeps_the_larger_and_add_saturates),
        cmocka_unit_test(test_lines_in_any_order_agree_with_a_plain_array),
        cmocka_unit_test(test_targets_are_summed_and_sorted),
        cmocka_unit_test(test_many_targets_are_summed),
        cmocka_unit_test(test_repeated_targets_take_no_more_memory),
        cmocka_unit_test(test_functions_stand_in_order_of_names_and_text_by_total),
        cmocka_unit_test(test_names_that_are_numbers_are_md5_and_in_order_of_value),
        cmocka_unit_test(test_inlining_ends_at_the_limit),
        cmocka_unit_test(test_a_used_up_budget_leaves_a_usable_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
