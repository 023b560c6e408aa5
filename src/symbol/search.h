/*
 * A search for one file in many places: candidates are tried one after the other until one passes
 * the check; what was refused and where was looked is remembered for the sentence at the end.
 */
#ifndef SYMBOL_SEARCH_H
#define SYMBOL_SEARCH_H

#include <symbol/locate.h>

typedef struct search search;

/* The way out of a mismatch. */
extern const char search_force[];

/* SPGO_OK: this is the file. SPGO_MISMATCH: one of its kind, but of another build. Anything else:
 * no such file. */
typedef spgo_code search_check(const search *s, spgo_span bytes, spgo_error *err);

struct search {
    arena *mem;
    diag *d;
    bool any_id;         /* the first one of another build will do if the right one is nowhere */
    const char *subject; /* "the PDB": before the path of a refused candidate */
    search_check *check;
    const void *wanted;     /* for the check */
    const char *image_path; /* is no candidate itself; NULL: there is none yet */

    located found, other_build;
    spgo_error refused; /* why the first candidate was not taken; code 0: there was none */
    const char *packed; /* a candidate that a symbol server has compressed */
    bool no_memory;
    char places[128]; /* where was looked: "a, b" */
    size_t places_len, places_left_out;
};

/* dir/name; NULL without memory, which is remembered. */
const char *search_join(search *s, const char *dir, spgo_str name);

/* Notes that a place was looked into. */
void search_place(search *s, const char *place);

/* The one candidate is what the caller has named; it is also refused when it cannot be opened. */
void search_given(search *s, const char *path);

/* True: found, and the search is over. Only regular files count; NULL is no file. */
bool search_try(search *s, const char *path);

/* The path of what has this name in a folder, in its spelling or else in any ASCII case; NULL:
 * there is nothing. */
const char *search_child(search *s, const char *dir, spgo_str name);

/*
 * A folder that --symbols named, for a file of this name: the plain file, then as a symbol store of
 * one or two tiers. The key NULL stands for every folder below the name's. True: found.
 */
bool search_folder(search *s, const char *dir, spgo_str name, const char *key);

/*
 * What was found goes to out. Otherwise the refusal, or SPGO_NOT_FOUND with "<what> was not found
 * in <places>; <way_out>".
 */
spgo_code search_end(search *s, located *out, const char *what, const char *way_out,
                     spgo_error *err);

#endif
