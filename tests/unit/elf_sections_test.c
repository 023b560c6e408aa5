/* Sections and symbols of ELF files built by hand, in every class and byte order. */
#include "elf_build.h"

typedef struct section {
    const char *name;
    uint32_t type;
    uint64_t flags, addr;
    bytes data;
    uint32_t link;
    uint64_t entry_size;
} section;

enum { SECTION_MAX = 8 };

typedef struct file {
    kind k;
    section sections[SECTION_MAX];
    size_t count; /* without the empty first one and the names at the end */
    uint64_t offs[SECTION_MAX + 2];
    uint64_t table_off;
    bytes all;
} file;

static void put_header(file *f, uint64_t table_off, uint16_t count)
{
    static const uint8_t magic[] = {0x7f, 'E', 'L', 'F'};
    bytes *b = &f->all;
    bytes_put(b, magic, 4);
    bytes_u8(b, f->k.is_64bit ? 2 : 1);
    bytes_u8(b, f->k.big_endian ? 2 : 1);
    bytes_u8(b, 1);
    bytes_fill(b, 0, 9);
    half(b, f->k, ELF_TYPE_DYN);
    half(b, f->k, ELF_MACHINE_X86_64);
    word(b, f->k, 1);
    wide(b, f->k, 0);
    wide(b, f->k, 0);
    wide(b, f->k, table_off);
    word(b, f->k, 0);
    half(b, f->k, f->k.is_64bit ? 64 : 52);
    half(b, f->k, 0);
    half(b, f->k, 0);
    half(b, f->k, f->k.is_64bit ? 64 : 40);
    half(b, f->k, count);
    half(b, f->k, (uint16_t)(count - 1));
}

static void put_row(file *f, uint32_t name_off, const section *s, uint64_t off, uint64_t size)
{
    bytes *b = &f->all;
    word(b, f->k, name_off);
    word(b, f->k, s->type);
    wide(b, f->k, s->flags);
    wide(b, f->k, s->addr);
    wide(b, f->k, off);
    wide(b, f->k, size);
    word(b, f->k, s->link);
    word(b, f->k, 7); /* info */
    wide(b, f->k, 1);
    wide(b, f->k, s->entry_size);
}

/* Header, contents, names, table. */
static void build(file *f)
{
    const size_t header_size = f->k.is_64bit ? 64 : 52;
    uint64_t off = header_size;
    uint32_t name_offs[SECTION_MAX + 1] = {0};
    bytes names = {0};
    bytes_u8(&names, 0);
    for (size_t i = 0; i < f->count; i++) {
        name_offs[i] = (uint32_t)names.len;
        bytes_put(&names, f->sections[i].name, strlen(f->sections[i].name) + 1);
        f->offs[i + 1] = off;
        off += f->sections[i].data.len;
    }
    f->table_off = off + names.len;
    put_header(f, f->table_off, (uint16_t)(f->count + 2));
    for (size_t i = 0; i < f->count; i++)
        bytes_put(&f->all, f->sections[i].data.ptr, f->sections[i].data.len);
    bytes_put(&f->all, names.ptr, names.len);
    put_row(f, 0, &(section){.type = 0}, 0, 0);
    for (size_t i = 0; i < f->count; i++)
        put_row(f, name_offs[i], &f->sections[i], f->offs[i + 1], f->sections[i].data.len);
    put_row(f, 0, &(section){.type = ELF_SECTION_TYPE_STRINGS}, off, names.len);
    bytes_free(&names);
}

static void drop(file *f)
{
    for (size_t i = 0; i < f->count; i++)
        bytes_free(&f->sections[i].data);
    bytes_free(&f->all);
}

static bytes text(const char *s, size_t len)
{
    bytes b = {0};
    bytes_put(&b, s, len);
    return b;
}

static section *add(file *f, const char *name, uint32_t type, bytes data)
{
    section *s = &f->sections[f->count++];
    *s = (section){.name = name, .type = type, .data = data};
    return s;
}

static elf_sections open_sections(const file *f)
{
    elf_sections s;
    assert_int_equal(elf_sections_open(bytes_span(&f->all), &s, NULL), SPGO_OK);
    return s;
}

static void expect_text(spgo_str s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.ptr, expected, s.len);
}

static void test_fields_and_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        file f = {.k = kinds[i]};
        section *code = add(&f, ".text", ELF_SECTION_TYPE_PROGRAM, text("abc", 3));
        code->flags = ELF_SECTION_ALLOCATED | ELF_SECTION_EXECUTE;
        code->addr = 0x1000;
        add(&f, ".bss", ELF_SECTION_TYPE_NO_BITS, text("zz", 2));
        build(&f);
        elf_sections s = open_sections(&f);
        assert_int_equal(s.count, 4);
        elf_section found;
        assert_true(elf_section_find(&s, ".text", &found));
        expect_text(found.name, ".text");
        assert_int_equal(found.addr, 0x1000);
        assert_int_equal(found.flags, ELF_SECTION_ALLOCATED | ELF_SECTION_EXECUTE);
        assert_int_equal(found.offset, f.offs[1]);
        assert_int_equal(found.info, 7);
        assert_int_equal(found.data.len, 3);
        assert_memory_equal(found.data.ptr, "abc", 3);
        assert_true(elf_section_find(&s, ".bss", &found));
        assert_int_equal(found.size_bytes, 2);
        assert_int_equal(found.data.len, 0);
        assert_false(elf_section_find(&s, ".tex", &found));
        assert_false(elf_section_find(&s, ".text1", &found));
        drop(&f);
    }
}

