/* From the branches and ranges of records to counts by address: see address_profile.h. */
#include <profile/address_profile.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/saturate.h>
#include <profile/instruction_map.h>

void address_profile_free(address_profile *p)
{
    free(p->ranges);
    free(p->branches);
    *p = (address_profile){0};
}

spgo_code address_profile_copy(const address_profile *from, address_profile *to, spgo_error *err)
{
    const size_t range_bytes = from->range_count * sizeof *to->ranges;
    const size_t branch_bytes = from->branch_count * sizeof *to->branches;
    *to = (address_profile){.ranges = malloc(range_bytes + 1),
                            .branches = malloc(branch_bytes + 1),
                            .range_count = from->range_count,
                            .branch_count = from->branch_count};
    if (!to->ranges || !to->branches) {
        address_profile_free(to);
        return spgo_fail_nomem(err, "address profile", range_bytes + branch_bytes);
    }
    if (range_bytes)
        memcpy(to->ranges, from->ranges, range_bytes);
    if (branch_bytes)
        memcpy(to->branches, from->branches, branch_bytes);
    return SPGO_OK;
}

static void add(uint64_t *sum, uint64_t n)
{
    *sum = saturating_add(*sum, n);
}

/* ------------------------------------------------------------------ order */

static int range_order(const void *a, const void *b)
{
    const address_range *x = a, *y = b;
    uint64_t p = samples_pair(x->begin_rva, x->last_rva),
             q = samples_pair(y->begin_rva, y->last_rva);
    return (p > q) - (p < q);
}

static int branch_order(const void *a, const void *b)
{
    const address_branch *x = a, *y = b;
    uint64_t p = samples_pair(x->from_rva, x->to_rva), q = samples_pair(y->from_rva, y->to_rva);
    return (p > q) - (p < q);
}

static void sort_ranges(address_profile *p)
{
    size_t kept = 0;
    if (p->range_count == 0)
        return;
    qsort(p->ranges, p->range_count, sizeof *p->ranges, range_order);
    for (size_t i = 1; i < p->range_count; i++) {
        if (range_order(&p->ranges[i], &p->ranges[kept]) == 0)
            add(&p->ranges[kept].count, p->ranges[i].count);
        else
            p->ranges[++kept] = p->ranges[i];
    }
    p->range_count = kept + 1;
}

static void sort_branches(address_profile *p)
{
    size_t kept = 0;
    if (p->branch_count == 0)
        return;
    qsort(p->branches, p->branch_count, sizeof *p->branches, branch_order);
    for (size_t i = 1; i < p->branch_count; i++) {
        if (branch_order(&p->branches[i], &p->branches[kept]) == 0)
            add(&p->branches[kept].count, p->branches[i].count);
        else
            p->branches[++kept] = p->branches[i];
    }
    p->branch_count = kept + 1;
}

void address_profile_sort(address_profile *p)
{
    sort_ranges(p);
    sort_branches(p);
}

/* ------------------------------------------------------------------ ranges */

static bool is_instruction(instruction_map *m, uint32_t rva)
{
    return instruction_map_kind(m, rva) != CODE_INVALID;
}

static bool take_range(instruction_map *m, const address_range *r, address_tally *tally)
{
    add(&tally->range_hits, r->count);
    if (!is_instruction(m, r->begin_rva) || !is_instruction(m, r->last_rva)) {
        add(&tally->no_code_range_hits, r->count);
        return false;
    }
    if (instruction_map_leaves(m, r->begin_rva, r->last_rva)) {
        add(&tally->bogus_range_hits, r->count);
        return false;
    }
    if (!code_is_transfer(instruction_map_kind(m, r->last_rva)))
        add(&tally->end_mismatch_hits, r->count);
    if (instruction_map_procedure(m, r->begin_rva) != instruction_map_procedure(m, r->last_rva))
        add(&tally->cross_function_hits, r->count);
    return true;
}

/* Keeps those that pass. */
static void check_ranges(instruction_map *m, address_profile *p, address_tally *tally)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->range_count; i++) {
        if (take_range(m, &p->ranges[i], tally))
            p->ranges[kept++] = p->ranges[i];
    }
    p->range_count = kept;
}

