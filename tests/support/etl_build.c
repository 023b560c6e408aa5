/*
 * Whole traces to test with: see etl_build.h. The content and its order are those of a session
 * that was merged after its end: volumes, rundown with image identities, intervals, samples with
 * their branches and stacks, rundown again.
 */
#include "etl_build.h"
#include "synthetic_program.h"

#include <base/reader.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    START_TIME = 1000000,
    SAMPLE_STEP = 5000, /* raw time from sample to sample */
    KEYS_MAX = 16,      /* stack keys in use at once */
    LARGE_TRACE = 20000
};
#define START_FILETIME 133500000000000000u
#define PERF_FREQ 10000000u

static const uint8_t system_sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
static const uint8_t user_sid[] = {1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0,   0, 1, 2,
                                   3, 4, 5, 6, 7, 8, 9, 8, 7,  6, 233, 3, 0, 0};

typedef struct process {
    uint32_t pid, tid;
    unsigned images[3]; /* indices: program, library, kernel */
    unsigned image_count;
    bool alive, starts_later;
    synth_thread thread;
} process;

typedef struct build {
    const etl_scenario *s;
    etl_writer *w;
    spgo_error *err;
    spgo_code code; /* the first failure sticks */
    etl_built *built;
    uint64_t now;
    uint64_t random; /* which processor runs */
    bytes payload;
    unsigned process_count;
    process processes[ETL_BUILD_PROCESSES_MAX];
    synth_image *images; /* of built->images */
    struct {
        uint64_t frames[SYNTH_CALL_DEPTH + 1];
        unsigned count;
    } keys[KEYS_MAX];
    unsigned key_count;
} build;

/* ------------------------------------------------------------------ adding records */

static uint8_t record_type(const build *b, etl_record_type with_64)
{
    if (b->s->ptr_size == 8)
        return (uint8_t)with_64;
    return with_64 == ETL_FULL64 ? ETL_FULL32 : (uint8_t)(with_64 - 1);
}

static void add(build *b, etl_event_head head)
{
    head.type = record_type(b, head.type);
    if (b->payload.failed && b->code == SPGO_OK)
        b->code = spgo_fail_nomem(b->err, "etl.build", b->payload.len);
    if (b->code == SPGO_OK)
        b->code = etl_writer_add(b->w, &head, bytes_span(&b->payload), b->err);
    if (head.time > b->built->last_time)
        b->built->last_time = head.time;
    b->built->records++;
    bytes_clear(&b->payload);
}

static void add_perfinfo(build *b, uint16_t cpu, uint64_t time, uint16_t hook, uint16_t version)
{
    add(b, (etl_event_head){
               .type = ETL_PERFINFO64, .cpu = cpu, .time = time, .hook = hook, .version = version});
}

static void add_system(build *b, const process *p, uint16_t hook, uint16_t version)
{
    add(b, (etl_event_head){.type = ETL_SYSTEM64,
                            .time = b->now,
                            .pid = p->pid,
                            .tid = p->tid,
                            .hook = hook,
                            .version = version});
}

static void add_class(build *b, const spgo_guid *guid, uint8_t opcode, uint16_t version,
                      uint32_t pid)
{
    add(b, (etl_event_head){.type = ETL_FULL64,
                            .time = b->now,
                            .pid = pid,
                            .tid = ETL_NO_ID,
                            .guid = *guid,
                            .opcode = opcode,
                            .version = version});
}

/* ------------------------------------------------------------------ processes and images */

static const etl_built_image *image_of(const build *b, const process *p, unsigned i)
{
    return &b->built->images[p->images[i]];
}

