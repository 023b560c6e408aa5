/*
 * Opening an ETL file: the logfile header event and the index of buffers.
 *
 * There is no magic number and no directory: a buffer's size leads to the next one. So a damaged
 * size could cost the rest of the file. In an uncompressed file all buffers have the logger's
 * buffer size and reading goes on at the next multiple of it; in a compressed file a header is
 * searched for whose redundant fields agree.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/limits.h>
#include <base/text.h>
#include <format/etl/etl_internal.h>

enum {
    EVENT_OFF = ETL_BUFFER_HEADER_SIZE, /* of the header event, the first record */
    EVENT_HEADER_SIZE = 32,
    FORMAT_XPRESS = 3 /* compression formats as RtlDecompressBuffer numbers them */
};

/* ------------------------------------------------------------------ is it one at all */

static const char *other_format(spgo_span b)
{
    static const struct {
        uint8_t len;
        char magic[9];
        const char *what;
    } formats[] = {
        {4, "PK\3\4", "a zip archive (unpack it: PerfView's .etl.zip holds the .etl)"},
        {4, "MSCF", "a cabinet archive (unpack it first)"},
        {2, "\x1f\x8b", "a gzip file (unpack it first)"},
        {8, "PERFILE2", "a perf.data file"},
        {4,
         "\x7f"
         "ELF",
         "an ELF file"},
        {2, "MZ", "a Windows program"},
        {4, ":TPS", "an SPT file"},
        {8, "ElfFile\0", "a Windows event log (.evtx)"},
        {8, "Microsof", "a PDB file"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (b.len >= formats[i].len && !memcmp(b.ptr, formats[i].magic, formats[i].len))
            return formats[i].what;
    return NULL;
}

static bool has_header_event(const uint8_t *p)
{
    const uint8_t *event = p + EVENT_OFF;
    return (event[2] == ETL_SYSTEM32 || event[2] == ETL_SYSTEM64) && event[3] == ETL_MARKER_TOP &&
           load_u16(event + 6) == 0;
}

bool etl_sniff(spgo_span input)
{
    return input.len >= 128 && load_u32(input.ptr) >= EVENT_OFF + EVENT_HEADER_SIZE &&
           load_u16(input.ptr + 0x36) == ETL_BUFFER_TYPE_HEADER &&
           load_u16(input.ptr + EVENT_OFF) == 2 && has_header_event(input.ptr);
}

static spgo_code check_kind(spgo_span input, spgo_error *err)
{
    static const uint8_t zeros[EVENT_OFF + EVENT_HEADER_SIZE];
    const char *other = other_format(input);
    if (other)
        return spgo_fail(err, SPGO_CORRUPT, "etl.header", 0, "this is no ETL file, it is %s",
                         other);
    if (input.len < sizeof zeros)
        return spgo_fail(err, SPGO_TRUNCATED, "etl.header", input.len,
                         "the file has %zu bytes; an ETL file starts with a buffer header and the "
                         "logfile header event, %zu bytes and more",
                         input.len, sizeof zeros);
    if (!memcmp(input.ptr, zeros, sizeof zeros))
        return spgo_fail(err, SPGO_CORRUPT, "etl.header", 0,
                         "the file starts with zeros: its header buffer was never written or lost "
                         "in copying");
    if (!has_header_event(input.ptr))
        return spgo_fail(err, SPGO_CORRUPT, "etl.header", EVENT_OFF,
                         "this is no ETL file: its first record is marked 0x%08" PRIx32
                         ", not as a logfile header event (0xc0010002 or 0xc0020002)",
                         load_u32(input.ptr + EVENT_OFF));
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the header event */

static void read_names(etl_file *f, reader *c, diag *d)
{
    spgo_span session = reader_utf16z(c);
    spgo_span log_file = reader_utf16z(c);
    if (c->code)
        diag_add(d, c->code, c->bad_off, "the names in the header event are cut short");
    f->header.session_name = text_from_utf16(f->names, session);
    f->header.log_file_name = text_from_utf16(f->names, log_file);
}

static spgo_code read_header_event(etl_file *f, diag *d, spgo_error *err)
{
    const uint8_t *event = f->bytes.ptr + EVENT_OFF;
    unsigned ptr_size = event[2] == ETL_SYSTEM64 ? 8 : 4;
    size_t size_bytes = load_u16(event + 4);
    if (size_bytes < EVENT_HEADER_SIZE)
        return spgo_fail(err, SPGO_CORRUPT, "etl.header", EVENT_OFF + 4,
                         "the header event's size is %zu, less than its own header", size_bytes);
    size_t end = EVENT_OFF + size_bytes < f->bytes.len ? EVENT_OFF + size_bytes : f->bytes.len;
    size_t start = EVENT_OFF + EVENT_HEADER_SIZE;
    reader c = reader_from((spgo_span){f->bytes.ptr + start, end - start}, start);

    etl_header *h = &f->header;
    h->first_time = load_u64(event + 0x10);
    etl_read_header(&c, ptr_size, h);
    if (c.code && end < EVENT_OFF + size_bytes)
        return spgo_fail(err, SPGO_TRUNCATED, "etl.header", f->bytes.len,
                         "the file ends inside the header event, after %zu bytes; copy it again",
                         f->bytes.len);
    if (c.code)
        return spgo_fail(err, SPGO_CORRUPT, "etl.header", EVENT_OFF + 4,
                         "the header event's size is %zu, too small for its fields", size_bytes);
    read_names(f, &c, d);
    return SPGO_OK;
}

static spgo_code check_compression(const etl_file *f, spgo_error *err)
{
    if (!(f->header.log_file_mode & ETL_MODE_COMPRESSED))
        return SPGO_OK;
    unsigned format = load_u16(f->bytes.ptr + 0x2C);
    if (format == FORMAT_XPRESS)
        return SPGO_OK;
    const char *name = format == 2 ? "LZNT1" : format == 4 ? "XPRESS with Huffman" : "unknown";
    return spgo_fail(err, SPGO_UNSUPPORTED, "etl.header", 0x2C,
                     "the buffers are compressed with format %u (%s); only plain XPRESS (3) is "
                     "read here: relog the file without compression",
                     format, name);
}

static void note_header_oddities(const etl_file *f, diag *d)
{
    const etl_header *h = &f->header;
    unsigned type = load_u16(f->bytes.ptr + 0x36);
    if (type != ETL_BUFFER_TYPE_HEADER)
        diag_add(d, SPGO_CORRUPT, 0x36, "the first buffer's type is %u, not 4 (header)", type);
    if (h->end_filetime == 0)
        diag_add(d, SPGO_TRUNCATED, EVENT_OFF,
                 "the trace was never closed: its end time is 0 and the last buffers of each "
                 "processor may be missing");
    if (h->clock_type > ETL_CLOCK_CPU)
        diag_add(d, SPGO_CORRUPT, EVENT_OFF,
                 "clock type %" PRIu32 " is unknown; times are taken as performance counter",
                 h->clock_type);
    if ((h->clock_type <= ETL_CLOCK_QPC || h->clock_type > ETL_CLOCK_CPU) && h->perf_freq == 0)
        diag_add(d, SPGO_CORRUPT, EVENT_OFF,
                 "the clock's frequency is 0; times are taken as units of 100 ns");
}

/* ------------------------------------------------------------------ buffers */

typedef struct raw_buffer {
    uint32_t size, saved, end;
    uint16_t flags, type;
} raw_buffer;

static raw_buffer read_raw(const uint8_t *p)
{
    return (raw_buffer){
        .size = load_u32(p),
        .saved = load_u32(p + 0x04),
        .end = load_u32(p + 0x30),
        .flags = load_u16(p + 0x34),
        .type = load_u16(p + 0x36),
    };
}

static bool is_filler(const uint8_t *p)
{
    return load_u64(p) == UINT64_MAX || load_u64(p) == 0;
}

/* Could a buffer start here? The file's end and its tail count as yes. */
static bool plausible_at(const etl_file *f, uint64_t at)
{
    if (at > f->bytes.len)
        return false;
    uint64_t left = f->bytes.len - at;
    if (left < ETL_BUFFER_HEADER_SIZE)
        return true;
    raw_buffer b = read_raw(f->bytes.ptr + at);
    return b.size >= ETL_BUFFER_HEADER_SIZE &&
           (b.size <= left || b.size == f->header.buffer_size) && b.type <= 7 && b.flags < 0x80 &&
           b.saved <= LIMIT_ETL_BUFFER_BYTES && !is_filler(f->bytes.ptr + at);
}

/* The same with every redundancy there is, for a search at any position. */
static bool surely_at(const etl_file *f, uint64_t at)
{
    raw_buffer b = read_raw(f->bytes.ptr + at);
    return b.size > ETL_BUFFER_HEADER_SIZE && b.size <= f->bytes.len - at && b.type == 0 &&
           b.flags < 0x80 && (b.flags & ETL_FLAG_COMPRESSED) && b.saved == b.end &&
           b.saved > ETL_BUFFER_HEADER_SIZE && b.saved <= LIMIT_ETL_BUFFER_BYTES &&
           plausible_at(f, at + b.size);
}

static bool is_compressed_file(const etl_file *f)
{
    return f->header.log_file_mode & ETL_MODE_COMPRESSED;
}

/* Where reading can go on behind a damaged buffer header. */
static uint64_t resync(const etl_file *f, uint64_t at)
{
    uint64_t len = f->bytes.len;
    if (is_compressed_file(f)) {
        for (at++; at < len && len - at >= ETL_BUFFER_HEADER_SIZE; at++)
            if (surely_at(f, at))
                return at;
        return len;
    }
    uint64_t step = f->header.buffer_size;
    if (step < ETL_BUFFER_HEADER_SIZE)
        return len;
    for (at += step; at < len; at += step)
        if (plausible_at(f, at))
            return at;
    return len;
}

/* The end of the records, from fields that should agree. */
static uint32_t data_end(const raw_buffer *b, uint32_t size_max, uint64_t at, diag *d)
{
    uint32_t end = b->saved;
    if (b->type == ETL_BUFFER_TYPE_HEADER && b->end > end)
        end = b->end;
    if (end >= ETL_BUFFER_HEADER_SIZE && end <= size_max)
        return end;
    if (b->end >= ETL_BUFFER_HEADER_SIZE && b->end <= size_max) {
        if (b->saved != 0)
            diag_add(d, SPGO_CORRUPT, at + 4,
                     "the buffer's saved offset is %" PRIu32 "; its end field, %" PRIu32
                     ", is used instead",
                     b->saved, b->end);
        return b->end;
    }
    if (end == 0 && b->end == 0)
        return b->flags & ETL_FLAG_COMPRESSED ? ETL_BUFFER_HEADER_SIZE : size_max;
    diag_add(d, SPGO_CORRUPT, at + 4,
             "the buffer's end of data is %" PRIu32 ", outside its %" PRIu32 " bytes", end,
             size_max);
    return b->flags & ETL_FLAG_COMPRESSED ? ETL_BUFFER_HEADER_SIZE : size_max;
}

/* How large an expanded buffer may be: the logger's buffer size, if it can be believed. */
static uint32_t expanded_max(const etl_file *f)
{
    enum { USUAL_MAX = 1 << 20 };
    uint32_t size = f->header.buffer_size;
    if (size > LIMIT_ETL_BUFFER_BYTES)
        return LIMIT_ETL_BUFFER_BYTES;
    return size > USUAL_MAX ? size : USUAL_MAX;
}

/* The end of a compressed buffer's records. Few bytes can claim to expand to many: beyond what all
 * buffers of a file of this size may expand to, none is expanded any more. */
static uint32_t expanded_end(etl_file *f, const raw_buffer *b, uint64_t at, diag *d)
{
    uint64_t max = LIMIT_ETL_EXPANDED_BYTES + LIMIT_ETL_EXPANSION * (uint64_t)f->bytes.len;
    uint32_t end = data_end(b, expanded_max(f), at, d);
    if (end <= max - f->expanded_bytes) {
        f->expanded_bytes += end;
        return end;
    }
    diag_add(d, SPGO_LIMIT, at + 4,
             "the buffer would expand to %" PRIu32 " bytes, and with those before it to more than "
             "the %" PRIu64 " that a file of %zu bytes may; it is left out",
             end, max, f->bytes.len);
    return ETL_BUFFER_HEADER_SIZE;
}

static spgo_code add_buffer(etl_file *f, uint64_t at, uint32_t size, bool is_cut, diag *d,
                            spgo_error *err)
{
    if (f->buffer_count == f->buffer_cap) {
        size_t cap = f->buffer_cap ? 2 * f->buffer_cap : 64;
        etl_buffer *grown = realloc(f->buffers, cap * sizeof *grown);
        if (!grown)
            return spgo_fail_nomem(err, "etl.index", cap * sizeof *grown);
        f->buffers = grown;
        f->buffer_cap = cap;
    }
    const uint8_t *p = f->bytes.ptr + at;
    raw_buffer raw = read_raw(p);
    bool compressed = raw.flags & ETL_FLAG_COMPRESSED;
    uint32_t size_max = is_cut && raw.size > size ? raw.size : size;
    uint32_t end = compressed ? expanded_end(f, &raw, at, d) : data_end(&raw, size_max, at, d);
    f->buffers[f->buffer_count++] = (etl_buffer){
        .offset = at,
        .size_bytes = size,
        .data_end = compressed || end < size ? end : size,
        .time = load_u64(p + 0x10),
        .sequence = load_u64(p + 0x18),
        .cpu = raw.flags & ETL_FLAG_PROCESSOR_INDEX ? load_u16(p + 0x28) & 0x7FF : p[0x28],
        .logger_id = load_u16(p + 0x2A),
        .flags = raw.flags,
        .type = raw.type,
        .is_cut = is_cut,
    };
    return SPGO_OK;
}

/*
 * A buffer's size in the file, which leads to the next one; 0 if it cannot be known. A size that
 * leads nowhere while the logger's buffer size leads to a buffer is taken as damaged.
 */
static uint32_t trusted_size(const etl_file *f, uint64_t at, bool *is_cut, diag *d)
{
    raw_buffer b = read_raw(f->bytes.ptr + at);
    uint64_t left = f->bytes.len - at;
    uint32_t usual = f->header.buffer_size;
    bool compressed = b.flags & ETL_FLAG_COMPRESSED || is_compressed_file(f);
    *is_cut = false;
    bool usual_fits = usual >= ETL_BUFFER_HEADER_SIZE && usual <= left && !compressed;
    if (b.size >= ETL_BUFFER_HEADER_SIZE && b.size <= left) {
        if (b.size == usual || plausible_at(f, at + b.size) || !usual_fits ||
            !plausible_at(f, at + usual))
            return b.size;
    } else if (b.size > left && (compressed ? b.size <= LIMIT_ETL_BUFFER_BYTES : b.size == usual)) {
        *is_cut = plausible_at(f, at) || b.type <= 7;
        return *is_cut ? (uint32_t)left : 0;
    }
    /* Only the size is damaged when the two ends of data agree. */
    if (usual_fits && plausible_at(f, at + usual) && b.saved == b.end &&
        b.saved >= ETL_BUFFER_HEADER_SIZE && b.saved <= usual) {
        diag_add(d, SPGO_CORRUPT, at,
                 "the buffer's size is %" PRIu32 " and leads nowhere; the logger's %" PRIu32
                 " is used instead",
                 b.size, usual);
        return usual;
    }
    return 0;
}

/* The header buffer was recognised by its event; its size may still be damaged. */
static uint32_t first_size(const etl_file *f, bool *is_cut, diag *d)
{
    uint32_t size = trusted_size(f, 0, is_cut, d);
    if (size)
        return size;
    uint64_t next = resync(f, 0);
    *is_cut = next == f->bytes.len;
    size = next > UINT32_MAX ? UINT32_MAX : (uint32_t)next;
    diag_add(d, SPGO_CORRUPT, 0,
             "the header buffer's size is %" PRIu32 " and leads nowhere; the next buffer was found "
             "at offset %" PRIu64,
             load_u32(f->bytes.ptr), next);
    return size;
}

static spgo_code index_buffers(etl_file *f, diag *d, spgo_error *err)
{
    uint64_t at = 0;
    uint64_t len = f->bytes.len;
    while (at < len) {
        if (len - at < ETL_BUFFER_HEADER_SIZE) {
            diag_add(d, SPGO_TRUNCATED, at,
                     "the file ends with %" PRIu64 " bytes that are no whole buffer header",
                     len - at);
            break;
        }
        bool is_cut;
        uint32_t size = at ? trusted_size(f, at, &is_cut, d) : first_size(f, &is_cut, d);
        if (!size) {
            uint64_t next = resync(f, at);
            diag_add(d, SPGO_CORRUPT, at,
                     "the buffer's size is %" PRIu32 " and leads nowhere; %" PRIu64
                     " bytes are skipped, reading goes on at offset %" PRIu64,
                     load_u32(f->bytes.ptr + at), next - at, next);
            at = next;
            continue;
        }
        if (is_cut)
            diag_add(d, SPGO_TRUNCATED, len,
                     "the file ends %" PRIu32 " bytes into its last buffer at offset %" PRIu64
                     " of %" PRIu32 " bytes; its whole records are read",
                     size, at, load_u32(f->bytes.ptr + at));
        SPGO_TRY(add_buffer(f, at, size, is_cut, d, err));
        at += size;
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the whole */

spgo_code etl_open(spgo_span input, etl_file **out, diag *d, spgo_error *err)
{
    *out = NULL;
    SPGO_TRY(check_kind(input, err));
    etl_file *f = calloc(1, sizeof *f);
    if (!f)
        return spgo_fail_nomem(err, "etl.open", sizeof *f);
    f->bytes = input;
    f->names = arena_new(0);
    spgo_code code = f->names ? SPGO_OK : spgo_fail_nomem(err, "etl.open", 1);
    if (!code)
        code = read_header_event(f, d, err);
    if (!code)
        code = check_compression(f, err);
    if (!code) {
        note_header_oddities(f, d);
        code = index_buffers(f, d, err);
    }
    if (code) {
        etl_close(f);
        return code;
    }
    *out = f;
    return SPGO_OK;
}

void etl_close(etl_file *f)
{
    if (!f)
        return;
    arena_free(f->names);
    free(f->buffers);
    free(f);
}

const etl_header *etl_get_header(const etl_file *f)
{
    return &f->header;
}

size_t etl_buffer_count(const etl_file *f)
{
    return f->buffer_count;
}

const etl_buffer *etl_get_buffer(const etl_file *f, size_t index)
{
    return &f->buffers[index];
}

/* ------------------------------------------------------------------ time */

uint64_t etl_clock_freq(const etl_header *h)
{
    if (h->clock_type == ETL_CLOCK_SYSTEM)
        return 10000000;
    if (h->clock_type == ETL_CLOCK_CPU && h->cpu_mhz)
        return (uint64_t)h->cpu_mhz * 1000000;
    return h->perf_freq ? h->perf_freq : 10000000;
}

/* ticks * units / freq without overflow in between; saturates. */
static uint64_t scale(uint64_t ticks, uint64_t units, uint64_t freq)
{
    uint64_t whole = ticks / freq;
    uint64_t rest = ticks % freq;
    if (whole > UINT64_MAX / units - 1)
        return UINT64_MAX;
    /* A clock beyond 18 GHz exists only in damaged files; losing digits is harmless there. */
    uint64_t part = rest <= UINT64_MAX / units ? rest * units / freq : rest / (freq / units + 1);
    return whole * units + part;
}

uint64_t etl_filetime(const etl_header *h, uint64_t raw_time)
{
    uint64_t freq = etl_clock_freq(h);
    if (raw_time < h->first_time) {
        uint64_t before = scale(h->first_time - raw_time, 10000000, freq);
        return before < h->start_filetime ? h->start_filetime - before : 0;
    }
    uint64_t after = scale(raw_time - h->first_time, 10000000, freq);
    return after <= UINT64_MAX - h->start_filetime ? h->start_filetime + after : UINT64_MAX;
}

uint64_t etl_relative_ns(const etl_header *h, uint64_t raw_time)
{
    if (raw_time <= h->first_time)
        return 0;
    return scale(raw_time - h->first_time, 1000000000, etl_clock_freq(h));
}
