/*
 * The back end for PDBs: opened, asked, closed. A unit is a module; the section contributions tell
 * which one holds an address, so that no other needs to be read for it.
 */
#include <symbol/pdb_backend.h>

#include <stdlib.h>

#include <base/text.h>

static spgo_code list_entries(pdb_backend *b, spgo_error *err)
{
    size_t count = b->publics->public_count;
    b->entries = calloc(count + 1, sizeof *b->entries);
    if (!b->entries)
        return spgo_fail_nomem(err, "symbol.pdb", count * sizeof *b->entries);
    for (size_t i = 0; i < count; i++)
        if (b->publics->publics[i].flags & PDB_PUBLIC_FUNCTION)
            b->entries[b->entry_count++] = &b->publics->publics[i];
    return SPGO_OK;
}

spgo_code pdb_need_publics(pdb_backend *b, diag *d, spgo_error *err)
{
    if (b->entries)
        return SPGO_OK;
    if (!b->publics)
        SPGO_TRY(pdb_publics_read(b->file, &b->publics, d, err));
    return list_entries(b, err);
}

static bool unit_at(void *self, uint32_t rva, uint32_t *unit)
{
    const pdb_backend *b = self;
    uint16_t section;
    uint32_t off;
    if (!pdb_section_offset(b->file, rva, &section, &off))
        return false;
    const pdb_contribution *c = pdb_contribution_at(b->file, section, off);
    if (!c || c->module >= pdb_module_count(b->file))
        return false;
    *unit = c->module;
    return true;
}

/* A module that is of no use is a finding, and empty. */
static spgo_code read_module(pdb_backend *b, uint32_t unit, pdb_module **out, diag *d,
                             spgo_error *err)
{
    spgo_error why;
    spgo_code code = pdb_module_read(b->file, unit, out, d, &why);
    if (code == SPGO_OK)
        return SPGO_OK;
    if (code == SPGO_NOMEM) {
        if (err)
            *err = why;
        return code;
    }
    diag_add(d, code, why.offset, "a module is left out: %.200s", why.sentence);
    return SPGO_OK;
}

spgo_code pdb_with_module(pdb_backend *b, uint32_t unit, pdb_module **m, pdb_layout *l, diag *d,
                          spgo_error *err)
{
    *l = (pdb_layout){0};
    *m = NULL;
    SPGO_TRY(pdb_need_publics(b, d, err));
    SPGO_TRY(read_module(b, unit, m, b->modules[unit].was_read ? NULL : d, err));
    b->modules[unit].was_read = true;
    if (!*m)
        return SPGO_OK;
    spgo_code code = pdb_keep_module(b, *m, err);
    if (code == SPGO_OK)
        code = pdb_layout_make(b, *m, l, err);
    if (code != SPGO_OK) {
        pdb_module_free(*m);
        *m = NULL;
    }
    return code;
}

static spgo_code read_unit(void *self, uint32_t unit, symbol_unit *out, arena *mem, diag *d,
                           spgo_error *err)
{
    pdb_backend *b = self;
    pdb_module *m;
    pdb_layout l;
    *out = (symbol_unit){0};
    SPGO_TRY(pdb_with_module(b, unit, &m, &l, d, err));
    if (!m)
        return SPGO_OK;
    spgo_code code = pdb_settle_functions(b, m, &l, true, err);
    if (code == SPGO_OK)
        code = pdb_flatten(b, m, &l, out, mem, d, err);
    pdb_layout_free(&l);
    pdb_module_free(m);
    return code;
}

static void close_backend(void *self)
{
    pdb_backend *b = self;
    if (!b)
        return;
    source_lines_free(b->sources);
    pdb_ids_free(b->ids);
    pdb_publics_free(b->publics);
    pdb_close(b->file);
    free(b->entries);
    free(b->modules);
    free(b->inlinees.slots);
    free(b->decorated_names.rows);
    free(b->proc_names.rows);
    free(b->tables);
    free(b->labels);
    free(b->no_return);
    free(b);
}

/* What a PDB lacks, with the way to get it. */
static void say_what_lacks(const pdb *p, diag *d)
{
    const pdb_info *info = pdb_get_info(p);
    if (info->features & PDB_FEATURE_MINI)
        diag_add(
            d, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
            "the PDB was linked with /DEBUG:FASTLINK, which leaves procedures and lines in the "
            "object files; link with /DEBUG:FULL (or run mspdbcmf) to have them");
    else if (info->is_stripped)
        diag_add(d, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
                 "the PDB is stripped: it has names of public functions and no lines; use the one "
                 "that the linker wrote");
    else if (!info->has_dbi)
        diag_add(d, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
                 "the PDB has only types, as a compiler writes them; use the one that the linker "
                 "wrote");
}

spgo_code symbol_pdb_open(const symbol_image *image, const symbols_opts *opts, symbol_backend *out,
                          diag *d, spgo_error *err)
{
    static const char where[] = "symbol.pdb";
    enum { BUDGET_BASE = 1 << 20 };
    pdb_container kind = pdb_sniff(image->debug);
    if (kind == PDB_NOT || kind == PDB_IMAGE)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "there is no PDB");
    pdb_backend *b = calloc(1, sizeof *b);
    if (!b)
        return spgo_fail_nomem(err, where, sizeof *b);
    b->image = image;
    b->left = (pdb_budget){.compared_bytes = 64 * (BUDGET_BASE + (uint64_t)image->debug.len),
                           .visits = 16 * (BUDGET_BASE + (uint64_t)image->debug.len),
                           .frames = BUDGET_BASE + image->debug.len / 2};
    spgo_code code = pdb_open(image->debug, NULL, &b->file, d, err);
    if (code == SPGO_OK)
        code = pdb_ids_new(b->file, NULL, &b->ids, err);
    if (code == SPGO_OK) {
        size_t count = pdb_module_count(b->file);
        b->modules = calloc(count + 1, sizeof *b->modules);
        b->sources = source_lines_new(opts->source_roots, opts->source_root_count);
        if (!b->modules || !b->sources)
            code = spgo_fail_nomem(err, where, count * sizeof *b->modules);
    }
    if (code != SPGO_OK) {
        close_backend(b);
        return code;
    }
    say_what_lacks(b->file, d);
    *out = (symbol_backend){.self = b,
                            .unit_at = unit_at,
                            .read_unit = read_unit,
                            .procedures = pdb_list_procedures,
                            .hints = pdb_give_hints,
                            .close = close_backend};
    return SPGO_OK;
}
