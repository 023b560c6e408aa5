/*
 * The PDB back end: runs of inlined chains, functions and their names and lines, procedures and
 * hints, of PDBs built by hand and of real ones.
 */
#include "pdb_build.h"
#include "pdb_lookup.h"

#include <stdio.h>

#include <base/sha256.h>
#include <base/text.h>
#include <symbol/symbol_internal.h>

/* ------------------------------------------------------------------ a back end over bytes */

typedef struct opened {
    symbol_image image;
    intern names;
    symbol_backend backend;
    symbol_unit unit;
    symbol_found found;
    bytes file; /* of built ones */
    diag d;
} opened;

static opened *open_bytes(spgo_span debug, const char *source_root)
{
    opened *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->image = (symbol_image){.debug = debug, .mem = arena_new(0), .names = &o->names};
    symbols_opts opts = {.source_roots = &source_root, .source_root_count = source_root ? 1 : 0};
    spgo_error err = {0};
    if (symbol_pdb_open(&o->image, &opts, &o->backend, &o->d, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    return o;
}

static opened *open_build(build *b)
{
    build_settle(b);
    bytes file = build_file(b);
    build_free(b);
    opened *o = open_bytes(bytes_span(&file), NULL);
    o->file = file;
    return o;
}

static void close_opened(opened *o)
{
    o->backend.close(o->backend.self);
    free(o->found.procedures);
    arena_free(o->image.mem);
    intern_free(&o->names);
    bytes_free(&o->file);
    free(o);
}

static void read_unit(opened *o, uint32_t unit)
{
    spgo_error err = {0};
    if (o->backend.read_unit(o->backend.self, unit, &o->unit, o->image.mem, &o->d, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
}

static void list_procedures(opened *o)
{
    spgo_error err = {0};
    if (o->backend.procedures(o->backend.self, &o->found, o->image.mem, &o->d, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
}

static const symbol_run *run_at(const opened *o, uint32_t rva)
{
    for (size_t i = 0; i < o->unit.run_count; i++)
        if (rva >= o->unit.runs[i].begin_rva && rva < o->unit.runs[i].end_rva)
            return &o->unit.runs[i];
    return NULL;
}

/* "a:1 b:2" of the chain, innermost first, by linkage or else plain names. */
static void check_run(const opened *o, size_t index, uint32_t begin, uint32_t end,
                      const char *wanted)
{
    char text[512] = {0};
    size_t len = 0;
    assert_true(index < o->unit.run_count);
    const symbol_run *run = &o->unit.runs[index];
    for (const symbol_frame *f = run->leaf; f; f = f->caller)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s:%u", len ? " " : "",
                                (int)f->function->name.len, f->function->name.ptr, f->line);
    if (run->begin_rva != begin || run->end_rva != end || strcmp(text, wanted) != 0)
        fail_msg("run %zu is 0x%x to 0x%x, %s", index, run->begin_rva, run->end_rva, text);
}

static void check_text(spgo_str s, const char *text)
{
    if (!text_equal(s, text_str(text)))
        fail_msg("\"%.*s\" is not \"%s\"", (int)s.len, s.ptr, text);
}

static const symbol_procedure *procedure_named(const opened *o, const char *name)
{
    for (size_t i = 0; i < o->found.count; i++)
        if (text_equal(o->found.procedures[i].name, text_str(name)))
            return &o->found.procedures[i];
    fail_msg("no procedure %s", name);
    return NULL;
}

/* ------------------------------------------------------------------ runs */

/* Nested sites, separated code with rows of its own, rows of two files, a hidden line. */
static void a_procedure_becomes_runs(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    read_unit(o, 0);
    assert_int_equal(o->unit.run_count, 12);
    check_run(o, 0, 0x1010, 0x1014, "outer:6");
    check_run(o, 1, 0x1014, 0x1015, "space::Class::method:50 space::inlined:11 outer:6");
    check_run(o, 2, 0x1015, 0x1018, "space::inlined:11 outer:6");
    check_run(o, 3, 0x1018, 0x101a, "space::inlined:12 outer:100");
    check_run(o, 4, 0x101a, 0x1020, "outer:100");
    check_run(o, 5, 0x1020, 0x1030, "outer:101");
    check_run(o, 6, 0x1030, 0x1034, "outer:0");
    check_run(o, 7, 0x1034, 0x1050, "outer:9");
    check_run(o, 8, 0x1060, 0x1070, "folded:6");
    check_run(o, 9, 0x1100, 0x1104, "outer:0");
    check_run(o, 10, 0x1104, 0x1107, "space::inlined:12 outer:0");
    check_run(o, 11, 0x1107, 0x1130, "outer:0");
    check_text(o->unit.runs[3].leaf->caller->file, "c:\\b.h");
    check_text(o->unit.runs[0].leaf->file, "c:\\a.cpp");
    assert_int_equal(o->d.total, 0);
    close_opened(o);
}

static void units_are_found_by_contributions(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    uint32_t unit = 77;
    assert_true(o->backend.unit_at(o->backend.self, 0x1010, &unit));
    assert_int_equal(unit, 0);
    assert_true(o->backend.unit_at(o->backend.self, 0x1080, &unit));
    assert_int_equal(unit, 1);
    assert_false(o->backend.unit_at(o->backend.self, 0x100f, &unit));
    assert_false(o->backend.unit_at(o->backend.self, 0x9000, &unit));
    close_opened(o);
}

/* What a tool has moved: the runs are where the shipped image has them. */
static void runs_follow_an_omap(void **state)
{
    (void)state;
    build b = build_streams(512);
    b.omap = true;
    opened *o = open_build(&b);
    read_unit(o, 0);
    check_run(o, 0, 0x2010, 0x2014, "outer:6");
    check_run(o, 5, 0x2020, 0x2030, "outer:101");
    check_run(o, 6, 0x2040, 0x2044, "outer:0");
    check_run(o, 7, 0x2044, 0x2060, "outer:9");
    assert_null(run_at(o, 0x2034));
    uint32_t unit;
    assert_true(o->backend.unit_at(o->backend.self, 0x2040, &unit));
    assert_int_equal(unit, 0);
    assert_false(o->backend.unit_at(o->backend.self, 0x2034, &unit));
    close_opened(o);
}

/* Module A with one procedure [0x10, 0x50) and whatever `fill` puts in it. */
static build build_with(void (*fill)(bytes *s))
{
    build b = build_streams(512);
    bytes *a = &b.streams[S_MODULE_A];
    bytes_clear(a);
    bytes_u32(a, 4);
    put_proc(a, PDB_S_GPROC32, 1, 0x10, 0x40, "outer");
    fill(a);
    put_end(a, PDB_S_END);
    b.symbol_bytes_a = (uint32_t)a->len;
    build_c13(&b, a);
    b.c13_bytes_a = (uint32_t)a->len - b.symbol_bytes_a;
    bytes_u32(a, 0);
    return b;
}

static void put_overlapping(bytes *s)
{
    static const uint8_t first[] = {3, 4, 4, 8};   /* [0x14, 0x1c) */
    static const uint8_t inside[] = {3, 2, 4, 4};  /* [0x12, 0x16): sticks out at the front */
    static const uint8_t second[] = {3, 8, 4, 16}; /* [0x18, 0x28) */
    put_site(s, 0x1001, first, sizeof first);
    put_site(s, 0x1002, inside, sizeof inside);
    put_end(s, PDB_S_INLINESITE_END);
    put_end(s, PDB_S_INLINESITE_END);
    put_site(s, 0x1005, second, sizeof second);
    put_end(s, PDB_S_INLINESITE_END);
}

static void sites_are_clipped_to_their_parents(void **state)
{
    (void)state;
    build b = build_with(put_overlapping);
    opened *o = open_build(&b);
    read_unit(o, 0);
    check_run(o, 0, 0x1010, 0x1014, "outer:6");
    check_run(o, 1, 0x1014, 0x1016, "space::Class::method:0 space::inlined:10 outer:6");
    check_run(o, 2, 0x1016, 0x1018, "space::inlined:10 outer:6");
    check_run(o, 3, 0x1018, 0x101c, "space::inlined:10 outer:100");
    check_run(o, 4, 0x101c, 0x1020, "spacespace::tail::deep:0 outer:100");
    check_run(o, 5, 0x1020, 0x1028, "spacespace::tail::deep:0 outer:101");
    check_run(o, 6, 0x1028, 0x1030, "outer:101");
    close_opened(o);
}

/* Of rows of one site that overlap, the last one holds. */
static void put_repeated(bytes *s)
{
    static const uint8_t rows[] = {3, 4, 4, 8, 6, 2, 1, 6, 3, 0, 4, 2};
    put_site(s, 0x1001, rows, sizeof rows);
    put_end(s, PDB_S_INLINESITE_END);
}

static void the_last_row_holds(void **state)
{
    (void)state;
    build b = build_with(put_repeated);
    opened *o = open_build(&b);
    read_unit(o, 0);
    check_run(o, 1, 0x1014, 0x1016, "space::inlined:10 outer:6");
    check_run(o, 2, 0x1016, 0x1018, "space::inlined:11 outer:6");
    check_run(o, 3, 0x1018, 0x101c, "space::inlined:10 outer:100");
    close_opened(o);
}

static void put_unknown_inlinee(bytes *s)
{
    static const uint8_t rows[] = {3, 4, 4, 8};
    put_site(s, 0x4321, rows, sizeof rows);
    put_end(s, PDB_S_INLINESITE_END);
}

static void an_inlinee_that_leads_nowhere_has_no_name(void **state)
{
    (void)state;
    build b = build_with(put_unknown_inlinee);
    opened *o = open_build(&b);
    read_unit(o, 0);
    check_run(o, 1, 0x1014, 0x1018, ":0 outer:6");
    assert_int_equal(o->d.total, 1);
    assert_int_equal(o->d.kept[0].code, SPGO_NOT_FOUND);
    close_opened(o);
}

/* Rows by the thousand over the same bytes, as no compiler makes them. */
static void put_tangle(bytes *s)
{
    uint8_t rows[4 * 60];
    for (size_t i = 0; i < sizeof rows; i += 4) {
        rows[i] = 3;
        rows[i + 1] = 0;
        rows[i + 2] = 4;
        rows[i + 3] = 1;
    }
    for (int i = 0; i < 6000; i++) {
        put_site(s, 0x1001, rows, sizeof rows);
        put_end(s, PDB_S_INLINESITE_END);
    }
}

static void a_tangle_of_sites_is_cut_short(void **state)
{
    (void)state;
    build b = build_with(put_tangle);
    opened *o = open_build(&b);
    read_unit(o, 0);
    assert_int_equal(o->d.total, 1);
    assert_int_equal(o->d.kept[0].code, SPGO_LIMIT);
    assert_non_null(strstr(o->d.kept[0].sentence, "outer"));
    check_run(o, 0, 0x1010, 0x1018, "space::inlined:10 outer:6");
    close_opened(o);
}

/* ------------------------------------------------------------------ functions */

static const symbol_function *inlinee_of(opened *o)
{
    read_unit(o, 0);
    const symbol_run *run = run_at(o, 0x1016);
    assert_non_null(run);
    check_text(run->leaf->function->name, "space::inlined");
    return run->leaf->function;
}

static void a_function_has_its_public_and_its_first_row(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    read_unit(o, 0);
    const symbol_function *f = run_at(o, 0x1010)->leaf->function;
    check_text(f->linkage_name, "?outer@@YAXXZ");
    check_text(f->file, "c:\\a.cpp");
    assert_int_equal(f->line, 5); /* its row has no bytes, and is the first one all the same */
    assert_int_equal(f->line_source, SYMBOL_LINE_FIRST_ROW);
    close_opened(o);
}

static void an_inlinee_has_its_declaration(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    const symbol_function *f = inlinee_of(o);
    assert_int_equal(f->linkage_name.len, 0);
    check_text(f->file, "c:\\b.h");
    assert_int_equal(f->line, 10);
    assert_int_equal(f->line_source, SYMBOL_LINE_DECLARED);
    close_opened(o);
}

static uint8_t *find_bytes(bytes *in, const void *what, size_t len)
{
    for (size_t i = 0; i + len <= in->len; i++)
        if (memcmp(in->ptr + i, what, len) == 0)
            return in->ptr + i;
    fail_msg("not found");
    return NULL;
}

static void an_inlinee_is_named_by_its_hash(void **state)
{
    (void)state;
    build b = build_streams(512);
    uint8_t digest[SHA256_SIZE];
    static const uint8_t stored[] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    sha256((spgo_span){(const uint8_t *)"?also@@YAXXZ", 12}, digest);
    memcpy(find_bytes(&b.streams[S_IPI], stored, sizeof stored), digest, sizeof stored);
    opened *o = open_build(&b);
    check_text(inlinee_of(o)->linkage_name, "?also@@YAXXZ");
    close_opened(o);
}

/* The procedure "space::inlined", which is inlined too. */
static void put_site_and_copy(bytes *s)
{
    static const uint8_t rows[] = {3, 4, 4, 8};
    put_site(s, 0x1001, rows, sizeof rows);
    put_end(s, PDB_S_INLINESITE_END);
    put_end(s, PDB_S_END);
    put_proc(s, PDB_S_GPROC32, 1, 0x60, 0x10, "space::inlined");
}

static build build_with_copy(uint32_t type)
{
    build b = build_with(put_site_and_copy);
    bytes *a = &b.streams[S_MODULE_A], *globals = &b.streams[S_SYMBOLS];
    enum { TYPE_OFF = 28, NAME_OFF = 39 }; /* in the record of a procedure */
    uint8_t *proc = find_bytes(a, "space::inlined", 15) - NAME_OFF;
    store_u32(proc + TYPE_OFF, type);
    put_public(globals, 2, 0x60, "?inlined@space@@YAXXZ");
    size_t at = begin_record(globals, PDB_S_PROCREF);
    bytes_u32(globals, 0);
    bytes_u32(globals, (uint32_t)(proc - a->ptr));
    bytes_u16(globals, 1);
    put_name(globals, "space::inlined");
    end_record(globals, at);
    static const uint8_t stored[] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    memset(find_bytes(&b.streams[S_IPI], stored, sizeof stored), 0, sizeof stored); /* no hash */
    return b;
}

static void an_inlinee_is_named_by_its_copy(void **state)
{
    (void)state;
    build b = build_with_copy(0x1111);
    opened *o = open_build(&b);
    check_text(inlinee_of(o)->linkage_name, "?inlined@space@@YAXXZ");
    close_opened(o);
}

static void a_copy_of_another_type_is_an_overload(void **state)
{
    (void)state;
    build b = build_with_copy(0x2222);
    opened *o = open_build(&b);
    assert_int_equal(inlinee_of(o)->linkage_name.len, 0);
    close_opened(o);
}

static void a_copy_is_declared_where_the_inlinee_is(void **state)
{
    (void)state;
    build b = build_with_copy(0x1111);
    opened *o = open_build(&b);
    read_unit(o, 0);
    const symbol_function *f = run_at(o, 0x1060)->leaf->function;
    check_text(f->name, "space::inlined");
    check_text(f->file, "c:\\b.h");
    assert_int_equal(f->line, 10);
    assert_int_equal(f->line_source, SYMBOL_LINE_DECLARED);
    close_opened(o);
}

static void c_functions_need_no_public(void **state)
{
    (void)state;
    build b = build_streams(512);
    static const uint8_t compiler[] = {1, 4, 0, 0, 0xd0, 0};
    *find_bytes(&b.streams[S_MODULE_A], compiler, sizeof compiler) = 0;
    opened *o = open_build(&b);
    check_text(inlinee_of(o)->linkage_name, "space::inlined");
    close_opened(o);
}

static void names_of_32_bit_c_lose_their_underscore(void **state)
{
    (void)state;
    build b = build_streams(512);
    memcpy(find_bytes(&b.streams[S_SYMBOLS], "?outer@@YAXXZ", 14), "_outer\0\0\0\0\0\0\0", 14);
    build_settle(&b);
    static const uint8_t flags[] = {1, 0, 0x64, 0x86, 0, 0, 0, 0};
    uint8_t *at = find_bytes(&b.streams[S_DBI], flags, sizeof flags);
    store_u16(at + 2, PDB_MACHINE_X86);
    bytes file = build_file(&b);
    build_free(&b);
    opened *o = open_bytes(bytes_span(&file), NULL);
    o->file = file;
    read_unit(o, 0);
    check_text(run_at(o, 0x1010)->leaf->function->linkage_name, "outer");
    list_procedures(o);
    assert_int_equal(procedure_named(o, "_outer")->entry_rva, 0x1010);
    close_opened(o);
}

/* ------------------------------------------------------------------ procedures */

static void procedures_have_pieces_and_flags(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    list_procedures(o);
    const symbol_procedure *p = procedure_named(o, "?outer@@YAXXZ");
    assert_int_equal(p->entry_rva, 0x1010);
    assert_int_equal(p->piece_count, 2);
    assert_int_equal(p->pieces[0].begin_rva, 0x1010);
    assert_int_equal(p->pieces[0].end_rva, 0x1050);
    assert_int_equal(p->pieces[1].begin_rva, 0x1100);
    assert_int_equal(p->pieces[1].end_rva, 0x1130);
    assert_int_equal(p->flags, SYMBOL_NO_RETURN);
    assert_int_equal(p->thunk_target_rva, UINT32_MAX);
    check_text(p->function->name, "outer");
    assert_int_equal(o->found.count, 5);
    assert_int_equal(o->d.total, 0);
    close_opened(o);
}

/* Of two publics the procedure has its own, and the other is another name of it. */
static void publics_that_are_left_are_aliases(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    list_procedures(o);
    const symbol_procedure *own = procedure_named(o, "?folded@@YAXXZ");
    const symbol_procedure *other = procedure_named(o, "?also@@YAXXZ");
    assert_int_equal(own->entry_rva, 0x1060);
    assert_int_equal(other->entry_rva, 0x1060);
    assert_ptr_equal(own->function, other->function);
    check_text(own->function->linkage_name, "?folded@@YAXXZ");
    assert_int_equal(other->pieces[0].end_rva, 0x1070);
    close_opened(o);
}

/* As linkers leave the aliases that LLVM makes: names of what starts there, but not the first. */
static void publics_that_are_no_functions_are_only_aliases(void **state)
{
    (void)state;
    build b = build_streams(512);
    put_public(&b.streams[S_SYMBOLS], 0, 0x60, "?aaaa@@YAXXZ");
    put_public(&b.streams[S_SYMBOLS], 0, 0x68, "?inside@@3HA");
    put_public(&b.streams[S_SYMBOLS], 0, 0x900, "?nowhere@@3HA");
    opened *o = open_build(&b);
    list_procedures(o);
    const symbol_procedure *alias = procedure_named(o, "?aaaa@@YAXXZ");
    assert_int_equal(alias->entry_rva, 0x1060);
    assert_int_equal(alias->pieces[0].end_rva, 0x1070);
    assert_null(alias->function);
    assert_int_equal(o->found.count, 6);
    close_opened(o);
}

enum { FOLDED_PROCS = 10000, FOLDED_PUBLICS = 1000 };

static void put_folded(bytes *s)
{
    for (int i = 0; i < FOLDED_PROCS; i++) {
        put_end(s, PDB_S_END);
        put_proc(s, PDB_S_GPROC32, 1, 0x60, 0x10, "s::f");
    }
}

/* Each procedure of an address against each public there would be 30 GB of names to search. */
static void folded_functions_without_end(void **state)
{
    (void)state;
    char name[1000] = "?f@";
    build b = build_with(put_folded);
    memset(name + 3, 'x', sizeof name - 4);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < FOLDED_PUBLICS; i++)
        put_public(&b.streams[S_SYMBOLS], 2, 0x60, name);
    opened *o = open_build(&b);
    read_unit(o, 0);
    check_text(run_at(o, 0x1060)->leaf->function->name, "s::f");
    list_procedures(o);
    assert_true(o->found.count > FOLDED_PROCS);
    close_opened(o);
}

static void thunks_have_targets(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    list_procedures(o);
    const symbol_procedure *thunk = procedure_named(o, "thunk"), *jump = procedure_named(o, "");
    assert_int_equal(thunk->entry_rva, 0x1080);
    assert_int_equal(thunk->pieces[0].end_rva, 0x1086);
    assert_int_equal(thunk->flags, SYMBOL_THUNK);
    assert_int_equal(thunk->thunk_target_rva, UINT32_MAX);
    assert_int_equal(jump->entry_rva, 0x1090);
    assert_int_equal(jump->flags, SYMBOL_THUNK);
    assert_int_equal(jump->thunk_target_rva, 0x1010);
    close_opened(o);
}

static void hints_are_those_of_the_procedure(void **state)
{
    (void)state;
    build b = build_streams(512);
    opened *o = open_build(&b);
    list_procedures(o);
    flow_hints h = {0};
    o->backend.hints(o->backend.self, procedure_named(o, "?outer@@YAXXZ"), &h, o->image.mem);
    assert_int_equal(h.leader_count, 1);
    assert_int_equal(h.leaders[0], 0x1030);
    assert_int_equal(h.table_count, 1);
    assert_int_equal(h.tables[0].branch_rva, 0x101c);
    assert_int_equal(h.tables[0].base_rva, 0x1010);
    assert_int_equal(h.tables[0].table_rva, 0x3040);
    assert_int_equal(h.tables[0].entry_count, 5);
    assert_int_equal(h.tables[0].entry_size, 4);
    assert_true(h.tables[0].is_signed);
    assert_int_equal(h.tables[0].shift, 0);
    assert_int_equal(h.no_return_count, 2);
    assert_int_equal(h.no_return[0], 0x1010);
    h = (flow_hints){0};
    o->backend.hints(o->backend.self, procedure_named(o, "?folded@@YAXXZ"), &h, o->image.mem);
    assert_int_equal(h.leader_count, 0);
    assert_int_equal(h.table_count, 0);
    close_opened(o);
}

/* A stripped PDB: publics reach to the next one or to the end of their module's contribution. */
static void publics_alone_have_guessed_sizes(void **state)
{
    (void)state;
    build b = build_streams(512);
    bytes *a = &b.streams[S_MODULE_A];
    bytes_clear(a);
    bytes_u32(a, 4);
    b.symbol_bytes_a = 4;
    b.c13_bytes_a = 0;
    opened *o = open_build(&b);
    list_procedures(o);
    assert_int_equal(o->found.count, 3);
    const symbol_procedure *p = procedure_named(o, "?outer@@YAXXZ");
    assert_int_equal(p->flags, SYMBOL_SIZE_GUESSED);
    assert_int_equal(p->pieces[0].begin_rva, 0x1010);
    assert_int_equal(p->pieces[0].end_rva, 0x1060);
    assert_null(p->function);
    p = procedure_named(o, "?folded@@YAXXZ");
    assert_int_equal(p->pieces[0].end_rva, 0x1080);
    close_opened(o);
}

/* Lines without a procedure, as assembler has them, belong to the public before them. */
static void lines_without_a_procedure(void **state)
{
    (void)state;
    build b = build_streams(512);
    bytes *a = &b.streams[S_MODULE_A];
    bytes_clear(a);
    bytes_u32(a, 4);
    b.symbol_bytes_a = 4;
    build_c13(&b, a);
    b.c13_bytes_a = (uint32_t)a->len - 4;
    bytes_u32(a, 0);
    opened *o = open_build(&b);
    read_unit(o, 0);
    check_run(o, 0, 0x1010, 0x1018, "?outer@@YAXXZ:6");
    check_run(o, 5, 0x1060, 0x1070, "?folded@@YAXXZ:6");
    const symbol_function *f = o->unit.runs[0].leaf->function;
    check_text(f->linkage_name, "?outer@@YAXXZ");
    assert_int_equal(f->line, 6);
    assert_int_equal(f->line_source, SYMBOL_LINE_FIRST_ROW);
    close_opened(o);
}

/* ------------------------------------------------------------------ damage */

static void no_pdb_is_not_found(void **state)
{
    (void)state;
    arena *mem = arena_new(0);
    intern names = {0};
    symbol_image image = {.mem = mem, .names = &names};
    symbols_opts opts = {0};
    symbol_backend backend;
    spgo_error err = {0};
    assert_int_equal(symbol_pdb_open(&image, &opts, &backend, NULL, &err), SPGO_NOT_FOUND);
    static const uint8_t portable[64] = "BSJB";
    image.debug = (spgo_span){portable, sizeof portable};
    assert_int_equal(symbol_pdb_open(&image, &opts, &backend, NULL, &err), SPGO_UNSUPPORTED);
    arena_free(mem);
}

static void use_everything(spgo_span file)
{
    arena *mem = arena_new(16u << 20);
    intern names = {0};
    symbol_image image = {.debug = file, .mem = mem, .names = &names};
    symbols_opts opts = {0};
    symbol_backend backend;
    symbol_found found = {0};
    diag d = {0};
    if (symbol_pdb_open(&image, &opts, &backend, &d, NULL) == SPGO_OK) {
        symbol_unit unit;
        (void)backend.procedures(backend.self, &found, mem, &d, NULL);
        for (size_t i = 0; i < found.count; i++) {
            flow_hints hints = {0};
            backend.hints(backend.self, &found.procedures[i], &hints, mem);
        }
        for (uint32_t i = 0; i < 3; i++) {
            if (backend.read_unit(backend.self, i, &unit, mem, &d, NULL) != SPGO_OK)
                continue;
            for (size_t k = 1; k < unit.run_count; k++)
                assert_true(unit.runs[k - 1].end_rva <= unit.runs[k].begin_rva);
        }
        backend.close(backend.self);
    }
    free(found.procedures);
    arena_free(mem);
    intern_free(&names);
}

/* Every byte but the zeros that only fill up pages. */
static void every_damaged_byte_is_survived(void **state)
{
    (void)state;
    build b = build_streams(512);
    build_settle(&b);
    bytes file = build_file(&b);
    size_t zeros = 0;
    for (size_t i = 0; i < file.len; i++) {
        zeros = file.ptr[i] ? 0 : zeros + 1;
        if (zeros > 4)
            continue;
        uint8_t change = i % 2 ? 0xff : 0x01;
        file.ptr[i] ^= change;
        use_everything(bytes_span(&file));
        file.ptr[i] ^= change;
    }
    for (size_t len = 0; len < file.len; len += 61)
        use_everything((spgo_span){file.ptr, len});
    bytes_free(&file);
    build_free(&b);
}

/* ------------------------------------------------------------------ real files */

/* Does another procedure of the module that starts at the same address have this name? */
static bool is_folded_name(const chain *c, spgo_str name)
{
    for (size_t i = 0; c->proc && i < c->module->proc_count; i++) {
        const pdb_proc *other = &c->module->procs[i];
        if (other->section == c->proc->section && other->off == c->proc->off &&
            text_equal(other->name, name))
            return true;
    }
    return false;
}

/* The slow way from an address to its chain must say the same. */
static void compare_chain(const lookup *l, uint32_t rva, const symbol_run *run)
{
    chain c;
    lookup_chain(l, rva, &c);
    size_t i = c.count;
    for (const symbol_frame *f = run->leaf; f; f = f->caller) {
        if (i == 0) {
            fail_msg("0x%x: more frames than %zu", rva, c.count);
            return;
        }
        const frame *want = &c.frames[--i];
        uint32_t line = pdb_line_kind_of(want->line) == PDB_LINE_REAL ? want->line : 0;
        bool is_folded = i == 0 && is_folded_name(&c, f->function->name) &&
                         !text_equal(want->name, f->function->name);
        bool same_name = text_equal(f->function->name, want->name) || is_folded || !c.proc;
        if (!same_name || (!is_folded && f->line != line) || !text_equal(f->file, want->file))
            fail_msg("0x%x: frame %zu is %.*s:%u, not %.*s:%u", rva, i, (int)f->function->name.len,
                     f->function->name.ptr, f->line, (int)want->name.len, want->name.ptr, line);
    }
    if (i != 0)
        fail_msg("0x%x: %zu frames are missing", rva, i);
}

static void check_against_lookup(const char *name, size_t runs)
{
    lookup l = lookup_open(name);
    opened *o = open_bytes(l.file, NULL);
    size_t compared = 0;
    for (uint32_t i = 0; i < pdb_module_count(l.p); i++) {
        read_unit(o, i);
        for (size_t k = 0; k < o->unit.run_count; k++) {
            const symbol_run *run = &o->unit.runs[k];
            uint32_t unit;
            if (!o->backend.unit_at(o->backend.self, run->begin_rva, &unit) || unit != i)
                continue; /* folded with code of another module */
            compare_chain(&l, run->begin_rva, run);
            compare_chain(&l, run->end_rva - 1, run);
            compared++;
        }
    }
    print_message("%s: %zu runs\n", name, compared);
    assert_int_equal(compared, runs);
    assert_int_equal(o->d.total, 0);
    close_opened(o);
    lookup_close(&l);
}

static void real_files_are_flattened_as_they_are_looked_up(void **state)
{
    (void)state;
    check_against_lookup("pdb/bs_x64_rust158.pdb", 8114);
    check_against_lookup("pdb/bp_regtest64.pdb", 4422);
    check_against_lookup("pdb/bs_x64_vs2022_incremental.pdb", 522);
    check_against_lookup("pdb/sym_crash.pdb", 1113);
    check_against_lookup("pdb/bs_arm64_uwp_vs2019.pdb", 220);
    check_against_lookup("pdb/own/t_noicf.pdb", 68);
    check_against_lookup("pdb/own/t_32768.pdb", 67);
    check_against_lookup("pdb/own/t_arm64.pdb", 86);
}

/* The lines that a build of the same source with DWARF declares. */
static void first_lines_are_those_of_dwarf(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t line;
    } declared[] = {{"Acc::add", 20}, {"main", 40}, {"f1", 37},        {"f2", 38},
                    {"sw", 24},       {"mix", 4},   {"Acc::bump", 18}, {"hash2", 9}};
    spgo_span file = test_data_or_skip("pdb/own/t_noicf.pdb");
    opened *o = open_bytes(file, NULL);
    read_unit(o, 0);
    size_t found = 0;
    for (size_t i = 0; i < sizeof declared / sizeof *declared; i++) {
        for (size_t k = 0; k < o->unit.run_count; k++) {
            const symbol_function *f = o->unit.runs[k].leaf->function;
            if (!text_equal(f->name, text_str(declared[i].name)))
                continue;
            assert_int_equal(f->line, declared[i].line);
            found++;
            break;
        }
    }
    assert_int_equal(found, sizeof declared / sizeof *declared);
    close_opened(o);
    test_data_free(file);
}

/* Trampolines of an incremental link, and names by hash. */
static void an_incremental_link(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("pdb/bs_x64_vs2022_incremental.pdb");
    opened *o = open_bytes(file, NULL);
    list_procedures(o);
    size_t jumps = 0, thunks = 0;
    for (size_t i = 0; i < o->found.count; i++) {
        const symbol_procedure *p = &o->found.procedures[i];
        jumps += p->flags & SYMBOL_THUNK && p->thunk_target_rva != UINT32_MAX;
        thunks += p->flags & SYMBOL_THUNK && p->thunk_target_rva == UINT32_MAX;
        if (p->entry_rva == 0x1005)
            assert_int_equal(p->thunk_target_rva, 0x1a2c);
    }
    assert_int_equal(jumps, 91);
    assert_true(thunks > 0);
    close_opened(o);
    test_data_free(file);
}

/* /DEBUG:FASTLINK leaves publics and thunks, and a finding that says so. */
static void a_fastlink_file_has_publics(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("pdb/bs_vs2019_fastlink.pdb");
    opened *o = open_bytes(file, NULL);
    assert_int_equal(o->d.total, 1);
    assert_non_null(strstr(o->d.kept[0].sentence, "/DEBUG:FULL"));
    list_procedures(o);
    const symbol_procedure *p = procedure_named(o, "mixed_mode_multiply");
    assert_int_equal(p->entry_rva, 0x11660);
    assert_int_equal(p->flags, SYMBOL_SIZE_GUESSED);
    close_opened(o);
    test_data_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_procedure_becomes_runs),
        cmocka_unit_test(units_are_found_by_contributions),
        cmocka_unit_test(runs_follow_an_omap),
        cmocka_unit_test(sites_are_clipped_to_their_parents),
        cmocka_unit_test(the_last_row_holds),
        cmocka_unit_test(an_inlinee_that_leads_nowhere_has_no_name),
        cmocka_unit_test(a_tangle_of_sites_is_cut_short),
        cmocka_unit_test(a_function_has_its_public_and_its_first_row),
        cmocka_unit_test(an_inlinee_has_its_declaration),
        cmocka_unit_test(an_inlinee_is_named_by_its_hash),
        cmocka_unit_test(an_inlinee_is_named_by_its_copy),
        cmocka_unit_test(a_copy_of_another_type_is_an_overload),
        cmocka_unit_test(a_copy_is_declared_where_the_inlinee_is),
        cmocka_unit_test(c_functions_need_no_public),
        cmocka_unit_test(names_of_32_bit_c_lose_their_underscore),
        cmocka_unit_test(procedures_have_pieces_and_flags),
        cmocka_unit_test(publics_that_are_left_are_aliases),
        cmocka_unit_test(publics_that_are_no_functions_are_only_aliases),
        cmocka_unit_test(folded_functions_without_end),
        cmocka_unit_test(thunks_have_targets),
        cmocka_unit_test(hints_are_those_of_the_procedure),
        cmocka_unit_test(publics_alone_have_guessed_sizes),
        cmocka_unit_test(lines_without_a_procedure),
        cmocka_unit_test(no_pdb_is_not_found),
        cmocka_unit_test(every_damaged_byte_is_survived),
        cmocka_unit_test(real_files_are_flattened_as_they_are_looked_up),
        cmocka_unit_test(first_lines_are_those_of_dwarf),
        cmocka_unit_test(an_incremental_link),
        cmocka_unit_test(a_fastlink_file_has_publics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
