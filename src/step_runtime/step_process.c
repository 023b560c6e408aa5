/*
 * From the start of a program to its end: options, children, programs started by exec. A child that
 * shares the memory of its parent (vfork, posix_spawn) is not a process of its own until it execs,
 * and must change nothing here.
 */
#include <step_runtime/step_internal.h>

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { OVERHEAD_DEFAULT_PPM = 50000, STEPS_PER_BRANCH_MAX = 64 };

static const char preload_name[] = "LD_PRELOAD";
static char preload[STEP_PATH_MAX + 16];                           /* LD_PRELOAD=<this library> */
static char folder_text[STEP_PATH_MAX + sizeof STEP_ENV_DIR];      /* as they stand in an */
static char options_text[STEP_PATH_MAX + sizeof STEP_ENV_OPTIONS]; /* environment */

/* ------------------------------------------------------------------ options */

static uint64_t clamp(uint64_t n, uint64_t low, uint64_t high)
{
    return n < low ? low : n > high ? high : n;
}

static void set_option(step_options *o, const char *name, uint64_t value)
{
    if (strncmp(name, "overhead=", 9) == 0)
        o->overhead_ppm = (uint32_t)clamp(value, 1, 1000000000);
    else if (strncmp(name, "interval=", 9) == 0)
        o->interval_ns = clamp(value, 0, INT64_MAX / 1024);
    else if (strncmp(name, "branches=", 9) == 0)
        o->branches_max = (uint32_t)clamp(value, STEP_BRANCHES_MIN, STEP_BRANCHES_MAX);
    else if (strncmp(name, "filter=", 7) == 0)
        o->filter = (uint32_t)value & STEP_FILTER_ALL;
    else if (strncmp(name, "signal=", 7) == 0)
        o->signal = (uint32_t)clamp(value, (uint64_t)SIGRTMIN, (uint64_t)SIGRTMAX);
    else if (strncmp(name, "seed=", 5) == 0)
        o->seed = value;
}

static step_options read_options(const char *text)
{
    step_options o = {
        .overhead_ppm = OVERHEAD_DEFAULT_PPM,
        .branches_max = STEP_BRANCHES_DEFAULT,
        .signal = (uint32_t)SIGRTMAX - 5,
    };
    while (text && *text) {
        const char *equals = strchr(text, '=');
        if (!equals)
            break;
        char *end;
        set_option(&o, text, strtoull(equals + 1, &end, 0));
        text = strchr(end, ',');
        text = text ? text + 1 : NULL;
    }
    return o;
}

/* "name=value" into a place of `size` bytes; false if it does not fit. */
static bool put_variable(char *to, size_t size, const char *name, const char *value)
{
    size_t name_len = strlen(name), value_len = strlen(value);
    if (name_len + value_len + 2 > size)
        return false;
    memcpy(to, name, name_len);
    to[name_len] = '=';
    memcpy(to + name_len + 1, value, value_len + 1);
    return true;
}

static bool keep_environment(void)
{
    Dl_info here;
    const char *folder = getenv(STEP_ENV_DIR), *options = getenv(STEP_ENV_OPTIONS);
    if (!folder || folder[0] != '/' || strlen(folder) >= sizeof step_this.folder ||
        dladdr((void *)(uintptr_t)step_on_trap, &here) == 0)
        return false;
    memcpy(step_this.folder, folder, strlen(folder) + 1);
    return put_variable(preload, sizeof preload, preload_name, here.dli_fname) &&
           put_variable(folder_text, sizeof folder_text, STEP_ENV_DIR, folder) &&
           put_variable(options_text, sizeof options_text, STEP_ENV_OPTIONS,
                        options ? options : "");
}

/* ------------------------------------------------------------------ begin, fork, end */

static void begin_recording(uint32_t start_kind)
{
    atomic_store(&step_this.stopped, false);
    step_images_forget();
    step_output_begin(start_kind);
    step_thread_begin();
}

static void begin_in_child(void)
{
    if (!step_this.recording || step_this.pid == step_pid())
        return;
    step_thread_after_fork();
    if (step_this.sealed)
        return;
    begin_recording(STEP_START_FORK);
}

__attribute__((constructor)) static void begin_program(void)
{
    if (!keep_environment())
        return;
    step_this.options = read_options(getenv(STEP_ENV_OPTIONS));
    step_this.steps_max = STEPS_PER_BRANCH_MAX * step_this.options.branches_max;
    if (!step_signals_begin())
        return;
    step_this.recording = true;
    begin_recording(STEP_START_PROGRAM);
    pthread_atfork(NULL, NULL, begin_in_child);
}

