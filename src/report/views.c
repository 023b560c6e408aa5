/* The views: see views.h. */
#include <report/views.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>

/* One row, whatever the view: what has values points to them. */
typedef struct row {
    const probe_values *values;
    uint32_t index;    /* into the view's list */
    uint32_t function; /* PROBE_NONE: none */
    uint8_t type;      /* callers: 0 the function, 1 a caller, 2 a callee */
    uint32_t group;    /* callers: of which function */
    unsigned level;    /* tree */
    bool is_hot;       /* tree: on the hot path */
    double order;
} row;

struct report_rows {
    const probe_view *session;
    report_opts opts;
    report_table table;
    row *rows;
    size_t count, capacity;
};

static const char *const view_names[REPORT_VIEW_COUNT] = {
    [REPORT_FUNCTIONS] = "functions", [REPORT_CALLERS] = "callers",
    [REPORT_TREE] = "tree",           [REPORT_MODULES] = "modules",
    [REPORT_THREADS] = "threads",     [REPORT_PROCESSES] = "processes",
    [REPORT_MARKS] = "marks",         [REPORT_SUMMARY] = "summary"};

const char *report_view_name(report_view v)
{
    return v < REPORT_VIEW_COUNT ? view_names[v] : NULL;
}

/* ------------------------------------------------------------------ columns of values */

/* What stands behind a column; those of values come in families. */
typedef enum what {
    W_FUNCTION,
    W_ROOT_FUNCTION,
    W_TYPE,
    W_LEVEL,
    W_HOT,
    W_CALLS,
    W_OS_EVENTS,
    W_ON_CPU_INCLUSIVE,
    W_ON_CPU_EXCLUSIVE,
    W_OVERHEAD_INCLUSIVE,
    W_OVERHEAD_EXCLUSIVE,
    W_RELIABLE,
    W_FILE,
    W_LINE,
    W_ADDRESS,
    W_MODULE_NAME,
    W_MODULE_PATH,
    W_PROCESS_ID,
    W_PARENT_ID,
    W_PROCESS_NAME,
    W_COMMAND,
    W_THREAD_ID,
    W_THREAD_NAME,
    W_BEGIN,
    W_END,
    W_OUTSIDE,
    W_LOST_EVENTS,
    W_LOST_EXITS,
    W_STRAY_EXITS,
    W_UNKNOWN_OS,
    W_DEEP_CALLS,
    W_PROBE_COST,
    W_NOTICE,
    W_MARK_ID,
    W_MARK_NAME,
    W_TIME,
    W_FIELD,
    W_VALUE,
    W_TOTAL, /* and the family */
    W_PERCENT = W_TOTAL + PROBE_FAMILIES,
    W_AVERAGE = W_PERCENT + PROBE_FAMILIES,
    W_MAX = W_AVERAGE + PROBE_FAMILIES,
    W_MIN = W_MAX + PROBE_FAMILIES,
    W_COUNT = W_MIN + PROBE_FAMILIES
} what;

typedef struct column_def {
    report_column column;
    int what;
} column_def;

#define FAMILY(f, full, head_total, head_percent, k)                                               \
    {{full " Time", head_total, k "_ms", REPORT_MS}, W_TOTAL + (f)},                               \
        {{full " Time %", head_percent, k "_percent", REPORT_PERCENT}, W_PERCENT + (f)},           \
        {{"Avg " full " Time", NULL, k "_average_ms", REPORT_MS}, W_AVERAGE + (f)},                \
        {{"Max " full " Time", NULL, k "_max_ms", REPORT_MS}, W_MAX + (f)},                        \
    {                                                                                              \
        {"Min " full " Time", NULL, k "_min_ms", REPORT_MS}, W_MIN + (f)                           \
    }

