/* One batch of samples into SPT records: the part of the aggregation that runs in parallel. */
#ifndef AGGREGATE_CONVERT_H
#define AGGREGATE_CONVERT_H

#include <aggregate/aggregate.h>

/* SPT records to be written in this order: for each a head of RECORD_HEAD words {module,
 * opcode | entries << 8, hits low, hits high}, then the entries as the record has them. */
enum { RECORD_HEAD = 4 };
typedef struct record_list {
    uint32_t *words;
    size_t count, cap;
    bool failed;
} record_list;
void record_list_free(record_list *l);

/* What stays the same for all batches. */
typedef struct converter_shared {
    const trace *t;
    const aggregate_opts *opts;
} converter_shared;

/* One worker's state. */
typedef struct converter converter;
converter *converter_new(const converter_shared *shared); /* NULL without memory */
void converter_free(converter *c);

/* Replaces the content of `out`; the same batch always gives the same records. False without
 * memory. */
bool converter_run(converter *c, const trace_batch *batch, record_list *out);
const aggregate_tally *converter_tally(const converter *c);

#endif
