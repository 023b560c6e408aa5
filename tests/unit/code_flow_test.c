/* Blocks and edges of functions, by what ends a block and what the caller knows. */
#include "code_build.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* The graph of all bytes of x64 code, as text, and whether it is simple. */
static void check(const uint8_t *bytes, size_t size, const flow_hints *hints, bool is_simple,
                  const char *expected)
{
    code_fixture *f = code_fixture_new(CODE_X64, bytes, size);
    assert_int_equal(code_fixture_graph(f, (uint32_t)size, hints), SPGO_OK);
    assert_string_equal(code_fixture_text(f), expected);
    assert_int_equal(f->g.is_simple, is_simple);
    code_fixture_free(f);
}

/* ------------------------------------------------------------------ blocks */

static void return_is_one_block(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x31, 0xc0, 0xc3};
    code_fixture *f = code_fixture_new(CODE_X64, code, sizeof(code));
    assert_int_equal(code_fixture_graph(f, sizeof(code), NULL), SPGO_OK);
    assert_int_equal(f->g.block_count, 1);
    assert_int_equal(f->g.edge_count, 0);
    assert_int_equal(f->g.entry, 0);
    const flow_block *b = f->g.blocks;
    assert_int_equal(b->begin_rva, 0x1000);
    assert_int_equal(b->end_rva, 0x1003);
    assert_int_equal(b->last_rva, 0x1002);
    assert_int_equal(b->instruction_count, 2);
    assert_int_equal(b->flags, FLOW_ENTRY | FLOW_EXIT);
    code_fixture_free(f);
}

static void branch_falls_through_and_is_taken(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x85, 0xff, /* 1000 test edi, edi */
        0x74, 0x03, /* 1002 je 1007 */
        0x31, 0xc0, /* 1004 xor eax, eax */
        0x90,       /* 1006 nop */
        0xc3,       /* 1007 ret */
    };
    check(code, sizeof(code), NULL, true, "1000 E f1004 t1007\n1004 f1007\n1007 X\n");
}

static void branch_to_the_next_instruction_has_both_edges(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x74, 0x00, 0xc3};
    check(code, sizeof(code), NULL, true, "1000 E f1002 t1002\n1002 X\n");
}

static void loop_goes_back_to_the_middle(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x31, 0xc0, /* 1000 xor eax, eax */
        0xff, 0xc0, /* 1002 inc eax */
        0x75, 0xfc, /* 1004 jne 1002 */
        0xc3,       /* 1006 ret */
    };
    check(code, sizeof(code), NULL, true, "1000 E f1002\n1002 t1002 f1006\n1006 X\n");
}

static void call_ends_no_block(void **state)
{
    (void)state;
    static const uint8_t code[] = {0xe8, 0x00, 0x10, 0x00, 0x00, 0xff, 0xd0, 0xc3};
    check(code, sizeof(code), NULL, true, "1000 EX\n");
}

static void call_before_int3_does_not_return(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x74, 0x06,                   /* 1000 je 1008 */
        0xe8, 0x00, 0x10, 0x00, 0x00, /* 1002 call 2007 */
        0xcc,                         /* 1007 int3 */
        0xc3,                         /* 1008 ret */
    };
    check(code, sizeof(code), NULL, true, "1000 E f1002 t1008\n1002 N\n1008 X\n");
}

static void call_at_the_end_does_not_return(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x74, 0x02, 0xff, 0xd0};
    check(code, 2 + 2, NULL, true, "1000 EX f1002\n1002 N\n");
}

static void call_of_what_never_returns(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x74, 0x06, 0xe8, 0xf9, 0x0f, 0x00, 0x00, 0x90, 0xc3};
    static const uint32_t no_return[] = {0x1000, 0x2000, 0x3000};
    const flow_hints hints = {.no_return = no_return, .no_return_count = 3};
    check(code, sizeof(code), &hints, true, "1000 E f1002 t1008\n1002 N\n1008 X\n");
    check(code, sizeof(code), NULL, true, "1000 E f1002 t1008\n1002 f1008\n1008 X\n");
}

static void trap_ends_a_block(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x74, 0x02, 0xcd, 0x29, 0x0f, 0x0b};
    check(code, sizeof(code), NULL, true, "1000 E f1002 t1004\n1002 N\n1004 N\n");
}

