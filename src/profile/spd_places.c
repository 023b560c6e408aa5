/* The code of blocks, innermost first: see spd_places.h. */
#include <profile/spd_places.h>

#include <stdlib.h>

/* A range of a copy before nested ones are taken out of it. */
typedef struct stretch {
    uint32_t begin, end, depth, copy;
} stretch;

typedef struct gathering {
    spd_module *module;
    spd_places *out;
    stretch *stretches;
    size_t count, capacity;
    uint32_t rva; /* of the function whose code it is */
    bool failed;
} gathering;

static bool grow(void **items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    const size_t wanted = *capacity ? *capacity * 2 : 256;
    void *grown = realloc(*items, wanted * item_bytes);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

static void add_copy(gathering *g, spd_function *f, uint32_t block, uint32_t instructions,
                     const spd_range *ranges, uint32_t range_count, uint32_t depth)
{
    spd_places *p = g->out;
    if (range_count == 0)
        return;
    if (!grow((void **)&p->copies, p->copy_count, &p->copy_capacity, sizeof *p->copies)) {
        g->failed = true;
        return;
    }
    spd_copy *c = &p->copies[p->copy_count++];
    *c = (spd_copy){.function = f,
                    .block = block,
                    .instruction_count = instructions ? instructions : 1,
                    .first_rva = UINT32_MAX};
    for (uint32_t i = 0; i < range_count && !g->failed; i++) {
        const uint64_t begin = (uint64_t)g->rva + ranges[i].offset;
        const uint64_t end = begin + spd_range_length(&ranges[i]);
        if (end > UINT32_MAX || end == begin)
            continue;
        if (!grow((void **)&g->stretches, g->count, &g->capacity, sizeof *g->stretches))
            g->failed = true;
        else
            g->stretches[g->count++] =
                (stretch){(uint32_t)begin, (uint32_t)end, depth, (uint32_t)p->copy_count - 1};
    }
}

static uint32_t own_of_inlined(const spd_inline_block *b)
{
    uint64_t inner = 0;
    for (uint32_t i = 0; i < b->instance_count; i++) {
        for (uint32_t k = 0; k < b->instances[i].block_count; k++)
            inner += b->instances[i].blocks[k].instruction_count;
    }
    return inner < b->instruction_count ? b->instruction_count - (uint32_t)inner : 1;
}

/* Nesting is bounded by the reader. */
static void add_instances(gathering *g, const spd_instance *instances, uint32_t count,
                          uint32_t depth)
{
    for (uint32_t i = 0; i < count; i++) {
        const spd_instance *in = &instances[i];
        spd_function *callee = spd_by_hash(g->module, in->callee_hash);
        for (uint32_t k = 0; k < in->block_count; k++) {
            const spd_inline_block *b = &in->blocks[k];
            if (callee && b->id >= 1 && b->id <= callee->block_count)
                add_copy(g, callee, b->id - 1, own_of_inlined(b), b->ranges, b->range_count, depth);
            add_instances(g, b->instances, b->instance_count, depth + 1);
        }
    }
}

static void add_function(gathering *g, spd_function *f)
{
    if (f->length == 0)
        return; /* its ranges are those of a body that is not there */
    g->rva = f->rva;
    for (uint32_t i = 0; i < f->block_count && !g->failed; i++) {
        const spd_block *b = &f->blocks[i];
        add_copy(g, f, i, spd_own_instructions(b), b->ranges, b->range_count, 0);
        add_instances(g, b->instances, b->instance_count, 1);
    }
}

/* By begin, the outer one first. */
static int stretch_order(const void *pa, const void *pb)
{
    const stretch *a = pa, *b = pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return a->copy < b->copy ? -1 : a->copy > b->copy;
}

static bool add_place(spd_places *p, uint32_t begin, uint32_t end, uint32_t copy)
{
    if (begin >= end)
        return true;
    if (!grow((void **)&p->places, p->place_count, &p->place_capacity, sizeof *p->places))
        return false;
    p->places[p->place_count++] = (spd_place){begin, end, copy};
    if (begin < p->copies[copy].first_rva)
        p->copies[copy].first_rva = begin;
    return true;
}

/* Cuts the stretches into places: what is on top of the stack of open ones owns the code up to
 * where the next begins or it ends. */
static bool flatten(gathering *g)
{
    spd_places *p = g->out;
    uint32_t *stack = malloc((g->count + 1) * sizeof *stack);
    size_t depth = 0;
    uint32_t at = 0;
    bool good = stack != NULL;
    if (good && g->count > 0)
        qsort(g->stretches, g->count, sizeof *g->stretches, stretch_order);
    for (uint32_t i = 0; good && i <= g->count; i++) {
        const uint32_t next = i < g->count ? g->stretches[i].begin : UINT32_MAX;
        while (good && depth > 0 && at < next) {
            const stretch *top = &g->stretches[stack[depth - 1]];
            const uint32_t end = top->end < next ? top->end : next;
            good = add_place(p, at, end, top->copy);
            at = end > at ? end : at;
            if (top->end <= at)
                depth--;
            else
                break;
        }
        if (i < g->count) {
            at = next;
            while (depth > 0 && g->stretches[stack[depth - 1]].end <= at)
                depth--;
            stack[depth++] = i;
        }
    }
    free(stack);
    return good;
}

/* Copies that own no code are entered where the first code inside them begins. */
static void find_entries(const gathering *g)
{
    for (size_t i = 0; i < g->count; i++) {
        spd_copy *c = &g->out->copies[g->stretches[i].copy];
        if (c->first_rva == UINT32_MAX)
            c->first_rva = g->stretches[i].begin;
    }
}

spgo_code spd_places_of(spd_module *m, spd_places *out, spgo_error *err)
{
    *out = (spd_places){0};
    gathering g = {.module = m, .out = out};
    for (size_t i = 0; i < m->function_count && !g.failed; i++)
        add_function(&g, &m->functions[i]);
    const bool good = !g.failed && flatten(&g);
    if (good)
        find_entries(&g);
    free(g.stretches);
    if (good)
        return SPGO_OK;
    spd_places_free(out);
    return spgo_fail_nomem(err, "code of blocks", g.count * sizeof *g.stretches);
}

void spd_places_free(spd_places *p)
{
    free(p->copies);
    free(p->places);
    *p = (spd_places){0};
}

const spd_place *spd_place_at(const spd_places *p, uint32_t rva)
{
    size_t low = 0, high = p->place_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (p->places[middle].end_rva <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->place_count && p->places[low].begin_rva <= rva ? &p->places[low] : NULL;
}
