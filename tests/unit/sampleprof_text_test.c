/* The text form: what is read, what is refused and where, and that writing gives it back. */
#include "sampleprof_build.h"

#include <stdio.h>

static const char whole[] = "main:604:1\n"
                            " 1: 1\n"
                            " 2.3: 101\n"
                            " 7: 100 b:50 a:30 c:30\n"
                            " 5: _ZN3Acc4bumpEj:360\n"
                            "  1: 90\n"
                            "  2: deeper:90\n"
                            "   65535.4294967295: 90\n"
                            " 5: other:0\n"
                            "f:0:18446744073709551615\n";

static void test_what_is_read_is_written_again(void **state)
{
    (void)state;
    sampleprof *p = read_text(whole);
    assert_text(p, whole);
    const sampleprof_function *f = sampleprof_find(p, text_str("main"));
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    assert_int_equal(count, 3);
    assert_int_equal(lines[1].place.discriminator, 3);
    assert_int_equal(lines[2].target_count, 3);
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    assert_int_equal(count, 2);
    assert_int_equal(sampleprof_total(sites[0].callee), 360);
    assert_false(sampleprof_has_probes(p));
    sampleprof_free(p);
}

static void test_checksums_and_attributes(void **state)
{
    static const char text[] = "f:10:1\n"
                               " 1: 5\n"
                               " 2: g:5\n"
                               "  1: 5\n"
                               "  !CFGChecksum: 0\n"
                               " !CFGChecksum: 563003850888502\n"
                               " !Attributes: 6\n";
    (void)state;
    sampleprof *p = read_text(text);
    const sampleprof_function *f = sampleprof_find(p, text_str("f"));
    uint64_t checksum;
    size_t count;
    assert_true(sampleprof_has_probes(p));
    assert_true(sampleprof_checksum(f, &checksum));
    assert_int_equal(checksum, 563003850888502);
    assert_int_equal(sampleprof_attributes(f), 6);
    assert_false(sampleprof_checksum(sampleprof_callsites(f, &count)->callee, &checksum));
    assert_text(p, text);
    sampleprof_free(p);
}

static void test_comments_blank_lines_and_line_ends(void **state)
{
    (void)state;
    sampleprof *p = read_text(
        "# made by hand\r\n\r\n  \nf:10:1\r\n# more\n 1: 5 g:5\r\n  # deep\n !Flat\n 2: 6");
    assert_text(p, "f:10:1\n 1: 5 g:5\n 2: 6\n");
    sampleprof_free(p);
}

static void test_equal_functions_places_and_callees_add_up(void **state)
{
    (void)state;
    sampleprof *p = read_text("f:10:1\n 1: 5 g:5\n 2: h:2\n  1: 2\ng:1:1\nf:20:2\n 1: 6 g:1 i:1\n"
                              " 2: h:3\n  1: 3\n");
    assert_text(p, "f:30:3\n 1: 11 g:6 i:1\n 2: h:5\n  1: 5\ng:1:1\n");
    sampleprof_free(p);
}

/* Names that were never mangled. */
static void test_names_with_spaces_and_colons(void **state)
{
    static const char text[] =
        "std::vector<char *>::at:9:1\n"
        " 1: 1437 _M_construct<char *>:1000 string_view<std::allocator<char> >:437\n"
        " 2: a::b <c>:4\n"
        "  1: 4\n"
        "operator():1:0\n";
    (void)state;
    sampleprof *p = read_text(text);
    size_t count;
    const sampleprof_function *f = sampleprof_find(p, text_str("std::vector<char *>::at"));
    assert_non_null(f);
    const sampleprof_line *line = sampleprof_lines(f, &count);
    assert_int_equal(line->target_count, 2);
    assert_true(
        text_equal(line->targets[1].callee, text_str("string_view<std::allocator<char> >")));
    assert_text(p, text);
    sampleprof_free(p);
}

