/* Opening and adding up inputs, and choosing a program: see profile_inputs.h. */
#include "profile_inputs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <aggregate/aggregate.h>
#include <base/guid.h>
#include <base/text.h>
#include <format/elf/elf.h>
#include <format/etl/etl.h>
#include <format/pdb/pdb.h>
#include <format/pe/pe.h>
#include <format/perfdata/perfdata.h>
#include <format/sampleprof/sampleprof.h>

#include "aggregate_report.h"
#include "cli_progress.h"

enum { PROGRAMS_LISTED = 8 };

void profile_inputs_free(profile_inputs *inputs)
{
    for (size_t i = 0; i < inputs->file_count; i++) {
        spgo_spt_close(inputs->files[i].spt);
        os_input_close(inputs->files[i].in);
    }
    free(inputs->files);
    samples_free(&inputs->samples);
    *inputs = (profile_inputs){0};
}

/* ------------------------------------------------------------------ traces */

/* Where the traces go: an SPT file without a name. */
static bool aggregate_trace(const cli_args *args, trace *t, cli_progress *progress,
                            profile_input *file)
{
    os_output *scratch;
    spgo_error err;
    aggregate_result result = {0};
    aggregate_opts opts = {0};
    if (os_output_open_scratch(&scratch, &err) != SPGO_OK) {
        (void)cli_fail(args, "temporary SPT file", &err);
        return false;
    }
    spgo_code code = aggregate_to_spt(t, &opts, os_output_sink(scratch), &result, &err);
    cli_progress_end(progress);
    if (code == SPGO_OK || code == SPGO_IO) /* of refused bytes the scratch file knows the reason */
        code = os_output_reread(scratch, &file->in, &err);
    else
        os_output_discard(scratch);
    if (code != SPGO_OK) {
        (void)cli_fail(args, "temporary SPT file", &err);
    } else {
        aggregate_report report = {.args = args, .t = t, .opts = &opts, .result = &result};
        report.quiet = result.program_count > 0;
        (void)aggregate_report_findings(&report);
    }
    aggregate_result_free(&result);
    return code == SPGO_OK;
}

/* What a file is that is neither a trace nor an SPT file, and what to do with it; NULL: not known.
 */
static const char *other_kind(spgo_span file)
{
    if (file.len == 0)
        return "it is empty";
    if (etl_sniff(file) || perfdata_sniff(file))
        return NULL;
    if (elf_sniff(file) || pe_sniff(file))
        return "it is a program or library; give it with --image, and the samples as input";
    if (pdb_sniff(file) != PDB_NOT)
        return "it is a PDB; give it with --debug-file, and the samples as input";
    if (sampleprof_sniff(file) != SAMPLEPROF_NOT)
        return "it is a sample profile already; llvm-profdata merges and converts those";
    return "give an SPT file, or an ETL or perf.data trace";
}

static bool is_trace(const cli_args *args, const char *path, spgo_span file)
{
    const char *kind = other_kind(file);
    if (kind)
        cli_message(args, CLI_ERROR, path, SPGO_NO_OFFSET, "this holds no samples: %s", kind);
    return !kind;
}

static bool open_traces(const cli_args *args, const char *const *paths, size_t path_count,
                        const char *const *image_dirs, size_t image_dir_count, profile_input *file)
{
    cli_progress progress = cli_progress_start(args->command->tool);
    trace_opts opts = {.image_dirs = image_dirs,
                       .image_dir_count = image_dir_count,
                       .progress = cli_progress_show,
                       .progress_ctx = &progress};
    trace *t;
    const char *failed_path = NULL;
    spgo_error err;
    if (trace_open(paths, path_count, &opts, &t, &failed_path, &err) != SPGO_OK) {
        cli_progress_end(&progress);
        (void)cli_fail(args, failed_path, &err);
        return false;
    }
    bool ok = aggregate_trace(args, t, &progress, file);
    trace_close(t);
    return ok;
}

/* ------------------------------------------------------------------ all inputs */

