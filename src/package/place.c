/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a replay. What was verified is copied into it and used from there, so nobody else
 * may be able to put something else in its place: neither in it (mode 0700) nor, where a signature
 * is asked for, by renaming a folder above it. */
#include "unpack.h"

#include "base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is this the user's own group, which many systems make for each user with the user's number?
 * Nobody else is taken to be in it. */
static bool is_own_group(const struct stat *st)
{
    return st->st_gid == getegid() && getegid() == geteuid();
}

/* Can somebody else rename or replace what lies in this folder? Its owner and root always can, so
 * it must belong to this user or root. With the sticky bit only the owners of things can. */
static bool others_can_replace(const struct stat *st)
{
    bool owned = st->st_uid == 0 || st->st_uid == geteuid();
    bool by_others = (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && !is_own_group(st));
    return !owned || (by_others && !(st->st_mode & S_ISVTX));
}

/* Checks each folder above `path`, which is absolute and free of links, up to "/". TWIN_EIO names
 * the first one that others can write to. */
static int check_above(const char *path, struct twin_error *err)
{
    struct stat st;
    char *at = tw_strdup(path);
    int rc = at ? 0 : tw_no_memory(err, "making the folder of a replay");
    while (rc == 0 && strcmp(at, "/") != 0) {
        /* one folder up; "/" stays "/" */
        char *slash = strrchr(at, '/');
        slash[slash == at ? 1 : 0] = '\0';
        if (lstat(at, &st) != 0)
            rc = twin_error_system(err, "cannot look at %s", at);
        else if (others_can_replace(&st))
            rc = twin_error_set(err, TWIN_EIO,
                                "%s: others can put something else in place of what lies in it, so "
                                "no signed package is run there; name another folder with --into",
                                at);
    }
    tw_free(at);
    return rc;
}

/* A folder that cannot be read counts as not empty. */
static bool is_empty(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n == 0;
}

/* Makes the folder, its parents with the usual mode and itself for this user only; or takes one
 * that is there, empty and this user's. *made: it was made here, so it may be removed on
 * failure. */
static int make_private(const char *into, bool *made, struct twin_error *err)
{
    struct stat st;
    *made = false;
    if (lstat(into, &st) == 0) {
        /* a folder with something in it could bring files into the replay */
        if (!S_ISDIR(st.st_mode) || !is_empty(into))
            return twin_error_set(
                err, TWIN_EIO,
                "%s: expected a new or an empty folder, found %s; name another with --into", into,
                S_ISDIR(st.st_mode) ? "things in it" : "something else");
        /* its owner could always look into it, and change it */
        if (st.st_uid != geteuid())
            return twin_error_set(
                err, TWIN_EIO, "%s: the folder is somebody else's; name another with --into", into);
        return chmod(into, 0700) == 0
                   ? 0
                   : twin_error_system(err, "cannot change the mode of %s", into);
    }
    const char *slash = strrchr(into, '/');
    char *parent = tw_strndup(into, slash == into ? 1 : (size_t)(slash - into));
    int rc = parent ? tw_mkdirs(parent, err) : tw_no_memory(err, "making the folder of a replay");
    tw_free(parent);
    if (rc == 0 && mkdir(into, 0700) != 0)
        rc = twin_error_system(err, "cannot make folder %s", into);
    *made = rc == 0;
    return rc;
}

/* How many replays of a package may lie beside it without a name of their own. */
enum { REPLAYS_MOST = 999 };

char *twin_replay_beside(const char *package, struct twin_error *err)
{
    for (unsigned i = 1; i <= REPLAYS_MOST; i++) {
        char *out = i == 1 ? tw_printf("%s-replay", package)
                           : tw_printf("%s-replay-%u", package, i);
        if (!out)
            tw_no_memory(err, "making the folder of a replay");
        if (!out || twin_replay_is_new(out))
            return out;
        tw_free(out);
    }
    twin_error_set(err, TWIN_EIO, "%s-replay and %d more are there: name one with --into", package,
                   REPLAYS_MOST - 1);
    return NULL;
}

