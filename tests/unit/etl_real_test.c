/*
 * Against real files and what others made of them: record counts of an independent parser, and the
 * text that Microsoft's TraceEvent library printed for one trace.
 */
#include "test_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/guid.h>
#include <base/text.h>
#include <format/etl/etl_dump.h>
#include <format/etl/etl_internal.h>
#include <format/etl/etl_tally.h>

enum { FILE_COUNT = 22, LINE_MAX_COUNT = 1024 };

static const char *const files[FILE_COUNT] = {
    "Tx__CrossMachineHTTP.etl",
    "Tx__Process.etl",
    "Tx__WsRm01.etl",
    "airbus-cert-etl-parser__ShutdownPerfDiagLogger.etl",
    "airbus-cert-etl-parser__lxcore_kernel.etl",
    "krabsetw__powershell.etl",
    "perfview__SelfDescribingSingleEvent.etl",
    "perfview__diaghub.etl",
    "perfview__diaghub.kernel.1.etl",
    "perfview__diaghub.user_injected.1.etl",
    "perfview__net.4.5.2.x64.etl",
    "perfview__primitive-types.etl",
    "perfview__smallEtlFile.etl",
    "s4__WindowsUpdate.etl",
    "sawbuck__image_data_32_v0__73b9394b.etl",
    "sawbuck__image_data_32_v1__bc3936ff.etl",
    "sawbuck__image_data_32_v2__a807833d.etl",
    "sawbuck__image_data_64_v2__7979ca87.etl",
    "sawbuck__process_data_32_v1__13566c78.etl",
    "sawbuck__process_data_32_v2__e0739693.etl",
    "sawbuck__process_data_32_v3__33494d46.etl",
    "sawbuck__process_data_64_v3__442a7c7b.etl",
};

typedef struct opened {
    spgo_span bytes;
    etl_file *file;
} opened;

static opened open_or_skip(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "etl/%s", name);
    opened f = {.bytes = test_data_or_skip(path)};
    diag *d = calloc(1, sizeof *d);
    spgo_error err = {0};
    if (etl_open(f.bytes, &f.file, d, &err) != SPGO_OK)
        fail_msg("%s: %s", name, err.sentence);
    for (size_t i = 0; i < d->kept_count; i++)
        print_message("%s: finding: %s\n", name, d->kept[i].sentence);
    free(d);
    return f;
}

static void close_file(opened f)
{
    etl_close(f.file);
    test_data_free(f.bytes);
}

/* ------------------------------------------------------------------ counts */

static char *tally_text(const etl_file *file, uint64_t *bad)
{
    etl_tally *t = etl_tally_new();
    etl_walk w = etl_walk_new(file, NULL);
    etl_record r;
    for (size_t i = 0; i < etl_buffer_count(file); i++)
        for (bool ok = etl_walk_buffer(&w, i); ok && etl_walk_next(&w, &r);)
            assert_true(etl_tally_add(t, &r));
    *bad = w.bad_records + w.bad_buffers;
    etl_walk_free(&w);

    bytes b = {0};
    out o;
    spgo_error err;
    assert_int_equal(out_init(&o, bytes_sink(&b), &err), SPGO_OK);
    assert_true(etl_dump_tally(&o, NULL, t));
    assert_true(out_flush(&o));
    out_free(&o);
    etl_tally_free(t);
    bytes_u8(&b, 0);
    return (char *)b.ptr;
}

/* The expected lines of one file in our columns: kind first, count last. */
static char *expected_text(spgo_span tsv, const char *name, size_t *buffers)
{
    bytes b = {0};
    char *copy = malloc(tsv.len + 1);
    assert_non_null(copy);
    memcpy(copy, tsv.ptr, tsv.len);
    copy[tsv.len] = 0;
    size_t name_len = strlen(name);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, name, name_len) || line[name_len] != '\t')
            continue;
        char *count, *kind;
        *buffers = strtoul(line + name_len + 1, &count, 10);
        unsigned long n = strtoul(count + 1, &kind, 10);
        char text[200];
        int len = snprintf(text, sizeof text, "%s\t%lu\n", kind + 1, n);
        bytes_put(&b, text, (size_t)len);
    }
    free(copy);
    bytes_u8(&b, 0);
    return (char *)b.ptr;
}

