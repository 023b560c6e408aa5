/* Folders and child processes for tests: see test_folder.h. */
#include "test_folder.h"

#include "test_data.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int test_folder_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/spgo-test.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path))
        return -1;
    *state = strdup(path);
    return *state ? 0 : -1;
}

/* Calls `each` (may be NULL) for every name in the folder. */
static size_t walk(const char *folder, void (*each)(const char *path))
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (each)
            each(path);
        count++;
    }
    closedir(dir);
    return count;
}

static void remove_path(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        walk(path, remove_path);
    if (remove(path) != 0)
        print_message("cannot remove %s\n", path);
}

int test_folder_teardown(void **state)
{
    walk(*state, remove_path);
    int result = rmdir(*state);
    free(*state);
    return result;
}

const char *test_path(void **state, const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", (const char *)*state, name);
    return path;
}

size_t test_folder_count(void **state)
{
    return walk(*state, NULL);
}

void test_make_folders(const char *path)
{
    char part[4096];
    size_t len = strlen(path);
    assert_true(len < sizeof part);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        struct stat st;
        if (stat(part, &st) != 0)
            assert_int_equal(mkdir(part, 0700), 0);
    }
}

void test_write_file(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

size_t test_read_file(const char *path, void *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t len = fread(bytes, 1, size, f);
    fclose(f);
    return len;
}

static void read_message(int fd, char *message, size_t message_size)
{
    size_t len = 0;
    char chunk[256];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        for (ssize_t i = 0; i < n && message && len + 1 < message_size; i++)
            message[len++] = chunk[i];
    if (message)
        message[len] = '\0';
}

int test_in_child(int (*body)(void *arg), void *arg, char *message, size_t message_size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        _exit(body(arg));
    }
    close(fds[1]);
    read_message(fds[0], message, message_size);
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}
