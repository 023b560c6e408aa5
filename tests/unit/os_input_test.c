/* Inputs: what can be read, how each refusal is put, and that a walk over a file stays small. */
#include "test_data.h"
#include "test_folder.h"
#include "test_sanitizers.h"

#include <os/file.h>
#include <os/system.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1024 * 1024, STREAM_SIZE = 700 * 1000 };

static uint8_t stream_byte(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

static void assert_stream(spgo_span bytes)
{
    assert_int_equal(bytes.len, STREAM_SIZE);
    for (size_t i = 0; i < bytes.len; i++)
        assert_int_equal(bytes.ptr[i], stream_byte(i));
}

/* Starts a child that writes the stream into `path`, or into `fd` if path is NULL. */
static pid_t start_writer(const char *path, int fd)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    int out = path ? open(path, O_WRONLY) : fd;
    for (size_t i = 0; i < STREAM_SIZE; i++) {
        uint8_t byte = stream_byte(i);
        static uint8_t chunk[1000];
        chunk[i % sizeof chunk] = byte;
        if ((i + 1) % sizeof chunk == 0 && write(out, chunk, sizeof chunk) != sizeof chunk)
            _exit(1);
    }
    _exit(0);
}

static void assert_exited(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_regular_file_is_its_bytes(void **state)
{
    const char *path = test_path(state, "in");
    test_write_file(path, "abc", 3);
    os_input *in;
    assert_int_equal(os_input_open(path, &in, NULL), SPGO_OK);
    spgo_span bytes = os_input_bytes(in);
    assert_int_equal(bytes.len, 3);
    assert_memory_equal(bytes.ptr, "abc", 3);
    os_input_close(in);
}

static void an_empty_file_is_an_empty_span(void **state)
{
    const char *path = test_path(state, "in");
    test_write_file(path, "", 0);
    os_input *in;
    assert_int_equal(os_input_open(path, &in, NULL), SPGO_OK);
    assert_int_equal(os_input_bytes(in).len, 0);
    os_input_sequential(in);
    os_input_release(in, 100);
    os_input_close(in);
}

static void assert_refused(const char *path, spgo_code code, int sys, const char *says)
{
    os_input *in;
    spgo_error err;
    assert_int_equal(os_input_open(path, &in, &err), code);
    assert_null(in);
    assert_int_equal(err.code, code);
    assert_int_equal(err.sys_errno, sys);
    assert_null(strstr(err.sentence, path)); /* the caller puts it before the sentence */
    assert_non_null(strstr(err.sentence, says));
}

static void a_directory_is_refused(void **state)
{
    assert_refused(*state, SPGO_USAGE, 0, "is a directory");
}

static void a_missing_file_is_refused(void **state)
{
    assert_refused(test_path(state, "none"), SPGO_IO, ENOENT, "check the spelling");
}

static int open_as_nobody(void *arg)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        return 2;
    os_input *in;
    spgo_error err;
    return os_input_open(arg, &in, &err) == SPGO_IO && err.sys_errno == EACCES &&
                   strstr(err.sentence, "read permission")
               ? 0
               : 1;
}

static void a_forbidden_file_is_refused(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "in"));
    test_write_file(path, "abc", 3);
    chmod(*state, 0755);
    chmod(path, 0200);
    assert_int_equal(test_in_child(open_as_nobody, path, NULL, 0), 0);
}

