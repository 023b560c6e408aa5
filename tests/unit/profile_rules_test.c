/* The rules of correlation by lines, one by one. */
#include "profile_fake_code.h"

#include <stdio.h>

static correlate_tally expect(address_range *ranges, size_t range_count, address_branch *branches,
                              size_t branch_count, const char *wanted)
{
    return expect_of(correlate_lines, CORRELATE_BEST, ranges, range_count, branches, branch_count,
                     wanted);
}

/* ------------------------------------------------------------------ counts */

static void lines_that_did_not_run_are_zero(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10), g = function_at("g", 20);
    const symbol_frame ran = {.function = &f, .line = 11}, idle = {.function = &f, .line = 12};
    const symbol_frame other = {.function = &g, .line = 21};
    add_procedure(&f, 0, 20);
    add_procedure(&g, 20, 30);
    add_run(0, 10, &ran);
    add_run(10, 20, &idle);
    add_run(20, 30, &other);
    address_range ranges[] = {{2, 4, 7}};
    correlate_tally t = expect(ranges, 1, NULL, 0, "f:21:0\n 1: 7\n 2: 0\n");
    assert_int_equal(t.samples_used, 21);
    assert_int_equal(t.functions, 1);
    assert_int_equal(t.functions_exact, 1);
}

static void overlapping_ranges_add_up(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10);
    const symbol_frame a = {.function = &f, .line = 11}, b = {.function = &f, .line = 12};
    add_procedure(&f, 0, 20);
    add_run(0, 5, &a);
    add_run(5, 20, &b);
    address_range ranges[] = {{0, 4, 7}, {2, 9, 5}, {4, 4, 1}};
    /* 2 * 7 + 2 * 12 + 13 at line 1, 5 * 5 at line 2 */
    (void)expect(ranges, 3, NULL, 0, "f:76:0\n 1: 13\n 2: 5\n");
}

static void range_into_the_next_function_counts_there(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10), g = function_at("g", 20);
    const symbol_frame a = {.function = &f, .line = 10};
    const symbol_frame b = {.function = &g, .line = 20}, c = {.function = &g, .line = 21};
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    add_run(0, 10, &a);
    add_run(10, 15, &b);
    add_run(15, 20, &c);
    address_range ranges[] = {{8, 11, 3}};
    (void)expect(ranges, 1, NULL, 0, "f:6:0\n 0: 3\ng:6:0\n 0: 3\n");
}

static void namesakes_are_touched_together(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10), g = function_at("f", 50);
    const symbol_frame a = {.function = &f, .line = 11}, b = {.function = &g, .line = 55};
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    add_run(0, 10, &a);
    add_run(10, 20, &b);
    address_range ranges[] = {{0, 0, 3}};
    (void)expect(ranges, 1, NULL, 0, "f:3:0\n 1: 3\n 5: 0\n");
}

static void counts_saturate(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10);
    const symbol_frame a = {.function = &f, .line = 11}, b = {.function = &f, .line = 12};
    const symbol_frame c = {.function = &f, .line = 13};
    add_procedure(&f, 0, 10);
    add_run(0, 2, &a);
    add_run(2, 4, &b);
    add_run(4, 10, &c);
    address_range ranges[] = {{0, 1, UINT64_MAX}, {0, 3, UINT64_MAX}, {0, 4, 9}};
    /* At line 3 the two large ranges have ended: what was added is taken away again. */
    (void)expect(ranges, 3, NULL, 0,
                 "f:18446744073709551615:0\n 1: 18446744073709551615\n 2: 18446744073709551615\n"
                 " 3: 9\n");
}

static void unrolled_code_counts_its_copies(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10);
    const symbol_frame once = {.function = &f, .line = 11, .discriminator = 2};
    const symbol_frame copies = {.function = &f, .line = 11, .discriminator = 1794};
    add_procedure(&f, 0, 10);
    add_run(0, 1, &once);
    add_run(1, 2, &copies);
    address_range ranges[] = {{0, 0, 100}, {1, 1, 60}};
    (void)expect(ranges, 2, NULL, 0, "f:160:0\n 1.1: 420\n");
}

