/* The inputs of spgo profile: SPT files as they are, ETL and perf.data traces made into SPT files
 * that nobody sees. */
#ifndef PROFILE_INPUTS_H
#define PROFILE_INPUTS_H

#include <profile/samples.h>

#include "cli.h"

/* An input that is open. */
typedef struct profile_input {
    const char *path; /* of several traces that were read together, the first */
    os_input *in;
    spgo_spt *spt;
    uint64_t weight;
} profile_input;

typedef struct profile_inputs {
    profile_input *files;
    size_t file_count;
    samples samples; /* of all, each times its weight */
    bool damaged;    /* some input was; said already */
} profile_inputs;

/* image_dirs: where the images of perf.data traces may be. weights: one for each path. False after
 * a failure, said already; free in either case. */
bool profile_inputs_read(const cli_args *args, const char *const *paths, const uint64_t *weights,
                         size_t path_count, const char *const *image_dirs, size_t image_dir_count,
                         profile_inputs *inputs);
void profile_inputs_free(profile_inputs *inputs);

/*
 * The program of the samples that is wanted: the one that an image with this id is, or without an
 * id (NULL) the only one, or the only one with this name (a pattern; NULL: any). is_image: there is
 * an image already, with that id or none. NULL after a message that lists what there is, when there
 * is none or more than one, or when samples of other builds of the same image are among the inputs.
 * force: ids need not match, and other builds are left out.
 */
const samples_program *profile_inputs_program(const cli_args *args, const samples *s, bool is_image,
                                              const spgo_image_id *id, const char *name,
                                              bool force);

#endif