static void add_process(build *b, const process *p, uint16_t hook)
{
    const etl_built_image *program = image_of(b, p, 0);
    etl_process e = {.pid = p->pid,
                     .parent_pid = 4,
                     .session_id = 1,
                     .unique_key = b->s->ptr_size == 8 ? 0xFFFFC00000000000u + p->pid * 0x400u
                                                       : 0x80000000u + p->pid * 0x400u,
                     .sid = {user_sid, sizeof user_sid},
                     .image_name = {program->name, strlen(program->name)}};
    char command_line[128];
    snprintf(command_line, sizeof command_line, "\"%s\" --run", program->name);
    etl_encode_process(&b->payload, &e, command_line, 4, b->s->ptr_size);
    if (hook <= 0x0302)
        add_system(b, p, hook, 4);
    else
        add_perfinfo(b, 0, b->now, hook, 4);
}

static void add_thread(build *b, const process *p, uint16_t hook)
{
    etl_thread t = {.pid = p->pid,
                    .tid = p->tid,
                    .start_addr = image_of(b, p, 0)->base + 0x1000,
                    .win32_start_addr = image_of(b, p, 0)->base + 0x1000};
    etl_encode_thread(&b->payload, &t, "main", 3, b->s->ptr_size);
    add_system(b, p, hook, 3);
}

static void add_image_identity(build *b, const etl_built_image *i, uint32_t pid)
{
    char pdb[64];
    snprintf(pdb, sizeof pdb, "C:\\build\\%.*s.pdb", (int)strcspn(i->name, "."), i->name);
    etl_image_id id = {.base = i->base,
                       .size = i->size,
                       .pid = pid,
                       .time_date_stamp = 0x65000001,
                       .id = i->id,
                       .pdb = {pdb, strlen(pdb)}};
    etl_encode_image_id(&b->payload, &id, i->name, b->s->ptr_size);
    add_class(b, &ETL_GUID_IMAGE_ID, 0, 2, pid);
    if (b->s->no_ids) {
        etl_encode_image_no_debug(&b->payload, &id, b->s->ptr_size);
        add_class(b, &ETL_GUID_IMAGE_ID, 0x20, 2, pid);
    } else {
        etl_encode_image_rsds(&b->payload, &id, b->s->ptr_size);
        add_class(b, &ETL_GUID_IMAGE_ID, 0x24, 2, pid);
    }
}

static void add_image(build *b, const process *p, unsigned index, uint32_t pid, uint16_t hook)
{
    const etl_built_image *i = &b->built->images[index];
    if (hook == 0x030A || hook == 0x1403)
        add_image_identity(b, i, pid);
    etl_image e = {.base = i->base,
                   .size = i->size,
                   .pid = pid,
                   .checksum = 0x12345,
                   .time_date_stamp = 0x65000001,
                   .default_base = b->s->ptr_size == 8 ? 0x140000000u : 0x400000u};
    etl_encode_image(&b->payload, &e, i->path, 3, b->s->ptr_size);
    if (hook == 0x030A || hook == 0x1402)
        add_system(b, p, hook, 3);
    else
        add_perfinfo(b, 0, b->now, hook, 3);
}

/* A process with its thread and its user-mode images, in the order of a start or of an end. */
static void add_whole_process(build *b, process *p, uint16_t process_hook, uint16_t thread_hook,
                              uint16_t image_hook)
{
    bool ends = process_hook == 0x0302;
    b->now += 10;
    if (!ends) {
        add_process(b, p, process_hook);
        add_thread(b, p, thread_hook);
    }
    for (unsigned i = 0; i < p->image_count; i++)
        if (image_of(b, p, i)->pid != 0)
            add_image(b, p, p->images[i], p->pid, image_hook);
    if (ends) {
        add_thread(b, p, thread_hook);
        add_process(b, p, process_hook);
    }
    p->alive = !ends && process_hook != 0x0304;
}

