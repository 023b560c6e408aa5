/*
 * Chains of inlined calls at the addresses for which other readers have given theirs:
 * llvm-symbolizer ("*.sym.txt") and symbolic ("*.snap"). Where the two and this reader differ, the
 * test says why, and counts how often.
 */
#include "pdb_lookup.h"

#include <stdio.h>

typedef struct tally {
    size_t addresses, frames;
    size_t unnamed;    /* code of assembler with lines but no procedure */
    size_t outside;    /* llvm-symbolizer names the public before padding; here is no procedure */
    size_t first_rows; /* llvm-symbolizer gives the first of several rows of one offset */
    size_t folded;     /* of two functions with one address llvm-symbolizer gives the other */
    size_t cut_chains; /* llvm-symbolizer leaves out the innermost calls: see is_cut_chain */
    size_t declared;   /* see is_declaration_row */
    size_t by_length;  /* see uses_lengths */
    size_t names, lines, depths; /* that differ otherwise */
} tally;

/* "name @ file:line" */
typedef struct expected {
    const char *name, *file;
    size_t name_len, file_len;
    uint32_t line;
} expected;

static expected parse_frame(const char *text, size_t len)
{
    expected e = {0};
    const char *at = NULL;
    for (size_t i = 0; i + 3 <= len; i++)
        if (memcmp(text + i, " @ ", 3) == 0)
            at = text + i;
    assert_non_null(at);
    e.name = text;
    e.name_len = (size_t)(at - text);
    e.file = at + 3;
    size_t rest = len - e.name_len - 3;
    size_t colon = rest;
    while (colon > 0 && e.file[colon - 1] != ':')
        colon--;
    assert_true(colon > 0);
    e.file_len = colon - 1;
    char digits[16] = {0};
    memcpy(digits, e.file + colon, rest - colon < 15 ? rest - colon : 15);
    e.line = (uint32_t)strtoul(digits, NULL, 10);
    if (str_is((spgo_str){e.file, e.file_len}, "??", 2))
        e.file_len = 0;
    return e;
}

/* Innermost first, as it is written. */
static size_t parse_chain(const char *text, size_t len, expected out[CHAIN_MAX])
{
    size_t count = 0, start = 0;
    for (size_t i = 0; i <= len; i++) {
        bool split = i + 4 <= len && memcmp(text + i, " <- ", 4) == 0;
        if (!split && i < len)
            continue;
        assert_true(count < CHAIN_MAX);
        out[count++] = parse_frame(text + start, i - start);
        start = i + 4;
    }
    return count;
}

static void say(const char *what, uint32_t rva, const expected *e, size_t count, const chain *c)
{
    print_message("%s 0x%x:", what, rva);
    for (size_t i = 0; i < count; i++)
        print_message(" [%.*s @ %.*s:%u]", (int)e[i].name_len, e[i].name, (int)e[i].file_len,
                      e[i].file, e[i].line);
    print_message("\n  here:");
    for (size_t i = c->count; i > 0; i--) {
        const frame *f = &c->frames[i - 1];
        print_message(" [%.*s @ %.*s:%u]", (int)f->name.len, f->name.ptr, (int)f->file.len,
                      f->file.ptr, f->line);
    }
    print_message("\n");
}

/* Does another row of the offset that holds here, an earlier one, say what is expected? */
static bool is_first_row(const chain *c, uint32_t rva, const expected *e)
{
    uint16_t section;
    uint32_t off;
    assert_true(pdb_section_offset(c->module->file, rva, &section, &off));
    const pdb_line_set *set = pdb_line_set_at(c->module, section, off);
    const pdb_line *held = pdb_line_at(c->module, section, off);
    for (const pdb_line *l = held; l && l >= c->module->lines + set->first; l--)
        if (l->off == held->off && l->line == e->line && l->file != PDB_NONE &&
            str_is(c->module->files[l->file].name, e->file, e->file_len))
            return true;
    return false;
}

