/* Record bodies: every sample field, trailers, ids, hostile counts. */
#include "perfdata_build.h"
#include "test_data.h"

#include <string.h>

#include <base/limits.h>
#include <format/perfdata/perfdata.h>

#define EVERY_FIELD ((1u << 25) - 1)

typedef struct recording {
    bytes b;
    perfdata *p;
    perfdata_walk *w;
} recording;

static void open_recording(recording *r)
{
    assert_int_equal(perfdata_open(bytes_span(&r->b), &r->p, NULL, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(r->p, NULL, &r->w, NULL), SPGO_OK);
}

static perfdata_record next_of(recording *r, uint32_t type)
{
    perfdata_record record = {0};
    while (perfdata_walk_next(r->w, &record)) {
        if (record.type == type)
            return record;
    }
    fail_msg("no record of type %u", type);
    return record;
}

static void close_recording(recording *r)
{
    perfdata_walk_free(r->w);
    perfdata_close(r->p);
    bytes_free(&r->b);
}

static void assert_text(spgo_str s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.ptr, expected, s.len);
}

/* ------------------------------------------------------------------ samples */

static const uint64_t chain[] = {(uint64_t)-512, 0x1000, 0x2000};
static const uint64_t branches[][3] = {{0x11, 0x22, 0x12}, {0x33, 0x44, 0x2}};

static const perfdata_build_sample full_sample = {
    .misc = PERFDATA_CPUMODE_USER,
    .ip = 0xabcdef,
    .pid = 5,
    .tid = 6,
    .time_ns = 777,
    .addr = 1,
    .id = 42,
    .period = 99,
    .cpu = 3,
    .callchain = chain,
    .callchain_count = 3,
    .branches = branches,
    .branch_count = 2,
    .raw_size = 12,
    .user_stack_size = 32,
    .group_size = 3,
};

static void record_one(recording *r, bool big_endian, const perfdata_build_event *e,
                       const perfdata_build_sample *s)
{
    *r = (recording){0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r->b),
                                           &(perfdata_build_opts){.big_endian = big_endian}, e, 1);
    perfdata_build_sample_record(w, s);
    assert_true(perfdata_build_finish(w));
    open_recording(r);
}

static void check_full(const recording *r, const perfdata_sample *s)
{
    assert_int_equal(s->attr_index, 0);
    assert_int_equal(s->sid.pid, 5);
    assert_int_equal(s->sid.tid, 6);
    assert_int_equal(s->sid.time_ns, 777);
    assert_true(s->sid.has_time);
    assert_int_equal(s->sid.id, 42);
    assert_int_equal(s->sid.cpu, 3);
    assert_true(s->has_ip);
    assert_int_equal(s->ip, 0xabcdef);
    assert_int_equal(s->period, 99);
    assert_int_equal(s->cpumode, PERFDATA_CPUMODE_USER);
    assert_int_equal(s->callchain_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(perfdata_u64(r->p, s->callchain.ptr + 8 * i), chain[i]);
    assert_int_equal(s->branch_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *at = s->branches.ptr + 24 * i;
        assert_int_equal(perfdata_u64(r->p, at), branches[i][0]);
        assert_int_equal(perfdata_u64(r->p, at + 8), branches[i][1]);
        assert_int_equal(perfdata_branch_flags(r->p, at + 16), branches[i][2]);
    }
}

static void test_every_field_in_every_read_format(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2 * 32 * 4; kind++) {
        const perfdata_build_event e = {.sample_type = EVERY_FIELD,
                                        .read_format = kind >> 1 & 31,
                                        .branch_sample_type = (uint64_t)(kind >> 6 & 1) << 17 |
                                                              (uint64_t)(kind >> 7 & 1) << 19,
                                        .regs_user = 0xff00,
                                        .regs_intr = 0x7};
        recording r;
        perfdata_sample s;
        record_one(&r, kind & 1, &e, &full_sample);
        perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
        assert_true(perfdata_decode_sample(r.p, &record, &s));
        check_full(&r, &s);
        /* The fields fill the record: one byte less is too short. */
        record.body.len--;
        assert_false(perfdata_decode_sample(r.p, &record, &s));
        close_recording(&r);
    }
}

