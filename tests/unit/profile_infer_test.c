/* Inference on made-up programs: what becomes known of blocks, jumps and calls, and what stays as
 * it was measured. */
#include "profile_fake.h"

#include <math.h>
#include <stdio.h>

#include <profile/infer.h>

const symbol_procedure *symbols_procedure_at(symbols *s, uint32_t rva)
{
    for (size_t i = 0; i < s->procedure_count; i++) {
        if (rva >= s->pieces[i].begin_rva && rva < s->pieces[i].end_rva)
            return &s->procedures[i];
    }
    return NULL;
}

flow_hints symbols_flow_hints(symbols *s, const symbol_procedure *p)
{
    (void)s;
    (void)p;
    return (flow_hints){0};
}

enum { TIMER_KIND = 5 };

typedef struct result {
    address_profile counts;
    address_tally addresses;
    infer_tally tally;
    code_decoder *d;
} result;

static void put_code(uint32_t rva, const char *hex)
{
    for (; *hex; hex += 2 + (hex[2] == ' ')) {
        char byte[3] = {hex[0], hex[1], '\0'};
        code_bytes[rva++] = (uint8_t)strtoul(byte, NULL, 16);
    }
}

static void open_code(result *r)
{
    if (!code_can_decode(CODE_X64))
        skip();
    assert_int_equal(code_decoder_new(&fake.image, &r->d, NULL), SPGO_OK);
}

static void close_result(result *r)
{
    address_profile_free(&r->counts);
    code_decoder_free(r->d);
}

typedef struct hit {
    uint32_t rva;
    uint64_t count;
} hit;

