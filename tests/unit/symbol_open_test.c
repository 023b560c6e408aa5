/* Opening images: what they are, what is known of them, and what is refused. */
#include "symbol_build.h"
#include "test_folder.h"

#include <stdio.h>
#include <stdlib.h>

#include <base/guid.h>
#include <base/text.h>
#include <symbol/symbol.h>

static const uint8_t id_bytes[20] = {0xab, 0xcd, 0xef, 1,  2,  3,  4,  5,  6,  7,
                                     8,    9,    10,   11, 12, 13, 14, 15, 16, 17};

static const build_symbol symbols_of_three[] = {
    {"second", 0x1040, 0x20, 2}, {"first", 0x1000, 0x10, 2}, {"abort", 0x1080, 8, 2}};

static void write_image(const char *path, const build_elf *e)
{
    bytes b = build_image(e);
    test_write_file(path, b.ptr, b.len);
    bytes_free(&b);
}

static symbols *open_path(const char *path, diag *d)
{
    symbols_opts opts = {.image_path = path};
    spgo_error err = {0};
    symbols *s;
    if (symbols_open(&opts, &s, d, &err) != SPGO_OK)
        fail_msg("%s: %s", path, err.sentence);
    return s;
}

static symbols *open_built(void **state, const build_elf *e, diag *d)
{
    const char *path = test_path(state, "image");
    write_image(path, e);
    return open_path(path, d);
}

static bool has_finding(const diag *d, const char *part)
{
    for (size_t i = 0; i < d->kept_count; i++)
        if (strstr(d->kept[i].sentence, part))
            return true;
    return false;
}

static void assert_str(spgo_str s, const char *text)
{
    if (!text_equal(s, text_str(text)))
        fail_msg("\"%.*s\" is not \"%s\"", (int)s.len, s.ptr ? s.ptr : "", text);
}

static void an_elf_image_tells_what_it_is(void **state)
{
    diag d = {0};
    symbols *s = open_built(state, &(build_elf){.build_id = id_bytes}, &d);
    const symbols_info *info = symbols_get_info(s);
    assert_false(info->is_pe);
    assert_true(info->has_id);
    assert_memory_equal(info->id.guid.bytes, id_bytes, 16);
    assert_int_equal(info->id.age, 0);
    assert_int_equal(info->source, SYMBOLS_TABLE);
    assert_null(info->debug_path);
    assert_false(info->has_fs_discriminators);
    assert_int_equal(info->probe_section.len, 0);
    assert_true(has_finding(&d, "debug file (build-id abcdef0102030405060708090a0b0c0d0e0f1011"));
    symbols_close(s);
}

static void segments_stand_by_rva(void **state)
{
    symbols *s = open_built(state, &(build_elf){.vaddr = 0x400000, .text_vaddr = 0x401234}, NULL);
    const code_image *code = symbols_code(s);
    assert_int_equal(code->machine, CODE_X64);
    assert_int_equal(code->base_addr, 0x400000);
    assert_int_equal(code->segment_count, 2);
    assert_int_equal(code->segments[0].rva, 0);
    assert_false(code->segments[0].is_executable);
    assert_int_equal(code->segments[1].rva, 0x1234);
    assert_int_equal(code->segments[1].bytes.len, 0x100);
    assert_true(code->segments[1].is_executable);
    assert_int_equal(symbols_get_info(s)->text_rva, 0x1000);
    symbols_close(s);
}

static void a_segment_beyond_32_bits_is_left_out(void **state)
{
    diag d = {0};
    symbols *s = open_built(state, &(build_elf){.far_vaddr = 0x100000000}, &d);
    assert_int_equal(symbols_code(s)->segment_count, 2);
    assert_true(has_finding(&d, "0x100000000 is out of reach"));
    symbols_close(s);
}

static void overlapping_segments_are_cut(void **state)
{
    /* [0, 0x200), and from 0x180 on the code, of which the first counts where both are. */
    symbols *s = open_built(state, &(build_elf){.text_vaddr = 0x180}, NULL);
    const code_image *code = symbols_code(s);
    assert_int_equal(code->segment_count, 2);
    assert_int_equal(code->segments[0].bytes.len, BUILD_TEXT_OFF);
    assert_int_equal(code->segments[1].rva, BUILD_TEXT_OFF);
    assert_int_equal(code->segments[1].bytes.len, 0x80);
    symbols_close(s);
}

