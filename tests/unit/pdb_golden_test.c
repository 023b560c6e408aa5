/*
 * Whole tables of real files against what llvm-pdbutil, Breakpad's dump_syms (over DIA) and
 * mozilla's dump_syms printed of them. Each test says how much it compared.
 */
#include "pdb_lookup.h"

#include <stdio.h>

#include <base/bytes.h>
#include <base/guid.h>

/* ------------------------------------------------------------------ sets of lines */

typedef struct line_list {
    char **lines;
    size_t count, room;
} line_list;

static void add_line(line_list *l, const char *text, size_t len)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        l->lines = realloc(l->lines, l->room * sizeof *l->lines);
        assert_non_null(l->lines);
    }
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    l->lines[l->count++] = copy;
}

static void free_lines(line_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->lines[i]);
    free(l->lines);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The same lines, in whatever order. */
static void expect_same_lines(line_list *here, line_list *golden, const char *what)
{
    qsort(here->lines, here->count, sizeof *here->lines, by_text);
    qsort(golden->lines, golden->count, sizeof *golden->lines, by_text);
    size_t n = here->count < golden->count ? here->count : golden->count;
    for (size_t i = 0; i < n; i++)
        if (strcmp(here->lines[i], golden->lines[i]) != 0)
            fail_msg("%s: here \"%s\", there \"%s\"", what, here->lines[i], golden->lines[i]);
    assert_int_equal(here->count, golden->count);
    print_message("%s: %zu lines are the same\n", what, here->count);
    free_lines(here);
    free_lines(golden);
}

/* Takes lines out that the golden file has not, which must be `count`. */
static void drop_unknown(line_list *here, line_list *golden, size_t count)
{
    qsort(golden->lines, golden->count, sizeof *golden->lines, by_text);
    size_t kept = 0;
    for (size_t i = 0; i < here->count; i++) {
        char *line = here->lines[i];
        if (bsearch(&line, golden->lines, golden->count, sizeof *golden->lines, by_text))
            here->lines[kept++] = line;
        else
            free(line);
    }
    assert_int_equal(here->count - kept, count);
    here->count = kept;
}

static char text_room[65536];

#define ADD(list, ...)                                                                             \
    add_line(list, text_room, (size_t)snprintf(text_room, sizeof text_room, __VA_ARGS__))

static const char *kind_name(uint16_t kind)
{
    const char *name = pdb_symbol_name(kind);
    return name ? name : "?";
}

#define STR(s) (int)(s).len, (s).len ? (s).ptr : ""

/* ------------------------------------------------------------------ procedures */

/* llvm-pdbutil 19 prints the place of a trampoline where its target should be. */
static void list_module_procs(const pdb_module *m, line_list *out)
{
    for (size_t i = 0; i < m->proc_count; i++) {
        const pdb_proc *p = &m->procs[i];
        ADD(out, "%04x:%u\t%u\t%s\t0000\t%.*s", p->section, p->off, p->length, kind_name(p->kind),
            STR(p->name));
    }
    for (size_t i = 0; i < m->thunk_count; i++) {
        const pdb_thunk *t = &m->thunks[i];
        ADD(out, "%04x:%u\t%u\tS_THUNK32\t0000\t%.*s", t->section, t->off, t->length, STR(t->name));
    }
    for (size_t i = 0; i < m->trampoline_count; i++) {
        const pdb_trampoline *t = &m->trampolines[i];
        ADD(out, "%04x:%u\t%u\tS_TRAMPOLINE\t0000\t-> %04u:%04u (tramp incremental)", t->section,
            t->off, t->length, t->section, t->off);
    }
    for (size_t i = 0; i < m->coff_group_count; i++) {
        const pdb_coff_group *g = &m->coff_groups[i];
        ADD(out, "%04x:%u\t%u\tS_COFFGROUP\t0000\t%.*s", g->section, g->off, g->length,
            STR(g->name));
    }
}