static void test_of_one_name_the_one_with_bytes_is_found(void **state)
{
    (void)state;
    file f = {.k = kinds[2]};
    add(&f, ".x", ELF_SECTION_TYPE_NO_BITS, text("zz", 2));
    add(&f, ".x", ELF_SECTION_TYPE_PROGRAM, text("abc", 3));
    build(&f);
    elf_sections s = open_sections(&f);
    elf_section found;
    assert_true(elf_section_find(&s, ".x", &found));
    assert_int_equal(found.data.len, 3);
    drop(&f);
}

static void test_what_reaches_behind_the_file_has_no_bytes(void **state)
{
    (void)state;
    file f = {.k = kinds[2]};
    add(&f, ".x", ELF_SECTION_TYPE_PROGRAM, text("abc", 3));
    build(&f);
    bytes_set_u64(&f.all, (size_t)f.table_off + 64 + 32, f.all.len); /* its size */
    elf_sections s = open_sections(&f);
    elf_section found;
    assert_true(elf_section_find(&s, ".x", &found));
    assert_int_equal(found.size_bytes, f.all.len);
    assert_int_equal(found.data.len, 0);
    drop(&f);
}

static void test_no_table_no_sections(void **state)
{
    (void)state;
    file f = {.k = kinds[2]};
    add(&f, ".x", ELF_SECTION_TYPE_PROGRAM, text("abc", 3));
    build(&f);
    f.all.len--;
    elf_sections s = open_sections(&f);
    elf_section found;
    assert_int_equal(s.count, 0);
    assert_false(elf_section_find(&s, ".x", &found));
    drop(&f);
}

static void test_names_without_an_end_are_none(void **state)
{
    (void)state;
    file f = {.k = kinds[2]};
    add(&f, ".last", ELF_SECTION_TYPE_PROGRAM, text("abc", 3));
    build(&f);
    bytes_set_u32(&f.all, (size_t)f.table_off + 64, 1u << 30);
    elf_sections s = open_sections(&f);
    assert_int_equal(elf_section_at(&s, 1).name.len, 0);
    bytes_set_u32(&f.all, (size_t)f.table_off + 64, 1);
    f.all.ptr[f.table_off - 1] = 'x'; /* the NUL behind the last name */
    assert_int_equal(elf_section_at(&s, 1).name.len, 0);
    drop(&f);
}

static bytes symbol_rows(kind k)
{
    bytes b = {0};
    const struct {
        uint32_t name;
        uint8_t info;
        uint16_t section;
        uint64_t value, size;
    } rows[] = {{0, 0, 0, 0, 0},
                {1, 0x12, 1, 0x1000, 0x20},
                {5, 0x02, 0xfff1, 0x2000, 1},
                {9, 0x20, 0, 0, 0}};
    for (size_t i = 0; i < 4; i++) {
        word(&b, k, rows[i].name);
        if (!k.is_64bit) {
            wide(&b, k, rows[i].value);
            wide(&b, k, rows[i].size);
        }
        bytes_u8(&b, rows[i].info);
        bytes_u8(&b, 2);
        half(&b, k, rows[i].section);
        if (k.is_64bit) {
            wide(&b, k, rows[i].value);
            wide(&b, k, rows[i].size);
        }
    }
    return b;
}

static void add_symbols(file *f, uint64_t entry_size)
{
    section *table = add(f, ".symtab", ELF_SECTION_TYPE_SYMBOLS, symbol_rows(f->k));
    table->entry_size = entry_size;
    table->link = 2;
    add(f, ".strtab", ELF_SECTION_TYPE_STRINGS, text("\0foo\0bar\0weak\0", 14));
    build(f);
}

static void test_symbols(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        file f = {.k = kinds[i]};
        add_symbols(&f, f.k.is_64bit ? 24 : 16);
        elf_sections s = open_sections(&f);
        elf_symbols t;
        assert_int_equal(elf_symbols_open(&s, ELF_SECTION_TYPE_SYMBOLS, &t, NULL), SPGO_OK);
        assert_int_equal(t.count, 4);
        elf_symbol foo = elf_symbol_at(&t, 1);
        expect_text(foo.name, "foo");
        assert_int_equal(foo.value, 0x1000);
        assert_int_equal(foo.size_bytes, 0x20);
        assert_int_equal(foo.type, ELF_SYMBOL_FUNCTION);
        assert_int_equal(foo.bind, ELF_BIND_GLOBAL);
        assert_int_equal(foo.visibility, 2);
        assert_true(elf_symbol_has_place(&foo));
        elf_symbol bar = elf_symbol_at(&t, 2), weak = elf_symbol_at(&t, 3);
        assert_false(elf_symbol_has_place(&bar)); /* absolute */
        assert_int_equal(bar.bind, ELF_BIND_LOCAL);
        assert_false(elf_symbol_has_place(&weak)); /* undefined */
        assert_int_equal(weak.bind, ELF_BIND_WEAK);
        assert_int_equal(elf_symbol_at(&t, 0).name.len, 0);
        spgo_error err;
        assert_int_equal(elf_symbols_open(&s, ELF_SECTION_TYPE_DYNAMIC_SYMBOLS, &t, &err),
                         SPGO_NOT_FOUND);
        drop(&f);
    }
}