static void discriminators_have_short_and_long_components(void **state)
{
    (void)state;
    static const struct {
        uint32_t discriminator;
        uint32_t base, factor;
    } cases[] = {
        {0, 0, 1},
        {2, 1, 1},
        {29, 0, 7}, /* no base, then the factor */
        {1794, 1, 7},
        {31 << 1, 31, 1},
        {0x40 | 1 << 7, 32, 1}, /* 12 bits: 5 low ones, a mark, 7 high ones */
        {0x40 | 5 << 1 | 127 << 7, 127 << 5 | 5, 1},
        {0x40 | 1 << 7 | 3 << 15, 32, 3},
        {3, 0, 1}, /* neither base nor factor */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)set_up(state);
        const symbol_function f = function_at("f", 10);
        const symbol_frame a = {
            .function = &f, .line = 11, .discriminator = cases[i].discriminator};
        add_procedure(&f, 0, 10);
        add_run(0, 1, &a);
        address_range ranges[] = {{0, 0, 10}};
        char wanted[64], base[16] = "";
        if (cases[i].base)
            (void)snprintf(base, sizeof base, ".%u", (unsigned)cases[i].base);
        (void)snprintf(wanted, sizeof wanted, "f:10:0\n 1%s: %u\n", base,
                       (unsigned)(10 * cases[i].factor));
        (void)expect(ranges, 1, NULL, 0, wanted);
    }
}

static void flow_sensitive_discriminators_stay_as_they_are(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10);
    const symbol_frame a = {.function = &f, .line = 11, .discriminator = 1794};
    fake.info.has_fs_discriminators = true;
    add_procedure(&f, 0, 10);
    add_run(0, 1, &a);
    address_range ranges[] = {{0, 0, 60}};
    (void)expect(ranges, 1, NULL, 0, "f:60:0\n 1.1794: 60\n");
}

static void discriminator_of_a_probe_is_its_number(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10);
    /* Probe 5 without, and probe 9 with base discriminator 3. */
    const symbol_frame a = {.function = &f, .line = 11, .discriminator = 5u << 3 | 7};
    const symbol_frame b = {
        .function = &f, .line = 11, .discriminator = 1u << 28 | 3u << 16 | 9u << 3 | 7};
    add_procedure(&f, 0, 10);
    add_run(0, 1, &a);
    add_run(1, 2, &b);
    address_range ranges[] = {{0, 1, 2}};
    (void)expect(ranges, 1, NULL, 0, "f:4:0\n 1.3: 2\n 1.5: 2\n");
}

static void lines_before_the_start_wrap_at_16_bits(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10);
    const symbol_frame none = {.function = &f, .line = 0};
    const symbol_frame huge = {.function = &f, .line = UINT32_MAX};
    add_procedure(&f, 0, 10);
    add_run(0, 1, &none);
    add_run(1, 2, &huge);
    address_range ranges[] = {{0, 1, 2}};
    (void)expect(ranges, 1, NULL, 0, "f:4:0\n 65525: 2\n 65526: 2\n");
}

/* ------------------------------------------------------------------ inlined calls */

static void totals_count_at_every_level(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10), g = function_at("g", 20);
    const symbol_function h = function_at("h", 30);
    const symbol_frame top = {.function = &f, .line = 13, .discriminator = 2};
    const symbol_frame middle = {.function = &g, .line = 22, .caller = &top};
    const symbol_frame leaf = {.function = &h, .line = 31, .caller = &middle};
    const symbol_frame same = {.function = &h, .line = 32, .caller = &middle};
    add_procedure(&f, 0, 10);
    add_run(0, 2, &leaf);
    add_run(2, 4, &same);
    address_range ranges[] = {{0, 2, 5}};
    (void)expect(ranges, 1, NULL, 0, "f:15:0\n 3.1: g:15\n  2: h:15\n   1: 5\n   2: 5\n");
}

