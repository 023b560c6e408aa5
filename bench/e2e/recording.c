/*
 * Makes of a log of branch_plugin.c what others read:
 *
 *   bench_recording LOG PROGRAM counts                 instructions and taken branches, to stdout
 *   bench_recording LOG PROGRAM branches OUT [EVERY]   perf.data of the branch samples
 *   bench_recording LOG PROGRAM ips OUT [EVERY]        perf.data of the instruction pointers
 *   bench_recording LOG PROGRAM exact OUT              exact counts: ranges, then taken branches
 *   bench_recording LOG PROGRAM exact-unsym OUT        the same as llvm-profgen wants it
 *
 * EVERY: keep one sample in so many. The exact counts are a number of lines, then
 * "begin-last:count" each, then the same for "from->to:count", in hexadecimal but for the counts of
 * lines: RVAs in `exact`, offsets from the first executable page for llvm-profgen. Only what lies
 * in the program is told; a range may end where a page does, so the count of an instruction is the
 * sum of the ranges that cover it.
 */
#include "branch_log.h"

#include <base/out.h>
#include <base/reader.h>
#include <base/text.h>
#include <format/elf/elf.h>
#include <os/file.h>
#include <perfdata_build.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, PID = 1000, BRANCH_PREDICTED = 2 };

typedef struct recording {
    reader records; /* behind the header */
    uint64_t code_start, code_end;
    uint64_t branch_period, ip_period;
    elf_image elf;
    const elf_segment *text;
    uint64_t load_bias;
    const char *program_path;
    uint64_t every;
} recording;

/* One record; which fields hold is said by its kind. */
typedef struct log_record {
    uint64_t kind, time;
    uint64_t branch_count;
    uint64_t branches[BRANCH_LOG_DEPTH][3]; /* {from, to, flags}, newest first */
    uint64_t ip;
    uint64_t begin, last, instructions, to, count, taken;
} log_record;

/* False at the end, or where the log is damaged: then r->code is set. */
static bool next_record(reader *r, log_record *record)
{
    *record = (log_record){.kind = reader_u64(r)};
    switch (record->kind) {
    case BRANCH_LOG_BRANCHES:
        record->time = reader_u64(r);
        record->branch_count = reader_u64(r);
        if (record->branch_count > BRANCH_LOG_DEPTH)
            reader_fail(r, SPGO_CORRUPT, reader_offset(r));
        for (size_t i = 0; r->code == SPGO_OK && i < record->branch_count; i++) {
            record->branches[i][0] = reader_u64(r);
            record->branches[i][1] = reader_u64(r);
            record->branches[i][2] = BRANCH_PREDICTED;
        }
        break;
    case BRANCH_LOG_IP:
        record->time = reader_u64(r);
        record->ip = reader_u64(r);
        break;
    case BRANCH_LOG_STEP:
        record->begin = reader_u64(r);
        record->last = reader_u64(r);
        record->instructions = reader_u64(r);
        record->to = reader_u64(r);
        record->count = reader_u64(r);
        record->taken = reader_u64(r);
        break;
    case BRANCH_LOG_END:
        return false;
    default:
        reader_fail(r, SPGO_CORRUPT, reader_offset(r) - 8);
    }
    return r->code == SPGO_OK;
}

static spgo_code end_of(const reader *r, spgo_error *err)
{
    return r->code == SPGO_OK ? SPGO_OK
                              : spgo_fail(err, r->code, "recording", r->bad_off,
                                          "the log ends early or is damaged; record again");
}

static bool is_in_program(const recording *rec, uint64_t addr)
{
    return addr >= rec->code_start && addr < rec->code_end;
}

static spgo_code open_recording(spgo_span log, spgo_span program, recording *rec, spgo_error *err)
{
    reader r = reader_from(log, 0);
    bool is_log = reader_u64(&r) == BRANCH_LOG_MAGIC;
    rec->code_start = reader_u64(&r);
    rec->code_end = reader_u64(&r);
    bool has_threads = reader_u64(&r) != 0;
    rec->branch_period = reader_u64(&r);
    rec->ip_period = reader_u64(&r);
    rec->records = r;
    if (r.code || !is_log)
        return spgo_fail(err, SPGO_CORRUPT, "recording", 0,
                         "no complete log of the branch plugin; record again");
    if (has_threads)
        return spgo_fail(err, SPGO_UNSUPPORTED, "recording", 0,
                         "the program ran several threads; only programs with one are measured");
    SPGO_TRY(elf_read(program, &rec->elf, err));
    for (size_t i = 0; i < rec->elf.segment_count && !rec->text; i++)
        if (rec->elf.segments[i].flags & ELF_SEGMENT_EXECUTE)
            rec->text = &rec->elf.segments[i];
    if (!rec->text)
        return spgo_fail(err, SPGO_CORRUPT, "recording", 0,
                         "the program has no executable segment");
    rec->load_bias = rec->code_start - rec->text->vaddr;
    return SPGO_OK;
}

