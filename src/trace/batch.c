/* Batches of samples, as the sessions fill them, and how far the filling is. */
#include <trace/trace_internal.h>

#include <stdlib.h>

void trace_batch_free(trace_batch *b)
{
    free(b->samples);
    free(b->addrs);
    *b = (trace_batch){0};
}

bool batch_is_full(const trace_batch *b)
{
    return b->count >= BATCH_SAMPLES || b->addr_count >= BATCH_ADDRS;
}

static bool grow_addrs(trace_batch *b, size_t need)
{
    size_t cap = b->addr_cap ? b->addr_cap : BATCH_ADDRS + BATCH_ADDRS / 8;
    while (cap < need)
        cap *= 2;
    uint64_t *grown = realloc(b->addrs, cap * sizeof *grown);
    if (!grown)
        return false;
    b->addrs = grown;
    b->addr_cap = cap;
    return true;
}

uint64_t *batch_add(trace_batch *b, const trace_sample *sample, size_t addr_count)
{
    if (b->count == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : BATCH_SAMPLES;
        trace_sample *grown = realloc(b->samples, cap * sizeof *grown);
        if (!grown)
            return NULL;
        b->samples = grown;
        b->cap = cap;
    }
    if (b->addr_count + addr_count > b->addr_cap && !grow_addrs(b, b->addr_count + addr_count))
        return NULL;
    trace_sample *s = &b->samples[b->count++];
    *s = *sample;
    s->addr_first = (uint32_t)b->addr_count;
    s->addr_count = (uint32_t)addr_count;
    b->addr_count += addr_count;
    return b->addrs + s->addr_first;
}

void trace_report_progress(trace *t, uint64_t done_bytes)
{
    t->done_bytes = done_bytes;
    if (t->opts.progress)
        t->opts.progress(t->opts.progress_ctx, done_bytes, t->total_bytes);
}
