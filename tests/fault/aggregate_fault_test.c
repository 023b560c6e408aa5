/*
 * Memory and disks that give out while traces become an SPT file. The n-th allocation fails (the
 * linker turns malloc, calloc and realloc into the functions here), for every n until a run gets
 * through; then the same for every write. Whatever fails: no crash, no leak (as the sanitizers
 * see it), and either the right file or none.
 */
#include "test_data.h"
#include "test_folder.h"

#include "etl_build.h"
#include "perfdata_scenario.h"

#include <aggregate/aggregate.h>
#include <base/bytes.h>
#include <os/file.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the allocator */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static atomic_bool is_armed, is_lasting; /* lasting: all later ones fail as well */
static atomic_long countdown;

static bool fails(void)
{
    if (!atomic_load(&is_armed))
        return false;
    long left = atomic_fetch_sub(&countdown, 1);
    return left == 1 || (left < 1 && atomic_load(&is_lasting));
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static void arm(long n, bool lasting)
{
    atomic_store(&countdown, n);
    atomic_store(&is_lasting, lasting);
    atomic_store(&is_armed, true);
}

/* Has the fault been reached? */
static bool disarm(void)
{
    atomic_store(&is_armed, false);
    return atomic_load(&countdown) <= 0;
}

/* ------------------------------------------------------------------ one run */

static void run_into(const char *trace_path, const char *output_path, unsigned threads,
                     spgo_code *code)
{
    const aggregate_opts opts = {.threads = threads};
    aggregate_result result = {0};
    trace *t = NULL;
    os_output *out = NULL;
    spgo_error err = {0};
    *code = trace_open(&trace_path, 1, NULL, &t, NULL, &err);
    if (*code == SPGO_OK)
        *code = os_output_open(output_path, &out, &err);
    if (*code == SPGO_OK)
        *code = aggregate_to_spt(t, &opts, os_output_sink(out), &result, &err);
    if (*code == SPGO_OK)
        *code = os_output_commit(out, &err);
    else
        os_output_discard(out);
    if (*code != SPGO_OK) {
        assert_int_equal(err.code, *code);
        assert_true(err.sentence[0] != '\0');
    }
    aggregate_result_free(&result);
    trace_close(t);
}

static void read_file(const char *path, bytes *out)
{
    bytes_clear(out);
    assert_true(bytes_reserve(out, 1 << 22));
    out->len = test_read_file(path, out->ptr, 1 << 22);
}

static void sweep(void **state, const bytes *file, unsigned threads, bool lasting)
{
    static const char old[] = "what was there before";
    const char *input = test_path(state, "trace"), *output = test_path(state, "out.spt");
    bytes right = {0}, now = {0};
    spgo_code code;
    test_write_file(input, file->ptr, file->len);
    run_into(input, output, threads, &code);
    assert_int_equal(code, SPGO_OK);
    read_file(output, &right);
    assert_true(right.len > 0x4000);

    long n = 1, survived = 0;
    for (bool reached = true; reached; n++) {
        test_write_file(output, old, sizeof old);
        arm(n, lasting);
        run_into(input, output, threads, &code);
        reached = disarm();
        read_file(output, &now);
        if (code == SPGO_OK) { /* a fault that could be lived with must not show */
            survived += reached;
            assert_int_equal(now.len, right.len);
            assert_memory_equal(now.ptr, right.ptr, right.len);
        } else {
            assert_true(reached);
            assert_true(code == SPGO_NOMEM || code == SPGO_LIMIT || code == SPGO_IO);
            assert_int_equal(now.len, sizeof old);
            assert_memory_equal(now.ptr, old, sizeof old);
        }
        assert_int_equal(test_folder_count(state), 2); /* no temporary file is left */
    }
    print_message("  %ld allocations, %ld of them not needed\n", n - 2, survived);
    assert_true(n > 20);
    bytes_free(&right);
    bytes_free(&now);
}

static void sweep_all(void **state, const bytes *file)
{
    sweep(state, file, 1, false);
    sweep(state, file, 1, true);
    sweep(state, file, 3, false);
    sweep(state, file, 3, true);
}

/* ------------------------------------------------------------------ memory */

static void build_etl(const char *text, bytes *out)
{
    etl_scenario s;
    assert_true(etl_scenario_parse(text, &s, NULL));
    assert_int_equal(etl_build(&s, bytes_sink(out), NULL, NULL), SPGO_OK);
}

static void an_etl_trace_survives_any_lack_of_memory(void **state)
{
    bytes file = {0};
    build_etl("mixed:60,kernel,two-processes,pid-reuse,compressed", &file);
    sweep_all(state, &file);
    bytes_free(&file);
}

static void a_perf_recording_survives_any_lack_of_memory(void **state)
{
    static const char *const texts[] = {"lbr:60,callgraph,exec,two-events,compressed",
                                        "lbr:60,pipe,fork,no-build-id"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bytes file = {0};
        perfdata_scenario s;
        perfdata_built built;
        const char *bad;
        assert_true(perfdata_scenario_parse(texts[i], &s, &bad));
        s.compressed &= perfdata_build_can_compress();
        assert_int_equal(perfdata_scenario_write(&s, bytes_sink(&file), &built, NULL), SPGO_OK);
        sweep_all(state, &file);
        bytes_free(&file);
    }
}

/* ------------------------------------------------------------------ writes */

typedef struct weak_sink {
    bytes content;
    long left; /* calls until one is refused */
    bool refused;
} weak_sink;

static bool refuses(weak_sink *w)
{
    w->refused |= --w->left == 0;
    return w->left == 0;
}

static bool weak_write(void *ctx, const void *data, size_t len)
{
    weak_sink *w = ctx;
    if (refuses(w))
        return false;
    return bytes_sink(&w->content).write(&w->content, data, len);
}

static bool weak_patch(void *ctx, uint64_t offset, const void *data, size_t len)
{
    weak_sink *w = ctx;
    return !refuses(w) && bytes_sink(&w->content).patch(&w->content, offset, data, len);
}

static bool weak_read(void *ctx, uint64_t offset, void *data, size_t len)
{
    weak_sink *w = ctx;
    return !refuses(w) && bytes_sink(&w->content).read(&w->content, offset, data, len);
}

static void a_refused_write_is_a_failure(void **state)
{
    bytes file = {0};
    build_etl("mixed:200,kernel,two-processes", &file);
    const char *input = test_path(state, "trace");
    test_write_file(input, file.ptr, file.len);
    bool refused = true;
    long n = 1;
    for (; refused; n++) {
        weak_sink w = {.left = n};
        const spgo_sink sink = {&w, weak_write, weak_patch, weak_read};
        aggregate_result result;
        trace *t;
        spgo_error err;
        assert_int_equal(trace_open(&input, 1, NULL, &t, NULL, &err), SPGO_OK);
        spgo_code code =
            aggregate_to_spt(t, &(aggregate_opts){.threads = n % 2 ? 1 : 3}, sink, &result, &err);
        refused = w.refused;
        assert_int_equal(code, refused ? SPGO_IO : SPGO_OK);
        aggregate_result_free(&result);
        trace_close(t);
        bytes_free(&w.content);
    }
    print_message("  %ld writes\n", n - 2);
    assert_true(n > 3);
    bytes_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_etl_trace_survives_any_lack_of_memory, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_perf_recording_survives_any_lack_of_memory,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_refused_write_is_a_failure, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
