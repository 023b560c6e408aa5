/*
 * Compression of ETL buffers: the plain LZ77 form of [MS-XCA], without Huffman coding.
 *
 * The stream is groups of 32 items behind a u32 of flags, first item in the highest bit: a clear
 * bit is a literal byte, a set bit a u16 match of (distance - 1) << 3 | length - 3, whose length
 * grows, once it is 7 and more, into half a byte shared by two matches, then a byte, then a u16.
 * The unused flags of the last group are ones, and a group of ones follows one that is full:
 * readers that go to the end of their input then find a match without bytes, which ends them.
 */
#include <base/reader.h>
#include <format/etl/etl.h>

#include <stdlib.h>
#include <string.h>

enum {
    MATCH_MIN = 3,
    MATCH_MAX = 65535 + MATCH_MIN, /* longer ones would need a u32; none was ever seen */
    WINDOW = 8192,                 /* distances have 13 bits */
    HASH_BITS = 13,
    CHAIN_MAX = 24,   /* candidates looked at for one match */
    GOOD_LENGTH = 96, /* long enough to stop looking */
    GROUP_ITEMS = 32
};

/* Positions are stored plus one: 0 is "none". */
typedef struct match_table {
    uint32_t head[1 << HASH_BITS];
    uint32_t prev[WINDOW]; /* the position before, of the same hash, by position modulo WINDOW */
} match_table;

typedef struct xpress_out {
    bytes *b;
    size_t flags_at; /* where the current group's flags stand */
    uint32_t flags;
    unsigned items;   /* in the current group */
    size_t nibble_at; /* the byte whose high half is free; 0: none */
} xpress_out;

static uint32_t hash3(const uint8_t *p)
{
    uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return v * 0x9E3779B1u >> (32 - HASH_BITS);
}

static void open_group(xpress_out *o)
{
    o->flags_at = o->b->len;
    o->flags = 0;
    o->items = 0;
    bytes_u32(o->b, 0xFFFFFFFFu);
}

/* Room for one item and the flags of a next group is there: see xpress_compress. */
static void count_item(xpress_out *o, bool is_match)
{
    o->flags = o->flags << 1 | is_match;
    if (++o->items == GROUP_ITEMS) {
        store_u32(o->b->ptr + o->flags_at, o->flags);
        open_group(o);
    }
}

static void put_literal(xpress_out *o, uint8_t byte)
{
    bytes *b = o->b;
    b->ptr[b->len++] = byte;
    count_item(o, false);
}

static void put_match(xpress_out *o, size_t distance, size_t length)
{
    bytes *b = o->b;
    size_t left = length - MATCH_MIN;
    unsigned low = left < 7 ? (unsigned)left : 7;
    store_u16(b->ptr + b->len, (uint16_t)((distance - 1) << 3 | low));
    b->len += 2;
    if (low == 7) {
        unsigned nibble = left - 7 < 15 ? (unsigned)(left - 7) : 15;
        if (o->nibble_at) {
            b->ptr[o->nibble_at] |= (uint8_t)(nibble << 4);
            o->nibble_at = 0;
        } else {
            o->nibble_at = b->len;
            b->ptr[b->len++] = (uint8_t)nibble;
        }
        if (nibble == 15) {
            size_t rest = left - 7 - 15;
            b->ptr[b->len++] = rest < 255 ? (uint8_t)rest : 255;
            if (rest >= 255) {
                store_u16(b->ptr + b->len, (uint16_t)left);
                b->len += 2;
            }
        }
    }
    count_item(o, true);
}

static size_t common_length(const uint8_t *a, const uint8_t *b, size_t max)
{
    size_t n = 0;
    while (n + 8 <= max) {
        uint64_t diff = load_u64(a + n) ^ load_u64(b + n);
        if (diff)
            return n + (size_t)__builtin_ctzll(diff) / 8;
        n += 8;
    }
    while (n < max && a[n] == b[n])
        n++;
    return n;
}

static void remember(match_table *t, const uint8_t *data, size_t pos)
{
    uint32_t h = hash3(data + pos);
    t->prev[pos % WINDOW] = t->head[h];
    t->head[h] = (uint32_t)pos + 1;
}

/* The longest match for pos among earlier positions; 0 if there is none of MATCH_MIN bytes. */
static size_t find_match(const match_table *t, spgo_span in, size_t pos, size_t *distance)
{
    size_t max = in.len - pos < MATCH_MAX ? in.len - pos : MATCH_MAX;
    size_t best = MATCH_MIN - 1;
    uint32_t at = t->head[hash3(in.ptr + pos)];
    for (int tries = 0; at != 0 && tries < CHAIN_MAX; tries++) {
        size_t candidate = at - 1;
        if (pos - candidate > WINDOW)
            break;
        if (in.ptr[candidate + best] == in.ptr[pos + best]) {
            size_t n = common_length(in.ptr + candidate, in.ptr + pos, max);
            if (n > best) {
                best = n;
                *distance = pos - candidate;
                if (n >= GOOD_LENGTH || n == max)
                    break;
            }
        }
        at = t->prev[candidate % WINDOW];
    }
    return best >= MATCH_MIN ? best : 0;
}

/* Compresses a span whose positions fit into 32 bits. */
static void compress(xpress_out *o, match_table *t, spgo_span in)
{
    size_t pos = 0;
    open_group(o);
    /* An item takes up to 2 + 1 + 1 + 2 bytes, and may open a group. */
    while (pos < in.len && bytes_reserve(o->b, 16)) {
        size_t distance = 0, length = 0;
        if (in.len - pos >= MATCH_MIN) {
            length = find_match(t, in, pos, &distance);
            remember(t, in.ptr, pos);
        }
        if (length == 0) {
            put_literal(o, in.ptr[pos++]);
            continue;
        }
        put_match(o, distance, length);
        size_t end = pos + length;
        size_t known_end = end + MATCH_MIN <= in.len ? end : in.len - MATCH_MIN + 1;
        /* Of a very long match only the part that stays in the window is worth remembering. */
        size_t from = known_end > pos + 1 + WINDOW ? known_end - WINDOW : pos + 1;
        for (size_t i = from; i < known_end; i++)
            remember(t, in.ptr, i);
        pos = end;
    }
    if (o->b->failed)
        return;
    unsigned unused = GROUP_ITEMS - o->items;
    uint32_t ones = unused == GROUP_ITEMS ? 0xFFFFFFFFu : (1u << unused) - 1;
    uint32_t flags = unused == GROUP_ITEMS ? 0 : o->flags << unused;
    store_u32(o->b->ptr + o->flags_at, flags | ones);
}

void xpress_compress(bytes *b, spgo_span in)
{
    match_table *t = in.len < UINT32_MAX ? malloc(sizeof *t) : NULL;
    if (!t) {
        b->failed = true;
        return;
    }
    memset(t->head, 0, sizeof t->head);
    memset(t->prev, 0, sizeof t->prev);
    xpress_out o = {.b = b};
    compress(&o, t, in);
    free(t);
}
