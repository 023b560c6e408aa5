/* The small values everything is made of: arenas, byte buffers, GUIDs, errors, findings. */
#include "test_data.h"

#include <base/arena.h>
#include <base/bytes.h>
#include <base/diag.h>
#include <base/guid.h>
#include <base/hash.h>
#include <base/reader.h>
#include <base/saturate.h>

#include <errno.h>
#include <string.h>

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    uint8_t *last = NULL;
    uint64_t total = 0;
    assert_non_null(arena_push(a, 0, 3));
    for (size_t n = 1; n < 3000; n += 7) {
        uint8_t *p = arena_push(a, n, 3);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < 3 * n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xFF, 3 * n);
        assert_true(p != last);
        last = p;
        total += 3 * n;
    }
    assert_int_equal(arena_used(a), total);
    arena_free(a);
    arena_free(NULL);
}

static void arena_refuses_bombs(void **state)
{
    (void)state;
    arena *a = arena_new(1000);
    assert_null(arena_push(a, SIZE_MAX / 2, 4));
    assert_null(arena_push(a, 1001, 1));
    assert_non_null(arena_push(a, 600, 1));
    assert_null(arena_push(a, 401, 1));
    assert_non_null(arena_push(a, 400, 1));
    assert_int_equal(arena_used(a), 1000);
    arena_free(a);
    a = arena_new(0);
    assert_null(arena_push(a, SIZE_MAX, 1));
    assert_null(arena_copy_text(a, "", SIZE_MAX));
    arena_free(a);
}

static void arena_copies_text(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    assert_string_equal(arena_copy_text(a, "abcdef", 3), "abc");
    assert_string_equal(arena_copy_text(a, NULL, 0), "");
    arena_free(a);
}

static void bytes_append_and_patch(void **state)
{
    (void)state;
    static const uint8_t want[] = {0xAA, 2, 1, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 9, 9, 9};
    bytes b = {0};
    bytes_u8(&b, 1);
    bytes_u16(&b, 0x0102);
    bytes_u32(&b, 0x01020304);
    bytes_u64(&b, 0x0102030405060708);
    bytes_fill(&b, 9, 3);
    spgo_sink sink = bytes_sink(&b);
    assert_true(sink.patch(sink.ctx, 0, "\xAA", 1));
    assert_false(sink.patch(sink.ctx, b.len, "x", 1));
    assert_false(sink.patch(sink.ctx, UINT64_MAX, "x", 1));
    assert_int_equal(b.len, sizeof want);
    assert_memory_equal(b.ptr, want, sizeof want);
    bytes_set_u16(&b, 1, 0xBBCC);
    bytes_set_u32(&b, 3, 0xDDEEFF00);
    bytes_set_u64(&b, 7, 0x1122334455667788);
    assert_int_equal(load_u16(b.ptr + 1), 0xBBCC);
    assert_int_equal(load_u32(b.ptr + 3), 0xDDEEFF00);
    assert_true(load_u64(b.ptr + 7) == 0x1122334455667788u);
    bytes_free(&b);
    assert_int_equal(bytes_span(&b).len, 0);
}

static void bytes_pointers_have_the_size_of_the_trace(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_ptr(&b, 0x1122334455667788, 4);
    bytes_ptr(&b, 0x1122334455667788, 8);
    assert_int_equal(b.len, 12);
    assert_int_equal(load_u32(b.ptr), 0x55667788);
    assert_true(load_u64(b.ptr + 4) == 0x1122334455667788u);
    bytes_free(&b);
}

static void bytes_without_memory_fail_for_good(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_u8(&b, 1);
    assert_false(bytes_reserve(&b, SIZE_MAX - 1));
    assert_true(b.failed);
    bytes_u8(&b, 2);
    assert_int_equal(b.len, 1);
    spgo_sink sink = bytes_sink(&b);
    assert_false(sink.write(sink.ctx, "x", 1));
    bytes_free(&b);
    assert_false(b.failed);
}

