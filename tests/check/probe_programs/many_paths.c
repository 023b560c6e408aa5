/* A binary tree of calls, whose 8,190 paths need more room than the file may have. */
static volatile int sink;
__attribute__((noinline)) void left(int depth);
__attribute__((noinline)) void right(int depth);
static void both(int depth) __attribute__((no_instrument_function));
static void both(int depth)
{
    sink++;
    if (depth > 0) {
        left(depth - 1);
        right(depth - 1);
    }
}
__attribute__((noinline)) void left(int depth)
{
    both(depth);
}
__attribute__((noinline)) void right(int depth)
{
    both(depth);
}
int main(void)
{
    for (int i = 0; i < 3; i++)
        left(11);
    return 0;
}
