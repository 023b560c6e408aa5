/* The extensible binary that is written: byte by byte, and read back. */
#include "sampleprof_build.h"

static void assert_comes_back(const char *text)
{
    sampleprof *p = read_text(text);
    bytes b = extbinary_of(p);
    sampleprof *again = read_good(bytes_span(&b));
    assert_text(again, text);
    assert_int_equal(sampleprof_has_probes(again), sampleprof_has_probes(p));
    assert_int_equal(sampleprof_has_md5_names(again), sampleprof_has_md5_names(p));
    bytes twice = extbinary_of(again);
    assert_int_equal(twice.len, b.len);
    assert_memory_equal(twice.ptr, b.ptr, b.len);
    bytes_free(&twice);
    bytes_free(&b);
    sampleprof_free(again);
    sampleprof_free(p);
}

static void test_what_is_written_is_read_again(void **state)
{
    (void)state;
    assert_comes_back("f:0:0\n");
    assert_comes_back("main:604:1\n 1: 1\n 2.3: 101\n 7: 100 b:50 a:30\n 5: x:360\n  1: 90\n"
                      "  2: y:90\n   65535.4294967295: 90\nf:0:18446744073709551615\n");
    assert_comes_back("f:10:1\n 1: 5\n 2: g:5\n  1: 5\n  !CFGChecksum: 0\n  !Attributes: 1\n"
                      " !CFGChecksum: 563003850888502\n");
    assert_comes_back("12:10:1\n 1: 5 9:5\n 2: 10:5\n  1: 5\n");
}

static void test_an_empty_profile_is_written_and_read(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    bytes b = extbinary_of(p);
    sampleprof *again = read_good(bytes_span(&b));
    assert_int_equal(sampleprof_function_count(again), 0);
    assert_text(again, "");
    sampleprof_free(again);
    bytes_free(&b);
    sampleprof_free(p);
}

/* What llvm-profdata-19 merge --sample --extbinary makes of the same text. */
static void test_bytes_of_a_small_profile(void **state)
{
    static const struct {
        uint64_t type, flags, size;
    } rows[] = {{1, 0, 85},  {2, 4ull << 32, 16}, {6, 0, 1}, {4, 0, 5},
                {32, 0, 20}, {3, 0, 0},           {5, 0, 0}};
    static const uint8_t functions[] = {0, 1, 9, 1, 2, 3, 6, 1, 2, 6, 0, /* g */
                                        3, 0, 5, 1, 1, 0, 5, 0, 0};      /* a */
    static const uint64_t offsets[] = {0, 85, 101, 122, 102, 122, 127};
    (void)state;
    sampleprof *p = read_text("g:9:0\n 2.3: 6 h.__uniq.1:6\na:5:3\n 1: 5\n");
    bytes b = extbinary_of(p);
    bytes head = {0};
    put_magic(&head, 4);
    bytes_u64(&head, 7);
    assert_memory_equal(b.ptr, head.ptr, head.len);
    const uint64_t start = row_off(7);
    reader r = reader_from(bytes_span(&b), 0);
    for (size_t i = 0; i < 7; i++) {
        reader_seek(&r, row_off(i));
        assert_int_equal(reader_u64(&r), rows[i].type);
        assert_int_equal(reader_u64(&r), rows[i].flags);
        assert_int_equal(reader_u64(&r), start + offsets[i]);
        assert_int_equal(reader_u64(&r), rows[i].size);
    }
    assert_memory_equal(b.ptr + start + 85, "\3a\0g\0h.__uniq.1\0", 16);
    assert_memory_equal(b.ptr + start + 102, functions, sizeof functions);
    assert_memory_equal(b.ptr + start + 122, "\2\1\0\0\13", 5);
    assert_int_equal(b.len, start + 127);
    bytes_free(&head);
    bytes_free(&b);
    sampleprof_free(p);
}

static uint64_t flags_of(const bytes *b, size_t section)
{
    return load_u64(b->ptr + row_off(section) + 8);
}

static void test_flags_tell_what_is_in_it(void **state)
{
    (void)state;
    sampleprof *p = read_text("f:10:1\n 1: 5\n !CFGChecksum: 7\n !Attributes: 2\n");
    sampleprof_set_fs_discriminators(p, true);
    bytes b = extbinary_of(p);
    assert_int_equal(flags_of(&b, 0), 0x14ull << 32);
    assert_int_equal(flags_of(&b, 6), 3ull << 32);
    sampleprof *again = read_good(bytes_span(&b));
    assert_true(sampleprof_has_fs_discriminators(again));
    sampleprof_free(again);
    bytes_free(&b);
    sampleprof_free(p);
    p = read_text("12:10:1\n 1: 5\n");
    b = extbinary_of(p);
    assert_int_equal(flags_of(&b, 0), 0);
    assert_int_equal(flags_of(&b, 1), 3ull << 32);
    assert_int_equal(flags_of(&b, 6), 0);
    bytes_free(&b);
    sampleprof_free(p);
}

static void test_line_offsets_that_llvm_refuses_are_refused(void **state)
{
    (void)state;
    for (int inlined = 0; inlined < 2; inlined++) {
        sampleprof *p = sampleprof_new(0);
        spgo_error err = {0};
        bytes b = {0};
        sampleprof_function *f = sampleprof_function_named(p, text_str("f"));
        if (inlined)
            assert_non_null(sampleprof_inlined(p, f, place_at(65536, 0), text_str("g")));
        else
            assert_true(sampleprof_add_line(p, f, place_at(65536, 0), 1));
        assert_int_equal(sampleprof_write_extbinary(p, bytes_sink(&b), &err), SPGO_UNSUPPORTED);
        assert_int_equal(b.len, 0);
        sampleprof_free(p);
    }
}

static void test_names_with_a_nul_are_refused(void **state)
{
    (void)state;
    sampleprof *p = sampleprof_new(0);
    spgo_error err = {0};
    bytes b = {0};
    assert_non_null(sampleprof_function_named(p, (spgo_str){"a\0b", 3}));
    assert_int_equal(sampleprof_write_extbinary(p, bytes_sink(&b), &err), SPGO_UNSUPPORTED);
    sampleprof_free(p);
}

static bool take_until_full(void *ctx, const void *data, size_t len)
{
    size_t *room = ctx;
    (void)data;
    if (len > *room)
        return false;
    *room -= len;
    return true;
}

static void test_a_sink_that_refuses_is_an_error(void **state)
{
    (void)state;
    sampleprof *p = read_text("f:10:1\n 1: 5\n");
    size_t refused = 0;
    for (size_t size = 0; size < 600; size++) {
        size_t room = size;
        spgo_error err = {0};
        const spgo_sink sink = {.ctx = &room, .write = take_until_full};
        spgo_code code = sampleprof_write_extbinary(p, sink, &err);
        assert_true(code == SPGO_OK || code == SPGO_IO);
        refused += code == SPGO_IO;
    }
    bytes b = extbinary_of(p);
    assert_int_equal(refused, b.len);
    bytes_free(&b);
    sampleprof_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read_again),
        cmocka_unit_test(test_an_empty_profile_is_written_and_read),
        cmocka_unit_test(test_bytes_of_a_small_profile),
        cmocka_unit_test(test_flags_tell_what_is_in_it),
        cmocka_unit_test(test_line_offsets_that_llvm_refuses_are_refused),
        cmocka_unit_test(test_names_with_a_nul_are_refused),
        cmocka_unit_test(test_a_sink_that_refuses_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
