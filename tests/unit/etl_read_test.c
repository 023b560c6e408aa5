/* Opening, buffers, records, merging: of files built byte by byte, whole and broken. */
#include "test_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/limits.h>
#include <base/reader.h>
#include <base/text.h>
#include <format/etl/etl_dump.h>
#include <format/etl/etl_internal.h>
#include <format/etl/etl_tally.h>

#include "etl_raw.h"

static spgo_error err;
static diag findings;
static bytes file_bytes;

static int setup(void **state)
{
    (void)state;
    memset(&err, 0, sizeof err);
    memset(&findings, 0, sizeof findings);
    bytes_clear(&file_bytes);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    bytes_free(&file_bytes);
    return 0;
}

static etl_file *open_built(void)
{
    etl_file *f;
    if (etl_open(bytes_span(&file_bytes), &f, &findings, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return f;
}

static void assert_open_fails(spgo_code code, uint64_t offset)
{
    etl_file *f;
    assert_int_equal(etl_open(bytes_span(&file_bytes), &f, &findings, &err), code);
    assert_null(f);
    assert_int_equal(err.code, code);
    assert_int_equal(err.offset, offset);
}

static void assert_one_finding(spgo_code code, uint64_t offset)
{
    assert_int_equal(findings.total, 1);
    assert_int_equal(findings.kept[0].code, code);
    assert_int_equal(findings.kept[0].offset, offset);
}

/* Header buffer and data buffers of two records each, times 2000, 2010, 2100, 2110, ... */
static void build_plain(size_t buffers)
{
    raw_header(&file_bytes, &(raw_file){0});
    for (size_t i = 0; i < buffers; i++) {
        size_t start = raw_begin(&file_bytes, (uint16_t)(i % 2), i + 1);
        raw_add_simple(&file_bytes, 2000 + 100 * i);
        raw_add_simple(&file_bytes, 2010 + 100 * i);
        raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    }
}

static size_t count_records(const etl_file *f, uint64_t *bad)
{
    size_t count = 0;
    etl_walk w = etl_walk_new(f, &findings);
    etl_record r;
    for (size_t i = 0; i < etl_buffer_count(f); i++)
        for (bool ok = etl_walk_buffer(&w, i); ok && etl_walk_next(&w, &r);)
            count++;
    if (bad)
        *bad = w.bad_records + w.bad_buffers;
    etl_walk_free(&w);
    return count;
}

/* ------------------------------------------------------------------ the header */

static void assert_header_of(unsigned ptr_size)
{
    raw_header(&file_bytes, &(raw_file){.ptr_size = ptr_size});
    assert_true(etl_sniff(bytes_span(&file_bytes)));
    etl_file *f = open_built();
    const etl_header *h = etl_get_header(f);
    assert_int_equal(h->buffer_size, RAW_BUFFER_SIZE);
    assert_int_equal(h->os_major, 10);
    assert_int_equal(h->layout_major, 1);
    assert_int_equal(h->layout_minor, 5);
    assert_int_equal(h->os_build, 19041);
    assert_int_equal(h->cpu_count, 4);
    assert_int_equal(h->end_filetime, RAW_START_FILETIME + 50000000);
    assert_int_equal(h->timer_resolution_100ns, 156250);
    assert_int_equal(h->log_file_mode, ETL_MODE_SEQUENTIAL);
    assert_int_equal(h->buffers_written, 7);
    assert_int_equal(h->pointer_size, ptr_size);
    assert_int_equal(h->events_lost, 11);
    assert_int_equal(h->cpu_mhz, 3600);
    assert_int_equal(h->utc_bias_minutes, 480);
    assert_int_equal(h->boot_filetime, RAW_START_FILETIME - 1000);
    assert_int_equal(h->perf_freq, 10000000);
    assert_int_equal(h->start_filetime, RAW_START_FILETIME);
    assert_int_equal(h->clock_type, ETL_CLOCK_QPC);
    assert_int_equal(h->buffers_lost, 12);
    assert_int_equal(h->first_time, RAW_FIRST_TIME);
    assert_string_equal(h->session_name.ptr, "Session");
    assert_string_equal(h->log_file_name.ptr, "C:\\trace.etl");
    assert_int_equal(findings.total, 0);
    etl_close(f);
}

static void header_of_64_bit_systems(void **state)
{
    (void)state;
    assert_header_of(8);
}

static void header_of_32_bit_systems(void **state)
{
    (void)state;
    assert_header_of(4);
}

static void an_empty_file_is_truncated(void **state)
{
    (void)state;
    assert_open_fails(SPGO_TRUNCATED, 0);
}

static void other_formats_are_named(void **state)
{
    (void)state;
    bytes_put(&file_bytes, "PK\3\4", 4);
    bytes_fill(&file_bytes, 1, 200);
    assert_open_fails(SPGO_CORRUPT, 0);
    assert_non_null(strstr(err.sentence, "zip archive"));
    memcpy(file_bytes.ptr, "PERFILE2", 8);
    assert_open_fails(SPGO_CORRUPT, 0);
    assert_non_null(strstr(err.sentence, "perf.data"));
}

static void a_file_of_zeros_says_so(void **state)
{
    (void)state;
    bytes_fill(&file_bytes, 0, 4096);
    assert_open_fails(SPGO_CORRUPT, 0);
    assert_non_null(strstr(err.sentence, "zeros"));
}

static void a_first_record_of_another_kind_is_corrupt(void **state)
{
    (void)state;
    build_plain(1);
    file_bytes.ptr[72 + 3] = 0x40;
    assert_open_fails(SPGO_CORRUPT, 72);
    assert_false(etl_sniff(bytes_span(&file_bytes)));
}

static void a_header_event_too_small_for_its_fields_is_corrupt(void **state)
{
    (void)state;
    build_plain(1);
    bytes_set_u16(&file_bytes, 72 + 4, 31);
    assert_open_fails(SPGO_CORRUPT, 72 + 4);
    bytes_set_u16(&file_bytes, 72 + 4, 200);
    assert_open_fails(SPGO_CORRUPT, 72 + 4);
}

static void a_file_that_ends_in_the_header_event_is_truncated(void **state)
{
    (void)state;
    build_plain(1);
    file_bytes.len = 300;
    assert_open_fails(SPGO_TRUNCATED, 300);
}

static void unknown_compression_is_unsupported(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){.mode = ETL_MODE_COMPRESSED});
    bytes_set_u32(&file_bytes, 0x2C, 4);
    assert_open_fails(SPGO_UNSUPPORTED, 0x2C);
    assert_non_null(strstr(err.sentence, "Huffman"));
}

