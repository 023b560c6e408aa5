/*
 * The ETL writer. Each processor has one open buffer in memory that is laid out as it will stand
 * in the file, so that adding a record is two copies and writing a buffer is one call of the sink.
 *
 * What goes into the fields that readers ignore follows what loggers and the relogger were seen to
 * write: see doc/formats/etl.md, "Writing".
 */
#include <base/limits.h>
#include <format/etl/etl_internal.h>
#include <format/etl/etl_write.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "etl.write"

enum {
    DEFAULT_BUFFER_SIZE = 65536,
    HEADER_GRANULE = 512, /* a compressed file's header buffer is cut to a multiple of it */
    RECORD_SIZE_MAX = 65535,
    PMC_VALUES_MAX = 7,
    WIN7_CPUS_MAX = 256,

    BUFFER_TYPE_GENERIC = 0,
    STATE_FLUSH = 3,
    WIN7_ALIGNMENT = 0x0800, /* the byte beside the processor number */

    /* the header event: offsets of the fields patched at the end, from the buffer's start */
    HEADER_PAYLOAD = ETL_BUFFER_HEADER_SIZE + 32,
    HEADER_CPU_COUNT = HEADER_PAYLOAD + 0x0C,
    HEADER_END_TIME = HEADER_PAYLOAD + 0x10,
    HEADER_BUFFERS_WRITTEN = HEADER_PAYLOAD + 0x24,
    TIME_ZONE_SIZE = 172,

    BUFFER_FLAGS_OFF = 0x34
};

typedef struct cpu_stream {
    uint8_t *buf;  /* opts.buffer_size bytes, from the first event of the processor on */
    uint32_t used; /* 0: no open buffer; else the end of its records */
    uint64_t last_time;
} cpu_stream;

struct etl_writer {
    spgo_sink sink;
    etl_writer_opts opts; /* without its texts; defaults filled in */
    etl_header header;
    cpu_stream *streams;
    size_t stream_count;
    bytes packed;             /* one compressed buffer */
    uint64_t size_bytes;      /* written so far */
    uint64_t last_buffer_off; /* of the last data buffer, 0 before the first */
    uint16_t last_buffer_flags;
    uint64_t last_time; /* the latest of all events */
    bool broken;        /* the sink refused bytes */
};

/* ------------------------------------------------------------------ buffers */

/* The fields of a buffer header that are not always zero. */
typedef struct buffer_header {
    uint32_t size_bytes, saved_off, current_off, state, end_off;
    uint64_t time, sequence;
    uint16_t processor, logger_id, flags, type;
} buffer_header;

static void put_buffer_header(uint8_t *p, const buffer_header *h)
{
    memset(p, 0, ETL_BUFFER_HEADER_SIZE);
    store_u32(p + 0x00, h->size_bytes);
    store_u32(p + 0x04, h->saved_off);
    store_u32(p + 0x08, h->current_off);
    store_u64(p + 0x10, h->time);
    store_u64(p + 0x18, h->sequence);
    store_u16(p + 0x28, h->processor);
    store_u16(p + 0x2A, h->logger_id);
    store_u32(p + 0x2C, h->state);
    store_u32(p + 0x30, h->end_off);
    store_u16(p + BUFFER_FLAGS_OFF, h->flags);
    store_u16(p + 0x36, h->type);
}

/* Merged and compressed files come from the relogger, which belongs to no session. */
static bool is_relogged(const etl_writer *w)
{
    return w->opts.merged || w->opts.compress;
}

static uint16_t processor_word(const etl_writer *w, uint16_t cpu)
{
    return w->opts.win7 ? (uint16_t)(cpu | WIN7_ALIGNMENT) : cpu;
}

