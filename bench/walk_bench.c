/*
 * How fast an SPT file is read inside one process, against a loop that only sums the bytes of the
 * same file. Both map it anew in every round.
 *
 *     walk_bench rounds file.spt         the library's walk and the summary, in rounds
 *     walk_bench sum file.spt            only the reference, once: to be timed from outside
 *
 * The walk reads each entry; the summary also counts the hits of every distinct arc. One thread is
 * measured in processor time, several in wall time.
 */
#include "bench.h"

#include <spt_summary.h>

#include <string.h>

static volatile uint64_t sink;

static uint64_t time_sum(const char *path, uint64_t (*clock_ns)(void))
{
    uint64_t start = clock_ns();
    os_input *in = bench_map(path);
    sink = bench_sum(os_input_bytes(in));
    os_input_close(in);
    return clock_ns() - start;
}

static uint64_t time_walk(const char *path)
{
    uint64_t start = bench_cpu_ns();
    os_input *in = bench_map(path);
    spgo_spt *spt = bench_open_spt(os_input_bytes(in));
    spgo_spt_cursor c = spgo_spt_records(spt);
    spgo_spt_record r;
    spgo_code code;
    uint64_t sum = 0;
    while (spgo_spt_next_entries(&c, &r, &code)) {
        size_t size = (size_t)r.entry_count * (r.opcode == SPGO_SPT_LBR ? 8 : 4);
        sum += bench_sum((spgo_span){r.entries, size});
    }
    if (code != SPGO_NOT_FOUND)
        bench_die("the SPT file is damaged", NULL);
    sink = sum;
    spgo_spt_close(spt);
    os_input_close(in);
    return bench_cpu_ns() - start;
}

static uint64_t time_summary(const char *path, unsigned threads, uint64_t (*clock_ns)(void))
{
    spt_summary summary;
    spgo_error err;
    uint64_t start = clock_ns();
    os_input *in = bench_map(path);
    spgo_spt *spt = bench_open_spt(os_input_bytes(in));
    if (spt_summarize(spt, in, NULL, false, threads, &summary, &err) != SPGO_OK)
        bench_die("summary", &err);
    spt_summary_free(&summary);
    spgo_spt_close(spt);
    os_input_close(in);
    return clock_ns() - start;
}

static void run_rounds(const char *path, unsigned rounds, uint64_t size)
{
    unsigned cpus = os_cpu_count();
    for (unsigned i = 0; i < rounds; i++) {
        double bare = bench_rate(size, time_sum(path, bench_cpu_ns), 1);
        bench_row("library walk", "GB/s", bare, bench_rate(size, time_walk(path), 1));
        bare = bench_rate(size, time_sum(path, bench_cpu_ns), 1);
        bench_row("summary call, 1 thread", "GB/s", bare,
                  bench_rate(size, time_summary(path, 1, bench_cpu_ns), 1));
        bare = bench_rate(size, time_sum(path, os_clock_ns), 1);
        bench_row("summary call, all threads", "GB/s", bare,
                  bench_rate(size, time_summary(path, cpus, os_clock_ns), 1));
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        bench_die("usage: walk_bench rounds|sum file.spt", NULL);
    if (strcmp(argv[1], "sum") == 0) {
        (void)time_sum(argv[2], os_clock_ns);
        return 0;
    }
    os_input *in = bench_map(argv[2]);
    uint64_t size = os_input_bytes(in).len;
    sink = bench_sum(os_input_bytes(in)); /* into the page cache */
    os_input_close(in);
    run_rounds(argv[2], bench_number(argv[1]), size);
    return 0;
}