static void jump_out_of_the_function_is_a_tail_call(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x0f, 0x84, 0x00, 0x10, 0x00, 0x00,
                                   0xe9, 0x00, 0x10, 0x00, 0x00};
    check(code, sizeof(code), NULL, true, "1000 EX f1006\n1006 X\n");
}

static void jump_through_a_variable_is_a_tail_call(void **state)
{
    (void)state;
    static const uint8_t import[] = {0xff, 0x25, 0x00, 0x10, 0x00, 0x00};
    static const uint8_t method[] = {0x48, 0x8b, 0x07, 0xff, 0x60, 0x18};
    static const uint8_t argument[] = {0xff, 0xe7};
    check(import, sizeof(import), NULL, true, "1000 EX\n");
    check(method, sizeof(method), NULL, true, "1000 EX\n");
    check(argument, sizeof(argument), NULL, true, "1000 EX\n");
}

static void padding_and_what_nothing_reaches_is_in_no_block(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0xeb, 0x03,       /* 1000 jmp 1005 */
        0x0f, 0x1f, 0x00, /* 1002 nop */
        0xc3,             /* 1005 ret */
        0x31, 0xc0, 0xc3, /* 1006 xor eax, eax; ret */
        0xcc, 0xcc,
    };
    code_fixture *f = code_fixture_new(CODE_X64, code, sizeof(code));
    assert_int_equal(code_fixture_graph(f, sizeof(code), NULL), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 E t1005\n1005 X\n");
    assert_int_equal(flow_block_at(&f->g, 0xfff), FLOW_NONE);
    assert_int_equal(flow_block_at(&f->g, 0x1001), 0);
    assert_int_equal(flow_block_at(&f->g, 0x1002), FLOW_NONE);
    assert_int_equal(flow_block_at(&f->g, 0x1005), 1);
    assert_int_equal(flow_block_at(&f->g, 0x1006), FLOW_NONE);
    code_fixture_free(f);
}

static void code_that_runs_out_of_the_function_leaves_it(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x31, 0xc0, 0xc3};
    code_fixture *f = code_fixture_new(CODE_X64, code, sizeof(code));
    assert_int_equal(code_fixture_graph(f, 2, NULL), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 EX\n");
    assert_true(f->g.is_simple);
    code_fixture_free(f);
}

/* ------------------------------------------------------------------ extents */

static const uint8_t two_pieces[] = {
    0xc3,             /* 1000 ret */
    0x90, 0x90, 0x90, /* another function's */
    0x74, 0x02,       /* 1004 je 1008 */
    0x90,             /* 1006 nop */
    0xc3,             /* 1007 ret */
    0xeb, 0xf6,       /* 1008 jmp 1000 */
};

static void pieces_are_one_function(void **state)
{
    (void)state;
    code_fixture *f = code_fixture_new(CODE_X64, two_pieces, sizeof(two_pieces));
    const flow_extent extents[] = {{0x1000, 0x1001}, {0x1004, 0x1006}, {0x1006, 0x100a}};
    assert_int_equal(flow_graph_build(f->d, 0x1004, extents, 3, NULL, f->mem, &f->g, &f->err),
                     SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 X\n1004 E f1006 t1008\n1006 X\n1008 t1000\n");
    assert_int_equal(f->g.entry, 1);
    code_fixture_free(f);
}

static void extents_out_of_order_are_refused(void **state)
{
    (void)state;
    code_fixture *f = code_fixture_new(CODE_X64, two_pieces, sizeof(two_pieces));
    static const flow_extent bad[][2] = {{{0x1004, 0x1008}, {0x1000, 0x1001}},
                                         {{0x1000, 0x1005}, {0x1004, 0x1008}},
                                         {{0x1000, 0x1001}, {0x1004, 0x1004}}};
    static const uint64_t offsets[] = {0x1000, 0x1004, 0x1004};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(flow_graph_build(f->d, 0x1000, bad[i], 2, NULL, f->mem, &f->g, &f->err),
                         SPGO_USAGE);
        assert_int_equal(f->err.offset, offsets[i]);
    }
    code_fixture_free(f);
}

