/* perf.data recordings to SPT: whole ones against a simple model, and single situations by hand. */
#include "aggregate_run.h"
#include "etl_build.h"
#include "perfdata_scenario.h"

#include <format/perfdata/perfdata.h>

#include <unistd.h>

/* ------------------------------------------------------------------ the model */

enum { PARENT_PID = 1000 };

static const perfdata_built_image *built_image(const perfdata_built *b, uint32_t pid, uint64_t addr)
{
    for (size_t i = 0; i < b->image_count; i++) {
        if (b->images[i].pid == pid && addr - b->images[i].base < b->images[i].size)
            return &b->images[i];
    }
    return NULL;
}

/* A child that executed nothing has its parent's images. */
static const perfdata_built_image *model_find(const perfdata_built *b, uint32_t pid, uint64_t addr)
{
    bool has_own = false;
    for (size_t i = 0; i < b->image_count; i++)
        has_own |= b->images[i].pid == pid;
    return built_image(b, has_own ? pid : PARENT_PID, addr);
}

static const char *name_of(const perfdata_built_image *i)
{
    return text_base_name(text_str(i->path)).ptr;
}

static void model_branches(facts *f, const perfdata *data, const perfdata_built *b,
                           const perfdata_sample *s)
{
    const perfdata_built_image *newer = NULL;
    uint64_t newer_from = 0;
    for (size_t i = 0; i < s->branch_count; i++) {
        uint64_t from = perfdata_u64(data, s->branches.ptr + 24 * i);
        uint64_t to = perfdata_u64(data, s->branches.ptr + 24 * i + 8);
        const perfdata_built_image *x = model_find(b, s->sid.pid, from);
        const perfdata_built_image *y = model_find(b, s->sid.pid, to);
        if (newer && newer == y)
            facts_add(f, name_of(y), FACT_RANGE, (uint32_t)(to - y->base),
                      (uint32_t)(newer_from - y->base), 1);
        if (x && x == y)
            facts_add(f, name_of(x), FACT_ARC, (uint32_t)(from - x->base), (uint32_t)(to - x->base),
                      1);
        newer = x;
        newer_from = from;
    }
}

static void model_sample(facts *f, const perfdata *data, const perfdata_built *b,
                         const perfdata_sample *s)
{
    const perfdata_built_image *at = model_find(b, s->sid.pid, s->ip);
    uint32_t opcode = s->attr_index == 0 ? SPGO_SPT_UNHALT_CYCLE : SPGO_SPT_ETW_INSTR;
    if (at)
        facts_add(f, name_of(at), FACT_HIT, opcode, (uint32_t)(s->ip - at->base), 1);
    model_branches(f, data, b, s);
    const perfdata_built_image *before = NULL;
    uint64_t callee = 0;
    for (size_t i = 0; i < s->callchain_count; i++) {
        uint64_t frame = perfdata_u64(data, s->callchain.ptr + 8 * i);
        const perfdata_built_image *im = model_find(b, s->sid.pid, frame);
        if (frame >= (uint64_t)-4095)
            continue;
        if (im && im == before)
            facts_add(f, name_of(im), FACT_FRAMES, (uint32_t)(callee - im->base),
                      (uint32_t)(frame - im->base), 1);
        before = im;
        callee = frame;
    }
}

static void model_run(facts *f, spgo_span file, const perfdata_built *b)
{
    perfdata *data;
    perfdata_walk *w;
    perfdata_record r;
    assert_int_equal(perfdata_open(file, &data, NULL, NULL), SPGO_OK);
    assert_int_equal(perfdata_walk_new(data, NULL, &w, NULL), SPGO_OK);
    while (perfdata_walk_next(w, &r)) {
        perfdata_sample s;
        if (r.type == PERFDATA_RECORD_SAMPLE && perfdata_decode_sample(data, &r, &s))
            model_sample(f, data, b, &s);
    }
    perfdata_walk_free(w);
    perfdata_close(data);
    facts_settle(f);
}

/* ------------------------------------------------------------------ scenarios */

static bool build_scenario(const char *text, bytes *out, perfdata_built *built)
{
    perfdata_scenario s;
    const char *bad;
    assert_true(perfdata_scenario_parse(text, &s, &bad));
    if (s.compressed && !perfdata_build_can_compress())
        return false;
    assert_int_equal(perfdata_scenario_write(&s, bytes_sink(out), built, NULL), SPGO_OK);
    return true;
}