static bool is_recorded_process(void)
{
    return step_this.recording && step_this.pid == step_pid();
}

__attribute__((destructor)) static void end_program(void)
{
    if (is_recorded_process())
        step_output_end(STEP_END_EXIT);
}

typedef int (*int_fn)(void);
typedef int (*dlclose_fn)(void *);
typedef int (*prctl_fn)(int, ...);

STEP_EXPORT pid_t _Fork(void)
{
    static _Atomic(step_function) cache;
    pid_t pid = ((int_fn)step_next("_Fork", &cache))();
    if (pid == 0)
        begin_in_child();
    return pid;
}

STEP_EXPORT _Noreturn void _exit(int status)
{
    if (is_recorded_process())
        step_output_end(STEP_END_EXIT);
    for (;;)
        step_sys(SYS_exit_group, status, 0, 0, 0);
}

STEP_EXPORT _Noreturn void _Exit(int status)
{
    _exit(status);
}

STEP_EXPORT int dlclose(void *library)
{
    static _Atomic(step_function) cache;
    int result = ((dlclose_fn)step_next("dlclose", &cache))(library);
    step_images_outdated();
    return result;
}

/* From here on a system call that the program does not make itself may kill it. */
STEP_EXPORT int prctl(int operation, ...)
{
    static _Atomic(step_function) cache;
    va_list args;
    unsigned long values[4];
    va_start(args, operation);
    for (unsigned i = 0; i < 4; i++)
        values[i] = va_arg(args, unsigned long);
    va_end(args);
    if (operation == PR_SET_SECCOMP && is_recorded_process()) {
        if (step_me.timed)
            step_thread_pause(&step_me);
        atomic_store(&step_this.stopped, true);
        step_this.sealed = true;
    }
    return ((prctl_fn)step_next("prctl", &cache))(operation, values[0], values[1], values[2],
                                                  values[3]);
}

/* ------------------------------------------------------------------ other programs */

static bool names(const char *variable, const char *name)
{
    size_t len = strlen(name);
    return strncmp(variable, name, len) == 0 && variable[len] == '=';
}

static const char *find(char *const *environment, const char *name)
{
    for (; environment && *environment; environment++) {
        if (names(*environment, name))
            return *environment + strlen(name) + 1;
    }
    return NULL;
}

static size_t count_of(char *const *environment)
{
    size_t count = 0;
    while (environment && environment[count])
        count++;
    return count;
}

static bool is_complete(char *const *environment)
{
    const char *preloaded = find(environment, preload_name);
    const char *ours = preload + sizeof preload_name;
    return preloaded && strstr(preloaded, ours) && find(environment, STEP_ENV_DIR);
}

/* The environment with what a recorded program needs, in `to`, which has room for 4 more than it
 * has; `text` has room for its LD_PRELOAD behind ours. */
static void complete(char *const *from, char **to, char *text)
{
    const char *preloaded = find(from, preload_name);
    strcpy(text, preload);
    if (preloaded && *preloaded) {
        strcat(text, ":");
        strcat(text, preloaded);
    }
    for (; from && *from; from++) {
        if (!names(*from, preload_name) && !names(*from, STEP_ENV_DIR) &&
            !names(*from, STEP_ENV_OPTIONS))
            *to++ = *from;
    }
    *to++ = text;
    *to++ = folder_text;
    *to++ = options_text;
    *to = NULL;
}

/* The complete environment on the caller's stack: there may be no memory to be had, as between
 * vfork and exec. Only of programs that clear the environment is there something to add. */
#define COMPLETED(environment)                                                                     \
    (!step_this.recording || is_complete(environment)                                              \
         ? (char *const *)(environment)                                                            \
         : complete_on_stack((environment), alloca((count_of(environment) + 4) * sizeof(char *)),  \
                             alloca(sizeof preload + 1 + length_of_preload(environment))))

static size_t length_of_preload(char *const *environment)
{
    const char *preloaded = find(environment, preload_name);
    return preloaded ? strlen(preloaded) : 0;
}

static char *const *complete_on_stack(char *const *from, char **to, char *text)
{
    complete(from, to, text);
    return to;
}

/* The process becomes another program, and stays what it is when that fails. */
static bool leave(void)
{
    if (!is_recorded_process())
        return false;
    bool timed = step_me.timed;
    if (timed)
        step_thread_pause(&step_me);
    step_output_end(STEP_END_EXEC);
    return timed;
}

static int come_back(bool timed, int result)
{
    int saved = errno;
    if (is_recorded_process())
        step_output_resume();
    if (timed)
        step_thread_resume(&step_me);
    errno = saved;
    return result;
}

