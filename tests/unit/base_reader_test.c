/* The reading cursor: sticky errors, sub-readers, and the offset of the first bad byte. */
#include "test_data.h"

#include <base/bytes.h>
#include <base/reader.h>

#include <string.h>

static const uint8_t digits[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static reader of(const void *data, size_t len)
{
    return reader_from((spgo_span){data, len}, 1000);
}

static void integers_are_little_endian(void **state)
{
    (void)state;
    reader r = of(digits, sizeof digits);
    assert_int_equal(reader_u8(&r), 1);
    assert_int_equal(reader_u16(&r), 0x0302);
    assert_int_equal(reader_u32(&r), 0x07060504);
    assert_true(reader_u64(&r) == 0x0F0E0D0C0B0A0908u);
    assert_int_equal(reader_left(&r), 1);
    assert_int_equal(reader_offset(&r), 1015);
    r = of(digits, sizeof digits);
    assert_int_equal(reader_ptr(&r, 4), 0x04030201);
    assert_true(reader_ptr(&r, 8) == 0x0C0B0A0908070605u);
}

static void the_first_failure_sticks(void **state)
{
    (void)state;
    reader r = of(digits, 6);
    reader_skip(&r, 3);
    assert_int_equal(reader_u32(&r), 0);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(r.bad_off, 1003);
    assert_int_equal(reader_u8(&r), 0); /* a byte is there, but the reader has failed */
    assert_int_equal(reader_left(&r), 0);
    reader_fail(&r, SPGO_CORRUPT, 5);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(r.bad_off, 1003);
    assert_int_equal(r.pos, 3);
}

static void huge_lengths_do_not_wrap(void **state)
{
    (void)state;
    reader r = of(digits, sizeof digits);
    reader_skip(&r, 8);
    assert_null(reader_take(&r, UINT64_MAX));
    assert_int_equal(r.code, SPGO_TRUNCATED);
    r = of(digits, sizeof digits);
    reader_seek(&r, UINT64_MAX);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(r.bad_off, 1016);
}

static void seeking_reaches_the_end_and_no_further(void **state)
{
    (void)state;
    reader r = of(digits, 4);
    reader_seek(&r, 4);
    assert_int_equal(r.code, SPGO_OK);
    reader_seek(&r, 1);
    assert_int_equal(reader_u8(&r), 2);
    reader_seek(&r, 5);
    assert_int_equal(r.code, SPGO_TRUNCATED);
}

static void a_sub_reader_cannot_look_past_its_end(void **state)
{
    (void)state;
    reader r = of(digits, sizeof digits);
    reader_skip(&r, 2);
    reader sub = reader_sub(&r, 3);
    assert_int_equal(reader_offset(&sub), 1002);
    assert_int_equal(reader_u16(&sub), 0x0403);
    assert_int_equal(reader_u16(&sub), 0);
    assert_int_equal(sub.bad_off, 1004);
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(reader_u8(&r), 6);
    sub = reader_sub(&r, 100);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(sub.code, SPGO_TRUNCATED);
    assert_int_equal(reader_u8(&sub), 0);
}

static void counts_are_checked_against_what_is_left(void **state)
{
    (void)state;
    reader r = of(digits, sizeof digits);
    assert_int_equal(reader_count(&r, 4, 4), 4);
    assert_int_equal(reader_count(&r, 0, 4), 0);
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(reader_count(&r, 5, 4), 0);
    assert_int_equal(r.code, SPGO_CORRUPT);
    assert_int_equal(r.bad_off, 1000);
    r = of(digits, sizeof digits);
    assert_int_equal(reader_count(&r, UINT64_MAX / 2, 8), 0);
    assert_int_equal(r.code, SPGO_CORRUPT);
}

static void text_ends_at_its_nul(void **state)
{
    (void)state;
    reader r = of("ab\0\0cd", 6);
    spgo_str s = reader_cstr(&r);
    assert_int_equal(s.len, 2);
    assert_memory_equal(s.ptr, "ab", 2);
    assert_int_equal(reader_cstr(&r).len, 0);
    assert_int_equal(r.code, SPGO_OK);
    (void)reader_cstr(&r);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(r.bad_off, 1006);
}

static void utf16_ends_at_a_whole_nul_unit(void **state)
{
    (void)state;
    static const uint8_t text[] = {0x61, 0x00, 0x00, 0x01, 0x00, 0x00, 'x', 0, 'y'};
    reader r = of(text, sizeof text);
    spgo_span s = reader_utf16z(&r);
    assert_int_equal(s.len, 4); /* U+0100 has a zero byte beside the one of 'a' */
    assert_int_equal(reader_offset(&r), 1006);
    (void)reader_utf16z(&r);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(r.bad_off, 1009);
}

static void nothing_can_be_read_from_nothing(void **state)
{
    (void)state;
    reader r = of(NULL, 0);
    assert_non_null(reader_take(&r, 0));
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(reader_utf16z(&r).len, 0);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    r = of(NULL, 0);
    assert_int_equal(reader_cstr(&r).len, 0);
    assert_int_equal(r.code, SPGO_TRUNCATED);
}

static void finishing_reports_the_first_failure(void **state)
{
    (void)state;
    spgo_error err = {0};
    reader r = of(digits, 3);
    assert_int_equal(reader_finish(&r, "test.thing", &err), SPGO_OK);
    (void)reader_u32(&r);
    assert_int_equal(reader_finish(&r, "test.thing", &err), SPGO_TRUNCATED);
    assert_int_equal(err.code, SPGO_TRUNCATED);
    assert_int_equal(err.offset, 1000);
    assert_string_equal(err.where, "test.thing");
    assert_non_null(strstr(err.sentence, "test.thing"));
    assert_int_equal(reader_finish(&r, "test.thing", NULL), SPGO_TRUNCATED);
}

static void numbers_of_variable_length(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 0x7f, 0x80, 0x3fff, 0x4000, UINT32_MAX, UINT64_MAX};
    bytes b = {0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        bytes_uleb(&b, values[i]);
    reader r = reader_from(bytes_span(&b), 0);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        assert_true(reader_uleb(&r) == values[i]);
    assert_int_equal(reader_left(&r), 0);
    assert_int_equal(r.code, SPGO_OK);
    bytes_free(&b);
}

static void numbers_of_more_than_64_bits_are_corrupt(void **state)
{
    (void)state;
    static const uint8_t large[] = {7,    0xff, 0xff, 0xff, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0x02}; /* bit 64 */
    static const uint8_t padded[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                     0x80, 0x80, 0x80, 0x80, 0x00}; /* 11 bytes */
    reader r = reader_from((spgo_span){large, sizeof large}, 0x100);
    assert_int_equal(reader_uleb(&r), 7);
    assert_int_equal(reader_uleb(&r), 0);
    assert_int_equal(r.code, SPGO_CORRUPT);
    assert_int_equal(r.bad_off, 0x101);
    r = reader_from((spgo_span){padded, sizeof padded}, 0);
    assert_int_equal(reader_uleb(&r), 0);
    assert_int_equal(r.code, SPGO_CORRUPT);
    r = reader_from((spgo_span){padded, 3}, 0);
    assert_int_equal(reader_uleb(&r), 0);
    assert_int_equal(r.code, SPGO_TRUNCATED);
    assert_int_equal(r.bad_off, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(the_first_failure_sticks),
        cmocka_unit_test(huge_lengths_do_not_wrap),
        cmocka_unit_test(seeking_reaches_the_end_and_no_further),
        cmocka_unit_test(a_sub_reader_cannot_look_past_its_end),
        cmocka_unit_test(counts_are_checked_against_what_is_left),
        cmocka_unit_test(numbers_of_variable_length),
        cmocka_unit_test(numbers_of_more_than_64_bits_are_corrupt),
        cmocka_unit_test(text_ends_at_its_nul),
        cmocka_unit_test(utf16_ends_at_a_whole_nul_unit),
        cmocka_unit_test(nothing_can_be_read_from_nothing),
        cmocka_unit_test(finishing_reports_the_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
