/*
 * The document. Producers fill it with millions of counts, by instruction and not in order of
 * places, so:
 *
 * - Functions are found through one table for the whole document, by caller, place and name; names
 *   are kept once and compared by address.
 * - A function's lines are an array. As long as places come in order they are found by bisection
 *   and added at the end; the first that comes out of order gives the function a table of its own.
 *   Asking for the lines sorts them and drops the table.
 * - A line's call targets are an array that is searched as long as it is short. A longer one gets
 *   targets twice and adds them up when it is full or asked for.
 */
#include "sampleprof_internal.h"

#include <base/hash.h>
#include <base/intern.h>
#include <base/limits.h>
#include <base/text.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 4, TARGETS_SEARCHED = 8, TABLE_MIN = 64 };

#define NO_LINE UINT32_MAX

struct sampleprof_function {
    sampleprof_function *self;         /* asking sorts: through this, where the rest is const */
    const sampleprof_function *caller; /* NULL: a top function */
    sampleprof_place place;
    spgo_str name; /* the document's */
    uint64_t total, head;
    uint64_t checksum; /* 0: none */
    uint32_t attributes;
    uint32_t depth;

    sampleprof_line *lines;
    uint32_t *line_table; /* 1 + index of a line, 0: free; of use while lines are not sorted */
    uint32_t line_count, line_room, table_room;
    uint32_t last_line;
    bool lines_sorted, targets_settled, sites_sorted;

    sampleprof_callsite *sites;
    uint32_t site_count, site_room;
    sampleprof_function *last_inlined;
};

typedef struct name_slot {
    spgo_str text; /* ptr NULL: free */
    uint32_t number;
} name_slot;

struct sampleprof {
    sampleprof *self;
    arena *memory;
    uint64_t budget, seed;
    bool has_probes, has_fs_discriminators;

    name_slot *names;
    size_t name_slots, name_count;
    size_t number_count; /* names that are numbers */

    sampleprof_function **functions; /* a table; NULL: free */
    size_t function_slots, function_count;

    sampleprof_function **tops;
    size_t top_count, top_room;
    bool tops_sorted;
    sampleprof_function *last_top;
};

/* ------------------------------------------------------------------ the document */

sampleprof *sampleprof_new(uint64_t budget_bytes)
{
    arena *memory = arena_new(budget_bytes);
    sampleprof *p = memory ? arena_push(memory, 1, sizeof *p) : NULL;
    if (!p) {
        arena_free(memory);
        return NULL;
    }
    p->self = p;
    p->memory = memory;
    p->budget = budget_bytes;
    p->seed = hash_seed(p);
    p->tops_sorted = true;
    return p;
}

void sampleprof_free(sampleprof *p)
{
    if (p)
        arena_free(p->memory);
}

bool sampleprof_has_probes(const sampleprof *p)
{
    return p->has_probes;
}

void sampleprof_set_probes(sampleprof *p, bool has_probes)
{
    p->has_probes = has_probes;
}

bool sampleprof_has_fs_discriminators(const sampleprof *p)
{
    return p->has_fs_discriminators;
}

void sampleprof_set_fs_discriminators(sampleprof *p, bool has_them)
{
    p->has_fs_discriminators = has_them;
}

bool sampleprof_has_md5_names(const sampleprof *p)
{
    return p->name_count > 0 && p->number_count == p->name_count;
}

size_t sampleprof_size(const sampleprof *p)
{
    return p->function_count;
}

spgo_code sampleprof_fail_memory(const sampleprof *p, spgo_error *err)
{
    if (p->budget)
        return spgo_fail(err, SPGO_LIMIT, "sampleprof", SPGO_NO_OFFSET,
                         "the profile needs more than the %llu bytes of memory that it may take",
                         (unsigned long long)p->budget);
    return spgo_fail_nomem(err, "sampleprof", (size_t)arena_used(p->memory));
}

/* An array of twice the room with the same contents; NULL without memory. */
static void *grown(sampleprof *p, const void *old, size_t count, uint32_t *room, size_t elem_size)
{
    if (*room > UINT32_MAX / 4)
        return NULL;
    uint32_t wanted = *room ? 2 * *room : ROOM_MIN;
    void *bigger = arena_push(p->memory, wanted, elem_size);
    if (bigger && count)
        memcpy(bigger, old, count * elem_size);
    if (bigger)
        *room = wanted;
    return bigger;
}

