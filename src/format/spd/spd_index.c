/* Finding functions by hash, id and RVA; and finding an SPD inside another file. */
#include "spd_internal.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ index */

typedef struct indexed {
    uint64_t key;
    uint32_t index;
} indexed;

static int by_key(const void *a, const void *b)
{
    const indexed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void store_sorted(indexed *keys, size_t n, uint32_t *indices)
{
    if (n)
        qsort(keys, n, sizeof *keys, by_key);
    for (size_t i = 0; i < n; i++)
        indices[i] = keys[i].index;
}

static spgo_code index_module(spd *doc, spd_module *m, indexed *keys, spgo_error *err)
{
    m->by_hash = arena_push(doc->memory, m->function_count, sizeof *m->by_hash);
    m->by_rva = arena_push(doc->memory, m->function_count, sizeof *m->by_rva);
    if (!m->by_hash || !m->by_rva)
        return spd_no_room(err);
    for (size_t i = 0; i < m->function_count; i++)
        keys[i] = (indexed){.key = m->functions[i].hash, .index = (uint32_t)i};
    store_sorted(keys, m->function_count, m->by_hash);
    m->by_rva_count = 0;
    for (size_t i = 0; i < m->function_count; i++) {
        if (m->functions[i].length)
            keys[m->by_rva_count++] = (indexed){.key = m->functions[i].rva, .index = (uint32_t)i};
    }
    store_sorted(keys, m->by_rva_count, m->by_rva);
    return SPGO_OK;
}

spgo_code spd_index(spd *doc, spgo_error *err)
{
    size_t most = 0;
    for (size_t i = 0; i < doc->module_count; i++) {
        if (doc->modules[i].function_count > most)
            most = doc->modules[i].function_count;
    }
    indexed *keys = calloc(most + 1, sizeof *keys);
    if (!keys)
        return spgo_fail_nomem(err, "spd.index", most * sizeof *keys);
    spgo_code code = SPGO_OK;
    for (size_t i = 0; code == SPGO_OK && i < doc->module_count; i++)
        code = index_module(doc, &doc->modules[i], keys, err);
    free(keys);
    return code;
}

spd_function *spd_by_hash(const spd_module *m, uint64_t hash)
{
    size_t low = 0, high = m->function_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->functions[m->by_hash[middle]].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == m->function_count)
        return NULL;
    spd_function *f = &m->functions[m->by_hash[low]];
    return f->hash == hash ? f : NULL;
}

spd_function *spd_by_id(const spd_module *m, uint32_t id)
{
    for (size_t i = 0; i < m->function_count; i++) {
        if (m->functions[i].has_symbol && m->functions[i].id == id)
            return &m->functions[i];
    }
    return NULL;
}

spd_function *spd_by_rva(const spd_module *m, uint32_t rva)
{
    size_t low = 0, high = m->by_rva_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->functions[m->by_rva[middle]].rva <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    spd_function *f = &m->functions[m->by_rva[low - 1]];
    return rva - f->rva < f->length ? f : NULL;
}

const spd_function *spd_callee(const spd *doc, uint64_t hash)
{
    for (size_t i = 0; i < doc->module_count; i++) {
        const spd_function *f = spd_by_hash(&doc->modules[i], hash);
        if (f)
            return f;
    }
    return NULL;
}

/* ------------------------------------------------------------------ inside another file */

/* Stricter than spd_open: four bytes and a few small numbers come about by chance. */
static bool is_header(const uint8_t *p, size_t left)
{
    uint64_t module_count = load_u32(p + 0x2c);
    uint64_t names_off = load_u32(p + 0x30), names_bytes = load_u32(p + 0x34);
    uint64_t body_off = load_u32(p + 0x38);
    return load_u32(p + 0x28) == SPD_HEADER_SIZE && module_count > 0 &&
           names_off >= SPD_HEADER_SIZE + module_count * SPD_LIST_ENTRY_SIZE && names_bytes >= 4 &&
           names_off + names_bytes <= body_off && body_off <= left;
}

static uint64_t measure(const uint8_t *p, size_t left)
{
    uint64_t module_count = load_u32(p + 0x2c);
    uint64_t end = load_u32(p + 0x38);
    for (uint64_t i = 0; i < module_count && left - end >= SPD_MODULE_HEADER_SIZE; i++) {
        uint32_t size = load_u32(p + end);
        if (size < SPD_MODULE_HEADER_SIZE || size > left - end)
            return left;
        end += size;
    }
    return end;
}

bool spd_find(spgo_span data, uint64_t from, uint64_t *at, uint64_t *size)
{
    while (from < data.len && data.len - from >= SPD_HEADER_SIZE) {
        const uint8_t *start = data.ptr + from;
        const uint8_t *p = memchr(start, 'H', data.len - (size_t)from - SPD_HEADER_SIZE + 1);
        if (!p)
            return false;
        size_t left = data.len - (size_t)(p - data.ptr);
        if (load_u32(p) == SPD_SIGNATURE && is_header(p, left)) {
            *at = (uint64_t)(p - data.ptr);
            *size = measure(p, left);
            return true;
        }
        from = (uint64_t)(p - data.ptr) + 1;
    }
    return false;
}
