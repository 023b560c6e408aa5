/* The numbers of variable length that DWARF and .eh_frame are made of. */
#ifndef SYMBOL_DWARF_LEB_H
#define SYMBOL_DWARF_LEB_H

#include <base/reader.h>

/* The number's bits, those above 64 dropped: padding may put any number of zeros there. *shift
 * receives how many bits there were, at most 70, and the result the last byte. */
static inline uint8_t take_leb(reader *r, uint64_t *value, unsigned *shift)
{
    uint8_t byte;
    *value = 0;
    *shift = 0;
    do {
        byte = reader_u8(r);
        if (*shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << *shift;
        *shift += *shift < 64 ? 7 : 0;
    } while ((byte & 0x80) && r->code == SPGO_OK);
    return byte;
}

static inline uint64_t take_uleb(reader *r)
{
    uint64_t value;
    unsigned shift;
    (void)take_leb(r, &value, &shift);
    return value;
}

static inline int64_t take_sleb(reader *r)
{
    uint64_t value;
    unsigned shift;
    uint8_t last = take_leb(r, &value, &shift);
    if (shift < 64 && (last & 0x40))
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

#endif
