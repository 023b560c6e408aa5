/* Random SPD documents with a valid structure; and the comparison of all values of two. */
#include "spd_random.h"

#include <stdio.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>

enum {
    MODULES_MAX = 3,
    FUNCTIONS_MAX = 12,
    BLOCKS_MAX = 9,
    EDGES_MAX = 4,
    RANGES_MAX = 3,
    INDIRECTS_MAX = 2,
    INSTANCES_MAX = 2,
    CALLS_MAX = 4,
    NESTING_MAX = 4
};

uint64_t spd_random(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * UINT64_C(0x2545F4914F6CDD1D);
}

/* 0 to max. */
static uint32_t upto(uint64_t *seed, uint32_t max)
{
    return (uint32_t)(spd_random(seed) >> 32) % (max + 1);
}

static uint32_t word(uint64_t *seed)
{
    return (uint32_t)(spd_random(seed) >> 32) >> upto(seed, 31);
}

static uint64_t count(uint64_t *seed)
{
    return spd_random(seed) >> upto(seed, 63);
}

static spd_range *random_ranges(spd *doc, uint64_t *seed, uint32_t n)
{
    spd_range *ranges = spd_build_room(doc, n, sizeof *ranges);
    for (uint32_t i = 0; i < n; i++)
        ranges[i] = (spd_range){.offset = word(seed), .length_word = word(seed)};
    return ranges;
}

static spd_site random_site(uint64_t *seed)
{
    return (spd_site){.place_word = word(seed), .ordinal_word = word(seed)};
}

static spd_instance *random_instances(spd *doc, uint64_t *seed, unsigned depth, uint32_t *n);

static void fill_inline_block(spd *doc, uint64_t *seed, unsigned depth, spd_inline_block *b)
{
    b->id = word(seed);
    b->flags = (uint16_t)word(seed);
    b->number = (uint16_t)word(seed);
    b->instruction_count = word(seed);
    b->range_count = upto(seed, RANGES_MAX);
    b->ranges = random_ranges(doc, seed, b->range_count);
    b->site_count = upto(seed, INDIRECTS_MAX);
    b->sites = spd_build_room(doc, b->site_count, sizeof *b->sites);
    for (uint32_t i = 0; i < b->site_count; i++)
        b->sites[i] = random_site(seed);
    b->instances = random_instances(doc, seed, depth, &b->instance_count);
}

static spd_instance *random_instances(spd *doc, uint64_t *seed, unsigned depth, uint32_t *n)
{
    *n = depth < NESTING_MAX ? upto(seed, INSTANCES_MAX) : 0;
    spd_instance *instances = spd_build_room(doc, *n, sizeof *instances);
    for (uint32_t i = 0; i < *n; i++) {
        instances[i].callee_hash = count(seed);
        instances[i].word_08 = word(seed);
        instances[i].block_count = upto(seed, INSTANCES_MAX);
        instances[i].blocks =
            spd_build_room(doc, instances[i].block_count, sizeof *instances[i].blocks);
        for (uint32_t k = 0; k < instances[i].block_count; k++)
            fill_inline_block(doc, seed, depth + 1, &instances[i].blocks[k]);
    }
    return instances;
}

static void fill_block(spd *doc, uint64_t *seed, const spd_function *f, spd_block *b)
{
    b->count = count(seed);
    b->flags = (uint16_t)word(seed);
    b->number = (uint16_t)word(seed);
    b->instruction_count = word(seed);
    b->range_count = upto(seed, RANGES_MAX);
    b->ranges = random_ranges(doc, seed, b->range_count);
    for (uint32_t i = upto(seed, EDGES_MAX); i > 0; i--)
        spd_add_edge(doc, b, 1 + upto(seed, f->block_count - 1), count(seed), word(seed));
    b->indirect_count = upto(seed, INDIRECTS_MAX);
    b->indirects = spd_build_room(doc, b->indirect_count, sizeof *b->indirects);
    for (uint32_t i = 0; i < b->indirect_count; i++) {
        b->indirects[i].site = random_site(seed);
        b->indirects[i].total = count(seed);
        for (unsigned t = 0; t < SPD_TARGETS; t++)
            b->indirects[i].targets[t] = (spd_target){.hash = count(seed), .count = count(seed)};
    }
    b->instances = random_instances(doc, seed, 0, &b->instance_count);
}

