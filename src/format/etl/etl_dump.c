/* Text and JSON of headers, buffers and records. The order of the fields is that of the layouts in
 * doc/formats/etl.md; text and JSON carry the same fields. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>
#include <format/etl/etl_dump.h>
#include <format/etl/etl_internal.h>

/* ------------------------------------------------------------------ one field */

typedef struct form {
    out *o;
    json *j;          /* NULL: text */
    const char *lead; /* text: before and after the name, and behind the value */
    const char *sep;
    const char *tail;
} form;

static void begin(const form *f, const char *name)
{
    if (f->j) {
        json_key(f->j, name);
        return;
    }
    out_text(f->o, f->lead);
    out_text(f->o, name);
    out_text(f->o, f->sep);
}

static void end(const form *f)
{
    if (!f->j)
        out_text(f->o, f->tail);
}

static void put_u64(const form *f, const char *name, uint64_t v)
{
    begin(f, name);
    if (f->j)
        json_u64(f->j, v);
    else
        out_u64(f->o, v);
    end(f);
}

static void put_i64(const form *f, const char *name, int64_t v)
{
    begin(f, name);
    if (f->j)
        json_i64(f->j, v);
    else
        out_printf(f->o, "%" PRId64, v);
    end(f);
}

/* The value alone, as an element of a list. */
static void hex_value(const form *f, uint64_t v)
{
    if (f->j) {
        json_hex(f->j, v);
        return;
    }
    out_text(f->o, "0x");
    out_hex(f->o, v);
}

static void put_hex(const form *f, const char *name, uint64_t v)
{
    begin(f, name);
    hex_value(f, v);
    end(f);
}

static void text_value(const form *f, spgo_str s)
{
    if (f->j) {
        json_str(f->j, s);
        return;
    }
    out_text(f->o, "\"");
    out_name(f->o, s);
    out_text(f->o, "\"");
}

static void put_text(const form *f, const char *name, spgo_str s)
{
    begin(f, name);
    text_value(f, s);
    end(f);
}

static void utf16_value(const form *f, spgo_span s)
{
    enum { SMALL_SIZE = 1024, UTF8_PER_UNIT = 3 };
    char small[SMALL_SIZE];
    if (s.len / 2 * UTF8_PER_UNIT < sizeof small) {
        size_t len = text_from_utf16_into(small, sizeof small, s);
        text_value(f, (spgo_str){small, len});
        return;
    }
    arena *a = arena_new(0);
    text_value(f, a ? text_from_utf16(a, s) : text_str(""));
    arena_free(a);
}

static void put_utf16(const form *f, const char *name, spgo_span s)
{
    begin(f, name);
    utf16_value(f, s);
    end(f);
}

static void put_bytes(const form *f, const char *name, spgo_span s)
{
    begin(f, name);
    if (f->j) {
        json_bytes(f->j, s);
    } else {
        for (size_t i = 0; i < s.len; i++)
            out_hex_fixed(f->o, s.ptr[i], 2);
    }
    end(f);
}

static void put_guid(const form *f, const char *name, const spgo_guid *g)
{
    char text[GUID_TEXT_SIZE];
    guid_text_lower(text, g);
    begin(f, name);
    if (f->j)
        json_text(f->j, text);
    else
        out_text(f->o, text);
    end(f);
}

static void open_list(const form *f, const char *name)
{
    begin(f, name);
    if (f->j)
        json_open_array(f->j);
}

static void next_item(const form *f, bool is_first)
{
    if (!f->j && !is_first)
        out_text(f->o, ",");
}

static void close_list(const form *f)
{
    if (f->j)
        json_close_array(f->j);
    end(f);
}

/* ------------------------------------------------------------------ time */

