/* Searches for files: see search.h. */
#include <symbol/search.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/fail.h>
#include <base/text.h>
#include <os/folder.h>

static const char where[] = "symbol.locate";

enum {
    KEYS_MAX = 4096, /* builds of one name in a store that are looked at */
    SHOWN_PATH_MAX = 90
};

const char search_force[] = "; find that one, or take this one with --force";

/* The end of a long path, which tells more than its start. */
static const char *shown(const char *path, const char **dots)
{
    size_t len = strlen(path);
    *dots = len > SHOWN_PATH_MAX ? "..." : "";
    return len > SHOWN_PATH_MAX ? path + len - SHOWN_PATH_MAX : path;
}

/* ------------------------------------------------------------------ paths */

const char *search_join(search *s, const char *dir, spgo_str name)
{
    size_t len = strlen(dir);
    bool has_slash = len > 0 && (dir[len - 1] == '/' || dir[len - 1] == '\\');
    char *path = arena_push(s->mem, len + name.len + 2, 1);
    if (!path) {
        s->no_memory = true;
        return NULL;
    }
    memcpy(path, dir, len);
    if (!has_slash)
        path[len++] = '/';
    if (name.len)
        memcpy(path + len, name.ptr, name.len);
    return path;
}

void search_place(search *s, const char *place)
{
    size_t len = strlen(place);
    size_t comma = s->places_len ? 2 : 0;
    if (s->places_len + comma + len >= sizeof s->places) {
        s->places_left_out++;
        return;
    }
    memcpy(s->places + s->places_len, ", ", comma);
    memcpy(s->places + s->places_len + comma, place, len + 1);
    s->places_len += comma + len;
}

typedef struct nocase_match {
    search *s;
    spgo_str name;
    const char *best; /* of several spellings the first, whatever order the file system has */
} nocase_match;

static bool match_nocase(void *ctx, const char *name)
{
    nocase_match *m = ctx;
    if (!text_equal_nocase(text_str(name), m->name))
        return true;
    if (!m->best || strcmp(name, m->best) < 0)
        m->best = arena_copy_text(m->s->mem, name, strlen(name));
    return true;
}

const char *search_child(search *s, const char *dir, spgo_str name)
{
    const char *path = search_join(s, dir, name);
    if (!path || name.len == 0)
        return NULL;
    if (os_file_exists(path))
        return path;
    nocase_match m = {.s = s, .name = name};
    if (!os_folder_each(dir, match_nocase, &m) || !m.best)
        return NULL;
    return search_join(s, dir, text_str(m.best));
}

/* ------------------------------------------------------------------ candidates */

static void refuse(search *s, const char *path, const char *verb, const spgo_error *why)
{
    if (s->refused.code != SPGO_OK)
        return;
    const char *dots, *tail = shown(path, &dots);
    s->refused = *why;
    s->refused.offset = SPGO_NO_OFFSET; /* it would be taken for one in the image */
    (void)snprintf(s->refused.sentence, sizeof s->refused.sentence, "%s %s%s %s%.190s", s->subject,
                   dots, tail, verb, why->sentence);
}

/* The candidate, open, is right, or is kept in case that nothing better is found, or is closed. */
static bool judge(search *s, const located *c, spgo_error *why)
{
    spgo_code code = s->check(s, os_input_bytes(c->file), why);
    if (code == SPGO_OK) {
        s->found = *c;
        return true;
    }
    refuse(s, c->path, code == SPGO_MISMATCH ? "is " : "cannot be used: ", why);
    if (code == SPGO_MISMATCH && s->any_id && !s->other_build.file)
        s->other_build = *c;
    else
        os_input_close(c->file);
    return false;
}

void search_given(search *s, const char *path)
{
    located c = {.path = arena_copy_text(s->mem, path, strlen(path))};
    spgo_error why;
    s->no_memory |= !c.path;
    if (os_input_open(path, &c.file, &why) == SPGO_OK)
        (void)judge(s, &c, &why);
    else
        refuse(s, path, "", &why);
}

bool search_try(search *s, const char *path)
{
    if (!path || !os_is_regular_file(path) || (s->image_path && os_same_file(path, s->image_path)))
        return false;
    located c = {.path = path};
    spgo_error why;
    if (os_input_open(path, &c.file, &why) == SPGO_OK)
        return judge(s, &c, &why);
    refuse(s, path, "", &why);
    return false;
}

