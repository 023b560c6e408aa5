/*
 * Traces through trace and aggregate, and what an SPT file says as a sorted list of facts, so that
 * it can be compared with the same list made another way.
 */
#ifndef AGGREGATE_RUN_H
#define AGGREGATE_RUN_H

#include "test_data.h"
#include "test_folder.h"

#include <aggregate/aggregate.h>
#include <base/bytes.h>
#include <base/guid.h>
#include <base/text.h>
#include <spgo/spt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ facts */

typedef enum fact_kind {
    FACT_ARC,   /* from, to within the program */
    FACT_RANGE, /* start, end of a stretch between two branches */
    FACT_HIT,   /* opcode, RVA */
    FACT_FRAMES /* callee, return address */
} fact_kind;

typedef struct fact {
    char program[32];
    fact_kind kind;
    uint32_t a, b;
    uint64_t hits;
} fact;

typedef struct facts {
    fact *list;
    size_t count, cap;
} facts;

static inline void facts_free(facts *f)
{
    free(f->list);
    *f = (facts){0};
}

static inline void facts_add(facts *f, const char *program, fact_kind kind, uint32_t a, uint32_t b,
                             uint64_t hits)
{
    if (f->count == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 1024;
        f->list = realloc(f->list, f->cap * sizeof *f->list);
        assert_non_null(f->list);
    }
    fact *e = &f->list[f->count++];
    memset(e, 0, sizeof *e);
    size_t len = strlen(program);
    assert_in_range(len, 0, sizeof e->program - 1);
    memcpy(e->program, program, len);
    e->kind = kind;
    e->a = a;
    e->b = b;
    e->hits = hits;
}

static inline int fact_order(const void *left, const void *right)
{
    const fact *x = left, *y = right;
    int by_name = strcmp(x->program, y->program);
    if (by_name)
        return by_name;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

/* Sorts and adds up. */
static inline void facts_settle(facts *f)
{
    size_t kept = 0;
    if (f->count)
        qsort(f->list, f->count, sizeof *f->list, fact_order);
    for (size_t i = 0; i < f->count; i++) {
        if (kept && fact_order(&f->list[kept - 1], &f->list[i]) == 0)
            f->list[kept - 1].hits += f->list[i].hits;
        else
            f->list[kept++] = f->list[i];
    }
    f->count = kept;
}

static inline uint64_t facts_hits(const facts *f, const char *program, fact_kind kind)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        const fact *e = &f->list[i];
        if (e->kind == kind && (!program || strcmp(e->program, program) == 0))
            n += e->hits;
    }
    return n;
}

static inline size_t facts_distinct(const facts *f, const char *program, fact_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        n += f->list[i].kind == kind && (!program || strcmp(f->list[i].program, program) == 0);
    return n;
}

static inline void assert_same_facts(const facts *have, const facts *want)
{
    for (size_t i = 0; i < have->count || i < want->count; i++) {
        const fact *h = i < have->count ? &have->list[i] : NULL;
        const fact *w = i < want->count ? &want->list[i] : NULL;
        if (h && w && fact_order(h, w) == 0 && h->hits == w->hits)
            continue;
        fail_msg("fact %zu of %zu: have %s kind %d 0x%x 0x%x %u times, want %s kind %d 0x%x 0x%x "
                 "%u times",
                 i, want->count, h ? h->program : "nothing", h ? (int)h->kind : 0, h ? h->a : 0,
                 h ? h->b : 0, h ? (unsigned)h->hits : 0, w ? w->program : "nothing",
                 w ? (int)w->kind : 0, w ? w->a : 0, w ? w->b : 0, w ? (unsigned)w->hits : 0);
    }
}

static inline void add_record_facts(facts *f, const char *program, const spgo_spt_record *r)
{
    for (unsigned i = 0; i < r->entry_count; i++) {
        if (r->opcode == SPGO_SPT_LBR) {
            uint32_t from = spgo_spt_arc_from(r, i), to = spgo_spt_arc_to(r, i);
            if (from != SPGO_SPT_OUTSIDE && to != SPGO_SPT_OUTSIDE)
                facts_add(f, program, FACT_ARC, from, to, r->hits);
            assert_true(from != SPGO_SPT_OUTSIDE || i + 1u == r->entry_count);
            assert_true(to != SPGO_SPT_OUTSIDE || i == 0);
            if (i == 0)
                continue;
            uint32_t newer_from = spgo_spt_arc_from(r, i - 1);
            assert_true(to <= newer_from && newer_from - to <= SPGO_SPT_RANGE_MAX);
            facts_add(f, program, FACT_RANGE, to, newer_from, r->hits);
        } else if (r->opcode == SPGO_SPT_ETW_CALLSTACK) {
            if (i)
                facts_add(f, program, FACT_FRAMES, spgo_spt_rva(r, i - 1), spgo_spt_rva(r, i),
                          r->hits);
        } else {
            facts_add(f, program, FACT_HIT, r->opcode, spgo_spt_rva(r, i), r->hits);
        }
    }
}

