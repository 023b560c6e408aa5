/* Functions and frames: made once for equal content, whatever unit they are met in. */
#include <symbol/dwarf_internal.h>

#if SPGO_HAVE_DWARF

#include <stdlib.h>
#include <string.h>

#include <base/hash.h>

/* ------------------------------------------------------------------ tables */

static bool table_grow(dbg_table *t)
{
    dbg_table bigger = {.slot_count = t->slot_count ? 2 * t->slot_count : 256, .used = t->used};
    bigger.slots = calloc(bigger.slot_count, sizeof *bigger.slots);
    bigger.hashes = calloc(bigger.slot_count, sizeof *bigger.hashes);
    if (!bigger.slots || !bigger.hashes) {
        free(bigger.slots);
        free(bigger.hashes);
        return false;
    }
    for (size_t i = 0; i < t->slot_count; i++) {
        size_t at = t->hashes[i] & (bigger.slot_count - 1);
        if (!t->slots[i])
            continue;
        while (bigger.slots[at])
            at = (at + 1) & (bigger.slot_count - 1);
        bigger.slots[at] = t->slots[i];
        bigger.hashes[at] = t->hashes[i];
    }
    free(t->slots);
    free(t->hashes);
    *t = bigger;
    return true;
}

size_t dbg_table_find(dbg_table *t, uint64_t hash, const void *wanted,
                      bool (*is_same)(const void *kept, const void *wanted))
{
    if (2 * t->used >= t->slot_count && !table_grow(t))
        return SIZE_MAX;
    size_t at = hash & (t->slot_count - 1);
    while (t->slots[at] && !(t->hashes[at] == hash && is_same(t->slots[at], wanted)))
        at = (at + 1) & (t->slot_count - 1);
    return at;
}

const void *dbg_table_put(dbg_table *t, size_t at, uint64_t hash, const void *made)
{
    if (!made)
        return NULL;
    t->slots[at] = made;
    t->hashes[at] = hash;
    t->used++;
    return made;
}

void dbg_tables_free(dbg_file *f)
{
    dbg_table *tables[] = {&f->known, &f->functions, &f->frames, &f->scopes};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        free(tables[i]->slots);
        free(tables[i]->hashes);
    }
}

uint64_t dbg_hash_pointer(uint64_t seed, const void *p)
{
    return hash_u64(seed, (uint64_t)(uintptr_t)p);
}

/* ------------------------------------------------------------------ frames */

/* Texts are interned: the same place is the same text. */
static bool frames_are_equal(const void *kept, const void *wanted)
{
    const symbol_frame *a = kept, *b = wanted;
    return a->function == b->function && a->file.ptr == b->file.ptr && a->line == b->line &&
           a->discriminator == b->discriminator && a->caller == b->caller;
}

const symbol_frame *dbg_frame(dbg_file *f, const symbol_frame *content)
{
    uint64_t hash = dbg_hash_pointer(f->seed, content->function);
    hash = dbg_hash_pointer(hash, content->file.ptr);
    hash = dbg_hash_pointer(hash, content->caller);
    hash = hash_u64(hash, (uint64_t)content->line << 32 | content->discriminator);
    size_t at = dbg_table_find(&f->frames, hash, content, frames_are_equal);
    if (at == SIZE_MAX)
        return NULL;
    if (f->frames.slots[at])
        return f->frames.slots[at];
    symbol_frame *made = arena_push(f->image->mem, 1, sizeof *made);
    if (made)
        *made = *content;
    return dbg_table_put(&f->frames, at, hash, made);
}

/* ------------------------------------------------------------------ functions */

static bool functions_are_equal(const void *kept, const void *wanted)
{
    const symbol_function *a = kept, *b = wanted;
    return a->name.ptr == b->name.ptr && a->linkage_name.ptr == b->linkage_name.ptr &&
           a->file.ptr == b->file.ptr && a->line == b->line;
}

static const symbol_function *intern_function(dbg_file *f, const symbol_function *content)
{
    uint64_t hash = dbg_hash_pointer(f->seed, content->name.ptr);
    hash = dbg_hash_pointer(hash, content->linkage_name.ptr);
    hash = dbg_hash_pointer(hash, content->file.ptr);
    hash = hash_u64(hash, content->line);
    size_t at = dbg_table_find(&f->functions, hash, content, functions_are_equal);
    if (at == SIZE_MAX)
        return NULL;
    if (f->functions.slots[at])
        return f->functions.slots[at];
    symbol_function *made = arena_push(f->image->mem, 1, sizeof *made);
    if (made)
        *made = *content;
    return dbg_table_put(&f->functions, at, hash, made);
}

