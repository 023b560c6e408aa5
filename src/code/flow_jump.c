/*
 * Where indirect jumps go: by what the caller knows, or by evaluating a path that leads to the
 * jump. The path is the one by which the code was found, so that it is one that can be run.
 */
#include <code/flow_internal.h>

#include <base/fail.h>
#include <base/reader.h>

#include <stdlib.h>

enum {
    OPEN_TABLE_MAX = 1 << 16,   /* entries of a table without a known end */
    CHECKED_TABLE_MAX = 1 << 20 /* a larger limit was for something else */
};

/* ------------------------------------------------------------------ tables */

static uint64_t read_entry(const flow_table *t, const uint8_t *p)
{
    switch (t->entry_size) {
    case 1:
        return t->is_signed ? (uint64_t)(int64_t)(int8_t)*p : *p;
    case 2:
        return t->is_signed ? (uint64_t)(int64_t)(int16_t)load_u16(p) : load_u16(p);
    case 4:
        return t->is_signed ? (uint64_t)(int64_t)(int32_t)load_u32(p) : load_u32(p);
    default:
        return load_u64(p);
    }
}

static bool is_entry_size(unsigned size_bytes)
{
    return size_bytes == 1 || size_bytes == 2 || size_bytes == 4 || size_bytes == 8;
}

/* How many entries the image has bytes for. */
static uint32_t entries_there(const flow_builder *b, const flow_table *t)
{
    if (!is_entry_size(t->entry_size))
        return 0;
    size_t count = code_bytes_at(b->image, t->table_rva).len / t->entry_size;
    return count < t->entry_count ? (uint32_t)count : t->entry_count;
}

static uint32_t target_of(const flow_builder *b, const flow_table *t, uint32_t index)
{
    spgo_span bytes = code_bytes_at(b->image, t->table_rva);
    uint64_t entry = read_entry(t, bytes.ptr + (size_t)index * t->entry_size);
    return (uint32_t)(t->base_rva + (entry << (t->shift & 63)));
}

static void add_jump(flow_builder *b, uint32_t from, uint32_t run, uint32_t to_rva, uint8_t kind)
{
    void *jumps = b->jumps;
    if (!flow_grow(b, &jumps, b->jump_count, &b->jump_room, sizeof(*b->jumps)))
        return;
    b->jumps = jumps;
    b->jumps[b->jump_count++] = (flow_jump){b->instructions[from].rva, to_rva, kind};
    (void)flow_add_lead(b, to_rva, from, run);
    *flow_byte(b, to_rva) |= FLOW_BYTE_TARGET;
}

/* If a table begins there, the one that is being closed ends there at the latest. */
static void end_closing_at(flow_builder *b, uint32_t rva)
{
    if (rva > b->closing_begin_rva && rva < b->closing_end_rva)
        b->closing_end_rva = rva;
}

static void add_table_rva(flow_builder *b, uint32_t rva)
{
    end_closing_at(b, rva);
    void *rvas = b->table_rvas;
    if (!flow_grow(b, &rvas, b->table_rva_count, &b->table_rva_room, sizeof(*b->table_rvas)))
        return;
    b->table_rvas = rvas;
    b->table_rvas[b->table_rva_count++] = rva;
}

/* Tables may lie between the code. */
static void mark_as_data(flow_builder *b, uint32_t rva, uint32_t size_bytes)
{
    for (uint32_t i = 0; i < size_bytes; i++) {
        uint8_t *byte = flow_byte(b, rva + i);
        if (!byte)
            return;
        if (!(*byte & FLOW_BYTE_START))
            *byte |= FLOW_BYTE_INSIDE;
    }
}

/* Compilers fill in the end of the function for what cannot happen. */
static bool is_end_of_piece(flow_builder *b, uint32_t rva)
{
    return !flow_byte(b, rva) && flow_byte(b, rva - 1);
}