/* Does a line table of another function at the same address say it? */
static bool is_folded(const chain *c, uint32_t rva, const expected *e)
{
    uint16_t section;
    uint32_t off;
    assert_true(pdb_section_offset(c->module->file, rva, &section, &off));
    const pdb_line_set *taken = pdb_line_set_at(c->module, section, off);
    for (const pdb_line_set *s = taken + 1;
         taken && s < c->module->line_sets + c->module->line_set_count; s++) {
        if (s->section != section || s->off != taken->off)
            break;
        for (size_t i = 0; i < s->count; i++) {
            const pdb_line *l = &c->module->lines[s->first + i];
            if (off >= l->off && off - l->off < l->length && l->line == e->line)
                return true;
        }
    }
    return false;
}

/* As is_first_row, for the rows of an inlined call. */
static bool is_first_inline_row(const chain *c, uint32_t site, uint32_t rva, const expected *e)
{
    pdb_inline_reader r = pdb_inline_rows(c->module, site);
    pdb_inline_row row, held;
    uint16_t section;
    uint32_t off;
    assert_true(pdb_section_offset(c->module->file, rva, &section, &off));
    if (!row_covering(c->module, site, section, off, &held))
        return false;
    while (pdb_inline_next(&r, &row))
        if (row.off == held.off && row.line == e->line)
            return true;
    return false;
}

/*
 * Operation 12 makes a row with a length of its own, after which the code offset stays at the row's
 * start. llvm-symbolizer 19 mistakes the lines around it: it forgets a row without a length before
 * one, and takes a line change before or behind it for the wrong side. The calls of the MSVC files
 * that use the operation are therefore not compared further; sym_crash, which is full of them, is
 * checked against symbolic below, and there every line agrees.
 */
static bool uses_lengths(const pdb_module *m, uint32_t site)
{
    const spgo_span a = m->sites[site].annotations;
    for (size_t i = 0; i < a.len && a.ptr[i] != 0;) {
        uint8_t op = a.ptr[i++];
        for (int operands = op == 12 ? 2 : 1; operands > 0 && i < a.len; operands--)
            i += !(a.ptr[i] & 0x80) ? 1 : !(a.ptr[i] & 0x40) ? 2 : 4;
        if (op == 12)
            return true;
    }
    return false;
}

/* A first row with no line change before it has the line of the declaration. llvm-symbolizer 19
 * gives it the next row's instead. */
static bool is_declaration_row(const pdb_module *m, const frame *f)
{
    pdb_inline_reader r = pdb_inline_rows(m, f->site);
    pdb_inline_row row;
    return f->line == m->sites[f->site].line && pdb_inline_next(&r, &row) && row.line == f->line;
}

static bool chain_uses_lengths(const chain *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->frames[i].site != PDB_NONE && uses_lengths(c->module, c->frames[i].site))
            return true;
    return false;
}

/* Are the innermost calls missing, and all others as here? */
static bool is_cut_chain(const lookup *l, const chain *c, const expected *e, size_t count)
{
    if (count == 0 || count >= c->count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const frame *f = &c->frames[i];
        const expected *x = &e[count - 1 - i];
        bool same_name = str_is(f->name, x->name, x->name_len) ||
                         (i == 0 && has_public(l, c->proc, x->name, x->name_len));
        if (!same_name || f->line != x->line || !str_is(f->file, x->file, x->file_len))
            return false;
    }
    return true;
}

