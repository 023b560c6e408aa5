/*
 * The probes: what a compiler calls at the entry and the exit of every function.
 *
 * A probe ends an interval that the thread's last probe began. It goes to the function that was on
 * top meanwhile: at an entry that is the caller.
 *
 * Each probe is written twice. The quick one is for what nearly always is: the thread is known, no
 * event of the operating system came, the function is the one called from here last, or the one
 * that was called. It looks first and writes then, calls nothing that returns to it, and so saves
 * no register; reading the clock is the larger part of it. Anything else goes to the patient one.
 */
#include "runtime.h"

#include <sys/mman.h>

#define BARRIER() __asm__ volatile("" ::: "memory")
#define FRAME() ((uintptr_t)__builtin_frame_address(0))
#define ALWAYS static inline __attribute__((always_inline, no_instrument_function))

/* Is the call on top over, though its exit never came? A call from it has a frame below its own,
 * or, inlined into it or entered by a jump, its very frame and call site. */
static inline NO_PROBE bool is_over(const probe_frame *f, const void *call_site, uintptr_t address)
{
    return f->address < address || (f->address == address && f->call_site != call_site);
}

/* ------------------------------------------------------------------ patient */

/* Charges the interval up to now to the current node. Returns whether an event fell into it. */
static COLD bool end_interval(probe_thread *t)
{
    const uint64_t now = probe_clock();
    uint64_t interval = now - t->last;
    const bool has_event = *t->os_word != t->os_expected && probe_os_confirm(t);
    if ((int64_t)interval < 0) {
        interval = 0;
        t->record->clock_steps++;
    }
    spgo_spp_node *node = t->node;
    node->elapsed_exclusive += interval;
    t->totals[0] += interval;
    if (!has_event) {
        node->application_exclusive += interval;
        t->totals[1] += interval;
    } else if (node->os_events != UINT32_MAX) {
        node->os_events++;
    }
    t->last = now;
    return has_event;
}

static COLD void add_event(probe_thread *t, unsigned kind, bool has_event)
{
    if (!t->event)
        return;
    if (t->event_end - t->event < 2)
        probe_events_room(t);
    uint64_t delta = t->last - t->event_clock;
    if (delta > UINT32_MAX) {
        *t->event++ = (uint64_t)SPGO_SPP_LATER << 62 | (delta & (UINT64_MAX >> 3));
        delta = 0;
    }
    *t->event++ = (uint64_t)kind << 62 | (uint64_t)has_event << 61 |
                  (uint64_t)node_number(t, t->node) << 32 | delta;
    t->event_chunk->used_bytes = (uint32_t)((char *)t->event - (char *)t->event_chunk);
    t->event_clock = t->last;
}

static COLD void push(probe_thread *t, void *function, void *call_site, uintptr_t address)
{
    if (t->frame >= t->deepest) { /* a frame that no exit fits, so that exits are looked at */
        t->record->deep_calls++;
        if (!t->too_deep++)
            *++t->frame = (probe_frame){.node = t->node, .address = address, .call_site = t};
        return;
    }
    spgo_spp_node *node = probe_tree_child(t, t->node, function);
    if (!node) {
        *++t->frame = (probe_frame){.node = t->node,
                                    .call_site = call_site,
                                    .address = address,
                                    .function = (uintptr_t)function | PROBE_LEFT_OUT};
        return;
    }
    if (!node->calls++)
        node->call_site = (uintptr_t)call_site;
    *++t->frame = (probe_frame){.node = node,
                                .call_site = call_site,
                                .address = address,
                                .function = (uintptr_t)function,
                                .at_entry = t->totals};
    t->node = node;
}

static COLD void enter_patiently(void *function, void *call_site, uintptr_t address)
{
    probe_thread *t = probe_thread_look(address);
    if (!t)
        return;
    const bool has_event = end_interval(t);
    if (is_over(t->frame, call_site, address))
        probe_frames_resync_enter(t, call_site, address);
    push(t, function, call_site, address);
    if (!t->too_deep && !(t->frame->function & PROBE_LEFT_OUT))
        add_event(t, SPGO_SPP_ENTER, has_event);
    BARRIER();
    t->busy = 0;
}

