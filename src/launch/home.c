/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a home: lists them, finds the one that a user named, deletes one. Called by the
 * commands that take a run as an argument ("last", "last~1", an id, a path) and by `twinrun ls` and
 * `twinrun gc`.
 *
 * A home holds its runs as folders below runs/; a folder is a run when it has a run.json. No index
 * is kept: each call reads the folder, so runs that were copied in or deleted by hand are no
 * special case. The home itself is made in home_make.c. */
#include "launch.h"

#include "phrase.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *twin_home_default(void)
{
    const char *given = getenv("TWINRUN_HOME");
    return tw_strdup(given && *given ? given : ".twinrun");
}

/* A folder of ours? At the working folder itself (up is empty) whosever it is: it was always taken.
 * One above that somebody else made, in /tmp say, is not ours to read from. */
static bool is_our_home(const char *home, bool here)
{
    struct stat st;
    return stat(home, &st) == 0 && S_ISDIR(st.st_mode) && (here || st.st_uid == geteuid());
}

/* Is the folder that `up` leads to the root, which is its own parent? Also when it cannot be seen:
 * there is nothing above it for us. */
static bool is_root(const char *up)
{
    struct stat at, above;
    char *here = tw_printf("%s.", up), *parent = tw_printf("%s..", up);
    bool root = !here || !parent || stat(here, &at) != 0 || stat(parent, &above) != 0 ||
                (at.st_dev == above.st_dev && at.st_ino == above.st_ino);
    tw_free(parent);
    tw_free(here);
    return root;
}

char *twin_home_nearest(void)
{
    enum { LEVELS = 64 };
    char up[3 * LEVELS + 1] = "";
    const char *given = getenv("TWINRUN_HOME");
    for (int level = 0; !(given && *given) && level < LEVELS; level++) {
        char *home = tw_printf("%s.twinrun", up);
        if (!home || is_our_home(home, level == 0))
            return home;
        tw_free(home);
        if (is_root(up))
            break;
        strcat(up, "../");
    }
    return twin_home_default();
}

char *tw_home_path(const char *home, struct twin_error *err)
{
    char *name = home ? tw_strdup(home) : twin_home_default();
    char *path = name ? tw_path_absolute(name, err) : NULL;
    if (!name)
        tw_no_memory(err, "looking for runs");
    tw_free(name);
    return path;
}

/* A folder with a regular file run.json. Memory that ran out counts as "no". */
static bool is_run(const char *dir)
{
    struct stat st;
    char *path = tw_path_join(dir, "run.json");
    bool yes = path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    tw_free(path);
    return yes;
}

/* One run folder while a home is listed. The name of a folder ends in random digits, and its time
 * counts whole seconds: the order of two runs of one second is known from run.json alone. */
struct entry {
    char *dir;
    int64_t time_ns;
};

/* For qsort. Equal times fall back to the name, later names first, so that the order never depends
 * on the order in which the file system lists the folder. */
static int newest_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return (x->time_ns < y->time_ns) - (x->time_ns > y->time_ns);
    return strcmp(y->dir, x->dir);
}

/* The start time out of the head of a run.json; `otherwise` where it does not say. Most are short:
 * the first read has all. */
static int64_t start_time(int fd, int64_t otherwise)
{
    static const char key[] = "\"start_realtime_ns\":";
    char head[65536];
    size_t n = 0;
    for (size_t most = 4096; n < sizeof head - 1; most = sizeof head - 1 - n) {
        ssize_t got = tw_pread_all(fd, head + n, most, n);
        n += got > 0 ? (size_t)got : 0;
        head[n] = '\0';
        const char *at = memmem(head, n, key, sizeof key - 1);
        if (at && strpbrk(at + sizeof key - 1, ",}\n"))
            return strtoll(at + sizeof key - 1, NULL, 10);
        if (got < (ssize_t)most)
            return at ? strtoll(at + sizeof key - 1, NULL, 10) : otherwise;
    }
    return otherwise;
}