static void test_each_field_alone_changes_only_itself(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 25; bit++) {
        const uint64_t around = PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_BRANCH_STACK;
        const perfdata_build_event e = {
            .sample_type = around | 1ull << bit, .regs_user = 1, .regs_intr = 3};
        recording r;
        perfdata_sample s;
        record_one(&r, false, &e, &full_sample);
        perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
        assert_true(perfdata_decode_sample(r.p, &record, &s));
        assert_int_equal(s.ip, 0xabcdef);
        assert_int_equal(s.branch_count, 2);
        assert_int_equal(perfdata_u64(r.p, s.branches.ptr), 0x11);
        assert_int_equal(s.sid.has_time, bit == 2);
        assert_int_equal(s.callchain_count, bit == 5 ? 3 : 0);
        record.body.len--;
        assert_false(perfdata_decode_sample(r.p, &record, &s));
        close_recording(&r);
    }
}

static void test_registers_that_could_not_be_had_take_no_room(void **state)
{
    (void)state;
    const perfdata_build_event e = {.sample_type = PERFDATA_SAMPLE_REGS_USER, .regs_user = 0xff};
    recording r;
    record_one(&r, false, &e, &full_sample);
    perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
    static const uint8_t no_abi[8];
    record.body = (spgo_span){no_abi, 8};
    perfdata_sample s;
    assert_true(perfdata_decode_sample(r.p, &record, &s));
    close_recording(&r);
}

/* A sample of one field: a count and nothing behind it. */
static void expect_refused_count(uint64_t sample_type, uint64_t read_format, uint64_t count)
{
    const perfdata_build_event e = {.sample_type = sample_type, .read_format = read_format};
    bytes body = {0};
    bytes_u64(&body, count);
    bytes_fill(&body, 0, 64);
    recording r = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r.b), &(perfdata_build_opts){0}, &e, 1);
    perfdata_build_raw(w, PERFDATA_RECORD_SAMPLE, 0, bytes_span(&body));
    assert_true(perfdata_build_finish(w));
    open_recording(&r);
    perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
    perfdata_sample s;
    assert_false(perfdata_decode_sample(r.p, &record, &s));
    close_recording(&r);
    bytes_free(&body);
}

static void test_hostile_counts(void **state)
{
    (void)state;
    static const uint64_t counts[] = {9,          LIMIT_BRANCHES,      LIMIT_BRANCHES + 1,
                                      1ull << 32, UINT64_MAX / 24 + 1, 1ull << 61,
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        expect_refused_count(PERFDATA_SAMPLE_CALLCHAIN, 0, counts[i]);
        expect_refused_count(PERFDATA_SAMPLE_BRANCH_STACK, 0, counts[i]);
        expect_refused_count(PERFDATA_SAMPLE_READ, 8, counts[i]);
        uint64_t size = counts[i] > 64 ? counts[i] : 65; /* these count bytes */
        expect_refused_count(PERFDATA_SAMPLE_STACK_USER, 0, size);
        expect_refused_count(PERFDATA_SAMPLE_AUX, 0, size);
    }
    expect_refused_count(PERFDATA_SAMPLE_RAW, 0, UINT32_MAX);
}

static void test_counts_beyond_the_limit_are_refused_though_they_fit(void **state)
{
    (void)state;
    const perfdata_build_event e = {.sample_type = PERFDATA_SAMPLE_CALLCHAIN};
    static uint64_t frames[LIMIT_STACK_FRAMES + 1];
    for (unsigned more = 0; more < 2; more++) {
        recording r;
        perfdata_sample s;
        perfdata_build_sample sample = {.callchain = frames,
                                        .callchain_count = LIMIT_STACK_FRAMES + more};
        record_one(&r, false, &e, &sample);
        perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
        assert_int_equal(perfdata_decode_sample(r.p, &record, &s), more == 0);
        close_recording(&r);
    }
}

static void test_cpu_modes(void **state)
{
    (void)state;
    const perfdata_build_event e = {.sample_type = PERFDATA_SAMPLE_IP};
    recording r;
    record_one(&r, false, &e, &full_sample);
    perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
    for (uint16_t mode = 0; mode < 8; mode++) {
        perfdata_sample s;
        record.misc = (uint16_t)(mode | 1 << 14);
        assert_true(perfdata_decode_sample(r.p, &record, &s));
        assert_int_equal(s.cpumode, mode < 6 ? mode : PERFDATA_CPUMODE_UNKNOWN);
    }
    close_recording(&r);
}

/* ------------------------------------------------------------------ several events */

static const uint64_t first_ids[] = {101}, second_ids[] = {202};

static void record_two(recording *r, uint64_t first_type, uint64_t second_type, uint64_t id)
{
    const perfdata_build_event events[] = {
        {.sample_type = first_type, .ids = first_ids, .id_count = 1},
        {.sample_type = second_type, .ids = second_ids, .id_count = 1}};
    *r = (recording){0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r->b), &(perfdata_build_opts){0}, events, 2);
    perfdata_build_sample s = full_sample;
    s.event = id == 202;
    s.id = id;
    perfdata_build_sample_record(w, &s);
    assert_true(perfdata_build_finish(w));
    open_recording(r);
}

