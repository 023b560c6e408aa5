/* Functions that take a known time, measured by the program itself and written to $PROBE_TRUTH. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define PLAIN __attribute__((no_instrument_function))
static double spin_ms, rest_ms, both_ms;
PLAIN static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
PLAIN static double burn(double ms)
{
    double start = now_ms();
    while (now_ms() - start < ms)
        ;
    return now_ms() - start;
}
PLAIN static double nap(double ms)
{
    double start = now_ms();
    struct timespec t = {0, (long)(ms * 1e6)};
    nanosleep(&t, NULL);
    return now_ms() - start;
}
__attribute__((noinline)) void spin(void)
{
    spin_ms += burn(2);
}
__attribute__((noinline)) void rest(void)
{
    rest_ms += nap(2);
}
__attribute__((noinline)) void both(void)
{
    double start = now_ms();
    spin();
    rest();
    both_ms += now_ms() - start;
}
int main(void)
{
    for (int i = 0; i < 20; i++)
        both();
    const char *path = getenv("PROBE_TRUTH");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return 1;
    fprintf(f, "spin %f\nrest %f\nboth %f\n", spin_ms, rest_ms, both_ms);
    return fclose(f) != 0;
}
