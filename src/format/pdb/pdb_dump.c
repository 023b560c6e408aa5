/* Rendering a PDB: see pdb_dump.h. */
#include <format/pdb/pdb_dump.h>

#include <inttypes.h>
#include <stdio.h>

#include <base/fields.h>
#include <base/guid.h>
#include <base/text.h>

/* ------------------------------------------------------------------ pieces */

static void put_kind(const fields *f, const char *name, const char *known, uint32_t number)
{
    if (known)
        field_str(f, name, text_str(known));
    else
        field_hex(f, name, number);
}

/* An index that may be none: then it does not appear. */
static void put_index(const fields *f, const char *name, uint32_t index)
{
    if (index != PDB_NONE)
        field_u64(f, name, index);
}

static void put_rva(const fields *f, const char *name, uint32_t rva)
{
    if (rva != PDB_NO_RVA)
        field_hex(f, name, rva);
}

static void put_place(const fields *f, uint16_t section, uint32_t off)
{
    field_u64(f, "section", section);
    field_hex(f, "off", off);
}

static void put_file(const fields *f, const pdb_module *m, uint32_t file)
{
    if (file != PDB_NONE)
        field_str(f, "file", m->files[file].name);
}

static void put_line(const fields *f, uint32_t line)
{
    switch (pdb_line_kind_of(line)) {
    case PDB_LINE_REAL:
        field_u64(f, "line", line);
        break;
    case PDB_LINE_NONE:
        field_str(f, "line", text_str("none"));
        break;
    case PDB_LINE_HIDDEN:
        field_str(f, "line", text_str("hidden"));
        break;
    case PDB_LINE_STEP_INTO:
        field_str(f, "line", text_str("step-into"));
        break;
    }
}

/* ------------------------------------------------------------------ header, streams */

void pdb_dump_header(out *o, json *j, const pdb *p)
{
    const fields f = fields_lines(o, j);
    const pdb_info *i = pdb_get_info(p);
    char version[16], key[SYMBOL_KEY_SIZE];
    field_guid(&f, "guid", &i->id.guid);
    field_u64(&f, "age", i->id.age);
    symbol_key_text(key, &i->id);
    field_str(&f, "symbol_key", text_str(key));
    field_u64(&f, "info_age", i->info_age);
    field_u64(&f, "info_version", i->info_version);
    field_hex(&f, "signature", i->signature);
    field_hex(&f, "features", i->features);
    field_bool(&f, "fastlink", i->features & PDB_FEATURE_MINI);
    field_bool(&f, "debug_info", i->has_dbi);
    field_bool(&f, "incremental", i->is_incremental);
    field_bool(&f, "stripped", i->is_stripped);
    field_bool(&f, "conflicting_types", i->has_conflicting_types);
    field_bool(&f, "omap", i->has_omap);
    put_kind(&f, "machine", pdb_machine_name(i->machine), i->machine);
    snprintf(version, sizeof version, "%u.%u", i->linker_major, i->linker_minor);
    field_str(&f, "linker", text_str(version));
    field_u64(&f, "dbi_version", i->dbi_version);
    field_u64(&f, "page_size", i->page_size);
    field_u64(&f, "page_count", i->page_count);
    field_u64(&f, "stream_count", pdb_stream_count(p));
    field_u64(&f, "module_count", pdb_module_count(p));
    field_u64(&f, "section_count", pdb_section_count(p));
    field_u64(&f, "contribution_count", pdb_contribution_count(p));
}

static const char *fixed_stream(uint32_t stream)
{
    static const char *const names[] = {"old directory", "info", "TPI", "DBI", "IPI"};
    return stream < sizeof names / sizeof *names ? names[stream] : NULL;
}

void pdb_dump_streams(out *o, json *j, const pdb *p)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "streams");
    for (uint32_t i = 0; i < pdb_stream_count(p); i++) {
        fields_open_row(&f, "stream", i);
        put_index(&f, "size_bytes", pdb_stream_size(p, i));
        if (fixed_stream(i))
            field_str(&f, "kind", text_str(fixed_stream(i)));
        fields_close_row(&f);
    }
    fields_close_table(j);
    fields_open_table(j, "named_streams");
    for (size_t i = 0; i < pdb_named_stream_count(p); i++) {
        const pdb_named_stream *n = pdb_get_named_stream(p, i);
        fields_open_row(&f, "named stream", i);
        field_str(&f, "name", n->name);
        field_u64(&f, "stream", n->stream);
        fields_close_row(&f);
    }
    fields_close_table(j);
}