/* ------------------------------------------------------------------ counts */

static spgo_code print_counts(const recording *rec, spgo_error *err)
{
    reader r = rec->records;
    log_record record;
    uint64_t instructions[2] = {0}, taken[2] = {0}, samples[2] = {0}; /* total, in the program */
    while (next_record(&r, &record)) {
        samples[0] += record.kind == BRANCH_LOG_BRANCHES;
        samples[1] += record.kind == BRANCH_LOG_IP;
        for (int i = 0; i <= is_in_program(rec, record.begin); i++) {
            instructions[i] += record.instructions * record.count;
            taken[i] += record.taken * record.count;
        }
    }
    SPGO_TRY(end_of(&r, err));
    printf("instructions %" PRIu64 "\nprogram_instructions %" PRIu64 "\n", instructions[0],
           instructions[1]);
    printf("taken_branches %" PRIu64 "\nprogram_taken_branches %" PRIu64 "\n", taken[0], taken[1]);
    printf("branch_samples %" PRIu64 "\nip_samples %" PRIu64 "\n", samples[0], samples[1]);
    return SPGO_OK;
}

/* ------------------------------------------------------------------ ranges and branches */

typedef struct pair {
    uint64_t first, second, count;
} pair;

typedef struct pairs {
    pair *items;
    size_t count, capacity;
} pairs;

static void add_pair(pairs *p, uint64_t first, uint64_t second, uint64_t count)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 1024;
        p->items = realloc(p->items, p->capacity * sizeof *p->items);
        if (!p->items)
            abort();
    }
    p->items[p->count++] = (pair){first, second, count};
}

static int compare_pairs(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return (a->second > b->second) - (a->second < b->second);
}

static void sum_equal_pairs(pairs *p)
{
    if (p->count == 0)
        return;
    qsort(p->items, p->count, sizeof *p->items, compare_pairs);
    size_t kept = 0;
    for (size_t i = 1; i < p->count; i++) {
        if (compare_pairs(&p->items[kept], &p->items[i]) == 0)
            p->items[kept].count += p->items[i].count;
        else
            p->items[++kept] = p->items[i];
    }
    p->count = kept + 1;
}

static void write_pairs(out *o, pairs *p, const char *arrow, uint64_t base)
{
    sum_equal_pairs(p);
    out_printf(o, "%zu\n", p->count);
    for (size_t i = 0; i < p->count; i++)
        out_printf(o, "%" PRIx64 "%s%" PRIx64 ":%" PRIu64 "\n", p->items[i].first - base, arrow,
                   p->items[i].second - base, p->items[i].count);
    free(p->items);
}

static spgo_code write_exact(const recording *rec, uint64_t base, spgo_sink sink, spgo_error *err)
{
    reader r = rec->records;
    log_record record;
    pairs ranges = {0}, branches = {0};
    while (next_record(&r, &record)) {
        if (record.kind != BRANCH_LOG_STEP || !is_in_program(rec, record.begin))
            continue;
        add_pair(&ranges, record.begin, record.last, record.count);
        if (record.taken && is_in_program(rec, record.to))
            add_pair(&branches, record.last, record.to, record.count);
    }
    SPGO_TRY(end_of(&r, err));
    out o;
    SPGO_TRY(out_init(&o, sink, err));
    write_pairs(&o, &ranges, "-", base);
    write_pairs(&o, &branches, "->", base);
    out_flush(&o);
    out_free(&o);
    return SPGO_OK; /* a failure to write is told by the commit */
}

/* ------------------------------------------------------------------ perf.data */

