/* Files of the stepping runtime: what they hold, where damage is found, and that any cut or flipped
 * bit is survived. */
#include "step_build.h"
#include "test_data.h"

#include <format/step/step.h>

#include <stdlib.h>

typedef struct fixture {
    bytes file;
    step_document doc;
    step_walk walk;
    diag findings;
    spgo_error err;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    return f ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    bytes_free(&f->file);
    free(f);
    return 0;
}

static spgo_code open_file(fixture *f)
{
    spgo_code code = step_open(bytes_span(&f->file), &f->doc, &f->findings, &f->err);
    if (code == SPGO_OK)
        step_walk_begin(&f->walk, &f->doc, &f->findings);
    return code;
}

static step_event next(fixture *f)
{
    step_event e;
    assert_true(step_walk_next(&f->walk, &e));
    return e;
}

static void assert_end(fixture *f)
{
    step_event e;
    assert_false(step_walk_next(&f->walk, &e));
}

static void test_header_is_read(void **state)
{
    fixture *f = *state;
    step_build_header(&f->file, 0);
    assert_int_equal(open_file(f), SPGO_OK);
    const step_header *h = &f->doc.header;
    assert_int_equal(h->filter, STEP_FILTER_JCC);
    assert_int_equal(h->pid, 71);
    assert_int_equal(h->parent_pid, 70);
    assert_int_equal(h->start_kind, STEP_START_FORK);
    assert_int_equal(h->end_kind, STEP_END_EXIT);
    assert_int_equal(h->start_time_ns, 1000);
    assert_int_equal(h->interval_ns, 1003);
    assert_int_equal(h->overhead_ppm, 50000);
    assert_int_equal(h->record_count, 2001);
    assert_int_equal(h->process_cpu_ns, 2014);
    assert_int_equal(f->doc.command.len, 9);
    assert_memory_equal(f->doc.command.ptr, "prog\0arg", 9);
    assert_end(f);
}

static void test_events_come_in_their_order(void **state)
{
    fixture *f = *state;
    step_build_whole(&f->file);
    assert_int_equal(open_file(f), SPGO_OK);
    assert_int_equal(next(f).kind, STEP_EVENT_IMAGE);
    assert_int_equal(next(f).kind, STEP_EVENT_THREAD);
    assert_int_equal(next(f).kind, STEP_EVENT_RECORD);
    assert_int_equal(next(f).kind, STEP_EVENT_RECORD);
    assert_int_equal(next(f).kind, STEP_EVENT_IMAGE_END);
    step_event e = next(f);
    assert_int_equal(e.kind, STEP_EVENT_THREAD_END);
    assert_int_equal(e.thread.tid, 72);
    assert_int_equal(e.thread.cpu_ns, 4242);
    assert_int_equal(e.time_ns, 340);
    assert_end(f);
    assert_int_equal(f->walk.unfinished_count, 1);
    assert_int_equal(f->findings.total, 0);
}

static void test_record_has_its_branches(void **state)
{
    fixture *f = *state;
    step_build_header(&f->file, 1);
    step_build_record(&f->file, 3, 320);
    step_build_to_slot(&f->file, 1);
    assert_int_equal(open_file(f), SPGO_OK);
    step_event e = next(f);
    assert_int_equal(e.offset, STEP_BUILD_HEADER);
    assert_int_equal(e.record.tid, 72);
    assert_int_equal(e.record.cpu, 1);
    assert_int_equal(e.record.branch_count, 3);
    assert_int_equal(e.record.stop, STEP_STOP_STEPS);
    assert_int_equal(e.record.step_count, 99);
    assert_int_equal(e.record.start_ip, 0x111);
    assert_int_equal(e.record.end_ip, 0x222);
    assert_int_equal(e.record.start_time_ns, 315);
    assert_int_equal(e.record.cpu_ns, 7777);
    assert_int_equal(step_branch_at(&e, 0).from, 0x1000);
    assert_int_equal(step_branch_at(&e, 2).to, 0x2020);
    assert_int_equal(e.record.kinds[2], STEP_BRANCH_NEAR_IND_CALL);
}

