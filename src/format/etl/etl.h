/*
 * ETL: Windows event trace log files. doc/formats/etl.md has the layout and its sources.
 *
 * A file is a run of buffers, each of one processor; a buffer is a run of records. The reader
 * indexes the buffers once and then walks records either buffer by buffer in file order
 * (etl_walk) or in time order over all processors and several files (etl_stream). Damage is
 * confined: reading goes on at the next record or buffer that can be made out, and what was
 * skipped is counted.
 */
#ifndef FORMAT_ETL_H
#define FORMAT_ETL_H

#include <base/bytes.h>
#include <base/diag.h>

/* ------------------------------------------------------------------ the file */

enum {
    ETL_BUFFER_HEADER_SIZE = 72,
    ETL_FLAG_FLUSH_MARKER = 0x01,
    ETL_FLAG_EVENTS_LOST = 0x02,
    ETL_FLAG_BUFFER_LOST = 0x04,
    ETL_FLAG_PROCESSOR_INDEX = 0x20,
    ETL_FLAG_COMPRESSED = 0x40,

    ETL_MODE_SEQUENTIAL = 0x00000001,
    ETL_MODE_CIRCULAR = 0x00000002,
    ETL_MODE_RELOG = 0x00010000,
    ETL_MODE_COMPRESSED = 0x04000000
};

#define ETL_NO_ID 0xFFFFFFFFu /* pid or tid that a record header does not carry */

typedef enum etl_clock { ETL_CLOCK_RAW, ETL_CLOCK_QPC, ETL_CLOCK_SYSTEM, ETL_CLOCK_CPU } etl_clock;

/* The logfile header event (hook 0x0000), the first record of a file. */
typedef struct etl_header {
    uint32_t buffer_size;
    uint8_t os_major, os_minor, layout_major, layout_minor;
    uint32_t os_build;
    uint32_t cpu_count;
    uint64_t end_filetime; /* 0: the file was never closed */
    uint32_t timer_resolution_100ns;
    uint32_t maximum_file_size;
    uint32_t log_file_mode;
    uint32_t buffers_written;
    uint32_t start_buffers;
    uint32_t pointer_size;
    uint32_t events_lost;
    uint32_t cpu_mhz;
    int32_t utc_bias_minutes;
    uint64_t boot_filetime;
    uint64_t perf_freq;
    uint64_t start_filetime;
    uint32_t clock_type; /* etl_clock */
    uint32_t buffers_lost;
    spgo_str session_name, log_file_name; /* UTF-8, owned by the etl_file */
    uint64_t first_time;                  /* t0: raw time of the header event itself */
} etl_header;

typedef struct etl_buffer {
    uint64_t offset;     /* in the file */
    uint32_t size_bytes; /* in the file */
    uint32_t data_end;   /* end of records counted from the buffer's start, uncompressed */
    uint64_t time;       /* of the flush */
    uint64_t sequence;
    uint16_t cpu;
    uint16_t logger_id;
    uint16_t flags; /* ETL_FLAG_* */
    uint16_t type;  /* 0 generic, 4 header, ... */
    bool is_cut;    /* the file ends inside it */
} etl_buffer;

typedef struct etl_file etl_file;

/*
 * Indexes the file in `bytes`, which must stay in place until etl_close. Findings that do not stop
 * the reading (a cut last buffer, an unclosed file, odd flags) go to d (may be NULL). Fails when
 * there is no header buffer: SPGO_CORRUPT (no ETL file), SPGO_TRUNCATED, SPGO_UNSUPPORTED
 * (compression other than XPRESS), SPGO_NOMEM.
 */
spgo_code etl_open(spgo_span bytes, etl_file **out, diag *d, spgo_error *err);
void etl_close(etl_file *f); /* NULL is fine */

/* Could these be the first bytes of an ETL file? (At least 128 of them.) */
bool etl_sniff(spgo_span bytes);

const etl_header *etl_get_header(const etl_file *f);
size_t etl_buffer_count(const etl_file *f);
const etl_buffer *etl_get_buffer(const etl_file *f, size_t index);

/* Wall-clock time (FILETIME, 100 ns since 1601, UTC) of a raw event time. */
uint64_t etl_filetime(const etl_header *h, uint64_t raw_time);
/* Nanoseconds from the header event to a raw event time; 0 if earlier. */
uint64_t etl_relative_ns(const etl_header *h, uint64_t raw_time);

/* ------------------------------------------------------------------ records */

