/* Correlation by line tables: see doc/correlation.md for the rules and where they come from. */
#include <profile/correlate_internal.h>

#include <spgo/spt.h>

typedef struct lines {
    symbols *s;
    correlate_tally *tally;
    coverage coverage;
    tree tree;
    lost_calls lost;
    counts unnamed; /* inlined functions without a place, by pointer */
    correlate_rules rules;
    bool is_exact;          /* DWARF: line 0 and unknown first lines count as llvm-profgen does */
    bool has_discriminator; /* with base and duplication factor in it */
    symbol_run run;         /* the one at hand; empty: none */
    /* Of the run at hand, from the instructions seen. */
    uint32_t procedure;
    uint64_t bytes_count; /* sum of count times size */
    uint64_t hits, max_count;
    spgo_code code; /* of the first failure that ends the walk */
    spgo_error *err;
} lines;

/* ------------------------------------------------------------------ discriminators */

/* The number that a discriminator's first component stands for: an odd one is 0, the others have
 * 5 bits, or with bit 5 set 12. */
static uint32_t component(uint32_t d)
{
    if (d & 1)
        return 0;
    d >>= 1;
    return d & 0x20 ? (d >> 1 & 0xfe0) | (d & 0x1f) : d & 0x1f;
}

static uint32_t next_component(uint32_t d)
{
    if (d & 1)
        return d >> 1;
    return d >> (d & 0x40 ? 14 : 7);
}

/* Of programs with pseudo probes: call sites have the number of the probe there. */
static bool is_probe(uint32_t d)
{
    return (d & 7) == 7 && d > 7;
}

static uint32_t probe_number(uint32_t d)
{
    bool has_base = d >> 28 & 1;
    return has_base ? d >> 16 & 7 : d >> 3 & 0xffff;
}

static uint32_t base_discriminator(const lines *l, uint32_t d)
{
    if (!l->has_discriminator)
        return d;
    return is_probe(d) ? probe_number(d) : component(d);
}

/* How many copies of the code there are, as unrolling and the like make them. */
static uint64_t duplication_factor(const lines *l, uint32_t d)
{
    if (!l->has_discriminator || is_probe(d))
        return 1;
    uint32_t factor = component(next_component(d));
    return factor == 0 ? 1 : factor;
}

/* ------------------------------------------------------------------ places */

static sampleprof_place place_of(const lines *l, const symbol_frame *f)
{
    return (sampleprof_place){
        .line_offset = (f->line - f->function->line) & 0xffff,
        .discriminator = base_discriminator(l, f->discriminator),
    };
}

/* DWARF leaves out linkage names that are the same as the name; in a PDB one that is missing is not
 * known. */
static spgo_str name_of(const lines *l, const symbol_function *f)
{
    bool is_same = f->linkage_name.len == 0 && l->is_exact;
    return correlate_canonical_name(is_same ? f->name : f->linkage_name);
}

static spgo_str top_name(const lines *l, const symbol_function *f, const symbol_procedure *p)
{
    spgo_str name = name_of(l, f);
    return name.len > 0 ? name : correlate_canonical_name(p->name);
}

/* Can lines be counted from where the function begins? */
static bool has_start(const lines *l, const symbol_function *f)
{
    return l->is_exact || (f->line_source != SYMBOL_LINE_NONE && f->line != 0);
}

/* Can it be a function of the profile? What only a symbol table names has no lines. */
static bool has_top(const lines *l, const symbol_function *f, const symbol_procedure *p)
{
    return p->function && has_start(l, f) && top_name(l, f, p).len > 0;
}

/* Can an inlined call be told apart from its caller? */
static bool is_placeable(const lines *l, const symbol_frame *f)
{
    bool has_name = f->function->linkage_name.len > 0 || (l->is_exact && f->function->name.len > 0);
    return has_name && has_start(l, f->function) &&
           (!f->caller || l->is_exact || f->caller->line != 0);
}

/* The frame that counts: the deepest one with nothing above it that has no place. What is inlined
 * into a call without a place counts for the line of the call. */
static const symbol_frame *placeable_leaf(lines *l, const symbol_frame *leaf)
{
    const symbol_frame *kept = leaf;
    for (const symbol_frame *f = leaf; f->caller; f = f->caller) {
        if (is_placeable(l, f))
            continue;
        uint64_t key = (uintptr_t)f->function;
        counts_add(&l->unnamed, &key, 1, 1);
        kept = f->caller;
    }
    return kept;
}

static uint32_t add_node(lines *l, const symbol_frame *f, uint32_t caller,
                         const symbol_procedure *p)
{
    tree *t = &l->tree;
    if (f->caller)
        return tree_add(t, f->function, f->caller, caller, place_of(l, f->caller),
                        name_of(l, f->function));
    uint32_t node = tree_add(t, f->function, NULL, TREE_NONE, (sampleprof_place){0},
                             top_name(l, f->function, p));
    if (node != TREE_NONE)
        t->nodes[node].line_source = l->is_exact ? SYMBOL_LINE_DECLARED : f->function->line_source;
    return node;
}

