/* Writing perf.data: see perfdata_build.h; the layout is in doc/formats/perfdata.md. */
#include "perfdata_build.h"

#include <stdlib.h>
#include <string.h>

#if SPGO_HAVE_ZSTD
#include <zstd.h>
#endif

enum {
    HEADER_SIZE = 104,
    PIPE_HEADER_SIZE = 16,
    DATA_SIZE_AT = 48,
    FEATURES_AT = 72,
    ATTR_SIZE_DEFAULT = 120,
    ATTR_SIZE_MAX = 136,
    PIECE_DEFAULT = 32768,

    RECORD_HEADER_ATTR = 64,
    RECORD_HEADER_BUILD_ID = 67,
    RECORD_FINISHED_ROUND = 68,
    RECORD_HEADER_FEATURE = 80,
    RECORD_COMPRESSED = 81,

    FEATURE_BUILD_ID = 2,
    FEATURE_HOSTNAME = 3,
    FEATURE_OS_RELEASE = 4,
    FEATURE_ARCH = 6,
    FEATURE_CMDLINE = 11,
    FEATURE_EVENT_DESC = 12,
    FEATURE_COMPRESSED = 27,
    FEATURE_MAX = 32
};

struct perfdata_build {
    spgo_sink sink;
    perfdata_build_opts opts;
    const perfdata_build_event *events;
    size_t event_count;
    uint64_t written; /* bytes given to the sink */
    uint64_t data_off;
    bool failed;
    bytes record;    /* the one under construction */
    bytes unpacked;  /* records waiting to be compressed */
    bytes build_ids; /* the feature */
#if SPGO_HAVE_ZSTD
    ZSTD_CStream *zstd;
#endif
};

/* ------------------------------------------------------------------ words */

static void put_u16(const perfdata_build *b, bytes *to, uint16_t v)
{
    bytes_u16(to, b->opts.big_endian ? __builtin_bswap16(v) : v);
}

static void put_u32(const perfdata_build *b, bytes *to, uint32_t v)
{
    bytes_u32(to, b->opts.big_endian ? __builtin_bswap32(v) : v);
}

static void put_u64(const perfdata_build *b, bytes *to, uint64_t v)
{
    bytes_u64(to, b->opts.big_endian ? __builtin_bswap64(v) : v);
}

/* Bit fields start at the most significant bit on big-endian machines. */
static uint64_t flags_as_stored(const perfdata_build *b, uint64_t flags)
{
    uint64_t stored = 0;
    for (int bit = 0; bit < 64; bit++)
        stored |= (flags >> bit & 1) << (63 - bit);
    return b->opts.big_endian ? stored : flags;
}

static uint64_t branch_flags_as_stored(const perfdata_build *b, uint64_t flags)
{
    static const unsigned widths[] = {1, 1, 1, 1, 16, 4, 2, 4, 3, 31};
    uint64_t stored = 0;
    unsigned at = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        uint64_t field = flags >> at & ((1ull << widths[i]) - 1);
        stored |= field << (64 - at - widths[i]);
        at += widths[i];
    }
    return b->opts.big_endian ? stored : flags;
}

static void put_text_padded(bytes *to, const char *text, size_t alignment)
{
    size_t len = strlen(text) + 1;
    bytes_put(to, text, len);
    bytes_fill(to, 0, (alignment - len % alignment) % alignment);
}

/* Text of a feature: its padded length first. */
static void put_feature_text(const perfdata_build *b, bytes *to, const char *text)
{
    put_u32(b, to, (uint32_t)((strlen(text) + 64) / 64 * 64));
    put_text_padded(to, text, 64);
}

/* ------------------------------------------------------------------ into the sink */

static void emit(perfdata_build *b, const void *data, size_t size)
{
    if (size > 0 && !b->sink.write(b->sink.ctx, data, size))
        b->failed = true;
    b->written += size;
}

static void emit_bytes(perfdata_build *b, const bytes *from)
{
    b->failed = b->failed || from->failed;
    emit(b, from->ptr, from->len);
}

static void patch_u64(perfdata_build *b, uint64_t at, uint64_t v)
{
    uint8_t raw[8];
    store_u64(raw, b->opts.big_endian ? __builtin_bswap64(v) : v);
    if (!b->sink.patch || !b->sink.patch(b->sink.ctx, at, raw, sizeof raw))
        b->failed = true;
}

