/* Calls for ever, and counts them in the file that is named, behind each call. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned long own;
static volatile unsigned long *count = &own;
__attribute__((noinline)) void leaf(void)
{
    __asm__ volatile("" ::: "memory");
}
int main(int argc, char **argv)
{
    if (argc > 1) {
        int fd = open(argv[1], O_RDWR);
        void *p = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || p == MAP_FAILED)
            return 1;
        count = p;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        leaf();
        (*count)++;
    }
}
