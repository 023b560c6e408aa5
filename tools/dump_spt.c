/*
 * spgo dump for SPT files: sptdump's printers over the records in file order, with dump's own
 * selection. What sptdump adds (summaries, verification) stays with sptdump.
 */
#include "dump.h"

#include <base/saturate.h>
#include <base/text.h>
#include <spgo/spt.h>

#include <stdlib.h>

#include "sptdump_print.h"

enum { OPCODES = 256, RELEASE_EVERY = 4096, OFFSET_DIGITS_MIN = 8 };

typedef struct opcode_count {
    uint64_t record_count;
    uint64_t hits; /* saturating */
} opcode_count;

static int digits_of(uint64_t size)
{
    int digits = OFFSET_DIGITS_MIN;
    while (digits < 16 && size >> 4 * digits)
        digits++;
    return digits;
}

static int widest_name(const spgo_spt *spt)
{
    size_t width = 4;
    for (size_t i = 0; i < spgo_spt_program_count(spt); i++) {
        size_t len = spgo_spt_get_program(spt, i)->name.len;
        width = len > width ? len : width;
    }
    return width < 40 ? (int)width : 40;
}

/* Which program and opcode; BINARY_ID and REPEAT are records like others here. */
static bool is_wanted(const dump *d, const spgo_spt *spt, const spgo_spt_record *r)
{
    spgo_str name = text_str(sptdump_opcode_name(r->opcode));
    if (!dump_wants_event(d, name, r->opcode))
        return false;
    const spgo_spt_program *program = spgo_spt_get_program(spt, r->program);
    return !d->processes->given || (program && dump_wants_name(d, program->name));
}

static void count_record(opcode_count *c, const spgo_spt_record *r)
{
    c->record_count++;
    c->hits = saturating_add(c->hits, r->hits);
}

static void put_counts(dump *d, const opcode_count cells[OPCODES])
{
    if (!d->args->json)
        out_text(d->o, "# opcode\trecords\thits\n");
    for (unsigned i = 0; i < OPCODES; i++) {
        const char *name = sptdump_opcode_name((uint8_t)i);
        if (cells[i].record_count == 0)
            continue;
        if (d->args->json) {
            dump_open_line(d, "counts");
            dump_member_text(d, "opcode", name);
            dump_member_u64(d, "records", cells[i].record_count);
            dump_member_u64(d, "hits", cells[i].hits);
            dump_close_line(d);
        } else {
            out_text(d->o, name);
            out_bytes(d->o, "\t", 1);
            out_u64(d->o, cells[i].record_count);
            out_bytes(d->o, "\t", 1);
            out_u64(d->o, cells[i].hits);
            out_bytes(d->o, "\n", 1);
        }
    }
}

static int run_records(dump *d, sptdump *view, const sptdump_printer *printer)
{
    opcode_count cells[OPCODES] = {{0, 0}};
    spgo_spt_cursor cursor = spgo_spt_records(view->spt);
    int exit_code = CLI_OK;
    if (d->show_events)
        printer->begin_view(view, VIEW_EVENTS);
    for (uint64_t step = 1; !d->o->failed; step++) {
        spgo_spt_record r;
        spgo_error err;
        spgo_code code = spgo_spt_next(&cursor, &r, &err);
        if (code == SPGO_NOT_FOUND)
            break;
        if (step % RELEASE_EVERY == 0)
            os_input_release(d->in, cursor.pos);
        if (code != SPGO_OK) {
            exit_code = cli_partial(d->args, d->file, &err);
            if (d->show_events)
                printer->damage(view, &err);
        } else if (is_wanted(d, view->spt, &r)) {
            d->shown++;
            if (d->show_counts)
                count_record(&cells[r.opcode], &r);
            else
                printer->event(view, &r);
        }
    }
    if (d->show_counts)
        put_counts(d, cells);
    return exit_code;
}

static void put_tables(sptdump *view, const sptdump_printer *printer)
{
    sptdump_field fields[SPTDUMP_FIELDS];
    sptdump_header_fields(view, fields);
    printer->begin_view(view, VIEW_HEADER);
    printer->header(view, fields, SPTDUMP_FIELDS);
    printer->begin_view(view, VIEW_PROGRAMS);
    for (size_t i = 0; i < spgo_spt_program_count(view->spt); i++)
        printer->program(view, i, spgo_spt_get_program(view->spt, i));
}

int dump_spt(dump *d)
{
    spgo_spt *spt = NULL;
    spgo_error err;
    if (d->from.clock != DUMP_NO_LIMIT || d->to.clock != DUMP_NO_LIMIT) {
        cli_message(d->args, CLI_ERROR, d->file, SPGO_NO_OFFSET,
                    "an SPT file holds no times: leave --from and --to away");
        return CLI_USAGE;
    }
    spgo_code code = spgo_spt_open(d->bytes, &spt, &err);
    if (code != SPGO_OK && !spt)
        return cli_fail(d->args, d->file, &err);
    int exit_code = code == SPGO_OK ? CLI_OK : cli_partial(d->args, d->file, &err);
    sptdump view = {.args = d->args,
                    .file = d->file,
                    .in = d->in,
                    .spt = spt,
                    .o = d->o,
                    .j = d->j,
                    .name_width = widest_name(spt),
                    .offset_digits = digits_of(d->bytes.len)};
    const sptdump_printer *printer = d->args->json ? &sptdump_json : &sptdump_text;
    if (d->show_headers)
        put_tables(&view, printer);
    if (code == SPGO_OK && (d->show_events || d->show_counts)) {
        int of_records = run_records(d, &view, printer);
        exit_code = exit_code == CLI_OK ? of_records : exit_code;
    }
    free(view.label);
    spgo_spt_close(spt);
    return exit_code;
}
