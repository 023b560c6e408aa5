/*
 * The C13 subsections of a module: files and their checksums, line tables, where inlinees are
 * declared, and what the module imports from and exports to others. They are walked twice, to count
 * and to fill, so that each table is allocated once and at its size.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <string.h>

enum {
    C13_LINES = 0xf2,
    C13_FILES = 0xf4,
    C13_INLINEES = 0xf6,
    C13_IMPORTS = 0xf7,
    C13_EXPORTS = 0xf8,

    LINES_HAVE_COLUMNS = 1,
    LINE_BLOCK_HEADER = 12,
    LINE_ROW = 8,
    COLUMN_ROW = 4,
    INLINEE_ROW = 12,
    EXPORT_ROW = 8
};

#define C13_IGNORE 0x80000000u

/* What is being filled, and how much there is of each. */
typedef struct tables {
    pdb_module *m;
    pdb_file *files;
    pdb_line_set *sets;
    pdb_line *lines;
    pdb_inlinee_line *inlinees;
    pdb_import *imports;
    spgo_span files_part, exports;
    size_t file_count, set_count, line_count, inlinee_count, import_count;
    diag *d;
} tables;

static void add_finding(const tables *t, const reader *r, const char *what)
{
    const pdb *p = t->m->file;
    uint32_t stream = p->modules[t->m->index].stream;
    diag_add(t->d, r->code, msf_file_offset(&p->file, stream, r->bad_off),
             "module %" PRIu32 ": %s are damaged at byte %" PRIu64 " of stream %" PRIu32
             "; the rest of them is left out",
             t->m->index, what, r->bad_off, stream);
}

/* ------------------------------------------------------------------ subsections */

typedef struct subsection {
    uint32_t kind;
    reader body;
} subsection;

static bool next_subsection(reader *r, subsection *s)
{
    if (reader_left(r) < 8)
        return false;
    s->kind = reader_u32(r);
    uint32_t size = reader_u32(r);
    s->body = reader_sub(r, size);
    size_t pad = (4 - size % 4) % 4, left = reader_left(r);
    reader_skip(r, pad < left ? pad : left);
    return r->code == SPGO_OK;
}

spgo_span pdb_find_exports(spgo_span c13)
{
    reader r = reader_from(c13, 0);
    subsection s;
    while (next_subsection(&r, &s))
        if (s.kind == C13_EXPORTS)
            return (spgo_span){s.body.base, s.body.len - s.body.len % EXPORT_ROW};
    return (spgo_span){NULL, 0};
}

/* ------------------------------------------------------------------ files */

static bool next_file(reader *r, uint64_t start, pdb_file *f, uint32_t *name_off)
{
    if (reader_left(r) == 0)
        return false;
    f->checksum_off = (uint32_t)(reader_offset(r) - start);
    *name_off = reader_u32(r);
    uint8_t size = reader_u8(r);
    f->checksum_kind = reader_u8(r);
    f->checksum = reader_bytes(r, size);
    size_t pad = (4 - (4u + 2u + size) % 4) % 4, left = reader_left(r);
    reader_skip(r, pad < left ? pad : left);
    return r->code == SPGO_OK;
}

static void fill_files(tables *t, reader part)
{
    uint64_t start = reader_offset(&part);
    pdb_file f;
    uint32_t name_off;
    while (next_file(&part, start, &f, &name_off)) {
        f.name = pdb_string(t->m->file, name_off);
        t->files[t->file_count++] = f;
    }
    if (part.code)
        add_finding(t, &part, "the checksums of files");
}

uint32_t pdb_file_index(const pdb_module *m, uint32_t checksum_off)
{
    size_t low = 0, high = m->file_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->files[mid].checksum_off < checksum_off)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < m->file_count && m->files[low].checksum_off == checksum_off;
    return found ? (uint32_t)low : PDB_NONE;
}

/* ------------------------------------------------------------------ lines */

typedef struct line_block {
    uint32_t file_off;
    size_t count;
    reader rows, columns;
} line_block;

static bool next_block(reader *r, bool has_columns, line_block *b)
{
    if (reader_left(r) == 0)
        return false;
    b->file_off = reader_u32(r);
    uint32_t count = reader_u32(r);
    uint32_t size = reader_u32(r);
    if (!r->code && size < LINE_BLOCK_HEADER)
        reader_fail(r, SPGO_CORRUPT, reader_offset(r) - 4);
    reader body = reader_sub(r, size - LINE_BLOCK_HEADER);
    b->count = reader_count(&body, count, has_columns ? LINE_ROW + COLUMN_ROW : LINE_ROW);
    if (body.code)
        reader_fail(r, body.code, body.bad_off);
    b->rows = reader_sub(&body, b->count * (uint64_t)LINE_ROW);
    b->columns = reader_sub(&body, has_columns ? b->count * (uint64_t)COLUMN_ROW : 0);
    return r->code == SPGO_OK;
}

static pdb_line_set take_set(reader *r)
{
    pdb_line_set s = {0};
    s.off = reader_u32(r);
    s.section = reader_u16(r);
    s.has_columns = reader_u16(r) & LINES_HAVE_COLUMNS;
    s.size = reader_u32(r);
    return s;
}

