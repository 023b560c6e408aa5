/* ELF files built by hand in every class and byte order, whole and with one field broken. */
#include "elf_build.h"

#include <stdlib.h>

static const uint8_t build_id[20] = {0xde, 0xad, 0xbe, 0xef, 5,  6,  7,  8,  9,  10,
                                     11,   12,   13,   14,   15, 16, 17, 18, 19, 20};

typedef struct segment {
    uint32_t type, flags;
    uint64_t off, vaddr, file_size, mem_size, alignment;
} segment;

static void put_segment(bytes *b, kind k, const segment *s)
{
    word(b, k, s->type);
    if (k.is_64bit)
        word(b, k, s->flags);
    wide(b, k, s->off);
    wide(b, k, s->vaddr);
    wide(b, k, s->vaddr);
    wide(b, k, s->file_size);
    wide(b, k, s->mem_size);
    if (!k.is_64bit)
        word(b, k, s->flags);
    wide(b, k, s->alignment);
}

static void put_section(bytes *b, kind k, uint32_t type, uint64_t off, uint64_t size)
{
    word(b, k, 0);
    word(b, k, type);
    wide(b, k, 0);
    wide(b, k, 0);
    wide(b, k, off);
    wide(b, k, size);
    word(b, k, 0);
    word(b, k, 0);
    wide(b, k, 4);
    wide(b, k, 0);
}

static size_t header_size(kind k)
{
    return k.is_64bit ? 64 : 52;
}

static size_t segment_size(kind k)
{
    return k.is_64bit ? 56 : 32;
}

static size_t section_size(kind k)
{
    return k.is_64bit ? 64 : 40;
}

static void put_header(bytes *b, kind k, uint16_t type, uint16_t segments, uint64_t sections_off,
                       uint16_t sections)
{
    static const uint8_t magic[] = {0x7f, 'E', 'L', 'F'};
    bytes_put(b, magic, 4);
    bytes_u8(b, k.is_64bit ? 2 : 1);
    bytes_u8(b, k.big_endian ? 2 : 1);
    bytes_u8(b, 1);
    bytes_fill(b, 0, 9);
    half(b, k, type);
    half(b, k, ELF_MACHINE_X86_64);
    word(b, k, 1);
    wide(b, k, 0x1234);
    wide(b, k, segments ? header_size(k) : 0);
    wide(b, k, sections_off);
    word(b, k, 0);
    half(b, k, (uint16_t)header_size(k));
    half(b, k, (uint16_t)segment_size(k));
    half(b, k, segments);
    half(b, k, (uint16_t)section_size(k));
    half(b, k, sections);
    half(b, k, 0);
}

static void put_note(bytes *b, kind k, const char *name, uint32_t type, const uint8_t *desc,
                     uint32_t size, size_t alignment)
{
    size_t start = b->len;
    word(b, k, (uint32_t)strlen(name) + 1);
    word(b, k, size);
    word(b, k, type);
    bytes_put(b, name, strlen(name) + 1);
    bytes_fill(b, 0, (alignment - (b->len - start) % alignment) % alignment);
    bytes_put(b, desc, size);
    bytes_fill(b, 0, (alignment - (b->len - start) % alignment) % alignment);
}

/* A program of three segments at `vaddr`: header and notes, code (file 0x1000 at vaddr 0x2000),
 * data. */
static bytes build(kind k, uint16_t type, uint64_t vaddr, uint32_t id_size)
{
    const uint64_t notes_off = header_size(k) + 4 * segment_size(k);
    bytes notes = {0}, b = {0};
    put_note(&notes, k, "XYZ", 3, build_id, 4, 4);
    put_note(&notes, k, "GNU", 1, build_id, 16, 4);
    put_note(&notes, k, "GNU", 3, build_id, id_size, 4);
    const segment segments[] = {
        {1, 4, 0, vaddr, 0x800, 0x800, 0x1000},
        {4, 4, notes_off, vaddr + notes_off, notes.len, notes.len, 4},
        {1, 5, 0x1010, vaddr + 0x2010, 0x500, 0x500, 0x1000},
        {1, 6, 0x1510, vaddr + 0x3510, 0x100, 0x900, 0x1000},
    };
    put_header(&b, k, type, 4, 0, 0);
    for (size_t i = 0; i < 4; i++)
        put_segment(&b, k, &segments[i]);
    bytes_put(&b, notes.ptr, notes.len);
    bytes_free(&notes);
    bytes_fill(&b, 0, 0x1610 - b.len);
    return b;
}

