/* Walking DIEs, and what is asked of them. */
#include <symbol/dwarf_internal.h>

#if SPGO_HAVE_DWARF

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Inlining nests some tens of levels deep. The bound keeps the stack from overflowing. */
enum { DEPTH_MAX = 512 };

bool dbg_room(void **list, size_t count, size_t *capacity, size_t elem_size)
{
    if (count < *capacity)
        return true;
    size_t bigger = *capacity ? 2 * *capacity : 64;
    void *room = realloc(*list, bigger * elem_size);
    if (!room)
        return false;
    *list = room;
    *capacity = bigger;
    return true;
}

/* ------------------------------------------------------------------ the walk */

typedef struct walk {
    dbg_visit visit;
    void *ctx;
    uintptr_t last_place; /* of the DIE that was visited last */
    bool is_damaged;
} walk;

/* Code is in these, below these, or in nothing that a unit has. */
static bool may_hold_code(int tag)
{
    switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type: /* Rust and Swift have methods in theirs */
    case DW_TAG_interface_type:
        return true;
    default:
        return false;
    }
}

/* DIEs follow one another in the order of a walk, and DW_AT_sibling only leads ahead. What leads
 * back is damaged and could make the walk endless. */
static void walk_children(walk *w, Dwarf_Die *parent, uint32_t value, unsigned depth)
{
    Dwarf_Die die;
    int result = dwarf_child(parent, &die);
    if (result > 0)
        return;
    while (result == 0) {
        if ((uintptr_t)die.addr <= w->last_place || depth == DEPTH_MAX) {
            w->is_damaged = true;
            return;
        }
        w->last_place = (uintptr_t)die.addr;
        const int tag = dwarf_tag(&die);
        if (may_hold_code(tag)) {
            uint32_t own = w->visit(w->ctx, &die, tag, value);
            if (own != DBG_PRUNE)
                walk_children(w, &die, own, depth + 1);
        }
        result = dwarf_siblingof(&die, &die);
    }
    if (result < 0)
        w->is_damaged = true;
}

/* An abbreviation of thousands of attributes makes each of the DIEs it describes, which may be of a
 * single byte, as much work. Real ones have some tens. */
static bool has_sane_abbreviations(dbg_file *f, Dwarf_Die *root)
{
    enum { ATTRIBUTES_MAX = 256 };
    Dwarf_Die unit_die;
    Dwarf_Off table_off, off = 0;
    Dwarf_Abbrev *abbreviation;
    size_t length, count;
    if (!dwarf_cu_die(root->cu, &unit_die, NULL, &table_off, NULL, NULL, NULL, NULL))
        return false;
    const Dwarf *file = dwarf_cu_getdwarf(root->cu); /* that of a .dwo file has its own tables */
    if (file == f->checked_file && table_off == f->checked_abbreviations)
        return true;
    while ((abbreviation = dwarf_getabbrev(&unit_die, off, &length)) &&
           abbreviation != DWARF_END_ABBREV) {
        if (length == 0 || length > f->abbreviation_bytes_left ||
            dwarf_getattrcnt(abbreviation, &count) != 0 || count > ATTRIBUTES_MAX)
            return false;
        f->abbreviation_bytes_left -= length;
        off += length;
    }
    f->checked_file = file;
    f->checked_abbreviations = table_off;
    return true;
}

bool dbg_walk(dbg_file *f, Dwarf_Die *root, dbg_visit visit, void *ctx)
{
    if (!has_sane_abbreviations(f, root))
        return false;
    walk w = {.visit = visit, .ctx = ctx, .last_place = (uintptr_t)root->addr};
    walk_children(&w, root, DBG_NONE, 0);
    return !w.is_damaged;
}

/* ------------------------------------------------------------------ attributes */

uint64_t dbg_number(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute a;
    Dwarf_Word value;
    if (!dwarf_attr(die, attribute, &a) || dwarf_formudata(&a, &value) != 0)
        return 0;
    return value;
}

/* ------------------------------------------------------------------ line tables */

static spgo_str comp_dir_of(Dwarf_Die *unit_die)
{
    Dwarf_Attribute a;
    const char *text = NULL;
    if (dwarf_attr(unit_die, DW_AT_comp_dir, &a))
        text = dwarf_formstring(&a);
    return text ? (spgo_str){text, strlen(text)} : (spgo_str){0};
}

/* Units may share a line table, as type units do; but not so often that it is more work than the
 * section has bytes several times over. */
static bool open_lines(dbg_file *f, dbg_unit *unit, uint64_t off)
{
    spgo_error err;
    if (f->line_bytes_left == 0)
        return false;
    if (dbg_lines_open(&f->line_sections, off, comp_dir_of(&unit->die), f->image->mem, &unit->lines,
                       &err) != SPGO_OK) {
        diag_add(f->findings, err.code, err.offset, "unit at 0x%" PRIx64 " of .debug_info: %s",
                 (uint64_t)unit->die_off, err.sentence);
        return false;
    }
    const uint64_t size_bytes = unit->lines.program.len;
    if (size_bytes > f->line_bytes_left) {
        diag_add(f->findings, SPGO_LIMIT, off,
                 "so many units share line tables that the rest is left out");
        f->line_bytes_left = 0;
        return false;
    }
    f->line_bytes_left -= size_bytes;
    return true;
}

dbg_lines *dbg_unit_lines(dbg_file *f, dbg_unit *unit)
{
    Dwarf_Attribute a;
    Dwarf_Word off;
    if (!unit->has_asked_for_lines) {
        unit->has_asked_for_lines = true;
        unit->has_lines = dwarf_attr(&unit->die, DW_AT_stmt_list, &a) &&
                          dwarf_formudata(&a, &off) == 0 && open_lines(f, unit, off);
    }
    return unit->has_lines ? &unit->lines : NULL;
}

#else
typedef int dwarf_dies_are_not_built;
#endif
