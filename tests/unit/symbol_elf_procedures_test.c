/* Procedures of ELF images by symbols and .eh_frame, both written by hand. */
#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <symbol/symbol_internal.h>

enum { BASE = 0x400000, CODE_RVA = 0x1000, EH_FRAME_ADDR = BASE + 0x5000 };
enum { LOCAL = 0, GLOBAL = 1, WEAK = 2, LABEL = 0, DATA = 1, FUNCTION = 2 };

static const uint8_t code_bytes[0x1000];

typedef struct program {
    bytes symbols, names, eh_frame, file;
    uint32_t plt_rva; /* of a section .plt of 0x100 bytes; 0: none */
    intern kept;
    code_segment segment;
    symbol_image image;
    diag findings;
} program;

static void add_symbol(program *p, const char *name, uint32_t rva, uint64_t size, int bind,
                       int type)
{
    if (p->names.len == 0) {
        bytes_u8(&p->names, 0);
        bytes_fill(&p->symbols, 0, 24);
    }
    bytes_u32(&p->symbols, (uint32_t)p->names.len);
    bytes_u8(&p->symbols, (uint8_t)(bind << 4 | type));
    bytes_u8(&p->symbols, 0);
    bytes_u16(&p->symbols, 1);
    bytes_u64(&p->symbols, BASE + (uint64_t)rva);
    bytes_u64(&p->symbols, size);
    bytes_put(&p->names, name, strlen(name) + 1);
}

/* A CIE with augmentation "zR": addresses of 4 bytes that count from where they stand. */
static void begin_eh_frame(program *p)
{
    bytes_u32(&p->eh_frame, 16);
    bytes_u32(&p->eh_frame, 0);
    bytes_put(&p->eh_frame, "\1zR\0\1\x78\x10\1\x1b\0\0\0", 12);
}

static void add_extent(program *p, uint32_t rva, uint32_t size)
{
    if (p->eh_frame.len == 0)
        begin_eh_frame(p);
    bytes_u32(&p->eh_frame, 16);
    bytes_u32(&p->eh_frame, (uint32_t)p->eh_frame.len);
    const uint64_t here = EH_FRAME_ADDR + p->eh_frame.len;
    bytes_u32(&p->eh_frame, (uint32_t)(BASE + rva - here));
    bytes_u32(&p->eh_frame, size);
    bytes_u32(&p->eh_frame, 0);
}

static void put_section(bytes *rows, uint32_t name_off, uint32_t type, uint64_t addr, uint64_t off,
                        uint64_t size, uint32_t link, uint64_t entry_size)
{
    bytes_u32(rows, name_off);
    bytes_u32(rows, type);
    bytes_u64(rows, 0);
    bytes_u64(rows, addr);
    bytes_u64(rows, off);
    bytes_u64(rows, size);
    bytes_u32(rows, link);
    bytes_u32(rows, 0);
    bytes_u64(rows, 1);
    bytes_u64(rows, entry_size);
}

/* Its bytes are not in the file. */
static void put_code_section(bytes *rows, uint32_t name_off, uint64_t addr, uint64_t size)
{
    size_t at = rows->len;
    put_section(rows, name_off, 1, addr, 0, size, 0, 0);
    bytes_set_u64(rows, at + 8, ELF_SECTION_EXECUTE);
}

static void build(program *p)
{
    static const char names[] = "\0.eh_frame\0.plt\0.text";
    bytes *b = &p->file, rows = {0};
    bytes_put(b, "\177ELF\2\1\1\0\0\0\0\0\0\0\0", 16);
    bytes_u16(b, ELF_TYPE_EXEC);
    bytes_u16(b, ELF_MACHINE_X86_64);
    bytes_fill(b, 0, 64 - b->len);
    put_section(&rows, 0, 0, 0, 0, 0, 0, 0);
    put_section(&rows, 0, 2, 0, b->len, p->symbols.len, 2, 24);
    bytes_put(b, p->symbols.ptr, p->symbols.len);
    put_section(&rows, 0, 3, 0, b->len, p->names.len, 0, 0);
    bytes_put(b, p->names.ptr, p->names.len);
    put_section(&rows, 1, 1, EH_FRAME_ADDR, b->len, p->eh_frame.len, 0, 0);
    bytes_put(b, p->eh_frame.ptr, p->eh_frame.len);
    put_section(&rows, 0, 3, 0, b->len, sizeof names, 0, 0);
    bytes_put(b, names, sizeof names);
    if (p->plt_rva)
        put_code_section(&rows, 11, BASE + p->plt_rva, 0x100);
    if (p->plt_rva)
        put_code_section(&rows, 16, BASE + CODE_RVA, p->plt_rva - CODE_RVA);
    bytes_set_u64(b, 40, b->len);
    bytes_set_u16(b, 58, 64);
    bytes_set_u16(b, 60, (uint16_t)(rows.len / 64));
    bytes_set_u16(b, 62, 4);
    bytes_put(b, rows.ptr, rows.len);
    bytes_free(&rows);
    p->segment = (code_segment){CODE_RVA, {code_bytes, sizeof code_bytes}, true};
    p->image = (symbol_image){.bytes = bytes_span(b), .mem = arena_new(0), .names = &p->kept};
    p->image.elf.is_64bit = true;
    p->image.code = (code_image){CODE_X64, BASE, &p->segment, 1};
}

