/* From the files of processes to one tree of calls, and from it to every sum: see session.h. */
#include <probe/session_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/hash.h>

/* ------------------------------------------------------------------ growing lists and keys */

bool probe_grow(void **items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    const size_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*items, wanted * item_bytes);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

static uint64_t key_hash(const probe_key_table *t, uint64_t a, uint64_t b)
{
    return hash_u64(hash_u64(hash_seed(t->slots), a), b);
}

static bool rehash(probe_key_table *t)
{
    const size_t old_count = t->slot_count;
    probe_key *old = t->slots;
    t->slot_count = old_count ? old_count * 2 : 256;
    t->slots = calloc(t->slot_count, sizeof *t->slots);
    if (!t->slots) {
        t->slots = old;
        t->slot_count = old_count;
        return false;
    }
    for (size_t i = 0; i < old_count; i++) {
        if (!old[i].value)
            continue;
        size_t at = (size_t)key_hash(t, old[i].a, old[i].b) & (t->slot_count - 1);
        while (t->slots[at].value)
            at = (at + 1) & (t->slot_count - 1);
        t->slots[at] = old[i];
    }
    free(old);
    return true;
}

uint32_t *probe_key_slot(probe_key_table *t, uint64_t a, uint64_t b)
{
    if (t->used * 2 >= t->slot_count && !rehash(t))
        return NULL;
    size_t at = (size_t)key_hash(t, a, b) & (t->slot_count - 1);
    while (t->slots[at].value && (t->slots[at].a != a || t->slots[at].b != b))
        at = (at + 1) & (t->slot_count - 1);
    if (!t->slots[at].value) {
        t->slots[at].a = a;
        t->slots[at].b = b;
        t->used++;
    }
    return &t->slots[at].value;
}

/* ------------------------------------------------------------------ the session */

probe_session *probe_session_new(spgo_error *err)
{
    probe_session *s = calloc(1, sizeof *s);
    arena *mem = s ? arena_new(0) : NULL;
    if (!mem) {
        (void)spgo_fail_nomem(err, "probe session", sizeof *s);
        free(s);
        return NULL;
    }
    s->mem = mem;
    return s;
}

void probe_session_free(probe_session *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->timelines && i < s->thread_count; i++)
        free(s->timelines[i].functions);
    free(s->timelines);
    free(s->processes);
    free(s->threads);
    free(s->modules);
    free(s->functions);
    free(s->nodes);
    free(s->pairs);
    free(s->marks);
    free(s->node_keys.slots);
    free(s->function_keys.slots);
    free(s->pair_keys.slots);
    intern_free(&s->text);
    arena_free(s->mem);
    free(s);
}

/* ------------------------------------------------------------------ modules and functions */

