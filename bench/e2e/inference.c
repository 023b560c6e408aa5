/*
 * bench_inference PROGRAM SPT EXACT: how near flow inference comes to the truth.
 *
 * PROGRAM's samples in SPT (branch records if it has any, else instruction pointers) are inferred,
 * and the blocks and edges before and after are compared with the exact counts of the same run
 * (recording.c, `exact`). Prints lines of name, before, after, each overlap between 0 and 1:
 *
 *   blocks, edges                  of all procedures: the sum over the smaller of the two shares
 *   procedure_blocks, _edges       each procedure on its own, weighted by how often its blocks ran
 *
 * and how many procedures and blocks took part. Only procedures with samples do.
 */
#include <base/fail.h>
#include <base/guid.h>
#include <base/reader.h>
#include <os/file.h>
#include <profile/profile.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ exact counts */

typedef struct exact_counts {
    uint64_t *executed; /* by RVA of the instruction */
    size_t executed_count;
    address_branch *branches; /* taken, by from, then to */
    size_t branch_count;
} exact_counts;

/* A line "first<arrow>second:count" at *text, which is moved behind it. */
static bool parse_line(const char **text, const char *arrow, uint32_t *first, uint32_t *second,
                       uint64_t *count)
{
    char *end;
    *first = (uint32_t)strtoul(*text, &end, 16);
    if (strncmp(end, arrow, strlen(arrow)) != 0)
        return false;
    *second = (uint32_t)strtoul(end + strlen(arrow), &end, 16);
    if (*end != ':')
        return false;
    *count = strtoull(end + 1, &end, 10);
    *text = end + 1;
    return *end == '\n';
}

/* A line with a number of lines. */
static bool parse_count(const char **text, size_t *count)
{
    char *end;
    *count = strtoull(*text, &end, 10);
    if (end == *text || *end != '\n' || *count > strlen(end))
        return false;
    *text = end + 1;
    return true;
}

static bool parse_ranges(const char **text, exact_counts *exact)
{
    size_t n;
    if (!parse_count(text, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t begin, last;
        uint64_t count;
        if (!parse_line(text, "-", &begin, &last, &count) || begin > last ||
            last >= exact->executed_count - 1)
            return false;
        exact->executed[begin] += count; /* a difference, summed up below */
        exact->executed[last + 1] -= count;
    }
    for (size_t rva = 1; rva < exact->executed_count; rva++)
        exact->executed[rva] += exact->executed[rva - 1];
    return true;
}

static bool parse_branches(const char **text, exact_counts *exact)
{
    if (!parse_count(text, &exact->branch_count))
        return false;
    exact->branches = calloc(exact->branch_count + 1, sizeof *exact->branches);
    for (size_t i = 0; exact->branches && i < exact->branch_count; i++) {
        address_branch *b = &exact->branches[i];
        if (!parse_line(text, "->", &b->from_rva, &b->to_rva, &b->count))
            return false;
    }
    return exact->branches != NULL;
}

static spgo_code read_exact(const char *path, const code_image *image, exact_counts *exact,
                            spgo_error *err)
{
    os_input *in;
    SPGO_TRY(os_input_open(path, &in, err));
    spgo_span bytes = os_input_bytes(in);
    char *copy = malloc(bytes.len + 1);
    const code_segment *end = &image->segments[image->segment_count - 1];
    exact->executed_count = (size_t)end->rva + end->bytes.len + 2;
    exact->executed = calloc(exact->executed_count, sizeof *exact->executed);
    if (!copy || !exact->executed)
        abort();
    memcpy(copy, bytes.ptr, bytes.len);
    copy[bytes.len] = '\0';
    os_input_close(in);
    const char *text = copy;
    bool good = parse_ranges(&text, exact) && parse_branches(&text, exact);
    free(copy);
    return good ? SPGO_OK
                : spgo_fail(err, SPGO_CORRUPT, "exact", SPGO_NO_OFFSET,
                            "'%s' holds no exact counts of this program", path);
}

static size_t first_branch_from(const exact_counts *exact, uint32_t from_rva)
{
    size_t low = 0, high = exact->branch_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (exact->branches[middle].from_rva < from_rva)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of the taken branches from an address: those to one target, or with to_rva UINT32_MAX all. */
static uint64_t taken_count(const exact_counts *exact, uint32_t from_rva, uint32_t to_rva)
{
    uint64_t sum = 0;
    for (size_t i = first_branch_from(exact, from_rva);
         i < exact->branch_count && exact->branches[i].from_rva == from_rva; i++)
        if (to_rva == UINT32_MAX || exact->branches[i].to_rva == to_rva)
            sum += exact->branches[i].count;
    return sum;
}

static uint64_t executed_count(const exact_counts *exact, uint32_t rva)
{
    return rva < exact->executed_count ? exact->executed[rva] : 0;
}

static uint64_t edge_count(const exact_counts *exact, const flow_graph *g, const flow_edge *e)
{
    const flow_block *from = &g->blocks[e->from];
    if (e->kind != FLOW_FALL_THROUGH)
        return taken_count(exact, from->last_rva, g->blocks[e->to].begin_rva);
    const code_instruction *last =
        &g->instructions[from->first_instruction + from->instruction_count - 1];
    uint64_t taken = last->kind == CODE_BRANCH ? taken_count(exact, from->last_rva, UINT32_MAX) : 0;
    return executed_count(exact, from->last_rva) - taken;
}

/* ------------------------------------------------------------------ comparison */

/* Three counts of one block or edge. */
typedef struct triple {
    uint64_t exact, before, after;
    uint32_t procedure;
} triple;

typedef struct triples {
    triple *items;
    size_t count, capacity;
} triples;

typedef struct comparison {
    exact_counts exact;
    triples blocks, edges;
    uint32_t procedure_count;
} comparison;

static void add_triple(triples *t, triple item)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 4096;
        t->items = realloc(t->items, t->capacity * sizeof *t->items);
        if (!t->items)
            abort();
    }
    t->items[t->count++] = item;
}

