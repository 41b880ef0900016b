/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs of test_native_*.py: each does one thing that is hard on an agent, prints what a user
 * would see, and must print and return the same with and without twinrun around it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <twin/twin.h>

static float values[256];

static void step(float v)
{
    for (int i = 0; i < 256; i++)
        values[i] = v + (float)i;
    twin_record("batch:x", TWIN_F32, 2, (int64_t[]){16, 16}, NULL, values, 0);
    twin_record("weight:w", TWIN_F32, 1, (int64_t[]){256}, NULL, values, 0);
    twin_step();
}

static int plain(void)
{
    for (int i = 0; i < 5; i++)
        step((float)i);
    puts("plain");
    return 7;
}

static int names(void)
{
    char long_name[300];
    twin_open();
    twin_record("init:w", TWIN_F32, 1, (int64_t[]){4}, NULL, values, 0);
    twin_record("loss:loss", TWIN_F32, 0, NULL, NULL, values, 0);
    twin_record("gradient:w", TWIN_F32, 1, (int64_t[]){4}, NULL, values, 0);
    twin_record("local gradient:w", TWIN_F32, 1, (int64_t[]){4}, NULL, values, 8);
    twin_record("plain", TWIN_F64, 0, NULL, NULL, &(double){1.5}, 0);
    twin_record("odd:prefix", TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    twin_record("batch:", TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    for (int i = 0; i < 2; i++)
        twin_record(long_name, TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    for (int i = 0; i < 70; i++)
        twin_scope_push(i < 2 ? "outer" : "inner");
    for (int i = 0; i < 68; i++)
        twin_scope_pop();
    twin_record("scoped", TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    twin_scope_pop();
    twin_record("scoped", TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    twin_scope_pop();
    twin_scope_pop();
    char name[16] = "reused";
    twin_record(name, TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    strcpy(name, "again");
    twin_record(name, TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    (twin_record)("no place", TWIN_U8, 1, (int64_t[]){1}, NULL, values, 0);
    twin_record("transposed", TWIN_F32, 2, (int64_t[]){16, 16}, (int64_t[]){1, 16}, values, 0);
    twin_record("missing", TWIN_F32, 1, (int64_t[]){4}, NULL, NULL, 0);
    twin_record("no shape", TWIN_F32, 3, NULL, NULL, values, 0);
    twin_record("deep", TWIN_F32, 200, (int64_t[]){1}, NULL, values, 0);
    twin_record("dtype", (enum twin_dtype)99, 1, (int64_t[]){1}, NULL, values, 0);
    twin_record(NULL, TWIN_F32, 1, (int64_t[]){4}, NULL, values, 0);
    twin_step();
    return 0;
}

static void *worker(void *p)
{
    char role[32];
    snprintf(role, sizeof role, "worker %d", (int)(intptr_t)p);
    twin_thread_role(role);
    for (int i = 0; i < 500; i++)
        twin_record("value", TWIN_I32, 0, NULL, NULL, &i, 0);
    return NULL;
}

static int threads(void)
{
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    twin_step();
    puts("threads");
    return 0;
}

static int wait_for(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Three children: one records and ends by _exit, one by exit, one records nothing; the parent goes
 * on. */
static int forks(void)
{
    int codes[3];
    step(1);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i < 2)
                for (int k = 0; k < 2; k++)
                    step((float)(10 * (i + 1) + k));
            if (i == 0)
                _exit(10);
            exit(10 + i);
        }
        codes[i] = wait_for(child);
    }
    step(2);
    printf("codes %d %d %d\n", codes[0], codes[1], codes[2]);
    return 0;
}

static int grandchild(void)
{
    pid_t child = fork();
    if (child == 0) {
        step(1);
        pid_t next = fork();
        if (next == 0) {
            step(2);
            _exit(5);
        }
        _exit(wait_for(next));
    }
    int code = wait_for(child);
    printf("code %d\n", code);
    return 0;
}

static int leave(void)
{
    step(1);
    step(2);
    fflush(stdout);
    _exit(9);
}

static int leave_iso(void)
{
    step(1);
    _Exit(9);
}

static void quick(void)
{
    puts("at_quick_exit");
    fflush(stdout);
}

static int leave_quickly(void)
{
    at_quick_exit(quick);
    step(1);
    quick_exit(9);
}

static void on_alarm(int signal)
{
    (void)signal;
    _exit(11);
}

/* A signal handler that ends the process, most likely in the middle of a record. */
static int leave_from_handler(void)
{
    signal(SIGALRM, on_alarm);
    step(0); /* on a busy machine the trace alone may take longer to open than the alarm waits */
    ualarm(50000, 0);
    while (values[0] == 0)
        twin_record("value", TWIN_F32, 1, (int64_t[]){256}, NULL, values, 0);
    return 0;
}

static int crash(void)
{
    step(1);
    usleep(600000); /* longer than the sealing interval */
    abort();
}

static int twice(void)
{
    step(1);
    twin_close();
    twin_close();
    step(2);
    return twin_open() || twin_on();
}

static int replace(int argc, char **argv)
{
    (void)argc;
    step(1);
    if (argv[2]) {
        execl("/nonexistent", "nonexistent", (char *)NULL);
        printf("failed %d\n", errno == ENOENT);
        fflush(stdout);
        step(2);
        execlp(argv[2], "again", "plain", (char *)NULL);
    }
    return 1;
}

/* vfork shares our memory: neither the child's exec nor its _exit may touch the parent's trace. */
static int vforks(void)
{
    step(1);
    pid_t child = vfork();
    if (child == 0)
        _exit(4);
    int first = wait_for(child);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(99);
    }
    int second = wait_for(child);
    step(2);
    printf("codes %d %d\n", first, second);
    return 0;
}

/* A child that pthread_atfork does not see. */
static int raw_clone(void)
{
    step(1);
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        step(2);
        step(3);
        _exit(6);
    }
    int code = wait_for((pid_t)child);
    step(4);
    printf("code %d\n", code);
    return 0;
}

static int keeps_errno(void)
{
    int bad = 0;
    for (int i = 0; i < 100; i++) {
        errno = 4242;
        twin_record(i ? "value" : "other", TWIN_F32, 1, (int64_t[]){256}, NULL, values, 0);
        bad += errno != 4242;
        twin_scope_push("s");
        bad += errno != 4242;
        twin_scope_pop();
        twin_thread_role("r");
        bad += errno != 4242;
        twin_step();
        bad += errno != 4242;
    }
    twin_close();
    bad += errno != 4242;
    printf("errno changed %d times\n", bad);
    return bad;
}

/* What a daemon does: closes every descriptor, then opens its own file, which gets one of the
 * numbers. */
static int closes_all(int argc, char **argv)
{
    char text[64] = {0};
    step(1);
    usleep(20000);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    FILE *own = argc > 2 ? fopen(argv[2], "w+") : NULL;
    for (int i = 0; i < 200; i++)
        step((float)i);
    usleep(400000);
    if (own) {
        fputs("mine", own);
        fflush(own);
        rewind(own);
        if (!fgets(text, sizeof text, own))
            return 1;
        fclose(own);
    }
    printf("%s\n", text);
    return 0;
}

/* A cancelled thread must not leave with a lock of ours held. */
static void *endless(void *p)
{
    for (;;) {
        twin_record("value", TWIN_F32, 1, (int64_t[]){256}, NULL, values, 0);
        pthread_testcancel();
    }
    return p;
}

static int cancelled(void)
{
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        pthread_create(&t, NULL, endless, NULL);
        usleep(1000);
        pthread_cancel(t);
        pthread_join(t, NULL);
        twin_step();
    }
    puts("cancelled");
    return 0;
}

static int slow(void)
{
    for (int i = 0; i < 10; i++) {
        step((float)i);
        usleep(50000);
        if (i == 3) { /* the test removes or fills the folder now */
            puts("now");
            fflush(stdout);
            if (getchar() == EOF)
                return 1;
        }
    }
    puts("slow");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } jobs[] = {
        {"plain", plain},
        {"names", names},
        {"threads", threads},
        {"forks", forks},
        {"grandchild", grandchild},
        {"leave", leave},
        {"leave-iso", leave_iso},
        {"leave-quickly", leave_quickly},
        {"leave-from-handler", leave_from_handler},
        {"crash", crash},
        {"twice", twice},
        {"vforks", vforks},
        {"raw-clone", raw_clone},
        {"errno", keeps_errno},
        {"cancelled", cancelled},
        {"slow", slow},
    };
    if (argc > 1 && strcmp(argv[1], "replace") == 0)
        return replace(argc, argv);
    if (argc > 1 && strcmp(argv[1], "closes-all") == 0)
        return closes_all(argc, argv);
    for (size_t i = 0; argc > 1 && i < sizeof jobs / sizeof jobs[0]; i++)
        if (strcmp(argv[1], jobs[i].name) == 0)
            return jobs[i].run();
    return 2;
}
