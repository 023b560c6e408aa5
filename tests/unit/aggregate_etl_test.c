/*
 * ETL traces to SPT. Each synthetic trace is also counted by a simple model here, which walks its
 * records in time order and shares nothing with the trace and aggregate layers but the decoders.
 */
#include "aggregate_run.h"
#include "etl_build.h"
#include "synthetic_program.h"

#include <format/etl/etl.h>

/* ------------------------------------------------------------------ the model */

enum { MODEL_IMAGES = 256, MODEL_WAITING = 4096 };

typedef struct model_image {
    uint32_t pid; /* 0: everybody's */
    uint64_t base, size, from, to;
    char name[32];
} model_image;

typedef struct model {
    facts facts;
    model_image images[MODEL_IMAGES];
    size_t image_count;
    struct {
        uint64_t key, time;
        uint32_t pid;
    } waiting[MODEL_WAITING];
    size_t waiting_count;
    struct {
        uint32_t tid, pid;
    } threads[64];
    size_t thread_count;
    const char *only; /* count this program alone */
    bool no_kernel;
} model;

static const model_image *model_find(const model *m, uint32_t pid, uint64_t time, uint64_t addr)
{
    for (size_t i = m->image_count; i-- > 0;) {
        const model_image *im = &m->images[i];
        if ((im->pid == pid || im->pid == 0) && addr - im->base < im->size && im->from <= time &&
            time < im->to && !(im->pid == 0 && m->no_kernel) &&
            (!m->only || strcmp(m->only, im->name) == 0))
            return im;
    }
    return NULL;
}

static void model_image_event(model *m, const etl_record *r, bool ends)
{
    etl_image e;
    char path[256];
    assert_true(etl_decode_image(r, &e));
    text_from_utf16_into(path, sizeof path, e.file_name);
    for (size_t i = 0; i < m->image_count; i++) {
        model_image *im = &m->images[i];
        if (im->pid != e.pid || im->base != e.base || im->to != UINT64_MAX)
            continue;
        if (ends)
            im->to = r->time;
        return;
    }
    if (ends)
        return;
    model_image *im = &m->images[m->image_count++];
    *im = (model_image){.pid = e.pid, .base = e.base, .size = e.size, .from = r->time};
    im->to = UINT64_MAX;
    spgo_str name = text_base_name(text_str(path));
    snprintf(im->name, sizeof im->name, "%.*s", (int)name.len, name.ptr);
}

static uint64_t pointer(const etl_record *r, spgo_span s, size_t i)
{
    uint64_t v = 0;
    memcpy(&v, s.ptr + i * r->ptr_size, r->ptr_size);
    return v;
}

static void model_hit(model *m, const etl_record *r, uint32_t opcode)
{
    etl_sample s;
    assert_true(etl_decode_sample(r, &s));
    uint32_t pid = 0;
    for (size_t i = 0; i < m->thread_count; i++)
        pid = m->threads[i].tid == s.tid ? m->threads[i].pid : pid;
    const model_image *im = model_find(m, pid, r->time, s.ip);
    if (im)
        facts_add(&m->facts, im->name, FACT_HIT, opcode, (uint32_t)(s.ip - im->base), 1);
}

static void model_lbr(model *m, const etl_record *r)
{
    etl_lbr l;
    assert_true(etl_decode_lbr(r, &l));
    const model_image *newer = NULL;
    uint64_t newer_from = 0;
    for (size_t i = 0; i < l.branch_count; i++) {
        uint64_t from = pointer(r, l.branches, 3 * i), to = pointer(r, l.branches, 3 * i + 1);
        const model_image *a = model_find(m, l.pid, l.time, from);
        const model_image *b = model_find(m, l.pid, l.time, to);
        if (newer && b == newer)
            facts_add(&m->facts, b->name, FACT_RANGE, (uint32_t)(to - b->base),
                      (uint32_t)(newer_from - b->base), 1);
        if (a && a == b)
            facts_add(&m->facts, a->name, FACT_ARC, (uint32_t)(from - a->base),
                      (uint32_t)(to - a->base), 1);
        newer = a;
        newer_from = from;
    }
}

static void model_frames(model *m, const etl_record *r, const etl_stack *s, uint32_t pid,
                         uint64_t time)
{
    for (size_t i = 1; i < s->frame_count; i++) {
        uint64_t callee = pointer(r, s->frames, i - 1), caller = pointer(r, s->frames, i);
        const model_image *a = model_find(m, pid, time, callee);
        if (a && a == model_find(m, pid, time, caller))
            facts_add(&m->facts, a->name, FACT_FRAMES, (uint32_t)(callee - a->base),
                      (uint32_t)(caller - a->base), 1);
    }
}

static void model_stack(model *m, const etl_record *r, etl_event e)
{
    etl_stack s;
    assert_true(etl_decode_stack(r, &s));
    if (e == ETL_EV_STACK) {
        model_frames(m, r, &s, s.pid, s.time);
    } else if (e == ETL_EV_STACK_KEY_USER || e == ETL_EV_STACK_KEY_KERNEL) {
        assert_true(m->waiting_count < MODEL_WAITING);
        m->waiting[m->waiting_count].key = s.key;
        m->waiting[m->waiting_count].time = s.time;
        m->waiting[m->waiting_count++].pid = s.pid;
    } else {
        size_t kept = 0;
        for (size_t i = 0; i < m->waiting_count; i++) {
            if (m->waiting[i].key == s.key)
                model_frames(m, r, &s, m->waiting[i].pid, m->waiting[i].time);
            else
                m->waiting[kept++] = m->waiting[i];
        }
        m->waiting_count = kept;
    }
}

