/*
 * Stepping by the runtime, against a bare loop: the trap flag with a handler that only counts. Both
 * step the same code, turn by turn.
 *
 *     step_bench rounds libspgo_step.so   in rounds, in rows
 *     step_bench work seconds             the code, as the program that is recorded
 *     step_bench fixed                    the same for a fixed amount of work
 */
#include "bench.h"

#include <format/step/step.h>

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { FLAG_TRAP = 0x100, TABLE = 4096, SORTED = 2000, FIXED_ROUNDS = 8000 };

static volatile uint64_t steps, step_limit, sink;

/* ------------------------------------------------------------------ the code that is stepped */

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorting and looking up: about eight instructions a taken branch, as programs have. */
static void work_once(void)
{
    static uint32_t values[SORTED], table[TABLE];
    static uint32_t seed = 1;
    for (unsigned i = 0; i < SORTED; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = seed >> 8;
        table[values[i] % TABLE]++;
    }
    qsort(values, SORTED, sizeof *values, by_value);
    for (unsigned i = 0; i < TABLE; i++) {
        if (table[i] & 1)
            sink += values[i % SORTED];
    }
}

static int work_for(double seconds)
{
    uint64_t end = bench_cpu_ns() + (uint64_t)(seconds * 1e9);
    while (bench_cpu_ns() < end)
        work_once();
    return 0;
}

static int work_fixed(void)
{
    for (unsigned i = 0; i < FIXED_ROUNDS; i++)
        work_once();
    return 0;
}

/* ------------------------------------------------------------------ the bare loop */

static void count_step(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    if (++steps >= step_limit) {
        ucontext_t *c = context;
        c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)FLAG_TRAP;
    }
}

/* Steps a CPU second. */
static double time_bare(void)
{
    struct sigaction action = {.sa_sigaction = count_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    steps = 0;
    step_limit = 40000;
    uint64_t start = bench_cpu_ns();
    __asm__ volatile("sub $128, %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n add $128, %%rsp" ::
                         : "cc", "memory");
    while (steps < step_limit)
        work_once();
    return (double)steps / ((double)(bench_cpu_ns() - start) / 1e9);
}

/* ------------------------------------------------------------------ the runtime */

/* What the recorded program cost and what it left. */
typedef struct recorded {
    double cpu_s;
    step_header header;
} recorded;

static void read_header(const char *path, step_header *header)
{
    spgo_error err;
    step_document doc;
    os_input *in = bench_map(path);
    if (step_open(os_input_bytes(in), &doc, NULL, &err) != SPGO_OK)
        bench_die(path, &err);
    *header = doc.header;
    os_input_close(in);
}

/* Reads the one file in the folder and takes both away. */
static void take_recording(const char *folder, step_header *header)
{
    DIR *dir = opendir(folder);
    for (struct dirent *d = dir ? readdir(dir) : NULL; d; d = readdir(dir)) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (!strstr(d->d_name, STEP_FILE_SUFFIX))
            continue;
        read_header(path, header);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

/* Runs this program with the library, or without (NULL). */
static recorded run(const char *library, const char *options, const char *mode, const char *arg)
{
    char folder[] = "/tmp/step_bench.XXXXXX";
    recorded result = {0};
    struct rusage usage;
    int status;
    if (library && !mkdtemp(folder))
        bench_die("no folder for recordings", NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (library) {
            setenv("LD_PRELOAD", library, 1);
            setenv(STEP_ENV_DIR, folder, 1);
            setenv(STEP_ENV_OPTIONS, options, 1);
        }
        execl("/proc/self/exe", "step_bench", mode, arg, (char *)NULL);
        _exit(127);
    }
    if (wait4(pid, &status, 0, &usage) != pid || status != 0)
        bench_die("the recorded program failed", NULL);
    result.cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    if (library)
        take_recording(folder, &result.header);
    return result;
}

static void run_round(const char *library)
{
    const double records_wanted = 400, overhead_wanted = 0.05;
    double bare = time_bare();
    recorded r = run(library, "interval=1", "work", "0.6");
    const step_header *h = &r.header;
    double step_s = (double)h->step_cpu_ns / 1e9;
    bench_row("instructions a CPU second", "steps/s", bare, (double)h->step_count / step_s);
    bench_row("records a CPU second of stepping", "records/s", records_wanted,
              (double)(h->record_count - h->short_count) / step_s);
    double native = run(NULL, NULL, "fixed", NULL).cpu_s;
    r = run(library, "overhead=50000", "fixed", NULL);
    bench_row("speed at 5 % overhead, against native", "runs/s", 1 / native, 1 / r.cpu_s);
    step_s = (double)h->step_cpu_ns / 1e9;
    bench_row("overhead said, against 5 %", "share", overhead_wanted,
              step_s / ((double)h->process_cpu_ns / 1e9 - step_s));
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "work") == 0)
        return work_for(strtod(argv[2], NULL));
    if (argc == 2 && strcmp(argv[1], "fixed") == 0)
        return work_fixed();
    if (argc != 3)
        bench_die("usage: step_bench rounds libspgo_step.so", NULL);
    unsigned rounds = bench_number(argv[1]);
    for (unsigned i = 0; i < rounds; i++)
        run_round(argv[2]);
    return 0;
}
