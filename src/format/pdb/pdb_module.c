/*
 * A module's stream: a signature, symbol records, line tables in the form of old compilers (C11,
 * not read), and C13 subsections. Files and inlinees come first, because sites refer to them.
 */
#include <format/pdb/pdb_internal.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bottom-up merging; runs that are in order already cost one comparison. */
static void merge_runs(const uint8_t *from, uint8_t *to, size_t count, size_t size, size_t run,
                       int (*compare)(const void *a, const void *b))
{
    for (size_t start = 0; start < count; start += 2 * run) {
        size_t middle = start + run < count ? start + run : count;
        size_t end = middle + run < count ? middle + run : count;
        size_t left = start, right = middle;
        for (size_t i = start; i < end; i++) {
            bool take_left = left < middle && (right == end || compare(from + left * size,
                                                                       from + right * size) <= 0);
            const uint8_t *row = from + (take_left ? left++ : right++) * size;
            memcpy(to + i * size, row, size);
        }
    }
}

bool pdb_stable_sort(void *rows, size_t count, size_t size,
                     int (*compare)(const void *a, const void *b))
{
    uint8_t *at = rows;
    size_t sorted = 1;
    while (sorted < count && compare(at + (sorted - 1) * size, at + sorted * size) <= 0)
        sorted++;
    if (sorted >= count)
        return true;
    uint8_t *scratch = malloc(count * size); /* cannot overflow: so many rows exist */
    if (!scratch)
        return false;
    uint8_t *from = at, *to = scratch;
    for (size_t run = 1; run < count; run *= 2) {
        merge_runs(from, to, count, size, run, compare);
        uint8_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != at)
        memcpy(at, from, count * size);
    free(scratch);
    return true;
}

static spgo_code check_sizes(const pdb *p, const pdb_module_header *h, uint32_t index,
                             spgo_span stream, spgo_error *err)
{
    static const char where[] = "pdb.module";
    uint64_t sum = (uint64_t)h->symbol_bytes + h->c11_bytes + h->c13_bytes;
    if (sum > stream.len)
        return spgo_fail(err, SPGO_CORRUPT, where, msf_file_offset(&p->file, h->stream, stream.len),
                         "module %" PRIu32 " says it has %" PRIu64
                         " bytes of symbols and lines; its stream has %zu",
                         index, sum, stream.len);
    if (h->symbol_bytes < 4)
        return SPGO_OK;
    uint32_t signature = load_u32(stream.ptr);
    if (signature != PDB_CV_SIGNATURE_C13)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, msf_file_offset(&p->file, h->stream, 0),
                         "the symbols of module %" PRIu32 " have form %" PRIu32
                         "; form 4 (since 1998) is read",
                         index, signature);
    return SPGO_OK;
}

static spgo_code read_into(pdb_module *m, diag *d, spgo_error *err)
{
    const pdb *p = m->file;
    const pdb_module_header *h = &p->modules[m->index];
    if (h->stream == PDB_NONE)
        return SPGO_OK;
    SPGO_TRY(msf_stream_bytes(&p->file, h->stream, m->mem, &m->stream, err));
    SPGO_TRY(check_sizes(p, h, m->index, m->stream, err));
    size_t c13 = (size_t)h->symbol_bytes + h->c11_bytes;
    SPGO_TRY(pdb_read_c13(m, c13, h->c13_bytes, d, err));
    return pdb_read_symbols(m, h->symbol_bytes, d, err);
}

spgo_code pdb_module_read(const pdb *p, uint32_t index, pdb_module **out, diag *d, spgo_error *err)
{
    *out = NULL;
    if (index >= p->module_count)
        return spgo_fail(err, SPGO_NOT_FOUND, "pdb.module", SPGO_NO_OFFSET,
                         "there is no module %" PRIu32 "; the PDB has %zu", index, p->module_count);
    pdb_module *m = calloc(1, sizeof *m);
    arena *mem = arena_new(p->file.budget_bytes);
    if (!m || !mem) {
        free(m);
        arena_free(mem);
        return spgo_fail_nomem(err, "pdb.module", sizeof *m);
    }
    m->file = p;
    m->index = index;
    m->mem = mem;
    spgo_code code = read_into(m, d, err);
    if (code != SPGO_OK) {
        pdb_module_free(m);
        return code;
    }
    *out = m;
    return SPGO_OK;
}

void pdb_module_free(pdb_module *m)
{
    if (!m)
        return;
    arena_free(m->mem);
    free(m);
}
