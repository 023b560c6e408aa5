/*
 * Names of functions by their ids in IPI, with the names of classes from TPI.
 *
 * Type streams are the largest ones of big PDBs, and few of their records are ever asked for. They
 * are not copied: a sparse index (the file's own, else one made by walking the records) leads to a
 * segment of some KiB, and this one is read.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/hash.h>
#include <base/text.h>

enum {
    TYPES_HEADER_SIZE = 56,
    TYPES_VERSION = 20040203,
    SEGMENT_MAX = 128 * 1024, /* of an index row; linkers write one row each 8 KiB */
    SEGMENT_OWN = 8 * 1024,   /* of the index made here */
    NAME_PARTS_MAX = 64,      /* records that one name is made of */
    NAME_MAX = 64 * 1024,

    LF_CLASS = 0x1504,
    LF_STRUCTURE = 0x1505,
    LF_UNION = 0x1506,
    LF_ENUM = 0x1507,
    LF_INTERFACE = 0x1519,
    LF_FUNC_ID = 0x1601,
    LF_MFUNC_ID = 0x1602,
    LF_SUBSTR_LIST = 0x1604,
    LF_STRING_ID = 0x1605,

    LF_NUMERIC = 0x8000,
    LF_CHAR = 0x8000,
    LF_SHORT = 0x8001,
    LF_USHORT = 0x8002,
    LF_LONG = 0x8003,
    LF_ULONG = 0x8004,
    LF_QUADWORD = 0x8009,
    LF_UQUADWORD = 0x800a
};

#define IMPORTED 0x80000000u

/* ------------------------------------------------------------------ type streams */

typedef struct index_row {
    uint32_t type, off; /* off counts from the first record */
} index_row;

typedef struct type_stream {
    const pdb *file;
    uint32_t stream;
    uint32_t header_size, first, end; /* first <= type < end */
    uint32_t bytes;
    index_row *index;
    size_t index_count;
    bool is_open;
    size_t loaded; /* the row whose segment stands in the buffer, or SIZE_MAX */
    spgo_span segment;
    uint8_t *buffer;
    size_t buffer_size;
} type_stream;

typedef struct type_record {
    uint16_t leaf;
    uint64_t off; /* in the stream */
    reader body;
} type_record;

typedef struct types_header {
    uint16_t hash_stream;
    uint32_t index_off, index_bytes;
} types_header;

static spgo_code read_types_header(type_stream *t, types_header *h, spgo_error *err)
{
    static const char where[] = "pdb.types";
    uint8_t raw[TYPES_HEADER_SIZE];
    const msf *file = &t->file->file;
    size_t got = msf_copy(file, t->stream, 0, raw, sizeof raw);
    reader r = reader_from((spgo_span){raw, got}, 0);
    uint32_t version = reader_u32(&r);
    t->header_size = reader_u32(&r);
    t->first = reader_u32(&r);
    t->end = reader_u32(&r);
    t->bytes = reader_u32(&r);
    h->hash_stream = reader_u16(&r);
    reader_skip(&r, 2 + 4 + 4 + 8);
    h->index_off = reader_u32(&r);
    h->index_bytes = reader_u32(&r);
    SPGO_TRY(pdb_finish(t->file, t->stream, &r, where, err));
    if (version != TYPES_VERSION)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, msf_file_offset(file, t->stream, 0),
                         "stream %" PRIu32 " has types of version %" PRIu32 "; %d is read",
                         t->stream, version, TYPES_VERSION);
    uint32_t size = msf_stream_size(file, t->stream);
    if (t->header_size < TYPES_HEADER_SIZE || t->header_size > size ||
        t->bytes > size - t->header_size)
        return spgo_fail(err, SPGO_CORRUPT, where, msf_file_offset(file, t->stream, 16),
                         "stream %" PRIu32 " says it has %" PRIu32 " bytes of types behind %" PRIu32
                         " of header; it has %" PRIu32 " in all",
                         t->stream, t->bytes, t->header_size, size);
    if (t->end < t->first || (t->end - t->first) > t->bytes / 4)
        return spgo_fail(err, SPGO_CORRUPT, where, msf_file_offset(file, t->stream, 8),
                         "stream %" PRIu32 " says it has the types 0x%" PRIx32 " to 0x%" PRIx32
                         ", too many for its %" PRIu32 " bytes",
                         t->stream, t->first, t->end, t->bytes);
    return SPGO_OK;
}

