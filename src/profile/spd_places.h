/*
 * Where the code of an SPD's blocks stands in the image: every RVA belongs to at most one block,
 * that of the innermost inlined callee whose code it is, since a callee's runs are counted in the
 * callee wherever it was inlined.
 */
#ifndef PROFILE_SPD_PLACES_H
#define PROFILE_SPD_PLACES_H

#include <format/spd/spd.h>

/* One copy of a block in the image: the block itself, or one inlined somewhere. */
typedef struct spd_copy {
    spd_function *function; /* whose block it is */
    uint32_t block;
    uint32_t instruction_count; /* its own, without what is inlined into it; at least 1 */
    uint32_t first_rva; /* where it is entered: the lowest RVA that is its own, or, if all of it is
                           inlined code, the lowest of that */
} spd_copy;

/* Code of one copy: [begin, end), by rising RVA. */
typedef struct spd_place {
    uint32_t begin_rva, end_rva;
    uint32_t copy;
} spd_place;

typedef struct spd_places {
    spd_copy *copies;
    size_t copy_count, copy_capacity;
    spd_place *places;
    size_t place_count, place_capacity;
} spd_places;

/* Of one module. Instances of callees that the module does not have, or whose block ids are none,
 * have no places. */
spgo_code spd_places_of(spd_module *m, spd_places *out, spgo_error *err);
void spd_places_free(spd_places *p);

/* NULL: no block's code. */
const spd_place *spd_place_at(const spd_places *p, uint32_t rva);

#endif
