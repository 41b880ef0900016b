/* SPDX-License-Identifier: Apache-2.0 */
/* The code again: each repository from its bundle at its commit, the recorded difference applied,
 * the other files put in place. */
#include "unpack.h"
#include "provenance_inside.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double LIMIT_S = 600;
static const char WHERE[] = "code/code.json";

static bool is_commit(const char *s)
{
    size_t n = s ? strlen(s) : 0;
    return (n == 40 || n == 64) && strspn(s, "0123456789abcdef") == n;
}

static int failed(struct tw_ask *a, const char *what, struct twin_error *err)
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

#define RUN(what, dir, ...)                           \
    do {                                              \
        struct tw_ask ask;                            \
        if (!TW_GIT(&ask, dir, LIMIT_S, __VA_ARGS__)) \
            return failed(&ask, what, err);           \
        tw_free(ask.out);                             \
    } while (0)

static int clone(const char *dir, const char *bundle, const char *commit, struct twin_error *err)
{
    const char *format = strlen(commit) == 64 ? "--object-format=sha256" : "--object-format=sha1";
    RUN("a new repository", dir, "init", "--quiet", "--template=", format, ".");
    RUN("the bundle of the code", dir, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
        bundle, "+refs/heads/twinrun:refs/heads/twinrun");
    RUN("the commit of the package", dir, "checkout", "--quiet", "--detach", commit);
    return 0;
}

static int apply(const char *dir, const char *diff, struct twin_error *err)
{
    RUN("the changes to the commit", dir, "apply", "--index", "--whitespace=nowarn", diff);
    return 0;
}

static int put_repository(struct tw_unpack *u, const json_t *r, struct twin_error *err)
{
    const char *path = tw_pk_text(r, "path");
    const char *commit = tw_pk_text(r, "commit");
    const char *bundle = tw_pk_text(r, "bundle");
    const char *diff = tw_pk_text(r, "difference");
    if (!path || (*path && !tw_path_ok(path)) ||
        (bundle && (!tw_path_ok(bundle) || !tw_starts(bundle, "code/"))) ||
        (diff && (!tw_path_ok(diff) || !tw_starts(diff, "code/"))))
        return tw_unpack_bad(
            WHERE, "repositories with a path, a bundle and a difference inside the package", err);
    if (!bundle || !is_commit(commit))
        return twin_error_set(err, TWIN_ENOENT,
                              "the package has no bundle of %s: twinrun audit says why",
                              *path ? path : "its code");
    int fd = tw_bag_folder(u->code_fd, path);
    if (fd < 0)
        return twin_error_system(err, "cannot make %s in the code", path);
    close(fd);
    char *dir = *path ? tw_path_join(u->code, path) : tw_strdup(u->code);
    char *from = tw_printf("%s/data/%s", u->dir, bundle);
    char *changes = diff ? tw_printf("%s/data/%s", u->dir, diff) : NULL;
    int rc = dir && from && (!diff || changes)
                 ? clone(dir, from, commit, err)
                 : twin_error_set(err, TWIN_ENOMEM, "out of memory unpacking the code");
    if (rc == 0 && changes)
        rc = apply(dir, changes, err);
    tw_free(dir);
    tw_free(from);
    tw_free(changes);
    return rc;
}

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
    json_array_foreach (list, i, item)
        if ((rc = put_repository(u, item, err)) != 0)
            return rc;
    json_array_foreach (files, i, item) {
        const char *path = tw_pk_text(item, "path");
        if (!tw_path_ok(path))
            return tw_unpack_bad(WHERE, "files with a path inside the code", err);
        char *from = tw_printf("data/code/files/%s", path);
        rc = from ? tw_unpack_file(u, from, u->code_fd, path,
                                   json_is_true(json_object_get(item, "executable")), err)
                  : twin_error_set(err, TWIN_ENOMEM, "out of memory unpacking the code");
        tw_free(from);
        if (rc)
            return rc;
    }
    if (json_array_size(list) == 0 && json_array_size(files) == 0)
        return twin_error_set(err, TWIN_ENOENT, "the package has no code: twinrun audit says why");
    return 0;
}
