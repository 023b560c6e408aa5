/* Bytes of an image by RVA, and which kind of instruction they are, on each machine. */
#include "code_build.h"

#include <code/code_internal.h>

/* ------------------------------------------------------------------ images */

static const uint8_t four_bytes[4] = {1, 2, 3, 4};

static void bytes_end_where_the_segment_does(void **state)
{
    (void)state;
    const code_segment segments[] = {{0x1000, {four_bytes, 4}, true},
                                     {0x1004, {four_bytes, 2}, false},
                                     {0x2000, {four_bytes, 0}, true},
                                     {0x3000, {four_bytes, 4}, true}};
    const code_image image = {CODE_X64, 0, segments, 4};
    assert_int_equal(code_bytes_at(&image, 0xfff).len, 0);
    assert_int_equal(code_bytes_at(&image, 0x1001).len, 3);
    assert_ptr_equal(code_bytes_at(&image, 0x1001).ptr, four_bytes + 1);
    assert_int_equal(code_bytes_at(&image, 0x1004).len, 2);
    assert_int_equal(code_bytes_at(&image, 0x1006).len, 0);
    assert_int_equal(code_bytes_at(&image, 0x2000).len, 0);
    assert_int_equal(code_bytes_at(&image, 0x3003).len, 1);
    assert_int_equal(code_bytes_at(&image, 0x3004).len, 0);
    assert_true(code_is_executable(&image, 0x1003));
    assert_false(code_is_executable(&image, 0x1004));
    assert_false(code_is_executable(&image, 0x2000));
}

static void bytes_beyond_the_last_rva_are_not_there(void **state)
{
    (void)state;
    const code_segment segment = {0xfffffffe, {four_bytes, 4}, true};
    const code_image image = {CODE_X64, 0, &segment, 1};
    assert_int_equal(code_bytes_at(&image, 0xffffffff).len, 1);
    assert_int_equal(code_bytes_at(&image, 0).len, 0);
}

static void image_without_segments_has_no_bytes(void **state)
{
    (void)state;
    const code_image image = {CODE_ARM64, 0, NULL, 0};
    assert_int_equal(code_bytes_at(&image, 0).len, 0);
    assert_false(code_is_executable(&image, 0));
}

static void unknown_machine_is_refused(void **state)
{
    (void)state;
    const code_image image = {CODE_UNKNOWN, 0, NULL, 0};
    code_decoder *d = (code_decoder *)&d;
    spgo_error err;
    assert_false(code_can_decode(CODE_UNKNOWN));
    assert_int_equal(code_decoder_new(&image, &d, &err), SPGO_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(err.sentence, "ARM64"));
}

static void build_without_zydis_says_so(void **state)
{
    (void)state;
    const code_image image = {CODE_X64, 0, NULL, 0};
    code_decoder *d = NULL;
    spgo_error err;
    if (code_can_decode(CODE_X64))
        skip();
    assert_false(code_can_decode(CODE_X86));
    assert_int_equal(code_decoder_new(&image, &d, &err), SPGO_UNSUPPORTED);
    assert_non_null(strstr(err.sentence, "lacks Zydis"));
}

/* ------------------------------------------------------------------ instructions */

enum { NO_TARGET = 0 };

typedef struct expected {
    uint8_t size, kind;
    uint32_t target_rva;
    uint8_t bytes[15]; /* followed by no-operations */
} expected;

static void check(code_machine machine, const expected *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[32];
        memset(bytes, 0x90, sizeof(bytes));
        memcpy(bytes, rows[i].bytes, sizeof(rows[i].bytes));
        for (size_t k = sizeof(rows[i].bytes); k > rows[i].size; k--)
            bytes[k - 1] = 0x90;
        /* As the last bytes of the image, and with others behind. */
        for (size_t size = rows[i].size; size <= sizeof(bytes);
             size += sizeof(bytes) - rows[i].size) {
            code_fixture *f = code_fixture_new(machine, bytes, size);
            code_instruction in = code_decode(f->d, CODE_RVA);
            if (in.size_bytes != rows[i].size || in.kind != rows[i].kind)
                fail_msg("row %zu: size %u kind %u", i, in.size_bytes, in.kind);
            assert_int_equal(in.rva, CODE_RVA);
            assert_int_equal(in.has_target, rows[i].target_rva != NO_TARGET);
            assert_int_equal(in.target_rva, rows[i].target_rva);
            code_fixture_free(f);
        }
    }
}

