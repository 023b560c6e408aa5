/* Counts into an SPD: see spd_counts.h. */
#include <profile/spd_counts.h>

#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/saturate.h>
#include <profile/inference.h>
#include <profile/spd_places.h>

/* ------------------------------------------------------------------ all counts of a document */

static void add(uint64_t *sum, uint64_t n)
{
    *sum = saturating_add(*sum, n);
}

/* floor(count * left / 16) without overflow. */
static uint64_t sixteenths(uint64_t count, unsigned left)
{
    return count / SPD_RETIRE_MAX * left + count % SPD_RETIRE_MAX * left / SPD_RETIRE_MAX;
}

static void retire_counts(spd *doc, unsigned retire)
{
    const unsigned left = SPD_RETIRE_MAX - retire;
    for (size_t m = 0; m < doc->module_count; m++) {
        for (size_t i = 0; i < doc->modules[m].function_count; i++) {
            spd_function *f = &doc->modules[m].functions[i];
            for (uint32_t b = 0; b < f->block_count; b++) {
                spd_block *block = &f->blocks[b];
                block->count = sixteenths(block->count, left);
                for (uint32_t e = 0; e < block->edge_count; e++)
                    block->edges[e].count = sixteenths(block->edges[e].count, left);
                for (uint32_t k = 0; k < block->indirect_count; k++) {
                    spd_indirect *in = &block->indirects[k];
                    in->total = sixteenths(in->total, left);
                    for (int t = 0; t < SPD_TARGETS; t++)
                        in->targets[t].count = sixteenths(in->targets[t].count, left);
                }
            }
        }
    }
}

static void add_coverage(const spd *doc, spd_coverage *c)
{
    for (size_t m = 0; m < doc->module_count; m++) {
        for (size_t i = 0; i < doc->modules[m].function_count; i++)
            spd_add_coverage(c, &doc->modules[m].functions[i]);
    }
}

/* What the linker's file gets when it has counts for the first time: bits of unknown single
 * meaning, which all known files with counts have. */
static void mark_as_filled(spd *doc)
{
    doc->flags |= 3;
    for (size_t m = 0; m < doc->module_count; m++)
        doc->modules[m].flags |= 6;
}

/* ------------------------------------------------------------------ smoothing */

static bool is_live(const spd_function *f)
{
    for (uint32_t b = 0; b < f->block_count; b++) {
        if (f->blocks[b].count)
            return true;
    }
    return false;
}

/* Blocks without code, and without a count, tell nothing: whatever flows through them is right. */
static void fill_graph(const spd_function *f, inference_graph *g)
{
    size_t j = 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        const spd_block *block = &f->blocks[b];
        g->blocks[b] = (inference_block){.weight = block->count,
                                         .is_known = block->count > 0 || block->range_count > 0,
                                         .is_exit = b + 1 == f->block_count};
        for (uint32_t e = 0; e < block->edge_count; e++)
            g->jumps[j++] = (inference_jump){.from = b,
                                             .to = block->edges[e].target,
                                             .weight = block->edges[e].count,
                                             .is_known = block->edges[e].count > 0};
    }
}

static void take_flows(spd_function *f, const inference_graph *g)
{
    size_t j = 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        f->blocks[b].count = g->blocks[b].flow;
        for (uint32_t e = 0; e < f->blocks[b].edge_count; e++)
            f->blocks[b].edges[e].count = g->jumps[j++].flow;
    }
}

static spgo_code smooth_function(spd_function *f, bool *exact, spgo_error *err)
{
    inference_graph g = {.block_count = f->block_count};
    for (uint32_t b = 0; b < f->block_count; b++)
        g.jump_count += f->blocks[b].edge_count;
    g.blocks = calloc(g.block_count + 1, sizeof *g.blocks);
    g.jumps = calloc(g.jump_count + 1, sizeof *g.jumps);
    spgo_code code = SPGO_OK;
    if (!g.blocks || !g.jumps) {
        code = spgo_fail_nomem(err, "smoothing", g.jump_count * sizeof *g.jumps);
    } else {
        fill_graph(f, &g);
        code = inference_run(&g, exact, err);
        if (code == SPGO_OK)
            take_flows(f, &g);
    }
    free(g.blocks);
    free(g.jumps);
    return code;
}

