/*
 * perf.data: what `perf record` of Linux writes, as a file or in pipe mode.
 * doc/formats/perfdata.md has the layout and its sources. Both byte orders are read.
 */
#ifndef FORMAT_PERFDATA_H
#define FORMAT_PERFDATA_H

#include <base/bytes.h>
#include <base/diag.h>
#include <base/reader.h>

typedef struct perfdata perfdata;

/* One event of the recording (perf_event_attr) and its name. */
typedef struct perfdata_attr {
    uint32_t type;
    uint64_t config;
    uint64_t sample_period; /* or frequency, with the freq flag */
    uint64_t sample_type;   /* PERF_SAMPLE_* */
    uint64_t read_format;
    uint64_t flags; /* PERFDATA_ATTR_*: the bit field, first field in bit 0 */
    uint64_t branch_sample_type;
    uint64_t sample_regs_user, sample_regs_intr;
    size_t id_count; /* ids whose records belong to this event */
    spgo_str name;   /* of the event description or an event update; empty if none */
} perfdata_attr;

/* Bits of perfdata_attr.flags that say what the records look like. */
#define PERFDATA_ATTR_FREQ (1ull << 10)
#define PERFDATA_ATTR_SAMPLE_ID_ALL (1ull << 18)
#define PERFDATA_ATTR_BUILD_ID (1ull << 34)

/* Bits of perfdata_attr.sample_type: which fields a sample has. */
enum {
    PERFDATA_SAMPLE_IP = 1 << 0,
    PERFDATA_SAMPLE_TID = 1 << 1,
    PERFDATA_SAMPLE_TIME = 1 << 2,
    PERFDATA_SAMPLE_ADDR = 1 << 3,
    PERFDATA_SAMPLE_READ = 1 << 4,
    PERFDATA_SAMPLE_CALLCHAIN = 1 << 5,
    PERFDATA_SAMPLE_ID = 1 << 6,
    PERFDATA_SAMPLE_CPU = 1 << 7,
    PERFDATA_SAMPLE_PERIOD = 1 << 8,
    PERFDATA_SAMPLE_STREAM_ID = 1 << 9,
    PERFDATA_SAMPLE_RAW = 1 << 10,
    PERFDATA_SAMPLE_BRANCH_STACK = 1 << 11,
    PERFDATA_SAMPLE_REGS_USER = 1 << 12,
    PERFDATA_SAMPLE_STACK_USER = 1 << 13,
    PERFDATA_SAMPLE_WEIGHT = 1 << 14,
    PERFDATA_SAMPLE_DATA_SRC = 1 << 15,
    PERFDATA_SAMPLE_IDENTIFIER = 1 << 16,
    PERFDATA_SAMPLE_TRANSACTION = 1 << 17,
    PERFDATA_SAMPLE_REGS_INTR = 1 << 18,
    PERFDATA_SAMPLE_PHYS_ADDR = 1 << 19,
    PERFDATA_SAMPLE_AUX = 1 << 20,
    PERFDATA_SAMPLE_CGROUP = 1 << 21,
    PERFDATA_SAMPLE_DATA_PAGE_SIZE = 1 << 22,
    PERFDATA_SAMPLE_CODE_PAGE_SIZE = 1 << 23,
    PERFDATA_SAMPLE_WEIGHT_STRUCT = 1 << 24
};

/*
 * Reads header, attributes and features of the recording in `input`, which must stay in place
 * until perfdata_close. Findings that do not stop the reading go to d (may be NULL). A recording
 * that was never finished (data size 0) is read up to its last whole record.
 * Fails with SPGO_CORRUPT (no perf.data), SPGO_TRUNCATED, SPGO_UNSUPPORTED (version 1),
 * SPGO_NOMEM.
 */
spgo_code perfdata_open(spgo_span input, perfdata **out, diag *d, spgo_error *err);
void perfdata_close(perfdata *p); /* NULL is fine */
bool perfdata_sniff(spgo_span input);

bool perfdata_is_pipe(const perfdata *p);
bool perfdata_is_big_endian(const perfdata *p);
/* In pipe mode attributes, features and build-ids arrive as records: perfdata_open takes those at
 * the start, a walk adds later ones as it meets them. Attributes stay in place until the close. */
size_t perfdata_attr_count(const perfdata *p);
const perfdata_attr *perfdata_get_attr(const perfdata *p, size_t index);
/* Features as text; empty if the recording has none. */
spgo_str perfdata_hostname(const perfdata *p);
spgo_str perfdata_os_release(const perfdata *p);
spgo_str perfdata_arch(const perfdata *p);
spgo_str perfdata_cmdline(const perfdata *p); /* arguments joined with spaces */

