/*
 * SPD: opens the input, verifies it, looks functions up, recomputes, and writes. What is written
 * without a change is the input, whatever it was; what is written after a change can be read, and
 * is written again as it was read. An SPD inside the input is found where one is.
 */
#include "fuzz.h"

#include <format/spd/spd.h>

static bool read_finding(void *ctx, const spd_finding *f)
{
    uint64_t *count = ctx;
    ++*count;
    FUZZ_CHECK(strlen(f->sentence) < sizeof f->sentence && f->rule);
    return true;
}

static void look_up(const spd *doc)
{
    for (size_t i = 0; i < doc->module_count; i++) {
        const spd_module *m = &doc->modules[i];
        for (size_t k = 0; k < m->function_count; k++) {
            const spd_function *f = &m->functions[k];
            fuzz_read((spgo_span){(const uint8_t *)f->name.ptr, f->name.len});
            FUZZ_CHECK(spd_by_hash(m, f->hash) && spd_by_hash(m, f->hash)->hash == f->hash);
            FUZZ_CHECK(!f->length || spd_by_rva(m, f->rva));
        }
    }
}

static bytes written(const spd *doc)
{
    bytes b = {0};
    FUZZ_CHECK(spd_write(doc, bytes_sink(&b), NULL) == SPGO_OK && !b.failed);
    return b;
}

static void check_written(const spd *doc, spgo_span expected)
{
    bytes b = written(doc);
    FUZZ_CHECK(b.len == expected.len && !memcmp(b.ptr, expected.ptr, b.len));
    bytes_free(&b);
}

/* Other counts, and the numbers that follow from them. */
static void change(spd *doc)
{
    spd_reset_counts(doc);
    for (size_t i = 0; i < doc->module_count; i++) {
        spd_module *m = &doc->modules[i];
        for (size_t k = 0; k < m->function_count; k++) {
            for (uint32_t n = 0; n < m->functions[k].block_count; n++)
                m->functions[k].blocks[n].count = n * UINT64_C(0x10001);
        }
    }
    FUZZ_CHECK(spd_recompute(doc, NULL) == SPGO_OK);
    bytes b = written(doc);
    spd *again;
    FUZZ_CHECK(spd_open(bytes_span(&b), 0, &again, NULL) == SPGO_OK);
    FUZZ_CHECK(again->damage_total == doc->damage_total);
    check_written(again, bytes_span(&b));
    spd_free(again);
    bytes_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spgo_span file = {data, size};
    uint64_t at, found_size, findings = 0;
    if (spd_find(file, 1, &at, &found_size))
        FUZZ_CHECK(at >= 1 && found_size <= size - at);
    spd *doc;
    if (spd_open(file, 0, &doc, NULL) != SPGO_OK)
        return 0;
    spd_verdict verdict;
    FUZZ_CHECK(spd_verify(doc, read_finding, &findings, &verdict, NULL) == SPGO_OK);
    FUZZ_CHECK(findings == verdict.notes + verdict.warnings + verdict.damages);
    FUZZ_CHECK(!doc->damage_total == !verdict.damages);
    check_written(doc, file);
    look_up(doc);
    change(doc);
    spd_free(doc);
    return 0;
}
