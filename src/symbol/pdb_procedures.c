/*
 * What stands in an image by its PDB: procedures with their separated code, thunks, and where there
 * is neither (assembler, stripped PDBs, those of /DEBUG:FASTLINK) public functions, whose sizes are
 * guesses. All modules are read for it, one after the other.
 */
#include <symbol/pdb_backend.h>

#include <stdlib.h>
#include <string.h>

#define UNKNOWN_TARGET UINT32_MAX

/* Bytes that a record of a module describes. */
typedef struct covered {
    uint64_t begin, end;
    size_t procedure; /* among those found */
    bool is_start;
} covered;

typedef struct lister {
    pdb_backend *b;
    symbol_found *found;
    arena *mem;
    diag *d;
    spgo_error *err;
    covered *covered;
    size_t covered_count, covered_capacity;
    bool *claimed; /* by public: it is the name of a procedure */
    pe_extents extents;
    /* of one procedure */
    flow_extent *pieces;
    size_t piece_count, piece_capacity;
} lister;

static spgo_code no_memory(const lister *s, size_t size)
{
    return spgo_fail_nomem(s->err, "symbol.pdb", size);
}

/* ------------------------------------------------------------------ pieces */

static bool add_piece(lister *s, uint32_t rva, uint32_t length)
{
    if (length == 0 || length > UINT32_MAX - rva)
        return true;
    flow_extent *grown =
        pdb_grown(s->pieces, &s->piece_capacity, s->piece_count, sizeof *s->pieces);
    if (!grown)
        return false;
    s->pieces = grown;
    s->pieces[s->piece_count++] = (flow_extent){rva, rva + length};
    return true;
}

static bool add_covered(lister *s, uint64_t begin, uint32_t length, bool is_start)
{
    covered *grown =
        pdb_grown(s->covered, &s->covered_capacity, s->covered_count, sizeof *s->covered);
    if (!grown)
        return false;
    s->covered = grown;
    s->covered[s->covered_count++] = (covered){begin, begin + length, s->found->count, is_start};
    return true;
}

/* Bytes of the linked image: where they are in the shipped one, and that they are taken. */
static bool add_bytes(lister *s, uint16_t section, uint32_t off, uint32_t length, bool is_start)
{
    enum { FEW = 16 };
    pdb_range few[FEW], *ranges = few;
    size_t count = pdb_ranges(s->b->file, section, off, length, few, FEW);
    if (count > FEW) {
        ranges = malloc(count * sizeof *ranges);
        if (!ranges)
            return false;
        (void)pdb_ranges(s->b->file, section, off, length, ranges, count);
    }
    bool ok = count == 0 || add_covered(s, pdb_key(section, off), length, is_start);
    for (size_t i = 0; i < count && ok; i++)
        ok = add_piece(s, ranges[i].rva, ranges[i].length);
    if (ranges != few)
        free(ranges);
    return ok;
}

static bool holds(const lister *s, uint32_t rva)
{
    for (size_t i = 0; i < s->piece_count; i++)
        if (rva >= s->pieces[i].begin_rva && rva < s->pieces[i].end_rva)
            return true;
    return false;
}

/* Adds p with the pieces gathered; nothing if its entry is in none of them. */
static bool add_procedure(lister *s, symbol_procedure p)
{
    s->piece_count = symbol_join_extents(s->pieces, s->piece_count);
    if (!holds(s, p.entry_rva))
        return true;
    flow_extent *pieces = arena_push(s->mem, s->piece_count, sizeof *pieces);
    if (!pieces)
        return false;
    memcpy(pieces, s->pieces, s->piece_count * sizeof *pieces);
    p.pieces = pieces;
    p.piece_count = (uint32_t)s->piece_count;
    return symbol_found_add(s->found, &p);
}

static spgo_str kept_text(const lister *s, spgo_str text)
{
    return intern_add(s->b->image->names, text);
}

/* The linker's name for what starts at a place. */
static spgo_str take_name(lister *s, const pdb_named_place *place)
{
    const pdb_public *p = pdb_public_of(s->b, place);
    if (!p)
        return kept_text(s, place->name);
    s->claimed[p - s->b->publics->publics] = true;
    return kept_text(s, p->name);
}

/* ------------------------------------------------------------------ of modules */

static bool add_no_return(pdb_backend *b, uint32_t rva)
{
    uint32_t *grown =
        pdb_grown(b->no_return, &b->no_return_capacity, b->no_return_count, sizeof *grown);
    if (!grown)
        return false;
    b->no_return = grown;
    b->no_return[b->no_return_count++] = rva;
    return true;
}

