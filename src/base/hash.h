/*
 * Hashes for tables of keys that an input chooses. Every table has a seed that no input can know,
 * since it depends on where the table lies; so no input can bring keys that all collide. Nothing
 * that is put out may depend on the order of slots.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

/* A bijection after which every bit of the result depends on every bit of x. */
static inline uint64_t hash_mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static inline uint64_t hash_seed(const void *place)
{
    return hash_mix((uint64_t)(uintptr_t)place + 0x9e3779b97f4a7c15u);
}

static inline uint64_t hash_u64(uint64_t seed, uint64_t key)
{
    return hash_mix(key ^ seed);
}

#endif
