/*
 * Threads take chunks of the file in order and count into tables of their own, which are added up
 * at the end: sums do not depend on who counted what. Where the guessed chunks turn out not to fit
 * together (see spt_chunks.h) everything is counted again in one piece, so that the guess can cost
 * time but never change a number.
 */
#include "spt_summary.h"

#include <pthread.h>
#include <stdlib.h>

#include <base/fail.h>

#include "spt_chunks.h"

enum {
    CHUNK_BYTES = 4 << 20,
    CHUNKS_AHEAD = 4, /* per thread; bounds the pages in use when a thread is kept waiting */
    THREADS_MAX = 64,
    CACHE_LINE = 64,
    PREFETCH_BYTES = 2048,
    /* Ranges are read in both orders in one of so many blocks of the data, in fewer of a large
     * file: enough to tell which order is right, and the same ones for any number of threads. */
    BACKWARD_BLOCK_BYTES = 4096,
    BACKWARD_BLOCKS = 8,
    BACKWARD_BLOCKS_LATER = 64, /* a multiple of BACKWARD_BLOCKS */
    BACKWARD_LATER_FROM = 4096  /* block, a multiple of BACKWARD_BLOCKS_LATER */
};

/* One of how many blocks around this one is read in both orders. */
static inline uint64_t backward_period(uint64_t block)
{
    return block < BACKWARD_LATER_FROM ? BACKWARD_BLOCKS : BACKWARD_BLOCKS_LATER;
}

static const uint8_t cell_opcodes[SPT_CELLS] = {
    SPGO_SPT_UNHALT_CYCLE,   SPGO_SPT_RETIRE_INSTR,   SPGO_SPT_RETIRE_BR_INSTR,
    SPGO_SPT_L1_ICACHE_MISS, SPGO_SPT_L1_DCACHE_MISS, SPGO_SPT_LBR,
    SPGO_SPT_ETW_INSTR,      SPGO_SPT_ETW_CALLSTACK,
};

uint8_t spt_cell_opcode(size_t cell)
{
    return cell_opcodes[cell];
}

static size_t cell_of_opcode(uint8_t opcode)
{
    size_t cell = 0;
    while (cell_opcodes[cell] != opcode)
        cell++;
    return cell;
}

/* ------------------------------------------------------------------ one chunk */

/* What the threads share. */
typedef struct job {
    os_input *in;
    const bool *wanted;
    bool with_hits;
    uint64_t data_off;
    spt_splitter splitter; /* these six under the lock */
    spt_chunk *chunks;
    spgo_error *damages;     /* first damage of each chunk */
    bool *done;              /* per chunk */
    size_t chunk_count;      /* found so far */
    size_t first_open;       /* before it all are done */
    uint64_t *damage_counts; /* per chunk, of its reader */
    size_t chunks_ahead;     /* how far chunk_count may run before first_open */
    bool in_one_piece;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* first_open did */
} job;

/* What one thread counts. */
typedef struct worker {
    job *job;
    spt_summary counted;
    bool no_memory;
    spt_cell *last_cell; /* of the record before, to save looking it up: its program and opcode */
    uint16_t last_program;
    uint8_t last_opcode;
    pthread_t thread;
} worker;

/* The cells of a program; NULL without memory. */
static spt_cell *row_of(worker *w, uint16_t program)
{
    spt_cell **row = &w->counted.rows[program];
    if (!*row) {
        *row = calloc(SPT_CELLS, sizeof **row);
        for (size_t i = 0; *row && i < SPT_CELLS; i++) {
            (*row)[i].kind = spgo_spt_opcode_kind(cell_opcodes[i]);
            (*row)[i].arcs_without_hits = !w->job->with_hits;
        }
    }
    return *row;
}

/* The cell that the record belongs to; NULL if its program is not wanted or without memory. */
static spt_cell *find_cell(worker *w, const spgo_spt_record *r)
{
    if (w->job->wanted && !w->job->wanted[r->program])
        return NULL;
    spt_cell *row = row_of(w, r->program);
    if (!row) {
        w->no_memory = true;
        return NULL;
    }
    w->last_cell = &row[cell_of_opcode(r->opcode)];
    w->last_program = r->program;
    w->last_opcode = r->opcode;
    return w->last_cell;
}

static inline void take_record(worker *w, const spgo_spt_record *r)
{
    bool as_before = r->program == w->last_program && r->opcode == w->last_opcode;
    spt_cell *cell = as_before ? w->last_cell : find_cell(w, r);
    uint64_t block = (r->offset - w->job->data_off) / BACKWARD_BLOCK_BYTES;
    if (cell)
        spt_cell_count(cell, r, block % backward_period(block) == 0);
}

/* Takes the LBR records that follow in one go, up to where the next order test or the chunk ends:
 * they are most of a profile, and all alike. */
