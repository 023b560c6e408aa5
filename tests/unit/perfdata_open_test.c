/* Header, attributes and features of perf.data, whole and with one field broken. */
#include "perfdata_build.h"
#include "test_data.h"

#include <string.h>

#include <format/perfdata/perfdata.h>

enum { ATTRS_AT = 104, DATA_SIZE_AT = 48 };

static const uint64_t ids_a[] = {11, 12}, ids_b[] = {21};

static const perfdata_build_event two_events[] = {
    {.name = "cycles",
     .type = 0,
     .config = 0,
     .period = 4000,
     .sample_type = PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_IDENTIFIER,
     .flags = PERFDATA_ATTR_FREQ | PERFDATA_ATTR_SAMPLE_ID_ALL,
     .branch_sample_type = 8,
     .ids = ids_a,
     .id_count = 2},
    {.name = "cpu-clock",
     .type = 1,
     .config = 7,
     .sample_type = PERFDATA_SAMPLE_IDENTIFIER,
     .ids = ids_b,
     .id_count = 1},
};

static const uint8_t some_id[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

static bytes build(const perfdata_build_opts *opts, const perfdata_build_event *events,
                   size_t event_count)
{
    bytes b = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&b), opts, events, event_count);
    perfdata_build_add_build_id(w, UINT32_MAX, 2, some_id, 16, "/usr/bin/sixteen");
    perfdata_build_add_build_id(w, UINT32_MAX, 1, some_id, 0, "[kernel.kallsyms]");
    perfdata_build_finished_round(w);
    assert_true(perfdata_build_finish(w));
    return b;
}

static bytes build_plain(void)
{
    const perfdata_build_opts opts = {
        .hostname = "host", .os_release = "6.1", .arch = "x86_64", .cmdline = "perf record"};
    return build(&opts, two_events, 2);
}

static void assert_text(spgo_str s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.ptr, expected, s.len);
}

static void expect_failure(bytes *b, spgo_code code, uint64_t offset)
{
    spgo_error err = {0};
    perfdata *p;
    assert_int_equal(perfdata_open(bytes_span(b), &p, NULL, &err), code);
    assert_null(p);
    assert_int_equal(err.code, code);
    assert_int_equal(err.offset, offset);
    assert_true(strlen(err.sentence) > 0);
    bytes_free(b);
}

/* Opens although something is wrong, and says so once. */
static perfdata *open_with_finding(const bytes *b, spgo_code code, uint64_t offset)
{
    diag d = {0};
    perfdata *p = NULL;
    assert_int_equal(perfdata_open(bytes_span(b), &p, &d, NULL), SPGO_OK);
    assert_int_equal(d.total, 1);
    assert_int_equal(d.kept[0].code, code);
    assert_int_equal(d.kept[0].offset, offset);
    return p;
}

static void check_contents(const perfdata *p)
{
    assert_text(perfdata_hostname(p), "host");
    assert_text(perfdata_os_release(p), "6.1");
    assert_text(perfdata_arch(p), "x86_64");
    assert_text(perfdata_cmdline(p), "perf record");
    assert_int_equal(perfdata_attr_count(p), 2);
    const perfdata_attr *a = perfdata_get_attr(p, 0);
    assert_text(a->name, "cycles");
    assert_int_equal(a->sample_period, 4000);
    assert_int_equal(a->sample_type, two_events[0].sample_type);
    assert_int_equal(a->flags, two_events[0].flags);
    assert_int_equal(a->branch_sample_type, 8);
    assert_int_equal(a->id_count, 2);
    a = perfdata_get_attr(p, 1);
    assert_text(a->name, "cpu-clock");
    assert_int_equal(a->type, 1);
    assert_int_equal(a->config, 7);
    assert_null(perfdata_get_attr(p, 2));
}

static void check_build_ids(const perfdata *p)
{
    assert_int_equal(perfdata_build_id_count(p), 2);
    const perfdata_build_id *b = perfdata_get_build_id(p, 0);
    assert_int_equal(b->size, 16);
    assert_memory_equal(b->id, some_id, 16);
    assert_int_equal(b->pid, UINT32_MAX);
    assert_text(b->path, "/usr/bin/sixteen");
    b = perfdata_get_build_id(p, 1);
    assert_int_equal(b->size, 20);
    assert_memory_equal(b->id, some_id, 20);
    assert_text(b->path, "[kernel.kallsyms]");
    assert_null(perfdata_get_build_id(p, 2));
}

static void test_every_mode_and_byte_order_says_the_same(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        const perfdata_build_opts opts = {.big_endian = kind & 1,
                                          .pipe = kind & 2,
                                          .hostname = "host",
                                          .os_release = "6.1",
                                          .arch = "x86_64",
                                          .cmdline = "perf record"};
        bytes b = build(&opts, two_events, 2);
        diag d = {0};
        perfdata *p;
        assert_int_equal(perfdata_open(bytes_span(&b), &p, &d, NULL), SPGO_OK);
        assert_int_equal(d.total, 0);
        assert_int_equal(perfdata_is_big_endian(p), opts.big_endian);
        assert_int_equal(perfdata_is_pipe(p), opts.pipe);
        check_contents(p);
        check_build_ids(p);
        perfdata_close(p);
        bytes_free(&b);
    }
}