static void an_unclosed_file_is_read_with_a_finding(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){.leave_open = true});
    etl_close(open_built());
    assert_one_finding(SPGO_TRUNCATED, 72);
}

/* ------------------------------------------------------------------ time */

static void times_are_anchored_at_the_header_event(void **state)
{
    (void)state;
    etl_header h = {
        .perf_freq = 3000000, .first_time = 900, .start_filetime = 5000, .clock_type = 1};
    assert_int_equal(etl_filetime(&h, 900), 5000);
    assert_int_equal(etl_filetime(&h, 900 + 3), 5010);
    assert_int_equal(etl_filetime(&h, 900 - 3), 4990);
    assert_int_equal(etl_relative_ns(&h, 900 + 3), 1000);
    assert_int_equal(etl_relative_ns(&h, 899), 0);
}

static void long_times_do_not_overflow(void **state)
{
    (void)state;
    etl_header h = {.perf_freq = 3000000000u, .clock_type = 1};
    assert_int_equal(etl_filetime(&h, 3000000000u * 100000000ull + 3), 1000000000000000ull);
    assert_int_equal(etl_relative_ns(&h, 3000000000u * 1000000000ull + 3), 1000000000000000001ull);
    h.perf_freq = 1;
    assert_int_equal(etl_relative_ns(&h, UINT64_MAX), UINT64_MAX);
    h.perf_freq = UINT64_MAX;
    assert_int_equal(etl_relative_ns(&h, UINT64_MAX), 1000000000);
}

static void clock_types_have_their_frequencies(void **state)
{
    (void)state;
    etl_header h = {.perf_freq = 5, .clock_type = ETL_CLOCK_SYSTEM, .cpu_mhz = 2000};
    assert_int_equal(etl_clock_freq(&h), 10000000);
    h.clock_type = ETL_CLOCK_CPU;
    assert_int_equal(etl_clock_freq(&h), 2000000000);
    h.clock_type = ETL_CLOCK_RAW;
    assert_int_equal(etl_clock_freq(&h), 5);
    h.perf_freq = 0;
    assert_int_equal(etl_clock_freq(&h), 10000000);
}

/* ------------------------------------------------------------------ buffers */

static void buffers_are_indexed(void **state)
{
    (void)state;
    build_plain(2);
    etl_file *f = open_built();
    assert_int_equal(etl_buffer_count(f), 3);
    const etl_buffer *b = etl_get_buffer(f, 2);
    assert_int_equal(b->offset, 2048);
    assert_int_equal(b->size_bytes, 1024);
    assert_int_equal(b->data_end, 72 + 2 * 24);
    assert_int_equal(b->sequence, 2);
    assert_int_equal(b->cpu, 1);
    assert_int_equal(b->type, 0);
    assert_false(b->is_cut);
    assert_int_equal(etl_get_buffer(f, 0)->type, 4);
    etl_close(f);
}

static void the_processor_is_a_byte_without_its_flag(void **state)
{
    (void)state;
    build_plain(2);
    bytes_set_u16(&file_bytes, 1024 + 0x28, 0x0803);
    bytes_set_u16(&file_bytes, 1024 + 0x34, 0);
    bytes_set_u16(&file_bytes, 2048 + 0x28, 0x0803);
    etl_file *f = open_built();
    assert_int_equal(etl_get_buffer(f, 1)->cpu, 3);
    assert_int_equal(etl_get_buffer(f, 2)->cpu, 3);
    bytes_set_u16(&file_bytes, 2048 + 0x28, 0x0103);
    etl_close(f);
    f = open_built();
    assert_int_equal(etl_get_buffer(f, 2)->cpu, 0x103);
    etl_close(f);
}

static void the_header_buffer_ends_at_the_later_of_two_ends(void **state)
{
    (void)state;
    build_plain(0);
    size_t end = load_u32(file_bytes.ptr + 0x30);
    uint8_t extra[24];
    bytes more = {0};
    raw_add_simple(&more, 1500);
    memcpy(extra, more.ptr, sizeof extra);
    bytes_free(&more);
    end = (end + 7) / 8 * 8;
    memcpy(file_bytes.ptr + end, extra, sizeof extra);
    bytes_set_u32(&file_bytes, 0x30, (uint32_t)end + 24);
    for (uint32_t saved = 0; saved <= end; saved += (uint32_t)end) {
        bytes_set_u32(&file_bytes, 0x04, saved);
        etl_file *f = open_built();
        assert_int_equal(count_records(f, NULL), 2);
        etl_close(f);
    }
    assert_int_equal(findings.total, 0);
}

static void a_cut_last_buffer_gives_its_whole_records(void **state)
{
    (void)state;
    build_plain(2);
    file_bytes.len = 2048 + 72 + 24 + 23;
    etl_file *f = open_built();
    assert_one_finding(SPGO_TRUNCATED, file_bytes.len);
    assert_true(etl_get_buffer(f, 2)->is_cut);
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + 2 + 1);
    assert_int_equal(bad, 0);
    etl_close(f);
}

