/* Files of the stepping runtime, built by hand. */
#ifndef STEP_BUILD_H
#define STEP_BUILD_H

#include <base/bytes.h>
#include <step_runtime/step_file.h>

#include <stddef.h>
#include <string.h>

enum {
    STEP_BUILD_BRANCHES = 4,
    STEP_BUILD_SLOT = 136,          /* 64 + 17 * 4, rounded up to 8 */
    STEP_BUILD_CHUNK = 3 * 136 + 8, /* three slots and some padding */
    STEP_BUILD_HEADER = 2560
};

/* A header for `slot_count` slots; nothing else in it is 0 by chance. */
static inline void step_build_header(bytes *b, uint64_t slot_count)
{
    static const char command[] = "prog\0arg";
    const uint32_t words[] = {STEP_FILE_VERSION,
                              STEP_BUILD_HEADER,
                              STEP_BUILD_SLOT,
                              STEP_BUILD_CHUNK,
                              STEP_BUILD_BRANCHES,
                              STEP_FILTER_JCC,
                              71,
                              70,
                              STEP_START_FORK,
                              STEP_END_EXIT};
    bytes_put(b, STEP_FILE_MAGIC, 8);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        bytes_u32(b, words[i]);
    for (uint64_t i = 0; i < 4; i++) /* times and interval */
        bytes_u64(b, 1000 + i);
    bytes_u32(b, 50000);
    bytes_u32(b, sizeof command);
    bytes_u64(b, slot_count);
    for (uint64_t i = 1; i < 15; i++) /* the other counters: 2001, ... */
        bytes_u64(b, i == 7 ? 0 : 2000 + i);
    bytes_fill(b, 0, 304);
    bytes_put(b, command, sizeof command);
    bytes_fill(b, 0, STEP_COMMAND_BYTES - sizeof command);
}

/* Where slot i is to stand; fills up with zeros to there. */
static inline void step_build_to_slot(bytes *b, uint64_t i)
{
    size_t at =
        STEP_BUILD_HEADER + (size_t)(i / 3) * STEP_BUILD_CHUNK + (size_t)(i % 3) * STEP_BUILD_SLOT;
    bytes_fill(b, 0, at - b->len);
}

static inline void step_build_head(bytes *b, uint32_t kind, uint32_t span, uint64_t time_ns)
{
    bytes_u32(b, kind);
    bytes_u32(b, span);
    bytes_u64(b, time_ns);
}

/* A record of `count` branches: 0x1000 -> 0x2000 the newest, each older one 0x10 further. */
static inline void step_build_record(bytes *b, uint16_t count, uint64_t time_ns)
{
    step_build_head(b, STEP_SLOT_RECORD, 1, time_ns);
    bytes_u32(b, 72);
    bytes_u32(b, 1);
    bytes_u16(b, count);
    bytes_u16(b, STEP_STOP_STEPS);
    bytes_u32(b, 99);
    bytes_u64(b, 0x111);
    bytes_u64(b, 0x222);
    bytes_u64(b, time_ns - 5);
    bytes_u64(b, 7777);
    for (uint64_t i = 0; i < STEP_BUILD_BRANCHES; i++) {
        bytes_u64(b, i < count ? 0x1000 + 0x10 * i : 0);
        bytes_u64(b, i < count ? 0x2000 + 0x10 * i : 0);
    }
    for (uint8_t i = 0; i < STEP_BUILD_BRANCHES; i++)
        bytes_u8(b, i < count ? (uint8_t)(STEP_BRANCH_JCC + i) : 0);
}

/* An image in one slot, without its path. */
static inline void step_build_image(bytes *b, uint32_t kind, uint32_t span, uint64_t start,
                                    uint32_t path_size)
{
    step_build_head(b, kind, span, 300);
    bytes_u64(b, start);
    bytes_u64(b, 0x3000);
    bytes_u64(b, 0x1000);
    bytes_u64(b, 123456);
    bytes_u32(b, 8);
    bytes_u32(b, 1);
    bytes_u32(b, STEP_PROT_READ | STEP_PROT_EXEC);
    bytes_u32(b, path_size);
}

static inline void step_build_thread(bytes *b, uint32_t kind, uint64_t time_ns)
{
    step_build_head(b, kind, 1, time_ns);
    bytes_u32(b, 72);
    bytes_u32(b, 0);
    bytes_u64(b, 4242);
}

/* One of everything: image with a path over two slots, thread, record, unfinished slot, record of
 * one branch, image end, thread end. */
static inline void step_build_whole(bytes *b)
{
    char path[100];
    memset(path, 'p', sizeof path);
    path[0] = '/';
    step_build_header(b, 8);
    step_build_image(b, STEP_SLOT_IMAGE, 2, 0x400000, sizeof path);
    bytes_put(b, path, STEP_BUILD_SLOT - STEP_IMAGE_BYTES);
    step_build_head(b, STEP_SLOT_TEXT, 1, 0);
    bytes_put(b, path + (STEP_BUILD_SLOT - STEP_IMAGE_BYTES),
              sizeof path - (STEP_BUILD_SLOT - STEP_IMAGE_BYTES));
    step_build_to_slot(b, 2);
    step_build_thread(b, STEP_SLOT_THREAD, 310);
    step_build_to_slot(b, 3);
    step_build_record(b, 4, 320);
    step_build_to_slot(b, 5);
    step_build_record(b, 1, 330);
    step_build_to_slot(b, 6);
    step_build_image(b, STEP_SLOT_IMAGE_END, 1, 0x400000, 0);
    step_build_to_slot(b, 7);
    step_build_thread(b, STEP_SLOT_THREAD_END, 340);
    step_build_to_slot(b, 8);
}

#endif
