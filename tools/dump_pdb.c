/* spgo dump of program databases: the header, then what the whole file has, then module after
 * module, so that only one of them is in memory at a time. */
#include "dump.h"

#include <format/pdb/pdb_dump.h>

static json *json_of(dump *d)
{
    return d->args->json ? &d->j : NULL;
}

static void open_part(dump *d, const char *type)
{
    if (d->args->json)
        dump_open_line(d, type);
}

static void close_part(dump *d)
{
    if (d->args->json)
        dump_close_line(d);
}

static void show_whole(dump *d, const pdb *p)
{
    static const struct {
        const char *type;
        void (*part)(out *o, json *j, const pdb *p);
    } parts[] = {{"streams", pdb_dump_streams},
                 {"sections", pdb_dump_sections},
                 {"modules", pdb_dump_modules}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        open_part(d, parts[i].type);
        parts[i].part(d->o, json_of(d), p);
        close_part(d);
    }
}

static int show_module(dump *d, const pdb *p, uint32_t index, pdb_ids *ids, diag *found)
{
    pdb_module *m;
    spgo_error err;
    if (pdb_module_read(p, index, &m, found, &err) != SPGO_OK)
        return cli_partial(d->args, d->file, &err);
    open_part(d, "module");
    if (d->args->json)
        dump_member_u64(d, "module", index);
    else
        out_printf(d->o, "# module %u\n", (unsigned)index);
    pdb_dump_procs(d->o, json_of(d), m);
    pdb_dump_sites(d->o, json_of(d), m, ids);
    pdb_dump_lines(d->o, json_of(d), m);
    pdb_dump_others(d->o, json_of(d), m);
    close_part(d);
    pdb_module_free(m);
    return CLI_OK;
}

static int show_modules(dump *d, const pdb *p, diag *found)
{
    pdb_ids *ids = NULL;
    spgo_error err;
    int exit_code = CLI_OK;
    if (pdb_ids_new(p, NULL, &ids, &err) != SPGO_OK) /* then inlinees are numbers */
        exit_code = cli_partial(d->args, d->file, &err);
    for (uint32_t i = 0; i < pdb_module_count(p) && !d->o->failed; i++) {
        int of_module = show_module(d, p, i, ids, found);
        exit_code = of_module == CLI_OK ? exit_code : of_module;
    }
    pdb_ids_free(ids);
    return exit_code;
}

static int show_publics(dump *d, const pdb *p, diag *found)
{
    pdb_publics *publics;
    spgo_error err;
    if (pdb_publics_read(p, &publics, found, &err) != SPGO_OK)
        return cli_partial(d->args, d->file, &err);
    open_part(d, "publics");
    pdb_dump_publics(d->o, json_of(d), publics);
    close_part(d);
    pdb_publics_free(publics);
    return CLI_OK;
}

int dump_pdb(dump *d)
{
    pdb *p;
    spgo_error err;
    diag found = {0};
    if (pdb_open(d->bytes, NULL, &p, &found, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    int exit_code = CLI_OK;
    if (d->show_headers) {
        open_part(d, "header");
        pdb_dump_header(d->o, json_of(d), p);
        close_part(d);
    }
    if (d->show_events) {
        show_whole(d, p);
        exit_code = show_modules(d, p, &found);
        int of_publics = show_publics(d, p, &found);
        exit_code = of_publics == CLI_OK ? exit_code : of_publics;
    }
    pdb_close(p);
    int damaged = dump_report(d, &found);
    return exit_code != CLI_OK ? exit_code : damaged;
}
