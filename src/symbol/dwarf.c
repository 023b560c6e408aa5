/*
 * The back end that reads DWARF, of ELF and of PE images, with elfutils' libdw: which units there
 * are and what code they have, and the procedures. doc/formats/dwarf.md has the rules.
 */
#include <symbol/dwarf_internal.h>

#include <string.h>

#if SPGO_HAVE_DWARF

#include <inttypes.h>
#include <stdlib.h>

#include <base/hash.h>

static const char where[] = "dwarf";

/* ------------------------------------------------------------------ units */

/* Functions of a unit whose own DIE does not say where its code is. */
typedef struct range_list {
    dbg_file *f;
    size_t capacity;
    uint32_t unit;
} range_list;

static void add_unit_ranges(range_list *l, Dwarf_Die *die)
{
    dbg_file *f = l->f;
    dbg_extents(f, &f->units[l->unit], die);
    for (size_t i = 0; i < f->extent_count; i++) {
        void *list = f->ranges;
        f->no_memory |= !dbg_room(&list, f->range_count, &l->capacity, sizeof *f->ranges);
        f->ranges = list;
        if (f->no_memory)
            return;
        f->ranges[f->range_count++] =
            (dbg_unit_range){f->extents[i].begin_rva, f->extents[i].end_rva, l->unit};
    }
}

static uint32_t visit_for_ranges(void *ctx, Dwarf_Die *die, int tag, uint32_t parent)
{
    if (tag == DW_TAG_inlined_subroutine)
        return DBG_PRUNE;
    if (tag == DW_TAG_subprogram)
        add_unit_ranges(ctx, die);
    return parent;
}

static void read_unit_ranges(range_list *l)
{
    dbg_unit *unit = &l->f->units[l->unit];
    const size_t before = l->f->range_count;
    add_unit_ranges(l, &unit->die);
    if (l->f->range_count == before)
        (void)dbg_walk(l->f, &unit->code, visit_for_ranges, l);
}

static int by_begin(const void *a, const void *b)
{
    const dbg_unit_range *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Of units that claim the same bytes the first one keeps them. */
static void sort_ranges(dbg_file *f)
{
    size_t kept = 0;
    if (f->range_count == 0)
        return;
    qsort(f->ranges, f->range_count, sizeof *f->ranges, by_begin);
    for (size_t i = 0; i < f->range_count; i++) {
        dbg_unit_range r = f->ranges[i];
        dbg_unit_range *last = kept > 0 ? &f->ranges[kept - 1] : NULL;
        if (last && r.begin_rva < last->end_rva)
            r.begin_rva = last->end_rva;
        if (r.begin_rva >= r.end_rva)
            continue;
        if (last && last->unit == r.unit && last->end_rva == r.begin_rva)
            last->end_rva = r.end_rva;
        else
            f->ranges[kept++] = r;
    }
    f->range_count = kept;
}

/* A skeleton stands for a unit whose DIEs are in a .dwo file; it may hold what is needed all the
 * same (-fsplit-dwarf-inlining). */
static bool add_unit(dbg_file *f, size_t *capacity, Dwarf_CU *cu, Dwarf_Die *die,
                     size_t *split_count)
{
    void *list = f->units;
    f->no_memory |= !dbg_room(&list, f->unit_count, capacity, sizeof *f->units);
    f->units = list;
    if (f->no_memory || f->unit_count >= UINT32_MAX)
        return false;
    dbg_unit unit = {.die_off = dwarf_dieoffset(die), .die = *die, .code = *die};
    uint8_t type = 0;
    if (dwarf_cu_info(cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) == 0 &&
        type == DW_UT_skeleton && dwarf_haschildren(die) != 1) {
        Dwarf_Die split;
        if (dwarf_cu_info(cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) == 0 && split.addr)
            unit.code = split;
        else
            ++*split_count;
    }
    f->units[f->unit_count++] = unit;
    return true;
}

static void read_units(dbg_file *f, diag *d)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t type;
    size_t capacity = 0, split_count = 0;
    int result;
    while ((result = dwarf_get_units(f->dwarf, cu, &cu, NULL, &type, &die, NULL)) == 0) {
        const bool has_code = type == DW_UT_compile || type == DW_UT_skeleton;
        if (has_code && die.addr && !add_unit(f, &capacity, cu, &die, &split_count))
            break;
    }
    if (result < 0)
        diag_add(d, SPGO_CORRUPT, SPGO_NO_OFFSET,
                 ".debug_info is damaged behind its first %zu units (%s); they are used",
                 f->unit_count, dwarf_errmsg(-1));
    if (split_count > 0)
        diag_add(d, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
                 "%zu of %zu units are in .dwo files that are not there (.dwp files are not read): "
                 "their code has no functions; build without -gsplit-dwarf",
                 split_count, f->unit_count);
    if (f->lacks_alternate)
        diag_add(d, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
                 "parts of the DWARF are in a file that .gnu_debugaltlink names (made by dwz) and "
                 "that is not there: some functions have no names or lines");
    range_list ranges = {.f = f};
    for (size_t i = 0; i < f->unit_count && !f->no_memory; i++) {
        ranges.unit = (uint32_t)i;
        read_unit_ranges(&ranges);
    }
    sort_ranges(f);
}

static bool unit_at(void *self, uint32_t rva, uint32_t *unit)
{
    const dbg_file *f = self;
    size_t low = 0, high = f->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->ranges[middle].end_rva <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == f->range_count || f->ranges[low].begin_rva > rva)
        return false;
    *unit = f->ranges[low].unit;
    return true;
}