static void sections_speak_of_profiles(void **state)
{
    static const build_symbol marks[] = {{"__llvm_fs_discriminator__", 0x1000, 1, 1}};
    const build_section sections[] = {
        {".pseudo_probe", 1, {(const uint8_t *)"probes", 6}, 0, 0},
        {".pseudo_probe_desc", 1, {(const uint8_t *)"desc", 4}, 0, 0}};
    build_elf e = {.symbols = marks, .symbol_count = 1, .sections = sections, .section_count = 2};
    symbols *s = open_built(state, &e, NULL);
    const symbols_info *info = symbols_get_info(s);
    assert_true(info->has_fs_discriminators);
    assert_int_equal(info->probe_section.len, 6);
    assert_memory_equal(info->probe_section.ptr, "probes", 6);
    assert_int_equal(info->probe_desc_section.len, 4);
    symbols_close(s);
}

static void a_symbol_table_names_procedures(void **state)
{
    build_elf e = {.symbols = symbols_of_three, .symbol_count = 3};
    symbols *s = open_built(state, &e, NULL);
    const symbol_procedure *p;
    size_t count;
    assert_int_equal(symbols_procedures(s, &p, &count, NULL), SPGO_OK);
    assert_int_equal(count, 3);
    assert_str(p[0].name, "first");
    assert_int_equal(p[0].entry_rva, 0x1000);
    assert_int_equal(p[0].piece_count, 1);
    assert_int_equal(p[0].pieces[0].end_rva, 0x1010);
    assert_str(p[1].name, "second");
    assert_ptr_equal(symbols_procedure_at(s, 0x105f), &p[1]);
    assert_null(symbols_procedure_at(s, 0x1060));
    assert_null(symbols_procedure_at(s, 0x1010));
    symbols_close(s);
}

static void an_image_without_any_names_is_no_failure(void **state)
{
    symbols *s = open_built(state, &(build_elf){.build_id = id_bytes}, NULL);
    const symbol_procedure *p;
    size_t count;
    assert_int_equal(symbols_procedures(s, &p, &count, NULL), SPGO_OK);
    assert_int_equal(count, 0);
    symbol_run run;
    assert_int_equal(symbols_run_at(s, 0x1000, &run, NULL), SPGO_NOT_FOUND);
    assert_null(symbols_procedure_at(s, 0x1000));
    assert_int_equal(symbols_findings(s)->total, 0);
    symbols_close(s);
}

static void a_procedure_without_lines_is_a_run(void **state)
{
    build_elf e = {.symbols = symbols_of_three, .symbol_count = 3};
    symbols *s = open_built(state, &e, NULL);
    symbol_run run;
    spgo_error err = {0};
    assert_int_equal(symbols_run_at(s, 0x1045, &run, NULL), SPGO_OK);
    assert_int_equal(run.begin_rva, 0x1040);
    assert_int_equal(run.end_rva, 0x1060);
    assert_str(run.leaf->function->name, "second");
    assert_int_equal(run.leaf->line, 0);
    assert_null(run.leaf->caller);
    assert_int_equal(symbols_run_at(s, 0x1060, &run, &err), SPGO_NOT_FOUND);
    assert_string_equal(err.sentence, "nothing is known of RVA 0x1060");
    symbols_close(s);
}

static void a_long_run_is_told_in_windows_with_one_leaf(void **state)
{
    static const build_symbol one[] = {{"long", 0x1010, 0x3f0, 2}};
    build_elf e = {.text_size = 0x400, .symbols = one, .symbol_count = 1};
    symbols *s = open_built(state, &e, NULL);
    symbol_run first, next;
    assert_int_equal(symbols_run_at(s, 0x1010, &first, NULL), SPGO_OK);
    assert_int_equal(first.begin_rva, 0x1010);
    assert_int_equal(first.end_rva, 0x1100);
    assert_int_equal(symbols_run_at(s, first.end_rva, &next, NULL), SPGO_OK);
    assert_int_equal(next.begin_rva, 0x1100);
    assert_ptr_equal(next.leaf, first.leaf);
    symbols_close(s);
}

