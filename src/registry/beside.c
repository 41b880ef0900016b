/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder beside the place where something is to be whole or not at all. Whoever fills it holds
 * its lock; one that nobody holds was left by somebody who was killed, and goes when the next one
 * comes to the same place. It may be as large as a model, and the plaintext of an encrypted one.
 */
#include "registry.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK ".restoring-"

/* The folder, open. -1: there is none. */
static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Removes what killed ones left here. What cannot be removed stays for the next one. */
static void sweep(const char *folder, const char *name)
{
    const size_t n = strlen(name);
    DIR *all = opendir(folder);
    for (struct dirent *e; all && (e = readdir(all));) {
        if (strncmp(e->d_name, name, n) != 0 || !tw_starts(e->d_name + n, MARK))
            continue;
        const int fd = open_folder(dirfd(all), e->d_name);
        const bool is_left = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
        char *path = is_left ? tw_path_join(folder, e->d_name) : NULL;
        if (path)
            tw_remove_tree(path, NULL, NULL);
        if (fd >= 0)
            close(fd);
        tw_free(path);
    }
    if (all)
        closedir(all);
}

/* *out: the folder in which path lies. */
static int parent_of(const char *path, char **out, struct twin_error *err)
{
    const size_t n = (size_t)(tw_base_name(path) - path);
    *out = n ? tw_strndup(path, n) : tw_strdup(".");
    return *out ? 0 : tw_no_memory(err, "writing %s", path);
}

/* One try. temp NULL with 0: somebody who sweeps was faster, and may have removed it. */
static int make_folder(struct tw_beside *p, const char *path, struct twin_error *err)
{
    p->temp = tw_printf("%s" MARK "%ld-XXXXXX", path, (long)getpid());
    if (!p->temp)
        return tw_no_memory(err, "writing %s", path);
    if (!mkdtemp(p->temp)) {
        tw_free(p->temp);
        p->temp = NULL;
        return twin_error_system(err, "cannot make a folder beside %s", path);
    }
    p->root = open_folder(AT_FDCWD, p->temp);
    /* where no locks are to be had nobody sweeps either */
    const bool is_ours = p->root >= 0 &&
                         (flock(p->root, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    struct stat st;
    if (is_ours && fstat(p->root, &st) == 0 && st.st_nlink > 0)
        return 0;
    if (p->root >= 0)
        close(p->root);
    p->root = -1;
    rmdir(p->temp);
    tw_free(p->temp);
    p->temp = NULL;
    return 0;
}

int tw_beside_open(struct tw_beside *p, const char *path, struct twin_error *err)
{
    enum { TRIES = 100 };
    struct stat st;
    char *folder = NULL;
    *p = (struct tw_beside){.root = -1};
    if (lstat(path, &st) == 0)
        return twin_error_set(err, TWIN_EIO, "%s is there already: nothing is replaced", path);
    int rc = parent_of(path, &folder, err);
    if (rc == 0)
        sweep(folder, tw_base_name(path));
    for (int i = 0; i < TRIES && rc == 0 && p->root < 0; i++)
        rc = make_folder(p, path, err);
    if (rc == 0 && (p->root < 0 || fchmod(p->root, 0755) != 0))
        rc = twin_error_system(err, "cannot make a folder beside %s", path);
    tw_free(folder);
    return rc;
}

int tw_beside_close(struct tw_beside *p, const char *path, bool keep, int rc,
                    struct twin_error *err)
{
    const bool kept = keep && rename(p->temp, path) == 0;
    if (keep && !kept)
        rc = twin_error_system(err, "cannot put %s in place", path);
    if (p->temp && !kept)
        tw_remove_tree(p->temp, NULL, NULL);
    if (p->root >= 0)
        close(p->root);
    tw_free(p->temp);
    return rc;
}