static void expect_failure(bytes *b, spgo_code code, uint64_t offset)
{
    elf_image image;
    spgo_error err = {0};
    assert_int_equal(elf_read(bytes_span(b), &image, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.offset, offset);
    bytes_free(b);
}

static void test_every_class_and_byte_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        bytes b = build(kinds[i], ELF_TYPE_DYN, 0, 20);
        elf_image image;
        assert_true(elf_sniff(bytes_span(&b)));
        assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
        assert_int_equal(image.is_64bit, kinds[i].is_64bit);
        assert_int_equal(image.is_big_endian, kinds[i].big_endian);
        assert_int_equal(image.type, ELF_TYPE_DYN);
        assert_int_equal(image.machine, ELF_MACHINE_X86_64);
        assert_int_equal(image.entry, 0x1234);
        assert_int_equal(image.segment_count, 3);
        assert_int_equal(image.segments[1].offset, 0x1010);
        assert_int_equal(image.segments[1].vaddr, 0x2010);
        assert_int_equal(image.segments[1].flags, ELF_SEGMENT_READ | ELF_SEGMENT_EXECUTE);
        assert_int_equal(image.segments[2].file_size, 0x100);
        assert_int_equal(image.segments[2].mem_size, 0x900);
        assert_int_equal(image.base_vaddr, 0);
        assert_int_equal(image.build_id_size, 20);
        assert_memory_equal(image.build_id, build_id, 20);
        assert_memory_equal(image.id.guid.bytes, build_id, 16);
        assert_int_equal(image.id.age, 0);
        bytes_free(&b);
    }
}

static void test_short_build_ids_are_padded_with_zeros(void **state)
{
    (void)state;
    bytes b = build(kinds[2], ELF_TYPE_DYN, 0, 8);
    const uint8_t zeros[8] = {0};
    elf_image image;
    assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
    assert_int_equal(image.build_id_size, 8);
    assert_memory_equal(image.id.guid.bytes, build_id, 8);
    assert_memory_equal(image.id.guid.bytes + 8, zeros, 8);
    bytes_free(&b);
}

static void expect_rva(const elf_image *image, uint64_t off, uint64_t expected)
{
    uint64_t rva = 0;
    assert_true(elf_rva_from_file_offset(image, off, &rva));
    assert_int_equal(rva, expected);
}

static void test_rva_is_the_same_wherever_the_image_is_linked(void **state)
{
    (void)state;
    static const uint64_t bases[] = {0, 0x400000, 0x10000};
    for (size_t i = 0; i < 3; i++) {
        bytes b = build(kinds[2], i ? ELF_TYPE_EXEC : ELF_TYPE_DYN, bases[i], 20);
        elf_image image;
        uint64_t rva;
        assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
        assert_int_equal(image.base_vaddr, bases[i]);
        expect_rva(&image, 0, 0);
        expect_rva(&image, 0x7ff, 0x7ff);
        assert_false(elf_rva_from_file_offset(&image, 0x800, &rva));
        expect_rva(&image, 0x1010, 0x2010);
        expect_rva(&image, 0x150f, 0x250f);
        expect_rva(&image, 0x1510, 0x3510);
        assert_false(elf_rva_from_file_offset(&image, 0x1610, &rva));
        assert_false(elf_rva_from_file_offset(&image, UINT64_MAX, &rva));
        /* the code is [0x1010, 0x1510), at RVA 0x2010; maps begin at pages */
        assert_true(elf_rva_of_map(&image, 0x1000, 0x1000, &rva));
        assert_int_equal(rva, 0x2000);
        assert_true(elf_rva_of_map(&image, 0x1000, UINT64_MAX, &rva));
        assert_true(elf_rva_of_map(&image, 0, 0x1011, &rva));
        assert_int_equal(rva, 0x1000);
        assert_false(elf_rva_of_map(&image, 0, 0x1010, &rva));
        assert_false(elf_rva_of_map(&image, 0x1510, 0x1000, &rva));
        assert_false(elf_rva_of_map(&image, UINT64_MAX, 0x1000, &rva));
        bytes_free(&b);
    }
}

