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
    THREADS_MAX = 64
};

static const uint8_t cell_opcodes[SPT_CELLS] = {
    SPGO_SPT_UNHALT_CYCLE,  SPGO_SPT_RETIRE_INSTR,  SPGO_SPT_RETIRE_BR_INSTR,
    SPGO_SPT_L1_ICACHE_MISS, SPGO_SPT_L1_DCACHE_MISS, SPGO_SPT_LBR,
    SPGO_SPT_ETW_INSTR,     SPGO_SPT_ETW_CALLSTACK,
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
    spt_chunk *chunks;
    spgo_error *damages;     /* first damage of each chunk */
    uint64_t *damage_counts; /* of each chunk */
    bool *done;              /* per chunk */
    size_t chunk_count;
    size_t next_chunk;
    pthread_mutex_t lock; /* over next_chunk and done */
} job;

/* What one thread counts. */
typedef struct worker {
    job *job;
    spt_summary counted;
    bool no_memory;
    pthread_t thread;
} worker;

static spt_cell *row_of(worker *w, uint16_t program)
{
    spt_cell **row = &w->counted.rows[program];
    if (!*row)
        *row = calloc(SPT_CELLS, sizeof **row);
    return *row;
}

static void take_record(worker *w, const spgo_spt_record *r)
{
    if (w->job->wanted && !w->job->wanted[r->program])
        return;
    spt_cell *row = row_of(w, r->program);
    if (!row) {
        w->no_memory = true;
        return;
    }
    spt_cell_count(&row[cell_of_opcode(r->opcode)], r);
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
        if (spgo_spt_next_entries(&c, &r, &code))
            take_record(w, &r);
        else if (!step_over_damage(w, &c, index))
            break;
        if (c.pos >= release_at && w->job->chunk_count == 1 && w->job->in) {
            os_input_release(w->job->in, c.pos);
            release_at = c.pos + CHUNK_BYTES;
        }
    }
    chunk->end = c;
}

/* Marks `finished` (SIZE_MAX: none) as done, gives back what all have read, and returns the next
 * chunk, or chunk_count. */
static size_t next_chunk(job *j, size_t finished)
{
    pthread_mutex_lock(&j->lock);
    if (finished < j->chunk_count)
        j->done[finished] = true;
    size_t first_open = 0;
    while (first_open < j->chunk_count && j->done[first_open])
        first_open++;
    size_t next = j->next_chunk < j->chunk_count ? j->next_chunk++ : j->chunk_count;
    pthread_mutex_unlock(&j->lock);
    if (j->in && first_open && first_open < j->chunk_count)
        os_input_release(j->in, j->chunks[first_open].start.pos);
    return next;
}

static void *work(void *ctx)
{
    worker *w = ctx;
    size_t done = SIZE_MAX;
    for (size_t i; (i = next_chunk(w->job, done)) < w->job->chunk_count; done = i)
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
    j->chunks = spt_chunks_split(spt, chunk_bytes, &j->chunk_count);
    size_t n = j->chunks ? j->chunk_count : 0;
    size_t worker_count = threads < n ? threads : n;
    worker *workers = calloc(worker_count + 1, sizeof *workers);
    j->next_chunk = 0;
    j->damages = calloc(n + 1, sizeof *j->damages);
    j->damage_counts = calloc(n + 1, sizeof *j->damage_counts);
    j->done = calloc(n + 1, sizeof *j->done);

    spgo_code code = SPGO_NOMEM;
    if (n && workers && j->damages && j->damage_counts && j->done) {
        bool complete = run(j, workers, worker_count, spgo_spt_program_count(spt));
        *fits = spt_chunks_fit(j->chunks, n);
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

spgo_code spt_summarize(const spgo_spt *spt, os_input *in, const bool *wanted, unsigned threads,
                        spt_summary *summary, spgo_error *err)
{
    *summary = (spt_summary){0};
    job j = {.in = in, .wanted = wanted};
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    if (pthread_mutex_init(&j.lock, NULL) != 0)
        return spgo_fail(err, SPGO_NOMEM, "spt.summary", SPGO_NO_OFFSET, "no memory for a mutex");

    bool fits = true;
    uint64_t chunk_bytes = threads > 1 ? CHUNK_BYTES : 0;
    spgo_code code = count_chunks(spt, &j, chunk_bytes, threads ? threads : 1, summary, &fits);
    if (code == SPGO_OK && !fits)
        code = count_chunks(spt, &j, 0, 1, summary, &fits);
    pthread_mutex_destroy(&j.lock);
    if (code != SPGO_OK)
        return spgo_fail(err, code, "spt.summary", SPGO_NO_OFFSET,
                         "out of memory while counting; fewer threads or a /binary filter need less");
    return SPGO_OK;
}
