/* spddump: calls and flow graph of a function, as rows and for Graphviz. */
#include "spddump_print.h"

#include <inttypes.h>
#include <math.h>

#include <base/text.h>

enum { HASH_DIGITS = 16, OFFSET_DIGITS = 6, FLAG_DIGITS = 2, COUNT_WIDTH = 14 };

/* ------------------------------------------------------------------ calls */

static const table call_table = {"call",
                                 {{"id", 6},
                                  {"kind", -6},
                                  {"count", COUNT_WIDTH},
                                  {"callee", 6},
                                  {"hash", 16},
                                  {"blocks", 0},
                                  {"name", 0}}};
static const table emitted_table = {"emitted",
                                    {{"id", 6},
                                     {"flags", 5},
                                     {"kind", -6},
                                     {"input", COUNT_WIDTH},
                                     {"callee", 6},
                                     {"hash", 16},
                                     {"name", 0}}};
static const table indirect_table = {
    "indirect",
    {{"id", 6}, {"block", 5}, {"offset", 6}, {"bytes", 5}, {"ordinal", 7}, {"count", COUNT_WIDTH}}};
static const table target_table = {"target",
                                   {{"id", 6},
                                    {"block", 5},
                                    {"ordinal", 7},
                                    {"count", COUNT_WIDTH},
                                    {"callee", 6},
                                    {"hash", 16},
                                    {"name", 0}}};

/* Two cells; the function, for the cell of its name. */
static const spd_function *cell_callee(spddump *d, uint64_t hash)
{
    const spd_function *callee = spd_callee(d->doc, hash);
    spddump_cell_function(d, callee);
    cell_id(&d->w, hash, HASH_DIGITS);
    return callee;
}

static void cell_site_offset(spddump *d, const spd_site *site)
{
    if (d->with_ranges)
        cell_hex(&d->w, spd_site_offset(site), OFFSET_DIGITS);
    else
        cell_none(&d->w);
}

static void show_call(spddump *d, const spd_function *f, const spd_call *call)
{
    const char *kind = spd_call_kind_name(call->kind);
    table_open(&d->w, &call_table);
    spddump_cell_function(d, f);
    if (kind)
        cell_text(&d->w, kind);
    else
        cell_u64(&d->w, call->kind);
    cell_u64(&d->w, call->count);
    const spd_function *callee = cell_callee(d, call->callee_hash);
    cell_open_list(&d->w);
    for (uint32_t i = 0; i < call->block_count; i++) {
        cell_item(&d->w, i == 0);
        if (d->w.is_json)
            json_u64(&d->w.j, call->blocks[i] + UINT64_C(1));
        else
            out_u64(d->w.o, call->blocks[i] + UINT64_C(1));
    }
    cell_close_list(&d->w, call->block_count == 0);
    spddump_cell_function_name(d, callee);
    table_close(&d->w);
}

static void show_emitted(spddump *d, const spd_function *f, const spd_emitted *e)
{
    table_open(&d->w, &emitted_table);
    spddump_cell_function(d, f);
    cell_hex(&d->w, e->flags, FLAG_DIGITS);
    cell_text(&d->w, e->flags & SPD_EMITTED_TAIL ? "tail" : "call");
    cell_u64(&d->w, e->count);
    spddump_cell_function_name(d, cell_callee(d, e->callee_hash));
    table_close(&d->w);
}

static void show_target(spddump *d, const spd_function *f, uint32_t block, const spd_indirect *call,
                        const spd_target *target)
{
    table_open(&d->w, &target_table);
    spddump_cell_function(d, f);
    cell_u64(&d->w, block + UINT64_C(1));
    cell_u64(&d->w, spd_site_ordinal(&call->site));
    cell_u64(&d->w, target->count);
    spddump_cell_function_name(d, cell_callee(d, target->hash));
    table_close(&d->w);
}

static void show_indirect(spddump *d, const spd_function *f, uint32_t block,
                          const spd_indirect *call)
{
    table_open(&d->w, &indirect_table);
    spddump_cell_function(d, f);
    cell_u64(&d->w, block + UINT64_C(1));
    cell_site_offset(d, &call->site);
    cell_u64(&d->w, spd_site_length(&call->site));
    cell_u64(&d->w, spd_site_ordinal(&call->site));
    cell_u64(&d->w, call->total);
    table_close(&d->w);
    for (unsigned t = 0; t < SPD_TARGETS; t++) {
        if (call->targets[t].hash)
            show_target(d, f, block, call, &call->targets[t]);
    }
}

