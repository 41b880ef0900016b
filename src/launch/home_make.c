/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the home, and says what lies in one. A home holds what jobs printed: it keeps itself out of
 * git from the first moment on, whichever command makes it, and nothing in it ever goes into a
 * package.
 */
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_runs(const char *dir);
static bool has_key(const char *dir);

/* Does a home hold a file or folder of this name? */
static bool is_ours(const char *name, size_t n)
{
    static const char *const ours[] = {
        "runs",          "comparisons",   "cases",        "labs",       "searches",
        "studies",       "redaction.key", "redaction.id", ".gitignore", "ledger.db",
        "ledger.db-wal", "ledger.db-shm", NULL,
    };
    for (const char *const *p = ours; *p; p++)
        if (strlen(*p) == n && memcmp(*p, name, n) == 0)
            return true;
    return false;
}

/*
 * Is the folder empty, or a home with nothing in it but what a home holds? Only then no file of the
 * user's becomes invisible to git.
 */
static bool holds_only_ours(const char *home)
{
    DIR *d = opendir(home);
    bool only = d != NULL, empty = true;
    for (struct dirent *e; only && (e = readdir(d));) {
        bool itself = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        only = itself || is_ours(e->d_name, strlen(e->d_name));
        empty &= itself;
    }
    if (d)
        closedir(d);
    return only && (empty || has_runs(home) || has_key(home));
}

/* Writes .gitignore unless there is one. A home that cannot be hidden is used all the same. */
static void hide_from_git(const char *home)
{
    char *path = tw_path_join(home, ".gitignore");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd >= 0) {
        bool written = tw_write_all(fd, "*\n", 2) == 0;
        if (close(fd) != 0 || !written)
            unlink(path);
    }
    tw_free(path);
}

int twin_home_make(const char *home, struct twin_error *err)
{
    int rc = tw_mkdirs(home, err);
    if (rc == 0 && holds_only_ours(home))
        hide_from_git(home);
    return rc;
}

/* Does DIR have a run in it: runs/NAME/run.json? */
static bool has_runs(const char *dir)
{
    bool found = false;
    char *runs = tw_path_join(dir, "runs");
    DIR *d = runs ? opendir(runs) : NULL;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char *path = e->d_name[0] == '.' ? NULL : tw_printf("%s/%s/run.json", runs, e->d_name);
        found = path && access(path, F_OK) == 0;
        tw_free(path);
    }
    if (d)
        closedir(d);
    tw_free(runs);
    return found;
}

/* Is there a key for secrets in DIR, or the name of one? */
static bool has_key(const char *dir)
{
    bool found = false;
    static const char *const names[] = {"redaction.key", "redaction.id"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = tw_path_join(dir, names[i]);
        found |= path && access(path, F_OK) == 0;
        tw_free(path);
    }
    return found;
}

/* Goes up from the file's real path, folder by folder: one called .twinrun is a home, and so is one
 * that holds runs or a key, for what lies in it under a name that a home uses. */
bool twin_home_holds(const char *path)
{
    char at[PATH_MAX], whole[PATH_MAX];
    if (!realpath(path, whole))
        return false;
    memcpy(at, whole, sizeof at);
    while (at[0] == '/' && at[1]) {
        char *slash = strrchr(at, '/');
        if (strcmp(slash + 1, ".twinrun") == 0)
            return true;
        /* A home may be a folder with files of the user's in it: those are the user's. */
        const char *below = whole + strlen(at) + (whole[strlen(at)] == '/');
        if (is_ours(below, strcspn(below, "/")) && (has_key(at) || has_runs(at)))
            return true;
        slash[slash == at ? 1 : 0] = '\0';
    }
    return false;
}
