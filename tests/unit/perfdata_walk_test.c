/* Walking records: borders, damage, trailing data, compressed records. */
#include "perfdata_build.h"
#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <base/limits.h>
#include <format/perfdata/perfdata.h>

#if SPGO_HAVE_ZSTD
#include <zstd.h>
#endif

static const perfdata_build_event event = {.sample_type = PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID,
                                           .flags = PERFDATA_ATTR_SAMPLE_ID_ALL};

static const uint64_t data_off = 104 + 136;

typedef struct walked {
    uint64_t count, samples, compressed, inside, unknown, bad;
    bool cut_short;
    diag d;
} walked;

static void walk_all(const bytes *b, walked *out)
{
    memset(out, 0, sizeof *out);
    perfdata *p;
    perfdata_walk *w;
    perfdata_record r;
    assert_int_equal(perfdata_open(bytes_span(b), &p, NULL, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(p, &out->d, &w, NULL), SPGO_OK);
    while (perfdata_walk_next(w, &r)) {
        out->count++;
        out->samples += r.type == PERFDATA_RECORD_SAMPLE;
        out->compressed += r.type == PERFDATA_RECORD_COMPRESSED;
        out->inside += r.from_compressed;
    }
    assert_false(perfdata_walk_next(w, &r)); /* the end stays the end */
    out->unknown = perfdata_walk_unknown_records(w);
    out->bad = perfdata_walk_bad_records(w);
    out->cut_short = perfdata_walk_cut_short(w);
    perfdata_walk_free(w);
    perfdata_close(p);
}

static perfdata_build *begin(bytes *b, const perfdata_build_opts *opts)
{
    return perfdata_build_new(bytes_sink(b), opts, &event, 1);
}

static void end(perfdata_build *w)
{
    assert_true(perfdata_build_finish(w));
}

static void sample(perfdata_build *w, uint64_t ip)
{
    perfdata_build_sample_record(w, &(perfdata_build_sample){.ip = ip, .pid = 1, .tid = 1});
}

static void assert_finding(const walked *w, spgo_code code, uint64_t offset)
{
    assert_int_equal(w->d.total, 1);
    assert_int_equal(w->d.kept[0].code, code);
    assert_int_equal(w->d.kept[0].offset, offset);
}

static void test_unknown_types_are_delivered_and_counted(void **state)
{
    (void)state;
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    perfdata_build_raw(w, 4711, 0, (spgo_span){(const uint8_t *)"abcdefgh", 8});
    perfdata_build_raw(w, 63, 0, (spgo_span){NULL, 0});
    sample(w, 1);
    end(w);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.unknown, 2);
    assert_int_equal(seen.samples, 1);
    assert_int_equal(seen.d.total, 0);
    assert_false(seen.cut_short);
    bytes_free(&b);
}

static void test_size_below_the_header_ends_the_walk(void **state)
{
    (void)state;
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    sample(w, 1);
    sample(w, 2);
    end(w);
    bytes_set_u16(&b, data_off + 24 + 6, 7);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.samples, 1);
    assert_finding(&seen, SPGO_CORRUPT, data_off + 24 + 6);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

static void test_size_beyond_the_end_ends_the_walk(void **state)
{
    (void)state;
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    sample(w, 1);
    sample(w, 2);
    end(w);
    bytes_set_u16(&b, data_off + 24 + 6, 25);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.samples, 1);
    assert_finding(&seen, SPGO_TRUNCATED, data_off + 24);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

static void test_a_cut_file_gives_its_whole_records(void **state)
{
    (void)state;
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    sample(w, 1);
    sample(w, 2);
    end(w);
    b.len = data_off + 24 + 5;
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.samples, 1);
    assert_finding(&seen, SPGO_TRUNCATED, data_off + 24);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

static void test_trace_data_behind_auxtrace_is_passed(void **state)
{
    (void)state;
    uint8_t body[40] = {16};
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    perfdata_build_raw(w, PERFDATA_RECORD_AUXTRACE, 0, (spgo_span){body, sizeof body});
    uint8_t trace[16];
    memset(trace, 0xee, sizeof trace);
    perfdata_build_bytes(w, (spgo_span){trace, sizeof trace});
    sample(w, 1);
    end(w);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.samples, 1);
    assert_int_equal(seen.d.total, 0);

    bytes_set_u64(&b, data_off + 8, 1ull << 63);
    walk_all(&b, &seen);
    assert_int_equal(seen.count, 1);
    assert_finding(&seen, SPGO_TRUNCATED, data_off);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

static void test_tracing_data_is_padded_to_words(void **state)
{
    (void)state;
    uint8_t body[4] = {5};
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){.pipe = true});
    perfdata_build_raw(w, PERFDATA_RECORD_HEADER_TRACING_DATA, 0, (spgo_span){body, sizeof body});
    perfdata_build_bytes(w, (spgo_span){(const uint8_t *)"abcde\0\0\0", 8});
    sample(w, 1);
    end(w);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.samples, 1);
    assert_int_equal(seen.d.total, 0);
    bytes_free(&b);
}