static void compare_parsed(const lookup *l, uint32_t rva, const expected *e, size_t count, tally *t)
{
    chain c;
    lookup_chain(l, rva, &c);
    t->addresses++;
    if (c.count == 0) {
        bool nothing = count == 0 || (count == 1 && e[0].file_len == 0);
        t->outside += nothing;
        if (!nothing) {
            t->depths++;
            say("outside", rva, e, count, &c);
        }
        return;
    }
    if (is_cut_chain(l, &c, e, count) && chain_uses_lengths(&c)) {
        t->cut_chains++;
        return;
    }
    if (c.count != count && chain_uses_lengths(&c)) {
        t->by_length++;
        return;
    }
    if (c.count != count) {
        t->depths++;
        say("depth", rva, e, count, &c);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const frame *f = &c.frames[count - 1 - i];
        bool same_name = str_is(f->name, e[i].name, e[i].name_len);
        if (!c.proc) {
            t->unnamed++;
            same_name = true;
        } else if (i + 1 == count && !same_name) {
            same_name = has_public(l, c.proc, e[i].name, e[i].name_len);
        }
        t->frames++;
        if (!same_name) {
            t->names++;
            say("name", rva, e, count, &c);
        }
        if (f->line == e[i].line && str_is(f->file, e[i].file, e[i].file_len))
            continue;
        if (i + 1 == count ? is_first_row(&c, rva, &e[i])
                           : is_first_inline_row(&c, f->site, rva, &e[i])) {
            t->first_rows++;
        } else if (i + 1 == count && is_folded(&c, rva, &e[i])) {
            t->folded++;
        } else if (f->site != PDB_NONE && is_declaration_row(c.module, f)) {
            t->declared++;
        } else if (f->site != PDB_NONE && uses_lengths(c.module, f->site)) {
            t->by_length++;
        } else {
            t->lines++;
            say("line", rva, e, count, &c);
        }
    }
}

static void compare(const lookup *l, uint32_t rva, const char *text, size_t len, tally *t)
{
    expected e[CHAIN_MAX];
    size_t count = len ? parse_chain(text, len, e) : 0;
    compare_parsed(l, rva, e, count, t);
}

static void check_sym(const char *pdb_name, const char *golden, tally *t)
{
    lookup l = lookup_open(pdb_name);
    spgo_span all = test_data_or_skip(golden), left = all;
    size_t len;
    for (const char *line; (line = next_text_line(&left, &len));) {
        if (len == 0 || line[0] == '#')
            continue;
        const char *tab = memchr(line, '\t', len);
        if (!tab)
            continue;
        compare(&l, (uint32_t)strtoul(line, NULL, 16), tab + 1, len - (size_t)(tab + 1 - line), t);
    }
    print_message(
        "%s: %zu addresses, %zu frames compared; %zu unnamed, %zu outside, %zu first "
        "rows, %zu cut, %zu declared, %zu by length; differ: %zu depths, %zu names, %zu lines\n",
        pdb_name, t->addresses, t->frames, t->unnamed, t->outside, t->first_rows, t->cut_chains,
        t->declared, t->by_length, t->depths, t->names, t->lines);
    test_data_free(all);
    lookup_close(&l);
}

/* The whole of each answer is compared, and the exceptions are exactly as many as were looked at
 * one by one. */
static void expect(const tally *t, size_t addresses, size_t frames, size_t exceptions)
{
    assert_int_equal(t->addresses, addresses);
    assert_int_equal(t->frames, frames);
    assert_int_equal(t->depths, 0);
    assert_int_equal(t->names, 0);
    assert_int_equal(t->lines, 0);
    assert_int_equal(t->first_rows + t->folded + t->cut_chains + t->declared + t->by_length,
                     exceptions);
}

static void rust_chains_are_llvms(void **state)
{
    (void)state;
    tally t = {0};
    check_sym("pdb/bs_x64_rust158.pdb", "pdb/golden/bs_x64_rust158.sym.txt", &t);
    expect(&t, 8521, 29978, 52);
}

static void msvc_2013_chains_are_llvms(void **state)
{
    (void)state;
    tally t = {0};
    check_sym("pdb/bp_regtest64.pdb", "pdb/golden/bp_regtest64.sym.txt", &t);
    expect(&t, 4027, 4054, 193);
}

static void msvc_2022_chains_are_llvms(void **state)
{
    (void)state;
    tally t = {0};
    check_sym("pdb/bs_x64_vs2022_incremental.pdb", "pdb/golden/bs_x64_vs2022_incremental.sym.txt",
              &t);
    expect(&t, 653, 533, 62);
}

/* As far as llvm-symbolizer got before it crashed on an imported id. */
static void ltcg_chains_are_llvms(void **state)
{
    (void)state;
    tally t = {0};
    check_sym("pdb/sym_crash.pdb", "pdb/golden/sym_crash.sym.txt", &t);
    expect(&t, 50, 65, 6);
}

/* ------------------------------------------------------------------ own files */