static COLD void exit_patiently(void *function, void *call_site, uintptr_t address)
{
    probe_thread *t = probe_thread_look(address);
    if (!t)
        return;
    const bool has_event = end_interval(t);
    if (probe_frames_resync_exit(t, function, call_site, address)) {
        if (!(t->frame->function & PROBE_LEFT_OUT))
            add_event(t, SPGO_SPP_EXIT, has_event);
        probe_frames_close(t);
    }
    BARRIER();
    t->busy = 0;
}

/* A call's values against what the function's were before: inclusive, and exclusive. */
static COLD void note_values(probe_thread *t, spgo_spp_node *node, probe_pair inclusive,
                             probe_pair exclusive)
{
    const uint64_t values[4] = {inclusive[0], inclusive[1], exclusive[0], exclusive[1]};
    probe_bounds *b = &t->bounds[node_number(t, node)];
    for (int i = 0; i < 4; i++) {
        if (~values[i] > node->not_min[i])
            node->not_min[i] = ~values[i];
        if (values[i] > node->max[i])
            node->max[i] = values[i];
        const uint64_t min = ~node->not_min[i], max = node->max[i];
        b->min[i] = min < INT32_MAX ? (int32_t)min : INT32_MAX;
        b->max[i] = max < INT32_MAX ? (int32_t)max : INT32_MAX;
    }
}

COLD void probe_frames_close(probe_thread *t)
{
    probe_frame *f = t->frame;
    if (f->function & PROBE_LEFT_OUT) {
        f[-1].children += f->children;
    } else {
        const probe_pair inclusive = t->totals - f->at_entry;
        f[-1].children += inclusive;
        note_values(t, f->node, inclusive, inclusive - f->children);
    }
    t->frame--;
    t->node = t->frame->node;
}

static COLD void note_values_last(probe_thread *t, spgo_spp_node *node, probe_pair inclusive,
                                  probe_pair exclusive)
{
    note_values(t, node, inclusive, exclusive);
    BARRIER();
    t->busy = 0;
}

/* ------------------------------------------------------------------ quick */

#if defined(__x86_64__)

/* Is there anything but time to note? */
static inline NO_PROBE bool is_plain(const probe_thread *t, uint64_t interval)
{
    return LIKELY(t->control == probe_process_now.header->control) &&
           LIKELY(*t->os_word == t->os_expected) && LIKELY(interval <= UINT32_MAX);
}

/* With events, is there room for one, and does the time since the last fit into it? */
static inline NO_PROBE bool has_room_for_event(const probe_thread *t, uint64_t now)
{
    return LIKELY(!t->event) ||
           (LIKELY(t->event_end - t->event >= 2) && LIKELY(now - t->event_clock <= UINT32_MAX));
}

static inline NO_PROBE void add_plain_event(probe_thread *t, unsigned kind,
                                            const spgo_spp_node *node, uint64_t now)
{
    if (LIKELY(!t->event))
        return;
    *t->event++ = (uint64_t)kind << 62 | (uint64_t)node_number(t, node) << 32 |
                  (uint32_t)(now - t->event_clock);
    t->event_chunk->used_bytes = (uint32_t)((char *)t->event - (char *)t->event_chunk);
    t->event_clock = now;
}

static inline NO_PROBE void add_interval(probe_thread *t, spgo_spp_node *node, uint64_t now,
                                         uint64_t interval)
{
    const probe_pair both = {interval, interval};
    *(probe_pair *)&node->elapsed_exclusive += both;
    t->totals += both;
    t->last = now;
}

ALWAYS void enter(void *function, void *call_site, uintptr_t address)
{
    probe_thread *t = probe_self;
    if (UNLIKELY(t->busy)) {
        enter_patiently(function, call_site, address);
        return;
    }
    t->busy = address;
    BARRIER();
    spgo_spp_node *node = t->node, *child = &t->nodes[node->child];
    probe_frame *f = t->frame;
    const uint64_t now = __builtin_ia32_rdtsc(), interval = now - t->last;
    if (UNLIKELY(!is_plain(t, interval)) || UNLIKELY(child->function != (uintptr_t)function) ||
        UNLIKELY(is_over(f, call_site, address)) || UNLIKELY(f >= t->deepest) ||
        UNLIKELY(!has_room_for_event(t, now))) {
        enter_patiently(function, call_site, address);
        return;
    }
    add_interval(t, node, now, interval);
    child->calls++;
    f[1].node = child;
    f[1].call_site = call_site;
    f[1].address = address;
    f[1].function = (uintptr_t)function;
    f[1].at_entry = t->totals;
    f[1].children = (probe_pair){0, 0};
    t->frame = f + 1;
    t->node = child;
    add_plain_event(t, SPGO_SPP_ENTER, child, now);
    BARRIER();
    t->busy = 0;
}