static result from_ips(const hit *hits, size_t count, const flow_branch *arcs, size_t arc_count,
                       infer_observer *observe, void *ctx)
{
    result r = {0};
    samples_program program = {.name = text("made-up")};
    spgo_error err = {0};
    open_code(&r);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = hits[i].rva;
        counts_add(&program.ips[TIMER_KIND], &key, 1, hits[i].count);
        program.ip_hits[TIMER_KIND] += hits[i].count;
    }
    for (size_t i = 0; i < arc_count; i++) {
        uint64_t key = samples_pair(arcs[i].from_rva, arcs[i].to_rva);
        counts_add(&program.arcs, &key, 1, 1);
    }
    if (infer_from_ips(&program, 1u << TIMER_KIND, &fake, r.d, &r.counts, &r.addresses, &r.tally,
                       observe, ctx, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    counts_free(&program.ips[TIMER_KIND]);
    counts_free(&program.arcs);
    return r;
}

static result repair(const address_range *ranges, size_t range_count,
                     const address_branch *branches, size_t branch_count)
{
    result r = {0};
    spgo_error err = {0};
    open_code(&r);
    r.counts.ranges = malloc((range_count + 1) * sizeof *ranges);
    r.counts.branches = malloc((branch_count + 1) * sizeof *branches);
    assert_true(r.counts.ranges && r.counts.branches);
    if (range_count)
        memcpy(r.counts.ranges, ranges, range_count * sizeof *ranges);
    if (branch_count)
        memcpy(r.counts.branches, branches, branch_count * sizeof *branches);
    r.counts.range_count = range_count;
    r.counts.branch_count = branch_count;
    if (infer_repair(&r.counts, &fake, r.d, &r.tally, NULL, NULL, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return r;
}

/* The whole of a result as text: ranges, then branches. */
static void expect(result *r, const char *wanted)
{
    char got[1024] = "";
    size_t at = 0;
    for (size_t i = 0; i < r->counts.range_count; i++) {
        const address_range *a = &r->counts.ranges[i];
        at += (size_t)snprintf(got + at, sizeof got - at, "%x-%x:%llu ", a->begin_rva, a->last_rva,
                               (unsigned long long)a->count);
    }
    for (size_t i = 0; i < r->counts.branch_count; i++) {
        const address_branch *b = &r->counts.branches[i];
        at += (size_t)snprintf(got + at, sizeof got - at, "%x>%x:%llu ", b->from_rva, b->to_rva,
                               (unsigned long long)b->count);
    }
    assert_string_equal(got, wanted);
    close_result(r);
}

/*
 *   100 test edi, edi
 *   102 je 109
 *   104 call 200
 *   109 ret
 */
static void add_branching(void)
{
    static symbol_function f, g;
    f = function_at("f", 1);
    g = function_at("g", 9);
    put_code(0x100, "85 ff 74 05 e8 f7 00 00 00 c3");
    put_code(0x200, "c3");
    add_procedure(&f, 0x100, 0x10a);
    add_procedure(&g, 0x200, 0x201);
}

/* ------------------------------------------------------------------ instruction pointers */

static void hits_become_executions(void **state)
{
    (void)state;
    add_branching();
    const hit hits[] = {{0x100, 12}, {0x102, 8}, {0x104, 4}, {0x109, 8}};
    result r = from_ips(hits, 4, NULL, 0, NULL, NULL);
    assert_int_equal(r.tally.procedures, 1);
    assert_int_equal(r.tally.procedures_simple, 1);
    assert_int_equal(r.tally.blocks, 3);
    assert_int_equal(r.tally.blocks_measured, 3);
    assert_int_equal(r.tally.blocks_after, 3);
    assert_true(fabs(r.tally.flow_gap_before - 2.0 / 24) < 1e-9);
    assert_true(r.tally.flow_gap_after == 0);
    expect(&r, "100-102:10000 104-104:4000 109-109:10000 "
               "0>100:10000 102>109:6000 104>200:4000 ");
}

/* What calls a function explains its entries, as far as it goes. */
static void entries_without_a_caller_come_from_outside(void **state)
{
    (void)state;
    add_branching();
    const hit hits[] = {{0x100, 10}, {0x102, 10}, {0x104, 4}, {0x109, 10}, {0x200, 7}};
    result r = from_ips(hits, 5, NULL, 0, NULL, NULL);
    assert_int_equal(r.tally.procedures, 2);
    expect(&r, "100-102:10000 104-104:4000 109-109:10000 200-200:7000 "
               "0>100:10000 0>200:3000 102>109:6000 104>200:4000 ");
}

/* 100 test edi, edi; 102 je 105; 104 ret; 105 ud2 */
static void traps_are_not_reached_unless_hit(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 1);
    put_code(0x100, "85 ff 74 01 c3 0f 0b");
    add_procedure(&f, 0x100, 0x107);
    const hit hits[] = {{0x100, 10}, {0x102, 10}, {0x104, 10}};
    result r = from_ips(hits, 3, NULL, 0, NULL, NULL);
    expect(&r, "100-102:10000 104-104:10000 0>100:10000 ");
    const hit fatal[] = {{0x100, 10}, {0x102, 10}, {0x105, 10}};
    r = from_ips(fatal, 3, NULL, 0, NULL, NULL);
    expect(&r, "100-102:10000 105-105:10000 0>100:10000 102>105:10000 ");
}

/* 100 jmp 200 */
static void jumps_to_other_functions_are_calls(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 1), g = function_at("g", 9);
    put_code(0x100, "e9 fb 00 00 00");
    put_code(0x200, "c3");
    add_procedure(&f, 0x100, 0x105);
    add_procedure(&g, 0x200, 0x201);
    const hit hits[] = {{0x100, 3}};
    result r = from_ips(hits, 1, NULL, 0, NULL, NULL);
    expect(&r, "100-100:3000 0>100:3000 100>200:3000 ");
}

static void calls_of_thunks_reach_their_targets(void **state)
{
    (void)state;
    add_branching();
    symbol_function h = function_at("h", 20);
    put_code(0x200, "e9 fb 00 00 00");
    put_code(0x300, "c3");
    fake.pieces[1].end_rva = 0x205;
    fake.procedures[1].flags = SYMBOL_THUNK;
    fake.procedures[1].thunk_target_rva = 0x300;
    add_procedure(&h, 0x300, 0x301);
    const hit hits[] = {{0x104, 5}};
    result r = from_ips(hits, 1, NULL, 0, NULL, NULL);
    bool found = false;
    for (size_t i = 0; i < r.counts.branch_count; i++) {
        assert_int_not_equal(r.counts.branches[i].to_rva, 0x200);
        found |= r.counts.branches[i].from_rva == 0x104 && r.counts.branches[i].to_rva == 0x300;
    }
    assert_true(found);
    close_result(&r);
}

/* 100 jmp rax; 110 ret; 120 ret: the first is known from branch records, the other is not. */
static void observed_branches_tell_where_indirect_jumps_go(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 1);
    put_code(0x100, "ff e0");
    put_code(0x110, "c3");
    put_code(0x120, "c3");
    add_procedure(&f, 0x100, 0x121);
    const hit hits[] = {{0x100, 5}, {0x110, 5}, {0x120, 2}};
    const flow_branch arcs[] = {{0x100, 0x110}};
    result r = from_ips(hits, 3, arcs, 1, NULL, NULL);
    assert_int_equal(r.tally.procedures_simple, 0);
    /* What no block holds stays as it was. */
    expect(&r, "100-100:5000 110-110:5000 120-120:2000 0>100:5000 100>110:5000 ");
}

