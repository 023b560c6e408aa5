/*
 * The annotations of an inline site: a small program of compressed numbers whose operations move
 * through code and lines. doc/formats/pdb.md, "Inline sites", says which of them make a row and
 * which of them move the offset that the next one counts from: operation 4 does, 12 does not.
 */
#include <format/pdb/pdb_internal.h>

enum {
    OP_CODE_OFFSET = 1,
    OP_CODE_OFFSET_BASE,
    OP_CODE_OFFSET_DELTA,
    OP_CODE_LENGTH,
    OP_FILE,
    OP_LINE_DELTA,
    OP_LINE_END_DELTA,
    OP_RANGE_KIND,
    OP_COLUMN,
    OP_COLUMN_END_DELTA,
    OP_CODE_AND_LINE_DELTA,
    OP_LENGTH_AND_CODE_DELTA,
    OP_COLUMN_END
};

/* 1, 2 or 4 bytes, the first of which tells how many; false: none, or cut. */
static bool take_number(pdb_inline_reader *r, uint32_t *out)
{
    size_t left = (size_t)(r->end - r->at);
    const uint8_t *p = r->at;
    if (left >= 1 && !(p[0] & 0x80)) {
        *out = p[0];
        r->at += 1;
    } else if (left >= 2 && (p[0] & 0xc0) == 0x80) {
        *out = (uint32_t)(p[0] & 0x3f) << 8 | p[1];
        r->at += 2;
    } else if (left >= 4 && (p[0] & 0xe0) == 0xc0) {
        *out = (uint32_t)(p[0] & 0x1f) << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        r->at += 4;
    } else {
        return false;
    }
    return true;
}

/* The sign is the lowest bit. Arithmetic wraps, as nothing here is trusted. */
static uint32_t signed_number(uint32_t v)
{
    return v & 1 ? 0u - (v >> 1) : v >> 1;
}

pdb_inline_reader pdb_inline_rows(const pdb_module *m, uint32_t site)
{
    const pdb_inline_site *s = &m->sites[site];
    const pdb_proc *proc = &m->procs[s->proc];
    pdb_inline_reader r = {.module = m, .site = s, .chunk_start = proc->off};
    r.at = s->annotations.ptr;
    r.end = r.at ? r.at + s->annotations.len : r.at;
    r.state = (pdb_inline_row){.section = proc->section, .file = s->file, .line = s->line};
    return r;
}

/* Offsets count from the start of a separated piece from here on; 0 is the procedure itself. */
static bool enter_chunk(pdb_inline_reader *r, uint32_t number)
{
    const pdb_proc *proc = &r->module->procs[r->site->proc];
    if (number > proc->chunk_count)
        return false;
    r->offset = 0;
    if (number == 0) {
        r->state.section = proc->section;
        r->chunk_start = proc->off;
    } else {
        const pdb_chunk *c = &r->module->chunks[proc->first_chunk + number - 1];
        r->state.section = c->section;
        r->chunk_start = c->off;
    }
    return true;
}

/* Ends the row that waits; what it says no length of reaches up to `next`. */
static bool finish_row(pdb_inline_reader *r, const pdb_inline_row *next, pdb_inline_row *out)
{
    if (!r->has_pending)
        return false;
    if (!r->has_length && next && next->section == r->pending.section && next->off > r->pending.off)
        r->pending.length = next->off - r->pending.off;
    *out = r->pending;
    r->has_pending = false;
    return true;
}

/* A new row at the current offset; true if it pushed out the one that waited. */
static bool start_row(pdb_inline_reader *r, pdb_inline_row *out)
{
    pdb_inline_row row = r->state;
    row.off = r->chunk_start + r->offset;
    bool finished = finish_row(r, &row, out);
    r->pending = row;
    r->has_pending = true;
    r->has_length = false;
    return finished;
}

static void set_length(pdb_inline_reader *r, uint32_t length)
{
    if (!r->has_pending || r->has_length)
        return;
    r->pending.length = length;
    r->has_length = true;
}

/* An operation that makes a row. */
static bool make_row(pdb_inline_reader *r, uint32_t op, uint32_t first, uint32_t second,
                     pdb_inline_row *out)
{
    if (op == OP_CODE_AND_LINE_DELTA) {
        r->offset += first & 0xf;
        r->state.line += signed_number(first >> 4);
    } else {
        r->offset += op == OP_LENGTH_AND_CODE_DELTA ? second : first;
    }
    bool finished = start_row(r, out);
    if (op == OP_LENGTH_AND_CODE_DELTA)
        set_length(r, first);
    return finished;
}

/* An operation that makes none; false: an unknown one. */
static bool change_state(pdb_inline_reader *r, uint32_t op, uint32_t v)
{
    switch (op) {
    case OP_CODE_OFFSET:
        r->offset = v;
        break;
    case OP_CODE_OFFSET_BASE:
        return enter_chunk(r, v);
    case OP_CODE_LENGTH:
        set_length(r, v);
        r->offset += v;
        break;
    case OP_FILE:
        /* Some compilers write wrong offsets: then the file is not known, but the line is. */
        r->state.file = pdb_file_index(r->module, v);
        break;
    case OP_LINE_DELTA:
        r->state.line += signed_number(v);
        break;
    case OP_LINE_END_DELTA:
        break;
    case OP_RANGE_KIND:
        r->state.is_expression = v == 0;
        break;
    case OP_COLUMN:
        r->state.column = (uint16_t)v;
        break;
    case OP_COLUMN_END_DELTA:
        r->state.column_end = (uint16_t)(r->state.column_end + signed_number(v));
        break;
    case OP_COLUMN_END:
        r->state.column_end = (uint16_t)v;
        break;
    default:
        return false;
    }
    return true;
}

bool pdb_inline_next(pdb_inline_reader *r, pdb_inline_row *out)
{
    while (r->at < r->end && *r->at != 0) {
        uint32_t op, first, second = 0;
        if (!take_number(r, &op) || !take_number(r, &first) ||
            (op == OP_LENGTH_AND_CODE_DELTA && !take_number(r, &second))) {
            r->damaged = true;
            break;
        }
        if (op == OP_CODE_OFFSET_DELTA || op == OP_CODE_AND_LINE_DELTA ||
            op == OP_LENGTH_AND_CODE_DELTA) {
            if (make_row(r, op, first, second, out))
                return true;
        } else if (!change_state(r, op, first)) {
            r->damaged = true;
            break;
        }
    }
    r->at = r->end; /* 0, or what cannot be read, ends it */
    return finish_row(r, NULL, out);
}
