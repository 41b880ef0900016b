/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: a child leads one of its own, is stopped and ended through it; the parent asks itself. */
#include "../seen.h"
int main(void)
{
    signal(SIGTERM, SIG_IGN);
    int ready[2];
    if (pipe2(ready, O_CLOEXEC))
        return 1;
    pid_t p = fork();
    if (!p) {
        setpgid(0, 0);
        signal(SIGTERM, SIG_DFL);
        pid_t second = fork();
        if (write(ready[1], "", 1) != 1)
            return 1;
        if (second == 0)
            for (;;)
                pause();
        for (;;)
            pause();
    }
    setpgid(p, p);
    /* Both of the group end by the signal only once they stopped to ignore it. */
    char byte;
    for (int n = 0; n < 2; n++)
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    close(ready[0]);
    close(ready[1]);
    int status;
    printf("kill %d\n", kill(-p, SIGTERM));
    waitpid(p, &status, 0);
    printf("group %x\n", status);
    printf("leads %d\n", getpgrp() == getsid(0));
    seen("end");
    return 0;
}
