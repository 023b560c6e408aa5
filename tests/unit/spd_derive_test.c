/* Numbers that follow from others: hashes, instructions, totals, calls; and finding functions. */
#include "spd_check.h"

#include <math.h>

#include <base/text.h>

static uint64_t name_hash(const char *name)
{
    return spd_name_hash(SPD_HASH_START, text_str(name));
}

/* Values of real files. */
static void hashes_are_those_of_the_linker(void **state)
{
    (void)state;
    assert_true(name_hash("ebpf_lock_unlock") == UINT64_C(0x340C26453F82F095));
    assert_int_equal(spd_image_hash(text_str("EbpfCore.sys")), 0x0CD2DB38);
    assert_int_equal(spd_image_hash(text_str("map.sys")), 0xB495CBB0);
}

static void the_hash_of_an_object_file_comes_back(void **state)
{
    (void)state;
    spgo_str name = text_str("_update_lpm_map_entry");
    uint64_t object = name_hash("ebpf_maps.obj");
    uint64_t hash = spd_name_hash(object, name);
    assert_true(hash == name_hash("ebpf_maps.obj_update_lpm_map_entry"));
    assert_true(spd_hash_before(hash, name) == object);
    assert_true(spd_hash_before(object, text_str("")) == object);
}

static void inlined_instructions_are_not_a_blocks_own(void **state)
{
    (void)state;
    spd *doc = built("small");
    spd_block *b = doc->modules[0].functions[0].blocks;
    assert_int_equal(spd_own_instructions(&b[0]), 0); /* no code */
    assert_int_equal(spd_own_instructions(&b[1]), 4);
    assert_int_equal(spd_own_instructions(&b[2]), 5); /* 8, 3 of them inlined */
    b[2].instances[0].blocks[0].instruction_count = 9;
    assert_int_equal(spd_own_instructions(&b[2]), 1);
    spd_free(doc);
}

/* main 4 * 1000 + 5 * 900 + 5 * 100, helper 3 * 900, callback 4 * 90. */
static void totals_add_up(void **state)
{
    (void)state;
    spd_totals totals;
    spd *doc = built("small");
    assert_int_equal(spd_compute_totals(doc, &totals, NULL), SPGO_OK);
    assert_int_equal(totals.dynamic_total, 9000 + 2700 + 360);
    assert_int_equal(totals.static_total, 4 + 5 + 5 + 3 + 4 + 4 + 2);
    /* main and helper together run 97 %, callback makes it 100 %. */
    assert_int_equal(totals.hot_threshold, 360);
    assert_true(spd_is_hot(doc, &doc->modules[0].functions[2]));
    assert_false(spd_is_hot(doc, &doc->modules[0].functions[4]));
    spd_free(doc);
}

/* Exactly 99 % is enough: the function that reaches it is the last hot one. */
static void the_threshold_is_reached_at_99_percent(void **state)
{
    (void)state;
    spd_totals totals;
    spd *doc = built("small");
    spd_reset_counts(doc);
    doc->modules[0].functions[1].blocks[1].count = 330; /* times 3: 990 */
    doc->modules[0].functions[2].blocks[1].count = 2;   /* times 4: 8 */
    doc->modules[0].functions[4].blocks[1].count = 1;   /* times 2: 2 */
    assert_int_equal(spd_compute_totals(doc, &totals, NULL), SPGO_OK);
    assert_int_equal(totals.dynamic_total, 1000);
    assert_int_equal(totals.hot_threshold, 990);
    doc->modules[0].functions[2].blocks[1].count = 3;
    assert_int_equal(spd_compute_totals(doc, &totals, NULL), SPGO_OK);
    assert_int_equal(totals.hot_threshold, 12);
    spd_free(doc);
}

static void totals_saturate(void **state)
{
    (void)state;
    spd_totals totals;
    spd *doc = built("small");
    doc->modules[0].functions[0].blocks[1].count = UINT64_MAX;
    assert_int_equal(spd_compute_totals(doc, &totals, NULL), SPGO_OK);
    assert_true(totals.dynamic_total == UINT64_MAX);
    spd_free(doc);
}

