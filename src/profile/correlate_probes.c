/* Correlation by pseudo probes: see doc/correlation.md for the rules and where they come from. */
#include <profile/correlate_internal.h>

#include <stdlib.h>

#include <format/pseudoprobe/pseudoprobe.h>
#include <spgo/spt.h>

typedef struct by_probes {
    correlate_tally *tally;
    coverage coverage;
    tree tree;
    pseudoprobes probes;
    uint64_t base_addr; /* of RVA 0 */
    bool has_debug_info;
    bool *is_kept;    /* of each node of probes, see keep_nodes */
    uint64_t *hits;   /* of each probe */
    bool *is_covered; /* likewise: it is in code that enters the profile */
    size_t next;      /* the first probe that is not before the instruction at hand */
    spgo_error *err;
} by_probes;

/* ------------------------------------------------------------------ starts */

/* As the compiler knows it. Where there is debug information, what that does not describe is a stub
 * of the linker's and the like. */
static spgo_str procedure_name(const by_probes *b, const symbol_procedure *p)
{
    const symbol_function *f = p->function;
    if (!f)
        return b->has_debug_info ? (spgo_str){.len = 0} : p->name;
    return f->linkage_name.len > 0 ? f->linkage_name : f->name;
}

typedef struct start_list {
    pseudoprobe_start *rows;
    size_t count, capacity;
} start_list;

static int by_guid(const void *a, const void *b)
{
    const pseudoprobe_start *x = a, *y = b;
    if (x->guid != y->guid)
        return x->guid < y->guid ? -1 : 1;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static bool add_start(start_list *l, spgo_str name, uint64_t addr)
{
    if (name.len == 0)
        return true;
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 1024;
        pseudoprobe_start *rows = realloc(l->rows, capacity * sizeof *rows);
        if (!rows)
            return false;
        l->rows = rows;
        l->capacity = capacity;
    }
    l->rows[l->count++] = (pseudoprobe_start){pseudoprobe_guid(name), addr};
    return true;
}

static void drop_repeated(start_list *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (i == 0 || l->rows[i].guid != l->rows[kept - 1].guid ||
            l->rows[i].addr != l->rows[kept - 1].addr)
            l->rows[kept++] = l->rows[i];
    }
    l->count = kept;
}

static bool add_procedure_starts(by_probes *b, symbols *s, start_list *l)
{
    for (size_t i = 0; i < b->coverage.procedure_count; i++) {
        const symbol_procedure *p = &b->coverage.procedures[i];
        uint64_t addr = b->base_addr + p->entry_rva;
        size_t other_count = 0;
        const spgo_str *others = symbols_other_names(s, p, &other_count);
        bool ok = add_start(l, p->name, addr) &&
                  (!p->function || add_start(l, p->function->linkage_name, addr));
        for (size_t k = 0; ok && k < other_count; k++)
            ok = add_start(l, others[k], addr);
        if (!ok)
            return false;
    }
    return true;
}

/* Parts of split functions have probes of their own, which only their symbols place. */
static bool add_label_starts(by_probes *b, symbols *s, start_list *l)
{
    const symbol_label *labels;
    size_t count;
    bool ok = symbols_labels(s, &labels, &count, b->err) == SPGO_OK;
    for (size_t i = 0; ok && i < count; i++)
        ok = add_start(l, labels[i].name, b->base_addr + labels[i].rva);
    return ok;
}

/* ------------------------------------------------------------------ probes */

static spgo_code list_starts(by_probes *b, symbols *s, start_list *l)
{
    if (!add_procedure_starts(b, s, l) || !add_label_starts(b, s, l))
        return spgo_fail_nomem(b->err, "correlate", l->count * sizeof *l->rows);
    if (l->count > 0)
        qsort(l->rows, l->count, sizeof *l->rows, by_guid);
    drop_repeated(l);
    return SPGO_OK;
}

