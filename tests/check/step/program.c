/*
 * What recording must not change, in small parts: program PART [N]. Each says what it found and is
 * run with and without the library; both must say the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SCALE
#define SCALE 1
#endif

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static volatile uint64_t sink;

static uint64_t work(uint64_t n)
{
    uint64_t x = n | 1;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        if (x & 1)
            sink += x;
    }
    return x;
}

static void *busy(void *arg)
{
    work((uint64_t)(uintptr_t)arg);
    return NULL;
}

/* Does anything of the flag show in pushf, in r11 behind a system call, behind popf? */
static int part_flags(void)
{
    unsigned long seen = 0;
    double end = cpu_s() + 2 * SCALE;
    while (cpu_s() < end) {
        for (int i = 0; i < 200; i++) {
            unsigned long f, g, h, r11, result;
            uint16_t w;
            __asm__ volatile("pushfq\n pop %0" : "=r"(f));
            __asm__ volatile("pushfw\n popw %0" : "=r"(w));
            __asm__ volatile("pushfq\n popfq\n pushfq\n pop %0" : "=r"(g)::"cc");
            __asm__ volatile("syscall\n mov %%r11, %1"
                             : "=a"(result), "=r"(r11)
                             : "a"(SYS_getppid)
                             : "rcx", "r11", "memory");
            __asm__ volatile("syscall\n nop\n mov %%r11, %1"
                             : "=a"(result), "=r"(h)
                             : "a"(SYS_getppid)
                             : "rcx", "r11", "memory");
            (void)r11; /* read by the very next instruction: the one place where it shows */
            seen += (f & 0x100) != 0;
            seen += (w & 0x100) != 0;
            seen += (g & 0x100) != 0;
            seen += (h & 0x100) != 0;
        }
    }
    printf("flags seen %lu\n", seen);
    return seen != 0;
}

static int part_rep(void)
{
    static uint8_t a[5000], b[5000];
    unsigned long wrong = 0;
    double end = cpu_s() + 1 * SCALE;
    for (unsigned n = 1; cpu_s() < end; n = n * 7 % 4999 + 1) {
        for (unsigned i = 0; i < n; i++)
            a[i] = (uint8_t)(i * n);
        void *to = b, *from = a;
        size_t count = n;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
        wrong += memcmp(a, b, n) != 0 || count != 0;
        to = b, count = n;
        __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(a[n - 1]) : "cc", "memory");
        wrong += (uint8_t *)to > b + n;
    }
    printf("wrong %lu\n", wrong);
    return wrong != 0;
}

/* Branches to the next instruction, loops, jrcxz: judged by the checker of the records. */
static int part_branches(void)
{
    double end = cpu_s() + 1 * SCALE;
    unsigned long n = 0;
    while (cpu_s() < end) {
        for (int i = 0; i < 1000; i++) {
            unsigned long c = 3;
            __asm__ volatile("jmp 1f\n 1: test $1, %0\n jz 2f\n 2: jnz 3f\n 3:"
                             "  xor %%ecx, %%ecx\n jrcxz 4f\n 4: mov $4, %%ecx\n 5: loop 5b\n"
                             "  call 6f\n 6: pop %%rcx\n add $7f-6b, %%rcx\n jmp *%%rcx\n 7:"
                             "  mov $1, %%ecx\n loop 8f\n 8: nop"
                             : "+r"(n)
                             : "r"(c)
                             : "rcx", "cc", "memory");
            n++;
        }
    }
    return 0;
}

static volatile sig_atomic_t alarms, traps, faults;
static sigjmp_buf back;

static void on_alarm(int sig)
{
    (void)sig;
    alarms++;
    work(200);
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    (void)sig;
    (void)info;
    traps += (c->uc_mcontext.gregs[REG_EFL] & 0x100) == 0;
}

static void jump_back(int sig)
{
    (void)sig;
    faults++;
    siglongjmp(back, 1);
}