static void expect_event(uint64_t first_type, uint64_t second_type, uint64_t id, size_t index)
{
    recording r;
    perfdata_sample s;
    record_two(&r, first_type, second_type, id);
    perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
    assert_true(perfdata_decode_sample(r.p, &record, &s));
    assert_int_equal(s.attr_index, index);
    assert_int_equal(s.ip, 0xabcdef);
    close_recording(&r);
}

static void test_identifier_leads_to_events_of_different_fields(void **state)
{
    (void)state;
    const uint64_t id = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP;
    expect_event(id | PERFDATA_SAMPLE_TIME, id | PERFDATA_SAMPLE_BRANCH_STACK, 101, 0);
    expect_event(id | PERFDATA_SAMPLE_TIME, id | PERFDATA_SAMPLE_BRANCH_STACK, 202, 1);
}

static void test_id_at_a_common_place_leads_to_events(void **state)
{
    (void)state;
    const uint64_t id = PERFDATA_SAMPLE_ID | PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID;
    expect_event(id, id | PERFDATA_SAMPLE_CALLCHAIN, 101, 0);
    expect_event(id, id | PERFDATA_SAMPLE_CALLCHAIN, 202, 1);
}

static void test_id_zero_is_the_first_event(void **state)
{
    (void)state;
    const uint64_t id = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP;
    expect_event(id, id | PERFDATA_SAMPLE_TIME, 0, 0);
}

static void test_unknown_id_is_no_event_but_readable_if_all_agree(void **state)
{
    (void)state;
    const uint64_t id = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP;
    expect_event(id, id, 999, SIZE_MAX);
    expect_event(PERFDATA_SAMPLE_IP, PERFDATA_SAMPLE_IP, 101, SIZE_MAX); /* no ids at all */
}

static void expect_no_event(uint64_t first_type, uint64_t second_type, uint64_t id)
{
    recording r;
    perfdata_sample s;
    record_two(&r, first_type, second_type, id);
    perfdata_record record = next_of(&r, PERFDATA_RECORD_SAMPLE);
    assert_false(perfdata_decode_sample(r.p, &record, &s));
    close_recording(&r);
}

static void test_unknown_id_is_refused_if_fields_differ(void **state)
{
    (void)state;
    const uint64_t id = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_IP;
    expect_no_event(id, id | PERFDATA_SAMPLE_TIME, 999);
    /* The id at two places says nothing. */
    expect_no_event(PERFDATA_SAMPLE_ID | PERFDATA_SAMPLE_IP, PERFDATA_SAMPLE_ID, 101);
}

/* ------------------------------------------------------------------ other records */

#define TRAILER                                                                                    \
    (PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ID | PERFDATA_SAMPLE_STREAM_ID | \
     PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER)

static const perfdata_build_id_fields sid = {
    .pid = 8, .tid = 9, .time_ns = 5555, .id = 42, .cpu = 2};
static const uint8_t build_id[20] = {9, 8, 7, 6, 5, 4, 3, 2, 1};

static void write_all_kinds(perfdata_build *w)
{
    perfdata_build_map m = {.pid = 1,
                            .tid = 2,
                            .addr = 0x400000,
                            .len = 0x1000,
                            .pgoff = 0x2000,
                            .prot = 5,
                            .misc = PERFDATA_CPUMODE_USER,
                            .path = "/bin/true",
                            .build_id = build_id,
                            .build_id_size = 16,
                            .sid = sid};
    perfdata_build_mmap(w, &m);
    perfdata_build_mmap2(w, &m);
    perfdata_build_comm(w, 3, 4, "a comm", true, &sid);
    perfdata_build_task(w, PERFDATA_RECORD_FORK, 5, 6, 7, 8, &sid);
    perfdata_build_task(w, PERFDATA_RECORD_EXIT, 5, 6, 7, 8, &sid);
    perfdata_build_lost(w, 12, &sid);
    perfdata_build_lost_samples(w, 13, &sid);
}

static void check_sid(const perfdata_id *got, bool has_trailer)
{
    const perfdata_id none = {0};
    if (!has_trailer) {
        assert_memory_equal(got, &none, sizeof none);
        return;
    }
    assert_int_equal(got->pid, 8);
    assert_int_equal(got->tid, 9);
    assert_int_equal(got->time_ns, 5555);
    assert_true(got->has_time);
    assert_int_equal(got->id, 42);
    assert_int_equal(got->cpu, 2);
}