static void utf8_becomes_utf16(void **state)
{
    (void)state;
    static const uint8_t want[] = {'a',  0,    0xAC, 0x20, 0x3D, 0xD8, 0x00,
                                   0xDE, 0xFD, 0xFF, 'z',  0,    0,    0};
    bytes b = {0};
    bytes_utf16z(&b, "a\xE2\x82\xAC\xF0\x9F\x98\x80\xFFz");
    assert_int_equal(b.len, sizeof want);
    assert_memory_equal(b.ptr, want, sizeof want);
    bytes_clear(&b);
    bytes_utf16z(&b, "\xE2\x82"); /* cut: must not read behind the NUL */
    assert_int_equal(load_u16(b.ptr), 0xFFFD);
    assert_int_equal(load_u16(b.ptr + b.len - 2), 0);
    bytes_free(&b);
}

static const spgo_guid example = {{0x3E, 0x42, 0xD6, 0x47, 0x10, 0x95, 0xDC, 0x45, 0x89, 0x2B, 0x2C,
                                   0x46, 0xB4, 0xDD, 0x7A, 0x9C}};

static void guids_print_in_all_forms(void **state)
{
    (void)state;
    char text[GUID_TEXT_SIZE];
    char key[SYMBOL_KEY_SIZE];
    guid_text(text, &example);
    assert_string_equal(text, "{47D6423E-9510-45DC-892B-2C46B4DD7A9C}");
    guid_text_lower(text, &example);
    assert_string_equal(text, "47d6423e-9510-45dc-892b-2c46b4dd7a9c");
    symbol_key_text(key, &(spgo_image_id){example, 0x1F});
    assert_string_equal(key, "47D6423E951045DC892B2C46B4DD7A9C1F");
    symbol_key_text(key, &(spgo_image_id){example, UINT32_MAX});
    assert_string_equal(key, "47D6423E951045DC892B2C46B4DD7A9CFFFFFFFF");
}

static void guids_are_read_in_both_forms(void **state)
{
    (void)state;
    spgo_guid g;
    assert_true(guid_from_text("{47D6423E-9510-45DC-892B-2C46B4DD7A9C}", 38, &g));
    assert_true(guid_equal(&g, &example));
    assert_true(guid_from_text("47d6423e-9510-45dc-892b-2c46b4dd7a9c", 36, &g));
    assert_true(guid_equal(&g, &example));
    assert_false(guid_from_text("47d6423e-9510-45dc-892b-2c46b4dd7a9", 35, &g));
    assert_false(guid_from_text("47d6423e-9510-45dc-892b-2c46b4dd7a9g", 36, &g));
    assert_false(guid_from_text("47d6423e 9510-45dc-892b-2c46b4dd7a9c", 36, &g));
    assert_false(guid_from_text("{47d6423e-9510-45dc-892b-2c46b4dd7a9c", 37, &g));
    assert_false(guid_from_text("", 0, &g));
    assert_false(guid_is_null(&example));
    assert_true(guid_is_null(&(spgo_guid){{0}}));
    assert_false(image_id_equal(&(spgo_image_id){example, 1}, &(spgo_image_id){example, 2}));
}

static void errors_keep_what_went_wrong(void **state)
{
    (void)state;
    spgo_error err;
    assert_int_equal(spgo_fail(&err, SPGO_CORRUPT, "spt.header", 12, "version %u", 7u),
                     SPGO_CORRUPT);
    assert_int_equal(err.code, SPGO_CORRUPT);
    assert_int_equal(err.offset, 12);
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.where, "spt.header");
    assert_string_equal(err.sentence, "version 7");
    assert_int_equal(spgo_fail(NULL, SPGO_LIMIT, "x", 0, "y"), SPGO_LIMIT);
    assert_int_equal(spgo_fail_sys(&err, ENOENT, "file", "cannot open %s", "a"), SPGO_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_true(err.offset == SPGO_NO_OFFSET);
    assert_memory_equal(err.sentence, "cannot open a: ", 15);
    spgo_fail_sys(&err, ENOENT, "file", "cannot open %s; look again", "a");
    assert_string_equal(err.sentence, "cannot open a: No such file or directory; look again");
    assert_int_equal(spgo_fail_nomem(&err, "arena", 4096), SPGO_NOMEM);
    assert_non_null(strstr(err.sentence, "4096"));
}

