/* Line programs written by hand: what each opcode does to the rows, and damaged ones. */
#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <symbol/dwarf_lines.h>

/* Code is at RVA [0x1000, 0x2000) of an image at 0x400000. */
static const uint8_t code_bytes[0x1000];
static const code_segment segment = {0x1000, {code_bytes, sizeof code_bytes}, true};
static const code_image image = {
    .machine = CODE_X64, .base_addr = 0x400000, .segments = &segment, .segment_count = 1};

enum { CODE_ADDR = 0x401000, OPCODE_BASE = 13, LINE_BASE = -3, LINE_RANGE = 12 };

typedef struct program {
    bytes b;
    size_t header_at, lines_at;
} program;

static void uleb(bytes *b, uint64_t v)
{
    do {
        bytes_u8(b, (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0)));
        v >>= 7;
    } while (v);
}

static void begin(program *p, uint16_t version)
{
    static const uint8_t operand_counts[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    *p = (program){0};
    bytes_u32(&p->b, 0); /* length */
    bytes_u16(&p->b, version);
    if (version >= 5)
        bytes_u16(&p->b, 8);
    bytes_u32(&p->b, 0); /* header length */
    p->header_at = p->b.len;
    bytes_u8(&p->b, 1);
    if (version >= 4)
        bytes_u8(&p->b, 1);
    bytes_u8(&p->b, 1);
    bytes_u8(&p->b, (uint8_t)LINE_BASE);
    bytes_u8(&p->b, LINE_RANGE);
    bytes_u8(&p->b, OPCODE_BASE);
    bytes_put(&p->b, operand_counts, sizeof operand_counts);
}

static void end_header(program *p)
{
    bytes_set_u32(&p->b, p->header_at - 4, (uint32_t)(p->b.len - p->header_at));
}

/* Files 1 "a.c" of directory 0, 2 "b.h" of directory 1 "inc", 3 "/abs/c.h". */
static void begin_v4(program *p)
{
    begin(p, 4);
    bytes_put(&p->b, "inc\0\0", 5);
    bytes_put(&p->b, "a.c\0\0\0\0", 7);
    bytes_put(&p->b, "b.h\0\1\0\0", 7);
    bytes_put(&p->b, "/abs/c.h\0\1\0\0\0", 13);
    end_header(p);
}

static void set_address(program *p, uint64_t addr)
{
    bytes_put(&p->b, "\0\x09\x02", 3);
    bytes_u64(&p->b, addr);
}

static void special(program *p, unsigned addr_step, int line_step)
{
    bytes_u8(&p->b,
             (uint8_t)(OPCODE_BASE + addr_step * LINE_RANGE + (unsigned)(line_step - LINE_BASE)));
}

static void discriminator(program *p, uint64_t value)
{
    bytes operand = {0};
    uleb(&operand, value);
    bytes_u8(&p->b, 0);
    uleb(&p->b, operand.len + 1);
    bytes_u8(&p->b, 4);
    bytes_put(&p->b, operand.ptr, operand.len);
    bytes_free(&operand);
}

static void end_sequence(program *p, unsigned addr_step)
{
    bytes_u8(&p->b, 2);
    uleb(&p->b, addr_step);
    bytes_put(&p->b, "\0\1\1", 3);
}

static spgo_code open_program(program *p, const dbg_line_sections *others, arena *mem, dbg_lines *l,
                              spgo_error *err)
{
    dbg_line_sections s = others ? *others : (dbg_line_sections){0};
    bytes_set_u32(&p->b, 0, (uint32_t)(p->b.len - 4));
    s.line = bytes_span(&p->b);
    return dbg_lines_open(&s, 0, (spgo_str){"/src", 4}, mem, l, err);
}

/* Runs the program and compares its rows; frees it. */
static void expect_rows(program *p, const dbg_line_row *expected, size_t count)
{
    arena *mem = arena_new(0);
    dbg_lines l;
    dbg_line_rows rows = {0};
    assert_int_equal(open_program(p, NULL, mem, &l, NULL), SPGO_OK);
    assert_int_equal(dbg_lines_run(&l, &image, &rows, NULL), SPGO_OK);
    assert_int_equal(rows.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rows.rows[i].begin_rva, expected[i].begin_rva);
        assert_int_equal(rows.rows[i].end_rva, expected[i].end_rva);
        assert_int_equal(rows.rows[i].file, expected[i].file);
        assert_int_equal(rows.rows[i].line, expected[i].line);
        assert_int_equal(rows.rows[i].discriminator, expected[i].discriminator);
    }
    free(rows.rows);
    arena_free(mem);
    bytes_free(&p->b);
}