ALWAYS void leave(void *function, void *call_site, uintptr_t address)
{
    probe_thread *t = probe_self;
    if (UNLIKELY(t->busy)) {
        exit_patiently(function, call_site, address);
        return;
    }
    t->busy = address;
    BARRIER();
    spgo_spp_node *node = t->node;
    probe_frame *f = t->frame;
    const uint64_t now = __builtin_ia32_rdtsc(), interval = now - t->last;
    if (UNLIKELY(!is_plain(t, interval)) || UNLIKELY(f->call_site != call_site) ||
        UNLIKELY(f->function != (uintptr_t)function) || UNLIKELY(!has_room_for_event(t, now))) {
        exit_patiently(function, call_site, address);
        return;
    }
    add_interval(t, node, now, interval);
    add_plain_event(t, SPGO_SPP_EXIT, node, now);
    const probe_pair inclusive = t->totals - f->at_entry;
    const probe_pair exclusive = inclusive - f->children;
    f[-1].children += inclusive;
    t->frame = f - 1;
    t->node = f[-1].node;

    const probe_bounds *b =
        (const probe_bounds *)((char *)t->bounds + (((char *)node - (char *)t->nodes) >> 2));
    const probe_quad in = (probe_quad)inclusive, ex = (probe_quad)exclusive;
    const probe_quad low = __builtin_shufflevector(in, ex, 0, 2, 4, 6);
    const probe_quad high = __builtin_shufflevector(in, ex, 1, 3, 5, 7);
    const probe_pair news = (probe_pair)((low < b->min) | (low > b->max) | high);
    if (UNLIKELY(news[0] | news[1])) {
        note_values_last(t, node, inclusive, exclusive);
        return;
    }
    BARRIER();
    t->busy = 0;
}

#else

ALWAYS void enter(void *function, void *call_site, uintptr_t address)
{
    enter_patiently(function, call_site, address);
}

ALWAYS void leave(void *function, void *call_site, uintptr_t address)
{
    exit_patiently(function, call_site, address);
}

#endif

/* ------------------------------------------------------------------ -finstrument-functions */

NO_PROBE void __cyg_profile_func_enter(void *function, void *call_site)
{
    enter(function, call_site, FRAME());
}

NO_PROBE void __cyg_profile_func_exit(void *function, void *call_site)
{
    leave(function, call_site, FRAME());
}

/* ------------------------------------------------------------------ XRay */

/* Sleds tell numbers of functions; XRay's own runtime, which is in the program, knows their
 * addresses. It knows no call sites, and needs none: nothing is inlined after its sleds are set.
 * Its functions are hidden in the program, so that this works only where the runtime is linked into
 * it. */
enum { XRAY_ENTRY = 0, XRAY_EXIT = 1, XRAY_TAIL = 2, XRAY_ENTRY_WITH_ARGUMENT = 3 };

#define XRAY __attribute__((weak)) extern
XRAY int __xray_set_handler(void (*handler)(int32_t id, int type));
XRAY int __xray_patch(void);
XRAY int __xray_unpatch(void);
XRAY uintptr_t __xray_function_address(int32_t id);
XRAY size_t __xray_max_function_id(void);

static void **xray_functions; /* by id; NULL: not asked for yet */
static size_t xray_function_count;

static COLD void *xray_ask(int32_t id)
{
    void *function = (void *)__xray_function_address(id);
    if ((size_t)id < xray_function_count)
        xray_functions[id] = function;
    return function;
}

static NO_PROBE void xray_handler(int32_t id, int type)
{
    void *function = (size_t)id < xray_function_count ? xray_functions[id] : NULL;
    if (UNLIKELY(!function))
        function = xray_ask(id);
    if (type == XRAY_EXIT || type == XRAY_TAIL)
        leave(function, NULL, FRAME());
    else
        enter(function, NULL, FRAME());
}

