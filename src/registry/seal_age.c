/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing by the program age (age-encryption.org), which is found in PATH. The plaintext goes
 * through us both ways, so that its digest is of the very bytes that were sealed or opened, and it
 * lies in no file of ours.
 */
#include "seal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { COPY_BYTES = 1 << 16, RECIPIENT_MAX = 4096, SAID_MAX = 400 };
enum { CHILD_IN, CHILD_OUT, CHILD_SAYS }; /* descriptors of the program, none of ours */

/* The program while it runs. */
struct age {
    pid_t pid;
    int ours; /* our end: what it reads, or what it writes */
    int said; /* what it writes to stderr: a file in memory */
};

/* What it said on stderr, in one line. */
static void read_said(int fd, char out[SAID_MAX])
{
    const ssize_t n = tw_pread_all(fd, out, SAID_MAX - 1, 0);
    out[n < 0 ? 0 : n] = '\0';
    char *advice = strstr(out, "\nage: report unexpected");
    if (advice)
        *advice = '\0';
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = p[1] ? ' ' : '\0';
}

/* Starts it with one end of a pair of sockets in place of `fd_of_pair`, and `other` in place of the
 * other one. */
static int start(struct age *a, const char *const *argv, int fd_of_pair, int other,
                 struct twin_error *err)
{
    int pair[2];
    posix_spawn_file_actions_t files;
    *a = (struct age){.pid = -1, .ours = -1, .said = tw_memory_file("twinrun-age", err)};
    if (a->said < 0)
        return TWIN_EIO;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return twin_error_system(err, "cannot talk to age");
    a->ours = pair[0];
    int rc = posix_spawn_file_actions_init(&files) == 0 ? 0 : tw_no_memory(err, "to start age");
    if (rc == 0) {
        posix_spawn_file_actions_adddup2(&files, pair[1], fd_of_pair);
        posix_spawn_file_actions_adddup2(&files, other,
                                         fd_of_pair == CHILD_IN ? CHILD_OUT : CHILD_IN);
        posix_spawn_file_actions_adddup2(&files, a->said, CHILD_SAYS);
        errno = posix_spawnp(&a->pid, "age", &files, NULL, (char *const *)(uintptr_t)argv, environ);
        if (errno == ENOENT)
            rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                                "expected the program age in PATH (Debian: age), found none: this "
                                "registry is sealed by it");
        else if (errno != 0)
            rc = twin_error_system(err, "cannot start age");
        if (rc != 0)
            a->pid = -1;
        posix_spawn_file_actions_destroy(&files);
    }
    close(pair[1]);
    return rc;
}

/* Ends it. rc: what went wrong before; said: what it has to say, "" of a success. */
static int finish(struct age *a, int rc, char said[SAID_MAX], struct twin_error *err)
{
    int status = 0;
    *said = '\0';
    if (a->ours >= 0)
        close(a->ours);
    while (a->pid > 0 && waitpid(a->pid, &status, 0) < 0)
        if (errno != EINTR) {
            rc = rc ? rc : twin_error_system(err, "cannot wait for age");
            break;
        }
    if (a->pid > 0 && status != 0) {
        read_said(a->said, said);
        if (!*said)
            snprintf(said, SAID_MAX, "age ended with status %d", status);
    }
    if (a->said >= 0)
        close(a->said);
    return rc;
}

/* ---- sealing */

static int recipient(const char *given, char **text, struct twin_error *err)
{
    const size_t n = strlen(given);
    if ((!tw_starts(given, "age1") && !tw_starts(given, "ssh-")) || n > RECIPIENT_MAX ||
        strpbrk(given, "\n\r"))
        return twin_error_set(err, TWIN_EINVAL,
                              "age:%.60s: expected a recipient that begins with age1 or ssh-; "
                              "age-keygen makes an identity and prints its recipient",
                              tw_starts(given, "AGE-SECRET-KEY") ? "(a secret key)" : given);
    *text = tw_strdup(given);
    return *text ? 0 : tw_no_memory(err, "for a recipient");
}