static void count_lines(tables *t, reader part)
{
    pdb_line_set s = take_set(&part);
    line_block b;
    while (next_block(&part, s.has_columns, &b))
        t->line_count += b.count;
    t->set_count++;
}

static pdb_line take_line(line_block *b, bool has_columns, uint32_t file)
{
    pdb_line l = {.off = reader_u32(&b->rows), .file = file};
    uint32_t bits = reader_u32(&b->rows);
    l.line = bits & 0xffffff;
    l.line_end_delta = bits >> 24 & 0x7f;
    l.is_statement = bits >> 31;
    if (has_columns) {
        l.column = reader_u16(&b->columns);
        l.column_end = reader_u16(&b->columns);
    }
    return l;
}

static int line_by_offset(const void *a, const void *b)
{
    const pdb_line *x = a, *y = b;
    return x->off < y->off ? -1 : x->off > y->off;
}

/* A row covers the bytes up to the next one. */
static void set_lengths(pdb_line *lines, size_t count, uint32_t end)
{
    for (size_t i = 0; i < count; i++)
        lines[i].length = (i + 1 < count ? lines[i + 1].off : end) - lines[i].off;
}

static bool fill_lines(tables *t, reader part)
{
    pdb_line_set s = take_set(&part);
    s.first = (uint32_t)t->line_count;
    if (s.size > UINT32_MAX - s.off)
        reader_fail(&part, SPGO_CORRUPT, reader_offset(&part) - 4);
    line_block b;
    while (next_block(&part, s.has_columns, &b)) {
        uint32_t file = pdb_file_index(t->m, b.file_off);
        for (size_t i = 0; i < b.count; i++) {
            pdb_line l = take_line(&b, s.has_columns, file);
            if (l.off > s.size) {
                reader_fail(&part, SPGO_CORRUPT, reader_offset(&b.rows) - LINE_ROW);
                break;
            }
            l.off += s.off;
            t->lines[t->line_count++] = l;
        }
    }
    if (part.code)
        add_finding(t, &part, "the rows of a line table");
    s.count = (uint32_t)t->line_count - s.first;
    if (!pdb_stable_sort(t->lines + s.first, s.count, sizeof *t->lines, line_by_offset))
        return false;
    set_lengths(t->lines + s.first, s.count, s.off + s.size);
    t->sets[t->set_count++] = s;
    return true;
}

static int set_by_address(const void *a, const void *b)
{
    const pdb_line_set *x = a, *y = b;
    if (x->section != y->section)
        return x->section < y->section ? -1 : 1;
    return x->off < y->off ? -1 : x->off > y->off;
}

static bool settle_sets(tables *t)
{
    if (!pdb_stable_sort(t->sets, t->set_count, sizeof *t->sets, set_by_address))
        return false;
    uint32_t reach = 0;
    for (size_t i = 0; i < t->set_count; i++) {
        pdb_line_set *s = &t->sets[i];
        if (i > 0 && t->sets[i - 1].section != s->section)
            reach = 0;
        if (s->size <= UINT32_MAX - s->off && s->off + s->size > reach)
            reach = s->off + s->size;
        s->reach = reach;
    }
    return true;
}

