/* Finding images and debug files, and that only the right build is taken. */
#include "symbol_build.h"
#include "test_folder.h"

#include <stdio.h>
#include <stdlib.h>

#include <format/elf/elf.h>
#include <symbol/symbol.h>

static const uint8_t id_bytes[20] = {0xab, 0xcd, 0xef, 1,  2,  3,  4,  5,  6,  7,
                                     8,    9,    10,   11, 12, 13, 14, 15, 16, 17};
static const uint8_t other_id[20] = {0xff, 1, 2};

static const build_symbol debug_symbols[] = {{"in_debug_file", 0x1000, 0x20, 2}};

/* Of the debug file: it alone has symbols. */
static const build_elf debug_elf = {
    .build_id = id_bytes, .symbols = debug_symbols, .symbol_count = 1, .fill = 1};
static const build_elf other_elf = {
    .build_id = other_id, .symbols = debug_symbols, .symbol_count = 1};
static const build_elf image_elf = {.build_id = id_bytes};

static void put_file(void **state, const char *name, const void *data, size_t len)
{
    const char *path = test_path(state, name);
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    test_make_folders(folder);
    test_write_file(path, data, len);
}

static void put_elf(void **state, const char *name, const build_elf *e)
{
    bytes b = build_image(e);
    put_file(state, name, b.ptr, b.len);
    bytes_free(&b);
}

typedef struct answer {
    spgo_code code;
    spgo_error err;
    diag findings;
    char debug_path[4096]; /* "" : none */
    char image_path[4096];
    bool has_debug_symbols;
} answer;

static answer ask(const symbols_opts *opts)
{
    answer a = {.code = SPGO_OK};
    symbols *s;
    a.code = symbols_open(opts, &s, &a.findings, &a.err);
    if (a.code != SPGO_OK)
        return a;
    const symbols_info *info = symbols_get_info(s);
    snprintf(a.debug_path, sizeof a.debug_path, "%s", info->debug_path ? info->debug_path : "");
    snprintf(a.image_path, sizeof a.image_path, "%s", info->image_path);
    const symbol_procedure *p = symbols_procedure_at(s, 0x1000);
    a.has_debug_symbols = p && p->name.len == strlen("in_debug_file");
    symbols_close(s);
    return a;
}

/* The image "bin/program", with one directory to look into. */
static answer ask_image(void **state, const char *dir, bool any_id)
{
    char image[4096];
    snprintf(image, sizeof image, "%s", test_path(state, "bin/program"));
    const char *dirs[] = {test_path(state, dir ? dir : "")};
    symbols_opts opts = {
        .image_path = image, .dirs = dirs, .dir_count = dir != NULL, .any_id = any_id};
    return ask(&opts);
}

static void assert_part(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void assert_found(const answer *a, const char *tail)
{
    if (a->code != SPGO_OK)
        fail_msg("%s", a->err.sentence);
    size_t len = strlen(a->debug_path), n = strlen(tail);
    if (len < n || strcmp(a->debug_path + len - n, tail) != 0)
        fail_msg("found \"%s\" instead of \"%s\"", a->debug_path, tail);
    assert_true(a->has_debug_symbols);
}

/* ------------------------------------------------------------------ ELF debug files */

static void elf_debug_files_are_found_by_build_id(void **state)
{
    static const char *const places[][2] = {
        {"tree/.build-id/ab/cdef0102030405060708090a0b0c0d0e0f1011.debug", "tree"},
        {"ids/ab/cdef0102030405060708090a0b0c0d0e0f1011.debug", "ids"},
        {"cache/abcdef0102030405060708090a0b0c0d0e0f1011/debuginfo", "cache"},
        {"store/_.debug/elf-buildid-sym-abcdef0102030405060708090a0b0c0d0e0f1011/_.debug", "store"},
        {"plain/program.debug", "plain"},
    };
    put_elf(state, "bin/program", &image_elf);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        put_elf(state, places[i][0], &debug_elf);
        answer a = ask_image(state, places[i][1], false);
        assert_found(&a, places[i][0]);
    }
    answer none = ask_image(state, "nowhere", false);
    assert_int_equal(none.code, SPGO_OK);
    assert_string_equal(none.debug_path, "");
    assert_part(none.findings.kept[0].sentence, "nowhere");
    assert_part(none.findings.kept[0].sentence, "--debug-file");
}

