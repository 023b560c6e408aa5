/* The writer: exact bytes, what becomes which segment, limits, and reading back what was written.
 */
#include "spt_build.h"
#include "test_sanitizers.h"

#include <base/reader.h>

#include <stdlib.h>

enum { TYPICAL_DATA_OFF = 0x5820 };

static spgo_spt_writer *writer_on(bytes *b, uint64_t segment_bytes_max, uint64_t buffer_bytes_max)
{
    spgo_spt_writer_opts opts = {.size = sizeof opts,
                                 .segment_bytes_max = segment_bytes_max,
                                 .buffer_bytes_max = buffer_bytes_max};
    spgo_spt_writer *w;
    assert_int_equal(spgo_spt_writer_new(memory_sink(b), &opts, &w, NULL), SPGO_OK);
    return w;
}

static spgo_str str(const char *text)
{
    return (spgo_str){text, strlen(text)};
}

static uint16_t add_program(spgo_spt_writer *w, uint8_t digit, const char *name)
{
    spgo_image_id id = image_id(digit, 1);
    uint16_t index;
    assert_int_equal(spgo_spt_writer_program(w, &id, str(name), &index, NULL), SPGO_OK);
    return index;
}

static void add_ip(spgo_spt_writer *w, uint16_t program, uint32_t rva, uint64_t hits)
{
    assert_int_equal(spgo_spt_writer_add(w, program, SPGO_SPT_UNHALT_CYCLE, &rva, 1, hits, NULL),
                     SPGO_OK);
}

static void finish(spgo_spt_writer *w)
{
    spgo_error err = {0};
    if (spgo_spt_writer_finish(w, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
}

static void expect_valid(const bytes *b)
{
    spgo_spt_verdict verdict;
    assert_int_equal(spgo_spt_verify(bytes_span(b), NULL, NULL, &verdict, NULL), SPGO_OK);
    assert_int_equal(verdict.damages, 0);
    assert_int_equal(verdict.warnings, 0);
}

static void expect_records(const bytes *b, const bytes *expected)
{
    assert_int_equal(b->len, TYPICAL_DATA_OFF + expected->len);
    assert_memory_equal(b->ptr + TYPICAL_DATA_OFF, expected->ptr, expected->len);
    expect_valid(b);
}

static void exact_bytes(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 0);
    uint16_t exe = add_program(w, 0x11, "a.exe"), dll = add_program(w, 0x22, "b.dll");
    static const uint32_t arcs[] = {0x20, 0x10, 0x40, 0x30};
    assert_int_equal(spgo_spt_writer_add(w, dll, SPGO_SPT_LBR, arcs, 2, 1, NULL), SPGO_OK);
    add_ip(w, exe, 0x1234, 6);
    finish(w);
    put_header(&expected, 0x20, 0x4020, 12, 0x4000, 2, 0x100);
    bytes_put(&expected, "a.exe\0b.dll", 12);
    bytes_fill(&expected, 0, 0x4000 - 12);
    put_program(&expected, 0x11, 1, 0);
    put_program(&expected, 0x22, 1, 6);
    bytes_fill(&expected, 0, 24 * 0xFE);
    size_t at = begin_segment(&expected, 0);
    put_repeat(&expected, 5);
    put_ips(&expected, 1, 1, 0x1234);
    end_segment(&expected, at);
    at = begin_segment(&expected, 1);
    put_record(&expected, SPGO_SPT_LBR, 2, 4, arcs);
    end_segment(&expected, at);
    assert_int_equal(b.len, expected.len);
    assert_memory_equal(b.ptr, expected.ptr, b.len);
    expect_valid(&b);
    bytes_free(&b);
    bytes_free(&expected);
}

static void nothing_at_all(void **state)
{
    (void)state;
    bytes b = {0};
    finish(writer_on(&b, 0, 0));
    assert_int_equal(b.len, TYPICAL_DATA_OFF);
    expect_valid(&b);
    bytes_free(&b);
}

static void equal_neighbours_merge(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 0);
    uint16_t p = add_program(w, 1, "a"), q = add_program(w, 2, "b");
    add_ip(w, p, 7, 1);
    add_ip(w, q, 7, 1);
    add_ip(w, p, 7, 1);
    add_ip(w, p, 7, 10);
    add_ip(w, p, 8, 1);
    add_ip(w, p, 7, 1);
    finish(w);
    size_t at = begin_segment(&expected, 0);
    put_repeat(&expected, 11);
    put_ips(&expected, 1, 1, 7);
    put_ips(&expected, 1, 1, 8);
    put_ips(&expected, 1, 1, 7);
    end_segment(&expected, at);
    at = begin_segment(&expected, 1);
    put_ips(&expected, 1, 1, 7);
    end_segment(&expected, at);
    expect_records(&b, &expected);
    bytes_free(&b);
    bytes_free(&expected);
}

