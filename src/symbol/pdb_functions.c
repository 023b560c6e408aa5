/*
 * Functions of a PDB: names for people stand with procedures and inlinees, the names that compilers
 * know stand among the publics, and no record at all has the line of a declaration, except that of
 * an inlinee. So the three are brought together here.
 */
#include <symbol/pdb_backend.h>

#include <stdlib.h>
#include <string.h>

#include <base/hash.h>
#include <base/sha256.h>
#include <base/text.h>

enum {
    LANGUAGE_C = 0,
    CHECKSUM_SHA256 = 3,
    CANDIDATES_MAX = 32,  /* procedures of one name in other modules, for one inlinee */
    SAME_NAME_MAX = 4096, /* procedures of one name that are looked at for them */
    FOLDED_MAX = 1024,    /* publics of one address that are looked at for each procedure there */
    IDENTIFIER_MAX = 255,
    COMPARE_COST = 32,    /* of a name of a public, besides its bytes */
    FIRST_ROWS_MAX = 1024 /* rows that are looked at for the first one with a line */
};

static const spgo_str nothing = {"", 0};

/* ------------------------------------------------------------------ publics by address */

size_t pdb_public_from(const pdb_publics *publics, uint16_t section, uint32_t off)
{
    size_t low = 0, high = publics->public_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const pdb_public *p = &publics->publics[mid];
        if (pdb_key(p->section, p->off) < pdb_key(section, off))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

size_t pdb_entries_to(const pdb_backend *b, uint64_t key)
{
    size_t low = 0, high = b->entry_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const pdb_public *p = b->entries[mid];
        if (pdb_key(p->section, p->off) <= key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ------------------------------------------------------------------ which public is whose */

static bool begins_with(spgo_str s, const char *start)
{
    size_t len = strlen(start);
    return s.len >= len && memcmp(s.ptr, start, len) == 0;
}

static bool contains(spgo_str s, const char *part, size_t len)
{
    if (len == 0 || len > IDENTIFIER_MAX)
        return false;
    for (size_t i = 0; i + len <= s.len; i++)
        if (s.ptr[i] == part[0] && memcmp(s.ptr + i, part, len) == 0)
            return true;
    return false;
}

/* "a::b<c::d>::e<f>": "e", and "b" as its scope. */
typedef struct split_name {
    spgo_str last, scope;
} split_name;

static split_name split(spgo_str name)
{
    split_name n;
    n.last = source_name_last(&name);
    n.scope = name.len ? source_name_last(&name) : nothing;
    return n;
}

/* What Microsoft's names have in place of the last part, where that is no identifier. */
static bool is_special_name(spgo_str decorated, split_name n)
{
    static const struct {
        const char *last, *code;
    } codes[] = {
        {"{ctor}", "0"},
        {"{dtor}", "1"},
        {"operator new", "2"},
        {"operator delete", "3"},
        {"operator=", "4"},
        {"operator>>", "5"},
        {"operator<<", "6"},
        {"operator!", "7"},
        {"operator==", "8"},
        {"operator!=", "9"},
        {"operator[]", "A"},
        {"operator->", "C"},
        {"operator*", "D"},
        {"operator++", "E"},
        {"operator--", "F"},
        {"operator-", "G"},
        {"operator+", "H"},
        {"operator&", "I"},
        {"operator->*", "J"},
        {"operator/", "K"},
        {"operator%", "L"},
        {"operator<", "M"},
        {"operator<=", "N"},
        {"operator>", "O"},
        {"operator>=", "P"},
        {"operator,", "Q"},
        {"operator()", "R"},
        {"operator~", "S"},
        {"operator^", "T"},
        {"operator|", "U"},
        {"operator&&", "V"},
        {"operator||", "W"},
        {"operator*=", "X"},
        {"operator+=", "Y"},
        {"operator-=", "Z"},
        {"operator/=", "_0"},
        {"operator%=", "_1"},
        {"operator>>=", "_2"},
        {"operator<<=", "_3"},
        {"operator&=", "_4"},
        {"operator|=", "_5"},
        {"operator^=", "_6"},
        {"operator new[]", "_U"},
        {"operator delete[]", "_V"},
        {"`scalar deleting destructor'", "_G"},
        {"`vector deleting destructor'", "_E"},
    };
    if (!begins_with(decorated, "??"))
        return false;
    spgo_str code = {decorated.ptr + 2, decorated.len - 2};
    if (begins_with(code, "$?"))
        code = (spgo_str){code.ptr + 2, code.len - 2};
    if (begins_with(code, "0"))
        return text_equal(n.last, n.scope) || text_equal(n.last, text_str("{ctor}"));
    if (begins_with(code, "1") && n.last.len > 0 && n.last.ptr[0] == '~')
        return true;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (begins_with(code, codes[i].code) && text_equal(n.last, text_str(codes[i].last)))
            return true;
    return false;
}

/* "?last@scope@@..." or "?$last@...". */
static bool is_microsoft_name(spgo_str decorated, spgo_str last)
{
    size_t at = begins_with(decorated, "??$") ? 3 : 1;
    return decorated.len > at + last.len && last.len > 0 &&
           memcmp(decorated.ptr + at, last.ptr, last.len) == 0 &&
           decorated.ptr[at + last.len] == '@';
}

/* Of Itanium and Rust names: a part that says its length. */
static bool has_counted_part(spgo_str decorated, spgo_str part)
{
    char text[64];
    char digits[8];
    size_t n = 0;
    for (size_t rest = part.len; rest > 0 && n < sizeof digits; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    if (part.len == 0 || n + part.len > sizeof text)
        return false;
    for (size_t i = 0; i < n; i++)
        text[i] = digits[n - 1 - i];
    memcpy(text + n, part.ptr, part.len);
    return contains(decorated, text, n + part.len);
}

/* "_f", "_f@8", "@f@8": of 32-bit code. */
static bool is_decorated_c_name(spgo_str decorated, spgo_str name)
{
    if (decorated.len <= name.len || (decorated.ptr[0] != '_' && decorated.ptr[0] != '@') ||
        memcmp(decorated.ptr + 1, name.ptr, name.len) != 0)
        return false;
    return decorated.len == name.len + 1 || decorated.ptr[name.len + 1] == '@';
}

/* How well a decorated name fits an undecorated one: 0 not at all, or it cannot be told. */
static int fit(spgo_str decorated, spgo_str name, split_name n)
{
    if (name.len > 0 && (text_equal(decorated, name) || is_decorated_c_name(decorated, name)))
        return 4;
    if (begins_with(decorated, "?")) {
        if (!is_microsoft_name(decorated, n.last) && !is_special_name(decorated, n))
            return 0;
        return n.scope.len == 0 || contains(decorated, n.scope.ptr, n.scope.len) ? 3 : 2;
    }
    if (begins_with(decorated, "_Z") || begins_with(decorated, "_R")) {
        if (!has_counted_part(decorated, n.last))
            return 0;
        return n.scope.len == 0 || has_counted_part(decorated, n.scope) ? 3 : 2;
    }
    return 0;
}

pdb_named_place pdb_place_of(const pdb_proc *proc)
{
    bool is_local = proc->kind == PDB_S_LPROC32 || proc->kind == PDB_S_LPROC32_ID ||
                    proc->kind == PDB_S_LPROC32_ST;
    return (pdb_named_place){proc->name, proc->off, proc->section, is_local};
}

static bool may_compare(pdb_backend *b, spgo_str name)
{
    const uint64_t cost = name.len + COMPARE_COST;
    if (b->left.compared_bytes < cost)
        return false;
    b->left.compared_bytes -= cost;
    return true;
}

const pdb_public *pdb_public_of(pdb_backend *b, const pdb_named_place *place)
{
    const pdb_publics *publics = b->publics;
    const pdb_public *best = NULL;
    int best_fit = 0;
    split_name n = split(place->name);
    size_t first = pdb_public_from(publics, place->section, place->off), at = first;
    for (; at < publics->public_count && at - first < FOLDED_MAX; at++) {
        const pdb_public *p = &publics->publics[at];
        if (p->section != place->section || p->off != place->off || !may_compare(b, p->name))
            break;
        int f = fit(p->name, place->name, n);
        if (f > best_fit) {
            best = p;
            best_fit = f;
        }
    }
    /* A local function has no public, unless its name fits: the one here is of a folded one. */
    if (!best && at == first + 1 && !place->is_local)
        best = &publics->publics[first];
    return best;
}

/* The name by which a compiler knows what the linker knows as `decorated`: C names of 32-bit code
 * lose their underscore. */
static spgo_str compiler_name(const pdb_backend *b, spgo_str decorated)
{
    bool is_c = pdb_get_info(b->file)->machine == PDB_MACHINE_X86 && decorated.len > 1 &&
                decorated.ptr[0] == '_' && !memchr(decorated.ptr, '@', decorated.len);
    return is_c ? (spgo_str){decorated.ptr + 1, decorated.len - 1} : decorated;
}

/* ------------------------------------------------------------------ functions of procedures */

spgo_code pdb_keep_module(pdb_backend *b, const pdb_module *m, spgo_error *err)
{
    pdb_kept_module *kept = &b->modules[m->index];
    if (kept->places)
        return SPGO_OK;
    size_t size = m->proc_count * (sizeof *kept->places + sizeof *kept->functions);
    pdb_proc_place *places = arena_push(b->image->mem, m->proc_count, sizeof *places);
    kept->functions = arena_push(b->image->mem, m->proc_count, sizeof *kept->functions);
    if (!places || !kept->functions)
        return spgo_fail_nomem(err, "symbol.pdb", size);
    for (size_t i = 0; i < m->proc_count; i++) {
        const pdb_proc *proc = &m->procs[i];
        places[i] = (pdb_proc_place){.symbol_off = proc->symbol_off,
                                     .off = proc->off,
                                     .type = proc->type,
                                     .section = proc->section,
                                     .is_local = pdb_place_of(proc).is_local};
    }
    kept->places = places;
    kept->proc_count = m->proc_count;
    return SPGO_OK;
}

static spgo_str kept_text(pdb_backend *b, spgo_str s)
{
    return intern_add(b->image->names, s);
}

symbol_function *pdb_function_of_proc(pdb_backend *b, const pdb_module *m, uint32_t proc)
{
    symbol_function **slot = &b->modules[m->index].functions[proc];
    if (*slot)
        return *slot;
    symbol_function *f = arena_push(b->image->mem, 1, sizeof *f);
    if (!f)
        return NULL;
    pdb_named_place place = pdb_place_of(&m->procs[proc]);
    const pdb_public *p = pdb_public_of(b, &place);
    f->name = kept_text(b, place.name);
    f->file = nothing;
    f->linkage_name = nothing;
    if (p)
        f->linkage_name = kept_text(b, compiler_name(b, p->name));
    else if (m->compiler.present && m->compiler.language == LANGUAGE_C)
        f->linkage_name = f->name;
    *slot = f;
    return f;
}

symbol_function *pdb_function_of_public(pdb_backend *b, const pdb_public *p)
{
    symbol_function *f = arena_push(b->image->mem, 1, sizeof *f);
    if (!f)
        return NULL;
    f->name = f->linkage_name = f->file = nothing;
    if (p) {
        f->name = kept_text(b, p->name);
        f->linkage_name = kept_text(b, compiler_name(b, p->name));
    }
    return f;
}

/* ------------------------------------------------------------------ names by hash */

static int by_hash(const void *a, const void *b)
{
    const pdb_hashed *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Where a hash starts among the rows. */
static size_t hash_from(const pdb_hashes *h, uint64_t hash)
{
    size_t low = 0, high = h->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (h->rows[mid].hash < hash)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static uint64_t decorated_hash(spgo_str name)
{
    uint8_t digest[SHA256_SIZE];
    uint64_t hash = 0;
    sha256((spgo_span){(const uint8_t *)name.ptr, name.len}, digest);
    for (size_t i = 8; i > 0; i--)
        hash = hash << 8 | digest[i - 1];
    return hash;
}

static bool hash_publics(pdb_backend *b)
{
    pdb_hashes *h = &b->decorated_names;
    if (h->rows)
        return true;
    h->rows = calloc(b->publics->public_count + 1, sizeof *h->rows);
    if (!h->rows)
        return false;
    for (size_t i = 0; i < b->publics->public_count; i++)
        if (b->publics->publics[i].flags & PDB_PUBLIC_FUNCTION)
            h->rows[h->count++] =
                (pdb_hashed){decorated_hash(b->publics->publics[i].name), (uint32_t)i};
    qsort(h->rows, h->count, sizeof *h->rows, by_hash);
    return true;
}

static bool hash_proc_refs(pdb_backend *b)
{
    pdb_hashes *h = &b->proc_names;
    if (h->rows)
        return true;
    h->rows = calloc(b->publics->proc_ref_count + 1, sizeof *h->rows);
    if (!h->rows)
        return false;
    for (size_t i = 0; i < b->publics->proc_ref_count; i++) {
        spgo_str name = b->publics->proc_refs[i].name;
        if (b->publics->proc_refs[i].module != PDB_NONE)
            h->rows[h->count++] =
                (pdb_hashed){text_hash(hash_seed(h->rows), name.ptr, name.len), (uint32_t)i};
    }
    qsort(h->rows, h->count, sizeof *h->rows, by_hash);
    return true;
}

/* ------------------------------------------------------------------ linkage names of inlinees */

/* The index of a module's procedures, which may have to be read for it. */
static spgo_code need_module(pdb_backend *b, uint32_t module, spgo_error *err)
{
    if (b->modules[module].places)
        return SPGO_OK;
    pdb_module *m;
    SPGO_TRY(pdb_module_read(b->file, module, &m, NULL, err));
    spgo_code code = pdb_keep_module(b, m, err);
    pdb_module_free(m);
    return code;
}

static const pdb_proc_place *find_place(const pdb_kept_module *kept, uint32_t symbol_off)
{
    size_t low = 0, high = kept->proc_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (kept->places[mid].symbol_off < symbol_off)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < kept->proc_count && kept->places[low].symbol_off == symbol_off;
    return found ? &kept->places[low] : NULL;
}

/* The public of the procedure that a reference leads to, if it has the inlinee's type. */
static spgo_code try_candidate(pdb_backend *b, const pdb_proc_ref *ref, uint32_t type,
                               const pdb_public **out, spgo_error *err)
{
    spgo_code code = need_module(b, ref->module, err);
    if (code != SPGO_OK) /* what is damaged has no procedures */
        return code == SPGO_NOMEM ? code : SPGO_OK;
    const pdb_proc_place *place = find_place(&b->modules[ref->module], ref->symbol_off);
    if (!place || place->type != type)
        return SPGO_OK;
    pdb_named_place named = {ref->name, place->off, place->section, place->is_local};
    *out = pdb_public_of(b, &named);
    return SPGO_OK;
}

/* A copy of an inlinee that stands somewhere as a procedure: in its own module, else in others. */
static spgo_code public_of_copy(pdb_backend *b, uint32_t module, const pdb_function *f,
                                const pdb_public **out, spgo_error *err)
{
    if (!hash_proc_refs(b))
        return spgo_fail_nomem(err, "symbol.pdb", b->publics->proc_ref_count * sizeof(pdb_hashed));
    const pdb_hashes *h = &b->proc_names;
    uint64_t hash = text_hash(hash_seed(h->rows), f->qualified.ptr, f->qualified.len);
    size_t first = hash_from(h, hash);
    for (int own = 1; own >= 0; own--) {
        size_t tried = 0;
        for (size_t i = first; i < h->count && i - first < SAME_NAME_MAX && h->rows[i].hash == hash;
             i++) {
            const pdb_proc_ref *ref = &b->publics->proc_refs[h->rows[i].index];
            if ((ref->module == module) != own || !text_equal(ref->name, f->qualified))
                continue;
            if (++tried > CANDIDATES_MAX)
                break;
            SPGO_TRY(try_candidate(b, ref, f->type, out, err));
            if (*out)
                return SPGO_OK;
        }
    }
    return SPGO_OK;
}

static spgo_code inlinee_public(pdb_backend *b, uint32_t module, const pdb_function *f,
                                const pdb_public **out, spgo_error *err)
{
    *out = NULL;
    if (!f->has_decorated_hash || f->decorated_hash == 0)
        return public_of_copy(b, module, f, out, err);
    if (!hash_publics(b))
        return spgo_fail_nomem(err, "symbol.pdb", b->publics->public_count * sizeof(pdb_hashed));
    const pdb_hashes *h = &b->decorated_names;
    size_t at = hash_from(h, f->decorated_hash);
    if (at < h->count && h->rows[at].hash == f->decorated_hash)
        *out = &b->publics->publics[h->rows[at].index];
    return SPGO_OK;
}

static spgo_code name_inlinee(pdb_backend *b, const pdb_module *m, const pdb_function *known,
                              symbol_function *f, spgo_error *err)
{
    const pdb_public *p;
    SPGO_TRY(inlinee_public(b, m->index, known, &p, err));
    f->name = known->qualified;
    if (p)
        f->linkage_name = kept_text(b, compiler_name(b, p->name));
    else if (m->compiler.present && m->compiler.language == LANGUAGE_C)
        f->linkage_name = f->name;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ functions of inlinees */

static pdb_inlinee_slot *inlinee_slot(const pdb_inlinee_map *map, uint32_t id, uint32_t line,
                                      const char *file)
{
    uint64_t seed = hash_u64(hash_seed(map->slots), (uint64_t)(uintptr_t)file);
    size_t at = (size_t)hash_u64(seed, (uint64_t)id << 32 | line) & (map->slot_count - 1);
    while (map->slots[at].function &&
           (map->slots[at].id != id || map->slots[at].line != line || map->slots[at].file != file))
        at = (at + 1) & (map->slot_count - 1);
    return &map->slots[at];
}

static bool grow_inlinees(pdb_inlinee_map *map)
{
    pdb_inlinee_map bigger = {.slot_count = map->slot_count ? 2 * map->slot_count : 256,
                              .used = map->used};
    bigger.slots = calloc(bigger.slot_count, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < map->slot_count; i++) {
        const pdb_inlinee_slot *s = &map->slots[i];
        if (s->function)
            *inlinee_slot(&bigger, s->id, s->line, s->file) = *s;
    }
    free(map->slots);
    *map = bigger;
    return true;
}

/* An id that leads nowhere is a finding; *out is then NULL. */
static spgo_code find_inlinee(pdb_backend *b, const pdb_module *m, uint32_t id, diag *d,
                              const pdb_function **out, spgo_error *err)
{
    spgo_error why;
    spgo_code code = pdb_ids_function(b->ids, m, id, out, &why);
    if (code == SPGO_OK)
        return SPGO_OK;
    *out = NULL;
    if (code == SPGO_NOMEM) {
        if (err)
            *err = why;
        return code;
    }
    diag_add(d, code, why.offset, "an inlined function has no name: %.200s", why.sentence);
    return SPGO_OK;
}

spgo_code pdb_function_of_site(pdb_backend *b, const pdb_module *m, const pdb_layout *l,
                               uint32_t site, diag *d, const symbol_function **out, spgo_error *err)
{
    static const char where[] = "symbol.pdb";
    const pdb_inline_site *s = &m->sites[site];
    spgo_str file = s->file != PDB_NONE ? l->files[s->file] : nothing;
    const pdb_function *known;
    SPGO_TRY(find_inlinee(b, m, s->inlinee, d, &known, err));
    pdb_inlinee_map *map = &b->inlinees;
    if (2 * (map->used + 1) > map->slot_count && !grow_inlinees(map))
        return spgo_fail_nomem(err, where, map->slot_count * sizeof *map->slots);
    uint32_t id = known ? known->id : PDB_NONE;
    pdb_inlinee_slot *slot = inlinee_slot(map, id, s->line, file.ptr);
    *out = slot->function;
    if (slot->function)
        return SPGO_OK;
    symbol_function *f = arena_push(b->image->mem, 1, sizeof *f);
    if (!f)
        return spgo_fail_nomem(err, where, sizeof *f);
    f->name = f->linkage_name = nothing;
    f->file = file;
    f->line = s->line;
    f->line_source = s->line ? SYMBOL_LINE_DECLARED : SYMBOL_LINE_NONE;
    if (known)
        SPGO_TRY(name_inlinee(b, m, known, f, err));
    *slot = (pdb_inlinee_slot){id, s->line, file.ptr, f};
    map->used++;
    *out = f;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ first lines */

/* Of a function by its name and type, to tell overloads apart. */
static uint64_t signature_hash(const pdb_hashes *h, uint32_t type, spgo_str name)
{
    return text_hash(hash_u64(hash_seed(h->rows), type), name.ptr, name.len);
}

/* What a module's inlinees say about declarations; the index is that of the inlinee. */
static spgo_code list_declared(pdb_backend *b, const pdb_module *m, pdb_hashes *out,
                               spgo_error *err)
{
    out->rows = calloc(m->inlinee_count + 1, sizeof *out->rows);
    if (!out->rows)
        return spgo_fail_nomem(err, "symbol.pdb", m->inlinee_count * sizeof *out->rows);
    for (size_t i = 0; i < m->inlinee_count; i++) {
        const pdb_function *f;
        if (m->inlinees[i].line == 0)
            continue;
        SPGO_TRY(find_inlinee(b, m, m->inlinees[i].id, NULL, &f, err));
        if (f)
            out->rows[out->count++] =
                (pdb_hashed){signature_hash(out, f->type, f->qualified), (uint32_t)i};
    }
    qsort(out->rows, out->count, sizeof *out->rows, by_hash);
    return SPGO_OK;
}

/* The declaration of a procedure that is also an inlinee. */
static const pdb_inlinee_line *find_declared(pdb_backend *b, const pdb_module *m,
                                             const pdb_hashes *list, const pdb_proc *proc)
{
    uint64_t hash = signature_hash(list, proc->type, proc->name);
    for (size_t i = hash_from(list, hash); i < list->count && list->rows[i].hash == hash; i++) {
        const pdb_inlinee_line *line = &m->inlinees[list->rows[i].index];
        const pdb_function *f;
        if (pdb_ids_function(b->ids, m, line->id, &f, NULL) == SPGO_OK && f->type == proc->type &&
            text_equal(f->qualified, proc->name))
            return line;
    }
    return NULL;
}

/* The first row with a line: of the procedure's own table, else of what is known there. A first row
 * without bytes counts too: where there is no prologue, it is all that is left of the opening. */
static bool first_row(const pdb_module *m, const pdb_layout *l, uint32_t proc, uint32_t *file,
                      uint32_t *line)
{
    const pdb_proc *p = &m->procs[proc];
    uint64_t key = pdb_key(p->section, p->off), end = key + p->length;
    if (l->set_of_proc[proc] != PDB_NONE) {
        const pdb_line_set *set = &m->line_sets[l->set_of_proc[proc]];
        for (size_t i = 0; i < set->count && i < FIRST_ROWS_MAX; i++) {
            const pdb_line *row = &m->lines[set->first + i];
            *file = row->file;
            *line = row->line;
            if (pdb_line_kind_of(row->line) == PDB_LINE_REAL)
                return true;
        }
    }
    size_t low = 0, high = l->span_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->spans[mid].end <= key)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = 0; i < FIRST_ROWS_MAX && low < l->span_count && l->spans[low].begin < end;
         i++, low++) {
        *file = l->spans[low].file;
        *line = l->spans[low].line;
        if (pdb_line_kind_of(*line) == PDB_LINE_REAL)
            return true;
    }
    return false;
}

static void settle_line(pdb_backend *b, const pdb_module *m, const pdb_layout *l, uint32_t proc,
                        bool with_sources, symbol_function *f)
{
    uint32_t file, line;
    if (!first_row(m, l, proc, &file, &line))
        return;
    f->line = line;
    f->line_source = SYMBOL_LINE_FIRST_ROW;
    if (file == PDB_NONE)
        return;
    f->file = l->files[file];
    if (!with_sources)
        return;
    source_file source = {.path = f->file, .checksum = m->files[file].checksum};
    if (m->files[file].checksum_kind == CHECKSUM_SHA256)
        source.checksum_kind = SOURCE_SHA256;
    uint32_t found = source_lines_find(b->sources, &source, f->name, line);
    if (found > 0) {
        f->line = found;
        f->line_source = SYMBOL_LINE_IN_SOURCE;
    }
}

static spgo_code settle_all(pdb_backend *b, const pdb_module *m, const pdb_layout *l,
                            bool with_sources, const pdb_hashes *list, spgo_error *err)
{
    for (uint32_t i = 0; i < m->proc_count; i++) {
        symbol_function *f = pdb_function_of_proc(b, m, i);
        if (!f)
            return spgo_fail_nomem(err, "symbol.pdb", sizeof *f);
        const pdb_inlinee_line *line = find_declared(b, m, list, &m->procs[i]);
        if (line) {
            f->line = line->line;
            f->line_source = SYMBOL_LINE_DECLARED;
            f->file = line->file != PDB_NONE ? l->files[line->file] : nothing;
        } else if (f->line_source != SYMBOL_LINE_IN_SOURCE) {
            settle_line(b, m, l, i, with_sources, f);
        }
    }
    if (b->image->names->failed)
        return spgo_fail_nomem(err, "symbol.pdb", m->proc_count);
    return SPGO_OK;
}

spgo_code pdb_settle_functions(pdb_backend *b, const pdb_module *m, const pdb_layout *l,
                               bool with_sources, spgo_error *err)
{
    pdb_kept_module *kept = &b->modules[m->index];
    bool is_done = with_sources ? kept->has_sources : kept->has_functions;
    if (is_done)
        return SPGO_OK;
    pdb_hashes list = {0};
    spgo_code code = list_declared(b, m, &list, err);
    if (code == SPGO_OK)
        code = settle_all(b, m, l, with_sources, &list, err);
    free(list.rows);
    if (code == SPGO_OK) {
        kept->has_functions = true;
        kept->has_sources = kept->has_sources || with_sources;
    }
    return code;
}
