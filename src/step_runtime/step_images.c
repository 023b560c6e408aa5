/*
 * What is mapped where, from /proc/self/maps. The table is read by every thread that is in a burst
 * and changed by one at a time; a mapping that changes is taken out before its place is used again.
 */
#include <step_runtime/step_internal.h>

#include <fcntl.h>
#include <sys/uio.h>

enum {
    MAPPINGS_MAX = 8192,
    LINE_MAX = STEP_PATH_MAX + 128,
    IMAGE_SLOTS_MAX = 65536, /* a program that maps code all the time must not fill the disk */
    SCAN_WAITS_MAX = 10000
};

static const uint64_t refresh_ns = 1000000000;

typedef struct mapping {
    _Atomic uint64_t start_addr;
    _Atomic uint64_t end_addr; /* 0: free */
    uint64_t file_offset;
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t prot;
    uint32_t seen; /* the last scan that met it */
    bool silent;   /* the beginning of a file that is no image: not written down */
} mapping;

static struct {
    mapping all[MAPPINGS_MAX];
    _Atomic uint32_t count; /* places that were ever used */
    _Atomic bool scanning;
    _Atomic bool outdated;
    _Atomic uint64_t scan_time_ns;
    uint32_t scan;
    uint32_t slot_count;
    size_t text_size;
    char text[4 * LINE_MAX];
} images;

typedef struct line {
    mapping m;
    const char *path;
    size_t path_size;
} line;

/* ------------------------------------------------------------------ reading a line */

static uint64_t take_number(const char **at, unsigned base)
{
    uint64_t n = 0;
    for (;; ++*at) {
        unsigned c = (unsigned char)**at;
        unsigned digit = c - '0' < 10 ? c - '0' : c - 'a' < 6 ? c - 'a' + 10 : 16;
        if (digit >= base)
            return n;
        n = n * base + digit;
    }
}