static void x64_kinds(void **state)
{
    (void)state;
    static const expected rows[] = {
        {1, CODE_PADDING, 0, {0x90}},
        {2, CODE_PADDING, 0, {0x66, 0x90}},
        {8, CODE_PADDING, 0, {0x0f, 0x1f, 0x84, 0x00, 1, 2, 3, 4}},
        {10, CODE_PADDING, 0, {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00}},
        {2, CODE_PLAIN, 0, {0x41, 0x90}},             /* xchg r8d, eax */
        {2, CODE_PLAIN, 0, {0xf3, 0x90}},             /* pause */
        {4, CODE_PLAIN, 0, {0xf3, 0x0f, 0x1e, 0xfa}}, /* endbr64 */
        {2, CODE_PLAIN, 0, {0x0f, 0x05}},             /* syscall */
        {2, CODE_PLAIN, 0, {0xcd, 0x2e}},
        {2, CODE_TRAP, 0, {0xcd, 0x29}}, /* __fastfail */
        {1, CODE_TRAP, 0, {0xcc}},
        {1, CODE_TRAP, 0, {0xf4}},
        {2, CODE_TRAP, 0, {0x0f, 0x0b}},
        {2, CODE_JUMP, 0x1004, {0xeb, 0x02}},
        {5, CODE_JUMP, 0x0ffb, {0xe9, 0xf6, 0xff, 0xff, 0xff}},
        {5, CODE_CALL, 0x2005, {0xe8, 0x00, 0x10, 0x00, 0x00}},
        {2, CODE_BRANCH, 0x0f82, {0x74, 0x80}},
        {6, CODE_BRANCH, 0x1106, {0x0f, 0x87, 0x00, 0x01, 0x00, 0x00}},
        {2, CODE_BRANCH, 0x1000, {0xe2, 0xfe}},       /* loop */
        {2, CODE_BRANCH, 0x1003, {0xe3, 0x01}},       /* jrcxz */
        {6, CODE_BRANCH, 0x1008, {0xc7, 0xf8, 0x02}}, /* xbegin */
        {2, CODE_JUMP_INDIRECT, 0, {0xff, 0xe0}},
        {3, CODE_JUMP_INDIRECT, 0, {0x3e, 0xff, 0xe0}}, /* notrack */
        {6, CODE_JUMP_INDIRECT, 0, {0xff, 0x25, 1, 2, 3, 4}},
        {3, CODE_JUMP_INDIRECT, 0, {0x41, 0xff, 0xe3}},
        {2, CODE_CALL_INDIRECT, 0, {0xff, 0xd0}},
        {8, CODE_CALL_INDIRECT, 0, {0x42, 0xff, 0x94, 0xc8, 1, 2, 3, 4}},
        {1, CODE_RETURN, 0, {0xc3}},
        {2, CODE_RETURN, 0, {0xf3, 0xc3}},
        {3, CODE_RETURN, 0, {0xc2, 0x08, 0x00}},
        {2, CODE_RETURN, 0, {0x48, 0xcf}},
        {2, CODE_PLAIN, 0, {0xff, 0xc0}},
        {2, CODE_PLAIN, 0, {0xff, 0x30}},
        {10, CODE_PLAIN, 0, {0x48, 0xb8}},
        {6, CODE_PLAIN, 0, {0xc5, 0xf8, 0x28, 0x44, 0x24, 0x08}}, /* VEX */
        {1, CODE_INVALID, 0, {0x06}},
        {1, CODE_INVALID, 0, {0x62, 0x00}},
    };
    check(CODE_X64, rows, sizeof(rows) / sizeof(*rows));
}

static void x86_kinds(void **state)
{
    (void)state;
    static const expected rows[] = {
        {1, CODE_PLAIN, 0, {0x40}}, /* inc eax; REX in x64 */
        {1, CODE_PLAIN, 0, {0x06}},
        {5, CODE_CALL, 0xfffff005, {0xe8, 0x00, 0xe0, 0xff, 0xff}}, /* addresses wrap */
        {4, CODE_CALL, 0, {0x66, 0xe8, 0x00, 0x00}},                /* to 16 bits */
        {7, CODE_CALL_INDIRECT, 0, {0x9a, 1, 2, 3, 4, 5, 0}},
        {6, CODE_JUMP_INDIRECT, 0, {0xff, 0x25, 1, 2, 3, 4}},
    };
    check(CODE_X86, rows, sizeof(rows) / sizeof(*rows));
}

