/* Images built by hand, whole and with one field broken. */
#include "pe_build.h"

#include <inttypes.h>
#include <stdlib.h>

#include <base/guid.h>

/* Constants, for tables of cases. */
enum {
    AT_PDATA = AT_RDATA + RVA_PDATA - 0x2000,
    AT_CHAINED_ROW = AT_RDATA + RVA_UNWIND_CHAINED - 0x2000 + 4
};

typedef struct fixture {
    bytes b;
    pe_image image;
} fixture;

static fixture opened(bytes b)
{
    fixture f = {.b = b};
    spgo_error err = {0};
    if (pe_open(bytes_span(&f.b), PE_LAYOUT_FILE, &f.image, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return f;
}

static fixture x64(void)
{
    return opened(build_pe(true, PE_MACHINE_AMD64));
}

static void expect_str(spgo_str actual, const char *expected)
{
    assert_int_equal(actual.len, strlen(expected));
    assert_memory_equal(actual.ptr, expected, actual.len);
}

static void expect_error(const spgo_error *err, spgo_code code, uint64_t offset)
{
    assert_int_equal(err->code, code);
    assert_int_equal(err->offset, offset);
    assert_true(err->sentence[0] != '\0');
}

/* ------------------------------------------------------------------ headers */

static void expect_headers(const pe_image *image, bool is_64bit)
{
    assert_int_equal(image->is_64bit, is_64bit);
    assert_int_equal(image->time_date_stamp, 0x5eed1234);
    assert_int_equal(image->characteristics, PE_FILE_EXECUTABLE_IMAGE);
    assert_int_equal(image->linker.major, 14);
    assert_int_equal(image->linker.minor, 36);
    assert_int_equal(image->entry_rva, 0x1004);
    assert_int_equal(image->image_base, is_64bit ? 0x140000000 : 0x400000);
    assert_int_equal(image->data_rva, is_64bit ? 0 : 0x2000);
    assert_int_equal(image->image_version.major, 2);
    assert_int_equal(image->image_version.minor, 3);
    assert_int_equal(image->size_of_image, 0x4000);
    assert_int_equal(image->checksum, 0x1234);
    assert_int_equal(image->dll_characteristics, 0x8160);
    assert_int_equal(image->heap_commit_size, 0x4000);
    assert_int_equal(image->directory_count, PE_DIRECTORY_MAX);
    assert_int_equal(image->directories[PE_DIRECTORY_DEBUG].rva, RVA_DEBUG);
    assert_int_equal(image->section_count, 3);
    assert_true(image->sections_are_ordered);
    assert_int_equal(image->strings.len, 30);
}

static void test_headers_of_both_widths(void **state)
{
    (void)state;
    fixture f = x64();
    assert_true(pe_sniff(bytes_span(&f.b)));
    expect_headers(&f.image, true);
    assert_int_equal(f.image.machine, PE_MACHINE_AMD64);
    assert_string_equal(pe_machine_name(f.image.machine), "AMD64");
    bytes_free(&f.b);
    f = opened(build_pe(false, PE_MACHINE_I386));
    expect_headers(&f.image, false);
    assert_string_equal(pe_machine_name(f.image.machine), "I386");
    bytes_free(&f.b);
}

static void test_broken_headers(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        spgo_code code;
        uint64_t offset;
    } cases[] = {
        {0, 0x5a4c, SPGO_CORRUPT, 0},
        {60, 0x7fffffff, SPGO_TRUNCATED, AT_STRINGS + 30},
        {AT_PE, 0x00014550, SPGO_CORRUPT, AT_PE},
        {AT_PE, 0x0000454e, SPGO_UNSUPPORTED, AT_PE}, /* NE */
        {AT_PE, 0x0000584c, SPGO_UNSUPPORTED, AT_PE}, /* LX */
        {AT_FILE_HEADER + 16, 0x0002006f, SPGO_CORRUPT, AT_FILE_HEADER + 16},
        {AT_FILE_HEADER + 16, 0x00020001, SPGO_CORRUPT, AT_FILE_HEADER + 16},
        {AT_FILE_HEADER + 16, 0x0002ffff, SPGO_TRUNCATED, AT_OPTIONAL},
        {AT_OPTIONAL, 0x107, SPGO_UNSUPPORTED, AT_OPTIONAL},
        {AT_OPTIONAL, 0x20c, SPGO_CORRUPT, AT_OPTIONAL},
        {AT_FILE_HEADER, 0xffff8664, SPGO_TRUNCATED, AT_STRINGS + 30}, /* sections */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = build_pe(true, PE_MACHINE_AMD64);
        pe_image image;
        spgo_error err = {0};
        bytes_set_u32(&b, cases[i].at, cases[i].value);
        assert_int_equal(pe_open(bytes_span(&b), PE_LAYOUT_FILE, &image, &err), cases[i].code);
        expect_error(&err, cases[i].code, cases[i].offset);
        bytes_free(&b);
    }
}

static void test_cut_headers(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        uint64_t offset;
    } cases[] = {{0, 0},
                 {63, 63},
                 {AT_PE + 23, AT_PE + 23},
                 {AT_OPTIONAL + 239, AT_OPTIONAL},
                 {AT_SECTIONS + 119, AT_SECTIONS + 119}};
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pe_image image;
        spgo_error err = {0};
        spgo_span cut = {b.ptr, cases[i].len};
        assert_int_equal(pe_open(cut, PE_LAYOUT_FILE, &image, &err), SPGO_TRUNCATED);
        expect_error(&err, SPGO_TRUNCATED, cases[i].offset);
    }
    bytes_free(&b);
}

static void test_sniffing(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    assert_true(pe_sniff((spgo_span){b.ptr, 64})); /* the signature is behind what is shown */
    assert_false(pe_sniff((spgo_span){b.ptr, 63}));
    b.ptr[AT_PE + 1] = 'F';
    assert_false(pe_sniff(bytes_span(&b)));
    bytes_free(&b);
}

