/*
 * DWARF written by hand into small ELF files: chains of inlined calls, procedures, and damage; and
 * real images against the answers of llvm-symbolizer.
 */
#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <symbol/image.h>
#include <symbol/symbol_internal.h>

#if SPGO_HAVE_DWARF

/* ------------------------------------------------------------------ small files */

enum { /* the abbreviations below */
       UNIT = 1,
       UNIT_WITHOUT_CODE,
       FUNCTION,
       ABSTRACT,
       INLINED,
       BLOCK,
       BLOCK_WITH_SIBLING,
       NEVER_RETURNS,
       NAMESPACE,
       UNNAMED_NAMESPACE,
       CLASS,
       UNNAMED_STRUCT,
       DECLARATION,
       DEFINITION,
       BASE = 0x400000,
       CODE_RVA = 0x1000
};

/* Number, tag, whether it has children, pairs of attribute and form; the final NUL ends the table.
 */
static const char abbreviations[] =
    /* low, high, lines, directory */
    "\x01\x11\x01\x11\x01\x12\x06\x10\x17\x1b\x08\0\0"
    /* lines */
    "\x02\x11\x01\x10\x17\0\0"
    /* name, linkage name, low, high, file, line */
    "\x03\x2e\x01\x03\x08\x6e\x08\x11\x01\x12\x06\x3a\x0b\x3b\x0b\0\0"
    /* name, file, line, inline */
    "\x04\x2e\x01\x03\x08\x3a\x0b\x3b\x0b\x20\x0b\0\0"
    /* origin, low, high, file, line, discriminator */
    "\x05\x1d\x01\x31\x13\x11\x01\x12\x06\x58\x0b\x59\x0b\xb6\x42\x0b\0\0"
    "\x06\x0b\x01\0\0"
    /* sibling */
    "\x07\x0b\x01\x01\x13\0\0"
    /* name, low, high, noreturn */
    "\x08\x2e\0\x03\x08\x11\x01\x12\x06\x87\x01\x19\0\0"
    /* name */
    "\x09\x39\x01\x03\x08\0\0"
    "\x0a\x39\x01\0\0"
    /* name */
    "\x0b\x02\x01\x03\x08\0\0"
    "\x0c\x13\x01\0\0"
    /* name, linkage name, declaration */
    "\x0d\x2e\0\x03\x08\x6e\x08\x3c\x19\0\0"
    /* specification, low, high */
    "\x0e\x2e\x01\x47\x13\x11\x01\x12\x06\0\0";

static const uint8_t code_bytes[0x1000];

typedef struct program {
    bytes info, lines;
    bytes file;
    symbol_image image;
    code_segment segment;
    intern names;
    symbol_backend backend;
    diag findings;
} program;

static void begin_unit(program *p, uint8_t abbreviation)
{
    bytes *b = &p->info;
    bytes_u32(b, 0); /* length */
    bytes_u16(b, 4);
    bytes_u32(b, 0);
    bytes_u8(b, 8);
    bytes_u8(b, abbreviation);
    if (abbreviation == UNIT) {
        bytes_u64(b, BASE + CODE_RVA);
        bytes_u32(b, sizeof code_bytes);
    }
    bytes_u32(b, 0);
    if (abbreviation == UNIT)
        bytes_put(b, "/src", 5);
}

static uint32_t put_abstract(program *p, const char *name, uint8_t line)
{
    const uint32_t off = (uint32_t)p->info.len;
    bytes_u8(&p->info, ABSTRACT);
    bytes_put(&p->info, name, strlen(name) + 1);
    bytes_u8(&p->info, 1);
    bytes_u8(&p->info, line);
    bytes_u8(&p->info, 1);
    bytes_u8(&p->info, 0); /* no children */
    return off;
}

static void begin_function(program *p, const char *name, const char *linkage_name, uint32_t rva,
                           uint32_t size, uint8_t line)
{
    bytes_u8(&p->info, FUNCTION);
    bytes_put(&p->info, name, strlen(name) + 1);
    bytes_put(&p->info, linkage_name, strlen(linkage_name) + 1);
    bytes_u64(&p->info, BASE + rva);
    bytes_u32(&p->info, size);
    bytes_u8(&p->info, 1);
    bytes_u8(&p->info, line);
}