static void counts_equal_those_of_an_independent_parser(void **state)
{
    (void)state;
    spgo_span tsv = test_data_or_skip("etl/expected-counts.tsv");
    size_t kinds = 0;
    for (int i = 0; i < FILE_COUNT; i++) {
        opened f = open_or_skip(files[i]);
        uint64_t bad;
        size_t buffers = 0;
        char *have = tally_text(f.file, &bad);
        char *want = expected_text(tsv, files[i], &buffers);
        assert_string_equal(have, want);
        assert_int_equal(bad, 0);
        assert_int_equal(etl_buffer_count(f.file), buffers);
        for (const char *p = want; (p = strchr(p, '\n')); p++)
            kinds++;
        free(have);
        free(want);
        close_file(f);
    }
    print_message("%zu kinds of records counted alike\n", kinds);
    assert_int_equal(kinds, 405);
    test_data_free(tsv);
}

/* ------------------------------------------------------------------ payloads */

static void payloads_are_read_to_their_last_byte(void **state)
{
    (void)state;
    static size_t exact[ETL_EV_COUNT];
    memset(exact, 0, sizeof exact);
    for (int i = 0; i < FILE_COUNT; i++) {
        opened f = open_or_skip(files[i]);
        etl_walk w = etl_walk_new(f.file, NULL);
        etl_record r;
        for (size_t b = 0; b < etl_buffer_count(f.file); b++)
            for (bool ok = etl_walk_buffer(&w, b); ok && etl_walk_next(&w, &r);) {
                size_t used = 0;
                etl_event e = etl_record_event(&r);
                if (!etl_payload_used(&r, &used)) {
                    if (e >= ETL_EV_PROCESS_START && e <= ETL_EV_STACK_KEY_RUNDOWN &&
                        e != ETL_EV_MARK)
                        fail_msg("%s: %s version %u, %zu bytes, is not decoded", files[i],
                                 etl_event_name(e), (unsigned)r.version, r.payload.len);
                    continue;
                }
                if (used != r.payload.len)
                    fail_msg("%s: %s version %u: %zu of %zu bytes", files[i], etl_event_name(e),
                             (unsigned)r.version, used, r.payload.len);
                exact[e]++;
            }
        etl_walk_free(&w);
        close_file(f);
    }
    static const struct {
        etl_event event;
        size_t count;
    } wanted[] = {
        {ETL_EV_HEADER, 22},
        {ETL_EV_PROCESS_START, 23},
        {ETL_EV_PROCESS_END, 68},
        {ETL_EV_PROCESS_DC_START, 358},
        {ETL_EV_PROCESS_DC_END, 301},
        {ETL_EV_PROCESS_DEFUNCT, 16},
        {ETL_EV_THREAD_START, 359},
        {ETL_EV_THREAD_END, 1047},
        {ETL_EV_THREAD_DC_START, 1845},
        {ETL_EV_THREAD_DC_END, 1165},
        {ETL_EV_IMAGE_LOAD, 198},
        {ETL_EV_IMAGE_UNLOAD, 4970},
        {ETL_EV_IMAGE_DC_START, 8791},
        {ETL_EV_IMAGE_DC_END, 18928},
        {ETL_EV_IMAGE_ID, 19013},
        {ETL_EV_IMAGE_NO_DEBUG, 359},
        {ETL_EV_IMAGE_RSDS, 18610},
        {ETL_EV_IMAGE_ILRSDS, 1726},
        {ETL_EV_IMAGE_FILE_VERSION, 3310},
        {ETL_EV_BUILD_INFO, 3},
        {ETL_EV_SYSTEM_PATHS, 3},
        {ETL_EV_VOLUME_MAPPING, 28},
        {ETL_EV_SAMPLED_PROFILE, 79528},
        {ETL_EV_INTERVAL_DC_START, 1},
        {ETL_EV_INTERVAL_DC_END, 1},
        {ETL_EV_STACK, 252},
        {ETL_EV_STACK_KEY_KERNEL, 2061},
        {ETL_EV_STACK_KEY_USER, 7046},
        {ETL_EV_STACK_KEY_DELETE, 1909},
        {ETL_EV_STACK_KEY_RUNDOWN, 1012},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal(exact[wanted[i].event], wanted[i].count);
        exact[wanted[i].event] = 0;
    }
    for (int e = 0; e < ETL_EV_COUNT; e++)
        assert_int_equal(exact[e], 0);
}

