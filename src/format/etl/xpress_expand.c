/*
 * Plain LZ77 XPRESS of [MS-XCA] 2.3 and 2.4: 32 flags, most significant first, then for each flag a
 * literal byte (0) or a match (1). A match is a 16-bit word, distance - 1 above three bits of
 * length; longer lengths continue in a nibble shared by two matches, a byte, a word, a double word.
 */
#include <string.h>

#include <format/etl/etl_internal.h>

typedef struct expander {
    const uint8_t *src, *src_end;
    const uint8_t *nibble; /* byte whose high half is the next nibble, or NULL */
} expander;

/* The part of a match length beyond the three bits; false if the input ends or is wrong. */
static bool long_length(expander *x, uint32_t *length)
{
    uint32_t value;
    if (x->nibble) {
        value = *x->nibble >> 4;
        x->nibble = NULL;
    } else {
        if (x->src == x->src_end)
            return false;
        x->nibble = x->src;
        value = *x->src++ & 15u;
    }
    if (value == 15) {
        if (x->src == x->src_end)
            return false;
        value = *x->src++;
        if (value == 255) {
            if (x->src_end - x->src < 2)
                return false;
            value = load_u16(x->src);
            x->src += 2;
            if (value == 0) {
                if (x->src_end - x->src < 4)
                    return false;
                value = load_u32(x->src);
                x->src += 4;
            }
            if (value < 15 + 7 || value > UINT32_MAX - 3)
                return false;
            value -= 15 + 7;
        }
        value += 15;
    }
    *length = value + 7;
    return true;
}

/*
 * The copy may overlap its own output, then it repeats the last `distance` bytes. Most matches are
 * short and far enough back for steps of a word, which may write up to 7 bytes too many: `room`
 * says how far they may.
 */
static void copy_match(uint8_t *to, size_t distance, size_t length, size_t room)
{
    enum { WORD = 8 };
    const uint8_t *from = to - distance;
    if (distance >= WORD && room >= length + WORD) {
        for (size_t i = 0; i < length; i += WORD)
            memcpy(to + i, from + i, WORD);
    } else if (distance == 1) {
        memset(to, *from, length);
    } else {
        for (size_t i = 0; i < length; i++)
            to[i] = from[i];
    }
}

size_t xpress_expand_some(spgo_span in, uint8_t *out, size_t out_len, size_t *used)
{
    *used = 0;
    if (in.len == 0)
        return 0;
    expander x = {in.ptr, in.ptr + in.len, NULL};
    size_t made = 0;
    uint32_t flags = 0;
    unsigned flag_count = 0;
    while (made < out_len) {
        if (flag_count == 0) {
            if (x.src_end - x.src < 4)
                break;
            flags = load_u32(x.src);
            x.src += 4;
            flag_count = 32;
        }
        flag_count--;
        if (!(flags >> flag_count & 1)) {
            if (x.src == x.src_end)
                break;
            out[made++] = *x.src++;
            continue;
        }
        if (x.src_end - x.src < 2)
            break;
        uint32_t match = load_u16(x.src);
        x.src += 2;
        size_t distance = (match >> 3) + 1;
        uint32_t length = match & 7;
        if (length == 7 && !long_length(&x, &length))
            break;
        size_t copied = (size_t)length + 3;
        if (distance > made)
            break;
        if (copied > out_len - made)
            copied = out_len - made;
        copy_match(out + made, distance, copied, out_len - made);
        made += copied;
    }
    *used = (size_t)(x.src - in.ptr);
    return made;
}

bool xpress_expand(spgo_span in, uint8_t *out, size_t out_len, size_t *used)
{
    return xpress_expand_some(in, out, out_len, used) == out_len;
}