static void check_procs(const char *name, size_t count, size_t unknown)
{
    char pdb_name[128], golden_name[128];
    snprintf(pdb_name, sizeof pdb_name, "pdb/%s.pdb", name);
    snprintf(golden_name, sizeof golden_name, "pdb/golden/%s.procs.txt", name);
    lookup l = lookup_open(pdb_name);
    spgo_span all = test_data_or_skip(golden_name), left = all;
    line_list here = {0}, golden = {0};
    size_t len;
    for (const char *line; (line = next_text_line(&left, &len));)
        if (len > 0 && line[0] != '#')
            add_line(&golden, line, len);
    for (size_t i = 0; i < pdb_module_count(l.p); i++)
        list_module_procs(l.modules[i], &here);
    assert_int_equal(here.count, count);
    if (unknown)
        drop_unknown(&here, &golden, unknown);
    expect_same_lines(&here, &golden, golden_name);
    test_data_free(all);
    lookup_close(&l);
}

/* The list of the rust file lacks a run of 24 procedures, from 0001:44352 to 0001:51680: all are in
 * the globals too (references_lead_to_procedures counts 391 of each), and llvm-symbolizer names
 * them. */
static void procedures_are_pdbutils(void **state)
{
    (void)state;
    check_procs("bp_regtest64", 280, 0);
    check_procs("bs_x64_rust158", 483, 24);
    check_procs("bs_x64_vs2022_incremental", 276, 0);
    check_procs("sym_crash", 173, 0);
}

/* A trampoline is e9 and a distance: the target that the PDB names is where the image's jump goes.
 */
static void trampolines_jump_to_their_targets(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/bs_x64_vs2022_incremental.pdb");
    spgo_span exe = test_data_or_skip("pdb/bs_x64_vs2022_incremental.exe");
    const pdb_section *text = pdb_get_section(l.p, 0);
    size_t checked = 0;
    for (size_t i = 0; i < pdb_module_count(l.p); i++) {
        for (size_t k = 0; k < l.modules[i]->trampoline_count; k++) {
            const pdb_trampoline *t = &l.modules[i]->trampolines[k];
            const uint8_t *at = exe.ptr + text->raw_off + t->off;
            assert_int_equal(at[0], 0xe9);
            uint32_t distance = (uint32_t)at[1] | (uint32_t)at[2] << 8 | (uint32_t)at[3] << 16 |
                                (uint32_t)at[4] << 24;
            assert_int_equal(t->length, 5);
            assert_int_equal(t->rva + 5 + distance, t->target_rva);
            checked++;
        }
    }
    assert_int_equal(checked, 91);
    test_data_free(exe);
    lookup_close(&l);
}

/* ------------------------------------------------------------------ publics */

static void put_flags(char *out, size_t size, uint32_t flags)
{
    static const char *const names[] = {"code", "function", "managed", "msil"};
    out[0] = '\0';
    for (unsigned i = 0; i < 4; i++) {
        if (!(flags >> i & 1))
            continue;
        size_t len = strlen(out);
        snprintf(out + len, size - len, "%s%s", len ? " | " : "", names[i]);
    }
    if (!out[0])
        snprintf(out, size, "none");
}

/* "  off | S_PUB32 [size = n] `name`" and "flags = ..., addr = 0001:7982" */
static void take_golden_publics(spgo_span left, line_list *out)
{
    size_t len;
    char name[65536] = "";
    for (const char *line; (line = next_text_line(&left, &len));) {
        static const char flags[] = "           flags = ";
        if (len > sizeof flags && memcmp(line, flags, sizeof flags - 1) == 0) {
            size_t skip = sizeof flags - 1;
            ADD(out, "%s %.*s", name, (int)(len - skip), line + skip);
            continue;
        }
        const char *tick = memchr(line, '`', len);
        if (tick && memchr(line, '|', len))
            snprintf(name, sizeof name, "%.*s", (int)(line + len - 1 - (tick + 1)), tick + 1);
    }
}

static void check_publics(const char *name, size_t count)
{
    char pdb_name[128], golden_name[128], flags[64];
    snprintf(pdb_name, sizeof pdb_name, "pdb/%s.pdb", name);
    snprintf(golden_name, sizeof golden_name, "pdb/golden/%s.publics.txt", name);
    lookup l = lookup_open(pdb_name);
    spgo_span all = test_data_or_skip(golden_name);
    line_list here = {0}, golden = {0};
    take_golden_publics(all, &golden);
    for (size_t i = 0; i < l.publics->public_count; i++) {
        const pdb_public *p = &l.publics->publics[i];
        put_flags(flags, sizeof flags, p->flags);
        ADD(&here, "%.*s %s, addr = %04u:%04u", STR(p->name), flags, p->section, p->off);
    }
    assert_int_equal(here.count, count);
    expect_same_lines(&here, &golden, golden_name);
    test_data_free(all);
    lookup_close(&l);
}