/* ------------------------------------------------------------------ order */

static void stream_delivers_every_record_once_in_time_order(void **state)
{
    (void)state;
    for (int i = 0; i < FILE_COUNT; i++) {
        opened f = open_or_skip(files[i]);
        etl_walk w = etl_walk_new(f.file, NULL);
        etl_record r;
        size_t walked = 0, streamed = 0;
        uint64_t walked_sum = 0, streamed_sum = 0, last = 0, last_done = 0;
        for (size_t b = 0; b < etl_buffer_count(f.file); b++)
            for (bool ok = etl_walk_buffer(&w, b); ok && etl_walk_next(&w, &r); walked++)
                walked_sum += (r.buffer_off + r.offset) * (r.time | 1);
        etl_walk_free(&w);

        const etl_file *one[] = {f.file};
        etl_stream *s;
        assert_int_equal(etl_stream_open(one, 1, NULL, &s, NULL), SPGO_OK);
        for (; etl_stream_next(s, &r, NULL); streamed++) {
            assert_true(r.time >= last);
            last = r.time;
            streamed_sum += (r.buffer_off + r.offset) * (r.time | 1);
            assert_true(etl_stream_done_until(s, 0) >= last_done);
            last_done = etl_stream_done_until(s, 0);
            assert_true(last_done <= r.buffer_off);
        }
        assert_int_equal(streamed, walked);
        assert_int_equal(streamed_sum, walked_sum);
        assert_int_equal(etl_stream_done_until(s, 0), f.bytes.len);
        assert_int_equal(etl_stream_bad_records(s) + etl_stream_bad_buffers(s), 0);
        etl_stream_close(s);
        close_file(f);
    }
}

/* The files of one diagnostic session: image events in one, their ids in another. */
static void several_files_of_one_trace_merge(void **state)
{
    (void)state;
    opened f[3] = {
        open_or_skip("perfview__diaghub.etl"),
        open_or_skip("perfview__diaghub.kernel.1.etl"),
        open_or_skip("perfview__diaghub.user_injected.1.etl"),
    };
    const etl_file *all[3] = {f[0].file, f[1].file, f[2].file};
    etl_stream *s;
    etl_record r;
    size_t file, switches = 0, last_file = 9, count[3] = {0};
    uint64_t last = 0;
    assert_int_equal(etl_stream_open(all, 3, NULL, &s, NULL), SPGO_OK);
    while (etl_stream_next(s, &r, &file)) {
        assert_true(r.time >= last);
        last = r.time;
        count[file]++;
        switches += file != last_file;
        last_file = file;
    }
    assert_int_equal(count[0], 62379);
    assert_int_equal(count[1], 16335);
    assert_int_equal(count[2], 4);
    assert_true(switches > 1000);
    etl_stream_close(s);
    for (int i = 0; i < 3; i++)
        close_file(f[i]);
}

/* ------------------------------------------------------------------ TraceEvent's text */

