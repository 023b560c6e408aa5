/* A batch of samples into SPT records: see convert.h. */
#include <aggregate/convert.h>

#include <base/text.h>
#include <spgo/spt.h>

#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 6,                /* remembered from the last addresses of one process */
    LOOKS_ELSEWHERE = 1 << 15, /* of one batch into the images of other processes */
    GAPS = 4,
    PACKS = 64,
    WORD_ROOM = 2 * SPGO_SPT_ENTRIES_MAX + RECORD_HEAD
};

/* A stretch of addresses with one answer: RVA = address + rva_shift in `module`, or why not. */
typedef struct place {
    uint64_t start, size; /* size 0: holds nothing */
    uint64_t rva_shift;
    uint64_t valid_from, valid_to; /* time */
    uint32_t module;
    aggregate_drop why; /* AGGREGATE_DROP_COUNT: addresses here count */
} place;

/* A stretch of user addresses in no image of the process: is one of another process there? */
typedef struct gap {
    uint64_t start, size;          /* size 0: holds nothing */
    uint64_t valid_from, valid_to; /* time */
    bool is_elsewhere;
} gap;

/* IP hits of one image and opcode, gathered into one record. */
typedef struct pack {
    uint32_t module;
    uint8_t opcode; /* 0: empty */
    uint8_t count;
    uint32_t rvas[SPGO_SPT_ENTRIES_MAX];
} pack;

struct converter {
    const converter_shared *shared;
    aggregate_tally tally;
    record_list *out;

    /* The process the places belong to. */
    const timeline *who;
    uint32_t process;
    bool is_process_wanted;
    uint64_t time;
    uint64_t kernel_start;
    place places[PLACES];
    place *last; /* the one that held the last address */
    size_t next_place;
    gap gaps[GAPS];
    size_t looks_left; /* see is_elsewhere */
    size_t next_gap;

    uint8_t *wanted; /* per module: 0 not looked at yet, 1 wanted, 2 not */
    size_t wanted_count;
    pack packs[PACKS];
};

void record_list_free(record_list *l)
{
    free(l->words);
    *l = (record_list){0};
}

converter *converter_new(const converter_shared *shared)
{
    converter *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->shared = shared;
    c->wanted_count = module_table_count(trace_modules(shared->t));
    c->wanted = calloc(c->wanted_count ? c->wanted_count : 1, 1);
    if (!c->wanted) {
        free(c);
        return NULL;
    }
    return c;
}

void converter_free(converter *c)
{
    if (!c)
        return;
    free(c->wanted);
    free(c);
}

const aggregate_tally *converter_tally(const converter *c)
{
    return &c->tally;
}

/* ------------------------------------------------------------------ records */

/* Room for one record of any size; NULL without memory. */
static uint32_t *record_room(record_list *l)
{
    if (l->cap - l->count >= WORD_ROOM)
        return l->words + l->count;
    size_t cap = l->cap ? l->cap * 2 : 64 * 1024;
    uint32_t *grown = realloc(l->words, cap * sizeof *grown);
    if (!grown) {
        l->failed = true;
        return NULL;
    }
    l->words = grown;
    l->cap = cap;
    return l->words + l->count;
}

/* Ends the record whose entries stand behind its head already. */
static void finish_record(converter *c, uint32_t module, uint8_t opcode, size_t entry_count,
                          size_t entry_words, uint64_t hits)
{
    uint32_t *head = c->out->words + c->out->count;
    head[0] = module;
    head[1] = opcode | (uint32_t)entry_count << 8;
    head[2] = (uint32_t)hits;
    head[3] = (uint32_t)(hits >> 32);
    c->out->count += RECORD_HEAD + entry_count * entry_words;
    c->tally.spt_records++;
}

