/*
 * A hand-made PDB with every kind of record, read whole; then with one field broken each: the code
 * and the offset of the failure or the finding, and that everything else is still read.
 */
#include "pdb_build.h"

/* The file of a test, opened. */
typedef struct opened {
    build b;
    bytes file;
    pdb *p;
    diag d;
    spgo_error err;
    spgo_code code;
} opened;

static void open_settled(opened *o)
{
    build_settle(&o->b);
    o->file = build_file(&o->b);
}

static void reopen(opened *o)
{
    pdb_close(o->p);
    o->d = (diag){0};
    o->code = pdb_open(bytes_span(&o->file), NULL, &o->p, &o->d, &o->err);
}

static opened open_built(uint32_t page_size, bool scattered, bool omap)
{
    opened o = {.b = build_streams(page_size)};
    o.b.scattered = scattered;
    o.b.omap = omap;
    open_settled(&o);
    reopen(&o);
    return o;
}

static void close_opened(opened *o)
{
    pdb_close(o->p);
    bytes_free(&o->file);
    build_free(&o->b);
}

static void expect_str(spgo_str s, const char *text)
{
    assert_int_equal(s.len, strlen(text));
    assert_memory_equal(s.ptr, text, s.len);
}

static pdb_module *read_module(opened *o, uint32_t index)
{
    pdb_module *m = NULL;
    if (pdb_module_read(o->p, index, &m, &o->d, &o->err) != SPGO_OK)
        fail_msg("%s", o->err.sentence);
    return m;
}

/* ------------------------------------------------------------------ whole */

static void check_header(const opened *o)
{
    const pdb_info *i = pdb_get_info(o->p);
    assert_int_equal(i->id.age, 2);
    assert_int_equal(i->id.guid.bytes[15], 15);
    assert_int_equal(i->info_age, 3);
    assert_int_equal(i->features, PDB_FEATURE_VC140);
    assert_int_equal(i->machine, PDB_MACHINE_AMD64);
    assert_int_equal(i->linker_major, 14);
    assert_int_equal(i->linker_minor, 32);
    assert_true(i->has_dbi && i->is_incremental && !i->is_stripped);
    assert_int_equal(pdb_stream_count(o->p), S_COUNT);
    assert_int_equal(pdb_stream_size(o->p, S_NIL), PDB_NONE);
    assert_int_equal(pdb_find_stream(o->p, "/names"), S_NAMES);
    assert_int_equal(pdb_module_count(o->p), 3);
    expect_str(pdb_get_module_header(o->p, 1)->name, "c:\\b.obj");
    assert_int_equal(pdb_get_module_header(o->p, 2)->stream, PDB_NONE);
    assert_int_equal(pdb_contribution_count(o->p), 2);
    assert_int_equal(pdb_contribution_at(o->p, 1, 0x7f)->module, 0);
    assert_int_equal(pdb_contribution_at(o->p, 1, 0x80)->module, 1);
    assert_null(pdb_contribution_at(o->p, 1, 0xf));
    assert_null(pdb_contribution_at(o->p, 1, 0x180));
    assert_null(pdb_contribution_at(o->p, 2, 0x20));
}

static void check_symbols(const pdb_module *m)
{
    assert_int_equal(m->proc_count, 2);
    const pdb_proc *outer = &m->procs[0];
    expect_str(outer->name, "outer");
    assert_int_equal(outer->rva, 0x1010);
    assert_int_equal(outer->length, 0x40);
    assert_int_equal(outer->flags, PDB_PROC_NO_RETURN);
    assert_int_equal(outer->type, 0x1234);
    assert_int_equal(outer->site_count, 2);
    assert_true(outer->has_pogo && outer->pogo.dynamic_count == 1234567890123);
    assert_int_equal(outer->chunk_count, 2);
    assert_int_equal(m->chunks[outer->first_chunk].off, 0x100);
    assert_int_equal(m->chunks[outer->first_chunk + 1].off, 0x120);
    assert_int_equal(m->procs[1].chunk_count, 0);
    assert_int_equal(m->procs[1].site_count, 0);
    assert_int_equal(m->block_count, 1);
    assert_int_equal(m->blocks[0].off, 0x20);
    assert_int_equal(m->label_count, 1);
    assert_int_equal(m->labels[0].proc, 0);
    assert_int_equal(m->call_site_count, 1);
    assert_int_equal(m->call_sites[0].type, 0x1777);
    assert_int_equal(m->thunk_count, 1);
    assert_int_equal(m->thunks[0].rva, 0x1080);
    assert_int_equal(m->trampolines[0].target_rva, 0x1010);
    assert_int_equal(m->switch_tables[0].entry_count, 5);
    assert_int_equal(m->switch_tables[0].table_section, 2);
    expect_str(m->coff_groups[0].name, ".text$mn");
    expect_str(m->mini_refs[0].name, "mini");
    assert_int_equal(m->compiler.flags, PDB_COMPILED_LTCG);
    assert_int_equal(m->compiler.back[3], 8);
}