static void check_ids(const run *r, const perfdata_built *built, bool has_ids)
{
    for (size_t i = 0; i < built->image_count; i++) {
        spgo_image_id id = {0};
        if (has_ids)
            memcpy(id.guid.bytes, built->images[i].build_id, 16);
        assert_true(has_program(r, name_of(&built->images[i]), &id));
    }
}

static void check_scenario(void **state, const char *text)
{
    bytes file = {0};
    perfdata_built built;
    run r;
    facts want = {0};
    print_message("  %s\n", text);
    if (!build_scenario(text, &file, &built))
        return;
    run_bytes(&r, state, &file, &(aggregate_opts){.threads = 2});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(r.seen.pmc_samples, built.samples);
    assert_int_equal(r.seen.timer_samples, built.second_samples);
    assert_int_equal(r.seen.lbr_entries, built.branches);
    assert_int_equal(r.seen.lost_events, built.lost_records + built.lost_samples);
    assert_int_equal(r.seen.bad_records, 0);
    assert_int_equal(r.tally.parts[TRACE_BRANCHES].used, built.same_image_branches);
    assert_int_equal(r.tally.bogus_ranges, 0);
    assert_int_equal(r.tally.parts[TRACE_IP].used, built.samples + built.second_samples);
    model_run(&want, bytes_span(&file), &built);
    assert_true(want.count > 0);
    assert_same_facts(&r.facts, &want);
    check_ids(&r, &built, !strstr(text, "no-build-id"));
    facts_free(&want);
    run_free(&r);
    bytes_free(&file);
}

static void all_scenarios_come_out_as_the_model_says(void **state)
{
    static const char *const texts[] = {
        "lbr",
        "ip:3000",
        "lbr:500,callgraph",
        "lbr:500,fork",
        "lbr:500,exec",
        "lbr:500,pipe",
        "lbr:2000,compressed",
        "lbr:500,big-endian",
        "lbr:200,lost",
        "lbr,two-events",
        "lbr,no-build-id",
        "ip,pipe,compressed,fork",
        "lbr:300,callgraph,exec,two-events,lost,pipe",
        "lbr:300,big-endian,callgraph,fork,two-events",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        check_scenario(state, texts[i]);
}

static void the_bytes_do_not_depend_on_the_threads(void **state)
{
    static const unsigned counts[] = {2, 3, 8};
    bytes file = {0};
    perfdata_built built;
    run one, other;
    build_scenario("lbr:12000,callgraph,fork,two-events", &file, &built);
    run_bytes(&one, state, &file, &(aggregate_opts){.threads = 1});
    assert_int_equal(one.code, SPGO_OK);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        run_bytes(&other, state, &file, &(aggregate_opts){.threads = counts[i]});
        assert_int_equal(other.spt.len, one.spt.len);
        assert_memory_equal(other.spt.ptr, one.spt.ptr, one.spt.len);
        run_free(&other);
    }
    run_free(&one);
    bytes_free(&file);
}

/* ------------------------------------------------------------------ by hand */

enum {
    S_IP = 1 << 0,
    S_TID = 1 << 1,
    S_TIME = 1 << 2,
    S_CALLCHAIN = 1 << 5,
    S_BRANCHES = 1 << 11,
    SAMPLE_ID_ALL = 1 << 18,
    BRANCH_ANY = 1 << 3,
    BRANCH_ANY_CALL = 1 << 4,
    USER = 2,
    KERNEL = 1
};
#define TEXT UINT64_C(0x400000)
#define KERNEL_TEXT UINT64_C(0xFFFFFFFF81000000)

typedef struct hand {
    bytes file;
    perfdata_build_event event;
    perfdata_build *b;
    uint64_t time;
} hand;

static void hand_open_event(hand *h, const perfdata_build_event *event)
{
    static const perfdata_build_opts opts = {.arch = "x86_64"};
    *h = (hand){.event = *event, .time = 1000};
    h->b = perfdata_build_new(bytes_sink(&h->file), &opts, &h->event, 1);
}

