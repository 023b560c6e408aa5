/*
 * Sample profiles: reads an input in any of the three forms, with and without a list of findings;
 * what could be read is summed, added to itself, written in both forms and read again, and must be
 * the same then.
 */
#include "fuzz.h"

#include <format/sampleprof/sampleprof.h>

enum { BUDGET_BYTES = 64 << 20, TEXT_MAX = 4 << 20 };

static sampleprof *read_again(const bytes *b)
{
    sampleprof *p = NULL;
    spgo_error err = {0};
    FUZZ_CHECK(sampleprof_read(bytes_span(b), 0, &p, NULL, &err) == SPGO_OK);
    return p;
}

static bytes as_extbinary(const sampleprof *p)
{
    bytes b = {0};
    spgo_error err = {0};
    FUZZ_CHECK(sampleprof_write_extbinary(p, bytes_sink(&b), &err) == SPGO_OK);
    return b;
}

static bool append_bounded(void *ctx, const void *data, size_t len)
{
    bytes *b = ctx;
    if (b->len + len > TEXT_MAX)
        return false;
    bytes_put(b, data, len);
    return !b->failed;
}

/* Empty if a name, or the size, is nothing for a text. */
static bytes as_text(const sampleprof *p)
{
    bytes b = {0};
    out o;
    spgo_error err = {0};
    FUZZ_CHECK(out_init(&o, (spgo_sink){.ctx = &b, .write = append_bounded}, NULL) == SPGO_OK);
    spgo_code code = sampleprof_write_text(p, &o, &err);
    FUZZ_CHECK(code == SPGO_OK || (code == SPGO_UNSUPPORTED && err.sentence[0]));
    if (!out_flush(&o) || code != SPGO_OK)
        b.len = 0;
    out_free(&o);
    return b;
}

static void check_same(const bytes *a, const bytes *b)
{
    FUZZ_CHECK(a->len == b->len && (a->len == 0 || memcmp(a->ptr, b->ptr, a->len) == 0));
}

static void check_order(const sampleprof_function *f)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (size_t i = 1; i < count; i++) {
        sampleprof_place before = lines[i - 1].place, here = lines[i].place;
        FUZZ_CHECK(
            before.line_offset < here.line_offset ||
            (before.line_offset == here.line_offset && before.discriminator < here.discriminator));
    }
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    for (size_t i = 0; i < count; i++)
        check_order(sites[i].callee);
}

static void check_sums(const sampleprof *p)
{
    sampleprof_summary s;
    spgo_error err = {0};
    uint64_t mismatched = 0;
    FUZZ_CHECK(sampleprof_summarize(p, &s, &err) == SPGO_OK);
    for (size_t i = 1; i < SAMPLEPROF_CUTOFF_COUNT; i++)
        FUZZ_CHECK(s.cutoffs[i - 1].count <= s.cutoffs[i].count &&
                   s.cutoffs[i].count <= s.count_count);
    sampleprof *sum = sampleprof_new(0);
    FUZZ_CHECK(sum && sampleprof_merge(sum, p, 1, &mismatched, &err) == SPGO_OK);
    bytes once = as_extbinary(p), copied = as_extbinary(sum);
    check_same(&once, &copied);
    FUZZ_CHECK(sampleprof_merge(sum, p, 3, &mismatched, &err) == SPGO_OK && mismatched == 0);
    bytes_free(&once);
    bytes_free(&copied);
    sampleprof_free(sum);
}

static void check_round_trips(const sampleprof *p)
{
    bytes ext = as_extbinary(p);
    sampleprof *again = read_again(&ext);
    bytes ext_again = as_extbinary(again);
    check_same(&ext, &ext_again);
    bytes text = as_text(p);
    bytes text_again = as_text(again);
    check_same(&text, &text_again);
    sampleprof_free(again);
    bytes_free(&text_again);
    if (text.len > 0) {
        again = read_again(&text);
        text_again = as_text(again);
        check_same(&text, &text_again);
        sampleprof_free(again);
        bytes_free(&text_again);
    }
    bytes_free(&text);
    bytes_free(&ext);
    bytes_free(&ext_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int with_findings = 0; with_findings < 2; with_findings++) {
        sampleprof *p = NULL;
        diag d = {0};
        spgo_error err = {0};
        spgo_code code = sampleprof_read((spgo_span){data, size}, BUDGET_BYTES, &p,
                                         with_findings ? &d : NULL, &err);
        FUZZ_CHECK((code == SPGO_OK) == (p != NULL));
        if (code != SPGO_OK) {
            FUZZ_CHECK(err.code == code && err.sentence[0] != '\0');
            continue;
        }
        for (size_t i = 0; i < sampleprof_function_count(p); i++)
            check_order(sampleprof_get_function(p, i));
        check_sums(p);
        check_round_trips(p);
        sampleprof_free(p);
    }
    return 0;
}
