/* PDB: reads a file and everything in it, as text and as JSON. */
#include "fuzz.h"
#include "fuzz_pdb.h"

#include <format/pdb/pdb_dump.h>

static void check_module(const pdb_module *m)
{
    for (size_t i = 0; i < m->site_count; i++) {
        const pdb_inline_site *s = &m->sites[i];
        FUZZ_CHECK(s->proc < m->proc_count && s->end > i && s->end <= m->site_count);
        FUZZ_CHECK(s->parent == PDB_NONE || s->parent < i);
        FUZZ_CHECK(s->file == PDB_NONE || s->file < m->file_count);
    }
    for (size_t i = 0; i < m->proc_count; i++) {
        FUZZ_CHECK((uint64_t)m->procs[i].first_site + m->procs[i].site_count <= m->site_count);
        FUZZ_CHECK((uint64_t)m->procs[i].first_chunk + m->procs[i].chunk_count <= m->chunk_count);
    }
    for (size_t i = 0; i < m->line_set_count; i++) {
        const pdb_line_set *s = &m->line_sets[i];
        FUZZ_CHECK((uint64_t)s->first + s->count <= m->line_count);
        FUZZ_CHECK(i == 0 || m->line_sets[i - 1].section <= s->section);
        const pdb_line *l = pdb_line_at(m, s->section, s->off);
        FUZZ_CHECK(!l || l->off <= s->off);
    }
}

static void dump_module(out *o, json *j, const pdb *p, uint32_t index, pdb_ids *ids)
{
    pdb_module *m;
    diag d = {0};
    spgo_error err = {0};
    if (pdb_module_read(p, index, &m, &d, &err) != SPGO_OK) {
        FUZZ_CHECK(err.sentence[0] != '\0');
        return;
    }
    check_module(m);
    if (j)
        json_open_object(j);
    pdb_dump_procs(o, j, m);
    pdb_dump_sites(o, j, m, ids);
    pdb_dump_lines(o, j, m);
    pdb_dump_others(o, j, m);
    if (j)
        json_close_object(j);
    pdb_module_free(m);
}

static void ask_addresses(const pdb *p)
{
    for (uint32_t rva = 0; rva < 0x4000; rva += 0x1f) {
        uint16_t section;
        uint32_t off;
        pdb_range ranges[4];
        if (!pdb_section_offset(p, rva, &section, &off))
            continue;
        const pdb_contribution *c = pdb_contribution_at(p, section, off);
        FUZZ_CHECK(!c || (c->off <= off && off - c->off < c->size));
        FUZZ_CHECK(p && (pdb_ranges(p, section, off, 0x100, ranges, 4) < 0x101));
    }
}

static void dump_file(out *o, json *j, const pdb *p)
{
    if (j)
        json_open_object(j);
    pdb_dump_header(o, j, p);
    pdb_dump_streams(o, j, p);
    pdb_dump_sections(o, j, p);
    pdb_dump_modules(o, j, p);
    pdb_publics *publics;
    if (pdb_publics_read(p, &publics, NULL, NULL) == SPGO_OK) {
        pdb_dump_publics(o, j, publics);
        pdb_publics_free(publics);
    }
    if (j)
        json_close_object(j);
    pdb_ids *ids;
    if (pdb_ids_new(p, NULL, &ids, NULL) != SPGO_OK)
        return;
    for (uint32_t i = 0; i < pdb_module_count(p) && i < 64; i++) {
        json module = j ? json_on(o, false) : (json){0};
        dump_module(o, j ? &module : NULL, p, i, ids);
    }
    pdb_ids_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes wrapped;
    spgo_span file = fuzz_pdb_file(data, size, &wrapped);
    pdb *p;
    diag d = {0};
    spgo_error err = {0};
    out o;
    if (pdb_open(file, NULL, &p, &d, &err) != SPGO_OK) {
        FUZZ_CHECK(!p && err.code != SPGO_OK && err.sentence[0] != '\0');
    } else if (out_init(&o, fuzz_null_sink(), NULL) == SPGO_OK) {
        ask_addresses(p);
        dump_file(&o, NULL, p);
        json j = json_on(&o, false);
        dump_file(&o, &j, p);
        out_free(&o);
    }
    pdb_close(p);
    bytes_free(&wrapped);
    return 0;
}
