/*
 * The primal network simplex method. A spanning tree holds the arcs whose flow may be anything;
 * every other arc is empty or full. Prices of nodes make the arcs of the tree cost nothing; an arc
 * outside of it that then has a cost of the wrong sign closes a cycle along which turning flow
 * pays. Turning until an arc of the cycle is empty or full and exchanging it for the one that
 * entered is a pivot.
 *
 * The method fits here because nothing needs to flow: zero is a circulation, and each pivot makes a
 * better one of the last. So there is no phase that looks for a feasible flow, work can be cut off
 * anywhere, and the tree at the end tells which other flows are as good.
 *
 * From every node of the tree some flow could be sent to the root ("strongly feasible", Cunningham
 * 1976): the rule by which ties for the leaving arc are broken keeps it so, and with that a
 * sequence of pivots that move nothing cannot repeat itself.
 */
#include <profile/inference_network.h>

#include <math.h>

#define NONE UINT32_MAX

enum { EVEN_SWEEPS_MAX = 12 };

typedef struct tree_node {
    uint32_t parent, arc;             /* arc: between it and its parent */
    uint32_t first_child, next, prev; /* the children of a node are a list */
    uint32_t depth;
    int64_t price; /* of an arc of the tree: price[to] == price[from] + cost */
} tree_node;

typedef struct simplex {
    network *net;
    network_arc *arcs;
    tree_node *nodes;
    bool *in_tree;      /* by arc */
    uint32_t stretch;   /* arcs that are looked at before one may enter */
    uint32_t scan_next; /* where the search for an entering arc goes on */
    uint64_t work;
} simplex;

static void attach(tree_node *nodes, uint32_t child, uint32_t parent, uint32_t arc)
{
    tree_node *c = &nodes[child];
    c->parent = parent;
    c->arc = arc;
    c->prev = NONE;
    c->next = nodes[parent].first_child;
    if (c->next != NONE)
        nodes[c->next].prev = child;
    nodes[parent].first_child = child;
}

static void detach(tree_node *nodes, uint32_t child)
{
    const tree_node *c = &nodes[child];
    if (c->prev != NONE)
        nodes[c->prev].next = c->next;
    else
        nodes[c->parent].first_child = c->next;
    if (c->next != NONE)
        nodes[c->next].prev = c->prev;
}

/* ------------------------------------------------------------------ the first tree */

/* Arcs by the node they end at: those of node v are list[start[v]] to list[start[v + 1]]. */
static bool list_incoming(const network *net, arena *mem, uint32_t **start, uint32_t **list)
{
    *start = arena_push(mem, (size_t)net->node_count + 1, sizeof **start);
    *list = arena_push(mem, net->arc_count, sizeof **list);
    if (!*start || !*list)
        return false;
    for (size_t a = 0; a < net->arc_count; a++)
        (*start)[net->arcs[a].to]++;
    uint32_t sum = 0;
    for (uint32_t v = 0; v <= net->node_count; v++)
        sum = (*start)[v] += sum;
    for (size_t a = net->arc_count; a-- > 0;)
        (*list)[--(*start)[net->arcs[a].to]] = (uint32_t)a;
    return true;
}

/* Every node by a shortest way to the root. All arcs are empty and lead to the root, so that the
 * tree is strongly feasible. */
