/* Reading SPT: tables in every place, the walk over records, and each kind of damage. */
#include "spt_build.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ header and tables */

static void expect_open_failure(const bytes *b, spgo_code code, uint64_t offset, const char *part)
{
    spgo_spt *spt;
    spgo_error err = {0};
    assert_int_equal(spgo_spt_open(bytes_span(b), &spt, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.offset, offset);
    if (!strstr(err.sentence, part))
        fail_msg("'%s' does not say '%s'", err.sentence, part);
    spgo_spt_close(spt);
}

static spgo_spt *open_well(const bytes *b)
{
    spgo_spt *spt;
    spgo_error err = {0};
    spgo_code code = spgo_spt_open(bytes_span(b), &spt, &err);
    if (code != SPGO_OK)
        fail_msg("%s", err.sentence);
    return spt;
}

static void expect_name(const spgo_spt *spt, size_t index, const char *name)
{
    const spgo_spt_program *p = spgo_spt_get_program(spt, index);
    assert_non_null(p);
    assert_int_equal(p->name.len, strlen(name));
    assert_memory_equal(p->name.ptr, name, p->name.len);
}

static void header_and_tables(void **state)
{
    (void)state;
    bytes b = small_file();
    spgo_spt *spt = open_well(&b);
    assert_int_equal(spgo_spt_get_header(spt)->signature, 0x5350543A);
    assert_int_equal(spgo_spt_get_header(spt)->string_table_used, 12);
    assert_int_equal(spgo_spt_program_count(spt), 2);
    assert_int_equal(spgo_spt_get_program(spt, 1)->id.age, 7);
    assert_int_equal(spgo_spt_get_program(spt, 1)->id.guid.bytes[15], 0x22);
    expect_name(spt, 0, "a.exe");
    expect_name(spt, 1, "b.dll");
    assert_null(spgo_spt_get_program(spt, 2));
    assert_int_equal(spgo_spt_data_off(spt), SMALL_DATA_OFF);
    assert_int_equal(spgo_spt_data_end(spt), b.len);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void signature_is_3a545053(void **state)
{
    (void)state;
    bytes b = small_file();
    assert_memory_equal(b.ptr, "\x3A\x54\x50\x53", 4);
    bytes_free(&b);
}

static void strings_are_listed(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u16(&b, 0x18, 16); /* the padding counted as used */
    spgo_spt *spt = open_well(&b);
    size_t index = 0, at;
    spgo_str text;
    assert_true(spgo_spt_next_string(spt, &index, &at, &text));
    assert_int_equal(at, 0);
    assert_int_equal(text.len, 5);
    assert_true(spgo_spt_next_string(spt, &index, &at, &text));
    assert_int_equal(at, 6);
    assert_memory_equal(text.ptr, "b.dll", 5);
    assert_false(spgo_spt_next_string(spt, &index, &at, &text));
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void missing_final_nul_is_read(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u16(&b, 0x18, 11);
    spgo_spt *spt = open_well(&b);
    expect_name(spt, 1, "b.dll");
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void ordinal_names_are_read(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_PROGRAMS_OFF + 24 + 20, 1);
    spgo_spt *spt = open_well(&b);
    expect_name(spt, 0, "a.exe");
    expect_name(spt, 1, "b.dll");
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void index_inside_a_string_is_its_tail(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_PROGRAMS_OFF + 24 + 20, 8);
    spgo_spt *spt = open_well(&b);
    expect_name(spt, 1, "dll");
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void index_outside_gives_no_name(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_PROGRAMS_OFF + 24 + 20, 12);
    spgo_spt *spt = open_well(&b);
    expect_name(spt, 0, "a.exe");
    expect_name(spt, 1, "");
    spgo_spt_close(spt);
    bytes_free(&b);
}

static unsigned count_records(const spgo_spt *spt)
{
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    spgo_code code;
    unsigned n = 0;
    while (spgo_spt_next_entries(&c, &r, &code))
        n++;
    assert_int_equal(code, SPGO_NOT_FOUND);
    return n;
}

static void program_table_before_strings_with_gaps(void **state)
{
    (void)state;
    bytes b = {0};
    put_header(&b, 200, 40, 12, 16, 2, 2);
    bytes_fill(&b, 0xEE, 8);
    put_program(&b, 0x11, 1, 0);
    put_program(&b, 0x22, 7, 6);
    put_small_records(&b);
    size_t end = b.len;
    assert_true(end < 200);
    bytes_set_u32(&b, 0x10, (uint32_t)end); /* the string table behind the records */
    bytes_put(&b, "a.exe\0b.dll\0\0\0\0\0", 16);
    bytes_fill(&b, 0x81, 5);
    spgo_spt *spt = open_well(&b);
    expect_name(spt, 1, "b.dll");
    assert_int_equal(spgo_spt_data_off(spt), 40 + 48);
    assert_int_equal(spgo_spt_data_end(spt), end);
    assert_int_equal(count_records(spt), 4);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void no_programs_and_no_records(void **state)
{
    (void)state;
    bytes b = {0};
    put_header(&b, 32, 32, 0, 0, 0, 0);
    spgo_spt *spt = open_well(&b);
    assert_int_equal(spgo_spt_program_count(spt), 0);
    assert_int_equal(count_records(spt), 0);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void empty_file(void **state)
{
    (void)state;
    bytes b = {0};
    expect_open_failure(&b, SPGO_TRUNCATED, 0, "empty");
}

static void swapped_signature(void **state)
{
    (void)state;
    bytes b = small_file();
    memcpy(b.ptr, "\x53\x50\x54\x3A", 4);
    expect_open_failure(&b, SPGO_CORRUPT, 0, "byte order");
    bytes_free(&b);
}

static void strangers_are_recognized(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        size_t size;
        const char *says;
    } files[] = {
        {"PERFILE2........", 16, "perf.data"},
        {"\177ELF\2\1\1", 7, "ELF"},
        {"MZ\x90\0\3\0\0", 7, "PE image"},
        {"Microsoft C/C++ MSF 7.00\r\n", 26, "PDB"},
        {"H_Q_\x0C\x10\0\0", 8, "SPD"},
        {"hello world, says a text\n", 25, "text"},
        {"\x01\x02\x03\x04\x05", 5, "01 02 03 04"},
        {"\x28\xB5\x2F\xFD\0\0", 6, "zstd"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        bytes b = {0};
        bytes_put(&b, files[i].start, files[i].size);
        expect_open_failure(&b, SPGO_CORRUPT, 0, files[i].says);
        bytes_free(&b);
    }
}

static void real_etl_is_recognized(void **state)
{
    (void)state;
    spgo_span etl = test_data_or_skip("etl/perfview__smallEtlFile.etl");
    spgo_spt *spt;
    spgo_error err;
    assert_int_equal(spgo_spt_open(etl, &spt, &err), SPGO_CORRUPT);
    assert_non_null(strstr(err.sentence, "ETL"));
    assert_null(spt);
    test_data_free(etl);
}

static void short_header_is_kept(void **state)
{
    (void)state;
    bytes b = small_file();
    b.len = 20;
    spgo_spt *spt;
    spgo_error err;
    assert_int_equal(spgo_spt_open(bytes_span(&b), &spt, &err), SPGO_TRUNCATED);
    assert_int_equal(err.offset, 20);
    assert_non_null(spt);
    assert_int_equal(spgo_spt_get_header(spt)->string_table_off, 32);
    assert_int_equal(spgo_spt_get_header(spt)->program_table_off, 0);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void another_version(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, 4, 2);
    expect_open_failure(&b, SPGO_UNSUPPORTED, 4, "version 2");
    bytes_free(&b);
}

static void broken_fields(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint16_t value;
        spgo_code code;
        const char *says;
    } breaks[] = {
        {0x10, 31, SPGO_CORRUPT, "string table"},
        {0x12, 1, SPGO_TRUNCATED, "string table"},
        {0x14, 31, SPGO_CORRUPT, "program id table"},
        {0x16, 1, SPGO_TRUNCATED, "program id table"},
        {0x18, 17, SPGO_CORRUPT, "17 used"},
        {0x1A, 11, SPGO_CORRUPT, "capacity of 11"},
        {0x1C, 3, SPGO_CORRUPT, "3 used"},
        {0x1E, 0xFFFF, SPGO_TRUNCATED, "capacity of 65535"},
    };
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        bytes b = small_file();
        bytes_set_u16(&b, breaks[i].at, breaks[i].value);
        uint64_t offset = breaks[i].at;
        if (offset == 0x12 || offset == 0x16)
            offset -= 2; /* the upper half of the field */
        if (offset == 0x1A)
            offset = 0x18;
        if (offset == 0x1E)
            offset = 0x14;
        expect_open_failure(&b, breaks[i].code, offset, breaks[i].says);
        bytes_free(&b);
    }
}

static void cut_tables_are_kept(void **state)
{
    (void)state;
    bytes b = small_file();
    b.len = SMALL_PROGRAMS_OFF + 30;
    spgo_spt *spt;
    spgo_error err;
    assert_int_equal(spgo_spt_open(bytes_span(&b), &spt, &err), SPGO_TRUNCATED);
    assert_int_equal(err.offset, 0x14);
    assert_int_equal(spgo_spt_program_count(spt), 1);
    expect_name(spt, 0, "a.exe");
    assert_int_equal(spgo_spt_data_off(spt), b.len);
    spgo_spt_close(spt);
    bytes_free(&b);
}

/* ------------------------------------------------------------------ records */

typedef struct walk {
    spgo_spt *spt;
    spgo_spt_cursor c;
} walk;

static walk walk_of(const bytes *b)
{
    walk w = {.spt = open_well(b)};
    w.c = spgo_spt_records(w.spt);
    return w;
}

static spgo_spt_record expect_record(walk *w, uint8_t opcode, uint64_t offset)
{
    spgo_spt_record r;
    spgo_error err = {0};
    if (spgo_spt_next(&w->c, &r, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    assert_int_equal(r.opcode, opcode);
    assert_int_equal(r.offset, offset);
    return r;
}

static void expect_failure(walk *w, spgo_code code, uint64_t offset, const char *part)
{
    spgo_spt_record r;
    spgo_error err = {0};
    assert_int_equal(spgo_spt_next(&w->c, &r, &err), code);
    if (err.offset != offset)
        fail_msg("offset %#lx, not %#lx: %s", (unsigned long)err.offset, (unsigned long)offset,
                 err.sentence);
    if (!strstr(err.sentence, part))
        fail_msg("'%s' does not say '%s'", err.sentence, part);
}

static void expect_end(walk *w)
{
    spgo_spt_record r;
    assert_int_equal(spgo_spt_next(&w->c, &r, NULL), SPGO_NOT_FOUND);
    assert_int_equal(spgo_spt_next(&w->c, &r, NULL), SPGO_NOT_FOUND);
    spgo_spt_close(w->spt);
}

static void records_in_order(void **state)
{
    (void)state;
    bytes b = small_file();
    walk w = walk_of(&b);
    uint64_t at = SMALL_DATA_OFF;
    spgo_spt_record r = expect_record(&w, SPGO_SPT_BINARY_ID, at);
    assert_int_equal(r.program, 0);
    assert_int_equal(r.segment_bytes, 4 + 10 + 18);
    assert_int_equal(r.hits, 0);
    r = expect_record(&w, SPGO_SPT_UNHALT_CYCLE, at + 8);
    assert_int_equal(r.entry_count, 2);
    assert_int_equal(r.size_bytes, 10);
    assert_int_equal(r.hits, 1);
    assert_int_equal(spgo_spt_rva(&r, 1), 0x1010);
    r = expect_record(&w, SPGO_SPT_LBR, at + 18);
    assert_int_equal(spgo_spt_arc_to(&r, 1), 0x2011);
    assert_int_equal(spgo_spt_arc_from(&r, 1), 0x2010);
    at += 36;
    r = expect_record(&w, SPGO_SPT_BINARY_ID, at);
    assert_int_equal(r.program, 1);
    r = expect_record(&w, SPGO_SPT_REPEAT, at + 8);
    assert_int_equal(r.repeat, 4);
    assert_int_equal(r.hits, 0);
    r = expect_record(&w, SPGO_SPT_ETW_CALLSTACK, at + 18);
    assert_int_equal(r.repeat, 4);
    assert_int_equal(r.hits, 5);
    assert_int_equal(r.program, 1);
    r = expect_record(&w, SPGO_SPT_ETW_INSTR, at + 32);
    assert_int_equal(r.hits, 1);
    expect_end(&w);
    bytes_free(&b);
}

static void every_opcode(void **state)
{
    (void)state;
    static const uint8_t opcodes[] = {1, 2, 3, 4, 5, 0x10, 0x41, 0x42};
    static const unsigned widths[] = {4, 4, 4, 4, 4, 8, 4, 4};
    bytes b = {0};
    put_small_tables(&b);
    size_t at = begin_segment(&b, 1);
    for (size_t i = 0; i < sizeof opcodes; i++) {
        bytes_u8(&b, opcodes[i]);
        bytes_u8(&b, 255);
        bytes_fill(&b, 0x5A, 255 * widths[i]);
    }
    end_segment(&b, at);
    walk w = walk_of(&b);
    uint64_t off = SMALL_DATA_OFF;
    expect_record(&w, SPGO_SPT_BINARY_ID, off);
    off += 8;
    for (size_t i = 0; i < sizeof opcodes; i++) {
        spgo_spt_record r = expect_record(&w, opcodes[i], off);
        assert_int_equal(r.entry_count, 255);
        assert_int_equal(r.size_bytes, 2 + 255 * widths[i]);
        off += r.size_bytes;
    }
    expect_end(&w);
    bytes_free(&b);
}

static void names_and_kinds(void **state)
{
    (void)state;
    assert_string_equal(spgo_spt_opcode_name(0x10), "LBR");
    assert_string_equal(spgo_spt_opcode_name(0x42), "ETW_CALLSTACK");
    assert_string_equal(spgo_spt_opcode_name(0x82), "REPEAT");
    assert_null(spgo_spt_opcode_name(0));
    assert_int_equal(spgo_spt_opcode_kind(0x10), SPGO_SPT_KIND_ARC);
    assert_int_equal(spgo_spt_opcode_kind(0x42), SPGO_SPT_KIND_CALLSTACK);
    assert_int_equal(spgo_spt_opcode_kind(0x05), SPGO_SPT_KIND_IP);
    assert_int_equal(spgo_spt_opcode_kind(0x81), SPGO_SPT_KIND_NONE);
}

static void repeat_zero_and_saturating(void **state)
{
    (void)state;
    bytes b = {0};
    put_small_tables(&b);
    size_t at = begin_segment(&b, 0);
    put_repeat(&b, 0);
    put_ips(&b, 1, 1, 0);
    put_repeat(&b, UINT64_MAX);
    put_ips(&b, 1, 1, 0);
    put_repeat(&b, 7);
    put_repeat(&b, 9);
    put_ips(&b, 1, 1, 0);
    put_ips(&b, 1, 1, 0);
    end_segment(&b, at);
    spgo_spt *spt = open_well(&b);
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    spgo_code code;
    static const uint64_t hits[] = {1, UINT64_MAX, 10, 1};
    for (size_t i = 0; i < 4; i++) {
        assert_true(spgo_spt_next_entries(&c, &r, &code));
        assert_true(r.hits == hits[i]);
    }
    assert_false(spgo_spt_next_entries(&c, &r, &code));
    assert_int_equal(code, SPGO_NOT_FOUND);
    spgo_spt_close(spt);
    bytes_free(&b);
}

static void length_that_counts_only_records(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_DATA_OFF + 4, 28);
    bytes_set_u32(&b, SMALL_DATA_OFF + 36 + 4, 10 + 14 + 6);
    walk w = walk_of(&b);
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF);
    expect_record(&w, SPGO_SPT_UNHALT_CYCLE, SMALL_DATA_OFF + 8);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 4, "counts only the records");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    expect_record(&w, SPGO_SPT_REPEAT, SMALL_DATA_OFF + 44);
    expect_record(&w, SPGO_SPT_ETW_CALLSTACK, SMALL_DATA_OFF + 54);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 40, "counts only the records");
    expect_end(&w);
    bytes_free(&b);
}

static void length_that_counts_the_whole_record(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_DATA_OFF + 4, 36);
    bytes_set_u32(&b, SMALL_DATA_OFF + 36 + 4, 8 + 10 + 14 + 6);
    walk w = walk_of(&b);
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF);
    expect_record(&w, SPGO_SPT_UNHALT_CYCLE, SMALL_DATA_OFF + 8);
    expect_record(&w, SPGO_SPT_LBR, SMALL_DATA_OFF + 18);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 4, "opcode, pad and id too");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    expect_record(&w, SPGO_SPT_REPEAT, SMALL_DATA_OFF + 44);
    expect_record(&w, SPGO_SPT_ETW_CALLSTACK, SMALL_DATA_OFF + 54);
    expect_record(&w, SPGO_SPT_ETW_INSTR, SMALL_DATA_OFF + 68);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 40, "opcode, pad and id too");
    expect_end(&w);
    bytes_free(&b);
}

