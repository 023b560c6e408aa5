/*
 * Events of a thread, 8 bytes each. A ring goes round in chunks of the file that stay mapped. A
 * stream has one mapped chunk, which is copied behind the others when it is full: that costs a
 * system call for 8,184 events, and no page fault for every 512 of them. The mapped one is what a
 * killed program leaves of the rest.
 */
#include "runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static COLD void begin_chunk(probe_thread *t, uint32_t lost)
{
    spgo_spp_chunk *head = t->event_chunk;
    head->sequence = t->event_sequence++;
    head->clock_first = t->event_clock;
    head->lost = lost;
    head->used_bytes = sizeof *head;
    t->event = (uint64_t *)((char *)head + sizeof *head);
    t->event_end = (uint64_t *)((char *)head + SPGO_SPP_CHUNK_BYTES);
}

/* Chunks of a ring are given to it one by one: most threads never fill it. */
static COLD bool map_chunk(probe_thread *t)
{
    const uint64_t off = probe_process_new_chunk(SPGO_SPP_EVENTS, t->number, UINT32_MAX);
    char *at = t->event_area + (size_t)t->events_mapped * SPGO_SPP_CHUNK_BYTES;
    if (!off || !probe_process_map(off, SPGO_SPP_CHUNK_BYTES, at))
        return false;
    t->events_mapped++;
    return true;
}

COLD bool probe_events_open(probe_thread *t)
{
    const probe_process *p = &probe_process_now;
    if (p->header->mode == SPGO_SPP_SUMMARY)
        return true;
    t->event_chunks = p->header->mode == SPGO_SPP_RING ? p->ring_chunks : 1;
    const size_t bytes = (size_t)t->event_chunks * SPGO_SPP_CHUNK_BYTES;
    void *area = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return false;
    t->event_area = area;
    if (!map_chunk(t))
        return false;
    t->event_chunk = area;
    t->event_clock = probe_clock();
    begin_chunk(t, 0);
    return true;
}

COLD void probe_events_close(probe_thread *t)
{
    if (t->event_area)
        munmap(t->event_area, (size_t)t->event_chunks * SPGO_SPP_CHUNK_BYTES);
}

/* Appends a copy of the full chunk to the file; how many events were lost if it has no room. */
static COLD uint32_t copy_out(const probe_thread *t)
{
    const probe_process *p = &probe_process_now;
    const uint32_t n = __atomic_fetch_add(&p->header->chunk_count, 1, __ATOMIC_RELAXED);
    off_t off = (off_t)(SPGO_SPP_HEADER_BYTES + (uint64_t)n * SPGO_SPP_CHUNK_BYTES);
    const char *from = (const char *)t->event_chunk;
    size_t left = SPGO_SPP_CHUNK_BYTES;
    while (left > 0) {
        ssize_t written = pwrite(p->fd, from, left, off);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return (uint32_t)(t->event -
                              (uint64_t *)((char *)t->event_chunk + sizeof *t->event_chunk));
        from += written;
        off += written;
        left -= (size_t)written;
    }
    return 0;
}

COLD void probe_events_room(probe_thread *t)
{
    const int saved = errno;
    uint32_t lost = 0;
    if (t->event_chunks == 1) {
        lost = copy_out(t);
        t->record->lost_events += lost;
    } else {
        char *next = (char *)t->event_chunk + SPGO_SPP_CHUNK_BYTES;
        const char *end = t->event_area + (size_t)t->events_mapped * SPGO_SPP_CHUNK_BYTES;
        /* A full disk makes the ring a smaller one. */
        if (next == end && (t->events_mapped == t->event_chunks || !map_chunk(t)))
            next = t->event_area;
        t->event_chunk = (spgo_spp_chunk *)next;
    }
    begin_chunk(t, lost);
    probe_process_note_clock();
    t->last = probe_clock(); /* none of the program's time */
    errno = saved;
}
