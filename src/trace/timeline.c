/*
 * Building and asking the timeline: see timeline.h.
 *
 * Sealing sorts the collected edges by identity and time, and turns them into
 *   processes   one per life of a pid, sorted by pid and start
 *   threads     "from this time on tid belongs to pid", sorted by tid and time
 *   mappings    one image in one process over one span of time
 *   ranges      per process, sorted, disjoint stretches of addresses, each with the mappings that
 *               ever covered it in order of time (nearly always one)
 * so that a question is two binary searches.
 */
#include <trace/timeline.h>

#include <base/intern.h>
#include <base/limits.h>
#include <base/text.h>

#include <stdlib.h>
#include <string.h>

typedef struct process_edge {
    uint64_t time;
    uint32_t order, pid, parent_pid;
    timeline_edge edge;
    bool inherits;
    spgo_str name;
} process_edge;

typedef struct thread_edge {
    uint64_t time;
    uint32_t order, tid, pid;
    timeline_edge edge;
} thread_edge;

typedef struct image_edge {
    timeline_image image;
    uint32_t order, process;
} image_edge;

typedef struct process {
    timeline_process seen;
    uint32_t parent; /* whose images it began with, or TIMELINE_NONE */
    uint32_t parent_pid;
    bool inherits, ended;
    uint64_t end_time;
    uint32_t range_first, range_count;
    uint32_t order; /* in which they were made: breaks ties, since qsort need not be stable */
} process;

typedef struct thread_life {
    uint32_t tid, pid;
    uint64_t from;
} thread_life;

typedef struct mapping {
    uint64_t start, end, start_rva;
    uint64_t from, to; /* time; to is exclusive */
    uint32_t module, process;
    uint32_t order;
} mapping;

typedef struct range {
    uint64_t start, end;
    uint32_t ref_first, ref_count;
} range;

/* A growable array of one element type. */
typedef struct list {
    void *ptr;
    size_t count, cap;
    uint64_t size_bytes;
} list;

struct timeline {
    intern names;
    list process_edges, thread_edges, image_edges;
    list processes, threads, mappings, ranges, refs;
    uint64_t list_bytes; /* of all lists together */
    uint32_t kernel;
    bool failed, sealed;
};

static bool list_grow(timeline *t, list *l, size_t elem_size)
{
    size_t cap = l->cap ? l->cap * 2 : 64;
    uint64_t more = (uint64_t)(cap - l->cap) * elem_size;
    void *grown =
        more > LIMIT_TIMELINE_BYTES - t->list_bytes ? NULL : realloc(l->ptr, cap * elem_size);
    if (!grown) {
        t->failed = true;
        return false;
    }
    l->ptr = grown;
    l->cap = cap;
    l->size_bytes += more;
    t->list_bytes += more;
    return true;
}

static void *list_add(timeline *t, list *l, size_t elem_size)
{
    if (l->count == l->cap && !list_grow(t, l, elem_size))
        return NULL;
    void *slot = (uint8_t *)l->ptr + l->count++ * elem_size;
    memset(slot, 0, elem_size);
    return slot;
}

static void list_free(timeline *t, list *l)
{
    free(l->ptr);
    t->list_bytes -= l->size_bytes;
    *l = (list){0};
}

timeline *timeline_new(void)
{
    timeline *t = calloc(1, sizeof *t);
    if (t)
        t->kernel = TIMELINE_NONE;
    return t;
}

void timeline_free(timeline *t)
{
    if (!t)
        return;
    list *const lists[] = {&t->process_edges, &t->thread_edges, &t->image_edges, &t->processes,
                           &t->threads,       &t->mappings,     &t->ranges,      &t->refs};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        list_free(t, lists[i]);
    intern_free(&t->names);
    free(t);
}

/* ------------------------------------------------------------------ collecting */

