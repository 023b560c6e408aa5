/* Several SPT files in, one out: see spt_rewrite_files.h. */
#include "spt_rewrite_files.h"

#include <inttypes.h>
#include <string.h>

#include <base/json.h>

bool spt_rewrite_is_taken(const cli_args *args, const char *output_path)
{
    if (!os_is_regular_file(output_path))
        return false;
    (void)cli_usage(args, "%s exists, and the last file is the output; --force replaces it",
                    output_path);
    return true;
}

bool spt_rewrite_begin(spt_rewrite *rw, const cli_args *args, const char *output_path, bool quiet)
{
    spgo_error err;
    *rw = (spt_rewrite){.args = args, .output_path = output_path, .quiet = quiet};
    if (os_output_open(output_path, &rw->output, &err) != SPGO_OK) {
        (void)cli_fail(args, output_path, &err);
        return false;
    }
    if (spgo_spt_writer_new(os_output_sink(rw->output), NULL, &rw->writer, &err) != SPGO_OK) {
        (void)cli_fail(args, output_path, &err);
        os_output_discard(rw->output);
        return false;
    }
    return true;
}

void spt_rewrite_fail(spt_rewrite *rw, const char *file, const spgo_error *err)
{
    /* The writer only knows that its bytes were refused; the output knows why. */
    spgo_error reason;
    if (err->code == SPGO_IO && os_output_commit(rw->output, &reason) != SPGO_OK)
        (void)cli_fail(rw->args, rw->output_path, &reason);
    else
        (void)cli_fail(rw->args, file ? file : rw->output_path, err);
    if (err->code == SPGO_IO)
        rw->output = NULL;
}

static bool add_file(spt_rewrite *rw, const char *file, spt_take_file take, void *ctx)
{
    os_input *in = NULL;
    spgo_spt *spt = NULL;
    spgo_error err;
    spgo_code code = os_input_open(file, &in, &err);
    if (code == SPGO_OK) {
        os_input_sequential(in);
        code = spgo_spt_open(os_input_bytes(in), &spt, &err);
    }
    if (code != SPGO_OK) {
        (void)cli_fail(rw->args, file, &err);
    } else {
        code = take(ctx, spt, &rw->tally, &err);
        if (cli_is_damage(code)) {
            (void)cli_partial(rw->args, file, &err);
            rw->damaged = true;
            code = SPGO_OK;
        } else if (code != SPGO_OK) {
            spt_rewrite_fail(rw, file, &err);
        }
    }
    spgo_spt_close(spt);
    os_input_close(in);
    rw->file_count++;
    return code == SPGO_OK;
}

bool spt_rewrite_add(spt_rewrite *rw, const char *const *files, size_t count, spt_take_file take,
                     void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        if (!add_file(rw, files[i], take, ctx))
            return false;
    }
    return true;
}

static void member(json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_u64(j, value);
}

static void put_report(out *o, const spt_rewrite *rw)
{
    const spgo_spt_tally *t = &rw->tally;
    if (!rw->args->json) {
        out_printf(o,
                   "files %zu  records_in %" PRIu64 "  records_out %" PRIu64 "  hits_in %" PRIu64
                   "  hits_out %" PRIu64 "  ",
                   rw->file_count, t->records_in, t->records_out, t->hits_in, t->hits_out);
        out_name(o, (spgo_str){rw->output_path, strlen(rw->output_path)});
        out_text(o, "\n");
        return;
    }
    json j = json_on(o, false);
    json_open_object(&j);
    json_key(&j, "output");
    json_text(&j, rw->output_path);
    member(&j, "files", rw->file_count);
    member(&j, "records_in", t->records_in);
    member(&j, "records_out", t->records_out);
    member(&j, "hits_in", t->hits_in);
    member(&j, "hits_out", t->hits_out);
    json_close_object(&j);
    json_end_line(&j);
}

/* On standard output, unless that is where the file itself went. */
static int report(const spt_rewrite *rw, int exit_code)
{
    out o;
    if (rw->tally.saturated)
        cli_message(rw->args, CLI_WARNING, rw->output_path, SPGO_NO_OFFSET,
                    "a sum of hits passed 2^64-1 and stays there");
    if (rw->quiet || strcmp(rw->output_path, "-") == 0)
        return exit_code;
    if (!cli_open_out(rw->args, &o))
        return CLI_FAILED;
    put_report(&o, rw);
    return cli_close_out(rw->args, &o, exit_code);
}

int spt_rewrite_end(spt_rewrite *rw, bool ok)
{
    spgo_error err;
    if (!ok) {
        spgo_spt_writer_cancel(rw->writer);
        os_output_discard(rw->output);
        return CLI_FAILED;
    }
    if (spgo_spt_writer_finish(rw->writer, &err) != SPGO_OK) {
        spt_rewrite_fail(rw, NULL, &err);
        os_output_discard(rw->output);
        return CLI_FAILED;
    }
    if (os_output_commit(rw->output, &err) != SPGO_OK)
        return cli_fail(rw->args, rw->output_path, &err);
    return report(rw, rw->damaged ? CLI_PARTIAL : CLI_OK);
}