static bytes debuglink(const char *name, uint32_t crc)
{
    bytes b = {0};
    bytes_put(&b, name, strlen(name) + 1);
    while (b.len % 4)
        bytes_u8(&b, 0);
    bytes_u32(&b, crc);
    return b;
}

static void put_linked_image(void **state, const char *link, uint32_t crc)
{
    bytes section = debuglink(link, crc);
    build_section sections[] = {{".gnu_debuglink", 1, bytes_span(&section), 0, 0}};
    put_elf(state, "bin/program", &(build_elf){.sections = sections, .section_count = 1});
    bytes_free(&section);
}

static uint32_t crc_of(const build_elf *e)
{
    bytes b = build_image(e);
    uint32_t crc = elf_crc32(bytes_span(&b));
    bytes_free(&b);
    return crc;
}

static void elf_debug_files_are_found_by_link(void **state)
{
    static const char *const places[] = {"bin/.debug/linked.dbg", "bin/linked.dbg"};
    put_linked_image(state, "linked.dbg", crc_of(&debug_elf));
    for (size_t i = 0; i < 2; i++) {
        put_elf(state, places[i], &debug_elf);
        answer a = ask_image(state, NULL, false);
        assert_found(&a, places[i]);
    }
}

static void a_link_cannot_leave_its_folder(void **state)
{
    put_linked_image(state, "../outside.dbg", crc_of(&debug_elf));
    put_elf(state, "outside.dbg", &debug_elf);
    answer a = ask_image(state, NULL, false);
    assert_string_equal(a.debug_path, "");
}

static void a_linked_file_with_another_crc_is_a_mismatch(void **state)
{
    char crc[16];
    put_linked_image(state, "linked.dbg", 0x1234abcd);
    put_elf(state, "bin/linked.dbg", &debug_elf);
    answer a = ask_image(state, NULL, false);
    assert_int_equal(a.code, SPGO_MISMATCH);
    snprintf(crc, sizeof crc, "%08x", (unsigned)crc_of(&debug_elf));
    assert_part(a.err.sentence, crc);
    assert_part(a.err.sentence, "1234abcd");
    answer forced = ask_image(state, NULL, true);
    assert_found(&forced, "bin/linked.dbg");
    assert_int_equal(forced.findings.kept[0].code, SPGO_MISMATCH);
}

static void a_debug_file_of_another_build_is_a_mismatch(void **state)
{
    put_elf(state, "bin/program", &image_elf);
    put_elf(state, "plain/program.debug", &other_elf);
    answer a = ask_image(state, "plain", false);
    assert_int_equal(a.code, SPGO_MISMATCH);
    assert_part(a.err.sentence, "ff01020000000000000000000000000000000000");
    assert_part(a.err.sentence, "abcdef0102030405060708090a0b0c0d0e0f1011");
    assert_part(a.err.sentence, "--force");
    answer forced = ask_image(state, "plain", true);
    assert_found(&forced, "plain/program.debug");
    /* The right one counts, wherever it is. */
    put_elf(state, "bin/program.debug", &debug_elf);
    answer right = ask_image(state, "plain", false);
    assert_found(&right, "bin/program.debug");
}

