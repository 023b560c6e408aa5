/* The rules of correlation by pseudo probes, one by one. */
#include "profile_fake_code.h"

#include <format/pseudoprobe/pseudoprobe.h>

enum { DELTA = 0x80 };

static bytes probe_section, desc_section;

static int set_up_sections(void **state)
{
    bytes_clear(&probe_section);
    bytes_clear(&desc_section);
    return set_up(state);
}

static int free_sections(void **state)
{
    (void)state;
    bytes_free(&probe_section);
    bytes_free(&desc_section);
    return 0;
}

static void describe(const char *name, uint64_t checksum)
{
    bytes_u64(&desc_section, pseudoprobe_guid(text(name)));
    bytes_u64(&desc_section, checksum);
    bytes_u8(&desc_section, (uint8_t)strlen(name));
    bytes_put(&desc_section, name, strlen(name));
}

/* Counts are below 128, and so one byte each. */
static void put_node(const char *name, uint8_t probe_count, uint8_t child_count)
{
    bytes_u64(&probe_section, pseudoprobe_guid(text(name)));
    bytes_u8(&probe_section, probe_count);
    bytes_u8(&probe_section, child_count);
}

static void put_inlined(uint8_t call_probe, const char *name, uint8_t probe_count,
                        uint8_t child_count)
{
    bytes_u8(&probe_section, call_probe);
    put_node(name, probe_count, child_count);
}

/* delta: below 64, from the probe before or the function's start. */
static void put_probe(uint8_t index, pseudoprobe_kind kind, uint8_t delta)
{
    bytes_u8(&probe_section, index);
    bytes_u8(&probe_section, (uint8_t)(kind | DELTA));
    bytes_u8(&probe_section, delta);
}

static correlate_tally expect(address_range *ranges, size_t range_count, address_branch *branches,
                              size_t branch_count, const char *wanted)
{
    fake.info.probe_section = bytes_span(&probe_section);
    fake.info.probe_desc_section = bytes_span(&desc_section);
    return expect_of(correlate_probes, CORRELATE_BEST, ranges, range_count, branches, branch_count,
                     wanted);
}

/* f is at 0, g at 10. */
static symbol_function f, g;

static void add_two_functions(void)
{
    f = function_at("f", 0);
    g = function_at("g", 0);
    add_procedure(&f, 0, 10);
    add_procedure(&g, 10, 20);
    describe("f", 11);
    describe("g", 22);
}