#if SPGO_HAVE_ZSTD
/* One COMPRESSED record from what waits: the stream is flushed, but never ended. */
static void compress_waiting(perfdata_build *b)
{
    size_t bound = ZSTD_compressBound(b->unpacked.len) + 64;
    bytes packed = {0};
    if (b->unpacked.len == 0)
        return;
    if (!bytes_reserve(&packed, bound))
        abort();
    ZSTD_inBuffer in = {.src = b->unpacked.ptr, .size = b->unpacked.len};
    ZSTD_outBuffer out = {.dst = packed.ptr, .size = bound};
    while (in.pos < in.size) {
        if (ZSTD_isError(ZSTD_compressStream(b->zstd, &out, &in)))
            abort();
    }
    if (ZSTD_flushStream(b->zstd, &out) != 0)
        abort();
    bytes head = {0};
    put_u32(b, &head, RECORD_COMPRESSED);
    put_u16(b, &head, 0);
    put_u16(b, &head, (uint16_t)(8 + out.pos));
    emit_bytes(b, &head);
    emit(b, packed.ptr, out.pos);
    bytes_free(&head);
    bytes_free(&packed);
    bytes_clear(&b->unpacked);
}

bool perfdata_build_can_compress(void)
{
    return true;
}

static void start_compression(perfdata_build *b)
{
    b->zstd = ZSTD_createCStream();
    if (!b->zstd || ZSTD_isError(ZSTD_initCStream(b->zstd, 1)))
        abort();
}

static void end_compression(perfdata_build *b)
{
    ZSTD_freeCStream(b->zstd);
}
#else
static void compress_waiting(perfdata_build *b)
{
    (void)b;
}

bool perfdata_build_can_compress(void)
{
    return false;
}

static void start_compression(perfdata_build *b)
{
    (void)b;
    abort();
}

static void end_compression(perfdata_build *b)
{
    (void)b;
}
#endif

/* ------------------------------------------------------------------ records */

static bytes *begin_record(perfdata_build *b, uint32_t type, uint16_t misc)
{
    bytes_clear(&b->record);
    put_u32(b, &b->record, type);
    put_u16(b, &b->record, misc);
    put_u16(b, &b->record, 0);
    return &b->record;
}

static void set_record_size(perfdata_build *b)
{
    uint16_t size = (uint16_t)b->record.len;
    bytes_set_u16(&b->record, 6, b->opts.big_endian ? __builtin_bswap16(size) : size);
}

static void end_record(perfdata_build *b)
{
    set_record_size(b);
    if (!b->opts.compress) {
        emit_bytes(b, &b->record);
        return;
    }
    /* Pieces end where they are full, in the middle of a record if need be. */
    size_t piece = b->opts.compress_piece_bytes ? b->opts.compress_piece_bytes : PIECE_DEFAULT;
    for (size_t done = 0; done < b->record.len;) {
        size_t room = piece - b->unpacked.len;
        size_t part = b->record.len - done < room ? b->record.len - done : room;
        bytes_put(&b->unpacked, b->record.ptr + done, part);
        done += part;
        if (b->unpacked.len == piece)
            compress_waiting(b);
    }
}

/* perf's own records are never compressed. */
static void end_plain_record(perfdata_build *b)
{
    set_record_size(b);
    emit_bytes(b, &b->record);
}

static void put_trailer(perfdata_build *b, bytes *to, const perfdata_build_id_fields *sid)
{
    const perfdata_build_id_fields none = {0};
    const perfdata_build_id_fields *s = sid ? sid : &none;
    const perfdata_build_event *e = s->event < b->event_count ? &b->events[s->event] : NULL;
    if (!e || !(e->flags >> 18 & 1))
        return;
    if (e->sample_type & 1 << 1) {
        put_u32(b, to, s->pid);
        put_u32(b, to, s->tid);
    }
    if (e->sample_type & 1 << 2)
        put_u64(b, to, s->time_ns);
    if (e->sample_type & 1 << 6)
        put_u64(b, to, s->id);
    if (e->sample_type & 1 << 9)
        put_u64(b, to, s->id);
    if (e->sample_type & 1 << 7) {
        put_u32(b, to, s->cpu);
        put_u32(b, to, 0);
    }
    if (e->sample_type & 1 << 16)
        put_u64(b, to, s->id);
}

