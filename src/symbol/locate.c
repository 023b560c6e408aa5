/*
 * Where images and their debug files are looked for, and what makes one the right one. The order
 * hardly matters, since only the very build that is wanted is taken: folders that the caller named
 * come first, what the image itself says last.
 */
#include <symbol/locate.h>

#include <stdio.h>
#include <string.h>

#include <base/fail.h>
#include <base/guid.h>
#include <base/text.h>
#include <os/folder.h>
#include <symbol/image.h>
#include <symbol/search.h>

static const char where[] = "symbol.locate";

/* Where Linux distributions install separate debug files. */
static const char system_debug[] = "/usr/lib/debug";

enum { ID_TEXT_SIZE = GUID_TEXT_SIZE + 16, BUILD_ID_TEXT_SIZE = 2 * ELF_BUILD_ID_MAX + 1 };

static void id_text(char out[ID_TEXT_SIZE], const spgo_image_id *id)
{
    char guid[GUID_TEXT_SIZE];
    guid_text(guid, &id->guid);
    (void)snprintf(out, ID_TEXT_SIZE, "%s age %u", guid, (unsigned)id->age);
}

static void build_id_text(char out[BUILD_ID_TEXT_SIZE], const elf_image *elf)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    for (size_t i = 0; i < elf->build_id_size && i < ELF_BUILD_ID_MAX; i++) {
        out[n++] = digits[elf->build_id[i] >> 4];
        out[n++] = digits[elf->build_id[i] & 15];
    }
    out[n] = '\0';
}

/* The folder that a path names a file in; "." without one. */
static const char *folder_of(search *s, const char *path)
{
    spgo_str all = text_str(path);
    size_t len = all.len - text_base_name(all).len;
    const char *dir = len ? arena_copy_text(s->mem, path, len) : ".";
    s->no_memory |= !dir;
    return dir;
}

static spgo_str without_extension(spgo_str name)
{
    for (size_t i = name.len; i > 1; i--)
        if (name.ptr[i - 1] == '.')
            return (spgo_str){name.ptr, i - 1};
    return name;
}

static spgo_str with_extension(search *s, spgo_str stem, const char *extension)
{
    size_t len = strlen(extension);
    char *name = arena_push(s->mem, stem.len + len + 1, 1);
    if (!name) {
        s->no_memory = true;
        return (spgo_str){0};
    }
    memcpy(name, stem.ptr, stem.len);
    memcpy(name + stem.len, extension, len);
    return (spgo_str){name, stem.len + len};
}

/* ------------------------------------------------------------------ images */

static spgo_code check_image(const search *s, spgo_span bytes, spgo_error *err)
{
    const spgo_image_id *wanted = s->wanted;
    bool is_pe, has_id;
    spgo_image_id id;
    SPGO_TRY(image_identify(bytes, &is_pe, &id, &has_id, err));
    if (!wanted || guid_is_null(&wanted->guid) || (has_id && image_id_equal(&id, wanted)))
        return SPGO_OK;
    char is[ID_TEXT_SIZE] = "without an id", should[ID_TEXT_SIZE];
    if (has_id)
        id_text(is, &id);
    id_text(should, wanted);
    return spgo_fail(err, SPGO_MISMATCH, where, SPGO_NO_OFFSET,
                     "of another build: it is %s, wanted is %s", is, should);
}

/* A PDB that is of any use. */
static bool read_pdb_id(spgo_span bytes, spgo_image_id *id)
{
    pdb *p;
    if (pdb_sniff(bytes) != PDB_MSF7 || pdb_open(bytes, NULL, &p, NULL, NULL) != SPGO_OK)
        return false;
    *id = pdb_get_info(p)->id;
    pdb_close(p);
    return true;
}

