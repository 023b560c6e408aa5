/*
 * What SPT files say about each program, added up: how often each branch, each stretch of code
 * between two branches, each instruction pointer and each call was seen. Memory follows the number
 * of distinct keys.
 */
#ifndef PROFILE_SAMPLES_H
#define PROFILE_SAMPLES_H

#include <base/counts.h>
#include <base/intern.h>
#include <os/file.h>
#include <spgo/spt.h>

/* Keys of two RVAs. */
static inline uint64_t samples_pair(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 32 | second;
}

enum { SAMPLES_IP_KINDS = 7 }; /* opcodes 0x01 to 0x05, then 0x41 and 0x42 */

/* The index into samples_program.ips; opcode must be of kind SPGO_SPT_KIND_IP or _CALLSTACK: of a
 * stack its first frame counts, which is where it was taken. */
static inline unsigned samples_ip_kind(uint8_t opcode)
{
    return opcode >= SPGO_SPT_ETW_INSTR ? 5u + (opcode - SPGO_SPT_ETW_INSTR)
                                        : (unsigned)(opcode - 1);
}

typedef struct samples_program {
    spgo_image_id id;
    spgo_str name;
    counts arcs;   /* pair(from, to); an end of SPGO_SPT_OUTSIDE is in another image */
    counts ranges; /* pair(start, end): from the target of the older to the source of the next newer
                      branch of a record; end is the branch instruction itself */
    counts ips[SAMPLES_IP_KINDS]; /* RVA */
    uint64_t lbr_records;         /* times their hits */
    uint64_t lbr_entries;
    uint64_t ip_hits[SAMPLES_IP_KINDS];
    uint64_t bogus_ranges; /* hits: ran backwards or longer than SPGO_SPT_RANGE_MAX */
} samples_program;

typedef struct samples {
    samples_program *programs; /* in order of first appearance */
    size_t program_count, program_capacity;
    uint32_t *slots; /* open addressing by id and name: a program's index + 1, 0 free */
    size_t slot_count;
    intern names;
    bool saturated; /* some sum was cut at 2^64-1 */
} samples;

void samples_free(samples *s); /* leaves an empty, usable value */

/* Are a program of an SPT file and one of the samples the same? */
bool samples_is_program(const samples_program *p, const spgo_spt_program *q);

/*
 * Adds all records of an SPT file, each weight times. Programs are the same when id and name are
 * (names without regard to the case of ASCII letters; a null id matches only a null id). A damaged
 * file adds what can be read; the first failure is returned at the end. in: the file behind spt,
 * whose pages are given back as they are read; NULL is fine.
 */
spgo_code samples_add(samples *s, const spgo_spt *spt, os_input *in, uint64_t weight,
                      spgo_error *err);

#endif
