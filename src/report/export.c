/* Sessions for other tools: see export.h. */
#include <report/export.h>

#include <inttypes.h>
#include <string.h>

#include <base/text.h>

static const char *const names[REPORT_EXPORT_COUNT] = {"folded", "speedscope", "callgrind",
                                                       "chrome"};

const char *report_export_name(report_export e)
{
    return e < REPORT_EXPORT_COUNT ? names[e] : NULL;
}

bool report_export_needs_events(report_export e)
{
    return e == REPORT_CHROME;
}

static spgo_str function_name(const probe_view *v, uint32_t function)
{
    return function == PROBE_NONE ? text_str("(outside)") : v->functions[function].name;
}

static uint64_t whole_ns(double ns)
{
    return ns > 0 ? (uint64_t)(ns + 0.5) : 0;
}

/* ------------------------------------------------------------------ paths */

/* Calls take for every node but the root, parents first, siblings in their order. */
static void each_node(const probe_view *v, void (*take)(void *ctx, uint32_t node), void *ctx)
{
    uint32_t at = v->node_count ? v->nodes[0].first_child : PROBE_NONE;
    while (at != PROBE_NONE) {
        take(ctx, at);
        if (v->nodes[at].first_child != PROBE_NONE) {
            at = v->nodes[at].first_child;
            continue;
        }
        while (at != 0 && v->nodes[at].next_sibling == PROBE_NONE)
            at = v->nodes[at].parent;
        at = at == 0 ? PROBE_NONE : v->nodes[at].next_sibling;
    }
}

typedef struct writing {
    out *o;
    json j;
    const probe_view *v;
    const report_export_opts *opts;
} writing;

/* ';' ends a frame and '\n' a stack, so neither may be in a name. */
static void put_folded_name(out *o, spgo_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        out_bytes(o, c == ';' || c == '\n' || c == '\r' ? ":" : &name.ptr[i], 1);
    }
}

enum { FOLDED_DEPTH = 1024 };

static void put_folded(void *ctx, uint32_t node)
{
    const writing *w = ctx;
    const probe_node *nodes = w->v->nodes;
    const uint64_t ns = whole_ns(nodes[node].values.ns[w->opts->family]);
    uint32_t path[FOLDED_DEPTH];
    size_t depth = 0;
    if (ns == 0)
        return;
    for (uint32_t n = node; n != 0 && depth < FOLDED_DEPTH; n = nodes[n].parent)
        path[depth++] = n;
    while (depth-- > 0) {
        put_folded_name(w->o, function_name(w->v, nodes[path[depth]].function));
        out_bytes(w->o, depth ? ";" : " ", 1);
    }
    out_u64(w->o, ns);
    out_bytes(w->o, "\n", 1);
}

static void put_speedscope_stack(void *ctx, uint32_t node)
{
    writing *w = ctx;
    const probe_node *nodes = w->v->nodes;
    uint32_t path[FOLDED_DEPTH];
    size_t depth = 0;
    if (whole_ns(nodes[node].values.ns[w->opts->family]) == 0)
        return;
    for (uint32_t n = node; n != 0 && depth < FOLDED_DEPTH; n = nodes[n].parent)
        path[depth++] = n;
    json_open_array(&w->j);
    while (depth-- > 0)
        json_u64(&w->j, nodes[path[depth]].function);
    json_close_array(&w->j);
}

static void put_speedscope_weight(void *ctx, uint32_t node)
{
    writing *w = ctx;
    const uint64_t ns = whole_ns(w->v->nodes[node].values.ns[w->opts->family]);
    if (ns > 0)
        json_u64(&w->j, ns);
}