static void model_record(model *m, const etl_record *r)
{
    etl_event e = etl_record_event(r);
    etl_thread th;
    switch (e) {
    case ETL_EV_IMAGE_LOAD:
    case ETL_EV_IMAGE_DC_START:
        model_image_event(m, r, false);
        break;
    case ETL_EV_IMAGE_UNLOAD:
        model_image_event(m, r, true);
        break;
    case ETL_EV_THREAD_START:
    case ETL_EV_THREAD_DC_START:
        assert_true(etl_decode_thread(r, &th));
        m->threads[m->thread_count].tid = th.tid;
        m->threads[m->thread_count++].pid = th.pid;
        break;
    case ETL_EV_SAMPLED_PROFILE:
        model_hit(m, r, SPGO_SPT_ETW_INSTR);
        break;
    case ETL_EV_PMC_INTERRUPT:
        model_hit(m, r, SPGO_SPT_RETIRE_BR_INSTR);
        break;
    case ETL_EV_LBR:
        model_lbr(m, r);
        break;
    case ETL_EV_STACK:
    case ETL_EV_STACK_KEY_KERNEL:
    case ETL_EV_STACK_KEY_USER:
    case ETL_EV_STACK_KEY_DELETE:
    case ETL_EV_STACK_KEY_RUNDOWN:
        model_stack(m, r, e);
        break;
    default:
        break;
    }
}

static void model_run(model *m, spgo_span trace_bytes)
{
    etl_file *f;
    etl_stream *stream;
    etl_record r;
    assert_int_equal(etl_open(trace_bytes, &f, NULL, NULL), SPGO_OK);
    const etl_file *files[] = {f};
    assert_int_equal(etl_stream_open(files, 1, NULL, &stream, NULL), SPGO_OK);
    while (etl_stream_next(stream, &r, NULL))
        model_record(m, &r);
    etl_stream_close(stream);
    etl_close(f);
    facts_settle(&m->facts);
}

/* ------------------------------------------------------------------ scenarios */

static void build_scenario(const char *text, bytes *out, etl_built *built)
{
    etl_scenario s;
    spgo_error err;
    assert_true(etl_scenario_parse(text, &s, NULL));
    assert_int_equal(etl_build(&s, bytes_sink(out), built, &err), SPGO_OK);
}

static void check_counts(const run *r, const etl_built *built)
{
    assert_int_equal(r->seen.pmc_samples, built->pmc_samples);
    assert_int_equal(r->seen.timer_samples, built->timer_samples);
    assert_int_equal(r->seen.lbr_records, built->lbr_records);
    assert_int_equal(r->seen.lbr_with_trigger, built->lbr_records);
    assert_int_equal(r->seen.lbr_entries, built->branches);
    assert_int_equal(r->seen.stacks, built->plain_stacks + built->key_stacks);
    assert_int_equal(r->seen.stacks_untied, 0);
    assert_int_equal(r->seen.stacks_undefined, 0);
    assert_int_equal(r->seen.bad_records, 0);
    assert_int_equal(r->seen.bad_buffers, 0);
    assert_int_equal(r->tally.parts[TRACE_BRANCHES].used, built->same_image_branches);
    assert_int_equal(r->tally.parts[TRACE_IP].used, built->pmc_samples + built->timer_samples);
    assert_int_equal(r->tally.bogus_ranges, 0);
    assert_int_equal(r->sessions, 1);
}

static void check_scenario(void **state, const char *text)
{
    bytes file = {0};
    etl_built built;
    run r;
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    print_message("  %s\n", text);
    build_scenario(text, &file, &built);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_OK);
    check_counts(&r, &built);
    model_run(m, bytes_span(&file));
    assert_true(m->facts.count > 0);
    assert_same_facts(&r.facts, &m->facts);
    for (unsigned i = 0; i < built.image_count; i++)
        assert_true(has_program(&r, built.images[i].name, &built.images[i].id));
    facts_free(&m->facts);
    free(m);
    run_free(&r);
    bytes_free(&file);
}

static void all_scenarios_come_out_as_the_model_says(void **state)
{
    static const char *const texts[] = {
        "lbr",
        "lbr:1000,kernel",
        "lbr,one-module",
        "lbr,two-processes",
        "lbr:600,pid-reuse,kernel",
        "lbr:500,pid-reuse,two-processes",
        "lbr,32bit",
        "lbr,32bit,kernel,two-processes",
        "lbr,win7",
        "lbr:1000,compressed",
        "lbr,merged",
        "lbr,unclosed",
        "lbr:1000,shuffled,small-buffers,cpus:8",
        "lbr:1000,circular,small-buffers",
        "lbr,no-rsds",
        "pmc:3000",
        "timer:3000,two-processes",
        "stacks:3000",
        "stacks:3000,kernel,two-processes,pid-reuse",
        "stacks:1000,32bit,kernel",
        "mixed:600,kernel,two-processes,pid-reuse,compressed,cpus:4",
        "mixed:600,kernel,win7,small-buffers,shuffled,cpus:3",
        "mixed:300,seed:99,32bit,pid-reuse,circular,small-buffers",
        "lbr:9000,two-processes,kernel", /* more than one batch */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_scenario(state, texts[i]);
}

static void losses_are_told(void **state)
{
    bytes file = {0};
    etl_built built;
    run r;
    build_scenario("lbr:1000,lost,small-buffers", &file, &built);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(r.seen.lost_events, 3);
    assert_int_equal(r.seen.lost_buffers, 1);
    assert_int_equal(r.seen.lbr_records, built.lbr_records);
    run_free(&r);
    bytes_free(&file);
}

static void a_trace_without_samples_makes_an_empty_file(void **state)
{
    bytes file = {0};
    run r;
    build_scenario("no-samples", &file, NULL);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 2});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(r.tally.programs, 0);
    assert_int_equal(r.facts.count, 0);
    assert_true(r.seen.images > 0);
    run_free(&r);
    bytes_free(&file);
}

