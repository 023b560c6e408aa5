/*
 * A probe session for other tools: doc/probes.md, "For other tools".
 *
 * Paths of calls: folded stacks, speedscope, callgrind. Events, from sessions that kept them: the
 * trace events of Chrome, which Perfetto reads too.
 */
#ifndef REPORT_EXPORT_H
#define REPORT_EXPORT_H

#include <base/json.h>
#include <base/out.h>
#include <probe/session.h>

typedef enum report_export {
    REPORT_FOLDED,
    REPORT_SPEEDSCOPE,
    REPORT_CALLGRIND,
    REPORT_CHROME,
    REPORT_EXPORT_COUNT
} report_export;

/* "folded", ...; NULL beyond the last. */
const char *report_export_name(report_export e);

/* Is it made of events, and not of paths? */
bool report_export_needs_events(report_export e);

typedef struct report_export_opts {
    probe_family family;  /* exclusive values of paths: elapsed or application */
    uint64_t limit_bytes; /* of events: none are written beyond; 0: no limit */
} report_export_opts;

/* *left_out: events that the limit kept out. */
void report_export_write(out *o, report_export e, const probe_session *s,
                         const report_export_opts *opts, uint64_t *left_out);

#endif
