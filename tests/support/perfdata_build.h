/*
 * Writing perf.data recordings for tests and benchmarks: file mode and pipe mode, both byte
 * orders, records as they are or in COMPRESSED ones. It writes what it is told, damaged or not.
 *
 *     perfdata_build *b = perfdata_build_new(bytes_sink(&out), &opts, events, event_count);
 *     perfdata_build_comm(b, ...); perfdata_build_sample(b, ...);
 *     assert_true(perfdata_build_finish(b));
 */
#ifndef PERFDATA_BUILD_H
#define PERFDATA_BUILD_H

#include <base/bytes.h>

typedef struct perfdata_build perfdata_build;

typedef struct perfdata_build_event {
    const char *name; /* of the event description; NULL leaves the whole feature out */
    uint32_t type;
    uint64_t config;
    uint64_t period;
    uint64_t sample_type, read_format, flags, branch_sample_type;
    uint64_t regs_user, regs_intr;
    uint32_t attr_size; /* 0: 120, version 6; 64, 72, 80, 96, 104, 112, 128, 136 */
    const uint64_t *ids;
    size_t id_count;
} perfdata_build_event;

typedef struct perfdata_build_opts {
    bool big_endian;
    bool pipe;
    bool compress;               /* needs zstd: perfdata_build_can_compress */
    size_t compress_piece_bytes; /* a COMPRESSED record after so many; 0: 32768 */
    bool unfinished;             /* data size 0 and no features, as after a kill */
    const char *hostname, *os_release, *arch, *cmdline; /* features; NULL: absent */
} perfdata_build_opts;

bool perfdata_build_can_compress(void);

/* Events and texts must stay until the finish. Aborts without memory, as tests may. */
perfdata_build *perfdata_build_new(spgo_sink sink, const perfdata_build_opts *opts,
                                   const perfdata_build_event *events, size_t event_count);

/* What the trailing sample_id says; its layout is that of the event `event`. */
typedef struct perfdata_build_id_fields {
    size_t event;
    uint32_t pid, tid;
    uint64_t time_ns;
    uint64_t id;
    uint32_t cpu;
} perfdata_build_id_fields;

typedef struct perfdata_build_map {
    uint32_t pid, tid;
    uint64_t addr, len, pgoff;
    uint32_t prot; /* MMAP2 */
    uint16_t misc;
    const char *path;
    const uint8_t *build_id; /* MMAP2: instead of device and inode */
    uint8_t build_id_size;
    perfdata_build_id_fields sid;
} perfdata_build_map;

typedef struct perfdata_build_sample {
    size_t event;
    uint16_t misc;
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time_ns, addr, id, period;
    uint32_t cpu;
    const uint64_t *callchain;
    size_t callchain_count;
    const uint64_t (*branches)[3]; /* {from, to, flags}, newest first */
    size_t branch_count;
    uint32_t raw_size; /* size + 4 a multiple of 8 */
    uint64_t user_stack_size;
    uint64_t group_size; /* of READ with PERF_FORMAT_GROUP */
} perfdata_build_sample;

void perfdata_build_mmap(perfdata_build *b, const perfdata_build_map *m);
void perfdata_build_mmap2(perfdata_build *b, const perfdata_build_map *m);
void perfdata_build_comm(perfdata_build *b, uint32_t pid, uint32_t tid, const char *comm,
                         bool is_exec, const perfdata_build_id_fields *sid);
/* type 7 (FORK) or 4 (EXIT) */
void perfdata_build_task(perfdata_build *b, uint32_t type, uint32_t pid, uint32_t ppid,
                         uint32_t tid, uint32_t ptid, const perfdata_build_id_fields *sid);
void perfdata_build_lost(perfdata_build *b, uint64_t lost, const perfdata_build_id_fields *sid);
void perfdata_build_lost_samples(perfdata_build *b, uint64_t lost,
                                 const perfdata_build_id_fields *sid);
/* All fields that the event's sample_type names; those not in s are zero. */
void perfdata_build_sample_record(perfdata_build *b, const perfdata_build_sample *s);
void perfdata_build_finished_round(perfdata_build *b);
/* Any record; the body is in the recording's byte order already. */
void perfdata_build_raw(perfdata_build *b, uint32_t type, uint16_t misc, spgo_span body);
/* Bytes that belong to no record: trace data behind AUXTRACE, or damage. */
void perfdata_build_bytes(perfdata_build *b, spgo_span content);
/* An entry of the build-id feature, or in pipe mode a record. size 0: 20, and no size byte. */
void perfdata_build_add_build_id(perfdata_build *b, uint32_t pid, uint16_t misc, const uint8_t *id,
                                 uint8_t size, const char *path);

/* Features and the sizes of the header; false if the sink refused bytes. The builder is gone. */
bool perfdata_build_finish(perfdata_build *b);

#endif