static void images_without_an_identity_get_none(void **state)
{
    bytes file = {0};
    run r;
    build_scenario("lbr,no-rsds", &file, NULL);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(r.tally.programs, 2);
    assert_int_equal(r.tally.programs_without_id, 2);
    run_free(&r);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 2, .require_id = true});
    assert_int_equal(r.code, SPGO_NOT_FOUND);
    assert_non_null(strstr(r.err.sentence, "has no identity in this trace"));
    run_free(&r);
    bytes_free(&file);
}

/* ------------------------------------------------------------------ threads and filters */

static void the_bytes_do_not_depend_on_the_threads(void **state)
{
    static const unsigned counts[] = {2, 3, 8, 64};
    bytes file = {0};
    build_scenario("mixed:9000,kernel,two-processes,pid-reuse,cpus:4", &file, NULL);
    run one, other;
    run_bytes(&one, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(one.code, SPGO_OK);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        run_bytes(&other, state, &file, &(aggregate_opts){.threads = counts[i]});
        assert_int_equal(other.code, SPGO_OK);
        assert_int_equal(other.spt.len, one.spt.len);
        assert_memory_equal(other.spt.ptr, one.spt.ptr, one.spt.len);
        assert_memory_equal(&other.tally, &one.tally, sizeof one.tally);
        run_free(&other);
    }
    run_free(&one);
    bytes_free(&file);
}

static void check_filter(void **state, const bytes *file, const aggregate_opts *opts, model *m)
{
    run r;
    run_bytes(&r, state, file, opts);
    assert_int_equal(r.code, SPGO_OK);
    memset(m->images, 0, sizeof m->images);
    m->facts = (facts){0};
    m->image_count = m->thread_count = m->waiting_count = 0;
    model_run(m, bytes_span(file));
    assert_true(m->facts.count > 0);
    assert_same_facts(&r.facts, &m->facts);
    facts_free(&m->facts);
    run_free(&r);
}

static void binary_and_nokernel_leave_the_rest_out(void **state)
{
    bytes file = {0};
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    build_scenario("mixed:400,kernel,two-processes", &file, NULL);
    const char *common[] = {"c:\\any\\COMMON.*"}, *app[] = {"nothing", "app?.EXE"};
    m->only = "common.dll";
    check_filter(state, &file,
                 &(aggregate_opts){.threads = 1, .binaries = common, .binary_count = 1}, m);
    m->only = NULL;
    m->no_kernel = true;
    check_filter(state, &file, &(aggregate_opts){.threads = 1, .no_kernel = true}, m);
    run r;
    run_bytes(&r, state, &file,
              &(aggregate_opts){.threads = 1, .binaries = app, .binary_count = 2});
    assert_int_equal(r.tally.programs, 2);
    assert_true(r.tally.parts[TRACE_IP].dropped[AGGREGATE_OTHER_BINARY] > 0);
    run_free(&r);
    free(m);
    bytes_free(&file);
}

static void process_keeps_what_the_process_did(void **state)
{
    bytes file = {0};
    etl_built built;
    run all, one;
    build_scenario("mixed:400,kernel,two-processes", &file, &built);
    const char *wanted[] = {"APP1.exe"};
    run_bytes(&all, state, &file, &(aggregate_opts){.threads = 1});
    run_bytes(&one, state, &file,
              &(aggregate_opts){.threads = 1, .processes = wanted, .process_count = 1});
    assert_int_equal(one.code, SPGO_OK);
    assert_int_equal(facts_hits(&one.facts, "app0.exe", FACT_HIT), 0);
    assert_int_equal(facts_hits(&one.facts, "app1.exe", FACT_HIT),
                     facts_hits(&all.facts, "app1.exe", FACT_HIT));
    assert_int_equal(facts_hits(&one.facts, "app1.exe", FACT_ARC),
                     facts_hits(&all.facts, "app1.exe", FACT_ARC));
    assert_in_range(facts_hits(&one.facts, "ntoskrnl.exe", FACT_HIT), 1,
                    facts_hits(&all.facts, "ntoskrnl.exe", FACT_HIT) - 1);
    assert_int_equal(one.tally.parts[TRACE_IP].used +
                         one.tally.parts[TRACE_IP].dropped[AGGREGATE_OTHER_PROCESS],
                     all.tally.parts[TRACE_IP].used);
    run_free(&all);
    run_free(&one);
    bytes_free(&file);
}

/* ------------------------------------------------------------------ files by hand */

/* One process with one image at 0x140000000, whose rundown is in the trace. */
typedef struct hand {
    bytes file, payload;
    etl_writer *w;
    uint64_t now;
} hand;

#define APP_BASE UINT64_C(0x140000000)
enum { APP_PID = 100, APP_TID = 104, APP_SIZE = 0x100000 };