/* ------------------------------------------------------------------ names */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool begins_with_digit(spgo_str s)
{
    return s.len > 0 && is_digit(s.ptr[0]);
}

/* A decimal number of 64 bits as it is printed. */
static bool is_number(spgo_str s)
{
    static const char max[] = "18446744073709551615";
    size_t digits = 0;
    while (digits < s.len && is_digit(s.ptr[digits]))
        digits++;
    if (digits == 0 || digits != s.len || (s.ptr[0] == '0' && s.len > 1))
        return false;
    return s.len < sizeof max - 1 ||
           (s.len == sizeof max - 1 && memcmp(s.ptr, max, sizeof max - 1) <= 0);
}

int sampleprof_compare_names(spgo_str a, spgo_str b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    if (a.len != b.len && begins_with_digit(a) && begins_with_digit(b))
        return a.len < b.len ? -1 : 1;
    int order = least ? memcmp(a.ptr, b.ptr, least) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static size_t name_slot_of(const sampleprof *p, spgo_str name)
{
    size_t at = text_hash(p->seed, name.ptr, name.len) & (p->name_slots - 1);
    while (p->names[at].text.ptr && !text_equal(p->names[at].text, name))
        at = (at + 1) & (p->name_slots - 1);
    return at;
}

static bool grow_names(sampleprof *p)
{
    const name_slot *old = p->names;
    size_t old_slots = p->name_slots;
    size_t wanted = old_slots ? 2 * old_slots : TABLE_MIN;
    name_slot *bigger = arena_push(p->memory, wanted, sizeof *bigger);
    if (!bigger)
        return false;
    p->names = bigger;
    p->name_slots = wanted;
    for (size_t i = 0; i < old_slots; i++) {
        if (old[i].text.ptr)
            bigger[name_slot_of(p, old[i].text)] = old[i];
    }
    return true;
}

/* The document's copy; ptr NULL without memory. */
static spgo_str keep_name(sampleprof *p, spgo_str name)
{
    assert(name.len > 0);
    if (2 * p->name_count >= p->name_slots && !grow_names(p))
        return (spgo_str){NULL, 0};
    name_slot *slot = &p->names[name_slot_of(p, name)];
    if (!slot->text.ptr) {
        const char *copy =
            p->name_count < UINT32_MAX ? arena_copy_text(p->memory, name.ptr, name.len) : NULL;
        if (!copy)
            return (spgo_str){NULL, 0};
        slot->text = (spgo_str){copy, name.len};
        p->name_count++;
        p->number_count += is_number(name);
    }
    return slot->text;
}

/* The document's copy of a name; ptr NULL if it has none. */
static spgo_str find_name(const sampleprof *p, spgo_str name)
{
    if (p->name_slots == 0 || name.len == 0)
        return (spgo_str){NULL, 0};
    return p->names[name_slot_of(p, name)].text;
}

static int order_names(const void *a, const void *b)
{
    return sampleprof_compare_names(*(const spgo_str *)a, *(const spgo_str *)b);
}

const spgo_str *sampleprof_sort_names(const sampleprof *p, size_t *count)
{
    spgo_str *sorted = arena_push(p->memory, p->name_count, sizeof *sorted);
    *count = 0;
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < p->name_slots; i++) {
        if (p->names[i].text.ptr)
            sorted[(*count)++] = p->names[i].text;
    }
    if (*count)
        qsort(sorted, *count, sizeof *sorted, order_names);
    for (size_t i = 0; i < *count; i++)
        p->self->names[name_slot_of(p, sorted[i])].number = (uint32_t)i;
    return sorted;
}

uint32_t sampleprof_name_number(const sampleprof *p, spgo_str name)
{
    return p->names[name_slot_of(p, name)].number;
}

/* ------------------------------------------------------------------ functions */