static void hand_open(hand *h, bool by_time, uint64_t more_fields, uint64_t branch_type)
{
    hand_open_event(h, &(perfdata_build_event){.name = "instructions:u",
                                               .config = 1,
                                               .sample_type = S_IP | S_TID | more_fields |
                                                              (by_time ? S_TIME : 0),
                                               .flags = by_time ? SAMPLE_ID_ALL : 0,
                                               .branch_sample_type = branch_type});
}

static perfdata_build_id_fields sid_at(uint32_t pid, uint64_t time)
{
    return (perfdata_build_id_fields){.pid = pid, .tid = pid, .time_ns = time};
}

static void hand_map(hand *h, uint32_t pid, uint64_t time, uint64_t addr, const char *path,
                     uint8_t build_id)
{
    uint8_t id[20];
    memset(id, build_id, sizeof id);
    perfdata_build_map m = {.pid = pid,
                            .tid = pid,
                            .addr = addr,
                            .len = 0x10000,
                            .pgoff = 0x1000,
                            .prot = 5,
                            .misc = USER,
                            .path = path,
                            .build_id = build_id ? id : NULL,
                            .build_id_size = build_id ? 20 : 0,
                            .sid = sid_at(pid, time)};
    perfdata_build_mmap2(h->b, &m);
}

static void hand_sample(hand *h, uint32_t pid, uint64_t time, uint64_t ip)
{
    perfdata_build_sample s = {.misc = USER, .ip = ip, .pid = pid, .tid = pid, .time_ns = time};
    perfdata_build_sample_record(h->b, &s);
}

static void hand_run(hand *h, void **state, run *r, const aggregate_opts *opts)
{
    static const aggregate_opts usual = {.threads = 1};
    assert_true(perfdata_build_finish(h->b));
    run_bytes(r, state, &h->file, opts ? opts : &usual);
    bytes_free(&h->file);
    assert_int_equal(r->code, SPGO_OK);
}

static void assert_hits(const run *r, const char *program, uint64_t hits)
{
    assert_int_equal(facts_hits(&r->facts, program, FACT_HIT), hits);
}

/* The opcode of the first record with entries; 0 if there is none. */
static uint8_t first_opcode(const run *r)
{
    spgo_spt *spt;
    spgo_spt_record record = {.opcode = 0};
    spgo_code code;
    assert_int_equal(spgo_spt_open(bytes_span(&r->spt), &spt, NULL), SPGO_OK);
    spgo_spt_cursor c = spgo_spt_records(spt);
    bool found = spgo_spt_next_entries(&c, &record, &code);
    spgo_spt_close(spt);
    return found ? record.opcode : 0;
}

