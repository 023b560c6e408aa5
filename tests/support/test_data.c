/* Finding test data: see test_data.h. */
#include "test_data.h"

#include <stdio.h>
#include <stdlib.h>

static spgo_span read_whole(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return (spgo_span){NULL, 0};
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, f), size);
    fclose(f);
    return (spgo_span){data, (size_t)size};
}

static const char *directory(const char *variable, const char *otherwise)
{
    const char *value = getenv(variable);
    return value ? value : otherwise;
}

spgo_span test_data_or_skip(const char *name)
{
    spgo_span s = read_whole(directory("SPGO_TEST_DATA", "../shared/data"), name);
    if (!s.ptr) {
        print_message("skipped: no %s in the real-data folder\n", name);
        skip();
    }
    return s;
}

spgo_span test_project_file(const char *name)
{
    spgo_span s = read_whole(directory("SPGO_SOURCE_DIR", "."), name);
    if (!s.ptr)
        fail_msg("%s is missing", name);
    return s;
}

void test_data_free(spgo_span s)
{
    free((void *)(uintptr_t)s.ptr);
}
