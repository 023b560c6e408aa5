/* Reading SPP files: built by hand, cut at every place that matters, with wrong numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <format/spp/spp.h>

enum { CHUNKS = 4, FILE_BYTES = SPGO_SPP_HEADER_BYTES + CHUNKS * SPGO_SPP_CHUNK_BYTES };

/* The layout itself, as the runtime writes it. */
typedef struct fixture {
    uint8_t *bytes;
    spgo_spp_header *header;
    arena *mem;
    diag d;
    spgo_error err;
    spp_file file;
} fixture;

static uint8_t *chunk_bytes(fixture *f, unsigned index)
{
    return f->bytes + SPGO_SPP_HEADER_BYTES + (size_t)index * SPGO_SPP_CHUNK_BYTES;
}

static spgo_spp_chunk *put_chunk(fixture *f, unsigned index, spgo_spp_kind kind, uint32_t owner,
                                 uint32_t sequence, uint32_t used)
{
    spgo_spp_chunk *c = (spgo_spp_chunk *)chunk_bytes(f, index);
    *c = (spgo_spp_chunk){.magic = SPGO_SPP_CHUNK_MAGIC,
                          .kind = (uint16_t)kind,
                          .owner = owner,
                          .sequence = sequence,
                          .used_bytes = used};
    return c;
}

static spgo_spp_node *node(fixture *f, unsigned chunk, unsigned slot)
{
    return (spgo_spp_node *)chunk_bytes(f, chunk) + slot;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->bytes = calloc(1, FILE_BYTES);
    f->mem = arena_new(0);
    f->header = (spgo_spp_header *)f->bytes;
    *f->header = (spgo_spp_header){.version = SPGO_SPP_VERSION,
                                   .header_bytes = SPGO_SPP_HEADER_BYTES,
                                   .chunk_bytes = SPGO_SPP_CHUNK_BYTES,
                                   .pid = 77,
                                   .clock = SPGO_SPP_CLOCK_TSC,
                                   .flags = SPGO_SPP_FINISHED,
                                   .clock_first = 1000,
                                   .clock_first_ns = 5000,
                                   .clock_last = 3000,
                                   .clock_last_ns = 6000};
    memcpy(f->header->magic, SPGO_SPP_MAGIC, 8);
    strcpy(f->header->program, "/bin/x");
    put_chunk(f, 0, SPGO_SPP_TREE, 1, 0, SPGO_SPP_CHUNK_BYTES);
    ((spgo_spp_thread *)(chunk_bytes(f, 0) + SPGO_SPP_CHUNK_HEAD_BYTES))->tid = 78;
    node(f, 0, 4)->function = 0x1234;
    node(f, 0, 4)->parent = SPGO_SPP_ROOT;
    node(f, 0, 4)->calls = 3;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    arena_free(f->mem);
    free(f->bytes);
    free(f);
    return 0;
}

static spgo_code open_first(fixture *f, size_t len)
{
    return spp_open((spgo_span){f->bytes, len}, f->mem, &f->file, &f->d, &f->err);
}

static void test_header(void **state)
{
    fixture *f = *state;
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    assert_int_equal(f->file.header.pid, 77);
    assert_int_equal(f->file.header.program.len, 6);
    assert_true(f->file.ns_per_tick == 0.5);
    assert_true(spp_ns(&f->file, 1200) == 100);
    assert_int_equal(f->d.total, 0);
}

static void test_other_files(void **state)
{
    fixture *f = *state;
    f->bytes[0] = 'X';
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_CORRUPT);
    assert_int_equal(f->err.offset, 0);
    f->bytes[0] = 'S';
    f->header->version = 9;
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_UNSUPPORTED);
    assert_int_equal(f->err.offset, 8);
}

static void test_every_length_of_the_header(void **state)
{
    fixture *f = *state;
    for (size_t len = 0; len < SPGO_SPP_HEADER_BYTES; len++) {
        const spgo_code code = open_first(f, len);
        assert_true(code == SPGO_TRUNCATED || code == SPGO_CORRUPT);
    }
    assert_int_equal(open_first(f, SPGO_SPP_HEADER_BYTES), SPGO_OK);
    assert_int_equal(f->file.thread_count, 0);
}

