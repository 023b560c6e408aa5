/* Reachability, and shortest paths from and to the parts of a flow that hang in the air. */
#include <profile/inference_paths.h>

#include <math.h>

#define NONE UINT32_MAX

bool inference_ways_list(const inference_graph *g, bool against, arena *mem, inference_ways *out)
{
    *out = (inference_ways){.graph = g, .against = against};
    out->start = arena_push(mem, g->block_count + 1, sizeof *out->start);
    out->jumps = arena_push(mem, g->jump_count, sizeof *out->jumps);
    if (!out->start || !out->jumps)
        return false;
    for (size_t j = 0; j < g->jump_count; j++)
        out->start[against ? g->jumps[j].to : g->jumps[j].from]++;
    uint32_t sum = 0;
    for (size_t b = 0; b <= g->block_count; b++)
        sum = out->start[b] += sum;
    for (size_t j = g->jump_count; j-- > 0;)
        out->jumps[--out->start[against ? g->jumps[j].to : g->jumps[j].from]] = (uint32_t)j;
    return true;
}

/* Marks what can be reached from a block; queue has room for all blocks. */
static void mark_from(const inference_ways *w, uint32_t block, bool *reached, uint32_t *queue)
{
    size_t head = 0, tail = 0;
    if (reached[block])
        return;
    reached[block] = true;
    queue[tail++] = block;
    while (head < tail) {
        uint32_t b = queue[head++];
        for (uint32_t i = w->start[b]; i < w->start[b + 1]; i++) {
            uint32_t next = inference_ways_next(w, w->jumps[i]);
            if (!reached[next]) {
                reached[next] = true;
                queue[tail++] = next;
            }
        }
    }
}

/* Blocks that are not yet `seen` in the order in which a depth-first walk is done with them;
 * returns how many. */
static size_t finish_order(const inference_ways *w, bool *seen, uint32_t *next_way, uint32_t *stack,
                           uint32_t *order)
{
    size_t count = 0;
    for (uint32_t root = 0; root < w->graph->block_count; root++) {
        size_t depth = 0;
        if (!seen[root])
            stack[depth++] = root;
        seen[root] = true;
        while (depth > 0) {
            uint32_t b = stack[depth - 1];
            if (next_way[b] == w->start[b + 1]) {
                order[count++] = b;
                depth--;
                continue;
            }
            uint32_t to = inference_ways_next(w, w->jumps[next_way[b]++]);
            if (!seen[to])
                stack[depth++] = to;
            seen[to] = true;
        }
    }
    return count;
}

