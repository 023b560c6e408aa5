/*
 * What a PE image says of its functions without debug information: the names of exports and COFF
 * symbols, and the extents of unwind tables. Leaf functions are in no unwind table; what has a name
 * and no extent reaches to whatever comes next.
 */
#include <symbol/symbol_internal.h>

#include <stdlib.h>
#include <string.h>

/* A name for an address; names of symbols are nearer to the source than those of exports. */
typedef struct named {
    uint32_t rva;
    bool is_export;
    spgo_str name;
} named;

typedef struct names {
    named *rows;
    size_t count, capacity;
} names;

static bool add_name(names *list, uint32_t rva, bool is_export, spgo_str name)
{
    if (list->count == list->capacity) {
        size_t bigger = list->capacity ? 2 * list->capacity : 64;
        named *grown = realloc(list->rows, bigger * sizeof *grown);
        if (!grown)
            return false;
        list->rows = grown;
        list->capacity = bigger;
    }
    list->rows[list->count++] = (named){rva, is_export, name};
    return true;
}

static bool is_code(const pe_image *pe, uint32_t rva)
{
    size_t index;
    return pe_section_of_rva(pe, rva, &index) &&
           pe_section_at(pe, index).flags & (PE_SECTION_EXECUTE | PE_SECTION_CODE);
}

/* Exports and symbols that cannot be read are findings: the others are still of use. */
static bool add_exports(const pe_image *pe, names *list, diag *d)
{
    pe_exports exports;
    spgo_error why;
    spgo_code code = pe_exports_open(pe, &exports, &why);
    if (code != SPGO_OK) {
        diag_add(d, code, why.offset, "the exports are left out: %.200s", why.sentence);
        return true;
    }
    for (size_t i = 0; i < exports.names.count; i++) {
        pe_export e = pe_export_by_name(&exports, i);
        if (e.rva != 0 && !e.is_forwarder && e.name.len > 0 && is_code(pe, e.rva) &&
            !add_name(list, e.rva, true, e.name))
            return false;
    }
    return true;
}

/* Names of sections (".text") stand among the symbols too, and labels of assembler. */
static bool is_function(const pe_symbol *s)
{
    if (!s->has_rva || s->section <= 0 || s->name.len == 0)
        return false;
    bool is_typed = s->type >> 4 == PE_SYMBOL_FUNCTION;
    bool is_global = s->storage_class == PE_SYMBOL_EXTERNAL;
    return is_typed ? is_global || s->storage_class == PE_SYMBOL_STATIC : is_global;
}

static bool add_symbols(const pe_image *pe, names *list, diag *d)
{
    pe_symbols table;
    pe_symbol s;
    spgo_error why;
    spgo_code code = pe_symbols_open(pe, &table, &why);
    if (code != SPGO_OK) {
        diag_add(d, code, why.offset, "the COFF symbols are left out: %.200s", why.sentence);
        return true;
    }
    while (pe_symbols_next(&table, &s))
        if (is_function(&s) && is_code(pe, s.rva) && !add_name(list, s.rva, false, s.name))
            return false;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const named *x = a, *y = b;
    if (x->rva != y->rva)
        return x->rva < y->rva ? -1 : 1;
    size_t shared = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, shared);
    if (order != 0)
        return order;
    if (x->name.len != y->name.len)
        return x->name.len < y->name.len ? -1 : 1;
    return x->is_export - y->is_export;
}

/* Each name once at an address. */
static void settle_names(names *list)
{
    if (list->count > 0)
        qsort(list->rows, list->count, sizeof *list->rows, by_place);
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        const named *x = &list->rows[i], *last = n ? &list->rows[n - 1] : NULL;
        if (last && last->rva == x->rva && last->name.len == x->name.len &&
            memcmp(last->name.ptr, x->name.ptr, x->name.len) == 0)
            continue;
        list->rows[n++] = *x;
    }
    list->count = n;
}

/* ------------------------------------------------------------------ procedures */

typedef struct lister {
    const symbol_image *image;
    symbol_found *found;
    names names;
    pe_extents extents;
} lister;

static bool add_found(lister *s, uint32_t entry, spgo_str name, const flow_extent *pieces,
                      size_t count)
{
    return symbol_found_add(s->found, &(symbol_procedure){.entry_rva = entry,
                                                          .name = name,
                                                          .pieces = pieces,
                                                          .piece_count = (uint32_t)count,
                                                          .flags = SYMBOL_SIZE_GUESSED,
                                                          .thunk_target_rva = UINT32_MAX});
}