/* The image of a PDB: linkers call them alike. */
static spgo_code locate_image_of_pdb(search *s, const symbols_opts *opts, const char *pdb_path,
                                     const spgo_image_id *id, located *out, spgo_error *err)
{
    static const char *const extensions[] = {".exe", ".dll", ".sys", ""};
    const spgo_str stem = without_extension(text_base_name(text_str(pdb_path)));
    const char *beside = folder_of(s, pdb_path);
    bool found = false;
    s->image_path = pdb_path;
    if (!s->wanted)
        s->wanted = id;
    for (size_t i = 0; beside && !found && i <= opts->dir_count; i++) {
        const char *dir = i == 0 ? beside : opts->dirs[i - 1];
        search_place(s, dir);
        for (size_t k = 0; !found && k < sizeof extensions / sizeof *extensions; k++)
            found = search_try(s, search_child(s, dir, with_extension(s, stem, extensions[k])));
    }
    char text[ID_TEXT_SIZE], what[ID_TEXT_SIZE + 96];
    id_text(text, id);
    (void)snprintf(what, sizeof what, "the file is a PDB, and its image (%.*s.exe or so, %s)",
                   (int)(stem.len < 48 ? stem.len : 48), stem.len ? stem.ptr : "", text);
    SPGO_TRY(
        search_end(s, out, what, "give the image (exe, dll, sys), and the PDB as debug file", err));
    out->pdb_path = pdb_path;
    return SPGO_OK;
}

static spgo_code open_given_image(search *s, const symbols_opts *opts, located *out,
                                  spgo_error *err)
{
    const char *path = arena_copy_text(s->mem, opts->image_path, strlen(opts->image_path));
    if (!path)
        return spgo_fail_nomem(err, where, strlen(opts->image_path));
    out->path = path;
    SPGO_TRY(os_input_open(path, &out->file, err));
    spgo_image_id id;
    const bool has_folder = strcmp(path, "-") != 0;
    if (has_folder && read_pdb_id(os_input_bytes(out->file), &id)) {
        os_input_close(out->file);
        *out = (located){0};
        return locate_image_of_pdb(s, opts, path, &id, out, err);
    }
    spgo_error why;
    spgo_code code = check_image(s, os_input_bytes(out->file), &why);
    if (code == SPGO_OK)
        return SPGO_OK;
    if (code == SPGO_MISMATCH && s->any_id) {
        diag_add(s->d, code, why.offset, "the image is %s", why.sentence);
        return SPGO_OK;
    }
    os_input_close(out->file);
    out->file = NULL;
    if (code == SPGO_MISMATCH)
        return spgo_fail(err, code, where, why.offset, "the image is %.200s%s", why.sentence,
                         search_force);
    if (err)
        *err = why;
    return code;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

typedef struct build_id_match {
    search *s;
    const char *dir;
    const spgo_image_id *wanted;
    bool found;
} build_id_match;

/* An id keeps the first 16 bytes of a build-id; its first byte is the folder's name. */
static bool try_build_id_name(void *ctx, const char *name)
{
    build_id_match *m = ctx;
    spgo_guid g = {.bytes = {m->wanted->guid.bytes[0]}};
    for (size_t i = 1; i < sizeof g.bytes && name[0] && name[0] != '.'; i++, name += 2) {
        int high = digit(name[0]), low = name[1] ? digit(name[1]) : -1;
        if (high < 0 || low < 0)
            return true;
        g.bytes[i] = (uint8_t)(high << 4 | low);
    }
    return !(m->found = guid_equal(&g, &m->wanted->guid));
}

static bool try_build_id_file(void *ctx, const char *name)
{
    build_id_match *m = ctx;
    bool fits = !try_build_id_name(ctx, name);
    m->found =
        fits && !strchr(name, '.') && search_try(m->s, search_join(m->s, m->dir, text_str(name)));
    return !m->found;
}

/* dir/.build-id/xx/yyyy..., which trees of distributions link to the image. */
static bool search_image_by_id(search *s, const char *dir, const spgo_image_id *wanted)
{
    char folder[32];
    (void)snprintf(folder, sizeof folder, ".build-id/%02x", wanted->guid.bytes[0]);
    build_id_match m = {.s = s, .dir = search_join(s, dir, text_str(folder)), .wanted = wanted};
    if (m.dir)
        (void)os_folder_each(m.dir, try_build_id_file, &m);
    return m.found;
}

spgo_code locate_image(const symbols_opts *opts, arena *mem, located *out, diag *d, spgo_error *err)
{
    search s = {.mem = mem,
                .d = d,
                .any_id = opts->any_id,
                .subject = "the image",
                .check = check_image,
                .wanted = opts->wanted};
    *out = (located){0};
    if (opts->image_path)
        return open_given_image(&s, opts, out, err);
    spgo_str name = text_base_name(text_str(opts->name));
    bool has_id = opts->wanted && !guid_is_null(&opts->wanted->guid);
    for (size_t i = 0; i < opts->dir_count; i++)
        if (search_folder(&s, opts->dirs[i], name, NULL) ||
            (has_id && search_image_by_id(&s, opts->dirs[i], opts->wanted)))
            break;
    char what[120];
    (void)snprintf(what, sizeof what, "the image %.*s", (int)(name.len < 80 ? name.len : 80),
                   name.len ? name.ptr : "");
    return search_end(&s, out, what, "name its folder with --symbols", err);
}

/* ------------------------------------------------------------------ PDBs */

static spgo_code check_pdb(const search *s, spgo_span bytes, spgo_error *err)
{
    const pe_codeview *cv = s->wanted;
    if (elf_sniff(bytes))
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                         "it is an ELF file; a PE image wants a PDB");
    pdb *p;
    SPGO_TRY(pdb_open(bytes, NULL, &p, NULL, err));
    spgo_image_id id = pdb_get_info(p)->id;
    pdb_close(p);
    if (!cv) {
        diag_add(s->d, SPGO_MISMATCH, SPGO_NO_OFFSET,
                 "the image does not say which PDB it belongs to; the given one is taken as it is");
        return SPGO_OK;
    }
    if (image_id_equal(&id, &cv->id))
        return SPGO_OK;
    char is[ID_TEXT_SIZE], should[ID_TEXT_SIZE];
    id_text(is, &id);
    id_text(should, &cv->id);
    return spgo_fail(err, SPGO_MISMATCH, where, SPGO_NO_OFFSET,
                     "of another build: it is %s, the image has %s", is, should);
}

