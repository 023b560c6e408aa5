/* The runtime's decoder of branches: by hand, and against the full decoder on all code of this
 * program and of the C library. */
#include "test_data.h"

#include <code/code.h>
#include <format/elf/elf.h>
#include <os/file.h>
#include <step_runtime/step_decode.h>

#include <string.h>

enum { FAR_AWAY = 1 << 20, CF = 1, PF = 4, ZF = 0x40, SF = 0x80, OF = 0x800 };

static step_insn decode(const char *text, size_t size)
{
    uint64_t addr = (uint64_t)(uintptr_t)text;
    return step_decode(addr, addr + size);
}

/* The string's final NUL is behind the limit. */
#define DECODE(text) decode(text, sizeof(text) - 1)

static uint64_t next_of(step_insn i)
{
    return i.next - i.addr;
}

static int64_t target_of(step_insn i)
{
    return (int64_t)(i.target - i.addr);
}

static void test_conditional_branches(void **state)
{
    (void)state;
    step_insn i = DECODE("\x74\x10");
    assert_int_equal(i.op, STEP_BRANCH_JCC);
    assert_int_equal(next_of(i), 2);
    assert_int_equal(target_of(i), 0x12);
    i = DECODE("\x3E\x75\xFE");
    assert_int_equal(next_of(i), 3);
    assert_int_equal(target_of(i), 1);
    i = DECODE("\x0F\x8F\x00\xFF\xFF\xFF");
    assert_int_equal(i.op, STEP_BRANCH_JCC);
    assert_int_equal(i.opcode, 0x7F);
    assert_int_equal(next_of(i), 6);
    assert_int_equal(target_of(i), 6 - 0x100);
    i = DECODE("\x67\xE3\x05");
    assert_int_equal(i.op, STEP_BRANCH_JCC);
    assert_false(i.wide);
    assert_int_equal(target_of(i), 8);
}

static void test_calls_jumps_and_returns(void **state)
{
    (void)state;
    assert_int_equal(DECODE("\xE8\x01\x02\x03\x04").op, STEP_BRANCH_NEAR_REL_CALL);
    assert_int_equal(target_of(DECODE("\xE8\x01\x02\x03\x04")), 0x04030206);
    assert_int_equal(next_of(DECODE("\x66\x66\x48\xE8\x01\x00\x00\x00")), 8);
    assert_int_equal(DECODE("\xE9\x00\x00\x00\x00").op, STEP_BRANCH_NEAR_REL_JMP);
    assert_int_equal(DECODE("\xEB\x00").op, STEP_BRANCH_NEAR_REL_JMP);
    assert_int_equal(DECODE("\xF3\xC3").op, STEP_BRANCH_NEAR_RET);
    assert_int_equal(DECODE("\xC2\x08\x00").op, STEP_BRANCH_NEAR_RET);
    assert_int_equal(DECODE("\xFF\xD0").op, STEP_BRANCH_NEAR_IND_CALL);
    assert_int_equal(DECODE("\x41\xFF\x14\xC4").op, STEP_BRANCH_NEAR_IND_CALL);
    assert_int_equal(DECODE("\x3E\xFF\xE0").op, STEP_BRANCH_NEAR_IND_JMP);
    assert_int_equal(DECODE("\xFF\x25\x00\x00\x00\x00").op, STEP_BRANCH_NEAR_IND_JMP);
    assert_int_equal(DECODE("\x48\xCB").op, STEP_BRANCH_FAR);
    assert_int_equal(DECODE("\x48\xFF\x28").op, STEP_BRANCH_FAR);
    assert_int_equal(DECODE("\xFF\x30").op, STEP_OP_PLAIN); /* push */
}

static void test_what_a_burst_treats_apart(void **state)
{
    (void)state;
    assert_int_equal(DECODE("\x0F\x05").op, STEP_OP_SYSCALL);
    assert_int_equal(next_of(DECODE("\x0F\x05")), 2);
    assert_int_equal(DECODE("\x9C").op, STEP_OP_PUSHF);
    assert_true(DECODE("\x9C").wide);
    assert_false(DECODE("\x66\x9C").wide);
    assert_int_equal(DECODE("\x9D").op, STEP_OP_POPF);
    assert_int_equal(DECODE("\xCC").op, STEP_OP_REFUSED);
    assert_int_equal(DECODE("\xCD\x80").op, STEP_OP_REFUSED);
    assert_int_equal(DECODE("\xF1").op, STEP_OP_REFUSED);
    assert_int_equal(DECODE("\x48\xCF").op, STEP_OP_REFUSED);
    assert_int_equal(DECODE("\x8E\xD0").op, STEP_OP_REFUSED); /* mov ss */
    assert_int_equal(DECODE("\x8E\xD8").op, STEP_OP_PLAIN);   /* mov ds */
    assert_int_equal(DECODE("\x0F\x34").op, STEP_OP_REFUSED);
    assert_int_equal(DECODE("\xC7\xF8\x00\x00\x00\x00").op, STEP_OP_REFUSED); /* xbegin */
}

/* A byte behind the limit is not looked at: with it these would be something else. */
static void test_code_is_cut_at_the_limit(void **state)
{
    (void)state;
    assert_int_equal(decode("\x0F\x05", 1).op, STEP_OP_PLAIN);
    assert_int_equal(decode("\xFF\xE0", 1).op, STEP_OP_PLAIN);
    assert_int_equal(
        decode("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\xCC", 16).op,
        STEP_OP_PLAIN); /* no instruction is so long */
}