/* ------------------------------------------------------------------ branches */

static bool leaves_thunk(instruction_map *m, uint32_t from_rva)
{
    const symbol_procedure *p = instruction_map_procedure(m, from_rva);
    return p && (p->flags & SYMBOL_THUNK) && p->thunk_target_rva != UINT32_MAX;
}

/* How well the code of one procedure and what was recorded in it fit. */
typedef struct fit {
    const symbol_procedure *procedure;
    uint64_t hits, misfits;
} fit;

static void close_fit(fit *f, address_tally *tally)
{
    tally->stale_procedures += f->misfits > f->hits / 2;
    *f = (fit){0};
}

/* Of hits in the procedure, which come one procedure after another. */
static void add_fit(fit *f, const symbol_procedure *p, bool fits, uint64_t hits,
                    address_tally *tally)
{
    if (p != f->procedure) {
        close_fit(f, tally);
        f->procedure = p;
    }
    if (p) {
        add(&f->hits, hits);
        add(&f->misfits, fits ? 0 : hits);
    }
}

/* Does a branch from a procedure of this image fit its code? */
static bool check_ends(symbols *s, instruction_map *m, code_decoder *d, const address_branch *b,
                       address_tally *tally)
{
    if (!code_is_transfer(instruction_map_kind(m, b->from_rva))) {
        add(&tally->source_mismatch_hits, b->count);
        return false;
    }
    const code_instruction in = code_decode(d, b->from_rva);
    const bool is_known = b->to_rva != SPGO_SPT_OUTSIDE;
    const bool is_elsewhere = in.has_target && in.target_rva != b->to_rva &&
                              symbols_past_thunk(s, in.target_rva) != b->to_rva;
    const bool is_between =
        instruction_map_procedure(m, b->to_rva) && !is_instruction(m, b->to_rva);
    if (is_known && (is_elsewhere || is_between)) {
        add(&tally->target_mismatch_hits, b->count);
        return false;
    }
    return true;
}

/* False: it is no branch of this program's procedures. */
static bool take_branch(symbols *s, instruction_map *m, address_branch *b, address_tally *tally)
{
    if (!is_instruction(m, b->from_rva))
        b->from_rva = SPGO_SPT_OUTSIDE;
    if (!is_instruction(m, b->to_rva))
        b->to_rva = SPGO_SPT_OUTSIDE;
    if (b->from_rva == SPGO_SPT_OUTSIDE && b->to_rva == SPGO_SPT_OUTSIDE) {
        add(&tally->no_code_branch_hits, b->count);
        return false;
    }
    if (b->from_rva != SPGO_SPT_OUTSIDE && leaves_thunk(m, b->from_rva))
        return false;
    const uint32_t body_rva = symbols_past_thunk(s, b->to_rva);
    if (body_rva != b->to_rva)
        add(&tally->thunk_hits, b->count);
    b->to_rva = body_rva;
    return true;
}

static void check_branches(symbols *s, instruction_map *m, code_decoder *d, address_profile *p,
                           address_tally *tally)
{
    size_t kept = 0;
    fit f = {0};
    for (size_t i = 0; i < p->branch_count; i++) {
        address_branch b = p->branches[i];
        const symbol_procedure *from =
            b.from_rva == SPGO_SPT_OUTSIDE ? NULL : instruction_map_procedure(m, b.from_rva);
        add(&tally->branch_hits, b.count);
        add_fit(&f, from, from && check_ends(s, m, d, &b, tally), b.count, tally);
        if (take_branch(s, m, &b, tally))
            p->branches[kept++] = b;
    }
    close_fit(&f, tally);
    p->branch_count = kept;
    sort_branches(p); /* ends that were replaced can have made some alike */
}

/* ------------------------------------------------------------------ both */