static void check_lines(const pdb_module *m)
{
    static const uint32_t rows[][3] = {{0x10, 0, 5},      {0x10, 8, 6},        {0x18, 8, 100},
                                       {0x20, 0x10, 101}, {0x30, 4, 0xfeefee}, {0x34, 0x1c, 9}};
    assert_int_equal(m->line_set_count, 2);
    assert_int_equal(m->line_sets[0].off, 0x10);
    assert_int_equal(m->line_sets[0].count, 6);
    for (size_t i = 0; i < 6; i++) {
        const pdb_line *l = &m->lines[m->line_sets[0].first + i];
        assert_int_equal(l->off, rows[i][0]);
        assert_int_equal(l->length, rows[i][1]);
        assert_int_equal(l->line, rows[i][2]);
        assert_int_equal(l->file, rows[i][2] >= 100 && rows[i][2] < 200 ? 1 : 0);
    }
    assert_true(m->lines[m->line_sets[0].first].is_statement);
    assert_int_equal(pdb_line_kind_of(pdb_line_at(m, 1, 0x33)->line), PDB_LINE_HIDDEN);
    assert_int_equal(pdb_line_at(m, 1, 0x10)->line, 6);
    assert_null(pdb_line_at(m, 1, 0x50));
    assert_null(pdb_line_at(m, 2, 0x10));
    assert_int_equal(pdb_line_at(m, 1, 0x60)->column, 11);
    assert_int_equal(pdb_line_at(m, 1, 0x60)->column_end, 21);
    expect_str(m->files[1].name, "c:\\b.h");
    assert_int_equal(m->files[0].checksum.len, 16);
    assert_int_equal(m->files[0].checksum_kind, 1);
}

static void check_sites(const pdb_module *m)
{
    static const uint32_t rows[][3] = {{0x14, 4, 11}, {0x18, 2, 12}, {0x104, 3, 12}};
    assert_int_equal(m->site_count, 2);
    assert_int_equal(m->sites[0].end, 2);
    assert_int_equal(m->sites[0].file, 1);
    assert_int_equal(m->sites[0].invocations, PDB_NONE);
    assert_int_equal(m->sites[1].parent, 0);
    assert_int_equal(m->sites[1].invocations, 99);
    pdb_inline_reader r = pdb_inline_rows(m, 0);
    pdb_inline_row row;
    for (size_t i = 0; i < 3; i++) {
        assert_true(pdb_inline_next(&r, &row));
        assert_int_equal(row.off, rows[i][0]);
        assert_int_equal(row.length, rows[i][1]);
        assert_int_equal(row.line, rows[i][2]);
        assert_int_equal(row.file, 1);
    }
    assert_false(pdb_inline_next(&r, &row));
    assert_false(r.damaged);
    r = pdb_inline_rows(m, 1);
    assert_true(pdb_inline_next(&r, &row));
    assert_int_equal(row.off, 0x14);
    assert_int_equal(row.length, 1);
    assert_int_equal(row.line, 50);
}

static void check_names(opened *o, const pdb_module *m)
{
    pdb_ids *ids;
    const pdb_function *f;
    assert_int_equal(pdb_ids_new(o->p, NULL, &ids, &o->err), SPGO_OK);
    assert_int_equal(pdb_ids_function(ids, m, 0x1001, &f, &o->err), SPGO_OK);
    expect_str(f->qualified, "space::inlined");
    assert_true(f->has_decorated_hash && f->decorated_hash == 0x0123456789abcdefu);
    assert_int_equal(pdb_ids_function(ids, m, 0x80000000u, &f, &o->err), SPGO_OK);
    expect_str(f->qualified, "space::Class::method");
    assert_int_equal(f->id, 0x1002);
    assert_true(f->is_member && !f->has_decorated_hash);
    const pdb_function *again;
    assert_int_equal(pdb_ids_function(ids, m, 0x1002, &again, &o->err), SPGO_OK);
    assert_ptr_equal(again, f);
    assert_int_equal(pdb_ids_function(ids, m, 0x1005, &f, &o->err), SPGO_OK);
    expect_str(f->qualified, "spacespace::tail::deep");
    assert_int_equal(pdb_ids_function(ids, m, 0x1006, &f, &o->err), SPGO_NOT_FOUND);
    assert_int_equal(pdb_ids_function(ids, m, 0x1000, &f, &o->err), SPGO_CORRUPT);
    assert_int_equal(pdb_ids_function(ids, m, 0x80000001u, &f, &o->err), SPGO_CORRUPT);
    assert_int_equal(pdb_ids_function(ids, m, 0x80100000u, &f, &o->err), SPGO_CORRUPT);
    pdb_ids_free(ids);
}

