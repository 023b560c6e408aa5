/* How procedures of several sources become one table. */
#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/text.h>
#include <symbol/procedures.h>

/* Code in [0x1000, 0x2000) and [0x3000, 0x3100). */
typedef struct fixture {
    symbol_image image;
    code_segment segments[3];
    symbol_found backend, tables;
    procedure_table table;
} fixture;

static const uint8_t zeros[0x1000];

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->segments[0] = (code_segment){0x1000, {zeros, 0x1000}, true};
    f->segments[1] = (code_segment){0x2000, {zeros, 0x1000}, false};
    f->segments[2] = (code_segment){0x3000, {zeros, 0x100}, true};
    f->image.code = (code_image){CODE_X64, 0, f->segments, 3};
    f->image.mem = arena_new(0);
    assert_non_null(f->image.mem);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    arena_free(f->image.mem);
    free(f->backend.procedures);
    free(f->tables.procedures);
    free(f);
    return 0;
}

static void add(fixture *f, symbol_found *list, const char *name, uint32_t entry, uint32_t flags,
                const flow_extent *pieces, size_t count)
{
    flow_extent *kept = arena_push(f->image.mem, count, sizeof *kept);
    assert_non_null(kept);
    if (count > 0)
        memcpy(kept, pieces, count * sizeof *kept);
    symbol_procedure p = {.entry_rva = entry,
                          .name = text_str(name),
                          .pieces = kept,
                          .piece_count = (uint32_t)count,
                          .flags = flags,
                          .thunk_target_rva = UINT32_MAX};
    assert_true(symbol_found_add(list, &p));
}

#define PIECES(...)                                                                                \
    (const flow_extent[]){__VA_ARGS__},                                                            \
        sizeof((const flow_extent[]){__VA_ARGS__}) / sizeof(flow_extent)

static void build(fixture *f)
{
    spgo_error err = {0};
    if (procedure_table_build(&f->image, &f->backend, &f->tables, &f->table, &err) != SPGO_OK)
        fail_msg("%s", err.sentence);
}

/* The table as text: "name entry: begin-end begin-end; ...". */
static void expect(const fixture *f, const char *text)
{
    char all[1024] = "";
    for (size_t i = 0; i < f->table.count; i++) {
        const symbol_procedure *p = &f->table.rows[i];
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%.*s %x%s:", i ? "; " : "", (int)p->name.len,
                 p->name.ptr, (unsigned)p->entry_rva, p->flags & SYMBOL_SIZE_GUESSED ? "?" : "");
        for (uint32_t k = 0; k < p->piece_count; k++) {
            at = strlen(all);
            snprintf(all + at, sizeof all - at, " %x-%x", (unsigned)p->pieces[k].begin_rva,
                     (unsigned)p->pieces[k].end_rva);
        }
    }
    assert_string_equal(all, text);
}

static void procedures_are_sorted_by_entry(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "b", 0x1200, 0, PIECES({0x1200, 0x1210}));
    add(f, &f->tables, "c", 0x3000, 0, PIECES({0x3000, 0x3010}));
    add(f, &f->backend, "a", 0x1000, 0, PIECES({0x1000, 0x1010}));
    build(f);
    expect(f, "a 1000: 1000-1010; b 1200: 1200-1210; c 3000: 3000-3010");
}

static void pieces_are_sorted_joined_and_cut_to_code(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "a", 0x1800, 0,
        PIECES({0x1800, 0x1900}, {0x1880, 0x1a00}, {0x1f00, 0x3010}, {0x1100, 0x1100}));
    build(f);
    expect(f, "a 1800: 1800-1a00 1f00-2000 3000-3010");
}

static void what_is_no_code_is_left_out(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "data", 0x2000, 0, PIECES({0x2000, 0x2010}));
    add(f, &f->backend, "nowhere", 0x9000, 0, PIECES({0x9000, 0x9010}));
    add(f, &f->backend, "beside", 0x1000, 0, PIECES({0x1100, 0x1200})); /* its entry */
    build(f);
    expect(f, "");
}

static void equal_entries_fold_and_keep_all_names(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "z", 0x1000, 0, PIECES({0x1000, 0x1010}));
    add(f, &f->backend, "m", 0x1000, SYMBOL_NO_RETURN, PIECES({0x1000, 0x1010}));
    add(f, &f->tables, "a", 0x1000, 0, PIECES({0x1000, 0x1010}));
    add(f, &f->tables, "z", 0x1000, 0, PIECES({0x1000, 0x1010}));
    build(f);
    expect(f, "m 1000: 1000-1010");
    assert_int_equal(f->table.rows[0].flags, SYMBOL_FOLDED | SYMBOL_NO_RETURN);
    assert_int_equal(f->table.others[0].count, 2);
    assert_true(text_equal(f->table.others[0].names[0], text_str("a")));
    assert_true(text_equal(f->table.others[0].names[1], text_str("z")));
}

