/* Checks the inside of a function: flow, calls, code ranges, what was inlined. */
#include "spd_verify.h"

#include <inttypes.h>
#include <stdlib.h>

#include <base/saturate.h>

enum {
    FUNCTION_FLAGS_KNOWN = SPD_FUNCTION_NEW | SPD_FUNCTION_TAIL_INDIRECT,
    EMITTED_FLAGS_KNOWN = SPD_EMITTED_CALL | SPD_EMITTED_TAIL,
    BLOCK_FLAGS_KNOWN = 0x3f,
    /* What real files miss conservation of flow by: rounding, and the count given to functions of
     * which only the call is known. */
    FLOW_ROUNDING = 1,
    FLOW_FLOOR = 16
};

/* ------------------------------------------------------------------ flow */

static void check_flow(verifier *v, const spd_function *f, const spd_block *b, uint64_t sum,
                       const char *way)
{
    char label[SPD_LABEL_SIZE];
    uint64_t miss = sum > b->count ? sum - b->count : b->count - sum;
    if (!miss)
        return;
    bool is_known = miss == FLOW_ROUNDING || miss == FLOW_FLOOR;
    spd_report(v, is_known ? SPD_NOTE : SPD_WARNING, "flow", b->offset + 0x08,
               "block %zu of function %s ran %" PRIu64 " times, and %" PRIu64 " times by the edges "
               "%s it",
               (size_t)(b - f->blocks) + 1, spd_label(label, f), b->count, sum, way);
}

static void check_all_flow(verifier *v, const spd_function *f)
{
    uint64_t *in = v->sums;
    for (uint32_t i = 0; i < f->block_count; i++)
        in[i] = 0;
    for (uint32_t i = 0; i < f->block_count; i++) {
        const spd_block *b = &f->blocks[i];
        uint64_t out = 0;
        for (uint32_t k = 0; k < b->edge_count; k++) {
            const spd_edge *e = &b->edges[k];
            out = saturating_add(out, e->count);
            in[e->target] = saturating_add(in[e->target], e->count);
        }
        v->verdict->edge_count += b->edge_count;
        if (b->edge_count)
            check_flow(v, f, b, out, "out of");
    }
    for (uint32_t i = 1; i < f->block_count; i++)
        check_flow(v, f, &f->blocks[i], in[i], "into");
}

/* The last block, and no other, has no edge. */
static void check_exit(verifier *v, const spd_function *f)
{
    char label[SPD_LABEL_SIZE];
    for (uint32_t i = 0; i < f->block_count; i++) {
        bool is_last = i + 1 == f->block_count;
        if (is_last == (f->blocks[i].edge_count == 0))
            continue;
        spd_report(v, SPD_WARNING, "exit", f->blocks[i].offset,
                   "block %" PRIu32 " of %" PRIu32 " of function %s has %" PRIu32 " edges", i + 1,
                   f->block_count, spd_label(label, f), f->blocks[i].edge_count);
    }
}

/* ------------------------------------------------------------------ calls */

static void check_calls(verifier *v, const spd_function *f)
{
    char label[SPD_LABEL_SIZE];
    for (uint32_t i = 0; i < f->call_count; i++) {
        const spd_call *call = &f->calls[i];
        uint64_t sum = 0;
        for (uint32_t k = 0; k < call->block_count; k++)
            sum = saturating_add(sum, f->blocks[call->blocks[k]].count);
        if (sum != call->count)
            spd_report(v, SPD_WARNING, "call-count", call->offset + 0x0c,
                       "a call of function %s ran %" PRIu64 " times, and its blocks %" PRIu64,
                       spd_label(label, f), call->count, sum);
        if (!spd_call_kind_name(call->kind))
            spd_report(v, SPD_NOTE, "call-kind", call->offset + 0x08,
                       "a call of function %s is of the kind %" PRIu32 ", which no known file has",
                       spd_label(label, f), call->kind);
    }
    for (uint32_t i = 0; i < f->emitted_count; i++) {
        spd_check_bits(v, f->offset, "flags of an emitted call", f->emitted[i].flags,
                       EMITTED_FLAGS_KNOWN);
        spd_check_word(v, f->offset, "word 14 of an emitted call", f->emitted[i].word_14, 0);
    }
}