/* The rows must start with the first type and leave no gap that would take long to walk. */
static bool index_is_sound(const type_stream *t)
{
    if (t->index_count == 0 || t->index[0].type != t->first || t->index[0].off != 0)
        return false;
    for (size_t i = 0; i < t->index_count; i++) {
        const index_row *row = &t->index[i];
        bool last = i + 1 == t->index_count;
        uint32_t next_type = last ? t->end : row[1].type;
        uint32_t next_off = last ? t->bytes : row[1].off;
        if (next_type <= row->type || next_off <= row->off || next_off > t->bytes ||
            next_off - row->off > SEGMENT_MAX)
            return false;
    }
    return true;
}

static spgo_code load_index(type_stream *t, const types_header *h, arena *mem, spgo_error *err)
{
    const msf *file = &t->file->file;
    uint32_t size = msf_stream_size(file, h->hash_stream);
    size_t count = h->index_bytes / 8;
    if (size == UINT32_MAX || h->index_off > size || h->index_bytes > size - h->index_off)
        return SPGO_OK;
    uint8_t *raw = arena_push(mem, count, 8);
    t->index = arena_push(mem, count, sizeof *t->index);
    if (!raw || !t->index)
        return pdb_no_room(t->file, mem, "pdb.types", (uint64_t)count * 16, err);
    if (msf_copy(file, h->hash_stream, h->index_off, raw, 8 * count) < 8 * count)
        return SPGO_OK;
    for (size_t i = 0; i < count; i++)
        t->index[i] = (index_row){load_u32(raw + 8 * i), load_u32(raw + 8 * i + 4)};
    t->index_count = count;
    return SPGO_OK;
}

/* One row each SEGMENT_OWN bytes, from the records themselves. */
static spgo_code make_index(type_stream *t, arena *mem, spgo_error *err)
{
    size_t room = t->bytes / SEGMENT_OWN + 2;
    t->index = arena_push(mem, room, sizeof *t->index);
    if (!t->index)
        return pdb_no_room(t->file, mem, "pdb.types", room * sizeof *t->index, err);
    t->index_count = 0;
    uint32_t off = 0, next_row = 0;
    for (uint32_t type = t->first; type < t->end; type++) {
        uint8_t size[2];
        if (t->bytes - off < 4 ||
            msf_copy(&t->file->file, t->stream, t->header_size + (uint64_t)off, size, 2) < 2)
            break;
        if (off >= next_row) {
            t->index[t->index_count++] = (index_row){type, off};
            next_row = off + SEGMENT_OWN;
        }
        uint32_t whole = 2u + load_u16(size);
        if (whole > t->bytes - off)
            break;
        off += whole;
    }
    return SPGO_OK;
}

static uint32_t segment_end(const type_stream *t, size_t row)
{
    return row + 1 < t->index_count ? t->index[row + 1].off : t->bytes;
}

static size_t largest_segment(const type_stream *t)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < t->index_count; i++) {
        uint32_t size = segment_end(t, i) - t->index[i].off;
        largest = size > largest ? size : largest;
    }
    return largest < SEGMENT_MAX ? largest : SEGMENT_MAX;
}

static spgo_code open_types(type_stream *t, arena *mem, spgo_error *err)
{
    if (t->is_open)
        return SPGO_OK;
    if (msf_stream_size(&t->file->file, t->stream) == UINT32_MAX)
        return spgo_fail(err, SPGO_NOT_FOUND, "pdb.types", SPGO_NO_OFFSET,
                         "the PDB has no stream %" PRIu32 "; inlined functions have no names",
                         t->stream);
    types_header h;
    SPGO_TRY(read_types_header(t, &h, err));
    SPGO_TRY(load_index(t, &h, mem, err));
    if (!index_is_sound(t))
        SPGO_TRY(make_index(t, mem, err));
    t->buffer_size = largest_segment(t);
    t->buffer = arena_push(mem, t->buffer_size, 1);
    if (!t->buffer)
        return pdb_no_room(t->file, mem, "pdb.types", t->buffer_size, err);
    t->loaded = SIZE_MAX;
    t->is_open = true;
    return SPGO_OK;
}