static void one_name_from_two_sources_is_not_folded(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "a", 0x1000, 0, PIECES({0x1000, 0x1010}));
    add(f, &f->tables, "a", 0x1000, 0, PIECES({0x1000, 0x1010}));
    build(f);
    assert_int_equal(f->table.rows[0].flags, 0);
    assert_int_equal(f->table.others[0].count, 0);
}

static void a_name_and_an_extent_of_two_sources_meet(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "public", 0x1000, SYMBOL_SIZE_GUESSED, PIECES({0x1000, 0x1800}));
    add(f, &f->tables, "", 0x1000, 0, PIECES({0x1000, 0x1040}));
    build(f);
    expect(f, "public 1000: 1000-1040");
}

static void exact_extents_go_before_guesses(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "public", 0x1000, SYMBOL_SIZE_GUESSED, PIECES({0x1000, 0x1800}));
    add(f, &f->tables, "", 0x1100, 0, PIECES({0x1100, 0x1140}));
    build(f);
    expect(f, "public 1000?: 1000-1100 1140-1800;  1100: 1100-1140");
}

static void labels_inside_of_procedures_are_none(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "a", 0x1000, 0, PIECES({0x1000, 0x1010}, {0x1800, 0x1810}));
    add(f, &f->tables, "a.cold", 0x1800, 0, PIECES({0x1800, 0x1810}));
    add(f, &f->tables, "label", 0x1008, SYMBOL_SIZE_GUESSED, PIECES({0x1008, 0x1100}));
    add(f, &f->tables, "next", 0x1010, 0, PIECES({0x100c, 0x1020}));
    build(f);
    expect(f, "a 1000: 1000-1010 1800-1810; next 1010: 1010-1020");
}

static void unknown_sizes_end_at_the_next_procedure(void **state)
{
    fixture *f = *state;
    add(f, &f->tables, "a", 0x1000, 0, NULL, 0);
    add(f, &f->tables, "b", 0x1100, 0, PIECES({0x1100, 0x1110}));
    add(f, &f->tables, "c", 0x1f00, 0, NULL, 0);
    build(f);
    expect(f, "a 1000?: 1000-1100; b 1100: 1100-1110; c 1f00?: 1f00-2000");
}

static void overlapping_pieces_are_found_by_the_last_start(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "a", 0x1000, 0, PIECES({0x1000, 0x1100}));
    add(f, &f->backend, "b", 0x1080, 0, PIECES({0x1080, 0x1090}));
    build(f);
    assert_int_equal(f->table.piece_count, 2);
    assert_int_equal(f->table.pieces[procedure_piece_at(&f->table, 0x107f)].procedure, 0);
    assert_int_equal(f->table.pieces[procedure_piece_at(&f->table, 0x1080)].procedure, 1);
    assert_true(procedure_piece_at(&f->table, 0x1090) == SIZE_MAX);
}

static void thunks_to_what_never_returns_do_not_return(void **state)
{
    fixture *f = *state;
    add(f, &f->backend, "thunk", 0x1000, SYMBOL_THUNK, PIECES({0x1000, 0x1005}));
    f->backend.procedures[0].thunk_target_rva = 0x1100;
    add(f, &f->backend, "exit", 0x1100, 0, PIECES({0x1100, 0x1110}));
    add(f, &f->backend, "plain", 0x1200, SYMBOL_THUNK, PIECES({0x1200, 0x1205}));
    build(f);
    assert_int_equal(f->table.no_return_count, 2);
    assert_int_equal(f->table.no_return[0], 0x1000);
    assert_int_equal(f->table.no_return[1], 0x1100);
}

static void library_names_never_return(void **state)
{
    (void)state;
    static const char *const names[] = {"abort",
                                        "abort@plt",
                                        "exit@@GLIBC_2.2.5",
                                        "_CxxThrowException",
                                        "thrd_exit",
                                        "?terminate@@YAXXZ",
                                        "_ZSt20__throw_length_errorPKc",
                                        "?_Xlength_error@std@@YAXPEBD@Z",
                                        "_ZN4core9panicking5panic17h0123456789abcdefE"};
    static const char *const others[] = {"",
                                         "@",
                                         "abort_later",
                                         "aborts",
                                         "abor",
                                         "main",
                                         "_ZSt20__throw",
                                         "_ZSt__throw_x",
                                         "?abort@@YAXXZ"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!procedure_name_never_returns(text_str(names[i])))
            fail_msg("%s", names[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (procedure_name_never_returns(text_str(others[i])))
            fail_msg("%s", others[i]);
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(procedures_are_sorted_by_entry),
        WITH(pieces_are_sorted_joined_and_cut_to_code),
        WITH(what_is_no_code_is_left_out),
        WITH(equal_entries_fold_and_keep_all_names),
        WITH(one_name_from_two_sources_is_not_folded),
        WITH(a_name_and_an_extent_of_two_sources_meet),
        WITH(exact_extents_go_before_guesses),
        WITH(labels_inside_of_procedures_are_none),
        WITH(unknown_sizes_end_at_the_next_procedure),
        WITH(overlapping_pieces_are_found_by_the_last_start),
        WITH(thunks_to_what_never_returns_do_not_return),
        WITH(library_names_never_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
