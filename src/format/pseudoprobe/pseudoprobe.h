/*
 * Pseudo probes: what clang's -fpseudo-probe-for-profiling leaves in an image instead of line
 * tables. The section .pseudo_probe_desc names each function with the checksum of its flow graph,
 * .pseudo_probe ties addresses to numbered probes inside chains of inlined functions.
 * doc/formats/pseudoprobe.md has the layout and its sources.
 */
#ifndef FORMAT_PSEUDOPROBE_H
#define FORMAT_PSEUDOPROBE_H

#include <base/arena.h>
#include <base/diag.h>

#define PSEUDOPROBE_NONE UINT32_MAX

typedef enum pseudoprobe_kind {
    PSEUDOPROBE_BLOCK,
    PSEUDOPROBE_INDIRECT_CALL,
    PSEUDOPROBE_DIRECT_CALL
} pseudoprobe_kind;

enum { /* attributes */
       PSEUDOPROBE_RESERVED = 1,
       PSEUDOPROBE_SENTINEL = 2,
       PSEUDOPROBE_HAS_DISCRIMINATOR = 4
};

typedef struct pseudoprobe_function {
    uint64_t guid; /* of the name, as LLVM makes it */
    uint64_t checksum;
    spgo_str name;
} pseudoprobe_function;

/* A function, or one inlined into another: a node of the trees of .pseudo_probe. */
typedef struct pseudoprobe_node {
    uint64_t guid;
    uint32_t caller;     /* a node, or PSEUDOPROBE_NONE for functions of their own */
    uint32_t call_probe; /* the caller's probe at the call that was replaced; 0 at the top */
    uint32_t function;   /* of the functions; PSEUDOPROBE_NONE: the guid is not described */
} pseudoprobe_node;

typedef struct pseudoprobe {
    uint64_t addr; /* as the image was linked */
    uint32_t node;
    uint32_t index; /* its number in the function, from 1 */
    uint32_t discriminator;
    uint8_t kind, attributes;
} pseudoprobe;

typedef struct pseudoprobes {
    const pseudoprobe_function *functions; /* by guid */
    const pseudoprobe_node *nodes;         /* callers before those inlined into them */
    const pseudoprobe
        *probes; /* by address; of equal ones in the order of the file; no sentinels */
    size_t function_count, node_count, probe_count;
    size_t unplaced_count; /* probes left out: no start is known that their addresses count from */
} pseudoprobes;

/* Where a symbol is: addresses of probes count from the start of their function's code. Parts of
 * split functions have symbols and so guids of their own ("f.cold"). */
typedef struct pseudoprobe_start {
    uint64_t guid; /* pseudoprobe_guid of the symbol's name */
    uint64_t addr;
} pseudoprobe_start;

/*
 * The contents of both sections; everything lives in `mem`, names in `desc`. starts: by guid, then
 * by address; of several with one guid (static functions of one name) the code stands in the order
 * of the addresses. Findings: a damaged record, behind which the rest of its section is left out; d
 * may be NULL. Offsets count from the start of the section.
 */
spgo_code pseudoprobe_read(spgo_span probe, spgo_span desc, const pseudoprobe_start *starts,
                           size_t start_count, arena *mem, pseudoprobes *out, diag *d,
                           spgo_error *err);

/* NULL: the guid is not described. */
const pseudoprobe_function *pseudoprobe_find_function(const pseudoprobes *p, uint64_t guid);

/* The number that stands for a name: the first 8 bytes of its MD5, little-endian. */
uint64_t pseudoprobe_guid(spgo_str name);

#endif