static inline void facts_of_spt(facts *f, spgo_span file)
{
    spgo_spt *spt;
    spgo_error err;
    assert_int_equal(spgo_spt_open(file, &spt, &err), SPGO_OK);
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    spgo_code code;
    while (spgo_spt_next_entries(&c, &r, &code)) {
        spgo_str name = spgo_spt_get_program(spt, r.program)->name;
        char text[32];
        snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
        add_record_facts(f, text, &r);
    }
    assert_int_equal(code, SPGO_NOT_FOUND);
    spgo_spt_verdict verdict;
    assert_int_equal(spgo_spt_verify(file, NULL, NULL, &verdict, &err), SPGO_OK);
    assert_int_equal(verdict.damages, 0);
    assert_int_equal(verdict.warnings, 0);
    spgo_spt_close(spt);
    facts_settle(f);
}

/* ------------------------------------------------------------------ runs */

typedef struct run {
    spgo_code code;
    spgo_error err;
    bytes spt;
    facts facts;
    trace_tally seen;
    aggregate_tally tally;
    size_t sessions, findings;
} run;

static inline void run_free(run *r)
{
    bytes_free(&r->spt);
    facts_free(&r->facts);
}

/* Every unit that was seen was used or dropped for one reason. */
static inline void assert_sums(const aggregate_tally *t)
{
    for (size_t i = 0; i < 3; i++) {
        uint64_t sum = t->parts[i].used;
        for (size_t k = 0; k < AGGREGATE_DROP_COUNT; k++)
            sum += t->parts[i].dropped[k];
        assert_int_equal(sum, t->parts[i].seen);
    }
}

/* Opens and aggregates; the result is in r whatever it is, but for the facts. */
static inline void run_without_facts(run *r, const char *const *paths, size_t n,
                                     const aggregate_opts *opts)
{
    *r = (run){0};
    trace *t;
    r->code = trace_open(paths, n, NULL, &t, NULL, &r->err);
    if (r->code != SPGO_OK)
        return;
    aggregate_result result;
    r->code = aggregate_to_spt(t, opts, bytes_sink(&r->spt), &result, &r->err);
    r->seen = *trace_get_tally(t);
    r->tally = result.tally;
    r->sessions = trace_session_count(t);
    for (size_t i = 0; i < trace_input_count(t); i++)
        r->findings += trace_get_input(t, i)->findings.total;
    aggregate_result_free(&result);
    trace_close(t);
    if (r->code == SPGO_OK)
        assert_sums(&r->tally);
}

static inline void run_files(run *r, const char *const *paths, size_t n, const aggregate_opts *opts)
{
    run_without_facts(r, paths, n, opts);
    if (r->code != SPGO_OK)
        return;
    facts_of_spt(&r->facts, bytes_span(&r->spt));
    assert_int_equal(facts_hits(&r->facts, NULL, FACT_ARC), r->tally.parts[TRACE_BRANCHES].used);
    assert_int_equal(facts_hits(&r->facts, NULL, FACT_HIT), r->tally.parts[TRACE_IP].used);
    assert_int_equal(facts_hits(&r->facts, NULL, FACT_FRAMES), r->tally.parts[TRACE_STACK].used);
}

static inline void run_bytes(run *r, void **state, const bytes *trace_bytes,
                             const aggregate_opts *opts)
{
    const char *path = test_path(state, "trace");
    test_write_file(path, trace_bytes->ptr, trace_bytes->len);
    run_files(r, &path, 1, opts);
}

/* Does the SPT file list this program with this identity? */
static inline bool has_program(const run *r, const char *name, const spgo_image_id *id)
{
    spgo_spt *spt;
    bool found = false;
    assert_int_equal(spgo_spt_open(bytes_span(&r->spt), &spt, NULL), SPGO_OK);
    for (size_t i = 0; i < spgo_spt_program_count(spt); i++) {
        const spgo_spt_program *p = spgo_spt_get_program(spt, i);
        found |= text_equal(p->name, text_str(name)) && image_id_equal(&p->id, id);
    }
    spgo_spt_close(spt);
    return found;
}

#endif