/* "EVENT 28.493: Windows Kernel/Process/DCStart PID=0; ...; DataLen=75; ProcessID=0; ...; " */
typedef struct line {
    double time_ms;
    char name[96];
    char fields[2048]; /* from "PID=" on */
    bool matched;
    char why[128]; /* the last reason of a record of the right time, kind and size not to match */
} line;

typedef struct baseline {
    line *lines;
    size_t count;
    etl_volume maps[32]; /* views into kept copies */
    size_t map_count;
    char nt[32][128], dos[32][128];
} baseline;

static void parse_line(baseline *b, const char *text)
{
    if (strncmp(text, "EVENT ", 6))
        return;
    assert_true(b->count < LINE_MAX_COUNT);
    line *l = &b->lines[b->count++];
    char number[32];
    size_t n = 0;
    const char *p = text + 6;
    for (; *p && *p != ':'; p++)
        if (*p != ',')
            number[n++] = *p;
    number[n] = 0;
    l->time_ms = strtod(number, NULL);
    const char *pid = strstr(p, " PID=");
    assert_non_null(pid);
    snprintf(l->name, sizeof l->name, "%.*s", (int)(pid - p - 2), p + 2);
    snprintf(l->fields, sizeof l->fields, "%s", pid);
}

/* The value of " name=" up to "; "; NULL if the line has none. */
static const char *field(const line *l, const char *name, char value[512])
{
    char key[64];
    snprintf(key, sizeof key, " %s=", name);
    const char *at = strstr(l->fields, key);
    if (!at)
        return NULL;
    at += strlen(key);
    const char *end = strstr(at, "; ");
    size_t len = end ? (size_t)(end - at) : strlen(at);
    snprintf(value, 512, "%.*s", (int)len, at);
    return value;
}

static bool same_number(line *l, const char *name, uint64_t have)
{
    char value[512], digits[512];
    size_t n = 0;
    if (!field(l, name, value))
        snprintf(value, sizeof value, "absent");
    for (const char *p = value; *p; p++)
        if (*p != ',')
            digits[n++] = *p;
    digits[n] = 0;
    bool is_hex = !strncmp(digits, "0x", 2);
    uint64_t want = digits[0] == '-' ? (uint64_t)strtoll(digits, NULL, 10)
                                     : strtoull(digits, NULL, is_hex ? 16 : 10);
    /* TraceEvent shows 32-bit fields signed. */
    bool same = want == have || (!is_hex && (uint32_t)want == (uint32_t)have);
    if (!same)
        snprintf(l->why, sizeof l->why, "%.30s is %.40s, here %" PRIu64, name, value, have);
    return same && strcmp(value, "absent");
}

static bool same_text(line *l, const char *name, const char *have)
{
    char value[512];
    if (!field(l, name, value))
        return false;
    size_t len = strlen(value);
    bool is_cut = len >= 3 && !strcmp(value + len - 3, "...");
    bool same =
        is_cut ? strlen(have) > len - 3 && !strncmp(value, have, len - 3) : !strcmp(value, have);
    if (!same)
        snprintf(l->why, sizeof l->why, "%.30s is %.40s, here %.40s", name, value, have);
    return same;
}

static bool same_utf16(line *l, const char *name, spgo_span have)
{
    char text[1024];
    text_from_utf16_into(text, sizeof text, have);
    return same_text(l, name, text);
}

static bool same_str(line *l, const char *name, spgo_str have)
{
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)have.len, have.ptr);
    return same_text(l, name, text);
}

/* As TraceEvent does: the NT path's prefix becomes the drive's; a path without a volume is on the
 * drive of Windows. */