static spgo_code sink_write(etl_writer *w, const void *data, size_t len, spgo_error *err)
{
    if (!w->sink.write(w->sink.ctx, data, len)) {
        w->broken = true;
        return spgo_fail(err, SPGO_IO, WHERE, SPGO_NO_OFFSET,
                         "the output refused a buffer of %zu bytes at its offset %" PRIu64
                         "; see that there is room for it",
                         len, w->size_bytes);
    }
    w->size_bytes += len;
    return SPGO_OK;
}

static spgo_code sink_patch(etl_writer *w, uint64_t offset, const void *data, size_t len,
                            spgo_error *err)
{
    if (!w->sink.patch(w->sink.ctx, offset, data, len)) {
        w->broken = true;
        return spgo_fail(err, SPGO_IO, WHERE, SPGO_NO_OFFSET,
                         "the output refused to change %zu bytes at its offset %" PRIu64
                         "; write to a file, not to a pipe",
                         len, offset);
    }
    return SPGO_OK;
}

/*
 * The compressed form of a buffer, with room for its header, in w->packed; false when it is no
 * gain: a buffer must not grow beyond the logger's buffer size that the header event promises.
 */
static bool pack_buffer(etl_writer *w, const cpu_stream *s)
{
    bytes_clear(&w->packed);
    bytes_fill(&w->packed, 0, ETL_BUFFER_HEADER_SIZE);
    xpress_compress(&w->packed,
                    (spgo_span){s->buf + ETL_BUFFER_HEADER_SIZE, s->used - ETL_BUFFER_HEADER_SIZE});
    return !w->packed.failed && w->packed.len <= w->opts.buffer_size;
}

/* Writes the open buffer of a processor; what follows of that processor starts a new one. */
static spgo_code end_buffer(etl_writer *w, size_t cpu, bool is_last, spgo_error *err)
{
    cpu_stream *s = &w->streams[cpu];
    buffer_header h = {.size_bytes = w->opts.buffer_size,
                       .saved_off = s->used,
                       .current_off = s->used,
                       .end_off = s->used,
                       .state = STATE_FLUSH,
                       .time =
                           w->opts.merged ? etl_filetime(&w->header, s->last_time) : s->last_time,
                       .sequence = w->header.buffers_written,
                       .processor = processor_word(w, (uint16_t)cpu),
                       .logger_id = is_relogged(w) ? 0 : 1,
                       .type = BUFFER_TYPE_GENERIC};
    h.flags = w->opts.win7 ? 0 : ETL_FLAG_PROCESSOR_INDEX;
    if (is_last)
        h.flags |= ETL_FLAG_FLUSH_MARKER;

    uint8_t *data = s->buf;
    if (w->opts.compress && pack_buffer(w, s)) {
        data = w->packed.ptr;
        h.size_bytes = (uint32_t)w->packed.len;
        h.flags |= ETL_FLAG_COMPRESSED;
    } else {
        memset(s->buf + s->used, 0xFF, w->opts.buffer_size - s->used);
    }
    if (w->packed.failed)
        return spgo_fail_nomem(err, WHERE, w->opts.buffer_size);
    put_buffer_header(data, &h);
    s->used = 0;
    w->last_buffer_off = w->size_bytes;
    w->last_buffer_flags = h.flags;
    w->header.buffers_written++;
    return sink_write(w, data, h.size_bytes, err);
}