void timeline_add_process(timeline *t, timeline_edge edge, uint64_t time, uint32_t pid,
                          spgo_str name, uint32_t parent_pid, bool inherits)
{
    if (pid == TIMELINE_KERNEL_PID) /* no process, whatever a damaged event says */
        return;
    process_edge *e = list_add(t, &t->process_edges, sizeof *e);
    if (e)
        *e = (process_edge){.time = time,
                            .order = (uint32_t)t->process_edges.count,
                            .pid = pid,
                            .parent_pid = parent_pid,
                            .edge = edge,
                            .inherits = inherits,
                            .name = intern_add(&t->names, name)};
}

void timeline_add_thread(timeline *t, timeline_edge edge, uint64_t time, uint32_t tid, uint32_t pid)
{
    if (pid == TIMELINE_KERNEL_PID)
        return;
    thread_edge *e = list_add(t, &t->thread_edges, sizeof *e);
    if (e)
        *e = (thread_edge){.time = time,
                           .order = (uint32_t)t->thread_edges.count,
                           .tid = tid,
                           .pid = pid,
                           .edge = edge};
}

void timeline_add_image(timeline *t, const timeline_image *image)
{
    if (image->size == 0 || image->start + image->size < image->start)
        return;
    image_edge *e = list_add(t, &t->image_edges, sizeof *e);
    if (!e)
        return;
    e->image = *image;
    e->image.path = intern_add(&t->names, image->path);
    e->order = (uint32_t)t->image_edges.count;
}