static void a_tail_too_small_for_a_buffer_is_a_finding(void **state)
{
    (void)state;
    build_plain(2);
    file_bytes.len = 2048 + 71;
    etl_file *f = open_built();
    assert_one_finding(SPGO_TRUNCATED, 2048);
    assert_int_equal(etl_buffer_count(f), 2);
    etl_close(f);
}

/* A buffer whose header is lost costs that buffer, not the rest of the file. */
static void assert_resync(uint32_t size)
{
    build_plain(4);
    bytes_set_u32(&file_bytes, 2048, size);
    bytes_set_u32(&file_bytes, 2048 + 4, size);
    etl_file *f = open_built();
    assert_one_finding(SPGO_CORRUPT, 2048);
    assert_non_null(strstr(findings.kept[0].sentence, "3072"));
    assert_int_equal(etl_buffer_count(f), 4);
    assert_int_equal(etl_get_buffer(f, 2)->offset, 3072);
    assert_int_equal(count_records(f, NULL), 1 + 3 * 2);
    etl_close(f);
}

static void reading_goes_on_behind_a_buffer_of_size_0(void **state)
{
    (void)state;
    assert_resync(0);
}

static void reading_goes_on_behind_a_buffer_of_absurd_size(void **state)
{
    (void)state;
    assert_resync(0xFFFFFFFF);
}

static void reading_goes_on_behind_a_buffer_whose_size_leads_astray(void **state)
{
    (void)state;
    assert_resync(1025);
}

static void reading_goes_on_behind_a_hole(void **state)
{
    (void)state;
    build_plain(4);
    memset(file_bytes.ptr + 1024, 0, 2048);
    etl_file *f = open_built();
    assert_one_finding(SPGO_CORRUPT, 1024);
    assert_int_equal(count_records(f, NULL), 1 + 2 * 2);
    etl_close(f);
}

static void only_a_damaged_size_field_costs_nothing(void **state)
{
    (void)state;
    build_plain(4);
    bytes_set_u32(&file_bytes, 2048, 0);
    etl_file *f = open_built();
    assert_one_finding(SPGO_CORRUPT, 2048);
    assert_int_equal(count_records(f, NULL), 1 + 4 * 2);
    etl_close(f);
}

static void a_damaged_end_of_data_is_replaced_by_the_other(void **state)
{
    (void)state;
    build_plain(2);
    bytes_set_u32(&file_bytes, 1024 + 4, 5000);
    etl_file *f = open_built();
    assert_one_finding(SPGO_CORRUPT, 1024 + 4);
    assert_int_equal(etl_get_buffer(f, 1)->data_end, 72 + 48);
    etl_close(f);
}

static void without_any_end_of_data_records_end_at_the_filler(void **state)
{
    (void)state;
    build_plain(2);
    bytes_set_u32(&file_bytes, 1024 + 4, 5000);
    bytes_set_u32(&file_bytes, 1024 + 0x30, 1);
    etl_file *f = open_built();
    assert_one_finding(SPGO_CORRUPT, 1024 + 4);
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + 4);
    assert_int_equal(bad, 0);
    etl_close(f);
}

static void build_compressed(size_t buffers)
{
    raw_header(&file_bytes, &(raw_file){.mode = ETL_MODE_COMPRESSED, .buffer_size = 1024});
    for (size_t i = 0; i < buffers; i++) {
        size_t start = raw_begin(&file_bytes, 0, i + 1);
        for (size_t k = 0; k < 5; k++)
            raw_add_simple(&file_bytes, 2000 + 100 * i + k);
        raw_end_compressed(&file_bytes, start);
    }
}

static void compressed_buffers_expand(void **state)
{
    (void)state;
    build_compressed(3);
    etl_file *f = open_built();
    uint64_t bad;
    assert_int_equal(etl_buffer_count(f), 4);
    assert_int_equal(count_records(f, &bad), 1 + 15);
    assert_int_equal(bad, 0);
    assert_int_equal(findings.total, 0);
    etl_close(f);
}

static void a_cut_compressed_buffer_gives_what_expands(void **state)
{
    (void)state;
    build_compressed(2);
    file_bytes.len -= 40;
    etl_file *f = open_built();
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + 5 + 3);
    assert_int_equal(bad, 1);
    assert_int_equal(findings.total, 2);
    assert_int_equal(findings.kept[1].code, SPGO_TRUNCATED);
    assert_int_equal(findings.kept[1].offset, file_bytes.len);
    etl_close(f);
}

static void a_damaged_compressed_buffer_gives_what_expands(void **state)
{
    (void)state;
    build_compressed(2);
    size_t second_group = 1024 + 72 + 36;
    bytes_set_u32(&file_bytes, second_group, 0x80000000); /* a match, farther back than there is */
    bytes_set_u16(&file_bytes, second_group + 4, 0xFFF8);
    etl_file *f = open_built();
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + 1 + 5);
    assert_int_equal(bad, 1);
    assert_one_finding(SPGO_CORRUPT, second_group + 6);
    etl_close(f);
}

