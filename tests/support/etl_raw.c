/* ETL bytes field by field: see etl_raw.h. */
#include "etl_raw.h"

#include <string.h>

enum { RECORD_ALIGN = 8, PADDING = 0xA5, FILL = 0xFF };

static void put_zeros(bytes *b, size_t n)
{
    bytes_fill(b, 0, n);
}

static void header_payload(bytes *b, const raw_file *f, unsigned ptr_size)
{
    size_t start = b->len;
    bytes_u32(b, f->buffer_size ? f->buffer_size : RAW_BUFFER_SIZE);
    bytes_u32(b, 0x0501000A); /* Windows 10.0, layout 1.5 */
    bytes_u32(b, 19041);
    bytes_u32(b, 4);
    bytes_u64(b, f->leave_open ? 0 : RAW_START_FILETIME + 50000000);
    bytes_u32(b, 156250);
    bytes_u32(b, 0);
    bytes_u32(b, f->mode | ETL_MODE_SEQUENTIAL);
    bytes_u32(b, 7);
    bytes_u32(b, 1);
    bytes_u32(b, ptr_size);
    bytes_u32(b, 11);
    bytes_u32(b, 3600);
    put_zeros(b, 2 * ptr_size);
    bytes_u32(b, 480);
    put_zeros(b, 168);
    put_zeros(b, (8 - (b->len - start) % 8) % 8);
    bytes_u64(b, RAW_START_FILETIME - 1000);
    bytes_u64(b, f->perf_freq ? f->perf_freq : 10000000);
    bytes_u64(b, RAW_START_FILETIME);
    bytes_u32(b, f->clock_type ? f->clock_type : ETL_CLOCK_QPC);
    bytes_u32(b, 12);
    bytes_utf16z(b, "Session");
    bytes_utf16z(b, "C:\\trace.etl");
}

void raw_header(bytes *b, const raw_file *f)
{
    unsigned ptr_size = f->ptr_size ? f->ptr_size : 8;
    bytes payload = {0};
    header_payload(&payload, f, ptr_size);
    size_t start = raw_begin(b, 0, 0);
    raw_add(b, &(raw_record){.type = ptr_size == 8 ? ETL_SYSTEM64 : ETL_SYSTEM32,
                             .version = 2,
                             .time = RAW_FIRST_TIME,
                             .pid = 12,
                             .tid = 34,
                             .payload = bytes_span(&payload)});
    raw_end(b, start, f->buffer_size ? f->buffer_size : RAW_BUFFER_SIZE);
    bytes_set_u16(b, start + 0x36, 4);
    bytes_free(&payload);
}

size_t raw_begin(bytes *b, uint16_t cpu, uint64_t sequence)
{
    size_t start = b->len;
    put_zeros(b, 0x18);
    bytes_u64(b, sequence);
    put_zeros(b, 8);
    bytes_u16(b, cpu);
    bytes_u16(b, 1); /* logger */
    bytes_u32(b, 3); /* state */
    bytes_u32(b, 0);
    bytes_u16(b, ETL_FLAG_PROCESSOR_INDEX);
    bytes_u16(b, 0);
    put_zeros(b, 16);
    return start;
}

void raw_end(bytes *b, size_t start, uint32_t size)
{
    uint32_t end = (uint32_t)(b->len - start);
    bytes_set_u32(b, start, size ? size : end);
    bytes_set_u32(b, start + 0x04, end);
    bytes_set_u32(b, start + 0x08, end + 64);
    bytes_set_u32(b, start + 0x30, end);
    if (size > end)
        bytes_fill(b, FILL, size - end);
}