static void calls_without_a_name_count_for_their_line(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 10), g = function_at("g", 20), h = function_at("h", 30);
    g.linkage_name = (spgo_str){.len = 0};
    fake.info.source = SYMBOLS_PDB;
    const symbol_frame top = {.function = &f, .line = 13};
    const symbol_frame nameless = {.function = &g, .line = 22, .caller = &top};
    const symbol_frame leaf = {.function = &h, .line = 31, .caller = &nameless};
    add_procedure(&f, 0, 10);
    add_run(0, 2, &leaf);
    add_run(2, 3, &nameless);
    address_range ranges[] = {{0, 2, 5}};
    correlate_tally t = expect(ranges, 1, NULL, 0, "f:15:0\n 3: 5\n");
    assert_int_equal(t.inlinees_unnamed, 1);
}

static void chains_are_bounded(void **state)
{
    (void)state;
    enum { DEPTH = 3000 };
    static symbol_frame chain[DEPTH];
    const symbol_function f = function_at("f", 10);
    for (size_t i = 0; i < DEPTH; i++)
        chain[i] = (symbol_frame){.function = &f, .line = 11, .caller = i ? &chain[i - 1] : NULL};
    add_procedure(&f, 0, 10);
    add_run(0, 1, &chain[DEPTH - 1]);
    add_run(1, 2, &chain[0]);
    /* Asking from the outside inwards must not reach further than asking at once. */
    add_run(2, 3, &chain[400]);
    add_run(3, 4, &chain[900]);
    add_run(4, 5, &chain[1]);
    address_range ranges[] = {{0, 1, 5}, {3, 3, 2}};
    address_profile measured = {ranges, NULL, 2, 0};
    code_decoder *d = NULL;
    assert_int_equal(code_decoder_new(&fake.image, &d, NULL), SPGO_OK);
    sampleprof *profile = sampleprof_new(0);
    correlate_tally t = {0};
    assert_int_equal(correlate_lines(&measured, &fake, d, CORRELATE_BEST, profile, &t, NULL),
                     SPGO_OK);
    assert_int_equal(t.samples_without_line, 7);
    assert_int_equal(t.samples_used, 5);
    sampleprof_free(profile);
    code_decoder_free(d);
}

/* ------------------------------------------------------------------ calls */

static void branches_to_entries_are_calls(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10), g = function_at("g", 20);
    const symbol_frame a = {.function = &f, .line = 11}, b = {.function = &g, .line = 21};
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    add_procedure(NULL, 20, 30); /* a stub that no debug information knows */
    add_run(0, 10, &a);
    add_run(10, 20, &b);
    address_range ranges[] = {{0, 4, 3}};
    address_branch branches[] = {
        {4, 10, 5}, {5, 12, 9}, {6, 20, 9}, {SPGO_SPT_OUTSIDE, 0, 2}, {SPGO_SPT_OUTSIDE, 10, 1}};
    /* The call target raises the line; the head of f is from outside. */
    (void)expect(ranges, 1, branches, 5, "f:15:2\n 1: 5 g:5\ng:0:6\n");
}

static void calls_in_inlined_code_do_not_raise_it(void **state)
{
    (void)state;
    const symbol_function f = function_at("f", 10), g = function_at("g", 20);
    const symbol_frame top = {.function = &f, .line = 11};
    const symbol_frame inlined = {.function = &g, .line = 21, .caller = &top};
    add_procedure(&f, 0, 10);
    add_run(0, 10, &inlined);
    address_range ranges[] = {{0, 4, 3}};
    address_branch branches[] = {{4, 0, 5}};
    (void)expect(ranges, 1, branches, 1, "f:15:5\n 1: g:15\n  1: 3 f:5\n");
}

/* ------------------------------------------------------------------ calls without a line */

enum { ARM = 2, OTHER_ARM = 10, MERGED = 20, CALLEE = 40, OTHER_CALLEE = 50, SPLIT_END = 30 };

static symbol_function caller, callee, other_callee;
static symbol_frame split, arm, other_arm, merged, called;

/* if (...) call(1); else call(2); with one call for both that has no line:
 * 0: branch 10; 2: nops; jump 20; 10: nops; 20: nop; call *%rax; return */
