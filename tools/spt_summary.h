/*
 * What an SPT file amounts to: for each program and opcode the records, and the hits of every
 * distinct RVA and arc.
 */
#ifndef SPT_SUMMARY_H
#define SPT_SUMMARY_H

#include <os/file.h>
#include <spgo/spt.h>

#include "spt_cell.h"

enum {
    SPT_CELLS = 8 /* opcodes that carry entries */
};

typedef struct spt_summary {
    spt_cell **rows; /* per program SPT_CELLS cells, or NULL if it has no records */
    size_t program_count;
    uint64_t damage_count; /* places where reading had to be taken up again */
    spgo_error damage;     /* the first of them; code SPGO_OK if there is none */
} spt_summary;

/* Opcode of a cell of a row. */
uint8_t spt_cell_opcode(size_t cell);

/*
 * Counts the records of the programs that are wanted (wanted[program]; NULL: all), on up to
 * `threads` threads. The result is the same for any number of threads. Without with_hits the LBR
 * arcs' own hits are not counted, which is faster. `in`, if not NULL, is the file behind spt: pages
 * that were read are given back. Damage is no failure.
 */
spgo_code spt_summarize(const spgo_spt *spt, os_input *in, const bool *wanted, bool with_hits,
                        unsigned threads, spt_summary *summary, spgo_error *err);
void spt_summary_free(spt_summary *summary);

#endif
