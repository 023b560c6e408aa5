/* Joining RSDS records to images: see image_ids.h. */
#include <trace/image_ids.h>

#include <base/hash.h>
#include <base/intern.h>
#include <base/text.h>

#include <stdlib.h>

enum { SEARCH_MAX = 64 }; /* taken records that the search for a free one passes */

typedef struct id_record {
    uint64_t base, time;
    uint32_t pid, order;
    bool is_taken;
    spgo_image_id id;
} id_record;

/* What stands in an open-addressing table by path and size. */
typedef struct path_id {
    spgo_str path; /* ptr NULL: free */
    uint64_t size;
    spgo_image_id id;
} path_id;

struct image_ids {
    id_record *records;
    size_t count, cap;
    intern paths;
    path_id *slots;
    size_t slot_count, slots_used;
};

image_ids *image_ids_new(void)
{
    return calloc(1, sizeof(image_ids));
}

void image_ids_free(image_ids *ids)
{
    if (!ids)
        return;
    free(ids->records);
    free(ids->slots);
    intern_free(&ids->paths);
    free(ids);
}

bool image_ids_add(image_ids *ids, uint64_t base, uint32_t pid, uint64_t time,
                   const spgo_image_id *id)
{
    if (ids->count == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 256;
        id_record *grown = realloc(ids->records, cap * sizeof *grown);
        if (!grown)
            return false;
        ids->records = grown;
        ids->cap = cap;
    }
    ids->records[ids->count] = (id_record){
        .base = base, .time = time, .pid = pid, .order = (uint32_t)ids->count, .id = *id};
    ids->count++;
    return true;
}

static int by_place(const void *left, const void *right)
{
    const id_record *a = left, *b = right;
    if (a->base != b->base)
        return a->base < b->base ? -1 : 1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void image_ids_seal(image_ids *ids)
{
    if (ids->count)
        qsort(ids->records, ids->count, sizeof *ids->records, by_place);
}

static bool is_before(const id_record *r, uint64_t base, uint32_t pid, uint64_t time)
{
    if (r->base != base)
        return r->base < base;
    if (r->pid != pid)
        return r->pid < pid;
    return r->time < time;
}

/* Index of the first record at this base of this process that is not before `time`. */
static size_t first_from(const image_ids *ids, uint64_t base, uint32_t pid, uint64_t time)
{
    size_t low = 0, high = ids->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (is_before(&ids->records[mid], base, pid, time))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_at(const id_record *r, uint64_t base, uint32_t pid)
{
    return r->base == base && r->pid == pid;
}

const spgo_image_id *image_ids_take(image_ids *ids, uint64_t base, uint32_t pid, uint64_t time)
{
    size_t at = first_from(ids, base, pid, time);
    if (at == ids->count || !is_at(&ids->records[at], base, pid) || ids->records[at].time != time)
        return NULL;
    for (size_t i = at; i < ids->count && is_at(&ids->records[i], base, pid) &&
                        ids->records[i].time == time && !ids->records[i].is_taken;
         i++)
        ids->records[i].is_taken = true; /* and its repeats */
    return &ids->records[at].id;
}

const spgo_image_id *image_ids_nearest(const image_ids *ids, uint64_t base, uint32_t pid,
                                       uint64_t time)
{
    const id_record *after = NULL, *before = NULL;
    size_t at = first_from(ids, base, pid, time);
    for (size_t i = at; !after && i < ids->count && i - at < SEARCH_MAX; i++) {
        if (!is_at(&ids->records[i], base, pid))
            break;
        after = ids->records[i].is_taken ? NULL : &ids->records[i];
    }
    for (size_t i = at; !before && i > 0 && at - i < SEARCH_MAX; i--) {
        if (!is_at(&ids->records[i - 1], base, pid))
            break;
        before = ids->records[i - 1].is_taken ? NULL : &ids->records[i - 1];
    }
    if (after && before)
        return after->time - time <= time - before->time ? &after->id : &before->id;
    return after ? &after->id : before ? &before->id : NULL;
}

static size_t slot_of(const path_id *slots, size_t slot_count, spgo_str path, uint64_t size)
{
    size_t at = text_hash(hash_seed(slots) ^ size, path.ptr, path.len) & (slot_count - 1);
    while (slots[at].path.ptr && (slots[at].size != size || !text_equal(slots[at].path, path)))
        at = (at + 1) & (slot_count - 1);
    return at;
}

static bool grow_slots(image_ids *ids)
{
    size_t slot_count = ids->slot_count ? ids->slot_count * 2 : 256;
    path_id *slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < ids->slot_count; i++) {
        const path_id *p = &ids->slots[i];
        if (p->path.ptr)
            slots[slot_of(slots, slot_count, p->path, p->size)] = *p;
    }
    free(ids->slots);
    ids->slots = slots;
    ids->slot_count = slot_count;
    return true;
}

bool image_ids_learn(image_ids *ids, spgo_str path, uint64_t size, const spgo_image_id *id)
{
    if (2 * ids->slots_used >= ids->slot_count && !grow_slots(ids))
        return false;
    path_id *slot = &ids->slots[slot_of(ids->slots, ids->slot_count, path, size)];
    if (slot->path.ptr)
        return true;
    spgo_str kept = intern_add(&ids->paths, path);
    *slot = (path_id){.path = kept, .size = size, .id = *id};
    ids->slots_used++;
    return !ids->paths.failed;
}

const spgo_image_id *image_ids_of_path(const image_ids *ids, spgo_str path, uint64_t size)
{
    if (ids->slot_count == 0)
        return NULL;
    const path_id *slot = &ids->slots[slot_of(ids->slots, ids->slot_count, path, size)];
    return slot->path.ptr ? &slot->id : NULL;
}
