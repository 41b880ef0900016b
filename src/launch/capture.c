/* SPDX-License-Identifier: Apache-2.0 */
/* Small programs that help us: one that answers at once, one that goes on for a while; and which
 * Python there is. */
#include "capture.h"

#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Bytes of an answer, or of one line. */
enum { CAP = 1 << 20 };

/* Starts argv with stdout on out_fd, stdin and stderr on /dev/null, in a process group of its own.
 * It inherits our environment. */
static int spawn(char *const *argv, int out_fd, pid_t *pid, struct twin_error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0)
        return tw_no_memory(err, "reading what a command prints");
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return tw_no_memory(err, "reading what a command prints");
    }
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    /* so that its children can be ended with it */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int rc = posix_spawnp(pid, argv[0], &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (rc == 0)
        return 0;
    errno = rc;
    return twin_error_system(err, "cannot execute %s", argv[0]);
}

/* Starts the program. *fd: what it prints, the caller's to close; -1 after an error. */
static int start_program(char *const *argv, int *fd, pid_t *pid, struct twin_error *err)
{
    int ends[2];
    *fd = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return twin_error_system(err, "cannot make a pipe");
    int rc = spawn(argv, ends[1], pid, err);
    close(ends[1]);
    if (rc == 0)
        *fd = ends[0];
    else
        close(ends[0]);
    return rc;
}

/* Reads to the end of file or to the deadline. */
static int collect_output(int fd, double timeout_s, struct tw_buf *b, const char *name,
                          struct twin_error *err)
{
    uint64_t deadline = tw_monotonic_ns() + (uint64_t)(timeout_s * 1e9);
    for (;;) {
        char chunk[4096];
        uint64_t now = tw_monotonic_ns();
        struct pollfd p = {fd, POLLIN, 0};
        int ready = now < deadline ? poll(&p, 1, (int)((deadline - now) / 1000000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return twin_error_set(err, TWIN_ELIMIT, "%s gave no answer within %.0f s", name,
                                  timeout_s);
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return twin_error_system(err, "cannot read from %s", name);
        if (n == 0)
            return 0;
        if (b->len + (size_t)n > CAP)
            return twin_error_set(err, TWIN_ELIMIT, "%s printed more than %d bytes", name, CAP);
        if (tw_buf_append(b, chunk, (size_t)n) != 0)
            return tw_no_memory(err, "reading what a command prints");
    }
}

/* The program is killed with its group after any error, then waited for: no child is left behind.
 */
int tw_capture(char *const *argv, double timeout_s, char **out, int *status, struct twin_error *err)
{
    struct tw_buf b = {0};
    int fd;
    pid_t pid;
    *out = NULL;
    int rc = start_program(argv, &fd, &pid, err);
    if (rc != 0)
        return rc;
    tw_buf_puts(&b, "");
    rc = collect_output(fd, timeout_s, &b, argv[0], err);
    if (rc != 0)
        kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    close(fd);
    if (rc == 0 && !(*out = tw_buf_steal(&b)))
        rc = tw_no_memory(err, "reading what a command prints");
    tw_buf_free(&b);
    return rc;
}

/* ---- line by line */

/* Hands out the whole lines of b and keeps the rest. */
static int hand_out(struct tw_buf *b,
                    int (*on_line)(void *user, char *line, struct twin_error *err), void *user,
                    struct twin_error *err)
{
    char *line = b->data, *end;
    int rc = 0;
    while (rc == 0 && (end = memchr(line, '\n', b->len - (size_t)(line - b->data)))) {
        *end = '\0';
        rc = on_line(user, line, err);
        line = end + 1;
    }
    b->len -= (size_t)(line - b->data);
    memmove(b->data, line, b->len + 1);
    return rc;
}

/* Turns every 200 ms at the latest, to see whether the person in front wants an end. */
int tw_capture_lines(char *const *argv, double silence_s, const struct tw_front *front,
                     int (*on_line)(void *user, char *line, struct twin_error *err), void *user,
                     bool *interrupted, int *status, struct twin_error *err)
{
    struct tw_buf b = {0};
    int fd;
    pid_t pid;
    bool more = true;
    *interrupted = false;
    int rc = start_program(argv, &fd, &pid, err);
    if (rc != 0)
        return rc;
    uint64_t heard = tw_monotonic_ns();
    while (more && rc == 0 && !(*interrupted = tw_front_stops(front))) {
        char chunk[4096];
        struct pollfd p = {fd, POLLIN, 0};
        int ready = poll(&p, 1, 200);
        ssize_t n = ready > 0 ? read(fd, chunk, sizeof chunk) : -1;
        if (ready > 0 && n == 0) {
            more = false;
        } else if (n > 0) {
            heard = tw_monotonic_ns();
            rc = tw_buf_append(&b, chunk, (size_t)n) != 0
                     ? tw_no_memory(err, "reading what a command prints")
                     : hand_out(&b, on_line, user, err);
            if (rc == 0 && b.len > CAP)
                rc = twin_error_set(err, TWIN_ELIMIT, "%s printed a line of more than %d bytes",
                                    argv[0], CAP);
        } else if (ready < 0 && errno != EINTR) {
            rc = twin_error_system(err, "cannot read from %s", argv[0]);
        } else if ((double)(tw_monotonic_ns() - heard) / 1e9 > silence_s) {
            rc = twin_error_set(err, TWIN_ELIMIT, "%s said nothing for %.0f s", argv[0], silence_s);
        }
    }
    if (more)
        kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    close(fd);
    tw_buf_free(&b);
    return rc;
}

/* ---- which program */

bool tw_in_path(const char *program)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        char *file = tw_printf("%.*s/%s", (int)n, path, program);
        bool hit = file && access(file, X_OK) == 0;
        tw_free(file);
        if (hit)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

char *tw_find_python(const char *given)
{
    if (given)
        return tw_strdup(given);
    return tw_strdup(tw_in_path("python3") ? "python3" : "python");
}

struct tw_python_packages tw_python_packages(const char *python)
{
    struct tw_python_packages found = {.numpy = false};
    char *question[] = {
        (char *)(uintptr_t)python, "-c",
        "import importlib.util as u\nfor m in ('numpy', 'torch', 'jax', 'tensorflow'):\n print(m, "
        "u.find_spec(m) is not None)",
        NULL};
    char *out = NULL;
    int status = 0;
    if (tw_capture(question, 20, &out, &status, NULL) == 0 && status == 0)
        found = (struct tw_python_packages){.numpy = strstr(out, "numpy True") != NULL,
                                            .torch = strstr(out, "torch True") != NULL,
                                            .jax = strstr(out, "jax True") != NULL,
                                            .tensorflow = strstr(out, "tensorflow True") != NULL};
    tw_free(out);
    return found;
}