typedef enum etl_record_type {
    ETL_SYSTEM32 = 1,
    ETL_SYSTEM64 = 2,
    ETL_COMPACT32 = 3,
    ETL_COMPACT64 = 4,
    ETL_FULL32 = 10,
    ETL_INSTANCE32 = 11,
    ETL_ERROR = 13,
    ETL_MESSAGE = 15,
    ETL_PERFINFO32 = 16,
    ETL_PERFINFO64 = 17,
    ETL_EVENT32 = 18,
    ETL_EVENT64 = 19,
    ETL_FULL64 = 20,
    ETL_INSTANCE64 = 21
} etl_record_type;

/* "SYS64", "PI64", "FULL32", "EVH64", ...; "T<n>" style names are the caller's business: NULL if
 * unknown. The names are those that other people's counts of the same files use. */
const char *etl_record_type_name(uint8_t type);

/* One record. Views stay valid until the walk or stream moves on to another buffer. */
typedef struct etl_record {
    uint64_t buffer_off; /* file offset of its buffer */
    uint32_t offset;     /* of the record in its (uncompressed) buffer */
    uint16_t size_bytes; /* header included, padding not */
    uint8_t type;        /* etl_record_type */
    uint8_t ptr_size;    /* 4 or 8, from the record's own type */
    uint64_t time;       /* raw clock; of the record before where the header has none */
    uint32_t pid, tid;   /* ETL_NO_ID where the header has none */
    uint16_t cpu;
    bool has_hook;  /* SYSTEM, COMPACT, PERFINFO: hook is the identity; else guid is */
    uint16_t hook;  /* group << 8 | opcode */
    spgo_guid guid; /* class or provider; all zero for hooks */
    uint16_t id;    /* EVENT_HEADER only */
    uint8_t opcode; /* low byte of the hook, class opcode or event opcode */
    uint8_t level, channel;
    uint16_t version;
    uint16_t task;
    uint64_t keyword;
    uint8_t pmc_count; /* PERFINFO with counter values: n and the values (u64 each) */
    spgo_span pmc_values;
    spgo_span extended; /* EVENT_HEADER: the chain of extended items, empty if none */
    spgo_span payload;
} etl_record;

/* A place in a file's records; reuse it from buffer to buffer, it keeps the bytes it uncompresses
 * into. */
typedef struct etl_walk {
    const etl_file *file;
    size_t buffer_index;
    bytes scratch;
    const uint8_t *data; /* the buffer's bytes, uncompressed, or NULL when it could not be had */
    uint32_t pos, end;
    bool no_memory;       /* a buffer was left out for that alone */
    bool is_partial;      /* the buffer goes on behind `end`, but those bytes could not be had */
    uint64_t last_time;   /* of the last record that has one */
    uint64_t bad_records; /* records skipped as damaged, over the life of the walk */
    uint64_t bad_buffers;
    diag *d;
} etl_walk;

etl_walk etl_walk_new(const etl_file *f, diag *d); /* d may be NULL */
/* Goes to the first record of a buffer; false if none can be had (counted as a bad buffer). A
 * compressed buffer that expands only in part is counted too and walked as far as it goes. */
bool etl_walk_buffer(etl_walk *w, size_t buffer_index);
bool etl_walk_next(etl_walk *w, etl_record *record); /* false at the buffer's end */
void etl_walk_free(etl_walk *w);

/*
 * Records of several files in time order. Equal times come in order of file, then processor, then
 * buffer sequence, then place in the buffer. Every buffer is a stream of its own that joins the
 * merge when its first time is reached, so buffers may be in any order and overlap; only the
 * uncompressed bytes of those in the merge are held (one per processor in an ordinary trace).
 * Fails with SPGO_MISMATCH when the files do not share one clock.
 */
typedef struct etl_stream etl_stream;
spgo_code etl_stream_open(const etl_file *const *files, size_t file_count, diag *d,
                          etl_stream **out, spgo_error *err);
/* The next record and which file it is of (NULL: not asked); false at the end. Views stay valid
 * until the next call. */
bool etl_stream_next(etl_stream *s, etl_record *record, size_t *file_index);
/* All records whose buffers lie before this offset of that file have been delivered. */
uint64_t etl_stream_done_until(const etl_stream *s, size_t file_index);
uint64_t etl_stream_bad_records(const etl_stream *s);
uint64_t etl_stream_bad_buffers(const etl_stream *s);
/* Something was left out or is not in order for lack of memory. */
bool etl_stream_no_memory(const etl_stream *s);
void etl_stream_close(etl_stream *s); /* NULL is fine */

