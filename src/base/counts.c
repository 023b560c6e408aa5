/*
 * Counts per key, the inner loop of aggregation. What it is built around:
 *
 * - A table that fits the caches is bound by branch misses, so it is kept at most a quarter full;
 *   a larger one is bound by memory, so it is kept at most half full.
 * - In a large table the slots of a whole block of keys are prefetched before the first is added,
 *   so that their cache misses overlap.
 * - The table is grown ahead of a block for the most new keys that it can bring: no add has to
 *   look whether there is room.
 */
#include <base/counts.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS_MIN = 16,
    SLOTS_SMALL = 1 << 16,  /* up to here: a quarter full at most, and grown fourfold */
    SLOTS_CACHED = 1 << 15, /* up to here prefetching costs more than it hides */
    BLOCK = 256,            /* keys per round of prefetching */
    PROBE_MAX = 512         /* no run of taken slots comes near this by chance */
};

/* 2^64 divided by the golden ratio: spreads runs of near keys evenly. */
static const uint64_t multiplier_first = 0x9E3779B97F4A7C15u;

static unsigned index_shift(size_t slot_count)
{
    return (unsigned)__builtin_clzll((unsigned long long)slot_count) + 1;
}

void counts_free(counts *c)
{
    free(c->slots);
    *c = (counts){0};
}

/* Moves all slots of c into a new table. In index order of the old one, which is that of the new
 * one too: both are walked front to back. */
static bool rehash(counts *c, size_t slot_count, uint64_t multiplier)
{
    counts_slot *slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        return false;
    size_t mask = slot_count - 1;
    unsigned shift = index_shift(slot_count);
    for (size_t i = 0; i < c->slot_count; i++) {
        counts_slot moved = c->slots[i];
        if (moved.count == 0)
            continue;
        size_t at = counts_index(moved.key, multiplier, shift);
        while (slots[at].count != 0)
            at = (at + 1) & mask;
        slots[at] = moved;
    }
    free(c->slots);
    c->slots = slots;
    c->slot_count = slot_count;
    c->multiplier = multiplier;
    return true;
}

static size_t slots_wanted(size_t slot_count, size_t key_count)
{
    if (slot_count < SLOTS_MIN)
        slot_count = SLOTS_MIN;
    while (slot_count <= SLOTS_SMALL && key_count > slot_count / 4)
        slot_count *= 4;
    while (key_count > slot_count / 2)
        slot_count *= 2;
    return slot_count;
}

/* Makes room for n more keys. */
static bool reserve(counts *c, size_t n)
{
    size_t wanted = slots_wanted(c->slot_count, c->used + n);
    if (wanted == c->slot_count)
        return true;
    if (c->slot_count == 0)
        c->probe_max = PROBE_MAX;
    return rehash(c, wanted, c->slot_count ? c->multiplier : multiplier_first);
}

/* An input whose keys collide by design gets a multiplier that it cannot know, since it depends on
 * where the table lies. The order of slots is never visible in results. Failing to do so costs only
 * time. */
static void change_multiplier(counts *c)
{
    uint64_t place = (uint64_t)(uintptr_t)c->slots >> 4;
    uint64_t next = ((c->multiplier ^ place) * 0xD6E8FEB86659FD93u) ^ place << 40;
    c->probe_max *= 2;
    (void)rehash(c, c->slot_count, next | 1);
}

static inline void add_to(counts *c, counts_slot *slot, uint64_t weight)
{
    uint64_t sum = slot->count + weight;
    if (__builtin_expect(sum < weight, 0)) {
        sum = UINT64_MAX;
        c->saturated = true;
    }
    slot->count = sum;
}

/* The rest of an add whose first slot holds another key. False if the run was suspiciously long
 * (the add is done all the same). */
static bool add_behind(counts *c, size_t at, uint64_t key, uint64_t weight)
{
    size_t mask = c->slot_count - 1;
    size_t steps = 0;
    for (;; steps++) {
        at = (at + 1) & mask;
        counts_slot *slot = &c->slots[at];
        if (slot->count == 0) {
            *slot = (counts_slot){key, weight};
            c->used++;
            break;
        }
        if (slot->key == key) {
            add_to(c, slot, weight);
            break;
        }
    }
    return steps < c->probe_max;
}