static void test_md5_names_of_callees_are_no_counts(void **state)
{
    static const char text[] = "822857472:9:1\n 1: 5 77:5\n 2: 12345:4\n  1: 4\n";
    (void)state;
    sampleprof *p = read_text(text);
    assert_true(sampleprof_has_md5_names(p));
    assert_text(p, text);
    sampleprof_free(p);
}

/* As llvm-profdata reads it: deeper than any callee is of the innermost. */
static void test_a_line_that_is_indented_too_far_belongs_to_the_innermost(void **state)
{
    (void)state;
    sampleprof *p = read_text("f:1:0\n    1: 7\n 2: g:3\n      1: 3\n");
    assert_text(p, "f:1:0\n 1: 7\n 2: g:3\n  1: 3\n");
    sampleprof_free(p);
}

static void test_bad_lines_are_named(void **state)
{
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"g:5", "line 2 is no 'name:total:head'"},
        {"g:5:", "'name:total:head'"},
        {"g:5:x", "'name:total:head'"},
        {"g:-5:1", "'name:total:head'"},
        {":5:1", "'name:total:head'"},
        {"g:18446744073709551616:1", "'name:total:head'"},
        {" 1", "'line[.discriminator]: ...'"},
        {" 1:5", "'line[.discriminator]: ...'"},
        {" 1: ", "'line[.discriminator]: ...'"},
        {" x: 5", "'line[.discriminator]: ...'"},
        {" 65536: 5", "'line[.discriminator]: ...'"},
        {" 1.: 5", "'line[.discriminator]: ...'"},
        {" 1.4294967296: 5", "'line[.discriminator]: ...'"},
        {" 1: g", "callee:total"},
        {" 1: g:", "callee:total"},
        {" 1: :5", "callee:total"},
        {" 1: 5 g", "count target:count"},
        {" 1: 5 g:", "count target:count"},
        {" 1: 5 :6", "count target:count"},
        {" !Other: 1", "!CFGChecksum"},
        {" !CFGChecksum: x", "metadata"},
        {" !CFGChecksum:", "metadata"},
        {" !Attributes: 4294967296", "metadata"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bytes b = {0};
        bytes_put(&b, "f:10:1\n", 7);
        bytes_put(&b, cases[i].line, strlen(cases[i].line));
        bytes_put(&b, "\n", 1);
        assert_bad(bytes_span(&b), SPGO_CORRUPT, 7, cases[i].part);
        bytes_free(&b);
    }
}

static void test_a_name_with_a_nul_is_refused(void **state)
{
    static const uint8_t text[] = "f:1:1\na\0b:1:1\n";
    (void)state;
    assert_bad((spgo_span){text, sizeof text - 1}, SPGO_CORRUPT, 6, "'name:total:head'");
}

static void test_profiles_by_context_are_refused(void **state)
{
    (void)state;
    assert_bad(as_span("[main:3 @ foo]:10:1\n 1: 5\n"), SPGO_UNSUPPORTED, 0, "calling context");
}

static void test_nesting_is_bounded(void **state)
{
    enum { DEPTH = 1200 };
    (void)state;
    bytes b = {0};
    bytes_put(&b, "f:1:1\n", 6);
    size_t limit_off = 0;
    for (unsigned depth = 1; depth < DEPTH; depth++) {
        if (depth == 1025)
            limit_off = b.len;
        bytes_fill(&b, ' ', depth);
        bytes_put(&b, "1: g:1\n", 7);
    }
    assert_bad(bytes_span(&b), SPGO_LIMIT, limit_off, "line 1026: more than 1024");
    bytes_free(&b);
}