static void flush_pack(converter *c, pack *p)
{
    uint32_t *room = p->opcode ? record_room(c->out) : NULL;
    if (room) {
        memcpy(room + RECORD_HEAD, p->rvas, p->count * sizeof *p->rvas);
        finish_record(c, p->module, p->opcode, p->count, 1, 1);
    }
    p->opcode = 0;
    p->count = 0;
}

static void add_hit(converter *c, uint32_t module, uint8_t opcode, uint32_t rva, uint64_t hits)
{
    if (hits > 1) {
        uint32_t *room = record_room(c->out);
        if (room) {
            room[RECORD_HEAD] = rva;
            finish_record(c, module, opcode, 1, 1, hits);
        }
        return;
    }
    pack *p = &c->packs[(module * 8 + opcode) % PACKS];
    if (p->opcode != opcode || p->module != module || p->count == SPGO_SPT_ENTRIES_MAX)
        flush_pack(c, p);
    p->module = module;
    p->opcode = opcode;
    p->rvas[p->count++] = rva;
}

/* ------------------------------------------------------------------ who and where */

static bool matches_any(const char *const *patterns, size_t n, spgo_str name)
{
    for (size_t i = 0; i < n; i++) {
        if (text_match(text_base_name(text_str(patterns[i])), name))
            return true;
    }
    return false;
}

static bool is_module_wanted(converter *c, uint32_t module)
{
    const aggregate_opts *o = c->shared->opts;
    if (!o->binaries)
        return true;
    if (c->wanted[module] == 0) {
        spgo_str name = module_table_get(trace_modules(c->shared->t), module)->name;
        c->wanted[module] = matches_any(o->binaries, o->binary_count, name) ? 1 : 2;
    }
    return c->wanted[module] == 1;
}

static bool is_name_wanted(const aggregate_opts *o, const timeline_process *p)
{
    return !o->processes || (p && (matches_any(o->processes, o->process_count, p->name) ||
                                   matches_any(o->processes, o->process_count, p->image_name)));
}

/* Places and gaps stay for the next sample as long as their time lasts, and of another process the
 * places of the kernel do. */
static void forget_places(converter *c, bool is_other_trace, bool is_other_process, uint64_t time)
{
    for (size_t i = 0; i < PLACES; i++) {
        place *p = &c->places[i];
        bool is_stale = is_other_trace || time < p->valid_from || time >= p->valid_to ||
                        (is_other_process && p->start < c->kernel_start);
        if (is_stale)
            p->size = 0;
    }
    for (size_t i = 0; i < GAPS; i++) {
        gap *g = &c->gaps[i];
        if (is_other_process || time < g->valid_from || time >= g->valid_to)
            g->size = 0;
    }
}

static void enter_sample(converter *c, const trace_batch *batch, const trace_sample *s)
{
    bool is_other_trace = c->who != batch->who;
    bool is_other = is_other_trace || c->process != s->process;
    forget_places(c, is_other_trace, is_other, s->time);
    c->time = s->time;
    if (!is_other)
        return;
    c->who = batch->who;
    c->kernel_start = batch->kernel_start;
    c->process = s->process;
    c->is_process_wanted =
        is_name_wanted(c->shared->opts, timeline_get_process(batch->who, s->process));
}

static aggregate_drop verdict_on(converter *c, uint32_t module, bool is_kernel)
{
    if (is_kernel && c->shared->opts->no_kernel)
        return AGGREGATE_KERNEL;
    if (module == TIMELINE_NONE)
        return AGGREGATE_NO_IMAGE;
    return is_module_wanted(c, module) ? AGGREGATE_DROP_COUNT : AGGREGATE_OTHER_BINARY;
}