static void a_share_of_a_hit_is_more_than_nothing(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 1);
    put_code(0x100 + 3000, "c3");
    add_procedure(&f, 0x100, 0x100 + 3001);
    const hit hits[] = {{0x200, 1}};
    result r = from_ips(hits, 1, NULL, 0, NULL, NULL);
    expect(&r, "100-cb8:1 0>100:1 ");
}

static void hits_beyond_all_measure_do_not_overflow(void **state)
{
    (void)state;
    add_branching();
    const hit hits[] = {{0x100, UINT64_MAX / 2},
                        {0x102, UINT64_MAX / 2},
                        {0x104, UINT64_MAX / 4},
                        {0x109, UINT64_MAX / 2}};
    result r = from_ips(hits, 4, NULL, 0, NULL, NULL);
    assert_int_equal(r.counts.range_count, 3);
    uint64_t first = r.counts.ranges[0].count, half = r.counts.ranges[1].count;
    assert_true(first >> 63 == 0 && first > (uint64_t)1 << 56);
    assert_true(half > first / 100 * 49 && half < first / 100 * 51);
    assert_true(r.counts.ranges[2].count == first);
    close_result(&r);
}

typedef struct seen {
    size_t calls;
    uint64_t weight, flow;
} seen;

static void observe(void *ctx, const symbol_procedure *p, const flow_graph *graph,
                    const inference_graph *flows)
{
    seen *s = ctx;
    s->calls++;
    assert_int_equal(p->entry_rva, 0x100);
    assert_int_equal(graph->block_count, flows->block_count);
    assert_int_equal(graph->edge_count, flows->jump_count);
    s->weight = flows->blocks[2].weight;
    s->flow = flows->blocks[2].flow;
}

static void observers_see_weights_and_flows(void **state)
{
    (void)state;
    add_branching();
    const hit hits[] = {{0x100, 10}, {0x102, 10}, {0x109, 4}};
    seen s = {0};
    result r = from_ips(hits, 3, NULL, 0, observe, &s);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.weight, 4000);
    assert_int_equal(s.flow, r.counts.ranges[0].count);
    close_result(&r);
}

/* A procedure whose entry is in none of its pieces has no graph. */
static void what_has_no_graph_stays_as_measured(void **state)
{
    (void)state;
    add_branching();
    fake.procedures[0].entry_rva = 0x90;
    const hit hits[] = {{0x100, 1}, {0x104, 4}};
    result r = from_ips(hits, 2, NULL, 0, NULL, NULL);
    assert_int_equal(r.tally.procedures, 1);
    assert_int_equal(r.tally.procedures_left, 1);
    expect(&r, "100-100:1000 104-104:4000 ");
    const address_range ranges[] = {{0x100, 0x102, 5}};
    const address_branch branches[] = {{0x102, 0x109, 5}};
    r = repair(ranges, 1, branches, 1);
    expect(&r, "100-102:80 102>109:80 ");
}

/* ------------------------------------------------------------------ branch records */

