/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that records and ends in one of many ways, for test_kills.py.
 *
 *   kill_job PUBLISHED SEED END      records until END comes, in about as many records as SEED
 * draws
 *
 * In PUBLISHED (memory that outlives it) it tells what must be in its trace: `sealed` after each
 * flush, and in `whole` how many records there were when it began to end in an orderly way. A
 * thread beside records all the time. A child made by fork has a line of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <twin/twin.h>

enum { VALUES = 64, PARENT = 0, CHILD = 1 };

struct line {
    _Atomic uint64_t pid, steps, sealed, whole;
};

static struct line *mine;
static _Atomic uint64_t made_here, made_beside;
static void (*flush)(void);
static float values[VALUES];
static unsigned seed;
static uint64_t next_step;

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&seed) % n;
}

static void *record_beside(void *unused)
{
    (void)unused;
    twin_thread_role("worker");
    for (;;) {
        for (int i = 0; i < 64; i++) {
            twin_record("beside", TWIN_F32, 1, (int64_t[]){VALUES}, NULL, values, 0);
            atomic_fetch_add(&made_beside, 1);
        }
        usleep(200);
    }
    return NULL;
}

static uint64_t made(void)
{
    return atomic_load(&made_here) + atomic_load(&made_beside);
}

static void one_step(uint64_t step, bool seal)
{
    char name[32];
    snprintf(name, sizeof name, "tensor %llu", (unsigned long long)(step % 1000));
    values[step % VALUES] += 1;
    for (unsigned i = below(50) + 1; i > 0; i--) {
        twin_record(name, TWIN_F32, 1, (int64_t[]){VALUES}, NULL, values, 0);
        atomic_fetch_add(&made_here, 1);
    }
    twin_step();
    if (!seal)
        return;
    uint64_t before = made();
    flush();
    if (!twin_on())
        return; /* another thread has begun to end the job: this flush did nothing */
    atomic_store(&mine->sealed, before);
    atomic_store(&mine->steps, step + 1);
}

static void steps(uint64_t count)
{
    for (; count > 0; count--)
        one_step(next_step++, below(8) == 0);
}

static void steps_without_end(void)
{
    for (;;)
        steps(1);
}

/* From here on nothing of ours is recorded, and all that was so far must be found. */
static void orderly(void)
{
    atomic_store(&mine->whole, made());
}

static void touch_nothing(void)
{
    *(volatile int *)8 = 1;
}

static void overflow(volatile char *above)
{
    char here[4096];
    here[0] = above ? *above : 0;
    overflow(here);
    above = here;
}

static void cut_file(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("cut", 0), 0);
    page[0] = 1; /* behind the end of the file: SIGBUS */
}

static void *eat(void *unused)
{
    (void)unused;
    for (int i = 0; i < 64; i++) {
        char *some = malloc(1 << 20);
        if (some)
            memset(some, 1, 1 << 20);
    }
    raise(SIGKILL); /* as the kernel does where memory ends: in the middle of everything */
    return NULL;
}

static void *leave(void *unused)
{
    (void)unused;
    orderly();
    exit(0);
}

static void in_thread(void *(*what)(void *))
{
    pthread_t t;
    pthread_create(&t, NULL, what, NULL);
    steps_without_end(); /* goes on recording: the end comes from elsewhere */
}

static void at_alarm(int unused)
{
    (void)unused;
    _exit(0); /* perhaps in the middle of a record: only what is sealed is sure */
}

static void alarm_soon(void)
{
    struct sigaction a = {.sa_handler = at_alarm};
    sigaction(SIGALRM, &a, NULL);
    ualarm(1 + below(20000), 0);
    steps_without_end();
}

static void begin(struct line *l)
{
    mine = l;
    next_step = 0;
    atomic_store(&made_here, 0);
    atomic_store(&made_beside, 0);
    atomic_store(&l->pid, (uint64_t)getpid());
    pthread_t beside;
    pthread_create(&beside, NULL, record_beside, NULL);
}

/* The child records until it is killed or has ended; then the parent goes on, and all of it is
 * there. */
static void with_child(struct line *lines, const char *how)
{
    pid_t child = fork();
    if (child == 0) {
        if (!strcmp(how, "group"))
            setpgid(0, 0);
        begin(&lines[CHILD]);
        if (!strcmp(how, "leaves")) {
            steps(20 + below(100));
            orderly();
            _exit(0);
        }
        steps_without_end();
    }
    if (strcmp(how, "leaves")) {
        while (!atomic_load(&lines[CHILD].pid))
            usleep(100);
        usleep(below(30000));
        kill(!strcmp(how, "group") ? -child : child, SIGKILL);
    }
    waitpid(child, NULL, 0);
    steps(20);
}

static void spawn_and_wait(void)
{
    pid_t pid;
    char *argv[] = {"true", NULL};
    extern char **environ;
    if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ) == 0)
        waitpid(pid, NULL, 0);
    steps(20);
}

static void vfork_and_leave(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    steps(20);
    orderly();
    _Exit(0);
}

static int end(const char *how, struct line *lines)
{
    if (!strcmp(how, "waits"))
        steps_without_end();
    else if (!strcmp(how, "segv"))
        touch_nothing();
    else if (!strcmp(how, "bus"))
        cut_file();
    else if (!strcmp(how, "overflow"))
        overflow(NULL);
    else if (!strcmp(how, "abort"))
        abort();
    else if (!strcmp(how, "raise"))
        raise(SIGKILL);
    else if (!strcmp(how, "memory"))
        in_thread(eat);
    else if (!strcmp(how, "alarm"))
        alarm_soon();
    else if (!strcmp(how, "thread"))
        in_thread(leave);
    else if (!strcmp(how, "spawn"))
        spawn_and_wait();
    else if (!strcmp(how, "vfork"))
        vfork_and_leave();
    else if (!strncmp(how, "child-", 6))
        with_child(lines, how + 6);
    else if (!strcmp(how, "main-thread")) {
        one_step(next_step++, true);
        pthread_exit(NULL); /* the thread beside goes on, until it is killed */
    }
    orderly();
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick"))
        quick_exit(0);
    if (!strcmp(how, "exec"))
        execl("/bin/true", "true", (char *)NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int fd = open(argv[1], O_RDWR);
    struct line *lines = mmap(NULL, 2 * sizeof *lines, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    flush = (void (*)(void))dlsym(RTLD_DEFAULT, "tw_agent_flush");
    if (lines == MAP_FAILED || !flush)
        return 3;
    close(fd);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    seed = (unsigned)atoi(argv[2]) * 2654435761u;
    begin(&lines[PARENT]);
    steps(1 + below(1 + below(120)));
    return end(argv[3], lines);
}
