/*
 * Pseudo probes: the first two bytes of the input are the size of .pseudo_probe_desc, which
 * follows; the rest is .pseudo_probe. The functions that are described, and a few more, have a
 * start.
 */
#include "fuzz.h"

#include <base/reader.h>
#include <format/pseudoprobe/pseudoprobe.h>

enum { STARTS_MAX = 64 };

static int by_guid(const void *a, const void *b)
{
    const pseudoprobe_start *x = a, *y = b;
    if (x->guid != y->guid)
        return x->guid < y->guid ? -1 : 1;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void check(const pseudoprobes *p, size_t probe_size)
{
    FUZZ_CHECK(p->probe_count + p->unplaced_count <= probe_size);
    FUZZ_CHECK(p->node_count <= probe_size);
    for (size_t i = 0; i < p->function_count; i++) {
        fuzz_read((spgo_span){(const uint8_t *)p->functions[i].name.ptr, p->functions[i].name.len});
        FUZZ_CHECK(i == 0 || p->functions[i - 1].guid < p->functions[i].guid);
        FUZZ_CHECK(pseudoprobe_find_function(p, p->functions[i].guid) == &p->functions[i]);
    }
    for (size_t i = 0; i < p->node_count; i++) {
        const pseudoprobe_node *n = &p->nodes[i];
        FUZZ_CHECK(n->caller == PSEUDOPROBE_NONE || n->caller < i);
        FUZZ_CHECK(n->function == PSEUDOPROBE_NONE ||
                   (n->function < p->function_count && p->functions[n->function].guid == n->guid));
    }
    for (size_t i = 0; i < p->probe_count; i++) {
        FUZZ_CHECK(p->probes[i].node < p->node_count);
        FUZZ_CHECK(!(p->probes[i].attributes & PSEUDOPROBE_SENTINEL));
        FUZZ_CHECK(i == 0 || p->probes[i - 1].addr <= p->probes[i].addr);
    }
}

/* With no starts, what is described becomes some, so that sentinels and functions find them. */
static size_t make_starts(const pseudoprobes *p, pseudoprobe_start *starts)
{
    size_t count = 0;
    for (; count < p->function_count && count < STARTS_MAX - 2; count++)
        starts[count] = (pseudoprobe_start){p->functions[count].guid, 0x1000 * (count + 1)};
    starts[count++] = (pseudoprobe_start){0, UINT64_MAX};
    starts[count++] = (pseudoprobe_start){p->function_count ? p->functions[0].guid : 1, 5};
    qsort(starts, count, sizeof *starts, by_guid);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t desc_size = load_u16(data);
    if (desc_size > size - 2)
        desc_size = size - 2;
    spgo_span desc = {data + 2, desc_size}, probe = {data + 2 + desc_size, size - 2 - desc_size};
    arena *mem = arena_new(0);
    pseudoprobes p;
    spgo_error err = {0};
    diag findings = {0};
    FUZZ_CHECK(mem && pseudoprobe_read(probe, desc, NULL, 0, mem, &p, &findings, &err) == SPGO_OK);
    check(&p, probe.len);
    pseudoprobe_start starts[STARTS_MAX];
    size_t count = make_starts(&p, starts);
    FUZZ_CHECK(pseudoprobe_read(probe, desc, starts, count, mem, &p, &findings, &err) == SPGO_OK);
    check(&p, probe.len);
    arena_free(mem);
    return 0;
}
