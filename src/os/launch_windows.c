/* Starting programs and sharing files with them: not on Windows yet. See launch.h. */
#include <os/launch.h>

#include <stdlib.h>
#include <string.h>

#include <base/fail.h>

static spgo_code unsupported(spgo_error *err)
{
    return spgo_fail(err, SPGO_UNSUPPORTED, "launch", SPGO_NO_OFFSET,
                     "not on Windows: the probe runtime is there on Linux");
}

const char *os_environment(const char *name)
{
    return getenv(name);
}

spgo_code os_become(char *const argv[], const os_variable *variables, size_t count, spgo_error *err)
{
    (void)argv;
    (void)variables;
    (void)count;
    return unsupported(err);
}

char *os_find_program(const char *name)
{
    (void)name;
    return NULL;
}

char *os_own_folder(void)
{
    return NULL;
}

char *os_absolute_path(const char *path)
{
    return _strdup(path);
}

spgo_code os_folder_create(const char *path, bool *existed, spgo_error *err)
{
    (void)path;
    *existed = false;
    return unsupported(err);
}

spgo_code os_remove(const char *path, spgo_error *err)
{
    (void)path;
    return unsupported(err);
}

spgo_code os_shared_open(const char *path, os_shared **shared, spgo_error *err)
{
    (void)path;
    *shared = NULL;
    return unsupported(err);
}

void *os_shared_memory(const os_shared *s, uint64_t *size)
{
    (void)s;
    *size = 0;
    return NULL;
}

spgo_code os_shared_write(os_shared *s, uint64_t off, const void *bytes, size_t size,
                          spgo_error *err)
{
    (void)s;
    (void)off;
    (void)bytes;
    (void)size;
    return unsupported(err);
}

void os_shared_close(os_shared *s)
{
    (void)s;
}
