/*
 * From SPT records to every form of a profile: the input is the code of a made-up program and an
 * SPT file. The functions of symbol.h that stand here, instead of the library's, describe the
 * program: two functions, one of them in two pieces, with inlined calls, and a thunk.
 */
#include "fuzz.h"

#include <export/export.h>
#include <profile/profile.h>
#include <profile/quality.h>

enum {
    CODE_SIZE = 0x80,
    CODE_RVA = 0x100,
    PROCEDURES = 3,
    RUNS = 4,
    PROGRAMS_TRIED = 2,
    SPT_MAX = 64 * 1024
};

struct symbols {
    symbols_info info;
    code_image image;
    code_segment segment;
};

static const flow_extent first_pieces[] = {{0x100, 0x120}, {0x160, 0x170}};
static const flow_extent second_pieces[] = {{0x120, 0x150}};
static const flow_extent thunk_pieces[] = {{0x150, 0x158}};

static const symbol_function first = {.name = {"first", 5},
                                      .linkage_name = {"_Z5firstv", 9},
                                      .file = {"a.cpp", 5},
                                      .line = 10,
                                      .line_source = SYMBOL_LINE_DECLARED};
static const symbol_function second = {
    .name = {"second", 6}, .line = 40, .line_source = SYMBOL_LINE_FIRST_ROW};
static const symbol_function inner = {.name = {"inner", 5},
                                      .linkage_name = {"inner", 5},
                                      .line = 3,
                                      .line_source = SYMBOL_LINE_DECLARED};

static const symbol_procedure procedures[PROCEDURES] = {
    {0x100, {"_Z5firstv", 9}, &first, first_pieces, 2, 0, UINT32_MAX},
    {0x120, {"second", 6}, &second, second_pieces, 1, 0, UINT32_MAX},
    {0x150, {"", 0}, NULL, thunk_pieces, 1, SYMBOL_THUNK, 0x120},
};

static const symbol_frame first_frame = {.function = &first, .line = 11, .discriminator = 2};
static const symbol_frame inner_frame = {
    .function = &inner, .line = 4, .discriminator = 29, .caller = &first_frame};
static const symbol_frame second_frame = {.function = &second, .line = 38};

static const symbol_run runs[RUNS] = {{0x100, 0x108, &first_frame},
                                      {0x108, 0x118, &inner_frame},
                                      {0x118, 0x120, &first_frame},
                                      {0x120, 0x140, &second_frame}};

const symbols_info *symbols_get_info(const symbols *s)
{
    return &s->info;
}

const code_image *symbols_code(const symbols *s)
{
    return &s->image;
}

spgo_code symbols_procedures(symbols *s, const symbol_procedure **rows, size_t *count,
                             spgo_error *err)
{
    (void)s;
    (void)err;
    *rows = procedures;
    *count = PROCEDURES;
    return SPGO_OK;
}

const symbol_procedure *symbols_procedure_at(symbols *s, uint32_t rva)
{
    (void)s;
    for (size_t i = 0; i < PROCEDURES; i++) {
        for (uint32_t k = 0; k < procedures[i].piece_count; k++) {
            flow_extent e = procedures[i].pieces[k];
            if (rva >= e.begin_rva && rva < e.end_rva)
                return &procedures[i];
        }
    }
    return NULL;
}

spgo_code symbols_run_at(symbols *s, uint32_t rva, symbol_run *run, spgo_error *err)
{
    (void)s;
    for (size_t i = 0; i < RUNS; i++) {
        if (rva >= runs[i].begin_rva && rva < runs[i].end_rva) {
            *run = runs[i];
            return SPGO_OK;
        }
    }
    return spgo_fail(err, SPGO_NOT_FOUND, "fuzz", SPGO_NO_OFFSET, "no lines");
}

flow_hints symbols_flow_hints(symbols *s, const symbol_procedure *p)
{
    (void)s;
    (void)p;
    return (flow_hints){0};
}

const spgo_str *symbols_other_names(symbols *s, const symbol_procedure *p, size_t *count)
{
    (void)s;
    (void)p;
    *count = 0;
    return NULL;
}

