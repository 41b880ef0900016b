/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage on which the corpus harness runs a command: limits, closed streams, a session of its
 * own, and at the end how the command ended and how much memory it had. A small program, because
 * the peak of a child's memory begins with its parent's: pytest's own would hide the job's.
 *
 *   stage REPORT [-t] [-c FD]... [-l LETTER=VALUE]... -- COMMAND [ARG...]
 *       -t  stdout becomes the controlling terminal       -c FD  is closed
 *       -l  a limit as in ulimit: f n u v s t c l, in the units of setrlimit
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    char letter;
    int resource;
} limits[] = {
    {'f', RLIMIT_FSIZE}, {'n', RLIMIT_NOFILE}, {'u', RLIMIT_NPROC}, {'v', RLIMIT_AS},
    {'s', RLIMIT_STACK}, {'t', RLIMIT_CPU},    {'c', RLIMIT_CORE},  {'l', RLIMIT_MEMLOCK},
};

static void die(const char *what)
{
    perror(what);
    _exit(125);
}

static void set_limit(const char *text)
{
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].letter != text[0])
            continue;
        rlim_t value = (rlim_t)strtoull(text + 2, NULL, 10);
        /* The soft limit of the processor's time lies below the hard one, or SIGKILL comes. */
        rlim_t hard = text[0] == 't' ? value + 30 : value;
        if (setrlimit(limits[i].resource, &(struct rlimit){value, hard}))
            die("stage: setrlimit");
        return;
    }
    die("stage: no such limit");
}

static void as_a_login_shell_has_it(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < 65; s++)
        signal(s, SIG_DFL);
}

static void become(int argc, char **argv)
{
    int closed[2], n_closed = 0, i = 2;
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    for (; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "-t") && tcsetpgrp(1, getpid()))
            die("stage: tcsetpgrp");
        if (!strcmp(argv[i], "-l"))
            set_limit(argv[++i]);
        if (!strcmp(argv[i], "-c") && n_closed < 2)
            closed[n_closed++] = atoi(argv[++i]);
    }
    as_a_login_shell_has_it();
    for (int k = 0; k < n_closed; k++)
        close(closed[k]);
    execvp(argv[i + 1], argv + i + 1);
    die("stage: exec");
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 125;
    setsid(); /* the leader outlives the job: a terminal hangs up when its leader goes */
    if (!strcmp(argv[2], "-t") && ioctl(1, TIOCSCTTY, 0))
        die("stage: TIOCSCTTY");
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* a daemon's output is part of what is compared */
    pid_t job = fork();
    if (job < 0)
        die("stage: fork");
    if (job == 0)
        become(argc, argv);
    signal(SIGHUP, SIG_IGN);
    close(0);
    close(1);
    close(2);
    int status = -1;
    long peak = 0;
    for (;;) {
        struct rusage use;
        int ended;
        pid_t pid = wait4(-1, &ended, 0, &use);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            break;
        if (use.ru_maxrss > peak)
            peak = use.ru_maxrss;
        if (pid == job)
            status = ended;
    }
    FILE *report = fopen(argv[1], "w");
    if (!report)
        return 125;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    fprintf(report, "%d %ld\n", code, peak);
    return fclose(report) ? 125 : 0;
}
