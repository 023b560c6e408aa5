/* Probes switched off and on from inside: 111 of 1,111 calls count. */
#include <spgo/probe.h>
static volatile int sink;
__attribute__((noinline)) void leaf(void)
{
    sink++;
}
static void calls(int n)
{
    for (int i = 0; i < n; i++)
        leaf();
}
int main(void)
{
    spgo_probe_name_thread("the main one");
    spgo_probe_name_process("the process");
    calls(1);
    spgo_probe_mark(3, "three");
    spgo_probe_stop(SPGO_PROBE_PROCESS);
    calls(500);
    spgo_probe_start(SPGO_PROBE_PROCESS);
    calls(10);
    spgo_probe_suspend(SPGO_PROBE_THREAD);
    spgo_probe_suspend(SPGO_PROBE_GLOBAL);
    calls(250);
    spgo_probe_resume(SPGO_PROBE_THREAD);
    calls(250);
    spgo_probe_resume(SPGO_PROBE_GLOBAL);
    calls(100);
    spgo_probe_mark(4, "four");
    return spgo_probe_mark(-1, "") == SPGO_PROBE_BAD_ID ? 0 : 1;
}
