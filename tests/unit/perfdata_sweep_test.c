/*
 * Every prefix and every flipped bit of small recordings through open, walk, all decoders and the
 * dump. The input ends where its memory ends, so that a sanitizer sees any byte read behind it.
 */
#include "perfdata_build.h"
#include "perfdata_scenario.h"
#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <format/perfdata/perfdata_dump.h>

typedef struct sweep {
    bytes whole;
    out o;
    bytes text;
    diag d;
} sweep;

static void decode_all(const perfdata *p, const perfdata_record *r)
{
    perfdata_mmap m;
    perfdata_task t;
    perfdata_comm c;
    uint64_t lost;
    perfdata_sample s;
    (void)perfdata_decode_mmap(p, r, &m);
    (void)perfdata_decode_task(p, r, &t);
    (void)perfdata_decode_comm(p, r, &c);
    (void)perfdata_decode_lost(p, r, &lost);
    if (!perfdata_decode_sample(p, r, &s))
        return;
    uint64_t sum = 0;
    assert_true(s.callchain.len == 8 * s.callchain_count);
    assert_true(s.branches.len == 24 * s.branch_count);
    for (size_t i = 0; i < s.callchain_count; i++)
        sum += perfdata_u64(p, s.callchain.ptr + 8 * i);
    for (size_t i = 0; i < 3 * s.branch_count; i++)
        sum += perfdata_u64(p, s.branches.ptr + 8 * i);
    if (s.attr_index != SIZE_MAX)
        assert_non_null(perfdata_get_attr(p, s.attr_index));
    (void)sum;
}

/* Must return; what it finds is not checked here. */
static void read_all(sweep *s, spgo_span input, bool dump)
{
    perfdata *p;
    perfdata_walk *w;
    perfdata_record r;
    spgo_error err;
    s->d.total = s->d.kept_count = 0;
    spgo_code code = perfdata_open(input, &p, &s->d, &err);
    if (code != SPGO_OK) {
        assert_int_equal(err.code, code);
        assert_true(err.offset <= input.len || err.offset == SPGO_NO_OFFSET);
        return;
    }
    if (dump)
        perfdata_dump_header(&s->o, NULL, p);
    assert_int_equal(perfdata_walk_new(p, &s->d, &w, NULL), SPGO_OK);
    uint64_t records = 0;
    while (perfdata_walk_next(w, &r)) {
        assert_true(r.offset < input.len);
        decode_all(p, &r);
        if (dump)
            perfdata_dump_record_fields(&s->o, NULL, p, &r);
        records++;
    }
    assert_true(records < 1000000);
    for (size_t i = 0; i < s->d.kept_count; i++)
        assert_true(s->d.kept[i].offset <= input.len);
    perfdata_walk_free(w);
    perfdata_close(p);
    assert_true(out_flush(&s->o));
    bytes_clear(&s->text);
}

static void begin_sweep(sweep *s, const char *scenario)
{
    perfdata_scenario parsed;
    perfdata_built built;
    const char *bad;
    *s = (sweep){0};
    assert_true(perfdata_scenario_parse(scenario, &parsed, &bad));
    if (parsed.compressed && !perfdata_build_can_compress())
        skip();
    assert_int_equal(perfdata_scenario_write(&parsed, bytes_sink(&s->whole), &built, NULL),
                     SPGO_OK);
    assert_int_equal(out_init(&s->o, bytes_sink(&s->text), NULL), SPGO_OK);
}

static void end_sweep(sweep *s)
{
    out_free(&s->o);
    bytes_free(&s->text);
    bytes_free(&s->whole);
}

static uint8_t *exact_copy(const bytes *b, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    if (len > 0)
        memcpy(copy, b->ptr, len);
    return copy;
}

static void sweep_prefixes(const char *scenario)
{
    sweep s;
    begin_sweep(&s, scenario);
    for (size_t len = 0; len <= s.whole.len; len++) {
        uint8_t *copy = exact_copy(&s.whole, len);
        read_all(&s, (spgo_span){copy, len}, len % 16 == 0);
        free(copy);
    }
    end_sweep(&s);
}

static void sweep_bits(const char *scenario)
{
    sweep s;
    begin_sweep(&s, scenario);
    uint8_t *copy = exact_copy(&s.whole, s.whole.len);
    for (size_t i = 0; i < 8 * s.whole.len; i++) {
        copy[i / 8] ^= (uint8_t)(1u << i % 8);
        read_all(&s, (spgo_span){copy, s.whole.len}, i % 16 == 0);
        copy[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    free(copy);
    end_sweep(&s);
}

/* Few samples: a flipped bit must be able to hit everything, not the same again and again. */
static const char *const file_mode = "lbr:1,callgraph,lost,two-events";
static const char *const pipe_mode = "ip:2,callgraph,lost,two-events,fork,pipe";
static const char *const big_endian = "lbr:1,callgraph,big-endian,no-build-id";
static const char *const compressed = "lbr:1,callgraph,two-events,compressed";

static void test_prefixes_of_a_file(void **state)
{
    (void)state;
    sweep_prefixes(file_mode);
    sweep_prefixes(big_endian);
}

static void test_prefixes_of_a_pipe(void **state)
{
    (void)state;
    sweep_prefixes(pipe_mode);
}

static void test_prefixes_of_a_compressed_file(void **state)
{
    (void)state;
    sweep_prefixes(compressed);
}

static void test_flipped_bits_of_a_file(void **state)
{
    (void)state;
    sweep_bits(file_mode);
    sweep_bits(big_endian);
}

static void test_flipped_bits_of_a_pipe(void **state)
{
    (void)state;
    sweep_bits(pipe_mode);
}

static void test_flipped_bits_of_a_compressed_file(void **state)
{
    (void)state;
    sweep_bits(compressed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes_of_a_file),
        cmocka_unit_test(test_prefixes_of_a_pipe),
        cmocka_unit_test(test_prefixes_of_a_compressed_file),
        cmocka_unit_test(test_flipped_bits_of_a_file),
        cmocka_unit_test(test_flipped_bits_of_a_pipe),
        cmocka_unit_test(test_flipped_bits_of_a_compressed_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
