/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks another program, which may be missing, hang, print without end or leave children behind. It
 * runs in a process group of its own, with an end of time and of bytes; when one of the two is
 * reached the whole group is killed. What it prints is read until it closes its output, even if it
 * lives on.
 */
#include "provenance_inside.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a shell says of a command that is not there. */
enum { NOT_FOUND = 127 };

/* In the child: becomes the program, or ends with 127 or 126. PR_SET_PDEATHSIG ends it with us; a
 * parent that died before that call is found by its number. */
static _Noreturn void become(const struct tw_ask *a, const int out[2], const int err[2],
                             pid_t parent)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0); /* so that its children can be ended with it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && null >= 0 && dup2(null, 0) == 0 && dup2(out[1], 1) == 1 &&
        dup2(err[1], 2) == 2 && (!a->dir || chdir(a->dir) == 0))
        execvp(a->argv[0], (char *const *)a->argv);
    _exit(errno == ENOENT ? NOT_FOUND : 126);
}

/* Takes what is there; false at the end of the file. */
static bool take_output(int fd, struct tw_buf *b, size_t cap, bool *full)
{
    char chunk[16384];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    size_t room = cap - b->len;
    if ((size_t)n > room)
        *full = true;
    if (tw_buf_append(b, chunk, (size_t)n < room ? (size_t)n : room) != 0)
        *full = true;
    return n > 0;
}

/* Reads both outputs until the first is closed, the time is up, or too much came. Of complaints
 * only the first bytes are kept; what comes after them is read and dropped, so that the program
 * does not wait for us. */
static void listen_to(struct tw_ask *a, int out, int err, struct tw_buf *text,
                      struct tw_buf *complaint)
{
    uint64_t deadline = tw_monotonic_ns() + (uint64_t)(a->limit_s * 1e9);
    bool unused = false;
    struct pollfd p[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    while (p[0].fd >= 0 && !a->late && !a->full) {
        uint64_t now = tw_monotonic_ns();
        int ready = now < deadline ? poll(p, 2, (int)((deadline - now) / 1000000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        a->late = ready <= 0;
        if (p[0].revents && !take_output(p[0].fd, text, a->cap, &a->full))
            p[0].fd = -1;
        if (p[1].revents && !take_output(p[1].fd, complaint, sizeof a->complaint - 1, &unused))
            p[1].fd = -1;
    }
}

/* Waits for the program's end. It has closed its output or was killed: it may take a moment, and is
 * not waited for longer than PATIENCE_MS. Returns the status of waitpid. */
static int end_of(pid_t pid)
{
    enum { PATIENCE_MS = 1000 };
    int status = 0;
    for (int ms = 0; waitpid(pid, &status, ms < PATIENCE_MS ? WNOHANG : 0) == 0; ms++) {
        if (ms == PATIENCE_MS - 1)
            kill(-pid, SIGKILL);
        usleep(1000);
    }
    return status;
}

/* Whatever happened is in *a; only a program that ended by itself with 0, in time and within its
 * bytes, is true. */
bool tw_ask(struct tw_ask *a)
{
    struct tw_buf text = {0}, complaint = {0};
    int out[2] = {-1, -1}, err[2] = {-1, -1}, status = 0;
    pid_t parent = getpid();
    pid_t pid = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 ? fork() : -1;
    a->out = NULL;
    a->bytes = 0;
    a->status = -1;
    a->missing = a->late = a->full = false;
    a->complaint[0] = '\0';
    if (pid == 0)
        become(a, out, err, parent);
    close(out[1]);
    close(err[1]);
    if (pid > 0) {
        setpgid(pid, pid);
        tw_buf_puts(&text, "");
        listen_to(a, out[0], err[0], &text, &complaint);
        if (a->late || a->full)
            kill(-pid, SIGKILL);
        status = end_of(pid);
        a->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        a->missing = a->status == NOT_FOUND && text.len == 0;
        if (complaint.len)
            snprintf(a->complaint, sizeof a->complaint, "%.*s", (int)strcspn(complaint.data, "\n"),
                     complaint.data);
        a->bytes = text.len;
        a->out = tw_buf_steal(&text);
    }
    close(out[0]);
    close(err[0]);
    tw_buf_free(&complaint);
    return a->out && a->status == 0 && !a->late && !a->full;
}