static void publics_are_pdbutils(void **state)
{
    (void)state;
    check_publics("bp_regtest64", 1058);
    check_publics("bs_x64_rust158", 423);
    check_publics("bs_x64_vs2022_incremental", 271);
    check_publics("sym_crash", 339);
}

/* Every reference leads to the procedure of its name. */
static void references_lead_to_procedures(void **state)
{
    (void)state;
    static const char *const files[] = {"pdb/bp_regtest64.pdb", "pdb/bs_x64_rust158.pdb",
                                        "pdb/sym_crash.pdb", "pdb/bs_arm64_uwp_vs2019.pdb"};
    size_t checked = 0;
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        lookup l = lookup_open(files[f]);
        for (size_t i = 0; i < l.publics->proc_ref_count; i++) {
            const pdb_proc_ref *ref = &l.publics->proc_refs[i];
            assert_true(ref->module < pdb_module_count(l.p));
            const pdb_module *m = l.modules[ref->module];
            const pdb_proc *found = NULL;
            for (size_t k = 0; k < m->proc_count; k++)
                if (m->procs[k].symbol_off == ref->symbol_off)
                    found = &m->procs[k];
            assert_non_null(found);
            assert_true(str_is(found->name, ref->name.ptr, ref->name.len));
            checked++;
        }
        lookup_close(&l);
    }
    assert_int_equal(checked, 246 + 391 + 103 + 45);
}

/* ------------------------------------------------------------------ pdbutil's summary */

static void list_summary(const lookup *l, line_list *out)
{
    const pdb_info *i = pdb_get_info(l->p);
    char guid[GUID_TEXT_SIZE];
    guid_text(guid, &i->id.guid);
    ADD(out, "Block Size: %u", i->page_size);
    ADD(out, "Number of blocks: %u", i->page_count);
    ADD(out, "Number of streams: %u", pdb_stream_count(l->p));
    ADD(out, "Signature: %u", i->signature);
    ADD(out, "Age: %u", i->info_age);
    ADD(out, "GUID: %s", guid);
    ADD(out, "Is incrementally linked: %s", i->is_incremental ? "true" : "false");
    ADD(out, "Has conflicting types: %s", i->has_conflicting_types ? "true" : "false");
    ADD(out, "Is stripped: %s", i->is_stripped ? "true" : "false");
    for (uint32_t s = 0; s < pdb_stream_count(l->p); s++) {
        uint32_t size = pdb_stream_size(l->p, s);
        ADD(out, "stream %u: %u", s, size == PDB_NONE ? 0 : size);
    }
    for (size_t n = 0; n < pdb_named_stream_count(l->p); n++) {
        const pdb_named_stream *s = pdb_get_named_stream(l->p, n);
        ADD(out, "%.*s", STR(s->name));
        ADD(out, "Index: %u", s->stream);
        ADD(out, "Size in bytes: %u", pdb_stream_size(l->p, s->stream));
    }
}

static void list_contribution(const pdb_contribution *c, line_list *out)
{
    ADD(out, "mod = %u, %04u:%04u, size = %d", c->module, c->section, c->off, (int)c->size);
}

static void list_modules(const lookup *l, line_list *out)
{
    for (size_t i = 0; i < pdb_module_count(l->p); i++) {
        const pdb_module_header *h = pdb_get_module_header(l->p, i);
        ADD(out, "Mod %04zu | `%.*s`: ", i, STR(h->name));
        ADD(out, "Obj: `%.*s`: ", STR(h->object_name));
        ADD(out, "debug stream: %u, # files: %u", h->stream == PDB_NONE ? 0xffff : h->stream,
            h->file_count);
        list_contribution(&h->first, out);
    }
    for (size_t i = 0; i < pdb_contribution_count(l->p); i++)
        list_contribution(pdb_get_contribution(l->p, i), out);
}

static void list_sections(const lookup *l, line_list *out)
{
    for (size_t i = 0; i < pdb_section_count(l->p); i++) {
        const pdb_section *s = pdb_get_section(l->p, i);
        ADD(out, "%s name", s->name);
        ADD(out, "%X virtual size", s->virtual_size);
        ADD(out, "%X virtual address", s->rva);
        ADD(out, "%X size of raw data", s->raw_size);
        ADD(out, "%X file pointer to raw data", s->raw_off);
        ADD(out, "%X flags", s->characteristics);
    }
}