static void hand_add(hand *h, etl_event_head head)
{
    spgo_error err;
    if (head.time == 0)
        head.time = ++h->now;
    h->now = head.time > h->now ? head.time : h->now;
    if (etl_writer_add(h->w, &head, bytes_span(&h->payload), &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    bytes_clear(&h->payload);
}

static void hand_hook(hand *h, uint16_t cpu, uint64_t time, uint16_t hook)
{
    hand_add(h, (etl_event_head){
                    .type = ETL_PERFINFO64, .cpu = cpu, .time = time, .hook = hook, .version = 3});
}

static void hand_open(hand *h, const etl_writer_opts *opts)
{
    etl_writer_opts o = opts ? *opts : (etl_writer_opts){0};
    o.start_time = o.start_time ? o.start_time : 1000;
    o.start_filetime = o.start_filetime ? o.start_filetime : 133500000000000000u;
    *h = (hand){.now = o.start_time};
    assert_int_equal(etl_writer_new(bytes_sink(&h->file), &o, &h->w, NULL), SPGO_OK);
}

static void hand_image(hand *h, uint16_t hook, uint64_t base, uint32_t pid, const char *path)
{
    etl_image i = {.base = base, .size = APP_SIZE, .pid = pid};
    etl_encode_image(&h->payload, &i, path, 3, 8);
    hand_hook(h, 0, 0, hook);
}

static void hand_process(hand *h, uint32_t pid, uint32_t tid, const char *name)
{
    etl_process p = {.pid = pid, .image_name = text_str(name)};
    static const uint8_t sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    p.sid = (spgo_span){sid, sizeof sid};
    etl_encode_process(&h->payload, &p, "", 4, 8);
    hand_hook(h, 0, 0, 0x0303);
    etl_encode_thread(&h->payload, &(etl_thread){.pid = pid, .tid = tid}, "", 3, 8);
    hand_hook(h, 0, 0, 0x0503);
}

static void hand_app(hand *h)
{
    hand_process(h, APP_PID, APP_TID, "app.exe");
    hand_image(h, 0x1403, APP_BASE, APP_PID, "\\Device\\HarddiskVolume1\\app.exe");
    etl_interval i = {.source = 7, .new_interval = 1000};
    etl_encode_interval(&h->payload, &i, "InstructionRetired", 3);
    hand_hook(h, 0, 0, 0x0F49);
}

static void hand_rsds_type(hand *h, uint64_t base, uint32_t pid, uint8_t digit, uint64_t time)
{
    etl_image_id i = {.base = base, .pid = pid, .id = {.age = digit}, .pdb = text_str("x.pdb")};
    memset(i.id.guid.bytes, digit, 16);
    etl_encode_image_rsds(&h->payload, &i, 8);
    hand_add(h, (etl_event_head){.type = ETL_FULL64,
                                 .time = time,
                                 .pid = pid,
                                 .tid = ETL_NO_ID,
                                 .guid = ETL_GUID_IMAGE_ID,
                                 .opcode = 0x24,
                                 .version = 2});
}

static uint64_t hand_timer(hand *h, uint64_t ip, uint32_t tid)
{
    etl_sample s = {.ip = ip, .tid = tid, .count = 1};
    etl_encode_sampled_profile(&h->payload, &s, 8);
    uint64_t time = h->now + 10;
    hand_hook(h, 0, time, 0x0F2E);
    return time;
}

static uint64_t hand_pmc(hand *h, uint64_t ip, uint16_t source)
{
    etl_sample s = {.ip = ip, .tid = APP_TID, .count = 1, .source = source};
    etl_encode_pmc_interrupt(&h->payload, &s, 8);
    uint64_t time = h->now + 10;
    hand_hook(h, 0, time, 0x0F2F);
    return time;
}

/* branches: pairs of RVAs, newest first; 0xFFFFFFFF is an address in no image */
static void hand_lbr_payload(hand *h, uint64_t trigger, uint32_t tid, uint32_t options,
                             const uint32_t (*pairs)[2], size_t n)
{
    uint64_t branches[32][3] = {{0}};
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 2; k++)
            branches[i][k] = pairs[i][k] == 0            ? 0
                             : pairs[i][k] == UINT32_MAX ? 0x555500000000
                                                         : APP_BASE + pairs[i][k];
    }
    etl_lbr l = {.time = trigger, .pid = APP_PID, .tid = tid, .options = options};
    etl_encode_lbr(&h->payload, &l, (const uint64_t(*)[3])branches, n, 8);
}

static void hand_lbr(hand *h, uint64_t trigger, uint32_t options, const uint32_t (*pairs)[2],
                     size_t n)
{
    hand_lbr_payload(h, trigger, APP_TID, options, pairs, n);
    hand_hook(h, 0, 0, 0x0C20);
}

static void hand_stack(hand *h, uint64_t trigger, uint32_t tid, const uint32_t *rvas, size_t n)
{
    uint64_t frames[32];
    for (size_t i = 0; i < n; i++)
        frames[i] = rvas[i] == UINT32_MAX ? 0x555500000000 : APP_BASE + rvas[i];
    etl_stack s = {.time = trigger, .pid = APP_PID, .tid = tid};
    etl_encode_stack(&h->payload, &s, frames, n, 8);
    hand_hook(h, 0, 0, 0x1820);
}

static void hand_key_use(hand *h, uint64_t trigger, uint32_t pid, uint32_t tid, uint64_t key)
{
    etl_stack s = {.time = trigger, .pid = pid, .tid = tid, .key = key};
    etl_encode_stack_key_use(&h->payload, &s, 8);
    hand_hook(h, 0, 0, 0x1826);
}

static void hand_key_def(hand *h, uint64_t key, const uint32_t *rvas, size_t n, uint16_t hook)
{
    uint64_t frames[32];
    for (size_t i = 0; i < n; i++)
        frames[i] = APP_BASE + rvas[i];
    etl_encode_stack_key_def(&h->payload, &(etl_stack){.key = key}, frames, n, 8);
    hand_hook(h, 0, 0, hook);
}

static void hand_close(hand *h)
{
    assert_int_equal(etl_writer_finish(h->w, 0, NULL), SPGO_OK);
    bytes_free(&h->payload);
}

