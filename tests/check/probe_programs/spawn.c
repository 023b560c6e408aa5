/* vfork and exec, a shell, and an exit code. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noinline)) void leaf(void)
{
    sink = 1;
}
__attribute__((noinline)) void spawn(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
}
int main(void)
{
    for (int i = 0; i < 10; i++) {
        leaf();
        spawn();
        leaf();
    }
    if (system("exit 0") != 0)
        return 1;
    return 7;
}
