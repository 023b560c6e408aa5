/* Outputs: complete or absent, whatever the disk, the user or the caller does in between. */
#include "test_data.h"
#include "test_folder.h"

#include <os/file.h>
#include <os/system.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1024 * 1024 };

static os_output *open_or_fail(const char *path)
{
    os_output *out;
    assert_int_equal(os_output_open(path, &out, NULL), SPGO_OK);
    return out;
}

static bool put(os_output *out, const char *text)
{
    spgo_sink sink = os_output_sink(out);
    return sink.write(sink.ctx, text, strlen(text));
}

static void assert_content(const char *path, const char *text)
{
    char bytes[256];
    size_t len = test_read_file(path, bytes, sizeof bytes);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(bytes, text, len);
}

static void the_old_file_stays_until_the_commit(void **state)
{
    const char *path = test_path(state, "out");
    test_write_file(path, "old", 3);
    os_output *out = open_or_fail(path);
    assert_true(put(out, "new "));
    assert_true(put(out, "content"));
    assert_int_equal(os_output_size(out), 11);
    assert_content(path, "old");
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    assert_content(path, "new content");
    assert_int_equal(test_folder_count(state), 1);
}

static void a_discarded_output_leaves_what_was_there(void **state)
{
    const char *path = test_path(state, "out");
    test_write_file(path, "old", 3);
    os_output *out = open_or_fail(path);
    assert_true(put(out, "new"));
    assert_int_equal(test_folder_count(state), 2);
    os_output_discard(out);
    assert_content(path, "old");
    assert_int_equal(test_folder_count(state), 1);
}

static void a_relative_name_without_a_folder_is_fine(void **state)
{
    char old[4096];
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir(*state), 0);
    os_output *out = open_or_fail("plain");
    assert_true(put(out, "x"));
    spgo_code code = os_output_commit(out, NULL);
    assert_int_equal(chdir(old), 0);
    assert_int_equal(code, SPGO_OK);
    assert_content(test_path(state, "plain"), "x");
}

static void the_longest_name_is_fine(void **state)
{
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    os_output *out = open_or_fail(test_path(state, name));
    assert_true(put(out, "x"));
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    assert_content(test_path(state, name), "x");
}

/* Writes `size` bytes of a pattern in chunks of `chunk`. */
static void put_pattern(os_output *out, size_t size, size_t chunk)
{
    spgo_sink sink = os_output_sink(out);
    uint8_t *bytes = malloc(chunk);
    assert_non_null(bytes);
    for (size_t at = 0; at < size; at += chunk) {
        for (size_t i = 0; i < chunk; i++)
            bytes[i] = (uint8_t)((at + i) % 253);
        assert_true(sink.write(sink.ctx, bytes, chunk));
    }
    free(bytes);
}

static void assert_pattern_but(const char *path, size_t size, size_t from, const uint8_t *other,
                               size_t other_len)
{
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    assert_int_equal(test_read_file(path, bytes, size + 1), size);
    for (size_t i = 0; i < size; i++) {
        bool patched = i >= from && i < from + other_len;
        assert_int_equal(bytes[i], patched ? other[i - from] : (uint8_t)(i % 253));
    }
    free(bytes);
}

/* Appends 3 * 400000 bytes, so that the first MiB or so is in the file and the rest is not, then
 * patches and reads back 1000 bytes at `at`. */
static void patch_and_read_back(void **state, uint64_t at)
{
    const char *path = test_path(state, "out");
    os_output *out = open_or_fail(path);
    put_pattern(out, 1200000, 400000);
    spgo_sink sink = os_output_sink(out);
    uint8_t patch[1000], back[1000];
    memset(patch, 0xff, sizeof patch);
    assert_true(sink.patch(sink.ctx, at, patch, sizeof patch));
    assert_true(sink.read(sink.ctx, at, back, sizeof back));
    assert_memory_equal(back, patch, sizeof patch);
    assert_int_equal(os_output_size(out), 1200000);
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    assert_pattern_but(path, 1200000, at, patch, sizeof patch);
}

