/*
 * Procedures from several sources as one table. First those of one entry become one; then bytes are
 * given out, to the more exact sources first, so that a guess never takes what somebody knows.
 */
#include <symbol/procedures.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>

static const char where[] = "symbol.procedures";

bool symbol_found_add(symbol_found *list, const symbol_procedure *p)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        if (capacity > SIZE_MAX / sizeof *list->procedures)
            return false;
        void *grown = realloc(list->procedures, capacity * sizeof *list->procedures);
        if (!grown)
            return false;
        list->procedures = grown;
        list->capacity = capacity;
    }
    list->procedures[list->count++] = *p;
    return true;
}

/* ------------------------------------------------------------------ lists of extents */

typedef struct extent_list {
    flow_extent *rows;
    size_t count, capacity;
} extent_list;

static bool add_extent(extent_list *l, uint32_t begin, uint32_t end)
{
    if (begin >= end)
        return true;
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 64;
        void *grown = realloc(l->rows, capacity * sizeof *l->rows);
        if (!grown)
            return false;
        l->rows = grown;
        l->capacity = capacity;
    }
    l->rows[l->count++] = (flow_extent){begin, end};
    return true;
}

static int compare_extents(const void *a, const void *b)
{
    const flow_extent *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return (x->end_rva > y->end_rva) - (x->end_rva < y->end_rva);
}

size_t symbol_join_extents(flow_extent *rows, size_t count)
{
    if (count == 0)
        return 0;
    qsort(rows, count, sizeof *rows, compare_extents);
    size_t kept = 0;
    for (size_t i = 1; i < count; i++) {
        flow_extent *last = &rows[kept];
        if (rows[i].begin_rva > last->end_rva)
            rows[++kept] = rows[i];
        else if (rows[i].end_rva > last->end_rva)
            last->end_rva = rows[i].end_rva;
    }
    return kept + 1;
}

static void join_extents(extent_list *l)
{
    l->count = symbol_join_extents(l->rows, l->count);
}

/* The first extent of a joined list that ends behind an RVA. */
static size_t extent_behind(const flow_extent *rows, size_t count, uint32_t rva)
{
    size_t low = 0;
    for (size_t high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle].end_rva > rva)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool extents_hold(const flow_extent *rows, size_t count, uint32_t rva)
{
    size_t i = extent_behind(rows, count, rva);
    return i < count && rows[i].begin_rva <= rva;
}

/* ------------------------------------------------------------------ the table under construction
 */

enum { TIER_COUNT = 4 };

/* A procedure that one source told of. */
typedef struct candidate {
    const symbol_procedure *p;
    bool from_tables;
    uint8_t tier; /* of its extents: see procedures.h */
} candidate;

/* All candidates of one entry. */
typedef struct group {
    symbol_procedure p;
    size_t first, count; /* of the candidates */
    uint8_t tier;
    bool dropped;
} group;

typedef struct builder {
    const symbol_image *image;
    candidate *candidates;
    size_t candidate_count;
    group *groups;
    size_t group_count;
    extent_list code;         /* the executable segments */
    extent_list given;        /* bytes that have gone to a procedure */
    extent_list taking;       /* those that the current tier takes */
    extent_list pieces, rest; /* of one procedure */
    spgo_error *err;
} builder;

static bool no_memory(builder *b, size_t size_bytes)
{
    (void)spgo_fail_nomem(b->err, where, size_bytes);
    return false;
}

static bool list_code(builder *b)
{
    const code_image *code = &b->image->code;
    for (size_t i = 0; i < code->segment_count; i++) {
        const code_segment *s = &code->segments[i];
        if (s->is_executable && !add_extent(&b->code, s->rva, s->rva + (uint32_t)s->bytes.len))
            return no_memory(b, sizeof(flow_extent));
    }
    join_extents(&b->code);
    return true;
}

/* ------------------------------------------------------------------ one entry, one procedure */