static bool same_path(const baseline *b, line *l, spgo_span have)
{
    char text[1024], mapped[1200];
    text_from_utf16_into(text, sizeof text, have);
    snprintf(mapped, sizeof mapped, "%s%s", !strncmp(text, "\\Windows\\", 9) ? "C:" : "", text);
    for (size_t i = 0; i < b->map_count; i++)
        if (!strncmp(text, b->nt[i], strlen(b->nt[i])))
            snprintf(mapped, sizeof mapped, "%s%s", b->dos[i], text + strlen(b->nt[i]));
    return same_text(l, "FileName", mapped);
}

static bool same_process(line *l, const etl_record *r)
{
    etl_process p;
    return etl_decode_process(r, &p) && same_number(l, "PID", p.pid) &&
           same_number(l, "ProcessID", p.pid) && same_number(l, "ParentID", p.parent_pid) &&
           same_str(l, "ImageFileName", p.image_name) &&
           same_number(l, "SessionID", p.session_id) &&
           same_number(l, "ExitStatus", (uint32_t)p.exit_status) &&
           same_number(l, "UniqueProcessKey", p.unique_key) &&
           same_utf16(l, "CommandLine", p.command_line) &&
           same_utf16(l, "PackageFullName", p.package) && same_utf16(l, "ApplicationID", p.app) &&
           same_text(l, "Flags",
                     p.flags == 4   ? "Protected"
                     : p.flags == 2 ? "Wow64"
                     : p.flags == 0 ? "None"
                                    : "?");
}

static bool same_thread(line *l, const etl_record *r)
{
    etl_thread t;
    return etl_decode_thread(r, &t) && same_number(l, "PID", t.pid) &&
           same_number(l, "TID", t.tid) && same_number(l, "StartAddr", t.start_addr) &&
           same_number(l, "Win32StartAddr", t.win32_start_addr) &&
           same_utf16(l, "ThreadName", t.name);
}

static bool same_image(const baseline *b, line *l, const etl_record *r)
{
    etl_image i;
    return etl_decode_image(r, &i) && same_number(l, "PID", i.pid) &&
           same_number(l, "ImageBase", i.base) && same_number(l, "ImageSize", i.size) &&
           same_number(l, "ImageChecksum", i.checksum) &&
           same_number(l, "TimeDateStamp", i.time_date_stamp) &&
           same_number(l, "DefaultBase", i.default_base) && same_path(b, l, i.file_name);
}

static bool same_image_id(line *l, const etl_record *r)
{
    etl_image_id i;
    etl_event e = etl_record_event(r);
    if (!etl_decode_image_id(r, &i) || !same_number(l, "PID", i.pid) ||
        !same_number(l, "TID", r->tid))
        return false;
    if (e == ETL_EV_IMAGE_NO_DEBUG)
        return true;
    if (!same_number(l, "ImageBase", i.base))
        return false;
    if (e == ETL_EV_IMAGE_ID)
        /* Its ProcessID is 0 even where its own PID is not; PID has been compared. */
        return same_number(l, "ImageSize", i.size) &&
               same_number(l, "TimeDateStamp", i.time_date_stamp) &&
               same_utf16(l, "OriginalFileName", i.original_name);
    char guid[GUID_TEXT_SIZE];
    guid_text_lower(guid, &i.id.guid);
    return same_text(l, "GuidSig", guid) && same_number(l, "Age", i.id.age) &&
           same_str(l, "PDBFileName", i.pdb);
}

static bool same_file_version(line *l, const etl_record *r)
{
    static const char *const names[ETL_FILE_VERSION_TEXTS] = {
        "OrigFileName", "FileDescription", "FileVersion",    "BinFileVersion", "VerLanguage",
        "ProductName",  "CompanyName",     "ProductVersion", "FileId",         "ProgramId",
    };
    etl_file_version v;
    if (!etl_decode_file_version(r, &v) || !same_number(l, "ImageSize", v.image_size) ||
        !same_number(l, "TimeDateStamp", v.time_date_stamp) || !same_number(l, "PID", r->pid) ||
        !same_number(l, "TID", r->tid))
        return false;
    for (int i = 0; i < ETL_FILE_VERSION_TEXTS; i++)
        if (!same_utf16(l, names[i], v.text[i]))
            return false;
    return true;
}