static void buffers_that_claim_to_expand_without_bound_are_left_out(void **state)
{
    enum { FIT = LIMIT_ETL_EXPANDED_BYTES / LIMIT_ETL_BUFFER_BYTES, COUNT = FIT + 2 };
    (void)state;
    build_compressed(COUNT);
    bytes_set_u32(&file_bytes, 72 + 32, LIMIT_ETL_BUFFER_BYTES); /* the logger's buffer size */
    size_t at[COUNT];
    at[0] = 1024;
    for (size_t i = 0; i < COUNT; i++) {
        bytes_set_u32(&file_bytes, at[i] + 4, LIMIT_ETL_BUFFER_BYTES);
        bytes_set_u32(&file_bytes, at[i] + 0x30, LIMIT_ETL_BUFFER_BYTES);
        if (i + 1 < COUNT)
            at[i + 1] = at[i] + load_u32(file_bytes.ptr + at[i]);
    }
    etl_file *f = open_built();
    assert_int_equal(etl_buffer_count(f), 1 + COUNT);
    assert_int_equal(etl_get_buffer(f, FIT)->data_end, LIMIT_ETL_BUFFER_BYTES);
    assert_int_equal(etl_get_buffer(f, FIT + 1)->data_end, ETL_BUFFER_HEADER_SIZE);
    assert_int_equal(findings.total, 2);
    assert_int_equal(findings.kept[0].code, SPGO_LIMIT);
    assert_int_equal(findings.kept[0].offset, at[FIT] + 4);
    etl_close(f);
}

static void compressed_files_are_searched_for_the_next_buffer(void **state)
{
    (void)state;
    build_compressed(3);
    bytes_set_u32(&file_bytes, 1024, 3);
    etl_file *f = open_built();
    assert_one_finding(SPGO_CORRUPT, 1024);
    assert_int_equal(etl_buffer_count(f), 3);
    assert_int_equal(count_records(f, NULL), 1 + 10);
    etl_close(f);
}

/* ------------------------------------------------------------------ records */

static etl_walk walk_of_one(etl_file **f)
{
    *f = open_built();
    etl_walk w = etl_walk_new(*f, &findings);
    assert_true(etl_walk_buffer(&w, 1));
    return w;
}

/* One record alone in a buffer, read back. */
static etl_record read_one(const raw_record *in, etl_file **f)
{
    raw_header(&file_bytes, &(raw_file){0});
    size_t start = raw_begin(&file_bytes, 3, 1);
    raw_add(&file_bytes, in);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    etl_walk w = walk_of_one(f);
    etl_record r = {0}, next;
    assert_true(etl_walk_next(&w, &r));
    assert_false(etl_walk_next(&w, &next));
    assert_int_equal(r.buffer_off, 1024);
    assert_int_equal(r.offset, 72);
    assert_int_equal(r.type, in->type);
    assert_int_equal(r.cpu, 3);
    assert_int_equal(w.bad_records, 0);
    etl_walk_free(&w);
    return r;
}

static const uint8_t payload_bytes[5] = {1, 2, 3, 4, 5};
static const spgo_span a_payload = {payload_bytes, sizeof payload_bytes};

static void assert_payload(const etl_record *r)
{
    assert_int_equal(r->payload.len, sizeof payload_bytes);
    assert_memory_equal(r->payload.ptr, payload_bytes, sizeof payload_bytes);
}

static void assert_hook_record(uint8_t type, uint8_t ptr_size, bool has_ids)
{
    etl_file *f;
    etl_record r = read_one(&(raw_record){.type = type,
                                          .version = 3,
                                          .hook = 0x0501,
                                          .time = 4000,
                                          .pid = 5,
                                          .tid = 6,
                                          .payload = a_payload},
                            &f);
    assert_true(r.has_hook);
    assert_int_equal(r.hook, 0x0501);
    assert_int_equal(r.opcode, 1);
    assert_int_equal(r.version, 3);
    assert_int_equal(r.time, 4000);
    assert_int_equal(r.pid, has_ids ? 5 : ETL_NO_ID);
    assert_int_equal(r.tid, has_ids ? 6 : ETL_NO_ID);
    assert_int_equal(r.ptr_size, ptr_size);
    assert_payload(&r);
    etl_close(f);
    setup(NULL);
}

static void hook_records(void **state)
{
    (void)state;
    assert_hook_record(ETL_SYSTEM32, 4, true);
    assert_hook_record(ETL_SYSTEM64, 8, true);
    assert_hook_record(ETL_COMPACT32, 4, true);
    assert_hook_record(ETL_COMPACT64, 8, true);
    assert_hook_record(ETL_PERFINFO32, 4, false);
    assert_hook_record(ETL_PERFINFO64, 8, false);
}

static void assert_classic_record(uint8_t type, uint8_t ptr_size)
{
    etl_file *f;
    spgo_guid guid = {{9, 8, 7}};
    etl_record r = read_one(&(raw_record){.type = type,
                                          .version = 2,
                                          .opcode = 36,
                                          .guid = guid,
                                          .time = 4000,
                                          .pid = 5,
                                          .tid = 6,
                                          .payload = a_payload},
                            &f);
    assert_false(r.has_hook);
    assert_memory_equal(&r.guid, &guid, sizeof guid);
    assert_int_equal(r.opcode, 36);
    assert_int_equal(r.level, 5);
    assert_int_equal(r.version, 2);
    assert_int_equal(r.pid, 5);
    assert_int_equal(r.tid, 6);
    assert_int_equal(r.ptr_size, ptr_size);
    assert_payload(&r);
    etl_close(f);
    setup(NULL);
}

static void classic_records(void **state)
{
    (void)state;
    assert_classic_record(ETL_FULL32, 4);
    assert_classic_record(ETL_FULL64, 8);
    assert_classic_record(ETL_INSTANCE32, 4);
    assert_classic_record(ETL_INSTANCE64, 8);
}