static int compare_names(spgo_str a, spgo_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* By entry; of one entry the best first: whose name and function it shall have. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    const symbol_procedure *p = x->p, *q = y->p;
    if (p->entry_rva != q->entry_rva)
        return p->entry_rva < q->entry_rva ? -1 : 1;
    if (x->from_tables != y->from_tables)
        return x->from_tables ? 1 : -1;
    if (!p->function != !q->function)
        return p->function ? -1 : 1;
    if (!p->name.len != !q->name.len)
        return p->name.len ? -1 : 1;
    int order = compare_names(p->name, q->name);
    if (order)
        return order;
    if (x->tier != y->tier)
        return x->tier < y->tier ? -1 : 1;
    return (p > q) - (p < q); /* of one source: as they were found */
}

static void add_candidates(builder *b, const symbol_found *found, bool from_tables)
{
    for (size_t i = 0; i < found->count; i++) {
        const symbol_procedure *p = &found->procedures[i];
        if (!extents_hold(b->code.rows, b->code.count, p->entry_rva))
            continue;
        bool is_guess = p->piece_count == 0 || p->flags & SYMBOL_SIZE_GUESSED;
        b->candidates[b->candidate_count++] =
            (candidate){p, from_tables, (uint8_t)(2 * is_guess + from_tables)};
    }
}

static group make_group(const builder *b, size_t first)
{
    const candidate *c = b->candidates + first;
    group g = {.p = *c->p, .first = first, .tier = c->tier};
    for (; first + g.count < b->candidate_count; g.count++) {
        const candidate *next = c + g.count;
        if (next->p->entry_rva != g.p.entry_rva)
            break;
        if (next->tier < g.tier) {
            g.tier = next->tier;
            g.p.pieces = next->p->pieces;
            g.p.piece_count = next->p->piece_count;
        }
        if (g.p.name.len == 0)
            g.p.name = next->p->name;
        if (!g.p.function)
            g.p.function = next->p->function;
        if (next->p->flags & SYMBOL_THUNK && !(g.p.flags & SYMBOL_THUNK))
            g.p.thunk_target_rva = next->p->thunk_target_rva;
        g.p.flags |= next->p->flags;
    }
    g.p.flags &= ~(uint32_t)(SYMBOL_SIZE_GUESSED | SYMBOL_FOLDED);
    g.p.flags |= g.tier >= 2 ? SYMBOL_SIZE_GUESSED : 0;
    if (!(g.p.flags & SYMBOL_THUNK))
        g.p.thunk_target_rva = UINT32_MAX;
    return g;
}

static bool make_groups(builder *b, const symbol_found *backend, const symbol_found *tables)
{
    size_t count = backend->count + tables->count;
    b->candidates = calloc(count + 1, sizeof *b->candidates);
    b->groups = calloc(count + 1, sizeof *b->groups);
    if (!b->candidates || !b->groups)
        return no_memory(b, count * (sizeof *b->candidates + sizeof *b->groups));
    add_candidates(b, backend, false);
    add_candidates(b, tables, true);
    qsort(b->candidates, b->candidate_count, sizeof *b->candidates, compare_candidates);
    for (size_t i = 0; i < b->candidate_count; i += b->groups[b->group_count++].count)
        b->groups[b->group_count] = make_group(b, i);
    return true;
}

/* ------------------------------------------------------------------ bytes are given out */

/* Where a procedure of unknown size ends at the latest: before the next one, or with its segment.
 */
static uint32_t end_guess(const builder *b, size_t i)
{
    uint32_t entry = b->groups[i].p.entry_rva;
    uint32_t end = b->code.rows[extent_behind(b->code.rows, b->code.count, entry)].end_rva;
    if (i + 1 < b->group_count && b->groups[i + 1].p.entry_rva < end)
        end = b->groups[i + 1].p.entry_rva;
    return end;
}

/* What of [begin, end) lies in one of the rows (in_rows), or in none. */
static bool add_parts(extent_list *out, const extent_list *rows, flow_extent e, bool in_rows)
{
    uint32_t at = e.begin_rva;
    for (size_t i = extent_behind(rows->rows, rows->count, at);
         i < rows->count && rows->rows[i].begin_rva < e.end_rva; i++) {
        flow_extent r = rows->rows[i];
        uint32_t begin = r.begin_rva > at ? r.begin_rva : at;
        uint32_t end = r.end_rva < e.end_rva ? r.end_rva : e.end_rva;
        if (!(in_rows ? add_extent(out, begin, end) : add_extent(out, at, begin)))
            return false;
        at = end;
    }
    return in_rows || add_extent(out, at, e.end_rva);
}

