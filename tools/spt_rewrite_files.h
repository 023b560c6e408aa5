/* What merge, filter and fold share: several SPT files in, one out, and a line on what became of
 * the hits. */
#ifndef SPT_REWRITE_FILES_H
#define SPT_REWRITE_FILES_H

#include <spgo/spt.h>

#include "cli.h"

/* Takes one opened input; called once per file, in order. */
typedef spgo_code (*spt_take_file)(void *ctx, const spgo_spt *spt, spgo_spt_tally *tally,
                                   spgo_error *err);

/* One rewrite in progress. */
typedef struct spt_rewrite {
    const cli_args *args;
    const char *output_path;
    os_output *output;
    spgo_spt_writer *writer;
    spgo_spt_tally tally;
    size_t file_count;
    bool quiet;
    bool damaged; /* an input was; the result is partial */
} spt_rewrite;

/* True, after saying so, if the output is a file that exists: where any number of inputs comes
 * before it, it may be an input and the output was forgotten. */
bool spt_rewrite_is_taken(const cli_args *args, const char *output_path);

/* Opens the output. False: everything is said and freed. */
bool spt_rewrite_begin(spt_rewrite *rw, const cli_args *args, const char *output_path, bool quiet);

/* Opens each file and hands it to take. False after a failure, said already; damage is no failure
 * but makes the exit code CLI_PARTIAL. Nothing of the inputs stays open. */
bool spt_rewrite_add(spt_rewrite *rw, const char *const *files, size_t count, spt_take_file take,
                     void *ctx);

/* Says that `code` of the library failed on file (NULL: on the output). */
void spt_rewrite_fail(spt_rewrite *rw, const char *file, const spgo_error *err);

/* Completes the output if `ok`, else leaves none; returns the exit code. */
int spt_rewrite_end(spt_rewrite *rw, bool ok);

#endif
