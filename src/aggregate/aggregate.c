/*
 * The way from trace to SPT: see aggregate.h.
 *
 * One thread, the owner, reads batches, since only it can; converting them and writing their
 * records is done by whoever is free. The batches stand in a ring: the owner fills the next free
 * one when there is one, and otherwise does what the workers do instead of waiting: write the
 * oldest batch if it is converted and nobody else is writing, else convert one. Batches are written
 * one at a time and in the order of the trace, so the output is the same whatever the number of
 * threads, and one thread needs no other.
 */
#include <aggregate/convert.h>

#include <base/fail.h>
#include <os/system.h>
#include <spgo/spt.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, USUAL_THREADS_MAX = 8 };

const char *aggregate_drop_name(aggregate_drop reason)
{
    static const char *const names[AGGREGATE_DROP_COUNT] = {
        [AGGREGATE_NO_PROCESS] = "no-process",           [AGGREGATE_NO_IMAGE] = "no-image",
        [AGGREGATE_WRONG_PROCESS] = "wrong-process",     [AGGREGATE_KERNEL] = "kernel",
        [AGGREGATE_OTHER_PROCESS] = "other-process",     [AGGREGATE_OTHER_BINARY] = "other-binary",
        [AGGREGATE_CROSS_MODULE] = "cross-module",       [AGGREGATE_EMPTY] = "empty",
        [AGGREGATE_UNKNOWN_COUNTER] = "unknown-counter", [AGGREGATE_FAR_RVA] = "far-rva",
    };
    return names[reason];
}

const char *aggregate_drop_text(aggregate_drop reason)
{
    static const char *const texts[AGGREGATE_DROP_COUNT] = {
        [AGGREGATE_NO_PROCESS] = "the process or thread is not in the trace",
        [AGGREGATE_NO_IMAGE] = "no image is known at the address (generated code, for one)",
        [AGGREGATE_WRONG_PROCESS] =
            "in no image of its process but in one of another: recorded for the wrong process",
        [AGGREGATE_KERNEL] = "in the kernel, left out by /nokernel",
        [AGGREGATE_OTHER_PROCESS] = "of another process, left out by /process",
        [AGGREGATE_OTHER_BINARY] = "in another image, left out by /binary",
        [AGGREGATE_CROSS_MODULE] =
            "its ends lie in different images (a branch keeps each wanted end)",
        [AGGREGATE_EMPTY] = "branch slots that were never filled",
        [AGGREGATE_UNKNOWN_COUNTER] = "of a counter that SPT has no opcode for",
        [AGGREGATE_FAR_RVA] = "beyond 4 GiB of its image, which SPT cannot hold",
    };
    return texts[reason];
}

void aggregate_result_free(aggregate_result *r)
{
    free(r->programs);
    *r = (aggregate_result){0};
}

/* ------------------------------------------------------------------ writing */

typedef struct spt_output {
    spgo_spt_writer *writer;
    const module_table *modules;
    uint32_t *program_of; /* module -> index in programs + 1; 0: not yet */
    aggregate_program *programs;
    size_t program_count;
    uint64_t without_id;
    bool require_id;
} spt_output;

static spgo_code start_output(spt_output *o, const trace *t, const aggregate_opts *opts,
                              spgo_sink sink, spgo_error *err)
{
    o->modules = trace_modules(t);
    o->require_id = opts->require_id;
    size_t n = module_table_count(o->modules);
    o->program_of = calloc(n ? n : 1, sizeof *o->program_of);
    o->programs = calloc(n ? n : 1, sizeof *o->programs);
    if (!o->program_of || !o->programs)
        return spgo_fail_nomem(err, "aggregate", n * sizeof *o->programs);
    return spgo_spt_writer_new(sink, NULL, &o->writer, err);
}

static spgo_code add_program(spt_output *o, uint32_t module, spgo_error *err)
{
    const trace_module *m = module_table_get(o->modules, module);
    static const spgo_image_id no_id;
    uint16_t index;
    if (!m->has_id && o->require_id)
        return spgo_fail(err, SPGO_NOT_FOUND, "aggregate", SPGO_NO_OFFSET,
                         "%.*s has no identity in this trace (no RSDS record or build-id), and "
                         "/require-id asks for one; merge the ETL file with image ids (xperf "
                         "-merge) or record with build-ids",
                         (int)m->name.len, m->name.ptr);
    SPGO_TRY(spgo_spt_writer_program(o->writer, m->has_id ? &m->id : &no_id, m->name, &index, err));
    o->without_id += !m->has_id;
    if (index == o->program_count)
        o->programs[o->program_count++].module = module;
    o->program_of[module] = (uint32_t)index + 1;
    return SPGO_OK;
}

