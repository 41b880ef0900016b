/* SPDX-License-Identifier: Apache-2.0 */
/* The code again: each repository from its bundle at its commit, the recorded difference applied,
 * the other files put in place. The bundle and the difference are read by git (git.c); that they
 * give what they gave then is certain, because the commit is named by its hash and the files were
 * verified. */
#include "unpack.h"
#include "provenance_inside.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Seconds that one call of git may take. */
static const double LIMIT_S = 600;
/* The area's file below data/, for messages. */
static const char WHERE[] = "code/code.json";

/* An error from what git said. Frees a->out. */
static int git_failed(struct tw_ask *a, const char *what, struct twin_error *err)
{
    int rc = 0;
    if (a->missing)
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "git is not installed: it is needed to unpack the code");
    else
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: git says: %s", what,
                            a->late ? "(nothing, for ten minutes)" : a->complaint);
    tw_free(a->out);
    return rc;
}

/* Runs git in dir; when it fails, the function that uses this returns the error. what: begins its
 * message. */
#define RUN(what, dir, ...)                           \
    do {                                              \
        struct tw_ask ask;                            \
        if (!TW_GIT(&ask, dir, LIMIT_S, __VA_ARGS__)) \
            return git_failed(&ask, what, err);       \
        tw_free(ask.out);                             \
    } while (0)

/* The commit of a bundle in a new repository. The template is empty, so no hook comes with it. */
static int clone(const char *dir, const char *bundle, const char *commit, struct twin_error *err)
{
    /* the kind of hash of a repository is chosen when it is made */
    const char *format = strlen(commit) == 64 ? "--object-format=sha256" : "--object-format=sha1";
    RUN("a new repository", dir, "init", "--quiet", "--template=", format, ".");
    RUN("the bundle of the code", dir, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
        bundle, "+refs/heads/twinrun:refs/heads/twinrun");
    RUN("the commit of the package", dir, "checkout", "--quiet", "--detach", commit);
    return 0;
}

/* Applies the difference as it was recorded, to the index as well, so that git knows the new
 * files. */
static int apply_diff(const char *dir, const char *diff, struct twin_error *err)
{
    RUN("the changes to the commit", dir, "apply", "--index", "--whitespace=nowarn", diff);
    return 0;
}

/* One repository of the list: the checkout, or a submodule at its path. Without a bundle it cannot
 * be made: TWIN_ENOENT. */
static int put_repository(struct tw_unpack *u, const json_t *r, struct twin_error *err)
{
    const char *path = tw_pk_text(r, "path");
    const char *commit = tw_pk_text(r, "commit");
    const char *bundle = tw_pk_text(r, "bundle");
    const char *diff = tw_pk_text(r, "difference");
    /* paths of the package's JSON: "" is the checkout itself */
    if (!path || (*path && !tw_path_ok(path)) ||
        (bundle && (!tw_path_ok(bundle) || !tw_starts(bundle, "code/"))) ||
        (diff && (!tw_path_ok(diff) || !tw_starts(diff, "code/"))))
        return tw_unpack_bad(
            WHERE, "repositories with a path, a bundle and a difference inside the package", err);
    if (!bundle || !tw_is_git_hash(commit))
        return twin_error_set(err, TWIN_ENOENT,
                              "the package has no bundle of %s: twinrun audit says why",
                              *path ? path : "its code");
    /* a submodule's folder is made without following a link of the code above it */
    int fd = tw_folder_below(u->code_fd, path);
    if (fd < 0)
        return twin_error_system(err, "cannot make %s in the code", path);
    close(fd);
    char *dir = *path ? tw_path_join(u->code, path) : tw_strdup(u->code);
    char *from = tw_printf("%s/data/%s", u->dir, bundle);
    char *changes = diff ? tw_printf("%s/data/%s", u->dir, diff) : NULL;
    int rc = dir && from && (!diff || changes) ? clone(dir, from, commit, err)
                                               : tw_no_memory(err, "unpacking the code");
    if (rc == 0 && changes)
        rc = apply_diff(dir, changes, err);
    tw_free(dir);
    tw_free(from);
    tw_free(changes);
    return rc;
}

/* A package without any code is refused: TWIN_ENOENT. */
int tw_unpack_code(struct tw_unpack *u, struct twin_error *err)
{
    json_t *list = json_object_get(u->code_json, "repositories");
    json_t *files = json_object_get(u->code_json, "files");
    json_t *item;
    size_t i;
    int rc = 0;
    tw_unpack_say(u, "the code");
    if (!json_is_array(list) || !json_is_array(files))
        return tw_unpack_bad(WHERE, "\"repositories\" and \"files\"", err);
    /* the checkout comes first in the list, its submodules after it */
    json_array_foreach (list, i, item)
        if ((rc = put_repository(u, item, err)) != 0)
            return rc;
    /* files last, since they may lie inside of a repository */
    json_array_foreach (files, i, item) {
        const char *path = tw_pk_text(item, "path");
        if (!tw_path_ok(path))
            return tw_unpack_bad(WHERE, "files with a path inside the code", err);
        char *from = tw_printf("data/code/files/%s", path);
        rc = from ? tw_unpack_file(u, from, u->code_fd, path,
                                   json_is_true(json_object_get(item, "executable")), err)
                  : tw_no_memory(err, "unpacking the code");
        tw_free(from);
        if (rc)
            return rc;
    }
    if (json_array_size(list) == 0 && json_array_size(files) == 0)
        return twin_error_set(err, TWIN_ENOENT, "the package has no code: twinrun audit says why");
    return 0;
}