static void begin_inlined(program *p, uint32_t origin, uint32_t rva, uint32_t size, uint8_t line,
                          uint8_t discriminator)
{
    bytes_u8(&p->info, INLINED);
    bytes_u32(&p->info, origin);
    bytes_u64(&p->info, BASE + rva);
    bytes_u32(&p->info, size);
    bytes_u8(&p->info, 1);
    bytes_u8(&p->info, line);
    bytes_u8(&p->info, discriminator);
}

/* A namespace or class; NULL: without a name. */
static void begin_scope(program *p, uint8_t abbreviation, const char *name)
{
    bytes_u8(&p->info, abbreviation);
    if (name)
        bytes_put(&p->info, name, strlen(name) + 1);
}

static uint32_t put_declaration(program *p, const char *name, const char *linkage_name)
{
    const uint32_t off = (uint32_t)p->info.len;
    bytes_u8(&p->info, DECLARATION);
    bytes_put(&p->info, name, strlen(name) + 1);
    bytes_put(&p->info, linkage_name, strlen(linkage_name) + 1);
    return off;
}

static void begin_definition(program *p, uint32_t declaration, uint32_t rva, uint32_t size)
{
    bytes_u8(&p->info, DEFINITION);
    bytes_u32(&p->info, declaration);
    bytes_u64(&p->info, BASE + rva);
    bytes_u32(&p->info, size);
}

static void end_children(program *p)
{
    bytes_u8(&p->info, 0);
}