/* The program's own handlers: alarms that come all the time, int3, raise, jumps out of handlers. */
static int part_signals(void)
{
    struct sigaction a = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
    sigaction(SIGALRM, &a, NULL);
    a = (struct sigaction){.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &a, NULL);
    sigaction(SIGTRAP, NULL, &old);
    printf("own handler back %d\n",
           old.sa_sigaction == on_trap && (old.sa_flags & SA_SIGINFO) != 0);
    a = (struct sigaction){.sa_handler = jump_back};
    sigaction(SIGSEGV, &a, NULL);
    struct itimerval t = {{0, 1700}, {0, 1700}};
    setitimer(ITIMER_REAL, &t, NULL);
    int rounds = 0;
    double end = cpu_s() + 2 * SCALE;
    while (cpu_s() < end || rounds < 1000) {
        work(3000);
        __asm__ volatile("int3");
        raise(SIGTRAP);
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)(uintptr_t)(rounds % 3 * 8) = 1;
        if (sigsetjmp(back, 1) == 0)
            ((void (*)(void))(uintptr_t)16)();
        rounds++;
    }
    t = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &t, NULL);
    printf("traps %d faults %d alarms %d\n", traps == 2 * rounds, faults == 2 * rounds,
           alarms > 100);
    return 0;
}

/* Blocked signals stay pending; an alarm interrupts what it natively interrupts and nothing else
 * does. */
static int part_interrupted(void)
{
    pthread_t other;
    int fds[2], interrupted = 0, early = 0;
    char byte;
    if (pipe(fds) != 0)
        return 1;
    pthread_create(&other, NULL, busy, (void *)(uintptr_t)(50000000 * SCALE));
    struct sigaction a = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &a, NULL);
    double end = wall_s() + 2 * SCALE;
    while (wall_s() < end) {
        struct pollfd p = {.fd = fds[0], .events = POLLIN};
        struct timespec ms = {0, 1000000}, left = {0, 0};
        work(100000);
        double start = wall_s();
        interrupted += poll(&p, 1, 2) < 0;
        interrupted += nanosleep(&ms, &left) != 0;
        interrupted += clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, &left) != 0;
        interrupted += select(0, NULL, NULL, NULL, &(struct timeval){0, 1000}) < 0;
        early += wall_s() - start < 0.0045;
    }
    struct itimerval t = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &t, NULL);
    ssize_t got = read(fds[0], &byte, 1);
    printf("interrupted %d early %d, by the alarm %d\n", interrupted, early,
           got < 0 && errno == EINTR);
    sigset_t all, before, pending;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    work(20000000 * SCALE);
    raise(SIGUSR1);
    sigpending(&pending);
    printf("pending %d\n", sigismember(&pending, SIGUSR1));
    signal(SIGUSR1, SIG_IGN);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    printf("blocked %d %d\n", sigismember(&now, SIGTRAP), sigismember(&now, SIGINT));
    sigprocmask(SIG_SETMASK, &before, NULL);
    pthread_join(other, NULL);
    return 0;
}

/* A program that steps itself: its traps are its own. */
static volatile long own_steps;

static void on_own_step(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    (void)context;
    own_steps++;
}

static int part_own_steps(void)
{
    struct sigaction a = {.sa_sigaction = on_own_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &a, NULL);
    long rounds = 0;
    double end = cpu_s() + 2 * SCALE;
    while (cpu_s() < end) {
        __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq\n nop\n nop\n nop\n"
                         "pushfq\n andq $~0x100, (%%rsp)\n popfq\n" ::
                             : "cc", "memory");
        rounds++;
    }
    printf("own steps %d\n", own_steps >= 5 * rounds && own_steps <= 7 * rounds);
    return 0;
}

static void *short_thread(void *arg)
{
    return (void *)(uintptr_t)(work((uint64_t)(uintptr_t)arg % 200000 + 1) != 0);
}

static void *exiting_thread(void *arg)
{
    work((uint64_t)(uintptr_t)arg % 50000 + 1);
    pthread_exit((void *)1);
}

static int c11_thread(void *arg)
{
    work((uint64_t)(uintptr_t)arg % 50000 + 1);
    return 1;
}

