/* Numbers that follow from the counts of blocks; hashes. doc/formats/spd.md, "Derived numbers". */
#include "spd.h"

#include <math.h>
#include <stdlib.h>

#include <base/saturate.h>

/* ------------------------------------------------------------------ hashes */

/* djb2: h * 33 + c. */
enum { FACTOR = 33 };
/* 33 times this is 1 modulo 2^64. */
#define FACTOR_INVERSE UINT64_C(0x0f83e0f83e0f83e1)

uint64_t spd_name_hash(uint64_t start, spgo_str name)
{
    for (size_t i = 0; i < name.len; i++)
        start = start * FACTOR + (uint8_t)name.ptr[i];
    return start;
}

uint64_t spd_hash_before(uint64_t hash, spgo_str name)
{
    for (size_t i = name.len; i > 0; i--)
        hash = (hash - (uint8_t)name.ptr[i - 1]) * FACTOR_INVERSE;
    return hash;
}

uint32_t spd_image_hash(spgo_str name)
{
    return (uint32_t)spd_name_hash(SPD_HASH_START, name);
}

/* ------------------------------------------------------------------ instructions */

uint32_t spd_own_instructions(const spd_block *b)
{
    uint64_t inlined = 0;
    if (!b->instruction_count)
        return 0;
    for (uint32_t i = 0; i < b->instance_count; i++) {
        for (uint32_t k = 0; k < b->instances[i].block_count; k++)
            inlined += b->instances[i].blocks[k].instruction_count;
    }
    return inlined < b->instruction_count ? b->instruction_count - (uint32_t)inlined : 1;
}

static uint64_t static_instructions(const spd_function *f)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->block_count; i++)
        sum += spd_own_instructions(&f->blocks[i]);
    return sum;
}

uint64_t spd_dynamic_instructions(const spd_function *f)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->block_count; i++) {
        const spd_block *b = &f->blocks[i];
        if (b->count)
            sum = saturating_add(sum, saturating_multiply(spd_own_instructions(b), b->count));
    }
    return sum;
}

bool spd_is_hot(const spd *doc, const spd_function *f)
{
    return doc->hot_threshold && spd_dynamic_instructions(f) >= doc->hot_threshold;
}

double spd_probability(const spd_block *b, const spd_edge *e)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->edge_count; i++)
        sum += (double)b->edges[i].count;
    return sum > 0 ? (double)e->count / sum : NAN;
}

void spd_add_coverage(spd_coverage *c, const spd_function *f)
{
    for (uint32_t i = 0; i < f->block_count; i++) {
        const spd_block *b = &f->blocks[i];
        bool is_live = b->count != 0, has_code = b->instruction_count != 0;
        c->blocks++;
        c->live_blocks += is_live;
        c->code_blocks += has_code;
        c->live_code_blocks += is_live && has_code;
    }
}

/* ------------------------------------------------------------------ recomputing */

void spd_recompute_calls(spd_function *f)
{
    for (uint32_t i = 0; i < f->call_count; i++) {
        spd_call *call = &f->calls[i];
        call->count = 0;
        for (uint32_t k = 0; k < call->block_count; k++)
            call->count = saturating_add(call->count, f->blocks[call->blocks[k]].count);
    }
}

static int by_falling(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* The value at which the running sum, largest first, reaches 99 % of the total. */
static uint64_t threshold(uint64_t *values, size_t n, uint64_t total)
{
    uint64_t goal = total - total / 100, sum = 0;
    if (!total)
        return 0;
    qsort(values, n, sizeof *values, by_falling);
    for (size_t i = 0; i < n; i++) {
        sum = saturating_add(sum, values[i]);
        if (sum >= goal)
            return values[i];
    }
    return 0;
}

spgo_code spd_compute_totals(const spd *doc, spd_totals *totals, spgo_error *err)
{
    size_t count = 0, n = 0;
    uint64_t statics = 0;
    *totals = (spd_totals){0};
    for (size_t i = 0; i < doc->module_count; i++)
        count += doc->modules[i].function_count;
    uint64_t *values = calloc(count + 1, sizeof *values);
    if (!values)
        return spgo_fail_nomem(err, "spd.totals", count * sizeof *values);
    for (size_t i = 0; i < doc->module_count; i++) {
        const spd_module *m = &doc->modules[i];
        for (size_t k = 0; k < m->function_count; k++) {
            values[n] = spd_dynamic_instructions(&m->functions[k]);
            totals->dynamic_total = saturating_add(totals->dynamic_total, values[n++]);
            statics += static_instructions(&m->functions[k]);
        }
    }
    totals->static_total = statics < UINT32_MAX ? (uint32_t)statics : UINT32_MAX;
    totals->hot_threshold = threshold(values, n, totals->dynamic_total);
    free(values);
    return SPGO_OK;
}

spgo_code spd_recompute(spd *doc, spgo_error *err)
{
    spd_totals totals;
    SPGO_TRY(spd_compute_totals(doc, &totals, err));
    for (size_t i = 0; i < doc->module_count; i++) {
        for (size_t k = 0; k < doc->modules[i].function_count; k++)
            spd_recompute_calls(&doc->modules[i].functions[k]);
    }
    doc->hot_threshold = totals.hot_threshold;
    doc->dynamic_total = totals.dynamic_total;
    doc->static_total = totals.static_total;
    return SPGO_OK;
}

static void reset_block(spd_block *b)
{
    b->count = 0;
    for (uint32_t i = 0; i < b->edge_count; i++)
        b->edges[i].count = 0;
    for (uint32_t i = 0; i < b->indirect_count; i++) {
        b->indirects[i].total = 0;
        for (unsigned t = 0; t < SPD_TARGETS; t++)
            b->indirects[i].targets[t] = (spd_target){0};
    }
}

void spd_reset_counts(spd *doc)
{
    for (size_t i = 0; i < doc->module_count; i++) {
        spd_module *m = &doc->modules[i];
        for (size_t k = 0; k < m->function_count; k++) {
            for (uint32_t n = 0; n < m->functions[k].block_count; n++)
                reset_block(&m->functions[k].blocks[n]);
            spd_recompute_calls(&m->functions[k]);
        }
    }
    doc->hot_threshold = doc->dynamic_total = 0;
    doc->static_total = 0;
}
