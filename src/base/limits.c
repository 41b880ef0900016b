/* SPDX-License-Identifier: Apache-2.0 */
/* The user's limit on the size of files (ulimit -f), which holds for what we write as well. Inside
 * the job a signal that our write brings about would end a program that has done nothing wrong:
 * between hold and release the write fails with EFBIG instead, and the signal it raised is taken
 * away. */
#include "base.h"

#include <errno.h>
#include <time.h>

/* The kernel sends SIGXFSZ to the thread that writes beyond the limit, so holding it back in this
 * thread (sigprocmask is the thread's on Linux) is enough; the write fails with EFBIG. */
void tw_file_limit_hold(struct tw_file_limit *l)
{
    sigset_t only;
    sigset_t waiting;
    int saved = errno;
    sigemptyset(&only);
    sigaddset(&only, SIGXFSZ);
    l->was_waiting = sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ) == 1;
    l->held = sigprocmask(SIG_BLOCK, &only, &l->before) == 0;
    errno = saved;
}

void tw_file_limit_release(struct tw_file_limit *l)
{
    sigset_t only;
    struct timespec at_once = {0};
    int saved = errno;
    if (!l->held)
        return;
    sigemptyset(&only);
    sigaddset(&only, SIGXFSZ);
    /* One that waited before is the program's. */
    while (!l->was_waiting && sigtimedwait(&only, NULL, &at_once) == SIGXFSZ)
        ;
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    errno = saved;
}
