/* Names, wildcards, distances and encodings. */
#include "test_data.h"

#include <base/bytes.h>
#include <base/text.h>

#include <string.h>

static spgo_str S(const char *text)
{
    return text_str(text);
}

static bool match(const char *pattern, const char *name)
{
    return text_match(S(pattern), S(name));
}

static void base_name_is_behind_the_last_separator(void **state)
{
    (void)state;
    assert_true(
        text_equal(text_base_name(S("\\Device\\HarddiskVolume3\\a\\app.exe")), S("app.exe")));
    assert_true(text_equal(text_base_name(S("/usr/lib/libc.so.6")), S("libc.so.6")));
    assert_true(text_equal(text_base_name(S("c:\\a/b")), S("b")));
    assert_true(text_equal(text_base_name(S("plain")), S("plain")));
    assert_int_equal(text_base_name(S("dir/")).len, 0);
    assert_int_equal(text_base_name((spgo_str){NULL, 0}).len, 0);
    assert_int_equal(text_str(NULL).len, 0);
}

static void equality_folds_ascii_letters_only(void **state)
{
    (void)state;
    assert_true(text_equal_nocase(S("App.EXE"), S("aPP.exe")));
    assert_false(text_equal_nocase(S("app.exe"), S("app.ex")));
    assert_false(text_equal_nocase(S("[x"), S("{x"))); /* differ by 0x20 as letters do */
    assert_false(text_equal_nocase(S("\xC3\x84"), S("\xC3\xA4")));
    assert_true(text_equal((spgo_str){NULL, 0}, S("")));
    assert_false(text_equal(S("a"), S("A")));
}

static void wildcards_match_runs_and_characters(void **state)
{
    (void)state;
    assert_true(match("", ""));
    assert_false(match("", "a"));
    assert_true(match("*", ""));
    assert_true(match("**", "abc"));
    assert_true(match("a*c", "abcbc"));
    assert_true(match("*.EXE", "App.exe"));
    assert_false(match("*.exe", "app.exe.bak"));
    assert_true(match("a?c", "abc"));
    assert_true(match("a?c", "a\xE2\x82\xAC"
                             "c")); /* a euro sign is one character */
    assert_true(match("a?c", "a\xFF"
                             "c")); /* so is a byte that is none */
    assert_false(match("a?c", "ac"));
    assert_false(match("a?", "a"));
    assert_true(match("*ab*ab*", "xabyabz"));
    assert_false(match("*ab*ab*", "xabyaz"));
}

static void wildcards_stay_polynomial(void **state)
{
    (void)state;
    char name[4096];
    char pattern[512];
    memset(name, 'a', sizeof name);
    for (size_t i = 0; i + 1 < sizeof pattern; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[sizeof pattern - 1] = 'b';
    assert_false(text_match((spgo_str){pattern, sizeof pattern}, (spgo_str){name, sizeof name}));
}

static void distance_counts_edits_up_to_its_bound(void **state)
{
    (void)state;
    assert_int_equal(text_distance(S("merge"), S("MERGE"), 3), 0);
    assert_int_equal(text_distance(S("merge"), S("marge"), 3), 1);
    assert_int_equal(text_distance(S("kitten"), S("sitting"), 5), 3);
    assert_int_equal(text_distance(S("kitten"), S("sitting"), 2), 3);
    assert_int_equal(text_distance(S(""), S("ab"), 2), 2);
    assert_int_equal(text_distance(S(""), S("abc"), 2), 3);
    char longer[200];
    memset(longer, 'x', sizeof longer);
    assert_int_equal(text_distance((spgo_str){longer, 200}, (spgo_str){longer, 200}, 2), 3);
}

static void well_formed_utf8_is_told_from_ill_formed(void **state)
{
    (void)state;
    assert_true(text_is_utf8(S("")));
    assert_true(text_is_utf8(S("\x7F \xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80")));
    assert_true(text_is_utf8(S("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF")));
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xC3",             /* cut */
        "\xE2\x82",         /* cut */
        "\xC0\xAF",         /* overlong */
        "\xC1\xBF",         /* overlong */
        "\xE0\x9F\xBF",     /* overlong */
        "\xF0\x8F\xBF\xBF", /* overlong */
        "\xED\xA0\x80",     /* a surrogate */
        "\xF4\x90\x80\x80", /* above U+10FFFF */
        "\xF5\x80\x80\x80", /* no lead byte */
        "\xFF",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(text_is_utf8(S(bad[i])));
}

static void utf8_round_trips_every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char text[4];
        uint32_t back = 0;
        size_t len = text_utf8_put(text, c);
        assert_int_equal(text_utf8_next(text, len, &back), len);
        assert_int_equal(back, c >= 0xD800 && c <= 0xDFFF ? 0xFFFD : c);
        assert_int_equal(text_utf8_next(text, len - 1, &back), 0);
    }
}

static const char mixed[] = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";

static void utf16_becomes_utf8(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_utf16z(&b, mixed);
    arena *a = arena_new(0);
    spgo_str text = text_from_utf16(a, (spgo_span){b.ptr, b.len - 2});
    assert_int_equal(text.len, sizeof mixed - 1);
    assert_string_equal(text.ptr, mixed);
    assert_string_equal(text_from_utf16(a, (spgo_span){NULL, 0}).ptr, "");
    bytes_free(&b);
    arena_free(a);
}

static void lone_surrogates_are_replaced_and_odd_bytes_dropped(void **state)
{
    (void)state;
    static const uint8_t units[] = {0x3D, 0xD8, 'x', 0, 0x00, 0xDE, 0x3D, 0xD8, 'y'};
    char text[32];
    size_t len = text_from_utf16_into(text, sizeof text, (spgo_span){units, sizeof units});
    assert_string_equal(text, "\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_int_equal(len, 10);
}

static void a_small_buffer_gets_whole_characters(void **state)
{
    (void)state;
    static const size_t expected[] = {0, 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    bytes b = {0};
    bytes_utf16z(&b, mixed);
    for (size_t size = 0; size < sizeof expected / sizeof expected[0]; size++) {
        char text[16];
        memset(text, '#', sizeof text);
        size_t len = text_from_utf16_into(text, size, (spgo_span){b.ptr, b.len - 2});
        assert_int_equal(len, expected[size]);
        assert_memory_equal(text, mixed, len);
        assert_int_equal(text[len], size ? '\0' : '#');
        assert_int_equal(text[size ? size : 1], '#');
    }
    bytes_free(&b);
}

static void no_memory_gives_empty_text(void **state)
{
    (void)state;
    static const uint8_t units[8] = {'a', 0, 'b', 0, 'c', 0, 'd', 0};
    arena *a = arena_new(4);
    spgo_str text = text_from_utf16(a, (spgo_span){units, sizeof units});
    assert_int_equal(text.len, 0);
    assert_string_equal(text.ptr, "");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_name_is_behind_the_last_separator),
        cmocka_unit_test(equality_folds_ascii_letters_only),
        cmocka_unit_test(wildcards_match_runs_and_characters),
        cmocka_unit_test(wildcards_stay_polynomial),
        cmocka_unit_test(distance_counts_edits_up_to_its_bound),
        cmocka_unit_test(well_formed_utf8_is_told_from_ill_formed),
        cmocka_unit_test(utf8_round_trips_every_code_point),
        cmocka_unit_test(utf16_becomes_utf8),
        cmocka_unit_test(lone_surrogates_are_replaced_and_odd_bytes_dropped),
        cmocka_unit_test(a_small_buffer_gets_whole_characters),
        cmocka_unit_test(no_memory_gives_empty_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