/* The last row at or before a type. */
static size_t row_of(const type_stream *t, uint32_t type)
{
    size_t low = 0, high = t->index_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->index[mid].type <= type)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1; /* SIZE_MAX: none */
}

static void load_segment(type_stream *t, size_t row)
{
    if (t->loaded == row)
        return;
    uint32_t start = t->index[row].off;
    size_t size = segment_end(t, row) - start;
    if (size > t->buffer_size)
        size = t->buffer_size;
    size = msf_copy(&t->file->file, t->stream, t->header_size + (uint64_t)start, t->buffer, size);
    t->segment = (spgo_span){t->buffer, size};
    t->loaded = row;
}

/* The record stays until the next one is asked for. */
static spgo_code find_type(type_stream *t, uint32_t type, arena *mem, type_record *out,
                           spgo_error *err)
{
    SPGO_TRY(open_types(t, mem, err));
    size_t row = type >= t->first && type < t->end ? row_of(t, type) : SIZE_MAX;
    if (row == SIZE_MAX)
        return spgo_fail(err, SPGO_NOT_FOUND, "pdb.types", SPGO_NO_OFFSET,
                         "stream %" PRIu32 " has no type 0x%" PRIx32 "; it has 0x%" PRIx32
                         " to 0x%" PRIx32,
                         t->stream, type, t->first, t->end);
    load_segment(t, row);
    reader r = reader_from(t->segment, t->header_size + (uint64_t)t->index[row].off);
    for (uint32_t at = t->index[row].type; at < type && !r.code; at++)
        reader_skip(&r, reader_u16(&r));
    out->off = reader_offset(&r);
    uint16_t size = reader_u16(&r);
    out->body = reader_sub(&r, size);
    out->leaf = reader_u16(&out->body);
    return pdb_finish(t->file, t->stream, out->body.code ? &out->body : &r, "pdb.types", err);
}

/* ------------------------------------------------------------------ what was found */

/* Keys to pointers; open addressing. Key 0 is never used. */
typedef struct key_map {
    uint64_t *keys;
    void **values;
    size_t slots, used; /* slots: a power of two, or 0 */
} key_map;

static size_t map_slot(const key_map *m, uint64_t key)
{
    size_t i = (size_t)hash_u64(hash_seed(m->keys), key) & (m->slots - 1);
    while (m->keys[i] && m->keys[i] != key)
        i = (i + 1) & (m->slots - 1);
    return i;
}

static void *map_get(const key_map *m, uint64_t key)
{
    return m->slots ? m->values[map_slot(m, key)] : NULL;
}

static bool map_grow(key_map *m)
{
    key_map bigger = {.slots = m->slots ? 2 * m->slots : 64, .used = m->used};
    bigger.keys = calloc(bigger.slots, sizeof *bigger.keys);
    bigger.values = calloc(bigger.slots, sizeof *bigger.values);
    if (!bigger.keys || !bigger.values) {
        free(bigger.keys);
        free(bigger.values);
        return false;
    }
    for (size_t i = 0; i < m->slots; i++) {
        if (!m->keys[i])
            continue;
        size_t slot = map_slot(&bigger, m->keys[i]);
        bigger.keys[slot] = m->keys[i];
        bigger.values[slot] = m->values[i];
    }
    free(m->keys);
    free(m->values);
    *m = bigger;
    return true;
}

static bool map_add(key_map *m, uint64_t key, void *value)
{
    if (2 * (m->used + 1) > m->slots && !map_grow(m))
        return false;
    size_t slot = map_slot(m, key);
    m->keys[slot] = key;
    m->values[slot] = value;
    m->used++;
    return true;
}

static void map_free(key_map *m)
{
    free(m->keys);
    free(m->values);
}

/* ------------------------------------------------------------------ ids */

typedef struct export_row {
    uint32_t local, global;
} export_row;

typedef struct module_exports {
    export_row *rows;
    size_t count;
} module_exports;

struct pdb_ids {
    const pdb *file;
    arena *mem;
    type_stream ipi, tpi;
    key_map functions; /* by id + 1 */
    key_map exports;   /* by the name of the module: its address, as names stand once */
};

