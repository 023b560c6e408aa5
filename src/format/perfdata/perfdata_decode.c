/*
 * Decoding record bodies. The layout of a sample follows the sample_type of its event, so the
 * event is found first: by the id, which all events keep at one place.
 * doc/formats/perfdata.md, "Samples" and "Other records".
 */
#include <format/perfdata/perfdata_internal.h>

#include <string.h>

#include <base/limits.h>

enum {
    READ_TOTAL_TIME_ENABLED = 1 << 0,
    READ_TOTAL_TIME_RUNNING = 1 << 1,
    READ_ID = 1 << 2,
    READ_GROUP = 1 << 3,
    READ_LOST = 1 << 4
};

enum { MISC_CPUMODE_MASK = 7, MMAP_BUILD_ID_SIZE_MAX = 20 };

uint64_t perfdata_u64(const perfdata *p, const uint8_t *at)
{
    return perfdata_word(p->big_endian, at);
}

/* On a big-endian machine the first field stands in the most significant bits. */
uint64_t perfdata_branch_flags(const perfdata *p, const uint8_t *at)
{
    static const uint8_t widths[] = {1, 1, 1, 1, 16, 4, 2, 4, 3};
    uint64_t stored = perfdata_word(p->big_endian, at);
    if (!p->big_endian)
        return stored;
    uint64_t flags = 0;
    unsigned used = 0;
    for (size_t i = 0; i < sizeof widths; i++) {
        uint64_t field = stored >> (64 - used - widths[i]) & ((1ull << widths[i]) - 1);
        flags |= field << used;
        used += widths[i];
    }
    return flags;
}

static perfdata_cpumode cpumode_of(const perfdata_record *r)
{
    unsigned mode = r->misc & MISC_CPUMODE_MASK;
    return mode <= PERFDATA_CPUMODE_GUEST_USER ? (perfdata_cpumode)mode : PERFDATA_CPUMODE_UNKNOWN;
}

/* Two 32-bit values that fill a word. */
static void take_pair(reader *r, bool big_endian, uint32_t *first, uint32_t *second)
{
    *first = take_u32(r, big_endian);
    *second = take_u32(r, big_endian);
}

/* ------------------------------------------------------------------ events and trailers */

/* As perf has it: a lone event owns every record, id 0 is the first event's. */
static size_t event_of(const perfdata *p, spgo_span body, size_t id_pos, bool has_id)
{
    if (p->event_count <= 1)
        return p->event_count == 1 ? 0 : SIZE_MAX;
    if (!has_id || id_pos > body.len || body.len - id_pos < 8)
        return SIZE_MAX;
    uint64_t id = perfdata_word(p->big_endian, body.ptr + id_pos);
    return id == 0 ? 0 : perfdata_find_id(p, id);
}

static const perfdata_event *layout_of(const perfdata *p, size_t index)
{
    if (index != SIZE_MAX)
        return p->events[index];
    return p->event_count > 0 && p->same_layout ? p->events[0] : NULL;
}

/*
 * Reads the sample_id that ends a record which is no sample, and takes it off the end of `r`.
 * Records before the first attribute, or of events without sample_id_all, have none.
 */
static bool cut_trailer(const perfdata *p, reader *r, perfdata_id *sid)
{
    *sid = (perfdata_id){0};
    spgo_span body = {r->base, r->len};
    size_t from_end = p->trailer_id_pos == PERFDATA_NO_ID_POS ? 0 : (size_t)p->trailer_id_pos;
    size_t id_pos = from_end <= body.len ? body.len - from_end : SIZE_MAX;
    const perfdata_event *e =
        layout_of(p, event_of(p, body, id_pos, p->trailer_id_pos != PERFDATA_NO_ID_POS));
    if (!e || e->trailer_size == 0)
        return true;
    if (e->trailer_size > r->len)
        return false;

    r->len -= e->trailer_size;
    reader t = reader_from((spgo_span){r->base + r->len, e->trailer_size}, r->origin + r->len);
    uint64_t type = e->attr.sample_type;
    uint32_t reserved;
    if (type & PERFDATA_SAMPLE_TID)
        take_pair(&t, p->big_endian, &sid->pid, &sid->tid);
    if (type & PERFDATA_SAMPLE_TIME) {
        sid->time_ns = take_u64(&t, p->big_endian);
        sid->has_time = true;
    }
    if (type & PERFDATA_SAMPLE_ID)
        sid->id = take_u64(&t, p->big_endian);
    if (type & PERFDATA_SAMPLE_STREAM_ID)
        reader_skip(&t, 8);
    if (type & PERFDATA_SAMPLE_CPU)
        take_pair(&t, p->big_endian, &sid->cpu, &reserved);
    if (type & PERFDATA_SAMPLE_IDENTIFIER)
        sid->id = take_u64(&t, p->big_endian);
    return t.code == SPGO_OK;
}

/* ------------------------------------------------------------------ samples */