/* ------------------------------------------------------------------ sections, modules */

static void dump_contribution(const fields *f, size_t index, const pdb_contribution *c)
{
    fields_open_row(f, "contribution", index);
    put_place(f, c->section, c->off);
    field_hex(f, "size", c->size);
    field_u64(f, "module", c->module);
    field_hex(f, "characteristics", c->characteristics);
    if (c->coff_section)
        field_u64(f, "coff_section", c->coff_section);
    fields_close_row(f);
}

void pdb_dump_sections(out *o, json *j, const pdb *p)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "sections");
    for (size_t i = 0; i < pdb_section_count(p); i++) {
        const pdb_section *s = pdb_get_section(p, i);
        fields_open_row(&f, "section", i + 1);
        field_str(&f, "name", text_str(s->name));
        field_hex(&f, "rva", s->rva);
        field_hex(&f, "virtual_size", s->virtual_size);
        field_hex(&f, "raw_size", s->raw_size);
        field_hex(&f, "characteristics", s->characteristics);
        fields_close_row(&f);
    }
    fields_close_table(j);
    fields_open_table(j, "contributions");
    for (size_t i = 0; i < pdb_contribution_count(p); i++)
        dump_contribution(&f, i, pdb_get_contribution(p, i));
    fields_close_table(j);
}

void pdb_dump_modules(out *o, json *j, const pdb *p)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "modules");
    for (size_t i = 0; i < pdb_module_count(p); i++) {
        const pdb_module_header *m = pdb_get_module_header(p, i);
        fields_open_row(&f, "module", i);
        field_str(&f, "name", m->name);
        field_str(&f, "object", m->object_name);
        put_index(&f, "stream", m->stream);
        field_u64(&f, "symbol_bytes", m->symbol_bytes);
        field_u64(&f, "line_bytes", m->c13_bytes);
        field_u64(&f, "file_count", m->file_count);
        fields_close_row(&f);
    }
    fields_close_table(j);
}

/* ------------------------------------------------------------------ procedures */

static void dump_proc(const fields *f, size_t index, const pdb_proc *p)
{
    fields_open_row(f, "procedure", index);
    put_rva(f, "rva", p->rva);
    put_place(f, p->section, p->off);
    field_hex(f, "length", p->length);
    field_str(f, "kind", text_str(pdb_symbol_name(p->kind)));
    field_str(f, "name", p->name);
    field_hex(f, "flags", p->flags);
    field_hex(f, "type", p->type);
    field_u64(f, "inline_sites", p->site_count);
    if (p->has_pogo) {
        field_u64(f, "invocations", p->pogo.invocations);
        field_i64(f, "dynamic_instructions", p->pogo.dynamic_count);
        field_u64(f, "instructions", p->pogo.instruction_count);
    }
    fields_close_row(f);
}

static void dump_chunk(const fields *f, size_t index, const pdb_chunk *c)
{
    fields_open_row(f, "separated code", index);
    put_index(f, "procedure", c->proc);
    put_rva(f, "rva", c->rva);
    put_place(f, c->section, c->off);
    field_hex(f, "length", c->length);
    field_u64(f, "parent_section", c->parent_section);
    field_hex(f, "parent_off", c->parent_off);
    field_hex(f, "flags", c->flags);
    fields_close_row(f);
}

void pdb_dump_procs(out *o, json *j, const pdb_module *m)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "procedures");
    for (size_t i = 0; i < m->proc_count; i++)
        dump_proc(&f, i, &m->procs[i]);
    fields_close_table(j);
    fields_open_table(j, "separated_code");
    for (size_t i = 0; i < m->chunk_count; i++)
        dump_chunk(&f, i, &m->chunks[i]);
    fields_close_table(j);
}

static void dump_site_rows(const fields *f, const pdb_module *m, uint32_t site)
{
    pdb_inline_reader r = pdb_inline_rows(m, site);
    pdb_inline_row row;
    fields_open_table(f->j, "rows");
    for (size_t i = 0; pdb_inline_next(&r, &row); i++) {
        fields_open_row(f, "  row", i);
        put_rva(f, "rva", pdb_rva(m->file, row.section, row.off));
        put_place(f, row.section, row.off);
        field_hex(f, "length", row.length);
        put_file(f, m, row.file);
        put_line(f, row.line);
        fields_close_row(f);
    }
    fields_close_table(f->j);
}

