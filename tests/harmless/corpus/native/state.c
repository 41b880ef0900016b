/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding, exceptions, errno, locale, setjmp, name of the process: state that is nobody else's. */
#include "../seen.h"
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/prctl.h>
static jmp_buf back;
static void before_fork(void)
{
    dprintf(1, "before fork\n");
}
static void in_child(void)
{
    dprintf(1, "in the child\n");
}
int main(void)
{
    char name[16];
    fesetround(FE_UPWARD);
    feclearexcept(FE_ALL_EXCEPT);
    volatile double one = 1, three = 3;
    errno = 77;
    void *m = malloc(1 << 20);
    free(m);
    printf("errno %d third %a exceptions %d\n", errno, one / three, fetestexcept(FE_ALL_EXCEPT));
    printf("locale %s", setlocale(LC_ALL, ""));
    printf(" %.2f %s\n", 1234.5, strerror(ENOENT));
    pthread_atfork(before_fork, NULL, in_child);
    fflush(stdout);
    pid_t p = fork();
    if (!p) {
        seen("child");
        _exit(fegetround() == FE_UPWARD ? 2 : 3);
    }
    int status;
    waitpid(p, &status, 0);
    prctl(PR_GET_NAME, name);
    printf("child %x name %s dumpable %d\n", status, name, prctl(PR_GET_DUMPABLE));
    volatile int turns = 0;
    if (setjmp(back) < 5) {
        turns++;
        longjmp(back, turns);
    }
    printf("turns %d sin %a\n", turns, sin(1e22));
    seen("end");
    return 0;
}