static void test_conditions_follow_the_flags(void **state)
{
    (void)state;
    static const struct {
        uint8_t opcode;
        uint64_t taken, not_taken; /* flags */
    } cases[] = {
        {0x70, OF, 0},  {0x71, 0, OF},       {0x72, CF, 0}, {0x73, 0, CF},
        {0x74, ZF, 0},  {0x75, 0, ZF},       {0x76, CF, 0}, {0x76, ZF, SF},
        {0x77, SF, ZF}, {0x78, SF, 0},       {0x79, 0, SF}, {0x7A, PF, 0},
        {0x7B, 0, PF},  {0x7C, SF, SF | OF}, {0x7C, OF, 0}, {0x7D, SF | OF, OF},
        {0x7E, ZF, 0},  {0x7E, SF, SF | OF}, {0x7F, 0, ZF}, {0x7F, SF | OF, OF},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const step_insn i = {.op = STEP_BRANCH_JCC, .opcode = cases[n].opcode};
        assert_true(step_jumps(&i, &(step_condition){cases[n].taken, 0}));
        assert_false(step_jumps(&i, &(step_condition){cases[n].not_taken, 0}));
    }
}

static void test_loops_follow_their_counter(void **state)
{
    (void)state;
    const uint64_t high = UINT64_C(1) << 32;
    step_insn i = {.op = STEP_BRANCH_JCC, .opcode = 0xE2, .wide = true};
    assert_true(step_jumps(&i, &(step_condition){0, high}));
    assert_false(step_jumps(&i, &(step_condition){0, 0}));
    i.wide = false;
    assert_false(step_jumps(&i, &(step_condition){0, high}));
    i.opcode = 0xE3;
    assert_true(step_jumps(&i, &(step_condition){0, high}));
    i.opcode = 0xE1;
    assert_true(step_jumps(&i, &(step_condition){ZF, 1}));
    assert_false(step_jumps(&i, &(step_condition){0, 1}));
    i.opcode = 0xE0;
    assert_true(step_jumps(&i, &(step_condition){0, 1}));
    assert_false(step_jumps(&i, &(step_condition){ZF, 1}));
}

static uint8_t expected_op(uint8_t kind)
{
    switch (kind) {
    case CODE_BRANCH:
        return STEP_BRANCH_JCC;
    case CODE_JUMP:
        return STEP_BRANCH_NEAR_REL_JMP;
    case CODE_JUMP_INDIRECT:
        return STEP_BRANCH_NEAR_IND_JMP;
    case CODE_CALL:
        return STEP_BRANCH_NEAR_REL_CALL;
    case CODE_CALL_INDIRECT:
        return STEP_BRANCH_NEAR_IND_CALL;
    case CODE_RETURN:
        return STEP_BRANCH_NEAR_RET;
    default:
        return STEP_OP_PLAIN;
    }
}

/* Far returns and calls, which the full decoder does not tell from near ones. */
static bool agree(const step_insn *mine, const code_instruction *full)
{
    uint8_t expected = expected_op(full->kind);
    if (mine->op == STEP_BRANCH_FAR)
        return expected != STEP_OP_PLAIN;
    if (mine->op > STEP_BRANCH_FAR)
        return expected == STEP_OP_PLAIN || full->kind == CODE_TRAP || mine->op == STEP_OP_REFUSED;
    if (mine->op != expected)
        return false;
    if (!step_is_direct(mine))
        return true;
    return mine->next - mine->addr == full->size_bytes &&
           mine->target - mine->addr == (uint64_t)full->target_rva - full->rva;
}

static size_t compare_segment(const code_segment *s)
{
    code_decoder *d;
    const code_image image = {CODE_X64, 0, s, 1};
    const uint64_t start = (uint64_t)(uintptr_t)s->bytes.ptr;
    size_t count = 0;
    assert_int_equal(code_decoder_new(&image, &d, NULL), SPGO_OK);
    for (uint32_t at = 0; at < s->bytes.len;) {
        code_instruction full = code_decode(d, s->rva + at);
        step_insn mine = step_decode(start + at, start + s->bytes.len);
        if (full.kind != CODE_INVALID && (full.has_target || !step_is_direct(&mine))) {
            if (!agree(&mine, &full))
                print_message("rva 0x%x: op %d, kind %d\n", (unsigned)(s->rva + at), mine.op,
                              full.kind);
            assert_true(agree(&mine, &full));
            count++;
        }
        at += full.size_bytes;
    }
    code_decoder_free(d);
    return count;
}

static void test_agrees_with_the_full_decoder(void **state)
{
    (void)state;
    static const char *const paths[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6"};
    size_t count = 0;
    if (!code_can_decode(CODE_X64))
        skip();
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        os_input *in;
        elf_image elf;
        if (os_input_open(paths[p], &in, NULL) != SPGO_OK)
            continue;
        spgo_span file = os_input_bytes(in);
        bool ours = elf_read(file, &elf, NULL) == SPGO_OK && elf.machine == ELF_MACHINE_X86_64;
        for (size_t i = 0; ours && i < elf.segment_count; i++) {
            const elf_segment *e = &elf.segments[i];
            code_segment s = {.rva = FAR_AWAY,
                              .bytes = {file.ptr + e->offset, (size_t)e->file_size},
                              .is_executable = true};
            if (e->flags & ELF_SEGMENT_EXECUTE)
                count += compare_segment(&s);
        }
        os_input_close(in);
    }
    if (count == 0)
        skip();
    assert_true(count > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditional_branches),
        cmocka_unit_test(test_calls_jumps_and_returns),
        cmocka_unit_test(test_what_a_burst_treats_apart),
        cmocka_unit_test(test_code_is_cut_at_the_limit),
        cmocka_unit_test(test_conditions_follow_the_flags),
        cmocka_unit_test(test_loops_follow_their_counter),
        cmocka_unit_test(test_agrees_with_the_full_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
