/*
 * Counting arcs, against a bare loop: the same records of the same file added into a table that
 * has its final size from the start, without growth, prefetching, checks of the file's structure
 * or of overflow. Both read memory that is resident and
 * start from an empty table; processor time counts.
 *
 *     counts_bench rounds file.spt       the records of a file, bare table of 2^16 slots
 *     counts_bench rounds DISTINCT       32 million arcs made up of so many distinct ones, drawn
 *                                        evenly, in records of 32; a bare table at most half full
 */
#include "bench.h"

#include <base/bytes.h>
#include <base/counts.h>

#include <string.h>

enum { FILE_SLOTS = 1 << 16, MADE_RECORDS = 1000000, MADE_ENTRIES = 32 };

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Arc number n of an image of 64 MB, as a file has it: target, source. */
static void make_arc(uint32_t *entry, uint64_t n)
{
    uint64_t bits = next_random(&n);
    entry[0] = 0x1000 + (uint32_t)(bits & 0x3FFFFFF);
    entry[1] = 0x1000 + (uint32_t)(bits >> 32 & 0x3FFFFFF);
}

static void make_file(bytes *file, uint64_t distinct_count)
{
    spgo_spt_writer *w;
    spgo_error err;
    static const spgo_image_id id;
    uint16_t program;
    uint64_t random = 1;
    if (spgo_spt_writer_new(bytes_sink(file), NULL, &w, &err) != SPGO_OK ||
        spgo_spt_writer_program(w, &id, (spgo_str){"made", 4}, &program, &err) != SPGO_OK)
        bench_die("writer", &err);
    for (uint32_t i = 0; i < MADE_RECORDS; i++) {
        uint32_t entries[2 * MADE_ENTRIES];
        for (unsigned k = 0; k < MADE_ENTRIES; k++)
            make_arc(entries + 2 * k, next_random(&random) % distinct_count);
        if (spgo_spt_writer_add(w, program, SPGO_SPT_LBR, entries, MADE_ENTRIES, 1, &err) !=
            SPGO_OK)
            bench_die("writer", &err);
    }
    if (spgo_spt_writer_finish(w, &err) != SPGO_OK)
        bench_die("writer", &err);
}

/* What a loop costs that knows the file: LBR and REPEAT records in segments, nothing else. */
static uint64_t add_bare(counts_slot *slots, size_t slot_count, const uint8_t *p,
                         const uint8_t *end)
{
    unsigned shift = (unsigned)__builtin_clzll((unsigned long long)slot_count) + 1;
    uint64_t arcs = 0, weight = 1;
    while (p < end) {
        if (*p == SPGO_SPT_BINARY_ID) {
            p += 8;
            continue;
        }
        if (*p == SPGO_SPT_REPEAT) {
            weight = load_u64(p + 2) + 1;
            p += 10;
            continue;
        }
        size_t n = p[1];
        size_t width = *p == SPGO_SPT_LBR ? 8 : 4;
        if (width == 8) {
            for (size_t i = 0; i < n; i++) {
                uint64_t key = load_u64(p + 2 + 8 * i);
                size_t at = counts_index(key, 0x9E3779B97F4A7C15u, shift);
                while (slots[at].key != key && slots[at].key != 0)
                    at = (at + 1) & (slot_count - 1);
                slots[at].key = key;
                slots[at].count += weight;
            }
            arcs += n;
        }
        p += 2 + width * n;
        weight = 1;
    }
    return arcs;
}

static uint64_t checksum(const counts_slot *slots, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += slots[i].count * slots[i].key;
    return sum;
}

static double run_bare(const spgo_spt *spt, size_t slot_count, uint64_t *check)
{
    spgo_spt_cursor c = spgo_spt_records(spt);
    uint64_t start = bench_cpu_ns();
    counts_slot *slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        bench_die("out of memory", NULL);
    uint64_t arcs = add_bare(slots, slot_count, c.base + c.pos, c.base + c.size);
    uint64_t time_ns = bench_cpu_ns() - start;
    *check = checksum(slots, slot_count);
    free(slots);
    return bench_rate(arcs, time_ns, 1000);
}

static double run_counts(const spgo_spt *spt, uint64_t *check, size_t *distinct_count)
{
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    spgo_code code;
    counts table = {0};
    uint64_t keys[SPGO_SPT_ENTRIES_MAX];
    uint64_t arcs = 0;
    uint64_t start = bench_cpu_ns();
    while (spgo_spt_next_entries(&c, &r, &code)) {
        if (r.opcode != SPGO_SPT_LBR)
            continue;
        for (size_t i = 0; i < r.entry_count; i++)
            keys[i] = load_u64(r.entries + 8 * i);
        counts_add(&table, keys, r.entry_count, r.hits);
        arcs += r.entry_count;
    }
    uint64_t time_ns = bench_cpu_ns() - start;
    *check = checksum(table.slots, table.slot_count);
    *distinct_count = table.used;
    counts_free(&table);
    return bench_rate(arcs, time_ns, 1000);
}

static void run_rounds(spgo_span file, unsigned rounds, size_t slot_count, const char *what)
{
    char name[96];
    spgo_spt *spt = bench_open_spt(file);
    for (unsigned i = 0; i <= rounds; i++) {
        uint64_t bare_check, check;
        size_t distinct_count;
        double bare = run_bare(spt, slot_count, &bare_check);
        double ours = run_counts(spt, &check, &distinct_count);
        if (bare_check != check)
            bench_die("the two tables differ", NULL);
        snprintf(name, sizeof name, "%s, %zu distinct arcs", what, distinct_count);
        if (i) /* the first touches the pages */
            bench_row(name, "M arcs/s", bare, ours);
    }
    spgo_spt_close(spt);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        bench_die("usage: counts_bench rounds file.spt|DISTINCT", NULL);
    unsigned rounds = bench_number(argv[1]);
    if (argv[2][strspn(argv[2], "0123456789")]) {
        os_input *in = bench_map(argv[2]);
        run_rounds(os_input_bytes(in), rounds, FILE_SLOTS, "records of the file");
        os_input_close(in);
        return 0;
    }
    uint64_t distinct_count = strtoull(argv[2], NULL, 10);
    size_t slot_count = 16;
    while (slot_count < 2 * distinct_count)
        slot_count *= 2;
    bytes file = {0};
    make_file(&file, distinct_count ? distinct_count : 1);
    run_rounds((spgo_span){file.ptr, file.len}, rounds, slot_count, "made records");
    bytes_free(&file);
    return 0;
}
