/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several runs at the same time: a process for each, and what they say to this one (workers.h says
 * why). They talk over a pair of sockets that keeps packets whole: some packets of progress, then
 * one that says how it ended. The run itself is read from its folder.
 */
#include "workers.h"

#include "base.h"
#include "remote.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a worker says, one packet each. */
struct said {
    bool last;
    struct twin_progress progress; /* its pointer means nothing on the other side */
    /* only in the last packet */
    int rc;
    struct twin_error err;
    struct tw_trial found; /* its pointers mean nothing on the other side, either */
    char dir[PATH_MAX];
};

/* ---- in the worker */

static void send_progress(void *user, const struct twin_progress *p)
{
    const int *fd = user;
    struct said s = {.progress = *p};
    send(*fd, &s, sizeof s, MSG_NOSIGNAL);
}

/* What runs before have read of a piped stdin is in the spool. Behind it two runs at the same time
 * would take turns at our stdin, so for them it ends there. A stdin that is a file or a terminal
 * stays. */
static void end_stdin(void)
{
    struct stat st;
    int ends[2];
    if (fstat(STDIN_FILENO, &st) != 0 || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) ||
        pipe(ends) != 0)
        return;
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    close(ends[1]);
}

/* The whole life of a worker. It asks to be told when its parent is gone before it looks whether
 * that has happened already, and lets signals through last. */
static _Noreturn void work_on_run(struct tw_workers *w, const struct twin_launch_options *o,
                                  struct tw_trial *trial, int fd, pid_t parent)
{
    struct said s = {.last = true};
    struct tw_front silent = {.user = NULL}; /* showing and saying is the parent's */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
        _exit(1);
    if (w->front)
        silent = (struct tw_front){.user = w->front->user, .stop = w->front->stop};
    if (o->stdin_spool)
        end_stdin();
    close(w->signal_fd);
    trial->front = &silent;
    trial->on_progress = w->front && w->front->progress ? send_progress : NULL;
    trial->user = &fd;
    sigprocmask(SIG_SETMASK, &w->mask, NULL); /* the job inherits it */
    s.rc = tw_trial_make(trial, o, &s.err);
    if (tw_front_stops(&silent))
        s.rc = TWIN_EINTR;
    if (trial->run)
        snprintf(s.dir, sizeof s.dir, "%s", trial->run->dir);
    tw_trial_take_found(&s.found, trial);
    send(fd, &s, sizeof s, MSG_NOSIGNAL);
    _exit(0);
}

/* ---- in the parent */

/* Signals that are ignored stay ignored; the others are held until the wait is over, and read from
 * signal_fd. */
int tw_workers_open(struct tw_workers *w, const struct tw_front *front, size_t room,
                    struct twin_error *err)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction act;
    sigset_t held;
    *w = (struct tw_workers){.signal_fd = -1, .room = room, .front = front};
    sigprocmask(SIG_SETMASK, NULL, &w->mask);
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        /* ignored under nohup, or behind a shell's & */
        if (sigaction(stops[i], NULL, &act) == 0 && act.sa_handler != SIG_IGN)
            sigaddset(&held, stops[i]);
    w->worker = tw_calloc(room + 1, sizeof *w->worker);
    w->poll = tw_calloc(room + 1, sizeof *w->poll);
    if (!w->worker || !w->poll)
        return tw_no_memory(err, "for %zu runs at the same time", room);
    if ((w->signal_fd = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return twin_error_system(err, "cannot watch for signals");
    sigprocmask(SIG_BLOCK, &held, NULL);
    return 0;
}

static void give_signals_back(struct tw_workers *w)
{
    if (w->signal_fd < 0)
        return;
    close(w->signal_fd);
    w->signal_fd = -1;
    sigprocmask(SIG_SETMASK, &w->mask, NULL);
}

int tw_workers_start(struct tw_workers *w, const struct twin_launch_options *o,
                     const struct tw_trial *trial, struct twin_error *err)
{
    int ends[2];
    pid_t parent = getpid();
    if (w->count == w->room)
        return twin_error_set(err, TWIN_EINVAL, "more than %zu runs at the same time", w->room);
    struct tw_worker *one = &w->worker[w->count];
    *one = (struct tw_worker){.fd = -1, .trial = *trial};
    if (o->on && o->on->engine) {
        give_signals_back(w); /* the front hears them */
        one->trial.title = NULL;
        int rc = tw_remote_add(o, trial, &one->remote, err);
        w->count += rc == 0;
        return rc;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return twin_error_system(err, "cannot make a connection to a process that makes a run");
    fflush(NULL); /* a child would write again what waits here */
    one->pid = fork();
    if (one->pid == 0)
        work_on_run(w, o, &one->trial, ends[1], parent);
    int rc = one->pid < 0
                 ? twin_error_system(
                       err, "cannot start a process that makes a run; give a smaller --jobs")
                 : 0;
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return rc;
    }
    one->fd = ends[0];
    one->trial.title = NULL;
    w->count++;
    return 0;
}

static void pass_on(const struct tw_workers *w, int signal)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->worker[i].pid)
            kill(w->worker[i].pid, signal);
}

