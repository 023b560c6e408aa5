/* SPP files, from the bytes to the sums: whatever is in them, sums of functions' exclusive times
 * are those of the session, and reading ends. */
#include <probe/session.h>

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static void read_events(spgo_span file)
{
    arena *mem = arena_new(1 << 26);
    spp_file f;
    spp_event e;
    if (mem && spp_open(file, mem, &f, NULL, NULL) == SPGO_OK) {
        for (size_t i = 0; i < f.thread_count; i++) {
            spp_events events = spp_events_of(&f.threads[i]);
            while (spp_next_event(&events, &e))
                FUZZ_CHECK(e.kind <= SPGO_SPP_EXIT);
        }
    }
    arena_free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const spgo_span file = {data, size};
    probe_session *s = probe_session_new(NULL);
    if (!s)
        return 0;
    if (probe_session_add(s, file, NULL, NULL, NULL) == SPGO_OK &&
        probe_session_name(s, NULL, NULL, NULL) == SPGO_OK &&
        probe_session_close(s, NULL) == SPGO_OK) {
        const probe_view *v = probe_session_view(s);
        uint64_t calls = 0;
        for (size_t i = 0; i < v->function_count; i++)
            calls += v->functions[i].values.calls;
        FUZZ_CHECK(calls == v->total.calls);
    }
    probe_session_free(s);
    read_events(file);
    return 0;
}
