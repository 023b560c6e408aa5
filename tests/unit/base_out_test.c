/* Text and JSON output. */
#include "test_data.h"

#include <base/bytes.h>
#include <base/json.h>
#include <base/text.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    bytes got;
    out o;
    json j;
} fixture;

static int start(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || out_init(&f->o, bytes_sink(&f->got), NULL) != SPGO_OK)
        return -1;
    f->j = json_on(&f->o, false);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    fixture *f = *state;
    out_free(&f->o);
    bytes_free(&f->got);
    free(f);
    return 0;
}

static void expect(fixture *f, const char *text)
{
    assert_true(out_flush(&f->o));
    bytes_u8(&f->got, 0);
    assert_string_equal((const char *)f->got.ptr, text);
    bytes_clear(&f->got);
}

static void numbers(void **state)
{
    fixture *f = *state;
    out_u64(&f->o, 0);
    out_text(&f->o, " ");
    out_u64(&f->o, UINT64_MAX);
    out_u64_width(&f->o, 7, 4);
    out_u64_width(&f->o, 12345, 4);
    out_u64_fixed(&f->o, 42, 9);
    out_u64_fixed(&f->o, 1234, 2);
    out_u64_fixed(&f->o, UINT64_MAX, 20);
    expect(f, "0 18446744073709551615   712345"
              "0000000423418446744073709551615");
}

static void hexadecimal(void **state)
{
    fixture *f = *state;
    char pair[9] = {0};
    out_hex(&f->o, 0);
    out_text(&f->o, " ");
    out_hex(&f->o, 0xABC);
    out_text(&f->o, " ");
    out_hex(&f->o, UINT64_MAX);
    out_text(&f->o, " ");
    out_hex_fixed(&f->o, 0x1F, 8);
    out_text(&f->o, " ");
    out_hex_fixed(&f->o, 5, 1);
    expect(f, "0 abc ffffffffffffffff 0000001f 5");
    for (uint32_t v = 0; v < 256; v++) {
        char want[9];
        snprintf(want, sizeof want, "%08" PRIx32, v * 0x01000193u);
        assert_ptr_equal(put_hex8(pair, v * 0x01000193u), pair + 8);
        assert_string_equal(pair, want);
    }
}

static void names_cannot_steer_a_terminal(void **state)
{
    fixture *f = *state;
    out_name(&f->o, text_str("a\x1B[2J\\b\x7F \xC3\xA4 \xC2\x9B \xFF\xE2\x82z\n"));
    expect(f, "a\\x1b[2J\\b\\x7f \xC3\xA4 \\xc2\\x9b \\xff\\xe2\\x82z\\x0a");
    out_name(&f->o, (spgo_str){NULL, 0});
    out_str(&f->o, (spgo_str){NULL, 0});
    out_name(&f->o, text_str("\t"));
    expect(f, "\\x09");
}

/* Names are looked through eight bytes at a time. */
static void special_bytes_are_found_at_every_place(void **state)
{
    fixture *f = *state;
    static const char special[] = "\x01\x1f\x7f\x80\xff";
    for (size_t at = 0; at < 24; at++) {
        for (size_t i = 0; i < sizeof special - 1; i++) {
            char name[] = "abcdefghijklmnopqrstuvwx", expected[32];
            name[at] = special[i];
            snprintf(expected, sizeof expected, "%.*s\\x%02x%s", (int)at, name,
                     (unsigned)(unsigned char)special[i], name + at + 1);
            out_name(&f->o, text_str(name));
            expect(f, expected);
        }
    }
}

static void quoted_text_can_be_told_from_the_rest(void **state)
{
    fixture *f = *state;
    out_quoted(&f->o, text_str("C:\\a \"b\" \x1B \xC3\xA4\xFF"));
    expect(f, "\"C:\\\\a \\\"b\\\" \\x1b \xC3\xA4\\xff\"");
    out_quoted(&f->o, (spgo_str){NULL, 0});
    expect(f, "\"\"");
}

static void signed_numbers(void **state)
{
    fixture *f = *state;
    const int64_t values[] = {0, -1, 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        out_i64(&f->o, values[i]);
        out_text(&f->o, " ");
    }
    expect(f, "0 -1 1 9223372036854775807 -9223372036854775808 ");
}

static void printf_takes_any_length(void **state)
{
    fixture *f = *state;
    enum { WIDE = OUT_BUFFER_SIZE + 1000 };
    out_printf(&f->o, "%d|%*s|", 5, WIDE, "x");
    assert_true(out_flush(&f->o));
    assert_int_equal(f->got.len, WIDE + 3);
    assert_memory_equal(f->got.ptr, "5| ", 3);
    assert_memory_equal(f->got.ptr + WIDE, " x|", 3);
}

