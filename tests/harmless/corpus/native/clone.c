/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's fork without the C library's, and its _exit. */
#include "../seen.h"
#include <sched.h>
#include <sys/syscall.h>
static int fresh(void *arg)
{
    dprintf(1, "cloned with %s\n", (char *)arg);
    return 21;
}
int main(void)
{
    int status;
    pid_t p = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!p) {
        void *m = malloc(5000);
        memset(m, 1, 5000);
        dprintf(1, "raw child\n");
        syscall(SYS_exit_group, 20);
    }
    waitpid(p, &status, 0);
    dprintf(1, "raw %x\n", status);
    char *stack = malloc(1 << 18);
    p = clone(fresh, stack + (1 << 18), CLONE_VM | CLONE_VFORK | SIGCHLD, "memory");
    waitpid(p, &status, 0);
    dprintf(1, "vm %x\n", status);
    p = clone(fresh, stack + (1 << 18), SIGCHLD, "nothing");
    waitpid(p, &status, 0);
    dprintf(1, "copy %x\n", status);
    p = clone(fresh, stack + (1 << 18), CLONE_FILES | CLONE_FS, "no signal");
    waitpid(p, &status, __WALL);
    dprintf(1, "silent %x\n", status);
    seen("end");
    syscall(SYS_exit, 22);
}
