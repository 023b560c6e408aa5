/*
 * SPT: opens the input, walks it in both ways, verifies, rewrites, filters and folds it. Both walks
 * must agree, verify must know of every failure they meet, what is written must be undamaged, and
 * neither rewriting nor folding may change what a fold sums up.
 *
 * The header's two reserved fields, which no reader looks at, choose how the writer is set up and
 * which RVAs the filter keeps.
 */
#include "fuzz.h"

#include <spgo/spt.h>

/* What a walk meets. */
typedef struct walked {
    uint64_t records; /* with entries */
    uint64_t failures;
    uint64_t checksum;
    spgo_code first_failure;
} walked;

static void add_record(walked *seen, const spgo_spt_record *r)
{
    seen->records++;
    seen->checksum = (seen->checksum ^ r->offset) * 31 + r->hits + r->program + r->opcode;
    unsigned width = spgo_spt_opcode_kind(r->opcode) == SPGO_SPT_KIND_ARC ? 8 : 4;
    for (unsigned i = 0; i < width * r->entry_count; i++)
        seen->checksum += r->entries[i];
}

static void add_failure(walked *seen, spgo_code code)
{
    if (seen->failures++ == 0)
        seen->first_failure = code;
}

static walked walk_all(const spgo_spt *spt, size_t file_size)
{
    walked seen = {0};
    spgo_spt_cursor c = spgo_spt_records(spt);
    for (;;) {
        spgo_spt_record r;
        spgo_error err;
        uint64_t before = c.pos;
        spgo_code code = spgo_spt_next(&c, &r, &err);
        if (code == SPGO_NOT_FOUND)
            return seen;
        FUZZ_CHECK(c.pos >= before && c.pos <= file_size);
        FUZZ_CHECK(code == SPGO_OK || err.offset <= file_size);
        FUZZ_CHECK(seen.failures <= file_size);
        if (code != SPGO_OK) {
            add_failure(&seen, code);
            continue;
        }
        FUZZ_CHECK(r.offset == before && c.pos == before + r.size_bytes);
        FUZZ_CHECK(r.program < spgo_spt_program_count(spt));
        if (spgo_spt_opcode_kind(r.opcode) != SPGO_SPT_KIND_NONE)
            add_record(&seen, &r);
    }
}

static walked walk_entries(const spgo_spt *spt)
{
    walked seen = {0};
    spgo_spt_cursor c = spgo_spt_records(spt);
    for (;;) {
        spgo_spt_record r;
        spgo_code code;
        while (spgo_spt_next_entries(&c, &r, &code))
            add_record(&seen, &r);
        if (code == SPGO_NOT_FOUND)
            return seen;
        FUZZ_CHECK(spgo_spt_next(&c, &r, NULL) == code);
        add_failure(&seen, code);
    }
}

static void look_at_tables(const spgo_spt *spt)
{
    size_t index = 0, at;
    spgo_str text;
    while (spgo_spt_next_string(spt, &index, &at, &text))
        FUZZ_CHECK(at < index && text.len < index);
    for (size_t i = 0; i < spgo_spt_program_count(spt); i++) {
        spgo_str name = spgo_spt_get_program(spt, i)->name;
        fuzz_read((spgo_span){(const uint8_t *)name.ptr, name.len});
    }
}

static uint64_t count_damage(spgo_span file, uint64_t *records)
{
    spgo_spt_verdict verdict;
    FUZZ_CHECK(spgo_spt_verify(file, NULL, NULL, &verdict, NULL) == SPGO_OK);
    *records = verdict.record_count;
    return verdict.damages;
}

/* Opens what was written, which must be right. */
static spgo_spt *open_written(const bytes *b)
{
    uint64_t records;
    spgo_spt *spt;
    FUZZ_CHECK(!b->failed && count_damage(bytes_span(b), &records) == 0);
    FUZZ_CHECK(spgo_spt_open(bytes_span(b), &spt, NULL) == SPGO_OK);
    return spt;
}

static spgo_spt_writer *new_writer(bytes *b, const spgo_spt_header *h)
{
    spgo_spt_writer_opts opts = {.size = sizeof opts};
    if (h->raw_data_id & 1)
        opts.buffer_bytes_max = 1 + h->raw_data_id / 4 % 4096;
    if (h->raw_data_id & 2)
        opts.segment_bytes_max = SPGO_SPT_SEGMENT_MIN + h->raw_data_id / 4 % 4096;
    spgo_spt_writer *w;
    FUZZ_CHECK(spgo_spt_writer_new(bytes_sink(b), &opts, &w, NULL) == SPGO_OK);
    return w;
}

