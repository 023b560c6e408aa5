/* Text and JSON of headers, buffers and records. The order of the fields is that of the layouts in
 * doc/formats/etl.md; text and JSON carry the same fields. */
#include <stdio.h>
#include <string.h>

#include <base/fields.h>
#include <base/guid.h>
#include <format/etl/etl_dump.h>
#include <format/etl/etl_internal.h>

/* ------------------------------------------------------------------ header and buffers */

/* What the payload of a header event says, but for the names. */
static void put_header(const fields *f, const etl_header *h)
{
    field_u64(f, "buffer_size", h->buffer_size);
    field_u64(f, "os_major", h->os_major);
    field_u64(f, "os_minor", h->os_minor);
    field_u64(f, "os_build", h->os_build);
    field_u64(f, "layout_major", h->layout_major);
    field_u64(f, "layout_minor", h->layout_minor);
    field_u64(f, "cpu_count", h->cpu_count);
    field_u64(f, "cpu_mhz", h->cpu_mhz);
    field_u64(f, "pointer_size", h->pointer_size);
    field_u64(f, "timer_resolution_100ns", h->timer_resolution_100ns);
    field_u64(f, "maximum_file_size", h->maximum_file_size);
    field_hex(f, "log_file_mode", h->log_file_mode);
    field_u64(f, "buffers_written", h->buffers_written);
    field_u64(f, "start_buffers", h->start_buffers);
    field_u64(f, "events_lost", h->events_lost);
    field_u64(f, "buffers_lost", h->buffers_lost);
    field_i64(f, "utc_bias_minutes", h->utc_bias_minutes);
    field_u64(f, "clock_type", h->clock_type);
    field_u64(f, "perf_freq", h->perf_freq);
    field_filetime(f, "boot_time", h->boot_filetime);
    field_filetime(f, "start_time", h->start_filetime);
    if (h->end_filetime)
        field_filetime(f, "end_time", h->end_filetime);
}

void etl_dump_header(out *o, json *j, const etl_file *file)
{
    const etl_header *h = etl_get_header(file);
    fields f = fields_lines(o, j);
    put_header(&f, h);
    field_str(&f, "session_name", h->session_name);
    field_str(&f, "log_file_name", h->log_file_name);
    field_u64(&f, "first_time", h->first_time);
    field_u64(&f, "buffer_count", etl_buffer_count(file));
}

void etl_dump_buffer(out *o, json *j, const etl_file *file, size_t index)
{
    const etl_buffer *b = etl_get_buffer(file, index);
    fields f = fields_pairs(o, j);
    if (!j) {
        out_text(o, "buffer ");
        out_u64(o, index);
    } else {
        field_u64(&f, "buffer", index);
    }
    field_hex(&f, "offset", b->offset);
    field_u64(&f, "size", b->size_bytes);
    field_u64(&f, "data_end", b->data_end);
    field_u64(&f, "cpu", b->cpu);
    field_u64(&f, "sequence", b->sequence);
    field_u64(&f, "time", b->time);
    field_u64(&f, "logger", b->logger_id);
    field_u64(&f, "type", b->type);
    field_hex(&f, "flags", b->flags);
    field_u64(&f, "compressed", (b->flags & ETL_FLAG_COMPRESSED) != 0);
    field_u64(&f, "events_lost", (b->flags & ETL_FLAG_EVENTS_LOST) != 0);
    field_u64(&f, "buffers_lost", (b->flags & ETL_FLAG_BUFFER_LOST) != 0);
    field_u64(&f, "cut", b->is_cut);
    if (!j)
        out_text(o, "\n");
}

void etl_kind_name(char text[ETL_KIND_NAME_SIZE], const etl_record *r)
{
    const char *name = etl_known_name(r);
    if (name) {
        memcpy(text, name, strlen(name) + 1);
        return;
    }
    if (r->has_hook) {
        snprintf(text, ETL_KIND_NAME_SIZE, "0x%04X", (unsigned)r->hook);
        return;
    }
    if (!etl_record_type_name(r->type)) {
        snprintf(text, ETL_KIND_NAME_SIZE, "type%u", (unsigned)r->type);
        return;
    }
    enum { GUID_LEN = 36 };
    guid_text_lower(text, &r->guid);
    if (r->type == ETL_EVENT32 || r->type == ETL_EVENT64)
        snprintf(text + GUID_LEN, ETL_KIND_NAME_SIZE - GUID_LEN, "/%u/%u", (unsigned)r->opcode,
                 (unsigned)r->id);
    else
        snprintf(text + GUID_LEN, ETL_KIND_NAME_SIZE - GUID_LEN, "/%u", (unsigned)r->opcode);
}