static void add_kernel(build *b, uint16_t process_hook, uint16_t image_hook)
{
    etl_process e = {.pid = 4,
                     .session_id = ETL_NO_ID,
                     .sid = {system_sid, sizeof system_sid},
                     .image_name = {"System", 6}};
    b->now += 10;
    etl_encode_process(&b->payload, &e, "", 4, b->s->ptr_size);
    add_perfinfo(b, 0, b->now, process_hook, 4);
    for (unsigned i = 0; i < b->built->image_count; i++)
        if (b->built->images[i].pid == 0)
            add_image(b, &b->processes[0], i, 0, image_hook);
}

static void add_interval(build *b, uint16_t hook)
{
    b->now += 10;
    if (b->s->timer_samples) {
        etl_interval timer = {0, ETL_BUILD_TIMER_INTERVAL, ETL_BUILD_TIMER_INTERVAL, {0}};
        etl_encode_interval(&b->payload, &timer, "Timer", 3);
        add_perfinfo(b, 0, b->now, hook, 3);
    }
    if (b->s->pmc_samples) {
        etl_interval pmc = {ETL_BUILD_PMC_SOURCE, ETL_BUILD_PMC_INTERVAL, 65536, {0}};
        etl_encode_interval(&b->payload, &pmc, "BranchInstructionRetired", 3);
        add_perfinfo(b, 0, b->now, hook, 3);
    }
}

static void add_beginning(build *b)
{
    static const uint32_t group_masks[8] = {0x7, 0x400}; /* process, thread, image; PMC profile */
    for (int i = 0; i < 8; i++)
        bytes_u32(&b->payload, group_masks[i]);
    bytes_u32(&b->payload, 70); /* version of the kernel's events */
    add_system(b, &(process){0}, 0x0005, 2);
    etl_encode_volume(&b->payload, "\\Device\\HarddiskVolume3\\", "C:\\");
    add_class(b, &ETL_GUID_SYSTEM_CONFIG_EX, 0x23, 0, 0);
    add_kernel(b, 0x0303, 0x1403);
    for (unsigned i = 0; i < b->process_count; i++)
        if (!b->processes[i].starts_later)
            add_whole_process(b, &b->processes[i], 0x0303, 0x0503, 0x1403);
    add_interval(b, 0x0F49);
    b->now += SAMPLE_STEP;
}

/* ------------------------------------------------------------------ samples */

static bool is_inside(const etl_built_image *i, uint64_t addr)
{
    return addr - i->base < i->size;
}

static uint64_t same_image(const build *b, const process *p, const uint64_t branch[3])
{
    for (unsigned i = 0; i < p->image_count; i++)
        if (is_inside(image_of(b, p, i), branch[0]))
            return is_inside(image_of(b, p, i), branch[1]);
    return 0;
}

static void add_branches(build *b, process *p, uint16_t cpu, uint64_t trigger_time)
{
    uint64_t branches[SYNTH_LBR_DEPTH][3];
    unsigned n = synth_thread_lbr(&p->thread, branches, b->s->branches);
    for (unsigned i = 0; i < n; i++)
        b->built->same_image_branches += same_image(b, p, branches[i]);
    etl_lbr l = {
        .time = trigger_time, .pid = p->pid, .tid = p->tid, .options = b->s->kernel ? 0 : 1};
    etl_encode_lbr(&b->payload, &l, (const uint64_t(*)[3])branches, n, b->s->ptr_size);
    add_perfinfo(b, cpu, trigger_time + 20, 0x0C20, 2);
    b->built->lbr_records++;
    b->built->branches += n;
}

/* A key is defined when it is deleted or, at the end, run down: always after its uses. */
static void define_keys(build *b, uint16_t cpu, uint64_t time, uint16_t hook)
{
    for (unsigned k = 0; k < b->key_count; k++) {
        etl_stack e = {.key = (b->s->ptr_size == 8 ? 0xFFFF900000000000u : 0x90000000u) + k * 64};
        etl_encode_stack_key_def(&b->payload, &e, b->keys[k].frames, b->keys[k].count,
                                 b->s->ptr_size);
        add_perfinfo(b, cpu, time, hook, 2);
    }
    b->key_count = 0;
}