/* Absolute, and not on another machine: a name in an image must not make this one open a
 * connection. */
static bool is_local_absolute(spgo_str path)
{
    bool is_share = path.len > 1 && (path.ptr[0] == '\\' || path.ptr[0] == '/') &&
                    (path.ptr[1] == '\\' || path.ptr[1] == '/');
    bool is_drive =
        path.len > 2 && path.ptr[1] == ':' && (path.ptr[2] == '\\' || path.ptr[2] == '/');
    return !is_share && (is_drive || (path.len > 0 && path.ptr[0] == '/'));
}

static bool search_pdb(search *s, const symbols_opts *opts, const char *image_path,
                       const pe_codeview *cv)
{
    char key[SYMBOL_KEY_SIZE];
    symbol_key_text(key, &cv->id);
    spgo_str stem = without_extension(text_base_name(text_str(image_path)));
    spgo_str named = text_base_name(cv->pdb_path);
    spgo_str guessed = with_extension(s, stem, ".pdb");
    if (named.len == 0)
        named = guessed;
    for (size_t i = 0; i < opts->dir_count; i++)
        if (search_folder(s, opts->dirs[i], named, key))
            return true;
    const char *beside = folder_of(s, image_path);
    if (!beside)
        return false;
    if (search_folder(s, beside, named, key))
        return true;
    /* An image that was renamed with its PDB. */
    if (!text_equal_nocase(named, guessed) && search_try(s, search_child(s, beside, guessed)))
        return true;
    if (!is_local_absolute(cv->pdb_path))
        return false;
    const char *recorded = arena_copy_text(s->mem, cv->pdb_path.ptr, cv->pdb_path.len);
    s->no_memory |= !recorded;
    return search_try(s, recorded);
}

