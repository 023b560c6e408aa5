/*
 * What a unit says of its code: which chain of inlined calls each stretch belongs to (by its DIEs)
 * and which line (by its line table), put together to runs.
 */
#include <symbol/dwarf_internal.h>

#if SPGO_HAVE_DWARF

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of calls that were inlined; the DWARF 5 standard has none, both gcc and clang use this one. */
enum { CALL_DISCRIMINATOR = 0x2136 };

/* A function, or a call that was inlined, with the calls it came by. */
typedef struct scope {
    const symbol_function *function;
    const symbol_frame *caller;
} scope;

/* Code of a scope. Scopes are numbered in the order of DIEs, so that of those that share code the
 * one of the highest number is the innermost. */
typedef struct scope_range {
    uint32_t begin_rva, end_rva;
    uint32_t scope;
} scope_range;

typedef struct unit_reader {
    dbg_file *f;
    dbg_unit *unit;
    scope *scopes;
    size_t scope_count, scope_capacity;
    scope_range *ranges;
    size_t range_count, range_capacity;
    scope_range *parts; /* the ranges, cut so that only the innermost scope is left */
    size_t part_count, part_capacity;
    dbg_line_rows rows;
    symbol_run *runs;
    size_t run_count, run_capacity;
    bool no_memory;
} unit_reader;

static void unit_reader_free(unit_reader *u)
{
    free(u->scopes);
    free(u->ranges);
    free(u->parts);
    free(u->rows.rows);
    free(u->runs);
}

/* ------------------------------------------------------------------ scopes */

static uint32_t add_scope(unit_reader *u, const scope *s)
{
    void *list = u->scopes;
    bool has_room = dbg_room(&list, u->scope_count, &u->scope_capacity, sizeof *s);
    u->scopes = list;
    u->no_memory |= !has_room || !s->function || u->scope_count >= DBG_PRUNE;
    if (u->no_memory)
        return DBG_PRUNE;
    u->scopes[u->scope_count] = *s;
    return (uint32_t)u->scope_count++;
}

static void add_ranges(unit_reader *u, uint32_t number, Dwarf_Die *die)
{
    dbg_extents(u->f, u->unit, die);
    for (size_t i = 0; i < u->f->extent_count; i++) {
        void *list = u->ranges;
        u->no_memory |= !dbg_room(&list, u->range_count, &u->range_capacity, sizeof *u->ranges);
        u->ranges = list;
        if (u->no_memory)
            return;
        const flow_extent *e = &u->f->extents[i];
        u->ranges[u->range_count++] = (scope_range){e->begin_rva, e->end_rva, number};
    }
}