/* Build-ids of the HEADER_BUILD_ID feature (and of HEADER_BUILD_ID records in pipe mode). */
typedef struct perfdata_build_id {
    uint32_t pid; /* UINT32_MAX for user files, else of the kernel or guest */
    uint16_t misc;
    uint8_t size; /* bytes of the id, 1 to 20 */
    uint8_t id[20];
    spgo_str path;
} perfdata_build_id;
size_t perfdata_build_id_count(const perfdata *p);
/* Valid until the walk of a pipe-mode recording meets the next build-id. */
const perfdata_build_id *perfdata_get_build_id(const perfdata *p, size_t index);

/* ------------------------------------------------------------------ records */

enum {
    PERFDATA_RECORD_MMAP = 1,
    PERFDATA_RECORD_LOST = 2,
    PERFDATA_RECORD_COMM = 3,
    PERFDATA_RECORD_EXIT = 4,
    PERFDATA_RECORD_THROTTLE = 5,
    PERFDATA_RECORD_UNTHROTTLE = 6,
    PERFDATA_RECORD_FORK = 7,
    PERFDATA_RECORD_READ = 8,
    PERFDATA_RECORD_SAMPLE = 9,
    PERFDATA_RECORD_MMAP2 = 10,
    PERFDATA_RECORD_AUX = 11,
    PERFDATA_RECORD_ITRACE_START = 12,
    PERFDATA_RECORD_LOST_SAMPLES = 13,
    PERFDATA_RECORD_SWITCH = 14,
    PERFDATA_RECORD_SWITCH_CPU_WIDE = 15,
    PERFDATA_RECORD_NAMESPACES = 16,
    PERFDATA_RECORD_KSYMBOL = 17,
    PERFDATA_RECORD_BPF_EVENT = 18,
    PERFDATA_RECORD_CGROUP = 19,
    PERFDATA_RECORD_TEXT_POKE = 20,
    PERFDATA_RECORD_AUX_OUTPUT_HW_ID = 21,
    PERFDATA_RECORD_CALLCHAIN_DEFERRED = 22,
    PERFDATA_RECORD_HEADER_ATTR = 64,
    PERFDATA_RECORD_HEADER_EVENT_TYPE = 65,
    PERFDATA_RECORD_HEADER_TRACING_DATA = 66,
    PERFDATA_RECORD_HEADER_BUILD_ID = 67,
    PERFDATA_RECORD_FINISHED_ROUND = 68,
    PERFDATA_RECORD_ID_INDEX = 69,
    PERFDATA_RECORD_AUXTRACE_INFO = 70,
    PERFDATA_RECORD_AUXTRACE = 71,
    PERFDATA_RECORD_AUXTRACE_ERROR = 72,
    PERFDATA_RECORD_THREAD_MAP = 73,
    PERFDATA_RECORD_CPU_MAP = 74,
    PERFDATA_RECORD_STAT_CONFIG = 75,
    PERFDATA_RECORD_STAT = 76,
    PERFDATA_RECORD_STAT_ROUND = 77,
    PERFDATA_RECORD_EVENT_UPDATE = 78,
    PERFDATA_RECORD_TIME_CONV = 79,
    PERFDATA_RECORD_HEADER_FEATURE = 80,
    PERFDATA_RECORD_COMPRESSED = 81,
    PERFDATA_RECORD_FINISHED_INIT = 82,
    PERFDATA_RECORD_COMPRESSED2 = 83
};

/* Bits of perfdata_record.misc; the low three are a perfdata_cpumode. */
enum {
    PERFDATA_MISC_MMAP_DATA = 1 << 13,
    PERFDATA_MISC_COMM_EXEC = 1 << 13,
    PERFDATA_MISC_SWITCH_OUT = 1 << 13,
    PERFDATA_MISC_MMAP_BUILD_ID = 1 << 14,
    PERFDATA_MISC_BUILD_ID_SIZE = 1 << 15
};
const char *perfdata_record_name(uint32_t type); /* "MMAP2", ...; NULL if unknown */

/* A record as it stands, in the file or inside a compressed one (then offset is that of the
 * compressed record). Views stay valid until the next call on the same walk. */
typedef struct perfdata_record {
    uint64_t offset;
    uint32_t type;
    uint16_t misc;
    uint32_t size_bytes; /* header included */
    spgo_span body;      /* behind the 8-byte header; trace data that follows AUXTRACE and
                          * TRACING_DATA records is no part of it */
    bool from_compressed;
} perfdata_record;

