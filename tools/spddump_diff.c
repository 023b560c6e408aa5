/*
 * spddump /diff: what changed from one SPD to another: functions added, gone, with another flow
 * graph, with other counts; and whether the new counts are only the old ones, retired.
 */
#include "spddump_print.h"

#include <math.h>
#include <stdlib.h>

#include <base/guid.h>
#include <base/saturate.h>

/* Counts are retired by sixteenths: spdconvert /retire. */
enum { RETIRE_PARTS = 16 };
/* So many of the blocks must have exactly the retired count, for an import to have added nothing.
 * Those that smoothing touched do not. */
#define RETIRED_SHARE 0.9

typedef enum change { CHANGE_ADDED, CHANGE_GONE, CHANGE_SHAPE, CHANGE_COUNTS, CHANGE_NONE } change;
enum { CHANGE_KINDS = CHANGE_NONE + 1 };

typedef struct diff_sums {
    uint64_t functions[CHANGE_KINDS];
    uint64_t blocks;                    /* of functions with the same shape, live in the old file */
    uint64_t retired[RETIRE_PARTS + 1]; /* those with the old count times (16 - n) / 16 */
    uint64_t old_count, new_count;
} diff_sums;

static const table diff_table = {"diff",
                                 {{"change", -6},
                                  {"id", 6},
                                  {"old_id", 6},
                                  {"blocks", 6},
                                  {"old_blocks", 10},
                                  {"entry", 14},
                                  {"old_entry", 14},
                                  {"dyninst", 16},
                                  {"old_dyninst", 16},
                                  {"overlap", 7},
                                  {"name", 0}}};

/* ------------------------------------------------------------------ one function */

static bool has_same_shape(const spd_function *a, const spd_function *b)
{
    if (a->checksum != b->checksum || a->block_count != b->block_count)
        return false;
    for (uint32_t i = 0; i < a->block_count; i++) {
        const spd_block *x = &a->blocks[i], *y = &b->blocks[i];
        if (x->edge_count != y->edge_count)
            return false;
        for (uint32_t k = 0; k < x->edge_count; k++) {
            if (x->edges[k].target != y->edges[k].target)
                return false;
        }
    }
    return true;
}

static bool has_same_counts(const spd_function *a, const spd_function *b)
{
    for (uint32_t i = 0; i < a->block_count; i++) {
        const spd_block *x = &a->blocks[i], *y = &b->blocks[i];
        if (x->count != y->count)
            return false;
        for (uint32_t k = 0; k < x->edge_count; k++) {
            if (x->edges[k].count != y->edges[k].count)
                return false;
        }
    }
    return true;
}

/* How alike the counts are spread over the blocks, 0 to 1; NAN if one has none. */
static double overlap(const spd_function *a, const spd_function *b)
{
    double sum_a = 0, sum_b = 0, common = 0;
    for (uint32_t i = 0; i < a->block_count; i++) {
        sum_a += (double)a->blocks[i].count;
        sum_b += (double)b->blocks[i].count;
    }
    if (sum_a <= 0 || sum_b <= 0)
        return NAN;
    for (uint32_t i = 0; i < a->block_count; i++)
        common += fmin((double)a->blocks[i].count / sum_a, (double)b->blocks[i].count / sum_b);
    return common < 1 ? common : 1;
}

static uint64_t retired(uint64_t count, unsigned n)
{
    uint64_t keep = RETIRE_PARTS - n;
    return count / RETIRE_PARTS * keep + count % RETIRE_PARTS * keep / RETIRE_PARTS;
}

static void add_blocks(diff_sums *sums, const spd_function *f, const spd_function *old)
{
    for (uint32_t i = 0; i < f->block_count; i++) {
        uint64_t count = f->blocks[i].count, before = old->blocks[i].count;
        sums->new_count = saturating_add(sums->new_count, count);
        sums->old_count = saturating_add(sums->old_count, before);
        sums->blocks += before != 0;
        for (unsigned n = 0; before && n <= RETIRE_PARTS; n++)
            sums->retired[n] += count == retired(before, n);
    }
}

/* ------------------------------------------------------------------ rows */

static void cell_optional(spddump *d, bool is_there, uint64_t v)
{
    if (is_there)
        cell_u64(&d->w, v);
    else
        cell_none(&d->w);
}

static uint64_t entry_count(const spd_function *f)
{
    return f && f->block_count ? f->blocks[0].count : 0;
}