/* All of the file to age; it may be gone, which its own words explain. */
static int feed(const struct age *a, struct tw_seal_flow *f, bool *gone, struct twin_error *err)
{
    char *room = tw_malloc(COPY_BYTES);
    int rc = room ? 0 : tw_no_memory(err, "for %s", f->shown);
    while (rc == 0 && !*gone) {
        const ssize_t n = tw_read_up_to(f->in, room, COPY_BYTES);
        if (n < 0)
            rc = twin_error_system(err, "cannot read %s", f->shown);
        if (n <= 0)
            break;
        rc = tw_seal_pass(f, room, (size_t)n, err);
        for (ssize_t at = 0; rc == 0 && at < n && !*gone;) {
            const ssize_t sent = send(a->ours, room + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR)
                continue;
            *gone = sent < 0;
            at += sent;
        }
    }
    tw_free(room);
    return rc;
}

static int seal(const json_t *recipients, struct tw_seal_flow *f, struct twin_error *err)
{
    const size_t count = json_array_size(recipients);
    const char **argv = tw_calloc(2 * count + 2, sizeof *argv);
    char said[SAID_MAX];
    struct age a;
    bool gone = false;
    if (!argv)
        return tw_no_memory(err, "for %s", f->shown);
    argv[0] = "age";
    for (size_t i = 0; i < count; i++) {
        argv[2 * i + 1] = "-r";
        argv[2 * i + 2] = json_string_value(json_array_get(recipients, i));
    }
    int rc = start(&a, argv, CHILD_IN, f->sealed, err);
    rc = rc ? rc : feed(&a, f, &gone, err);
    rc = finish(&a, rc, said, err);
    tw_free(argv);
    if (rc == 0 && (*said || gone))
        rc = twin_error_set(err, TWIN_EIO, "%s: age cannot seal it: %s", f->shown,
                            *said ? said : "it stopped reading");
    return rc;
}

/* ---- opening */

static int drain(const struct age *a, struct tw_seal_flow *f, struct twin_error *err)
{
    char *room = tw_malloc(COPY_BYTES);
    int rc = room ? 0 : tw_no_memory(err, "for %s", f->shown);
    while (rc == 0) {
        const ssize_t n = tw_read_up_to(a->ours, room, COPY_BYTES);
        if (n < 0)
            rc = twin_error_system(err, "cannot read what age opened of %s", f->shown);
        if (n <= 0)
            break;
        rc = tw_seal_pass(f, room, (size_t)n, err);
    }
    tw_free(room);
    return rc;
}

static int open_sealed(const struct tw_strings *identities, struct tw_seal_flow *f,
                       struct twin_error *err)
{
    const char **argv = tw_calloc(2 * identities->count + 3, sizeof *argv);
    char said[SAID_MAX];
    struct age a;
    if (!argv)
        return tw_no_memory(err, "for %s", f->shown);
    argv[0] = "age";
    argv[1] = "-d";
    for (size_t i = 0; i < identities->count; i++) {
        argv[2 * i + 2] = "-i";
        argv[2 * i + 3] = identities->items[i];
    }
    int rc = start(&a, argv, CHILD_OUT, f->in, err);
    rc = rc ? rc : drain(&a, f, err);
    rc = finish(&a, rc, said, err);
    tw_free(argv);
    if (rc == 0 && *said) {
        /* Its words for a key that is not the one; all else speaks of the file. */
        const bool key = strstr(said, "no identity matched") || strstr(said, "identity file") ||
                         strstr(said, "failed to open") || strstr(said, "reading \"");
        rc = twin_error_set(err, key ? TWIN_EINVAL : TWIN_EFORMAT, "%s: %s: %s", f->shown,
                            key ? "--identity: none of the keys opens it" : "age cannot open it",
                            said);
    }
    return rc;
}

const struct tw_seal_way tw_seal_age = {"age", recipient, seal, open_sealed};
