/* Opening files, grouping them into sessions, and the stream over all of them: see trace.h. */
#include <trace/trace_internal.h>

#include <format/etl/etl.h>
#include <format/perfdata/perfdata.h>

#include <stdlib.h>

/* ------------------------------------------------------------------ opening */

static spgo_code open_file(trace_file *f, spgo_error *err)
{
    SPGO_TRY(os_input_open(f->input.path, &f->bytes, err));
    spgo_span whole = os_input_bytes(f->bytes);
    if (perfdata_sniff(whole)) {
        f->input.format = TRACE_PERFDATA;
        return perfdata_open(whole, &f->perfdata, &f->input.findings, err);
    }
    f->input.format = TRACE_ETL; /* whose reader says best what is wrong with other files */
    os_input_sequential(f->bytes);
    return etl_open(whole, &f->etl, &f->input.findings, err);
}

/* Files of one boot of one machine share a clock; boot times are rounded to half a second. */
static bool same_session(const trace_file *a, const trace_file *b)
{
    if (!a->etl || !b->etl)
        return false;
    const etl_header *x = etl_get_header(a->etl), *y = etl_get_header(b->etl);
    uint64_t apart = x->boot_filetime > y->boot_filetime ? x->boot_filetime - y->boot_filetime
                                                         : y->boot_filetime - x->boot_filetime;
    return x->perf_freq == y->perf_freq && x->clock_type == y->clock_type && apart <= 10000000;
}

static session *session_for(trace *t, trace_file *f)
{
    for (size_t i = 0; i < t->session_count; i++) {
        session *s = &t->sessions[i];
        if (same_session(s->files[0], f))
            return s;
    }
    session *s = &t->sessions[t->session_count++];
    *s = (session){.t = t, .format = f->input.format};
    return s;
}

static spgo_code group_files(trace *t, spgo_error *err)
{
    t->sessions = calloc(t->file_count, sizeof *t->sessions);
    if (!t->sessions)
        return spgo_fail_nomem(err, "trace", t->file_count * sizeof *t->sessions);
    for (size_t i = 0; i < t->file_count; i++) {
        session *s = session_for(t, &t->files[i]);
        trace_file **files = realloc(s->files, (s->file_count + 1) * sizeof *files);
        if (!files)
            return spgo_fail_nomem(err, "trace", sizeof *files);
        s->files = files;
        s->files[s->file_count++] = &t->files[i];
        t->total_bytes += 2 * (uint64_t)os_input_bytes(t->files[i].bytes).len;
    }
    return SPGO_OK;
}

static spgo_code survey(trace *t, const char **failed_path, spgo_error *err)
{
    t->modules = module_table_new();
    if (!t->modules)
        return spgo_fail_nomem(err, "trace", 1);
    for (size_t i = 0; i < t->session_count; i++) {
        session *s = &t->sessions[i];
        *failed_path = s->files[0]->input.path;
        s->who = timeline_new();
        if (!s->who)
            return spgo_fail_nomem(err, "trace.timeline", 1);
        SPGO_TRY(s->format == TRACE_ETL ? etl_session_survey(s, err)
                                        : perfdata_session_survey(s, err));
    }
    return SPGO_OK;
}

static spgo_code open_all(trace *t, const char *const *paths, const char **failed_path,
                          spgo_error *err)
{
    for (size_t i = 0; i < t->file_count; i++) {
        t->files[i].input.path = paths[i];
        *failed_path = paths[i];
        SPGO_TRY(open_file(&t->files[i], err));
    }
    SPGO_TRY(group_files(t, err));
    return survey(t, failed_path, err);
}

spgo_code trace_open(const char *const *paths, size_t path_count, const trace_opts *opts,
                     trace **out, const char **failed_path, spgo_error *err)
{
    const char *ignored;
    if (!failed_path)
        failed_path = &ignored;
    *failed_path = NULL;
    *out = NULL;
    trace *t = calloc(1, sizeof *t);
    trace_file *files = calloc(path_count ? path_count : 1, sizeof *files);
    if (!t || !files) {
        free(t);
        free(files);
        return spgo_fail_nomem(err, "trace", path_count * sizeof *files);
    }
    t->files = files;
    t->file_count = path_count;
    if (opts)
        t->opts = *opts;
    spgo_code code = open_all(t, paths, failed_path, err);
    if (code != SPGO_OK) {
        trace_close(t);
        return code;
    }
    *out = t;
    return SPGO_OK;
}

void trace_close(trace *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->session_count; i++) {
        session *s = &t->sessions[i];
        etl_session_free(s);
        perfdata_session_free(s);
        timeline_free(s->who);
        free(s->files);
    }
    for (size_t i = 0; i < t->file_count; i++) {
        etl_close(t->files[i].etl);
        perfdata_close(t->files[i].perfdata);
        os_input_close(t->files[i].bytes);
    }
    module_table_free(t->modules);
    intern_free(&t->names);
    free(t->sessions);
    free(t->sources);
    free(t->files);
    free(t);
}

/* ------------------------------------------------------------------ reading */

static bool start_session(session *s, spgo_error *err)
{
    if (s->is_started)
        return true;
    s->is_started = true;
    spgo_code code =
        s->format == TRACE_ETL ? etl_session_start(s, err) : perfdata_session_start(s, err);
    return code == SPGO_OK;
}

static void end_session(session *s)
{
    etl_session_free(s);
    perfdata_session_free(s);
}

static bool read_session(session *s, trace_batch *batch, spgo_error *err)
{
    if (s->format == TRACE_ETL)
        return etl_session_read(s, batch, err);
    return perfdata_session_read(s, batch, err);
}

bool trace_read(trace *t, trace_batch *batch, spgo_error *err)
{
    err->code = SPGO_OK;
    batch->count = 0;
    batch->addr_count = 0;
    while (t->reading < t->session_count && batch->count == 0) {
        session *s = &t->sessions[t->reading];
        batch->who = s->who;
        batch->kernel_start = s->kernel_start;
        bool more = start_session(s, err) && read_session(s, batch, err);
        if (err->code != SPGO_OK)
            return false;
        if (!more) {
            end_session(s);
            t->reading++;
        }
    }
    return batch->count > 0;
}

/* ------------------------------------------------------------------ asking */

size_t trace_input_count(const trace *t)
{
    return t->file_count;
}

const trace_input *trace_get_input(const trace *t, size_t index)
{
    return index < t->file_count ? &t->files[index].input : NULL;
}

size_t trace_session_count(const trace *t)
{
    return t->session_count;
}

const timeline *trace_get_timeline(const trace *t, size_t index)
{
    return index < t->session_count ? t->sessions[index].who : NULL;
}

const module_table *trace_modules(const trace *t)
{
    return t->modules;
}

size_t trace_source_count(const trace *t)
{
    return t->source_count;
}

const trace_source *trace_get_source(const trace *t, size_t index)
{
    return index < t->source_count ? &t->sources[index] : NULL;
}

const trace_tally *trace_get_tally(const trace *t)
{
    return &t->tally;
}
