/*
 * The program's signals. SIGTRAP and the timers' signal have handlers of this library; what the
 * program asks of them is kept here, told to it when it asks back, and done when such a signal is
 * none of ours. They are also left out of every set that the program blocks: a trap that finds
 * SIGTRAP blocked would kill it.
 */
#include <step_runtime/step_internal.h>

#include <dlfcn.h>
#include <string.h>

enum { RESTORER = 0x04000000, SIGNAL_BYTES = 8 };

/* What rt_sigaction takes. */
typedef struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
} kernel_action;

/* Two copies, so that a handler never sees one half changed. */
typedef struct wanted {
    struct sigaction actions[2];
    _Atomic unsigned current;
} wanted;

static wanted of_trap, of_timer;

/* Debuggers and unwinders know these two instructions by their bytes. */
void step_restore(void);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl step_restore\n"
        ".hidden step_restore\n"
        ".type step_restore,@function\n"
        "step_restore:\n"
        "    mov $15, %rax\n"
        "    syscall\n"
        ".size step_restore, . - step_restore\n");

step_function step_next(const char *name, _Atomic(step_function) *cache)
{
    step_function next = atomic_load_explicit(cache, memory_order_relaxed);
    if (!next) {
        void *symbol = dlsym(RTLD_NEXT, name);
        memcpy(&next, &symbol, sizeof next); /* C knows no cast between the two */
        atomic_store_explicit(cache, next, memory_order_relaxed);
    }
    return next;
}

/* ------------------------------------------------------------------ masks */

static uint64_t bit_of(uint32_t sig)
{
    return UINT64_C(1) << (sig - 1);
}

static uint64_t our_signals(void)
{
    return bit_of(SIGTRAP) | bit_of(step_this.options.signal);
}

/* The C library's sets begin with what the kernel takes. */
static uint64_t *word_of(sigset_t *set)
{
    return (uint64_t *)(void *)set;
}

static uint64_t word_in(const sigset_t *set)
{
    return *(const uint64_t *)(const void *)set;
}

static uint8_t blocked_in(uint64_t set)
{
    return (uint8_t)((set & bit_of(SIGTRAP) ? STEP_BLOCKED_TRAP : 0) |
                     (set & bit_of(step_this.options.signal) ? STEP_BLOCKED_TIMER : 0));
}

static uint64_t set_of_blocked(uint8_t blocked)
{
    return (blocked & STEP_BLOCKED_TRAP ? bit_of(SIGTRAP) : 0) |
           (blocked & STEP_BLOCKED_TIMER ? bit_of(step_this.options.signal) : 0);
}

/* ------------------------------------------------------------------ dispositions */

static wanted *wanted_of(int sig)
{
    if (!step_this.recording)
        return NULL;
    return sig == SIGTRAP ? &of_trap : (uint32_t)sig == step_this.options.signal ? &of_timer : NULL;
}

static struct sigaction get_wanted(const wanted *w)
{
    return w->actions[atomic_load(&w->current) & 1];
}

static void set_wanted(wanted *w, const struct sigaction *action)
{
    unsigned next = atomic_load(&w->current) + 1;
    w->actions[next & 1] = *action;
    atomic_store(&w->current, next);
}

static bool take_over(int sig, void (*handler)(int, siginfo_t *, void *), wanted *w)
{
    const kernel_action ours = {
        .handler = handler,
        .flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | RESTORER,
        .restorer = step_restore,
        .mask = UINT64_MAX,
    };
    kernel_action old = {0};
    if (step_sys(SYS_rt_sigaction, sig, (long)&ours, (long)&old, SIGNAL_BYTES) != 0)
        return false;
    struct sigaction action = {.sa_flags = (int)(old.flags & ~(unsigned long)RESTORER)};
    action.sa_sigaction = old.handler;
    *word_of(&action.sa_mask) = old.mask;
    set_wanted(w, &action);
    return true;
}

bool step_signals_begin(void)
{
    if (!take_over(SIGTRAP, step_on_trap, &of_trap) ||
        !take_over((int)step_this.options.signal, step_on_timer, &of_timer))
        return false;
    uint64_t ours = our_signals(), old = 0;
    step_sys(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&ours, (long)&old, SIGNAL_BYTES);
    step_me.blocked = blocked_in(old);
    return true;
}

bool step_signals_ready(const ucontext_t *context)
{
    kernel_action now = {0};
    step_sys(SYS_rt_sigaction, SIGTRAP, 0, (long)&now, SIGNAL_BYTES);
    if (now.handler != step_on_trap) /* taken by a system call of the program's own */
        atomic_store(&step_this.stopped, true);
    return now.handler == step_on_trap && !(word_in(&context->uc_sigmask) & bit_of(SIGTRAP));
}

/* ------------------------------------------------------------------ signals of the program */

static void raise_in_kernel(int sig)
{
    step_sys(SYS_tgkill, step_pid(), step_sys(SYS_gettid, 0, 0, 0, 0), sig, 0);
}

/* Ends the process as the signal would. */
static void do_default(int sig)
{
    const kernel_action none = {.handler = NULL};
    const uint64_t set = bit_of((uint32_t)sig);
    step_sys(SYS_rt_sigaction, sig, (long)&none, 0, SIGNAL_BYTES);
    raise_in_kernel(sig);
    step_sys(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, 0, SIGNAL_BYTES);
}