static void test_base_is_the_page_of_the_first_segment(void **state)
{
    (void)state;
    bytes b = build(kinds[2], ELF_TYPE_EXEC, 0x400234, 20);
    elf_image image;
    assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
    assert_int_equal(image.base_vaddr, 0x400000);
    expect_rva(&image, 0, 0x234);
    bytes_free(&b);
}

static void test_of_overlapping_segments_the_executable_one_counts(void **state)
{
    (void)state;
    kind k = kinds[2];
    bytes b = {0};
    elf_image image;
    const segment segments[] = {{1, 4, 0, 0, 0x2000, 0x2000, 0x1000},
                                {1, 5, 0x1000, 0x5000, 0x1000, 0x1000, 0x1000}};
    put_header(&b, k, ELF_TYPE_DYN, 2, 0, 0);
    put_segment(&b, k, &segments[0]);
    put_segment(&b, k, &segments[1]);
    assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
    expect_rva(&image, 0xfff, 0xfff);
    expect_rva(&image, 0x1000, 0x5000);
    bytes_free(&b);
}

static void test_build_id_of_a_section(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        kind k = kinds[i];
        bytes b = {0}, notes = {0};
        put_note(&notes, k, "GNU", 3, build_id, 16, 4);
        put_header(&b, k, ELF_TYPE_REL, 0, header_size(k) + notes.len, 2);
        uint64_t notes_off = b.len;
        bytes_put(&b, notes.ptr, notes.len);
        put_section(&b, k, 0, 0, 0);
        put_section(&b, k, 7, notes_off, notes.len);
        elf_image image;
        assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
        assert_int_equal(image.segment_count, 0);
        assert_int_equal(image.build_id_size, 16);
        assert_memory_equal(image.build_id, build_id, 16);
        /* Without its section table the file is one without a build-id. */
        b.len--;
        assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
        assert_int_equal(image.build_id_size, 0);
        bytes_free(&b);
        bytes_free(&notes);
    }
}

static void test_notes_aligned_to_eight(void **state)
{
    (void)state;
    kind k = kinds[2];
    bytes b = {0}, notes = {0};
    put_note(&notes, k, "GNU", 5, build_id, 12, 8);
    put_note(&notes, k, "GNU", 3, build_id, 20, 8);
    put_header(&b, k, ELF_TYPE_DYN, 1, 0, 0);
    segment s = {4, 4, 64 + 56, 64 + 56, notes.len, notes.len, 8};
    put_segment(&b, k, &s);
    bytes_put(&b, notes.ptr, notes.len);
    elf_image image;
    assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
    assert_int_equal(image.build_id_size, 20);
    bytes_free(&b);
    bytes_free(&notes);
}

static void test_more_segments_than_are_kept(void **state)
{
    (void)state;
    kind k = kinds[2];
    bytes b = {0};
    segment s = {1, 5, 0, 0x1000, 1, 1, 0x1000};
    put_header(&b, k, ELF_TYPE_DYN, ELF_SEGMENT_MAX + 3, 0, 0);
    for (int i = 0; i < ELF_SEGMENT_MAX + 3; i++)
        put_segment(&b, k, &s);
    elf_image image;
    assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
    assert_int_equal(image.segment_count, ELF_SEGMENT_MAX);
    assert_int_equal(image.segments_left_out, 3);
    bytes_free(&b);
}

static void test_segment_count_in_the_first_section(void **state)
{
    (void)state;
    kind k = kinds[2];
    bytes b = build(k, ELF_TYPE_DYN, 0, 20);
    bytes_set_u64(&b, 40, b.len);  /* sections */
    bytes_set_u16(&b, 56, 0xffff); /* segments: see there */
    bytes_set_u16(&b, 60, 1);
    size_t at = b.len;
    put_section(&b, k, 0, 0, 0);
    bytes_set_u32(&b, at + 44, 4);
    elf_image image;
    assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
    assert_int_equal(image.segment_count, 3);
    bytes_free(&b);
}

