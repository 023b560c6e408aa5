/*
 * Counting is nearly all of what a summary costs. Profiles repeat themselves, so once a cell has
 * some records, a small direct-mapped table, which stays in the nearest caches and has no probing,
 * stands in front of the big one. There are two, for two questions:
 *
 * - How many hits? (spt_front) It sums the hits of its keys, and what is pushed out goes to the big
 *   table with all its hits at once.
 * - Which arcs are there at all? (spt_seen) It remembers arcs that the big table has already.
 *
 * Where it does not help, because the keys do not repeat, it is given up for good, and whole
 * records go to the big table, which overlaps their cache misses.
 */
#include "spt_cell.h"

#include <stdlib.h>

#include <base/fail.h>
#include <base/reader.h>
#include <base/saturate.h>

enum {
    FRONT_BITS = 13,
    FRONT_SLOTS = 1 << FRONT_BITS,
    FRONT_HITS_MAX = 1 << 20, /* of one entry; no file is so long that sums of these overflow */
    SEEN_BITS = 16,
    SEEN_SLOTS = 1 << SEEN_BITS,

    /* Of both */
    AFTER_RECORDS = 1024,   /* a cell this large pays for one */
    TRIAL_MISSES = 1 << 16, /* so many keys that were not there are judged together */
    USEFUL_RATIO = 4        /* it helps if at most one key in so many was not there */
};

#define KEY_MULTIPLIER 0x9E3779B97F4A7C15u /* 2^64 by the golden ratio: spreads near keys */

struct spt_front {
    counts_slot slots[FRONT_SLOTS]; /* count 0: free */
    uint64_t misses;                /* keys that were not there, since the last trial */
    uint64_t entries_at_trial;      /* entry_count of the cell then */
};

/* Nothing is written for an arc that is known, so that the processor can look at many at once. A
 * free slot holds a key that belongs elsewhere and so is never looked for there: 0, which belongs
 * to slot 0, and 1 in that one. */
struct spt_seen {
    uint64_t keys[SEEN_SLOTS];
    uint64_t misses; /* as in spt_front */
    uint64_t entries_at_trial;
};

/* How far the code reaches from the target of one arc to the source of the other; huge if it runs
 * backwards. */
static inline uint64_t range_length(uint64_t begin_arc, uint64_t end_arc)
{
    return (uint64_t)spt_arc_first(end_arc) - spt_arc_second(begin_arc);
}

static inline bool is_range(uint64_t begin_arc, uint64_t end_arc)
{
    return range_length(begin_arc, end_arc) < SPGO_SPT_RANGE_MAX;
}

static void add_times(uint64_t *sum, uint64_t count, uint64_t hits)
{
    *sum = saturating_add(*sum, saturating_multiply(count, hits));
}

/* ------------------------------------------------------------------ entries */

/* An LBR entry is stored target first, which in 64 bits is the key. */
static size_t load_arcs(const spgo_spt_record *r, uint64_t *keys)
{
    size_t n = r->entry_count;
    for (size_t i = 0; i < n; i++)
        keys[i] = load_u64(r->entries + 8 * i);
    return n;
}

static size_t load_rvas(const spgo_spt_record *r, uint64_t *keys)
{
    size_t n = r->entry_count;
    for (size_t i = 0; i < n; i++)
        keys[i] = load_u32(r->entries + 4 * i);
    return n;
}

static size_t load_stack_arcs(const spgo_spt_record *r, uint64_t *keys)
{
    size_t n = r->entry_count - 1u;
    for (size_t i = 0; i < n; i++)
        keys[i] = (uint64_t)load_u32(r->entries + 4 * i) << 32 | load_u32(r->entries + 4 * i + 4);
    return n;
}

/* Ranges and foreign ends of an LBR record, one by one. */
static void look_at_neighbours(spt_cell *cell, const spgo_spt_record *r, bool backward)
{
    uint64_t good = 0, backward_good = 0, foreign = 0, newer = 0;
    for (size_t i = 0; i < r->entry_count; i++) {
        uint64_t arc = load_u64(r->entries + 8 * i);
        foreign +=
            spt_arc_first(arc) == SPGO_SPT_OUTSIDE || spt_arc_second(arc) == SPGO_SPT_OUTSIDE;
        good += i > 0 && is_range(arc, newer);
        backward_good += i > 0 && is_range(newer, arc);
        newer = arc;
    }
    uint64_t ranges = r->entry_count - 1u;
    add_times(&cell->range_count, ranges, r->hits);
    add_times(&cell->range_good, good, r->hits);
    add_times(&cell->outside_hits, foreign, r->hits);
    add_times(&cell->backward_count, backward ? ranges : 0, r->hits);
    add_times(&cell->backward_good, backward ? backward_good : 0, r->hits);
}

