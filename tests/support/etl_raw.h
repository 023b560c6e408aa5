/*
 * ETL bytes built field by field, for tests that need to break one of them. Independent of the
 * project's own ETL writer.
 */
#ifndef ETL_RAW_H
#define ETL_RAW_H

#include <base/bytes.h>
#include <format/etl/etl.h>

enum { RAW_BUFFER_SIZE = 1024, RAW_FIRST_TIME = 1000 };
#define RAW_START_FILETIME 133000000000000000ull

typedef struct raw_file {
    unsigned ptr_size;    /* 0: 8 */
    uint32_t buffer_size; /* 0: RAW_BUFFER_SIZE */
    uint32_t mode;
    uint64_t perf_freq;  /* 0: 10,000,000 */
    uint32_t clock_type; /* 0: QPC */
    bool leave_open;     /* end time 0 */
} raw_file;

/* The header buffer. */
void raw_header(bytes *b, const raw_file *f);

/* Starts a data buffer and returns where it starts; ends it by setting its ends of data and filling
 * it up to size bytes (0: no fill, and the size becomes what there is). */
size_t raw_begin(bytes *b, uint16_t cpu, uint64_t sequence);
void raw_end(bytes *b, size_t start, uint32_t size);
/* The same with its content replaced by literals in XPRESS form. */
void raw_end_compressed(bytes *b, size_t start);

typedef struct raw_record {
    uint8_t type;     /* etl_record_type */
    uint16_t version; /* PERFINFO: the whole version word */
    uint16_t hook;
    uint64_t time;
    uint32_t pid, tid;
    spgo_guid guid;
    uint8_t opcode;
    uint16_t id;
    spgo_span between; /* counter values or extended items, between header and payload */
    spgo_span payload;
} raw_record;

/* Appends a record with padding that is not zero; returns where it starts. */
size_t raw_add(bytes *b, const raw_record *r);

/* A PERFINFO64 record with an 8-byte payload. */
size_t raw_add_simple(bytes *b, uint64_t time);

#endif