static void test_node(void **state)
{
    fixture *f = *state;
    spgo_spp_node n;
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    assert_int_equal(f->file.thread_count, 1);
    const spp_thread *t = &f->file.threads[0];
    assert_int_equal(t->tid, 78);
    assert_true(spp_node(t, 4, &n));
    assert_int_equal(n.calls, 3);
    assert_false(spp_node(t, 0, &n));
    assert_false(spp_node(t, 1, &n));
    assert_false(spp_node(t, SPGO_SPP_NODES_PER_CHUNK, &n));
    assert_false(spp_node(t, UINT32_MAX, &n));
}

static void test_parents_that_are_none(void **state)
{
    fixture *f = *state;
    spgo_spp_node n;
    const uint32_t bad[] = {0, 1, 4, 5, SPGO_SPP_NODES_PER_CHUNK, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        node(f, 0, 4)->parent = bad[i];
        assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
        assert_false(spp_node(&f->file.threads[0], 4, &n));
    }
}

static void test_missing_part_of_a_tree(void **state)
{
    fixture *f = *state;
    put_chunk(f, 1, SPGO_SPP_TREE, 1, 2, SPGO_SPP_CHUNK_BYTES);
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    assert_int_equal(f->d.total, 1);
    assert_int_equal(spp_node_count(&f->file.threads[0]), SPGO_SPP_NODES_PER_CHUNK);
}

static void test_chunk_that_is_none(void **state)
{
    fixture *f = *state;
    put_chunk(f, 1, SPGO_SPP_TREE, 1, 1, SPGO_SPP_CHUNK_BYTES + 1);
    put_chunk(f, 2, SPGO_SPP_TREE, 1, 1, 3);
    put_chunk(f, 3, SPGO_SPP_TREE, 1, 1, SPGO_SPP_CHUNK_BYTES)->magic = 5;
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    assert_int_equal(f->d.total, 3);
    assert_int_equal(f->d.kept[0].offset, SPGO_SPP_HEADER_BYTES + SPGO_SPP_CHUNK_BYTES);
}

static void test_cut_chunk(void **state)
{
    fixture *f = *state;
    assert_int_equal(open_first(f, FILE_BYTES - 1), SPGO_OK);
    assert_int_equal(f->d.total, 1);
    f->d.total = 0;
    f->header->flags = 0; /* killed: no wonder */
    assert_int_equal(open_first(f, FILE_BYTES - 1), SPGO_OK);
    assert_int_equal(f->d.total, 0);
}

static void put_event(fixture *f, unsigned chunk, unsigned slot, unsigned kind, uint32_t number,
                      uint32_t ticks)
{
    const uint64_t word = (uint64_t)kind << 62 | (uint64_t)number << 32 | ticks;
    memcpy(chunk_bytes(f, chunk) + SPGO_SPP_CHUNK_HEAD_BYTES + 8 * slot, &word, 8);
}

