/* SPDX-License-Identifier: Apache-2.0 */
/* A file in shared memory, protected pages, and a handler that jumps out of the fault. */
#include "../seen.h"
#include <setjmp.h>
#include <sys/mman.h>
static sigjmp_buf back;
static void on(int s)
{
    siglongjmp(back, s);
}
int main(void)
{
    int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (ftruncate(fd, 8192))
        return 2;
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return 3;
    for (int i = 0; i < 8192; i++)
        p[i] = (char)('a' + i % 26);
    pid_t child = fork();
    if (!child) {
        p[1] = 'Z';
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("%.3s\n", p);
    struct sigaction a = {.sa_handler = on}, was;
    sigaction(SIGSEGV, &a, &was);
    printf("handler before %d\n", was.sa_handler != SIG_DFL);
    mprotect(p, 4096, PROT_NONE);
    int s = sigsetjmp(back, 1);
    if (!s)
        p[0] = 'x';
    printf("fault %d\n", s);
    munmap(p, 8192);
    char *page = aligned_alloc(4096, 4096);
    printf("locked %d\n", mlock(page, 4096) ? errno : 0);
    seen("end");
    return 0;
}
