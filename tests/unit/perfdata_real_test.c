/*
 * Recordings of real programs: the shared one, and ones that perf makes now, where it may, whose
 * counts are compared with what perf itself prints. Generated recordings go through perf, too.
 */
#include "perfdata_scenario.h"
#include "test_data.h"
#include "test_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <format/perfdata/perfdata.h>

typedef struct tally {
    uint64_t by_type[128];
    uint64_t bad, branches, frames, without_event, cut;
    uint64_t ip_sum;
} tally;

static void count_sample(const perfdata *p, const perfdata_record *r, tally *t)
{
    perfdata_sample s;
    if (!perfdata_decode_sample(p, r, &s)) {
        t->bad++;
        return;
    }
    t->branches += s.branch_count;
    t->frames += s.callchain_count;
    t->without_event += s.attr_index == SIZE_MAX;
    t->ip_sum += s.ip;
}

static void count_record(const perfdata *p, const perfdata_record *r, tally *t)
{
    perfdata_mmap m;
    perfdata_comm c;
    perfdata_task k;
    t->by_type[r->type < 128 ? r->type : 127]++;
    switch (r->type) {
    case PERFDATA_RECORD_SAMPLE:
        count_sample(p, r, t);
        break;
    case PERFDATA_RECORD_MMAP:
    case PERFDATA_RECORD_MMAP2:
        t->bad += !perfdata_decode_mmap(p, r, &m);
        break;
    case PERFDATA_RECORD_COMM:
        t->bad += !perfdata_decode_comm(p, r, &c);
        break;
    case PERFDATA_RECORD_FORK:
    case PERFDATA_RECORD_EXIT:
        t->bad += !perfdata_decode_task(p, r, &k);
        break;
    default:
        break;
    }
}

