/*
 * Machine code: bytes to instructions, as much of them as control flow needs. x86 and x64 are
 * decoded with Zydis (when it was there at build time), AArch64 by its few branch encodings.
 *
 * A code_image is plain data that somebody else has filled and owns. RVAs are offsets from the
 * image base (elf.h says what that is for ELF).
 */
#ifndef CODE_CODE_H
#define CODE_CODE_H

#include <spgo/error.h>

typedef enum code_machine { CODE_UNKNOWN, CODE_X86, CODE_X64, CODE_ARM64 } code_machine;

/* Can this build decode it? */
bool code_can_decode(code_machine machine);
const char *code_machine_name(code_machine machine);

typedef struct code_segment {
    uint32_t rva;
    spgo_span bytes; /* those in the file; zeros may follow in memory */
    bool is_executable;
} code_segment;

typedef struct code_image {
    code_machine machine;
    uint64_t base_addr;           /* where RVA 0 was linked to be */
    const code_segment *segments; /* by rva, without overlap */
    size_t segment_count;
} code_image;

/* Bytes from an RVA to the end of its segment; empty if there are none. */
spgo_span code_bytes_at(const code_image *image, uint32_t rva);
bool code_is_executable(const code_image *image, uint32_t rva);

typedef enum code_kind {
    CODE_INVALID, /* no instruction; size 1 (x86) or 4 */
    CODE_PLAIN,   /* goes on with the next one; also system calls */
    CODE_PADDING, /* no-operation */
    CODE_JUMP,    /* direct */
    CODE_JUMP_INDIRECT,
    CODE_BRANCH, /* conditional, always direct */
    CODE_CALL,
    CODE_CALL_INDIRECT,
    CODE_RETURN,
    CODE_TRAP /* never goes on: ud2, hlt, int3, int 29h, brk, udf */
} code_kind;

typedef struct code_instruction {
    uint32_t rva;
    uint8_t size_bytes;
    uint8_t kind;    /* code_kind */
    bool has_target; /* direct ones whose target is in 32 bits */
    uint32_t target_rva;
} code_instruction;

static inline bool code_is_transfer(uint8_t kind) /* may go elsewhere than to the next one */
{
    return kind >= CODE_JUMP && kind <= CODE_RETURN;
}

/* Always goes elsewhere, calls among them: no stretch of code runs across it without a branch. */
static inline bool code_always_leaves(uint8_t kind)
{
    return code_is_transfer(kind) && kind != CODE_BRANCH;
}

typedef struct code_decoder code_decoder;
spgo_code code_decoder_new(const code_image *image, code_decoder **out, spgo_error *err);
void code_decoder_free(code_decoder *d); /* NULL is fine */

/* The instruction at an RVA. Outside of executable bytes: CODE_INVALID. Cheap: called for each
 * instruction of a program. */
code_instruction code_decode(code_decoder *d, uint32_t rva);

#endif