/* What is known of the way from one block to another: of the graph, or of the inference. */
typedef struct way {
    uint32_t from, to;
    triple counts;
} way;

static int compare_ways(const void *x, const void *y)
{
    const way *a = x, *b = y;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

/* A jump that the code tells of and one that was seen may be the same. */
static bool is_counted_already(const flow_graph *g, size_t edge)
{
    const flow_edge *e = &g->edges[edge];
    return edge > 0 && e->kind != FLOW_FALL_THROUGH && e[-1].kind != FLOW_FALL_THROUGH &&
           e[-1].from == e->from && e[-1].to == e->to;
}

/* Several edges may lead from one block to another: they are compared as one. */
static void add_edges(comparison *c, const flow_graph *g, const inference_graph *inferred)
{
    size_t n = 0;
    way *ways = calloc(g->edge_count + inferred->jump_count + 1, sizeof *ways);
    if (!ways)
        abort();
    for (size_t i = 0; i < g->edge_count; i++) {
        const flow_edge *e = &g->edges[i];
        uint64_t exact = is_counted_already(g, i) ? 0 : edge_count(&c->exact, g, e);
        ways[n++] = (way){e->from, e->to, {exact, 0, 0, c->procedure_count}};
    }
    for (size_t i = 0; i < inferred->jump_count; i++) {
        const inference_jump *jump = &inferred->jumps[i];
        uint64_t before = jump->is_known ? jump->weight : 0;
        ways[n++] = (way){jump->from, jump->to, {0, before, jump->flow, c->procedure_count}};
    }
    qsort(ways, n, sizeof *ways, compare_ways);
    for (size_t i = 0, end; i < n; i = end) {
        triple sum = ways[i].counts;
        for (end = i + 1; end < n && compare_ways(&ways[i], &ways[end]) == 0; end++) {
            sum.exact += ways[end].counts.exact;
            sum.before += ways[end].counts.before;
            sum.after += ways[end].counts.after;
        }
        add_triple(&c->edges, sum);
    }
    free(ways);
}

static void compare(void *ctx, const symbol_procedure *p, const flow_graph *g,
                    const inference_graph *inferred)
{
    (void)p;
    comparison *c = ctx;
    for (size_t i = 0; i < g->block_count && i < inferred->block_count; i++) {
        const inference_block *b = &inferred->blocks[i];
        add_triple(&c->blocks, (triple){executed_count(&c->exact, g->blocks[i].begin_rva),
                                        b->is_known ? b->weight : 0, b->flow, c->procedure_count});
    }
    add_edges(c, g, inferred);
    c->procedure_count++;
}

typedef struct overlap {
    double before, after;
} overlap;

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double share(uint64_t part, double whole)
{
    return whole > 0 ? (double)part / whole : 0;
}

static overlap overlap_of(const triple *items, size_t count, double *exact_sum)
{
    double exact = 0, before = 0, after = 0;
    for (size_t i = 0; i < count; i++) {
        exact += (double)items[i].exact;
        before += (double)items[i].before;
        after += (double)items[i].after;
    }
    overlap o = {0, 0};
    for (size_t i = 0; i < count; i++) {
        double wanted = share(items[i].exact, exact);
        o.before += smaller(wanted, share(items[i].before, before));
        o.after += smaller(wanted, share(items[i].after, after));
    }
    *exact_sum = exact;
    return o;
}

static void print_overlap(const char *name, const triples *t)
{
    double all, weight;
    overlap o = overlap_of(t->items, t->count, &all);
    printf("%s %.6f %.6f\n", name, o.before, o.after);
    overlap mean = {0, 0};
    for (size_t i = 0, end; i < t->count; i = end) {
        for (end = i; end < t->count && t->items[end].procedure == t->items[i].procedure;)
            end++;
        o = overlap_of(t->items + i, end - i, &weight);
        mean.before += all > 0 ? o.before * weight / all : 0;
        mean.after += all > 0 ? o.after * weight / all : 0;
    }
    printf("procedure_%s %.6f %.6f\n", name, mean.before, mean.after);
}

/* ------------------------------------------------------------------ command line */

static spgo_code infer(const samples *all, symbols *s, comparison *c, spgo_error *err)
{
    code_decoder *d;
    profile_result result;
    profile_opts opts = {.inference = PROFILE_ON, .observe = compare, .observe_ctx = c};
    SPGO_TRY(code_decoder_new(symbols_code(s), &d, err));
    const samples_program *program = &all->programs[0];
    for (size_t i = 1; i < all->program_count; i++)
        if (image_id_equal(&all->programs[i].id, &symbols_get_info(s)->id))
            program = &all->programs[i];
    spgo_code code = profile_count(program, s, d, &opts, &result, err);
    if (code == SPGO_OK)
        profile_result_free(&result);
    code_decoder_free(d);
    return code;
}

/* What is open; close takes it in any state. */
typedef struct inputs {
    symbols *symbols;
    os_input *file;
    spgo_spt *spt;
    samples samples;
} inputs;

static void close_inputs(inputs *in)
{
    samples_free(&in->samples);
    spgo_spt_close(in->spt);
    os_input_close(in->file);
    symbols_close(in->symbols);
}

static spgo_code run(char **argv, inputs *in, comparison *c, spgo_error *err)
{
    symbols_opts opts = {.image_path = argv[1]};
    SPGO_TRY(symbols_open(&opts, &in->symbols, NULL, err));
    SPGO_TRY(read_exact(argv[3], symbols_code(in->symbols), &c->exact, err));
    SPGO_TRY(os_input_open(argv[2], &in->file, err));
    SPGO_TRY(spgo_spt_open(os_input_bytes(in->file), &in->spt, err));
    SPGO_TRY(samples_add(&in->samples, in->spt, in->file, 1, err));
    if (in->samples.program_count == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, "samples", SPGO_NO_OFFSET, "no program in '%s'",
                         argv[2]);
    return infer(&in->samples, in->symbols, c, err);
}

static void print_comparison(const comparison *c)
{
    print_overlap("blocks", &c->blocks);
    print_overlap("edges", &c->edges);
    printf("procedures %" PRIu32 " %zu\n", c->procedure_count, c->blocks.count);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: bench_inference PROGRAM SPT EXACT\n", stderr);
        return 2;
    }
    inputs in = {0};
    comparison c = {0};
    spgo_error err = {0};
    spgo_code code = run(argv, &in, &c, &err);
    if (code == SPGO_OK)
        print_comparison(&c);
    else
        fprintf(stderr, "bench_inference: %s\n", err.sentence);
    close_inputs(&in);
    free(c.exact.executed);
    free(c.exact.branches);
    free(c.blocks.items);
    free(c.edges.items);
    return code == SPGO_OK ? 0 : 1;
}