static size_t function_slot_of(const sampleprof *p, const sampleprof_function *caller,
                               sampleprof_place place, spgo_str name)
{
    uint64_t h = hash_u64(p->seed, (uint64_t)(uintptr_t)caller);
    h = hash_u64(h, sampleprof_place_key(place));
    size_t at = (size_t)hash_u64(h, (uint64_t)(uintptr_t)name.ptr) & (p->function_slots - 1);
    for (;; at = (at + 1) & (p->function_slots - 1)) {
        const sampleprof_function *f = p->functions[at];
        if (!f || (f->caller == caller && f->name.ptr == name.ptr &&
                   sampleprof_place_key(f->place) == sampleprof_place_key(place)))
            return at;
    }
}

static bool grow_functions(sampleprof *p)
{
    sampleprof_function **old = p->functions;
    size_t old_slots = p->function_slots;
    size_t wanted = old_slots ? 2 * old_slots : TABLE_MIN;
    sampleprof_function **bigger = arena_push(p->memory, wanted, sizeof *bigger);
    if (!bigger)
        return false;
    p->functions = bigger;
    p->function_slots = wanted;
    for (size_t i = 0; i < old_slots; i++) {
        if (old[i])
            bigger[function_slot_of(p, old[i]->caller, old[i]->place, old[i]->name)] = old[i];
    }
    return true;
}

static bool list_top(sampleprof *p, sampleprof_function *f)
{
    if (p->top_count == p->top_room) {
        uint32_t room = (uint32_t)p->top_room;
        sampleprof_function **bigger = grown(p, p->tops, p->top_count, &room, sizeof *bigger);
        if (!bigger)
            return false;
        p->tops = bigger;
        p->top_room = room;
    }
    p->tops_sorted =
        p->tops_sorted && (p->top_count == 0 ||
                           sampleprof_compare_names(p->tops[p->top_count - 1]->name, f->name) < 0);
    p->tops[p->top_count++] = f;
    return true;
}

static int compare_sites(const sampleprof_callsite *a, const sampleprof_callsite *b)
{
    uint64_t place_a = sampleprof_place_key(a->place);
    uint64_t place_b = sampleprof_place_key(b->place);
    return place_a != place_b ? (place_a > place_b) - (place_a < place_b)
                              : sampleprof_compare_names(a->callee->name, b->callee->name);
}

static bool list_site(sampleprof *p, sampleprof_function *caller, sampleprof_function *f)
{
    if (caller->site_count == caller->site_room) {
        sampleprof_callsite *bigger =
            grown(p, caller->sites, caller->site_count, &caller->site_room, sizeof *bigger);
        if (!bigger)
            return false;
        caller->sites = bigger;
    }
    sampleprof_callsite site = {f->place, f};
    caller->sites_sorted =
        caller->sites_sorted && (caller->site_count == 0 ||
                                 compare_sites(&caller->sites[caller->site_count - 1], &site) < 0);
    caller->sites[caller->site_count++] = site;
    return true;
}

/* The function in the table, or a new one; caller NULL: a top function. */
static sampleprof_function *function_at(sampleprof *p, sampleprof_function *caller,
                                        sampleprof_place place, spgo_str text)
{
    spgo_str name = keep_name(p, text);
    if (!name.ptr || (2 * p->function_count >= p->function_slots && !grow_functions(p)))
        return NULL;
    sampleprof_function **slot = &p->functions[function_slot_of(p, caller, place, name)];
    if (*slot)
        return *slot;
    sampleprof_function *f = arena_push(p->memory, 1, sizeof *f);
    if (!f)
        return NULL;
    *f = (sampleprof_function){.self = f,
                               .caller = caller,
                               .place = place,
                               .name = name,
                               .depth = caller ? caller->depth + 1 : 0,
                               .lines_sorted = true,
                               .targets_settled = true,
                               .sites_sorted = true};
    if (caller ? !list_site(p, caller, f) : !list_top(p, f))
        return NULL;
    *slot = f;
    p->function_count++;
    return f;
}

sampleprof_function *sampleprof_function_named(sampleprof *p, spgo_str name)
{
    if (!p->last_top || !text_equal(p->last_top->name, name)) {
        sampleprof_function *f = function_at(p, NULL, (sampleprof_place){0, 0}, name);
        if (!f)
            return NULL;
        p->last_top = f;
    }
    return p->last_top;
}