static void add_stack(build *b, process *p, uint16_t cpu, uint64_t trigger_time, uint64_t index)
{
    etl_stack e = {.time = trigger_time, .pid = p->pid, .tid = p->tid};
    if (index % 3 == 0) {
        uint64_t frames[SYNTH_CALL_DEPTH + 1];
        unsigned n = synth_thread_stack(&p->thread, frames, SYNTH_CALL_DEPTH + 1);
        etl_encode_stack(&b->payload, &e, frames, n, b->s->ptr_size);
        add_perfinfo(b, cpu, trigger_time + 40, 0x1820, 2);
        b->built->plain_stacks++;
    } else if (index % 3 == 1) {
        unsigned k = b->key_count++;
        b->keys[k].count = synth_thread_stack(&p->thread, b->keys[k].frames, SYNTH_CALL_DEPTH + 1);
        e.key = (b->s->ptr_size == 8 ? 0xFFFF900000000000u : 0x90000000u) + k * 64;
        etl_encode_stack_key_use(&b->payload, &e, b->s->ptr_size);
        add_perfinfo(b, cpu, trigger_time + 40, 0x1826, 2);
        b->built->key_stacks++;
        if (b->key_count == KEYS_MAX)
            define_keys(b, cpu, trigger_time + 60, 0x1823);
    }
}

static void add_sample(build *b, process *p, uint64_t index, bool is_timer)
{
    uint16_t cpu = (uint16_t)(synth_random(&b->random) % b->s->cpu_count);
    synth_thread_run(&p->thread, 24 + (unsigned)(index % 17));
    etl_sample e = {.ip = synth_thread_ip(&p->thread),
                    .tid = p->tid,
                    .count = 1,
                    .flags = 8 << 3,
                    .source = ETL_BUILD_PMC_SOURCE};
    if (is_timer) {
        etl_encode_sampled_profile(&b->payload, &e, b->s->ptr_size);
        b->built->timer_samples++;
    } else {
        etl_encode_pmc_interrupt(&b->payload, &e, b->s->ptr_size);
        b->built->pmc_samples++;
    }
    for (unsigned i = 0; i < b->built->image_count; i++)
        if (b->built->images[i].pid == 0 && is_inside(&b->built->images[i], e.ip))
            b->built->kernel_samples++;
    add_perfinfo(b, cpu, b->now, is_timer ? 0x0F2E : 0x0F2F, 2);
    if (!is_timer && b->s->branches)
        add_branches(b, p, cpu, b->now);
    if (b->s->stacks)
        add_stack(b, p, cpu, b->now, index);
    b->now += SAMPLE_STEP;
}

/* The processes take turns; those that start later do so after a quarter of the samples, and a
 * number is used again after half of them. */
static void add_samples(build *b)
{
    uint64_t total = b->s->pmc_samples + b->s->timer_samples;
    uint64_t timer_every = b->s->timer_samples ? total / b->s->timer_samples : 0;
    uint64_t turn = 0;
    for (uint64_t i = 0; i < total && b->code == SPGO_OK; i++) {
        for (unsigned k = 0; i == total / 4 && k < b->s->process_count; k++)
            if (b->processes[k].starts_later)
                add_whole_process(b, &b->processes[k], 0x0301, 0x0501, 0x030A);
        if (i == total / 2 && b->s->pid_reuse) {
            add_whole_process(b, &b->processes[0], 0x0302, 0x0502, 0x1402);
            b->now += SAMPLE_STEP;
            add_whole_process(b, &b->processes[b->s->process_count], 0x0301, 0x0501, 0x030A);
        }
        do {
            turn = (turn + 1) % b->process_count;
        } while (!b->processes[turn].alive);
        bool is_timer =
            b->built->pmc_samples == b->s->pmc_samples ||
            (timer_every && i % timer_every == 0 && b->built->timer_samples < b->s->timer_samples);
        add_sample(b, &b->processes[turn], i, is_timer);
    }
}

