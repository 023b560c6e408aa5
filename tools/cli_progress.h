/* How far a long run is, on one line of a terminal; nothing when standard error is a pipe. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_progress {
    const char *tool;
    bool is_shown;
    uint64_t next_ns; /* when to print again */
} cli_progress;

cli_progress cli_progress_start(const char *tool);
void cli_progress_show(void *progress, uint64_t done, uint64_t total); /* cheap to call often */
void cli_progress_end(cli_progress *p);                                /* wipes the line */

#endif
