/* The AArch64 half of eval.h: by encodings, as in code_arm64.c. */
#include <code/eval.h>

#include <base/reader.h>

typedef struct fields { /* where most instructions have them */
    uint32_t word;
    unsigned rd, rn, rm;
} fields;

enum { SP = 31 }; /* or the zero register: EVAL_NO_REGISTER would lose slots that sp bases */

/* Register 31 as an operand that cannot be sp: zero. */
static eval_value read_register(eval_state *s, unsigned reg)
{
    return reg == SP ? eval_const(s, 0) : s->registers[reg];
}

static void write_register(eval_state *s, unsigned reg, eval_value v)
{
    if (reg != SP)
        eval_set(s, reg, &v);
}

static int64_t signed_field(uint32_t word, unsigned low_bit, unsigned bit_count)
{
    uint32_t sign = UINT32_C(1) << (bit_count - 1);
    uint32_t bits = word >> low_bit & (sign * 2 - 1);
    return (int64_t)(bits ^ sign) - (int64_t)sign;
}

static void compare(eval_state *s, unsigned reg, uint64_t with)
{
    s->compared = reg == SP ? EVAL_NO_ID : s->registers[reg].id;
    s->compared_with = with;
}

static void run_adr(eval_state *s, const fields *f, uint64_t addr)
{
    int64_t distance = signed_field(f->word, 5, 19) * 4 + (f->word >> 29 & 3);
    bool is_page = f->word >> 31;
    uint64_t base = is_page ? addr & ~UINT64_C(0xfff) : addr;
    write_register(s, f->rd, eval_const(s, base + (uint64_t)distance * (is_page ? 0x1000 : 1)));
}

/* ADD, ADDS, SUB, SUBS (immediate). */
static void run_add_immediate(eval_state *s, const fields *f)
{
    bool is_sub = f->word >> 30 & 1, sets_flags = f->word >> 29 & 1;
    uint64_t imm = (uint64_t)(f->word >> 10 & 0xfff) << (f->word >> 22 & 1 ? 12 : 0);
    if (sets_flags && is_sub)
        compare(s, f->rn, imm);
    else if (sets_flags)
        s->compared = EVAL_NO_ID;
    if (f->rd == SP) {
        if (!sets_flags)
            eval_lose(s, SP);
        return;
    }
    eval_value addend = eval_const(s, is_sub ? 0 - imm : imm);
    eval_value sum = f->rn == SP ? eval_unknown(s) : eval_add(s, &s->registers[f->rn], &addend);
    write_register(s, f->rd, sum);
}

/* AND with a mask of low bits. */
static void run_and_immediate(eval_state *s, const fields *f)
{
    unsigned ones = (f->word >> 10 & 0x3f) + 1, rotation = f->word >> 16 & 0x3f;
    bool is_plain = rotation == 0 && (f->word >> 22 & 1) == f->word >> 31;
    if (f->word >> 29 & 2)
        s->compared = EVAL_NO_ID;
    eval_value v = eval_unknown(s);
    if (is_plain && ones <= 16)
        eval_limit_to(s, v.id, (UINT64_C(1) << ones) - 1, false);
    write_register(s, f->rd, v);
}

/* UBFM and SBFM: those that shift left, and those that extend. */
static void run_bitfield(eval_state *s, const fields *f)
{
    bool is_signed = (f->word >> 29 & 3) == 0, is_64bit = f->word >> 31;
    unsigned width = is_64bit ? 64 : 32;
    unsigned rotation = f->word >> 16 & 0x3f, last = f->word >> 10 & 0x3f;
    eval_value v = eval_unknown(s), from = read_register(s, f->rn);
    if (rotation == 0 && (last == 7 || last == 15 || last == 31))
        v = eval_extend(s, &from, (last + 1) / 8, is_signed);
    else if (last < rotation)
        v = eval_scale(s, &from, width - rotation);
    else if (!is_signed && last >= rotation && last - rotation < 16)
        eval_limit_to(s, v.id, (UINT64_C(2) << (last - rotation)) - 1, false);
    write_register(s, f->rd, v);
}

