/*
 * ETL: indexes the input, walks its buffers, reads it in time order, and decodes and prints every
 * record as text and as JSON. Walk and stream must see the same records, and damage must be counted
 * where a diagnosis is.
 */
#include "fuzz.h"
#include "fuzz_etl.h"
#include "fuzz_print.h"

#include <format/etl/etl.h>
#include <format/etl/etl_dump.h>
#include <format/etl/etl_tally.h>

static void print_file(printer *p, const etl_file *f)
{
    etl_dump_header(&p->text, NULL, f);
    json_open_object(&p->j);
    etl_dump_header(NULL, &p->j, f);
    json_close_object(&p->j);
    json_end_line(&p->j);
    for (size_t i = 0; i < etl_buffer_count(f); i++) {
        etl_dump_buffer(&p->text, NULL, f, i);
        json_open_object(&p->j);
        etl_dump_buffer(NULL, &p->j, f, i);
        json_close_object(&p->j);
        json_end_line(&p->j);
    }
}

/* What only the trace layer reads in full. */
static void decode_more(const etl_record *r)
{
    etl_sample sample;
    etl_lbr lbr;
    for (size_t i = 0; i < etl_sample_cache_count(r); i++)
        FUZZ_CHECK(etl_decode_cached_sample(r, i, &sample));
    if (etl_record_event(r) == ETL_EV_LBR && etl_decode_lbr(r, &lbr)) {
        FUZZ_CHECK(lbr.branches.len == lbr.branch_count * 3 * r->ptr_size);
        fuzz_read(lbr.branches);
    }
    fuzz_read(r->payload);
    fuzz_read(r->extended);
    fuzz_read(r->pmc_values);
}

static void print_record(printer *p, const etl_record *r)
{
    char kind[ETL_KIND_NAME_SIZE];
    etl_kind_name(kind, r);
    FUZZ_CHECK(kind[0] != '\0');
    (void)etl_record_type_name(r->type);
    etl_dump_record_fields(&p->text, NULL, r);
    json_open_object(&p->j);
    etl_dump_record_fields(NULL, &p->j, r);
    json_close_object(&p->j);
    json_end_line(&p->j);
    decode_more(r);
}

/* A sum that does not depend on the order. */
static uint64_t mark(const etl_record *r)
{
    uint64_t h = (r->buffer_off << 20 ^ r->offset) * 0x9E3779B97F4A7C15u + r->size_bytes;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u + r->payload.len + r->opcode;
}

typedef struct walked {
    uint64_t records, marks;
    uint64_t bad_records, bad_buffers;
} walked;

static walked walk_buffers(printer *p, const etl_file *f, diag *d)
{
    walked seen = {0};
    etl_tally *tally = etl_tally_new();
    FUZZ_CHECK(tally);
    etl_walk w = etl_walk_new(f, d);
    etl_record r;
    for (size_t i = 0; i < etl_buffer_count(f); i++) {
        for (bool ok = etl_walk_buffer(&w, i); ok && etl_walk_next(&w, &r);) {
            FUZZ_CHECK(r.payload.len <= r.size_bytes);
            seen.records++;
            seen.marks += mark(&r);
            print_record(p, &r);
            FUZZ_CHECK(etl_tally_add(tally, &r));
        }
    }
    seen.bad_records = w.bad_records;
    seen.bad_buffers = w.bad_buffers;
    FUZZ_CHECK(etl_tally_kind_count(tally) <= seen.records);
    FUZZ_CHECK(etl_dump_tally(&p->text, NULL, tally));
    json_open_object(&p->j);
    FUZZ_CHECK(etl_dump_tally(NULL, &p->j, tally));
    json_close_object(&p->j);
    etl_tally_free(tally);
    etl_walk_free(&w);
    return seen;
}

/* The records of the file given `copies` times. */
static walked stream(const etl_file *f, size_t copies)
{
    const etl_file *const files[] = {f, f};
    walked seen = {0};
    etl_stream *s;
    etl_record r;
    size_t file;
    FUZZ_CHECK(etl_stream_open(files, copies, NULL, &s, NULL) == SPGO_OK);
    while (etl_stream_next(s, &r, &file)) {
        FUZZ_CHECK(file < copies && etl_stream_done_until(s, file) <= r.buffer_off);
        seen.records++;
        seen.marks += mark(&r);
    }
    seen.bad_records = etl_stream_bad_records(s);
    seen.bad_buffers = etl_stream_bad_buffers(s);
    etl_stream_close(s);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    printer *p = get_printer();
    static diag found;
    found = (diag){0};
    etl_file *f = NULL;
    (void)etl_sniff((spgo_span){data, size});
    if (etl_open((spgo_span){data, size}, &f, &found, NULL) != SPGO_OK) {
        etl_close(f);
        return 0;
    }
    print_file(p, f);
    if (fuzz_is_too_large(f)) {
        etl_close(f);
        return 0;
    }
    walked walk = walk_buffers(p, f, &found);
    FUZZ_CHECK(found.total >= walk.bad_records);
    walked once = stream(f, 1);
    FUZZ_CHECK(once.records == walk.records && once.marks == walk.marks);
    FUZZ_CHECK(once.bad_records == walk.bad_records && once.bad_buffers == walk.bad_buffers);
    walked twice = stream(f, 2);
    FUZZ_CHECK(twice.records == 2 * walk.records && twice.marks == 2 * walk.marks);
    etl_close(f);
    return 0;
}
