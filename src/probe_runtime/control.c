/* Steering from inside the program: <spgo/probe.h>; and marks. */
#include "runtime.h"

#include <spgo/probe.h>
#include <stdio.h>
#include <string.h>

/* Marks are rare, and may come from any thread: a lock that is held for a copy. A signal handler
 * that marks while its thread does so finds it taken, and its mark is not set. */
static atomic_flag lock = ATOMIC_FLAG_INIT;
static spgo_spp_chunk *chunk;
static uint32_t sequence;

static COLD bool take_lock(void)
{
    for (int i = 0; i < 100000; i++) {
        if (!atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
            return true;
    }
    return false;
}

static COLD bool has_room(void)
{
    if (chunk && chunk->used_bytes + sizeof(spgo_spp_mark) <= SPGO_SPP_CHUNK_BYTES)
        return true;
    const uint64_t off = probe_process_new_chunk(SPGO_SPP_MARKS, 0, sequence);
    void *mapped = off ? probe_process_map(off, SPGO_SPP_CHUNK_BYTES, NULL) : NULL;
    if (!mapped)
        return false;
    chunk = mapped;
    sequence++;
    return true;
}

COLD void probe_marks_forget(void)
{
    chunk = NULL;
    sequence = 0;
    atomic_flag_clear(&lock);
}

COLD bool probe_process_mark(spgo_spp_mark_kind kind, int64_t id, uint32_t owner,
                             const char *comment)
{
    if (!probe_process_now.has_file || !take_lock())
        return false;
    const bool room = has_room();
    if (room) {
        spgo_spp_mark *m = (spgo_spp_mark *)((char *)chunk + chunk->used_bytes);
        m->clock = probe_clock();
        m->id = id;
        m->kind = kind;
        m->owner = owner;
        snprintf(m->comment, sizeof m->comment, "%s", comment ? comment : "");
        chunk->used_bytes += (uint32_t)sizeof *m;
    }
    atomic_flag_clear_explicit(&lock, memory_order_release);
    return room;
}

static COLD uint32_t own_number(void)
{
    return probe_self->record ? probe_self->number : 0;
}

/* The bit follows the counts, and every change of the word makes probes look. */
static COLD void publish(void)
{
    spgo_spp_header *h = probe_process_now.header;
    const bool is_active = h->start_count > 0 && h->suspend_count <= 0;
    uint32_t old = __atomic_load_n(&h->control, __ATOMIC_RELAXED), next;
    do
        next = ((old | SPGO_SPP_ACTIVE) + 1) | (is_active ? SPGO_SPP_ACTIVE : 0);
    while (!__atomic_compare_exchange_n(&h->control, &old, next, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
    if (!((old ^ next) & SPGO_SPP_ACTIVE))
        return;
    probe_xray_switch(is_active);
    probe_process_mark(is_active ? SPGO_SPP_MARK_START : SPGO_SPP_MARK_STOP, 0, own_number(), "");
}

static COLD spgo_probe_result change(spgo_probe_level level, int starts, int suspends)
{
    spgo_spp_header *h = probe_process_now.header;
    if (!probe_process_open())
        return SPGO_PROBE_NOTHING;
    if (level == SPGO_PROBE_THREAD) {
        probe_thread *t = probe_self;
        if (!t->record)
            t = probe_thread_look(1);
        if (!t)
            return SPGO_PROBE_NOTHING;
        t->start_count += starts;
        t->suspend_count += suspends;
        t->control = 0;
        return SPGO_PROBE_OK;
    }
    if (level != SPGO_PROBE_GLOBAL && level != SPGO_PROBE_PROCESS)
        return SPGO_PROBE_BAD_LEVEL;
    __atomic_fetch_add(&h->start_count, starts, __ATOMIC_RELAXED);
    __atomic_fetch_add(&h->suspend_count, suspends, __ATOMIC_RELAXED);
    publish();
    return SPGO_PROBE_OK;
}

COLD spgo_probe_result spgo_probe_start(spgo_probe_level level)
{
    return change(level, 1, 0);
}

COLD spgo_probe_result spgo_probe_stop(spgo_probe_level level)
{
    return change(level, -1, 0);
}

COLD spgo_probe_result spgo_probe_suspend(spgo_probe_level level)
{
    return change(level, 0, 1);
}

COLD spgo_probe_result spgo_probe_resume(spgo_probe_level level)
{
    return change(level, 0, -1);
}

COLD spgo_probe_result spgo_probe_mark(int64_t id, const char *comment)
{
    if (id < 0)
        return SPGO_PROBE_BAD_ID;
    if (!probe_process_open())
        return SPGO_PROBE_NOTHING;
    return probe_process_mark(SPGO_SPP_MARK, id, own_number(), comment) ? SPGO_PROBE_OK
                                                                        : SPGO_PROBE_FULL;
}

COLD spgo_probe_result spgo_probe_name_thread(const char *name)
{
    probe_thread *t = probe_self;
    if (!t->record)
        t = probe_thread_look(1);
    if (!t)
        return SPGO_PROBE_NOTHING;
    snprintf(t->record->name, sizeof t->record->name, "%s", name ? name : "");
    return SPGO_PROBE_OK;
}

COLD spgo_probe_result spgo_probe_name_process(const char *name)
{
    if (!probe_process_open())
        return SPGO_PROBE_NOTHING;
    snprintf(probe_process_now.header->name, sizeof probe_process_now.header->name, "%s",
             name ? name : "");
    return SPGO_PROBE_OK;
}