static void test_special_opcodes_and_discriminators(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 4);
    discriminator(&p, 300);
    special(&p, 3, -2);
    special(&p, 2, 0); /* a discriminator is for one row */
    end_sequence(&p, 5);
    static const dbg_line_row expected[] = {
        {0x1000, 0x1003, 1, 5, 0}, {0x1003, 0x1005, 1, 3, 300}, {0x1005, 0x100a, 1, 3, 0}};
    expect_rows(&p, expected, 3);
}

static void test_standard_opcodes(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    set_address(&p, CODE_ADDR);
    bytes_put(&p.b, "\x03\xe4\x00\x04\x02\x05\x07\x06\x07\x0a\x0b\x0c\x03\x01", 14);
    bytes_put(&p.b, "\x08\x01", 2);         /* const_add_pc: (255 - 13) / 12 = 20 */
    bytes_put(&p.b, "\x09\x00\x01\x01", 4); /* fixed_advance_pc: 0x100 */
    bytes_put(&p.b, "\x03\x7f\x01", 3);     /* the same place again: this row counts */
    end_sequence(&p, 1);
    static const dbg_line_row expected[] = {
        {0x1000, 0x1014, 2, 101, 0}, {0x1014, 0x1114, 2, 101, 0}, {0x1114, 0x1115, 2, 100, 0}};
    expect_rows(&p, expected, 3);
}

static void test_of_rows_at_one_address_the_last_counts(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 1);
    special(&p, 0, 1);
    special(&p, 0, 1);
    end_sequence(&p, 4);
    static const dbg_line_row expected[] = {{0x1000, 0x1004, 1, 4, 0}};
    expect_rows(&p, expected, 1);
}

static void test_sequences_are_sorted(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    set_address(&p, CODE_ADDR + 0x100);
    special(&p, 0, 1);
    end_sequence(&p, 4);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 4);
    end_sequence(&p, 4);
    static const dbg_line_row expected[] = {{0x1000, 0x1004, 1, 5, 0}, {0x1100, 0x1104, 1, 2, 0}};
    expect_rows(&p, expected, 2);
}

static void test_sequences_of_dropped_functions_are_left_out(void **state)
{
    (void)state;
    static const uint64_t addrs[] = {0,
                                     1,
                                     UINT64_MAX,
                                     UINT64_MAX - 1,
                                     CODE_ADDR - 1,
                                     CODE_ADDR + 0x1000,
                                     0x400000 + (1ull << 32)};
    program p;
    begin_v4(&p);
    for (size_t i = 0; i < sizeof addrs / sizeof *addrs; i++) {
        set_address(&p, addrs[i]);
        special(&p, 0, 1);
        end_sequence(&p, 0x100); /* of the first ones, some reach into real code */
    }
    set_address(&p, CODE_ADDR);
    special(&p, 0, 1);
    end_sequence(&p, 4);
    static const dbg_line_row expected[] = {{0x1000, 0x1004, 1, 2, 0}};
    expect_rows(&p, expected, 1);
}

static void test_overlapping_sequences_are_cut(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 1);
    end_sequence(&p, 0x10);
    set_address(&p, CODE_ADDR + 8);
    special(&p, 0, 2);
    end_sequence(&p, 0x10);
    set_address(&p, CODE_ADDR + 9);
    special(&p, 0, 3);
    end_sequence(&p, 1);
    static const dbg_line_row expected[] = {{0x1000, 0x1010, 1, 2, 0}, {0x1010, 0x1018, 1, 3, 0}};
    expect_rows(&p, expected, 2);
}