/* The fields of fixed size at the start of a sample. */
static void take_fixed_fields(reader *r, bool big_endian, uint64_t type, perfdata_sample *s)
{
    uint32_t reserved;
    if (type & PERFDATA_SAMPLE_IDENTIFIER)
        s->sid.id = take_u64(r, big_endian);
    if (type & PERFDATA_SAMPLE_IP) {
        s->ip = take_u64(r, big_endian);
        s->has_ip = true;
    }
    if (type & PERFDATA_SAMPLE_TID)
        take_pair(r, big_endian, &s->sid.pid, &s->sid.tid);
    if (type & PERFDATA_SAMPLE_TIME) {
        s->sid.time_ns = take_u64(r, big_endian);
        s->sid.has_time = true;
    }
    if (type & PERFDATA_SAMPLE_ADDR)
        reader_skip(r, 8);
    if (type & PERFDATA_SAMPLE_ID)
        s->sid.id = take_u64(r, big_endian);
    if (type & PERFDATA_SAMPLE_STREAM_ID)
        reader_skip(r, 8);
    if (type & PERFDATA_SAMPLE_CPU)
        take_pair(r, big_endian, &s->sid.cpu, &reserved);
    if (type & PERFDATA_SAMPLE_PERIOD)
        s->period = take_u64(r, big_endian);
}

static void skip_read(reader *r, bool big_endian, uint64_t format)
{
    unsigned times = (unsigned)__builtin_popcountll(
        format & (READ_TOTAL_TIME_ENABLED | READ_TOTAL_TIME_RUNNING));
    unsigned value_words = 1 + (unsigned)__builtin_popcountll(format & (READ_ID | READ_LOST));
    size_t value_count = 1;
    if (format & READ_GROUP) {
        uint64_t count = take_u64(r, big_endian);
        reader_skip(r, 8 * times);
        value_count = reader_count(r, count, 8 * value_words);
    } else {
        reader_skip(r, 8 * times);
    }
    reader_skip(r, 8ull * value_words * value_count);
}

/* A count of at most `max`, so that no product of it with a size overflows. */
static uint64_t take_count(reader *r, bool big_endian, uint64_t max)
{
    uint64_t start = reader_offset(r);
    uint64_t count = take_u64(r, big_endian);
    if (count <= max)
        return count;
    reader_fail(r, SPGO_LIMIT, start);
    return 0;
}

static void take_callchain(reader *r, bool big_endian, perfdata_sample *s)
{
    uint64_t count = take_count(r, big_endian, LIMIT_STACK_FRAMES);
    s->callchain = reader_bytes(r, 8 * count);
    s->callchain_count = (size_t)count;
}

static void take_branches(reader *r, bool big_endian, const perfdata_event *e, perfdata_sample *s)
{
    uint64_t count = take_count(r, big_endian, LIMIT_BRANCHES);
    if (e->has_branch_index)
        reader_skip(r, 8);
    s->branches = reader_bytes(r, 24 * count);
    s->branch_count = (size_t)count;
    if (e->has_branch_counters)
        reader_skip(r, 8 * count);
}

static void skip_regs(reader *r, bool big_endian, uint32_t reg_count)
{
    if (take_u64(r, big_endian) != 0) /* the ABI; 0: no registers to be had */
        reader_skip(r, 8ull * reg_count);
}

/* Fields behind the branches, of no interest but for proof that the record has its length. */
static void skip_last_fields(reader *r, bool big_endian, const perfdata_event *e)
{
    const uint64_t word_fields_1 = PERFDATA_SAMPLE_WEIGHT | PERFDATA_SAMPLE_WEIGHT_STRUCT |
                                   PERFDATA_SAMPLE_DATA_SRC | PERFDATA_SAMPLE_TRANSACTION;
    const uint64_t word_fields_2 = PERFDATA_SAMPLE_PHYS_ADDR | PERFDATA_SAMPLE_CGROUP |
                                   PERFDATA_SAMPLE_DATA_PAGE_SIZE | PERFDATA_SAMPLE_CODE_PAGE_SIZE;
    uint64_t type = e->attr.sample_type;
    if (type & PERFDATA_SAMPLE_REGS_USER)
        skip_regs(r, big_endian, e->user_reg_count);
    if (type & PERFDATA_SAMPLE_STACK_USER) {
        uint64_t size = take_u64(r, big_endian);
        reader_skip(r, size);
        if (size > 0)
            reader_skip(r, 8); /* how much of it is filled */
    }
    reader_skip(r, 8ull * (unsigned)__builtin_popcountll(type & word_fields_1));
    if (type & PERFDATA_SAMPLE_REGS_INTR)
        skip_regs(r, big_endian, e->intr_reg_count);
    reader_skip(r, 8ull * (unsigned)__builtin_popcountll(type & word_fields_2));
    if (type & PERFDATA_SAMPLE_AUX)
        reader_skip(r, take_u64(r, big_endian));
}

