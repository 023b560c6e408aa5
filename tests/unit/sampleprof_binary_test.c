/* The binary forms, built by hand: what is read, and what is refused at which offset. */
#include "sampleprof_build.h"

#if SPGO_HAVE_ZLIB
#include <zlib.h>
#endif

enum {
    SUMMARY = 1,
    NAMES = 2,
    SYMBOLS = 3,
    OFFSETS = 4,
    METADATA = 5,
    CONTEXTS = 6,
    FUNCTIONS = 32,
    LATER_FUNCTIONS = 33
};

static const char *const names[] = {"f", "g", "h"};

static const char expected[] = "f:300:7\n"
                               " 1: 200\n"
                               " 2.3: 100 h:60 g:40\n"
                               " 4: g:20\n"
                               "  1: 20\n";

static bytes summary(void)
{
    bytes b = {0};
    PUT_ULEBS(&b, 320, 200, 7, 3, 1, 1, 990000, 20, 3);
    return b;
}

static bytes name_table(void)
{
    bytes b = {0};
    put_names(&b, names, 3);
    return b;
}

/* What `expected` says, with names 0 to 2. */
static bytes functions(void)
{
    bytes b = {0};
    PUT_ULEBS(&b, 7, 0, 300, 2,           /* head, name, total, lines */
              1, 0, 200, 0,               /* */
              2, 3, 100, 2, 1, 40, 2, 60, /* */
              1, 4, 0, 1, 20, 1, 1, 0, 20, 0, 0);
    return b;
}

static bytes plain(void)
{
    bytes b = {0};
    bytes parts[] = {summary(), name_table(), functions()};
    put_magic(&b, 0xff);
    for (size_t i = 0; i < 3; i++) {
        bytes_put(&b, parts[i].ptr, parts[i].len);
        bytes_free(&parts[i]);
    }
    return b;
}

static bytes extensible(void)
{
    built_section sections[] = {
        {SUMMARY, 0, summary()}, {NAMES, 0, name_table()}, {FUNCTIONS, 0, functions()}};
    return build_extbinary(sections, 3);
}

static void assert_reads_as(bytes b, const char *text)
{
    sampleprof *p = read_good(bytes_span(&b));
    assert_text(p, text);
    sampleprof_free(p);
    bytes_free(&b);
}

static void assert_refused(bytes b, spgo_code code, uint64_t offset, const char *part)
{
    assert_bad(bytes_span(&b), code, offset, part);
    bytes_free(&b);
}

static void test_plain_binary(void **state)
{
    (void)state;
    bytes b = plain();
    assert_int_equal(sampleprof_sniff(bytes_span(&b)), SAMPLEPROF_BINARY);
    assert_reads_as(b, expected);
}

static void test_extensible_binary(void **state)
{
    (void)state;
    bytes b = extensible();
    assert_int_equal(sampleprof_sniff(bytes_span(&b)), SAMPLEPROF_EXTBINARY);
    assert_reads_as(b, expected);
}

static void test_sections_that_are_passed_over(void **state)
{
    (void)state;
    bytes junk[3] = {{0}};
    for (size_t i = 0; i < 3; i++)
        bytes_fill(&junk[i], 0xff, 5);
    built_section sections[] = {{NAMES, 0, name_table()}, {OFFSETS, 0, junk[0]},
                                {CONTEXTS, 0, junk[1]},   {FUNCTIONS, 2, functions()}, /* "flat" */
                                {SYMBOLS, 0, junk[2]},    {METADATA, 0, {0}}};
    assert_reads_as(build_extbinary(sections, 6), expected);
}

static void test_an_unknown_section_is_a_finding(void **state)
{
    (void)state;
    bytes junk = {0};
    bytes_fill(&junk, 1, 5);
    built_section sections[] = {
        {NAMES, 0, name_table()}, {7, 0, junk}, {FUNCTIONS, 0, functions()}};
    bytes b = build_extbinary(sections, 3);
    sampleprof *p;
    diag d = {0};
    spgo_error err;
    assert_int_equal(sampleprof_read(bytes_span(&b), 0, &p, &d, &err), SPGO_OK);
    assert_int_equal(d.total, 1);
    assert_int_equal(d.kept[0].code, SPGO_UNSUPPORTED);
    assert_int_equal(d.kept[0].offset, row_off(1));
    assert_text(p, expected);
    sampleprof_free(p);
    bytes_free(&b);
}

