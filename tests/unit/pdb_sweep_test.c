/*
 * Damage everywhere: files cut at every byte and with every byte changed must be read or refused,
 * with a sentence and an offset, and whatever is read of them must be whole. Sanitizers see the
 * rest. The dump also is checked here against what it is a dump of.
 */
#include "pdb_build.h"

#include <format/pdb/pdb_dump.h>

/* ------------------------------------------------------------------ reading all */

/* Numbers must stay inside the tables that they point into. */
static void check_module(const pdb_module *m)
{
    for (size_t i = 0; i < m->site_count; i++) {
        const pdb_inline_site *s = &m->sites[i];
        assert_true(s->proc < m->proc_count);
        assert_true(s->parent == PDB_NONE || s->parent < i);
        assert_true(s->end > i && s->end <= m->site_count);
        assert_true(s->file == PDB_NONE || s->file < m->file_count);
    }
    for (size_t i = 0; i < m->proc_count; i++) {
        const pdb_proc *p = &m->procs[i];
        assert_true((uint64_t)p->first_site + p->site_count <= m->site_count);
        assert_true((uint64_t)p->first_chunk + p->chunk_count <= m->chunk_count);
    }
    for (size_t i = 0; i < m->line_set_count; i++)
        assert_true((uint64_t)m->line_sets[i].first + m->line_sets[i].count <= m->line_count);
    for (size_t i = 0; i < m->line_count; i++)
        assert_true(m->lines[i].file == PDB_NONE || m->lines[i].file < m->file_count);
}

static void dump_module(out *o, pdb *p, uint32_t index, pdb_ids *ids)
{
    pdb_module *m;
    spgo_error err = {0};
    if (pdb_module_read(p, index, &m, NULL, &err) != SPGO_OK) {
        assert_true(err.sentence[0] != '\0');
        return;
    }
    check_module(m);
    pdb_dump_procs(o, NULL, m);
    pdb_dump_sites(o, NULL, m, ids);
    pdb_dump_lines(o, NULL, m);
    pdb_dump_others(o, NULL, m);
    pdb_module_free(m);
}

static void dump_all(out *o, pdb *p)
{
    pdb_dump_header(o, NULL, p);
    pdb_dump_streams(o, NULL, p);
    pdb_dump_sections(o, NULL, p);
    pdb_dump_modules(o, NULL, p);
    pdb_ids *ids;
    spgo_error err = {0};
    assert_int_equal(pdb_ids_new(p, NULL, &ids, &err), SPGO_OK);
    for (uint32_t i = 0; i < pdb_module_count(p); i++)
        dump_module(o, p, i, ids);
    pdb_publics *publics;
    if (pdb_publics_read(p, &publics, NULL, &err) == SPGO_OK) {
        pdb_dump_publics(o, NULL, publics);
        pdb_publics_free(publics);
    }
    pdb_ids_free(ids);
}

static bool take_nothing(void *ctx, const void *data, size_t len)
{
    (void)data;
    *(uint64_t *)ctx += len;
    return true;
}

/* True if it opened. The bytes stand in a block of exactly their size. */
static bool read_damaged(out *o, const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    pdb *p;
    spgo_error err = {0};
    spgo_code code = pdb_open((spgo_span){copy, len}, NULL, &p, NULL, &err);
    if (code == SPGO_OK) {
        dump_all(o, p);
        pdb_close(p);
    } else {
        assert_null(p);
        assert_int_equal(err.code, code);
        assert_true(err.sentence[0] != '\0');
        assert_true(err.offset <= len || err.offset == SPGO_NO_OFFSET || code != SPGO_TRUNCATED);
    }
    free(copy);
    return code == SPGO_OK;
}

/* ------------------------------------------------------------------ sweeps */

static bytes built_file(bool scattered, bool omap)
{
    build b = build_streams(512);
    b.scattered = scattered;
    b.omap = omap;
    build_settle(&b);
    bytes file = build_file(&b);
    build_free(&b);
    return file;
}

static void cut_files_are_refused_or_read(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        bytes file = built_file(kind, kind);
        uint64_t written = 0;
        out o;
        assert_int_equal(out_init(&o, (spgo_sink){&written, take_nothing, NULL, NULL}, NULL),
                         SPGO_OK);
        size_t opened = 0;
        for (size_t len = 0; len < file.len; len++)
            opened += read_damaged(&o, file.ptr, len);
        assert_true(read_damaged(&o, file.ptr, file.len));
        assert_true(opened < 512); /* the directory is at the end */
        out_free(&o);
        bytes_free(&file);
    }
}

static void changed_files_are_refused_or_read(void **state)
{
    (void)state;
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    for (int kind = 0; kind < 2; kind++) {
        bytes file = built_file(kind, kind);
        uint64_t written = 0;
        out o;
        assert_int_equal(out_init(&o, (spgo_sink){&written, take_nothing, NULL, NULL}, NULL),
                         SPGO_OK);
        size_t opened = 0;
        for (size_t at = 0; at < file.len; at++) {
            uint8_t mask = masks[(at + (size_t)kind) % sizeof masks];
            file.ptr[at] ^= mask;
            opened += read_damaged(&o, file.ptr, file.len);
            file.ptr[at] ^= mask;
        }
        assert_true(opened > file.len / 2);
        out_free(&o);
        bytes_free(&file);
    }
}

