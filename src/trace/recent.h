/*
 * The samples of the recent past, by time stamp and thread: what a stack record may refer to. Two
 * generations, the older one forgotten when the newer one is full, so that memory stays small
 * however long the trace is.
 */
#ifndef TRACE_RECENT_H
#define TRACE_RECENT_H

#include <spgo/types.h>

typedef struct recent {
    uint64_t *now, *before; /* open addressing over mixed keys; 0: free */
    size_t used;
    uint64_t seed;
} recent;

bool recent_init(recent *r); /* false without memory */
void recent_free(recent *r);
void recent_add(recent *r, uint64_t time, uint32_t tid);
bool recent_has(const recent *r, uint64_t time, uint32_t tid);

#endif