static spgo_code locate_pdb(search *s, const symbols_opts *opts, const symbol_image *image,
                            const char *image_path, located *out, spgo_error *err)
{
    pe_codeview cv;
    spgo_error why;
    bool names_one = pe_codeview_find(&image->pe, &cv, &why) == SPGO_OK;
    s->subject = "the PDB";
    s->check = check_pdb;
    s->wanted = names_one ? &cv : NULL;
    if (opts->debug_path) {
        search_given(s, opts->debug_path);
        return search_end(s, out, NULL, NULL, err);
    }
    if (!names_one)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "%s", why.sentence);
    if (cv.kind != PE_CODEVIEW_RSDS || cv.is_portable)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, SPGO_NO_OFFSET,
                         "the image names %s, which is not read here",
                         cv.is_portable ? "a portable PDB, of managed code"
                                        : "a PDB of before 2002 (NB10)");
    (void)search_pdb(s, opts, image_path, &cv);
    spgo_str name = text_base_name(cv.pdb_path);
    char id[ID_TEXT_SIZE], what[ID_TEXT_SIZE + 64];
    id_text(id, &cv.id);
    (void)snprintf(what, sizeof what, "the PDB %.*s %s", (int)(name.len < 48 ? name.len : 48),
                   name.len ? name.ptr : "", id);
    return search_end(s, out, what, "--symbols or --debug-file can name its place", err);
}

/* ------------------------------------------------------------------ separate ELF debug files */

typedef struct elf_wanted {
    const elf_image *elf;
    spgo_str link; /* .gnu_debuglink; empty: none */
    uint32_t crc;
} elf_wanted;

static spgo_code debug_mismatch(const elf_image *is, const elf_image *should, spgo_error *err)
{
    char is_text[BUILD_ID_TEXT_SIZE], should_text[BUILD_ID_TEXT_SIZE];
    build_id_text(is_text, is);
    build_id_text(should_text, should);
    return spgo_fail(err, SPGO_MISMATCH, where, SPGO_NO_OFFSET,
                     "of another build: its build-id is %.40s, the image's %.40s",
                     is->build_id_size ? is_text : "missing", should_text);
}

static spgo_code check_elf(const search *s, spgo_span bytes, spgo_error *err)
{
    const elf_wanted *w = s->wanted;
    if (pe_sniff(bytes) || pdb_sniff(bytes) != PDB_NOT)
        return spgo_fail(err, SPGO_UNSUPPORTED, where, 0,
                         "it is %s; an ELF image wants an ELF debug file",
                         pe_sniff(bytes) ? "a PE image" : "a PDB");
    elf_image debug;
    SPGO_TRY(elf_read(bytes, &debug, err));
    if (w->elf->build_id_size > 0) {
        bool is_same = debug.build_id_size == w->elf->build_id_size &&
                       memcmp(debug.build_id, w->elf->build_id, debug.build_id_size) == 0;
        return is_same ? SPGO_OK : debug_mismatch(&debug, w->elf, err);
    }
    if (w->link.len == 0) {
        diag_add(s->d, SPGO_MISMATCH, SPGO_NO_OFFSET,
                 "the image has no build-id; the given debug file is taken as it is");
        return SPGO_OK;
    }
    uint32_t crc = elf_crc32(bytes);
    if (crc == w->crc)
        return SPGO_OK;
    return spgo_fail(err, SPGO_MISMATCH, where, SPGO_NO_OFFSET,
                     "of another build: its CRC is %08x, .gnu_debuglink says %08x", (unsigned)crc,
                     (unsigned)w->crc);
}