/* A FILETIME as "2024-02-29T12:34:56.1234567Z"; years count from 1601 in eras of 400. */
static void put_filetime(const form *f, const char *name, uint64_t filetime)
{
    enum { UNITS_PER_S = 10000000, DAYS_PER_ERA = 146097, DAYS_TO_MARCH = 306 };
    uint64_t seconds = filetime / UNITS_PER_S;
    uint64_t days = seconds / 86400 + DAYS_TO_MARCH; /* since 1600-03-01, leap days last */
    unsigned in_day = (unsigned)(seconds % 86400);
    uint64_t era = days / DAYS_PER_ERA;
    unsigned doe = (unsigned)(days % DAYS_PER_ERA);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    unsigned month = mp < 10 ? mp + 3 : mp - 9;
    uint64_t year = 1600 + era * 400 + yoe + (month <= 2);
    char text[48];
    snprintf(text, sizeof text, "%04" PRIu64 "-%02u-%02uT%02u:%02u:%02u.%07uZ", year, month,
             doy - (153 * mp + 2) / 5 + 1, in_day / 3600, in_day / 60 % 60, in_day % 60,
             (unsigned)(filetime % UNITS_PER_S));
    begin(f, name);
    if (f->j)
        json_text(f->j, text);
    else
        out_text(f->o, text);
    end(f);
}

/* ------------------------------------------------------------------ header and buffers */

static form line_form(out *o, json *j)
{
    return (form){o, j, "", ": ", "\n"};
}

static form pair_form(out *o, json *j)
{
    return (form){o, j, " ", "=", ""};
}

void etl_dump_header(out *o, json *j, const etl_file *file)
{
    const etl_header *h = etl_get_header(file);
    form f = line_form(o, j);
    put_u64(&f, "buffer_size", h->buffer_size);
    put_u64(&f, "os_major", h->os_major);
    put_u64(&f, "os_minor", h->os_minor);
    put_u64(&f, "os_build", h->os_build);
    put_u64(&f, "layout_major", h->layout_major);
    put_u64(&f, "layout_minor", h->layout_minor);
    put_u64(&f, "cpu_count", h->cpu_count);
    put_u64(&f, "cpu_mhz", h->cpu_mhz);
    put_u64(&f, "pointer_size", h->pointer_size);
    put_u64(&f, "timer_resolution_100ns", h->timer_resolution_100ns);
    put_u64(&f, "maximum_file_size", h->maximum_file_size);
    put_hex(&f, "log_file_mode", h->log_file_mode);
    put_u64(&f, "buffers_written", h->buffers_written);
    put_u64(&f, "start_buffers", h->start_buffers);
    put_u64(&f, "events_lost", h->events_lost);
    put_u64(&f, "buffers_lost", h->buffers_lost);
    put_i64(&f, "utc_bias_minutes", h->utc_bias_minutes);
    put_u64(&f, "clock_type", h->clock_type);
    put_u64(&f, "perf_freq", h->perf_freq);
    put_u64(&f, "first_time", h->first_time);
    put_filetime(&f, "boot_time", h->boot_filetime);
    put_filetime(&f, "start_time", h->start_filetime);
    if (h->end_filetime)
        put_filetime(&f, "end_time", h->end_filetime);
    put_text(&f, "session_name", h->session_name);
    put_text(&f, "log_file_name", h->log_file_name);
    put_u64(&f, "buffer_count", etl_buffer_count(file));
}

void etl_dump_buffer(out *o, json *j, const etl_file *file, size_t index)
{
    const etl_buffer *b = etl_get_buffer(file, index);
    form f = pair_form(o, j);
    if (!j) {
        out_text(o, "buffer ");
        out_u64(o, index);
    } else {
        put_u64(&f, "buffer", index);
    }
    put_hex(&f, "offset", b->offset);
    put_u64(&f, "size", b->size_bytes);
    put_u64(&f, "data_end", b->data_end);
    put_u64(&f, "cpu", b->cpu);
    put_u64(&f, "sequence", b->sequence);
    put_u64(&f, "time", b->time);
    put_u64(&f, "logger", b->logger_id);
    put_u64(&f, "type", b->type);
    put_hex(&f, "flags", b->flags);
    put_u64(&f, "cut", b->is_cut);
    if (!j)
        out_text(o, "\n");
}

