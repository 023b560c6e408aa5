/* Plain LZ77 XPRESS: every form of literal and match, and streams that end or point wrongly. */
#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <format/etl/etl_internal.h>

static uint8_t out[200000];

static void assert_expands(const uint8_t *in, size_t in_len, const void *want, size_t want_len)
{
    size_t used;
    uint8_t *tight = malloc(want_len); /* sanitizers see a write behind it */
    assert_true(xpress_expand((spgo_span){in, in_len}, tight, want_len, &used));
    assert_memory_equal(tight, want, want_len);
    assert_int_equal(used, in_len);
    free(tight);
}

static void assert_fails_after(const uint8_t *in, size_t in_len, size_t out_len, size_t made)
{
    size_t used;
    assert_false(xpress_expand((spgo_span){in, in_len}, out, out_len, &used));
    assert_int_equal(xpress_expand_some((spgo_span){in, in_len}, out, out_len, &used), made);
    assert_true(used <= in_len);
}

/* n literals (at most 31), a match, then literals up to the end of the group of 32. */
static void assert_match(size_t n, size_t distance, size_t length)
{
    uint8_t in[64], want[512];
    size_t in_len = 4, want_len = 0;
    size_t tail = 31 - n;
    uint32_t flags = 0x80000000u >> n;
    for (int i = 0; i < 4; i++)
        in[i] = (uint8_t)(flags >> 8 * i);
    for (size_t i = 0; i < n; i++)
        in[in_len++] = want[want_len++] = (uint8_t)(i * 7 + 1);
    size_t bits = length - 3 < 7 ? length - 3 : 7;
    in[in_len++] = (uint8_t)((distance - 1) << 3 | bits);
    in[in_len++] = 0;
    if (bits == 7) {
        size_t rest = length - 3 - 7;
        in[in_len++] = (uint8_t)(rest < 15 ? rest : 15);
        if (rest >= 15)
            in[in_len++] = (uint8_t)(rest - 15);
    }
    for (size_t i = 0; i < length; i++, want_len++)
        want[want_len] = want[want_len - distance];
    for (size_t i = 0; i < tail; i++)
        in[in_len++] = want[want_len++] = (uint8_t)(200 + i);
    assert_expands(in, in_len, want, want_len);
}

static void matches_of_every_distance_and_length(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 31; n++)
        for (size_t distance = 1; distance <= n; distance++)
            for (size_t length = 3; length < 3 + 7 + 15 + 60; length++)
                assert_match(n, distance, length);
}

/* The two examples that the format's description prints. */
static const uint8_t alphabet[] = {0x3f, 0,   0,   0,   'a', 'b', 'c', 'd', 'e', 'f',
                                   'g',  'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p',
                                   'q',  'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z'};
static const uint8_t abc_100[] = {0xff, 0xff, 0xff, 0x1f, 'a',  'b', 'c',
                                  0x17, 0x00, 0x0f, 0xff, 0x26, 0x01};

static void literals(void **state)
{
    (void)state;
    assert_expands(alphabet, sizeof alphabet, "abcdefghijklmnopqrstuvwxyz", 26);
}

static void a_long_match_over_itself(void **state)
{
    (void)state;
    char want[301];
    for (int i = 0; i < 100; i++)
        memcpy(want + (size_t)3 * (size_t)i, "abc", 3);
    assert_expands(abc_100, sizeof abc_100, want, 300);
}

static void a_short_match(void **state)
{
    (void)state;
    /* 4 literals, then distance 4, length 5 */
    static const uint8_t in[] = {0xff, 0xff, 0xff, 0x0f, 'a', 'b', 'c', 'd', 0x1a, 0x00};
    assert_expands(in, sizeof in, "abcdabcda", 9);
}

static void distance_one_repeats_a_byte(void **state)
{
    (void)state;
    static const uint8_t in[] = {0xff, 0xff, 0xff, 0x7f, 'x', 0x06, 0x00};
    assert_expands(in, sizeof in, "xxxxxxxxxx", 10);
}

static void two_matches_share_a_byte_of_nibbles(void **state)
{
    (void)state;
    /* x, match of 3+7+1, match of 3+7+2, literal y: the nibbles 1 and 2 are in one byte */
    static const uint8_t in[] = {0xff, 0xff, 0xff, 0x6f, 'x', 0x07, 0x00, 0x21, 0x07, 0x00, 'y'};
    static const char want[] = "xxxxxxxxxxxxxxxxxxxxxxxxy";
    assert_expands(in, sizeof in, want, 1 + 11 + 12 + 1);
}

