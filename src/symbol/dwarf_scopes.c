/*
 * Qualified names. A DIE does not say what it is in: when a name of a unit is first wanted, the
 * unit is walked once for its namespaces and classes, and for the functions that classes are in.
 */
#include <symbol/dwarf_internal.h>

#if SPGO_HAVE_DWARF

#include <stdlib.h>
#include <string.h>

enum {
    LEVELS_MAX = 64,     /* of the classes and namespaces around a function */
    REFERENCES_MAX = 16, /* from a DIE to what it specifies, and so on; as libdw has it */
    LEVEL_COST = 64      /* of the budget for texts, to what finding a level compares */
};

typedef struct scope {
    Dwarf_Die die;
    uintptr_t end; /* what is behind the DIE and before this is in it */
    uint32_t parent;
    int tag;
} scope;

/* Those of a unit, in its order. */
typedef struct unit_scopes {
    const Dwarf_CU *cu;
    const scope *rows;
    size_t count;
} unit_scopes;

/* ------------------------------------------------------------------ finding the scopes of a unit
 */

typedef struct scope_reader {
    scope *rows;
    size_t count, capacity;
    uint32_t open; /* the innermost one that has not ended, or DBG_NONE */
    bool no_memory;
} scope_reader;

/* Ends those that are not around a DIE. Functions that no class is in are let go. */
static void close_scopes(scope_reader *r, uint32_t around, uintptr_t place)
{
    while (r->open != around && r->open != DBG_NONE) {
        scope *last = &r->rows[r->open];
        last->end = place;
        if (last->tag == DW_TAG_subprogram && r->open + 1 == r->count)
            r->count--;
        r->open = last->parent;
    }
}

static uint32_t open_scope(scope_reader *r, const Dwarf_Die *die, int tag, uint32_t parent)
{
    void *list = r->rows;
    r->no_memory |=
        r->count >= DBG_PRUNE || !dbg_room(&list, r->count, &r->capacity, sizeof *r->rows);
    r->rows = list;
    if (r->no_memory)
        return DBG_PRUNE;
    r->rows[r->count] = (scope){*die, 0, parent, tag};
    return r->open = (uint32_t)r->count++;
}

static uint32_t visit(void *ctx, Dwarf_Die *die, int tag, uint32_t parent)
{
    scope_reader *r = ctx;
    if (r->no_memory)
        return DBG_PRUNE;
    close_scopes(r, parent, (uintptr_t)die->addr);
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
    case DW_TAG_subprogram:
        return open_scope(r, die, tag, parent);
    case DW_TAG_inlined_subroutine:
        return DBG_PRUNE;
    default:
        return parent;
    }
}

/* Nothing is in anything: most of the units of many programs need no walk. */
static bool has_plain_names(Dwarf_Die *unit_die)
{
    switch (dwarf_srclang(unit_die)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case 0x2c: /* C17 */
    case DW_LANG_Mips_Assembler:
        return true;
    default:
        return false;
    }
}

static bool read_scopes(dbg_file *f, Dwarf_CU *cu, unit_scopes *out)
{
    Dwarf_Die unit_die;
    scope_reader r = {.open = DBG_NONE};
    if (!dwarf_cu_die(cu, &unit_die, NULL, NULL, NULL, NULL, NULL, NULL) ||
        has_plain_names(&unit_die))
        return true;
    (void)dbg_walk(f, &unit_die, visit, &r); /* damage is told where the functions are read */
    close_scopes(&r, DBG_NONE, UINTPTR_MAX);
    scope *rows = arena_push(f->image->mem, r.count, sizeof *rows);
    bool ok = rows && !r.no_memory;
    if (ok && r.count > 0)
        memcpy(rows, r.rows, r.count * sizeof *rows);
    out->rows = rows;
    out->count = ok ? r.count : 0;
    free(r.rows);
    return ok;
}

static bool is_of_unit(const void *kept, const void *wanted)
{
    return ((const unit_scopes *)kept)->cu == wanted;
}

/* NULL without memory. */
static const unit_scopes *scopes_of(dbg_file *f, Dwarf_CU *cu)
{
    const uint64_t hash = dbg_hash_pointer(f->seed, cu);
    const size_t at = dbg_table_find(&f->scopes, hash, cu, is_of_unit);
    if (at == SIZE_MAX)
        return NULL;
    if (f->scopes.slots[at])
        return f->scopes.slots[at];
    unit_scopes *made = arena_push(f->image->mem, 1, sizeof *made);
    if (!made)
        return NULL;
    *made = (unit_scopes){.cu = cu};
    return read_scopes(f, cu, made) ? dbg_table_put(&f->scopes, at, hash, made) : NULL;
}

