/*
 * The whole way from a recording to an SPT file: the input, ETL or perf.data, is opened as a trace
 * and aggregated. What comes out must be undamaged, hold as many hits as the tally says, and every
 * part of a sample must be used or be dropped for a reason.
 *
 * The layers below open files by name. This target takes the place of the os layer's inputs, so
 * that a run touches no file and each input is a block of its own size: the trace is the only file,
 * except that some of the images a recording names are there, one small ELF program for all.
 */
#include "fuzz.h"
#include "fuzz_etl.h"

#include <aggregate/aggregate.h>
#include <os/file.h>
#include <os/system.h>
#include <spgo/spt.h>

/* ------------------------------------------------------------------ the files */

static const char trace_name[] = "trace";
static spgo_span trace_bytes;

/* One stretch of code, at file offset 0x1000 and at 0x3000 in memory, and a build-id. */
/* clang-format off */
static const uint8_t elf_program[] = {
    /* header: 64 bits, little-endian, shared, x86-64; two program headers behind it */
    0x7F, 0x45, 0x4C, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0x3E, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0x40, 0, 0x38, 0, 2, 0, 0, 0, 0, 0, 0, 0,
    /* PT_LOAD, read and execute */
    1, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
    0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0,
    0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
    0, 0x10, 0, 0, 0, 0, 0, 0,
    /* PT_NOTE */
    4, 0, 0, 0, 4, 0, 0, 0, 0xB0, 0, 0, 0, 0, 0, 0, 0,
    0xB0, 0, 0, 0, 0, 0, 0, 0, 0xB0, 0, 0, 0, 0, 0, 0, 0,
    0x18, 0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0,
    4, 0, 0, 0, 0, 0, 0, 0,
    /* its note */
    4, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0x47, 0x4E, 0x55, 0,
    0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8,
};
/* clang-format on */

struct os_input {
    spgo_span bytes;
};

spgo_code os_input_open(const char *path, os_input **in, spgo_error *err)
{
    (void)err;
    *in = malloc(sizeof **in);
    FUZZ_CHECK(*in);
    bool is_trace = strcmp(path, trace_name) == 0;
    (*in)->bytes = is_trace ? trace_bytes : (spgo_span){elf_program, sizeof elf_program};
    return SPGO_OK;
}

spgo_span os_input_bytes(const os_input *in)
{
    return in->bytes;
}

void os_input_close(os_input *in)
{
    free(in);
}

void os_input_release(os_input *in, uint64_t offset)
{
    FUZZ_CHECK(offset <= in->bytes.len);
}

void os_input_sequential(os_input *in)
{
    (void)in;
}

/* Every other image is there. */
bool os_is_regular_file(const char *path)
{
    return strlen(path) % 2 == 0;
}

unsigned os_cpu_count(void)
{
    return 1;
}

/* ------------------------------------------------------------------ the checks */

static uint64_t count_hits(const bytes *b, bool *saturated)
{
    spgo_spt_verdict verdict;
    spgo_spt *spt;
    spgo_spt_fold *fold;
    spgo_spt_tally tally = {0};
    FUZZ_CHECK(spgo_spt_verify(bytes_span(b), NULL, NULL, &verdict, NULL) == SPGO_OK);
    FUZZ_CHECK(verdict.damages == 0);
    FUZZ_CHECK(spgo_spt_open(bytes_span(b), &spt, NULL) == SPGO_OK);
    FUZZ_CHECK(spgo_spt_fold_new(&fold, NULL) == SPGO_OK);
    FUZZ_CHECK(spgo_spt_fold_add_file(fold, spt, NULL, &tally, NULL) == SPGO_OK);
    spgo_spt_fold_free(fold);
    spgo_spt_close(spt);
    *saturated = tally.saturated;
    return tally.hits_in;
}

static void check_result(const bytes *b, const aggregate_result *result)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < result->program_count; i++)
        hits += result->programs[i].hits;
    bool saturated;
    uint64_t written = count_hits(b, &saturated);
    FUZZ_CHECK(saturated || written == hits);
    for (size_t i = 0; i < 3; i++) {
        const aggregate_part *part = &result->tally.parts[i];
        uint64_t explained = part->used;
        for (size_t k = 0; k < AGGREGATE_DROP_COUNT; k++)
            explained += part->dropped[k];
        FUZZ_CHECK(explained == part->seen);
    }
}

static void aggregate(size_t copies, const aggregate_opts *opts)
{
    const char *const paths[] = {trace_name, trace_name};
    trace *t;
    const char *failed_path = NULL;
    spgo_error err = {0};
    if (trace_open(paths, copies, NULL, &t, &failed_path, &err) != SPGO_OK) {
        FUZZ_CHECK(err.sentence[0] != '\0');
        return;
    }
    bytes b = {0};
    aggregate_result result;
    spgo_code code = aggregate_to_spt(t, opts, bytes_sink(&b), &result, &err);
    FUZZ_CHECK(code == SPGO_OK || err.code == code);
    if (code == SPGO_OK)
        check_result(&b, &result);
    aggregate_result_free(&result);
    bytes_free(&b);
    trace_close(t);
}

static bool takes_too_long(spgo_span input)
{
    etl_file *f;
    if (etl_open(input, &f, NULL, NULL) != SPGO_OK)
        return false;
    bool too_long = fuzz_is_too_large(f);
    etl_close(f);
    return too_long;
}

/* The input's size chooses the options. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"*a*"};
    aggregate_opts opts = {.threads = 1};
    opts.no_kernel = size % 2 == 1;
    opts.require_id = size % 8 == 7;
    if (size % 4 == 3) {
        opts.processes = names;
        opts.process_count = 1;
    }
    trace_bytes = (spgo_span){data, size};
    if (takes_too_long(trace_bytes))
        return 0;
    aggregate(size % 8 == 2 ? 2 : 1, &opts);
    return 0;
}
