/*
 * Following the code of a function from its entry: each instruction that can be reached is decoded
 * once. Jump tables may lie between them, so that what nothing reaches is no code unless there is
 * an indirect jump whose targets are not known.
 */
#include <code/flow_internal.h>

#include <base/fail.h>
#include <code/code_internal.h>

#include <stdlib.h>
#include <string.h>

static const char where[] = "code.flow";

/* Bytes of all extents together; longer ones cannot be of one function. */
enum { EXTENTS_MAX = FLOW_INSTRUCTIONS_MAX * 16 };

const flow_piece *flow_piece_at(flow_builder *b, uint32_t rva)
{
    size_t low = 0, high = b->piece_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->pieces[mid].begin_rva <= rva)
            low = mid + 1;
        else
            high = mid;
    }
    const flow_piece *p = low > 0 ? &b->pieces[low - 1] : NULL;
    if (!p || rva - p->begin_rva >= p->size_bytes)
        return NULL;
    b->last_piece = p;
    return p;
}

bool flow_grow(flow_builder *b, void **array, size_t count, size_t *room, size_t elem_size)
{
    if (count < *room)
        return true;
    size_t wanted = *room ? *room * 2 : 64;
    void *grown = realloc(*array, wanted * elem_size);
    if (!grown) {
        b->code = spgo_fail_nomem(b->err, where, wanted * elem_size);
        return false;
    }
    *array = grown;
    *room = wanted;
    return true;
}

bool flow_add_lead(flow_builder *b, uint32_t rva, uint32_t from, uint32_t from_run)
{
    uint8_t *byte = flow_byte(b, rva);
    if (!byte)
        return false;
    *byte |= FLOW_BYTE_LEADER;
    if (*byte & FLOW_BYTE_START)
        return true;
    void *leads = b->leads;
    if (flow_grow(b, &leads, b->lead_count, &b->lead_room, sizeof(*b->leads))) {
        b->leads = leads;
        b->leads[b->lead_count++] = (flow_lead){rva, from, from_run};
    }
    return true;
}

/* ------------------------------------------------------------------ one run */

static bool has_rva(const uint32_t *sorted, size_t count, uint32_t rva)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (sorted[mid] < rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && sorted[low] == rva;
}

/* Does the call never return? Compilers put nothing behind such a call, or what stops it. */
static bool is_last_call(flow_builder *b, const code_instruction *in)
{
    if (in->has_target && has_rva(b->hints->no_return, b->hints->no_return_count, in->target_rva))
        return true;
    uint32_t next = in->rva + in->size_bytes;
    if (!flow_byte(b, next))
        return true;
    spgo_span bytes = code_executable_at(b->d, next);
    return b->d->x86 && bytes.len > 0 && bytes.ptr[0] == 0xcc; /* int3 */
}

/* Its bytes are in one piece and in no other instruction. */
static bool fits(const flow_builder *b, const code_instruction *in, const uint8_t *marks)
{
    const flow_piece *p = b->last_piece; /* the marks are of */
    if (p->size_bytes - (in->rva - p->begin_rva) < in->size_bytes)
        return false;
    for (uint32_t i = 1; i < in->size_bytes; i++) {
        if (marks[i] & (FLOW_BYTE_START | FLOW_BYTE_INSIDE))
            return false;
    }
    return true;
}

static bool add_instruction(flow_builder *b, const code_instruction *in, uint8_t *marks)
{
    if (b->instruction_count >= FLOW_INSTRUCTIONS_MAX) {
        b->code = spgo_fail(b->err, SPGO_LIMIT, where, in->rva,
                            "the function at 0x%x has more than %d instructions; its extents are "
                            "probably wrong",
                            b->entry_rva, FLOW_INSTRUCTIONS_MAX);
        return false;
    }
    void *instructions = b->instructions;
    if (!flow_grow(b, &instructions, b->instruction_count, &b->instruction_room, sizeof(*in)))
        return false;
    b->instructions = instructions;
    b->instructions[b->instruction_count++] = *in;
    marks[0] |= FLOW_BYTE_START;
    for (uint32_t i = 1; i < in->size_bytes; i++)
        marks[i] |= FLOW_BYTE_INSIDE;
    return true;
}

/* Notes where a jump or branch goes, unless that is another function. */
static void follow_target(flow_builder *b, const code_instruction *in, uint32_t run)
{
    uint32_t self = b->runs[run].first + b->runs[run].count - 1;
    if (in->has_target && flow_add_lead(b, in->target_rva, self, run))
        *flow_byte(b, in->target_rva) |= FLOW_BYTE_TARGET;
}