static void hits_that_do_not_fit_are_split(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 0);
    uint16_t p = add_program(w, 1, "a");
    add_ip(w, p, 7, UINT64_MAX - 1);
    add_ip(w, p, 7, 1);
    add_ip(w, p, 7, 2);
    finish(w);
    size_t at = begin_segment(&expected, 0);
    put_repeat(&expected, UINT64_MAX - 1);
    put_ips(&expected, 1, 1, 7);
    put_repeat(&expected, 1);
    put_ips(&expected, 1, 1, 7);
    end_segment(&expected, at);
    expect_records(&b, &expected);
    bytes_free(&b);
    bytes_free(&expected);
}

static void one_program_is_one_segment(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 1); /* every record is flushed at once */
    uint16_t p = add_program(w, 1, "a");
    for (uint32_t i = 0; i < 100; i++)
        add_ip(w, p, i, 1);
    finish(w);
    size_t at = begin_segment(&expected, 0);
    for (uint32_t i = 0; i < 100; i++)
        put_ips(&expected, 1, 1, i);
    end_segment(&expected, at);
    expect_records(&b, &expected);
    bytes_free(&b);
    bytes_free(&expected);
}

static void waiting_records_flush_in_program_order(void **state)
{
    (void)state;
    bytes b = {0}, expected = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 17); /* three records of 6 bytes exceed it */
    uint16_t p = add_program(w, 1, "a"), q = add_program(w, 2, "b");
    add_ip(w, q, 1, 1);
    add_ip(w, p, 2, 1);
    add_ip(w, q, 3, 1); /* first flush: a, b */
    add_ip(w, q, 4, 1);
    add_ip(w, q, 5, 1);
    add_ip(w, q, 6, 1); /* second: b goes on */
    add_ip(w, q, 7, 1);
    add_ip(w, p, 8, 1);
    finish(w);
    size_t at = begin_segment(&expected, 0);
    put_ips(&expected, 1, 1, 2);
    end_segment(&expected, at);
    at = begin_segment(&expected, 1);
    static const uint32_t rvas[] = {1, 3, 4, 5, 6};
    for (size_t i = 0; i < 5; i++)
        put_ips(&expected, 1, 1, rvas[i]);
    end_segment(&expected, at);
    at = begin_segment(&expected, 0);
    put_ips(&expected, 1, 1, 8);
    end_segment(&expected, at);
    at = begin_segment(&expected, 1);
    put_ips(&expected, 1, 1, 7);
    end_segment(&expected, at);
    expect_records(&b, &expected);
    bytes_free(&b);
    bytes_free(&expected);
}

