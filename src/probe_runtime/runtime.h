/*
 * Inside the probe runtime: what its parts share. doc/probes.md tells how it works.
 *
 * Everything here runs inside a program that knows nothing of it: between any two of its
 * instructions, in its signal handlers, before its constructors and after its destructors. So there
 * is no malloc, no lock and no system call on the way of a probe; memory comes from mmap, and what
 * a probe writes is a file's mapping, complete at any moment.
 */
#ifndef PROBE_RUNTIME_H
#define PROBE_RUNTIME_H

#include <spgo/spp.h>

#include <stdatomic.h>
#include <stddef.h>

/* Nothing of the runtime may call back into it. */
#define NO_PROBE __attribute__((no_instrument_function))
#define COLD __attribute__((no_instrument_function, cold, noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
    PATHS_MAX = 1 << 20, /* nodes of a thread */
    DEPTH_MAX = 1 << 16, /* frames that are followed; deeper ones are counted only */
    TREE_BYTES_MAX = PATHS_MAX * SPGO_SPP_NODE_BYTES,
    RING_CHUNKS_DEFAULT = 16, /* of a thread: 131,072 events */
    MODULES_MAX = 4096
};

/* ------------------------------------------------------------------ one thread */

/* Two values that are added or subtracted together: one of elapsed, one of application time. */
typedef uint64_t probe_pair __attribute__((vector_size(16), may_alias));
typedef int32_t probe_quad __attribute__((vector_size(16)));

/* In a frame's function: its time is its caller's, and its node too. */
#define PROBE_LEFT_OUT (UINT64_C(1) << 63)

/* A call that has not returned. */
typedef struct probe_frame {
    spgo_spp_node *node;
    void *call_site;
    uintptr_t address; /* of the hook's frame: deeper calls have lower ones */
    uint64_t function; /* as its probes name it; of one that does not count, with PROBE_LEFT_OUT */
    probe_pair at_entry; /* the thread's totals */
    probe_pair children; /* what calls from here took, inclusive */
} probe_frame;

/* What a call's values must leave for a node's minima and maxima to change, as far as they fit into
 * 32 bits: elapsed, application inclusive; elapsed, application exclusive. */
typedef struct probe_bounds {
    probe_quad min, max;
} probe_bounds;

struct perf_event_mmap_page;

typedef struct probe_thread {
    probe_pair totals; /* of its intervals so far: elapsed, application */
    /* What every probe touches. */
    uintptr_t busy;      /* a probe is at work: its frame's address; also if none may be */
    uint64_t last;       /* clock at the last probe */
    spgo_spp_node *node; /* the current function's */
    probe_frame *frame;  /* likewise; frames[0] is the root's */
    volatile const uint64_t *os_word; /* the kernel changes it at an event; see os_event.c */
    uint64_t os_expected;
    spgo_spp_node *nodes; /* TREE_BYTES_MAX bytes of addresses, mapped as far as used */
    probe_bounds *bounds; /* of each node */
    probe_frame *deepest; /* the last that is followed */
    uint64_t *event;      /* next free event, NULL without events */
    uint64_t *event_end;
    uint64_t event_clock; /* of the last event */
    uint32_t control;     /* as it was when this thread last looked; 0: look again */
    uint32_t too_deep;    /* calls beyond the deepest frame */

    /* What few probes touch. */
    uint32_t node_count; /* next free node */
    uint32_t mapped_nodes;
    uint32_t number;
    uint32_t tid;
    int32_t start_count, suspend_count; /* of the thread: see control.c */
    spgo_spp_thread *record;
    probe_frame *frames;
    uintptr_t stack_begin, stack_end; /* of the thread itself; not of alternate stacks */
    uint32_t *index;                  /* nodes by parent and function, open addressing */
    uint32_t index_slots;
    uint32_t tree_chunks;
    uint32_t unloads_seen;
    uint32_t control_seen;
    spgo_spp_chunk *event_chunk;
    char *event_area; /* event_chunks chunks; one: a stream */
    uint32_t event_chunks, events_mapped, event_sequence;
    uint64_t os_none;                       /* the word of a thread that sees no events */
    volatile uint64_t *rseq_cs;             /* NULL: not used */
    struct perf_event_mmap_page *perf_page; /* NULL: none; its records stand behind it */
    uint64_t switched_out_ns;               /* of the last record, if it is one of switching out */
    int perf_fds[3];                        /* -1: none */
    volatile bool is_rseq_word;             /* os_word is rseq_cs, and not the ring's head */
} probe_thread;