/* Whether the run goes on behind the instruction, which is its last one so far. */
static bool goes_on(flow_builder *b, const code_instruction *in, uint8_t *marks, uint32_t run)
{
    switch ((code_kind)in->kind) {
    case CODE_PLAIN:
    case CODE_PADDING:
        return true;
    case CODE_BRANCH: {
        follow_target(b, in, run);
        uint8_t *next = flow_byte(b, in->rva + in->size_bytes);
        if (next)
            *next |= FLOW_BYTE_LEADER | FLOW_BYTE_TARGET;
        return true;
    }
    case CODE_CALL:
    case CODE_CALL_INDIRECT:
        if (!is_last_call(b, in))
            return true;
        *marks |= FLOW_BYTE_NO_RETURN;
        return false;
    case CODE_JUMP:
        follow_target(b, in, run);
        return false;
    case CODE_JUMP_INDIRECT:
        flow_find_targets(b, run);
        return false;
    case CODE_RETURN:
    case CODE_TRAP:
    case CODE_INVALID:
        break;
    }
    return false;
}

static bool start_run(flow_builder *b, const flow_lead *lead)
{
    void *runs = b->runs;
    if (!flow_grow(b, &runs, b->run_count, &b->run_room, sizeof(*b->runs)))
        return false;
    b->runs = runs;
    b->runs[b->run_count++] = (flow_run){.begin_rva = lead->rva,
                                         .first = (uint32_t)b->instruction_count,
                                         .from = lead->from,
                                         .from_run = lead->from_run};
    return true;
}

/* The code cannot be followed any further, or not from the start of the run. */
static void stop_run(flow_builder *b, uint8_t *last_marks)
{
    b->is_simple = false;
    if (last_marks)
        *last_marks |= FLOW_BYTE_UNKNOWN;
}

static void follow(flow_builder *b, const flow_lead *lead)
{
    uint8_t *marks = flow_byte(b, lead->rva), *last_marks = NULL;
    if (*marks & FLOW_BYTE_START || !start_run(b, lead))
        return;
    uint32_t run = (uint32_t)b->run_count - 1, rva = lead->rva;
    while (marks && !(*marks & FLOW_BYTE_START)) {
        code_instruction in = code_decode(b->d, rva);
        if (*marks & FLOW_BYTE_INSIDE || in.kind == CODE_INVALID || !fits(b, &in, marks)) {
            stop_run(b, last_marks);
            break;
        }
        if (!add_instruction(b, &in, marks))
            return;
        b->runs[run].count++;
        if (!goes_on(b, &in, marks, run) || b->code != SPGO_OK)
            break;
        last_marks = marks;
        rva += in.size_bytes;
        marks = flow_byte(b, rva);
    }
    if (b->runs[run].count == 0)
        b->run_count--;
}

/* ------------------------------------------------------------------ all of them */

void flow_follow_leads(flow_builder *b)
{
    while (b->code == SPGO_OK && b->lead_count > 0) {
        flow_lead lead = b->leads[--b->lead_count];
        follow(b, &lead);
    }
}

static void follow_everything_known(flow_builder *b)
{
    flow_follow_leads(b);
    while (b->code == SPGO_OK && b->open_table_count > 0) {
        flow_open_table open = b->open_tables[--b->open_table_count];
        flow_close_table(b, &open);
    }
}

/* Leaders that only the caller knows come last: flow is better evidence of where code begins. */
static void follow_named(flow_builder *b)
{
    for (size_t i = 0; i < b->hints->leader_count && b->code == SPGO_OK; i++) {
        uint32_t rva = b->hints->leaders[i];
        uint8_t *marks = flow_byte(b, rva);
        if (!marks)
            continue;
        if (*marks & FLOW_BYTE_INSIDE) {
            b->is_simple = false;
            continue;
        }
        *marks |= FLOW_BYTE_NAMED;
        (void)flow_add_lead(b, rva, FLOW_NONE, FLOW_NONE);
        follow_everything_known(b);
    }
}

static bool is_filler(const code_instruction *in)
{
    return in->kind == CODE_PADDING || in->kind == CODE_TRAP || in->kind == CODE_INVALID;
}

/* With an indirect jump that may go anywhere, what nothing reaches may be code all the same. */
static void follow_gaps(flow_builder *b)
{
    for (size_t i = 0; i < b->piece_count; i++) {
        const flow_piece *p = &b->pieces[i];
        uint32_t off = 0;
        while (off < p->size_bytes && b->code == SPGO_OK) {
            uint8_t *marks = b->map + p->map_off + off;
            if (*marks & (FLOW_BYTE_START | FLOW_BYTE_INSIDE)) {
                off++;
                continue;
            }
            code_instruction in = code_decode(b->d, p->begin_rva + off);
            off += in.size_bytes;
            if (is_filler(&in))
                continue;
            *marks |= FLOW_BYTE_NAMED;
            (void)flow_add_lead(b, in.rva, FLOW_NONE, FLOW_NONE);
            follow_everything_known(b);
        }
    }
}

