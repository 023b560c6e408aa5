/* Inside of spd_build: random documents. */
#ifndef SPD_RANDOM_H
#define SPD_RANDOM_H

#include "spd_build.h"

/* Modules, functions and all that is in them, with a valid structure and random values. */
void spd_fill_random(spd *doc, uint64_t seed);

void *spd_build_room(spd *doc, size_t n, size_t size);

#endif
