/*
 * XPRESS: expands the input behind its first two bytes, which say into how many, and then takes it
 * as plain bytes, which must come back from their compressed form.
 */
#include "fuzz.h"

#include <format/etl/etl.h>

static void expand(spgo_span in, size_t out_len)
{
    uint8_t *out = malloc(out_len ? out_len : 1); /* exact: the first byte behind it is found */
    size_t used = 0;
    FUZZ_CHECK(out);
    if (xpress_expand(in, out, out_len, &used))
        FUZZ_CHECK(used <= in.len);
    free(out);
}

static void compress_and_expand(spgo_span plain)
{
    bytes packed = {0};
    xpress_compress(&packed, plain);
    FUZZ_CHECK(!packed.failed);
    /* A block of its own size again, for the reader as well as for the writer. */
    uint8_t *in = malloc(packed.len ? packed.len : 1);
    uint8_t *out = malloc(plain.len ? plain.len : 1);
    size_t used;
    FUZZ_CHECK(in && out);
    memcpy(in, packed.ptr, packed.len);
    FUZZ_CHECK(xpress_expand((spgo_span){in, packed.len}, out, plain.len, &used));
    FUZZ_CHECK(used <= packed.len);
    FUZZ_CHECK(plain.len == 0 || memcmp(out, plain.ptr, plain.len) == 0);
    free(in);
    free(out);
    bytes_free(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t out_len = (size_t)data[0] | (size_t)data[1] << 8;
    spgo_span rest = {data + 2, size - 2};
    expand(rest, out_len);
    compress_and_expand(rest);
    return 0;
}
