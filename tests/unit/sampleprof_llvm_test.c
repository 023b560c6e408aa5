/*
 * Real profiles, against the programs that make and take them. What llvm-profdata and clang of LLVM
 * 19 do decides; without them only that the profiles come back is seen.
 */
#include "sampleprof_build.h"
#include "test_folder.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMMAND_MAX = 4096 };

static const char *const profiles[] = {
    "pdb/own/coff_dwarf.prof", "pdb/own/t_elf.lbr.prof",   "pdb/own/t_elf.prof",
    "pdb/own/t_elf_fs.prof",   "pdb/own/t_elf_probe.prof", "lbr/speedtest1.llvm-profgen.prof"};

enum { PROFILE_COUNT = sizeof profiles / sizeof profiles[0] };

/* False: the shell does not find the program, or it fails. */
static bool runs(const char *command)
{
    return system(command) == 0; /* NOLINT: the tests' own words */
}

static void need(const char *program)
{
    char command[COMMAND_MAX];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", program);
    if (!runs(command))
        skip();
}

static spgo_span read_file(const char *path)
{
    enum { FILE_MAX = 4 << 20 };
    uint8_t *room = malloc(FILE_MAX);
    assert_non_null(room);
    return (spgo_span){room, test_read_file(path, room, FILE_MAX)};
}

static void assert_file_is(const char *path, spgo_span expected)
{
    spgo_span got = read_file(path);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.ptr, expected.ptr, expected.len);
    test_data_free(got);
}

/* llvm-profdata merge with these options, from a file of the test's folder to another. */
static void convert(void **state, const char *options, const char *from, const char *to)
{
    char command[COMMAND_MAX];
    snprintf(command, sizeof command, "llvm-profdata-19 merge --sample %s '%s' -o '%s'", options,
             test_path(state, from), test_path(state, to));
    if (!runs(command))
        fail_msg("%s", command);
}

static void test_profiles_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        spgo_span text = test_data_or_skip(profiles[i]);
        sampleprof *p = read_good(text);
        bytes again = text_of(p);
        assert_int_equal(again.len - 1, text.len);
        assert_memory_equal(again.ptr, text.ptr, text.len);
        bytes ext = extbinary_of(p);
        sampleprof *from_ext = read_good(bytes_span(&ext));
        assert_same_profile(p, from_ext);
        sampleprof_free(from_ext);
        bytes_free(&ext);
        bytes_free(&again);
        sampleprof_free(p);
        test_data_free(text);
    }
}

static void test_what_llvm_writes_is_read(void **state)
{
    static const char *const forms[] = {
        "--binary",
        "--extbinary",
#if SPGO_HAVE_ZLIB
        "--extbinary --compress-all-sections",
#endif
    };
    need("llvm-profdata-19");
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        spgo_span text = test_data_or_skip(profiles[i]);
        bool has_probes = strstr(profiles[i], "probe");
        test_write_file(test_path(state, "a.prof"), text.ptr, text.len);
        size_t form = has_probes ? 1 : 0; /* plain ones have no probes */
        for (; form < sizeof forms / sizeof forms[0]; form++) {
            convert(state, forms[form], "a.prof", "b.prof");
            spgo_span made = read_file(test_path(state, "b.prof"));
            sampleprof *p = read_good(made);
            bytes again = text_of(p);
            assert_int_equal(again.len - 1, text.len);
            assert_memory_equal(again.ptr, text.ptr, text.len);
            bytes_free(&again);
            sampleprof_free(p);
            test_data_free(made);
        }
        test_data_free(text);
    }
}

/* The functions' metadata stand in the order of a hash table of LLVM's: only without them are the
 * bytes the same. */
static void test_what_is_written_is_what_llvm_writes(void **state)
{
    need("llvm-profdata-19");
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        spgo_span text = test_data_or_skip(profiles[i]);
        sampleprof *p = read_good(text);
        bytes ext = extbinary_of(p);
        test_write_file(test_path(state, "a.prof"), text.ptr, text.len);
        test_write_file(test_path(state, "ours.prof"), ext.ptr, ext.len);
        convert(state, "--extbinary", "a.prof", "b.prof");
        if (!sampleprof_has_probes(p))
            assert_file_is(test_path(state, "b.prof"), bytes_span(&ext));
        convert(state, "--text", "ours.prof", "b.prof");
        assert_file_is(test_path(state, "b.prof"), text);
        bytes_free(&ext);
        sampleprof_free(p);
        test_data_free(text);
    }
}