/* ------------------------------------------------------------------ the front */

static counts *main_table(spt_cell *cell, bool arcs)
{
    return arcs ? &cell->arcs : &cell->rvas;
}

/* The slot's key gives way to another. */
static __attribute__((noinline)) void push_out(spt_cell *cell, counts *table, counts_slot *slot,
                                               uint64_t key, uint64_t hits)
{
    if (slot->count)
        counts_add(table, &slot->key, 1, slot->count);
    *slot = (counts_slot){key, hits};
    cell->front->misses++;
}

static inline void add_hits(spt_cell *cell, counts *table, uint64_t key, uint64_t hits)
{
    counts_slot *slot = &cell->front->slots[counts_index(key, KEY_MULTIPLIER, 64 - FRONT_BITS)];
    if (__builtin_expect(slot->key == key, 1)) /* a free slot has key 0 and no hits: fine too */
        slot->count += hits;
    else
        push_out(cell, table, slot, key, hits);
}

static void drop_front(spt_cell *cell, bool arcs)
{
    for (size_t i = 0; cell->front && i < FRONT_SLOTS; i++) {
        counts_slot *slot = &cell->front->slots[i];
        if (slot->count)
            counts_add(main_table(cell, arcs), &slot->key, 1, slot->count);
    }
    free(cell->front);
    cell->front = NULL;
}

/* Did too many keys miss, of those since the last trial? Looks, and starts anew, once there are
 * enough to tell. */
static bool is_useless(const spt_cell *cell, uint64_t *misses, uint64_t *entries_at_trial)
{
    if (*misses < TRIAL_MISSES)
        return false;
    bool useless = *misses > (cell->entry_count - *entries_at_trial) / USEFUL_RATIO;
    *misses = 0;
    *entries_at_trial = cell->entry_count;
    return useless;
}

static void judge_front(spt_cell *cell, bool arcs)
{
    cell->given_up = is_useless(cell, &cell->front->misses, &cell->front->entries_at_trial);
    if (cell->given_up)
        drop_front(cell, arcs);
}

static void count_front_arcs(spt_cell *cell, const spgo_spt_record *r)
{
    for (size_t i = 0; i < r->entry_count; i++)
        add_hits(cell, &cell->arcs, load_u64(r->entries + 8 * i), r->hits);
}

static void count_front_rvas(spt_cell *cell, const spgo_spt_record *r)
{
    for (size_t i = 0; i < r->entry_count; i++)
        add_hits(cell, &cell->rvas, load_u32(r->entries + 4 * i), r->hits);
}

/* True if the record was counted through the front. */
static bool count_through_front(spt_cell *cell, const spgo_spt_record *r, spgo_spt_kind kind)
{
    if (kind == SPGO_SPT_KIND_CALLSTACK || cell->given_up || r->hits > FRONT_HITS_MAX)
        return false;
    if (!cell->front) {
        if (cell->record_count < AFTER_RECORDS)
            return false;
        cell->front = calloc(1, sizeof *cell->front);
        cell->given_up = !cell->front;
        if (!cell->front)
            return false;
        cell->front->entries_at_trial = cell->entry_count;
    }
    if (kind == SPGO_SPT_KIND_IP)
        count_front_rvas(cell, r);
    else
        count_front_arcs(cell, r);
    judge_front(cell, kind == SPGO_SPT_KIND_ARC);
    return true;
}

/* ------------------------------------------------------------------ arcs without hits */

/* An arc that is not among those seen lately. */
static __attribute__((noinline)) void meet_arc(spt_cell *cell, uint64_t key, uint64_t *slot)
{
    counts_add(&cell->arcs, &key, 1, 1);
    *slot = key;
    cell->seen->misses++;
}

/* keys: those of cell->seen, which a loop need not look up again. */
static inline void see_arc(spt_cell *cell, uint64_t *keys, uint64_t key)
{
    uint64_t *slot = &keys[counts_index(key, KEY_MULTIPLIER, 64 - SEEN_BITS)];
    if (__builtin_expect(*slot != key, 0))
        meet_arc(cell, key, slot);
}

