/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code in git: for each repository (the checkout, its submodules) a bundle of the history up to the
 * commit, and the difference that the record of the run kept. Untracked files are packed one by one
 * (pack_files.c).
 *
 * The bundle is made in a repository of its own that borrows the objects of the user's
 * ("alternates"), so that nothing in the user's is changed and no hook or filter of it is run. What
 * is packed is the code as it was when the run began, not as it is now.
 */
#include "pack.h"
#include "provenance_inside.h"

#include "base.h"
#include "phrase.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Seconds that one call of git may take. */
static const double LIMIT_S = 600;

/* The folder with the repository's objects, as the user's own git says: a worktree or submodule has
 * it elsewhere. malloc'ed; NULL: no repository, or no git. */
static char *objects_of(const char *dir)
{
    static const char *const words[] = {"rev-parse", "--git-path", "objects", NULL};
    struct tw_ask a;
    bool ok = tw_pv_git(&a, dir, 10, 65536, words);
    if (ok)
        a.out[strcspn(a.out, "\n")] = '\0';
    char *real = ok ? tw_pk_real(dir, a.out) : NULL;
    tw_free(a.out);
    return real;
}

/* For people; it may point into a. */
static const char *why_git_failed(const struct tw_ask *a)
{
    if (a->missing)
        return "git is not installed";
    return a->late ? "git took too long" : a->complaint;
}

/* Makes a bundle of the history of a commit at `to`, in a bare repository at scratch that borrows
 * from objects. False: *why says why not. scratch is left to the caller. */
static bool make_bundle(const char *scratch, const char *objects, const char *commit,
                        const char *to, char why[300])
{
    struct tw_ask a;
    /* the repository reads objects there, too, so none is copied */
    char *alternates = tw_printf("%s/objects/info/alternates", scratch);
    char *line = tw_printf("%s\n", objects);
    const char *format = strlen(commit) == 64 ? "--object-format=sha256" : "--object-format=sha1";
    snprintf(why, 300, "out of memory");
    bool ok = alternates && line &&
              TW_GIT(&a, NULL, LIMIT_S, "init", "--quiet", "--bare", "--template=", format,
                     scratch);
    if (ok) {
        tw_free(a.out);
        char *info = tw_printf("%s/objects/info", scratch);
        ok = info && tw_mkdirs(info, NULL) == 0 &&
             tw_write_file_atomic(alternates, line, strlen(line), NULL) == 0;
        tw_free(info);
        a.out = NULL;
    }
    if (ok) {
        /* a bundle needs a name for what it holds; replay asks for this one */
        ok = TW_GIT(&a, scratch, LIMIT_S, "--git-dir=.", "update-ref", "refs/heads/twinrun",
                    commit);
        tw_free(a.out);
        a.out = NULL;
    }
    if (ok) {
        ok = TW_GIT(&a, scratch, LIMIT_S, "--git-dir=.", "bundle", "create", "--quiet", to,
                    "refs/heads/twinrun");
        tw_free(a.out);
        a.out = NULL;
    }
    if (!ok && alternates && line)
        snprintf(why, 300, "%s", why_git_failed(&a));
    tw_free(alternates);
    tw_free(line);
    return ok;
}

/* Packs the history of one repository and notes its file in entry. number: which repository this
 * is, for the name. An audit, which writes nothing, asks only whether the commit is still there. */
static int put_bundle(struct tw_pack *p, json_t *area, const char *dir, const char *commit,
                      const char *path, size_t number, json_t *entry, struct twin_error *err)
{
    char why[300], place[64];
    int rc = 0;
    char *objects = objects_of(dir);
    if (!objects) {
        tw_pk_missing(&p->failed, area,
                      "the repository %s: it is not there any more, or git is not installed", dir);
        return 0;
    }
    snprintf(place, sizeof place,
             number ? "data/code/repository.%zu.bundle" : "data/code/repository.bundle", number);
    /* an audit: nothing is bundled */
    if (!p->w.dir) {
        struct tw_ask a;
        char *object = tw_printf("%s^{commit}", commit);
        const char *const words[] = {"cat-file", "-e", object, NULL};
        a = (struct tw_ask){.out = NULL};
        if (object && !tw_pv_git(&a, dir, 10, 65536, words))
            tw_pk_missing(&p->failed, area, "commit %.12s is not in the repository %s any more",
                          commit, dir);
        p->failed |= !object;
        tw_free(a.out);
        tw_free(object);
    } else {
        /* inside of the package's folder, so that it lies on the same disk and goes away with it */
        char *scratch = tw_printf("%s/.scratch.%zu", p->w.dir, number);
        char *to = tw_bag_place(&p->w, place, err);
        if (!scratch || !to)
            rc = err && err->code ? err->code : tw_no_memory(err, "packing the code");
        else if (!make_bundle(scratch, objects, commit, to, why))
            tw_pk_missing(&p->failed, area, "%s: no bundle of its history: %s", *path ? path : dir,
                          why);
        else if ((rc = tw_bag_adopt(&p->w, place, err)) == 0)
            tw_pk_put(&p->failed, entry, "bundle", json_string(place + strlen("data/")));
        struct stat st;
        if (scratch && lstat(scratch, &st) == 0 && rc == 0)
            rc = tw_remove_tree(scratch, NULL, err);
        tw_free(scratch);
        tw_free(to);
    }
    tw_free(objects);
    return rc;
}