static void take_run(worker *w, spgo_spt_cursor *c, uint64_t stop)
{
    bool as_before =
        w->last_cell && w->last_opcode == SPGO_SPT_LBR && c->program == w->last_program;
    if (!as_before || !c->in_segment || c->has_repeat || c->endless)
        return;
    uint64_t at = c->pos - w->job->data_off;
    uint64_t period_bytes = backward_period(at / BACKWARD_BLOCK_BYTES) * BACKWARD_BLOCK_BYTES;
    uint64_t limit = w->job->data_off + (at / period_bytes + 1) * period_bytes;
    limit = limit < c->segment_end ? limit : c->segment_end;
    limit = limit < c->size ? limit : c->size;
    limit = limit < stop ? limit : stop;
    if (at % period_bytes >= BACKWARD_BLOCK_BYTES && c->pos < limit)
        c->pos += spt_cell_count_plain(w->last_cell, c->base + c->pos, (size_t)(limit - c->pos));
}

/* After the fast walk stopped: takes what stands there. False at the end of the file. */
static bool step_over_damage(worker *w, spgo_spt_cursor *c, size_t index)
{
    spgo_spt_record r;
    spgo_error err;
    spgo_code code = spgo_spt_next(c, &r, &err);
    if (code == SPGO_NOT_FOUND)
        return false;
    if (code == SPGO_OK) {
        if (spgo_spt_opcode_kind(r.opcode) != SPGO_SPT_KIND_NONE)
            take_record(w, &r);
        return true;
    }
    if (!w->job->damage_counts[index]++)
        w->job->damages[index] = err;
    return true;
}

static void walk_chunk(worker *w, size_t index)
{
    spt_chunk *chunk = &w->job->chunks[index];
    spgo_spt_cursor c = chunk->start;
    spgo_spt_record r;
    spgo_code code;
    uint64_t release_at = c.pos + CHUNK_BYTES;
    while (c.pos < chunk->stop && !w->no_memory) {
        /* Where a record ends is known only from its head, so that the processor cannot run
         * ahead by itself. */
        uintptr_t ahead = (uintptr_t)c.base + (uintptr_t)c.pos + PREFETCH_BYTES;
        __builtin_prefetch((const void *)ahead); /* may lie behind the file: harmless */
        __builtin_prefetch((const void *)(ahead + CACHE_LINE));
        take_run(w, &c, chunk->stop);
        if (c.pos >= chunk->stop)
            break;
        if (spgo_spt_next_entries(&c, &r, &code))
            take_record(w, &r);
        else if (!step_over_damage(w, &c, index))
            break;
        if (c.pos >= release_at && w->job->in_one_piece && w->job->in) {
            os_input_release(w->job->in, c.pos);
            release_at = c.pos + CHUNK_BYTES;
        }
    }
    chunk->end = c;
}

/* Marks `finished` (SIZE_MAX: none) as done; true if all before *read_off have been read now. */
static bool mark_done(job *j, size_t finished, uint64_t *read_off)
{
    const size_t before = j->first_open;
    if (finished != SIZE_MAX)
        j->done[finished] = true;
    while (j->first_open < j->chunk_count && j->done[j->first_open])
        j->first_open++;
    if (j->first_open == before)
        return false;
    pthread_cond_broadcast(&j->moved);
    if (j->first_open == j->chunk_count)
        return false;
    *read_off = j->chunks[j->first_open].start.pos;
    return true;
}

/* Marks `finished` as done, gives back what all have read, and returns the next chunk, or
 * SIZE_MAX. */
static size_t next_chunk(job *j, size_t finished)
{
    uint64_t read_off;
    pthread_mutex_lock(&j->lock);
    const bool has_moved = mark_done(j, finished, &read_off);
    while (!j->splitter.at_end && j->chunk_count - j->first_open >= j->chunks_ahead)
        pthread_cond_wait(&j->moved, &j->lock);
    size_t next = j->chunk_count;
    if (spt_splitter_next(&j->splitter, &j->chunks[next]))
        j->chunk_count++;
    else
        next = SIZE_MAX;
    pthread_mutex_unlock(&j->lock);
    if (has_moved && j->in)
        os_input_release(j->in, read_off);
    return next;
}

static void *work(void *ctx)
{
    worker *w = ctx;
    size_t done = SIZE_MAX;
    for (size_t i; (i = next_chunk(w->job, done)) != SIZE_MAX; done = i)
        walk_chunk(w, i);
    for (size_t p = 0; p < w->counted.program_count; p++) {
        for (size_t i = 0; w->counted.rows[p] && i < SPT_CELLS; i++)
            spt_cell_settle(&w->counted.rows[p][i]);
    }
    return NULL;
}

/* ------------------------------------------------------------------ all of it */

static void free_row(spt_cell *row)
{
    for (size_t i = 0; row && i < SPT_CELLS; i++)
        spt_cell_free(&row[i]);
    free(row);
}

void spt_summary_free(spt_summary *summary)
{
    for (size_t p = 0; summary->rows && p < summary->program_count; p++)
        free_row(summary->rows[p]);
    free(summary->rows);
    *summary = (spt_summary){0};
}