static void library_functions_never_return(void **state)
{
    build_elf e = {.symbols = symbols_of_three, .symbol_count = 3};
    symbols *s = open_built(state, &e, NULL);
    const symbol_procedure *p;
    size_t count;
    assert_int_equal(symbols_procedures(s, &p, &count, NULL), SPGO_OK);
    assert_true(p[2].flags & SYMBOL_NO_RETURN);
    flow_hints hints = symbols_flow_hints(s, &p[0]);
    assert_int_equal(hints.no_return_count, 1);
    assert_int_equal(hints.no_return[0], 0x1080);
    assert_int_equal(hints.branch_count, 0);
    symbols_close(s);
}

/* ------------------------------------------------------------------ what is refused */

static void expect_refusal(const char *path, spgo_code code, const char *part)
{
    symbols_opts opts = {.image_path = path};
    spgo_error err = {0};
    symbols *s;
    assert_int_equal(symbols_open(&opts, &s, NULL, &err), code);
    assert_null(s);
    if (!strstr(err.sentence, part))
        fail_msg("\"%s\" is not in \"%s\"", part, err.sentence);
}

static void what_is_no_image_is_named(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *part;
    } files[] = {
        {"", 0, "the file is empty"},
        {"int main;", 9, "neither an ELF nor a PE image"},
        {"!<arch>\nfoo.o/", 14, "a library of object files"},
        {"Microsoft C/C++ MSF 7.00\r\n\x1a\x44S\0\0\0", 32, "the file is a PDB"},
        {"BSJB\1\0\1\0\0\0\0\0", 12, "a portable PDB"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = test_path(state, "file");
        test_write_file(path, files[i].bytes, files[i].len);
        expect_refusal(path, SPGO_UNSUPPORTED, files[i].part);
    }
    write_image(test_path(state, "file"), &(build_elf){.type = 1});
    expect_refusal(test_path(state, "file"), SPGO_UNSUPPORTED, "not linked yet");
    write_image(test_path(state, "file"), &(build_elf){.type = 4});
    expect_refusal(test_path(state, "file"), SPGO_UNSUPPORTED, "a core dump");
    expect_refusal(*state, SPGO_USAGE, "is a directory");
    expect_refusal(test_path(state, "nothing"), SPGO_IO, "cannot be opened");
}

/* An image cut anywhere opens or is refused, but never worse. */
static void a_cut_image_is_no_danger(void **state)
{
    build_elf e = {.build_id = id_bytes, .symbols = symbols_of_three, .symbol_count = 3};
    bytes b = build_image(&e);
    const char *path = test_path(state, "cut");
    size_t opened = 0;
    for (size_t len = 1; len <= b.len; len += 3) {
        test_write_file(path, b.ptr, len);
        symbols_opts opts = {.image_path = path};
        symbols *s;
        spgo_error err = {0};
        if (symbols_open(&opts, &s, NULL, &err) != SPGO_OK) {
            assert_true(err.sentence[0] != '\0');
            continue;
        }
        opened++;
        symbol_run run;
        (void)symbols_procedure_at(s, 0x1045);
        (void)symbols_run_at(s, 0x1045, &run, NULL);
        symbols_close(s);
    }
    assert_true(opened > 0);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ real files */

/* The path of a file of the real-data folder; the test is skipped without. */
static const char *data_path(const char *name)
{
    static char path[4096];
    const char *folder = getenv("SPGO_TEST_DATA");
    test_data_free(test_data_or_skip(name));
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "../shared/data", name);
    return path;
}

