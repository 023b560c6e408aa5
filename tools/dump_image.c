/* spgo dump of images: PE and ELF. The headers, then tables a row a line. */
#include "dump.h"

#include <base/fields.h>
#include <base/guid.h>
#include <format/elf/elf.h>
#include <format/pe/pe_dump.h>

#include <string.h>

/* ------------------------------------------------------------------ PE */

typedef spgo_code (*pe_part)(out *o, json *j, const pe_image *image, spgo_error *err);

static spgo_code pe_directories(out *o, json *j, const pe_image *image, spgo_error *err)
{
    (void)err;
    pe_dump_directories(o, j, image);
    return SPGO_OK;
}

static spgo_code pe_sections(out *o, json *j, const pe_image *image, spgo_error *err)
{
    (void)err;
    pe_dump_sections(o, j, image);
    return SPGO_OK;
}

/* One part; in JSON a line of its own. A part that cannot be read leaves the others. */
static int show_part(dump *d, const char *type, pe_part part, const pe_image *image)
{
    spgo_error err;
    json *j = d->args->json ? &d->j : NULL;
    if (j)
        dump_open_line(d, type);
    spgo_code code = part(d->o, j, image, &err);
    if (j)
        dump_close_line(d);
    return code == SPGO_OK ? CLI_OK : cli_partial(d->args, d->file, &err);
}

static int show_functions(dump *d, const pe_image *image)
{
    spgo_error err;
    diag found = {0};
    json *j = d->args->json ? &d->j : NULL;
    if (j)
        dump_open_line(d, "functions");
    spgo_code code = pe_dump_functions(d->o, j, image, &found, &err);
    if (j)
        dump_close_line(d);
    int exit_code = dump_report(d, &found);
    return code == SPGO_OK ? exit_code : cli_partial(d->args, d->file, &err);
}

int dump_pe(dump *d)
{
    static const struct {
        const char *type;
        pe_part part;
    } parts[] = {{"directories", pe_directories}, {"sections", pe_sections},
                 {"debug", pe_dump_debug},        {"exports", pe_dump_exports},
                 {"symbols", pe_dump_symbols},    {"code_ranges", pe_dump_code_ranges}};
    pe_image image;
    spgo_error err;
    if (pe_open(d->bytes, PE_LAYOUT_FILE, &image, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    if (d->show_headers && d->args->json)
        dump_open_line(d, "header");
    if (d->show_headers)
        pe_dump_header(d->o, d->args->json ? &d->j : NULL, &image);
    if (d->show_headers && d->args->json)
        dump_close_line(d);
    int exit_code = CLI_OK;
    for (size_t i = 0; d->show_events && i < sizeof parts / sizeof parts[0]; i++) {
        int of_part = show_part(d, parts[i].type, parts[i].part, &image);
        exit_code = of_part == CLI_OK ? exit_code : of_part;
    }
    if (d->show_events) {
        int of_part = show_functions(d, &image);
        exit_code = of_part == CLI_OK ? exit_code : of_part;
    }
    return exit_code;
}

/* ------------------------------------------------------------------ ELF */

static void elf_header(const fields *f, const elf_image *elf)
{
    field_u64(f, "bits", elf->is_64bit ? 64 : 32);
    field_bool(f, "big_endian", elf->is_big_endian);
    field_u64(f, "elf_type", elf->type);
    field_u64(f, "machine", elf->machine);
    field_hex(f, "entry", elf->entry);
    field_hex(f, "base_vaddr", elf->base_vaddr);
    field_bytes(f, "build_id", (spgo_span){elf->build_id, elf->build_id_size});
    field_guid(f, "program_id", &elf->id.guid);
}

static void elf_segments(out *o, json *j, const elf_image *elf)
{
    const fields f = fields_pairs(o, j);
    if (j)
        fields_open_table(j, "segments");
    for (size_t i = 0; i < elf->segment_count; i++) {
        const elf_segment *s = &elf->segments[i];
        fields_open_row(&f, "segment", i);
        field_hex(&f, "offset", s->offset);
        field_hex(&f, "vaddr", s->vaddr);
        field_hex(&f, "file_size", s->file_size);
        field_hex(&f, "mem_size", s->mem_size);
        field_hex(&f, "flags", s->flags);
        fields_close_row(&f);
    }
    if (j)
        fields_close_table(j);
}

int dump_elf(dump *d)
{
    elf_image elf;
    spgo_error err;
    json *j = d->args->json ? &d->j : NULL;
    if (elf_read(d->bytes, &elf, &err) != SPGO_OK)
        return cli_fail(d->args, d->file, &err);
    if (d->show_headers) {
        const fields f = fields_lines(d->o, j);
        if (j)
            dump_open_line(d, "header");
        elf_header(&f, &elf);
        if (j)
            dump_close_line(d);
    }
    if (d->show_events) {
        if (j)
            dump_open_line(d, "segments");
        elf_segments(d->o, j, &elf);
        if (j)
            dump_close_line(d);
    }
    return CLI_OK;
}