static void length_zero_lasts_to_the_next_segment(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_DATA_OFF + 4, 0);
    walk w = walk_of(&b);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 4, "length 0");
    expect_record(&w, SPGO_SPT_UNHALT_CYCLE, SMALL_DATA_OFF + 8);
    spgo_spt_record r = expect_record(&w, SPGO_SPT_LBR, SMALL_DATA_OFF + 18);
    assert_int_equal(r.program, 0);
    r = expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    assert_int_equal(r.program, 1);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

static void length_zero_of_an_empty_segment(void **state)
{
    (void)state;
    bytes b = {0};
    put_small_tables(&b);
    begin_segment(&b, 0);
    size_t at = begin_segment(&b, 1);
    put_ips(&b, 1, 1, 0);
    end_segment(&b, at);
    walk w = walk_of(&b);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 4, "should be 4");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 8);
    expect_record(&w, SPGO_SPT_UNHALT_CYCLE, SMALL_DATA_OFF + 16);
    expect_end(&w);
    bytes_free(&b);
}

static void length_past_the_next_segment(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, SMALL_DATA_OFF + 4, 0x10000);
    walk w = walk_of(&b);
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF);
    expect_record(&w, SPGO_SPT_UNHALT_CYCLE, SMALL_DATA_OFF + 8);
    expect_record(&w, SPGO_SPT_LBR, SMALL_DATA_OFF + 18);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 4, "behind the next BINARY_ID");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

