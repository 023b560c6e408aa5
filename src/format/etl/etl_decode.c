/*
 * Payloads of the events that matter to profiles. Each reads its fields in the order of
 * doc/formats/etl.md through a sticky reader and checks once at its end. A longer payload than the
 * version's is accepted: newer versions append.
 *
 * Pointer size is that of the record's header. Classic records may have been written by a program
 * of the other size about the system's events; when such a payload does not come out even, the
 * other size is tried and taken if it does.
 */
#include <string.h>

#include <format/etl/etl_internal.h>

enum { SID_MAX_AUTHORITIES = 15, TIME_ZONE_SIZE = 172 };

static reader payload_reader(const etl_record *r)
{
    return reader_from(r->payload, 0);
}

/* Is this all of the payload? */
static bool is_even(const reader *c)
{
    return c->code == SPGO_OK && c->pos == c->len;
}

/* A UTF-16LE text that an older sub-version may leave out. */
static spgo_span optional_utf16z(reader *c)
{
    return reader_left(c) >= 2 ? reader_utf16z(c) : (spgo_span){NULL, 0};
}

/* How to read a payload, and whether programs of either pointer size write it. */
typedef struct layout {
    bool (*read)(reader *c, const etl_record *r, unsigned ptr_size, void *out);
    size_t out_size;
    bool either_size;
} layout;

static bool run(const layout *l, const etl_record *r, unsigned ptr_size, void *out, reader *c)
{
    *c = payload_reader(r);
    memset(out, 0, l->out_size);
    return l->read(c, r, ptr_size, out);
}

static bool decode(const layout *l, const etl_record *r, void *out, size_t *used)
{
    reader c;
    bool ok = run(l, r, r->ptr_size, out, &c);
    if (l->either_size && !r->has_hook && !(ok && is_even(&c))) {
        if (run(l, r, 12u - r->ptr_size, out, &c) && is_even(&c))
            ok = true;
        else
            ok = run(l, r, r->ptr_size, out, &c);
    }
    if (used)
        *used = c.pos;
    return ok;
}

/* ------------------------------------------------------------------ the header event */

void etl_read_header(reader *c, unsigned ptr_size, etl_header *h)
{
    h->buffer_size = reader_u32(c);
    h->os_major = reader_u8(c);
    h->os_minor = reader_u8(c);
    h->layout_major = reader_u8(c);
    h->layout_minor = reader_u8(c);
    h->os_build = reader_u32(c);
    h->cpu_count = reader_u32(c);
    h->end_filetime = reader_u64(c);
    h->timer_resolution_100ns = reader_u32(c);
    h->maximum_file_size = reader_u32(c);
    h->log_file_mode = reader_u32(c);
    h->buffers_written = reader_u32(c);
    h->start_buffers = reader_u32(c);
    h->pointer_size = reader_u32(c);
    h->events_lost = reader_u32(c);
    h->cpu_mhz = reader_u32(c);
    reader_skip(c, 2 * ptr_size); /* stale pointers to the names */
    h->utc_bias_minutes = (int32_t)reader_u32(c);
    reader_skip(c, TIME_ZONE_SIZE - 4);
    reader_skip(c, (8 - c->pos % 8) % 8);
    h->boot_filetime = reader_u64(c);
    h->perf_freq = reader_u64(c);
    h->start_filetime = reader_u64(c);
    h->clock_type = reader_u32(c);
    h->buffers_lost = reader_u32(c);
}

