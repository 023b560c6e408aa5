/*
 * SPD documents to test with: small ones made by hand, in which every kind of record stands, and
 * random ones; and a comparison of all values of two documents. Without cmocka.
 */
#ifndef SPD_BUILD_H
#define SPD_BUILD_H

#include <base/bytes.h>
#include <format/spd/spd.h>

/*
 * By name:
 *   small    one module: a loop with an inlined callee and a call through an import, a static
 *            function without code, one that is folded, one that never ran
 *   next     small, as a later build with samples would have it: other counts, one function gone,
 *            one added, one changed
 *   halved   small, with all counts halved
 *   fresh    small, as the linker makes it: no counts
 *   modules  two modules, with names that are not ASCII
 *   strange  everything that no known file has and that is read all the same
 *   random   random values in a valid structure
 * NULL: no such name, or no memory. `seed` is for random ones.
 */
spd *spd_build(const char *name, uint64_t seed);
const char *spd_build_name(size_t i); /* NULL behind the last */

/* Parts of a document. They stop the program when there is no memory. */
spd_module *spd_add_module(spd *doc, const char *name);
/* A function at the end of the module; pointers to other functions move. */
spd_function *spd_add_function(spd *doc, spd_module *m, const char *name, uint32_t id);
spd_block *spd_add_blocks(spd *doc, spd_function *f, uint32_t count);
void spd_add_edge(spd *doc, spd_block *b, uint32_t to_id, uint64_t count, uint32_t flags);
void spd_add_range(spd *doc, spd_block *b, uint32_t offset, uint32_t length);
void spd_add_call(spd *doc, spd_function *f, const char *callee, uint32_t kind, uint32_t block_id);

/* The first value in which two documents differ, or NULL. Offsets in the file do not count. */
const char *spd_difference(const spd *a, const spd *b);

/* The bytes of a document; they must fit. */
bytes spd_built_bytes(const spd *doc);

/* xorshift64*: seed must not be 0. */
uint64_t spd_random(uint64_t *seed);

#endif
