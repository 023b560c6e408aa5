/*
 * Functions that were chosen not to count, although they have probes: their time is their caller's.
 * The list is a file that spgo probe record writes, since names are known outside only:
 *
 *     m path        the functions of this module follow
 *     x address     one that does not count: hexadecimal, less the module's load bias; rising
 *     o pattern     no function of modules of such a name counts (* stands for any text)
 */
#include "runtime.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct part {
    const char *path; /* of a module; NULL: `pattern` */
    const char *pattern;
    size_t text_len;
    size_t first, count; /* of the addresses */
} part;

enum { PARTS_MAX = 64 };

static part parts[PARTS_MAX];
static size_t part_count;
static uint64_t *addresses;
static size_t address_count;

static COLD const char *map_text(const char *path, size_t *size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    *size = fstat(fd, &st) == 0 ? (size_t)st.st_size : 0;
    void *text = *size ? mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    return text == MAP_FAILED ? NULL : text;
}

static COLD void take_line(const char *line, size_t len)
{
    if (len < 3)
        return;
    if (line[0] == 'x' && part_count > 0) {
        addresses[address_count++] = strtoull(line + 2, NULL, 16);
        parts[part_count - 1].count++;
    } else if ((line[0] == 'm' || line[0] == 'o') && part_count < PARTS_MAX) {
        parts[part_count++] = (part){.path = line[0] == 'm' ? line + 2 : NULL,
                                     .pattern = line[0] == 'o' ? line + 2 : NULL,
                                     .text_len = len - 2,
                                     .first = address_count};
    }
}

COLD void probe_select_open(const char *path)
{
    size_t size;
    const char *text = path ? map_text(path, &size) : NULL;
    if (!text)
        return;
    void *memory = mmap(NULL, (size / 4 + 1) * sizeof *addresses, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    addresses = memory;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t len = end ? (size_t)(end - text) - at : size - at;
        if (end) /* strtoull needs one */
            take_line(text + at, len);
        at += len + 1;
    }
}

static COLD bool matches(const char *pattern, size_t len, const char *name)
{
    const char *star = memchr(pattern, '*', len);
    if (!star)
        return strlen(name) == len && memcmp(pattern, name, len) == 0;
    const size_t head = (size_t)(star - pattern);
    if (strncmp(pattern, name, head) != 0)
        return false;
    for (const char *rest = name + head;; rest++) {
        if (matches(star + 1, len - head - 1, rest))
            return true;
        if (!*rest)
            return false;
    }
}

static COLD bool has_address(const part *p, uint64_t address)
{
    size_t low = p->first, high = p->first + p->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (addresses[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->first + p->count && addresses[low] == address;
}

COLD bool probe_select_is_left_out(const void *function)
{
    if (part_count == 0)
        return false;
    const spgo_spp_module *m = probe_modules_get(probe_modules_find(function));
    if (!m)
        return false;
    const char *slash = strrchr(m->path, '/');
    const char *name = slash ? slash + 1 : m->path;
    for (size_t i = 0; i < part_count; i++) {
        const part *p = &parts[i];
        if (p->pattern && matches(p->pattern, p->text_len, name))
            return true;
        if (p->path && strlen(m->path) == p->text_len &&
            memcmp(m->path, p->path, p->text_len) == 0 &&
            has_address(p, (uintptr_t)function - m->bias))
            return true;
    }
    return false;
}