static void see_arcs(spt_cell *cell, const spgo_spt_record *r)
{
    uint64_t *keys = cell->seen->keys;
    for (size_t i = 0; i < r->entry_count; i++)
        see_arc(cell, keys, load_u64(r->entries + 8 * i));
}

/*
 * The entries of the record that nearly all are: every range makes sense, and foreign ends stand
 * only where they may, at the newest target and the oldest source; *foreign tells how many arcs
 * have one. False if it is another record; its arcs are seen all the same.
 */
static inline bool see_usual_entries(spt_cell *cell, const uint8_t *entries, size_t n,
                                     uint64_t *foreign)
{
    uint64_t *keys = cell->seen->keys;
    const uint64_t first = load_u64(entries);
    uint64_t newer = first, lengths = 0, targets = 0;
    see_arc(cell, keys, first);
    for (size_t i = 1; i < n; i++) {
        uint64_t older = load_u64(entries + 8 * i);
        see_arc(cell, keys, older);
        lengths |= range_length(older, newer);          /* huge after a source in another image */
        targets |= (uint64_t)spt_arc_second(older) - 1; /* huge for a target there */
        newer = older;
    }
    const bool to_outside = spt_arc_second(first) == SPGO_SPT_OUTSIDE;
    const bool from_outside = spt_arc_first(newer) == SPGO_SPT_OUTSIDE;
    *foreign = (uint64_t)to_outside + (from_outside && !(to_outside && n == 1));
    return lengths < SPGO_SPT_RANGE_MAX && targets <= UINT32_MAX;
}

static bool see_usual_record(spt_cell *cell, const spgo_spt_record *r)
{
    uint64_t foreign;
    if (!see_usual_entries(cell, r->entries, r->entry_count, &foreign))
        return false;
    add_times(&cell->range_count, r->entry_count - 1u, r->hits);
    add_times(&cell->range_good, r->entry_count - 1u, r->hits);
    add_times(&cell->outside_hits, foreign, r->hits);
    return true;
}

/* True if the record was dealt with here. */
static bool see_record(spt_cell *cell, const spgo_spt_record *r, bool backward)
{
    if (cell->given_up || r->entry_count == 0)
        return false;
    if (!cell->seen) {
        if (cell->record_count < AFTER_RECORDS)
            return false;
        cell->seen = calloc(1, sizeof *cell->seen);
        cell->given_up = !cell->seen;
        if (!cell->seen)
            return false;
        cell->seen->keys[0] = 1;
        cell->seen->entries_at_trial = cell->entry_count;
    }
    if (backward)
        see_arcs(cell, r);
    if (backward || !see_usual_record(cell, r))
        look_at_neighbours(cell, r, backward);
    cell->given_up = is_useless(cell, &cell->seen->misses, &cell->seen->entries_at_trial);
    return true;
}

size_t spt_cell_count_plain(spt_cell *cell, const uint8_t *start, size_t size)
{
    enum { HEAD = 2, PREFETCH_BYTES = 4096 };
    const uint8_t *p = start, *const end = start + size;
    uint64_t records = 0, entries = 0, outside = 0;
    if (!cell->seen || cell->given_up)
        return 0;
    while (end - p > HEAD && p[0] == SPGO_SPT_LBR && p[1] > 0) {
        const size_t n = p[1];
        uint64_t foreign;
        if ((size_t)(end - p) < HEAD + 8 * n)
            break;
        /* Where the next record starts is known only now; its bytes are on their way. */
        __builtin_prefetch((const void *)((uintptr_t)p + PREFETCH_BYTES));
        if (!see_usual_entries(cell, p + HEAD, n, &foreign))
            break;
        records++;
        entries += n;
        outside += foreign;
        p += HEAD + 8 * n;
    }
    cell->record_count += records;
    cell->entry_count += entries;
    cell->hits = saturating_add(cell->hits, entries);
    cell->outside_hits = saturating_add(cell->outside_hits, outside);
    cell->range_count = saturating_add(cell->range_count, entries - records);
    cell->range_good = saturating_add(cell->range_good, entries - records);
    cell->given_up = is_useless(cell, &cell->seen->misses, &cell->seen->entries_at_trial);
    return (size_t)(p - start);
}

/* ------------------------------------------------------------------ whole records */

