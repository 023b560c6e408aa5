/* Steering through a mapped SPP file: see spp_control.h. */
#include <format/spp/spp_control.h>

#include <stdio.h>
#include <string.h>

#include <base/fail.h>
#include <format/spp/spp.h>

spgo_code spp_control_status(spgo_span file, spp_status *out, spgo_error *err)
{
    if (file.len < SPGO_SPP_HEADER_BYTES || !spp_is_file(file))
        return spgo_fail(err, SPGO_CORRUPT, "spp.header", 0,
                         "not an SPP file: it does not start with \"" SPGO_SPP_MAGIC "\"");
    spgo_spp_header h;
    memcpy(&h, file.ptr, sizeof h);
    if (h.version != SPGO_SPP_VERSION)
        return spgo_fail(err, SPGO_UNSUPPORTED, "spp.header", 8, "version %u; this is for %d",
                         h.version, SPGO_SPP_VERSION);
    *out = (spp_status){.pid = h.pid,
                        .thread_count = h.thread_count,
                        .is_active = h.control & SPGO_SPP_ACTIVE,
                        .is_finished = h.flags & SPGO_SPP_FINISHED,
                        .file_bytes = file.len};
    return SPGO_OK;
}

void spp_control_change(void *memory, int by)
{
    spgo_spp_header *h = memory;
    const int32_t starts = __atomic_add_fetch(&h->start_count, by, __ATOMIC_RELAXED);
    const bool is_active = starts > 0 && h->suspend_count <= 0;
    uint32_t old = __atomic_load_n(&h->control, __ATOMIC_RELAXED), next;
    do
        next = ((old | SPGO_SPP_ACTIVE) + 1) | (is_active ? SPGO_SPP_ACTIVE : 0u);
    while (!__atomic_compare_exchange_n(&h->control, &old, next, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

static uint64_t clock_now(uint32_t clock, uint64_t monotonic_ns)
{
#if defined(__x86_64__) || defined(__i386__)
    if (clock == SPGO_SPP_CLOCK_TSC)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (clock == SPGO_SPP_CLOCK_TSC) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    (void)clock;
    return monotonic_ns;
}

void spp_control_mark(void *memory, uint64_t monotonic_ns, int64_t id, const char *comment,
                      uint8_t chunk[SPGO_SPP_CHUNK_HEAD_BYTES + sizeof(spgo_spp_mark)],
                      uint64_t *off)
{
    spgo_spp_header *h = memory;
    const uint32_t n = __atomic_fetch_add(&h->chunk_count, 1, __ATOMIC_RELAXED);
    spgo_spp_chunk head = {.magic = SPGO_SPP_CHUNK_MAGIC,
                           .kind = SPGO_SPP_MARKS,
                           .used_bytes = sizeof head + sizeof(spgo_spp_mark)};
    spgo_spp_mark m = {.clock = clock_now(h->clock, monotonic_ns), .id = id, .kind = SPGO_SPP_MARK};
    snprintf(m.comment, sizeof m.comment, "%s", comment ? comment : "");
    memcpy(chunk, &head, sizeof head);
    memcpy(chunk + sizeof head, &m, sizeof m);
    *off = SPGO_SPP_HEADER_BYTES + (uint64_t)n * SPGO_SPP_CHUNK_BYTES;
}