static spgo_code flush_all(etl_writer *w, bool mark_last, spgo_error *err)
{
    size_t last = w->stream_count;
    for (size_t cpu = 0; cpu < w->stream_count; cpu++)
        if (w->streams[cpu].used)
            last = cpu;
    for (size_t cpu = 0; cpu < w->stream_count; cpu++)
        if (w->streams[cpu].used)
            SPGO_TRY(end_buffer(w, cpu, mark_last && cpu == last, err));
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the header buffer */

static void put_header_event(bytes *b, const etl_header *h, const char *session, const char *file)
{
    unsigned p = h->pointer_size;
    bytes_u32(b, h->buffer_size);
    bytes_u8(b, h->os_major);
    bytes_u8(b, h->os_minor);
    bytes_u8(b, h->layout_major);
    bytes_u8(b, h->layout_minor);
    bytes_u32(b, h->os_build);
    bytes_u32(b, h->cpu_count);
    bytes_u64(b, h->end_filetime);
    bytes_u32(b, h->timer_resolution_100ns);
    bytes_u32(b, h->maximum_file_size);
    bytes_u32(b, h->log_file_mode);
    bytes_u32(b, h->buffers_written);
    bytes_u32(b, h->start_buffers);
    bytes_u32(b, h->pointer_size);
    bytes_u32(b, h->events_lost);
    bytes_u32(b, h->cpu_mhz);
    bytes_ptr(b, 0, p); /* LoggerName and LogFileName: pointers of the logger's own process */
    bytes_ptr(b, 0, p);
    bytes_u32(b, (uint32_t)h->utc_bias_minutes);
    bytes_fill(b, 0, TIME_ZONE_SIZE - 4 + 4); /* its rest, and up to a multiple of 8 */
    bytes_u64(b, h->boot_filetime);
    bytes_u64(b, h->perf_freq);
    bytes_u64(b, h->start_filetime);
    bytes_u32(b, h->clock_type);
    bytes_u32(b, h->buffers_lost);
    bytes_utf16z(b, session);
    bytes_utf16z(b, file);
}

static void put_header_buffer(etl_writer *w, bytes *b, const char *session, const char *file)
{
    const etl_header *h = &w->header;
    bytes_fill(b, 0, ETL_BUFFER_HEADER_SIZE);
    bytes_u16(b, 2); /* version */
    bytes_u8(b, h->pointer_size == 8 ? ETL_SYSTEM64 : ETL_SYSTEM32);
    bytes_u8(b, ETL_MARKER_TOP);
    bytes_u32(b, 0); /* size: below; hook 0x0000 */
    bytes_u64(b, 0); /* thread and process */
    bytes_u64(b, h->first_time);
    bytes_u64(b, 0); /* kernel and user time */
    put_header_event(b, h, session, file);

    size_t record_size = b->len - ETL_BUFFER_HEADER_SIZE;
    bytes_fill(b, 0, (0 - record_size) & 7);
    size_t end = b->len;
    size_t size = w->opts.compress ? (end + HEADER_GRANULE - 1) / HEADER_GRANULE * HEADER_GRANULE
                                   : w->opts.buffer_size;
    if (size < end || record_size > RECORD_SIZE_MAX)
        return; /* too long: the caller sees it by the length */
    bytes_fill(b, 0xFF, size - end);
    if (b->failed)
        return;
    bytes_set_u16(b, ETL_BUFFER_HEADER_SIZE + 4, (uint16_t)record_size);

    /* The relogger writes the header buffer without reserving in it and, when it does not
     * compress, without the state of a flush. */
    bool relogged = is_relogged(w);
    put_buffer_header(
        b->ptr, &(buffer_header){.size_bytes = (uint32_t)size,
                                 .saved_off = w->opts.zero_saved_offset ? 0 : (uint32_t)end,
                                 .current_off = relogged ? 0 : (uint32_t)end,
                                 .end_off = (uint32_t)end,
                                 .state = relogged && !w->opts.compress ? 0 : STATE_FLUSH,
                                 .processor = processor_word(w, 0),
                                 .logger_id = relogged ? 0 : 1,
                                 .flags = relogged || w->opts.win7
                                              ? ETL_FLAG_FLUSH_MARKER
                                              : ETL_FLAG_FLUSH_MARKER | ETL_FLAG_PROCESSOR_INDEX,
                                 .type = ETL_BUFFER_TYPE_HEADER});
}

static spgo_code write_header_buffer(etl_writer *w, spgo_error *err)
{
    const char *session = w->opts.session_name, *file = w->opts.log_file_name;
    if (!session)
        session = w->opts.merged ? "Relogger" : "OpenSPGO";
    if (!file)
        file = w->opts.merged ? "[multiple files]" : "";
    w->opts.session_name = w->opts.log_file_name = NULL; /* they need not outlive this call */

    bytes b = {0};
    put_header_buffer(w, &b, session, file);
    spgo_code code;
    if (b.failed)
        code = spgo_fail_nomem(err, WHERE, w->opts.buffer_size);
    else if (b.len % HEADER_GRANULE != 0 || load_u32(b.ptr) != b.len)
        code = spgo_fail(err, SPGO_LIMIT, WHERE, SPGO_NO_OFFSET,
                         "session and file name of %zu and %zu bytes do not fit into a buffer of "
                         "%" PRIu32 " bytes; shorten them or take larger buffers",
                         strlen(session), strlen(file), w->opts.buffer_size);
    else
        code = sink_write(w, b.ptr, b.len, err);
    bytes_free(&b);
    return code;
}

/* ------------------------------------------------------------------ opening */

static spgo_code check_opts(const etl_writer_opts *o, spgo_sink sink, spgo_error *err)
{
    if (o->buffer_size % 1024 != 0 || o->buffer_size > LIMIT_ETL_BUFFER_BYTES)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "buffer size %" PRIu32 " is no multiple of 1024 up to %u", o->buffer_size,
                         LIMIT_ETL_BUFFER_BYTES);
    if (o->ptr_size != 0 && o->ptr_size != 4 && o->ptr_size != 8)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "pointer size %u is neither 4 nor 8", o->ptr_size);
    uint32_t cpus_max = o->win7 ? WIN7_CPUS_MAX : LIMIT_ETL_CPUS;
    if (o->cpu_count > cpus_max)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "%" PRIu32 " processors: this kind of trace has room for %" PRIu32,
                         o->cpu_count, cpus_max);
    if (o->clock_type > ETL_CLOCK_CPU)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "clock type %" PRIu32 " is unknown; 1 to 3 are QPC, system time and "
                         "processor cycles",
                         o->clock_type);
    if (o->win7 && o->compress)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "compressed buffers carry a processor index; leave win7 or compress out");
    if (!sink.patch && (!o->leave_open || o->cpu_count == 0))
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "the header is completed at the end: the output must be one that can be "
                         "changed, such as a file");
    return SPGO_OK;
}