spgo_code spd_smooth(spd *doc, uint64_t *inexact, spgo_error *err)
{
    uint64_t early = 0;
    for (size_t m = 0; m < doc->module_count; m++) {
        for (size_t i = 0; i < doc->modules[m].function_count; i++) {
            spd_function *f = &doc->modules[m].functions[i];
            bool exact = true;
            if (!is_live(f))
                continue;
            SPGO_TRY(smooth_function(f, &exact, err));
            early += !exact;
        }
    }
    if (inexact)
        *inexact = early;
    return spd_recompute(doc, err);
}

/* ------------------------------------------------------------------ importing */

/* How often code ran at an RVA, of ranges that overlap in any way: sums of those that begin at or
 * before it, less those that end before it. */
typedef struct edge_sums {
    uint32_t *rvas;
    uint64_t *sums; /* of all up to and with this one */
    size_t count;
} edge_sums;

typedef struct importing {
    spd *doc;
    spd_module *module;
    const samples_program *program;
    const spd_import_opts *opts;
    spd_import_tally *tally;
    spd_places places;
    counts_slot *arcs; /* by source */
    size_t arc_count;
    edge_sums begins, lasts;
    double *runs; /* of every copy, in hits */
} importing;

/* slots are by key; the RVA is its upper or its lower half. */
static int slot_by_low(const void *pa, const void *pb)
{
    const counts_slot *a = pa, *b = pb;
    const uint32_t x = (uint32_t)a->key, y = (uint32_t)b->key;
    return (x > y) - (x < y);
}

static bool sum_edges(const counts *ranges, bool is_last, edge_sums *out)
{
    size_t n;
    counts_slot *slots = counts_sorted_by_key(ranges, &n);
    out->rvas = malloc((n + 1) * sizeof *out->rvas);
    out->sums = malloc((n + 1) * sizeof *out->sums);
    if ((n && !slots) || !out->rvas || !out->sums) {
        free(slots);
        return false;
    }
    if (is_last && n > 0)
        qsort(slots, n, sizeof *slots, slot_by_low);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        add(&sum, slots[i].count);
        out->rvas[i] = is_last ? (uint32_t)slots[i].key : (uint32_t)(slots[i].key >> 32);
        out->sums[i] = sum;
    }
    out->count = n;
    free(slots);
    return true;
}

/* The sum of those whose RVA is before `rva`, or at it too. */
static uint64_t sum_until(const edge_sums *s, uint32_t rva, bool at_too)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->rvas[middle] < rva || (at_too && s->rvas[middle] == rva))
            low = middle + 1;
        else
            high = middle;
    }
    return low ? s->sums[low - 1] : 0;
}

static uint64_t runs_at(const importing *im, uint32_t rva)
{
    return sum_until(&im->begins, rva, true) - sum_until(&im->lasts, rva, false);
}

static void tally_hit(importing *im, uint32_t rva, uint64_t hits)
{
    spd_import_tally *t = im->tally;
    add(&t->hits, hits);
    if (spd_place_at(&im->places, rva))
        add(&t->found, hits);
    else if (spd_by_rva(im->module, rva))
        add(&t->between, hits);
    else
        add(&t->outside, hits);
}

/* A copy ran as often as its first instruction did. */
static void count_branches(importing *im)
{
    for (size_t i = 0; i < im->places.copy_count; i++) {
        const spd_copy *c = &im->places.copies[i];
        if (c->first_rva != UINT32_MAX)
            im->runs[i] = (double)runs_at(im, c->first_rva);
    }
    for (size_t i = 0; i < im->arc_count; i++) {
        const uint32_t to = (uint32_t)im->arcs[i].key;
        if (to != SPGO_SPT_OUTSIDE)
            tally_hit(im, to, im->arcs[i].count);
    }
}

