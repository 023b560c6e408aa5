/* What a command asks of the system besides files: its arguments, terminal, clock, processors. */
#ifndef OS_SYSTEM_H
#define OS_SYSTEM_H

#include <spgo/error.h>

/* Makes argv UTF-8 and the standard streams binary, lets broken pipes be write errors, removes
 * unfinished outputs when a signal ends the program, and turns the loss of a mapped input (a file
 * that is cut while it is read) into a message and exit code 1. Call first in main. May replace
 * *argc and *argv. */
void os_start(int *argc, char ***argv);

bool os_is_terminal(int fd); /* 1 standard output, 2 standard error */
uint64_t os_clock_ns(void);  /* monotonic */
unsigned os_cpu_count(void); /* processors this process may use; at least 1 */

/* A sink to standard output or standard error (fd 1 or 2): append only. */
spgo_sink os_stream_sink(int fd);

/* errno of the last refused write through an os_stream_sink, 0 if none. */
int os_stream_error(void);

#endif