static void fill_defaults(etl_writer_opts *o)
{
    if (o->buffer_size == 0)
        o->buffer_size = DEFAULT_BUFFER_SIZE;
    if (o->ptr_size == 0)
        o->ptr_size = 8;
    if (o->perf_freq == 0)
        o->perf_freq = 10000000;
    if (o->clock_type == 0)
        o->clock_type = ETL_CLOCK_QPC;
    if (o->cpu_mhz == 0)
        o->cpu_mhz = 1000;
    if (o->os_build == 0)
        o->os_build = o->win7 ? 7601 : 19041;
}

/* The time the clock has run for, taken off the start; system time does not count from the boot. */
static uint64_t default_boot_filetime(const etl_writer_opts *o)
{
    if (o->clock_type == ETL_CLOCK_SYSTEM)
        return o->start_filetime;
    etl_header from_zero = {
        .perf_freq = o->perf_freq, .cpu_mhz = o->cpu_mhz, .clock_type = o->clock_type};
    uint64_t up_100ns = etl_filetime(&from_zero, o->start_time);
    return o->start_filetime > up_100ns ? o->start_filetime - up_100ns : 0;
}

static etl_header header_from_opts(const etl_writer_opts *o)
{
    uint32_t mode = ETL_MODE_SEQUENTIAL;
    if (o->merged)
        mode |= ETL_MODE_RELOG;
    if (o->compress)
        mode |= ETL_MODE_COMPRESSED;
    return (etl_header){
        .buffer_size = o->buffer_size,
        .os_major = o->win7 ? 6 : 10,
        .os_minor = o->win7 ? 1 : 0,
        .layout_major = o->compress ? 2 : 1,
        .layout_minor = o->compress ? 0 : 5,
        .os_build = o->os_build,
        .cpu_count = o->cpu_count ? o->cpu_count : 1,
        .timer_resolution_100ns = 156250,
        .log_file_mode = mode,
        .buffers_written = 1, /* this one; patched at the end */
        .start_buffers = 1,
        .pointer_size = o->ptr_size,
        .events_lost = o->events_lost,
        .cpu_mhz = o->cpu_mhz,
        .boot_filetime = o->boot_filetime ? o->boot_filetime : default_boot_filetime(o),
        .perf_freq = o->perf_freq,
        .start_filetime = o->start_filetime,
        .clock_type = o->clock_type,
        .buffers_lost = o->buffers_lost,
        .first_time = o->start_time,
    };
}

