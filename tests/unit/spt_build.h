/*
 * Builds SPT files byte by byte, so that the tests of reader and verifier do not depend on the
 * writer. small_file() is the usual start: two programs, tables just large enough, records at
 * SMALL_DATA_OFF.
 */
#ifndef SPT_BUILD_H
#define SPT_BUILD_H

#include "test_data.h"

#include <string.h>

#include <base/bytes.h>
#include <spgo/spt.h>

enum {
    SMALL_STRINGS_OFF = 32,
    SMALL_STRINGS_CAPACITY = 16,
    SMALL_PROGRAMS_OFF = SMALL_STRINGS_OFF + SMALL_STRINGS_CAPACITY,
    SMALL_DATA_OFF = SMALL_PROGRAMS_OFF + 2 * SPGO_SPT_PROGRAM_SIZE
};

static inline void put_header(bytes *b, uint32_t strings_off, uint32_t programs_off,
                              uint16_t strings_used, uint16_t strings_capacity,
                              uint16_t programs_used, uint16_t programs_capacity)
{
    bytes_u32(b, SPGO_SPT_SIGNATURE);
    bytes_u32(b, SPGO_SPT_VERSION);
    bytes_u32(b, 0);
    bytes_u32(b, 0);
    bytes_u32(b, strings_off);
    bytes_u32(b, programs_off);
    bytes_u16(b, strings_used);
    bytes_u16(b, strings_capacity);
    bytes_u16(b, programs_used);
    bytes_u16(b, programs_capacity);
}

/* A program whose GUID is sixteen times `digit`. */
static inline spgo_image_id image_id(uint8_t digit, uint32_t age)
{
    spgo_image_id id = {.age = age};
    memset(id.guid.bytes, digit, sizeof id.guid.bytes);
    return id;
}

static inline void put_program(bytes *b, uint8_t digit, uint32_t age, uint32_t string_index)
{
    bytes_fill(b, digit, 16);
    bytes_u32(b, age);
    bytes_u32(b, string_index);
}

static inline void put_small_tables(bytes *b)
{
    put_header(b, SMALL_STRINGS_OFF, SMALL_PROGRAMS_OFF, 12, SMALL_STRINGS_CAPACITY, 2, 2);
    bytes_put(b, "a.exe\0b.dll\0\0\0\0\0", SMALL_STRINGS_CAPACITY);
    put_program(b, 0x11, 1, 0);
    put_program(b, 0x22, 7, 6);
}

/* BINARY_ID with a length to come; returns its offset. */
static inline size_t begin_segment(bytes *b, uint16_t program)
{
    size_t at = b->len;
    bytes_u8(b, SPGO_SPT_BINARY_ID);
    bytes_u8(b, 0);
    bytes_u16(b, program);
    bytes_u32(b, 0);
    return at;
}

static inline void end_segment(bytes *b, size_t at)
{
    bytes_set_u32(b, at + 4, (uint32_t)(b->len - at - 4));
}

static inline void put_repeat(bytes *b, uint64_t repeat)
{
    bytes_u8(b, SPGO_SPT_REPEAT);
    bytes_u8(b, 0); /* pad */
    bytes_u64(b, repeat);
}

static inline void put_record(bytes *b, uint8_t opcode, uint8_t entry_count, unsigned value_count,
                              const uint32_t *values)
{
    bytes_u8(b, opcode);
    bytes_u8(b, entry_count);
    for (unsigned i = 0; i < value_count; i++)
        bytes_u32(b, values[i]);
}

/* An IP record (or callstack) of n RVAs start, start + 0x10, ... */
static inline void put_ips(bytes *b, uint8_t opcode, uint8_t n, uint32_t start)
{
    bytes_u8(b, opcode);
    bytes_u8(b, n);
    for (uint32_t i = 0; i < n; i++)
        bytes_u32(b, start + 0x10 * i);
}

/* An LBR record of n arcs from start + 0x10 * i to start + 0x10 * i + 1. */
static inline void put_arcs(bytes *b, uint8_t n, uint32_t start)
{
    bytes_u8(b, SPGO_SPT_LBR);
    bytes_u8(b, n);
    for (uint32_t i = 0; i < n; i++) {
        bytes_u32(b, start + 0x10 * i + 1);
        bytes_u32(b, start + 0x10 * i);
    }
}

/* Two segments of two records each, the second with a REPEAT. */
static inline void put_small_records(bytes *b)
{
    size_t at = begin_segment(b, 0);
    put_ips(b, SPGO_SPT_UNHALT_CYCLE, 2, 0x1000);
    put_arcs(b, 2, 0x2000);
    end_segment(b, at);
    at = begin_segment(b, 1);
    put_repeat(b, 4);
    put_ips(b, SPGO_SPT_ETW_CALLSTACK, 3, 0x3000);
    put_ips(b, SPGO_SPT_ETW_INSTR, 1, 0x4000);
    end_segment(b, at);
}

static inline bytes small_file(void)
{
    bytes b = {0};
    put_small_tables(&b);
    put_small_records(&b);
    assert_false(b.failed);
    return b;
}

/* A memory output that can also be read back. */
static inline bool memory_read(void *ctx, uint64_t offset, void *data, size_t size)
{
    const bytes *b = ctx;
    if (offset > b->len || size > b->len - offset)
        return false;
    memcpy(data, b->ptr + offset, size);
    return true;
}

static inline spgo_sink memory_sink(bytes *b)
{
    spgo_sink sink = bytes_sink(b);
    sink.read = memory_read;
    return sink;
}

/* An independent, seeded generator (splitmix64). */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

#endif
