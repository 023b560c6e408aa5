/* Small files of each form, cut at every byte and with every bit turned: no crash, and what is read
 * all the same is written and read again. */
#include "sampleprof_build.h"

#include <stdlib.h>

static const char small[] = "main:604:1\n"
                            " 1: 1\n"
                            " 7.2: 100 b:50 a:30\n"
                            " 5: x:360\n"
                            "  1: 90\n"
                            "  2: y:90\n"
                            "   3: 90 main:1\n"
                            "   !CFGChecksum: 3\n"
                            "  !CFGChecksum: 2\n"
                            "  !Attributes: 2\n"
                            " !CFGChecksum: 9\n"
                            "f:0:1\n"
                            " !CFGChecksum: 10\n";

static const char numbers[] = "604:9:1\n 1: 1 77:1\n 5: 360:8\n  1: 8\n";

static void assert_comes_back(const sampleprof *p)
{
    spgo_error err = {0};
    bytes b = {0};
    spgo_code code = sampleprof_write_extbinary(p, bytes_sink(&b), &err);
    if (code == SPGO_OK) {
        sampleprof *again = read_good(bytes_span(&b));
        bytes twice = extbinary_of(again);
        assert_int_equal(twice.len, b.len);
        assert_memory_equal(twice.ptr, b.ptr, b.len);
        bytes_free(&twice);
        sampleprof_free(again);
    } else {
        assert_int_equal(code, SPGO_UNSUPPORTED);
    }
    bytes_free(&b);
}

/* Twice: to the first failure, and with findings. The input lies in memory of exactly its size. */
static void read_any(const uint8_t *data, size_t len)
{
    for (int with_findings = 0; with_findings < 2; with_findings++) {
        uint8_t *exact = malloc(len ? len : 1);
        assert_non_null(exact);
        if (len)
            memcpy(exact, data, len);
        sampleprof *p = NULL;
        diag d = {0};
        spgo_error err = {0};
        spgo_code code =
            sampleprof_read((spgo_span){exact, len}, 1 << 24, &p, with_findings ? &d : NULL, &err);
        free(exact);
        if (code == SPGO_OK)
            assert_comes_back(p);
        else
            assert_true(!p && err.sentence[0]);
        sampleprof_free(p);
    }
}

static void sweep(const bytes *file)
{
    for (size_t len = 0; len <= file->len; len++)
        read_any(file->ptr, len);
    for (size_t bit = 0; bit < 8 * file->len; bit++) {
        file->ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
        read_any(file->ptr, file->len);
        file->ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_text(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_put(&b, small, sizeof small - 1);
    sweep(&b);
    bytes_free(&b);
}

static void test_extensible_binary(void **state)
{
    static const char *const texts[] = {small, numbers};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sampleprof *p = read_text(texts[i]);
        bytes b = extbinary_of(p);
        sweep(&b);
        bytes_free(&b);
        sampleprof_free(p);
    }
}

static void test_plain_binary(void **state)
{
    static const char *const names[] = {"f", "g"};
    (void)state;
    bytes b = {0};
    put_magic(&b, 0xff);
    PUT_ULEBS(&b, 320, 200, 7, 3, 1, 1, 990000, 20, 3);
    put_names(&b, names, 2);
    PUT_ULEBS(&b, 7, 0, 300, 2, 1, 0, 200, 0, 2, 3, 100, 1, 1, 60);
    PUT_ULEBS(&b, 1, 4, 0, 1, 20, 1, 1, 0, 20, 0, 0);
    sweep(&b);
    bytes_free(&b);
}

#if SPGO_HAVE_ZLIB
static void test_compressed_sections(void **state)
{
    /* Names f and g as zlib packs them; f with a line and a callee. */
    static const uint8_t packed_names[] = {0x05, 0x0d, 0x78, 0x9c, 0x63, 0x4a, 0x63, 0x48,
                                           0x67, 0x00, 0x00, 0x02, 0x75, 0x00, 0xd0};
    static const uint8_t functions[] = {1, 0, 9, 1, 1, 0, 9, 0, 1, 2, 0, 1, 0, 0, 0};
    (void)state;
    built_section sections[] = {{.type = 2, .flags = 1}, {.type = 32}};
    bytes_put(&sections[0].contents, packed_names, sizeof packed_names);
    bytes_put(&sections[1].contents, functions, sizeof functions);
    bytes b = build_extbinary(sections, 2);
    sampleprof *p = read_good(bytes_span(&b));
    assert_text(p, "f:9:1\n 1: 9\n 2: g:0\n");
    sampleprof_free(p);
    sweep(&b);
    bytes_free(&b);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_extensible_binary),
        cmocka_unit_test(test_plain_binary),
#if SPGO_HAVE_ZLIB
        cmocka_unit_test(test_compressed_sections),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
