/* Coverage: how often each instruction ran, from ranges that may overlap. */
#include <profile/coverage.h>

#include <stdlib.h>

#include <base/fail.h>
#include <base/hash.h>
#include <base/intern.h>
#include <base/text.h>

static int by_begin(const void *a, const void *b)
{
    const coverage_piece *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->procedure < y->procedure ? -1 : x->procedure > y->procedure;
}

static int by_last(const void *a, const void *b)
{
    const address_range *x = a, *y = b;
    return x->last_rva < y->last_rva ? -1 : x->last_rva > y->last_rva;
}

static void clip_overlaps(coverage *c)
{
    for (size_t i = 0; i + 1 < c->piece_count; i++) {
        if (c->pieces[i].end_rva > c->pieces[i + 1].begin_rva)
            c->pieces[i].end_rva = c->pieces[i + 1].begin_rva;
    }
}

static spgo_code list_pieces(coverage *c, spgo_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < c->procedure_count; i++)
        count += c->procedures[i].piece_count;
    c->pieces = calloc(count + 1, sizeof *c->pieces);
    if (!c->pieces)
        return spgo_fail_nomem(err, "coverage", count * sizeof *c->pieces);
    for (size_t i = 0; i < c->procedure_count; i++) {
        const symbol_procedure *p = &c->procedures[i];
        for (uint32_t k = 0; k < p->piece_count; k++) {
            const flow_extent *e = &p->pieces[k];
            if (e->begin_rva < e->end_rva)
                c->pieces[c->piece_count++] =
                    (coverage_piece){e->begin_rva, e->end_rva, (uint32_t)i};
        }
    }
    qsort(c->pieces, c->piece_count, sizeof *c->pieces, by_begin);
    clip_overlaps(c);
    return SPGO_OK;
}

/* Ranges and pieces are both sorted, so one walk over either finds all. */
static void touch_by_ranges(coverage *c)
{
    size_t piece = 0;
    for (size_t i = 0; i < c->measured->range_count; i++) {
        uint32_t begin = c->measured->ranges[i].begin_rva;
        while (piece < c->piece_count && c->pieces[piece].end_rva <= begin)
            piece++;
        if (piece == c->piece_count)
            return;
        if (c->pieces[piece].begin_rva <= begin)
            c->marks[c->pieces[piece].procedure] |= COVERAGE_TOUCHED;
    }
}

typedef struct named {
    uint64_t hash;
    uint32_t procedure;
} named;

static int by_hash(const void *a, const void *b)
{
    const named *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static spgo_str name_of(const symbol_procedure *p)
{
    return p->function && p->function->linkage_name.len > 0 ? p->function->linkage_name : p->name;
}

static bool has_namesake(const coverage *c, const named *touched, size_t count, uint64_t hash,
                         spgo_str name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (touched[mid].hash < hash)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < count && touched[low].hash == hash; low++) {
        if (text_equal(name_of(&c->procedures[touched[low].procedure]), name))
            return true;
    }
    return false;
}

/* Static functions of one name share one profile, so they are touched together: an unsampled one
 * must not look as if nothing were known of it. */
static spgo_code touch_namesakes(coverage *c, spgo_error *err)
{
    named *touched = calloc(c->procedure_count + 1, sizeof *touched);
    if (!touched)
        return spgo_fail_nomem(err, "coverage", c->procedure_count * sizeof *touched);
    uint64_t seed = hash_seed(c);
    size_t count = 0;
    for (size_t i = 0; i < c->procedure_count; i++) {
        spgo_str name = name_of(&c->procedures[i]);
        if ((c->marks[i] & COVERAGE_TOUCHED) && name.len > 0)
            touched[count++] = (named){text_hash(seed, name.ptr, name.len), (uint32_t)i};
    }
    qsort(touched, count, sizeof *touched, by_hash);
    for (size_t i = 0; i < c->procedure_count && count > 0; i++) {
        spgo_str name = name_of(&c->procedures[i]);
        if (!(c->marks[i] & COVERAGE_TOUCHED) && name.len > 0 &&
            has_namesake(c, touched, count, text_hash(seed, name.ptr, name.len), name))
            c->marks[i] |= COVERAGE_TOUCHED;
    }
    free(touched);
    return SPGO_OK;
}

spgo_code coverage_open(coverage *c, const address_profile *measured, symbols *s, spgo_error *err)
{
    *c = (coverage){.measured = measured};
    SPGO_TRY(symbols_procedures(s, &c->procedures, &c->procedure_count, err));
    size_t range_count = measured->range_count;
    c->marks = calloc(c->procedure_count + 1, 1);
    c->by_last = calloc(range_count + 1, sizeof *c->by_last);
    if (!c->marks || !c->by_last)
        return spgo_fail_nomem(err, "coverage",
                               c->procedure_count + range_count * sizeof *c->by_last);
    for (size_t i = 0; i < range_count; i++)
        c->by_last[i] = measured->ranges[i];
    qsort(c->by_last, range_count, sizeof *c->by_last, by_last);
    SPGO_TRY(list_pieces(c, err));
    touch_by_ranges(c);
    return touch_namesakes(c, err);
}

