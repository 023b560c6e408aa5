/*
 * What was measured, of one or several processes: the rule of the instrumentation values applied to
 * the trees that the runtime left. doc/probes.md, "The values", has the rule with worked examples.
 *
 * An interval between two probes of a thread counts
 *   as elapsed exclusive of the function that was current, as elapsed inclusive once of every
 *   function on the stack, and likewise as application exclusive and inclusive if no event of the
 *   operating system fell into it.
 * A function on the stack twice counts once. Totals are sums over threads, not wall time. What
 * probes cost is taken off; a value never gets below zero.
 *
 * Times are nanoseconds, as doubles: exact for sums of 104 days. Everything lives until
 * probe_session_free.
 */
#ifndef PROBE_SESSION_H
#define PROBE_SESSION_H

#include <base/diag.h>
#include <format/spp/spp.h>

enum { PROBE_FAMILIES = 4 };
#define PROBE_NONE UINT32_MAX /* no function, no node */

/* The four values, in the order of reports. */
typedef enum probe_family {
    PROBE_ELAPSED_INCLUSIVE,
    PROBE_ELAPSED_EXCLUSIVE,
    PROBE_APPLICATION_INCLUSIVE,
    PROBE_APPLICATION_EXCLUSIVE
} probe_family;

typedef struct probe_values {
    uint64_t calls;
    double ns[PROBE_FAMILIES];
    /* Elapsed less the time switched out, and nothing else: inclusive, exclusive. Of sessions
     * without switch times they are 0. */
    double on_cpu_ns[2];
    double overhead_ns[2]; /* of probes, taken off: inclusive, exclusive */
    double min_ns[PROBE_FAMILIES], max_ns[PROBE_FAMILIES]; /* of a call that returned */
    uint64_t os_events;
    bool has_range; /* some call returned */
} probe_values;

typedef struct probe_module {
    spgo_str path; /* as the process had it; empty: code that is in no module */
    spgo_span build_id;
    probe_values values; /* inclusive: while any of its functions was on the stack */
} probe_module;

typedef struct probe_function {
    uint32_t module;
    uint64_t addr; /* in the module: address less its load bias */
    spgo_str name; /* for people; of unknown ones made of the address */
    spgo_str file; /* empty: not known */
    uint32_t line;
    probe_values values;
} probe_function;

/* A path of calls, over all threads of the session. Parents come before children; children of one
 * parent by falling elapsed inclusive time once probe_session_close has run. */
typedef struct probe_node {
    uint32_t function; /* PROBE_NONE: the root */
    uint32_t parent;
    uint32_t first_child, next_sibling; /* PROBE_NONE: none */
    uint32_t level;                     /* the root has 0 */
    probe_values values;                /* inclusive: sums of the subtree */
} probe_node;

/* All calls from one function to another, or from outside (caller PROBE_NONE). */
typedef struct probe_call_pair {
    uint32_t caller, callee;
    probe_values values; /* the callee's, as far as they are due to this caller */
} probe_call_pair;

typedef struct probe_thread_info {
    uint32_t process;
    uint32_t tid;
    spgo_str name;
    double begin_ns, end_ns; /* since the session's first process started */
    bool has_end;
    double outside_ns; /* between probes, but in no instrumented function */
    uint64_t lost_events, lost_exits, stray_exits, unknown_os, clock_steps, deep_calls;
    probe_values values; /* of all of its functions */
} probe_thread_info;

typedef struct probe_process_info {
    uint32_t pid, parent_pid;
    spgo_str program, name, command, notice;
    uint32_t mode, os_events, clock;
    double begin_ns, end_ns;
    bool has_end;
    uint64_t lost_events;
    uint32_t lost_threads;
    double probe_inside_ns, probe_outside_ns; /* cost of a call's two probes */
    probe_values values;
} probe_process_info;

typedef struct probe_mark {
    uint32_t process;
    double at_ns;
    int64_t id;
    uint32_t kind; /* spgo_spp_mark_kind */
    spgo_str comment;
} probe_mark;

typedef struct probe_session probe_session;

probe_session *probe_session_new(spgo_error *err); /* NULL: no memory */
void probe_session_free(probe_session *s);

/* A moment of a process: nanoseconds since it started, or the first mark with an id. */
typedef struct probe_when {
    bool is_mark;
    int64_t mark;
    double ns;
} probe_when;

typedef struct probe_filter {
    uint32_t pid; /* 0: any */
    uint32_t tid;
    /* A part of the time: values are made of the events, which a ring or a stream has, instead of
     * the trees. A process without the mark has no part in it. */
    bool has_window;
    probe_when from, to;
    bool keeps_events; /* probe_events_of will be asked for */
} probe_filter;

/* Adds the file of a process; its bytes must outlive the session. Damage is in d. */
spgo_code probe_session_add(probe_session *s, spgo_span bytes, const probe_filter *filter, diag *d,
                            spgo_error *err);

/* Names and lines of all functions, by src/symbol. Without it addresses are shown. What cannot be
 * found is in d and stays an address. */
typedef struct probe_names_opts {
    const char *const *dirs; /* as symbols_opts */
    size_t dir_count;
    bool any_id;
} probe_names_opts;
spgo_code probe_session_name(probe_session *s, const probe_names_opts *opts, diag *d,
                             spgo_error *err);

/* Applies the rule; nothing may be added after it. */
spgo_code probe_session_close(probe_session *s, spgo_error *err);

typedef struct probe_event {
    bool is_enter;
    bool has_os_event;
    uint32_t function;
    double at_ns; /* since the session's first process started */
} probe_event;

/* The events of a thread of the view, in order; only with keeps_events. Between two of them some
 * may be missing (lost_before counts all so far), and exits too. */
typedef struct probe_events {
    const probe_session *session;
    size_t thread;
    spp_events events;
    uint64_t lost_before;
} probe_events;
probe_events probe_events_of(const probe_session *s, size_t thread);
bool probe_next_event(probe_events *e, probe_event *out);

/* Valid after close. */
typedef struct probe_view {
    const probe_process_info *processes;
    size_t process_count;
    const probe_thread_info *threads;
    size_t thread_count;
    const probe_module *modules;
    size_t module_count;
    const probe_function *functions;
    size_t function_count;
    const probe_node *nodes; /* nodes[0] is the root */
    size_t node_count;
    const probe_call_pair *pairs; /* by callee, then by falling elapsed inclusive time */
    size_t pair_count;
    const probe_mark *marks; /* in order of time */
    size_t mark_count;
    probe_values total; /* the session's: inclusive and exclusive are the same */
    bool has_switch_times;
} probe_view;
const probe_view *probe_session_view(const probe_session *s);

#endif