static void put_map_range(perfdata_build *b, bytes *to, const perfdata_build_map *m)
{
    put_u32(b, to, m->pid);
    put_u32(b, to, m->tid);
    put_u64(b, to, m->addr);
    put_u64(b, to, m->len);
    put_u64(b, to, m->pgoff);
}

void perfdata_build_mmap(perfdata_build *b, const perfdata_build_map *m)
{
    bytes *to = begin_record(b, 1, m->misc);
    put_map_range(b, to, m);
    put_text_padded(to, m->path, 8);
    put_trailer(b, to, &m->sid);
    end_record(b);
}

void perfdata_build_mmap2(perfdata_build *b, const perfdata_build_map *m)
{
    const uint16_t has_build_id = 1 << 14;
    bytes *to = begin_record(b, 10, (uint16_t)(m->misc | (m->build_id ? has_build_id : 0)));
    put_map_range(b, to, m);
    if (m->build_id) {
        bytes_u8(to, m->build_id_size);
        bytes_fill(to, 0, 3);
        bytes_put(to, m->build_id, m->build_id_size < 20 ? m->build_id_size : 20);
        bytes_fill(to, 0, m->build_id_size < 20 ? 20u - m->build_id_size : 0);
    } else {
        put_u32(b, to, 8); /* device 8:1 */
        put_u32(b, to, 1);
        put_u64(b, to, 4711); /* inode and generation */
        put_u64(b, to, 1);
    }
    put_u32(b, to, m->prot);
    put_u32(b, to, 2); /* MAP_PRIVATE */
    put_text_padded(to, m->path, 8);
    put_trailer(b, to, &m->sid);
    end_record(b);
}

void perfdata_build_comm(perfdata_build *b, uint32_t pid, uint32_t tid, const char *comm,
                         bool is_exec, const perfdata_build_id_fields *sid)
{
    bytes *to = begin_record(b, 3, is_exec ? 1 << 13 : 0);
    put_u32(b, to, pid);
    put_u32(b, to, tid);
    put_text_padded(to, comm, 8);
    put_trailer(b, to, sid);
    end_record(b);
}

void perfdata_build_task(perfdata_build *b, uint32_t type, uint32_t pid, uint32_t ppid,
                         uint32_t tid, uint32_t ptid, const perfdata_build_id_fields *sid)
{
    bytes *to = begin_record(b, type, 0);
    put_u32(b, to, pid);
    put_u32(b, to, ppid);
    put_u32(b, to, tid);
    put_u32(b, to, ptid);
    put_u64(b, to, sid ? sid->time_ns : 0);
    put_trailer(b, to, sid);
    end_record(b);
}

void perfdata_build_lost(perfdata_build *b, uint64_t lost, const perfdata_build_id_fields *sid)
{
    bytes *to = begin_record(b, 2, 0);
    put_u64(b, to, sid ? sid->id : 0);
    put_u64(b, to, lost);
    put_trailer(b, to, sid);
    end_record(b);
}

void perfdata_build_lost_samples(perfdata_build *b, uint64_t lost,
                                 const perfdata_build_id_fields *sid)
{
    bytes *to = begin_record(b, 13, 0);
    put_u64(b, to, lost);
    put_trailer(b, to, sid);
    end_record(b);
}

void perfdata_build_finished_round(perfdata_build *b)
{
    begin_record(b, RECORD_FINISHED_ROUND, 0);
    end_record(b);
}

void perfdata_build_raw(perfdata_build *b, uint32_t type, uint16_t misc, spgo_span body)
{
    bytes_put(begin_record(b, type, misc), body.ptr, body.len);
    end_record(b);
}

void perfdata_build_bytes(perfdata_build *b, spgo_span content)
{
    emit(b, content.ptr, content.len);
}

/* ------------------------------------------------------------------ samples */

