/* How alike profiles are: the formulas on small numbers, and the figures of llvm-profdata on real
 * profiles. */
#include "sampleprof_build.h"
#include "test_folder.h"

#include <profile/overlap.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOT = 990000, COMMAND_MAX = 4096 };

typedef struct pair {
    sampleprof *a, *b;
    overlap_result r;
} pair;

static pair compare(const char *a, const char *b)
{
    pair p = {.a = read_text(a), .b = read_text(b)};
    spgo_error err = {0};
    if (overlap_compare(p.a, p.b, HOT, &p.r, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return p;
}

static void pair_free(pair *p)
{
    overlap_free(&p->r);
    sampleprof_free(p->a);
    sampleprof_free(p->b);
}

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) < 1e-9))
        fail_msg("%.12f is not %.12f", got, expected);
}

static void assert_set(const overlap_set *set, uint64_t both, uint64_t only_a, uint64_t only_b)
{
    assert_int_equal(set->both, both);
    assert_int_equal(set->only_a, only_a);
    assert_int_equal(set->only_b, only_b);
    uint64_t any = both + only_a + only_b;
    assert_near(set->share, any ? (double)both / (double)any : 0);
}

static void test_a_profile_is_like_itself(void **state)
{
    static const char text[] = "f:9:1\n 1: 5\n 2: 7 g:1\n 3: g:4\n  1: 4\nh:1:1\n 1: 0\n";
    (void)state;
    pair p = compare(text, text);
    assert_near(p.r.program, 1);
    assert_near(p.r.sample_overlap, 1);
    assert_int_equal(p.r.samples_a, 16);
    assert_int_equal(p.r.unique_a + p.r.unique_b, 0);
    assert_set(&p.r.functions, 2, 0, 0);
    assert_set(&p.r.hot_functions, 1, 0, 0);
    assert_set(&p.r.hot_blocks, 3, 0, 0);
    pair_free(&p);
}

/* Shares count, not counts: 400 and 600 against 60,000 and 40,000 are 80 % alike. */
static void test_shares_are_compared(void **state)
{
    (void)state;
    pair p = compare("f:1:1\n 1: 400\n 2: 600\n", "f:1:1\n 1: 60000\n 2: 40000\n");
    assert_near(p.r.program, 0.8);
    assert_near(p.r.items[0].similarity, 0.8);
    assert_near(p.r.items[0].difference, 0.2);
    assert_near(p.r.sample_overlap, 1000.0 / 100000);
    pair_free(&p);
}

static void test_profiles_without_anything_in_common(void **state)
{
    (void)state;
    pair p = compare("f:1:1\n 1: 4\n", "g:1:1\n 1: 6\n");
    assert_near(p.r.program, 0);
    assert_near(p.r.sample_overlap, 0);
    assert_int_equal(p.r.unique_a, 4);
    assert_int_equal(p.r.unique_b, 6);
    assert_set(&p.r.functions, 0, 1, 1);
    assert_set(&p.r.hot_functions, 0, 1, 1);
    assert_set(&p.r.hot_blocks, 0, 1, 1);
    assert_near(p.r.items[0].difference + p.r.items[1].difference, 1);
    pair_free(&p);
}

/* f: shares 3/4, 1/4 and 1/2, 1/2, weights 0.4 and 0.8: (1 - 0.5 / 2) * (1 - 0.4) = 0.45. */
static void test_weights_of_functions_count(void **state)
{
    (void)state;
    pair p =
        compare("f:1:1\n 1: 30\n 2: 10\ng:1:1\n 1: 60\n", "f:1:1\n 1: 40\n 2: 40\ng:1:1\n 1: 20\n");
    assert_int_equal(p.r.item_count, 2);
    const overlap_function *f = &p.r.items[p.r.items[0].name.ptr[0] == 'f' ? 0 : 1];
    assert_near(f->weight_a, 0.4);
    assert_near(f->weight_b, 0.8);
    assert_near(f->similarity, 0.45);
    assert_near(f->difference, 0.6 * 0.55);
    assert_near(p.r.program, 0.6 * 0.45 + 0.4 * 0.6);
    assert_int_equal(f->samples_overlap, 40);
    assert_int_equal(f->samples_union, 80);
    pair_free(&p);
}

/* A callee that only one has is one block with the sum of its samples. */
static void test_inlined_callees_that_only_one_has(void **state)
{
    (void)state;
    pair p =
        compare("f:1:1\n 1: 50\n 2: x:9\n  1: 20\n  2: 30\n", "f:1:1\n 1: 50\n 2: y:9\n  1: 50\n");
    assert_near(p.r.program, 0.5);
    assert_int_equal(p.r.unique_a, 50);
    assert_int_equal(p.r.unique_b, 50);
    assert_int_equal(p.r.items[0].samples_overlap, 50);
    assert_int_equal(p.r.items[0].samples_union, 150);
    assert_set(&p.r.hot_blocks, 1, 2, 1);
    pair_free(&p);
}

