/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to end. usage: ends abort|segv|fpe|kill|quick|atexit|thread|overflow|stop|code */
#include "../seen.h"
#include <pthread.h>
static void first(void)
{
    dprintf(1, "first registered\n");
}
static void last(void)
{
    dprintf(1, "last registered\n");
    if (fork())
        wait(NULL);
}
static void with_status(int status, void *arg)
{
    dprintf(1, "on_exit %d %s\n", status, (char *)arg);
}
__attribute__((destructor)) static void destructor(void)
{
    dprintf(2, "destructor\n");
}
static void *ends_all(void *arg)
{
    dprintf(1, "thread ends all\n");
    exit(arg ? 31 : 30);
}
static int deep(int n)
{
    volatile char block[4096];
    block[n % 4096] = (char)n;
    return deep(n + 1) + block[n % 4096];
}
int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "code";
    volatile int zero = 0;
    atexit(first);
    on_exit(with_status, "argument");
    at_quick_exit(first);
    printf("buffered%s", !strcmp(how, "code") ? "\n" : " without a newline");
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "segv"))
        *(volatile int *)(long)zero = 1;
    if (!strcmp(how, "fpe"))
        return 10 / zero;
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(how, "quick"))
        quick_exit(5);
    if (!strcmp(how, "overflow"))
        return deep(0);
    if (!strcmp(how, "stop")) {
        pid_t p = fork();
        if (!p) {
            raise(SIGSTOP);
            _exit(11);
        }
        int status, again;
        waitpid(p, &status, WUNTRACED);
        kill(p, SIGCONT);
        waitpid(p, &again, 0);
        printf("stopped %x then %x\n", status, again);
    }
    if (!strcmp(how, "thread")) {
        pthread_t t;
        if (!pthread_create(&t, NULL, ends_all, NULL))
            pthread_join(t, NULL);
    }
    if (!strcmp(how, "atexit"))
        atexit(last);
    exit(256 + 17);
}
