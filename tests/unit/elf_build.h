/* The numbers of ELF files built by hand, in every class and byte order. */
#ifndef ELF_BUILD_H
#define ELF_BUILD_H

#include "test_data.h"

#include <string.h>

#include <base/bytes.h>
#include <format/elf/elf.h>

/* What kind of file a test wants. */
typedef struct kind {
    bool is_64bit, big_endian;
} kind;

static const kind kinds[] = {{false, false}, {false, true}, {true, false}, {true, true}};
enum { KIND_COUNT = 4 };

static inline void half(bytes *b, kind k, uint16_t v)
{
    bytes_u16(b, k.big_endian ? __builtin_bswap16(v) : v);
}

static inline void word(bytes *b, kind k, uint32_t v)
{
    bytes_u32(b, k.big_endian ? __builtin_bswap32(v) : v);
}

static inline void wide(bytes *b, kind k, uint64_t v)
{
    if (k.is_64bit)
        bytes_u64(b, k.big_endian ? __builtin_bswap64(v) : v);
    else
        word(b, k, (uint32_t)v);
}

#endif
