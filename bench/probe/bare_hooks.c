/* The least that can be done at an entry and an exit: read the clock, and store it with the
 * function in a buffer that stays in the nearest cache. */
#include <stdint.h>

enum { WORDS = 2048 };

static __thread uint64_t ring[WORDS];
static __thread unsigned at;

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *site);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    ring[at % WORDS] = __builtin_ia32_rdtsc();
    ring[(at + 1) % WORDS] = (uintptr_t)function;
    at += 2;
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)site;
    ring[at % WORDS] = __builtin_ia32_rdtsc();
    ring[(at + 1) % WORDS] = (uintptr_t)function;
    at += 2;
}