/* Types and configurations of linux/perf_event.h: hardware 0, software 1, cache 3, raw 4. */
static void a_generic_event_gets_its_opcode_whatever_its_name(void **state)
{
    static const struct {
        uint32_t type;
        uint64_t config;
        uint8_t opcode;
    } cases[] = {
        {0, 0, SPGO_SPT_UNHALT_CYCLE},
        {0, 1, SPGO_SPT_RETIRE_INSTR},
        {0, 4, SPGO_SPT_RETIRE_BR_INSTR},
        {0, 0x10001, 0},
        {1, 0, SPGO_SPT_ETW_INSTR},
        {1, 1, SPGO_SPT_ETW_INSTR},
        {1, 2, 0}, /* page faults */
        {3, 0x10000, SPGO_SPT_L1_DCACHE_MISS},
        {3, 0x10001, SPGO_SPT_L1_ICACHE_MISS},
        {3, 0x00001, 0}, /* accesses */
        {3, 0x10002, 0}, /* of the last level */
        {4, 0x10001, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand h;
        run r;
        hand_open_event(&h, &(perfdata_build_event){.name = "e",
                                                    .type = cases[i].type,
                                                    .config = cases[i].config,
                                                    .sample_type = S_IP | S_TID});
        hand_map(&h, 7, 0, TEXT, "/x/one", 0);
        hand_sample(&h, 7, 0, TEXT + 0x10);
        hand_run(&h, state, &r, NULL);
        assert_int_equal(first_opcode(&r), cases[i].opcode);
        run_free(&r);
    }
}

static void without_times_the_place_in_the_file_decides(void **state)
{
    hand h;
    run r;
    hand_open(&h, false, 0, 0);
    hand_map(&h, 7, 0, TEXT, "/x/one", 0);
    hand_sample(&h, 7, 0, TEXT + 0x10);
    hand_map(&h, 7, 0, TEXT, "/x/two", 0);
    hand_sample(&h, 7, 0, TEXT + 0x10);
    hand_sample(&h, 7, 0, TEXT + 0x20);
    hand_run(&h, state, &r, NULL);
    assert_hits(&r, "one", 1);
    assert_hits(&r, "two", 2);
    run_free(&r);
}

static void with_times_the_place_in_the_file_does_not_matter(void **state)
{
    hand h;
    run r;
    hand_open(&h, true, 0, 0);
    hand_sample(&h, 7, 250, TEXT + 0x10);
    hand_map(&h, 7, 200, TEXT, "/x/two", 0);
    hand_sample(&h, 7, 150, TEXT + 0x10);
    hand_map(&h, 7, 100, TEXT, "/x/one", 0);
    hand_sample(&h, 7, 50, TEXT + 0x10);
    hand_run(&h, state, &r, NULL);
    assert_hits(&r, "one", 1);
    assert_hits(&r, "two", 1);
    assert_int_equal(r.tally.parts[TRACE_IP].dropped[AGGREGATE_NO_IMAGE], 1);
    run_free(&r);
}

static void an_rva_counts_from_where_the_file_would_begin(void **state)
{
    hand h;
    run r;
    hand_open(&h, true, 0, 0);
    hand_map(&h, 7, 100, TEXT, "/x/one", 0); /* of file offset 0x1000 */
    hand_sample(&h, 7, 150, TEXT + 0x10);
    hand_run(&h, state, &r, NULL);
    assert_int_equal(r.facts.count, 1);
    assert_int_equal(r.facts.list[0].a, SPGO_SPT_RETIRE_INSTR);
    assert_int_equal(r.facts.list[0].b, 0x1010);
    assert_true(r.findings > 0); /* that the image was not at hand */
    run_free(&r);
}

/* A recorded path is opened where it stands, but not one that names another machine on Windows. */
static void a_recorded_path_is_not_followed_to_another_machine(void **state)
{
    char self[4096] = "/";
    ssize_t len = readlink("/proc/self/exe", self + 1, sizeof self - 2);
    assert_true(len > 0);
    self[1 + len] = '\0';
    for (size_t slashes = 1; slashes <= 2; slashes++) {
        hand h;
        run r;
        hand_open(&h, true, 0, 0);
        hand_map(&h, 7, 100, TEXT, self + 2 - slashes, 0xAA);
        hand_sample(&h, 7, 150, TEXT + 0x10);
        hand_run(&h, state, &r, NULL);
        /* that it is another build, and that the right one is not at hand */
        assert_int_equal(r.findings, slashes == 1 ? 2 : 1);
        run_free(&r);
    }
}

static void a_fork_copies_and_an_exec_drops(void **state)
{
    hand h;
    run r;
    hand_open(&h, true, 0, 0);
    perfdata_build_id_fields sid = sid_at(7, 90);
    perfdata_build_comm(h.b, 7, 7, "shell", true, &sid);
    hand_map(&h, 7, 100, TEXT, "/x/shell", 0);
    sid = sid_at(8, 200);
    perfdata_build_task(h.b, PERFDATA_RECORD_FORK, 8, 7, 8, 7, &sid);
    hand_sample(&h, 8, 250, TEXT + 0x10);
    sid = sid_at(8, 300);
    perfdata_build_comm(h.b, 8, 8, "tool", true, &sid);
    hand_sample(&h, 8, 310, TEXT + 0x10); /* before anything is mapped */
    hand_map(&h, 8, 320, TEXT + 0x100000, "/x/tool", 0);
    hand_sample(&h, 8, 350, TEXT + 0x100010);
    sid = sid_at(7, 400);
    perfdata_build_task(h.b, PERFDATA_RECORD_FORK, 7, 7, 9, 7, &sid); /* a thread */
    hand_sample(&h, 7, 450, TEXT + 0x10);
    hand_run(&h, state, &r, NULL);
    assert_hits(&r, "shell", 2);
    assert_hits(&r, "tool", 1);
    assert_int_equal(r.tally.parts[TRACE_IP].dropped[AGGREGATE_NO_IMAGE], 1);
    run_free(&r);
}

static void a_process_goes_by_its_command_or_its_image(void **state)
{
    static const struct {
        const char *pattern;
        uint64_t hits;
    } cases[] = {{"SHORT", 1}, {"the-long-name-of-it", 1}, {"the-*", 1}, {"other", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand h;
        run r;
        hand_open(&h, true, 0, 0);
        perfdata_build_id_fields sid = sid_at(7, 90);
        perfdata_build_comm(h.b, 7, 7, "short", true, &sid);
        hand_map(&h, 7, 100, TEXT, "/x/the-long-name-of-it", 0);
        hand_sample(&h, 7, 150, TEXT + 0x10);
        hand_sample(&h, 77, 150, TEXT + 0x10); /* unknown */
        hand_run(
            &h, state, &r,
            &(aggregate_opts){.threads = 1, .processes = &cases[i].pattern, .process_count = 1});
        assert_int_equal(r.tally.parts[TRACE_IP].used, cases[i].hits);
        assert_int_equal(r.tally.parts[TRACE_IP].dropped[AGGREGATE_OTHER_PROCESS],
                         1 - cases[i].hits);
        assert_int_equal(r.tally.parts[TRACE_IP].dropped[AGGREGATE_NO_PROCESS], 1);
        run_free(&r);
    }
}

static void build_ids_come_from_the_map_or_from_the_table(void **state)
{
    hand h;
    run r;
    uint8_t table[20], none[16] = {0};
    memset(table, 3, sizeof table);
    hand_open(&h, true, 0, 0);
    hand_map(&h, 7, 100, TEXT, "/x/mapped", 9);
    hand_map(&h, 7, 100, TEXT + 0x100000, "/x/listed", 0);
    hand_map(&h, 7, 100, TEXT + 0x200000, "/x/neither", 0);
    perfdata_build_add_build_id(h.b, UINT32_MAX, USER, table, 20, "/x/listed");
    perfdata_build_add_build_id(h.b, UINT32_MAX, USER, table, 20, "/x/mapped");
    for (uint64_t i = 0; i < 3; i++)
        hand_sample(&h, 7, 200, TEXT + i * 0x100000);
    hand_run(&h, state, &r, NULL);
    spgo_image_id id = {0};
    memset(id.guid.bytes, 9, 16);
    assert_true(has_program(&r, "mapped", &id)); /* what was mapped is nearer than the table */
    memset(id.guid.bytes, 3, 16);
    assert_true(has_program(&r, "listed", &id));
    memcpy(id.guid.bytes, none, 16);
    assert_true(has_program(&r, "neither", &id));
    assert_int_equal(r.tally.programs_without_id, 1);
    run_free(&r);
}

static void hand_kernel(hand *h, uint64_t start, uint64_t len, uint64_t pgoff, const char *path)
{
    perfdata_build_map m = {.pid = UINT32_MAX,
                            .addr = start,
                            .len = len,
                            .pgoff = pgoff,
                            .misc = KERNEL,
                            .path = path,
                            .sid = sid_at(UINT32_MAX, 0)};
    perfdata_build_mmap(h->b, &m);
}

static void the_kernel_counts_from_its_first_symbol(void **state)
{
    static const uint64_t starts[] = {KERNEL_TEXT, 0}; /* both are seen */
    for (size_t i = 0; i < 2; i++) {
        hand h;
        run r;
        hand_open(&h, true, 0, 0);
        hand_kernel(&h, starts[i], starts[i] ? 0x1000000 : KERNEL_TEXT + 0x1000000, KERNEL_TEXT,
                    "[kernel.kallsyms]_text");
        hand_kernel(&h, 0xFFFFFFFFC0100000, 0x10000, 0, "/lib/modules/6.1/nf.ko");
        hand_map(&h, 7, 100, TEXT, "/x/one", 0);
        hand_sample(&h, 7, 200, KERNEL_TEXT + 0x123);
        hand_sample(&h, 0, 200, KERNEL_TEXT + 0x124); /* idle: of no process */
        hand_sample(&h, UINT32_MAX, 200, KERNEL_TEXT + 0x125);
        hand_sample(&h, UINT32_MAX, 200, TEXT); /* of a task that is gone */
        hand_sample(&h, 7, 200, 0xFFFFFFFFC0100042);
        hand_run(&h, state, &r, NULL);
        assert_hits(&r, "[kernel.kallsyms]", 3);
        assert_hits(&r, "nf.ko", 1);
        assert_int_equal(r.facts.list[0].b, 0x123);
        assert_int_equal(r.tally.parts[TRACE_IP].dropped[AGGREGATE_NO_PROCESS], 1);
        run_free(&r);
    }
}

static void what_is_mapped_without_an_image_is_none(void **state)
{
    static const char *const paths[] = {"//anon",   "[heap]",         "[stack]", "/dev/zero",
                                        "/memfd:x", "anon_inode:[x]", ""};
    hand h;
    run r;
    hand_open(&h, true, 0, 0);
    perfdata_build_id_fields sid = sid_at(7, 90);
    perfdata_build_comm(h.b, 7, 7, "jit", true, &sid);
    for (uint64_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        hand_map(&h, 7, 100, TEXT + i * 0x100000, paths[i], 0);
        hand_sample(&h, 7, 200, TEXT + i * 0x100000);
    }
    perfdata_build_map data = {.pid = 7,
                               .addr = TEXT - 0x100000,
                               .len = 0x1000,
                               .prot = 3,
                               .misc = USER,
                               .path = "/x/data",
                               .sid = sid_at(7, 100)};
    perfdata_build_mmap2(h.b, &data);
    hand_sample(&h, 7, 200, TEXT - 0x100000);
    hand_run(&h, state, &r, NULL);
    assert_int_equal(r.seen.images, 0);
    assert_int_equal(r.tally.parts[TRACE_IP].dropped[AGGREGATE_NO_IMAGE], 8);
    run_free(&r);
}

static void context_markers_are_no_frames(void **state)
{
    const uint64_t chain[] = {(uint64_t)-128, KERNEL_TEXT, (uint64_t)-512,
                              TEXT + 0x10,    TEXT + 0x20, TEXT + 0x30};
    hand h;
    run r;
    hand_open(&h, true, S_CALLCHAIN, 0);
    hand_map(&h, 7, 100, TEXT, "/x/one", 0);
    perfdata_build_sample s = {.misc = USER,
                               .ip = TEXT + 0x10,
                               .pid = 7,
                               .tid = 7,
                               .time_ns = 200,
                               .callchain = chain,
                               .callchain_count = 6};
    perfdata_build_sample_record(h.b, &s);
    hand_run(&h, state, &r, NULL);
    assert_int_equal(r.tally.parts[TRACE_STACK].seen, 3);
    assert_int_equal(r.tally.parts[TRACE_STACK].used, 2);
    assert_int_equal(r.tally.parts[TRACE_STACK].dropped[AGGREGATE_CROSS_MODULE], 1);
    run_free(&r);
}

static void branches_of_some_kinds_alone_have_no_neighbours(void **state)
{
    static const struct {
        uint64_t kinds, ranges;
    } cases[] = {{BRANCH_ANY, 1}, {BRANCH_ANY_CALL, 0}, {0, 1}};
    static const uint64_t branches[][3] = {{TEXT + 0x200, TEXT + 0x300, 0},
                                           {TEXT + 0x100, TEXT + 0x180, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand h;
        run r;
        hand_open(&h, true, S_BRANCHES, cases[i].kinds);
        hand_map(&h, 7, 100, TEXT, "/x/one", 0);
        perfdata_build_sample s = {.misc = USER,
                                   .ip = TEXT,
                                   .pid = 7,
                                   .tid = 7,
                                   .time_ns = 200,
                                   .branches = branches,
                                   .branch_count = 2};
        perfdata_build_sample_record(h.b, &s);
        hand_run(&h, state, &r, NULL);
        assert_int_equal(facts_hits(&r.facts, NULL, FACT_ARC), 2);
        assert_int_equal(facts_hits(&r.facts, NULL, FACT_RANGE), cases[i].ranges);
        run_free(&r);
    }
}

/* SPT records hold 255 entries: a longer record goes on in the next, and its arcs are all there. */
static void long_branch_records_and_stacks_are_parted(void **state)
{
    enum { N = 700 };
    uint64_t(*branches)[3] = calloc(N, sizeof *branches);
    uint64_t *chain = calloc(N, sizeof *chain);
    assert_non_null(branches);
    assert_non_null(chain);
    for (uint64_t i = 0; i < N; i++) {
        branches[i][0] = TEXT + 0x80;
        branches[i][1] = TEXT + 0x40;
        chain[i] = TEXT + i;
    }
    hand h;
    run r;
    hand_open(&h, true, S_BRANCHES | S_CALLCHAIN, BRANCH_ANY);
    hand_map(&h, 7, 100, TEXT, "/x/one", 0);
    perfdata_build_sample s = {.misc = USER,
                               .ip = TEXT,
                               .pid = 7,
                               .tid = 7,
                               .time_ns = 200,
                               .branches = (const uint64_t(*)[3])branches,
                               .branch_count = N,
                               .callchain = chain,
                               .callchain_count = N};
    perfdata_build_sample_record(h.b, &s);
    hand_run(&h, state, &r, NULL);
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_ARC), N);
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_RANGE), N - 3); /* between the records none */
    assert_int_equal(facts_hits(&r.facts, NULL, FACT_FRAMES), N - 1);
    run_free(&r);
    free(branches);
    free(chain);
}