static void write_speedscope(writing *w)
{
    json *j = &w->j;
    json_open_object(j);
    json_key(j, "$schema");
    json_text(j, "https://www.speedscope.app/file-format-schema.json");
    json_key(j, "exporter");
    json_text(j, "OpenSPGO");
    json_key(j, "shared");
    json_open_object(j);
    json_key(j, "frames");
    json_open_array(j);
    for (size_t i = 0; i < w->v->function_count; i++) {
        const probe_function *f = &w->v->functions[i];
        json_open_object(j);
        json_key(j, "name");
        json_str(j, f->name);
        if (f->file.len > 0) {
            json_key(j, "file");
            json_str(j, f->file);
            json_key(j, "line");
            json_u64(j, f->line);
        }
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
    json_key(j, "profiles");
    json_open_array(j);
    json_open_object(j);
    json_key(j, "type");
    json_text(j, "sampled");
    json_key(j, "name");
    json_text(j, w->opts->family == PROBE_ELAPSED_EXCLUSIVE ? "elapsed" : "application");
    json_key(j, "unit");
    json_text(j, "nanoseconds");
    json_key(j, "startValue");
    json_u64(j, 0);
    json_key(j, "endValue");
    json_u64(j, whole_ns(w->v->total.ns[w->opts->family]));
    json_key(j, "samples");
    json_open_array(j);
    each_node(w->v, put_speedscope_stack, w);
    json_close_array(j);
    json_key(j, "weights");
    json_open_array(j);
    each_node(w->v, put_speedscope_weight, w);
    json_close_array(j);
    json_close_object(j);
    json_close_array(j);
    json_close_object(j);
    json_end_line(j);
}

/* ------------------------------------------------------------------ callgrind */

static void put_callgrind_place(out *o, const char *prefix, const probe_view *v, uint32_t function)
{
    const probe_function *f = &v->functions[function];
    const spgo_str object = v->modules[f->module].path;
    out_printf(o, "%sob=", prefix);
    out_name(o, object.len ? object : text_str("?"));
    out_printf(o, "\n%s=", *prefix ? "cfi" : "fl");
    out_name(o, f->file.len ? f->file : text_str("?"));
    out_printf(o, "\n%sfn=", prefix);
    out_name(o, f->name);
    out_bytes(o, "\n", 1);
}

/* Elapsed and application time, in nanoseconds. Of recursive functions, what callgrind calls the
 * inclusive cost of a call is the same as in the view of callers: time counts once. */
static void write_callgrind(out *o, const probe_view *v)
{
    out_text(o, "# callgrind format\nversion: 1\ncreator: OpenSPGO\npositions: line\n"
                "event: El : Elapsed time (ns)\nevent: Ap : Application time (ns)\n"
                "events: El Ap\n");
    out_printf(o, "summary: %" PRIu64 " %" PRIu64 "\n",
               whole_ns(v->total.ns[PROBE_ELAPSED_EXCLUSIVE]),
               whole_ns(v->total.ns[PROBE_APPLICATION_EXCLUSIVE]));
    for (uint32_t f = 0; f < v->function_count; f++) {
        const probe_function *fn = &v->functions[f];
        out_bytes(o, "\n", 1);
        put_callgrind_place(o, "", v, f);
        out_printf(o, "%u %" PRIu64 " %" PRIu64 "\n", fn->line,
                   whole_ns(fn->values.ns[PROBE_ELAPSED_EXCLUSIVE]),
                   whole_ns(fn->values.ns[PROBE_APPLICATION_EXCLUSIVE]));
    }
    /* Calls may stand under a second heading of their caller; pairs are by callee. */
    for (size_t i = 0; i < v->pair_count; i++) {
        const probe_call_pair *p = &v->pairs[i];
        if (p->caller == PROBE_NONE)
            continue;
        out_bytes(o, "\n", 1);
        put_callgrind_place(o, "", v, p->caller);
        put_callgrind_place(o, "c", v, p->callee);
        out_printf(o, "calls=%" PRIu64 " %u\n%u %" PRIu64 " %" PRIu64 "\n", p->values.calls,
                   v->functions[p->callee].line, v->functions[p->caller].line,
                   whole_ns(p->values.ns[PROBE_ELAPSED_INCLUSIVE]),
                   whole_ns(p->values.ns[PROBE_APPLICATION_INCLUSIVE]));
    }
}

/* ------------------------------------------------------------------ Chrome */

static void chrome_name(json *j, const char *what, uint32_t pid, uint32_t tid, spgo_str name)
{
    json_open_object(j);
    json_key(j, "ph");
    json_text(j, "M");
    json_key(j, "name");
    json_text(j, what);
    json_key(j, "pid");
    json_u64(j, pid);
    json_key(j, "tid");
    json_u64(j, tid);
    json_key(j, "args");
    json_open_object(j);
    json_key(j, "name");
    json_str(j, name);
    json_close_object(j);
    json_close_object(j);
}

static void chrome_event(json *j, const char *phase, spgo_str name, double at_ns, uint32_t pid,
                         uint32_t tid)
{
    json_open_object(j);
    json_key(j, "ph");
    json_text(j, phase);
    if (name.len > 0) {
        json_key(j, "name");
        json_str(j, name);
    }
    json_key(j, "ts");
    json_f64(j, at_ns / 1e3, 3);
    json_key(j, "pid");
    json_u64(j, pid);
    json_key(j, "tid");
    json_u64(j, tid);
    json_close_object(j);
}

typedef struct chrome {
    json j;
    const probe_session *s;
    const probe_view *v;
    uint64_t limit_bytes, left_out;
    uint64_t written; /* bytes, about */
} chrome;

enum { EVENT_BYTES = 80 }; /* of JSON, without the name */

/* Every event that is begun ends: exits without an entry are left out, and what is open at the end,
 * or at the limit, is closed there. */
static void chrome_thread(chrome *c, size_t index)
{
    const probe_thread_info *t = &c->v->threads[index];
    const uint32_t pid = c->v->processes[t->process].pid;
    probe_events events = probe_events_of(c->s, index);
    probe_event e = {0};
    size_t open = 0;
    double last_ns = t->begin_ns;
    while (probe_next_event(&events, &e)) {
        const spgo_str name = function_name(c->v, e.function);
        const bool is_full = c->limit_bytes && c->written >= c->limit_bytes;
        if (is_full || (!e.is_enter && open == 0)) {
            c->left_out += is_full;
            continue;
        }
        chrome_event(&c->j, e.is_enter ? "B" : "E", e.is_enter ? name : (spgo_str){0}, e.at_ns, pid,
                     t->tid);
        c->written += EVENT_BYTES + (e.is_enter ? name.len + 10 : 0);
        open += e.is_enter ? 1u : 0u;
        open -= e.is_enter ? 0u : 1u;
        last_ns = e.at_ns;
    }
    while (open-- > 0)
        chrome_event(&c->j, "E", (spgo_str){0}, last_ns, pid, t->tid);
}

static void chrome_marks(chrome *c)
{
    for (size_t i = 0; i < c->v->mark_count; i++) {
        const probe_mark *m = &c->v->marks[i];
        json_open_object(&c->j);
        json_key(&c->j, "ph");
        json_text(&c->j, "i");
        json_key(&c->j, "s");
        json_text(&c->j, "p");
        json_key(&c->j, "name");
        json_str(&c->j, m->comment.len ? m->comment : text_str("mark"));
        json_key(&c->j, "ts");
        json_f64(&c->j, m->at_ns / 1e3, 3);
        json_key(&c->j, "pid");
        json_u64(&c->j, c->v->processes[m->process].pid);
        json_close_object(&c->j);
    }
}

static uint64_t write_chrome(out *o, const probe_session *s, uint64_t limit_bytes)
{
    chrome c = {
        .j = json_on(o, false), .s = s, .v = probe_session_view(s), .limit_bytes = limit_bytes};
    json_open_object(&c.j);
    json_key(&c.j, "displayTimeUnit");
    json_text(&c.j, "ns");
    json_key(&c.j, "traceEvents");
    json_open_array(&c.j);
    for (size_t i = 0; i < c.v->process_count; i++) {
        const probe_process_info *p = &c.v->processes[i];
        chrome_name(&c.j, "process_name", p->pid, p->pid,
                    p->name.len ? p->name : text_base_name(p->program));
    }
    for (size_t i = 0; i < c.v->thread_count; i++) {
        const probe_thread_info *t = &c.v->threads[i];
        chrome_name(&c.j, "thread_name", c.v->processes[t->process].pid, t->tid, t->name);
        chrome_thread(&c, i);
    }
    chrome_marks(&c);
    json_close_array(&c.j);
    json_close_object(&c.j);
    json_end_line(&c.j);
    return c.left_out;
}

void report_export_write(out *o, report_export e, const probe_session *s,
                         const report_export_opts *opts, uint64_t *left_out)
{
    writing w = {.o = o, .j = json_on(o, false), .v = probe_session_view(s), .opts = opts};
    *left_out = 0;
    switch (e) {
    case REPORT_FOLDED:
        each_node(w.v, put_folded, &w);
        break;
    case REPORT_SPEEDSCOPE:
        write_speedscope(&w);
        break;
    case REPORT_CALLGRIND:
        write_callgrind(o, w.v);
        break;
    case REPORT_CHROME:
        *left_out = write_chrome(o, s, opts->limit_bytes);
        break;
    case REPORT_EXPORT_COUNT:
        break;
    }
}
