/*
 * The basic blocks of one function, recovered from its bytes.
 *
 * A block is a run of instructions that is entered at its first and left behind its last one.
 * Calls do not end a block, unless they never return. Leaders are the entry, targets of direct
 * branches, what follows a transfer or a trap, targets of jump tables, and those that the caller
 * knows (observed branch targets, landing pads, labels). Bytes that nothing reaches and padding
 * behind the last block are in no block, unless an indirect jump may go anywhere: then what it
 * could reach is in blocks, too. doc/code.md says what is assumed.
 */
#ifndef CODE_FLOW_GRAPH_H
#define CODE_FLOW_GRAPH_H

#include <base/arena.h>
#include <code/code.h>

#define FLOW_NONE UINT32_MAX

/* A piece of the function: [begin, end). */
typedef struct flow_extent {
    uint32_t begin_rva, end_rva;
} flow_extent;

/* An observed branch between two addresses. */
typedef struct flow_branch {
    uint32_t from_rva, to_rva;
} flow_branch;

/* A jump table that debug information describes. */
typedef struct flow_table {
    uint32_t branch_rva; /* of the indirect jump */
    uint32_t base_rva;   /* what entries are added to, modulo 2^32: if they are addresses, minus the
                            base of the image */
    uint32_t table_rva, entry_count;
    uint8_t entry_size; /* bytes: 1, 2, 4, 8 */
    bool is_signed;
    uint8_t shift; /* entries are shifted left by this before they are added */
} flow_table;

typedef struct flow_hints {
    const uint32_t *leaders; /* sorted */
    size_t leader_count;
    const flow_branch *branches; /* observed, sorted by from, then to */
    size_t branch_count;
    const flow_table *tables; /* sorted by branch_rva */
    size_t table_count;
    const uint32_t *no_return; /* entry RVAs of functions that never return, sorted */
    size_t no_return_count;
} flow_hints;

typedef enum flow_edge_kind {
    FLOW_FALL_THROUGH,
    FLOW_TAKEN,   /* a direct jump or branch */
    FLOW_TABLE,   /* by a jump table */
    FLOW_OBSERVED /* an indirect jump that was seen to go there */
} flow_edge_kind;

typedef struct flow_edge {
    uint32_t from, to; /* blocks */
    uint8_t kind;      /* flow_edge_kind */
} flow_edge;

/* Flags of blocks. */
enum {
    FLOW_ENTRY = 1,
    FLOW_EXIT = 2,         /* returns, or tail-calls another function */
    FLOW_NO_RETURN = 4,    /* ends in a trap or a call that never returns */
    FLOW_UNKNOWN_EXIT = 8, /* an indirect jump whose targets are not (all) known, or what follows
                              makes no instruction */
    FLOW_LANDING = 16      /* a leader that only the caller named, or code that nothing known leads
                              to: entered from outside or by an unknown jump */
};

typedef struct flow_block {
    uint32_t begin_rva, end_rva;                   /* end is behind the last instruction */
    uint32_t last_rva;                             /* of the last instruction */
    uint32_t first_instruction, instruction_count; /* of the graph's */
    uint32_t first_edge, edge_count;               /* edges that leave it */
    uint8_t flags;
} flow_block;

typedef struct flow_graph {
    const flow_block *blocks; /* by rva; blocks[entry] is where the function is entered */
    const flow_edge *edges;   /* by from, then to; at most one of each kind between two blocks */
    const code_instruction *instructions; /* by rva */
    size_t block_count, edge_count, instruction_count;
    uint32_t entry;
    bool is_simple; /* false: a branch goes into the middle of an instruction, bytes make no
                       instruction, or an indirect jump's targets are not known */
} flow_graph;

/*
 * extents: sorted, without overlap; hints: NULL or as they say. SPGO_USAGE: extents that are empty
 * or not in order. SPGO_NOT_FOUND: no executable bytes of theirs at the entry. SPGO_CORRUPT: no
 * instruction there. SPGO_LIMIT: more than FLOW_INSTRUCTIONS_MAX instructions, or 16 times as many
 * bytes. After a failure *out is empty.
 */
enum { FLOW_INSTRUCTIONS_MAX = 1 << 22 };
spgo_code flow_graph_build(code_decoder *d, uint32_t entry_rva, const flow_extent *extents,
                           size_t extent_count, const flow_hints *hints, arena *mem,
                           flow_graph *out, spgo_error *err);

/* The block whose instructions cover an RVA; FLOW_NONE: none. */
uint32_t flow_block_at(const flow_graph *g, uint32_t rva);

#endif
