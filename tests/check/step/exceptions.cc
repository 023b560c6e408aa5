// Exceptions through 1 to 20 frames with destructors.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct counted {
    static int live;
    std::string text;
    explicit counted(int n) : text(std::to_string(n)) { live++; }
    ~counted() { live--; }
};
int counted::live;

static int dig(int depth)
{
    auto p = std::make_unique<counted>(depth);
    if (depth == 0)
        throw std::runtime_error("bottom");
    return dig(depth - 1) + static_cast<int>(p->text.size());
}

int main(int argc, char **)
{
    long caught = 0;
    std::vector<std::string> kept;
    for (int i = 0; i < 20000; i++) {
        try {
            caught += dig(i % 20 + argc);
        } catch (const std::exception &e) {
            caught++;
            if (i % 1000 == 0)
                kept.push_back(e.what());
        }
    }
    std::printf("caught %ld live %d kept %zu\n", caught, counted::live, kept.size());
}
