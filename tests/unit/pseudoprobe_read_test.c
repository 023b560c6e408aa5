/* Sections of pseudo probes built by hand: what they hold, and where damage is found. */
#include "test_data.h"

#include <string.h>

#include <base/bytes.h>
#include <format/pseudoprobe/pseudoprobe.h>

enum { OUTER = 0x1111, INNER = 0x2222, COLD = 0x3333, DELTA = 0x80, SENTINEL = 0x20, DISCR = 0x40 };

static spgo_str text(const char *s)
{
    return (spgo_str){s, strlen(s)};
}

static void put_uleb(bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        bytes_u8(b, (uint8_t)(v | 0x80));
    bytes_u8(b, (uint8_t)v);
}

static void put_sleb(bytes *b, int64_t v)
{
    for (; v < -64 || v > 63; v >>= 7)
        bytes_u8(b, (uint8_t)((v & 0x7f) | 0x80));
    bytes_u8(b, (uint8_t)(v & 0x7f));
}

static void put_description(bytes *b, uint64_t guid, uint64_t checksum, const char *name)
{
    bytes_u64(b, guid);
    bytes_u64(b, checksum);
    put_uleb(b, strlen(name));
    bytes_put(b, name, strlen(name));
}

static void put_function(bytes *b, uint64_t guid, uint64_t probe_count, uint64_t child_count)
{
    bytes_u64(b, guid);
    put_uleb(b, probe_count);
    put_uleb(b, child_count);
}

static void put_probe(bytes *b, uint64_t index, uint8_t flags, int64_t delta)
{
    put_uleb(b, index);
    bytes_u8(b, flags | DELTA);
    put_sleb(b, delta);
}

/* A test's sections and what was read from them. */
typedef struct fixture {
    bytes probe, desc;
    arena *mem;
    pseudoprobes got;
    diag findings;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    f.mem = arena_new(0);
    *state = &f;
    return f.mem ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    bytes_free(&f->probe);
    bytes_free(&f->desc);
    arena_free(f->mem);
    return 0;
}

static const pseudoprobe_start starts[] = {
    {OUTER, 0x1000}, {INNER, 0x2000}, {INNER, 0x3000}, {COLD, 0x9000}};

static void read_all(fixture *f)
{
    spgo_error err = {0};
    spgo_code code =
        pseudoprobe_read(bytes_span(&f->probe), bytes_span(&f->desc), starts,
                         sizeof starts / sizeof *starts, f->mem, &f->got, &f->findings, &err);
    assert_int_equal(code, SPGO_OK);
}

static void expect_probe(const fixture *f, size_t i, uint64_t addr, uint32_t node, uint32_t index)
{
    assert_true(i < f->got.probe_count);
    assert_int_equal(f->got.probes[i].addr, addr);
    assert_int_equal(f->got.probes[i].node, node);
    assert_int_equal(f->got.probes[i].index, index);
}

static void guids_are_halves_of_md5(void **state)
{
    (void)state;
    assert_int_equal(pseudoprobe_guid(text("main")), 15822663052811949562u);
    assert_int_equal(pseudoprobe_guid(text("_ZN3Acc3addEj")), 17673626221244460472u);
    /* Of no text, and around the sizes at which one more block is needed. */
    assert_int_equal(pseudoprobe_guid(text("")), 0x04b2008fd98c1dd4u);
    static const char digits[] = "12345678901234567890123456789012345678901234567890123456789012345"
                                 "678901234567890";
    assert_int_equal(pseudoprobe_guid((spgo_str){digits, 80}), 0x55c9e32ba2f4ed57u);
}

static void functions_are_found_by_guid(void **state)
{
    fixture *f = *state;
    put_description(&f->desc, INNER, 7, "inner");
    put_description(&f->desc, OUTER, 8, "outer");
    put_description(&f->desc, INNER, 9, "again");
    read_all(f);
    assert_int_equal(f->got.function_count, 2);
    const pseudoprobe_function *inner = pseudoprobe_find_function(&f->got, INNER);
    assert_non_null(inner);
    assert_int_equal(inner->checksum, 7);
    assert_memory_equal(inner->name.ptr, "inner", inner->name.len);
    assert_null(pseudoprobe_find_function(&f->got, COLD));
    assert_int_equal(f->findings.total, 0);
}

