/* The numbers of variable length that DWARF and .eh_frame are made of. */
#ifndef SYMBOL_DWARF_LEB_H
#define SYMBOL_DWARF_LEB_H

#include <base/reader.h>

/* Bits above 64 are dropped: padding may put any number of zeros there. */
static inline uint64_t take_uleb(reader *r)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = reader_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += shift < 64 ? 7 : 0;
    } while ((byte & 0x80) && r->code == SPGO_OK);
    return value;
}

static inline int64_t take_sleb(reader *r)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = reader_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += shift < 64 ? 7 : 0;
    } while ((byte & 0x80) && r->code == SPGO_OK);
    if (shift < 64 && (byte & 0x40))
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

#endif
