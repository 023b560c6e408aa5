/* Small SPD documents, made by hand: see spd_build.h. */
#include "spd_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>

#include "spd_random.h"

enum { HEADER_FILLED = 7, HEADER_FRESH = 4, MODULE_FILLED = 7, MODULE_FRESH = 1, SYMBOL_BASE = 9 };

void *spd_build_room(spd *doc, size_t n, size_t size)
{
    void *p = arena_push(doc->memory, n, size);
    if (!p) {
        fprintf(stderr, "spd_build: out of memory\n");
        exit(1);
    }
    return p;
}

/* An array with one more element at its end. */
static void *grown(spd *doc, const void *old, size_t count, size_t size)
{
    void *p = spd_build_room(doc, count + 1, size);
    if (count)
        memcpy(p, old, count * size);
    return p;
}

static spgo_str copied(spd *doc, const char *text)
{
    size_t len = strlen(text);
    char *copy = spd_build_room(doc, len + 1, 1);
    memcpy(copy, text, len + 1);
    return (spgo_str){copy, len};
}

static uint64_t hash_of(const char *text)
{
    return spd_name_hash(SPD_HASH_START, text_str(text));
}

/* ------------------------------------------------------------------ parts */

spd_module *spd_add_module(spd *doc, const char *name)
{
    doc->modules = grown(doc, doc->modules, doc->module_count, sizeof *doc->modules);
    spd_module *m = &doc->modules[doc->module_count++];
    m->name = copied(doc, name);
    m->flags = MODULE_FILLED;
    m->bucket_count = spd_bucket_count(0);
    return m;
}

spd_function *spd_add_function(spd *doc, spd_module *m, const char *name, uint32_t id)
{
    m->functions = grown(doc, m->functions, m->function_count, sizeof *m->functions);
    spd_function *f = &m->functions[m->function_count++];
    m->bucket_count = spd_bucket_count(m->function_count);
    f->name = copied(doc, name);
    f->hash = f->blob_hash = hash_of(name);
    f->symbol_flags = SYMBOL_BASE;
    f->id = id;
    f->has_symbol = true;
    f->checksum = (uint32_t)f->hash;
    return f;
}

spd_block *spd_add_blocks(spd *doc, spd_function *f, uint32_t count)
{
    f->blocks = spd_build_room(doc, count, sizeof *f->blocks);
    f->block_count = count;
    return f->blocks;
}

void spd_add_edge(spd *doc, spd_block *b, uint32_t to_id, uint64_t count, uint32_t flags)
{
    b->edges = grown(doc, b->edges, b->edge_count, sizeof *b->edges);
    b->edges[b->edge_count++] = (spd_edge){.target = to_id - 1, .count = count, .flags = flags};
}

void spd_add_range(spd *doc, spd_block *b, uint32_t offset, uint32_t length)
{
    b->ranges = grown(doc, b->ranges, b->range_count, sizeof *b->ranges);
    b->ranges[b->range_count++] = (spd_range){.offset = offset, .length_word = 2 * length};
}

void spd_add_call(spd *doc, spd_function *f, const char *callee, uint32_t kind, uint32_t block_id)
{
    f->calls = grown(doc, f->calls, f->call_count, sizeof *f->calls);
    spd_call *call = &f->calls[f->call_count++];
    *call = (spd_call){.callee_hash = hash_of(callee), .kind = kind, .block_count = 1};
    call->blocks = spd_build_room(doc, 1, sizeof *call->blocks);
    call->blocks[0] = block_id - 1;
}

static spd_instance *add_instance(spd *doc, spd_block *b, uint64_t callee_hash, uint32_t blocks)
{
    b->instances = grown(doc, b->instances, b->instance_count, sizeof *b->instances);
    spd_instance *instance = &b->instances[b->instance_count++];
    *instance = (spd_instance){.callee_hash = callee_hash, .block_count = blocks};
    instance->blocks = spd_build_room(doc, blocks, sizeof *instance->blocks);
    return instance;
}

/* ------------------------------------------------------------------ functions */

/* Entry and exit without code, around one block of code. */
static void add_straight(spd *doc, spd_function *f, uint64_t count, uint32_t instructions,
                         uint32_t length)
{
    spd_block *b = spd_add_blocks(doc, f, 3);
    for (int i = 0; i < 3; i++)
        b[i].count = count;
    spd_add_edge(doc, &b[0], 2, count, 0);
    b[1].instruction_count = instructions;
    spd_add_range(doc, &b[1], 0, length);
    spd_add_edge(doc, &b[1], 3, count, 0);
}

static void set_static(spd_function *f, const char *object)
{
    f->symbol_flags |= SPD_SYMBOL_STATIC;
    f->hash = f->blob_hash = spd_name_hash(hash_of(object), f->name);
}

