/* Jump tables as compilers write them, and indirect jumps that are none. */
#include "code_build.h"

/* The graph of the first code_size bytes, without hints. */
static void check(code_machine machine, const uint8_t *bytes, size_t size, uint32_t code_size,
                  bool is_simple, const char *expected)
{
    code_fixture *f = code_fixture_new(machine, bytes, size);
    assert_int_equal(code_fixture_graph(f, code_size, NULL), SPGO_OK);
    assert_string_equal(code_fixture_text(f), expected);
    assert_int_equal(f->g.is_simple, is_simple);
    code_fixture_free(f);
}

/* clang-format off */
static const uint8_t pic_table[] = {
    0x83, 0xff, 0x03, /* 1000 cmp edi, 3 */
    0x77, 0x19, /* 1003 ja 101e */
    0x89, 0xf8, /* 1005 mov eax, edi */
    0x48, 0x8d, 0x0d, 0x16, 0x00, 0x00, 0x00, /* 1007 lea rcx, [rip + 22] */
    0x48, 0x63, 0x04, 0x81, /* 100e movsxd rax, dword ptr [rcx + 4*rax] */
    0x48, 0x01, 0xc8, /* 1012 add rax, rcx */
    0xff, 0xe0, /* 1015 jmp rax */
    0xff, 0xc0, /* 1017 inc eax */
    0xc3, /* 1019 ret */
    0xff, 0xc8, /* 101a dec eax */
    0xc3, /* 101c ret */
    0xc3, /* 101d ret */
    0x31, 0xc0, /* 101e xor eax, eax */
    0xc3, /* 1020 ret */
    0x0f, 0x1f, 0x00, 0xf3, 0xff, 0xff, 0xff, 0xf6, /* 1021 data */
    0xff, 0xff, 0xff, 0xf9, 0xff, 0xff, 0xff, 0xf3,
    0xff, 0xff, 0xff, 0xf6, 0xff, 0xff, 0xff,
};

static const uint8_t hoisted_table[] = {
    0x53, /* 1000 push rbx */
    0x48, 0x8d, 0x1d, 0x24, 0x00, 0x00, 0x00, /* 1001 lea rbx, [rip + 36] */
    0xeb, 0x14, /* 1008 jmp 101e */
    0x8d, 0x50, 0xdb, /* 100a lea edx, [rax - 37] */
    0x83, 0xfa, 0x02, /* 100d cmp edx, 2 */
    0x77, 0x0c, /* 1010 ja 101e */
    0xd9, 0xee, /* 1012 fldz */
    0x48, 0x63, 0x14, 0x93, /* 1014 movsxd rdx, dword ptr [rbx + 4*rdx] */
    0x48, 0x01, 0xda, /* 1018 add rdx, rbx */
    0xff, 0xe2, /* 101b jmp rdx */
    0x90, /* 101d nop */
    0xe8, 0x06, 0x00, 0x00, 0x00, /* 101e call 1029 */
    0x85, 0xc0, /* 1023 test eax, eax */
    0x75, 0xe3, /* 1025 jne 100a */
    0x5b, /* 1027 pop rbx */
    0xc3, /* 1028 ret */
    0xc3, 0x66, 0x90, 0xf1, 0xff, 0xff, 0xff, 0xf2, /* 1029 data */
    0xff, 0xff, 0xff, 0xfb, 0xff, 0xff, 0xff,
};

