/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a container's command, and sees to it that nothing of it outlives this process. What a
 * command starts as its own children dies with it (bubblewrap, unshare: they die with us). The
 * containers of docker and podman are somebody else's children: a guard, a small process with one
 * end of a pipe, waits until our end closes, for whatever reason, and takes the container away
 * then. It does so in any case: that the engine's command ended does not say that the container did
 * (a client that is killed, or loses its daemon, leaves it behind).
 */
#include "image.h"
#include "provenance_inside.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FETCH_S = 24 * 3600, /* an image may be large, and the line to it slow */
    PATIENCE_S = 10,     /* between the signal that asks and the one that does not */
    NOT_FOUND = 127
};

/* ---- before */

static int run_before(char *const *argv, struct twin_error *err)
{
    struct tw_ask a = {
        .argv = (const char *const *)argv, .dir = "/", .limit_s = FETCH_S, .cap = 1 << 20};
    int rc = 0;
    if (!argv)
        return 0;
    if (!tw_ask(&a)) {
        if (a.missing)
            rc = twin_error_set(err, TWIN_ENOENT, "%s is not installed", argv[0]);
        else
            rc = twin_error_set(err, TWIN_EIO, "%s %s ended with %d: %s", argv[0], argv[1],
                                a.status, *a.complaint ? a.complaint : "it said nothing");
    }
    tw_free(a.out);
    return rc;
}

/* ---- the guard */

/* Ends itself and all that it started where the command takes longer: an engine whose daemon hangs
 * would be waited for without end. */
static int end_within(char *const *end, unsigned seconds)
{
    const uint64_t deadline = tw_monotonic_ns() + (uint64_t)seconds * 1000000000u;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(end[0], end);
        _exit(NOT_FOUND);
    }
    while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
        if (tw_monotonic_ns() > deadline)
            kill(-getpid(), SIGKILL);
        poll(NULL, 0, 20);
    }
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : NOT_FOUND;
}

/* In a process of its own, which leads a group: until the other end of the pipe is closed. */
static _Noreturn void guard(int pipe_end, char *const *end, unsigned seconds)
{
    char nothing;
    tw_child_leaves_parent(pipe_end, "twinrun: guard");
    while (read(TW_CHILD_KEEPS, &nothing, 1) < 0 && errno == EINTR) {
    }
    _exit(end_within(end, seconds));
}

/* *to: our end of its pipe; -1: no guard is needed. */
static int start_guard(const struct tw_command_lines *l, pid_t *pid, int *to,
                       struct twin_error *err)
{
    int ends[2];
    *pid = -1;
    *to = -1;
    if (!l->end)
        return 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return twin_error_system(err, "cannot make a pipe");
    *pid = fork();
    if (*pid == 0) {
        close(ends[1]);
        guard(ends[0], l->end, l->end_s);
    }
    close(ends[0]);
    if (*pid < 0) {
        close(ends[1]);
        return twin_error_system(err, "cannot start a process");
    }
    *to = ends[1];
    return 0;
}

/* ---- the command */

/* Waits for a second, or for a signal: did one come that asks this process to end? */
static bool asked_to_end(const sigset_t *mask)
{
    struct timespec second = {.tv_sec = 1};
    int sig = sigtimedwait(mask, NULL, &second);
    return sig == SIGINT || sig == SIGTERM || sig == SIGHUP;
}

/* Those of this process's variables that have one of the names. */
static void choose_variables(const char *const *keep, char *out[TW_CONTAINER_KEEPS + 1])
{
    size_t n = 0;
    for (; *keep; keep++) {
        const size_t length = strlen(*keep);
        for (char **e = environ; *e && n < TW_CONTAINER_KEEPS; e++)
            if (strncmp(*e, *keep, length) == 0 && (*e)[length] == '=') {
                out[n++] = *e;
                break;
            }
    }
    out[n] = NULL;
}

/* The child's end of the pipe under its number; the other end is this process's parent's. */
static bool tie(const int ends[2])
{
    if (ends[0] < 0)
        return true;
    close(ends[1]);
    return ends[0] == TW_CONTAINER_TIE ? fcntl(ends[0], F_SETFD, 0) == 0
                                       : dup2(ends[0], TW_CONTAINER_TIE) == TW_CONTAINER_TIE;
}

static _Noreturn void become(const struct tw_command_lines *l, bool quiet_output,
                             const sigset_t *mask, pid_t parent, const int ends[2])
{
    char *chosen[TW_CONTAINER_KEEPS + 1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    /* no terminal of the caller's is this session's: nothing inside can type into it */
    setsid();
    if (l->keep)
        choose_variables(l->keep, chosen);
    if (getppid() == parent && tie(ends) && (!quiet_output || dup2(2, 1) == 1))
        execvpe(l->run[0], l->run, l->keep ? chosen : environ);
    _exit(errno == ENOENT ? NOT_FOUND : 126);
}

/* Waits for its end; hands signals on. mask: what is blocked meanwhile. */
static int wait_for(pid_t pid, bool deaf, const sigset_t *mask, bool *interrupted)
{
    uint64_t deadline = 0;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (asked_to_end(mask)) {
            *interrupted = true;
            kill(pid, deaf ? SIGKILL : SIGTERM);
            if (!deadline)
                deadline = tw_monotonic_ns() + (uint64_t)PATIENCE_S * 1000000000u;
        }
        if (deadline && tw_monotonic_ns() > deadline)
            kill(pid, SIGKILL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits until the container was taken away. to, -1: no guard was needed. */
static void end_guard(pid_t pid, int to, const sigset_t *mask, struct tw_contained_end *out)
{
    uint64_t deadline = 0;
    int status = 0;
    if (to < 0)
        return;
    close(to);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (asked_to_end(mask)) {
            out->interrupted = true;
            if (!deadline)
                deadline = tw_monotonic_ns() + (uint64_t)PATIENCE_S * 1000000000u;
        }
        if (deadline && tw_monotonic_ns() > deadline)
            kill(-pid, SIGKILL);
    }
    out->stays = WIFSIGNALED(status);
}

static void close_both(const int ends[2])
{
    for (size_t i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

int tw_contain(const struct tw_command_lines *l, bool quiet_output, struct tw_contained_end *out,
               struct twin_error *err)
{
    sigset_t mask, before;
    pid_t guarding;
    int to, ends[2] = {-1, -1};
    *out = (struct tw_contained_end){0};
    int rc = run_before(l->before, err);
    if (rc == 0 && l->tied && pipe2(ends, O_CLOEXEC) != 0)
        rc = twin_error_system(err, "cannot make a pipe");
    rc = rc ? rc : start_guard(l, &guarding, &to, err);
    if (rc) {
        close_both(ends);
        return rc;
    }
    sigemptyset(&mask);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&mask, signals[i]);
    sigprocmask(SIG_BLOCK, &mask, &before);
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(l, quiet_output, &before, parent, ends);
    if (pid < 0)
        rc = twin_error_system(err, "cannot start a process");
    else
        out->status = wait_for(pid, l->deaf, &mask, &out->interrupted);
    close_both(ends);
    end_guard(guarding, to, &mask, out);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}