static void put_fixed_fields(perfdata_build *b, bytes *to, uint64_t type,
                             const perfdata_build_sample *s)
{
    if (type & 1 << 16)
        put_u64(b, to, s->id);
    if (type & 1 << 0)
        put_u64(b, to, s->ip);
    if (type & 1 << 1) {
        put_u32(b, to, s->pid);
        put_u32(b, to, s->tid);
    }
    if (type & 1 << 2)
        put_u64(b, to, s->time_ns);
    if (type & 1 << 3)
        put_u64(b, to, s->addr);
    if (type & 1 << 6)
        put_u64(b, to, s->id);
    if (type & 1 << 9)
        put_u64(b, to, s->id);
    if (type & 1 << 7) {
        put_u32(b, to, s->cpu);
        put_u32(b, to, 0);
    }
    if (type & 1 << 8)
        put_u64(b, to, s->period);
}

static void put_read(perfdata_build *b, bytes *to, uint64_t format, uint64_t group_size)
{
    size_t times = (format & 1) + (format >> 1 & 1);
    size_t extras = (format >> 2 & 1) + (format >> 4 & 1);
    uint64_t values = 1;
    if (format >> 3 & 1) {
        put_u64(b, to, group_size);
        values = group_size;
        bytes_fill(to, 0x11, 8 * times + 8 * (1 + extras) * values);
        return;
    }
    bytes_fill(to, 0x11, 8 * (1 + times + extras));
}

static void put_branches(perfdata_build *b, bytes *to, uint64_t branch_type,
                         const perfdata_build_sample *s)
{
    put_u64(b, to, s->branch_count);
    if (branch_type >> 17 & 1)
        put_u64(b, to, UINT64_MAX); /* position in the hardware's ring: unknown */
    for (size_t i = 0; i < s->branch_count; i++) {
        put_u64(b, to, s->branches[i][0]);
        put_u64(b, to, s->branches[i][1]);
        put_u64(b, to, branch_flags_as_stored(b, s->branches[i][2]));
    }
    if (branch_type >> 19 & 1)
        bytes_fill(to, 0x22, 8 * s->branch_count);
}

static void put_regs(perfdata_build *b, bytes *to, uint64_t mask)
{
    put_u64(b, to, 2); /* ABI: 64 bits */
    bytes_fill(to, 0x33, 8 * (size_t)__builtin_popcountll(mask));
}

static void put_last_fields(perfdata_build *b, bytes *to, const perfdata_build_event *e,
                            const perfdata_build_sample *s)
{
    uint64_t type = e->sample_type;
    if (type & 1 << 12)
        put_regs(b, to, e->regs_user);
    if (type & 1 << 13) {
        put_u64(b, to, s->user_stack_size);
        bytes_fill(to, 0x44, (size_t)s->user_stack_size);
        if (s->user_stack_size > 0)
            put_u64(b, to, s->user_stack_size);
    }
    bytes_fill(to, 0,
               8 * (size_t)__builtin_popcountll(type & (1 << 14 | 1 << 15 | 1 << 17 | 1 << 24)));
    if (type & 1 << 18)
        put_regs(b, to, e->regs_intr);
    bytes_fill(to, 0,
               8 * (size_t)__builtin_popcountll(type & (1 << 19 | 1 << 21 | 1 << 22 | 1 << 23)));
    if (type & 1 << 20) {
        put_u64(b, to, 16);
        bytes_fill(to, 0x55, 16);
    }
}

void perfdata_build_sample_record(perfdata_build *b, const perfdata_build_sample *s)
{
    const perfdata_build_event *e = &b->events[s->event];
    uint64_t type = e->sample_type;
    bytes *to = begin_record(b, 9, s->misc);
    put_fixed_fields(b, to, type, s);
    if (type & 1 << 4)
        put_read(b, to, e->read_format, s->group_size);
    if (type & 1 << 5) {
        put_u64(b, to, s->callchain_count);
        for (size_t i = 0; i < s->callchain_count; i++)
            put_u64(b, to, s->callchain[i]);
    }
    if (type & 1 << 10) {
        put_u32(b, to, s->raw_size);
        bytes_fill(to, 0x66, s->raw_size);
    }
    if (type & 1 << 11)
        put_branches(b, to, e->branch_sample_type, s);
    put_last_fields(b, to, e, s);
    end_record(b);
}

/* ------------------------------------------------------------------ header */

