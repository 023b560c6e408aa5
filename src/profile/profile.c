/* Which way a profile goes: see profile.h. */
#include <profile/profile.h>

#include <base/fail.h>

void profile_result_free(profile_result *r)
{
    address_profile_free(&r->counts);
    address_profile_free(&r->measured);
    sampleprof_free(r->profile);
    *r = (profile_result){0};
}

/* The best of the kinds that have hits: instructions tell how often code ran, cycles and the timer
 * how long it took, and so does where stacks were taken; branches and cache misses come last. 0:
 * there are none. */
static unsigned choose_ip_kinds(const samples_program *program)
{
    static const uint8_t by_use[SAMPLES_IP_KINDS] = {
        SPGO_SPT_RETIRE_INSTR,  SPGO_SPT_UNHALT_CYCLE,    SPGO_SPT_ETW_INSTR,
        SPGO_SPT_ETW_CALLSTACK, SPGO_SPT_RETIRE_BR_INSTR, SPGO_SPT_L1_ICACHE_MISS,
        SPGO_SPT_L1_DCACHE_MISS};
    for (size_t i = 0; i < SAMPLES_IP_KINDS; i++) {
        unsigned kind = samples_ip_kind(by_use[i]);
        if (program->ip_hits[kind] > 0)
            return 1u << kind;
    }
    return 0;
}

static unsigned kinds_with_hits(const samples_program *program, unsigned wanted)
{
    unsigned kinds = 0;
    for (unsigned i = 0; i < SAMPLES_IP_KINDS; i++) {
        if ((wanted >> i & 1u) && program->ip_hits[i] > 0)
            kinds |= 1u << i;
    }
    return kinds;
}

static spgo_code count_ips(const samples_program *program, symbols *s, code_decoder *d,
                           const profile_opts *opts, profile_result *r, spgo_error *err)
{
    r->ip_kinds =
        opts->ip_kinds ? kinds_with_hits(program, opts->ip_kinds) : choose_ip_kinds(program);
    if (!r->ip_kinds)
        return spgo_fail(err, SPGO_NOT_FOUND, "profile", SPGO_NO_OFFSET,
                         "there are no instruction pointers to count for %.*s",
                         (int)program->name.len, program->name.ptr);
    r->is_inferred = opts->inference != PROFILE_OFF;
    if (!r->is_inferred)
        return address_profile_from_ips(program, r->ip_kinds, s, d, &r->counts, &r->addresses, err);
    if (opts->keep_measured) {
        address_tally same = {0};
        SPGO_TRY(address_profile_from_ips(program, r->ip_kinds, s, d, &r->measured, &same, err));
    }
    return infer_from_ips(program, r->ip_kinds, s, d, &r->counts, &r->addresses, &r->inferred,
                          opts->observe, opts->observe_ctx, err);
}

static spgo_code count_branches(const samples_program *program, symbols *s, code_decoder *d,
                                const profile_opts *opts, profile_result *r, spgo_error *err)
{
    if (program->lbr_entries == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, "profile", SPGO_NO_OFFSET,
                         "there are no branch records to count for %.*s", (int)program->name.len,
                         program->name.ptr);
    SPGO_TRY(address_profile_from_branches(program, s, d, &r->counts, &r->addresses, err));
    /* A folded file has branches but no stretches between them: only their flow tells of those. */
    r->is_inferred = opts->inference == PROFILE_ON ||
                     (opts->inference == PROFILE_DEFAULT && program->ranges.used == 0);
    if (!r->is_inferred)
        return SPGO_OK;
    if (opts->keep_measured)
        SPGO_TRY(address_profile_copy(&r->counts, &r->measured, err));
    return infer_repair(&r->counts, s, d, &r->inferred, opts->observe, opts->observe_ctx, err);
}

spgo_code profile_count(const samples_program *program, symbols *s, code_decoder *d,
                        const profile_opts *opts, profile_result *r, spgo_error *err)
{
    *r = (profile_result){.mode = opts->mode};
    if (r->mode == PROFILE_AUTO)
        r->mode = program->lbr_entries > 0 ? PROFILE_BRANCHES : PROFILE_IPS;
    spgo_code code = r->mode == PROFILE_BRANCHES ? count_branches(program, s, d, opts, r, err)
                                                 : count_ips(program, s, d, opts, r, err);
    if (code != SPGO_OK)
        profile_result_free(r);
    return code;
}

spgo_code profile_correlate(symbols *s, code_decoder *d, const profile_opts *opts,
                            profile_result *r, spgo_error *err)
{
    r->is_by_probes = opts->probes == PROFILE_ON ||
                      (opts->probes == PROFILE_DEFAULT && symbols_get_info(s)->probe_section.len);
    r->profile = sampleprof_new(0);
    if (!r->profile)
        return spgo_fail(err, SPGO_NOMEM, "profile", SPGO_NO_OFFSET, "no memory for a profile");
    return r->is_by_probes
               ? correlate_probes(&r->counts, s, d, opts->rules, r->profile, &r->correlated, err)
               : correlate_lines(&r->counts, s, d, opts->rules, r->profile, &r->correlated, err);
}
