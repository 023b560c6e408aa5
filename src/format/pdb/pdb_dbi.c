/*
 * The DBI stream: a header with the sizes of its parts, the modules, which of them each piece of a
 * section came from, and the numbers of the streams with section headers and OMAPs.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    DBI_VERSION_MIN = 19970606,
    BUILD_NEW_FORMAT = 0x8000,
    FLAG_INCREMENTAL = 1,
    FLAG_STRIPPED = 2,
    FLAG_CONFLICTING_TYPES = 4,

    MODULE_MIN_SIZE = 64 + 2,
    CONTRIBUTION_SIZE_1 = 28,
    CONTRIBUTION_SIZE_2 = 32,
    SECTION_HEADER_SIZE = 40,
    NO_STREAM = 0xffff,

    DEBUG_OMAP_TO_SOURCE = 3,
    DEBUG_OMAP_FROM_SOURCE = 4,
    DEBUG_SECTIONS = 5,
    DEBUG_ORIGINAL_SECTIONS = 10,
    DEBUG_STREAMS = 11
};

#define CONTRIBUTIONS_VERSION_1 (0xeffe0000u + 19970605u)
#define CONTRIBUTIONS_VERSION_2 (0xeffe0000u + 20140516u)

/* The parts, in the order of the stream. */
typedef enum dbi_part {
    PART_MODULES,
    PART_CONTRIBUTIONS,
    PART_SECTION_MAP,
    PART_FILES,
    PART_TYPE_SERVERS,
    PART_EDIT_AND_CONTINUE,
    PART_DEBUG_STREAMS,
    PART_COUNT
} dbi_part;

typedef struct dbi_header {
    uint32_t sizes[PART_COUNT];
    size_t offs[PART_COUNT];
} dbi_header;

static uint64_t dbi_offset(const pdb *p, uint64_t off)
{
    return msf_file_offset(&p->file, PDB_STREAM_DBI, off);
}

/* ------------------------------------------------------------------ header */

static spgo_code check_version(const pdb *p, int32_t signature, spgo_error *err)
{
    static const char where[] = "pdb.dbi";
    if (signature != -1)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, dbi_offset(p, 0),
                         "the DBI stream starts with %" PRId32
                         ", not -1: a form from before 1997, or damage",
                         signature);
    if (p->info.dbi_version < DBI_VERSION_MIN)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, dbi_offset(p, 4),
                         "the DBI stream has version %" PRIu32
                         ", from before 1998; link again with a newer linker",
                         p->info.dbi_version);
    return SPGO_OK;
}

static void set_linker(pdb *p, uint16_t build)
{
    if (!(build & BUILD_NEW_FORMAT))
        return;
    p->info.linker_major = (uint8_t)(build >> 8 & 0x7f);
    p->info.linker_minor = (uint8_t)(build & 0xff);
}

static void set_flags(pdb *p, uint16_t flags)
{
    p->info.is_incremental = flags & FLAG_INCREMENTAL;
    p->info.is_stripped = flags & FLAG_STRIPPED;
    p->info.has_conflicting_types = flags & FLAG_CONFLICTING_TYPES;
}

static spgo_code place_parts(const pdb *p, dbi_header *h, size_t pos, spgo_error *err)
{
    for (int part = 0; part < PART_COUNT; part++) {
        if (h->sizes[part] > p->dbi.len - pos)
            return spgo_fail(err, SPGO_CORRUPT, "pdb.dbi", dbi_offset(p, pos),
                             "part %d of the DBI stream has %" PRIu32
                             " bytes; the stream has %zu left for it",
                             part, h->sizes[part], p->dbi.len - pos);
        h->offs[part] = pos;
        pos += h->sizes[part];
    }
    return SPGO_OK;
}