void etl_kind_name(char out_text_buf[ETL_KIND_NAME_SIZE], const etl_record *r)
{
    const char *name = etl_known_name(r);
    const char *type = etl_record_type_name(r->type);
    char guid[GUID_TEXT_SIZE];
    guid_text_lower(guid, &r->guid);
    if (name)
        snprintf(out_text_buf, ETL_KIND_NAME_SIZE, "%s", name);
    else if (r->has_hook)
        snprintf(out_text_buf, ETL_KIND_NAME_SIZE, "0x%04X", (unsigned)r->hook);
    else if (!type)
        snprintf(out_text_buf, ETL_KIND_NAME_SIZE, "type%u", (unsigned)r->type);
    else if (r->type == ETL_EVENT32 || r->type == ETL_EVENT64)
        snprintf(out_text_buf, ETL_KIND_NAME_SIZE, "%s/%u/%u", guid, (unsigned)r->opcode,
                 (unsigned)r->id);
    else
        snprintf(out_text_buf, ETL_KIND_NAME_SIZE, "%s/%u", guid, (unsigned)r->opcode);
}

/* ------------------------------------------------------------------ payloads */

static bool dump_process(const form *f, const etl_record *r)
{
    etl_process p;
    if (!etl_decode_process(r, &p))
        return false;
    put_u64(f, "pid", p.pid);
    put_u64(f, "parent_pid", p.parent_pid);
    put_i64(f, "session_id", (int32_t)p.session_id);
    put_i64(f, "exit_status", p.exit_status);
    put_hex(f, "flags", p.flags);
    put_hex(f, "unique_key", p.unique_key);
    put_bytes(f, "sid", p.sid);
    put_text(f, "image_name", p.image_name);
    put_utf16(f, "command_line", p.command_line);
    put_utf16(f, "package", p.package);
    put_utf16(f, "app", p.app);
    if (p.has_exit_time)
        put_filetime(f, "exit_time", p.exit_filetime);
    return true;
}

static bool dump_thread(const form *f, const etl_record *r)
{
    etl_thread t;
    if (!etl_decode_thread(r, &t))
        return false;
    put_u64(f, "pid", t.pid);
    put_u64(f, "tid", t.tid);
    put_hex(f, "start_addr", t.start_addr);
    put_hex(f, "win32_start_addr", t.win32_start_addr);
    put_utf16(f, "name", t.name);
    return true;
}

static bool dump_cswitch(const form *f, const etl_record *r)
{
    etl_cswitch c;
    if (!etl_decode_cswitch(r, &c))
        return false;
    put_u64(f, "new_tid", c.new_tid);
    put_u64(f, "old_tid", c.old_tid);
    put_i64(f, "new_priority", c.new_priority);
    put_i64(f, "old_priority", c.old_priority);
    put_u64(f, "old_wait_reason", c.old_wait_reason);
    put_u64(f, "old_wait_mode", c.old_wait_mode);
    put_u64(f, "old_state", c.old_state);
    put_u64(f, "new_wait_time", c.new_wait_time);
    return true;
}

static bool dump_image(const form *f, const etl_record *r)
{
    etl_image i;
    if (!etl_decode_image(r, &i))
        return false;
    put_hex(f, "base", i.base);
    put_hex(f, "size", i.size);
    put_u64(f, "pid", i.pid);
    put_hex(f, "checksum", i.checksum);
    put_hex(f, "time_date_stamp", i.time_date_stamp);
    put_hex(f, "default_base", i.default_base);
    put_utf16(f, "file_name", i.file_name);
    return true;
}

static bool dump_image_id(const form *f, const etl_record *r)
{
    etl_image_id i;
    etl_event event = etl_record_event(r);
    if (!etl_decode_image_id(r, &i))
        return false;
    put_hex(f, "base", i.base);
    if (event == ETL_EV_IMAGE_ID)
        put_hex(f, "size", i.size);
    put_u64(f, "pid", i.pid);
    if (event == ETL_EV_IMAGE_ID) {
        put_hex(f, "time_date_stamp", i.time_date_stamp);
        put_utf16(f, "original_name", i.original_name);
    } else if (event != ETL_EV_IMAGE_NO_DEBUG) {
        put_guid(f, "guid", &i.id.guid);
        put_u64(f, "age", i.id.age);
        put_text(f, "pdb", i.pdb);
    }
    return true;
}