static void a_given_debug_file_is_used_or_refused(void **state)
{
    char image[4096];
    put_elf(state, "bin/program", &image_elf);
    put_elf(state, "some.debug", &debug_elf);
    put_file(state, "some.txt", "this is no debug file at all", 28);
    snprintf(image, sizeof image, "%s", test_path(state, "bin/program"));
    symbols_opts opts = {.image_path = image, .debug_path = test_path(state, "some.debug")};
    answer a = ask(&opts);
    assert_found(&a, "some.debug");
    opts.debug_path = test_path(state, "some.txt");
    a = ask(&opts);
    assert_int_equal(a.code, SPGO_CORRUPT);
    assert_part(a.err.sentence, "some.txt cannot be used");
    assert_int_equal(a.err.offset, SPGO_NO_OFFSET);
    opts.debug_path = test_path(state, "missing");
    a = ask(&opts);
    assert_int_equal(a.code, SPGO_IO);
    assert_part(a.err.sentence, "missing cannot be opened");
    opts.debug_path = *state;
    a = ask(&opts);
    assert_part(a.err.sentence, "is a directory");
}

/* ------------------------------------------------------------------ images */

static spgo_image_id wanted_id(const uint8_t *build_id)
{
    spgo_image_id id = {.age = 0};
    memcpy(id.guid.bytes, build_id, sizeof id.guid.bytes);
    return id;
}

static answer ask_name(void **state, const char *dir, const spgo_image_id *wanted, bool any_id)
{
    const char *dirs[] = {test_path(state, "empty"), test_path(state, dir)};
    symbols_opts opts = {
        .name = "program", .dirs = dirs, .dir_count = 2, .wanted = wanted, .any_id = any_id};
    return ask(&opts);
}

static void images_are_found_by_name(void **state)
{
    static const char *const places[][2] = {
        {"plain/Program", "plain"},
        {"store/program/5f3c1a2b9000/program", "store"},
        {"tiers/pr/program/elf-buildid-abcd/program", "tiers"},
        {"tree/.build-id/ab/cdef0102030405060708090a0b0c0d0e0f1011", "tree"},
    };
    spgo_image_id wanted = wanted_id(id_bytes);
    put_elf(state, "store/program/11111111000/program", &other_elf); /* another build */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        put_elf(state, places[i][0], &image_elf);
        answer a = ask_name(state, places[i][1], &wanted, false);
        if (a.code != SPGO_OK)
            fail_msg("%s: %s", places[i][0], a.err.sentence);
        assert_part(a.image_path, places[i][0]);
    }
}

static void an_image_that_is_nowhere_names_the_places(void **state)
{
    answer a = ask_name(state, "nothing", NULL, false);
    assert_int_equal(a.code, SPGO_NOT_FOUND);
    assert_part(a.err.sentence, "the image program was not found in ");
    assert_part(a.err.sentence, "/empty");
    assert_part(a.err.sentence, "/nothing");
    assert_part(a.err.sentence, "--symbols");
    symbols_opts opts = {.name = "program"};
    a = ask(&opts);
    assert_int_equal(a.code, SPGO_NOT_FOUND);
    assert_string_equal(a.err.sentence,
                        "the image program was not found; name its folder with --symbols");
}

