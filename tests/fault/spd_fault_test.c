/*
 * Memory that gives out while an SPD is opened, verified, recomputed and written: the n-th
 * allocation fails, for every n until a run gets through. No crash, no leak (as the sanitizers see
 * it), and SPGO_NOMEM from what failed.
 */
#include "../unit/spd_check.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long countdown; /* 0: nothing fails */

static bool fails(void)
{
    return countdown > 0 && --countdown == 0;
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

/* The code of the first step that failed. */
static spgo_code run(spgo_span file)
{
    spd *doc = NULL;
    spd_verdict verdict;
    bytes out = {0};
    spgo_error err = {0};
    spgo_code code = spd_open(file, 0, &doc, &err);
    if (code == SPGO_OK)
        code = spd_verify(doc, NULL, NULL, &verdict, &err);
    if (code == SPGO_OK)
        code = spd_recompute(doc, &err);
    if (code == SPGO_OK)
        code = spd_write(doc, bytes_sink(&out), &err);
    if (code == SPGO_IO && out.failed) /* the sink of the test had no memory */
        code = SPGO_NOMEM;
    assert_int_equal(err.code == SPGO_IO ? SPGO_NOMEM : err.code, code);
    if (code == SPGO_OK)
        assert_int_equal(out.len, file.len);
    bytes_free(&out);
    spd_free(doc);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const names[] = {"modules", "strange", "random"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bytes b = built_bytes(names[i]);
        long n = 0;
        spgo_code code = SPGO_NOMEM;
        while (code != SPGO_OK) {
            countdown = ++n;
            code = run(bytes_span(&b));
            bool was_reached = countdown == 0;
            countdown = 0;
            assert_int_equal(code, was_reached ? SPGO_NOMEM : SPGO_OK);
        }
        assert_true(n > 10);
        bytes_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