static tally count_all(spgo_span input)
{
    tally t = {0};
    diag d = {0};
    perfdata *p;
    perfdata_walk *w;
    perfdata_record r;
    assert_int_equal(perfdata_open(input, &p, &d, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(p, &d, &w, NULL), SPGO_OK);
    while (perfdata_walk_next(w, &r))
        count_record(p, &r, &t);
    t.bad += perfdata_walk_bad_records(w) + perfdata_walk_unknown_records(w);
    t.cut = perfdata_walk_cut_short(w);
    assert_int_equal(d.total, 0);
    perfdata_walk_free(w);
    perfdata_close(p);
    return t;
}

static void test_last_branches_of_a_real_program(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("lbr/speedtest1.perf.data");
    tally t = count_all(file);
    assert_int_equal(t.by_type[PERFDATA_RECORD_SAMPLE], 20043);
    assert_int_equal(t.branches, 641376);
    assert_int_equal(t.by_type[PERFDATA_RECORD_COMM], 1);
    assert_int_equal(t.by_type[PERFDATA_RECORD_MMAP2], 1);
    assert_int_equal(t.bad + t.cut, 0);
    test_data_free(file);
}

static void test_map_of_a_real_program(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("lbr/speedtest1.perf.data");
    perfdata *p;
    perfdata_walk *w;
    perfdata_record r;
    perfdata_mmap m;
    assert_int_equal(perfdata_open(file, &p, NULL, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(p, NULL, &w, NULL), SPGO_OK);
    while (perfdata_walk_next(w, &r) && r.type != PERFDATA_RECORD_MMAP2) {
    }
    assert_true(perfdata_decode_mmap(p, &r, &m));
    /* The executable segment's page: address and file offset part by more than the bias. */
    assert_int_equal(m.addr, 0x4000000000 + 0x30000);
    assert_int_equal(m.pgoff, 0x2f000);
    assert_int_equal(m.path.len, 10);
    assert_memory_equal(m.path.ptr, "speedtest1", 10);
    perfdata_walk_free(w);
    perfdata_close(p);
    test_data_free(file);
}

/* ------------------------------------------------------------------ perf itself */

static spgo_span read_path(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *content = malloc((size_t)size + 1);
    assert_non_null(content);
    assert_int_equal(fread(content, 1, (size_t)size, f), size);
    fclose(f);
    return (spgo_span){content, (size_t)size};
}

static const struct {
    uint32_t type;
    const char *mark; /* in perf's raw dump */
} kinds[] = {
    {PERFDATA_RECORD_MMAP2, ": PERF_RECORD_MMAP2 "},
    {PERFDATA_RECORD_COMM, ": PERF_RECORD_COMM"},
    {PERFDATA_RECORD_FORK, ": PERF_RECORD_FORK("},
    {PERFDATA_RECORD_EXIT, ": PERF_RECORD_EXIT("},
    {PERFDATA_RECORD_SAMPLE, ": PERF_RECORD_SAMPLE("},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* How many records of each kind perf itself finds. */
static void count_with_perf(const char *path, bool is_pipe, uint64_t counts[KIND_COUNT])
{
    static char line[1 << 18];
    char command[4096];
    snprintf(command, sizeof command, "perf script -D -i %s %s 2>/dev/null", is_pipe ? "- <" : "",
             path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    memset(counts, 0, KIND_COUNT * sizeof *counts);
    while (fgets(line, sizeof line, f)) {
        for (size_t i = 0; i < KIND_COUNT; i++)
            counts[i] += strstr(line, kinds[i].mark) != NULL;
    }
    assert_int_equal(pclose(f), 0);
}

static void compare_with_perf(const char *path, bool is_pipe)
{
    uint64_t counts[KIND_COUNT];
    spgo_span file = read_path(path);
    tally t = count_all(file);
    assert_int_equal(t.bad, 0);
    assert_int_equal(t.without_event, 0);
    assert_int_equal(t.cut, 0);
    count_with_perf(path, is_pipe, counts);
    for (size_t i = 0; i < KIND_COUNT; i++)
        assert_int_equal(t.by_type[kinds[i].type], counts[i]);
    assert_true(t.by_type[PERFDATA_RECORD_COMM] > 0);
    test_data_free(file);
}

static void record_and_compare(void **state, bool is_pipe, const char *options)
{
    char command[4096];
    const char *path = test_path(state, "perf.data");
    snprintf(command, sizeof command,
             "cd / && perf record -q -F 1000 %s -o %s -- sh -c 'seq 1 20000 | sort | md5sum "
             ">/dev/null' %s%s 2>/dev/null",
             options, is_pipe ? "-" : path, is_pipe ? ">" : "", is_pipe ? path : "");
    if (system(command) != 0) {
        print_message("skipped: perf record %s does not work here\n", options);
        skip();
    }
    compare_with_perf(path, is_pipe);
}

static void test_clock_samples(void **state)
{
    record_and_compare(state, false, "-e cpu-clock");
}

static void test_call_graphs_through_a_pipe(void **state)
{
    record_and_compare(state, true, "-e cpu-clock -g");
}

static void test_stacks_and_registers(void **state)
{
    record_and_compare(state, false, "-e cpu-clock --call-graph dwarf,512");
}

static void test_two_events_and_more_fields(void **state)
{
    record_and_compare(state, true, "-e cpu-clock,page-faults -d -W --phys-data --period");
}

static void test_build_ids_and_switches(void **state)
{
    record_and_compare(state, false, "-e cpu-clock --buildid-mmap --switch-events --all-kernel");
}

static void test_compressed(void **state)
{
    if (!perfdata_build_can_compress())
        skip();
    record_and_compare(state, false, "-e cpu-clock -g -z");
}

/* False if this build cannot write it. */
static bool write_scenario(const char *path, const char *text, perfdata_built *built)
{
    perfdata_scenario s;
    const char *bad;
    bytes b = {0};
    assert_true(perfdata_scenario_parse(text, &s, &bad));
    if (s.compressed && !perfdata_build_can_compress())
        return false;
    assert_int_equal(perfdata_scenario_write(&s, bytes_sink(&b), built, NULL), SPGO_OK);
    test_write_file(path, b.ptr, b.len);
    bytes_free(&b);
    return true;
}

static void test_generated_recordings_hold_what_was_asked_for(void **state)
{
    static const char *const scenarios[] = {
        "lbr",
        "ip",
        "callgraph",
        "lbr,fork",
        "lbr,exec",
        "lbr,pipe",
        "lbr,compressed",
        "lbr,lost",
        "lbr,big-endian",
        "lbr,two-events",
        "lbr,no-build-id",
        "lbr:300,callgraph,fork,exec,pipe,compressed,two-events,lost,big-endian"};
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        perfdata_built built;
        const char *path = test_path(state, "made.data");
        if (!write_scenario(path, scenarios[i], &built))
            continue;
        spgo_span file = read_path(path);
        tally t = count_all(file);
        assert_int_equal(t.by_type[PERFDATA_RECORD_SAMPLE], built.samples + built.second_samples);
        assert_int_equal(t.branches, built.branches);
        assert_int_equal(t.frames, built.frames);
        assert_int_equal(t.by_type[PERFDATA_RECORD_MMAP2], built.image_count);
        assert_int_equal(t.bad + t.cut + t.without_event, 0);
        test_data_free(file);
    }
}

static void test_perf_reads_generated_recordings(void **state)
{
    static const char *const scenarios[] = {"lbr:50",
                                            "ip:50,fork",
                                            "lbr:50,exec,two-events",
                                            "lbr:50,pipe",
                                            "lbr:50,big-endian",
                                            "lbr:50,compressed",
                                            "lbr:50,compressed,pipe"};
    if (system("perf --version >/dev/null 2>&1") != 0)
        skip();
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        perfdata_built built;
        uint64_t counts[KIND_COUNT];
        const char *path = test_path(state, "made.data");
        if (!write_scenario(path, scenarios[i], &built))
            continue;
        count_with_perf(path, strstr(scenarios[i], "pipe"), counts);
        assert_int_equal(counts[0], built.image_count);
        assert_int_equal(counts[KIND_COUNT - 1], built.samples + built.second_samples);
    }
}

int main(void)
{
#define WITH_FOLDER(test)                                                                          \
    cmocka_unit_test_setup_teardown(test, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_branches_of_a_real_program),
        cmocka_unit_test(test_map_of_a_real_program),
        WITH_FOLDER(test_clock_samples),
        WITH_FOLDER(test_call_graphs_through_a_pipe),
        WITH_FOLDER(test_stacks_and_registers),
        WITH_FOLDER(test_two_events_and_more_fields),
        WITH_FOLDER(test_build_ids_and_switches),
        WITH_FOLDER(test_compressed),
        WITH_FOLDER(test_generated_recordings_hold_what_was_asked_for),
        WITH_FOLDER(test_perf_reads_generated_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
