/* Real recordings to SPT, against what is known of them. Skipped where they are absent. */
#include "aggregate_run.h"

static const char *data_path(const char *name)
{
    static char path[4096];
    const char *folder = getenv("SPGO_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", name);
    FILE *f = fopen(path, "rb");
    if (!f)
        skip();
    fclose(f);
    return path;
}

static void run_data(run *r, const char *name, const aggregate_opts *opts)
{
    const char *path = data_path(name);
    run_without_facts(r, &path, 1, opts);
    if (r->code != SPGO_OK)
        fail_msg("%s: %s", name, r->err.sentence);
}

/* ------------------------------------------------------------------ branches */

/* "a-b:n" or "a->b:n" a line, `count` lines. */
static const char *read_expected(const char *p, facts *f, fact_kind kind)
{
    char *end;
    unsigned long count = strtoul(p, &end, 10);
    for (unsigned long i = 0; i < count; i++) {
        uint32_t a = (uint32_t)strtoul(end, &end, 16);
        end += end[1] == '>' ? 2 : 1;
        uint32_t b = (uint32_t)strtoul(end, &end, 16);
        assert_int_equal(*end, ':');
        facts_add(f, "speedtest1", kind, a, b, strtoull(end + 1, &end, 10));
    }
    return end;
}

static void speedtest_comes_out_to_the_last_count(void **state)
{
    (void)state;
    static const char *const only[] = {"speedtest1"};
    data_path("lbr/speedtest1.perf.data");
    spgo_span text = test_data_or_skip("lbr/speedtest1.expected.txt");
    char *copy = calloc(text.len + 1, 1);
    assert_non_null(copy);
    memcpy(copy, text.ptr, text.len);
    facts want = {0}, have = {0};
    const char *rest = read_expected(copy, &want, FACT_RANGE);
    read_expected(rest, &want, FACT_ARC);
    facts_settle(&want);
    assert_int_equal(facts_distinct(&want, NULL, FACT_RANGE), 3369);
    assert_int_equal(facts_distinct(&want, NULL, FACT_ARC), 3370);

    for (unsigned filtered = 0; filtered < 2; filtered++) {
        run r;
        run_data(&r, "lbr/speedtest1.perf.data",
                 &(aggregate_opts){
                     .threads = 2, .binaries = filtered ? only : NULL, .binary_count = filtered});
        assert_int_equal(r.tally.bogus_ranges, 0);
        assert_int_equal(r.tally.parts[TRACE_BRANCHES].seen, 641376);
        have = (facts){0};
        facts_of_spt(&r.facts, bytes_span(&r.spt));
        for (size_t i = 0; i < r.facts.count; i++) {
            const fact *e = &r.facts.list[i];
            if (strcmp(e->program, "speedtest1") == 0 && e->kind <= FACT_RANGE)
                facts_add(&have, e->program, e->kind, e->a, e->b, e->hits);
        }
        facts_settle(&have);
        assert_same_facts(&have, &want);
        assert_int_equal(facts_hits(&have, NULL, FACT_ARC), 577664);
        assert_int_equal(facts_hits(&have, NULL, FACT_RANGE), 576058);
        facts_free(&have);
        run_free(&r);
    }
    facts_free(&want);
    free(copy);
    test_data_free(text);
}

static void speedtest_is_the_same_with_any_number_of_threads(void **state)
{
    (void)state;
    static const unsigned counts[] = {2, 3, 8};
    run one, other;
    run_data(&one, "lbr/speedtest1.perf.data", &(aggregate_opts){.threads = 1});
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        run_data(&other, "lbr/speedtest1.perf.data", &(aggregate_opts){.threads = counts[i]});
        assert_int_equal(other.spt.len, one.spt.len);
        assert_memory_equal(other.spt.ptr, one.spt.ptr, one.spt.len);
        run_free(&other);
    }
    run_free(&one);
}

/* ------------------------------------------------------------------ ETL */

static void the_samples_of_net_find_their_images(void **state)
{
    (void)state;
    run one, three;
    run_data(&one, "etl/perfview__net.4.5.2.x64.etl", &(aggregate_opts){.threads = 1});
    assert_int_equal(one.seen.timer_samples, 79528);
    assert_true(one.tally.parts[TRACE_IP].used >= 74850);
    assert_int_equal(one.seen.images, 1801);
    assert_int_equal(one.seen.images_with_id, 1770);
    assert_int_equal(one.seen.bad_records, 0);
    run_data(&three, "etl/perfview__net.4.5.2.x64.etl", &(aggregate_opts){.threads = 3});
    assert_int_equal(three.spt.len, one.spt.len);
    assert_memory_equal(three.spt.ptr, one.spt.ptr, one.spt.len);
    run_free(&one);
    run_free(&three);
}

static void all_other_traces_are_read_without_failure(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Tx__CrossMachineHTTP",
        "Tx__Process",
        "Tx__WsRm01",
        "airbus-cert-etl-parser__ShutdownPerfDiagLogger",
        "airbus-cert-etl-parser__lxcore_kernel",
        "krabsetw__powershell",
        "perfview__SelfDescribingSingleEvent",
        "perfview__diaghub",
        "perfview__diaghub.kernel.1",
        "perfview__diaghub.user_injected.1",
        "perfview__primitive-types",
        "perfview__smallEtlFile",
        "s4__WindowsUpdate",
        "sawbuck__image_data_32_v0__73b9394b",
        "sawbuck__image_data_32_v1__bc3936ff",
        "sawbuck__image_data_32_v2__a807833d",
        "sawbuck__image_data_64_v2__7979ca87",
        "sawbuck__process_data_32_v1__13566c78",
        "sawbuck__process_data_32_v2__e0739693",
        "sawbuck__process_data_32_v3__33494d46",
        "sawbuck__process_data_64_v3__442a7c7b",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[256];
        run r;
        snprintf(name, sizeof name, "etl/%s.etl", names[i]);
        run_data(&r, name, &(aggregate_opts){.threads = 2});
        assert_int_equal(r.seen.bad_records, 0);
        run_free(&r);
    }
}

/* The image events stand in one file, the identities in another. */
static void the_files_of_diaghub_are_one_session(void **state)
{
    (void)state;
    char first[4096], second[4096];
    snprintf(first, sizeof first, "%s", data_path("etl/perfview__diaghub.etl"));
    snprintf(second, sizeof second, "%s", data_path("etl/perfview__diaghub.kernel.1.etl"));
    const char *both[] = {first, second}, *swapped[] = {second, first};
    run r, s;
    run_files(&r, both, 2, &(aggregate_opts){.threads = 1});
    run_files(&s, swapped, 2, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(s.code, SPGO_OK);
    print_message("  %zu session(s), %u images, %u with identity\n", r.sessions,
                  (unsigned)r.seen.images, (unsigned)r.seen.images_with_id);
    assert_int_equal(r.sessions, 1);
    assert_true(r.seen.images > 0);
    assert_true(r.seen.images_with_id > 0);
    assert_int_equal(s.seen.images_with_id, r.seen.images_with_id);
    run_free(&r);
    run_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speedtest_comes_out_to_the_last_count),
        cmocka_unit_test(speedtest_is_the_same_with_any_number_of_threads),
        cmocka_unit_test(the_samples_of_net_find_their_images),
        cmocka_unit_test(all_other_traces_are_read_without_failure),
        cmocka_unit_test(the_files_of_diaghub_are_one_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
