/* Which form a profile has, by its first bytes. */
#include "sampleprof_internal.h"

#include <string.h>

static uint64_t magic_of(spgo_span bytes)
{
    enum { MAGIC_BYTES_MAX = 10 };
    if (bytes.len > MAGIC_BYTES_MAX)
        bytes.len = MAGIC_BYTES_MAX;
    reader r = reader_from(bytes, 0);
    uint64_t magic = reader_uleb(&r);
    return r.code ? 0 : magic;
}

bool sampleprof_has_magic(spgo_span bytes)
{
    uint64_t magic = magic_of(bytes);
    return magic == SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_RAW) ||
           magic == SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_EXT);
}

sampleprof_form sampleprof_sniff(spgo_span bytes)
{
    uint64_t magic = magic_of(bytes);
    return magic == SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_RAW)   ? SAMPLEPROF_BINARY
           : magic == SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_EXT) ? SAMPLEPROF_EXTBINARY
           : sampleprof_looks_like_text(bytes)               ? SAMPLEPROF_TEXT
                                                             : SAMPLEPROF_NOT;
}

/* What else could have been meant. */
static spgo_code fail_kind(spgo_span bytes, spgo_error *err)
{
    /* A u64 of "lprof", the form and 0x81 behind 0xff, the low byte first. */
    bool is_instrumentation =
        bytes.len >= 8 && bytes.ptr[0] == 0x81 && memcmp(bytes.ptr + 2, "forpl\xff", 6) == 0;
    if (magic_of(bytes) == SAMPLEPROF_MAGIC(SAMPLEPROF_MAGIC_COMPACT))
        return spgo_fail(err, SPGO_UNSUPPORTED, "sampleprof", 0,
                         "the compact binary form is not read; an llvm-profdata of LLVM 16 or "
                         "before turns it into text");
    if (is_instrumentation)
        return spgo_fail(err, SPGO_UNSUPPORTED, "sampleprof", 0,
                         "this is a profile of instrumentation, not of samples");
    if (bytes.len >= 4 && memcmp(bytes.ptr, "adcg", 4) == 0)
        return spgo_fail(err, SPGO_UNSUPPORTED, "sampleprof", 0,
                         "this is a profile for GCC (gcov), which is not read");
    return spgo_fail(err, SPGO_CORRUPT, "sampleprof", 0,
                     "this is no sample profile of LLVM: it has no magic number of one and its "
                     "first line is no 'name:total:head'");
}

spgo_code sampleprof_read(spgo_span bytes, uint64_t budget_bytes, sampleprof **read, diag *d,
                          spgo_error *err)
{
    *read = NULL;
    switch (sampleprof_sniff(bytes)) {
    case SAMPLEPROF_TEXT:
        return sampleprof_read_text(bytes, budget_bytes, read, d, err);
    case SAMPLEPROF_BINARY:
    case SAMPLEPROF_EXTBINARY:
        return sampleprof_read_binary(bytes, budget_bytes, read, d, err);
    case SAMPLEPROF_NOT:
        break;
    }
    return fail_kind(bytes, err);
}
