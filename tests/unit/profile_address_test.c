/* From what was recorded to counts by address: what is code, what fits it, what is dropped. */
#include "profile_fake_code.h"

#include <stdio.h>

static const uint32_t F = 0x100, G = 0x200; /* two functions of 0x40 bytes */
static const symbol_function f = {.name = {"f", 1}}, g = {.name = {"g", 1}};

/*
 * f: 100 call g, 110 branch to 120, 12f return
 * g: 200 .. 23f return; 210 is in the middle of a jump at 20f to 21f
 */
static int two_functions(void **state)
{
    (void)set_up(state);
    add_procedure(&f, F, F + 0x40);
    add_procedure(&g, G, G + 0x40);
    put_call(F, G);
    put_branch(F + 0x10, F + 0x20);
    put_return(F + 0x2f);
    put_jump(G + 0xf, G + 0x1f);
    put_return(G + 0x3f);
    return 0;
}

/* "begin-last:count" of the ranges, then "from->to:count" of the branches. */
static const char *text_of(const address_profile *p)
{
    static char line[1024];
    size_t len = 0;
    line[0] = '\0';
    for (size_t i = 0; i < p->range_count; i++)
        len +=
            (size_t)snprintf(line + len, sizeof line - len, "%x-%x:%llu ", p->ranges[i].begin_rva,
                             p->ranges[i].last_rva, (unsigned long long)p->ranges[i].count);
    for (size_t i = 0; i < p->branch_count; i++)
        len +=
            (size_t)snprintf(line + len, sizeof line - len, "%x->%x:%llu ", p->branches[i].from_rva,
                             p->branches[i].to_rva, (unsigned long long)p->branches[i].count);
    return line;
}

static address_tally expect_branches(samples_program *p, const char *wanted)
{
    address_tally tally = {0};
    address_profile got;
    code_decoder *d = new_decoder();
    assert_int_equal(address_profile_from_branches(p, &fake, d, &got, &tally, NULL), SPGO_OK);
    assert_string_equal(text_of(&got), wanted);
    address_profile_free(&got);
    code_decoder_free(d);
    free_samples(p);
    return tally;
}

static void ranges_begin_and_end_at_instructions(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F + 5, F + 0x10, 3);
    add_range(&p, G + 0x10, G + 0x12, 5); /* begins in the middle of the jump */
    add_range(&p, 0x300, 0x310, 7);       /* in no function */
    add_range(&p, F + 5, F + 0x40, 11);   /* ends behind one */
    address_tally t = expect_branches(&p, "105-110:3 ");
    assert_int_equal(t.range_hits, 26);
    assert_int_equal(t.no_code_range_hits, 23);
    assert_int_equal(t.bogus_range_hits, 0);
    assert_int_equal(t.end_mismatch_hits, 0);
}

static void no_range_crosses_what_always_leaves(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F, F, 1);             /* ends with the call */
    add_range(&p, F, F + 0x10, 2);      /* crosses it */
    add_range(&p, F + 5, F + 0x2f, 4);  /* crosses the branch, which may fall through */
    add_range(&p, F + 5, F + 0x31, 8);  /* crosses the return */
    add_range(&p, G + 3, G + 0x1f, 16); /* crosses the jump */
    address_tally t = expect_branches(&p, "100-100:1 105-12f:4 ");
    assert_int_equal(t.bogus_range_hits, 26);
    assert_int_equal(t.no_code_range_hits, 0);
}

static void odd_ranges_are_kept_and_counted(void **state)
{
    (void)state;
    samples_program p = {0};
    add_range(&p, F + 5, F + 8, 1);    /* does not end with a transfer */
    add_range(&p, F + 0x30, G + 2, 2); /* over padding into another function, the same */
    address_tally t = expect_branches(&p, "105-108:1 130-202:2 ");
    assert_int_equal(t.end_mismatch_hits, 3);
    assert_int_equal(t.cross_function_hits, 2);
}

static void an_end_that_is_no_code_is_outside(void **state)
{
    (void)state;
    samples_program p = {0};
    add_arc(&p, 0x300, F, 1);            /* from no function, as from a table of jumps */
    add_arc(&p, SPGO_SPT_OUTSIDE, F, 2); /* becomes the same */
    add_arc(&p, F + 0x2f, 0x310, 4);
    add_arc(&p, F + 0x2f, SPGO_SPT_OUTSIDE, 8);
    add_arc(&p, 0x300, 0x310, 16); /* neither end */
    address_tally t = expect_branches(&p, "0->100:3 12f->0:12 ");
    assert_int_equal(t.branch_hits, 31);
    assert_int_equal(t.no_code_branch_hits, 16);
    assert_int_equal(t.source_mismatch_hits, 0);
    assert_int_equal(t.target_mismatch_hits, 0);
    assert_int_equal(t.stale_procedures, 0);
}

static void branches_that_do_not_fit_are_counted(void **state)
{
    (void)state;
    samples_program p = {0};
    add_arc(&p, F, G, 100);             /* the call */
    add_arc(&p, F, G + 1, 1);           /* goes elsewhere than it says */
    add_arc(&p, F + 5, F + 9, 2);       /* from a plain instruction */
    add_arc(&p, F + 2, F + 9, 4);       /* from the middle of the call */
    add_arc(&p, F + 0x2f, G + 0x10, 8); /* a return into the middle of the jump */
    address_tally t = expect_branches(&p, "0->109:4 100->200:100 100->201:1 105->109:2 12f->0:8 ");
    assert_int_equal(t.source_mismatch_hits, 6);
    assert_int_equal(t.target_mismatch_hits, 9);
    assert_int_equal(t.stale_procedures, 0);
}

