/* Every limit that is ours and not a format's own, in one place. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

enum {
    LIMIT_ETL_CPUS = 2048,             /* per-CPU streams of one trace */
    LIMIT_ETL_EXPANSION = 64,          /* see LIMIT_ETL_EXPANDED_BYTES */
    LIMIT_PERFDATA_EXPANSION = 64,     /* see LIMIT_PERFDATA_EXPANDED_BYTES */
    LIMIT_SAMPLEPROF_EXPANSION = 64,   /* see LIMIT_SAMPLEPROF_EXPANDED_BYTES */
    LIMIT_INLINE_DEPTH = 1024,         /* callees inlined into each other, of one function */
    LIMIT_SPD_NESTING = 128,           /* callees inlined into each other, of one block of an SPD */
    LIMIT_SOURCES = 1024,              /* counters of a trace that are told apart */
    LIMIT_STACK_FRAMES = 4096,         /* frames of one call stack */
    LIMIT_BRANCHES = 4096,             /* branch records of one sample */
    LIMIT_FORK_DEPTH = 128,            /* forks without exec between a process and its images */
    LIMIT_IMAGES_PER_RANGE = 256,      /* images that held one address at different times */
    LIMIT_PENDING_STACK_KEYS = 1 << 20 /* call stacks waiting for the definition of their key */
};

#define LIMIT_ETL_BUFFER_BYTES (64u * 1024u * 1024u) /* one buffer, compressed or not */
/* Expanded buffers of one merge; of one file, LIMIT_ETL_EXPANSION more for each of its bytes. */
#define LIMIT_ETL_EXPANDED_BYTES (1024ull * 1024 * 1024)
/* All COMPRESSED records of a file; LIMIT_PERFDATA_EXPANSION more for each of its bytes. */
#define LIMIT_PERFDATA_EXPANDED_BYTES (256ull * 1024 * 1024)
/* All compressed sections of a sample profile; LIMIT_SAMPLEPROF_EXPANSION more for each of its
 * bytes. */
#define LIMIT_SAMPLEPROF_EXPANDED_BYTES (256ull * 1024 * 1024)
#define LIMIT_TIMELINE_BYTES (768ull * 1024 * 1024) /* processes, threads, images of a trace */

#endif
