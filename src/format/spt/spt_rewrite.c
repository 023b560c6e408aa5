/*
 * Copying records from file to writer: merge (several files into one writer) and filter. A record
 * of branches or frames states that its entries follow each other, so where one is left out the
 * record is split.
 */
#include <format/spt/spt_internal.h>

#include <stdlib.h>
#include <string.h>

#include <base/text.h>

uint64_t spt_add_hits(uint64_t a, uint64_t b, uint64_t n, bool *saturated)
{
    if (n != 0 && b > (UINT64_MAX - a) / n) {
        *saturated = true;
        return UINT64_MAX;
    }
    return a + b * n;
}

/* A copy with the fields that the caller's version of the structure lacks set to zero. */
static spgo_spt_filter filter_of(const spgo_spt_filter *filter)
{
    spgo_spt_filter f = {0};
    if (filter)
        memcpy(&f, filter, filter->size < sizeof f ? filter->size : sizeof f);
    return f;
}

bool spt_filter_is_empty(const spgo_spt_filter *filter)
{
    spgo_spt_filter f = filter_of(filter);
    return !f.programs && !f.opcodes && f.rva_min == 0 && f.rva_max == 0;
}

/* A filter made ready for one file. */
typedef struct selection {
    bool *keep_program; /* of each of the file's; NULL: all */
    bool keep_opcode[256];
    uint32_t rva_min;
    uint32_t rva_max;
    bool whole_rvas; /* no RVA can be outside */
    spt_emit emit;
    void *ctx;
} selection;

static bool any_matches(const spgo_spt_filter *f, spgo_str name)
{
    for (size_t i = 0; i < f->program_count; i++) {
        if (text_match(text_str(f->programs[i]), text_base_name(name)))
            return true;
    }
    return false;
}

static spgo_code prepare(selection *s, const spgo_spt *spt, const spgo_spt_filter *filter,
                         spgo_error *err)
{
    spgo_spt_filter f = filter_of(filter);
    for (unsigned opcode = 0; opcode < 256; opcode++)
        s->keep_opcode[opcode] = !f.opcodes;
    for (size_t i = 0; f.opcodes && i < f.opcode_count; i++)
        s->keep_opcode[f.opcodes[i]] = true;
    s->rva_min = f.rva_min;
    s->rva_max = f.rva_max ? f.rva_max : UINT32_MAX;
    s->whole_rvas = s->rva_min == 0 && s->rva_max == UINT32_MAX;
    if (!f.programs)
        return SPGO_OK;
    size_t count = spgo_spt_program_count(spt);
    s->keep_program = malloc(count + 1);
    if (!s->keep_program)
        return spgo_fail_nomem(err, "spt.filter", count + 1);
    for (size_t i = 0; i < count; i++)
        s->keep_program[i] = any_matches(&f, spgo_spt_get_program(spt, i)->name);
    return SPGO_OK;
}

/* Of an arc from or to another image the end in this one decides. */
static bool is_inside(const selection *s, const uint8_t *entry, unsigned width)
{
    for (unsigned i = 0; i < width; i += 4) {
        uint32_t rva = load_u32(entry + i);
        bool is_foreign = width == 8 && rva == SPGO_SPT_OUTSIDE;
        if (!is_foreign && (rva < s->rva_min || rva > s->rva_max))
            return false;
    }
    return true;
}

/* Instruction pointers have no neighbours: those outside just go. */
static spgo_code emit_compacted(const selection *s, const spgo_spt_record *r, spgo_error *err)
{
    uint8_t kept[4 * SPGO_SPT_ENTRIES_MAX];
    spgo_spt_record run = *r;
    run.entries = kept;
    run.entry_count = 0;
    for (unsigned i = 0; i < r->entry_count; i++) {
        const uint8_t *entry = r->entries + 4 * (size_t)i;
        if (is_inside(s, entry, 4))
            memcpy(kept + 4 * (size_t)run.entry_count++, entry, 4);
    }
    return run.entry_count > 0 ? s->emit(s->ctx, &run, err) : SPGO_OK;
}

static spgo_code emit_runs(const selection *s, const spgo_spt_record *r, spgo_error *err)
{
    unsigned width = spt_entry_width(r->opcode), count = r->entry_count;
    for (unsigned start = 0, end; start < count; start = end + 1) {
        for (end = start; end < count; end++) {
            if (!is_inside(s, r->entries + width * (size_t)end, width))
                break;
        }
        unsigned length = end - start;
        bool is_empty = length == 0 || (length < count && spt_hit_count(r->opcode, length) == 0);
        if (is_empty)
            continue;
        spgo_spt_record run = *r;
        run.entries += width * (size_t)start;
        run.entry_count = (uint8_t)length;
        SPGO_TRY(s->emit(s->ctx, &run, err));
    }
    return SPGO_OK;
}