static void test_broken_fields(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        spgo_code code;
        uint64_t offset;
    } cases[] = {
        {0, 0x7e, SPGO_CORRUPT, 0},
        {3, 'f', SPGO_CORRUPT, 0},
        {4, 3, SPGO_UNSUPPORTED, 4},
        {4, 0, SPGO_UNSUPPORTED, 4},
        {5, 3, SPGO_UNSUPPORTED, 5},
        {6, 2, SPGO_UNSUPPORTED, 6},
        {54, 55, SPGO_CORRUPT, SPGO_NO_OFFSET}, /* size of a program header */
        {38, 1, SPGO_TRUNCATED, 0x1610},        /* their offset */
        {57, 1, SPGO_TRUNCATED, 0x1610},        /* their number: 0x104 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = build(kinds[2], ELF_TYPE_DYN, 0, 20);
        b.ptr[cases[i].at] = cases[i].value;
        expect_failure(&b, cases[i].code, cases[i].offset);
    }
}

static void test_short_files(void **state)
{
    (void)state;
    bytes b = build(kinds[2], ELF_TYPE_DYN, 0, 20);
    b.len = 15;
    expect_failure(&b, SPGO_TRUNCATED, 15);
    b = build(kinds[2], ELF_TYPE_DYN, 0, 20);
    b.len = 61;
    expect_failure(&b, SPGO_TRUNCATED, 60);
    b = build(kinds[2], ELF_TYPE_DYN, 0, 20);
    b.len = 64 + 4 * 56 - 1;
    expect_failure(&b, SPGO_TRUNCATED, 64 + 4 * 56 - 1);
}

static void test_notes_that_do_not_fit_are_passed_over(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 11, UINT64_MAX, 1ull << 40};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bytes b = build(kinds[2], ELF_TYPE_DYN, 0, 20);
        bytes_set_u64(&b, 64 + 56 + 32, sizes[i]);
        elf_image image;
        assert_int_equal(elf_read(bytes_span(&b), &image, NULL), SPGO_OK);
        assert_int_equal(image.build_id_size, 0);
        assert_int_equal(image.segment_count, 3);
        bytes_free(&b);
    }
}

/* Each way to damage a small file must return; memory ends where the input does. */
static void test_every_prefix_and_flipped_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        kind k = kinds[i];
        bytes b = build(k, ELF_TYPE_DYN, 0, 20);
        b.len = header_size(k) + 4 * segment_size(k) + 120;
        elf_image image;
        for (size_t len = 0; len <= b.len; len++) {
            uint8_t *copy = malloc(len ? len : 1);
            assert_non_null(copy);
            memcpy(copy, b.ptr, len);
            (void)elf_read((spgo_span){copy, len}, &image, NULL);
            free(copy);
        }
        uint8_t *copy = malloc(b.len);
        assert_non_null(copy);
        memcpy(copy, b.ptr, b.len);
        for (size_t bit = 0; bit < 8 * b.len; bit++) {
            uint64_t rva;
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (elf_read((spgo_span){copy, b.len}, &image, NULL) == SPGO_OK)
                (void)elf_rva_from_file_offset(&image, 0x1010, &rva);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(copy);
        bytes_free(&b);
    }
}

static void test_a_real_program(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("lbr/speedtest1");
    elf_image image;
    assert_int_equal(elf_read(file, &image, NULL), SPGO_OK);
    assert_int_equal(image.type, ELF_TYPE_DYN);
    assert_int_equal(image.machine, ELF_MACHINE_X86_64);
    assert_int_equal(image.segment_count, 4);
    assert_int_equal(image.base_vaddr, 0);
    expect_rva(&image, 0x2f2f0, 0x302f0); /* its code */
    uint64_t rva;
    assert_true(elf_rva_of_map(&image, 0x2f000, 0xeb000, &rva));
    assert_int_equal(rva, 0x30000);
    test_data_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_class_and_byte_order),
        cmocka_unit_test(test_short_build_ids_are_padded_with_zeros),
        cmocka_unit_test(test_rva_is_the_same_wherever_the_image_is_linked),
        cmocka_unit_test(test_base_is_the_page_of_the_first_segment),
        cmocka_unit_test(test_of_overlapping_segments_the_executable_one_counts),
        cmocka_unit_test(test_build_id_of_a_section),
        cmocka_unit_test(test_notes_aligned_to_eight),
        cmocka_unit_test(test_more_segments_than_are_kept),
        cmocka_unit_test(test_segment_count_in_the_first_section),
        cmocka_unit_test(test_broken_fields),
        cmocka_unit_test(test_short_files),
        cmocka_unit_test(test_notes_that_do_not_fit_are_passed_over),
        cmocka_unit_test(test_every_prefix_and_flipped_bit),
        cmocka_unit_test(test_a_real_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
