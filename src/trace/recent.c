/* The samples of the recent past: see recent.h. */
#include <trace/recent.h>

#include <base/hash.h>

#include <stdlib.h>
#include <string.h>

/* At 8 kHz on 64 processors one generation is a quarter of a second: as long as a stack is late. */
enum { SLOTS = 1 << 18, USED_MAX = SLOTS / 2 };

bool recent_init(recent *r)
{
    *r = (recent){.now = calloc(SLOTS, sizeof *r->now), .before = calloc(SLOTS, sizeof *r->now)};
    r->seed = hash_seed(r->now);
    return r->now && r->before;
}

void recent_free(recent *r)
{
    free(r->now);
    free(r->before);
    *r = (recent){0};
}

/* Distinct (time, tid) pairs of one generation collide with a chance of about 2^-46 a pair. */
static uint64_t mix(uint64_t time, uint32_t tid)
{
    uint64_t h = (time ^ (uint64_t)tid << 40) * 0x9e3779b97f4a7c15u;
    h ^= h >> 31;
    h = (h + tid) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
    return h ? h : 1;
}

static size_t slot_of(const recent *r, const uint64_t *set, uint64_t key)
{
    size_t at = hash_u64(r->seed, key) & (SLOTS - 1);
    while (set[at] && set[at] != key)
        at = (at + 1) & (SLOTS - 1);
    return at;
}

void recent_add(recent *r, uint64_t time, uint32_t tid)
{
    if (r->used == USED_MAX) {
        uint64_t *oldest = r->before;
        r->before = r->now;
        r->now = oldest;
        memset(r->now, 0, SLOTS * sizeof *r->now);
        r->used = 0;
    }
    uint64_t key = mix(time, tid);
    size_t at = slot_of(r, r->now, key);
    r->used += r->now[at] == 0;
    r->now[at] = key;
}

bool recent_has(const recent *r, uint64_t time, uint32_t tid)
{
    uint64_t key = mix(time, tid);
    return r->now[slot_of(r, r->now, key)] == key || r->before[slot_of(r, r->before, key)] == key;
}
