/*
 * A thread's tree of calls. Its nodes have consecutive addresses, though they stand in chunks
 * anywhere in the file: a range of addresses is reserved, and chunks are mapped into it one after
 * the other. So a node's number is its place, and finding the child that was called last, which is
 * nearly always the one that is called now, is one load.
 *
 * Node 1 does not exist as such: where there is no memory for another path, its calls go to node 3,
 * a child of the root without a function, so that no time is lost.
 */
#include "runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { INDEX_SLOTS_FIRST = 1024, OVERFLOW_NODE = SPGO_SPP_ROOT + 1 };

static COLD uint32_t hash(uint32_t parent, uint64_t function)
{
    uint64_t h = (function ^ (uint64_t)parent << 40) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    return (uint32_t)(h * 0xBF58476D1CE4E5B9u >> 32);
}

static COLD uint32_t *new_index(uint32_t slots)
{
    void *p = mmap(NULL, slots * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static COLD void put(probe_thread *t, uint32_t number)
{
    const spgo_spp_node *n = &t->nodes[number];
    uint32_t at = hash(n->parent, n->function) & (t->index_slots - 1);
    while (t->index[at])
        at = (at + 1) & (t->index_slots - 1);
    t->index[at] = number;
}

static COLD bool grow_index(probe_thread *t)
{
    const uint32_t slots = t->index_slots ? t->index_slots * 2 : INDEX_SLOTS_FIRST;
    uint32_t *index = new_index(slots), *old = t->index;
    const uint32_t old_slots = t->index_slots;
    if (!index)
        return false;
    t->index = index;
    t->index_slots = slots;
    for (uint32_t i = 0; i < old_slots; i++) {
        if (old[i])
            put(t, old[i]);
    }
    if (old)
        munmap(old, old_slots * sizeof *old);
    return true;
}

static COLD bool map_chunk(probe_thread *t)
{
    if (t->mapped_nodes >= PATHS_MAX)
        return false;
    const uint64_t off = probe_process_new_chunk(SPGO_SPP_TREE, t->number, t->tree_chunks);
    if (!off || !probe_process_map(off, SPGO_SPP_CHUNK_BYTES, t->nodes + t->mapped_nodes))
        return false;
    spgo_spp_chunk *head = (spgo_spp_chunk *)(t->nodes + t->mapped_nodes);
    head->used_bytes = SPGO_SPP_CHUNK_BYTES; /* untouched nodes are zero */
    t->node_count = t->mapped_nodes + (t->tree_chunks ? 1 : SPGO_SPP_ROOT);
    t->mapped_nodes += SPGO_SPP_NODES_PER_CHUNK;
    t->tree_chunks++;
    return true;
}

static COLD spgo_spp_node *new_node(probe_thread *t, uint32_t parent, uint64_t function)
{
    if (t->node_count == t->mapped_nodes && !map_chunk(t))
        return NULL;
    if (t->index_slots / 2 <= t->node_count && !grow_index(t))
        return NULL;
    const uint32_t number = t->node_count++;
    spgo_spp_node *n = &t->nodes[number];
    n->parent = parent;
    n->module = probe_modules_find((const void *)(uintptr_t)function);
    n->function = function;
    if (function)
        put(t, number);
    return n;
}

static COLD spgo_spp_node *find(const probe_thread *t, uint32_t parent, uint64_t function)
{
    uint32_t at = hash(parent, function) & (t->index_slots - 1);
    for (; t->index[at]; at = (at + 1) & (t->index_slots - 1)) {
        spgo_spp_node *n = &t->nodes[t->index[at]];
        if (n->parent == parent && n->function == function)
            return n;
    }
    return NULL;
}

COLD spgo_spp_node *probe_tree_child(probe_thread *t, spgo_spp_node *parent, void *function)
{
    spgo_spp_node *n = &t->nodes[parent->child];
    if (n->function == (uintptr_t)function && parent->child)
        return n;
    const int saved = errno;
    const uint32_t number = node_number(t, parent);
    n = find(t, number, (uintptr_t)function);
    if (!n && probe_select_is_left_out(function)) {
        errno = saved;
        return NULL;
    }
    if (!n) {
        n = new_node(t, number, (uintptr_t)function);
        t->last = probe_clock(); /* making a path is not the function's time */
    }
    if (n)
        parent->child = node_number(t, n);
    else
        n = &t->nodes[OVERFLOW_NODE];
    errno = saved;
    return n;
}

COLD void probe_tree_forget_unloaded(probe_thread *t)
{
    for (uint32_t i = SPGO_SPP_ROOT; i < t->node_count; i++) {
        spgo_spp_node *n = &t->nodes[i];
        if (i % SPGO_SPP_NODES_PER_CHUNK != 0 && probe_modules_is_unloaded(n->module))
            n->function |= SPGO_SPP_UNLOADED;
    }
}

COLD bool probe_tree_open(probe_thread *t)
{
    _Static_assert(sizeof(spgo_spp_node) == SPGO_SPP_NODE_BYTES, "node");
    _Static_assert(sizeof(spgo_spp_chunk) == SPGO_SPP_CHUNK_HEAD_BYTES, "chunk");
    _Static_assert(sizeof(spgo_spp_chunk) + sizeof(spgo_spp_thread) ==
                       (size_t)SPGO_SPP_ROOT * SPGO_SPP_NODE_BYTES,
                   "thread");
    t->nodes =
        mmap(NULL, TREE_BYTES_MAX, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->nodes == MAP_FAILED) {
        t->nodes = NULL;
        return false;
    }
    if (!new_node(t, 0, 0) || !new_node(t, SPGO_SPP_ROOT, 0))
        return false;
    t->record = (spgo_spp_thread *)((char *)t->nodes + sizeof(spgo_spp_chunk));
    return true;
}

COLD void probe_tree_close(probe_thread *t)
{
    if (t->nodes)
        munmap(t->nodes, TREE_BYTES_MAX);
    if (t->index)
        munmap(t->index, t->index_slots * sizeof *t->index);
}