static void add_end(build *b)
{
    define_keys(b, 0, b->now, 0x1824);
    if (b->s->leave_open)
        return;
    add_kernel(b, 0x0304, 0x1404);
    for (unsigned i = 0; i < b->process_count; i++)
        if (b->processes[i].alive)
            add_whole_process(b, &b->processes[i], 0x0304, 0x0504, 0x1404);
    add_interval(b, 0x0F4A);
}

/* ------------------------------------------------------------------ the world */

static unsigned make_image(build *b, const char *name, uint32_t pid, uint64_t base)
{
    unsigned index = b->built->image_count++;
    etl_built_image *i = &b->built->images[index];
    i->pid = pid;
    i->base = base;
    i->size = SYNTH_IMAGE_SIZE;
    snprintf(i->name, sizeof i->name, "%s", name);
    snprintf(i->path, sizeof i->path, "%s%s",
             pid ? "\\Device\\HarddiskVolume3\\work\\" : "\\SystemRoot\\system32\\", name);
    uint64_t random = b->s->seed + 1000 * index;
    if (!b->s->no_ids) {
        store_u64(i->id.guid.bytes, synth_random(&random));
        store_u64(i->id.guid.bytes + 8, synth_random(&random));
        i->id.age = 1 + index;
    }
    synth_image_init(&b->images[index], random, base);
    return index;
}

static void make_world(build *b)
{
    const etl_scenario *s = b->s;
    bool wide = s->ptr_size == 8;
    uint64_t user = wide ? 0x7FF600000000u : 0x00400000u;
    unsigned library = 0, kernel = 0;
    b->process_count = s->process_count + s->pid_reuse;
    for (unsigned i = 0; i < b->process_count; i++) {
        bool reuses = i == s->process_count;
        unsigned numbers = reuses ? 0 : i;
        process *p = &b->processes[i];
        p->pid = 1000 + 100 * numbers;
        p->tid = p->pid + 4;
        p->starts_later = reuses || i > 0;
        char name[16];
        snprintf(name, sizeof name, "app%u.exe", i);
        p->images[p->image_count++] = make_image(b, name, p->pid, user + 0x1000000u * numbers);
        b->built->pids[i] = p->pid;
        b->built->tids[i] = p->tid;
    }
    if (s->library)
        library = make_image(b, "common.dll", b->processes[0].pid, user + 0x50000000u);
    if (s->kernel)
        kernel = make_image(b, "ntoskrnl.exe", 0, wide ? 0xFFFFF80000000000u : 0x81000000u);
    for (unsigned i = 0; i < b->process_count; i++) {
        process *p = &b->processes[i];
        if (s->library)
            p->images[p->image_count++] = library;
        if (s->kernel)
            p->images[p->image_count++] = kernel;
        const synth_image *images[3] = {NULL, NULL, NULL};
        for (unsigned k = 0; k < p->image_count; k++)
            images[k] = &b->images[p->images[k]];
        synth_thread_init(&p->thread, s->seed + 77 * i, images, p->image_count);
    }
    b->built->process_count = b->process_count;
}

/* ------------------------------------------------------------------ after the writing */

/* Start of each buffer, and behind them the end of the file; NULL without memory. */
static size_t *index_buffers(const bytes *file, size_t *count)
{
    size_t n = 0;
    for (size_t at = 0; at < file->len; at += load_u32(file->ptr + at))
        n++;
    size_t *starts = calloc(n + 1, sizeof *starts);
    *count = n;
    size_t at = 0;
    for (size_t i = 0; starts && i <= n; i++) {
        starts[i] = at;
        if (i < n)
            at += load_u32(file->ptr + at);
    }
    return starts;
}

static void set_flag(bytes *file, size_t buffer, uint16_t flag, bool on)
{
    uint16_t flags = load_u16(file->ptr + buffer + 0x34);
    bytes_set_u16(file, buffer + 0x34, (uint16_t)(on ? flags | flag : flags & ~flag));
}