/* Pieces from extents: what the image has of them, with neighbours joined. */
static spgo_code set_pieces(flow_builder *b, const flow_extent *extents, size_t count)
{
    const code_image *image = b->image;
    uint64_t size = 0;
    uint32_t last_end_rva = 0;
    b->pieces = calloc(count + 1, sizeof(*b->pieces));
    if (!b->pieces)
        return spgo_fail_nomem(b->err, where, (count + 1) * sizeof(*b->pieces));
    b->last_piece = b->pieces;
    for (size_t i = 0; i < count; i++) {
        const flow_extent *e = &extents[i];
        flow_piece *last = b->piece_count > 0 ? &b->pieces[b->piece_count - 1] : NULL;
        size_t there =
            code_is_executable(image, e->begin_rva) ? code_bytes_at(image, e->begin_rva).len : 0;
        if (e->end_rva <= e->begin_rva || e->begin_rva < last_end_rva)
            return spgo_fail(b->err, SPGO_USAGE, where, e->begin_rva,
                             "extent 0x%x to 0x%x of the function at 0x%x is empty or not in order",
                             e->begin_rva, e->end_rva, b->entry_rva);
        last_end_rva = e->end_rva;
        uint32_t wanted = e->end_rva - e->begin_rva;
        uint32_t taken = there < wanted ? (uint32_t)there : wanted;
        if (taken == 0)
            continue;
        if (last && last->begin_rva + last->size_bytes == e->begin_rva)
            last->size_bytes += taken;
        else
            b->pieces[b->piece_count++] = (flow_piece){e->begin_rva, taken, (size_t)size};
        size += taken;
        if (size > EXTENTS_MAX)
            return spgo_fail(b->err, SPGO_LIMIT, where, e->begin_rva,
                             "the function at 0x%x has extents of more than %d bytes, which are "
                             "probably wrong",
                             b->entry_rva, EXTENTS_MAX);
    }
    b->map_size = (size_t)size;
    b->map = calloc(b->map_size + 1, 1);
    return b->map ? SPGO_OK : spgo_fail_nomem(b->err, where, b->map_size + 1);
}

static spgo_code build(flow_builder *b, const flow_extent *extents, size_t extent_count, arena *mem,
                       flow_graph *out)
{
    SPGO_TRY(set_pieces(b, extents, extent_count));
    if (!flow_add_lead(b, b->entry_rva, FLOW_NONE, FLOW_NONE))
        return spgo_fail(b->err, SPGO_NOT_FOUND, where, b->entry_rva,
                         "the entry 0x%x of a function is not in its extents, or the image has no "
                         "executable bytes there",
                         b->entry_rva);
    b->work_left = 4096 + 16 * (uint64_t)b->map_size;
    follow_everything_known(b);
    follow_named(b);
    if (b->has_unknown_jump)
        follow_gaps(b);
    if (b->code != SPGO_OK)
        return b->code;
    if (!(*flow_byte(b, b->entry_rva) & FLOW_BYTE_START))
        return spgo_fail(b->err, SPGO_CORRUPT, where, b->entry_rva,
                         "the bytes at the entry 0x%x of a function make no instruction",
                         b->entry_rva);
    return flow_make_blocks(b, mem, out);
}

spgo_code flow_graph_build(code_decoder *d, uint32_t entry_rva, const flow_extent *extents,
                           size_t extent_count, const flow_hints *hints, arena *mem,
                           flow_graph *out, spgo_error *err)
{
    static const flow_hints none;
    flow_builder b = {.d = d,
                      .image = d->image,
                      .hints = hints ? hints : &none,
                      .err = err,
                      .entry_rva = entry_rva,
                      .is_simple = true};
    memset(out, 0, sizeof(*out));
    spgo_code code = build(&b, extents, extent_count, mem, out);
    free(b.pieces);
    free(b.map);
    free(b.instructions);
    free(b.runs);
    free(b.leads);
    free(b.jumps);
    free(b.open_tables);
    free(b.table_rvas);
    free(b.steps);
    return code;
}

uint32_t flow_block_at(const flow_graph *g, uint32_t rva)
{
    size_t low = 0, high = g->block_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (g->blocks[mid].begin_rva <= rva)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || rva >= g->blocks[low - 1].end_rva)
        return FLOW_NONE;
    return (uint32_t)low - 1;
}
