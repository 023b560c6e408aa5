// See one.cpp.
static int helper(int x)
{
    if (x & 1)
        return x * 7;
    return x - 1;
}

static __attribute__((noinline)) int same(int x)
{
    switch (x % 9) {
    case 0:
        return helper(x);
    case 1:
        return 3;
    case 2:
        return x * x;
    case 3:
        return x ^ 5;
    case 4:
        x++;
    case 5:
        x += helper(x);
    case 6:
        return x / 3;
    default:
        return -x;
    }
}

int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

// Like fibonacci, so that a linker may fold the two.
int folded(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int other(int x)
{
    int sum = 0;
    for (int i = 0; i < x % 10; i++)
        sum += same(i) ^ folded(i);
    return sum + fibonacci(10);
}