/* All entries of a table whose size is known; false: not all of them make sense. */
static bool take_table(flow_builder *b, const flow_table *t, uint32_t from, uint32_t run)
{
    uint32_t count = entries_there(b, t);
    if (count < t->entry_count || count > b->work_left)
        return false;
    b->work_left -= count;
    bool leads_somewhere = false;
    add_table_rva(b, t->table_rva);
    mark_as_data(b, t->table_rva, count * t->entry_size);
    for (uint32_t i = 0; i < count && b->code == SPGO_OK; i++) {
        uint32_t to_rva = target_of(b, t, i);
        if (is_end_of_piece(b, to_rva))
            continue;
        leads_somewhere = true;
        if (flow_byte(b, to_rva))
            add_jump(b, from, run, to_rva, FLOW_TABLE);
        else if (code_is_executable(b->image, to_rva))
            *flow_byte(b, b->instructions[from].rva) |= FLOW_BYTE_EXIT;
        else
            return false;
    }
    return leads_somewhere;
}

/* ------------------------------------------------------------------ observed targets */

static int compare_jumps(const void *x, const void *y)
{
    const flow_jump *a = x, *b = y;
    return a->to_rva < b->to_rva ? -1 : a->to_rva > b->to_rva;
}

/* Sorts the jumps from the first one on, which are of one instruction, and drops repeated ones. */
static void sort_jumps(flow_builder *b, size_t first)
{
    size_t count = b->jump_count - first, kept = 0;
    if (count == 0)
        return;
    flow_jump *jumps = b->jumps + first;
    qsort(jumps, count, sizeof(*jumps), compare_jumps);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || jumps[i].to_rva != jumps[kept - 1].to_rva)
            jumps[kept++] = jumps[i];
    }
    b->jump_count = first + kept;
}

