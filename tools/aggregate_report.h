/* What sptaggregate tells about a run: the counts, and for every zero the reason and the way out.
 */
#ifndef AGGREGATE_REPORT_H
#define AGGREGATE_REPORT_H

#include "cli.h"

#include <aggregate/aggregate.h>

typedef struct aggregate_report {
    const cli_args *args;
    const char *output_path; /* NULL: nothing was written */
    const trace *t;
    const aggregate_opts *opts;
    const aggregate_result *result;
    bool quiet; /* warnings and errors, but no notes */
} aggregate_report;

void aggregate_report_text(out *o, const aggregate_report *r);
void aggregate_report_json(out *o, const aggregate_report *r);

/* Notes and warnings to standard error: findings of the inputs, losses, zeros explained, images
 * without identity, names that matched nothing. Returns CLI_OK or CLI_PARTIAL (damage). */
int aggregate_report_findings(const aggregate_report *r);

#endif