/* This thread's, or one of the two below. */
extern __thread probe_thread *probe_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Slow ways of the hooks. */
probe_thread *probe_thread_look(uintptr_t address); /* NULL: this probe does not count */
/* NULL: the function was chosen not to count. */
spgo_spp_node *probe_tree_child(probe_thread *t, spgo_spp_node *parent, void *function);
/* The calls above are over; the one on top is the one that ends here, or NULL-like false. */
bool probe_frames_resync_exit(probe_thread *t, void *function, void *call_site, uintptr_t address);
void probe_frames_resync_enter(probe_thread *t, const void *call_site, uintptr_t address);
void probe_frames_close(probe_thread *t); /* the call on top, at t->last */
void probe_events_room(probe_thread *t);

void probe_thread_after_fork(void);
bool probe_tree_open(probe_thread *t);
void probe_tree_forget_unloaded(probe_thread *t); /* nodes whose functions are there no more */
void probe_tree_close(probe_thread *t);
bool probe_events_open(probe_thread *t);
void probe_events_close(probe_thread *t);

static inline NO_PROBE uint32_t node_number(const probe_thread *t, const spgo_spp_node *n)
{
    return (uint32_t)(n - t->nodes);
}

/* ------------------------------------------------------------------ the process */

typedef struct probe_process {
    spgo_spp_header *header; /* mapped; a private dummy where there is no file */
    int fd;
    uint32_t ring_chunks;
    uint32_t depth_limit;
    _Atomic uint32_t unload_count;
    bool has_file;
} probe_process;

extern probe_process probe_process_now __attribute__((visibility("hidden")));

/* Opens the file on the first call. False: nothing is recorded in this process. */
bool probe_process_open(void);
/* Space for a chunk in the file, not mapped; 0 when the file cannot grow. */
uint64_t probe_process_new_chunk(spgo_spp_kind kind, uint32_t owner, uint32_t sequence);
/* Maps bytes of the file at `at` (NULL: anywhere); NULL when it cannot be. */
void *probe_process_map(uint64_t file_off, size_t bytes, void *at);
void probe_process_note_clock(void);
bool probe_process_mark(spgo_spp_mark_kind kind, int64_t id, uint32_t owner, const char *comment);
void probe_marks_forget(void); /* after fork */

/* The module of an address, SPGO_SPP_NO_MODULE if none is known. */
uint32_t probe_modules_find(const void *address);
void probe_modules_update(void);
void probe_modules_forget(void); /* after fork: the new file has none yet */
bool probe_modules_is_unloaded(uint32_t module);
const spgo_spp_module *probe_modules_get(uint32_t module); /* NULL: none */

void probe_select_open(const char *path);
bool probe_select_is_left_out(const void *function);

/* ------------------------------------------------------------------ clock and events */

extern bool probe_clock_is_tsc __attribute__((visibility("hidden")));
void probe_clock_choose(void);
uint64_t probe_clock_monotonic_ns(void);
void probe_clock_pair(uint64_t *clock, uint64_t *ns);

static inline NO_PROBE uint64_t probe_clock(void)
{
#if defined(__x86_64__) || defined(__i386__)
    if (LIKELY(probe_clock_is_tsc))
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (LIKELY(probe_clock_is_tsc)) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return probe_clock_monotonic_ns();
}

/* SPGO_SPP_OS_* of a list such as "switch+fault" that can be had; what cannot is in the notice. */
uint32_t probe_os_choose(const char *wish, char *notice, size_t notice_bytes);
/* A point in CLOCK_MONOTONIC as ticks. */
uint64_t probe_clock_of_ns(uint64_t ns);
void probe_os_open(probe_thread *t);
void probe_os_close(probe_thread *t);
void probe_os_arm(probe_thread *t);
/* After an event was noticed: did one really fall into the interval? Arms again. Adds the time
 * switched out to the current node. */
bool probe_os_confirm(probe_thread *t);
__attribute__((visibility("default"))) void __cyg_profile_func_enter(void *function,
                                                                     void *call_site);
__attribute__((visibility("default"))) void __cyg_profile_func_exit(void *function,
                                                                    void *call_site);
void probe_xray_open(void);
void probe_xray_switch(bool on);
void probe_calibrate(void); /* fills probe_inside and probe_outside of the header */

#endif