static const char *skip_spaces(const char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

/* start-end rwxp offset major:minor inode path; `at` ends with a NUL. */
static line parse_line(const char *at)
{
    line l = {0};
    l.m.start_addr = take_number(&at, 16);
    at += *at == '-';
    l.m.end_addr = take_number(&at, 16);
    at = skip_spaces(at);
    for (; *at && *at != ' '; at++) {
        l.m.prot |= *at == 'r'   ? (uint32_t)STEP_PROT_READ
                    : *at == 'w' ? (uint32_t)STEP_PROT_WRITE
                    : *at == 'x' ? (uint32_t)STEP_PROT_EXEC
                                 : 0;
    }
    at = skip_spaces(at);
    l.m.file_offset = take_number(&at, 16);
    at = skip_spaces(at);
    l.m.dev_major = (uint32_t)take_number(&at, 16);
    at += *at == ':';
    l.m.dev_minor = (uint32_t)take_number(&at, 16);
    at = skip_spaces(at);
    l.m.inode = take_number(&at, 10);
    l.path = skip_spaces(at);
    while (l.path[l.path_size])
        l.path_size++;
    return l;
}

/* ------------------------------------------------------------------ writing */

/* Copies the path behind the image and into the slots that follow it. */
static bool write_path(step_image *image, uint64_t first, uint32_t span, const char *path,
                       size_t size)
{
    uint8_t *slot = (uint8_t *)image;
    size_t at = STEP_IMAGE_BYTES;
    for (uint32_t i = 0; i < span; i++) {
        if (i > 0) {
            slot = step_slot_at(first + i);
            if (!slot)
                return false;
            at = STEP_SLOT_HEAD_BYTES;
            step_slot_finish(slot, STEP_SLOT_TEXT, 1);
        }
        for (; at < step_this.slot_bytes && size > 0; size--)
            slot[at++] = (uint8_t)*path++;
    }
    return true;
}

static uint32_t span_of(size_t path_size)
{
    size_t head = step_this.slot_bytes - STEP_IMAGE_BYTES;
    size_t text = step_this.slot_bytes - STEP_SLOT_HEAD_BYTES;
    return path_size <= head ? 1 : 1 + (uint32_t)((path_size - head + text - 1) / text);
}

static void write_image(uint32_t kind, const mapping *m, const char *path, size_t path_size)
{
    uint64_t first;
    uint32_t span = span_of(path_size);
    bool full = images.slot_count + span > IMAGE_SLOTS_MAX;
    step_image *image = full ? NULL : step_slots_reserve(span, &first);
    if (!image) {
        step_count(&step_this.header->image_lost_count, 1);
        return;
    }
    images.slot_count += span;
    image->slot.time_ns = step_clock_ns(CLOCK_MONOTONIC);
    image->start_addr = m->start_addr;
    image->size_bytes = m->end_addr - m->start_addr;
    image->file_offset = m->file_offset;
    image->inode = m->inode;
    image->dev_major = m->dev_major;
    image->dev_minor = m->dev_minor;
    image->prot = m->prot;
    image->path_size = (uint32_t)path_size;
    if (write_path(image, first, span, path, path_size))
        step_slot_finish(image, kind, span);
}

/* ------------------------------------------------------------------ comparing */

static bool is_same(const mapping *a, const mapping *b)
{
    return a->start_addr == b->start_addr && a->end_addr == b->end_addr && a->inode == b->inode &&
           a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
           a->file_offset == b->file_offset && a->prot == b->prot;
}

static void remove_mapping(mapping *m)
{
    if (!m->silent)
        write_image(STEP_SLOT_IMAGE_END, m, NULL, 0);
    atomic_store(&m->end_addr, 0);
}

/* Does the file begin as an ELF or PE image does? The system call copes with files that are cut off
 * meanwhile. */
static bool begins_image(const mapping *m)
{
    uint8_t start[4] = {0};
    const struct iovec here = {start, sizeof start};
    const struct iovec there = {(void *)(uintptr_t)m->start_addr, sizeof start};
    step_sys6(SYS_process_vm_readv, step_pid(), (long)&here, 1, (long)&there, 1, 0);
    return (start[0] == 0x7F && start[1] == 'E' && start[2] == 'L' && start[3] == 'F') ||
           (start[0] == 'M' && start[1] == 'Z');
}

static void add_mapping(mapping *place, const line *l)
{
    if (!place && images.count == MAPPINGS_MAX) {
        step_count(&step_this.header->image_lost_count, 1);
        return;
    }
    uint32_t index = place ? (uint32_t)(place - images.all) : images.count;
    mapping *m = &images.all[index];
    m->file_offset = l->m.file_offset;
    m->inode = l->m.inode;
    m->dev_major = l->m.dev_major;
    m->dev_minor = l->m.dev_minor;
    m->prot = l->m.prot;
    m->seen = images.scan;
    atomic_store(&m->start_addr, l->m.start_addr);
    atomic_store(&m->end_addr, l->m.end_addr);
    if (index == images.count)
        atomic_store(&images.count, index + 1);
    m->silent = !(m->prot & STEP_PROT_EXEC) && !begins_image(m);
    if (!m->silent)
        write_image(STEP_SLOT_IMAGE, m, l->path, l->path_size);
}

static void take_line(const char *text)
{
    line l = parse_line(text);
    bool has_code = l.m.prot & STEP_PROT_EXEC;
    bool begins_file = l.m.inode != 0 && l.m.file_offset == 0;
    if ((!has_code && !begins_file) || l.m.end_addr <= l.m.start_addr)
        return;
    mapping *place = NULL;
    for (uint32_t i = 0; i < images.count; i++) {
        mapping *m = &images.all[i];
        if (m->end_addr != 0 && is_same(m, &l.m)) {
            m->seen = images.scan;
            return;
        }
        if (m->end_addr > l.m.start_addr && m->start_addr < l.m.end_addr)
            remove_mapping(m); /* its end is written before what took its place */
        if (m->end_addr == 0)
            place = m;
    }
    add_mapping(place, &l);
}

static void remove_unseen(void)
{
    for (uint32_t i = 0; i < images.count; i++) {
        if (images.all[i].end_addr != 0 && images.all[i].seen != images.scan)
            remove_mapping(&images.all[i]);
    }
}

/* ------------------------------------------------------------------ scanning */

/* Hands out the lines that are whole and keeps the rest for what is read next. */
static void take_lines(void)
{
    size_t begin = 0;
    for (size_t i = 0; i < images.text_size; i++) {
        if (images.text[i] == '\n') {
            images.text[i] = 0;
            take_line(images.text + begin);
            begin = i + 1;
        }
    }
    images.text_size -= begin;
    for (size_t i = 0; i < images.text_size; i++)
        images.text[i] = images.text[begin + i];
}

static bool read_lines(void)
{
    long fd = step_sys(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    images.text_size = 0;
    for (;;) {
        if (images.text_size == sizeof images.text) /* no path is so long */
            images.text_size = 0;
        long got = step_sys(SYS_read, fd, (long)(images.text + images.text_size),
                            (long)(sizeof images.text - images.text_size), 0);
        if (got <= 0)
            break;
        images.text_size += (size_t)got;
        take_lines();
    }
    step_sys(SYS_close, fd, 0, 0, 0);
    return true;
}

void step_images_scan(void)
{
    bool free = false;
    if (!atomic_compare_exchange_strong(&images.scanning, &free, true)) {
        for (unsigned i = 0; i < SCAN_WAITS_MAX && atomic_load(&images.scanning); i++)
            step_sys(SYS_sched_yield, 0, 0, 0, 0);
        return;
    }
    images.scan++;
    atomic_store(&images.outdated, false);
    atomic_store(&images.scan_time_ns, step_clock_ns(CLOCK_MONOTONIC));
    if (read_lines())
        remove_unseen();
    atomic_store(&images.scanning, false);
}

static bool look_up(uint64_t addr, uint64_t *start, uint64_t *size)
{
    uint32_t count = atomic_load_explicit(&images.count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        mapping *m = &images.all[i];
        uint64_t end = atomic_load_explicit(&m->end_addr, memory_order_acquire);
        uint64_t begin = atomic_load_explicit(&m->start_addr, memory_order_acquire);
        if (addr < begin || addr >= end ||
            atomic_load_explicit(&m->end_addr, memory_order_acquire) != end)
            continue;
        *start = begin;
        *size = end - begin;
        return (m->prot & STEP_PROT_READ) && (m->prot & STEP_PROT_EXEC);
    }
    return false;
}

bool step_images_find(uint64_t addr, uint64_t *start, uint64_t *size)
{
    if (look_up(addr, start, size))
        return true;
    if ((int64_t)addr < 0) /* the kernel's, such as the vsyscall page */
        return false;
    step_images_scan();
    return look_up(addr, start, size);
}

void step_images_outdated(void)
{
    atomic_store(&images.outdated, true);
}

void step_images_refresh(uint64_t time_ns)
{
    if (atomic_load(&images.outdated) || time_ns - atomic_load(&images.scan_time_ns) > refresh_ns)
        step_images_scan();
}

void step_images_forget(void)
{
    images.count = 0; /* places behind it are filled before they count */
    images.slot_count = 0;
    atomic_store(&images.scanning, false);
}
