/* A folder of its own for a test, and child processes for what a test cannot survive itself. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka setup and teardown: creates the folder (in *state) and removes it with all that is in it.
 */
int test_folder_setup(void **state);
int test_folder_teardown(void **state);

/* "<folder>/<name>" in one of a few rotating buffers. */
const char *test_path(void **state, const char *name);

/* How many names are in the folder, "." and ".." apart? */
size_t test_folder_count(void **state);

/* The folder of this path, and those above it that are not there. */
void test_make_folders(const char *path);

void test_write_file(const char *path, const void *bytes, size_t len);

/* Reads up to `size` bytes of a file; returns how many there were. */
size_t test_read_file(const char *path, void *bytes, size_t size);

/* Runs `body(arg)` in a child process that ends with its result. Returns the wait status. What the
 * child writes to stderr comes back in `message` (NUL-terminated; may be NULL). */
int test_in_child(int (*body)(void *arg), void *arg, char *message, size_t message_size);

#endif
