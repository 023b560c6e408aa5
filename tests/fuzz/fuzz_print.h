/* Text and JSON output that nobody reads, for targets that dump what they have read. */
#ifndef FUZZ_PRINT_H
#define FUZZ_PRINT_H

#include "fuzz.h"

#include <base/json.h>

typedef struct printer {
    out text, json_text;
    json j;
} printer;

static printer *get_printer(void)
{
    static printer p;
    if (!p.text.buf) {
        FUZZ_CHECK(out_init(&p.text, fuzz_null_sink(), NULL) == SPGO_OK);
        FUZZ_CHECK(out_init(&p.json_text, fuzz_null_sink(), NULL) == SPGO_OK);
        p.j = json_on(&p.json_text, false);
    }
    return &p;
}

#endif
