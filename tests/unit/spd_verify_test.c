/* Each rule of spd_verify: a document that breaks it, and it alone, gets its finding. */
#include "spd_check.h"

/* What a verification found. */
typedef struct seen {
    const char *rule;
    spd_severity severity;
    uint64_t of_rule, of_others;
} seen;

static bool count_finding(void *ctx, const spd_finding *f)
{
    seen *s = ctx;
    bool is_it = strcmp(f->rule, s->rule) == 0;
    if (is_it)
        assert_int_equal(f->severity, s->severity);
    else
        print_message("%s: %s\n", f->rule, f->sentence);
    s->of_rule += is_it;
    s->of_others += !is_it;
    return true;
}

/* Written and read again, so that findings have offsets. */
static void expect_rule(const spd *doc, const char *rule, spd_severity severity, uint64_t times)
{
    bytes b = spd_built_bytes(doc);
    spd *read = opened(&b);
    seen s = {.rule = rule, .severity = severity};
    spd_verdict verdict;
    assert_int_equal(spd_verify(read, count_finding, &s, &verdict, NULL), SPGO_OK);
    assert_int_equal(s.of_rule, times);
    assert_int_equal(s.of_others, 0);
    assert_int_equal(verdict.notes + verdict.warnings + verdict.damages, times);
    spd_free(read);
    bytes_free(&b);
}

#define BREAKS(change, rule, severity, times)                                                      \
    do {                                                                                           \
        spd *doc = built("small");                                                                 \
        spd_module *m = &doc->modules[0];                                                          \
        spd_function *f = m->functions;                                                            \
        (void)m;                                                                                   \
        (void)f;                                                                                   \
        change;                                                                                    \
        expect_rule(doc, rule, severity, times);                                                   \
        spd_free(doc);                                                                             \
    } while (0)

static void sound_documents_have_no_findings(void **state)
{
    (void)state;
    static const char *const names[] = {"small", "next", "halved", "fresh", "modules"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        spd *doc = built(names[i]);
        expect_rule(doc, "", SPD_NOTE, 0);
        spd_free(doc);
    }
}

static void rules_of_the_header(void **state)
{
    (void)state;
    BREAKS(doc->format = 0x100D, "format", SPD_NOTE, 1);
    BREAKS(doc->word_08 = 1, "word", SPD_NOTE, 1);
    BREAKS(doc->word_20 = 0x70, "word", SPD_NOTE, 1);
    BREAKS(doc->flags = 5, "flags", SPD_NOTE, 1);
    BREAKS(doc->image_hash++, "image-hash", SPD_WARNING, 1);
    BREAKS(doc->hot_threshold++, "hot-threshold", SPD_WARNING, 1);
    BREAKS(doc->dynamic_total++, "dynamic-total", SPD_WARNING, 1);
    BREAKS(doc->static_total++, "static-total", SPD_WARNING, 1);
}

static void rules_of_modules(void **state)
{
    (void)state;
    BREAKS(m->flags = 3, "flags", SPD_NOTE, 1);
    BREAKS(m->word_18 = 1, "word", SPD_NOTE, 1);
    BREAKS(m->list_word_08 = 1, "word", SPD_NOTE, 1);
    BREAKS(m->bucket_count = 6, "bucket-count", SPD_NOTE, 1);
    BREAKS(f[4].id = 2, "function-id", SPD_WARNING, 1);
    BREAKS((f[4].rva = 0x1048, f[4].length = 8), "code-overlap", SPD_WARNING, 1);
}

static void rules_of_symbols(void **state)
{
    (void)state;
    BREAKS((f[4].hash++, f[4].blob_hash++), "name-hash", SPD_WARNING, 1);
    BREAKS(f[4].blob_hash++, "blob-hash", SPD_WARNING, 1);
    BREAKS(f[4].symbol_flags |= 2, "flags", SPD_NOTE, 1);
    BREAKS(f[4].symbol_word_14 = 2, "word", SPD_NOTE, 1);
    BREAKS(f[3].folded_rva = 0x1048, "folded", SPD_WARNING, 1);
    BREAKS(f[4].folded_rva = 0x1040, "folded", SPD_WARNING, 1);
}