/* The first observed branch from an RVA or behind it. */
static size_t first_observed(const flow_hints *h, uint32_t from_rva)
{
    size_t low = 0, high = h->branch_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (h->branches[mid].from_rva < from_rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

typedef struct observed {
    bool inside, outside; /* goes into the function, out of it */
    bool is_new;          /* to where no table leads */
} observed;

/* Adds the observed targets to the jumps from first_jump on, which are sorted. */
static observed take_observed(flow_builder *b, uint32_t from, uint32_t run, size_t first_jump)
{
    observed seen = {false, false, false};
    uint32_t from_rva = b->instructions[from].rva;
    size_t known = b->jump_count - first_jump;
    const flow_hints *h = b->hints;
    for (size_t i = first_observed(h, from_rva); i < h->branch_count; i++) {
        flow_jump wanted = {from_rva, h->branches[i].to_rva, FLOW_OBSERVED};
        if (h->branches[i].from_rva != from_rva || b->code != SPGO_OK)
            break;
        if (!flow_byte(b, wanted.to_rva)) {
            seen.outside = true;
            continue;
        }
        seen.inside = true;
        if (known > 0 &&
            bsearch(&wanted, b->jumps + first_jump, known, sizeof(*b->jumps), compare_jumps))
            continue;
        seen.is_new = true;
        add_jump(b, from, run, wanted.to_rva, FLOW_OBSERVED);
    }
    return seen;
}

static void mark_unknown(flow_builder *b, uint32_t from)
{
    *flow_byte(b, b->instructions[from].rva) |= FLOW_BYTE_UNKNOWN;
    b->has_unknown_jump = true;
    b->is_simple = false;
}

/* What was observed completes what was found out, or contradicts it. */
static void finish_jump(flow_builder *b, uint32_t from, uint32_t run, size_t first_jump,
                        bool is_known)
{
    sort_jumps(b, first_jump);
    observed seen = take_observed(b, from, run, first_jump);
    sort_jumps(b, first_jump);
    uint8_t *marks = flow_byte(b, b->instructions[from].rva);
    if (seen.outside)
        *marks |= FLOW_BYTE_EXIT;
    /* A jump of which nothing is known but that it was seen to leave is a tail call. */
    bool is_tail_call = b->jump_count == first_jump && seen.outside;
    if (seen.is_new || !(is_known || is_tail_call))
        mark_unknown(b, from);
}

/* ------------------------------------------------------------------ evaluation */

/* The last instructions of the way to the end of a run, oldest first; returns where they begin in
 * b->steps, whose end is that of the path. */
static size_t make_path(flow_builder *b, uint32_t run, size_t max, bool *is_whole)
{
    const flow_run *r = &b->runs[run];
    uint32_t at = r->first + r->count - 1;
    size_t begin = FLOW_PATH_MAX;
    bool is_taken = false;
    *is_whole = false;
    while (FLOW_PATH_MAX - begin < max) {
        b->steps[--begin] = (eval_step){b->instructions[at], is_taken};
        is_taken = at == r->first;
        if (at > r->first) {
            at--;
        } else if (r->from == FLOW_NONE) {
            *is_whole = b->instructions[at].rva == b->entry_rva;
            break;
        } else {
            at = r->from;
            r = &b->runs[r->from_run];
        }
    }
    return begin;
}

typedef enum meaning { NOT_CLEAR, TAIL_CALL, CHECKED_TABLE, OPEN_TABLE } meaning;

static uint32_t rva_of(const flow_builder *b, uint64_t addr)
{
    return (uint32_t)(addr - b->image->base_addr);
}

/* An address of the image, as the code's own addresses wrap. */
static bool is_in_image(const flow_builder *b, uint64_t addr)
{
    const code_image *image = b->image;
    uint64_t rva =
        image->machine == CODE_X86 ? (uint32_t)(addr - image->base_addr) : addr - image->base_addr;
    return rva <= UINT32_MAX && code_bytes_at(image, (uint32_t)rva).len > 0;
}

/*
 * The base of MSVC's tables on x64 is the image's, which was often put into a register long before.
 * So a base that is not known, but the same for the table and for what it gives, is taken for it.
 */
static bool resolve(const flow_builder *b, eval_id base_id, eval_id unknown_base, uint64_t *addr)
{
    if (base_id == EVAL_NO_ID)
        return is_in_image(b, *addr);
    if (base_id != unknown_base)
        return false;
    *addr += b->image->base_addr;
    return is_in_image(b, *addr);
}

/* The number of entries that a byte table leads to; 0: not known. */
static uint32_t count_by_inner(flow_builder *b, const eval_state *s, const eval_value *v,
                               eval_id unknown_base)
{
    eval_address inner = v->inner;
    if (v->inner_size == 0)
        return 0;
    if (inner.base_id != unknown_base && inner.index_id == unknown_base) {
        inner.index_id = inner.base_id; /* [index + base] */
        inner.base_id = unknown_base;
    }
    uint64_t addr = inner.addend;
    const eval_limit *limit = eval_limit_of(s, inner.index_id);
    if (!resolve(b, inner.base_id, unknown_base, &addr) || !limit || limit->max >= OPEN_TABLE_MAX)
        return 0;
    flow_table t = {.table_rva = rva_of(b, addr),
                    .entry_count = (uint32_t)limit->max + 1,
                    .entry_size = v->inner_size};
    uint32_t count = entries_there(b, &t);
    if (count < t.entry_count || count > b->work_left || !limit->is_checked)
        return 0;
    b->work_left -= count;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = target_of(b, &t, i);
        largest = index > largest ? index : largest;
    }
    mark_as_data(b, t.table_rva, count * t.entry_size);
    return largest < OPEN_TABLE_MAX ? largest + 1 : 0;
}

static unsigned pointer_size(const flow_builder *b)
{
    return b->image->machine == CODE_X86 ? 4 : 8;
}

static meaning meaning_of_table(flow_builder *b, const eval_state *s, const eval_value *v,
                                flow_table *out)
{
    bool is_absolute = v->kind == EVAL_ENTRY;
    eval_id unknown_base = is_absolute ? EVAL_NO_ID : v->base_id;
    uint64_t addr = v->address.addend;
    if (is_absolute && v->entry_size != pointer_size(b))
        return NOT_CLEAR;
    if (unknown_base != EVAL_NO_ID && (v->addend != 0 || b->image->machine != CODE_X64))
        return NOT_CLEAR;
    if (!resolve(b, v->address.base_id, unknown_base, &addr))
        return NOT_CLEAR;
    *out = (flow_table){.branch_rva = 0,
                        .base_rva =
                            unknown_base != EVAL_NO_ID ? 0 : rva_of(b, is_absolute ? 0 : v->addend),
                        .table_rva = rva_of(b, addr),
                        .entry_size = v->entry_size,
                        .is_signed = v->is_signed,
                        .shift = v->shift};
    const eval_limit *limit = eval_limit_of(s, v->address.index_id);
    if (limit && limit->is_checked && limit->max < CHECKED_TABLE_MAX) {
        out->entry_count = (uint32_t)limit->max + 1;
        return CHECKED_TABLE;
    }
    out->entry_count = count_by_inner(b, s, v, unknown_base);
    if (out->entry_count > 0)
        return CHECKED_TABLE;
    out->entry_count =
        limit && limit->max < OPEN_TABLE_MAX ? (uint32_t)limit->max + 1 : OPEN_TABLE_MAX;
    return OPEN_TABLE;
}

static meaning meaning_of(flow_builder *b, const eval_state *s, const eval_value *v, bool is_whole,
                          flow_table *out)
{
    switch ((eval_kind)v->kind) {
    case EVAL_LOADED:
        return TAIL_CALL; /* from a variable, a virtual table, a function that was called */
    case EVAL_UNKNOWN:
        /* An argument; but not the result of something that was not understood. */
        return is_whole && v->id <= EVAL_REGISTERS ? TAIL_CALL : NOT_CLEAR;
    case EVAL_ENTRY:
        /* Labels are in constant tables; an array that was passed in has functions. */
        if (is_whole && v->entry_size == pointer_size(b) && v->address.base_id != EVAL_NO_ID)
            return TAIL_CALL;
        return meaning_of_table(b, s, v, out);
    case EVAL_TARGET:
        return meaning_of_table(b, s, v, out);
    case EVAL_CONST:
    case EVAL_ADDRESS:
    case EVAL_SUM:
        break;
    }
    return NOT_CLEAR;
}

/* Looks back further and further, since what a loop needs is computed before it. */
static meaning evaluate(flow_builder *b, uint32_t run, flow_table *out)
{
    bool is_x86 = b->image->machine != CODE_ARM64;
    bool is_whole = false;
    if (!b->steps)
        b->steps = malloc(FLOW_PATH_MAX * sizeof(*b->steps));
    if (!b->steps) {
        b->code = spgo_fail_nomem(b->err, "code.flow", FLOW_PATH_MAX * sizeof(*b->steps));
        return NOT_CLEAR;
    }
    for (size_t max = 64; max <= FLOW_PATH_MAX && !is_whole; max *= 16) {
        size_t begin = make_path(b, run, max, &is_whole), count = FLOW_PATH_MAX - begin;
        if (count > b->work_left)
            return NOT_CLEAR;
        b->work_left -= count;
        eval_state s;
        eval_start(&s);
        eval_value v = is_x86 ? eval_x86(&s, b->image, b->steps + begin, count)
                              : eval_arm64(&s, b->image, b->steps + begin, count);
        meaning m = meaning_of(b, &s, &v, is_whole, out);
        /* A longer path may have the check that a table's end is known by. */
        if (m == TAIL_CALL || m == CHECKED_TABLE || (m == OPEN_TABLE && max > 64))
            return m;
        if (m == OPEN_TABLE && is_whole)
            return m;
    }
    return NOT_CLEAR;
}

static bool take_described(flow_builder *b, uint32_t from, uint32_t run, bool *is_known)
{
    const flow_hints *h = b->hints;
    uint32_t rva = b->instructions[from].rva;
    bool is_described = false;
    size_t low = 0, high = h->table_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (h->tables[mid].branch_rva < rva)
            low = mid + 1;
        else
            high = mid;
    }
    *is_known = true;
    for (size_t i = low; i < h->table_count && h->tables[i].branch_rva == rva; i++) {
        is_described = true;
        if (!take_table(b, &h->tables[i], from, run))
            *is_known = false;
    }
    return is_described;
}