/* Buffer flags and a gap in the sequence, as lost events and a lost buffer leave them. */
static void mark_losses(bytes *file, const size_t *starts, size_t count)
{
    size_t middle = count > 2 ? count / 2 : 1;
    for (size_t i = middle; i < count; i++)
        bytes_set_u64(file, starts[i] + 0x18, load_u64(file->ptr + starts[i] + 0x18) + 1);
    if (middle < count)
        set_flag(file, starts[middle], ETL_FLAG_EVENTS_LOST | ETL_FLAG_BUFFER_LOST, true);
}

static void copy_buffer(bytes *to, const bytes *from, const size_t *starts, size_t i)
{
    bytes_put(to, from->ptr + starts[i], starts[i + 1] - starts[i]);
}

/* Another order of the data buffers; the mark of the last one stays at the end of the file. */
static void reorder(const etl_scenario *s, bytes *file, const size_t *starts, size_t count)
{
    bytes out = {0};
    copy_buffer(&out, file, starts, 0);
    if (s->shuffled) {
        for (uint32_t cpu = s->cpu_count; cpu-- > 0;)
            for (size_t i = 1; i < count; i++)
                if ((load_u16(file->ptr + starts[i] + 0x28) & 0xFF) == cpu)
                    copy_buffer(&out, file, starts, i);
    } else {
        for (size_t i = 0; i + 1 < count; i++)
            copy_buffer(&out, file, starts, 1 + (i + count / 2) % (count - 1));
        bytes_set_u32(&out, 72 + 32 + 0x20,
                      (load_u32(out.ptr + 72 + 32 + 0x20) & ~1u) | ETL_MODE_CIRCULAR);
    }
    size_t last = 0;
    for (size_t at = load_u32(out.ptr); at < out.len; at += load_u32(out.ptr + at)) {
        set_flag(&out, at, ETL_FLAG_FLUSH_MARKER, false);
        last = at;
    }
    if (last && !s->leave_open)
        set_flag(&out, last, ETL_FLAG_FLUSH_MARKER, true);
    bytes_free(file);
    *file = out;
}

static spgo_code change_file(const etl_scenario *s, bytes *file, spgo_error *err)
{
    size_t count;
    size_t *starts = index_buffers(file, &count);
    if (!starts)
        return spgo_fail_nomem(err, "etl.build", count * sizeof *starts);
    if (s->lost)
        mark_losses(file, starts, count);
    if ((s->shuffled || s->circular) && count > 1)
        reorder(s, file, starts, count);
    free(starts);
    return file->failed ? spgo_fail_nomem(err, "etl.build", file->len) : SPGO_OK;
}

/* ------------------------------------------------------------------ building */

static etl_writer_opts writer_opts(const etl_scenario *s)
{
    bool large = s->pmc_samples + s->timer_samples >= LARGE_TRACE;
    return (etl_writer_opts){
        .buffer_size = s->buffer_size ? s->buffer_size
                       : large        ? 4u << 20
                                      : 64u << 10,
        .ptr_size = s->ptr_size,
        .cpu_count = s->cpu_count,
        .compress = s->compress,
        .merged = s->merged || s->compress,
        .win7 = s->win7,
        .zero_saved_offset = s->win7,
        .leave_open = s->leave_open,
        .perf_freq = PERF_FREQ,
        .start_time = START_TIME,
        .start_filetime = START_FILETIME,
        .cpu_mhz = 3000,
        .events_lost = s->lost ? 3 : 0,
        .buffers_lost = s->lost ? 1 : 0,
    };
}

