/*
 * Threads and their timers. Each thread has a timer on its own CPU time in user code: the kernel
 * looks at it when its tick interrupts the thread there, so that bursts begin in proportion to
 * where user code spends its time, not behind system calls that take long, and never while the
 * thread sleeps. The signal is sent on the way back to user code and interrupts no system call.
 */
#include <step_runtime/step_internal.h>

#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

enum { PPM = 1000000, FEEDBACK = 4, AVERAGE = 8, COST_GUESS_NS = 2200000, OWED_PERIODS_MAX = 64 };

static const uint64_t watch_ns = 20000000;

/* The clock of the calling thread that counts its ticks in user code: the kernel's clock id of no
 * thread in particular, of one thread, of the kind CPUCLOCK_VIRT. */
static const long user_clock = (long)(int)(~0u << 3 | 4 | 1);

/* ------------------------------------------------------------------ the time to the next burst */

/* Native CPU time that a burst of this cost must be spread over. */
static uint64_t period_ns(uint64_t cost_ns)
{
    const step_options *o = &step_this.options;
    return o->interval_ns ? o->interval_ns : cost_ns * PPM / o->overhead_ppm + 1;
}

static uint64_t average_cost(uint64_t cost_ns)
{
    uint64_t average = atomic_load_explicit(&step_this.cost_ns, memory_order_relaxed);
    if (average == 0)
        average = COST_GUESS_NS;
    if (cost_ns)
        average = average - average / AVERAGE + cost_ns / AVERAGE;
    atomic_store_explicit(&step_this.cost_ns, average, memory_order_relaxed);
    return average;
}

static uint64_t next_random(step_self *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

static int64_t clamp(int64_t n, int64_t low, int64_t high)
{
    return n < low ? low : n > high ? high : n;
}

/* The timer fires up to a tick late and bursts differ in cost; what has been owed since the thread
 * began corrects both, slowly. The jitter keeps the bursts off the rhythm of the program. */
static uint64_t next_delay_ns(step_self *self, uint64_t cost_ns)
{
    int64_t period = (int64_t)period_ns(average_cost(cost_ns));
    if (cost_ns)
        self->owed_ns += (int64_t)period_ns(cost_ns);
    self->owed_ns = clamp(self->owed_ns, -OWED_PERIODS_MAX * period, OWED_PERIODS_MAX * period);
    int64_t mean = period;
    if (cost_ns)
        mean = clamp(period + (self->owed_ns - period) / FEEDBACK, period / 4 + 1, 4 * period);
    return (uint64_t)mean / 2 + next_random(self) % (uint64_t)mean + 1;
}

static void set_timer(const step_self *self, uint64_t delay_ns, uint64_t again_ns)
{
    const uint64_t second = 1000000000;
    struct itimerspec t = {
        .it_value = {(time_t)(delay_ns / second), (long)(delay_ns % second)},
        .it_interval = {(time_t)(again_ns / second), (long)(again_ns % second)},
    };
    step_sys(SYS_timer_settime, self->timer, 0, (long)&t, 0);
}

/* It fires again while nobody sets it: a signal can get lost, and a burst can be left without a
 * trap to end it. */
void step_thread_watch(step_self *self)
{
    set_timer(self, watch_ns, watch_ns);
}

void step_thread_arm(step_self *self, uint64_t cost_ns)
{
    if (!self->timed)
        return;
    uint64_t delay = next_delay_ns(self, cost_ns);
    set_timer(self, delay, 2 * delay + watch_ns);
}

/* ------------------------------------------------------------------ begin and end */

static bool make_timer(step_self *self)
{
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID,
        .sigev_signo = (int)step_this.options.signal,
        .sigev_value = {.sival_ptr = &step_this},
    };
    event._sigev_un._tid = (pid_t)self->tid;
    return step_sys(SYS_timer_create, user_clock, (long)&event, (long)&self->timer, 0) == 0;
}

static uint64_t make_seed(uint32_t tid)
{
    uint64_t seed = step_this.options.seed;
    if (seed == 0)
        step_sys(SYS_getrandom, (long)&seed, sizeof seed, 1 /* do not wait */, 0);
    seed ^= tid * UINT64_C(0x9E3779B97F4A7C15);
    return seed ? seed : 1;
}

/* The first burst comes within one period, at any time of it: threads that end before have their
 * share of the bursts of all. */