static bool has_start(const char *line, size_t len, const char *start)
{
    return len >= strlen(start) && memcmp(line, start, strlen(start)) == 0;
}

static bool has_end(const char *line, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(line + len - n, end, n) == 0;
}

/* The part of a line up to a mark; all of it without. */
static size_t up_to(const char *line, size_t len, const char *mark)
{
    for (size_t i = 0; i + strlen(mark) <= len; i++)
        if (memcmp(line + i, mark, strlen(mark)) == 0)
            return i;
    return len;
}

/* One line of llvm-pdbutil's report: what of it is read here goes into the list. */
static void take_pdbutil_line(const char *line, size_t len, const char *chapter, line_list *out)
{
    static const char *const starts[] = {"Block Size:",
                                         "Number of blocks:",
                                         "Number of streams:",
                                         "Signature:",
                                         "Age:",
                                         "GUID:",
                                         "Is incrementally linked:",
                                         "Has conflicting types:",
                                         "Is stripped:",
                                         "Index:",
                                         "Size in bytes:",
                                         "Mod 0",
                                         "Obj:"};
    static const char *const ends[] = {" name",
                                       " virtual size",
                                       " virtual address",
                                       " size of raw data",
                                       " file pointer to raw data",
                                       " flags"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (has_start(line, len, starts[i]))
            add_line(out, line, len);
    if (strcmp(chapter, "Section Headers") == 0)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            if (has_end(line, len, ends[i]))
                add_line(out, line, len);
    unsigned stream, size;
    if (strcmp(chapter, "Streams") == 0 &&
        sscanf(line, "Stream %u ( %u bytes)", &stream, &size) == 2)
        ADD(out, "stream %u: %u", stream, size);
    if (strcmp(chapter, "Named Streams") == 0 && !has_start(line, len, "Index:") &&
        !has_start(line, len, "Size in") && line[0] != '=')
        add_line(out, line, len);
    if (has_start(line, len, "debug stream:"))
        add_line(out, line, up_to(line, len, ", has ec"));
    if (has_start(line, len, "SC[")) {
        size_t from = up_to(line, len, "mod =");
        add_line(out, line + from, up_to(line, len, ", data crc") - from);
    }
}

static void take_pdbutil(spgo_span left, line_list *out)
{
    static const char *const chapters[] = {"Summary",
                                           "Streams",
                                           "Named Streams",
                                           "Modules",
                                           "Section Headers",
                                           "Original Section Headers",
                                           "Section Contributions",
                                           "Section Map"};
    const char *chapter = "";
    size_t len;
    for (const char *line; (line = next_text_line(&left, &len));) {
        size_t indent = 0;
        while (indent < len && line[indent] == ' ')
            indent++;
        const char *name = line + indent;
        size_t rest = len - indent;
        bool is_chapter = false;
        for (size_t i = 0; indent > 9 && i < sizeof chapters / sizeof *chapters; i++) {
            size_t n = strlen(chapters[i]);
            if (rest >= n && memcmp(name, chapters[i], n) == 0 && (rest == n || name[n] == ' ')) {
                chapter = chapters[i];
                is_chapter = true;
            }
        }
        if (!is_chapter && rest > 0)
            take_pdbutil_line(name, rest, chapter, out);
    }
}

static void check_pdbutil(const char *name)
{
    char pdb_name[128], golden_name[128];
    snprintf(pdb_name, sizeof pdb_name, "pdb/%s.pdb", name);
    snprintf(golden_name, sizeof golden_name, "pdb/golden/%s.pdbutil.txt", name);
    lookup l = lookup_open(pdb_name);
    spgo_span all = test_data_or_skip(golden_name);
    line_list here = {0}, golden = {0};
    take_pdbutil(all, &golden);
    list_summary(&l, &here);
    list_modules(&l, &here);
    list_sections(&l, &here);
    expect_same_lines(&here, &golden, golden_name);
    test_data_free(all);
    lookup_close(&l);
}

static void summaries_are_pdbutils(void **state)
{
    (void)state;
    check_pdbutil("bp_regtest64");
    check_pdbutil("bs_x64_rust158");
    check_pdbutil("bs_x64_vs2022_incremental");
    check_pdbutil("sym_crash");
}

/* ------------------------------------------------------------------ Breakpad */

typedef struct sym_tally {
    size_t functions, lines, publics;
    size_t empty;  /* rows of no length */
    size_t filled; /* functions that count a few bytes that were put behind them */
    size_t other_lines;
} sym_tally;

typedef struct sym_files {
    spgo_str names[8192];
} sym_files;

static bool same_file(spgo_str here, spgo_str there)
{
    if (here.len != there.len)
        return false;
    for (size_t i = 0; i < here.len; i++) {
        char a = here.ptr[i], b = there.ptr[i];
        a = a >= 'A' && a <= 'Z' ? (char)(a + 32) : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b + 32) : b;
        if (a != b)
            return false;
    }
    return true;
}

