/* Merge, filter and fold: no hit is lost, no adjacency is made up. */
#include "spt_build.h"

#include <stdlib.h>

static spgo_spt *open_partly(const bytes *b)
{
    spgo_spt *spt;
    spgo_spt_open(bytes_span(b), &spt, NULL);
    assert_non_null(spt);
    return spt;
}

static spgo_spt_writer *writer_on(bytes *b)
{
    spgo_spt_writer *w;
    assert_int_equal(spgo_spt_writer_new(memory_sink(b), NULL, &w, NULL), SPGO_OK);
    return w;
}

/* The filter's rewrite of one file. */
static bytes rewrite(const bytes *b, const spgo_spt_filter *filter, spgo_spt_tally *tally,
                     spgo_code expected)
{
    bytes result = {0};
    spgo_spt *spt = open_partly(b);
    spgo_spt_writer *w = writer_on(&result);
    assert_int_equal(spgo_spt_writer_add_file(w, spt, filter, tally, NULL), expected);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    spgo_spt_close(spt);
    return result;
}

static bytes fold(const bytes *b, const spgo_spt_filter *filter, spgo_spt_tally *tally)
{
    bytes result = {0};
    spgo_spt *spt = open_partly(b);
    spgo_spt_writer *w = writer_on(&result);
    spgo_spt_fold *f;
    assert_int_equal(spgo_spt_fold_new(&f, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_fold_add_file(f, spt, filter, tally, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_fold_write(f, w, tally, NULL), SPGO_OK);
    spgo_spt_fold_free(f);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    spgo_spt_close(spt);
    return result;
}

enum { TYPICAL_DATA_OFF = 0x5820 };

static void expect_records_and_free(bytes b, bytes expected)
{
    assert_int_equal(b.len, TYPICAL_DATA_OFF + expected.len);
    assert_memory_equal(b.ptr + TYPICAL_DATA_OFF, expected.ptr, expected.len);
    bytes_free(&b);
    bytes_free(&expected);
}

/* ------------------------------------------------------------------ merge */

static void a_copy_has_the_same_records(void **state)
{
    (void)state;
    bytes b = small_file(), expected = {0};
    spgo_spt_tally tally = {0};
    bytes copy = rewrite(&b, NULL, &tally, SPGO_OK);
    put_small_records(&expected);
    assert_int_equal(tally.records_in, 4);
    assert_int_equal(tally.records_out, 4);
    assert_int_equal(tally.hits_in, 2 + 2 + 2 * 5 + 1);
    assert_int_equal(tally.hits_out, tally.hits_in);
    bytes again = rewrite(&copy, NULL, NULL, SPGO_OK);
    assert_int_equal(again.len, copy.len);
    assert_memory_equal(again.ptr, copy.ptr, copy.len);
    bytes_free(&again);
    expect_records_and_free(copy, expected);
    bytes_free(&b);
}

static void merging_unites_programs(void **state)
{
    (void)state;
    bytes a = small_file(), b = small_file(), result = {0};
    b.ptr[SMALL_PROGRAMS_OFF + 16] = 2; /* another age of a.exe; b.dll is the same */
    spgo_spt_tally tally = {0};
    spgo_spt_writer *w = writer_on(&result);
    for (int i = 0; i < 2; i++) {
        spgo_spt *spt = open_partly(i ? &b : &a);
        assert_int_equal(spgo_spt_writer_add_file(w, spt, NULL, &tally, NULL), SPGO_OK);
        spgo_spt_close(spt);
    }
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    spgo_spt *spt = open_partly(&result);
    assert_int_equal(spgo_spt_program_count(spt), 3);
    assert_int_equal(spgo_spt_get_program(spt, 2)->id.age, 2);
    assert_int_equal(spgo_spt_get_program(spt, 2)->name.len, 5);
    assert_int_equal(tally.records_in, 8);
    assert_int_equal(tally.hits_out, 2 * 15);
    spgo_spt_close(spt);
    bytes_free(&a);
    bytes_free(&b);
    bytes_free(&result);
}

static void unused_programs_stay_unless_filtered(void **state)
{
    (void)state;
    bytes b = small_file();
    b.len = SMALL_DATA_OFF + 36; /* no record of b.dll is left */
    bytes copy = rewrite(&b, NULL, NULL, SPGO_OK);
    spgo_spt *spt = open_partly(&copy);
    assert_int_equal(spgo_spt_program_count(spt), 2);
    spgo_spt_close(spt);
    bytes_free(&copy);
    static const char *const all[] = {"*"};
    spgo_spt_filter filter = {.size = sizeof filter, .programs = all, .program_count = 1};
    copy = rewrite(&b, &filter, NULL, SPGO_OK);
    spt = open_partly(&copy);
    assert_int_equal(spgo_spt_program_count(spt), 1);
    spgo_spt_close(spt);
    bytes_free(&copy);
    bytes_free(&b);
}

static void damage_is_passed_over_and_reported(void **state)
{
    (void)state;
    bytes b = small_file(), result = {0};
    b.ptr[SMALL_DATA_OFF + 18] = 0x77;
    b.len -= 1;
    spgo_spt *spt = open_partly(&b);
    spgo_spt_writer *w = writer_on(&result);
    spgo_spt_tally tally = {0};
    spgo_error err;
    assert_int_equal(spgo_spt_writer_add_file(w, spt, NULL, &tally, &err), SPGO_UNSUPPORTED);
    assert_int_equal(err.offset, SMALL_DATA_OFF + 18);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    assert_int_equal(tally.records_out, 2);
    assert_int_equal(tally.hits_out, 2 + 10);
    spgo_spt_close(spt);
    bytes_free(&b);
    bytes_free(&result);
}

static void empty_records_are_dropped(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    put_small_tables(&b);
    size_t at = begin_segment(&b, 0);
    put_repeat(&b, 3);
    put_ips(&b, SPGO_SPT_LBR, 0, 0);
    put_ips(&b, SPGO_SPT_ETW_CALLSTACK, 1, 0x10);
    end_segment(&b, at);
    spgo_spt_tally tally = {0};
    bytes copy = rewrite(&b, NULL, &tally, SPGO_OK);
    at = begin_segment(&expected, 0);
    put_ips(&expected, SPGO_SPT_ETW_CALLSTACK, 1, 0x10);
    end_segment(&expected, at);
    assert_int_equal(tally.records_in, 2);
    assert_int_equal(tally.records_out, 1);
    assert_int_equal(tally.hits_in, 0);
    expect_records_and_free(copy, expected);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ filter */

static void filter_by_program(void **state)
{
    (void)state;
    bytes b = small_file(), expected = {0};
    static const char *const patterns[] = {"nothing", "B.D?L"};
    spgo_spt_filter filter = {.size = sizeof filter, .programs = patterns, .program_count = 2};
    spgo_spt_tally tally = {0};
    bytes copy = rewrite(&b, &filter, &tally, SPGO_OK);
    size_t at = begin_segment(&expected, 0);
    put_repeat(&expected, 4);
    put_ips(&expected, SPGO_SPT_ETW_CALLSTACK, 3, 0x3000);
    put_ips(&expected, SPGO_SPT_ETW_INSTR, 1, 0x4000);
    end_segment(&expected, at);
    assert_int_equal(tally.hits_in, 15);
    assert_int_equal(tally.hits_out, 11);
    expect_records_and_free(copy, expected);
    bytes_free(&b);
}

static void filter_by_opcode(void **state)
{
    (void)state;
    bytes b = small_file(), expected = {0};
    static const uint8_t opcodes[] = {SPGO_SPT_LBR};
    spgo_spt_filter filter = {.size = sizeof filter, .opcodes = opcodes, .opcode_count = 1};
    bytes copy = rewrite(&b, &filter, NULL, SPGO_OK);
    size_t at = begin_segment(&expected, 0);
    put_arcs(&expected, 2, 0x2000);
    end_segment(&expected, at);
    expect_records_and_free(copy, expected);
    bytes_free(&b);
}

/* Three kinds of records whose third and sixth of seven entries are outside the range. */
static void filter_by_range_splits_at_gaps(void **state)
{
    (void)state;
    static const uint32_t rvas[] = {0x10, 0x11, 0x99, 0x12, 0x13, 0x01, 0x14};
    static const uint32_t arcs[] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x99, 0x15,
                                    0x16, 0x17, 0x18, 0x01, 0x19, 0x1A, 0x1B};
    bytes b = {0}, expected = {0};
    put_small_tables(&b);
    size_t at = begin_segment(&b, 0);
    put_record(&b, SPGO_SPT_ETW_INSTR, 7, 7, rvas);
    put_repeat(&b, 2);
    put_record(&b, SPGO_SPT_LBR, 7, 14, arcs);
    put_record(&b, SPGO_SPT_ETW_CALLSTACK, 7, 7, rvas);
    put_record(&b, SPGO_SPT_ETW_CALLSTACK, 1, 1, rvas);
    end_segment(&b, at);
    spgo_spt_filter filter = {.size = sizeof filter, .rva_min = 0x10, .rva_max = 0x20};
    spgo_spt_tally tally = {0};
    bytes copy = rewrite(&b, &filter, &tally, SPGO_OK);
    static const uint32_t kept[] = {0x10, 0x11, 0x12, 0x13, 0x14};
    at = begin_segment(&expected, 0);
    put_record(&expected, SPGO_SPT_ETW_INSTR, 5, 5, kept);
    put_repeat(&expected, 2);
    put_record(&expected, SPGO_SPT_LBR, 2, 4, arcs);
    put_repeat(&expected, 2);
    put_record(&expected, SPGO_SPT_LBR, 2, 4, arcs + 6);
    put_repeat(&expected, 2);
    put_record(&expected, SPGO_SPT_LBR, 1, 2, arcs + 12);
    put_record(&expected, SPGO_SPT_ETW_CALLSTACK, 2, 2, rvas);
    put_record(&expected, SPGO_SPT_ETW_CALLSTACK, 2, 2, rvas + 3);
    put_record(&expected, SPGO_SPT_ETW_CALLSTACK, 1, 1, rvas);
    end_segment(&expected, at);
    assert_int_equal(tally.hits_in, 7 + 21 + 6);
    assert_int_equal(tally.hits_out, 5 + 15 + 2);
    expect_records_and_free(copy, expected);
    bytes_free(&b);
}

static void both_bounds_are_inside(void **state)
{
    (void)state;
    bytes b = small_file();
    spgo_spt_filter filter = {.size = sizeof filter, .rva_min = 0x1010, .rva_max = 0x2001};
    spgo_spt_tally tally = {0};
    bytes copy = rewrite(&b, &filter, &tally, SPGO_OK);
    assert_int_equal(tally.hits_out, 2); /* the RVA 0x1010, the arc 0x2000 to 0x2001 */
    bytes_free(&copy);
    bytes_free(&b);
}

static void a_foreign_end_is_not_out_of_range(void **state)
{
    (void)state;
    static const uint32_t arcs[] = {0x11, 0x10, 0x13, SPGO_SPT_OUTSIDE, 0x99, SPGO_SPT_OUTSIDE};
    bytes b = {0}, expected = {0};
    put_small_tables(&b);
    size_t at = begin_segment(&b, 0);
    put_record(&b, SPGO_SPT_LBR, 2, 4, arcs);
    put_record(&b, SPGO_SPT_LBR, 1, 2, arcs + 4);
    end_segment(&b, at);
    spgo_spt_filter filter = {.size = sizeof filter, .rva_min = 0x10, .rva_max = 0x20};
    bytes copy = rewrite(&b, &filter, NULL, SPGO_OK);
    at = begin_segment(&expected, 0);
    put_record(&expected, SPGO_SPT_LBR, 2, 4, arcs);
    end_segment(&expected, at);
    expect_records_and_free(copy, expected);
    bytes_free(&b);
}

static void no_upper_bound(void **state)
{
    (void)state;
    bytes b = small_file();
    spgo_spt_filter filter = {.size = sizeof filter, .rva_min = 0x3010};
    spgo_spt_tally tally = {0};
    bytes copy = rewrite(&b, &filter, &tally, SPGO_OK);
    assert_int_equal(tally.hits_out, 5 + 1);
    bytes_free(&copy);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ fold */

static void fold_groups_by_binary_digit(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    put_small_tables(&b);
    static const uint32_t rvas[] = {0x30, 0x10, 0x20, 0x10};
    size_t at = begin_segment(&b, 0);
    put_record(&b, SPGO_SPT_ETW_INSTR, 4, 4, rvas); /* 10: 2, 20: 1, 30: 1 */
    put_repeat(&b, 4);
    put_record(&b, SPGO_SPT_ETW_INSTR, 1, 1, rvas); /* 30: 6 */
    put_repeat(&b, 1);
    put_arcs(&b, 2, 0x40); /* two arcs: 2 each, and no neighbours any more */
    put_repeat(&b, 2);
    put_ips(&b, SPGO_SPT_ETW_CALLSTACK, 3, 0x50); /* 50-60, 60-70: 3 */
    end_segment(&b, at);
    spgo_spt_tally tally = {0};
    bytes folded = fold(&b, NULL, &tally);
    at = begin_segment(&expected, 0);
    for (uint32_t start = 0x40; start <= 0x50; start += 0x10) {
        put_repeat(&expected, 1);
        put_arcs(&expected, 1, start);
    }
    static const uint32_t bit0[] = {0x20}, bit1[] = {0x10, 0x30}, bit2[] = {0x30};
    put_record(&expected, SPGO_SPT_ETW_INSTR, 1, 1, bit0);
    put_repeat(&expected, 1);
    put_record(&expected, SPGO_SPT_ETW_INSTR, 2, 2, bit1);
    put_repeat(&expected, 3);
    put_record(&expected, SPGO_SPT_ETW_INSTR, 1, 1, bit2);
    put_repeat(&expected, 2);
    put_ips(&expected, SPGO_SPT_ETW_CALLSTACK, 2, 0x50);
    put_repeat(&expected, 2);
    put_ips(&expected, SPGO_SPT_ETW_CALLSTACK, 2, 0x60);
    end_segment(&expected, at);
    assert_int_equal(tally.hits_in, 4 + 5 + 4 + 6);
    assert_int_equal(tally.hits_out, tally.hits_in);
    assert_int_equal(tally.records_in, 4);
    assert_int_equal(tally.records_out, 7);
    expect_records_and_free(folded, expected);
    bytes_free(&b);
}

static void fold_of_highest_hits(void **state)
{
    (void)state;
    bytes b = {0};
    put_small_tables(&b);
    size_t at = begin_segment(&b, 0);
    put_repeat(&b, UINT64_MAX - 1);
    put_ips(&b, 1, 1, 0);
    end_segment(&b, at);
    spgo_spt_tally tally = {0};
    bytes folded = fold(&b, NULL, &tally);
    assert_true(tally.hits_out == UINT64_MAX);
    assert_false(tally.saturated);
    bytes_free(&folded);
    at = begin_segment(&b, 0);
    put_ips(&b, 1, 1, 0);
    end_segment(&b, at);
    tally = (spgo_spt_tally){0};
    folded = fold(&b, NULL, &tally);
    assert_true(tally.hits_out == UINT64_MAX);
    assert_true(tally.saturated);
    bytes_free(&folded);
    bytes_free(&b);
}

/* Many random records: with few distinct values, so that sums grow. */
static bytes random_file(uint64_t seed, unsigned count)
{
    static const uint8_t opcodes[] = {1, 2, 3, 4, 5, 0x10, 0x41, 0x42};
    bytes b = {0};
    put_small_tables(&b);
    for (unsigned i = 0; i < count; i++) {
        size_t at = begin_segment(&b, (uint16_t)(next_random(&seed) % 2));
        if (next_random(&seed) % 3 == 0)
            put_repeat(&b, next_random(&seed) % 1000);
        uint8_t opcode = opcodes[next_random(&seed) % 8];
        uint8_t n = (uint8_t)(next_random(&seed) % 256);
        bytes_u8(&b, opcode);
        bytes_u8(&b, n);
        for (unsigned k = 0; k < n * (opcode == SPGO_SPT_LBR ? 2u : 1u); k++)
            bytes_u32(&b, (uint32_t)(next_random(&seed) % 40));
        end_segment(&b, at);
    }
    return b;
}

static void fold_of_a_fold_is_the_same(void **state)
{
    (void)state;
    bytes b = random_file(7, 2000);
    spgo_spt_tally first = {0}, second = {0};
    bytes once = fold(&b, NULL, &first), twice = fold(&once, NULL, &second);
    assert_int_equal(first.hits_in, first.hits_out);
    assert_int_equal(second.hits_in, first.hits_out);
    assert_int_equal(second.hits_out, first.hits_out);
    assert_true(once.len < b.len);
    assert_int_equal(once.len, twice.len);
    assert_memory_equal(once.ptr, twice.ptr, once.len);
    spgo_spt_verdict verdict;
    assert_int_equal(spgo_spt_verify(bytes_span(&once), NULL, NULL, &verdict, NULL), SPGO_OK);
    assert_int_equal(verdict.damages + verdict.warnings, 0);
    bytes_free(&b);
    bytes_free(&once);
    bytes_free(&twice);
}

/* Folding a merge, and folding two files at once, are the same. */
static void fold_of_a_merge_is_a_fold_of_both(void **state)
{
    (void)state;
    bytes files[2] = {random_file(1, 300), random_file(2, 300)}, merged = {0}, both = {0};
    spgo_spt_writer *merge = writer_on(&merged), *w = writer_on(&both);
    spgo_spt_fold *f;
    assert_int_equal(spgo_spt_fold_new(&f, NULL), SPGO_OK);
    for (size_t i = 0; i < 2; i++) {
        spgo_spt *spt = open_partly(&files[i]);
        assert_int_equal(spgo_spt_writer_add_file(merge, spt, NULL, NULL, NULL), SPGO_OK);
        assert_int_equal(spgo_spt_fold_add_file(f, spt, NULL, NULL, NULL), SPGO_OK);
        spgo_spt_close(spt);
        bytes_free(&files[i]);
    }
    assert_int_equal(spgo_spt_fold_write(f, w, NULL, NULL), SPGO_OK);
    spgo_spt_fold_free(f);
    assert_int_equal(spgo_spt_writer_finish(merge, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    bytes folded = fold(&merged, NULL, NULL);
    assert_int_equal(folded.len, both.len);
    assert_memory_equal(folded.ptr, both.ptr, both.len);
    bytes_free(&merged);
    bytes_free(&both);
    bytes_free(&folded);
}

static void fold_with_a_filter(void **state)
{
    (void)state;
    bytes b = small_file();
    static const char *const patterns[] = {"a*"};
    spgo_spt_filter filter = {.size = sizeof filter, .programs = patterns, .program_count = 1};
    spgo_spt_tally tally = {0};
    bytes folded = fold(&b, &filter, &tally);
    assert_int_equal(tally.hits_out, 4);
    spgo_spt *spt = open_partly(&folded);
    assert_int_equal(spgo_spt_program_count(spt), 1);
    spgo_spt_close(spt);
    bytes_free(&folded);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_has_the_same_records),
        cmocka_unit_test(merging_unites_programs),
        cmocka_unit_test(unused_programs_stay_unless_filtered),
        cmocka_unit_test(damage_is_passed_over_and_reported),
        cmocka_unit_test(empty_records_are_dropped),
        cmocka_unit_test(filter_by_program),
        cmocka_unit_test(filter_by_opcode),
        cmocka_unit_test(filter_by_range_splits_at_gaps),
        cmocka_unit_test(both_bounds_are_inside),
        cmocka_unit_test(a_foreign_end_is_not_out_of_range),
        cmocka_unit_test(no_upper_bound),
        cmocka_unit_test(fold_groups_by_binary_digit),
        cmocka_unit_test(fold_of_highest_hits),
        cmocka_unit_test(fold_of_a_fold_is_the_same),
        cmocka_unit_test(fold_of_a_merge_is_a_fold_of_both),
        cmocka_unit_test(fold_with_a_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
