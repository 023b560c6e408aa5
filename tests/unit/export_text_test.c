/* What other tools take, to the byte: ranges and branches, branch records, stacks. */
#include "profile_fake_code.h"
#include "spt_build.h"

#include <export/export.h>
#include <export/export_stacks.h>

static const uint32_t F = 0x100, G = 0x200;
static const uint64_t BASE = 0x140000000;
static const symbol_function f = {.name = {"f", 1}, .line = 10}, g = {.name = {"g", 1}};
static const symbol_function inlined = {.name = {"a;b\n", 4}, .file = {"x.c", 3}, .line = 3};
static const symbol_frame f_frame = {.function = &f, .line = 11};
static const symbol_frame inner_frame = {.function = &inlined, .line = 4, .caller = &f_frame};

static int program(void **state)
{
    (void)set_up(state);
    fake.image.base_addr = BASE;
    fake.info.image_path = "dir/app.exe";
    fake.info.is_pe = true;
    add_procedure(&f, F, F + 0x10);
    add_procedure(&g, G, G + 0x10);
    return 0;
}

static int elf_program(void **state)
{
    (void)program(state);
    fake.info.is_pe = false;
    fake.info.text_rva = 0x100;
    fake.info.text_off = 0x40;
    return 0;
}

static address_range ranges[] = {{0x100, 0x108, 7}, {0x100, 0x10f, 1}, {0x200, 0x20f, 5}};
static address_branch branches[] = {{SPGO_SPT_OUTSIDE, 0x200, 5},
                                    {0x108, 0x10f, 2},
                                    {0x10f, 0x100, 6},
                                    {0x10f, SPGO_SPT_OUTSIDE, 1},
                                    {0x20f, 0x100, 2}};
static const address_profile profile = {ranges, branches, 3, 5};

typedef struct text_out {
    bytes text;
    out o;
} text_out;

static void begin(text_out *t)
{
    t->text = (bytes){0};
    assert_int_equal(out_init(&t->o, bytes_sink(&t->text), NULL), SPGO_OK);
}

static void expect(text_out *t, const char *wanted)
{
    assert_true(out_flush(&t->o));
    out_free(&t->o);
    bytes_u8(&t->text, 0);
    assert_string_equal((const char *)t->text.ptr, wanted);
    bytes_free(&t->text);
}

/* ------------------------------------------------------------------ ranges and branches */

static void unsymbolized_counts_from_the_base_of_a_pe(void **state)
{
    (void)state;
    text_out t;
    begin(&t);
    export_unsymbolized(&profile, &fake, &t.o);
    expect(&t, "3\n100-108:7\n100-10f:1\n200-20f:5\n"
               "4\n1->200:5\n108->10f:2\n10f->100:6\n20f->100:2\n");
}

/* A source outside is address 1, which is before the text. */
static void unsymbolized_counts_from_the_text_of_an_elf(void **state)
{
    (void)state;
    text_out t;
    begin(&t);
    export_unsymbolized(&profile, &fake, &t.o);
    expect(&t, "3\n0-8:7\n0-f:1\n100-10f:5\n"
               "4\nffffffffffffff01->100:5\n8->f:2\nf->0:6\n10f->0:2\n");
}

static void autofdo_has_addresses_and_both_ends(void **state)
{
    (void)state;
    text_out t;
    begin(&t);
    export_autofdo(&profile, &fake, &t.o);
    expect(&t, "3\n140000100-140000108:7\n140000100-14000010f:1\n140000200-14000020f:5\n0\n"
               "3\n140000108->14000010f:2\n14000010f->140000100:6\n14000020f->140000100:2\n");
}

/* 100 is reached 6 times from f itself and 2 times from g: a quarter of the runs from there. */
static void bolt_tells_where_runs_began(void **state)
{
    (void)state;
    text_out t;
    begin(&t);
    assert_int_equal(export_bolt(&profile, &fake, &t.o, NULL), SPGO_OK);
    expect(&t, "B 0 140000200 5 0\nB 140000108 14000010f 2 0\nB 14000010f 140000100 6 0\n"
               "B 14000010f 0 1 0\nB 14000020f 140000100 2 0\n"
               "F 140000100 140000108 5\nf 140000100 140000108 2\n"
               "F 140000100 14000010f 1\nf 140000200 14000020f 5\n");
}