/* Packs the difference to the commit that was recorded with the run. Where changes of some files
 * seemed to hold a secret, the record has the difference without them, and the digest of the whole
 * one. */
static int put_diff(struct tw_pack *p, json_t *area, const json_t *code, size_t number,
                    json_t *entry, struct twin_error *err)
{
    const json_t *diff = json_object_get(code, "diff");
    const char *file = tw_pk_text(diff, "file");
    const char *sha256 = tw_pk_text(diff, "sha256");
    const char *why = tw_pk_text(diff, "why");
    json_t *withheld = json_object_get(diff, "withheld"), *name;
    size_t i;
    char place[64];
    if (!diff) {
        if (json_is_true(json_object_get(code, "dirty")))
            tw_pk_missing(&p->failed, area, "the difference to the commit was not recorded");
        return 0;
    }
    json_array_foreach (withheld, i, name)
        tw_pk_missing(&p->failed, area,
                      "%s: its changes seem to hold a secret and were not kept; commit it without, "
                      "or name it with --code",
                      json_string_value(name));
    /* why: the reason for which no difference was recorded */
    if (why || !sha256 || strlen(sha256) != 64) {
        tw_pk_missing(&p->failed, area, "the difference to the commit: %s",
                      why ? why : "not recorded");
        return 0;
    }
    tw_pk_put(&p->failed, entry, "difference_sha256", json_string(sha256));
    tw_pk_put(&p->failed, entry, "difference_whole", json_boolean(json_array_size(withheld) == 0));
    /* no file: the difference is empty, or withheld as a whole. A name with a slash would lead out
     * of the run folder */
    if (!file || strchr(file, '/'))
        return 0;
    snprintf(place, sizeof place, number ? "data/code/changes.%zu.diff" : "data/code/changes.diff",
             number);
    char *from = tw_path_join(p->run->dir, file);
    struct twin_error inner = TWIN_ERROR_INIT;
    /* with files withheld the kept difference has another digest */
    const char *known = json_array_size(withheld) ? NULL : sha256;
    int rc = from ? tw_bag_copy(&p->w, place, from, known, NULL, &inner) : TWIN_ENOMEM;
    if (rc == TWIN_EFORMAT)
        tw_pk_missing(&p->failed, area, "%s of the run folder: %s", file, inner.message);
    else if (rc)
        twin_error_set(err, rc, "%s", inner.message);
    else
        tw_pk_put(&p->failed, entry, "difference", json_string(place + strlen("data/")));
    tw_free(from);
    return rc == TWIN_EFORMAT ? 0 : rc;
}

/* One repository and its submodules, each an entry of "repositories". code: its part of
 * provenance.json; path: below top, "" for itself. */
static int put_repository(struct tw_pack *p, json_t *area, const json_t *code, const char *path,
                          struct twin_error *err)
{
    json_t *list = json_object_get(area, "repositories"), *entry = json_object(), *sub;
    const char *commit = tw_pk_text(code, "commit");
    char *dir = *path ? tw_path_join(p->top, path) : tw_strdup(p->top);
    size_t number = json_array_size(list), i;
    int rc = entry && dir ? 0 : tw_no_memory(err, "packing the code");
    tw_pk_put(&p->failed, entry, "path", json_string(path));
    if (!tw_is_git_hash(commit))
        tw_pk_missing(&p->failed, area, "%s has no commit: commit the code, then run again",
                      *path ? path : p->top);
    else
        tw_pk_put(&p->failed, entry, "commit", json_string(commit));
    /* what the record has besides, for people and for audits */
    json_t *tree = json_object_get(code, "tree"), *remotes = json_object_get(code, "remotes");
    if (json_is_string(tree))
        tw_pk_put(&p->failed, entry, "tree", json_incref(tree));
    if (json_is_object(remotes))
        tw_pk_put(&p->failed, entry, "remotes", json_incref(remotes));
    if (rc == 0 && tw_is_git_hash(commit))
        rc = put_bundle(p, area, dir, commit, path, number, entry, err);
    rc = rc ? rc : put_diff(p, area, code, number, entry, err);
    tw_pk_add(&p->failed, list, entry);
    /* submodules have submodules: their paths are put together from the top */
    json_array_foreach (json_object_get(code, "submodules"), i, sub) {
        const char *below = tw_pk_text(sub, "path");
        char *full = NULL;
        if (below)
            full = *path ? tw_printf("%s/%s", path, below) : tw_strdup(below);
        if (rc == 0 && full && tw_path_ok(full) && json_object_get(sub, "commit"))
            rc = put_repository(p, area, sub, full, err);
        else if (rc == 0 && full)
            tw_pk_missing(&p->failed, area, "the submodule %s: not checked out", full);
        tw_free(full);
    }
    tw_free(dir);
    return rc;
}