static uint64_t unit_count(uint8_t opcode, unsigned entry_count)
{
    return opcode == SPGO_SPT_ETW_CALLSTACK ? entry_count - 1u : entry_count;
}

static spgo_code write_records(spt_output *o, const record_list *records, spgo_error *err)
{
    for (size_t at = 0; at < records->count;) {
        const uint32_t *p = records->words + at;
        uint32_t module = p[0];
        uint8_t opcode = (uint8_t)p[1];
        unsigned n = p[1] >> 8;
        uint64_t hits = p[2] | (uint64_t)p[3] << 32;
        if (o->program_of[module] == 0)
            SPGO_TRY(add_program(o, module, err));
        uint16_t program = (uint16_t)(o->program_of[module] - 1);
        SPGO_TRY(spgo_spt_writer_add(o->writer, program, opcode, p + RECORD_HEAD, n, hits, err));
        o->programs[program].hits += unit_count(opcode, n) * hits;
        at += RECORD_HEAD + (opcode == SPGO_SPT_LBR ? 2 * n : n);
    }
    return SPGO_OK;
}

/* ------------------------------------------------------------------ the ring */

typedef enum slot_state { SLOT_FREE, SLOT_FILLED, SLOT_TAKEN, SLOT_DONE } slot_state;

typedef struct slot {
    trace_batch batch;
    record_list records;
    slot_state state;
} slot;

typedef struct ring {
    slot *slots;
    size_t slot_count;
    size_t next_fill, next_write, next_convert; /* numbers of batches, modulo slot_count */
    bool ends;                                  /* nothing more will be filled: workers go home */
    bool failed;                                /* a worker found no memory */
    bool writing;                               /* somebody uses the output */
    spt_output *output;
    spgo_error write_error; /* the first; nothing is written after it */
    pthread_mutex_t lock;
    pthread_cond_t filled; /* for workers: there is a batch to convert */
    pthread_cond_t moved;  /* for the owner: a batch was converted or written */
} ring;

typedef struct worker {
    pthread_t thread;
    ring *r;
    converter *c;
} worker;

/* Takes the oldest filled slot; NULL if there is none. The lock is held. */
static slot *take_filled(ring *r)
{
    if (r->next_convert == r->next_fill)
        return NULL;
    slot *s = &r->slots[r->next_convert++ % r->slot_count];
    s->state = SLOT_TAKEN;
    return s;
}

/* Converts a taken slot without the lock, which is held before and after. */
static void convert_taken(ring *r, slot *s, converter *c)
{
    pthread_mutex_unlock(&r->lock);
    bool ok = converter_run(c, &s->batch, &s->records);
    pthread_mutex_lock(&r->lock);
    s->state = SLOT_DONE;
    r->failed |= !ok;
    pthread_cond_signal(&r->moved);
}

/* Writes the oldest batch if it can be; false if not. The lock is held before and after, and free
 * in between. Whoever makes a batch the oldest converted one, by converting or by writing, comes
 * here next, so none is left lying. */
static bool write_oldest(ring *r)
{
    slot *s = &r->slots[r->next_write % r->slot_count];
    if (r->failed || r->writing || r->write_error.code != SPGO_OK ||
        r->next_write == r->next_fill || s->state != SLOT_DONE)
        return false; /* not after a failure: a batch that is not whole would look written */
    spgo_error err = {0};
    r->writing = true;
    pthread_mutex_unlock(&r->lock);
    err.code = write_records(r->output, &s->records, &err);
    pthread_mutex_lock(&r->lock);
    r->writing = false;
    r->write_error = err;
    s->state = SLOT_FREE;
    r->next_write++;
    pthread_cond_signal(&r->moved);
    return true;
}

/* One step of the work that anybody can do; false if there is none. */
static bool help(ring *r, converter *c)
{
    if (write_oldest(r))
        return true;
    slot *s = take_filled(r);
    if (s)
        convert_taken(r, s, c);
    return s != NULL;
}

