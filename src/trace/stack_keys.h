/*
 * Call stacks that ETW delivers as a key first and as frames later: references wait here for the
 * definition of their key, equal ones added up.
 */
#ifndef TRACE_STACK_KEYS_H
#define TRACE_STACK_KEYS_H

#include <spgo/types.h>

typedef struct stack_keys stack_keys;

/* What waits for one key: as many entries as processes used it. */
typedef struct stack_waiter {
    uint64_t time; /* of the newest use */
    uint64_t hits;
    uint32_t process;
    uint32_t next; /* index of the next waiter of the same key, or UINT32_MAX */
} stack_waiter;

stack_keys *stack_keys_new(void); /* NULL without memory */
void stack_keys_free(stack_keys *k);

/* Notes a use of the key. False when too many wait or memory is out: the use is not kept. */
bool stack_keys_use(stack_keys *k, uint64_t key, uint32_t process, uint64_t time);
bool stack_keys_no_memory(const stack_keys *k); /* was that ever so for memory? */

/* Takes the waiters of a key, which is now defined; NULL if there are none. Follow `next` with
 * stack_keys_next; give them back with stack_keys_done. */
const stack_waiter *stack_keys_take(stack_keys *k, uint64_t key);
const stack_waiter *stack_keys_next(const stack_keys *k, const stack_waiter *w);
void stack_keys_done(stack_keys *k);

/* Hits that still wait: their keys were never defined. */
uint64_t stack_keys_waiting(const stack_keys *k);

#endif
