/*
 * Who ran where, when: processes, threads and the images mapped into them over the time of one
 * trace. Built once from the trace's bookkeeping events in whatever order they come, sealed, and
 * then only read, by any number of threads.
 *
 * Times are raw values of the trace's own clock. A pid, a tid or an address range may be used
 * again: the time decides. Everything known only from a rundown is taken to have been there from
 * the beginning (start rundown) or until the end (end rundown). Where mappings overlap, the newest
 * one that still stands is meant; the same image mapped again at the same place, with no other one
 * reaching in, is taken to have stayed in between.
 */
#ifndef TRACE_TIMELINE_H
#define TRACE_TIMELINE_H

#include <base/arena.h>
#include <base/fail.h>

#define TIMELINE_NONE 0xFFFFFFFFu       /* no process, no module */
#define TIMELINE_KERNEL_PID 0xFFFFFFFFu /* the address space of the kernel */

/* ------------------------------------------------------------------ modules */

/* One build of one image. Shared by all timelines of a run. */
typedef struct trace_module {
    spgo_str path; /* as the trace spells it; the first one seen */
    spgo_str name; /* base name of it */
    spgo_image_id id;
    bool has_id;
} trace_module;

typedef struct module_table module_table;
module_table *module_table_new(void); /* NULL without memory */
void module_table_free(module_table *t);
/* Finds (equal base name and id) or adds; TIMELINE_NONE without memory. id NULL: none known. */
uint32_t module_table_add(module_table *t, spgo_str path, const spgo_image_id *id);
size_t module_table_count(const module_table *t);
const trace_module *module_table_get(const module_table *t, uint32_t index);

/* ------------------------------------------------------------------ building */

typedef struct timeline timeline;
timeline *timeline_new(void); /* NULL without memory */
void timeline_free(timeline *t);

typedef enum timeline_edge {
    TIMELINE_START,    /* began at this time */
    TIMELINE_DC_START, /* was there already at this time */
    TIMELINE_DC_END,   /* was still there at this time */
    TIMELINE_END       /* ended at this time */
} timeline_edge;

/* A process. name may be empty. parent_pid matters only with inherits: a new process that begins
 * with a copy of its parent's images (fork without exec). A name given by a rundown edge is taken
 * when the process has none yet. */
void timeline_add_process(timeline *t, timeline_edge edge, uint64_t time, uint32_t pid,
                          spgo_str name, uint32_t parent_pid, bool inherits);

void timeline_add_thread(timeline *t, timeline_edge edge, uint64_t time, uint32_t tid,
                         uint32_t pid);

/* An image mapped at [start, start + size) of pid (or TIMELINE_KERNEL_PID). `tag` is the caller's
 * and comes back in the resolver. */
typedef struct timeline_image {
    uint64_t time;
    uint32_t pid;
    timeline_edge edge;
    uint64_t start, size;
    spgo_str path;     /* copied; empty for an END that does not know it */
    uint64_t file_off; /* of the mapping's first byte, where the trace says it */
    uint64_t tag;
} timeline_image;
void timeline_add_image(timeline *t, const timeline_image *image);

/* Calls `see` for every image added so far until it returns false; false then. */
bool timeline_each_image(const timeline *t, bool (*see)(void *ctx, const timeline_image *image),
                         void *ctx);

/* What the caller finds out about an image when the timeline is sealed: its module, and the RVA
 * of `start`. False: this is no image, leave it out. */
typedef bool (*timeline_resolver)(void *ctx, const timeline_image *image, uint32_t *module,
                                  uint64_t *rva_of_start);

/* Sorts everything out. Nothing can be added afterwards. SPGO_NOMEM or SPGO_LIMIT (more mappings
 * than LIMIT_TIMELINE_BYTES hold) leave it unusable. */
spgo_code timeline_seal(timeline *t, timeline_resolver resolve, void *ctx, spgo_error *err);

/* ------------------------------------------------------------------ asking */

typedef struct timeline_process {
    uint32_t pid;
    uint64_t start_time;
    spgo_str name;       /* as its process event spells it, else of its main image; may be empty */
    spgo_str image_name; /* base name of the first image mapped into it; may be empty */
} timeline_process;

size_t timeline_process_count(const timeline *t);
const timeline_process *timeline_get_process(const timeline *t, uint32_t process);
size_t timeline_mapping_count(const timeline *t);

/* The process that had this pid at this time (the nearest one if none had); TIMELINE_NONE if the
 * pid was never seen. */
uint32_t timeline_process_at(const timeline *t, uint32_t pid, uint64_t time);
/* The pid of the thread at this time; false if the tid was never seen. */
bool timeline_pid_of_thread(const timeline *t, uint32_t tid, uint64_t time, uint32_t *pid);
uint32_t timeline_kernel(const timeline *t); /* TIMELINE_NONE if no kernel image is known */

/* Where an address lies, and how far the answer reaches: it holds for every address in
 * [start, end) of this process at any time with valid_from <= time < valid_to. */
typedef struct timeline_place {
    uint32_t module; /* TIMELINE_NONE: no image there */
    uint64_t start, end;
    uint64_t start_rva; /* rva of an address: start_rva + (address - start) */
    uint64_t valid_from, valid_to;
} timeline_place;

timeline_place timeline_find(const timeline *t, uint32_t process, uint64_t time, uint64_t addr);

#endif
