/*
 * Counts into an SPD: of samples (what an import does), of other SPD files (a merge), and the
 * smoothing after both, so that what enters a block leaves it. doc/formats/spd.md, "Importing",
 * says what is known of MSVC's own converter, and what is decided here.
 *
 * Documents are changed in their counts alone: blocks, edges, calls, indirect calls, the header's
 * totals, and the flags that say that there are counts.
 */
#ifndef PROFILE_SPD_COUNTS_H
#define PROFILE_SPD_COUNTS_H

#include <format/spd/spd.h>
#include <profile/samples.h>

enum {
    SPD_RETIRE_MAX = 16,
    SPD_RETIRE_DEFAULT = 8,
    SPD_HIT_WEIGHT = 256 /* of one sample, in the unit of stored counts: an assumption */
};

typedef struct spd_import_opts {
    bool by_branches; /* LBR: counts of the code between branches; otherwise instruction pointers */
    unsigned retire;  /* sixteenths of the old counts that are dropped before */
} spd_import_opts;

/* What became of samples: hits, of instruction pointers or of branches' targets. */
typedef struct spd_import_tally {
    uint64_t hits;      /* all */
    uint64_t found;     /* in the code of a block */
    uint64_t between;   /* in a function, but in no block's code */
    uint64_t outside;   /* in no function of the SPD */
    uint64_t functions; /* that got hits */
    uint64_t inexact;   /* functions whose smoothing stopped early */
    spd_coverage before, after;
    double density; /* hits for each block with code, of the functions that hold 99 % of them,
                       in the least dense one; 0 without hits */
} spd_import_tally;

/* The samples' own program must be the SPD's: see image_id_equal. */
spgo_code spd_import(spd *doc, const samples_program *program, const spd_import_opts *opts,
                     spd_import_tally *tally, spgo_error *err);

typedef struct spd_merge_tally {
    bool same_build;
    uint64_t functions; /* of the other file */
    uint64_t carried;   /* whose counts were added */
    uint64_t reshaped;  /* of the same name, but with another flow graph: left out */
    uint64_t gone;      /* not in the document: left out */
    spd_coverage before, after;
} spd_merge_tally;

/* Adds the counts of another document, after dropping retire sixteenths of its own. missing is
 * called for each function whose counts are left out (NULL: not). */
spgo_code spd_merge(spd *doc, const spd *other, unsigned retire,
                    void (*missing)(void *ctx, const spd_function *f, bool is_reshaped), void *ctx,
                    spd_merge_tally *tally, spgo_error *err);

/* Makes counts a flow, of every function that has any, and recomputes what follows from them.
 * *inexact: functions for which a better flow may exist (may be NULL). */
spgo_code spd_smooth(spd *doc, uint64_t *inexact, spgo_error *err);

#endif