static void blocks_count_what_runs_at_their_probe(void **state)
{
    (void)state;
    add_two_functions();
    put_node("f", 3, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_probe(2, PSEUDOPROBE_BLOCK, 2);
    put_probe(3, PSEUDOPROBE_BLOCK, 5);
    address_range ranges[] = {{0, 3, 4}, {2, 2, 1}};
    correlate_tally t =
        expect(ranges, 2, NULL, 0, "f:9:4\n 1: 4\n 2: 5\n 3: 0\n !CFGChecksum: 11\n");
    assert_int_equal(t.samples_used, 9);
    assert_int_equal(t.functions_exact, 1);
}

static void copies_of_a_probe_add_up(void **state)
{
    (void)state;
    add_two_functions();
    put_node("f", 3, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_probe(2, PSEUDOPROBE_BLOCK, 2);
    put_probe(2, PSEUDOPROBE_BLOCK, 3);
    address_range ranges[] = {{0, 9, 4}};
    (void)expect(ranges, 1, NULL, 0, "f:12:4\n 1: 4\n 2: 8\n !CFGChecksum: 11\n");
}

static void inlined_functions_are_nested(void **state)
{
    (void)state;
    add_two_functions();
    put_node("f", 1, 1);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_inlined(7, "g", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 4);
    address_range ranges[] = {{0, 9, 4}};
    (void)expect(ranges, 1, NULL, 0,
                 "f:8:4\n 1: 4\n 7: g:4\n  1: 4\n  !CFGChecksum: 22\n !CFGChecksum: 11\n");
}

static void inlined_function_without_a_call_probe_stands_at_the_top(void **state)
{
    (void)state;
    add_two_functions();
    put_node("f", 1, 1);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_inlined(0, "g", 1, 0);
    put_probe(3, PSEUDOPROBE_BLOCK, 4);
    address_range ranges[] = {{0, 9, 4}};
    (void)expect(ranges, 1, NULL, 0,
                 "f:4:4\n 1: 4\n !CFGChecksum: 11\ng:4:0\n 3: 4\n !CFGChecksum: 22\n");
}

/* A tree of g whose code is in f: merged code that lost where it was inlined. */
static void put_stray_tree(void)
{
    put_node("f", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_node("g", 2, 0);
    bytes_u8(&probe_section, 0);
    bytes_u8(&probe_section, PSEUDOPROBE_SENTINEL << 4);
    bytes_u64(&probe_section, pseudoprobe_guid(text("f")));
    put_probe(5, PSEUDOPROBE_BLOCK, 2);
}

static void stray_probes_count_for_functions_with_samples(void **state)
{
    (void)state;
    add_two_functions();
    put_stray_tree();
    address_range ranges[] = {{0, 9, 4}, {10, 10, 1}};
    (void)expect(ranges, 2, NULL, 0,
                 "f:4:4\n 1: 4\n !CFGChecksum: 11\ng:4:0\n 5: 4\n !CFGChecksum: 22\n");
}

static void stray_probes_of_others_are_left_out(void **state)
{
    (void)state;
    add_two_functions();
    put_stray_tree();
    address_range ranges[] = {{0, 9, 4}};
    (void)expect(ranges, 1, NULL, 0, "f:4:4\n 1: 4\n !CFGChecksum: 11\n");
}

static void calls_are_counted_at_the_first_call_probe(void **state)
{
    (void)state;
    add_two_functions();
    put_node("f", 5, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_probe(2, PSEUDOPROBE_BLOCK, 4);
    put_probe(3, PSEUDOPROBE_DIRECT_CALL, 0);
    put_probe(4, PSEUDOPROBE_INDIRECT_CALL, 0);
    put_probe(5, PSEUDOPROBE_BLOCK, 1);
    address_range ranges[] = {{0, 4, 2}};
    address_branch branches[] = {{4, 10, 3}, {5, 10, 9}, {4, 11, 9}, {SPGO_SPT_OUTSIDE, 10, 9}};
    (void)expect(ranges, 1, branches, 4,
                 "f:8:2\n 1: 2\n 2: 2\n 3: 3 g:3\n 4: 2\n 5: 0\n !CFGChecksum: 11\n");
}

/* ------------------------------------------------------------------ calls without a probe */

enum { OTHER_ARM = 6, MERGED = 10, CALLEE = 20 };

/* The checksum of a function with so many calls. */
static uint64_t checksum_of(uint64_t call_count)
{
    return call_count << 48 | 11;
}

/* if (...) call(1); else call(2); with one call for both, of the two that the checksum tells:
 * 0: branch 6; 2: nops; jump 10; 6: nops; 10: call *%rax; return */
static void add_merged_call(uint64_t call_count)
{
    f = function_at("f", 0);
    g = function_at("g", 0);
    add_procedure(&f, 0, CALLEE);
    add_procedure(&g, CALLEE, CALLEE + 10);
    describe("f", checksum_of(call_count));
    put_branch(0, OTHER_ARM);
    put_jump(OTHER_ARM - JUMP_SIZE, MERGED);
    put_indirect_call(MERGED);
    put_return(MERGED + 2);
}

/* Blocks 1, 2 with call 3, 4 with call 5, and 6; `other` is the number of the second arm. */
static void put_merged_probes(uint8_t other)
{
    put_node("f", 4, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_probe(2, PSEUDOPROBE_BLOCK, 2);
    put_probe(other, PSEUDOPROBE_BLOCK, OTHER_ARM - 2);
    put_probe(6, PSEUDOPROBE_BLOCK, MERGED + 2 - OTHER_ARM);
}

static address_range merged_ranges[] = {{0, OTHER_ARM - JUMP_SIZE, 30},
                                        {OTHER_ARM, MERGED, 10},
                                        {MERGED, MERGED, 30},
                                        {MERGED + 2, MERGED + 2, 40}};
static address_branch merged_branches[] = {{MERGED, CALLEE, 40}};

static void merged_call_counts_as_the_missing_numbers(void **state)
{
    (void)state;
    add_merged_call(2);
    put_merged_probes(4);
    correlate_tally t = expect(merged_ranges, 4, merged_branches, 1,
                               "f:150:30\n 1: 30\n 2: 30\n 3: 30 g:30\n 4: 10\n 5: 10 g:10\n"
                               " 6: 40\n !CFGChecksum: 562949953421323\n");
    assert_int_equal(t.calls_placed, 40);
}

static void merged_call_has_no_number_by_the_rules_of_llvm_profgen(void **state)
{
    (void)state;
    add_merged_call(2);
    put_merged_probes(4);
    fake.info.probe_section = bytes_span(&probe_section);
    fake.info.probe_desc_section = bytes_span(&desc_section);
    correlate_tally t =
        expect_of(correlate_probes, CORRELATE_PROFGEN, merged_ranges, 4, merged_branches, 1,
                  "f:110:30\n 1: 30\n 2: 30\n 4: 10\n 6: 40\n"
                  " !CFGChecksum: 562949953421323\n");
    assert_int_equal(t.calls_placed, 0);
}

static void number_that_is_there_is_none_of_a_lost_call(void **state)
{
    (void)state;
    add_merged_call(2);
    put_merged_probes(5); /* 6 is there */
    correlate_tally t = expect(merged_ranges, 4, merged_branches, 1,
                               "f:140:30\n 1: 30\n 2: 30\n 3: 30 g:30\n 5: 10\n 6: 40\n"
                               " !CFGChecksum: 562949953421323\n");
    assert_int_equal(t.calls_placed, 30);
}

static void number_behind_all_is_none_of_a_lost_call(void **state)
{
    (void)state;
    add_merged_call(2);
    put_merged_probes(7);
    correlate_tally t = expect(merged_ranges, 4, merged_branches, 1,
                               "f:140:30\n 1: 30\n 2: 30\n 3: 30 g:30\n 6: 40\n 7: 10\n"
                               " !CFGChecksum: 562949953421323\n");
    assert_int_equal(t.calls_placed, 30);
}

static void checksum_tells_that_no_call_is_lost(void **state)
{
    (void)state;
    add_merged_call(0);
    put_merged_probes(4);
    correlate_tally t = expect(merged_ranges, 4, merged_branches, 1,
                               "f:110:30\n 1: 30\n 2: 30\n 4: 10\n 6: 40\n !CFGChecksum: 11\n");
    assert_int_equal(t.calls_placed, 0);
}

static void inlined_calls_are_no_lost_ones(void **state)
{
    (void)state;
    add_merged_call(2);
    describe("g", 22);
    put_node("f", 4, 2);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_probe(2, PSEUDOPROBE_BLOCK, 2);
    put_probe(4, PSEUDOPROBE_BLOCK, OTHER_ARM - 2);
    put_probe(6, PSEUDOPROBE_BLOCK, MERGED + 2 - OTHER_ARM);
    put_inlined(3, "g", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_inlined(5, "g", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    correlate_tally t = expect(merged_ranges, 4, merged_branches, 1,
                               "f:190:30\n 1: 30\n 2: 30\n 4: 10\n 6: 40\n"
                               " 3: g:40\n  1: 40\n  !CFGChecksum: 22\n"
                               " 5: g:40\n  1: 40\n  !CFGChecksum: 22\n"
                               " !CFGChecksum: 562949953421323\n");
    assert_int_equal(t.calls_placed, 0);
}

static void functions_that_are_not_described_are_left_out(void **state)
{
    (void)state;
    f = function_at("f", 0);
    add_procedure(&f, 0, 10);
    put_node("f", 1, 1);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_inlined(7, "g", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 4);
    address_range ranges[] = {{0, 9, 4}};
    correlate_tally t = expect(ranges, 1, NULL, 0, "");
    assert_int_equal(t.functions, 0);
    assert_int_equal(t.functions_left_out, 1);
}

static void damage_and_probes_without_a_place_are_counted(void **state)
{
    (void)state;
    add_two_functions();
    put_node("f", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    put_node("elsewhere", 1, 0);
    put_probe(1, PSEUDOPROBE_BLOCK, 0);
    bytes_u8(&probe_section, 0xff);
    address_range ranges[] = {{0, 9, 4}};
    correlate_tally t = expect(ranges, 1, NULL, 0, "f:4:4\n 1: 4\n !CFGChecksum: 11\n");
    assert_int_equal(t.probes_unplaced, 1);
    assert_int_equal(t.probe_findings, 1);
}

int main(void)
{
#define RULE(test) cmocka_unit_test_setup(test, set_up_sections)
    const struct CMUnitTest tests[] = {
        RULE(blocks_count_what_runs_at_their_probe),
        RULE(copies_of_a_probe_add_up),
        RULE(inlined_functions_are_nested),
        RULE(inlined_function_without_a_call_probe_stands_at_the_top),
        RULE(stray_probes_count_for_functions_with_samples),
        RULE(stray_probes_of_others_are_left_out),
        RULE(calls_are_counted_at_the_first_call_probe),
        RULE(merged_call_counts_as_the_missing_numbers),
        RULE(merged_call_has_no_number_by_the_rules_of_llvm_profgen),
        RULE(number_that_is_there_is_none_of_a_lost_call),
        RULE(number_behind_all_is_none_of_a_lost_call),
        RULE(checksum_tells_that_no_call_is_lost),
        RULE(inlined_calls_are_no_lost_ones),
        RULE(functions_that_are_not_described_are_left_out),
        RULE(damage_and_probes_without_a_place_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, free_sections);
}
