/* What an image looks like as text and as JSON. */
#include "pe_build.h"

#include <stdlib.h>

#include <base/text.h>

typedef spgo_code (*dump_part)(out *o, json *j, const pe_image *image);

static spgo_code header(out *o, json *j, const pe_image *image)
{
    pe_dump_header(o, j, image);
    return SPGO_OK;
}

static spgo_code directories(out *o, json *j, const pe_image *image)
{
    pe_dump_directories(o, j, image);
    return SPGO_OK;
}

static spgo_code sections(out *o, json *j, const pe_image *image)
{
    pe_dump_sections(o, j, image);
    return SPGO_OK;
}

static spgo_code debug(out *o, json *j, const pe_image *image)
{
    return pe_dump_debug(o, j, image, NULL);
}

static spgo_code exports(out *o, json *j, const pe_image *image)
{
    return pe_dump_exports(o, j, image, NULL);
}

static spgo_code symbols(out *o, json *j, const pe_image *image)
{
    return pe_dump_symbols(o, j, image, NULL);
}

static spgo_code code_ranges(out *o, json *j, const pe_image *image)
{
    return pe_dump_code_ranges(o, j, image, NULL);
}

static spgo_code functions(out *o, json *j, const pe_image *image)
{
    return pe_dump_functions(o, j, image, NULL, NULL);
}

static void expect_dump(bytes b, dump_part dump, bool as_json, const char *expected)
{
    pe_image image;
    bytes text = {0};
    out o;
    assert_int_equal(pe_open(bytes_span(&b), PE_LAYOUT_FILE, &image, NULL), SPGO_OK);
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    json j = json_on(&o, false);
    if (as_json)
        json_open_object(&j);
    assert_int_equal(dump(as_json ? NULL : &o, as_json ? &j : NULL, &image), SPGO_OK);
    if (as_json)
        json_close_object(&j);
    assert_true(out_flush(&o));
    bytes_u8(&text, 0);
    assert_string_equal((const char *)text.ptr, expected);
    out_free(&o);
    bytes_free(&text);
    bytes_free(&b);
}

static void expect_text(dump_part dump, const char *expected)
{
    expect_dump(build_pe(true, PE_MACHINE_AMD64), dump, false, expected);
}

static void test_header(void **state)
{
    (void)state;
    expect_text(header, "image: machine=\"AMD64\" bits=64 characteristics=0x2 "
                        "subsystem=\"WINDOWS_CUI\" dll_characteristics=0x8160 "
                        "time_stamp=0x5eed1234 image_base=0x140000000 size_of_image=0x4000 "
                        "checksum=0x1234 entry_rva=0x1004\n"
                        "traits: reproducible=true spgo=true managed=false hybrid=true\n"
                        "codeview: guid=\"{33333333-3333-3333-3333-333333333333}\" age=7 "
                        "portable=false pdb=\"C:\\a\\b.pdb\"\n");
    expect_dump(build_pe(true, PE_MACHINE_AMD64), header, true,
                "{\"machine\":\"AMD64\",\"bits\":64,\"characteristics\":\"0x2\","
                "\"subsystem\":\"WINDOWS_CUI\",\"dll_characteristics\":\"0x8160\","
                "\"time_stamp\":\"0x5eed1234\",\"image_base\":\"0x140000000\","
                "\"size_of_image\":\"0x4000\",\"checksum\":\"0x1234\","
                "\"entry_rva\":\"0x1004\",\"reproducible\":true,\"spgo\":true,"
                "\"managed\":false,\"hybrid\":true,"
                "\"codeview\":{\"guid\":\"{33333333-3333-3333-3333-333333333333}\","
                "\"age\":7,\"portable\":false,\"pdb\":\"C:\\\\a\\\\b.pdb\"}}");
}

static void test_directories_and_sections(void **state)
{
    (void)state;
    expect_text(directories, "directory 0: name=\"export\" rva=0x2180 size=0x54\n"
                             "directory 3: name=\"exception\" rva=0x21e0 size=0x48\n"
                             "directory 6: name=\"debug\" rva=0x2000 size=0xc4\n"
                             "directory 10: name=\"load config\" rva=0x2290 size=0x40\n");
    expect_text(sections, "section 0: name=\".text\" rva=0x1000 virtual_size=0x800 raw_off=0x200 "
                          "raw_size=0x40 flags=0x60000020\n"
                          "section 1: name=\".rdata\" rva=0x2000 virtual_size=0x380 raw_off=0x240 "
                          "raw_size=0x380 flags=0x40000040\n"
                          "section 2: name=\".debug_info\" rva=0x3000 virtual_size=0x18 "
                          "raw_off=0x5c0 raw_size=0x20 flags=0x42000040\n");
}