static void check_maps(recording *r, bool has_trailer)
{
    static const uint32_t types[] = {PERFDATA_RECORD_MMAP, PERFDATA_RECORD_MMAP2};
    for (size_t i = 0; i < 2; i++) {
        perfdata_mmap m;
        perfdata_record record = next_of(r, types[i]);
        assert_true(perfdata_decode_mmap(r->p, &record, &m));
        assert_int_equal(m.pid, 1);
        assert_int_equal(m.tid, 2);
        assert_int_equal(m.addr, 0x400000);
        assert_int_equal(m.len, 0x1000);
        assert_int_equal(m.pgoff, 0x2000);
        assert_int_equal(m.prot, i ? 5 : 4);
        assert_int_equal(m.build_id_size, i ? 16 : 0);
        assert_memory_equal(m.build_id, build_id, m.build_id_size);
        assert_text(m.path, "/bin/true");
        assert_false(m.is_kernel);
        assert_false(m.is_data);
        check_sid(&m.sid, has_trailer);
    }
}

static void check_tasks(recording *r)
{
    static const uint32_t types[] = {PERFDATA_RECORD_FORK, PERFDATA_RECORD_EXIT};
    for (size_t i = 0; i < 2; i++) {
        perfdata_task t;
        perfdata_record record = next_of(r, types[i]);
        assert_true(perfdata_decode_task(r->p, &record, &t));
        assert_int_equal(t.pid, 5);
        assert_int_equal(t.ppid, 6);
        assert_int_equal(t.tid, 7);
        assert_int_equal(t.ptid, 8);
        assert_int_equal(t.time_ns, 5555);
    }
}

static void test_records_with_and_without_trailers(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        bool has_trailer = kind & 1;
        const perfdata_build_event e = {.sample_type = TRAILER | PERFDATA_SAMPLE_IP,
                                        .flags = has_trailer ? PERFDATA_ATTR_SAMPLE_ID_ALL : 0};
        recording r = {0};
        perfdata_build *w = perfdata_build_new(
            bytes_sink(&r.b), &(perfdata_build_opts){.big_endian = kind & 2}, &e, 1);
        write_all_kinds(w);
        assert_true(perfdata_build_finish(w));
        open_recording(&r);
        check_maps(&r, has_trailer);
        perfdata_comm c;
        perfdata_record record = next_of(&r, PERFDATA_RECORD_COMM);
        assert_true(perfdata_decode_comm(r.p, &record, &c));
        assert_int_equal(c.pid, 3);
        assert_int_equal(c.tid, 4);
        assert_true(c.is_exec);
        assert_text(c.comm, "a comm");
        check_sid(&c.sid, has_trailer);
        check_tasks(&r);
        uint64_t lost;
        record = next_of(&r, PERFDATA_RECORD_LOST);
        assert_true(perfdata_decode_lost(r.p, &record, &lost));
        assert_int_equal(lost, 12);
        record = next_of(&r, PERFDATA_RECORD_LOST_SAMPLES);
        assert_true(perfdata_decode_lost(r.p, &record, &lost));
        assert_int_equal(lost, 13);
        close_recording(&r);
    }
}

/* The trailer's own id says whose layout it has. */
static void test_trailers_of_events_that_differ(void **state)
{
    (void)state;
    const perfdata_build_event events[] = {
        {.sample_type = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_TIME,
         .flags = PERFDATA_ATTR_SAMPLE_ID_ALL,
         .ids = first_ids,
         .id_count = 1},
        {.sample_type = PERFDATA_SAMPLE_IDENTIFIER | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_CPU,
         .flags = PERFDATA_ATTR_SAMPLE_ID_ALL,
         .ids = second_ids,
         .id_count = 1}};
    recording r = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r.b), &(perfdata_build_opts){0}, events, 2);
    for (size_t i = 0; i < 2; i++) {
        perfdata_build_id_fields s = sid;
        s.event = i;
        s.id = i ? 202 : 101;
        perfdata_build_comm(w, 1, 1, "x", false, &s);
    }
    assert_true(perfdata_build_finish(w));
    open_recording(&r);
    perfdata_comm c;
    perfdata_record record = next_of(&r, PERFDATA_RECORD_COMM);
    assert_true(perfdata_decode_comm(r.p, &record, &c));
    assert_int_equal(c.sid.time_ns, 5555);
    assert_int_equal(c.sid.cpu, 0);
    record = next_of(&r, PERFDATA_RECORD_COMM);
    assert_true(perfdata_decode_comm(r.p, &record, &c));
    assert_false(c.sid.has_time);
    assert_int_equal(c.sid.cpu, 2);
    assert_int_equal(c.sid.pid, 8);
    close_recording(&r);
}

