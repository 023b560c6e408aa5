/*
 * How often the code of one program ran, by address: what correlation reads, whether the counts
 * came from branch records, from instruction pointers, or from flow inference over either.
 */
#ifndef PROFILE_ADDRESS_PROFILE_H
#define PROFILE_ADDRESS_PROFILE_H

#include <code/flow_graph.h>
#include <profile/samples.h>
#include <symbol/symbol.h>

/* [begin_rva, last_rva]: last_rva is that of the last instruction. Ranges may overlap: what an
 * instruction ran is the sum of those that cover it. */
typedef struct address_range {
    uint32_t begin_rva, last_rva;
    uint64_t count;
} address_range;

typedef struct address_branch {
    uint32_t from_rva, to_rva; /* SPGO_SPT_OUTSIDE: in another image, or in no procedure */
    uint64_t count;
} address_branch;

typedef struct address_profile {
    address_range *ranges;    /* by begin, then last */
    address_branch *branches; /* by from, then to */
    size_t range_count, branch_count;
} address_profile;

void address_profile_free(address_profile *p);
spgo_code address_profile_copy(const address_profile *from, address_profile *to, spgo_error *err);

/* Into the order above, equal ranges and branches joined. */
void address_profile_sort(address_profile *p);

/* What validation left out or noticed, in hits of ranges and of branches. */
typedef struct address_tally {
    uint64_t range_hits, branch_hits; /* seen */
    uint64_t bogus_range_hits;        /* dropped: an instruction that always leaves is inside */
    uint64_t no_code_range_hits;      /* dropped: begins or ends in no procedure (as in a PLT) or in
                                         the middle of an instruction */
    uint64_t end_mismatch_hits;       /* kept: ranges whose end is no instruction that transfers */
    uint64_t cross_function_hits;     /* kept: ranges from one procedure into another */
    uint64_t no_code_branch_hits;     /* dropped: neither end is an instruction of a procedure */
    uint64_t source_mismatch_hits; /* branches from where, in a procedure, no instruction starts or
                                      none that transfers */
    uint64_t target_mismatch_hits; /* from a direct one that goes elsewhere, or to where, in a
                                      procedure, no instruction starts */
    uint64_t stale_procedures;     /* most of whose branches, or hits, are such: their code is of
                                      another build */
    uint64_t thunk_hits;           /* branches into a thunk that became one to its target */
} address_tally;

/*
 * From branch records, by the rules of llvm-profgen. What counts as code is an instruction of a
 * procedure. An end of a branch that is none is SPGO_SPT_OUTSIDE. A range counts if it begins and
 * ends at an instruction and none before its end always leaves. Branches into a thunk and out of it
 * become one from the site to the body.
 */
spgo_code address_profile_from_branches(const samples_program *program, symbols *s, code_decoder *d,
                                        address_profile *out, address_tally *tally,
                                        spgo_error *err);

/* Branches and ranges as they were recorded, for those who check them themselves. */
spgo_code address_profile_as_recorded(const samples_program *program, address_profile *out,
                                      spgo_error *err);

/* From plain samples as they are: each hit is a run of its one instruction. ip_kinds has bit
 * samples_ip_kind(opcode) set for each kind to use. */
spgo_code address_profile_from_ips(const samples_program *program, unsigned ip_kinds, symbols *s,
                                   code_decoder *d, address_profile *out, address_tally *tally,
                                   spgo_error *err);

#endif
