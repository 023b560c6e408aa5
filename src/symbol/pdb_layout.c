/*
 * Where the procedures and lines of a module are, as two sorted lists without overlap: pieces of
 * procedures and spans of one line. Identical functions that the linker has folded share an address
 * and have a line table each; of these, one procedure and its own table are taken.
 */
#include <symbol/pdb_backend.h>

#include <stdlib.h>
#include <string.h>

void *pdb_grown(void *array, size_t *capacity, size_t used, size_t elem_size)
{
    if (used < *capacity)
        return array;
    size_t bigger = *capacity ? 2 * *capacity : 64;
    void *grown = bigger > SIZE_MAX / elem_size ? NULL : realloc(array, bigger * elem_size);
    if (grown)
        *capacity = bigger;
    return grown;
}

/* A procedure by its address; of equal addresses in the order of the records. */
typedef struct proc_at {
    uint64_t key;
    uint32_t proc;
} proc_at;

static int proc_by_key(const void *a, const void *b)
{
    const proc_at *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->proc < y->proc ? -1 : x->proc > y->proc;
}

/* The end of [off, off + length) in its section, clipped to it; 0: nothing of it is there. */
static uint64_t clipped_end(const pdb *p, uint16_t section, uint32_t off, uint32_t length)
{
    const pdb_section *s = section ? pdb_get_original_section(p, (size_t)section - 1) : NULL;
    if (!s)
        return 0;
    uint32_t size = s->virtual_size > s->raw_size ? s->virtual_size : s->raw_size;
    if (off >= size || length == 0)
        return 0;
    return pdb_key(section, off) + (length < size - off ? length : size - off);
}

static size_t order_procs(const pdb_module *m, proc_at *order)
{
    size_t count = 0;
    for (size_t i = 0; i < m->proc_count; i++) {
        const pdb_proc *proc = &m->procs[i];
        if (clipped_end(m->file, proc->section, proc->off, proc->length))
            order[count++] = (proc_at){pdb_key(proc->section, proc->off), (uint32_t)i};
    }
    qsort(order, count, sizeof *order, proc_by_key);
    return count;
}

static size_t group_end(const proc_at *order, size_t count, size_t start)
{
    size_t end = start + 1;
    while (end < count && order[end].key == order[start].key)
        end++;
    return end;
}

static uint64_t set_key(const pdb_line_set *s)
{
    return pdb_key(s->section, s->off);
}

/* Folded functions and their line tables stand in the same order: where there are as many of one as
 * of the other, each has its own, else all have the first. */
static void pair_sets(const pdb_module *m, const proc_at *order, size_t count,
                      uint32_t *set_of_proc)
{
    size_t set = 0;
    for (size_t i = 0, end; i < count; i = end) {
        end = group_end(order, count, i);
        while (set < m->line_set_count && set_key(&m->line_sets[set]) < order[i].key)
            set++;
        size_t sets = 0;
        while (set + sets < m->line_set_count && set_key(&m->line_sets[set + sets]) == order[i].key)
            sets++;
        for (size_t k = i; k < end && sets > 0; k++)
            set_of_proc[order[k].proc] = (uint32_t)(set + (sets == end - i ? k - i : 0));
    }
}

static spgo_str linker_name(pdb_backend *b, const pdb_proc *proc)
{
    pdb_named_place place = pdb_place_of(proc);
    const pdb_public *p = pdb_public_of(b, &place);
    return p ? p->name : proc->name;
}

static bool sorts_before(spgo_str a, spgo_str b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared ? memcmp(a.ptr, b.ptr, shared) : 0;
    return order ? order < 0 : a.len < b.len;
}

