/* A real program, SQLite's speedtest1 by clang 19, and the branches it was seen to take. */
#include "code_build.h"

typedef struct program {
    spgo_span file;
    code_segment segments[2]; /* constants, code */
    code_image image;
    code_decoder *d;
    arena *mem;
} program;

enum { TEXT_RVA = 0x302f0, TEXT_END_RVA = 0x11b2ff };

static program *open_program(void)
{
    if (!code_can_decode(CODE_X64))
        skip();
    spgo_span file = test_data_or_skip("lbr/speedtest1");
    assert_true(file.len > 0x2f2f0 + 0xeb320);
    program *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->file = file;
    p->segments[0] = (code_segment){0, {file.ptr, 0x2f2f0}, false};
    p->segments[1] = (code_segment){TEXT_RVA, {file.ptr + 0x2f2f0, 0xeb320}, true};
    p->image = (code_image){CODE_X64, 0, p->segments, 2};
    assert_int_equal(code_decoder_new(&p->image, &p->d, NULL), SPGO_OK);
    p->mem = arena_new(0);
    assert_non_null(p->mem);
    return p;
}

static void close_program(program *p)
{
    code_decoder_free(p->d);
    arena_free(p->mem);
    test_data_free(p->file);
    free(p);
}

/* llvm-objdump 19 shows as many instructions, with the same starts and kinds. */
static void all_of_text_is_code(void **state)
{
    (void)state;
    program *p = open_program();
    size_t counts[CODE_TRAP + 1] = {0}, total = 0;
    uint32_t rva = TEXT_RVA;
    while (rva < TEXT_END_RVA) {
        code_instruction in = code_decode(p->d, rva);
        counts[in.kind]++;
        total++;
        rva += in.size_bytes;
    }
    assert_int_equal(rva, TEXT_END_RVA);
    assert_int_equal(total, 239288);
    assert_int_equal(counts[CODE_INVALID], 0);
    close_program(p);
}

/* ------------------------------------------------------------------ observed branches */

typedef struct observed {
    flow_branch *branches;
    size_t count;
} observed;

/* The arcs of speedtest1.expected.txt, its second list. */
static observed read_observed(void)
{
    spgo_span file = test_data_or_skip("lbr/speedtest1.expected.txt");
    char *text = calloc(file.len + 1, 1), *at = text;
    assert_non_null(text);
    memcpy(text, file.ptr, file.len);
    observed o = {NULL, 0};
    for (unsigned long lines = strtoul(text, &at, 10); lines > 0; lines--)
        at = strchr(at + 1, '\n');
    size_t count = strtoul(at, &at, 10);
    o.branches = calloc(count, sizeof(*o.branches));
    assert_non_null(o.branches);
    for (; o.count < count; o.count++) {
        flow_branch *b = &o.branches[o.count];
        assert_int_equal(sscanf(at, " %x->%x", &b->from_rva, &b->to_rva), 2);
        at = strchr(at + 1, '\n');
    }
    free(text);
    test_data_free(file);
    return o;
}

static bool has_edge(const flow_graph *g, const flow_block *from, uint32_t to_rva)
{
    for (uint32_t e = from->first_edge; e < from->first_edge + from->edge_count; e++) {
        if (g->blocks[g->edges[e].to].begin_rva == to_rva && g->edges[e].kind != FLOW_FALL_THROUGH)
            return true;
    }
    return false;
}

/* Every jump that was seen within the function is an edge; returns how many there were. */
static size_t check_observed(const flow_graph *g, const observed *o)
{
    size_t seen = 0;
    for (size_t i = 0; i < o->count; i++) {
        uint32_t at = flow_block_at(g, o->branches[i].from_rva);
        uint32_t to_rva = o->branches[i].to_rva;
        if (at == FLOW_NONE || flow_block_at(g, to_rva) == FLOW_NONE)
            continue;
        const flow_block *b = &g->blocks[at];
        if (b->last_rva != o->branches[i].from_rva)
            continue; /* a call */
        if (!has_edge(g, b, to_rva))
            fail_msg("%x to %x is no edge", b->last_rva, to_rva);
        seen++;
    }
    return seen;
}

static void switches_have_all_targets(void **state)
{
    (void)state;
    static const struct {
        uint32_t rva, size_bytes;
        size_t table_edges; /* different targets of each table, by its bytes, added up */
    } functions[] = {
        {0x6cf50, 0xc18c,
         149 + 4 + 4 + 4},      /* sqlite3VdbeExec: its table is found before the loop */
        {0x91270, 0x2a6e, 255}, /* yy_reduce */
        {0x8cbb0, 0x6ca, 29},   /* sqlite3GetToken */
    };
    program *p = open_program();
    observed o = read_observed();
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        flow_graph g;
        flow_extent extent = {functions[i].rva, functions[i].rva + functions[i].size_bytes};
        size_t table_edges = 0;
        assert_int_equal(
            flow_graph_build(p->d, extent.begin_rva, &extent, 1, NULL, p->mem, &g, NULL), SPGO_OK);
        assert_true(g.is_simple);
        for (size_t e = 0; e < g.edge_count; e++)
            table_edges += g.edges[e].kind == FLOW_TABLE;
        assert_int_equal(table_edges, functions[i].table_edges);
        assert_true(check_observed(&g, &o) > 0);
    }
    free(o.branches);
    close_program(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_text_is_code),
        cmocka_unit_test(switches_have_all_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
