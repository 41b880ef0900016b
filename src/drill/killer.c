/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a job while it saves: a thread listens to the folder of the checkpoint (inotify), counts
 * complete saves, and sends SIGKILL to the job and all processes below it, as a machine that goes
 * away would.
 */
#include "inside.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct dr_killer {
    pthread_t thread;
    char *folder;
    const char *file; /* last part of the path */
    char *path;
    enum dr_moment moment;
    int events;
    bool watched; /* the thread's, once it has begun */
    unsigned saves;
    _Atomic int pid;
    _Atomic bool ends;
    _Atomic uint64_t killed_ns;
};

/* Adds the children of a process to the list, and theirs. Those that begin meanwhile die with their
 * parents' pipes or are reaped by the launcher. */
enum { KILLED = 4096 };
struct victims {
    pid_t pid[KILLED];
    size_t count;
};

static void add_children(struct victims *v, pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    for (char *p = text, *end; v->count < KILLED; p = end) {
        const long child = strtol(p, &end, 10);
        if (end == p || child <= 0)
            break;
        v->pid[v->count++] = (pid_t)child;
    }
}

static void kill_all(struct dr_killer *k, pid_t pid)
{
    struct victims *v = tw_calloc(1, sizeof *v);
    if (v) {
        v->pid[v->count++] = pid;
        for (size_t i = 0; i < v->count; i++)
            add_children(v, v->pid[i]);
    }
    k->killed_ns = tw_monotonic_ns();
    for (size_t i = 0; v && i < v->count; i++)
        kill(v->pid[i], SIGKILL);
    if (!v)
        kill(pid, SIGKILL);
    tw_free(v);
}

/* Is it time? Names are those of the folder: a writer may save beside, under a name that has the
 * file's own in it, and rename. */
static bool is_moment(struct dr_killer *k, const struct inotify_event *e)
{
    const char *name = e->len ? e->name : "";
    if (!strstr(name, k->file))
        return false;
    const bool is_file = strcmp(name, k->file) == 0;
    if (k->saves > 0 && k->moment == DR_SAVING && (e->mask & (IN_CREATE | IN_MODIFY)))
        return true;
    if (is_file && (e->mask & (IN_CLOSE_WRITE | IN_MOVED_TO)))
        k->saves++;
    return k->saves > 0 && k->moment == DR_SAVED;
}

static void read_events(struct dr_killer *k)
{
    char text[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
    const ssize_t n = read(k->events, text, sizeof text);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const void *)(text + at);
        if (is_moment(k, e) && k->pid > 0) {
            kill_all(k, k->pid);
            return;
        }
        at += (ssize_t)(sizeof *e + e->len);
    }
}

static bool watch(const struct dr_killer *k)
{
    return inotify_add_watch(k->events, k->folder,
                             IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO) >= 0;
}

static void *look(void *user)
{
    struct dr_killer *k = user;
    while (!k->ends && k->killed_ns == 0) {
        struct pollfd p = {.fd = k->events, .events = POLLIN};
        /* the job may make the folder itself, later */
        if (!k->watched)
            k->watched = watch(k);
        if (poll(&p, 1, k->watched ? 20 : 1) > 0)
            read_events(k);
    }
    return NULL;
}

int dr_killer_start(const char *path, enum dr_moment moment, struct dr_killer **out,
                    struct twin_error *err)
{
    struct dr_killer *k = tw_calloc(1, sizeof *k);
    char *copy = k ? tw_strdup(path) : NULL, *slash = copy ? strrchr(copy, '/') : NULL;
    *out = NULL;
    if (!slash) {
        tw_free(copy);
        tw_free(k);
        return tw_no_memory(err, "for a drill");
    }
    *slash = '\0';
    k->path = copy;
    k->folder = copy;
    k->file = slash + 1;
    k->moment = moment;
    k->events = inotify_init1(IN_CLOEXEC);
    /* before the job starts: on a busy machine the thread may begin behind its first save */
    k->watched = k->events >= 0 && watch(k);
    if (k->events >= 0 && pthread_create(&k->thread, NULL, look, k) == 0) {
        *out = k;
        return 0;
    }
    if (k->events >= 0)
        close(k->events);
    tw_free(copy);
    tw_free(k);
    return twin_error_set(err, TWIN_EIO,
                          "cannot look at the folder of %s: no inotify, or no thread", path);
}

void dr_killer_aim(struct dr_killer *k, pid_t pid)
{
    k->pid = pid;
}

uint64_t dr_killer_stop(struct dr_killer *k)
{
    if (!k)
        return 0;
    k->ends = true;
    pthread_join(k->thread, NULL);
    const uint64_t killed = k->killed_ns;
    close(k->events);
    tw_free(k->path);
    tw_free(k);
    return killed;
}
