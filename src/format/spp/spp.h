/*
 * Reading SPP files: what the probe runtime leaves behind. <spgo/spp.h> has the layout,
 * doc/formats/spp.md the rules. A file may be of a program that still runs, or was killed: all of
 * its chunks are read, and what is half written is what it is at that moment.
 *
 * Everything is a view into the bytes given to spp_open, which must outlive it. Nothing in the file
 * is trusted: parents come before their children or the node is left out with a finding, so that
 * trees are trees.
 */
#ifndef FORMAT_SPP_H
#define FORMAT_SPP_H

#include <base/arena.h>
#include <base/diag.h>
#include <spgo/spp.h>

typedef struct spp_header {
    uint32_t pid, parent_pid;
    uint32_t mode, os_events, clock, flags;
    int32_t start_count, suspend_count;
    uint32_t lost_threads;
    uint64_t lost_events;
    uint64_t clock_first, clock_first_ns, clock_last, clock_last_ns;
    uint64_t start_wall_ns;
    uint64_t end_clock;
    uint64_t probe_inside, probe_outside; /* ticks/256 */
    spgo_str program, name, notice;
    spgo_span command; /* words, each ended by NUL */
} spp_header;

typedef struct spp_thread {
    uint32_t number, tid;
    uint64_t begin, end, last;
    uint64_t lost_events, lost_exits, stray_exits, unknown_os, off_cpu, clock_steps, deep_calls;
    spgo_str name;
    const uint8_t **tree_chunks; /* by sequence; NULL: missing */
    size_t tree_chunk_count;
    const uint8_t **event_chunks; /* by sequence, rising, not without gaps in a ring */
    size_t event_chunk_count;
} spp_thread;

typedef struct spp_module {
    uint64_t bias, begin, end, loaded, unloaded;
    spgo_span build_id;
    spgo_str path;
} spp_module;

typedef struct spp_mark {
    uint64_t clock;
    int64_t id;
    uint32_t kind, owner;
    spgo_str comment;
} spp_mark;

typedef struct spp_file {
    spp_header header;
    spp_thread *threads; /* by number; only those that have a tree */
    size_t thread_count;
    spp_module *modules;
    size_t module_count;
    spp_mark *marks;
    size_t mark_count;
    double ns_per_tick;
} spp_file;

/* SPGO_CORRUPT: no SPP file, or another version. Damage inside is in d, and the rest is read. */
spgo_code spp_open(spgo_span bytes, arena *mem, spp_file *out, diag *d, spgo_error *err);

/* Is this the start of an SPP file? */
bool spp_is_file(spgo_span bytes);

/* How many node numbers a thread has, the ones that are none included. */
uint32_t spp_node_count(const spp_thread *t);

/* False: the number is none, its chunk is missing, the node was never used, or its parent does not
 * come before it. */
bool spp_node(const spp_thread *t, uint32_t number, spgo_spp_node *out);

typedef struct spp_event {
    uint8_t kind; /* SPGO_SPP_ENTER or SPGO_SPP_EXIT */
    bool has_os_event;
    uint32_t node;
    uint64_t clock; /* at the probe */
    uint64_t since; /* ticks since the event before it; what lies before the first of a chunk that
                       does not follow the one before is 0 */
} spp_event;

typedef struct spp_events {
    const spp_thread *thread;
    size_t chunk;
    const uint8_t *at, *end;
    uint64_t clock;
    uint32_t next_sequence;
    uint64_t lost; /* events known to be missing before the one that was read last */
    bool is_gap;   /* the event that comes next does not follow the one before it */
} spp_events;

spp_events spp_events_of(const spp_thread *t);
bool spp_next_event(spp_events *e, spp_event *out);

/* Nanoseconds since clock_first. */
static inline double spp_ns(const spp_file *f, uint64_t clock)
{
    return (double)(int64_t)(clock - f->header.clock_first) * f->ns_per_tick;
}

#endif
