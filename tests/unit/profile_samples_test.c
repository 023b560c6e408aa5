/* SPT records added up per program: arcs, ranges, instruction pointers, stacks. */
#include "spt_build.h"

#include <profile/samples.h>

static const spgo_image_id null_id = {0};

typedef struct built {
    bytes file;
    spgo_spt_writer *writer;
    uint16_t program;
} built;

/* In place, since the writer's sink points into it. */
static void build_program(built *b, const spgo_image_id *id, const char *name)
{
    *b = (built){0};
    assert_int_equal(spgo_spt_writer_new(bytes_sink(&b->file), NULL, &b->writer, NULL), SPGO_OK);
    assert_int_equal(
        spgo_spt_writer_program(b->writer, id, (spgo_str){name, strlen(name)}, &b->program, NULL),
        SPGO_OK);
}

static void build(built *b)
{
    spgo_image_id id = image_id(0x11, 1);
    build_program(b, &id, "app.exe");
}

static void add(built *b, spgo_spt_opcode opcode, const uint32_t *entries, unsigned n,
                uint64_t hits)
{
    assert_int_equal(spgo_spt_writer_add(b->writer, b->program, opcode, entries, n, hits, NULL),
                     SPGO_OK);
}

/* Finishes the file and adds it. */
static spgo_code take(built *b, samples *s, uint64_t weight)
{
    spgo_spt *spt;
    assert_int_equal(spgo_spt_writer_finish(b->writer, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_open(bytes_span(&b->file), &spt, NULL), SPGO_OK);
    spgo_code code = samples_add(s, spt, NULL, weight, NULL);
    spgo_spt_close(spt);
    bytes_free(&b->file);
    return code;
}

static void ranges_lie_between_neighbours(void **state)
{
    (void)state;
    built b;
    build(&b);
    samples s = {0};
    /* newest first: to, from */
    const uint32_t entries[] = {0x2000, 0x1050, 0x1040, 0x1234, 0x1200, 0x1100};
    add(&b, SPGO_SPT_LBR, entries, 3, 5);
    assert_int_equal(take(&b, &s, 1), SPGO_OK);
    const samples_program *p = &s.programs[0];
    assert_int_equal(p->arcs.used, 3);
    assert_int_equal(counts_get(&p->arcs, samples_pair(0x1050, 0x2000)), 5);
    assert_int_equal(p->ranges.used, 2);
    assert_int_equal(counts_get(&p->ranges, samples_pair(0x1040, 0x1050)), 5);
    assert_int_equal(counts_get(&p->ranges, samples_pair(0x1200, 0x1234)), 5);
    assert_int_equal(p->lbr_records, 5);
    assert_int_equal(p->lbr_entries, 15);
    samples_free(&s);
}

static void foreign_ends_bound_no_range(void **state)
{
    (void)state;
    built b;
    build(&b);
    samples s = {0};
    const uint32_t entries[] = {SPGO_SPT_OUTSIDE, 0x1050, 0x1040, SPGO_SPT_OUTSIDE};
    add(&b, SPGO_SPT_LBR, entries, 2, 1);
    assert_int_equal(take(&b, &s, 1), SPGO_OK);
    assert_int_equal(s.programs[0].ranges.used, 1);
    assert_int_equal(counts_get(&s.programs[0].ranges, samples_pair(0x1040, 0x1050)), 1);
    assert_int_equal(s.programs[0].arcs.used, 2);
    samples_free(&s);
}

static void senseless_ranges_are_counted_and_left_out(void **state)
{
    (void)state;
    built b;
    build(&b);
    samples s = {0};
    const uint32_t backward[] = {0x2000, 0x1000, 0x1040, 0x1234};
    const uint32_t far[] = {0x2000, 0x300000, 0x1040, 0x1234};
    add(&b, SPGO_SPT_LBR, backward, 2, 3);
    add(&b, SPGO_SPT_LBR, far, 2, 4);
    assert_int_equal(take(&b, &s, 1), SPGO_OK);
    assert_int_equal(s.programs[0].ranges.used, 0);
    assert_int_equal(s.programs[0].bogus_ranges, 7);
    samples_free(&s);
}

static void each_counter_has_its_own_hits(void **state)
{
    (void)state;
    built b;
    build(&b);
    samples s = {0};
    const uint32_t rvas[] = {0x1000, 0x1004, 0x1000};
    add(&b, SPGO_SPT_ETW_INSTR, rvas, 3, 2);
    add(&b, SPGO_SPT_RETIRE_INSTR, rvas, 1, 1);
    assert_int_equal(take(&b, &s, 1), SPGO_OK);
    const samples_program *p = &s.programs[0];
    unsigned timer = samples_ip_kind(SPGO_SPT_ETW_INSTR);
    unsigned instructions = samples_ip_kind(SPGO_SPT_RETIRE_INSTR);
    assert_int_equal(counts_get(&p->ips[timer], 0x1000), 4);
    assert_int_equal(p->ip_hits[timer], 6);
    assert_int_equal(counts_get(&p->ips[instructions], 0x1000), 1);
    samples_free(&s);
}

static void stacks_count_where_they_were_taken(void **state)
{
    (void)state;
    built b;
    build(&b);
    samples s = {0};
    const uint32_t frames[] = {0x1000, 0x2005, 0x3007};
    add(&b, SPGO_SPT_ETW_CALLSTACK, frames, 3, 1);
    assert_int_equal(take(&b, &s, 1), SPGO_OK);
    const samples_program *p = &s.programs[0];
    const unsigned kind = samples_ip_kind(SPGO_SPT_ETW_CALLSTACK);
    assert_int_equal(counts_get(&p->ips[kind], 0x1000), 1);
    assert_int_equal(p->ips[kind].used, 1);
    assert_int_equal(p->ip_hits[kind], 1);
    samples_free(&s);
}

static void weights_and_repeated_files_multiply(void **state)
{
    (void)state;
    samples s = {0};
    const uint32_t rvas[] = {0x1000};
    const uint64_t weights[] = {3, 1, 1};
    for (int i = 0; i < 3; i++) {
        built b;
        build(&b);
        add(&b, SPGO_SPT_ETW_INSTR, rvas, 1, 2);
        assert_int_equal(take(&b, &s, weights[i]), SPGO_OK);
    }
    assert_int_equal(s.program_count, 1);
    assert_int_equal(counts_get(&s.programs[0].ips[5], 0x1000), 10);
    samples_free(&s);
}

static void sums_stop_at_the_largest_number(void **state)
{
    (void)state;
    samples s = {0};
    const uint32_t rvas[] = {0x1000};
    built b;
    build(&b);
    add(&b, SPGO_SPT_ETW_INSTR, rvas, 1, UINT64_C(1) << 40);
    assert_int_equal(take(&b, &s, UINT64_C(1) << 40), SPGO_OK);
    assert_true(s.saturated);
    assert_true(counts_get(&s.programs[0].ips[5], 0x1000) == UINT64_MAX);
    samples_free(&s);
}

static void programs_are_told_apart_by_id_and_name(void **state)
{
    (void)state;
    samples s = {0};
    const uint32_t rvas[] = {0x1000};
    const spgo_image_id one = image_id(0x11, 1), other = image_id(0x11, 2);
    const struct {
        const spgo_image_id *id;
        const char *name;
    } files[] = {{&one, "app.exe"}, {&one, "APP.EXE"}, {&other, "app.exe"}, {&null_id, "app.exe"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        built b;
        build_program(&b, files[i].id, files[i].name);
        add(&b, SPGO_SPT_ETW_INSTR, rvas, 1, 1);
        assert_int_equal(take(&b, &s, 1), SPGO_OK);
    }
    assert_int_equal(s.program_count, 3);
    assert_int_equal(counts_get(&s.programs[0].ips[5], 0x1000), 2);
    samples_free(&s);
}

static void damage_is_returned_and_the_rest_counted(void **state)
{
    (void)state;
    bytes file = {0};
    put_small_tables(&file);
    size_t segment = begin_segment(&file, 0);
    bytes_u8(&file, SPGO_SPT_ETW_INSTR);
    bytes_u8(&file, 1);
    bytes_u32(&file, 0x1000);
    bytes_u8(&file, 0x77); /* no opcode */
    bytes_u8(&file, 1);
    end_segment(&file, segment);
    segment = begin_segment(&file, 1);
    bytes_u8(&file, SPGO_SPT_ETW_INSTR);
    bytes_u8(&file, 1);
    bytes_u32(&file, 0x2000);
    end_segment(&file, segment);
    spgo_spt *spt;
    samples s = {0};
    spgo_error err;
    assert_int_equal(spgo_spt_open(bytes_span(&file), &spt, NULL), SPGO_OK);
    spgo_code code = samples_add(&s, spt, NULL, 1, &err);
    assert_true(code != SPGO_OK);
    assert_int_equal(err.offset, SMALL_DATA_OFF + 8 + 6);
    assert_int_equal(s.program_count, 2);
    assert_int_equal(counts_get(&s.programs[0].ips[5], 0x1000), 1);
    assert_int_equal(counts_get(&s.programs[1].ips[5], 0x2000), 1);
    samples_free(&s);
    spgo_spt_close(spt);
    bytes_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_lie_between_neighbours),
        cmocka_unit_test(foreign_ends_bound_no_range),
        cmocka_unit_test(senseless_ranges_are_counted_and_left_out),
        cmocka_unit_test(each_counter_has_its_own_hits),
        cmocka_unit_test(stacks_count_where_they_were_taken),
        cmocka_unit_test(weights_and_repeated_files_multiply),
        cmocka_unit_test(sums_stop_at_the_largest_number),
        cmocka_unit_test(programs_are_told_apart_by_id_and_name),
        cmocka_unit_test(damage_is_returned_and_the_rest_counted),
    };
    return cmocka_run_group_tests_name("profile_samples", tests, NULL, NULL);
}