void spddump_call_titles(spddump *d)
{
    table_title(&d->w, &call_table);
    table_title(&d->w, &emitted_table);
    table_title(&d->w, &indirect_table);
    table_title(&d->w, &target_table);
}

void spddump_calls(spddump *d, const spd_function *f)
{
    for (uint32_t i = 0; i < f->call_count; i++)
        show_call(d, f, &f->calls[i]);
    for (uint32_t i = 0; i < f->emitted_count; i++)
        show_emitted(d, f, &f->emitted[i]);
    for (uint32_t i = 0; i < f->block_count; i++) {
        for (uint32_t k = 0; k < f->blocks[i].indirect_count; k++)
            show_indirect(d, f, i, &f->blocks[i].indirects[k]);
    }
}

/* ------------------------------------------------------------------ flow graph */

static const table block_table = {"block",
                                  {{"id", 6},
                                   {"block", 5},
                                   {"count", COUNT_WIDTH},
                                   {"instructions", 12},
                                   {"own", 4},
                                   {"flags", 5},
                                   {"number", 6},
                                   {"flag_names", -6},
                                   {"ranges", 0}}};
static const table edge_table = {"edge",
                                 {{"id", 6},
                                  {"block", 5},
                                  {"to", 5},
                                  {"count", COUNT_WIDTH},
                                  {"probability", 11},
                                  {"flags", 5},
                                  {"flag_names", 0}}};
static const table inlined_table = {"inlined",
                                    {{"id", 6},
                                     {"block", 5},
                                     {"depth", 5},
                                     {"instance", 8},
                                     {"callee", 6},
                                     {"hash", 16},
                                     {"name", 0}}};
static const table inblock_table = {"inblock",
                                    {{"id", 6},
                                     {"block", 5},
                                     {"depth", 5},
                                     {"instance", 8},
                                     {"callee_block", 12},
                                     {"instructions", 12},
                                     {"flags", 5},
                                     {"number", 6},
                                     {"ranges", 0}}};

/* A place in the nest of what was inlined into a block. */
typedef struct nest {
    const spd_function *f;
    uint32_t block;
    uint64_t instance_count; /* of the function, so far */
} nest;

static void cell_nest(spddump *d, const nest *n, unsigned depth, uint64_t instance)
{
    spddump_cell_function(d, n->f);
    cell_u64(&d->w, n->block + UINT64_C(1));
    cell_u64(&d->w, depth);
    cell_u64(&d->w, instance);
}

static void show_instance(spddump *d, nest *n, unsigned depth, const spd_instance *instance)
{
    uint64_t number = ++n->instance_count;
    table_open(&d->w, &inlined_table);
    cell_nest(d, n, depth, number);
    spddump_cell_function_name(d, cell_callee(d, instance->callee_hash));
    table_close(&d->w);
    for (uint32_t i = 0; i < instance->block_count; i++) {
        const spd_inline_block *b = &instance->blocks[i];
        table_open(&d->w, &inblock_table);
        cell_nest(d, n, depth, number);
        cell_u64(&d->w, b->id);
        cell_u64(&d->w, b->instruction_count);
        cell_hex(&d->w, b->flags, FLAG_DIGITS);
        cell_u64(&d->w, b->number);
        spddump_cell_ranges(d, b->ranges, b->range_count);
        table_close(&d->w);
        for (uint32_t k = 0; k < b->instance_count; k++)
            show_instance(d, n, depth + 1, &b->instances[k]);
    }
}

static void show_block(spddump *d, const spd_function *f, uint32_t index)
{
    const spd_block *b = &f->blocks[index];
    table_open(&d->w, &block_table);
    spddump_cell_function(d, f);
    cell_u64(&d->w, index + UINT64_C(1));
    cell_u64(&d->w, b->count);
    cell_u64(&d->w, b->instruction_count);
    cell_u64(&d->w, spd_own_instructions(b));
    cell_hex(&d->w, b->flags, FLAG_DIGITS);
    cell_u64(&d->w, b->number);
    spddump_cell_flags(d, SPD_FLAGS_BLOCK, b->flags);
    spddump_cell_ranges(d, b->ranges, b->range_count);
    table_close(&d->w);
}

static void show_edge(spddump *d, const spd_function *f, uint32_t index, const spd_edge *e)
{
    table_open(&d->w, &edge_table);
    spddump_cell_function(d, f);
    cell_u64(&d->w, index + UINT64_C(1));
    cell_u64(&d->w, e->target + UINT64_C(1));
    cell_u64(&d->w, e->count);
    cell_share(&d->w, spd_probability(&f->blocks[index], e));
    cell_hex(&d->w, e->flags, FLAG_DIGITS);
    spddump_cell_flags(d, SPD_FLAGS_EDGE, e->flags);
    table_close(&d->w);
}

