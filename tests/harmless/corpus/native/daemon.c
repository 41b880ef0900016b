/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon: two forks, a session of its own, no streams; it writes a file after its parent ended.
 */
#include "../seen.h"
int main(void)
{
    printf("parent\n");
    fflush(stdout);
    pid_t p = fork();
    if (p) {
        int status;
        waitpid(p, &status, 0);
        return WEXITSTATUS(status);
    }
    setsid();
    p = fork();
    if (p)
        _exit(2);
    close(0);
    close(1);
    close(2);
    open("/dev/null", O_RDWR);
    if (dup(0) != 1 || dup(0) != 2)
        _exit(3);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    seen("daemon");
    FILE *f = fopen("daemon", "w");
    fprintf(f, "alive\n");
    fclose(f);
    exit(0);
}
