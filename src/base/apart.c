/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a forked child loose from its parent: descriptors, process group, signals, name. Called in
 * the child of helpers such as the sampler of GPUs (launch/gpus.c); what it does and why stands at
 * the declaration in base.h. It returns nothing: where the one descriptor that matters cannot be
 * kept, the child ends. */
#include "base.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Allocates nothing: the parent may have threads. */
void tw_child_leaves_parent(int keep, const char *name)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    if (keep != TW_CHILD_KEEPS && dup3(keep, TW_CHILD_KEEPS, O_CLOEXEC) != TW_CHILD_KEEPS)
        _exit(1);
#ifdef SYS_close_range
    /* A kernel without close_range(2) closes one by one, as far as numbers are usual. */
    if (syscall(SYS_close_range, TW_CHILD_KEEPS + 1u, ~0u, 0u) != 0)
#endif
        for (int fd = TW_CHILD_KEEPS + 1; fd < 4096; fd++)
            close(fd);
    setpgid(0, 0);
    for (int s = 1; s < 32; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, name);
}