static void fill_calls(spd *doc, uint64_t *seed, spd_function *f)
{
    f->call_count = upto(seed, CALLS_MAX);
    f->calls = spd_build_room(doc, f->call_count, sizeof *f->calls);
    for (uint32_t i = 0; i < f->call_count; i++) {
        spd_call *call = &f->calls[i];
        *call = (spd_call){.callee_hash = count(seed), .kind = word(seed)};
        call->block_count = f->block_count ? upto(seed, 3) : 0;
        call->blocks = spd_build_room(doc, call->block_count, sizeof *call->blocks);
        for (uint32_t k = 0; k < call->block_count; k++)
            call->blocks[k] = upto(seed, f->block_count - 1);
    }
    f->emitted_count = upto(seed, CALLS_MAX);
    f->emitted = spd_build_room(doc, f->emitted_count, sizeof *f->emitted);
    for (uint32_t i = 0; i < f->emitted_count; i++)
        f->emitted[i] = (spd_emitted){.callee_hash = count(seed),
                                      .count = count(seed),
                                      .flags = word(seed),
                                      .word_14 = word(seed)};
}

static void fill_function(spd *doc, uint64_t *seed, spd_module *m, uint32_t id)
{
    char name[24];
    snprintf(name, sizeof name, "f%x", (unsigned)word(seed));
    spd_function *f = spd_add_function(doc, m, name, id);
    f->hash = count(seed);
    f->symbol_flags = word(seed);
    f->symbol_word_14 = word(seed);
    f->folded_rva = word(seed);
    f->blob_hash = count(seed);
    f->word_08 = word(seed);
    f->word_0c = word(seed);
    f->flags = word(seed);
    f->checksum = word(seed);
    f->rva = word(seed);
    f->length = word(seed);
    f->word_28 = word(seed);
    f->word_2c = word(seed);
    f->word_4c = word(seed);
    f->word_50 = word(seed);
    spd_add_blocks(doc, f, upto(seed, BLOCKS_MAX));
    for (uint32_t i = 0; i < f->block_count; i++)
        fill_block(doc, seed, f, &f->blocks[i]);
    fill_calls(doc, seed, f);
}

void spd_fill_random(spd *doc, uint64_t seed)
{
    seed = seed * 2 + 1;
    doc->format = word(&seed);
    doc->flags = word(&seed);
    doc->image_hash = word(&seed);
    doc->word_10 = word(&seed);
    doc->word_44 = word(&seed);
    for (uint32_t i = upto(&seed, MODULES_MAX); i > 0; i--) {
        char name[24];
        snprintf(name, sizeof name, "module %u", (unsigned)i);
        spd_module *m = spd_add_module(doc, name);
        m->flags = word(&seed);
        m->generation = word(&seed);
        m->word_18 = word(&seed);
        m->word_20 = word(&seed);
        m->list_word_04 = word(&seed);
        for (uint32_t k = upto(&seed, FUNCTIONS_MAX); k > 0; k--)
            fill_function(doc, &seed, m, word(&seed));
        m->bucket_count = 1 + upto(&seed, FUNCTIONS_MAX);
    }
}

/* ------------------------------------------------------------------ comparing */

#define COMPARE(field)                                                                             \
    do {                                                                                           \
        if (a->field != b->field)                                                                  \
            return #field;                                                                         \
    } while (0)

#define COMPARE_ALL(compare, array, n)                                                             \
    do {                                                                                           \
        COMPARE(n);                                                                                \
        for (size_t all_i = 0; all_i < a->n; all_i++) {                                            \
            const char *all_found = compare(&a->array[all_i], &b->array[all_i]);                   \
            if (all_found)                                                                         \
                return all_found;                                                                  \
        }                                                                                          \
    } while (0)

static bool same_span(spgo_span a, spgo_span b)
{
    return !a.ptr == !b.ptr && a.len == b.len && (!a.len || !memcmp(a.ptr, b.ptr, a.len));
}

static const char *range_difference(const spd_range *a, const spd_range *b)
{
    COMPARE(offset);
    COMPARE(length_word);
    return NULL;
}

static const char *site_difference(const spd_site *a, const spd_site *b)
{
    COMPARE(place_word);
    COMPARE(ordinal_word);
    return NULL;
}

static const char *edge_difference(const spd_edge *a, const spd_edge *b)
{
    COMPARE(target);
    COMPARE(count);
    COMPARE(flags);
    return NULL;
}

static const char *indirect_difference(const spd_indirect *a, const spd_indirect *b)
{
    COMPARE(total);
    for (unsigned t = 0; t < SPD_TARGETS; t++) {
        COMPARE(targets[t].hash);
        COMPARE(targets[t].count);
    }
    return site_difference(&a->site, &b->site);
}

static const char *instance_difference(const spd_instance *a, const spd_instance *b);