static bool is_spt(spgo_span file)
{
    static const uint8_t little[4] = {0x3a, 0x54, 0x50, 0x53}, big[4] = {0x53, 0x50, 0x54, 0x3a};
    return file.len >= 4 && (memcmp(file.ptr, little, 4) == 0 || memcmp(file.ptr, big, 4) == 0);
}

/* Adds the records of a file that is open. */
static bool add_file(const cli_args *args, profile_inputs *inputs, profile_input *file)
{
    spgo_error err;
    spgo_code code = spgo_spt_open(os_input_bytes(file->in), &file->spt, &err);
    if (code == SPGO_OK) {
        os_input_sequential(file->in);
        const bool was_saturated = inputs->samples.saturated;
        code = samples_add(&inputs->samples, file->spt, file->in, file->weight, &err);
        if (inputs->samples.saturated && !was_saturated)
            cli_message(args, CLI_WARNING, file->path, SPGO_NO_OFFSET,
                        "counts beyond 2^64-1 were cut there; smaller weights keep them apart");
    } else {
        (void)cli_fail(args, file->path, &err);
        return false;
    }
    if (cli_is_damage(code)) {
        (void)cli_partial(args, file->path, &err);
        inputs->damaged = true;
    } else if (code != SPGO_OK) {
        (void)cli_fail(args, file->path, &err);
        return false;
    }
    return true;
}

/* How many of the paths from the first on are traces of one weight, which are read together: they
 * may be one session in several files. */
static size_t trace_run(const char *const *paths, const uint64_t *weights, size_t path_count)
{
    size_t n = 1;
    for (; n < path_count && weights[n] == weights[0]; n++) {
        os_input *in;
        if (strcmp(paths[n], "-") == 0 || os_input_open(paths[n], &in, NULL) != SPGO_OK)
            break;
        bool other = is_spt(os_input_bytes(in));
        os_input_close(in);
        if (other)
            break;
    }
    return n;
}

bool profile_inputs_read(const cli_args *args, const char *const *paths, const uint64_t *weights,
                         size_t path_count, const char *const *image_dirs, size_t image_dir_count,
                         profile_inputs *inputs)
{
    *inputs = (profile_inputs){0};
    inputs->files = calloc(path_count + 1, sizeof *inputs->files);
    bool ok = inputs->files;
    for (size_t i = 0; ok && i < path_count;) {
        profile_input *file = &inputs->files[inputs->file_count++];
        *file = (profile_input){.path = paths[i], .weight = weights[i]};
        size_t taken = 1;
        spgo_error err;
        if (os_input_open(paths[i], &file->in, &err) != SPGO_OK) {
            (void)cli_fail(args, paths[i], &err);
            ok = false;
        } else if (!is_spt(os_input_bytes(file->in))) {
            ok = is_trace(args, paths[i], os_input_bytes(file->in));
            os_input_close(file->in);
            file->in = NULL;
            if (!ok)
                break;
            taken = trace_run(paths + i, weights + i, path_count - i);
            ok = open_traces(args, paths + i, taken, image_dirs, image_dir_count, file);
        }
        ok = ok && add_file(args, inputs, file);
        i += taken;
    }
    return ok;
}

/* ------------------------------------------------------------------ programs */

static bool is_wanted(const samples_program *p, const char *pattern)
{
    return !pattern || text_match(text_base_name(text_str(pattern)), p->name);
}

/* An id as messages show it. */
static const char *key_of(const spgo_image_id *id, char key[SYMBOL_KEY_SIZE])
{
    symbol_key_text(key, id);
    return guid_is_null(&id->guid) ? "not known" : key;
}

/* One line for each program, so that the next call can name it. */
static void list_programs(const cli_args *args, const samples *s)
{
    size_t shown = s->program_count < PROGRAMS_LISTED ? s->program_count : PROGRAMS_LISTED;
    for (size_t i = 0; i < shown; i++) {
        const samples_program *p = &s->programs[i];
        char key[SYMBOL_KEY_SIZE];
        cli_message(args, CLI_NOTE, NULL, SPGO_NO_OFFSET, "the inputs have %.*s, id %s",
                    (int)p->name.len, p->name.ptr, key_of(&p->id, key));
    }
    if (shown < s->program_count)
        cli_message(args, CLI_NOTE, NULL, SPGO_NO_OFFSET, "and %zu programs more",
                    s->program_count - shown);
}

