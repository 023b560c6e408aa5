/*
 * Two sessions side by side: functions or modules that took more or less. Functions are the same if
 * their names and the base names of their modules are.
 */
#ifndef REPORT_DIFF_H
#define REPORT_DIFF_H

#include <probe/session.h>
#include <report/table.h>

typedef struct report_diff_opts {
    bool modules;     /* rows are modules, otherwise functions */
    int column;       /* a probe_family, or PROBE_FAMILIES for calls */
    double threshold; /* percent of the session's value (the larger one) below which a difference is
                         not shown */
    size_t top;       /* 0: all */
} report_diff_opts;

/* Rows by the size of their difference. */
typedef struct report_diff report_diff;
spgo_code report_diff_make(const probe_view *before, const probe_view *after,
                           const report_diff_opts *opts, report_diff **diff, spgo_error *err);
void report_diff_free(report_diff *d); /* NULL is fine */
const report_table *report_diff_table(const report_diff *d);

#endif
