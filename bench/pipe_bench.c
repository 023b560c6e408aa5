/*
 * How fast a command writes to a pipe whose reader throws everything away, against memcpy of the
 * same machine at the same time.
 *
 *     pipe_bench rounds command argument...
 */
#include "bench.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COPY_BYTES = 64 << 20, /* larger than the caches */
    COPIES = 8
};

extern char **environ;

static double run_memcpy(uint8_t *to, const uint8_t *from)
{
    uint64_t start = os_clock_ns();
    for (int i = 0; i < COPIES; i++) {
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" : : "r"(to) : "memory"); /* as if somebody looked at the copy */
    }
    return bench_rate((uint64_t)COPIES * COPY_BYTES, os_clock_ns() - start, 1);
}

static pid_t start_command(char **argv, int output, int other_end)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, output);
    posix_spawn_file_actions_addclose(&actions, other_end);
    if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
        bench_die(argv[0], NULL);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static double run_command(char **argv, uint8_t *buffer)
{
    int ends[2], status;
    uint64_t start = os_clock_ns(), total = 0;
    if (pipe(ends) != 0)
        bench_die("pipe", NULL);
    pid_t pid = start_command(argv, ends[1], ends[0]);
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], buffer, 1 << 16)) > 0;)
        total += (uint64_t)n;
    close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_die(argv[0], NULL);
    return bench_rate(total, os_clock_ns() - start, 1);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        bench_die("usage: pipe_bench rounds command argument...", NULL);
    unsigned rounds = bench_number(argv[1]);
    uint8_t *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    if (!from || !to)
        bench_die("out of memory", NULL);
    memset(from, 1, COPY_BYTES);
    memset(to, 2, COPY_BYTES);
    for (unsigned i = 0; i < rounds; i++) {
        double bare = run_memcpy(to, from);
        bench_row("text into a pipe", "GB/s", bare, run_command(argv + 2, to));
    }
    free(from);
    free(to);
    return 0;
}