static void a_patch_in_the_file(void **state)
{
    patch_and_read_back(state, 0);
}

static void a_patch_in_the_buffer(void **state)
{
    patch_and_read_back(state, 1199000);
}

static void a_patch_across_file_and_buffer(void **state)
{
    patch_and_read_back(state, 799500);
}

static void writes_larger_than_the_buffer_keep_their_order(void **state)
{
    const char *path = test_path(state, "out");
    os_output *out = open_or_fail(path);
    put_pattern(out, 253 * 20000, 253 * 10000); /* 2.5 MB each */
    put_pattern(out, 253, 253);
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    assert_pattern_but(path, 253 * 20001, 0, NULL, 0);
}

static void a_patch_behind_the_end_is_an_error(void **state)
{
    os_output *out = open_or_fail(test_path(state, "out"));
    assert_true(put(out, "abc"));
    spgo_sink sink = os_output_sink(out);
    assert_true(sink.patch(sink.ctx, 3, "", 0));
    assert_false(sink.patch(sink.ctx, 2, "xx", 2));
    assert_false(put(out, "more"));
    spgo_error err;
    assert_int_equal(os_output_commit(out, &err), SPGO_IO);
    assert_int_equal(err.sys_errno, EINVAL);
    assert_int_equal(test_folder_count(state), 0);
}