static size_t names_from(const names *list, uint32_t rva)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (list->rows[mid].rva < rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A function of the unwind tables, once for each of its names. */
static bool add_extents(lister *s, const pe_function *f)
{
    flow_extent *pieces = arena_push(s->image->mem, f->piece_count, sizeof *pieces);
    if (!pieces)
        return false;
    bool has_entry = false;
    for (size_t i = 0; i < f->piece_count; i++) {
        const pe_extent *e = &f->pieces[i];
        pieces[i] = (flow_extent){e->begin_rva, e->end_rva};
        has_entry = has_entry || (f->rva >= e->begin_rva && f->rva < e->end_rva);
    }
    if (!has_entry)
        return true;
    size_t i = names_from(&s->names, f->rva), first = i;
    for (; i < s->names.count && s->names.rows[i].rva == f->rva; i++)
        if (!add_found(s, f->rva, s->names.rows[i].name, pieces, f->piece_count))
            return false;
    return i > first || add_found(s, f->rva, (spgo_str){"", 0}, pieces, f->piece_count);
}

static uint32_t section_end(const pe_image *pe, uint32_t rva)
{
    size_t index;
    if (!pe_section_of_rva(pe, rva, &index))
        return rva;
    pe_section section = pe_section_at(pe, index);
    uint32_t size = section.virtual_size ? section.virtual_size : section.raw_size;
    return size <= UINT32_MAX - section.rva ? section.rva + size : UINT32_MAX;
}

/* Pieces by address, to tell what is in none of them. */
static int extent_by_begin(const void *a, const void *b)
{
    const pe_extent *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->end_rva < y->end_rva ? -1 : x->end_rva > y->end_rva;
}

/* Names that no unwind table covers: leaf functions. `by_begin` is the tables' pieces in that
 * order. */
static bool add_leaves(lister *s, const pe_extent *by_begin)
{
    size_t piece = 0;
    uint32_t reached = 0;
    for (size_t i = 0, end; i < s->names.count; i = end) {
        uint32_t rva = s->names.rows[i].rva;
        for (end = i + 1; end < s->names.count && s->names.rows[end].rva == rva;)
            end++;
        for (; piece < s->extents.count && by_begin[piece].begin_rva <= rva; piece++)
            if (by_begin[piece].end_rva > reached)
                reached = by_begin[piece].end_rva;
        if (rva < reached)
            continue;
        uint32_t stop = section_end(&s->image->pe, rva);
        uint32_t next = piece < s->extents.count ? by_begin[piece].begin_rva : UINT32_MAX;
        stop = next < stop ? next : stop;
        if (end < s->names.count && s->names.rows[end].rva < stop)
            stop = s->names.rows[end].rva;
        if (stop <= rva)
            continue;
        flow_extent *pieces = arena_push(s->image->mem, 1, sizeof *pieces);
        if (!pieces)
            return false;
        *pieces = (flow_extent){rva, stop};
        for (size_t k = i; k < end; k++)
            if (!add_found(s, rva, s->names.rows[k].name, pieces, 1))
                return false;
    }
    return true;
}

static bool list_all(lister *s, diag *d)
{
    const pe_image *pe = &s->image->pe;
    if (!add_symbols(pe, &s->names, d) || !add_exports(pe, &s->names, d))
        return false;
    settle_names(&s->names);
    size_t at = 0;
    pe_function f;
    while (pe_function_next(&s->extents, &at, &f))
        if (!add_extents(s, &f))
            return false;
    pe_extent *by_begin = malloc((s->extents.count + 1) * sizeof *by_begin);
    if (!by_begin)
        return false;
    if (s->extents.count > 0)
        memcpy(by_begin, s->extents.rows, s->extents.count * sizeof *by_begin);
    qsort(by_begin, s->extents.count, sizeof *by_begin, extent_by_begin);
    bool ok = add_leaves(s, by_begin);
    free(by_begin);
    return ok;
}

spgo_code symbol_pe_procedures(const symbol_image *image, symbol_found *out, diag *d,
                               spgo_error *err)
{
    static const char where[] = "symbol.pe";
    if (!image->is_pe)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "the image is no PE file");
    lister s = {.image = image, .found = out};
    spgo_error why;
    spgo_code code = pe_extents_build(&image->pe, image->mem, &s.extents, d, &why);
    if (code == SPGO_NOMEM) {
        if (err)
            *err = why;
        return code;
    }
    if (code != SPGO_OK) {
        s.extents = (pe_extents){0};
        /* 32-bit images have no such tables, and lack nothing. */
        if (image->pe.machine != PE_MACHINE_I386)
            diag_add(d, code, why.offset, "the unwind tables are left out: %.200s", why.sentence);
    }
    size_t before = out->count;
    bool ok = list_all(&s, d);
    free(s.names.rows);
    if (!ok)
        return spgo_fail_nomem(err, where, s.names.count * sizeof *s.names.rows);
    if (out->count == before)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                         "the image has no exports, no COFF symbols and no unwind tables");
    return SPGO_OK;
}