static void hand_run(hand *h, void **state, run *r)
{
    hand_close(h);
    run_bytes(r, state, &h->file, &(aggregate_opts){.threads = 1});
    bytes_free(&h->file);
    assert_int_equal(r->code, SPGO_OK);
}

static void assert_facts(const run *r, const fact *want, size_t n)
{
    facts f = {0};
    for (size_t i = 0; i < n; i++)
        facts_add(&f, want[i].program, want[i].kind, want[i].a, want[i].b, want[i].hits);
    facts_settle(&f);
    assert_same_facts(&r->facts, &f);
    facts_free(&f);
}
#define ASSERT_FACTS(r, ...)                                                                       \
    do {                                                                                           \
        const fact want_[] = {__VA_ARGS__};                                                        \
        assert_facts(r, want_, sizeof want_ / sizeof want_[0]);                                    \
    } while (0)

static void a_branch_to_elsewhere_keeps_the_stretch_before_it(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    uint64_t t = hand_pmc(&h, APP_BASE + 0x1000, 7);
    /* older ones below: a jump, a call out, its return, a jump */
    static const uint32_t pairs[][2] = {
        {0x2200, 0x2300}, {UINT32_MAX, 0x2100}, {0x2020, UINT32_MAX}, {0x1000, 0x2000}};
    hand_lbr(&h, t, 0, pairs, 4);
    hand_run(&h, state, &r);
    ASSERT_FACTS(
        &r, {"app.exe", FACT_ARC, 0x2200, 0x2300, 1}, {"app.exe", FACT_ARC, 0x1000, 0x2000, 1},
        {"app.exe", FACT_RANGE, 0x2100, 0x2200, 1}, {"app.exe", FACT_RANGE, 0x2000, 0x2020, 1},
        {"app.exe", FACT_HIT, SPGO_SPT_RETIRE_INSTR, 0x1000, 1});
    assert_int_equal(r.tally.parts[TRACE_BRANCHES].dropped[AGGREGATE_CROSS_MODULE], 2);
    run_free(&r);
}

static void stretches_that_make_no_sense_cut_the_run(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    uint64_t t = hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    static const uint32_t pairs[][2] = {
        {0x2000, 0x3000}, {0x1000, 0x2001}, {0, 0x5000}, {0x6000, 0x4000}, {0x3000, 0x6000}};
    hand_lbr(&h, t, 0, pairs, 5);
    hand_run(&h, state, &r);
    assert_int_equal(r.tally.bogus_ranges, 1); /* 0x2001 to 0x2000 */
    assert_int_equal(r.tally.parts[TRACE_BRANCHES].dropped[AGGREGATE_EMPTY], 1);
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_RANGE), 1); /* 0x6000 to itself */
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_ARC), 4);
    run_free(&r);
}

static void a_session_that_left_out_kinds_has_no_neighbours(void **state)
{
    static const struct {
        uint32_t options;
        uint64_t ranges;
    } cases[] = {{0, 1}, {1, 1}, {2, 1}, {4, 0}, {0x200, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand h;
        run r;
        hand_open(&h, NULL);
        hand_app(&h);
        uint64_t t = hand_timer(&h, APP_BASE + 0x1000, APP_TID);
        static const uint32_t pairs[][2] = {{0x2000, 0x3000}, {0x1000, 0x1800}};
        hand_lbr(&h, t, cases[i].options, pairs, 2);
        hand_run(&h, state, &r);
        assert_int_equal(facts_hits(&r.facts, NULL, FACT_ARC), 2);
        assert_int_equal(facts_hits(&r.facts, NULL, FACT_RANGE), cases[i].ranges);
        run_free(&r);
    }
}

static void branches_without_their_trigger_are_used_and_counted(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    uint64_t t = hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    static const uint32_t pairs[][2] = {{0x2000, 0x3000}};
    hand_lbr(&h, t, 0, pairs, 1);
    hand_lbr(&h, t + 1, 0, pairs, 1); /* another time */
    hand_lbr_payload(&h, t, APP_TID + 1, 0, pairs, 1);
    hand_hook(&h, 0, 0, 0x0C20); /* another thread */
    hand_lbr_payload(&h, t, APP_TID, 0, pairs, 1);
    hand_hook(&h, 1, h.now + 1, 0x0C20); /* another processor */
    hand_run(&h, state, &r);
    assert_int_equal(r.seen.lbr_records, 4);
    assert_int_equal(r.seen.lbr_with_trigger, 1);
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_ARC), 4);
    run_free(&r);
}

static void a_context_switch_can_be_the_trigger(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    etl_encode_cswitch(&h.payload, &(etl_cswitch){.new_tid = APP_TID, .old_tid = 1});
    hand_hook(&h, 0, h.now + 10, 0x0524);
    static const uint32_t pairs[][2] = {{0x2000, 0x3000}};
    hand_lbr(&h, h.now, 0, pairs, 1);
    hand_run(&h, state, &r);
    assert_int_equal(r.seen.context_switches, 1);
    assert_int_equal(r.seen.lbr_with_trigger, 1);
    run_free(&r);
}

static void branches_under_the_class_guid_are_the_same(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    uint64_t t = hand_pmc(&h, APP_BASE + 0x1000, 7);
    static const uint32_t pairs[][2] = {{0x2000, 0x3000}, {0x1000, 0x1800}};
    hand_lbr_payload(&h, t, APP_TID, 0, pairs, 2);
    hand_add(&h, (etl_event_head){.type = ETL_FULL64,
                                  .pid = APP_PID,
                                  .tid = APP_TID,
                                  .guid = ETL_GUID_LAST_BRANCH,
                                  .opcode = 0x20,
                                  .version = 2});
    hand_run(&h, state, &r);
    assert_int_equal(r.seen.lbr_records, 1);
    assert_int_equal(r.seen.lbr_with_trigger, 1);
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_ARC), 2);
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_RANGE), 1);
    run_free(&r);
}