static void a_new_file_has_the_mode_of_the_umask(void **state)
{
    mode_t old = umask(027);
    os_output *out = open_or_fail(test_path(state, "out"));
    umask(old);
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    struct stat st;
    assert_int_equal(stat(test_path(state, "out"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

static void a_replaced_file_keeps_its_mode(void **state)
{
    const char *path = test_path(state, "out");
    test_write_file(path, "old", 3);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(os_output_commit(open_or_fail(path), NULL), SPGO_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(st.st_mode & 0777, 0604);
}

static void a_symbolic_link_stays_one(void **state)
{
    test_write_file(test_path(state, "file"), "old", 3);
    assert_int_equal(symlink("file", test_path(state, "link")), 0);
    os_output *out = open_or_fail(test_path(state, "link"));
    assert_true(put(out, "new"));
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    struct stat st;
    assert_int_equal(lstat(test_path(state, "link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_content(test_path(state, "file"), "new");
}

static void assert_refused(const char *path, spgo_code code, int sys, const char *says)
{
    os_output *out;
    spgo_error err;
    assert_int_equal(os_output_open(path, &out, &err), code);
    assert_null(out);
    assert_int_equal(err.sys_errno, sys);
    if (*path) /* the caller puts it before the sentence */
        assert_null(strstr(err.sentence, path));
    assert_non_null(strstr(err.sentence, says));
}

static void destinations_that_cannot_be_are_refused_at_once(void **state)
{
    assert_refused(*state, SPGO_USAGE, 0, "is a directory");
    assert_refused("", SPGO_USAGE, 0, "is empty");
    assert_refused(test_path(state, "none/out"), SPGO_IO, ENOENT, "choose a folder");
    assert_int_equal(test_folder_count(state), 0);
}

static int write_as_nobody(void *arg)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        return 2;
    os_output *out;
    spgo_error err;
    return os_output_open(arg, &out, &err) == SPGO_IO && err.sys_errno == EACCES ? 0 : 1;
}

static void a_write_protected_file_is_not_replaced(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "out"));
    test_write_file(path, "old", 3);
    chmod(path, 0444);
    chmod(*state, 0777);
    assert_int_equal(test_in_child(write_as_nobody, path, NULL, 0), 0);
    assert_content(path, "old");
    assert_int_equal(test_folder_count(state), 1);
}

static void a_device_gets_the_bytes_at_the_commit(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    os_output *out = open_or_fail("/dev/full");
    assert_true(put(out, "text"));
    spgo_error err;
    assert_int_equal(os_output_commit(out, &err), SPGO_IO);
    assert_int_equal(err.sys_errno, ENOSPC);
    assert_memory_equal(err.sentence, "cannot be written: ", 19);
    assert_non_null(strstr(err.sentence, "; free some space"));
    out = open_or_fail("/dev/null");
    assert_true(put(out, "text"));
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
}

static void a_fifo_gets_the_patched_bytes(void **state)
{
    const char *path = test_path(state, "fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    os_output *out = open_or_fail(path);
    assert_true(put(out, "text"));
    spgo_sink sink = os_output_sink(out);
    assert_true(sink.patch(sink.ctx, 0, "n", 1));
    assert_int_equal(os_output_commit(out, NULL), SPGO_OK);
    char bytes[8];
    assert_int_equal(read(reader, bytes, sizeof bytes), 4);
    assert_memory_equal(bytes, "next", 4);
    close(reader);
}

static int write_to_dash(void *arg)
{
    int fd = open(arg, O_WRONLY | O_CREAT, 0600);
    dup2(fd, STDOUT_FILENO);
    os_output *out;
    if (os_output_open("-", &out, NULL) != SPGO_OK || !put(out, "dash"))
        return 1;
    return os_output_commit(out, NULL) == SPGO_OK ? 0 : 1;
}

static void a_dash_is_standard_output(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "stdout"));
    assert_int_equal(test_in_child(write_to_dash, path, NULL, 0), 0);
    assert_content(path, "dash");
}

/* Writes MiB after MiB until one is refused, and commits: the number of accepted ones, or 100 if
 * the commit went wrong about it. */
static int write_until_refused(const char *path, int expected_errno)
{
    static uint8_t mib[MIB];
    os_output *out;
    if (os_output_open(path, &out, NULL) != SPGO_OK)
        return 101;
    spgo_sink sink = os_output_sink(out);
    int accepted = 0;
    while (accepted < 50 && sink.write(sink.ctx, mib, sizeof mib))
        accepted++;
    if (sink.write(sink.ctx, mib, 1) || sink.patch(sink.ctx, 0, mib, 1))
        return 102; /* the error must stick */
    spgo_error err;
    if (os_output_commit(out, &err) != SPGO_IO || err.sys_errno != expected_errno ||
        strstr(err.sentence, path))
        return 103;
    return accepted;
}

static int write_over_the_limit(void *arg)
{
    int argc = 0;
    char **argv = NULL;
    os_start(&argc, &argv);
    struct rlimit limit = {3 * MIB, 3 * MIB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 104;
    return write_until_refused(arg, EFBIG);
}

static void a_write_over_the_file_size_limit_fails_the_commit(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "out"));
    test_write_file(path, "old", 3);
    int status = test_in_child(write_over_the_limit, path, NULL, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_content(path, "old");
    assert_int_equal(test_folder_count(state), 1);
}

static void a_full_disk_fails_the_commit(void **state)
{
    if (mount("tmpfs", *state, "tmpfs", 0, "size=2m") != 0) {
        print_message("skipped: mounting a small disk needs root\n");
        skip();
    }
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "out"));
    int accepted = write_until_refused(path, ENOSPC);
    size_t left = test_folder_count(state);
    assert_int_equal(umount2(*state, MNT_DETACH), 0);
    assert_int_equal(accepted, 2);
    assert_int_equal(left, 0);
}

struct interruption {
    const char *path;
    int signal_number;
};

static int write_and_be_interrupted(void *arg)
{
    const struct interruption *i = arg;
    int argc = 0;
    char **argv = NULL;
    signal(i->signal_number, SIG_DFL);
    os_start(&argc, &argv);
    os_output *out;
    if (os_output_open(i->path, &out, NULL) != SPGO_OK)
        return 1;
    put_pattern(out, 3 * MIB, MIB);
    raise(i->signal_number);
    return 2;
}

static void an_interrupted_run_leaves_the_old_file(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "out"));
    test_write_file(path, "old", 3);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct interruption interruption = {path, signals[i]};
        int status = test_in_child(write_and_be_interrupted, &interruption, NULL, 0);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        assert_content(path, "old");
        assert_int_equal(test_folder_count(state), 1);
    }
}