static void calls_are_the_sum_of_their_blocks(void **state)
{
    (void)state;
    spd *doc = built("small");
    spd_function *f = &doc->modules[0].functions[0];
    uint32_t blocks[] = {1, 1, 3};
    f->calls[0].blocks = blocks;
    f->calls[0].block_count = 3;
    spd_recompute_calls(f);
    assert_int_equal(f->calls[0].count, 1000 + 1000 + 100);
    assert_int_equal(f->calls[1].count, 100);
    spd_free(doc);
}

static void a_reset_file_has_no_counts(void **state)
{
    (void)state;
    spd *doc = built("small");
    spd_reset_counts(doc);
    const spd_function *f = &doc->modules[0].functions[0];
    assert_int_equal(doc->hot_threshold + doc->dynamic_total + doc->static_total, 0);
    assert_int_equal(spd_dynamic_instructions(f), 0);
    assert_int_equal(f->calls[0].count, 0);
    assert_int_equal(f->blocks[3].indirects[0].total, 0);
    assert_int_equal(f->blocks[3].indirects[0].targets[0].hash, 0);
    assert_int_equal(f->emitted[0].count, 40); /* of the build, not of the import */
    assert_false(spd_is_hot(doc, f));
    spd_free(doc);
}

static void probabilities_are_shares_of_the_edges(void **state)
{
    (void)state;
    spd *doc = built("small");
    spd_block *b = &doc->modules[0].functions[0].blocks[1];
    assert_true(fabs(spd_probability(b, &b->edges[0]) - 0.9) < 1e-12);
    b->edges[0].count = b->edges[1].count = 0;
    assert_true(isnan(spd_probability(b, &b->edges[0])));
    spd_free(doc);
}

static void coverage_counts_blocks(void **state)
{
    (void)state;
    spd_coverage c = {0};
    spd *doc = built("small");
    for (size_t i = 0; i < doc->modules[0].function_count; i++)
        spd_add_coverage(&c, &doc->modules[0].functions[i]);
    assert_int_equal(c.blocks, 17);
    assert_int_equal(c.live_blocks, 11);
    assert_int_equal(c.code_blocks, 7);
    assert_int_equal(c.live_code_blocks, 5);
    spd_free(doc);
}

static void functions_are_found(void **state)
{
    (void)state;
    spd *doc = built("modules");
    spd_module *m = &doc->modules[0];
    assert_ptr_equal(spd_by_hash(m, name_hash("main")), &m->functions[0]);
    assert_null(spd_by_hash(m, name_hash("main") + 1));
    assert_ptr_equal(spd_by_id(m, 6), &m->functions[2]);
    assert_null(spd_by_id(m, 7));
    assert_ptr_equal(spd_by_rva(m, 0x1000), &m->functions[0]);
    assert_ptr_equal(spd_by_rva(m, 0x103f), &m->functions[0]);
    assert_ptr_equal(spd_by_rva(m, 0x1040), &m->functions[2]);
    assert_null(spd_by_rva(m, 0xfff));
    assert_null(spd_by_rva(m, 0x1058));
    assert_ptr_equal(spd_callee(doc, name_hash("f\xc3\xbcr zwei")), &doc->modules[1].functions[1]);
    spd_free(doc);
}

static void flags_have_names(void **state)
{
    (void)state;
    assert_string_equal(spd_flag_name(SPD_FLAGS_SYMBOL, 0x20), "folded");
    assert_string_equal(spd_flag_name(SPD_FLAGS_BLOCK, 0x20), "cloned");
    assert_null(spd_flag_name(SPD_FLAGS_SYMBOL, 0x8));
    assert_string_equal(spd_call_kind_name(3), "import");
    assert_null(spd_call_kind_name(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_linker),
        cmocka_unit_test(the_hash_of_an_object_file_comes_back),
        cmocka_unit_test(inlined_instructions_are_not_a_blocks_own),
        cmocka_unit_test(totals_add_up),
        cmocka_unit_test(the_threshold_is_reached_at_99_percent),
        cmocka_unit_test(totals_saturate),
        cmocka_unit_test(calls_are_the_sum_of_their_blocks),
        cmocka_unit_test(a_reset_file_has_no_counts),
        cmocka_unit_test(probabilities_are_shares_of_the_edges),
        cmocka_unit_test(coverage_counts_blocks),
        cmocka_unit_test(functions_are_found),
        cmocka_unit_test(flags_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