static void a_procedure_most_of_which_does_not_fit_is_stale(void **state)
{
    (void)state;
    samples_program p = {0};
    add_arc(&p, F, G, 10);
    add_arc(&p, F + 2, F + 9, 10); /* half: not most */
    add_arc(&p, G + 1, G + 9, 10);
    add_arc(&p, G + 0xf, G + 0x1f, 9);
    address_tally t = expect_branches(&p, "0->109:10 100->200:10 201->209:10 20f->21f:9 ");
    assert_int_equal(t.stale_procedures, 1);
}

static void branches_pass_through_thunks(void **state)
{
    (void)state;
    samples_program p = {0};
    static const symbol_function thunk = {.name = {"thunk", 5}};
    add_procedure(&thunk, 0x300, 0x305);
    put_far_jump(0x300, G);
    fake.procedures[2].flags = SYMBOL_THUNK;
    fake.procedures[2].thunk_target_rva = G;
    put_call(F, 0x300);
    add_arc(&p, F, 0x300, 5); /* into the thunk */
    add_arc(&p, 0x300, G, 5); /* and out of it */
    address_tally t = expect_branches(&p, "100->200:5 ");
    assert_int_equal(t.thunk_hits, 5);
    assert_int_equal(t.target_mismatch_hits, 0);
}

static void sums_saturate(void **state)
{
    (void)state;
    samples_program p = {0};
    add_arc(&p, 0x300, F, UINT64_MAX - 1);
    add_arc(&p, SPGO_SPT_OUTSIDE, F, 5);
    address_tally t = expect_branches(&p, "0->100:18446744073709551615 ");
    assert_true(t.branch_hits == UINT64_MAX);
}

static void what_was_recorded_stays_as_it_is(void **state)
{
    (void)state;
    samples_program p = {0};
    address_profile got, copy;
    add_range(&p, F, F + 0x3f, 1);
    add_range(&p, 0x300, 0x310, 2);
    add_arc(&p, 0x300, 0x310, 3);
    add_arc(&p, SPGO_SPT_OUTSIDE, F, 4);
    assert_int_equal(address_profile_as_recorded(&p, &got, NULL), SPGO_OK);
    assert_int_equal(address_profile_copy(&got, &copy, NULL), SPGO_OK);
    address_profile_free(&got);
    assert_string_equal(text_of(&copy), "100-13f:1 300-310:2 0->100:4 300->310:3 ");
    address_profile_free(&copy);
    free_samples(&p);
}

static void nothing_was_recorded(void **state)
{
    (void)state;
    samples_program p = {0};
    address_profile got, copy;
    assert_int_equal(address_profile_as_recorded(&p, &got, NULL), SPGO_OK);
    assert_int_equal(address_profile_copy(&got, &copy, NULL), SPGO_OK);
    assert_int_equal(copy.range_count + copy.branch_count, 0);
    address_profile_free(&got);
    address_profile_free(&copy);
    (void)expect_branches(&p, "");
}

static void hits_count_for_their_instruction(void **state)
{
    (void)state;
    samples_program p = {0};
    address_tally t = {0};
    address_profile got;
    code_decoder *d = new_decoder();
    add_ip(&p, SPGO_SPT_RETIRE_INSTR, F, 1);
    add_ip(&p, SPGO_SPT_RETIRE_INSTR, F + 2, 2); /* in the middle of the call */
    add_ip(&p, SPGO_SPT_ETW_INSTR, F, 4);
    add_ip(&p, SPGO_SPT_ETW_INSTR, 0x300, 8);
    add_ip(&p, SPGO_SPT_UNHALT_CYCLE, F + 5, 16);
    unsigned kinds =
        1u << samples_ip_kind(SPGO_SPT_RETIRE_INSTR) | 1u << samples_ip_kind(SPGO_SPT_ETW_INSTR);
    assert_int_equal(address_profile_from_ips(&p, kinds, &fake, d, &got, &t, NULL), SPGO_OK);
    assert_string_equal(text_of(&got), "100-100:5 ");
    assert_int_equal(t.range_hits, 15);
    assert_int_equal(t.no_code_range_hits, 10);
    assert_int_equal(t.stale_procedures, 0);
    address_profile_free(&got);
    code_decoder_free(d);
    free_samples(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_begin_and_end_at_instructions, two_functions),
        cmocka_unit_test_setup(no_range_crosses_what_always_leaves, two_functions),
        cmocka_unit_test_setup(odd_ranges_are_kept_and_counted, two_functions),
        cmocka_unit_test_setup(an_end_that_is_no_code_is_outside, two_functions),
        cmocka_unit_test_setup(branches_that_do_not_fit_are_counted, two_functions),
        cmocka_unit_test_setup(a_procedure_most_of_which_does_not_fit_is_stale, two_functions),
        cmocka_unit_test_setup(branches_pass_through_thunks, two_functions),
        cmocka_unit_test_setup(sums_saturate, two_functions),
        cmocka_unit_test_setup(what_was_recorded_stays_as_it_is, two_functions),
        cmocka_unit_test_setup(nothing_was_recorded, two_functions),
        cmocka_unit_test_setup(hits_count_for_their_instruction, two_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