/* The file's fold; false if its names and programs are more than one file takes. */
static bool fold(const spgo_spt *spt, const spgo_spt_header *writer, bytes *out)
{
    spgo_spt_fold *f;
    spgo_spt_tally tally = {0};
    FUZZ_CHECK(spgo_spt_fold_new(&f, NULL) == SPGO_OK);
    bool fits = spgo_spt_fold_add_file(f, spt, NULL, &tally, NULL) != SPGO_LIMIT;
    spgo_spt_writer *w = new_writer(out, writer);
    FUZZ_CHECK(spgo_spt_fold_write(f, w, &tally, NULL) == SPGO_OK);
    FUZZ_CHECK(tally.saturated || tally.hits_in == tally.hits_out || !fits);
    FUZZ_CHECK(spgo_spt_writer_finish(w, NULL) == SPGO_OK);
    spgo_spt_fold_free(f);
    return fits;
}

/* Folding what was written gives the bytes `expected`. */
static void check_fold(const bytes *written, const spgo_spt_header *writer, const bytes *expected)
{
    bytes folded = {0};
    spgo_spt *spt = open_written(written);
    FUZZ_CHECK(fold(spt, writer, &folded));
    FUZZ_CHECK(folded.len == expected->len && !memcmp(folded.ptr, expected->ptr, folded.len));
    spgo_spt_close(spt);
    bytes_free(&folded);
}

static void rewrite_and_fold(const spgo_spt *spt, const walked *seen)
{
    const spgo_spt_header *h = spgo_spt_get_header(spt);
    bytes copied = {0}, folded = {0};
    spgo_spt_tally tally = {0};
    spgo_spt_writer *w = new_writer(&copied, h);
    spgo_code code = spgo_spt_writer_add_file(w, spt, NULL, &tally, NULL);
    FUZZ_CHECK(code == SPGO_LIMIT || code == seen->first_failure);
    FUZZ_CHECK(spgo_spt_writer_finish(w, NULL) == SPGO_OK);
    bool fits = fold(spt, h, &folded);
    FUZZ_CHECK(fits == (code != SPGO_LIMIT));
    if (fits) {
        FUZZ_CHECK(tally.records_in == seen->records);
        FUZZ_CHECK(tally.saturated || tally.hits_in == tally.hits_out);
        check_fold(&copied, h, &folded);
        check_fold(&folded, h, &folded);
    }
    bytes_free(&copied);
    bytes_free(&folded);
}

static void filter(const spgo_spt *spt)
{
    static const char *const programs[] = {"*a*", "?.dll"};
    static const uint8_t opcodes[] = {SPGO_SPT_LBR, SPGO_SPT_ETW_CALLSTACK, SPGO_SPT_ETW_INSTR};
    const spgo_spt_header *h = spgo_spt_get_header(spt);
    spgo_spt_filter f = {.size = sizeof f};
    f.rva_min = h->target_arch & 0xFFFF;
    f.rva_max = h->target_arch >> 16;
    if (h->raw_data_id & 0x10000) {
        f.programs = programs;
        f.program_count = sizeof programs / sizeof programs[0];
    }
    if (h->raw_data_id & 0x20000) {
        f.opcodes = opcodes;
        f.opcode_count = sizeof opcodes / sizeof opcodes[0];
    }
    bytes kept = {0};
    spgo_spt_tally tally = {0};
    spgo_spt_writer *w = new_writer(&kept, h);
    (void)spgo_spt_writer_add_file(w, spt, &f, &tally, NULL);
    FUZZ_CHECK(spgo_spt_writer_finish(w, NULL) == SPGO_OK);
    FUZZ_CHECK(tally.hits_out <= tally.hits_in);
    spgo_spt_close(open_written(&kept));
    bytes_free(&kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spgo_span file = {data, size};
    spgo_spt *spt;
    uint64_t verified;
    uint64_t damages = count_damage(file, &verified);
    spgo_code code = spgo_spt_open(file, &spt, NULL);
    FUZZ_CHECK(code == SPGO_OK || damages > 0);
    if (!spt)
        return 0;
    walked seen = walk_all(spt, size), quick = walk_entries(spt);
    FUZZ_CHECK(seen.records == quick.records && seen.failures == quick.failures &&
               seen.checksum == quick.checksum && seen.first_failure == quick.first_failure);
    FUZZ_CHECK(seen.records == verified && damages >= seen.failures);
    look_at_tables(spt);
    if (code == SPGO_OK) {
        rewrite_and_fold(spt, &seen);
        filter(spt);
    }
    spgo_spt_close(spt);
    return 0;
}