static void x64_target_below_the_image_is_none(void **state)
{
    (void)state;
    static const uint8_t jump[] = {0xe9, 0x00, 0xe0, 0xff, 0xff};
    code_fixture *f = code_fixture_new(CODE_X64, jump, sizeof(jump));
    code_instruction in = code_decode(f->d, CODE_RVA);
    assert_int_equal(in.kind, CODE_JUMP);
    assert_false(in.has_target);
    code_fixture_free(f);
}

static void cut_instruction_is_none(void **state)
{
    (void)state;
    static const uint8_t jump[] = {0xe9, 0x00, 0x00, 0x00};
    code_fixture *f = code_fixture_new(CODE_X64, jump, sizeof(jump));
    code_instruction in = code_decode(f->d, CODE_RVA);
    assert_int_equal(in.kind, CODE_INVALID);
    assert_int_equal(in.size_bytes, 1);
    code_fixture_free(f);
}

static void data_is_no_instruction(void **state)
{
    (void)state;
    static const uint8_t ret[4] = {0xc0, 0x03, 0x5f, 0xd6};
    code_fixture *f = code_fixture_new(CODE_ARM64, ret, sizeof(ret));
    assert_int_equal(code_decode(f->d, CODE_RVA).kind, CODE_RETURN);
    assert_int_equal(code_decode(f->d, CODE_RVA - 4).kind, CODE_INVALID);
    assert_int_equal(code_decode(f->d, CODE_RVA + 4).size_bytes, 4);
    assert_int_equal(code_decode(f->d, CODE_RVA + 1).kind, CODE_INVALID);
    code_decoder_free(f->d);
    f->segment.is_executable = false;
    assert_int_equal(code_decoder_new(&f->image, &f->d, NULL), SPGO_OK);
    assert_int_equal(code_decode(f->d, CODE_RVA).kind, CODE_INVALID);
    code_fixture_free(f);
}

/* Instructions of plain form are decoded without Zydis: with the same result for every prefix,
 * opcode and ModRM byte. */
static void plain_forms_are_as_zydis_has_them(void **state)
{
    (void)state;
    static const uint8_t prefixes[] = {0, 0x66, 0xf3, 0xf2}, rex[] = {0, 0x41, 0x48};
    for (int machine = CODE_X86; machine <= CODE_X64; machine++) {
        if (!code_can_decode((code_machine)machine))
            skip();
        code_x86 *x = code_x86_new((code_machine)machine);
        size_t rex_count = machine == CODE_X64 ? 3 : 1;
        for (uint32_t i = 0; i < 4 * rex_count * 2 * 0x10000; i++) {
            uint8_t bytes[16] = {0};
            size_t at = 0;
            uint32_t choice = i >> 17;
            if (prefixes[choice & 3])
                bytes[at++] = prefixes[choice & 3];
            if (rex[choice >> 2])
                bytes[at++] = rex[choice >> 2];
            if (i >> 16 & 1)
                bytes[at++] = 0x0f;
            bytes[at++] = (uint8_t)(i >> 8);
            bytes[at++] = (uint8_t)i;
            bytes[at++] = i % 3 == 0 ? 0x25 : 0x9c; /* SIB without a base, and with one */
            memset(bytes + at, 0x91, sizeof(bytes) - at);
            code_instruction a = {.rva = CODE_RVA, .size_bytes = 1}, b = a;
            code_x86_decode(x, (spgo_span){bytes, 15}, &a);
            code_x86_decode_any(x, (spgo_span){bytes, 15}, &b);
            if (a.size_bytes != b.size_bytes || a.kind != b.kind || a.has_target != b.has_target ||
                a.target_rva != b.target_rva)
                fail_msg("prefix, REX, 0f, opcode, ModRM: %08x", i);
        }
        code_x86_free(x);
    }
}

/* ------------------------------------------------------------------ ARM64 */

typedef struct word {
    uint32_t bits;
    uint8_t kind;
    uint32_t target_rva;
} word;