static void test_short_bodies_are_refused(void **state)
{
    (void)state;
    const perfdata_build_event e = {.sample_type = TRAILER, .flags = PERFDATA_ATTR_SAMPLE_ID_ALL};
    recording r = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r.b), &(perfdata_build_opts){0}, &e, 1);
    write_all_kinds(w);
    assert_true(perfdata_build_finish(w));
    open_recording(&r);
    perfdata_record record;
    while (perfdata_walk_next(r.w, &record)) {
        const size_t fixed[] = {
            [1] = 48 + 33, [2] = 16, [3] = 48 + 9, [4] = 24, [7] = 24, [10] = 48 + 65, [13] = 8};
        record.body.len = fixed[record.type] - 1;
        perfdata_mmap m;
        perfdata_comm c;
        perfdata_task t;
        uint64_t lost;
        assert_false(perfdata_decode_mmap(r.p, &record, &m));
        assert_false(perfdata_decode_comm(r.p, &record, &c));
        assert_false(perfdata_decode_task(r.p, &record, &t));
        assert_false(perfdata_decode_lost(r.p, &record, &lost));
    }
    close_recording(&r);
}

static void test_map_build_id_larger_than_its_field(void **state)
{
    (void)state;
    const perfdata_build_event e = {.sample_type = PERFDATA_SAMPLE_IP};
    recording r = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r.b), &(perfdata_build_opts){0}, &e, 1);
    perfdata_build_mmap2(
        w, &(perfdata_build_map){.path = "/x", .build_id = build_id, .build_id_size = 21});
    assert_true(perfdata_build_finish(w));
    open_recording(&r);
    perfdata_record record = next_of(&r, PERFDATA_RECORD_MMAP2);
    perfdata_mmap m;
    assert_false(perfdata_decode_mmap(r.p, &record, &m));
    close_recording(&r);
}

static void test_kernel_and_data_maps(void **state)
{
    (void)state;
    const perfdata_build_event e = {.sample_type = PERFDATA_SAMPLE_IP};
    recording r = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&r.b), &(perfdata_build_opts){0}, &e, 1);
    perfdata_build_map m = {.path = "[kernel.kallsyms]_text", .misc = PERFDATA_CPUMODE_KERNEL};
    perfdata_build_mmap(w, &m);
    m = (perfdata_build_map){.path = "//anon",
                             .misc = PERFDATA_CPUMODE_USER | PERFDATA_MISC_MMAP_DATA};
    perfdata_build_mmap(w, &m);
    assert_true(perfdata_build_finish(w));
    open_recording(&r);
    perfdata_mmap got;
    perfdata_record record = next_of(&r, PERFDATA_RECORD_MMAP);
    assert_true(perfdata_decode_mmap(r.p, &record, &got));
    assert_true(got.is_kernel);
    assert_int_equal(got.prot, 4);
    record = next_of(&r, PERFDATA_RECORD_MMAP);
    assert_true(perfdata_decode_mmap(r.p, &record, &got));
    assert_false(got.is_kernel);
    assert_true(got.is_data);
    assert_int_equal(got.prot, 0);
    close_recording(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_in_every_read_format),
        cmocka_unit_test(test_each_field_alone_changes_only_itself),
        cmocka_unit_test(test_registers_that_could_not_be_had_take_no_room),
        cmocka_unit_test(test_hostile_counts),
        cmocka_unit_test(test_counts_beyond_the_limit_are_refused_though_they_fit),
        cmocka_unit_test(test_cpu_modes),
        cmocka_unit_test(test_identifier_leads_to_events_of_different_fields),
        cmocka_unit_test(test_id_at_a_common_place_leads_to_events),
        cmocka_unit_test(test_id_zero_is_the_first_event),
        cmocka_unit_test(test_unknown_id_is_no_event_but_readable_if_all_agree),
        cmocka_unit_test(test_unknown_id_is_refused_if_fields_differ),
        cmocka_unit_test(test_records_with_and_without_trailers),
        cmocka_unit_test(test_trailers_of_events_that_differ),
        cmocka_unit_test(test_short_bodies_are_refused),
        cmocka_unit_test(test_map_build_id_larger_than_its_field),
        cmocka_unit_test(test_kernel_and_data_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
