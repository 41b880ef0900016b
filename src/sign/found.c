/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies where the operands of a verification say, named as the statement names it: a run's
 * folder, the files of a folder, files, or a file that a run wrote, wherever it lies now.
 */
#include "found.h"

#include "base.h"

#include "src/snapshot/content.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Both are resolved as far as they exist: the file itself may still have to be written, its folder
 * may not. So `./model/sig.json` and `model` meet, also by links. */
char *tw_signed_inside(const char *folder, const char *file)
{
    const char *base = tw_base_name(file);
    char *parent = tw_strndup(file, (size_t)(base - file));
    char *root = realpath(folder, NULL);
    char *above = NULL;
    if (parent)
        above = realpath(*parent ? parent : ".", NULL);
    char *out = NULL;
    const size_t n = root ? strlen(root) : 0;
    if (root && above && strncmp(root, above, n) == 0 && (above[n] == '/' || above[n] == '\0'))
        out = above[n] ? tw_printf("%s/%s", above + n + 1, base) : tw_strdup(base);
    tw_free(parent);
    free(root);
    free(above);
    return out;
}

int tw_signed_folder(const char *folder, const char *but, struct twin_subjects *out,
                     struct twin_error *err)
{
    char *skip = but ? tw_signed_inside(folder, but) : NULL;
    const char *list[] = {skip};
    int rc = twin_subject_folder(folder, list, skip ? 1 : 0, false, out, err);
    tw_free(skip);
    return rc;
}

/* A path that is there is never taken for a name: the folder decides, by the run.json in it, and a
 * file called like a run is that file. */
int tw_signed_run(const char *home, const char *spec, struct twin_run **out, struct twin_error *err)
{
    struct stat st;
    const bool there = stat(spec, &st) == 0;
    char *record = there && S_ISDIR(st.st_mode) ? tw_path_join(spec, "run.json") : NULL;
    char *dir = NULL;
    char *folder = NULL;
    const bool run = record && stat(record, &st) == 0 && S_ISREG(st.st_mode);
    int rc = 0;
    *out = NULL;
    tw_free(record);
    if (there && !run)
        return 0;
    if (!run && !(folder = home ? tw_strdup(home) : twin_home_default()))
        return tw_no_memory(err, "looking for a run");
    if (run)
        return twin_run_load(spec, out, err);
    struct twin_error why = TWIN_ERROR_INIT;
    rc = twin_run_resolve(folder, spec, &dir, &why);
    if (rc != 0 && rc != TWIN_ENOENT)
        twin_error_set(err, rc, "%s", why.message);
    else if (rc != 0)
        twin_error_set(err, rc,
                       "%s: no such file or folder, and no run of that name in %s/runs (twinrun ls "
                       "lists them)",
                       spec, folder);
    rc = rc ? rc : twin_run_load(dir, out, err);
    tw_free(dir);
    tw_free(folder);
    return rc;
}

bool tw_signed_is_run(const struct twin_statement *st)
{
    return strcmp(st->predicate_type, TWIN_PREDICATE_SLSA) == 0 ||
           strcmp(st->predicate_type, TWIN_PREDICATE_REPRODUCED) == 0;
}

/* Have both one algorithm under which they agree? Enough to find a subject; whether it is unchanged
 * is asked later, of all digests. */
static bool share_a_digest(const struct twin_subject *a, const struct twin_subject *b)
{
    for (size_t i = 0; i < a->digest_count; i++)
        for (size_t j = 0; j < b->digest_count; j++)
            if (strcmp(a->digest[i].algorithm, b->digest[j].algorithm) == 0 &&
                strcmp(a->digest[i].value, b->digest[j].value) == 0)
                return true;
    return false;
}

/* Finds a file that a run wrote, wherever it lies now: the signed subjects that have its bytes, or
 * its tensors, stand in for it under their own names. A file that is none of them is added under
 * its path, so that the comparison reports it as one that nobody signed. */
static int find_file(const struct twin_statement *st, const char *path, struct twin_subjects *found,
                     struct twin_error *err)
{
    struct twin_subjects one = {0};
    struct twin_content c;
    size_t matches = 0;
    int rc = twin_subject_file(path, path, &one, err);
    if (rc == 0 && twin_content_read(path, &c, NULL) == 0) {
        if (c.count > 0 && strcmp(c.file, one.item[0].digest[0].value) == 0)
            rc = twin_subjects_digest(&one, "twinrunContent1", c.content, err);
        twin_content_free(&c);
    }
    for (size_t i = 0; i < st->subjects.count && rc == 0; i++) {
        const struct twin_subject *s = &st->subjects.item[i];
        if (!share_a_digest(s, &one.item[0]))
            continue;
        matches++;
        rc = twin_subjects_add(found, s->name, s->digest[0].algorithm, s->digest[0].value, err);
    }
    if (rc == 0 && matches == 0)
        rc = twin_subjects_add(found, path, "sha256", one.item[0].digest[0].value, err);
    twin_subjects_free(&one);
    return rc;
}

/* Adds what each operand holds: a run's folder with all its files, or a single file. Another folder
 * is refused: that its files agree would not say which run it is. */
static int find_runs(const struct twin_statement *st, const char *home, char *const *operands,
                     size_t count, struct twin_subjects *found, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct twin_run *r = NULL;
        struct stat s;
        rc = tw_signed_run(home, operands[i], &r, err);
        if (rc == 0 && !r)
            rc = stat(operands[i], &s) == 0 && S_ISDIR(s.st_mode)
                     ? twin_error_set(err, TWIN_EINVAL,
                                      "%s: expected a run's folder, found another one", operands[i])
                     : find_file(st, operands[i], found, err);
        else if (rc == 0)
            rc = twin_run_subjects(r, false, found, err);
        twin_run_free(r);
    }
    return rc;
}

/* A statement about a folder names its files, so there names count; one about a file is about its
 * bytes, wherever they lie. */
int tw_signed_found(const struct twin_statement *st, const char *home, const char *envelope_path,
                    char *const *operands, size_t count, struct twin_subjects *found, bool *by_name,
                    struct twin_error *err)
{
    const char *kind = json_string_value(json_object_get(st->predicate, "kind"));
    const bool ours = strcmp(st->predicate_type, TWIN_PREDICATE_SIGNED) == 0;
    int rc = 0;
    *by_name = ours && kind && strcmp(kind, "folder") == 0;
    if (tw_signed_is_run(st)) {
        *by_name = true;
        return find_runs(st, home, operands, count, found, err);
    }
    if (*by_name && count == 1 && is_folder(operands[0]))
        return tw_signed_folder(operands[0], envelope_path, found, err);
    if (*by_name)
        return twin_error_set(err, TWIN_EINVAL, "expected the folder that was signed, found %s",
                              count == 1 ? "a file" : "more than one thing");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = is_folder(operands[i])
                 ? twin_error_set(err, TWIN_EINVAL,
                                  "%s: expected the file that was signed, found a folder",
                                  operands[i])
                 : twin_subject_file(operands[i], tw_base_name(operands[i]), found, err);
    return rc;
}