static void probes_count_from_the_start_of_their_function(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 3, 0);
    put_probe(&f->probe, 1, PSEUDOPROBE_BLOCK, 0);
    put_probe(&f->probe, 2, PSEUDOPROBE_DIRECT_CALL, 0x500);
    put_probe(&f->probe, 3, PSEUDOPROBE_INDIRECT_CALL, -0x100);
    read_all(f);
    assert_int_equal(f->got.probe_count, 3);
    expect_probe(f, 0, 0x1000, 0, 1);
    expect_probe(f, 1, 0x1400, 0, 3);
    expect_probe(f, 2, 0x1500, 0, 2);
    assert_int_equal(f->got.probes[1].kind, PSEUDOPROBE_INDIRECT_CALL);
}

static void inlined_functions_hang_on_their_caller(void **state)
{
    fixture *f = *state;
    put_description(&f->desc, INNER, 7, "inner");
    put_function(&f->probe, OUTER, 1, 2);
    put_probe(&f->probe, 1, 0, 4);
    put_uleb(&f->probe, 5); /* inlined at probe 5 of outer */
    put_function(&f->probe, INNER, 1, 1);
    put_probe(&f->probe, 1, 0, 4);
    put_uleb(&f->probe, 6);
    put_function(&f->probe, COLD, 1, 0);
    put_probe(&f->probe, 1, 0, -4);
    put_uleb(&f->probe, 7);
    put_function(&f->probe, INNER, 0, 0);
    put_function(&f->probe, OUTER, 0, 0);
    read_all(f);
    assert_int_equal(f->got.node_count, 5);
    const pseudoprobe_node *n = f->got.nodes;
    assert_int_equal(n[0].caller, PSEUDOPROBE_NONE);
    assert_int_equal(n[0].function, PSEUDOPROBE_NONE);
    assert_int_equal(n[1].caller, 0);
    assert_int_equal(n[1].call_probe, 5);
    assert_int_equal(n[1].function, 0);
    assert_int_equal(n[2].caller, 1);
    assert_int_equal(n[3].caller, 0);
    assert_int_equal(n[3].call_probe, 7);
    assert_int_equal(n[4].caller, PSEUDOPROBE_NONE);
    expect_probe(f, 0, 0x1004, 0, 1);
    expect_probe(f, 1, 0x1004, 2, 1);
    expect_probe(f, 2, 0x1008, 1, 1);
}

static void sentinel_leads_to_the_split_part(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 2, 0);
    put_uleb(&f->probe, 0);
    bytes_u8(&f->probe, SENTINEL);
    bytes_u64(&f->probe, COLD);
    put_probe(&f->probe, 9, 0, 0x10);
    read_all(f);
    assert_int_equal(f->got.probe_count, 1);
    expect_probe(f, 0, 0x9010, 0, 9);
}

static void namesakes_stand_in_order_of_address(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        put_function(&f->probe, INNER, 1, 0);
        put_probe(&f->probe, 1, 0, i);
    }
    read_all(f);
    expect_probe(f, 0, 0x2000, 0, 1);
    expect_probe(f, 1, 0x3001, 1, 1);
    expect_probe(f, 2, 0x3002, 2, 1);
}

static void absolute_addresses_run_on(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 1, 0);
    put_uleb(&f->probe, 1);
    bytes_u8(&f->probe, 0);
    bytes_u64(&f->probe, 0x7000);
    put_function(&f->probe, INNER, 1, 0);
    put_probe(&f->probe, 1, 0, 8);
    read_all(f);
    expect_probe(f, 0, 0x7000, 0, 1);
    expect_probe(f, 1, 0x7008, 1, 1);
}