/* What symbol servers make of foo.pdb when they compress it: foo.pd_. */
static void note_packed(search *s, const char *dir, spgo_str name)
{
    char *packed = arena_copy_text(s->mem, name.ptr, name.len);
    if (!packed || s->packed) {
        s->no_memory |= !packed;
        return;
    }
    packed[name.len - 1] = '_';
    s->packed = search_child(s, dir, (spgo_str){packed, name.len});
}

static bool try_in(search *s, const char *dir, spgo_str name)
{
    const char *path = search_child(s, dir, name);
    if (search_try(s, path))
        return true;
    if (!path)
        note_packed(s, dir, name);
    return false;
}

/* ------------------------------------------------------------------ stores */

typedef struct key_list {
    search *s;
    const char **keys;
    size_t count;
} key_list;

static bool add_key(void *ctx, const char *name)
{
    key_list *l = ctx;
    l->keys[l->count] = arena_copy_text(l->s->mem, name, strlen(name));
    if (!l->keys[l->count])
        l->s->no_memory = true;
    else
        l->count++;
    return l->count < KEYS_MAX && !l->s->no_memory;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool try_each_key(search *s, const char *dir, spgo_str name)
{
    key_list l = {.s = s, .keys = calloc(KEYS_MAX, sizeof *l.keys)};
    if (!l.keys) {
        s->no_memory = true;
        return false;
    }
    bool found = false;
    if (os_folder_each(dir, add_key, &l) && l.count > 0) {
        qsort(l.keys, l.count, sizeof *l.keys, by_text);
        for (size_t i = 0; !found && i < l.count; i++) {
            const char *key_dir = search_join(s, dir, text_str(l.keys[i]));
            found = key_dir && os_is_folder(key_dir) && try_in(s, key_dir, name);
        }
    }
    free(l.keys);
    return found;
}

/* dir/name is the file, or the folder of a store. */
static bool search_tier(search *s, const char *dir, spgo_str name, const char *key)
{
    const char *path = search_child(s, dir, name);
    if (!path) {
        note_packed(s, dir, name);
        return false;
    }
    if (!os_is_folder(path))
        return search_try(s, path);
    if (!key)
        return try_each_key(s, path, name);
    const char *key_dir = search_child(s, path, text_str(key));
    return key_dir && try_in(s, key_dir, name);
}

bool search_folder(search *s, const char *dir, spgo_str name, const char *key)
{
    search_place(s, dir);
    if (name.len == 0)
        return false;
    if (search_tier(s, dir, name, key))
        return true;
    /* Large stores have a tier of folders named by the first two characters. */
    const char *tier = name.len > 2 ? search_child(s, dir, (spgo_str){name.ptr, 2}) : NULL;
    return tier && os_is_folder(tier) && search_tier(s, tier, name, key);
}

/* ------------------------------------------------------------------ the end */

static spgo_code not_found(const search *s, const char *what, const char *way_out, spgo_error *err)
{
    const char *dots = "", *packed = s->packed ? shown(s->packed, &dots) : NULL;
    if (packed)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET,
                         "%s is there only as the cabinet %s%s; expand it beside that", what, dots,
                         packed);
    if (s->places_len == 0 && s->places_left_out == 0)
        return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "%s was not found; %s", what,
                         way_out);
    char more[40] = "";
    if (s->places_left_out > 0)
        (void)snprintf(more, sizeof more, "%s%zu more places", s->places_len ? " and " : "",
                       s->places_left_out);
    return spgo_fail(err, SPGO_NOT_FOUND, where, SPGO_NO_OFFSET, "%s was not found in %s%s; %s",
                     what, s->places, more, way_out);
}

spgo_code search_end(search *s, located *out, const char *what, const char *way_out,
                     spgo_error *err)
{
    *out = s->found.file ? s->found : s->other_build;
    if (s->found.file && s->other_build.file)
        os_input_close(s->other_build.file);
    if (s->found.file)
        return SPGO_OK;
    if (out->file) {
        diag_add(s->d, SPGO_MISMATCH, SPGO_NO_OFFSET, "%s", s->refused.sentence);
        return SPGO_OK;
    }
    if (s->no_memory)
        return spgo_fail_nomem(err, where, SHOWN_PATH_MAX);
    if (s->refused.code == SPGO_OK)
        return not_found(s, what, way_out, err);
    return spgo_fail(err, s->refused.code, where, s->refused.offset, "%.270s%s",
                     s->refused.sentence, s->refused.code == SPGO_MISMATCH ? search_force : "");
}