/* The pieces of group i that are code and free, into b->rest. */
static bool find_free(builder *b, size_t i)
{
    const symbol_procedure *p = &b->groups[i].p;
    b->pieces.count = b->rest.count = 0;
    bool ok = true;
    if (p->piece_count == 0)
        ok = add_extent(&b->pieces, p->entry_rva, end_guess(b, i));
    for (uint32_t k = 0; ok && k < p->piece_count; k++)
        ok = add_parts(&b->pieces, &b->code, p->pieces[k], true);
    join_extents(&b->pieces);
    for (size_t k = 0; ok && k < b->pieces.count; k++)
        ok = add_parts(&b->rest, &b->given, b->pieces.rows[k], false);
    return ok;
}

static bool keep_pieces(builder *b, symbol_procedure *p)
{
    size_t size = b->rest.count * sizeof *b->rest.rows;
    for (size_t k = 0; k < b->rest.count; k++)
        if (!add_extent(&b->taking, b->rest.rows[k].begin_rva, b->rest.rows[k].end_rva))
            return false;
    if (p->piece_count == b->rest.count && memcmp(p->pieces, b->rest.rows, size) == 0)
        return true;
    flow_extent *kept = arena_push(b->image->mem, b->rest.count, sizeof *kept);
    if (!kept)
        return false;
    memcpy(kept, b->rest.rows, size);
    p->pieces = kept;
    p->piece_count = (uint32_t)b->rest.count;
    return true;
}

static bool give_tier(builder *b, unsigned tier)
{
    b->taking.count = 0;
    for (size_t i = 0; i < b->group_count; i++) {
        group *g = &b->groups[i];
        if (g->tier != tier)
            continue;
        if (!find_free(b, i))
            return no_memory(b, sizeof(flow_extent));
        g->dropped = !extents_hold(b->rest.rows, b->rest.count, g->p.entry_rva);
        if (!g->dropped && !keep_pieces(b, &g->p))
            return no_memory(b, b->rest.count * sizeof(flow_extent));
    }
    for (size_t k = 0; k < b->taking.count; k++)
        if (!add_extent(&b->given, b->taking.rows[k].begin_rva, b->taking.rows[k].end_rva))
            return no_memory(b, sizeof(flow_extent));
    join_extents(&b->given);
    return true;
}

/* ------------------------------------------------------------------ the finished table */

static int by_name(const void *a, const void *b)
{
    return compare_names(*(const spgo_str *)a, *(const spgo_str *)b);
}

/* The distinct names of a group but for the one it has. */
static bool put_others(builder *b, const group *g, procedure_names *out)
{
    if (g->count == 1)
        return true;
    spgo_str *names = arena_push(b->image->mem, g->count, sizeof *names);
    if (!names)
        return no_memory(b, g->count * sizeof *names);
    size_t count = 0;
    for (size_t i = g->first; i < g->first + g->count; i++)
        if (b->candidates[i].p->name.len > 0)
            names[count++] = b->candidates[i].p->name;
    qsort(names, count, sizeof *names, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_known =
            text_equal(names[i], g->p.name) || (kept > 0 && text_equal(names[i], names[kept - 1]));
        if (!is_known)
            names[kept++] = names[i];
    }
    *out = (procedure_names){names, kept};
    return true;
}

static bool is_known_no_return(const symbol_procedure *p, const procedure_names *others)
{
    bool is = procedure_name_never_returns(p->name);
    for (size_t i = 0; !is && i < others->count; i++)
        is = procedure_name_never_returns(others->names[i]);
    return is;
}

static bool put_rows(builder *b, procedure_table *out)
{
    arena *mem = b->image->mem;
    out->rows = arena_push(mem, b->group_count, sizeof *out->rows);
    out->others = arena_push(mem, b->group_count, sizeof *out->others);
    if (!out->rows || !out->others)
        return no_memory(b, b->group_count * (sizeof *out->rows + sizeof *out->others));
    for (size_t i = 0; i < b->group_count; i++) {
        const group *g = &b->groups[i];
        if (g->dropped)
            continue;
        symbol_procedure *p = &out->rows[out->count];
        procedure_names *others = &out->others[out->count++];
        *p = g->p;
        if (!put_others(b, g, others))
            return false;
        p->flags |= others->count ? SYMBOL_FOLDED : 0;
        p->flags |= is_known_no_return(p, others) ? SYMBOL_NO_RETURN : 0;
        out->piece_count += p->piece_count;
    }
    return true;
}

