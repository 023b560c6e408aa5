/*
 * How a probe learns, with one load, whether an event of the operating system fell into an
 * interval.
 *
 * The kernel keeps a word for every thread that looks after restartable sequences: a pointer to the
 * description of one. When it returns to the thread after it had another on the processor, or to
 * run a signal handler, and the thread is not inside that sequence, it clears the word. The
 * sequence described here is empty, so a thread is never inside: the word is a note that says
 * whether the thread was interrupted since it was set. It costs nothing and needs no privilege.
 *
 * What it does not tell comes from perf: how long a thread was off its processor, page faults,
 * system calls. All of a thread go to one ring, and the ring's head is the word that changes.
 */
#include "runtime.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define HAVE_RSEQ 1
#endif
#endif
#ifndef HAVE_RSEQ
#define HAVE_RSEQ 0
#endif

enum { RING_PAGES = 8, PAGE = 4096, RING_BYTES = RING_PAGES * PAGE };

/* ------------------------------------------------------------------ restartable sequences */

#if HAVE_RSEQ

/* Before the place to abort to there must be this word. Nothing ever gets there. */
__asm__(".pushsection .text\n"
        ".balign 4\n"
        ".long 0x53053053\n"
        "probe_rseq_abort:\n"
        "ud2\n"
        ".popsection\n");
extern const char probe_rseq_abort[] __attribute__((visibility("hidden")));

static struct rseq_cs note;

static COLD volatile uint64_t *find_rseq_cs(void)
{
    if (__rseq_size < 20)
        return NULL; /* the C library did not register it, or the kernel has none */
    note.start_ip = note.abort_ip = (uintptr_t)probe_rseq_abort;
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return (volatile uint64_t *)&area->rseq_cs;
}

static COLD uint64_t note_value(void)
{
    return (uintptr_t)&note;
}

#else

static COLD volatile uint64_t *find_rseq_cs(void)
{
    return NULL;
}

static COLD uint64_t note_value(void)
{
    return 0;
}

#endif

/* ------------------------------------------------------------------ perf */

static COLD int open_event(uint32_t type, uint64_t config, bool switches)
{
    struct perf_event_attr attr = {.type = type,
                                   .size = sizeof attr,
                                   .config = config,
                                   .sample_period = switches ? 0 : 1,
                                   .sample_type = PERF_SAMPLE_TIME,
                                   .exclude_kernel = type != PERF_TYPE_TRACEPOINT,
                                   .exclude_hv = 1,
                                   .sample_id_all = 1,
                                   .context_switch = switches,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static COLD uint64_t tracepoint_sys_enter(void)
{
    static const char *const places[] = {
        "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
        "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char text[32] = {0};
        int fd = open(places[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        const ssize_t n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n > 0)
            return strtoull(text, NULL, 10);
    }
    return 0;
}

static COLD int open_kind(uint32_t kind)
{
    if (kind == SPGO_SPP_OS_SWITCH_TIME)
        return open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, true);
    if (kind == SPGO_SPP_OS_FAULT)
        return open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false);
    const uint64_t id = tracepoint_sys_enter();
    return id ? open_event(PERF_TYPE_TRACEPOINT, id, false) : -1;
}

static const uint32_t perf_kinds[3] = {SPGO_SPP_OS_SWITCH_TIME, SPGO_SPP_OS_FAULT,
                                       SPGO_SPP_OS_SYSCALL};

static COLD void open_perf(probe_thread *t, uint32_t kinds)
{
    for (int i = 0; i < 3; i++) {
        t->perf_fds[i] = kinds & perf_kinds[i] ? open_kind(perf_kinds[i]) : -1;
        if (t->perf_fds[i] < 0)
            continue;
        if (t->perf_page) {
            ioctl(t->perf_fds[i], PERF_EVENT_IOC_SET_OUTPUT,
                  t->perf_fds[0] >= 0 ? t->perf_fds[0] : t->perf_fds[1]);
            continue;
        }
        void *page =
            mmap(NULL, PAGE + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->perf_fds[i], 0);
        t->perf_page = page == MAP_FAILED ? NULL : page;
    }
}

/* Takes what the ring has. Adds up how long the thread was switched out, in ticks. */
static COLD uint64_t drain(probe_thread *t)
{
    struct perf_event_mmap_page *page = t->perf_page;
    const char *data = (const char *)page + PAGE;
    const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    uint64_t off = 0, at = page->data_tail;
    while (head - at >= sizeof(struct perf_event_header)) {
        struct perf_event_header h;
        uint64_t time_ns;                             /* the last word of every record */
        memcpy(&h, data + at % RING_BYTES, sizeof h); /* records are aligned: no head is split */
        if (h.size < 16 || h.size > head - at)
            break;
        memcpy(&time_ns, data + (at + h.size - sizeof time_ns) % RING_BYTES, sizeof time_ns);
        if (h.type == PERF_RECORD_SWITCH && h.misc & PERF_RECORD_MISC_SWITCH_OUT) {
            t->switched_out_ns = time_ns;
        } else if (h.type == PERF_RECORD_SWITCH && t->switched_out_ns) {
            probe_process_note_clock(); /* what ticks are converted by */
            off += probe_clock_of_ns(time_ns) - probe_clock_of_ns(t->switched_out_ns);
            t->switched_out_ns = 0;
        }
        at += h.size;
    }
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
    return off;
}

/* ------------------------------------------------------------------ policy */

static COLD bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; *p;) {
        const size_t len = strcspn(p, "+");
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p += len + (p[len] == '+');
    }
    return false;
}