/* A copy ran as often as hits fall to each of its instructions. */
static bool count_ips(importing *im)
{
    for (unsigned k = 0; k < SAMPLES_IP_KINDS; k++) {
        size_t n;
        counts_slot *slots = counts_sorted_by_key(&im->program->ips[k], &n);
        if (n && !slots)
            return false;
        for (size_t i = 0; i < n; i++) {
            const uint32_t rva = (uint32_t)slots[i].key;
            const spd_place *p = spd_place_at(&im->places, rva);
            tally_hit(im, rva, slots[i].count);
            if (p)
                im->runs[p->copy] +=
                    (double)slots[i].count / (double)im->places.copies[p->copy].instruction_count;
        }
        free(slots);
    }
    return true;
}

static uint64_t weigh(double runs)
{
    const double weight = runs * SPD_HIT_WEIGHT;
    return weight < 9e18 ? (uint64_t)(weight + 0.5) : UINT64_C(9000000000000000000);
}

static void add_blocks(importing *im)
{
    for (size_t i = 0; i < im->places.copy_count; i++) {
        const spd_copy *c = &im->places.copies[i];
        add(&c->function->blocks[c->block].count, weigh(im->runs[i]));
    }
}

/* Branches from a block to the start of another one of the same function. */
static void add_edges(importing *im)
{
    for (size_t i = 0; i < im->arc_count; i++) {
        const spd_place *from = spd_place_at(&im->places, (uint32_t)(im->arcs[i].key >> 32));
        const spd_place *to = spd_place_at(&im->places, (uint32_t)im->arcs[i].key);
        if (!from || !to)
            continue;
        const spd_copy *a = &im->places.copies[from->copy], *b = &im->places.copies[to->copy];
        if (a->function != b->function || b->first_rva != (uint32_t)im->arcs[i].key)
            continue;
        spd_block *block = &a->function->blocks[a->block];
        for (uint32_t e = 0; e < block->edge_count; e++) {
            if (block->edges[e].target == b->block) {
                add(&block->edges[e].count, weigh((double)im->arcs[i].count));
                break;
            }
        }
    }
}

/* ------------------------------------------------------------------ indirect calls */

static size_t first_arc_from(const importing *im, uint32_t rva)
{
    size_t low = 0, high = im->arc_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uint32_t)(im->arcs[middle].key >> 32) < rva)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Keeps the list by falling count; one that falls out is still in the total. */
static void add_target(spd_indirect *in, uint64_t hash, uint64_t count)
{
    int at = 0;
    while (at < SPD_TARGETS && in->targets[at].hash != hash && in->targets[at].count)
        at++;
    if (at == SPD_TARGETS) {
        if (in->targets[SPD_TARGETS - 1].count >= count)
            return;
        at = SPD_TARGETS - 1;
        in->targets[at] = (spd_target){0};
    }
    in->targets[at].hash = hash;
    add(&in->targets[at].count, count);
    for (; at > 0 && in->targets[at].count > in->targets[at - 1].count; at--) {
        const spd_target lower = in->targets[at - 1];
        in->targets[at - 1] = in->targets[at];
        in->targets[at] = lower;
    }
}

static void add_indirect(const importing *im, uint32_t function_rva, spd_indirect *in)
{
    const uint64_t begin = (uint64_t)function_rva + spd_site_offset(&in->site);
    const uint64_t end = begin + spd_site_length(&in->site);
    if (end > UINT32_MAX)
        return;
    for (size_t i = first_arc_from(im, (uint32_t)begin); i < im->arc_count; i++) {
        const uint32_t from = (uint32_t)(im->arcs[i].key >> 32), to = (uint32_t)im->arcs[i].key;
        if (from >= end)
            break;
        const uint64_t weight = weigh((double)im->arcs[i].count);
        const spd_function *callee = spd_by_rva(im->module, to);
        add(&in->total, weight);
        if (callee && callee->rva == to)
            add_target(in, callee->hash, weight);
    }
}