static bool dump_file_version(const form *f, const etl_record *r)
{
    static const char *const names[ETL_FILE_VERSION_TEXTS] = {
        "original_name", "description", "file_version",    "binary_version", "language",
        "product",       "company",     "product_version", "file_id",        "program_id",
    };
    etl_file_version v;
    if (!etl_decode_file_version(r, &v))
        return false;
    put_hex(f, "size", v.image_size);
    put_hex(f, "time_date_stamp", v.time_date_stamp);
    for (int i = 0; i < ETL_FILE_VERSION_TEXTS; i++)
        put_utf16(f, names[i], v.text[i]);
    return true;
}

static bool dump_build_info(const form *f, const etl_record *r)
{
    etl_build_info b;
    if (!etl_decode_build_info(r, &b))
        return false;
    put_filetime(f, "install_time", b.install_filetime);
    put_utf16(f, "build_lab", b.build_lab);
    put_utf16(f, "product_name", b.product_name);
    return true;
}

static bool dump_volume(const form *f, const etl_record *r)
{
    etl_volume v;
    bool is_paths = etl_record_event(r) == ETL_EV_SYSTEM_PATHS;
    if (!etl_decode_volume(r, &v))
        return false;
    put_utf16(f, is_paths ? "system_directory" : "nt_path", v.nt_path);
    put_utf16(f, is_paths ? "windows_directory" : "dos_path", v.dos_path);
    return true;
}

static void put_sample(const form *f, const etl_sample *s, bool is_pmc)
{
    put_hex(f, "ip", s->ip);
    put_u64(f, "tid", s->tid);
    if (is_pmc) {
        put_u64(f, "source", s->source);
        return;
    }
    put_u64(f, "count", s->count);
    put_u64(f, "dpc", s->flags & 1);
    put_u64(f, "isr", s->flags >> 1 & 1);
    put_u64(f, "priority", s->flags >> 3);
    put_u64(f, "rank", s->rank);
}

static bool dump_sample(const form *f, const etl_record *r)
{
    etl_sample s;
    if (!etl_decode_sample(r, &s))
        return false;
    put_sample(f, &s, etl_record_event(r) == ETL_EV_PMC_INTERRUPT);
    return true;
}

static bool dump_cache(const form *f, const etl_record *r)
{
    size_t count = etl_sample_cache_count(r);
    if (count == 0)
        return false;
    open_list(f, "samples");
    for (size_t i = 0; i < count; i++) {
        etl_sample s;
        if (!etl_decode_cached_sample(r, i, &s))
            break;
        if (f->j) {
            json_open_object(f->j);
            put_sample(f, &s, false);
            json_close_object(f->j);
        } else {
            next_item(f, i == 0);
            out_printf(f->o, "0x%" PRIx64 "/%" PRIu32 "/%u", s.ip, s.tid, (unsigned)s.count);
        }
    }
    close_list(f);
    return true;
}

static bool dump_interval(const form *f, const etl_record *r)
{
    etl_interval i;
    if (!etl_decode_interval(r, &i))
        return false;
    put_u64(f, "source", i.source);
    put_u64(f, "new_interval", i.new_interval);
    put_u64(f, "old_interval", i.old_interval);
    put_utf16(f, "name", i.name);
    return true;
}

static void put_branch(const form *f, reader *c, unsigned ptr_size, bool is_first)
{
    uint64_t from = reader_ptr(c, ptr_size);
    uint64_t to = reader_ptr(c, ptr_size);
    uint64_t info = reader_ptr(c, ptr_size);
    if (f->j) {
        json_open_object(f->j);
        put_hex(f, "from", from);
        put_hex(f, "to", to);
        put_hex(f, "info", info);
        json_close_object(f->j);
        return;
    }
    next_item(f, is_first);
    hex_value(f, from);
    out_text(f->o, "->");
    hex_value(f, to);
    out_text(f->o, "/");
    hex_value(f, info);
}

static bool dump_lbr(const form *f, const etl_record *r)
{
    etl_lbr l;
    if (!etl_decode_lbr(r, &l))
        return false;
    put_u64(f, "time", l.time);
    put_u64(f, "pid", l.pid);
    put_u64(f, "tid", l.tid);
    put_hex(f, "options", l.options);
    put_u64(f, "count", l.branch_count);
    reader c = reader_from(l.branches, 0);
    open_list(f, "branches");
    for (size_t i = 0; i < l.branch_count; i++)
        put_branch(f, &c, r->ptr_size, i == 0);
    close_list(f);
    return true;
}

