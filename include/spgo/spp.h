/*
 * SPP: what the probe runtime (libspgo_probe) leaves behind, one file per process.
 * doc/formats/spp.md tells how it is read; this header is its layout, for the runtime, which writes
 * it through a mapping, and for readers, which must not trust a byte of it.
 *
 *   header (4096 bytes) | chunk 0 | chunk 1 | ...
 *
 * All integers are little-endian. Chunks have one size (64 KiB) and one owner: a thread, or the
 * process (owner 0). A file is complete at any moment, so that a program that is killed loses
 * nothing: there is no footer, and counts in the header are only ahead of the chunks by what was
 * being added.
 *
 * Times are ticks of the clock that the header names, and become nanoseconds by its two pairs.
 */
#ifndef SPGO_SPP_H
#define SPGO_SPP_H

#include <spgo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPGO_SPP_MAGIC "SPGO-SPP" /* 8 bytes, without a NUL */

enum {
    SPGO_SPP_VERSION = 1,
    SPGO_SPP_HEADER_BYTES = 4096,
    SPGO_SPP_CHUNK_BYTES = 64 * 1024,
    SPGO_SPP_CHUNK_HEAD_BYTES = 64,
    SPGO_SPP_CHUNK_MAGIC = 0x4B435053, /* "SPCK" */
    SPGO_SPP_NODE_BYTES = 128,
    SPGO_SPP_NODES_PER_CHUNK = SPGO_SPP_CHUNK_BYTES / SPGO_SPP_NODE_BYTES,
    SPGO_SPP_ROOT = 2, /* the number of a tree's first node */
    SPGO_SPP_PATH_BYTES = 1024,
    SPGO_SPP_COMMAND_BYTES = 1024,
    SPGO_SPP_NAME_BYTES = 32,
    SPGO_SPP_COMMENT_BYTES = 192,
    SPGO_SPP_BUILD_ID_BYTES = 20

};

#define SPGO_SPP_NO_MODULE UINT32_C(0xFFFFFFFF)

/* Set in a node's `function` when its library was unloaded and the address may be another's now. */
#define SPGO_SPP_UNLOADED (UINT64_C(1) << 63)

typedef enum spgo_spp_clock {
    SPGO_SPP_CLOCK_TSC = 1,      /* the processor's time stamp counter */
    SPGO_SPP_CLOCK_MONOTONIC = 2 /* CLOCK_MONOTONIC, in nanoseconds */
} spgo_spp_clock;

typedef enum spgo_spp_mode {
    SPGO_SPP_SUMMARY = 1, /* trees only */
    SPGO_SPP_RING = 2,    /* and the last events of each thread */
    SPGO_SPP_STREAM = 3   /* and all events */
} spgo_spp_mode;

/* What counts as an event of the operating system, and how it is noticed. */
enum {
    SPGO_SPP_OS_RSEQ = 1u << 0, /* switches and signals, by the kernel clearing rseq_cs */
    SPGO_SPP_OS_PERF_PAGE = 1u << 1 /* switches, by the perf page's counter */,
    SPGO_SPP_OS_SWITCH_TIME = 1u << 2, /* and how long, by perf's switch records */
    SPGO_SPP_OS_SYSCALL = 1u << 3,     /* system calls, by perf's tracepoint */
    SPGO_SPP_OS_FAULT = 1u << 4        /* page faults, by perf's software event */
};

enum { SPGO_SPP_FINISHED = 1u << 0 }; /* header flag: the process came to its end */

/* What probes do now; read by every probe, written by whoever controls the process. */
enum { SPGO_SPP_ACTIVE = 1u << 0 /* the bits above count changes: probes look closer on any */ };

typedef struct spgo_spp_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t chunk_bytes;
    uint32_t chunk_count; /* chunks given out, from the first one behind the header */
    uint32_t thread_count;
    uint32_t module_count;
    uint32_t pid;
    uint32_t parent_pid;
    uint32_t mode;      /* spgo_spp_mode */
    uint32_t os_events; /* SPGO_SPP_OS_*: in force */
    uint32_t clock;     /* spgo_spp_clock */
    uint32_t flags;
    uint32_t control;        /* SPGO_SPP_ACTIVE and the count of changes */
    int32_t start_count;     /* starts minus stops, of the process */
    int32_t suspend_count;   /* suspends minus resumes */
    uint32_t lost_threads;   /* threads that got no memory or file space */
    uint64_t lost_events;    /* probes that could not be recorded, of all threads */
    uint64_t clock_first;    /* ticks ... */
    uint64_t clock_first_ns; /* ... and CLOCK_MONOTONIC at the same moment */
    uint64_t clock_last;     /* a later pair */
    uint64_t clock_last_ns;
    uint64_t start_wall_ns; /* CLOCK_REALTIME at clock_first */
    uint64_t end_clock;     /* when the process came to its end; 0: it did not */
    uint64_t probe_inside;  /* of what a call costs, ticks/256 that fall between its two stamps */
    uint64_t probe_outside; /* and those that fall to its caller */
    char program[SPGO_SPP_PATH_BYTES];
    char command[SPGO_SPP_COMMAND_BYTES]; /* words, each ended by NUL */
    char name[SPGO_SPP_NAME_BYTES];       /* given by the program */
    char notice[256];                     /* what could not be had as asked for; "" */
} spgo_spp_header;

