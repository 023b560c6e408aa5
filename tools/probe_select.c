/* See probe_select.h. */
#include "probe_select.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <code/code.h>
#include <os/launch.h>
#include <symbol/symbol.h>

bool probe_select_any(const probe_select *s)
{
    return s->exclude->item_count || s->include->item_count || s->exclude_files->item_count ||
           s->exclude_modules->item_count || s->small_bytes;
}

static bool matches(const cli_value *patterns, spgo_str name)
{
    return patterns->item_count > 0 && cli_match_any(patterns, name);
}

/* What a function calls; its two probes are calls, or a jump at its end. */
typedef struct callees {
    uint32_t targets[3];
    unsigned count, indirect;
} callees;

static void add_callee(callees *c, const symbol_procedure *p, const code_instruction *in)
{
    const bool is_call = in->kind == CODE_CALL || in->kind == CODE_JUMP;
    c->indirect += in->kind == CODE_CALL_INDIRECT;
    if (!is_call || !in->has_target)
        return;
    for (uint32_t i = 0; i < p->piece_count; i++) {
        if (in->target_rva >= p->pieces[i].begin_rva && in->target_rva < p->pieces[i].end_rva)
            return; /* a jump inside */
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (c->targets[i] == in->target_rva)
            return;
    }
    if (c->count < 3)
        c->targets[c->count++] = in->target_rva;
}

/* Short, and calling nothing but its probes: it does less than they do. */
static bool is_small(const symbol_procedure *p, code_decoder *d, uint64_t bytes)
{
    uint64_t size = 0;
    callees c = {0};
    for (uint32_t i = 0; i < p->piece_count; i++)
        size += p->pieces[i].end_rva - p->pieces[i].begin_rva;
    if (size > bytes || !d)
        return false;
    for (uint32_t i = 0; i < p->piece_count; i++) {
        for (uint32_t rva = p->pieces[i].begin_rva; rva < p->pieces[i].end_rva;) {
            const code_instruction in = code_decode(d, rva);
            if (in.kind == CODE_INVALID)
                return false;
            add_callee(&c, p, &in);
            rva += in.size_bytes;
        }
    }
    return c.count + c.indirect <= 2;
}

static bool is_left_out(const probe_select *s, const symbol_procedure *p, code_decoder *d)
{
    const symbol_function *f = p->function;
    const spgo_str name = f && f->name.len ? f->name : p->name;
    const spgo_str file = f ? f->file : (spgo_str){0};
    if (s->include->item_count > 0 && !matches(s->include, name))
        return true;
    return matches(s->exclude, name) || matches(s->exclude_files, file) ||
           matches(s->exclude_files, text_base_name(file)) ||
           (s->small_bytes > 0 && is_small(p, d, s->small_bytes));
}

static spgo_code list_program(const probe_select *s, const char *path, out *o, size_t *left_out,
                              spgo_error *err)
{
    const symbols_opts opts = {.image_path = path};
    const symbol_procedure *procedures;
    size_t count;
    symbols *sy;
    code_decoder *d = NULL;
    spgo_code code = symbols_open(&opts, &sy, NULL, err);
    if (code != SPGO_OK)
        return code;
    if (s->small_bytes > 0)
        code = code_decoder_new(symbols_code(sy), &d, err);
    if (code == SPGO_OK)
        code = symbols_procedures(sy, &procedures, &count, err);
    if (code == SPGO_OK) {
        out_printf(o, "m %s\n", path);
        for (size_t i = 0; i < count; i++) {
            if (!is_left_out(s, &procedures[i], d))
                continue;
            out_printf(o, "x %" PRIx64 "\n", symbols_code(sy)->base_addr + procedures[i].entry_rva);
            ++*left_out;
        }
    }
    code_decoder_free(d);
    symbols_close(sy);
    return code;
}

int probe_select_write(const cli_args *args, const probe_select *s, const char *program,
                       const char *path, size_t *left_out)
{
    os_output *file;
    spgo_error err;
    out o;
    char *absolute = os_absolute_path(program);
    *left_out = 0;
    spgo_code code = os_output_open(path, &file, &err);
    if (code != SPGO_OK || !absolute) {
        free(absolute);
        return cli_fail(args, path, &err);
    }
    code = out_init(&o, os_output_sink(file), &err);
    if (code == SPGO_OK) {
        code = list_program(s, absolute, &o, left_out, &err);
        for (size_t i = 0; i < s->exclude_modules->item_count; i++)
            out_printf(&o, "o %s\n", s->exclude_modules->items[i]);
        (void)out_flush(&o);
        out_free(&o);
    }
    if (code == SPGO_OK)
        code = os_output_commit(file, &err);
    else
        os_output_discard(file);
    const int exit_code = code == SPGO_OK ? CLI_OK : cli_fail(args, absolute, &err);
    free(absolute);
    return exit_code;
}
