/*
 * Opening a PDB: which container it is, the info stream with the identity and the names of streams,
 * and the string table.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    INFO_VERSION_MIN = 19990604, /* since then there is a GUID */

    CODE_VC110 = 20091201,
    CODE_VC140 = 20140508,
    CODE_NO_TYPE_MERGE = 0x4d544f4e,
    CODE_MINI = 0x494e494d
};

#define STRINGS_SIGNATURE 0xeffeeffeu

/* ------------------------------------------------------------------ container */

static bool starts(spgo_span bytes, const char *magic, size_t len)
{
    return bytes.len >= len && memcmp(bytes.ptr, magic, len) == 0;
}

#define STARTS(bytes, magic) starts(bytes, magic, sizeof(magic) - 1)

pdb_container pdb_sniff(spgo_span bytes)
{
    if (STARTS(bytes, "Microsoft C/C++ MSF 7.00\r\n\x1a\x44S\0\0\0"))
        return PDB_MSF7;
    if (STARTS(bytes, "Microsoft C/C++ program database 2.00\r\n"))
        return PDB_MSF2;
    if (STARTS(bytes, "Microsoft MSFZ Container\r\n\x1a\x41LD"))
        return PDB_MSFZ;
    if (STARTS(bytes, "BSJB"))
        return PDB_PORTABLE;
    if (STARTS(bytes, "MZ"))
        return PDB_IMAGE;
    return PDB_NOT;
}

static spgo_code check_container(spgo_span bytes, spgo_error *err)
{
    static const char where[] = "pdb.magic";
    switch (pdb_sniff(bytes)) {
    case PDB_MSF7:
        return SPGO_OK;
    case PDB_MSF2:
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                         "the file is a PDB in the container from before 2002 (program database "
                         "2.00); MSF 7.00 is read: link again with a newer linker");
    case PDB_MSFZ:
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                         "the file is a compressed PDB (MSFZ); MSF 7.00 is read: expand it with "
                         "the tool that made it");
    case PDB_PORTABLE:
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                         "the file is a Portable PDB, of managed code only; it tells nothing of "
                         "machine code");
    case PDB_IMAGE:
        return spgo_fail(err, SPGO_CORRUPT, where, 0,
                         "the file is an executable image (MZ), no PDB; give the PDB that its "
                         "linker wrote beside it");
    case PDB_NOT:
        break;
    }
    static const char magic[] = "Microsoft C/C++ MSF 7.00\r\n";
    if (bytes.len < 32 &&
        (bytes.len == 0 ||
         starts(bytes, magic, bytes.len < sizeof magic - 1 ? bytes.len : sizeof magic - 1)))
        return spgo_fail(err, SPGO_TRUNCATED, where, bytes.len,
                         "the file has %zu bytes, too few for the magic of a PDB", bytes.len);
    return spgo_fail(err, SPGO_CORRUPT, where, 0,
                     "no PDB: it does not start with \"Microsoft C/C++ MSF 7.00\"");
}

/* ------------------------------------------------------------------ named streams */

/* The words of a bit set: a count, then as many u32. */
static spgo_span take_bits(reader *r)
{
    size_t words = reader_count(r, reader_u32(r), 4);
    return reader_bytes(r, 4 * (uint64_t)words);
}

static spgo_str text_at(spgo_span texts, uint32_t off)
{
    if (off >= texts.len)
        return (spgo_str){NULL, 0};
    const uint8_t *start = texts.ptr + off;
    const uint8_t *end = memchr(start, 0, texts.len - off);
    return (spgo_str){(const char *)start, end ? (size_t)(end - start) : texts.len - off};
}

/* A hash table on disk; its present entries follow each other, so that the hashes are not needed.
 */
static spgo_code read_named_streams(pdb *p, reader *r, spgo_error *err)
{
    size_t text_bytes = reader_count(r, reader_u32(r), 1);
    spgo_span texts = reader_bytes(r, text_bytes);
    uint32_t count = reader_u32(r);
    reader_skip(r, 4);  /* capacity */
    (void)take_bits(r); /* present */
    (void)take_bits(r); /* deleted */
    p->named_count = reader_count(r, count, 8);
    SPGO_TRY(pdb_finish(p, PDB_STREAM_INFO, r, "pdb.named_streams", err));
    p->named = arena_push(p->mem, p->named_count, sizeof *p->named);
    if (!p->named)
        return pdb_no_room(p, p->mem, "pdb.named_streams", p->named_count * sizeof *p->named, err);
    for (size_t i = 0; i < p->named_count; i++) {
        p->named[i].name = text_at(texts, reader_u32(r));
        p->named[i].stream = reader_u32(r);
    }
    return SPGO_OK;
}

uint32_t pdb_find_stream(const pdb *p, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < p->named_count; i++) {
        const pdb_named_stream *n = &p->named[i];
        if (n->name.len == len && memcmp(n->name.ptr, name, len) == 0)
            return n->stream;
    }
    return PDB_NONE;
}

/* ------------------------------------------------------------------ info */

static void read_features(pdb *p, reader *r)
{
    while (reader_left(r) >= 4) {
        switch (reader_u32(r)) {
        case CODE_VC110:
            p->info.features |= PDB_FEATURE_VC110;
            return;
        case CODE_VC140:
            p->info.features |= PDB_FEATURE_VC140;
            break;
        case CODE_NO_TYPE_MERGE:
            p->info.features |= PDB_FEATURE_NO_TYPE_MERGE;
            break;
        case CODE_MINI:
            p->info.features |= PDB_FEATURE_MINI;
            break;
        default:
            break;
        }
    }
}

