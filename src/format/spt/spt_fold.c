/*
 * Folding: a file's hits as sums per distinct entry. SPT has no count per entry, only REPEAT per
 * record. An arc gets a record of its own. Instruction pointers whose sum has binary digit b go
 * into records with 2^b hits, so that one costs a place for each digit instead of a record.
 */
#include <format/spt/spt_internal.h>

#include <stdlib.h>

#include <base/counts.h>

static const char where[] = "spt.fold";

/* The opcodes that carry entries, ascending: the order of the output. */
static const uint8_t fold_opcodes[] = {
    SPGO_SPT_UNHALT_CYCLE,   SPGO_SPT_RETIRE_INSTR,   SPGO_SPT_RETIRE_BR_INSTR,
    SPGO_SPT_L1_ICACHE_MISS, SPGO_SPT_L1_DCACHE_MISS, SPGO_SPT_LBR,
    SPGO_SPT_ETW_INSTR,      SPGO_SPT_ETW_CALLSTACK,
};
enum { FOLD_OPCODES = sizeof fold_opcodes / sizeof fold_opcodes[0] };

/* Sums of one program: keys are RVAs, or from << 32 | to, or callee << 32 | caller. */
typedef struct program_sums {
    counts of_opcode[FOLD_OPCODES];
} program_sums;

struct spgo_spt_fold {
    spt_program_set programs;
    program_sums **sums; /* of each program; NULL: nothing yet */
    size_t sums_cap;
    uint8_t slot_of[256]; /* index into fold_opcodes */
};

spgo_code spgo_spt_fold_new(spgo_spt_fold **out, spgo_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return spgo_fail_nomem(err, where, sizeof **out);
    for (uint8_t i = 0; i < FOLD_OPCODES; i++)
        (*out)->slot_of[fold_opcodes[i]] = i;
    return SPGO_OK;
}

void spgo_spt_fold_free(spgo_spt_fold *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->programs.count; i++) {
        for (size_t k = 0; f->sums[i] && k < FOLD_OPCODES; k++)
            counts_free(&f->sums[i]->of_opcode[k]);
        free(f->sums[i]);
    }
    free(f->sums);
    spt_program_set_free(&f->programs);
    free(f);
}

/* ------------------------------------------------------------------ summing */

typedef struct adding {
    spgo_spt_fold *f;
    const spgo_spt *spt;
    uint32_t *map; /* from the file's programs to the fold's, plus 1; 0: not yet */
} adding;

static spgo_code map_program(adding *a, size_t program, spgo_error *err)
{
    spgo_spt_fold *f = a->f;
    if (f->programs.count == f->sums_cap) {
        size_t cap = f->sums_cap ? 2 * f->sums_cap : 16;
        program_sums **sums = realloc(f->sums, cap * sizeof sums[0]);
        if (!sums)
            return spgo_fail_nomem(err, where, cap * sizeof sums[0]);
        f->sums = sums;
        f->sums_cap = cap;
    }
    const spgo_spt_program *p = spgo_spt_get_program(a->spt, program);
    size_t before = f->programs.count;
    uint16_t index;
    SPGO_TRY(spt_program_set_add(&f->programs, &p->id, p->name, &index, err));
    if (f->programs.count > before)
        f->sums[index] = NULL;
    a->map[program] = index + 1u;
    return SPGO_OK;
}

/* The keys of a record's hits; returns how many. */
static unsigned keys_of(const spgo_spt_record *r, uint64_t keys[SPGO_SPT_ENTRIES_MAX])
{
    unsigned n = spt_hit_count(r->opcode, r->entry_count);
    switch (spgo_spt_opcode_kind(r->opcode)) {
    case SPGO_SPT_KIND_ARC:
        for (unsigned i = 0; i < n; i++)
            keys[i] = (uint64_t)spgo_spt_arc_from(r, i) << 32 | spgo_spt_arc_to(r, i);
        return n;
    case SPGO_SPT_KIND_CALLSTACK:
        if (r->entry_count < 2)
            return 0;
        for (unsigned i = 0; i < n; i++)
            keys[i] = (uint64_t)spgo_spt_rva(r, i) << 32 | spgo_spt_rva(r, i + 1);
        return n;
    case SPGO_SPT_KIND_IP:
        for (unsigned i = 0; i < n; i++)
            keys[i] = spgo_spt_rva(r, i);
        return n;
    case SPGO_SPT_KIND_NONE:
        break;
    }
    return 0;
}

static spgo_code add_run(void *ctx, const spgo_spt_record *run, spgo_error *err)
{
    adding *a = ctx;
    if (a->map[run->program] == 0)
        SPGO_TRY(map_program(a, run->program, err));
    program_sums **sums = &a->f->sums[a->map[run->program] - 1];
    if (!*sums)
        *sums = calloc(1, sizeof **sums);
    if (!*sums)
        return spgo_fail_nomem(err, where, sizeof **sums);
    uint64_t keys[SPGO_SPT_ENTRIES_MAX];
    unsigned n = keys_of(run, keys);
    counts *c = &(*sums)->of_opcode[a->f->slot_of[run->opcode]];
    counts_add(c, keys, n, run->hits);
    return c->failed ? spgo_fail_nomem(err, where, c->slot_count * sizeof c->slots[0]) : SPGO_OK;
}