static void call_handler(const struct sigaction *a, int sig, siginfo_t *info, ucontext_t *context)
{
    uint64_t mask = word_in(&context->uc_sigmask) | word_in(&a->sa_mask);
    mask &= ~our_signals();
    step_sys(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, SIGNAL_BYTES);
    if (a->sa_flags & SA_SIGINFO)
        a->sa_sigaction(sig, info, context);
    else
        a->sa_handler(sig);
}

void step_signals_forward(int sig, siginfo_t *info, ucontext_t *context)
{
    wanted *w = sig == SIGTRAP ? &of_trap : &of_timer;
    struct sigaction a = get_wanted(w);
    uint8_t bit = sig == SIGTRAP ? STEP_BLOCKED_TRAP : STEP_BLOCKED_TIMER;
    bool sent = info->si_code <= 0; /* by a process or a timer, not by an instruction */
    if (step_me.blocked & bit) {
        if (sent)
            step_me.pending |= bit;
        else
            do_default(sig);
        return;
    }
    if (a.sa_handler == SIG_IGN && sent)
        return;
    if (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN) {
        do_default(sig);
        return;
    }
    if (a.sa_flags & (int)SA_RESETHAND) {
        const struct sigaction none = {.sa_handler = SIG_DFL};
        set_wanted(w, &none);
    }
    /* Unlike the kernel this lets the handler be entered again while it runs: were the signal noted
     * as blocked meanwhile, a longjmp out of the handler would leave it so. */
    call_handler(&a, sig, info, context);
}

/* ------------------------------------------------------------------ functions stood in front of */

typedef int (*sigaction_fn)(int, const struct sigaction *, struct sigaction *);
typedef int (*sigmask_fn)(int, const sigset_t *, sigset_t *);
typedef void (*(*signal_fn)(int, void (*)(int)))(int);

STEP_EXPORT int sigaction(int sig, const struct sigaction *restrict action,
                          struct sigaction *restrict old)
{
    static _Atomic(step_function) cache;
    wanted *w = wanted_of(sig);
    if (w) {
        const struct sigaction before = get_wanted(w);
        if (action)
            set_wanted(w, action);
        if (old)
            *old = before;
        return 0;
    }
    sigaction_fn next = (sigaction_fn)step_next("sigaction", &cache);
    if (!action || !step_this.recording)
        return next(sig, action, old);
    struct sigaction changed = *action;
    *word_of(&changed.sa_mask) &= ~our_signals();
    return next(sig, &changed, old);
}

/* signal() and its relatives differ in flags, and whether the signal is blocked meanwhile. */
static void (*set_handler(wanted *w, int sig, void (*handler)(int), int flags))(int)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (!(flags & SA_NODEFER))
        *word_of(&action.sa_mask) = bit_of((uint32_t)sig);
    struct sigaction before = get_wanted(w);
    set_wanted(w, &action);
    return before.sa_handler;
}

#define STEP_SIGNAL_FUNCTION(name, flags)                                                          \
    STEP_EXPORT void (*name(int sig, void (*handler)(int)))(int);                                  \
    STEP_EXPORT void (*name(int sig, void (*handler)(int)))(int)                                   \
    {                                                                                              \
        static _Atomic(step_function) cache;                                                       \
        wanted *w = wanted_of(sig);                                                                \
        return w ? set_handler(w, sig, handler, flags)                                             \
                 : ((signal_fn)step_next(#name, &cache))(sig, handler);                            \
    }

STEP_SIGNAL_FUNCTION(signal, SA_RESTART)
STEP_SIGNAL_FUNCTION(bsd_signal, SA_RESTART)
STEP_SIGNAL_FUNCTION(ssignal, SA_RESTART)
STEP_SIGNAL_FUNCTION(sysv_signal, (int)SA_RESETHAND | SA_NODEFER)
STEP_SIGNAL_FUNCTION(__sysv_signal, (int)SA_RESETHAND | SA_NODEFER)

/* Changes the mask but for our signals, which are only noted. */
static int change_mask(sigmask_fn next, int how, const sigset_t *set, sigset_t *old)
{
    step_self *self = &step_me;
    uint8_t before = self->blocked, after = before;
    sigset_t changed;
    const sigset_t *passed = set;
    if (set) {
        uint8_t named = blocked_in(word_in(set));
        changed = *set;
        after = how == SIG_BLOCK     ? before | named
                : how == SIG_SETMASK ? named
                                     : before & (uint8_t)~named;
        if (how != SIG_UNBLOCK)
            *word_of(&changed) &= ~our_signals();
        passed = &changed;
    }
    int result = next(how, passed, old);
    if (result != 0)
        return result;
    if (old)
        *word_of(old) |= set_of_blocked(before);
    self->blocked = after;
    uint8_t due = self->pending & (uint8_t)~after;
    self->pending &= after;
    if (due & STEP_BLOCKED_TRAP)
        raise_in_kernel(SIGTRAP);
    if (due & STEP_BLOCKED_TIMER)
        raise_in_kernel((int)step_this.options.signal);
    return 0;
}

STEP_EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    static _Atomic(step_function) cache;
    sigmask_fn next = (sigmask_fn)step_next("sigprocmask", &cache);
    return step_this.recording ? change_mask(next, how, set, old) : next(how, set, old);
}

STEP_EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    static _Atomic(step_function) cache;
    sigmask_fn next = (sigmask_fn)step_next("pthread_sigmask", &cache);
    return step_this.recording ? change_mask(next, how, set, old) : next(how, set, old);
}
