/* A file of the stepping runtime: header and all events. */
#include "fuzz.h"

#include <format/step/step.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static step_walk w;
    step_document doc;
    step_event e;
    spgo_error err = {0};
    diag findings = {0};
    spgo_code code = step_open((spgo_span){data, size}, &doc, &findings, &err);
    FUZZ_CHECK(code == err.code);
    if (code != SPGO_OK)
        return 0;
    fuzz_read(doc.command);
    step_walk_begin(&w, &doc, &findings);
    uint64_t last_off = 0;
    while (step_walk_next(&w, &e)) {
        FUZZ_CHECK(e.offset > last_off && e.offset + doc.header.slot_bytes <= size);
        last_off = e.offset;
        if (e.kind == STEP_EVENT_RECORD) {
            FUZZ_CHECK(e.record.branch_count > 0);
            for (uint32_t i = 0; i < e.record.branch_count; i++)
                (void)step_branch_at(&e, i);
            fuzz_read((spgo_span){e.record.kinds, e.record.branch_count});
        } else if (e.kind == STEP_EVENT_IMAGE) {
            fuzz_read((spgo_span){(const uint8_t *)e.image.path.ptr, e.image.path.len});
            FUZZ_CHECK(e.image.start_addr + e.image.size_bytes > e.image.start_addr);
        }
    }
    return 0;
}
