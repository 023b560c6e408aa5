/*
 * Nothing but calls: calls MILLIONS [THREADS]. Prints the processor time of one call, in
 * nanoseconds, of entering and leaving a function that does next to nothing; and how many calls
 * that were.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLAIN __attribute__((no_instrument_function))

enum { DEPTH = 27 };

__attribute__((noinline)) int fib(int n);
__attribute__((noinline)) int fib(int n)
{
    if (n < 2)
        return n;
    int a = fib(n - 1);
    __asm__ volatile("" ::: "memory");
    int b = fib(n - 2);
    __asm__ volatile("" ::: "memory");
    return a + b;
}

static long rounds;

PLAIN static void *work(void *result)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (long i = 0; i < rounds; i++)
        fib(DEPTH);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    *(double *)result = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
    return NULL;
}

PLAIN int main(int argc, char **argv)
{
    long previous = 1, calls = 1, threads = argc > 2 ? atol(argv[2]) : 1;
    double ns[64] = {0}, sum = 0;
    pthread_t t[64];
    for (int i = 2; i <= DEPTH; i++) {
        long next = previous + calls + 1;
        previous = calls;
        calls = next;
    }
    rounds = (argc > 1 ? atol(argv[1]) : 10) * 1000000 / calls + 1;
    for (long i = 0; i < threads && i < 64; i++)
        if (pthread_create(&t[i], NULL, work, &ns[i]) != 0)
            return 1;
    for (long i = 0; i < threads && i < 64; i++) {
        pthread_join(t[i], NULL);
        sum += ns[i];
    }
    printf("%.4f %ld\n", sum / (double)(calls * rounds * threads), calls * rounds * threads);
    return 0;
}
