/* A library with one function, which is called NAME. */
void NAME(void);
__attribute__((noinline)) void NAME(void)
{
    __asm__ volatile("" ::: "memory");
}
