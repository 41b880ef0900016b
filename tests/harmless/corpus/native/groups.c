/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: a child leads one of its own, is stopped and ended through it; the parent asks itself. */
#include "../seen.h"
int main(void)
{
    signal(SIGTERM, SIG_IGN);
    pid_t p = fork();
    if (!p) {
        setpgid(0, 0);
        signal(SIGTERM, SIG_DFL);
        if (!fork())
            for (;;)
                pause();
        for (;;)
            pause();
    }
    setpgid(p, p);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    int status;
    printf("kill %d\n", kill(-p, SIGTERM));
    waitpid(p, &status, 0);
    printf("group %x\n", status);
    printf("leads %d\n", getpgrp() == getsid(0));
    seen("end");
    return 0;
}