/* Is e->dir a run? Then its time is set: one look at its run.json tells both. */
static bool look(struct entry *e)
{
    struct stat st;
    char *path = tw_path_join(e->dir, "run.json");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    tw_free(path);
    if (fd < 0)
        return is_run(e->dir); /* perhaps one that may not be read */
    bool yes = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (yes)
        e->time_ns = start_time(fd, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    close(fd);
    return yes;
}

/* The part of a folder's name that is the beginning of the run's id. */
static const char *id_of(const char *dir)
{
    const char *dash = strrchr(dir, '-');
    return dash ? dash + 1 : dir;
}

/* May the folder be the run that is meant? Its name, or the beginning of its id, of which the name
 * has 8 digits of 32. */
static bool may_be(const char *name, const char *spec)
{
    const char *short_id = id_of(name);
    const size_t n = strlen(spec);
    if (strcmp(name, spec) == 0)
        return true;
    return n > 0 && tw_hex_span(spec) == n && strlen(short_id) == 8 &&
           strncmp(short_id, spec, n < 8 ? n : 8) == 0;
}

/* Adds every run folder below `runs` to *list, or (spec) those that may be the one that is meant.
 * On failure *list holds what was found before; the caller frees it in either case. */
static int collect_runs(DIR *d, const char *runs, const char *spec, struct entry **list, size_t *n,
                        struct twin_error *err)
{
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || (spec && !may_be(e->d_name, spec)))
            continue;
        struct entry x = {.dir = tw_path_join(runs, e->d_name)};
        if (!x.dir)
            return tw_no_memory(err, "looking for runs");
        if (!look(&x)) {
            tw_free(x.dir);
            continue;
        }
        int rc = tw_launch_grow(list, *n, sizeof **list, err);
        if (rc) {
            tw_free(x.dir);
            return rc;
        }
        (*list)[(*n)++] = x;
    }
    return 0;
}

/* A home without runs/ is an empty home and no error: nothing has been run in it yet. */
static int list_runs(const char *home, const char *spec, char ***dirs, size_t *count,
                     struct twin_error *err)
{
    struct entry *list = NULL;
    size_t n = 0;
    *dirs = NULL;
    *count = 0;
    char *path = tw_home_path(home, err);
    char *runs = path ? tw_path_join(path, "runs") : NULL;
    tw_free(path);
    if (!runs)
        return err && err->code ? err->code : tw_no_memory(err, "looking for runs");
    DIR *d = opendir(runs);
    int rc = 0;
    if (d)
        rc = collect_runs(d, runs, spec, &list, &n, err);
    else if (errno != ENOENT)
        rc = twin_error_system(err, "cannot list %s", runs);
    if (d)
        closedir(d);
    if (n > 1)
        qsort(list, n, sizeof *list, newest_first);
    char **out = rc == 0 ? tw_calloc(n + 1, sizeof *out) : NULL;
    if (rc == 0 && !out)
        rc = tw_no_memory(err, "looking for runs");
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            out[i] = list[i].dir;
        else
            tw_free(list[i].dir);
    }
    tw_free(list);
    tw_free(runs);
    if (rc == 0) {
        *dirs = out;
        *count = n;
    }
    return rc;
}

int twin_run_list(const char *home, char ***dirs, size_t *count, struct twin_error *err)
{
    return list_runs(home, NULL, dirs, count, err);
}

/* Does `spec` begin the id of this run? The name of the folder holds the first 8 of 32 digits; only
 * a longer spec makes us open run.json. */
static bool matches_id(const char *dir, const char *spec)
{
    const char *short_id = id_of(dir);
    size_t n = strlen(spec);
    if (n == 0 || tw_hex_span(spec) != n || strlen(short_id) != 8)
        return false;
    if (n <= 8)
        return strncmp(short_id, spec, n) == 0;
    struct twin_run *run = NULL;
    bool yes = strncmp(short_id, spec, 8) == 0 && twin_run_load(dir, &run, NULL) == 0 &&
               tw_starts(run->id, spec);
    twin_run_free(run);
    return yes;
}

/* Was the run made to ask, and not to be looked at? */
static bool is_asking(const char *dir)
{
    const char *end = "-" TWIN_LABEL_ASKING "-12345678", *name = strrchr(dir, '/') + 1;
    const size_t n = strlen(name), tail = strlen(end);
    return n > tail && tw_starts(name + n - tail, "-" TWIN_LABEL_ASKING "-");
}

/* The run that was made `back` runs before the newest, as a person counts them. NULL: there are
 * only *counted. */
static const char *newest(char *const *dirs, size_t n, uint64_t back, size_t *counted)
{
    *counted = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_asking(dirs[i]) && (*counted)++ == back)
            return dirs[i];
    return NULL;
}