void pdb_dump_sites(out *o, json *j, const pdb_module *m, pdb_ids *ids)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "inline_sites");
    for (uint32_t i = 0; i < m->site_count; i++) {
        const pdb_inline_site *s = &m->sites[i];
        const pdb_function *function = NULL;
        if (ids)
            (void)pdb_ids_function(ids, m, s->inlinee, &function, NULL);
        fields_open_row(&f, "inline site", i);
        field_u64(&f, "procedure", s->proc);
        put_index(&f, "parent", s->parent);
        field_hex(&f, "inlinee", s->inlinee);
        if (function)
            field_str(&f, "name", function->qualified);
        if (function && function->has_decorated_hash)
            field_hex(&f, "decorated_hash", function->decorated_hash);
        put_file(&f, m, s->file);
        put_line(&f, s->line);
        put_index(&f, "invocations", s->invocations);
        if (!j)
            fields_close_row(&f);
        dump_site_rows(&f, m, i);
        if (j)
            fields_close_row(&f);
    }
    fields_close_table(j);
}

/* ------------------------------------------------------------------ lines */

static void dump_line_set(const fields *f, const pdb_module *m, size_t index)
{
    const pdb_line_set *s = &m->line_sets[index];
    for (size_t i = 0; i < s->count; i++) {
        const pdb_line *l = &m->lines[s->first + i];
        fields_open_row(f, "line", s->first + i);
        put_rva(f, "rva", pdb_rva(m->file, s->section, l->off));
        put_place(f, s->section, l->off);
        field_hex(f, "length", l->length);
        put_file(f, m, l->file);
        put_line(f, l->line);
        if (s->has_columns) {
            field_u64(f, "column", l->column);
            field_u64(f, "column_end", l->column_end);
        }
        field_bool(f, "statement", l->is_statement);
        fields_close_row(f);
    }
}

void pdb_dump_lines(out *o, json *j, const pdb_module *m)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "files");
    for (size_t i = 0; i < m->file_count; i++) {
        fields_open_row(&f, "file", i);
        field_str(&f, "name", m->files[i].name);
        field_u64(&f, "checksum_kind", m->files[i].checksum_kind);
        field_bytes(&f, "checksum", m->files[i].checksum);
        fields_close_row(&f);
    }
    fields_close_table(j);
    fields_open_table(j, "lines");
    for (size_t i = 0; i < m->line_set_count; i++)
        dump_line_set(&f, m, i);
    fields_close_table(j);
}

/* ------------------------------------------------------------------ the other symbols */

static void dump_thunks(const fields *f, const pdb_module *m)
{
    fields_open_table(f->j, "thunks");
    for (size_t i = 0; i < m->thunk_count; i++) {
        const pdb_thunk *t = &m->thunks[i];
        fields_open_row(f, "thunk", i);
        put_rva(f, "rva", t->rva);
        put_place(f, t->section, t->off);
        field_hex(f, "length", t->length);
        field_u64(f, "ordinal", t->ordinal);
        field_str(f, "name", t->name);
        fields_close_row(f);
    }
    fields_close_table(f->j);
    fields_open_table(f->j, "trampolines");
    for (size_t i = 0; i < m->trampoline_count; i++) {
        const pdb_trampoline *t = &m->trampolines[i];
        fields_open_row(f, "trampoline", i);
        put_rva(f, "rva", t->rva);
        put_place(f, t->section, t->off);
        field_hex(f, "length", t->length);
        field_u64(f, "kind", t->kind);
        put_rva(f, "target_rva", t->target_rva);
        field_u64(f, "target_section", t->target_section);
        field_hex(f, "target_off", t->target_off);
        fields_close_row(f);
    }
    fields_close_table(f->j);
}

static void dump_switch_tables(const fields *f, const pdb_module *m)
{
    fields_open_table(f->j, "switch_tables");
    for (size_t i = 0; i < m->switch_table_count; i++) {
        const pdb_switch_table *t = &m->switch_tables[i];
        fields_open_row(f, "switch table", i);
        put_index(f, "procedure", t->proc);
        put_rva(f, "branch_rva", pdb_rva(m->file, t->branch_section, t->branch_off));
        put_rva(f, "table_rva", pdb_rva(m->file, t->table_section, t->table_off));
        put_rva(f, "base_rva", pdb_rva(m->file, t->base_section, t->base_off));
        field_u64(f, "entry_type", t->entry_type);
        field_u64(f, "entry_count", t->entry_count);
        fields_close_row(f);
    }
    fields_close_table(f->j);
}

