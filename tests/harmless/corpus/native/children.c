/* SPDX-License-Identifier: Apache-2.0 */
/* Counts its children: none but its own may be there. A broken pipe ends it. */
#include "../seen.h"
static volatile sig_atomic_t children;
static void on(int s)
{
    (void)s;
    int status;
    while (waitpid(-1, &status, WNOHANG) > 0)
        children++;
}
int main(void)
{
    struct sigaction a = {.sa_handler = on, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &a, NULL);
    int got = (int)waitpid(-1, NULL, WNOHANG);
    printf("before %d %d\n", got, errno);
    for (int i = 0; i < 10; i++)
        if (!fork())
            _exit(i);
    while (children < 10)
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    got = (int)wait(NULL);
    printf("children %d, then %d %d\n", (int)children, got, errno);
    struct sigaction none = {.sa_handler = SIG_IGN};
    sigaction(SIGCHLD, &none, NULL);
    pid_t p = fork();
    if (!p)
        _exit(1);
    got = (int)waitpid(p, NULL, 0);
    printf("ignored %d %d\n", got, errno);
    struct rusage use;
    getrusage(RUSAGE_CHILDREN, &use);
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (pipe(ends))
        return 3;
    close(ends[0]);
    got = (int)write(ends[1], "x", 1);
    printf("broken %d %d\n", got, errno);
    fflush(stdout);
    seen("end");
    signal(SIGPIPE, SIG_DFL);
    return (int)write(ends[1], "x", 1);
}
