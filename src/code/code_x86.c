/*
 * x86 and x64 by Zydis, in its minimal mode: size, mnemonic and raw immediates tell all that
 * control flow needs, at about twice the speed of the full one.
 */
#include <code/code_internal.h>

#if SPGO_HAVE_ZYDIS

#include <base/reader.h>

#include <Zydis/Zydis.h>

#include <stdlib.h>
#include <string.h>

/* How an opcode goes on. */
typedef struct opcode {
    uint8_t flags;
    uint8_t prefixes;    /* those it may have: PREFIX_*; 0: only Zydis knows this opcode */
    uint8_t reg_mask;    /* the values of ModRM.reg that it may have */
    uint8_t kind;        /* code_kind */
    uint8_t imm_size[3]; /* bytes, plain, with 66, with REX.W */
} opcode;

enum { PREFIX_NONE = 1, PREFIX_66 = 2, PREFIX_F3 = 4, PREFIX_F2 = 8 };

/* Flags of opcodes. */
enum {
    HAS_MODRM = 1,
    IS_RELATIVE = 2, /* the immediate is a distance */
    NO_REX = 4,      /* REX makes something else of it */
    NO_REGISTER = 8, /* ModRM must be of memory */
    IS_TEST = 16,    /* has its immediate only with ModRM.reg 0 and 1 */
    IS_GROUP5 = 32   /* FF: calls and jumps among its forms */
};

struct code_x86 {
    ZydisDecoder decoder;
    bool is_64bit;
    opcode opcodes[2][256];                      /* the second are those after 0f */
    uint8_t prefixes[256];                       /* PREFIX_* by byte */
    uint8_t modrm_size[256];                     /* with SIB and displacement */
    uint8_t kinds[ZYDIS_MNEMONIC_MAX_VALUE + 1]; /* by mnemonic; code_kind */
};

/* Those that are not CODE_PLAIN. The indirect forms of JMP and CALL are told apart later. */
static const struct {
    uint16_t mnemonic;
    uint8_t kind;
} mnemonics[] = {
    {ZYDIS_MNEMONIC_NOP, CODE_PADDING},   {ZYDIS_MNEMONIC_JMP, CODE_JUMP},
    {ZYDIS_MNEMONIC_CALL, CODE_CALL},     {ZYDIS_MNEMONIC_JB, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JBE, CODE_BRANCH},    {ZYDIS_MNEMONIC_JCXZ, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JECXZ, CODE_BRANCH},  {ZYDIS_MNEMONIC_JKNZD, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JKZD, CODE_BRANCH},   {ZYDIS_MNEMONIC_JL, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JLE, CODE_BRANCH},    {ZYDIS_MNEMONIC_JNB, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JNBE, CODE_BRANCH},   {ZYDIS_MNEMONIC_JNL, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JNLE, CODE_BRANCH},   {ZYDIS_MNEMONIC_JNO, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JNP, CODE_BRANCH},    {ZYDIS_MNEMONIC_JNS, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JNZ, CODE_BRANCH},    {ZYDIS_MNEMONIC_JO, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JP, CODE_BRANCH},     {ZYDIS_MNEMONIC_JRCXZ, CODE_BRANCH},
    {ZYDIS_MNEMONIC_JS, CODE_BRANCH},     {ZYDIS_MNEMONIC_JZ, CODE_BRANCH},
    {ZYDIS_MNEMONIC_LOOP, CODE_BRANCH},   {ZYDIS_MNEMONIC_LOOPE, CODE_BRANCH},
    {ZYDIS_MNEMONIC_LOOPNE, CODE_BRANCH}, {ZYDIS_MNEMONIC_XBEGIN, CODE_BRANCH},
    {ZYDIS_MNEMONIC_RET, CODE_RETURN},    {ZYDIS_MNEMONIC_IRET, CODE_RETURN},
    {ZYDIS_MNEMONIC_IRETD, CODE_RETURN},  {ZYDIS_MNEMONIC_IRETQ, CODE_RETURN},
    {ZYDIS_MNEMONIC_SYSRET, CODE_RETURN}, {ZYDIS_MNEMONIC_SYSEXIT, CODE_RETURN},
    {ZYDIS_MNEMONIC_UIRET, CODE_RETURN},  {ZYDIS_MNEMONIC_RSM, CODE_RETURN},
    {ZYDIS_MNEMONIC_INT3, CODE_TRAP},     {ZYDIS_MNEMONIC_HLT, CODE_TRAP},
    {ZYDIS_MNEMONIC_UD0, CODE_TRAP},      {ZYDIS_MNEMONIC_UD1, CODE_TRAP},
    {ZYDIS_MNEMONIC_UD2, CODE_TRAP},
};