spgo_code etl_writer_new(spgo_sink sink, const etl_writer_opts *opts, etl_writer **out,
                         spgo_error *err)
{
    *out = NULL;
    SPGO_TRY(check_opts(opts, sink, err));
    etl_writer *w = calloc(1, sizeof *w);
    if (!w)
        return spgo_fail_nomem(err, WHERE, sizeof *w);
    w->sink = sink;
    w->opts = *opts;
    fill_defaults(&w->opts);
    w->header = header_from_opts(&w->opts);
    w->last_time = w->opts.start_time;
    spgo_code code = write_header_buffer(w, err);
    if (code != SPGO_OK) {
        etl_writer_cancel(w);
        return code;
    }
    *out = w;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ records */

/* Size of a record header without PMC values and extended items; 0 for types not written. */
static unsigned fixed_header_size(uint8_t type)
{
    switch (type) {
    case ETL_SYSTEM32:
    case ETL_SYSTEM64:
        return 32;
    case ETL_COMPACT32:
    case ETL_COMPACT64:
        return 24;
    case ETL_PERFINFO32:
    case ETL_PERFINFO64:
        return 16;
    case ETL_FULL32:
    case ETL_FULL64:
        return 48;
    case ETL_INSTANCE32:
    case ETL_INSTANCE64:
        return 72;
    case ETL_EVENT32:
    case ETL_EVENT64:
        return 80;
    default:
        return 0;
    }
}

static bool is_perfinfo(uint8_t type)
{
    return type == ETL_PERFINFO32 || type == ETL_PERFINFO64;
}

static bool is_event(uint8_t type)
{
    return type == ETL_EVENT32 || type == ETL_EVENT64;
}

static unsigned pmc_words(const etl_event_head *h)
{
    return is_perfinfo(h->type) ? (unsigned)h->pmc_count + h->has_pebs : 0;
}

/* SYSTEM, COMPACT and PERFINFO begin alike: the hook is what they are known by. */
static void put_hook_header(uint8_t *p, const etl_event_head *h, size_t size)
{
    unsigned version = h->version;
    if (is_perfinfo(h->type))
        version |= (unsigned)h->pmc_count << 8 | (h->has_pebs ? 0x8000u : 0);
    store_u16(p, (uint16_t)version);
    p[2] = h->type;
    p[3] = ETL_MARKER_TOP;
    store_u16(p + 4, (uint16_t)size);
    store_u16(p + 6, h->hook);
    if (!is_perfinfo(h->type)) {
        store_u32(p + 8, h->tid);
        store_u32(p + 12, h->pid);
        store_u64(p + 16, h->time);
        return;
    }
    store_u64(p + 8, h->time);
    p += 16;
    if (h->has_pebs) {
        store_u64(p, h->pebs_value);
        p += 8;
    }
    for (unsigned i = 0; i < h->pmc_count; i++)
        store_u64(p + 8 * i, h->pmc_values[i]);
}

/* FULL, INSTANCE and EVENT begin alike: they are known by their GUID. */
static void put_guid_header(uint8_t *p, const etl_event_head *h, size_t size)
{
    store_u16(p, (uint16_t)size);
    p[2] = h->type;
    p[3] = ETL_MARKER_TOP;
    store_u32(p + 8, h->tid);
    store_u32(p + 12, h->pid);
    store_u64(p + 16, h->time);
    memcpy(p + 24, h->guid.bytes, 16);
    if (!is_event(h->type)) {
        p[4] = h->opcode;
        p[5] = h->level;
        store_u16(p + 6, h->version);
        return;
    }
    store_u16(p + 4, h->extended.len ? 1 : 0);
    store_u16(p + 0x28, h->id);
    p[0x2A] = (uint8_t)h->version;
    p[0x2B] = h->channel;
    p[0x2C] = h->level;
    p[0x2D] = h->opcode;
    store_u16(p + 0x2E, h->task);
    store_u64(p + 0x30, h->keyword);
    if (h->extended.len)
        memcpy(p + 80, h->extended.ptr, h->extended.len);
}

static spgo_code check_head(const etl_event_head *h, spgo_error *err)
{
    if (fixed_header_size(h->type) == 0)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "records of type %u are not written", h->type);
    if (h->version > 255 && (is_perfinfo(h->type) || is_event(h->type)))
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "version %u does not fit into the one byte of a record of type %u",
                         h->version, h->type);
    if (h->pmc_count > PMC_VALUES_MAX)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "%u counter values: a record has room for %d", h->pmc_count,
                         PMC_VALUES_MAX);
    if (h->extended.len % 8 != 0 || (h->extended.len && !is_event(h->type)))
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "extended items of %zu bytes in a record of type %u: only types 18 and "
                         "19 have them, in multiples of 8 bytes",
                         h->extended.len, h->type);
    return SPGO_OK;
}