static spgo_code list_ranges(const counts *from, address_profile *out, spgo_error *err)
{
    size_t n;
    counts_slot *sorted = counts_sorted_by_key(from, &n);
    out->ranges = malloc((n + 1) * sizeof *out->ranges);
    if ((n && !sorted) || !out->ranges) {
        free(sorted);
        return spgo_fail_nomem(err, "ranges", n * sizeof *out->ranges);
    }
    for (size_t i = 0; i < n; i++)
        out->ranges[i] = (address_range){(uint32_t)(sorted[i].key >> 32), (uint32_t)sorted[i].key,
                                         sorted[i].count};
    out->range_count = n;
    free(sorted);
    return SPGO_OK;
}

static spgo_code list_branches(const counts *from, address_profile *out, spgo_error *err)
{
    size_t n;
    counts_slot *sorted = counts_sorted_by_key(from, &n);
    out->branches = malloc((n + 1) * sizeof *out->branches);
    if ((n && !sorted) || !out->branches) {
        free(sorted);
        return spgo_fail_nomem(err, "branches", n * sizeof *out->branches);
    }
    for (size_t i = 0; i < n; i++)
        out->branches[i] = (address_branch){(uint32_t)(sorted[i].key >> 32),
                                            (uint32_t)sorted[i].key, sorted[i].count};
    out->branch_count = n;
    free(sorted);
    return SPGO_OK;
}

spgo_code address_profile_as_recorded(const samples_program *program, address_profile *out,
                                      spgo_error *err)
{
    *out = (address_profile){0};
    spgo_code code = list_ranges(&program->ranges, out, err);
    if (code == SPGO_OK)
        code = list_branches(&program->arcs, out, err);
    if (code != SPGO_OK)
        address_profile_free(out);
    return code;
}

spgo_code address_profile_from_branches(const samples_program *program, symbols *s, code_decoder *d,
                                        address_profile *out, address_tally *tally, spgo_error *err)
{
    *out = (address_profile){0};
    instruction_map *m;
    SPGO_TRY(instruction_map_new(s, d, &m, err));
    spgo_code code = address_profile_as_recorded(program, out, err);
    if (code == SPGO_OK) {
        check_ranges(m, out, tally);
        check_branches(s, m, d, out, tally);
    }
    instruction_map_free(m);
    if (code != SPGO_OK)
        address_profile_free(out);
    return code;
}

/* ------------------------------------------------------------------ instruction pointers */

static spgo_code take_ips(const counts *hits, instruction_map *m, address_profile *out,
                          address_tally *tally, spgo_error *err)
{
    size_t n;
    counts_slot *sorted = counts_sorted_by_key(hits, &n);
    out->ranges = malloc((n + 1) * sizeof *out->ranges);
    if ((n && !sorted) || !out->ranges) {
        free(sorted);
        return spgo_fail_nomem(err, "ranges", n * sizeof *out->ranges);
    }
    fit f = {0};
    for (size_t i = 0; i < n; i++) {
        uint32_t rva = (uint32_t)sorted[i].key;
        bool is_start = is_instruction(m, rva);
        add(&tally->range_hits, sorted[i].count);
        add_fit(&f, instruction_map_procedure(m, rva), is_start, sorted[i].count, tally);
        if (is_start)
            out->ranges[out->range_count++] = (address_range){rva, rva, sorted[i].count};
        else
            add(&tally->no_code_range_hits, sorted[i].count);
    }
    close_fit(&f, tally);
    free(sorted);
    return SPGO_OK;
}

spgo_code address_profile_from_ips(const samples_program *program, unsigned ip_kinds, symbols *s,
                                   code_decoder *d, address_profile *out, address_tally *tally,
                                   spgo_error *err)
{
    counts hits = {0};
    instruction_map *m;
    *out = (address_profile){0};
    SPGO_TRY(instruction_map_new(s, d, &m, err));
    for (unsigned i = 0; i < SAMPLES_IP_KINDS; i++) {
        if (ip_kinds >> i & 1u)
            counts_merge(&hits, &program->ips[i]);
    }
    spgo_code code = hits.failed ? spgo_fail_nomem(err, "hits", program->ips[0].slot_count)
                                 : take_ips(&hits, m, out, tally, err);
    counts_free(&hits);
    instruction_map_free(m);
    if (code != SPGO_OK)
        address_profile_free(out);
    return code;
}