static spgo_str text_of(dbg_file *f, Dwarf_Attribute *a)
{
    const char *text = a ? dwarf_formstring(a) : NULL;
    return dbg_text_keep(&f->texts, (spgo_str){text, text ? strlen(text) : 0});
}

/* The unit whose file table an attribute means: a DIE may refer to one of another unit. */
static dbg_unit *unit_of(dbg_file *f, dbg_unit *met_in, Dwarf_Attribute *a)
{
    if (a->cu == met_in->code.cu || a->cu == met_in->die.cu)
        return met_in;
    Dwarf_Die die;
    if (dwarf_cu_getdwarf(a->cu) != f->dwarf ||
        !dwarf_cu_die(a->cu, &die, NULL, NULL, NULL, NULL, NULL, NULL))
        return NULL;
    size_t low = 0, high = f->unit_count;
    const Dwarf_Off off = dwarf_dieoffset(&die);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->units[middle].die_off < off)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->unit_count && f->units[low].die_off == off ? &f->units[low] : NULL;
}

static spgo_str declared_file(dbg_file *f, dbg_unit *met_in, Dwarf_Die *die)
{
    Dwarf_Attribute a;
    Dwarf_Word number;
    dbg_lines *lines = NULL;
    if (dwarf_attr_integrate(die, DW_AT_decl_file, &a) && dwarf_formudata(&a, &number) == 0) {
        dbg_unit *unit = unit_of(f, met_in, &a);
        lines = unit ? dbg_unit_lines(f, unit) : NULL;
    }
    return lines ? dbg_lines_path(lines, number, &f->texts)
                 : dbg_text_keep(&f->texts, (spgo_str){0});
}

static symbol_function describe(dbg_file *f, dbg_unit *unit, Dwarf_Die *die)
{
    Dwarf_Attribute a;
    Dwarf_Word line = 0;
    Dwarf_Attribute *linkage = dwarf_attr_integrate(die, DW_AT_linkage_name, &a);
    if (!linkage)
        linkage = dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a);
    symbol_function made = {.linkage_name = text_of(f, linkage)};
    const spgo_str plain = text_of(f, dwarf_attr_integrate(die, DW_AT_name, &a));
    made.name = dbg_qualified_name(f, die, plain);
    /* One of C linkage, whatever it is in; or a local one, of which gcc does not tell. */
    if (made.linkage_name.len == 0 && made.name.ptr != plain.ptr)
        made.linkage_name = plain;
    made.file = declared_file(f, unit, die);
    if (dwarf_attr_integrate(die, DW_AT_decl_line, &a) && dwarf_formudata(&a, &line) == 0 &&
        line <= UINT32_MAX)
        made.line = (uint32_t)line;
    made.line_source = made.line ? SYMBOL_LINE_DECLARED : SYMBOL_LINE_NONE;
    return made;
}

/* What is known of a DIE: its place is the key. */
typedef struct known_die {
    const void *place;
    const symbol_function *function;
} known_die;

static bool places_are_equal(const void *kept, const void *wanted)
{
    return ((const known_die *)kept)->place == ((const known_die *)wanted)->place;
}

const symbol_function *dbg_function(dbg_file *f, dbg_unit *unit, Dwarf_Die *die)
{
    known_die wanted = {.place = die->addr};
    const uint64_t hash = dbg_hash_pointer(f->seed, die->addr);
    size_t at = dbg_table_find(&f->known, hash, &wanted, places_are_equal);
    if (at == SIZE_MAX)
        return NULL;
    if (f->known.slots[at])
        return ((const known_die *)f->known.slots[at])->function;
    symbol_function content = describe(f, unit, die);
    wanted.function = intern_function(f, &content);
    known_die *made = wanted.function ? arena_push(f->image->mem, 1, sizeof *made) : NULL;
    if (made)
        *made = wanted;
    return dbg_table_put(&f->known, at, hash, made) ? wanted.function : NULL;
}

#else
typedef int dwarf_functions_are_not_built;
#endif
