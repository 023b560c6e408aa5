/*
 * From a trace to an SPT file: each sample's addresses become RVAs of the images they lie in, and
 * what SPT can hold is written down, the rest counted by reason.
 *
 * An LBR record is written as runs of neighbouring branches of one image. A reader takes the
 * stretch between two neighbours for code that ran, so a run ends where that would not be so: where
 * a branch is left out, where two neighbours make no sense, and where the image is left or entered;
 * there the foreign end stands as SPGO_SPT_OUTSIDE. Call stacks are cut the same way.
 */
#ifndef AGGREGATE_AGGREGATE_H
#define AGGREGATE_AGGREGATE_H

#include <trace/trace.h>

typedef struct aggregate_opts {
    const char *const *processes; /* patterns of names, any of which must match; NULL: all */
    size_t process_count;
    const char *const *binaries; /* patterns of image names; NULL: all */
    size_t binary_count;
    bool no_kernel;
    bool require_id;  /* an image without an identity is a failure, not a finding */
    unsigned threads; /* 0: one per processor, at most 8. The output does not depend on it. */
} aggregate_opts;

/* Why something of a sample was left out. */
typedef enum aggregate_drop {
    AGGREGATE_NO_PROCESS,      /* the process or thread was never seen */
    AGGREGATE_NO_IMAGE,        /* no image is known at that address at that time */
    AGGREGATE_WRONG_PROCESS,   /* a branch in no image of its process, but in one of another: around
                                  a context switch Windows names the wrong process */
    AGGREGATE_KERNEL,          /* kernel address, and the kernel is not wanted */
    AGGREGATE_OTHER_PROCESS,   /* of a process that is not wanted, or an interrupt of no process */
    AGGREGATE_OTHER_BINARY,    /* in an image that is not wanted */
    AGGREGATE_CROSS_MODULE,    /* the two ends lie in different images; of a branch each wanted end
                                  is kept with the other as SPGO_SPT_OUTSIDE */
    AGGREGATE_EMPTY,           /* a branch slot that was never filled */
    AGGREGATE_UNKNOWN_COUNTER, /* a counter that has no SPT opcode */
    AGGREGATE_FAR_RVA,         /* beyond 4 GiB of its image: SPT has 32 bits */
    AGGREGATE_DROP_COUNT
} aggregate_drop;

/* A short stable name of the reason, and a sentence on it. */
const char *aggregate_drop_name(aggregate_drop reason);
const char *aggregate_drop_text(aggregate_drop reason);

/* Units: samples for TRACE_IP, branches for TRACE_BRANCHES, arcs between neighbouring frames for
 * TRACE_STACK; each times its sample's hits. */
typedef struct aggregate_part {
    uint64_t seen;
    uint64_t used;
    uint64_t dropped[AGGREGATE_DROP_COUNT];
} aggregate_part;

typedef struct aggregate_tally {
    aggregate_part parts[3];                /* by trace_part */
    uint64_t lbr_records_used, stacks_used; /* of which at least one arc was */
    uint64_t bogus_ranges; /* neighbouring branches with no sensible code between: runs cut there */
    uint64_t spt_records;  /* before equal ones were joined */
    uint64_t programs;
    uint64_t programs_without_id;
} aggregate_tally;

/* An image that samples were written for. */
typedef struct aggregate_program {
    uint32_t module; /* of trace_modules */
    uint64_t hits;   /* IP hits, branches and stack arcs written */
} aggregate_program;

typedef struct aggregate_result {
    aggregate_tally tally;
    aggregate_program *programs; /* in the order of the SPT file's table; owned */
    size_t program_count;
} aggregate_result;
void aggregate_result_free(aggregate_result *r);

/* Reads the trace to its end and writes the SPT file. The sink must be able to patch. With
 * require_id: SPGO_NOT_FOUND names the image. */
spgo_code aggregate_to_spt(trace *t, const aggregate_opts *opts, spgo_sink sink,
                           aggregate_result *result, spgo_error *err);

#endif