static void test_damaged_attribute_record_is_counted(void **state)
{
    (void)state;
    uint8_t body[72] = {0};
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){.pipe = true});
    sample(w, 1);
    uint64_t at = b.len;
    body[4] = 80; /* its size, more than there is */
    perfdata_build_raw(w, PERFDATA_RECORD_HEADER_ATTR, 0, (spgo_span){body, sizeof body});
    end(w);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.bad, 1);
    assert_finding(&seen, SPGO_CORRUPT, at);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ compressed */

static bytes build_compressed(size_t piece_bytes, size_t sample_count)
{
    bytes b = {0};
    perfdata_build *w =
        begin(&b, &(perfdata_build_opts){.compress = true, .compress_piece_bytes = piece_bytes});
    for (size_t i = 0; i < sample_count; i++)
        sample(w, i);
    end(w);
    return b;
}

static void skip_without_zstd(void)
{
    if (!perfdata_build_can_compress())
        skip();
}

static void test_records_span_compressed_ones(void **state)
{
    (void)state;
    skip_without_zstd();
    static const size_t pieces[] = {1, 7, 8, 23, 24, 25, 100, 4096, 0};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        bytes b = build_compressed(pieces[i], 50);
        walked seen;
        walk_all(&b, &seen);
        assert_int_equal(seen.samples, 50);
        assert_int_equal(seen.inside, 50);
        assert_int_equal(seen.count, 50 + seen.compressed);
        assert_int_equal(seen.compressed, pieces[i] ? (50 * 24 + pieces[i] - 1) / pieces[i] : 1);
        assert_int_equal(seen.d.total, 0);
        assert_false(seen.cut_short);
        bytes_free(&b);
    }
}

static void test_unpacked_records_are_the_written_ones(void **state)
{
    (void)state;
    skip_without_zstd();
    bytes b = build_compressed(100, 3000);
    perfdata *p;
    perfdata_walk *w;
    perfdata_record r;
    uint64_t next = 0;
    assert_int_equal(perfdata_open(bytes_span(&b), &p, NULL, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(p, NULL, &w, NULL), SPGO_OK);
    while (perfdata_walk_next(w, &r)) {
        perfdata_sample s;
        if (r.type != PERFDATA_RECORD_SAMPLE)
            continue;
        assert_true(perfdata_decode_sample(p, &r, &s));
        assert_int_equal(s.ip, next++);
    }
    assert_int_equal(next, 3000);
    perfdata_walk_free(w);
    perfdata_close(p);
    bytes_free(&b);
}

static void test_a_stream_that_ends_inside_a_record(void **state)
{
    (void)state;
    skip_without_zstd();
    uint8_t body[64] = {0};
    bytes whole = {0};
    perfdata_build *w =
        begin(&whole, &(perfdata_build_opts){.compress = true, .compress_piece_bytes = 60});
    sample(w, 1);
    perfdata_build_raw(w, PERFDATA_RECORD_COMM, 0, (spgo_span){body, sizeof body});
    end(w);
    /* Cut behind the first COMPRESSED record: 36 bytes of the COMM are in it. */
    uint16_t first = load_u16(whole.ptr + data_off + 6);
    bytes_set_u64(&whole, 48, first);
    bytes_set_u64(&whole, 72, 0);
    walked seen;
    walk_all(&whole, &seen);
    assert_int_equal(seen.samples, 1);
    assert_finding(&seen, SPGO_TRUNCATED, data_off);
    assert_true(seen.cut_short);
    bytes_free(&whole);
}

static void test_damaged_stream_is_left_and_the_rest_read(void **state)
{
    (void)state;
    skip_without_zstd();
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    perfdata_build_raw(w, PERFDATA_RECORD_COMPRESSED, 0,
                       (spgo_span){(const uint8_t *)"no zstd stream..", 16});
    sample(w, 1);
    end(w);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.samples, 1);
    assert_int_equal(seen.bad, 1);
    assert_finding(&seen, SPGO_CORRUPT, data_off);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

#if SPGO_HAVE_ZSTD
static bytes one_compressed(uint32_t type, const void *content, size_t size, bool sized)
{
    bytes packed = {0}, b = {0};
    assert_true(bytes_reserve(&packed, ZSTD_compressBound(size)));
    packed.len = ZSTD_compress(packed.ptr, packed.cap, content, size, 1);
    assert_false(ZSTD_isError(packed.len));
    bytes body = {0};
    if (sized)
        bytes_u64(&body, packed.len);
    bytes_put(&body, packed.ptr, packed.len);
    bytes_fill(&body, 0, sized ? (8 - packed.len % 8) % 8 : 0);
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    perfdata_build_raw(w, type, 0, bytes_span(&body));
    end(w);
    bytes_free(&packed);
    bytes_free(&body);
    return b;
}

static void test_second_kind_says_its_size(void **state)
{
    (void)state;
    static const uint8_t round[8] = {68, 0, 0, 0, 0, 0, 8, 0};
    bytes b = one_compressed(PERFDATA_RECORD_COMPRESSED2, round, sizeof round, true);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.inside, 1);
    assert_int_equal(seen.d.total, 0);

    bytes_set_u64(&b, data_off + 8, 1000);
    walk_all(&b, &seen);
    assert_int_equal(seen.inside, 0);
    assert_int_equal(seen.bad, 1);
    assert_finding(&seen, SPGO_CORRUPT, data_off);
    bytes_free(&b);
}

