/* Real files, which the project does not carry: every byte is explained, every rule holds. */
#include "test_data.h"

#include <string.h>

#include <base/bytes.h>
#include <format/spd/spd.h>

static const char *const files[] = {"spd/EbpfCore-0a43f877.spd", "spd/EbpfCore-4bbfc1d0.spd",
                                    "spd/EbpfCore-8f1fae3b.spd", "spd/EbpfCore-dd2fb4d3.spd",
                                    "spd/map.spd"};
enum { FILE_COUNT = sizeof files / sizeof files[0] };

static spd *open_or_skip(size_t i, spgo_span *file)
{
    spd *doc;
    *file = test_data_or_skip(files[i]);
    assert_int_equal(spd_open(*file, 0, &doc, NULL), SPGO_OK);
    return doc;
}

static void close_file(spd *doc, spgo_span file)
{
    spd_free(doc);
    test_data_free(file);
}

static void assert_written(const spd *doc, spgo_span expected)
{
    bytes out = {0};
    assert_int_equal(spd_write(doc, bytes_sink(&out), NULL), SPGO_OK);
    assert_int_equal(out.len, expected.len);
    assert_memory_equal(out.ptr, expected.ptr, out.len);
    bytes_free(&out);
}

/* Nothing is kept as bytes: the writer makes the file of values alone. */
static void nothing_is_left_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILE_COUNT; i++) {
        spgo_span file;
        spd *doc = open_or_skip(i, &file);
        assert_int_equal(doc->finding_total, 0);
        assert_int_equal(doc->module_count, 1);
        assert_null(doc->kept_names.ptr);
        assert_null(doc->modules[0].kept_table.ptr);
        assert_null(doc->modules[0].kept_strings.ptr);
        assert_null(doc->modules[0].raw.ptr);
        close_file(doc, file);
    }
}

static void what_is_read_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILE_COUNT; i++) {
        spgo_span file;
        spd *doc = open_or_skip(i, &file);
        assert_written(doc, file);
        close_file(doc, file);
    }
}

static void totals_follow_from_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILE_COUNT; i++) {
        spgo_span file;
        spd_totals totals;
        spd *doc = open_or_skip(i, &file);
        assert_int_equal(spd_compute_totals(doc, &totals, NULL), SPGO_OK);
        assert_true(totals.dynamic_total == doc->dynamic_total);
        assert_true(totals.hot_threshold == doc->hot_threshold);
        if (doc->dynamic_total)
            assert_int_equal(totals.static_total, doc->static_total);
        assert_int_equal(spd_image_hash(doc->image_name), doc->image_hash);
        close_file(doc, file);
    }
}

/* Block, edge and target counts of `from` into the same places of `to`. */
static void copy_counts(spd *to, const spd *from)
{
    for (size_t i = 0; i < to->modules[0].function_count; i++) {
        spd_function *f = &to->modules[0].functions[i];
        const spd_function *g = &from->modules[0].functions[i];
        for (uint32_t k = 0; k < f->block_count; k++) {
            spd_block *b = &f->blocks[k];
            const spd_block *c = &g->blocks[k];
            b->count = c->count;
            for (uint32_t e = 0; e < b->edge_count; e++)
                b->edges[e].count = c->edges[e].count;
            for (uint32_t n = 0; n < b->indirect_count; n++) {
                b->indirects[n].total = c->indirects[n].total;
                memcpy(b->indirects[n].targets, c->indirects[n].targets,
                       sizeof b->indirects[n].targets);
            }
        }
    }
}

/* Zeroed and filled again with the counts of blocks and edges, a file is what it was: everything
 * else that an import touches follows from those. */
static void derived_numbers_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILE_COUNT - 1; i++) {
        spgo_span file;
        spd *doc = open_or_skip(i, &file), *original;
        assert_int_equal(spd_open(file, 0, &original, NULL), SPGO_OK);
        spd_reset_counts(doc);
        bytes zeroed = {0};
        assert_int_equal(spd_write(doc, bytes_sink(&zeroed), NULL), SPGO_OK);
        assert_int_equal(zeroed.len, file.len);
        assert_memory_not_equal(zeroed.ptr, file.ptr, file.len);
        bytes_free(&zeroed);
        copy_counts(doc, original);
        assert_int_equal(spd_recompute(doc, NULL), SPGO_OK);
        assert_written(doc, file);
        spd_free(original);
        close_file(doc, file);
    }
}

static bool print_finding(void *ctx, const spd_finding *f)
{
    (void)ctx;
    if (f->severity != SPD_NOTE)
        print_message("%s at 0x%llx: %s\n", f->rule, (unsigned long long)f->offset, f->sentence);
    return true;
}

/* Every rule holds, but for the flow that rounding and the floor of entries make. */
static void all_rules_hold(void **state)
{
    (void)state;
    static const uint64_t notes[FILE_COUNT] = {0, 0, 2, 22, 0};
    for (size_t i = 0; i < FILE_COUNT; i++) {
        spgo_span file;
        spd_verdict verdict;
        spd *doc = open_or_skip(i, &file);
        assert_int_equal(spd_verify(doc, print_finding, NULL, &verdict, NULL), SPGO_OK);
        assert_int_equal(verdict.damages, 0);
        assert_int_equal(verdict.warnings, 0);
        assert_int_equal(verdict.notes, notes[i]);
        close_file(doc, file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_over),
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(totals_follow_from_counts),
        cmocka_unit_test(derived_numbers_come_back),
        cmocka_unit_test(all_rules_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
