/* Recordings by description: see perfdata_scenario.h. Deterministic: one description, one file. */
#include "perfdata_scenario.h"

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

#include "synthetic_program.h"

enum {
    IMAGES = 2, /* of a process: program, library */
    PARENT = 1000,
    CHILD = 1001,
    BRANCHES_PER_SAMPLE = 61, /* taken from one sample to the next */
    RESTART = 2,              /* samples; calls outnumber returns, so the thread starts over */
    ROUND = 1000,             /* samples */
    PERIOD = 10007,
    TIME_STEP_NS = 250000,
    DEFAULT_SAMPLES = 1000,
    FRAMES_MAX = SYNTH_CALL_DEPTH + 2,
    MISC_USER = 2,
    TEXT_RVA = 0x1000 /* where the executable segment starts */
};

#define FIRST_ID 71u
#define SECOND_ID 81u

/* ------------------------------------------------------------------ descriptions */

static const struct scenario_part {
    const char *name, *what;
    size_t flag; /* offset of its bool; 0: it has no own */
} parts[] = {
    {"lbr", "last branches with every sample; lbr:N for N samples",
     offsetof(perfdata_scenario, lbr)},
    {"ip", "instruction pointers alone; ip:N for N samples", 0},
    {"callgraph", "call chains with every sample", offsetof(perfdata_scenario, callgraph)},
    {"fork", "a child that shares its parent's images", offsetof(perfdata_scenario, fork)},
    {"exec", "a child that executes another program", offsetof(perfdata_scenario, exec)},
    {"pipe", "pipe mode: attributes and features as records", offsetof(perfdata_scenario, pipe)},
    {"compressed", "records in zstd-compressed ones", offsetof(perfdata_scenario, compressed)},
    {"lost", "records that tell of lost records and samples", offsetof(perfdata_scenario, lost)},
    {"big-endian", "as a big-endian machine writes it", offsetof(perfdata_scenario, big_endian)},
    {"two-events", "a second event with other sample fields",
     offsetof(perfdata_scenario, two_events)},
    {"no-build-id", "maps with device and inode, no build-id feature",
     offsetof(perfdata_scenario, no_build_id)},
};

bool perfdata_scenario_name(size_t i, const char **name, const char **what)
{
    if (i >= sizeof parts / sizeof *parts)
        return false;
    *name = parts[i].name;
    *what = parts[i].what;
    return true;
}

static bool parse_part(const char *text, size_t len, perfdata_scenario *out)
{
    const char *colon = memchr(text, ':', len);
    size_t name_len = colon ? (size_t)(colon - text) : len;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strlen(parts[i].name) != name_len || memcmp(parts[i].name, text, name_len) != 0)
            continue;
        bool counted = i < 2; /* lbr, ip */
        if (colon && !counted)
            return false;
        if (colon)
            out->sample_count = strtoull(colon + 1, NULL, 10);
        if (parts[i].flag || i == 0)
            *((bool *)(void *)((char *)out + parts[i].flag)) = true;
        return !colon || out->sample_count > 0;
    }
    return false;
}

bool perfdata_scenario_parse(const char *text, perfdata_scenario *out, const char **bad)
{
    *out = (perfdata_scenario){.sample_count = DEFAULT_SAMPLES};
    for (;;) {
        size_t len = strcspn(text, ",");
        *bad = text;
        if (!parse_part(text, len, out))
            return false;
        if (!text[len])
            return true;
        text += len + 1;
    }
}

/* ------------------------------------------------------------------ the recorded world */

/* A process with its images, and the thread that runs through them. */
typedef struct process {
    uint32_t pid;
    const char *comm;
    synth_image images[IMAGES];
    const char *paths[IMAGES];
    uint8_t build_ids[IMAGES][20];
    synth_thread thread;
    uint64_t seed; /* of the thread's next start */
} process;

typedef struct recording {
    const perfdata_scenario *scenario;
    perfdata_build *build;
    perfdata_built *built;
    uint64_t time_ns;
} recording;

static const uint64_t first_id[] = {FIRST_ID}, second_id[] = {SECOND_ID};

static void init_process(process *p, uint32_t pid, uint64_t seed, const char *comm,
                         const char *program_path, uint64_t program_base)
{
    const uint64_t library_base = 0x7f1200000000;
    const uint64_t library_seed = 99; /* everybody's library is the same */
    *p = (process){.pid = pid, .comm = comm, .paths = {program_path, "/usr/lib/libsynth.so.1"}};
    synth_image_init(&p->images[0], seed, program_base);
    synth_image_init(&p->images[1], library_seed, library_base);
    for (size_t i = 0; i < IMAGES; i++) {
        uint64_t random = i == 0 ? seed : library_seed;
        for (size_t k = 0; k < 20; k++)
            p->build_ids[i][k] = (uint8_t)synth_random(&random);
    }
    p->seed = seed;
}