/* Lines 10 at CODE_RVA, then one more each 16 bytes; the third row has discriminator 6. */
static void put_lines(program *p)
{
    static const uint8_t operand_counts[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    bytes *b = &p->lines;
    bytes_u32(b, 0);
    bytes_u16(b, 4);
    bytes_u32(b, 0);
    bytes_put(b, "\1\1\1\0\1\x0d", 6);
    bytes_put(b, operand_counts, sizeof operand_counts);
    bytes_put(b, "\0a.c\0\0\0\0\0", 9);
    bytes_set_u32(b, 6, (uint32_t)b->len - 10);
    bytes_put(b, "\0\x09\2", 3);
    bytes_u64(b, BASE + CODE_RVA);
    bytes_put(b, "\3\x09\1", 3);
    bytes_put(b, "\2\x10\3\1\1", 5);
    bytes_put(b, "\2\x10\3\1\0\2\4\6\1", 9);
    bytes_put(b, "\2\x10\3\1\1", 5);
    bytes_put(b, "\2\x10\0\1\1", 5);
    bytes_set_u32(b, 0, (uint32_t)b->len - 4);
}

typedef struct part {
    const char *name;
    spgo_span data;
} part;

static void put_section_row(bytes *b, uint32_t name_off, uint32_t type, uint64_t off, uint64_t size)
{
    bytes_u32(b, name_off);
    bytes_u32(b, type);
    bytes_fill(b, 0, 16);
    bytes_u64(b, off);
    bytes_u64(b, size);
    bytes_fill(b, 0, 8);
    bytes_u64(b, 1);
    bytes_u64(b, 0);
}

/* The file header, the parts, their names, the table. */
static void put_elf(bytes *b, const part *parts, size_t count)
{
    static const uint8_t ident[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    bytes names = {0}, rows = {0};
    bytes_put(b, ident, sizeof ident);
    bytes_u16(b, ELF_TYPE_EXEC);
    bytes_u16(b, ELF_MACHINE_X86_64);
    bytes_u32(b, 1);
    bytes_fill(b, 0, 64 - b->len);
    bytes_u8(&names, 0);
    put_section_row(&rows, 0, 0, 0, 0);
    for (size_t i = 0; i < count; i++) {
        put_section_row(&rows, (uint32_t)names.len, 1, b->len, parts[i].data.len);
        bytes_put(&names, parts[i].name, strlen(parts[i].name) + 1);
        bytes_put(b, parts[i].data.ptr, parts[i].data.len);
    }
    put_section_row(&rows, 0, 3, b->len, names.len);
    bytes_put(b, names.ptr, names.len);
    bytes_fill(b, 0, (8 - b->len % 8) % 8);
    bytes_set_u64(b, 40, b->len);
    bytes_set_u16(b, 52, 64);
    bytes_set_u16(b, 58, 64);
    bytes_set_u16(b, 60, (uint16_t)(count + 2));
    bytes_set_u16(b, 62, (uint16_t)(count + 1));
    bytes_put(b, rows.ptr, rows.len);
    bytes_free(&names);
    bytes_free(&rows);
}

static void make_image(program *p, spgo_span file)
{
    p->segment = (code_segment){CODE_RVA, {code_bytes, sizeof code_bytes}, true};
    p->image = (symbol_image){.bytes = file, .mem = arena_new(0), .names = &p->names};
    p->image.code = (code_image){CODE_X64, BASE, &p->segment, 1};
}

static spgo_code open_image(program *p, spgo_error *err)
{
    const symbols_opts opts = {0};
    bytes_set_u32(&p->info, 0, (uint32_t)p->info.len - 4);
    const part parts[] = {{".debug_abbrev", {(const uint8_t *)abbreviations, sizeof abbreviations}},
                          {".debug_info", bytes_span(&p->info)},
                          {".debug_line", bytes_span(&p->lines)}};
    put_elf(&p->file, parts, 3);
    make_image(p, bytes_span(&p->file));
    return symbol_dwarf_open(&p->image, &opts, &p->backend, &p->findings, err);
}

static void close_image(program *p)
{
    if (p->backend.close)
        p->backend.close(p->backend.self);
    arena_free(p->image.mem);
    intern_free(&p->names);
    bytes_free(&p->info);
    bytes_free(&p->lines);
    bytes_free(&p->file);
}

/* "name:line.discriminator" of each frame, leaf first; of all runs of the unit of CODE_RVA. */
static void expect_runs(program *p, const char *expected)
{
    char text[2048];
    size_t len = 0;
    uint32_t number;
    symbol_unit unit;
    assert_true(p->backend.unit_at(p->backend.self, CODE_RVA, &number));
    assert_int_equal(
        p->backend.read_unit(p->backend.self, number, &unit, p->image.mem, &p->findings, NULL),
        SPGO_OK);
    for (size_t i = 0; i < unit.run_count; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%x-%x", unit.runs[i].begin_rva,
                                unit.runs[i].end_rva);
        for (const symbol_frame *f = unit.runs[i].leaf; f; f = f->caller)
            len += (size_t)snprintf(text + len, sizeof text - len, " %.*s:%u.%u",
                                    (int)f->function->name.len, f->function->name.ptr, f->line,
                                    f->discriminator);
        len += (size_t)snprintf(text + len, sizeof text - len, "\n");
    }
    assert_string_equal(text, expected);
}

static void test_chains_of_inlined_calls(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    uint32_t g = put_abstract(&p, "g", 50), h = put_abstract(&p, "h", 60);
    begin_function(&p, "f", "_Z1fv", 0x1000, 0x40, 5);
    begin_inlined(&p, g, 0x1008, 0x20, 7, 3);
    begin_inlined(&p, h, 0x1010, 8, 51, 0);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1008 f:10.0\n"
                    "1008-1010 g:10.0 f:7.3\n"
                    "1010-1018 h:11.0 g:51.0 f:7.3\n"
                    "1018-1020 g:11.0 f:7.3\n"
                    "1020-1028 g:12.6 f:7.3\n"
                    "1028-1030 f:12.6\n"
                    "1030-1040 f:13.0\n");
    assert_int_equal(p.findings.total, 0);
    close_image(&p);
}

static void test_functions_have_names_files_and_lines(void **state)
{
    (void)state;
    program p = {0};
    uint32_t number;
    symbol_unit unit;
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "_Z1fv", 0x1000, 0x40, 5);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    assert_true(p.backend.unit_at(p.backend.self, 0x1fff, &number));
    assert_false(p.backend.unit_at(p.backend.self, 0x2000, &number));
    assert_false(p.backend.unit_at(p.backend.self, 0xfff, &number));
    assert_int_equal(p.backend.read_unit(p.backend.self, number, &unit, p.image.mem, NULL, NULL),
                     SPGO_OK);
    const symbol_frame *leaf = unit.runs[0].leaf;
    assert_string_equal(leaf->function->name.ptr, "f");
    assert_string_equal(leaf->function->linkage_name.ptr, "_Z1fv");
    assert_string_equal(leaf->function->file.ptr, "/src/a.c");
    assert_string_equal(leaf->file.ptr, "/src/a.c");
    assert_int_equal(leaf->function->line, 5);
    assert_int_equal(leaf->function->line_source, SYMBOL_LINE_DECLARED);
    close_image(&p);
}

