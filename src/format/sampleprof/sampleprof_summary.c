/*
 * The summary from which LLVM takes what is hot: the counts of all lines, from the largest down,
 * and how many of them make up each share of their sum.
 */
#include "sampleprof_internal.h"

#include <base/counts.h>

#include <stdlib.h>

#define WHERE "sampleprof.summary"

enum { CUTOFF_SCALE = 1000000 };

static const uint32_t cutoffs[SAMPLEPROF_CUTOFF_COUNT] = {
    10000,  100000, 200000, 300000, 400000, 500000, 600000, 700000,
    800000, 900000, 950000, 990000, 999000, 999900, 999990, 999999};

typedef struct summing {
    sampleprof_summary *summary;
    counts frequencies; /* of each count */
} summing;

static void add_lines_of(summing *s, const sampleprof_function *f)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (size_t i = 0; i < count; i++) {
        s->summary->total = saturating_add(s->summary->total, lines[i].count);
        if (s->summary->max_count < lines[i].count)
            s->summary->max_count = lines[i].count;
        counts_add(&s->frequencies, &lines[i].count, 1, 1);
    }
    s->summary->count_count += count;
    const sampleprof_callsite *sites = sampleprof_callsites(f, &count);
    for (size_t i = 0; i < count; i++) {
        /* What was also added to the callee's own profile is not counted twice. */
        if (!(sampleprof_attributes(sites[i].callee) & ATTRIBUTE_DUPLICATED_INTO_BASE))
            add_lines_of(s, sites[i].callee);
    }
}

/* total * cutoff / CUTOFF_SCALE, rounded down, without its overflow. */
static uint64_t share_of(uint64_t total, uint32_t cutoff)
{
    return total / CUTOFF_SCALE * cutoff + total % CUTOFF_SCALE * cutoff / CUTOFF_SCALE;
}

static spgo_code cut(summing *s, spgo_error *err)
{
    size_t left;
    counts_slot *sorted = counts_sorted_by_key(&s->frequencies, &left);
    if (s->frequencies.failed || (!sorted && left))
        return spgo_fail_nomem(err, WHERE, left * sizeof *sorted);
    uint64_t sum = 0;
    sampleprof_cutoff reached = {0};
    for (size_t i = 0; i < SAMPLEPROF_CUTOFF_COUNT; i++) {
        uint64_t wanted = share_of(s->summary->total, cutoffs[i]);
        for (; sum < wanted && left > 0; left--) {
            const counts_slot *next = &sorted[left - 1];
            sum = saturating_add(sum, saturating_multiply(next->key, next->count));
            reached.min_count = next->key;
            reached.count += next->count;
        }
        reached.cutoff = cutoffs[i];
        s->summary->cutoffs[i] = reached;
    }
    free(sorted);
    return SPGO_OK;
}

spgo_code sampleprof_summarize(const sampleprof *p, sampleprof_summary *summary, spgo_error *err)
{
    summing s = {.summary = summary};
    *summary = (sampleprof_summary){.function_count = sampleprof_function_count(p)};
    for (size_t i = 0; i < summary->function_count; i++) {
        const sampleprof_function *f = sampleprof_get_function(p, i);
        if (summary->max_function_count < sampleprof_head(f))
            summary->max_function_count = sampleprof_head(f);
        add_lines_of(&s, f);
    }
    spgo_code code = cut(&s, err);
    counts_free(&s.frequencies);
    return code;
}

uint64_t sampleprof_hot_count(const sampleprof_summary *s, uint32_t cutoff)
{
    for (size_t i = 0; cutoff > 0 && i < SAMPLEPROF_CUTOFF_COUNT; i++) {
        if (s->cutoffs[i].cutoff >= cutoff)
            return s->cutoffs[i].min_count;
    }
    return UINT64_MAX;
}