static void test_with_findings_the_rest_is_read(void **state)
{
    static const char text[] = "f:10:1\n"
                               " 1: 5\n"
                               " x: 6\n" /* line 3 */
                               " 2: g\n" /* line 4: and what is below */
                               "  1: 7\n"
                               " 3: 8\n"
                               "bad\n" /* line 7: and all of it */
                               " 1: 9\n"
                               "  1: 9\n"
                               "h:1:0\n"
                               " 1: <vtables> _ZTV1a:5 \n" /* line 11 */
                               " 1: 1\n";
    static const spgo_code codes[] = {SPGO_CORRUPT, SPGO_CORRUPT, SPGO_CORRUPT, SPGO_UNSUPPORTED};
    static const uint64_t offsets[] = {13, 19, 38, 61};
    (void)state;
    sampleprof *p;
    diag d = {0};
    spgo_error err;
    assert_int_equal(sampleprof_read(as_span(text), 0, &p, &d, &err), SPGO_OK);
    assert_int_equal(d.total, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(d.kept[i].code, codes[i]);
        assert_int_equal(d.kept[i].offset, offsets[i]);
    }
    assert_text(p, "f:10:1\n 1: 5\n 3: 8\nh:1:0\n 1: 1\n");
    sampleprof_free(p);
}

static void test_a_budget_is_kept(void **state)
{
    (void)state;
    sampleprof *p;
    spgo_error err;
    bytes b = {0};
    for (int i = 0; i < 3000; i++) {
        char line[32];
        snprintf(line, sizeof line, "f%d:1:1\n 1: 1\n", i);
        bytes_put(&b, line, strlen(line));
    }
    assert_int_equal(sampleprof_read(bytes_span(&b), 100000, &p, NULL, &err), SPGO_LIMIT);
    assert_non_null(strstr(err.sentence, "100000 bytes"));
    assert_int_equal(sampleprof_read(bytes_span(&b), 10000000, &p, NULL, &err), SPGO_OK);
    sampleprof_free(p);
    bytes_free(&b);
}

static void test_forms_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(sampleprof_sniff(as_span("# c\n\nf:1:1\n")), SAMPLEPROF_TEXT);
    assert_int_equal(sampleprof_sniff(as_span("f:1:1")), SAMPLEPROF_TEXT);
    assert_int_equal(sampleprof_sniff(as_span("[a:1 @ b]:1:1")), SAMPLEPROF_TEXT);
    assert_int_equal(sampleprof_sniff(as_span("")), SAMPLEPROF_NOT);
    assert_int_equal(sampleprof_sniff(as_span("# c\n")), SAMPLEPROF_NOT);
    assert_int_equal(sampleprof_sniff(as_span("f:1\n")), SAMPLEPROF_NOT);
    assert_int_equal(sampleprof_sniff(as_span(" 1: 1\n")), SAMPLEPROF_NOT);
    assert_int_equal(sampleprof_sniff((spgo_span){(const uint8_t *)"a\0b:1:1", 7}), SAMPLEPROF_NOT);
    assert_int_equal(sampleprof_sniff((spgo_span){NULL, 0}), SAMPLEPROF_NOT);
}

static void test_other_kinds_of_profiles_are_named(void **state)
{
    static const uint8_t indexed[] = "\x81iforpl\xff\x0c\0\0\0\0\0\0\0";
    static const uint8_t compact[] = "\x82\xe4\xd0\xb1\xf4\xc9\x94\xa8\x53\x67";
    (void)state;
    assert_bad((spgo_span){indexed, sizeof indexed - 1}, SPGO_UNSUPPORTED, 0, "instrumentation");
    assert_bad((spgo_span){compact, sizeof compact - 1}, SPGO_UNSUPPORTED, 0, "compact");
    assert_bad(as_span("adcg*704"), SPGO_UNSUPPORTED, 0, "GCC");
    assert_bad(as_span("whatever"), SPGO_CORRUPT, 0, "no sample profile");
    assert_bad(as_span(""), SPGO_CORRUPT, 0, "no sample profile");
}

/* ------------------------------------------------------------------ writing */

typedef void adding(sampleprof *p, sampleprof_function *f, spgo_str name);

static void add_top(sampleprof *p, sampleprof_function *f, spgo_str name)
{
    (void)f;
    assert_non_null(sampleprof_function_named(p, name));
}