static void test_md5_names(void **state)
{
    need("llvm-profdata-19");
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        spgo_span text = test_data_or_skip(profiles[i]);
        test_write_file(test_path(state, "a.prof"), text.ptr, text.len);
        convert(state, "--extbinary --use-md5", "a.prof", "md5.prof");
        convert(state, "--text", "md5.prof", "md5.txt");
        spgo_span made = read_file(test_path(state, "md5.prof"));
        sampleprof *p = read_good(made);
        assert_true(sampleprof_has_md5_names(p));
        bytes again = text_of(p);
        assert_file_is(test_path(state, "md5.txt"), (spgo_span){again.ptr, again.len - 1});
        bytes ext = extbinary_of(p);
        test_write_file(test_path(state, "ours.prof"), ext.ptr, ext.len);
        convert(state, "--text", "ours.prof", "b.txt");
        assert_file_is(test_path(state, "b.txt"), (spgo_span){again.ptr, again.len - 1});
        bytes_free(&ext);
        bytes_free(&again);
        sampleprof_free(p);
        test_data_free(made);
        test_data_free(text);
    }
}

static void test_weighted_sums_are_llvm_s(void **state)
{
    char options[COMMAND_MAX];
    need("llvm-profdata-19");
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        spgo_span text = test_data_or_skip(profiles[i]);
        sampleprof *p = read_good(text);
        sampleprof *sum = sampleprof_new(0);
        assert_int_equal(sampleprof_merge(sum, p, 3, NULL, NULL), SPGO_OK);
        assert_int_equal(sampleprof_merge(sum, p, 1ull << 50, NULL, NULL), SPGO_OK);
        test_write_file(test_path(state, "a.prof"), text.ptr, text.len);
        snprintf(options, sizeof options, "--text --weighted-input=3,'%s' --weighted-input=%llu,",
                 test_path(state, "a.prof"), 1ull << 50);
        char command[2 * COMMAND_MAX];
        snprintf(command, sizeof command,
                 "llvm-profdata-19 merge --sample %s'%s' -o '%s' 2>/dev/null", options,
                 test_path(state, "a.prof"), test_path(state, "b.prof"));
        assert_true(runs(command));
        bytes ours = text_of(sum);
        assert_file_is(test_path(state, "b.prof"), (spgo_span){ours.ptr, ours.len - 1});
        bytes_free(&ours);
        sampleprof_free(sum);
        sampleprof_free(p);
        test_data_free(text);
    }
}

static const char program[] = "int hot(int x) { return x % 7 ? x * 3 : x + 1; }\n"
                              "int main(int n, char **v) {\n"
                              "    int s = 0;\n"
                              "    for (int i = 0; i < 1000 * n; i++)\n"
                              "        if (i % 3)\n"
                              "            s += hot(i);\n"
                              "    return s & 1;\n"
                              "}\n";

/* The compiler makes the same of both forms, and something else of none. */
static void test_clang_takes_it(void **state)
{
    static const char *const uses[] = {"-fprofile-sample-use=", "-fprofile-sample-use=", "-D"};
    static const char *const names[] = {"text.prof", "ext.prof", "none"};
    need("clang-19");
    sampleprof *p = read_text("main:7000:1\n 2: 1000\n 3: 1000\n 4: 900\n 5: hot:2700\n  0: 900\n");
    bytes text = text_of(p), ext = extbinary_of(p);
    test_write_file(test_path(state, "a.c"), program, sizeof program - 1);
    test_write_file(test_path(state, "text.prof"), text.ptr, text.len - 1);
    test_write_file(test_path(state, "ext.prof"), ext.ptr, ext.len);
    spgo_span ir[3];
    for (size_t i = 0; i < 3; i++) {
        char command[COMMAND_MAX];
        snprintf(command, sizeof command,
                 "cd '%s' && clang-19 -O2 -S -emit-llvm -w %s%s a.c -o a.ll", test_path(state, "."),
                 uses[i], names[i]);
        if (!runs(command))
            fail_msg("%s", command);
        ir[i] = read_file(test_path(state, "a.ll"));
    }
    assert_int_equal(ir[0].len, ir[1].len);
    assert_memory_equal(ir[0].ptr, ir[1].ptr, ir[0].len);
    assert_int_not_equal(ir[0].len, ir[2].len);
    for (size_t i = 0; i < 3; i++)
        test_data_free(ir[i]);
    bytes_free(&text);
    bytes_free(&ext);
    sampleprof_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profiles_come_back),
        cmocka_unit_test_setup_teardown(test_what_llvm_writes_is_read, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_written_is_what_llvm_writes, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(test_md5_names, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(test_weighted_sums_are_llvm_s, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(test_clang_takes_it, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
