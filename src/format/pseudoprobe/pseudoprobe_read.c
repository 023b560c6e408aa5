/*
 * Reads .pseudo_probe_desc and .pseudo_probe. The trees of .pseudo_probe are walked twice, to count
 * and then to keep, so that memory is what the file holds and nothing is grown.
 */
#include <format/pseudoprobe/pseudoprobe.h>

#include <stdlib.h>
#include <string.h>

#include <base/reader.h>

enum {
    DEPTH_MAX = 1024,       /* inlined calls in one another */
    PROBE_SIZE_MIN = 3,     /* number, kind, address */
    NODE_SIZE_MIN = 8 + 2,  /* guid, probe count, child count */
    FUNCTION_SIZE_MIN = 17, /* guid, checksum, length of the name */
    ADDRESS_IS_DELTA = 0x80
};

/* ------------------------------------------------------------------ numbers */

static uint32_t read_uleb32(reader *r)
{
    uint64_t start = reader_offset(r), value = reader_uleb(r);
    if (value > UINT32_MAX)
        reader_fail(r, SPGO_CORRUPT, start);
    return value > UINT32_MAX ? 0 : (uint32_t)value;
}

/* As its 64-bit two's complement. */
static uint64_t read_sleb(reader *r)
{
    uint64_t start = reader_offset(r), value = 0;
    for (unsigned shift = 0; r->code == SPGO_OK; shift += 7) {
        uint64_t byte = reader_u8(r);
        if (shift >= 64) {
            reader_fail(r, SPGO_CORRUPT, start);
            return 0;
        }
        value |= (byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if ((byte & 0x40) && shift + 7 < 64)
            value |= UINT64_MAX << (shift + 7);
        return value;
    }
    return 0;
}

/* What ended a section early is a finding. */
static void report(const reader *r, const char *section, size_t kept, const char *kept_what,
                   diag *d)
{
    if (r->code == SPGO_OK)
        return;
    const char *what =
        r->code == SPGO_TRUNCATED ? "ends inside a record" : "has a number that is too large";
    diag_add(d, r->code, r->bad_off, "%s %s at offset 0x%llx; the %zu %s before it are used",
             section, what, (unsigned long long)r->bad_off, kept, kept_what);
}

/* ------------------------------------------------------------------ functions */

typedef struct described {
    pseudoprobe_function function;
    size_t order; /* in the file */
} described;

static int by_guid(const void *a, const void *b)
{
    const described *x = a, *y = b;
    if (x->function.guid != y->function.guid)
        return x->function.guid < y->function.guid ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static size_t read_descriptions(reader *r, described *out)
{
    size_t count = 0;
    while (r->code == SPGO_OK && reader_left(r) > 0) {
        pseudoprobe_function f = {.guid = reader_u64(r), .checksum = reader_u64(r)};
        spgo_span name = reader_bytes(r, reader_uleb(r));
        f.name = (spgo_str){(const char *)name.ptr, name.len};
        if (r->code == SPGO_OK && out)
            out[count] = (described){f, count};
        count += r->code == SPGO_OK;
    }
    return count;
}

static spgo_code read_functions(spgo_span desc, arena *mem, pseudoprobes *p, diag *d,
                                spgo_error *err)
{
    reader r = reader_from(desc, 0);
    size_t count = read_descriptions(&r, NULL);
    report(&r, ".pseudo_probe_desc", count, "functions", d);
    described *all = calloc(count + 1, sizeof *all);
    pseudoprobe_function *functions = arena_push(mem, count, sizeof *functions);
    if (!all || !functions) {
        free(all);
        return spgo_fail_nomem(err, "pseudoprobe.desc", count * sizeof *all);
    }
    r = reader_from(desc, 0);
    (void)read_descriptions(&r, all);
    qsort(all, count, sizeof *all, by_guid);
    /* Every object file describes the functions it inlined: the first description counts. */
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || all[i].function.guid != all[i - 1].function.guid)
            functions[p->function_count++] = all[i].function;
    }
    free(all);
    p->functions = functions;
    return SPGO_OK;
}