static void check_site(verifier *v, const spd_function *f, const spd_site *site, uint64_t offset)
{
    char label[SPD_LABEL_SIZE];
    uint64_t end = (uint64_t)spd_site_offset(site) + spd_site_length(site);
    if (f->length && end > f->length)
        spd_report(v, SPD_WARNING, "call-place", offset,
                   "an indirect call of function %s is at 0x%" PRIx32 ", and its code 0x%" PRIx32
                   " bytes long",
                   spd_label(label, f), spd_site_offset(site), f->length);
}

static void check_indirects(verifier *v, const spd_function *f, const spd_block *b)
{
    char label[SPD_LABEL_SIZE];
    for (uint32_t i = 0; i < b->indirect_count; i++) {
        const spd_indirect *call = &b->indirects[i];
        uint64_t sum = 0;
        bool falls = true;
        check_site(v, f, &call->site, b->offset);
        for (unsigned t = 0; t < SPD_TARGETS; t++) {
            sum = saturating_add(sum, call->targets[t].count);
            falls = falls && (t == 0 || call->targets[t].count <= call->targets[t - 1].count);
        }
        if (sum > call->total || !falls)
            spd_report(v, SPD_WARNING, "indirect", b->offset,
                       "an indirect call of function %s ran %" PRIu64 " times, and %" PRIu64
                       " times to its targets%s",
                       spd_label(label, f), call->total, sum,
                       falls ? "" : ", whose counts do not fall");
    }
}

/* ------------------------------------------------------------------ code */

static int by_offset(const void *a, const void *b)
{
    const spd_range *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->length_word < y->length_word ? -1 : x->length_word > y->length_word;
}

/* Together the ranges of the blocks are the code, each byte once. */
static void check_tiling(verifier *v, const spd_function *f)
{
    char label[SPD_LABEL_SIZE];
    size_t n = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < f->block_count; i++) {
        for (uint32_t k = 0; k < f->blocks[i].range_count; k++)
            v->ranges[n++] = f->blocks[i].ranges[k];
    }
    qsort(v->ranges, n, sizeof *v->ranges, by_offset);
    for (size_t i = 0; i < n; i++) {
        if (v->ranges[i].offset != end) {
            spd_report(v, SPD_WARNING, "ranges", f->offset,
                       "the code ranges of function %s %s at 0x%" PRIx64 " of its code",
                       spd_label(label, f), v->ranges[i].offset > end ? "leave a gap" : "overlap",
                       end);
            return;
        }
        end += spd_range_length(&v->ranges[i]);
    }
    if (end != f->length)
        spd_report(v, SPD_WARNING, "ranges", f->offset + 0x24,
                   "the code ranges of function %s end at 0x%" PRIx64 ", its code at 0x%" PRIx32,
                   spd_label(label, f), end, f->length);
}

static void check_range_bits(verifier *v, const spd_range *ranges, uint32_t count, uint64_t offset)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ranges[i].length_word & 1)
            spd_report(v, SPD_NOTE, "range-bit", offset,
                       "bit 0 of the length of a code range is set, which no known file has");
    }
}

/* ------------------------------------------------------------------ what was inlined */

/* The block that something was inlined into, with its ranges in order. */
typedef struct outer {
    const spd_function *f;
    const spd_block *block;
    const spd_range *ranges;
    uint32_t range_count;
} outer;