/* main: 100 runs of a loop of 9 rounds, each with the inlined helper; then a call through an import
 * and one through a pointer. */
static void add_loop(spd *doc, spd_module *m, uint64_t helper_hash)
{
    spd_function *f = spd_add_function(doc, m, "main", 2);
    spd_block *b = spd_add_blocks(doc, f, 5);
    f->rva = 0x1000;
    f->length = 0x40;
    b[0].count = 100;
    spd_add_edge(doc, &b[0], 2, 100, 0);
    b[1].count = 1000;
    b[1].instruction_count = 4;
    b[1].flags = SPD_BLOCK_TRIPS;
    b[1].number = 9;
    spd_add_range(doc, &b[1], 0, 0x10);
    spd_add_edge(doc, &b[1], 3, 900, 0);
    spd_add_edge(doc, &b[1], 4, 100, 0);
    b[2].count = 900;
    b[2].instruction_count = 8;
    spd_add_range(doc, &b[2], 0x10, 0x20);
    spd_add_edge(doc, &b[2], 2, 900, SPD_EDGE_BACK);
    spd_instance *inlined = add_instance(doc, &b[2], helper_hash, 1);
    inlined->blocks[0].id = 2;
    inlined->blocks[0].instruction_count = 3;
    inlined->blocks[0].range_count = 1;
    inlined->blocks[0].ranges = spd_build_room(doc, 1, sizeof(spd_range));
    inlined->blocks[0].ranges[0] = (spd_range){.offset = 0x18, .length_word = 2 * 8};
    b[3].count = 100;
    b[3].instruction_count = 5;
    spd_add_range(doc, &b[3], 0x30, 0x10);
    spd_add_edge(doc, &b[3], 5, 100, 0);
    b[3].indirect_count = 1;
    b[3].indirects = spd_build_room(doc, 1, sizeof *b[3].indirects);
    b[3].indirects[0] =
        (spd_indirect){.site = {.place_word = 6u << 28 | 0x34, .ordinal_word = 1u << 16},
                       .total = 100,
                       .targets = {{hash_of("callback"), 90}, {hash_of("cold"), 10}, {0, 0}}};
    b[4].count = 100;
    spd_add_call(doc, f, "helper", SPD_CALL_DIRECT, 3);
    f->calls[0].callee_hash = helper_hash;
    spd_add_call(doc, f, "__imp_puts", SPD_CALL_IMPORT, 4);
    f->emitted = spd_build_room(doc, 1, sizeof *f->emitted);
    f->emitted_count = 1;
    f->emitted[0] =
        (spd_emitted){.callee_hash = hash_of("__imp_puts"), .count = 40, .flags = SPD_EMITTED_CALL};
}

static void fill_small(spd *doc)
{
    spd_module *m = spd_add_module(doc, "* CIL module *");
    add_loop(doc, m, spd_name_hash(hash_of("sample.obj"), text_str("helper")));
    spd_function *f = spd_add_function(doc, m, "helper", 4);
    set_static(f, "sample.obj");
    add_straight(doc, f, 900, 3, 8);
    f = spd_add_function(doc, m, "callback", 6);
    f->symbol_flags |= SPD_SYMBOL_ADDRESS_TAKEN;
    f->rva = 0x1040;
    f->length = 0x10;
    add_straight(doc, f, 90, 4, 0x10);
    f = spd_add_function(doc, m, "callback2", 8);
    f->symbol_flags |= SPD_SYMBOL_FOLDED;
    f->folded_rva = 0x1040;
    add_straight(doc, f, 0, 4, 0x10);
    f = spd_add_function(doc, m, "cold", 10);
    f->flags = SPD_FUNCTION_NEW;
    f->rva = 0x1050;
    f->length = 8;
    add_straight(doc, f, 0, 2, 8);
}

/* ------------------------------------------------------------------ documents */

static void fill_next(spd *doc)
{
    fill_small(doc);
    spd_module *m = &doc->modules[0];
    m->generation = 1;
    doc->id.age = 2;
    spd_function *f = &m->functions[2];
    for (int i = 0; i < 3; i++)
        f->blocks[i].count = 200;
    f->blocks[0].edges[0].count = f->blocks[1].edges[0].count = 200;
    f->checksum++;
    f = &m->functions[0];
    f->blocks[1].count = 1200;
    f->blocks[2].count = f->blocks[1].edges[0].count = f->blocks[2].edges[0].count = 1100;
    m->function_count--; /* cold */
    f = spd_add_function(doc, m, "added", 12);
    f->rva = 0x1050;
    f->length = 8;
    f->flags = SPD_FUNCTION_NEW | SPD_FUNCTION_TAIL_INDIRECT;
    add_straight(doc, f, 7, 2, 8);
}