/* Looks an address up and remembers its stretch in place of an older one, but not of the last. */
static const place *look_up(converter *c, uint64_t addr)
{
    bool is_kernel = addr >= c->kernel_start;
    uint32_t process = is_kernel ? timeline_kernel(c->who) : c->process;
    timeline_place found = timeline_find(c->who, process, c->time, addr);
    uint64_t start = found.start, end = found.end;
    if (is_kernel && start < c->kernel_start)
        start = c->kernel_start;
    if (!is_kernel && end > c->kernel_start)
        end = c->kernel_start;
    place *p = &c->places[c->next_place++ % PLACES];
    if (p == c->last)
        p = &c->places[c->next_place++ % PLACES];
    *p = (place){.start = start,
                 .size = end - start,
                 .rva_shift = found.start_rva - found.start,
                 .valid_from = found.valid_from,
                 .valid_to = found.valid_to,
                 .module = found.module,
                 .why = verdict_on(c, found.module, is_kernel)};
    uint64_t rva = addr + p->rva_shift;
    uint64_t last_rva = p->start + p->size - 1 + p->rva_shift;
    if (p->why == AGGREGATE_DROP_COUNT && (rva > UINT32_MAX || last_rva > UINT32_MAX)) {
        p->start = addr; /* an image over 4 GiB, or a wrong map: each address by itself */
        p->size = 1;
        p->why = rva > UINT32_MAX ? AGGREGATE_FAR_RVA : AGGREGATE_DROP_COUNT;
    }
    c->last = p;
    return p;
}

static inline const place *place_of(converter *c, uint64_t addr)
{
    if (addr - c->last->start < c->last->size)
        return c->last;
    for (size_t i = 0; i < PLACES; i++) {
        place *p = &c->places[i];
        if (addr - p->start < p->size)
            return c->last = p;
    }
    return look_up(c, addr);
}

static inline uint32_t rva_in(const place *p, uint64_t addr)
{
    return (uint32_t)(addr + p->rva_shift);
}

/* The part of the gap that is no larger than what another process has there. */
static void narrow_gap(gap *g, const timeline_place *found)
{
    uint64_t end = g->start + g->size;
    uint64_t start = found->start > g->start ? found->start : g->start;
    g->size = (found->end < end ? found->end : end) - start;
    g->start = start;
    g->valid_from = found->valid_from > g->valid_from ? found->valid_from : g->valid_from;
    g->valid_to = found->valid_to < g->valid_to ? found->valid_to : g->valid_to;
}

/* An address in no image of its process: does it lie in one of another process? That is only for
 * the tally, so a trace of many processes gets a bounded number of answers a batch; a batch is the
 * same whoever converts it, and so is what is counted. */
static bool is_elsewhere(converter *c, uint64_t addr)
{
    for (size_t i = 0; i < GAPS; i++) {
        if (addr - c->gaps[i].start < c->gaps[i].size)
            return c->gaps[i].is_elsewhere;
    }
    size_t count = timeline_process_count(c->who);
    if (addr >= c->kernel_start || count > c->looks_left)
        return false;
    c->looks_left -= count;
    gap *g = &c->gaps[c->next_gap++ % GAPS];
    *g = (gap){.size = c->kernel_start, .valid_to = UINT64_MAX};
    timeline_place here = timeline_find(c->who, c->process, c->time, addr);
    narrow_gap(g, &here);
    for (size_t i = 0; i < count && !g->is_elsewhere; i++) {
        timeline_place there = timeline_find(c->who, (uint32_t)i, c->time, addr);
        narrow_gap(g, &there);
        g->is_elsewhere = there.module != TIMELINE_NONE;
    }
    return g->is_elsewhere;
}

/* ------------------------------------------------------------------ the three parts */

static uint8_t opcode_of(trace_counter counter)
{
    switch (counter) {
    case TRACE_COUNTER_TIMER:
        return SPGO_SPT_ETW_INSTR;
    case TRACE_COUNTER_CYCLES:
        return SPGO_SPT_UNHALT_CYCLE;
    case TRACE_COUNTER_INSTRUCTIONS:
        return SPGO_SPT_RETIRE_INSTR;
    case TRACE_COUNTER_BRANCHES:
        return SPGO_SPT_RETIRE_BR_INSTR;
    case TRACE_COUNTER_ICACHE_MISSES:
        return SPGO_SPT_L1_ICACHE_MISS;
    case TRACE_COUNTER_DCACHE_MISSES:
        return SPGO_SPT_L1_DCACHE_MISS;
    case TRACE_COUNTER_OTHER:
        break;
    }
    return 0;
}

