/*
 * The stream of publics and globals. The hash tables beside it are not needed: the records are
 * walked once to count and once to fill, and the publics sorted by address.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct globals {
    const pdb *file;
    diag *d;
    pdb_public *publics;
    pdb_proc_ref *proc_refs;
    pdb_mini_ref *mini_refs;
    size_t public_count, proc_ref_count, mini_ref_count;
} globals;

static bool next_record(reader *r, uint16_t *kind, reader *body)
{
    if (reader_left(r) == 0)
        return false;
    uint64_t start = reader_offset(r);
    uint16_t size = reader_u16(r);
    if (!r->code && size < 2)
        reader_fail(r, SPGO_CORRUPT, start);
    *body = reader_sub(r, size);
    *kind = reader_u16(body);
    return r->code == SPGO_OK;
}

/* Modules count from 1 here. */
static uint32_t module_index(const globals *g, uint16_t number)
{
    return number > 0 && number <= g->file->module_count ? number - 1u : PDB_NONE;
}

static void take_public(globals *g, reader *r, bool is_old)
{
    pdb_public p = {0};
    p.flags = reader_u32(r);
    p.off = reader_u32(r);
    p.section = reader_u16(r);
    if (is_old) {
        spgo_span name = reader_bytes(r, reader_u8(r));
        p.name = (spgo_str){(const char *)name.ptr, name.len};
    } else {
        p.name = reader_cstr(r);
    }
    if (r->code)
        return;
    p.rva = pdb_rva(g->file, p.section, p.off);
    g->publics[g->public_count++] = p;
}

static void take_proc_ref(globals *g, reader *r, bool is_local)
{
    pdb_proc_ref ref = {.is_local = is_local};
    reader_skip(r, 4);
    ref.symbol_off = reader_u32(r);
    ref.module = module_index(g, reader_u16(r));
    ref.name = reader_cstr(r);
    if (!r->code)
        g->proc_refs[g->proc_ref_count++] = ref;
}

static void take_mini_ref(globals *g, reader *r)
{
    pdb_mini_ref ref = {0};
    ref.coff_section_or_type = reader_u32(r);
    ref.module = module_index(g, reader_u16(r));
    ref.flags = reader_u16(r);
    ref.name = reader_cstr(r);
    if (!r->code)
        g->mini_refs[g->mini_ref_count++] = ref;
}

/* Counts with g->publics NULL, else fills. */
static void walk(globals *g, reader *r, bool fill)
{
    uint16_t kind;
    reader body;
    while (next_record(r, &kind, &body)) {
        bool is_public = kind == PDB_S_PUB32 || kind == PDB_S_PUB32_ST;
        bool is_proc = kind == PDB_S_PROCREF || kind == PDB_S_LPROCREF;
        bool is_mini = kind == PDB_S_REF_MINIPDB;
        if (!fill) {
            g->public_count += is_public;
            g->proc_ref_count += is_proc;
            g->mini_ref_count += is_mini;
            continue;
        }
        if (is_public)
            take_public(g, &body, kind == PDB_S_PUB32_ST);
        else if (is_proc)
            take_proc_ref(g, &body, kind == PDB_S_LPROCREF);
        else if (is_mini)
            take_mini_ref(g, &body);
        if (body.code)
            diag_add(g->d, body.code,
                     msf_file_offset(&g->file->file, g->file->symbol_stream, body.bad_off),
                     "the record %s that ends at byte %" PRIu64
                     " of the publics is too short; it is left out",
                     pdb_symbol_name(kind) ? pdb_symbol_name(kind) : "of a symbol",
                     reader_offset(r));
    }
}

static int public_by_address(const void *a, const void *b)
{
    const pdb_public *x = a, *y = b;
    if (x->section != y->section)
        return x->section < y->section ? -1 : 1;
    if (x->off != y->off)
        return x->off < y->off ? -1 : 1;
    size_t shared = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = shared ? memcmp(x->name.ptr, y->name.ptr, shared) : 0;
    if (order != 0)
        return order;
    return x->name.len < y->name.len ? -1 : x->name.len > y->name.len;
}

static spgo_code allocate(globals *g, arena *mem, spgo_error *err)
{
    g->publics = arena_push(mem, g->public_count, sizeof *g->publics);
    g->proc_refs = arena_push(mem, g->proc_ref_count, sizeof *g->proc_refs);
    g->mini_refs = arena_push(mem, g->mini_ref_count, sizeof *g->mini_refs);
    if (!g->publics || !g->proc_refs || !g->mini_refs)
        return pdb_no_room(g->file, mem, "pdb.publics",
                           (uint64_t)g->public_count * sizeof *g->publics +
                               (uint64_t)g->proc_ref_count * sizeof *g->proc_refs +
                               (uint64_t)g->mini_ref_count * sizeof *g->mini_refs,
                           err);
    g->public_count = g->proc_ref_count = g->mini_ref_count = 0;
    return SPGO_OK;
}

static spgo_code read_into(const pdb *p, pdb_publics *out, diag *d, spgo_error *err)
{
    if (p->symbol_stream == 0xffff)
        return SPGO_OK;
    spgo_span stream;
    SPGO_TRY(msf_stream_bytes(&p->file, p->symbol_stream, out->mem, &stream, err));
    globals g = {.file = p, .d = d};
    reader r = reader_from(stream, 0);
    walk(&g, &r, false);
    SPGO_TRY(allocate(&g, out->mem, err));
    r = reader_from(stream, 0);
    walk(&g, &r, true);
    if (r.code)
        diag_add(d, r.code, msf_file_offset(&p->file, p->symbol_stream, r.bad_off),
                 "the publics are damaged at byte %" PRIu64 " of stream %u; the rest of them is "
                 "left out",
                 r.bad_off, p->symbol_stream);
    if (!pdb_stable_sort(g.publics, g.public_count, sizeof *g.publics, public_by_address))
        return spgo_fail_nomem(err, "pdb.publics", g.public_count * sizeof *g.publics);
    out->publics = g.publics;
    out->public_count = g.public_count;
    out->proc_refs = g.proc_refs;
    out->proc_ref_count = g.proc_ref_count;
    out->mini_refs = g.mini_refs;
    out->mini_ref_count = g.mini_ref_count;
    return SPGO_OK;
}

spgo_code pdb_publics_read(const pdb *p, pdb_publics **out, diag *d, spgo_error *err)
{
    *out = NULL;
    pdb_publics *publics = calloc(1, sizeof *publics);
    arena *mem = arena_new(p->file.budget_bytes);
    if (!publics || !mem) {
        free(publics);
        arena_free(mem);
        return spgo_fail_nomem(err, "pdb.publics", sizeof *publics);
    }
    publics->mem = mem;
    spgo_code code = read_into(p, publics, d, err);
    if (code != SPGO_OK) {
        pdb_publics_free(publics);
        return code;
    }
    *out = publics;
    return SPGO_OK;
}

void pdb_publics_free(pdb_publics *publics)
{
    if (!publics)
        return;
    arena_free(publics->mem);
    free(publics);
}
