/*
 * Steering a process through its SPP file, which its runtime has mapped: what probes read at every
 * call is a word of the header. The memory given here is a shared mapping of the file, at least
 * the header; the process may change it at any moment.
 */
#ifndef FORMAT_SPP_CONTROL_H
#define FORMAT_SPP_CONTROL_H

#include <spgo/error.h>
#include <spgo/spp.h>

typedef struct spp_status {
    uint32_t pid, thread_count;
    bool is_active, is_finished;
    uint64_t file_bytes;
} spp_status;

/* SPGO_CORRUPT: no SPP file of this version. To be called before the others. */
spgo_code spp_control_status(spgo_span file, spp_status *out, spgo_error *err);

/* One start (by 1) or stop (by -1) more. */
void spp_control_change(void *memory, int by);

/* A chunk with one mark of this moment (monotonic_ns: the system's monotonic clock), and where in
 * the file it belongs. The file has to reach to the end of that chunk (SPGO_SPP_CHUNK_BYTES from
 * *off), which is zero but for these bytes. */
void spp_control_mark(void *memory, uint64_t monotonic_ns, int64_t id, const char *comment,
                      uint8_t chunk[SPGO_SPP_CHUNK_HEAD_BYTES + sizeof(spgo_spp_mark)],
                      uint64_t *off);

#endif