static spgo_code read_probes(by_probes *b, symbols *s, arena *mem)
{
    const symbols_info *info = symbols_get_info(s);
    start_list starts = {0};
    diag findings = {0};
    spgo_code code = list_starts(b, s, &starts);
    if (code == SPGO_OK)
        code = pseudoprobe_read(info->probe_section, info->probe_desc_section, starts.rows,
                                starts.count, mem, &b->probes, &findings, b->err);
    free(starts.rows);
    SPGO_TRY(code);
    b->tally->probe_findings += findings.total;
    b->tally->probes_unplaced += b->probes.unplaced_count;
    b->hits = arena_push(mem, b->probes.probe_count, sizeof *b->hits);
    b->is_covered = arena_push(mem, b->probes.probe_count, sizeof *b->is_covered);
    if (!b->hits || !b->is_covered)
        return spgo_fail_nomem(b->err, "correlate", b->probes.probe_count * sizeof *b->hits);
    return SPGO_OK;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void mark_branches(coverage *c, uint8_t *is_sampled)
{
    for (size_t i = 0; i < c->measured->branch_count; i++) {
        const address_branch *b = &c->measured->branches[i];
        const symbol_procedure *from = coverage_procedure_at(c, b->from_rva);
        const symbol_procedure *to = coverage_procedure_at(c, b->to_rva);
        if (from)
            is_sampled[from - c->procedures] = 1;
        if (to)
            is_sampled[to - c->procedures] = 1;
    }
}

/* Guids of the procedures with samples, sorted; malloc'd. */
static uint64_t *sampled_guids(by_probes *b, size_t *count)
{
    coverage *c = &b->coverage;
    uint64_t *guids = calloc(c->procedure_count + 1, sizeof *guids);
    uint8_t *is_sampled = calloc(c->procedure_count + 1, 1);
    *count = 0;
    if (guids && is_sampled) {
        mark_branches(c, is_sampled);
        for (size_t i = 0; i < c->procedure_count; i++) {
            if (is_sampled[i] || c->marks[i] & COVERAGE_TOUCHED)
                guids[(*count)++] = pseudoprobe_guid(procedure_name(b, &c->procedures[i]));
        }
        qsort(guids, *count, sizeof *guids, by_value);
    } else {
        free(guids);
        guids = NULL;
    }
    free(is_sampled);
    return guids;
}

/*
 * Code that the back end merged has lost which inlined call it came from: its probes stand at the
 * top, as if they were of the inlined function itself. They count for it only if that function has
 * samples of its own.
 */
static spgo_code keep_nodes(by_probes *b, arena *mem)
{
    size_t count = 0;
    uint64_t *guids = sampled_guids(b, &count);
    b->is_kept = arena_push(mem, b->probes.node_count, sizeof *b->is_kept);
    if (!guids || !b->is_kept) {
        free(guids);
        return spgo_fail_nomem(b->err, "correlate", b->probes.node_count);
    }
    for (size_t i = 0; i < b->probes.node_count; i++) {
        const pseudoprobe_node *n = &b->probes.nodes[i];
        b->is_kept[i] = n->caller == PSEUDOPROBE_NONE
                            ? bsearch(&n->guid, guids, count, sizeof *guids, by_value) != NULL
                            : b->is_kept[n->caller];
    }
    free(guids);
    return SPGO_OK;
}

/* The first probe at or behind an address. */
static size_t probe_at(const pseudoprobes *p, uint64_t addr)
{
    size_t low = 0, high = p->probe_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->probes[mid].addr < addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Instructions come in rising order, and so do probes. */
static bool visit(void *ctx, const coverage_step *step)
{
    by_probes *b = ctx;
    const pseudoprobes *p = &b->probes;
    uint64_t addr = b->base_addr + step->instruction.rva;
    while (b->next < p->probe_count && p->probes[b->next].addr < addr)
        b->next++;
    for (; b->next < p->probe_count && p->probes[b->next].addr == addr; b->next++) {
        b->hits[b->next] = step->count;
        b->is_covered[b->next] = true;
    }
    return true;
}

/* ------------------------------------------------------------------ places */

static uint32_t add_node(by_probes *b, uint32_t index)
{
    const pseudoprobe_node *n = &b->probes.nodes[index];
    /* A call whose probe is not known cannot be placed in its caller: it stands for itself. */
    uint32_t caller = TREE_NONE;
    if (n->caller != PSEUDOPROBE_NONE && n->call_probe != 0)
        caller = tree_find(&b->tree, &b->probes.nodes[n->caller], NULL);
    const pseudoprobe_function *f =
        n->function == PSEUDOPROBE_NONE ? NULL : &b->probes.functions[n->function];
    sampleprof_place place = {.line_offset = n->call_probe};
    uint32_t node = tree_add(&b->tree, n, NULL, caller, place, f ? f->name : (spgo_str){.len = 0});
    if (node == TREE_NONE)
        return TREE_NONE;
    tree_node *t = &b->tree.nodes[node];
    t->line_source = SYMBOL_LINE_DECLARED;
    if (f && t->function)
        sampleprof_set_checksum(t->function, f->checksum);
    return node;
}

/* The profile's function of a node of probes. */
static uint32_t node_of(by_probes *b, uint32_t index)
{
    uint32_t path[TREE_DEPTH_MAX];
    size_t depth = 0;
    uint32_t node = TREE_NONE;
    for (uint32_t i = index; i != PSEUDOPROBE_NONE; i = b->probes.nodes[i].caller) {
        node = tree_find(&b->tree, &b->probes.nodes[i], NULL);
        if (node != TREE_NONE)
            break;
        if (depth == TREE_DEPTH_MAX)
            return TREE_NONE;
        path[depth++] = i;
        if (b->probes.nodes[i].call_probe == 0)
            break;
    }
    while (depth-- > 0) {
        if (node != TREE_NONE && b->tree.nodes[node].depth + 1 >= TREE_DEPTH_MAX)
            return TREE_NONE;
        node = add_node(b, path[depth]);
        if (node == TREE_NONE)
            return TREE_NONE;
    }
    return node;
}

static sampleprof_place place_of(const pseudoprobe *p)
{
    return (sampleprof_place){.line_offset = p->index, .discriminator = p->discriminator};
}

/* ------------------------------------------------------------------ counts */

/* Copies of a probe, which duplicated code has, add up. */
static bool add_probe(by_probes *b, size_t i)
{
    const pseudoprobe *p = &b->probes.probes[i];
    uint32_t node = node_of(b, p->node);
    if (node == TREE_NONE) {
        b->tally->samples_without_line = saturating_add(b->tally->samples_without_line, b->hits[i]);
        return !b->tree.failed;
    }
    tree_node *n = &b->tree.nodes[node];
    n->total = saturating_add(n->total, b->hits[i]);
    b->tally->samples_used = saturating_add(b->tally->samples_used, b->hits[i]);
    if (!n->function)
        return true;
    const symbol_procedure *procedure =
        coverage_procedure_at(&b->coverage, (uint32_t)(p->addr - b->base_addr));
    if (procedure)
        b->coverage.marks[procedure - b->coverage.procedures] |= COVERAGE_USED;
    if (p->index == 1)
        sampleprof_add_head(n->function, b->hits[i]);
    b->tree.failed |= !sampleprof_add_line(b->tree.profile, n->function, place_of(p), b->hits[i]);
    return !b->tree.failed;
}

/* Of several call probes at one address the first one counts. */
static const pseudoprobe *call_probe_at(const by_probes *b, uint64_t addr)
{
    const pseudoprobes *p = &b->probes;
    for (size_t i = probe_at(p, addr); i < p->probe_count && p->probes[i].addr == addr; i++) {
        if (p->probes[i].kind != PSEUDOPROBE_BLOCK && b->is_kept[p->probes[i].node])
            return &p->probes[i];
    }
    return NULL;
}

static bool add_branch(by_probes *b, const address_branch *branch)
{
    const symbol_procedure *callee = coverage_entered_at(&b->coverage, branch->to_rva);
    if (!callee || branch->from_rva == SPGO_SPT_OUTSIDE)
        return true;
    spgo_str name = correlate_canonical_name(procedure_name(b, callee));
    const pseudoprobe *p = call_probe_at(b, b->base_addr + branch->from_rva);
    if (!p || !correlate_target_is_usable(name))
        return true;
    uint32_t node = node_of(b, p->node);
    sampleprof_function *f = node == TREE_NONE ? NULL : b->tree.nodes[node].function;
    b->tree.failed |=
        f && !sampleprof_add_target(b->tree.profile, f, place_of(p), name, branch->count);
    return !b->tree.failed;
}

static void count_left_out(by_probes *b)
{
    for (size_t i = 0; i < b->coverage.procedure_count; i++) {
        uint8_t marks = b->coverage.marks[i];
        b->tally->functions_left_out += (marks & COVERAGE_SAMPLED) && !(marks & COVERAGE_USED);
    }
}

static spgo_code correlate_all(by_probes *b, code_decoder *d)
{
    const address_profile *measured = b->coverage.measured;
    bool ok = coverage_walk(&b->coverage, d, visit, b);
    for (size_t i = 0; ok && i < b->probes.probe_count; i++)
        ok = !b->is_covered[i] || !b->is_kept[b->probes.probes[i].node] || add_probe(b, i);
    for (size_t i = 0; ok && i < measured->branch_count; i++)
        ok = add_branch(b, &measured->branches[i]);
    if (!ok)
        return spgo_fail_nomem(b->err, "correlate", b->tree.count * sizeof(tree_node));
    count_left_out(b);
    return tree_finish(&b->tree, b->err);
}

static spgo_code check(const symbols_info *info, const sampleprof *profile, spgo_error *err)
{
    if (info->probe_section.len == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, "correlate", SPGO_NO_OFFSET,
                         "%s has no pseudo probes; build it with -fpseudo-probe-for-profiling, or "
                         "correlate by lines",
                         info->image_path);
    if (sampleprof_function_count(profile) > 0 && !sampleprof_has_probes(profile))
        return spgo_fail(err, SPGO_USAGE, "correlate", SPGO_NO_OFFSET,
                         "lines and pseudo probes cannot stand in one profile; write one profile "
                         "for each kind of program");
    return SPGO_OK;
}

spgo_code correlate_probes(const address_profile *measured, symbols *s, code_decoder *d,
                           sampleprof *profile, correlate_tally *tally, spgo_error *err)
{
    SPGO_TRY(check(symbols_get_info(s), profile, err));
    sampleprof_set_probes(profile, true);
    by_probes b = {.tally = tally, .err = err, .base_addr = symbols_code(s)->base_addr};
    b.has_debug_info = symbols_get_info(s)->source >= SYMBOLS_PDB;
    arena *mem = arena_new(0);
    if (!mem)
        return spgo_fail_nomem(err, "correlate", 1);
    tree_init(&b.tree, profile, tally);
    spgo_code code = coverage_open(&b.coverage, measured, s, err);
    if (code == SPGO_OK)
        code = read_probes(&b, s, mem);
    if (code == SPGO_OK)
        code = keep_nodes(&b, mem);
    if (code == SPGO_OK)
        code = correlate_all(&b, d);
    coverage_close(&b.coverage);
    tree_close(&b.tree);
    arena_free(mem);
    return code;
}