static void add_callee(sampleprof *p, sampleprof_function *f, spgo_str name)
{
    assert_non_null(sampleprof_inlined(p, f, place_at(1, 0), name));
}

static void add_target(sampleprof *p, sampleprof_function *f, spgo_str name)
{
    assert_true(sampleprof_add_target(p, f, place_at(1, 0), name, 1));
}

static spgo_code code_of_writing(const sampleprof *p, spgo_error *err)
{
    bytes b = {0};
    out o;
    assert_int_equal(out_init(&o, bytes_sink(&b), NULL), SPGO_OK);
    spgo_code code = sampleprof_write_text(p, &o, err);
    out_free(&o);
    bytes_free(&b);
    return code;
}

static void test_names_that_would_not_be_read_again_are_refused(void **state)
{
    static const struct {
        const char *name;
        bool top, callee, target;
    } cases[] = {
        {"plain", true, true, true},
        {"a b", true, true, true},
        {"a:b c", true, true, true},
        {"a:1 b", true, true, false},
        {"a:1", true, true, true},
        {":a", true, true, false},
        {"1 b", true, false, true},
        {"1", true, true, true},
        {"#a", false, true, true},
        {"[a]", false, true, true},
        {" a", false, false, false},
        {"a\nb", false, false, false},
        {"a:18446744073709551616 b", true, true, false},
        {"\xff\xe5\xd0\xb1\xf4\xc9\x94\xa8\x53 b", false, true, true},
    };
    static adding *const roles[] = {add_top, add_callee, add_target};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool fits[] = {cases[i].top, cases[i].callee, cases[i].target};
        for (size_t role = 0; role < 3; role++) {
            sampleprof *p = sampleprof_new(0);
            spgo_error err = {0};
            roles[role](p, sampleprof_function_named(p, text_str("f")), text_str(cases[i].name));
            spgo_code code = code_of_writing(p, &err);
            if (code != (fits[role] ? SPGO_OK : SPGO_UNSUPPORTED))
                fail_msg("'%s' as role %u: %s", cases[i].name, (unsigned)role,
                         spgo_code_name(code));
            if (fits[role]) {
                bytes b = text_of(p);
                sampleprof *again = read_good((spgo_span){b.ptr, b.len - 1});
                assert_same_profile(p, again);
                sampleprof_free(again);
                bytes_free(&b);
            }
            sampleprof_free(p);
        }
    }
}

static void test_line_offsets_that_llvm_refuses_are_refused(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    spgo_error err = {0};
    sampleprof_function *f = sampleprof_function_named(p, text_str("f"));
    assert_true(sampleprof_add_line(p, f, place_at(65536, 0), 1));
    assert_int_equal(code_of_writing(p, &err), SPGO_UNSUPPORTED);
    assert_non_null(strstr(err.sentence, "65536"));
    sampleprof_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read_is_written_again),
        cmocka_unit_test(test_checksums_and_attributes),
        cmocka_unit_test(test_comments_blank_lines_and_line_ends),
        cmocka_unit_test(test_equal_functions_places_and_callees_add_up),
        cmocka_unit_test(test_names_with_spaces_and_colons),
        cmocka_unit_test(test_md5_names_of_callees_are_no_counts),
        cmocka_unit_test(test_a_line_that_is_indented_too_far_belongs_to_the_innermost),
        cmocka_unit_test(test_bad_lines_are_named),
        cmocka_unit_test(test_a_name_with_a_nul_is_refused),
        cmocka_unit_test(test_profiles_by_context_are_refused),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_with_findings_the_rest_is_read),
        cmocka_unit_test(test_a_budget_is_kept),
        cmocka_unit_test(test_forms_are_told_apart),
        cmocka_unit_test(test_other_kinds_of_profiles_are_named),
        cmocka_unit_test(test_names_that_would_not_be_read_again_are_refused),
        cmocka_unit_test(test_line_offsets_that_llvm_refuses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