COLD uint32_t probe_os_choose(const char *wish, char *notice, size_t notice_bytes)
{
    static const char *const names[3] = {"switch-time", "fault", "syscall"};
    uint32_t kinds = 0;
    if (has_word(wish, "none"))
        return 0;
    if (find_rseq_cs())
        kinds |= SPGO_SPP_OS_RSEQ;
    for (int i = 0; i < 3; i++) {
        const bool is_wanted = has_word(wish, names[i]) || (i == 0 && !kinds);
        const int fd = is_wanted ? open_kind(perf_kinds[i]) : -1;
        if (fd >= 0) {
            close(fd);
            kinds |= perf_kinds[i];
        } else if (is_wanted) {
            snprintf(notice, notice_bytes,
                     "no %s events: perf refuses them to this user here (see "
                     "/proc/sys/kernel/perf_event_paranoid; system calls need root and tracefs)",
                     names[i]);
        }
    }
    return kinds;
}

COLD void probe_os_arm(probe_thread *t)
{
    if (t->perf_page)
        (void)drain(t);
    if (t->rseq_cs)
        *t->rseq_cs = note_value();
    t->os_expected = t->is_rseq_word ? note_value() : *t->os_word;
}

COLD void probe_os_open(probe_thread *t)
{
    const uint32_t kinds = probe_process_now.header->os_events;
    for (int i = 0; i < 3; i++)
        t->perf_fds[i] = -1;
    t->rseq_cs = kinds & SPGO_SPP_OS_RSEQ ? find_rseq_cs() : NULL;
    open_perf(t, kinds);
    t->os_word = &t->os_none;
    t->is_rseq_word = t->rseq_cs && !(kinds & (SPGO_SPP_OS_FAULT | SPGO_SPP_OS_SYSCALL));
    if (t->is_rseq_word)
        t->os_word = t->rseq_cs;
    else if (t->perf_page)
        t->os_word = (volatile const uint64_t *)&t->perf_page->data_head;
    probe_os_arm(t);
}

COLD void probe_os_close(probe_thread *t)
{
    if (t->rseq_cs && *t->rseq_cs == note_value())
        *t->rseq_cs = 0;
    if (t->perf_page)
        munmap(t->perf_page, PAGE + RING_BYTES);
    for (int i = 0; i < 3; i++) {
        if (t->perf_fds[i] > 0)
            close(t->perf_fds[i]);
    }
}

COLD bool probe_os_confirm(probe_thread *t)
{
    bool has_event = true;
    if (t->is_rseq_word && *t->rseq_cs != 0) {
        /* Somebody else's note: a library with sequences of its own. It may stand for an event. */
        t->record->unknown_os++;
        has_event = false;
    }
    if (t->perf_page) {
        const uint64_t off = drain(t);
        t->node->off_cpu += off;
        t->record->off_cpu += off;
    }
    if (t->rseq_cs)
        *t->rseq_cs = note_value();
    t->os_expected = t->is_rseq_word ? note_value() : *t->os_word;
    return has_event;
}
