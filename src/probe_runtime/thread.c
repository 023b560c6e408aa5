/*
 * The life of a thread's record, and the ways of its stack that are not call and return: exceptions
 * that pass functions without an exit probe, longjmp, signal handlers, probes that were switched
 * off for a while, fork.
 */
#include "runtime.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Before a thread's first probe, and after its end. Neither records: the control word never fits.
 */
static probe_thread nobody = {.busy = 1}, gone = {.busy = 1};

__thread probe_thread *probe_self = &nobody;

static pthread_key_t at_thread_end;
static atomic_int key_state; /* 0: none; 1: being made; 2: there */

/* ------------------------------------------------------------------ birth and death */

static COLD void close_thread(probe_thread *t)
{
    if (t->record) {
        t->record->end = probe_clock();
        t->record->last = t->last;
    }
    probe_os_close(t);
    probe_events_close(t);
    probe_tree_close(t);
    if (t->frames)
        munmap(t->frames, (DEPTH_MAX + 1) * sizeof *t->frames);
    if (t->bounds)
        munmap(t->bounds, PATHS_MAX * sizeof *t->bounds);
    munmap(t, sizeof *t);
}

static COLD void end_thread(void *value)
{
    static __thread int round;
    probe_thread *t = value;
    /* Destructors of other keys may still call instrumented functions: last of all, please. */
    if (round++ < PTHREAD_DESTRUCTOR_ITERATIONS - 2) {
        pthread_setspecific(at_thread_end, t);
        return;
    }
    probe_self = &gone;
    close_thread(t);
    probe_process_note_clock();
}

static COLD bool make_key(void)
{
    int state = 0;
    if (atomic_compare_exchange_strong(&key_state, &state, 1)) {
        const bool made = pthread_key_create(&at_thread_end, end_thread) == 0;
        atomic_store(&key_state, made ? 2 : 0);
    }
    return atomic_load(&key_state) == 2;
}

static COLD void find_stack(probe_thread *t)
{
    pthread_attr_t attr;
    void *address;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &address, &size) == 0) {
        t->stack_begin = (uintptr_t)address;
        t->stack_end = t->stack_begin + size;
    }
    pthread_attr_destroy(&attr);
}

static COLD probe_thread *lose_thread(probe_thread *t)
{
    __atomic_fetch_add(&probe_process_now.header->lost_threads, 1, __ATOMIC_RELAXED);
    if (t)
        close_thread(t);
    return NULL;
}

/* Memory that costs nothing until it is touched. */
static COLD void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A thread without frames yet; its node is the root. */
static COLD probe_thread *new_thread(void)
{
    probe_thread *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return lose_thread(NULL);
    t->tid = (uint32_t)syscall(SYS_gettid);
    t->number =
        1 + __atomic_fetch_add(&probe_process_now.header->thread_count, 1, __ATOMIC_RELAXED);
    t->frames = reserve((DEPTH_MAX + 1) * sizeof *t->frames);
    t->bounds = reserve(PATHS_MAX * sizeof *t->bounds);
    if (!t->frames || !t->bounds || !probe_tree_open(t) || !probe_events_open(t))
        return lose_thread(t);
    t->deepest = t->frames + probe_process_now.depth_limit;
    t->frame = t->frames;
    t->node = &t->nodes[SPGO_SPP_ROOT];
    t->frame->node = t->node;
    t->frame->address = UINTPTR_MAX;
    t->record->tid = t->tid;
    t->record->begin = probe_clock();
    prctl(PR_GET_NAME, t->record->name);
    find_stack(t);
    probe_os_open(t);
    return t;
}

/* The calls that go on in the child are made known to its tree, without counting them again. */
static COLD void copy_frames(probe_thread *t, const probe_thread *from)
{
    for (const probe_frame *f = from->frames + 1; f <= from->frame && f->call_site != from; f++) {
        const uint64_t function = f->node->function & ~SPGO_SPP_UNLOADED;
        spgo_spp_node *node = f->function & PROBE_LEFT_OUT
                                  ? t->node
                                  : probe_tree_child(t, t->node, (void *)(uintptr_t)function);
        *++t->frame = (probe_frame){.node = node,
                                    .call_site = f->call_site,
                                    .address = f->address,
                                    .function = f->function,
                                    .at_entry = t->totals};
        t->node = node;
    }
}