static void put_process(const recording *rec, perfdata_build *b)
{
    perfdata_build_id_fields sid = {.pid = PID, .tid = PID};
    const elf_segment *text = rec->text;
    uint64_t addr = (rec->load_bias + text->vaddr) / PAGE_BYTES * PAGE_BYTES;
    uint64_t end = rec->load_bias + text->vaddr + text->mem_size;
    spgo_str name = text_base_name(text_str(rec->program_path));
    perfdata_build_comm(b, PID, PID, name.ptr, true, &sid);
    perfdata_build_mmap2(
        b, &(perfdata_build_map){.pid = PID,
                                 .tid = PID,
                                 .addr = addr,
                                 .len = (end - addr + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
                                 .pgoff = text->offset / PAGE_BYTES * PAGE_BYTES,
                                 .prot = 5, /* read, execute */
                                 .misc = 2, /* user */
                                 .path = rec->program_path,
                                 .sid = sid});
    if (rec->elf.build_id_size > 0)
        perfdata_build_add_build_id(b, PID, 2, rec->elf.build_id, (uint8_t)rec->elf.build_id_size,
                                    rec->program_path);
}

static spgo_code write_perfdata(const recording *rec, uint64_t kind, spgo_sink sink,
                                spgo_error *err)
{
    enum {
        IP = 1,
        TID = 2,
        TIME = 4,
        BRANCH_STACK = 0x800,
        CONFIG_INSTRUCTIONS = 1,
        CONFIG_BRANCHES = 4
    };
    const perfdata_build_event events[2] = {{.name = "branches:u",
                                             .config = CONFIG_BRANCHES,
                                             .period = rec->branch_period,
                                             .sample_type = IP | TID | TIME | BRANCH_STACK,
                                             .branch_sample_type = 9 /* any, user */},
                                            {.name = "instructions:u",
                                             .config = CONFIG_INSTRUCTIONS,
                                             .period = rec->ip_period,
                                             .sample_type = IP | TID | TIME}};
    bool of_branches = kind == BRANCH_LOG_BRANCHES;
    perfdata_build *b = perfdata_build_new(sink, &(perfdata_build_opts){.arch = "x86_64"},
                                           &events[!of_branches], 1);
    put_process(rec, b);
    reader r = rec->records;
    log_record record;
    uint64_t seen = 0;
    while (next_record(&r, &record)) {
        if (record.kind != kind || seen++ % rec->every != 0)
            continue;
        perfdata_build_sample_record(
            b, &(perfdata_build_sample){.misc = 2, /* user */
                                        .ip = of_branches ? record.branches[0][1] : record.ip,
                                        .pid = PID,
                                        .tid = PID,
                                        .time_ns = 1000000000 + 1000 * seen,
                                        .branches = (const uint64_t(*)[3])record.branches,
                                        .branch_count = (size_t)record.branch_count});
    }
    perfdata_build_finish(b);
    return end_of(&r, err);
}

/* ------------------------------------------------------------------ command line */

static spgo_code write_as(const recording *rec, const char *form, spgo_sink sink, spgo_error *err)
{
    uint64_t rva_base = rec->load_bias + rec->elf.base_vaddr;
    uint64_t page_base = rec->load_bias + rec->text->vaddr / PAGE_BYTES * PAGE_BYTES;
    if (strcmp(form, "branches") == 0)
        return write_perfdata(rec, BRANCH_LOG_BRANCHES, sink, err);
    if (strcmp(form, "ips") == 0)
        return write_perfdata(rec, BRANCH_LOG_IP, sink, err);
    if (strcmp(form, "exact") == 0)
        return write_exact(rec, rva_base, sink, err);
    if (strcmp(form, "exact-unsym") == 0)
        return write_exact(rec, page_base, sink, err);
    return spgo_fail(err, SPGO_USAGE, "recording", 0, "no form is called '%s'", form);
}

static spgo_code run(int argc, char **argv, os_input **log, os_input **program, spgo_error *err)
{
    recording rec = {.program_path = argv[2], .every = 1};
    if (argc == 6)
        rec.every = strtoull(argv[5], NULL, 10);
    if (rec.every == 0)
        return spgo_fail(err, SPGO_USAGE, "recording", 0, "EVERY is a number from 1 on");
    SPGO_TRY(os_input_open(argv[1], log, err));
    SPGO_TRY(os_input_open(argv[2], program, err));
    SPGO_TRY(open_recording(os_input_bytes(*log), os_input_bytes(*program), &rec, err));
    if (argc == 4)
        return print_counts(&rec, err);
    os_output *file;
    SPGO_TRY(os_output_open(argv[4], &file, err));
    spgo_code code = write_as(&rec, argv[3], os_output_sink(file), err);
    if (code == SPGO_OK)
        return os_output_commit(file, err);
    os_output_discard(file);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 6 || (argc == 4) != (strcmp(argv[3], "counts") == 0)) {
        fputs("usage: bench_recording LOG PROGRAM counts\n"
              "       bench_recording LOG PROGRAM branches|ips OUT [EVERY]\n"
              "       bench_recording LOG PROGRAM exact|exact-unsym OUT\n",
              stderr);
        return 2;
    }
    os_input *log = NULL, *program = NULL;
    spgo_error err = {0};
    spgo_code code = run(argc, argv, &log, &program, &err);
    if (code != SPGO_OK)
        fprintf(stderr, "bench_recording: %s: %s\n", argv[1], err.sentence);
    os_input_close(log);
    os_input_close(program);
    return code == SPGO_OK ? 0 : 1;
}
