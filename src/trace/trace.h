/*
 * Recordings of any kind as one stream of samples.
 *
 * Opening a trace surveys its files once: which processes, threads and images there were, when
 * (timeline.h), what the counters are called, what was lost. Reading then goes through the files a
 * second time and delivers samples in batches, each sample already tied to its process. Memory
 * follows the number of processes and images, not the number of samples.
 *
 * ETL files of one boot of one machine are one session and are read in time order together; every
 * other file is a session of its own. Sessions are read one after the other.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <base/diag.h>
#include <trace/timeline.h>

/* What a counter counts, as far as it matters here. */
typedef enum trace_counter {
    TRACE_COUNTER_OTHER,
    TRACE_COUNTER_TIMER,
    TRACE_COUNTER_CYCLES,
    TRACE_COUNTER_INSTRUCTIONS,
    TRACE_COUNTER_BRANCHES,
    TRACE_COUNTER_ICACHE_MISSES,
    TRACE_COUNTER_DCACHE_MISSES
} trace_counter;

/* Where samples come from: the timer, a PMC, a perf event. */
typedef struct trace_source {
    spgo_str name;
    trace_counter counter;
    uint64_t interval; /* counts per sample (100 ns units for the Windows timer); 0 if unknown */
    uint64_t samples;  /* read so far */
} trace_source;

/* Which counter a name of Windows' profile sources or of perf's events stands for. */
trace_counter trace_counter_of_name(spgo_str name);

typedef enum trace_part {
    TRACE_IP,       /* one address: where the counter ran over */
    TRACE_BRANCHES, /* pairs from, to, newest first */
    TRACE_STACK     /* return addresses, leaf first */
} trace_part;

enum {
    TRACE_GAPS = 1u << 0,     /* branches: kinds were left out, so neighbours say nothing */
    TRACE_INTERRUPT = 1u << 1 /* taken in an ISR or DPC: not on the process's behalf */
};

typedef struct trace_sample {
    uint64_t time; /* raw clock of its session */
    uint64_t hits;
    uint32_t process;                /* of the session's timeline, or TIMELINE_NONE */
    uint32_t addr_first, addr_count; /* in the batch's addrs; pairs count two */
    uint8_t part;                    /* trace_part */
    uint8_t counter;                 /* trace_counter, of TRACE_IP */
    uint8_t flags;
} trace_sample;

/* Samples with all they refer to. Reusable; zero to start. */
typedef struct trace_batch {
    const timeline *who;
    uint64_t kernel_start; /* the lowest address that is the kernel's */
    trace_sample *samples;
    size_t count, cap;
    uint64_t *addrs;
    size_t addr_count, addr_cap;
} trace_batch;
void trace_batch_free(trace_batch *b);

/* What was met on the way, over all sessions. Counts of samples are complete when trace_read has
 * returned false. */
typedef struct trace_tally {
    uint64_t records; /* of any kind */
    uint64_t timer_samples, pmc_samples;
    uint64_t lbr_records, lbr_entries;
    uint64_t lbr_with_trigger;       /* of lbr_records */
    uint64_t stacks;                 /* fragments, a key-cached one each time it is used */
    uint64_t stacks_untied;          /* of an event that is no sample: left out */
    uint64_t stacks_undefined;       /* the key was never defined: left out */
    uint64_t images, images_with_id; /* mappings into processes */
    uint64_t context_switches;
    uint64_t lost_events, lost_buffers;
    uint64_t bad_records, bad_buffers;
} trace_tally;

typedef enum trace_format { TRACE_ETL, TRACE_PERFDATA } trace_format;

typedef struct trace_input {
    const char *path;
    trace_format format;
    diag findings;
} trace_input;

typedef struct trace_opts {
    const char *const *image_dirs; /* where to look for ELF images by base name */
    size_t image_dir_count;
    /* Called now and then from trace_open and trace_read with the share of the two passes that is
     * done; may be NULL. */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ctx;
} trace_opts;

typedef struct trace trace;

/* On failure *failed_path (may be NULL) names the file at fault. */
spgo_code trace_open(const char *const *paths, size_t path_count, const trace_opts *opts,
                     trace **out, const char **failed_path, spgo_error *err);
void trace_close(trace *t); /* NULL is fine */

size_t trace_input_count(const trace *t);
const trace_input *trace_get_input(const trace *t, size_t index);
size_t trace_session_count(const trace *t);
const timeline *trace_get_timeline(const trace *t, size_t session);
const module_table *trace_modules(const trace *t);
size_t trace_source_count(const trace *t);
const trace_source *trace_get_source(const trace *t, size_t index);
const trace_tally *trace_get_tally(const trace *t);

/* Fills the batch with the next samples, all of one session; the same cuts every time. False when
 * there are no more (the batch is empty) or *err says why reading cannot go on. */
bool trace_read(trace *t, trace_batch *batch, spgo_error *err);

#endif