/* ------------------------------------------------------------------ events */

/* The events whose payload is understood here, whichever of its forms a file carries. */
typedef enum etl_event {
    ETL_EV_UNKNOWN,
    ETL_EV_HEADER,    /* 0x0000 */
    ETL_EV_EXTENSION, /* 0x0005 and 0x0020 */
    ETL_EV_PROCESS_START,
    ETL_EV_PROCESS_END,
    ETL_EV_PROCESS_DC_START,
    ETL_EV_PROCESS_DC_END,
    ETL_EV_PROCESS_DEFUNCT,
    ETL_EV_THREAD_START,
    ETL_EV_THREAD_END,
    ETL_EV_THREAD_DC_START,
    ETL_EV_THREAD_DC_END,
    ETL_EV_THREAD_NAME,
    ETL_EV_CSWITCH,
    ETL_EV_IMAGE_LOAD,
    ETL_EV_IMAGE_UNLOAD,
    ETL_EV_IMAGE_DC_START,
    ETL_EV_IMAGE_DC_END,
    ETL_EV_IMAGE_ID,
    ETL_EV_IMAGE_NO_DEBUG,
    ETL_EV_IMAGE_RSDS,
    ETL_EV_IMAGE_ILRSDS,
    ETL_EV_IMAGE_FILE_VERSION,
    ETL_EV_BUILD_INFO,
    ETL_EV_SYSTEM_PATHS,
    ETL_EV_VOLUME_MAPPING,
    ETL_EV_SAMPLED_PROFILE, /* 0x0F2E */
    ETL_EV_SAMPLED_CACHE,   /* 0x0F37 */
    ETL_EV_PMC_INTERRUPT,   /* 0x0F2F */
    ETL_EV_PMC_NAMES,       /* 0x0F30 */
    ETL_EV_INTERVAL_SET,
    ETL_EV_INTERVAL_DC_START,
    ETL_EV_INTERVAL_DC_END,
    ETL_EV_SYSCALL_ENTER,
    ETL_EV_SYSCALL_EXIT,
    ETL_EV_MARK,
    ETL_EV_LBR, /* 0x0C20 */
    ETL_EV_STACK,
    ETL_EV_STACK_KEY_KERNEL,
    ETL_EV_STACK_KEY_USER,
    ETL_EV_STACK_KEY_CREATE,
    ETL_EV_STACK_KEY_DELETE,
    ETL_EV_STACK_KEY_RUNDOWN,
    ETL_EV_LOST_EVENT,
    ETL_EV_LOST_BUFFER,
    ETL_EV_LOST_FILE,
    ETL_EV_COUNT
} etl_event;

etl_event etl_record_event(const etl_record *r);

/* Events whose payloads have one layout, and so one decoder. */
typedef enum etl_family {
    ETL_FAMILY_NONE, /* of unknown events, and of those without fields */
    ETL_FAMILY_HEADER,
    ETL_FAMILY_EXTENSION,
    ETL_FAMILY_PROCESS,
    ETL_FAMILY_THREAD,
    ETL_FAMILY_THREAD_NAME,
    ETL_FAMILY_CSWITCH,
    ETL_FAMILY_IMAGE,
    ETL_FAMILY_IMAGE_ID,
    ETL_FAMILY_FILE_VERSION,
    ETL_FAMILY_BUILD_INFO,
    ETL_FAMILY_VOLUME,
    ETL_FAMILY_SAMPLE,
    ETL_FAMILY_SAMPLE_CACHE,
    ETL_FAMILY_PMC_NAMES,
    ETL_FAMILY_INTERVAL,
    ETL_FAMILY_SYSCALL,
    ETL_FAMILY_MARK,
    ETL_FAMILY_LBR,
    ETL_FAMILY_STACK,
    ETL_FAMILY_COUNT
} etl_family;

etl_family etl_record_family(const etl_record *r);

/* "Process/Start", "Image/DCStart", "PerfInfo/Sample", "LastBranch/LBR", ...; never NULL. */
const char *etl_event_name(etl_event e);

/*
 * Decoders. Each takes a record whose etl_record_event is of its family and returns false when
 * the payload is too short or breaks its layout, for every version and both pointer sizes.
 * Text is left as it stands: UTF-16LE spans (no NUL) or 8-bit strings.
 */