/* The stream of a processor with a buffer to fill. */
static spgo_code stream_of(etl_writer *w, uint16_t cpu, cpu_stream **out, spgo_error *err)
{
    if (cpu >= w->stream_count) {
        uint32_t cpus_max = w->opts.cpu_count ? w->opts.cpu_count
                            : w->opts.win7    ? WIN7_CPUS_MAX
                                              : LIMIT_ETL_CPUS;
        if (cpu >= cpus_max)
            return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                             "processor %u: the trace has room for %" PRIu32, cpu, cpus_max);
        size_t count = (size_t)cpu + 1;
        cpu_stream *grown = realloc(w->streams, count * sizeof *grown);
        if (!grown)
            return spgo_fail_nomem(err, WHERE, count * sizeof *grown);
        for (size_t i = w->stream_count; i < count; i++)
            grown[i] = (cpu_stream){.last_time = w->opts.start_time};
        w->streams = grown;
        w->stream_count = count;
    }
    cpu_stream *s = &w->streams[cpu];
    if (!s->buf) {
        s->buf = malloc(w->opts.buffer_size);
        if (!s->buf)
            return spgo_fail_nomem(err, WHERE, w->opts.buffer_size);
    }
    *out = s;
    return SPGO_OK;
}

/* The record and its padding. */
static void put_record(uint8_t *p, const etl_event_head *head, size_t header_size,
                       spgo_span payload)
{
    size_t size = header_size + payload.len;
    memset(p, 0, header_size);
    if (fixed_header_size(head->type) < 48)
        put_hook_header(p, head, size);
    else
        put_guid_header(p, head, size);
    if (payload.len)
        memcpy(p + header_size, payload.ptr, payload.len);
    memset(p + size, 0, (0 - size) & 7);
}

static spgo_code fail_broken(spgo_error *err)
{
    return spgo_fail(err, SPGO_IO, WHERE, SPGO_NO_OFFSET,
                     "the output refused bytes before; the trace cannot be completed");
}

