/*
 * A module flattened: runs of code that share a chain of inlined calls.
 *
 * Every place where something starts or ends cuts a procedure into cells. Cells are painted like a
 * canvas: first with the procedure's own lines, then with the rows of each inline site, parents
 * before children. A site paints only where its parent is on top, so that what sticks out of the
 * parent is cut off, and of siblings that overlap the first one keeps its bytes. What was on top
 * before becomes the caller: its line there is that of the call.
 */
#include <symbol/pdb_backend.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OWN = -1,     /* painted by the procedure itself */
    OUTSIDE = -2, /* of its pieces */

    /* Sites that overlap more than compilers make them: what a hostile file could use to make much
     * work and many frames of few bytes. */
    VISITS_PER_CELL = 256,
    FRAMES_PER_CELL = 16,
    SLACK = 1 << 16
};

static const spgo_str nothing = {"", 0};

typedef struct site_row {
    uint64_t begin, end;
    uint32_t site, file, line;
} site_row;

typedef struct cell {
    const symbol_frame *top;
    int64_t owner; /* a site, or OWN or OUTSIDE */
} cell;

typedef struct painter {
    pdb_backend *b;
    const pdb_module *m;
    const pdb_layout *l;
    arena *mem;
    diag *d;
    spgo_error *err;
    pdb_piece *pieces; /* those of one procedure together */
    /* of one procedure */
    uint64_t *bounds; /* cell i is [bounds[i], bounds[i + 1]) */
    site_row *rows;
    cell *cells;
    size_t bound_count, bound_capacity, row_count, row_capacity, cell_capacity;
    uint64_t visits_left, frames_left;
    const symbol_frame *last; /* the frame made last */
    /* of the module */
    symbol_run *runs;
    size_t run_count, run_capacity;
} painter;

static spgo_code no_memory(painter *p, size_t size)
{
    return spgo_fail_nomem(p->err, "symbol.pdb", size);
}

/* ------------------------------------------------------------------ cells */

static bool add_bound(painter *p, uint64_t at)
{
    uint64_t *grown = pdb_grown(p->bounds, &p->bound_capacity, p->bound_count, sizeof *grown);
    if (!grown)
        return false;
    p->bounds = grown;
    p->bounds[p->bound_count++] = at;
    return true;
}

static bool add_site_rows(painter *p, uint32_t site)
{
    pdb_inline_reader r = pdb_inline_rows(p->m, site);
    pdb_inline_row row;
    while (pdb_inline_next(&r, &row)) {
        if (row.length == 0 || row.length > UINT32_MAX - row.off)
            continue;
        site_row *grown = pdb_grown(p->rows, &p->row_capacity, p->row_count, sizeof *grown);
        if (!grown)
            return false;
        p->rows = grown;
        uint64_t begin = pdb_key(row.section, row.off), end = begin + row.length;
        p->rows[p->row_count++] = (site_row){begin, end, site, row.file, row.line};
        if (!add_bound(p, begin) || !add_bound(p, end))
            return false;
    }
    return true;
}

