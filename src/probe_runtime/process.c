/*
 * The process and its file: opened at the first probe or by the constructor, whichever is first;
 * grown chunk by chunk, each with its space on the disk reserved before it is mapped, so that a
 * full disk is an answer here and not a SIGBUS later.
 */
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static spgo_spp_header no_file;

probe_process probe_process_now = {.header = &no_file, .fd = -1};

/* 0: nobody opened it; 1: somebody does; 2: done */
static atomic_int open_state;

/* ------------------------------------------------------------------ options */

/* SPGO_PROBE=key=value,...: finds one. Returns the length of the value, 0 without one. */
static COLD size_t find_option(const char *key, const char **value)
{
    const char *p = secure_getenv("SPGO_PROBE");
    const size_t key_len = strlen(key);
    while (p && *p) {
        const size_t len = strcspn(p, ",");
        if (len > key_len && strncmp(p, key, key_len) == 0 && p[key_len] == '=') {
            *value = p + key_len + 1;
            return len - key_len - 1;
        }
        p += len + (p[len] == ',');
    }
    return 0;
}

static COLD bool option_is(const char *key, const char *wanted)
{
    const char *value;
    const size_t len = find_option(key, &value);
    return len == strlen(wanted) && memcmp(value, wanted, len) == 0;
}

static COLD unsigned long option_number(const char *key, unsigned long otherwise)
{
    const char *value;
    return find_option(key, &value) ? strtoul(value, NULL, 10) : otherwise;
}

/* ------------------------------------------------------------------ the file */

/* Names <base>.<pid>.spp, or <base>.<pid>-2.spp and so on where that process has one already. */
static COLD int create_file(void)
{
    const char *base = secure_getenv("SPGO_PROBE_OUTPUT");
    char name[SPGO_SPP_PATH_BYTES], path[SPGO_SPP_PATH_BYTES + 32];
    if (!base || !*base) {
        char program[SPGO_SPP_PATH_BYTES] = {0};
        const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
        const char *slash = n > 0 ? strrchr(program, '/') : NULL;
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : "spgo-probe");
        base = name;
    }
    for (unsigned i = 1; i < 1000; i++) {
        if (i == 1)
            snprintf(path, sizeof path, "%s.%d.spp", base, (int)getpid());
        else
            snprintf(path, sizeof path, "%s.%d-%u.spp", base, (int)getpid(), i);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Out of the way of programs that close or count low descriptors. */
static COLD int move_up(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 512);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static COLD void fill_command(spgo_spp_header *h)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, h->command, sizeof h->command - 1);
    close(fd);
    (void)n;
    n = readlink("/proc/self/exe", h->program, sizeof h->program - 1);
    (void)n;
}

static COLD uint32_t mode_wanted(void)
{
    if (option_is("mode", "ring"))
        return SPGO_SPP_RING;
    return option_is("mode", "stream") ? SPGO_SPP_STREAM : SPGO_SPP_SUMMARY;
}

static COLD void fill_header(spgo_spp_header *h)
{
    struct timespec wall;
    const char *events;
    char wish[32] = "switch";
    const size_t len = find_option("os-event", &events);
    if (len && len < sizeof wish) {
        memcpy(wish, events, len);
        wish[len] = '\0';
    }
    h->version = SPGO_SPP_VERSION;
    h->header_bytes = SPGO_SPP_HEADER_BYTES;
    h->chunk_bytes = SPGO_SPP_CHUNK_BYTES;
    h->pid = (uint32_t)getpid();
    h->parent_pid = (uint32_t)getppid();
    h->mode = mode_wanted();
    h->os_events = probe_os_choose(wish, h->notice, sizeof h->notice);
    h->clock = probe_clock_is_tsc ? SPGO_SPP_CLOCK_TSC : SPGO_SPP_CLOCK_MONOTONIC;
    if (!probe_clock_is_tsc && !h->notice[0])
        snprintf(h->notice, sizeof h->notice,
                 "the time stamp counter is not fit here: probes read CLOCK_MONOTONIC, at three "
                 "times the cost");
    h->start_count = option_is("start", "off") ? 0 : 1;
    h->control = 1u << 1 | (h->start_count > 0 ? SPGO_SPP_ACTIVE : 0);
    fill_command(h);
    clock_gettime(CLOCK_REALTIME, &wall);
    h->start_wall_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
    probe_clock_pair(&h->clock_first, &h->clock_first_ns);
    h->clock_last = h->clock_first;
    h->clock_last_ns = h->clock_first_ns;
    memcpy(h->magic, SPGO_SPP_MAGIC, sizeof h->magic); /* last: now it is a file of ours */
}

