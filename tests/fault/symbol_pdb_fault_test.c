/*
 * Memory that gives out while a PDB is opened, listed and flattened: the n-th allocation fails, for
 * every n until a run gets through. No crash, no leak (as the sanitizers see it), and SPGO_NOMEM
 * where something failed because of it.
 */
#include "../unit/pdb_build.h"

#include <symbol/symbol_internal.h>

/* ------------------------------------------------------------------ the allocator */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool is_armed, is_lasting; /* lasting: all later ones fail as well */
static long countdown;

static bool fails(void)
{
    if (!is_armed)
        return false;
    countdown--;
    return countdown == 0 || (countdown < 0 && is_lasting);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

/* ------------------------------------------------------------------ one run */

typedef struct outcome {
    spgo_code open, procedures, unit;
    size_t procedure_count, run_count;
} outcome;

static outcome run(symbol_image *image)
{
    outcome o = {SPGO_OK, SPGO_OK, SPGO_OK, 0, 0};
    symbols_opts opts = {0};
    symbol_backend backend;
    symbol_found found = {0};
    symbol_unit unit = {0};
    diag d = {0};
    o.open = symbol_pdb_open(image, &opts, &backend, &d, NULL);
    if (o.open != SPGO_OK)
        return o;
    o.unit = backend.read_unit(backend.self, 0, &unit, image->mem, &d, NULL);
    o.procedures = backend.procedures(backend.self, &found, image->mem, &d, NULL);
    o.procedure_count = found.count;
    o.run_count = unit.run_count;
    backend.close(backend.self);
    free(found.procedures);
    return o;
}

static outcome run_with_fault(spgo_span file, long n, bool lasting, bool *reached)
{
    intern names = {0};
    symbol_image image = {.debug = file, .mem = arena_new(0), .names = &names};
    assert_non_null(image.mem);
    countdown = n;
    is_lasting = lasting;
    is_armed = true;
    outcome o = run(&image);
    is_armed = false;
    *reached = countdown <= 0;
    arena_free(image.mem);
    intern_free(&names);
    return o;
}

static bool is_ok_or_nomem(spgo_code code)
{
    return code == SPGO_OK || code == SPGO_NOMEM;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    build b = build_streams(512);
    b.scattered = true; /* so that streams are copied */
    build_settle(&b);
    bytes file = build_file(&b);
    for (int lasting = 0; lasting < 2; lasting++) {
        bool reached = true;
        long n = 0;
        while (reached) {
            outcome o = run_with_fault(bytes_span(&file), ++n, lasting, &reached);
            assert_true(is_ok_or_nomem(o.open) && is_ok_or_nomem(o.procedures) &&
                        is_ok_or_nomem(o.unit));
            if (lasting && reached)
                assert_true(o.open || o.procedures || o.unit);
            if (!o.open && !o.procedures)
                assert_int_equal(o.procedure_count, 5);
            if (!o.open && !o.unit)
                assert_int_equal(o.run_count, 12);
        }
        assert_true(n > 40);
    }
    bytes_free(&file);
    build_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