sampleprof_function *sampleprof_inlined(sampleprof *p, sampleprof_function *caller,
                                        sampleprof_place place, spgo_str callee)
{
    sampleprof_function *last = caller->last_inlined;
    if (last && sampleprof_place_key(last->place) == sampleprof_place_key(place) &&
        text_equal(last->name, callee))
        return last;
    if (caller->depth >= LIMIT_INLINE_DEPTH)
        return NULL;
    sampleprof_function *f = function_at(p, caller, place, callee);
    if (f)
        caller->last_inlined = f;
    return f;
}

/* ------------------------------------------------------------------ lines */

static uint32_t line_slot_of(const sampleprof *p, const sampleprof_function *f, uint64_t key)
{
    uint32_t mask = 2 * f->line_room - 1;
    uint32_t at = (uint32_t)hash_u64(p->seed, key) & mask;
    while (f->line_table[at] && sampleprof_place_key(f->lines[f->line_table[at] - 1].place) != key)
        at = (at + 1) & mask;
    return at;
}

/* Makes the table of a function whose lines are not, or no longer, in order. */
static bool index_lines(sampleprof *p, sampleprof_function *f)
{
    uint32_t slots = 2 * f->line_room;
    if (slots > f->table_room) {
        uint32_t *table = arena_push(p->memory, slots, sizeof *table);
        if (!table)
            return false;
        f->line_table = table;
        f->table_room = slots;
    } else {
        memset(f->line_table, 0, slots * sizeof *f->line_table);
    }
    for (uint32_t i = 0; i < f->line_count; i++)
        f->line_table[line_slot_of(p, f, sampleprof_place_key(f->lines[i].place))] = i + 1;
    return true;
}

static uint32_t bisect_lines(const sampleprof_function *f, uint64_t key)
{
    uint32_t from = 0;
    uint32_t to = f->line_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        uint64_t there = sampleprof_place_key(f->lines[middle].place);
        if (there == key)
            return middle;
        if (there < key)
            from = middle + 1;
        else
            to = middle;
    }
    return NO_LINE;
}

static uint32_t add_line(sampleprof *p, sampleprof_function *f, sampleprof_place place)
{
    uint64_t key = sampleprof_place_key(place);
    bool was_sorted = f->lines_sorted;
    bool in_order =
        f->line_count == 0 || sampleprof_place_key(f->lines[f->line_count - 1].place) < key;
    uint32_t old_room = f->line_room;
    bool grows = f->line_count == old_room;
    if (grows) {
        sampleprof_line *bigger = grown(p, f->lines, f->line_count, &f->line_room, sizeof *bigger);
        if (!bigger)
            return NO_LINE;
        f->lines = bigger;
    }
    bool stays_sorted = was_sorted && in_order;
    if (!stays_sorted && (was_sorted || grows) && !index_lines(p, f)) {
        f->line_room = old_room; /* the table that is there stays right */
        return NO_LINE;
    }
    f->lines_sorted = stays_sorted;
    if (!stays_sorted)
        f->line_table[line_slot_of(p, f, key)] = f->line_count + 1;
    f->lines[f->line_count] = (sampleprof_line){.place = place};
    return f->line_count++;
}

/* The line at a place, or a new one; NULL without memory. */
static sampleprof_line *line_at(sampleprof *p, sampleprof_function *f, sampleprof_place place)
{
    uint64_t key = sampleprof_place_key(place);
    if (f->line_count && sampleprof_place_key(f->lines[f->last_line].place) == key)
        return &f->lines[f->last_line];
    uint32_t at = NO_LINE;
    if (!f->lines_sorted)
        at = f->line_table[line_slot_of(p, f, key)] - 1; /* 0, free, becomes NO_LINE */
    else if (f->line_count && key < sampleprof_place_key(f->lines[f->line_count - 1].place))
        at = bisect_lines(f, key);
    else if (f->line_count && key == sampleprof_place_key(f->lines[f->line_count - 1].place))
        at = f->line_count - 1;
    if (at == NO_LINE)
        at = add_line(p, f, place);
    if (at == NO_LINE)
        return NULL;
    f->last_line = at;
    return &f->lines[at];
}

bool sampleprof_add_line(sampleprof *p, sampleprof_function *f, sampleprof_place place,
                         uint64_t count)
{
    sampleprof_line *line = line_at(p, f, place);
    if (line)
        line->count = saturating_add(line->count, count);
    return line;
}

