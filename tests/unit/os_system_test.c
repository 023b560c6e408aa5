/* The standard streams, the clock and the processors. */
#include "test_data.h"
#include "test_folder.h"

#include <os/file.h>
#include <os/system.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void the_clock_counts_nanoseconds(void **state)
{
    (void)state;
    uint64_t start = os_clock_ns();
    usleep(20000);
    uint64_t elapsed_ns = os_clock_ns() - start;
    assert_true(elapsed_ns >= 20000000);
    assert_true(elapsed_ns < UINT64_C(60) * 1000000000);
}

static int count_on_one_cpu(void *arg)
{
    cpu_set_t all, one;
    (void)arg;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return 1;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    if (os_cpu_count() != (unsigned)CPU_COUNT(&all) || sched_setaffinity(0, sizeof one, &one) != 0)
        return 2;
    return os_cpu_count() == 1 ? 0 : 3;
}

static void processors_are_those_this_process_may_use(void **state)
{
    (void)state;
    assert_int_equal(test_in_child(count_on_one_cpu, NULL, NULL, 0), 0);
}

static int look_at_terminals(void *arg)
{
    (void)arg;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return 77;
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (terminal < 0)
        return 77;
    if (os_is_terminal(2)) /* a pipe */
        return 1;
    dup2(terminal, 2);
    return os_is_terminal(2) ? 0 : 2;
}

static void a_terminal_is_told_from_a_pipe(void **state)
{
    (void)state;
    int status = test_in_child(look_at_terminals, NULL, NULL, 0);
    if (status == 77 << 8)
        skip();
    assert_int_equal(status, 0);
}

static int write_both_streams(void *arg)
{
    int fd = open(arg, O_WRONLY | O_CREAT, 0600);
    dup2(fd, STDOUT_FILENO);
    spgo_sink out = os_stream_sink(1);
    spgo_sink err = os_stream_sink(2);
    bool written = out.write(out.ctx, "results", 7) && err.write(err.ctx, "messages", 8);
    return written && os_stream_error() == 0 && !out.patch ? 0 : 1;
}

static void streams_take_their_own_bytes(void **state)
{
    char path[1024], message[64], bytes[64];
    snprintf(path, sizeof path, "%s", test_path(state, "stdout"));
    assert_int_equal(test_in_child(write_both_streams, path, message, sizeof message), 0);
    assert_string_equal(message, "messages");
    assert_int_equal(test_read_file(path, bytes, sizeof bytes), 7);
    assert_memory_equal(bytes, "results", 7);
}

static int write_to_nobody(void *arg)
{
    (void)arg;
    int argc = 0;
    char **argv = NULL;
    os_start(&argc, &argv);
    int fds[2];
    if (pipe(fds) != 0)
        return 1;
    close(fds[0]);
    dup2(fds[1], STDOUT_FILENO);
    spgo_sink out = os_stream_sink(1);
    return !out.write(out.ctx, "x", 1) && os_stream_error() == EPIPE ? 0 : 2;
}

static void a_reader_that_went_away_is_an_error_and_no_signal(void **state)
{
    (void)state;
    assert_int_equal(test_in_child(write_to_nobody, NULL, NULL, 0), 0);
}

static int start_with_closed_stdout(void *arg)
{
    close(STDOUT_FILENO);
    int argc = 0;
    char **argv = NULL;
    os_start(&argc, &argv);
    os_output *file;
    if (os_output_open(arg, &file, NULL) != SPGO_OK)
        return 1;
    spgo_sink out = os_stream_sink(1);
    if (out.write(out.ctx, "results", 7) || os_stream_error() != EBADF)
        return 2;
    return os_output_commit(file, NULL) == SPGO_OK ? 0 : 3;
}

static void results_never_end_up_in_an_output_file(void **state)
{
    char path[1024], bytes[64];
    snprintf(path, sizeof path, "%s", test_path(state, "out"));
    assert_int_equal(test_in_child(start_with_closed_stdout, path, NULL, 0), 0);
    assert_int_equal(test_read_file(path, bytes, sizeof bytes), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, test_folder_setup, test_folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_clock_counts_nanoseconds),
        TEST(processors_are_those_this_process_may_use),
        TEST(a_terminal_is_told_from_a_pipe),
        TEST(streams_take_their_own_bytes),
        TEST(a_reader_that_went_away_is_an_error_and_no_signal),
        TEST(results_never_end_up_in_an_output_file),
    };
    return cmocka_run_group_tests_name("os_system", tests, NULL, NULL);
}
