/*
 * Chains of inlined calls, address by address, against those that llvm-symbolizer 19 printed of the
 * same files. Where the two differ it is for one of these reasons, and the numbers are exact:
 *
 * - outside: in padding, also that before assembler code, llvm-symbolizer repeats the symbol or the
 *   line before it. Nothing is there, and nothing is said here.
 * - special: lines 0xfeefee and 0xf00f00 tell debuggers what to skip. They are no lines of source.
 * - lines: of several rows at one address llvm-symbolizer takes the first from a PDB, here as from
 *   DWARF the last counts; and it mistakes the lines around rows that have their own length.
 *   Sentry's symbolic agrees with the lines here (the tests of the PDB reader compare them).
 * - cut: llvm-symbolizer loses the innermost calls, by the same mistake about lengths.
 */
#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <symbol/symbol.h>

enum { CHAIN_MAX = 64 };

typedef struct expected {
    spgo_str name, file;
    uint64_t line;
} expected;

typedef struct tally {
    size_t addresses, same;
    size_t outside, special, lines, cut;
    size_t wrong; /* none of these: there must be none */
} tally;

typedef struct golden_file {
    const char *image, *golden;
    uint64_t base;        /* subtracted from its addresses */
    uint64_t first, last; /* only these of its addresses; last 0: all */
    tally counts;
} golden_file;

/* ------------------------------------------------------------------ reading the answers */

static bool take_line(spgo_span *text, spgo_str *line)
{
    if (text->len == 0)
        return false;
    const uint8_t *end = memchr(text->ptr, '\n', text->len);
    size_t len = end ? (size_t)(end - text->ptr) : text->len;
    *line = (spgo_str){(const char *)text->ptr, len};
    size_t whole = len + (end != NULL);
    *text = (spgo_span){text->ptr + whole, text->len - whole};
    if (line->len > 0 && line->ptr[line->len - 1] == '\r')
        line->len--;
    return true;
}

/* The last place of a separator, or SIZE_MAX. */
static size_t find_last(spgo_str s, const char *separator)
{
    size_t n = strlen(separator);
    for (size_t i = s.len; i-- > 0;)
        if (s.len - i >= n && memcmp(s.ptr + i, separator, n) == 0)
            return i;
    return SIZE_MAX;
}

static spgo_str unknown_is_empty(spgo_str s)
{
    return text_equal(s, text_str("??")) ? (spgo_str){0} : s;
}

/* "name at file:line", "name @ file:line", with a remark behind it or not. */
static expected parse_frame(spgo_str s, const char *at)
{
    size_t place = find_last(s, at);
    assert_true(place != SIZE_MAX);
    size_t skip = strlen(at);
    expected e = {.name = unknown_is_empty((spgo_str){s.ptr, place})};
    spgo_str rest = {s.ptr + place + skip, s.len - place - skip};
    size_t colon = find_last(rest, ":");
    assert_true(colon != SIZE_MAX);
    e.line = strtoull(rest.ptr + colon + 1, NULL, 10);
    e.file = unknown_is_empty((spgo_str){rest.ptr, colon});
    return e;
}

static size_t parse_chain(spgo_str s, expected out[CHAIN_MAX])
{
    size_t count = 0;
    while (s.len > 0) {
        size_t len = 0;
        while (len < s.len && (s.len - len < 4 || memcmp(s.ptr + len, " <- ", 4) != 0))
            len++;
        assert_true(count < CHAIN_MAX);
        out[count++] = parse_frame((spgo_str){s.ptr, len}, " @ ");
        size_t skip = len < s.len ? len + 4 : len;
        s = (spgo_str){s.ptr + skip, s.len - skip};
    }
    return count;
}

/* ------------------------------------------------------------------ comparing */

static bool is_name_of(symbols *s, uint32_t rva, const symbol_frame *f, spgo_str name)
{
    if (!f->function)
        return name.len == 0;
    if (text_equal(f->function->name, name) || text_equal(f->function->linkage_name, name))
        return true;
    const symbol_procedure *p = f->caller ? NULL : symbols_procedure_at(s, rva);
    size_t count;
    const spgo_str *others = p ? symbols_other_names(s, p, &count) : NULL;
    if (!p)
        return false;
    for (size_t i = 0; i < count; i++)
        if (text_equal(others[i], name))
            return true;
    return text_equal(p->name, name);
}