static void dump_marks(const fields *f, const pdb_module *m)
{
    fields_open_table(f->j, "blocks");
    for (size_t i = 0; i < m->block_count; i++) {
        fields_open_row(f, "block", i);
        put_index(f, "procedure", m->blocks[i].proc);
        put_place(f, m->blocks[i].section, m->blocks[i].off);
        field_hex(f, "length", m->blocks[i].length);
        field_str(f, "name", m->blocks[i].name);
        fields_close_row(f);
    }
    fields_close_table(f->j);
    fields_open_table(f->j, "labels");
    for (size_t i = 0; i < m->label_count; i++) {
        fields_open_row(f, "label", i);
        put_index(f, "procedure", m->labels[i].proc);
        put_place(f, m->labels[i].section, m->labels[i].off);
        field_str(f, "name", m->labels[i].name);
        fields_close_row(f);
    }
    fields_close_table(f->j);
    fields_open_table(f->j, "call_sites");
    for (size_t i = 0; i < m->call_site_count; i++) {
        fields_open_row(f, "indirect call", i);
        put_index(f, "procedure", m->call_sites[i].proc);
        put_place(f, m->call_sites[i].section, m->call_sites[i].off);
        field_hex(f, "type", m->call_sites[i].type);
        fields_close_row(f);
    }
    fields_close_table(f->j);
}

static void dump_groups(const fields *f, const pdb_module *m)
{
    fields_open_table(f->j, "coff_groups");
    for (size_t i = 0; i < m->coff_group_count; i++) {
        const pdb_coff_group *g = &m->coff_groups[i];
        fields_open_row(f, "coff group", i);
        put_rva(f, "rva", pdb_rva(m->file, g->section, g->off));
        put_place(f, g->section, g->off);
        field_hex(f, "length", g->length);
        field_str(f, "name", g->name);
        field_hex(f, "characteristics", g->characteristics);
        fields_close_row(f);
    }
    fields_close_table(f->j);
    fields_open_table(f->j, "mini_refs");
    for (size_t i = 0; i < m->mini_ref_count; i++) {
        fields_open_row(f, "mini ref", i);
        field_hex(f, "section_or_type", m->mini_refs[i].coff_section_or_type);
        field_hex(f, "flags", m->mini_refs[i].flags);
        field_str(f, "name", m->mini_refs[i].name);
        fields_close_row(f);
    }
    fields_close_table(f->j);
}

void pdb_dump_others(out *o, json *j, const pdb_module *m)
{
    const fields f = fields_pairs(o, j);
    dump_thunks(&f, m);
    dump_switch_tables(&f, m);
    dump_marks(&f, m);
    dump_groups(&f, m);
}

/* ------------------------------------------------------------------ publics */

void pdb_dump_publics(out *o, json *j, const pdb_publics *publics)
{
    const fields f = fields_pairs(o, j);
    fields_open_table(j, "publics");
    for (size_t i = 0; i < publics->public_count; i++) {
        const pdb_public *p = &publics->publics[i];
        fields_open_row(&f, "public", i);
        put_rva(&f, "rva", p->rva);
        put_place(&f, p->section, p->off);
        field_bool(&f, "function", p->flags & PDB_PUBLIC_FUNCTION);
        field_str(&f, "name", p->name);
        fields_close_row(&f);
    }
    fields_close_table(j);
    fields_open_table(j, "procedure_refs");
    for (size_t i = 0; i < publics->proc_ref_count; i++) {
        const pdb_proc_ref *r = &publics->proc_refs[i];
        fields_open_row(&f, "procedure ref", i);
        put_index(&f, "module", r->module);
        field_hex(&f, "symbol_off", r->symbol_off);
        field_bool(&f, "local", r->is_local);
        field_str(&f, "name", r->name);
        fields_close_row(&f);
    }
    fields_close_table(j);
    fields_open_table(j, "mini_refs");
    for (size_t i = 0; i < publics->mini_ref_count; i++) {
        fields_open_row(&f, "mini ref", i);
        put_index(&f, "module", publics->mini_refs[i].module);
        field_hex(&f, "section_or_type", publics->mini_refs[i].coff_section_or_type);
        field_str(&f, "name", publics->mini_refs[i].name);
        fields_close_row(&f);
    }
    fields_close_table(j);
}