const pseudoprobe_function *pseudoprobe_find_function(const pseudoprobes *p, uint64_t guid)
{
    size_t low = 0, high = p->function_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->functions[mid].guid < guid)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < p->function_count && p->functions[low].guid == guid;
    return found ? &p->functions[low] : NULL;
}

/* ------------------------------------------------------------------ trees */

typedef struct open_node {
    uint32_t node;
    uint32_t children_left;
} open_node;

typedef struct walk {
    reader r;
    const pseudoprobe_start *starts;
    size_t start_count;
    uint32_t *starts_used;   /* of each run of starts with one guid, at its first */
    const pseudoprobes *all; /* for its functions */
    pseudoprobe_node *nodes; /* NULL: only count */
    pseudoprobe *probes;
    size_t node_count, probe_count, unplaced_count;
    uint64_t addr;     /* of the last probe, or where the function starts */
    bool is_placed;    /* addr is known */
    bool has_absolute; /* old encoding: addresses run on from function to function */
    open_node path[DEPTH_MAX];
    size_t depth;
} walk;

/* Goes to where the code of a symbol starts. */
static void go_to_start(walk *w, uint64_t guid)
{
    size_t low = 0, high = w->start_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->starts[mid].guid < guid)
            low = mid + 1;
        else
            high = mid;
    }
    w->is_placed = low < w->start_count && w->starts[low].guid == guid;
    if (!w->is_placed)
        return;
    size_t use = low + w->starts_used[low];
    w->addr = w->starts[use].addr;
    if (use + 1 < w->start_count && w->starts[use + 1].guid == guid)
        w->starts_used[low]++;
}

static void read_address(walk *w, bool is_delta, bool is_sentinel)
{
    if (is_delta) {
        w->addr += read_sleb(&w->r);
        return;
    }
    uint64_t value = reader_u64(&w->r);
    if (w->r.code != SPGO_OK || !w->nodes)
        return;
    if (is_sentinel) {
        go_to_start(w, value);
        return;
    }
    w->addr = value;
    w->is_placed = true;
    w->has_absolute = true;
}

static void read_probe(walk *w, uint32_t node)
{
    reader *r = &w->r;
    pseudoprobe p = {.node = node, .index = read_uleb32(r)};
    uint8_t flags = reader_u8(r);
    p.kind = flags & 0xf;
    p.attributes = flags >> 4 & 7;
    bool is_sentinel = p.attributes & PSEUDOPROBE_SENTINEL;
    read_address(w, flags & ADDRESS_IS_DELTA, is_sentinel);
    if (p.attributes & PSEUDOPROBE_HAS_DISCRIMINATOR)
        p.discriminator = read_uleb32(r);
    if (r->code != SPGO_OK || is_sentinel)
        return;
    if (w->nodes && !w->is_placed) {
        w->unplaced_count++;
        return;
    }
    p.addr = w->addr;
    if (w->nodes)
        w->probes[w->probe_count] = p;
    w->probe_count++;
}

static uint32_t add_node(walk *w, uint64_t guid, uint32_t call_probe)
{
    if (w->nodes) {
        const pseudoprobe_function *f = pseudoprobe_find_function(w->all, guid);
        w->nodes[w->node_count] = (pseudoprobe_node){
            .guid = guid,
            .caller = w->depth > 0 ? w->path[w->depth - 1].node : PSEUDOPROBE_NONE,
            .call_probe = call_probe,
            .function = f ? (uint32_t)(f - w->all->functions) : PSEUDOPROBE_NONE,
        };
    }
    return (uint32_t)w->node_count++;
}