static void test_names_have_namespaces_and_classes_before_them(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_scope(&p, NAMESPACE, "n");
    begin_scope(&p, UNNAMED_NAMESPACE, NULL);
    begin_scope(&p, CLASS, "C<int>");
    const uint32_t m = put_declaration(&p, "m", "_ZN1n1CIiE1mEv");
    end_children(&p);
    end_children(&p);
    begin_function(&p, "c", "", 0x1020, 0x10, 5); /* of C linkage */
    end_children(&p);
    end_children(&p);
    begin_definition(&p, m, 0x1000, 0x10);
    begin_scope(&p, UNNAMED_STRUCT, NULL);
    begin_function(&p, "operator()", "_ZZ", 0x1010, 0x10, 6);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    begin_function(&p, "main", "", 0x1030, 0x10, 7);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(
        &p, "1000-1010 n::(anonymous namespace)::C<int>::m:10.0\n"
            "1010-1020 n::(anonymous namespace)::C<int>::m::(anonymous struct)::operator():11.0\n"
            "1020-1030 n::c:12.6\n"
            "1030-1040 main:13.0\n");
    close_image(&p);
}

static void test_a_function_of_c_linkage_has_its_plain_name_for_the_linker(void **state)
{
    (void)state;
    program p = {0};
    symbol_found found = {0};
    begin_unit(&p, UNIT);
    begin_scope(&p, NAMESPACE, "n");
    begin_function(&p, "c", "", 0x1000, 0x10, 5);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    assert_int_equal(p.backend.procedures(p.backend.self, &found, p.image.mem, NULL, NULL),
                     SPGO_OK);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.procedures[0].name.ptr, "c");
    assert_string_equal(found.procedures[0].function->name.ptr, "n::c");
    assert_string_equal(found.procedures[0].function->linkage_name.ptr, "c");
    free(found.procedures);
    close_image(&p);
}

/* "void f() { void g(); }" does not make g a part of f. */
static void test_what_is_declared_in_a_function_is_not_of_it(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_scope(&p, NAMESPACE, "n");
    begin_function(&p, "f", "_ZN1n1fEv", 0x1000, 0x10, 5);
    bytes_u8(&p.info, BLOCK);
    const uint32_t g = put_declaration(&p, "g", "_ZN1n1gEv");
    begin_scope(&p, CLASS, "C");
    end_children(&p);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    begin_definition(&p, g, 0x1010, 0x10);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 n::f:10.0\n1010-1020 n::g:11.0\n");
    close_image(&p);
}

/* Each level deeper, in a file of a few bytes a level: beyond the bound names stay as they are. */
static void test_scopes_without_end(void **state)
{
    (void)state;
    enum { LEVELS = 400 };
    program p = {0};
    begin_unit(&p, UNIT);
    for (int i = 0; i < LEVELS; i++)
        begin_scope(&p, NAMESPACE, "n");
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    end_children(&p);
    for (int i = 0; i < LEVELS; i++)
        end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 f:10.0\n");
    close_image(&p);
}

static void test_a_class_that_is_in_itself(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    const uint32_t f = (uint32_t)p.info.len;
    begin_definition(&p, f, 0x1000, 0x10); /* specifies itself */
    begin_scope(&p, CLASS, "C");
    const uint32_t g = put_declaration(&p, "g", "");
    end_children(&p);
    end_children(&p);
    begin_definition(&p, g, 0x1010, 0x10);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 :10.0\n1010-1020 C::g:11.0\n");
    close_image(&p);
}

static void test_code_without_lines_has_line_0(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "", 0x1030, 0x20, 5);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1030-1040 f:13.0\n1040-1050 f:0.0\n");
    close_image(&p);
}