bool sampleprof_raise_line(sampleprof *p, sampleprof_function *f, sampleprof_place place,
                           uint64_t count)
{
    sampleprof_line *line = line_at(p, f, place);
    if (line && line->count < count)
        line->count = count;
    return line;
}

/* ------------------------------------------------------------------ call targets */

/* The document's own array, through a line that shows it as const. Its room is the count of an
 * element that stands before the first. */
static sampleprof_target *own_targets(const sampleprof_line *line)
{
    return (sampleprof_target *)(uintptr_t)line->targets;
}

static int order_targets_by_address(const void *a, const void *b)
{
    uintptr_t name_a = (uintptr_t)((const sampleprof_target *)a)->callee.ptr;
    uintptr_t name_b = (uintptr_t)((const sampleprof_target *)b)->callee.ptr;
    return (name_a > name_b) - (name_a < name_b);
}

static int order_targets(const void *a, const void *b)
{
    const sampleprof_target *target_a = a, *target_b = b;
    if (target_a->count != target_b->count)
        return target_a->count > target_b->count ? -1 : 1;
    return sampleprof_compare_names(target_a->callee, target_b->callee);
}

/* Adds up what stands there twice. */
static void join_targets(sampleprof_line *line)
{
    sampleprof_target *targets = own_targets(line);
    size_t kept = 0;
    qsort(targets, line->target_count, sizeof *targets, order_targets_by_address);
    for (size_t i = 0; i < line->target_count; i++) {
        if (kept && targets[kept - 1].callee.ptr == targets[i].callee.ptr)
            targets[kept - 1].count = saturating_add(targets[kept - 1].count, targets[i].count);
        else
            targets[kept++] = targets[i];
    }
    line->target_count = kept;
}

/* Room for one more. */
static bool reserve_target(sampleprof *p, sampleprof_line *line)
{
    uint64_t room = line->targets ? own_targets(line)[-1].count : 0;
    if (line->target_count < room)
        return true;
    if (room > TARGETS_SEARCHED) {
        join_targets(line);
        if (line->target_count <= room - room / 4)
            return true;
    }
    if (room > UINT32_MAX)
        return false;
    size_t wanted = room ? (size_t)room * 2 : 2;
    sampleprof_target *bigger = arena_push(p->memory, wanted + 1, sizeof *bigger);
    if (!bigger)
        return false;
    bigger->count = wanted;
    if (line->target_count)
        memcpy(bigger + 1, line->targets, line->target_count * sizeof *bigger);
    line->targets = bigger + 1;
    return true;
}

bool sampleprof_add_target(sampleprof *p, sampleprof_function *f, sampleprof_place place,
                           spgo_str callee, uint64_t count)
{
    sampleprof_line *line = line_at(p, f, place);
    spgo_str name = line ? keep_name(p, callee) : (spgo_str){NULL, 0};
    if (!name.ptr)
        return false;
    sampleprof_target *targets = own_targets(line);
    size_t searched = 0;
    for (size_t i = line->target_count; i > 0 && searched < TARGETS_SEARCHED; searched++) {
        if (targets[--i].callee.ptr == name.ptr) {
            targets[i].count = saturating_add(targets[i].count, count);
            f->targets_settled = false;
            return true;
        }
    }
    if (!reserve_target(p, line))
        return false;
    own_targets(line)[line->target_count++] = (sampleprof_target){name, count};
    f->targets_settled = false;
    return true;
}

static void settle_targets(sampleprof_function *f)
{
    for (uint32_t i = 0; i < f->line_count; i++) {
        sampleprof_line *line = &f->lines[i];
        if (line->target_count > TARGETS_SEARCHED)
            join_targets(line);
        if (line->target_count > 1)
            qsort(own_targets(line), line->target_count, sizeof *line->targets, order_targets);
    }
    f->targets_settled = true;
}

/* ------------------------------------------------------------------ other values */

void sampleprof_add_total(sampleprof_function *f, uint64_t count)
{
    f->total = saturating_add(f->total, count);
}

void sampleprof_add_head(sampleprof_function *f, uint64_t count)
{
    f->head = saturating_add(f->head, count);
}

