/* The progress line: see cli_progress.h. */
#include "cli_progress.h"

#include <os/system.h>

#include <stdio.h>

enum { STANDARD_ERROR = 2, INTERVAL_NS = 200000000 };

cli_progress cli_progress_start(const char *tool)
{
    return (cli_progress){.tool = tool,
                          .is_shown = os_is_terminal(STANDARD_ERROR),
                          .next_ns = os_clock_ns() + 2 * (uint64_t)INTERVAL_NS};
}

void cli_progress_show(void *progress, uint64_t done, uint64_t total)
{
    cli_progress *p = progress;
    if (!p->is_shown || os_clock_ns() < p->next_ns)
        return;
    p->next_ns = os_clock_ns() + INTERVAL_NS;
    unsigned percent = total ? (unsigned)(100.0 * (double)done / (double)total) : 100;
    fprintf(stderr, "\r%s: %3u %%", p->tool, percent);
    fflush(stderr);
}

void cli_progress_end(cli_progress *p)
{
    if (p->is_shown)
        fprintf(stderr, "\r%*s\r", 40, "");
    fflush(stderr);
}
