/*
 * What the tests build on the reader: all modules of a file at once, and from an RVA to the
 * procedure, the chain of inlined calls, and a file and line for each of them.
 */
#ifndef PDB_LOOKUP_H
#define PDB_LOOKUP_H

#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include <format/pdb/pdb.h>

enum { CHAIN_MAX = 64 };

typedef struct lookup {
    spgo_span file;
    pdb *p;
    pdb_module **modules;
    pdb_ids *ids;
    pdb_publics *publics;
} lookup;

typedef struct frame {
    spgo_str name;
    spgo_str file; /* empty: none */
    uint32_t line;
    uint32_t site; /* PDB_NONE: the procedure itself */
} frame;

/* Outermost first. */
typedef struct chain {
    size_t count;
    frame frames[CHAIN_MAX];
    const pdb_module *module;
    const pdb_proc *proc;
} chain;

static inline lookup lookup_open(const char *name)
{
    lookup l = {.file = test_data_or_skip(name)};
    diag d = {0};
    spgo_error err = {0};
    if (pdb_open(l.file, NULL, &l.p, &d, &err) != SPGO_OK)
        fail_msg("%s: %s", name, err.sentence);
    l.modules = calloc(pdb_module_count(l.p) + 1, sizeof *l.modules);
    assert_non_null(l.modules);
    for (uint32_t i = 0; i < pdb_module_count(l.p); i++)
        assert_int_equal(pdb_module_read(l.p, i, &l.modules[i], &d, &err), SPGO_OK);
    assert_int_equal(pdb_ids_new(l.p, NULL, &l.ids, &err), SPGO_OK);
    assert_int_equal(pdb_publics_read(l.p, &l.publics, &d, &err), SPGO_OK);
    if (d.total > 0)
        fail_msg("%s: %s", name, d.kept[0].sentence);
    return l;
}

static inline void lookup_close(lookup *l)
{
    pdb_publics_free(l->publics);
    pdb_ids_free(l->ids);
    for (size_t i = 0; i < pdb_module_count(l->p); i++)
        pdb_module_free(l->modules[i]);
    free(l->modules);
    pdb_close(l->p);
    test_data_free(l->file);
}

static inline const pdb_module *lookup_module(const lookup *l, uint16_t section, uint32_t off)
{
    const pdb_contribution *c = pdb_contribution_at(l->p, section, off);
    return c ? l->modules[c->module] : NULL;
}

static inline const pdb_proc *lookup_proc(const pdb_module *m, uint16_t section, uint32_t off)
{
    for (size_t i = 0; i < m->proc_count; i++) {
        const pdb_proc *proc = &m->procs[i];
        if (proc->section == section && off >= proc->off && off - proc->off < proc->length)
            return proc;
    }
    return NULL;
}

/* The site's row that covers an address; of several the last. */
static inline bool row_covering(const pdb_module *m, uint32_t site, uint16_t section, uint32_t off,
                                pdb_inline_row *out)
{
    pdb_inline_reader r = pdb_inline_rows(m, site);
    pdb_inline_row row;
    bool found = false;
    while (pdb_inline_next(&r, &row)) {
        if (row.section == section && off >= row.off && off - row.off < row.length) {
            *out = row;
            found = true;
        }
    }
    return found;
}

static inline frame frame_at(const pdb_module *m, spgo_str name, uint32_t file, uint32_t line)
{
    return (frame){.name = name,
                   .file = file == PDB_NONE ? (spgo_str){NULL, 0} : m->files[file].name,
                   .line = line,
                   .site = PDB_NONE};
}

/* Before the first row of a procedure, where all code is inlined, its first row stands for it. */
static inline frame frame_of_proc(const pdb_module *m, const pdb_proc *proc, uint16_t section,
                                  uint32_t off)
{
    const pdb_line_set *set = pdb_line_set_at(m, section, off);
    const pdb_line *line = pdb_line_at(m, section, off);
    if (!line && set && set->count > 0)
        line = &m->lines[set->first];
    return frame_at(m, proc ? proc->name : (spgo_str){NULL, 0}, line ? line->file : PDB_NONE,
                    line ? line->line : 0);
}

static inline void lookup_chain(const lookup *l, uint32_t rva, chain *out)
{
    uint16_t section;
    uint32_t off;
    out->count = 0;
    if (!pdb_section_offset(l->p, rva, &section, &off))
        return;
    const pdb_module *m = lookup_module(l, section, off);
    const pdb_proc *proc = m ? lookup_proc(m, section, off) : NULL;
    out->module = m;
    out->proc = proc;
    if (m && !proc && pdb_line_set_at(m, section, off))
        out->frames[out->count++] = frame_of_proc(m, NULL, section, off); /* of assembler */
    if (!proc)
        return;
    out->frames[out->count++] = frame_of_proc(m, proc, section, off);
    uint32_t end = proc->first_site + proc->site_count;
    for (uint32_t site = proc->first_site; site < end && out->count < CHAIN_MAX;) {
        pdb_inline_row row;
        if (!row_covering(m, site, section, off, &row)) {
            site = m->sites[site].end;
            continue;
        }
        const pdb_function *f;
        spgo_error err = {0};
        if (pdb_ids_function(l->ids, m, m->sites[site].inlinee, &f, &err) != SPGO_OK)
            fail_msg("%s", err.sentence);
        out->frames[out->count] = frame_at(m, f->qualified, row.file, row.line);
        out->frames[out->count++].site = site;
        end = m->sites[site].end;
        site++;
    }
}

static inline bool str_is(spgo_str s, const char *text, size_t len)
{
    return s.len == len && (len == 0 || memcmp(s.ptr, text, len) == 0);
}

/* Does some public function start where the procedure does, under this name? */
static inline bool has_public(const lookup *l, const pdb_proc *proc, const char *name, size_t len)
{
    for (size_t i = 0; i < l->publics->public_count; i++) {
        const pdb_public *p = &l->publics->publics[i];
        if (p->section == proc->section && p->off == proc->off && str_is(p->name, name, len))
            return true;
    }
    return false;
}

/* The lines of a text, one after the other; NULL behind the last. *len is without the newline. */
static inline const char *next_text_line(spgo_span *text, size_t *len)
{
    if (text->len == 0)
        return NULL;
    const char *start = (const char *)text->ptr;
    const char *end = memchr(start, '\n', text->len);
    size_t whole = end ? (size_t)(end - start) + 1 : text->len;
    *len = end ? whole - 1 : whole;
    if (*len > 0 && start[*len - 1] == '\r')
        --*len;
    text->ptr += whole;
    text->len -= whole;
    return start;
}

#endif
