/* Adding up the records of SPT files: see samples.h. */
#include <profile/samples.h>

#include <stdlib.h>

#include <base/fail.h>
#include <base/guid.h>
#include <base/hash.h>
#include <base/reader.h>
#include <base/text.h>

enum { RELEASE_BYTES = 4 << 20 };

void samples_free(samples *s)
{
    for (size_t i = 0; i < s->program_count; i++) {
        samples_program *p = &s->programs[i];
        counts_free(&p->arcs);
        counts_free(&p->ranges);
        for (size_t k = 0; k < SAMPLES_IP_KINDS; k++)
            counts_free(&p->ips[k]);
    }
    free(s->programs);
    free(s->slots);
    intern_free(&s->names);
    *s = (samples){0};
}

/* ------------------------------------------------------------------ programs */

bool samples_is_program(const samples_program *p, const spgo_spt_program *q)
{
    return image_id_equal(&p->id, &q->id) && text_equal_nocase(p->name, q->name);
}

static uint64_t hash_program(const samples *s, const spgo_image_id *id, spgo_str name)
{
    uint64_t h = text_hash(hash_seed(s), id->guid.bytes, sizeof id->guid.bytes);
    h = text_hash(h, &id->age, sizeof id->age);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        h = hash_u64(h, (unsigned char)c);
    }
    return h;
}

/* Room for one program more, and for its slot: the table stays at most half full. */
static bool make_room(samples *s)
{
    if (s->program_count == s->program_capacity) {
        size_t capacity = s->program_capacity ? 2 * s->program_capacity : 4;
        samples_program *grown = realloc(s->programs, capacity * sizeof *grown);
        if (!grown)
            return false;
        s->programs = grown;
        s->program_capacity = capacity;
    }
    if (2 * (s->program_count + 1) <= s->slot_count)
        return true;
    size_t count = s->slot_count ? 2 * s->slot_count : 16;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < s->program_count; i++) {
        size_t at = hash_program(s, &s->programs[i].id, s->programs[i].name) & (count - 1);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(s->slots);
    s->slots = slots;
    s->slot_count = count;
    return true;
}

/* The index of a file's program among ours, added if it is new; SIZE_MAX without memory. */
static size_t find_program(samples *s, const spgo_spt_program *wanted)
{
    if (!make_room(s))
        return SIZE_MAX;
    const size_t mask = s->slot_count - 1;
    size_t at = hash_program(s, &wanted->id, wanted->name) & mask;
    for (; s->slots[at]; at = (at + 1) & mask) {
        if (samples_is_program(&s->programs[s->slots[at] - 1], wanted))
            return s->slots[at] - 1;
    }
    s->programs[s->program_count] =
        (samples_program){.id = wanted->id, .name = intern_add(&s->names, wanted->name)};
    if (s->names.failed)
        return SIZE_MAX;
    s->slots[at] = (uint32_t)s->program_count + 1;
    return s->program_count++;
}

/* ------------------------------------------------------------------ records */

/* One file on its way in. */
typedef struct adding {
    samples *s;
    size_t *programs; /* by the file's index; SIZE_MAX: not met yet */
    const spgo_spt *spt;
    os_input *in; /* or NULL */
    uint64_t weight;
} adding;

static void add_saturating(samples *s, uint64_t *sum, uint64_t n, uint64_t times)
{
    uint64_t product;
    if (__builtin_mul_overflow(n, times, &product) || __builtin_add_overflow(*sum, product, sum)) {
        *sum = UINT64_MAX;
        s->saturated = true;
    }
}

static void add_branches(samples *s, samples_program *p, const spgo_spt_record *r, uint64_t hits)
{
    uint64_t arcs[SPGO_SPT_ENTRIES_MAX], ranges[SPGO_SPT_ENTRIES_MAX];
    size_t range_count = 0, bogus = 0;
    for (size_t i = 0; i < r->entry_count; i++) {
        arcs[i] = load_u64(r->entries + 8 * i); /* target first: from << 32 | to */
        if (i == 0)
            continue;
        uint32_t start = (uint32_t)arcs[i], end = (uint32_t)(arcs[i - 1] >> 32);
        if (start == SPGO_SPT_OUTSIDE || end == SPGO_SPT_OUTSIDE)
            continue;
        if (end < start || end - start >= SPGO_SPT_RANGE_MAX)
            bogus++;
        else
            ranges[range_count++] = samples_pair(start, end);
    }
    counts_add(&p->arcs, arcs, r->entry_count, hits);
    counts_add(&p->ranges, ranges, range_count, hits);
    add_saturating(s, &p->lbr_records, 1, hits);
    add_saturating(s, &p->lbr_entries, r->entry_count, hits);
    add_saturating(s, &p->bogus_ranges, bogus, hits);
}