static void all_bytes_pass_in_order(void **state)
{
    fixture *f = *state;
    bytes want = {0};
    for (unsigned i = 0; i < 100000; i++) {
        char line[32];
        int n = snprintf(line, sizeof line, "%u,", i);
        bytes_put(&want, line, (size_t)n);
        out_u64(&f->o, i);
        out_bytes(&f->o, ",", 1);
    }
    out_bytes(&f->o, (const char *)want.ptr, want.len);
    assert_true(out_flush(&f->o));
    assert_int_equal(f->got.len, 2 * want.len);
    assert_memory_equal(f->got.ptr, want.ptr, want.len);
    assert_memory_equal(f->got.ptr + want.len, want.ptr, want.len);
    bytes_free(&want);
}

static bool refuse_second(void *ctx, const void *data, size_t len)
{
    unsigned *calls = ctx;
    (void)data;
    (void)len;
    return ++*calls != 2;
}

static void a_refused_write_sticks(void **state)
{
    (void)state;
    unsigned calls = 0;
    out o;
    assert_int_equal(out_init(&o, (spgo_sink){.ctx = &calls, .write = refuse_second}, NULL),
                     SPGO_OK);
    out_text(&o, "a");
    assert_true(out_flush(&o));
    out_text(&o, "b");
    assert_false(out_flush(&o));
    out_text(&o, "c");
    assert_false(out_flush(&o));
    assert_int_equal(calls, 2); /* nothing is written behind the gap */
    out_free(&o);
}

static void json_places_commas(void **state)
{
    fixture *f = *state;
    json *j = &f->j;
    json_open_object(j);
    json_key(j, "a");
    json_u64(j, UINT64_MAX);
    json_key(j, "b");
    json_open_array(j);
    json_i64(j, INT64_MIN);
    json_bool(j, true);
    json_bool(j, false);
    json_null(j);
    json_open_object(j);
    json_close_object(j);
    json_close_array(j);
    json_key(j, "c");
    json_hex(j, 0x1A2B);
    json_close_object(j);
    json_end_line(j);
    json_open_array(j);
    json_close_array(j);
    json_end_line(j);
    expect(f, "{\"a\":18446744073709551615,\"b\":[-9223372036854775808,true,false,null,{}],"
              "\"c\":\"0x1a2b\"}\n[]\n");
}

static void json_pretty_puts_a_member_a_line(void **state)
{
    fixture *f = *state;
    json j = json_on(&f->o, true);
    json_open_object(&j);
    json_key(&j, "a");
    json_open_array(&j);
    json_u64(&j, 1);
    json_u64(&j, 2);
    json_close_array(&j);
    json_key(&j, "b");
    json_open_object(&j);
    json_close_object(&j);
    json_close_object(&j);
    json_end_line(&j);
    expect(f, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}\n");
}

static void json_escapes(void **state)
{
    fixture *f = *state;
    json_text(&f->j,
              "\"\\/\b\f\n\r\t\x01\x1F\x7F\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0 \xC3\xA4 \xFF\xC3");
    json_end_line(&f->j);
    json_str(&f->j, (spgo_str){"a\0b", 3});
    json_end_line(&f->j);
    json_str(&f->j, (spgo_str){NULL, 0});
    json_end_line(&f->j);
    expect(f,
           "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u0080\\u009b\\u009f\xC2\xA0 \xC3\xA4 "
           "\xEF\xBF\xBD\xEF\xBF\xBD\"\n"
           "\"a\\u0000b\"\n\"\"\n");
}

static void json_numbers_and_bytes(void **state)
{
    fixture *f = *state;
    static const uint8_t data[] = {0x00, 0xFF, 0x1a};
    json_open_array(&f->j);
    json_f64(&f->j, 1.5, 2);
    json_f64(&f->j, -0.125, 3);
    json_f64(&f->j, (double)NAN, 1);
    json_f64(&f->j, (double)INFINITY, 1);
    json_bytes(&f->j, (spgo_span){data, sizeof data});
    json_close_array(&f->j);
    expect(f, "[1.50,-0.125,null,null,\"00ff1a\"]");
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(numbers),
        WITH(hexadecimal),
        WITH(names_cannot_steer_a_terminal),
        WITH(special_bytes_are_found_at_every_place),
        WITH(quoted_text_can_be_told_from_the_rest),
        WITH(signed_numbers),
        WITH(printf_takes_any_length),
        WITH(all_bytes_pass_in_order),
        cmocka_unit_test(a_refused_write_sticks),
        WITH(json_places_commas),
        WITH(json_pretty_puts_a_member_a_line),
        WITH(json_escapes),
        WITH(json_numbers_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
