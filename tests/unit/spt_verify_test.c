/* Every rule of doc/formats/spt.md: one file that breaks it, and the finding's exact place. */
#include "spt_build.h"

typedef struct findings {
    spgo_spt_finding kept[64];
    size_t count;
    size_t stop_after; /* 0: never */
} findings;

static bool keep(void *ctx, const spgo_spt_finding *finding)
{
    findings *f = ctx;
    if (f->count < 64)
        f->kept[f->count] = *finding;
    f->count++;
    return f->count != f->stop_after;
}

static findings verify(const bytes *b, spgo_spt_verdict *verdict)
{
    findings f = {.count = 0};
    spgo_error err;
    assert_int_equal(spgo_spt_verify(bytes_span(b), keep, &f, verdict, &err), SPGO_OK);
    assert_int_equal(f.count, verdict->notes + verdict->warnings + verdict->damages);
    return f;
}

/* There is this finding, and none that is worse. */
static void expect_finding(const bytes *b, spgo_spt_severity severity, const char *rule,
                           uint64_t offset)
{
    spgo_spt_verdict verdict;
    findings f = verify(b, &verdict);
    bool found = false;
    for (size_t i = 0; i < f.count; i++) {
        const spgo_spt_finding *x = &f.kept[i];
        found = found || (x->severity == severity && strcmp(x->rule, rule) == 0 &&
                          x->offset == offset && x->sentence[0] != 0);
        if (x->severity > severity)
            fail_msg("%s at %#lx: %s", x->rule, (unsigned long)x->offset, x->sentence);
    }
    if (!found) {
        for (size_t i = 0; i < f.count; i++)
            print_message("%s at %#lx: %s\n", f.kept[i].rule, (unsigned long)f.kept[i].offset,
                          f.kept[i].sentence);
        fail_msg("no %s at %#lx", rule, (unsigned long)offset);
    }
}

static void expect_finding_and_free(bytes b, spgo_spt_severity severity, const char *rule,
                                    uint64_t offset)
{
    expect_finding(&b, severity, rule, offset);
    bytes_free(&b);
}

static bytes small_with_u8(size_t at, uint8_t v)
{
    bytes b = small_file();
    b.ptr[at] = v;
    return b;
}

static bytes small_with_u16(size_t at, uint16_t v)
{
    bytes b = small_file();
    bytes_set_u16(&b, at, v);
    return b;
}

static bytes small_with_u32(size_t at, uint32_t v)
{
    bytes b = small_file();
    bytes_set_u32(&b, at, v);
    return b;
}

static void a_typical_file_has_no_findings(void **state)
{
    (void)state;
    bytes b = {0};
    put_header(&b, 0x20, 0x4020, 6, 0x4000, 1, 0x100);
    bytes_put(&b, "a.exe", 6);
    bytes_fill(&b, 0, 0x4000 - 6);
    put_program(&b, 0x11, 1, 0);
    bytes_fill(&b, 0, 24 * 0xFF);
    assert_int_equal(b.len, 0x5820);
    size_t at = begin_segment(&b, 0);
    put_arcs(&b, 32, 0x1000);
    end_segment(&b, at);
    spgo_spt_verdict verdict;
    findings f = verify(&b, &verdict);
    assert_int_equal(f.count, 0);
    assert_int_equal(verdict.record_count, 1);
    assert_int_equal(verdict.segment_count, 1);
    bytes_free(&b);
}

static void capacities_that_are_not_typical(void **state)
{
    (void)state;
    expect_finding_and_free(small_file(), SPGO_SPT_NOTE, "typical-layout", 0x1A);
    expect_finding_and_free(small_file(), SPGO_SPT_NOTE, "typical-layout", 0x1E);
}

static void header_damage(void **state)
{
    (void)state;
    bytes b = small_file();
    b.len = 31;
    expect_finding_and_free(b, SPGO_SPT_DAMAGE, "header-size", 31);
    expect_finding_and_free(small_with_u8(0, 0x53), SPGO_SPT_DAMAGE, "signature", 0);
    expect_finding_and_free(small_with_u32(4, 9), SPGO_SPT_DAMAGE, "version", 4);
    expect_finding_and_free(small_with_u32(0x10, 8), SPGO_SPT_DAMAGE, "string-table-bounds", 0x10);
    expect_finding_and_free(small_with_u32(0x14, 8), SPGO_SPT_DAMAGE, "program-table-bounds", 0x14);
    expect_finding_and_free(small_with_u16(0x18, 99), SPGO_SPT_DAMAGE, "string-table-used", 0x18);
    expect_finding_and_free(small_with_u16(0x1C, 99), SPGO_SPT_DAMAGE, "program-table-used", 0x1C);
    expect_finding_and_free(small_with_u32(0x10, SMALL_PROGRAMS_OFF - 1), SPGO_SPT_DAMAGE,
                            "tables-overlap", 0x14);
}