static spgo_code read_header(pdb *p, dbi_header *h, spgo_error *err)
{
    reader r = reader_from(p->dbi, 0);
    int32_t signature = (int32_t)reader_u32(&r);
    p->info.dbi_version = reader_u32(&r);
    uint32_t age = reader_u32(&r);
    reader_skip(&r, 2); /* stream of the globals' hash */
    uint16_t build = reader_u16(&r);
    reader_skip(&r, 2 + 2); /* of the publics' hash; version of the linker's PDB library */
    p->symbol_stream = reader_u16(&r);
    reader_skip(&r, 2);
    for (int part = PART_MODULES; part <= PART_TYPE_SERVERS; part++)
        h->sizes[part] = reader_u32(&r);
    reader_skip(&r, 4); /* index of the type server in use */
    h->sizes[PART_DEBUG_STREAMS] = reader_u32(&r);
    h->sizes[PART_EDIT_AND_CONTINUE] = reader_u32(&r);
    uint16_t flags = reader_u16(&r);
    p->info.machine = reader_u16(&r);
    reader_skip(&r, 4);
    SPGO_TRY(pdb_finish(p, PDB_STREAM_DBI, &r, "pdb.dbi", err));
    SPGO_TRY(check_version(p, signature, err));
    p->info.id.age = age;
    p->info.has_dbi = true;
    set_linker(p, build);
    set_flags(p, flags);
    return place_parts(p, h, r.pos, err);
}

/* ------------------------------------------------------------------ modules */

static pdb_contribution take_contribution(reader *r)
{
    pdb_contribution c = {0};
    c.section = reader_u16(r);
    reader_skip(r, 2);
    c.off = reader_u32(r);
    c.size = reader_u32(r);
    c.characteristics = reader_u32(r);
    c.module = reader_u16(r);
    reader_skip(r, 2 + 4 + 4); /* checksums of the bytes and of the relocations */
    return c;
}

static pdb_module_header take_module(reader *r)
{
    pdb_module_header m;
    size_t start = r->pos;
    reader_skip(r, 4);
    m.first = take_contribution(r);
    m.flags = reader_u16(r);
    uint16_t stream = reader_u16(r);
    m.stream = stream == NO_STREAM ? PDB_NONE : stream;
    m.symbol_bytes = reader_u32(r);
    m.c11_bytes = reader_u32(r);
    m.c13_bytes = reader_u32(r);
    m.file_count = reader_u16(r);
    reader_skip(r, 2 + 4 + 4 + 4);
    m.name = reader_cstr(r);
    m.object_name = reader_cstr(r);
    size_t pad = (4 - (r->pos - start) % 4) % 4;
    size_t left = reader_left(r);
    reader_skip(r, pad < left ? pad : left);
    return m;
}

