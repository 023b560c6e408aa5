/* A tree of processes, two children each; some end by exit, some by _exit. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noinline)) void leaf(void)
{
    sink = 1;
}
__attribute__((noinline)) void grow(int depth)
{
    leaf();
    for (int i = 0; depth > 0 && i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            grow(depth - 1);
            if (i)
                _exit(0);
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
}
int main(int argc, char **argv)
{
    grow(argc > 1 ? atoi(argv[1]) : 1);
    return 0;
}