static void only_stacks_of_samples_count(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    static const uint32_t rvas[] = {0x1000, 0x2000, 0x3000};
    uint64_t t = hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_stack(&h, t, APP_TID, rvas, 3);
    hand_stack(&h, t, APP_TID + 1, rvas, 3); /* another thread's */
    hand_stack(&h, t + 1, APP_TID, rvas, 3); /* of another event */
    hand_run(&h, state, &r);
    assert_int_equal(r.seen.stacks, 3);
    assert_int_equal(r.seen.stacks_untied, 2);
    assert_int_equal(r.tally.stacks_used, 1);
    ASSERT_FACTS(&r, {"app.exe", FACT_FRAMES, 0x1000, 0x2000, 1},
                 {"app.exe", FACT_FRAMES, 0x2000, 0x3000, 1},
                 {"app.exe", FACT_HIT, SPGO_SPT_ETW_INSTR, 0x1000, 1});
    run_free(&r);
}

static void a_frame_elsewhere_parts_the_stack(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    static const uint32_t rvas[] = {0x1000, 0x2000, UINT32_MAX, UINT32_MAX, 0x3000, 0x4000};
    uint64_t t = hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_stack(&h, t, APP_TID, rvas, 6);
    hand_run(&h, state, &r);
    assert_int_equal(r.tally.parts[TRACE_STACK].seen, 5);
    assert_int_equal(r.tally.parts[TRACE_STACK].used, 2);
    assert_int_equal(r.tally.parts[TRACE_STACK].dropped[AGGREGATE_CROSS_MODULE], 2);
    assert_int_equal(r.tally.parts[TRACE_STACK].dropped[AGGREGATE_NO_IMAGE], 1);
    run_free(&r);
}

static void stack_keys_are_used_before_they_are_defined(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    static const uint32_t first[] = {0x1000, 0x2000}, second[] = {0x5000, 0x6000};
    for (int i = 0; i < 3; i++)
        hand_key_use(&h, hand_timer(&h, APP_BASE + 0x1000, APP_TID), APP_PID, APP_TID, 0x77);
    hand_key_def(&h, 0x77, first, 2, 0x1823);
    hand_key_use(&h, hand_timer(&h, APP_BASE + 0x1000, APP_TID), APP_PID, APP_TID, 0x77);
    hand_key_use(&h, hand_timer(&h, APP_BASE + 0x1000, APP_TID), APP_PID, APP_TID, 0x88);
    hand_key_def(&h, 0x77, second, 2, 0x1824); /* the key means something else now */
    hand_run(&h, state, &r);
    assert_int_equal(r.seen.stacks, 5);
    assert_int_equal(r.seen.stacks_undefined, 1); /* 0x88 */
    assert_int_equal(r.tally.stacks_used, 4);
    ASSERT_FACTS(&r, {"app.exe", FACT_FRAMES, 0x1000, 0x2000, 3},
                 {"app.exe", FACT_FRAMES, 0x5000, 0x6000, 1},
                 {"app.exe", FACT_HIT, SPGO_SPT_ETW_INSTR, 0x1000, 5});
    run_free(&r);
}

/* More processes than one batch has room for stacks. */
static void one_key_of_many_processes_reaches_all_of_them(void **state)
{
    enum { PROCESSES = 6000 };
    hand h;
    run r;
    hand_open(&h, &(etl_writer_opts){.buffer_size = 1 << 20});
    for (uint32_t i = 0; i < PROCESSES; i++) {
        hand_process(&h, 1000 + 4 * i, 1002 + 4 * i, "many.exe");
        hand_image(&h, 0x1403, APP_BASE, 1000 + 4 * i, "\\many.exe");
    }
    static const uint32_t rvas[] = {0x1000, 0x2000};
    for (uint32_t i = 0; i < PROCESSES; i++) {
        uint64_t t = hand_timer(&h, APP_BASE + 0x1000, 1002 + 4 * i);
        hand_key_use(&h, t, 1000 + 4 * i, 1002 + 4 * i, 0x77);
    }
    hand_key_def(&h, 0x77, rvas, 2, 0x1824);
    hand_run(&h, state, &r);
    ASSERT_FACTS(&r, {"many.exe", FACT_FRAMES, 0x1000, 0x2000, PROCESSES},
                 {"many.exe", FACT_HIT, SPGO_SPT_ETW_INSTR, 0x1000, PROCESSES});
    assert_int_equal(r.seen.stacks_undefined, 0);
    run_free(&r);
}

static void samples_say_why_they_are_not_used(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    etl_interval other = {.source = 9, .new_interval = 5};
    etl_encode_interval(&h.payload, &other, "SomethingElse", 3);
    hand_hook(&h, 0, 0, 0x0F49);
    hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_timer(&h, APP_BASE + APP_SIZE, APP_TID); /* behind the image */
    hand_timer(&h, APP_BASE + 0x1000, 9999);      /* a thread that nobody knows */
    hand_pmc(&h, APP_BASE + 0x1000, 9);
    hand_run(&h, state, &r);
    const aggregate_part *p = &r.tally.parts[TRACE_IP];
    assert_int_equal(p->seen, 4);
    assert_int_equal(p->used, 1);
    assert_int_equal(p->dropped[AGGREGATE_NO_IMAGE], 1);
    assert_int_equal(p->dropped[AGGREGATE_NO_PROCESS], 1);
    assert_int_equal(p->dropped[AGGREGATE_UNKNOWN_COUNTER], 1);
    run_free(&r);
}