static void test_metadata(void **state)
{
    (void)state;
    bytes b = {0};
    PUT_ULEBS(&b, 0, 1234, 2, 2);                 /* f: checksum, attributes, callees */
    PUT_ULEBS(&b, 4, 0, 1, 77, 0, 0);             /* g at 4 */
    PUT_ULEBS(&b, 5, 0, 1, 78, 0, 0);             /* g at 5, where none is */
    PUT_ULEBS(&b, 2, 99, 0, 1, 1, 0, 1, 5, 5, 0); /* h, which has no profile */
    built_section sections[] = {{SUMMARY, 1ull << 34, summary()},
                                {NAMES, 0, name_table()},
                                {FUNCTIONS, 0, functions()},
                                {METADATA, 3ull << 32, b}};
    bytes file = build_extbinary(sections, 4);
    sampleprof *p = read_good(bytes_span(&file));
    assert_true(sampleprof_has_probes(p));
    assert_true(sampleprof_has_fs_discriminators(p));
    assert_text(p, "f:300:7\n 1: 200\n 2.3: 100 h:60 g:40\n 4: g:20\n  1: 20\n  !CFGChecksum: 77\n"
                   " !CFGChecksum: 1234\n !Attributes: 2\n");
    sampleprof_free(p);
    bytes_free(&file);
}

static void test_md5_names_of_both_widths(void **state)
{
    (void)state;
    for (int is_fixed = 0; is_fixed < 2; is_fixed++) {
        bytes b = {0};
        put_uleb(&b, 3);
        static const uint64_t values[] = {UINT64_MAX, 10, 9};
        for (size_t i = 0; i < 3; i++) {
            if (is_fixed)
                bytes_u64(&b, values[i]);
            else
                put_uleb(&b, values[i]);
        }
        built_section sections[] = {{NAMES, (is_fixed ? 3ull : 1ull) << 32, b},
                                    {FUNCTIONS, 0, functions()}};
        bytes file = build_extbinary(sections, 2);
        sampleprof *p = read_good(bytes_span(&file));
        assert_true(sampleprof_has_md5_names(p));
        assert_text(p, "18446744073709551615:300:7\n 1: 200\n 2.3: 100 9:60 10:40\n 4: 10:20\n"
                       "  1: 20\n");
        sampleprof_free(p);
        bytes_free(&file);
    }
}

/* ------------------------------------------------------------------ compression */

#if SPGO_HAVE_ZLIB
static bytes packed(bytes raw, uint64_t claimed)
{
    bytes b = {0};
    uint8_t room[256];
    uLongf len = sizeof room;
    assert_int_equal(compress(room, &len, raw.ptr, (uLong)raw.len), Z_OK);
    put_uleb(&b, claimed ? claimed : raw.len);
    put_uleb(&b, len);
    bytes_put(&b, room, len);
    bytes_free(&raw);
    return b;
}

static void test_compressed_sections(void **state)
{
    (void)state;
    built_section sections[] = {{SUMMARY, 1, packed(summary(), 0)},
                                {NAMES, 1, packed(name_table(), 0)},
                                {FUNCTIONS, 1, packed(functions(), 0)}};
    assert_reads_as(build_extbinary(sections, 3), expected);
}

