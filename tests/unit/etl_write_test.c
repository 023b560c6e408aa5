/*
 * The ETL writer, its encoders and the compressor: bytes against the format's description, and
 * everything written read back equal. tests/check/etl_check.py looks at whole files without any of
 * the library's code.
 */
#include "etl_build.h"
#include "synthetic_program.h"
#include "test_data.h"

#include <base/limits.h>
#include <base/reader.h>
#include <base/text.h>
#include <format/etl/etl_internal.h>

#include <stdlib.h>
#include <string.h>

enum { START = 5000 };
#define START_FILETIME 133500000000000000u

/* ------------------------------------------------------------------ helpers */

static etl_writer_opts some_opts(void)
{
    return (etl_writer_opts){
        .start_time = START, .start_filetime = START_FILETIME, .buffer_size = 4096};
}

static etl_writer *new_writer(bytes *file, const etl_writer_opts *opts)
{
    etl_writer *w = NULL;
    spgo_error err = {0};
    if (etl_writer_new(bytes_sink(file), opts, &w, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return w;
}

static void add(etl_writer *w, const etl_event_head *head, const void *payload, size_t len)
{
    spgo_error err = {0};
    if (etl_writer_add(w, head, (spgo_span){payload, len}, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
}

static void finish(etl_writer *w)
{
    spgo_error err = {0};
    if (etl_writer_finish(w, 0, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
}

static etl_file *open_file(const bytes *file)
{
    etl_file *f = NULL;
    diag d = {0};
    spgo_error err = {0};
    if (etl_open(bytes_span(file), &f, &d, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    if (d.total)
        fail_msg("finding: %s", d.kept[0].sentence);
    return f;
}

static etl_event_head sample_head(uint16_t cpu, uint64_t time)
{
    return (etl_event_head){
        .type = ETL_PERFINFO64, .cpu = cpu, .time = time, .hook = 0x0F2E, .version = 2};
}

/* One record in a file of its own, read back; the file and the walk stay for the record's views. */
typedef struct round_trip {
    bytes file;
    etl_file *f;
    etl_walk walk;
    etl_record record;
} round_trip;

static void write_and_read(round_trip *t, const etl_event_head *head, spgo_span payload)
{
    etl_writer_opts opts = some_opts();
    *t = (round_trip){0};
    etl_writer *w = new_writer(&t->file, &opts);
    add(w, head, payload.ptr, payload.len);
    finish(w);
    t->f = open_file(&t->file);
    t->walk = etl_walk_new(t->f, NULL);
    assert_true(etl_walk_buffer(&t->walk, 1));
    assert_true(etl_walk_next(&t->walk, &t->record));
    etl_record behind;
    assert_false(etl_walk_next(&t->walk, &behind));
    assert_int_equal(t->walk.bad_records, 0);
}

static void round_trip_free(round_trip *t)
{
    etl_walk_free(&t->walk);
    etl_close(t->f);
    bytes_free(&t->file);
}

static void assert_span_equal(spgo_span s, const void *expected, size_t len)
{
    assert_int_equal(s.len, len);
    if (len)
        assert_memory_equal(s.ptr, expected, len);
}

static void assert_utf16(spgo_span s, const char *expected)
{
    char text[256];
    text_from_utf16_into(text, sizeof text, s);
    assert_string_equal(text, expected);
}

static void assert_str(spgo_str s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.ptr, expected, s.len);
}

/* ------------------------------------------------------------------ the header buffer */

static void header_buffer_has_the_fields_of_a_live_logger(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.session_name = "S";
    opts.log_file_name = "F";
    etl_writer *w = new_writer(&b, &opts);
    etl_event_head head = sample_head(1, START + 7);
    add(w, &head, "0123456789abcdef", 16);
    finish(w);

    const uint8_t *p = b.ptr;
    uint32_t record_size = 32 + 0x118 + 4 + 4;
    uint32_t end = 72 + ((record_size + 7) & ~7u);
    assert_int_equal(b.len, 2 * 4096);
    assert_int_equal(load_u32(p + 0x00), 4096);
    assert_int_equal(load_u32(p + 0x04), end);
    assert_int_equal(load_u32(p + 0x08), end);
    assert_int_equal(load_u64(p + 0x10), 0);
    assert_int_equal(load_u64(p + 0x18), 0);
    assert_int_equal(load_u16(p + 0x28), 0);
    assert_int_equal(load_u32(p + 0x2C), 3);
    assert_int_equal(load_u32(p + 0x30), end);
    assert_int_equal(load_u16(p + 0x34), 0x21);
    assert_int_equal(load_u16(p + 0x36), 4);

    const uint8_t *r = p + 72;
    assert_memory_equal(r, "\x02\x00\x02\xC0", 4);
    assert_int_equal(load_u16(r + 4), record_size);
    assert_int_equal(load_u16(r + 6), 0);
    assert_int_equal(load_u64(r + 0x10), START);
    const uint8_t *h = r + 32;
    assert_int_equal(load_u32(h), 4096);
    assert_memory_equal(h + 4, "\x0A\x00\x01\x05", 4);
    assert_int_equal(load_u32(h + 0x08), 19041);
    assert_int_equal(load_u32(h + 0x0C), 2); /* the highest processor and one */
    assert_true(load_u64(h + 0x10) == START_FILETIME + 7);
    assert_int_equal(load_u32(h + 0x18), 156250);
    assert_int_equal(load_u32(h + 0x20), 1);
    assert_int_equal(load_u32(h + 0x24), 2); /* buffers, this one included */
    assert_int_equal(load_u32(h + 0x28), 1);
    assert_int_equal(load_u32(h + 0x2C), 8);
    assert_true(load_u64(h + 0xF8) == START_FILETIME - START);
    assert_int_equal(load_u64(h + 0x100), 10000000);
    assert_true(load_u64(h + 0x108) == START_FILETIME);
    assert_int_equal(load_u32(h + 0x110), 1);
    assert_memory_equal(h + 0x118, "S\0\0\0F\0\0\0", 8);
    for (uint32_t i = end; i < 4096; i++)
        assert_int_equal(p[i], 0xFF);
    bytes_free(&b);
}

static void header_of_a_32_bit_system_has_short_pointers(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.ptr_size = 4;
    opts.session_name = "S";
    finish(new_writer(&b, &opts));
    const uint8_t *r = b.ptr + 72;
    assert_memory_equal(r, "\x02\x00\x01\xC0", 4);
    assert_int_equal(load_u32(r + 32 + 0x2C), 4);
    assert_int_equal(load_u64(r + 32 + 0xF8), 10000000);
    assert_memory_equal(r + 32 + 0x110, "S\0\0\0\0\0", 6);
    bytes_free(&b);
}

static void data_buffer_has_the_fields_of_a_live_logger(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    etl_writer *w = new_writer(&b, &opts);
    etl_event_head head = sample_head(5, START + 7);
    add(w, &head, "0123456789abcdefg", 17);
    finish(w);
    const uint8_t *p = b.ptr + 4096;
    uint32_t end = 72 + 40;
    assert_int_equal(load_u32(p + 0x00), 4096);
    assert_int_equal(load_u32(p + 0x04), end);
    assert_int_equal(load_u32(p + 0x08), end);
    assert_int_equal(load_u64(p + 0x10), START + 7);
    assert_int_equal(load_u64(p + 0x18), 1);
    assert_int_equal(load_u64(p + 0x20), 0);
    assert_int_equal(load_u16(p + 0x28), 5);
    assert_int_equal(load_u32(p + 0x2C), 3);
    assert_int_equal(load_u32(p + 0x30), end);
    assert_int_equal(load_u16(p + 0x34), 0x21);
    assert_int_equal(load_u16(p + 0x36), 0);
    assert_memory_equal(p + 72, "\x02\x00\x11\xC0\x21\x00\x2E\x0F", 8);
    assert_int_equal(load_u64(p + 80), START + 7);
    assert_memory_equal(p + 88, "0123456789abcdefg\0\0\0\0\0\0\0\xFF", 25);
    bytes_free(&b);
}

static void win7_buffers_keep_the_processor_in_a_byte(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.win7 = opts.zero_saved_offset = true;
    etl_writer *w = new_writer(&b, &opts);
    etl_event_head head = sample_head(3, START);
    add(w, &head, NULL, 0);
    finish(w);
    assert_int_equal(load_u32(b.ptr + 4), 0);
    assert_int_equal(load_u32(b.ptr + 0x30), load_u32(b.ptr + 8));
    assert_int_equal(load_u16(b.ptr + 0x28), 0x0800);
    assert_int_equal(load_u16(b.ptr + 0x34), 0x01);
    assert_memory_equal(b.ptr + 72 + 32 + 4, "\x06\x01\x01\x05", 4);
    assert_int_equal(load_u16(b.ptr + 4096 + 0x28), 0x0803);
    assert_int_equal(load_u16(b.ptr + 4096 + 0x34), 0x01);
    etl_file *f = open_file(&b);
    assert_int_equal(etl_get_buffer(f, 1)->cpu, 3);
    etl_close(f);
    bytes_free(&b);
}

static void merged_files_look_like_those_of_the_relogger(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.merged = true;
    etl_writer *w = new_writer(&b, &opts);
    etl_event_head head = sample_head(0, START + 30);
    add(w, &head, NULL, 0);
    finish(w);
    assert_int_equal(load_u32(b.ptr + 0x08), 0);
    assert_int_equal(load_u32(b.ptr + 0x2C), 0);
    assert_int_equal(load_u16(b.ptr + 0x34), 0x01);
    assert_true(load_u64(b.ptr + 4096 + 0x10) == START_FILETIME + 30);
    etl_file *f = open_file(&b);
    assert_int_equal(etl_get_header(f)->log_file_mode, 0x00010001);
    assert_str(etl_get_header(f)->session_name, "Relogger");
    assert_str(etl_get_header(f)->log_file_name, "[multiple files]");
    etl_close(f);
    bytes_free(&b);
}

static void compressed_files_have_a_small_header_buffer(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.compress = true;
    opts.buffer_size = 65536;
    etl_writer *w = new_writer(&b, &opts);
    for (unsigned i = 0; i < 1000; i++) {
        etl_event_head head = sample_head(0, START + 30 * i);
        add(w, &head, "0123456789abcdef", 16);
    }
    finish(w);
    assert_int_equal(load_u32(b.ptr), 512);
    assert_int_equal(load_u16(b.ptr + 0x2C), 3);
    assert_memory_equal(b.ptr + 72 + 32 + 4, "\x0A\x00\x02\x00", 4);
    const uint8_t *p = b.ptr + 512;
    assert_int_equal(load_u16(p + 0x34), 0x61);
    assert_int_equal(load_u32(p + 4), 72 + 1000 * 32);
    assert_int_equal(load_u32(p), b.len - 512);
    assert_true(load_u32(p) < 72 + 1000 * 8);
    etl_file *f = open_file(&b);
    assert_int_equal(etl_get_header(f)->log_file_mode, 0x04000001);
    assert_int_equal(etl_get_header(f)->buffer_size, 65536);
    etl_walk walk = etl_walk_new(f, NULL);
    assert_true(etl_walk_buffer(&walk, 1));
    etl_record r;
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(etl_walk_next(&walk, &r));
        assert_int_equal(r.time, START + 30 * i);
        assert_span_equal(r.payload, "0123456789abcdef", 16);
    }
    assert_false(etl_walk_next(&walk, &r));
    etl_walk_free(&walk);
    etl_close(f);
    bytes_free(&b);
}

static void what_does_not_compress_goes_out_plain(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.compress = true;
    etl_writer *w = new_writer(&b, &opts);
    uint8_t noise[4096 - 72 - 16];
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)synth_random(&random);
    etl_event_head head = sample_head(0, START);
    add(w, &head, noise, sizeof noise);
    finish(w);
    assert_int_equal(b.len, 512 + 4096);
    assert_int_equal(load_u16(b.ptr + 512 + 0x34), 0x21);
    etl_file *f = open_file(&b);
    etl_walk walk = etl_walk_new(f, NULL);
    etl_record r;
    assert_true(etl_walk_buffer(&walk, 1) && etl_walk_next(&walk, &r));
    assert_span_equal(r.payload, noise, sizeof noise);
    etl_walk_free(&walk);
    etl_close(f);
    bytes_free(&b);
}

static void header_event_is_read_back(void **state)
{
    (void)state;
    for (uint32_t clock = ETL_CLOCK_QPC; clock <= ETL_CLOCK_CPU; clock++) {
        bytes b = {0};
        etl_writer_opts opts = {.buffer_size = 8192,
                                .cpu_count = 6,
                                .perf_freq = 3117777,
                                .start_time = 777777,
                                .start_filetime = START_FILETIME,
                                .boot_filetime = 42,
                                .clock_type = clock,
                                .cpu_mhz = 2600,
                                .os_build = 22631,
                                .events_lost = 3,
                                .buffers_lost = 41,
                                .session_name = "Sitzung \xC3\xA4\xE2\x82\xAC",
                                .log_file_name = "C:\\\xF0\x9F\x90\x9F"};
        etl_writer *w = new_writer(&b, &opts);
        spgo_error err = {0};
        assert_int_equal(etl_writer_finish(w, START_FILETIME + 99, &err), SPGO_OK);
        etl_file *f = open_file(&b);
        const etl_header *h = etl_get_header(f);
        assert_int_equal(h->buffer_size, 8192);
        assert_int_equal(h->cpu_count, 6);
        assert_int_equal(h->perf_freq, 3117777);
        assert_int_equal(h->first_time, 777777);
        assert_true(h->start_filetime == START_FILETIME);
        assert_true(h->end_filetime == START_FILETIME + 99);
        assert_int_equal(h->boot_filetime, 42);
        assert_int_equal(h->clock_type, clock);
        assert_int_equal(h->cpu_mhz, 2600);
        assert_int_equal(h->os_build, 22631);
        assert_int_equal(h->events_lost, 3);
        assert_int_equal(h->buffers_lost, 41);
        assert_int_equal(h->buffers_written, 1);
        assert_int_equal(h->pointer_size, 8);
        assert_str(h->session_name, "Sitzung \xC3\xA4\xE2\x82\xAC");
        assert_str(h->log_file_name, "C:\\\xF0\x9F\x90\x9F");
        etl_close(f);
        bytes_free(&b);
    }
}

static void ill_formed_names_become_replacement_characters(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.session_name = "a\xFF"
                        "b\xED\xA0\x80"
                        "c\xC0\xAF";
    finish(new_writer(&b, &opts));
    etl_file *f = open_file(&b);
    const char *fffd = "\xEF\xBF\xBD";
    spgo_str name = etl_get_header(f)->session_name;
    assert_true(text_is_utf8(name));
    assert_memory_equal(name.ptr, "a", 1);
    assert_memory_equal(name.ptr + 1, fffd, 3);
    assert_memory_equal(name.ptr + 4, "b", 1);
    assert_memory_equal(name.ptr + 5, fffd, 3);
    etl_close(f);
    bytes_free(&b);
}

static void unclosed_files_have_no_end(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.leave_open = true;
    opts.cpu_count = 1;
    spgo_sink sink = bytes_sink(&b);
    sink.patch = NULL; /* nothing needs to be changed afterwards */
    etl_writer *w;
    assert_int_equal(etl_writer_new(sink, &opts, &w, NULL), SPGO_OK);
    etl_event_head head = sample_head(0, START);
    add(w, &head, NULL, 0);
    finish(w);
    assert_int_equal(load_u64(b.ptr + 72 + 32 + 0x10), 0);
    assert_int_equal(load_u32(b.ptr + 72 + 32 + 0x24), 1);
    assert_int_equal(load_u16(b.ptr + 4096 + 0x34), 0x20);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ records */

static etl_event_head full_head(uint8_t type)
{
    return (etl_event_head){.type = type,
                            .cpu = 2,
                            .time = START + 0x1234567890,
                            .pid = 4711,
                            .tid = 815,
                            .hook = 0x0F33,
                            .guid = ETL_GUID_STACK_WALK,
                            .id = 0x1234,
                            .opcode = 0x21,
                            .level = 4,
                            .channel = 16,
                            .version = 3,
                            .task = 0x5678,
                            .keyword = 0x8000000000000001u};
}

static void every_record_type_is_read_back(void **state)
{
    (void)state;
    static const uint8_t types[] = {ETL_SYSTEM32,   ETL_SYSTEM64,   ETL_COMPACT32, ETL_COMPACT64,
                                    ETL_PERFINFO32, ETL_PERFINFO64, ETL_FULL32,    ETL_FULL64,
                                    ETL_INSTANCE32, ETL_INSTANCE64, ETL_EVENT32,   ETL_EVENT64};
    for (size_t i = 0; i < sizeof types; i++) {
        for (size_t len = 0; len <= 9; len++) {
            etl_event_head h = full_head(types[i]);
            round_trip t;
            write_and_read(&t, &h, (spgo_span){(const uint8_t *)"payload..", len});
            const etl_record *r = &t.record;
            bool is_perfinfo = h.type == ETL_PERFINFO32 || h.type == ETL_PERFINFO64;
            bool is_event = h.type == ETL_EVENT32 || h.type == ETL_EVENT64;
            assert_int_equal(r->type, h.type);
            assert_int_equal(r->cpu, 2);
            assert_int_equal(r->time, h.time);
            assert_int_equal(r->version, 3);
            assert_int_equal(r->pid, is_perfinfo ? ETL_NO_ID : 4711);
            assert_int_equal(r->tid, is_perfinfo ? ETL_NO_ID : 815);
            assert_span_equal(r->payload, "payload..", len);
            if (r->has_hook) {
                assert_int_equal(r->hook, 0x0F33);
            } else {
                assert_memory_equal(&r->guid, &h.guid, sizeof h.guid);
                assert_int_equal(r->opcode, 0x21);
                assert_int_equal(r->level, 4);
            }
            if (is_event) {
                assert_int_equal(r->id, 0x1234);
                assert_int_equal(r->channel, 16);
                assert_int_equal(r->task, 0x5678);
                assert_true(r->keyword == h.keyword);
            }
            round_trip_free(&t);
        }
    }
}

static void counter_values_stand_between_header_and_payload(void **state)
{
    (void)state;
    static const uint64_t values[7] = {1, 2, 3, 4, 5, 6, 0xFEDCBA9876543210u};
    for (unsigned pebs = 0; pebs < 2; pebs++) {
        for (unsigned n = 0; n <= 7; n++) {
            etl_event_head h = sample_head(0, START);
            h.version = 4;
            h.has_pebs = pebs;
            h.pebs_value = 0x1122334455667788;
            h.pmc_count = (uint8_t)n;
            h.pmc_values = values;
            round_trip t;
            write_and_read(&t, &h, (spgo_span){(const uint8_t *)"tail", 4});
            assert_int_equal(t.record.version, 4);
            assert_int_equal(t.record.pmc_count, n);
            assert_span_equal(t.record.payload, "tail", 4);
            for (unsigned i = 0; i < n; i++)
                assert_true(load_u64(t.record.pmc_values.ptr + 8 * i) == values[i]);
            const uint8_t *p = t.file.ptr + 4096 + 72;
            assert_int_equal(load_u16(p), 4 | n << 8 | pebs << 15);
            assert_int_equal(load_u16(p + 4), 16 + 8 * (n + pebs) + 4);
            if (pebs)
                assert_true(load_u64(p + 16) == h.pebs_value);
            round_trip_free(&t);
        }
    }
}

static void extended_items_are_read_back(void **state)
{
    (void)state;
    bytes chain = {0};
    etl_encode_extended(&chain, 1, (spgo_span){(const uint8_t *)"0123456789abcdef", 16}, true);
    etl_encode_extended(&chain, 11, (spgo_span){(const uint8_t *)"schema", 6}, false);
    assert_int_equal(chain.len, 24 + 16);
    etl_event_head h = full_head(ETL_EVENT64);
    h.extended = bytes_span(&chain);
    round_trip t;
    write_and_read(&t, &h, (spgo_span){(const uint8_t *)"tail", 4});
    assert_span_equal(t.record.extended, chain.ptr, chain.len);
    assert_span_equal(t.record.payload, "tail", 4);
    round_trip_free(&t);
    bytes_free(&chain);
}

static void full_buffers_go_out_in_the_order_in_which_they_fill(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.buffer_size = 1024;
    etl_writer *w = new_writer(&b, &opts);
    uint8_t payload[64 - 16] = {0};
    unsigned count[3] = {0};
    for (unsigned i = 0; i < 300; i++) { /* processor 2 gets half of all, 0 and 1 a quarter each */
        uint16_t cpu = i % 2 ? 2 : (uint16_t)(i / 2 % 2);
        store_u32(payload, count[cpu]++);
        etl_event_head head = sample_head(cpu, START + i);
        add(w, &head, payload, sizeof payload);
    }
    finish(w);

    etl_file *f = open_file(&b);
    etl_walk walk = etl_walk_new(f, NULL);
    unsigned seen[3] = {0};
    uint64_t last_flush = 0;
    size_t n = etl_buffer_count(f);
    assert_int_equal(etl_get_header(f)->buffers_written, n);
    for (size_t i = 1; i < n; i++) {
        const etl_buffer *buffer = etl_get_buffer(f, i);
        assert_int_equal(buffer->sequence, i);
        assert_int_equal(buffer->flags, i + 1 == n ? 0x21 : 0x20);
        if (i + 3 < n) { /* but for the last ones, which are not full */
            assert_int_equal(buffer->data_end, 72 + 14 * 64);
            /* It goes out with the processor's next event, four later at most. */
            assert_true(buffer->time + 4 >= last_flush);
        }
        last_flush = buffer->time;
        assert_true(etl_walk_buffer(&walk, i));
        for (etl_record r; etl_walk_next(&walk, &r);)
            assert_int_equal(load_u32(r.payload.ptr), seen[r.cpu]++);
    }
    assert_memory_equal(seen, count, sizeof seen);
    etl_walk_free(&walk);
    etl_close(f);
    bytes_free(&b);
}

static void flush_ends_all_buffers_and_the_last_is_marked_at_the_end(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    etl_writer *w = new_writer(&b, &opts);
    for (uint16_t cpu = 0; cpu < 3; cpu++) {
        etl_event_head head = sample_head((uint16_t)(2 - cpu), START);
        add(w, &head, NULL, 0);
    }
    assert_int_equal(etl_writer_flush(w, NULL), SPGO_OK);
    assert_int_equal(b.len, 4 * 4096);
    assert_int_equal(etl_writer_flush(w, NULL), SPGO_OK);
    assert_int_equal(b.len, 4 * 4096);
    for (uint16_t cpu = 0; cpu < 3; cpu++) {
        const uint8_t *p = b.ptr + (cpu + 1) * 4096;
        assert_int_equal(load_u16(p + 0x28), cpu);
        assert_int_equal(load_u16(p + 0x34), 0x20);
    }
    finish(w);
    assert_int_equal(load_u16(b.ptr + 3 * 4096 + 0x34), 0x21);
    assert_int_equal(load_u16(b.ptr + 2 * 4096 + 0x34), 0x20);
    bytes_free(&b);
}

static void time_that_goes_back_is_refused(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    etl_writer *w = new_writer(&b, &opts);
    etl_event_head early = sample_head(0, START - 1), later = sample_head(0, START + 10),
                   before = sample_head(0, START + 9), other = sample_head(1, START + 9);
    assert_int_equal(etl_writer_add(w, &early, (spgo_span){0}, NULL), SPGO_USAGE);
    add(w, &later, NULL, 0);
    add(w, &later, NULL, 0);
    assert_int_equal(etl_writer_add(w, &before, (spgo_span){0}, NULL), SPGO_USAGE);
    add(w, &other, NULL, 0); /* each processor has its own order */
    assert_int_equal(etl_writer_flush(w, NULL), SPGO_OK);
    assert_int_equal(etl_writer_add(w, &before, (spgo_span){0}, NULL), SPGO_USAGE);
    finish(w);
    bytes_free(&b);
}

static void too_large_records_are_refused(void **state)
{
    (void)state;
    static const uint8_t zeros[70000];
    etl_writer_opts opts = some_opts();
    const size_t fitting[2] = {4096 - 72 - 16, 65535 - 16};
    for (int i = 0; i < 2; i++) {
        bytes b = {0};
        opts.buffer_size = i ? 128 * 1024 : 4096;
        etl_writer *w = new_writer(&b, &opts);
        etl_event_head head = sample_head(0, START);
        spgo_span large = {zeros, fitting[i] + 1};
        assert_int_equal(etl_writer_add(w, &head, large, NULL), SPGO_LIMIT);
        add(w, &head, zeros, fitting[i]);
        head.version = 256;
        assert_int_equal(etl_writer_add(w, &head, (spgo_span){0}, NULL), SPGO_USAGE);
        finish(w);
        etl_file *f = open_file(&b);
        assert_int_equal(etl_buffer_count(f), 2);
        etl_close(f);
        bytes_free(&b);
    }
}

static void impossible_heads_are_refused(void **state)
{
    (void)state;
    bytes b = {0};
    etl_writer_opts opts = some_opts();
    opts.cpu_count = 2;
    etl_writer *w = new_writer(&b, &opts);
    uint8_t eight[8] = {8};
    etl_event_head message = full_head(ETL_MESSAGE), unknown = full_head(99),
                   odd_chain = full_head(ETL_EVENT64), chain = full_head(ETL_FULL64),
                   counters = sample_head(0, START), cpu = sample_head(2, START);
    message.cpu = unknown.cpu = odd_chain.cpu = chain.cpu = 0;
    odd_chain.extended = (spgo_span){eight, 7};
    chain.extended = (spgo_span){eight, 8};
    counters.pmc_count = 8;
    const etl_event_head *heads[] = {&message, &unknown, &odd_chain, &chain, &counters, &cpu};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        spgo_error err = {0};
        assert_int_equal(etl_writer_add(w, heads[i], (spgo_span){0}, &err), SPGO_USAGE);
        assert_true(err.sentence[0] != '\0');
    }
    finish(w);
    assert_int_equal(b.len, 4096);
    bytes_free(&b);
}

static void impossible_options_are_refused(void **state)
{
    (void)state;
    bytes b = {0};
    const etl_writer_opts wrong[] = {
        {.buffer_size = 1000},
        {.buffer_size = LIMIT_ETL_BUFFER_BYTES + 1024},
        {.ptr_size = 6},
        {.cpu_count = 2049},
        {.cpu_count = 257, .win7 = true},
        {.clock_type = 4},
        {.win7 = true, .compress = true},
    };
    etl_writer *w;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(etl_writer_new(bytes_sink(&b), &wrong[i], &w, NULL), SPGO_USAGE);
        assert_null(w);
    }
    spgo_sink stream = bytes_sink(&b);
    stream.patch = NULL;
    etl_writer_opts opts = some_opts();
    assert_int_equal(etl_writer_new(stream, &opts, &w, NULL), SPGO_USAGE);
    char name[700];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    opts.session_name = name;
    opts.buffer_size = 1024;
    assert_int_equal(etl_writer_new(bytes_sink(&b), &opts, &w, NULL), SPGO_LIMIT);
    assert_int_equal(b.len, 0);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ sinks that fail */

typedef struct weak_sink {
    bytes b;
    unsigned calls, fail_at;
} weak_sink;

static bool weak_write(void *ctx, const void *data, size_t len)
{
    weak_sink *s = ctx;
    if (s->calls++ >= s->fail_at)
        return false;
    bytes_put(&s->b, data, len);
    return true;
}

static bool weak_patch(void *ctx, uint64_t offset, const void *data, size_t len)
{
    weak_sink *s = ctx;
    if (s->calls++ >= s->fail_at)
        return false;
    memcpy(s->b.ptr + offset, data, len);
    return true;
}

static void every_refusal_of_the_sink_is_reported(void **state)
{
    (void)state;
    etl_scenario scenario;
    assert_true(etl_scenario_parse("lbr:50,small-buffers", &scenario, NULL));
    bool done = false;
    unsigned fail_at = 0;
    for (; !done && fail_at < 1000; fail_at++) {
        weak_sink s = {.fail_at = fail_at};
        spgo_error err = {0};
        spgo_sink sink = {.ctx = &s, .write = weak_write, .patch = weak_patch};
        spgo_code code = etl_build(&scenario, sink, NULL, &err);
        done = code == SPGO_OK;
        if (!done) {
            assert_int_equal(code, SPGO_IO);
            assert_int_equal(err.code, SPGO_IO);
            assert_int_equal(s.calls, fail_at + 1); /* nothing more is tried */
        }
        bytes_free(&s.b);
    }
    assert_true(done);
    assert_true(fail_at > 10);
}

static void a_broken_writer_stays_broken(void **state)
{
    (void)state;
    weak_sink s = {.fail_at = 1};
    etl_writer_opts opts = some_opts();
    etl_writer *w;
    assert_int_equal(
        etl_writer_new((spgo_sink){.ctx = &s, .write = weak_write, .patch = weak_patch}, &opts, &w,
                       NULL),
        SPGO_OK);
    etl_event_head head = sample_head(0, START);
    add(w, &head, NULL, 0);
    assert_int_equal(etl_writer_flush(w, NULL), SPGO_IO);
    assert_int_equal(etl_writer_add(w, &head, (spgo_span){0}, NULL), SPGO_IO);
    assert_int_equal(etl_writer_flush(w, NULL), SPGO_IO);
    assert_int_equal(etl_writer_finish(w, 0, NULL), SPGO_IO);
    bytes_free(&s.b);
}

/* ------------------------------------------------------------------ encoders */

/* A payload under a hook, as PERFINFO of the pointer size. */
static void encode_round_trip(round_trip *t, bytes *payload, uint16_t hook, uint16_t version,
                              unsigned ptr_size)
{
    etl_event_head h = {.type = ptr_size == 8 ? ETL_PERFINFO64 : ETL_PERFINFO32,
                        .time = START + 1000,
                        .hook = hook,
                        .version = version};
    write_and_read(t, &h, bytes_span(payload));
    size_t used;
    if (etl_payload_used(&t->record, &used))
        assert_int_equal(used, payload->len);
    bytes_free(payload);
}

static void class_round_trip(round_trip *t, bytes *payload, const spgo_guid *guid, uint8_t opcode,
                             uint16_t version, unsigned ptr_size)
{
    etl_event_head h = {.type = ptr_size == 8 ? ETL_FULL64 : ETL_FULL32,
                        .time = START,
                        .pid = 77,
                        .guid = *guid,
                        .opcode = opcode,
                        .version = version};
    write_and_read(t, &h, bytes_span(payload));
    size_t used;
    if (etl_payload_used(&t->record, &used))
        assert_int_equal(used, payload->len);
    bytes_free(payload);
}

static void processes_are_read_back(void **state)
{
    (void)state;
    static const uint8_t sid[] = {1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0};
    for (unsigned i = 0; i < 2 * 6 * 2; i++) {
        unsigned ptr_size = i & 1 ? 8 : 4, version = i / 2 % 6;
        bool has_sid = i >= 12;
        etl_process p = {.pid = 1234,
                         .parent_pid = 99,
                         .session_id = 1,
                         .exit_status = -1073741819,
                         .flags = 2,
                         .unique_key = 0x87654321,
                         .image_name = {"n\xC3\xA4me.exe", 9},
                         .package = {(const uint8_t *)"P\0k\0", 4},
                         .app = {(const uint8_t *)"A\0", 2},
                         .exit_filetime = START_FILETIME};
        if (has_sid)
            p.sid = (spgo_span){sid, sizeof sid};
        bytes payload = {0};
        etl_encode_process(&payload, &p, "\"x\" \xE2\x82\xAC", version, ptr_size);
        round_trip t;
        encode_round_trip(&t, &payload, 0x0303, (uint16_t)version, ptr_size);
        etl_process q;
        assert_int_equal(etl_record_event(&t.record), ETL_EV_PROCESS_DC_START);
        assert_true(etl_decode_process(&t.record, &q));
        assert_int_equal(q.pid, 1234);
        assert_int_equal(q.parent_pid, 99);
        assert_span_equal(q.sid, p.sid.ptr, p.sid.len);
        assert_str(q.image_name, "n\xC3\xA4me.exe");
        assert_int_equal(q.session_id, version >= 1 ? 1 : 0);
        assert_int_equal(q.exit_status, version >= 1 ? -1073741819 : 0);
        assert_int_equal(q.unique_key, version >= 2 ? 0x87654321 : 0);
        assert_utf16(q.command_line, version >= 2 ? "\"x\" \xE2\x82\xAC" : "");
        assert_int_equal(q.flags, version >= 4 ? 2 : 0);
        assert_utf16(q.package, version >= 4 ? "Pk" : "");
        assert_utf16(q.app, version >= 4 ? "A" : "");
        assert_int_equal(q.has_exit_time, version >= 5);
        round_trip_free(&t);
    }
}

static void threads_are_read_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 5 * 2; i++) {
        unsigned ptr_size = i & 1 ? 8 : 4, version = i / 2 % 5;
        const char *name = i >= 10 ? "W\xC3\xB6rker" : NULL;
        etl_thread s = {
            .pid = 1234, .tid = 1238, .start_addr = 0x401000, .win32_start_addr = 0x402000};
        bytes payload = {0};
        etl_encode_thread(&payload, &s, name, version, ptr_size);
        round_trip t;
        encode_round_trip(&t, &payload, 0x0501, (uint16_t)version, ptr_size);
        etl_thread q;
        assert_true(etl_decode_thread(&t.record, &q));
        assert_int_equal(q.pid, 1234);
        assert_int_equal(q.tid, 1238);
        assert_int_equal(q.start_addr, version >= 1 ? 0x401000 : 0);
        assert_int_equal(q.win32_start_addr, version >= 1 ? 0x402000 : 0);
        assert_utf16(q.name, version >= 3 && name ? name : "");
        round_trip_free(&t);
    }
}

static void thread_names_are_read_back(void **state)
{
    (void)state;
    bytes payload = {0};
    etl_encode_thread_name(&payload, 12, 16, "\xF0\x9F\x90\x9F");
    round_trip t;
    encode_round_trip(&t, &payload, 0x0548, 2, 8);
    etl_thread q;
    assert_true(etl_decode_thread(&t.record, &q));
    assert_int_equal(q.pid, 12);
    assert_int_equal(q.tid, 16);
    assert_span_equal(q.name, "\x3D\xD8\x1F\xDC", 4);
    round_trip_free(&t);
}

static void context_switches_are_read_back(void **state)
{
    (void)state;
    etl_cswitch s = {.new_tid = 8,
                     .old_tid = 9,
                     .new_priority = -3,
                     .old_priority = 15,
                     .old_wait_reason = 6,
                     .old_wait_mode = 1,
                     .old_state = 5,
                     .new_wait_time = 70};
    bytes payload = {0};
    etl_encode_cswitch(&payload, &s);
    assert_int_equal(payload.len, 24);
    round_trip t;
    encode_round_trip(&t, &payload, 0x0524, 4, 8);
    etl_cswitch q;
    assert_true(etl_decode_cswitch(&t.record, &q));
    assert_int_equal(q.new_tid, 8);
    assert_int_equal(q.old_tid, 9);
    assert_int_equal(q.new_priority, -3);
    assert_int_equal(q.old_priority, 15);
    assert_int_equal(q.old_wait_reason, 6);
    assert_int_equal(q.old_wait_mode, 1);
    assert_int_equal(q.old_state, 5);
    assert_int_equal(q.new_wait_time, 70);
    round_trip_free(&t);
}

static void images_are_read_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 4; i++) {
        unsigned ptr_size = i & 1 ? 8 : 4, version = i / 2;
        etl_image s = {.base = ptr_size == 8 ? 0x7FF612340000u : 0x12340000u,
                       .size = 0x5000,
                       .pid = 77,
                       .checksum = 0xABCD,
                       .time_date_stamp = 0x65000000,
                       .default_base = 0x400000};
        bytes payload = {0};
        etl_encode_image(&payload, &s, "\\Device\\HarddiskVolume3\\\xC3\xBC.dll", version,
                         ptr_size);
        round_trip t;
        class_round_trip(&t, &payload, &ETL_GUID_IMAGE, 10, (uint16_t)version, ptr_size);
        etl_image q;
        assert_int_equal(etl_record_event(&t.record), ETL_EV_IMAGE_LOAD);
        assert_true(etl_decode_image(&t.record, &q));
        assert_true(q.base == s.base);
        assert_int_equal(q.size, 0x5000);
        assert_int_equal(q.pid, 77);
        assert_int_equal(q.checksum, version >= 2 ? 0xABCD : 0);
        assert_int_equal(q.time_date_stamp, version >= 2 ? 0x65000000 : 0);
        assert_int_equal(q.default_base, version >= 2 ? 0x400000 : 0);
        assert_utf16(q.file_name, "\\Device\\HarddiskVolume3\\\xC3\xBC.dll");
        round_trip_free(&t);
    }
}

static void image_identities_are_read_back(void **state)
{
    (void)state;
    for (unsigned ptr_size = 4; ptr_size <= 8; ptr_size += 4) {
        etl_image_id s = {.base = 0x12340000,
                          .size = 0x7000,
                          .pid = 77,
                          .time_date_stamp = 0x65000001,
                          .id = {{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, 5},
                          .pdb = {"c:\\x.pdb", 8}};
        round_trip t;
        etl_image_id q;
        bytes payload = {0};
        etl_encode_image_id(&payload, &s, "x.exe", ptr_size);
        class_round_trip(&t, &payload, &ETL_GUID_IMAGE_ID, 0, 2, ptr_size);
        assert_int_equal(etl_record_event(&t.record), ETL_EV_IMAGE_ID);
        assert_true(etl_decode_image_id(&t.record, &q));
        assert_int_equal(q.base, 0x12340000);
        assert_int_equal(q.size, 0x7000);
        assert_int_equal(q.pid, 77);
        assert_int_equal(q.time_date_stamp, 0x65000001);
        assert_utf16(q.original_name, "x.exe");
        round_trip_free(&t);

        etl_encode_image_rsds(&payload, &s, ptr_size);
        assert_int_equal(payload.len, ptr_size + 4 + 20 + 9);
        class_round_trip(&t, &payload, &ETL_GUID_IMAGE_ID, 0x24, 2, ptr_size);
        assert_int_equal(etl_record_event(&t.record), ETL_EV_IMAGE_RSDS);
        assert_true(etl_decode_image_id(&t.record, &q));
        assert_int_equal(q.pid, 77);
        assert_memory_equal(&q.id.guid, &s.id.guid, 16);
        assert_int_equal(q.id.age, 5);
        assert_str(q.pdb, "c:\\x.pdb");
        round_trip_free(&t);

        etl_encode_image_no_debug(&payload, &s, ptr_size);
        class_round_trip(&t, &payload, &ETL_GUID_IMAGE_ID, 0x20, 2, ptr_size);
        assert_int_equal(etl_record_event(&t.record), ETL_EV_IMAGE_NO_DEBUG);
        assert_true(etl_decode_image_id(&t.record, &q));
        assert_int_equal(q.base, 0x12340000);
        assert_int_equal(q.pid, 77);
        round_trip_free(&t);
    }
}

static void volumes_are_read_back(void **state)
{
    (void)state;
    bytes payload = {0};
    etl_encode_volume(&payload, "\\Device\\HarddiskVolume3\\", "C:\\");
    round_trip t;
    class_round_trip(&t, &payload, &ETL_GUID_SYSTEM_CONFIG_EX, 0x23, 0, 8);
    etl_volume q;
    assert_int_equal(etl_record_event(&t.record), ETL_EV_VOLUME_MAPPING);
    assert_true(etl_decode_volume(&t.record, &q));
    assert_utf16(q.nt_path, "\\Device\\HarddiskVolume3\\");
    assert_utf16(q.dos_path, "C:\\");
    round_trip_free(&t);
}

static void samples_are_read_back(void **state)
{
    (void)state;
    for (unsigned ptr_size = 4; ptr_size <= 8; ptr_size += 4) {
        etl_sample s[3] = {{.ip = ptr_size == 8 ? 0x7FFC8CAC0EC9u : 0x8CAC0EC9u,
                            .tid = 0xF94,
                            .count = 1,
                            .flags = 0x41,
                            .rank = 2,
                            .source = 29},
                           {.ip = 2, .tid = 22, .count = 1},
                           {.ip = 3, .tid = 33, .count = 4}};
        round_trip t;
        etl_sample q;
        bytes payload = {0};
        etl_encode_sampled_profile(&payload, s, ptr_size);
        assert_int_equal(payload.len, ptr_size + 8);
        encode_round_trip(&t, &payload, 0x0F2E, 2, ptr_size);
        assert_true(etl_decode_sample(&t.record, &q));
        assert_true(q.ip == s->ip);
        assert_int_equal(q.tid, 0xF94);
        assert_int_equal(q.count, 1);
        assert_int_equal(q.flags, 0x41);
        assert_int_equal(q.rank, 2);
        round_trip_free(&t);

        etl_encode_pmc_interrupt(&payload, s, ptr_size);
        if (ptr_size == 8) /* the bytes of a recorded event */
            assert_span_equal(bytes_span(&payload),
                              "\xC9\x0E\xAC\x8C\xFC\x7F\0\0\x94\x0F\0\0\x1D\0\0\0", 16);
        encode_round_trip(&t, &payload, 0x0F2F, 2, ptr_size);
        assert_true(etl_decode_sample(&t.record, &q));
        assert_true(q.ip == s->ip);
        assert_int_equal(q.source, 29);
        round_trip_free(&t);

        etl_encode_sample_cache(&payload, s, 3, ptr_size);
        encode_round_trip(&t, &payload, 0x0F37, 2, ptr_size);
        assert_int_equal(etl_sample_cache_count(&t.record), 3);
        for (size_t i = 0; i < 3; i++) {
            assert_true(etl_decode_cached_sample(&t.record, i, &q));
            assert_true(q.ip == s[i].ip && q.tid == s[i].tid && q.count == s[i].count);
        }
        round_trip_free(&t);
    }
}

static void intervals_are_read_back(void **state)
{
    (void)state;
    for (unsigned version = 2; version <= 3; version++) {
        etl_interval s = {30, 65537, 65536, {0}};
        bytes payload = {0};
        etl_encode_interval(&payload, &s, "BranchInstructionRetired", version);
        round_trip t;
        encode_round_trip(&t, &payload, 0x0F49, (uint16_t)version, 8);
        etl_interval q;
        assert_true(etl_decode_interval(&t.record, &q));
        assert_int_equal(q.source, 30);
        assert_int_equal(q.new_interval, 65537);
        assert_int_equal(q.old_interval, 65536);
        assert_utf16(q.name, version == 3 ? "BranchInstructionRetired" : "");
        round_trip_free(&t);
    }
}

static void counter_names_have_their_layout(void **state)
{
    (void)state;
    bytes payload = {0};
    etl_encode_pmc_names(&payload, (const char *const[]){"A", "BC"}, 2);
    assert_span_equal(bytes_span(&payload), "\2\0\0\0A\0\0\0B\0C\0\0\0", 14);
    bytes_free(&payload);
}

static void branches_are_read_back(void **state)
{
    (void)state;
    static const uint64_t branches[3][3] = {
        {0x401005, 0x401000, 7}, {0x402005, 0x402000, 8}, {0x403005, 0x403000, 9}};
    for (unsigned i = 0; i < 2 * 4; i++) {
        unsigned ptr_size = i & 1 ? 8 : 4;
        size_t count = i / 2;
        etl_lbr s = {.time = START + 1, .pid = 5, .tid = 6, .options = 0x21};
        bytes payload = {0};
        etl_encode_lbr(&payload, &s, branches, count, ptr_size);
        assert_int_equal(payload.len, ptr_size == 8 ? 24 + 24 * count : 20 + 12 * count);
        round_trip t;
        encode_round_trip(&t, &payload, 0x0C20, 2, ptr_size);
        etl_lbr q;
        assert_int_equal(etl_record_event(&t.record), ETL_EV_LBR);
        assert_true(etl_decode_lbr(&t.record, &q));
        assert_int_equal(q.time, START + 1);
        assert_int_equal(q.pid, 5);
        assert_int_equal(q.tid, 6);
        assert_int_equal(q.options, 0x21);
        assert_int_equal(q.branch_count, count);
        reader r = reader_from(q.branches, 0);
        for (size_t k = 0; k < 3 * count; k++)
            assert_int_equal(reader_ptr(&r, ptr_size), branches[k / 3][k % 3]);
        round_trip_free(&t);
    }
}

static void stacks_are_read_back(void **state)
{
    (void)state;
    static const uint64_t frames[3] = {0x401234, 0x405678, 0x409ABC};
    static const uint16_t hooks[] = {0x1820, 0x1825, 0x1826, 0x1822, 0x1823, 0x1824};
    for (unsigned i = 0; i < 2 * 6; i++) {
        unsigned ptr_size = i & 1 ? 8 : 4;
        uint16_t hook = hooks[i / 2];
        bool is_plain = hook == 0x1820, is_use = hook == 0x1825 || hook == 0x1826;
        etl_stack s = {.time = START + 1, .pid = 5, .tid = 6, .key = 0x91234560};
        bytes payload = {0};
        if (is_plain)
            etl_encode_stack(&payload, &s, frames, 3, ptr_size);
        else if (is_use)
            etl_encode_stack_key_use(&payload, &s, ptr_size);
        else
            etl_encode_stack_key_def(&payload, &s, frames, 3, ptr_size);
        round_trip t;
        encode_round_trip(&t, &payload, hook, 2, ptr_size);
        etl_stack q;
        assert_true(etl_decode_stack(&t.record, &q));
        if (is_plain || is_use) {
            assert_int_equal(q.time, START + 1);
            assert_int_equal(q.pid, 5);
            assert_int_equal(q.tid, 6);
        }
        if (!is_plain)
            assert_int_equal(q.key, 0x91234560);
        assert_int_equal(q.frame_count, is_use ? 0 : 3);
        reader r = reader_from(q.frames, 0);
        for (size_t k = 0; k < q.frame_count; k++)
            assert_int_equal(reader_ptr(&r, ptr_size), frames[k]);
        round_trip_free(&t);
    }
}

/* ------------------------------------------------------------------ compression */

/* Expands and compares, and checks how the stream ends. Returns the compressed size. */
static size_t compress_and_expand(const uint8_t *data, size_t len)
{
    bytes packed = {0};
    xpress_compress(&packed, (spgo_span){data, len});
    assert_false(packed.failed);
    uint8_t *back = malloc(len + 1);
    assert_non_null(back);
    size_t used;
    assert_true(xpress_expand(bytes_span(&packed), back, len, &used));
    if (len)
        assert_memory_equal(back, data, len);
    /* What the expander leaves is at most one group of ones. */
    assert_true(used == packed.len || used + 4 == packed.len);
    if (used + 4 == packed.len)
        assert_memory_equal(packed.ptr + used, "\xFF\xFF\xFF\xFF", 4);
    size_t size = packed.len;
    free(back);
    bytes_free(&packed);
    return size;
}

static void noise_of_every_length_survives(void **state)
{
    (void)state;
    uint8_t noise[2000];
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)synth_random(&random);
    for (size_t len = 0; len <= 300; len++)
        assert_true(compress_and_expand(noise, len) <= len + len / 32 * 4 + 4);
    compress_and_expand(noise, sizeof noise);
}

static void repeated_text_survives(void **state)
{
    (void)state;
    static const char *const words[] = {"the ", "branch ", "of ", "a ", "sample", "\r\n", "taken "};
    static uint8_t text[200000];
    uint64_t random = 3;
    size_t len = 0;
    while (len + 8 < sizeof text) {
        const char *word = words[synth_random(&random) % 7];
        memcpy(text + len, word, strlen(word));
        len += strlen(word);
    }
    for (size_t cut = 0; cut < 200; cut++)
        compress_and_expand(text, cut);
    assert_true(compress_and_expand(text, len) < len / 2);
}

/* Match lengths around every change of their encoding: 3 + 7, + 15, + 255 and 65535. */
static void long_matches_survive(void **state)
{
    (void)state;
    static uint8_t data[200000];
    for (size_t len = 0; len < 700; len++)
        compress_and_expand(data, len);
    for (size_t len = 65520; len < 65560; len++)
        compress_and_expand(data, len);
    assert_true(compress_and_expand(data, sizeof data) < 64);
    for (size_t length = 1; length < 330; length++) { /* two matches share a byte of length */
        uint8_t two[1024];
        memset(two, 'a', length);
        two[length] = 'x';
        memset(two + length + 1, 'b', length);
        compress_and_expand(two, 2 * length + 1);
    }
}

static void far_matches_stay_within_the_window(void **state)
{
    (void)state;
    static uint8_t data[30000];
    for (size_t distance = 8180; distance < 8200; distance++) {
        uint64_t random = distance;
        for (size_t i = 0; i < distance; i++)
            data[i] = (uint8_t)synth_random(&random);
        for (size_t i = distance; i < sizeof data; i++)
            data[i] = data[i - distance];
        size_t size = compress_and_expand(data, sizeof data);
        assert_true(distance <= 8192 ? size < 10000 : size > 20000);
    }
}

static void last_group_ends_with_ones(void **state)
{
    (void)state;
    bytes b = {0};
    xpress_compress(&b, (spgo_span){0});
    assert_span_equal(bytes_span(&b), "\xFF\xFF\xFF\xFF", 4);
    bytes_clear(&b);
    xpress_compress(&b, (spgo_span){(const uint8_t *)"abc", 3});
    assert_span_equal(bytes_span(&b),
                      "\xFF\xFF\xFF\x1F"
                      "abc",
                      7);
    bytes_clear(&b);
    uint8_t all[32];
    for (unsigned i = 0; i < 32; i++)
        all[i] = (uint8_t)i;
    xpress_compress(&b, (spgo_span){all, 32});
    assert_int_equal(b.len, 4 + 32 + 4);
    assert_int_equal(load_u32(b.ptr), 0);
    assert_int_equal(load_u32(b.ptr + 36), 0xFFFFFFFF);
    bytes_free(&b);
}

static void compression_appends(void **state)
{
    (void)state;
    bytes b = {0};
    bytes_put(&b, "head", 4);
    xpress_compress(&b, (spgo_span){(const uint8_t *)"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 29});
    assert_memory_equal(b.ptr, "head", 4);
    uint8_t back[29];
    size_t used;
    assert_true(xpress_expand((spgo_span){b.ptr + 4, b.len - 4}, back, 29, &used));
    assert_memory_equal(back, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 29);
    bytes_free(&b);
}

/* Buffers that the relogger compressed: ours of the same bytes are no larger. */
static void real_buffers_compress_as_well_as_the_relogger_does(void **state)
{
    (void)state;
    spgo_span s = test_data_or_skip("etl/perfview__net.4.5.2.x64.etl");
    size_t theirs = 0, ours = 0, count = 0;
    static uint8_t plain[65536];
    for (size_t at = load_u32(s.ptr); at < s.len; at += load_u32(s.ptr + at)) {
        spgo_span in = {s.ptr + at + 72, load_u32(s.ptr + at) - 72};
        size_t len = load_u32(s.ptr + at + 4) - 72, used;
        assert_true(xpress_expand(in, plain, len, &used));
        theirs += in.len;
        ours += compress_and_expand(plain, len);
        count++;
    }
    assert_int_equal(count, 359);
    print_message("compressed: %zu bytes, the relogger %zu\n", ours, theirs);
    assert_true(ours <= theirs);
    test_data_free(s);
}

/* ------------------------------------------------------------------ whole traces */

static void scenarios_hold_what_they_say(void **state)
{
    (void)state;
    static const char *const scenarios[] = {"lbr",
                                            "timer",
                                            "stacks",
                                            "no-rsds",
                                            "no-samples",
                                            "32bit",
                                            "win7",
                                            "merged",
                                            "two-processes",
                                            "compressed,kernel",
                                            "pid-reuse",
                                            "unclosed",
                                            "kernel",
                                            "lost",
                                            "shuffled,small-buffers",
                                            "circular,small-buffers",
                                            "mixed,cpus:7,small-buffers",
                                            "lbr,32bit,compressed,pid-reuse"};
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        etl_scenario scenario;
        assert_true(etl_scenario_parse(scenarios[i], &scenario, NULL));
        bytes b = {0}, again = {0};
        etl_built built;
        spgo_error err = {0};
        if (etl_build(&scenario, bytes_sink(&b), &built, &err) != SPGO_OK)
            fail_msg("%s: %s", scenarios[i], err.sentence);
        assert_int_equal(etl_build(&scenario, bytes_sink(&again), NULL, NULL), SPGO_OK);
        assert_span_equal(bytes_span(&again), b.ptr, b.len);

        etl_file *f;
        etl_stream *stream;
        assert_int_equal(etl_open(bytes_span(&b), &f, NULL, NULL), SPGO_OK);
        assert_int_equal(etl_stream_open((const etl_file *const *)&f, 1, NULL, &stream, NULL),
                         SPGO_OK);
        uint64_t found[ETL_EV_COUNT] = {0}, records = 0, branches = 0, last_time = 0;
        etl_record r;
        for (size_t file; etl_stream_next(stream, &r, &file); records++) {
            found[etl_record_event(&r)]++;
            assert_true(r.time >= last_time);
            last_time = r.time;
            etl_lbr lbr;
            if (etl_record_event(&r) == ETL_EV_LBR && etl_decode_lbr(&r, &lbr))
                branches += lbr.branch_count;
        }
        assert_int_equal(etl_stream_bad_records(stream) + etl_stream_bad_buffers(stream), 0);
        assert_int_equal(records, built.records + 1);
        assert_int_equal(last_time, built.last_time);
        assert_int_equal(found[ETL_EV_PMC_INTERRUPT], built.pmc_samples);
        assert_int_equal(found[ETL_EV_SAMPLED_PROFILE], built.timer_samples);
        assert_int_equal(found[ETL_EV_LBR], built.lbr_records);
        assert_int_equal(branches, built.branches);
        assert_int_equal(found[ETL_EV_STACK], built.plain_stacks);
        assert_int_equal(found[ETL_EV_STACK_KEY_USER], built.key_stacks);
        assert_int_equal(found[ETL_EV_UNKNOWN], 0);
        etl_stream_close(stream);
        etl_close(f);
        bytes_free(&b);
        bytes_free(&again);
    }
}

static void unknown_scenarios_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",         "lbr:", "lbr:0", "lbr:1x",
                                        "kernel:1", "lbrs", "lbr,",  "lbr,nothing"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        etl_scenario s;
        assert_false(etl_scenario_parse(wrong[i], &s, NULL));
    }
}

