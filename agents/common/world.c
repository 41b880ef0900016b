/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What surrounds a process that records, in its own words: `worlds/<rank>.<pid>`, lines of KEY TAB
 * VALUE (docs/format/run-folder.md). Once when its trace begins, and its libraries once more at the
 * end, since many are loaded late. Only trainers write it: of a rank's helpers their parent speaks.
 */
#include "mapped.h"
#include "state.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
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

static void put_library(const char *path, void *out)
{
    line(out, "library", path);
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

/* The instruction sets by which libraries choose their code, where the compiler can tell them. */
static void put_instructions(struct out *o)
{
#if defined(__x86_64__)
    char text[256] = "instructions";
    struct {
        const char *name;
        bool there;
    } const sets[] = {{"sse4.2", __builtin_cpu_supports("sse4.2")},
                      {"avx", __builtin_cpu_supports("avx")},
                      {"avx2", __builtin_cpu_supports("avx2")},
                      {"fma", __builtin_cpu_supports("fma")},
                      {"avx512f", __builtin_cpu_supports("avx512f")},
                      {"avx512dq", __builtin_cpu_supports("avx512dq")},
                      {"avx512vl", __builtin_cpu_supports("avx512vl")},
                      {"avx512vnni", __builtin_cpu_supports("avx512vnni")}};
    size_t used = strlen(text);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (sets[i].there)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s", sets[i].name);
    line(o, "machine", text);
#else
    (void)o;
#endif
}

static void put_machine(struct out *o, const struct utsname *u)
{
    char text[256];
    snprintf(text, sizeof text, "kernel %s", u->release);
    line(o, "machine", text);
    snprintf(text, sizeof text, "libc %s", gnu_get_libc_version());
    line(o, "machine", text);
    put_instructions(o);
    of_machine(o, "/proc/cpuinfo", "model name", ":", "cpu");
    of_machine(o, "/proc/driver/nvidia/version", "NVRM version:", "Module", "nvidia_driver");
}

static void put_rank(struct out *o)
{
    put_number(o, "rank", tw_agent_config.rank);
    put_number(o, "world", tw_agent_config.world);
}

static void myself(struct out *o)
{
    struct utsname u;
    cpu_set_t cpus;
    char text[PATH_MAX];
    put_number(o, "pid", (long)getpid());
    put_rank(o);
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

static bool path_of(int32_t rank, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/worlds/%d.%ld", tw_agent_config.run_dir, (int)rank,
                     (long)getpid());
    return n > 0 && n < PATH_MAX;
}

/* flags: O_CREAT, or 0. False: there is no file. */
static bool open_out(struct out *o, int flags)
{
    char path[PATH_MAX];
    *o = (struct out){.fd = -1};
    if (path_of(tw_agent_config.rank, path))
        o->fd = open(path, O_WRONLY | O_APPEND | flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0666);
    return o->fd >= 0;
}

/* The Python half may have told its part already, also of a process that was no trainer so far. */
void tw_world_join(int32_t before)
{
    char old[PATH_MAX], now[PATH_MAX];
    struct out o;
    if (before != tw_agent_config.rank && path_of(before, old) &&
        path_of(tw_agent_config.rank, now) && access(now, F_OK) != 0)
        rename(old, now);
    if (!open_out(&o, 0))
        return;
    put_rank(&o);
    flush_out(&o);
    close(o.fd);
}

void tw_world_report(bool begins)
{
    struct out o;
    if (strcmp(tw_agent_config.role, "main") != 0 || !open_out(&o, O_CREAT))
        return;
    if (begins) {
        myself(&o);
        put_variables(&o);
        versions(&o);
        /* The launcher compares ranks while they run: it reads nothing into what is not there
         * yet. */
        line(&o, "told", "library");
    }
    tw_each_mapped(put_library, &o);
    flush_out(&o);
    close(o.fd);
}