static bool plant(simplex *s, arena *mem)
{
    const network *net = s->net;
    uint32_t *start, *list;
    uint32_t *queue = arena_push(mem, net->node_count, sizeof *queue);
    if (!queue || !list_incoming(net, mem, &start, &list))
        return false;
    for (uint32_t v = 0; v < net->node_count; v++)
        s->nodes[v] = (tree_node){
            .parent = NONE, .arc = NONE, .first_child = NONE, .next = NONE, .prev = NONE};
    uint32_t head = 0, tail = 0;
    queue[tail++] = net->root;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (uint32_t i = start[v]; i < start[v + 1]; i++) {
            const network_arc *a = &net->arcs[list[i]];
            tree_node *u = &s->nodes[a->from];
            if (u->arc != NONE || a->from == net->root || a->capacity == 0)
                continue;
            attach(s->nodes, a->from, v, list[i]);
            s->in_tree[list[i]] = true;
            u->depth = s->nodes[v].depth + 1;
            u->price = s->nodes[v].price - a->cost;
            queue[tail++] = a->from;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ pivots */

static int64_t reduced_cost(const simplex *s, const network_arc *a)
{
    return a->cost + s->nodes[a->from].price - s->nodes[a->to].price;
}

/* What a unit turned through an arc outside of the tree saves; not above 0: nothing. */
static int64_t saving(const simplex *s, uint32_t arc)
{
    const network_arc *a = &s->arcs[arc];
    if (s->in_tree[arc] || a->capacity == 0)
        return 0;
    int64_t cost = reduced_cost(s, a);
    return a->flow == 0 ? -cost : cost;
}

/* The best of a stretch of arcs, stretch by stretch until there is one; NONE: the flow is one of
 * least cost. */
static uint32_t find_entering(simplex *s)
{
    uint32_t count = (uint32_t)s->net->arc_count;
    uint32_t best = NONE, at = s->scan_next;
    int64_t best_saving = 0;
    for (uint32_t seen = 1; seen <= count; seen++) {
        int64_t saved = saving(s, at);
        if (saved > best_saving) {
            best_saving = saved;
            best = at;
        }
        at = at + 1 < count ? at + 1 : 0;
        s->work++;
        if (best != NONE && seen % s->stretch == 0)
            break;
    }
    s->scan_next = at;
    return best;
}

/* A cycle: the tree's path from join down to `first`, the entering arc, and the path from `second`
 * up to join. Flow is turned in this direction. */
typedef struct cycle {
    uint32_t first, second, join;
    uint32_t entering;
    bool backwards; /* flow through the entering arc is taken back */
} cycle;

static cycle cycle_of(simplex *s, uint32_t arc)
{
    const network_arc *a = &s->arcs[arc];
    cycle c = {.entering = arc, .backwards = a->flow != 0};
    c.first = c.backwards ? a->to : a->from;
    c.second = c.backwards ? a->from : a->to;
    uint32_t u = c.first, v = c.second;
    while (u != v) {
        if (s->nodes[u].depth >= s->nodes[v].depth)
            u = s->nodes[u].parent;
        else
            v = s->nodes[v].parent;
        s->work++;
    }
    c.join = u;
    return c;
}

static uint64_t room(const network_arc *a, bool forwards)
{
    return forwards ? a->capacity - a->flow : a->flow;
}

static void turn(network_arc *a, bool forwards, uint64_t amount)
{
    a->flow = forwards ? a->flow + amount : a->flow - amount;
}

/* Does flow that goes up from a node to its parent go along the arc? */
static bool leads_up(const simplex *s, uint32_t node)
{
    return s->arcs[s->nodes[node].arc].from == node;
}

/* How much can be turned. *leaving: the node below the arc that stops it, NONE if it is the
 * entering one; of several the last in the direction of the cycle. */
static uint64_t find_leaving(const simplex *s, const cycle *c, uint32_t *leaving, bool *above_first)
{
    const tree_node *nodes = s->nodes;
    uint64_t amount = s->arcs[c->entering].capacity;
    *leaving = NONE;
    *above_first = false;
    for (uint32_t u = c->first; u != c->join; u = nodes[u].parent) {
        uint64_t r = room(&s->arcs[nodes[u].arc], !leads_up(s, u));
        if (r < amount) {
            amount = r;
            *leaving = u;
            *above_first = true;
        }
    }
    for (uint32_t v = c->second; v != c->join; v = nodes[v].parent) {
        uint64_t r = room(&s->arcs[nodes[v].arc], leads_up(s, v));
        if (r <= amount) {
            amount = r;
            *leaving = v;
            *above_first = false;
        }
    }
    return amount;
}

static void turn_cycle(simplex *s, const cycle *c, uint64_t amount)
{
    turn(&s->arcs[c->entering], !c->backwards, amount);
    for (uint32_t u = c->first; u != c->join; u = s->nodes[u].parent)
        turn(&s->arcs[s->nodes[u].arc], !leads_up(s, u), amount);
    for (uint32_t v = c->second; v != c->join; v = s->nodes[v].parent)
        turn(&s->arcs[s->nodes[v].arc], leads_up(s, v), amount);
}

/* Hangs the part of the tree below `cut` onto the other end of the entering arc: the path from
 * `top`, its end inside that part, up to `cut` turns over. */
static void rehang(simplex *s, uint32_t cut, uint32_t top, uint32_t onto, uint32_t entering)
{
    uint32_t node = top, parent = onto, arc = entering;
    for (;;) {
        uint32_t old_parent = s->nodes[node].parent;
        uint32_t old_arc = s->nodes[node].arc;
        detach(s->nodes, node);
        attach(s->nodes, node, parent, arc);
        s->work++;
        if (node == cut)
            return;
        parent = node;
        node = old_parent;
        arc = old_arc;
    }
}

/* Depths and prices below a node that was hung elsewhere. */
static void reprice(simplex *s, uint32_t top, int64_t change)
{
    tree_node *nodes = s->nodes;
    for (uint32_t v = top;;) {
        nodes[v].depth = nodes[nodes[v].parent].depth + 1;
        nodes[v].price += change;
        s->work++;
        if (nodes[v].first_child != NONE) {
            v = nodes[v].first_child;
            continue;
        }
        while (v != top && nodes[v].next == NONE)
            v = nodes[v].parent;
        if (v == top)
            return;
        v = nodes[v].next;
    }
}

static void pivot(simplex *s, uint32_t entering)
{
    cycle c = cycle_of(s, entering);
    uint32_t leaving;
    bool above_first;
    uint64_t amount = find_leaving(s, &c, &leaving, &above_first);
    if (amount > 0)
        turn_cycle(s, &c, amount);
    if (leaving == NONE)
        return;
    const network_arc *a = &s->arcs[entering];
    uint32_t top = above_first ? c.first : c.second;
    uint32_t onto = above_first ? c.second : c.first;
    int64_t cost = reduced_cost(s, a);
    s->in_tree[s->nodes[leaving].arc] = false;
    s->in_tree[entering] = true;
    rehang(s, leaving, top, onto, entering);
    reprice(s, top, top == a->from ? -cost : cost);
}

/* ------------------------------------------------------------------ evenness */

/* Adds an arc of a cycle to what decides how far to turn it: the sum of the flows of its groups in
 * its direction, how many they are, and the room both ways. */
typedef struct even_sum {
    double flow;
    uint32_t groups;
    uint64_t room_forwards, room_backwards;
} even_sum;

static void even_add(even_sum *sum, const network_arc *a, bool forwards, const uint64_t *flows)
{
    uint64_t f = room(a, forwards), b = room(a, !forwards);
    if (f < sum->room_forwards)
        sum->room_forwards = f;
    if (b < sum->room_backwards)
        sum->room_backwards = b;
    if (a->group != NETWORK_NO_GROUP) {
        double flow = (double)flows[a->group];
        sum->flow += forwards ? flow : -flow;
        sum->groups++;
    }
}

static void even_turn(network_arc *a, bool forwards, uint64_t amount, uint64_t *flows)
{
    turn(a, forwards, amount);
    if (a->group != NETWORK_NO_GROUP)
        flows[a->group] = forwards ? flows[a->group] + amount : flows[a->group] - amount;
}

/* Turns one cycle to where the squares of its groups' flows are least. */
static bool even_cycle(simplex *s, uint32_t arc, uint64_t *flows)
{
    cycle c = cycle_of(s, arc);
    network_arc *arcs = s->arcs;
    const tree_node *nodes = s->nodes;
    even_sum sum = {.room_forwards = NETWORK_UNBOUNDED, .room_backwards = NETWORK_UNBOUNDED};
    even_add(&sum, &arcs[arc], !c.backwards, flows);
    for (uint32_t u = c.first; u != c.join; u = nodes[u].parent)
        even_add(&sum, &arcs[nodes[u].arc], !leads_up(s, u), flows);
    for (uint32_t v = c.second; v != c.join; v = nodes[v].parent)
        even_add(&sum, &arcs[nodes[v].arc], leads_up(s, v), flows);
    if (sum.groups == 0)
        return false;
    bool forwards = sum.flow < 0;
    uint64_t most = forwards ? sum.room_forwards : sum.room_backwards;
    double wanted = fabs(sum.flow) / sum.groups;
    uint64_t amount = wanted < (double)most ? (uint64_t)wanted : most;
    if (amount == 0)
        return false;
    even_turn(&arcs[arc], !c.backwards == forwards, amount, flows);
    for (uint32_t u = c.first; u != c.join; u = nodes[u].parent)
        even_turn(&arcs[nodes[u].arc], !leads_up(s, u) == forwards, amount, flows);
    for (uint32_t v = c.second; v != c.join; v = nodes[v].parent)
        even_turn(&arcs[nodes[v].arc], leads_up(s, v) == forwards, amount, flows);
    return true;
}

/* Flows of the same cost differ by cycles of arcs that cost nothing at the final prices, and the
 * arcs outside of the tree close a basis of those. */
static bool even_out(simplex *s, arena *mem)
{
    network *net = s->net;
    uint64_t *flows = arena_push(mem, net->group_count, sizeof *flows);
    uint32_t *free_arcs = arena_push(mem, net->arc_count, sizeof *free_arcs);
    if (!flows || !free_arcs)
        return false;
    uint32_t free_count = 0;
    for (uint32_t a = 0; a < net->arc_count; a++) {
        const network_arc *arc = &s->arcs[a];
        if (arc->group != NETWORK_NO_GROUP)
            flows[arc->group] += arc->flow;
        if (!s->in_tree[a] && arc->capacity > 0 && reduced_cost(s, arc) == 0)
            free_arcs[free_count++] = a;
    }
    bool changed = true;
    for (int sweep = 0; changed && sweep < EVEN_SWEEPS_MAX; sweep++) {
        changed = false;
        for (uint32_t i = 0; i < free_count && s->work < net->work_max; i++)
            changed |= even_cycle(s, free_arcs[i], flows);
    }
    return true;
}

spgo_code network_solve(network *net, arena *mem, bool *exact, spgo_error *err)
{
    simplex s = {.net = net, .arcs = net->arcs};
    *exact = true;
    s.stretch = 16; /* and about the square root of all */
    while ((uint64_t)s.stretch * s.stretch < net->arc_count)
        s.stretch++;
    for (size_t a = 0; a < net->arc_count; a++)
        net->arcs[a].flow = 0;
    if (net->arc_count == 0)
        return SPGO_OK;
    s.nodes = arena_push(mem, net->node_count, sizeof *s.nodes);
    s.in_tree = arena_push(mem, net->arc_count, sizeof *s.in_tree);
    if (!s.nodes || !s.in_tree || !plant(&s, mem))
        return spgo_fail_nomem(err, "inference.network", net->node_count * sizeof *s.nodes);
    for (uint32_t entering; (entering = find_entering(&s)) != NONE;) {
        if (s.work >= net->work_max) {
            *exact = false;
            break;
        }
        pivot(&s, entering);
    }
    bool done = !*exact || even_out(&s, mem);
    net->work = s.work;
    if (!done)
        return spgo_fail_nomem(err, "inference.network", net->arc_count * sizeof(uint32_t));
    return SPGO_OK;
}