static void test_functions_stand_by_falling_difference(void **state)
{
    (void)state;
    pair p = compare("a:1:1\n 1: 50\nb:1:1\n 1: 10\nc:1:1\n 1: 40\nz:1:1\n",
                     "a:1:1\n 1: 50\nb:1:1\n 1: 10\nd:1:1\n 1: 40\nz:1:1\n");
    static const char order[] = "cdabz";
    assert_int_equal(p.r.item_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(p.r.items[i].name.ptr[0], order[i]);
    pair_free(&p);
}

static void test_what_cannot_be_compared(void **state)
{
    static const struct {
        const char *a, *b, *part;
        spgo_code code;
    } cases[] = {
        {"f:1:1\n 1: 0\n", "f:1:1\n 1: 1\n", "first profile has no samples", SPGO_NOT_FOUND},
        {"f:1:1\n 1: 1\n", "f:1:1\n", "second profile has no samples", SPGO_NOT_FOUND},
        {"f:1:1\n 1: 1\n", "f:1:1\n 1: 1\n !CFGChecksum: 4\n", "pseudo probes", SPGO_MISMATCH},
        {"f:1:1\n 1: 1\n", "12:1:1\n 1: 1\n", "MD5", SPGO_MISMATCH},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sampleprof *a = read_text(cases[i].a);
        sampleprof *b = read_text(cases[i].b);
        overlap_result r;
        spgo_error err = {0};
        assert_int_equal(overlap_compare(a, b, HOT, &r, &err), cases[i].code);
        assert_non_null(strstr(err.sentence, cases[i].part));
        overlap_free(&r);
        sampleprof_free(a);
        sampleprof_free(b);
    }
}

/* ------------------------------------------------------------------ the walk */

static void write_block(void *ctx, const overlap_block *b)
{
    char line[128];
    const sampleprof_function *callee = b->callee_a ? b->callee_a : b->callee_b;
    spgo_str name = callee ? sampleprof_name(callee) : (spgo_str){"", 0};
    snprintf(line, sizeof line, "%u %u %.*s %s%s %llu %llu\n", b->depth,
             (unsigned)b->place.line_offset, (int)name.len, name.ptr, b->in_a ? "a" : "",
             b->in_b ? "b" : "", (unsigned long long)(callee ? 0 : b->count_a),
             (unsigned long long)(callee ? 0 : b->count_b));
    bytes_put(ctx, line, strlen(line));
}

static void test_the_walk_goes_through_places_of_both(void **state)
{
    (void)state;
    sampleprof *a = read_text("f:1:1\n 1: 5\n 3: 7\n 4: x:1\n  1: 1\n 5: z:1\n  1: 1\n");
    sampleprof *b = read_text("f:1:1\n 2: 6\n 3: 8\n 4: x:1\n  2: 2\n 4: y:1\n  1: 1\n");
    bytes seen = {0};
    overlap_walk(sampleprof_get_function(a, 0), sampleprof_get_function(b, 0), write_block, &seen);
    bytes_u8(&seen, 0);
    assert_string_equal((const char *)seen.ptr, "0 1  a 5 0\n"
                                                "0 2  b 0 6\n"
                                                "0 3  ab 7 8\n"
                                                "0 4 x ab 0 0\n"
                                                "1 1  a 1 0\n"
                                                "1 2  b 0 2\n"
                                                "0 4 y b 0 0\n"
                                                "0 5 z a 0 0\n");
    bytes_free(&seen);
    overlap_walk(sampleprof_get_function(a, 0), NULL, write_block, &seen);
    bytes_u8(&seen, 0);
    assert_string_equal((const char *)seen.ptr,
                        "0 1  a 5 0\n0 3  a 7 0\n0 4 x a 0 0\n0 5 z a 0 0\n");
    bytes_free(&seen);
    assert_int_equal(overlap_samples(sampleprof_get_function(a, 0)), 14);
    sampleprof_free(a);
    sampleprof_free(b);
}

/* ------------------------------------------------------------------ llvm-profdata */

static void add_line(bytes *b, const char *name, const char *value)
{
    bytes_put(b, name, strlen(name));
    bytes_put(b, value, strlen(value));
    bytes_u8(b, '\n');
}

static void add_percent(bytes *b, const char *name, double share)
{
    char value[32];
    snprintf(value, sizeof value, "%.3f%%", 100 * share);
    add_line(b, name, value);
}

static void add_number(bytes *b, const char *name, uint64_t n)
{
    char value[32];
    snprintf(value, sizeof value, "%llu", (unsigned long long)n);
    add_line(b, name, value);
}

static void add_set(bytes *b, const char *title, const char *what, const overlap_set *set)
{
    char name[96];
    snprintf(name, sizeof name, "  %s overlap: ", title);
    add_percent(b, name, set->share);
    snprintf(name, sizeof name, "    overlap %s: ", what);
    add_number(b, name, set->both);
    snprintf(name, sizeof name, "    %s unique in base profile: ", what);
    add_number(b, name, set->only_a);
    snprintf(name, sizeof name, "    %s unique in test profile: ", what);
    add_number(b, name, set->only_b);
}

/* What llvm-profdata overlap prints, behind the line with the files' names. */
static bytes as_llvm_prints(const overlap_result *r)
{
    bytes b = {0};
    add_line(&b, "Program level:", "");
    add_percent(&b, "  Whole program profile similarity: ", r->program);
    add_percent(&b, "  Whole program sample overlap: ", r->sample_overlap);
    add_percent(&b, "    percentage of samples unique in base profile: ",
                (double)r->unique_a / (double)r->samples_a);
    add_percent(&b, "    percentage of samples unique in test profile: ",
                (double)r->unique_b / (double)r->samples_b);
    add_number(&b, "    total samples in base profile: ", r->samples_a);
    add_number(&b, "    total samples in test profile: ", r->samples_b);
    add_set(&b, "Function", "functions", &r->functions);
    add_set(&b, "Hot-function", "hot functions", &r->hot_functions);
    add_set(&b, "Hot-block", "hot blocks", &r->hot_blocks);
    return b;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static void disturb_function(sampleprof *to, sampleprof_function *f,
                             const sampleprof_function *from, uint32_t *seed)
{
    size_t count;
    uint64_t checksum;
    if (sampleprof_checksum(from, &checksum))
        sampleprof_set_checksum(f, checksum);
    const sampleprof_line *lines = sampleprof_lines(from, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t factor = next_random(seed) % 16; /* 0: left out */
        if (factor)
            sampleprof_add_line(to, f, lines[i].place, lines[i].count * factor / 8);
    }
    const sampleprof_callsite *sites = sampleprof_callsites(from, &count);
    for (size_t i = 0; i < count; i++) {
        bool is_renamed = next_random(seed) % 8 == 0;
        spgo_str name = is_renamed ? text_str("another") : sampleprof_name(sites[i].callee);
        disturb_function(to, sampleprof_inlined(to, f, sites[i].place, name), sites[i].callee,
                         seed);
    }
}

/* Other counts, other places, other callees, functions left out. */
static sampleprof *disturbed(const sampleprof *from, uint32_t seed)
{
    sampleprof *p = sampleprof_new(0);
    sampleprof_set_probes(p, sampleprof_has_probes(from));
    for (size_t i = 0; i < sampleprof_function_count(from); i++) {
        const sampleprof_function *f = sampleprof_get_function(from, i);
        if (next_random(&seed) % 8 == 0)
            continue;
        disturb_function(p, sampleprof_function_named(p, sampleprof_name(f)), f, &seed);
    }
    return p;
}

static void assert_as_llvm(void **state, const sampleprof *a, const sampleprof *b)
{
    char command[COMMAND_MAX];
    static char printed[1 << 16];
    bytes text_a = text_of(a), text_b = text_of(b);
    overlap_result r;
    spgo_error err = {0};
    test_write_file(test_path(state, "a"), text_a.ptr, text_a.len - 1);
    test_write_file(test_path(state, "b"), text_b.ptr, text_b.len - 1);
    snprintf(command, sizeof command,
             "cd '%s' && llvm-profdata-19 overlap --sample a b | tail -n +2 >printed",
             test_path(state, "."));
    assert_int_equal(system(command), 0); /* NOLINT: the tests' own words */
    size_t len = test_read_file(test_path(state, "printed"), printed, sizeof printed - 1);
    printed[len] = '\0';
    assert_int_equal(overlap_compare(a, b, HOT, &r, &err), SPGO_OK);
    bytes ours = as_llvm_prints(&r);
    bytes_u8(&ours, 0);
    assert_string_equal((const char *)ours.ptr, printed);
    bytes_free(&ours);
    bytes_free(&text_a);
    bytes_free(&text_b);
    overlap_free(&r);
}

static void test_figures_are_those_of_llvm(void **state)
{
    enum { PAIRS = 6 };
    static const char *const profiles[] = {"lbr/speedtest1.llvm-profgen.prof", "pdb/own/t_elf.prof",
                                           "pdb/own/t_elf_probe.prof"};
    if (system("llvm-profdata-19 --version >/dev/null 2>&1") != 0) /* NOLINT: as above */
        skip();
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        spgo_span text = test_data_or_skip(profiles[i]);
        sampleprof *p = read_good(text);
        for (uint32_t seed = 0; seed < PAIRS; seed++) {
            sampleprof *a = seed % 2 ? disturbed(p, seed + 100) : NULL;
            sampleprof *b = disturbed(p, seed);
            assert_as_llvm(state, a ? a : p, b);
            sampleprof_free(a);
            sampleprof_free(b);
        }
        sampleprof_free(p);
        test_data_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_profile_is_like_itself),
        cmocka_unit_test(test_shares_are_compared),
        cmocka_unit_test(test_profiles_without_anything_in_common),
        cmocka_unit_test(test_weights_of_functions_count),
        cmocka_unit_test(test_inlined_callees_that_only_one_has),
        cmocka_unit_test(test_functions_stand_by_falling_difference),
        cmocka_unit_test(test_what_cannot_be_compared),
        cmocka_unit_test(test_the_walk_goes_through_places_of_both),
        cmocka_unit_test_setup_teardown(test_figures_are_those_of_llvm, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
