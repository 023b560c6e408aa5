/*
 * One arena per document: everything that belongs to it is freed at once. The budget turns an
 * allocation bomb in a hostile file into NULL, which callers report as SPGO_LIMIT or SPGO_NOMEM.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <spgo/types.h>

typedef struct arena arena;

/* budget_bytes 0: no limit. NULL when there is no memory. */
arena *arena_new(uint64_t budget_bytes);
void arena_free(arena *a); /* NULL is fine */

/* Zeroed memory for n elements of elem_size bytes, 16-byte aligned; NULL on overflow, over budget
 * or out of memory. n == 0 gives a valid pointer to nothing. */
void *arena_push(arena *a, size_t n, size_t elem_size);

/* A NUL-terminated copy; NULL as arena_push. */
char *arena_copy_text(arena *a, const char *text, size_t len);

/* Bytes handed out so far. */
uint64_t arena_used(const arena *a);

#endif