static void put_attr(perfdata_build *b, bytes *to, const perfdata_build_event *e)
{
    uint32_t size = e->attr_size ? e->attr_size : ATTR_SIZE_DEFAULT;
    bytes whole = {0};
    put_u32(b, &whole, e->type);
    put_u32(b, &whole, size);
    put_u64(b, &whole, e->config);
    put_u64(b, &whole, e->period);
    put_u64(b, &whole, e->sample_type);
    put_u64(b, &whole, e->read_format);
    put_u64(b, &whole, flags_as_stored(b, e->flags));
    bytes_fill(&whole, 0, 16); /* wakeup, bp_type, config1 */
    bytes_fill(&whole, 0, 8);  /* config2 */
    put_u64(b, &whole, e->branch_sample_type);
    put_u64(b, &whole, e->regs_user);
    bytes_fill(&whole, 0, 8); /* sample_stack_user, clockid */
    put_u64(b, &whole, e->regs_intr);
    bytes_fill(&whole, 0, ATTR_SIZE_MAX - whole.len);
    bytes_put(to, whole.ptr, size < ATTR_SIZE_MAX ? size : ATTR_SIZE_MAX);
    bytes_free(&whole);
}

/* ids, then attribute entries, then data: the order of perf itself. */
static void emit_file_header(perfdata_build *b)
{
    bytes ids = {0}, attrs = {0}, head = {0};
    size_t entry_size = ATTR_SIZE_DEFAULT;
    for (size_t i = 0; i < b->event_count; i++) {
        const perfdata_build_event *e = &b->events[i];
        uint64_t ids_off = HEADER_SIZE + ids.len;
        for (size_t k = 0; k < e->id_count; k++)
            put_u64(b, &ids, e->ids[k]);
        size_t start = attrs.len;
        put_attr(b, &attrs, e);
        put_u64(b, &attrs, ids_off);
        put_u64(b, &attrs, 8 * e->id_count);
        entry_size = attrs.len - start;
    }
    b->data_off = HEADER_SIZE + ids.len + attrs.len;
    bytes_put(&head, b->opts.big_endian ? "2ELIFREP" : "PERFILE2", 8);
    put_u64(b, &head, HEADER_SIZE);
    put_u64(b, &head, entry_size);
    put_u64(b, &head, HEADER_SIZE + ids.len);
    put_u64(b, &head, attrs.len);
    put_u64(b, &head, b->data_off);
    bytes_fill(&head, 0, HEADER_SIZE - head.len); /* sizes and features come at the finish */
    emit_bytes(b, &head);
    emit_bytes(b, &ids);
    emit_bytes(b, &attrs);
    bytes_free(&head);
    bytes_free(&ids);
    bytes_free(&attrs);
}

static bool make_feature(perfdata_build *b, unsigned feature, bytes *to)
{
    const char *text = NULL;
    bytes_clear(to);
    switch (feature) {
    case FEATURE_BUILD_ID:
        bytes_put(to, b->build_ids.ptr, b->build_ids.len);
        return b->build_ids.len > 0 && !b->opts.pipe;
    case FEATURE_HOSTNAME:
        text = b->opts.hostname;
        break;
    case FEATURE_OS_RELEASE:
        text = b->opts.os_release;
        break;
    case FEATURE_ARCH:
        text = b->opts.arch;
        break;
    case FEATURE_CMDLINE:
        text = b->opts.cmdline;
        if (text)
            put_u32(b, to, 1);
        break;
    case FEATURE_EVENT_DESC:
        if (b->event_count == 0 || !b->events[0].name)
            return false;
        put_u32(b, to, (uint32_t)b->event_count);
        put_u32(b, to, b->events[0].attr_size ? b->events[0].attr_size : ATTR_SIZE_DEFAULT);
        for (size_t i = 0; i < b->event_count; i++) {
            const perfdata_build_event *e = &b->events[i];
            put_attr(b, to, e);
            put_u32(b, to, (uint32_t)e->id_count);
            put_feature_text(b, to, e->name);
            for (size_t k = 0; k < e->id_count; k++)
                put_u64(b, to, e->ids[k]);
        }
        return true;
    case FEATURE_COMPRESSED:
        put_u32(b, to, 1); /* version */
        put_u32(b, to, 1); /* zstd */
        put_u32(b, to, 1); /* level */
        put_u32(b, to, 8); /* ratio */
        put_u32(b, to, 512 * 1024);
        return b->opts.compress;
    default:
        break;
    }
    if (text)
        put_feature_text(b, to, text);
    return text != NULL;
}