static uint32_t number_32(Dwarf_Die *die, unsigned attribute)
{
    uint64_t value = dbg_number(die, attribute);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

static spgo_str call_file(unit_reader *u, Dwarf_Die *die)
{
    dbg_lines *lines = dbg_unit_lines(u->f, u->unit);
    uint64_t number = dbg_number(die, DW_AT_call_file);
    return lines && dwarf_hasattr(die, DW_AT_call_file)
               ? dbg_lines_path(lines, number, &u->f->texts)
               : dbg_text_keep(&u->f->texts, (spgo_str){0});
}

static const symbol_function *inlined_function(unit_reader *u, Dwarf_Die *die)
{
    Dwarf_Attribute a;
    Dwarf_Die origin;
    if (dwarf_attr(die, DW_AT_abstract_origin, &a) && dwarf_formref_die(&a, &origin))
        return dbg_function(u->f, u->unit, &origin);
    return dbg_function(u->f, u->unit, die);
}

static uint32_t visit_inlined(unit_reader *u, Dwarf_Die *die, uint32_t parent)
{
    if (parent == DBG_NONE) /* in no function: part of an abstract one */
        return DBG_PRUNE;
    const symbol_frame caller = {.function = u->scopes[parent].function,
                                 .file = call_file(u, die),
                                 .line = number_32(die, DW_AT_call_line),
                                 .discriminator = number_32(die, CALL_DISCRIMINATOR),
                                 .caller = u->scopes[parent].caller};
    scope s = {.function = inlined_function(u, die), .caller = dbg_frame(u->f, &caller)};
    u->no_memory |= !s.caller;
    uint32_t number = add_scope(u, &s);
    if (number != DBG_PRUNE)
        add_ranges(u, number, die);
    return number;
}

static uint32_t visit_function(unit_reader *u, Dwarf_Die *die)
{
    dbg_extents(u->f, u->unit, die);
    if (u->f->extent_count == 0)
        return DBG_NONE; /* abstract, declared, or left out by the linker */
    scope s = {.function = dbg_function(u->f, u->unit, die)};
    uint32_t number = add_scope(u, &s);
    if (number != DBG_PRUNE)
        add_ranges(u, number, die);
    return number;
}

static uint32_t visit(void *ctx, Dwarf_Die *die, int tag, uint32_t parent)
{
    unit_reader *u = ctx;
    if (u->no_memory || u->f->no_memory)
        return DBG_PRUNE;
    if (tag == DW_TAG_subprogram)
        return visit_function(u, die);
    if (tag == DW_TAG_inlined_subroutine)
        return visit_inlined(u, die, parent);
    return parent;
}

/* ------------------------------------------------------------------ the innermost scopes */

static int by_begin(const void *a, const void *b)
{
    const scope_range *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->scope < y->scope ? -1 : x->scope > y->scope;
}

static void add_part(unit_reader *u, uint32_t begin_rva, uint32_t end_rva, uint32_t number)
{
    scope_range *last = u->part_count > 0 ? &u->parts[u->part_count - 1] : NULL;
    if (last && last->scope == number && last->end_rva == begin_rva) {
        last->end_rva = end_rva;
        return;
    }
    void *list = u->parts;
    u->no_memory |= !dbg_room(&list, u->part_count, &u->part_capacity, sizeof *u->parts);
    u->parts = list;
    if (!u->no_memory)
        u->parts[u->part_count++] = (scope_range){begin_rva, end_rva, number};
}

/* A heap of the ranges that have begun, with that of the highest scope on top. */
static void heap_push(scope_range *heap, size_t *count, scope_range range)
{
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2].scope < range.scope) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = range;
}

static void heap_pop(scope_range *heap, size_t *count)
{
    const scope_range moved = heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && heap[child + 1].scope > heap[child].scope)
            child++;
        if (heap[child].scope <= moved.scope)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static bool cut_ranges(unit_reader *u)
{
    scope_range *heap = malloc((u->range_count + 1) * sizeof *heap);
    if (!heap)
        return false;
    size_t heap_count = 0, next = 0;
    uint32_t at_rva = 0;
    if (u->range_count > 0)
        qsort(u->ranges, u->range_count, sizeof *u->ranges, by_begin);
    while (next < u->range_count || heap_count > 0) {
        if (heap_count == 0)
            at_rva = u->ranges[next].begin_rva;
        while (next < u->range_count && u->ranges[next].begin_rva <= at_rva)
            heap_push(heap, &heap_count, u->ranges[next++]);
        while (heap_count > 0 && heap[0].end_rva <= at_rva)
            heap_pop(heap, &heap_count);
        if (heap_count == 0)
            continue;
        uint32_t end_rva = heap[0].end_rva;
        if (next < u->range_count && u->ranges[next].begin_rva < end_rva)
            end_rva = u->ranges[next].begin_rva;
        add_part(u, at_rva, end_rva, heap[0].scope);
        at_rva = end_rva;
    }
    free(heap);
    return !u->no_memory;
}

/* ------------------------------------------------------------------ runs */

static void add_run(unit_reader *u, uint32_t begin_rva, uint32_t end_rva, const symbol_frame *leaf)
{
    symbol_run *last = u->run_count > 0 ? &u->runs[u->run_count - 1] : NULL;
    if (last && last->leaf == leaf && last->end_rva == begin_rva) {
        last->end_rva = end_rva;
        return;
    }
    void *list = u->runs;
    u->no_memory |= !leaf || !dbg_room(&list, u->run_count, &u->run_capacity, sizeof *u->runs);
    u->runs = list;
    if (!u->no_memory)
        u->runs[u->run_count++] = (symbol_run){begin_rva, end_rva, leaf};
}

