/*
 * Counts by address from llvm-profgen's "unsymbolized profile": the number of ranges, one
 * `start-end:count` a line, the number of branches, one `from->to:count` a line; hexadecimal,
 * counted from the program's text (symbols_info.text_rva).
 */
#ifndef PROFILE_UNSYM_H
#define PROFILE_UNSYM_H

#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <base/bytes.h>
#include <profile/address_profile.h>
#include <profile/correlate.h>
#include <spgo/spt.h>

static inline int unsym_compare_branches(const void *a, const void *b)
{
    const address_branch *x = a, *y = b;
    if (x->from_rva != y->from_rva)
        return x->from_rva < y->from_rva ? -1 : 1;
    return x->to_rva < y->to_rva ? -1 : x->to_rva > y->to_rva;
}

static inline int unsym_compare_ranges(const void *a, const void *b)
{
    const address_range *x = a, *y = b;
    if (x->begin_rva != y->begin_rva)
        return x->begin_rva < y->begin_rva ? -1 : 1;
    return x->last_rva < y->last_rva ? -1 : x->last_rva > y->last_rva;
}

static inline uint32_t unsym_rva(uint64_t offset, uint32_t text_rva)
{
    uint64_t rva = offset + text_rva;
    return rva >= UINT32_MAX || rva < text_rva ? SPGO_SPT_OUTSIDE : (uint32_t)rva;
}

/* text: NUL-terminated. */
static inline address_profile unsym_parse(const char *text, uint32_t text_rva)
{
    address_profile p = {0};
    char *at;
    p.range_count = strtoull(text, &at, 10);
    p.ranges = calloc(p.range_count + 1, sizeof *p.ranges);
    for (size_t i = 0; i < p.range_count; i++) {
        uint64_t begin = strtoull(at, &at, 16);
        uint64_t last = strtoull(at + strlen("-"), &at, 16);
        uint64_t count = strtoull(at + strlen(":"), &at, 10);
        p.ranges[i] = (address_range){unsym_rva(begin, text_rva), unsym_rva(last, text_rva), count};
    }
    p.branch_count = strtoull(at, &at, 10);
    p.branches = calloc(p.branch_count + 1, sizeof *p.branches);
    for (size_t i = 0; i < p.branch_count; i++) {
        uint64_t from = strtoull(at, &at, 16);
        uint64_t to = strtoull(at + strlen("->"), &at, 16);
        uint64_t count = strtoull(at + strlen(":"), &at, 10);
        p.branches[i] = (address_branch){unsym_rva(from, text_rva), unsym_rva(to, text_rva), count};
    }
    qsort(p.ranges, p.range_count, sizeof *p.ranges, unsym_compare_ranges);
    qsort(p.branches, p.branch_count, sizeof *p.branches, unsym_compare_branches);
    return p;
}

static inline void unsym_free(address_profile *p)
{
    free(p->ranges);
    free(p->branches);
}

/* An image with its symbols. */
typedef struct program {
    symbols *s;
    code_decoder *d;
} program;

static inline program program_open(const char *path)
{
    spgo_error err = {0};
    program p = {0};
    symbols_opts opts = {.image_path = path};
    if (symbols_open(&opts, &p.s, NULL, &err) != SPGO_OK)
        fail_msg("%s: %s", path, err.sentence);
    if (code_decoder_new(symbols_code(p.s), &p.d, &err) != SPGO_OK)
        fail_msg("%s: %s", path, err.sentence);
    return p;
}

static inline void program_close(program *p)
{
    code_decoder_free(p->d);
    symbols_close(p->s);
}

typedef spgo_code correlator(const address_profile *measured, symbols *s, code_decoder *d,
                             correlate_rules rules, sampleprof *profile, correlate_tally *tally,
                             spgo_error *err);

/* The profile by llvm-profgen's rules as text, NUL-terminated, to be freed. */
static inline char *unsym_correlate(program *p, const char *unsym, correlator *correlate,
                                    correlate_tally *tally)
{
    spgo_error err = {0};
    address_profile measured = unsym_parse(unsym, symbols_get_info(p->s)->text_rva);
    sampleprof *profile = sampleprof_new(0);
    if (correlate(&measured, p->s, p->d, CORRELATE_PROFGEN, profile, tally, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    bytes text = {0};
    out o;
    assert_int_equal(out_init(&o, bytes_sink(&text), &err), SPGO_OK);
    assert_int_equal(sampleprof_write_text(profile, &o, &err), SPGO_OK);
    assert_true(out_flush(&o));
    out_free(&o);
    bytes_u8(&text, 0);
    sampleprof_free(profile);
    unsym_free(&measured);
    return (char *)text.ptr;
}

#endif
