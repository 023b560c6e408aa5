/* Finding the bytes of an image at an RVA, and decoding them by machine. */
#include <code/code_internal.h>

#include <base/fail.h>

#include <stdlib.h>

static const char where[] = "code";

/* RVAs end at 32 bits, whatever a segment claims. */
static size_t segment_size(const code_segment *s)
{
    uint64_t room = (uint64_t)UINT32_MAX + 1 - s->rva;
    return s->bytes.len < room ? s->bytes.len : (size_t)room;
}

/* The segment whose bytes hold the RVA; NULL: none. */
static const code_segment *segment_at(const code_image *image, uint32_t rva)
{
    size_t low = 0, high = image->segment_count; /* the last one that begins at or below rva */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (image->segments[mid].rva <= rva)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return NULL;
    const code_segment *s = &image->segments[low - 1];
    return rva - s->rva < segment_size(s) ? s : NULL;
}

static spgo_span rest_of(const code_segment *s, uint32_t rva)
{
    uint32_t skipped = rva - s->rva;
    return (spgo_span){s->bytes.ptr + skipped, segment_size(s) - skipped};
}

spgo_span code_bytes_at(const code_image *image, uint32_t rva)
{
    const code_segment *s = segment_at(image, rva);
    return s ? rest_of(s, rva) : (spgo_span){NULL, 0};
}

bool code_is_executable(const code_image *image, uint32_t rva)
{
    const code_segment *s = segment_at(image, rva);
    return s && s->is_executable;
}

bool code_can_decode(code_machine machine)
{
    switch (machine) {
    case CODE_X86:
    case CODE_X64:
        return code_x86_can_decode();
    case CODE_ARM64:
        return true;
    case CODE_UNKNOWN:
        break;
    }
    return false;
}

const char *code_machine_name(code_machine machine)
{
    switch (machine) {
    case CODE_X86:
        return "x86";
    case CODE_X64:
        return "x64";
    case CODE_ARM64:
        return "ARM64";
    case CODE_UNKNOWN:
        break;
    }
    return "unknown machine";
}

static spgo_code fail_machine(const code_image *image, spgo_error *err)
{
    if (image->machine == CODE_X86 || image->machine == CODE_X64)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, SPGO_NO_OFFSET,
                         "%s code cannot be decoded, since this build lacks Zydis; use one that "
                         "was configured with SPGO_WITH_ZYDIS=ON",
                         code_machine_name(image->machine));
    return spgo_fail(err, SPGO_UNSUPPORTED, where, SPGO_NO_OFFSET,
                     "the image's code is for a machine that is not decoded here; x86, x64 and "
                     "ARM64 are");
}

spgo_code code_decoder_new(const code_image *image, code_decoder **out, spgo_error *err)
{
    *out = NULL;
    if (!code_can_decode(image->machine))
        return fail_machine(image, err);
    code_decoder *d = calloc(1, sizeof(*d));
    if (!d)
        return spgo_fail_nomem(err, where, sizeof(*d));
    d->image = image;
    if (image->machine != CODE_ARM64) {
        d->x86 = code_x86_new(image->machine);
        if (!d->x86) {
            free(d);
            return spgo_fail_nomem(err, where, sizeof(*d));
        }
    }
    *out = d;
    return SPGO_OK;
}

void code_decoder_free(code_decoder *d)
{
    if (!d)
        return;
    code_x86_free(d->x86);
    free(d);
}

spgo_span code_executable_at(code_decoder *d, uint32_t rva)
{
    uint32_t skipped = rva - d->begin_rva;
    if (skipped >= d->bytes.len) {
        const code_segment *s = segment_at(d->image, rva);
        if (!s || !s->is_executable)
            return (spgo_span){NULL, 0};
        d->begin_rva = s->rva;
        d->bytes = rest_of(s, s->rva);
        skipped = rva - s->rva;
    }
    return (spgo_span){d->bytes.ptr + skipped, d->bytes.len - skipped};
}

code_instruction code_decode(code_decoder *d, uint32_t rva)
{
    code_machine machine = d->image->machine;
    code_instruction out = {
        .rva = rva, .size_bytes = code_invalid_size(machine), .kind = CODE_INVALID};
    spgo_span bytes = code_executable_at(d, rva);
    if (bytes.len == 0)
        return out;
    if (machine == CODE_ARM64)
        code_arm64_decode(bytes, &out);
    else
        code_x86_decode(d->x86, bytes, &out);
    return out;
}