/* The node of the function that a frame is a place of; TREE_NONE: none (or t->failed). */
static uint32_t node_of(lines *l, const symbol_frame *leaf, const symbol_procedure *p)
{
    const symbol_frame *path[TREE_DEPTH_MAX];
    size_t depth = 0;
    uint32_t node = TREE_NONE;
    for (const symbol_frame *f = leaf; f; f = f->caller) {
        node = tree_find(&l->tree, f->function, f->caller);
        if (node != TREE_NONE)
            break;
        if (depth == TREE_DEPTH_MAX)
            return TREE_NONE;
        path[depth++] = f;
    }
    if (node == TREE_NONE && !has_top(l, path[depth - 1]->function, p))
        return TREE_NONE;
    while (depth-- > 0) {
        if (node != TREE_NONE && l->tree.nodes[node].depth + 1 >= TREE_DEPTH_MAX)
            return TREE_NONE;
        node = add_node(l, path[depth], node, p);
        if (node == TREE_NONE)
            return TREE_NONE;
    }
    return node;
}

/* ------------------------------------------------------------------ bodies */

static void forget_run(lines *l)
{
    l->run = (symbol_run){0};
    l->bytes_count = l->hits = l->max_count = 0;
}

/* Puts what was seen of a run into the profile. */
static bool flush_run(lines *l)
{
    if (!l->run.leaf)
        return true;
    const symbol_frame *leaf = placeable_leaf(l, l->run.leaf);
    uint32_t node = node_of(l, leaf, &l->coverage.procedures[l->procedure]);
    bool has_line = node != TREE_NONE && (l->is_exact || leaf->line != 0);
    if (node != TREE_NONE) {
        tree_node *n = &l->tree.nodes[node];
        n->total = saturating_add(n->total, l->bytes_count);
        if (n->function && has_line)
            l->tree.failed |= !sampleprof_raise_line(
                l->tree.profile, n->function, place_of(l, leaf),
                saturating_multiply(l->max_count, duplication_factor(l, leaf->discriminator)));
        l->coverage.marks[l->procedure] |= COVERAGE_USED;
    }
    uint64_t *tally = has_line ? &l->tally->samples_used : &l->tally->samples_without_line;
    *tally = saturating_add(*tally, l->hits);
    forget_run(l);
    return !l->tree.failed;
}

/* The run of an address; one without a leaf if there is none. False: a failure. */
static bool find_run(lines *l, uint32_t rva, symbol_run *run)
{
    spgo_code code = symbols_run_at(l->s, rva, run, l->err);
    bool found = code == SPGO_OK && run->leaf && run->begin_rva <= rva && rva < run->end_rva;
    if (!found)
        *run = (symbol_run){0};
    if (code != SPGO_OK && code != SPGO_NOT_FOUND)
        l->code = code;
    return l->code == SPGO_OK;
}

static bool visit(void *ctx, const coverage_step *step)
{
    lines *l = ctx;
    uint32_t rva = step->instruction.rva;
    if (rva < l->run.begin_rva || rva >= l->run.end_rva || step->procedure != l->procedure) {
        if (!flush_run(l) || !find_run(l, rva, &l->run))
            return false;
        l->procedure = step->procedure;
    }
    if (!l->run.leaf) {
        l->tally->samples_without_line =
            saturating_add(l->tally->samples_without_line, step->count);
        return true;
    }
    uint64_t bytes = saturating_multiply(step->count, step->instruction.size_bytes);
    l->bytes_count = saturating_add(l->bytes_count, bytes);
    l->hits = saturating_add(l->hits, step->count);
    if (step->count > l->max_count)
        l->max_count = step->count;
    return true;
}

/* ------------------------------------------------------------------ heads and call targets */

/* The frame that counts at an address; NULL: none. False: a failure. */
static bool find_leaf(lines *l, uint32_t rva, const symbol_frame **leaf)
{
    bool is_at_hand = rva >= l->run.begin_rva && rva < l->run.end_rva;
    if (!is_at_hand && !find_run(l, rva, &l->run))
        return false;
    *leaf = l->run.leaf ? placeable_leaf(l, l->run.leaf) : NULL;
    return true;
}