static void test_path_goes_on_in_text_slots(void **state)
{
    fixture *f = *state;
    step_build_whole(&f->file);
    assert_int_equal(open_file(f), SPGO_OK);
    step_event e = next(f);
    assert_int_equal(e.image.start_addr, 0x400000);
    assert_int_equal(e.image.size_bytes, 0x3000);
    assert_int_equal(e.image.file_offset, 0x1000);
    assert_int_equal(e.image.inode, 123456);
    assert_int_equal(e.image.prot, STEP_PROT_READ | STEP_PROT_EXEC);
    assert_int_equal(e.image.path.len, 100);
    assert_int_equal(e.image.path.ptr[0], '/');
    for (size_t i = 1; i < 100; i++)
        assert_int_equal(e.image.path.ptr[i], 'p');
    assert_int_equal(e.image.path.ptr[100], 0);
}

static void test_slots_of_later_kinds_are_passed_over(void **state)
{
    fixture *f = *state;
    step_build_header(&f->file, 2);
    step_build_head(&f->file, 77, 1, 5);
    step_build_to_slot(&f->file, 1);
    step_build_record(&f->file, 1, 9);
    step_build_to_slot(&f->file, 2);
    assert_int_equal(open_file(f), SPGO_OK);
    assert_int_equal(next(f).kind, STEP_EVENT_RECORD);
    assert_end(f);
    assert_int_equal(f->findings.total, 0);
}

static void test_file_that_was_never_begun(void **state)
{
    fixture *f = *state;
    bytes_fill(&f->file, 0, 4096);
    assert_int_equal(open_file(f), SPGO_NOT_FOUND);
}

static void test_other_file_is_named(void **state)
{
    fixture *f = *state;
    bytes_put(&f->file, "PERFILE2", 8);
    bytes_fill(&f->file, 0, 4096);
    assert_int_equal(open_file(f), SPGO_UNSUPPORTED);
    assert_int_equal(f->err.offset, 0);
}

static void assert_field_fails(fixture *f, size_t offset, uint32_t value, spgo_code code)
{
    bytes_clear(&f->file);
    step_build_whole(&f->file);
    bytes_set_u32(&f->file, offset, value);
    assert_int_equal(open_file(f), code);
    assert_int_equal(f->err.offset, offset);
}

static void test_layout_that_cannot_be_is_refused(void **state)
{
    fixture *f = *state;
    assert_field_fails(f, offsetof(step_header, version), 2, SPGO_UNSUPPORTED);
    assert_field_fails(f, offsetof(step_header, branches_max), 0, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, branches_max), 513, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, slot_bytes), 128, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, slot_bytes), 137, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, chunk_bytes), 135, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, chunk_bytes), UINT32_MAX, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, header_bytes), 2559, SPGO_CORRUPT);
    assert_field_fails(f, offsetof(step_header, command_size), 2049, SPGO_CORRUPT);
}

/* One slot is damaged at an offset in it; the finding is there, and all other events come. */
static void assert_slot_is_left_out(fixture *f, uint64_t slot, size_t offset, uint32_t value,
                                    size_t found_off, size_t events)
{
    step_event e;
    bytes_clear(&f->file);
    f->findings.total = f->findings.kept_count = 0;
    step_build_whole(&f->file);
    size_t at = STEP_BUILD_HEADER + (size_t)(slot / 3) * STEP_BUILD_CHUNK +
                (size_t)(slot % 3) * STEP_BUILD_SLOT;
    bytes_set_u32(&f->file, at + offset, value);
    assert_int_equal(open_file(f), SPGO_OK);
    size_t count = 0;
    while (step_walk_next(&f->walk, &e))
        count++;
    assert_int_equal(count, events);
    assert_int_equal(f->findings.total, 1);
    assert_int_equal(f->findings.kept[0].code, SPGO_CORRUPT);
    assert_int_equal(f->findings.kept[0].offset, at + found_off);
}