typedef enum spgo_spp_kind {
    SPGO_SPP_TREE = 1, /* of a thread: spgo_spp_thread (in its first), nodes */
    SPGO_SPP_EVENTS,   /* of a thread: 8-byte events */
    SPGO_SPP_MODULES,  /* of the process: spgo_spp_module records */
    SPGO_SPP_MARKS     /* of the process: spgo_spp_mark records */
} spgo_spp_kind;

typedef struct spgo_spp_chunk {
    uint32_t magic;
    uint16_t kind;
    uint16_t reserved;
    uint32_t owner;       /* number of the thread, from 1; 0: the process */
    uint32_t sequence;    /* of that owner and kind, from 0; events count on when a ring turns */
    uint32_t used_bytes;  /* with this head */
    uint32_t lost;        /* EVENTS: events lost right before this chunk */
    uint64_t clock_first; /* EVENTS: ticks before the first event */
    uint8_t reserved2[32];
} spgo_spp_chunk;

/*
 * Node n stands in tree chunk n / 512 of its thread, at slot n % 512. Slot 0 of each is the chunk's
 * head; slot 1 of the first is, with the second half of slot 0, the thread's record.
 */
typedef struct spgo_spp_thread {
    uint32_t tid;
    uint32_t flags;
    uint64_t begin; /* ticks */
    uint64_t end;   /* 0: it did not come to its end */
    uint64_t last;  /* last probe */
    uint64_t lost_events;
    uint64_t lost_exits;  /* frames closed because their exit never came */
    uint64_t stray_exits; /* exits without an entry */
    uint64_t unknown_os;  /* intervals of which nobody can tell whether an event fell into them */
    uint64_t off_cpu;     /* ticks switched out, if SPGO_SPP_OS_SWITCH_TIME */
    uint64_t clock_steps; /* intervals that the clock made negative; they count as 0 */
    uint64_t deep_calls;  /* calls beyond the depth that is followed: counted only here */
    char name[SPGO_SPP_NAME_BYTES];
    uint8_t reserved[72];
} spgo_spp_thread;

/*
 * One path of calls. Sums are kept at every probe, so that they are right at any moment; a call's
 * own four values are known when it returns, and only then go into minima and maxima.
 *
 * Elapsed and application inclusive are sums over the subtree, and not stored. Minima are stored
 * as their complement (~value), so that zeroed memory is an untouched node.
 */
typedef struct spgo_spp_node {
    uint64_t function; /* entry address; 0 for the root: time outside instrumented functions */
    uint32_t parent;   /* node; 0 for the root */
    uint32_t child;    /* the child called last; of no meaning to a reader */
    uint64_t elapsed_exclusive;
    uint64_t application_exclusive;
    uint64_t calls;
    uint32_t os_events; /* intervals with one; saturates */
    uint32_t module;
    uint64_t call_site;  /* of the first call */
    uint64_t off_cpu;    /* of elapsed_exclusive, ticks switched out, if SPGO_SPP_OS_SWITCH_TIME */
    uint64_t not_min[4]; /* elapsed, application inclusive; elapsed, application exclusive */
    uint64_t max[4];
} spgo_spp_node;

/* How a module was mapped: addresses of functions minus `bias` are those of its symbols. */
typedef struct spgo_spp_module {
    uint64_t bias;
    uint64_t begin; /* executable addresses */
    uint64_t end;
    uint64_t loaded;   /* ticks */
    uint64_t unloaded; /* 0: still there */
    uint32_t build_id_bytes;
    uint32_t reserved;
    uint8_t build_id[SPGO_SPP_BUILD_ID_BYTES + 4];
    char path[SPGO_SPP_PATH_BYTES];
} spgo_spp_module;

typedef enum spgo_spp_mark_kind {
    SPGO_SPP_MARK = 1,
    SPGO_SPP_MARK_START, /* data collection was switched on */
    SPGO_SPP_MARK_STOP,  /* off */
} spgo_spp_mark_kind;

typedef struct spgo_spp_mark {
    uint64_t clock;
    int64_t id;
    uint32_t kind;  /* spgo_spp_mark_kind */
    uint32_t owner; /* thread that set it; 0: from outside, or a thread without probes */
    char comment[SPGO_SPP_COMMENT_BYTES];
} spgo_spp_mark;

/*
 * An event: bits 0..31 ticks since the one before it (or since the chunk's clock_first), 32..60 a
 * node, 61 an event of the operating system fell into the interval, 62..63 the kind.
 * A jump in time is an event of its own before the one that needs it: bits 0..60 are ticks.
 */
enum { SPGO_SPP_ENTER = 0, SPGO_SPP_EXIT = 1, SPGO_SPP_LATER = 2, SPGO_SPP_MARKED = 3 };
enum { SPGO_SPP_EVENT_BYTES = 8, SPGO_SPP_EVENT_NODE_BITS = 29 };

#ifdef __cplusplus
}
#endif
#endif
