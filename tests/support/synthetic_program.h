/*
 * Programs that exist only as control flow: images of functions of basic blocks, and a thread that
 * runs through them and remembers its last branches as a processor does. What a test records of it
 * is consistent: between two neighbouring branches lies a straight run of one function.
 */
#ifndef SYNTHETIC_PROGRAM_H
#define SYNTHETIC_PROGRAM_H

#include <spgo/types.h>

enum {
    SYNTH_FUNCTIONS = 64,
    SYNTH_BLOCKS_MAX = SYNTH_FUNCTIONS * 24,
    SYNTH_IMAGE_SIZE = 0x40000,
    SYNTH_LBR_DEPTH = 32,
    SYNTH_CALL_DEPTH = 24
};

typedef enum synth_kind {
    SYNTH_COND,
    SYNTH_JUMP,
    SYNTH_CALL,
    SYNTH_FAR_CALL,
    SYNTH_INDIRECT_CALL, /* any function of the image but the first */
    SYNTH_RET
} synth_kind;

typedef struct synth_block {
    uint32_t start_rva, branch_rva, end_rva; /* branch_rva: of the last instruction */
    synth_kind kind;
    uint32_t target;    /* block; function for calls */
    uint32_t taken_256; /* how often a condition holds, of 256 */
} synth_block;

typedef struct synth_image {
    uint64_t base;
    uint32_t block_count;
    uint32_t function_first[SYNTH_FUNCTIONS];
    synth_block blocks[SYNTH_BLOCKS_MAX];
} synth_image;

void synth_image_init(synth_image *image, uint64_t seed, uint64_t base);

/* A thread. Far calls go to the next image, if there is one: program, library, kernel. */
typedef struct synth_thread {
    const synth_image *images[4];
    unsigned image_count;
    uint64_t random;
    unsigned image;
    uint32_t block;
    struct {
        unsigned image;
        uint32_t block;
    } calls[SYNTH_CALL_DEPTH];
    unsigned depth;
    uint64_t ring[SYNTH_LBR_DEPTH][2];
    uint64_t taken; /* branches so far */
} synth_thread;

void synth_thread_init(synth_thread *t, uint64_t seed, const synth_image *const *images,
                       unsigned image_count);
void synth_thread_run(synth_thread *t, unsigned taken_branches);

uint64_t synth_thread_ip(const synth_thread *t);
/* The last branches, newest first, as {from, to, 0}. */
unsigned synth_thread_lbr(const synth_thread *t, uint64_t (*out)[3], unsigned max);
/* The instruction pointer and the return addresses, leaf first. */
unsigned synth_thread_stack(const synth_thread *t, uint64_t *frames, unsigned max);

uint64_t synth_random(uint64_t *state); /* splitmix64 */

#endif
