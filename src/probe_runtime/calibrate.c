/*
 * What a probe costs on this machine, in this process: the hooks are called on a thread of their
 * own making, which is in no file. Of the cost of a call, one part lies between its two stamps and
 * would be taken for the function's own time; the rest falls to the caller.
 */
#include "runtime.h"

#include <string.h>

enum { ROUNDS = 64, CALLS = 256 };

typedef struct rehearsal {
    probe_thread thread;
    probe_frame frames[4];
    spgo_spp_node nodes[4];
    probe_bounds bounds[4];
    spgo_spp_thread record;
} rehearsal;

static COLD void set_up(rehearsal *r, void *function)
{
    memset(r, 0, sizeof *r);
    probe_thread *t = &r->thread;
    t->nodes = r->nodes;
    t->bounds = r->bounds;
    t->control_seen = probe_process_now.header->control;
    t->frames = r->frames;
    t->record = &r->record;
    t->frame = r->frames;
    t->deepest = r->frames + 2;
    t->node = &r->nodes[SPGO_SPP_ROOT];
    t->node->child = SPGO_SPP_ROOT + 1;
    r->nodes[SPGO_SPP_ROOT + 1].function = (uintptr_t)function;
    r->nodes[SPGO_SPP_ROOT + 1].parent = SPGO_SPP_ROOT;
    r->frames[0].node = t->node;
    r->frames[0].address = UINTPTR_MAX;
    t->os_word = &t->os_none;
    t->control = probe_clock_is_tsc ? probe_process_now.header->control : 0;
    t->last = probe_clock();
}

COLD void probe_calibrate(void)
{
    spgo_spp_header *h = probe_process_now.header;
    static rehearsal r;
    void *const function = (void *)(uintptr_t)&r; /* any address */
    probe_thread *const self = probe_self;
    uint64_t best = UINT64_MAX, best_inside = 0;
    for (int i = 0; i < ROUNDS; i++) {
        set_up(&r, function);
        probe_self = &r.thread;
        const uint64_t start = probe_clock();
        for (int k = 0; k < CALLS; k++) {
            __cyg_profile_func_enter(function, NULL);
            __cyg_profile_func_exit(function, NULL);
        }
        const uint64_t ticks = probe_clock() - start;
        probe_self = self;
        if (ticks < best) {
            best = ticks;
            best_inside = r.nodes[SPGO_SPP_ROOT + 1].elapsed_exclusive;
        }
    }
    h->probe_inside = best_inside * 256 / CALLS;
    h->probe_outside = best * 256 / CALLS - h->probe_inside;
}