#define ALL_FAMILIES                                                                               \
    FAMILY(PROBE_ELAPSED_INCLUSIVE, "Elapsed Inclusive", "elapsed incl ms", "%",                   \
           "elapsed_inclusive"),                                                                   \
        FAMILY(PROBE_ELAPSED_EXCLUSIVE, "Elapsed Exclusive", "excl ms", "%", "elapsed_exclusive"), \
        FAMILY(PROBE_APPLICATION_INCLUSIVE, "Application Inclusive", "applic. incl ms", "%",       \
               "application_inclusive"),                                                           \
        FAMILY(PROBE_APPLICATION_EXCLUSIVE, "Application Exclusive", "excl ms", "%",               \
               "application_exclusive"),                                                           \
        {{"On-CPU Inclusive Time", NULL, "on_cpu_inclusive_ms", REPORT_MS}, W_ON_CPU_INCLUSIVE},   \
        {{"On-CPU Exclusive Time", NULL, "on_cpu_exclusive_ms", REPORT_MS}, W_ON_CPU_EXCLUSIVE},   \
        {{"Operating System Events", NULL, "os_events", REPORT_COUNT}, W_OS_EVENTS},               \
        {{"Time Inclusive Probe Overhead", NULL, "overhead_inclusive_ms", REPORT_MS},              \
         W_OVERHEAD_INCLUSIVE},                                                                    \
        {{"Time Exclusive Probe Overhead", NULL, "overhead_exclusive_ms", REPORT_MS},              \
         W_OVERHEAD_EXCLUSIVE},                                                                    \
    {                                                                                              \
        {"Reliable", NULL, "reliable", REPORT_TEXT}, W_RELIABLE                                    \
    }

#define CALLS                                                                                      \
    {                                                                                              \
        {"Number of Calls", "calls", "calls", REPORT_COUNT}, W_CALLS                               \
    }

#define PLACE                                                                                      \
    {{"Source File", NULL, "file", REPORT_TEXT}, W_FILE},                                          \
        {{"Line Number", NULL, "line", REPORT_COUNT}, W_LINE},                                     \
        {{"Function Address", NULL, "address", REPORT_ADDRESS}, W_ADDRESS},                        \
        {{"Module Name", NULL, "module", REPORT_TEXT}, W_MODULE_NAME},                             \
    {                                                                                              \
        {"Module Path", NULL, "module_path", REPORT_TEXT}, W_MODULE_PATH                           \
    }

static const column_def function_columns[] = {
    ALL_FAMILIES,
    CALLS,
    PLACE,
    {{"Function Name", "function", "function", REPORT_TEXT}, W_FUNCTION}};

static const column_def caller_columns[] = {
    {{"Root Function Name", NULL, "root_function", REPORT_TEXT}, W_ROOT_FUNCTION},
    {{"Type", "type", "type", REPORT_TEXT}, W_TYPE},
    ALL_FAMILIES,
    CALLS,
    PLACE,
    {{"Function Name", "function", "function", REPORT_TEXT}, W_FUNCTION}};

static const column_def tree_columns[] = {
    {{"Level", NULL, "level", REPORT_COUNT}, W_LEVEL},
    {{"Hot Path", "hot", "hot", REPORT_TEXT}, W_HOT},
    ALL_FAMILIES,
    CALLS,
    PLACE,
    {{"Function Name", "function", "function", REPORT_TEXT}, W_FUNCTION}};

static const column_def module_columns[] = {
    ALL_FAMILIES,
    CALLS,
    {{"Module Path", NULL, "module_path", REPORT_TEXT}, W_MODULE_PATH},
    {{"Module Name", "module", "module", REPORT_TEXT}, W_MODULE_NAME}};

static const column_def thread_columns[] = {
    {{"Process ID", "pid", "pid", REPORT_COUNT}, W_PROCESS_ID},
    {{"ID", "tid", "tid", REPORT_COUNT}, W_THREAD_ID},
    {{"Begin Time", "begin ms", "begin_ms", REPORT_MS}, W_BEGIN},
    {{"End Time", "end ms", "end_ms", REPORT_MS}, W_END},
    ALL_FAMILIES,
    CALLS,
    {{"Time Outside Functions", NULL, "outside_ms", REPORT_MS}, W_OUTSIDE},
    {{"Lost Probes", NULL, "lost_probes", REPORT_COUNT}, W_LOST_EVENTS},
    {{"Lost Exits", NULL, "lost_exits", REPORT_COUNT}, W_LOST_EXITS},
    {{"Stray Exits", NULL, "stray_exits", REPORT_COUNT}, W_STRAY_EXITS},
    {{"Unknown Events", NULL, "unknown_os_events", REPORT_COUNT}, W_UNKNOWN_OS},
    {{"Calls Too Deep", NULL, "deep_calls", REPORT_COUNT}, W_DEEP_CALLS},
    {{"Name", "name", "name", REPORT_TEXT}, W_THREAD_NAME}};