/* Chooses one of the n runs (newest first) by "last", "last~N", the name of its folder, or the
 * beginning of its id. Sets *dir (malloc'ed). TWIN_ENOENT: none fits; TWIN_EINVAL: several do. */
static int pick(char **dirs, size_t n, const char *home, const char *spec, char **dir,
                struct twin_error *err)
{
    uint64_t back = 0;
    if (strcmp(spec, "last") == 0 ||
        (tw_starts(spec, "last~") && tw_parse_u64(spec + 5, 1u << 30, &back) == 0)) {
        size_t counted;
        const char *found = newest(dirs, n, back, &counted);
        if (!found)
            return twin_error_set(err, TWIN_ENOENT,
                                  "%s: %s/runs holds %zu run%s; `twinrun ls` lists them", spec,
                                  home, counted, tw_plural_s(counted));
        *dir = tw_strdup(found);
        return *dir ? 0 : tw_no_memory(err, "looking for runs");
    }
    size_t found = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = strrchr(dirs[i], '/') + 1;
        if (strcmp(name, spec) == 0 || matches_id(dirs[i], spec)) {
            found++;
            at = i;
        }
    }
    if (found == 0)
        return twin_error_set(
            err, TWIN_ENOENT,
            "%s is neither a run folder nor the id of a run in %s/runs; `twinrun ls` lists them",
            spec, home);
    if (found > 1)
        return twin_error_set(err, TWIN_EINVAL, "%s fits %zu runs in %s/runs: give more digits",
                              spec, found, home);
    *dir = tw_strdup(dirs[at]);
    return *dir ? 0 : tw_no_memory(err, "looking for runs");
}

/* A run folder first, then the names and ids of runs. A spec with a slash can only be a path, so
 * what is wrong with it can be said. */
int twin_run_resolve(const char *home, const char *spec, char **dir, struct twin_error *err)
{
    char **dirs = NULL;
    size_t n = 0;
    *dir = NULL;
    if (*spec && is_run(spec)) { /* a path wins: it is what the shell completes */
        *dir = tw_path_absolute(spec, err);
        return *dir ? 0 : TWIN_ENOMEM;
    }
    if (!*spec || strchr(spec, '/')) {
        struct stat st;
        if (stat(spec, &st) == 0)
            return twin_error_set(err, TWIN_EFORMAT, "%s is not a run folder: it has no run.json",
                                  spec);
        return twin_error_set(err, TWIN_ENOENT,
                              "%s: there is no such run folder (twinrun ls lists the runs)",
                              *spec ? spec : "''");
    }
    char *shown = tw_home_path(home, err);
    if (!shown)
        return TWIN_ENOMEM;
    const bool by_time = strcmp(spec, "last") == 0 || tw_starts(spec, "last~");
    int rc = list_runs(home, by_time ? NULL : spec, &dirs, &n, err);
    if (rc == 0)
        rc = pick(dirs, n, shown, spec, dir, err);
    tw_strings_free(dirs);
    tw_free(shown);
    return rc;
}

/* Both paths are resolved first, so neither ".." nor a link leads out of runs/: what is deleted
 * lies directly in it and has a run.json. */
int twin_run_remove(const char *home, const char *dir, uint64_t *bytes, struct twin_error *err)
{
    char runs_real[PATH_MAX], dir_real[PATH_MAX];
    if (bytes)
        *bytes = 0;
    char *path = tw_home_path(home, err);
    char *runs = path ? tw_path_join(path, "runs") : NULL;
    tw_free(path);
    if (!runs)
        return err && err->code ? err->code : tw_no_memory(err, "looking for runs");
    int rc = 0;
    if (!realpath(runs, runs_real) || !realpath(dir, dir_real))
        rc = twin_error_system(err, "cannot delete %s", dir);
    size_t n = rc == 0 ? strlen(runs_real) : 0;
    if (rc == 0 && (strncmp(dir_real, runs_real, n) != 0 || dir_real[n] != '/' ||
                    strchr(dir_real + n + 1, '/')))
        rc = twin_error_set(err, TWIN_EINVAL, "%s is not deleted: it does not lie directly in %s",
                            dir, runs_real);
    if (rc == 0 && !is_run(dir_real))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%s is not deleted: it is not a run folder (no run.json)", dir);
    if (rc == 0)
        rc = tw_remove_tree(dir_real, bytes, err);
    tw_free(runs);
    return rc;
}