/* A function with its probes; those inlined into it follow and are read one after another. */
static void read_node(walk *w)
{
    reader *r = &w->r;
    uint64_t start = reader_offset(r);
    uint32_t call_probe = w->depth > 0 ? read_uleb32(r) : 0;
    uint64_t guid = reader_u64(r);
    size_t probe_count = reader_count(r, read_uleb32(r), PROBE_SIZE_MIN);
    uint32_t child_count = read_uleb32(r);
    if (w->depth == DEPTH_MAX || w->node_count >= PSEUDOPROBE_NONE)
        reader_fail(r, SPGO_CORRUPT, start);
    if (r->code != SPGO_OK)
        return;
    if (w->depth == 0 && !w->has_absolute && w->nodes)
        go_to_start(w, guid);
    uint32_t node = add_node(w, guid, call_probe);
    for (size_t i = 0; i < probe_count && r->code == SPGO_OK; i++)
        read_probe(w, node);
    child_count = (uint32_t)reader_count(r, child_count, NODE_SIZE_MIN + 1);
    w->path[w->depth++] = (open_node){node, child_count};
}

static void read_trees(walk *w)
{
    reader *r = &w->r;
    while (r->code == SPGO_OK && (w->depth > 0 || reader_left(r) > 0)) {
        if (w->depth > 0 && w->path[w->depth - 1].children_left == 0) {
            w->depth--;
            continue;
        }
        if (w->depth > 0)
            w->path[w->depth - 1].children_left--;
        read_node(w);
    }
}

/* ------------------------------------------------------------------ order */

/* Merges [0, middle) and [middle, count), equal addresses from the left one first. */
static void merge(pseudoprobe *p, size_t middle, size_t count, pseudoprobe *scratch)
{
    memcpy(scratch, p, middle * sizeof *p);
    size_t left = 0, right = middle, to = 0;
    while (left < middle && right < count)
        p[to++] = p[right].addr < scratch[left].addr ? p[right++] : scratch[left++];
    memcpy(p + to, scratch + left, (middle - left) * sizeof *p);
}

/* A stable sort: the standard one promises no order of equal elements. */
static void sort_probes(pseudoprobe *p, size_t count, pseudoprobe *scratch)
{
    if (count < 2)
        return;
    size_t middle = count / 2;
    sort_probes(p, middle, scratch);
    sort_probes(p + middle, count - middle, scratch);
    if (p[middle].addr < p[middle - 1].addr)
        merge(p, middle, count, scratch);
}

/* ------------------------------------------------------------------ the whole */

static spgo_code keep_trees(walk *w, arena *mem, pseudoprobes *p, spgo_error *err)
{
    pseudoprobe *scratch = calloc(w->probe_count / 2 + 1, sizeof *scratch);
    w->starts_used = calloc(w->start_count + 1, sizeof *w->starts_used);
    w->nodes = arena_push(mem, w->node_count, sizeof *w->nodes);
    w->probes = arena_push(mem, w->probe_count, sizeof *w->probes);
    spgo_code code = SPGO_OK;
    if (scratch && w->starts_used && w->nodes && w->probes) {
        w->node_count = w->probe_count = w->depth = 0;
        read_trees(w);
        sort_probes(w->probes, w->probe_count, scratch);
        p->nodes = w->nodes;
        p->node_count = w->node_count;
        p->probes = w->probes;
        p->probe_count = w->probe_count;
        p->unplaced_count = w->unplaced_count;
    } else {
        code = spgo_fail_nomem(err, "pseudoprobe", w->probe_count * sizeof *w->probes);
    }
    free(scratch);
    free(w->starts_used);
    return code;
}

spgo_code pseudoprobe_read(spgo_span probe, spgo_span desc, const pseudoprobe_start *starts,
                           size_t start_count, arena *mem, pseudoprobes *out, diag *d,
                           spgo_error *err)
{
    *out = (pseudoprobes){0};
    SPGO_TRY(read_functions(desc, mem, out, d, err));
    walk *w = calloc(1, sizeof *w);
    if (!w)
        return spgo_fail_nomem(err, "pseudoprobe", sizeof *w);
    w->all = out;
    w->starts = starts;
    w->start_count = start_count;
    w->r = reader_from(probe, 0);
    read_trees(w);
    w->r = reader_from(probe, 0);
    spgo_code code = keep_trees(w, mem, out, err);
    report(&w->r, ".pseudo_probe", out->probe_count, "probes", d);
    free(w);
    return code;
}