COLD void probe_thread_after_fork(void)
{
    probe_thread *old = probe_self;
    if (old == &nobody || old == &gone)
        return;
    probe_thread *t = probe_process_now.has_file ? new_thread() : NULL;
    if (t) {
        copy_frames(t, old);
        t->start_count = old->start_count;
        t->suspend_count = old->suspend_count;
        t->too_deep = old->too_deep;
        t->last = probe_clock();
    }
    probe_self = t ? t : &gone;
    pthread_setspecific(at_thread_end, t);
    old->record = NULL; /* the parent's */
    close_thread(old);
}

/* ------------------------------------------------------------------ the slow way into a probe */

static COLD bool is_on_own_stack(const probe_thread *t, uintptr_t address)
{
    return address >= t->stack_begin && address < t->stack_end;
}

/* A signal came while a probe was at work: its handler's probes find the work half done, and do not
 * count. If the handler was left by longjmp, this probe is not its any more: the stack tells. */
static COLD bool is_interrupted(probe_thread *t, uintptr_t address)
{
    const bool has_left = is_on_own_stack(t, address) && address >= t->busy;
    if (!has_left)
        t->record->lost_events++;
    return !has_left;
}

/* The time before was not recorded, or was ours. */
static COLD void begin_again(probe_thread *t, uint32_t control)
{
    t->control_seen = control;
    if (t->unloads_seen != probe_process_now.unload_count) {
        t->unloads_seen = probe_process_now.unload_count;
        probe_tree_forget_unloaded(t);
    }
    probe_os_arm(t);
    t->last = probe_clock();
}

static COLD probe_thread *first_look(void)
{
    if (!probe_process_open() || !make_key())
        return NULL;
    probe_self = &gone; /* what is called from here is not recorded */
    probe_thread *t = new_thread();
    if (!t)
        return NULL;
    pthread_setspecific(at_thread_end, t);
    probe_self = t;
    return t;
}

/* The probe is at work from here on if it counts. */
COLD probe_thread *probe_thread_look(uintptr_t address)
{
    probe_thread *t = probe_self;
    const int saved = errno;
    if (t == &gone)
        return NULL;
    if (t == &nobody)
        t = first_look();
    else if (t->busy != address && t->busy != 0 && is_interrupted(t, address))
        t = NULL;
    errno = saved;
    if (!t)
        return NULL;
    t->busy = address;
    const uint32_t control = __atomic_load_n(&probe_process_now.header->control, __ATOMIC_ACQUIRE);
    const bool counts = control & SPGO_SPP_ACTIVE && t->start_count >= 0 && t->suspend_count <= 0;
    if (!counts) {
        t->control = t->control_seen = 0; /* never a control word: the next probe looks again */
        t->busy = 0;
        return NULL;
    }
    if (t->control_seen != control)
        begin_again(t, control);
    t->control = probe_clock_is_tsc ? control : 0; /* the quick way reads no other clock */
    errno = saved;
    return t;
}

/* ------------------------------------------------------------------ lost exits */

static COLD void drop_frame(probe_thread *t)
{
    if (t->too_deep) {
        t->too_deep = 0;
        t->frame--;
        return;
    }
    t->record->lost_exits++;
    probe_frames_close(t);
}

/* A function is entered whose frame lies above that of the call on top: the calls that lie below
 * it are over. This holds on one stack only. A probe on the thread's own stack, while the top is
 * elsewhere, means that a handler with a stack of its own was left; one elsewhere means that
 * another one begins, and tells nothing. */
COLD void probe_frames_resync_enter(probe_thread *t, const void *call_site, uintptr_t address)
{
    if (!is_on_own_stack(t, address) && is_on_own_stack(t, t->frame->address))
        return;
    while (t->frame->address < address ||
           (t->frame->address == address && t->frame->call_site != call_site))
        drop_frame(t);
}

/* An exit that does not fit the call on top. True if it fits one below, which is on top then. */
COLD bool probe_frames_resync_exit(probe_thread *t, void *function, void *call_site,
                                   uintptr_t address)
{
    if (t->too_deep) {
        const bool is_deep = address <= t->frame->address;
        t->too_deep = is_deep ? t->too_deep - 1 : 0;
        if (!t->too_deep)
            t->frame--;
        if (is_deep)
            return false;
    }
    probe_frame *f = t->frame;
    while (f > t->frames &&
           ((f->function & ~PROBE_LEFT_OUT) != (uintptr_t)function || f->call_site != call_site))
        f--;
    if (f == t->frames) {
        t->record->stray_exits++;
        return false;
    }
    while (t->frame > f)
        drop_frame(t);
    return true;
}