static void test_of_overlapping_siblings_the_later_counts(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    uint32_t g = put_abstract(&p, "g", 50), h = put_abstract(&p, "h", 60);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    begin_inlined(&p, g, 0x1000, 0xc, 7, 0);
    end_children(&p);
    begin_inlined(&p, h, 0x1008, 8, 8, 0);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1008 g:10.0 f:7.0\n1008-1010 h:10.0 f:8.0\n");
    close_image(&p);
}

static void test_equal_calls_make_one_run(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    uint32_t g = put_abstract(&p, "g", 50);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    begin_inlined(&p, g, 0x1000, 8, 7, 0);
    end_children(&p);
    begin_inlined(&p, g, 0x1008, 8, 7, 0);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 g:10.0 f:7.0\n");
    close_image(&p);
}

static void test_units_without_ranges_are_found_by_their_functions(void **state)
{
    (void)state;
    program p = {0};
    uint32_t number;
    begin_unit(&p, UNIT_WITHOUT_CODE);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    end_children(&p);
    begin_function(&p, "dropped", "", (uint32_t)-BASE, 0x2000000, 6); /* at address 0 */
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    assert_true(p.backend.unit_at(p.backend.self, 0x100f, &number));
    assert_false(p.backend.unit_at(p.backend.self, 0x1010, &number));
    close_image(&p);
}

static void test_procedures(void **state)
{
    (void)state;
    program p = {0};
    symbol_found found = {0};
    begin_unit(&p, UNIT);
    (void)put_abstract(&p, "g", 50);
    begin_function(&p, "f", "_Z1fv", 0x1000, 0x10, 5);
    end_children(&p);
    bytes_u8(&p.info, NEVER_RETURNS);
    bytes_put(&p.info, "stop", 5);
    bytes_u64(&p.info, BASE + 0x1010);
    bytes_u32(&p.info, 0x20);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    assert_int_equal(p.backend.procedures(p.backend.self, &found, p.image.mem, &p.findings, NULL),
                     SPGO_OK);
    assert_int_equal(found.count, 2);
    const symbol_procedure *f = &found.procedures[0], *stop = &found.procedures[1];
    assert_string_equal(f->name.ptr, "_Z1fv");
    assert_int_equal(f->entry_rva, 0x1000);
    assert_int_equal(f->piece_count, 1);
    assert_int_equal(f->pieces[0].end_rva, 0x1010);
    assert_int_equal(f->flags, 0);
    assert_string_equal(stop->name.ptr, "stop");
    assert_int_equal(stop->flags, SYMBOL_NO_RETURN);
    assert_int_equal(stop->function->line_source, SYMBOL_LINE_NONE);
    free(found.procedures);
    close_image(&p);
}

/* ------------------------------------------------------------------ damage */

static void test_siblings_that_lead_back_end_the_walk(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    const uint32_t first = (uint32_t)p.info.len;
    bytes_u8(&p.info, BLOCK_WITH_SIBLING);
    bytes_u32(&p.info, first + 6);
    end_children(&p);
    bytes_u8(&p.info, BLOCK_WITH_SIBLING);
    bytes_u32(&p.info, first);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 f:10.0\n");
    assert_int_equal(p.findings.total, 1);
    assert_int_equal(p.findings.kept[0].code, SPGO_CORRUPT);
    close_image(&p);
}

static void test_an_origin_that_is_its_own(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    begin_inlined(&p, (uint32_t)p.info.len, 0x1000, 8, 7, 0);
    end_children(&p);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1008 :10.0 f:7.0\n1008-1010 f:10.0\n");
    close_image(&p);
}

static void test_nesting_without_end(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    for (size_t i = 0; i < 100000; i++)
        bytes_u8(&p.info, BLOCK);
    put_lines(&p);
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 f:10.0\n");
    assert_true(p.findings.total > 0);
    close_image(&p);
}