static void check_publics(opened *o)
{
    static const char *const names[] = {"?outer@@YAXXZ", "?also@@YAXXZ", "?folded@@YAXXZ"};
    pdb_publics *publics;
    assert_int_equal(pdb_publics_read(o->p, &publics, &o->d, &o->err), SPGO_OK);
    assert_int_equal(publics->public_count, 3);
    for (size_t i = 0; i < 3; i++)
        expect_str(publics->publics[i].name, names[i]);
    assert_int_equal(publics->publics[0].flags, PDB_PUBLIC_CODE | PDB_PUBLIC_FUNCTION);
    assert_int_equal(publics->proc_ref_count, 1);
    assert_int_equal(publics->proc_refs[0].module, 0);
    assert_int_equal(publics->proc_refs[0].symbol_off, o->b.proc_off);
    assert_int_equal(publics->mini_ref_count, 1);
    assert_int_equal(publics->mini_refs[0].module, 1);
    pdb_publics_free(publics);
}

static void check_whole(opened *o)
{
    if (o->code != SPGO_OK)
        fail_msg("%s", o->err.sentence);
    check_header(o);
    pdb_module *m = read_module(o, 0);
    check_symbols(m);
    check_lines(m);
    check_sites(m);
    check_names(o, m);
    check_publics(o);
    pdb_module *none = read_module(o, 2);
    assert_int_equal(none->proc_count, 0);
    pdb_module_free(none);
    pdb_module_free(m);
    if (o->d.total)
        fail_msg("%s", o->d.kept[0].sentence);
}

static void files_of_all_page_sizes_are_read(void **state)
{
    (void)state;
    for (uint32_t page_size = 512; page_size <= 65536; page_size *= 2) {
        for (int scattered = 0; scattered < 2; scattered++) {
            opened o = open_built(page_size, scattered, false);
            check_whole(&o);
            close_opened(&o);
        }
    }
}