static bool same_bytes(spgo_span a, spgo_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Few, and asked once for each module of a file. */
static uint32_t find_module(probe_session *s, const spp_module *m)
{
    const spgo_str path = m ? m->path : (spgo_str){0};
    const spgo_span id = m ? m->build_id : (spgo_span){0};
    for (size_t i = 0; i < s->module_count; i++) {
        const probe_module *k = &s->modules[i];
        if (k->path.len == path.len &&
            (path.len == 0 || memcmp(k->path.ptr, path.ptr, path.len) == 0) &&
            same_bytes(k->build_id, id))
            return (uint32_t)i;
    }
    if (!probe_grow((void **)&s->modules, s->module_count, &s->module_capacity, sizeof *s->modules))
        return PROBE_NONE;
    s->modules[s->module_count] = (probe_module){.path = path, .build_id = id};
    return (uint32_t)s->module_count++;
}

static uint32_t find_function(probe_session *s, uint32_t module, uint64_t addr)
{
    uint32_t *slot = probe_key_slot(&s->function_keys, module, addr);
    if (!slot || !probe_grow((void **)&s->functions, s->function_count, &s->function_capacity,
                             sizeof *s->functions))
        return PROBE_NONE;
    if (!*slot) {
        s->functions[s->function_count] = (probe_function){.module = module, .addr = addr};
        *slot = (uint32_t)++s->function_count;
    }
    return *slot - 1;
}

/* ------------------------------------------------------------------ one tree into another */

/* What turns a thread's numbers into the session's. */
typedef struct adding {
    probe_session *s;
    const spp_file *file;
    const spp_thread *thread;
    uint32_t *modules;     /* of the file, to the session's; the last: no module */
    uint32_t *nodes;       /* of the thread, to the session's; PROBE_NONE: left out */
    uint64_t *child_calls; /* of each node of the thread */
    double inside_ns, outside_ns;
    probe_thread_info *info;
} adding;

static uint32_t child_of(probe_session *s, uint32_t parent, uint32_t function)
{
    uint32_t *slot = probe_key_slot(&s->node_keys, parent, function);
    if (!slot ||
        !probe_grow((void **)&s->nodes, s->node_count, &s->node_capacity, sizeof *s->nodes))
        return PROBE_NONE;
    if (!*slot) {
        s->nodes[s->node_count] = (probe_node){.function = function,
                                               .parent = parent,
                                               .first_child = PROBE_NONE,
                                               .next_sibling = PROBE_NONE,
                                               .level = s->nodes[parent].level + 1};
        *slot = (uint32_t)++s->node_count;
    }
    return *slot - 1;
}

static bool add_root(probe_session *s)
{
    if (s->node_count > 0)
        return true;
    if (!probe_grow((void **)&s->nodes, 0, &s->node_capacity, sizeof *s->nodes))
        return false;
    s->nodes[0] = (probe_node){.function = PROBE_NONE,
                               .parent = PROBE_NONE,
                               .first_child = PROBE_NONE,
                               .next_sibling = PROBE_NONE};
    s->node_count = 1;
    return true;
}

static double above_zero(double v)
{
    return v > 0 ? v : 0;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* A node's own values; sums over subtrees come at the end. */
static void add_values(const adding *a, const spgo_spp_node *n, uint32_t number, probe_values *v)
{
    const double tick = a->file->ns_per_tick;
    const double elapsed = (double)n->elapsed_exclusive * tick;
    const double application = (double)n->application_exclusive * tick;
    const double cost =
        (double)n->calls * a->inside_ns + (double)a->child_calls[number] * a->outside_ns;
    const double taken = smaller(cost, elapsed);
    v->calls += n->calls;
    v->os_events += n->os_events;
    v->ns[PROBE_ELAPSED_EXCLUSIVE] += elapsed - taken;
    v->ns[PROBE_APPLICATION_EXCLUSIVE] += above_zero(application - taken);
    v->overhead_ns[1] += taken;
    if (a->file->header.os_events & SPGO_SPP_OS_SWITCH_TIME)
        v->on_cpu_ns[1] += above_zero(elapsed - taken - (double)n->off_cpu * tick);
}

/* Stored: elapsed and application inclusive, elapsed and application exclusive. */
static const uint8_t family_of_stored[4] = {PROBE_ELAPSED_INCLUSIVE, PROBE_APPLICATION_INCLUSIVE,
                                            PROBE_ELAPSED_EXCLUSIVE, PROBE_APPLICATION_EXCLUSIVE};

static void add_range(const adding *a, const spgo_spp_node *n, probe_values *v)
{
    const double tick = a->file->ns_per_tick;
    if (n->not_min[0] == 0)
        return; /* no call of it returned */
    for (int i = 0; i < 4; i++) {
        const unsigned family = family_of_stored[i];
        const double min = above_zero((double)~n->not_min[i] * tick - a->inside_ns);
        const double max = above_zero((double)n->max[i] * tick - a->inside_ns);
        if (!v->has_range || min < v->min_ns[family])
            v->min_ns[family] = min;
        if (!v->has_range || max > v->max_ns[family])
            v->max_ns[family] = max;
    }
    v->has_range = true;
}

static bool add_node(adding *a, uint32_t number, const spgo_spp_node *n)
{
    probe_session *s = a->s;
    const uint32_t parent = number == SPGO_SPP_ROOT ? 0 : a->nodes[n->parent];
    if (number == SPGO_SPP_ROOT) {
        a->nodes[number] = 0;
        a->info->outside_ns += (double)n->elapsed_exclusive * a->file->ns_per_tick;
        return true;
    }
    if (parent == PROBE_NONE || (n->calls == 0 && n->elapsed_exclusive == 0 && n->function == 0))
        return true;
    const uint64_t address = n->function & ~SPGO_SPP_UNLOADED;
    const bool has_module = n->module < a->file->module_count;
    const uint32_t module = a->modules[has_module ? n->module : a->file->module_count];
    const uint64_t bias = has_module ? a->file->modules[n->module].bias : 0;
    const uint32_t function =
        module == PROBE_NONE ? PROBE_NONE : find_function(s, module, address - bias);
    const uint32_t node = function == PROBE_NONE ? PROBE_NONE : child_of(s, parent, function);
    a->nodes[number] = node;
    if (node == PROBE_NONE)
        return false;
    add_values(a, n, number, &s->nodes[node].values);
    add_range(a, n, &s->nodes[node].values);
    add_values(a, n, number, &a->info->values);
    return true;
}

/* Ticks of a moment; false: there is no such mark. */
static bool moment(const spp_file *f, const probe_when *when, uint64_t *clock)
{
    if (!when->is_mark) {
        const double ticks = when->ns / f->ns_per_tick;
        *clock = ticks < 9e18 ? f->header.clock_first + (uint64_t)ticks : UINT64_MAX;
        return true;
    }
    for (size_t i = 0; i < f->mark_count; i++) {
        if (f->marks[i].kind == SPGO_SPP_MARK && f->marks[i].id == when->mark) {
            *clock = f->marks[i].clock;
            return true;
        }
    }
    return false;
}

/* A copy of the thread's nodes, in which those that are none have no function and no parent. With a
 * window, values are those of the events inside. */
static spgo_spp_node *copy_nodes(const adding *a, uint32_t count, const probe_filter *filter)
{
    spgo_spp_node *nodes = calloc((size_t)count + 1, sizeof *nodes);
    for (uint32_t i = 0; nodes && i < count; i++) {
        spgo_spp_node n;
        if (!spp_node(a->thread, i, &n))
            continue;
        if (filter && filter->has_window)
            nodes[i] =
                (spgo_spp_node){.function = n.function, .parent = n.parent, .module = n.module};
        else
            nodes[i] = n;
    }
    uint64_t from, to;
    if (nodes && filter && filter->has_window && moment(a->file, &filter->from, &from) &&
        moment(a->file, &filter->to, &to) && !probe_replay(a->thread, from, to, nodes, count)) {
        free(nodes);
        nodes = NULL;
    }
    return nodes;
}

static bool is_node(const spgo_spp_node *nodes, uint32_t i)
{
    return i == SPGO_SPP_ROOT || nodes[i].parent != 0;
}

/* Which functions the thread's nodes are, for its events. */
static bool keep_functions(adding *a, uint32_t count)
{
    probe_session *s = a->s;
    if (!probe_grow((void **)&s->timelines, s->thread_count - 1, &s->timeline_capacity,
                    sizeof *s->timelines))
        return false;
    uint32_t *functions = malloc((count + 1) * sizeof *functions);
    s->timelines[s->thread_count - 1] = (probe_timeline){
        .file = a->file, .thread = a->thread, .functions = functions, .node_count = count};
    for (uint32_t i = 0; functions && i < count; i++)
        functions[i] = a->nodes[i] == PROBE_NONE ? PROBE_NONE : s->nodes[a->nodes[i]].function;
    return functions != NULL;
}

static spgo_code add_tree(adding *a, const probe_filter *filter, spgo_error *err)
{
    const uint32_t count = spp_node_count(a->thread);
    const size_t bytes = count * (sizeof *a->nodes + sizeof *a->child_calls);
    spgo_spp_node *nodes = copy_nodes(a, count, filter);
    a->nodes = malloc((count + 1) * sizeof *a->nodes);
    a->child_calls = calloc((size_t)count + 1, sizeof *a->child_calls);
    bool good = nodes && a->nodes && a->child_calls && add_root(a->s);
    for (uint32_t i = 0; good && i < count; i++) {
        a->nodes[i] = PROBE_NONE;
        a->child_calls[nodes[i].parent] += nodes[i].calls;
    }
    for (uint32_t i = SPGO_SPP_ROOT; good && i < count; i++) {
        if (is_node(nodes, i))
            good = add_node(a, i, &nodes[i]);
    }
    if (good && filter && filter->keeps_events)
        good = keep_functions(a, count);
    free(nodes);
    free(a->nodes);
    free(a->child_calls);
    return good ? SPGO_OK : spgo_fail_nomem(err, "paths of calls", bytes);
}

/* ------------------------------------------------------------------ processes and threads */

static double session_ns(const probe_session *s, const spp_file *f, uint64_t clock)
{
    const double since_start = spp_ns(f, clock);
    return since_start + (double)(int64_t)(f->header.clock_first_ns - s->first_ns);
}

static spgo_str command_text(probe_session *s, spgo_span words)
{
    char *text = arena_copy_text(s->mem, (const char *)words.ptr, words.len);
    size_t len = words.len;
    if (!text)
        return (spgo_str){0};
    while (len > 0 && text[len - 1] == '\0')
        len--;
    for (size_t i = 0; i < len; i++)
        text[i] = text[i] ? text[i] : ' ';
    return (spgo_str){text, len};
}

static bool add_process(probe_session *s, const spp_file *f)
{
    const spp_header *h = &f->header;
    if (!probe_grow((void **)&s->processes, s->process_count, &s->process_capacity,
                    sizeof *s->processes))
        return false;
    if (s->process_count == 0 || h->clock_first_ns < s->first_ns)
        s->first_ns = h->clock_first_ns;
    probe_process_info *p = &s->processes[s->process_count++];
    *p = (probe_process_info){.pid = h->pid,
                              .parent_pid = h->parent_pid,
                              .program = h->program,
                              .name = h->name,
                              .notice = h->notice,
                              .command = command_text(s, h->command),
                              .mode = h->mode,
                              .os_events = h->os_events,
                              .clock = h->clock,
                              .lost_events = h->lost_events,
                              .lost_threads = h->lost_threads,
                              .has_end = h->end_clock != 0,
                              .probe_inside_ns = (double)h->probe_inside / 256 * f->ns_per_tick,
                              .probe_outside_ns = (double)h->probe_outside / 256 * f->ns_per_tick};
    p->begin_ns = session_ns(s, f, h->clock_first);
    p->end_ns = session_ns(s, f, h->end_clock ? h->end_clock : h->clock_last);
    s->view.has_switch_times |= (h->os_events & SPGO_SPP_OS_SWITCH_TIME) != 0;
    return true;
}

static spgo_code add_thread(adding *a, const probe_filter *filter, spgo_error *err)
{
    probe_session *s = a->s;
    const spp_thread *t = a->thread;
    if (!probe_grow((void **)&s->threads, s->thread_count, &s->thread_capacity, sizeof *s->threads))
        return spgo_fail_nomem(err, "threads", s->thread_count * sizeof *s->threads);
    a->info = &s->threads[s->thread_count++];
    *a->info = (probe_thread_info){.process = (uint32_t)s->process_count - 1,
                                   .tid = t->tid,
                                   .name = t->name,
                                   .has_end = t->end != 0,
                                   .lost_events = t->lost_events,
                                   .lost_exits = t->lost_exits,
                                   .stray_exits = t->stray_exits,
                                   .unknown_os = t->unknown_os,
                                   .clock_steps = t->clock_steps,
                                   .deep_calls = t->deep_calls,
                                   .begin_ns = session_ns(s, a->file, t->begin)};
    a->info->end_ns =
        t->end ? session_ns(s, a->file, t->end) : s->processes[a->info->process].end_ns;
    return add_tree(a, filter, err);
}

static bool add_marks(probe_session *s, const spp_file *f)
{
    for (size_t i = 0; i < f->mark_count; i++) {
        const spp_mark *m = &f->marks[i];
        if (!probe_grow((void **)&s->marks, s->mark_count, &s->mark_capacity, sizeof *s->marks))
            return false;
        s->marks[s->mark_count++] = (probe_mark){.process = (uint32_t)s->process_count - 1,
                                                 .at_ns = session_ns(s, f, m->clock),
                                                 .id = m->id,
                                                 .kind = m->kind,
                                                 .comment = m->comment};
    }
    return true;
}

spgo_code probe_session_add(probe_session *s, spgo_span bytes, const probe_filter *filter, diag *d,
                            spgo_error *err)
{
    spp_file *f = arena_push(s->mem, 1, sizeof *f);
    if (!f)
        return spgo_fail_nomem(err, "probe session", sizeof *f);
    SPGO_TRY(spp_open(bytes, s->mem, f, d, err));
    if (filter && filter->pid && filter->pid != f->header.pid)
        return SPGO_OK;
    adding a = {.s = s,
                .file = f,
                .inside_ns = (double)f->header.probe_inside / 256 * f->ns_per_tick,
                .outside_ns = (double)f->header.probe_outside / 256 * f->ns_per_tick};
    a.modules = arena_push(s->mem, f->module_count + 1, sizeof *a.modules);
    if (!a.modules || !add_process(s, f) || !add_marks(s, f))
        return spgo_fail_nomem(err, "probe session", f->module_count * sizeof *a.modules);
    for (size_t i = 0; i <= f->module_count; i++)
        a.modules[i] = find_module(s, i < f->module_count ? &f->modules[i] : NULL);
    for (size_t i = 0; i < f->thread_count; i++) {
        a.thread = &f->threads[i];
        if (!filter || !filter->tid || filter->tid == a.thread->tid)
            SPGO_TRY(add_thread(&a, filter, err));
    }
    return SPGO_OK;
}

probe_events probe_events_of(const probe_session *s, size_t thread)
{
    probe_events e = {.session = s, .thread = thread};
    if (s->timelines)
        e.events = spp_events_of(s->timelines[thread].thread);
    return e;
}

bool probe_next_event(probe_events *e, probe_event *event)
{
    const probe_session *s = e->session;
    spp_event raw;
    while (s->timelines && spp_next_event(&e->events, &raw)) {
        const probe_timeline *t = &s->timelines[e->thread];
        if (raw.node >= t->node_count || t->functions[raw.node] == PROBE_NONE)
            continue;
        e->lost_before = e->events.lost;
        *event = (probe_event){.is_enter = raw.kind == SPGO_SPP_ENTER,
                               .has_os_event = raw.has_os_event,
                               .function = t->functions[raw.node],
                               .at_ns = session_ns(s, t->file, raw.clock)};
        return true;
    }
    return false;
}

const probe_view *probe_session_view(const probe_session *s)
{
    return &s->view;
}