static void drop(program *p)
{
    arena_free(p->image.mem);
    intern_free(&p->kept);
    bytes_free(&p->symbols);
    bytes_free(&p->names);
    bytes_free(&p->eh_frame);
    bytes_free(&p->file);
}

/* "name entry [begin,end)...", with "?" behind a size that is guessed. */
static void expect(program *p, const char *expected)
{
    char text[2048] = "";
    size_t len = 0;
    symbol_found found = {0};
    build(p);
    assert_int_equal(symbol_elf_procedures(&p->image, &found, &p->findings, NULL), SPGO_OK);
    for (size_t i = 0; i < found.count; i++) {
        const symbol_procedure *f = &found.procedures[i];
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s %x", (int)f->name.len,
                                f->name.ptr ? f->name.ptr : "", f->entry_rva);
        for (uint32_t k = 0; k < f->piece_count; k++)
            len += (size_t)snprintf(text + len, sizeof text - len, " [%x,%x)",
                                    f->pieces[k].begin_rva, f->pieces[k].end_rva);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s\n",
                                f->flags & SYMBOL_SIZE_GUESSED ? "?" : "");
    }
    assert_string_equal(text, expected);
    free(found.procedures);
    drop(p);
}

static void test_functions_with_sizes_and_aliases(void **state)
{
    (void)state;
    program p = {0};
    add_symbol(&p, "weak", 0x1000, 0x20, WEAK, FUNCTION);
    add_symbol(&p, "local", 0x1000, 0x20, LOCAL, FUNCTION);
    add_symbol(&p, "b", 0x1000, 0x20, GLOBAL, FUNCTION);
    add_symbol(&p, "a", 0x1000, 0x20, GLOBAL, FUNCTION);
    add_symbol(&p, "table", 0x1040, 0x20, GLOBAL, DATA);
    add_symbol(&p, "elsewhere", 0x3000, 0x20, GLOBAL, FUNCTION);
    expect(&p, "a 1000 [1000,1020)\nb 1000 [1000,1020)\nweak 1000 [1000,1020)\n"
               "local 1000 [1000,1020)\n");
}

static void test_a_cold_part_belongs_to_its_function(void **state)
{
    (void)state;
    program p = {0};
    add_symbol(&p, "f", 0x1100, 0x20, GLOBAL, FUNCTION);
    add_symbol(&p, "f.cold", 0x1000, 8, LOCAL, FUNCTION);
    add_symbol(&p, "g.cold", 0x1010, 8, LOCAL, FUNCTION);
    expect(&p, "g.cold 1010 [1010,1018)\nf 1100 [1000,1008) [1100,1120)\n");
}

static void test_cold_parts_of_statics_of_one_name_are_left_alone(void **state)
{
    (void)state;
    program p = {0};
    add_symbol(&p, "f", 0x1100, 0x20, LOCAL, FUNCTION);
    add_symbol(&p, "f", 0x1200, 0x20, LOCAL, FUNCTION);
    add_symbol(&p, "f.cold", 0x1000, 8, LOCAL, FUNCTION);
    expect(&p, "f.cold 1000 [1000,1008)\nf 1100 [1100,1120)\nf 1200 [1200,1220)\n");
}

static void test_sizes_that_are_not_told(void **state)
{
    (void)state;
    program p = {0};
    add_symbol(&p, "by_entry", 0x1000, 0, GLOBAL, FUNCTION);
    add_symbol(&p, "by_next", 0x1100, 0, GLOBAL, LABEL);
    add_symbol(&p, "label", 0x1108, 0, LOCAL, LABEL);
    add_symbol(&p, "next", 0x1120, 0x10, GLOBAL, FUNCTION);
    add_symbol(&p, "last", 0x1f00, 0, GLOBAL, FUNCTION);
    add_extent(&p, 0x1000, 0x30);
    expect(&p, "by_entry 1000 [1000,1030)?\nby_next 1100 [1100,1120)?\nnext 1120 [1120,1130)\n"
               "last 1f00 [1f00,2000)?\n");
}

