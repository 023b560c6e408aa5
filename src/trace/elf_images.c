/* ELF images at hand: see elf_images.h. */
#include <trace/elf_images.h>

#include <base/guid.h>
#include <base/hash.h>
#include <base/intern.h>
#include <base/text.h>
#include <format/elf/elf.h>
#include <os/file.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One image of the trace, resolved once. */
typedef struct known_image {
    spgo_str path;
    spgo_image_id recorded; /* null if none was recorded */
    elf_image *elf;         /* NULL: none at hand */
    uint32_t next;          /* in its hash chain, index + 1 */
} known_image;

enum { CHAINS = 1 << 14 };

struct elf_images {
    spgo_str trace_dir; /* with its final separator; empty for the current one */
    const char *const *dirs;
    size_t dir_count;
    diag *findings;
    intern paths;
    known_image **images;
    size_t count, cap;
    uint32_t chains[CHAINS]; /* index + 1 of the newest image */
    bool failed;             /* no memory somewhere */
};

elf_images *elf_images_new(const char *trace_path, const char *const *dirs, size_t dir_count,
                           diag *findings)
{
    elf_images *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    spgo_str path = text_str(trace_path);
    e->trace_dir = (spgo_str){path.ptr, path.len - text_base_name(path).len};
    e->dirs = dirs;
    e->dir_count = dir_count;
    e->findings = findings;
    return e;
}

void elf_images_free(elf_images *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++) {
        free(e->images[i]->elf);
        free(e->images[i]);
    }
    free(e->images);
    intern_free(&e->paths);
    free(e);
}

/* Reads the image at this path, if it is one and the one that was recorded. */
static bool try_path(elf_images *e, known_image *k, const char *path)
{
    os_input *in;
    spgo_code code = os_is_regular_file(path) ? os_input_open(path, &in, NULL) : SPGO_NOT_FOUND;
    e->failed |= code == SPGO_NOMEM;
    if (code != SPGO_OK)
        return false;
    spgo_span bytes = os_input_bytes(in);
    elf_image elf;
    bool ok = elf_sniff(bytes) && elf_read(bytes, &elf, NULL) == SPGO_OK;
    os_input_close(in);
    if (!ok)
        return false;
    if (!guid_is_null(&k->recorded.guid) && !image_id_equal(&k->recorded, &elf.id)) {
        char want[GUID_TEXT_SIZE], have[GUID_TEXT_SIZE];
        guid_text_lower(want, &k->recorded.guid);
        guid_text_lower(have, &elf.id.guid);
        diag_add(e->findings, SPGO_MISMATCH, SPGO_NO_OFFSET,
                 "%s is another build than the one recorded (build-id %s there, %s in the trace); "
                 "it is not used",
                 path, have, want);
        return false;
    }
    k->elf = malloc(sizeof *k->elf);
    e->failed |= !k->elf;
    if (k->elf)
        *k->elf = elf;
    return k->elf != NULL;
}

static bool try_in(elf_images *e, known_image *k, spgo_str dir, const char *separator,
                   spgo_str name)
{
    char path[4096];
    size_t gap = strlen(separator);
    if (dir.len + gap + name.len >= sizeof path)
        return false;
    if (dir.len)
        memcpy(path, dir.ptr, dir.len);
    memcpy(path + dir.len, separator, gap);
    memcpy(path + dir.len + gap, name.ptr, name.len);
    path[dir.len + gap + name.len] = '\0';
    return try_path(e, k, path);
}

/* The recording may name what it likes: "//server/share/file" would make Windows go there. */
static bool is_path_of_this_machine(spgo_str path)
{
    return path.ptr[0] == '/' && path.ptr[1] != '/' && path.ptr[1] != '\\';
}

static void find_file(elf_images *e, known_image *k)
{
    spgo_str name = text_base_name(k->path);
    bool found = false;
    for (size_t i = 0; i < e->dir_count && !found; i++)
        found = try_in(e, k, text_str(e->dirs[i]), "/", name);
    if (!found && is_path_of_this_machine(k->path))
        found = try_path(e, k, k->path.ptr);
    if (!found)
        (void)try_in(e, k, e->trace_dir, "", name);
}

static known_image *add_image(elf_images *e, spgo_str path, const spgo_image_id *recorded)
{
    if (e->count == e->cap) {
        size_t cap = e->cap ? e->cap * 2 : 64;
        known_image **grown = realloc(e->images, cap * sizeof(known_image *));
        if (!grown)
            return NULL;
        e->images = grown;
        e->cap = cap;
    }
    known_image *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->path = intern_add(&e->paths, path);
    if (recorded)
        k->recorded = *recorded;
    e->images[e->count++] = k;
    if (k->path.len && k->path.ptr[0] != '[')
        find_file(e, k);
    return k;
}

static known_image *get_image(elf_images *e, spgo_str path, const spgo_image_id *recorded)
{
    static const spgo_image_id none;
    if (!recorded)
        recorded = &none;
    uint64_t h = text_hash(hash_seed(e), path.ptr, path.len);
    h = text_hash(h, recorded->guid.bytes, sizeof recorded->guid.bytes);
    uint32_t *chain = &e->chains[h % CHAINS];
    for (uint32_t i = *chain; i; i = e->images[i - 1]->next) {
        known_image *k = e->images[i - 1];
        if (text_equal(k->path, path) && image_id_equal(&k->recorded, recorded))
            return k;
    }
    known_image *k = add_image(e, path, recorded);
    if (k) {
        k->next = *chain;
        *chain = (uint32_t)e->count;
        bool is_file = path.len && path.ptr[0] != '[';
        if (is_file && !k->elf)
            diag_add(e->findings, SPGO_NOT_FOUND, SPGO_NO_OFFSET,
                     "%s is not at hand, so its RVAs are taken to equal file offsets%s; name its "
                     "directory with /images:dir if it was linked otherwise (lld does)",
                     k->path.ptr, guid_is_null(&k->recorded.guid) ? " and it has no build-id" : "");
    }
    return k;
}

bool elf_images_failed(const elf_images *e)
{
    return e->failed;
}

void elf_images_resolve(elf_images *e, spgo_str path, uint64_t file_off, uint64_t size,
                        const spgo_image_id *recorded, spgo_image_id *id, bool *has_id,
                        uint64_t *rva_of_start)
{
    *rva_of_start = file_off;
    *has_id = recorded != NULL;
    if (recorded)
        *id = *recorded;
    known_image *k = get_image(e, path, recorded);
    e->failed |= !k || e->paths.failed;
    if (!k || !k->elf)
        return;
    if (!elf_rva_of_map(k->elf, file_off, size, rva_of_start))
        diag_add(e->findings, SPGO_MISMATCH, SPGO_NO_OFFSET,
                 "%s has no executable segment at file offset 0x%" PRIx64
                 ", where the trace maps one: it is another build; give the right one with "
                 "/images:dir",
                 k->path.ptr, file_off);
    else if (!recorded && k->elf->build_id_size) {
        *id = k->elf->id;
        *has_id = true;
    }
}