static void header_oddities(void **state)
{
    (void)state;
    expect_finding_and_free(small_with_u32(8, 1), SPGO_SPT_NOTE, "reserved-field", 8);
    expect_finding_and_free(small_with_u32(12, 0x8664), SPGO_SPT_NOTE, "reserved-field", 12);
    expect_finding_and_free(small_with_u8(SMALL_STRINGS_OFF + 14, 1), SPGO_SPT_NOTE,
                            "string-table-unused", SMALL_STRINGS_OFF + 14);
    expect_finding_and_free(small_with_u16(0x18, 11), SPGO_SPT_WARNING, "string-table-end",
                            SMALL_STRINGS_OFF + 10);
    bytes b = small_file();
    bytes_set_u16(&b, 0x1C, 1); /* the second entry is now unused, and the second segment bad */
    b.len = SMALL_DATA_OFF + 36;
    expect_finding_and_free(b, SPGO_SPT_NOTE, "program-table-unused", SMALL_PROGRAMS_OFF + 24);
}

static void string_table_capacity_behind_the_end(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, 0x10, (uint32_t)b.len);
    bytes_put(&b, "a.exe\0b.dll", 12);
    expect_finding_and_free(b, SPGO_SPT_WARNING, "string-table-capacity", 0x1A);
}

static void names(void **state)
{
    (void)state;
    const size_t first = SMALL_PROGRAMS_OFF + 20, second = SMALL_PROGRAMS_OFF + 44;
    expect_finding_and_free(small_with_u32(second, 12), SPGO_SPT_DAMAGE, "string-index", second);
    expect_finding_and_free(small_with_u32(second, 9), SPGO_SPT_WARNING, "string-index-inside",
                            second);
    expect_finding_and_free(small_with_u32(second, 1), SPGO_SPT_WARNING, "string-ordinal", first);
    expect_finding_and_free(small_with_u8(SMALL_STRINGS_OFF, 0xFF), SPGO_SPT_NOTE,
                            "program-name-utf8", first);
    bytes b = small_with_u16(0x18, 13); /* one empty string more */
    bytes_set_u32(&b, second, 12);
    expect_finding_and_free(b, SPGO_SPT_NOTE, "program-name-empty", second);
}

static void programs(void **state)
{
    (void)state;
    const size_t second = SMALL_PROGRAMS_OFF + 24;
    bytes b = small_file();
    memset(b.ptr + second, 0x11, 16);
    bytes_set_u32(&b, second + 16, 1);
    expect_finding_and_free(b, SPGO_SPT_NOTE, "program-duplicate", second);
    b = small_file();
    memset(b.ptr + second, 0, 16);
    expect_finding_and_free(b, SPGO_SPT_NOTE, "program-id-null", second);
    b = small_file();
    b.len = SMALL_DATA_OFF + 36;
    expect_finding_and_free(b, SPGO_SPT_NOTE, "program-unused", second);
    b = small_file();
    b.len = SMALL_DATA_OFF;
    expect_finding_and_free(b, SPGO_SPT_NOTE, "stream-empty", SMALL_DATA_OFF);
}

static void segments(void **state)
{
    (void)state;
    const size_t d = SMALL_DATA_OFF;
    expect_finding_and_free(small_with_u32(d + 4, 28), SPGO_SPT_DAMAGE, "segment-length", d + 4);
    expect_finding_and_free(small_with_u32(d + 4, 36), SPGO_SPT_DAMAGE, "segment-length", d + 4);
    expect_finding_and_free(small_with_u32(d + 4, 3), SPGO_SPT_DAMAGE, "segment-length", d + 4);
    expect_finding_and_free(small_with_u16(d + 2, 2), SPGO_SPT_DAMAGE, "segment-program", d + 2);
    expect_finding_and_free(small_with_u8(d + 1, 5), SPGO_SPT_NOTE, "segment-pad", d + 1);
    bytes b = small_file();
    b.len -= 1;
    expect_finding_and_free(b, SPGO_SPT_DAMAGE, "truncated", d + 68);
    b = small_file();
    end_segment(&b, begin_segment(&b, 1));
    expect_finding_and_free(b, SPGO_SPT_NOTE, "segment-empty", d + 74);
    b = small_file();
    bytes_fill(&b, 0, 7);
    expect_finding_and_free(b, SPGO_SPT_NOTE, "trailing-bytes", d + 74);
    b = small_file();
    put_ips(&b, 1, 1, 0);
    expect_finding_and_free(b, SPGO_SPT_DAMAGE, "record-outside-segment", d + 74);
}

