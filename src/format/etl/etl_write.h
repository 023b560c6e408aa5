/*
 * Writing ETL files that other people's readers accept: doc/formats/etl.md, "Writing".
 *
 * Events are added in time order per processor; each processor fills its own buffer, and full
 * buffers go out in the order in which they fill. Finishing marks the last buffer and patches the
 * header, so the sink must be able to patch (but for a trace that is left open).
 */
#ifndef FORMAT_ETL_WRITE_H
#define FORMAT_ETL_WRITE_H

#include <format/etl/etl.h>

typedef struct etl_writer etl_writer;

typedef struct etl_writer_opts {
    uint32_t buffer_size;    /* 0: 65536; a multiple of 1024, <= LIMIT_ETL_BUFFER_BYTES */
    unsigned ptr_size;       /* of the traced system: 8 (0 is 8) or 4 */
    uint32_t cpu_count;      /* 0: highest cpu used + 1 */
    bool compress;           /* XPRESS, small header buffer, layout 2.0 */
    bool merged;             /* LogFileMode 0x00010001, session "Relogger", FILETIME buffers */
    bool win7;               /* processor as a byte beside the alignment, no 0x20, OS 6.1 */
    bool zero_saved_offset;  /* header buffer with SavedOffset 0, as old loggers leave it */
    bool leave_open;         /* as if the logger died: EndTime 0, BuffersWritten 1 */
    uint64_t perf_freq;      /* 0: 10,000,000 */
    uint64_t start_time;     /* raw time of the header event: no event lies before it */
    uint64_t start_filetime; /* wall-clock time of start_time */
    uint64_t boot_filetime;  /* 0: start_filetime - start_time in 100 ns */
    uint32_t clock_type;     /* etl_clock; 0 is QPC */
    uint32_t cpu_mhz;        /* 0: 1000 */
    uint32_t os_build;       /* 0: 19041 (7601 for win7) */
    uint32_t events_lost, buffers_lost;
    const char *session_name;  /* UTF-8; NULL: "OpenSPGO" ("Relogger" when merged) */
    const char *log_file_name; /* UTF-8; NULL: "" ("[multiple files]" when merged) */
} etl_writer_opts;

/* SPGO_USAGE: options that contradict each other or that no logger could have; SPGO_LIMIT: the
 * names do not fit into one buffer. */
spgo_code etl_writer_new(spgo_sink sink, const etl_writer_opts *opts, etl_writer **out,
                         spgo_error *err);

/* What a record header says; zero fields where its type has none. */
typedef struct etl_event_head {
    uint8_t type; /* etl_record_type */
    uint16_t cpu;
    uint64_t time;
    uint32_t pid, tid;
    uint16_t hook;  /* SYSTEM, COMPACT, PERFINFO */
    spgo_guid guid; /* FULL, EVENT */
    uint16_t id;    /* EVENT */
    uint8_t opcode; /* FULL, EVENT */
    uint8_t level, channel;
    uint16_t version;
    uint16_t task;
    uint64_t keyword;
    bool has_pebs; /* PERFINFO: a PEBS value precedes the counter values */
    uint64_t pebs_value;
    uint8_t pmc_count; /* PERFINFO: up to 7 counter values in the header */
    const uint64_t *pmc_values;
    spgo_span extended; /* EVENT: a ready chain of extended items, see etl_encode_extended */
} etl_event_head;

/* SPGO_USAGE: time before the previous one of that processor, a type that is not written here
 * (MESSAGE and ERROR records carry no time), a field the type has no room for; SPGO_LIMIT: record
 * over 65535 bytes or over the buffer; SPGO_IO: the sink refused bytes, now or before. */
spgo_code etl_writer_add(etl_writer *w, const etl_event_head *head, spgo_span payload,
                         spgo_error *err);

/* Ends all processors' buffers now, in order of processor. */
spgo_code etl_writer_flush(etl_writer *w, spgo_error *err);

/* end_filetime 0: derived from the last event. Flushes, patches the header; the writer is gone. */
spgo_code etl_writer_finish(etl_writer *w, uint64_t end_filetime, spgo_error *err);
void etl_writer_cancel(etl_writer *w); /* NULL is fine */

/*
 * Encoders: append the payload that etl_decode_* of the same name reads, in the given version and
 * pointer size. Text fields are NUL-terminated UTF-8 here.
 */
void etl_encode_process(bytes *b, const etl_process *p, const char *command_line, unsigned version,
                        unsigned ptr_size);
void etl_encode_thread(bytes *b, const etl_thread *t, const char *name, unsigned version,
                       unsigned ptr_size);
void etl_encode_thread_name(bytes *b, uint32_t pid, uint32_t tid, const char *name);
void etl_encode_cswitch(bytes *b, const etl_cswitch *c);
void etl_encode_image(bytes *b, const etl_image *i, const char *file_name, unsigned version,
                      unsigned ptr_size);
void etl_encode_image_id(bytes *b, const etl_image_id *i, const char *original_name,
                         unsigned ptr_size);
void etl_encode_image_no_debug(bytes *b, const etl_image_id *i, unsigned ptr_size);
void etl_encode_image_rsds(bytes *b, const etl_image_id *i, unsigned ptr_size);
void etl_encode_volume(bytes *b, const char *nt_path, const char *dos_path);
void etl_encode_sampled_profile(bytes *b, const etl_sample *s, unsigned ptr_size);
void etl_encode_sample_cache(bytes *b, const etl_sample *samples, size_t count, unsigned ptr_size);
void etl_encode_pmc_interrupt(bytes *b, const etl_sample *s, unsigned ptr_size);
void etl_encode_interval(bytes *b, const etl_interval *i, const char *name, unsigned version);
/* The events counted by the values in PERFINFO headers, in their order. */
void etl_encode_pmc_names(bytes *b, const char *const *names, size_t count);
/* branches: count triples {from, to, information}, newest first. */
void etl_encode_lbr(bytes *b, const etl_lbr *l, const uint64_t (*branches)[3], size_t count,
                    unsigned ptr_size);
void etl_encode_stack(bytes *b, const etl_stack *s, const uint64_t *frames, size_t count,
                      unsigned ptr_size);
void etl_encode_stack_key_use(bytes *b, const etl_stack *s, unsigned ptr_size);
void etl_encode_stack_key_def(bytes *b, const etl_stack *s, const uint64_t *frames, size_t count,
                              unsigned ptr_size);
/* One more item of the chain of an EVENT_HEADER; `more`: another one follows. */
void etl_encode_extended(bytes *b, uint16_t type, spgo_span data, bool more);

/* GUIDs of the events that travel under a class GUID. */
extern const spgo_guid ETL_GUID_EVENT_TRACE, ETL_GUID_PROCESS, ETL_GUID_THREAD, ETL_GUID_IMAGE,
    ETL_GUID_PERF_INFO, ETL_GUID_LAST_BRANCH, ETL_GUID_STACK_WALK, ETL_GUID_IMAGE_ID,
    ETL_GUID_SYSTEM_CONFIG_EX, ETL_GUID_RT_LOST;

#endif