/* A tree of build-ids or one in its folder, debuginfod's cache, an SSQP store. */
static bool search_by_build_id(search *s, const char *dir, const char *hex)
{
    static const struct {
        const char *before, *between, *behind;
    } layouts[] = {{".build-id/", "/", ".debug"},
                   {"", "/", ".debug"},
                   {"", "", "/debuginfo"},
                   {"_.debug/elf-buildid-sym-", "", "/_.debug"}};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char name[BUILD_ID_TEXT_SIZE + 48];
        (void)snprintf(name, sizeof name, "%s%.2s%s%s%s", layouts[i].before, hex,
                       layouts[i].between, hex + 2, layouts[i].behind);
        if (search_try(s, search_join(s, dir, text_str(name))))
            return true;
    }
    return false;
}

/* A name beside the image, in .debug below it, and below a folder that repeats the image's path. */
static bool search_by_name(search *s, const char *dir, const char *image_dir, spgo_str name)
{
    if (name.len == 0)
        return false;
    if (search_try(s, search_join(s, dir, name)))
        return true;
    const char *below = search_join(s, dir, text_str(".debug"));
    if (below && search_try(s, search_join(s, below, name)))
        return true;
    if (image_dir[0] != '/')
        return false;
    const char *repeated = search_join(s, dir, text_str(image_dir + 1));
    return repeated && search_try(s, search_join(s, repeated, name));
}

static bool search_elf_folder(search *s, const char *dir, const char *image_path, const char *hex)
{
    const elf_wanted *w = s->wanted;
    const char *image_dir = folder_of(s, image_path);
    if (!dir || !image_dir)
        return false;
    search_place(s, dir);
    if (*hex && search_by_build_id(s, dir, hex))
        return true;
    spgo_str debug_name = with_extension(s, text_base_name(text_str(image_path)), ".debug");
    return search_by_name(s, dir, image_dir, w->link) ||
           (*hex && search_by_name(s, dir, image_dir, debug_name));
}

static spgo_code locate_elf(search *s, const symbols_opts *opts, const symbol_image *image,
                            const char *image_path, located *out, spgo_error *err)
{
    elf_wanted wanted = {.elf = &image->elf};
    elf_sections sections;
    if (elf_sections_open(image->bytes, &sections, NULL) == SPGO_OK &&
        elf_debuglink(&sections, &wanted.link, &wanted.crc))
        wanted.link = text_base_name(wanted.link);
    s->subject = "the debug file";
    s->check = check_elf;
    s->wanted = &wanted;
    if (opts->debug_path) {
        search_given(s, opts->debug_path);
        return search_end(s, out, NULL, NULL, err);
    }
    char hex[BUILD_ID_TEXT_SIZE], what[BUILD_ID_TEXT_SIZE + 64];
    build_id_text(hex, &image->elf);
    if (!*hex && wanted.link.len == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                         "the image has no DWARF, and neither a build-id nor a .gnu_debuglink to "
                         "find some by; build it with -g");
    bool found = false;
    for (size_t i = 0; !found && i < opts->dir_count; i++)
        found = search_elf_folder(s, opts->dirs[i], image_path, hex);
    found = found || search_elf_folder(s, folder_of(s, image_path), image_path, hex) ||
            search_elf_folder(s, system_debug, image_path, hex);
    (void)snprintf(what, sizeof what, "the image has no DWARF, and its debug file (%s %.40s)",
                   *hex ? "build-id" : "name", *hex ? hex : "in .gnu_debuglink");
    return search_end(s, out, what, "--symbols or --debug-file can name its place", err);
}

spgo_code locate_debug(const symbols_opts *opts, const symbol_image *image, const char *image_path,
                       arena *mem, located *out, diag *d, spgo_error *err)
{
    search s = {.mem = mem, .d = d, .any_id = opts->any_id, .image_path = image_path};
    *out = (located){0};
    return (image->is_pe ? locate_pdb : locate_elf)(&s, opts, image, image_path, out, err);
}