typedef struct perfdata_walk perfdata_walk;
spgo_code perfdata_walk_new(perfdata *p, diag *d, perfdata_walk **out, spgo_error *err);
/* The next record in file order, unpacking COMPRESSED ones on the way (which are delivered too,
 * before what they hold). False at the end, also when the rest cannot be read: then a finding
 * names the offset. */
bool perfdata_walk_next(perfdata_walk *w, perfdata_record *r);
/* Records whose meaning for the walk itself is damaged: attributes, features, COMPRESSED. */
uint64_t perfdata_walk_bad_records(const perfdata_walk *w);
/* Records of types without a name here; they are delivered like any other. */
uint64_t perfdata_walk_unknown_records(const perfdata_walk *w);
/* Ended before the data's end, or left compressed data out. */
bool perfdata_walk_cut_short(const perfdata_walk *w);
void perfdata_walk_free(perfdata_walk *w);

/* Something was left out since the file was opened for lack of memory. */
bool perfdata_no_memory(const perfdata *p);

/* ------------------------------------------------------------------ decoding */

/*
 * All decoders return false, and leave *out unspecified, when the record is not of their type, is
 * too short for what its event's attribute promises, or counts more frames or branches than
 * LIMIT_STACK_FRAMES and LIMIT_BRANCHES allow. Nothing is copied: views point into the record.
 */

/* What the trailing sample_id of a non-sample record, or a sample, says; zero if absent. */
typedef struct perfdata_id {
    uint32_t pid, tid;
    uint64_t time_ns;
    uint64_t id;
    uint32_t cpu;
    bool has_time;
} perfdata_id;

typedef struct perfdata_mmap {
    uint32_t pid, tid;
    uint64_t addr, len, pgoff;
    uint32_t prot;         /* MMAP2 only, else PROT_EXEC alone */
    uint8_t build_id_size; /* MMAP2 with the build-id flag, else 0 */
    uint8_t build_id[20];
    spgo_str path;
    bool is_data;   /* misc says: not executable */
    bool is_kernel; /* misc says: kernel space */
    perfdata_id sid;
} perfdata_mmap;
bool perfdata_decode_mmap(const perfdata *p, const perfdata_record *r, perfdata_mmap *out);

typedef struct perfdata_task { /* FORK and EXIT */
    uint32_t pid, ppid, tid, ptid;
    uint64_t time_ns;
} perfdata_task;
bool perfdata_decode_task(const perfdata *p, const perfdata_record *r, perfdata_task *out);

typedef struct perfdata_comm {
    uint32_t pid, tid;
    bool is_exec;
    spgo_str comm;
    perfdata_id sid;
} perfdata_comm;
bool perfdata_decode_comm(const perfdata *p, const perfdata_record *r, perfdata_comm *out);

/* LOST: number of records; LOST_SAMPLES: number of samples. */
bool perfdata_decode_lost(const perfdata *p, const perfdata_record *r, uint64_t *lost);

typedef enum perfdata_cpumode {
    PERFDATA_CPUMODE_UNKNOWN,
    PERFDATA_CPUMODE_KERNEL,
    PERFDATA_CPUMODE_USER,
    PERFDATA_CPUMODE_HYPERVISOR,
    PERFDATA_CPUMODE_GUEST_KERNEL,
    PERFDATA_CPUMODE_GUEST_USER
} perfdata_cpumode;

typedef struct perfdata_sample {
    perfdata_id sid;
    size_t attr_index; /* SIZE_MAX if the id belongs to none of several attributes, which
                        * then all describe the same fields */
    uint64_t ip;
    bool has_ip;
    uint64_t period; /* 0 if not recorded */
    perfdata_cpumode cpumode;
    spgo_span callchain; /* u64 each; context markers (>= (u64)-4095) among them */
    size_t callchain_count;
    spgo_span branches; /* {from, to, flags} u64 each, newest first */
    size_t branch_count;
} perfdata_sample;
bool perfdata_decode_sample(const perfdata *p, const perfdata_record *r, perfdata_sample *out);

/* A value of a callchain, a word of branches, in the recording's byte order. */
uint64_t perfdata_u64(const perfdata *p, const uint8_t *at);

/* The same for hot loops, which ask perfdata_is_big_endian once. */
static inline uint64_t perfdata_word(bool big_endian, const uint8_t *at)
{
    uint64_t value = load_u64(at);
    return big_endian ? __builtin_bswap64(value) : value;
}

/* The third word of a branch with its bit fields where a little-endian recording has them:
 * mispredicted 0, predicted 1, in transaction 2, abort 3, cycles 4-19, type 20-23. */
uint64_t perfdata_branch_flags(const perfdata *p, const uint8_t *at);

#endif