static spgo_code read_modules(pdb *p, const dbi_header *h, spgo_error *err)
{
    static const char where[] = "pdb.modules";
    /* Their number is written nowhere: count them first. */
    reader r = pdb_part(p->dbi, h->offs[PART_MODULES], h->sizes[PART_MODULES]);
    size_t count = 0;
    for (; reader_left(&r) > 0; count++)
        (void)take_module(&r);
    SPGO_TRY(pdb_finish(p, PDB_STREAM_DBI, &r, where, err));
    p->modules = arena_push(p->mem, count, sizeof *p->modules);
    if (!p->modules)
        return pdb_no_room(p, p->mem, where, count * sizeof *p->modules, err);
    r = pdb_part(p->dbi, h->offs[PART_MODULES], h->sizes[PART_MODULES]);
    for (size_t i = 0; i < count; i++)
        p->modules[i] = take_module(&r);
    p->module_count = count;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ contributions */

static int by_address(const void *a, const void *b)
{
    const pdb_contribution *x = a, *y = b;
    if (x->section != y->section)
        return x->section < y->section ? -1 : 1;
    if (x->off != y->off)
        return x->off < y->off ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->module < y->module ? -1 : x->module > y->module;
}

/* Linkers write them sorted as a rule. */
static void sort_contributions(pdb *p)
{
    for (size_t i = 1; i < p->contribution_count; i++) {
        if (by_address(&p->contributions[i - 1], &p->contributions[i]) > 0) {
            qsort(p->contributions, p->contribution_count, sizeof *p->contributions, by_address);
            return;
        }
    }
}

static spgo_code read_contributions(pdb *p, const dbi_header *h, diag *d, spgo_error *err)
{
    size_t start = h->offs[PART_CONTRIBUTIONS];
    if (h->sizes[PART_CONTRIBUTIONS] == 0)
        return SPGO_OK;
    reader r = pdb_part(p->dbi, start, h->sizes[PART_CONTRIBUTIONS]);
    uint32_t version = reader_u32(&r);
    size_t row = version == CONTRIBUTIONS_VERSION_1   ? CONTRIBUTION_SIZE_1
                 : version == CONTRIBUTIONS_VERSION_2 ? CONTRIBUTION_SIZE_2
                                                      : 0;
    if (row == 0) {
        diag_add(d, SPGO_UNSUPPORTED, dbi_offset(p, start),
                 "the section contributions have version 0x%" PRIx32
                 ", an unknown one; addresses lead to no module",
                 version);
        return SPGO_OK;
    }
    size_t count = reader_left(&r) / row;
    if (reader_left(&r) % row)
        diag_add(d, SPGO_CORRUPT, dbi_offset(p, start + 4 + count * row),
                 "%zu bytes are left behind the section contributions, less than a row",
                 reader_left(&r) % row);
    p->contributions = arena_push(p->mem, count, sizeof *p->contributions);
    if (!p->contributions)
        return pdb_no_room(p, p->mem, "pdb.contributions", count * sizeof *p->contributions, err);
    for (size_t i = 0; i < count; i++) {
        p->contributions[i] = take_contribution(&r);
        if (row == CONTRIBUTION_SIZE_2)
            p->contributions[i].coff_section = reader_u32(&r);
    }
    p->contribution_count = count;
    sort_contributions(p);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ sections and OMAPs */

/* The bytes of a debug stream that has rows of row_size bytes; none on damage, with a finding. */
static spgo_code debug_rows(pdb *p, uint16_t stream, const char *what, size_t row_size,
                            spgo_span *out, diag *d, spgo_error *err)
{
    *out = (spgo_span){NULL, 0};
    if (stream == NO_STREAM)
        return SPGO_OK;
    spgo_error why = {0};
    spgo_code code = msf_stream_bytes(&p->file, stream, p->mem, out, &why);
    if (code == SPGO_NOMEM || code == SPGO_LIMIT) {
        if (err)
            *err = why;
        return code;
    }
    if (code != SPGO_OK)
        diag_add(d, code, why.offset, "the %s are not read: %.150s", what, why.sentence);
    else if (out->len % row_size)
        diag_add(d, SPGO_CORRUPT, msf_file_offset(&p->file, stream, out->len),
                 "the stream of the %s has %zu bytes, no multiple of %zu", what, out->len,
                 row_size);
    out->len -= out->len % row_size;
    return SPGO_OK;
}

static spgo_code read_sections(pdb *p, uint16_t stream, const char *what, pdb_sections *out,
                               diag *d, spgo_error *err)
{
    spgo_span rows;
    SPGO_TRY(debug_rows(p, stream, what, SECTION_HEADER_SIZE, &rows, d, err));
    out->count = rows.len / SECTION_HEADER_SIZE;
    out->rows = arena_push(p->mem, out->count, sizeof *out->rows);
    if (!out->rows)
        return pdb_no_room(p, p->mem, "pdb.sections", out->count * sizeof *out->rows, err);
    reader r = reader_from(rows, 0);
    for (size_t i = 0; i < out->count; i++) {
        pdb_section *s = &out->rows[i];
        const uint8_t *name = reader_take(&r, 8);
        if (name)
            memcpy(s->name, name, 8);
        s->virtual_size = reader_u32(&r);
        s->rva = reader_u32(&r);
        s->raw_size = reader_u32(&r);
        s->raw_off = reader_u32(&r);
        reader_skip(&r, 4 + 4 + 2 + 2); /* relocations and line numbers: objects have them */
        s->characteristics = reader_u32(&r);
    }
    return SPGO_OK;
}

static int by_rva(const void *a, const void *b)
{
    const pdb_omap *x = a, *y = b;
    if (x->rva != y->rva)
        return x->rva < y->rva ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static spgo_code read_omap(pdb *p, uint16_t stream, const char *what, pdb_omaps *out, diag *d,
                           spgo_error *err)
{
    spgo_span rows;
    SPGO_TRY(debug_rows(p, stream, what, sizeof(pdb_omap), &rows, d, err));
    out->count = rows.len / sizeof(pdb_omap);
    out->rows = arena_push(p->mem, out->count, sizeof *out->rows);
    if (!out->rows)
        return pdb_no_room(p, p->mem, "pdb.omap", out->count * sizeof *out->rows, err);
    reader r = reader_from(rows, 0);
    bool sorted = true;
    for (size_t i = 0; i < out->count; i++) {
        out->rows[i].rva = reader_u32(&r);
        out->rows[i].to = reader_u32(&r);
        sorted = sorted && (i == 0 || out->rows[i - 1].rva <= out->rows[i].rva);
    }
    if (!sorted) {
        diag_add(d, SPGO_CORRUPT, msf_file_offset(&p->file, stream, 0),
                 "the %s are not sorted; they are sorted here", what);
        qsort(out->rows, out->count, sizeof *out->rows, by_rva);
    }
    return SPGO_OK;
}

static int by_linked(const void *a, const void *b)
{
    const pdb_source *x = a, *y = b;
    if (x->linked != y->linked)
        return x->linked < y->linked ? -1 : 1;
    return x->rva < y->rva ? -1 : x->rva > y->rva;
}

static spgo_code index_sources(pdb *p, spgo_error *err)
{
    const pdb_omaps *map = &p->to_source;
    p->sources = arena_push(p->mem, map->count, sizeof *p->sources);
    if (!p->sources)
        return pdb_no_room(p, p->mem, "pdb.omap", map->count * sizeof *p->sources, err);
    for (size_t i = 0; i + 1 < map->count; i++)
        p->sources[p->source_count++] = (pdb_source){map->rows[i].to, map->rows[i].rva,
                                                     map->rows[i + 1].rva - map->rows[i].rva};
    qsort(p->sources, p->source_count, sizeof *p->sources, by_linked);
    return SPGO_OK;
}

static spgo_code read_debug_streams(pdb *p, const dbi_header *h, diag *d, spgo_error *err)
{
    uint16_t streams[DEBUG_STREAMS];
    reader r = pdb_part(p->dbi, h->offs[PART_DEBUG_STREAMS], h->sizes[PART_DEBUG_STREAMS]);
    for (int i = 0; i < DEBUG_STREAMS; i++)
        streams[i] = reader_left(&r) >= 2 ? reader_u16(&r) : NO_STREAM;
    SPGO_TRY(read_sections(p, streams[DEBUG_SECTIONS], "section headers", &p->sections, d, err));
    SPGO_TRY(read_sections(p, streams[DEBUG_ORIGINAL_SECTIONS], "original section headers",
                           &p->original_sections, d, err));
    SPGO_TRY(read_omap(p, streams[DEBUG_OMAP_TO_SOURCE], "rows of the OMAP to the source",
                       &p->to_source, d, err));
    SPGO_TRY(read_omap(p, streams[DEBUG_OMAP_FROM_SOURCE], "rows of the OMAP from the source",
                       &p->from_source, d, err));
    SPGO_TRY(index_sources(p, err));
    p->info.has_omap = p->from_source.count > 0 || p->to_source.count > 0;
    if (p->original_sections.count == 0)
        p->original_sections = p->sections;
    if (p->sections.count == 0)
        diag_add(d, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
                 "the PDB has no section headers; its addresses have no RVAs");
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the whole */

spgo_code pdb_read_dbi(pdb *p, diag *d, spgo_error *err)
{
    uint32_t size = msf_stream_size(&p->file, PDB_STREAM_DBI);
    if (size == 0 || size == UINT32_MAX)
        return SPGO_OK; /* a compiler's PDB */
    SPGO_TRY(msf_stream_bytes(&p->file, PDB_STREAM_DBI, p->mem, &p->dbi, err));
    dbi_header h = {0};
    SPGO_TRY(read_header(p, &h, err));
    SPGO_TRY(read_modules(p, &h, err));
    SPGO_TRY(read_contributions(p, &h, d, err));
    return read_debug_streams(p, &h, d, err);
}

size_t pdb_module_count(const pdb *p)
{
    return p->module_count;
}

const pdb_module_header *pdb_get_module_header(const pdb *p, size_t i)
{
    return i < p->module_count ? &p->modules[i] : NULL;
}

size_t pdb_contribution_count(const pdb *p)
{
    return p->contribution_count;
}

const pdb_contribution *pdb_get_contribution(const pdb *p, size_t i)
{
    return i < p->contribution_count ? &p->contributions[i] : NULL;
}