static void merge_summary(spt_summary *into, spt_summary *from)
{
    for (size_t p = 0; p < into->program_count; p++) {
        if (!from->rows[p])
            continue;
        if (into->rows[p]) {
            for (size_t i = 0; i < SPT_CELLS; i++)
                spt_cell_merge(&into->rows[p][i], &from->rows[p][i]);
            free_row(from->rows[p]);
        } else {
            into->rows[p] = from->rows[p];
        }
        from->rows[p] = NULL;
    }
}

static bool lost_counts(const spt_summary *summary)
{
    for (size_t p = 0; p < summary->program_count; p++) {
        const spt_cell *row = summary->rows[p];
        for (size_t i = 0; row && i < SPT_CELLS; i++) {
            if (spt_cell_failed(&row[i]))
                return true;
        }
    }
    return false;
}

/* Runs the workers, in this thread too, and adds up in the first. False without memory. */
static bool run(job *j, worker *workers, size_t worker_count, size_t program_count)
{
    bool complete = true;
    for (size_t i = 0; i < worker_count; i++) {
        workers[i] = (worker){.job = j};
        workers[i].counted.program_count = program_count;
        workers[i].counted.rows = calloc(program_count + 1, sizeof(spt_cell *));
        complete = complete && workers[i].counted.rows;
    }
    size_t started = 1;
    while (complete && started < worker_count &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    if (complete)
        (void)work(&workers[0]);
    for (size_t i = 1; complete && i < started; i++)
        pthread_join(workers[i].thread, NULL);

    for (size_t i = 0; i < worker_count; i++) {
        complete = complete && !workers[i].no_memory && !lost_counts(&workers[i].counted);
        if (i && complete)
            merge_summary(&workers[0].counted, &workers[i].counted);
        if (i)
            spt_summary_free(&workers[i].counted);
    }
    return complete && !lost_counts(&workers[0].counted);
}

static void sum_damage(const job *j, spt_summary *summary)
{
    for (size_t i = 0; i < j->chunk_count; i++) {
        if (j->damage_counts[i] && !summary->damage_count)
            summary->damage = j->damages[i];
        summary->damage_count += j->damage_counts[i];
    }
}

/* Counts chunks of chunk_bytes. *fits tells whether the chunks were the right ones. */
static spgo_code count_chunks(const spgo_spt *spt, job *j, uint64_t chunk_bytes, unsigned threads,
                              spt_summary *summary, bool *fits)
{
    j->splitter = spt_splitter_new(spt, chunk_bytes);
    size_t n = spt_splitter_max(&j->splitter);
    size_t worker_count = threads < n ? threads : n;
    worker *workers = calloc(worker_count, sizeof *workers);
    j->chunk_count = 0;
    j->first_open = 0;
    j->chunks_ahead = CHUNKS_AHEAD * worker_count;
    j->in_one_piece = n == 1;
    j->chunks = calloc(n + 1, sizeof *j->chunks);
    j->damages = calloc(n, sizeof *j->damages);
    j->damage_counts = calloc(n, sizeof *j->damage_counts);
    j->done = calloc(n, sizeof *j->done);

    spgo_code code = SPGO_NOMEM;
    if (workers && j->chunks && j->damages && j->damage_counts && j->done) {
        bool complete = run(j, workers, worker_count, spgo_spt_program_count(spt));
        *fits = spt_chunks_fit(j->chunks, j->chunk_count);
        if (complete && *fits) {
            *summary = workers[0].counted;
            sum_damage(j, summary);
        } else {
            spt_summary_free(&workers[0].counted);
        }
        code = complete ? SPGO_OK : SPGO_NOMEM;
    }
    free(workers);
    free(j->done);
    free(j->damage_counts);
    free(j->damages);
    free(j->chunks);
    return code;
}

spgo_code spt_summarize(const spgo_spt *spt, os_input *in, const bool *wanted, bool with_hits,
                        unsigned threads, spt_summary *summary, spgo_error *err)
{
    *summary = (spt_summary){0};
    job j = {
        .in = in, .wanted = wanted, .with_hits = with_hits, .data_off = spgo_spt_data_off(spt)};
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    if (pthread_mutex_init(&j.lock, NULL) != 0 || pthread_cond_init(&j.moved, NULL) != 0)
        return spgo_fail(err, SPGO_NOMEM, "spt.summary", SPGO_NO_OFFSET, "no memory for a lock");

    bool fits = true;
    uint64_t chunk_bytes = threads > 1 ? CHUNK_BYTES : 0;
    spgo_code code = count_chunks(spt, &j, chunk_bytes, threads ? threads : 1, summary, &fits);
    if (code == SPGO_OK && !fits)
        code = count_chunks(spt, &j, 0, 1, summary, &fits);
    pthread_cond_destroy(&j.moved);
    pthread_mutex_destroy(&j.lock);
    if (code != SPGO_OK)
        return spgo_fail(
            err, code, "spt.summary", SPGO_NO_OFFSET,
            "out of memory while counting; fewer threads or a /binary filter need less");
    return SPGO_OK;
}
