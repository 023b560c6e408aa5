/* Call stacks by key: see stack_keys.h. */
#include <trace/stack_keys.h>

#include <base/hash.h>
#include <base/limits.h>

#include <stdlib.h>

#define NO_WAITER UINT32_MAX

enum { SEARCH_MAX = 32 };

typedef struct key_slot {
    uint64_t key;
    uint32_t first; /* waiter, or NO_WAITER: defined, nobody waits */
    bool used;
} key_slot;

struct stack_keys {
    key_slot *slots; /* open addressing; keys stay, since ETW uses them again and again */
    size_t slot_count, used;
    stack_waiter *waiters;
    uint32_t waiter_count, waiter_cap;
    uint32_t free_first; /* chain of given-back waiters */
    uint32_t taken;      /* the chain handed out, or NO_WAITER */
    uint64_t waiting;
    bool no_memory;
};

stack_keys *stack_keys_new(void)
{
    stack_keys *k = calloc(1, sizeof *k);
    if (k)
        k->free_first = k->taken = NO_WAITER;
    return k;
}

void stack_keys_free(stack_keys *k)
{
    if (!k)
        return;
    free(k->slots);
    free(k->waiters);
    free(k);
}

static key_slot *find(key_slot *slots, size_t slot_count, uint64_t key)
{
    size_t at = hash_u64(hash_seed(slots), key) & (slot_count - 1);
    while (slots[at].used && slots[at].key != key)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

/* Keys that nobody waits for are left behind, so that the table follows the waiting ones. */
static bool rebuild(stack_keys *k)
{
    size_t live = 0;
    for (size_t i = 0; i < k->slot_count; i++)
        live += k->slots[i].used && k->slots[i].first != NO_WAITER;
    size_t slot_count = 1024;
    while (slot_count < 4 * live)
        slot_count *= 2;
    key_slot *slots = calloc(slot_count, sizeof *slots);
    k->no_memory |= !slots;
    if (!slots)
        return false;
    for (size_t i = 0; i < k->slot_count; i++) {
        if (k->slots[i].used && k->slots[i].first != NO_WAITER)
            *find(slots, slot_count, k->slots[i].key) = k->slots[i];
    }
    free(k->slots);
    k->slots = slots;
    k->slot_count = slot_count;
    k->used = live;
    return true;
}

static uint32_t new_waiter(stack_keys *k)
{
    if (k->free_first != NO_WAITER) {
        uint32_t w = k->free_first;
        k->free_first = k->waiters[w].next;
        return w;
    }
    if (k->waiter_count == LIMIT_PENDING_STACK_KEYS)
        return NO_WAITER;
    if (k->waiter_count == k->waiter_cap) {
        uint32_t cap = k->waiter_cap ? k->waiter_cap * 2 : 1024;
        stack_waiter *grown = realloc(k->waiters, cap * sizeof *grown);
        k->no_memory |= !grown;
        if (!grown)
            return NO_WAITER;
        k->waiters = grown;
        k->waiter_cap = cap;
    }
    return k->waiter_count++;
}

bool stack_keys_use(stack_keys *k, uint64_t key, uint32_t process, uint64_t time)
{
    if (2 * k->used >= k->slot_count && !rebuild(k))
        return false;
    key_slot *slot = find(k->slots, k->slot_count, key);
    if (!slot->used) {
        *slot = (key_slot){.key = key, .first = NO_WAITER, .used = true};
        k->used++;
    }
    uint32_t near = 0; /* beyond a few processes a second entry is cheaper than the search */
    for (uint32_t w = slot->first; w != NO_WAITER && near < SEARCH_MAX; w = k->waiters[w].next) {
        near++;
        if (k->waiters[w].process == process) {
            k->waiters[w].hits++;
            k->waiters[w].time = time;
            k->waiting++;
            return true;
        }
    }
    uint32_t w = new_waiter(k);
    if (w == NO_WAITER)
        return false;
    k->waiters[w] =
        (stack_waiter){.time = time, .hits = 1, .process = process, .next = slot->first};
    slot->first = w;
    k->waiting++;
    return true;
}

const stack_waiter *stack_keys_take(stack_keys *k, uint64_t key)
{
    if (k->slot_count == 0)
        return NULL;
    key_slot *slot = find(k->slots, k->slot_count, key);
    if (!slot->used || slot->first == NO_WAITER)
        return NULL;
    k->taken = slot->first;
    slot->first = NO_WAITER;
    return &k->waiters[k->taken];
}

const stack_waiter *stack_keys_next(const stack_keys *k, const stack_waiter *w)
{
    return w->next == NO_WAITER ? NULL : &k->waiters[w->next];
}

void stack_keys_done(stack_keys *k)
{
    uint32_t last = k->taken;
    if (last == NO_WAITER)
        return;
    for (;; last = k->waiters[last].next) {
        k->waiting -= k->waiters[last].hits;
        if (k->waiters[last].next == NO_WAITER)
            break;
    }
    k->waiters[last].next = k->free_first;
    k->free_first = k->taken;
    k->taken = NO_WAITER;
}

bool stack_keys_no_memory(const stack_keys *k)
{
    return k->no_memory;
}

uint64_t stack_keys_waiting(const stack_keys *k)
{
    return k->waiting;
}