static void consistent_counts_stay(void **state)
{
    (void)state;
    add_branching();
    const address_range ranges[] = {
        {0x100, 0x102, 6}, {0x100, 0x104, 4}, {0x109, 0x109, 10}, {0x200, 0x200, 4}};
    const address_branch branches[] = {
        {0, 0x100, 10}, {0x102, 0x109, 6}, {0x104, 0x200, 4}, {0x109, 0, 10}, {0x200, 0x109, 4}};
    result r = repair(ranges, 4, branches, 5);
    assert_true(r.tally.flow_gap_before == 0 && r.tally.flow_gap_after == 0);
    expect(&r, "100-102:160 104-104:64 109-109:160 200-200:64 "
               "0>100:160 102>109:96 104>200:64 109>0:160 200>109:64 ");
}

static void what_sparse_records_missed_is_filled_in(void **state)
{
    (void)state;
    add_branching();
    const address_range ranges[] = {{0x100, 0x102, 600}, {0x100, 0x104, 390}, {0x109, 0x109, 1100}};
    const address_branch branches[] = {{0x102, 0x109, 500}, {0x104, 0x200, 400}};
    result r = repair(ranges, 3, branches, 2);
    assert_true(r.tally.flow_gap_before > 0.03);
    assert_true(r.tally.flow_gap_after == 0);
    assert_int_equal(r.tally.scale, 16);
    assert_int_equal(r.counts.range_count, 3);
    assert_int_equal(r.counts.ranges[2].count, r.counts.ranges[0].count);
    assert_in_range(r.counts.ranges[0].count, 16 * 900, 16 * 1100);
    assert_int_equal(r.counts.branch_count, 2);
    assert_true(r.counts.branches[0].count > 16 * 500);
    assert_int_equal(r.counts.branches[0].count,
                     r.counts.ranges[0].count - r.counts.ranges[1].count);
    assert_int_equal(r.counts.branches[1].count, 16 * 400); /* a call stays as measured */
    close_result(&r);
}

/* A folded file has branches only: the call tells its block, and the flow the rest. */
static void branches_alone_tell_of_blocks(void **state)
{
    (void)state;
    add_branching();
    const address_branch branches[] = {{0x102, 0x109, 60}, {0x104, 0x200, 40}, {0x109, 0, 100}};
    result r = repair(NULL, 0, branches, 3);
    expect(&r, "100-102:1600 104-104:640 109-109:1600 "
               "102>109:960 104>200:640 109>0:1600 ");
}

/* 100 call 100; 105 ret */
static void calls_of_itself_are_no_jumps(void **state)
{
    (void)state;
    symbol_function f = function_at("f", 1);
    put_code(0x100, "e8 fb ff ff ff c3");
    add_procedure(&f, 0x100, 0x106);
    const address_range ranges[] = {{0x100, 0x100, 9}, {0x105, 0x105, 9}};
    const address_branch branches[] = {{0x100, 0x100, 8}, {0x105, 0x105, 8}};
    result r = repair(ranges, 2, branches, 2);
    expect(&r, "100-105:144 100>100:128 105>105:128 ");
}

static void nothing_gives_nothing(void **state)
{
    (void)state;
    add_branching();
    result r = repair(NULL, 0, NULL, 0);
    assert_int_equal(r.tally.procedures, 0);
    expect(&r, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(hits_become_executions, set_up),
        cmocka_unit_test_setup(entries_without_a_caller_come_from_outside, set_up),
        cmocka_unit_test_setup(traps_are_not_reached_unless_hit, set_up),
        cmocka_unit_test_setup(jumps_to_other_functions_are_calls, set_up),
        cmocka_unit_test_setup(calls_of_thunks_reach_their_targets, set_up),
        cmocka_unit_test_setup(observed_branches_tell_where_indirect_jumps_go, set_up),
        cmocka_unit_test_setup(a_share_of_a_hit_is_more_than_nothing, set_up),
        cmocka_unit_test_setup(hits_beyond_all_measure_do_not_overflow, set_up),
        cmocka_unit_test_setup(observers_see_weights_and_flows, set_up),
        cmocka_unit_test_setup(what_has_no_graph_stays_as_measured, set_up),
        cmocka_unit_test_setup(consistent_counts_stay, set_up),
        cmocka_unit_test_setup(what_sparse_records_missed_is_filled_in, set_up),
        cmocka_unit_test_setup(branches_alone_tell_of_blocks, set_up),
        cmocka_unit_test_setup(calls_of_itself_are_no_jumps, set_up),
        cmocka_unit_test_setup(nothing_gives_nothing, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