static const column_def process_columns[] = {
    {{"Process ID", "pid", "pid", REPORT_COUNT}, W_PROCESS_ID},
    {{"Parent Process ID", "parent", "parent_pid", REPORT_COUNT}, W_PARENT_ID},
    {{"Begin Time", "begin ms", "begin_ms", REPORT_MS}, W_BEGIN},
    {{"End Time", "end ms", "end_ms", REPORT_MS}, W_END},
    ALL_FAMILIES,
    CALLS,
    {{"Probe Cost", NULL, "probe_cost_ms", REPORT_MS}, W_PROBE_COST},
    {{"Lost Probes", NULL, "lost_probes", REPORT_COUNT}, W_LOST_EVENTS},
    {{"Command Line", NULL, "command", REPORT_TEXT}, W_COMMAND},
    {{"Notice", NULL, "notice", REPORT_TEXT}, W_NOTICE},
    {{"Process Name", "name", "name", REPORT_TEXT}, W_PROCESS_NAME}};

static const column_def mark_columns[] = {
    {{"Mark ID", "id", "id", REPORT_COUNT}, W_MARK_ID},
    {{"Timestamp", "at ms", "at_ms", REPORT_MS}, W_TIME},
    {{"Process ID", "pid", "pid", REPORT_COUNT}, W_PROCESS_ID},
    {{"Mark Name", "mark", "mark", REPORT_TEXT}, W_MARK_NAME}};

static const struct layout {
    const char *name, *row;
    const column_def *columns;
    size_t count;
} layouts[REPORT_VIEW_COUNT] = {
#define LAYOUT(name, row, columns)                                                                 \
    {                                                                                              \
        name, row, columns, sizeof(columns) / sizeof *(columns)                                    \
    }
    [REPORT_FUNCTIONS] = LAYOUT("Functions", "Function", function_columns),
    [REPORT_CALLERS] = LAYOUT("CallerCallee", "Call", caller_columns),
    [REPORT_TREE] = LAYOUT("CallTree", "Call", tree_columns),
    [REPORT_MODULES] = LAYOUT("Modules", "Module", module_columns),
    [REPORT_THREADS] = LAYOUT("Threads", "Thread", thread_columns),
    [REPORT_PROCESSES] = LAYOUT("Processes", "Process", process_columns),
    [REPORT_MARKS] = LAYOUT("Marks", "Mark", mark_columns),
    [REPORT_SUMMARY] = LAYOUT("Functions", "Function", function_columns),
#undef LAYOUT
};

/* ------------------------------------------------------------------ cells */

static const report_cell empty = {.is_empty = true};

static report_cell text_cell(spgo_str s)
{
    return (report_cell){.text = s, .is_empty = s.len == 0};
}

static report_cell count_cell(uint64_t n)
{
    return (report_cell){.count = n};
}

static report_cell number_cell(double v)
{
    return (report_cell){.number = v};
}

/* Each value against the session's inclusive total of its own family, or, as the pages of the
 * reports have it, all against the elapsed total. */
static report_cell percent_cell(const report_rows *r, double ns, unsigned family)
{
    const bool is_application = family >= PROBE_APPLICATION_INCLUSIVE;
    const probe_family whole = is_application && !r->opts.percent_of_elapsed
                                   ? PROBE_APPLICATION_INCLUSIVE
                                   : PROBE_ELAPSED_INCLUSIVE;
    const double total = r->session->total.ns[whole];
    return total > 0 ? number_cell(100 * ns / total) : empty;
}

enum { RELIABLE_TIMES = 5 }; /* of what its probes cost */