spgo_code symbols_labels(symbols *s, const symbol_label **labels, size_t *count, spgo_error *err)
{
    (void)s;
    (void)err;
    *labels = NULL;
    *count = 0;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ rules */

static void check_counts(const address_profile *p)
{
    for (size_t i = 0; i < p->range_count; i++) {
        const address_range *r = &p->ranges[i];
        FUZZ_CHECK(r->count > 0 && r->begin_rva <= r->last_rva);
        FUZZ_CHECK(i == 0 || r[-1].begin_rva < r->begin_rva ||
                   (r[-1].begin_rva == r->begin_rva && r[-1].last_rva < r->last_rva));
    }
    for (size_t i = 0; i < p->branch_count; i++) {
        const address_branch *b = &p->branches[i];
        FUZZ_CHECK(b->count > 0);
        FUZZ_CHECK(i == 0 || samples_pair(b[-1].from_rva, b[-1].to_rva) <
                                 samples_pair(b->from_rva, b->to_rva));
    }
}

static void check_quality(const profile_result *r, symbols *s, code_decoder *d)
{
    quality q;
    if (quality_measure(r, s, d, &q, NULL) != SPGO_OK)
        return;
    FUZZ_CHECK(q.density >= 0 && q.blocks_before <= q.blocks && q.blocks_after <= q.blocks);
    FUZZ_CHECK(q.flow_gap_before >= 0 && q.flow_gap_before <= 1);
    FUZZ_CHECK(q.flow_gap_after >= 0 && q.flow_gap_after <= 1);
    FUZZ_CHECK(q.bogus_share <= 1 && q.unmapped_share <= 1 && q.stale_procedures <= PROCEDURES + 1);
}

/* What is written as text is read as the same text. */
static void check_profile(const sampleprof *p)
{
    bytes text = {0}, again = {0};
    out o;
    sampleprof *back = NULL;
    FUZZ_CHECK(out_init(&o, bytes_sink(&text), NULL) == SPGO_OK);
    FUZZ_CHECK(sampleprof_write_text(p, &o, NULL) == SPGO_OK && out_flush(&o));
    out_free(&o);
    if (text.len > 0) {
        FUZZ_CHECK(sampleprof_read(bytes_span(&text), 0, &back, NULL, NULL) == SPGO_OK);
        FUZZ_CHECK(out_init(&o, bytes_sink(&again), NULL) == SPGO_OK);
        FUZZ_CHECK(sampleprof_write_text(back, &o, NULL) == SPGO_OK && out_flush(&o));
        out_free(&o);
        FUZZ_CHECK(again.len == text.len && memcmp(again.ptr, text.ptr, text.len) == 0);
        sampleprof_free(back);
    }
    bytes_free(&text);
    bytes_free(&again);
}

static void export_all(const profile_result *r, symbols *s, code_decoder *d)
{
    out o;
    FUZZ_CHECK(out_init(&o, fuzz_null_sink(), NULL) == SPGO_OK);
    export_unsymbolized(&r->counts, s, &o);
    export_autofdo(&r->counts, s, &o);
    export_perf_mapping(s, &o);
    FUZZ_CHECK(export_bolt(&r->counts, s, &o, NULL) == SPGO_OK);
    FUZZ_CHECK(export_folded(&r->counts, s, d, &o, NULL) == SPGO_OK);
    FUZZ_CHECK(export_speedscope(&r->counts, s, d, &o, NULL) == SPGO_OK);
    FUZZ_CHECK(export_pprof(&r->counts, "samples", s, d, fuzz_null_sink(), NULL) == SPGO_OK);
    FUZZ_CHECK(out_flush(&o));
    out_free(&o);
}

/* ------------------------------------------------------------------ all ways */

static void try_way(const samples_program *program, symbols *s, code_decoder *d, profile_opts opts)
{
    profile_result r;
    opts.keep_measured = true;
    if (profile_count(program, s, d, &opts, &r, NULL) != SPGO_OK)
        return;
    check_counts(&r.counts);
    check_counts(&r.measured);
    export_all(&r, s, d);
    if (profile_correlate(s, d, &opts, &r, NULL) == SPGO_OK) {
        check_profile(r.profile);
        check_quality(&r, s, d);
    }
    profile_result_free(&r);
}

static void try_all(const samples *all, symbols *s, code_decoder *d)
{
    for (size_t i = 0; i < all->program_count && i < PROGRAMS_TRIED; i++) {
        const samples_program *p = &all->programs[i];
        try_way(p, s, d, (profile_opts){0});
        try_way(p, s, d, (profile_opts){.mode = PROFILE_BRANCHES, .inference = PROFILE_ON});
        try_way(p, s, d, (profile_opts){.mode = PROFILE_IPS});
        try_way(p, s, d,
                (profile_opts){.mode = PROFILE_IPS,
                               .inference = PROFILE_OFF,
                               .ip_kinds = (1u << SAMPLES_IP_KINDS) - 1});
        address_profile recorded;
        if (address_profile_as_recorded(p, &recorded, NULL) == SPGO_OK)
            check_counts(&recorded);
        address_profile_free(&recorded);
    }
}

static void write_records(const spgo_spt *spt, const symbols *s)
{
    out o;
    FUZZ_CHECK(out_init(&o, fuzz_null_sink(), NULL) == SPGO_OK);
    for (size_t i = 0; i < spgo_spt_program_count(spt) && i < PROGRAMS_TRIED; i++)
        (void)export_perf_records(spt, (uint16_t)i, 3, s, &o, NULL);
    FUZZ_CHECK(out_flush(&o));
    out_free(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < CODE_SIZE || size > CODE_SIZE + SPT_MAX)
        return 0;
    symbols s = {.info = {.image_path = "made-up", .source = SYMBOLS_DWARF}};
    s.segment = (code_segment){CODE_RVA, {data, CODE_SIZE}, true};
    s.image = (code_image){CODE_X64, 0x140000000, &s.segment, 1};
    code_decoder *d = NULL;
    spgo_spt *spt = NULL;
    spgo_span file = {data + CODE_SIZE, size - CODE_SIZE};
    if (code_decoder_new(&s.image, &d, NULL) == SPGO_OK &&
        spgo_spt_open(file, &spt, NULL) == SPGO_OK) {
        samples all = {0};
        (void)samples_add(&all, spt, NULL, 1 + data[0], NULL);
        try_all(&all, &s, d);
        write_records(spt, &s);
        samples_free(&all);
    }
    spgo_spt_close(spt);
    code_decoder_free(d);
    return 0;
}