static void show_change(spddump *d, change kind, const spd_function *f, const spd_function *old)
{
    static const char *const names[CHANGE_KINDS] = {[CHANGE_ADDED] = "added",
                                                    [CHANGE_GONE] = "gone",
                                                    [CHANGE_SHAPE] = "shape",
                                                    [CHANGE_COUNTS] = "counts",
                                                    [CHANGE_NONE] = "none"};
    table_open(&d->w, &diff_table);
    cell_text(&d->w, names[kind]);
    cell_optional(d, f && f->has_symbol, f ? f->id : 0);
    cell_optional(d, old && old->has_symbol, old ? old->id : 0);
    cell_optional(d, f, f ? f->block_count : 0);
    cell_optional(d, old, old ? old->block_count : 0);
    cell_optional(d, f, entry_count(f));
    cell_optional(d, old, entry_count(old));
    cell_optional(d, f, f ? spd_dynamic_instructions(f) : 0);
    cell_optional(d, old, old ? spd_dynamic_instructions(old) : 0);
    cell_share(&d->w, kind == CHANGE_COUNTS ? overlap(f, old) : NAN);
    cell_name(&d->w, f ? f->name : old->name);
    table_close(&d->w);
}

static void compare(spddump *d, diff_sums *sums, const spd_function *f, const spd_function *old)
{
    change kind = !old                       ? CHANGE_ADDED
                  : !has_same_shape(f, old)  ? CHANGE_SHAPE
                  : !has_same_counts(f, old) ? CHANGE_COUNTS
                                             : CHANGE_NONE;
    sums->functions[kind]++;
    if (old && kind != CHANGE_SHAPE)
        add_blocks(sums, f, old);
    if (kind != CHANGE_NONE)
        show_change(d, kind, f, old);
}

/* ------------------------------------------------------------------ verdict */

/* The number of sixteenths by which nearly all counts fell, or 0. */
static unsigned retirement(const diff_sums *sums)
{
    unsigned best = 0;
    for (unsigned n = 1; n <= RETIRE_PARTS; n++) {
        if (sums->retired[n] > sums->retired[best])
            best = n;
    }
    bool is_nearly_all = (double)sums->retired[best] >= RETIRED_SHARE * (double)sums->blocks;
    return sums->blocks && is_nearly_all ? best : 0;
}

static void show_sums(spddump *d, const diff_sums *sums, bool is_same_build)
{
    static const table total = {"difftotal",
                                {{"build", -5},
                                 {"added", 6},
                                 {"gone", 6},
                                 {"shape", 6},
                                 {"counts", 6},
                                 {"equal", 6},
                                 {"blocks", 8},
                                 {"count_ratio", 11},
                                 {"retired", 7},
                                 {"retired_blocks", 14}}};
    unsigned n = retirement(sums);
    spddump_begin_view(d);
    table_title(&d->w, &total);
    table_open(&d->w, &total);
    cell_text(&d->w, is_same_build ? "same" : "other");
    for (unsigned kind = 0; kind < CHANGE_KINDS; kind++)
        cell_u64(&d->w, sums->functions[kind]);
    cell_u64(&d->w, sums->blocks);
    cell_share(&d->w, sums->old_count ? (double)sums->new_count / (double)sums->old_count : NAN);
    cell_optional(d, n, n);
    cell_optional(d, n, sums->retired[n]);
    table_close(&d->w);
    if (n)
        cli_message(d->args, CLI_WARNING, d->file, SPGO_NO_OFFSET,
                    "%llu of %llu blocks have exactly %u/16 of their old count: the last import "
                    "only retired old counts and matched no samples",
                    (unsigned long long)sums->retired[n], (unsigned long long)sums->blocks,
                    RETIRE_PARTS - n);
}

/* ------------------------------------------------------------------ both files */

/* In which module of the document is a function of this hash? Functions of equal modules first. */
static const spd_function *counterpart(const spd *doc, size_t module, uint64_t hash)
{
    const spd_function *f =
        module < doc->module_count ? spd_by_hash(&doc->modules[module], hash) : NULL;
    return f ? f : spd_callee(doc, hash);
}

void spddump_diff(spddump *d, const spd *old)
{
    diff_sums sums = {0};
    spddump_begin_view(d);
    table_title(&d->w, &diff_table);
    for (size_t i = 0; i < d->doc->module_count; i++) {
        const spd_module *m = &d->doc->modules[i];
        for (size_t k = 0; k < m->function_count && !d->w.o->failed; k++) {
            const spd_function *f = &m->functions[k];
            compare(d, &sums, f, counterpart(old, i, f->hash));
        }
    }
    for (size_t i = 0; i < old->module_count; i++) {
        const spd_module *m = &old->modules[i];
        for (size_t k = 0; k < m->function_count && !d->w.o->failed; k++) {
            if (counterpart(d->doc, i, m->functions[k].hash))
                continue;
            sums.functions[CHANGE_GONE]++;
            show_change(d, CHANGE_GONE, NULL, &m->functions[k]);
        }
    }
    show_sums(d, &sums, image_id_equal(&d->doc->id, &old->id));
}
