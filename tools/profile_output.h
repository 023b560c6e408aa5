/* The forms in which spgo profile gives its result, and writing one of them to its file. */
#ifndef PROFILE_OUTPUT_H
#define PROFILE_OUTPUT_H

#include <profile/profile.h>

#include "profile_inputs.h"

typedef enum profile_output_format {
    PROFILE_TEXT,
    PROFILE_EXTBINARY,
    PROFILE_UNSYMBOLIZED,
    PROFILE_PERF_SCRIPT,
    PROFILE_AUTOFDO,
    PROFILE_BOLT,
    PROFILE_PPROF,
    PROFILE_FOLDED,
    PROFILE_SPEEDSCOPE
} profile_output_format;

/* By format. */
const char *const *profile_output_names(size_t *count);

typedef struct profile_output {
    const cli_args *args;
    profile_output_format format;
    const char *path;
    const profile_inputs *inputs;
    const samples_program *program;
    symbols *s;
    code_decoder *d;
    const profile_result *result;
} profile_output;

/* Returns the exit code; a failure is said and leaves no file. */
int profile_output_write(const profile_output *o);

#endif