/* Rows of no length, as before a first instruction that two lines share. */
static bool has_empty_row(const pdb_module *m, uint16_t section, uint32_t off, uint32_t number)
{
    const pdb_line_set *s = pdb_line_set_at(m, section, off);
    for (size_t i = 0; s && i < s->count; i++) {
        const pdb_line *l = &m->lines[s->first + i];
        if (l->off == off && l->length == 0 && l->line == number)
            return true;
    }
    return false;
}

/* A row of the function's lines: the first and the last byte have it. */
static void check_sym_line(const lookup *l, uint32_t rva, uint32_t size, uint32_t number,
                           spgo_str file, sym_tally *t)
{
    uint16_t section;
    uint32_t off;
    t->lines++;
    assert_true(pdb_section_offset(l->p, rva, &section, &off));
    if (size == 0 && has_empty_row(lookup_module(l, section, off), section, off, number)) {
        t->empty++;
        return;
    }
    for (int end = 0; end < 2; end++) {
        assert_true(pdb_section_offset(l->p, end ? rva + size - 1 : rva, &section, &off));
        const pdb_module *m = lookup_module(l, section, off);
        const pdb_line *line = m ? pdb_line_at(m, section, off) : NULL;
        if (line && line->line == number && line->file != PDB_NONE &&
            same_file(m->files[line->file].name, file))
            continue;
        t->other_lines++;
        print_message("  0x%x+0x%x: line %u there, %u here\n", rva, size, number,
                      line ? line->line : 0);
        return;
    }
}

static void check_sym_function(const lookup *l, uint32_t rva, uint32_t size, sym_tally *t)
{
    uint16_t section;
    uint32_t off;
    t->functions++;
    assert_true(pdb_section_offset(l->p, rva, &section, &off));
    const pdb_module *m = lookup_module(l, section, off);
    assert_non_null(m);
    const pdb_proc *proc = lookup_proc(m, section, off);
    if (!proc)
        fail_msg("no procedure at 0x%x", rva);
    pdb_range ranges[512];
    size_t n = pdb_ranges(l->p, proc->section, proc->off, proc->length, ranges, 512);
    if (n == 0 || n > 512)
        fail_msg("function at 0x%x: %zu ranges, from %.*s rva %x", rva, n, STR(proc->name),
                 proc->rva);
    uint32_t start = UINT32_MAX, end = 0;
    for (size_t i = 0; i < n; i++) {
        start = ranges[i].rva < start ? ranges[i].rva : start;
        end = ranges[i].rva + ranges[i].length > end ? ranges[i].rva + ranges[i].length : end;
    }
    if (start == rva && end - start < size && size - (end - start) <= 3)
        t->filled++;
    else if (start != rva || end - start != size)
        fail_msg("function at 0x%x has 0x%x bytes there, here 0x%x at 0x%x in %zu ranges", rva,
                 size, end - start, start, n);
}

static void check_sym_public(const lookup *l, uint32_t rva, spgo_str name, sym_tally *t)
{
    t->publics++;
    for (size_t i = 0; i < l->publics->public_count; i++) {
        const pdb_public *p = &l->publics->publics[i];
        /* They undo the decoration of C names: the name is a part of the public's. */
        if (p->rva != rva)
            continue;
        for (size_t k = 0; k + name.len <= p->name.len; k++)
            if (memcmp(p->name.ptr + k, name.ptr, name.len) == 0)
                return;
    }
    fail_msg("no public %.*s at 0x%x", STR(name), rva);
}