static void entry_without_bytes_is_not_found(void **state)
{
    (void)state;
    code_fixture *f = code_fixture_new(CODE_X64, two_pieces, sizeof(two_pieces));
    const flow_extent outside = {0x1004, 0x1008}, beyond = {0x100a, 0x2000};
    assert_int_equal(flow_graph_build(f->d, 0x1000, &outside, 1, NULL, f->mem, &f->g, &f->err),
                     SPGO_NOT_FOUND);
    assert_int_equal(f->err.offset, 0x1000);
    assert_int_equal(flow_graph_build(f->d, 0x100a, &beyond, 1, NULL, f->mem, &f->g, &f->err),
                     SPGO_NOT_FOUND);
    assert_int_equal(flow_graph_build(f->d, 0x1000, NULL, 0, NULL, f->mem, &f->g, &f->err),
                     SPGO_NOT_FOUND);
    assert_int_equal(f->g.block_count, 0);
    code_fixture_free(f);
}

static void extents_of_64_mib_are_too_many(void **state)
{
    (void)state;
    static const uint8_t nothing[1];
    code_fixture *f = code_fixture_new(CODE_X64, nothing, 0);
    size_t size = (size_t)FLOW_INSTRUCTIONS_MAX * 16 + 1;
    uint8_t *zeros = calloc(size, 1);
    assert_non_null(zeros);
    f->segment.bytes = (spgo_span){zeros, size};
    assert_int_equal(code_fixture_graph(f, (uint32_t)size, NULL), SPGO_LIMIT);
    code_fixture_free(f);
    free(zeros);
}

static void too_many_instructions_are_a_limit(void **state)
{
    (void)state;
    static const uint8_t nothing[1];
    code_fixture *f = code_fixture_new(CODE_X64, nothing, 0);
    size_t size = (size_t)FLOW_INSTRUCTIONS_MAX + 1;
    uint8_t *nops = malloc(size);
    assert_non_null(nops);
    memset(nops, 0x90, size);
    f->segment.bytes = (spgo_span){nops, size};
    assert_int_equal(code_fixture_graph(f, (uint32_t)size, NULL), SPGO_LIMIT);
    assert_int_equal(f->err.offset, CODE_RVA + FLOW_INSTRUCTIONS_MAX);
    assert_int_equal(code_fixture_graph(f, (uint32_t)size - 1, NULL), SPGO_OK);
    assert_int_equal(f->g.instruction_count, FLOW_INSTRUCTIONS_MAX);
    code_fixture_free(f);
    free(nops);
}

/* ------------------------------------------------------------------ not simple */

static void branch_into_an_instruction(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x74, 0x01,                   /* 1000 je 1003 */
        0xb8, 0x90, 0x90, 0x90, 0xc3, /* 1002 mov eax, ... */
        0xc3,                         /* 1007 ret */
    };
    check(code, sizeof(code), NULL, false, "1000 EU f1002\n1002 X\n");
}

static void bytes_that_make_no_instruction(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x74, 0x01, /* 1000 je 1003 */
        0x90,       /* 1002 nop */
        0x06,       /* 1003 nothing */
    };
    check(code, sizeof(code), NULL, false, "1000 EU f1002\n1002 U\n");
}

static void instruction_that_ends_outside(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x90, 0xb8, 1, 2, 3, 4, 0xc3};
    code_fixture *f = code_fixture_new(CODE_X64, code, sizeof(code));
    assert_int_equal(code_fixture_graph(f, 3, NULL), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 EU\n");
    assert_false(f->g.is_simple);
    code_fixture_free(f);
}

static void entry_that_is_no_instruction_is_corrupt(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x06, 0xc3};
    code_fixture *f = code_fixture_new(CODE_X64, code, sizeof(code));
    assert_int_equal(code_fixture_graph(f, sizeof(code), NULL), SPGO_CORRUPT);
    assert_int_equal(f->err.offset, 0x1000);
    code_fixture_free(f);
}

/* ------------------------------------------------------------------ hints */

/* 1000: a jump of which nothing can be told by evaluation. */
static const uint8_t puzzle[] = {
    0x48, 0x0f, 0xaf, 0xc7, /* 1000 imul rax, rdi */
    0xff, 0xe0,             /* 1004 jmp rax */
    0xff, 0xc0,             /* 1006 inc eax */
    0xc3,                   /* 1008 ret */
    0xcc,                   /* 1009 int3 */
    0xff, 0xc8,             /* 100a dec eax */
    0xc3,                   /* 100c ret */
    0x06, 0x0a, 0xff, 0x20, /* 100d a table of bytes */
};
enum { PUZZLE_SIZE = 0xd };