static void add_ips(samples *s, samples_program *p, const spgo_spt_record *r, uint64_t hits)
{
    unsigned kind = samples_ip_kind(r->opcode);
    uint64_t rvas[SPGO_SPT_ENTRIES_MAX];
    for (size_t i = 0; i < r->entry_count; i++)
        rvas[i] = load_u32(r->entries + 4 * i);
    counts_add(&p->ips[kind], rvas, r->entry_count, hits);
    add_saturating(s, &p->ip_hits[kind], r->entry_count, hits);
}

static void add_stack(samples *s, samples_program *p, const spgo_spt_record *r, uint64_t hits)
{
    const unsigned kind = samples_ip_kind(r->opcode);
    const uint64_t leaf = load_u32(r->entries);
    counts_add(&p->ips[kind], &leaf, 1, hits);
    add_saturating(s, &p->ip_hits[kind], 1, hits);
}

static spgo_code add_record(adding *a, const spgo_spt_record *r, spgo_error *err)
{
    if (r->entry_count == 0)
        return SPGO_OK;
    size_t *index = &a->programs[r->program];
    if (*index == SIZE_MAX)
        *index = find_program(a->s, spgo_spt_get_program(a->spt, r->program));
    if (*index == SIZE_MAX)
        return spgo_fail_nomem(err, "samples", sizeof(samples_program));
    samples_program *p = &a->s->programs[*index];
    uint64_t hits = 0;
    add_saturating(a->s, &hits, r->hits, a->weight);
    switch (spgo_spt_opcode_kind(r->opcode)) {
    case SPGO_SPT_KIND_ARC:
        add_branches(a->s, p, r, hits);
        break;
    case SPGO_SPT_KIND_IP:
        add_ips(a->s, p, r, hits);
        break;
    case SPGO_SPT_KIND_CALLSTACK:
        add_stack(a->s, p, r, hits);
        break;
    case SPGO_SPT_KIND_NONE:
        break;
    }
    return SPGO_OK;
}

/* Takes all records; *damage is the first failure of reading, of which there may be more. */
static spgo_code add_records(adding *a, spgo_error *damage, spgo_error *err)
{
    spgo_spt_cursor c = spgo_spt_records(a->spt);
    spgo_spt_record r;
    for (;;) {
        spgo_code code;
        uint64_t release_at = c.pos + RELEASE_BYTES;
        while (spgo_spt_next_entries(&c, &r, &code)) {
            SPGO_TRY(add_record(a, &r, err));
            if (a->in && c.pos >= release_at) {
                os_input_release(a->in, c.pos);
                release_at = c.pos + RELEASE_BYTES;
            }
        }
        if (code == SPGO_NOT_FOUND)
            return SPGO_OK;
        spgo_error met;
        code = spgo_spt_next(&c, &r, &met);
        if (code == SPGO_NOT_FOUND)
            return SPGO_OK;
        if (code != SPGO_OK && damage->code == SPGO_OK)
            *damage = met;
        else if (code == SPGO_OK && spgo_spt_opcode_kind(r.opcode) != SPGO_SPT_KIND_NONE)
            SPGO_TRY(add_record(a, &r, err));
    }
}

/* What the tables could not do. */
static spgo_code check_tables(samples *s, spgo_error *err)
{
    bool failed = false;
    for (size_t i = 0; i < s->program_count; i++) {
        const samples_program *p = &s->programs[i];
        const counts *tables[2 + SAMPLES_IP_KINDS] = {&p->arcs, &p->ranges};
        for (size_t k = 0; k < SAMPLES_IP_KINDS; k++)
            tables[2 + k] = &p->ips[k];
        for (size_t k = 0; k < sizeof tables / sizeof tables[0]; k++) {
            failed = failed || tables[k]->failed;
            s->saturated = s->saturated || tables[k]->saturated;
        }
    }
    if (failed)
        return spgo_fail(err, SPGO_NOMEM, "samples", SPGO_NO_OFFSET,
                         "out of memory for the distinct branches and addresses");
    return SPGO_OK;
}

spgo_code samples_add(samples *s, const spgo_spt *spt, os_input *in, uint64_t weight,
                      spgo_error *err)
{
    size_t count = spgo_spt_program_count(spt);
    adding a = {.s = s, .spt = spt, .in = in, .weight = weight};
    a.programs = malloc((count + 1) * sizeof *a.programs);
    if (!a.programs)
        return spgo_fail_nomem(err, "samples", (count + 1) * sizeof *a.programs);
    for (size_t i = 0; i < count; i++)
        a.programs[i] = SIZE_MAX;
    spgo_error damage = {0};
    spgo_code code = weight ? add_records(&a, &damage, err) : SPGO_OK;
    free(a.programs);
    SPGO_TRY(code);
    SPGO_TRY(check_tables(s, err));
    if (damage.code != SPGO_OK && err)
        *err = damage;
    return damage.code;
}
