/*
 * Correlation against llvm-profgen itself, on programs that clang builds here in the ways in which
 * debug information and probes differ. What is counted is made up: ranges and branches that
 * the code allows. Skipped where the two programs are not installed.
 */
#include "profile_unsym.h"
#include "test_folder.h"

#include <stdio.h>

/* ------------------------------------------------------------------ made-up counts */

typedef struct dice {
    uint64_t state;
} dice;

static uint32_t roll(dice *d, uint32_t sides)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((d->state >> 33) % sides);
}

typedef struct listing {
    code_instruction *rows;
    size_t count;
} listing;

/* The instructions of the functions that debug information knows. */
static listing list_code(const program *p)
{
    const symbol_procedure *procedures;
    size_t count;
    assert_int_equal(symbols_procedures(p->s, &procedures, &count, NULL), SPGO_OK);
    listing l = {calloc(1 << 20, sizeof *l.rows), 0};
    assert_non_null(l.rows);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; procedures[i].function && k < procedures[i].piece_count; k++) {
            flow_extent e = procedures[i].pieces[k];
            for (uint32_t rva = e.begin_rva; rva < e.end_rva && l.count < 1 << 20;) {
                l.rows[l.count] = code_decode(p->d, rva);
                rva += l.rows[l.count++].size_bytes;
            }
        }
    }
    return l;
}

/* Index of where a range that begins at `first` may end; 0: nowhere. */
static size_t pick_end(const listing *l, size_t first, dice *d)
{
    for (size_t i = first; i < l->count; i++) {
        const code_instruction *c = &l->rows[i];
        if (i > first && c->rva != l->rows[i - 1].rva + l->rows[i - 1].size_bytes)
            return 0;
        bool may_go_on = c->kind == CODE_BRANCH && roll(d, 3) > 0;
        if (code_is_transfer(c->kind) && !may_go_on)
            return i;
        if (c->kind == CODE_TRAP)
            return 0;
    }
    return 0;
}

/* Some of the branches may come from outside. */
static void write_counts(const program *p, const char *path, uint64_t seed, bool may_be_outside)
{
    enum { RANGES = 200 };
    uint32_t text_rva = symbols_get_info(p->s)->text_rva;
    listing l = list_code(p);
    dice d = {seed};
    const symbol_procedure *procedures;
    size_t count;
    assert_int_equal(symbols_procedures(p->s, &procedures, &count, NULL), SPGO_OK);
    bytes ranges = {0}, branches = {0};
    char line[128];
    unsigned written = 0;
    for (unsigned tries = 0; written < RANGES && tries < 100 * RANGES; tries++) {
        size_t first = roll(&d, (uint32_t)l.count), end = pick_end(&l, first, &d);
        if (end == 0)
            continue;
        const code_instruction *from = &l.rows[end];
        uint32_t to =
            from->has_target ? from->target_rva : procedures[roll(&d, (uint32_t)count)].entry_rva;
        int len =
            snprintf(line, sizeof line, "%x-%x:%u\n", (unsigned)(l.rows[first].rva - text_rva),
                     (unsigned)(from->rva - text_rva), (unsigned)(1 + roll(&d, 100000)));
        bytes_put(&ranges, line, (size_t)len);
        /* Branches from outside have the source 1, before the text. */
        bool is_outside = roll(&d, 20) == 0 && may_be_outside;
        uint64_t source = is_outside ? 1 - (uint64_t)text_rva : from->rva - text_rva;
        len = snprintf(line, sizeof line, "%llx->%x:%u\n", (unsigned long long)source,
                       (unsigned)(to - text_rva), (unsigned)(1 + roll(&d, 5000)));
        bytes_put(&branches, line, (size_t)len);
        written++;
    }
    assert_true(written > 0);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    (void)fprintf(f, "%u\n%.*s%u\n%.*s", written, (int)ranges.len, (const char *)ranges.ptr,
                  written, (int)branches.len, (const char *)branches.ptr);
    (void)fclose(f);
    bytes_free(&ranges);
    bytes_free(&branches);
    free(l.rows);
}

/* ------------------------------------------------------------------ the comparison */