/* Leaves one procedure for each address; returns how many are left. */
static size_t choose_procs(pdb_backend *b, const pdb_module *m, proc_at *order, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0, end; i < count; i = end) {
        end = group_end(order, count, i);
        proc_at best = order[i];
        spgo_str name = {NULL, 0};
        if (end - i > 1)
            name = linker_name(b, &m->procs[best.proc]);
        for (size_t k = i + 1; k < end; k++) {
            spgo_str other = linker_name(b, &m->procs[order[k].proc]);
            if (sorts_before(other, name)) {
                best = order[k];
                name = other;
            }
        }
        order[kept++] = best;
    }
    return kept;
}

/* ------------------------------------------------------------------ pieces */

static int piece_by_begin(const void *a, const void *b)
{
    const pdb_piece *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->is_chunk != y->is_chunk)
        return x->is_chunk ? 1 : -1;
    return x->proc < y->proc ? -1 : x->proc > y->proc;
}

/* What starts first keeps its bytes. */
static size_t separate_pieces(pdb_piece *pieces, size_t count)
{
    size_t kept = 0;
    uint64_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        pdb_piece p = pieces[i];
        if (p.begin < taken)
            p.begin = taken;
        if (p.begin >= p.end)
            continue;
        taken = p.end;
        pieces[kept++] = p;
    }
    return kept;
}

static bool make_pieces(const pdb_module *m, const proc_at *chosen, size_t count, pdb_layout *l)
{
    l->pieces = calloc(count + m->chunk_count + 1, sizeof *l->pieces);
    if (!l->pieces)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const pdb_proc *proc = &m->procs[chosen[i].proc];
        uint64_t end = clipped_end(m->file, proc->section, proc->off, proc->length);
        l->pieces[n++] = (pdb_piece){chosen[i].key, end, chosen[i].proc, false};
    }
    for (size_t i = 0; i < m->chunk_count; i++) {
        const pdb_chunk *c = &m->chunks[i];
        uint64_t end = clipped_end(m->file, c->section, c->off, c->length);
        if (end && c->proc != PDB_NONE)
            l->pieces[n++] = (pdb_piece){pdb_key(c->section, c->off), end, c->proc, true};
    }
    qsort(l->pieces, n, sizeof *l->pieces, piece_by_begin);
    l->piece_count = separate_pieces(l->pieces, n);
    return true;
}

/* ------------------------------------------------------------------ spans */

/* A line set that is being walked; those below it on the stack hold it. */
typedef struct open_set {
    const pdb_line_set *set;
    uint64_t end;
    size_t row; /* the next one, of the set's */
} open_set;

static bool add_span(pdb_layout *l, pdb_span span)
{
    pdb_span *last = l->span_count ? &l->spans[l->span_count - 1] : NULL;
    if (last && last->end == span.begin && last->file == span.file && last->line == span.line &&
        last->is_lead == span.is_lead) {
        last->end = span.end;
        return true;
    }
    pdb_span *grown = pdb_grown(l->spans, &l->span_capacity, l->span_count, sizeof *l->spans);
    if (!grown)
        return false;
    l->spans = grown;
    l->spans[l->span_count++] = span;
    return true;
}

static bool add_clipped(pdb_layout *l, pdb_span span, uint64_t from, uint64_t to)
{
    span.begin = span.begin < from ? from : span.begin;
    span.end = span.end > to ? to : span.end;
    return span.begin >= span.end || add_span(l, span);
}

/* The rows of a set that lie in [from, to), both of which only rise. */
static bool add_rows(pdb_layout *l, const pdb_module *m, open_set *s, uint64_t from, uint64_t to)
{
    const pdb_line *rows = m->lines + s->set->first;
    if (s->row == 0 && s->set->count > 0) {
        uint64_t first = pdb_key(s->set->section, rows->off);
        pdb_span lead = {set_key(s->set), first, rows->file, rows->line, true};
        if (!add_clipped(l, lead, from, to))
            return false;
    }
    for (; s->row < s->set->count; s->row++) {
        const pdb_line *row = &rows[s->row];
        uint64_t begin = pdb_key(s->set->section, row->off), end = begin + row->length;
        if (begin >= to)
            break;
        if (!add_clipped(l, (pdb_span){begin, end, row->file, row->line, false}, from, to))
            return false;
        if (end > to)
            break;
    }
    return true;
}