static void test_rows_that_are_too_small_are_refused(void **state)
{
    (void)state;
    file f = {.k = kinds[2]};
    add_symbols(&f, 23);
    elf_sections s = open_sections(&f);
    elf_symbols t;
    spgo_error err;
    assert_int_equal(elf_symbols_open(&s, ELF_SECTION_TYPE_SYMBOLS, &t, &err), SPGO_CORRUPT);
    assert_int_equal(err.offset, f.offs[1]);
    drop(&f);
}

static void test_debuglink(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        file f = {.k = kinds[i]};
        bytes link = text("prog.debug\0\0", 12);
        word(&link, f.k, 0xcbf43926);
        add(&f, ".gnu_debuglink", ELF_SECTION_TYPE_PROGRAM, link);
        build(&f);
        elf_sections s = open_sections(&f);
        spgo_str name;
        uint32_t crc;
        assert_true(elf_debuglink(&s, &name, &crc));
        expect_text(name, "prog.debug");
        assert_int_equal(crc, 0xcbf43926);
        /* Cut by one byte, it is none. */
        const size_t size_at = (size_t)f.table_off + (f.k.is_64bit ? 64 + 32 : 40 + 20);
        f.all.ptr[size_at + (f.k.big_endian ? (f.k.is_64bit ? 7 : 3) : 0)] = 15;
        assert_false(elf_debuglink(&s, &name, &crc));
        drop(&f);
    }
}

static void test_crc(void **state)
{
    (void)state;
    /* the check value of CRC-32 */
    assert_int_equal(elf_crc32((spgo_span){(const uint8_t *)"123456789", 9}), 0xcbf43926);
    assert_int_equal(elf_crc32((spgo_span){0}), 0);
}

static void test_compression(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        file f = {.k = kinds[i]};
        bytes data = {0};
        word(&data, f.k, ELF_COMPRESSION_ZSTD);
        if (f.k.is_64bit)
            word(&data, f.k, 0);
        wide(&data, f.k, 1000);
        wide(&data, f.k, 1);
        bytes_put(&data, "packed", 6);
        add(&f, ".debug_info", ELF_SECTION_TYPE_PROGRAM, data)->flags = ELF_SECTION_COMPRESSED;
        add(&f, ".debug_line", ELF_SECTION_TYPE_PROGRAM, text("abc", 3))->flags =
            ELF_SECTION_COMPRESSED;
        add(&f, ".debug_str", ELF_SECTION_TYPE_PROGRAM, text("abcdefghijklmnopqrstuvwxyz", 26));
        build(&f);
        elf_sections s = open_sections(&f);
        elf_compression c;
        elf_section packed = elf_section_at(&s, 1), cut = elf_section_at(&s, 2);
        elf_section plain = elf_section_at(&s, 3);
        assert_true(elf_section_compression(&s, &packed, &c));
        assert_int_equal(c.type, ELF_COMPRESSION_ZSTD);
        assert_int_equal(c.size_bytes, 1000);
        assert_int_equal(c.packed.len, 6);
        assert_memory_equal(c.packed.ptr, "packed", 6);
        assert_false(elf_section_compression(&s, &cut, &c));
        assert_false(elf_section_compression(&s, &plain, &c));
        drop(&f);
    }
}

/* Each way to damage a small file must return; memory ends where the input does. */
static void test_every_flipped_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        file f = {.k = kinds[i]};
        add_symbols(&f, f.k.is_64bit ? 24 : 16);
        for (size_t bit = 0; bit < 8 * f.all.len; bit++) {
            f.all.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
            elf_sections s;
            elf_symbols t;
            if (elf_sections_open(bytes_span(&f.all), &s, NULL) == SPGO_OK &&
                elf_symbols_open(&s, ELF_SECTION_TYPE_SYMBOLS, &t, NULL) == SPGO_OK) {
                for (size_t row = 0; row < t.count; row++)
                    (void)elf_symbol_at(&t, row);
            }
            f.all.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        drop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_and_bytes),
        cmocka_unit_test(test_of_one_name_the_one_with_bytes_is_found),
        cmocka_unit_test(test_what_reaches_behind_the_file_has_no_bytes),
        cmocka_unit_test(test_no_table_no_sections),
        cmocka_unit_test(test_names_without_an_end_are_none),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_rows_that_are_too_small_are_refused),
        cmocka_unit_test(test_debuglink),
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_compression),
        cmocka_unit_test(test_every_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