static void test_lost_borders_inside_are_lost_for_good(void **state)
{
    (void)state;
    static const uint8_t records[] = {68, 0, 0, 0, 0, 0, 8, 0, 68, 0, 0, 0, 0, 0, 7, 0};
    bytes b = one_compressed(PERFDATA_RECORD_COMPRESSED, records, sizeof records, false);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.inside, 1);
    assert_int_equal(seen.bad, 1);
    assert_finding(&seen, SPGO_CORRUPT, data_off);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

static void test_a_bomb_ends_at_the_limit(void **state)
{
    (void)state;
    const size_t bomb_size = 200u << 20;
    uint8_t *bomb = calloc(1, bomb_size);
    assert_non_null(bomb);
    for (size_t i = 0; i < bomb_size; i += 32768) {
        store_u32(bomb + i, PERFDATA_RECORD_FINISHED_ROUND);
        store_u16(bomb + i + 6, 32768);
    }
    bytes b = one_compressed(PERFDATA_RECORD_COMPRESSED, bomb, bomb_size, false);
    free(bomb);
    walked seen;
    walk_all(&b, &seen);
    assert_true(seen.inside <= (64u << 20) / 32768);
    assert_true(seen.inside >= (60u << 20) / 32768);
    assert_finding(&seen, SPGO_LIMIT, data_off);
    assert_true(seen.cut_short);
    bytes_free(&b);
}

/* Each record keeps to its own limit, but all together would not end. */
static void test_many_bombs_end_too(void **state)
{
    (void)state;
    enum { ROUND = 32768, BOMBS = 12 };
    const size_t bomb_size = 48u << 20;
    uint8_t *bomb = calloc(1, bomb_size);
    bytes packed = {0}, b = {0};
    assert_non_null(bomb);
    for (size_t i = 0; i < bomb_size; i += ROUND) {
        store_u32(bomb + i, PERFDATA_RECORD_FINISHED_ROUND);
        store_u16(bomb + i + 6, ROUND);
    }
    assert_true(bytes_reserve(&packed, ZSTD_compressBound(bomb_size)));
    packed.len = ZSTD_compress(packed.ptr, packed.cap, bomb, bomb_size, 1);
    free(bomb);
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    for (int i = 0; i < BOMBS; i++)
        perfdata_build_raw(w, PERFDATA_RECORD_COMPRESSED, 0, bytes_span(&packed));
    end(w);
    const uint64_t max = LIMIT_PERFDATA_EXPANDED_BYTES + LIMIT_PERFDATA_EXPANSION * (uint64_t)b.len;
    walked seen;
    walk_all(&b, &seen);
    assert_true(seen.inside <= max / ROUND);
    assert_true(seen.inside >= max / ROUND * 9 / 10);
    assert_int_equal(seen.d.kept[0].code, SPGO_LIMIT);
    assert_true(seen.bad > 1);
    assert_true(seen.cut_short);
    bytes_free(&packed);
    bytes_free(&b);
}
#else
static void test_builds_without_zstd_say_so(void **state)
{
    (void)state;
    bytes b = {0};
    perfdata_build *w = begin(&b, &(perfdata_build_opts){0});
    perfdata_build_raw(w, PERFDATA_RECORD_COMPRESSED, 0,
                       (spgo_span){(const uint8_t *)"12345678", 8});
    sample(w, 1);
    end(w);
    walked seen;
    walk_all(&b, &seen);
    assert_int_equal(seen.samples, 1);
    assert_int_equal(seen.bad, 1);
    assert_finding(&seen, SPGO_UNSUPPORTED, data_off);
    assert_non_null(strstr(seen.d.kept[0].sentence, "no zstd"));
    bytes_free(&b);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_types_are_delivered_and_counted),
        cmocka_unit_test(test_size_below_the_header_ends_the_walk),
        cmocka_unit_test(test_size_beyond_the_end_ends_the_walk),
        cmocka_unit_test(test_a_cut_file_gives_its_whole_records),
        cmocka_unit_test(test_trace_data_behind_auxtrace_is_passed),
        cmocka_unit_test(test_tracing_data_is_padded_to_words),
        cmocka_unit_test(test_damaged_attribute_record_is_counted),
        cmocka_unit_test(test_records_span_compressed_ones),
        cmocka_unit_test(test_unpacked_records_are_the_written_ones),
        cmocka_unit_test(test_a_stream_that_ends_inside_a_record),
        cmocka_unit_test(test_damaged_stream_is_left_and_the_rest_read),
#if SPGO_HAVE_ZSTD
        cmocka_unit_test(test_second_kind_says_its_size),
        cmocka_unit_test(test_lost_borders_inside_are_lost_for_good),
        cmocka_unit_test(test_a_bomb_ends_at_the_limit),
        cmocka_unit_test(test_many_bombs_end_too),
#else
        cmocka_unit_test(test_builds_without_zstd_say_so),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