/* The number of sets that start at or before an address, in this section or one before. */
static size_t sets_before(const pdb_module *m, uint16_t section, uint32_t off)
{
    size_t low = 0, high = m->line_set_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const pdb_line_set *s = &m->line_sets[mid];
        if (s->section < section || (s->section == section && s->off <= off))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const pdb_line_set *pdb_line_set_at(const pdb_module *m, uint16_t section, uint32_t off)
{
    /* Sets may lie in each other; `reach` ends the way back. Of those that start together (folded
     * functions) the first in the stream is taken. */
    const pdb_line_set *found = NULL;
    for (size_t i = sets_before(m, section, off); i > 0; i--) {
        const pdb_line_set *s = &m->line_sets[i - 1];
        if (s->section != section || s->reach <= off || (found && s->off != found->off))
            break;
        if (off - s->off < s->size)
            found = s;
    }
    return found;
}

const pdb_line *pdb_line_at(const pdb_module *m, uint16_t section, uint32_t off)
{
    const pdb_line_set *s = pdb_line_set_at(m, section, off);
    if (!s)
        return NULL;
    const pdb_line *rows = m->lines + s->first;
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (rows[mid].off <= off)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? &rows[low - 1] : NULL;
}

/* ------------------------------------------------------------------ inlinees, imports */

static bool next_inlinee(reader *r, bool has_more, pdb_inlinee_line *l)
{
    if (reader_left(r) == 0)
        return false;
    l->id = reader_u32(r);
    l->file = reader_u32(r); /* an offset as yet */
    l->line = reader_u32(r);
    if (has_more) {
        size_t extra = reader_count(r, reader_u32(r), 4);
        reader_skip(r, 4 * (uint64_t)extra);
    }
    return r->code == SPGO_OK;
}

static void walk_inlinees(tables *t, reader part, bool fill)
{
    bool has_more = reader_u32(&part) == 1;
    pdb_inlinee_line l;
    while (next_inlinee(&part, has_more, &l)) {
        if (fill) {
            l.file = pdb_file_index(t->m, l.file);
            t->inlinees[t->inlinee_count] = l;
        }
        t->inlinee_count++;
    }
    if (fill && part.code)
        add_finding(t, &part, "the declarations of inlinees");
}

static int inlinee_by_id(const void *a, const void *b)
{
    const pdb_inlinee_line *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

const pdb_inlinee_line *pdb_find_inlinee(const pdb_module *m, uint32_t id)
{
    size_t low = 0, high = m->inlinee_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->inlinees[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < m->inlinee_count && m->inlinees[low].id == id;
    return found ? &m->inlinees[low] : NULL;
}

static void walk_imports(tables *t, reader part, bool fill)
{
    while (reader_left(&part) > 0) {
        uint32_t name_off = reader_u32(&part);
        size_t count = reader_count(&part, reader_u32(&part), 4);
        spgo_span ids = reader_bytes(&part, 4 * (uint64_t)count);
        if (part.code)
            break;
        if (fill)
            t->imports[t->import_count] = (pdb_import){pdb_string(t->m->file, name_off), ids};
        t->import_count++;
    }
    if (fill && part.code)
        add_finding(t, &part, "the imports");
}

/* ------------------------------------------------------------------ the whole */

static void count_all(tables *t, reader r)
{
    subsection s;
    while (next_subsection(&r, &s)) {
        if (s.kind == C13_FILES && !t->files_part.ptr)
            t->files_part = (spgo_span){s.body.base, s.body.len};
        else if (s.kind == C13_LINES)
            count_lines(t, s.body);
        else if (s.kind == C13_INLINEES)
            walk_inlinees(t, s.body, false);
        else if (s.kind == C13_IMPORTS)
            walk_imports(t, s.body, false);
        else if (s.kind == C13_EXPORTS && !t->exports.ptr)
            t->exports = (spgo_span){s.body.base, s.body.len - s.body.len % EXPORT_ROW};
    }
    if (r.code)
        add_finding(t, &r, "the line subsections");
    reader files = reader_from(t->files_part, 0);
    pdb_file f;
    uint32_t name_off;
    while (next_file(&files, 0, &f, &name_off))
        t->file_count++;
}

static uint64_t table_bytes(const tables *t)
{
    return (uint64_t)t->file_count * sizeof *t->files + (uint64_t)t->set_count * sizeof *t->sets +
           (uint64_t)t->line_count * sizeof *t->lines +
           (uint64_t)t->inlinee_count * sizeof *t->inlinees +
           (uint64_t)t->import_count * sizeof *t->imports;
}

static spgo_code allocate(tables *t, spgo_error *err)
{
    static const char where[] = "pdb.lines";
    arena *mem = t->m->mem;
    t->files = arena_push(mem, t->file_count, sizeof *t->files);
    t->sets = arena_push(mem, t->set_count, sizeof *t->sets);
    t->lines = arena_push(mem, t->line_count, sizeof *t->lines);
    t->inlinees = arena_push(mem, t->inlinee_count, sizeof *t->inlinees);
    t->imports = arena_push(mem, t->import_count, sizeof *t->imports);
    if (!t->files || !t->sets || !t->lines || !t->inlinees || !t->imports)
        return pdb_no_room(t->m->file, mem, where, table_bytes(t), err);
    t->file_count = t->set_count = t->line_count = t->inlinee_count = t->import_count = 0;
    return SPGO_OK;
}

static bool fill_all(tables *t, reader r)
{
    subsection s;
    while (next_subsection(&r, &s)) {
        if (s.kind == C13_LINES && !fill_lines(t, s.body))
            return false;
        if (s.kind == C13_INLINEES)
            walk_inlinees(t, s.body, true);
        if (s.kind == C13_IMPORTS)
            walk_imports(t, s.body, true);
    }
    return settle_sets(t) &&
           pdb_stable_sort(t->inlinees, t->inlinee_count, sizeof *t->inlinees, inlinee_by_id);
}

spgo_code pdb_read_c13(pdb_module *m, size_t off, size_t size, diag *d, spgo_error *err)
{
    if (size == 0)
        return SPGO_OK;
    tables t = {.m = m, .d = d};
    reader whole = pdb_part(m->stream, off, size);
    count_all(&t, whole);
    SPGO_TRY(allocate(&t, err));
    uint64_t files_off = t.files_part.ptr ? (uint64_t)(t.files_part.ptr - m->stream.ptr) : 0;
    fill_files(&t, reader_from(t.files_part, files_off));
    m->files = t.files;
    m->file_count = t.file_count;
    if (!fill_all(&t, whole))
        return spgo_fail_nomem(err, "pdb.lines", t.line_count * sizeof *t.lines);
    m->line_sets = t.sets;
    m->line_set_count = t.set_count;
    m->lines = t.lines;
    m->line_count = t.line_count;
    m->inlinees = t.inlinees;
    m->inlinee_count = t.inlinee_count;
    m->imports = t.imports;
    m->import_count = t.import_count;
    m->exports = t.exports;
    return SPGO_OK;
}
