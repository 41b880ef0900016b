/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results outside of the working folder: "train.py --out /data/run7". A folder or file that the
 * job's command names is looked at when the job has ended, and what was written there during the
 * run is listed like the files of the working folder, by its absolute path. A path that no word of
 * the command names is known from the agents alone (opened.c).
 */
#include "launch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Places of one command that are looked at. */
enum { PLACES_MAX = 32 };

/* Everybody's places: what others do there says nothing of the job. */
static bool is_everybodys(const char *path)
{
    static const char *const places[] = {"/",    "/tmp", "/var/tmp", "/var", "/home",  "/root",
                                         "/usr", "/etc", "/opt",     "/mnt", "/media", "/srv"};
    static const char *const devices[] = {"/dev/", "/proc/", "/sys/", "/run/"};
    const char *home = getenv("HOME");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strcmp(path, places[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        size_t n = strlen(devices[i]);
        if (strncmp(path, devices[i], n) == 0 ||
            (strncmp(path, devices[i], n - 1) == 0 && !path[n - 1]))
            return true;
    }
    return home && strcmp(path, home) == 0;
}

bool tw_path_lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 &&
           (path[n] == '/' || path[n] == '\0' || (n > 0 && folder[n - 1] == '/'));
}

/*
 * The real path that a word names; NULL: none outside of the working folder. malloc'ed by realpath.
 */
static char *place_of(const char *cwd, const char *word, size_t n)
{
    const char *home = getenv("HOME");
    char *path = NULL;
    if (n > 1 && word[0] == '/')
        path = tw_printf("%.*s", (int)n, word);
    else if (n > 2 && word[0] == '~' && word[1] == '/' && home)
        path = tw_printf("%s%.*s", home, (int)n - 1, word + 1);
    else if (n > 3 && strncmp(word, "../", 3) == 0)
        path = tw_printf("%s/%.*s", cwd, (int)n, word);
    char *real = path ? realpath(path, NULL) : NULL;
    tw_free(path);
    if (real && (is_everybodys(real) || tw_path_lies_in(real, cwd) || tw_path_lies_in(cwd, real))) {
        free(real);
        return NULL;
    }
    return real;
}

/* Places that were found, each once, owned (realpath). What is beyond PLACES_MAX is not looked at.
 */
struct places {
    char *path[PLACES_MAX];
    size_t count;
};

/* One place, once; what lies in another one that is known already is seen there. Takes the path. */
static void add_place(struct places *p, char *path)
{
    bool known = path == NULL || p->count == PLACES_MAX;
    for (size_t i = 0; i < p->count && !known; i++)
        known = tw_path_lies_in(path, p->path[i]);
    if (known)
        free(path);
    else
        p->path[p->count++] = path;
}

/* The words of an argument, which may be a command for a shell: "sh -c 'train --out=/data/x'". */
static void take_words(struct places *p, const char *cwd, const char *text)
{
    static const char between[] = " \t\n;&|<>()'\"=,";
    while (*text) {
        text += strspn(text, between);
        size_t n = strcspn(text, between);
        if (n < PATH_MAX)
            add_place(p, place_of(cwd, text, n));
        text += n;
    }
}

/* A file is told when it was modified since then; a folder is listed like the working folder
 * (files.c). Stops at the first non-zero that `each` returns, and returns it. */
int tw_outside_each(const struct twin_run *run, const char *home, int64_t since_ns,
                    tw_outside_fn *each, void *user, struct twin_error *err)
{
    struct places p = {.count = 0};
    int rc = 0;
    for (size_t i = 1; i < run->argc; i++)
        take_words(&p, run->cwd, run->argv[i]);
    for (size_t i = 0; i < p.count; i++) {
        struct stat st;
        if (rc != 0 || stat(p.path[i], &st) != 0)
            continue;
        int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        if (S_ISREG(st.st_mode) && changed >= since_ns)
            rc = each(user, p.path[i], (uint64_t)st.st_size, err);
        else if (S_ISDIR(st.st_mode) && !tw_path_lies_in(p.path[i], home))
            rc = tw_snapshot_each_since(p.path[i], home, since_ns, each, user, err);
    }
    for (size_t i = 0; i < p.count; i++)
        free(p.path[i]);
    return rc;
}