static bool is_special_line(uint64_t line)
{
    return line == 0xfeefee || line == 0xf00f00;
}

static bool is_padding(const expected *e, size_t count)
{
    if (count != 1 || e[0].name.len == 0 || e[0].file.len == 0)
        return count < 2;
    return text_match(text_str("*.asm"), e[0].file);
}

/* Are the chain's outer calls those that are expected, in their files? */
static bool is_cut(const symbol_frame *leaf, size_t depth, const expected *e, size_t count)
{
    if (count == 0 || count >= depth)
        return false;
    size_t i = 0;
    for (const symbol_frame *f = leaf; f; f = f->caller, i++)
        if (i + count >= depth && !text_equal(f->file, e[i + count - depth].file))
            return false;
    return true;
}

static void compare(symbols *s, uint32_t rva, const expected *e, size_t count, tally *t)
{
    symbol_run run;
    t->addresses++;
    if (symbols_run_at(s, rva, &run, NULL) != SPGO_OK) {
        bool here_as_there = count == 0 || (e[0].name.len == 0 && e[0].file.len == 0);
        *(here_as_there ? &t->same : is_padding(e, count) ? &t->outside : &t->wrong) += 1;
        return;
    }
    assert_true(run.begin_rva <= rva && rva < run.end_rva);
    bool names = true, lines = true, special = false;
    size_t depth = 0;
    for (const symbol_frame *f = run.leaf; f; f = f->caller, depth++) {
        if (depth >= count)
            continue;
        names &= is_name_of(s, rva, f, e[depth].name);
        special |= is_special_line(e[depth].line) && f->line == 0;
        lines &= f->line == e[depth].line &&
                 (e[depth].file.len == 0 || text_equal(f->file, e[depth].file));
    }
    if (depth != count) {
        *(is_cut(run.leaf, depth, e, count) ? &t->cut : &t->wrong) += 1;
        return;
    }
    *(special ? &t->special : !names ? &t->wrong : !lines ? &t->lines : &t->same) += 1;
}

/* "1a2b<tab>chain": a table of where the answer changes. */
static void compare_table(symbols *s, spgo_span text, tally *t)
{
    expected e[CHAIN_MAX];
    for (spgo_str line; take_line(&text, &line);) {
        const char *tab = line.len ? memchr(line.ptr, '\t', line.len) : NULL;
        if (!tab || line.ptr[0] == '#')
            continue;
        spgo_str chain = {tab + 1, line.len - (size_t)(tab + 1 - line.ptr)};
        size_t count = parse_chain(chain, e);
        compare(s, (uint32_t)strtoul(line.ptr, NULL, 16), e, count, t);
    }
}

/* "0x140001000: frame", and " (inlined by) frame" for each caller: every instruction. */
static void compare_listing(symbols *s, const golden_file *g, spgo_span text, tally *t)
{
    static const char inlined[] = " (inlined by) ";
    enum { SKIP = sizeof inlined - 1 };
    expected e[CHAIN_MAX];
    size_t count = 0;
    uint64_t address = 0;
    for (bool more = true; more;) {
        spgo_str line;
        more = take_line(&text, &line);
        if (more && line.len > SKIP && memcmp(line.ptr, inlined, SKIP) == 0) {
            assert_true(count < CHAIN_MAX);
            e[count++] = parse_frame((spgo_str){line.ptr + SKIP, line.len - SKIP}, " at ");
            continue;
        }
        if (count > 0 && (g->last == 0 || (address >= g->first && address < g->last)))
            compare(s, (uint32_t)(address - g->base), e, count, t);
        const char *colon = more && line.len ? memchr(line.ptr, ':', line.len) : NULL;
        count = 0;
        if (!colon)
            continue;
        address = strtoull(line.ptr, NULL, 16);
        size_t skip = (size_t)(colon - line.ptr) + 2;
        e[count++] = parse_frame((spgo_str){line.ptr + skip, line.len - skip}, " at ");
    }
}