static void a_fastlink_pdb_has_names_and_says_what_lacks(void **state)
{
    (void)state;
    diag d = {0};
    symbols *s = open_path(data_path("pdb/bs_vs2019_fastlink.dll"), &d);
    assert_int_equal(symbols_get_info(s)->source, SYMBOLS_PDB);
    assert_true(has_finding(&d, "/DEBUG:FASTLINK"));
    const symbol_procedure *p;
    size_t count;
    assert_int_equal(symbols_procedures(s, &p, &count, NULL), SPGO_OK);
    size_t named = 0;
    for (size_t i = 0; i < count; i++)
        named += p[i].name.len > 0;
    assert_true(named > 20);
    symbols_close(s);
}

static void an_image_without_its_pdb_has_extents(void **state)
{
    (void)state;
    diag d = {0};
    symbols *s = open_path(data_path("pdb/bp_pe_only_symbol_test.dll"), &d);
    const symbols_info *info = symbols_get_info(s);
    char key[SYMBOL_KEY_SIZE];
    symbol_key_text(key, &info->id);
    assert_string_equal(key, "2A5EAB481FAB4A17A9761CDC14FE531A1");
    assert_true(info->is_pe);
    assert_true(has_finding(&d, "pe_only_symbol_test.pdb"));
    const symbol_procedure *p = symbols_procedure_at(s, 0x1445);
    assert_non_null(p);
    assert_int_equal(p->entry_rva, 0x1440);
    assert_int_equal(p->pieces[0].end_rva, 0x1479);
    symbols_close(s);
}

static void folded_functions_keep_their_names(void **state)
{
    (void)state;
    symbols *s = open_path(data_path("pdb/own/t_4096.exe"), NULL);
    const symbol_procedure *p = symbols_procedure_at(s, 0x11e0);
    assert_non_null(p);
    assert_true(p->flags & SYMBOL_FOLDED);
    size_t count;
    const spgo_str *others = symbols_other_names(s, p, &count);
    assert_int_equal(count, 1);
    assert_str(p->name, "f1");
    assert_str(others[0], "f2");
    symbols_close(s);
}

static void the_order_of_questions_does_not_matter(void **state)
{
    (void)state;
    symbols *up = open_path(data_path("pdb/own/t_elf"), NULL);
    symbols *down = open_path(data_path("pdb/own/t_elf"), NULL);
    enum { FIRST = 0x1600, LAST = 0x1a00 };
    symbol_run runs[LAST - FIRST];
    for (uint32_t rva = FIRST; rva < LAST; rva++)
        if (symbols_run_at(up, rva, &runs[rva - FIRST], NULL) != SPGO_OK)
            runs[rva - FIRST] = (symbol_run){0, 0, NULL};
    for (uint32_t rva = LAST; rva-- > FIRST;) {
        symbol_run a = runs[rva - FIRST], b;
        bool known = symbols_run_at(down, rva, &b, NULL) == SPGO_OK;
        assert_int_equal(known, a.leaf != NULL);
        if (!known)
            continue;
        assert_int_equal(a.begin_rva, b.begin_rva);
        assert_int_equal(a.end_rva, b.end_rva);
        assert_int_equal(a.leaf->line, b.leaf->line);
        assert_true(text_equal(a.leaf->function->name, b.leaf->function->name));
    }
    symbols_close(up);
    symbols_close(down);
}

int main(void)
{
#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(an_elf_image_tells_what_it_is),
        IN_FOLDER(segments_stand_by_rva),
        IN_FOLDER(a_segment_beyond_32_bits_is_left_out),
        IN_FOLDER(overlapping_segments_are_cut),
        IN_FOLDER(sections_speak_of_profiles),
        IN_FOLDER(a_symbol_table_names_procedures),
        IN_FOLDER(an_image_without_any_names_is_no_failure),
        IN_FOLDER(a_procedure_without_lines_is_a_run),
        IN_FOLDER(a_long_run_is_told_in_windows_with_one_leaf),
        IN_FOLDER(library_functions_never_return),
        IN_FOLDER(what_is_no_image_is_named),
        IN_FOLDER(a_cut_image_is_no_danger),
        cmocka_unit_test(a_fastlink_pdb_has_names_and_says_what_lacks),
        cmocka_unit_test(an_image_without_its_pdb_has_extents),
        cmocka_unit_test(folded_functions_keep_their_names),
        cmocka_unit_test(the_order_of_questions_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
