/* The x86 and x64 half of eval.h: by the operands that Zydis tells. */
#include <code/eval.h>

#if SPGO_HAVE_ZYDIS

#include <Zydis/Zydis.h>

typedef struct machine {
    ZydisDecoder decoder;
    const code_image *image;
    eval_state *s;
    /* The instruction at hand. */
    uint64_t next_addr;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    uint64_t popped_addr; /* with pops_addr: the instruction before has pushed its address */
    bool pops_addr;
} machine;

enum { RAX = 0, RDX = 2, RSP = 4, RBP = 5 };

/* Its number as encoded: al, ax, eax and rax are 0. EVAL_NO_REGISTER: no general one. */
static unsigned register_of(ZydisRegister reg)
{
    if (reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH)
        return (unsigned)(reg - ZYDIS_REGISTER_AH); /* part of AX and so on */
    switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR8:
    case ZYDIS_REGCLASS_GPR16:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64: {
        ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
        return (unsigned)(whole - ZYDIS_REGISTER_RAX);
    }
    default:
        return EVAL_NO_REGISTER;
    }
}

static uint64_t narrow(const machine *m, uint64_t addr)
{
    return m->image->machine == CODE_X86 ? addr & UINT32_MAX : addr;
}

static eval_value value_of_register(machine *m, ZydisRegister reg)
{
    if (reg == ZYDIS_REGISTER_NONE)
        return eval_const(m->s, 0);
    if (reg == ZYDIS_REGISTER_RIP)
        return eval_const(m->s, m->next_addr);
    unsigned number = register_of(reg);
    return number == EVAL_NO_REGISTER ? eval_unknown(m->s) : m->s->registers[number];
}

static unsigned log2_of(unsigned scale)
{
    return scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0;
}

static eval_value address_of(machine *m, const ZydisDecodedOperandMem *mem)
{
    eval_value address = value_of_register(m, mem->base);
    if (mem->index != ZYDIS_REGISTER_NONE) {
        eval_value index = value_of_register(m, mem->index);
        address = eval_index(m->s, &address, &index, log2_of(mem->scale));
    }
    eval_value disp = eval_const(m->s, narrow(m, (uint64_t)mem->disp.value));
    address = eval_add(m->s, &address, &disp);
    if (address.kind == EVAL_CONST)
        address.addend = narrow(m, address.addend);
    return address;
}

/* A place on the stack, where values are spilled to. */
static bool is_slot(const ZydisDecodedOperandMem *mem)
{
    unsigned base = register_of(mem->base);
    return (base == RSP || base == RBP) && mem->index == ZYDIS_REGISTER_NONE;
}

static eval_value load(machine *m, const ZydisDecodedOperand *o, unsigned size_bytes)
{
    const ZydisDecodedOperandMem *mem = &o->mem;
    if (!is_slot(mem)) {
        eval_value address = address_of(m, mem);
        return eval_load(m->s, &address, size_bytes, false);
    }
    unsigned base = register_of(mem->base);
    const eval_value *known = eval_slot_at(m->s, base, mem->disp.value);
    eval_value v = known ? *known : eval_loaded(m->s);
    if (!known)
        eval_set_slot(m->s, base, mem->disp.value, &v);
    return v;
}

static eval_value value_of(machine *m, const ZydisDecodedOperand *o)
{
    switch (o->type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
        return value_of_register(m, o->reg.value);
    case ZYDIS_OPERAND_TYPE_MEMORY:
        return load(m, o, o->size / 8u);
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
        return eval_const(m->s, narrow(m, o->imm.value.u));
    default:
        return eval_unknown(m->s);
    }
}

/* Writes of 8 and 16 bits leave something mixed. */
static void set(machine *m, const ZydisDecodedOperand *o, eval_value v)
{
    if (o->size < 32)
        v = eval_unknown(m->s);
    if (o->type == ZYDIS_OPERAND_TYPE_REGISTER) {
        if (v.kind == EVAL_CONST && o->size == 32)
            v.addend &= UINT32_MAX;
        eval_set(m->s, register_of(o->reg.value), &v);
    } else if (o->type == ZYDIS_OPERAND_TYPE_MEMORY && is_slot(&o->mem)) {
        eval_set_slot(m->s, register_of(o->mem.base), o->mem.disp.value, &v);
    }
}