/* ------------------------------------------------------------------ payloads */

static bool dump_header(const fields *f, const etl_record *r)
{
    etl_header_event e;
    if (!etl_decode_header(r, &e))
        return false;
    put_header(f, &e.header);
    field_utf16(f, "session_name", e.session_name);
    field_utf16(f, "log_file_name", e.log_file_name);
    return true;
}

static bool dump_process(const fields *f, const etl_record *r)
{
    etl_process p;
    if (!etl_decode_process(r, &p))
        return false;
    field_u64(f, "pid", p.pid);
    field_u64(f, "parent_pid", p.parent_pid);
    field_i64(f, "session_id", (int32_t)p.session_id);
    field_i64(f, "exit_status", p.exit_status);
    field_hex(f, "flags", p.flags);
    field_hex(f, "unique_key", p.unique_key);
    field_bytes(f, "sid", p.sid);
    field_str(f, "image_name", p.image_name);
    field_utf16(f, "command_line", p.command_line);
    field_utf16(f, "package", p.package);
    field_utf16(f, "app", p.app);
    if (p.has_exit_time)
        field_filetime(f, "exit_time", p.exit_filetime);
    return true;
}

static bool dump_thread(const fields *f, const etl_record *r)
{
    etl_thread t;
    if (!etl_decode_thread(r, &t))
        return false;
    field_u64(f, "pid", t.pid);
    field_u64(f, "tid", t.tid);
    field_hex(f, "start_addr", t.start_addr);
    field_hex(f, "win32_start_addr", t.win32_start_addr);
    field_utf16(f, "name", t.name);
    return true;
}

static bool dump_cswitch(const fields *f, const etl_record *r)
{
    etl_cswitch c;
    if (!etl_decode_cswitch(r, &c))
        return false;
    field_u64(f, "new_tid", c.new_tid);
    field_u64(f, "old_tid", c.old_tid);
    field_i64(f, "new_priority", c.new_priority);
    field_i64(f, "old_priority", c.old_priority);
    field_u64(f, "old_wait_reason", c.old_wait_reason);
    field_u64(f, "old_wait_mode", c.old_wait_mode);
    field_u64(f, "old_state", c.old_state);
    field_u64(f, "new_wait_time", c.new_wait_time);
    return true;
}

static bool dump_image(const fields *f, const etl_record *r)
{
    etl_image i;
    if (!etl_decode_image(r, &i))
        return false;
    field_hex(f, "base", i.base);
    field_hex(f, "size", i.size);
    field_u64(f, "pid", i.pid);
    field_hex(f, "checksum", i.checksum);
    field_hex(f, "time_date_stamp", i.time_date_stamp);
    field_hex(f, "default_base", i.default_base);
    field_utf16(f, "file_name", i.file_name);
    return true;
}

static bool dump_image_id(const fields *f, const etl_record *r)
{
    etl_image_id i;
    etl_event event = etl_record_event(r);
    if (!etl_decode_image_id(r, &i))
        return false;
    field_hex(f, "base", i.base);
    if (event == ETL_EV_IMAGE_ID)
        field_hex(f, "size", i.size);
    field_u64(f, "pid", i.pid);
    if (event == ETL_EV_IMAGE_ID) {
        field_hex(f, "time_date_stamp", i.time_date_stamp);
        field_utf16(f, "original_name", i.original_name);
    } else if (event != ETL_EV_IMAGE_NO_DEBUG) {
        field_guid(f, "guid", &i.id.guid);
        field_u64(f, "age", i.id.age);
        field_str(f, "pdb", i.pdb);
    }
    return true;
}

static bool dump_file_version(const fields *f, const etl_record *r)
{
    static const char *const names[ETL_FILE_VERSION_TEXTS] = {
        "original_name", "description", "file_version",    "binary_version", "language",
        "product",       "company",     "product_version", "file_id",        "program_id",
    };
    etl_file_version v;
    if (!etl_decode_file_version(r, &v))
        return false;
    field_hex(f, "size", v.image_size);
    field_hex(f, "time_date_stamp", v.time_date_stamp);
    for (int i = 0; i < ETL_FILE_VERSION_TEXTS; i++)
        field_utf16(f, names[i], v.text[i]);
    return true;
}

