/* Opening files, grouping them into sessions, and the stream over all of them: see trace.h. */
#include <trace/trace_internal.h>

#include <base/limits.h>
#include <base/text.h>
#include <format/etl/etl.h>
#include <format/perfdata/perfdata.h>

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ counters */

trace_counter trace_counter_of_name(spgo_str name)
{
    static const struct {
        const char *name; /* may end in *, for the modifiers that perf appends */
        trace_counter counter;
    } known[] = {
        {"Timer", TRACE_COUNTER_TIMER},
        {"cpu-clock*", TRACE_COUNTER_TIMER},
        {"task-clock*", TRACE_COUNTER_TIMER},
        {"UnhaltedCoreCycles", TRACE_COUNTER_CYCLES},
        {"TotalCycles", TRACE_COUNTER_CYCLES},
        {"cycles*", TRACE_COUNTER_CYCLES},
        {"cpu-cycles*", TRACE_COUNTER_CYCLES},
        {"cpu_clk_unhalted.*", TRACE_COUNTER_CYCLES},
        {"InstructionRetired", TRACE_COUNTER_INSTRUCTIONS},
        {"InstructionsRetired", TRACE_COUNTER_INSTRUCTIONS},
        {"instructions*", TRACE_COUNTER_INSTRUCTIONS},
        {"inst_retired.*", TRACE_COUNTER_INSTRUCTIONS},
        {"BranchInstructions", TRACE_COUNTER_BRANCHES},
        {"BranchInstructionRetired", TRACE_COUNTER_BRANCHES},
        {"BranchInstructionsRetired", TRACE_COUNTER_BRANCHES},
        {"branches*", TRACE_COUNTER_BRANCHES},
        {"branch-instructions*", TRACE_COUNTER_BRANCHES},
        {"br_inst_retired.*", TRACE_COUNTER_BRANCHES},
        {"ex_ret_brn*", TRACE_COUNTER_BRANCHES},
        {"br_retired*", TRACE_COUNTER_BRANCHES},
        {"IcacheMisses", TRACE_COUNTER_ICACHE_MISSES},
        {"ICacheMiss", TRACE_COUNTER_ICACHE_MISSES},
        {"InstructionCacheMisses", TRACE_COUNTER_ICACHE_MISSES},
        {"L1-icache-load-misses*", TRACE_COUNTER_ICACHE_MISSES},
        {"DcacheMisses", TRACE_COUNTER_DCACHE_MISSES},
        {"DCacheMiss", TRACE_COUNTER_DCACHE_MISSES},
        {"DataCacheMisses", TRACE_COUNTER_DCACHE_MISSES},
        {"L1-dcache-load-misses*", TRACE_COUNTER_DCACHE_MISSES},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (text_match(text_str(known[i].name), name))
            return known[i].counter;
    }
    return TRACE_COUNTER_OTHER;
}

uint32_t trace_add_source(trace *t, spgo_str name, trace_counter counter, uint64_t interval)
{
    for (size_t i = 0; i < t->source_count; i++) {
        trace_source *known = &t->sources[i];
        if (!text_equal(known->name, name))
            continue;
        known->interval = interval ? interval : known->interval;
        return (uint32_t)i;
    }
    if (t->source_count == LIMIT_SOURCES)
        return LIMIT_SOURCES - 1; /* the last one stands for all that follow */
    if (t->source_count == LIMIT_SOURCES - 1) {
        name = text_str("further counters");
        counter = TRACE_COUNTER_OTHER;
    }
    if (t->source_count == t->source_cap) {
        size_t cap = t->source_cap ? t->source_cap * 2 : 16;
        trace_source *grown = realloc(t->sources, cap * sizeof *grown);
        if (!grown)
            return TIMELINE_NONE;
        t->sources = grown;
        t->source_cap = cap;
    }
    spgo_str kept = intern_add(&t->names, name);
    if (t->names.failed)
        return TIMELINE_NONE;
    t->sources[t->source_count] =
        (trace_source){.name = kept, .counter = counter, .interval = interval};
    return (uint32_t)t->source_count++;
}

trace_counter trace_note_sample(trace *t, uint32_t source)
{
    if (source >= t->source_count)
        return TRACE_COUNTER_OTHER;
    t->sources[source].samples++;
    return t->sources[source].counter;
}

/* ------------------------------------------------------------------ batches */

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

void trace_report_progress(trace *t, uint64_t done_bytes)
{
    t->done_bytes = done_bytes;
    if (t->opts.progress)
        t->opts.progress(t->opts.progress_ctx, done_bytes, t->total_bytes);
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