static void test_fewer_directories(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u32(&b, AT_DIRECTORIES - 4, 6);
    fixture f = opened(b);
    pe_codeview cv;
    assert_int_equal(f.image.directory_count, 6);
    assert_int_equal(f.image.directories[PE_DIRECTORY_DEBUG].rva, 0);
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_NOT_FOUND);
    bytes_set_u32(&f.b, AT_DIRECTORIES - 4, UINT32_MAX);
    f = opened(f.b);
    assert_int_equal(f.image.directory_count, PE_DIRECTORY_MAX);
    assert_int_equal(f.image.directory_count_stated, UINT32_MAX);
    bytes_free(&f.b);
}

/* ------------------------------------------------------------------ sections and addresses */

static void test_sections(void **state)
{
    (void)state;
    fixture f = x64();
    pe_section s = pe_section_at(&f.image, 0);
    expect_str(s.name, ".text");
    assert_int_equal(s.rva, 0x1000);
    assert_int_equal(s.flags, PE_SECTION_CODE | PE_SECTION_EXECUTE | PE_SECTION_READ);
    assert_int_equal(pe_section_data(&f.image, &s).len, TEXT_SIZE);
    assert_true(pe_section_find(&f.image, ".debug_info", &s));
    spgo_span dwarf = pe_section_data(&f.image, &s);
    assert_int_equal(dwarf.len, DWARF_SIZE); /* without the padding of the file */
    assert_ptr_equal(dwarf.ptr, f.b.ptr + AT_DWARF);
    assert_false(pe_section_find(&f.image, ".debug", &s));
    bytes_free(&f.b);
}

static void test_long_section_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *shown;
    } cases[] = {
        {"/4", ".debug_info"},
        {"/16", "a_long_symbol"},
        {"/3", "/3"},
        {"/30", "/30"},
        {"/x", "/x"},
        {"/", "/"},
        {"//AAAAAE", ".debug_info"},
        {"//AAAA.E", "//AAAA.E"},
        {"//", "//"},
        {"/9999999", "/9999999"},
        {"//////", "//////"},
        {"eightchr", "eightchr"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = build_pe(true, PE_MACHINE_AMD64);
        memset(b.ptr + AT_SECTIONS + 80, 0, 8);
        memcpy(b.ptr + AT_SECTIONS + 80, cases[i].name, strlen(cases[i].name));
        fixture f = opened(b);
        expect_str(pe_section_at(&f.image, 2).name, cases[i].shown);
        bytes_free(&f.b);
    }
}

static void expect_offset(const pe_image *image, uint32_t rva, uint64_t expected)
{
    uint64_t off;
    uint32_t back;
    assert_true(pe_offset_from_rva(image, rva, &off));
    assert_int_equal(off, expected);
    assert_true(pe_rva_from_offset(image, off, &back));
    assert_int_equal(back, rva);
}

static void test_addresses(void **state)
{
    (void)state;
    fixture f = x64();
    uint64_t off;
    uint32_t rva;
    size_t index;
    spgo_span span;
    expect_offset(&f.image, 0, 0);
    expect_offset(&f.image, HEADERS_SIZE - 1, HEADERS_SIZE - 1);
    expect_offset(&f.image, 0x1000, AT_TEXT);
    expect_offset(&f.image, 0x1000 + TEXT_SIZE - 1, AT_TEXT + TEXT_SIZE - 1);
    expect_offset(&f.image, 0x2000, AT_RDATA);
    assert_false(pe_offset_from_rva(&f.image, HEADERS_SIZE, &off));
    assert_false(pe_offset_from_rva(&f.image, 0x1000 + TEXT_SIZE, &off)); /* zeros in memory */
    assert_true(pe_section_of_rva(&f.image, 0x1000 + TEXT_SIZE, &index));
    assert_int_equal(index, 0);
    assert_true(pe_section_of_rva(&f.image, 0x17ff, &index));
    assert_false(pe_section_of_rva(&f.image, 0x1800, &index));
    assert_false(pe_section_of_rva(&f.image, 0xfff, &index));
    assert_false(pe_section_of_rva(&f.image, UINT32_MAX, &index));
    assert_false(pe_rva_from_offset(&f.image, AT_SYMBOLS, &rva));
    assert_false(pe_rva_from_offset(&f.image, f.b.len, &rva));
    assert_true(pe_span_at_rva(&f.image, 0x1000, TEXT_SIZE, &span));
    assert_false(pe_span_at_rva(&f.image, 0x1000, TEXT_SIZE + 1, &span));
    assert_false(pe_span_at_rva(&f.image, 0x1001, UINT64_MAX, &span));
    bytes_free(&f.b);
}

static void test_sections_out_of_order_and_overlapping(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u32(&b, AT_SECTIONS + 8, 0x2000); /* .text reaches into .rdata */
    fixture f = opened(b);
    size_t index;
    assert_false(f.image.sections_are_ordered);
    assert_true(pe_section_of_rva(&f.image, 0x2000, &index));
    assert_int_equal(index, 0);
    assert_true(pe_section_of_rva(&f.image, 0x3000, &index));
    assert_int_equal(index, 2);
    bytes_free(&f.b);

    b = build_pe(true, PE_MACHINE_AMD64);
    uint8_t row[40];
    memcpy(row, b.ptr + AT_SECTIONS, 40);
    memcpy(b.ptr + AT_SECTIONS, b.ptr + AT_SECTIONS + 40, 40);
    memcpy(b.ptr + AT_SECTIONS + 40, row, 40);
    f = opened(b);
    assert_false(f.image.sections_are_ordered);
    expect_offset(&f.image, 0x1000, AT_TEXT);
    expect_offset(&f.image, 0x2000, AT_RDATA);
    bytes_free(&f.b);
}

