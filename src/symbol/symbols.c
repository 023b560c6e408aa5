/* Opening an image with what is known of it, and the answers: see symbol.h. */
#include <symbol/symbol.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <os/file.h>
#include <symbol/entries.h>
#include <symbol/image.h>
#include <symbol/labels.h>
#include <symbol/locate.h>
#include <symbol/procedures.h>

static const char where[] = "symbol";

/* Units are numbered from 0, by whoever has counted them in a file. */
enum { UNITS_MAX = 1 << 28 };

typedef struct unit {
    symbol_unit runs;
    bool is_read;
} unit;

struct symbols {
    symbols_info info;
    symbol_image image;
    intern names;
    located image_file, debug_file;
    diag findings; /* since the open */

    symbol_backend backend;
    bool has_backend;
    unit *units;
    size_t unit_count;
    uint32_t last_unit; /* where the last run was found: the next one is often beside it */
    size_t last_run;

    procedure_table procedures;
    bool has_procedures;
    size_t last_piece;
    const symbol_frame *
        *frames; /* of procedures that no unit describes, when they were asked for */
};

/* ------------------------------------------------------------------ opening */

static spgo_code open_image(symbols *s, const symbols_opts *opts, diag *d, spgo_error *err)
{
    SPGO_TRY(locate_image(opts, s->image.mem, &s->image_file, d, err));
    s->info.image_path = s->image_file.path;
    return image_read(os_input_bytes(s->image_file.file), &s->image, &s->info, d, err);
}

/* A debug file that nobody named may be missing or of no use, which is a finding. One of another
 * build is an error: the names it gives would be wrong. */
static spgo_code open_debug(symbols *s, const symbols_opts *opts, diag *d, spgo_error *err)
{
    /* A PE image may have a PDB besides, which does where DWARF is not read. */
    bool is_read = SPGO_HAVE_DWARF || !s->image.is_pe;
    if (!opts->debug_path && is_read && image_has_dwarf(&s->image))
        return SPGO_OK;
    spgo_error why;
    spgo_code code =
        locate_debug(opts, &s->image, s->info.image_path, s->image.mem, &s->debug_file, d, &why);
    bool must_fail = opts->debug_path || code == SPGO_MISMATCH || code == SPGO_NOMEM;
    if (code != SPGO_OK && !must_fail) {
        diag_add(d, code, why.offset, "%s", why.sentence);
        return SPGO_OK;
    }
    if (code != SPGO_OK) {
        if (err)
            *err = why;
        return code;
    }
    s->info.debug_path = s->debug_file.path;
    image_add_debug(&s->image, os_input_bytes(s->debug_file.file), &s->info);
    return SPGO_OK;
}

/* The first back end that has something to say. */
static spgo_code open_backend(symbols *s, const symbols_opts *opts, diag *d, spgo_error *err)
{
    static const struct {
        spgo_code (*open)(const symbol_image *image, const symbols_opts *opts, symbol_backend *out,
                          diag *d, spgo_error *err);
        symbols_source source;
    } backends[] = {{symbol_dwarf_open, SYMBOLS_DWARF}, {symbol_pdb_open, SYMBOLS_PDB}};

    s->info.source = SYMBOLS_TABLE;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        spgo_error why;
        spgo_code code = backends[i].open(&s->image, opts, &s->backend, d, &why);
        if (code == SPGO_OK) {
            s->has_backend = true;
            s->info.source = backends[i].source;
            return SPGO_OK;
        }
        /* What this build cannot read may still have names in its tables. */
        if (code == SPGO_UNSUPPORTED)
            diag_add(d, code, why.offset, "%s", why.sentence);
        else if (code != SPGO_NOT_FOUND) {
            if (err)
                *err = why;
            return code;
        }
    }
    return SPGO_OK;
}

static spgo_code open_all(symbols *s, const symbols_opts *opts, diag *d, spgo_error *err)
{
    SPGO_TRY(open_image(s, opts, d, err));
    symbols_opts with_pdb = *opts;
    if (!opts->debug_path)
        with_pdb.debug_path = s->image_file.pdb_path;
    SPGO_TRY(open_debug(s, &with_pdb, d, err));
    return open_backend(s, opts, d, err);
}

spgo_code symbols_open(const symbols_opts *opts, symbols **out, diag *d, spgo_error *err)
{
    *out = NULL;
    symbols *s = calloc(1, sizeof *s);
    arena *mem = s ? arena_new(0) : NULL;
    if (!mem) {
        free(s);
        return spgo_fail_nomem(err, where, sizeof *s);
    }
    s->image.mem = mem;
    s->image.names = &s->names;
    s->last_unit = UINT32_MAX;
    spgo_code code = open_all(s, opts, d, err);
    if (code != SPGO_OK) {
        symbols_close(s);
        return code;
    }
    *out = s;
    return SPGO_OK;
}