static void discriminators_are_read(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 2, 0);
    put_probe(&f->probe, 1, DISCR, 0);
    put_uleb(&f->probe, 300);
    put_probe(&f->probe, 2, 0, 1);
    read_all(f);
    assert_int_equal(f->got.probes[0].discriminator, 300);
    assert_int_equal(f->got.probes[1].discriminator, 0);
    expect_probe(f, 1, 0x1001, 0, 2);
}

static void probes_without_a_start_are_left_out(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, 0x4444, 2, 0);
    put_probe(&f->probe, 1, 0, 0);
    put_probe(&f->probe, 2, 0, 1);
    put_function(&f->probe, OUTER, 1, 0);
    put_probe(&f->probe, 1, 0, 0);
    read_all(f);
    assert_int_equal(f->got.unplaced_count, 2);
    assert_int_equal(f->got.probe_count, 1);
    expect_probe(f, 0, 0x1000, 1, 1);
}

static void expect_finding(const fixture *f, spgo_code code, uint64_t offset)
{
    assert_int_equal(f->findings.total, 1);
    assert_int_equal(f->findings.kept[0].code, code);
    assert_int_equal(f->findings.kept[0].offset, offset);
}

static void cut_section_gives_what_stands_before(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 1, 0);
    put_probe(&f->probe, 1, 0, 0);
    size_t cut = f->probe.len;
    bytes_u32(&f->probe, 5);
    read_all(f);
    assert_int_equal(f->got.probe_count, 1);
    assert_int_equal(f->got.node_count, 1);
    expect_finding(f, SPGO_TRUNCATED, cut);
}

static void counts_that_cannot_fit_are_refused(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 100, 0);
    size_t behind = f->probe.len - 1;
    put_probe(&f->probe, 1, 0, 0);
    read_all(f);
    assert_int_equal(f->got.probe_count, 0);
    expect_finding(f, SPGO_CORRUPT, behind);
}

static void numbers_beyond_32_bits_are_refused(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 1, 0);
    size_t at = f->probe.len;
    put_probe(&f->probe, 1ull << 32, 0, 0);
    read_all(f);
    assert_int_equal(f->got.probe_count, 0);
    expect_finding(f, SPGO_CORRUPT, at);
}

static void deep_nesting_is_bounded(void **state)
{
    fixture *f = *state;
    put_function(&f->probe, OUTER, 0, 1);
    for (int i = 0; i < 5000; i++) {
        put_uleb(&f->probe, 1);
        put_function(&f->probe, INNER, 0, 1);
    }
    read_all(f);
    assert_int_equal(f->findings.total, 1);
    assert_int_equal(f->got.node_count, 1024);
}

static void long_name_is_refused(void **state)
{
    fixture *f = *state;
    put_description(&f->desc, OUTER, 8, "outer");
    bytes_u64(&f->desc, INNER);
    bytes_u64(&f->desc, 7);
    put_uleb(&f->desc, UINT64_MAX);
    size_t end = f->desc.len;
    read_all(f);
    assert_int_equal(f->got.function_count, 1);
    expect_finding(f, SPGO_TRUNCATED, end);
}

int main(void)
{
#define WITH_SECTIONS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guids_are_halves_of_md5),
        WITH_SECTIONS(functions_are_found_by_guid),
        WITH_SECTIONS(probes_count_from_the_start_of_their_function),
        WITH_SECTIONS(inlined_functions_hang_on_their_caller),
        WITH_SECTIONS(sentinel_leads_to_the_split_part),
        WITH_SECTIONS(namesakes_stand_in_order_of_address),
        WITH_SECTIONS(absolute_addresses_run_on),
        WITH_SECTIONS(discriminators_are_read),
        WITH_SECTIONS(probes_without_a_start_are_left_out),
        WITH_SECTIONS(cut_section_gives_what_stands_before),
        WITH_SECTIONS(counts_that_cannot_fit_are_refused),
        WITH_SECTIONS(numbers_beyond_32_bits_are_refused),
        WITH_SECTIONS(deep_nesting_is_bounded),
        WITH_SECTIONS(long_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
