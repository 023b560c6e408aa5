/* Names, files and lines of functions, by src/symbol: see session.h. */
#include <probe/session_internal.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>
#include <symbol/symbol.h>

static spgo_str made_name(probe_session *s, const probe_function *f)
{
    char text[320];
    const spgo_str path = s->modules[f->module].path;
    const spgo_str base = text_base_name(path);
    const int len = f->addr == 0 ? snprintf(text, sizeof text, "(paths beyond the limit)")
                                 : snprintf(text, sizeof text, "%.*s!0x%" PRIx64,
                                            (int)(base.len < 255 ? base.len : 255),
                                            base.len ? base.ptr : "", f->addr);
    return intern_add(&s->text, (spgo_str){text, (size_t)len});
}

/* Names outlive the symbols they come from. */
static void take_name(probe_session *s, symbols *sy, probe_function *f)
{
    const uint64_t base = symbols_code(sy)->base_addr;
    symbol_run run = {.leaf = NULL};
    if (f->addr < base || f->addr - base > UINT32_MAX)
        return;
    const uint32_t rva = (uint32_t)(f->addr - base);
    const symbol_procedure *p = symbols_procedure_at(sy, rva);
    if (symbols_run_at(sy, rva, &run, NULL) != SPGO_OK)
        run.leaf = NULL;
    const symbol_frame *frame = run.leaf;
    while (frame && frame->caller)
        frame = frame->caller; /* the function itself, not what was inlined at its start */
    const symbol_function *known = frame && frame->function ? frame->function
                                   : p                      ? p->function
                                                            : NULL;
    spgo_str name = known ? known->name : (spgo_str){0};
    if (name.len == 0 && p)
        name = p->name;
    if (name.len > 0)
        f->name = intern_add(&s->text, name);
    if (known && known->file.len > 0) {
        f->file = intern_add(&s->text, known->file);
        f->line = known->line;
    } else if (frame && frame->file.len > 0) {
        f->file = intern_add(&s->text, frame->file);
        f->line = frame->line;
    }
}

static void name_module(probe_session *s, uint32_t module, const probe_names_opts *opts, diag *d)
{
    const probe_module *m = &s->modules[module];
    char *path = arena_copy_text(s->mem, m->path.ptr, m->path.len);
    spgo_image_id id = {0};
    spgo_error err;
    symbols *sy;
    if (m->build_id.len > 0)
        memcpy(id.guid.bytes, m->build_id.ptr, m->build_id.len < 16 ? m->build_id.len : 16);
    const symbols_opts wanted = {.image_path = path,
                                 .dirs = opts->dirs,
                                 .dir_count = opts->dir_count,
                                 .wanted = m->build_id.len ? &id : NULL,
                                 .any_id = opts->any_id};
    if (!path || symbols_open(&wanted, &sy, NULL, &err) != SPGO_OK) {
        diag_add(d, SPGO_NOT_FOUND, SPGO_NO_OFFSET, "%.*s: no names: %.150s", (int)m->path.len,
                 m->path.ptr, path ? err.sentence : "out of memory");
        return;
    }
    for (size_t i = 0; i < s->function_count; i++) {
        if (s->functions[i].module == module)
            take_name(s, sy, &s->functions[i]);
    }
    symbols_close(sy);
}

spgo_code probe_session_name(probe_session *s, const probe_names_opts *opts, diag *d,
                             spgo_error *err)
{
    bool *is_wanted = calloc(s->module_count + 1, sizeof *is_wanted);
    if (!is_wanted)
        return spgo_fail_nomem(err, "names", s->module_count);
    for (size_t i = 0; i < s->function_count; i++)
        is_wanted[s->functions[i].module] = true;
    for (uint32_t i = 0; opts && i < s->module_count; i++) {
        if (is_wanted[i] && s->modules[i].path.len > 0)
            name_module(s, i, opts, d);
    }
    free(is_wanted);
    for (size_t i = 0; i < s->function_count; i++) {
        if (s->functions[i].name.len == 0)
            s->functions[i].name = made_name(s, &s->functions[i]);
    }
    return SPGO_OK;
}