static void counter_values_stand_before_the_payload(void **state)
{
    (void)state;
    /* The start of a context switch with two counters as a real system logged it. */
    static const uint8_t start[] = {0x04, 0x02, 0x11, 0xC0, 0x38, 0x00, 0x24, 0x05};
    bytes values = {0};
    bytes_u64(&values, 111);
    bytes_u64(&values, 222);
    uint8_t payload[24] = {7};
    etl_file *f;
    etl_record r = read_one(&(raw_record){.type = ETL_PERFINFO64,
                                          .version = 0x0204,
                                          .hook = 0x0524,
                                          .time = 4000,
                                          .between = bytes_span(&values),
                                          .payload = {payload, sizeof payload}},
                            &f);
    assert_memory_equal(file_bytes.ptr + 1024 + 72, start, sizeof start);
    assert_int_equal(r.version, 4);
    assert_int_equal(r.pmc_count, 2);
    assert_int_equal(load_u64(r.pmc_values.ptr + 8), 222);
    assert_int_equal(r.payload.len, 24);
    assert_int_equal(r.payload.ptr[0], 7);
    assert_int_equal(etl_record_event(&r), ETL_EV_CSWITCH);
    etl_close(f);
    bytes_free(&values);
}

static void a_pebs_value_stands_before_the_counters(void **state)
{
    (void)state;
    bytes values = {0};
    for (uint64_t i = 0; i < 8; i++)
        bytes_u64(&values, i);
    etl_file *f;
    etl_record r = read_one(&(raw_record){.type = ETL_PERFINFO64,
                                          .version = 0x8702,
                                          .hook = 0x0F2F,
                                          .between = bytes_span(&values),
                                          .payload = a_payload},
                            &f);
    assert_int_equal(r.pmc_count, 7);
    assert_int_equal(load_u64(r.pmc_values.ptr), 1);
    assert_payload(&r);
    etl_close(f);
    bytes_free(&values);
}

static void event_records_carry_extended_items(void **state)
{
    (void)state;
    bytes items = {0};
    bytes_u16(&items, 24); /* size, type, another follows, size of data */
    bytes_u16(&items, 6);
    bytes_u16(&items, 1);
    bytes_u16(&items, 16);
    bytes_fill(&items, 0xEE, 16);
    bytes_u16(&items, 16);
    bytes_u16(&items, 11);
    bytes_u16(&items, 0);
    bytes_u16(&items, 3);
    bytes_fill(&items, 0xDD, 8);
    etl_file *f;
    etl_record r = read_one(&(raw_record){.type = ETL_EVENT64,
                                          .version = 1,
                                          .id = 500,
                                          .opcode = 9,
                                          .time = 4000,
                                          .pid = 5,
                                          .tid = 6,
                                          .between = bytes_span(&items),
                                          .payload = a_payload},
                            &f);
    assert_int_equal(r.id, 500);
    assert_int_equal(r.opcode, 9);
    assert_int_equal(r.version, 1);
    assert_int_equal(r.channel, 16);
    assert_int_equal(r.level, 4);
    assert_int_equal(r.task, 77);
    assert_int_equal(r.keyword, 0x8000000000000001u);
    assert_int_equal(r.extended.len, 40);
    assert_payload(&r);
    etl_close(f);
    bytes_free(&items);
}

static void a_broken_chain_of_items_skips_one_record(void **state)
{
    (void)state;
    bytes items = {0};
    bytes_u16(&items, 4000);
    bytes_fill(&items, 0, 14);
    raw_header(&file_bytes, &(raw_file){0});
    size_t start = raw_begin(&file_bytes, 0, 1);
    raw_add_simple(&file_bytes, 2000);
    size_t broken = raw_add(
        &file_bytes,
        &(raw_record){.type = ETL_EVENT64, .between = bytes_span(&items), .payload = a_payload});
    raw_add_simple(&file_bytes, 2001);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    bytes_free(&items);
    etl_file *f = open_built();
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + 2);
    assert_int_equal(bad, 1);
    assert_one_finding(SPGO_CORRUPT, broken);
    etl_close(f);
}

static void messages_are_passed_by_their_size(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){0});
    size_t start = raw_begin(&file_bytes, 0, 1);
    bytes_u32(&file_bytes, 0x90000000u | (8 + 4 + 16 + 8 + 8 + 3));
    bytes_u16(&file_bytes, 42);
    bytes_u16(&file_bytes, 0x01 | 0x02 | 0x08 | 0x20);
    bytes_u32(&file_bytes, 1);
    bytes_fill(&file_bytes, 0x77, 16);
    bytes_u64(&file_bytes, 4000);
    bytes_u32(&file_bytes, 6);
    bytes_u32(&file_bytes, 5);
    bytes_fill(&file_bytes, 0x55, 3 + 1);
    raw_add_simple(&file_bytes, 4001);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    etl_file *f;
    etl_walk w = walk_of_one(&f);
    etl_record r;
    assert_true(etl_walk_next(&w, &r));
    assert_int_equal(r.type, ETL_MESSAGE);
    assert_int_equal(r.id, 42);
    assert_int_equal(r.time, 4000);
    assert_int_equal(r.tid, 6);
    assert_int_equal(r.pid, 5);
    assert_int_equal(r.payload.len, 3);
    assert_true(etl_walk_next(&w, &r));
    assert_int_equal(r.time, 4001);
    assert_false(etl_walk_next(&w, &r));
    assert_int_equal(w.bad_records, 0);
    etl_walk_free(&w);
    etl_close(f);
}

static void unknown_types_are_passed_by_their_size(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){0});
    size_t start = raw_begin(&file_bytes, 0, 1);
    bytes_u32(&file_bytes, 0xC0630010u); /* type 99, 16 bytes */
    bytes_fill(&file_bytes, 0x11, 12);
    raw_add_simple(&file_bytes, 2001);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    etl_file *f;
    etl_walk w = walk_of_one(&f);
    etl_record r;
    assert_true(etl_walk_next(&w, &r));
    assert_int_equal(r.type, 99);
    assert_null(etl_record_type_name(r.type));
    assert_int_equal(etl_record_event(&r), ETL_EV_UNKNOWN);
    assert_int_equal(r.payload.len, 8);
    assert_true(etl_walk_next(&w, &r));
    assert_int_equal(r.time, 2001);
    etl_walk_free(&w);
    etl_close(f);
}

