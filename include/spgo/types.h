/* Plain value types that cross the borders of the library. */
#ifndef SPGO_TYPES_H
#define SPGO_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A view of bytes that somebody else owns. An empty span may have a NULL pointer. */
typedef struct spgo_span {
    const uint8_t *ptr;
    size_t len;
} spgo_span;

/* A view of UTF-8 text that somebody else owns; not NUL-terminated. */
typedef struct spgo_str {
    const char *ptr;
    size_t len;
} spgo_str;

/*
 * A GUID as it stands on disk: Data1 (u32), Data2 (u16) and Data3 (u16) little-endian, then eight
 * bytes in order. The all-zero GUID means "no identity known".
 */
typedef struct spgo_guid {
    uint8_t bytes[16];
} spgo_guid;

/*
 * What identifies one build of one image.
 * PE: the GUID and age of the CodeView RSDS record. ELF: the first 16 bytes of the GNU build-id
 * as the GUID (shorter ones padded with zeros), age 0.
 */
typedef struct spgo_image_id {
    spgo_guid guid;
    uint32_t age;
} spgo_image_id;

/*
 * Where a writer's bytes go. `write` appends; `patch` overwrites bytes that were appended before
 * (offsets count from the first appended byte). Both return false when the bytes could not be
 * taken; the owner of the sink keeps the reason. A sink without `patch` takes only streams.
 * `read` gives back bytes that were appended before; a sink may lack it (NULL), and then writers
 * that have to move what they wrote fail.
 */
typedef struct spgo_sink {
    void *ctx;
    bool (*write)(void *ctx, const void *bytes, size_t len);
    bool (*patch)(void *ctx, uint64_t offset, const void *bytes, size_t len);
    bool (*read)(void *ctx, uint64_t offset, void *bytes, size_t len);
} spgo_sink;

#ifdef __cplusplus
}
#endif
#endif