static void record_across_the_segment_end(void **state)
{
    (void)state;
    bytes b = small_file();
    b.ptr[SMALL_DATA_OFF + 18 + 1] = 3; /* one arc too many */
    walk w = walk_of(&b);
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF);
    expect_record(&w, SPGO_SPT_UNHALT_CYCLE, SMALL_DATA_OFF + 8);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 18, "26 bytes does not fit");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

static void unknown_opcode_skips_the_segment(void **state)
{
    (void)state;
    bytes b = small_file();
    b.ptr[SMALL_DATA_OFF + 8] = 0x11;
    walk w = walk_of(&b);
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF);
    expect_failure(&w, SPGO_UNSUPPORTED, SMALL_DATA_OFF + 8, "0x11");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

static void unknown_program_skips_the_segment(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u16(&b, SMALL_DATA_OFF + 2, 2);
    walk w = walk_of(&b);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF + 2, "program 2");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 36);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

static void records_before_the_first_segment(void **state)
{
    (void)state;
    bytes b = {0};
    put_small_tables(&b);
    put_repeat(&b, 1);
    put_ips(&b, 1, 2, 0);
    put_small_records(&b);
    walk w = walk_of(&b);
    expect_failure(&w, SPGO_CORRUPT, SMALL_DATA_OFF, "before the first segment");
    expect_record(&w, SPGO_SPT_BINARY_ID, SMALL_DATA_OFF + 20);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

static void repeat_without_a_record(void **state)
{
    (void)state;
    bytes b = {0};
    put_small_tables(&b);
    for (uint16_t i = 0; i < 2; i++) {
        size_t at = begin_segment(&b, i);
        put_repeat(&b, 3);
        end_segment(&b, at);
    }
    walk w = walk_of(&b);
    for (uint64_t at = SMALL_DATA_OFF; at < b.len; at += 18) {
        expect_record(&w, SPGO_SPT_BINARY_ID, at);
        expect_record(&w, SPGO_SPT_REPEAT, at + 8);
        expect_failure(&w, SPGO_CORRUPT, at + 8, "REPEAT 3");
    }
    expect_end(&w);
    bytes_free(&b);
}

static void zeros_behind_the_last_segment_are_the_end(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_fill(&b, 0, 100);
    spgo_spt *spt = open_well(&b);
    assert_int_equal(count_records(spt), 4);
    spgo_spt_close(spt);
    bytes_free(&b);
}

/* The whole records before a cut, then TRUNCATED at the record that is cut. */
static void every_cut_of_the_records(void **state)
{
    (void)state;
    bytes b = small_file();
    static const uint64_t starts[] = {0, 8, 18, 36, 44, 54, 68, 74};
    size_t whole = b.len;
    assert_int_equal(whole - SMALL_DATA_OFF, 74);
    for (b.len = SMALL_DATA_OFF + 1; b.len < whole; b.len++) {
        walk w = walk_of(&b);
        uint64_t cut = b.len - SMALL_DATA_OFF;
        size_t i = 0;
        spgo_spt_record r;
        while (starts[i + 1] <= cut) {
            assert_int_equal(spgo_spt_next(&w.c, &r, NULL), SPGO_OK);
            assert_int_equal(r.offset, SMALL_DATA_OFF + starts[i++]);
        }
        bool at_border = cut == 36; /* between the segments nothing is missing */
        if (!at_border)
            expect_failure(&w, SPGO_TRUNCATED, SMALL_DATA_OFF + starts[i], "end at");
        expect_end(&w);
    }
    bytes_free(&b);
}

static void fast_walk_stops_before_damage(void **state)
{
    (void)state;
    bytes b = small_file();
    b.ptr[SMALL_DATA_OFF + 18] = 0x77;
    walk w = walk_of(&b);
    spgo_spt_record r;
    spgo_code code;
    assert_true(spgo_spt_next_entries(&w.c, &r, &code));
    assert_false(spgo_spt_next_entries(&w.c, &r, &code));
    assert_int_equal(code, SPGO_UNSUPPORTED);
    assert_int_equal(w.c.pos, SMALL_DATA_OFF + 18);
    expect_failure(&w, SPGO_UNSUPPORTED, SMALL_DATA_OFF + 18, "0x77");
    assert_true(spgo_spt_next_entries(&w.c, &r, &code));
    assert_int_equal(r.opcode, SPGO_SPT_ETW_CALLSTACK);
    assert_int_equal(r.hits, 5);
    spgo_spt_close(w.spt);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_and_tables),
        cmocka_unit_test(signature_is_3a545053),
        cmocka_unit_test(strings_are_listed),
        cmocka_unit_test(missing_final_nul_is_read),
        cmocka_unit_test(ordinal_names_are_read),
        cmocka_unit_test(index_inside_a_string_is_its_tail),
        cmocka_unit_test(index_outside_gives_no_name),
        cmocka_unit_test(program_table_before_strings_with_gaps),
        cmocka_unit_test(no_programs_and_no_records),
        cmocka_unit_test(empty_file),
        cmocka_unit_test(swapped_signature),
        cmocka_unit_test(strangers_are_recognized),
        cmocka_unit_test(real_etl_is_recognized),
        cmocka_unit_test(short_header_is_kept),
        cmocka_unit_test(another_version),
        cmocka_unit_test(broken_fields),
        cmocka_unit_test(cut_tables_are_kept),
        cmocka_unit_test(records_in_order),
        cmocka_unit_test(every_opcode),
        cmocka_unit_test(names_and_kinds),
        cmocka_unit_test(repeat_zero_and_saturating),
        cmocka_unit_test(length_that_counts_only_records),
        cmocka_unit_test(length_that_counts_the_whole_record),
        cmocka_unit_test(length_zero_lasts_to_the_next_segment),
        cmocka_unit_test(length_zero_of_an_empty_segment),
        cmocka_unit_test(length_past_the_next_segment),
        cmocka_unit_test(record_across_the_segment_end),
        cmocka_unit_test(unknown_opcode_skips_the_segment),
        cmocka_unit_test(unknown_program_skips_the_segment),
        cmocka_unit_test(records_before_the_first_segment),
        cmocka_unit_test(repeat_without_a_record),
        cmocka_unit_test(zeros_behind_the_last_segment_are_the_end),
        cmocka_unit_test(every_cut_of_the_records),
        cmocka_unit_test(fast_walk_stops_before_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