/* 130,000 streams: the directory needs map pages of its own. */
static void big_directories_are_read(void **state)
{
    (void)state;
    enum { PAGE = 512, STREAMS = 130000, SIZE = 4 + 4 * STREAMS + 4, PAGES = SIZE / PAGE + 1 };
    bytes file = {0};
    enum { MAPS = (4 * PAGES + PAGE - 1) / PAGE, TOTAL = 3 + MAPS + PAGES + 1 };
    bytes_fill(&file, 0, (size_t)TOTAL * PAGE);
    put_at(&file, 0, "Microsoft C/C++ MSF 7.00\r\n\x1a\x44S\0\0\0", 32);
    bytes_set_u32(&file, 32, PAGE);
    bytes_set_u32(&file, 40, TOTAL);
    bytes_set_u32(&file, 44, SIZE);
    for (uint32_t i = 0; i < MAPS; i++)
        bytes_set_u32(&file, 52 + 4 * i, 3 + i);
    for (uint32_t i = 0; i < PAGES; i++)
        bytes_set_u32(&file, 3 * PAGE + 4 * i, 3 + MAPS + i);
    size_t directory = (size_t)(3 + MAPS) * PAGE;
    bytes_set_u32(&file, directory, STREAMS);
    bytes_set_u32(&file, directory + 4 + 4 * 1, 28 + 5 * 4);
    bytes_set_u32(&file, directory + 4 + 4 * STREAMS, TOTAL - 1); /* the page of stream 1 */
    size_t info = (size_t)(TOTAL - 1) * PAGE;
    bytes_set_u32(&file, info, 20000404);
    bytes_set_u32(&file, info + 8, 9);
    pdb *p;
    spgo_error err = {0};
    if (pdb_open(bytes_span(&file), NULL, &p, NULL, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    assert_int_equal(pdb_stream_count(p), STREAMS);
    assert_int_equal(pdb_get_info(p)->id.age, 9);
    assert_false(pdb_get_info(p)->has_dbi);
    assert_int_equal(pdb_module_count(p), 0);
    pdb_close(p);
    bytes_free(&file);
}

/* ------------------------------------------------------------------ OMAP */

static void moved_addresses_are_mapped_both_ways(void **state)
{
    (void)state;
    opened o = open_built(1024, false, true);
    assert_int_equal(o.code, SPGO_OK);
    assert_true(pdb_get_info(o.p)->has_omap);
    assert_int_equal(pdb_rva(o.p, 1, 0x10), 0x2010);
    assert_int_equal(pdb_rva(o.p, 1, 0x34), 0x2044);
    assert_int_equal(pdb_rva(o.p, 1, 0x190), PDB_NO_RVA); /* removed */
    assert_int_equal(pdb_rva(o.p, 0, 0x10), PDB_NO_RVA);
    assert_int_equal(pdb_rva(o.p, 3, 0x10), PDB_NO_RVA);
    uint16_t section = 0;
    uint32_t off = 0;
    assert_true(pdb_section_offset(o.p, 0x2044, &section, &off));
    assert_int_equal(off, 0x34);
    assert_false(pdb_section_offset(o.p, 0x2035, &section, &off)); /* put in */
    pdb_range ranges[4];
    assert_int_equal(pdb_ranges(o.p, 1, 0x10, 0x40, ranges, 4), 2);
    assert_int_equal(ranges[0].rva, 0x2010);
    assert_int_equal(ranges[0].length, 0x20);
    assert_int_equal(ranges[1].rva, 0x2040);
    assert_int_equal(ranges[1].length, 0x20);
    assert_int_equal(ranges[1].off, 0x30);
    assert_int_equal(pdb_ranges(o.p, 1, 0x10, 0x40, NULL, 0), 2);
    assert_int_equal(pdb_ranges(o.p, 1, 0x10, 0, ranges, 4), 0);
    assert_int_equal(pdb_ranges(o.p, 1, 0x10, UINT32_MAX, ranges, 4), 0);
    close_opened(&o);
}

/* Without the way back nothing of the shipped image can be looked up, but ranges can be given. */
static void a_way_there_without_a_way_back_is_used(void **state)
{
    (void)state;
    opened o = {.b = build_streams(1024)};
    o.b.omap = true;
    build_settle(&o.b);
    bytes_clear(&o.b.streams[S_OMAP_TO]);
    o.file = build_file(&o.b);
    reopen(&o);
    assert_int_equal(o.code, SPGO_OK);
    uint16_t section = 0;
    uint32_t off = 0;
    assert_int_equal(pdb_rva(o.p, 1, 0x34), 0x2044);
    assert_false(pdb_section_offset(o.p, 0x2044, &section, &off));
    pdb_range ranges[4];
    assert_int_equal(pdb_ranges(o.p, 1, 0x10, 0x40, ranges, 4), 2);
    assert_int_equal(ranges[0].length, 0x20);
    assert_int_equal(ranges[1].rva, 0x2040);
    assert_int_equal(ranges[1].length, 0x20);
    close_opened(&o);
}

/* ------------------------------------------------------------------ annotations */

typedef struct annotation_row {
    uint32_t off, length, line;
} annotation_row;

static void expect_rows(const uint8_t *annotations, size_t size, const annotation_row *rows,
                        size_t count, bool damaged)
{
    pdb_proc proc = {.off = 0x1000, .section = 1, .length = 0x100};
    pdb_inline_site site = {.proc = 0, .line = 100, .annotations = {annotations, size}};
    pdb_module m = {.procs = &proc, .proc_count = 1, .sites = &site, .site_count = 1};
    pdb_inline_reader r = pdb_inline_rows(&m, 0);
    pdb_inline_row row;
    for (size_t i = 0; i < count; i++) {
        assert_true(pdb_inline_next(&r, &row));
        assert_int_equal(row.off, 0x1000 + rows[i].off);
        assert_int_equal(row.length, rows[i].length);
        assert_int_equal(row.line, rows[i].line);
    }
    assert_false(pdb_inline_next(&r, &row));
    assert_int_equal(r.damaged, damaged);
}

#define ROWS(annotations, damaged, ...)                                                            \
    do {                                                                                           \
        static const annotation_row rows_[] = {__VA_ARGS__};                                       \
        expect_rows(annotations, sizeof(annotations), rows_, sizeof rows_ / sizeof *rows_,         \
                    damaged);                                                                      \
    } while (0)

static void operation_4_moves_on_and_12_does_not(void **state)
{
    (void)state;
    static const uint8_t by_4[] = {3, 2, 4, 5, 3, 1, 4, 1};
    static const uint8_t by_12[] = {12, 5, 2, 12, 1, 1};
    ROWS(by_4, false, {2, 5, 100}, {8, 1, 100});
    ROWS(by_12, false, {2, 5, 100}, {3, 1, 100});
}

static void rows_without_length_reach_the_next(void **state)
{
    (void)state;
    static const uint8_t open[] = {3, 2, 6, 4, 3, 6, 0x0b, 0x33};
    ROWS(open, false, {2, 6, 100}, {8, 3, 102}, {11, 0, 101});
}

static void all_operations_are_known(void **state)
{
    (void)state;
    static const uint8_t all[] = {1, 0x20, 7, 1, 8, 0, 9, 4, 10, 2, 13, 9,
                                  5, 0x18, 3, 1, 6, 3, 2, 0, 3,  4, 4,  1};
    pdb_inline_row row;
    pdb_proc proc = {.off = 0x1000, .section = 1, .length = 0x100};
    pdb_inline_site site = {.line = 100, .annotations = {all, sizeof all}};
    pdb_module m = {.procs = &proc, .proc_count = 1, .sites = &site, .site_count = 1};
    pdb_inline_reader r = pdb_inline_rows(&m, 0);
    assert_true(pdb_inline_next(&r, &row));
    assert_int_equal(row.off, 0x1021);
    assert_int_equal(row.column, 4);
    assert_int_equal(row.column_end, 9);
    assert_true(row.is_expression);
    assert_int_equal(row.file, PDB_NONE); /* no such file */
    assert_true(pdb_inline_next(&r, &row));
    assert_int_equal(row.off, 0x1004);
    assert_int_equal(row.line, 99);
    assert_false(pdb_inline_next(&r, &row));
    assert_false(r.damaged);
}

static void numbers_of_all_widths_are_read(void **state)
{
    (void)state;
    static const uint8_t wide[] = {3, 0x81, 0x02, 3, 0xc0, 0x01, 0x00, 0x00, 4, 0x7f};
    ROWS(wide, false, {0x102, 0x10000, 100}, {0x10102, 0x7f, 100});
}

static void damaged_annotations_end(void **state)
{
    (void)state;
    static const uint8_t unknown[] = {3, 2, 4, 1, 14, 1, 3, 1};
    static const uint8_t cut[] = {3, 2, 4, 1, 3, 0x81};
    static const uint8_t bad_number[] = {3, 2, 4, 1, 3, 0xe0, 0, 0, 0};
    static const uint8_t no_chunk[] = {3, 2, 4, 1, 2, 1, 3, 1};
    ROWS(unknown, true, {2, 1, 100});
    ROWS(cut, true, {2, 1, 100});
    ROWS(bad_number, true, {2, 1, 100});
    ROWS(no_chunk, true, {2, 1, 100});
}

/* The example of the format's description: `_Tidy_deallocate` of a VS2017 program. */
static void a_real_site_is_decoded(void **state)
{
    (void)state;
    static const uint8_t tidy[] = {0x0b, 0x03, 0x06, 0x0a, 0x03, 0x08, 0x06, 0x06, 0x03,
                                   0x2d, 0x06, 0x08, 0x03, 0x07, 0x0b, 0x72, 0x06, 0x06,
                                   0x0c, 0x03, 0x07, 0x06, 0x0f, 0x0c, 0x06, 0x05};
    ROWS(tidy, false, {0x03, 0x08, 100}, {0x0b, 0x2d, 105}, {0x38, 7, 108}, {0x3f, 2, 112},
         {0x41, 7, 109}, {0x48, 3, 112}, {0x4d, 6, 105});
}

/* ------------------------------------------------------------------ broken containers */

static void expect_open_failure(opened *o, spgo_code code, uint64_t offset)
{
    reopen(o);
    assert_int_equal(o->code, code);
    assert_null(o->p);
    if (o->err.offset != offset)
        fail_msg("offset 0x%llx: %s", (unsigned long long)o->err.offset, o->err.sentence);
    assert_true(o->err.sentence[0] != '\0');
}

static void other_files_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        size_t len;
        spgo_code code;
        const char *word;
    } files[] = {
        {"Microsoft C/C++ program database 2.00\r\n\x1aJG\0\0", 44, SPGO_UNSUPPORTED, "2.00"},
        {"Microsoft MSFZ Container\r\n\x1a\x41LD\0\0", 32, SPGO_UNSUPPORTED, "MSFZ"},
        {"BSJB\1\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32, SPGO_UNSUPPORTED,
         "Portable"},
        {"MZ\x90\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32, SPGO_CORRUPT,
         "image"},
        {"\x7f"
         "ELF\2\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
         32, SPGO_CORRUPT, "no PDB"},
        {"", 0, SPGO_TRUNCATED, "0 bytes"},
        {"Microsoft C", 11, SPGO_TRUNCATED, "11 bytes"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pdb *p;
        spgo_error err = {0};
        spgo_span file = {(const uint8_t *)files[i].start, files[i].len};
        assert_int_equal(pdb_open(file, NULL, &p, NULL, &err), files[i].code);
        assert_null(p);
        assert_non_null(strstr(err.sentence, files[i].word));
    }
}

static void broken_superblocks_fail(void **state)
{
    (void)state;
    opened o = open_built(512, false, false);
    static const struct {
        size_t at;
        uint32_t value;
        spgo_code code;
        uint64_t offset;
    } fields[] = {
        {32, 256, SPGO_CORRUPT, 32},        {32, 131072, SPGO_CORRUPT, 32},
        {32, 1536, SPGO_CORRUPT, 32},       {40, 0, SPGO_CORRUPT, 44},
        {40, 1, SPGO_CORRUPT, 52},          {44, 0, SPGO_CORRUPT, 44},
        {44, UINT32_MAX, SPGO_CORRUPT, 44}, {52, 0, SPGO_CORRUPT, 52},
        {52, UINT32_MAX, SPGO_CORRUPT, 52},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint32_t old = 0;
        memcpy(&old, o.file.ptr + fields[i].at, 4);
        bytes_set_u32(&o.file, fields[i].at, fields[i].value);
        expect_open_failure(&o, fields[i].code, fields[i].offset);
        put_at(&o.file, fields[i].at, &old, 4);
    }
    close_opened(&o);
}

static void a_directory_page_used_twice_fails(void **state)
{
    (void)state;
    opened o = open_built(512, false, false);
    uint32_t map_page = o.file.ptr[52];
    size_t map = (size_t)map_page * 512;
    bytes_set_u32(&o.file, map, map_page); /* the map is its own first page of the directory */
    expect_open_failure(&o, SPGO_CORRUPT, map);
    bytes_set_u32(&o.file, map, 1u << 30);
    expect_open_failure(&o, SPGO_CORRUPT, map);
    close_opened(&o);
}

static void hostile_stream_tables_fail(void **state)
{
    (void)state;
    opened o = open_built(512, false, false);
    size_t at = (size_t)o.b.directory_off;
    bytes_set_u32(&o.file, at, 0x40000000);
    expect_open_failure(&o, SPGO_CORRUPT, at);
    bytes_set_u32(&o.file, at, S_COUNT);
    bytes_set_u32(&o.file, at + 4 + 4 * S_DBI, 0xfffffffe);
    expect_open_failure(&o, SPGO_CORRUPT, at + 4 + 4 * S_DBI);
    close_opened(&o);
}

/* The page list of a module's stream: the damage is found at once, and ends only that stream. */
static void a_broken_page_list_spares_other_streams(void **state)
{
    (void)state;
    static const uint32_t pages[] = {0, 3, 0xffffff};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        opened o = open_built(512, false, false);
        size_t list = (size_t)o.b.directory_off + 4 + 4 * S_COUNT;
        for (int s = 0; s < S_MODULE_A; s++)
            list += 4 * o.b.page_count[s];
        bytes_set_u32(&o.file, list, pages[i]);
        reopen(&o);
        assert_int_equal(o.code, SPGO_OK);
        assert_int_equal(o.d.total, 1);
        assert_int_equal(o.d.kept[0].code, SPGO_CORRUPT);
        assert_int_equal(o.d.kept[0].offset, list);
        pdb_module *m;
        assert_int_equal(pdb_module_read(o.p, 0, &m, NULL, &o.err), SPGO_CORRUPT);
        assert_int_equal(o.err.offset, list);
        assert_null(m);
        m = read_module(&o, 1);
        assert_int_equal(m->exports.len, 8);
        pdb_module_free(m);
        close_opened(&o);
    }
}

