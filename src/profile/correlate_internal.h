/*
 * What correlation by lines and by probes share: the profile's functions as a tree of inlined
 * calls.
 */
#ifndef PROFILE_CORRELATE_INTERNAL_H
#define PROFILE_CORRELATE_INTERNAL_H

#include <base/saturate.h>
#include <profile/correlate.h>
#include <profile/coverage.h>

#define TREE_NONE UINT32_MAX
/* Inlined calls in one another: compilers stay below 100, a profile holds LIMIT_INLINE_DEPTH. */
enum { TREE_DEPTH_MAX = 512 };

/* A function of the profile or an inlined call in it, reached by one key. */
typedef struct tree_node {
    const void *keys[2];
    sampleprof_function *function; /* NULL: has no place in the profile, its total still counts */
    uint32_t parent;               /* TREE_NONE: at the top */
    uint32_t depth;
    uint8_t line_source; /* symbol_line_source, at the top */
    uint64_t total;      /* its own, until tree_finish */
} tree_node;

typedef struct tree {
    sampleprof *profile;
    correlate_tally *tally;
    tree_node *nodes; /* callers before what is inlined into them */
    size_t count, capacity;
    uint32_t *slots; /* open addressing by keys: node + 1, 0 free */
    size_t slot_count;
    uint64_t seed;
    bool failed; /* out of memory */
} tree;

void tree_init(tree *t, sampleprof *profile, correlate_tally *tally);
void tree_close(tree *t);

/* The node of two keys; TREE_NONE: not there yet. */
uint32_t tree_find(const tree *t, const void *key, const void *key2);

/* Adds a node for the keys. parent TREE_NONE: a function at the top. A name that is empty or that
 * no profile may hold gives a node without a function. TREE_NONE: no memory (then t->failed). */
uint32_t tree_add(tree *t, const void *key, const void *key2, uint32_t parent,
                  sampleprof_place place, spgo_str name);

/* Adds up the totals from the leaves to the top, raises counts to the sum of their call targets
 * (of functions at the top, as llvm-profgen does), and fills the tally's functions. */
spgo_code tree_finish(tree *t, spgo_error *err);

/* Indirect calls whose place in the source is not known: see correlate_lost.c. */
typedef struct lost_calls {
    coverage *coverage;
    symbols *s;
    code_decoder *d;
    struct lost_call *rows;
    size_t count, capacity;
} lost_calls;

/* Takes up a branch of the measured ones into a function, if it is an indirect call. False: no
 * memory. */
bool lost_calls_add(lost_calls *l, const address_branch *branch);
void lost_calls_free(lost_calls *l);

typedef struct lost_call_places {
    /* Is it known where the instruction stands in the source? */
    bool (*knows)(void *ctx, uint32_t rva);
    /* The call stood where this instruction does, and this is its share. False: no memory. */
    bool (*place)(void *ctx, const address_branch *call, uint32_t rva, uint64_t count);
    void *ctx;
} lost_call_places;

/* Finds places for all of them. */
spgo_code lost_calls_place(lost_calls *l, const lost_call_places *places, spgo_error *err);

/* Can a text profile hold it as a function's name; as a call target's? */
bool correlate_name_is_usable(spgo_str name);
bool correlate_target_is_usable(spgo_str name);

#endif