static void convert_ip(converter *c, const trace_sample *s, uint64_t addr)
{
    aggregate_part *part = &c->tally.parts[TRACE_IP];
    uint8_t opcode = opcode_of((trace_counter)s->counter);
    const place *at = place_of(c, addr);
    aggregate_drop why = opcode ? at->why : AGGREGATE_UNKNOWN_COUNTER;
    if (why != AGGREGATE_DROP_COUNT) {
        part->dropped[why] += s->hits;
        return;
    }
    part->used += s->hits;
    add_hit(c, at->module, opcode, rva_in(at, addr), s->hits);
}

/* A branch, its ends resolved. */
typedef struct branch {
    const place *from, *to;
    uint64_t from_addr;
    uint32_t from_rva, to_rva;
} branch;

/* Why a branch is not one within an image, by what is wrong with each end. */
static aggregate_drop why_not_inside(converter *c, const branch *b)
{
    aggregate_drop from = b->from->why, to = b->to->why;
    if (from == AGGREGATE_KERNEL || to == AGGREGATE_KERNEL)
        return AGGREGATE_KERNEL;
    if (from == AGGREGATE_DROP_COUNT || to == AGGREGATE_DROP_COUNT)
        return AGGREGATE_CROSS_MODULE;
    if (from == AGGREGATE_NO_IMAGE && is_elsewhere(c, b->from_addr))
        return AGGREGATE_WRONG_PROCESS;
    return from;
}

/* Is [start, end] a stretch of code that can have run from one branch to the next? */
static inline bool is_sensible_range(uint32_t start, uint32_t end)
{
    return start <= end && end - start <= SPGO_SPT_RANGE_MAX;
}

/* The LBR record being written: neighbouring branches of one image, newest first. */
typedef struct lbr_run {
    uint32_t module;
    uint32_t newer_from; /* RVA of the source of the last entry */
    uint32_t *entries;
    size_t count;
} lbr_run;

static void end_run(converter *c, lbr_run *run, uint64_t hits)
{
    if (run->count)
        finish_record(c, run->module, SPGO_SPT_LBR, run->count, 2, hits);
    run->count = 0;
}

static bool add_to_run(converter *c, lbr_run *run, uint32_t module, uint32_t to, uint32_t from)
{
    if (run->count == 0) {
        uint32_t *room = record_room(c->out);
        if (!room)
            return false;
        run->entries = room + RECORD_HEAD;
        run->module = module;
    }
    run->entries[2 * run->count] = to;
    run->entries[2 * run->count + 1] = from;
    run->newer_from = from;
    run->count++;
    return true;
}

/* Does the branch to `to` come right before the newest entries of the run? */
static bool continues_run(converter *c, const lbr_run *run, const branch *b, const trace_sample *s)
{
    if (run->count == 0 || run->module != b->to->module || s->flags & TRACE_GAPS)
        return false;
    if (is_sensible_range(b->to_rva, run->newer_from))
        return run->count < SPGO_SPT_ENTRIES_MAX;
    c->tally.bogus_ranges += s->hits;
    return false;
}

/*
 * One branch, older than those in the run. Its target can end a stretch of code that the run goes
 * on from, its source starts the next stretch; each end counts for its own image, and an end in
 * another image stands as SPGO_SPT_OUTSIDE. So no stretch is lost where a call leaves the image,
 * and none is made up.
 */