static report_cell value_cell(const report_rows *r, const probe_values *v, int w)
{
    if (w >= W_MIN)
        return v->has_range ? number_cell(v->min_ns[w - W_MIN]) : empty;
    if (w >= W_MAX)
        return v->has_range ? number_cell(v->max_ns[w - W_MAX]) : empty;
    if (w >= W_AVERAGE)
        return v->calls ? number_cell(v->ns[w - W_AVERAGE] / (double)v->calls) : empty;
    if (w >= W_PERCENT)
        return percent_cell(r, v->ns[w - W_PERCENT], (unsigned)(w - W_PERCENT));
    if (w >= W_TOTAL)
        return number_cell(v->ns[w - W_TOTAL]);
    switch (w) {
    case W_CALLS:
        return count_cell(v->calls);
    case W_OS_EVENTS:
        return count_cell(v->os_events);
    case W_ON_CPU_INCLUSIVE:
        return r->session->has_switch_times ? number_cell(v->on_cpu_ns[0]) : empty;
    case W_ON_CPU_EXCLUSIVE:
        return r->session->has_switch_times ? number_cell(v->on_cpu_ns[1]) : empty;
    case W_OVERHEAD_INCLUSIVE:
        return number_cell(v->overhead_ns[0]);
    case W_OVERHEAD_EXCLUSIVE:
        return number_cell(v->overhead_ns[1]);
    default: /* W_RELIABLE */
        return text_cell(text_str(
            v->ns[PROBE_ELAPSED_INCLUSIVE] < RELIABLE_TIMES * v->overhead_ns[1] ? "no" : "yes"));
    }
}

static report_cell function_cell(const report_rows *r, uint32_t function, int w)
{
    if (function == PROBE_NONE)
        return w == W_FUNCTION || w == W_ROOT_FUNCTION ? text_cell(text_str("(outside)")) : empty;
    const probe_function *f = &r->session->functions[function];
    const probe_module *m = &r->session->modules[f->module];
    switch (w) {
    case W_FILE:
        return text_cell(f->file);
    case W_LINE:
        return f->line ? count_cell(f->line) : empty;
    case W_ADDRESS:
        return count_cell(f->addr);
    case W_MODULE_NAME:
        return text_cell(text_base_name(m->path));
    case W_MODULE_PATH:
        return text_cell(m->path);
    default:
        return text_cell(f->name);
    }
}

static report_cell thread_cell(const report_rows *r, const probe_thread_info *t, int w)
{
    switch (w) {
    case W_PROCESS_ID:
        return count_cell(r->session->processes[t->process].pid);
    case W_THREAD_ID:
        return count_cell(t->tid);
    case W_BEGIN:
        return number_cell(t->begin_ns);
    case W_END:
        return t->has_end ? number_cell(t->end_ns) : empty;
    case W_OUTSIDE:
        return number_cell(t->outside_ns);
    case W_LOST_EVENTS:
        return count_cell(t->lost_events);
    case W_LOST_EXITS:
        return count_cell(t->lost_exits);
    case W_STRAY_EXITS:
        return count_cell(t->stray_exits);
    case W_UNKNOWN_OS:
        return count_cell(t->unknown_os);
    case W_DEEP_CALLS:
        return count_cell(t->deep_calls);
    default:
        return text_cell(t->name);
    }
}

static report_cell process_cell(const probe_process_info *p, int w)
{
    switch (w) {
    case W_PROCESS_ID:
        return count_cell(p->pid);
    case W_PARENT_ID:
        return count_cell(p->parent_pid);
    case W_BEGIN:
        return number_cell(p->begin_ns);
    case W_END:
        return p->has_end ? number_cell(p->end_ns) : empty;
    case W_PROBE_COST:
        return number_cell(p->probe_inside_ns + p->probe_outside_ns);
    case W_LOST_EVENTS:
        return count_cell(p->lost_events);
    case W_COMMAND:
        return text_cell(p->command);
    case W_NOTICE:
        return text_cell(p->notice);
    default:
        return text_cell(p->name.len ? p->name : text_base_name(p->program));
    }
}

static report_cell mark_cell(const report_rows *r, const probe_mark *m, int w)
{
    switch (w) {
    case W_MARK_ID:
        return m->kind == SPGO_SPP_MARK ? count_cell((uint64_t)m->id) : empty;
    case W_TIME:
        return number_cell(m->at_ns);
    case W_PROCESS_ID:
        return count_cell(r->session->processes[m->process].pid);
    default:
        if (m->comment.len == 0 && m->kind != SPGO_SPP_MARK)
            return text_cell(text_str(m->kind == SPGO_SPP_MARK_START ? "start" : "stop"));
        return text_cell(m->comment);
    }
}