/* 300 attributes without bytes. */
static void test_abbreviations_that_make_endless_work(void **state)
{
    (void)state;
    const symbols_opts opts = {0};
    program p = {0};
    bytes table = {0};
    uint32_t number;
    symbol_unit unit;
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    end_children(&p);
    end_children(&p);
    bytes_set_u32(&p.info, 0, (uint32_t)p.info.len - 4);
    bytes_put(&table, abbreviations, sizeof abbreviations - 1);
    bytes_put(&table, "\x20\x0b\0", 3);
    for (size_t i = 0; i < 300; i++)
        bytes_put(&table, "\x3f\x19", 2); /* DW_AT_external, DW_FORM_flag_present */
    bytes_put(&table, "\0\0\0", 3);
    const part parts[] = {{".debug_abbrev", bytes_span(&table)},
                          {".debug_info", bytes_span(&p.info)}};
    put_elf(&p.file, parts, 2);
    make_image(&p, bytes_span(&p.file));
    assert_int_equal(symbol_dwarf_open(&p.image, &opts, &p.backend, &p.findings, NULL), SPGO_OK);
    assert_true(p.backend.unit_at(p.backend.self, 0x1000, &number));
    assert_int_equal(
        p.backend.read_unit(p.backend.self, number, &unit, p.image.mem, &p.findings, NULL),
        SPGO_OK);
    assert_int_equal(unit.run_count, 0);
    assert_true(p.findings.total > 0);
    bytes_free(&table);
    close_image(&p);
}

static void test_a_damaged_line_table_leaves_the_functions(void **state)
{
    (void)state;
    program p = {0};
    begin_unit(&p, UNIT);
    begin_function(&p, "f", "", 0x1000, 0x10, 5);
    end_children(&p);
    end_children(&p);
    put_lines(&p);
    p.lines.ptr[4] = 9; /* version */
    assert_int_equal(open_image(&p, NULL), SPGO_OK);
    expect_runs(&p, "1000-1010 f:0.0\n");
    assert_int_equal(p.findings.total, 1);
    assert_int_equal(p.findings.kept[0].code, SPGO_UNSUPPORTED);
    close_image(&p);
}

static void test_a_file_without_dwarf(void **state)
{
    (void)state;
    program p = {0};
    const symbols_opts opts = {0};
    spgo_error err;
    const part nothing = {".text", {code_bytes, 16}};
    put_elf(&p.file, &nothing, 1);
    make_image(&p, bytes_span(&p.file));
    assert_int_equal(symbol_dwarf_open(&p.image, &opts, &p.backend, &p.findings, &err),
                     SPGO_NOT_FOUND);
    close_image(&p);
}

/* Everything that can be asked. */
static void ask_all(program *p)
{
    symbol_found found = {0};
    uint32_t last = UINT32_MAX, number;
    for (uint32_t rva = CODE_RVA; rva < CODE_RVA + 0x1000; rva += 8) {
        symbol_unit unit;
        if (!p->backend.unit_at(p->backend.self, rva, &number) || number == last)
            continue;
        last = number;
        assert_int_equal(
            p->backend.read_unit(p->backend.self, number, &unit, p->image.mem, &p->findings, NULL),
            SPGO_OK);
        for (size_t i = 0; i < unit.run_count; i++) {
            assert_true(unit.runs[i].begin_rva < unit.runs[i].end_rva);
            assert_true(i == 0 || unit.runs[i - 1].end_rva <= unit.runs[i].begin_rva);
        }
    }
    assert_int_equal(
        p->backend.procedures(p->backend.self, &found, p->image.mem, &p->findings, NULL), SPGO_OK);
    free(found.procedures);
}

static void put_two_functions(program *p)
{
    begin_unit(p, UNIT);
    uint32_t g = put_abstract(p, "g", 50);
    begin_function(p, "f", "_Z1fv", 0x1000, 0x40, 5);
    begin_inlined(p, g, 0x1008, 0x20, 7, 3);
    end_children(p);
    end_children(p);
    begin_scope(p, CLASS, "C");
    const uint32_t m = put_declaration(p, "m", "");
    end_children(p);
    begin_definition(p, m, 0x1040, 0x10);
    end_children(p);
    end_children(p);
    put_lines(p);
}