static void start_thread(process *p)
{
    const synth_image *images[] = {&p->images[0], &p->images[1]};
    synth_thread_init(&p->thread, p->seed++, images, IMAGES);
    _Static_assert((int)BRANCHES_PER_SAMPLE >= (int)SYNTH_LBR_DEPTH, "the first sample is full");
}

static perfdata_build_id_fields trailer(recording *r, const process *p)
{
    r->time_ns += 1000;
    return (perfdata_build_id_fields){
        .pid = p->pid, .tid = p->pid, .time_ns = r->time_ns, .id = FIRST_ID};
}

static void write_start(recording *r, const process *p, bool is_exec)
{
    perfdata_build_id_fields sid = trailer(r, p);
    perfdata_build_comm(r->build, p->pid, p->pid, p->comm, is_exec, &sid);
    for (size_t i = 0; i < IMAGES; i++) {
        perfdata_build_map m = {.pid = p->pid,
                                .tid = p->pid,
                                .addr = p->images[i].base + TEXT_RVA,
                                .len = SYNTH_IMAGE_SIZE - TEXT_RVA,
                                .pgoff = TEXT_RVA,
                                .prot = 5,
                                .misc = MISC_USER,
                                .path = p->paths[i],
                                .sid = trailer(r, p)};
        if (!r->scenario->no_build_id) {
            m.build_id = p->build_ids[i];
            m.build_id_size = 20;
        }
        perfdata_build_mmap2(r->build, &m);
        perfdata_built_image *made = &r->built->images[r->built->image_count++];
        *made = (perfdata_built_image){.pid = p->pid,
                                       .base = p->images[i].base,
                                       .size = SYNTH_IMAGE_SIZE,
                                       .path = p->paths[i]};
        memcpy(made->build_id, p->build_ids[i], sizeof made->build_id);
    }
}

/* ------------------------------------------------------------------ samples */

static unsigned image_of(const process *p, uint64_t addr)
{
    unsigned i = 0;
    while (i < IMAGES && addr - p->images[i].base >= SYNTH_IMAGE_SIZE)
        i++;
    return i;
}

static void count_branches(perfdata_built *built, const process *p, const uint64_t (*branches)[3],
                           size_t count)
{
    built->branches += count;
    for (size_t i = 0; i < count; i++) {
        unsigned from = image_of(p, branches[i][0]);
        built->same_image_branches += from < IMAGES && from == image_of(p, branches[i][1]);
    }
}

static void write_sample(recording *r, process *p)
{
    const uint64_t user_context = (uint64_t)-512;
    const uint64_t predicted = 2;
    uint64_t branches[SYNTH_LBR_DEPTH][3];
    uint64_t frames[FRAMES_MAX];
    synth_thread_run(&p->thread, BRANCHES_PER_SAMPLE);
    r->time_ns += TIME_STEP_NS;
    perfdata_build_sample s = {.misc = MISC_USER,
                               .ip = synth_thread_ip(&p->thread),
                               .pid = p->pid,
                               .tid = p->pid,
                               .time_ns = r->time_ns,
                               .id = FIRST_ID,
                               .period = PERIOD};
    if (r->scenario->lbr) {
        s.branch_count = synth_thread_lbr(&p->thread, branches, SYNTH_LBR_DEPTH);
        for (size_t i = 0; i < s.branch_count; i++)
            branches[i][2] = predicted;
        s.branches = (const uint64_t(*)[3])branches;
        count_branches(r->built, p, s.branches, s.branch_count);
    }
    if (r->scenario->callgraph) {
        frames[0] = user_context;
        s.callchain = frames;
        s.callchain_count = 1 + synth_thread_stack(&p->thread, frames + 1, FRAMES_MAX - 1);
        r->built->frames += s.callchain_count;
    }
    perfdata_build_sample_record(r->build, &s);
    r->built->samples++;
}

/* The second event tells less: no branches, no call chain. */
static void write_second_sample(recording *r, const process *p)
{
    r->time_ns += 1000;
    perfdata_build_sample s = {.event = 1,
                               .misc = MISC_USER,
                               .ip = synth_thread_ip(&p->thread),
                               .pid = p->pid,
                               .tid = p->pid,
                               .time_ns = r->time_ns,
                               .id = SECOND_ID};
    perfdata_build_sample_record(r->build, &s);
    r->built->second_samples++;
}