static bool read_header(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    etl_header_event *e = out;
    etl_read_header(c, ptr_size, &e->header);
    e->session_name = reader_utf16z(c);
    e->log_file_name = reader_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout header_layout = {read_header, sizeof(etl_header_event), false};

bool etl_decode_header(const etl_record *r, etl_header_event *out)
{
    return decode(&header_layout, r, out, NULL);
}

/* ------------------------------------------------------------------ processes, threads */

/* Zeros of a TOKEN_USER's size with a SID behind them: revision 1, a count, an authority whose high
 * bytes are 0. A name cannot start so. */
static bool is_zeroed_token(reader c, unsigned ptr_size)
{
    static const uint8_t zeros[16];
    const uint8_t *p = reader_take(&c, 2 * ptr_size + 8);
    return p && !memcmp(p, zeros, 2 * ptr_size) && p[2 * ptr_size] == 1 &&
           p[2 * ptr_size + 1] <= SID_MAX_AUTHORITIES && !memcmp(p + 2 * ptr_size + 2, zeros, 5);
}

/* u32 0 (no SID), or a TOKEN_USER of two pointers with stale contents and then the SID. */
static spgo_span read_sid(reader *c, unsigned ptr_size)
{
    reader peek = *c;
    if (reader_u32(&peek) == 0 && !is_zeroed_token(*c, ptr_size)) {
        reader_skip(c, 4);
        return (spgo_span){NULL, 0};
    }
    reader_skip(c, 2 * ptr_size);
    peek = *c;
    reader_skip(&peek, 1);
    unsigned count = reader_u8(&peek);
    if (count > SID_MAX_AUTHORITIES)
        reader_fail(c, SPGO_CORRUPT, reader_offset(c) + 1);
    return reader_bytes(c, 8 + 4 * count);
}

static bool read_process(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    etl_process *p = out;
    unsigned version = r->version;
    if (version == 0) {
        p->pid = (uint32_t)reader_ptr(c, ptr_size);
        p->parent_pid = (uint32_t)reader_ptr(c, ptr_size);
    } else {
        uint64_t key = reader_ptr(c, ptr_size);
        p->unique_key = version >= 2 ? key : 0; /* version 1: the page directory */
        p->pid = reader_u32(c);
        p->parent_pid = reader_u32(c);
        p->session_id = reader_u32(c);
        p->exit_status = (int32_t)reader_u32(c);
    }
    if (version >= 3)
        reader_skip(c, ptr_size); /* directory table base */
    if (version >= 4)
        p->flags = reader_u32(c);
    p->sid = read_sid(c, ptr_size);
    p->image_name = reader_cstr(c);
    if (version >= 2)
        p->command_line = reader_utf16z(c);
    if (version >= 4) {
        p->package = reader_utf16z(c);
        p->app = reader_utf16z(c);
    }
    if (version >= 5 && reader_left(c) >= 8) {
        p->exit_filetime = reader_u64(c);
        p->has_exit_time = true;
    }
    return c->code == SPGO_OK;
}

static const layout process_layout = {read_process, sizeof(etl_process), true};

bool etl_decode_process(const etl_record *r, etl_process *out)
{
    return decode(&process_layout, r, out, NULL);
}

static bool read_thread(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    etl_thread *t = out;
    unsigned version = r->version;
    if (version == 0) {
        t->tid = reader_u32(c);
        t->pid = reader_u32(c);
        return c->code == SPGO_OK;
    }
    t->pid = reader_u32(c);
    t->tid = reader_u32(c);
    if (version == 1 && reader_left(c) < 6 * ptr_size)
        return c->code == SPGO_OK; /* an end event of version 1 has no more */
    reader_skip(c, 4 * ptr_size);  /* kernel and user stack: base and limit */
    t->start_addr = reader_ptr(c, ptr_size);
    t->win32_start_addr = reader_ptr(c, ptr_size);
    if (version == 1)
        reader_skip(c, reader_left(c) ? 1 : 0); /* wait mode */
    else
        reader_skip(c, ptr_size + 4); /* TEB, service tag */
    if (version >= 3) {
        reader_skip(c, 4); /* base, page and I/O priority, flags */
        t->name = optional_utf16z(c);
    }
    return c->code == SPGO_OK;
}

static const layout thread_layout = {read_thread, sizeof(etl_thread), true};

static bool read_thread_name(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    (void)ptr_size;
    etl_thread *t = out;
    t->pid = reader_u32(c);
    t->tid = reader_u32(c);
    t->name = reader_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout thread_name_layout = {read_thread_name, sizeof(etl_thread), false};

bool etl_decode_thread(const etl_record *r, etl_thread *out)
{
    bool is_name = etl_record_family(r) == ETL_FAMILY_THREAD_NAME;
    return decode(is_name ? &thread_name_layout : &thread_layout, r, out, NULL);
}

static bool read_cswitch(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    (void)ptr_size;
    etl_cswitch *s = out;
    s->new_tid = reader_u32(c);
    s->old_tid = reader_u32(c);
    s->new_priority = (int8_t)reader_u8(c);
    s->old_priority = (int8_t)reader_u8(c);
    reader_skip(c, 2); /* previous C-state, spare */
    s->old_wait_reason = reader_u8(c);
    s->old_wait_mode = reader_u8(c);
    s->old_state = reader_u8(c);
    reader_skip(c, 1); /* ideal processor of the old thread */
    s->new_wait_time = reader_u32(c);
    if (reader_left(c) >= 4)
        reader_skip(c, 4); /* reserved */
    return c->code == SPGO_OK;
}

static const layout cswitch_layout = {read_cswitch, sizeof(etl_cswitch), false};

bool etl_decode_cswitch(const etl_record *r, etl_cswitch *out)
{
    return decode(&cswitch_layout, r, out, NULL);
}

/* ------------------------------------------------------------------ images */

static bool read_image(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    etl_image *i = out;
    i->base = reader_ptr(c, ptr_size);
    i->size = reader_ptr(c, ptr_size);
    i->pid = r->version >= 1 ? reader_u32(c) : r->pid;
    if (r->version >= 2) {
        i->checksum = reader_u32(c);
        i->time_date_stamp = reader_u32(c);
        reader_skip(c, 4); /* signature level and type, reserved */
        i->default_base = reader_ptr(c, ptr_size);
        reader_skip(c, 16); /* reserved */
    }
    i->file_name = reader_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout image_layout = {read_image, sizeof(etl_image), true};

bool etl_decode_image(const etl_record *r, etl_image *out)
{
    return decode(&image_layout, r, out, NULL);
}

/* The fields are packed: nothing aligns the GUID or what follows the process id. */
static bool read_image_id(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    etl_image_id *i = out;
    etl_event event = etl_record_event(r);
    i->base = reader_ptr(c, ptr_size);
    if (event == ETL_EV_IMAGE_ID) {
        i->size = reader_ptr(c, ptr_size);
        i->pid = reader_u32(c);
        i->time_date_stamp = reader_u32(c);
        i->original_name = reader_utf16z(c);
        return c->code == SPGO_OK;
    }
    i->pid = reader_u32(c);
    if (event == ETL_EV_IMAGE_RSDS || event == ETL_EV_IMAGE_ILRSDS) {
        i->id.guid = reader_guid(c);
        i->id.age = reader_u32(c);
        i->pdb = reader_cstr(c);
    }
    return c->code == SPGO_OK;
}

static const layout image_id_layout = {read_image_id, sizeof(etl_image_id), true};

bool etl_decode_image_id(const etl_record *r, etl_image_id *out)
{
    return decode(&image_id_layout, r, out, NULL);
}

static bool read_file_version(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    (void)ptr_size;
    etl_file_version *v = out;
    v->image_size = reader_u32(c);
    v->time_date_stamp = reader_u32(c);
    for (int i = 0; i < ETL_FILE_VERSION_TEXTS; i++)
        v->text[i] = reader_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout file_version_layout = {read_file_version, sizeof(etl_file_version), false};

bool etl_decode_file_version(const etl_record *r, etl_file_version *out)
{
    return decode(&file_version_layout, r, out, NULL);
}

static bool read_build_info(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    (void)ptr_size;
    etl_build_info *b = out;
    b->install_filetime = reader_u64(c);
    b->build_lab = reader_utf16z(c);
    b->product_name = reader_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout build_info_layout = {read_build_info, sizeof(etl_build_info), false};

bool etl_decode_build_info(const etl_record *r, etl_build_info *out)
{
    return decode(&build_info_layout, r, out, NULL);
}

static bool read_volume(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    (void)ptr_size;
    etl_volume *v = out;
    v->nt_path = reader_utf16z(c);
    v->dos_path = reader_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout volume_layout = {read_volume, sizeof(etl_volume), false};

bool etl_decode_volume(const etl_record *r, etl_volume *out)
{
    return decode(&volume_layout, r, out, NULL);
}

/* ------------------------------------------------------------------ samples */

static bool read_sample(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    etl_sample *s = out;
    s->ip = reader_ptr(c, ptr_size);
    s->tid = reader_u32(c);
    if (etl_record_event(r) == ETL_EV_PMC_INTERRUPT) {
        s->count = 1;
        s->source = reader_u16(c);
        reader_skip(c, 2);
    } else {
        s->count = reader_u16(c);
        s->flags = reader_u8(c);
        s->rank = reader_u8(c);
    }
    return c->code == SPGO_OK;
}

static const layout sample_layout = {read_sample, sizeof(etl_sample), false};

bool etl_decode_sample(const etl_record *r, etl_sample *out)
{
    return decode(&sample_layout, r, out, NULL);
}

/* u32 count, then samples; whether 64-bit systems align them to 8 bytes is known from the size. */
static size_t cache_layout(const etl_record *r, size_t *start)
{
    reader c = payload_reader(r);
    size_t entry_size = r->ptr_size + 8u;
    size_t count = reader_count(&c, reader_u32(&c), entry_size);
    size_t left = reader_left(&c);
    *start = r->ptr_size == 8 && left >= 4 && (left - 4) % entry_size == 0 &&
                     (left - 4) / entry_size >= count
                 ? 8
                 : 4;
    return count;
}

size_t etl_sample_cache_count(const etl_record *r)
{
    size_t start;
    return cache_layout(r, &start);
}

bool etl_decode_cached_sample(const etl_record *r, size_t i, etl_sample *out)
{
    size_t start;
    size_t count = cache_layout(r, &start);
    *out = (etl_sample){0};
    if (i >= count)
        return false;
    reader c = payload_reader(r);
    reader_skip(&c, start + i * (r->ptr_size + 8u));
    return read_sample(&c, r, r->ptr_size, out);
}

static bool read_interval(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)ptr_size;
    etl_interval *i = out;
    i->source = reader_u32(c);
    i->new_interval = reader_u32(c);
    i->old_interval = reader_u32(c);
    if (r->version >= 3)
        i->name = optional_utf16z(c);
    return c->code == SPGO_OK;
}

static const layout interval_layout = {read_interval, sizeof(etl_interval), false};

bool etl_decode_interval(const etl_record *r, etl_interval *out)
{
    return decode(&interval_layout, r, out, NULL);
}

/*
 * 64-bit: a head of 24 bytes, the last four unused, and entries of 24. 32-bit: entries of 12 behind
 * a head of 24 or 20, whichever leaves a whole number of them.
 */
static bool read_lbr(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    (void)r;
    enum { HEAD_SIZE = 20, HEAD_PADDING = 4, ENTRY64_SIZE = 24, ENTRY32_SIZE = 12 };
    etl_lbr *l = out;
    l->time = reader_u64(c);
    l->pid = reader_u32(c);
    l->tid = reader_u32(c);
    l->options = reader_u32(c);
    if (c->code)
        return false;
    size_t left = c->len - HEAD_SIZE;
    bool is_padded = left >= HEAD_PADDING && (left - HEAD_PADDING) % ENTRY32_SIZE == 0;
    if (is_padded)
        reader_skip(c, HEAD_PADDING);
    left = reader_left(c);
    bool is_whole =
        ptr_size == 8 ? is_padded && left % ENTRY64_SIZE == 0 : left % ENTRY32_SIZE == 0;
    if (!is_whole)
        return false;
    l->branches = reader_bytes(c, left);
    l->branch_count = ptr_size == 8 ? left / ENTRY64_SIZE : left / ENTRY32_SIZE;
    return true;
}

static const layout lbr_layout = {read_lbr, sizeof(etl_lbr), false};

bool etl_decode_lbr(const etl_record *r, etl_lbr *out)
{
    return decode(&lbr_layout, r, out, NULL);
}

static bool read_stack(reader *c, const etl_record *r, unsigned ptr_size, void *out)
{
    etl_stack *s = out;
    etl_event event = etl_record_event(r);
    bool is_use = event == ETL_EV_STACK_KEY_KERNEL || event == ETL_EV_STACK_KEY_USER;
    if (event == ETL_EV_STACK || is_use) {
        s->time = reader_u64(c);
        s->pid = reader_u32(c);
        s->tid = reader_u32(c);
    }
    if (event != ETL_EV_STACK)
        s->key = reader_ptr(c, ptr_size);
    if (c->code)
        return false;
    if (is_use)
        return true;
    size_t left = reader_left(c);
    if (left % ptr_size != 0)
        return false;
    s->frames = reader_bytes(c, left);
    s->frame_count = left / ptr_size;
    return true;
}

static const layout stack_layout = {read_stack, sizeof(etl_stack), false};

bool etl_decode_stack(const etl_record *r, etl_stack *out)
{
    return decode(&stack_layout, r, out, NULL);
}

/* ------------------------------------------------------------------ how much of it */

typedef union any_event {
    etl_header_event header;
    etl_process process;
    etl_thread thread;
    etl_cswitch cswitch;
    etl_image image;
    etl_image_id image_id;
    etl_file_version file_version;
    etl_build_info build_info;
    etl_volume volume;
    etl_sample sample;
    etl_interval interval;
    etl_lbr lbr;
    etl_stack stack;
} any_event;

/* Lists that fill their payload, whatever its length, are not among them. */
static const layout *const layouts[ETL_FAMILY_COUNT] = {
    [ETL_FAMILY_HEADER] = &header_layout,
    [ETL_FAMILY_PROCESS] = &process_layout,
    [ETL_FAMILY_THREAD] = &thread_layout,
    [ETL_FAMILY_THREAD_NAME] = &thread_name_layout,
    [ETL_FAMILY_CSWITCH] = &cswitch_layout,
    [ETL_FAMILY_IMAGE] = &image_layout,
    [ETL_FAMILY_IMAGE_ID] = &image_id_layout,
    [ETL_FAMILY_FILE_VERSION] = &file_version_layout,
    [ETL_FAMILY_BUILD_INFO] = &build_info_layout,
    [ETL_FAMILY_VOLUME] = &volume_layout,
    [ETL_FAMILY_SAMPLE] = &sample_layout,
    [ETL_FAMILY_INTERVAL] = &interval_layout,
    [ETL_FAMILY_LBR] = &lbr_layout,
    [ETL_FAMILY_STACK] = &stack_layout,
};

bool etl_payload_used(const etl_record *r, size_t *used)
{
    any_event any;
    const layout *l = layouts[etl_record_family(r)];
    return l && decode(l, r, &any, used);
}