static void left_untracked(struct tw_pack *p, json_t *area, const char *path, const char *why)
{
    tw_pk_missing(&p->failed, area, "%s: untracked, %s; name it with --code, or have git ignore it",
                  path, why);
}

/* Files that git did not track at the time of the run. Data and results of the job are not code;
 * large ones and those without a digest are named as missing. */
static int put_untracked(struct tw_pack *p, json_t *area, const json_t *code,
                         struct twin_error *err)
{
    json_t *item;
    size_t i;
    int rc = 0;
    json_array_foreach (json_object_get(code, "untracked"), i, item) {
        const char *path = tw_pk_text(item, "path");
        const char *sha256 = tw_pk_text(item, "sha256");
        const char *why = tw_pk_text(item, "why");
        char *real = path ? tw_pk_real(p->top, path) : NULL;
        /* data and results are no code */
        bool ours = real && (tw_pack_datum_of(p, real) || tw_pack_written(p, real));
        json_int_t bytes = json_integer_value(json_object_get(item, "bytes"));
        if (!path)
            tw_pk_missing(&p->failed, area, "an untracked file whose name is no text");
        else if (ours)
            ;
        else if (!sha256)
            left_untracked(p, area, path, why ? why : "not hashed");
        else if (bytes > (json_int_t)TW_SMALL_FILE)
            left_untracked(p, area, path, "larger than 16 MiB");
        else
            rc = tw_pack_file(p, area, path, sha256, "untracked", err);
        tw_free(real);
        if (rc)
            break;
    }
    if (json_is_false(json_object_get(code, "untracked_all_listed")))
        tw_pk_missing(&p->failed, area,
                      "not all untracked files were listed when it ran: commit what is needed, "
                      "have git ignore the rest");
    return rc;
}

/* The sentence of the area. */
static void describe_code(struct tw_pack *p, json_t *area, const json_t *code)
{
    const char *commit = tw_pk_text(code, "commit");
    const char *origin = tw_pk_text(json_object_get(code, "remotes"), "origin");
    size_t changed = (size_t)json_integer_value(json_object_get(code, "changed_count"));
    size_t files = json_array_size(json_object_get(area, "files"));
    size_t modules = json_array_size(json_object_get(area, "repositories"));
    char more[120] = "";
    int n = 0;
    if (changed)
        n = snprintf(more, sizeof more, ", %zu changed file%s", changed, tw_plural_s(changed));
    if (files)
        n += snprintf(more + n, sizeof more - (size_t)n, ", %zu file%s besides", files,
                      tw_plural_s(files));
    if (modules > 1)
        snprintf(more + n, sizeof more - (size_t)n, ", %zu submodule%s", modules - 1,
                 modules == 2 ? "" : "s");
    const char *of = origin ? " of " : "";
    tw_pk_holds(&p->failed, area, "commit %.12s%s%s%s", commit ? commit : "?", of,
                origin ? origin : "", more);
}

/* Outside git only single files are packed. A checkout that is not there any more gives no code at
 * all. */
int tw_pack_code(struct tw_pack *p, struct twin_error *err)
{
    json_t *area = p->area[TWIN_AREA_CODE], *code = json_object_get(p->provenance, "code");
    const char *top = tw_pk_text(code, "top"), *why = tw_pk_text(code, "why");
    tw_pk_put(&p->failed, area, "repositories", json_array());
    tw_pk_put(&p->failed, area, "files", json_array());
    /* a run outside of git, or a checkout that is gone */
    if (!top || !p->top || !p->folder) {
        if (top)
            tw_pk_missing(&p->failed, area, "%s, the checkout it ran in, is not there any more",
                          top);
        else
            tw_pk_put(&p->failed, area, "no_git", json_string(why ? why : "no repository"));
        int rc = top ? 0 : tw_pack_files(p, area, err);
        size_t n = json_array_size(json_object_get(area, "files"));
        tw_pk_holds(&p->failed, area, "%zu file%s, not under version control", n, tw_plural_s(n));
        return rc;
    }
    int rc = put_repository(p, area, code, "", err);
    rc = rc ? rc : put_untracked(p, area, code, err);
    rc = rc ? rc : tw_pack_files(p, area, err);
    describe_code(p, area, code);
    return rc;
}