static void a_budget_ends_what_is_too_big(void **state)
{
    (void)state;
    opened o = open_built(512, true, false);
    for (uint64_t budget = 1; budget < 20000; budget += 97) {
        pdb_opts opts = {.size = sizeof opts, .budget_bytes = budget};
        pdb *p;
        spgo_error err = {0};
        spgo_code code = pdb_open(bytes_span(&o.file), &opts, &p, NULL, &err);
        pdb_module *m = NULL;
        if (code == SPGO_OK)
            code = pdb_module_read(p, 0, &m, NULL, &err);
        assert_true(code == SPGO_OK || code == SPGO_LIMIT);
        if (code == SPGO_LIMIT)
            assert_non_null(strstr(err.sentence, "budget"));
        pdb_module_free(m);
        pdb_close(p);
    }
    close_opened(&o);
}

/* ------------------------------------------------------------------ broken fields */

/* Sets a u32 of a stream, opens, and restores. */
static void break_u32(opened *o, int stream, uint64_t off, uint32_t value)
{
    bytes_free(&o->file);
    o->file = build_file(&o->b);
    bytes_set_u32(&o->file, (size_t)build_offset(&o->b, stream, off), value);
    reopen(o);
}

static void broken_headers_fail(void **state)
{
    (void)state;
    opened o = open_built(4096, false, false);
    static const struct {
        int stream;
        uint64_t off;
        uint32_t value;
        spgo_code code;
        uint64_t at;
    } fields[] = {
        {S_INFO, 0, 19970604, SPGO_UNSUPPORTED, 0}, /* version */
        {S_INFO, 28, 1000, SPGO_CORRUPT, 32},       /* bytes of names */
        {S_INFO, 39, 1000, SPGO_CORRUPT, 59},       /* entries */
        {S_INFO, 47, 1u << 30, SPGO_CORRUPT, 51},   /* words of bits */
        {S_DBI, 0, 1, SPGO_UNSUPPORTED, 0},         {S_DBI, 4, 930803, SPGO_UNSUPPORTED, 4},
        {S_DBI, 24, 1u << 30, SPGO_CORRUPT, 64}, /* bytes of modules */
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        break_u32(&o, fields[i].stream, fields[i].off, fields[i].value);
        if (o.code != fields[i].code)
            fail_msg("field %zu: %s", i, o.code ? o.err.sentence : "read");
        assert_int_equal(o.err.offset, build_offset(&o.b, fields[i].stream, fields[i].at));
    }
    close_opened(&o);
}