void coverage_close(coverage *c)
{
    free(c->marks);
    free(c->pieces);
    free(c->by_last);
    free(c->begun);
    free(c->ended);
    *c = (coverage){0};
}

static void add_to(coverage_sum *sum, uint64_t count)
{
    sum->low += count;
    sum->high += sum->low < count;
}

static void take_from(coverage_sum *sum, uint64_t count)
{
    sum->high -= sum->low < count;
    sum->low -= count;
}

/* The ranges that cover the instruction at hand. */
typedef struct sweep {
    const coverage *c;
    size_t begun, ended; /* ranges */
    coverage_sum sum;
} sweep;

static void sweep_to(sweep *w, uint32_t rva)
{
    const address_profile *p = w->c->measured;
    for (; w->begun < p->range_count && p->ranges[w->begun].begin_rva <= rva; w->begun++)
        add_to(&w->sum, p->ranges[w->begun].count);
    for (; w->ended < w->begun && w->c->by_last[w->ended].last_rva < rva; w->ended++)
        take_from(&w->sum, w->c->by_last[w->ended].count);
}

static bool walk_piece(coverage *c, const coverage_piece *piece, sweep *w, code_decoder *d,
                       coverage_visitor *visit, void *ctx)
{
    bool touched = c->marks[piece->procedure] & COVERAGE_TOUCHED;
    coverage_step step = {.procedure = piece->procedure};
    for (uint32_t rva = piece->begin_rva; rva < piece->end_rva;) {
        sweep_to(w, rva);
        if (!touched && w->begun == w->ended)
            return true;
        step.instruction = code_decode(d, rva);
        step.count = w->sum.high ? UINT64_MAX : w->sum.low;
        if (step.count > 0)
            c->marks[piece->procedure] |= COVERAGE_SAMPLED;
        if (step.instruction.kind != CODE_INVALID && !visit(ctx, &step))
            return false;
        uint32_t size = step.instruction.size_bytes ? step.instruction.size_bytes : 1;
        if (size > piece->end_rva - rva)
            return true;
        rva += size;
    }
    return true;
}

bool coverage_walk(coverage *c, code_decoder *d, coverage_visitor *visit, void *ctx)
{
    sweep w = {.c = c};
    for (size_t i = 0; i < c->piece_count; i++) {
        if (!walk_piece(c, &c->pieces[i], &w, d, visit, ctx))
            return false;
    }
    return true;
}

bool coverage_index(coverage *c)
{
    size_t count = c->measured->range_count;
    if (c->begun && c->ended)
        return true;
    if (!c->begun)
        c->begun = calloc(count + 1, sizeof *c->begun);
    if (!c->ended)
        c->ended = calloc(count + 1, sizeof *c->ended);
    if (!c->begun || !c->ended)
        return false;
    for (size_t i = 0; i < count; i++) {
        c->begun[i + 1] = c->begun[i];
        add_to(&c->begun[i + 1], c->measured->ranges[i].count);
        c->ended[i + 1] = c->ended[i];
        add_to(&c->ended[i + 1], c->by_last[i].count);
    }
    return true;
}

/* Of ranges by rising value of a member: how many have a smaller one. */
static size_t count_below(const address_range *ranges, size_t count, uint64_t rva, bool of_last)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((of_last ? ranges[mid].last_rva : ranges[mid].begin_rva) < rva)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

uint64_t coverage_count_at(const coverage *c, uint32_t rva)
{
    const address_profile *p = c->measured;
    size_t begun = count_below(p->ranges, p->range_count, (uint64_t)rva + 1, false);
    size_t ended = count_below(c->by_last, p->range_count, rva, true);
    coverage_sum sum = c->begun[begun];
    sum.high -= c->ended[ended].high + (sum.low < c->ended[ended].low);
    sum.low -= c->ended[ended].low;
    return sum.high ? UINT64_MAX : sum.low;
}

const symbol_procedure *coverage_procedure_at(const coverage *c, uint32_t rva)
{
    size_t low = 0, high = c->piece_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c->pieces[mid].end_rva <= rva)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < c->piece_count && c->pieces[low].begin_rva <= rva;
    return found ? &c->procedures[c->pieces[low].procedure] : NULL;
}

const symbol_procedure *coverage_entered_at(const coverage *c, uint32_t rva)
{
    size_t low = 0, high = c->procedure_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c->procedures[mid].entry_rva < rva)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < c->procedure_count && c->procedures[low].entry_rva == rva;
    return found ? &c->procedures[low] : NULL;
}