static int part_threads(void)
{
    unsigned long ended = 0;
    for (int round = 0; round < 100; round++) {
        pthread_t threads[9];
        thrd_t last;
        for (int i = 0; i < 9; i++)
            pthread_create(&threads[i], NULL, i % 3 ? short_thread : exiting_thread,
                           (void *)(uintptr_t)(round * 7919 + i * 104729));
        thrd_create(&last, c11_thread, (void *)(uintptr_t)round);
        for (int i = 0; i < 9; i++) {
            void *result = NULL;
            pthread_join(threads[i], &result);
            ended += (uintptr_t)result;
        }
        int result;
        thrd_join(last, &result);
        ended += (unsigned)result;
    }
    printf("ended %lu\n", ended);
    return 0;
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int grow_tree(int depth)
{
    int sum = 1;
    work(1500000 * SCALE);
    for (int i = 0; depth > 0 && i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(grow_tree(depth - 1));
        sum += wait_for(pid);
    }
    return sum;
}

extern char **environ;

/* fork, vfork, posix_spawn, system, popen, exec with and without an environment. */
static int part_processes(const char *self)
{
    printf("tree %d\n", grow_tree(4));
    fflush(stdout);
    char *none[] = {NULL};
    char *argv[] = {(char *)(uintptr_t)self, "work", "20000000", NULL};
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execve(self, argv, i % 2 ? environ : none);
            _exit(99);
        }
        sum += wait_for(pid);
        work(300000);
    }
    printf("vfork %d\n", sum);
    pid_t pid;
    printf("spawn %d\n", posix_spawn(&pid, self, NULL, NULL, argv, none) || wait_for(pid) ||
                             posix_spawnp(&pid, self, NULL, NULL, argv, environ) || wait_for(pid));
    fflush(stdout);
    printf("system %d\n", system("exit 3") >> 8);
    FILE *f = popen("echo popen", "r");
    char line[64] = "";
    if (f && fgets(line, sizeof line, f))
        printf("%s", line);
    if (f)
        pclose(f);
    fflush(stdout);
    if (fork() == 0) {
        execl("/does/not/exist", "x", (char *)NULL);
        work(20000000);
        execle(self, self, "work", "20000000", (char *)NULL, none);
        _exit(98);
    }
    int status;
    wait(&status);
    printf("execle %d\n", WEXITSTATUS(status));
    return 0;
}

static jmp_buf place;

__attribute__((noinline)) static void deep(int n)
{
    if (n == 0)
        longjmp(place, 1);
    deep(n - 1);
    sink++;
}

static int part_jumps(void)
{
    unsigned long jumps = 0;
    double end = cpu_s() + 1 * SCALE;
    while (cpu_s() < end) {
        if (setjmp(place) == 0)
            deep(20);
        jumps++;
    }
    printf("jumped %d\n", jumps > 0);
    return 0;
}

static int part_syscalls(void)
{
    pid_t parent = getppid();
    unsigned long wrong = 0;
    double end = cpu_s() + 1 * SCALE;
    while (cpu_s() < end) {
        for (int i = 0; i < 100; i++) {
            wrong += syscall(SYS_getppid) != parent;
            wrong += syscall(SYS_close, -1) != -1 || errno != EBADF;
        }
        sigset_t set, old;
        sigfillset(&set);
        sigprocmask(SIG_BLOCK, &set, &old);
        wrong += syscall(SYS_getppid) != parent;
        sigprocmask(SIG_SETMASK, &old, NULL);
        uint64_t raw = UINT64_MAX, raw_old;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &raw, &raw_old, 8);
        wrong += syscall(SYS_getppid) != parent;
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &raw_old, NULL, 8);
    }
    printf("wrong %lu\n", wrong);
    return wrong != 0;
}

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
    for (;;) {
        work(100);
        swapcontext(&coroutine_context, &main_context);
    }
}

static int part_coroutines(void)
{
    static char stack[65536];
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = stack;
    coroutine_context.uc_stack.ss_size = sizeof stack;
    makecontext(&coroutine_context, coroutine, 0);
    double end = cpu_s() + 1 * SCALE;
    unsigned long switches = 0;
    while (cpu_s() < end) {
        swapcontext(&main_context, &coroutine_context);
        switches++;
    }
    printf("switched %d\n", switches > 100);
    return 0;
}

/* Behind a filter that kills whoever opens, maps or times anything, in children too. */
static int part_sandbox(void)
{
    work(10000000);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_settime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("sealed %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    fflush(stdout);
    work(30000000);
    pid_t pid = fork();
    if (pid == 0) {
        work(30000000);
        _exit(5);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    return 0;
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    if (strcmp(part, "work") == 0)
        return work(strtoull(argv[2], NULL, 10)) == 0;
    if (strcmp(part, "processes") == 0)
        return part_processes(argv[0]);
    static const struct {
        const char *name;
        int (*run)(void);
    } parts[] = {
        {"flags", part_flags},
        {"rep", part_rep},
        {"branches", part_branches},
        {"signals", part_signals},
        {"interrupted", part_interrupted},
        {"own-steps", part_own_steps},
        {"threads", part_threads},
        {"jumps", part_jumps},
        {"syscalls", part_syscalls},
        {"coroutines", part_coroutines},
        {"sandbox", part_sandbox},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(part, parts[i].name) == 0)
            return parts[i].run();
    }
    return 2;
}