static sym_tally check_sym_file(const char *pdb_name, const char *golden)
{
    lookup l = lookup_open(pdb_name);
    spgo_span all = test_data_or_skip(golden), left = all;
    sym_files *files = calloc(1, sizeof *files);
    assert_non_null(files);
    sym_tally t = {0};
    size_t len;
    for (const char *line; (line = next_text_line(&left, &len));) {
        unsigned a, b, c, d;
        int at = 0;
        char word[400] = {0};
        memcpy(word, line, len < sizeof word - 1 ? len : sizeof word - 1);
        if (sscanf(word, "FILE %u %n", &a, &at) == 1 && a < 8192)
            files->names[a] = (spgo_str){line + at, len - (size_t)at};
        else if (sscanf(word, "FUNC m %x %x", &a, &b) == 2 ||
                 sscanf(word, "FUNC %x %x", &a, &b) == 2)
            check_sym_function(&l, a, b, &t);
        else if (sscanf(word, "PUBLIC %x %x %n", &a, &b, &at) == 2 && word[at] != '<')
            check_sym_public(&l, a, (spgo_str){line + at, len - (size_t)at}, &t);
        else if (sscanf(word, "%x %x %u %u", &a, &b, &c, &d) == 4 && d < 8192)
            check_sym_line(&l, a, b, c, files->names[d], &t);
    }
    print_message("%s: %zu functions, %zu lines, %zu publics; %zu lines are empty, %zu functions "
                  "filled up, %zu lines differ\n",
                  golden, t.functions, t.lines, t.publics, t.empty, t.filled, t.other_lines);
    free(files);
    test_data_free(all);
    lookup_close(&l);
    return t;
}

static void expect_tally(sym_tally t, size_t functions, size_t lines, size_t publics)
{
    assert_int_equal(t.functions, functions);
    assert_int_equal(t.lines, lines);
    assert_int_equal(t.publics, publics);
    assert_int_equal(t.other_lines, 0);
}

static void functions_and_lines_are_dias(void **state)
{
    (void)state;
    expect_tally(check_sym_file("pdb/bp_regtest64.pdb", "pdb/golden/bp_regtest64.breakpad.sym"),
                 246, 2244, 2);
    expect_tally(check_sym_file("pdb/sym_crash.pdb", "pdb/golden/sym_crash.breakpad.sym"), 92, 761,
                 35);
    expect_tally(check_sym_file("pdb/bp_regtest64.pdb", "pdb/golden/bp_regtest64.mozdump.sym"), 246,
                 3538, 2);
}

static void moved_functions_and_lines_are_dias(void **state)
{
    (void)state;
    sym_tally t = check_sym_file("pdb/bp_omap_stretched_filled.pdb",
                                 "pdb/golden/bp_omap_stretched_filled.breakpad.sym");
    expect_tally(t, 158, 2219, 3);
    assert_int_equal(t.filled, 1);
}

/* ------------------------------------------------------------------ single facts */

/* The DBI age is the one of the image; pdbstr had counted the info age up. */
static void identity_has_the_dbi_age(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/sym_crash_with_srcsrv.pdb");
    const pdb_info *i = pdb_get_info(l.p);
    char guid[GUID_TEXT_SIZE];
    guid_text(guid, &i->id.guid);
    assert_string_equal(guid, "{3249D99D-0C40-4931-8610-F4E4FB0B6936}");
    assert_int_equal(i->id.age, 1);
    assert_int_equal(i->info_age, 4);
    assert_int_equal(i->machine, PDB_MACHINE_X86);
    assert_int_equal(i->linker_major, 14);
    assert_int_equal(i->linker_minor, 13);
    assert_int_not_equal(pdb_find_stream(l.p, "srcsrv"), PDB_NONE);
    lookup_close(&l);
}

/* "?_Tidy_init@?$basic_string@..." and others: 0x80000009 of some module is _Tidy_init. */
static void imported_ids_are_resolved(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/sym_crash.pdb");
    size_t imported = 0, tidy = 0;
    for (size_t i = 0; i < pdb_module_count(l.p); i++) {
        const pdb_module *m = l.modules[i];
        for (size_t s = 0; s < m->site_count; s++) {
            if (!(m->sites[s].inlinee & 0x80000000u))
                continue;
            const pdb_function *f;
            spgo_error err = {0};
            assert_int_equal(pdb_ids_function(l.ids, m, m->sites[s].inlinee, &f, &err), SPGO_OK);
            imported++;
            tidy += str_is(f->name, "_Tidy_init", 10) && f->id == 0x1175;
        }
    }
    assert_int_equal(imported, 109);
    assert_true(tidy > 0);
    lookup_close(&l);
}

