/* Two sessions side by side: see diff.h. */
#include <report/diff.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>

/* What one session has of one function or module. */
typedef struct item {
    spgo_str name, module;
    double value;
    bool is_after;
} item;

typedef struct row {
    spgo_str name, module;
    bool is_in[2]; /* before, after */
    double value[2];
} row;

struct report_diff {
    report_diff_opts opts;
    report_table table;
    report_column columns[6];
    row *rows;
    size_t count;
};

static int compare_text(spgo_str a, spgo_str b)
{
    const size_t n = a.len < b.len ? a.len : b.len;
    const int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

static int item_order(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    int order = compare_text(a->name, b->name);
    order = order ? order : compare_text(a->module, b->module);
    return order ? order : (int)a->is_after - (int)b->is_after;
}

static double value_of(const probe_values *v, int column)
{
    return column == PROBE_FAMILIES ? (double)v->calls : v->ns[column];
}

static size_t list(const probe_view *v, const report_diff_opts *o, bool is_after, item *items)
{
    size_t n = 0;
    for (size_t i = 0; !o->modules && i < v->function_count; i++) {
        const probe_function *f = &v->functions[i];
        items[n++] = (item){f->name, text_base_name(v->modules[f->module].path),
                            value_of(&f->values, o->column), is_after};
    }
    for (size_t i = 0; o->modules && i < v->module_count; i++) {
        if (v->modules[i].values.calls > 0)
            items[n++] = (item){text_base_name(v->modules[i].path),
                                {0},
                                value_of(&v->modules[i].values, o->column),
                                is_after};
    }
    return n;
}

/* Several functions of one name (static ones of different files) are one row. */
static void join(report_diff *d, const item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const item *it = &items[i];
        row *r = d->count ? &d->rows[d->count - 1] : NULL;
        if (!r || compare_text(r->name, it->name) != 0 ||
            compare_text(r->module, it->module) != 0) {
            r = &d->rows[d->count++];
            *r = (row){.name = it->name, .module = it->module};
        }
        r->is_in[it->is_after] = true;
        r->value[it->is_after] += it->value;
    }
}

static double change(const row *r)
{
    return r->value[1] - r->value[0];
}

static double size_of(double v)
{
    return v < 0 ? -v : v;
}

static int row_order(const void *pa, const void *pb)
{
    const row *a = pa, *b = pb;
    const double x = size_of(change(a)), y = size_of(change(b));
    if (x != y)
        return x > y ? -1 : 1;
    const int order = compare_text(a->name, b->name);
    return order ? order : compare_text(a->module, b->module);
}

static void keep_large(report_diff *d, const probe_view *before, const probe_view *after)
{
    const double a = value_of(&before->total, d->opts.column);
    const double b = value_of(&after->total, d->opts.column);
    const double least = d->opts.threshold / 100 * (a > b ? a : b);
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (change(&d->rows[i]) != 0 && size_of(change(&d->rows[i])) >= least)
            d->rows[kept++] = d->rows[i];
    }
    d->count = kept;
}

static report_cell get_cell(const void *ctx, size_t index, size_t column)
{
    const report_diff *d = ctx;
    const row *r = &d->rows[index];
    report_cell c = {0};
    switch (column) {
    case 0:
    case 1:
        c.is_empty = !r->is_in[column];
        c.number = r->value[column];
        c.count = (uint64_t)r->value[column];
        break;
    case 2:
        c.number = change(r);
        break;
    case 3:
        c.is_empty = r->value[0] == 0;
        c.number = c.is_empty ? 0 : 100 * change(r) / r->value[0];
        break;
    case 4:
        c.text = r->module;
        c.is_empty = r->module.len == 0;
        break;
    default:
        c.text = r->name;
        break;
    }
    return c;
}

static void set_columns(report_diff *d)
{
    const bool is_calls = d->opts.column == PROBE_FAMILIES;
    const report_kind kind = is_calls ? REPORT_COUNT : REPORT_MS;
    const report_column columns[6] = {
        {"Before", is_calls ? "before" : "before ms", is_calls ? "before" : "before_ms", kind},
        {"After", is_calls ? "after" : "after ms", is_calls ? "after" : "after_ms", kind},
        {"Difference", is_calls ? "difference" : "difference ms",
         is_calls ? "difference" : "difference_ms", is_calls ? REPORT_NUMBER : REPORT_MS},
        {"Difference %", "%", "difference_percent", REPORT_PERCENT},
        {"Module Name", d->opts.modules ? NULL : "module", "module", REPORT_TEXT},
        {d->opts.modules ? "Module" : "Function Name", d->opts.modules ? "module" : "function",
         d->opts.modules ? "name" : "function", REPORT_TEXT}};
    memcpy(d->columns, columns, sizeof columns);
}

spgo_code report_diff_make(const probe_view *before, const probe_view *after,
                           const report_diff_opts *opts, report_diff **diff, spgo_error *err)
{
    const size_t most = before->function_count + after->function_count + before->module_count +
                        after->module_count + 1;
    item *items = malloc(most * sizeof *items);
    report_diff *d = calloc(1, sizeof *d);
    row *rows = malloc(most * sizeof *rows);
    *diff = NULL;
    if (!items || !d || !rows) {
        free(items);
        free(rows);
        free(d);
        return spgo_fail_nomem(err, "difference", most * sizeof *rows);
    }
    d->opts = *opts;
    d->rows = rows;
    size_t n = list(before, opts, false, items);
    n += list(after, opts, true, items + n);
    if (n > 0)
        qsort(items, n, sizeof *items, item_order);
    join(d, items, n);
    free(items);
    keep_large(d, before, after);
    if (d->count > 0)
        qsort(d->rows, d->count, sizeof *d->rows, row_order);
    if (opts->top && d->count > opts->top)
        d->count = opts->top;
    set_columns(d);
    d->table = (report_table){.name = "Differences",
                              .row = "Difference",
                              .columns = d->columns,
                              .column_count = 6,
                              .row_count = d->count,
                              .ctx = d,
                              .cell = get_cell};
    *diff = d;
    return SPGO_OK;
}

void report_diff_free(report_diff *d)
{
    if (!d)
        return;
    free(d->rows);
    free(d);
}

const report_table *report_diff_table(const report_diff *d)
{
    return &d->table;
}
