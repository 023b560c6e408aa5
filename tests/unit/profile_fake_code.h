/* The made-up program of profile_fake.h for what asks for the procedure at an address and decodes
 * code, and samples of it. */
#ifndef PROFILE_FAKE_CODE_H
#define PROFILE_FAKE_CODE_H

#include "profile_fake.h"

#include <profile/samples.h>

const symbol_procedure *symbols_procedure_at(symbols *s, uint32_t rva)
{
    for (size_t i = 0; i < s->procedure_count; i++) {
        const flow_extent *e = &s->pieces[i];
        if (rva >= e->begin_rva && rva < e->end_rva)
            return &s->procedures[i];
    }
    return NULL;
}

flow_hints symbols_flow_hints(symbols *s, const symbol_procedure *p)
{
    (void)s;
    (void)p;
    return (flow_hints){0};
}

/* ------------------------------------------------------------------ code */

enum { JUMP_SIZE = 2, CALL_SIZE = 5, RETURN = 0xc3 };

static inline void put_return(uint32_t rva)
{
    code_bytes[rva] = RETURN;
}

static inline void put_short(uint8_t opcode, uint32_t rva, uint32_t to_rva)
{
    code_bytes[rva] = opcode;
    code_bytes[rva + 1] = (uint8_t)(to_rva - rva - JUMP_SIZE);
}

static inline void put_jump(uint32_t rva, uint32_t to_rva)
{
    put_short(0xeb, rva, to_rva);
}

static inline void put_branch(uint32_t rva, uint32_t to_rva)
{
    put_short(0x74, rva, to_rva);
}

static inline void put_call(uint32_t rva, uint32_t to_rva)
{
    uint32_t distance = to_rva - rva - CALL_SIZE;
    code_bytes[rva] = 0xe8;
    for (unsigned i = 0; i < 4; i++)
        code_bytes[rva + 1 + i] = (uint8_t)(distance >> 8 * i);
}

/* call *%rax */
static inline void put_indirect_call(uint32_t rva)
{
    code_bytes[rva] = 0xff;
    code_bytes[rva + 1] = 0xd0;
}

static inline void put_far_jump(uint32_t rva, uint32_t to_rva)
{
    put_call(rva, to_rva);
    code_bytes[rva] = 0xe9;
}

static inline code_decoder *new_decoder(void)
{
    code_decoder *d = NULL;
    assert_int_equal(code_decoder_new(&fake.image, &d, NULL), SPGO_OK);
    return d;
}

/* ------------------------------------------------------------------ samples */

static inline void add_arc(samples_program *p, uint32_t from, uint32_t to, uint64_t hits)
{
    uint64_t key = samples_pair(from, to);
    counts_add(&p->arcs, &key, 1, hits);
    p->lbr_entries += hits;
}

static inline void add_range(samples_program *p, uint32_t begin, uint32_t last, uint64_t hits)
{
    uint64_t key = samples_pair(begin, last);
    counts_add(&p->ranges, &key, 1, hits);
}

static inline void add_ip(samples_program *p, uint8_t opcode, uint32_t rva, uint64_t hits)
{
    uint64_t key = rva;
    counts_add(&p->ips[samples_ip_kind(opcode)], &key, 1, hits);
    p->ip_hits[samples_ip_kind(opcode)] += hits;
}

static inline void free_samples(samples_program *p)
{
    counts_free(&p->arcs);
    counts_free(&p->ranges);
    for (size_t i = 0; i < SAMPLES_IP_KINDS; i++)
        counts_free(&p->ips[i]);
}

#endif
