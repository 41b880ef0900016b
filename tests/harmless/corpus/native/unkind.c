/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is hard on whoever watches it: unkind KIND. It records, does its thing, records
 * again, and must run as it does alone.
 */
#include "../seen.h"
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <twin/twin.h>

static void record(void)
{
    static float values[4096];
    values[0] += 1;
    twin_record("weight:w", TWIN_F32, 1, (int64_t[]){4096}, NULL, values, 0);
    twin_step();
}

static void tell(const char *what, long result)
{
    dprintf(2, "%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    return status;
}

static void close_all(void)
{
    tell("close_range", syscall(SYS_close_range, 3, ~0U, 0));
    record();
    tell("close", close(0) + close(1));
    record();
    tell("next", open("/dev/null", O_RDONLY));
    tell("next", open("mine", O_RDWR | O_CREAT, 0600));
}

static void over_everything(void)
{
    int mine = open("mine", O_RDWR | O_CREAT | O_APPEND, 0600);
    for (int fd = mine + 1; fd < 1024; fd++)
        dup2(mine, fd);
    for (int i = 0; i < 2000; i++)
        record();
    tell("size", lseek(mine, 0, SEEK_END)); /* nobody else wrote into it */
}

static void root(void)
{
    mkdir("cell", 0755);
    tell("chroot", chroot("cell"));
    tell("chdir", chdir("/"));
    record();
    tell("inside", access("/proc", F_OK));
    pid_t pid = fork();
    if (!pid) {
        record();
        _exit(3);
    }
    tell("child", wait_for(pid));
}

static void another_user(void)
{
    tell("setgroups", setgroups(0, NULL));
    tell("setgid", setgid(65534));
    tell("setuid", setuid(65534));
    record();
    pid_t pid = fork();
    if (!pid) {
        record();
        execl("/bin/sh", "sh", "-c", "id -u; exit 4", (char *)NULL);
        _exit(5);
    }
    tell("child", wait_for(pid));
}

static void namespaces(void)
{
    /* Not CLONE_NEWUSER, which the kernel refuses to a process with threads: docs/security.md. */
    tell("unshare", unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_FS));
    record();
    pid_t pid = fork();
    if (!pid) {
        record();
        tell("pid", getpid());
        _exit(6);
    }
    tell("child", wait_for(pid));
}

static void undumpable(void)
{
    tell("dumpable", prctl(PR_SET_DUMPABLE, 0));
    tell("new privileges", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    tell("name", prctl(PR_SET_NAME, "a\033[31mb"));
    tell("death", prctl(PR_SET_PDEATHSIG, SIGKILL));
    tell("keep", prctl(PR_SET_KEEPCAPS, 1));
    record();
    tell("still", prctl(PR_GET_DUMPABLE));
}

static void cloned(void)
{
    struct {
        uint64_t flags, pidfd, child, parent, signal, stack, stack_size, tls;
    } how = {.signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (pid == 0) {
        record();
        syscall(SYS_exit_group, 7);
    }
    tell("child", wait_for(pid));
}

static void ring(void)
{
    char parameters[256] = {0};
    long fd = syscall(SYS_io_uring_setup, 8, parameters);
    tell("io_uring", fd < 0 ? -1 : 0);
    record();
    tell("close", fd < 0 ? -1 : close((int)fd));
}

static void *on_little_stack(void *unused)
{
    record();
    return unused;
}

static void little_stack(void)
{
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN);
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        if (pthread_create(&t, &a, on_little_stack, NULL))
            exit(8);
        pthread_join(t, NULL);
    }
    tell("threads", 50);
}

static void on_signal(int number)
{
    (void)number;
    record();
}

static void other_stack(void)
{
    static char stack[16384];
    stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    tell("sigaltstack", sigaltstack(&s, NULL));
    sigaction(SIGUSR1, &a, NULL);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
}

static pthread_barrier_t all;

static void *one_of_many(void *unused)
{
    record();
    pthread_barrier_wait(&all);
    return unused;
}

static void many_threads(void)
{
    enum { MANY = 2000 };
    static pthread_t t[MANY];
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 64 << 10);
    int made = 0;
    pthread_barrier_init(&all, NULL, MANY + 1);
    while (made < MANY && !pthread_create(&t[made], &a, one_of_many, NULL))
        made++;
    tell("made", made);
    if (made < MANY)
        _exit(9);
    pthread_barrier_wait(&all);
    for (int i = 0; i < made; i++)
        pthread_join(t[i], NULL);
}