static spgo_code write_trace(build *b, spgo_sink sink)
{
    etl_writer_opts opts = writer_opts(b->s);
    SPGO_TRY(etl_writer_new(sink, &opts, &b->w, b->err));
    add_beginning(b);
    add_samples(b);
    add_end(b);
    if (b->code != SPGO_OK) {
        etl_writer_cancel(b->w);
        return b->code;
    }
    return etl_writer_finish(b->w, 0, b->err);
}

static spgo_code write_changed_trace(build *b, spgo_sink sink)
{
    bytes file = {0};
    spgo_code code = write_trace(b, bytes_sink(&file));
    if (code == SPGO_OK)
        code = change_file(b->s, &file, b->err);
    if (code == SPGO_OK && !sink.write(sink.ctx, file.ptr, file.len))
        code = spgo_fail(b->err, SPGO_IO, "etl.build", SPGO_NO_OFFSET,
                         "the output refused %zu bytes", file.len);
    bytes_free(&file);
    return code;
}

spgo_code etl_build(const etl_scenario *s, spgo_sink sink, etl_built *built, spgo_error *err)
{
    etl_built unwanted;
    if (!built)
        built = &unwanted;
    *built = (etl_built){.first_time = START_TIME,
                         .last_time = START_TIME,
                         .start_filetime = START_FILETIME,
                         .perf_freq = PERF_FREQ};
    if (s->process_count < 1 || s->process_count + s->pid_reuse > ETL_BUILD_PROCESSES_MAX ||
        s->cpu_count == 0 || s->cpu_count > 255 || s->branches > SYNTH_LBR_DEPTH)
        return spgo_fail(err, SPGO_USAGE, "etl.build", SPGO_NO_OFFSET,
                         "%u processes on %u processors with %u branches", s->process_count,
                         (unsigned)s->cpu_count, s->branches);
    build *b = calloc(1, sizeof *b);
    synth_image *images = calloc(ETL_BUILD_IMAGES_MAX, sizeof *images);
    spgo_code code;
    if (b && images) {
        b->s = s;
        b->err = err;
        b->built = built;
        b->images = images;
        b->now = START_TIME;
        b->random = s->seed;
        make_world(b);
        bool changed = s->lost || s->shuffled || s->circular;
        code = changed ? write_changed_trace(b, sink) : write_trace(b, sink);
        bytes_free(&b->payload);
    } else {
        code = spgo_fail_nomem(err, "etl.build", sizeof *images * ETL_BUILD_IMAGES_MAX);
    }
    free(images);
    free(b);
    return code;
}

/* ------------------------------------------------------------------ names */

etl_scenario etl_scenario_default(void)
{
    return (etl_scenario){.seed = 1,
                          .ptr_size = 8,
                          .cpu_count = 2,
                          .process_count = 1,
                          .library = true,
                          .pmc_samples = 200,
                          .branches = 32};
}

static void want_lbr(etl_scenario *s, uint64_t n)
{
    s->pmc_samples = n;
    s->branches = SYNTH_LBR_DEPTH;
}

static void want_pmc(etl_scenario *s, uint64_t n)
{
    s->pmc_samples = n;
    s->branches = 0;
}

static void want_timer(etl_scenario *s, uint64_t n)
{
    s->timer_samples = n;
    s->pmc_samples = 0;
}

static void want_stacks(etl_scenario *s, uint64_t n)
{
    want_timer(s, n);
    s->stacks = true;
}

static void want_mixed(etl_scenario *s, uint64_t n)
{
    s->pmc_samples = s->timer_samples = n;
    s->stacks = true;
}

static void want_one_module(etl_scenario *s, uint64_t n)
{
    (void)n;
    s->library = false;
}

static void want_two_processes(etl_scenario *s, uint64_t n)
{
    (void)n;
    s->process_count = 2;
}

static void want_no_samples(etl_scenario *s, uint64_t n)
{
    (void)n;
    s->pmc_samples = s->timer_samples = 0;
}

static void want_32bit(etl_scenario *s, uint64_t n)
{
    (void)n;
    s->ptr_size = 4;
}