static void expect_finding(const opened *o, spgo_code code, int stream, uint64_t off)
{
    assert_true(o->d.total > 0);
    uint64_t at = build_offset(&o->b, stream, off);
    if (o->d.kept[0].code != code || o->d.kept[0].offset != at)
        fail_msg("0x%llx, not 0x%llx: %s", (unsigned long long)o->d.kept[0].offset,
                 (unsigned long long)at, o->d.kept[0].sentence);
}

static void broken_tables_are_findings(void **state)
{
    (void)state;
    opened o = open_built(4096, false, true);
    break_u32(&o, S_NAMES, 0, 1);
    expect_finding(&o, SPGO_CORRUPT, S_NAMES, 0);
    break_u32(&o, S_NAMES, 8, 1u << 30);
    expect_finding(&o, SPGO_CORRUPT, S_NAMES, 8);
    uint64_t places = 0;
    const bytes *dbi = &o.b.streams[S_DBI];
    places = 64 + ((uint64_t)dbi->ptr[24] | (uint64_t)dbi->ptr[25] << 8);
    break_u32(&o, S_DBI, places, 5);
    expect_finding(&o, SPGO_UNSUPPORTED, S_DBI, places);
    assert_int_equal(pdb_contribution_count(o.p), 0);
    break_u32(&o, S_OMAP_FROM, 8, 0x10);
    expect_finding(&o, SPGO_CORRUPT, S_OMAP_FROM, 0);
    close_opened(&o);
}

