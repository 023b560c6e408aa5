/*
 * Inference on a real program. What its branch records tell is taken for the truth; instruction
 * pointers are drawn from it at random, or the records are thinned; then blocks
 * are compared: the overlap, which is the sum over blocks of the smaller of the two shares.
 */
#include "profile_unsym.h"

#include <stdio.h>

#include <profile/infer.h>

enum { CODE_MAX = 0x200000, SAMPLES = 60000, TIMER_KIND = 5 };

typedef struct truth {
    program p;
    address_profile counts;
    uint64_t *executed; /* by RVA of an instruction */
    uint64_t total;
} truth;

static const char *data_path(const char *name)
{
    static char path[1024];
    const char *folder = getenv("SPGO_TEST_DATA");
    (void)snprintf(path, sizeof path, "%s/%s", folder ? folder : "../shared/data", name);
    return path;
}

static truth truth_open(void)
{
    if (!SPGO_HAVE_ZYDIS || !SPGO_HAVE_DWARF)
        skip();
    truth t = {0};
    spgo_span s = test_data_or_skip("lbr/speedtest1.unsym");
    char *text = calloc(s.len + 1, 1);
    t.executed = calloc(CODE_MAX, sizeof *t.executed);
    assert_true(text && t.executed);
    memcpy(text, s.ptr, s.len);
    test_data_free(s);
    t.p = program_open(data_path("lbr/speedtest1"));
    t.counts = unsym_parse(text, symbols_get_info(t.p.s)->text_rva);
    free(text);
    for (size_t i = 0; i < t.counts.range_count; i++) {
        const address_range *r = &t.counts.ranges[i];
        for (uint32_t rva = r->begin_rva; rva <= r->last_rva && rva < CODE_MAX;
             rva += code_decode(t.p.d, rva).size_bytes) {
            t.executed[rva] += r->count;
            t.total += r->count;
        }
    }
    return t;
}

static void truth_close(truth *t)
{
    unsym_free(&t->counts);
    free(t->executed);
    program_close(&t->p);
}

/* Sums for the overlap of all blocks seen. */
typedef struct blocks {
    const truth *t;
    uint64_t *exact, *before, *after;
    size_t count, room;
    size_t off_balance; /* blocks that do not pass on what they get */
} blocks;

static void observe(void *ctx, const symbol_procedure *p, const flow_graph *g,
                    const inference_graph *f)
{
    blocks *b = ctx;
    (void)p;
    assert_true(b->count + g->block_count <= b->room);
    uint64_t *in = calloc(g->block_count, sizeof *in);
    assert_non_null(in);
    for (size_t j = 0; j < f->jump_count; j++)
        in[f->jumps[j].to] += f->jumps[j].flow;
    for (size_t i = 0; i < g->block_count; i++) {
        b->exact[b->count] = b->t->executed[g->blocks[i].begin_rva];
        b->before[b->count] = f->blocks[i].weight;
        b->after[b->count++] = f->blocks[i].flow;
        b->off_balance += i != g->entry && in[i] > 0 && in[i] != f->blocks[i].flow;
    }
    free(in);
}

static blocks blocks_of(const truth *t)
{
    blocks b = {.t = t, .room = 200000};
    b.exact = calloc(b.room, sizeof *b.exact);
    b.before = calloc(b.room, sizeof *b.before);
    b.after = calloc(b.room, sizeof *b.after);
    assert_true(b.exact && b.before && b.after);
    return b;
}

static void blocks_free(blocks *b)
{
    free(b->exact);
    free(b->before);
    free(b->after);
}

static double overlap(const uint64_t *x, const uint64_t *y, size_t n)
{
    double x_sum = 0, y_sum = 0, both = 0;
    for (size_t i = 0; i < n; i++) {
        x_sum += (double)x[i];
        y_sum += (double)y[i];
    }
    for (size_t i = 0; i < n; i++) {
        double p = (double)x[i] / x_sum, q = (double)y[i] / y_sum;
        both += p < q ? p : q;
    }
    return both;
}

