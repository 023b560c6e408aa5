/*
 * As much decoding of x86-64 as stepping needs: branches with their targets, and the instructions
 * that a burst treats apart. All others are plain, and their length is not known here.
 */
#ifndef STEP_RUNTIME_STEP_DECODE_H
#define STEP_RUNTIME_STEP_DECODE_H

#include <step_runtime/step_file.h>

#include <stdbool.h>

/* Values up to STEP_BRANCH_FAR are branches of that kind. */
enum {
    STEP_OP_PLAIN = 0,
    STEP_OP_SYSCALL = 8,
    STEP_OP_PUSHF,
    STEP_OP_POPF,
    STEP_OP_REFUSED /* its trap would come late, be lost or be taken for another */
};

typedef struct step_insn {
    uint64_t addr;
    uint64_t next;   /* behind it; of branches that name their target, and of a syscall */
    uint64_t target; /* where next is known */
    uint8_t op;
    uint8_t opcode; /* of a conditional branch: 0x70..0x7F, 0xE0..0xE3 */
    bool wide;      /* pushf and popf: 8 bytes, not 2; loop: counts rcx, not ecx */
} step_insn;

/* The registers that decide whether a conditional branch is taken; it changes none of the flags,
 * and rcx is that after it. */
typedef struct step_condition {
    uint64_t flags;
    uint64_t rcx;
} step_condition;

/* Reads at most the bytes up to limit, and only those that belong to the instruction. */
step_insn step_decode(uint64_t addr, uint64_t limit);

/* Does the instruction itself name its target? */
static inline bool step_is_direct(const step_insn *insn)
{
    return insn->op == STEP_BRANCH_JCC || insn->op == STEP_BRANCH_NEAR_REL_CALL ||
           insn->op == STEP_BRANCH_NEAR_REL_JMP;
}

/* Did the conditional branch jump? Only of one to its own end must that be asked. */
bool step_jumps(const step_insn *jcc, const step_condition *c);

#endif