/* Counts calls at the place of an instruction. */
static bool add_target_at(lines *l, uint32_t rva, spgo_str callee, uint64_t count)
{
    const symbol_frame *leaf;
    if (!find_leaf(l, rva, &leaf))
        return false;
    const symbol_procedure *p = coverage_procedure_at(&l->coverage, rva);
    uint32_t node = p && leaf ? node_of(l, leaf, p) : TREE_NONE;
    if (node == TREE_NONE || !(l->is_exact || leaf->line != 0))
        return !l->tree.failed;
    sampleprof_function *f = l->tree.nodes[node].function;
    l->tree.failed |=
        f && !sampleprof_add_target(l->tree.profile, f, place_of(l, leaf), callee, count);
    return !l->tree.failed;
}

/* Counts a branch as a call at the place it comes from. */
static bool add_target(lines *l, const address_branch *b, spgo_str callee)
{
    const symbol_frame *leaf;
    if (b->from_rva == SPGO_SPT_OUTSIDE || !correlate_target_is_usable(callee))
        return true;
    if (!find_leaf(l, b->from_rva, &leaf))
        return false;
    if (leaf && leaf->line == 0 && l->rules == CORRELATE_BEST && !lost_calls_add(&l->lost, b))
        return false;
    return add_target_at(l, b->from_rva, callee, b->count);
}

static bool add_branch(lines *l, const address_branch *b)
{
    const symbol_procedure *callee = coverage_entered_at(&l->coverage, b->to_rva);
    if (!callee || !callee->function || !has_top(l, callee->function, callee))
        return true;
    symbol_frame top = {.function = callee->function};
    uint32_t node = node_of(l, &top, callee);
    if (node == TREE_NONE)
        return !l->tree.failed;
    if (l->tree.nodes[node].function)
        sampleprof_add_head(l->tree.nodes[node].function, b->count);
    return add_target(l, b, top_name(l, callee->function, callee));
}

static bool add_branches(lines *l)
{
    forget_run(l);
    const address_profile *p = l->coverage.measured;
    for (size_t i = 0; i < p->branch_count; i++) {
        if (!add_branch(l, &p->branches[i]))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ calls without a line */

static bool knows_line(void *ctx, uint32_t rva)
{
    lines *l = ctx;
    const symbol_frame *leaf;
    return find_leaf(l, rva, &leaf) && leaf && leaf->line != 0;
}

static bool place_call(void *ctx, const address_branch *call, uint32_t rva, uint64_t count)
{
    lines *l = ctx;
    const symbol_procedure *callee = coverage_entered_at(&l->coverage, call->to_rva);
    l->tally->calls_placed = saturating_add(l->tally->calls_placed, count);
    return add_target_at(l, rva, top_name(l, callee->function, callee), count);
}

static spgo_code place_lost_calls(lines *l)
{
    const lost_call_places places = {knows_line, place_call, l};
    spgo_code code = lost_calls_place(&l->lost, &places, l->err);
    return l->code != SPGO_OK ? l->code : code;
}

/* ------------------------------------------------------------------ the whole */

static void count_left_out(lines *l)
{
    for (size_t i = 0; i < l->coverage.procedure_count; i++) {
        uint8_t marks = l->coverage.marks[i];
        l->tally->functions_left_out += (marks & COVERAGE_SAMPLED) && !(marks & COVERAGE_USED);
    }
    l->tally->inlinees_unnamed += l->unnamed.used;
}

static spgo_code correlate_all(lines *l, code_decoder *d)
{
    spgo_error *err = l->err;
    if (!coverage_walk(&l->coverage, d, visit, l) || !flush_run(l) || !add_branches(l)) {
        if (l->code != SPGO_OK)
            return l->code;
        return spgo_fail_nomem(err, "correlate", l->tree.count * sizeof(tree_node));
    }
    SPGO_TRY(place_lost_calls(l));
    count_left_out(l);
    return tree_finish(&l->tree, err);
}

spgo_code correlate_lines(const address_profile *measured, symbols *s, code_decoder *d,
                          correlate_rules rules, sampleprof *profile, correlate_tally *tally,
                          spgo_error *err)
{
    if (sampleprof_has_probes(profile))
        return spgo_fail(err, SPGO_USAGE, "correlate", SPGO_NO_OFFSET,
                         "lines and pseudo probes cannot stand in one profile; write one profile "
                         "for each kind of program");
    const symbols_info *info = symbols_get_info(s);
    lines l = {.s = s, .rules = rules, .tally = tally, .err = err};
    l.lost = (lost_calls){.coverage = &l.coverage, .s = s, .d = d};
    l.is_exact = info->source == SYMBOLS_DWARF;
    l.has_discriminator = !info->has_fs_discriminators;
    tree_init(&l.tree, profile, tally);
    spgo_code code = coverage_open(&l.coverage, measured, s, err);
    if (code == SPGO_OK)
        code = correlate_all(&l, d);
    coverage_close(&l.coverage);
    tree_close(&l.tree);
    lost_calls_free(&l.lost);
    counts_free(&l.unnamed);
    return code;
}
