/*
 * Which module an address belongs to. The list is written to the file as modules come and go, so
 * that names can be found when the program, or a library that it closed, is long gone.
 */
#include "runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    RECORDS_PER_CHUNK =
        (SPGO_SPP_CHUNK_BYTES - SPGO_SPP_CHUNK_HEAD_BYTES) / (int)sizeof(spgo_spp_module)
};

/* Written under the lock, read without: a module is there once the count says so. */
static spgo_spp_module *modules[MODULES_MAX];
static _Atomic uint32_t module_count;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static spgo_spp_chunk *chunk;
static uint32_t chunk_sequence;
static _Atomic unsigned long long seen_adds, seen_subs;

COLD void probe_modules_forget(void)
{
    module_count = 0;
    chunk = NULL; /* still mapped; it is the parent's, and small */
    chunk_sequence = 0;
    seen_adds = seen_subs = 0;
    atomic_flag_clear(&lock);
}

COLD uint32_t probe_modules_find(const void *address)
{
    const uint64_t a = (uintptr_t)address;
    for (int round = 0; a && round < 2; round++) {
        for (uint32_t i = module_count; i-- > 0;) {
            const spgo_spp_module *m = modules[i];
            if (a >= m->begin && a < m->end && !m->unloaded)
                return i;
        }
        if (round == 0)
            probe_modules_update();
    }
    return SPGO_SPP_NO_MODULE;
}

COLD bool probe_modules_is_unloaded(uint32_t module)
{
    return module < module_count && modules[module]->unloaded;
}

COLD const spgo_spp_module *probe_modules_get(uint32_t module)
{
    return module < module_count ? modules[module] : NULL;
}

static COLD spgo_spp_module *new_record(void)
{
    if (module_count == MODULES_MAX)
        return NULL;
    if (!chunk || chunk->used_bytes + sizeof(spgo_spp_module) > SPGO_SPP_CHUNK_BYTES) {
        const uint64_t off = probe_process_new_chunk(SPGO_SPP_MODULES, 0, chunk_sequence);
        void *mapped = off ? probe_process_map(off, SPGO_SPP_CHUNK_BYTES, NULL) : NULL;
        if (!mapped)
            return NULL;
        chunk = mapped;
        chunk_sequence++;
    }
    return (spgo_spp_module *)((char *)chunk + chunk->used_bytes);
}

static COLD void copy_build_id(spgo_spp_module *m, const struct dl_phdr_info *info,
                               const ElfW(Phdr) * ph)
{
    const char *p = (const char *)(info->dlpi_addr + ph->p_vaddr);
    const char *end = p + ph->p_memsz;
    while ((size_t)(end - p) >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) n;
        memcpy(&n, p, sizeof n);
        p += sizeof n;
        const size_t name = (n.n_namesz + 3u) & ~3u, desc = (n.n_descsz + 3u) & ~3u;
        if ((size_t)(end - p) < name + desc)
            return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(p, "GNU", 4) == 0) {
            m->build_id_bytes =
                n.n_descsz < SPGO_SPP_BUILD_ID_BYTES ? n.n_descsz : SPGO_SPP_BUILD_ID_BYTES;
            memcpy(m->build_id, p + name, m->build_id_bytes);
            return;
        }
        p += name + desc;
    }
}

static COLD void fill(spgo_spp_module *m, const struct dl_phdr_info *info)
{
    m->bias = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const uint64_t begin = info->dlpi_addr + ph->p_vaddr, end = begin + ph->p_memsz;
        if (ph->p_type == PT_NOTE)
            copy_build_id(m, info, ph);
        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
            continue;
        m->begin = !m->end || begin < m->begin ? begin : m->begin;
        m->end = end > m->end ? end : m->end;
    }
    if (info->dlpi_name && info->dlpi_name[0]) {
        snprintf(m->path, sizeof m->path, "%s", info->dlpi_name);
    } else {
        const ssize_t n = readlink("/proc/self/exe", m->path, sizeof m->path - 1);
        m->path[n > 0 ? n : 0] = '\0';
    }
    m->loaded = probe_clock();
}

typedef struct scan {
    bool still_there[MODULES_MAX];
} scan;

static COLD int see_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
    scan *s = ctx;
    spgo_spp_module fresh = {0};
    (void)size;
    fill(&fresh, info);
    if (fresh.end == 0)
        return 0;
    for (uint32_t i = 0; i < module_count; i++) {
        if (!modules[i]->unloaded && modules[i]->begin == fresh.begin &&
            modules[i]->end == fresh.end && strcmp(modules[i]->path, fresh.path) == 0) {
            s->still_there[i] = true;
            return 0;
        }
    }
    spgo_spp_module *m = new_record();
    if (!m)
        return 0;
    *m = fresh;
    chunk->used_bytes += (uint32_t)sizeof *m;
    s->still_there[module_count] = true;
    modules[module_count] = m;
    module_count++;
    probe_process_now.header->module_count = module_count;
    return 0;
}

static COLD int see_counters(struct dl_phdr_info *info, size_t size, void *ctx)
{
    unsigned long long *counters = ctx;
    if (size >= offsetof(struct dl_phdr_info, dlpi_tls_modid)) {
        counters[0] = info->dlpi_adds;
        counters[1] = info->dlpi_subs;
    }
    return 1; /* they are the same for all */
}

COLD void probe_modules_update(void)
{
    static scan s; /* under the lock; too large for a small stack */
    unsigned long long counters[2] = {0};
    dl_iterate_phdr(see_counters, counters);
    if (!probe_process_now.has_file || (counters[0] == seen_adds && counters[1] == seen_subs) ||
        atomic_flag_test_and_set(&lock))
        return; /* another thread is at it */
    memset(&s, 0, sizeof s);
    dl_iterate_phdr(see_module, &s);
    for (uint32_t i = 0; i < module_count; i++) {
        if (!s.still_there[i] && !modules[i]->unloaded)
            modules[i]->unloaded = probe_clock();
    }
    seen_adds = counters[0];
    seen_subs = counters[1];
    atomic_flag_clear(&lock);
}

/* ------------------------------------------------------------------ dlclose */

/* What is loaded next may have the same addresses: threads must look at their trees again. */
__attribute__((visibility("default"), no_instrument_function)) int dlclose(void *handle)
{
    static int (*real)(void *);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "dlclose");
        memcpy(&real, &found, sizeof real);
    }
    if (!real)
        return -1;
    const int result = real(handle);
    probe_modules_update();
    probe_process_now.unload_count++;
    __atomic_fetch_add(&probe_process_now.header->control, 2, __ATOMIC_RELEASE);
    return result;
}