static spgo_code read_info(pdb *p, spgo_error *err)
{
    static const char where[] = "pdb.info";
    spgo_span bytes;
    SPGO_TRY(msf_stream_bytes(&p->file, PDB_STREAM_INFO, p->mem, &bytes, err));
    reader r = reader_from(bytes, 0);
    p->info.info_version = reader_u32(&r);
    p->info.signature = reader_u32(&r);
    p->info.info_age = reader_u32(&r);
    p->info.id.guid = reader_guid(&r);
    SPGO_TRY(pdb_finish(p, PDB_STREAM_INFO, &r, where, err));
    p->info.id.age = p->info.info_age;
    if (p->info.info_version < INFO_VERSION_MIN)
        return spgo_fail(err, SPGO_UNSUPPORTED, where,
                         msf_file_offset(&p->file, PDB_STREAM_INFO, 0),
                         "the info stream has version %" PRIu32
                         ", from before there were GUIDs; link again with a newer linker",
                         p->info.info_version);
    SPGO_TRY(read_named_streams(p, &r, err));
    read_features(p, &r);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ strings */

static void read_strings(pdb *p, diag *d)
{
    uint32_t stream = pdb_find_stream(p, "/names");
    if (stream == PDB_NONE)
        return;
    spgo_span bytes;
    spgo_error why = {0};
    if (msf_stream_bytes(&p->file, stream, p->mem, &bytes, &why) != SPGO_OK) {
        diag_add(d, why.code, why.offset, "the string table /names is not read: %.150s",
                 why.sentence);
        return;
    }
    reader r = reader_from(bytes, 0);
    uint32_t signature = reader_u32(&r);
    reader_skip(&r, 4); /* hash version */
    uint32_t size = reader_u32(&r);
    if (r.code || signature != STRINGS_SIGNATURE) {
        diag_add(d, SPGO_CORRUPT, msf_file_offset(&p->file, stream, 0),
                 "the string table /names does not start with 0xeffeeffe; files have no names");
        return;
    }
    size_t left = reader_left(&r);
    if (size > left)
        diag_add(d, SPGO_CORRUPT, msf_file_offset(&p->file, stream, 8),
                 "the string table /names says it has %" PRIu32 " bytes; its stream has %zu", size,
                 left);
    p->strings = reader_bytes(&r, size < left ? size : left);
}

spgo_str pdb_string(const pdb *p, uint32_t off)
{
    return text_at(p->strings, off);
}

/* ------------------------------------------------------------------ open and close */

static spgo_code open_into(pdb *p, spgo_span bytes, uint64_t budget, diag *d, spgo_error *err)
{
    SPGO_TRY(check_container(bytes, err));
    SPGO_TRY(msf_open(bytes, budget, p->mem, &p->file, d, err));
    p->info.page_size = p->file.page_size;
    p->info.page_count = p->file.page_count;
    p->symbol_stream = 0xffff;
    SPGO_TRY(read_info(p, err));
    read_strings(p, d);
    return pdb_read_dbi(p, d, err);
}

spgo_code pdb_open(spgo_span bytes, const pdb_opts *opts, pdb **out, diag *d, spgo_error *err)
{
    *out = NULL;
    uint64_t budget = opts && opts->size >= sizeof *opts ? opts->budget_bytes : 0;
    pdb *p = calloc(1, sizeof *p);
    arena *mem = arena_new(budget);
    if (!p || !mem) {
        free(p);
        arena_free(mem);
        return spgo_fail_nomem(err, "pdb.open", sizeof *p);
    }
    p->mem = mem;
    spgo_code code = open_into(p, bytes, budget, d, err);
    if (code != SPGO_OK) {
        pdb_close(p);
        return code;
    }
    *out = p;
    return SPGO_OK;
}

void pdb_close(pdb *p)
{
    if (!p)
        return;
    arena_free(p->mem);
    free(p);
}

spgo_code pdb_finish(const pdb *p, uint32_t stream, const reader *r, const char *where,
                     spgo_error *err)
{
    if (r->code == SPGO_OK)
        return SPGO_OK;
    return spgo_fail(err, r->code, where, msf_file_offset(&p->file, stream, r->bad_off),
                     "%s is damaged: stream %" PRIu32 " %s byte %" PRIu64, where, stream,
                     r->code == SPGO_TRUNCATED ? "ends inside it, at" : "is wrong at", r->bad_off);
}

/* ------------------------------------------------------------------ what it says */

const pdb_info *pdb_get_info(const pdb *p)
{
    return &p->info;
}

uint32_t pdb_stream_count(const pdb *p)
{
    return p->file.stream_count;
}

uint32_t pdb_stream_size(const pdb *p, uint32_t stream)
{
    return msf_stream_size(&p->file, stream);
}

spgo_code pdb_stream_bytes(const pdb *p, uint32_t stream, arena *mem, spgo_span *out,
                           spgo_error *err)
{
    return msf_stream_bytes(&p->file, stream, mem, out, err);
}

uint64_t pdb_stream_file_offset(const pdb *p, uint32_t stream, uint64_t off)
{
    return msf_file_offset(&p->file, stream, off);
}

size_t pdb_named_stream_count(const pdb *p)
{
    return p->named_count;
}

const pdb_named_stream *pdb_get_named_stream(const pdb *p, size_t i)
{
    return i < p->named_count ? &p->named[i] : NULL;
}

const char *pdb_symbol_name(uint16_t kind)
{
    switch (kind) {
#define PDB_SYMBOL(number, name)                                                                   \
    case number:                                                                                   \
        return #name;
#include <format/pdb/pdb_names.def>
    default:
        return NULL;
    }
}

const char *pdb_machine_name(uint16_t machine)
{
    switch (machine) {
#define PDB_MACHINE(number, name)                                                                  \
    case number:                                                                                   \
        return name;
#include <format/pdb/pdb_names.def>
    default:
        return NULL;
    }
}