/* A size field of `size` in the second of four records. */
static void assert_bad_size(uint16_t size, size_t records)
{
    raw_header(&file_bytes, &(raw_file){0});
    size_t start = raw_begin(&file_bytes, 0, 1);
    raw_add_simple(&file_bytes, 2000);
    size_t broken = raw_add_simple(&file_bytes, 2001);
    raw_add_simple(&file_bytes, 2002);
    raw_add_simple(&file_bytes, 2003);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    bytes_set_u16(&file_bytes, broken + 4, size);
    etl_file *f = open_built();
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + records);
    assert_int_equal(bad, 1);
    assert_int_equal(findings.total, 1);
    assert_int_equal(findings.kept[0].code, SPGO_CORRUPT);
    etl_close(f);
    setup(NULL);
}

static void records_behind_a_damaged_size_are_found_again(void **state)
{
    (void)state;
    assert_bad_size(0, 3);
    assert_bad_size(15, 3);
    assert_bad_size(0xFFFF, 3);
    assert_bad_size(40, 3); /* the record itself stands, one and a half of the next are in it */
}

static void bytes_that_are_no_record_are_passed_over(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){0});
    size_t start = raw_begin(&file_bytes, 0, 1);
    raw_add_simple(&file_bytes, 2000);
    size_t junk = file_bytes.len;
    bytes_fill(&file_bytes, 0, 80);
    raw_add_simple(&file_bytes, 2001);
    raw_add_simple(&file_bytes, 2002);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
    etl_file *f = open_built();
    uint64_t bad;
    assert_int_equal(count_records(f, &bad), 1 + 3);
    assert_int_equal(bad, 1);
    assert_one_finding(SPGO_CORRUPT, junk);
    etl_close(f);
}

/* ------------------------------------------------------------------ streams */

static etl_stream *stream_of(const etl_file *const *files, size_t count)
{
    etl_stream *s;
    if (etl_stream_open(files, count, &findings, &s, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return s;
}

static void assert_times(etl_stream *s, const uint64_t *times, size_t count)
{
    etl_record r;
    for (size_t i = 0; i < count; i++) {
        assert_true(etl_stream_next(s, &r, NULL));
        assert_int_equal(r.time, times[i]);
    }
    assert_false(etl_stream_next(s, &r, NULL));
    assert_false(etl_stream_next(s, &r, NULL));
}

static void add_buffer(uint16_t cpu, uint64_t sequence, const uint64_t *times, size_t count)
{
    size_t start = raw_begin(&file_bytes, cpu, sequence);
    for (size_t i = 0; i < count; i++)
        raw_add_simple(&file_bytes, times[i]);
    raw_end(&file_bytes, start, RAW_BUFFER_SIZE);
}

static void processors_merge_by_time_whatever_the_order_of_buffers(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){.mode = ETL_MODE_CIRCULAR});
    add_buffer(1, 4, (const uint64_t[]){2050, 2060}, 2);
    add_buffer(0, 3, (const uint64_t[]){2045, 2070}, 2);
    add_buffer(1, 2, (const uint64_t[]){2005, 2020, 2040}, 3);
    add_buffer(0, 1, (const uint64_t[]){2000, 2010, 2030}, 3);
    etl_file *f = open_built();
    etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
    assert_int_equal(etl_stream_done_until(s, 0), 0);
    assert_times(s,
                 (const uint64_t[]){RAW_FIRST_TIME, 2000, 2005, 2010, 2020, 2030, 2040, 2045, 2050,
                                    2060, 2070},
                 11);
    assert_int_equal(etl_stream_done_until(s, 0), file_bytes.len);
    etl_stream_close(s);
    etl_close(f);
}

static void equal_times_come_by_processor_then_sequence(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){0});
    add_buffer(1, 3, (const uint64_t[]){2000, 2000}, 2);
    add_buffer(0, 2, (const uint64_t[]){2000}, 1);
    add_buffer(0, 1, (const uint64_t[]){1999, 2000}, 2);
    etl_file *f = open_built();
    etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
    static const uint64_t offsets[] = {72, 3072 + 72, 3072 + 96, 2048 + 72, 1024 + 72, 1024 + 96};
    etl_record r;
    for (size_t i = 0; i < 6; i++) {
        assert_true(etl_stream_next(s, &r, NULL));
        assert_int_equal(r.buffer_off + r.offset, offsets[i]);
    }
    etl_stream_close(s);
    etl_close(f);
}

static void buffers_of_one_processor_may_overlap(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){0});
    add_buffer(0, 1, (const uint64_t[]){2000, 2030}, 2);
    add_buffer(0, 2, (const uint64_t[]){2010, 2040}, 2);
    add_buffer(0, 3, (const uint64_t[]){1990, 2020}, 2);
    etl_file *f = open_built();
    etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
    assert_times(s, (const uint64_t[]){RAW_FIRST_TIME, 1990, 2000, 2010, 2020, 2030, 2040}, 7);
    etl_stream_close(s);
    etl_close(f);
}

static void a_step_back_inside_a_buffer_sorts_the_rest(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){0});
    add_buffer(0, 1, (const uint64_t[]){2000, 2040, 2010, 2050, 2020}, 5);
    add_buffer(1, 2, (const uint64_t[]){2015, 2045}, 2);
    etl_file *f = open_built();
    etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
    assert_times(s, (const uint64_t[]){RAW_FIRST_TIME, 2000, 2015, 2040, 2010, 2020, 2045, 2050},
                 8);
    assert_one_finding(SPGO_CORRUPT, 1024);
    etl_stream_close(s);
    etl_close(f);
}