static bool dump_build_info(const fields *f, const etl_record *r)
{
    etl_build_info b;
    if (!etl_decode_build_info(r, &b))
        return false;
    field_filetime(f, "install_time", b.install_filetime);
    field_utf16(f, "build_lab", b.build_lab);
    field_utf16(f, "product_name", b.product_name);
    return true;
}

static bool dump_volume(const fields *f, const etl_record *r)
{
    etl_volume v;
    bool is_paths = etl_record_event(r) == ETL_EV_SYSTEM_PATHS;
    if (!etl_decode_volume(r, &v))
        return false;
    field_utf16(f, is_paths ? "system_directory" : "nt_path", v.nt_path);
    field_utf16(f, is_paths ? "windows_directory" : "dos_path", v.dos_path);
    return true;
}

static void put_sample(const fields *f, const etl_sample *s, bool is_pmc)
{
    field_hex(f, "ip", s->ip);
    field_u64(f, "tid", s->tid);
    if (is_pmc) {
        field_u64(f, "source", s->source);
        return;
    }
    field_u64(f, "count", s->count);
    field_u64(f, "dpc", s->flags & 1);
    field_u64(f, "isr", s->flags >> 1 & 1);
    field_u64(f, "priority", s->flags >> 3);
    field_u64(f, "rank", s->rank);
}

static bool dump_sample(const fields *f, const etl_record *r)
{
    etl_sample s;
    if (!etl_decode_sample(r, &s))
        return false;
    put_sample(f, &s, etl_record_event(r) == ETL_EV_PMC_INTERRUPT);
    return true;
}

static bool dump_cache(const fields *f, const etl_record *r)
{
    size_t count = etl_sample_cache_count(r);
    if (count == 0)
        return false;
    field_open_list(f, "samples");
    for (size_t i = 0; i < count; i++) {
        etl_sample s;
        if (!etl_decode_cached_sample(r, i, &s))
            break;
        if (f->j) {
            json_open_object(f->j);
            put_sample(f, &s, false);
            json_close_object(f->j);
        } else {
            field_next_item(f, i == 0);
            value_hex(f, s.ip);
            out_bytes(f->o, "/", 1);
            out_u64(f->o, s.tid);
            out_bytes(f->o, "/", 1);
            out_u64(f->o, s.count);
        }
    }
    field_close_list(f);
    return true;
}

static bool dump_interval(const fields *f, const etl_record *r)
{
    etl_interval i;
    if (!etl_decode_interval(r, &i))
        return false;
    field_u64(f, "source", i.source);
    field_u64(f, "new_interval", i.new_interval);
    field_u64(f, "old_interval", i.old_interval);
    field_utf16(f, "name", i.name);
    return true;
}

static void put_branch(const fields *f, reader *c, unsigned ptr_size, bool is_first)
{
    uint64_t from = reader_ptr(c, ptr_size);
    uint64_t to = reader_ptr(c, ptr_size);
    uint64_t info = reader_ptr(c, ptr_size);
    if (f->j) {
        json_open_object(f->j);
        field_hex(f, "from", from);
        field_hex(f, "to", to);
        field_hex(f, "info", info);
        json_close_object(f->j);
        return;
    }
    field_next_item(f, is_first);
    value_hex(f, from);
    out_text(f->o, "->");
    value_hex(f, to);
    out_text(f->o, "/");
    value_hex(f, info);
}

static bool dump_lbr(const fields *f, const etl_record *r)
{
    etl_lbr l;
    if (!etl_decode_lbr(r, &l))
        return false;
    field_u64(f, "time", l.time);
    field_u64(f, "pid", l.pid);
    field_u64(f, "tid", l.tid);
    field_hex(f, "options", l.options);
    field_u64(f, "count", l.branch_count);
    reader c = reader_from(l.branches, 0);
    field_open_list(f, "branches");
    for (size_t i = 0; i < l.branch_count; i++)
        put_branch(f, &c, r->ptr_size, i == 0);
    field_close_list(f);
    return true;
}

static bool dump_stack(const fields *f, const etl_record *r)
{
    etl_stack s;
    etl_event event = etl_record_event(r);
    bool is_use = event == ETL_EV_STACK_KEY_KERNEL || event == ETL_EV_STACK_KEY_USER;
    if (!etl_decode_stack(r, &s))
        return false;
    if (event == ETL_EV_STACK || is_use) {
        field_u64(f, "time", s.time);
        field_u64(f, "pid", s.pid);
        field_u64(f, "tid", s.tid);
    }
    if (event != ETL_EV_STACK)
        field_hex(f, "key", s.key);
    if (is_use)
        return true;
    reader c = reader_from(s.frames, 0);
    field_open_list(f, "frames");
    for (size_t i = 0; i < s.frame_count; i++) {
        field_next_item(f, i == 0);
        value_hex(f, reader_ptr(&c, r->ptr_size));
    }
    field_close_list(f);
    return true;
}