static const char *inline_block_difference(const spd_inline_block *a, const spd_inline_block *b)
{
    COMPARE(id);
    COMPARE(flags);
    COMPARE(number);
    COMPARE(instruction_count);
    COMPARE_ALL(range_difference, ranges, range_count);
    COMPARE_ALL(site_difference, sites, site_count);
    COMPARE_ALL(instance_difference, instances, instance_count);
    return NULL;
}

static const char *instance_difference(const spd_instance *a, const spd_instance *b)
{
    COMPARE(callee_hash);
    COMPARE(word_08);
    COMPARE_ALL(inline_block_difference, blocks, block_count);
    return NULL;
}

static const char *block_difference(const spd_block *a, const spd_block *b)
{
    COMPARE(count);
    COMPARE(flags);
    COMPARE(number);
    COMPARE(instruction_count);
    COMPARE_ALL(edge_difference, edges, edge_count);
    COMPARE_ALL(range_difference, ranges, range_count);
    COMPARE_ALL(indirect_difference, indirects, indirect_count);
    COMPARE_ALL(instance_difference, instances, instance_count);
    return NULL;
}

static const char *call_difference(const spd_call *a, const spd_call *b)
{
    COMPARE(callee_hash);
    COMPARE(count);
    COMPARE(kind);
    COMPARE(block_count);
    for (uint32_t i = 0; i < a->block_count; i++)
        COMPARE(blocks[i]);
    return NULL;
}

static const char *emitted_difference(const spd_emitted *a, const spd_emitted *b)
{
    COMPARE(callee_hash);
    COMPARE(count);
    COMPARE(flags);
    COMPARE(word_14);
    return NULL;
}

static const char *function_difference(const spd_function *a, const spd_function *b)
{
    if (!text_equal(a->name, b->name))
        return "name";
    COMPARE(hash);
    COMPARE(symbol_flags);
    COMPARE(id);
    COMPARE(symbol_word_14);
    COMPARE(folded_rva);
    COMPARE(has_symbol);
    COMPARE(blob_hash);
    COMPARE(word_08);
    COMPARE(word_0c);
    COMPARE(flags);
    COMPARE(checksum);
    COMPARE(rva);
    COMPARE(length);
    COMPARE(word_28);
    COMPARE(word_2c);
    COMPARE(word_4c);
    COMPARE(word_50);
    COMPARE_ALL(call_difference, calls, call_count);
    COMPARE_ALL(block_difference, blocks, block_count);
    COMPARE_ALL(emitted_difference, emitted, emitted_count);
    return same_span(a->raw, b->raw) ? NULL : "raw";
}

static const char *module_difference(const spd_module *a, const spd_module *b)
{
    if (!text_equal(a->name, b->name))
        return "module name";
    COMPARE(list_word_04);
    COMPARE(list_word_08);
    COMPARE(flags);
    COMPARE(generation);
    COMPARE(word_18);
    COMPARE(word_20);
    COMPARE(bucket_count);
    COMPARE_ALL(function_difference, functions, function_count);
    bool same = same_span(a->gap_header, b->gap_header) && same_span(a->gap_table, b->gap_table) &&
                same_span(a->gap_data, b->gap_data) && same_span(a->gap_strings, b->gap_strings) &&
                same_span(a->kept_table, b->kept_table) &&
                same_span(a->kept_strings, b->kept_strings) && same_span(a->raw, b->raw);
    return same ? NULL : "what a module keeps";
}

const char *spd_difference(const spd *a, const spd *b)
{
    COMPARE(format);
    COMPARE(word_08);
    COMPARE(word_0c);
    COMPARE(word_10);
    COMPARE(flags);
    COMPARE(image_hash);
    COMPARE(word_1c);
    COMPARE(word_20);
    COMPARE(word_24);
    COMPARE(word_3c);
    COMPARE(word_40);
    COMPARE(word_44);
    COMPARE(hot_threshold);
    COMPARE(dynamic_total);
    COMPARE(static_total);
    COMPARE(word_70);
    if (!image_id_equal(&a->id, &b->id))
        return "id";
    if (!text_equal(a->image_name, b->image_name))
        return "image_name";
    COMPARE_ALL(module_difference, modules, module_count);
    bool same = same_span(a->gap_header, b->gap_header) && same_span(a->gap_list, b->gap_list) &&
                same_span(a->gap_names, b->gap_names) && a->tail.len == b->tail.len &&
                same_span(a->kept_names, b->kept_names) && same_span(a->raw, b->raw);
    return same ? NULL : "what the document keeps";
}