/* "0x140001000: name at file:line[:column]" and " (inlined by) name at file:line". */
static expected parse_own(const char *text, size_t len)
{
    expected e = {.name = text};
    const char *at = NULL;
    for (size_t i = 0; i + 4 <= len; i++)
        if (memcmp(text + i, " at ", 4) == 0)
            at = text + i;
    assert_non_null(at);
    e.name_len = (size_t)(at - text);
    e.file = at + 4;
    const char *end = text + len;
    const char *colon = memchr(e.file, ':', (size_t)(end - e.file));
    assert_non_null(colon);
    e.file_len = (size_t)(colon - e.file);
    if (str_is((spgo_str){e.file, e.file_len}, "??", 2))
        e.file_len = 0;
    char digits[16] = {0};
    memcpy(digits, colon + 1, (size_t)(end - colon - 1) < 15 ? (size_t)(end - colon - 1) : 15);
    e.line = (uint32_t)strtoul(digits, NULL, 10);
    return e;
}

static void check_own(const char *pdb_name, const char *golden, tally *t)
{
    static const char inlined[] = " (inlined by) ";
    lookup l = lookup_open(pdb_name);
    spgo_span all = test_data_or_skip(golden), left = all;
    expected e[CHAIN_MAX];
    size_t len, count = 0;
    uint32_t rva = 0;
    for (const char *line; (line = next_text_line(&left, &len)) || count > 0;) {
        bool more = line && len > sizeof inlined && memcmp(line, inlined, sizeof inlined - 1) == 0;
        if (more) {
            size_t skip = sizeof inlined - 1;
            e[count++] = parse_own(line + skip, len - skip);
            continue;
        }
        if (count > 0)
            compare_parsed(&l, rva, e, count, t);
        count = 0;
        const char *space = line ? memchr(line, ' ', len) : NULL;
        if (!space)
            continue;
        rva = (uint32_t)(strtoull(line, NULL, 16) - 0x140000000u);
        e[count++] = parse_own(space + 1, len - (size_t)(space + 1 - line));
    }
    print_message("%s: %zu addresses, %zu frames compared; %zu first rows; differ: %zu depths, %zu "
                  "names, %zu lines\n",
                  pdb_name, t->addresses, t->frames, t->first_rows, t->depths, t->names, t->lines);
    test_data_free(all);
    lookup_close(&l);
}