static report_cell get_cell(const void *ctx, size_t index, size_t column)
{
    static const char *const types[3] = {"function", "caller", "callee"};
    const report_rows *r = ctx;
    const row *w = &r->rows[index];
    const int id = layouts[r->opts.view].columns[column].what;
    if (id >= W_TOTAL || (id >= W_CALLS && id <= W_RELIABLE))
        return value_cell(r, w->values, id);
    switch (id) {
    case W_TYPE:
        return text_cell(text_str(types[w->type]));
    case W_ROOT_FUNCTION:
        return function_cell(r, w->group, id);
    case W_LEVEL:
        return count_cell(w->level);
    case W_HOT:
        return text_cell(text_str(w->is_hot ? "*" : " "));
    default:
        break;
    }
    switch (r->opts.view) {
    case REPORT_MODULES: {
        const spgo_str path = r->session->modules[w->index].path;
        const spgo_str name = text_base_name(path);
        return text_cell(path.len == 0 ? text_str("(unknown)") : id == W_MODULE_NAME ? name : path);
    }
    case REPORT_THREADS:
        return thread_cell(r, &r->session->threads[w->index], id);
    case REPORT_PROCESSES:
        return process_cell(&r->session->processes[w->index], id);
    case REPORT_MARKS:
        return mark_cell(r, &r->session->marks[w->index], id);
    default:
        break;
    }
    report_cell c = function_cell(r, w->function, id);
    if (id == W_FUNCTION && w->level > 0)
        c.indent = 2 * (w->level - 1);
    return c;
}

/* ------------------------------------------------------------------ rows */

static row *add(report_rows *r, const probe_values *values, uint32_t index)
{
    if (r->count == r->capacity) {
        const size_t wanted = r->capacity ? r->capacity * 2 : 256;
        row *grown = realloc(r->rows, wanted * sizeof *grown);
        if (!grown)
            return NULL;
        r->rows = grown;
        r->capacity = wanted;
    }
    r->rows[r->count] = (row){.values = values, .index = index, .function = PROBE_NONE};
    return &r->rows[r->count++];
}

static double order_of(const report_rows *r, const probe_values *v)
{
    return r->opts.sort == REPORT_BY_CALLS ? (double)v->calls
           : r->opts.sort < PROBE_FAMILIES ? v->ns[r->opts.sort]
                                           : 0;
}

static bool matches(const report_rows *r, uint32_t function)
{
    return !r->opts.pattern ||
           text_match(text_str(r->opts.pattern), r->session->functions[function].name);
}

static bool list_functions(report_rows *r)
{
    for (uint32_t i = 0; i < r->session->function_count; i++) {
        if (!matches(r, i))
            continue;
        row *w = add(r, &r->session->functions[i].values, i);
        if (!w)
            return false;
        w->function = i;
    }
    return true;
}

static bool list_modules(report_rows *r)
{
    for (uint32_t i = 0; i < r->session->module_count; i++) {
        const probe_module *m = &r->session->modules[i];
        const bool fits =
            !r->opts.pattern || text_match(text_str(r->opts.pattern), text_base_name(m->path));
        if (m->values.calls > 0 && fits && !add(r, &m->values, i))
            return false;
    }
    return true;
}

static bool list_all(report_rows *r, size_t count)
{
    static const probe_values none = {0};
    for (uint32_t i = 0; i < count; i++) {
        const probe_values *v = r->opts.view == REPORT_THREADS ? &r->session->threads[i].values
                                : r->opts.view == REPORT_PROCESSES
                                    ? &r->session->processes[i].values
                                    : &none;
        if (!add(r, v, i))
            return false;
    }
    return true;
}

static row *add_call(report_rows *r, uint32_t group, uint8_t type, uint32_t function,
                     const probe_values *values)
{
    row *w = add(r, values, (uint32_t)r->count);
    if (w) {
        w->type = type;
        w->group = group;
        w->function = function;
    }
    return w;
}

/* Indexes of the pairs by caller, each group in the order of the pairs; starts[f] to starts[f + 1]
 * are those of function f. */