static void test_every_flipped_bit(void **state)
{
    (void)state;
    const symbols_opts opts = {0};
    program whole = {0};
    put_two_functions(&whole);
    assert_int_equal(open_image(&whole, NULL), SPGO_OK);
    for (size_t bit = 0; bit < 8 * whole.file.len; bit++) {
        program p = {0};
        uint8_t *copy = malloc(whole.file.len); /* of its size, so that reading behind it shows */
        memcpy(copy, whole.file.ptr, whole.file.len);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        make_image(&p, (spgo_span){copy, whole.file.len});
        if (symbol_dwarf_open(&p.image, &opts, &p.backend, &p.findings, NULL) == SPGO_OK)
            ask_all(&p);
        else
            p.backend.close = NULL;
        close_image(&p);
        free(copy);
    }
    close_image(&whole);
}

/* ------------------------------------------------------------------ real images */

typedef struct answer {
    uint64_t addr;
    char frames[16][384]; /* "name|file|line|discriminator" */
    size_t count;
} answer;

/* "name at file:line (discriminator n)", or without the last. */
static bool read_frame(const char *text, char *out, size_t size)
{
    char name[128], place[192];
    unsigned discriminator = 0;
    if (sscanf(text, "%127s at %191s (discriminator %u)", name, place, &discriminator) < 2)
        return false;
    char *colon = strrchr(place, ':');
    if (!colon)
        return false;
    *colon = '\0';
    (void)snprintf(out, size, "%s|%s|%s|%u", name, place, colon + 1, discriminator);
    return true;
}

/* The answers were made for the same code linked by another linker: the images have it `shift`
 * bytes further on. */
static void check_answer(symbols *s, const answer *a, uint32_t shift, size_t *checked)
{
    symbol_run run;
    const bool has_debug_info = strchr(a->frames[0], '/') != NULL;
    if (a->count == 0 || !has_debug_info || strncmp(a->frames[0], "??", 2) == 0)
        return;
    const uint32_t rva = (uint32_t)(a->addr - symbols_code(s)->base_addr) + shift;
    assert_int_equal(symbols_run_at(s, rva, &run, NULL), SPGO_OK);
    const symbol_frame *f = run.leaf;
    for (size_t i = 0; i < a->count; i++, f = f->caller) {
        char text[512];
        assert_non_null(f);
        const symbol_function *function = f->function;
        spgo_str name = function->linkage_name.len ? function->linkage_name : function->name;
        (void)snprintf(text, sizeof text, "%.*s|%.*s|%u|%u", (int)name.len, name.ptr,
                       (int)f->file.len, f->file.ptr, f->line, f->discriminator);
        assert_string_equal(text, a->frames[i]);
    }
    assert_null(f);
    ++*checked;
}

static symbols *open_real(const char *name)
{
    char path[512];
    symbols *s = NULL;
    const char *root = getenv("SPGO_TEST_DATA");
    test_data_free(test_data_or_skip(name));
    (void)snprintf(path, sizeof path, "%s/%s", root ? root : "", name);
    const symbols_opts opts = {.image_path = path};
    assert_int_equal(symbols_open(&opts, &s, NULL, NULL), SPGO_OK);
    assert_int_equal(symbols_get_info(s)->source, SYMBOLS_DWARF);
    return s;
}

static void check_real(const char *image, const char *answers, uint32_t shift,
                       size_t expected_count)
{
    static const char inlined[] = " (inlined by) ";
    char line[1024];
    answer a = {0};
    size_t checked = 0;
    symbols *s = open_real(image);
    spgo_span text = test_data_or_skip(answers);
    for (size_t at = 0; at < text.len;) {
        const uint8_t *end = memchr(text.ptr + at, '\n', text.len - at);
        const size_t len = end ? (size_t)(end - text.ptr) - at : text.len - at;
        assert_true(len < sizeof line);
        memcpy(line, text.ptr + at, len);
        line[len] = '\0';
        at += len + 1;
        const char *frame = line + strlen(inlined);
        if (strncmp(line, inlined, strlen(inlined)) != 0) {
            check_answer(s, &a, shift, &checked);
            a = (answer){.addr = strtoull(line, NULL, 16)};
            frame = strstr(line, ": ");
            frame = frame ? frame + 2 : "";
        }
        if (read_frame(frame, a.frames[a.count], sizeof a.frames[0]))
            a.count++;
    }
    check_answer(s, &a, shift, &checked);
    assert_int_equal(checked, expected_count);
    test_data_free(text);
    symbols_close(s);
}