typedef int (*execve_fn)(const char *, char *const *, char *const *);
typedef int (*fexecve_fn)(int, char *const *, char *const *);
typedef int (*execveat_fn)(int, const char *, char *const *, char *const *, int);

static int run_execve(const char *path, char *const *argv, char *const *environment)
{
    static _Atomic(step_function) cache;
    execve_fn next = (execve_fn)step_next("execve", &cache);
    char *const *completed = COMPLETED(environment);
    bool timed = leave();
    return come_back(timed, next(path, argv, completed));
}

static int run_execvpe(const char *file, char *const *argv, char *const *environment)
{
    static _Atomic(step_function) cache;
    execve_fn next = (execve_fn)step_next("execvpe", &cache);
    char *const *completed = COMPLETED(environment);
    bool timed = leave();
    return come_back(timed, next(file, argv, completed));
}

STEP_EXPORT int execve(const char *path, char *const argv[], char *const environment[])
{
    return run_execve(path, argv, environment);
}

STEP_EXPORT int execv(const char *path, char *const argv[])
{
    return run_execve(path, argv, environ);
}

STEP_EXPORT int execvp(const char *file, char *const argv[])
{
    return run_execvpe(file, argv, environ);
}

STEP_EXPORT int execvpe(const char *file, char *const argv[], char *const environment[])
{
    return run_execvpe(file, argv, environment);
}

STEP_EXPORT int fexecve(int fd, char *const argv[], char *const environment[])
{
    static _Atomic(step_function) cache;
    fexecve_fn next = (fexecve_fn)step_next("fexecve", &cache);
    char *const *completed = COMPLETED(environment);
    bool timed = leave();
    return come_back(timed, next(fd, argv, completed));
}

STEP_EXPORT int execveat(int fd, const char *path, char *const argv[], char *const environment[],
                         int flags)
{
    static _Atomic(step_function) cache;
    execveat_fn next = (execveat_fn)step_next("execveat", &cache);
    char *const *completed = COMPLETED(environment);
    bool timed = leave();
    return come_back(timed, next(fd, path, argv, completed, flags));
}

/* With the final NULL. */
static size_t count_arguments(const char *first, va_list args)
{
    va_list copy;
    size_t count = first ? 2 : 1;
    va_copy(copy, args);
    while (first && va_arg(copy, const char *))
        count++;
    va_end(copy);
    return count;
}

/* Fills argv, with its final NULL, from the first argument and those behind it. */
static void take_arguments(char **argv, const char *first, va_list *args)
{
    memcpy(argv, &first, sizeof first); /* exec's own arguments are not const either */
    while (*argv++)
        *argv = va_arg(*args, char *);
}

STEP_EXPORT int execl(const char *path, const char *first, ...)
{
    va_list args;
    va_start(args, first);
    char **argv = alloca(count_arguments(first, args) * sizeof *argv);
    take_arguments(argv, first, &args);
    va_end(args);
    return run_execve(path, argv, environ);
}

STEP_EXPORT int execlp(const char *file, const char *first, ...)
{
    va_list args;
    va_start(args, first);
    char **argv = alloca(count_arguments(first, args) * sizeof *argv);
    take_arguments(argv, first, &args);
    va_end(args);
    return run_execvpe(file, argv, environ);
}

STEP_EXPORT int execle(const char *path, const char *first, ...)
{
    va_list args;
    va_start(args, first);
    char **argv = alloca(count_arguments(first, args) * sizeof *argv);
    take_arguments(argv, first, &args);
    char *const *environment = va_arg(args, char *const *);
    va_end(args);
    return run_execve(path, argv, environment);
}

typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                        const posix_spawnattr_t *, char *const *, char *const *);

STEP_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
                            const posix_spawn_file_actions_t *restrict actions,
                            const posix_spawnattr_t *restrict attr, char *const argv[restrict],
                            char *const environment[restrict])
{
    static _Atomic(step_function) cache;
    spawn_fn next = (spawn_fn)step_next("posix_spawn", &cache);
    char *const *completed = COMPLETED(environment);
    return next(pid, path, actions, attr, argv, completed);
}

STEP_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                             const posix_spawn_file_actions_t *restrict actions,
                             const posix_spawnattr_t *restrict attr, char *const argv[restrict],
                             char *const environment[restrict])
{
    static _Atomic(step_function) cache;
    spawn_fn next = (spawn_fn)step_next("posix_spawnp", &cache);
    char *const *completed = COMPLETED(environment);
    return next(pid, file, actions, attr, argv, completed);
}