void spddump_graph_titles(spddump *d)
{
    table_title(&d->w, &block_table);
    table_title(&d->w, &edge_table);
    table_title(&d->w, &inlined_table);
    table_title(&d->w, &inblock_table);
}

void spddump_graph(spddump *d, const spd_function *f)
{
    nest n = {.f = f};
    for (uint32_t i = 0; i < f->block_count && !d->w.o->failed; i++) {
        const spd_block *b = &f->blocks[i];
        show_block(d, f, i);
        for (uint32_t k = 0; k < b->edge_count; k++)
            show_edge(d, f, i, &b->edges[k]);
        n.block = i;
        for (uint32_t k = 0; k < b->instance_count; k++)
            show_instance(d, &n, 1, &b->instances[k]);
    }
}

/* ------------------------------------------------------------------ Graphviz */

/* Text between the quotes of a Graphviz label. */
static void put_label(out *o, spgo_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = (uint8_t)name.ptr[i];
        if (c == '"' || c == '\\')
            out_bytes(o, "\\", 1);
        if (c < ' ' || c == 0x7f)
            out_text(o, "?");
        else
            out_bytes(o, name.ptr + i, 1);
    }
}

/* The darker, the larger its share of the function's largest count. */
static unsigned heat(const spd_block *b, uint64_t largest)
{
    enum { COLORS = 9 };
    if (!b->count || !largest)
        return 1;
    return 1 + (unsigned)((double)(COLORS - 1) * ((double)b->count / (double)largest));
}

static void put_inlined(const spddump *d, const spd_instance *instances, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const spd_function *callee = spd_callee(d->doc, instances[i].callee_hash);
        out_text(d->w.o, "\\n+ ");
        if (callee)
            put_label(d->w.o, callee->name);
        else
            out_printf(d->w.o, "%016" PRIx64, instances[i].callee_hash);
    }
}

static void put_node(const spddump *d, size_t graph, const spd_function *f, uint32_t index,
                     uint64_t largest)
{
    const spd_block *b = &f->blocks[index];
    unsigned color = heat(b, largest);
    out_printf(d->w.o,
               "    f%zu_b%" PRIu32 " [label=\"%" PRIu32 ": %" PRIu64 "\\n%" PRIu32 " instructions",
               graph, index + 1, index + 1, b->count, b->instruction_count);
    put_inlined(d, b->instances, b->instance_count);
    out_printf(d->w.o, "\", fillcolor=%u%s];\n", color, color > 6 ? ", fontcolor=white" : "");
    for (uint32_t k = 0; k < b->edge_count; k++) {
        const spd_edge *e = &b->edges[k];
        double p = spd_probability(b, e);
        out_printf(d->w.o, "    f%zu_b%" PRIu32 " -> f%zu_b%" PRIu32 " [label=\"%" PRIu64, graph,
                   index + 1, graph, e->target + 1, e->count);
        if (!isnan(p))
            out_printf(d->w.o, " (%.1f%%)", 100 * p);
        out_printf(d->w.o, "\"%s];\n", e->flags & SPD_EDGE_BACK ? ", style=dashed" : "");
    }
}

static void put_graph(const spddump *d, size_t graph, const spd_function *f)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < f->block_count; i++)
        largest = f->blocks[i].count > largest ? f->blocks[i].count : largest;
    out_printf(d->w.o, "  subgraph cluster_%zu {\n    label=\"", graph);
    put_label(d->w.o, f->name);
    out_printf(d->w.o, " (%" PRIu32 ")\";\n", f->id);
    for (uint32_t i = 0; i < f->block_count && !d->w.o->failed; i++)
        put_node(d, graph, f, i, largest);
    out_text(d->w.o, "  }\n");
}

size_t spddump_graphviz(spddump *d, spgo_str pattern)
{
    size_t found = 0;
    for (size_t i = 0; i < d->doc->module_count; i++) {
        const spd_module *m = &d->doc->modules[i];
        for (size_t k = 0; k < m->function_count; k++) {
            const spd_function *f = &m->functions[k];
            if (!text_match(pattern, f->name))
                continue;
            if (found++ == 0)
                out_text(d->w.o, "digraph spd {\n  node [shape=box, style=filled, "
                                 "colorscheme=oranges9, fillcolor=1];\n");
            put_graph(d, found, f);
        }
    }
    if (found)
        out_text(d->w.o, "}\n");
    return found;
}
