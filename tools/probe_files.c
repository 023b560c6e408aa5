/* See probe_files.h. */
#include "probe_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>
#include <os/folder.h>

typedef struct path_list {
    arena *mem;
    const char *folder;
    const char **items;
    size_t count, capacity;
    bool failed;
} path_list;

static bool add_path(path_list *l, const char *folder, const char *name)
{
    const size_t len = strlen(name) + (folder ? strlen(folder) + 1 : 0);
    char *path = arena_push(l->mem, len + 1, 1);
    if (path && l->count == l->capacity) {
        const size_t wanted = l->capacity ? 2 * l->capacity : 16;
        const char **grown = realloc((void *)l->items, wanted * sizeof *grown);
        l->items = grown ? grown : l->items;
        l->capacity = grown ? wanted : l->capacity;
    }
    if (!path || l->count == l->capacity) {
        l->failed = true;
        return false;
    }
    snprintf(path, len + 1, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    l->items[l->count++] = path;
    return true;
}

static bool take_name(void *ctx, const char *name)
{
    path_list *l = ctx;
    const size_t len = strlen(name);
    return len <= 4 || strcmp(name + len - 4, ".spp") != 0 || add_path(l, l->folder, name);
}

static int path_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Files of a folder in the order of their names. */
static bool list_folder(path_list *l, const char *folder)
{
    const size_t first = l->count;
    l->folder = folder;
    if (!os_folder_each(folder, take_name, l))
        return false;
    if (l->count > first)
        qsort((void *)(l->items + first), l->count - first, sizeof *l->items, path_order);
    return true;
}

static int say_findings(const cli_args *args, const char *file, const diag *d)
{
    for (size_t i = 0; i < d->kept_count; i++)
        cli_message(args, CLI_WARNING, file, d->kept[i].offset, "%s", d->kept[i].sentence);
    if (d->total > d->kept_count)
        cli_message(args, CLI_WARNING, file, SPGO_NO_OFFSET,
                    "%" PRIu64 " further findings are not shown", d->total - d->kept_count);
    for (size_t i = 0; i < d->kept_count; i++) {
        if (cli_is_damage(d->kept[i].code))
            return CLI_PARTIAL;
    }
    return CLI_OK;
}

static int add_file(const cli_args *args, const char *path, const probe_filter *filter,
                    probe_files *f)
{
    os_input *in;
    spgo_error err;
    diag d = {0};
    if (os_input_open(path, &in, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    if (f->count == f->capacity) {
        const size_t wanted = f->capacity ? 2 * f->capacity : 16;
        os_input **grown = realloc(f->inputs, wanted * sizeof *grown);
        if (!grown) {
            os_input_close(in);
            (void)spgo_fail_nomem(&err, "inputs", wanted * sizeof *grown);
            return cli_fail(args, path, &err);
        }
        f->inputs = grown;
        f->capacity = wanted;
    }
    f->inputs[f->count++] = in;
    if (probe_session_add(f->session, os_input_bytes(in), filter, &d, &err) != SPGO_OK)
        return cli_fail(args, path, &err);
    return say_findings(args, path, &d);
}

int probe_paths(const cli_args *args, const char *const *operands, size_t operand_count,
                const char ***paths, size_t *count)
{
    path_list list = {.mem = args->memory}, *l = &list;
    *paths = NULL;
    *count = 0;
    for (size_t i = 0; i < operand_count; i++) {
        const char *path = operands[i];
        const size_t before = l->count;
        if (!os_is_folder(path)) {
            (void)add_path(l, NULL, path);
        } else if (!list_folder(l, path) && !l->failed) {
            cli_message(args, CLI_ERROR, path, SPGO_NO_OFFSET, "the folder cannot be read");
            free((void *)l->items);
            return CLI_FAILED;
        } else if (l->count == before) {
            cli_message(args, CLI_ERROR, path, SPGO_NO_OFFSET,
                        "no SPP file in this folder: did the program end without calling an "
                        "instrumented function, or was it built without -finstrument-functions?");
            free((void *)l->items);
            return CLI_FAILED;
        }
    }
    if (l->failed) {
        cli_message(args, CLI_ERROR, NULL, SPGO_NO_OFFSET, "out of memory");
        free((void *)l->items);
        return CLI_FAILED;
    }
    *paths = l->items;
    *count = l->count;
    return CLI_OK;
}

int probe_files_open(const cli_args *args, const char *const *operands, size_t operand_count,
                     const probe_filter *filter, const probe_names_opts *names, probe_files *f)
{
    const char **paths;
    size_t count;
    spgo_error err;
    diag d = {0};
    *f = (probe_files){0};
    int exit_code = probe_paths(args, operands, operand_count, &paths, &count);
    if (exit_code == CLI_OK && !(f->session = probe_session_new(&err)))
        exit_code = cli_fail(args, NULL, &err);
    for (size_t i = 0; i < count && exit_code != CLI_FAILED; i++) {
        const int result = add_file(args, paths[i], filter, f);
        exit_code = result != CLI_OK ? result : exit_code;
    }
    free((void *)paths);
    if (exit_code == CLI_FAILED)
        return exit_code;
    if (probe_session_name(f->session, names, &d, &err) != SPGO_OK ||
        probe_session_close(f->session, &err) != SPGO_OK)
        return cli_fail(args, NULL, &err);
    (void)say_findings(args, NULL, &d);
    return exit_code;
}

void probe_files_close(probe_files *f)
{
    probe_session_free(f->session);
    for (size_t i = 0; i < f->count; i++)
        os_input_close(f->inputs[i]);
    free(f->inputs);
}