static bool convert_branch(converter *c, lbr_run *run, const trace_sample *s, const branch *b)
{
    aggregate_part *part = &c->tally.parts[TRACE_BRANCHES];
    bool from_counts = b->from->why == AGGREGATE_DROP_COUNT;
    bool to_counts = b->to->why == AGGREGATE_DROP_COUNT;
    bool is_inside = from_counts && to_counts && b->from->module == b->to->module;
    if (is_inside)
        part->used += s->hits;
    else
        part->dropped[why_not_inside(c, b)] += s->hits;
    if (to_counts) {
        if (!continues_run(c, run, b, s))
            end_run(c, run, s->hits);
        uint32_t from_rva = is_inside ? b->from_rva : SPGO_SPT_OUTSIDE;
        if (!add_to_run(c, run, b->to->module, b->to_rva, from_rva))
            return false;
    }
    if (is_inside)
        return true;
    end_run(c, run, s->hits);
    return !from_counts || add_to_run(c, run, b->from->module, SPGO_SPT_OUTSIDE, b->from_rva);
}

/*
 * The common case, kept short because it is nearly all the time: branches within the image of the
 * run that go on with it. Returns behind the last one; what stops it is for convert_branch.
 */
static const uint64_t *extend_run(converter *c, lbr_run *run, const uint64_t *pairs,
                                  const uint64_t *end)
{
    const place *p = c->last;
    if (run->count == 0 || p->why != AGGREGATE_DROP_COUNT || p->module != run->module)
        return pairs;
    const uint64_t start = p->start, size = p->size, shift = p->rva_shift;
    uint32_t newer_from = run->newer_from;
    uint32_t *entry = run->entries + 2 * run->count;
    uint32_t *full = run->entries + 2 * (size_t)SPGO_SPT_ENTRIES_MAX;
    for (; pairs < end && entry < full; pairs += 2, entry += 2) {
        if (pairs[0] - start >= size || pairs[1] - start >= size || !pairs[0] || !pairs[1])
            break;
        const uint32_t from = (uint32_t)(pairs[0] + shift), to = (uint32_t)(pairs[1] + shift);
        if (!is_sensible_range(to, newer_from))
            break;
        entry[0] = to;
        entry[1] = newer_from = from;
    }
    run->count = (size_t)(entry - run->entries) / 2;
    run->newer_from = newer_from;
    return pairs;
}

static void convert_branches(converter *c, const trace_sample *s, const uint64_t *pairs)
{
    aggregate_part *part = &c->tally.parts[TRACE_BRANCHES];
    const uint64_t used_before = part->used;
    const uint64_t *end = pairs + s->addr_count;
    lbr_run run = {0};
    while (pairs < end) {
        if (!(s->flags & TRACE_GAPS)) {
            const uint64_t *from_here = pairs;
            pairs = extend_run(c, &run, pairs, end);
            part->used += (uint64_t)(pairs - from_here) / 2 * s->hits;
            if (pairs == end)
                break;
        }
        if (pairs[0] == 0 || pairs[1] == 0) {
            part->dropped[AGGREGATE_EMPTY] += s->hits;
            end_run(c, &run, s->hits);
        } else {
            const place *from = place_of(c, pairs[0]);
            const place *to = place_of(c, pairs[1]); /* leaves `from` in place */
            branch b = {.from = from,
                        .to = to,
                        .from_addr = pairs[0],
                        .from_rva = rva_in(from, pairs[0]),
                        .to_rva = rva_in(to, pairs[1])};
            if (!convert_branch(c, &run, s, &b))
                return;
        }
        pairs += 2;
    }
    end_run(c, &run, s->hits);
    c->tally.lbr_records_used += part->used > used_before ? s->hits : 0;
}