static void *work(void *arg)
{
    worker *w = arg;
    ring *r = w->r;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        if (help(r, w->c))
            continue;
        if (r->ends)
            break;
        pthread_cond_wait(&r->filled, &r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Fills the next slot; false when the trace has no more. */
static bool fill_next(ring *r, trace *t, spgo_error *err)
{
    slot *s = &r->slots[r->next_fill % r->slot_count];
    pthread_mutex_unlock(&r->lock);
    bool more = trace_read(t, &s->batch, err);
    pthread_mutex_lock(&r->lock);
    if (!more)
        return false;
    s->state = SLOT_FILLED;
    r->next_fill++;
    pthread_cond_signal(&r->filled);
    return true;
}

/* Reads, and converts and writes where that is due, until the trace ends. The lock is held. */
static spgo_code run_ring(ring *r, trace *t, converter *own, spgo_error *err)
{
    bool more = true;
    spgo_error read_error = {0};
    while (more || r->next_write < r->next_fill) {
        if (r->failed)
            return spgo_fail_nomem(err, "aggregate", sizeof(uint32_t));
        if (r->write_error.code != SPGO_OK)
            break;
        if (more && r->next_fill - r->next_write < r->slot_count)
            more = fill_next(r, t, &read_error);
        else if (!help(r, own))
            pthread_cond_wait(&r->moved, &r->lock);
    }
    if (r->write_error.code != SPGO_OK)
        read_error = r->write_error;
    if (read_error.code != SPGO_OK && err)
        *err = read_error;
    return read_error.code;
}

static void add_tally(aggregate_tally *into, const aggregate_tally *from)
{
    for (size_t i = 0; i < sizeof into->parts / sizeof into->parts[0]; i++) {
        aggregate_part *a = &into->parts[i];
        const aggregate_part *b = &from->parts[i];
        a->seen += b->seen;
        a->used += b->used;
        for (size_t k = 0; k < AGGREGATE_DROP_COUNT; k++)
            a->dropped[k] += b->dropped[k];
    }
    into->lbr_records_used += from->lbr_records_used;
    into->stacks_used += from->stacks_used;
    into->bogus_ranges += from->bogus_ranges;
    into->spt_records += from->spt_records;
}

/* Starts the other threads; as many as the system grants. */
static unsigned start_workers(worker *workers, unsigned want, ring *r,
                              const converter_shared *shared)
{
    unsigned n = 0;
    for (; n < want; n++) {
        workers[n] = (worker){.r = r, .c = converter_new(shared)};
        if (!workers[n].c || pthread_create(&workers[n].thread, NULL, work, &workers[n]) != 0) {
            converter_free(workers[n].c);
            break;
        }
    }
    return n;
}

static spgo_code run(trace *t, const aggregate_opts *opts, unsigned threads, spt_output *o,
                     aggregate_tally *tally, spgo_error *err)
{
    const converter_shared shared = {t, opts};
    worker workers[THREADS_MAX];
    ring r = {.slot_count = 2 * (size_t)threads,
              .output = o,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .filled = PTHREAD_COND_INITIALIZER,
              .moved = PTHREAD_COND_INITIALIZER};
    r.slots = calloc(r.slot_count, sizeof *r.slots);
    converter *own = converter_new(&shared);
    spgo_code code = SPGO_NOMEM;
    if (r.slots && own) {
        unsigned n = start_workers(workers, threads - 1, &r, &shared);
        pthread_mutex_lock(&r.lock);
        code = run_ring(&r, t, own, err);
        r.ends = true;
        pthread_cond_broadcast(&r.filled);
        pthread_mutex_unlock(&r.lock);
        for (unsigned i = 0; i < n; i++) {
            pthread_join(workers[i].thread, NULL);
            add_tally(tally, converter_tally(workers[i].c));
            converter_free(workers[i].c);
        }
        add_tally(tally, converter_tally(own));
    } else {
        spgo_fail_nomem(err, "aggregate", r.slot_count * sizeof *r.slots);
    }
    converter_free(own);
    for (size_t i = 0; r.slots && i < r.slot_count; i++) {
        trace_batch_free(&r.slots[i].batch);
        record_list_free(&r.slots[i].records);
    }
    free(r.slots);
    return code;
}

static unsigned thread_count(const aggregate_opts *opts)
{
    unsigned n = opts->threads;
    if (n == 0) {
        n = os_cpu_count();
        n = n > USUAL_THREADS_MAX ? USUAL_THREADS_MAX : n;
    }
    return n > THREADS_MAX ? THREADS_MAX : n;
}

spgo_code aggregate_to_spt(trace *t, const aggregate_opts *opts, spgo_sink sink,
                           aggregate_result *result, spgo_error *err)
{
    spt_output o = {0};
    *result = (aggregate_result){0};
    spgo_code code = start_output(&o, t, opts, sink, err);
    if (code == SPGO_OK)
        code = run(t, opts, thread_count(opts), &o, &result->tally, err);
    if (code == SPGO_OK)
        code = spgo_spt_writer_finish(o.writer, err);
    else
        spgo_spt_writer_cancel(o.writer);
    result->tally.programs = o.program_count;
    result->tally.programs_without_id = o.without_id;
    result->programs = o.programs;
    result->program_count = o.program_count;
    free(o.program_of);
    return code;
}
