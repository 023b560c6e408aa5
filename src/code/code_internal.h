/* Between code_decode.c, which finds the bytes of an instruction, and the machines. */
#ifndef CODE_INTERNAL_H
#define CODE_INTERNAL_H

#include <code/code.h>

/* The size that stands for what is no instruction: the next one could begin behind it. */
static inline uint8_t code_invalid_size(code_machine machine)
{
    return machine == CODE_ARM64 ? 4 : 1;
}

/* How x86 and x64 are decoded; NULL when this build cannot, or without memory. */
typedef struct code_x86 code_x86;
bool code_x86_can_decode(void);
code_x86 *code_x86_new(code_machine machine);
void code_x86_free(code_x86 *x);

/* Each fills size_bytes, kind and the target of *out, whose rva is set, if the bytes begin with an
 * instruction; else it leaves *out alone. */
void code_x86_decode(const code_x86 *x, spgo_span bytes, code_instruction *out);
void code_x86_decode_any(const code_x86 *x, spgo_span bytes, code_instruction *out); /* slowly */
void code_arm64_decode(spgo_span bytes, code_instruction *out);

struct code_decoder {
    const code_image *image;
    code_x86 *x86; /* NULL: another machine */
    /* The executable segment that was asked for last: [begin_rva, begin_rva + bytes.len). */
    uint32_t begin_rva;
    spgo_span bytes;
};

/* Executable bytes from an RVA to the end of its segment; empty if there are none. */
spgo_span code_executable_at(code_decoder *d, uint32_t rva);

#endif
