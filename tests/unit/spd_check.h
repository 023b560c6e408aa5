/* What the tests of SPD share. */
#ifndef SPD_CHECK_H
#define SPD_CHECK_H

#include "test_data.h"

#include <stdlib.h>
#include <string.h>

#include "spd_build.h"

static inline spd *built(const char *name)
{
    spd *doc = spd_build(name, 1);
    assert_non_null(doc);
    return doc;
}

static inline bytes built_bytes(const char *name)
{
    spd *doc = built(name);
    bytes b = spd_built_bytes(doc);
    spd_free(doc);
    return b;
}

static inline spd *opened(const bytes *b)
{
    spd *doc;
    assert_int_equal(spd_open(bytes_span(b), 0, &doc, NULL), SPGO_OK);
    return doc;
}

/* Writing gives these bytes. */
static inline void assert_writes(const spd *doc, const bytes *expected)
{
    bytes b = spd_built_bytes(doc);
    assert_int_equal(b.len, expected->len);
    assert_memory_equal(b.ptr, expected->ptr, b.len);
    bytes_free(&b);
}

static inline uint32_t u32_at(const bytes *b, size_t at)
{
    return (uint32_t)b->ptr[at] | (uint32_t)b->ptr[at + 1] << 8 | (uint32_t)b->ptr[at + 2] << 16 |
           (uint32_t)b->ptr[at + 3] << 24;
}

/* The first finding of a rule, or NULL. */
static inline const spd_finding *finding_of(const spd *doc, const char *rule)
{
    for (size_t i = 0; i < doc->finding_count; i++) {
        if (strcmp(doc->findings[i].rule, rule) == 0)
            return &doc->findings[i];
    }
    return NULL;
}

static inline void assert_finding(const spd *doc, const char *rule, spd_severity severity,
                                  uint64_t offset)
{
    const spd_finding *f = finding_of(doc, rule);
    assert_non_null(f);
    assert_int_equal(f->severity, severity);
    assert_int_equal(f->offset, offset);
}

#endif
