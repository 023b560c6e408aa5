/* Writing SPD documents: what is written is read as the same values. */
#include "spd_check.h"

enum { RANDOM_DOCUMENTS = 400 };

static void assert_survives(const spd *doc)
{
    bytes b = spd_built_bytes(doc);
    spd *read = opened(&b);
    const char *difference = spd_difference(doc, read);
    if (difference)
        fail_msg("another %s", difference);
    assert_int_equal(read->damage_total, 0);
    assert_writes(read, &b);
    spd_free(read);
    bytes_free(&b);
}

static void made_documents_survive(void **state)
{
    (void)state;
    for (size_t i = 0; spd_build_name(i); i++) {
        spd *doc = built(spd_build_name(i));
        assert_survives(doc);
        spd_free(doc);
    }
}

static void random_documents_survive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_DOCUMENTS; seed++) {
        spd *doc = spd_build("random", seed);
        assert_non_null(doc);
        assert_survives(doc);
        spd_free(doc);
    }
}

static void expect_usage(const spd *doc, const char *where)
{
    bytes b = {0};
    spgo_error err;
    assert_int_equal(spd_write(doc, bytes_sink(&b), &err), SPGO_USAGE);
    assert_string_equal(err.where, where);
    bytes_free(&b);
}

static void an_edge_must_lead_to_a_block(void **state)
{
    (void)state;
    spd *doc = built("small");
    doc->modules[0].functions[0].blocks[0].edges[0].target = 5;
    expect_usage(doc, "spd.graph");
    spd_free(doc);
}

static void a_call_must_stand_in_a_block(void **state)
{
    (void)state;
    spd *doc = built("small");
    doc->modules[0].functions[0].calls[0].blocks[0] = 5;
    expect_usage(doc, "spd.calls");
    spd_free(doc);
}

static void a_name_must_not_hold_a_nul(void **state)
{
    (void)state;
    spd *doc = built("small");
    doc->modules[0].functions[0].name = (spgo_str){"a\0b", 3};
    expect_usage(doc, "spd.strings");
    spd_free(doc);
}

static void functions_need_buckets(void **state)
{
    (void)state;
    spd *doc = built("small");
    doc->modules[0].bucket_count = 0;
    expect_usage(doc, "spd.table");
    spd_free(doc);
}

static bool refuse(void *ctx, const void *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return false;
}

static void a_sink_that_refuses_is_an_error(void **state)
{
    (void)state;
    spd *doc = built("small");
    assert_int_equal(spd_write(doc, (spgo_sink){.write = refuse}, NULL), SPGO_IO);
    spd_free(doc);
}

/* The largest prime under a power of two. */
static void buckets_are_as_the_linker_takes_them(void **state)
{
    (void)state;
    assert_int_equal(spd_bucket_count(19), 31);
    assert_int_equal(spd_bucket_count(561), 1021);
    assert_int_equal(spd_bucket_count(935), 1021);
    assert_int_equal(spd_bucket_count(1022), 2039);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_documents_survive),
        cmocka_unit_test(random_documents_survive),
        cmocka_unit_test(an_edge_must_lead_to_a_block),
        cmocka_unit_test(a_call_must_stand_in_a_block),
        cmocka_unit_test(a_name_must_not_hold_a_nul),
        cmocka_unit_test(functions_need_buckets),
        cmocka_unit_test(a_sink_that_refuses_is_an_error),
        cmocka_unit_test(buckets_are_as_the_linker_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