static void rules_of_flow(void **state)
{
    (void)state;
    /* Block 5, the exit, ran once more than the edge into it. */
    BREAKS(f[0].blocks[4].count += 1, "flow", SPD_NOTE, 1);
    BREAKS(f[0].blocks[4].count += 16, "flow", SPD_NOTE, 1);
    BREAKS(f[0].blocks[4].count += 2, "flow", SPD_WARNING, 1);
    /* An edge more is out of one block and into another. */
    BREAKS(f[0].blocks[3].edges[0].count += 2, "flow", SPD_WARNING, 2);
    BREAKS(f[0].blocks[2].edges[0].flags |= 4, "flags", SPD_NOTE, 1);
    BREAKS(spd_add_edge(doc, &f[4].blocks[2], 1, 0, 0), "exit", SPD_WARNING, 1);
}

static void rules_of_calls(void **state)
{
    (void)state;
    BREAKS(f[0].calls[0].count++, "call-count", SPD_WARNING, 1);
    BREAKS(f[0].calls[0].kind = 2, "call-kind", SPD_NOTE, 1);
    BREAKS(f[0].emitted[0].flags = 1, "flags", SPD_NOTE, 1);
    BREAKS(f[0].emitted[0].word_14 = 1, "word", SPD_NOTE, 1);
    BREAKS(f[0].blocks[3].indirects[0].total = 99, "indirect", SPD_WARNING, 1);
    BREAKS(f[0].blocks[3].indirects[0].targets[2].count = 11, "indirect", SPD_WARNING, 1);
    BREAKS(f[0].blocks[3].indirects[0].site.place_word += 7, "call-place", SPD_WARNING, 1);
}

static void rules_of_code(void **state)
{
    (void)state;
    BREAKS(f[0].blocks[1].ranges[0].length_word -= 2, "ranges", SPD_WARNING, 1);
    BREAKS(f[0].blocks[1].ranges[0].length_word += 2, "ranges", SPD_WARNING, 1);
    BREAKS(f[4].length++, "ranges", SPD_WARNING, 1);
    BREAKS(f[4].blocks[1].ranges[0].length_word |= 1, "range-bit", SPD_NOTE, 1);
    BREAKS(f[4].flags |= 0x10, "flags", SPD_NOTE, 1);
    BREAKS(f[4].word_28 = 0x10, "word", SPD_NOTE, 1);
    BREAKS(f[4].blocks[1].flags |= 0x40, "flags", SPD_NOTE, 1);
}

static void rules_of_inlining(void **state)
{
    (void)state;
    BREAKS(f[0].blocks[2].instances[0].callee_hash++, "inline-callee", SPD_WARNING, 1);
    BREAKS(f[0].blocks[2].instances[0].word_08 = 1, "word", SPD_NOTE, 1);
    BREAKS(f[0].blocks[2].instances[0].blocks[0].id = 4, "inline-block", SPD_WARNING, 1);
    BREAKS(f[0].blocks[2].instances[0].blocks[0].flags = 0x40, "flags", SPD_NOTE, 1);
    BREAKS(f[0].blocks[2].instances[0].blocks[0].ranges[0].offset = 0x2c, "inline-range",
           SPD_WARNING, 1);
    BREAKS((f[0].blocks[2].instances[0].blocks[0].instruction_count = 9, spd_recompute(doc, NULL)),
           "inline-instructions", SPD_WARNING, 1);
}

/* What reading found comes first, and the caller may stop. */
static bool stop_at_once(void *ctx, const spd_finding *f)
{
    (*(unsigned *)ctx)++;
    assert_string_equal(f->rule, "format");
    return false;
}

static void the_caller_may_stop(void **state)
{
    (void)state;
    unsigned calls = 0;
    spd_verdict verdict;
    bytes b = built_bytes("strange");
    spd *doc = opened(&b);
    assert_int_equal(spd_verify(doc, stop_at_once, &calls, &verdict, NULL), SPGO_OK);
    assert_int_equal(calls, 1);
    spd_free(doc);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_documents_have_no_findings),
        cmocka_unit_test(rules_of_the_header),
        cmocka_unit_test(rules_of_modules),
        cmocka_unit_test(rules_of_symbols),
        cmocka_unit_test(rules_of_flow),
        cmocka_unit_test(rules_of_calls),
        cmocka_unit_test(rules_of_code),
        cmocka_unit_test(rules_of_inlining),
        cmocka_unit_test(the_caller_may_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