static uint32_t *pairs_by_caller(const probe_view *s, size_t *starts)
{
    uint32_t *order = malloc((s->pair_count + 1) * sizeof *order);
    for (size_t i = 0; order && i < s->pair_count; i++) {
        if (s->pairs[i].caller != PROBE_NONE)
            starts[s->pairs[i].caller + 2]++;
    }
    for (size_t f = 2; order && f < s->function_count + 2; f++)
        starts[f] += starts[f - 1];
    for (uint32_t i = 0; order && i < s->pair_count; i++) {
        if (s->pairs[i].caller != PROBE_NONE)
            order[starts[s->pairs[i].caller + 1]++] = i;
    }
    return order;
}

/* Callers of each function, then itself, then what it calls. */
static bool list_callers(report_rows *r)
{
    const probe_view *s = r->session;
    size_t *starts = calloc(s->function_count + 3, sizeof *starts);
    uint32_t *by_caller = starts ? pairs_by_caller(s, starts) : NULL;
    bool good = by_caller != NULL;
    size_t pair = 0; /* the pairs are by callee */
    for (uint32_t f = 0; good && f < s->function_count; f++) {
        const bool is_wanted = matches(r, f);
        for (; pair < s->pair_count && s->pairs[pair].callee == f && good; pair++)
            good = !is_wanted || add_call(r, f, 1, s->pairs[pair].caller, &s->pairs[pair].values);
        if (!is_wanted)
            continue;
        good = good && add_call(r, f, 0, f, &s->functions[f].values);
        for (size_t i = starts[f]; good && i < starts[f + 1]; i++) {
            const probe_call_pair *p = &s->pairs[by_caller[i]];
            good = add_call(r, f, 2, p->callee, &p->values) != NULL;
        }
    }
    free(by_caller);
    free(starts);
    return good;
}

static bool is_shown(const report_rows *r, const probe_node *n)
{
    const double total = r->session->total.ns[PROBE_ELAPSED_INCLUSIVE];
    return n->values.ns[PROBE_ELAPSED_INCLUSIVE] * 100 >= r->opts.least_percent * total;
}

/* A single call of which nearly all time is passed on is shown as one with its caller. */
static bool is_folded(const report_rows *r, const probe_node *n)
{
    const probe_node *child =
        n->first_child == PROBE_NONE ? NULL : &r->session->nodes[n->first_child];
    return r->opts.fold && child && child->next_sibling == PROBE_NONE &&
           child->values.calls == n->values.calls &&
           n->values.ns[PROBE_ELAPSED_EXCLUSIVE] < 0.01 * n->values.ns[PROBE_ELAPSED_INCLUSIVE];
}

/* The hot path: from the root always the child with most time, as long as it has the larger part
 * of its parent's. */
static bool is_hot(const report_rows *r, const probe_node *n, bool parent_is_hot)
{
    const probe_node *parent = &r->session->nodes[n->parent];
    return parent_is_hot && parent->first_child == (uint32_t)(n - r->session->nodes) &&
           n->values.ns[PROBE_ELAPSED_INCLUSIVE] * 2 >= parent->values.ns[PROBE_ELAPSED_INCLUSIVE];
}

static bool list_tree(report_rows *r)
{
    const probe_view *s = r->session;
    const probe_node *nodes = s->nodes;
    unsigned level = 1;
    bool *hot = calloc(s->node_count + 1, sizeof *hot);
    uint8_t *is_in = calloc(s->node_count + 1, 1); /* 1: its row counts for a level */
    bool good = hot && is_in;
    if (good && s->node_count > 0)
        hot[0] = true;
    for (uint32_t at = s->node_count > 0 ? nodes[0].first_child : PROBE_NONE;
         good && at != PROBE_NONE;) {
        const probe_node *n = &nodes[at];
        hot[at] = is_hot(r, n, hot[n->parent]);
        const bool shown = is_shown(r, n);
        if (shown && !is_folded(r, n)) {
            row *w = add(r, &n->values, at);
            good = w != NULL;
            if (w) {
                w->function = n->function;
                w->level = level;
                w->is_hot = hot[at];
            }
            is_in[at] = 1;
        }
        if (shown && n->first_child != PROBE_NONE) {
            level += is_in[at];
            at = n->first_child;
            continue;
        }
        while (at != 0 && nodes[at].next_sibling == PROBE_NONE) {
            at = nodes[at].parent;
            level -= is_in[at];
        }
        at = at == 0 ? PROBE_NONE : nodes[at].next_sibling;
    }
    free(hot);
    free(is_in);
    return good;
}