static void add_merged_call(void)
{
    caller = function_at("f", 10);
    callee = function_at("g", 40);
    other_callee = function_at("h", 50);
    split = (symbol_frame){.function = &caller, .line = 11};
    arm = (symbol_frame){.function = &caller, .line = 12};
    other_arm = (symbol_frame){.function = &caller, .line = 14};
    merged = (symbol_frame){.function = &caller};
    called = (symbol_frame){.function = &callee, .line = 41};
    add_procedure(&caller, 0, SPLIT_END);
    add_procedure(&callee, CALLEE, OTHER_CALLEE);
    add_procedure(&other_callee, OTHER_CALLEE, OTHER_CALLEE + 10);
    put_branch(0, OTHER_ARM);
    put_jump(OTHER_ARM - JUMP_SIZE, MERGED);
    put_indirect_call(MERGED + 1);
    put_return(MERGED + 3);
    add_run(0, ARM, &split);
    add_run(ARM, OTHER_ARM - JUMP_SIZE, &arm);
    add_run(OTHER_ARM, MERGED, &other_arm);
    add_run(MERGED, SPLIT_END, &merged);
    add_run(CALLEE, OTHER_CALLEE, &called);
}

/* The arms ran 30 and 10 times. */
static address_range merged_ranges[] = {
    {0, OTHER_ARM - JUMP_SIZE, 30}, {OTHER_ARM, MERGED + 1, 10}, {MERGED, MERGED + 1, 30}};
static address_branch merged_branches[] = {{MERGED + 1, CALLEE, 36}, {MERGED + 1, OTHER_CALLEE, 4}};

static void merged_call_counts_where_its_arguments_were_prepared(void **state)
{
    (void)state;
    add_merged_call();
    correlate_tally t = expect(merged_ranges, 3, merged_branches, 2,
                               "f:460:0\n 1: 30\n 2: 30 g:27 h:3\n 4: 10 g:9 h:1\n"
                               " 65526: 40 g:36 h:4\ng:0:36\nh:0:4\n");
    assert_int_equal(t.calls_placed, 40);
}

static void merged_call_has_no_place_by_the_rules_of_llvm_profgen(void **state)
{
    (void)state;
    add_merged_call();
    correlate_tally t =
        expect_of(correlate_lines, CORRELATE_PROFGEN, merged_ranges, 3, merged_branches, 2,
                  "f:460:0\n 1: 30\n 2: 30\n 4: 10\n 65526: 40 g:36 h:4\ng:0:36\nh:0:4\n");
    assert_int_equal(t.calls_placed, 0);
}

static void direct_call_without_a_line_stays_without(void **state)
{
    (void)state;
    add_merged_call();
    put_call(MERGED + 1, CALLEE);
    put_return(MERGED + 1 + CALL_SIZE);
    address_branch branches[] = {{MERGED + 1, CALLEE, 40}};
    correlate_tally t = expect(merged_ranges, 3, branches, 1,
                               "f:580:0\n 1: 30\n 2: 30\n 4: 10\n 65526: 40 g:40\ng:0:40\n");
    assert_int_equal(t.calls_placed, 0);
}

/* Its line would be that of the condition. */
static void way_that_leads_elsewhere_too_tells_no_place(void **state)
{
    (void)state;
    add_merged_call();
    put_branch(0, MERGED);
    address_range ranges[] = {{0, 1, 10}, {0, OTHER_ARM - JUMP_SIZE, 30}, {MERGED, MERGED + 1, 40}};
    address_branch branches[] = {{MERGED + 1, CALLEE, 40}};
    correlate_tally t = expect(ranges, 3, branches, 1,
                               "f:380:0\n 1: 40\n 2: 30 g:30\n 4: 0\n 65526: 40 g:40\ng:0:40\n");
    assert_int_equal(t.calls_placed, 30);
}