enum { FAST_FAIL = 0x29 }; /* the interrupt by which Windows ends a process */

/* ------------------------------------------------------------------ plain instructions */

/*
 * Most instructions of a program are of a few plain forms, whose size can be told at a glance. By
 * opcode, a row for each high half:
 *   .        Zydis decides
 *   0 1 z v  no ModRM; no immediate, one of 8 bits, of operand size, of operand size up to 64 bits
 *   m n y    ModRM; no immediate, 8 bits, operand size
 *   N        the same as 0: a no-operation
 *   L        LEA: as m
 *   i I      as n and y, with ModRM.reg 0 only (MOV)
 *   t T      as n and y for ModRM.reg 0 and 1 (TEST), as m for the others
 *   e f      as m, with some values of ModRM.reg (INC, DEC; CALL, JMP, PUSH)
 *   j s l c  distances: Jcc, JMP short and near, CALL
 *   r x      RET; INT3
 */
/* clang-format off */
static const char one_byte_forms[] = "mmmm1z..mmmm1z.." /* 00 */
                                     "mmmm1z..mmmm1z.." /* 10 */
                                     "mmmm1z..mmmm1z.." /* 20 */
                                     "mmmm1z..mmmm1z.." /* 30 */
                                     "0000000000000000" /* 40: of x86; REX of x64 */
                                     "0000000000000000" /* 50 */
                                     "...m....zy1n...." /* 60 */
                                     "jjjjjjjjjjjjjjjj" /* 70 */
                                     "ny.nmmmmmmmm.L.." /* 80 */
                                     "N000000000......" /* 90 */
                                     "....00001z000000" /* a0 */
                                     "11111111vvvvvvvv" /* b0 */
                                     "nn.r..iI.0..x..." /* c0 */
                                     "mmmm....m...m..." /* d0 */
                                     "........cl.s...." /* e0 */
                                     "......tT......ef" /* f0 */;
/* clang-format on */

/*
 * After 0f, all with ModRM but for 0 and J:
 *   a d p  no immediate; any prefix, none or 66, none or 66 or f3
 *   A D    an immediate of 8 bits; prefixes as a and d
 *   g      as A, with ModRM.reg 4 to 7 (BT and its kin)
 *   P      as d: a no-operation
 *   J      a distance of 32 bits: Jcc
 */
/* clang-format off */
static const char two_byte_forms[] = "................" /* 00 */
                                     "aa..dd.........P" /* 10 */
                                     "........dda.aadd" /* 20 */
                                     "................" /* 30 */
                                     "aaaaaaaaaaaaaaaa" /* 40 */
                                     ".a..ddddaaapaaaa" /* 50 */
                                     "dddddddddddd..dp" /* 60 */
                                     "A...ddd.......pp" /* 70 */
                                     "JJJJJJJJJJJJJJJJ" /* 80 */
                                     "aaaaaaaaaaaaaaaa" /* 90 */
                                     "...aAa.....aAa.a" /* a0 */
                                     "aa.a..aa..gaaaaa" /* b0 */
                                     "aaA...D.00000000" /* c0 */
                                     ".ddddd..dddddddd" /* d0 */
                                     "dddddd..dddddddd" /* e0 */
                                     ".dddddd.ddddddd." /* f0 */;
/* clang-format on */

enum { PREFIX_ANY = PREFIX_NONE | PREFIX_66 | PREFIX_F3 | PREFIX_F2 };

