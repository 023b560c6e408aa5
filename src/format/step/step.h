/*
 * Reading what the stepping runtime leaves of a process (step_runtime/step_file.h, the layout in
 * doc/formats/step.md): the header, then event by event, in the order of the file, which is nearly
 * that of time.
 */
#ifndef STEP_H
#define STEP_H

#include <step_runtime/step_file.h>

#include <base/diag.h>

/* The header's fields, and `file` as given. */
typedef struct step_document {
    spgo_span file;
    uint64_t slot_count; /* that the file has room for, at most the header's */
    uint32_t slots_per_chunk;
    step_header header;
    spgo_span command; /* as /proc/PID/cmdline: a NUL after each word, the last may be cut */
} step_document;

/* Checks all that the rest relies on. A file that was never begun is NOT_FOUND; one whose slots lie
 * in part behind its end is read as far as it goes, with a finding. */
spgo_code step_open(spgo_span file, step_document *doc, diag *findings, spgo_error *err);

typedef enum step_event_kind {
    STEP_EVENT_RECORD,
    STEP_EVENT_IMAGE,
    STEP_EVENT_IMAGE_END,
    STEP_EVENT_THREAD,
    STEP_EVENT_THREAD_END
} step_event_kind;

typedef struct step_event {
    step_event_kind kind;
    uint64_t offset; /* of its slot in the file */
    uint64_t time_ns;
    union {
        struct {
            uint32_t tid, cpu;
            uint32_t branch_count; /* at least 1 */
            uint32_t stop;         /* STEP_STOP_ */
            uint32_t step_count;
            uint64_t start_ip, end_ip;
            uint64_t start_time_ns, cpu_ns;
            const uint8_t *pairs; /* read by step_branch_at */
            const uint8_t *kinds; /* STEP_BRANCH_ of each */
        } record;
        struct {
            uint64_t start_addr, size_bytes, file_offset, inode;
            uint32_t dev_major, dev_minor, prot;
            spgo_str path; /* until the next event; bytes, not always UTF-8 */
        } image;           /* and image end, without path */
        struct {
            uint32_t tid;
            uint64_t cpu_ns;
        } thread;
    };
} step_event;

typedef struct step_branch {
    uint64_t from, to;
} step_branch;

/* The newest is 0. */
step_branch step_branch_at(const step_event *record, uint32_t index);

enum { STEP_IMAGE_PATH_MAX = 4096 + 64 };

typedef struct step_walk {
    const step_document *doc;
    diag *findings;
    uint64_t slot;             /* the next */
    uint64_t unfinished_count; /* slots passed over that nobody had finished */
    char path[STEP_IMAGE_PATH_MAX];
} step_walk;

/* `findings` (may be NULL) takes damaged slots, which are left out. */
void step_walk_begin(step_walk *w, const step_document *doc, diag *findings);

/* False at the end. */
bool step_walk_next(step_walk *w, step_event *event);

#endif
