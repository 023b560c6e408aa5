/*
 * A made-up program for the rules of correlation: its code is 4,096 instructions of one byte, and
 * the functions of symbol.h that stand here, instead of the library's, tell what a test wants to be
 * known of them.
 */
#ifndef PROFILE_FAKE_H
#define PROFILE_FAKE_H

#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <profile/correlate_internal.h>
#include <spgo/spt.h>

enum { CODE_SIZE = 4096, RUNS_MAX = 64, NOP = 0x90 };

struct symbols {
    symbols_info info;
    code_image image;
    code_segment segment;
    symbol_procedure procedures[8];
    flow_extent pieces[8];
    size_t procedure_count;
    symbol_run runs[RUNS_MAX];
    size_t run_count;
};

const symbols_info *symbols_get_info(const symbols *s)
{
    return &s->info;
}

const code_image *symbols_code(const symbols *s)
{
    return &s->image;
}

spgo_code symbols_procedures(symbols *s, const symbol_procedure **out_rows, size_t *count,
                             spgo_error *err)
{
    (void)err;
    *out_rows = s->procedures;
    *count = s->procedure_count;
    return SPGO_OK;
}

spgo_code symbols_run_at(symbols *s, uint32_t rva, symbol_run *run, spgo_error *err)
{
    for (size_t i = 0; i < s->run_count; i++) {
        if (s->runs[i].begin_rva <= rva && rva < s->runs[i].end_rva) {
            *run = s->runs[i];
            return SPGO_OK;
        }
    }
    return spgo_fail(err, SPGO_NOT_FOUND, "test", SPGO_NO_OFFSET, "nothing at 0x%x", (unsigned)rva);
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

/* ------------------------------------------------------------------ the program */

static uint8_t code_bytes[CODE_SIZE];
static symbols fake;

static inline spgo_str text(const char *s)
{
    return (spgo_str){s, strlen(s)};
}

static inline int set_up(void **state)
{
    (void)state;
    memset(code_bytes, NOP, sizeof code_bytes);
    fake = (symbols){.info = {.source = SYMBOLS_DWARF, .image_path = "made-up"}};
    fake.segment = (code_segment){.bytes = {code_bytes, CODE_SIZE}, .is_executable = true};
    fake.image = (code_image){CODE_X64, 0, &fake.segment, 1};
    return 0;
}

static inline symbol_function function_at(const char *name, uint32_t line)
{
    return (symbol_function){.name = text(name),
                             .linkage_name = text(name),
                             .line = line,
                             .line_source = line ? SYMBOL_LINE_DECLARED : SYMBOL_LINE_NONE};
}

/* Procedures are added by rising address. */
static inline void add_procedure(const symbol_function *f, uint32_t begin, uint32_t end)
{
    size_t i = fake.procedure_count++;
    fake.pieces[i] = (flow_extent){begin, end};
    fake.procedures[i] = (symbol_procedure){
        .entry_rva = begin, .function = f, .pieces = &fake.pieces[i], .piece_count = 1};
    if (f)
        fake.procedures[i].name = f->name;
}

static inline void add_run(uint32_t begin, uint32_t end, const symbol_frame *leaf)
{
    fake.runs[fake.run_count++] = (symbol_run){begin, end, leaf};
}

typedef spgo_code correlator(const address_profile *measured, symbols *s, code_decoder *d,
                             correlate_rules rules, sampleprof *profile, correlate_tally *tally,
                             spgo_error *err);

/* The profile's text must be `wanted`. */
static inline correlate_tally expect_of(correlator *correlate, correlate_rules rules,
                                        address_range *ranges, size_t range_count,
                                        address_branch *branches, size_t branch_count,
                                        const char *wanted)
{
    address_profile measured = {ranges, branches, range_count, branch_count};
    code_decoder *d = NULL;
    spgo_error err = {0};
    assert_int_equal(code_decoder_new(&fake.image, &d, &err), SPGO_OK);
    sampleprof *profile = sampleprof_new(0);
    correlate_tally tally = {0};
    if (correlate(&measured, &fake, d, rules, profile, &tally, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    bytes got = {0};
    out o;
    assert_int_equal(out_init(&o, bytes_sink(&got), &err), SPGO_OK);
    assert_int_equal(sampleprof_write_text(profile, &o, &err), SPGO_OK);
    assert_true(out_flush(&o));
    out_free(&o);
    bytes_u8(&got, 0);
    assert_string_equal((const char *)got.ptr, wanted);
    bytes_free(&got);
    sampleprof_free(profile);
    code_decoder_free(d);
    return tally;
}

#endif