static void test_compressed_sections_that_lie(void **state)
{
    static const struct {
        uint64_t claimed;
        const char *part;
    } cases[] = {{6, "cannot be expanded"},
                 {8, "cannot be expanded"},
                 {1ull << 40, "claims more than it can expand to"},
                 {UINT64_MAX, "claims more than it can expand to"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        built_section sections[] = {{NAMES, 1, packed(name_table(), cases[i].claimed)}};
        assert_refused(build_extbinary(sections, 1), SPGO_CORRUPT, row_off(0), cases[i].part);
    }
}

/* What is wrong inside has no place of its own in the file. */
static void test_damage_in_a_compressed_section_is_at_its_begin(void **state)
{
    (void)state;
    bytes cut = functions();
    cut.len--;
    built_section sections[] = {{NAMES, 0, name_table()}, {FUNCTIONS, 1, packed(cut, 0)}};
    assert_refused(build_extbinary(sections, 2), SPGO_TRUNCATED, row_off(2) + 7, "functions");
}
#else
static void test_compressed_sections(void **state)
{
    (void)state;
    built_section sections[] = {{NAMES, 1, name_table()}};
    assert_refused(build_extbinary(sections, 1), SPGO_UNSUPPORTED, row_off(0), "lacks zlib");
}
#endif

/* ------------------------------------------------------------------ refusals */

static void test_other_versions_are_refused(void **state)
{
    (void)state;
    bytes b = plain();
    b.ptr[MAGIC_BYTES - 1] = 104;
    assert_refused(b, SPGO_UNSUPPORTED, MAGIC_BYTES - 1, "version 104");
}

static void test_profiles_by_context_are_refused(void **state)
{
    (void)state;
    built_section sections[] = {{SUMMARY, 1ull << 33, summary()}};
    assert_refused(build_extbinary(sections, 1), SPGO_UNSUPPORTED, row_off(0), "calling context");
}

static void test_parts_of_later_versions_are_refused(void **state)
{
    (void)state;
    built_section flag[] = {{SUMMARY, 1ull << 37, summary()}};
    assert_refused(build_extbinary(flag, 1), SPGO_UNSUPPORTED, row_off(0), "later version");
    built_section type[] = {{NAMES, 0, name_table()}, {LATER_FUNCTIONS, 0, functions()}};
    assert_refused(build_extbinary(type, 2), SPGO_UNSUPPORTED, row_off(1), "later version");
}

static void test_sections_outside_of_the_file(void **state)
{
    (void)state;
    bytes b = extensible();
    bytes_set_u64(&b, (size_t)row_off(1) + 16, b.len + 1);
    assert_refused(b, SPGO_TRUNCATED, row_off(1), "outside");
    b = extensible();
    bytes_set_u64(&b, (size_t)row_off(2) + 24, UINT64_MAX);
    assert_refused(b, SPGO_TRUNCATED, row_off(2), "outside");
    b = extensible();
    bytes_set_u64(&b, MAGIC_BYTES, UINT64_MAX);
    assert_refused(b, SPGO_CORRUPT, MAGIC_BYTES + 8, "sections");
}

/* Or a small file could be read for hours. */
static void test_sections_that_share_bytes(void **state)
{
    (void)state;
    bytes b = extensible();
    for (size_t i = 0; i < 3; i++) {
        bytes_set_u64(&b, (size_t)row_off(i), SYMBOLS);
        bytes_set_u64(&b, (size_t)row_off(i) + 16, 0);
        bytes_set_u64(&b, (size_t)row_off(i) + 24, b.len / 2);
    }
    assert_refused(b, SPGO_CORRUPT, row_off(2), "shares bytes");
}

static void test_bytes_behind_a_section_s_contents(void **state)
{
    (void)state;
    bytes long_names = name_table();
    bytes_u8(&long_names, 0);
    uint64_t end = row_off(1) + long_names.len - 1;
    built_section sections[] = {{NAMES, 0, long_names}};
    assert_refused(build_extbinary(sections, 1), SPGO_CORRUPT, end, "names");
}

/* One byte of the functions changed; `at` counts from their begin. */
static void assert_refused_with(size_t at, uint8_t value, spgo_code code, size_t bad_at,
                                const char *part)
{
    built_section sections[] = {{NAMES, 0, name_table()}, {FUNCTIONS, 0, functions()}};
    uint64_t start = row_off(2) + sections[0].contents.len;
    sections[1].contents.ptr[at] = value;
    assert_refused(build_extbinary(sections, 2), code, start + bad_at, part);
}

static void test_bad_functions(void **state)
{
    (void)state;
    assert_refused_with(1, 3, SPGO_CORRUPT, 1, "no number 3");
    assert_refused_with(4, 100, SPGO_CORRUPT, 5, "functions");    /* 100 lines */
    assert_refused_with(16, 3, SPGO_CORRUPT, 16, "no number 3");  /* a callee */
    assert_refused_with(13, 0x80, SPGO_CORRUPT, 15, "functions"); /* many targets */
}

static void test_numbers_that_do_not_fit(void **state)
{
    static const struct {
        uint64_t line, discriminator;
        size_t bad_at;
    } cases[] = {{65536, 0, 4}, {1, 1ull << 32, 5}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        bytes b = {0};
        PUT_ULEBS(&b, 7, 0, 30, 1);
        put_uleb(&b, cases[i].line);
        put_uleb(&b, cases[i].discriminator);
        PUT_ULEBS(&b, 5, 0, 0);
        built_section sections[] = {{NAMES, 0, name_table()}, {FUNCTIONS, 0, b}};
        uint64_t start = row_off(2) + sections[0].contents.len;
        assert_refused(build_extbinary(sections, 2), SPGO_CORRUPT, start + cases[i].bad_at,
                       "too large");
    }
}

static void test_numbers_of_more_than_64_bits(void **state)
{
    (void)state;
    static const uint8_t longest[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    for (uint8_t last = 1; last < 3; last++) {
        bytes b = {0};
        bytes_put(&b, longest, sizeof longest);
        b.ptr[9] = last;
        PUT_ULEBS(&b, 0, 0, 0, 0);
        built_section sections[] = {{NAMES, 0, name_table()}, {FUNCTIONS, 0, b}};
        uint64_t start = row_off(2) + sections[0].contents.len;
        bytes file = build_extbinary(sections, 2);
        if (last == 1)
            assert_reads_as(file, "f:0:18446744073709551615\n");
        else
            assert_refused(file, SPGO_CORRUPT, start, "functions");
    }
}

static void test_empty_names_are_refused_where_they_are_used(void **state)
{
    static const char *const with_empty[] = {"f", "g", ""};
    (void)state;
    bytes b = {0};
    put_names(&b, with_empty, 3);
    built_section sections[] = {{NAMES, 0, b}, {FUNCTIONS, 0, functions()}};
    uint64_t start = row_off(2) + b.len;
    assert_refused(build_extbinary(sections, 2), SPGO_CORRUPT, start + 16, "name 2 is empty");
}

static void test_nesting_is_bounded(void **state)
{
    enum { DEPTH = 2000 };
    (void)state;
    bytes b = {0};
    PUT_ULEBS(&b, 1, 0);
    for (int i = 0; i < DEPTH; i++)
        PUT_ULEBS(&b, 1, 0, 1, 1, 0, 1);
    PUT_ULEBS(&b, 1, 0, 0);
    built_section sections[] = {{NAMES, 0, name_table()}, {FUNCTIONS, 0, b}};
    uint64_t start = row_off(2) + sections[0].contents.len;
    assert_refused(build_extbinary(sections, 2), SPGO_LIMIT, start + 2 + 1025 * 6, "1024 callees");
}

static void test_metadata_nesting_is_bounded(void **state)
{
    enum { DEPTH = 100000 };
    (void)state;
    bytes b = {0};
    for (int i = 0; i < DEPTH; i++)
        PUT_ULEBS(&b, 0, 1, 1, 0);
    PUT_ULEBS(&b, 0, 0);
    built_section sections[] = {{NAMES, 0, name_table()}, {METADATA, 0, b}};
    uint64_t start = row_off(2) + sections[0].contents.len;
    assert_refused(build_extbinary(sections, 2), SPGO_LIMIT, start + 1025 * 4 + 1, "1024 callees");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_binary),
        cmocka_unit_test(test_extensible_binary),
        cmocka_unit_test(test_sections_that_are_passed_over),
        cmocka_unit_test(test_an_unknown_section_is_a_finding),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_md5_names_of_both_widths),
        cmocka_unit_test(test_compressed_sections),
#if SPGO_HAVE_ZLIB
        cmocka_unit_test(test_compressed_sections_that_lie),
        cmocka_unit_test(test_damage_in_a_compressed_section_is_at_its_begin),
#endif
        cmocka_unit_test(test_other_versions_are_refused),
        cmocka_unit_test(test_profiles_by_context_are_refused),
        cmocka_unit_test(test_parts_of_later_versions_are_refused),
        cmocka_unit_test(test_sections_outside_of_the_file),
        cmocka_unit_test(test_sections_that_share_bytes),
        cmocka_unit_test(test_bytes_behind_a_section_s_contents),
        cmocka_unit_test(test_bad_functions),
        cmocka_unit_test(test_numbers_that_do_not_fit),
        cmocka_unit_test(test_numbers_of_more_than_64_bits),
        cmocka_unit_test(test_empty_names_are_refused_where_they_are_used),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_metadata_nesting_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