void symbols_close(symbols *s)
{
    if (!s)
        return;
    if (s->has_backend && s->backend.close)
        s->backend.close(s->backend.self);
    free(s->units);
    intern_free(&s->names);
    os_input_close(s->debug_file.file);
    os_input_close(s->image_file.file);
    arena_free(s->image.mem);
    free(s);
}

const symbols_info *symbols_get_info(const symbols *s)
{
    return &s->info;
}

const diag *symbols_findings(const symbols *s)
{
    return &s->findings;
}

const code_image *symbols_code(const symbols *s)
{
    return &s->image.code;
}

/* ------------------------------------------------------------------ units */

static spgo_code reach_unit(symbols *s, uint32_t number, spgo_error *err)
{
    if (number >= UNITS_MAX)
        return spgo_fail(err, SPGO_LIMIT, where, SPGO_NO_OFFSET,
                         "unit %u is beyond the limit of %d", (unsigned)number, UNITS_MAX);
    if (number < s->unit_count)
        return SPGO_OK;
    size_t count = s->unit_count ? s->unit_count : 64;
    while (count <= number)
        count *= 2;
    unit *grown = realloc(s->units, count * sizeof *grown);
    if (!grown)
        return spgo_fail_nomem(err, where, count * sizeof *grown);
    memset(grown + s->unit_count, 0, (count - s->unit_count) * sizeof *grown);
    s->units = grown;
    s->unit_count = count;
    return SPGO_OK;
}

/* A unit that cannot be read has no runs, and a finding says so once. */
static spgo_code get_unit(symbols *s, uint32_t number, const symbol_unit **out, spgo_error *err)
{
    SPGO_TRY(reach_unit(s, number, err));
    unit *u = &s->units[number];
    if (!u->is_read) {
        spgo_error why;
        spgo_code code = s->backend.read_unit(s->backend.self, number, &u->runs, s->image.mem,
                                              &s->findings, &why);
        if (code == SPGO_NOMEM) {
            u->runs = (symbol_unit){0};
            if (err)
                *err = why;
            return code;
        }
        if (code != SPGO_OK) {
            u->runs = (symbol_unit){0};
            diag_add(&s->findings, code, why.offset, "%s", why.sentence);
        }
        u->is_read = true;
    }
    *out = &u->runs;
    return SPGO_OK;
}

/* The last run that begins at or before an RVA, tried first where the last one was found. */
static const symbol_run *run_in_unit(symbols *s, uint32_t number, const symbol_unit *u,
                                     uint32_t rva)
{
    size_t low = 0, high = u->run_count;
    if (number == s->last_unit && s->last_run < u->run_count &&
        u->runs[s->last_run].begin_rva <= rva) {
        low = s->last_run;
        if (low + 2 < high && u->runs[low + 2].begin_rva > rva)
            high = low + 2;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (u->runs[middle].begin_rva <= rva)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || rva >= u->runs[low - 1].end_rva)
        return NULL;
    s->last_unit = number;
    s->last_run = low - 1;
    return &u->runs[low - 1];
}