/* A record that names the wrong process shows by its addresses, while that other image is there. */
static void branches_of_another_process_are_told_from_unknown_code(void **state)
{
    enum { OTHER_PID = 4000 };
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_app(&h);
    hand_process(&h, OTHER_PID, OTHER_PID + 4, "other.exe");
    hand_image(&h, 0x030A, 0x555500000000, OTHER_PID, "\\other.exe");
    static const uint32_t pairs[][2] = {{UINT32_MAX, UINT32_MAX},
                                        {APP_SIZE + 16, APP_SIZE + 32},
                                        {UINT32_MAX, APP_SIZE + 16},
                                        {0x1000, UINT32_MAX},
                                        {0x1000, 0x2000}};
    hand_lbr(&h, hand_timer(&h, APP_BASE + 0x1000, APP_TID), 0, pairs, 5);
    hand_image(&h, 0x1402, 0x555500000000, OTHER_PID, "\\other.exe");
    hand_lbr(&h, hand_timer(&h, APP_BASE + 0x1000, APP_TID), 0, pairs, 5);
    hand_run(&h, state, &r);
    const aggregate_part *p = &r.tally.parts[TRACE_BRANCHES];
    assert_int_equal(p->used, 2);
    assert_int_equal(p->dropped[AGGREGATE_CROSS_MODULE], 2);
    assert_int_equal(p->dropped[AGGREGATE_WRONG_PROCESS], 2);
    assert_int_equal(p->dropped[AGGREGATE_NO_IMAGE], 1 + 3);
    run_free(&r);
}

/* ------------------------------------------------------------------ identities */

static spgo_image_id id_of_digit(uint8_t digit)
{
    spgo_image_id id = {.age = digit};
    memset(id.guid.bytes, digit, 16);
    return id;
}

/* What stood at a base before is not what stands there now. */
static void an_identity_is_not_lent_to_another_image(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_process(&h, APP_PID, APP_TID, "app.exe");
    hand_image(&h, 0x1403, APP_BASE, APP_PID, "\\one.dll");
    hand_rsds_type(&h, APP_BASE, APP_PID, 1, h.now);
    hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_image(&h, 0x1402, APP_BASE, APP_PID, "\\one.dll");
    hand_image(&h, 0x030A, APP_BASE, APP_PID, "\\two.dll"); /* without RSDS record */
    hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_run(&h, state, &r);
    spgo_image_id one = id_of_digit(1), none = {0};
    assert_true(has_program(&r, "one.dll", &one));
    assert_true(has_program(&r, "two.dll", &none));
    run_free(&r);
}

static void an_identity_with_a_time_of_its_own_is_found(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_process(&h, APP_PID, APP_TID, "app.exe");
    hand_image(&h, 0x1403, APP_BASE, APP_PID, "\\one.dll");
    hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_rsds_type(&h, APP_BASE, APP_PID, 1, 0);
    hand_run(&h, state, &r);
    spgo_image_id one = id_of_digit(1);
    assert_true(has_program(&r, "one.dll", &one));
    run_free(&r);
}

/* The same file elsewhere has the same identity. */
static void an_identity_is_shared_by_path_and_size(void **state)
{
    hand h;
    run r;
    hand_open(&h, NULL);
    hand_process(&h, 200, 204, "first.exe");
    hand_image(&h, 0x1403, APP_BASE, 200, "\\one.dll");
    hand_rsds_type(&h, APP_BASE, 200, 1, h.now);
    hand_process(&h, APP_PID, APP_TID, "app.exe");
    hand_image(&h, 0x1403, APP_BASE, APP_PID, "\\one.dll");
    hand_timer(&h, APP_BASE + 0x1000, APP_TID);
    hand_run(&h, state, &r);
    spgo_image_id one = id_of_digit(1);
    assert_true(has_program(&r, "one.dll", &one));
    run_free(&r);
}

/* ------------------------------------------------------------------ several files */

static void image_ids_may_stand_in_another_file(void **state)
{
    hand images, samples, ids;
    hand_open(&images, NULL);
    hand_app(&images);
    uint64_t image_time = images.now - 1;
    hand_close(&images);
    hand_open(&samples, NULL);
    samples.now = 5000;
    uint64_t t = hand_timer(&samples, APP_BASE + 0x1000, APP_TID);
    static const uint32_t pairs[][2] = {{0x2000, 0x3000}};
    hand_lbr(&samples, t, 0, pairs, 1);
    hand_close(&samples);
    hand_open(&ids, NULL);
    hand_rsds_type(&ids, APP_BASE, APP_PID, 5, image_time);
    hand_close(&ids);
    const char *paths[] = {test_path(state, "samples"), test_path(state, "ids"),
                           test_path(state, "images")};
    test_write_file(paths[0], samples.file.ptr, samples.file.len);
    test_write_file(paths[1], ids.file.ptr, ids.file.len);
    test_write_file(paths[2], images.file.ptr, images.file.len);
    run r;
    run_files(&r, paths, 3, &(aggregate_opts){.threads = 2});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(r.sessions, 1);
    ASSERT_FACTS(&r, {"app.exe", FACT_HIT, SPGO_SPT_ETW_INSTR, 0x1000, 1},
                 {"app.exe", FACT_ARC, 0x2000, 0x3000, 1});
    assert_int_equal(r.seen.lbr_with_trigger, 1);
    spgo_image_id five = id_of_digit(5);
    assert_true(has_program(&r, "app.exe", &five));
    run_free(&r);
    bytes_free(&images.file);
    bytes_free(&samples.file);
    bytes_free(&ids.file);
}