static spgo_code emit_kept(const selection *s, const spgo_spt_record *r, spgo_error *err)
{
    if (r->entry_count == 0 || !s->keep_opcode[r->opcode] ||
        (s->keep_program && !s->keep_program[r->program]))
        return SPGO_OK;
    if (s->whole_rvas)
        return s->emit(s->ctx, r, err);
    if (spgo_spt_opcode_kind(r->opcode) == SPGO_SPT_KIND_IP)
        return emit_compacted(s, r, err);
    return emit_runs(s, r, err);
}

static spgo_code walk(const selection *s, const spgo_spt *spt, spgo_spt_tally *tally,
                      spgo_error *err)
{
    spgo_spt_cursor cursor = spgo_spt_records(spt);
    spgo_spt_record record;
    spgo_code code, first = SPGO_OK;
    for (;;) {
        while (spgo_spt_next_entries(&cursor, &record, &code)) {
            tally->records_in++;
            tally->hits_in =
                spt_add_hits(tally->hits_in, record.hits,
                             spt_hit_count(record.opcode, record.entry_count), &tally->saturated);
            SPGO_TRY(emit_kept(s, &record, err));
        }
        if (code == SPGO_NOT_FOUND)
            return first;
        code = spgo_spt_next(&cursor, &record, first == SPGO_OK ? err : NULL);
        if (first == SPGO_OK)
            first = code;
    }
}

spgo_code spt_select(const spgo_spt *spt, const spgo_spt_filter *filter, spt_emit emit, void *ctx,
                     spgo_spt_tally *tally, spgo_error *err)
{
    selection s = {.emit = emit, .ctx = ctx};
    spgo_code code = prepare(&s, spt, filter, err);
    if (code == SPGO_OK)
        code = walk(&s, spt, tally, err);
    free(s.keep_program);
    return code;
}

/* ------------------------------------------------------------------ into a writer */

enum { NOT_MAPPED = UINT16_MAX }; /* no index of a table of at most 65,535 entries */

typedef struct copy {
    spgo_spt_writer *w;
    const spgo_spt *spt;
    uint16_t *map; /* from the file's programs to the writer's */
    spgo_spt_tally *tally;
} copy;

static spgo_code map_program(copy *c, size_t program, spgo_error *err)
{
    const spgo_spt_program *p = spgo_spt_get_program(c->spt, program);
    return spgo_spt_writer_program(c->w, &p->id, p->name, &c->map[program], err);
}

static spgo_code copy_run(void *ctx, const spgo_spt_record *run, spgo_error *err)
{
    copy *c = ctx;
    if (c->map[run->program] == NOT_MAPPED)
        SPGO_TRY(map_program(c, run->program, err));
    c->tally->hits_out =
        spt_add_hits(c->tally->hits_out, run->hits, spt_hit_count(run->opcode, run->entry_count),
                     &c->tally->saturated);
    return spt_writer_add_raw(c->w, c->map[run->program], run->opcode, run->entries,
                              run->entry_count, run->hits, err);
}

static spgo_code copy_file(copy *c, const spgo_spt_filter *filter, spgo_error *err)
{
    size_t count = spgo_spt_program_count(c->spt);
    bool keep_all = spt_filter_is_empty(filter);
    for (size_t i = 0; i < count; i++) {
        c->map[i] = NOT_MAPPED;
        if (keep_all)
            SPGO_TRY(map_program(c, i, err));
    }
    return spt_select(c->spt, filter, copy_run, c, c->tally, err);
}

spgo_code spgo_spt_writer_add_file(spgo_spt_writer *w, const spgo_spt *spt,
                                   const spgo_spt_filter *filter, spgo_spt_tally *tally,
                                   spgo_error *err)
{
    spgo_spt_tally unused = {0};
    copy c = {.w = w, .spt = spt, .tally = tally ? tally : &unused};
    size_t count = spgo_spt_program_count(spt);
    c.map = malloc((count + 1) * sizeof c.map[0]);
    if (!c.map)
        return spgo_fail_nomem(err, "spt.merge", (count + 1) * sizeof c.map[0]);
    uint64_t records_before = spt_writer_record_count(w);
    spgo_code code = copy_file(&c, filter, err);
    c.tally->records_out += spt_writer_record_count(w) - records_before;
    free(c.map);
    return code;
}