static int write_with_sigint_ignored(void *arg)
{
    int argc = 0;
    char **argv = NULL;
    signal(SIGINT, SIG_IGN);
    os_start(&argc, &argv);
    os_output *out;
    if (os_output_open(arg, &out, NULL) != SPGO_OK)
        return 1;
    raise(SIGINT);
    return put(out, "x") && os_output_commit(out, NULL) == SPGO_OK ? 0 : 2;
}

static void an_ignored_signal_stays_ignored(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "out"));
    assert_int_equal(test_in_child(write_with_sigint_ignored, path, NULL, 0), 0);
    assert_content(path, "x");
}

static void too_many_open_outputs_are_an_error(void **state)
{
    os_output *outs[65];
    char name[16];
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "out%d", i);
        outs[i] = open_or_fail(test_path(state, name));
    }
    spgo_error err;
    assert_int_equal(os_output_open(test_path(state, "out64"), &outs[64], &err), SPGO_LIMIT);
    assert_null(outs[64]);
    for (int i = 0; i < 64; i++)
        os_output_discard(outs[i]);
    assert_int_equal(test_folder_count(state), 0);
    os_output_discard(open_or_fail(test_path(state, "again")));
}

static void a_scratch_file_is_read_back(void **state)
{
    (void)state;
    os_output *out;
    os_input *in;
    assert_int_equal(os_output_open_scratch(&out, NULL), SPGO_OK);
    assert_true(put(out, "head tail"));
    spgo_sink sink = os_output_sink(out);
    assert_true(sink.patch(sink.ctx, 0, "HEAD", 4));
    assert_int_equal(os_output_reread(out, &in, NULL), SPGO_OK);
    spgo_span bytes = os_input_bytes(in);
    assert_int_equal(bytes.len, 9);
    assert_memory_equal(bytes.ptr, "HEAD tail", 9);
    os_input_close(in);
}

static void a_scratch_file_may_be_empty(void **state)
{
    (void)state;
    os_output *out;
    os_input *in;
    assert_int_equal(os_output_open_scratch(&out, NULL), SPGO_OK);
    assert_int_equal(os_output_reread(out, &in, NULL), SPGO_OK);
    assert_int_equal(os_input_bytes(in).len, 0);
    os_input_close(in);
}

static void a_scratch_file_without_a_folder_says_so(void **state)
{
    (void)state;
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    os_output *out;
    spgo_error err;
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    assert_int_equal(os_output_open_scratch(&out, &err), SPGO_IO);
    assert_non_null(strstr(err.sentence, "set TMPDIR"));
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_folder_setup, test_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_scratch_file_is_read_back),
        TEST(a_scratch_file_may_be_empty),
        TEST(a_scratch_file_without_a_folder_says_so),
        TEST(the_old_file_stays_until_the_commit),
        TEST(a_discarded_output_leaves_what_was_there),
        TEST(a_relative_name_without_a_folder_is_fine),
        TEST(the_longest_name_is_fine),
        TEST(a_patch_in_the_file),
        TEST(a_patch_in_the_buffer),
        TEST(a_patch_across_file_and_buffer),
        TEST(writes_larger_than_the_buffer_keep_their_order),
        TEST(a_patch_behind_the_end_is_an_error),
        TEST(a_new_file_has_the_mode_of_the_umask),
        TEST(a_replaced_file_keeps_its_mode),
        TEST(a_symbolic_link_stays_one),
        TEST(destinations_that_cannot_be_are_refused_at_once),
        TEST(a_write_protected_file_is_not_replaced),
        TEST(a_device_gets_the_bytes_at_the_commit),
        TEST(a_fifo_gets_the_patched_bytes),
        TEST(a_dash_is_standard_output),
        TEST(a_write_over_the_file_size_limit_fails_the_commit),
        TEST(a_full_disk_fails_the_commit),
        TEST(an_interrupted_run_leaves_the_old_file),
        TEST(an_ignored_signal_stays_ignored),
        TEST(too_many_open_outputs_are_an_error),
    };
    return cmocka_run_group_tests_name("os_output", tests, NULL, NULL);
}