static void many_places_are_counted(void **state)
{
    enum { COUNT = 30 };
    (void)state;
    const char *dirs[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        dirs[i] = "/nonexistent/folder/for/symbols";
    symbols_opts opts = {.name = "program", .dirs = dirs, .dir_count = COUNT};
    answer a = ask(&opts);
    assert_int_equal(a.code, SPGO_NOT_FOUND);
    assert_part(a.err.sentence, "and 27 more places");
}

static void an_image_of_another_build_is_a_mismatch(void **state)
{
    spgo_image_id wanted = wanted_id(id_bytes);
    put_elf(state, "plain/program", &other_elf);
    answer a = ask_name(state, "plain", &wanted, false);
    assert_int_equal(a.code, SPGO_MISMATCH);
    assert_part(a.err.sentence, "{000201FF-0000-0000-0000-000000000000} age 0");
    assert_part(a.err.sentence, "{01EFCDAB-0302-0504-0607-08090A0B0C0D} age 0");
    answer forced = ask_name(state, "plain", &wanted, true);
    assert_int_equal(forced.code, SPGO_OK);
    assert_int_equal(forced.findings.kept[0].code, SPGO_MISMATCH);

    symbols_opts opts = {.image_path = test_path(state, "plain/program"), .wanted = &wanted};
    a = ask(&opts);
    assert_int_equal(a.code, SPGO_MISMATCH);
    opts.any_id = true;
    a = ask(&opts);
    assert_int_equal(a.code, SPGO_OK);
    assert_part(a.findings.kept[0].sentence, "the image is of another build");
}

/* ------------------------------------------------------------------ PDBs */

/* sym_crash.exe names C:\...\crash.pdb {3249D99D-0C40-4931-8610-F4E4FB0B6936} age 1. */
static void put_data(void **state, const char *name, const char *data)
{
    spgo_span s = test_data_or_skip(data);
    put_file(state, name, s.ptr, s.len);
    test_data_free(s);
}

static answer ask_crash(void **state, const char *dir)
{
    char image[4096];
    snprintf(image, sizeof image, "%s", test_path(state, "bin/app.exe"));
    const char *dirs[] = {test_path(state, dir ? dir : "")};
    symbols_opts opts = {.image_path = image, .dirs = dirs, .dir_count = dir != NULL};
    return ask(&opts);
}

static void pdbs_are_found_in_folders_and_stores(void **state)
{
    static const char *const places[][2] = {
        {"store/crash.pdb/3249D99D0C4049318610F4E4FB0B69361/crash.pdb", "store"},
        {"lower/CRASH.PDB/3249d99d0c4049318610f4e4fb0b69361/Crash.pdb", "lower"},
        {"tiers/cr/crash.pdb/3249D99D0C4049318610F4E4FB0B69361/crash.pdb", "tiers"},
        {"plain/crash.pdb", "plain"},
    };
    put_data(state, "bin/app.exe", "pdb/sym_crash.exe");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        put_data(state, places[i][0], "pdb/sym_crash.pdb");
        answer a = ask_crash(state, places[i][1]);
        assert_int_equal(a.code, SPGO_OK);
        assert_part(a.debug_path, places[i][0]);
    }
}

static void a_pdb_stands_beside_its_image(void **state)
{
    put_data(state, "bin/app.exe", "pdb/sym_crash.exe");
    answer none = ask_crash(state, NULL);
    assert_int_equal(none.code, SPGO_OK);
    assert_string_equal(none.debug_path, "");
    assert_part(none.findings.kept[0].sentence,
                "the PDB crash.pdb {3249D99D-0C40-4931-8610-F4E4FB0B6936} age 1 was not found");
    /* Changed after the link by pdbstr, which does not change what it belongs to. */
    put_data(state, "bin/app.pdb", "pdb/sym_crash_with_srcsrv.pdb");
    answer renamed = ask_crash(state, NULL);
    assert_int_equal(renamed.code, SPGO_OK);
    assert_part(renamed.debug_path, "bin/app.pdb");
    put_data(state, "bin/crash.pdb", "pdb/sym_crash.pdb");
    answer named = ask_crash(state, NULL);
    assert_part(named.debug_path, "bin/crash.pdb");
}

static void a_pdb_of_another_build_is_a_mismatch(void **state)
{
    put_data(state, "bin/app.exe", "pdb/sym_crash.exe");
    put_data(state, "bin/crash.pdb", "pdb/bp_regtest64.pdb");
    answer a = ask_crash(state, NULL);
    assert_int_equal(a.code, SPGO_MISMATCH);
    assert_part(a.err.sentence, "{72E103A8-5CB2-4907-8B76-B2E7C06257B1} age 3");
    assert_part(a.err.sentence, "{3249D99D-0C40-4931-8610-F4E4FB0B6936} age 1");
}

