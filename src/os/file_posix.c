/*
 * Files on POSIX systems: inputs are mapped, or spooled into an unlinked temporary file when they
 * cannot be; outputs are temporary files that are renamed or copied to their destination.
 */
#include <os/file.h>
#include <os/place.h>

#include <base/fail.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    COPY_CHUNK_SIZE = 256 * 1024,
    RELEASE_STEP = 16 * 1024 * 1024, /* a multiple of every page size */
    TEMP_NAME_ATTEMPTS = 100,
    OPEN_PLACES_MAX = 64
};

static int open_retrying(const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Interrupted, or a descriptor somebody made non-blocking: worth another try? */
static bool should_retry(int fd, short events)
{
    if (errno == EINTR)
        return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        return false;
    struct pollfd wait = {.fd = fd, .events = events};
    return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && !should_retry(fd, POLLOUT))
            return errno;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int pwrite_all(int fd, uint64_t offset, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)offset);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            bytes += n;
            offset += (uint64_t)n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int pread_all(int fd, uint64_t offset, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = pread(fd, bytes, len, (off_t)offset);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n == 0)
            return EIO; /* somebody cut the file */
        if (n > 0) {
            bytes += n;
            offset += (uint64_t)n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static const char *temp_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

/* A file without a name, or -1 and errno. */
static int open_unnamed(void)
{
#ifdef O_TMPFILE
    int unnamed = open_retrying(temp_folder(), O_TMPFILE | O_RDWR, 0600);
    if (unnamed >= 0)
        return unnamed;
#endif
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/spgo.XXXXXX", temp_folder());
    if (len < 0 || (size_t)len >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkstemp(path);
    if (fd >= 0) {
        unlink(path);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}

/* ---- Inputs ---- */

struct os_input {
    const uint8_t *ptr; /* NULL for an empty input */
    size_t len;
    _Atomic uint64_t released; /* the pages before this offset were given back */
};

static spgo_code map_input(int fd, uint64_t size_bytes, os_input *in, spgo_error *err)
{
    if (size_bytes == 0)
        return SPGO_OK;
    if (size_bytes > PTRDIFF_MAX)
        return spgo_fail(err, SPGO_LIMIT, "input", SPGO_NO_OFFSET,
                         "has %llu bytes, more than a program of this word size can map; use a "
                         "64-bit build",
                         (unsigned long long)size_bytes);
    void *map = mmap(NULL, (size_t)size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return spgo_fail_sys(err, errno, "input", "cannot be mapped");
    in->ptr = map;
    in->len = (size_t)size_bytes;
    return SPGO_OK;
}

/* Copies what `fd` delivers to `spool`: 0 or an errno value; `reading` tells which side failed. */
static int copy_stream(int fd, int spool, uint64_t *size_bytes, bool *reading)
{
    uint8_t *chunk = malloc(COPY_CHUNK_SIZE);
    if (!chunk)
        return ENOMEM;
    int sys = 0;
    *size_bytes = 0;
    for (;;) {
        *reading = true;
        ssize_t n = read(fd, chunk, COPY_CHUNK_SIZE);
        if (n == 0)
            break;
        if (n < 0) {
            if (should_retry(fd, POLLIN))
                continue;
            sys = errno;
            break;
        }
        *reading = false;
        sys = write_all(spool, chunk, (size_t)n);
        if (sys != 0)
            break;
        *size_bytes += (uint64_t)n;
    }
    free(chunk);
    return sys;
}

static spgo_code spool_input(int fd, os_input *in, spgo_error *err)
{
    int spool = open_unnamed();
    if (spool < 0)
        return spgo_fail_sys(err, errno, "input",
                             "is no regular file and must be copied, but no temporary file can "
                             "be created in %s; set TMPDIR to a folder that can be written",
                             temp_folder());
    uint64_t size_bytes;
    bool reading = false;
    int sys = copy_stream(fd, spool, &size_bytes, &reading);
    spgo_code code;
    if (sys == 0)
        code = map_input(spool, size_bytes, in, err);
    else if (reading)
        code = spgo_fail_sys(err, sys, "input", "cannot be read");
    else
        code = spgo_fail_sys(err, sys, "input",
                             "is no regular file and must be copied, but %s cannot take it; set "
                             "TMPDIR to a folder with more space",
                             temp_folder());
    close(spool);
    return code;
}

/* Can the file be mapped as it is? Not if the descriptor was moved, or if the file claims to be
 * empty but is not, as those of /proc do. */
static bool is_mappable(int fd, const struct stat *st)
{
    if (!S_ISREG(st->st_mode) || lseek(fd, 0, SEEK_CUR) != 0)
        return false;
    char byte;
    return st->st_size > 0 || pread(fd, &byte, 1, 0) == 0;
}

static spgo_code load_input(int fd, os_input *in, spgo_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return spgo_fail_sys(err, errno, "input", "cannot be read");
    if (S_ISDIR(st.st_mode))
        return spgo_fail(err, SPGO_USAGE, "input", SPGO_NO_OFFSET,
                         "is a directory; name the file inside it");
    if (is_mappable(fd, &st))
        return map_input(fd, (uint64_t)st.st_size, in, err);
    return spool_input(fd, in, err);
}

static spgo_code fail_open(int sys, spgo_error *err)
{
    const char *way_out = "";
    if (sys == ENOENT)
        way_out = "; check the spelling and the current directory";
    else if (sys == EACCES)
        way_out = "; ask for read permission (chmod +r)";
    return spgo_fail_sys(err, sys, "input", "cannot be opened%s", way_out);
}

spgo_code os_input_open(const char *path, os_input **in, spgo_error *err)
{
    *in = NULL;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open_retrying(path, O_RDONLY | O_NOCTTY, 0);
    if (fd < 0)
        return fail_open(errno, err);
    os_input *result = calloc(1, sizeof *result);
    spgo_code code =
        result ? load_input(fd, result, err) : spgo_fail_nomem(err, "input", sizeof *result);
    if (!is_stdin)
        close(fd);
    if (code != SPGO_OK) {
        free(result);
        return code;
    }
    *in = result;
    return SPGO_OK;
}

spgo_span os_input_bytes(const os_input *in)
{
    return (spgo_span){in->ptr, in->len};
}

/* The mapping as mmap gave it; nothing but the system calls sees it without const. */
static void *mapping(const os_input *in)
{
    return (void *)(uintptr_t)in->ptr;
}

void os_input_close(os_input *in)
{
    if (!in)
        return;
    if (in->ptr)
        munmap(mapping(in), in->len);
    free(in);
}

void os_input_release(os_input *in, uint64_t offset)
{
    uint64_t end = (offset < in->len ? offset : in->len) / RELEASE_STEP * RELEASE_STEP;
    uint64_t start = atomic_load_explicit(&in->released, memory_order_relaxed);
    do {
        if (end == start)
            return;
    } while (!atomic_compare_exchange_weak(&in->released, &start, end));
    /* An offset before the last one means that another walk has begun. */
    if (end > start)
        madvise((char *)mapping(in) + start, (size_t)(end - start), MADV_DONTNEED);
}

void os_input_sequential(os_input *in)
{
    if (in->ptr)
        madvise(mapping(in), in->len, MADV_SEQUENTIAL);
}

/* ---- Outputs ---- */

/*
 * The names of temporary files that exist now, for place_remove_all. A slot is claimed, filled and
 * made live by its owner; whoever moves it out of `live`, the owner or a signal handler, may use
 * the name after that.
 */
enum slot_state { SLOT_FREE, SLOT_CLAIMED, SLOT_LIVE };
static struct temp_slot {
    _Atomic int state;
    char path[PATH_MAX];
} temp_slots[OPEN_PLACES_MAX];

struct place {
    int fd;                 /* the temporary file */
    int stream_fd;          /* the destination if the bytes are copied there at last, else -1 */
    char *target;           /* the destination if it is replaced, symbolic links resolved */
    struct temp_slot *slot; /* the temporary file's name, NULL if it has none */
};

static struct temp_slot *claim_slot(void)
{
    for (size_t i = 0; i < OPEN_PLACES_MAX; i++) {
        int expected = SLOT_FREE;
        if (atomic_compare_exchange_strong(&temp_slots[i].state, &expected, SLOT_CLAIMED))
            return &temp_slots[i];
    }
    return NULL;
}

/* Takes the slot's name off the list: false if a signal handler was faster. */
static bool take_slot(struct temp_slot *slot)
{
    int expected = SLOT_LIVE;
    return atomic_compare_exchange_strong(&slot->state, &expected, SLOT_CLAIMED);
}

void place_remove_all(void)
{
    for (size_t i = 0; i < OPEN_PLACES_MAX; i++)
        if (take_slot(&temp_slots[i]))
            unlink(temp_slots[i].path);
}

/* ".name.012345abcdef.tmp" beside the target; long names are cut to stay within NAME_MAX. */
static bool temp_name(char path[PATH_MAX], const char *target, unsigned attempt)
{
    const char *slash = strrchr(target, '/');
    const char *name = slash ? slash + 1 : target;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t salt =
        ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 40) +
        attempt * 0x9e3779b97f4a7c15u;
    int len = snprintf(path, PATH_MAX, "%.*s.%.200s.%012llx.tmp", (int)(name - target), target,
                       name, (unsigned long long)(salt & 0xffffffffffffu));
    return len > 0 && len < PATH_MAX;
}

/* Creates the temporary file: a descriptor, or -1 and errno. */
static int create_temp(struct temp_slot *slot, const char *target, mode_t mode)
{
    for (unsigned attempt = 0; attempt < TEMP_NAME_ATTEMPTS; attempt++) {
        if (!temp_name(slot->path, target, attempt)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open_retrying(slot->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Creates the temporary file beside p->target. `old` is the file to be replaced, or NULL: its owner
 * and mode are kept. */
static spgo_code open_beside(place *p, const struct stat *old, spgo_error *err)
{
    struct temp_slot *slot = claim_slot();
    if (!slot)
        return spgo_fail(err, SPGO_LIMIT, "output", SPGO_NO_OFFSET,
                         "cannot be created: %d output files are open already; close some",
                         OPEN_PLACES_MAX);
    p->fd = create_temp(slot, p->target, old ? 0600 : 0666);
    if (p->fd < 0) {
        int sys = errno;
        atomic_store(&slot->state, SLOT_FREE);
        return spgo_fail_sys(err, sys, "output",
                             "cannot be created (a file beside it is written first and renamed "
                             "when complete); choose a folder that exists and can be written");
    }
    p->slot = slot;
    atomic_store(&slot->state, SLOT_LIVE);
    if (old) { /* as far as the system lets us; the new content is worth more than a refusal */
        int owner = fchown(p->fd, old->st_uid, old->st_gid);
        int mode = fchmod(p->fd, old->st_mode & 0777);
        (void)owner;
        (void)mode;
    }
    return SPGO_OK;
}

static spgo_code open_scratch(place *p, spgo_error *err)
{
    p->fd = open_unnamed();
    if (p->fd < 0)
        return spgo_fail_sys(err, errno, "output",
                             "no temporary file can be created in %s; set TMPDIR to a folder that "
                             "can be written",
                             temp_folder());
    return SPGO_OK;
}

static spgo_code open_stream(place *p, const char *path, spgo_error *err)
{
    bool is_stdout = strcmp(path, "-") == 0;
    p->stream_fd = is_stdout ? dup(STDOUT_FILENO) : open_retrying(path, O_WRONLY | O_NOCTTY, 0);
    if (p->stream_fd < 0)
        return spgo_fail_sys(err, errno, "output", "cannot be opened for writing");
    return open_scratch(p, err);
}

static spgo_code open_destination(place *p, const char *path, spgo_error *err)
{
    struct stat st;
    if (!path)
        return open_scratch(p, err);
    if (strcmp(path, "-") == 0)
        return open_stream(p, path, err);
    if (*path == '\0')
        return spgo_fail(err, SPGO_USAGE, "output", SPGO_NO_OFFSET,
                         "the name of the output file is empty; give one, or - for standard "
                         "output");
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode))
        return spgo_fail(err, SPGO_USAGE, "output", SPGO_NO_OFFSET,
                         "is a directory; name a file inside it");
    if (exists && !S_ISREG(st.st_mode))
        return open_stream(p, path, err);
    if (exists && access(path, W_OK) != 0)
        return spgo_fail_sys(err, errno, "output",
                             "exists and may not be changed; choose another name");
    p->target = exists ? realpath(path, NULL) : strdup(path);
    if (!p->target)
        return spgo_fail_sys(err, errno, "output", "cannot be created");
    return open_beside(p, exists ? &st : NULL, err);
}

spgo_code place_open(const char *path, place **p, spgo_error *err)
{
    *p = malloc(sizeof **p);
    if (!*p)
        return spgo_fail_nomem(err, "output", sizeof **p);
    **p = (place){.fd = -1, .stream_fd = -1};
    spgo_code code = open_destination(*p, path, err);
    if (code != SPGO_OK) {
        place_close(*p);
        *p = NULL;
    }
    return code;
}

int place_write(place *p, uint64_t offset, const void *bytes, size_t len)
{
    return pwrite_all(p->fd, offset, bytes, len);
}

int place_read(place *p, uint64_t offset, void *bytes, size_t len)
{
    return pread_all(p->fd, offset, bytes, len);
}

static int copy_to_stream(place *p, uint64_t size_bytes)
{
    uint8_t *chunk = malloc(COPY_CHUNK_SIZE);
    if (!chunk)
        return ENOMEM;
    int sys = 0;
    for (uint64_t done = 0; done < size_bytes && sys == 0;) {
        uint64_t left = size_bytes - done;
        size_t len = left < COPY_CHUNK_SIZE ? (size_t)left : COPY_CHUNK_SIZE;
        sys = pread_all(p->fd, done, chunk, len);
        if (sys == 0)
            sys = write_all(p->stream_fd, chunk, len);
        done += len;
    }
    free(chunk);
    return sys;
}

/* A close that fails has lost bytes (a quota, a file server). */
static int close_checked(int *fd)
{
    int sys = close(*fd) != 0 && errno != EINTR ? errno : 0;
    *fd = -1;
    return sys;
}

int place_publish(place *p, uint64_t size_bytes)
{
    if (p->stream_fd >= 0) {
        int sys = copy_to_stream(p, size_bytes);
        int close_sys = close_checked(&p->stream_fd);
        return sys != 0 ? sys : close_sys;
    }
    int sys = close_checked(&p->fd);
    if (sys != 0)
        return sys;
    if (rename(p->slot->path, p->target) != 0)
        return errno;
    if (take_slot(p->slot))
        atomic_store(&p->slot->state, SLOT_FREE);
    p->slot = NULL;
    return 0;
}

spgo_code place_reread(place *p, uint64_t size_bytes, os_input **in, spgo_error *err)
{
    *in = calloc(1, sizeof **in);
    if (!*in)
        return spgo_fail_nomem(err, "input", sizeof **in);
    spgo_code code = map_input(p->fd, size_bytes, *in, err);
    if (code != SPGO_OK) {
        free(*in);
        *in = NULL;
    }
    return code;
}

void place_close(place *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    if (p->stream_fd >= 0)
        close(p->stream_fd);
    if (p->slot && take_slot(p->slot)) {
        unlink(p->slot->path);
        atomic_store(&p->slot->state, SLOT_FREE);
    }
    free(p->target);
    free(p);
}

/* ---- Questions about paths ---- */

bool os_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool os_is_regular_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

bool os_same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}