static void sessions_without_processor_buffers_are_sorted_exactly(void **state)
{
    (void)state;
    raw_header(&file_bytes, &(raw_file){.mode = ETL_MODE_NO_PER_PROCESSOR});
    add_buffer(0, 1, (const uint64_t[]){2000, 2040, 1990, 2050, 2020}, 5);
    add_buffer(0, 2, (const uint64_t[]){2015, 2045}, 2);
    etl_file *f = open_built();
    etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
    assert_times(s, (const uint64_t[]){RAW_FIRST_TIME, 1990, 2000, 2015, 2020, 2040, 2045, 2050},
                 8);
    assert_int_equal(findings.total, 0);
    etl_stream_close(s);
    etl_close(f);
}

static void compressed_buffers_merge(void **state)
{
    (void)state;
    build_compressed(3);
    etl_file *f = open_built();
    etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
    etl_record r;
    size_t count = 0;
    for (uint64_t last = 0; etl_stream_next(s, &r, NULL); count++, last = r.time)
        assert_true(r.time > last);
    assert_int_equal(count, 1 + 15);
    etl_stream_close(s);
    etl_close(f);
}

static void files_of_one_clock_merge(void **state)
{
    (void)state;
    build_plain(2);
    bytes other = file_bytes;
    file_bytes = (bytes){0};
    raw_header(&file_bytes, &(raw_file){.ptr_size = 4});
    add_buffer(0, 1, (const uint64_t[]){2000, 2005}, 2);
    etl_file *a, *b = open_built();
    assert_int_equal(etl_open(bytes_span(&other), &a, NULL, NULL), SPGO_OK);
    etl_stream *s = stream_of((const etl_file *const[]){a, b}, 2);
    static const size_t from[] = {0, 1, 0, 1, 1, 0, 0, 0};
    etl_record r;
    size_t file;
    for (size_t i = 0; i < 8; i++) {
        assert_true(etl_stream_next(s, &r, &file));
        assert_int_equal(file, from[i]);
    }
    assert_false(etl_stream_next(s, &r, &file));
    etl_stream_close(s);
    etl_close(a);
    etl_close(b);
    bytes_free(&other);
}

static void files_of_different_clocks_do_not_merge(void **state)
{
    (void)state;
    build_plain(1);
    etl_file *a = open_built(), *b;
    bytes other = {0};
    raw_header(&other, &(raw_file){.perf_freq = 3000000});
    assert_int_equal(etl_open(bytes_span(&other), &b, NULL, NULL), SPGO_OK);
    etl_stream *s;
    assert_int_equal(etl_stream_open((const etl_file *const[]){a, b}, 2, NULL, &s, &err),
                     SPGO_MISMATCH);
    assert_null(s);
    etl_close(a);
    etl_close(b);
    bytes_free(&other);
}

/* ------------------------------------------------------------------ rendering */

static void kinds_are_counted_in_the_columns_of_others(void **state)
{
    (void)state;
    etl_tally *t = etl_tally_new();
    etl_record hook = {
        .type = ETL_PERFINFO64, .has_hook = true, .hook = 0x0F2E, .opcode = 0x2E, .version = 2};
    etl_record event = {.type = ETL_EVENT32, .opcode = 1, .id = 7, .version = 3};
    etl_record full = {.type = ETL_FULL64, .opcode = 36, .version = 2};
    for (int i = 0; i < 3; i++)
        assert_true(etl_tally_add(t, &hook));
    assert_true(etl_tally_add(t, &full));
    for (unsigned i = 0; i < 1000; i++) {
        event.id = (uint16_t)(i % 500 + 7);
        assert_true(etl_tally_add(t, &event));
    }
    assert_int_equal(etl_tally_kind_count(t), 502);
    out o;
    assert_int_equal(out_init(&o, bytes_sink(&file_bytes), &err), SPGO_OK);
    assert_true(etl_dump_tally(&o, NULL, t));
    assert_true(out_flush(&o));
    out_free(&o);
    bytes_u8(&file_bytes, 0);
    const char *text = (const char *)file_bytes.ptr;
    assert_non_null(strstr(text, "PI64\t0x0F2E\t\t\t2\t3\n"));
    assert_non_null(strstr(text, "EVH32\t00000000-0000-0000-0000-000000000000\t1\t7\t3\t2\n"));
    assert_non_null(strstr(text, "FULL64\t00000000-0000-0000-0000-000000000000\t36\t\t2\t1\n"));
    etl_tally_free(t);
}

/* ------------------------------------------------------------------ hostile input */

/* A little of everything, in little space. */
static void build_small(bool compressed)
{
    raw_header(&file_bytes,
               &(raw_file){.mode = compressed ? ETL_MODE_COMPRESSED : 0, .buffer_size = 768});
    uint8_t lbr[24 + 2 * 24] = {1};
    bytes items = {0};
    bytes_u16(&items, 16);
    bytes_u16(&items, 6);
    bytes_u16(&items, 0);
    bytes_u16(&items, 8);
    bytes_u64(&items, 1);
    for (uint16_t cpu = 0; cpu < 2; cpu++) {
        size_t start = raw_begin(&file_bytes, cpu, cpu + 1u);
        raw_add_simple(&file_bytes, 2000);
        raw_add(&file_bytes, &(raw_record){.type = ETL_PERFINFO64,
                                           .hook = 0x0C20,
                                           .version = 2,
                                           .time = 2001,
                                           .payload = {lbr, sizeof lbr}});
        raw_add(&file_bytes, &(raw_record){.type = ETL_EVENT64,
                                           .time = 2002,
                                           .between = bytes_span(&items),
                                           .payload = a_payload});
        raw_add(&file_bytes, &(raw_record){.type = ETL_PERFINFO64,
                                           .hook = 0x0303,
                                           .version = 4,
                                           .time = 2003,
                                           .payload = {lbr, 60}});
        raw_add(&file_bytes, &(raw_record){.type = ETL_SYSTEM64,
                                           .hook = 0x030A,
                                           .version = 3,
                                           .time = 2004,
                                           .payload = {lbr, 60}});
        if (compressed)
            raw_end_compressed(&file_bytes, start);
        else
            raw_end(&file_bytes, start, 768);
    }
    bytes_free(&items);
}