static void test_walking_a_pipe_twice_takes_its_metadata_once(void **state)
{
    (void)state;
    const perfdata_build_opts opts = {.pipe = true,
                                      .hostname = "host",
                                      .os_release = "6.1",
                                      .arch = "x86_64",
                                      .cmdline = "perf record"};
    bytes b = build(&opts, two_events, 2);
    perfdata *p;
    assert_int_equal(perfdata_open(bytes_span(&b), &p, NULL, NULL), SPGO_OK);
    for (int i = 0; i < 2; i++) {
        perfdata_walk *w;
        perfdata_record r;
        assert_int_equal(perfdata_walk_new(p, NULL, &w, NULL), SPGO_OK);
        while (perfdata_walk_next(w, &r)) {
        }
        perfdata_walk_free(w);
        check_contents(p);
        check_build_ids(p);
    }
    perfdata_close(p);
    bytes_free(&b);
}

static void test_attributes_of_every_size(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {64, 72, 80, 96, 104, 112, 120, 128, 136};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        perfdata_build_event e = two_events[0];
        e.attr_size = sizes[i];
        e.regs_user = 0xf0;
        e.regs_intr = 0xf;
        bytes b = build(&(perfdata_build_opts){.unfinished = true}, &e, 1);
        perfdata *p;
        assert_int_equal(perfdata_open(bytes_span(&b), &p, NULL, NULL), SPGO_OK);
        const perfdata_attr *a = perfdata_get_attr(p, 0);
        assert_int_equal(a->sample_type, e.sample_type);
        assert_int_equal(a->branch_sample_type, sizes[i] >= 80 ? 8 : 0);
        assert_int_equal(a->sample_regs_user, sizes[i] >= 96 ? 0xf0 : 0);
        assert_int_equal(a->sample_regs_intr, sizes[i] >= 104 ? 0xf : 0);
        assert_int_equal(a->id_count, 2);
        perfdata_close(p);
        bytes_free(&b);
    }
}