static void long_sentences_are_cut(void **state)
{
    (void)state;
    spgo_error err;
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    spgo_fail_sys(&err, ENOENT, "file", "cannot open %s", name);
    assert_int_equal(strlen(err.sentence), sizeof err.sentence - 1);
}

static void every_code_has_a_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SPGO_CODE_COUNT; i++) {
        assert_non_null(spgo_code_name((spgo_code)i));
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(spgo_code_name((spgo_code)i), spgo_code_name((spgo_code)k));
    }
    assert_string_equal(spgo_code_name((spgo_code)77), "unknown");
}

static void findings_are_bounded_and_counted(void **state)
{
    (void)state;
    diag d = {0};
    for (unsigned i = 0; i < DIAG_KEPT_MAX + 10; i++)
        diag_add(&d, SPGO_CORRUPT, i, "finding %u", i);
    assert_int_equal(d.total, DIAG_KEPT_MAX + 10);
    assert_int_equal(d.kept_count, DIAG_KEPT_MAX);
    assert_int_equal(d.kept[5].offset, 5);
    assert_string_equal(d.kept[5].sentence, "finding 5");
    diag_add(NULL, SPGO_CORRUPT, 0, "nowhere");
}

/* Keys that differ in any one stretch of bits are spread over a table, under any seed. */
static void hashes_spread_regular_keys(void **state)
{
    (void)state;
    enum { KEYS = 4096, SLOTS = 2 * KEYS };
    static uint8_t taken[SLOTS];
    for (unsigned shift = 0; shift <= 52; shift += 4) {
        memset(taken, 0, sizeof taken);
        unsigned used = 0;
        uint64_t seed = hash_seed(&taken[shift]);
        for (uint64_t k = 0; k < KEYS; k++) {
            uint8_t *slot = &taken[hash_u64(seed, k << shift) & (SLOTS - 1)];
            used += *slot == 0;
            *slot = 1;
        }
        assert_in_range(used, KEYS * 7 / 10, KEYS); /* by chance 79 % */
    }
    assert_int_not_equal(hash_seed(&taken[0]), hash_seed(&taken[16]));
}

static void sums_and_products_stay_at_the_largest_number(void **state)
{
    (void)state;
    assert_int_equal(saturating_add(2, 3), 5);
    assert_true(saturating_add(UINT64_MAX - 1, 1) == UINT64_MAX);
    assert_true(saturating_add(UINT64_MAX, 2) == UINT64_MAX);
    assert_int_equal(saturating_multiply(2, 3), 6);
    assert_int_equal(saturating_multiply(0, UINT64_MAX), 0);
    assert_true(saturating_multiply(UINT64_C(1) << 32, UINT64_C(1) << 32) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_refuses_bombs),
        cmocka_unit_test(arena_copies_text),
        cmocka_unit_test(bytes_append_and_patch),
        cmocka_unit_test(bytes_pointers_have_the_size_of_the_trace),
        cmocka_unit_test(bytes_without_memory_fail_for_good),
        cmocka_unit_test(utf8_becomes_utf16),
        cmocka_unit_test(guids_print_in_all_forms),
        cmocka_unit_test(guids_are_read_in_both_forms),
        cmocka_unit_test(errors_keep_what_went_wrong),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(every_code_has_a_name),
        cmocka_unit_test(findings_are_bounded_and_counted),
        cmocka_unit_test(hashes_spread_regular_keys),
        cmocka_unit_test(sums_and_products_stay_at_the_largest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