static bool add_proc(lister *s, const pdb_module *m, uint32_t index)
{
    const pdb_proc *proc = &m->procs[index];
    if (proc->rva == PDB_NO_RVA || proc->length == 0)
        return true;
    s->piece_count = 0;
    if (!add_bytes(s, proc->section, proc->off, proc->length, true))
        return false;
    for (uint32_t i = 0; i < proc->chunk_count; i++) {
        const pdb_chunk *c = &m->chunks[proc->first_chunk + i];
        if (!add_bytes(s, c->section, c->off, c->length, false))
            return false;
    }
    pdb_named_place place = pdb_place_of(proc);
    symbol_procedure p = {.entry_rva = proc->rva,
                          .name = take_name(s, &place),
                          .function = pdb_function_of_proc(s->b, m, index),
                          .thunk_target_rva = UNKNOWN_TARGET};
    if (!p.function)
        return false;
    if (proc->flags & PDB_PROC_NO_RETURN) {
        p.flags |= SYMBOL_NO_RETURN;
        if (!add_no_return(s->b, proc->rva))
            return false;
    }
    return add_procedure(s, p);
}

static bool add_thunk(lister *s, const pdb_named_place *place, uint32_t rva, uint32_t length,
                      uint32_t target_rva)
{
    if (rva == PDB_NO_RVA)
        return true;
    s->piece_count = 0;
    symbol_procedure p = {.entry_rva = rva,
                          .name = take_name(s, place),
                          .flags = SYMBOL_THUNK,
                          .thunk_target_rva = target_rva};
    return add_bytes(s, place->section, place->off, length, true) && add_procedure(s, p);
}