void step_thread_begin(void)
{
    step_self *self = &step_me;
    if (atomic_load(&step_this.stopped))
        return;
    self->tid = (uint32_t)step_sys(SYS_gettid, 0, 0, 0, 0);
    self->random = make_seed(self->tid);
    self->begin_time_ns = step_clock_ns(CLOCK_MONOTONIC);
    self->end_cpu_ns = step_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    self->owed_ns = 0;
    if (!make_timer(self)) {
        step_count(&step_this.header->timerless_count, 1);
        return;
    }
    step_count(&step_this.header->thread_count, 1);
    self->timed = true;
    uint64_t period = period_ns(average_cost(0));
    set_timer(self, next_random(self) % period + 1, period + watch_ns);
}

/* With the flags set, a trap that comes before the system call ends the burst. */
void step_thread_pause(step_self *self)
{
    self->timed = false;
    self->step_limit = 0;
    set_timer(self, 0, 0);
    /* A signal that is held back would meet the program that comes with an exec. */
    const uint64_t signals = UINT64_C(1) << (step_this.options.signal - 1);
    const struct timespec at_once = {0};
    step_sys(SYS_rt_sigtimedwait, (long)&signals, 0, (long)&at_once, sizeof signals);
}

void step_thread_resume(step_self *self)
{
    self->timed = true;
    step_thread_arm(self, 0);
}

void step_thread_end(void)
{
    step_self *self = &step_me;
    if (!self->timed)
        return;
    step_thread_pause(self);
    step_sys(SYS_timer_delete, self->timer, 0, 0, 0);
    if (!self->listed)
        return;
    uint64_t first;
    step_thread *t = step_slots_reserve(1, &first);
    if (!t)
        return;
    t->slot.time_ns = step_clock_ns(CLOCK_MONOTONIC);
    t->tid = self->tid;
    t->cpu_ns = step_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    step_slot_finish(t, STEP_SLOT_THREAD_END, 1);
}

void step_thread_after_fork(void)
{
    step_self *self = &step_me;
    self->active = self->timed = self->listed = false;
    self->record = NULL;
}

/* ------------------------------------------------------------------ new threads */

typedef struct start {
    void *(*routine)(void *);
    int (*int_routine)(void *); /* of thrd_create */
    void *arg;
    uint8_t blocked;
} start;

static void end_thread(void *unused)
{
    (void)unused;
    step_thread_end();
}

static void begin_thread(void *arg, start *s)
{
    *s = *(start *)arg;
    free(arg);
    step_me.blocked = s->blocked;
    step_thread_begin();
}

/* The end is seen however it comes: return, pthread_exit or cancellation. */
static void *run_thread(void *arg)
{
    start s;
    void *result;
    begin_thread(arg, &s);
    pthread_cleanup_push(end_thread, NULL);
    result = s.routine(s.arg);
    pthread_cleanup_pop(1);
    return result;
}

static int run_c11_thread(void *arg)
{
    start s;
    int result;
    begin_thread(arg, &s);
    pthread_cleanup_push(end_thread, NULL);
    result = s.int_routine(s.arg);
    pthread_cleanup_pop(1);
    return result;
}

static start *make_start(void *arg)
{
    start *s = step_this.recording ? malloc(sizeof *s) : NULL;
    if (s)
        *s = (start){.arg = arg, .blocked = step_me.blocked};
    return s;
}

typedef int (*pthread_create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int (*thrd_create_fn)(thrd_t *, thrd_start_t, void *);

STEP_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                               void *(*routine)(void *), void *arg)
{
    static _Atomic(step_function) cache;
    pthread_create_fn next = (pthread_create_fn)step_next("pthread_create", &cache);
    start *s = make_start(arg);
    if (!s)
        return next(thread, attr, routine, arg);
    s->routine = routine;
    int result = next(thread, attr, run_thread, s);
    if (result != 0)
        free(s);
    return result;
}

STEP_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *arg)
{
    static _Atomic(step_function) cache;
    thrd_create_fn next = (thrd_create_fn)step_next("thrd_create", &cache);
    start *s = make_start(arg);
    if (!s)
        return next(thread, routine, arg);
    s->int_routine = routine;
    int result = next(thread, run_c11_thread, s);
    if (result != thrd_success)
        free(s);
    return result;
}