/* Walks on to `until`, where another set starts. */
static bool drain(pdb_layout *l, const pdb_module *m, open_set *open, size_t *depth, uint64_t *at,
                  uint64_t until)
{
    while (*depth > 0) {
        open_set *top = &open[*depth - 1];
        uint64_t from = *at > set_key(top->set) ? *at : set_key(top->set);
        uint64_t stop = top->end < until ? top->end : until;
        if (from < stop) {
            if (!add_rows(l, m, top, from, stop))
                return false;
            *at = stop;
        }
        if (top->end > until)
            break;
        --*depth;
    }
    return true;
}

/* Of sets that start together, the one that belongs to the procedure there. */
static size_t choose_set(const pdb_module *m, size_t first, size_t end, const proc_at *chosen,
                         size_t count, size_t *proc, const uint32_t *set_of_proc)
{
    uint64_t key = set_key(&m->line_sets[first]);
    while (*proc < count && chosen[*proc].key < key)
        ++*proc;
    if (*proc == count || chosen[*proc].key != key)
        return first;
    uint32_t set = set_of_proc[chosen[*proc].proc];
    return set >= first && set < end ? set : first;
}

static bool make_spans(const pdb_module *m, const proc_at *chosen, size_t count, pdb_layout *l)
{
    open_set *open = calloc(m->line_set_count + 1, sizeof *open);
    if (!open)
        return false;
    size_t depth = 0, proc = 0;
    uint64_t at = 0;
    bool ok = true;
    for (size_t i = 0, end; i < m->line_set_count && ok; i = end) {
        uint64_t key = set_key(&m->line_sets[i]);
        for (end = i + 1; end < m->line_set_count && set_key(&m->line_sets[end]) == key;)
            end++;
        size_t taken = choose_set(m, i, end, chosen, count, &proc, l->set_of_proc);
        const pdb_line_set *s = &m->line_sets[taken];
        uint32_t size = s->size < UINT32_MAX - s->off ? s->size : UINT32_MAX - s->off;
        ok = drain(l, m, open, &depth, &at, key);
        open[depth++] = (open_set){s, key + size, 0};
    }
    ok = ok && drain(l, m, open, &depth, &at, UINT64_MAX);
    free(open);
    return ok;
}

/* ------------------------------------------------------------------ the whole */

static bool make(pdb_backend *b, const pdb_module *m, pdb_layout *l)
{
    l->set_of_proc = malloc((m->proc_count + 1) * sizeof *l->set_of_proc);
    l->files = calloc(m->file_count + 1, sizeof *l->files);
    proc_at *order = calloc(m->proc_count + 1, sizeof *order);
    bool ok = l->set_of_proc && l->files && order;
    if (ok) {
        for (size_t i = 0; i < m->proc_count; i++)
            l->set_of_proc[i] = PDB_NONE;
        for (size_t i = 0; i < m->file_count; i++)
            l->files[i] = intern_add(b->image->names, m->files[i].name);
        size_t count = order_procs(m, order);
        pair_sets(m, order, count, l->set_of_proc);
        count = choose_procs(b, m, order, count);
        ok = make_pieces(m, order, count, l) && make_spans(m, order, count, l) &&
             !b->image->names->failed;
    }
    free(order);
    return ok;
}

spgo_code pdb_layout_make(pdb_backend *b, const pdb_module *m, pdb_layout *out, spgo_error *err)
{
    *out = (pdb_layout){0};
    if (make(b, m, out))
        return SPGO_OK;
    pdb_layout_free(out);
    return spgo_fail_nomem(err, "symbol.pdb", m->line_count * sizeof *out->spans);
}

void pdb_layout_free(pdb_layout *l)
{
    free(l->pieces);
    free(l->spans);
    free(l->set_of_proc);
    free(l->files);
    *l = (pdb_layout){0};
}
