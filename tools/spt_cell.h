/*
 * The records of one program with one opcode, counted: the hits of every distinct RVA or arc, and
 * whether the code ranges between the branches of an LBR record make sense.
 *
 * A range runs from the target of one branch to the source of the next one. It makes sense when it
 * does not run backwards and stays under SPGO_SPT_RANGE_MAX. Read in the order the file has by
 * assumption (newest first), nearly all ranges of a good trace do; read the other way round few do.
 * That tells a damaged file, and a writer with another order, from a sound one.
 */
#ifndef SPT_CELL_H
#define SPT_CELL_H

#include <base/counts.h>
#include <spgo/spt.h>

/* The hits of keys that came lately, in front of the table of all. */
typedef struct spt_front spt_front;

/* The arcs that were met lately, where their hits do not matter. */
typedef struct spt_seen spt_seen;

/* Sums saturate. */
typedef struct spt_cell {
    spgo_spt_kind kind; /* of its opcode; set before the first record */
    uint64_t record_count;
    uint64_t entry_count;
    uint64_t hits; /* entries, or arcs of call stacks, each times its record's hits */
    counts rvas;   /* hits per RVA: instruction pointers, and call stacks of one frame */
    counts arcs;   /* hits per arc: LBR source << 32 | target, frame << 32 | calling frame */
    uint64_t outside_hits;   /* of LBR arcs with an end in another image */
    uint64_t range_count;    /* ranges between neighbours, times hits */
    uint64_t range_good;     /* of these make sense */
    uint64_t backward_count; /* ranges that were also read in the opposite order, times hits */
    uint64_t backward_good;  /* of these make sense */
    bool arcs_without_hits;  /* of LBR, `arcs` tells which there are, and its hits nothing */
    spt_front *front;        /* NULL: none, or none yet */
    spt_seen *seen;          /* likewise */
    bool given_up;           /* neither of the two any more */
} spt_cell;

/* Counts one record; all of a cell have the same opcode. With `backward`, ranges are tried in the
 * opposite order too. Lost memory is in the tables' `failed`. */
void spt_cell_count(spt_cell *cell, const spgo_spt_record *r, bool backward);

/*
 * Counts LBR records of one hit each, as they stand in the file from `start`, for as long as they
 * are of the usual kind, and returns how many bytes they have: 0 if the first is of another kind,
 * or if the cell is not ready for it. What stops it is for spt_cell_count.
 */
size_t spt_cell_count_plain(spt_cell *cell, const uint8_t *start, size_t size);

/* Completes the tables after the last record. */
void spt_cell_settle(spt_cell *cell);

/* Adds `from`; both must be settled. */
void spt_cell_merge(spt_cell *into, const spt_cell *from);

void spt_cell_free(spt_cell *cell);

/* Did the cell run out of memory and lose counts? */
static inline bool spt_cell_failed(const spt_cell *cell)
{
    return cell->rvas.failed || cell->arcs.failed;
}

/* What is different in a cell. An LBR arc with an end in another image (SPGO_SPT_OUTSIDE) is none
 * of the image's own arcs. */
typedef struct spt_distinct {
    uint64_t rvas; /* as hits or as ends of arcs */
    uint64_t arcs;
} spt_distinct;
spgo_code spt_cell_distinct(const spt_cell *cell, uint8_t opcode, spt_distinct *distinct,
                            spgo_error *err);

static inline uint32_t spt_arc_first(uint64_t key)
{
    return (uint32_t)(key >> 32);
}
static inline uint32_t spt_arc_second(uint64_t key)
{
    return (uint32_t)key;
}

#endif