bool timeline_each_image(const timeline *t, bool (*see)(void *ctx, const timeline_image *image),
                         void *ctx)
{
    const image_edge *edges = t->image_edges.ptr;
    for (size_t i = 0; i < t->image_edges.count; i++) {
        if (!see(ctx, &edges[i].image))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ processes */

#define BY(a, b)                                                                                   \
    if ((a) != (b))                                                                                \
    return (a) < (b) ? -1 : 1

static int by_pid_time(const void *left, const void *right)
{
    const process_edge *a = left, *b = right;
    BY(a->pid, b->pid);
    BY(a->time, b->time);
    BY(a->order, b->order);
    return 0;
}

static process *add_process(timeline *t, uint32_t pid, uint64_t start_time)
{
    process *p = list_add(t, &t->processes, sizeof *p);
    if (p) {
        p->seen = (timeline_process){.pid = pid, .start_time = start_time};
        p->parent = TIMELINE_NONE;
        p->order = (uint32_t)t->processes.count;
    }
    return p;
}

/* Applies one edge to the newest process of its pid (NULL: none yet). */
static process *apply_process_edge(timeline *t, process *now, const process_edge *e)
{
    bool repeats = now && e->edge == TIMELINE_START && now->seen.start_time == e->time &&
                   text_equal(now->seen.name, e->name);
    bool after_end = now && now->ended && e->edge != TIMELINE_END && e->time > now->end_time;
    if (!now || after_end || (e->edge == TIMELINE_START && !repeats)) {
        uint64_t since = e->edge == TIMELINE_START ? e->time : now ? now->end_time : 0;
        now = add_process(t, e->pid, since);
    }
    if (!now)
        return NULL;
    if (now->seen.name.len == 0)
        now->seen.name = e->name;
    if (e->edge == TIMELINE_START) {
        now->inherits = e->inherits;
        now->parent_pid = e->parent_pid;
    }
    if (e->edge == TIMELINE_END) {
        now->ended = true;
        now->end_time = e->time;
    }
    return now;
}

static void build_processes(timeline *t)
{
    process_edge *edges = t->process_edges.ptr;
    size_t n = t->process_edges.count;
    if (n)
        qsort(edges, n, sizeof *edges, by_pid_time);
    process *now = NULL;
    for (size_t i = 0; i < n && !t->failed; i++) {
        if (i > 0 && edges[i].pid != edges[i - 1].pid)
            now = NULL;
        now = apply_process_edge(t, now, &edges[i]);
    }
}

static int by_process(const void *left, const void *right)
{
    const process *a = left, *b = right;
    BY(a->seen.pid, b->seen.pid);
    BY(a->seen.start_time, b->seen.start_time);
    BY(a->order, b->order);
    return 0;
}

static int by_number(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    BY(*a, *b);
    return 0;
}

static const process *first_process(const timeline *t, uint32_t pid)
{
    const process *all = t->processes.ptr;
    size_t low = 0, high = t->processes.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (all[mid].seen.pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < t->processes.count && all[low].seen.pid == pid ? &all[low] : NULL;
}

/* Pids that only images or threads mention become processes without a name. */
static void add_unnamed_processes(timeline *t)
{
    const image_edge *images = t->image_edges.ptr;
    const thread_edge *threads = t->thread_edges.ptr;
    size_t n = 0, total = t->image_edges.count + t->thread_edges.count;
    uint32_t *pids = total ? malloc(total * sizeof *pids) : NULL;
    if (total && !pids) {
        t->failed = true;
        return;
    }
    for (size_t i = 0; i < t->image_edges.count; i++)
        pids[n++] = images[i].image.pid;
    for (size_t i = 0; i < t->thread_edges.count; i++)
        pids[n++] = threads[i].pid;
    if (n)
        qsort(pids, n, sizeof *pids, by_number);
    size_t known = t->processes.count;
    list all = t->processes;
    for (size_t i = 0; i < n && !t->failed; i++) {
        t->processes.count = known; /* search only the sorted part */
        bool is_new = (i == 0 || pids[i] != pids[i - 1]) && !first_process(t, pids[i]);
        t->processes.count = all.count;
        if (is_new)
            add_process(t, pids[i], 0);
        all.count = t->processes.count;
    }
    free(pids);
    if (t->processes.count)
        qsort(t->processes.ptr, t->processes.count, sizeof(process), by_process);
}

uint32_t timeline_process_at(const timeline *t, uint32_t pid, uint64_t time)
{
    const process *all = t->processes.ptr;
    size_t low = 0, high = t->processes.count;
    while (low < high) { /* the first one that starts after (pid, time) */
        size_t mid = low + (high - low) / 2;
        const timeline_process *p = &all[mid].seen;
        if (p->pid < pid || (p->pid == pid && p->start_time <= time))
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && all[low - 1].seen.pid == pid)
        return (uint32_t)(low - 1);
    if (low < t->processes.count && all[low].seen.pid == pid)
        return (uint32_t)low;
    return TIMELINE_NONE;
}

static void link_parents(timeline *t)
{
    process *all = t->processes.ptr;
    for (size_t i = 0; i < t->processes.count; i++) {
        process *p = &all[i];
        if (!p->inherits)
            continue;
        uint32_t parent = timeline_process_at(t, p->parent_pid, p->seen.start_time);
        /* A parent that begins later, or is the process itself, would make a circle. */
        if (parent == TIMELINE_NONE || parent == i ||
            all[parent].seen.start_time > p->seen.start_time)
            continue;
        if (all[parent].seen.start_time == p->seen.start_time && parent > i)
            continue;
        p->parent = parent;
    }
}

/* ------------------------------------------------------------------ threads */

static int by_tid_time(const void *left, const void *right)
{
    const thread_edge *a = left, *b = right;
    BY(a->tid, b->tid);
    BY(a->time, b->time);
    BY(a->order, b->order);
    return 0;
}

static void build_threads(timeline *t)
{
    thread_edge *edges = t->thread_edges.ptr;
    size_t n = t->thread_edges.count;
    if (n)
        qsort(edges, n, sizeof *edges, by_tid_time);
    for (size_t i = 0; i < n && !t->failed; i++) {
        const thread_edge *e = &edges[i];
        const thread_life *last =
            t->threads.count ? (thread_life *)t->threads.ptr + t->threads.count - 1 : NULL;
        bool same_tid = last && last->tid == e->tid;
        if (same_tid && last->pid == e->pid)
            continue;
        uint64_t from = e->edge == TIMELINE_START ? e->time : 0;
        if (same_tid && from == 0) /* known only since the life before it ended */
            from = edges[i - 1].time;
        thread_life *life = list_add(t, &t->threads, sizeof *life);
        if (life)
            *life = (thread_life){.tid = e->tid, .pid = e->pid, .from = from};
    }
    list_free(t, &t->thread_edges);
}

bool timeline_pid_of_thread(const timeline *t, uint32_t tid, uint64_t time, uint32_t *pid)
{
    const thread_life *all = t->threads.ptr;
    size_t low = 0, high = t->threads.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (all[mid].tid < tid || (all[mid].tid == tid && all[mid].from <= time))
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && all[low - 1].tid == tid)
        *pid = all[low - 1].pid;
    else if (low < t->threads.count && all[low].tid == tid)
        *pid = all[low].pid;
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------ mappings */

static int by_place_time(const void *left, const void *right)
{
    const image_edge *a = left, *b = right;
    BY(a->process, b->process);
    BY(a->image.start, b->image.start);
    BY(a->image.time, b->image.time);
    BY(a->order, b->order);
    return 0;
}

static int by_mapping(const void *left, const void *right)
{
    const mapping *a = left, *b = right;
    BY(a->process, b->process);
    BY(a->start, b->start);
    BY(a->from, b->from);
    BY(a->order, b->order);
    return 0;
}

typedef struct mapping_builder {
    timeline *t;
    timeline_resolver resolve;
    void *ctx;
    mapping *open;      /* the newest mapping at this place while it still stands */
    uint64_t closed_at; /* when the one before ended; 0 if none */
    spgo_str open_path;
} mapping_builder;

static void open_mapping(mapping_builder *b, const image_edge *e, uint64_t from)
{
    const timeline_image *image = &e->image;
    uint32_t module;
    uint64_t start_rva;
    if (!b->resolve(b->ctx, image, &module, &start_rva))
        return;
    b->open_path = image->path;
    mapping *m = list_add(b->t, &b->t->mappings, sizeof *m);
    if (!m)
        return;
    *m = (mapping){.start = image->start,
                   .end = image->start + image->size,
                   .start_rva = start_rva,
                   .from = from,
                   .to = UINT64_MAX,
                   .module = module,
                   .process = e->process,
                   .order = (uint32_t)b->t->mappings.count};
    b->open = m;
}

static void close_mapping(mapping_builder *b, uint64_t time)
{
    if (b->open)
        b->open->to = time;
    b->open = NULL;
    b->closed_at = time;
}

static void apply_image_edge(mapping_builder *b, const image_edge *e)
{
    const timeline_image *image = &e->image;
    bool is_open_one = b->open && b->open->end == image->start + image->size &&
                       text_equal(b->open_path, image->path);
    switch (image->edge) {
    case TIMELINE_START:
        if (is_open_one && b->open->from == image->time) /* told twice */
            return;
        close_mapping(b, image->time);
        open_mapping(b, e, image->time);
        return;
    case TIMELINE_DC_START:
    case TIMELINE_DC_END:
        if (!is_open_one && b->open)
            close_mapping(b, image->time);
        if (!is_open_one)
            open_mapping(b, e, b->closed_at);
        return;
    case TIMELINE_END:
        if (!b->open && image->path.len)
            open_mapping(b, e, b->closed_at);
        close_mapping(b, image->time);
        return;
    }
}

static bool is_same_image(const mapping *a, const mapping *b)
{
    return a->module == b->module && a->end == b->end && a->start_rva == b->start_rva;
}

/* Moves the mappings [first, last) of one place to `to`, repeats as one; returns what is behind. */
static mapping *move_merged(mapping *to, const mapping *first, const mapping *last)
{
    mapping *end = to;
    for (const mapping *m = first; m < last; m++) {
        if (end > to && is_same_image(end - 1, m))
            end[-1].to = m->to;
        else
            *end++ = *m;
    }
    return end;
}

/*
 * The same image again at the same place is one mapping, gap or not, so that a program that loads
 * a plugin thousands of times does not need thousands. Not where mappings that begin elsewhere
 * reach in: there it matters which one is the newest. Mappings are sorted by process and start.
 */
static void merge_repeats(timeline *t)
{
    mapping *all = t->mappings.ptr, *kept = all;
    if (!all)
        return;
    const mapping *last = all + t->mappings.count, *next;
    uint32_t owner = TIMELINE_NONE;
    uint64_t reach = 0; /* the highest end among this process's mappings that begin lower */
    for (const mapping *first = all; first < last; first = next) {
        const uint64_t start = first->start;
        uint64_t end = 0;
        reach = first->process == owner ? reach : 0;
        owner = first->process;
        for (next = first; next < last && next->process == owner && next->start == start; next++)
            end = next->end > end ? next->end : end;
        bool is_last = next == last || next->process != owner;
        if (reach <= start && (is_last || next->start >= end)) {
            kept = move_merged(kept, first, next);
        } else {
            memmove(kept, first, (size_t)(next - first) * sizeof *kept);
            kept += next - first;
        }
        reach = end > reach ? end : reach;
    }
    t->mappings.count = (size_t)(kept - all);
}

static void build_mappings(timeline *t, timeline_resolver resolve, void *ctx)
{
    image_edge *edges = t->image_edges.ptr;
    size_t n = t->image_edges.count;
    process *processes = t->processes.ptr;
    for (size_t i = 0; i < n; i++) {
        uint32_t p = timeline_process_at(t, edges[i].image.pid, edges[i].image.time);
        edges[i].process = p;
        timeline_process *seen = &processes[p].seen;
        if (seen->image_name.len == 0 && edges[i].image.path.len)
            seen->image_name = text_base_name(edges[i].image.path);
    }
    if (n)
        qsort(edges, n, sizeof *edges, by_place_time);
    mapping_builder b = {.t = t, .resolve = resolve, .ctx = ctx};
    for (size_t i = 0; i < n && !t->failed; i++) {
        if (i > 0 && (edges[i].process != edges[i - 1].process ||
                      edges[i].image.start != edges[i - 1].image.start))
            b = (mapping_builder){.t = t, .resolve = resolve, .ctx = ctx};
        apply_image_edge(&b, &edges[i]);
    }
    list_free(t, &t->image_edges);
    if (t->mappings.count)
        qsort(t->mappings.ptr, t->mappings.count, sizeof(mapping), by_mapping);
    merge_repeats(t);
}

/* ------------------------------------------------------------------ ranges */

static int by_from(const timeline *t, uint32_t a, uint32_t b)
{
    const mapping *all = t->mappings.ptr;
    BY(all[a].from, all[b].from);
    BY(a, b);
    return 0;
}

static void add_range(timeline *t, uint64_t start, uint64_t end, const uint32_t *refs, size_t n)
{
    range *r = list_add(t, &t->ranges, sizeof *r);
    if (!r)
        return;
    *r = (range){start, end, (uint32_t)t->refs.count, (uint32_t)n};
    while (t->refs.cap - t->refs.count < n) {
        if (!list_grow(t, &t->refs, sizeof *refs))
            return;
    }
    memcpy((uint32_t *)t->refs.ptr + t->refs.count, refs, n * sizeof *refs);
    t->refs.count += n;
}

/* The mappings that cover the sweep's place, in order of time. */
typedef struct cover {
    uint32_t refs[LIMIT_IMAGES_PER_RANGE];
    size_t count;
} cover;

static void cover_insert(const timeline *t, cover *c, uint32_t m)
{
    if (c->count == LIMIT_IMAGES_PER_RANGE) { /* forget the oldest */
        memmove(c->refs, c->refs + 1, (c->count - 1) * sizeof c->refs[0]);
        c->count--;
    }
    size_t at = c->count;
    while (at > 0 && by_from(t, c->refs[at - 1], m) > 0) {
        c->refs[at] = c->refs[at - 1];
        at--;
    }
    c->refs[at] = m;
    c->count++;
}

/* Drops what ends at or before `place`; returns the nearest end beyond it. */
static uint64_t cover_drop(const timeline *t, cover *c, uint64_t place)
{
    const mapping *all = t->mappings.ptr;
    uint64_t nearest = UINT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t end = all[c->refs[i]].end;
        if (end <= place)
            continue;
        c->refs[kept++] = c->refs[i];
        if (end < nearest)
            nearest = end;
    }
    c->count = kept;
    return nearest;
}

/* Sweeps over the mappings [first, last) of one process, sorted by start. */
static void sweep(timeline *t, cover *c, size_t first, size_t last)
{
    const mapping *all = t->mappings.ptr;
    c->count = 0;
    uint64_t place = 0;
    size_t next = first;
    while ((next < last || c->count) && !t->failed) {
        if (c->count == 0)
            place = all[next].start;
        while (next < last && all[next].start == place)
            cover_insert(t, c, (uint32_t)next++);
        uint64_t end = cover_drop(t, c, place);
        if (next < last && all[next].start < end)
            end = all[next].start;
        if (c->count == 0)
            continue;
        add_range(t, place, end, c->refs, c->count);
        place = end;
        cover_drop(t, c, place);
    }
}

static void build_ranges(timeline *t)
{
    cover *c = malloc(sizeof *c);
    if (!c) {
        t->failed = true;
        return;
    }
    process *processes = t->processes.ptr;
    const mapping *all = t->mappings.ptr;
    for (size_t first = 0, last; first < t->mappings.count && !t->failed; first = last) {
        last = first + 1;
        while (last < t->mappings.count && all[last].process == all[first].process)
            last++;
        process *p = &processes[all[first].process];
        p->range_first = (uint32_t)t->ranges.count;
        sweep(t, c, first, last);
        p->range_count = (uint32_t)t->ranges.count - p->range_first;
    }
    free(c);
}

/* A forked process is named after the nearest ancestor that has a name, of either kind. */
static void name_by_ancestors(process *all, process *p)
{
    uint32_t up = p->parent;
    for (int depth = 0; depth < LIMIT_FORK_DEPTH && up != TIMELINE_NONE; depth++) {
        const timeline_process *ancestor = &all[up].seen;
        if (p->seen.image_name.len == 0)
            p->seen.image_name = ancestor->image_name;
        if (p->seen.name.len == 0)
            p->seen.name = ancestor->name;
        if (p->seen.image_name.len && p->seen.name.len)
            return;
        up = all[up].parent;
    }
}

static void name_processes(timeline *t)
{
    process *all = t->processes.ptr;
    for (size_t i = 0; i < t->processes.count; i++)
        name_by_ancestors(all, &all[i]);
    for (size_t i = 0; i < t->processes.count; i++) {
        if (all[i].seen.name.len == 0)
            all[i].seen.name = all[i].seen.image_name;
    }
}

spgo_code timeline_seal(timeline *t, timeline_resolver resolve, void *ctx, spgo_error *err)
{
    build_processes(t);
    list_free(t, &t->process_edges);
    if (!t->failed)
        add_unnamed_processes(t);
    if (!t->failed) {
        link_parents(t);
        build_threads(t);
        build_mappings(t, resolve, ctx);
    }
    if (!t->failed)
        build_ranges(t);
    if (t->failed || t->names.failed)
        return spgo_fail(err, SPGO_LIMIT, "trace.timeline", SPGO_NO_OFFSET,
                         "the processes and images of this trace need more memory than there is "
                         "(or than %llu bytes); record a shorter trace",
                         (unsigned long long)LIMIT_TIMELINE_BYTES);
    name_processes(t);
    t->kernel = timeline_process_at(t, TIMELINE_KERNEL_PID, 0);
    t->sealed = true;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ asking */

size_t timeline_process_count(const timeline *t)
{
    return t->processes.count;
}

const timeline_process *timeline_get_process(const timeline *t, uint32_t index)
{
    const process *all = t->processes.ptr;
    return index < t->processes.count ? &all[index].seen : NULL;
}

size_t timeline_mapping_count(const timeline *t)
{
    return t->mappings.count;
}

uint32_t timeline_kernel(const timeline *t)
{
    return t->kernel;
}

/* How many ranges of p start at or below addr. */
static size_t ranges_up_to(const timeline *t, const process *p, uint64_t addr)
{
    const range *ranges = (const range *)t->ranges.ptr + p->range_first;
    size_t low = 0, high = p->range_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (ranges[mid].start <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The mapping of r that stood at this time, and until when that answer holds. */
static const mapping *mapping_at(const timeline *t, const range *r, uint64_t time, uint64_t *from,
                                 uint64_t *to)
{
    const mapping *all = t->mappings.ptr;
    const uint32_t *refs = (const uint32_t *)t->refs.ptr + r->ref_first;
    uint64_t next_from = UINT64_MAX, gone_at = 0; /* of newer ones: one comes, the last went */
    for (size_t i = r->ref_count; i-- > 0;) {
        const mapping *m = &all[refs[i]];
        if (m->from <= time && time < m->to) {
            *from = m->from > gone_at ? m->from : gone_at;
            *to = m->to < next_from ? m->to : next_from;
            return m;
        }
        if (m->from > time)
            next_from = m->from;
        else if (m->to > gone_at)
            gone_at = m->to;
    }
    return NULL;
}

/*
 * Looks among the process's own ranges. Where it has nothing at this time, *vacant_start and
 * *vacant_end tell the stretch around addr for which that is so, at all times if it lies between
 * ranges; inside a range that is vacant only now it is addr alone.
 */
static bool find_own(const timeline *t, const process *p, uint64_t time, uint64_t addr,
                     timeline_place *place, uint64_t *vacant_start, uint64_t *vacant_end)
{
    *vacant_start = 0;
    *vacant_end = UINT64_MAX;
    if (p->range_count == 0)
        return false;
    const range *ranges = (const range *)t->ranges.ptr + p->range_first;
    size_t n = ranges_up_to(t, p, addr);
    *vacant_start = n ? ranges[n - 1].end : 0;
    *vacant_end = n < p->range_count ? ranges[n].start : UINT64_MAX;
    if (n == 0 || addr >= ranges[n - 1].end)
        return false;
    const range *r = &ranges[n - 1];
    *vacant_start = addr;
    *vacant_end = addr + 1;
    const mapping *m = mapping_at(t, r, time, &place->valid_from, &place->valid_to);
    if (!m) {
        place->valid_from = time;
        place->valid_to = time + 1;
        return false;
    }
    place->module = m->module;
    place->start = r->start;
    place->end = r->end;
    place->start_rva = m->start_rva + (r->start - m->start);
    return true;
}

/* What a parent has, as far as its child's own ranges leave it visible. */
static void clip(timeline_place *place, uint64_t start, uint64_t end)
{
    if (start > place->start) {
        place->start_rva += start - place->start;
        place->start = start;
    }
    if (end < place->end)
        place->end = end;
}

timeline_place timeline_find(const timeline *t, uint32_t index, uint64_t time, uint64_t addr)
{
    const process *all = t->processes.ptr;
    timeline_place place = {.module = TIMELINE_NONE, .end = UINT64_MAX, .valid_to = UINT64_MAX};
    for (int depth = 0; depth < LIMIT_FORK_DEPTH && index < t->processes.count; depth++) {
        const process *p = &all[index];
        uint64_t vacant_start, vacant_end;
        timeline_place own = {.module = TIMELINE_NONE, .valid_to = UINT64_MAX};
        bool found = find_own(t, p, time, addr, &own, &vacant_start, &vacant_end);
        if (own.valid_from > place.valid_from && depth == 0)
            place.valid_from = own.valid_from;
        if (own.valid_to < place.valid_to && depth == 0)
            place.valid_to = own.valid_to;
        if (found) {
            clip(&own, place.start, place.end);
            own.valid_from = place.valid_from; /* a parent's images are those at the fork, */
            own.valid_to = place.valid_to;     /* whatever it does later */
            return own;
        }
        clip(&place, vacant_start, vacant_end);
        time = p->seen.start_time;
        index = p->parent;
    }
    place.start_rva = 0;
    return place;
}
