/* Sums and products of counts from files, which stay at the largest number instead of wrapping. */
#ifndef BASE_SATURATE_H
#define BASE_SATURATE_H

#include <stdint.h>

static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