spgo_code etl_writer_add(etl_writer *w, const etl_event_head *head, spgo_span payload,
                         spgo_error *err)
{
    if (w->broken)
        return fail_broken(err);
    SPGO_TRY(check_head(head, err));
    cpu_stream *s = NULL;
    SPGO_TRY(stream_of(w, head->cpu, &s, err));
    if (head->time < s->last_time)
        return spgo_fail(err, SPGO_USAGE, WHERE, SPGO_NO_OFFSET,
                         "time %" PRIu64 " on processor %u lies before %" PRIu64
                         "; add the events of a processor in order of time",
                         head->time, head->cpu, s->last_time);

    uint32_t room = w->opts.buffer_size - ETL_BUFFER_HEADER_SIZE; /* a multiple of 8 */
    uint32_t size_max = room < RECORD_SIZE_MAX ? room : RECORD_SIZE_MAX;
    size_t header_size = fixed_header_size(head->type) + 8 * pmc_words(head) + head->extended.len;
    if (header_size > size_max || payload.len > size_max - header_size)
        return spgo_fail(err, SPGO_LIMIT, WHERE, SPGO_NO_OFFSET,
                         "a record of %zu + %zu bytes: at most %" PRIu32 " fit into one",
                         header_size, payload.len, size_max);
    uint32_t stride = ((uint32_t)(header_size + payload.len) + 7) & ~7u;

    if (s->used && stride > w->opts.buffer_size - s->used)
        SPGO_TRY(end_buffer(w, head->cpu, false, err));
    if (!s->used)
        s->used = ETL_BUFFER_HEADER_SIZE;
    put_record(s->buf + s->used, head, header_size, payload);
    s->used += stride;
    s->last_time = head->time;
    if (head->time > w->last_time)
        w->last_time = head->time;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ closing */

spgo_code etl_writer_flush(etl_writer *w, spgo_error *err)
{
    return w->broken ? fail_broken(err) : flush_all(w, false, err);
}

static spgo_code patch_header(etl_writer *w, uint64_t end_filetime, spgo_error *err)
{
    uint8_t field[8];
    if (w->opts.cpu_count == 0 && w->stream_count > 1) {
        store_u32(field, (uint32_t)w->stream_count);
        SPGO_TRY(sink_patch(w, HEADER_CPU_COUNT, field, 4, err));
    }
    if (w->opts.leave_open)
        return SPGO_OK;
    store_u64(field, end_filetime ? end_filetime : etl_filetime(&w->header, w->last_time));
    SPGO_TRY(sink_patch(w, HEADER_END_TIME, field, 8, err));
    store_u32(field, w->header.buffers_written);
    return sink_patch(w, HEADER_BUFFERS_WRITTEN, field, 4, err);
}

/* The last buffer of a closed file carries the flush marker, also when it went out before. */
static spgo_code write_last_buffers(etl_writer *w, spgo_error *err)
{
    bool mark = !w->opts.leave_open;
    SPGO_TRY(flush_all(w, mark, err));
    if (!mark || w->last_buffer_off == 0 || (w->last_buffer_flags & ETL_FLAG_FLUSH_MARKER))
        return SPGO_OK;
    uint8_t field[2];
    store_u16(field, w->last_buffer_flags | ETL_FLAG_FLUSH_MARKER);
    return sink_patch(w, w->last_buffer_off + BUFFER_FLAGS_OFF, field, 2, err);
}

spgo_code etl_writer_finish(etl_writer *w, uint64_t end_filetime, spgo_error *err)
{
    spgo_code code = w->broken ? fail_broken(err) : write_last_buffers(w, err);
    if (code == SPGO_OK)
        code = patch_header(w, end_filetime, err);
    etl_writer_cancel(w);
    return code;
}

void etl_writer_cancel(etl_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->stream_count; i++)
        free(w->streams[i].buf);
    free(w->streams);
    bytes_free(&w->packed);
    free(w);
}