static void test_size_zero_is_the_first_version(void **state)
{
    (void)state;
    perfdata_build_event e = two_events[0];
    e.attr_size = 64;
    bytes b = build(&(perfdata_build_opts){.unfinished = true}, &e, 1);
    bytes_set_u32(&b, ATTRS_AT + 16 + 4, 0);
    perfdata *p = open_with_finding(&b, SPGO_TRUNCATED, DATA_SIZE_AT);
    assert_int_equal(perfdata_get_attr(p, 0)->id_count, 2);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_short_files_have_no_magic(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_put(&b, "PERFIL", 6);
    expect_failure(&b, SPGO_TRUNCATED, 6);
}

static void test_other_magics_are_refused(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_put(&b, "PERFILE3", 8);
    bytes_fill(&b, 0, 96);
    assert_false(perfdata_sniff(bytes_span(&b)));
    expect_failure(&b, SPGO_CORRUPT, 0);
}

static void test_version_1_is_named(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_put(&b, "PERFFILE", 8);
    bytes_fill(&b, 0, 96);
    assert_true(perfdata_sniff(bytes_span(&b)));
    expect_failure(&b, SPGO_UNSUPPORTED, 0);
}

static void test_header_size(void **state)
{
    (void)state;
    bytes b = build_plain();
    bytes_set_u64(&b, 8, 100);
    expect_failure(&b, SPGO_CORRUPT, 8);
}

static void test_header_cut(void **state)
{
    (void)state;
    bytes b = build_plain();
    b.len = 100;
    expect_failure(&b, SPGO_TRUNCATED, 96);
}

static void test_attribute_entry_size(void **state)
{
    (void)state;
    bytes b = build_plain();
    bytes_set_u64(&b, 16, 0);
    expect_failure(&b, SPGO_CORRUPT, 16);
}

static void test_attributes_behind_the_end(void **state)
{
    (void)state;
    bytes b = build_plain();
    bytes_set_u64(&b, 24, b.len - 1);
    uint64_t end = b.len;
    expect_failure(&b, SPGO_TRUNCATED, end);
}

static void test_attribute_larger_than_its_entry(void **state)
{
    (void)state;
    bytes b = build_plain();
    const uint64_t first_attr = ATTRS_AT + 8 * 3;
    bytes_set_u32(&b, first_attr + 4, 128);
    expect_failure(&b, SPGO_CORRUPT, first_attr + 4);
}

static void test_ids_behind_the_end_leave_the_event(void **state)
{
    (void)state;
    bytes b = build_plain();
    const uint64_t ids_section = ATTRS_AT + 8 * 3 + 120;
    bytes_set_u64(&b, ids_section, UINT64_MAX - 4);
    perfdata *p = open_with_finding(&b, SPGO_CORRUPT, ids_section);
    assert_int_equal(perfdata_get_attr(p, 0)->id_count, 0);
    assert_int_equal(perfdata_get_attr(p, 1)->id_count, 1);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_no_event_is_a_finding(void **state)
{
    (void)state;
    bytes b = build_plain();
    bytes_set_u64(&b, 32, 0);
    perfdata *p = open_with_finding(&b, SPGO_CORRUPT, 24);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_unfinished_recording_is_read_to_the_end(void **state)
{
    (void)state;
    bytes b = build(&(perfdata_build_opts){.unfinished = true}, two_events, 2);
    perfdata *p = open_with_finding(&b, SPGO_TRUNCATED, DATA_SIZE_AT);
    perfdata_walk *w;
    perfdata_record r;
    assert_int_equal(perfdata_walk_new(p, NULL, &w, NULL), SPGO_OK);
    assert_true(perfdata_walk_next(w, &r));
    assert_int_equal(r.type, PERFDATA_RECORD_FINISHED_ROUND);
    assert_false(perfdata_walk_next(w, &r));
    assert_false(perfdata_walk_cut_short(w));
    perfdata_walk_free(w);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_feature_behind_the_end_is_left_out(void **state)
{
    (void)state;
    bytes b = build_plain();
    const uint64_t table = ATTRS_AT + 8 * 3 + 2 * 136 + 8;
    bytes_set_u64(&b, table + 16 + 8, 1ull << 40); /* the host name's size */
    perfdata *p = open_with_finding(&b, SPGO_TRUNCATED, table + 16);
    assert_int_equal(perfdata_hostname(p).len, 0);
    assert_text(perfdata_arch(p), "x86_64");
    perfdata_close(p);
    bytes_free(&b);
}

static void test_build_id_of_impossible_size(void **state)
{
    (void)state;
    const perfdata_build_opts opts = {0};
    bytes b = {0};
    perfdata_build *w = perfdata_build_new(bytes_sink(&b), &opts, two_events, 1);
    perfdata_build_add_build_id(w, 0, 2, some_id, 21, "/bin/x");
    perfdata_build_finished_round(w);
    assert_true(perfdata_build_finish(w));
    diag d = {0};
    perfdata *p;
    assert_int_equal(perfdata_open(bytes_span(&b), &p, &d, NULL), SPGO_OK);
    assert_int_equal(d.total, 1);
    assert_int_equal(d.kept[0].code, SPGO_CORRUPT);
    assert_int_equal(perfdata_build_id_count(p), 0);
    assert_int_equal(b.ptr[d.kept[0].offset], 21);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_directory_recordings_are_named(void **state)
{
    (void)state;
    bytes b = build_plain();
    /* The architecture's bit (6) becomes that of the directory format (24). */
    bytes_set_u64(&b, 72, (load_u64(b.ptr + 72) & ~(1ull << 6)) | 1ull << 24);
    diag d = {0};
    perfdata *p;
    assert_int_equal(perfdata_open(bytes_span(&b), &p, &d, NULL), SPGO_OK);
    assert_true(d.total >= 1);
    assert_int_equal(d.kept[d.kept_count - 1].code, SPGO_UNSUPPORTED);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_feature_bits_of_a_32_bit_big_endian_recorder(void **state)
{
    (void)state;
    const perfdata_build_opts opts = {.big_endian = true,
                                      .hostname = "host",
                                      .os_release = "6.1",
                                      .arch = "x86_64",
                                      .cmdline = "perf record"};
    bytes b = build(&opts, two_events, 2);
    uint64_t stored = load_u64(b.ptr + 72);
    bytes_set_u64(&b, 72, stored << 32 | stored >> 32);
    perfdata *p;
    assert_int_equal(perfdata_open(bytes_span(&b), &p, NULL, NULL), SPGO_OK);
    check_contents(p);
    perfdata_close(p);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mode_and_byte_order_says_the_same),
        cmocka_unit_test(test_walking_a_pipe_twice_takes_its_metadata_once),
        cmocka_unit_test(test_attributes_of_every_size),
        cmocka_unit_test(test_size_zero_is_the_first_version),
        cmocka_unit_test(test_short_files_have_no_magic),
        cmocka_unit_test(test_other_magics_are_refused),
        cmocka_unit_test(test_version_1_is_named),
        cmocka_unit_test(test_header_size),
        cmocka_unit_test(test_header_cut),
        cmocka_unit_test(test_attribute_entry_size),
        cmocka_unit_test(test_attributes_behind_the_end),
        cmocka_unit_test(test_attribute_larger_than_its_entry),
        cmocka_unit_test(test_ids_behind_the_end_leave_the_event),
        cmocka_unit_test(test_no_event_is_a_finding),
        cmocka_unit_test(test_unfinished_recording_is_read_to_the_end),
        cmocka_unit_test(test_feature_behind_the_end_is_left_out),
        cmocka_unit_test(test_build_id_of_impossible_size),
        cmocka_unit_test(test_directory_recordings_are_named),
        cmocka_unit_test(test_feature_bits_of_a_32_bit_big_endian_recorder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