static bool is_inside(const outer *o, const spd_range *r)
{
    uint32_t low = 0, high = o->range_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (o->ranges[middle].offset <= r->offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return false;
    const spd_range *around = &o->ranges[low - 1];
    return (uint64_t)r->offset + spd_range_length(r) <=
           (uint64_t)around->offset + spd_range_length(around);
}

static void check_instance(verifier *v, const outer *o, const spd_instance *instance);

static void check_inline_block(verifier *v, const outer *o, const spd_instance *instance,
                               const spd_inline_block *b, const spd_function *callee)
{
    char label[SPD_LABEL_SIZE];
    spd_check_bits(v, instance->offset, "flags of an inlined block", b->flags, BLOCK_FLAGS_KNOWN);
    check_range_bits(v, b->ranges, b->range_count, instance->offset);
    if (callee && !callee->raw.ptr && (b->id == 0 || b->id > callee->block_count))
        spd_report(v, SPD_WARNING, "inline-block", instance->offset,
                   "block %" PRIu32 " of function %s is inlined, which has %" PRIu32, b->id,
                   spd_label(label, callee), callee->block_count);
    for (uint32_t i = 0; i < b->range_count; i++) {
        if (!is_inside(o, &b->ranges[i]))
            spd_report(v, SPD_WARNING, "inline-range", instance->offset,
                       "inlined code at 0x%" PRIx32 " is not inside block %zu of function %s",
                       b->ranges[i].offset, (size_t)(o->block - o->f->blocks) + 1,
                       spd_label(label, o->f));
    }
    for (uint32_t i = 0; i < b->site_count; i++)
        check_site(v, o->f, &b->sites[i], instance->offset);
    for (uint32_t i = 0; i < b->instance_count && !v->stopped; i++)
        check_instance(v, o, &b->instances[i]);
}

static void check_instance(verifier *v, const outer *o, const spd_instance *instance)
{
    char label[SPD_LABEL_SIZE];
    const spd_function *callee = spd_callee(v->doc, instance->callee_hash);
    if (!callee)
        spd_report(v, SPD_WARNING, "inline-callee", instance->offset,
                   "what is inlined into function %s has the hash %016" PRIx64
                   ", which no function has",
                   spd_label(label, o->f), instance->callee_hash);
    spd_check_word(v, instance->offset + 0x08, "word 08 of what is inlined", instance->word_08, 0);
    for (uint32_t i = 0; i < instance->block_count && !v->stopped; i++)
        check_inline_block(v, o, instance, &instance->blocks[i], callee);
}

static void check_inlining(verifier *v, const spd_function *f, const spd_block *b)
{
    char label[SPD_LABEL_SIZE];
    uint64_t instructions = 0;
    outer o = {.f = f, .block = b, .ranges = v->ranges, .range_count = b->range_count};
    for (uint32_t i = 0; i < b->range_count; i++)
        v->ranges[i] = b->ranges[i];
    qsort(v->ranges, b->range_count, sizeof *v->ranges, by_offset);
    for (uint32_t i = 0; i < b->instance_count && !v->stopped; i++) {
        check_instance(v, &o, &b->instances[i]);
        for (uint32_t k = 0; k < b->instances[i].block_count; k++)
            instructions += b->instances[i].blocks[k].instruction_count;
    }
    if (instructions > b->instruction_count)
        spd_report(
            v, SPD_WARNING, "inline-instructions", b->offset + 0x10,
            "block %zu of function %s has %" PRIu32 " instructions, and %" PRIu64 " inlined ones",
            (size_t)(b - f->blocks) + 1, spd_label(label, f), b->instruction_count, instructions);
}

/* ------------------------------------------------------------------ all of it */

static void check_words(verifier *v, const spd_function *f)
{
    spd_check_bits(v, f->offset + 0x14, "flags of a function", f->flags, FUNCTION_FLAGS_KNOWN);
    spd_check_word(v, f->offset + 0x08, "word 08 of a function", f->word_08, 0);
    spd_check_word(v, f->offset + 0x0c, "word 0c of a function", f->word_0c, 0);
    spd_check_word(v, f->offset + 0x28, "word 28 of a function", f->word_28, 0);
    spd_check_word(v, f->offset + 0x2c, "word 2c of a function", f->word_2c, 0);
    spd_check_word(v, f->offset + 0x4c, "word 4c of a function", f->word_4c, 0);
    spd_check_word(v, f->offset + 0x50, "word 50 of a function", f->word_50, 0);
}

void spd_verify_function(verifier *v, const spd_function *f)
{
    v->verdict->block_count += f->block_count;
    check_words(v, f);
    check_exit(v, f);
    check_all_flow(v, f);
    check_calls(v, f);
    for (uint32_t i = 0; i < f->block_count && !v->stopped; i++) {
        const spd_block *b = &f->blocks[i];
        spd_check_bits(v, b->offset + 0x04, "flags of a block", b->flags, BLOCK_FLAGS_KNOWN);
        for (uint32_t k = 0; k < b->edge_count; k++)
            spd_check_bits(v, b->offset, "flags of an edge", b->edges[k].flags, SPD_EDGE_BACK);
        check_range_bits(v, b->ranges, b->range_count, b->offset);
        check_indirects(v, f, b);
        if (b->instance_count)
            check_inlining(v, f, b);
    }
    /* Without code of its own a function has the ranges that it would have had. */
    if (f->length)
        check_tiling(v, f);
}
