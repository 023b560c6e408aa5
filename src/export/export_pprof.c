/*
 * pprof's profile.proto: https://github.com/google/pprof/blob/main/proto/profile.proto. Messages
 * are put together from the inside out, each field of a message in a buffer of its own until its
 * length is known. Compressed with gzip where zlib is there; pprof takes both.
 */
#include <export/export_stacks.h>

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <base/counts.h>
#include <base/fail.h>
#include <base/guid.h>
#include <base/intern.h>
#include <base/text.h>

#if SPGO_HAVE_ZLIB
#include <zlib.h>
#endif

/* Numbers of the fields. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    VALUE_TYPE = 1,
    VALUE_UNIT = 2,
    SAMPLE_LOCATION = 1,
    SAMPLE_VALUE = 2,
    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_LIMIT = 3,
    MAPPING_FILE = 5,
    MAPPING_BUILD_ID = 6,
    MAPPING_HAS_FUNCTIONS = 7,
    MAPPING_HAS_FILES = 8,
    MAPPING_HAS_LINES = 9,
    MAPPING_HAS_INLINES = 10,
    LOCATION_ID = 1,
    LOCATION_MAPPING = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4,
    LINE_FUNCTION = 1,
    LINE_LINE = 2,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYSTEM_NAME = 3,
    FUNCTION_FILE = 4,
    FUNCTION_START = 5,
    THE_MAPPING = 1 /* its id: there is one */
};

/* ------------------------------------------------------------------ protocol buffers */

static void put_number(bytes *b, unsigned field, uint64_t v)
{
    enum { VARINT = 0 };
    if (v == 0) /* absent means 0 */
        return;
    bytes_uleb(b, field << 3 | VARINT);
    bytes_uleb(b, v);
}

static void put_part(bytes *b, unsigned field, const void *data, size_t len)
{
    enum { LENGTH_DELIMITED = 2 };
    bytes_uleb(b, field << 3 | LENGTH_DELIMITED);
    bytes_uleb(b, len);
    bytes_put(b, data, len);
}

/* ------------------------------------------------------------------ the profile */

typedef struct pprof {
    bytes out;           /* the whole profile, without the strings */
    bytes strings;       /* the string table's fields */
    bytes part, subpart; /* messages in the making */
    intern texts;
    counts text_numbers, function_numbers; /* by where they are in memory; strings from 1 */
    uint64_t text_count, function_count;
} pprof;

/* The index of a text in the string table, where "" is the first. */
static uint64_t text_index(pprof *p, spgo_str text)
{
    if (text.len == 0)
        return 0;
    spgo_str kept = intern_add(&p->texts, text);
    uint64_t place = (uint64_t)(uintptr_t)kept.ptr, number = counts_get(&p->text_numbers, place);
    if (number)
        return number;
    number = ++p->text_count;
    counts_add(&p->text_numbers, &place, 1, number);
    put_part(&p->strings, PROFILE_STRING, kept.ptr, kept.len);
    return number;
}

static void put_function(pprof *p, uint64_t id, spgo_str name, spgo_str system_name, spgo_str file,
                         uint32_t line)
{
    bytes_clear(&p->subpart);
    put_number(&p->subpart, FUNCTION_ID, id);
    put_number(&p->subpart, FUNCTION_NAME, text_index(p, name));
    put_number(&p->subpart, FUNCTION_SYSTEM_NAME, text_index(p, system_name));
    put_number(&p->subpart, FUNCTION_FILE, text_index(p, file));
    put_number(&p->subpart, FUNCTION_START, line);
    put_part(&p->out, PROFILE_FUNCTION, p->subpart.ptr, p->subpart.len);
}

/* The id of a function, which is written when it is first met. */
static uint64_t function_id(pprof *p, const void *key, const symbol_function *f, spgo_str name)
{
    uint64_t place = (uint64_t)(uintptr_t)key, id = counts_get(&p->function_numbers, place);
    if (id)
        return id;
    id = ++p->function_count;
    counts_add(&p->function_numbers, &place, 1, id);
    if (f)
        put_function(p, id, f->name, f->linkage_name.len ? f->linkage_name : f->name, f->file,
                     f->line);
    else
        put_function(p, id, name, name, (spgo_str){NULL, 0}, 0);
    return id;
}

static void put_line(pprof *p, uint64_t function, uint32_t line)
{
    bytes_clear(&p->subpart);
    put_number(&p->subpart, LINE_FUNCTION, function);
    put_number(&p->subpart, LINE_LINE, line);
    put_part(&p->part, LOCATION_LINE, p->subpart.ptr, p->subpart.len);
}

