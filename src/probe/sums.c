/*
 * The rule. Each node of the tree has its own exclusive values; here they become inclusive ones: of
 * nodes by adding up subtrees, of functions, modules and pairs of caller and callee by adding the
 * subtree of every node above which the same function (module, pair) does not stand already. One
 * walk over the tree with a count of how often each stands on the way does it.
 */
#include <probe/session_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

static void add_own(probe_values *to, const probe_values *v)
{
    to->calls += v->calls;
    to->os_events += v->os_events;
    to->ns[PROBE_ELAPSED_EXCLUSIVE] += v->ns[PROBE_ELAPSED_EXCLUSIVE];
    to->ns[PROBE_APPLICATION_EXCLUSIVE] += v->ns[PROBE_APPLICATION_EXCLUSIVE];
    to->on_cpu_ns[1] += v->on_cpu_ns[1];
    to->overhead_ns[1] += v->overhead_ns[1];
    for (int i = 0; v->has_range && i < PROBE_FAMILIES; i++) {
        if (!to->has_range || v->min_ns[i] < to->min_ns[i])
            to->min_ns[i] = v->min_ns[i];
        if (!to->has_range || v->max_ns[i] > to->max_ns[i])
            to->max_ns[i] = v->max_ns[i];
    }
    to->has_range |= v->has_range;
}

static void add_subtree(probe_values *to, const probe_values *v)
{
    to->ns[PROBE_ELAPSED_INCLUSIVE] += v->ns[PROBE_ELAPSED_INCLUSIVE];
    to->ns[PROBE_APPLICATION_INCLUSIVE] += v->ns[PROBE_APPLICATION_INCLUSIVE];
    to->on_cpu_ns[0] += v->on_cpu_ns[0];
    to->overhead_ns[0] += v->overhead_ns[0];
}

/* Children before parents: a node comes behind its parent in the list. */
static void sum_subtrees(probe_session *s)
{
    for (size_t i = s->node_count; i-- > 0;) {
        probe_values *v = &s->nodes[i].values;
        v->ns[PROBE_ELAPSED_INCLUSIVE] += v->ns[PROBE_ELAPSED_EXCLUSIVE];
        v->ns[PROBE_APPLICATION_INCLUSIVE] += v->ns[PROBE_APPLICATION_EXCLUSIVE];
        v->on_cpu_ns[0] += v->on_cpu_ns[1];
        v->overhead_ns[0] += v->overhead_ns[1];
        if (i > 0)
            add_subtree(&s->nodes[s->nodes[i].parent].values, v);
    }
}

/* ------------------------------------------------------------------ children in order */

static int falling(double a, double b)
{
    return a > b ? -1 : a < b;
}

/* What a node is ordered by, and which it is. */
typedef struct sibling {
    uint32_t node, parent, function;
    double elapsed_ns;
} sibling;

static int sibling_order(const void *pa, const void *pb)
{
    const sibling *a = pa, *b = pb;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    const int by_time = falling(a->elapsed_ns, b->elapsed_ns);
    if (by_time != 0)
        return by_time;
    return a->function < b->function ? -1 : a->function > b->function;
}

static bool link_children(probe_session *s)
{
    sibling *order = malloc(s->node_count * sizeof *order);
    if (!order)
        return false;
    for (uint32_t i = 0; i < s->node_count; i++) {
        const probe_node *n = &s->nodes[i];
        order[i] = (sibling){i, n->parent, n->function, n->values.ns[PROBE_ELAPSED_INCLUSIVE]};
    }
    qsort(order + 1, s->node_count - 1, sizeof *order, sibling_order);
    for (size_t i = s->node_count; i-- > 1;) {
        probe_node *n = &s->nodes[order[i].node], *parent = &s->nodes[n->parent];
        n->next_sibling = parent->first_child;
        parent->first_child = order[i].node;
    }
    free(order);
    return true;
}

/* ------------------------------------------------------------------ on the way */

typedef struct walk {
    probe_session *s;
    uint32_t *functions, *modules, *pairs; /* how often each stands on the way to the node */
    size_t pair_counts_capacity;
} walk;

static uint32_t pair_of(walk *w, const probe_node *n)
{
    probe_session *s = w->s;
    const uint32_t caller = s->nodes[n->parent].function;
    uint32_t *slot = probe_key_slot(&s->pair_keys, caller, n->function);
    if (!slot)
        return PROBE_NONE;
    if (!*slot) {
        if (!probe_grow((void **)&s->pairs, s->pair_count, &s->pair_capacity, sizeof *s->pairs) ||
            !probe_grow((void **)&w->pairs, s->pair_count, &w->pair_counts_capacity,
                        sizeof *w->pairs))
            return PROBE_NONE;
        s->pairs[s->pair_count] = (probe_call_pair){.caller = caller, .callee = n->function};
        w->pairs[s->pair_count] = 0;
        *slot = (uint32_t)++s->pair_count;
    }
    return *slot - 1;
}

