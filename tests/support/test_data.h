/* Shared by all unit tests: finding data, and cmocka with what it wants included before it. */
#ifndef TEST_DATA_H
#define TEST_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <spgo/types.h>

/* The bytes of a file of the real-data folder ("etl/x.etl"; SPGO_TEST_DATA, normally
 * ../shared/data), malloc'd; calls skip() when it is absent. */
spgo_span test_data_or_skip(const char *name);

/* The same for a file of the project ("tests/..."); fails the test when absent. */
spgo_span test_project_file(const char *name);

void test_data_free(spgo_span s);

#endif