static void halve(spd *doc)
{
    spd_module *m = &doc->modules[0];
    for (size_t i = 0; i < m->function_count; i++) {
        for (uint32_t k = 0; k < m->functions[i].block_count; k++) {
            spd_block *b = &m->functions[i].blocks[k];
            b->count /= 2;
            for (uint32_t e = 0; e < b->edge_count; e++)
                b->edges[e].count /= 2;
        }
    }
}

static void fill_modules(spd *doc)
{
    fill_small(doc);
    spd_module *m = spd_add_module(doc, "Zweites \xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xb2.obj");
    spd_function *f = spd_add_function(doc, m, "?f@?$box@H@@QEAAXXZ", 3);
    f->rva = 0x2000;
    f->length = 0x20;
    add_straight(doc, f, 5, 6, 0x20);
    f = spd_add_function(doc, m, "f\xc3\xbcr zwei", 5);
    f->rva = 0x2020;
    f->length = 0x10;
    add_straight(doc, f, 1, 3, 0x10);
}

static spgo_span stuff(const char *text)
{
    return (spgo_span){(const uint8_t *)text, strlen(text)};
}

static void fill_strange(spd *doc)
{
    fill_modules(doc);
    spd_module *m = &doc->modules[0];
    spd_function *f = &m->functions[0];
    doc->format = 0x100D;
    doc->word_08 = 1;
    doc->word_70 = 2;
    doc->flags = 0x17;
    doc->gap_header = stuff("header");
    doc->gap_list = stuff("list");
    doc->gap_names = stuff("names");
    doc->tail = stuff("tail");
    m->list_word_08 = 0x200;
    m->flags = 0xF;
    m->word_18 = 0x30;
    m->word_20 = 3;
    m->gap_header = stuff("module");
    m->gap_table = stuff("table");
    m->gap_data = stuff("a profile of data");
    m->gap_strings = stuff("strings");
    f->symbol_flags |= 0x80;
    f->flags |= 0x10;
    f->word_28 = 0x9000; /* the cold part of a split function? */
    f->word_2c = 0x20;
    f->blocks[1].flags |= 0x40;
    f->blocks[1].ranges[0].length_word |= 1;
    f->blocks[1].edges[0].flags |= 2;
    f->calls[1].kind = 2;
    f->emitted[0].flags |= 1;
    f->blocks[2].instances[0].word_08 = 4;
}

static const struct {
    const char *name;
    void (*fill)(spd *doc);
} documents[] = {{"small", fill_small}, {"next", fill_next},       {"halved", fill_small},
                 {"fresh", fill_small}, {"modules", fill_modules}, {"strange", fill_strange},
                 {"random", NULL}};
enum { DOCUMENT_COUNT = sizeof documents / sizeof documents[0] };

const char *spd_build_name(size_t i)
{
    return i < DOCUMENT_COUNT ? documents[i].name : NULL;
}

static void settle(spd *doc)
{
    spgo_error err;
    if (spd_recompute(doc, &err) != SPGO_OK || spd_index(doc, &err) != SPGO_OK) {
        fprintf(stderr, "spd_build: %s\n", err.sentence);
        exit(1);
    }
}

static spd *new_document(void)
{
    static const char id[] = "{47D6423E-9510-45DC-892B-2C46B4DD7A9C}";
    spd *doc = spd_new(0);
    if (!doc)
        return NULL;
    doc->flags = HEADER_FILLED;
    guid_from_text(id, strlen(id), &doc->id.guid);
    doc->id.age = 1;
    doc->image_name = copied(doc, "sample.exe");
    doc->image_hash = spd_image_hash(doc->image_name);
    return doc;
}

spd *spd_build(const char *name, uint64_t seed)
{
    size_t i = 0;
    while (i < DOCUMENT_COUNT && strcmp(documents[i].name, name) != 0)
        i++;
    spd *doc = i < DOCUMENT_COUNT ? new_document() : NULL;
    if (!doc)
        return NULL;
    if (documents[i].fill)
        documents[i].fill(doc);
    else
        spd_fill_random(doc, seed);
    if (strcmp(name, "halved") == 0)
        halve(doc);
    settle(doc);
    if (strcmp(name, "fresh") == 0) {
        spd_reset_counts(doc);
        doc->flags = HEADER_FRESH;
        doc->modules[0].flags = MODULE_FRESH;
    }
    return doc;
}

bytes spd_built_bytes(const spd *doc)
{
    bytes out = {0};
    spgo_error err;
    if (spd_write(doc, bytes_sink(&out), &err) != SPGO_OK) {
        fprintf(stderr, "spd_build: %s\n", err.sentence);
        exit(1);
    }
    return out;
}
