/* Calls that are left by longjmp, and one that follows them in the same place of the stack. */
#include <setjmp.h>
static jmp_buf place;
static volatile int sink;
__attribute__((noinline)) void dive(int depth)
{
    sink++;
    if (depth == 0)
        longjmp(place, 1);
    dive(depth - 1);
    sink++;
}
__attribute__((noinline)) void after(void)
{
    sink++;
}
__attribute__((noinline)) void turn(void)
{
    if (setjmp(place) == 0)
        dive(2);
    after();
    sink++;
}
int main(void)
{
    for (int i = 0; i < 100; i++)
        turn();
    return 0;
}