static void add_indirects(importing *im)
{
    for (size_t i = 0; i < im->module->function_count; i++) {
        spd_function *f = &im->module->functions[i];
        for (uint32_t b = 0; f->length && b < f->block_count; b++) {
            for (uint32_t k = 0; k < f->blocks[b].indirect_count; k++)
                add_indirect(im, f->rva, &f->blocks[b].indirects[k]);
        }
    }
}

/* ------------------------------------------------------------------ density */

typedef struct function_hits {
    const spd_function *function;
    double hits;
} function_hits;

static int by_function(const void *pa, const void *pb)
{
    const function_hits *a = pa, *b = pb;
    const uintptr_t x = (uintptr_t)a->function, y = (uintptr_t)b->function;
    return (x > y) - (x < y);
}

static int by_hits(const void *pa, const void *pb)
{
    const function_hits *a = pa, *b = pb;
    if (a->hits != b->hits)
        return a->hits > b->hits ? -1 : 1;
    return a->function->id < b->function->id ? -1 : a->function->id > b->function->id;
}

/* llvm-profgen's idea, with blocks that have code instead of lines. */
static bool measure_density(importing *im)
{
    const size_t n = im->places.copy_count;
    function_hits *list = malloc((n + 1) * sizeof *list);
    size_t kept = 0;
    double total = 0, seen = 0, least = 0;
    if (!list)
        return false;
    for (size_t i = 0; i < n; i++) {
        list[i] = (function_hits){im->places.copies[i].function, im->runs[i]};
        total += im->runs[i];
    }
    if (n > 0)
        qsort(list, n, sizeof *list, by_function);
    for (size_t i = 0; i < n; i++) {
        if (kept && list[kept - 1].function == list[i].function)
            list[kept - 1].hits += list[i].hits;
        else
            list[kept++] = list[i];
    }
    if (kept > 0)
        qsort(list, kept, sizeof *list, by_hits);
    for (size_t i = 0; i < kept && list[i].hits > 0; i++) {
        spd_coverage c = {0};
        spd_add_coverage(&c, list[i].function);
        im->tally->functions++;
        if (seen >= 0.99 * total)
            continue;
        seen += list[i].hits;
        const double density = list[i].hits / (double)(c.code_blocks ? c.code_blocks
                                                       : c.blocks    ? c.blocks
                                                                     : 1);
        least = i == 0 || density < least ? density : least;
    }
    im->tally->density = least;
    free(list);
    return true;
}

/* ------------------------------------------------------------------ the whole import */

static spgo_code import_module(importing *im, spgo_error *err)
{
    SPGO_TRY(spd_places_of(im->module, &im->places, err));
    im->runs = calloc(im->places.copy_count + 1, sizeof *im->runs);
    bool good = im->runs != NULL;
    if (good && im->opts->by_branches)
        count_branches(im);
    else if (good)
        good = count_ips(im);
    if (good) {
        good = measure_density(im);
        add_blocks(im);
    }
    if (good && im->opts->by_branches) {
        add_edges(im);
        add_indirects(im);
    }
    free(im->runs);
    im->runs = NULL;
    spd_places_free(&im->places);
    return good ? SPGO_OK : spgo_fail_nomem(err, "import", im->places.copy_count * sizeof(double));
}

static void free_importing(importing *im)
{
    free(im->arcs);
    free(im->begins.rvas);
    free(im->begins.sums);
    free(im->lasts.rvas);
    free(im->lasts.sums);
}

static bool sort_samples(importing *im)
{
    if (!im->opts->by_branches)
        return true;
    im->arcs = counts_sorted_by_key(&im->program->arcs, &im->arc_count);
    return (im->arcs || im->arc_count == 0) &&
           sum_edges(&im->program->ranges, false, &im->begins) &&
           sum_edges(&im->program->ranges, true, &im->lasts);
}

