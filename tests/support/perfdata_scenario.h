/*
 * Whole perf.data recordings by description, for tests, tools and benchmarks: a program and its
 * library that exist only as control flow (synthetic_program.h), recorded as perf would.
 */
#ifndef PERFDATA_SCENARIO_H
#define PERFDATA_SCENARIO_H

#include "perfdata_build.h"

#include <spgo/error.h>

typedef struct perfdata_scenario {
    uint64_t sample_count; /* of the first event */
    bool lbr, callgraph;   /* else instruction pointers alone */
    bool fork, exec;       /* a child, with the parent's images or with its own */
    bool pipe, compressed, big_endian;
    bool lost, two_events, no_build_id;
} perfdata_scenario;

/* "lbr:1000,fork,pipe": false with the part that is none in *bad (of `text`). */
bool perfdata_scenario_parse(const char *text, perfdata_scenario *out, const char **bad);
/* The i-th name and what it means; false behind the last. */
bool perfdata_scenario_name(size_t i, const char **name, const char **what);

typedef struct perfdata_built_image {
    uint32_t pid;
    uint64_t base, size; /* where the file's first byte would be, and from there to the end */
    uint8_t build_id[20];
    const char *path;
} perfdata_built_image;

enum { PERFDATA_BUILT_IMAGES_MAX = 8 };

/* What a recording was made to hold. */
typedef struct perfdata_built {
    uint64_t samples;        /* of the first event */
    uint64_t second_samples; /* of the second */
    uint64_t branches, same_image_branches;
    uint64_t frames; /* of callchains, context markers included */
    uint64_t lost_records, lost_samples;
    size_t image_count;
    perfdata_built_image images[PERFDATA_BUILT_IMAGES_MAX];
} perfdata_built;

/* SPGO_UNSUPPORTED: compressed without zstd; SPGO_IO: the sink refused. */
spgo_code perfdata_scenario_write(const perfdata_scenario *s, spgo_sink sink, perfdata_built *built,
                                  spgo_error *err);

#endif
