/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What surrounds a process that records, in its own words: `worlds/<rank>.<pid>`, lines of KEY TAB
 * VALUE (docs/format/run-folder.md). Once when its trace begins, and its libraries once more at the
 * end, since many are loaded late. Only trainers write it: of a rank's helpers their parent speaks.
 */
#include "state.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "src/base/base.h"

extern char **environ;

enum { ROOM = 4096, VALUE = 3000 };

struct out {
    int fd;
    size_t used;
    char text[ROOM];
};

static void flush_out(struct out *o)
{
    struct tw_file_limit limit;
    tw_file_limit_hold(&limit);
    for (size_t at = 0; at < o->used;) { /* a full disk loses lines, nothing else */
        ssize_t n = write(o->fd, o->text + at, o->used - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    tw_file_limit_release(&limit);
    o->used = 0;
}

static void line(struct out *o, const char *key, const char *value)
{
    char masked[VALUE];
    int pending = TW_SECRET_NONE;
    size_t n = tw_secret_mask(&pending, value, strlen(value), masked, sizeof masked);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)masked[i] < 0x20 || masked[i] == 0x7F)
            masked[i] = '?';
    if (ROOM - o->used < n + 64)
        flush_out(o);
    int written = snprintf(o->text + o->used, ROOM - o->used, "%s\t%s\n", key, masked);
    if (written > 0 && (size_t)written < ROOM - o->used)
        o->used += (size_t)written;
}

static void put_number(struct out *o, const char *key, long value)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    line(o, key, text);
}

/* One line of maps: "from-to rights offset device inode   path". Files that code runs from. */
static void put_mapping(struct out *o, char *text, char *last, size_t room)
{
    char *path = strchr(text, '/'), *rights = strchr(text, ' ');
    if (!path || !rights || path < rights + 5 || rights[3] != 'x' || strcmp(path, last) == 0)
        return;
    snprintf(last, room, "%s", path);
    line(o, "library", path);
}

/*
 * Not dl_iterate_phdr: its lock is held by whoever loads a library just now, perhaps for seconds.
 */
static void put_libraries(struct out *o)
{
    char text[4096 + 1], last[1024] = "";
    size_t have = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0;) {
        char *from = text, *end;
        have += (size_t)n;
        text[have] = '\0';
        while ((end = strchr(from, '\n'))) {
            *end = '\0';
            put_mapping(o, from, last, sizeof last);
            from = end + 1;
        }
        have -= (size_t)(from - text);
        memmove(text, from, have);
        if (have == sizeof text - 1) /* longer than any path: dropped */
            have = 0;
    }
    if (fd >= 0)
        close(fd);
}

static void put_variables(struct out *o)
{
    static const char *const ours[] = {"TWINRUN_LIB", "TWINRUN_HOT_LIB", "TWINRUN_SITE_DIR"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        const char *value = getenv(ours[i]);
        if (value)
            line(o, "ours", value);
    }
    for (char **e = environ; e && *e; e++) {
        size_t n = strcspn(*e, "=");
        if ((*e)[n] == '=' && tw_secret_variable_kept(*e, n))
            line(o, "env", *e);
    }
}

/* Versions that a library tells when it is there and asked; the calls are those that may come
 * before its initialisation. */
static void versions(struct out *o)
{
    static char text[8200]; /* MPI wants 8,192; once per process */
    int code = 0, bytes = 0;
    int (*nccl)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "ncclGetVersion");
    int (*cuda)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
    int (*mpi)(char *, int *) = (int (*)(char *, int *))dlsym(RTLD_DEFAULT,
                                                              "MPI_Get_library_version");
    if (nccl && nccl(&code) == 0) {
        snprintf(text, sizeof text, "nccl %d", code);
        line(o, "version", text);
    }
    if (cuda && cuda(&code) == 0) {
        snprintf(text, sizeof text, "cuda_driver %d.%d", code / 1000, code % 1000 / 10);
        line(o, "version", text);
    }
    memcpy(text, "mpi ", 5);
    if (mpi && mpi(text + 4, &bytes) == 0) {
        text[strcspn(text, "\n")] = '\0';
        line(o, "version", text);
    }
}

/* What stands behind `after` in the line of a file of /proc that has `begin` in it. */
static void of_machine(struct out *o, const char *path, const char *begin, const char *after,
                       const char *name)
{
    char text[2048], told[512];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return;
    text[n] = '\0';
    char *at = strstr(text, begin);
    at = at ? strstr(at, after) : NULL;
    if (!at)
        return;
    at += strlen(after);
    at += strspn(at, " ");
    snprintf(told, sizeof told, "%s %.*s", name, (int)strcspn(at, "\n"), at);
    line(o, "machine", told);
}

static void put_machine(struct out *o, const struct utsname *u)
{
    char text[256];
    snprintf(text, sizeof text, "kernel %s", u->release);
    line(o, "machine", text);
    of_machine(o, "/proc/cpuinfo", "model name", ":", "cpu");
    of_machine(o, "/proc/driver/nvidia/version", "NVRM version:", "Module", "nvidia_driver");
}

static void myself(struct out *o)
{
    struct utsname u;
    cpu_set_t cpus;
    char text[PATH_MAX];
    put_number(o, "pid", (long)getpid());
    put_number(o, "rank", tw_agent_config.rank);
    put_number(o, "world", tw_agent_config.world);
    if (uname(&u) == 0) {
        line(o, "host", u.nodename);
        put_machine(o, &u);
    }
    ssize_t n = readlink("/proc/self/exe", text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        line(o, "program", text);
    }
    n = readlink("/proc/self/cwd", text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        line(o, "cwd", text);
    }
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        put_number(o, "processors", CPU_COUNT(&cpus));
}

void tw_world_report(bool begins)
{
    struct out o = {.used = 0};
    char path[PATH_MAX];
    const struct tw_agent_config *c = &tw_agent_config;
    if (strcmp(c->role, "main") != 0)
        return;
    int n = snprintf(path, sizeof path, "%s/worlds/%d.%ld", c->run_dir, (int)c->rank,
                     (long)getpid());
    if (n < 0 || (size_t)n >= sizeof path)
        return;
    o.fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0666);
    if (o.fd < 0)
        return;
    if (begins) {
        myself(&o);
        put_variables(&o);
        versions(&o);
    }
    put_libraries(&o);
    flush_out(&o);
    close(o.fd);
}