/* No segment is longer than allowed, none ends with REPEAT, and nothing is lost. */
static void check_small_segments(uint64_t buffer_bytes_max)
{
    bytes b = {0};
    spgo_spt_writer *w = writer_on(&b, SPGO_SPT_SEGMENT_MIN, buffer_bytes_max);
    uint16_t p = add_program(w, 1, "a");
    uint32_t arcs[2 * 255];
    for (uint32_t i = 0; i < 300; i++) {
        unsigned n = i % 3 == 0 ? 255 : i % 7 + 1;
        for (uint32_t k = 0; k < 2 * n; k++)
            arcs[k] = i + k;
        assert_int_equal(spgo_spt_writer_add(w, p, SPGO_SPT_LBR, arcs, n, 2 + i, NULL), SPGO_OK);
    }
    finish(w);
    expect_valid(&b);
    spgo_spt *spt;
    assert_int_equal(spgo_spt_open(bytes_span(&b), &spt, NULL), SPGO_OK);
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    uint32_t i = 0, segments = 0;
    while (spgo_spt_next(&c, &r, NULL) == SPGO_OK) {
        segments += r.opcode == SPGO_SPT_BINARY_ID;
        assert_true(r.segment_bytes <= SPGO_SPT_SEGMENT_MIN);
        if (r.opcode != SPGO_SPT_LBR)
            continue;
        assert_int_equal(r.hits, 2 + i);
        assert_int_equal(spgo_spt_arc_to(&r, 0), i);
        i++;
    }
    assert_int_equal(i, 300);
    assert_in_range(segments, 100, 200);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void small_segments(void **state)
{
    (void)state;
    check_small_segments(0);
    check_small_segments(1);
    check_small_segments(5000);
}

static void programs_are_found_again(void **state)
{
    (void)state;
    bytes b = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 0);
    assert_int_equal(add_program(w, 1, "a"), 0);
    assert_int_equal(add_program(w, 2, "a"), 1);
    assert_int_equal(add_program(w, 1, "b"), 2);
    assert_int_equal(add_program(w, 1, ""), 3);
    assert_int_equal(add_program(w, 2, "a"), 1);
    assert_int_equal(add_program(w, 1, ""), 3);
    finish(w);
    spgo_spt *spt;
    assert_int_equal(spgo_spt_open(bytes_span(&b), &spt, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_get_header(spt)->string_table_used, 5); /* "a", "b", "" */
    assert_int_equal(spgo_spt_get_program(spt, 1)->string_index, 0);
    assert_int_equal(spgo_spt_get_program(spt, 3)->name.len, 0);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void most_programs(void **state)
{
    (void)state;
    bytes b = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 0);
    uint16_t index;
    spgo_error err;
    for (uint32_t age = 0; age < 65535; age++) {
        spgo_image_id id = image_id(1, age);
        assert_int_equal(spgo_spt_writer_program(w, &id, str("a.dll"), &index, NULL), SPGO_OK);
        assert_int_equal(index, age);
    }
    spgo_image_id one_more = image_id(2, 0);
    assert_int_equal(spgo_spt_writer_program(w, &one_more, str("a.dll"), &index, &err), SPGO_LIMIT);
    add_ip(w, 65534, 0xFFFFFFFF, 1);
    finish(w);
    assert_int_equal(b.len, 32 + 0x4000 + 24 * 65535 + 8 + 6);
    expect_valid(&b);
    spgo_spt *spt;
    assert_int_equal(spgo_spt_open(bytes_span(&b), &spt, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_program_count(spt), 65535);
    assert_int_equal(spgo_spt_get_program(spt, 65534)->id.age, 65534);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void most_bytes_of_names(void **state)
{
    (void)state;
    bytes b = {0};
    spgo_spt_writer *w = writer_on(&b, 0, 0);
    spgo_image_id id = image_id(1, 1);
    char *name = malloc(65535);
    memset(name, 'x', 65535);
    uint16_t index;
    assert_int_equal(spgo_spt_writer_program(w, &id, (spgo_str){name, 65535}, &index, NULL),
                     SPGO_LIMIT);
    assert_int_equal(spgo_spt_writer_program(w, &id, (spgo_str){name, 65534}, &index, NULL),
                     SPGO_OK);
    assert_int_equal(spgo_spt_writer_program(w, &id, (spgo_str){name, 0}, &index, NULL),
                     SPGO_LIMIT);
    finish(w);
    spgo_spt *spt;
    assert_int_equal(spgo_spt_open(bytes_span(&b), &spt, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_get_header(spt)->string_table_used, 65535);
    assert_int_equal(spgo_spt_get_header(spt)->string_table_capacity, 65535);
    assert_int_equal(spgo_spt_get_program(spt, 0)->name.len, 65534);
    spgo_spt_close(spt);
    free(name);
    bytes_free(&b);
}

static void add_ages(spgo_spt_writer *w, uint32_t count)
{
    for (uint32_t age = 0; age < count; age++) {
        spgo_image_id id = image_id(9, age);
        uint16_t index;
        assert_int_equal(spgo_spt_writer_program(w, &id, str("a"), &index, NULL), SPGO_OK);
    }
}

/* Programs that turn up after records were written: the same file as if they had been known. */
static void outgrown_tables_move_the_records(void **state)
{
    (void)state;
    bytes early = {0}, late = {0};
    for (int is_late = 0; is_late < 2; is_late++) {
        spgo_spt_writer *w = writer_on(is_late ? &late : &early, 0, 1000);
        add_ages(w, is_late ? 1 : 1000);
        for (uint32_t i = 0; i < 400000; i++)
            add_ip(w, 0, i, 1);
        add_ages(w, 1000);
        finish(w);
    }
    assert_true(early.len > 2 << 20); /* more than is moved at once */
    assert_int_equal(early.len, late.len);
    assert_memory_equal(early.ptr, late.ptr, early.len);
    expect_valid(&late);
    bytes_free(&early);
    bytes_free(&late);
}

static void outgrown_tables_need_a_readable_sink(void **state)
{
    (void)state;
    bytes b = {0};
    spgo_sink sink = memory_sink(&b);
    sink.read = NULL;
    spgo_spt_writer_opts opts = {.size = sizeof opts, .buffer_bytes_max = 1};
    spgo_spt_writer *w;
    assert_int_equal(spgo_spt_writer_new(sink, &opts, &w, NULL), SPGO_OK);
    add_program(w, 0, "a");
    add_ip(w, 0, 1, 1);
    add_ages(w, 300);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_USAGE);
    bytes_free(&b);
}

static void wrong_calls(void **state)
{
    (void)state;
    bytes b = {0};
    spgo_spt_writer *w;
    spgo_sink stream = memory_sink(&b);
    stream.patch = NULL;
    assert_int_equal(spgo_spt_writer_new(stream, NULL, &w, NULL), SPGO_USAGE);
    spgo_spt_writer_opts opts = {.size = sizeof opts, .segment_bytes_max = 100};
    assert_int_equal(spgo_spt_writer_new(memory_sink(&b), &opts, &w, NULL), SPGO_USAGE);
    assert_int_equal(spgo_spt_writer_new(memory_sink(&b), NULL, &w, NULL), SPGO_OK);
    add_program(w, 1, "a");
    uint32_t rva = 1;
    assert_int_equal(spgo_spt_writer_add(w, 1, SPGO_SPT_LBR, &rva, 1, 1, NULL), SPGO_USAGE);
    assert_int_equal(spgo_spt_writer_add(w, 0, SPGO_SPT_REPEAT, &rva, 1, 1, NULL), SPGO_USAGE);
    assert_int_equal(spgo_spt_writer_add(w, 0, SPGO_SPT_ETW_INSTR, &rva, 0, 1, NULL), SPGO_USAGE);
    assert_int_equal(spgo_spt_writer_add(w, 0, SPGO_SPT_ETW_INSTR, &rva, 256, 1, NULL), SPGO_USAGE);
    assert_int_equal(spgo_spt_writer_add(w, 0, SPGO_SPT_ETW_INSTR, &rva, 1, 0, NULL), SPGO_USAGE);
    spgo_image_id id = image_id(1, 1);
    uint16_t index;
    assert_int_equal(spgo_spt_writer_program(w, &id, (spgo_str){"a\0b", 3}, &index, NULL),
                     SPGO_USAGE);
    add_ip(w, 0, 1, 1); /* none of it harmed the writer */
    finish(w);
    expect_valid(&b);
    bytes_free(&b);
}

static bool refuse_write(void *ctx, const void *data, size_t size)
{
    (void)data;
    size_t *left = ctx;
    if (size > *left)
        return false;
    *left -= size;
    return true;
}

static bool accept_patch(void *ctx, uint64_t offset, const void *data, size_t size)
{
    (void)ctx;
    (void)offset;
    (void)data;
    (void)size;
    return true;
}

static void a_refused_write_sticks(void **state)
{
    (void)state;
    for (size_t left = 0; left < TYPICAL_DATA_OFF + 100; left += 511) {
        size_t room = left;
        spgo_sink sink = {.ctx = &room, .write = refuse_write, .patch = accept_patch};
        spgo_spt_writer_opts opts = {.size = sizeof opts, .buffer_bytes_max = 1};
        spgo_spt_writer *w;
        assert_int_equal(spgo_spt_writer_new(sink, &opts, &w, NULL), SPGO_OK);
        add_program(w, 1, "a");
        spgo_code code = SPGO_OK;
        for (uint32_t i = 0; i < 20 && code == SPGO_OK; i++)
            code = spgo_spt_writer_add(w, 0, SPGO_SPT_ETW_INSTR, &i, 1, 1, NULL);
        assert_int_equal(code, SPGO_IO);
        spgo_error err = {0};
        assert_int_equal(spgo_spt_writer_finish(w, &err), SPGO_IO);
        assert_int_equal(err.code, SPGO_IO);
    }
}

/* ------------------------------------------------------------------ random records */

static const spgo_spt_opcode all_opcodes[] = {SPGO_SPT_UNHALT_CYCLE,    SPGO_SPT_RETIRE_INSTR,
                                              SPGO_SPT_RETIRE_BR_INSTR, SPGO_SPT_L1_ICACHE_MISS,
                                              SPGO_SPT_L1_DCACHE_MISS,  SPGO_SPT_LBR,
                                              SPGO_SPT_ETW_INSTR,       SPGO_SPT_ETW_CALLSTACK};

typedef struct random_record {
    uint16_t program;
    spgo_spt_opcode opcode;
    unsigned entry_count;
    uint64_t hits;
    uint32_t values[2 * 255];
} random_record;

static random_record make_random(uint64_t *seed, uint16_t program_count)
{
    random_record r = {.program = (uint16_t)(next_random(seed) % program_count),
                       .opcode = all_opcodes[next_random(seed) % 8],
                       .entry_count = (unsigned)(next_random(seed) % 255 + 1),
                       .hits = next_random(seed) % 4 ? 1 : next_random(seed) | 1};
    for (unsigned i = 0; i < 2 * r.entry_count; i++)
        r.values[i] = (uint32_t)next_random(seed);
    return r;
}

static void write_random(bytes *b, uint64_t seed, unsigned count, uint64_t segment_max,
                         uint64_t buffer_max)
{
    spgo_spt_writer *w = writer_on(b, segment_max, buffer_max);
    for (uint8_t i = 0; i < 5; i++)
        add_program(w, i, "name.dll");
    for (unsigned i = 0; i < count; i++) {
        random_record r = make_random(&seed, 5);
        assert_int_equal(
            spgo_spt_writer_add(w, r.program, r.opcode, r.values, r.entry_count, r.hits, NULL),
            SPGO_OK);
    }
    finish(w);
}

/* Each program's records come back in the order in which they were added. */
static void expect_random(const bytes *b, uint64_t seed, unsigned count)
{
    spgo_spt *spt;
    assert_int_equal(spgo_spt_open(bytes_span(b), &spt, NULL), SPGO_OK);
    spgo_spt_cursor cursors[5];
    for (size_t i = 0; i < 5; i++)
        cursors[i] = spgo_spt_records(spt);
    for (unsigned i = 0; i < count; i++) {
        random_record expected = make_random(&seed, 5);
        spgo_spt_record r;
        spgo_code code;
        do
            assert_true(spgo_spt_next_entries(&cursors[expected.program], &r, &code));
        while (r.program != expected.program);
        assert_int_equal(r.opcode, expected.opcode);
        assert_int_equal(r.entry_count, expected.entry_count);
        assert_true(r.hits == expected.hits);
        unsigned values = (expected.opcode == SPGO_SPT_LBR ? 2 : 1) * expected.entry_count;
        for (unsigned k = 0; k < values; k++)
            assert_int_equal(spgo_spt_load(r.entries + 4 * (size_t)k), expected.values[k]);
    }
    spgo_spt_close(spt);
}

static void random_records_come_back(void **state)
{
    (void)state;
    static const uint64_t limits[][2] = {
        {0, 0}, {0, 1}, {SPGO_SPT_SEGMENT_MIN, 100000}, {5000, 3000}, {0, 50000}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        bytes first = {0}, again = {0};
        write_random(&first, 42 + i, 1000, limits[i][0], limits[i][1]);
        write_random(&again, 42 + i, 1000, limits[i][0], limits[i][1]);
        assert_int_equal(first.len, again.len);
        assert_memory_equal(first.ptr, again.ptr, first.len);
        expect_valid(&first);
        expect_random(&first, 42 + i, 1000);
        bytes_free(&first);
        bytes_free(&again);
    }
}

/* ------------------------------------------------------------------ more than 4 GiB */

/* Keeps nothing but the borders of segments: a head comes in a write of its own. */
typedef struct border_sink {
    uint64_t size, segment_count, length_max, length_sum, last_off;
    uint32_t last_length;
} border_sink;

static void end_border(border_sink *b)
{
    b->length_sum += b->last_length;
    b->length_max = b->last_length > b->length_max ? b->last_length : b->length_max;
    b->last_length = 0;
}

static bool border_write(void *ctx, const void *data, size_t size)
{
    border_sink *b = ctx;
    const uint8_t *p = data;
    if (size == 8 && p[0] == SPGO_SPT_BINARY_ID) {
        end_border(b);
        b->segment_count++;
        b->last_off = b->size;
        b->last_length = load_u32(p + 4);
    }
    b->size += size;
    return true;
}

static bool border_patch(void *ctx, uint64_t offset, const void *data, size_t size)
{
    border_sink *b = ctx;
    if (size == 4 && offset == b->last_off + 4)
        b->last_length = load_u32(data);
    return true;
}

static void a_segment_ends_before_4_gib(void **state)
{
    (void)state;
    if (TEST_UNDER_SANITIZER)
        skip(); /* takes too long */
    enum { RECORD_SIZE = 2 + 8 * SPGO_SPT_ENTRIES_MAX };
    const uint64_t record_count = (UINT64_C(4300) << 20) / RECORD_SIZE;
    border_sink b = {0};
    spgo_sink sink = {.ctx = &b, .write = border_write, .patch = border_patch};
    static uint32_t entries[2 * SPGO_SPT_ENTRIES_MAX];
    spgo_spt_writer *w;
    assert_int_equal(spgo_spt_writer_new(sink, NULL, &w, NULL), SPGO_OK);
    uint16_t program = add_program(w, 1, "a.exe");
    for (uint64_t i = 0; i < record_count; i++) {
        entries[0] = (uint32_t)i;
        if (spgo_spt_writer_add(w, program, SPGO_SPT_LBR, entries, SPGO_SPT_ENTRIES_MAX, 1, NULL))
            fail();
    }
    finish(w);
    end_border(&b);
    assert_int_equal(b.segment_count, 2);
    assert_int_equal(b.length_max, 4 + (UINT32_MAX - 4) / RECORD_SIZE * RECORD_SIZE);
    assert_int_equal(b.length_sum, 2 * 4 + record_count * RECORD_SIZE);
    assert_int_equal(b.size, TYPICAL_DATA_OFF + 2 * 4 + b.length_sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_bytes),
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(equal_neighbours_merge),
        cmocka_unit_test(hits_that_do_not_fit_are_split),
        cmocka_unit_test(one_program_is_one_segment),
        cmocka_unit_test(waiting_records_flush_in_program_order),
        cmocka_unit_test(small_segments),
        cmocka_unit_test(programs_are_found_again),
        cmocka_unit_test(most_programs),
        cmocka_unit_test(most_bytes_of_names),
        cmocka_unit_test(outgrown_tables_move_the_records),
        cmocka_unit_test(outgrown_tables_need_a_readable_sink),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(a_refused_write_sticks),
        cmocka_unit_test(random_records_come_back),
        cmocka_unit_test(a_segment_ends_before_4_gib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
