/*
 * Flow inference on a program: recovers the blocks of each procedure that has samples, weighs them
 * by what was measured, and gives back an address profile that is consistent, with blocks that were
 * never sampled but must have run.
 */
#ifndef PROFILE_INFER_H
#define PROFILE_INFER_H

#include <profile/address_profile.h>
#include <profile/inference.h>

typedef struct infer_tally {
    uint64_t procedures;         /* with samples */
    uint64_t procedures_simple;  /* whose blocks are all known (flow_graph.is_simple) */
    uint64_t procedures_left;    /* no blocks or no flow was found: their counts stay as measured */
    uint64_t procedures_bounded; /* of those, since the solver's bound was reached */
    uint64_t blocks, blocks_measured, blocks_after; /* with counts before, and afterwards */
    uint64_t scale; /* counts are multiplied by this, so that parts of a hit are not lost */
    double flow_gap_before, flow_gap_after; /* sum of |in - out| over sum of max(in, out) */
} infer_tally;

/* Blocks of procedures, for those who compare with other counts: called once for each procedure
 * that was inferred. NULL: nobody asks. */
typedef void infer_observer(void *ctx, const symbol_procedure *p, const flow_graph *graph,
                            const inference_graph *before_and_after);

/* From instruction pointers alone. Which of the program's kinds to use: the mask has bit
 * samples_ip_kind(opcode) set for each. Counts are executions, up to a common factor of scale. */
spgo_code infer_from_ips(const samples_program *program, unsigned ip_kinds, symbols *s,
                         code_decoder *d, address_profile *out, address_tally *tally,
                         infer_tally *inferred, infer_observer *observe, void *ctx,
                         spgo_error *err);

/* Replaces what branch records measured by the flow that fits it best. */
spgo_code infer_repair(address_profile *p, symbols *s, code_decoder *d, infer_tally *inferred,
                       infer_observer *observe, void *ctx, spgo_error *err);

#endif
