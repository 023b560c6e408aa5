/*
 * perf.data: opens the input, a file or a pipe-mode stream as its header says, walks it, and
 * decodes and prints every record as text and as JSON. A second walk must see the same records.
 */
#include "fuzz.h"
#include "fuzz_print.h"

#include <format/perfdata/perfdata.h>
#include <format/perfdata/perfdata_dump.h>

static void print_header(printer *p, const perfdata *file)
{
    perfdata_dump_header(&p->text, NULL, file);
    json_open_object(&p->j);
    perfdata_dump_header(NULL, &p->j, file);
    json_close_object(&p->j);
    json_end_line(&p->j);
}

/* The frames and branches of a sample, which the trace layer reads in its own way. */
static void read_sample(const perfdata *file, const perfdata_record *r)
{
    perfdata_sample s;
    if (!perfdata_decode_sample(file, r, &s))
        return;
    FUZZ_CHECK(s.attr_index == SIZE_MAX || s.attr_index < perfdata_attr_count(file));
    FUZZ_CHECK(s.callchain.len == 8 * s.callchain_count);
    FUZZ_CHECK(s.branches.len == 24 * s.branch_count);
    fuzz_read(s.callchain);
    fuzz_read(s.branches);
}

static void print_record(printer *p, const perfdata *file, const perfdata_record *r)
{
    perfdata_dump_record_fields(&p->text, NULL, file, r);
    json_open_object(&p->j);
    perfdata_dump_record_fields(NULL, &p->j, file, r);
    json_close_object(&p->j);
    json_end_line(&p->j);
}

typedef struct walked {
    uint64_t records, marks, bad_records;
    bool cut_short;
} walked;

static walked walk(printer *p, perfdata *file, diag *d)
{
    walked seen = {0};
    perfdata_walk *w;
    perfdata_record r;
    FUZZ_CHECK(perfdata_walk_new(file, d, &w, NULL) == SPGO_OK);
    while (perfdata_walk_next(w, &r)) {
        FUZZ_CHECK(r.body.len <= r.size_bytes);
        seen.records++;
        seen.marks = (seen.marks ^ r.offset ^ r.type) * 31 + r.size_bytes;
        if (p) {
            print_record(p, file, &r);
            read_sample(file, &r);
        }
    }
    seen.bad_records = perfdata_walk_bad_records(w);
    seen.cut_short = perfdata_walk_cut_short(w);
    perfdata_walk_free(w);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    printer *p = get_printer();
    static diag found;
    found = (diag){0};
    perfdata *file = NULL;
    (void)perfdata_sniff((spgo_span){data, size});
    if (perfdata_open((spgo_span){data, size}, &file, &found, NULL) != SPGO_OK) {
        perfdata_close(file);
        return 0;
    }
    print_header(p, file);
    walked first = walk(p, file, &found);
    FUZZ_CHECK(found.total > 0 || (first.bad_records == 0 && !first.cut_short));
    print_header(p, file); /* with what arrived as records */
    walked second = walk(NULL, file, NULL);
    FUZZ_CHECK(first.records == second.records && first.marks == second.marks);
    FUZZ_CHECK(first.cut_short == second.cut_short);
    perfdata_close(file);
    return 0;
}
