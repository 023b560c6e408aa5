/*
 * Events: perf_event_attr in every size it ever had, and the table from ids to events.
 * doc/formats/perfdata.md, "Attributes" and "Which event a record belongs to".
 */
#include <format/perfdata/perfdata_internal.h>

#include <base/hash.h>

#include <stdlib.h>

/* Which fields the trailing sample_id has; each takes 8 bytes. */
#define TRAILER_FIELDS                                                                             \
    (PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ID | PERFDATA_SAMPLE_STREAM_ID | \
     PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER)

/* Fields that come before PERFDATA_SAMPLE_ID in a sample without IDENTIFIER. */
#define BEFORE_ID                                                                                  \
    (PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ADDR)

enum { BRANCH_HW_INDEX = 1 << 17, BRANCH_COUNTERS = 1 << 19 };

static int words(uint64_t fields)
{
    return 8 * __builtin_popcountll(fields);
}

static int id_pos_in_sample(uint64_t sample_type)
{
    if (sample_type & PERFDATA_SAMPLE_IDENTIFIER)
        return 0;
    if (sample_type & PERFDATA_SAMPLE_ID)
        return words(sample_type & BEFORE_ID);
    return PERFDATA_NO_ID_POS;
}

/* Counted from the end of the record. */
static int id_pos_in_trailer(uint64_t sample_type)
{
    if (sample_type & PERFDATA_SAMPLE_IDENTIFIER)
        return 8;
    if (sample_type & PERFDATA_SAMPLE_ID)
        return 8 + words(sample_type & (PERFDATA_SAMPLE_STREAM_ID | PERFDATA_SAMPLE_CPU));
    return PERFDATA_NO_ID_POS;
}

/*
 * A bit field of a big-endian machine starts at the most significant bit. The first field is to
 * be in bit 0 whatever the machine was.
 */
static uint64_t take_flags(reader *r, bool big_endian)
{
    uint64_t stored = take_u64(r, big_endian);
    if (!big_endian)
        return stored;
    uint64_t flags = 0;
    for (int bit = 0; bit < 64; bit++)
        flags |= (stored >> (63 - bit) & 1) << bit;
    return flags;
}

/* Fields behind the attribute's own size stay zero, as the kernel takes them. */
static void read_attr(reader *r, bool big_endian, perfdata_attr *a)
{
    a->type = take_u32(r, big_endian);
    reader_skip(r, 4); /* the size, which the caller used to cut r */
    a->config = take_u64(r, big_endian);
    a->sample_period = take_u64(r, big_endian);
    a->sample_type = take_u64(r, big_endian);
    a->read_format = take_u64(r, big_endian);
    a->flags = take_flags(r, big_endian);
    reader_skip(r, 16); /* wakeup, bp_type, config1 */
    if (reader_left(r) >= 8)
        reader_skip(r, 8); /* version 1: config2 */
    if (reader_left(r) >= 8)
        a->branch_sample_type = take_u64(r, big_endian); /* version 2 */
    if (reader_left(r) >= 16) {
        a->sample_regs_user = take_u64(r, big_endian); /* version 3 */
        reader_skip(r, 8);                             /* sample_stack_user, clockid */
    }
    if (reader_left(r) >= 8)
        a->sample_regs_intr = take_u64(r, big_endian); /* version 4 */
}

static bool same_fields(const perfdata_attr *a, const perfdata_attr *b)
{
    const uint64_t branch_bits = BRANCH_HW_INDEX | BRANCH_COUNTERS;
    return a->sample_type == b->sample_type && a->read_format == b->read_format &&
           ((a->branch_sample_type ^ b->branch_sample_type) & branch_bits) == 0 &&
           a->sample_regs_user == b->sample_regs_user && a->sample_regs_intr == b->sample_regs_intr;
}

