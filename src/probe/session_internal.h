/* Between session.c, which gathers, sums.c, which applies the rule, and names.c. */
#ifndef PROBE_SESSION_INTERNAL_H
#define PROBE_SESSION_INTERNAL_H

#include <base/arena.h>
#include <base/intern.h>
#include <probe/session.h>

/* Two numbers to one; value 0: free, so what is kept is an index and one. */
typedef struct probe_key {
    uint64_t a, b;
    uint32_t value;
} probe_key;

typedef struct probe_key_table {
    probe_key *slots;
    size_t slot_count, used;
} probe_key_table;

/* Where the key's value is, 0 if it is new: the caller sets it at once. NULL without memory. */
uint32_t *probe_key_slot(probe_key_table *t, uint64_t a, uint64_t b);

/* Room for one more item behind `count`. */
bool probe_grow(void **items, size_t count, size_t *capacity, size_t item_bytes);

/* Fills the values of `count` nodes, which come with function, parent and module and zeros, with
 * what the thread's events from `from` to before `to` (ticks) tell. False: no memory. */
bool probe_replay(const spp_thread *t, uint64_t from, uint64_t to, spgo_spp_node *nodes,
                  uint32_t count);

/* What is kept of a file for its events. */
typedef struct probe_timeline {
    const spp_file *file;
    const spp_thread *thread;
    uint32_t *functions; /* of the thread's nodes */
    uint32_t node_count;
} probe_timeline;

struct probe_session {
    arena *mem;
    intern text;
    probe_timeline *timelines; /* of the threads, if events are kept */
    size_t timeline_capacity;
    uint64_t first_ns; /* CLOCK_MONOTONIC when the first process started */
    probe_process_info *processes;
    probe_thread_info *threads;
    probe_module *modules;
    probe_function *functions;
    probe_node *nodes;
    probe_call_pair *pairs;
    probe_mark *marks;
    size_t process_count, process_capacity;
    size_t thread_count, thread_capacity;
    size_t module_count, module_capacity;
    size_t function_count, function_capacity;
    size_t node_count, node_capacity;
    size_t pair_count, pair_capacity;
    size_t mark_count, mark_capacity;
    probe_key_table node_keys, function_keys, pair_keys;
    probe_view view;
};

#endif