typedef struct etl_process {
    uint32_t pid, parent_pid, session_id;
    int32_t exit_status;
    uint32_t flags;
    uint64_t unique_key;
    spgo_span sid;          /* empty if none */
    spgo_str image_name;    /* 8-bit, base name */
    spgo_span command_line; /* UTF-16LE, empty before version 2 */
    spgo_span package, app; /* UTF-16LE, version 4 on */
    bool has_exit_time;
    uint64_t exit_filetime; /* version 5 */
} etl_process;
bool etl_decode_process(const etl_record *r, etl_process *out);

typedef struct etl_thread {
    uint32_t pid, tid;
    uint64_t start_addr, win32_start_addr;
    spgo_span name; /* UTF-16LE, empty if the version has none */
} etl_thread;
bool etl_decode_thread(const etl_record *r, etl_thread *out); /* THREAD_NAME too */

typedef struct etl_cswitch {
    uint32_t new_tid, old_tid;
    int8_t new_priority, old_priority;
    uint8_t old_wait_reason, old_wait_mode, old_state;
    uint32_t new_wait_time;
} etl_cswitch;
bool etl_decode_cswitch(const etl_record *r, etl_cswitch *out);

typedef struct etl_image {
    uint64_t base, size, default_base;
    uint32_t pid; /* of the record header where the version has none */
    uint32_t checksum, time_date_stamp;
    spgo_span file_name; /* UTF-16LE */
} etl_image;
bool etl_decode_image(const etl_record *r, etl_image *out);

/* IMAGE_ID: base, size, pid, time_date_stamp, name (UTF-16LE original file name).
 * IMAGE_RSDS and ILRSDS: base, pid, id, pdb. IMAGE_NO_DEBUG: base, pid. */
typedef struct etl_image_id {
    uint64_t base, size;
    uint32_t pid;
    uint32_t time_date_stamp;
    spgo_span original_name;
    spgo_image_id id;
    spgo_str pdb; /* 8-bit */
} etl_image_id;
bool etl_decode_image_id(const etl_record *r, etl_image_id *out);

typedef struct etl_volume {
    spgo_span nt_path, dos_path; /* UTF-16LE */
} etl_volume;
bool etl_decode_volume(const etl_record *r, etl_volume *out); /* SYSTEM_PATHS too */

typedef struct etl_sample {
    uint64_t ip;
    uint32_t tid;
    uint16_t count; /* SAMPLED_PROFILE; 1 for a PMC interrupt */
    uint8_t flags;  /* SAMPLED_PROFILE: bit 0 in DPC, bit 1 in ISR, bits 3-7 priority */
    uint8_t rank;
    uint16_t source; /* PMC_INTERRUPT: profile source; SAMPLED_PROFILE: 0 */
} etl_sample;
bool etl_decode_sample(const etl_record *r, etl_sample *out); /* and PMC_INTERRUPT */
/* SAMPLED_CACHE holds several: how many, and the i-th. */
size_t etl_sample_cache_count(const etl_record *r);
bool etl_decode_cached_sample(const etl_record *r, size_t i, etl_sample *out);

typedef struct etl_interval {
    uint32_t source, new_interval, old_interval;
    spgo_span name; /* UTF-16LE, empty before version 3 */
} etl_interval;
bool etl_decode_interval(const etl_record *r, etl_interval *out);

/* Branches newest first; branch i is three pointers {from, to, information}. */
typedef struct etl_lbr {
    uint64_t time; /* of the trigger */
    uint32_t pid, tid, options;
    spgo_span branches; /* a whole number of entries of 3 * ptr_size bytes */
    size_t branch_count;
} etl_lbr;
bool etl_decode_lbr(const etl_record *r, etl_lbr *out);

/* STACK: time, pid, tid, frames. KEY_KERNEL/USER: time, pid, tid, key. CREATE, DELETE, RUNDOWN:
 * key, frames. Frames are ptr_size bytes each, leaf first. */
typedef struct etl_stack {
    uint64_t time;
    uint32_t pid, tid;
    uint64_t key;
    spgo_span frames;
    size_t frame_count;
} etl_stack;
bool etl_decode_stack(const etl_record *r, etl_stack *out);

/* ------------------------------------------------------------------ compression */

/* Plain LZ77 XPRESS of [MS-XCA]. Expands exactly `out_len` bytes; false if the input ends early,
 * refers before the start or does not fill the output. *used receives the bytes consumed. */
bool xpress_expand(spgo_span in, uint8_t *out, size_t out_len, size_t *used);
/* Appends the compressed form of `in` to b, ended the way the relogger ends it. */
void xpress_compress(bytes *b, spgo_span in);

#endif
