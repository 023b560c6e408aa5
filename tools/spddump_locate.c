/* spddump: the SPD in a file: the file itself, or what /SPDEMBED put into an object file or a PDB.
 */
#include "spddump_print.h"

#include <base/reader.h>
#include <format/pdb/msf.h>
#include <format/pdb/pdb.h>
#include <spgo/spt.h>

static bool is_spd(spgo_span s)
{
    return s.len >= 4 && load_u32(s.ptr) == SPD_SIGNATURE;
}

static bool is_spt(spgo_span s)
{
    return s.len >= 4 && load_u32(s.ptr) == SPGO_SPT_SIGNATURE;
}

static spgo_code not_found(spgo_error *err, const char *kind)
{
    return spgo_fail(err, SPGO_NOT_FOUND, "spddump", SPGO_NO_OFFSET,
                     "this is no SPD file, and no SPD is embedded in this %s; link with /SPDEMBED "
                     "to have one in the PDB, or name the .spd file that the linker wrote",
                     kind);
}

/* Streams are looked through one by one, each in memory of its own. */
static spgo_code search_stream(const msf *m, uint32_t stream, uint64_t *at, uint64_t *size,
                               bool *found, spgo_error *err)
{
    spgo_span bytes;
    arena *mem = arena_new(0);
    if (!mem)
        return spgo_fail_nomem(err, "spddump", 0);
    spgo_code code = msf_stream_bytes(m, stream, mem, &bytes, err);
    *found = code == SPGO_OK && spd_find(bytes, 0, at, size);
    arena_free(mem);
    return code == SPGO_NOMEM ? code : SPGO_OK; /* a damaged stream hides only itself */
}

static spgo_code locate_in_pdb(spgo_span input, arena *mem, spgo_span *spd_bytes, spgo_error *err)
{
    msf m;
    diag ignored = {0};
    SPGO_TRY(msf_open(input, 0, mem, &m, &ignored, err));
    for (uint32_t i = 0; i < m.stream_count; i++) {
        uint64_t at, size;
        bool found = false;
        if (msf_stream_size(&m, i) == UINT32_MAX || m.streams[i].fault != SPGO_OK)
            continue;
        SPGO_TRY(search_stream(&m, i, &at, &size, &found, err));
        if (!found)
            continue;
        spgo_span stream;
        SPGO_TRY(msf_stream_bytes(&m, i, mem, &stream, err));
        *spd_bytes = (spgo_span){stream.ptr + at, (size_t)size};
        return SPGO_OK;
    }
    return not_found(err, "PDB");
}

spgo_code spddump_locate(spgo_span input, arena *mem, spgo_span *spd_bytes, uint64_t *at,
                         spgo_error *err)
{
    uint64_t size;
    *at = 0;
    *spd_bytes = input;
    if (is_spd(input))
        return SPGO_OK;
    if (pdb_sniff(input) == PDB_MSF7) {
        SPGO_TRY(locate_in_pdb(input, mem, spd_bytes, err));
        bool is_view = spd_bytes->ptr >= input.ptr && spd_bytes->ptr < input.ptr + input.len;
        *at = is_view ? (uint64_t)(spd_bytes->ptr - input.ptr) : SPGO_NO_OFFSET;
        return SPGO_OK;
    }
    if (!input.len)
        return spgo_fail(err, SPGO_TRUNCATED, "spddump", 0, "the file is empty");
    if (is_spt(input))
        return spgo_fail(err, SPGO_MISMATCH, "spddump", 0,
                         "this is an SPT file, a trace; sptdump shows it");
    if (!spd_find(input, 0, at, &size))
        return not_found(err, "file");
    *spd_bytes = (spgo_span){input.ptr + *at, (size_t)size};
    return SPGO_OK;
}
