/* A byte a byte of code, in tables whose pages come into being as they are written. */
#include <profile/instruction_map.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

typedef struct segment_kinds {
    uint32_t begin_rva;
    size_t size;
    uint8_t *kinds; /* code_kind of the instruction that starts there; CODE_INVALID: none does */
} segment_kinds;

struct instruction_map {
    symbols *s;
    code_decoder *d;
    const symbol_procedure *procedures;
    size_t procedure_count;
    bool *is_decoded; /* by procedure */
    segment_kinds *segments;
    size_t segment_count;
    /* The last answer of instruction_map_leaves: nothing leaves in [clear_from, clear_to). */
    uint64_t clear_from, clear_to;
};

void instruction_map_free(instruction_map *m)
{
    if (!m)
        return;
    for (size_t i = 0; m->segments && i < m->segment_count; i++)
        free(m->segments[i].kinds);
    free(m->segments);
    free(m->is_decoded);
    free(m);
}

static bool add_segments(instruction_map *m)
{
    const code_image *image = symbols_code(m->s);
    m->segments = calloc(image->segment_count + 1, sizeof *m->segments);
    for (size_t i = 0; m->segments && i < image->segment_count; i++) {
        const code_segment *from = &image->segments[i];
        if (!from->is_executable || from->bytes.len == 0)
            continue;
        segment_kinds *to = &m->segments[m->segment_count++];
        *to = (segment_kinds){.begin_rva = from->rva, .size = from->bytes.len};
        to->kinds = calloc(to->size, 1);
        if (!to->kinds)
            return false;
    }
    return m->segments;
}

spgo_code instruction_map_new(symbols *s, code_decoder *d, instruction_map **out, spgo_error *err)
{
    instruction_map *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return spgo_fail_nomem(err, "instruction map", sizeof *m);
    m->s = s;
    m->d = d;
    spgo_code code = symbols_procedures(s, &m->procedures, &m->procedure_count, err);
    if (code == SPGO_OK) {
        m->is_decoded = calloc(m->procedure_count + 1, sizeof *m->is_decoded);
        if (!m->is_decoded || !add_segments(m))
            code = spgo_fail_nomem(err, "instruction map", m->procedure_count);
    }
    if (code == SPGO_OK)
        *out = m;
    else
        instruction_map_free(m);
    return code;
}

static uint8_t *kind_at(instruction_map *m, uint32_t rva)
{
    for (size_t i = 0; i < m->segment_count; i++) {
        const segment_kinds *segment = &m->segments[i];
        if (rva >= segment->begin_rva && rva - segment->begin_rva < segment->size)
            return &segment->kinds[rva - segment->begin_rva];
    }
    return NULL;
}

static void decode_piece(instruction_map *m, flow_extent piece)
{
    uint64_t rva = piece.begin_rva;
    while (rva < piece.end_rva) {
        code_instruction in = code_decode(m->d, (uint32_t)rva);
        uint8_t *kind = kind_at(m, (uint32_t)rva);
        if (kind)
            *kind = in.kind;
        rva += in.size_bytes ? in.size_bytes : 1u;
    }
}

const symbol_procedure *instruction_map_procedure(instruction_map *m, uint32_t rva)
{
    const symbol_procedure *p = symbols_procedure_at(m->s, rva);
    if (!p || p < m->procedures || p >= m->procedures + m->procedure_count)
        return NULL;
    size_t index = (size_t)(p - m->procedures);
    if (!m->is_decoded[index]) {
        m->is_decoded[index] = true;
        for (uint32_t i = 0; i < p->piece_count; i++)
            decode_piece(m, p->pieces[i]);
    }
    return p;
}

uint8_t instruction_map_kind(instruction_map *m, uint32_t rva)
{
    if (!instruction_map_procedure(m, rva))
        return CODE_INVALID;
    const uint8_t *kind = kind_at(m, rva);
    return kind ? *kind : (uint8_t)CODE_INVALID;
}

/* Where the piece of p that holds the RVA ends. */
static uint64_t piece_end(const symbol_procedure *p, uint32_t rva)
{
    for (uint32_t i = 0; i < p->piece_count; i++) {
        if (rva >= p->pieces[i].begin_rva && rva < p->pieces[i].end_rva)
            return p->pieces[i].end_rva;
    }
    return rva + UINT64_C(1);
}

/* The first instruction that leaves in [rva, end), or end. */
static uint64_t find_leaving(instruction_map *m, uint64_t rva, uint64_t end)
{
    while (rva < end) {
        const symbol_procedure *p = instruction_map_procedure(m, (uint32_t)rva);
        uint64_t stop = p ? piece_end(p, (uint32_t)rva) : rva + 1;
        stop = stop < end ? stop : end;
        for (; p && rva < stop; rva++) {
            const uint8_t *kind = kind_at(m, (uint32_t)rva);
            if (kind && code_always_leaves(*kind))
                return rva;
        }
        rva = stop;
    }
    return end;
}

bool instruction_map_leaves(instruction_map *m, uint32_t begin_rva, uint32_t end_rva)
{
    uint64_t from = begin_rva, end = end_rva;
    bool continues = from >= m->clear_from && from <= m->clear_to;
    if (!continues)
        m->clear_from = m->clear_to = from;
    if (end > m->clear_to)
        m->clear_to = find_leaving(m, m->clear_to, end);
    return m->clear_to < end;
}