static void count_whole(spt_cell *cell, const spgo_spt_record *r, spgo_spt_kind kind)
{
    uint64_t keys[SPGO_SPT_ENTRIES_MAX];
    size_t n;
    if (!r->entry_count)
        return;
    switch (kind) {
    case SPGO_SPT_KIND_IP:
        n = load_rvas(r, keys);
        counts_add(&cell->rvas, keys, n, r->hits);
        break;
    case SPGO_SPT_KIND_ARC:
        n = load_arcs(r, keys);
        counts_add(&cell->arcs, keys, n, r->hits);
        break;
    case SPGO_SPT_KIND_CALLSTACK:
        if (r->entry_count == 1) {
            n = load_rvas(r, keys);
            counts_add(&cell->rvas, keys, n, r->hits);
        } else {
            n = load_stack_arcs(r, keys);
            counts_add(&cell->arcs, keys, n, r->hits);
        }
        break;
    case SPGO_SPT_KIND_NONE:
        break;
    }
}

void spt_cell_count(spt_cell *cell, const spgo_spt_record *r, bool backward)
{
    spgo_spt_kind kind = cell->kind;
    uint64_t n = r->entry_count;
    if (kind == SPGO_SPT_KIND_CALLSTACK && n)
        n--;
    cell->record_count++;
    cell->entry_count += r->entry_count;
    cell->hits = saturating_add(cell->hits, saturating_multiply(r->hits, n));
    if (kind == SPGO_SPT_KIND_ARC && cell->arcs_without_hits && see_record(cell, r, backward))
        return;
    if (cell->arcs_without_hits || !count_through_front(cell, r, kind))
        count_whole(cell, r, kind);
    if (kind == SPGO_SPT_KIND_ARC && n)
        look_at_neighbours(cell, r, backward);
}

/* ------------------------------------------------------------------ whole cells */

void spt_cell_settle(spt_cell *cell)
{
    /* Only one of the tables is in use behind a front. */
    drop_front(cell, cell->arcs.used > 0);
}

void spt_cell_merge(spt_cell *into, const spt_cell *from)
{
    into->record_count += from->record_count;
    into->entry_count += from->entry_count;
    into->hits = saturating_add(into->hits, from->hits);
    into->range_count = saturating_add(into->range_count, from->range_count);
    into->range_good = saturating_add(into->range_good, from->range_good);
    into->backward_count = saturating_add(into->backward_count, from->backward_count);
    into->backward_good = saturating_add(into->backward_good, from->backward_good);
    into->outside_hits = saturating_add(into->outside_hits, from->outside_hits);
    counts_merge(&into->rvas, &from->rvas);
    counts_merge(&into->arcs, &from->arcs);
}

void spt_cell_free(spt_cell *cell)
{
    counts_free(&cell->rvas);
    counts_free(&cell->arcs);
    free(cell->front);
    free(cell->seen);
    cell->front = NULL;
    cell->seen = NULL;
}

/* Adds the ends of one arc to the RVAs. */
static void add_ends(uint64_t arc, bool may_be_foreign, counts *rvas, spt_distinct *distinct)
{
    const uint64_t ends[2] = {spt_arc_first(arc), spt_arc_second(arc)};
    bool is_inside = true;
    for (int i = 0; i < 2; i++) {
        bool is_foreign = may_be_foreign && ends[i] == SPGO_SPT_OUTSIDE;
        is_inside = is_inside && !is_foreign;
        if (!is_foreign)
            counts_add(rvas, &ends[i], 1, 1);
    }
    distinct->arcs += is_inside;
}

spgo_code spt_cell_distinct(const spt_cell *cell, uint8_t opcode, spt_distinct *distinct,
                            spgo_error *err)
{
    counts rvas = {0};
    *distinct = (spt_distinct){0};
    counts_merge(&rvas, &cell->rvas);
    for (size_t i = 0; i < cell->arcs.slot_count; i++) {
        if (cell->arcs.slots[i].count)
            add_ends(cell->arcs.slots[i].key, opcode == SPGO_SPT_LBR, &rvas, distinct);
    }
    bool complete = !rvas.failed;
    distinct->rvas = rvas.used;
    counts_free(&rvas);
    return complete ? SPGO_OK
                    : spgo_fail(err, SPGO_NOMEM, "spt.summary", SPGO_NO_OFFSET,
                                "out of memory while counting RVAs");
}