/* ADD (shifted and extended register); others of the class are not understood. */
static void run_add_register(eval_state *s, const fields *f)
{
    bool is_extended = f->word >> 21 & 1, is_add = (f->word >> 29 & 3) == 0;
    unsigned shift = f->word >> 10 & (is_extended ? 7 : 63), option = f->word >> 13 & 7;
    if (f->word >> 29 & 1)
        s->compared = EVAL_NO_ID;
    bool shifts_left = is_extended || (f->word >> 22 & 3) == 0;
    if (f->rd == SP || !is_add || !shifts_left || (is_extended && f->rn == SP)) {
        if (f->rd == SP && is_extended)
            eval_lose(s, SP);
        write_register(s, f->rd, eval_unknown(s));
        return;
    }
    eval_value base = read_register(s, f->rn), index = read_register(s, f->rm);
    if (is_extended)
        index = eval_extend(s, &index, 1u << (option & 3), option >= 4);
    index = eval_scale(s, &index, shift);
    write_register(s, f->rd, eval_add(s, &base, &index));
}

/* Loads and stores of one general register, with an index register or an immediate. */
static void run_load_store(eval_state *s, const fields *f)
{
    unsigned size_log2 = f->word >> 30, opc = f->word >> 22 & 3;
    bool has_index = (f->word & 0x3b200c00) == 0x38200800;
    bool is_scaled = (f->word & 0x3b000000) == 0x39000000;
    bool writes_back = !has_index && !is_scaled && (f->word >> 10 & 1);
    if (has_index) {
        eval_value base = f->rn == SP ? eval_unknown(s) : s->registers[f->rn];
        eval_value index = read_register(s, f->rm);
        unsigned option = f->word >> 13 & 7;
        index = eval_extend(s, &index, 1u << (option & 3), option >= 4);
        eval_value address = eval_index(s, &base, &index, f->word >> 12 & 1 ? size_log2 : 0);
        if (opc != 0)
            write_register(s, f->rd, eval_load(s, &address, 1u << size_log2, opc >= 2));
        return;
    }
    int64_t offset = is_scaled ? (int64_t)((uint64_t)(f->word >> 10 & 0xfff) << size_log2)
                               : signed_field(f->word, 12, 9);
    eval_value v;
    if (opc == 0) {
        v = size_log2 >= 2 ? read_register(s, f->rd) : eval_unknown(s);
        if (!writes_back)
            eval_set_slot(s, f->rn, offset, &v);
    } else {
        const eval_value *slot = writes_back ? NULL : eval_slot_at(s, f->rn, offset);
        eval_value base = f->rn == SP ? eval_unknown(s) : s->registers[f->rn];
        eval_value addend = eval_const(s, (uint64_t)offset);
        eval_value address = eval_add(s, &base, &addend);
        v = slot ? *slot : eval_load(s, &address, 1u << size_log2, opc >= 2);
        if (!slot && !writes_back)
            eval_set_slot(s, f->rn, offset, &v);
        write_register(s, f->rd, v);
    }
    if (writes_back)
        eval_lose(s, f->rn);
}

/* Of one general register, and neither a prefetch nor an atomic operation. */
static bool is_load_store(uint32_t word)
{
    bool is_general = (word & 0x3e000000) == 0x38000000,
         is_prefetch = (word & 0xc0c00000) == 0xc0800000;
    bool is_atomic = (word & 0x01200c00) == 0x00200000 || (word & 0x01200400) == 0x00200400;
    return is_general && !is_prefetch && !is_atomic;
}

static void run_pair(eval_state *s, const fields *f)
{
    bool is_load = f->word >> 22 & 1, is_vector = f->word >> 26 & 1;
    if (is_load && !is_vector) {
        write_register(s, f->rd, eval_loaded(s));
        write_register(s, f->word >> 10 & 31, eval_loaded(s));
    } else if (!is_load) {
        eval_lose_slots(s, f->rn);
    }
    if (f->word >> 23 & 1)
        eval_lose(s, f->rn);
}

