/* Reading SPD files: what is there, and what happens to what is not as it should be. */
#include "spd_check.h"

#include <base/limits.h>

/* Where things are in the file of the document "small". */
enum { BODY_WORD = 0x38, MODULE_TABLE = 0x24, MODULE_DATA = 0x0c, BLOB_GRAPH = 0x1c };

/* The file offset of a blob: that of function `index`. */
static size_t blob_of(const bytes *b, size_t index)
{
    spd *doc = opened(b);
    size_t at = (size_t)doc->modules[0].functions[index].offset;
    spd_free(doc);
    return at;
}

static size_t block_of(const bytes *b, size_t function, size_t block)
{
    spd *doc = opened(b);
    size_t at = (size_t)doc->modules[0].functions[function].blocks[block].offset;
    spd_free(doc);
    return at;
}

/* ------------------------------------------------------------------ what is no SPD file */

static void expect_failure(const bytes *b, spgo_code code, uint64_t offset)
{
    spd *doc;
    spgo_error err;
    assert_int_equal(spd_open(bytes_span(b), 0, &doc, &err), code);
    assert_null(doc);
    assert_int_equal(err.offset, offset);
}

static void an_empty_file_is_truncated(void **state)
{
    (void)state;
    bytes b = {0};
    expect_failure(&b, SPGO_TRUNCATED, 0);
}

static void another_signature_is_refused(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    b.ptr[0] ^= 1;
    expect_failure(&b, SPGO_CORRUPT, 0);
    bytes_free(&b);
}