/* What cl 17.2 compiled has hashes, the older objects of the run-time library have none. That of
 * ??1_Sentry_base@?$basic_ostream@DU?$char_traits@D@std@@@std@@QEAA@XZ is checked: `sha256sum` of
 * this name begins with 10 02 58 5f 5d dc c1 54. */
static void decorated_hashes_are_read(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/bs_x64_vs2022_incremental.pdb");
    size_t with = 0, sites = 0, sentry = 0;
    for (size_t i = 0; i < pdb_module_count(l.p); i++) {
        const pdb_module *m = l.modules[i];
        for (size_t s = 0; s < m->site_count; s++) {
            const pdb_function *f;
            spgo_error err = {0};
            assert_int_equal(pdb_ids_function(l.ids, m, m->sites[s].inlinee, &f, &err), SPGO_OK);
            with += f->has_decorated_hash;
            sentry += f->has_decorated_hash && f->decorated_hash == 0x54c1dc5d5f580210u &&
                      str_is(f->name, "{dtor}", 6);
            sites++;
        }
    }
    assert_int_equal(sites, 43);
    assert_int_equal(with, 16);
    assert_true(sentry > 0);
    lookup_close(&l);
}

/* Names and places are there, procedures are not; the names refer to sections of object files. */
static void fastlink_files_have_names_only(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/bs_vs2019_fastlink.pdb");
    assert_true(pdb_get_info(l.p)->features & PDB_FEATURE_MINI);
    size_t refs = 0, procs = 0;
    for (size_t i = 0; i < pdb_module_count(l.p); i++) {
        refs += l.modules[i]->mini_ref_count;
        procs += l.modules[i]->proc_count;
    }
    assert_int_equal(refs, 2696);
    assert_int_equal(procs, 0);
    assert_int_equal(l.publics->public_count, 313);
    lookup_close(&l);
}

/* LLVM describes jump tables for all machines: the one of t.cpp's switch. */
static void switch_tables_are_read(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/own/t_4096.pdb");
    size_t tables = 0;
    for (size_t i = 0; i < pdb_module_count(l.p); i++) {
        const pdb_module *m = l.modules[i];
        for (size_t k = 0; k < m->switch_table_count; k++, tables++) {
            const pdb_switch_table *t = &m->switch_tables[k];
            assert_true(t->proc < m->proc_count);
            const pdb_proc *p = &m->procs[t->proc];
            assert_int_equal(t->branch_section, p->section);
            assert_true(t->branch_off - p->off < p->length);
            assert_in_range(t->entry_count, 2, 64);
        }
    }
    assert_int_equal(tables, 1);
    lookup_close(&l);
}

static void columns_are_read(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/own/t_cols.pdb");
    size_t columns = 0;
    for (size_t i = 0; i < pdb_module_count(l.p); i++)
        for (size_t k = 0; k < l.modules[i]->line_count; k++)
            columns += l.modules[i]->lines[k].column > 0;
    assert_int_equal(columns, 65);
    lookup_close(&l);
}

static void a_portable_pdb_is_refused_by_name(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("pdb/sym_portable_ppdb.pdb");
    pdb *p;
    spgo_error err = {0};
    assert_int_equal(pdb_open(file, NULL, &p, NULL, &err), SPGO_UNSUPPORTED);
    assert_non_null(strstr(err.sentence, "Portable PDB"));
    test_data_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(procedures_are_pdbutils),
        cmocka_unit_test(trampolines_jump_to_their_targets),
        cmocka_unit_test(publics_are_pdbutils),
        cmocka_unit_test(references_lead_to_procedures),
        cmocka_unit_test(summaries_are_pdbutils),
        cmocka_unit_test(identity_has_the_dbi_age),
        cmocka_unit_test(imported_ids_are_resolved),
        cmocka_unit_test(decorated_hashes_are_read),
        cmocka_unit_test(fastlink_files_have_names_only),
        cmocka_unit_test(switch_tables_are_read),
        cmocka_unit_test(columns_are_read),
        cmocka_unit_test(a_portable_pdb_is_refused_by_name),
        cmocka_unit_test(functions_and_lines_are_dias),
        cmocka_unit_test(moved_functions_and_lines_are_dias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