static void add_block(counts *c, const uint64_t *keys, size_t n, uint64_t weight)
{
    unsigned shift = index_shift(c->slot_count);
    uint64_t multiplier = c->multiplier;
    counts_slot *slots = c->slots;
    bool short_runs = true;

    if (c->slot_count > SLOTS_CACHED) {
        for (size_t i = 0; i < n; i++)
            __builtin_prefetch(&slots[counts_index(keys[i], multiplier, shift)], 1);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t key = keys[i];
        size_t at = counts_index(key, multiplier, shift);
        counts_slot *slot = &slots[at];
        if (__builtin_expect(slot->key == key && slot->count != 0, 1)) {
            add_to(c, slot, weight);
        } else if (slot->count == 0) {
            *slot = (counts_slot){key, weight};
            c->used++;
        } else {
            short_runs &= add_behind(c, at, key, weight);
        }
    }
    if (__builtin_expect(!short_runs, 0))
        change_multiplier(c);
}

void counts_add(counts *c, const uint64_t *keys, size_t n, uint64_t weight)
{
    assert(weight > 0);
    while (n > 0 && !c->failed) {
        size_t block = n < BLOCK ? n : BLOCK;
        if (!reserve(c, block)) {
            c->failed = true;
            return;
        }
        add_block(c, keys, block, weight);
        keys += block;
        n -= block;
    }
}

uint64_t counts_get(const counts *c, uint64_t key)
{
    if (c->slot_count == 0)
        return 0;
    size_t mask = c->slot_count - 1;
    size_t at = counts_index(key, c->multiplier, index_shift(c->slot_count));
    while (c->slots[at].count != 0 && c->slots[at].key != key)
        at = (at + 1) & mask;
    return c->slots[at].count;
}

/* Room for all keys at once: slots arrive in the order of the other table's index, and a table
 * that grew under them would fill in long runs. */
void counts_merge(counts *into, const counts *from)
{
    into->saturated |= from->saturated;
    into->failed |= from->failed;
    if (from->used == 0 || into->failed)
        return;
    if (!reserve(into, from->used)) {
        into->failed = true;
        return;
    }
    for (size_t i = 0; i < from->slot_count; i++) {
        if (from->slots[i].count != 0)
            counts_add(into, &from->slots[i].key, 1, from->slots[i].count);
    }
}

/* ------------------------------------------------------------------ sorting */

enum { DIGITS = 8, DIGIT_VALUES = 256 };

typedef size_t histogram[DIGITS][DIGIT_VALUES];

/* What slots are ordered by: the key, or the count from large to small. */
static inline uint64_t sort_value(const counts_slot *s, bool by_count)
{
    return by_count ? ~s->count : s->key;
}

static void count_digits(histogram h, const counts_slot *slots, size_t n, bool by_count)
{
    memset(h, 0, sizeof(histogram));
    for (size_t i = 0; i < n; i++) {
        uint64_t v = sort_value(&slots[i], by_count);
        for (unsigned d = 0; d < DIGITS; d++)
            h[d][v >> 8 * d & 0xFF]++;
    }
}

/* Stable radix sort from the lowest digit up; digits that are equal everywhere are skipped.
 * Returns which of the two arrays holds the result. */
static counts_slot *radix_sort(counts_slot *slots, counts_slot *other, size_t n, bool by_count)
{
    histogram h;
    count_digits(h, slots, n, by_count);
    for (unsigned d = 0; d < DIGITS; d++) {
        if (h[d][sort_value(&slots[0], by_count) >> 8 * d & 0xFF] == n)
            continue;
        size_t start = 0;
        for (size_t v = 0; v < DIGIT_VALUES; v++) {
            size_t count = h[d][v];
            h[d][v] = start;
            start += count;
        }
        for (size_t i = 0; i < n; i++)
            other[h[d][sort_value(&slots[i], by_count) >> 8 * d & 0xFF]++] = slots[i];
        counts_slot *sorted = other;
        other = slots;
        slots = sorted;
    }
    return slots;
}

static counts_slot *sorted(const counts *c, size_t *n, bool by_count)
{
    *n = c->used;
    if (c->used == 0)
        return NULL;
    counts_slot *slots = malloc(c->used * sizeof *slots);
    counts_slot *other = malloc(c->used * sizeof *other);
    if (!slots || !other) {
        free(slots);
        free(other);
        return NULL;
    }
    size_t at = 0;
    for (size_t i = 0; i < c->slot_count; i++) {
        if (c->slots[i].count != 0)
            slots[at++] = c->slots[i];
    }
    counts_slot *result = radix_sort(slots, other, at, false);
    if (by_count)
        result = radix_sort(result, result == slots ? other : slots, at, true);
    free(result == slots ? other : slots);
    return result;
}

counts_slot *counts_sorted_by_key(const counts *c, size_t *n)
{
    return sorted(c, n, false);
}

counts_slot *counts_sorted_by_count(const counts *c, size_t *n)
{
    return sorted(c, n, true);
}