/* Stable for equal values, since the list's own order breaks ties. */
static int row_order(const void *pa, const void *pb)
{
    const row *a = pa, *b = pb;
    if (a->order != b->order)
        return a->order > b->order ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

typedef struct named_row {
    spgo_str name;
    row row;
} named_row;

static int name_order(const void *pa, const void *pb)
{
    const named_row *a = pa, *b = pb;
    const size_t n = a->name.len < b->name.len ? a->name.len : b->name.len;
    const int by_text = n ? memcmp(a->name.ptr, b->name.ptr, n) : 0;
    if (by_text != 0)
        return by_text;
    if (a->name.len != b->name.len)
        return a->name.len < b->name.len ? -1 : 1;
    return a->row.index < b->row.index ? -1 : 1;
}

static bool sort_by_name(report_rows *r)
{
    named_row *named = malloc((r->count + 1) * sizeof *named);
    if (!named)
        return false;
    for (size_t i = 0; i < r->count; i++)
        named[i] = (named_row){r->opts.view == REPORT_MODULES
                                   ? r->session->modules[r->rows[i].index].path
                                   : r->session->functions[r->rows[i].function].name,
                               r->rows[i]};
    qsort(named, r->count, sizeof *named, name_order);
    for (size_t i = 0; i < r->count; i++)
        r->rows[i] = named[i].row;
    free(named);
    return true;
}

static bool sort_rows(report_rows *r)
{
    const bool is_sorted = r->opts.view == REPORT_FUNCTIONS || r->opts.view == REPORT_SUMMARY ||
                           r->opts.view == REPORT_MODULES;
    if (!is_sorted || r->count == 0)
        return true;
    if (r->opts.sort == REPORT_BY_NAME)
        return sort_by_name(r);
    for (size_t i = 0; i < r->count; i++)
        r->rows[i].order = order_of(r, r->rows[i].values);
    qsort(r->rows, r->count, sizeof *r->rows, row_order);
    return true;
}

static bool list_rows(report_rows *r)
{
    const probe_view *s = r->session;
    switch (r->opts.view) {
    case REPORT_CALLERS:
        return list_callers(r);
    case REPORT_TREE:
        return list_tree(r);
    case REPORT_MODULES:
        return list_modules(r);
    case REPORT_THREADS:
        return list_all(r, s->thread_count);
    case REPORT_PROCESSES:
        return list_all(r, s->process_count);
    case REPORT_MARKS:
        return list_all(r, s->mark_count);
    default:
        return list_functions(r);
    }
}

spgo_code report_make(const probe_view *session, const report_opts *opts, report_rows **rows,
                      spgo_error *err)
{
    const struct layout *l = &layouts[opts->view];
    report_rows *r = calloc(1, sizeof *r);
    report_column *columns = calloc(l->count, sizeof *columns);
    *rows = r;
    if (r && columns) {
        for (size_t i = 0; i < l->count; i++)
            columns[i] = l->columns[i].column;
        r->session = session;
        r->opts = *opts;
        r->table = (report_table){.name = l->name,
                                  .row = l->row,
                                  .columns = columns,
                                  .column_count = l->count,
                                  .ctx = r,
                                  .cell = get_cell};
    } else {
        free(columns);
    }
    if (!r || !columns || !list_rows(r) || !sort_rows(r)) {
        report_free(r);
        *rows = NULL;
        return spgo_fail_nomem(err, "report", session->node_count * sizeof(row));
    }
    if (opts->top && r->count > opts->top)
        r->count = opts->top;
    r->table.row_count = r->count;
    return SPGO_OK;
}

void report_free(report_rows *r)
{
    if (!r)
        return;
    free((void *)(uintptr_t)r->table.columns);
    free(r->rows);
    free(r);
}

const report_table *report_rows_table(const report_rows *r)
{
    return &r->table;
}