/* TraceEvent finds the process of a sample by its thread; that is not the reader's business. */
static bool same_sample(line *l, const etl_record *r)
{
    etl_sample s;
    return etl_decode_sample(r, &s) && same_number(l, "TID", s.tid) &&
           same_number(l, "InstructionPointer", s.ip) &&
           same_number(l, "ProcessorNumber", r->cpu) && same_number(l, "Priority", s.flags >> 3) &&
           same_text(l, "ExecutingDPC", s.flags & 1 ? "True" : "False") &&
           same_text(l, "ExecutingISR", s.flags & 2 ? "True" : "False") &&
           same_number(l, "Rank", s.rank) && same_number(l, "Count", s.count);
}

static bool same_interval(line *l, const etl_record *r)
{
    etl_interval i;
    return etl_decode_interval(r, &i) && same_number(l, "SampleSource", i.source) &&
           same_number(l, "NewInterval", i.new_interval) &&
           same_number(l, "OldInterval", i.old_interval);
}

static bool same_volume(line *l, const etl_record *r)
{
    etl_volume v;
    bool is_paths = etl_record_event(r) == ETL_EV_SYSTEM_PATHS;
    return etl_decode_volume(r, &v) &&
           same_utf16(l, is_paths ? "SystemDirectory" : "NtPath", v.nt_path) &&
           same_utf16(l, is_paths ? "SystemWindowsDirectory" : "DosPath", v.dos_path);
}

static bool same_extension(line *l, const etl_record *r)
{
    char name[16];
    if (r->payload.len != 36)
        return false;
    for (unsigned i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "GroupMask%u", i + 1);
        if (!same_number(l, name, load_u32(r->payload.ptr + (size_t)4 * i)))
            return false;
    }
    return same_number(l, "KernelEventVersion", load_u32(r->payload.ptr + 32));
}

static bool same_header(line *l, const etl_header *h)
{
    return same_number(l, "BufferSize", h->buffer_size) &&
           same_number(l, "Version",
                       (uint32_t)h->layout_minor << 24 | (uint32_t)h->layout_major << 16 |
                           (uint32_t)h->os_minor << 8 | h->os_major) &&
           same_number(l, "ProviderVersion", h->os_build) &&
           same_number(l, "NumberOfProcessors", h->cpu_count) &&
           same_number(l, "TimerResolution", h->timer_resolution_100ns) &&
           same_number(l, "MaxFileSize", h->maximum_file_size) &&
           same_number(l, "LogFileMode", h->log_file_mode) &&
           same_number(l, "BuffersWritten", h->buffers_written) &&
           same_number(l, "StartBuffers", h->start_buffers) &&
           same_number(l, "PointerSize", h->pointer_size) &&
           same_number(l, "EventsLost", h->events_lost) && same_number(l, "CPUSpeed", h->cpu_mhz) &&
           same_number(l, "PerfFreq", h->perf_freq) &&
           same_number(l, "ReservedFlags", h->clock_type) &&
           same_number(l, "BuffersLost", h->buffers_lost) &&
           same_str(l, "SessionName", h->session_name) &&
           same_str(l, "LogFileName", h->log_file_name) &&
           same_number(l, "UtcOffsetMinutes", (uint32_t)h->utc_bias_minutes);
}

