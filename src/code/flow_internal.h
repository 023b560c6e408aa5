/*
 * Between the parts of flow_graph_build: flow_graph.c follows the code from instruction to
 * instruction, flow_jump.c finds where indirect jumps go, flow_blocks.c makes blocks and edges of
 * the instructions that were found.
 */
#ifndef CODE_FLOW_INTERNAL_H
#define CODE_FLOW_INTERNAL_H

#include <code/eval.h>
#include <code/flow_graph.h>

/* What is known of each byte of the extents. The marks from FLOW_BYTE_LEADER on are those of an
 * instruction that starts there. */
enum {
    FLOW_BYTE_START = 1,
    FLOW_BYTE_INSIDE = 2, /* of an instruction or a jump table */
    FLOW_BYTE_LEADER = 4,
    FLOW_BYTE_NAMED = 8,      /* a leader that the caller named */
    FLOW_BYTE_TARGET = 16,    /* a leader that a jump or branch goes to, or stands behind */
    FLOW_BYTE_NO_RETURN = 32, /* a call that never returns */
    FLOW_BYTE_EXIT = 64,      /* an indirect jump that may leave the function */
    FLOW_BYTE_UNKNOWN = 128   /* where it goes on is not known */
};

enum { FLOW_PATH_MAX = 1 << 14 }; /* instructions looked back at from an indirect jump */

/* An extent with its bytes in the map: neighbours are one, and all have bytes in the image. */
typedef struct flow_piece {
    uint32_t begin_rva;
    uint32_t size_bytes;
    size_t map_off;
} flow_piece;

/* Instructions that follow each other, in the order in which they were found. */
typedef struct flow_run {
    uint32_t begin_rva;
    uint32_t first, count;   /* instructions */
    uint32_t from, from_run; /* what led here first: an instruction and its run; or FLOW_NONE */
} flow_run;

/* A place where code is that has still to be followed. */
typedef struct flow_lead {
    uint32_t rva, from, from_run;
} flow_lead;

/* Where an indirect jump goes. */
typedef struct flow_jump {
    uint32_t from_rva, to_rva;
    uint8_t kind; /* FLOW_TABLE or FLOW_OBSERVED */
} flow_jump;

/* A table whose end has to be guessed, once all other code is known. */
typedef struct flow_open_table {
    flow_table table; /* entry_count: the most it can have */
    uint32_t from, from_run;
} flow_open_table;

typedef struct flow_builder {
    code_decoder *d;
    const code_image *image;
    const flow_hints *hints;
    spgo_error *err;
    spgo_code code; /* the first failure: all ends */
    uint32_t entry_rva;

    flow_piece *pieces;
    size_t piece_count;
    const flow_piece *last_piece; /* that was asked for */
    uint8_t *map;
    size_t map_size;

    code_instruction *instructions;
    size_t instruction_count, instruction_room;
    flow_run *runs;
    size_t run_count, run_room;
    flow_lead *leads;
    size_t lead_count, lead_room;
    flow_jump *jumps;
    size_t jump_count, jump_room;
    flow_open_table *open_tables;
    size_t open_table_count, open_table_room;

    uint32_t *table_rvas; /* of those found so far */
    size_t table_rva_count, table_rva_room;
    uint32_t closing_begin_rva, closing_end_rva; /* of the one whose end is being looked for */
    eval_step *steps;                            /* room for FLOW_PATH_MAX */

    uint64_t work_left; /* steps of evaluation and entries of tables */
    bool is_simple;
    bool has_unknown_jump;
} flow_builder;

/* Follows the code from all leads, and what it leads to. */
void flow_follow_leads(flow_builder *b);

/* The piece that holds an RVA, which then is b->last_piece; NULL: none. */
const flow_piece *flow_piece_at(flow_builder *b, uint32_t rva);

/* The marks of a byte; NULL: in no piece. */
static inline uint8_t *flow_byte(flow_builder *b, uint32_t rva)
{
    const flow_piece *p = b->last_piece;
    if (rva - p->begin_rva >= p->size_bytes && !(p = flow_piece_at(b, rva)))
        return NULL;
    return b->map + p->map_off + (rva - p->begin_rva);
}

/* Room for one more element in an array of the builder; false: b->code is set. */
bool flow_grow(flow_builder *b, void **array, size_t count, size_t *room, size_t elem_size);

/* Notes that code continues there; false: in no piece. */
bool flow_add_lead(flow_builder *b, uint32_t rva, uint32_t from, uint32_t from_run);

/* Finds the targets of the indirect jump that ends a run, as far as can be told now. */
void flow_find_targets(flow_builder *b, uint32_t run);

/* Guesses the end of a table that flow_find_targets has left open. */
void flow_close_table(flow_builder *b, const flow_open_table *open);

spgo_code flow_make_blocks(flow_builder *b, arena *mem, flow_graph *out);

#endif