static void line_in_the_block_of_a_call_is_not_its_own(void **state)
{
    (void)state;
    add_merged_call();
    const symbol_frame condition = {.function = &caller, .line = 16};
    fake.runs[3] = (symbol_run){MERGED, MERGED + 1, &condition};
    add_run(MERGED + 1, SPLIT_END, &merged);
    correlate_tally t = expect(merged_ranges, 3, merged_branches, 2,
                               "f:460:0\n 1: 30\n 2: 30\n 4: 10\n 6: 40\n"
                               " 65526: 40 g:36 h:4\ng:0:36\nh:0:4\n");
    assert_int_equal(t.calls_placed, 0);
}

static void way_ends_at_another_call(void **state)
{
    (void)state;
    add_merged_call();
    /* Behind the last instruction of the first arm with a line there is a call without one. */
    put_indirect_call(OTHER_ARM - JUMP_SIZE - 2);
    fake.runs[1].end_rva -= 2;
    add_run(OTHER_ARM - JUMP_SIZE - 2, OTHER_ARM, &merged);
    correlate_tally t = expect(merged_ranges, 3, merged_branches, 2,
                               "f:520:0\n 1: 30\n 2: 30\n 4: 10 g:9 h:1\n"
                               " 65526: 40 g:36 h:4\ng:0:36\nh:0:4\n");
    assert_int_equal(t.calls_placed, 10);
}

static void loop_of_silent_code_ends(void **state)
{
    (void)state;
    add_merged_call();
    fake.run_count = 0;
    add_run(0, SPLIT_END, &merged);
    put_jump(MERGED + 3, ARM);
    correlate_tally t = expect(merged_ranges, 3, merged_branches, 2,
                               "f:520:0\n 65526: 40 g:36 h:4\ng:0:36\nh:0:4\n");
    assert_int_equal(t.calls_placed, 0);
}

static void large_counts_are_shared(void **state)
{
    (void)state;
    add_merged_call();
    address_range ranges[] = {{0, OTHER_ARM - JUMP_SIZE, UINT64_MAX / 2},
                              {OTHER_ARM, MERGED + 1, UINT64_MAX / 2},
                              {MERGED, MERGED + 1, UINT64_MAX / 2}};
    address_branch branches[] = {{MERGED + 1, CALLEE, 1000}};
    correlate_tally t = expect(ranges, 3, branches, 1,
                               "f:18446744073709551615:0\n 1: 9223372036854775807\n"
                               " 2: 9223372036854775807 g:499\n 4: 9223372036854775807 g:499\n"
                               " 65526: 18446744073709551614 g:1000\ng:0:1000\n");
    assert_int_equal(t.calls_placed, 998);
}

/* ------------------------------------------------------------------ names */

static void suffixes_of_optimizers_are_dropped(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"f", "f"},
        {"f.llvm.123", "f"},
        {"f.part.0", "f"},
        {"f.part.0.llvm.5", "f"},
        {"f.llvm.1.x", "f.llvm.1.x"},
        {"f.__uniq.7", "f.__uniq.7"},
        {"f.__uniq.7.llvm.9", "f.__uniq.7"},
        {"f.cold.1", "f.cold.1"},
        {".llvm.", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        spgo_str got = correlate_canonical_name(text(pairs[i][0]));
        assert_int_equal(got.len, strlen(pairs[i][1]));
        assert_memory_equal(got.ptr, pairs[i][1], got.len);
    }
}

static void names_that_break_the_text_are_left_out(void **state)
{
    (void)state;
    const symbol_function f = function_at("f\n g:1:1", 10), g = function_at("g", 20);
    const symbol_function h = function_at("1h", 30), space = function_at("operator new", 40);
    const symbol_frame a = {.function = &f, .line = 11}, b = {.function = &g, .line = 21};
    const symbol_frame c = {.function = &h, .line = 31, .caller = &b};
    const symbol_frame e = {.function = &space, .line = 41};
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    add_procedure(&space, 20, 30);
    add_run(0, 10, &a);
    add_run(10, 15, &b);
    add_run(15, 20, &c);
    add_run(20, 30, &e);
    address_range ranges[] = {{0, 1, 1}, {12, 17, 2}, {20, 20, 4}};
    address_branch branches[] = {{12, 0, 1}, {12, 20, 5}};
    correlate_tally t = expect(ranges, 3, branches, 2, "g:12:0\n 1: 2\noperator new:4:5\n 1: 4\n");
    assert_int_equal(t.names_unusable, 2);
}

