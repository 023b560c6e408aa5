/* Cutting the data stream into chunks: see spt_chunks.h. */
#include "spt_chunks.h"

enum {
    GUESS_RECORDS = 48,     /* so many well-formed records in a row make a place a boundary */
    GUESS_TRIES = 4096,     /* places tried; longer than the longest record */
    SEGMENT_HEAD_BYTES = 8, /* opcode, padding, program, length */
    REPEAT_BYTES = 10       /* opcode, padding, count */
};

/* The size of the record at `at`, or 0 if none can start there. */
static uint64_t record_size(const spgo_spt_cursor *c, uint64_t at)
{
    const uint8_t *p = c->base + at;
    if (c->segment_end - at < 2)
        return 0;
    uint64_t size = 0;
    switch (spgo_spt_opcode_kind(p[0])) {
    case SPGO_SPT_KIND_ARC:
        size = 2 + 8 * (uint64_t)p[1];
        break;
    case SPGO_SPT_KIND_IP:
    case SPGO_SPT_KIND_CALLSTACK:
        size = 2 + 4 * (uint64_t)p[1];
        break;
    case SPGO_SPT_KIND_NONE:
        size = p[0] == SPGO_SPT_REPEAT ? REPEAT_BYTES : 0;
        break;
    }
    return size <= c->segment_end - at ? size : 0;
}

/* Follows GUESS_RECORDS records from `at`; the offset behind the last that is no REPEAT, or 0 if
 * they are not well-formed. After that many records even a wrong start has joined the true ones. */
static uint64_t follow_records(const spgo_spt_cursor *c, uint64_t at)
{
    uint64_t boundary = 0;
    for (int i = 0; i < GUESS_RECORDS; i++) {
        uint64_t size = record_size(c, at);
        if (!size)
            return 0;
        bool is_repeat = c->base[at] == SPGO_SPT_REPEAT;
        at += size;
        if (!is_repeat)
            boundary = at;
    }
    return boundary;
}

/* A probable record boundary behind `target` in the segment that c is in, or the segment's end. */
static uint64_t guess_boundary(const spgo_spt_cursor *c, uint64_t target)
{
    for (uint64_t at = target; at < target + GUESS_TRIES && at < c->segment_end; at++) {
        uint64_t boundary = follow_records(c, at);
        if (boundary)
            return boundary;
    }
    return c->segment_end;
}

/* Puts c into the segment whose BINARY_ID stands at c->pos; false if none does. */
static bool enter_segment(spgo_spt_cursor *c)
{
    if (c->size - c->pos < SEGMENT_HEAD_BYTES || c->base[c->pos] != SPGO_SPT_BINARY_ID)
        return false;
    const uint8_t *p = c->base + c->pos;
    uint64_t end = c->pos + 4 + spgo_spt_load(p + 4);
    if (end <= c->pos + SEGMENT_HEAD_BYTES || end > c->size) /* empty ones make no good seam */
        return false;
    uint16_t program = (uint16_t)(p[2] | (unsigned)p[3] << 8);
    if (program >= c->program_count)
        return false;
    c->program = program;
    c->segment_off = c->pos;
    c->segment_end = end;
    c->in_segment = true;
    return true;
}

spt_splitter spt_splitter_new(const spgo_spt *spt, uint64_t chunk_bytes)
{
    spgo_spt_cursor first = spgo_spt_records(spt);
    return (spt_splitter){.next = first, .c = first, .chunk_bytes = chunk_bytes};
}

size_t spt_splitter_max(const spt_splitter *s)
{
    uint64_t left = s->next.size - s->next.pos;
    return s->chunk_bytes ? (size_t)(left / s->chunk_bytes) + 1 : 1;
}

/* Moves s->next to a place behind `target` where another chunk may start; false if there is none.
 */
static bool find_seam(spt_splitter *s, uint64_t target)
{
    spgo_spt_cursor *c = &s->c;
    while (!c->in_segment || target >= c->segment_end) {
        if (c->in_segment)
            c->pos = c->segment_end;
        if (!enter_segment(c))
            return false;
    }
    uint64_t boundary = guess_boundary(c, target);
    if (boundary == c->size)
        return false;
    s->next = *c;
    s->next.pos = boundary;
    s->next.in_segment = boundary < c->segment_end;
    return true;
}

bool spt_splitter_next(spt_splitter *s, spt_chunk *chunk)
{
    if (s->at_end)
        return false;
    *chunk = (spt_chunk){.start = s->next, .stop = s->next.size};
    s->at_end = !s->chunk_bytes || !find_seam(s, s->next.pos + s->chunk_bytes);
    if (!s->at_end)
        chunk->stop = s->next.pos;
    return true;
}

bool spt_chunks_fit(const spt_chunk *chunks, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const spgo_spt_cursor *end = &chunks[i - 1].end;
        const spgo_spt_cursor *start = &chunks[i].start;
        if (end->pos != start->pos || end->has_repeat)
            return false;
        bool same_segment = end->program == start->program && end->in_segment &&
                            end->segment_off == start->segment_off &&
                            end->segment_end == start->segment_end && !end->endless;
        if (!same_segment)
            return false;
    }
    return true;
}
