/*
 * The views of a probe session as tables: which rows, in which order, with which columns.
 * doc/probes.md, "Reports", tells what each shows.
 */
#ifndef REPORT_VIEWS_H
#define REPORT_VIEWS_H

#include <probe/session.h>
#include <report/table.h>

typedef enum report_view {
    REPORT_FUNCTIONS,
    REPORT_CALLERS, /* caller/callee */
    REPORT_TREE,
    REPORT_MODULES,
    REPORT_THREADS,
    REPORT_PROCESSES,
    REPORT_MARKS,
    REPORT_SUMMARY,
    REPORT_VIEW_COUNT
} report_view;

/* "functions", "callers", ...; NULL beyond the last. */
const char *report_view_name(report_view v);

typedef struct report_opts {
    report_view view;
    int sort;                /* a probe_family, or REPORT_BY_CALLS, REPORT_BY_NAME */
    size_t top;              /* rows at most; 0: all */
    bool percent_of_elapsed; /* percentages of application values as the report pages have them */
    const char *pattern;     /* functions (and modules) of these names only; NULL: all */
    double least_percent;    /* tree: paths below this share of the session are left out */
    bool fold;               /* tree: chains of single calls become one row */
} report_opts;

enum { REPORT_BY_CALLS = PROBE_FAMILIES, REPORT_BY_NAME };

/* The rows of a view; freed by report_free. */
typedef struct report_rows report_rows;
spgo_code report_make(const probe_view *session, const report_opts *opts, report_rows **rows,
                      spgo_error *err);
void report_free(report_rows *r); /* NULL is fine */
const report_table *report_rows_table(const report_rows *r);

#endif