static spgo_code add_file(adding *a, const spgo_spt_filter *filter, spgo_spt_tally *tally,
                          spgo_error *err)
{
    size_t count = spgo_spt_program_count(a->spt);
    bool keep_all = spt_filter_is_empty(filter);
    for (size_t i = 0; keep_all && i < count; i++)
        SPGO_TRY(map_program(a, i, err));
    return spt_select(a->spt, filter, add_run, a, tally, err);
}

spgo_code spgo_spt_fold_add_file(spgo_spt_fold *f, const spgo_spt *spt,
                                 const spgo_spt_filter *filter, spgo_spt_tally *tally,
                                 spgo_error *err)
{
    spgo_spt_tally unused = {0};
    size_t count = spgo_spt_program_count(spt);
    adding a = {.f = f, .spt = spt};
    a.map = calloc(count + 1, sizeof a.map[0]);
    if (!a.map)
        return spgo_fail_nomem(err, where, (count + 1) * sizeof a.map[0]);
    spgo_code code = add_file(&a, filter, tally ? tally : &unused, err);
    free(a.map);
    return code;
}

/* ------------------------------------------------------------------ writing */

typedef struct group {
    spgo_spt_writer *w;
    uint16_t program;
    uint8_t opcode;
    uint64_t hits;
    spgo_spt_tally *tally;
    unsigned entry_count; /* in raw */
    uint8_t raw[SPT_ENTRY_BYTES_MAX];
} group;

static spgo_code write_record(group *g, spgo_error *err)
{
    if (g->entry_count == 0)
        return SPGO_OK;
    unsigned n = spt_hit_count(g->opcode, g->entry_count);
    g->tally->hits_out = spt_add_hits(g->tally->hits_out, g->hits, n, &g->tally->saturated);
    spgo_code code =
        spt_writer_add_raw(g->w, g->program, g->opcode, g->raw, g->entry_count, g->hits, err);
    g->entry_count = 0;
    return code;
}

/* Puts a key as the record stores it. */
static void put_key(group *g, uint64_t key)
{
    uint32_t high = (uint32_t)(key >> 32), low = (uint32_t)key;
    switch (spgo_spt_opcode_kind(g->opcode)) {
    case SPGO_SPT_KIND_ARC: /* target, then source */
        store_u32(g->raw + 8 * (size_t)g->entry_count, low);
        store_u32(g->raw + 8 * (size_t)g->entry_count + 4, high);
        g->entry_count++;
        break;
    case SPGO_SPT_KIND_CALLSTACK: /* one arc, two frames */
        store_u32(g->raw, high);
        store_u32(g->raw + 4, low);
        g->entry_count = 2;
        break;
    case SPGO_SPT_KIND_IP:
    case SPGO_SPT_KIND_NONE:
        store_u32(g->raw + 4 * (size_t)g->entry_count, low);
        g->entry_count++;
        break;
    }
}

static spgo_code write_digit(group *g, const counts_slot *slots, size_t slot_count, spgo_error *err)
{
    for (size_t i = 0; i < slot_count; i++) {
        if (!(slots[i].count & g->hits))
            continue;
        put_key(g, slots[i].key);
        if (g->entry_count == SPGO_SPT_ENTRIES_MAX)
            SPGO_TRY(write_record(g, err));
    }
    return write_record(g, err);
}

static spgo_code write_digits(group *g, const counts_slot *slots, size_t slot_count,
                              spgo_error *err)
{
    uint64_t digits = 0;
    for (size_t i = 0; i < slot_count; i++)
        digits |= slots[i].count;
    for (unsigned bit = 0; bit < 64; bit++) {
        g->hits = (uint64_t)1 << bit;
        if (digits & g->hits)
            SPGO_TRY(write_digit(g, slots, slot_count, err));
    }
    return SPGO_OK;
}

/* One record per arc: records of several would make neighbours of arcs that were none. */
static spgo_code write_arcs(group *g, const counts_slot *slots, size_t slot_count, spgo_error *err)
{
    for (size_t i = 0; i < slot_count; i++) {
        g->hits = slots[i].count;
        put_key(g, slots[i].key);
        SPGO_TRY(write_record(g, err));
    }
    return SPGO_OK;
}

static spgo_code write_opcode(const counts *c, group *g, spgo_error *err)
{
    size_t n;
    counts_slot *slots = counts_sorted_by_key(c, &n);
    if (!slots && n > 0)
        return spgo_fail_nomem(err, where, n * sizeof slots[0]);
    g->tally->saturated |= c->saturated;
    bool has_arcs = spgo_spt_opcode_kind(g->opcode) != SPGO_SPT_KIND_IP;
    spgo_code code = has_arcs ? write_arcs(g, slots, n, err) : write_digits(g, slots, n, err);
    free(slots);
    return code;
}

spgo_code spgo_spt_fold_write(const spgo_spt_fold *f, spgo_spt_writer *w, spgo_spt_tally *tally,
                              spgo_error *err)
{
    spgo_spt_tally unused = {0};
    group g = {.w = w, .tally = tally ? tally : &unused};
    uint64_t records_before = spt_writer_record_count(w);
    for (size_t i = 0; i < f->programs.count; i++) {
        SPGO_TRY(spgo_spt_writer_program(w, &f->programs.entries[i].id,
                                         spt_program_set_name(&f->programs, i), &g.program, err));
        for (size_t k = 0; f->sums[i] && k < FOLD_OPCODES; k++) {
            g.opcode = fold_opcodes[k];
            SPGO_TRY(write_opcode(&f->sums[i]->of_opcode[k], &g, err));
        }
    }
    g.tally->records_out += spt_writer_record_count(w) - records_before;
    return SPGO_OK;
}
