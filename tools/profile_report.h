/* What spgo profile says besides its result: what was dropped and why, and how good it is. */
#ifndef PROFILE_REPORT_H
#define PROFILE_REPORT_H

#include <profile/profile.h>

#include "cli.h"

typedef struct profile_report {
    const cli_args *args;
    const samples_program *program;
    symbols *s;
    code_decoder *d;
    const profile_result *result;
    bool has_source_roots, quiet;
} profile_report;

/* Warnings and notes to standard error: shares, never a line for each sample. Returns CLI_OK, or
 * CLI_PARTIAL if the debug information is damaged. */
int profile_report_findings(const profile_report *r);

/* The report of --quality to standard output (1) or standard error (2); returns the exit code. */
int profile_report_quality(const profile_report *r, int fd);

#endif
