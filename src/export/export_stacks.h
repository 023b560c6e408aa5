/* Counts by address as counts by stack: the procedure and the calls that were inlined into it. */
#ifndef EXPORT_STACKS_H
#define EXPORT_STACKS_H

#include <export/export.h>

/* Code that shares one stack. */
typedef struct export_stack {
    uint32_t rva;             /* of its first instruction that counts */
    const symbol_frame *leaf; /* NULL: nothing is known but the procedure's name */
    spgo_str procedure;       /* empty: no name */
    uint64_t weight;          /* of all its instructions */
} export_stack;

typedef struct export_stacks {
    export_stack *list; /* by rva; malloc'd */
    size_t count;
    uint64_t total;
} export_stacks;

spgo_code export_stacks_gather(const address_profile *profile, symbols *s, code_decoder *d,
                               export_stacks *out, spgo_error *err);

enum { EXPORT_STACK_DEPTH_MAX = 512 };

/* The frames of a stack, root first; deeper ones than the limit are left out at the root. Returns
 * how many; 0: only the procedure is known. */
size_t export_stack_frames(const export_stack *stack,
                           const symbol_frame *frames[EXPORT_STACK_DEPTH_MAX]);

/* What to call a stack without frames. */
spgo_str export_stack_name(const export_stack *stack);

#endif
