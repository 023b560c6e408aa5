/* A recursion that is deeper than is followed. */
#include <stdlib.h>
static volatile int sink;
__attribute__((noinline)) void deep(int depth)
{
    sink++;
    if (depth > 0)
        deep(depth - 1);
    sink++;
}
int main(int argc, char **argv)
{
    deep(argc > 1 ? atoi(argv[1]) : 1);
    return 0;
}