static void test_rows_that_go_back_are_no_code(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    set_address(&p, CODE_ADDR + 8);
    special(&p, 0, 1);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 1);
    end_sequence(&p, 4);
    static const dbg_line_row expected[] = {{0x1000, 0x1004, 1, 3, 0}};
    expect_rows(&p, expected, 1);
}

static void expect_path(dbg_lines *l, dbg_texts *texts, uint64_t file, const char *expected)
{
    spgo_str path = dbg_lines_path(l, file, texts);
    assert_int_equal(path.len, strlen(expected));
    assert_memory_equal(path.ptr, expected, path.len);
    assert_ptr_equal(dbg_lines_path(l, file, texts).ptr, path.ptr);
}

static void test_paths_of_version_4(void **state)
{
    (void)state;
    program p;
    arena *mem = arena_new(0);
    intern names = {0};
    dbg_texts texts = {&names, 1000};
    dbg_lines l;
    begin_v4(&p);
    assert_int_equal(open_program(&p, NULL, mem, &l, NULL), SPGO_OK);
    expect_path(&l, &texts, 0, "");
    expect_path(&l, &texts, 1, "/src/a.c");
    expect_path(&l, &texts, 2, "/src/inc/b.h");
    expect_path(&l, &texts, 3, "/abs/c.h");
    expect_path(&l, &texts, 4, "");
    expect_path(&l, &texts, UINT64_MAX, "");
    intern_free(&names);
    arena_free(mem);
    bytes_free(&p.b);
}

/* Directories by .debug_line_str, files by several forms. */
static void begin_v5(program *p)
{
    begin(p, 5);
    bytes_put(&p->b, "\x01\x01\x1f", 3); /* path: line_strp */
    uleb(&p->b, 2);
    bytes_u32(&p->b, 0);
    bytes_u32(&p->b, 5);
    bytes_put(&p->b, "\x04\x01\x08\x02\x0b\x05\x1e\x04\x0f", 9); /* also MD5 and size */
    uleb(&p->b, 2);
    bytes_put(&p->b, "a.c\0\0", 5);
    bytes_fill(&p->b, 0xaa, 16);
    uleb(&p->b, 1000);
    bytes_put(&p->b, "b.h\0\1", 5);
    bytes_fill(&p->b, 0xaa, 16);
    uleb(&p->b, 1000);
    end_header(p);
}

static void test_paths_of_version_5(void **state)
{
    (void)state;
    program p;
    arena *mem = arena_new(0);
    intern names = {0};
    dbg_texts texts = {&names, 1000};
    dbg_lines l;
    begin_v5(&p);
    dbg_line_sections sections = {.line_str = {(const uint8_t *)"/top\0inc", 9}};
    assert_int_equal(open_program(&p, &sections, mem, &l, NULL), SPGO_OK);
    expect_path(&l, &texts, 0, "/top/a.c");
    expect_path(&l, &texts, 1, "/src/inc/b.h");
    expect_path(&l, &texts, 2, "");
    intern_free(&names);
    arena_free(mem);
    bytes_free(&p.b);
}

static void test_kept_text_is_bounded(void **state)
{
    (void)state;
    intern names = {0};
    dbg_texts texts = {&names, 5};
    assert_int_equal(dbg_text_keep(&texts, (spgo_str){"abc", 3}).len, 3);
    assert_int_equal(dbg_text_keep(&texts, (spgo_str){"xyz", 3}).len, 0);
    assert_int_equal(dbg_text_keep(&texts, (spgo_str){"de", 2}).len, 2);
    intern_free(&names);
}

static void expect_refused(program *p, spgo_code code, uint64_t offset)
{
    arena *mem = arena_new(0);
    dbg_lines l;
    spgo_error err = {0};
    assert_int_equal(open_program(p, NULL, mem, &l, &err), code);
    assert_int_equal(err.offset, offset);
    arena_free(mem);
    bytes_free(&p->b);
}