/* Between neighbouring branches lies a straight run: the later one starts where, or behind where,
 * the earlier one went, in a block of the same function. */
static void branches_of_scenarios_are_consistent(void **state)
{
    (void)state;
    etl_scenario scenario;
    assert_true(etl_scenario_parse("lbr:300,kernel", &scenario, NULL));
    bytes b = {0};
    etl_built built;
    assert_int_equal(etl_build(&scenario, bytes_sink(&b), &built, NULL), SPGO_OK);
    assert_true(built.kernel_samples > 0 && built.kernel_samples < built.pmc_samples);
    assert_true(built.same_image_branches < built.branches);
    etl_file *f = open_file(&b);
    etl_walk walk = etl_walk_new(f, NULL);
    for (size_t i = 1; i < etl_buffer_count(f); i++) {
        assert_true(etl_walk_buffer(&walk, i));
        for (etl_record r; etl_walk_next(&walk, &r);) {
            etl_lbr l;
            if (etl_record_event(&r) != ETL_EV_LBR)
                continue;
            assert_true(etl_decode_lbr(&r, &l));
            for (size_t k = 0; k + 1 < l.branch_count; k++) {
                uint64_t from = load_u64(l.branches.ptr + 24 * k);
                uint64_t earlier_to = load_u64(l.branches.ptr + 24 * (k + 1) + 8);
                assert_true(from >= earlier_to && from - earlier_to < 24 * 48);
            }
        }
    }
    etl_walk_free(&walk);
    etl_close(f);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_buffer_has_the_fields_of_a_live_logger),
        cmocka_unit_test(header_of_a_32_bit_system_has_short_pointers),
        cmocka_unit_test(data_buffer_has_the_fields_of_a_live_logger),
        cmocka_unit_test(win7_buffers_keep_the_processor_in_a_byte),
        cmocka_unit_test(merged_files_look_like_those_of_the_relogger),
        cmocka_unit_test(compressed_files_have_a_small_header_buffer),
        cmocka_unit_test(what_does_not_compress_goes_out_plain),
        cmocka_unit_test(header_event_is_read_back),
        cmocka_unit_test(ill_formed_names_become_replacement_characters),
        cmocka_unit_test(unclosed_files_have_no_end),
        cmocka_unit_test(every_record_type_is_read_back),
        cmocka_unit_test(counter_values_stand_between_header_and_payload),
        cmocka_unit_test(extended_items_are_read_back),
        cmocka_unit_test(full_buffers_go_out_in_the_order_in_which_they_fill),
        cmocka_unit_test(flush_ends_all_buffers_and_the_last_is_marked_at_the_end),
        cmocka_unit_test(time_that_goes_back_is_refused),
        cmocka_unit_test(too_large_records_are_refused),
        cmocka_unit_test(impossible_heads_are_refused),
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(every_refusal_of_the_sink_is_reported),
        cmocka_unit_test(a_broken_writer_stays_broken),
        cmocka_unit_test(processes_are_read_back),
        cmocka_unit_test(threads_are_read_back),
        cmocka_unit_test(thread_names_are_read_back),
        cmocka_unit_test(context_switches_are_read_back),
        cmocka_unit_test(images_are_read_back),
        cmocka_unit_test(image_identities_are_read_back),
        cmocka_unit_test(volumes_are_read_back),
        cmocka_unit_test(samples_are_read_back),
        cmocka_unit_test(intervals_are_read_back),
        cmocka_unit_test(counter_names_have_their_layout),
        cmocka_unit_test(branches_are_read_back),
        cmocka_unit_test(stacks_are_read_back),
        cmocka_unit_test(noise_of_every_length_survives),
        cmocka_unit_test(repeated_text_survives),
        cmocka_unit_test(long_matches_survive),
        cmocka_unit_test(far_matches_stay_within_the_window),
        cmocka_unit_test(last_group_ends_with_ones),
        cmocka_unit_test(compression_appends),
        cmocka_unit_test(real_buffers_compress_as_well_as_the_relogger_does),
        cmocka_unit_test(scenarios_hold_what_they_say),
        cmocka_unit_test(unknown_scenarios_are_refused),
        cmocka_unit_test(branches_of_scenarios_are_consistent),
    };
    return cmocka_run_group_tests_name("etl_write", tests, NULL, NULL);
}