/* row NULL: the line table says nothing of these bytes. */
static void add_piece(unit_reader *u, const scope *s, uint32_t begin_rva, uint32_t end_rva,
                      const dbg_line_row *row)
{
    symbol_frame leaf = {.function = s->function, .caller = s->caller};
    if (row) {
        leaf.file = dbg_lines_path(&u->unit->lines, row->file, &u->f->texts);
        leaf.line = row->line;
        leaf.discriminator = row->discriminator;
    } else {
        leaf.file = dbg_text_keep(&u->f->texts, (spgo_str){0});
    }
    add_run(u, begin_rva, end_rva, dbg_frame(u->f, &leaf));
}

static void join_lines(unit_reader *u)
{
    size_t at = 0;
    const dbg_line_rows *rows = &u->rows;
    for (size_t i = 0; i < u->part_count && !u->no_memory; i++) {
        const scope *s = &u->scopes[u->parts[i].scope];
        uint32_t rva = u->parts[i].begin_rva;
        const uint32_t end_rva = u->parts[i].end_rva;
        while (rva < end_rva && !u->no_memory) {
            while (at < rows->count && rows->rows[at].end_rva <= rva)
                at++;
            const dbg_line_row *row = at < rows->count ? &rows->rows[at] : NULL;
            bool is_in_row = row && row->begin_rva <= rva;
            uint32_t next_rva = !row ? end_rva : is_in_row ? row->end_rva : row->begin_rva;
            if (next_rva > end_rva)
                next_rva = end_rva;
            add_piece(u, s, rva, next_rva, is_in_row ? row : NULL);
            rva = next_rva;
        }
    }
}

/* ------------------------------------------------------------------ the whole */

static void read_rows(unit_reader *u, diag *d)
{
    spgo_error err;
    dbg_lines *lines = dbg_unit_lines(u->f, u->unit);
    if (!lines)
        return;
    spgo_code code = dbg_lines_run(lines, &u->f->image->code, &u->rows, &err);
    if (code == SPGO_NOMEM)
        u->no_memory = true;
    else if (code != SPGO_OK)
        diag_add(d, code, err.offset, "unit at 0x%" PRIx64 " of .debug_info: %s",
                 (uint64_t)u->unit->die_off, err.sentence);
}

static spgo_code hand_out(unit_reader *u, symbol_unit *out, arena *mem, spgo_error *err)
{
    out->runs = arena_push(mem, u->run_count, sizeof *out->runs);
    if (u->no_memory || u->f->no_memory || !out->runs)
        return spgo_fail_nomem(err, "dwarf.unit", u->run_count * sizeof *out->runs);
    if (u->run_count > 0)
        memcpy(out->runs, u->runs, u->run_count * sizeof *out->runs);
    out->run_count = u->run_count;
    return SPGO_OK;
}

spgo_code dbg_unit_read(dbg_file *f, dbg_unit *unit, symbol_unit *out, arena *mem, diag *d,
                        spgo_error *err)
{
    unit_reader u = {.f = f, .unit = unit};
    *out = (symbol_unit){0};
    f->findings = d;
    if (!dbg_walk(f, &unit->code, visit, &u))
        diag_add(d, SPGO_CORRUPT, (uint64_t)unit->die_off,
                 "unit at 0x%" PRIx64 " of .debug_info is damaged; what could be read is used",
                 (uint64_t)unit->die_off);
    read_rows(&u, d);
    if (!u.no_memory && !f->no_memory && cut_ranges(&u))
        join_lines(&u);
    else
        u.no_memory = true;
    spgo_code code = hand_out(&u, out, mem, err);
    unit_reader_free(&u);
    f->findings = NULL;
    return code;
}

#else
typedef int dwarf_unit_is_not_built;
#endif