static bool enter(walk *w, const probe_node *n)
{
    probe_session *s = w->s;
    probe_function *f = &s->functions[n->function];
    probe_module *m = &s->modules[f->module];
    const uint32_t pair = pair_of(w, n);
    if (pair == PROBE_NONE)
        return false;
    probe_values *const sums[3] = {&f->values, &m->values, &s->pairs[pair].values};
    uint32_t *const counts[3] = {&w->functions[n->function], &w->modules[f->module],
                                 &w->pairs[pair]};
    for (int i = 0; i < 3; i++) {
        add_own(sums[i], &n->values);
        if ((*counts[i])++ == 0)
            add_subtree(sums[i], &n->values);
    }
    return true;
}

static void leave(walk *w, const probe_node *n)
{
    probe_session *s = w->s;
    w->functions[n->function]--;
    w->modules[s->functions[n->function].module]--;
    w->pairs[pair_of(w, n)]--;
}

/* Depth first without recursion: paths can be as deep as a program's stack. */
static bool walk_tree(walk *w)
{
    const probe_node *nodes = w->s->nodes;
    uint32_t at = nodes[0].first_child;
    while (at != PROBE_NONE) {
        if (!enter(w, &nodes[at]))
            return false;
        if (nodes[at].first_child != PROBE_NONE) {
            at = nodes[at].first_child;
            continue;
        }
        while (at != 0 && nodes[at].next_sibling == PROBE_NONE) {
            leave(w, &nodes[at]);
            at = nodes[at].parent;
        }
        if (at == 0)
            break;
        leave(w, &nodes[at]);
        at = nodes[at].next_sibling;
    }
    return true;
}

/* ------------------------------------------------------------------ lists in order */

static int pair_order(const void *pa, const void *pb)
{
    const probe_call_pair *a = pa, *b = pb;
    if (a->callee != b->callee)
        return a->callee < b->callee ? -1 : 1;
    const int by_time =
        falling(a->values.ns[PROBE_ELAPSED_INCLUSIVE], b->values.ns[PROBE_ELAPSED_INCLUSIVE]);
    if (by_time != 0)
        return by_time;
    return a->caller < b->caller ? -1 : a->caller > b->caller;
}

static int mark_order(const void *pa, const void *pb)
{
    const probe_mark *a = pa, *b = pb;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

/* Of a thread or process all time is inclusive: some function of it was on the stack. */
static void make_inclusive(probe_values *v)
{
    v->ns[PROBE_ELAPSED_INCLUSIVE] = v->ns[PROBE_ELAPSED_EXCLUSIVE];
    v->ns[PROBE_APPLICATION_INCLUSIVE] = v->ns[PROBE_APPLICATION_EXCLUSIVE];
    v->on_cpu_ns[0] = v->on_cpu_ns[1];
    v->overhead_ns[0] = v->overhead_ns[1];
}

static void sum_threads(probe_session *s)
{
    for (size_t i = 0; i < s->thread_count; i++) {
        probe_thread_info *t = &s->threads[i];
        add_own(&s->processes[t->process].values, &t->values);
        add_own(&s->view.total, &t->values);
        make_inclusive(&t->values);
    }
    for (size_t i = 0; i < s->process_count; i++)
        make_inclusive(&s->processes[i].values);
    make_inclusive(&s->view.total);
}

static void fill_view(probe_session *s)
{
    probe_view *v = &s->view;
    v->processes = s->processes;
    v->process_count = s->process_count;
    v->threads = s->threads;
    v->thread_count = s->thread_count;
    v->modules = s->modules;
    v->module_count = s->module_count;
    v->functions = s->functions;
    v->function_count = s->function_count;
    v->nodes = s->nodes;
    v->node_count = s->node_count;
    v->pairs = s->pairs;
    v->pair_count = s->pair_count;
    v->marks = s->marks;
    v->mark_count = s->mark_count;
}

spgo_code probe_session_close(probe_session *s, spgo_error *err)
{
    walk w = {.s = s,
              .functions = calloc(s->function_count + 1, sizeof *w.functions),
              .modules = calloc(s->module_count + 1, sizeof *w.modules)};
    bool good = w.functions && w.modules;
    if (good && s->node_count > 0) {
        sum_subtrees(s);
        good = link_children(s) && walk_tree(&w);
    }
    free(w.functions);
    free(w.modules);
    free(w.pairs);
    if (!good)
        return spgo_fail_nomem(err, "sums over calls", s->node_count * sizeof *s->nodes);
    sum_threads(s);
    if (s->pair_count > 0)
        qsort(s->pairs, s->pair_count, sizeof *s->pairs, pair_order);
    if (s->mark_count > 0)
        qsort(s->marks, s->mark_count, sizeof *s->marks, mark_order);
    fill_view(s);
    return SPGO_OK;
}