static void no_files(void)
{
    tell("limit", setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}));
    record();
    tell("open", open("mine", O_RDWR | O_CREAT, 0600));
    pid_t pid = fork();
    if (!pid) {
        record();
        _exit(10);
    }
    tell("child", wait_for(pid));
}

static void little_memory(void)
{
    tell("limit", setrlimit(RLIMIT_AS, &(struct rlimit){96 << 20, 96 << 20}));
    for (int i = 0; i < 100; i++)
        record();
    pid_t pid = fork();
    if (!pid) {
        record();
        _exit(11);
    }
    tell("child", wait_for(pid));
    tell("none left", malloc(1 << 30) == NULL);
}

static void stopped(void)
{
    pid_t parent = getpid(), pid = fork();
    if (!pid) {
        for (int i = 0; i < 20; i++) {
            kill(parent, SIGSTOP);
            usleep(2000);
            kill(parent, SIGCONT);
            usleep(1000);
        }
        _exit(12);
    }
    for (int i = 0; i < 500; i++) {
        record();
        usleep(100);
    }
    tell("child", wait_for(pid));
}

static void traced(void)
{
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        record();
        _exit(13);
    }
    tell("stopped", wait_for(pid));
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL);
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    int status = wait_for(pid);
    while (WIFSTOPPED(status)) {
        ptrace(PTRACE_CONT, pid, NULL, WSTOPSIG(status));
        status = wait_for(pid);
    }
    tell("ended", status);
}

/*
 * The watcher's own settings are the job's to spoil; what comes of it must be its recording only.
 */
static void spoiled_settings(void)
{
    static const char *const names[] = {
        "TWINRUN_RUN_DIR",     "TWINRUN_RUN_ID", "TWINRUN_LEVEL",   "TWINRUN_WINDOW",
        "TWINRUN_STEPS",       "TWINRUN_PINS",   "TWINRUN_FACTORS", "TWINRUN_TRANSPLANT",
        "TWINRUN_HELD",        "TWINRUN_LIB",    "TWINRUN_STREAM",  "TWINRUN_ZOOM_KEEP",
        "TWINRUN_ZOOM_AGAINST"};
    static const char *const values[] = {
        "", "/dev/full", "%s%n", "-1", "18446744073709551616:x:y:z:::", "../../.."};
    static char many[100000];
    memset(many, 'x', sizeof many - 1);
    for (size_t v = 0; v < 7; v++) {
        const char *value = v < 6 ? values[v] : many;
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            setenv(names[n], value, 1);
        pid_t pid = fork();
        if (!pid) {
            record();
            execl("/bin/sh", "sh", "-c", "echo in the child; exit 14", (char *)NULL);
            _exit(15);
        }
        tell("child", wait_for(pid));
    }
}

static void own_preload(void)
{
    setenv("LD_PRELOAD", "/lib/x86_64-linux-gnu/libm.so.6", 1);
    setenv("LD_BIND_NOW", "1", 1);
    pid_t pid = fork();
    if (!pid) {
        record();
        execl("/bin/sh", "sh", "-c", "echo $LD_PRELOAD | tr ':' '\\n' | tail -1; exit 16",
              (char *)NULL);
        _exit(17);
    }
    tell("child", wait_for(pid));
}

static void unmapped(void)
{
    setrlimit(RLIMIT_STACK, &(struct rlimit){256 << 10, 256 << 10});
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, 0});
    tell("mlockall", mlockall(MCL_FUTURE));
    record();
    tell("priority", setpriority(PRIO_PROCESS, 0, 19));
    tell("scheduler", sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}));
    record();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*job)(void);
    } kinds[] = {{"close", close_all},      {"dup2", over_everything},
                 {"chroot", root},          {"setuid", another_user},
                 {"unshare", namespaces},   {"undumpable", undumpable},
                 {"clone3", cloned},        {"uring", ring},
                 {"stack", little_stack},   {"altstack", other_stack},
                 {"threads", many_threads}, {"nofile", no_files},
                 {"memory", little_memory}, {"stopped", stopped},
                 {"traced", traced},        {"settings", spoiled_settings},
                 {"preload", own_preload},  {"idle", unmapped}};
    setvbuf(stdout, NULL, _IONBF, 0);
    record();
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name))
            kinds[i].job();
    record();
    dprintf(2, "%s done\n", argv[argc - 1]);
    return 5;
}