spgo_code pdb_ids_new(const pdb *p, const pdb_opts *opts, pdb_ids **out, spgo_error *err)
{
    *out = NULL;
    uint64_t budget =
        opts && opts->size >= sizeof *opts ? opts->budget_bytes : p->file.budget_bytes;
    pdb_ids *ids = calloc(1, sizeof *ids);
    arena *mem = arena_new(budget);
    if (!ids || !mem) {
        free(ids);
        arena_free(mem);
        return spgo_fail_nomem(err, "pdb.ids", sizeof *ids);
    }
    ids->file = p;
    ids->mem = mem;
    ids->ipi = (type_stream){.file = p, .stream = PDB_STREAM_IPI};
    ids->tpi = (type_stream){.file = p, .stream = PDB_STREAM_TPI};
    *out = ids;
    return SPGO_OK;
}

void pdb_ids_free(pdb_ids *ids)
{
    if (!ids)
        return;
    map_free(&ids->functions);
    map_free(&ids->exports);
    arena_free(ids->mem);
    free(ids);
}

/* ------------------------------------------------------------------ imports */

static uint32_t find_module(const pdb *p, spgo_str name)
{
    for (size_t i = 0; i < p->module_count; i++)
        if (p->modules[i].stream != PDB_NONE && text_equal_nocase(p->modules[i].name, name))
            return (uint32_t)i;
    return PDB_NONE;
}

static int export_by_local(const void *a, const void *b)
{
    const export_row *x = a, *y = b;
    return x->local < y->local ? -1 : x->local > y->local;
}

static spgo_code copy_exports(pdb_ids *ids, spgo_span raw, module_exports *out, spgo_error *err)
{
    out->count = raw.len / 8;
    out->rows = arena_push(ids->mem, out->count, sizeof *out->rows);
    if (!out->rows)
        return pdb_no_room(ids->file, ids->mem, "pdb.exports", raw.len, err);
    for (size_t i = 0; i < out->count; i++)
        out->rows[i] = (export_row){load_u32(raw.ptr + 8 * i), load_u32(raw.ptr + 8 * i + 4)};
    if (!pdb_stable_sort(out->rows, out->count, sizeof *out->rows, export_by_local))
        return spgo_fail_nomem(err, "pdb.exports", raw.len);
    return SPGO_OK;
}

/* Only the exports of the module are kept. */
static spgo_code read_exports(pdb_ids *ids, uint32_t module, module_exports *out, spgo_error *err)
{
    const pdb_module_header *h = &ids->file->modules[module];
    arena *mem = arena_new(ids->file->file.budget_bytes);
    if (!mem)
        return spgo_fail_nomem(err, "pdb.exports", 1);
    spgo_span stream;
    spgo_code code = msf_stream_bytes(&ids->file->file, h->stream, mem, &stream, err);
    uint64_t start = (uint64_t)h->symbol_bytes + h->c11_bytes;
    if (code == SPGO_OK && start + h->c13_bytes <= stream.len && h->c13_bytes > 0) {
        spgo_span c13 = {stream.ptr + start, h->c13_bytes};
        code = copy_exports(ids, pdb_find_exports(c13), out, err);
    }
    arena_free(mem);
    return code;
}

static spgo_code exports_of(pdb_ids *ids, spgo_str module, const module_exports **out,
                            spgo_error *err)
{
    uint64_t key = (uint64_t)(uintptr_t)module.ptr;
    *out = key ? map_get(&ids->exports, key) : NULL;
    if (*out)
        return SPGO_OK;
    module_exports *found = arena_push(ids->mem, 1, sizeof *found);
    if (!found)
        return pdb_no_room(ids->file, ids->mem, "pdb.exports", sizeof *found, err);
    uint32_t index = find_module(ids->file, module);
    if (index != PDB_NONE)
        SPGO_TRY(read_exports(ids, index, found, err));
    *out = found;
    if (key && !map_add(&ids->exports, key, found))
        return spgo_fail_nomem(err, "pdb.exports", sizeof *found);
    return SPGO_OK;
}

static const export_row *find_export(const module_exports *e, uint32_t local)
{
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (e->rows[mid].local < local)
            low = mid + 1;
        else
            high = mid;
    }
    return low < e->count && e->rows[low].local == local ? &e->rows[low] : NULL;
}