static void lengths_in_a_byte_a_word_and_a_double_word(void **state)
{
    (void)state;
    static char want[100011];
    memset(want, 'x', sizeof want);
    /* nibble 15, byte 10: 3 + 7 + 15 + 10 */
    static const uint8_t by_byte[] = {0xff, 0xff, 0xff, 0x7f, 'x', 0x07, 0x00, 0x0f, 10};
    assert_expands(by_byte, sizeof by_byte, want, 1 + 35);
    /* byte 255, word 1000: 3 + 1000 */
    static const uint8_t by_word[] = {0xff, 0xff, 0xff, 0x7f, 'x', 0x07,
                                      0x00, 0x0f, 0xff, 0xe8, 0x03};
    assert_expands(by_word, sizeof by_word, want, 1 + 1003);
    /* word 0, double word 100000 */
    static const uint8_t by_double[] = {0xff, 0xff, 0xff, 0x7f, 'x',  0x07, 0x00, 0x0f,
                                        0xff, 0x00, 0x00, 0xa0, 0x86, 0x01, 0x00};
    assert_expands(by_double, sizeof by_double, want, 1 + 100003);
}

static void what_stands_behind_the_last_byte_is_left(void **state)
{
    (void)state;
    uint8_t in[40];
    size_t used;
    memcpy(in, alphabet, sizeof alphabet);
    memset(in + sizeof alphabet, 0xff, 4);
    assert_true(xpress_expand((spgo_span){in, sizeof alphabet + 4}, out, 26, &used));
    assert_int_equal(used, sizeof alphabet);
}

static void nothing_expands_to_nothing(void **state)
{
    (void)state;
    size_t used;
    assert_true(xpress_expand((spgo_span){NULL, 0}, out, 0, &used));
    assert_int_equal(used, 0);
    assert_fails_after(NULL, 0, 1, 0);
}

static void a_match_before_the_start_is_refused(void **state)
{
    (void)state;
    static const uint8_t in[] = {0xff, 0xff, 0xff, 0x7f, 'x', 0x08, 0x00};
    assert_fails_after(in, sizeof in, 10, 1);
}

static void a_word_length_too_small_for_its_form_is_refused(void **state)
{
    (void)state;
    static const uint8_t in[] = {0xff, 0xff, 0xff, 0x7f, 'x', 0x07, 0x00, 0x0f, 0xff, 21, 0};
    assert_fails_after(in, sizeof in, 100, 1);
    static const uint8_t wraps[] = {0xff, 0xff, 0xff, 0x7f, 'x',  0x07, 0x00, 0x0f,
                                    0xff, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff};
    assert_fails_after(wraps, sizeof wraps, 100, 1);
}

static void a_match_longer_than_the_output_is_cut(void **state)
{
    (void)state;
    size_t used;
    assert_true(xpress_expand((spgo_span){abc_100, sizeof abc_100}, out, 100, &used));
    assert_memory_equal(out + 96, "abca", 4);
}

static void every_early_end_is_noticed(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof abc_100; len++) {
        size_t used;
        uint8_t *tight = malloc(len + 1);
        memcpy(tight, abc_100, len);
        assert_false(xpress_expand((spgo_span){tight, len}, out, 300, &used));
        assert_true(used <= len);
        free(tight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals),
        cmocka_unit_test(a_long_match_over_itself),
        cmocka_unit_test(a_short_match),
        cmocka_unit_test(distance_one_repeats_a_byte),
        cmocka_unit_test(matches_of_every_distance_and_length),
        cmocka_unit_test(two_matches_share_a_byte_of_nibbles),
        cmocka_unit_test(lengths_in_a_byte_a_word_and_a_double_word),
        cmocka_unit_test(what_stands_behind_the_last_byte_is_left),
        cmocka_unit_test(nothing_expands_to_nothing),
        cmocka_unit_test(a_match_before_the_start_is_refused),
        cmocka_unit_test(a_word_length_too_small_for_its_form_is_refused),
        cmocka_unit_test(a_match_longer_than_the_output_is_cut),
        cmocka_unit_test(every_early_end_is_noticed),
    };
    return cmocka_run_group_tests_name("etl_xpress", tests, NULL, NULL);
}
