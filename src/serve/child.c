/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the process that compares runs, takes what it writes, and ends it when it takes too much
 * (child.h). */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASKED_EVERY_MS = 200 };

/* The program itself, by whatever name it was started. Nothing of our environment is its concern,
 * and its words would name folders. */
static int start(char *const *argv, int to, pid_t *pid)
{
    static char *const nothing[] = {NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, to, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int rc = posix_spawn(pid, "/proc/self/exe", &files, &attributes, argv, nothing);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* Reads until the end. NULL: it came; else why no more is read. */
static const char *take(int fd, struct tw_buf *b, bool (*stop)(void *), void *user)
{
    const uint64_t until_ns = tw_monotonic_ns() + (uint64_t)SERVE_CHILD_S * 1000000000;
    char *room = tw_malloc(1 << 16);
    const char *why = room ? NULL : "no memory is left for it";
    while (!why) {
        struct pollfd p = {fd, POLLIN, 0};
        const int ready = poll(&p, 1, ASKED_EVERY_MS);
        if (stop(user)) {
            why = "the server ends";
        } else if (tw_monotonic_ns() > until_ns) {
            why = "comparing these runs takes longer than the server waits (45 s); twinrun diff "
                  "--html has no limit";
        } else if (ready > 0) {
            const ssize_t n = read(fd, room, 1 << 16);
            if (n == 0)
                break;
            if (n < 0 && errno != EINTR && errno != EAGAIN)
                why = "the comparison cannot be read";
            else if (n > 0 && (b->len + (size_t)n > SERVE_CHILD_BYTES ||
                               tw_buf_append(b, room, (size_t)n) != 0))
                why = "the comparison is too large for the server; twinrun diff --html has no "
                      "limit";
        }
    }
    tw_free(room);
    return why;
}

int serve_child_run(char *const *argv, bool (*stop)(void *), void *user, struct serve_field **out,
                    const char **why)
{
    int ends[2], status = 0;
    pid_t pid = 0;
    struct tw_buf b = {0};
    *out = NULL;
    *why = "no process can be started for it";
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 503;
    const int rc = start(argv, ends[1], &pid);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return 503;
    }
    *why = take(ends[0], &b, stop, user);
    close(ends[0]);
    if (*why)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (!*why && code == 0)
        *out = serve_field_read(b.data, b.len);
    tw_buf_free(&b);
    if (*out)
        return 200;
    if (!*why && code == SERVE_CHILD_GONE)
        return 410;
    if (!*why)
        *why = code == SERVE_CHILD_CANNOT
                   ? "what these runs recorded cannot be compared; twinrun diff says why"
                   : "the comparison reached a limit of memory or time; twinrun diff --html has "
                     "none";
    return 503;
}
