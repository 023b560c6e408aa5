/* Control flow to sample: see synthetic_program.h. */
#include "synthetic_program.h"

enum { FIRST_LEAF = SYNTH_FUNCTIONS * 2 / 3 };

uint64_t synth_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((synth_random(state) >> 32) * n >> 32);
}

/* What ends block i of a function of n blocks that starts at `first`. Conditions jump back in one
 * case of three, which makes loops; the rest jump forward. Functions call only later ones and the
 * last third calls nobody, so that a thread always comes back to its main loop. */
static void end_block(synth_block *b, uint64_t *random, uint32_t first, uint32_t i, uint32_t n,
                      uint32_t function)
{
    static const uint8_t biases[] = {4, 40, 128, 216, 252};
    b->taken_256 = biases[below(random, sizeof biases)];
    uint32_t choice = below(random, 12);
    bool may_call = function < FIRST_LEAF;
    if (i + 1 == n) { /* function 0 is the main loop and never returns */
        b->kind = function == 0 ? SYNTH_JUMP : SYNTH_RET;
        b->target = first;
    } else if (may_call && choice == 1) {
        b->kind = SYNTH_FAR_CALL;
        b->target = 1 + below(random, SYNTH_FUNCTIONS - 1);
    } else if (function == 0 && choice < 6) {
        b->kind = SYNTH_INDIRECT_CALL;
    } else if (may_call && choice == 0) {
        b->kind = SYNTH_CALL;
        b->target = function + 1 + below(random, SYNTH_FUNCTIONS - function - 1);
    } else if (choice == 2 && i + 2 < n) {
        b->kind = SYNTH_JUMP;
        b->target = first + i + 2;
    } else if (choice < 6) {
        b->kind = SYNTH_COND;
        b->target = first + below(random, i + 1);
        b->taken_256 = b->taken_256 * 3 / 4; /* loops end */
    } else {
        b->kind = SYNTH_COND;
        b->target = first + i + 1 + below(random, n - i - 1);
    }
}

void synth_image_init(synth_image *image, uint64_t seed, uint64_t base)
{
    uint64_t random = seed;
    uint32_t rva = 0x1000;
    image->base = base;
    image->block_count = 0;
    for (uint32_t f = 0; f < SYNTH_FUNCTIONS; f++) {
        uint32_t n = 6 + below(&random, 18);
        uint32_t first = image->block_count;
        image->function_first[f] = first;
        for (uint32_t i = 0; i < n; i++) {
            synth_block *b = &image->blocks[image->block_count++];
            b->start_rva = rva;
            b->branch_rva = rva + below(&random, 40);
            end_block(b, &random, first, i, n, f);
            rva = b->end_rva = b->branch_rva + (b->kind == SYNTH_RET ? 1
                                                : b->taken_256 & 1   ? 6
                                                                     : 2);
        }
        rva = (rva + 15) & ~15u;
    }
}

void synth_thread_init(synth_thread *t, uint64_t seed, const synth_image *const *images,
                       unsigned image_count)
{
    *t = (synth_thread){.image_count = image_count, .random = seed};
    for (unsigned i = 0; i < image_count; i++)
        t->images[i] = images[i];
}

static void take(synth_thread *t, const synth_block *from, unsigned image, uint32_t block)
{
    uint64_t *entry = t->ring[t->taken++ % SYNTH_LBR_DEPTH];
    entry[0] = t->images[t->image]->base + from->branch_rva;
    entry[1] = t->images[image]->base + t->images[image]->blocks[block].start_rva;
    t->image = image;
    t->block = block;
}

static void call(synth_thread *t, const synth_block *b, unsigned image, uint32_t function)
{
    t->calls[t->depth].image = t->image;
    t->calls[t->depth].block = t->block + 1;
    t->depth++;
    take(t, b, image, t->images[image]->function_first[function]);
}

/* The last block of a function always branches, so this ends. */
static void run_to_next_branch(synth_thread *t)
{
    for (;; t->block++) {
        const synth_block *b = &t->images[t->image]->blocks[t->block];
        switch (b->kind) {
        case SYNTH_COND:
            if ((synth_random(&t->random) & 255) >= b->taken_256)
                continue;
            take(t, b, t->image, b->target);
            return;
        case SYNTH_JUMP:
            take(t, b, t->image, b->target);
            return;
        case SYNTH_FAR_CALL:
            if (t->depth == SYNTH_CALL_DEPTH || t->image + 1 == t->image_count)
                continue;
            call(t, b, t->image + 1, b->target);
            return;
        case SYNTH_CALL:
            if (t->depth == SYNTH_CALL_DEPTH)
                continue;
            call(t, b, t->image, b->target);
            return;
        case SYNTH_INDIRECT_CALL: /* of the main loop: there is room */
            call(t, b, t->image, 1 + below(&t->random, SYNTH_FUNCTIONS - 1));
            return;
        case SYNTH_RET:
            t->depth--; /* only function 0 of image 0 is not called, and it never returns */
            take(t, b, t->calls[t->depth].image, t->calls[t->depth].block);
            return;
        }
    }
}

void synth_thread_run(synth_thread *t, unsigned taken_branches)
{
    for (unsigned i = 0; i < taken_branches; i++)
        run_to_next_branch(t);
}

uint64_t synth_thread_ip(const synth_thread *t)
{
    const synth_block *b = &t->images[t->image]->blocks[t->block];
    uint32_t length = b->branch_rva - b->start_rva;
    return t->images[t->image]->base + b->start_rva + (length ? (uint32_t)t->taken % length : 0);
}

unsigned synth_thread_lbr(const synth_thread *t, uint64_t (*out)[3], unsigned max)
{
    unsigned n = t->taken < SYNTH_LBR_DEPTH ? (unsigned)t->taken : SYNTH_LBR_DEPTH;
    if (n > max)
        n = max;
    for (unsigned i = 0; i < n; i++) {
        const uint64_t *entry = t->ring[(t->taken - 1 - i) % SYNTH_LBR_DEPTH];
        out[i][0] = entry[0];
        out[i][1] = entry[1];
        out[i][2] = 0;
    }
    return n;
}

unsigned synth_thread_stack(const synth_thread *t, uint64_t *frames, unsigned max)
{
    unsigned n = 0;
    if (n < max)
        frames[n++] = synth_thread_ip(t);
    for (unsigned i = t->depth; i > 0 && n < max; i--) {
        const synth_image *image = t->images[t->calls[i - 1].image];
        frames[n++] = image->base + image->blocks[t->calls[i - 1].block].start_rva;
    }
    return n;
}
