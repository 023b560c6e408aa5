/*
 * What registers hold along one path of code, as far as finding jump tables needs it: constants,
 * addresses of table entries, what was loaded from there, sums of these, and how large an index can
 * be. The two machines translate their instructions to the few operations below; whatever they do
 * not know sets its registers to something unknown.
 *
 * Constants are addresses as linked, not RVAs, since code may use either.
 */
#ifndef CODE_EVAL_H
#define CODE_EVAL_H

#include <code/code.h>

typedef enum eval_kind {
    EVAL_UNKNOWN, /* what it was at the start of the path (ids up to EVAL_REGISTERS), or after
                     something not understood */
    EVAL_CONST,
    EVAL_ADDRESS, /* base + addend + (index << scale) */
    EVAL_LOADED,  /* from memory, and not from a table; or returned by a call */
    EVAL_ENTRY,   /* of a table: loaded from an EVAL_ADDRESS */
    EVAL_TARGET,  /* base + addend + (entry << shift) */
    EVAL_SUM      /* of what is not known: computed, which a pointer to a function seldom is */
} eval_kind;

/* Values are told apart by an id, which copies share. Of an EVAL_UNKNOWN, the id is all. */
typedef uint32_t eval_id;
enum { EVAL_NO_ID = 0 };

/* base_id EVAL_NO_ID: the base is a constant and in the addend. */
typedef struct eval_address {
    eval_id base_id, index_id;
    uint64_t addend;
    uint8_t scale; /* log2 */
} eval_address;

typedef struct eval_value {
    uint8_t kind; /* eval_kind */
    eval_id id;
    uint64_t addend;      /* CONST: the value; TARGET */
    eval_id base_id;      /* TARGET */
    eval_address address; /* ADDRESS; ENTRY and TARGET: of the entry */
    eval_id entry_id;     /* ENTRY and TARGET: of the entry as it was loaded */
    uint8_t entry_size;   /* bytes */
    uint8_t shift;        /* of the entry */
    bool is_signed;       /* likewise */
    eval_address inner;   /* the index of the entry was itself loaded from a table */
    uint8_t inner_size;   /* bytes of its entries; 0: it was not */
} eval_value;

enum {
    EVAL_REGISTERS = 33, /* 32 is one that reads as unknown and whose writes are lost */
    EVAL_NO_REGISTER = 32,
    EVAL_SLOTS = 16,  /* spilled values that are remembered */
    EVAL_LIMITS = 16, /* likewise */
};

/* The largest that a value can be. */
typedef struct eval_limit {
    eval_id id;
    uint64_t max;
    bool is_checked; /* by a comparison and a branch; else by the width of the value */
} eval_limit;

typedef struct eval_slot {
    uint8_t base; /* a register; EVAL_NO_REGISTER: free */
    int64_t offset;
    eval_value value;
} eval_slot;

typedef struct eval_state {
    eval_value registers[EVAL_REGISTERS];
    eval_slot slots[EVAL_SLOTS];
    eval_limit limits[EVAL_LIMITS];
    size_t slots_used, limits_used; /* ever: the oldest is replaced */
    eval_id last_id;
    /* The flags are those of comparing the value `compared` with compared_with. */
    eval_id compared; /* EVAL_NO_ID: of something else */
    uint64_t compared_with;
} eval_state;

void eval_start(eval_state *s);

eval_value eval_unknown(eval_state *s);
eval_value eval_loaded(eval_state *s);
eval_value eval_const(eval_state *s, uint64_t value);
eval_value eval_add(eval_state *s, const eval_value *a, const eval_value *b);
eval_value eval_scale(eval_state *s, const eval_value *v, unsigned shift); /* shifted left */
/* base + (index << shift), where the index is what limits and tables are about. */
eval_value eval_index(eval_state *s, const eval_value *base, const eval_value *index,
                      unsigned shift);
/* What its low size_bytes become when they are extended. */
eval_value eval_extend(eval_state *s, const eval_value *v, unsigned size_bytes, bool is_signed);
eval_value eval_load(eval_state *s, const eval_value *address, unsigned size_bytes, bool is_signed);

/* What was spilled with the register as its base is forgotten. */
void eval_set(eval_state *s, unsigned reg, const eval_value *v);
void eval_lose(eval_state *s, unsigned reg);

/* The value that is remembered as spilled to base + offset; NULL: none. */
eval_value *eval_slot_at(eval_state *s, unsigned base, int64_t offset);
void eval_set_slot(eval_state *s, unsigned base, int64_t offset, const eval_value *v);
void eval_lose_slots(eval_state *s, unsigned base);

void eval_limit_to(eval_state *s, eval_id id, uint64_t max, bool is_checked);
const eval_limit *eval_limit_of(const eval_state *s, eval_id id); /* NULL: none */

/* One instruction of the path. */
typedef struct eval_step {
    code_instruction instruction;
    bool is_taken; /* a conditional branch: which way the path goes */
} eval_step;

/* What conditions say of the value compared, unsigned. */
typedef enum eval_condition {
    EVAL_OTHER,
    EVAL_BELOW,
    EVAL_BELOW_EQUAL,
    EVAL_ABOVE,
    EVAL_ABOVE_EQUAL
} eval_condition;
void eval_branch(eval_state *s, eval_condition condition, bool is_taken);

/* Runs the steps but for the last one, which is an indirect jump, and returns where that goes. */
eval_value eval_x86(eval_state *s, const code_image *image, const eval_step *steps, size_t count);
eval_value eval_arm64(eval_state *s, const code_image *image, const eval_step *steps, size_t count);

#endif
