/*
 * Blocks of doubling size in a list. Memory is handed out zeroed and 16-byte aligned. Under
 * AddressSanitizer what is not handed out is poisoned and pushes keep a red zone between them, so
 * that the arena does not hide overruns.
 */
#include <base/arena.h>

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE 16
#define HIDE(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define RED_ZONE 0
#define HIDE(p, n) ((void)0)
#define SHOW(p, n) ((void)0)
#endif

enum { ALIGNMENT = 16, BLOCK_MIN = 16 * 1024, BLOCK_MAX = 1024 * 1024 };

typedef struct block {
    struct block *next;
    size_t size; /* of data */
    size_t used;
    uint8_t *data;
} block;

struct arena {
    block *blocks; /* the newest first */
    uint64_t used;
    uint64_t budget;
    size_t next_size;
};

arena *arena_new(uint64_t budget_bytes)
{
    arena *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->budget = budget_bytes ? budget_bytes : UINT64_MAX;
    a->next_size = BLOCK_MIN;
    return a;
}

void arena_free(arena *a)
{
    if (!a)
        return;
    for (block *b = a->blocks; b;) {
        block *next = b->next;
        SHOW(b->data, b->size);
        free(b->data);
        free(b);
        b = next;
    }
    free(a);
}

static block *add_block(arena *a, size_t need)
{
    size_t size = a->next_size > need ? a->next_size : need;
    block *b = malloc(sizeof *b);
    uint8_t *data = b ? calloc(1, size) : NULL;
    if (!data) {
        free(b);
        return NULL;
    }
    *b = (block){.next = a->blocks, .size = size, .data = data};
    HIDE(data, size);
    a->blocks = b;
    if (a->next_size < BLOCK_MAX)
        a->next_size *= 2;
    return b;
}

void *arena_push(arena *a, size_t n, size_t elem_size)
{
    if (elem_size && n > (SIZE_MAX - 2 * ALIGNMENT - RED_ZONE) / elem_size)
        return NULL;
    size_t bytes = n * elem_size;
    size_t taken = ((bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1)) + RED_ZONE;
    if (bytes > a->budget - a->used)
        return NULL;
    block *b = a->blocks;
    if (!b || taken > b->size - b->used)
        b = add_block(a, taken);
    if (!b)
        return NULL;
    uint8_t *p = b->data + b->used;
    b->used += taken;
    a->used += bytes;
    SHOW(p, bytes);
    return p;
}

char *arena_copy_text(arena *a, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = arena_push(a, len + 1, 1);
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

uint64_t arena_used(const arena *a)
{
    return a->used;
}