static void initializers_that_share_a_name_are_left_out(void **state)
{
    (void)state;
    const symbol_function f = function_at("__cxx_global_var_init.12", 10);
    const symbol_function g = function_at("g", 20);
    const symbol_frame a = {.function = &f, .line = 11}, b = {.function = &g, .line = 21};
    const symbol_frame inlined = {.function = &f, .line = 11, .caller = &b};
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    add_run(0, 10, &a);
    add_run(10, 12, &inlined);
    add_run(12, 20, &b);
    address_range ranges[] = {{0, 1, 1}, {10, 12, 2}};
    (void)expect(ranges, 2, NULL, 0, "g:6:0\n 1: 2\n");
}

/* ------------------------------------------------------------------ programs with a PDB */

static void functions_without_lines_are_left_out_of_pdb_programs(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 0), g = function_at("g", 20);
    g.line_source = SYMBOL_LINE_FIRST_ROW;
    fake.info.source = SYMBOLS_PDB;
    const symbol_frame a = {.function = &f}, b = {.function = &g, .line = 21};
    const symbol_frame hidden = {.function = &g};
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    add_run(0, 10, &a);
    add_run(10, 12, &b);
    add_run(12, 20, &hidden);
    address_range ranges[] = {{0, 0, 3}, {10, 12, 2}};
    correlate_tally t = expect(ranges, 2, NULL, 0, "g:6:0\n 1: 2\n");
    assert_int_equal(t.functions_left_out, 1);
    assert_int_equal(t.functions_exact, 0);
    assert_int_equal(t.functions_approximate, 1);
    assert_int_equal(t.samples_without_line, 3 + 2);
}

static void lines_and_probes_do_not_mix(void **state)
{
    (void)state;
    address_profile measured = {0};
    spgo_error err = {0};
    correlate_tally t = {0};
    sampleprof *profile = sampleprof_new(0);
    sampleprof_set_probes(profile, true);
    assert_int_equal(correlate_lines(&measured, &fake, NULL, CORRELATE_BEST, profile, &t, &err),
                     SPGO_USAGE);
    assert_int_equal(correlate_probes(&measured, &fake, NULL, CORRELATE_BEST, profile, &t, &err),
                     SPGO_NOT_FOUND);
    sampleprof_free(profile);
}

int main(void)
{
#define RULE(test) cmocka_unit_test_setup(test, set_up)
    const struct CMUnitTest tests[] = {
        RULE(lines_that_did_not_run_are_zero),
        RULE(overlapping_ranges_add_up),
        RULE(range_into_the_next_function_counts_there),
        RULE(namesakes_are_touched_together),
        RULE(counts_saturate),
        RULE(unrolled_code_counts_its_copies),
        RULE(discriminators_have_short_and_long_components),
        RULE(flow_sensitive_discriminators_stay_as_they_are),
        RULE(discriminator_of_a_probe_is_its_number),
        RULE(lines_before_the_start_wrap_at_16_bits),
        RULE(totals_count_at_every_level),
        RULE(calls_without_a_name_count_for_their_line),
        RULE(chains_are_bounded),
        RULE(branches_to_entries_are_calls),
        RULE(calls_in_inlined_code_do_not_raise_it),
        RULE(merged_call_counts_where_its_arguments_were_prepared),
        RULE(merged_call_has_no_place_by_the_rules_of_llvm_profgen),
        RULE(direct_call_without_a_line_stays_without),
        RULE(way_that_leads_elsewhere_too_tells_no_place),
        RULE(line_in_the_block_of_a_call_is_not_its_own),
        RULE(way_ends_at_another_call),
        RULE(loop_of_silent_code_ends),
        RULE(large_counts_are_shared),
        RULE(suffixes_of_optimizers_are_dropped),
        RULE(names_that_break_the_text_are_left_out),
        RULE(initializers_that_share_a_name_are_left_out),
        RULE(functions_without_lines_are_left_out_of_pdb_programs),
        RULE(lines_and_probes_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
