/* What the parts of the trace layer share: trace.c, sources.c, batch.c, and a file per format. */
#ifndef TRACE_INTERNAL_H
#define TRACE_INTERNAL_H

#include <trace/trace.h>

#include <base/intern.h>
#include <os/file.h>

enum { BATCH_SAMPLES = 4096, BATCH_ADDRS = 64 * 1024 };

typedef struct trace_file {
    trace_input input;
    os_input *bytes;
    struct etl_file *etl; /* one of the two */
    struct perfdata *perfdata;
} trace_file;

typedef struct session {
    trace *t;
    trace_format format;
    trace_file **files; /* of this session, in the order given */
    size_t file_count;
    timeline *who;
    uint64_t kernel_start;
    bool no_memory;          /* found out while the timeline was sealed */
    bool is_started;         /* the reading has begun */
    struct etl_session *etl; /* one of the two, from the survey to the end of the reading */
    struct perfdata_session *perfdata;
} session;

struct trace {
    trace_file *files;
    size_t file_count;
    session *sessions;
    size_t session_count;
    size_t reading; /* the session being read */
    module_table *modules;
    trace_source *sources;
    size_t source_count, source_cap;
    intern names; /* of the sources */
    trace_tally tally;
    trace_opts opts;
    uint64_t done_bytes, total_bytes; /* of the survey and the reading together */
};

/* The index of the source of this name, added if new; interval 0 leaves it as it is. TIMELINE_NONE
 * without memory. */
uint32_t trace_add_source(trace *t, spgo_str name, trace_counter counter, uint64_t interval);

/* Notes an IP sample of this source and says what it counts. */
trace_counter trace_note_sample(trace *t, uint32_t source);

/* Adds a sample with room for addr_count addresses, which the caller fills in. NULL without
 * memory. The batch takes at least one sample of any allowed size. */
uint64_t *batch_add(trace_batch *b, const trace_sample *sample, size_t addr_count);
bool batch_is_full(const trace_batch *b);

void trace_report_progress(trace *t, uint64_t done_bytes);

spgo_code etl_session_survey(session *s, spgo_error *err);
spgo_code etl_session_start(session *s, spgo_error *err);
/* Fills until the batch is full; false at the session's end (the batch may hold the last ones). */
bool etl_session_read(session *s, trace_batch *batch, spgo_error *err);
void etl_session_free(session *s);

spgo_code perfdata_session_survey(session *s, spgo_error *err);
spgo_code perfdata_session_start(session *s, spgo_error *err);
bool perfdata_session_read(session *s, trace_batch *batch, spgo_error *err);
void perfdata_session_free(session *s);

#endif