static bool add_thunks(lister *s, const pdb_module *m)
{
    for (size_t i = 0; i < m->thunk_count; i++) {
        const pdb_thunk *t = &m->thunks[i];
        pdb_named_place place = {t->name, t->off, t->section, false};
        if (!add_thunk(s, &place, t->rva, t->length, UNKNOWN_TARGET))
            return false;
    }
    for (size_t i = 0; i < m->trampoline_count; i++) {
        const pdb_trampoline *t = &m->trampolines[i];
        pdb_named_place place = {{"", 0}, t->off, t->section, true};
        if (!add_thunk(s, &place, t->rva, t->length, t->target_rva))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ hints */

/* Pointers are left out: nothing says what they would be added to. */
static bool entry_form(const pdb_switch_table *t, flow_table *out)
{
    static const struct {
        uint8_t size;
        bool is_signed, is_shifted;
    } forms[] = {{1, true, false}, {1, false, false}, {2, true, false},  {2, false, false},
                 {4, true, false}, {4, false, false}, {0, false, false}, {1, false, true},
                 {2, false, true}, {1, true, true},   {2, true, true}};
    if (t->entry_type >= sizeof forms / sizeof *forms || forms[t->entry_type].size == 0)
        return false;
    out->entry_size = forms[t->entry_type].size;
    out->is_signed = forms[t->entry_type].is_signed;
    out->shift = forms[t->entry_type].is_shifted;
    return true;
}

static bool add_table(pdb_backend *b, const pdb_switch_table *t)
{
    flow_table table = {.branch_rva = pdb_rva(b->file, t->branch_section, t->branch_off),
                        .base_rva = pdb_rva(b->file, t->base_section, t->base_off),
                        .table_rva = pdb_rva(b->file, t->table_section, t->table_off),
                        .entry_count = t->entry_count};
    if (table.branch_rva == PDB_NO_RVA || table.base_rva == PDB_NO_RVA ||
        table.table_rva == PDB_NO_RVA || !entry_form(t, &table))
        return true;
    flow_table *grown = pdb_grown(b->tables, &b->table_capacity, b->table_count, sizeof *grown);
    if (!grown)
        return false;
    b->tables = grown;
    b->tables[b->table_count++] = table;
    return true;
}

static bool add_label(pdb_backend *b, const pdb_label *label)
{
    uint32_t rva = pdb_rva(b->file, label->section, label->off);
    if (rva == PDB_NO_RVA)
        return true;
    uint32_t *grown = pdb_grown(b->labels, &b->label_capacity, b->label_count, sizeof *grown);
    if (!grown)
        return false;
    b->labels = grown;
    b->labels[b->label_count++] = rva;
    return true;
}

static bool add_hints(pdb_backend *b, const pdb_module *m)
{
    for (size_t i = 0; i < m->switch_table_count; i++)
        if (!add_table(b, &m->switch_tables[i]))
            return false;
    for (size_t i = 0; i < m->label_count; i++)
        if (!add_label(b, &m->labels[i]))
            return false;
    return true;
}

static int table_by_branch(const void *a, const void *b)
{
    const flow_table *x = a, *y = b;
    if (x->branch_rva != y->branch_rva)
        return x->branch_rva < y->branch_rva ? -1 : 1;
    return x->table_rva < y->table_rva ? -1 : x->table_rva > y->table_rva;
}

static int by_rva(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static size_t sort_distinct(uint32_t *rvas, size_t count)
{
    if (count > 0)
        qsort(rvas, count, sizeof *rvas, by_rva);
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (n == 0 || rvas[i] != rvas[n - 1])
            rvas[n++] = rvas[i];
    return n;
}

static void settle_hints(pdb_backend *b)
{
    if (b->table_count > 0)
        qsort(b->tables, b->table_count, sizeof *b->tables, table_by_branch);
    b->label_count = sort_distinct(b->labels, b->label_count);
    b->no_return_count = sort_distinct(b->no_return, b->no_return_count);
}

static size_t labels_before(const pdb_backend *b, uint32_t rva)
{
    size_t low = 0, high = b->label_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->labels[mid] < rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t tables_before(const pdb_backend *b, uint32_t rva)
{
    size_t low = 0, high = b->table_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->tables[mid].branch_rva < rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Of a procedure in one piece, views; of others, copies from what lies in each piece. Without
 * memory there are fewer hints. */
void pdb_give_hints(void *self, const symbol_procedure *p, flow_hints *out, arena *mem)
{
    const pdb_backend *b = self;
    size_t labels = 0, tables = 0;
    for (uint32_t i = 0; i < p->piece_count; i++) {
        const flow_extent *e = &p->pieces[i];
        labels += labels_before(b, e->end_rva) - labels_before(b, e->begin_rva);
        tables += tables_before(b, e->end_rva) - tables_before(b, e->begin_rva);
    }
    out->no_return = b->no_return;
    out->no_return_count = b->no_return_count;
    if (p->piece_count == 1) {
        out->leaders = labels ? b->labels + labels_before(b, p->pieces->begin_rva) : NULL;
        out->leader_count = labels;
        out->tables = tables ? b->tables + tables_before(b, p->pieces->begin_rva) : NULL;
        out->table_count = tables;
        return;
    }
    uint32_t *leaders = arena_push(mem, labels, sizeof *leaders);
    flow_table *copies = arena_push(mem, tables, sizeof *copies);
    for (uint32_t i = 0; i < p->piece_count && leaders && copies; i++) {
        const flow_extent *e = &p->pieces[i];
        size_t end = labels_before(b, e->end_rva);
        for (size_t k = labels_before(b, e->begin_rva); k < end; k++)
            leaders[out->leader_count++] = b->labels[k];
        end = tables_before(b, e->end_rva);
        for (size_t k = tables_before(b, e->begin_rva); k < end; k++)
            copies[out->table_count++] = b->tables[k];
    }
    out->leaders = leaders;
    out->tables = copies;
}

/* ------------------------------------------------------------------ public functions */

static int covered_by_begin(const void *a, const void *b)
{
    const covered *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->is_start != y->is_start)
        return x->is_start ? -1 : 1;
    return x->procedure < y->procedure ? -1 : x->procedure > y->procedure;
}

/* How many start at or before an address. */
static size_t covered_to(const lister *s, uint64_t key)
{
    size_t low = 0, high = s->covered_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->covered[mid].begin <= key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Ends become those reached so far, so that the last one at or before an address tells whether any
 * covers it. */
static void settle_covered(lister *s)
{
    if (s->covered_count > 0)
        qsort(s->covered, s->covered_count, sizeof *s->covered, covered_by_begin);
    for (size_t i = 1; i < s->covered_count; i++)
        if (s->covered[i].end < s->covered[i - 1].end)
            s->covered[i].end = s->covered[i - 1].end;
}

/* The first of the pieces that unwind information knows of a function. */
static size_t find_extents(const lister *s, uint32_t rva, size_t *count)
{
    size_t low = 0, high = s->extents.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->extents.rows[mid].function_rva < rva)
            low = mid + 1;
        else
            high = mid;
    }
    *count = 0;
    while (low + *count < s->extents.count && s->extents.rows[low + *count].function_rva == rva)
        ++*count;
    return low;
}

/* A public function that no record describes reaches to whatever comes next. */
static bool add_guessed(lister *s, const pdb_public *p, size_t cover)
{
    const pdb_backend *b = s->b;
    const pdb_contribution *c = pdb_contribution_at(b->file, p->section, p->off);
    uint64_t key = pdb_key(p->section, p->off), end = key + 1;
    if (c)
        end = pdb_key(c->section, c->off) + c->size;
    size_t next = pdb_entries_to(b, key);
    if (next < b->entry_count) {
        uint64_t next_key = pdb_key(b->entries[next]->section, b->entries[next]->off);
        end = next_key < end ? next_key : end;
    }
    if (cover < s->covered_count && s->covered[cover].begin < end)
        end = s->covered[cover].begin;
    s->piece_count = 0;
    size_t rows, first = find_extents(s, p->rva, &rows);
    for (size_t i = first; i < first + rows; i++) {
        const pe_extent *e = &s->extents.rows[i];
        if (!add_piece(s, e->begin_rva, e->end_rva - e->begin_rva))
            return false;
    }
    size_t covered_before = s->covered_count;
    if (rows == 0 && !add_bytes(s, p->section, p->off, (uint32_t)(end - key), true))
        return false;
    s->covered_count = covered_before; /* sorted, and complete */
    return add_procedure(s, (symbol_procedure){.entry_rva = p->rva,
                                               .name = kept_text(s, p->name),
                                               .flags = SYMBOL_SIZE_GUESSED,
                                               .thunk_target_rva = UNKNOWN_TARGET});
}

/* Another name of a procedure. One that is not marked as a function, as linkers leave the aliases
 * that LLVM makes of merged functions, never stands before those that are. */
static bool add_alias(lister *s, const pdb_public *p, const covered *c)
{
    if (c->procedure >= s->found->count)
        return true;
    symbol_procedure alias = s->found->procedures[c->procedure];
    if (alias.entry_rva != p->rva)
        return true;
    alias.name = kept_text(s, p->name);
    if (!(p->flags & PDB_PUBLIC_FUNCTION))
        alias.function = NULL;
    return symbol_found_add(s->found, &alias);
}

static bool add_publics(lister *s)
{
    const pdb_publics *publics = s->b->publics;
    settle_covered(s);
    for (size_t i = 0; i < publics->public_count; i++) {
        const pdb_public *p = &publics->publics[i];
        if (p->rva == PDB_NO_RVA || s->claimed[i])
            continue;
        uint64_t key = pdb_key(p->section, p->off);
        size_t cover = covered_to(s, key);
        const covered *c = cover > 0 ? &s->covered[cover - 1] : NULL;
        const bool is_covered = c && c->end > key;
        bool ok = true;
        if (!is_covered && p->flags & PDB_PUBLIC_FUNCTION)
            ok = add_guessed(s, p, cover);
        else if (is_covered && c->begin == key && p->name.len > 0)
            ok = add_alias(s, p, c);
        if (!ok)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ the whole */

static spgo_code list_module(lister *s, uint32_t unit)
{
    pdb_module *m;
    pdb_layout l;
    SPGO_TRY(pdb_with_module(s->b, unit, &m, &l, s->d, s->err));
    if (!m)
        return SPGO_OK;
    spgo_code code = pdb_settle_functions(s->b, m, &l, false, s->err);
    bool ok = true;
    for (uint32_t i = 0; i < m->proc_count && ok && code == SPGO_OK; i++)
        ok = add_proc(s, m, i);
    if (code == SPGO_OK && !(ok && add_thunks(s, m) && add_hints(s->b, m)))
        code = no_memory(s, m->proc_count * sizeof(symbol_procedure));
    pdb_layout_free(&l);
    pdb_module_free(m);
    return code;
}

static spgo_code list_all(lister *s)
{
    pdb_backend *b = s->b;
    SPGO_TRY(pdb_need_publics(b, s->d, s->err));
    s->claimed = calloc(b->publics->public_count + 1, sizeof *s->claimed);
    if (!s->claimed)
        return no_memory(s, b->publics->public_count);
    for (size_t i = 0; i < pdb_module_count(b->file); i++)
        SPGO_TRY(list_module(s, (uint32_t)i));
    settle_hints(b);
    /* Without unwind information sizes are guessed from what comes next. */
    if (b->image->is_pe &&
        pe_extents_build(&b->image->pe, s->mem, &s->extents, NULL, NULL) != SPGO_OK)
        s->extents = (pe_extents){0};
    if (!add_publics(s) || b->image->names->failed)
        return no_memory(s, b->publics->public_count * sizeof(symbol_procedure));
    return SPGO_OK;
}

spgo_code pdb_list_procedures(void *self, symbol_found *out, arena *mem, diag *d, spgo_error *err)
{
    lister s = {.b = self, .found = out, .mem = mem, .d = d, .err = err};
    spgo_code code = list_all(&s);
    free(s.covered);
    free(s.claimed);
    free(s.pieces);
    return code;
}