static void test_broken_headers(void **state)
{
    (void)state;
    program p;
    begin_v4(&p);
    p.b.ptr[4] = 1; /* version */
    expect_refused(&p, SPGO_UNSUPPORTED, 0);
    begin_v4(&p);
    p.b.ptr[4] = 6;
    expect_refused(&p, SPGO_UNSUPPORTED, 0);
    begin_v4(&p);
    p.b.ptr[p.header_at + 4] = 0; /* line_range: would be divided by */
    expect_refused(&p, SPGO_CORRUPT, p.header_at + 6 + OPCODE_BASE - 1);
    begin_v4(&p);
    p.b.ptr[p.header_at + 5] = 0; /* opcode_base */
    expect_refused(&p, SPGO_CORRUPT, p.header_at + 6);
    begin_v4(&p);
    bytes_set_u32(&p.b, p.header_at - 4, 1u << 30);
    expect_refused(&p, SPGO_TRUNCATED, p.header_at);
    begin_v5(&p);
    p.b.ptr[p.header_at + 18] = 0; /* a directory has no fields, but there are two */
    expect_refused(&p, SPGO_CORRUPT, p.header_at + 20);
    begin_v5(&p);
    p.b.ptr[p.header_at + 20] = 0x77; /* a form that nobody knows */
    expect_refused(&p, SPGO_UNSUPPORTED, p.header_at + 22);
}

static void test_a_cut_program_gives_what_it_has(void **state)
{
    (void)state;
    program p;
    arena *mem = arena_new(0);
    dbg_lines l;
    dbg_line_rows rows = {0};
    spgo_error err;
    begin_v4(&p);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 1);
    special(&p, 4, 1);
    bytes_put(&p.b, "\x02\x80", 2); /* advance_pc by a number that has no end */
    assert_int_equal(open_program(&p, NULL, mem, &l, NULL), SPGO_OK);
    assert_int_equal(dbg_lines_run(&l, &image, &rows, &err), SPGO_TRUNCATED);
    assert_int_equal(err.offset, p.b.len);
    assert_int_equal(rows.count, 1);
    free(rows.rows);
    arena_free(mem);
    bytes_free(&p.b);
}

static void test_every_flipped_bit_and_prefix(void **state)
{
    (void)state;
    program p;
    begin_v5(&p);
    set_address(&p, CODE_ADDR);
    special(&p, 0, 1);
    discriminator(&p, 300);
    special(&p, 4, 1);
    end_sequence(&p, 4);
    bytes_set_u32(&p.b, 0, (uint32_t)(p.b.len - 4));
    for (size_t i = 0; i < 9 * p.b.len; i++) {
        const bool cut = i >= 8 * p.b.len;
        size_t size = cut ? i - 8 * p.b.len : p.b.len;
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, p.b.ptr, size);
        if (!cut)
            copy[i / 8] ^= (uint8_t)(1u << i % 8);
        arena *mem = arena_new(1024 * 1024);
        dbg_lines l;
        dbg_line_rows rows = {0};
        const dbg_line_sections s = {.line = {copy, size}};
        if (dbg_lines_open(&s, 0, (spgo_str){0}, mem, &l, NULL) == SPGO_OK)
            (void)dbg_lines_run(&l, &image, &rows, NULL);
        for (size_t k = 0; k < rows.count; k++)
            assert_true(rows.rows[k].begin_rva < rows.rows[k].end_rva);
        free(rows.rows);
        arena_free(mem);
        free(copy);
    }
    bytes_free(&p.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_opcodes_and_discriminators),
        cmocka_unit_test(test_standard_opcodes),
        cmocka_unit_test(test_of_rows_at_one_address_the_last_counts),
        cmocka_unit_test(test_sequences_are_sorted),
        cmocka_unit_test(test_sequences_of_dropped_functions_are_left_out),
        cmocka_unit_test(test_overlapping_sequences_are_cut),
        cmocka_unit_test(test_rows_that_go_back_are_no_code),
        cmocka_unit_test(test_paths_of_version_4),
        cmocka_unit_test(test_paths_of_version_5),
        cmocka_unit_test(test_kept_text_is_bounded),
        cmocka_unit_test(test_broken_headers),
        cmocka_unit_test(test_a_cut_program_gives_what_it_has),
        cmocka_unit_test(test_every_flipped_bit_and_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