static void convert_stack(converter *c, const trace_sample *s, const uint64_t *frames)
{
    aggregate_part *part = &c->tally.parts[TRACE_STACK];
    size_t run = 0;
    uint64_t used = 0;
    uint32_t module = TIMELINE_NONE;
    uint32_t *entries = NULL;
    aggregate_drop before = AGGREGATE_DROP_COUNT;
    for (size_t i = 0; i < s->addr_count; i++) {
        const place *at = place_of(c, frames[i]);
        aggregate_drop why = at->why;
        bool joins = run && why == AGGREGATE_DROP_COUNT && at->module == module;
        if (i && !joins) { /* the arc from the frame before is lost */
            aggregate_drop lost = why == before ? why : AGGREGATE_CROSS_MODULE;
            if (why == AGGREGATE_KERNEL || before == AGGREGATE_KERNEL)
                lost = AGGREGATE_KERNEL;
            part->dropped[lost == AGGREGATE_DROP_COUNT ? AGGREGATE_CROSS_MODULE : lost] += s->hits;
        }
        before = why;
        if (run && (!joins || run == SPGO_SPT_ENTRIES_MAX)) {
            uint32_t last = entries[run - 1];
            if (run > 1)
                finish_record(c, module, SPGO_SPT_ETW_CALLSTACK, run, 1, s->hits);
            uint32_t *room = joins ? record_room(c->out) : NULL;
            run = 0;
            if (room) { /* a stack too long for one record goes on from its last frame */
                entries = room + RECORD_HEAD;
                entries[run++] = last;
            }
        }
        if (why != AGGREGATE_DROP_COUNT)
            continue;
        if (run == 0) {
            uint32_t *room = record_room(c->out);
            if (!room)
                return;
            entries = room + RECORD_HEAD;
            module = at->module;
        }
        used += joins;
        entries[run++] = rva_in(at, frames[i]);
    }
    if (run > 1)
        finish_record(c, module, SPGO_SPT_ETW_CALLSTACK, run, 1, s->hits);
    part->used += used * s->hits;
    c->tally.stacks_used += used ? s->hits : 0;
}

/* How many units of its part a sample has. */
static uint64_t unit_count(const trace_sample *s)
{
    switch ((trace_part)s->part) {
    case TRACE_IP:
        return 1;
    case TRACE_BRANCHES:
        return s->addr_count / 2;
    case TRACE_STACK:
        return s->addr_count ? s->addr_count - 1 : 0;
    }
    return 0;
}

static void convert_sample(converter *c, const trace_batch *batch, const trace_sample *s)
{
    aggregate_part *part = &c->tally.parts[s->part];
    uint64_t units = unit_count(s) * s->hits;
    part->seen += units;
    enter_sample(c, batch, s);
    const uint64_t *addrs = batch->addrs + s->addr_first;
    bool filters = c->shared->opts->processes != NULL;
    /* Without a process, kernel addresses can still be told. */
    bool is_lost = s->process == TIMELINE_NONE &&
                   (filters || s->addr_count == 0 || addrs[0] < batch->kernel_start);
    if (is_lost) {
        part->dropped[AGGREGATE_NO_PROCESS] += units;
        return;
    }
    if (filters && (!c->is_process_wanted || s->flags & TRACE_INTERRUPT)) {
        part->dropped[AGGREGATE_OTHER_PROCESS] += units;
        return;
    }
    if (s->part == TRACE_IP)
        convert_ip(c, s, addrs[0]);
    else if (s->part == TRACE_BRANCHES)
        convert_branches(c, s, addrs);
    else
        convert_stack(c, s, addrs);
}

bool converter_run(converter *c, const trace_batch *batch, record_list *out)
{
    out->count = 0;
    c->out = out;
    c->last = &c->places[0];
    c->looks_left = LOOKS_ELSEWHERE;
    c->next_gap = 0;
    c->who = NULL; /* nothing carries over, so that the records do not depend on who ran before */
    for (size_t i = 0; i < batch->count; i++)
        convert_sample(c, batch, &batch->samples[i]);
    for (size_t i = 0; i < PACKS; i++)
        flush_pack(c, &c->packs[i]);
    return !out->failed;
}
