/* Paths that are known: each function a known number of times from each caller. */
static volatile int sink;
__attribute__((noinline)) void leaf(int again)
{
    sink++;
    if (again)
        leaf(again - 1);
    sink++;
}
__attribute__((noinline)) void first(void)
{
    for (int i = 0; i < 3; i++)
        leaf(0);
    sink++;
}
__attribute__((noinline)) void second(void)
{
    leaf(1);
    sink++;
}
int main(void)
{
    for (int i = 0; i < 10; i++)
        first();
    for (int i = 0; i < 5; i++)
        second();
    for (int i = 0; i < 7; i++)
        leaf(0);
    return 0;
}