static void unknown_jump_reaches_whatever_is_left(void **state)
{
    (void)state;
    code_fixture *f = code_fixture_new(CODE_X64, puzzle, sizeof(puzzle));
    assert_int_equal(code_fixture_graph(f, PUZZLE_SIZE, NULL), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 EU\n1006 XL\n100a XL\n");
    assert_false(f->g.is_simple);
    code_fixture_free(f);
}

static void observed_targets_are_edges(void **state)
{
    (void)state;
    static const flow_branch branches[] = {
        {0x1000, 0x1008}, {0x1004, 0x1006}, {0x1004, 0x9000}, {0x1008, 0x100a}};
    const flow_hints hints = {.branches = branches, .branch_count = COUNT(branches)};
    code_fixture *f = code_fixture_new(CODE_X64, puzzle, sizeof(puzzle));
    assert_int_equal(code_fixture_graph(f, PUZZLE_SIZE, &hints), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 EXU o1006\n1006 X\n100a XL\n");
    assert_false(f->g.is_simple);
    code_fixture_free(f);
}

static void jump_that_was_only_seen_to_leave_is_a_tail_call(void **state)
{
    (void)state;
    static const flow_branch branches[] = {{0x1004, 0x9000}};
    const flow_hints hints = {.branches = branches, .branch_count = 1};
    code_fixture *f = code_fixture_new(CODE_X64, puzzle, sizeof(puzzle));
    assert_int_equal(code_fixture_graph(f, PUZZLE_SIZE, &hints), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 EX\n");
    assert_true(f->g.is_simple);
    code_fixture_free(f);
}

static void described_table_has_all_targets(void **state)
{
    (void)state;
    static const flow_table tables[] = {{.branch_rva = 0x1004,
                                         .base_rva = 0x1000,
                                         .table_rva = 0x100d,
                                         .entry_count = 2,
                                         .entry_size = 1}};
    const flow_hints hints = {.tables = tables, .table_count = 1};
    code_fixture *f = code_fixture_new(CODE_X64, puzzle, sizeof(puzzle));
    assert_int_equal(code_fixture_graph(f, PUZZLE_SIZE, &hints), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 E s1006 s100a\n1006 X\n100a X\n");
    assert_true(f->g.is_simple);
    code_fixture_free(f);
}

static void observed_target_that_no_table_has_contradicts_it(void **state)
{
    (void)state;
    static const flow_table tables[] = {{.branch_rva = 0x1004,
                                         .base_rva = 0x1000,
                                         .table_rva = 0x100d,
                                         .entry_count = 1,
                                         .entry_size = 1}};
    static const flow_branch branches[] = {{0x1004, 0x1006}, {0x1004, 0x100a}};
    const flow_hints hints = {
        .tables = tables, .table_count = 1, .branches = branches, .branch_count = 2};
    code_fixture *f = code_fixture_new(CODE_X64, puzzle, sizeof(puzzle));
    assert_int_equal(code_fixture_graph(f, PUZZLE_SIZE, &hints), SPGO_OK);
    assert_string_equal(code_fixture_text(f), "1000 EU s1006 o100a\n1006 X\n100a X\n");
    assert_false(f->g.is_simple);
    code_fixture_free(f);
}

/* Entries that lead nowhere, a table that is cut, an entry of a size that none has. */
static void described_tables_may_be_wrong(void **state)
{
    (void)state;
    static const flow_table bad[] = {
        {.base_rva = 0x1000, .table_rva = 0x100d, .entry_count = 3, .entry_size = 1},
        {.base_rva = 0x1000, .table_rva = 0x100d, .entry_count = 5, .entry_size = 1},
        {.base_rva = 0x1000, .table_rva = 0x100d, .entry_count = 1, .entry_size = 3},
        {.base_rva = 0x1000, .table_rva = 0x8000, .entry_count = 1, .entry_size = 1},
        {.base_rva = 0x1000, .table_rva = 0x100d, .entry_count = 0, .entry_size = 1},
        {.base_rva = 0x1000, .table_rva = 0x100d, .entry_count = UINT32_MAX, .entry_size = 8},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        flow_table t = bad[i];
        t.branch_rva = 0x1004;
        const flow_hints hints = {.tables = &t, .table_count = 1};
        code_fixture *f = code_fixture_new(CODE_X64, puzzle, sizeof(puzzle));
        assert_int_equal(code_fixture_graph(f, PUZZLE_SIZE, &hints), SPGO_OK);
        assert_false(f->g.is_simple);
        assert_true(f->g.blocks[0].flags & FLOW_UNKNOWN_EXIT);
        code_fixture_free(f);
    }
}

/* What cannot happen goes to the end of the function. */
static void entry_at_the_end_is_no_target(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x48, 0x0f, 0xaf, 0xc7, 0xff, 0xe0, 0xc3, 0x06, 0x07, 0x08};
    static const flow_table t = {.branch_rva = 0x1004,
                                 .base_rva = 0x1000,
                                 .table_rva = 0x1007,
                                 .entry_count = 2,
                                 .entry_size = 1};
    flow_table beyond = t;
    beyond.entry_count = 3;
    const flow_hints hints[] = {{.tables = &t, .table_count = 1},
                                {.tables = &beyond, .table_count = 1}};
    static const char *const expected[] = {"1000 E s1006\n1006 X\n", "1000 EX s1006\n1006 X\n"};
    for (size_t i = 0; i < COUNT(hints); i++) {
        code_fixture *f = code_fixture_new(CODE_X64, code, sizeof(code));
        assert_int_equal(code_fixture_graph(f, 7, &hints[i]), SPGO_OK);
        assert_string_equal(code_fixture_text(f), expected[i]);
        assert_true(f->g.is_simple);
        code_fixture_free(f);
    }
}

static void named_leader_is_a_landing(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x74, 0x02, /* 1000 je 1004 */
        0x90,       /* 1002 nop */
        0x90,       /* 1003 nop */
        0x90,       /* 1004 nop */
        0xc3,       /* 1005 ret */
        0x31, 0xc0, /* 1006 xor eax, eax */
        0xc3,       /* 1008 ret */
    };
    /* Outside; a leader anyway; in the middle of a block; one that nothing else leads to. */
    static const uint32_t leaders[] = {0x10, 0x1002, 0x1003, 0x1004, 0x1006, 0x9000};
    const flow_hints hints = {.leaders = leaders, .leader_count = COUNT(leaders)};
    check(code, sizeof(code), &hints, true,
          "1000 E f1002 t1004\n1002 f1003\n1003 L f1004\n1004 X\n1006 XL\n");
}

static void named_leader_within_an_instruction_is_not_simple(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x31, 0xc0, 0xc3};
    static const uint32_t leaders[] = {0x1001};
    const flow_hints hints = {.leaders = leaders, .leader_count = 1};
    check(code, sizeof(code), &hints, false, "1000 EX\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(return_is_one_block),
        cmocka_unit_test(branch_falls_through_and_is_taken),
        cmocka_unit_test(branch_to_the_next_instruction_has_both_edges),
        cmocka_unit_test(loop_goes_back_to_the_middle),
        cmocka_unit_test(call_ends_no_block),
        cmocka_unit_test(call_before_int3_does_not_return),
        cmocka_unit_test(call_at_the_end_does_not_return),
        cmocka_unit_test(call_of_what_never_returns),
        cmocka_unit_test(trap_ends_a_block),
        cmocka_unit_test(jump_out_of_the_function_is_a_tail_call),
        cmocka_unit_test(jump_through_a_variable_is_a_tail_call),
        cmocka_unit_test(padding_and_what_nothing_reaches_is_in_no_block),
        cmocka_unit_test(code_that_runs_out_of_the_function_leaves_it),
        cmocka_unit_test(pieces_are_one_function),
        cmocka_unit_test(extents_out_of_order_are_refused),
        cmocka_unit_test(entry_without_bytes_is_not_found),
        cmocka_unit_test(extents_of_64_mib_are_too_many),
        cmocka_unit_test(too_many_instructions_are_a_limit),
        cmocka_unit_test(branch_into_an_instruction),
        cmocka_unit_test(bytes_that_make_no_instruction),
        cmocka_unit_test(instruction_that_ends_outside),
        cmocka_unit_test(entry_that_is_no_instruction_is_corrupt),
        cmocka_unit_test(unknown_jump_reaches_whatever_is_left),
        cmocka_unit_test(observed_targets_are_edges),
        cmocka_unit_test(jump_that_was_only_seen_to_leave_is_a_tail_call),
        cmocka_unit_test(described_table_has_all_targets),
        cmocka_unit_test(observed_target_that_no_table_has_contradicts_it),
        cmocka_unit_test(described_tables_may_be_wrong),
        cmocka_unit_test(entry_at_the_end_is_no_target),
        cmocka_unit_test(named_leader_is_a_landing),
        cmocka_unit_test(named_leader_within_an_instruction_is_not_simple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