static int compare_pieces(const void *a, const void *b)
{
    const procedure_piece *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return (x->procedure > y->procedure) - (x->procedure < y->procedure);
}

/* Pieces of one tier may overlap in damaged files: then each byte belongs to the piece that starts
 * last before it. */
static bool put_pieces(builder *b, procedure_table *out)
{
    procedure_piece *rows = arena_push(b->image->mem, out->piece_count, sizeof *rows);
    if (!rows)
        return no_memory(b, out->piece_count * sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < out->count; i++)
        for (uint32_t k = 0; k < out->rows[i].piece_count; k++) {
            flow_extent e = out->rows[i].pieces[k];
            rows[count++] = (procedure_piece){e.begin_rva, e.end_rva, (uint32_t)i};
        }
    qsort(rows, count, sizeof *rows, compare_pieces);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        procedure_piece *last = kept ? &rows[kept - 1] : NULL;
        if (last && last->begin_rva == rows[i].begin_rva)
            continue;
        if (last && last->end_rva > rows[i].begin_rva)
            last->end_rva = rows[i].begin_rva;
        rows[kept++] = rows[i];
    }
    out->pieces = rows;
    out->piece_count = kept;
    return true;
}

static const symbol_procedure *row_at_entry(const procedure_table *t, uint32_t entry)
{
    size_t i = procedure_piece_at(t, entry);
    const symbol_procedure *p = i == SIZE_MAX ? NULL : &t->rows[t->pieces[i].procedure];
    return p && p->entry_rva == entry ? p : NULL;
}

/* Functions that never return, and thunks to them. */
static bool put_no_return(builder *b, procedure_table *out)
{
    for (size_t i = 0; i < out->count; i++) {
        symbol_procedure *p = &out->rows[i];
        const symbol_procedure *target =
            p->flags & SYMBOL_THUNK ? row_at_entry(out, p->thunk_target_rva) : NULL;
        if (target && target->flags & SYMBOL_NO_RETURN)
            p->flags |= SYMBOL_NO_RETURN;
        out->no_return_count += (p->flags & SYMBOL_NO_RETURN) != 0;
    }
    out->no_return = arena_push(b->image->mem, out->no_return_count, sizeof *out->no_return);
    if (!out->no_return)
        return no_memory(b, out->no_return_count * sizeof *out->no_return);
    size_t count = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->rows[i].flags & SYMBOL_NO_RETURN)
            out->no_return[count++] = out->rows[i].entry_rva;
    return true;
}

static bool build(builder *b, const symbol_found *backend, const symbol_found *tables,
                  procedure_table *out)
{
    if (!list_code(b) || !make_groups(b, backend, tables))
        return false;
    for (unsigned tier = 0; tier < TIER_COUNT; tier++)
        if (!give_tier(b, tier))
            return false;
    return put_rows(b, out) && put_pieces(b, out) && put_no_return(b, out);
}

spgo_code procedure_table_build(const symbol_image *image, const symbol_found *backend,
                                const symbol_found *tables, procedure_table *out, spgo_error *err)
{
    builder b = {.image = image, .err = err};
    *out = (procedure_table){0};
    bool ok = build(&b, backend, tables, out);
    free(b.candidates);
    free(b.groups);
    free(b.code.rows);
    free(b.given.rows);
    free(b.taking.rows);
    free(b.pieces.rows);
    free(b.rest.rows);
    return ok ? SPGO_OK : SPGO_NOMEM;
}

size_t procedure_piece_at(const procedure_table *t, uint32_t rva)
{
    size_t low = 0;
    for (size_t high = t->piece_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (t->pieces[middle].end_rva > rva)
            high = middle;
        else
            low = middle + 1;
    }
    return low < t->piece_count && t->pieces[low].begin_rva <= rva ? low : SIZE_MAX;
}