static const struct {
    const char *name; /* TraceEvent's */
    etl_event event;
} event_names[] = {
    {"Windows Kernel/EventTrace", ETL_EV_HEADER},
    {"Windows Kernel/EventTrace/Extension", ETL_EV_EXTENSION},
    {"Windows Kernel/EventTrace/EndExtension", ETL_EV_EXTENSION},
    {"Windows Kernel/Process/Start", ETL_EV_PROCESS_START},
    {"Windows Kernel/Process/Stop", ETL_EV_PROCESS_END},
    {"Windows Kernel/Process/DCStart", ETL_EV_PROCESS_DC_START},
    {"Windows Kernel/Process/DCStop", ETL_EV_PROCESS_DC_END},
    {"Windows Kernel/Process/Defunct", ETL_EV_PROCESS_DEFUNCT},
    {"Windows Kernel/Thread/Start", ETL_EV_THREAD_START},
    {"Windows Kernel/Thread/Stop", ETL_EV_THREAD_END},
    {"Windows Kernel/Image/Load", ETL_EV_IMAGE_LOAD},
    {"Windows Kernel/Image/Unload", ETL_EV_IMAGE_UNLOAD},
    {"Windows Kernel/Image/DCStart", ETL_EV_IMAGE_DC_START},
    {"Windows Kernel/Image/DCStop", ETL_EV_IMAGE_DC_END},
    {"KernelTraceControl/ImageID", ETL_EV_IMAGE_ID},
    {"KernelTraceControl/ImageID/None", ETL_EV_IMAGE_NO_DEBUG},
    {"KernelTraceControl/ImageID/DbgID_RSDS", ETL_EV_IMAGE_RSDS},
    {"KernelTraceControl/ImageID/DbgID_ILRSDS", ETL_EV_IMAGE_ILRSDS},
    {"KernelTraceControl/ImageID/FileVersion", ETL_EV_IMAGE_FILE_VERSION},
    {"Windows Kernel/SysConfig/BuildInfo", ETL_EV_BUILD_INFO},
    {"Windows Kernel/SysConfig/SystemPaths", ETL_EV_SYSTEM_PATHS},
    {"Windows Kernel/SysConfig/VolumeMapping", ETL_EV_VOLUME_MAPPING},
    {"Windows Kernel/PerfInfo/Sample", ETL_EV_SAMPLED_PROFILE},
    {"Windows Kernel/PerfInfo/CollectionStart", ETL_EV_INTERVAL_DC_START},
    {"Windows Kernel/PerfInfo/CollectionEnd", ETL_EV_INTERVAL_DC_END},
};

static etl_event event_of_line(const line *l)
{
    for (size_t i = 0; i < sizeof event_names / sizeof *event_names; i++)
        if (!strcmp(l->name, event_names[i].name))
            return event_names[i].event;
    return ETL_EV_UNKNOWN;
}

static bool same_build_info(line *l, const etl_record *r)
{
    etl_build_info b;
    return etl_decode_build_info(r, &b) && same_utf16(l, "BuildLab", b.build_lab) &&
           same_utf16(l, "ProductName", b.product_name);
}

static bool same_fields(const baseline *b, line *l, const etl_header *h, const etl_record *r)
{
    etl_event e = etl_record_event(r);
    if (e == ETL_EV_HEADER)
        return same_header(l, h);
    if (e == ETL_EV_EXTENSION)
        return same_extension(l, r);
    if (e >= ETL_EV_PROCESS_START && e <= ETL_EV_PROCESS_DEFUNCT)
        return same_process(l, r);
    if (e >= ETL_EV_THREAD_START && e <= ETL_EV_THREAD_DC_END)
        return same_thread(l, r);
    if (e >= ETL_EV_IMAGE_LOAD && e <= ETL_EV_IMAGE_DC_END)
        return same_image(b, l, r);
    if (e >= ETL_EV_IMAGE_ID && e <= ETL_EV_IMAGE_ILRSDS)
        return same_image_id(l, r);
    if (e == ETL_EV_IMAGE_FILE_VERSION)
        return same_file_version(l, r);
    if (e == ETL_EV_BUILD_INFO)
        return same_build_info(l, r);
    if (e == ETL_EV_SYSTEM_PATHS || e == ETL_EV_VOLUME_MAPPING)
        return same_volume(l, r);
    if (e == ETL_EV_SAMPLED_PROFILE)
        return same_sample(l, r);
    if (e == ETL_EV_INTERVAL_DC_START || e == ETL_EV_INTERVAL_DC_END)
        return same_interval(l, r);
    /* Not decoded here: the header's ids, as far as TraceEvent takes them from there. */
    return r->has_hook || (same_number(l, "PID", r->pid) && same_number(l, "TID", r->tid));
}

