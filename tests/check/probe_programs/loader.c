/* Loads two libraries in turn, so that the second may get the addresses of the first. */
#include <dlfcn.h>
#include <string.h>
static int use(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    void (*function)(void);
    if (!found)
        return 1;
    memcpy(&function, &found, sizeof function);
    function();
    function();
    return dlclose(library);
}
int main(int argc, char **argv)
{
    int bad = argc != 3;
    for (int i = 0; !bad && i < 3; i++)
        bad = use(argv[1], "one") || use(argv[2], "two");
    return bad;
}
