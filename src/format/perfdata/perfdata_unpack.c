/*
 * Unpacking COMPRESSED records. The unpacked stream passes through one buffer of fixed size, so
 * that a hostile record costs time up to its limit but never memory.
 */
#include <format/perfdata/perfdata_internal.h>

#include <stdlib.h>
#include <string.h>

#if SPGO_HAVE_ZSTD

#include <zstd.h>

/* A record of 65535 bytes always fits behind what is left of another, with room to unpack in
 * large pieces. */
enum { BUFFER_SIZE = 192 * 1024 };

struct perfdata_unpacker {
    ZSTD_DStream *zstd;
    ZSTD_inBuffer packed;
    uint64_t unpacked_left; /* of what the fed piece may still grow to */
    bool more_inside;       /* the last call filled its output; more may be ready */
    size_t pos, len;        /* unread bytes of the buffer */
    uint8_t buffer[BUFFER_SIZE];
};

bool perfdata_can_unpack(void)
{
    return true;
}

perfdata_unpacker *perfdata_unpacker_new(void)
{
    perfdata_unpacker *u = malloc(sizeof *u);
    if (!u)
        return NULL;
    u->zstd = ZSTD_createDStream();
    if (!u->zstd) {
        free(u);
        return NULL;
    }
    perfdata_unpacker_reset(u);
    return u;
}

void perfdata_unpacker_free(perfdata_unpacker *u)
{
    if (!u)
        return;
    ZSTD_freeDStream(u->zstd);
    free(u);
}

void perfdata_unpacker_reset(perfdata_unpacker *u)
{
    ZSTD_initDStream(u->zstd);
    u->packed = (ZSTD_inBuffer){0};
    u->more_inside = false;
    u->pos = u->len = 0;
}

void perfdata_unpacker_feed(perfdata_unpacker *u, spgo_span packed, uint64_t unpacked_max)
{
    u->packed = (ZSTD_inBuffer){.src = packed.ptr, .size = packed.len};
    u->unpacked_left = unpacked_max;
}

static spgo_code refill(perfdata_unpacker *u)
{
    memmove(u->buffer, u->buffer + u->pos, u->len - u->pos);
    u->len -= u->pos;
    u->pos = 0;
    ZSTD_outBuffer room = {.dst = u->buffer + u->len, .size = BUFFER_SIZE - u->len};
    size_t packed_before = u->packed.pos;
    size_t result = ZSTD_decompressStream(u->zstd, &room, &u->packed);
    if (ZSTD_isError(result))
        return SPGO_CORRUPT;
    u->more_inside = room.pos == room.size;
    u->len += room.pos;
    if (room.pos > u->unpacked_left)
        return SPGO_LIMIT;
    u->unpacked_left -= room.pos;
    /* Neither took nor gave anything: no later call would. */
    if (room.pos == 0 && u->packed.pos == packed_before && u->packed.pos < u->packed.size)
        return SPGO_CORRUPT;
    return SPGO_OK;
}

spgo_code perfdata_unpacker_peek(perfdata_unpacker *u, size_t want, const uint8_t **at,
                                 size_t *available)
{
    spgo_code code = SPGO_OK;
    while (code == SPGO_OK && u->len - u->pos < want &&
           (u->packed.pos < u->packed.size || u->more_inside))
        code = refill(u);
    *at = u->buffer + u->pos;
    *available = u->len - u->pos;
    return code;
}

void perfdata_unpacker_skip(perfdata_unpacker *u, size_t size_bytes)
{
    u->pos += size_bytes;
}

#else /* without zstd no unpacker is ever made */

struct perfdata_unpacker {
    char none;
};

bool perfdata_can_unpack(void)
{
    return false;
}

perfdata_unpacker *perfdata_unpacker_new(void)
{
    return NULL;
}

void perfdata_unpacker_free(perfdata_unpacker *u)
{
    (void)u;
}

void perfdata_unpacker_reset(perfdata_unpacker *u)
{
    (void)u;
}

void perfdata_unpacker_feed(perfdata_unpacker *u, spgo_span packed, uint64_t unpacked_max)
{
    (void)u;
    (void)packed;
    (void)unpacked_max;
}

spgo_code perfdata_unpacker_peek(perfdata_unpacker *u, size_t want, const uint8_t **at,
                                 size_t *available)
{
    (void)u;
    (void)want;
    *at = NULL;
    *available = 0;
    return SPGO_UNSUPPORTED;
}

void perfdata_unpacker_skip(perfdata_unpacker *u, size_t size_bytes)
{
    (void)u;
    (void)size_bytes;
}

#endif