static void keep_map(baseline *b, const etl_record *r)
{
    etl_volume v;
    if (etl_record_event(r) != ETL_EV_VOLUME_MAPPING || !etl_decode_volume(r, &v))
        return;
    assert_true(b->map_count < 32);
    text_from_utf16_into(b->nt[b->map_count], sizeof b->nt[0], v.nt_path);
    text_from_utf16_into(b->dos[b->map_count++], sizeof b->dos[0], v.dos_path);
}

static void match_record(baseline *b, size_t *first, const etl_header *h, const etl_record *r)
{
    double ms = (double)etl_relative_ns(h, r->time) / 1e6;
    while (*first < b->count && b->lines[*first].time_ms < ms - 0.002)
        ++*first;
    for (size_t i = *first; i < b->count && b->lines[i].time_ms < ms + 0.002; i++) {
        line *l = &b->lines[i];
        double apart = l->time_ms > ms ? l->time_ms - ms : ms - l->time_ms;
        if (!l->matched && apart <= 0.001 && event_of_line(l) == etl_record_event(r) &&
            same_number(l, "ProceNum", r->cpu) && same_number(l, "DataLen", r->payload.len) &&
            same_fields(b, l, h, r)) {
            l->matched = true;
            return;
        }
    }
}

static void every_line_of_traceevent_is_matched(void **state)
{
    (void)state;
    spgo_span text = test_data_or_skip("etl/perfview__net.4.5.2.x64.baseline.txt");
    opened f = open_or_skip("perfview__net.4.5.2.x64.etl");
    baseline *b = calloc(1, sizeof *b);
    b->lines = calloc(LINE_MAX_COUNT, sizeof *b->lines);
    char *copy = malloc(text.len + 1);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    for (char *l = strtok(copy, "\n"); l; l = strtok(NULL, "\n"))
        parse_line(b, l);

    const etl_file *one[] = {f.file};
    etl_stream *s;
    etl_record r;
    size_t first = 0;
    assert_int_equal(etl_stream_open(one, 1, NULL, &s, NULL), SPGO_OK);
    while (etl_stream_next(s, &r, NULL)) {
        keep_map(b, &r);
        match_record(b, &first, etl_get_header(f.file), &r);
    }
    size_t decoded = 0, others = 0, missing = 0;
    for (size_t i = 0; i < b->count; i++) {
        line *l = &b->lines[i];
        bool is_decoded = event_of_line(l) != ETL_EV_UNKNOWN;
        decoded += l->matched && is_decoded;
        others += l->matched && !is_decoded;
        missing += !l->matched;
        if (!l->matched)
            print_message("no record for %.3f %s%s(%s)\n", l->time_ms, l->name, l->fields, l->why);
    }
    print_message("%zu lines of decoded events and %zu others agree\n", decoded, others);
    assert_int_equal(missing, 0);
    assert_int_equal(decoded, 89);
    assert_int_equal(others, 391);
    etl_stream_close(s);
    free(copy);
    free(b->lines);
    free(b);
    test_data_free(text);
    close_file(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_those_of_an_independent_parser),
        cmocka_unit_test(payloads_are_read_to_their_last_byte),
        cmocka_unit_test(stream_delivers_every_record_once_in_time_order),
        cmocka_unit_test(several_files_of_one_trace_merge),
        cmocka_unit_test(every_line_of_traceevent_is_matched),
    };
    return cmocka_run_group_tests_name("etl_real", tests, NULL, NULL);
}