/* ------------------------------------------------------------------ together with others */

static void recordings_of_all_kinds_go_into_one_file(void **state)
{
    bytes etl = {0}, perf = {0};
    etl_scenario s;
    etl_built etl_has;
    perfdata_built perf_has;
    assert_true(etl_scenario_parse("lbr:300", &s, NULL));
    assert_int_equal(etl_build(&s, bytes_sink(&etl), &etl_has, NULL), SPGO_OK);
    build_scenario("lbr:400", &perf, &perf_has);
    const char *paths[] = {test_path(state, "a.etl"), test_path(state, "perf.data")};
    const char *twice[] = {paths[1], paths[0], paths[1]};
    test_write_file(paths[0], etl.ptr, etl.len);
    test_write_file(paths[1], perf.ptr, perf.len);
    run r;
    run_files(&r, twice, 3, &(aggregate_opts){.threads = 3});
    assert_int_equal(r.code, SPGO_OK);
    assert_int_equal(r.sessions, 3);
    assert_int_equal(r.tally.parts[TRACE_BRANCHES].used,
                     etl_has.same_image_branches + 2 * perf_has.same_image_branches);
    assert_int_equal(r.tally.programs, 4);
    run_free(&r);
    bytes_free(&etl);
    bytes_free(&perf);
}