static void test_damaged_slot_costs_no_other(void **state)
{
    fixture *f = *state;
    const size_t branch_count = offsetof(step_record, branch_count);
    assert_slot_is_left_out(f, 3, branch_count, 0, branch_count, 5);
    assert_slot_is_left_out(f, 3, branch_count, 5, branch_count, 5);
    assert_slot_is_left_out(f, 3, 64 + 64, 0x01010108, 64 + 64, 5); /* a kind of branch */
    assert_slot_is_left_out(f, 2, 4, 0, 4, 5);                      /* span */
    assert_slot_is_left_out(f, 2, 4, 7, 4, 5);
    assert_slot_is_left_out(f, 0, offsetof(step_image, path_size), 5000,
                            offsetof(step_image, path_size), 5);
    assert_slot_is_left_out(f, 0, offsetof(step_image, path_size), 500, 0, 5);
    assert_slot_is_left_out(f, 0, 4, 1, 0, 5); /* the path needs two slots */
    assert_slot_is_left_out(f, 0, STEP_BUILD_SLOT, 77, STEP_BUILD_SLOT, 5); /* and text in them */
}

static void test_image_of_impossible_size_is_left_out(void **state)
{
    fixture *f = *state;
    step_build_header(&f->file, 1);
    step_build_image(&f->file, STEP_SLOT_IMAGE_END, 1, UINT64_MAX - 0x2000, 0);
    step_build_to_slot(&f->file, 1);
    assert_int_equal(open_file(f), SPGO_OK);
    assert_end(f);
    assert_int_equal(f->findings.kept[0].offset,
                     STEP_BUILD_HEADER + offsetof(step_image, size_bytes));
}

static void test_cut_file_is_read_as_far_as_it_goes(void **state)
{
    fixture *f = *state;
    step_build_whole(&f->file);
    f->file.len = STEP_BUILD_HEADER + STEP_BUILD_CHUNK + STEP_BUILD_SLOT + 20;
    assert_int_equal(open_file(f), SPGO_OK);
    assert_int_equal(f->findings.total, 1);
    assert_int_equal(f->findings.kept[0].code, SPGO_TRUNCATED);
    assert_int_equal(f->findings.kept[0].offset, f->file.len);
    assert_int_equal(f->doc.slot_count, 4);
    next(f), next(f), next(f);
    assert_end(f);
}

/* The input ends where its memory ends, so that a sanitizer sees any byte read behind it. */
static void read_all(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    static step_walk w;
    step_document doc;
    step_event e;
    spgo_error err;
    diag findings = {0};
    uint64_t sum = 0;
    memcpy(copy, data, size);
    if (step_open((spgo_span){copy, size}, &doc, &findings, &err) == SPGO_OK) {
        step_walk_begin(&w, &doc, &findings);
        while (step_walk_next(&w, &e)) {
            assert_true(e.offset < size);
            for (uint32_t i = 0; e.kind == STEP_EVENT_RECORD && i < e.record.branch_count; i++)
                sum += step_branch_at(&e, i).from + e.record.kinds[i];
        }
    } else {
        assert_true(err.offset <= size || err.offset == SPGO_NO_OFFSET);
    }
    (void)sum;
    free(copy);
}

static void test_every_prefix_and_flipped_bit_is_survived(void **state)
{
    fixture *f = *state;
    step_build_whole(&f->file);
    for (size_t size = 0; size <= f->file.len; size++)
        read_all(f->file.ptr, size);
    for (size_t bit = 0; bit < 8 * f->file.len; bit++) {
        if (bit / 8 >= 512 && bit / 8 < STEP_BUILD_HEADER)
            continue; /* the command */
        f->file.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
        read_all(f->file.ptr, f->file.len);
        f->file.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_header_is_read),
        TEST(test_events_come_in_their_order),
        TEST(test_record_has_its_branches),
        TEST(test_path_goes_on_in_text_slots),
        TEST(test_slots_of_later_kinds_are_passed_over),
        TEST(test_file_that_was_never_begun),
        TEST(test_other_file_is_named),
        TEST(test_layout_that_cannot_be_is_refused),
        TEST(test_damaged_slot_costs_no_other),
        TEST(test_image_of_impossible_size_is_left_out),
        TEST(test_cut_file_is_read_as_far_as_it_goes),
        TEST(test_every_prefix_and_flipped_bit_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
