/*
 * What the files of the runtime share. It lives inside a foreign program: it allocates nothing, it
 * takes no lock, it keeps its hands off the program's signals, and all that runs in a signal
 * handler uses system calls of its own (step_system.h).
 */
#ifndef STEP_RUNTIME_STEP_INTERNAL_H
#define STEP_RUNTIME_STEP_INTERNAL_H

#include <step_runtime/step_decode.h>
#include <step_runtime/step_file.h>
#include <step_runtime/step_system.h>

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <ucontext.h>

#define STEP_EXPORT __attribute__((visibility("default")))

enum { STEP_PATH_MAX = 4096, STEP_FLAG_TRAP = 0x100 };

/* A thread that is recorded. Only the thread itself and its signal handlers touch it. */
typedef struct step_self {
    /* The burst. */
    step_insn prev;     /* executes before the next trap */
    uint64_t code_addr; /* readable code that holds the last instruction seen */
    uint64_t code_size;
    step_record *record; /* reserved for this burst, or kept from one that came to nothing */
    uint32_t taken;
    uint32_t step_count;
    volatile uint32_t step_limit; /* 0: the burst ends with its next step */
    bool active;
    bool after_syscall; /* prev is the instruction behind a syscall, and no trap was between */
    uint64_t start_ip;
    uint64_t start_time_ns;
    uint64_t start_cpu_ns; /* of the thread */

    /* Between bursts. */
    int timer; /* the kernel's id */
    volatile bool timed;
    bool listed;     /* its THREAD slot is written */
    uint8_t blocked; /* STEP_BLOCKED_: what the program believes to have blocked */
    uint8_t pending; /* and what came in the meantime */
    uint32_t tid;
    uint32_t stray_count; /* bursts whose trap flag may come back with an old frame */
    uint64_t begin_time_ns;
    uint64_t end_cpu_ns; /* of the last burst */
    uint64_t random;
    int64_t owed_ns; /* CPU time that should have passed outside of bursts, less what has */
} step_self;

/* Initial-exec, so that a handler reaches it without a call. */
extern __thread step_self step_me __attribute__((tls_model("initial-exec"), visibility("hidden")));

typedef struct step_options {
    uint32_t overhead_ppm;
    uint32_t branches_max;
    uint32_t filter;
    uint32_t signal;
    uint64_t interval_ns;
    uint64_t seed;
} step_options;

/* The process. Written before any thread is recorded, and anew in a child of fork. */
typedef struct step_process {
    bool recording;      /* or else nothing of this library does anything */
    step_header *header; /* of the file, or what is to become it */
    _Atomic bool has_file;
    _Atomic bool stopped; /* no bursts any more: the file is full, or the program took SIGTRAP */
    bool sealed;          /* stopped for good, children too, and no system calls */
    uint32_t pid;
    uint32_t slot_bytes;
    uint32_t slots_per_chunk;
    uint32_t steps_max;
    step_options options;
    uint64_t start_cpu_ns;    /* of the process */
    _Atomic uint64_t cost_ns; /* of a burst, a moving average */
    char folder[STEP_PATH_MAX];
    char path[STEP_PATH_MAX + 64];
} step_process;

extern step_process step_this __attribute__((visibility("hidden")));

/* ------------------------------------------------------------------ step_output.c */

/* Begins to count for this process. */
void step_output_begin(uint32_t start_kind);

/* Makes the file, if there is none; false if there can be none. In handlers. */
bool step_output_open(void);

/* Marks the file as ended and gives back what was preallocated. The process may go on: an exec can
 * fail (step_output_resume). */
void step_output_end(uint32_t end_kind);
void step_output_resume(void);

/* `span` consecutive slots, the first one's index in *first. NULL when there is no room. */
void *step_slots_reserve(uint32_t span, uint64_t *first);
void *step_slot_at(uint64_t index);
void step_slot_finish(void *slot, uint32_t kind, uint32_t span);

static inline void step_count(uint64_t *counter, uint64_t n)
{
    (void)__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ step_images.c */

/* Looks for mappings that came or went and writes them down. In handlers too. */
void step_images_scan(void);

/* The readable, executable mapping around addr; false if none is known after a look. */
bool step_images_find(uint64_t addr, uint64_t *start, uint64_t *size);

/* After a dlclose the next burst looks again. */
void step_images_outdated(void);

/* Has a look once in a while. */
void step_images_refresh(uint64_t time_ns);

void step_images_forget(void);

/* ------------------------------------------------------------------ step_burst.c */

void step_on_trap(int sig, siginfo_t *info, void *context);
void step_on_timer(int sig, siginfo_t *info, void *context);

/* ------------------------------------------------------------------ step_threads.c */

void step_thread_begin(void);
void step_thread_end(void);

/* The child of a fork has no timers and nothing of a burst. */
void step_thread_after_fork(void);

/* Sets the timer for the next burst, after one that took cost_ns (0: after none). */
void step_thread_arm(step_self *self, uint64_t cost_ns);

/* Sets the timer to look after a burst that has begun. */
void step_thread_watch(step_self *self);

/* No burst goes on and none begins until the thread resumes. */
void step_thread_pause(step_self *self);
void step_thread_resume(step_self *self);

/* ------------------------------------------------------------------ step_signals.c */

enum { STEP_BLOCKED_TRAP = 1, STEP_BLOCKED_TIMER = 2 };

bool step_signals_begin(void);

/* Does the program's or the C library's mask leave SIGTRAP through, and is its handler ours? */
bool step_signals_ready(const ucontext_t *context);

/* A signal that is none of ours: does what the program asked for. */
void step_signals_forward(int sig, siginfo_t *info, ucontext_t *context);

/* The function that this library's one stands in front of. */
typedef void (*step_function)(void);
step_function step_next(const char *name, _Atomic(step_function) *cache);

#endif