static bool is_immediate(const ZydisDecodedOperand *o)
{
    return o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

/* The immediate as wide as what it is compared with. */
static uint64_t immediate_of(const ZydisDecodedOperand *o, unsigned size_bits)
{
    return size_bits < 64 ? o->imm.value.u & ((UINT64_C(1) << size_bits) - 1) : o->imm.value.u;
}

static void run_compare(machine *m)
{
    const ZydisDecodedOperand *a = &m->operands[0], *b = &m->operands[1];
    if (!is_immediate(b))
        return;
    eval_value v = value_of(m, a);
    m->s->compared = v.id;
    m->s->compared_with = immediate_of(b, a->size);
}

static void run_add(machine *m, bool is_sub)
{
    const ZydisDecodedOperand *a = &m->operands[0], *b = &m->operands[1];
    if (is_sub && !is_immediate(b)) {
        set(m, a, eval_unknown(m->s));
        return;
    }
    eval_value x = value_of(m, a), y = value_of(m, b);
    if (is_sub)
        y = eval_const(m->s, narrow(m, 0 - y.addend));
    set(m, a, eval_add(m->s, &x, &y));
}

static void run_and(machine *m)
{
    eval_value v = eval_unknown(m->s);
    const ZydisDecodedOperand *b = &m->operands[1];
    if (is_immediate(b) && b->imm.value.u < 0x10000)
        eval_limit_to(m->s, v.id, b->imm.value.u, false);
    set(m, &m->operands[0], v);
}

static void run_extend(machine *m, bool is_signed)
{
    eval_value v = value_of(m, &m->operands[1]);
    set(m, &m->operands[0], eval_extend(m->s, &v, m->operands[1].size / 8u, is_signed));
}

static void run_xor(machine *m)
{
    const ZydisDecodedOperand *a = &m->operands[0], *b = &m->operands[1];
    /* Pointers to functions are kept encoded by some C libraries. */
    bool is_zero = a->type == ZYDIS_OPERAND_TYPE_REGISTER &&
                   b->type == ZYDIS_OPERAND_TYPE_REGISTER && a->reg.value == b->reg.value;
    set(m, a, is_zero ? eval_const(m->s, 0) : eval_loaded(m->s));
}

static void run_shift_left(machine *m)
{
    eval_value v = value_of(m, &m->operands[0]);
    const ZydisDecodedOperand *b = &m->operands[1];
    set(m, &m->operands[0],
        is_immediate(b) ? eval_scale(m->s, &v, b->imm.value.u & 63) : eval_unknown(m->s));
}

/* Whatever it writes is unknown afterwards. */
static void run_other(machine *m)
{
    for (unsigned i = 0; i < m->in.operand_count; i++) {
        const ZydisDecodedOperand *o = &m->operands[i];
        if (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
            set(m, o, eval_unknown(m->s));
    }
}

/* Those that comparisons of unsigned values are about. */
static bool writes_flags(const machine *m)
{
    const ZydisAccessedFlags *flags = m->in.cpu_flags;
    const ZydisAccessedFlagsMask compared = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_ZF;
    return flags && (flags->modified | flags->set_0 | flags->set_1 | flags->undefined) & compared;
}

static void run(machine *m)
{
    if (writes_flags(m))
        m->s->compared = EVAL_NO_ID;
    switch (m->in.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
        set(m, &m->operands[0], value_of(m, &m->operands[1]));
        break;
    case ZYDIS_MNEMONIC_LEA:
        set(m, &m->operands[0], address_of(m, &m->operands[1].mem));
        break;
    case ZYDIS_MNEMONIC_MOVZX:
        run_extend(m, false);
        break;
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_CDQE:
        run_extend(m, true);
        break;
    case ZYDIS_MNEMONIC_CMP:
        run_compare(m);
        break;
    case ZYDIS_MNEMONIC_ADD:
        run_add(m, false);
        break;
    case ZYDIS_MNEMONIC_SUB:
        run_compare(m);
        run_add(m, true);
        break;
    case ZYDIS_MNEMONIC_AND:
        run_and(m);
        break;
    case ZYDIS_MNEMONIC_XOR:
        run_xor(m);
        break;
    case ZYDIS_MNEMONIC_SHL:
        run_shift_left(m);
        break;
    case ZYDIS_MNEMONIC_POP:
        run_other(m);
        if (m->pops_addr)
            set(m, &m->operands[0], eval_const(m->s, m->popped_addr));
        break;
    default:
        run_other(m);
    }
    m->pops_addr = false;
}

/* The 32-bit ways to an address: a function that returns where it returns to, or a call of what is
 * next, which then pops that. */
static void run_call(machine *m, const code_instruction *call)
{
    eval_value result = eval_loaded(m->s);
    eval_set(m->s, RAX, &result);
    eval_lose(m->s, RDX);
    m->s->compared = EVAL_NO_ID;
    if (m->image->machine != CODE_X86 || !call->has_target)
        return;
    if (call->target_rva == call->rva + call->size_bytes) {
        m->popped_addr = m->next_addr;
        m->pops_addr = true;
        return;
    }
    spgo_span body = code_bytes_at(m->image, call->target_rva);
    if (body.len >= 4 && body.ptr[0] == 0x8b && (body.ptr[1] & 0xc7) == 0x04 &&
        body.ptr[2] == 0x24 && body.ptr[3] == 0xc3) { /* mov reg, [esp]; ret */
        eval_value v = eval_const(m->s, m->next_addr);
        eval_set(m->s, body.ptr[1] >> 3 & 7, &v);
    }
}

static eval_condition condition_of(ZydisMnemonic mnemonic)
{
    switch (mnemonic) {
    case ZYDIS_MNEMONIC_JB:
        return EVAL_BELOW;
    case ZYDIS_MNEMONIC_JBE:
        return EVAL_BELOW_EQUAL;
    case ZYDIS_MNEMONIC_JNBE:
        return EVAL_ABOVE;
    case ZYDIS_MNEMONIC_JNB:
        return EVAL_ABOVE_EQUAL;
    default:
        return EVAL_OTHER;
    }
}

static bool decode(machine *m, const code_instruction *in)
{
    spgo_span bytes = code_bytes_at(m->image, in->rva);
    m->next_addr = narrow(m, m->image->base_addr + in->rva + in->size_bytes);
    return ZYAN_SUCCESS(
        ZydisDecoderDecodeFull(&m->decoder, bytes.ptr, bytes.len, &m->in, m->operands));
}

eval_value eval_x86(eval_state *s, const code_image *image, const eval_step *steps, size_t count)
{
    machine m = {.image = image, .s = s};
    bool is_64bit = image->machine == CODE_X64;
    (void)ZydisDecoderInit(&m.decoder,
                           is_64bit ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
                           is_64bit ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
    for (size_t i = 0; i < count; i++) {
        const code_instruction *in = &steps[i].instruction;
        if (!decode(&m, in))
            continue;
        if (i + 1 == count)
            return value_of(&m, &m.operands[0]);
        if (in->kind == CODE_CALL || in->kind == CODE_CALL_INDIRECT)
            run_call(&m, in);
        else if (in->kind == CODE_BRANCH)
            eval_branch(s, condition_of(m.in.mnemonic), steps[i].is_taken);
        else if (!code_is_transfer(in->kind))
            run(&m);
    }
    return eval_unknown(s);
}

#else

eval_value eval_x86(eval_state *s, const code_image *image, const eval_step *steps, size_t count)
{
    (void)image;
    (void)steps;
    (void)count;
    return eval_unknown(s);
}

#endif
