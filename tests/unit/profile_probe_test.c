/* The rules of correlation by pseudo probes, one by one. */
#include "profile_fake.h"

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
    return expect_of(correlate_probes, ranges, range_count, branches, branch_count, wanted);
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
        RULE(functions_that_are_not_described_are_left_out),
        RULE(damage_and_probes_without_a_place_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, free_sections);
}
