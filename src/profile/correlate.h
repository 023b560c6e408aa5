/*
 * Correlation: from counts by address to counts by source, in the form that compilers take.
 */
#ifndef PROFILE_CORRELATE_H
#define PROFILE_CORRELATE_H

#include <format/sampleprof/sampleprof.h>
#include <profile/address_profile.h>

typedef struct correlate_tally {
    uint64_t functions;             /* in the profile */
    uint64_t functions_exact;       /* whose first line is known exactly, or which have probes */
    uint64_t functions_approximate; /* first line found in the source or guessed from the code */
    uint64_t functions_left_out;    /* with samples but without a name or any line */
    uint64_t inlinees_unnamed;      /* whose linkage name is not known: counted in their callers */
    uint64_t names_unusable;        /* with characters that no profile can hold: left out */
    uint64_t probes_unplaced; /* pseudo probes whose function's start is not known: left out */
    uint64_t probe_findings;  /* damaged records in the sections of pseudo probes */
    uint64_t samples_used;    /* instruction counts */
    uint64_t samples_without_line;
    uint64_t calls_placed; /* hits of indirect calls that were placed by what leads to them */
} correlate_tally;

typedef enum correlate_rules {
    CORRELATE_BEST,   /* what serves compilers best */
    CORRELATE_PROFGEN /* the same profile as that of llvm-profgen, to compare with */
} correlate_rules;

/*
 * By lines (doc/correlation.md has the rules and where they come from): every procedure that is
 * touched enters whole, with zeros where nothing ran; a place counts the largest of its
 * instructions, times the duplication factor; heads and call targets come from branches to entries.
 */
spgo_code correlate_lines(const address_profile *measured, symbols *s, code_decoder *d,
                          correlate_rules rules, sampleprof *profile, correlate_tally *tally,
                          spgo_error *err);

/* By pseudo probes, with checksums. SPGO_NOT_FOUND: the image has none. */
spgo_code correlate_probes(const address_profile *measured, symbols *s, code_decoder *d,
                           correlate_rules rules, sampleprof *profile, correlate_tally *tally,
                           spgo_error *err);

/* A name without what optimizers append to it and the compiler drops when it looks up a profile:
 * ".llvm.123", ".part.0". */
spgo_str correlate_canonical_name(spgo_str name);

#endif