/* The innermost scope around a DIE. */
static const scope *scope_around(const unit_scopes *u, const Dwarf_Die *die)
{
    const uintptr_t place = (uintptr_t)die->addr;
    size_t low = 0, high = u->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)u->rows[middle].die.addr < place)
            low = middle + 1;
        else
            high = middle;
    }
    const scope *s = low > 0 ? &u->rows[low - 1] : NULL;
    while (s && s->end <= place)
        s = s->parent == DBG_NONE ? NULL : &u->rows[s->parent];
    return s;
}

/* ------------------------------------------------------------------ names */

/* The DIE that stands where the function or class was declared, rather than defined or copied. */
static Dwarf_Die declaration_of(Dwarf_Die die)
{
    Dwarf_Attribute a;
    for (int i = 0; i < REFERENCES_MAX; i++) {
        Dwarf_Die next;
        if (!(dwarf_attr(&die, DW_AT_abstract_origin, &a) ||
              dwarf_attr(&die, DW_AT_specification, &a)) ||
            !dwarf_formref_die(&a, &next))
            break;
        die = next;
    }
    return die;
}

/* A function that is declared within another one is not of it, but of the namespace around. */
static const scope *scope_of(dbg_file *f, Dwarf_Die *die)
{
    const unit_scopes *u = scopes_of(f, die->cu);
    if (!u) {
        f->no_memory = true;
        return NULL;
    }
    const scope *s = scope_around(u, die);
    if (!s || s->tag != DW_TAG_subprogram || dwarf_tag(die) != DW_TAG_subprogram)
        return s;
    while (s && s->tag != DW_TAG_namespace)
        s = s->parent == DBG_NONE ? NULL : &u->rows[s->parent];
    return s;
}

static const char *name_of(Dwarf_Die *die)
{
    Dwarf_Attribute a;
    return dwarf_attr_integrate(die, DW_AT_name, &a) ? dwarf_formstring(&a) : NULL;
}

/* NULL: it has none, and is left out. */
static const char *name_of_scope(const scope *s)
{
    Dwarf_Attribute a;
    Dwarf_Die die = s->die, type;
    const char *name = name_of(&die);
    /* The type may be described elsewhere, and only its signature be here. */
    if (!name && dwarf_attr(&die, DW_AT_signature, &a) && dwarf_formref_die(&a, &type))
        name = name_of(&type);
    if (name)
        return name;
    switch (s->tag) {
    case DW_TAG_namespace:
        return "(anonymous namespace)";
    case DW_TAG_union_type:
        return "(anonymous union)";
    case DW_TAG_enumeration_type:
        return "(anonymous enum)";
    case DW_TAG_subprogram:
        return NULL;
    default:
        return s->tag == DW_TAG_class_type ? "(anonymous class)" : "(anonymous struct)";
    }
}

static bool spend(dbg_texts *texts, size_t cost)
{
    if (texts->left_bytes < cost)
        return false;
    texts->left_bytes -= cost;
    return true;
}

/* The names of what is around a DIE, the innermost first; false: too many. */
static bool list_scopes(dbg_file *f, Dwarf_Die die, const char **names, size_t *count)
{
    const scope *s;
    *count = 0;
    while (spend(&f->texts, LEVEL_COST)) {
        die = declaration_of(die);
        s = scope_of(f, &die);
        if (!s || *count == LEVELS_MAX)
            return !s && !f->no_memory;
        names[*count] = name_of_scope(s);
        *count += names[*count] != NULL;
        die = s->die;
    }
    return false;
}

spgo_str dbg_qualified_name(dbg_file *f, Dwarf_Die *die, spgo_str name)
{
    const char *names[LEVELS_MAX];
    size_t count;
    if (name.len == 0 || !list_scopes(f, *die, names, &count) || count == 0)
        return name;
    bytes_clear(&f->joined);
    while (count-- > 0) {
        const size_t len = strlen(names[count]);
        if (!spend(&f->texts, len))
            return name;
        bytes_put(&f->joined, names[count], len);
        bytes_put(&f->joined, "::", 2);
    }
    bytes_put(&f->joined, name.ptr, name.len);
    f->no_memory |= f->joined.failed;
    if (f->joined.failed || !spend(&f->texts, name.len))
        return name;
    return intern_add(f->texts.names, (spgo_str){(const char *)f->joined.ptr, f->joined.len});
}

#else
typedef int dwarf_scopes_are_not_built;
#endif