/* Two boots use the same numbers for different things. */
static void sessions_of_different_boots_do_not_mix(void **state)
{
    hand a, b;
    hand_open(&a, NULL);
    hand_app(&a);
    hand_timer(&a, APP_BASE + 0x1000, APP_TID);
    hand_close(&a);
    hand_open(&b, &(etl_writer_opts){.start_filetime = 133600000000000000u});
    hand_process(&b, APP_PID, APP_TID, "other.exe");
    hand_image(&b, 0x1403, APP_BASE, APP_PID, "\\other.exe");
    hand_timer(&b, APP_BASE + 0x2000, APP_TID);
    hand_close(&b);
    const char *paths[] = {test_path(state, "a"), test_path(state, "b")};
    test_write_file(paths[0], a.file.ptr, a.file.len);
    test_write_file(paths[1], b.file.ptr, b.file.len);
    for (unsigned threads = 1; threads < 4; threads++) {
        run r;
        run_files(&r, paths, 2, &(aggregate_opts){.threads = threads});
        assert_int_equal(r.code, SPGO_OK);
        assert_int_equal(r.sessions, 2);
        ASSERT_FACTS(&r, {"app.exe", FACT_HIT, SPGO_SPT_ETW_INSTR, 0x1000, 1},
                     {"other.exe", FACT_HIT, SPGO_SPT_ETW_INSTR, 0x2000, 1});
        run_free(&r);
    }
    bytes_free(&a.file);
    bytes_free(&b.file);
}

/* ------------------------------------------------------------------ damage */

static void a_damaged_buffer_costs_only_itself(void **state)
{
    bytes file = {0};
    etl_built built;
    run r;
    build_scenario("lbr:1000,small-buffers,cpus:2", &file, &built);
    size_t middle = file.len / 2 / 4096 * 4096;
    memset(file.ptr + middle + 72, 0xFF, 400); /* records of one buffer */
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_OK);
    assert_true(r.seen.bad_records + r.seen.bad_buffers > 0);
    assert_in_range(r.seen.lbr_records, built.lbr_records - 8, built.lbr_records);
    assert_true(r.findings > 0);
    run_free(&r);
    bytes_free(&file);
}

static void a_cut_file_is_used_up_to_the_cut(void **state)
{
    bytes file = {0};
    etl_built built;
    run r;
    build_scenario("lbr:1000,small-buffers", &file, &built);
    file.len = file.len * 3 / 4 + 100;
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_OK);
    assert_in_range(r.seen.lbr_records, built.lbr_records / 2, built.lbr_records - 1);
    assert_true(r.findings > 0);
    run_free(&r);
    bytes_free(&file);
}

/* Whatever is broken: an answer, and one that passes the verifier (run_files checks that). */
static void any_byte_may_be_wrong(void **state)
{
    bytes file = {0};
    uint64_t random = 7;
    build_scenario("mixed:12,kernel,small-buffers", &file, NULL);
    for (size_t i = 0; i < 250; i++) {
        size_t at = (size_t)(synth_random(&random) % file.len);
        uint8_t good = file.ptr[at];
        file.ptr[at] = (uint8_t)synth_random(&random);
        run r;
        run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
        file.ptr[at] = good;
        run_free(&r);
    }
    bytes_free(&file);
}

static void what_is_no_trace_is_refused(void **state)
{
    bytes file = {0};
    run r;
    bytes_fill(&file, 'x', 5000);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_CORRUPT);
    bytes_free(&file);
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_not_equal(r.code, SPGO_OK);
    const char *missing = test_path(state, "missing");
    run_files(&r, &missing, 1, &(aggregate_opts){.threads = 1});
    assert_int_equal(r.code, SPGO_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_scenarios_come_out_as_the_model_says),
        cmocka_unit_test(losses_are_told),
        cmocka_unit_test(a_trace_without_samples_makes_an_empty_file),
        cmocka_unit_test(images_without_an_identity_get_none),
        cmocka_unit_test(the_bytes_do_not_depend_on_the_threads),
        cmocka_unit_test(binary_and_nokernel_leave_the_rest_out),
        cmocka_unit_test(process_keeps_what_the_process_did),
        cmocka_unit_test(a_branch_to_elsewhere_keeps_the_stretch_before_it),
        cmocka_unit_test(stretches_that_make_no_sense_cut_the_run),
        cmocka_unit_test(a_session_that_left_out_kinds_has_no_neighbours),
        cmocka_unit_test(branches_without_their_trigger_are_used_and_counted),
        cmocka_unit_test(a_context_switch_can_be_the_trigger),
        cmocka_unit_test(branches_under_the_class_guid_are_the_same),
        cmocka_unit_test(only_stacks_of_samples_count),
        cmocka_unit_test(a_frame_elsewhere_parts_the_stack),
        cmocka_unit_test(stack_keys_are_used_before_they_are_defined),
        cmocka_unit_test(one_key_of_many_processes_reaches_all_of_them),
        cmocka_unit_test(samples_say_why_they_are_not_used),
        cmocka_unit_test(branches_of_another_process_are_told_from_unknown_code),
        cmocka_unit_test(an_identity_is_not_lent_to_another_image),
        cmocka_unit_test(an_identity_with_a_time_of_its_own_is_found),
        cmocka_unit_test(an_identity_is_shared_by_path_and_size),
        cmocka_unit_test(image_ids_may_stand_in_another_file),
        cmocka_unit_test(sessions_of_different_boots_do_not_mix),
        cmocka_unit_test(a_damaged_buffer_costs_only_itself),
        cmocka_unit_test(a_cut_file_is_used_up_to_the_cut),
        cmocka_unit_test(any_byte_may_be_wrong),
        cmocka_unit_test(what_is_no_trace_is_refused),
    };
    return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
