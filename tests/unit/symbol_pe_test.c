/* Procedures of PE images without debug information. */
#include "pdb_lookup.h"
#include "pe_build.h"

#include <base/text.h>
#include <symbol/symbol_internal.h>

typedef struct listed {
    symbol_image image;
    intern names;
    symbol_found found;
    diag d;
} listed;

static listed *list_image(spgo_span file)
{
    listed *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->image = (symbol_image){.bytes = file, .is_pe = true, .names = &l->names};
    l->image.mem = arena_new(0);
    spgo_error err = {0};
    if (pe_open(file, PE_LAYOUT_FILE, &l->image.pe, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
    spgo_code code = symbol_pe_procedures(&l->image, &l->found, &l->d, &err);
    if (code != SPGO_OK && code != SPGO_NOT_FOUND)
        fail_msg("%s", err.sentence);
    assert_int_equal(code == SPGO_NOT_FOUND, l->found.count == 0);
    return l;
}

static void free_listed(listed *l)
{
    free(l->found.procedures);
    arena_free(l->image.mem);
    intern_free(&l->names);
    free(l);
}

static const symbol_procedure *find_procedure(const listed *l, uint32_t entry, const char *name)
{
    for (size_t i = 0; i < l->found.count; i++) {
        const symbol_procedure *p = &l->found.procedures[i];
        if (p->entry_rva == entry && text_equal(p->name, text_str(name)))
            return p;
    }
    fail_msg("there is no %s at 0x%x", name, entry);
    return NULL;
}

static void check_piece(const symbol_procedure *p, uint32_t i, uint32_t begin, uint32_t end)
{
    assert_true(i < p->piece_count);
    assert_int_equal(p->pieces[i].begin_rva, begin);
    assert_int_equal(p->pieces[i].end_rva, end);
}

/* Names in the middle of a function are no functions. */
static void names_and_pieces_come_together(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    listed *l = list_image(bytes_span(&b));
    assert_int_equal(l->found.count, 2);
    const symbol_procedure *p = find_procedure(l, 0x1000, "f");
    assert_int_equal(p->piece_count, 3);
    check_piece(p, 0, 0x1000, 0x1018);
    check_piece(p, 1, 0x1020, 0x1028);
    check_piece(p, 2, 0x1030, 0x1034);
    assert_int_equal(p->flags, SYMBOL_SIZE_GUESSED);
    assert_int_equal(p->thunk_target_rva, UINT32_MAX);
    check_piece(find_procedure(l, 0x1018, ""), 0, 0x1018, 0x101c);
    free_listed(l);
    bytes_free(&b);
}

/* Leaf functions are in no unwind table: they reach to the next name, table row or section end. */
static void leaves_reach_to_what_follows(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u32(&b, AT_SYMBOLS + 36 + 8, 0x28);          /* eightchr */
    bytes_set_u32(&b, AT_SYMBOLS + 54 + 8, 0x40);          /* a_long_symbol */
    bytes_set_u32(&b, at_rva(RVA_EXPORTS) + 0x28, 0x102c); /* f */
    listed *l = list_image(bytes_span(&b));
    assert_int_equal(l->found.count, 5);
    check_piece(find_procedure(l, 0x1028, "eightchr"), 0, 0x1028, 0x102c);
    check_piece(find_procedure(l, 0x102c, "f"), 0, 0x102c, 0x1030);
    check_piece(find_procedure(l, 0x1040, "a_long_symbol"), 0, 0x1040, 0x1800);
    assert_int_equal(find_procedure(l, 0x1000, "")->piece_count, 3);
    free_listed(l);
    bytes_free(&b);
}

static void two_names_of_one_address(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u32(&b, AT_SYMBOLS + 36 + 8, 0); /* eightchr, where f is */
    listed *l = list_image(bytes_span(&b));
    assert_int_equal(l->found.count, 3);
    assert_ptr_equal(find_procedure(l, 0x1000, "f")->pieces,
                     find_procedure(l, 0x1000, "eightchr")->pieces);
    free_listed(l);
    bytes_free(&b);
}

/* 32-bit images have no unwind tables, and that is no finding. */
static void an_image_of_32_bits(void **state)
{
    (void)state;
    bytes b = build_pe(false, PE_MACHINE_I386);
    put_directory(&b, false, PE_DIRECTORY_EXCEPTION, 0, 0);
    listed *l = list_image(bytes_span(&b));
    assert_int_equal(l->found.count, 3);
    check_piece(find_procedure(l, 0x1000, "f"), 0, 0x1000, 0x1010);
    check_piece(find_procedure(l, 0x1010, "eightchr"), 0, 0x1010, 0x1020);
    assert_int_equal(l->d.total, 0);
    free_listed(l);
    bytes_free(&b);
}

static void arm64_pieces(void **state)
{
    (void)state;
    bytes b = build_arm64();
    listed *l = list_image(bytes_span(&b));
    const symbol_procedure *p = find_procedure(l, 0x1000, "f");
    check_piece(p, 0, 0x1000, 0x1018);
    (void)find_procedure(l, 0x1018, "");
    free_listed(l);
    bytes_free(&b);
}

static void damaged_tables_are_findings(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    bytes_set_u32(&b, AT_FILE_HEADER + 8, 0x7fffff00); /* where the symbols are */
    put_directory(&b, true, PE_DIRECTORY_EXPORT, 0x7fffff00, 0x40);
    listed *l = list_image(bytes_span(&b));
    assert_int_equal(l->found.count, 2);
    assert_int_equal(l->d.total, 2);
    free_listed(l);
    bytes_free(&b);
}

static void every_damaged_byte_is_survived(void **state)
{
    (void)state;
    bytes b = build_pe(true, PE_MACHINE_AMD64);
    for (size_t i = 0; i < b.len; i++) {
        b.ptr[i] ^= 0xff;
        pe_image pe;
        if (pe_open(bytes_span(&b), PE_LAYOUT_FILE, &pe, NULL) == SPGO_OK)
            free_listed(list_image(bytes_span(&b)));
        b.ptr[i] ^= 0xff;
    }
    bytes_free(&b);
}

/* Breakpad's symbols of an image without a PDB have one range for each row of .pdata. */
static void unwind_tables_are_breakpads(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("pdb/bp_pe_only_symbol_test.dll");
    spgo_span all = test_data_or_skip("pdb/golden/bp_pe_only_symbol_test.breakpad.sym");
    listed *l = list_image(file);
    static const char prefix[] = "STACK CFI INIT ";
    size_t len, rows = 0;
    spgo_span left = all;
    for (const char *line; (line = next_text_line(&left, &len));) {
        if (len < sizeof prefix || memcmp(line, prefix, sizeof prefix - 1) != 0)
            continue;
        char *size_text;
        uint32_t begin = (uint32_t)strtoul(line + sizeof prefix - 1, &size_text, 16);
        uint32_t end = begin + (uint32_t)strtoul(size_text, NULL, 16);
        bool found = false;
        for (size_t i = 0; i < l->found.count && !found; i++)
            for (uint32_t k = 0; k < l->found.procedures[i].piece_count && !found; k++) {
                const flow_extent *e = &l->found.procedures[i].pieces[k];
                found = begin >= e->begin_rva && end <= e->end_rva;
            }
        if (!found)
            fail_msg("0x%x to 0x%x is in no procedure", begin, end);
        rows++;
    }
    assert_int_equal(rows, 106);
    free_listed(l);
    test_data_free(all);
    test_data_free(file);
}

static const symbol_procedure *procedure_at(const listed *l, uint32_t entry)
{
    for (size_t i = 0; i < l->found.count; i++)
        if (l->found.procedures[i].entry_rva == entry)
            return &l->found.procedures[i];
    fail_msg("nothing starts at 0x%x", entry);
    return NULL;
}

/* mozilla's dump_syms leaves out the first underscore of some names. */
static bool is_named(spgo_str name, spgo_str wanted)
{
    if (name.len == wanted.len + 1 && name.ptr[0] == '_')
        name = (spgo_str){name.ptr + 1, name.len - 1};
    return text_equal(name, wanted);
}

/* COFF symbols name what dump_syms takes from DWARF, and unwind tables have its sizes. */
static void coff_symbols_are_dwarfs(void **state)
{
    (void)state;
    spgo_span file = test_data_or_skip("pdb/moz_basic64-dwarf.dll");
    spgo_span all = test_data_or_skip("pdb/golden/moz_basic64-dwarf.mozdump.sym");
    listed *l = list_image(file);
    size_t len, named = 0, unknown = 0, parts = 0;
    spgo_span left = all;
    for (const char *line; (line = next_text_line(&left, &len));) {
        if (len < 5 || memcmp(line, "FUNC ", 5) != 0)
            continue;
        char *at;
        uint32_t begin = (uint32_t)strtoul(line + 5, &at, 16);
        uint32_t size = (uint32_t)strtoul(at, &at, 16);
        (void)strtoul(at, &at, 16);
        spgo_str wanted = {at + 1, (size_t)(line + len - at - 1)};
        const symbol_procedure *p = procedure_at(l, begin);
        assert_int_equal(p->pieces[0].end_rva - begin, size);
        if (wanted.ptr[0] == '<')
            unknown++;
        else if (is_named(p->name, wanted))
            named++;
        else
            parts += text_equal(p->name, text_str("__mingwthr_run_key_dtors.part.0"));
    }
    assert_int_equal(named, 45);
    assert_int_equal(unknown, 3); /* there, not here */
    assert_int_equal(parts, 1);   /* its DWARF does not say that it is a part */
    free_listed(l);
    test_data_free(all);
    test_data_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_pieces_come_together),
        cmocka_unit_test(leaves_reach_to_what_follows),
        cmocka_unit_test(two_names_of_one_address),
        cmocka_unit_test(an_image_of_32_bits),
        cmocka_unit_test(arm64_pieces),
        cmocka_unit_test(damaged_tables_are_findings),
        cmocka_unit_test(every_damaged_byte_is_survived),
        cmocka_unit_test(unwind_tables_are_breakpads),
        cmocka_unit_test(coff_symbols_are_dwarfs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