static void clang_chains_are_llvms(void **state)
{
    (void)state;
    static const struct {
        const char *pdb, *golden;
        size_t addresses, frames, exceptions;
    } files[] = {
        {"pdb/own/t_4096.pdb", "pdb/own/t_4096.exe.sym.txt", 161, 272, 5},
        {"pdb/own/t_8192.pdb", "pdb/own/t_8192.exe.sym.txt", 161, 272, 5},
        {"pdb/own/t_32768.pdb", "pdb/own/t_32768.exe.sym.txt", 161, 272, 5},
        {"pdb/own/t_noicf.pdb", "pdb/own/t_noicf.exe.sym.txt", 169, 276, 2},
        {"pdb/own/t_cols.pdb", "pdb/own/t_cols.exe.sym.txt", 169, 276, 2},
        {"pdb/own/t_arm64.pdb", "pdb/own/t_arm64.exe.sym.txt", 154, 276, 2},
        {"pdb/own/sl.pdb", "pdb/own/sl.exe.sym.txt", 34, 32, 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tally t = {0};
        check_own(files[i].pdb, files[i].golden, &t);
        expect(&t, files[i].addresses, files[i].frames, files[i].exceptions);
    }
}

/* ------------------------------------------------------------------ symbolic */

/* "> 0x1120: name(parameters) (0x54)" opens a function or an inlined call, indented by its depth;
 * "0x1120: file:line (folder)" is a row of it. The sites of one call stand there once for each run
 * of its code, as here the rows. */
typedef struct snap_tally {
    size_t functions, calls, rows;
} snap_tally;

static size_t name_length(const char *text, size_t len)
{
    /* The parameters: from the '(' whose ')' ends the name, constness behind it apart. */
    int depth = 0;
    for (size_t i = len; i > 0; i--) {
        if (text[i - 1] == ')')
            depth++;
        if (text[i - 1] == '(' && --depth == 0)
            return i - 1;
    }
    return len;
}

static void check_snap_name(const lookup *l, uint32_t rva, size_t depth, const char *text,
                            size_t len, snap_tally *t)
{
    chain c;
    lookup_chain(l, rva, &c);
    const char *paren = text + len - 1;
    while (paren > text && *paren != '(')
        paren--;
    uint32_t size = (uint32_t)strtoul(paren + 1, NULL, 16);
    size_t whole = (size_t)(paren - 1 - text);
    if (depth == 0) {
        assert_int_equal(c.proc->rva, rva);
        assert_int_equal(c.proc->length, size);
        t->functions++;
    } else {
        t->calls++;
    }
    if (depth >= c.count)
        fail_msg("0x%x: no call at depth %zu, where symbolic has %.*s", rva, depth, (int)len, text);
    if (!str_is(c.frames[depth].name, text, name_length(text, whole)))
        fail_msg("0x%x: depth %zu is %.*s, where symbolic has %.*s", rva, depth,
                 (int)c.frames[depth].name.len, c.frames[depth].name.ptr, (int)whole, text);
}

static void check_snap_row(const lookup *l, uint32_t rva, size_t depth, const char *text,
                           size_t len, snap_tally *t)
{
    chain c;
    lookup_chain(l, rva, &c);
    const char *colon = memchr(text, ':', len);
    assert_non_null(colon);
    size_t name_len = (size_t)(colon - text);
    uint32_t line = (uint32_t)strtoul(colon + 1, NULL, 10);
    t->rows++;
    if (depth >= c.count)
        fail_msg("0x%x: no call at depth %zu, where symbolic has %.*s", rva, depth, (int)len, text);
    const frame *f = &c.frames[depth];
    bool same_file =
        f->file.len > name_len && memcmp(f->file.ptr + f->file.len - name_len, text, name_len) == 0;
    if (f->line != line || !same_file)
        fail_msg("0x%x: depth %zu is %.*s:%u, where symbolic has %.*s", rva, depth,
                 (int)f->file.len, f->file.ptr, f->line, (int)len, text);
}

/* Imported inlinee ids, rows of every kind: what llvm-symbolizer cannot answer for. */
static void ltcg_calls_are_symbolics(void **state)
{
    (void)state;
    lookup l = lookup_open("pdb/sym_crash.pdb");
    spgo_span all = test_data_or_skip("pdb/golden/sym_crash.symbolic_functions.snap"), left = all;
    snap_tally t = {0};
    size_t len;
    for (const char *line; (line = next_text_line(&left, &len));) {
        size_t indent = 0;
        while (indent < len && line[indent] == ' ')
            indent++;
        bool opens = len > indent && line[indent] == '>';
        const char *text = line + indent + (opens ? 2 : 0);
        size_t rest = len - indent - (opens ? 2 : 0);
        if (rest < 5 || text[0] != '0' || text[1] != 'x')
            continue;
        uint32_t rva = (uint32_t)strtoul(text, NULL, 16);
        const char *space = memchr(text, ' ', rest);
        assert_non_null(space);
        size_t depth = opens ? indent / 2 : indent / 2 - 1;
        size_t text_len = rest - (size_t)(space + 1 - text);
        if (opens)
            check_snap_name(&l, rva, depth, space + 1, text_len, &t);
        else
            check_snap_row(&l, rva, depth, space + 1, text_len, &t);
    }
    assert_int_equal(t.functions, 10);
    assert_int_equal(t.calls, 78);
    assert_int_equal(t.rows, 290);
    print_message("sym_crash: %zu functions, %zu inlined calls, %zu rows as symbolic has them\n",
                  t.functions, t.calls, t.rows);
    test_data_free(all);
    lookup_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rust_chains_are_llvms),      cmocka_unit_test(msvc_2013_chains_are_llvms),
        cmocka_unit_test(msvc_2022_chains_are_llvms), cmocka_unit_test(ltcg_chains_are_llvms),
        cmocka_unit_test(clang_chains_are_llvms),     cmocka_unit_test(ltcg_calls_are_symbolics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
