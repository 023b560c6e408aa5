/* Correlation against llvm-profgen's answers for real programs.
 */
#include "profile_unsym.h"

#include <stdio.h>

static const char *data_path(const char *name)
{
    static char path[1024];
    const char *folder = getenv("SPGO_TEST_DATA");
    (void)snprintf(path, sizeof path, "%s/%s", folder ? folder : "../shared/data", name);
    return path;
}

static char *data_text(const char *name)
{
    spgo_span s = test_data_or_skip(name);
    char *text = calloc(s.len + 1, 1);
    assert_non_null(text);
    memcpy(text, s.ptr, s.len);
    test_data_free(s);
    return text;
}

static void compare(correlator *correlate, const char *image, const char *unsym, const char *golden)
{
    char *counts_text = data_text(unsym), *wanted = data_text(golden);
    program p = program_open(data_path(image));
    correlate_tally tally = {0};
    char *got = unsym_correlate(&p, counts_text, correlate, &tally);
    assert_string_equal(got, wanted);
    program_close(&p);
    free(got);
    free(counts_text);
    free(wanted);
}

static void elf_with_dwarf_5(void **state)
{
    (void)state;
    compare(correlate_lines, "pdb/own/t_elf", "pdb/own/t_elf.unsym", "pdb/own/t_elf.prof");
}

static void elf_with_dwarf_4(void **state)
{
    (void)state;
    compare(correlate_lines, "pdb/own/t_elf4", "pdb/own/t_elf4.unsym", "pdb/own/t_elf4.prof");
}

static void flow_sensitive_discriminators(void **state)
{
    (void)state;
    compare(correlate_lines, "pdb/own/t_elf_fs", "pdb/own/t_elf_fs.unsym", "pdb/own/t_elf_fs.prof");
}

static void branches_from_outside(void **state)
{
    (void)state;
    compare(correlate_lines, "pdb/own/t_elf", "pdb/own/t_elf.lbr.unsym", "pdb/own/t_elf.lbr.prof");
}

static void pe_with_dwarf(void **state)
{
    (void)state;
    compare(correlate_lines, "pdb/own/t_dwarf.exe", "pdb/own/coff_dwarf.unsym",
            "pdb/own/coff_dwarf.prof");
}

static void pseudo_probes(void **state)
{
    (void)state;
    compare(correlate_probes, "pdb/own/t_elf_probe", "pdb/own/t_elf_probe.unsym",
            "pdb/own/t_elf_probe.prof");
}

/* No answer of llvm-profgen: it reads no PDB. The totals are those of the program with DWARF, which
 * has the same code; discriminators and inlined calls are not known. */
static void pe_with_pdb(void **state)
{
    (void)state;
    char *counts_text = data_text("pdb/own/coff_dwarf.unsym");
    program p = program_open(data_path("pdb/own/t_noicf.exe"));
    correlate_tally tally = {0};
    char *got = unsym_correlate(&p, counts_text, correlate_lines, &tally);
    assert_string_equal(got, "?add@Acc@@QEAAXI@Z:4300:100\n"
                             " 1: 100\n 2: 60\n 3: 0\n"
                             "main:1064:0\n"
                             " 0: 1\n 1: 1\n 2: 1\n 3: 0\n 4: 100 ?add@Acc@@QEAAXI@Z:100\n"
                             " 5: 5 f1:5\n 7: 0\n"
                             "f1:0:5\n");
    assert_int_equal(tally.functions, 3);
    assert_int_equal(tally.functions_approximate, 3);
    assert_int_equal(tally.inlinees_unnamed, 3);
    program_close(&p);
    free(got);
    free(counts_text);
}

static void large_program(void **state)
{
    (void)state;
    compare(correlate_lines, "lbr/speedtest1", "lbr/speedtest1.unsym",
            "lbr/speedtest1.llvm-profgen.prof");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elf_with_dwarf_5),
        cmocka_unit_test(elf_with_dwarf_4),
        cmocka_unit_test(flow_sensitive_discriminators),
        cmocka_unit_test(branches_from_outside),
        cmocka_unit_test(pe_with_dwarf),
        cmocka_unit_test(pe_with_pdb),
        cmocka_unit_test(pseudo_probes),
        cmocka_unit_test(large_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
