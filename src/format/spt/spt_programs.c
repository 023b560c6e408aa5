/* The programs of a file that is being made, each identity once, and their names, each once. */
#include <format/spt/spt_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/hash.h>
#include <base/intern.h>

_Static_assert(SPT_PROGRAM_SLOTS >= 2 * SPGO_SPT_PROGRAMS_MAX, "the tables must stay half empty");

static const char where[] = "spt.programs";

spgo_str spt_program_set_name(const spt_program_set *set, size_t index)
{
    const spt_program_entry *e = &set->entries[index];
    return (spgo_str){(const char *)set->strings.ptr + e->string_index, e->name_len};
}

static size_t next_slot(size_t slot)
{
    return (slot + 1) & (SPT_PROGRAM_SLOTS - 1);
}

static size_t hash_name(const spt_program_set *set, spgo_str name)
{
    return (size_t)text_hash(hash_seed(set->name_slots), name.ptr, name.len) &
           (SPT_PROGRAM_SLOTS - 1);
}

static size_t hash_program(const spt_program_set *set, const spgo_image_id *id, spgo_str name)
{
    uint64_t h = text_hash(hash_seed(set->program_slots), id->guid.bytes, sizeof id->guid.bytes);
    uint8_t age[4];
    store_u32(age, id->age);
    h = text_hash(h, age, sizeof age);
    return (size_t)text_hash(h, name.ptr, name.len) & (SPT_PROGRAM_SLOTS - 1);
}

/* The slot of the program, or the free one where it belongs. */
static uint32_t *find_program(const spt_program_set *set, const spgo_image_id *id, spgo_str name)
{
    size_t slot = hash_program(set, id, name);
    for (; set->program_slots[slot] != 0; slot = next_slot(slot)) {
        size_t index = set->program_slots[slot] - 1;
        spgo_str other = spt_program_set_name(set, index);
        if (image_id_equal(&set->entries[index].id, id) && other.len == name.len &&
            (name.len == 0 || memcmp(other.ptr, name.ptr, name.len) == 0))
            break;
    }
    return &set->program_slots[slot];
}

static uint32_t *find_name(const spt_program_set *set, spgo_str name)
{
    size_t slot = hash_name(set, name);
    for (; set->name_slots[slot] != 0; slot = next_slot(slot)) {
        const uint8_t *other = set->strings.ptr + (set->name_slots[slot] - 1);
        size_t left = set->strings.len - (set->name_slots[slot] - 1);
        if (left > name.len && other[name.len] == 0 &&
            (name.len == 0 || memcmp(other, name.ptr, name.len) == 0))
            break;
    }
    return &set->name_slots[slot];
}

static bool reserve(spt_program_set *set)
{
    if (!set->program_slots)
        set->program_slots = calloc(SPT_PROGRAM_SLOTS, sizeof set->program_slots[0]);
    if (!set->name_slots)
        set->name_slots = calloc(SPT_PROGRAM_SLOTS, sizeof set->name_slots[0]);
    if (set->count == set->cap) {
        size_t cap = set->cap ? 2 * set->cap : 16;
        spt_program_entry *entries = realloc(set->entries, cap * sizeof entries[0]);
        if (!entries)
            return false;
        set->entries = entries;
        set->cap = cap;
    }
    return set->program_slots && set->name_slots;
}

/* Finds or adds the name. */
static spgo_code add_name(spt_program_set *set, spgo_str name, uint32_t *index, spgo_error *err)
{
    uint32_t *slot = find_name(set, name);
    if (*slot == 0) {
        size_t at = set->strings.len;
        if (name.len >= SPGO_SPT_STRINGS_MAX - at)
            return spgo_fail(
                err, SPGO_LIMIT, where, SPGO_NO_OFFSET,
                "the name %.*s%s does not fit: an SPT file holds 65535 bytes of program "
                "names and %zu are used; write fewer programs into one file",
                name.len < 80 ? (int)name.len : 80, name.len ? name.ptr : "",
                name.len > 80 ? "..." : "", at);
        if (!bytes_reserve(&set->strings, name.len + 1))
            return spgo_fail_nomem(err, where, name.len + 1);
        if (name.len > 0)
            bytes_put(&set->strings, name.ptr, name.len);
        bytes_u8(&set->strings, 0);
        *slot = (uint32_t)at + 1;
    }
    *index = *slot - 1;
    return SPGO_OK;
}

spgo_code spt_program_set_add(spt_program_set *set, const spgo_image_id *id, spgo_str name,
                              uint16_t *index, spgo_error *err)
{
    if (name.len > 0 && memchr(name.ptr, 0, name.len))
        return spgo_fail(err, SPGO_USAGE, where, SPGO_NO_OFFSET,
                         "a program name must not contain NUL");
    if (!reserve(set))
        return spgo_fail_nomem(err, where, SPT_PROGRAM_SLOTS * sizeof set->name_slots[0]);
    uint32_t *slot = find_program(set, id, name);
    if (*slot == 0) {
        if (set->count == SPGO_SPT_PROGRAMS_MAX)
            return spgo_fail(err, SPGO_LIMIT, where, SPGO_NO_OFFSET,
                             "an SPT file holds at most 65535 programs; write fewer into one file");
        spt_program_entry entry = {.id = *id, .name_len = (uint32_t)name.len};
        SPGO_TRY(add_name(set, name, &entry.string_index, err));
        set->entries[set->count++] = entry;
        *slot = (uint32_t)set->count;
    }
    *index = (uint16_t)(*slot - 1);
    return SPGO_OK;
}

void spt_program_set_free(spt_program_set *set)
{
    free(set->entries);
    free(set->program_slots);
    free(set->name_slots);
    bytes_free(&set->strings);
    *set = (spt_program_set){0};
}