/* clang-format off */
static const struct {
    char form;
    opcode opcode;
} forms[] = {
    {'0', {0, PREFIX_ANY, 0xff, CODE_PLAIN, {0}}},
    {'1', {0, PREFIX_ANY, 0xff, CODE_PLAIN, {1, 1, 1}}},
    {'z', {0, PREFIX_ANY, 0xff, CODE_PLAIN, {4, 2, 4}}},
    {'v', {0, PREFIX_ANY, 0xff, CODE_PLAIN, {4, 2, 8}}},
    {'m', {HAS_MODRM, PREFIX_ANY, 0xff, CODE_PLAIN, {0}}},
    {'n', {HAS_MODRM, PREFIX_ANY, 0xff, CODE_PLAIN, {1, 1, 1}}},
    {'y', {HAS_MODRM, PREFIX_ANY, 0xff, CODE_PLAIN, {4, 2, 4}}},
    {'N', {NO_REX, PREFIX_NONE, 0xff, CODE_PADDING, {0}}},
    {'L', {HAS_MODRM | NO_REGISTER, PREFIX_ANY, 0xff, CODE_PLAIN, {0}}},
    {'i', {HAS_MODRM, PREFIX_ANY, 0x01, CODE_PLAIN, {1, 1, 1}}},
    {'I', {HAS_MODRM, PREFIX_ANY, 0x01, CODE_PLAIN, {4, 2, 4}}},
    {'t', {HAS_MODRM | IS_TEST, PREFIX_ANY, 0xff, CODE_PLAIN, {1, 1, 1}}},
    {'T', {HAS_MODRM | IS_TEST, PREFIX_ANY, 0xff, CODE_PLAIN, {4, 2, 4}}},
    {'e', {HAS_MODRM, PREFIX_ANY, 0x03, CODE_PLAIN, {0}}},
    {'f', {HAS_MODRM | IS_GROUP5, PREFIX_NONE, 0x57, CODE_PLAIN, {0}}},
    {'j', {IS_RELATIVE, PREFIX_NONE, 0xff, CODE_BRANCH, {1, 1, 1}}},
    {'s', {IS_RELATIVE, PREFIX_NONE, 0xff, CODE_JUMP, {1, 1, 1}}},
    {'l', {IS_RELATIVE, PREFIX_NONE, 0xff, CODE_JUMP, {4, 4, 4}}},
    {'c', {IS_RELATIVE, PREFIX_NONE, 0xff, CODE_CALL, {4, 4, 4}}},
    {'r', {0, PREFIX_NONE, 0xff, CODE_RETURN, {0}}},
    {'x', {0, PREFIX_NONE, 0xff, CODE_TRAP, {0}}},
    {'a', {HAS_MODRM, PREFIX_ANY, 0xff, CODE_PLAIN, {0}}},
    {'d', {HAS_MODRM, PREFIX_NONE | PREFIX_66, 0xff, CODE_PLAIN, {0}}},
    {'p', {HAS_MODRM, PREFIX_NONE | PREFIX_66 | PREFIX_F3, 0xff, CODE_PLAIN, {0}}},
    {'A', {HAS_MODRM, PREFIX_ANY, 0xff, CODE_PLAIN, {1, 1, 1}}},
    {'D', {HAS_MODRM, PREFIX_NONE | PREFIX_66, 0xff, CODE_PLAIN, {1, 1, 1}}},
    {'g', {HAS_MODRM, PREFIX_ANY, 0xf0, CODE_PLAIN, {1, 1, 1}}},
    {'P', {HAS_MODRM, PREFIX_NONE | PREFIX_66, 0xff, CODE_PADDING, {0}}},
    {'J', {IS_RELATIVE, PREFIX_NONE, 0xff, CODE_BRANCH, {4, 4, 4}}},
};
/* clang-format on */

static void fill_opcodes(const char *row, opcode *out)
{
    for (size_t i = 0; i < 256; i++) {
        for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++) {
            if (forms[f].form == row[i])
                out[i] = forms[f].opcode;
        }
    }
}

static bool modrm_has_sib(unsigned modrm)
{
    return modrm < 0xc0 && (modrm & 7) == 4;
}

static void fill_tables(code_x86 *x)
{
    fill_opcodes(one_byte_forms, x->opcodes[0]);
    fill_opcodes(two_byte_forms, x->opcodes[1]);
    if (x->is_64bit) /* a second REX */
        memset(&x->opcodes[0][0x40], 0, 16 * sizeof(opcode));
    memset(x->prefixes, PREFIX_NONE, sizeof(x->prefixes));
    x->prefixes[0x66] = PREFIX_66;
    x->prefixes[0xf3] = PREFIX_F3;
    x->prefixes[0xf2] = PREFIX_F2;
    for (unsigned modrm = 0; modrm < 256; modrm++) {
        static const uint8_t displacements[4] = {0, 1, 4, 0}; /* by mod */
        unsigned size = 1 + displacements[modrm >> 6];
        if (modrm < 0x40 && (modrm & 7) == 5)
            size += 4;
        x->modrm_size[modrm] = (uint8_t)(size + modrm_has_sib(modrm));
    }
}

/* Addresses wrap at the width of the machine; RVAs of x86 wrap with them. */
static void set_target(const code_x86 *x, int64_t distance, code_instruction *out)
{
    int64_t target = (int64_t)out->rva + out->size_bytes + distance;
    if (!x->is_64bit)
        target &= UINT32_MAX;
    out->has_target = target >= 0 && target <= UINT32_MAX;
    out->target_rva = out->has_target ? (uint32_t)target : 0;
}

static uint8_t kind_of_group5(uint8_t modrm)
{
    static const uint8_t kinds[8] = {CODE_PLAIN,   CODE_PLAIN,         CODE_CALL_INDIRECT,
                                     CODE_INVALID, CODE_JUMP_INDIRECT, CODE_INVALID,
                                     CODE_PLAIN,   CODE_INVALID};
    return kinds[modrm >> 3 & 7];
}