/* Bits 20 to 30 number the block of the module's imports, bits 0 to 19 the id in it. */
spgo_code pdb_ids_resolve(pdb_ids *ids, const pdb_module *m, uint32_t id, uint32_t *out,
                          spgo_error *err)
{
    static const char where[] = "pdb.imports";
    *out = id;
    if (!(id & IMPORTED))
        return SPGO_OK;
    uint32_t block = id >> 20 & 0x7ff, index = id & 0xfffff;
    if (block >= m->import_count || index >= m->imports[block].ids.len / 4)
        return spgo_fail(err, SPGO_CORRUPT, where, SPGO_NO_OFFSET,
                         "module %" PRIu32 " has no import 0x%" PRIx32, m->index, id);
    const pdb_import *import = &m->imports[block];
    uint32_t local = load_u32(import->ids.ptr + 4 * (size_t)index);
    const module_exports *exports;
    SPGO_TRY(exports_of(ids, import->module, &exports, err));
    const export_row *row = find_export(exports, local);
    if (!row)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                         "import 0x%" PRIx32 " of module %" PRIu32 " is 0x%" PRIx32
                         " of \"%.*s\", which exports no such id",
                         id, m->index, local,
                         import->module.len < 150 ? (int)import->module.len : 150,
                         import->module.len ? import->module.ptr : "");
    *out = row->global & ~IMPORTED;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ names */

/* A name that is being put together. */
typedef struct name_builder {
    pdb_ids *ids;
    bytes text;
    unsigned parts_left;
} name_builder;

static bool put_text(name_builder *b, spgo_str text)
{
    if (text.len > NAME_MAX - b->text.len)
        return false;
    bytes_put(&b->text, text.ptr, text.len);
    return !b->text.failed;
}

static bool take_part(name_builder *b)
{
    if (b->parts_left == 0)
        return false;
    b->parts_left--;
    return true;
}

static void put_string_id(name_builder *b, uint32_t id, uint32_t below);

/* The strings of a list one after the other. Records refer to earlier ones only, which `below`
 * holds them to, so that no loop of references is followed. */
static void put_string_list(name_builder *b, uint32_t id, uint32_t below)
{
    type_record rec;
    if (id >= below || !take_part(b) ||
        find_type(&b->ids->ipi, id, b->ids->mem, &rec, NULL) != SPGO_OK ||
        rec.leaf != LF_SUBSTR_LIST)
        return;
    size_t count = reader_count(&rec.body, reader_u32(&rec.body), 4);
    if (count > NAME_PARTS_MAX)
        count = NAME_PARTS_MAX;
    uint32_t parts[NAME_PARTS_MAX]; /* the record is gone with the first of them */
    for (size_t i = 0; i < count; i++)
        parts[i] = reader_u32(&rec.body);
    for (size_t i = 0; i < count; i++)
        put_string_id(b, parts[i], id);
}

static void put_string_id(name_builder *b, uint32_t id, uint32_t below)
{
    type_record rec;
    if (id >= below || !take_part(b) ||
        find_type(&b->ids->ipi, id, b->ids->mem, &rec, NULL) != SPGO_OK)
        return;
    if (rec.leaf == LF_FUNC_ID || rec.leaf == LF_MFUNC_ID) {
        reader_skip(&rec.body, 4 + 4);
        (void)put_text(b, reader_cstr(&rec.body));
        return;
    }
    if (rec.leaf != LF_STRING_ID)
        return;
    uint32_t list = reader_u32(&rec.body);
    if (list != 0) {
        put_string_list(b, list, id);
        if (find_type(&b->ids->ipi, id, b->ids->mem, &rec, NULL) != SPGO_OK)
            return;
        reader_skip(&rec.body, 4);
    }
    (void)put_text(b, reader_cstr(&rec.body));
}

/* A number of a record: small ones stand as they are, others behind their kind. */
static void skip_numeric(reader *r)
{
    uint16_t kind = reader_u16(r);
    if (kind < LF_NUMERIC)
        return;
    switch (kind) {
    case LF_CHAR:
        reader_skip(r, 1);
        break;
    case LF_SHORT:
    case LF_USHORT:
        reader_skip(r, 2);
        break;
    case LF_LONG:
    case LF_ULONG:
        reader_skip(r, 4);
        break;
    case LF_QUADWORD:
    case LF_UQUADWORD:
        reader_skip(r, 8);
        break;
    default:
        reader_fail(r, SPGO_UNSUPPORTED, reader_offset(r) - 2);
        break;
    }
}