static const uint8_t spilled_index[] = {
    0x55, /* 1000 push rbp */
    0x48, 0x89, 0xe5, /* 1001 mov rbp, rsp */
    0x89, 0xf8, /* 1004 mov eax, edi */
    0x48, 0x89, 0xc1, /* 1006 mov rcx, rax */
    0x48, 0x89, 0x4d, 0xf0, /* 1009 mov qword ptr [rbp - 16], rcx */
    0x48, 0x83, 0xe8, 0x01, /* 100d sub rax, 1 */
    0x77, 0x16, /* 1011 ja 1029 */
    0x48, 0x8b, 0x45, 0xf0, /* 1013 mov rax, qword ptr [rbp - 16] */
    0x48, 0x8d, 0x0d, 0x0e, 0x00, 0x00, 0x00, /* 1017 lea rcx, [rip + 14] */
    0x48, 0x63, 0x04, 0x81, /* 101e movsxd rax, dword ptr [rcx + 4*rax] */
    0x48, 0x01, 0xc8, /* 1022 add rax, rcx */
    0xff, 0xe0, /* 1025 jmp rax */
    0x5d, /* 1027 pop rbp */
    0xc3, /* 1028 ret */
    0x5d, /* 1029 pop rbp */
    0xc3, /* 102a ret */
    0x90, 0xfb, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff, /* 102b data */
    0xff, 0xd4, 0xff, 0xff, 0xff,
};

static const uint8_t image_table[] = {
    0x8d, 0x41, 0xfb, /* 1000 lea eax, [rcx - 5] */
    0x83, 0xf8, 0x04, /* 1003 cmp eax, 4 */
    0x77, 0x21, /* 1006 ja 1029 */
    0x48, 0x8d, 0x15, 0xf1, 0xef, 0xff, 0xff, /* 1008 lea rdx, [rip - 4111] */
    0x0f, 0xb6, 0x84, 0x02, 0x38, 0x10, 0x00, 0x00, /* 100f movzx eax, byte ptr [rdx + rax + 4152] */
    0x8b, 0x8c, 0x82, 0x2c, 0x10, 0x00, 0x00, /* 1017 mov ecx, dword ptr [rdx + 4*rax + 4140] */
    0x48, 0x01, 0xd1, /* 101e add rcx, rdx */
    0xff, 0xe1, /* 1021 jmp rcx */
    0xff, 0xc0, /* 1023 inc eax */
    0xc3, /* 1025 ret */
    0xff, 0xc8, /* 1026 dec eax */
    0xc3, /* 1028 ret */
    0xc3, /* 1029 ret */
    0x66, 0x90, 0x23, 0x10, 0x00, 0x00, 0x26, 0x10, /* 102a data */
    0x00, 0x00, 0x29, 0x10, 0x00, 0x00, 0x00, 0x02,
    0x01, 0x02, 0x00,
};

static const uint8_t lost_base[] = {
    0x83, 0xf8, 0x01, /* 1000 cmp eax, 1 */
    0x77, 0x0e, /* 1003 ja 1013 */
    0x8b, 0x8c, 0x87, 0x14, 0x10, 0x00, 0x00, /* 1005 mov ecx, dword ptr [rdi + 4*rax + 4116] */
    0x48, 0x01, 0xf9, /* 100c add rcx, rdi */
    0xff, 0xe1, /* 100f jmp rcx */
    0xff, 0xc0, /* 1011 inc eax */
    0xc3, /* 1013 ret */
    0x11, 0x10, 0x00, 0x00, 0x13, 0x10, 0x00, 0x00, /* 1014 data */
    0x00, 0x10, 0x00, 0x00,
};