/* False: not plain. Needs ZYDIS_MAX_INSTRUCTION_LENGTH readable bytes. Branches here would be
 * mispredicted, so that there are as few as may be. */
static bool decode_plain(const code_x86 *x, const uint8_t *bytes, code_instruction *out)
{
    const uint8_t *at = bytes;
    unsigned prefix = x->prefixes[*at];
    at += prefix != PREFIX_NONE;
    unsigned has_rex = x->is_64bit & ((*at & 0xf0) == 0x40);
    unsigned is_wide = has_rex & *at >> 3;
    at += has_rex;
    unsigned is_two_byte = *at == 0x0f;
    at += is_two_byte;
    const opcode *op = &x->opcodes[is_two_byte][*at++];
    uint8_t modrm = *at;
    size_t imm_size = op->imm_size[is_wide ? 2 : prefix == PREFIX_66];
    uint8_t kind = op->kind;
    if (!(op->prefixes & prefix) || (has_rex && op->flags & NO_REX))
        return false;
    if (op->flags & HAS_MODRM) {
        if (!(op->reg_mask >> (modrm >> 3 & 7) & 1) || (op->flags & NO_REGISTER && modrm >= 0xc0))
            return false;
        at += x->modrm_size[modrm];
        if (modrm < 0x40 && (modrm & 7) == 4 && (at[-1] & 7) == 5)
            at += 4; /* SIB without a base */
        if (op->flags & IS_TEST && (modrm & 0x38) > 0x08)
            imm_size = 0;
        if (op->flags & IS_GROUP5)
            kind = kind_of_group5(modrm);
    }
    out->size_bytes = (uint8_t)((size_t)(at - bytes) + imm_size);
    out->kind = kind;
    if (op->flags & IS_RELATIVE)
        set_target(x, imm_size == 1 ? (int8_t)*at : (int32_t)load_u32(at), out);
    return true;
}

/* ------------------------------------------------------------------ any instruction */

bool code_x86_can_decode(void)
{
    return true;
}

code_x86 *code_x86_new(code_machine machine)
{
    code_x86 *x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    x->is_64bit = machine == CODE_X64;
    (void)ZydisDecoderInit(&x->decoder,
                           x->is_64bit ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
                           x->is_64bit ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
    (void)ZydisDecoderEnableMode(&x->decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
    for (size_t i = 0; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++)
        x->kinds[i] = CODE_PLAIN;
    for (size_t i = 0; i < sizeof(mnemonics) / sizeof(*mnemonics); i++)
        x->kinds[mnemonics[i].mnemonic] = mnemonics[i].kind;
    fill_tables(x);
    return x;
}

void code_x86_free(code_x86 *x)
{
    free(x);
}

void code_x86_decode_any(const code_x86 *x, spgo_span bytes, code_instruction *out)
{
    ZydisDecodedInstruction in;
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(&x->decoder, ZYAN_NULL, bytes.ptr, bytes.len, &in)))
        return;
    out->size_bytes = in.length;
    out->kind = x->kinds[in.mnemonic];
    if (out->kind == CODE_PLAIN) {
        if (in.mnemonic == ZYDIS_MNEMONIC_INT && in.raw.imm[0].value.u == FAST_FAIL)
            out->kind = CODE_TRAP;
        return;
    }
    if (out->kind < CODE_JUMP || out->kind > CODE_CALL_INDIRECT)
        return;
    if (!in.raw.imm[0].is_relative)
        out->kind = out->kind == CODE_CALL ? CODE_CALL_INDIRECT : CODE_JUMP_INDIRECT;
    else if (in.operand_width != 16) /* those of 16 bits lead below 64 KiB */
        set_target(x, in.raw.imm[0].value.s, out);
}

void code_x86_decode(const code_x86 *x, spgo_span bytes, code_instruction *out)
{
    if (bytes.len < ZYDIS_MAX_INSTRUCTION_LENGTH || !decode_plain(x, bytes.ptr, out))
        code_x86_decode_any(x, bytes, out);
}

#else

bool code_x86_can_decode(void)
{
    return false;
}

code_x86 *code_x86_new(code_machine machine)
{
    (void)machine;
    return NULL;
}

void code_x86_free(code_x86 *x)
{
    (void)x;
}

void code_x86_decode(const code_x86 *x, spgo_span bytes, code_instruction *out)
{
    (void)x;
    (void)bytes;
    (void)out;
}

void code_x86_decode_any(const code_x86 *x, spgo_span bytes, code_instruction *out)
{
    code_x86_decode(x, bytes, out);
}

#endif
