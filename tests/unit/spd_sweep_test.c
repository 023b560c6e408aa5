/*
 * Hostile input: every prefix of small files, every single flipped bit, and many random mutations.
 * What is read is verified and written, and the written bytes are the ones that were read: whatever
 * is not understood is kept. Run it under the sanitizers.
 */
#include "spd_check.h"

enum { MUTATIONS = 4000 };

static const char *const names[] = {"small", "modules", "strange"};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

static void try_bytes(const uint8_t *data, size_t len)
{
    /* In a block of its size, so that reading behind its end is seen. */
    uint8_t *copy = malloc(len ? len : 1);
    spd *doc;
    spgo_error err = {0};
    spd_verdict verdict;
    assert_non_null(copy);
    memcpy(copy, data, len);
    if (spd_open((spgo_span){copy, len}, 0, &doc, &err) != SPGO_OK) {
        assert_true(err.code == SPGO_TRUNCATED || err.code == SPGO_CORRUPT);
        free(copy);
        return;
    }
    assert_int_equal(spd_verify(doc, NULL, NULL, &verdict, NULL), SPGO_OK);
    assert_true(verdict.damages >= (doc->damage_total ? 1 : 0));
    bytes out = {0};
    assert_int_equal(spd_write(doc, bytes_sink(&out), NULL), SPGO_OK);
    assert_int_equal(out.len, len);
    assert_memory_equal(out.ptr, copy, len);
    bytes_free(&out);
    spd_free(doc);
    free(copy);
}

static void every_prefix(void **state)
{
    (void)state;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        bytes b = built_bytes(names[i]);
        for (size_t len = 0; len <= b.len; len++)
            try_bytes(b.ptr, len);
        bytes_free(&b);
    }
}

static void every_bit(void **state)
{
    (void)state;
    bytes b = built_bytes("strange");
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_bytes(b.ptr, b.len);
        b.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes_free(&b);
}

static void many_mutations(void **state)
{
    (void)state;
    static const uint32_t words[] = {0, 1, 2, 0x24, 0x54, 0x7fffffff, 0x80000000, 0xffffffff};
    uint64_t seed = 1;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        bytes b = built_bytes(names[i]), m = {0};
        for (int n = 0; n < MUTATIONS; n++) {
            bytes_clear(&m);
            bytes_put(&m, b.ptr, b.len);
            for (uint64_t k = 1 + spd_random(&seed) % 6; k > 0; k--) {
                size_t at = spd_random(&seed) % (m.len - 4) & ~(size_t)3;
                uint32_t word = words[spd_random(&seed) % 8];
                if (spd_random(&seed) & 1)
                    word = (uint32_t)(spd_random(&seed) % m.len);
                bytes_set_u32(&m, at, word);
            }
            try_bytes(m.ptr, m.len);
        }
        bytes_free(&b);
        bytes_free(&m);
    }
}

/* Names that have no end, or one end for all, must not cost their number times their length: there
 * are 20,000 of a megabyte. */
static void names_share_what_they_cost(void **state)
{
    (void)state;
    enum { MODULES = 20000, NAMES_BYTES = 1 << 20 };
    bytes b = built_bytes("small");
    uint32_t names_off = SPD_HEADER_SIZE + MODULES * SPD_LIST_ENTRY_SIZE;
    b.len = SPD_HEADER_SIZE;
    bytes_set_u32(&b, 0x2c, MODULES);
    bytes_set_u32(&b, 0x30, names_off);
    bytes_set_u32(&b, 0x34, NAMES_BYTES);
    bytes_set_u32(&b, 0x38, names_off + NAMES_BYTES);
    bytes_fill(&b, 0, MODULES * SPD_LIST_ENTRY_SIZE);
    bytes_fill(&b, 'n', NAMES_BYTES);
    bytes_fill(&b, 0, (size_t)MODULES * SPD_MODULE_HEADER_SIZE);
    try_bytes(b.ptr, b.len);
    b.ptr[names_off + NAMES_BYTES - 1] = b.ptr[names_off + NAMES_BYTES - 2] = 0;
    try_bytes(b.ptr, b.len);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prefix),
        cmocka_unit_test(every_bit),
        cmocka_unit_test(many_mutations),
        cmocka_unit_test(names_share_what_they_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
