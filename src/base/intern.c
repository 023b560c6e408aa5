/* Equal texts once: see intern.h. */
#include <base/intern.h>

#include <base/hash.h>
#include <base/text.h>

#include <stdlib.h>

/* FNV-1a, whose low bits are mixed with the others at the end. */
uint64_t text_hash(uint64_t start, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t h = start;
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return hash_mix(h ^ len);
}

void intern_free(intern *t)
{
    arena_free(t->text);
    free(t->slots);
    *t = (intern){0};
}

static size_t slot_of(const intern *t, spgo_str s)
{
    size_t at = text_hash(t->seed, s.ptr, s.len) & (t->slot_count - 1);
    while (t->slots[at].ptr && !text_equal(t->slots[at], s))
        at = (at + 1) & (t->slot_count - 1);
    return at;
}

static bool grow(intern *t)
{
    intern bigger = *t;
    bigger.slot_count = t->slot_count ? t->slot_count * 2 : 64;
    bigger.slots = calloc(bigger.slot_count, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    bigger.seed = hash_seed(bigger.slots);
    for (size_t i = 0; i < t->slot_count; i++) {
        if (t->slots[i].ptr)
            bigger.slots[slot_of(&bigger, t->slots[i])] = t->slots[i];
    }
    free(t->slots);
    *t = bigger;
    return true;
}

spgo_str intern_add(intern *t, spgo_str s)
{
    spgo_str nothing = {"", 0};
    if (s.len == 0)
        return nothing;
    if (!t->text)
        t->text = arena_new(0);
    if (!t->text || (2 * t->used >= t->slot_count && !grow(t))) {
        t->failed = true;
        return nothing;
    }
    size_t at = slot_of(t, s);
    if (t->slots[at].ptr)
        return t->slots[at];
    char *copy = arena_copy_text(t->text, s.ptr, s.len);
    if (!copy) {
        t->failed = true;
        return nothing;
    }
    t->slots[at] = (spgo_str){copy, s.len};
    t->used++;
    return t->slots[at];
}
