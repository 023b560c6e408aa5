/*
 * Files in and out. Paths are UTF-8 on every system. The sentences of errors do not name the file:
 * whoever shows them puts its name before them ("out.spt: cannot be created").
 */
#ifndef OS_FILE_H
#define OS_FILE_H

#include <spgo/error.h>

/*
 * A whole input as bytes. A regular file is mapped read-only; a pipe, a FIFO, a device or "-"
 * (standard input) is first copied into an unnamed temporary file. A directory is an error. An
 * empty file gives an empty span.
 */
typedef struct os_input os_input;
spgo_code os_input_open(const char *path, os_input **in, spgo_error *err);
spgo_span os_input_bytes(const os_input *in);
void os_input_close(os_input *in); /* NULL is fine */

/* The bytes before `offset` will not be read again soon: their pages go back to the system, so
 * that a walk over a huge file stays small. Cheap to call often. Thread-safe. */
void os_input_release(os_input *in, uint64_t offset);

/* Tells the system that the file is about to be read from front to back. */
void os_input_sequential(os_input *in);

/*
 * An output file that is written beside its place and renamed when it is complete, so that an
 * interrupted run leaves the old file or none. A destination that exists and is no regular file
 * (a pipe, /dev/stdout), and "-" for standard output, gets the complete bytes at the commit.
 */
typedef struct os_output os_output;
spgo_code os_output_open(const char *path, os_output **out, spgo_error *err);
spgo_sink os_output_sink(os_output *out); /* append, patch, read; errors: os_output_commit */
uint64_t os_output_size(const os_output *out);

/* An output that is nobody's but this process's: a temporary file without a name, which is read
 * when it is complete. os_output_reread: *in holds its bytes, or the first error of any write is
 * returned; either way `out` is gone. */
spgo_code os_output_open_scratch(os_output **out, spgo_error *err);
spgo_code os_output_reread(os_output *out, os_input **in, spgo_error *err);

/* Finishes the file: SPGO_OK, or the first error of any write, and then nothing is left behind.
 * Either way `out` is gone. */
spgo_code os_output_commit(os_output *out, spgo_error *err);
void os_output_discard(os_output *out); /* NULL is fine */

/* Does the path name something that exists? */
bool os_file_exists(const char *path);

/* Is it a regular file with contents, so that reading it cannot block? (Files of /proc can, and
 * have no size.) */
bool os_is_regular_file(const char *path);

/* Do both paths name the same existing file? */
bool os_same_file(const char *a, const char *b);

#endif