static void test_sections_that_wrap_or_lie_behind_the_end(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u32(&b, AT_SECTIONS + 80 + 12, 0xffffff00); /* RVA */
    bytes_set_u32(&b, AT_SECTIONS + 80 + 8, UINT32_MAX);  /* virtual size */
    bytes_set_u32(&b, AT_SECTIONS + 80 + 16, UINT32_MAX); /* raw size */
    bytes_set_u32(&b, AT_SECTIONS + 80 + 20, 0xfffffff0); /* its offset */
    fixture f = opened(b);
    pe_section s = pe_section_at(&f.image, 2);
    assert_int_equal(pe_section_data(&f.image, &s).len, 0);
    assert_int_equal(pe_rest_at_rva(&f.image, UINT32_MAX).len, 0);
    bytes_set_u32(&f.b, AT_SECTIONS + 80 + 20, AT_DWARF);
    assert_int_equal(pe_section_at(&f.image, 2).raw_off, AT_DWARF);
    assert_int_equal(pe_rest_at_rva(&f.image, 0xffffff00).len, f.b.len - AT_DWARF);
    uint32_t rva;
    assert_true(pe_rva_from_offset(&f.image, AT_DWARF + 0xf, &rva));
    assert_int_equal(rva, 0xffffff0f);
    bytes_set_u32(&f.b, AT_SECTIONS + 80 + 12, 0xffffffff);
    assert_false(pe_rva_from_offset(&f.image, AT_DWARF + 1, &rva));
    bytes_free(&f.b);
}