/* The first span that ends behind an address. */
static size_t span_from(const pdb_layout *l, uint64_t at)
{
    size_t low = 0, high = l->span_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->spans[mid].end <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool add_piece_bounds(painter *p, const pdb_piece *piece)
{
    if (!add_bound(p, piece->begin) || !add_bound(p, piece->end))
        return false;
    const pdb_span *spans = p->l->spans;
    for (size_t i = span_from(p->l, piece->begin);
         i < p->l->span_count && spans[i].begin < piece->end; i++) {
        if (spans[i].begin > piece->begin && !add_bound(p, spans[i].begin))
            return false;
        if (spans[i].end < piece->end && !add_bound(p, spans[i].end))
            return false;
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool settle_cells(painter *p)
{
    qsort(p->bounds, p->bound_count, sizeof *p->bounds, by_address);
    size_t n = 0;
    for (size_t i = 0; i < p->bound_count; i++)
        if (n == 0 || p->bounds[i] != p->bounds[n - 1])
            p->bounds[n++] = p->bounds[i];
    p->bound_count = n;
    if (n > p->cell_capacity) {
        cell *grown = realloc(p->cells, n * sizeof *grown);
        if (!grown)
            return false;
        p->cells = grown;
        p->cell_capacity = n;
    }
    for (size_t i = 0; i < n; i++)
        p->cells[i] = (cell){NULL, OUTSIDE};
    return true;
}

/* The cell that starts at a bound. */
static size_t cell_at(const painter *p, uint64_t bound)
{
    size_t low = 0, high = p->bound_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->bounds[mid] < bound)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ------------------------------------------------------------------ painting */

/* Rows that are not lines of the source (hidden, none) are line 0. */
static const symbol_frame *make_frame(painter *p, const symbol_function *function, uint32_t file,
                                      uint32_t line, const symbol_frame *caller)
{
    spgo_str name = file != PDB_NONE ? p->l->files[file] : nothing;
    if (pdb_line_kind_of(line) != PDB_LINE_REAL)
        line = 0;
    const symbol_frame *last = p->last;
    if (last && last->function == function && last->line == line && last->caller == caller &&
        last->file.ptr == name.ptr)
        return last;
    symbol_frame *f = arena_push(p->mem, 1, sizeof *f);
    if (!f)
        return NULL;
    *f = (symbol_frame){.function = function, .file = name, .line = line, .caller = caller};
    p->last = f;
    return f;
}

static spgo_code paint_piece(painter *p, const pdb_piece *piece, const symbol_function *function)
{
    const pdb_span *spans = p->l->spans;
    size_t span = span_from(p->l, piece->begin);
    for (size_t i = cell_at(p, piece->begin); p->bounds[i] < piece->end; i++) {
        while (span < p->l->span_count && spans[span].end <= p->bounds[i])
            span++;
        bool known = span < p->l->span_count && spans[span].begin <= p->bounds[i];
        const symbol_frame *f = make_frame(p, function, known ? spans[span].file : PDB_NONE,
                                           known ? spans[span].line : 0, NULL);
        if (!f)
            return no_memory(p, sizeof *f);
        p->cells[i] = (cell){f, OWN};
    }
    return SPGO_OK;
}

/* False without memory, or when the work gets out of hand, which frames_left or visits_left tell.
 */
static bool paint_row(painter *p, const site_row *row, const symbol_function *function)
{
    uint32_t parent = p->m->sites[row->site].parent;
    int64_t below = parent == PDB_NONE ? OWN : (int64_t)parent;
    for (size_t i = cell_at(p, row->begin); p->bounds[i] < row->end; i++) {
        cell *c = &p->cells[i];
        if (p->visits_left == 0 || p->frames_left == 0)
            return false;
        p->visits_left--;
        bool again = c->owner == (int64_t)row->site; /* of rows that overlap the last one holds */
        if (!again && c->owner != below)
            continue;
        const symbol_frame *made = p->last;
        c->top = make_frame(p, function, row->file, row->line, again ? c->top->caller : c->top);
        if (!c->top)
            return false;
        c->owner = row->site;
        p->frames_left -= p->last != made;
    }
    return true;
}

/* Of one procedure, and of the file. */
static uint64_t allowance(uint64_t own, uint64_t left)
{
    return own < left ? own : left;
}

static spgo_code paint_all_sites(painter *p, uint32_t proc)
{
    const symbol_function *function = NULL;
    uint32_t site = PDB_NONE;
    for (size_t i = 0; i < p->row_count; i++) {
        if (p->rows[i].site != site) {
            site = p->rows[i].site;
            SPGO_TRY(pdb_function_of_site(p->b, p->m, p->l, site, p->d, &function, p->err));
        }
        if (paint_row(p, &p->rows[i], function))
            continue;
        if (p->visits_left > 0 && p->frames_left > 0)
            return no_memory(p, sizeof(symbol_frame));
        spgo_str name = p->m->procs[proc].name;
        diag_add(p->d, SPGO_LIMIT, SPGO_NO_OFFSET,
                 "module %" PRIu32 ": the inlined calls of %.*s overlap more than those of any "
                 "compiler; the rest of them is left out",
                 p->m->index, name.len < 100 ? (int)name.len : 100, name.len ? name.ptr : "");
        break;
    }
    return SPGO_OK;
}

static spgo_code paint_sites(painter *p, uint32_t proc)
{
    pdb_budget *left = &p->b->left;
    const uint64_t cells = p->bound_count;
    const uint64_t visits = allowance(cells * VISITS_PER_CELL + SLACK, left->visits);
    const uint64_t frames = allowance(cells * FRAMES_PER_CELL + SLACK, left->frames);
    p->visits_left = visits;
    p->frames_left = frames;
    const spgo_code code = paint_all_sites(p, proc);
    left->visits -= visits - p->visits_left;
    left->frames -= frames - p->frames_left;
    return code;
}

/* ------------------------------------------------------------------ runs */

static bool add_run(painter *p, uint32_t begin, uint32_t end, const symbol_frame *leaf)
{
    symbol_run *last = p->run_count ? &p->runs[p->run_count - 1] : NULL;
    if (last && last->end_rva == begin && last->leaf == leaf) {
        last->end_rva = end;
        return true;
    }
    symbol_run *grown = pdb_grown(p->runs, &p->run_capacity, p->run_count, sizeof *grown);
    if (!grown)
        return false;
    p->runs = grown;
    p->runs[p->run_count++] = (symbol_run){begin, end, leaf};
    return true;
}

/* Bytes of the linked image, which may be in several places of the shipped one. */
static bool add_bytes(painter *p, uint64_t begin, uint64_t end, const symbol_frame *leaf)
{
    enum { FEW = 8 };
    uint16_t section = (uint16_t)(begin >> 32);
    uint32_t off = (uint32_t)begin, length = (uint32_t)(end - begin);
    pdb_range few[FEW], *ranges = few;
    size_t count = pdb_ranges(p->b->file, section, off, length, few, FEW);
    if (count > FEW) {
        ranges = malloc(count * sizeof *ranges);
        if (!ranges)
            return false;
        (void)pdb_ranges(p->b->file, section, off, length, ranges, count);
    }
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++)
        if (ranges[i].length <= UINT32_MAX - ranges[i].rva)
            ok = add_run(p, ranges[i].rva, ranges[i].rva + ranges[i].length, leaf);
    if (ranges != few)
        free(ranges);
    return ok;
}

static spgo_code emit_cells(painter *p)
{
    for (size_t i = 0; i + 1 < p->bound_count; i++) {
        size_t end = i;
        while (end + 2 < p->bound_count && p->cells[end + 1].top == p->cells[i].top)
            end++;
        if (p->cells[i].top && !add_bytes(p, p->bounds[i], p->bounds[end + 1], p->cells[i].top))
            return no_memory(p, p->run_count * sizeof *p->runs);
        i = end;
    }
    return SPGO_OK;
}

static spgo_code flatten_proc(painter *p, const pdb_piece *pieces, size_t count)
{
    uint32_t proc = pieces->proc;
    const pdb_proc *record = &p->m->procs[proc];
    const symbol_function *function = pdb_function_of_proc(p->b, p->m, proc);
    if (!function)
        return no_memory(p, sizeof *function);
    p->bound_count = p->row_count = 0;
    p->last = NULL;
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++)
        ok = add_piece_bounds(p, &pieces[i]);
    for (uint32_t i = 0; i < record->site_count && ok; i++)
        ok = add_site_rows(p, record->first_site + i);
    if (!ok || !settle_cells(p))
        return no_memory(p, p->bound_count * sizeof *p->cells);
    for (size_t i = 0; i < count; i++)
        SPGO_TRY(paint_piece(p, &pieces[i], function));
    SPGO_TRY(paint_sites(p, proc));
    return emit_cells(p);
}

/* ------------------------------------------------------------------ code without a procedure */

/* A function of assembler, by the public where it starts. */
typedef struct loose {
    const pdb_public *entry;
    const symbol_function *function; /* NULL: none yet */
} loose;

static bool enter_loose(painter *p, const pdb_public *entry, const pdb_span *span, loose *in)
{
    if (in->function && in->entry == entry)
        return true;
    symbol_function *f = pdb_function_of_public(p->b, entry);
    if (!f)
        return false;
    if (span->file != PDB_NONE)
        f->file = p->l->files[span->file];
    if (pdb_line_kind_of(span->line) == PDB_LINE_REAL) {
        f->line = span->line;
        f->line_source = SYMBOL_LINE_FIRST_ROW;
    }
    *in = (loose){entry, f};
    return true;
}

/* Bytes of one span between pieces; split where publics start. */
static spgo_code add_loose(painter *p, uint64_t begin, uint64_t end, const pdb_span *span,
                           loose *in)
{
    const pdb_backend *b = p->b;
    for (size_t next = pdb_entries_to(b, begin); begin < end; next++) {
        const pdb_public *entry = next > 0 ? b->entries[next - 1] : NULL;
        if (entry && entry->section != (uint16_t)(begin >> 32))
            entry = NULL;
        uint64_t stop = end;
        if (next < b->entry_count) {
            uint64_t key = pdb_key(b->entries[next]->section, b->entries[next]->off);
            stop = key < end ? key : end;
        }
        if (stop <= begin) /* several names of one address */
            continue;
        const symbol_frame *f = NULL;
        if (enter_loose(p, entry, span, in))
            f = make_frame(p, in->function, span->file, span->line, NULL);
        if (!f || !add_bytes(p, begin, stop, f))
            return no_memory(p, sizeof *f);
        begin = stop;
    }
    return SPGO_OK;
}

/* Assembler has lines, and often no procedures: there publics tell where functions start. */
static spgo_code add_loose_lines(painter *p)
{
    loose in = {NULL, NULL};
    size_t piece = 0;
    p->last = NULL;
    for (size_t i = 0; i < p->l->span_count; i++) {
        const pdb_span *span = &p->l->spans[i];
        uint64_t at = span->is_lead ? span->end : span->begin;
        while (at < span->end) {
            while (piece < p->l->piece_count && p->l->pieces[piece].end <= at)
                piece++;
            bool before = piece < p->l->piece_count && p->l->pieces[piece].begin < span->end;
            uint64_t stop = before ? p->l->pieces[piece].begin : span->end;
            if (at < stop)
                SPGO_TRY(add_loose(p, at, stop, span, &in));
            at = before ? p->l->pieces[piece].end : stop;
        }
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the whole */

static int piece_by_proc(const void *a, const void *b)
{
    const pdb_piece *x = a, *y = b;
    if (x->proc != y->proc)
        return x->proc < y->proc ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int run_by_begin(const void *a, const void *b)
{
    const symbol_run *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->end_rva < y->end_rva ? -1 : x->end_rva > y->end_rva;
}

/* Sorted and, where an OMAP sends two pieces to one place, without overlap. */
static spgo_code hand_out(painter *p, symbol_unit *out)
{
    if (p->run_count > 0)
        qsort(p->runs, p->run_count, sizeof *p->runs, run_by_begin);
    out->runs = arena_push(p->mem, p->run_count, sizeof *out->runs);
    if (!out->runs)
        return no_memory(p, p->run_count * sizeof *out->runs);
    uint32_t taken = 0;
    for (size_t i = 0; i < p->run_count; i++) {
        symbol_run run = p->runs[i];
        if (run.begin_rva < taken)
            run.begin_rva = taken;
        if (run.begin_rva >= run.end_rva)
            continue;
        taken = run.end_rva;
        out->runs[out->run_count++] = run;
    }
    return SPGO_OK;
}

static spgo_code flatten_all(painter *p)
{
    size_t count = p->l->piece_count;
    p->pieces = malloc((count + 1) * sizeof *p->pieces);
    if (!p->pieces)
        return no_memory(p, count * sizeof *p->pieces);
    if (count > 0)
        memcpy(p->pieces, p->l->pieces, count * sizeof *p->pieces);
    qsort(p->pieces, count, sizeof *p->pieces, piece_by_proc);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && p->pieces[end].proc == p->pieces[i].proc;)
            end++;
        SPGO_TRY(flatten_proc(p, p->pieces + i, end - i));
    }
    return add_loose_lines(p);
}

spgo_code pdb_flatten(pdb_backend *b, const pdb_module *m, const pdb_layout *l, symbol_unit *out,
                      arena *mem, diag *d, spgo_error *err)
{
    painter p = {.b = b, .m = m, .l = l, .mem = mem, .d = d, .err = err};
    *out = (symbol_unit){0};
    spgo_code code = flatten_all(&p);
    if (code == SPGO_OK)
        code = hand_out(&p, out);
    if (code == SPGO_OK && b->image->names->failed)
        code = no_memory(&p, 0);
    free(p.pieces);
    free(p.bounds);
    free(p.rows);
    free(p.cells);
    free(p.runs);
    return code;
}