static void need_peers(void)
{
    if (system("clang-19 --version >/dev/null 2>&1 && llvm-profgen-19 --version >/dev/null 2>&1 && "
               "ld.lld-19 --version >/dev/null 2>&1") != 0)
        skip();
}

static char *read_text(const char *path)
{
    static char text[1 << 22];
    size_t len = test_read_file(path, text, sizeof text - 1);
    text[len] = '\0';
    return text;
}

static void must_run(const char *command)
{
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

static void compare_counts(void **state, const char *options, correlator *correlate,
                           bool may_be_outside)
{
    need_peers();
    const char *source = getenv("SPGO_SOURCE_DIR");
    char image[512], unsym[512], wanted_path[512], command[4096];
    (void)snprintf(image, sizeof image, "%s", test_path(state, "program"));
    (void)snprintf(unsym, sizeof unsym, "%s", test_path(state, "counts"));
    (void)snprintf(wanted_path, sizeof wanted_path, "%s", test_path(state, "wanted"));
    (void)snprintf(command, sizeof command,
                   "cd %s/tests/data/correlate && clang-19 -w -gline-tables-only "
                   "-fdebug-info-for-profiling %s one.cpp two.cpp -fuse-ld=lld-19 -lstdc++ -o %s",
                   source ? source : ".", options, image);
    must_run(command);
    program p = program_open(image);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        write_counts(&p, unsym, seed, may_be_outside);
        (void)snprintf(command, sizeof command,
                       "llvm-profgen-19 --unsymbolized-profile=%s --binary=%s --format=text "
                       "--output=%s 2>/dev/null",
                       unsym, image, wanted_path);
        must_run(command);
        char *counts_text = strdup(read_text(unsym));
        correlate_tally tally = {0};
        char *got = unsym_correlate(&p, counts_text, correlate, &tally);
        assert_string_equal(got, read_text(wanted_path));
        assert_true(got[0] != '\0');
        free(got);
        free(counts_text);
    }
    program_close(&p);
}

static void compare(void **state, const char *options, correlator *correlate)
{
    compare_counts(state, options, correlate, true);
}

static void lines_o2(void **state)
{
    compare(state, "-O2", correlate_lines);
}

static void lines_dwarf_4(void **state)
{
    compare(state, "-O3 -funroll-loops -gdwarf-4 -ffunction-sections", correlate_lines);
}

/* llvm-profgen looks up the source of a branch from outside as if it were address 1, and finds the
 * functions that lld dropped, which it has moved to address 0. Hence none of those here. */
static void lines_folded(void **state)
{
    compare_counts(state, "-O2 -ffunction-sections -Wl,--icf=all,--gc-sections", correlate_lines,
                   false);
}

static void lines_lto(void **state)
{
    compare(state, "-O2 -flto=thin", correlate_lines);
}

static void lines_of_basic_block_sections(void **state)
{
    compare(state, "-O2 -fbasic-block-sections=all", correlate_lines);
}

static void lines_fs(void **state)
{
    compare(state,
            "-O2 -mllvm -enable-fs-discriminator=true -mllvm -improved-fs-discriminator=true",
            correlate_lines);
}

static void probes_o2(void **state)
{
    compare(state, "-O2 -fpseudo-probe-for-profiling", correlate_probes);
}

static void probes_unrolled(void **state)
{
    compare(state, "-O3 -funroll-loops -fpseudo-probe-for-profiling", correlate_probes);
}

static void probes_lto(void **state)
{
    compare(state, "-O2 -flto=thin -fpseudo-probe-for-profiling", correlate_probes);
}

static void probes_of_basic_block_sections(void **state)
{
    compare(state, "-O2 -fbasic-block-sections=all -fpseudo-probe-for-profiling", correlate_probes);
}

int main(void)
{
#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(lines_o2),
        IN_FOLDER(lines_dwarf_4),
        IN_FOLDER(lines_folded),
        IN_FOLDER(lines_lto),
        IN_FOLDER(lines_of_basic_block_sections),
        IN_FOLDER(lines_fs),
        IN_FOLDER(probes_o2),
        IN_FOLDER(probes_unrolled),
        IN_FOLDER(probes_lto),
        IN_FOLDER(probes_of_basic_block_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