static void test_events(void **state)
{
    fixture *f = *state;
    spp_event e;
    put_chunk(f, 1, SPGO_SPP_EVENTS, 1, 6, SPGO_SPP_CHUNK_HEAD_BYTES + 16)->clock_first = 500;
    put_event(f, 1, 0, SPGO_SPP_EXIT, 4, 30);
    put_event(f, 1, 1, SPGO_SPP_ENTER, 4, 40);
    put_chunk(f, 2, SPGO_SPP_EVENTS, 1, 5, SPGO_SPP_CHUNK_HEAD_BYTES + 24)->clock_first = 100;
    put_event(f, 2, 0, SPGO_SPP_ENTER, 4, 10);
    put_event(f, 2, 1, SPGO_SPP_LATER, 0, 300);
    put_event(f, 2, 2, SPGO_SPP_ENTER, 5, 20);
    put_chunk(f, 3, SPGO_SPP_EVENTS, 1, UINT32_MAX, SPGO_SPP_CHUNK_HEAD_BYTES);
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    spp_events events = spp_events_of(&f->file.threads[0]);
    assert_true(spp_next_event(&events, &e));
    assert_int_equal(e.clock, 110);
    assert_int_equal(e.since, 0); /* what was before is not known */
    assert_true(spp_next_event(&events, &e));
    assert_int_equal(e.clock, 430);
    assert_int_equal(e.since, 320);
    assert_int_equal(e.node, 5);
    assert_true(spp_next_event(&events, &e));
    assert_int_equal(e.kind, SPGO_SPP_EXIT);
    assert_int_equal(e.clock, 530);
    assert_int_equal(e.since, 100);
    assert_true(spp_next_event(&events, &e));
    assert_int_equal(e.since, 40);
    assert_false(spp_next_event(&events, &e));
}

static void test_gap_between_events(void **state)
{
    fixture *f = *state;
    spp_event e;
    put_chunk(f, 1, SPGO_SPP_EVENTS, 1, 1, SPGO_SPP_CHUNK_HEAD_BYTES + 8)->clock_first = 100;
    put_event(f, 1, 0, SPGO_SPP_ENTER, 4, 10);
    spgo_spp_chunk *c = put_chunk(f, 2, SPGO_SPP_EVENTS, 1, 2, SPGO_SPP_CHUNK_HEAD_BYTES + 8);
    c->clock_first = 900;
    c->lost = 77;
    put_event(f, 2, 0, SPGO_SPP_EXIT, 4, 10);
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    spp_events events = spp_events_of(&f->file.threads[0]);
    assert_true(spp_next_event(&events, &e));
    assert_true(spp_next_event(&events, &e));
    assert_int_equal(e.since, 0);
    assert_int_equal(e.clock, 910);
    assert_int_equal(events.lost, 77);
}

static void test_marks_and_modules(void **state)
{
    fixture *f = *state;
    put_chunk(f, 1, SPGO_SPP_MARKS, 0, 0,
              SPGO_SPP_CHUNK_HEAD_BYTES + 2 * (uint32_t)sizeof(spgo_spp_mark));
    spgo_spp_mark *m = (spgo_spp_mark *)(chunk_bytes(f, 1) + SPGO_SPP_CHUNK_HEAD_BYTES);
    m[0] = (spgo_spp_mark){.clock = 5, .id = 6, .kind = SPGO_SPP_MARK, .comment = "six"};
    memset(m[1].comment, 'y', sizeof m[1].comment); /* without an end */
    put_chunk(f, 2, SPGO_SPP_MODULES, 0, 0,
              SPGO_SPP_CHUNK_HEAD_BYTES + (uint32_t)sizeof(spgo_spp_module));
    spgo_spp_module *k = (spgo_spp_module *)(chunk_bytes(f, 2) + SPGO_SPP_CHUNK_HEAD_BYTES);
    *k = (spgo_spp_module){.bias = 1, .begin = 2, .end = 3, .build_id_bytes = 99, .path = "/p"};
    assert_int_equal(open_first(f, FILE_BYTES), SPGO_OK);
    assert_int_equal(f->file.mark_count, 2);
    assert_int_equal(f->file.marks[0].id, 6);
    assert_int_equal(f->file.marks[0].comment.len, 3);
    assert_int_equal(f->file.marks[1].comment.len, SPGO_SPP_COMMENT_BYTES);
    assert_int_equal(f->file.module_count, 1);
    assert_int_equal(f->file.modules[0].build_id.len, 0); /* longer than there is room for */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_header),
        TEST(test_other_files),
        TEST(test_every_length_of_the_header),
        TEST(test_node),
        TEST(test_parents_that_are_none),
        TEST(test_missing_part_of_a_tree),
        TEST(test_chunk_that_is_none),
        TEST(test_cut_chunk),
        TEST(test_events),
        TEST(test_gap_between_events),
        TEST(test_marks_and_modules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