/* Module A with one word changed: what is found, and how many procedures are still read. */
static void break_module(opened *o, uint64_t off, uint32_t value, spgo_code code, uint64_t at,
                         size_t procs)
{
    break_u32(o, S_MODULE_A, off, value);
    assert_int_equal(o->code, SPGO_OK);
    pdb_module *m = read_module(o, 0);
    expect_finding(o, code, S_MODULE_A, at);
    assert_int_equal(m->proc_count, procs);
    pdb_module_free(m);
}

static void broken_symbols_are_findings(void **state)
{
    (void)state;
    opened o = open_built(4096, false, false);
    uint64_t proc = o.b.proc_off, site = o.b.site_off;
    /* The first record's length: too short for itself, or past the end of the symbols. */
    break_module(&o, proc, PDB_S_GPROC32 << 16 | 1, SPGO_CORRUPT, proc, 0);
    break_module(&o, proc, (uint32_t)PDB_S_GPROC32 << 16 | 0xfffe, SPGO_TRUNCATED, proc + 2, 0);
    /* A site that ends before its inlinee. */
    break_module(&o, site, PDB_S_INLINESITE << 16 | 10, SPGO_TRUNCATED, site + 12, 1);
    /* An end too many. */
    break_module(&o, proc, PDB_S_END << 16 | 2, SPGO_CORRUPT, proc, 0);
    close_opened(&o);
}

static void broken_lines_are_findings(void **state)
{
    (void)state;
    opened o = open_built(4096, false, false);
    uint64_t c13 = o.b.symbol_bytes_a;
    uint64_t lines = c13 + 8 + 32; /* behind the checksums: the set with columns */
    break_module(&o, c13 + 4, 1u << 30, SPGO_TRUNCATED, c13 + 8, 2);
    break_module(&o, lines + 8 + 12 + 4, 1u << 30, SPGO_CORRUPT, lines + 8 + 12 + 12, 2);
    break_module(&o, lines + 8 + 12 + 8, 4, SPGO_CORRUPT, lines + 8 + 12 + 8, 2);
    break_module(&o, lines + 8 + 12 + 12, 0x11, SPGO_CORRUPT, lines + 8 + 12 + 12, 2);
    break_module(&o, lines + 8, UINT32_MAX, SPGO_CORRUPT, lines + 8 + 8, 2);
    close_opened(&o);
}

