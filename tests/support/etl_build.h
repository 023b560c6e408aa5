/*
 * Builds whole ETL traces for tests and benchmarks: a described situation in, the bytes and what
 * they hold out. The same scenario always gives the same bytes.
 */
#ifndef ETL_BUILD_H
#define ETL_BUILD_H

#include <format/etl/etl_write.h>

enum {
    ETL_BUILD_PROCESSES_MAX = 4,
    ETL_BUILD_IMAGES_MAX = ETL_BUILD_PROCESSES_MAX + 2, /* one each, a library, the kernel */

    ETL_BUILD_PMC_SOURCE = 30,
    ETL_BUILD_PMC_INTERVAL = 65537,
    ETL_BUILD_TIMER_INTERVAL = 10000 /* 1 ms */
};

typedef struct etl_scenario {
    uint64_t seed;
    unsigned ptr_size; /* 4 or 8 */
    uint32_t cpu_count;
    uint32_t buffer_size;   /* 0: 64 KiB, 4 MiB for large traces */
    unsigned process_count; /* 1 to 3; the second and later ones start within the trace */
    bool library;           /* all processes call into one library */
    bool kernel;            /* and that into the kernel */
    bool no_ids;            /* the images have no RSDS record */
    uint64_t pmc_samples;   /* PMC interrupts, */
    unsigned branches;      /* each with so many last branches (0 to 32) */
    uint64_t timer_samples;
    bool stacks;    /* plain and key-cached ones for two of three samples */
    bool pid_reuse; /* half way process 0 ends and another one gets its numbers */
    bool lost;      /* lost events and buffers, and the gap they leave */
    bool shuffled;  /* buffers grouped by processor instead of in order of time */
    bool circular;  /* the file has wrapped: it begins in the middle */
    bool compress, win7, merged, leave_open;
} etl_scenario;

etl_scenario etl_scenario_default(void);

/*
 * The default changed by names separated by commas, some with a number: "lbr:1000,compressed".
 * False if a name is unknown; *bad (may be NULL) is where it stands.
 */
bool etl_scenario_parse(const char *text, etl_scenario *out, const char **bad);

/* The i-th name and what it does; false behind the last. */
bool etl_scenario_name(size_t i, const char **name, const char **what);

typedef struct etl_built_image {
    uint32_t pid; /* of the process it belongs to; 0: kernel; the library: of the first one */
    uint64_t base, size;
    char name[32]; /* base name */
    char path[96]; /* as the trace has it */
    spgo_image_id id;
} etl_built_image;

/* What the trace holds. */
typedef struct etl_built {
    uint64_t first_time, last_time, start_filetime, perf_freq;
    unsigned process_count; /* the one that reuses a number included */
    uint32_t pids[ETL_BUILD_PROCESSES_MAX], tids[ETL_BUILD_PROCESSES_MAX];
    unsigned image_count;
    etl_built_image images[ETL_BUILD_IMAGES_MAX];
    uint64_t pmc_samples, lbr_records, branches, timer_samples;
    uint64_t plain_stacks, key_stacks;
    uint64_t same_image_branches; /* both ends in one image */
    uint64_t kernel_samples;      /* instruction pointer in the kernel */
    uint64_t records;             /* all, without the header event */
} etl_built;

/* built may be NULL. */
spgo_code etl_build(const etl_scenario *s, spgo_sink sink, etl_built *built, spgo_error *err);

#endif