static bool dump_stack(const form *f, const etl_record *r)
{
    etl_stack s;
    etl_event event = etl_record_event(r);
    bool is_use = event == ETL_EV_STACK_KEY_KERNEL || event == ETL_EV_STACK_KEY_USER;
    if (!etl_decode_stack(r, &s))
        return false;
    if (event == ETL_EV_STACK || is_use) {
        put_u64(f, "time", s.time);
        put_u64(f, "pid", s.pid);
        put_u64(f, "tid", s.tid);
    }
    if (event != ETL_EV_STACK)
        put_hex(f, "key", s.key);
    if (is_use)
        return true;
    reader c = reader_from(s.frames, 0);
    open_list(f, "frames");
    for (size_t i = 0; i < s.frame_count; i++) {
        next_item(f, i == 0);
        hex_value(f, reader_ptr(&c, r->ptr_size));
    }
    close_list(f);
    return true;
}

static bool dump_pmc_names(const form *f, const etl_record *r)
{
    reader c = reader_from(r->payload, 0);
    size_t count = reader_count(&c, reader_u32(&c), 2);
    reader check = c;
    for (size_t i = 0; i < count && !check.code; i++)
        (void)reader_utf16z(&check);
    if (c.code || check.code)
        return false;
    open_list(f, "names");
    for (size_t i = 0; i < count; i++) {
        next_item(f, i == 0);
        utf16_value(f, reader_utf16z(&c));
    }
    close_list(f);
    return true;
}

static bool dump_extension(const form *f, const etl_record *r)
{
    enum { MASK_WORDS = 8 };
    reader c = reader_from(r->payload, 0);
    if (r->payload.len < 4 * (MASK_WORDS + 1))
        return false;
    open_list(f, "group_masks");
    for (int i = 0; i < MASK_WORDS; i++) {
        next_item(f, i == 0);
        hex_value(f, reader_u32(&c));
    }
    close_list(f);
    put_u64(f, "kernel_event_version", reader_u32(&c));
    return true;
}

static bool dump_syscall(const form *f, const etl_record *r)
{
    reader c = reader_from(r->payload, 0);
    bool is_enter = etl_record_event(r) == ETL_EV_SYSCALL_ENTER;
    uint64_t value = is_enter ? reader_ptr(&c, r->ptr_size) : reader_u32(&c);
    if (c.code)
        return false;
    put_hex(f, is_enter ? "address" : "status", value);
    return true;
}

static bool dump_mark(const form *f, const etl_record *r)
{
    size_t len = 0;
    while (len < r->payload.len && r->payload.ptr[len])
        len++;
    put_text(f, "text", (spgo_str){(const char *)r->payload.ptr, len});
    return true;
}

typedef bool dumper(const form *f, const etl_record *r);