static spgo_code read_unit(void *self, uint32_t unit, symbol_unit *out, arena *mem, diag *d,
                           spgo_error *err)
{
    dbg_file *f = self;
    return dbg_unit_read(f, &f->units[unit], out, mem, d, err);
}

/* ------------------------------------------------------------------ procedures */

typedef struct procedure_reader {
    dbg_file *f;
    dbg_unit *unit;
    symbol_found *out;
    arena *mem;
    bool no_memory;
} procedure_reader;

/* DW_AT_entry_pc or DW_AT_low_pc; a function of several ranges is entered at the first of them,
 * which is not always the lowest. */
static uint32_t entry_of(const dbg_file *f, Dwarf_Die *die)
{
    Dwarf_Addr addr;
    if (dwarf_entrypc(die, &addr) == 0) {
        const uint64_t rva = addr - f->image->code.base_addr;
        for (size_t i = 0; i < f->extent_count; i++) {
            if (rva >= f->extents[i].begin_rva && rva < f->extents[i].end_rva)
                return (uint32_t)rva;
        }
    }
    return f->extents[0].begin_rva;
}

static bool never_returns(Dwarf_Die *die)
{
    Dwarf_Attribute a;
    bool value = false;
    return dwarf_attr_integrate(die, DW_AT_noreturn, &a) && dwarf_formflag(&a, &value) == 0 &&
           value;
}

static void add_procedure(procedure_reader *p, Dwarf_Die *die)
{
    dbg_file *f = p->f;
    dbg_extents(f, p->unit, die);
    if (f->extent_count == 0)
        return;
    const symbol_function *function = dbg_function(f, p->unit, die);
    const uint32_t entry_rva = entry_of(f, die);
    flow_extent *pieces = arena_push(p->mem, f->extent_count, sizeof *pieces);
    if (!pieces || !function) {
        p->no_memory = true;
        return;
    }
    memcpy(pieces, f->extents, f->extent_count * sizeof *pieces);
    const size_t piece_count = symbol_join_extents(pieces, f->extent_count);
    const symbol_procedure made = {.entry_rva = entry_rva,
                                   .name = function->linkage_name.len > 0 ? function->linkage_name
                                                                          : function->name,
                                   .function = function,
                                   .pieces = pieces,
                                   .piece_count = (uint32_t)piece_count,
                                   .flags = never_returns(die) ? SYMBOL_NO_RETURN : 0,
                                   .thunk_target_rva = UINT32_MAX};
    p->no_memory |= !symbol_found_add(p->out, &made);
}

static uint32_t visit_for_procedures(void *ctx, Dwarf_Die *die, int tag, uint32_t parent)
{
    procedure_reader *p = ctx;
    if (tag == DW_TAG_inlined_subroutine || p->no_memory || p->f->no_memory)
        return DBG_PRUNE;
    if (tag == DW_TAG_subprogram)
        add_procedure(p, die);
    return parent;
}

static spgo_code procedures(void *self, symbol_found *out, arena *mem, diag *d, spgo_error *err)
{
    procedure_reader p = {.f = self, .out = out, .mem = mem};
    p.f->findings = d;
    for (size_t i = 0; i < p.f->unit_count; i++) {
        p.unit = &p.f->units[i];
        if (!dbg_walk(p.f, &p.unit->code, visit_for_procedures, &p))
            diag_add(d, SPGO_CORRUPT, (uint64_t)p.unit->die_off,
                     "unit at 0x%" PRIx64 " of .debug_info is damaged: functions may be missing",
                     (uint64_t)p.unit->die_off);
    }
    p.f->findings = NULL;
    if (p.no_memory || p.f->no_memory)
        return spgo_fail_nomem(err, where, out->count * sizeof *out->procedures);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ open and close */

static void close_file(void *self)
{
    dbg_file *f = self;
    if (!f)
        return;
    dbg_elf_close(f);
    dbg_tables_free(f);
    free(f->units);
    free(f->ranges);
    free(f->extents);
    bytes_free(&f->joined);
    free(f);
}

spgo_code symbol_dwarf_open(const symbol_image *image, const symbols_opts *opts,
                            symbol_backend *out, diag *d, spgo_error *err)
{
    (void)opts;
    dbg_file *f = calloc(1, sizeof *f);
    if (!f)
        return spgo_fail_nomem(err, where, sizeof *f);
    f->image = image;
    f->texts.names = image->names;
    f->seed = hash_seed(f);
    spgo_code code = dbg_elf_open(f, err);
    if (code == SPGO_OK) {
        read_units(f, d);
        if (f->no_memory)
            code = spgo_fail_nomem(err, where, f->unit_count * sizeof *f->units);
        else if (f->unit_count == 0)
            code = spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                             "the DWARF of the file has no compilation units");
    }
    if (code != SPGO_OK) {
        close_file(f);
        return code;
    }
    *out = (symbol_backend){.self = f,
                            .unit_at = unit_at,
                            .read_unit = read_unit,
                            .procedures = procedures,
                            .close = close_file};
    return SPGO_OK;
}

#else

#include <symbol/image.h>

spgo_code symbol_dwarf_open(const symbol_image *image, const symbols_opts *opts,
                            symbol_backend *out, diag *d, spgo_error *err)
{
    (void)opts;
    (void)d;
    *out = (symbol_backend){0};
    if (!image_has_dwarf(image))
        return spgo_fail(err, SPGO_NOT_FOUND, "dwarf", SPGO_NO_OFFSET, "there is no .debug_info");
    return spgo_fail(err, SPGO_UNSUPPORTED, "dwarf", SPGO_NO_OFFSET,
                     "the image has DWARF, but this build cannot read it: it was made without "
                     "elfutils' libdw (Debian: libdw-dev)");
}

#endif
