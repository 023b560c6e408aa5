/* The SPP files that a command line names, as one session. */
#ifndef PROBE_FILES_H
#define PROBE_FILES_H

#include <probe/session.h>

#include "cli.h"

typedef struct probe_files {
    os_input **inputs;
    size_t count, capacity;
    probe_session *session; /* NULL: nothing could be opened; all is said */
} probe_files;

/* The paths that operands name: files themselves, and all *.spp of folders in the order of
 * their names; malloc'd list of texts in args->memory. Returns an exit code. */
int probe_paths(const cli_args *args, const char *const *operands, size_t operand_count,
                const char ***paths, size_t *count);

/* Reads the files that `operands` name, as probe_paths. With `names`, functions get them. Returns
 * an exit code; the session is closed for adding. */
int probe_files_open(const cli_args *args, const char *const *operands, size_t operand_count,
                     const probe_filter *filter, const probe_names_opts *names, probe_files *out);
void probe_files_close(probe_files *f);

#endif