static void a_fifo_is_read_to_its_end(void **state)
{
    const char *path = test_path(state, "fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    pid_t writer = start_writer(path, -1);
    os_input *in;
    assert_int_equal(os_input_open(path, &in, NULL), SPGO_OK);
    assert_stream(os_input_bytes(in));
    os_input_close(in);
    assert_exited(writer);
}

static void a_file_that_claims_to_be_empty_is_read(void **state)
{
    (void)state;
    if (access("/proc/self/maps", R_OK) != 0)
        skip();
    os_input *in;
    assert_int_equal(os_input_open("/proc/self/maps", &in, NULL), SPGO_OK);
    assert_true(os_input_bytes(in).len > 0);
    os_input_close(in);
}

static int open_without_temp_folder(void *arg)
{
    os_input *in;
    spgo_error err;
    int fds[2];
    (void)arg;
    setenv("TMPDIR", "/none/such", 1);
    if (pipe(fds) != 0 || dup2(fds[0], STDIN_FILENO) != STDIN_FILENO)
        return 2;
    return os_input_open("-", &in, &err) == SPGO_IO && err.sys_errno == ENOENT &&
                   strstr(err.sentence, "/none/such: ") && strstr(err.sentence, "; set TMPDIR")
               ? 0
               : 1;
}

static void a_pipe_without_a_temporary_folder_is_refused(void **state)
{
    (void)state;
    assert_int_equal(test_in_child(open_without_temp_folder, NULL, NULL, 0), 0);
}

static int open_on_a_full_disk(void *arg)
{
    os_input *in;
    spgo_error err;
    struct rlimit limit = {STREAM_SIZE / 2, STREAM_SIZE / 2};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    return os_input_open(arg, &in, &err) == SPGO_IO && err.sys_errno == EFBIG &&
                   strstr(err.sentence, "more space")
               ? 0
               : 1;
}

static void a_temporary_file_that_cannot_grow_is_an_error(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "fifo"));
    assert_int_equal(mkfifo(path, 0600), 0);
    signal(SIGPIPE, SIG_IGN);
    pid_t writer = start_writer(path, -1);
    assert_int_equal(test_in_child(open_on_a_full_disk, path, NULL, 0), 0);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
}

/* Opens "-" with `fd` as standard input. */
static os_input *open_stdin(int fd)
{
    int saved = dup(STDIN_FILENO);
    dup2(fd, STDIN_FILENO);
    os_input *in;
    spgo_code code = os_input_open("-", &in, NULL);
    dup2(saved, STDIN_FILENO);
    close(saved);
    assert_int_equal(code, SPGO_OK);
    return in;
}

static void a_dash_is_piped_standard_input(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t writer = start_writer(NULL, fds[1]);
    close(fds[1]);
    os_input *in = open_stdin(fds[0]);
    assert_stream(os_input_bytes(in));
    os_input_close(in);
    close(fds[0]);
    assert_exited(writer);
}

static void a_nonblocking_pipe_is_waited_for(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t writer = start_writer(NULL, fds[1]);
    close(fds[1]);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    os_input *in = open_stdin(fds[0]);
    assert_stream(os_input_bytes(in));
    os_input_close(in);
    close(fds[0]);
    assert_exited(writer);
}

static void standard_input_starts_where_it_stands(void **state)
{
    const char *path = test_path(state, "in");
    test_write_file(path, "headtail", 8);
    int fd = open(path, O_RDONLY);
    os_input *in = open_stdin(fd);
    assert_int_equal(os_input_bytes(in).len, 8);
    os_input_close(in);

    lseek(fd, 4, SEEK_SET);
    in = open_stdin(fd);
    assert_int_equal(os_input_bytes(in).len, 4);
    assert_memory_equal(os_input_bytes(in).ptr, "tail", 4);
    os_input_close(in);
    close(fd);
}

static void more_than_4_gib_can_be_read(void **state)
{
    const char *path = test_path(state, "huge");
    uint64_t size = UINT64_C(5) << 30;
    uint64_t at = (UINT64_C(4) << 30) + 7;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (ftruncate(fd, (off_t)size) != 0) {
        close(fd);
        skip();
    }
    assert_int_equal(pwrite(fd, "x", 1, (off_t)at), 1);
    close(fd);
    os_input *in;
    assert_int_equal(os_input_open(path, &in, NULL), SPGO_OK);
    assert_true(os_input_bytes(in).len == size);
    assert_int_equal(os_input_bytes(in).ptr[at], 'x');
    os_input_close(in);
}