static void wrong_module_sizes_fail(void **state)
{
    (void)state;
    opened o = open_built(4096, false, false);
    pdb_module *m;
    break_u32(&o, S_DBI, 64 + 36, 1u << 30);
    assert_int_equal(pdb_module_read(o.p, 0, &m, NULL, &o.err), SPGO_CORRUPT);
    break_u32(&o, S_MODULE_A, 0, 1);
    assert_int_equal(pdb_module_read(o.p, 0, &m, NULL, &o.err), SPGO_UNSUPPORTED);
    assert_int_equal(o.err.offset, build_offset(&o.b, S_MODULE_A, 0));
    assert_int_equal(pdb_module_read(o.p, 3, &m, NULL, &o.err), SPGO_NOT_FOUND);
    close_opened(&o);
}

static void broken_types_fail(void **state)
{
    (void)state;
    opened o = open_built(4096, false, false);
    static const struct {
        uint64_t off;
        uint32_t value;
        spgo_code code;
    } fields[] = {
        {0, 19990903, SPGO_UNSUPPORTED}, /* version */
        {4, 1000000, SPGO_CORRUPT},      /* header */
        {12, 0x10000000, SPGO_CORRUPT},  /* types */
        {16, 0x10000000, SPGO_CORRUPT},  /* bytes */
        {56, 0xffff, SPGO_NOT_FOUND},    /* the first record: too long, so that no other is found */
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        break_u32(&o, S_IPI, fields[i].off, fields[i].value);
        pdb_module *m = read_module(&o, 0);
        pdb_ids *ids;
        const pdb_function *f;
        assert_int_equal(pdb_ids_new(o.p, NULL, &ids, &o.err), SPGO_OK);
        spgo_code code = pdb_ids_function(ids, m, 0x1001, &f, &o.err);
        bool lost = fields[i].code == SPGO_NOT_FOUND && code == SPGO_TRUNCATED;
        if (code != fields[i].code && !lost)
            fail_msg("field %zu: %s", i, code ? o.err.sentence : "read");
        pdb_ids_free(ids);
        pdb_module_free(m);
    }
    close_opened(&o);
}

/* A string whose list holds itself must not be followed for ever. */
static void loops_of_strings_end(void **state)
{
    (void)state;
    opened o = open_built(4096, false, false);
    for (uint32_t id = 0x1000; id <= 0x1008; id++) {
        /* The second element of the list 1003. */
        const bytes *ipi = &o.b.streams[S_IPI];
        size_t at = 0;
        for (size_t i = 56; i + 8 < ipi->len; i += 4)
            if (ipi->ptr[i + 2] == 0x04 && ipi->ptr[i + 3] == 0x16)
                at = i + 12;
        assert_true(at > 0);
        break_u32(&o, S_IPI, at, id);
        pdb_module *m = read_module(&o, 0);
        pdb_ids *ids;
        const pdb_function *f;
        assert_int_equal(pdb_ids_new(o.p, NULL, &ids, &o.err), SPGO_OK);
        assert_int_equal(pdb_ids_function(ids, m, 0x1005, &f, &o.err), SPGO_OK);
        expect_str(f->name, "deep");
        pdb_ids_free(ids);
        pdb_module_free(m);
    }
    close_opened(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_all_page_sizes_are_read),
        cmocka_unit_test(big_directories_are_read),
        cmocka_unit_test(moved_addresses_are_mapped_both_ways),
        cmocka_unit_test(a_way_there_without_a_way_back_is_used),
        cmocka_unit_test(operation_4_moves_on_and_12_does_not),
        cmocka_unit_test(rows_without_length_reach_the_next),
        cmocka_unit_test(all_operations_are_known),
        cmocka_unit_test(numbers_of_all_widths_are_read),
        cmocka_unit_test(damaged_annotations_end),
        cmocka_unit_test(a_real_site_is_decoded),
        cmocka_unit_test(other_files_are_named),
        cmocka_unit_test(broken_superblocks_fail),
        cmocka_unit_test(a_directory_page_used_twice_fails),
        cmocka_unit_test(hostile_stream_tables_fail),
        cmocka_unit_test(a_broken_page_list_spares_other_streams),
        cmocka_unit_test(a_budget_ends_what_is_too_big),
        cmocka_unit_test(broken_headers_fail),
        cmocka_unit_test(broken_tables_are_findings),
        cmocka_unit_test(broken_symbols_are_findings),
        cmocka_unit_test(broken_lines_are_findings),
        cmocka_unit_test(wrong_module_sizes_fail),
        cmocka_unit_test(broken_types_fail),
        cmocka_unit_test(loops_of_strings_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
