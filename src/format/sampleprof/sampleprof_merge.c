/* The sum of profiles, by the rules of llvm-profdata merge. */
#include "sampleprof_internal.h"

#include <assert.h>

#define WHERE "sampleprof.merge"

typedef struct merging {
    sampleprof *into;
    uint64_t weight;
    uint64_t mismatched;
} merging;

static uint64_t weighted(const merging *m, uint64_t count)
{
    return count && m->weight > UINT64_MAX / count ? UINT64_MAX : count * m->weight;
}

static bool merge_lines(const merging *m, sampleprof_function *to, const sampleprof_function *from)
{
    size_t count;
    const sampleprof_line *lines = sampleprof_lines(from, &count);
    for (const sampleprof_line *l = lines; l < lines + count; l++) {
        if (!sampleprof_add_line(m->into, to, l->place, weighted(m, l->count)))
            return false;
        for (size_t i = 0; i < l->target_count; i++) {
            if (!sampleprof_add_target(m->into, to, l->place, l->targets[i].callee,
                                       weighted(m, l->targets[i].count)))
                return false;
        }
    }
    return true;
}

/* False: another checksum, so another build of the function or another function. */
static bool settle_checksum(sampleprof_function *to, const sampleprof_function *from)
{
    uint64_t old, new;
    bool has_new = sampleprof_checksum(from, &new);
    if (sampleprof_checksum(to, &old))
        return old == new;
    if (has_new)
        sampleprof_set_checksum(to, new);
    return true;
}

/* to NULL: there was no memory for it. */
static bool merge_function(merging *m, sampleprof_function *to, bool is_new,
                           const sampleprof_function *from)
{
    if (!to)
        return false;
    if (!settle_checksum(to, from)) {
        m->mismatched++;
        return true;
    }
    if (is_new)
        sampleprof_set_attributes(to, sampleprof_attributes(from));
    sampleprof_add_total(to, weighted(m, sampleprof_total(from)));
    sampleprof_add_head(to, weighted(m, sampleprof_head(from)));
    if (!merge_lines(m, to, from))
        return false;
    size_t count;
    const sampleprof_callsite *sites = sampleprof_callsites(from, &count);
    for (size_t i = 0; i < count; i++) {
        size_t before = sampleprof_size(m->into);
        sampleprof_function *callee =
            sampleprof_inlined(m->into, to, sites[i].place, sampleprof_name(sites[i].callee));
        if (!merge_function(m, callee, sampleprof_size(m->into) > before, sites[i].callee))
            return false;
    }
    return true;
}

static spgo_code check_kinds(sampleprof *into, const sampleprof *from, spgo_error *err)
{
    if (sampleprof_size(from) == 0)
        return SPGO_OK;
    if (sampleprof_size(into) == 0) {
        sampleprof_set_probes(into, sampleprof_has_probes(from));
        sampleprof_set_fs_discriminators(into, sampleprof_has_fs_discriminators(from));
    } else if (sampleprof_has_probes(into) != sampleprof_has_probes(from)) {
        return spgo_fail(err, SPGO_MISMATCH, WHERE, SPGO_NO_OFFSET,
                         "a profile of pseudo probes and one of lines cannot be added up");
    } else if (sampleprof_has_md5_names(into) != sampleprof_has_md5_names(from)) {
        return spgo_fail(err, SPGO_MISMATCH, WHERE, SPGO_NO_OFFSET,
                         "a profile with MD5 names and one with names cannot be added up");
    }
    return SPGO_OK;
}

spgo_code sampleprof_merge(sampleprof *into, const sampleprof *from, uint64_t weight,
                           uint64_t *mismatched, spgo_error *err)
{
    merging m = {.into = into, .weight = weight};
    assert(into != from);
    SPGO_TRY(check_kinds(into, from, err));
    bool ok = true;
    for (size_t i = 0; i < sampleprof_function_count(from) && ok; i++) {
        const sampleprof_function *f = sampleprof_get_function(from, i);
        size_t before = sampleprof_size(into);
        sampleprof_function *to = sampleprof_function_named(into, sampleprof_name(f));
        ok = merge_function(&m, to, sampleprof_size(into) > before, f);
    }
    if (mismatched)
        *mismatched += m.mismatched;
    return ok ? SPGO_OK : sampleprof_fail_memory(into, err);
}