static const uint8_t absolute_table[] = {
    0x83, 0xff, 0x01, /* 1000 cmp edi, 1 */
    0x76, 0x01, /* 1003 jbe 1006 */
    0xc3, /* 1005 ret */
    0x89, 0xf8, /* 1006 mov eax, edi */
    0xff, 0x24, 0xc5, 0x18, 0x10, 0x40, 0x00, /* 1008 jmp qword ptr [8*rax + 4198424] */
    0xff, 0xc0, /* 100f inc eax */
    0xc3, /* 1011 ret */
    0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x0f, 0x10, /* 1012 data */
    0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x10,
    0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10,
    0x40, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static const uint8_t open_table[] = {
    0x89, 0xf8, /* 1000 mov eax, edi */
    0x48, 0x8d, 0x0d, 0x13, 0x00, 0x00, 0x00, /* 1002 lea rcx, [rip + 19] */
    0x48, 0x63, 0x04, 0x81, /* 1009 movsxd rax, dword ptr [rcx + 4*rax] */
    0x48, 0x01, 0xc8, /* 100d add rax, rcx */
    0xff, 0xe0, /* 1010 jmp rax */
    0xff, 0xc0, /* 1012 inc eax */
    0xc3, /* 1014 ret */
    0xb8, 0x07, 0x00, 0x00, 0x00, /* 1015 mov eax, 7 */
    0xc3, /* 101a ret */
    0x90, 0xf6, 0xff, 0xff, 0xff, 0xf9, 0xff, 0xff, /* 101b data */
    0xff, 0xf6, 0xff, 0xff, 0xff, 0xfa, 0xff, 0xff,
    0xff, 0xf6, 0xff, 0xff, 0xff,
};

static const uint8_t two_open_tables[] = {
    0x89, 0xf8, /* 1000 mov eax, edi */
    0x48, 0x8d, 0x0d, 0x23, 0x00, 0x00, 0x00, /* 1002 lea rcx, [rip + 35] */
    0x48, 0x63, 0x04, 0x81, /* 1009 movsxd rax, dword ptr [rcx + 4*rax] */
    0x48, 0x01, 0xc8, /* 100d add rax, rcx */
    0xff, 0xe0, /* 1010 jmp rax */
    0x48, 0x8d, 0x0d, 0x1b, 0x00, 0x00, 0x00, /* 1012 lea rcx, [rip + 27] */
    0x48, 0x63, 0x04, 0xb1, /* 1019 movsxd rax, dword ptr [rcx + 4*rsi] */
    0x48, 0x01, 0xc8, /* 101d add rax, rcx */
    0xff, 0xe0, /* 1020 jmp rax */
    0xc3, /* 1022 ret */
    0x90, /* 1023 nop */
    0x90, /* 1024 nop */
    0x90, /* 1025 nop */
    0x90, /* 1026 nop */
    0x90, /* 1027 nop */
    0x90, /* 1028 nop */
    0x90, /* 1029 nop */
    0x90, /* 102a nop */
    0xc3, /* 102b ret */
    0xe6, 0xff, 0xff, 0xff, 0xf6, 0xff, 0xff, 0xff, /* 102c data */
    0xf7, 0xff, 0xff, 0xff, 0xef, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0x7f,
};

static const uint8_t array_calls[] = {
    0x48, 0x63, 0xc6, /* 1000 movsxd rax, esi */
    0xff, 0x24, 0xc7, /* 1003 jmp qword ptr [rdi + 8*rax] */
};

static const uint8_t x86_table[] = {
    0x8b, 0x44, 0x24, 0x04, /* 1000 mov eax, dword ptr [esp + 4] */
    0x83, 0xf8, 0x01, /* 1004 cmp eax, 1 */
    0x77, 0x08, /* 1007 ja 1011 */
    0xff, 0x24, 0x85, 0x14, 0x10, 0x40, 0x00, /* 1009 jmp dword ptr [4*eax + 4198420] */
    0x40, /* 1010 inc eax */
    0xc3, /* 1011 ret */
    0x90, 0x90, 0x10, 0x10, 0x40, 0x00, 0x11, 0x10, /* 1012 data */
    0x40, 0x00, 0x00, 0x10, 0x40, 0x00,
};

static const uint8_t x86_pic_table[] = {
    0x53, /* 1000 push ebx */
    0xe8, 0x1a, 0x00, 0x00, 0x00, /* 1001 call 1020 */
    0x83, 0xc3, 0x26, /* 1006 add ebx, 38 */
    0x8b, 0x44, 0x24, 0x08, /* 1009 mov eax, dword ptr [esp + 8] */
    0x83, 0xf8, 0x01, /* 100d cmp eax, 1 */
    0x77, 0x0c, /* 1010 ja 101e */
    0x8b, 0x84, 0x83, 0xf8, 0xff, 0xff, 0xff, /* 1012 mov eax, dword ptr [ebx + 4*eax - 8] */
    0x01, 0xd8, /* 1019 add eax, ebx */
    0xff, 0xe0, /* 101b jmp eax */
    0x40, /* 101d inc eax */
    0x5b, /* 101e pop ebx */
    0xc3, /* 101f ret */
    0x8b, 0x1c, 0x24, 0xc3, 0xf1, 0xff, 0xff, 0xff, /* 1020 data */
    0xf2, 0xff, 0xff, 0xff,
};

static const uint8_t arm64_table[] = {
    0x1f, 0x0c, 0x00, 0x71, /* 1000 cmp w0, #3 */
    0x48, 0x01, 0x00, 0x54, /* 1004 b.hi 102c */
    0xe8, 0x03, 0x00, 0x2a, /* 1008 mov w8, w0 */
    0x29, 0x01, 0x00, 0x10, /* 100c adr x9, 0x30 */
    0x8a, 0x00, 0x00, 0x10, /* 1010 adr x10, 0x20 */
    0x2b, 0x69, 0x68, 0x38, /* 1014 ldrb w11, [x9, x8] */
    0x4a, 0x09, 0x0b, 0x8b, /* 1018 add x10, x10, x11, lsl #2 */
    0x40, 0x01, 0x1f, 0xd6, /* 101c br x10 */
    0x20, 0x00, 0x80, 0x52, /* 1020 mov w0, #1 */
    0xc0, 0x03, 0x5f, 0xd6, /* 1024 ret */
    0x40, 0x00, 0x80, 0x52, /* 1028 mov w0, #2 */
    0xc0, 0x03, 0x5f, 0xd6, /* 102c ret */
    0x00, 0x02, 0x03, 0x02, 0x00, 0x00, 0x00, 0x00, /* 1030 data */
};

static const uint8_t arm64_signed_table[] = {
    0x08, 0x28, 0x00, 0x51, /* 1000 sub w8, w0, #10 */
    0x1f, 0x09, 0x00, 0x71, /* 1004 cmp w8, #2 */
    0x49, 0x00, 0x00, 0x54, /* 1008 b.ls 1010 */
    0xc0, 0x03, 0x5f, 0xd6, /* 100c ret */
    0xc9, 0x00, 0x00, 0x10, /* 1010 adr x9, 0x28 */
    0x2a, 0x59, 0xa8, 0xb8, /* 1014 ldrsw x10, [x9, w8, uxtw #2] */
    0x29, 0x01, 0x0a, 0x8b, /* 1018 add x9, x9, x10 */
    0x20, 0x01, 0x1f, 0xd6, /* 101c br x9 */
    0x20, 0x00, 0x80, 0x52, /* 1020 mov w0, #1 */
    0xc0, 0x03, 0x5f, 0xd6, /* 1024 ret */
    0xf8, 0xff, 0xff, 0xff, 0xfc, 0xff, 0xff, 0xff, /* 1028 data */
    0xe4, 0xff, 0xff, 0xff, 0xd8, 0xff, 0xff, 0xff,
};

/* clang-format on */

/* The table has a fifth entry, which the check keeps away from. */
static void clang_and_gcc_add_entries_to_the_table(void **state)
{
    (void)state;
    check(CODE_X64, pic_table, sizeof(pic_table), 0x21, true,
          "1000 E f1005 t101e\n"
          "1005 s1017 s101a s101d\n"
          "1017 X\n"
          "101a X\n"
          "101d X\n"
          "101e X\n");
}

/* The call loses no register that is kept, FLDZ no flag. */
static void table_is_found_where_it_was_loaded_before_the_loop(void **state)
{
    (void)state;
    check(CODE_X64, hoisted_table, sizeof(hoisted_table), 0x29, true,
          "1000 E t101e\n"
          "100a f1012 t101e\n"
          "1012 s101d s101e s1027\n"
          "101d f101e\n"
          "101e t100a f1027\n"
          "1027 X\n");
}

/* As clang writes it without optimization. */
static void index_is_followed_through_the_stack(void **state)
{
    (void)state;
    check(CODE_X64, spilled_index, sizeof(spilled_index), 0x2b, true,
          "1000 E f1013 t1029\n"
          "1013 s1027 s1029\n"
          "1027 X\n"
          "1029 X\n");
}

/* The tables lie behind the code, in its extent. */
static void msvc_has_bytes_that_index_a_table_of_rvas(void **state)
{
    (void)state;
    check(CODE_X64, image_table, sizeof(image_table), sizeof(image_table), true,
          "1000 E f1008 t1029\n"
          "1008 s1023 s1026 s1029\n"
          "1023 X\n"
          "1026 X\n"
          "1029 X\n");
}

static void unknown_base_of_table_and_target_is_the_image(void **state)
{
    (void)state;
    check(CODE_X64, lost_base, sizeof(lost_base), 0x14, true,
          "1000 E f1005 t1013\n"
          "1005 s1011 s1013\n"
          "1011 f1013\n"
          "1013 X\n");
}

static void table_of_addresses(void **state)
{
    (void)state;
    check(CODE_X64, absolute_table, sizeof(absolute_table), 0x12, true,
          "1000 E f1005 t1006\n"
          "1005 X\n"
          "1006 s100f s1011\n"
          "100f f1011\n"
          "1011 X\n");
}

/* The fourth entry points into one. */
static void table_without_a_check_ends_where_an_entry_is_no_instruction(void **state)
{
    (void)state;
    check(CODE_X64, open_table, sizeof(open_table), 0x1b, true,
          "1000 E s1012 s1015\n"
          "1012 X\n"
          "1015 X\n");
}

/* Which is known once its first entry has been followed. */
static void table_without_a_check_ends_where_the_next_begins(void **state)
{
    (void)state;
    check(CODE_X64, two_open_tables, sizeof(two_open_tables), 0x2c, true,
          "1000 E s1012 s1022\n"
          "1012 s1023 s102b\n"
          "1022 X\n"
          "1023 f102b\n"
          "102b X\n");
}

static void array_of_functions_is_called_at_the_end(void **state)
{
    (void)state;
    check(CODE_X64, array_calls, sizeof(array_calls), sizeof(array_calls), true, "1000 EX\n");
}

static void x86_table_of_addresses(void **state)
{
    (void)state;
    check(CODE_X86, x86_table, sizeof(x86_table), 0x12, true,
          "1000 E f1009 t1011\n"
          "1009 s1010 s1011\n"
          "1010 f1011\n"
          "1011 X\n");
}

static void x86_base_is_where_a_call_returns_to(void **state)
{
    (void)state;
    check(CODE_X86, x86_pic_table, sizeof(x86_pic_table), 0x20, true,
          "1000 E f1012 t101e\n"
          "1012 s101d s101e\n"
          "101d f101e\n"
          "101e X\n");
}

static void arm64_bytes_in_units_of_instructions(void **state)
{
    (void)state;
    check(CODE_ARM64, arm64_table, sizeof(arm64_table), 0x30, true,
          "1000 E f1008 t102c\n"
          "1008 s1020 s1028 s102c\n"
          "1020 X\n"
          "1028 f102c\n"
          "102c X\n");
}

static void arm64_words_from_the_table(void **state)
{
    (void)state;
    check(CODE_ARM64, arm64_signed_table, sizeof(arm64_signed_table), 0x28, true,
          "1000 E f100c t1010\n"
          "100c X\n"
          "1010 s100c s1020 s1024\n"
          "1020 f1024\n"
          "1024 X\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clang_and_gcc_add_entries_to_the_table),
        cmocka_unit_test(table_is_found_where_it_was_loaded_before_the_loop),
        cmocka_unit_test(index_is_followed_through_the_stack),
        cmocka_unit_test(msvc_has_bytes_that_index_a_table_of_rvas),
        cmocka_unit_test(unknown_base_of_table_and_target_is_the_image),
        cmocka_unit_test(table_of_addresses),
        cmocka_unit_test(table_without_a_check_ends_where_an_entry_is_no_instruction),
        cmocka_unit_test(table_without_a_check_ends_where_the_next_begins),
        cmocka_unit_test(array_of_functions_is_called_at_the_end),
        cmocka_unit_test(x86_table_of_addresses),
        cmocka_unit_test(x86_base_is_where_a_call_returns_to),
        cmocka_unit_test(arm64_bytes_in_units_of_instructions),
        cmocka_unit_test(arm64_words_from_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