static void emit_pipe_header(perfdata_build *b)
{
    bytes part = {0};
    bytes_put(&part, b->opts.big_endian ? "2ELIFREP" : "PERFILE2", 8);
    put_u64(b, &part, PIPE_HEADER_SIZE);
    emit_bytes(b, &part);
    for (size_t i = 0; i < b->event_count; i++) {
        const perfdata_build_event *e = &b->events[i];
        bytes *to = begin_record(b, RECORD_HEADER_ATTR, 0);
        put_attr(b, to, e);
        for (size_t k = 0; k < e->id_count; k++)
            put_u64(b, to, e->ids[k]);
        end_plain_record(b);
    }
    for (unsigned feature = 0; feature < FEATURE_MAX; feature++) {
        if (!make_feature(b, feature, &part))
            continue;
        bytes *to = begin_record(b, RECORD_HEADER_FEATURE, 0);
        put_u64(b, to, feature);
        bytes_put(to, part.ptr, part.len);
        end_plain_record(b);
    }
    bytes_free(&part);
}

/* A table of sections behind the data, then the sections. */
static uint64_t emit_features(perfdata_build *b)
{
    uint64_t bits = 0;
    bytes part = {0}, table = {0}, all = {0};
    size_t count = 0;
    for (unsigned feature = 0; feature < FEATURE_MAX; feature++)
        count += make_feature(b, feature, &part);
    for (unsigned feature = 0; feature < FEATURE_MAX; feature++) {
        if (!make_feature(b, feature, &part))
            continue;
        put_u64(b, &table, b->written + 16 * count + all.len);
        put_u64(b, &table, part.len);
        bytes_put(&all, part.ptr, part.len);
        bits |= 1ull << feature;
    }
    emit_bytes(b, &table);
    emit_bytes(b, &all);
    bytes_free(&part);
    bytes_free(&table);
    bytes_free(&all);
    return bits;
}

void perfdata_build_add_build_id(perfdata_build *b, uint32_t pid, uint16_t misc, const uint8_t *id,
                                 uint8_t size, const char *path)
{
    const uint16_t has_size = 1 << 15;
    bytes *to = begin_record(b, RECORD_HEADER_BUILD_ID, (uint16_t)(misc | (size ? has_size : 0)));
    put_u32(b, to, pid);
    size_t kept = size && size < 20 ? size : 20;
    bytes_put(to, id, kept);
    bytes_fill(to, 0, 20 - kept);
    bytes_u8(to, size);
    bytes_fill(to, 0, 3);
    put_text_padded(to, path, 64);
    if (b->opts.pipe) {
        end_plain_record(b);
    } else {
        set_record_size(b);
        bytes_put(&b->build_ids, to->ptr, to->len);
    }
}

/* ------------------------------------------------------------------ the whole */

perfdata_build *perfdata_build_new(spgo_sink sink, const perfdata_build_opts *opts,
                                   const perfdata_build_event *events, size_t event_count)
{
    perfdata_build *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->sink = sink;
    b->opts = *opts;
    b->events = events;
    b->event_count = event_count;
    if (opts->compress)
        start_compression(b);
    if (opts->pipe)
        emit_pipe_header(b);
    else
        emit_file_header(b);
    return b;
}

bool perfdata_build_finish(perfdata_build *b)
{
    if (b->opts.compress)
        compress_waiting(b);
    if (!b->opts.pipe && !b->opts.unfinished) {
        patch_u64(b, DATA_SIZE_AT, b->written - b->data_off);
        patch_u64(b, FEATURES_AT, emit_features(b));
    }
    bool good = !b->failed && !b->record.failed && !b->unpacked.failed && !b->build_ids.failed;
    if (b->opts.compress)
        end_compression(b);
    bytes_free(&b->record);
    bytes_free(&b->unpacked);
    bytes_free(&b->build_ids);
    free(b);
    return good;
}
