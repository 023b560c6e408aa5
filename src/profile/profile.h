/* The whole way from what was sampled of one program to its profile. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <profile/correlate.h>
#include <profile/infer.h>

typedef enum profile_mode {
    PROFILE_AUTO,     /* branches if there are any, else instruction pointers */
    PROFILE_BRANCHES, /* LBR records */
    PROFILE_IPS       /* plain samples */
} profile_mode;

typedef enum profile_choice { PROFILE_DEFAULT, PROFILE_ON, PROFILE_OFF } profile_choice;

typedef struct profile_opts {
    profile_mode mode;
    profile_choice inference; /* default: wherever it helps, see doc/inference.md */
    profile_choice probes;    /* default: if the image has pseudo probes */
    correlate_rules rules;
    unsigned ip_kinds;       /* bits of samples_ip_kind; 0: the kind that tells most about time or
                                work among those there are */
    bool keep_measured;      /* for quality_measure */
    infer_observer *observe; /* of blocks; may be NULL */
    void *observe_ctx;
} profile_opts;

typedef struct profile_result {
    profile_mode mode; /* never PROFILE_AUTO */
    bool is_inferred, is_by_probes;
    unsigned ip_kinds;        /* that were used */
    address_profile counts;   /* owned */
    address_profile measured; /* owned; with keep_measured, what the counts were inferred from */
    address_tally addresses;
    infer_tally inferred;
    correlate_tally correlated;
    sampleprof *profile; /* owned; NULL before profile_correlate */
} profile_result;
void profile_result_free(profile_result *r);

/* From samples to counts by address. SPGO_NOT_FOUND: no samples of the wanted kind. */
spgo_code profile_count(const samples_program *program, symbols *s, code_decoder *d,
                        const profile_opts *opts, profile_result *r, spgo_error *err);

/* From counts by address to the profile. */
spgo_code profile_correlate(symbols *s, code_decoder *d, const profile_opts *opts,
                            profile_result *r, spgo_error *err);

#endif