static uint64_t random_below(uint64_t *seed, uint64_t n)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

/* As a counter of retired instructions would. */
static void draw_samples(const truth *t, samples_program *sampled)
{
    uint64_t seed = 1, step = t->total / SAMPLES, next = random_below(&seed, step), passed = 0;
    for (uint32_t rva = 0; rva < CODE_MAX; rva++) {
        for (passed += t->executed[rva]; next < passed; next += 1 + random_below(&seed, 2 * step)) {
            uint64_t key = rva;
            counts_add(&sampled->ips[TIMER_KIND], &key, 1, 1);
            sampled->ip_hits[TIMER_KIND]++;
        }
    }
}

static void instruction_pointers_tell_of_blocks(void **state)
{
    (void)state;
    truth t = truth_open();
    samples_program sampled = {0};
    draw_samples(&t, &sampled);
    blocks b = blocks_of(&t);
    address_profile p = {0};
    address_tally addresses = {0};
    infer_tally tally = {0};
    assert_int_equal(infer_from_ips(&sampled, 1u << TIMER_KIND, t.p.s, t.p.d, &p, &addresses,
                                    &tally, observe, &b, NULL),
                     SPGO_OK);
    double before = overlap(b.exact, b.before, b.count), after = overlap(b.exact, b.after, b.count);
    print_message("%llu instruction pointers: blocks overlap by %.4f, after inference %.4f\n",
                  (unsigned long long)sampled.ip_hits[TIMER_KIND], before, after);
    assert_true(before < 0.96 && after > 0.97);
    assert_int_equal(b.off_balance, 0);
    assert_int_equal(tally.procedures_bounded, 0);
    assert_int_equal(tally.procedures_left, 0);
    assert_true(tally.flow_gap_after == 0);
    counts_free(&sampled.ips[TIMER_KIND]);
    address_profile_free(&p);
    blocks_free(&b);
    truth_close(&t);
}

/* Counts are thinned to the hits of every so-manieth sample. */
static uint64_t thinned(uint64_t *seed, uint64_t count, uint64_t every)
{
    uint64_t whole = count / every;
    return whole + (random_below(seed, every) < count % every);
}

static void sparse_branch_records_are_repaired(void **state)
{
    (void)state;
    truth t = truth_open();
    uint64_t seed = 7;
    address_profile p = {malloc(t.counts.range_count * sizeof *p.ranges),
                         malloc(t.counts.branch_count * sizeof *p.branches), 0, 0};
    assert_true(p.ranges && p.branches);
    for (size_t i = 0; i < t.counts.range_count; i++) {
        p.ranges[p.range_count] = t.counts.ranges[i];
        p.ranges[p.range_count].count = thinned(&seed, t.counts.ranges[i].count, 50);
        p.range_count += p.ranges[p.range_count].count > 0;
    }
    for (size_t i = 0; i < t.counts.branch_count; i++) {
        p.branches[p.branch_count] = t.counts.branches[i];
        p.branches[p.branch_count].count = thinned(&seed, t.counts.branches[i].count, 50);
        p.branch_count += p.branches[p.branch_count].count > 0;
    }
    blocks b = blocks_of(&t);
    infer_tally tally = {0};
    assert_int_equal(infer_repair(&p, t.p.s, t.p.d, &tally, observe, &b, NULL), SPGO_OK);
    double before = overlap(b.exact, b.before, b.count), after = overlap(b.exact, b.after, b.count);
    print_message("one branch record in 50: blocks overlap by %.4f, after inference %.4f\n", before,
                  after);
    assert_true(before < 0.975 && after > before + 0.003);
    assert_int_equal(b.off_balance, 0);
    assert_true(tally.flow_gap_before > 0.005 && tally.flow_gap_after == 0);
    address_profile_free(&p);
    blocks_free(&b);
    truth_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instruction_pointers_tell_of_blocks),
        cmocka_unit_test(sparse_branch_records_are_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
