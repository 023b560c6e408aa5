/* Equal texts once: a set of strings that live until the set is freed. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <base/arena.h>

typedef struct intern {
    arena *text;
    spgo_str *slots; /* open addressing; ptr NULL: free */
    size_t slot_count, used;
    uint64_t seed;
    bool failed; /* some text found no memory and came back empty */
} intern;

/* The kept copy of s, NUL-terminated. Empty text is never stored. */
spgo_str intern_add(intern *t, spgo_str s);
void intern_free(intern *t); /* leaves an empty, usable value */

/* Of the bytes, for cold tables of short keys; start with the table's hash_seed, or with the hash
 * of what stands before them in the key. */
uint64_t text_hash(uint64_t start, const void *data, size_t len);

#endif