static void damaged_real_files_are_refused_or_read(void **state)
{
    (void)state;
    static const char *const files[] = {"pdb/sym_crash.pdb", "pdb/own/t_4096.pdb",
                                        "pdb/bp_omap_stretched_filled.pdb"};
    uint64_t random = 1, written = 0;
    out o;
    assert_int_equal(out_init(&o, (spgo_sink){&written, take_nothing, NULL, NULL}, NULL), SPGO_OK);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        spgo_span file = test_data_or_skip(files[f]);
        uint8_t *copy = malloc(file.len);
        assert_non_null(copy);
        for (size_t len = 0; len < file.len; len += file.len / 16 + 7)
            (void)read_damaged(&o, file.ptr, len);
        for (int i = 0; i < 16; i++) {
            memcpy(copy, file.ptr, file.len);
            for (int k = 0; k < 40; k++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                size_t at = (size_t)(random >> 20) % file.len;
                if (at >= 64)
                    copy[at] ^= (uint8_t)(1u << (random >> 60 & 7));
            }
            (void)read_damaged(&o, copy, file.len);
        }
        free(copy);
        test_data_free(file);
    }
    out_free(&o);
}

/* ------------------------------------------------------------------ the dump */

static void expect_line(const bytes *text, const char *line)
{
    size_t n = strlen(line);
    for (size_t i = 0; i + n <= text->len; i++)
        if ((i == 0 || text->ptr[i - 1] == '\n') && memcmp(text->ptr + i, line, n) == 0)
            return;
    fail_msg("no line \"%s\"", line);
}

static void the_dump_shows_every_part(void **state)
{
    (void)state;
    bytes file = built_file(false, false), text = {0};
    out o;
    pdb *p;
    spgo_error err = {0};
    assert_int_equal(pdb_open(bytes_span(&file), NULL, &p, NULL, &err), SPGO_OK);
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    dump_all(&o, p);
    assert_true(out_flush(&o));
    static const char *const lines[] = {
        "age: 2",
        "linker: \"14.32\"",
        "stream 3: ",
        "named stream 0: name=\"/names\" stream=5",
        "section 1: name=\".text\" rva=0x1000",
        "contribution 0: section=1 off=0x10 size=0x70 module=0",
        "module 2: name=\"import.dll\" object=\"c:\\\\x.lib\" symbol_bytes=0",
        "procedure 0: rva=0x1010 section=1 off=0x10 length=0x40 kind=\"S_GPROC32\" name=\"outer\"",
        "separated code 1: procedure=0 rva=0x1120",
        "inline site 0: procedure=0 inlinee=0x1001 name=\"space::inlined\"",
        "inline site 1: procedure=0 parent=0 inlinee=0x80000000 name=\"space::Class::method\"",
        "  row 2: rva=0x1104 section=1 off=0x104 length=0x3 file=\"c:\\\\b.h\" line=12",
        "line 5: rva=0x1020",
        "thunk 0: rva=0x1080",
        "trampoline 0: rva=0x1090",
        "switch table 0: branch_rva=0x101c",
        "coff group 0: rva=0x1000",
        "public 0: rva=0x1010 section=1 off=0x10 function=true name=\"?outer@@YAXXZ\"",
        "procedure ref 0: module=0",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_line(&text, lines[i]);
    out_free(&o);
    bytes_free(&text);
    bytes_free(&file);
    pdb_close(p);
}

/* Brackets and quotes in balance: as far as a look at the bytes can tell. */
static void the_json_dump_is_balanced(void **state)
{
    (void)state;
    bytes file = built_file(false, false), text = {0};
    out o;
    pdb *p;
    pdb_module *m;
    pdb_publics *publics;
    spgo_error err = {0};
    assert_int_equal(pdb_open(bytes_span(&file), NULL, &p, NULL, &err), SPGO_OK);
    assert_int_equal(pdb_module_read(p, 0, &m, NULL, &err), SPGO_OK);
    assert_int_equal(pdb_publics_read(p, &publics, NULL, &err), SPGO_OK);
    assert_int_equal(out_init(&o, bytes_sink(&text), NULL), SPGO_OK);
    json j = json_on(&o, false);
    json_open_object(&j);
    pdb_dump_header(NULL, &j, p);
    pdb_dump_streams(NULL, &j, p);
    pdb_dump_sections(NULL, &j, p);
    pdb_dump_modules(NULL, &j, p);
    pdb_dump_procs(NULL, &j, m);
    pdb_dump_sites(NULL, &j, m, NULL);
    pdb_dump_lines(NULL, &j, m);
    pdb_dump_others(NULL, &j, m);
    json_key(&j, "globals");
    json_open_object(&j);
    pdb_dump_publics(NULL, &j, publics);
    json_close_object(&j);
    json_close_object(&j);
    assert_true(out_flush(&o));
    int depth = 0, rows = 0;
    for (size_t i = 0; i < text.len; i++) {
        depth += text.ptr[i] == '{' || text.ptr[i] == '[';
        depth -= text.ptr[i] == '}' || text.ptr[i] == ']';
        rows += text.ptr[i] == '{';
    }
    assert_int_equal(depth, 0);
    assert_true(rows > 50);
    out_free(&o);
    bytes_free(&text);
    bytes_free(&file);
    pdb_publics_free(publics);
    pdb_module_free(m);
    pdb_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dump_shows_every_part),
        cmocka_unit_test(the_json_dump_is_balanced),
        cmocka_unit_test(cut_files_are_refused_or_read),
        cmocka_unit_test(changed_files_are_refused_or_read),
        cmocka_unit_test(damaged_real_files_are_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
