/* Exceptions that pass functions on their way. */
#include <stdexcept>
static volatile int sink;
__attribute__((noinline)) int thrower(int depth)
{
    sink = sink + 1;
    if (depth == 0)
        throw std::runtime_error("thrown");
    int below = thrower(depth - 1);
    sink = sink + 1;
    return below + 1;
}
__attribute__((noinline)) int handle()
{
    sink = sink + 1;
    return -1;
}
__attribute__((noinline)) int catcher(int depth)
{
    try {
        return thrower(depth);
    } catch (const std::exception &) {
        return handle();
    }
}
int main()
{
    int sum = 0;
    for (int i = 0; i < 500; i++)
        sum += catcher(i % 5);
    return sum == -500 ? 0 : 1;
}
