/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers with and without a stack of their own, blocked and pending signals, sigwait, real time
 * signals with values. */
#include "../seen.h"
static volatile sig_atomic_t count, value;
static char stack[65536];
static void on(int s, siginfo_t *i, void *u)
{
    (void)u;
    count += s;
    value += i->si_value.sival_int;
    char here;
    if (s == SIGUSR2)
        value += &here > stack && &here < stack + sizeof stack;
}
int main(void)
{
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, NULL);
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGRTMIN + 3, &a, NULL);
    a.sa_flags |= SA_ONSTACK;
    sigaction(SIGUSR2, &a, NULL);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 100});
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTERM);
    raise(SIGUSR1);
    sigpending(&pending);
    seen("blocked");
    int got = 0;
    sigdelset(&set, SIGUSR1);
    sigwait(&set, &got);
    printf("count %d value %d pending %d got %d\n", (int)count, (int)value,
           sigismember(&pending, SIGTERM), got);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    printf("count %d\n", (int)count);
    signal(SIGINT, SIG_IGN);
    seen("end");
    fflush(stdout);
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
    return 1;
}