/* Samples of another build must not be taken for those of this one, nor be lost silently. */
static bool has_other_builds(const cli_args *args, const samples *s, const samples_program *chosen)
{
    for (size_t i = 0; i < s->program_count; i++) {
        const samples_program *p = &s->programs[i];
        if (p == chosen || !text_equal_nocase(p->name, chosen->name))
            continue;
        char key[SYMBOL_KEY_SIZE], other[SYMBOL_KEY_SIZE];
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET,
                    "the inputs mix builds of %.*s, by their ids: %s and %s; leave out the files "
                    "of others, or --force to use the first alone",
                    (int)p->name.len, p->name.ptr, key_of(&chosen->id, key), key_of(&p->id, other));
        return true;
    }
    return false;
}

static const samples_program *no_samples(const cli_args *args)
{
    cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET, "there are no samples in the inputs");
    return NULL;
}

/* The one program that is wanted by name; NULL after a message. */
static const samples_program *only_program(const cli_args *args, const samples *s,
                                           const char *pattern)
{
    const samples_program *chosen = NULL;
    size_t matches = 0;
    for (size_t i = 0; i < s->program_count; i++) {
        const samples_program *p = &s->programs[i];
        if (!is_wanted(p, pattern))
            continue;
        chosen = chosen ? chosen : p;
        matches += !text_equal_nocase(chosen->name, p->name) || chosen == p;
    }
    if (matches == 1)
        return chosen;
    if (s->program_count == 0)
        return no_samples(args);
    if (matches == 0)
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET, "no program of the inputs is called %s",
                    pattern);
    else
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET,
                    "the inputs have samples of %zu programs; --image or --program tells which",
                    matches);
    list_programs(args, s);
    return NULL;
}

/* Samples with an id were taken of an image with that id. */
static const samples_program *refuse_without_id(const cli_args *args, const samples_program *p)
{
    char key[SYMBOL_KEY_SIZE];
    if (!p || guid_is_null(&p->id.guid))
        return p;
    symbol_key_text(key, &p->id);
    cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET,
                "the image has no id, but the samples of %.*s are of id %s; name the build that "
                "was recorded, or --force to go by name",
                (int)p->name.len, p->name.ptr, key);
    return NULL;
}

/* The program that an image is; NULL after a message. Samples without an id are taken by name. */
static const samples_program *program_by_id(const cli_args *args, const samples *s,
                                            const spgo_image_id *id, const char *name, bool force)
{
    const samples_program *named = NULL;
    if (s->program_count == 0)
        return no_samples(args);
    for (size_t i = 0; i < s->program_count; i++) {
        const samples_program *p = &s->programs[i];
        if (image_id_equal(&p->id, id))
            return p;
        if (!named && is_wanted(p, name) && (force || guid_is_null(&p->id.guid)))
            named = p;
    }
    if (!named && force && s->program_count == 1)
        named = &s->programs[0];
    char key[SYMBOL_KEY_SIZE];
    symbol_key_text(key, id);
    if (named)
        cli_message(args, CLI_WARNING, NULL, SPGO_NO_OFFSET,
                    "the samples of %.*s are taken for the image's by name: its id is %s, theirs "
                    "is %s",
                    (int)named->name.len, named->name.ptr, key,
                    guid_is_null(&named->id.guid) ? "not known" : "another");
    else
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET,
                    "the inputs have no samples of the image, whose id is %s; name the build that "
                    "was recorded, or go by name with --force and --program=name",
                    key);
    if (!named)
        list_programs(args, s);
    return named;
}

const samples_program *profile_inputs_program(const cli_args *args, const samples *s, bool is_image,
                                              const spgo_image_id *id, const char *name, bool force)
{
    const samples_program *chosen =
        id ? program_by_id(args, s, id, name, force) : only_program(args, s, name);
    if (is_image && !id && !force)
        chosen = refuse_without_id(args, chosen);
    return chosen && !force && has_other_builds(args, s, chosen) ? NULL : chosen;
}