static void write_samples(recording *r, process *p, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (i % RESTART == 0)
            start_thread(p);
        write_sample(r, p);
        if (r->scenario->two_events && i % 3 == 0)
            write_second_sample(r, p);
        if (i % ROUND == ROUND - 1)
            perfdata_build_finished_round(r->build);
    }
}

/* ------------------------------------------------------------------ the story */

static void write_lost(recording *r, const process *p)
{
    const uint64_t lost_records = 17, lost_samples = 5;
    perfdata_build_id_fields sid = trailer(r, p);
    perfdata_build_lost(r->build, lost_records, &sid);
    perfdata_build_lost_samples(r->build, lost_samples, &sid);
    r->built->lost_records = lost_records;
    r->built->lost_samples = lost_samples;
}

static void write_task(recording *r, uint32_t type, const process *of, uint32_t parent)
{
    perfdata_build_id_fields sid = trailer(r, of);
    perfdata_build_task(r->build, type, of->pid, parent, of->pid, parent, &sid);
}

/* The second half of the samples, of a child: `parent` itself under another pid until it has
 * executed a program of its own. */
static void write_child(recording *r, process *parent, process *child, uint64_t count)
{
    const uint32_t type_fork = 7, type_exit = 4;
    if (r->scenario->exec) {
        init_process(child, CHILD, 23, "other", "/usr/bin/other", 0x400000);
    } else {
        *child = *parent;
        child->pid = CHILD;
    }
    write_task(r, type_fork, child, PARENT);
    if (r->scenario->exec)
        write_start(r, child, true);
    write_samples(r, child, count);
    write_task(r, type_exit, child, PARENT);
}

static void tell(recording *r, process *parent, process *child)
{
    const perfdata_scenario *s = r->scenario;
    bool has_child = s->fork || s->exec;
    uint64_t childs = has_child ? s->sample_count / 2 : 0;
    init_process(parent, PARENT, 7, "synth", "/usr/bin/synth", 0x555555554000);
    if (!s->no_build_id) {
        for (size_t i = 0; i < IMAGES; i++)
            perfdata_build_add_build_id(r->build, UINT32_MAX, MISC_USER, parent->build_ids[i], 20,
                                        parent->paths[i]);
    }
    write_start(r, parent, true);
    write_samples(r, parent, s->sample_count - childs);
    if (s->lost)
        write_lost(r, parent);
    if (has_child)
        write_child(r, parent, child, childs);
    write_task(r, 4, parent, 1);
}

spgo_code perfdata_scenario_write(const perfdata_scenario *s, spgo_sink sink, perfdata_built *built,
                                  spgo_error *err)
{
    const uint64_t common = 1 << 16 | 1 << 0 | 1 << 1 | 1 << 2; /* IDENTIFIER, IP, TID, TIME */
    const uint64_t flags = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24;
    const perfdata_build_event events[] = {
        {.name = "cycles",
         .period = PERIOD,
         .sample_type =
             common | 1 << 7 | 1 << 8 | (s->callgraph ? 1u << 5 : 0) | (s->lbr ? 1u << 11 : 0),
         .flags = flags,
         .branch_sample_type = s->lbr ? 1 << 3 | 1 << 0 : 0, /* any branch of user code */
         .ids = first_id,
         .id_count = 1},
        {.name = "cpu-clock",
         .type = 1,
         .period = PERIOD,
         .sample_type = common | 1 << 7,
         .flags = flags,
         .ids = second_id,
         .id_count = 1}};
    const perfdata_build_opts opts = {.big_endian = s->big_endian,
                                      .pipe = s->pipe,
                                      .compress = s->compressed,
                                      .hostname = "synthetic",
                                      .os_release = "6.1.0",
                                      .arch = s->big_endian ? "s390x" : "x86_64",
                                      .cmdline = "perf record synth"};
    *built = (perfdata_built){0};
    if (s->compressed && !perfdata_build_can_compress())
        return spgo_fail(err, SPGO_UNSUPPORTED, "perfdata.scenario", SPGO_NO_OFFSET,
                         "this build has no zstd");
    process *processes = calloc(2, sizeof *processes);
    if (!processes)
        return spgo_fail_nomem(err, "perfdata.scenario", 2 * sizeof *processes);
    recording r = {.scenario = s, .built = built, .time_ns = 1000000000};
    r.build = perfdata_build_new(sink, &opts, events, s->two_events ? 2 : 1);
    tell(&r, &processes[0], &processes[1]);
    free(processes);
    if (!perfdata_build_finish(r.build))
        return spgo_fail(err, SPGO_IO, "perfdata.scenario", SPGO_NO_OFFSET,
                         "the bytes could not be written");
    return SPGO_OK;
}
