/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process finds around itself, written into the file seen-NAME of its working folder:
 * descriptors, signals, limits, masks, environment, floating point. A native job of the corpus
 * calls it in the processes that it makes; the harness compares the files with those of the job
 * run alone. Left out is what docs/security.md says that a watched job may see.
 */
#ifndef CORPUS_SEEN_H
#define CORPUS_SEEN_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void seen_descriptors(FILE *out)
{
    /* O_LARGEFILE says by which system call the file was opened, nothing about it. */
    for (int fd = 0; fd < 4096; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || fd == fileno(out))
            continue;
        char link[64], path[512];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n < 0 ? 0 : n] = 0;
        char *colon = strchr(path, ':');
        if (colon)
            *colon = 0; /* pipe:[1234] */
        struct winsize size = {0};
        if (isatty(fd)) {
            ioctl(fd, TIOCGWINSZ, &size);
            strcpy(path, "terminal");
        }
        fprintf(out, "descriptor %d %s flags %d %o rows %d\n", fd, path, flags,
                (unsigned)fcntl(fd, F_GETFL) & ~0100000u, size.ws_row);
    }
    struct stat one, two;
    if (!fstat(1, &one) && !fstat(2, &two))
        fprintf(out, "one stream %d\n", one.st_ino == two.st_ino && one.st_dev == two.st_dev);
}

static void seen_status(FILE *out)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[512];
    while (status && fgets(line, sizeof line, status)) {
        char name[32];
        unsigned long long mask;
        int parts = sscanf(line, "Sig%31[A-Za-z]: %llx", name, &mask);
        if (parts == 2 && strcmp(name, "Q"))
            fprintf(out, "%s %llx\n", name, mask & ~(3ull << 31)); /* 32, 33: the C library's */
    }
    if (status)
        fclose(status);
}

static int seen_is_ours(const char *entry)
{
    static const char *const ours[] = {
        "TWINRUN_", "LD_PRELOAD=", "ASAN_OPTIONS=", "PYTHONPATH=", "PYTHONHASHSEED="};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strncmp(entry, ours[i], strlen(ours[i])))
            return 1;
    const char *held = getenv("TWINRUN_HELD"); /* names that run --pin holds */
    const char *end = strchr(entry, '=');
    size_t length = end ? (size_t)(end - entry) : 0;
    for (const char *at = held; at && length; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, entry, length) && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

static int seen_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void seen_environment(FILE *out)
{
    const char *sorted[1024];
    size_t n = 0;
    for (char **e = environ; e && *e && n < 1024; e++)
        if (!seen_is_ours(*e))
            sorted[n++] = *e;
    qsort(sorted, n, sizeof *sorted, seen_compare);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "variable %s\n", sorted[i]);
}

static void seen(const char *name)
{
    int kept = errno;
    char path[64];
    snprintf(path, sizeof path, "seen-%s", name);
    FILE *out = fopen(path, "we");
    if (out) {
        seen_descriptors(out);
        seen_status(out);
        seen_environment(out);
        for (int i = 0; i < RLIM_NLIMITS; i++) {
            struct rlimit l;
            getrlimit((__rlimit_resource_t)i, &l);
            fprintf(out, "limit %d %lld %lld\n", i, (long long)l.rlim_cur, (long long)l.rlim_max);
        }
        mode_t mask = umask(0);
        umask(mask);
        fprintf(out, "umask %o priority %d rounding %d exceptions %d\n", mask,
                getpriority(PRIO_PROCESS, 0), fegetround(), fetestexcept(FE_ALL_EXCEPT));
        fprintf(out, "leader %d\n", getsid(0) == getpgrp());
        fclose(out);
    }
    errno = kept;
}
#endif
