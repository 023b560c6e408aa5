/* Every limit that is ours and not a format's own, in one place. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

enum {
    LIMIT_ETL_CPUS = 2048,             /* per-CPU streams of one trace */
    LIMIT_ETL_EXPANSION = 1024,        /* bytes of a buffer for each compressed one */
    LIMIT_STACK_FRAMES = 4096,         /* frames of one call stack */
    LIMIT_BRANCHES = 4096,             /* branch records of one sample */
    LIMIT_FORK_DEPTH = 1024,           /* forks without exec between a process and its images */
    LIMIT_IMAGES_PER_RANGE = 4096,     /* images that held one address at different times */
    LIMIT_PENDING_STACK_KEYS = 1 << 20 /* call stacks waiting for the definition of their key */
};

#define LIMIT_ETL_BUFFER_BYTES (64u * 1024u * 1024u)     /* one buffer, compressed or not */
#define LIMIT_ETL_EXPANDED_BYTES (1024ull * 1024 * 1024) /* expanded buffers of one merge */
#define LIMIT_TIMELINE_BYTES (1024ull * 1024 * 1024) /* processes, threads and images of a trace   \
                                                      */

#endif
