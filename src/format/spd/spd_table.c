/*
 * The parts of a file that are made of names: the function table, the strings of a module, the
 * names of the image and its modules. Reading makes them again to see whether they stand as usual.
 */
#include "spd_internal.h"

#include <string.h>

uint32_t spd_bucket_count(size_t function_count)
{
    static const uint32_t primes[] = {1,       2,       3,       7,       13,     31,     61,
                                      127,     251,     509,     1021,    2039,   4093,   8191,
                                      16381,   32749,   65521,   131071,  262139, 524287, 1048573,
                                      2097143, 4194301, 8388593, 16777213};
    enum { COUNT = sizeof primes / sizeof primes[0] };
    size_t i = 0;
    while (i + 1 < COUNT && primes[i] < function_count)
        i++;
    return primes[i];
}

/* ------------------------------------------------------------------ function table */

void spd_store_slot(uint8_t slot[SPD_SLOT_SIZE], const spd_function *f, uint32_t name_off,
                    uint32_t blob_off)
{
    store_u64(slot, f->hash);
    store_u32(slot + 0x08, name_off);
    store_u32(slot + 0x0c, f->symbol_flags);
    store_u32(slot + 0x10, f->id);
    store_u32(slot + 0x14, f->symbol_word_14);
    store_u32(slot + 0x18, f->folded_rva);
    store_u32(slot + 0x1c, blob_off);
}

/* A table that is being filled: where the last slot of each bucket is, 0 for an empty one (slots
 * count from 1 here). */
typedef struct table {
    uint8_t *slots;
    uint32_t *last;
    uint32_t used; /* buckets and the slots behind them */
} table;

static uint8_t *add_slot(table *t, uint32_t bucket)
{
    uint32_t before = t->last[bucket];
    uint32_t index = before ? t->used++ : bucket;
    if (before)
        store_u32(t->slots + (size_t)(before - 1) * SPD_SLOT_SIZE + 0x20, index * SPD_SLOT_SIZE);
    t->last[bucket] = index + 1;
    return t->slots + (size_t)index * SPD_SLOT_SIZE;
}

/* Slots that do not find their bucket empty. */
static uint32_t count_overflow(const spd_module *m, uint32_t *last)
{
    uint32_t count = 0;
    for (size_t i = 0; i < m->function_count; i++) {
        const spd_function *f = &m->functions[i];
        if (f->has_symbol)
            count += last[f->hash % m->bucket_count]++ != 0;
    }
    memset(last, 0, m->bucket_count * sizeof *last);
    return count;
}

spgo_code spd_write_table(const spd_module *m, const spd_places *at, bytes *out, spgo_error *err)
{
    if (!m->bucket_count)
        return m->function_count ? spgo_fail(err, SPGO_USAGE, "spd.table", m->offset,
                                             "a module with functions has a table of no buckets; "
                                             "spd_bucket_count tells how many are usual")
                                 : SPGO_OK;
    bytes last = {0};
    bytes_fill(&last, 0, m->bucket_count * sizeof(uint32_t));
    if (last.failed)
        return spgo_fail_nomem(err, "spd.table", m->bucket_count * sizeof(uint32_t));
    table t = {.last = (uint32_t *)(void *)last.ptr, .used = m->bucket_count};
    size_t size = ((size_t)t.used + count_overflow(m, t.last)) * SPD_SLOT_SIZE;
    size_t start = out->len;
    bytes_fill(out, 0, size);
    if (!out->failed && size > UINT32_MAX)
        out->failed = true;
    t.slots = out->failed ? NULL : out->ptr + start;
    for (size_t i = 0; t.slots && i < m->function_count; i++) {
        const spd_function *f = &m->functions[i];
        if (f->has_symbol)
            spd_store_slot(add_slot(&t, (uint32_t)(f->hash % m->bucket_count)), f, at->name_offs[i],
                           at->blob_offs[i]);
    }
    bytes_free(&last);
    return t.slots ? SPGO_OK : spgo_fail_nomem(err, "spd.table", size);
}

/* ------------------------------------------------------------------ strings */

spgo_code spd_write_strings(const spd_module *m, uint32_t *name_offs, bytes *out, spgo_error *err)
{
    size_t start = out->len;
    bytes_u8(out, 0);
    for (size_t i = 0; i < m->function_count; i++) {
        const spd_function *f = &m->functions[i];
        if (!f->has_symbol)
            continue;
        if (f->name.len && memchr(f->name.ptr, 0, f->name.len))
            return spgo_fail(err, SPGO_USAGE, "spd.strings", SPGO_NO_OFFSET,
                             "the name of function %u holds a NUL", f->id);
        name_offs[i] = (uint32_t)(out->len - start);
        bytes_put(out, f->name.ptr, f->name.len);
        bytes_u8(out, 0);
    }
    return out->failed ? spgo_fail_nomem(err, "spd.strings", out->len) : SPGO_OK;
}

static void put_utf16z(bytes *out, spgo_str name)
{
    /* Names of documents end with a NUL, since arena_copy_text and text_from_utf16 add one. */
    bytes_utf16z(out, name.ptr ? name.ptr : "");
}

void spd_write_names(const spd *doc, uint32_t *name_offs, bytes *out)
{
    size_t start = out->len;
    put_utf16z(out, doc->image_name);
    for (size_t i = 0; i < doc->module_count; i++) {
        name_offs[i] = (uint32_t)(out->len - start);
        put_utf16z(out, doc->modules[i].name);
    }
}