void raw_end_compressed(bytes *b, size_t start)
{
    enum { GROUP = 32 };
    bytes content = {0};
    bytes_put(&content, b->ptr + start + ETL_BUFFER_HEADER_SIZE,
              b->len - start - ETL_BUFFER_HEADER_SIZE);
    raw_end(b, start, 0);
    b->len = start + ETL_BUFFER_HEADER_SIZE;
    for (size_t at = 0; at < content.len; at += GROUP) {
        size_t n = content.len - at < GROUP ? content.len - at : GROUP;
        bytes_u32(b, n == GROUP ? 0 : UINT32_MAX >> n);
        bytes_put(b, content.ptr + at, n);
    }
    bytes_set_u32(b, start, (uint32_t)(b->len - start));
    bytes_set_u16(b, start + 0x34, ETL_FLAG_PROCESSOR_INDEX | ETL_FLAG_COMPRESSED);
    bytes_free(&content);
}

static void record_head(bytes *b, const raw_record *r)
{
    switch (r->type) {
    case ETL_PERFINFO32:
    case ETL_PERFINFO64:
        bytes_u64(b, r->time);
        return;
    case ETL_SYSTEM32:
    case ETL_SYSTEM64:
    case ETL_COMPACT32:
    case ETL_COMPACT64:
        bytes_u32(b, r->tid);
        bytes_u32(b, r->pid);
        bytes_u64(b, r->time);
        put_zeros(b, r->type == ETL_SYSTEM32 || r->type == ETL_SYSTEM64 ? 8 : 0);
        return;
    default:
        break;
    }
    bytes_u32(b, r->tid);
    bytes_u32(b, r->pid);
    bytes_u64(b, r->time);
    bytes_put(b, r->guid.bytes, 16);
    if (r->type == ETL_EVENT32 || r->type == ETL_EVENT64) {
        bytes_u16(b, r->id);
        bytes_u8(b, (uint8_t)r->version);
        bytes_u8(b, 16); /* channel */
        bytes_u8(b, 4);  /* level */
        bytes_u8(b, r->opcode);
        bytes_u16(b, 77);
        bytes_u64(b, 0x8000000000000001u);
        put_zeros(b, 24); /* processor time, activity */
    } else {
        put_zeros(b, 8);
        if (r->type == ETL_INSTANCE32 || r->type == ETL_INSTANCE64)
            put_zeros(b, 24);
    }
}

static bool is_hook_type(uint8_t type)
{
    return type <= ETL_COMPACT64 || type == ETL_PERFINFO32 || type == ETL_PERFINFO64;
}

size_t raw_add(bytes *b, const raw_record *r)
{
    size_t start = b->len;
    if (is_hook_type(r->type)) {
        bytes_u16(b, r->version);
        bytes_u8(b, r->type);
        bytes_u8(b, 0xC0);
        bytes_u16(b, 0);
        bytes_u16(b, r->hook);
    } else {
        bytes_u16(b, 0);
        bytes_u8(b, r->type);
        bytes_u8(b, 0xC0);
        if (r->type == ETL_EVENT32 || r->type == ETL_EVENT64) {
            bytes_u16(b, r->between.len ? 1 : 0);
            bytes_u16(b, 0);
        } else {
            bytes_u8(b, r->opcode);
            bytes_u8(b, 5); /* level */
            bytes_u16(b, r->version);
        }
    }
    record_head(b, r);
    bytes_put(b, r->between.ptr, r->between.len);
    bytes_put(b, r->payload.ptr, r->payload.len);
    size_t size = b->len - start;
    bytes_set_u16(b, start + (is_hook_type(r->type) ? 4 : 0), (uint16_t)size);
    bytes_fill(b, PADDING, (RECORD_ALIGN - size % RECORD_ALIGN) % RECORD_ALIGN);
    return start;
}

size_t raw_add_simple(bytes *b, uint64_t time)
{
    uint8_t payload[8];
    store_u64(payload, time);
    return raw_add(b, &(raw_record){.type = ETL_PERFINFO64,
                                    .version = 2,
                                    .hook = 0x0F33,
                                    .time = time,
                                    .payload = {payload, sizeof payload}});
}