static void want_cpus(etl_scenario *s, uint64_t n)
{
    s->cpu_count = n < 255 ? (uint32_t)n : 255;
}

static void want_small_buffers(etl_scenario *s, uint64_t n)
{
    (void)n;
    s->buffer_size = 4096;
}

static void want_seed(etl_scenario *s, uint64_t n)
{
    s->seed = n;
}

#define FLAG_SETTER(field)                                                                         \
    static void set_##field(etl_scenario *s, uint64_t n)                                           \
    {                                                                                              \
        (void)n;                                                                                   \
        s->field = true;                                                                           \
    }
FLAG_SETTER(no_ids)
FLAG_SETTER(win7)
FLAG_SETTER(compress)
FLAG_SETTER(merged)
FLAG_SETTER(leave_open)
FLAG_SETTER(pid_reuse)
FLAG_SETTER(kernel)
FLAG_SETTER(lost)
FLAG_SETTER(shuffled)
FLAG_SETTER(circular)

static const struct {
    const char *name, *what;
    uint64_t number; /* when none is given; 0: takes none */
    void (*apply)(etl_scenario *s, uint64_t n);
} names[] = {
    {"lbr", "N PMC samples with 32 last branches each", 200, want_lbr},
    {"pmc", "N PMC samples without branches", 200, want_pmc},
    {"timer", "N timer samples instead of PMC samples", 1000, want_timer},
    {"stacks", "N timer samples, two of three with a call stack", 1000, want_stacks},
    {"mixed", "N PMC samples with branches and N timer samples, with stacks", 200, want_mixed},
    {"no-samples", "only processes and images", 0, want_no_samples},
    {"no-rsds", "images without an identity", 0, set_no_ids},
    {"one-module", "no library beside the program", 0, want_one_module},
    {"two-processes", "a second process that starts within the trace", 0, want_two_processes},
    {"pid-reuse", "process and thread numbers used twice", 0, set_pid_reuse},
    {"kernel", "kernel addresses", 0, set_kernel},
    {"32bit", "a 32-bit system", 0, want_32bit},
    {"win7", "buffers as Windows 7 writes them", 0, set_win7},
    {"compressed", "compressed buffers", 0, set_compress},
    {"merged", "as merged by the relogger", 0, set_merged},
    {"unclosed", "as left by a logger that died", 0, set_leave_open},
    {"lost", "lost events and a lost buffer", 0, set_lost},
    {"shuffled", "buffers grouped by processor", 0, set_shuffled},
    {"circular", "a wrapped circular file", 0, set_circular},
    {"cpus", "N processors", 4, want_cpus},
    {"small-buffers", "buffers of 4 KiB", 0, want_small_buffers},
    {"seed", "another program: N", 1, want_seed},
};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

bool etl_scenario_name(size_t i, const char **name, const char **what)
{
    if (i >= NAME_COUNT)
        return false;
    *name = names[i].name;
    *what = names[i].what;
    return true;
}

/* One name of `len` bytes, with ":N" in it or not. */
static bool apply_name(const char *text, size_t len, etl_scenario *s)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        size_t name_len = strlen(names[i].name);
        if (len < name_len || memcmp(text, names[i].name, name_len) != 0)
            continue;
        uint64_t number = names[i].number;
        if (len > name_len) {
            if (text[name_len] != ':' || number == 0)
                continue;
            char *end;
            number = strtoull(text + name_len + 1, &end, 10);
            if (end != text + len || number == 0)
                return false;
        }
        names[i].apply(s, number);
        return true;
    }
    return false;
}

bool etl_scenario_parse(const char *text, etl_scenario *out, const char **bad)
{
    *out = etl_scenario_default();
    for (;;) {
        size_t len = strcspn(text, ",");
        if (!apply_name(text, len, out)) {
            if (bad)
                *bad = text;
            return false;
        }
        if (text[len] == '\0')
            return true;
        text += len + 1;
    }
}
