/*
 * The file of a process: made with its first burst, so that short processes cost next to nothing,
 * and grown chunk by chunk. A chunk is allocated before it is
 * mapped, since a write to a mapping that finds the disk full kills the program. The file is closed
 * between, because programs close descriptors that they do not know.
 */
#include <step_runtime/step_internal.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
    CHUNKS_MAX = 16384, /* 4 GiB */
    FILES_MAX = 100000, /* of one pid */
    GROW_TRIES_MAX = 20000
};

step_process step_this;

static struct {
    _Atomic(uint8_t *) chunks[CHUNKS_MAX];
    _Atomic bool growing;
    step_header early; /* counters of a process that has no file yet */
} output;

static char *put_text(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    *to = 0;
    return to;
}

static char *put_number(char *to, uint64_t n)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    while (count > 0)
        *to++ = digits[--count];
    *to = 0;
    return to;
}

static int open_new(void)
{
    for (unsigned n = 0; n < FILES_MAX; n++) {
        char *at = put_text(step_this.path, step_this.folder);
        at = put_text(at, "/");
        at = put_number(at, step_this.pid);
        at = put_text(at, "-");
        at = put_number(at, n);
        put_text(at, STEP_FILE_SUFFIX);
        long fd = step_sys(SYS_openat, AT_FDCWD, (long)step_this.path,
                           O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd != -EEXIST)
            return (int)fd;
    }
    return -EEXIST;
}

/* To go beyond the limit on files would bring a signal that kills. */
static bool is_allowed(uint64_t size)
{
    struct rlimit limit = {0};
    return step_sys(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit) == 0 && size <= limit.rlim_cur;
}

/* Gives the file room for real; a file system that cannot promise it gets zeros. */
static bool allocate(int fd, uint64_t offset, uint64_t size)
{
    static const uint8_t zeros[4096];
    if (!is_allowed(offset + size))
        return false;
    long result = step_sys(SYS_fallocate, fd, 0, (long)offset, (long)size);
    if (result != -EOPNOTSUPP && result != -ENOSYS)
        return result == 0;
    for (uint64_t done = 0; done < size; done += sizeof zeros) {
        if (step_sys(SYS_pwrite64, fd, (long)zeros, sizeof zeros, (long)(offset + done)) !=
            (long)sizeof zeros)
            return false;
    }
    return true;
}

static void *map(int fd, uint64_t offset, uint64_t size)
{
    if (!allocate(fd, offset, size))
        return NULL;
    long result =
        step_sys6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)offset);
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

static void fill_header(step_header *h, uint32_t start_kind)
{
    const step_options *o = &step_this.options;
    h->version = STEP_FILE_VERSION;
    h->header_bytes = STEP_HEADER_BYTES;
    h->slot_bytes = step_this.slot_bytes;
    h->chunk_bytes = STEP_CHUNK_BYTES;
    h->branches_max = o->branches_max;
    h->filter = o->filter;
    h->pid = step_this.pid;
    h->parent_pid = (uint32_t)step_sys(SYS_getppid, 0, 0, 0, 0);
    h->start_kind = start_kind;
    h->start_time_ns = step_clock_ns(CLOCK_MONOTONIC);
    h->start_realtime_ns = step_clock_ns(CLOCK_REALTIME);
    h->interval_ns = o->interval_ns;
    h->overhead_ppm = o->overhead_ppm;
}

static void read_command(step_header *h)
{
    long fd = step_sys(SYS_openat, AT_FDCWD, (long)"/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long size = step_sys(SYS_read, fd, (long)h->command, STEP_COMMAND_BYTES, 0);
    h->command_size = size > 0 ? (uint32_t)size : 0;
    step_sys(SYS_close, fd, 0, 0, 0);
}

/* The mappings of the parent's file stay behind in a child that was forked. */
static void forget_parent(void)
{
    if (step_this.has_file)
        step_sys(SYS_munmap, (long)step_this.header, STEP_HEADER_BYTES + STEP_CHUNK_BYTES, 0, 0);
    for (unsigned i = 1; i < CHUNKS_MAX && atomic_load(&output.chunks[i]); i++) {
        step_sys(SYS_munmap, (long)atomic_load(&output.chunks[i]), STEP_CHUNK_BYTES, 0, 0);
        atomic_store(&output.chunks[i], NULL);
    }
    atomic_store(&output.chunks[0], NULL);
    atomic_store(&output.growing, false);
    step_this.has_file = false;
    memset(&output.early, 0, sizeof output.early);
}

void step_output_begin(uint32_t start_kind)
{
    forget_parent();
    uint32_t bytes = STEP_RECORD_BYTES + 17 * step_this.options.branches_max;
    step_this.slot_bytes = (bytes + 7) / 8 * 8;
    step_this.slots_per_chunk = STEP_CHUNK_BYTES / step_this.slot_bytes;
    step_this.pid = step_pid();
    step_this.start_cpu_ns = step_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    step_this.header = &output.early;
    fill_header(&output.early, start_kind);
}

/* The file begins with its first chunk. The magic goes in when all else is there. */
static bool make_file(void)
{
    int fd = open_new();
    if (fd < 0)
        return false;
    uint8_t *start = map(fd, 0, STEP_HEADER_BYTES + STEP_CHUNK_BYTES);
    step_sys(SYS_close, fd, 0, 0, 0);
    if (!start) {
        step_sys(SYS_unlink, (long)step_this.path, 0, 0, 0);
        return false;
    }
    step_header *h = (step_header *)(void *)start;
    *h = output.early;
    read_command(h);
    atomic_store(&output.chunks[0], start + STEP_HEADER_BYTES);
    step_this.header = h;
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, STEP_FILE_MAGIC, sizeof h->magic);
    return true;
}