static void test_extents_without_names(void **state)
{
    (void)state;
    program p = {0};
    add_symbol(&p, "f", 0x1000, 0x20, GLOBAL, FUNCTION);
    add_extent(&p, 0x1200, 0x10);
    add_extent(&p, 0x1000, 0x20);
    add_extent(&p, 0x1010, 0x10); /* inside of f */
    add_extent(&p, 0x1020, 0x10);
    add_extent(&p, 0x3000, 0x10); /* no code there */
    expect(&p, "f 1000 [1000,1020)\n 1020 [1020,1030)?\n 1200 [1200,1210)?\n");
}

/* What the linker makes for calls into other images is no function, nor the end of one. */
static void test_a_table_of_jumps_is_no_function(void **state)
{
    (void)state;
    program p = {.plt_rva = 0x1200};
    add_symbol(&p, "last", 0x1100, 0, GLOBAL, FUNCTION);
    add_extent(&p, 0x1200, 0x100);
    add_extent(&p, 0x1300, 0x10);
    expect(&p, "last 1100 [1100,1200)?\n 1300 [1300,1310)?\n");
    p = (program){.plt_rva = 0x1200};
    add_symbol(&p, "last", 0x1100, 0, GLOBAL, FUNCTION);
    expect(&p, "last 1100 [1100,1200)?\n");
}

static void test_nothing_to_go_by(void **state)
{
    (void)state;
    program p = {0};
    symbol_found found = {0};
    spgo_error err;
    build(&p);
    assert_int_equal(symbol_elf_procedures(&p.image, &found, &p.findings, &err), SPGO_NOT_FOUND);
    drop(&p);
}

static void test_a_damaged_eh_frame_gives_what_it_has(void **state)
{
    (void)state;
    program p = {0};
    add_extent(&p, 0x1000, 0x10);
    bytes_u32(&p.eh_frame, 100); /* an entry that reaches behind the section */
    bytes_u32(&p.eh_frame, 4);
    build(&p);
    symbol_found found = {0};
    assert_int_equal(symbol_elf_procedures(&p.image, &found, &p.findings, NULL), SPGO_OK);
    assert_int_equal(found.count, 1);
    assert_int_equal(p.findings.total, 1);
    assert_int_equal(p.findings.kept[0].code, SPGO_TRUNCATED);
    assert_int_equal(p.findings.kept[0].offset, 64 + p.symbols.len + p.names.len + 20 + 20 + 4);
    free(found.procedures);
    drop(&p);
}

static void test_every_flipped_bit(void **state)
{
    (void)state;
    program whole = {0};
    add_symbol(&whole, "f", 0x1100, 0x20, GLOBAL, FUNCTION);
    add_symbol(&whole, "f.cold", 0x1000, 8, LOCAL, FUNCTION);
    add_symbol(&whole, "g", 0x1200, 0, GLOBAL, FUNCTION);
    add_extent(&whole, 0x1000, 8);
    add_extent(&whole, 0x1200, 8);
    build(&whole);
    for (size_t bit = 0; bit < 8 * whole.file.len; bit++) {
        uint8_t *copy = malloc(whole.file.len);
        memcpy(copy, whole.file.ptr, whole.file.len);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        symbol_found found = {0};
        symbol_image image = whole.image;
        image.bytes.ptr = copy;
        (void)symbol_elf_procedures(&image, &found, NULL, NULL);
        for (size_t i = 0; i < found.count; i++)
            assert_true(found.procedures[i].pieces[0].begin_rva <
                        found.procedures[i].pieces[0].end_rva);
        free(found.procedures);
        free(copy);
    }
    drop(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_with_sizes_and_aliases),
        cmocka_unit_test(test_a_cold_part_belongs_to_its_function),
        cmocka_unit_test(test_cold_parts_of_statics_of_one_name_are_left_alone),
        cmocka_unit_test(test_sizes_that_are_not_told),
        cmocka_unit_test(test_extents_without_names),
        cmocka_unit_test(test_a_table_of_jumps_is_no_function),
        cmocka_unit_test(test_nothing_to_go_by),
        cmocka_unit_test(test_a_damaged_eh_frame_gives_what_it_has),
        cmocka_unit_test(test_every_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
