/* The tree of functions and inlined calls that correlation fills, and the rules for their names. */
#include <profile/correlate_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/hash.h>
#include <base/text.h>

/* ------------------------------------------------------------------ names */

/* The part before `suffix`, if only one word follows it: "f.llvm.123", not "f.llvm.123.x". The last
 * point of the name is then that of the suffix, which ends with one. */
static spgo_str without_suffix(spgo_str name, spgo_str suffix)
{
    size_t end = name.len;
    while (end > 0 && name.ptr[end - 1] != '.')
        end--;
    bool has_suffix =
        end >= suffix.len && memcmp(name.ptr + end - suffix.len, suffix.ptr, suffix.len) == 0;
    return has_suffix ? (spgo_str){name.ptr, end - suffix.len} : name;
}

spgo_str correlate_canonical_name(spgo_str name)
{
    name = without_suffix(name, text_str(".llvm."));
    return without_suffix(name, text_str(".part."));
}

static bool has_only_letters(spgo_str name, const char *but)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < ' ' || c == 0x7f || (c < 0x80 && strchr(but, c)))
            return false;
    }
    return true;
}

/* In the text form a line that starts with a space is a body line, '#' a comment and '[' a context;
 * behind a place a digit begins a count. Objective-C names have colons and spaces: the last two
 * colons of a line are the ones that count. */
bool correlate_name_is_usable(spgo_str name)
{
    return name.len > 0 && !strchr(" #[0123456789", name.ptr[0]) && has_only_letters(name, "");
}

bool correlate_target_is_usable(spgo_str name)
{
    return correlate_name_is_usable(name) && has_only_letters(name, " :");
}

/* Compilers make many functions of these names, which all would share one profile: useless for
 * each of them. */
static bool is_ambiguous(spgo_str name)
{
    static const char *const prefixes[] = {"__cxx_global_var_init", "__tls_init"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t len = strlen(prefixes[i]);
        if (name.len >= len && memcmp(name.ptr, prefixes[i], len) == 0)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ tree */

void tree_init(tree *t, sampleprof *profile, correlate_tally *tally)
{
    *t = (tree){.profile = profile, .tally = tally, .seed = hash_seed(t)};
}

void tree_close(tree *t)
{
    free(t->nodes);
    free(t->slots);
    *t = (tree){0};
}

static size_t slot_of(const tree *t, const void *key, const void *key2)
{
    uint64_t hash = hash_u64(hash_u64(t->seed, (uintptr_t)key), (uintptr_t)key2);
    size_t mask = t->slot_count - 1, slot = (size_t)hash & mask;
    for (; t->slots[slot] != 0; slot = (slot + 1) & mask) {
        const tree_node *n = &t->nodes[t->slots[slot] - 1];
        if (n->keys[0] == key && n->keys[1] == key2)
            break;
    }
    return slot;
}

uint32_t tree_find(const tree *t, const void *key, const void *key2)
{
    return t->slot_count == 0 ? TREE_NONE : t->slots[slot_of(t, key, key2)] - 1;
}

static bool grow(tree *t)
{
    size_t capacity = t->capacity ? 2 * t->capacity : 256;
    if (capacity > UINT32_MAX / 2)
        return false;
    tree_node *nodes = realloc(t->nodes, capacity * sizeof *nodes);
    if (!nodes)
        return false;
    t->nodes = nodes;
    uint32_t *slots = calloc(2 * capacity, sizeof *slots);
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->slot_count = 2 * capacity;
    t->capacity = capacity;
    for (size_t i = 0; i < t->count; i++)
        t->slots[slot_of(t, nodes[i].keys[0], nodes[i].keys[1])] = (uint32_t)(i + 1);
    return true;
}

/* The profile's function of a new node. */
static sampleprof_function *find_function(tree *t, uint32_t parent, sampleprof_place place,
                                          spgo_str name)
{
    if (parent != TREE_NONE && !t->nodes[parent].function)
        return NULL;
    if (!correlate_name_is_usable(name)) {
        t->tally->names_unusable += name.len > 0;
        return NULL;
    }
    if (is_ambiguous(name))
        return NULL;
    sampleprof_function *f =
        parent == TREE_NONE
            ? sampleprof_function_named(t->profile, name)
            : sampleprof_inlined(t->profile, t->nodes[parent].function, place, name);
    t->failed |= !f;
    return f;
}

uint32_t tree_add(tree *t, const void *key, const void *key2, uint32_t parent,
                  sampleprof_place place, spgo_str name)
{
    if (t->failed || (t->count == t->capacity && !grow(t))) {
        t->failed = true;
        return TREE_NONE;
    }
    sampleprof_function *f = find_function(t, parent, place, name);
    if (t->failed)
        return TREE_NONE;
    t->nodes[t->count] = (tree_node){
        .keys = {key, key2},
        .function = f,
        .parent = parent,
        .depth = parent == TREE_NONE ? 0 : t->nodes[parent].depth + 1,
    };
    t->slots[slot_of(t, key, key2)] = (uint32_t)(t->count + 1);
    return (uint32_t)t->count++;
}

static void add_up_totals(tree *t)
{
    for (size_t i = t->count; i-- > 0;) {
        tree_node *n = &t->nodes[i];
        if (n->function)
            sampleprof_add_total(n->function, n->total);
        if (n->parent != TREE_NONE)
            t->nodes[n->parent].total = saturating_add(t->nodes[n->parent].total, n->total);
    }
}

/* Calls that were seen must have been executed, even if ranges missed them. */
static bool raise_to_targets(tree *t, sampleprof_function *f)
{
    size_t count = 0;
    const sampleprof_line *lines = sampleprof_lines(f, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < lines[i].target_count; k++)
            sum = saturating_add(sum, lines[i].targets[k].count);
        if (sum <= lines[i].count)
            continue;
        if (!sampleprof_raise_line(t->profile, f, lines[i].place, sum))
            return false;
        lines = sampleprof_lines(f, &count); /* a change may have moved them */
    }
    return true;
}

static int by_function(const void *a, const void *b)
{
    const tree_node *x = *(const tree_node *const *)a, *y = *(const tree_node *const *)b;
    uintptr_t f = (uintptr_t)x->function, g = (uintptr_t)y->function;
    if (f != g)
        return f < g ? -1 : 1;
    return (int)y->line_source - (int)x->line_source; /* the worst first */
}

static spgo_code finish_top(tree *t, const tree_node **top, size_t count)
{
    qsort(top, count, sizeof *top, by_function);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && top[i]->function == top[i - 1]->function)
            continue;
        if (!raise_to_targets(t, top[i]->function))
            return SPGO_NOMEM;
        t->tally->functions++;
        if (top[i]->line_source == SYMBOL_LINE_DECLARED)
            t->tally->functions_exact++;
        else
            t->tally->functions_approximate++;
    }
    return SPGO_OK;
}

spgo_code tree_finish(tree *t, spgo_error *err)
{
    const tree_node **top = calloc(t->count + 1, sizeof *top);
    if (!top || t->failed) {
        free(top);
        return spgo_fail_nomem(err, "correlate", t->count * sizeof *top);
    }
    add_up_totals(t);
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->nodes[i].parent == TREE_NONE && t->nodes[i].function)
            top[count++] = &t->nodes[i];
    }
    spgo_code code = finish_top(t, top, count);
    free(top);
    return code == SPGO_OK ? code : spgo_fail_nomem(err, "correlate", sizeof(sampleprof_line));
}