static void arm64_kinds(void **state)
{
    (void)state;
    static const word words[] = {
        {0x14000002, CODE_JUMP, 0x1008},     /* b */
        {0x17ffffff, CODE_JUMP, 0x0ffc},     /* b */
        {0x94000400, CODE_CALL, 0x2000},     /* bl */
        {0x54000100, CODE_BRANCH, 0x1020},   /* b.eq */
        {0x54000111, CODE_BRANCH, 0x1020},   /* bc.ne */
        {0x34000083, CODE_BRANCH, 0x1010},   /* cbz w3 */
        {0xb5ffffe3, CODE_BRANCH, 0x0ffc},   /* cbnz x3 */
        {0xb747ff83, CODE_BRANCH, 0x0ff0},   /* tbnz x3, #40 */
        {0x36000040, CODE_BRANCH, 0x1008},   /* tbz w0, #0 */
        {0xd61f0100, CODE_JUMP_INDIRECT, 0}, /* br x8 */
        {0xd61f081f, CODE_JUMP_INDIRECT, 0}, /* braaz x0 */
        {0xd61f0d3f, CODE_JUMP_INDIRECT, 0}, /* brabz x9 */
        {0xd71f0801, CODE_JUMP_INDIRECT, 0}, /* braa x0, x1 */
        {0xd71f0c7f, CODE_JUMP_INDIRECT, 0}, /* brab x3, sp */
        {0xd63f0100, CODE_CALL_INDIRECT, 0}, /* blr x8 */
        {0xd63f0c1f, CODE_CALL_INDIRECT, 0}, /* blrabz x0 */
        {0xd73f0801, CODE_CALL_INDIRECT, 0}, /* blraa x0, x1 */
        {0xd65f03c0, CODE_RETURN, 0},        /* ret */
        {0xd65f0060, CODE_RETURN, 0},        /* ret x3 */
        {0xd65f0bff, CODE_RETURN, 0},        /* retaa */
        {0xd65f0fff, CODE_RETURN, 0},        /* retab */
        {0xd65f0fe5, CODE_RETURN, 0},        /* retabsppcr x5 */
        {0x5520007f, CODE_RETURN, 0},        /* retabsppc by label */
        {0xd69f03e0, CODE_RETURN, 0},        /* eret */
        {0xd69f0fff, CODE_RETURN, 0},        /* eretab */
        {0xd4200020, CODE_TRAP, 0},          /* brk #1 */
        {0xd43e0060, CODE_TRAP, 0},          /* brk #0xf003: __fastfail */
        {0xd4400040, CODE_TRAP, 0},          /* hlt #2 */
        {0x00000007, CODE_TRAP, 0},          /* udf #7 */
        {0xd4000001, CODE_PLAIN, 0},         /* svc */
        {0xd503201f, CODE_PADDING, 0},       /* nop */
        {0xd503245f, CODE_PLAIN, 0},         /* bti c */
        {0xd503233f, CODE_PLAIN, 0},         /* paciasp */
        {0xf9400000, CODE_PLAIN, 0},         /* ldr x0, [x0] */
        {0x4e801c00, CODE_PLAIN, 0},         /* and, of vectors */
        {0x00010000, CODE_INVALID, 0},       {0x02000000, CODE_INVALID, 0},
        {0x66000000, CODE_INVALID, 0},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        uint8_t bytes[4];
        for (unsigned k = 0; k < 4; k++)
            bytes[k] = (uint8_t)(words[i].bits >> 8 * k);
        code_fixture *f = code_fixture_new(CODE_ARM64, bytes, 4);
        code_instruction in = code_decode(f->d, CODE_RVA);
        if (in.kind != words[i].kind || in.size_bytes != 4)
            fail_msg("%08x: kind %u", words[i].bits, in.kind);
        assert_int_equal(in.has_target, words[i].target_rva != 0);
        assert_int_equal(in.target_rva, words[i].target_rva);
        code_fixture_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_end_where_the_segment_does),
        cmocka_unit_test(bytes_beyond_the_last_rva_are_not_there),
        cmocka_unit_test(image_without_segments_has_no_bytes),
        cmocka_unit_test(unknown_machine_is_refused),
        cmocka_unit_test(build_without_zydis_says_so),
        cmocka_unit_test(x64_kinds),
        cmocka_unit_test(x86_kinds),
        cmocka_unit_test(x64_target_below_the_image_is_none),
        cmocka_unit_test(cut_instruction_is_none),
        cmocka_unit_test(data_is_no_instruction),
        cmocka_unit_test(plain_forms_are_as_zydis_has_them),
        cmocka_unit_test(arm64_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