static void on_signals(struct tw_workers *w)
{
    struct signalfd_siginfo info;
    while (read(w->signal_fd, &info, sizeof info) == sizeof info) {
        w->interrupted = true;
        /* Workers have got a signal of the terminal as well: passed on, it would be a second
         * Ctrl-C. */
        if (info.ssi_code != SI_KERNEL)
            pass_on(w, (int)info.ssi_signo);
    }
}

/* Ends a worker's part, which has said all (s) or is gone without a word (NULL): waits for its
 * process, and puts what was found into the trial. */
static void bury(struct tw_workers *w, struct tw_worker *one, const struct said *s)
{
    int status = 0;
    close(one->fd);
    one->fd = -1;
    pid_t gone;
    while ((gone = waitpid(one->pid, &status, 0)) < 0 && errno == EINTR)
        ;
    one->pid = 0;
    if (s && s->rc == 0) {
        tw_trial_take_found(&one->trial, &s->found);
        one->rc = twin_run_load(s->dir, &one->trial.run, &one->err);
    } else if (s) {
        one->rc = s->rc;
        one->err = s->err;
    } else if (w->interrupted) {
        one->rc = TWIN_EINTR;
    } else {
        one->rc = gone > 0 && WIFSIGNALED(status)
                      ? twin_error_set(
                            &one->err, TWIN_EIO,
                            "the process that made a run was ended by signal %d (%s); is there "
                            "memory for so many runs at the same time? Give a smaller --jobs",
                            WTERMSIG(status), strsignal(WTERMSIG(status)))
                      : twin_error_set(&one->err, TWIN_EIO,
                                       "the process that made a run ended without a word");
    }
}

/* Takes one packet. Anything but a whole one means that the worker is gone. */
static void listen_to(struct tw_workers *w, struct tw_worker *one)
{
    struct said s;
    ssize_t n = recv(one->fd, &s, sizeof s, 0);
    if (n < 0 && errno == EINTR)
        return;
    if (n != sizeof s)
        bury(w, one, NULL);
    else if (s.last)
        bury(w, one, &s);
    else
        one->progress = s.progress;
}

/* The run that is behind the others is the one that is waited for. */
static void show_slowest(const struct tw_workers *w, const char *title, double expected_s)
{
    struct twin_progress behind = {.step = UINT64_MAX};
    for (size_t i = 0; i < w->count; i++) {
        const struct twin_progress *p = &w->worker[i].progress;
        if (!w->worker[i].pid)
            continue;
        behind.elapsed_s = p->elapsed_s > behind.elapsed_s ? p->elapsed_s : behind.elapsed_s;
        behind.step = p->step < behind.step ? p->step : behind.step;
    }
    if (behind.step != UINT64_MAX)
        tw_trial_show(w->front, title, &behind, expected_s, 0);
}

/* Runs of an engine, all of which go on while the first one is waited for. */
static void wait_for_remote(struct tw_workers *w, const char *title)
{
    for (size_t i = 0; i < w->count; i++) {
        struct tw_worker *one = &w->worker[i];
        if (one->remote)
            one->rc = tw_remote_wait(one->remote, title, &one->trial, &one->err);
        one->remote = NULL;
        w->interrupted |= one->rc == TWIN_EINTR;
    }
    tw_front_progress(w->front, NULL);
}

void tw_workers_wait(struct tw_workers *w, const char *title, double expected_s)
{
    if (w->count && w->worker[0].remote) {
        wait_for_remote(w, title);
        return;
    }
    for (size_t left = w->count; left > 0;) {
        struct pollfd *p = w->poll;
        p[w->count] = (struct pollfd){.fd = w->signal_fd, .events = POLLIN};
        for (size_t i = 0; i < w->count; i++)
            p[i] = (struct pollfd){.fd = w->worker[i].fd, .events = POLLIN};
        if (poll(p, (nfds_t)w->count + 1, -1) < 0)
            continue;
        if (p[w->count].revents) /* first: it tells why a worker is gone */
            on_signals(w);
        left = 0;
        for (size_t i = 0; i < w->count; i++) {
            if (p[i].revents && w->worker[i].fd >= 0)
                listen_to(w, &w->worker[i]);
            left += w->worker[i].pid != 0;
        }
        show_slowest(w, title, expected_s);
    }
    tw_front_progress(w->front, NULL);
    give_signals_back(w);
}

/* Without memory each is told when its turn has come. */
static void drop_remotes(struct tw_workers *w)
{
    struct tw_remote_run **run = tw_calloc(w->count + 1, sizeof *run);
    size_t n = 0;
    for (size_t i = 0; run && i < w->count; i++)
        if (w->worker[i].remote)
            run[n++] = w->worker[i].remote;
    tw_remote_cancel(run, n);
    tw_free(run);
    for (size_t i = 0; i < w->count; i++)
        tw_remote_drop(w->worker[i].remote);
}

void tw_workers_close(struct tw_workers *w)
{
    bool left = false;
    for (size_t i = 0; i < w->count; i++)
        left |= w->worker[i].pid != 0;
    if (left) {
        pass_on(w, SIGTERM);
        tw_workers_wait(w, "", 0);
    }
    drop_remotes(w);
    for (size_t i = 0; i < w->count; i++)
        twin_run_free(w->worker[i].trial.run);
    tw_free(w->worker);
    tw_free(w->poll);
    give_signals_back(w);
    *w = (struct tw_workers){.signal_fd = -1};
}