static void put_class(name_builder *b, uint32_t type)
{
    type_record rec;
    if (find_type(&b->ids->tpi, type, b->ids->mem, &rec, NULL) != SPGO_OK)
        return;
    switch (rec.leaf) {
    case LF_CLASS:
    case LF_STRUCTURE:
    case LF_INTERFACE:
        reader_skip(&rec.body, 2 + 2 + 4 + 4 + 4); /* members, properties, three types */
        skip_numeric(&rec.body);
        break;
    case LF_UNION:
        reader_skip(&rec.body, 2 + 2 + 4);
        skip_numeric(&rec.body);
        break;
    case LF_ENUM:
        reader_skip(&rec.body, 2 + 2 + 4 + 4);
        break;
    default:
        return;
    }
    (void)put_text(b, reader_cstr(&rec.body));
}

static spgo_code build_function(name_builder *b, uint32_t id, pdb_function *f, spgo_error *err)
{
    type_record rec;
    arena *mem = b->ids->mem;
    SPGO_TRY(find_type(&b->ids->ipi, id, mem, &rec, err));
    const pdb *p = b->ids->file;
    if (rec.leaf != LF_FUNC_ID && rec.leaf != LF_MFUNC_ID)
        return spgo_fail(err, SPGO_CORRUPT, "pdb.ids", msf_file_offset(&p->file, 4, rec.off + 2),
                         "id 0x%" PRIx32 " is a record of kind 0x%x, no function", id, rec.leaf);
    f->id = id;
    f->is_member = rec.leaf == LF_MFUNC_ID;
    uint32_t scope = reader_u32(&rec.body);
    f->type = reader_u32(&rec.body);
    spgo_str name = reader_cstr(&rec.body);
    f->has_decorated_hash = reader_left(&rec.body) >= 8;
    if (f->has_decorated_hash)
        f->decorated_hash = reader_u64(&rec.body);
    SPGO_TRY(pdb_finish(p, PDB_STREAM_IPI, &rec.body, "pdb.ids", err));
    char *kept = arena_copy_text(mem, name.ptr, name.len);
    if (!kept)
        return pdb_no_room(p, mem, "pdb.ids", name.len, err);
    f->name = (spgo_str){kept, name.len};
    if (f->is_member)
        put_class(b, scope);
    else if (scope != 0)
        put_string_id(b, scope, id);
    if (b->text.len > 0)
        (void)put_text(b, (spgo_str){"::", 2});
    bytes_put(&b->text, kept, name.len);
    if (b->text.failed)
        return spgo_fail_nomem(err, "pdb.ids", b->text.len + name.len);
    char *qualified = arena_copy_text(mem, (const char *)b->text.ptr, b->text.len);
    if (!qualified)
        return pdb_no_room(p, mem, "pdb.ids", b->text.len, err);
    f->qualified = (spgo_str){qualified, b->text.len};
    return SPGO_OK;
}

spgo_code pdb_ids_function(pdb_ids *ids, const pdb_module *m, uint32_t id, const pdb_function **out,
                           spgo_error *err)
{
    *out = NULL;
    uint32_t global;
    SPGO_TRY(pdb_ids_resolve(ids, m, id, &global, err));
    *out = map_get(&ids->functions, (uint64_t)global + 1);
    if (*out)
        return SPGO_OK;
    pdb_function *f = arena_push(ids->mem, 1, sizeof *f);
    if (!f)
        return pdb_no_room(ids->file, ids->mem, "pdb.ids", sizeof *f, err);
    name_builder b = {.ids = ids, .parts_left = NAME_PARTS_MAX};
    spgo_code code = build_function(&b, global, f, err);
    bytes_free(&b.text);
    if (code != SPGO_OK)
        return code;
    if (!map_add(&ids->functions, (uint64_t)global + 1, f))
        return spgo_fail_nomem(err, "pdb.ids", sizeof *f);
    *out = f;
    return SPGO_OK;
}
