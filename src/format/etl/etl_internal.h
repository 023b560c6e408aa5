/* Shared by the files of this folder and their tests; not for others. */
#ifndef FORMAT_ETL_INTERNAL_H
#define FORMAT_ETL_INTERNAL_H

#include <base/arena.h>
#include <base/reader.h>
#include <format/etl/etl.h>

enum {
    ETL_BUFFER_TYPE_HEADER = 4,
    ETL_BUFFER_TYPE_EMPTY = 6,
    ETL_MARKER_TOP = 0xC0, /* top byte of a record's first 32 bits: TRACE_HEADER | EVENT_TRACE */
    ETL_MODE_NO_PER_PROCESSOR = 0x10000000
};

struct etl_file {
    spgo_span bytes;
    etl_header header;
    etl_buffer *buffers;
    size_t buffer_count, buffer_cap;
    uint64_t expanded_bytes; /* of all compressed buffers */
    arena *names;
};

/* Counts per second of the raw clock; never 0. */
uint64_t etl_clock_freq(const etl_header *h);

/* As xpress_expand, but returns how many bytes were made before the input ended or went wrong. */
size_t xpress_expand_some(spgo_span in, uint8_t *out, size_t out_len, size_t *used);

/* The raw time of a buffer's first timed record; false if it has none. *is_empty: no record. */
bool etl_buffer_first_time(const etl_file *f, size_t index, uint64_t *time);

/* Reads the payload of a header event up to its names; fields that are not there stay 0. */
void etl_read_header(reader *c, unsigned ptr_size, etl_header *h);

/* The header event as a record, for the dump. The names stand outside of `header`, as UTF-16LE. */
typedef struct etl_header_event {
    etl_header header;
    spgo_span session_name, log_file_name;
} etl_header_event;
bool etl_decode_header(const etl_record *r, etl_header_event *out);

/* How many bytes of the payload its event's layout covers; false if the event has no decoder or
 * the payload breaks the layout. */
bool etl_payload_used(const etl_record *r, size_t *used);

/* The kernel's UTF-16LE text fields of IMAGE_FILE_VERSION and BUILD_INFO, for the dump. */
enum { ETL_FILE_VERSION_TEXTS = 10 };
typedef struct etl_file_version {
    uint32_t image_size, time_date_stamp;
    spgo_span text[ETL_FILE_VERSION_TEXTS];
} etl_file_version;
bool etl_decode_file_version(const etl_record *r, etl_file_version *out);

typedef struct etl_build_info {
    uint64_t install_filetime;
    spgo_span build_lab, product_name;
} etl_build_info;
bool etl_decode_build_info(const etl_record *r, etl_build_info *out);

/* Name of a kind that is known by name, decoded or not; NULL if unknown. */
const char *etl_known_name(const etl_record *r);

#endif