void sampleprof_set_total(sampleprof_function *f, uint64_t count)
{
    f->total = count;
}

void sampleprof_set_checksum(sampleprof_function *f, uint64_t checksum)
{
    f->checksum = checksum;
}

void sampleprof_set_attributes(sampleprof_function *f, uint32_t attributes)
{
    f->attributes = attributes;
}

spgo_str sampleprof_name(const sampleprof_function *f)
{
    return f->name;
}

uint64_t sampleprof_total(const sampleprof_function *f)
{
    return f->total;
}

uint64_t sampleprof_head(const sampleprof_function *f)
{
    return f->head;
}

bool sampleprof_checksum(const sampleprof_function *f, uint64_t *checksum)
{
    *checksum = f->checksum;
    return f->checksum != 0;
}

uint32_t sampleprof_attributes(const sampleprof_function *f)
{
    return f->attributes;
}

/* ------------------------------------------------------------------ asking */

static int order_tops(const void *a, const void *b)
{
    const sampleprof_function *const *top_a = a, *const *top_b = b;
    return sampleprof_compare_names((*top_a)->name, (*top_b)->name);
}

static int order_tops_by_total(const void *a, const void *b)
{
    const sampleprof_function *const *top_a = a, *const *top_b = b;
    if ((*top_a)->total != (*top_b)->total)
        return (*top_a)->total > (*top_b)->total ? -1 : 1;
    return sampleprof_compare_names((*top_a)->name, (*top_b)->name);
}

static int order_lines(const void *a, const void *b)
{
    uint64_t place_a = sampleprof_place_key(((const sampleprof_line *)a)->place);
    uint64_t place_b = sampleprof_place_key(((const sampleprof_line *)b)->place);
    return (place_a > place_b) - (place_a < place_b);
}

static int order_sites(const void *a, const void *b)
{
    return compare_sites(a, b);
}

size_t sampleprof_function_count(const sampleprof *p)
{
    return p->top_count;
}

const sampleprof_function *sampleprof_get_function(const sampleprof *p, size_t i)
{
    assert(i < p->top_count);
    if (!p->tops_sorted) {
        qsort(p->self->tops, p->top_count, sizeof *p->tops, order_tops);
        p->self->tops_sorted = true;
    }
    return p->tops[i];
}

sampleprof_function *sampleprof_look_up(const sampleprof *p, const sampleprof_function *caller,
                                        sampleprof_place place, spgo_str name)
{
    spgo_str kept = find_name(p, name);
    if (!kept.ptr || p->function_slots == 0)
        return NULL;
    return p->functions[function_slot_of(p, caller, place, kept)];
}

const sampleprof_function *sampleprof_find(const sampleprof *p, spgo_str name)
{
    return sampleprof_look_up(p, NULL, (sampleprof_place){0, 0}, name);
}

const sampleprof_function **sampleprof_by_total(const sampleprof *p, size_t *count)
{
    *count = p->top_count;
    const sampleprof_function **sorted =
        p->top_count ? malloc(p->top_count * sizeof *sorted) : NULL;
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < p->top_count; i++)
        sorted[i] = p->tops[i];
    qsort(sorted, p->top_count, sizeof *sorted, order_tops_by_total);
    return sorted;
}

const sampleprof_line *sampleprof_lines(const sampleprof_function *f, size_t *count)
{
    static const sampleprof_line none;
    sampleprof_function *own = f->self;
    if (!own->lines_sorted) {
        qsort(own->lines, own->line_count, sizeof *own->lines, order_lines);
        own->lines_sorted = true;
        own->last_line = 0;
    }
    if (!own->targets_settled)
        settle_targets(own);
    *count = own->line_count;
    return own->lines ? own->lines : &none; /* arithmetic on NULL is undefined */
}

const sampleprof_callsite *sampleprof_callsites(const sampleprof_function *f, size_t *count)
{
    static const sampleprof_callsite none;
    sampleprof_function *own = f->self;
    if (!own->sites_sorted) {
        qsort(own->sites, own->site_count, sizeof *own->sites, order_sites);
        own->sites_sorted = true;
    }
    *count = own->site_count;
    return own->sites ? own->sites : &none;
}
