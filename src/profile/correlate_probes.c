/* Correlation by pseudo probes: see doc/correlation.md for the rules and where they come from. */
#include <profile/correlate_internal.h>

#include <stdlib.h>

#include <format/pseudoprobe/pseudoprobe.h>
#include <spgo/spt.h>

/* A number that some probe or inlined call of a function has. */
typedef struct known_number {
    uint64_t guid; /* of the function */
    uint32_t index;
    bool is_call;
} known_number;

typedef struct by_probes {
    correlate_rules rules;
    correlate_tally *tally;
    coverage coverage;
    tree tree;
    pseudoprobes probes;
    uint64_t base_addr; /* of RVA 0 */
    bool has_debug_info;
    bool *is_kept;    /* of each node of probes, see keep_nodes */
    uint64_t *hits;   /* of each probe */
    bool *is_covered; /* likewise: it is in code that enters the profile */
    lost_calls lost;
    known_number *known; /* by guid, then index; only when there are lost calls */
    size_t known_count;
    uint32_t *known_calls; /* of each function */
    size_t next;           /* the first probe that is not before the instruction at hand */
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
    if (!correlate_target_is_usable(name))
        return true;
    const pseudoprobe *p = call_probe_at(b, b->base_addr + branch->from_rva);
    if (!p)
        return b->rules == CORRELATE_PROFGEN || lost_calls_add(&b->lost, branch);
    uint32_t node = node_of(b, p->node);
    sampleprof_function *f = node == TREE_NONE ? NULL : b->tree.nodes[node].function;
    b->tree.failed |=
        f && !sampleprof_add_target(b->tree.profile, f, place_of(p), name, branch->count);
    return !b->tree.failed;
}

/* ------------------------------------------------------------------ calls without a probe */

static int by_number(const void *a, const void *b)
{
    const known_number *x = a, *y = b;
    if (x->guid != y->guid)
        return x->guid < y->guid ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return (int)x->is_call - (int)y->is_call;
}

static spgo_code list_known(by_probes *b, arena *mem)
{
    const pseudoprobes *p = &b->probes;
    b->known = arena_push(mem, p->probe_count + p->node_count, sizeof *b->known);
    b->known_calls = arena_push(mem, p->function_count, sizeof *b->known_calls);
    if (!b->known || !b->known_calls)
        return spgo_fail_nomem(b->err, "correlate", p->probe_count * sizeof *b->known);
    for (size_t i = 0; i < p->probe_count; i++)
        b->known[b->known_count++] =
            (known_number){p->nodes[p->probes[i].node].guid, p->probes[i].index,
                           p->probes[i].kind != PSEUDOPROBE_BLOCK};
    for (size_t i = 0; i < p->node_count; i++) {
        const pseudoprobe_node *n = &p->nodes[i];
        if (n->caller != PSEUDOPROBE_NONE)
            b->known[b->known_count++] =
                (known_number){p->nodes[n->caller].guid, n->call_probe, true};
    }
    qsort(b->known, b->known_count, sizeof *b->known, by_number);
    for (size_t i = 0; i < b->known_count; i++) {
        const known_number *k = &b->known[i];
        bool is_repeated = i > 0 && k[-1].guid == k->guid && k[-1].index == k->index;
        const pseudoprobe_function *f = pseudoprobe_find_function(p, k->guid);
        if (f && k->is_call && !(is_repeated && k[-1].is_call))
            b->known_calls[f - p->functions]++;
    }
    return SPGO_OK;
}

/* The clang that numbers probes counts the calls in 12 bits of the checksum. */
static uint32_t call_count(const pseudoprobe_function *f)
{
    return f->checksum >> 48 & 0xfff;
}

/* Can a number be that of a call that lost its probe? No other probe has it, but some further one
 * of the function is known, and not all of its calls are. */
static bool is_lost(const by_probes *b, uint64_t guid, uint32_t index)
{
    const pseudoprobe_function *f = pseudoprobe_find_function(&b->probes, guid);
    if (!f || b->known_calls[f - b->probes.functions] >= call_count(f))
        return false;
    const known_number wanted = {guid, index, false};
    size_t low = 0, high = b->known_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_number(&b->known[mid], &wanted) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < b->known_count && b->known[low].guid == guid && b->known[low].index != index;
}

