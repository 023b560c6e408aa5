/* Starting programs and sharing files with them on POSIX systems: see launch.h. */
#include <os/launch.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/fail.h>

const char *os_environment(const char *name)
{
    return getenv(name);
}

spgo_code os_become(char *const argv[], const os_variable *variables, size_t count, spgo_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (variables[i].value ? setenv(variables[i].name, variables[i].value, 1) != 0
                               : unsetenv(variables[i].name) != 0)
            return spgo_fail_sys(err, errno, "launch", "the environment cannot be changed");
    }
    execvp(argv[0], argv);
    return spgo_fail_sys(err, errno, "launch", "cannot be started");
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *os_find_program(const char *name)
{
    if (strchr(name, '/'))
        return is_program(name) ? strdup(name) : NULL;
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
        const size_t len = strcspn(p, ":");
        char full[PATH_MAX];
        const int n = snprintf(full, sizeof full, "%.*s%s%s", (int)len, p, len ? "/" : "", name);
        if (n > 0 && (size_t)n < sizeof full && is_program(full))
            return strdup(full);
        p += len + (p[len] == ':');
    }
    return NULL;
}

char *os_own_folder(void)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return strdup(path);
}

char *os_absolute_path(const char *path)
{
    return realpath(path, NULL);
}

spgo_code os_folder_create(const char *path, bool *existed, spgo_error *err)
{
    struct stat st;
    *existed = false;
    if (mkdir(path, 0777) == 0)
        return SPGO_OK;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        *existed = true;
        return SPGO_OK;
    }
    return spgo_fail_sys(err, errno, "folder", "cannot be created");
}

spgo_code os_remove(const char *path, spgo_error *err)
{
    return unlink(path) == 0 ? SPGO_OK : spgo_fail_sys(err, errno, "file", "cannot be removed");
}

/* ---- Shared files ---- */

struct os_shared {
    int fd;
    void *memory;
    uint64_t size;
};

spgo_code os_shared_open(const char *path, os_shared **shared, spgo_error *err)
{
    struct stat st;
    os_shared *s = calloc(1, sizeof *s);
    *shared = NULL;
    if (!s)
        return spgo_fail_nomem(err, "shared file", sizeof *s);
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st) != 0) {
        (void)spgo_fail_sys(err, errno, "shared file", "cannot be opened for writing");
        os_shared_close(s);
        return SPGO_IO;
    }
    s->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    s->memory = s->size ? mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0) : NULL;
    if (s->memory == MAP_FAILED) {
        s->memory = NULL;
        (void)spgo_fail_sys(err, errno, "shared file", "cannot be mapped");
        os_shared_close(s);
        return SPGO_IO;
    }
    *shared = s;
    return SPGO_OK;
}

void *os_shared_memory(const os_shared *s, uint64_t *size)
{
    *size = s->size;
    return s->memory;
}

spgo_code os_shared_write(os_shared *s, uint64_t off, const void *bytes, size_t size,
                          spgo_error *err)
{
    const char *p = bytes;
    while (size > 0) {
        const ssize_t n = pwrite(s->fd, p, size, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return spgo_fail_sys(err, errno, "shared file", "cannot be written");
        p += n;
        off += (uint64_t)n;
        size -= (size_t)n;
    }
    return SPGO_OK;
}

void os_shared_close(os_shared *s)
{
    if (!s)
        return;
    if (s->memory)
        munmap(s->memory, s->size);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}