/* *out NULL: the back end has no run there. */
static spgo_code backend_run(symbols *s, uint32_t rva, const symbol_run **out, spgo_error *err)
{
    uint32_t number;
    *out = NULL;
    if (!s->has_backend || !s->backend.unit_at(s->backend.self, rva, &number))
        return SPGO_OK;
    const symbol_unit *u;
    SPGO_TRY(get_unit(s, number, &u, err));
    *out = run_in_unit(s, number, u, rva);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ procedures */

/* A source that fails leaves out what it did not tell, with a finding; only lack of memory counts.
 */
static spgo_code forgive(symbols *s, spgo_code code, const spgo_error *why, spgo_error *err)
{
    if (code == SPGO_NOMEM) {
        if (err)
            *err = *why;
        return code;
    }
    if (code != SPGO_OK && code != SPGO_NOT_FOUND)
        diag_add(&s->findings, code, why->offset, "%s", why->sentence);
    return SPGO_OK;
}

static spgo_code find_procedures(symbols *s, symbol_found *backend, symbol_found *tables,
                                 spgo_error *err)
{
    spgo_error why;
    spgo_code code = SPGO_OK;
    if (s->has_backend)
        code = s->backend.procedures(s->backend.self, backend, s->image.mem, &s->findings, &why);
    SPGO_TRY(forgive(s, code, &why, err));
    code = (s->image.is_pe ? symbol_pe_procedures : symbol_elf_procedures)(&s->image, tables,
                                                                           &s->findings, &why);
    SPGO_TRY(forgive(s, code, &why, err));
    if (!symbol_entries_by_name(backend, tables))
        return spgo_fail_nomem(err, where, tables->count * sizeof(symbol_procedure *));
    return procedure_table_build(&s->image, backend, tables, &s->procedures, err);
}

static spgo_code need_procedures(symbols *s, spgo_error *err)
{
    if (s->has_procedures)
        return SPGO_OK;
    symbol_found backend = {0}, tables = {0};
    spgo_code code = find_procedures(s, &backend, &tables, err);
    free(backend.procedures);
    free(tables.procedures);
    if (code != SPGO_OK)
        return code;
    const procedure_table *t = &s->procedures;
    s->frames = arena_push(s->image.mem, t->count, sizeof *s->frames);
    if (!s->frames)
        return spgo_fail_nomem(err, where, t->count * sizeof *s->frames);
    s->has_procedures = true;
    return SPGO_OK;
}

spgo_code symbols_procedures(symbols *s, const symbol_procedure **out, size_t *count,
                             spgo_error *err)
{
    SPGO_TRY(need_procedures(s, err));
    *out = s->procedures.rows;
    *count = s->procedures.count;
    return SPGO_OK;
}

static const procedure_piece *piece_at(symbols *s, uint32_t rva)
{
    const procedure_table *t = &s->procedures;
    size_t i = s->last_piece;
    bool is_same =
        i < t->piece_count && t->pieces[i].begin_rva <= rva && rva < t->pieces[i].end_rva;
    if (!is_same)
        i = procedure_piece_at(t, rva);
    if (i == SIZE_MAX)
        return NULL;
    s->last_piece = i;
    return &t->pieces[i];
}

const symbol_procedure *symbols_procedure_at(symbols *s, uint32_t rva)
{
    if (need_procedures(s, NULL) != SPGO_OK)
        return NULL;
    const procedure_piece *piece = piece_at(s, rva);
    return piece ? &s->procedures.rows[piece->procedure] : NULL;
}

const spgo_str *symbols_other_names(symbols *s, const symbol_procedure *p, size_t *count)
{
    const procedure_names *others = &s->procedures.others[p - s->procedures.rows];
    *count = others->count;
    return others->names;
}

spgo_code symbols_labels(symbols *s, const symbol_label **out, size_t *count, spgo_error *err)
{
    return symbol_labels_list(&s->image, out, count, err);
}

flow_hints symbols_flow_hints(symbols *s, const symbol_procedure *p)
{
    flow_hints hints = {0};
    if (s->has_backend && s->backend.hints)
        s->backend.hints(s->backend.self, p, &hints, s->image.mem);
    hints.branches = NULL;
    hints.branch_count = 0;
    hints.no_return = s->procedures.no_return;
    hints.no_return_count = s->procedures.no_return_count;
    return hints;
}

/* ------------------------------------------------------------------ frames */

/* The frame of a procedure of which nothing but a name is known. */
static const symbol_frame *procedure_frame(symbols *s, uint32_t index, spgo_error *err)
{
    if (s->frames[index])
        return s->frames[index];
    const symbol_procedure *p = &s->procedures.rows[index];
    symbol_frame *frame = arena_push(s->image.mem, 1, sizeof *frame);
    symbol_function *function = arena_push(s->image.mem, 1, sizeof *function);
    if (!frame || !function) {
        (void)spgo_fail_nomem(err, where, sizeof *frame + sizeof *function);
        return NULL;
    }
    *function = (symbol_function){.name = p->name, .linkage_name = p->name};
    frame->function = p->function ? p->function : function;
    s->frames[index] = frame;
    return frame;
}

/*
 * The run of a procedure around an RVA for which the back end has none: within a window, since each
 * byte of it has to be looked at. Callers see longer runs as several of one leaf.
 */
static spgo_code procedure_run(symbols *s, const procedure_piece *piece, uint32_t rva,
                               symbol_run *out, spgo_error *err)
{
    enum { WINDOW = 256 };
    uint32_t low = rva & ~(uint32_t)(WINDOW - 1), high = low | (WINDOW - 1);
    if (low < piece->begin_rva)
        low = piece->begin_rva;
    if (high > piece->end_rva - 1)
        high = piece->end_rva - 1;
    uint32_t begin = rva, last = rva;
    const symbol_run *run;
    for (; begin > low; begin--) {
        SPGO_TRY(backend_run(s, begin - 1, &run, err));
        if (run)
            break;
    }
    for (; last < high; last++) {
        SPGO_TRY(backend_run(s, last + 1, &run, err));
        if (run)
            break;
    }
    *out = (symbol_run){begin, last + 1, procedure_frame(s, piece->procedure, err)};
    return out->leaf ? SPGO_OK : SPGO_NOMEM;
}

spgo_code symbols_run_at(symbols *s, uint32_t rva, symbol_run *out, spgo_error *err)
{
    const symbol_run *run;
    SPGO_TRY(backend_run(s, rva, &run, err));
    if (run) {
        *out = *run;
        return SPGO_OK;
    }
    SPGO_TRY(need_procedures(s, err));
    const procedure_piece *piece = piece_at(s, rva);
    const symbol_procedure *p = piece ? &s->procedures.rows[piece->procedure] : NULL;
    if (p && (p->name.len > 0 || p->function))
        return procedure_run(s, piece, rva, out, err);
    return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "nothing is known of RVA 0x%x",
                     (unsigned)rva);
}