static size_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        skip();
    unsigned long total, resident;
    int n = fscanf(f, "%lu %lu", &total, &resident);
    fclose(f);
    assert_int_equal(n, 2);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* The most memory a walk takes on top of what there was before. */
static size_t walk(os_input *in, bool releasing)
{
    size_t before = resident_bytes();
    size_t most = before;
    volatile uint8_t sum = 0;
    spgo_span bytes = os_input_bytes(in);
    for (size_t at = 0; at < bytes.len; at += 4096) {
        sum = (uint8_t)(sum + bytes.ptr[at]);
        if (releasing)
            os_input_release(in, at);
        if (at % MIB == 0 && resident_bytes() > most)
            most = resident_bytes();
    }
    return most - before;
}

static void released_pages_keep_every_walk_small(void **state)
{
    if (TEST_UNDER_TSAN)
        skip(); /* what it keeps of each page would be counted too */
    const char *path = test_path(state, "in");
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 128 * MIB), 0);
    close(fd);
    os_input *in;
    assert_int_equal(os_input_open(path, &in, NULL), SPGO_OK);
    os_input_sequential(in);
    assert_true(walk(in, true) < 48 * MIB);
    assert_true(walk(in, true) < 48 * MIB);
    assert_true(walk(in, false) > 64 * MIB); /* or the two above have shown nothing */
    os_input_close(in);
}

static int read_a_file_that_is_cut(void *arg)
{
    int argc = 0;
    char **argv = NULL;
    os_start(&argc, &argv);
    os_input *in;
    if (os_input_open(arg, &in, NULL) != SPGO_OK || truncate(arg, 10) != 0)
        return 3;
    volatile uint8_t byte = os_input_bytes(in).ptr[2 * MIB];
    return byte == 0 ? 4 : 5;
}

static void a_file_cut_while_it_is_read_ends_in_a_message(void **state)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", test_path(state, "in"));
    static uint8_t bytes[3 * MIB];
    test_write_file(path, bytes, sizeof bytes);
    char message[1024];
    int status = test_in_child(read_a_file_that_is_cut, path, message, sizeof message);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(message, "the input file became shorter while it was being read"));
}

static void existence_and_identity_of_files(void **state)
{
    const char *a = test_path(state, "a");
    const char *b = test_path(state, "b");
    const char *c = test_path(state, "c");
    test_write_file(a, "x", 1);
    test_write_file(c, "x", 1);
    assert_int_equal(link(a, b), 0);
    assert_true(os_file_exists(a));
    assert_true(os_same_file(a, b));
    assert_false(os_same_file(a, c));
    assert_int_equal(unlink(c), 0);
    assert_false(os_file_exists(c));
    assert_false(os_same_file(a, c));
    assert_false(os_same_file(c, c));
    assert_true(os_is_regular_file(a));
    test_write_file(c, "", 0);
    assert_false(os_is_regular_file(c));
    assert_false(os_is_regular_file("/proc/self/status"));
    assert_false(os_is_regular_file("/dev/null"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_folder_setup, test_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_regular_file_is_its_bytes),
        TEST(an_empty_file_is_an_empty_span),
        TEST(a_directory_is_refused),
        TEST(a_missing_file_is_refused),
        TEST(a_forbidden_file_is_refused),
        TEST(a_fifo_is_read_to_its_end),
        TEST(a_file_that_claims_to_be_empty_is_read),
        TEST(a_pipe_without_a_temporary_folder_is_refused),
        TEST(a_temporary_file_that_cannot_grow_is_an_error),
        TEST(a_dash_is_piped_standard_input),
        TEST(a_nonblocking_pipe_is_waited_for),
        TEST(standard_input_starts_where_it_stands),
        TEST(more_than_4_gib_can_be_read),
        TEST(released_pages_keep_every_walk_small),
        TEST(a_file_cut_while_it_is_read_ends_in_a_message),
        TEST(existence_and_identity_of_files),
    };
    return cmocka_run_group_tests_name("os_input", tests, NULL, NULL);
}
