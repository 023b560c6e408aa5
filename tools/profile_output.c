/* From the result to its file: see profile_output.h. */
#include "profile_output.h"

#include <export/export.h>

const char *const *profile_output_names(size_t *count)
{
    static const char *const names[] = {
        [PROFILE_TEXT] = "text",
        [PROFILE_EXTBINARY] = "extbinary",
        [PROFILE_UNSYMBOLIZED] = "unsymbolized",
        [PROFILE_PERF_SCRIPT] = "perf-script",
        [PROFILE_AUTOFDO] = "autofdo",
        [PROFILE_BOLT] = "bolt",
        [PROFILE_PPROF] = "pprof",
        [PROFILE_FOLDED] = "folded",
        [PROFILE_SPEEDSCOPE] = "speedscope",
    };
    *count = sizeof names / sizeof names[0];
    return names;
}

/* The records of the program, of every input that has some, each as often as its weight says. */
static spgo_code write_records(const profile_output *to, out *o, spgo_error *err)
{
    export_perf_mapping(to->s, o);
    for (size_t i = 0; i < to->inputs->file_count; i++) {
        const profile_input *file = &to->inputs->files[i];
        for (size_t k = 0; k < spgo_spt_program_count(file->spt); k++) {
            if (!samples_is_program(to->program, spgo_spt_get_program(file->spt, k)))
                continue;
            spgo_code code =
                export_perf_records(file->spt, (uint16_t)k, file->weight, to->s, o, err);
            if (code != SPGO_OK && !cli_is_damage(code)) /* damage was said when it was read */
                return code;
        }
    }
    return SPGO_OK;
}

static spgo_code write_bolt(const profile_output *to, out *o, spgo_error *err)
{
    const profile_result *r = to->result;
    if (r->mode != PROFILE_BRANCHES || r->is_inferred)
        return export_bolt(&r->counts, to->s, o, err);
    address_profile recorded;
    SPGO_TRY(address_profile_as_recorded(to->program, &recorded, err));
    spgo_code code = export_bolt(&recorded, to->s, o, err);
    address_profile_free(&recorded);
    return code;
}

static spgo_code write_text_form(const profile_output *to, out *o, spgo_error *err)
{
    const address_profile *profile = &to->result->counts;
    switch (to->format) {
    case PROFILE_TEXT:
        return sampleprof_write_text(to->result->profile, o, err);
    case PROFILE_UNSYMBOLIZED:
        export_unsymbolized(profile, to->s, o);
        return SPGO_OK;
    case PROFILE_PERF_SCRIPT:
        return write_records(to, o, err);
    case PROFILE_AUTOFDO:
        export_autofdo(profile, to->s, o);
        return SPGO_OK;
    case PROFILE_BOLT:
        return write_bolt(to, o, err);
    case PROFILE_FOLDED:
        return export_folded(profile, to->s, to->d, o, err);
    case PROFILE_SPEEDSCOPE:
        return export_speedscope(profile, to->s, to->d, o, err);
    default:
        return SPGO_OK;
    }
}

static spgo_code write_form(const profile_output *to, spgo_sink sink, spgo_error *err)
{
    if (to->format == PROFILE_EXTBINARY)
        return sampleprof_write_extbinary(to->result->profile, sink, err);
    if (to->format == PROFILE_PPROF)
        return export_pprof(&to->result->counts,
                            to->result->mode == PROFILE_IPS ? "samples" : "instructions", to->s,
                            to->d, sink, err);
    out o;
    SPGO_TRY(out_init(&o, sink, err));
    spgo_code code = write_text_form(to, &o, err);
    (void)out_flush(&o); /* the file keeps the reason */
    out_free(&o);
    return code;
}

int profile_output_write(const profile_output *to)
{
    os_output *file;
    spgo_error err;
    if (os_output_open(to->path, &file, &err) != SPGO_OK)
        return cli_fail(to->args, to->path, &err);
    spgo_code code = write_form(to, os_output_sink(file), &err);
    if (code != SPGO_OK && code != SPGO_IO) {
        os_output_discard(file);
        return cli_fail(to->args, NULL, &err);
    }
    if (os_output_commit(file, &err) != SPGO_OK)
        return cli_fail(to->args, to->path, &err);
    return CLI_OK;
}