/* Is the program built with XRay? Then its sleds are switched on. */
COLD void probe_xray_open(void)
{
    if (!__xray_set_handler)
        return;
    const size_t count = __xray_max_function_id() + 1;
    void *table = mmap(NULL, count * sizeof(void *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return;
    xray_functions = table;
    xray_function_count = count;
    __xray_set_handler(xray_handler);
    if (probe_process_now.header->control & SPGO_SPP_ACTIVE)
        __xray_patch();
}

/* Sleds that are switched off cost next to nothing: as long as the process collects nothing. */
COLD void probe_xray_switch(bool on)
{
    if (xray_functions && on)
        __xray_patch();
    else if (xray_functions)
        __xray_unpatch();
}

/* ------------------------------------------------------------------ -pg -mfentry */

#if defined(__x86_64__)

/*
 * __fentry__ is called before a function has done anything: every register that can hold an
 * argument is saved. Its frame is where the function's return address lies, and so is that of
 * __return__, which is called right before the function returns (-minstrument-return=call).
 */
__attribute__((visibility("hidden"))) void probe_fentry(void *function, void *call_site,
                                                        uintptr_t address);
__attribute__((visibility("hidden"))) void probe_return(uintptr_t address);

NO_PROBE void probe_fentry(void *function, void *call_site, uintptr_t address)
{
    enter(function, call_site, address);
}

NO_PROBE void probe_return(uintptr_t address)
{
    const probe_thread *t = probe_self;
    const probe_frame *f = t->frame;
    if (UNLIKELY(!f))
        return; /* before the thread's first entry */
    while (f->address < address)
        f--; /* calls whose exits never came: the exit below finds them over */
    if (LIKELY(f->address == address))
        leave((void *)(uintptr_t)f->function, f->call_site, address);
}

__asm__(".pushsection .text\n"
        ".globl __fentry__\n"
        ".type __fentry__, @function\n"
        "__fentry__:\n"
        "    push %rax\n"
        "    push %rcx\n"
        "    push %rdx\n"
        "    push %rsi\n"
        "    push %rdi\n"
        "    push %r8\n"
        "    push %r9\n"
        "    push %r10\n"
        "    push %r11\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    sub $128, %rsp\n"
        "    and $-16, %rsp\n"
        "    movaps %xmm0, (%rsp)\n"
        "    movaps %xmm1, 16(%rsp)\n"
        "    movaps %xmm2, 32(%rsp)\n"
        "    movaps %xmm3, 48(%rsp)\n"
        "    movaps %xmm4, 64(%rsp)\n"
        "    movaps %xmm5, 80(%rsp)\n"
        "    movaps %xmm6, 96(%rsp)\n"
        "    movaps %xmm7, 112(%rsp)\n"
        "    mov 80(%rbp), %rdi\n" /* behind the call of this */
        "    sub $5, %rdi\n"
        "    mov 88(%rbp), %rsi\n" /* behind the call of the function */
        "    lea 88(%rbp), %rdx\n"
        "    call probe_fentry\n"
        "    movaps (%rsp), %xmm0\n"
        "    movaps 16(%rsp), %xmm1\n"
        "    movaps 32(%rsp), %xmm2\n"
        "    movaps 48(%rsp), %xmm3\n"
        "    movaps 64(%rsp), %xmm4\n"
        "    movaps 80(%rsp), %xmm5\n"
        "    movaps 96(%rsp), %xmm6\n"
        "    movaps 112(%rsp), %xmm7\n"
        "    mov %rbp, %rsp\n"
        "    pop %rbp\n"
        "    pop %r11\n"
        "    pop %r10\n"
        "    pop %r9\n"
        "    pop %r8\n"
        "    pop %rdi\n"
        "    pop %rsi\n"
        "    pop %rdx\n"
        "    pop %rcx\n"
        "    pop %rax\n"
        "    ret\n"
        ".size __fentry__, .-__fentry__\n"
        ".globl __return__\n"
        ".type __return__, @function\n"
        "__return__:\n" /* results may be in rax, rdx, xmm0 and xmm1 */
        "    push %rax\n"
        "    push %rdx\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    sub $32, %rsp\n"
        "    and $-16, %rsp\n"
        "    movaps %xmm0, (%rsp)\n"
        "    movaps %xmm1, 16(%rsp)\n"
        "    lea 32(%rbp), %rdi\n"
        "    call probe_return\n"
        "    movaps (%rsp), %xmm0\n"
        "    movaps 16(%rsp), %xmm1\n"
        "    mov %rbp, %rsp\n"
        "    pop %rbp\n"
        "    pop %rdx\n"
        "    pop %rax\n"
        "    ret\n"
        ".size __return__, .-__return__\n"
        ".popsection\n");

#endif