static void agree_on_layout(perfdata *p, const perfdata_attr *a)
{
    int sample_pos = id_pos_in_sample(a->sample_type);
    int trailer_pos = id_pos_in_trailer(a->sample_type);
    if (p->event_count == 0) {
        p->sample_id_pos = sample_pos;
        p->trailer_id_pos = trailer_pos;
        p->same_layout = true;
        return;
    }
    if (p->sample_id_pos != sample_pos)
        p->sample_id_pos = PERFDATA_NO_ID_POS;
    if (p->trailer_id_pos != trailer_pos)
        p->trailer_id_pos = PERFDATA_NO_ID_POS;
    p->same_layout = p->same_layout && same_fields(&p->events[0]->attr, a);
}

static bool room_for_event(perfdata *p)
{
    if (p->event_count < p->event_cap)
        return true;
    size_t cap = p->event_cap ? 2 * p->event_cap : 8;
    perfdata_event **grown = realloc(p->events, cap * sizeof(perfdata_event *));
    if (!grown)
        return false;
    p->events = grown;
    p->event_cap = cap;
    return true;
}

spgo_code perfdata_add_event(perfdata *p, reader *attr, spgo_error *err)
{
    perfdata_event *e = arena_push(p->mem, 1, sizeof *e);
    p->no_memory |= !e || !room_for_event(p);
    if (p->no_memory)
        return spgo_fail_nomem(err, "perfdata.attr", sizeof *e);
    read_attr(attr, p->big_endian, &e->attr);
    SPGO_TRY(reader_finish(attr, "perfdata.attr", err));

    const perfdata_attr *a = &e->attr;
    e->user_reg_count = (uint32_t)__builtin_popcountll(a->sample_regs_user);
    e->intr_reg_count = (uint32_t)__builtin_popcountll(a->sample_regs_intr);
    e->has_branch_index = a->branch_sample_type & BRANCH_HW_INDEX;
    e->has_branch_counters = a->branch_sample_type & BRANCH_COUNTERS;
    if (a->flags & PERFDATA_ATTR_SAMPLE_ID_ALL)
        e->trailer_size = (uint32_t)words(a->sample_type & TRAILER_FIELDS);
    agree_on_layout(p, a);
    p->events[p->event_count++] = e;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ ids */

/* The slot that holds the id, or the free one where it belongs. */
static perfdata_id_slot *slot_of(perfdata_id_slot *slots, size_t slot_count, uint64_t id)
{
    size_t at = hash_u64(hash_seed(slots), id) & (slot_count - 1);
    while (slots[at].id != 0 && slots[at].id != id)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static bool grow_ids(perfdata *p)
{
    size_t slot_count = p->id_slot_count ? 2 * p->id_slot_count : 64;
    perfdata_id_slot *slots = calloc(slot_count, sizeof *slots);
    p->no_memory |= !slots;
    if (!slots)
        return false;
    for (size_t i = 0; i < p->id_slot_count; i++) {
        if (p->ids[i].id != 0)
            *slot_of(slots, slot_count, p->ids[i].id) = p->ids[i];
    }
    free(p->ids);
    p->ids = slots;
    p->id_slot_count = slot_count;
    return true;
}

bool perfdata_add_id(perfdata *p, uint64_t id, size_t index)
{
    if (id == 0)
        return true;
    if (2 * (p->id_count + 1) > p->id_slot_count && !grow_ids(p))
        return false;
    perfdata_id_slot *slot = slot_of(p->ids, p->id_slot_count, id);
    if (slot->id == 0) {
        *slot = (perfdata_id_slot){.id = id, .attr_index = index};
        p->id_count++;
        p->events[index]->attr.id_count++;
    }
    return true;
}

size_t perfdata_find_id(const perfdata *p, uint64_t id)
{
    if (p->id_slot_count == 0)
        return SIZE_MAX;
    const perfdata_id_slot *slot = slot_of(p->ids, p->id_slot_count, id);
    return slot->id == id ? slot->attr_index : SIZE_MAX;
}