static void records(void **state)
{
    (void)state;
    const size_t d = SMALL_DATA_OFF;
    expect_finding_and_free(small_with_u8(d + 8, 0x99), SPGO_SPT_DAMAGE, "unknown-opcode", d + 8);
    expect_finding_and_free(small_with_u8(d + 19, 3), SPGO_SPT_DAMAGE, "record-bounds", d + 18);
    bytes b = small_file();
    size_t at = begin_segment(&b, 0);
    put_ips(&b, SPGO_SPT_LBR, 0, 0);
    end_segment(&b, at);
    expect_finding_and_free(b, SPGO_SPT_WARNING, "record-empty", at + 9);
    b = small_file();
    at = begin_segment(&b, 0);
    put_ips(&b, SPGO_SPT_ETW_CALLSTACK, 1, 0);
    end_segment(&b, at);
    expect_finding_and_free(b, SPGO_SPT_NOTE, "callstack-single", at + 9);
}

static void repeats(void **state)
{
    (void)state;
    bytes b = small_file();
    size_t at = begin_segment(&b, 0);
    put_repeat(&b, 1);
    put_repeat(&b, 2);
    put_ips(&b, 1, 1, 0);
    end_segment(&b, at);
    expect_finding_and_free(b, SPGO_SPT_WARNING, "repeat-replaced", at + 8);
    b = small_file();
    at = begin_segment(&b, 0);
    put_repeat(&b, UINT64_MAX);
    put_ips(&b, 1, 1, 0);
    end_segment(&b, at);
    expect_finding_and_free(b, SPGO_SPT_WARNING, "repeat-saturates", at + 10);
    b = small_file();
    at = begin_segment(&b, 0);
    put_repeat(&b, 2);
    end_segment(&b, at);
    expect_finding_and_free(b, SPGO_SPT_DAMAGE, "repeat-lost", at + 8);
}

static void repeat_pad(void **state)
{
    (void)state;
    bytes b = small_file();
    b.ptr[SMALL_DATA_OFF + 45] = 7;
    expect_finding_and_free(b, SPGO_SPT_NOTE, "repeat-pad", SMALL_DATA_OFF + 45);
}

/* An LBR record of three arcs, one end of one of them in another image. */
static bytes with_foreign_end(unsigned entry, bool is_source)
{
    bytes b = small_file();
    size_t at = begin_segment(&b, 0);
    put_arcs(&b, 3, 0x1000);
    end_segment(&b, at);
    bytes_set_u32(&b, at + 10 + 8 * (size_t)entry + (is_source ? 4 : 0), SPGO_SPT_OUTSIDE);
    return b;
}

static void ends_in_another_image(void **state)
{
    (void)state;
    const size_t first = SMALL_DATA_OFF + 74 + 10;
    spgo_spt_verdict verdict;
    bytes b = with_foreign_end(0, false); /* to outside, newest: fine */
    verify(&b, &verdict);
    assert_int_equal(verdict.warnings, 0);
    bytes_free(&b);
    b = with_foreign_end(2, true); /* from outside, oldest: fine */
    verify(&b, &verdict);
    assert_int_equal(verdict.warnings, 0);
    bytes_free(&b);
    expect_finding_and_free(with_foreign_end(0, true), SPGO_SPT_WARNING, "outside-inside", first);
    expect_finding_and_free(with_foreign_end(1, true), SPGO_SPT_WARNING, "outside-inside",
                            first + 8);
    expect_finding_and_free(with_foreign_end(2, false), SPGO_SPT_WARNING, "outside-inside",
                            first + 16);
}

static void a_refusal_stops(void **state)
{
    (void)state;
    bytes b = small_file();
    findings f = {.stop_after = 1};
    spgo_spt_verdict verdict;
    assert_int_equal(spgo_spt_verify(bytes_span(&b), keep, &f, &verdict, NULL), SPGO_OK);
    assert_int_equal(f.count, 1);
    assert_int_equal(verdict.notes, 1);
    assert_int_equal(spgo_spt_verify(bytes_span(&b), NULL, NULL, &verdict, NULL), SPGO_OK);
    assert_int_equal(verdict.notes, 2);
    bytes_free(&b);
}

static void all_header_faults_are_found(void **state)
{
    (void)state;
    bytes b = small_file();
    bytes_set_u32(&b, 0x10, 0x7FFFFFFF);
    bytes_set_u32(&b, 0x14, 0xFFFFFFFF);
    bytes_set_u16(&b, 0x18, 99);
    bytes_set_u16(&b, 0x1C, 99);
    spgo_spt_verdict verdict;
    verify(&b, &verdict);
    assert_int_equal(verdict.damages, 4);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typical_file_has_no_findings),
        cmocka_unit_test(capacities_that_are_not_typical),
        cmocka_unit_test(header_damage),
        cmocka_unit_test(header_oddities),
        cmocka_unit_test(string_table_capacity_behind_the_end),
        cmocka_unit_test(names),
        cmocka_unit_test(programs),
        cmocka_unit_test(segments),
        cmocka_unit_test(records),
        cmocka_unit_test(repeats),
        cmocka_unit_test(repeat_pad),
        cmocka_unit_test(ends_in_another_image),
        cmocka_unit_test(a_refusal_stops),
        cmocka_unit_test(all_header_faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