static dumper *dumper_of(etl_event e)
{
    switch (e) {
    case ETL_EV_EXTENSION:
        return dump_extension;
    case ETL_EV_PROCESS_START:
    case ETL_EV_PROCESS_END:
    case ETL_EV_PROCESS_DC_START:
    case ETL_EV_PROCESS_DC_END:
    case ETL_EV_PROCESS_DEFUNCT:
        return dump_process;
    case ETL_EV_THREAD_START:
    case ETL_EV_THREAD_END:
    case ETL_EV_THREAD_DC_START:
    case ETL_EV_THREAD_DC_END:
    case ETL_EV_THREAD_NAME:
        return dump_thread;
    case ETL_EV_CSWITCH:
        return dump_cswitch;
    case ETL_EV_IMAGE_LOAD:
    case ETL_EV_IMAGE_UNLOAD:
    case ETL_EV_IMAGE_DC_START:
    case ETL_EV_IMAGE_DC_END:
        return dump_image;
    case ETL_EV_IMAGE_ID:
    case ETL_EV_IMAGE_NO_DEBUG:
    case ETL_EV_IMAGE_RSDS:
    case ETL_EV_IMAGE_ILRSDS:
        return dump_image_id;
    case ETL_EV_IMAGE_FILE_VERSION:
        return dump_file_version;
    case ETL_EV_BUILD_INFO:
        return dump_build_info;
    case ETL_EV_SYSTEM_PATHS:
    case ETL_EV_VOLUME_MAPPING:
        return dump_volume;
    case ETL_EV_SAMPLED_PROFILE:
    case ETL_EV_PMC_INTERRUPT:
        return dump_sample;
    case ETL_EV_SAMPLED_CACHE:
        return dump_cache;
    case ETL_EV_PMC_NAMES:
        return dump_pmc_names;
    case ETL_EV_INTERVAL_SET:
    case ETL_EV_INTERVAL_DC_START:
    case ETL_EV_INTERVAL_DC_END:
        return dump_interval;
    case ETL_EV_SYSCALL_ENTER:
    case ETL_EV_SYSCALL_EXIT:
        return dump_syscall;
    case ETL_EV_MARK:
        return dump_mark;
    case ETL_EV_LBR:
        return dump_lbr;
    case ETL_EV_STACK:
    case ETL_EV_STACK_KEY_KERNEL:
    case ETL_EV_STACK_KEY_USER:
    case ETL_EV_STACK_KEY_CREATE:
    case ETL_EV_STACK_KEY_DELETE:
    case ETL_EV_STACK_KEY_RUNDOWN:
        return dump_stack;
    default:
        return NULL;
    }
}

void etl_dump_record_fields(out *o, json *j, const etl_record *r)
{
    form f = pair_form(o, j);
    dumper *d = dumper_of(etl_record_event(r));
    if (r->pmc_count) {
        reader c = reader_from(r->pmc_values, 0);
        open_list(&f, "counters");
        for (unsigned i = 0; i < r->pmc_count; i++) {
            next_item(&f, i == 0);
            hex_value(&f, reader_u64(&c));
        }
        close_list(&f);
    }
    if (!d || !d(&f, r)) {
        put_bytes(&f, "payload", r->payload);
        return;
    }
    size_t used;
    if (etl_payload_used(r, &used) && used < r->payload.len)
        put_bytes(&f, "rest", (spgo_span){r->payload.ptr + used, r->payload.len - used});
}

/* ------------------------------------------------------------------ counts of kinds */

typedef struct kind {
    spgo_guid guid;
    uint64_t count; /* 0: a free place */
    uint16_t hook, id, version;
    uint8_t type, opcode;
    bool has_hook;
} kind;

enum { KIND_LINE_SIZE = 96 };
typedef struct kind_line {
    char text[KIND_LINE_SIZE];
    const kind *of;
} kind_line;

struct etl_tally {
    kind *places;
    size_t place_count, used; /* a power of two */
};

etl_tally *etl_tally_new(void)
{
    enum { FIRST_PLACES = 256 };
    etl_tally *t = calloc(1, sizeof *t);
    kind *places = calloc(FIRST_PLACES, sizeof *places);
    if (!t || !places) {
        free(t);
        free(places);
        return NULL;
    }
    *t = (etl_tally){places, FIRST_PLACES, 0};
    return t;
}

void etl_tally_free(etl_tally *t)
{
    if (t)
        free(t->places);
    free(t);
}