static COLD bool open_file(void)
{
    _Static_assert(sizeof(spgo_spp_header) <= SPGO_SPP_HEADER_BYTES, "header");
    probe_process *p = &probe_process_now;
    int fd = create_file();
    if (fd < 0)
        return false;
    fd = move_up(fd);
    void *header = MAP_FAILED;
    if (posix_fallocate(fd, 0, SPGO_SPP_HEADER_BYTES) == 0)
        header = mmap(NULL, SPGO_SPP_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED) {
        close(fd);
        return false;
    }
    p->fd = fd;
    p->ring_chunks = (uint32_t)option_number("ring", RING_CHUNKS_DEFAULT);
    if (p->ring_chunks < 2)
        p->ring_chunks = 2;
    p->depth_limit = (uint32_t)option_number("depth", DEPTH_MAX - 1);
    if (p->depth_limit >= DEPTH_MAX)
        p->depth_limit = DEPTH_MAX - 1;
    fill_header(header);
    p->header = header;
    p->has_file = true;
    return true;
}

static COLD void before_fork(void)
{
    probe_process_note_clock();
}

/* The parent's file is not ours to write any more. */
static COLD void child_after_fork(void)
{
    probe_process *p = &probe_process_now;
    if (!p->has_file)
        return;
    const uint32_t control = p->header->control;
    const int32_t starts = p->header->start_count, suspends = p->header->suspend_count;
    munmap(p->header, SPGO_SPP_HEADER_BYTES);
    close(p->fd);
    *p = (probe_process){.header = &no_file, .fd = -1};
    probe_modules_forget();
    probe_marks_forget();
    if (open_file()) {
        p->header->start_count = starts;
        p->header->suspend_count = suspends;
        p->header->control = control + 2;
        p->header->probe_inside = no_file.probe_inside;
        p->header->probe_outside = no_file.probe_outside;
        probe_modules_update();
    }
    probe_thread_after_fork();
}

static COLD void open_first(void)
{
    static bool has_handlers;
    probe_clock_choose();
    if (!open_file()) {
        fprintf(stderr,
                "spgo probe: nothing is recorded: cannot create the file (%s); set "
                "SPGO_PROBE_OUTPUT to a path in a folder that can be written\n",
                strerror(errno));
        return;
    }
    probe_select_open(secure_getenv("SPGO_PROBE_SELECT"));
    probe_calibrate();
    no_file.probe_inside = probe_process_now.header->probe_inside; /* for children */
    no_file.probe_outside = probe_process_now.header->probe_outside;
    probe_modules_update();
    probe_process_mark(SPGO_SPP_MARK_START, 0, 0, "program start");
    probe_xray_open();
    if (!has_handlers)
        has_handlers = pthread_atfork(before_fork, NULL, child_after_fork) == 0;
}

COLD bool probe_process_open(void)
{
    int state = 0;
    if (atomic_compare_exchange_strong(&open_state, &state, 1)) {
        open_first();
        atomic_store(&open_state, 2);
    }
    /* Another thread is opening it, or a signal came meanwhile: this probe does not count. */
    return atomic_load(&open_state) == 2 && probe_process_now.has_file;
}

static COLD __attribute__((constructor)) void at_start(void)
{
    (void)probe_process_open();
}

/* Probes go on after this: other destructors are still to come. */
static COLD __attribute__((destructor)) void at_end(void)
{
    spgo_spp_header *h = probe_process_now.header;
    if (!probe_process_now.has_file)
        return;
    probe_process_mark(SPGO_SPP_MARK_STOP, 0, 0, "program end");
    probe_process_note_clock();
    h->end_clock = probe_clock();
    h->flags |= SPGO_SPP_FINISHED;
}

COLD void probe_process_note_clock(void)
{
    spgo_spp_header *h = probe_process_now.header;
    uint64_t clock, ns;
    probe_clock_pair(&clock, &ns);
    h->clock_last = clock;
    h->clock_last_ns = ns;
}

/* ------------------------------------------------------------------ chunks */

COLD void *probe_process_map(uint64_t file_off, size_t bytes, void *at)
{
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0),
                   probe_process_now.fd, (off_t)file_off);
    return p == MAP_FAILED ? NULL : p;
}

/* fallocate, and not posix_fallocate, which would write where the file system cannot reserve. */
static COLD bool reserve_space(uint64_t off, uint64_t bytes)
{
    int result;
    do
        result = fallocate(probe_process_now.fd, 0, (off_t)off, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EOPNOTSUPP)
        return posix_fallocate(probe_process_now.fd, (off_t)off, (off_t)bytes) == 0;
    return result == 0;
}

COLD uint64_t probe_process_new_chunk(spgo_spp_kind kind, uint32_t owner, uint32_t sequence)
{
    probe_process *p = &probe_process_now;
    const int saved = errno;
    const uint32_t n = __atomic_fetch_add(&p->header->chunk_count, 1, __ATOMIC_RELAXED);
    const uint64_t off = SPGO_SPP_HEADER_BYTES + (uint64_t)n * SPGO_SPP_CHUNK_BYTES;
    spgo_spp_chunk *head = NULL;
    if (reserve_space(off, SPGO_SPP_CHUNK_BYTES))
        head = probe_process_map(off, sizeof *head, NULL);
    if (head) {
        head->kind = (uint16_t)kind;
        head->owner = owner;
        head->sequence = sequence;
        head->used_bytes = sizeof *head;
        head->magic = SPGO_SPP_CHUNK_MAGIC;
        munmap(head, sizeof *head);
    }
    errno = saved;
    return head ? off : 0;
}