static void add_open_table(flow_builder *b, const flow_table *t, uint32_t from, uint32_t run)
{
    void *tables = b->open_tables;
    if (!flow_grow(b, &tables, b->open_table_count, &b->open_table_room, sizeof(*b->open_tables)))
        return;
    b->open_tables = tables;
    b->open_tables[b->open_table_count++] =
        (flow_open_table){.table = *t, .from = from, .from_run = run};
    add_table_rva(b, t->table_rva);
}

void flow_find_targets(flow_builder *b, uint32_t run)
{
    uint32_t from = b->runs[run].first + b->runs[run].count - 1;
    size_t first_jump = b->jump_count;
    flow_table t;
    bool is_known = false;
    if (!take_described(b, from, run, &is_known)) {
        switch (evaluate(b, run, &t)) {
        case TAIL_CALL:
            *flow_byte(b, b->instructions[from].rva) |= FLOW_BYTE_EXIT;
            is_known = true;
            break;
        case CHECKED_TABLE:
            is_known = take_table(b, &t, from, run);
            break;
        case OPEN_TABLE:
            add_open_table(b, &t, from, run);
            return;
        case NOT_CLEAR:
            is_known = false;
            break;
        }
    }
    if (b->code == SPGO_OK)
        finish_jump(b, from, run, first_jump, is_known);
}