bool step_output_open(void)
{
    bool free = false;
    for (unsigned tries = 0; !atomic_load(&step_this.has_file); tries++) {
        if (atomic_load(&step_this.stopped) || tries == GROW_TRIES_MAX)
            return false;
        if (!atomic_compare_exchange_strong(&output.growing, &free, true)) {
            free = false;
            step_sys(SYS_sched_yield, 0, 0, 0, 0);
            continue;
        }
        bool made = atomic_load(&step_this.has_file) || make_file();
        atomic_store(made ? &step_this.has_file : &step_this.stopped, true);
        atomic_store(&output.growing, false);
    }
    return true;
}

static uint64_t process_cpu_ns(void)
{
    return step_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - step_this.start_cpu_ns;
}

/* The room becomes a hole and the size stays: other threads may still reserve slots in it. */
static void trim(void)
{
    uint64_t count = __atomic_load_n(&step_this.header->slot_count, __ATOMIC_ACQUIRE);
    uint64_t used = count % step_this.slots_per_chunk * step_this.slot_bytes;
    uint64_t kept = (used + 4095) / 4096 * 4096;
    if (used == 0 || kept >= STEP_CHUNK_BYTES)
        return;
    long fd = step_sys(SYS_openat, AT_FDCWD, (long)step_this.path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    uint64_t chunk = STEP_HEADER_BYTES + count / step_this.slots_per_chunk * STEP_CHUNK_BYTES;
    step_sys(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (long)(chunk + kept),
             (long)(STEP_CHUNK_BYTES - kept));
    step_sys(SYS_close, fd, 0, 0, 0);
}

void step_output_end(uint32_t end_kind)
{
    if (!step_this.has_file || step_this.sealed)
        return;
    step_header *h = step_this.header;
    trim();
    h->process_cpu_ns = process_cpu_ns();
    h->end_time_ns = step_clock_ns(CLOCK_MONOTONIC);
    __atomic_store_n(&h->end_kind, end_kind, __ATOMIC_RELEASE);
}

void step_output_resume(void)
{
    if (!step_this.has_file || step_this.sealed)
        return;
    step_header *h = step_this.header;
    __atomic_store_n(&h->end_kind, STEP_END_UNKNOWN, __ATOMIC_RELEASE);
    h->end_time_ns = 0;
}

static uint8_t *add_chunk(uint64_t number)
{
    long fd = step_sys(SYS_openat, AT_FDCWD, (long)step_this.path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    uint64_t offset = STEP_HEADER_BYTES + number * STEP_CHUNK_BYTES;
    uint8_t *chunk = map((int)fd, offset, STEP_CHUNK_BYTES);
    step_sys(SYS_close, fd, 0, 0, 0);
    return chunk;
}

/* One thread makes the chunk, with all signals blocked; others wait for it. */
static uint8_t *get_chunk(uint64_t number)
{
    if (number >= CHUNKS_MAX)
        return NULL;
    uint8_t *chunk = atomic_load_explicit(&output.chunks[number], memory_order_acquire);
    for (unsigned tries = 0; !chunk && tries < GROW_TRIES_MAX; tries++) {
        if (atomic_load(&step_this.stopped))
            return NULL;
        bool free = false;
        if (!atomic_compare_exchange_strong(&output.growing, &free, true)) {
            step_sys(SYS_sched_yield, 0, 0, 0, 0);
        } else {
            if (!atomic_load(&output.chunks[number]))
                atomic_store(&output.chunks[number], add_chunk(number));
            atomic_store(&output.growing, false);
            if (!atomic_load(&output.chunks[number]))
                atomic_store(&step_this.stopped, true);
        }
        chunk = atomic_load_explicit(&output.chunks[number], memory_order_acquire);
    }
    return chunk;
}

void *step_slot_at(uint64_t index)
{
    uint8_t *chunk = get_chunk(index / step_this.slots_per_chunk);
    return chunk ? chunk + index % step_this.slots_per_chunk * step_this.slot_bytes : NULL;
}

void *step_slots_reserve(uint32_t span, uint64_t *first)
{
    *first = __atomic_fetch_add(&step_this.header->slot_count, span, __ATOMIC_ACQ_REL);
    void *slot = step_slot_at(*first);
    if (!slot || !step_slot_at(*first + span - 1)) {
        step_count(&step_this.header->lost_count, 1);
        return NULL;
    }
    return slot;
}

void step_slot_finish(void *slot, uint32_t kind, uint32_t span)
{
    step_slot *head = slot;
    head->span = span;
    __atomic_store_n(&head->kind, kind, __ATOMIC_RELEASE);
}