/* By its real path. */
static char *folder_beside(const char *package, struct twin_error *err)
{
    char *real = realpath(package, NULL), *out = NULL;
    if (real)
        out = twin_replay_beside(real, err);
    else
        twin_error_system(err, "%s", package);
    free(real);
    return out;
}

/* Cuts the last part off a path that begins with a slash and ends with none. The part, which lies
 * behind the path's new end. */
static char *cut_part(char *path)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    return slash + 1;
}

/* The path, of which the last part is not there yet or is to be looked at as it is: the deepest
 * folder above that is there by its real path, then what is to be made. malloc'ed. */
static char *resolve_above(const char *path, struct twin_error *err)
{
    char *above = tw_strdup(path), *below = above ? tw_strdup("") : NULL, *real = NULL;
    while (above && below && !real) {
        char *part = cut_part(above);
        char *longer = *below ? tw_printf("%s/%s", part, below) : tw_strdup(part);
        if (strcmp(part, ".") == 0 || strcmp(part, "..") == 0) {
            twin_error_set(err, TWIN_ENOENT, "--into %s: \"%s\" of a folder that is not there",
                           path, part);
            tw_free(longer);
            break;
        }
        tw_free(below);
        below = longer;
        real = tw_pk_real("/", *above ? above : "/");
        if (!real && !*above)
            break;
    }
    char *out = real && below ? tw_path_join(real, below) : NULL;
    if (!out && !(err && err->code))
        tw_no_memory(err, "making the folder of a replay");
    tw_free(real);
    tw_free(below);
    tw_free(above);
    return out;
}

/* What the engines of containers mount, and what a run there says of its folder, is this path: so
 * it has one form. A link as its last part stays one, and is refused later. */
static char *folder_given(const char *into, struct twin_error *err)
{
    char *path = *into ? tw_path_absolute(into, err) : NULL, *out = NULL;
    if (!*into)
        twin_error_set(err, TWIN_EINVAL, "--into: expected a folder, found nothing");
    for (size_t n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    const char *last = path ? tw_base_name(path) : "";
    const bool dots = strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
    if (path && (dots || path[1] == '\0')) {
        if (!(out = tw_pk_real("/", path)))
            twin_error_system(err, "--into %s", into);
    } else if (path) {
        out = resolve_above(path, err);
    }
    tw_free(path);
    return out;
}

char *twin_replay_folder(const char *into, const char *package, struct twin_error *err)
{
    return into ? folder_given(into, err) : folder_beside(package, err);
}

bool twin_replay_is_new(const char *folder)
{
    struct stat st;
    return lstat(folder, &st) != 0;
}

void twin_replay_clear(const char *folder, const char *copy, bool was_new)
{
    if (!twin_replay_is_new(copy))
        tw_remove_tree(was_new ? folder : copy, NULL, NULL);
}

/* On failure a folder that was made here is removed again. */
int twin_replay_place(const char *into, bool strict, char **copy, struct twin_error *err)
{
    char *whole = tw_path_absolute(into, err);
    *copy = NULL;
    if (!whole)
        return TWIN_ENOMEM;
    for (size_t n = strlen(whole); n > 1 && whole[n - 1] == '/'; n--)
        whole[n - 1] = '\0';
    bool made;
    int rc = make_private(whole, &made, err);
    /* links above the folder are resolved once; from here on only the real path is used */
    char *real = rc ? NULL : tw_pk_real("/", whole);
    if (rc == 0 && !real)
        rc = tw_no_memory(err, "making the folder of a replay");
    if (rc == 0 && strict)
        rc = check_above(real, err);
    if (rc == 0 && !(*copy = tw_path_join(real, TW_REPLAY_COPY)))
        rc = tw_no_memory(err, "making the folder of a replay");
    if (rc == 0 && mkdir(*copy, 0700) != 0)
        rc = twin_error_system(err, "cannot make folder %s", *copy);
    if (rc) {
        tw_free(*copy);
        *copy = NULL;
    }
    if (rc && made)
        rmdir(whole);
    tw_free(real);
    tw_free(whole);
    return rc;
}