static void any_byte_may_be_wrong(void **state)
{
    bytes file = {0};
    perfdata_built built;
    uint64_t random = 11;
    build_scenario("lbr:20,callgraph,fork,two-events", &file, &built);
    for (size_t i = 0; i < 400; i++) {
        size_t at = (size_t)(random % file.len);
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint8_t good = file.ptr[at];
        file.ptr[at] = (uint8_t)(random >> 33);
        run r;
        run_bytes(&r, state, &file, &(aggregate_opts){.threads = 1});
        file.ptr[at] = good;
        run_free(&r);
    }
    bytes_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_scenarios_come_out_as_the_model_says),
        cmocka_unit_test(the_bytes_do_not_depend_on_the_threads),
        cmocka_unit_test(a_generic_event_gets_its_opcode_whatever_its_name),
        cmocka_unit_test(without_times_the_place_in_the_file_decides),
        cmocka_unit_test(with_times_the_place_in_the_file_does_not_matter),
        cmocka_unit_test(an_rva_counts_from_where_the_file_would_begin),
        cmocka_unit_test(a_recorded_path_is_not_followed_to_another_machine),
        cmocka_unit_test(a_fork_copies_and_an_exec_drops),
        cmocka_unit_test(a_process_goes_by_its_command_or_its_image),
        cmocka_unit_test(build_ids_come_from_the_map_or_from_the_table),
        cmocka_unit_test(the_kernel_counts_from_its_first_symbol),
        cmocka_unit_test(what_is_mapped_without_an_image_is_none),
        cmocka_unit_test(context_markers_are_no_frames),
        cmocka_unit_test(branches_of_some_kinds_alone_have_no_neighbours),
        cmocka_unit_test(long_branch_records_and_stacks_are_parted),
        cmocka_unit_test(recordings_of_all_kinds_go_into_one_file),
        cmocka_unit_test(any_byte_may_be_wrong),
    };
    return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