static void test_debug_directory(void **state)
{
    (void)state;
    expect_text(debug,
                "debug 0: type=\"CodeView\" row_time_stamp=0x5eed1234 size=0x18 "
                "rva=0x20c8 off=0x308 time_stamp=0x3c3c3c3c age=2 pdb=\"old.pdb\"\n"
                "debug 1: type=\"CodeView\" row_time_stamp=0x5eed1234 size=0x1e "
                "rva=0x20e0 off=0x320 guid=\"{22222222-2222-2222-2222-222222222222}\" "
                "age=1 portable=true pdb=\"m.pdb\"\n"
                "debug 2: type=\"CodeView\" row_time_stamp=0x5eed1234 size=0x23 "
                "rva=0x2100 off=0x340 guid=\"{33333333-3333-3333-3333-333333333333}\" "
                "age=7 portable=false pdb=\"C:\\a\\b.pdb\"\n"
                "debug 3: type=\"POGO\" row_time_stamp=0x5eed1234 size=0x28 rva=0x2124 "
                "off=0x364 signature=0x50475500\n"
                "  group: rva=0x1000 size=0x30 name=\".text$mn\"\n"
                "  group: rva=0x1030 size=0x10 name=\".text$x\"\n"
                "debug 4: type=\"REPRO\" row_time_stamp=0x5eed1234 size=0x8 rva=0x214c "
                "off=0x38c data=04000000efbeadde\n"
                "debug 5: type=\"SPGO\" row_time_stamp=0x5eed1234 size=0x0 rva=0x0 off=0x0\n"
                "debug 6: type=\"PDB_CHECKSUM\" row_time_stamp=0x5eed1234 size=0x27 "
                "rva=0x2154 off=0x394 algorithm=\"SHA256\" "
                "checksum=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a\n");
}

static void test_exports(void **state)
{
    (void)state;
    expect_text(exports, "export 0: ordinal=5 name=\"f\" rva=0x1000\n"
                         "export 1: ordinal=7 name=\"g\" forwarder=\"b.h\"\n"
                         "export 2: ordinal=8 name=\"\" rva=0x1010\n");
    expect_dump(build_pe(true, PE_MACHINE_AMD64), exports, true,
                "{\"exports\":[{\"ordinal\":5,\"name\":\"f\",\"rva\":\"0x1000\"},"
                "{\"ordinal\":7,\"name\":\"g\",\"forwarder\":\"b.h\"},{\"ordinal\":8,"
                "\"name\":\"\",\"rva\":\"0x1010\"}]}");
}

static void test_symbols(void **state)
{
    (void)state;
    expect_text(symbols,
                "symbol 0: name=\".file\" value=0x0 section=-2 type=0x0 class=103\n"
                "symbol 2: name=\"eightchr\" rva=0x1010 section=1 type=0x20 class=2\n"
                "symbol 3: name=\"a_long_symbol\" rva=0x1020 section=1 type=0x20 class=3\n");
}

static void test_code_ranges(void **state)
{
    (void)state;
    expect_text(code_ranges, "code range 0: kind=\"ARM64EC\" rva=0x1000 size=0x10\n"
                             "code range 1: kind=\"x64\" rva=0x1020 size=0x8\n");
}

static void test_functions(void **state)
{
    (void)state;
    expect_text(functions, "function 0: rva=0x1000 pieces=0x1000..0x1018,0x1020..0x1028,"
                           "0x1030..0x1034\n"
                           "function 1: rva=0x1018 pieces=0x1018..0x101c\n");
    expect_dump(build_pe(true, PE_MACHINE_AMD64), functions, true,
                "{\"functions\":[{\"rva\":\"0x1000\",\"pieces\":[[\"0x1000\",\"0x1018\"],"
                "[\"0x1020\",\"0x1028\"],[\"0x1030\",\"0x1034\"]]},{\"rva\":\"0x1018\","
                "\"pieces\":[[\"0x1018\",\"0x101c\"]]}]}");
    expect_dump(build_arm64(), functions, false,
                "function 0: rva=0x1000 pieces=0x1000..0x1018\n"
                "function 1: rva=0x1018 pieces=0x1018..0x1020\n"
                "function 2: rva=0x1030 loose=true pieces=0x1030..0x103c\n");
}

/* Seven rows whose payload is the whole file: only the first is shown. */
static void test_payloads_that_overlap(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64), text = {0};
    pe_image image;
    out o;
    size_t shown = 0;
    for (size_t i = 0; i < DEBUG_COUNT; i++) {
        size_t row = at_rva(RVA_DEBUG) + 28 * i;
        bytes_set_u32(&b, row + 12, 99);
        bytes_set_u32(&b, row + 16, (uint32_t)b.len - 1);
        bytes_set_u32(&b, row + 24, 1);
    }
    assert_int_equal(pe_open(bytes_span(&b), PE_LAYOUT_FILE, &image, NULL), SPGO_OK);
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    assert_int_equal(pe_dump_debug(&o, NULL, &image, NULL), SPGO_OK);
    assert_true(out_flush(&o));
    bytes_u8(&text, 0);
    for (const char *p = (const char *)text.ptr; (p = strstr(p, "data=")) != NULL; p++)
        shown++;
    assert_int_equal(shown, 1);
    out_free(&o);
    bytes_free(&text);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),          cmocka_unit_test(test_directories_and_sections),
        cmocka_unit_test(test_debug_directory), cmocka_unit_test(test_exports),
        cmocka_unit_test(test_symbols),         cmocka_unit_test(test_code_ranges),
        cmocka_unit_test(test_functions),       cmocka_unit_test(test_payloads_that_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
