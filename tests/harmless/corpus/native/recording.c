/* SPDX-License-Identifier: Apache-2.0 */
/* A program that shows its tensors itself, in the ways of users: recording KIND. Without twinrun
 * around it nothing is kept. */
#include "../seen.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <twin/twin.h>

static void show(const char *name, double value)
{
    twin_record(name, TWIN_F64, 0, NULL, NULL, &value, 0);
}

static void burst(void) /* more than any ring holds */
{
    for (int i = 0; i < 300000; i++) {
        show("velocity", i * 0.5);
        if (i % 1000 == 999)
            twin_step();
    }
}

static void names(void)
{
    char name[64];
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "value %d of the job", i);
        show(name, i);
    }
}

static void views(void)
{
    float t[12] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, 6, 7, 8, 9, 10, 11};
    for (int dtype = -1; dtype < 40; dtype++) {
        twin_record("value:t", (enum twin_dtype)dtype, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, t,
                    0);
        twin_record("value:none", (enum twin_dtype)dtype, 1, (int64_t[]){0}, NULL, NULL, 0);
    }
    twin_record("value:many", TWIN_F32, 3, (int64_t[]){-1, 4, 1LL << 62}, NULL, t, 0);
    twin_record("value:back", TWIN_F32, 1, (int64_t[]){12}, (int64_t[]){-1}, t + 11, ~0ull);
    twin_record(NULL, TWIN_F32, 1, (int64_t[]){12}, NULL, t, 0);
    for (int i = 0; i < 100; i++)
        twin_scope_push(i % 2 ? "in" : NULL);
    show("deep", 1);
    for (int i = 0; i < 120; i++)
        twin_scope_pop();
    twin_step();
}

static void *worker(void *number)
{
    char role[16];
    snprintf(role, sizeof role, "worker %ld", (long)number);
    twin_thread_role(role);
    for (int i = 0; i < 2000; i++)
        show("beside", i);
    return NULL;
}

static void threads(void)
{
    pthread_t t[4];
    for (int step = 0; step < 5; step++) {
        for (long i = 0; i < 4; i++)
            if (pthread_create(&t[i], NULL, worker, (void *)i))
                exit(9);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], NULL);
        twin_step();
    }
}

static void children(void)
{
    show("before", 1);
    for (int k = 0; k < 3; k++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int i = 0; i < 50; i++) {
                show("weight:w", k + i);
                twin_step();
            }
            if (k == 1)
                kill(getpid(), SIGKILL);
            if (k == 2)
                execl("/bin/echo", "echo", "from the third child", (char *)NULL);
            _exit(k);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        printf("child %d ended with %x\n", k, status);
        fflush(stdout);
    }
    show("after", 1);
}

static void unreadable(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    twin_record("weight:half", TWIN_F32, 1, (int64_t[]){2048}, NULL, page, 0);
    twin_record("weight:none", TWIN_F32, 1, (int64_t[]){64}, NULL, page + 4096, 0);
    twin_step();
}

static void closed(void)
{
    twin_open();
    show("weight:w", 1);
    twin_step();
    twin_close();
    show("weight:late", 2);
    twin_step();
    twin_close();
}

static volatile sig_atomic_t alarms;

static void at_alarm(int number)
{
    (void)number;
    alarms++;
    show("from a handler", alarms); /* in the middle of another record, sooner or later */
}

static void handler(void)
{
    struct sigaction a = {.sa_handler = at_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &a, NULL);
    ualarm(500, 500);
    static float many[1 << 16];
    while (alarms < 100)
        twin_record("weight:w", TWIN_F32, 1, (int64_t[]){1 << 16}, NULL, many, 0);
    ualarm(0, 0);
    signal(SIGALRM, SIG_DFL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*job)(void);
    } kinds[] = {{"burst", burst},     {"names", names},       {"views", views},
                 {"threads", threads}, {"children", children}, {"unreadable", unreadable},
                 {"closed", closed},   {"handler", handler}};
    seen("before");
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name))
            kinds[i].job();
    printf("%s done\n", argv[argc - 1]);
    fflush(stdout);
    seen("end");
    return 5;
}