static bool dump_pmc_names(const fields *f, const etl_record *r)
{
    reader c = reader_from(r->payload, 0);
    size_t count = reader_count(&c, reader_u32(&c), 2);
    reader check = c;
    for (size_t i = 0; i < count && !check.code; i++)
        (void)reader_utf16z(&check);
    if (c.code || check.code)
        return false;
    field_open_list(f, "names");
    for (size_t i = 0; i < count; i++) {
        field_next_item(f, i == 0);
        value_utf16(f, reader_utf16z(&c));
    }
    field_close_list(f);
    return true;
}

static bool dump_extension(const fields *f, const etl_record *r)
{
    enum { MASK_WORDS = 8 };
    reader c = reader_from(r->payload, 0);
    if (r->payload.len < 4 * (MASK_WORDS + 1))
        return false;
    field_open_list(f, "group_masks");
    for (int i = 0; i < MASK_WORDS; i++) {
        field_next_item(f, i == 0);
        value_hex(f, reader_u32(&c));
    }
    field_close_list(f);
    field_u64(f, "kernel_event_version", reader_u32(&c));
    return true;
}

static bool dump_syscall(const fields *f, const etl_record *r)
{
    reader c = reader_from(r->payload, 0);
    bool is_enter = etl_record_event(r) == ETL_EV_SYSCALL_ENTER;
    uint64_t value = is_enter ? reader_ptr(&c, r->ptr_size) : reader_u32(&c);
    if (c.code)
        return false;
    field_hex(f, is_enter ? "address" : "status", value);
    return true;
}

static bool dump_mark(const fields *f, const etl_record *r)
{
    size_t len = 0;
    while (len < r->payload.len && r->payload.ptr[len])
        len++;
    field_str(f, "text", (spgo_str){(const char *)r->payload.ptr, len});
    return true;
}

typedef bool dumper(const fields *f, const etl_record *r);

static dumper *const dumpers[ETL_FAMILY_COUNT] = {
    [ETL_FAMILY_HEADER] = dump_header,
    [ETL_FAMILY_EXTENSION] = dump_extension,
    [ETL_FAMILY_PROCESS] = dump_process,
    [ETL_FAMILY_THREAD] = dump_thread,
    [ETL_FAMILY_THREAD_NAME] = dump_thread,
    [ETL_FAMILY_CSWITCH] = dump_cswitch,
    [ETL_FAMILY_IMAGE] = dump_image,
    [ETL_FAMILY_IMAGE_ID] = dump_image_id,
    [ETL_FAMILY_FILE_VERSION] = dump_file_version,
    [ETL_FAMILY_BUILD_INFO] = dump_build_info,
    [ETL_FAMILY_VOLUME] = dump_volume,
    [ETL_FAMILY_SAMPLE] = dump_sample,
    [ETL_FAMILY_SAMPLE_CACHE] = dump_cache,
    [ETL_FAMILY_PMC_NAMES] = dump_pmc_names,
    [ETL_FAMILY_INTERVAL] = dump_interval,
    [ETL_FAMILY_SYSCALL] = dump_syscall,
    [ETL_FAMILY_MARK] = dump_mark,
    [ETL_FAMILY_LBR] = dump_lbr,
    [ETL_FAMILY_STACK] = dump_stack,
};

void etl_dump_record_fields(out *o, json *j, const etl_record *r)
{
    fields f = fields_pairs(o, j);
    dumper *d = dumpers[etl_record_family(r)];
    if (r->pmc_count) {
        reader c = reader_from(r->pmc_values, 0);
        field_open_list(&f, "counters");
        for (unsigned i = 0; i < r->pmc_count; i++) {
            field_next_item(&f, i == 0);
            value_hex(&f, reader_u64(&c));
        }
        field_close_list(&f);
    }
    if (!d || !d(&f, r)) {
        field_bytes(&f, "payload", r->payload);
        return;
    }
    size_t used;
    if (etl_payload_used(r, &used) && used < r->payload.len)
        field_bytes(&f, "rest", (spgo_span){r->payload.ptr + used, r->payload.len - used});
}