static void nothing_is_written_as_nothing(void **state)
{
    (void)state;
    const address_profile none = {0};
    text_out t;
    begin(&t);
    export_unsymbolized(&none, &fake, &t.o);
    export_autofdo(&none, &fake, &t.o);
    assert_int_equal(export_bolt(&none, &fake, &t.o, NULL), SPGO_OK);
    expect(&t, "0\n0\n0\n0\n0\n");
}

/* ------------------------------------------------------------------ branch records */

static void records_are_newest_first_with_their_hits(void **state)
{
    (void)state;
    bytes file = {0};
    spgo_spt_writer *w;
    uint16_t index, other;
    spgo_spt *spt;
    const uint32_t entries[] = {0x200, 0x10f, 0x100, SPGO_SPT_OUTSIDE}; /* to, from */
    const uint32_t ip[] = {0x100};
    spgo_image_id id = image_id(0x11, 1);
    assert_int_equal(spgo_spt_writer_new(bytes_sink(&file), NULL, &w, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_program(w, &id, text("other"), &other, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_program(w, &id, text("app"), &index, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_add(w, other, SPGO_SPT_LBR, entries, 2, 1, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_add(w, index, SPGO_SPT_LBR, entries, 2, 3, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_add(w, index, SPGO_SPT_ETW_INSTR, ip, 1, 1, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_writer_finish(w, NULL), SPGO_OK);
    assert_int_equal(spgo_spt_open(bytes_span(&file), &spt, NULL), SPGO_OK);
    text_out t;
    begin(&t);
    assert_int_equal(export_perf_records(spt, index, 2, &fake, &t.o, NULL), SPGO_OK);
    expect(&t, "6\n140000200 0x14000010f/0x140000200/P/-/-/0 0x0/0x140000100/P/-/-/0\n");
    begin(&t);
    assert_int_equal(export_perf_records(spt, index, UINT64_MAX, &fake, &t.o, NULL), SPGO_OK);
    expect(&t, "18446744073709551615\n"
               "140000200 0x14000010f/0x140000200/P/-/-/0 0x0/0x140000100/P/-/-/0\n");
    spgo_spt_close(spt);
    bytes_free(&file);
}

static void a_pe_lies_at_its_base(void **state)
{
    (void)state;
    text_out t;
    const code_segment segments[] = {{.rva = 0x80, .bytes = {code_bytes, 0x10}},
                                     {0x1000, {code_bytes, 0x300}, true},
                                     {0x3000, {code_bytes, 0x100}, true}};
    fake.image.segments = segments;
    fake.image.segment_count = 3;
    begin(&t);
    export_perf_mapping(&fake, &t.o);
    expect(&t, "PERF_RECORD_MMAP2 1/1: [0x140000000(0x3100) @ 0x1000 00:00 0 0]: r-xp "
               "dir/app.exe\n");
}

static void an_elf_lies_at_its_text(void **state)
{
    (void)state;
    text_out t;
    const code_segment segments[] = {{.rva = 0, .bytes = {code_bytes, 0x10}},
                                     {0x123, {code_bytes, 0x300}, true}};
    fake.image.segments = segments;
    fake.image.segment_count = 2;
    begin(&t);
    export_perf_mapping(&fake, &t.o);
    expect(&t, "PERF_RECORD_MMAP2 1/1: [0x140000100(0x323) @ 0x40 00:00 0 0]: r-xp "
               "dir/app.exe\n");
}

/* ------------------------------------------------------------------ stacks */

/* f has 8 instructions of its own and 8 inlined ones; of g no line is known. */
static void add_lines(void)
{
    add_run(F, F + 8, &f_frame);
    add_run(F + 8, F + 0x10, &inner_frame);
}

static void folded_stacks_add_up(void **state)
{
    (void)state;
    text_out t;
    code_decoder *d = new_decoder();
    add_lines();
    begin(&t);
    assert_int_equal(export_folded(&profile, &fake, d, &t.o, NULL), SPGO_OK);
    /* 100 to 108 ran 8 times, 109 to 10f once, 200 to 20f 5 times */
    expect(&t, "f 64\nf;a:b? 15\ng 80\n");
    code_decoder_free(d);
}

static void speedscope_has_each_frame_once(void **state)
{
    (void)state;
    text_out t;
    code_decoder *d = new_decoder();
    add_lines();
    begin(&t);
    assert_int_equal(export_speedscope(&profile, &fake, d, &t.o, NULL), SPGO_OK);
    expect(&t, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
               "\"exporter\":\"spgo\",\"profiles\":[{\"type\":\"sampled\",\"name\":\"dir/app.exe\","
               "\"unit\":\"none\",\"startValue\":0,\"endValue\":159,"
               "\"samples\":[[0],[0,1],[2]],\"weights\":[64,15,80]}],"
               "\"shared\":{\"frames\":[{\"name\":\"f\",\"line\":10},"
               "{\"name\":\"a;b\\n\",\"file\":\"x.c\",\"line\":3},{\"name\":\"g\"}]}}\n");
    code_decoder_free(d);
}

static void stacks_saturate(void **state)
{
    (void)state;
    address_range twice[] = {{G, G + 1, UINT64_MAX - 1}};
    const address_profile hot = {twice, NULL, 1, 0};
    export_stacks stacks;
    code_decoder *d = new_decoder();
    assert_int_equal(export_stacks_gather(&hot, &fake, d, &stacks, NULL), SPGO_OK);
    assert_int_equal(stacks.count, 1);
    assert_true(stacks.list[0].weight == UINT64_MAX && stacks.total == UINT64_MAX);
    free(stacks.list);
    code_decoder_free(d);
}

/* Debug information may be damaged so that calls are inlined without end. */
static void the_innermost_frames_are_kept(void **state)
{
    (void)state;
    enum { DEPTH = EXPORT_STACK_DEPTH_MAX + 10 };
    static symbol_frame chain[DEPTH];
    for (size_t i = 0; i < DEPTH; i++)
        chain[i] = (symbol_frame){
            .function = &f, .line = (uint32_t)i, .caller = i + 1 < DEPTH ? &chain[i + 1] : NULL};
    const export_stack stack = {.leaf = &chain[0]};
    const symbol_frame *frames[EXPORT_STACK_DEPTH_MAX];
    assert_int_equal(export_stack_frames(&stack, frames), EXPORT_STACK_DEPTH_MAX);
    assert_ptr_equal(frames[EXPORT_STACK_DEPTH_MAX - 1], &chain[0]);
    assert_ptr_equal(frames[0], &chain[EXPORT_STACK_DEPTH_MAX - 1]);
}

/* ------------------------------------------------------------------ pprof */

static bool refuse(void *ctx, const void *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return false;
}

static void pprof_is_compressed_where_that_can_be(void **state)
{
    (void)state;
    bytes made = {0};
    code_decoder *d = new_decoder();
    assert_int_equal(export_pprof(&profile, "samples", &fake, d, bytes_sink(&made), NULL), SPGO_OK);
    assert_true(made.len > 20);
    if (SPGO_HAVE_ZLIB)
        assert_memory_equal(made.ptr, "\x1f\x8b", 2);
    else
        assert_int_equal(made.ptr[0], 1 << 3 | 2);
    bytes_free(&made);
    code_decoder_free(d);
}

static void a_refused_write_is_told(void **state)
{
    (void)state;
    code_decoder *d = new_decoder();
    spgo_sink sink = {.write = refuse};
    assert_int_equal(export_pprof(&profile, "samples", &fake, d, sink, NULL), SPGO_IO);
    code_decoder_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(unsymbolized_counts_from_the_base_of_a_pe, program),
        cmocka_unit_test_setup(unsymbolized_counts_from_the_text_of_an_elf, elf_program),
        cmocka_unit_test_setup(autofdo_has_addresses_and_both_ends, program),
        cmocka_unit_test_setup(bolt_tells_where_runs_began, program),
        cmocka_unit_test_setup(nothing_is_written_as_nothing, program),
        cmocka_unit_test_setup(records_are_newest_first_with_their_hits, program),
        cmocka_unit_test_setup(a_pe_lies_at_its_base, program),
        cmocka_unit_test_setup(an_elf_lies_at_its_text, elf_program),
        cmocka_unit_test_setup(folded_stacks_add_up, program),
        cmocka_unit_test_setup(speedscope_has_each_frame_once, program),
        cmocka_unit_test_setup(stacks_saturate, program),
        cmocka_unit_test_setup(the_innermost_frames_are_kept, program),
        cmocka_unit_test_setup(pprof_is_compressed_where_that_can_be, program),
        cmocka_unit_test_setup(a_refused_write_is_told, program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
