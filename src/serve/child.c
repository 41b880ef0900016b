/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the process that compares runs, takes what it writes, and ends it when it takes too much
 * (child.h). */
#include "child.h"

#include "json_load.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASKED_EVERY_MS = 200 };

/* The program itself, by whatever name it was started. Nothing of our environment is its concern,
 * and its words would name folders. */
static int start(char *const *argv, int from, int to, pid_t *pid)
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
    posix_spawn_file_actions_adddup2(&files, from, 0);
    posix_spawn_file_actions_adddup2(&files, to, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int rc = posix_spawn(pid, "/proc/self/exe", &files, &attributes, argv, nothing);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* ---- a postmortem */

/* Are these objects of words and numbers? */
static bool is_table(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *row = json_array_get(list, i), *value;
        const char *key;
        if (!json_is_object(row))
            return false;
        json_object_foreach (row, key, value)
            if (!json_is_string(value) && !json_is_integer(value) && !json_is_null(value))
                return false;
    }
    return json_is_array(list);
}

json_t *serve_postmortem_read(const void *data, size_t bytes)
{
    const char *outcome, *markdown;
    json_t *first, *world, *checks;
    json_int_t all;
    int known;
    json_t *j = tw_json_load(data, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (j &&
        json_unpack(j, "{s:s, s:o, s:b, s:o, s:o, s:I, s:s !}", "outcome", &outcome, "first_step",
                    &first, "world_known", &known, "world", &world, "checks", &checks, "checks_all",
                    &all, "markdown", &markdown) == 0 &&
        (json_is_null(first) || json_is_integer(first)) && is_table(world) && is_table(checks))
        return j;
    json_decref(j);
    return NULL;
}

/* ---- the process */

/* A descriptor from which these bytes are read; -1: none can be had. */
static int readable(const struct tw_buf *in)
{
    const int fd = in->len ? memfd_create("twinrun", MFD_CLOEXEC)
                           : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !in->len)
        return fd;
    if (tw_write_all(fd, in->data, in->len) == 0 && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    close(fd);
    return -1;
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

int serve_child_run(char *const *argv, const struct tw_buf *in, bool (*stop)(void *), void *user,
                    struct tw_buf *out, const char **why, char ended[40])
{
    int ends[2], status = 0;
    ended[0] = '\0';
    pid_t pid = 0;
    *why = "no process can be started for it";
    const int from = readable(in);
    if (from < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        if (from >= 0)
            close(from);
        return 503;
    }
    const int rc = start(argv, from, ends[1], &pid);
    close(from);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return 503;
    }
    *why = take(ends[0], out, stop, user);
    close(ends[0]);
    if (*why)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (*why)
        return 503;
    if (code < 0)
        snprintf(ended, 40, "ended by signal %d", WTERMSIG(status));
    else if (code != 0)
        snprintf(ended, 40, "ended with code %d", code);
    if (code == SERVE_CHILD_GONE)
        *why = "the folder of a run is gone, or holds another run";
    else if (code == SERVE_CHILD_CANNOT)
        *why = "what these runs recorded cannot be compared; twinrun diff says why";
    else if (code != 0)
        *why = "the comparison reached a limit of memory or time, or was ended from outside; try "
               "again in a minute, or twinrun diff, which has no limit";
    if (code == SERVE_CHILD_GONE)
        return 410;
    return code == 0 ? 200 : 503;
}