static void run_call(eval_state *s)
{
    for (unsigned reg = 1; reg <= 18; reg++)
        eval_lose(s, reg);
    write_register(s, 0, eval_loaded(s));
    s->compared = EVAL_NO_ID;
}

static eval_condition condition_of(uint32_t word)
{
    switch (word & 15) {
    case 2:
        return EVAL_ABOVE_EQUAL; /* HS */
    case 3:
        return EVAL_BELOW; /* LO */
    case 8:
        return EVAL_ABOVE; /* HI */
    case 9:
        return EVAL_BELOW_EQUAL; /* LS */
    default:
        return EVAL_OTHER;
    }
}

/* ADCS and CCMP; ANDS; FCMP; FCCMP. */
static bool may_set_flags(uint32_t word)
{
    return (word & 0x3fa00000) == 0x3a000000 || (word & 0x7f000000) == 0x6a000000 ||
           (word & 0xff20fc00) == 0x1e202000 || (word & 0xff200c00) == 0x1e200400;
}

static void run_other(eval_state *s, const fields *f)
{
    if (may_set_flags(f->word))
        s->compared = EVAL_NO_ID;
    bool is_vector = (f->word >> 25 & 5) == 4 && f->word >> 26 & 1; /* a load or store */
    bool is_system = (f->word & 0x1c000000) == 0x14000000;
    if (!is_vector && !is_system)
        write_register(s, f->rd, eval_unknown(s));
}

static void run(eval_state *s, uint32_t word, uint64_t addr)
{
    const fields f = {word, word & 31, word >> 5 & 31, word >> 16 & 31};
    if ((word & 0x1f000000) == 0x10000000)
        run_adr(s, &f, addr);
    else if ((word & 0x1f800000) == 0x11000000)
        run_add_immediate(s, &f);
    else if ((word & 0x1f800000) == 0x12000000 && (word >> 29 & 3) % 3 == 0)
        run_and_immediate(s, &f); /* AND, ANDS; not ORR, EOR */
    else if ((word & 0x1f800000) == 0x13000000 && (word >> 29 & 3) != 1)
        run_bitfield(s, &f);
    else if ((word & 0x7fe0ffe0) == 0x2a0003e0) /* MOV (register) */
        write_register(s, f.rd, read_register(s, f.rm));
    else if ((word & 0x7f800000) == 0x52800000) /* MOVZ */
        write_register(s, f.rd,
                       eval_const(s, (uint64_t)(word >> 5 & 0xffff) << (word >> 21 & 3) * 16));
    else if ((word & 0x1f000000) == 0x0b000000)
        run_add_register(s, &f);
    else if (is_load_store(word))
        run_load_store(s, &f);
    else if ((word & 0x3f400000) == 0x08400000 || (word & 0x3f000000) == 0x18000000)
        write_register(s, f.rd, eval_loaded(s)); /* LDAR and its kin; LDR (literal) */
    else if ((word & 0x3a000000) == 0x28000000)
        run_pair(s, &f);
    else
        run_other(s, &f);
}

eval_value eval_arm64(eval_state *s, const code_image *image, const eval_step *steps, size_t count)
{
    uint32_t word = 0;
    for (size_t i = 0; i < count; i++) {
        const code_instruction *in = &steps[i].instruction;
        spgo_span bytes = code_bytes_at(image, in->rva);
        word = bytes.len >= 4 ? load_u32(bytes.ptr) : 0;
        if (i + 1 == count)
            break;
        if (in->kind == CODE_CALL || in->kind == CODE_CALL_INDIRECT)
            run_call(s);
        else if (in->kind == CODE_BRANCH && (word & 0xff000000) == 0x54000000)
            eval_branch(s, condition_of(word), steps[i].is_taken);
        else if (!code_is_transfer(in->kind))
            run(s, word, image->base_addr + in->rva);
    }
    return read_register(s, word >> 5 & 31);
}
