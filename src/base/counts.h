/*
 * Counts per 64-bit key: open addressing, 16 bytes a slot, made for adding a record's worth of
 * keys at once with the cache misses overlapped. Sums saturate and say so.
 *
 * A slot's index is the top bits of key * multiplier, so that growing reads and writes both tables
 * front to back. Keys that an input chose to collide are met with another multiplier.
 */
#ifndef BASE_COUNTS_H
#define BASE_COUNTS_H

#include <spgo/types.h>

typedef struct counts_slot {
    uint64_t key;
    uint64_t count; /* 0: free */
} counts_slot;

typedef struct counts {
    counts_slot *slots;
    size_t slot_count; /* a power of two, or 0 before the first add */
    size_t used;
    uint64_t multiplier; /* odd; see counts_index */
    size_t probe_max;    /* a longer run of taken slots changes the multiplier */
    bool saturated;      /* some sum went past 2^64-1 */
    bool failed;         /* no memory to grow: adds since then are lost */
} counts;

void counts_free(counts *c); /* leaves an empty, usable value */

/* Adds weight (> 0) to each of the n keys; equal keys within one call add up. */
void counts_add(counts *c, const uint64_t *keys, size_t n, uint64_t weight);

uint64_t counts_get(const counts *c, uint64_t key); /* 0 if absent */

/* Adds all of `from`. */
void counts_merge(counts *into, const counts *from);

/* The used slots as a new malloc'd array, sorted by key or by falling count (then key); NULL with
 * *n == 0 when empty, NULL with *n > 0 when there is no memory. */
counts_slot *counts_sorted_by_key(const counts *c, size_t *n);
counts_slot *counts_sorted_by_count(const counts *c, size_t *n);

/* The index of a key's first slot, in a table of 2^(64 - shift) slots. */
static inline size_t counts_index(uint64_t key, uint64_t multiplier, unsigned shift)
{
    return (size_t)(key * multiplier >> shift);
}

#endif
