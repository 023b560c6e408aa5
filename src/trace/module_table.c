/* The images of a run, each once: see timeline.h. */
#include <trace/timeline.h>

#include <base/guid.h>
#include <base/hash.h>
#include <base/intern.h>
#include <base/text.h>

#include <stdlib.h>
#include <string.h>

struct module_table {
    arena *text;
    trace_module *modules;
    size_t count, cap;
    uint32_t *slots; /* open addressing: index + 1, 0 free */
    size_t slot_count;
};

module_table *module_table_new(void)
{
    module_table *t = calloc(1, sizeof *t);
    if (t)
        t->text = arena_new(0);
    if (t && !t->text) {
        free(t);
        return NULL;
    }
    return t;
}

void module_table_free(module_table *t)
{
    if (!t)
        return;
    arena_free(t->text);
    free(t->modules);
    free(t->slots);
    free(t);
}

size_t module_table_count(const module_table *t)
{
    return t->count;
}

const trace_module *module_table_get(const module_table *t, uint32_t index)
{
    return index < t->count ? &t->modules[index] : NULL;
}

static uint64_t hash_of(const module_table *t, spgo_str name, const spgo_image_id *id)
{
    uint64_t h = text_hash(hash_seed(t), name.ptr, name.len);
    return id ? text_hash(h, id->guid.bytes, sizeof id->guid.bytes) : h;
}

static bool grow_slots(module_table *t)
{
    size_t slot_count = t->slot_count ? t->slot_count * 2 : 64;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        const trace_module *m = &t->modules[i];
        size_t at = hash_of(t, m->name, m->has_id ? &m->id : NULL) & (slot_count - 1);
        while (slots[at])
            at = (at + 1) & (slot_count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = slot_count;
    return true;
}

static bool grow_modules(module_table *t)
{
    size_t cap = t->cap ? t->cap * 2 : 32;
    trace_module *modules = realloc(t->modules, cap * sizeof *modules);
    if (!modules)
        return false;
    t->modules = modules;
    t->cap = cap;
    return true;
}

static bool is_module(const trace_module *m, spgo_str name, const spgo_image_id *id)
{
    if (m->has_id != (id != NULL) || !text_equal(m->name, name))
        return false;
    return !id || image_id_equal(&m->id, id);
}

uint32_t module_table_add(module_table *t, spgo_str path, const spgo_image_id *id)
{
    spgo_str name = text_base_name(path);
    if (2 * t->count >= t->slot_count && !grow_slots(t))
        return TIMELINE_NONE;
    size_t at = hash_of(t, name, id) & (t->slot_count - 1);
    for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1)) {
        if (is_module(&t->modules[t->slots[at] - 1], name, id))
            return t->slots[at] - 1;
    }
    if (t->count == t->cap && !grow_modules(t))
        return TIMELINE_NONE;
    char *copy = arena_copy_text(t->text, path.ptr, path.len);
    if (!copy)
        return TIMELINE_NONE;
    trace_module *m = &t->modules[t->count];
    *m = (trace_module){.path = {copy, path.len}, .has_id = id != NULL};
    m->name = text_base_name(m->path);
    if (id)
        m->id = *id;
    t->slots[at] = (uint32_t)++t->count;
    return (uint32_t)(t->count - 1);
}