bool inference_complete_starts(const inference_ways *w, bool *is_start, arena *mem)
{
    size_t n = w->graph->block_count;
    bool *reached = arena_push(mem, n, sizeof *reached);
    bool *seen = arena_push(mem, n, sizeof *seen);
    uint32_t *queue = arena_push(mem, n, sizeof *queue);
    uint32_t *order = arena_push(mem, n, sizeof *order);
    uint32_t *next_way = arena_push(mem, n, sizeof *next_way);
    if (!reached || !seen || !queue || !order || !next_way)
        return false;
    for (uint32_t b = 0; b < n; b++) {
        if (is_start[b])
            mark_from(w, b, reached, queue);
    }
    for (size_t b = 0; b < n; b++) {
        seen[b] = reached[b];
        next_way[b] = w->start[b];
    }
    /* The block that a walk is done with last is in a part that no other part leads to; without
     * what it reaches, the same holds for the last of the others (Kosaraju, Sharir). */
    for (size_t i = finish_order(w, seen, next_way, queue, order); i-- > 0;) {
        if (!reached[order[i]]) {
            is_start[order[i]] = true;
            mark_from(w, order[i], reached, queue);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ shortest paths */

typedef struct heap_item {
    double distance;
    uint32_t block;
} heap_item;

typedef struct heap {
    heap_item *items;
    size_t count;
} heap;

/* Ties go by the block, so that the order of equals does not depend on the heap. */
static bool before(heap_item a, heap_item b)
{
    return a.distance < b.distance || (!(b.distance < a.distance) && a.block < b.block);
}

static void heap_put(heap *h, heap_item item)
{
    size_t i = h->count++;
    for (; i > 0 && before(item, h->items[(i - 1) / 2]); i = (i - 1) / 2)
        h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = item;
}

static heap_item heap_take(heap *h)
{
    heap_item top = h->items[0], last = h->items[--h->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && before(h->items[child + 1], h->items[child]))
            child++;
        if (!before(h->items[child], last))
            break;
        h->items[i] = h->items[child];
    }
    h->items[i] = last;
    return top;
}

/* How each block is reached best: along which jump, NONE at a start and where there is no way. */
typedef struct path_tree {
    double *distance;
    uint32_t *jump;
} path_tree;

/* Jumps with much flow are short; one without is longer than any path of those, and an unlikely one
 * longer than any path at all. */
static double jump_length(const inference_graph *g, const inference_jump *j)
{
    double longest = 2.0 * ((double)g->block_count + 1);
    if (j->is_unlikely || g->blocks[j->to].is_unlikely)
        return longest * longest;
    return j->flow > 0 ? 1 + 1 / (double)j->flow : longest;
}

static bool shortest_paths(const inference_ways *w, const bool *is_start, arena *mem,
                           path_tree *out)
{
    const inference_graph *g = w->graph;
    size_t n = g->block_count;
    heap h = {.items = arena_push(mem, n + g->jump_count, sizeof *h.items)};
    out->distance = arena_push(mem, n, sizeof *out->distance);
    out->jump = arena_push(mem, n, sizeof *out->jump);
    if (!h.items || !out->distance || !out->jump)
        return false;
    for (uint32_t b = 0; b < n; b++) {
        out->distance[b] = is_start[b] ? 0 : INFINITY;
        out->jump[b] = NONE;
        if (is_start[b])
            heap_put(&h, (heap_item){0, b});
    }
    while (h.count > 0) {
        heap_item at = heap_take(&h);
        if (at.distance > out->distance[at.block])
            continue;
        for (uint32_t i = w->start[at.block]; i < w->start[at.block + 1]; i++) {
            uint32_t jump = w->jumps[i], next = inference_ways_next(w, jump);
            double distance = at.distance + jump_length(g, &g->jumps[jump]);
            if (distance < out->distance[next]) {
                out->distance[next] = distance;
                out->jump[next] = jump;
                heap_put(&h, (heap_item){distance, next});
            }
        }
    }
    return true;
}

/* ------------------------------------------------------------------ islands */

static void reach_by_flow(const inference_ways *out, uint32_t block, bool *reached, uint32_t *stack)
{
    const inference_graph *g = out->graph;
    size_t depth = 0;
    if (!reached[block])
        stack[depth++] = block;
    reached[block] = true;
    while (depth > 0) {
        uint32_t b = stack[--depth];
        for (uint32_t i = out->start[b]; i < out->start[b + 1]; i++) {
            const inference_jump *j = &g->jumps[out->jumps[i]];
            if (j->flow > 0 && !reached[j->to]) {
                reached[j->to] = true;
                stack[depth++] = j->to;
            }
        }
    }
}

/* One unit along the best path through a block. Blocks of the path count as reached, and what
 * they lead to. */
static void join(inference_graph *g, const inference_ways *out, const path_tree *from_entry,
                 const path_tree *to_exit, uint32_t block, bool *reached, uint32_t *stack,
                 uint64_t *work)
{
    uint64_t steps = 1;
    g->blocks[block].flow++;
    for (uint32_t b = block; from_entry->jump[b] != NONE; steps++) {
        inference_jump *j = &g->jumps[from_entry->jump[b]];
        j->flow++;
        b = j->from;
        g->blocks[b].flow++;
        reach_by_flow(out, b, reached, stack);
    }
    reach_by_flow(out, block, reached, stack);
    for (uint32_t b = block; to_exit->jump[b] != NONE; steps++) {
        inference_jump *j = &g->jumps[to_exit->jump[b]];
        j->flow++;
        b = j->to;
        g->blocks[b].flow++;
        reach_by_flow(out, b, reached, stack);
    }
    *work -= steps < *work ? steps : *work;
}

bool inference_join_islands(inference_graph *g, const bool *enters, const bool *leaves,
                            uint64_t *work, arena *mem)
{
    inference_ways out, in;
    bool *reached = arena_push(mem, g->block_count, sizeof *reached);
    uint32_t *stack = arena_push(mem, g->block_count, sizeof *stack);
    if (!reached || !stack || !inference_ways_list(g, false, mem, &out))
        return false;
    for (uint32_t b = 0; b < g->block_count; b++) {
        if (enters[b])
            reach_by_flow(&out, b, reached, stack);
    }
    path_tree from_entry = {0}, to_exit = {0};
    for (uint32_t b = 0; b<g->block_count && * work> 0; b++) {
        if (g->blocks[b].flow == 0 || reached[b])
            continue;
        if (!from_entry.jump && (!inference_ways_list(g, true, mem, &in) ||
                                 !shortest_paths(&out, enters, mem, &from_entry) ||
                                 !shortest_paths(&in, leaves, mem, &to_exit)))
            return false;
        join(g, &out, &from_entry, &to_exit, b, reached, stack, work);
    }
    return true;
}