static void check(const golden_file *g)
{
    char path[4096];
    const char *folder = getenv("SPGO_TEST_DATA");
    spgo_span golden = test_data_or_skip(g->golden);
    test_data_free(test_data_or_skip(g->image));
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "../shared/data", g->image);
    symbols_opts opts = {.image_path = path};
    spgo_error err = {0};
    symbols *s;
    diag d = {0};
    tally t = {0};
    if (symbols_open(&opts, &s, &d, &err) != SPGO_OK)
        fail_msg("%s: %s", g->image, err.sentence);
    if (golden.ptr[0] == '#')
        compare_table(s, golden, &t);
    else
        compare_listing(s, g, golden, &t);
    symbols_close(s);
    test_data_free(golden);
    print_message("%s: %zu addresses, %zu same, %zu outside, %zu special, %zu lines, %zu cut, "
                  "%zu wrong\n",
                  g->image, t.addresses, t.same, t.outside, t.special, t.lines, t.cut, t.wrong);
    assert_memory_equal(&t, &g->counts, sizeof t);
}

static void pdb_chains_are_llvms(void **state)
{
    (void)state;
    static const golden_file files[] = {
        {"pdb/bs_x64_rust158.exe",
         "pdb/golden/bs_x64_rust158.sym.txt",
         0,
         0,
         0,
         {8521, 8106, 363, 0, 49, 3, 0}},
        {"pdb/bp_regtest64.exe",
         "pdb/golden/bp_regtest64.sym.txt",
         0,
         0,
         0,
         {4027, 3665, 173, 0, 111, 78, 0}},
        {"pdb/bs_x64_vs2022_incremental.exe",
         "pdb/golden/bs_x64_vs2022_incremental.sym.txt",
         0,
         0,
         0,
         {653, 495, 95, 1, 48, 14, 0}},
        /* As far as llvm-symbolizer came before it crashed on a call of another module. */
        {"pdb/sym_crash.exe", "pdb/golden/sym_crash.sym.txt", 0, 0, 0, {50, 41, 3, 0, 1, 5, 0}},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check(&files[i]);
}

static void clang_pdb_chains_are_llvms(void **state)
{
    (void)state;
    static const golden_file files[] = {
        {"pdb/own/t_4096.exe",
         "pdb/own/t_4096.exe.sym.txt",
         0x140000000,
         0,
         0,
         {161, 141, 15, 0, 5, 0, 0}},
        {"pdb/own/t_8192.exe",
         "pdb/own/t_8192.exe.sym.txt",
         0x140000000,
         0,
         0,
         {161, 141, 15, 0, 5, 0, 0}},
        {"pdb/own/t_32768.exe",
         "pdb/own/t_32768.exe.sym.txt",
         0x140000000,
         0,
         0,
         {161, 141, 15, 0, 5, 0, 0}},
        {"pdb/own/t_noicf.exe",
         "pdb/own/t_noicf.exe.sym.txt",
         0x140000000,
         0,
         0,
         {169, 148, 19, 0, 2, 0, 0}},
        {"pdb/own/t_cols.exe",
         "pdb/own/t_cols.exe.sym.txt",
         0x140000000,
         0,
         0,
         {169, 148, 19, 0, 2, 0, 0}},
        {"pdb/own/t_arm64.exe",
         "pdb/own/t_arm64.exe.sym.txt",
         0x140000000,
         0,
         0,
         {154, 152, 0, 0, 2, 0, 0}},
        {"pdb/own/sl.exe", "pdb/own/sl.exe.sym.txt", 0x140000000, 0, 0, {34, 24, 10, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check(&files[i]);
}

/* The answers for the ELF files are of the same object in a program that another linker made: its
 * code stands 0x650 bytes further on here. */
static void dwarf_chains_are_llvms(void **state)
{
    (void)state;
    if (!SPGO_HAVE_DWARF)
        skip();
    static const golden_file files[] = {
        {"pdb/own/t_dwarf.exe",
         "pdb/own/t_dwarf.exe.sym.txt",
         0x140000000,
         0,
         0,
         {169, 150, 19, 0, 0, 0, 0}},
        {"pdb/own/t_elf",
         "pdb/own/t_elf.sym.txt",
         -(uint64_t)0x650,
         0x1130,
         0x1354,
         {155, 151, 4, 0, 0, 0, 0}},
        {"pdb/own/t_elf_fs",
         "pdb/own/t_elf_fs.sym.txt",
         -(uint64_t)0x650,
         0x1130,
         0x1354,
         {155, 151, 4, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check(&files[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pdb_chains_are_llvms),
        cmocka_unit_test(clang_pdb_chains_are_llvms),
        cmocka_unit_test(dwarf_chains_are_llvms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