static uint64_t kind_hash(const kind *k)
{
    uint64_t h = load_u64(k->guid.bytes) ^ load_u64(k->guid.bytes + 8) * 0x9e3779b97f4a7c15u;
    h ^= (uint64_t)k->hook << 48 | (uint64_t)k->id << 32 | (uint64_t)k->version << 16 |
         (uint64_t)k->type << 8 | k->opcode;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static bool same_kind(const kind *a, const kind *b)
{
    return a->type == b->type && a->hook == b->hook && a->opcode == b->opcode && a->id == b->id &&
           a->version == b->version && guid_equal(&a->guid, &b->guid);
}

static kind *place_of(const etl_tally *t, const kind *k)
{
    size_t at = kind_hash(k) & (t->place_count - 1);
    while (t->places[at].count && !same_kind(&t->places[at], k))
        at = (at + 1) & (t->place_count - 1);
    return &t->places[at];
}

static bool tally_grow(etl_tally *t)
{
    etl_tally grown = {calloc(2 * t->place_count, sizeof *grown.places), 2 * t->place_count,
                       t->used};
    if (!grown.places)
        return false;
    for (size_t i = 0; i < t->place_count; i++)
        if (t->places[i].count)
            *place_of(&grown, &t->places[i]) = t->places[i];
    free(t->places);
    *t = grown;
    return true;
}

bool etl_tally_add(etl_tally *t, const etl_record *r)
{
    kind k = {
        .guid = r->guid,
        .count = 1,
        .hook = r->hook,
        .id = r->id,
        .version = r->version,
        .type = r->type,
        .opcode = r->has_hook ? 0 : r->opcode,
        .has_hook = r->has_hook,
    };
    kind *place = place_of(t, &k);
    if (place->count) {
        place->count++;
        return true;
    }
    if (2 * (t->used + 1) > t->place_count) {
        if (!tally_grow(t))
            return false;
        place = place_of(t, &k);
    }
    *place = k;
    t->used++;
    return true;
}

size_t etl_tally_kind_count(const etl_tally *t)
{
    return t->used;
}

static bool is_event_type(uint8_t type)
{
    return type == ETL_EVENT32 || type == ETL_EVENT64;
}

static void type_text(char text[16], uint8_t type)
{
    const char *name = etl_record_type_name(type);
    if (name)
        snprintf(text, 16, "%s", name);
    else
        snprintf(text, 16, "T%u", (unsigned)type);
}

static kind_line kind_text(const kind *k)
{
    kind_line line = {.of = k};
    char type[16], guid[GUID_TEXT_SIZE], id[8] = "";
    type_text(type, k->type);
    guid_text_lower(guid, &k->guid);
    if (is_event_type(k->type))
        snprintf(id, sizeof id, "%u", (unsigned)k->id);
    if (k->has_hook)
        snprintf(line.text, sizeof line.text, "%s\t0x%04X\t\t\t%u", type, (unsigned)k->hook,
                 (unsigned)k->version);
    else
        snprintf(line.text, sizeof line.text, "%s\t%s\t%u\t%s\t%u", type, guid, (unsigned)k->opcode,
                 id, (unsigned)k->version);
    return line;
}

static int compare_lines(const void *a, const void *b)
{
    const kind_line *x = a, *y = b;
    return strcmp(x->text, y->text);
}

static void kind_json(json *j, const kind *k)
{
    char text[GUID_TEXT_SIZE];
    json_open_object(j);
    json_key(j, "type");
    type_text(text, k->type);
    json_text(j, text);
    if (k->has_hook) {
        snprintf(text, sizeof text, "0x%04X", (unsigned)k->hook);
        json_key(j, "hook");
        json_text(j, text);
    } else {
        guid_text_lower(text, &k->guid);
        json_key(j, "guid");
        json_text(j, text);
        json_key(j, "opcode");
        json_u64(j, k->opcode);
    }
    if (is_event_type(k->type)) {
        json_key(j, "id");
        json_u64(j, k->id);
    }
    json_key(j, "version");
    json_u64(j, k->version);
    json_key(j, "count");
    json_u64(j, k->count);
    json_close_object(j);
}

bool etl_dump_tally(out *o, json *j, const etl_tally *t)
{
    kind_line *lines = calloc(t->used + 1, sizeof *lines);
    size_t count = 0;
    if (!lines)
        return false;
    for (size_t i = 0; i < t->place_count; i++)
        if (t->places[i].count)
            lines[count++] = kind_text(&t->places[i]);
    qsort(lines, count, sizeof *lines, compare_lines);
    if (j) {
        json_key(j, "kinds");
        json_open_array(j);
    }
    for (size_t i = 0; i < count; i++) {
        if (j)
            kind_json(j, lines[i].of);
        else
            out_printf(o, "%s\t%" PRIu64 "\n", lines[i].text, lines[i].of->count);
    }
    if (j)
        json_close_array(j);
    free(lines);
    return true;
}