static void test_an_image_without_sections(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u16(&b, AT_FILE_HEADER + 2, 0);
    fixture f = opened(b);
    size_t index;
    pe_codeview cv;
    spgo_error err = {0};
    expect_offset(&f.image, 0x1ff, 0x1ff);
    assert_false(pe_section_of_rva(&f.image, 0x1000, &index));
    assert_int_equal(pe_codeview_find(&f.image, &cv, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, AT_DIRECTORIES + 8 * PE_DIRECTORY_DEBUG);
    bytes_free(&f.b);
}

/* A table of `count` sections, each overlapping the one before it if so wished. */
static bytes many_sections(size_t count, bool overlap)
{
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    b.len = AT_SECTIONS;
    bytes_set_u16(&b, AT_FILE_HEADER + 2, (uint16_t)count);
    for (size_t i = 0; i < count; i++)
        put_section(&b, ".s", overlap ? 0x1001 : 0x1000, (uint32_t)(i + 1) << 12, 0, 0, 0);
    return b;
}

static void test_many_sections(void **state)
{
    (void)state;
    fixture f = opened(many_sections(65535, false));
    size_t index;
    assert_true(pe_section_of_rva(&f.image, 0x8000fff, &index));
    assert_int_equal(index, 0x7fff);
    assert_true(pe_section_of_rva(&f.image, 0xfffffff, &index));
    assert_int_equal(index, 65534);
    bytes_free(&f.b);
    f = opened(many_sections(96, true));
    bytes_free(&f.b);
    bytes b = many_sections(97, true);
    pe_image image;
    spgo_error err = {0};
    assert_int_equal(pe_open(bytes_span(&b), PE_LAYOUT_FILE, &image, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, AT_SECTIONS);
    bytes_free(&b);
}

static void test_an_image_from_memory(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64), memory = {0};
    bytes_put(&memory, b.ptr, HEADERS_SIZE);
    pad_to(&memory, 0x1000);
    bytes_put(&memory, b.ptr + AT_TEXT, TEXT_SIZE);
    pad_to(&memory, 0x2000);
    bytes_put(&memory, b.ptr + AT_RDATA, RDATA_SIZE);
    pad_to(&memory, 0x3100);
    pe_image image;
    pe_codeview cv;
    pe_symbols symbols;
    assert_int_equal(pe_open(bytes_span(&memory), PE_LAYOUT_MAPPED, &image, NULL), SPGO_OK);
    expect_offset(&image, 0x2010, 0x2010);
    assert_int_equal(pe_codeview_find(&image, &cv, NULL), SPGO_OK);
    assert_int_equal(cv.id.age, 7);
    assert_int_equal(image.strings.len, 0);
    expect_str(pe_section_at(&image, 2).name, "/4");
    assert_int_equal(pe_symbols_open(&image, &symbols, NULL), SPGO_OK);
    assert_int_equal(symbols.table.count, 0);
    bytes_free(&memory);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ debug directory */

static void test_debug_rows(void **state)
{
    (void)state;
    static const char *const names[DEBUG_COUNT] = {"CodeView", "CodeView", "CodeView",    "POGO",
                                                   "REPRO",    "SPGO",     "PDB_CHECKSUM"};
    fixture f = x64();
    pe_table t;
    assert_int_equal(pe_debug_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(t.count, DEBUG_COUNT);
    for (size_t i = 0; i < t.count; i++) {
        pe_debug d = pe_debug_at(&f.image, &t, i);
        assert_string_equal(pe_debug_type_name(d.type), names[i]);
        assert_int_equal(d.row_off, at_rva(RVA_DEBUG) + 28 * i);
        assert_int_equal(d.data.len, d.size_bytes);
    }
    assert_null(pe_debug_type_name(99));
    assert_true(pe_is_spgo(&f.image));
    bytes_set_u32(&f.b, at_rva(RVA_DEBUG) + 28 * 5 + 12, 99);
    assert_false(pe_is_spgo(&f.image));
    bytes_free(&f.b);
}

static void set_debug_type(fixture *f, size_t row, uint32_t type)
{
    bytes_set_u32(&f->b, at_rva(RVA_DEBUG) + 28 * row + 12, type);
}

static void test_which_pdb_is_chosen(void **state)
{
    (void)state;
    fixture f = x64();
    pe_codeview cv;
    char guid[GUID_TEXT_SIZE];
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    assert_int_equal(cv.kind, PE_CODEVIEW_RSDS);
    assert_false(cv.is_portable);
    assert_int_equal(cv.id.age, 7);
    guid_text(guid, &cv.id.guid);
    assert_string_equal(guid, "{33333333-3333-3333-3333-333333333333}");
    expect_str(cv.pdb_path, "C:\\a\\b.pdb");
    set_debug_type(&f, 2, 99);
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    assert_true(cv.is_portable);
    expect_str(cv.pdb_path, "m.pdb");
    set_debug_type(&f, 1, 99);
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    assert_int_equal(cv.kind, PE_CODEVIEW_NB10);
    assert_int_equal(cv.time_stamp, 0x3c3c3c3c);
    assert_int_equal(cv.id.age, 2);
    assert_true(guid_is_null(&cv.id.guid));
    expect_str(cv.pdb_path, "old.pdb");
    set_debug_type(&f, 0, 99);
    spgo_error err = {0};
    assert_int_equal(pe_codeview_find(&f.image, &cv, &err), SPGO_NOT_FOUND);
    expect_error(&err, SPGO_NOT_FOUND, SPGO_NO_OFFSET);
    bytes_free(&f.b);
}

static void test_codeview_of_odd_forms(void **state)
{
    (void)state;
    fixture f = x64();
    pe_codeview cv;
    spgo_error err = {0};
    const size_t row = at_rva(RVA_DEBUG) + 28 * 2;
    bytes_set_u32(&f.b, row + 16, 24); /* no path at all, as MinGW's ld writes */
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    assert_int_equal(cv.id.age, 7);
    assert_int_equal(cv.pdb_path.len, 0);
    bytes_set_u32(&f.b, row + 16, 28); /* a path without its NUL */
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    expect_str(cv.pdb_path, "C:\\a");
    set_debug_type(&f, 0, 99);
    set_debug_type(&f, 1, 99);
    bytes_set_u32(&f.b, row + 16, 23);
    assert_int_equal(pe_codeview_find(&f.image, &cv, &err), SPGO_TRUNCATED);
    expect_error(&err, SPGO_TRUNCATED, at_rva(RVA_RSDS) + 20);
    bytes_set_u32(&f.b, row + 24, (uint32_t)f.b.len - 10);
    assert_int_equal(pe_codeview_find(&f.image, &cv, &err), SPGO_TRUNCATED);
    expect_error(&err, SPGO_TRUNCATED, row);
    bytes_set_u32(&f.b, row + 24, 0); /* no offset: the RVA says where it is */
    bytes_set_u32(&f.b, row + 16, 35);
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    expect_str(cv.pdb_path, "C:\\a\\b.pdb");
    bytes_set_u32(&f.b, at_rva(RVA_RSDS), 0x54534453);
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_NOT_FOUND);
    bytes_free(&f.b);
}

static void test_names_without_an_end(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    const size_t row = at_rva(RVA_DEBUG) + 28 * 2;
    bytes_set_u32(&b, row + 16, 24 + 40000);
    bytes_set_u32(&b, row + 24, (uint32_t)b.len);
    bytes_put(&b, "RSDS", 4);
    bytes_fill(&b, 1, 20);
    bytes_fill(&b, 'a', 40000);
    fixture f = opened(b);
    pe_codeview cv;
    assert_int_equal(pe_codeview_find(&f.image, &cv, NULL), SPGO_OK);
    assert_int_equal(cv.id.age, 0x01010101);
    assert_int_equal(cv.pdb_path.len, 32 * 1024);
    bytes_free(&f.b);
}

static void test_other_payloads(void **state)
{
    (void)state;
    fixture f = x64();
    pe_debug d;
    pe_pogo_group group;
    spgo_span hash, checksum;
    spgo_str algorithm;
    assert_true(pe_debug_find(&f.image, PE_DEBUG_POGO, &d));
    pe_pogo p = pe_pogo_open(&d);
    assert_int_equal(p.signature, PE_POGO_PGU);
    assert_true(pe_pogo_next(&p, &group));
    assert_int_equal(group.rva, 0x1000);
    assert_int_equal(group.size_bytes, 0x30);
    expect_str(group.name, ".text$mn");
    assert_true(pe_pogo_next(&p, &group));
    expect_str(group.name, ".text$x");
    assert_false(pe_pogo_next(&p, &group));
    assert_int_equal(p.rest.code, SPGO_OK);
    assert_true(pe_repro_hash(&f.image, &hash));
    assert_int_equal(hash.len, 4);
    assert_int_equal(load_u32(hash.ptr), 0xdeadbeef);
    assert_true(pe_debug_find(&f.image, PE_DEBUG_PDB_CHECKSUM, &d));
    assert_true(pe_pdb_checksum(&d, &algorithm, &checksum));
    expect_str(algorithm, "SHA256");
    assert_int_equal(checksum.len, 32);
    bytes_free(&f.b);
}

static void test_cut_payloads(void **state)
{
    (void)state;
    fixture f = x64();
    pe_debug d;
    pe_pogo_group group;
    spgo_span hash, checksum;
    spgo_str algorithm;
    bytes_set_u32(&f.b, at_rva(RVA_DEBUG) + 28 * 3 + 16, 30); /* POGO */
    bytes_set_u32(&f.b, at_rva(RVA_REPRO), 5);
    bytes_set_u32(&f.b, at_rva(RVA_DEBUG) + 28 * 6 + 16, 6); /* checksum */
    assert_true(pe_debug_find(&f.image, PE_DEBUG_POGO, &d));
    pe_pogo p = pe_pogo_open(&d);
    assert_true(pe_pogo_next(&p, &group));
    assert_false(pe_pogo_next(&p, &group));
    assert_int_equal(p.rest.code, SPGO_TRUNCATED);
    assert_int_equal(p.rest.bad_off, at_rva(RVA_POGO) + 28);
    assert_true(pe_repro_hash(&f.image, &hash));
    assert_int_equal(hash.len, 0);
    assert_true(pe_debug_find(&f.image, PE_DEBUG_PDB_CHECKSUM, &d));
    assert_false(pe_pdb_checksum(&d, &algorithm, &checksum));
    bytes_free(&f.b);
}

/* ------------------------------------------------------------------ exports */

static void test_exports(void **state)
{
    (void)state;
    fixture f = x64();
    pe_exports e;
    assert_int_equal(pe_exports_open(&f.image, &e, NULL), SPGO_OK);
    expect_str(e.dll_name, "a.dll");
    assert_int_equal(e.functions.count, 4);
    assert_int_equal(e.names.count, 2);
    pe_export x = pe_export_by_name(&e, 0);
    expect_str(x.name, "f");
    assert_int_equal(x.ordinal, 5);
    assert_int_equal(x.rva, 0x1000);
    assert_false(x.is_forwarder);
    x = pe_export_by_name(&e, 1);
    expect_str(x.name, "g");
    assert_int_equal(x.ordinal, 7);
    assert_true(x.is_forwarder);
    expect_str(x.forwarder, "b.h");
    assert_int_equal(pe_export_at(&e, 1).rva, 0);
    assert_int_equal(pe_export_at(&e, 3).rva, 0x1010);
    assert_int_equal(pe_export_at(&e, 3).ordinal, 8);
    bytes_free(&f.b);
}

static void test_broken_exports(void **state)
{
    (void)state;
    static const struct {
        uint32_t field, value;
        uint64_t offset;
    } cases[] = {
        {20, UINT32_MAX, 20}, {20, 0x100, 20},  {28, 0x5000, 20}, {24, UINT32_MAX, 24},
        {32, 0xffffffff, 24}, {36, 0, SPGO_OK}, {36, 0x237f, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = x64();
        pe_exports e;
        spgo_error err = {0};
        bytes_set_u32(&f.b, at_rva(RVA_EXPORTS) + cases[i].field, cases[i].value);
        spgo_code code = pe_exports_open(&f.image, &e, &err);
        if (cases[i].offset == SPGO_OK)
            assert_int_equal(code, SPGO_OK); /* the headers have an RVA too */
        else
            expect_error(&err, SPGO_CORRUPT, at_rva(RVA_EXPORTS) + cases[i].offset);
        bytes_free(&f.b);
    }
    fixture f = x64();
    pe_exports e;
    bytes_set_u16(&f.b, at_rva(RVA_EXPORTS) + 0x40, 4); /* an index behind the functions */
    bytes_set_u32(&f.b, at_rva(RVA_EXPORTS) + 0x38, 0x5000);
    assert_int_equal(pe_exports_open(&f.image, &e, NULL), SPGO_OK);
    assert_int_equal(pe_export_by_name(&e, 0).rva, 0);
    assert_int_equal(pe_export_by_name(&e, 0).name.len, 0);
    bytes_free(&f.b);
}

/* ------------------------------------------------------------------ functions */

static void test_unwind_information(void **state)
{
    (void)state;
    fixture f = x64();
    pe_unwind u;
    pe_unwind_code c;
    size_t slot = 0;
    assert_int_equal(pe_unwind_read(&f.image, RVA_UNWIND_HANDLER, &u, NULL), SPGO_OK);
    assert_int_equal(u.version, 1);
    assert_int_equal(u.flags, PE_UNWIND_EXCEPTION_HANDLER);
    assert_int_equal(u.prolog_size, 5);
    assert_int_equal(u.frame_register, 5);
    assert_int_equal(u.frame_offset, 2);
    assert_int_equal(u.handler_rva, 0x1004);
    assert_int_equal(load_u32(u.handler_data.ptr), 0x99);
    assert_true(pe_unwind_code_next(&u, &slot, &c));
    assert_string_equal(pe_unwind_op_name(c.op), "SET_FPREG");
    assert_int_equal(c.value, 0x20);
    assert_true(pe_unwind_code_next(&u, &slot, &c));
    assert_int_equal(c.op, PE_UNWIND_ALLOC_LARGE);
    assert_int_equal(c.prolog_off, 3);
    assert_int_equal(c.value, 0x100);
    assert_false(pe_unwind_code_next(&u, &slot, &c));
    assert_int_equal(slot, u.code_count);
    assert_int_equal(pe_unwind_read(&f.image, RVA_UNWIND_TWICE, &u, NULL), SPGO_OK);
    assert_int_equal(u.flags, PE_UNWIND_CHAINED);
    assert_int_equal(u.chained.begin_rva, 0x1010);
    bytes_free(&f.b);
}

static void test_every_unwind_code(void **state)
{
    (void)state;
    static const struct {
        uint8_t op, info, slots;
        uint32_t value;
    } cases[] = {
        {PE_UNWIND_PUSH_NONVOL, 3, 1, 0},
        {PE_UNWIND_ALLOC_LARGE, 0, 2, 0x1234 * 8},
        {PE_UNWIND_ALLOC_LARGE, 1, 3, 0x51234},
        {PE_UNWIND_ALLOC_LARGE, 2, 0, 0},
        {PE_UNWIND_ALLOC_SMALL, 15, 1, 128},
        {PE_UNWIND_SET_FPREG, 0, 1, 0x30},
        {PE_UNWIND_SAVE_NONVOL, 6, 2, 0x91a0},
        {PE_UNWIND_SAVE_NONVOL_FAR, 6, 3, 0x51234},
        {PE_UNWIND_EPILOG, 1, 2, 0x1234},
        {PE_UNWIND_SPARE, 0, 3, 0x51234},
        {PE_UNWIND_SAVE_XMM128, 6, 2, 0x12340},
        {PE_UNWIND_SAVE_XMM128_FAR, 6, 3, 0x51234},
        {PE_UNWIND_PUSH_MACHFRAME, 1, 1, 0},
        {11, 0, 0, 0},
        {15, 15, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t codes[] = {9, (uint8_t)(cases[i].op | cases[i].info << 4), 0x34, 0x12, 5, 0};
        pe_unwind u = {.frame_offset = 3, .code_count = 3, .codes = {codes, sizeof codes}};
        pe_unwind_code c;
        size_t slot = 0;
        bool is_known = cases[i].slots > 0;
        assert_int_equal(pe_unwind_code_next(&u, &slot, &c), is_known);
        assert_int_equal(slot, cases[i].slots);
        if (is_known)
            assert_int_equal(c.value, cases[i].value);
        if (cases[i].slots > 1) {
            u.codes.len = 2 * (size_t)(cases[i].slots - 1);
            slot = 0;
            assert_false(pe_unwind_code_next(&u, &slot, &c));
            assert_int_equal(slot, 0);
        }
    }
}

static void test_primaries(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0x1000, 0x1000, 0x1018, 0x1000, 0x1000};
    fixture f = x64();
    pe_table t;
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(t.count, PDATA_COUNT);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        pe_runtime_function row = pe_x64_function_at(&t, i), primary;
        assert_int_equal(pe_x64_primary(&f.image, &row, &primary, NULL), SPGO_OK);
        assert_int_equal(primary.begin_rva, expected[i]);
    }
    bytes_free(&f.b);
}

typedef struct built {
    fixture f;
    arena *a;
    pe_extents e;
    diag d;
} built;

static built build_extents(fixture f)
{
    built b = {.f = f, .a = arena_new(0)};
    assert_non_null(b.a);
    assert_int_equal(pe_extents_build(&b.f.image, b.a, &b.e, &b.d, NULL), SPGO_OK);
    return b;
}

static void free_extents(built *b)
{
    arena_free(b->a);
    bytes_free(&b->f.b);
}

static void expect_piece(const pe_function *f, size_t index, uint32_t begin, uint32_t end)
{
    assert_int_equal(f->pieces[index].begin_rva, begin);
    assert_int_equal(f->pieces[index].end_rva, end);
}

static void test_pieces_of_functions(void **state)
{
    (void)state;
    built b = build_extents(x64());
    pe_function f;
    size_t at = 0;
    assert_int_equal(b.d.total, 0);
    assert_true(pe_function_next(&b.e, &at, &f));
    assert_int_equal(f.rva, 0x1000);
    assert_int_equal(f.piece_count, 3);
    expect_piece(&f, 0, 0x1000, 0x1018); /* two rows that touch */
    expect_piece(&f, 1, 0x1020, 0x1028);
    expect_piece(&f, 2, 0x1030, 0x1034);
    assert_true(pe_function_next(&b.e, &at, &f));
    assert_int_equal(f.rva, 0x1018);
    assert_int_equal(f.piece_count, 1);
    assert_false(pe_function_next(&b.e, &at, &f));
    free_extents(&b);
}

static void test_damaged_functions(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        size_t left_out, alone;
        spgo_code code;
        size_t row;
    } cases[] = {
        {AT_PDATA + 4, 0x1000, 1, 0, SPGO_CORRUPT, 0},
        {AT_PDATA + 4, 0x4001, 1, 0, SPGO_CORRUPT, 0},
        {AT_PDATA + 12 * 2 + 8, 0x5000, 0, 1, SPGO_CORRUPT, 2},
        {AT_PDATA + 12 * 4 + 8, 0x5001, 0, 1, SPGO_CORRUPT, 4},
        {AT_RDATA + RVA_UNWIND_HANDLER - 0x2000, 0x2503050b, 0, 1, SPGO_UNSUPPORTED,
         2},                                                             /* version 3 */
        {AT_CHAINED_ROW + 8, RVA_UNWIND_CHAINED, 0, 2, SPGO_CORRUPT, 1}, /* a loop */
        {AT_CHAINED_ROW, 0x4000, 0, 2, SPGO_CORRUPT, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = x64();
        bytes_set_u32(&f.b, cases[i].at, cases[i].value);
        built b = build_extents(f);
        assert_int_equal(b.e.rows_left_out, cases[i].left_out);
        assert_int_equal(b.e.rows_alone, cases[i].alone);
        assert_int_equal(b.d.total, cases[i].left_out + cases[i].alone);
        assert_int_equal(b.d.kept[0].code, cases[i].code);
        assert_int_equal(b.d.kept[0].offset, at_rva(RVA_PDATA) + 12 * cases[i].row);
        free_extents(&b);
    }
}

static void test_errors_of_function_tables(void **state)
{
    (void)state;
    fixture f = opened(build_pe(false, PE_MACHINE_I386));
    pe_table t;
    pe_unwind u;
    pe_runtime_function row = {0x1000, 0x1010, RVA_UNWIND_CHAINED}, primary;
    spgo_error err = {0};
    assert_int_equal(pe_functions_open(&f.image, &t, &err), SPGO_UNSUPPORTED);
    expect_error(&err, SPGO_UNSUPPORTED, AT_FILE_HEADER);
    bytes_free(&f.b);
    f = x64();
    f.image.directories[PE_DIRECTORY_EXCEPTION].size_bytes = 0x1000;
    assert_int_equal(pe_functions_open(&f.image, &t, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, AT_DIRECTORIES + 8 * PE_DIRECTORY_EXCEPTION);
    assert_int_equal(pe_unwind_read(&f.image, 0x237d, &u, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, SPGO_NO_OFFSET);
    f.b.ptr[at_rva(RVA_UNWIND)] = 0;
    assert_int_equal(pe_unwind_read(&f.image, RVA_UNWIND, &u, &err), SPGO_UNSUPPORTED);
    expect_error(&err, SPGO_UNSUPPORTED, at_rva(RVA_UNWIND));
    bytes_set_u32(&f.b, at_rva(RVA_UNWIND_CHAINED) + 12, RVA_UNWIND_CHAINED);
    assert_int_equal(pe_x64_primary(&f.image, &row, &primary, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, at_rva(RVA_UNWIND_CHAINED));
    bytes_free(&f.b);
}

/* As many steps as are followed, and one more. */
static void test_longest_chain(void **state)
{
    (void)state;
    for (uint32_t steps = PE_CHAIN_MAX; steps <= PE_CHAIN_MAX + 1; steps++) {
        fixture f = x64();
        const uint32_t first = RVA_LOAD_CONFIG, size = 4;
        /* Indirections that each point four bytes further, to the next one's last field. */
        for (uint32_t i = 0; i < steps; i++)
            bytes_set_u32(&f.b, at_rva(first + i * size),
                          i + 1 < steps ? (first + (i + 1) * size - 8) | 1 : RVA_UNWIND);
        pe_runtime_function row = {1, 2, (first - 8) | 1}, primary;
        assert_int_equal(pe_x64_primary(&f.image, &row, &primary, NULL),
                         steps == PE_CHAIN_MAX ? SPGO_OK : SPGO_CORRUPT);
        bytes_free(&f.b);
    }
}

static void test_arm64_rows(void **state)
{
    (void)state;
    fixture f = opened(build_arm64());
    pe_table t;
    pe_arm64_function a;
    assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
    assert_int_equal(t.count, 5);
    assert_int_equal(pe_arm64_function_at(&f.image, &t, 0, &a, NULL), SPGO_OK);
    assert_true(a.is_packed && !a.is_fragment);
    assert_int_equal(a.size_bytes, 16);
    assert_int_equal(pe_arm64_function_at(&f.image, &t, 1, &a, NULL), SPGO_OK);
    assert_true(a.is_packed && a.is_fragment);
    assert_int_equal(pe_arm64_function_at(&f.image, &t, 2, &a, NULL), SPGO_OK);
    assert_false(a.is_packed || a.is_fragment);
    assert_int_equal(a.size_bytes, 8);
    assert_int_equal(a.epilog_count, 1);
    assert_int_equal(a.epilogs.len, 4);
    assert_int_equal(a.codes.len, 4);
    assert_int_equal(a.handler_rva, 0x1004);
    assert_int_equal(pe_arm64_function_at(&f.image, &t, 3, &a, NULL), SPGO_OK);
    assert_true(!a.is_packed && a.is_fragment);
    assert_int_equal(a.codes.ptr[0], 0xe5);
    bytes_free(&f.b);
}

static void test_arm64_pieces(void **state)
{
    (void)state;
    built b = build_extents(opened(build_arm64()));
    pe_function f;
    size_t at = 0;
    assert_true(pe_function_next(&b.e, &at, &f));
    assert_int_equal(f.rva, 0x1000);
    assert_int_equal(f.piece_count, 1);
    expect_piece(&f, 0, 0x1000, 0x1018);
    assert_false(f.pieces[0].is_loose);
    assert_true(pe_function_next(&b.e, &at, &f));
    expect_piece(&f, 0, 0x1018, 0x1020);
    assert_true(pe_function_next(&b.e, &at, &f));
    expect_piece(&f, 0, 0x1030, 0x103c);
    assert_true(f.pieces[0].is_loose);
    assert_false(pe_function_next(&b.e, &at, &f));
    free_extents(&b);
}

static void test_damaged_arm64_rows(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint32_t value;
        spgo_code code;
    } cases[] = {
        {AT_PDATA + 8 * 2 + 4, 3, SPGO_UNSUPPORTED},
        {AT_PDATA + 8 * 2 + 4, 0x5000, SPGO_CORRUPT},
        {AT_PDATA + 8 * 2 + 4, 0x237c, SPGO_CORRUPT},
        {AT_RDATA + RVA_UNWIND - 0x2000, 2 | 1 << 18 | 1u << 27, SPGO_UNSUPPORTED}, /* version 1 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes image = build_arm64();
        bytes_set_u32(&image, cases[i].at, cases[i].value);
        fixture f = opened(image);
        pe_table t;
        pe_arm64_function a;
        spgo_error err = {0};
        assert_int_equal(pe_functions_open(&f.image, &t, NULL), SPGO_OK);
        assert_int_equal(pe_arm64_function_at(&f.image, &t, 2, &a, &err), cases[i].code);
        expect_error(&err, cases[i].code, at_rva(RVA_PDATA) + 8 * 2 + 4);
        built b = build_extents(f);
        assert_int_equal(b.e.rows_left_out, 1);
        assert_int_equal(b.d.kept[0].code, cases[i].code);
        assert_int_equal(b.d.kept[0].offset, at_rva(RVA_PDATA) + 8 * 2);
        free_extents(&b);
    }
}

/* ------------------------------------------------------------------ symbols, hybrid images */

static void test_symbols(void **state)
{
    (void)state;
    fixture f = x64();
    pe_symbols s;
    pe_symbol symbol;
    assert_int_equal(pe_symbols_open(&f.image, &s, NULL), SPGO_OK);
    assert_true(pe_symbols_next(&s, &symbol));
    expect_str(symbol.name, ".file");
    assert_int_equal(symbol.section, -2);
    assert_int_equal(symbol.storage_class, PE_SYMBOL_FILE);
    assert_false(symbol.has_rva);
    assert_int_equal(symbol.auxiliary.len, 18);
    assert_memory_equal(symbol.auxiliary.ptr, "source.c", 9);
    assert_true(pe_symbols_next(&s, &symbol));
    expect_str(symbol.name, "eightchr");
    assert_true(symbol.has_rva);
    assert_int_equal(symbol.rva, 0x1010);
    assert_true(pe_symbols_next(&s, &symbol));
    expect_str(symbol.name, "a_long_symbol");
    assert_int_equal(symbol.type >> 4, PE_SYMBOL_FUNCTION);
    assert_int_equal(symbol.rva, 0x1020);
    assert_false(pe_symbols_next(&s, &symbol));
    bytes_free(&f.b);
}

static void test_broken_symbols(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    b.ptr[AT_SYMBOLS + 17] = 255;                  /* more auxiliary rows than there are */
    bytes_set_u32(&b, AT_SYMBOLS + 8, UINT32_MAX); /* a value that wraps */
    bytes_set_u16(&b, AT_SYMBOLS + 12, 1);
    fixture f = opened(b);
    pe_symbols s;
    pe_symbol symbol;
    spgo_error err = {0};
    assert_int_equal(pe_symbols_open(&f.image, &s, NULL), SPGO_OK);
    assert_true(pe_symbols_next(&s, &symbol));
    assert_int_equal(symbol.auxiliary.len, 18 * (SYMBOL_COUNT - 1));
    assert_false(symbol.has_rva);
    assert_false(pe_symbols_next(&s, &symbol));
    bytes_set_u32(&f.b, AT_FILE_HEADER + 12, 1 << 20);
    f = opened(f.b);
    assert_int_equal(f.image.strings.len, 0);
    assert_int_equal(pe_symbols_open(&f.image, &s, &err), SPGO_TRUNCATED);
    expect_error(&err, SPGO_TRUNCATED, f.b.len);
    bytes_free(&f.b);
}

static void test_hybrid_images(void **state)
{
    (void)state;
    fixture f = x64();
    pe_hybrid h;
    assert_int_equal(pe_hybrid_read(&f.image, &h, NULL), SPGO_OK);
    assert_int_equal(h.metadata_rva, RVA_HYBRID);
    assert_int_equal(h.version, 2);
    assert_int_equal(h.code_ranges.count, 2);
    pe_code_range range = pe_code_range_at(&h, 0);
    assert_int_equal(range.begin_rva, 0x1000);
    assert_int_equal(range.size_bytes, 0x10);
    assert_int_equal(range.kind, PE_CODE_ARM64EC);
    assert_int_equal(pe_code_range_at(&h, 1).kind, PE_CODE_X64);
    bytes_set_u32(&f.b, at_rva(RVA_LOAD_CONFIG), 207); /* ends before the field */
    assert_int_equal(pe_hybrid_read(&f.image, &h, NULL), SPGO_OK);
    assert_int_equal(h.metadata_rva, 0);
    bytes_free(&f.b);
    f = opened(build_pe(false, PE_MACHINE_I386));
    assert_int_equal(pe_hybrid_read(&f.image, &h, NULL), SPGO_OK);
    assert_int_equal(h.metadata_rva, RVA_HYBRID);
    assert_int_equal(h.code_ranges.count, 0);
    bytes_free(&f.b);
}

static void test_broken_hybrid_images(void **state)
{
    (void)state;
    fixture f = x64();
    pe_hybrid h;
    spgo_error err = {0};
    bytes_set_u32(&f.b, at_rva(RVA_HYBRID) + 8, UINT32_MAX);
    assert_int_equal(pe_hybrid_read(&f.image, &h, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, at_rva(RVA_HYBRID) + 8);
    assert_int_equal(h.code_ranges.count, 0);
    bytes_set_u64(&f.b, at_rva(RVA_LOAD_CONFIG) + 200, 1);
    assert_int_equal(pe_hybrid_read(&f.image, &h, &err), SPGO_CORRUPT);
    expect_error(&err, SPGO_CORRUPT, SPGO_NO_OFFSET);
    assert_int_equal(h.metadata_rva, 0);
    bytes_free(&f.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_of_both_widths),
        cmocka_unit_test(test_broken_headers),
        cmocka_unit_test(test_cut_headers),
        cmocka_unit_test(test_sniffing),
        cmocka_unit_test(test_fewer_directories),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_long_section_names),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_sections_out_of_order_and_overlapping),
        cmocka_unit_test(test_sections_that_wrap_or_lie_behind_the_end),
        cmocka_unit_test(test_an_image_without_sections),
        cmocka_unit_test(test_many_sections),
        cmocka_unit_test(test_an_image_from_memory),
        cmocka_unit_test(test_debug_rows),
        cmocka_unit_test(test_which_pdb_is_chosen),
        cmocka_unit_test(test_codeview_of_odd_forms),
        cmocka_unit_test(test_names_without_an_end),
        cmocka_unit_test(test_other_payloads),
        cmocka_unit_test(test_cut_payloads),
        cmocka_unit_test(test_exports),
        cmocka_unit_test(test_broken_exports),
        cmocka_unit_test(test_unwind_information),
        cmocka_unit_test(test_every_unwind_code),
        cmocka_unit_test(test_primaries),
        cmocka_unit_test(test_pieces_of_functions),
        cmocka_unit_test(test_damaged_functions),
        cmocka_unit_test(test_errors_of_function_tables),
        cmocka_unit_test(test_longest_chain),
        cmocka_unit_test(test_arm64_rows),
        cmocka_unit_test(test_arm64_pieces),
        cmocka_unit_test(test_damaged_arm64_rows),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_broken_symbols),
        cmocka_unit_test(test_hybrid_images),
        cmocka_unit_test(test_broken_hybrid_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