static void test_elf_with_dwarf_5(void **state)
{
    (void)state;
    check_real("pdb/own/t_elf", "pdb/own/t_elf.sym.txt", 0x650, 151);
}

static void test_elf_with_dwarf_4(void **state)
{
    (void)state;
    check_real("pdb/own/t_elf4", "pdb/own/t_elf.sym.txt", 0x650, 151);
}

static void test_elf_with_flow_sensitive_discriminators(void **state)
{
    (void)state;
    check_real("pdb/own/t_elf_fs", "pdb/own/t_elf_fs.sym.txt", 0x650, 151);
}

static void test_pe_with_dwarf(void **state)
{
    (void)state;
    check_real("pdb/own/t_dwarf.exe", "pdb/own/t_dwarf.exe.sym.txt", 0, 150);
}

static void test_a_real_image_damaged(void **state)
{
    (void)state;
    const symbols_opts opts = {0};
    spgo_span file = test_data_or_skip("pdb/own/t_elf4");
    elf_sections sections;
    elf_section info;
    assert_int_equal(elf_sections_open(file, &sections, NULL), SPGO_OK);
    assert_true(elf_section_find(&sections, ".debug_info", &info));
    for (size_t i = 0; i < info.data.len; i++) {
        program p = {0};
        uint8_t *copy = malloc(file.len);
        memcpy(copy, file.ptr, file.len);
        copy[info.offset + i] ^= (uint8_t)(i * 37 + 1);
        make_image(&p, (spgo_span){copy, file.len});
        p.image.code.base_addr = 0;
        if (symbol_dwarf_open(&p.image, &opts, &p.backend, &p.findings, NULL) == SPGO_OK)
            ask_all(&p);
        else
            p.backend.close = NULL;
        close_image(&p);
        free(copy);
    }
    test_data_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_of_inlined_calls),
        cmocka_unit_test(test_functions_have_names_files_and_lines),
        cmocka_unit_test(test_names_have_namespaces_and_classes_before_them),
        cmocka_unit_test(test_a_function_of_c_linkage_has_its_plain_name_for_the_linker),
        cmocka_unit_test(test_what_is_declared_in_a_function_is_not_of_it),
        cmocka_unit_test(test_scopes_without_end),
        cmocka_unit_test(test_a_class_that_is_in_itself),
        cmocka_unit_test(test_code_without_lines_has_line_0),
        cmocka_unit_test(test_of_overlapping_siblings_the_later_counts),
        cmocka_unit_test(test_equal_calls_make_one_run),
        cmocka_unit_test(test_units_without_ranges_are_found_by_their_functions),
        cmocka_unit_test(test_procedures),
        cmocka_unit_test(test_siblings_that_lead_back_end_the_walk),
        cmocka_unit_test(test_an_origin_that_is_its_own),
        cmocka_unit_test(test_nesting_without_end),
        cmocka_unit_test(test_abbreviations_that_make_endless_work),
        cmocka_unit_test(test_a_damaged_line_table_leaves_the_functions),
        cmocka_unit_test(test_a_file_without_dwarf),
        cmocka_unit_test(test_every_flipped_bit),
        cmocka_unit_test(test_elf_with_dwarf_5),
        cmocka_unit_test(test_elf_with_dwarf_4),
        cmocka_unit_test(test_elf_with_flow_sensitive_discriminators),
        cmocka_unit_test(test_pe_with_dwarf),
        cmocka_unit_test(test_a_real_image_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

/* What is said where DWARF cannot be read. */
static void test_a_build_without_libdw_says_so(void **state)
{
    (void)state;
    symbol_backend backend;
    spgo_error err;
    spgo_span file = test_data_or_skip("pdb/own/t_elf");
    const symbol_image image = {.bytes = file};
    const symbols_opts opts = {0};
    assert_int_equal(symbol_dwarf_open(&image, &opts, &backend, NULL, &err), SPGO_UNSUPPORTED);
    assert_non_null(strstr(err.sentence, "libdw"));
    test_data_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_build_without_libdw_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
