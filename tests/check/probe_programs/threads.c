/* Threads that come and go: as many as the argument says, eight at a time. */
#include <pthread.h>
#include <stdlib.h>
static volatile int sink;
__attribute__((noinline)) void leaf(void)
{
    sink = 1;
}
static void *thread(void *unused)
{
    for (int i = 0; i < 50; i++)
        leaf();
    return unused;
}
int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t t[8];
    for (int i = 0; i < count; i += 8) {
        int n = count - i < 8 ? count - i : 8;
        for (int k = 0; k < n; k++)
            if (pthread_create(&t[k], NULL, thread, NULL) != 0)
                return 1;
        for (int k = 0; k < n; k++)
            pthread_join(t[k], NULL);
    }
    return 0;
}
