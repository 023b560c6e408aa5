/*
 * Every way to cut a small image and to flip one of its bits, in both layouts: all that the reader
 * offers must come to an end and stay inside the bytes, whose block ends where they do.
 */
#include "pe_build.h"

#include <stdlib.h>

static bool take_nothing(void *ctx, const void *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return true;
}

static void dump_all(out *o, json *j, const pe_image *image)
{
    pe_dump_header(o, j, image);
    pe_dump_directories(o, j, image);
    pe_dump_sections(o, j, image);
    (void)pe_dump_debug(o, j, image, NULL);
    (void)pe_dump_exports(o, j, image, NULL);
    (void)pe_dump_symbols(o, j, image, NULL);
    (void)pe_dump_code_ranges(o, j, image, NULL);
    (void)pe_dump_functions(o, j, image, NULL, NULL);
}

/* Unwind codes and handlers, which no dump shows. */
static void read_unwind(const pe_image *image)
{
    pe_table t;
    if (image->machine != PE_MACHINE_AMD64 || pe_functions_open(image, &t, NULL) != SPGO_OK)
        return;
    for (size_t i = 0; i < t.count; i++) {
        pe_unwind u;
        pe_unwind_code c;
        size_t slot = 0;
        if (pe_unwind_read(image, pe_x64_function_at(&t, i).unwind_rva, &u, NULL) != SPGO_OK)
            continue;
        while (pe_unwind_code_next(&u, &slot, &c))
            continue;
        assert_true(slot <= u.code_count);
    }
}

static void read_all(out *o, spgo_span view, pe_layout layout, bool as_json)
{
    pe_image image;
    spgo_error err = {0};
    if (pe_open(view, layout, &image, &err) != SPGO_OK) {
        assert_true(err.code != SPGO_OK && err.sentence[0] != '\0');
        return;
    }
    json j = json_on(o, false);
    if (as_json) {
        json_open_object(&j);
        dump_all(NULL, &j, &image);
        json_close_object(&j);
    } else {
        dump_all(o, NULL, &image);
    }
    read_unwind(&image);
    for (uint32_t rva = 0; rva < 0x4000; rva += 0x7f) {
        uint64_t off;
        if (pe_offset_from_rva(&image, rva, &off))
            assert_true(off < view.len);
    }
    for (size_t off = 0; off < view.len; off += 0x3f) {
        uint32_t rva;
        (void)pe_rva_from_offset(&image, off, &rva);
    }
}

static void sweep(bytes b)
{
    out o;
    assert_int_equal(out_init(&o, (spgo_sink){.write = take_nothing}, NULL), SPGO_OK);
    for (size_t len = 0; len <= b.len; len++) {
        uint8_t *copy = malloc(len ? len : 1);
        assert_non_null(copy);
        memcpy(copy, b.ptr, len);
        read_all(&o, (spgo_span){copy, len}, PE_LAYOUT_FILE, true);
        read_all(&o, (spgo_span){copy, len}, PE_LAYOUT_MAPPED, false);
        free(copy);
    }
    uint8_t *copy = malloc(b.len);
    assert_non_null(copy);
    memcpy(copy, b.ptr, b.len);
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        read_all(&o, (spgo_span){copy, b.len}, PE_LAYOUT_FILE, bit % 2);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(copy);
    out_free(&o);
    bytes_free(&b);
}

static void test_x64(void **state)
{
    (void)state;
    sweep(build_pe(true, PE_MACHINE_AMD64));
}

static void test_arm64(void **state)
{
    (void)state;
    sweep(build_arm64());
}

static void test_x86(void **state)
{
    (void)state;
    sweep(build_pe(false, PE_MACHINE_I386));
}

/* In memory the tables stand at their RVAs, so that flipped bits reach them there too. */
static void test_flipped_bits_in_memory(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64), memory = {0};
    out o;
    bytes_put(&memory, b.ptr, HEADERS_SIZE);
    pad_to(&memory, 0x2000);
    bytes_put(&memory, b.ptr + AT_RDATA, RDATA_SIZE);
    assert_int_equal(out_init(&o, (spgo_sink){.write = take_nothing}, NULL), SPGO_OK);
    for (size_t bit = 0; bit < 8 * memory.len; bit++) {
        if (bit == 8 * HEADERS_SIZE)
            bit = (size_t)8 * 0x2000;
        memory.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
        read_all(&o, bytes_span(&memory), PE_LAYOUT_MAPPED, bit % 2);
        memory.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    out_free(&o);
    bytes_free(&memory);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_x64),
        cmocka_unit_test(test_arm64),
        cmocka_unit_test(test_x86),
        cmocka_unit_test(test_flipped_bits_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