static void a_file_ends_inside_its_header(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    b.len = SPD_HEADER_SIZE - 1;
    expect_failure(&b, SPGO_TRUNCATED, 0x70);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ what is read */

static void the_small_file_has_these_values(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    spd *doc = opened(&b);
    assert_int_equal(doc->finding_total, 0);
    assert_int_equal(doc->module_count, 1);
    assert_string_equal(doc->image_name.ptr, "sample.exe");
    assert_string_equal(doc->modules[0].name.ptr, "* CIL module *");
    assert_int_equal(doc->modules[0].bucket_count, 7);
    assert_int_equal(doc->modules[0].function_count, 5);
    const spd_function *f = &doc->modules[0].functions[0];
    assert_memory_equal(f->name.ptr, "main", 5);
    assert_int_equal(f->block_count, 5);
    assert_int_equal(f->blocks[1].edge_count, 2);
    assert_int_equal(f->blocks[1].edges[0].target, 2);
    assert_int_equal(f->blocks[1].edges[0].count, 900);
    assert_int_equal(f->blocks[2].edges[0].flags, SPD_EDGE_BACK);
    assert_int_equal(f->blocks[2].instances[0].blocks[0].ranges[0].offset, 0x18);
    assert_int_equal(spd_site_offset(&f->blocks[3].indirects[0].site), 0x34);
    assert_int_equal(spd_site_length(&f->blocks[3].indirects[0].site), 6);
    assert_int_equal(f->blocks[3].indirects[0].targets[0].count, 90);
    assert_int_equal(f->calls[0].count, 900);
    assert_int_equal(f->calls[1].blocks[0], 3);
    assert_int_equal(f->emitted[0].count, 40);
    spd_free(doc);
    bytes_free(&b);
}

static void modules_follow_each_other(void **state)
{
    (void)state;
    bytes b = built_bytes("modules");
    spd *doc = opened(&b);
    assert_int_equal(doc->finding_total, 0);
    assert_int_equal(doc->module_count, 2);
    assert_string_equal(doc->modules[1].name.ptr,
                        "Zweites \xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xb2.obj");
    assert_string_equal(doc->modules[1].functions[1].name.ptr, "f\xc3\xbcr zwei");
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void offsets_count_from_the_file_around(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    spd *doc, *inner = opened(&b);
    assert_int_equal(spd_open(bytes_span(&b), 0x1000, &doc, NULL), SPGO_OK);
    assert_int_equal(doc->modules[0].offset, inner->modules[0].offset + 0x1000);
    assert_int_equal(doc->modules[0].functions[4].blocks[2].offset,
                     inner->modules[0].functions[4].blocks[2].offset + 0x1000);
    assert_null(spd_difference(doc, inner));
    assert_writes(doc, &b);
    spd_free(doc);
    spd_free(inner);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ what is kept */

static void what_no_known_file_has_is_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("strange");
    spd *doc = opened(&b);
    assert_int_equal(doc->damage_total, 0);
    assert_finding(doc, "format", SPD_NOTE, 4);
    assert_finding(doc, "gap", SPD_NOTE, SPD_HEADER_SIZE);
    assert_finding(doc, "tail", SPD_NOTE, b.len - 4);
    assert_int_equal(doc->modules[0].gap_data.len, strlen("a profile of data"));
    assert_int_equal(doc->modules[0].functions[0].blocks[1].ranges[0].length_word, 0x21);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

/* Between parts that are kept, counts change all the same. */
static void counts_change_among_what_is_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("strange");
    spd *doc = opened(&b);
    size_t at = (size_t)doc->modules[0].functions[0].blocks[1].offset + 8;
    assert_int_equal(u32_at(&b, at), 1000);
    doc->modules[0].functions[0].blocks[1].count = 1001;
    bytes_set_u32(&b, at, 1001);
    bytes written = spd_built_bytes(doc);
    assert_int_equal(written.len, b.len);
    assert_memory_equal(written.ptr, b.ptr, b.len);
    bytes_free(&written);
    spd_free(doc);
    bytes_free(&b);
}

static void a_table_in_another_order_is_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    size_t module = u32_at(&b, BODY_WORD);
    size_t table = module + u32_at(&b, module + MODULE_TABLE);
    uint8_t slot[SPD_SLOT_SIZE];
    /* The first two buckets change places, whatever is in them: 7 buckets for 5 functions. */
    memcpy(slot, b.ptr + table, sizeof slot);
    memmove(b.ptr + table, b.ptr + table + SPD_SLOT_SIZE, (size_t)6 * SPD_SLOT_SIZE);
    memcpy(b.ptr + table + (size_t)6 * SPD_SLOT_SIZE, slot, sizeof slot);
    spd *doc = opened(&b);
    assert_finding(doc, "table-order", SPD_NOTE, table);
    assert_int_equal(doc->damage_total, 0);
    for (size_t i = 0; i < doc->modules[0].function_count; i++)
        assert_true(doc->modules[0].functions[i].has_symbol);
    assert_writes(doc, &b);
    /* Values of symbols go where the table has them. */
    spd_function *f = &doc->modules[0].functions[0];
    f->symbol_flags = 0x7777;
    bytes_set_u32(&b, (size_t)f->symbol_offset + 0x0c, 0x7777);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void strings_in_another_order_are_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    spd *doc = opened(&b);
    /* Two functions share a name: its copy is left over. */
    size_t at = (size_t)doc->modules[0].functions[1].symbol_offset + 8;
    bytes_set_u32(&b, at, u32_at(&b, (size_t)doc->modules[0].functions[0].symbol_offset + 8));
    spd_free(doc);
    doc = opened(&b);
    assert_non_null(finding_of(doc, "strings-order"));
    assert_null(finding_of(doc, "table-order"));
    assert_memory_equal(doc->modules[0].functions[1].name.ptr, "main", 5);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void a_name_outside_the_strings_is_empty(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    spd *doc = opened(&b);
    size_t slot = (size_t)doc->modules[0].functions[1].symbol_offset;
    spd_free(doc);
    bytes_set_u32(&b, slot + 8, 0x1000);
    doc = opened(&b);
    assert_finding(doc, "symbol-name", SPD_DAMAGE, slot + 8);
    assert_int_equal(doc->modules[0].functions[1].name.len, 0);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void a_symbol_without_its_function_is_named(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    spd *doc = opened(&b);
    size_t slot = (size_t)doc->modules[0].functions[1].symbol_offset;
    size_t blob = (size_t)doc->modules[0].functions[1].offset;
    spd_free(doc);
    bytes_set_u32(&b, slot + 0x1c, 1);
    doc = opened(&b);
    assert_finding(doc, "symbol-blob", SPD_WARNING, slot + 0x1c);
    assert_finding(doc, "blob-symbol", SPD_WARNING, blob);
    assert_false(doc->modules[0].functions[1].has_symbol);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ functions that are damaged */

/* A changed word makes function `index` one that is kept as bytes, and no other. */
static void expect_raw_function(size_t at, uint32_t value, size_t index, uint64_t offset)
{
    bytes b = built_bytes("small");
    bytes_set_u32(&b, at, value);
    spd *doc = opened(&b);
    assert_int_equal(doc->damage_total, 1);
    assert_finding(doc, "blob", SPD_DAMAGE, offset);
    for (size_t i = 0; i < doc->modules[0].function_count; i++) {
        const spd_function *f = &doc->modules[0].functions[i];
        assert_int_equal(f->raw.ptr != NULL, i == index);
        assert_int_equal(f->block_count == 0, i == index);
        assert_true(f->has_symbol);
    }
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void a_damaged_function_is_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    size_t blob = blob_of(&b, 0), block2 = block_of(&b, 0, 1), block3 = block_of(&b, 0, 2);
    size_t edge = block2 + SPD_BLOCK_SIZE + SPD_RANGE_SIZE;
    size_t calls = blob + SPD_BLOB_HEADER_SIZE;
    size_t instance = block3 + SPD_BLOCK_SIZE + SPD_RANGE_SIZE;
    size_t block5 = block_of(&b, 0, 4), graph = blob + u32_at(&b, blob + BLOB_GRAPH);
    uint32_t edges = u32_at(&b, blob + 0x38);
    bytes_free(&b);
    expect_raw_function(block2, 7, 0, block2);    /* id */
    expect_raw_function(edge, 1, 0, block2);      /* target */
    expect_raw_function(calls + 24, 6, 0, calls); /* block of a call */
    expect_raw_function(calls + 24, 0, 0, calls);
    expect_raw_function(blob + 0x38, edges + 1, 0, graph);        /* number of edges */
    expect_raw_function(blob + 0x3c, 0x58, 0, blob);              /* where the calls are */
    expect_raw_function(blob + 0x34, 4, 0, block5);               /* number of blocks */
    expect_raw_function(instance + 12, 0x1000, 0, instance + 16); /* size of what is inlined */
    expect_raw_function(block3 + 0x20, 0xFFFFFFF0, 0, block3 + SPD_BLOCK_SIZE + SPD_RANGE_SIZE);
}

/* Deeper than is read: every instance holds one block with one instance. */
static void too_deep_inlining_is_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    spd *doc = opened(&b);
    spd_block *block = &doc->modules[0].functions[0].blocks[2];
    spd_instance *nest = &block->instances[0];
    for (int depth = 1; depth < LIMIT_SPD_NESTING; depth++) {
        nest->blocks[0].instances = arena_push(doc->memory, 1, sizeof *nest);
        nest->blocks[0].instance_count = 1;
        nest->blocks[0].instances[0] = block->instances[0];
        nest = &nest->blocks[0].instances[0];
        nest->blocks = arena_push(doc->memory, 1, sizeof *nest->blocks);
    }
    bytes deep = spd_built_bytes(doc);
    spd *read = opened(&deep);
    assert_null(read->modules[0].functions[0].raw.ptr);
    assert_null(spd_difference(doc, read));
    spd_free(read);
    /* One more is refused by the writer; in a file, the function is kept. */
    nest->blocks[0].instances = block->instances;
    nest->blocks[0].instance_count = 1;
    bytes none = {0};
    spgo_error err;
    assert_int_equal(spd_write(doc, bytes_sink(&none), &err), SPGO_USAGE);
    bytes_free(&none);
    bytes_free(&deep);
    spd_free(doc);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ modules that are damaged */

static void a_cut_module_shows_its_functions(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    size_t module = u32_at(&b, BODY_WORD);
    b.len = blob_of(&b, 3) + 0x60;
    spd *doc = opened(&b);
    assert_finding(doc, "module-size", SPD_DAMAGE, module);
    assert_int_equal(doc->damage_total, 1);
    assert_int_equal(doc->modules[0].function_count, 3);
    assert_int_equal(doc->modules[0].functions[0].block_count, 5);
    assert_int_equal(doc->modules[0].functions[0].id, 2);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void a_module_with_parts_in_disorder_is_kept(void **state)
{
    (void)state;
    bytes b = built_bytes("modules");
    size_t module = u32_at(&b, BODY_WORD);
    bytes_set_u32(&b, module + MODULE_DATA, 0);
    spd *doc = opened(&b);
    assert_finding(doc, "module-layout", SPD_DAMAGE, module + 0x0c);
    assert_non_null(doc->modules[0].raw.ptr);
    assert_null(doc->modules[1].raw.ptr); /* the other module is none the worse */
    assert_int_equal(doc->modules[1].function_count, 2);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void a_wrong_number_of_functions_is_damage(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    size_t module = u32_at(&b, BODY_WORD);
    bytes_set_u32(&b, module + 0x1c, 6);
    spd *doc = opened(&b);
    assert_finding(doc, "module-functions", SPD_DAMAGE, module + 0x1c);
    assert_int_equal(doc->modules[0].function_count, 5);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

static void a_header_that_makes_no_sense_keeps_the_file(void **state)
{
    (void)state;
    bytes b = built_bytes("small");
    bytes_set_u32(&b, BODY_WORD, 0x7FFFFFFF);
    spd *doc = opened(&b);
    assert_finding(doc, "header-layout", SPD_DAMAGE, 0x28);
    assert_int_equal(doc->module_count, 0);
    assert_int_equal(doc->id.age, 1);
    assert_writes(doc, &b);
    spd_free(doc);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ inside another file */

static void an_embedded_file_is_found(void **state)
{
    (void)state;
    bytes b = built_bytes("small"), around = {0};
    uint64_t at, size;
    bytes_put(&around, "H_Q_ H_Q_", 9);
    bytes_fill(&around, 0, 200);
    bytes_put(&around, b.ptr, b.len);
    bytes_fill(&around, 0xcc, 77);
    assert_true(spd_find(bytes_span(&around), 0, &at, &size));
    assert_int_equal(at, 209);
    assert_int_equal(size, b.len);
    assert_false(spd_find(bytes_span(&around), at + 1, &at, &size));
    bytes_free(&around);
    bytes_free(&b);
}

static void no_embedded_file_is_found_in_short_data(void **state)
{
    (void)state;
    uint64_t at, size;
    bytes b = built_bytes("small");
    for (size_t len = 0; len < u32_at(&b, BODY_WORD); len++)
        assert_false(spd_find((spgo_span){b.ptr, len}, 0, &at, &size));
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_truncated),
        cmocka_unit_test(another_signature_is_refused),
        cmocka_unit_test(a_file_ends_inside_its_header),
        cmocka_unit_test(the_small_file_has_these_values),
        cmocka_unit_test(modules_follow_each_other),
        cmocka_unit_test(offsets_count_from_the_file_around),
        cmocka_unit_test(what_no_known_file_has_is_kept),
        cmocka_unit_test(counts_change_among_what_is_kept),
        cmocka_unit_test(a_table_in_another_order_is_kept),
        cmocka_unit_test(strings_in_another_order_are_kept),
        cmocka_unit_test(a_name_outside_the_strings_is_empty),
        cmocka_unit_test(a_symbol_without_its_function_is_named),
        cmocka_unit_test(a_damaged_function_is_kept),
        cmocka_unit_test(too_deep_inlining_is_kept),
        cmocka_unit_test(a_cut_module_shows_its_functions),
        cmocka_unit_test(a_module_with_parts_in_disorder_is_kept),
        cmocka_unit_test(a_wrong_number_of_functions_is_damage),
        cmocka_unit_test(a_header_that_makes_no_sense_keeps_the_file),
        cmocka_unit_test(an_embedded_file_is_found),
        cmocka_unit_test(no_embedded_file_is_found_in_short_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
