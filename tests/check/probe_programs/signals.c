/* 200 signals on a stack of their own, between 300,000 calls. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
static volatile int sink, seen;
static volatile int is_done;
static pthread_t target;
__attribute__((noinline)) void work(void)
{
    sink++;
}
static void handler(int number)
{
    seen = seen + number / number;
}
__attribute__((no_instrument_function)) static void *sender(void *unused)
{
    for (int i = 0; i < 200; i++) {
        int before = seen;
        pthread_kill(target, SIGUSR1);
        while (seen == before)
            ;
    }
    is_done = 1;
    return unused;
}
int main(void)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    pthread_t t;
    if (!stack.ss_sp || sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
        return 1;
    target = pthread_self();
    if (pthread_create(&t, NULL, sender, NULL) != 0)
        return 1;
    for (int i = 0; i < 300000; i++)
        work();
    while (!is_done)
        ;
    pthread_join(t, NULL);
    return 0;
}
