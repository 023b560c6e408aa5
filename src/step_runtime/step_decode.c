/* Decoding of branches; see step_decode.h. */
#include <step_runtime/step_decode.h>

enum {
    FLAG_CF = 1,
    FLAG_PF = 1 << 2,
    FLAG_ZF = 1 << 6,
    FLAG_SF = 1 << 7,
    FLAG_OF = 1 << 11,
    INSN_BYTES_MAX = 15
};

/* Bytes of code; behind the end come zeros, so that what is cut off there is plain. */
typedef struct code {
    const uint8_t *at;
    const uint8_t *end;
} code;

static inline uint8_t take(code *c)
{
    return c->at < c->end ? *c->at++ : 0;
}

static inline uint8_t peek(const code *c)
{
    return c->at < c->end ? *c->at : 0;
}

typedef struct prefixes {
    bool operand16; /* 66, without REX.W */
    bool address32; /* 67 */
} prefixes;

/* Skips prefixes and returns the opcode behind them. A REX counts only right before the opcode. */
static uint8_t take_opcode(code *c, prefixes *p)
{
    bool rex_w = false;
    for (;;) {
        uint8_t byte = take(c);
        switch (byte) {
        case 0x66:
            p->operand16 = true;
            break;
        case 0x67:
            p->address32 = true;
            break;
        case 0x26:
        case 0x2E:
        case 0x36:
        case 0x3E:
        case 0x64:
        case 0x65:
        case 0xF0:
        case 0xF2:
        case 0xF3:
            break;
        default:
            if ((byte & 0xF0) != 0x40) {
                p->operand16 &= !rex_w;
                return byte;
            }
        }
        rex_w = (byte & 0xF8) == 0x48;
    }
}

static void set_target8(step_insn *i, code *c)
{
    int8_t distance = (int8_t)take(c);
    i->next = (uint64_t)(uintptr_t)c->at;
    i->target = i->next + (uint64_t)(int64_t)distance;
}

static void set_target32(step_insn *i, code *c)
{
    uint32_t distance = 0;
    for (unsigned shift = 0; shift < 32; shift += 8)
        distance |= (uint32_t)take(c) << shift;
    i->next = (uint64_t)(uintptr_t)c->at;
    i->target = i->next + (uint64_t)(int64_t)(int32_t)distance;
}

static void decode_0f(step_insn *i, code *c)
{
    uint8_t opcode = take(c);
    if ((opcode & 0xF0) == 0x80) {
        i->op = STEP_BRANCH_JCC;
        i->opcode = (uint8_t)(opcode - 0x10);
        set_target32(i, c);
    } else if (opcode == 0x05) {
        i->op = STEP_OP_SYSCALL;
        i->next = (uint64_t)(uintptr_t)c->at;
    } else if (opcode == 0x34) { /* sysenter */
        i->op = STEP_OP_REFUSED;
    }
}

static uint8_t op_of_ff(uint8_t modrm)
{
    switch (modrm >> 3 & 7) {
    case 2:
        return STEP_BRANCH_NEAR_IND_CALL;
    case 4:
        return STEP_BRANCH_NEAR_IND_JMP;
    case 3:
    case 5:
        return STEP_BRANCH_FAR;
    default:
        return STEP_OP_PLAIN;
    }
}

static uint8_t op_of(uint8_t opcode, const code *c)
{
    switch (opcode) {
    case 0xC2:
    case 0xC3:
        return STEP_BRANCH_NEAR_RET;
    case 0xCA:
    case 0xCB:
        return STEP_BRANCH_FAR;
    case 0xFF:
        return op_of_ff(peek(c));
    case 0x9C:
        return STEP_OP_PUSHF;
    case 0x9D:
        return STEP_OP_POPF;
    case 0x8E: /* mov to ss holds the trap back by an instruction */
        return (peek(c) >> 3 & 7) == 2 ? STEP_OP_REFUSED : STEP_OP_PLAIN;
    case 0xC7: /* xbegin: a trap ends the transaction */
        return peek(c) == 0xF8 ? STEP_OP_REFUSED : STEP_OP_PLAIN;
    case 0xCC: /* int3, int n, iret, int1: their traps are the program's business */
    case 0xCD:
    case 0xCF:
    case 0xF1:
        return STEP_OP_REFUSED;
    default:
        return STEP_OP_PLAIN;
    }
}

step_insn step_decode(uint64_t addr, uint64_t limit)
{
    uint64_t end = limit - addr < INSN_BYTES_MAX ? limit : addr + INSN_BYTES_MAX;
    code c = {(const uint8_t *)(uintptr_t)addr, (const uint8_t *)(uintptr_t)end};
    prefixes p = {0};
    step_insn i = {.addr = addr};
    uint8_t opcode = take_opcode(&c, &p);
    i.wide = !p.operand16;
    if ((opcode & 0xF0) == 0x70 || (opcode >= 0xE0 && opcode <= 0xE3)) {
        i.op = STEP_BRANCH_JCC;
        i.opcode = opcode;
        i.wide = !p.address32;
        set_target8(&i, &c);
    } else if (opcode == 0xEB) {
        i.op = STEP_BRANCH_NEAR_REL_JMP;
        set_target8(&i, &c);
    } else if (opcode == 0xE8 || opcode == 0xE9) {
        i.op = opcode == 0xE8 ? STEP_BRANCH_NEAR_REL_CALL : STEP_BRANCH_NEAR_REL_JMP;
        set_target32(&i, &c);
    } else if (opcode == 0x0F) {
        decode_0f(&i, &c);
    } else {
        i.op = op_of(opcode, &c);
    }
    return i;
}

/* The conditions come in pairs; the odd one is the even one's opposite. */
static bool flags_say(unsigned condition, uint64_t flags)
{
    bool less = !(flags & FLAG_SF) != !(flags & FLAG_OF);
    bool is = false;
    switch (condition >> 1) {
    case 0:
        is = flags & FLAG_OF;
        break;
    case 1:
        is = flags & FLAG_CF;
        break;
    case 2:
        is = flags & FLAG_ZF;
        break;
    case 3:
        is = flags & (FLAG_CF | FLAG_ZF);
        break;
    case 4:
        is = flags & FLAG_SF;
        break;
    case 5:
        is = flags & FLAG_PF;
        break;
    case 6:
        is = less;
        break;
    case 7:
        is = less || flags & FLAG_ZF;
        break;
    }
    return is != (condition & 1);
}

bool step_jumps(const step_insn *jcc, const step_condition *c)
{
    uint64_t count = jcc->wide ? c->rcx : (uint32_t)c->rcx;
    switch (jcc->opcode) {
    case 0xE0:
        return count != 0 && !(c->flags & FLAG_ZF);
    case 0xE1:
        return count != 0 && c->flags & FLAG_ZF;
    case 0xE2:
        return count != 0;
    case 0xE3:
        return count == 0;
    default:
        return flags_say(jcc->opcode & 15, c->flags);
    }
}