/* Everything there is to do with a file, from a copy of exactly its size so that sanitizers see
 * every byte read beyond it. Returns how many records there were. */
static size_t exercise(spgo_span input)
{
    uint8_t *copy = malloc(input.len ? input.len : 1);
    assert_non_null(copy);
    memcpy(copy, input.ptr, input.len);
    etl_file *f;
    size_t count = 0;
    if (etl_open((spgo_span){copy, input.len}, &f, &findings, &err) == SPGO_OK) {
        etl_stream *s = stream_of((const etl_file *const[]){f}, 1);
        etl_record r;
        bytes text = {0};
        out o;
        assert_int_equal(out_init(&o, bytes_sink(&text), &err), SPGO_OK);
        for (; etl_stream_next(s, &r, NULL); count++)
            etl_dump_record_fields(&o, NULL, &r);
        uint64_t bad;
        assert_int_equal(count_records(f, &bad), count);
        assert_int_equal(bad, etl_stream_bad_records(s) + etl_stream_bad_buffers(s));
        out_free(&o);
        bytes_free(&text);
        etl_stream_close(s);
        etl_close(f);
    } else {
        assert_true(err.sentence[0] != 0);
        assert_true(err.offset <= input.len);
    }
    free(copy);
    return count;
}

static void every_truncation_is_survived(void **state)
{
    (void)state;
    for (int compressed = 0; compressed < 2; compressed++) {
        bytes_clear(&file_bytes);
        build_small(compressed);
        size_t last = 0;
        for (size_t len = 0; len <= file_bytes.len; len++) {
            size_t count = exercise((spgo_span){file_bytes.ptr, len});
            assert_true(count >= last); /* more bytes never give fewer records */
            last = count;
        }
        assert_int_equal(last, 1 + 10);
    }
}

static void every_flipped_bit_is_survived(void **state)
{
    (void)state;
    for (int compressed = 0; compressed < 2; compressed++) {
        bytes_clear(&file_bytes);
        build_small(compressed);
        for (size_t i = 0; i < file_bytes.len * 8; i++) {
            file_bytes.ptr[i / 8] ^= (uint8_t)(1 << i % 8);
            (void)exercise(bytes_span(&file_bytes));
            file_bytes.ptr[i / 8] ^= (uint8_t)(1 << i % 8);
        }
    }
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(header_of_64_bit_systems),
        T(header_of_32_bit_systems),
        T(an_empty_file_is_truncated),
        T(other_formats_are_named),
        T(a_file_of_zeros_says_so),
        T(a_first_record_of_another_kind_is_corrupt),
        T(a_header_event_too_small_for_its_fields_is_corrupt),
        T(a_file_that_ends_in_the_header_event_is_truncated),
        T(unknown_compression_is_unsupported),
        T(an_unclosed_file_is_read_with_a_finding),
        T(times_are_anchored_at_the_header_event),
        T(long_times_do_not_overflow),
        T(clock_types_have_their_frequencies),
        T(buffers_are_indexed),
        T(the_processor_is_a_byte_without_its_flag),
        T(the_header_buffer_ends_at_the_later_of_two_ends),
        T(a_cut_last_buffer_gives_its_whole_records),
        T(a_tail_too_small_for_a_buffer_is_a_finding),
        T(reading_goes_on_behind_a_buffer_of_size_0),
        T(reading_goes_on_behind_a_buffer_of_absurd_size),
        T(reading_goes_on_behind_a_buffer_whose_size_leads_astray),
        T(reading_goes_on_behind_a_hole),
        T(only_a_damaged_size_field_costs_nothing),
        T(a_damaged_end_of_data_is_replaced_by_the_other),
        T(without_any_end_of_data_records_end_at_the_filler),
        T(compressed_buffers_expand),
        T(a_cut_compressed_buffer_gives_what_expands),
        T(a_damaged_compressed_buffer_gives_what_expands),
        T(buffers_that_claim_to_expand_without_bound_are_left_out),
        T(compressed_files_are_searched_for_the_next_buffer),
        T(hook_records),
        T(classic_records),
        T(counter_values_stand_before_the_payload),
        T(a_pebs_value_stands_before_the_counters),
        T(event_records_carry_extended_items),
        T(a_broken_chain_of_items_skips_one_record),
        T(messages_are_passed_by_their_size),
        T(unknown_types_are_passed_by_their_size),
        T(records_behind_a_damaged_size_are_found_again),
        T(bytes_that_are_no_record_are_passed_over),
        T(processors_merge_by_time_whatever_the_order_of_buffers),
        T(equal_times_come_by_processor_then_sequence),
        T(buffers_of_one_processor_may_overlap),
        T(a_step_back_inside_a_buffer_sorts_the_rest),
        T(sessions_without_processor_buffers_are_sorted_exactly),
        T(compressed_buffers_merge),
        T(files_of_one_clock_merge),
        T(files_of_different_clocks_do_not_merge),
        T(kinds_are_counted_in_the_columns_of_others),
        T(every_truncation_is_survived),
        T(every_flipped_bit_is_survived),
    };
    return cmocka_run_group_tests_name("etl_read", tests, NULL, free_all);
}