/* ------------------------------------------------------------------ tables without a known end */

/* Another table ends the one that is being closed. */
static void set_closing(flow_builder *b, uint32_t table_rva)
{
    b->closing_begin_rva = table_rva;
    b->closing_end_rva = UINT32_MAX;
    for (size_t i = 0; i < b->table_rva_count; i++)
        end_closing_at(b, b->table_rvas[i]);
}

/* Code, or where code may be. */
static bool is_plausible(flow_builder *b, uint32_t to_rva)
{
    const uint8_t *marks = flow_byte(b, to_rva);
    if (!marks || *marks & FLOW_BYTE_INSIDE)
        return false;
    return *marks & FLOW_BYTE_START || code_decode(b->d, to_rva).kind != CODE_INVALID;
}

/* To the code of another function: the table is an array of such. */
static bool goes_elsewhere(flow_builder *b, uint32_t to_rva)
{
    return !flow_byte(b, to_rva) && code_is_executable(b->image, to_rva);
}

/* Whether the table can have another entry behind those it has. */
static bool has_entry(flow_builder *b, const flow_table *t, uint32_t index)
{
    uint32_t rva = t->table_rva + index * t->entry_size;
    if (rva >= b->closing_end_rva || b->closing_end_rva - rva < t->entry_size)
        return false;
    for (uint32_t i = 0; i < t->entry_size; i++) {
        const uint8_t *marks = flow_byte(b, rva + i);
        if (marks && *marks & FLOW_BYTE_START)
            return false;
    }
    return is_plausible(b, target_of(b, t, index));
}

/* Follows what the entries lead to as it goes, so that the next one is judged by that; returns how
 * many there are. */
static uint32_t count_entries(flow_builder *b, const flow_open_table *open)
{
    const flow_table *t = &open->table;
    uint32_t most = entries_there(b, t), count = 0;
    set_closing(b, t->table_rva);
    while (count < most && b->work_left > 0 && b->code == SPGO_OK && has_entry(b, t, count)) {
        mark_as_data(b, t->table_rva + count * t->entry_size, t->entry_size);
        (void)flow_add_lead(b, target_of(b, t, count), open->from, open->from_run);
        flow_follow_leads(b);
        b->work_left--;
        count++;
    }
    uint32_t room = (b->closing_end_rva - t->table_rva) / t->entry_size;
    b->closing_end_rva = 0;
    return count < room ? count : room; /* the other table may have been found too late */
}

void flow_close_table(flow_builder *b, const flow_open_table *open)
{
    const flow_table *t = &open->table;
    /* Looking through all tables for each of them is work too. */
    bool is_workable = b->work_left > b->table_rva_count && entries_there(b, t) > 0;
    b->work_left -= is_workable ? b->table_rva_count : 0;
    uint32_t count = is_workable ? count_entries(b, open) : 0;
    bool has_functions = is_workable && count == 0 && goes_elsewhere(b, target_of(b, t, 0));
    if (has_functions)
        *flow_byte(b, b->instructions[open->from].rva) |= FLOW_BYTE_EXIT;
    size_t first_jump = b->jump_count;
    for (uint32_t i = 0; i < count && b->code == SPGO_OK; i++)
        add_jump(b, open->from, open->from_run, target_of(b, t, i), FLOW_TABLE);
    if (b->code == SPGO_OK)
        finish_jump(b, open->from, open->from_run, first_jump, count > 0 || has_functions);
    flow_follow_leads(b);
}
