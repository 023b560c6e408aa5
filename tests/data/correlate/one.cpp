// Something of each that optimizers treat in their own way: inlining in several levels, loops that
// are unrolled and vectorized, switches, virtual and indirect calls, exceptions, cold paths, tail
// calls, static functions whose names two.cpp has as well, initializers that run before main.
extern "C" int printf(const char *, ...);
extern "C" void abort();
int other(int);

static int helper(int x)
{
    if (x % 3 == 0)
        return x * 2;
    return x + 1;
}

static __attribute__((noinline)) int same(int x)
{
    for (int i = 0; i < x % 17; i++)
        x += helper(i);
    return x;
}

struct Shape {
    virtual int area(int) = 0;
    virtual ~Shape() {}
};

struct Square : Shape {
    int area(int x) override { return same(x); }
};

struct Line : Shape {
    int area(int x) override { return helper(x) * 3; }
};

template <class T> struct List {
    T items[512];
    int count = 0;
    void add(T x)
    {
        if (count < 512)
            items[count++] = x;
    }
    T sum() const
    {
        T s = 0;
        for (int i = 0; i < count; i++)
            s += items[i];
        return s;
    }
};

struct Table {
    int rows[16];
    Table()
    {
        for (int i = 0; i < 16; i++)
            rows[i] = other(i);
    }
    ~Table() { printf("%d\n", rows[3]); }
};
static Table table;
static Table *second = new Table;

int thrower(int x)
{
    if (x > 5)
        throw x;
    return x;
}

__attribute__((noinline)) int cold(int x)
{
    if (__builtin_expect(x < 0, 0)) {
        printf("negative: %d\n", x);
        abort();
    }
    return x * 5;
}

__attribute__((noinline)) int tail(int x)
{
    return x & 1 ? cold(x) : other(x);
}

static void sort(int *a, int n, bool (*less)(int, int))
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && less(a[k], a[k - 1]); k--) {
            int swap = a[k];
            a[k] = a[k - 1];
            a[k - 1] = swap;
        }
}

int main(int argc, char **)
{
    Shape *shapes[2] = {new Square, new Line};
    List<int> whole;
    List<double> half;
    for (int i = 0; i < 500; i++) {
        whole.add(shapes[i & 1]->area(i));
        half.add(i * .5);
    }
    sort(whole.items, whole.count, [](int x, int y) { return helper(x) < helper(y); });
    int caught = 0;
    for (int i = 0; i < 10; i++)
        try {
            caught += thrower(i);
        } catch (int x) {
            caught -= x;
        }
    float f[256];
    for (int i = 0; i < 256; i++)
        f[i] = i * 1.5f;
    for (int k = 0; k < 10; k++)
        for (int i = 0; i < 256; i++)
            f[i] = f[i] * f[i] + k;
    printf("%d %f %d %f %d\n", whole.sum(), half.sum(), tail(caught), (double)f[argc],
           second->rows[1]);
    delete second;
}
