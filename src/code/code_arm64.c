/*
 * AArch64: control flow by its encodings, which are few and of fixed size. Numbers are those of the
 * Arm Architecture Reference Manual (DDI 0487), chapter C4, "A64 instruction set encoding".
 */
#include <code/code_internal.h>

#include <base/reader.h>

/* An encoding: the bits of the mask are those of the pattern. */
typedef struct encoding {
    uint32_t mask, pattern;
    uint8_t kind;
    uint8_t low_bit, bit_count; /* of the distance to the target in instructions; 0: no target */
} encoding;

/* All below have 101 in bits 26 to 28: branches, exceptions and system instructions. */
static const encoding encodings[] = {
    {0xfc000000, 0x14000000, CODE_JUMP, 0, 26},         /* B */
    {0xfc000000, 0x94000000, CODE_CALL, 0, 26},         /* BL */
    {0xff000000, 0x54000000, CODE_BRANCH, 5, 19},       /* B.cond, BC.cond */
    {0x7e000000, 0x34000000, CODE_BRANCH, 5, 19},       /* CBZ, CBNZ */
    {0x7e000000, 0x36000000, CODE_BRANCH, 5, 14},       /* TBZ, TBNZ */
    {0xfffffc1f, 0xd61f0000, CODE_JUMP_INDIRECT, 0, 0}, /* BR */
    {0xfffff81f, 0xd61f081f, CODE_JUMP_INDIRECT, 0, 0}, /* BRAAZ, BRABZ */
    {0xfffff800, 0xd71f0800, CODE_JUMP_INDIRECT, 0, 0}, /* BRAA, BRAB */
    {0xfffffc1f, 0xd63f0000, CODE_CALL_INDIRECT, 0, 0}, /* BLR */
    {0xfffff81f, 0xd63f081f, CODE_CALL_INDIRECT, 0, 0}, /* BLRAAZ, BLRABZ */
    {0xfffff800, 0xd73f0800, CODE_CALL_INDIRECT, 0, 0}, /* BLRAA, BLRAB */
    {0xfffffc1f, 0xd65f0000, CODE_RETURN, 0, 0},        /* RET */
    {0xffc0001f, 0x5500001f, CODE_RETURN, 0, 0},        /* RETAASPPC, RETABSPPC by label */
    {0xfffffbe0, 0xd65f0be0, CODE_RETURN, 0, 0},        /* RETAA, RETAB, and those by register */
    {0xffffffff, 0xd69f03e0, CODE_RETURN, 0, 0},        /* ERET */
    {0xfffffbff, 0xd69f0bff, CODE_RETURN, 0, 0},        /* ERETAA, ERETAB */
    {0xffffffff, 0xd6bf03e0, CODE_RETURN, 0, 0},        /* DRPS */
    {0xffe0001f, 0xd4200000, CODE_TRAP, 0, 0},          /* BRK */
    {0xffe0001f, 0xd4400000, CODE_TRAP, 0, 0},          /* HLT */
    {0xffffffff, 0xd503201f, CODE_PADDING, 0, 0},       /* NOP */
};

/* Signed: the top one of the bits is the sign. */
static int64_t signed_bits(uint32_t word, unsigned low_bit, unsigned bit_count)
{
    uint32_t sign = UINT32_C(1) << (bit_count - 1);
    uint32_t bits = word >> low_bit & (sign * 2 - 1);
    return (int64_t)(bits ^ sign) - (int64_t)sign;
}

static void take_encoding(const encoding *e, uint32_t word, code_instruction *out)
{
    out->kind = e->kind;
    if (e->bit_count == 0)
        return;
    int64_t target = (int64_t)out->rva + signed_bits(word, e->low_bit, e->bit_count) * 4;
    out->has_target = target >= 0 && target <= UINT32_MAX;
    out->target_rva = out->has_target ? (uint32_t)target : 0;
}

/* Groups of encodings (bits 25 to 28) of which none is allocated, but for UDF and SME. */
static code_kind kind_of_reserved(uint32_t word)
{
    if (word >> 16 == 0)
        return CODE_TRAP; /* UDF */
    return word >> 31 ? CODE_PLAIN : CODE_INVALID;
}

void code_arm64_decode(spgo_span bytes, code_instruction *out)
{
    if (bytes.len < 4 || out->rva % 4 != 0)
        return;
    uint32_t word = load_u32(bytes.ptr);
    unsigned group = word >> 25 & 15;
    out->kind = CODE_PLAIN;
    if (group == 0)
        out->kind = (uint8_t)kind_of_reserved(word);
    else if (group == 1 || group == 3)
        out->kind = CODE_INVALID;
    if (group != 10 && group != 11)
        return;
    for (size_t i = 0; i < sizeof(encodings) / sizeof(*encodings); i++) {
        if ((word & encodings[i].mask) == encodings[i].pattern) {
            take_encoding(&encodings[i], word, out);
            return;
        }
    }
}
