/*
 * The system on POSIX: what happens at signals, and the clock, the processors and the standard
 * streams.
 */
#include <os/place.h>
#include <os/system.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* The user ends the program: unfinished files go, then the signal does what it always does. */
static void on_termination(int signal_number)
{
    place_remove_all();
    raise(signal_number); /* SA_RESETHAND has restored the default action */
}

/* A mapped file has lost the page that is being read. No code can go on behind that. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    static const char message[] = "the input file became shorter while it was being read, or its "
                                  "disk failed; run again when nothing changes it\n";
    (void)context;
    place_remove_all();
    if (info->si_code != BUS_ADRERR) {
        raise(signal_number);
        return;
    }
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(1);
}

static void handle_termination(int signal_number)
{
    struct sigaction old;
    if (sigaction(signal_number, NULL, &old) != 0 || old.sa_handler == SIG_IGN)
        return; /* nohup, or a job of a shell without job control: stay immune */
    struct sigaction action = {.sa_handler = on_termination, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

/* A stream that was closed before the start would give its number to the next file opened, and
 * messages would end up in there. Opened the wrong way round, its use stays an error. */
static void occupy_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
                return;
}

void os_start(int *argc, char ***argv)
{
    (void)argc; /* POSIX hands over bytes, and UTF-8 is what they are */
    (void)argv;
    occupy_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is EPIPE, ... */
    signal(SIGXFSZ, SIG_IGN); /* ... a file over ulimit -f is EFBIG */
    handle_termination(SIGINT);
    handle_termination(SIGTERM);
    handle_termination(SIGHUP);
    struct sigaction action = {.sa_sigaction = on_bus_error,
                               .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

bool os_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

uint64_t os_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

unsigned os_cpu_count(void)
{
    /* The set must have room for every processor of the machine, or the call fails. */
    for (size_t max_cpus = CPU_SETSIZE; max_cpus <= 1u << 20; max_cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(max_cpus);
        if (!set)
            break;
        size_t size = CPU_ALLOC_SIZE(max_cpus);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

static _Atomic int stream_errno;

static bool stream_write(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            poll(&wait, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            atomic_store(&stream_errno, errno);
            return false;
        }
    }
    return true;
}

static bool write_stdout(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    return stream_write(STDOUT_FILENO, bytes, len);
}

static bool write_stderr(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    return stream_write(STDERR_FILENO, bytes, len);
}

spgo_sink os_stream_sink(int fd)
{
    return (spgo_sink){.write = fd == STDERR_FILENO ? write_stderr : write_stdout};
}

int os_stream_error(void)
{
    return atomic_load(&stream_errno);
}
