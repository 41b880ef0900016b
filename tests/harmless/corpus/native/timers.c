/* SPDX-License-Identifier: Apache-2.0 */
/* Interval timers, POSIX timers, an alarm that interrupts a read; dies by SIGALRM at the end. */
#include "../seen.h"
#include <sys/time.h>
static volatile sig_atomic_t n[65];
static void on(int s)
{
    n[s]++;
}
int main(void)
{
    struct sigaction a = {.sa_handler = on};
    sigaction(SIGALRM, &a, NULL);
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGVTALRM, &a, NULL);
    struct itimerval soon = {{0, 0}, {0, 20000}}, left;
    setitimer(ITIMER_REAL, &soon, NULL);
    int ends[2];
    char c;
    if (pipe(ends))
        return 2;
    ssize_t got = read(ends[0], &c, 1);
    printf("read %zd interrupted %d alarms %d\n", got, got < 0 && errno == EINTR, (int)n[SIGALRM]);
    timer_t t;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    if (timer_create(CLOCK_MONOTONIC, &e, &t))
        return 3;
    struct itimerspec when = {{0, 5000000}, {0, 5000000}};
    timer_settime(t, 0, &when, NULL);
    while (n[SIGUSR1] < 3)
        pause();
    timer_delete(t);
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    while (!n[SIGVTALRM])
        ;
    getitimer(ITIMER_PROF, &left);
    printf("virtual %d profiling %ld\n", (int)n[SIGVTALRM], (long)left.it_value.tv_usec);
    printf("alarm left %u\n", alarm(0));
    fflush(stdout);
    seen("end");
    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;)
        pause();
}