/* A location, and the sample at it. */
static void put_stack(pprof *p, const export_stack *stack, uint64_t id, uint64_t base_addr)
{
    const symbol_frame *frames[EXPORT_STACK_DEPTH_MAX];
    size_t n = export_stack_frames(stack, frames);
    spgo_str name = export_stack_name(stack);
    bytes_clear(&p->part);
    put_number(&p->part, LOCATION_ID, id);
    put_number(&p->part, LOCATION_MAPPING, THE_MAPPING);
    put_number(&p->part, LOCATION_ADDRESS, base_addr + stack->rva);
    for (size_t i = n; i-- > 0;) { /* leaf first */
        const symbol_function *f = frames[i]->function;
        put_line(p, function_id(p, f, f, f->name), frames[i]->line);
    }
    if (n == 0)
        put_line(p, function_id(p, name.ptr, NULL, name), 0);
    put_part(&p->out, PROFILE_LOCATION, p->part.ptr, p->part.len);

    bytes_clear(&p->part);
    put_number(&p->part, SAMPLE_LOCATION, id);
    put_number(&p->part, SAMPLE_VALUE, stack->weight < INT64_MAX ? stack->weight : INT64_MAX);
    put_part(&p->out, PROFILE_SAMPLE, p->part.ptr, p->part.len);
}

static void put_mapping(pprof *p, const symbols *s)
{
    const symbols_info *info = symbols_get_info(s);
    const code_image *image = symbols_code(s);
    uint64_t limit = image->base_addr;
    for (size_t i = 0; i < image->segment_count; i++)
        limit = image->base_addr + image->segments[i].rva + image->segments[i].bytes.len;
    char key[SYMBOL_KEY_SIZE] = "";
    if (info->has_id)
        symbol_key_text(key, &info->id);
    bytes_clear(&p->part);
    put_number(&p->part, MAPPING_ID, THE_MAPPING);
    put_number(&p->part, MAPPING_START, image->base_addr);
    put_number(&p->part, MAPPING_LIMIT, limit);
    put_number(&p->part, MAPPING_FILE, text_index(p, text_str(info->image_path)));
    put_number(&p->part, MAPPING_BUILD_ID, text_index(p, text_str(key)));
    for (unsigned has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_INLINES; has++)
        put_number(&p->part, has, 1);
    put_part(&p->out, PROFILE_MAPPING, p->part.ptr, p->part.len);
}

static void put_profile(pprof *p, const export_stacks *stacks, const char *unit, const symbols *s)
{
    put_part(&p->strings, PROFILE_STRING, "", 0);
    put_number(&p->part, VALUE_TYPE, text_index(p, text_str(unit)));
    put_number(&p->part, VALUE_UNIT, text_index(p, text_str("count")));
    put_part(&p->out, PROFILE_SAMPLE_TYPE, p->part.ptr, p->part.len);
    put_mapping(p, s);
    for (size_t i = 0; i < stacks->count; i++)
        put_stack(p, &stacks->list[i], i + 1, symbols_code(s)->base_addr);
    bytes_put(&p->out, p->strings.ptr, p->strings.len);
}

/* ------------------------------------------------------------------ compression */

static spgo_code refused(spgo_error *err)
{
    return spgo_fail(err, SPGO_IO, "pprof", SPGO_NO_OFFSET, "the output cannot be written");
}

#if SPGO_HAVE_ZLIB
static spgo_code write_out(spgo_span all, spgo_sink sink, spgo_error *err)
{
    enum { GZIP = 16, MEMORY_LEVEL = 8, CHUNK = 64 * 1024 };
    uint8_t chunk[CHUNK];
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP + MAX_WBITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return spgo_fail(err, SPGO_NOMEM, "pprof", SPGO_NO_OFFSET, "no memory to compress");
    bool taken = true;
    int result = Z_OK;
    while (taken && result != Z_STREAM_END) {
        if (z.avail_in == 0 && all.len > 0) { /* zlib counts in 32 bits */
            z.avail_in = all.len < CHUNK ? (uInt)all.len : CHUNK;
            z.next_in = (z_const Bytef *)(uintptr_t)all.ptr;
            all.ptr += z.avail_in;
            all.len -= z.avail_in;
        }
        z.next_out = chunk;
        z.avail_out = CHUNK;
        result = deflate(&z, all.len == 0 ? Z_FINISH : Z_NO_FLUSH);
        taken = sink.write(sink.ctx, chunk, CHUNK - z.avail_out);
    }
    deflateEnd(&z);
    return taken ? SPGO_OK : refused(err);
}
#else
static spgo_code write_out(spgo_span all, spgo_sink sink, spgo_error *err)
{
    return sink.write(sink.ctx, all.ptr, all.len) ? SPGO_OK : refused(err);
}
#endif

spgo_code export_pprof(const address_profile *profile, const char *unit, symbols *s,
                       code_decoder *d, spgo_sink sink, spgo_error *err)
{
    export_stacks stacks;
    SPGO_TRY(export_stacks_gather(profile, s, d, &stacks, err));
    pprof p = {0};
    put_profile(&p, &stacks, unit, s);
    spgo_code code;
    if (p.out.failed || p.strings.failed || p.part.failed || p.subpart.failed || p.texts.failed ||
        p.text_numbers.failed || p.function_numbers.failed)
        code = spgo_fail_nomem(err, "pprof", p.out.len);
    else
        code = write_out(bytes_span(&p.out), sink, err);
    bytes_free(&p.out);
    bytes_free(&p.strings);
    bytes_free(&p.part);
    bytes_free(&p.subpart);
    intern_free(&p.texts);
    counts_free(&p.text_numbers);
    counts_free(&p.function_numbers);
    free(stacks.list);
    return code;
}