static bool is_block(const by_probes *b, const pseudoprobe *p)
{
    return p->kind == PSEUDOPROBE_BLOCK && b->is_kept[p->node];
}

static bool knows_block(void *ctx, uint32_t rva)
{
    const by_probes *b = ctx;
    const pseudoprobes *p = &b->probes;
    uint64_t addr = b->base_addr + rva;
    for (size_t i = probe_at(p, addr); i < p->probe_count && p->probes[i].addr == addr; i++) {
        if (is_block(b, &p->probes[i]))
            return true;
    }
    return false;
}

/* Numbers rise from a block to the calls in it: the lost one is the next after its block's. */
static bool place_call(void *ctx, const address_branch *call, uint32_t rva, uint64_t count)
{
    by_probes *b = ctx;
    const pseudoprobes *p = &b->probes;
    uint64_t addr = b->base_addr + rva;
    const pseudoprobe *block = NULL;
    for (size_t i = probe_at(p, addr); i < p->probe_count && p->probes[i].addr == addr; i++) {
        const pseudoprobe *at = &p->probes[i];
        if (is_block(b, at) && is_lost(b, p->nodes[at->node].guid, at->index + 1))
            block = at;
    }
    uint32_t node = block ? node_of(b, block->node) : TREE_NONE;
    sampleprof_function *f = node == TREE_NONE ? NULL : b->tree.nodes[node].function;
    if (!f)
        return !b->tree.failed;
    sampleprof_place place = {.line_offset = block->index + 1};
    spgo_str name = correlate_canonical_name(
        procedure_name(b, coverage_entered_at(&b->coverage, call->to_rva)));
    b->tree.nodes[node].total = saturating_add(b->tree.nodes[node].total, count);
    b->tally->calls_placed = saturating_add(b->tally->calls_placed, count);
    b->tree.failed |= !sampleprof_add_line(b->tree.profile, f, place, count) ||
                      !sampleprof_add_target(b->tree.profile, f, place, name, count);
    return !b->tree.failed;
}

static spgo_code place_lost_calls(by_probes *b, arena *mem)
{
    const lost_call_places places = {knows_block, place_call, b};
    if (b->lost.count == 0)
        return SPGO_OK;
    SPGO_TRY(list_known(b, mem));
    return lost_calls_place(&b->lost, &places, b->err);
}

static void count_left_out(by_probes *b)
{
    for (size_t i = 0; i < b->coverage.procedure_count; i++) {
        uint8_t marks = b->coverage.marks[i];
        b->tally->functions_left_out += (marks & COVERAGE_SAMPLED) && !(marks & COVERAGE_USED);
    }
}

static spgo_code correlate_all(by_probes *b, code_decoder *d, arena *mem)
{
    const address_profile *measured = b->coverage.measured;
    bool ok = coverage_walk(&b->coverage, d, visit, b);
    for (size_t i = 0; ok && i < b->probes.probe_count; i++)
        ok = !b->is_covered[i] || !b->is_kept[b->probes.probes[i].node] || add_probe(b, i);
    for (size_t i = 0; ok && i < measured->branch_count; i++)
        ok = add_branch(b, &measured->branches[i]);
    if (!ok)
        return spgo_fail_nomem(b->err, "correlate", b->tree.count * sizeof(tree_node));
    SPGO_TRY(place_lost_calls(b, mem));
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
                           correlate_rules rules, sampleprof *profile, correlate_tally *tally,
                           spgo_error *err)
{
    SPGO_TRY(check(symbols_get_info(s), profile, err));
    sampleprof_set_probes(profile, true);
    by_probes b = {.rules = rules, .tally = tally, .err = err};
    b.base_addr = symbols_code(s)->base_addr;
    b.lost = (lost_calls){.coverage = &b.coverage, .s = s, .d = d};
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
        code = correlate_all(&b, d, mem);
    lost_calls_free(&b.lost);
    coverage_close(&b.coverage);
    tree_close(&b.tree);
    arena_free(mem);
    return code;
}
