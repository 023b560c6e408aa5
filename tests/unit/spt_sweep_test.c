/*
 * Hostile input: every prefix of a small file, every single flipped bit, and many random mutations
 * go through open, both walks, verify, merge and fold. All must return, the walks must agree, and
 * what is written must be valid. Run it under the sanitizers.
 */
#include "spt_build.h"

#include <stdlib.h>

typedef struct walked {
    uint64_t records; /* with entries */
    uint64_t failures;
} walked;

static walked walk_all(const spgo_spt *spt, size_t file_size)
{
    walked seen = {0};
    spgo_spt_cursor c = spgo_spt_records(spt);
    for (;;) {
        spgo_spt_record r;
        spgo_error err;
        uint64_t before = c.pos;
        spgo_code code = spgo_spt_next(&c, &r, &err);
        if (code == SPGO_NOT_FOUND)
            break;
        assert_true(c.pos >= before && c.pos <= file_size);
        if (code != SPGO_OK) {
            seen.failures++;
            assert_true(err.offset <= file_size);
        } else {
            assert_int_equal(r.offset, before);
            assert_int_equal(c.pos, before + r.size_bytes);
            assert_true(r.program < spgo_spt_program_count(spt));
            seen.records += spgo_spt_opcode_kind(r.opcode) != SPGO_SPT_KIND_NONE;
        }
        assert_true(seen.failures <= file_size);
    }
    return seen;
}

static walked walk_fast(const spgo_spt *spt)
{
    walked seen = {0};
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    spgo_code code;
    for (;;) {
        while (spgo_spt_next_entries(&c, &r, &code))
            seen.records++;
        if (code == SPGO_NOT_FOUND)
            return seen;
        assert_int_equal(spgo_spt_next(&c, &r, NULL), code);
        seen.failures++;
    }
}

static void expect_valid(bytes b)
{
    spgo_spt_verdict verdict;
    assert_int_equal(spgo_spt_verify(bytes_span(&b), NULL, NULL, &verdict, NULL), SPGO_OK);
    assert_int_equal(verdict.damages, 0);
    bytes_free(&b);
}

static void rewrite(const spgo_spt *spt)
{
    bytes merged = {0}, folded = {0};
    spgo_spt_writer *w;
    spgo_spt_filter filter = {.size = sizeof filter, .rva_min = 0x1001, .rva_max = 0x4000};
    assert_int_equal(spgo_spt_writer_new(memory_sink(&merged), NULL, &w, NULL), SPGO_OK);
    spgo_spt_writer_add_file(w, spt, NULL, NULL, NULL);
    spgo_spt_writer_add_file(w, spt, &filter, NULL, NULL);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    expect_valid(merged);
    spgo_spt_fold *f;
    spgo_spt_tally tally = {0};
    assert_int_equal(spgo_spt_fold_new(&f, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_new(memory_sink(&folded), NULL, &w, NULL), SPGO_OK);
    spgo_spt_fold_add_file(f, spt, NULL, &tally, NULL);
    assert_int_equal(spgo_spt_fold_write(f, w, &tally, NULL), SPGO_OK);
    assert_true(tally.hits_in == tally.hits_out || tally.saturated);
    spgo_spt_fold_free(f);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    expect_valid(folded);
}

/* Everything with a copy of exactly `size` bytes, so that the sanitizer sees each byte too many. */
static void digest(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    spgo_span span = {exact, size};
    spgo_spt *spt;
    spgo_error err;
    spgo_code opened = spgo_spt_open(span, &spt, &err);
    spgo_spt_verdict verdict;
    assert_int_equal(spgo_spt_verify(span, NULL, NULL, &verdict, NULL), SPGO_OK);
    if (opened != SPGO_OK) {
        assert_true(verdict.damages > 0);
        assert_true(err.offset <= size);
    }
    if (spt) {
        walked slow = walk_all(spt, size), fast = walk_fast(spt);
        assert_int_equal(slow.records, fast.records);
        assert_int_equal(slow.failures, fast.failures);
        if (slow.failures > 0)
            assert_true(verdict.damages >= slow.failures);
        assert_int_equal(verdict.record_count, slow.records);
        size_t index = 0, at;
        spgo_str text;
        while (spgo_spt_next_string(spt, &index, &at, &text))
            assert_true(at + text.len <= size);
        rewrite(spt);
        spgo_spt_close(spt);
    }
    free(exact);
}

static void every_prefix(void **state)
{
    (void)state;
    bytes b = small_file();
    for (size_t size = 0; size <= b.len; size++)
        digest(b.ptr, size);
    bytes_free(&b);
}

static void every_flipped_bit(void **state)
{
    (void)state;
    bytes b = small_file();
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
        digest(b.ptr, b.len);
        b.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes_free(&b);
}

static void every_byte_set_to_an_opcode(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x10, 0x42, 0x81, 0x82, 0xFF};
    bytes b = small_file();
    for (size_t at = 0; at < b.len; at++) {
        uint8_t kept = b.ptr[at];
        for (size_t i = 0; i < sizeof values; i++) {
            b.ptr[at] = values[i];
            digest(b.ptr, b.len);
        }
        b.ptr[at] = kept;
    }
    bytes_free(&b);
}

static void random_mutations(void **state)
{
    (void)state;
    uint64_t seed = 2024;
    for (unsigned round = 0; round < 500; round++) {
        bytes b = small_file();
        put_small_records(&b);
        unsigned changes = (unsigned)(next_random(&seed) % 8 + 1);
        for (unsigned i = 0; i < changes; i++)
            b.ptr[8 + next_random(&seed) % (b.len - 8)] = (uint8_t)next_random(&seed);
        digest(b.ptr, b.len - next_random(&seed) % 3);
        bytes_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prefix),
        cmocka_unit_test(every_flipped_bit),
        cmocka_unit_test(every_byte_set_to_an_opcode),
        cmocka_unit_test(random_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
