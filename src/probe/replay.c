/*
 * From a thread's events to the values of its paths, for a part of its time: see
 * session_internal.h. An event names its path, so an interval finds its node without a stack: it
 * belongs to the path that was left, and at an entry to the one above. The stack of open calls is
 * only for what a single call took.
 */
#include <probe/session_internal.h>

#include <stdlib.h>

/* A call that was entered inside the window, and what it took so far: of elapsed and application
 * time, inclusive and exclusive. */
typedef struct open_call {
    uint32_t node;
    uint64_t elapsed_at_entry, application_at_entry;
    uint64_t children_elapsed, children_application;
} open_call;

typedef struct replay {
    spgo_spp_node *nodes;
    uint32_t count;
    uint64_t from, to;
    open_call *stack;
    size_t depth, capacity;
    uint64_t elapsed, application; /* so far, inside the window */
} replay;

static void add_interval(replay *r, const spp_event *e)
{
    const uint64_t start = e->clock - e->since;
    const uint64_t from = start > r->from ? start : r->from;
    const uint64_t to = e->clock < r->to ? e->clock : r->to;
    const uint32_t number = e->kind == SPGO_SPP_ENTER ? r->nodes[e->node].parent : e->node;
    if (from >= to || number >= r->count)
        return;
    spgo_spp_node *n = &r->nodes[number];
    n->elapsed_exclusive += to - from;
    r->elapsed += to - from;
    if (e->has_os_event) {
        n->os_events += n->os_events != UINT32_MAX;
    } else {
        n->application_exclusive += to - from;
        r->application += to - from;
    }
}

static void note_call(spgo_spp_node *n, const uint64_t values[4])
{
    for (int i = 0; i < 4; i++) {
        if (~values[i] > n->not_min[i])
            n->not_min[i] = ~values[i];
        if (values[i] > n->max[i])
            n->max[i] = values[i];
    }
}

static void close_call(replay *r)
{
    const open_call c = r->stack[--r->depth];
    const uint64_t elapsed = r->elapsed - c.elapsed_at_entry;
    const uint64_t application = r->application - c.application_at_entry;
    const uint64_t values[4] = {elapsed, application, elapsed - c.children_elapsed,
                                application - c.children_application};
    note_call(&r->nodes[c.node], values);
    if (r->depth > 0) {
        r->stack[r->depth - 1].children_elapsed += elapsed;
        r->stack[r->depth - 1].children_application += application;
    }
}

static bool enter(replay *r, uint32_t node)
{
    r->nodes[node].calls++;
    if (!probe_grow((void **)&r->stack, r->depth, &r->capacity, sizeof *r->stack))
        return false;
    r->stack[r->depth++] = (open_call){node, r->elapsed, r->application, 0, 0};
    return true;
}

/* Calls above whose exits never came are over too. One that is not there was entered before. */
static void leave(replay *r, uint32_t node)
{
    size_t at = r->depth;
    while (at > 0 && r->stack[at - 1].node != node)
        at--;
    while (at > 0 && r->depth >= at)
        close_call(r);
}

bool probe_replay(const spp_thread *t, uint64_t from, uint64_t to, spgo_spp_node *nodes,
                  uint32_t count)
{
    replay r = {.nodes = nodes, .count = count, .from = from, .to = to};
    spp_events events = spp_events_of(t);
    spp_event e;
    bool good = true;
    while (good && spp_next_event(&events, &e)) {
        if (e.node >= count || e.clock - e.since >= to)
            continue;
        add_interval(&r, &e);
        if (e.clock < from || e.clock >= to)
            continue;
        if (e.kind == SPGO_SPP_ENTER)
            good = enter(&r, e.node);
        else
            leave(&r, e.node);
    }
    free(r.stack);
    return good;
}