static void a_pdb_stands_for_the_image_beside_it(void **state)
{
    char path[4096];
    put_data(state, "bin/app.pdb", "pdb/sym_crash.pdb");
    snprintf(path, sizeof path, "%s", test_path(state, "bin/app.pdb"));
    const char *dirs[] = {test_path(state, "images")};
    symbols_opts opts = {.image_path = path, .dirs = dirs, .dir_count = 1};
    answer none = ask(&opts);
    assert_int_equal(none.code, SPGO_NOT_FOUND);
    assert_part(none.err.sentence, "{3249D99D-0C40-4931-8610-F4E4FB0B6936} age 1");
    put_data(state, "bin/app.exe", "pdb/bp_regtest64.exe");
    answer other = ask(&opts);
    assert_int_equal(other.code, SPGO_MISMATCH);
    assert_part(other.err.sentence, "{72E103A8-5CB2-4907-8B76-B2E7C06257B1} age 3");
    put_data(state, "images/App.dll", "pdb/sym_crash.exe");
    answer a = ask(&opts);
    assert_int_equal(a.code, SPGO_OK);
    assert_part(a.image_path, "images/App.dll");
    assert_part(a.debug_path, "bin/app.pdb");
}

static void other_containers_are_named(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *part;
    } files[] = {
        {"Microsoft C/C++ program database 2.00\r\n\x1aJG\0\0", 44, "before 2002"},
        {"Microsoft MSFZ Container\r\n\x1a\x41LD\0\0", 32, "MSFZ"},
        {"BSJB\1\0\1\0", 8, "Portable PDB"},
        {"\177ELF\2\1\1\0\0\0\0\0\0\0\0", 16, "an ELF file"},
        {"MZ", 2, "an executable image"},
    };
    put_data(state, "bin/app.exe", "pdb/sym_crash.exe");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char image[4096];
        put_file(state, "bin/crash.pdb", files[i].bytes, files[i].len);
        /* Found by itself it is a finding, */
        answer a = ask_crash(state, NULL);
        assert_int_equal(a.code, SPGO_OK);
        assert_part(a.findings.kept[0].sentence, files[i].part);
        /* named it is an error. */
        snprintf(image, sizeof image, "%s", test_path(state, "bin/app.exe"));
        symbols_opts opts = {.image_path = image, .debug_path = test_path(state, "bin/crash.pdb")};
        a = ask(&opts);
        assert_int_not_equal(a.code, SPGO_OK);
        assert_part(a.err.sentence, files[i].part);
    }
}

static void a_compressed_pdb_is_named(void **state)
{
    put_data(state, "bin/app.exe", "pdb/sym_crash.exe");
    put_file(state, "store/crash.pdb/3249D99D0C4049318610F4E4FB0B69361/crash.pd_", "MSCF", 4);
    answer a = ask_crash(state, "store");
    assert_int_equal(a.code, SPGO_OK);
    assert_part(a.findings.kept[0].sentence, "crash.pd_");
    assert_part(a.findings.kept[0].sentence, "expand it");
}

int main(void)
{
#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(elf_debug_files_are_found_by_build_id),
        IN_FOLDER(elf_debug_files_are_found_by_link),
        IN_FOLDER(a_link_cannot_leave_its_folder),
        IN_FOLDER(a_linked_file_with_another_crc_is_a_mismatch),
        IN_FOLDER(a_debug_file_of_another_build_is_a_mismatch),
        IN_FOLDER(a_given_debug_file_is_used_or_refused),
        IN_FOLDER(images_are_found_by_name),
        IN_FOLDER(an_image_that_is_nowhere_names_the_places),
        IN_FOLDER(many_places_are_counted),
        IN_FOLDER(an_image_of_another_build_is_a_mismatch),
        IN_FOLDER(pdbs_are_found_in_folders_and_stores),
        IN_FOLDER(a_pdb_stands_beside_its_image),
        IN_FOLDER(a_pdb_of_another_build_is_a_mismatch),
        IN_FOLDER(a_pdb_stands_for_the_image_beside_it),
        IN_FOLDER(other_containers_are_named),
        IN_FOLDER(a_compressed_pdb_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