spgo_code spd_import(spd *doc, const samples_program *program, const spd_import_opts *opts,
                     spd_import_tally *tally, spgo_error *err)
{
    importing im = {.doc = doc, .program = program, .opts = opts, .tally = tally};
    *tally = (spd_import_tally){0};
    add_coverage(doc, &tally->before);
    retire_counts(doc, opts->retire);
    spgo_code code =
        sort_samples(&im) ? SPGO_OK : spgo_fail_nomem(err, "import", program->arcs.used * 16);
    for (size_t m = 0; m < doc->module_count && code == SPGO_OK; m++) {
        im.module = &doc->modules[m];
        code = import_module(&im, err);
    }
    free_importing(&im);
    SPGO_TRY(code);
    if (tally->found > 0)
        mark_as_filled(doc);
    SPGO_TRY(spd_smooth(doc, &tally->inexact, err));
    add_coverage(doc, &tally->after);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ merging */

static bool has_same_shape(const spd_function *a, const spd_function *b)
{
    if (a->block_count != b->block_count || a->checksum != b->checksum)
        return false;
    for (uint32_t i = 0; i < a->block_count; i++) {
        if (a->blocks[i].edge_count != b->blocks[i].edge_count)
            return false;
        for (uint32_t e = 0; e < a->blocks[i].edge_count; e++) {
            if (a->blocks[i].edges[e].target != b->blocks[i].edges[e].target)
                return false;
        }
    }
    return true;
}

static void add_indirect_counts(spd_block *to, const spd_block *from)
{
    const uint32_t n =
        to->indirect_count < from->indirect_count ? to->indirect_count : from->indirect_count;
    for (uint32_t k = 0; k < n; k++) {
        add(&to->indirects[k].total, from->indirects[k].total);
        for (int t = 0; t < SPD_TARGETS; t++) {
            if (from->indirects[k].targets[t].count)
                add_target(&to->indirects[k], from->indirects[k].targets[t].hash,
                           from->indirects[k].targets[t].count);
        }
    }
}

static void add_function_counts(spd_function *to, const spd_function *from)
{
    for (uint32_t b = 0; b < to->block_count; b++) {
        add(&to->blocks[b].count, from->blocks[b].count);
        for (uint32_t e = 0; e < to->blocks[b].edge_count; e++)
            add(&to->blocks[b].edges[e].count, from->blocks[b].edges[e].count);
        add_indirect_counts(&to->blocks[b], &from->blocks[b]);
    }
}

static spd_function *find_function(const spd *doc, uint64_t hash)
{
    for (size_t m = 0; m < doc->module_count; m++) {
        spd_function *f = spd_by_hash(&doc->modules[m], hash);
        if (f)
            return f;
    }
    return NULL;
}

spgo_code spd_merge(spd *doc, const spd *other, unsigned retire,
                    void (*missing)(void *ctx, const spd_function *f, bool is_reshaped), void *ctx,
                    spd_merge_tally *tally, spgo_error *err)
{
    *tally = (spd_merge_tally){.same_build = image_id_equal(&doc->id, &other->id)};
    add_coverage(doc, &tally->before);
    retire_counts(doc, retire);
    for (size_t m = 0; m < other->module_count; m++) {
        for (size_t i = 0; i < other->modules[m].function_count; i++) {
            const spd_function *from = &other->modules[m].functions[i];
            spd_function *to = find_function(doc, from->hash);
            const bool fits = to && has_same_shape(to, from);
            tally->functions++;
            tally->carried += fits;
            tally->reshaped += to && !fits;
            tally->gone += !to;
            if (fits)
                add_function_counts(to, from);
            else if (missing && is_live(from))
                missing(ctx, from, to != NULL);
        }
    }
    if (other->flags & 3)
        mark_as_filled(doc);
    SPGO_TRY(spd_smooth(doc, NULL, err));
    add_coverage(doc, &tally->after);
    return SPGO_OK;
}