#define LAST_FIELDS (~(uint64_t)((1 << 12) - 1) & ~(uint64_t)PERFDATA_SAMPLE_IDENTIFIER)

bool perfdata_decode_sample(const perfdata *p, const perfdata_record *record, perfdata_sample *out)
{
    if (record->type != PERFDATA_RECORD_SAMPLE)
        return false;
    *out = (perfdata_sample){.cpumode = cpumode_of(record)};
    out->attr_index =
        event_of(p, record->body, (size_t)p->sample_id_pos, p->sample_id_pos != PERFDATA_NO_ID_POS);
    const perfdata_event *e = layout_of(p, out->attr_index);
    if (!e)
        return false;

    const bool big_endian = p->big_endian;
    const uint64_t type = e->attr.sample_type;
    reader r = record_reader(record);
    take_fixed_fields(&r, big_endian, type, out);
    if (type & PERFDATA_SAMPLE_READ)
        skip_read(&r, big_endian, e->attr.read_format);
    if (type & PERFDATA_SAMPLE_CALLCHAIN)
        take_callchain(&r, big_endian, out);
    if (type & PERFDATA_SAMPLE_RAW)
        reader_skip(&r, take_u32(&r, big_endian));
    if (type & PERFDATA_SAMPLE_BRANCH_STACK)
        take_branches(&r, big_endian, e, out);
    if (type & LAST_FIELDS)
        skip_last_fields(&r, big_endian, e);
    return r.code == SPGO_OK;
}

/* ------------------------------------------------------------------ other records */

bool perfdata_decode_mmap(const perfdata *p, const perfdata_record *record, perfdata_mmap *out)
{
    const uint32_t prot_exec = 4;
    bool is_mmap2 = record->type == PERFDATA_RECORD_MMAP2;
    if (!is_mmap2 && record->type != PERFDATA_RECORD_MMAP)
        return false;
    *out = (perfdata_mmap){.prot = prot_exec};
    reader r = record_reader(record);
    if (!cut_trailer(p, &r, &out->sid))
        return false;
    take_pair(&r, p->big_endian, &out->pid, &out->tid);
    out->addr = take_u64(&r, p->big_endian);
    out->len = take_u64(&r, p->big_endian);
    out->pgoff = take_u64(&r, p->big_endian);
    if (is_mmap2) {
        /* Device, inode and generation, or size, 3 unused bytes and build-id. */
        spgo_span identity = reader_bytes(&r, 24);
        out->prot = take_u32(&r, p->big_endian);
        reader_skip(&r, 4); /* flags */
        if (identity.len > 0 && record->misc & PERFDATA_MISC_MMAP_BUILD_ID) {
            out->build_id_size = identity.ptr[0];
            if (out->build_id_size > MMAP_BUILD_ID_SIZE_MAX)
                return false;
            memcpy(out->build_id, identity.ptr + 4, out->build_id_size);
        }
    }
    out->path = reader_cstr(&r);
    perfdata_cpumode mode = cpumode_of(record);
    out->is_kernel = mode == PERFDATA_CPUMODE_KERNEL || mode == PERFDATA_CPUMODE_GUEST_KERNEL;
    out->is_data = record->misc & PERFDATA_MISC_MMAP_DATA;
    if (out->is_data && !is_mmap2)
        out->prot = 0;
    return r.code == SPGO_OK;
}

bool perfdata_decode_task(const perfdata *p, const perfdata_record *record, perfdata_task *out)
{
    if (record->type != PERFDATA_RECORD_FORK && record->type != PERFDATA_RECORD_EXIT)
        return false;
    reader r = record_reader(record);
    take_pair(&r, p->big_endian, &out->pid, &out->ppid);
    take_pair(&r, p->big_endian, &out->tid, &out->ptid);
    out->time_ns = take_u64(&r, p->big_endian);
    return r.code == SPGO_OK;
}

bool perfdata_decode_comm(const perfdata *p, const perfdata_record *record, perfdata_comm *out)
{
    if (record->type != PERFDATA_RECORD_COMM)
        return false;
    reader r = record_reader(record);
    if (!cut_trailer(p, &r, &out->sid))
        return false;
    take_pair(&r, p->big_endian, &out->pid, &out->tid);
    out->comm = reader_cstr(&r);
    out->is_exec = record->misc & PERFDATA_MISC_COMM_EXEC;
    return r.code == SPGO_OK;
}

bool perfdata_decode_lost(const perfdata *p, const perfdata_record *record, uint64_t *lost)
{
    reader r = record_reader(record);
    if (record->type == PERFDATA_RECORD_LOST)
        reader_skip(&r, 8); /* the event's id */
    else if (record->type != PERFDATA_RECORD_LOST_SAMPLES)
        return false;
    *lost = take_u64(&r, p->big_endian);
    return r.code == SPGO_OK;
}
