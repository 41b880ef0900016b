/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The five areas of a package. What whoever packed it found missing is taken over; then each area
 * is looked at anew: its file, what that names, and whether every file of it is as the manifests
 * say.
 *
 * twin_package_verify comes first, and its verdict is what this file asks about each file: what
 * lies in the folder now may have been changed since, and is read only by its verified digest.
 */
#include "pack.h"

#include "base.h"

#include "src/snapshot/snapshot.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* One audit. failed: there was no memory for a JSON value. */
struct audit {
    int root;
    const char *dir;
    const struct twin_bag_verdict *verdict;
    bool failed;
};

/* Was such a file there, and as its manifest says, when the package was verified? path: from the
 * package's top. */
static bool is_there(const struct audit *a, const char *path)
{
    const struct tw_manifest_entry *e = tw_manifest_find(a->verdict->payload, path);
    return e && e->good;
}

/* Is the file there, and as its manifest says, that a path of the package's JSON names? Such paths
 * are relative to data/; NULL: no. */
static bool part_there(const struct audit *a, const char *path)
{
    char *full = path ? tw_printf("data/%s", path) : NULL;
    bool yes = full && is_there(a, full);
    tw_free(full);
    return yes;
}

/* Each look_ function adds to "missing" what its area names and the package does not have. in: the
 * area's JSON as packed; out: the area of the audit. */
static void look_code(struct audit *a, const json_t *in, json_t *out)
{
    json_t *list = json_object_get(in, "repositories");
    json_t *files = json_object_get(in, "files");
    json_t *item;
    size_t i;
    if (json_array_size(list) == 0 && json_array_size(files) == 0)
        tw_pk_missing(&a->failed, out, "neither a repository nor a file of code");
    json_array_foreach (list, i, item) {
        const char *path = tw_pk_text(item, "path");
        const char *bundle = tw_pk_text(item, "bundle");
        const char *diff = tw_pk_text(item, "difference");
        const char *name = path && *path ? path : "the repository";
        if (!bundle)
            tw_pk_missing(&a->failed, out, "the bundle of %s: none was packed", name);
        else if (!part_there(a, bundle))
            tw_pk_missing(&a->failed, out, "the bundle of %s: not there: data/%s", name, bundle);
        if (diff && !part_there(a, diff))
            tw_pk_missing(&a->failed, out, "the changes to the commit: not there: data/%s", diff);
    }
    json_array_foreach (files, i, item) {
        const char *path = tw_pk_text(item, "path");
        char *full = path ? tw_printf("code/files/%s", path) : NULL;
        if (!full || !part_there(a, full))
            tw_pk_missing(&a->failed, out, "%s: not there", path ? path : "a file of the code");
        tw_free(full);
    }
}

/* Does fetch.txt say where this file is? */
static bool to_fetch(const struct audit *a, const char *path)
{
    for (size_t i = 0; i < a->verdict->fetches; i++)
        if (strcmp(a->verdict->fetch[i].path, path) == 0)
            return true;
    return false;
}

/* One set of data: its snapshot must be the one that the run was held against, and each file of it
 * must be here or have an address. */
static void look_set(struct audit *a, const json_t *set, json_t *out)
{
    const char *name = tw_pk_text(set, "name");
    const char *snapshot = tw_pk_text(set, "snapshot");
    const char *root = tw_pk_text(set, "root");
    const char *contents = tw_pk_text(set, "contents");
    struct twin_error inner = TWIN_ERROR_INIT;
    struct twin_snapshot s;
    char *text = NULL, *path = snapshot ? tw_printf("data/%s", snapshot) : NULL;
    size_t n = 0, gone = 0;
    /* a set without a readable snapshot proves nothing */
    if (!name || !path || !root || !contents || !tw_path_ok(path) ||
        tw_bag_read_verified(a->root, a->verdict, path, (size_t)1 << 30, &text, &n, &inner) != 0 ||
        twin_snapshot_parse(text, n, path, &s, &inner) != 0) {
        tw_pk_missing(&a->failed, out, "the snapshot of %s: %s", name ? name : "a data set",
                      inner.code ? inner.message : "not named");
        tw_free(text);
        tw_free(path);
        return;
    }
    if (strcmp(s.root, root) != 0)
        tw_pk_missing(&a->failed, out,
                      "the snapshot of %s is not the one that the run was held against", name);
    for (size_t i = 0;
         i < s.count && strcmp(contents, "not here") != 0 && strcmp(contents, "in part") != 0;
         i++) {
        /* sets that are not here, or in part, were said to be so by whoever packed */
        char *file = s.entry[i].kind == TWIN_SNAPSHOT_FILE
                         ? tw_printf("data/data/%s/%s", name, s.entry[i].path)
                         : NULL;
        if (file && !is_there(a, file) && !to_fetch(a, file) && gone++ == 0)
            tw_pk_missing(&a->failed, out, "%s: not there, and no address of it is", file);
        tw_free(file);
    }
    if (gone > 1)
        tw_pk_missing(&a->failed, out, "%zu more files of %s", gone - 1, name);
    twin_snapshot_free(&s);
    tw_free(text);
    tw_free(path);
}

static void look_data(struct audit *a, const json_t *in, json_t *out)
{
    json_t *sets = json_object_get(in, "sets"), *set;
    size_t i;
    json_array_foreach (sets, i, set)
        look_set(a, set, out);
    if (json_array_size(sets) == 0 && !json_is_true(json_object_get(in, "none_declared")) &&
        json_array_size(json_object_get(out, "missing")) == 0)
        tw_pk_missing(&a->failed, out, "no snapshot of the data");
}

/* The lock list where there is one, and the description of the machine. */
static void look_environment(struct audit *a, const json_t *in, json_t *out)
{
    const char *lock = tw_pk_text(in, "requirements");
    if (lock && !part_there(a, lock))
        tw_pk_missing(&a->failed, out, "the lock list of Python packages: not there: data/%s",
                      lock);
    json_t *image = json_object_get(in, "image");
    if (image)
        tw_pk_put(&a->failed, out, "image", json_incref(image));
    const char *layout = tw_pk_text(image, "layout");
    if (layout && strcmp(layout, "inside") == 0 && !part_there(a, TW_PACKAGE_IMAGE "/index.json"))
        tw_pk_missing(&a->failed, out, "the image: not there: data/" TW_PACKAGE_IMAGE);
    if (!part_there(a, "environment/system.json"))
        tw_pk_missing(&a->failed, out,
                      "machine, system and libraries: not there: data/environment/system.json");
}

/* The command, and each configuration file that was packed. */
static void look_configuration(struct audit *a, const json_t *in, json_t *out)
{
    json_t *file;
    size_t i;
    if (json_array_size(json_object_get(in, "argv")) == 0)
        tw_pk_missing(&a->failed, out, "the command");
    json_array_foreach (json_object_get(in, "files"), i, file) {
        const char *path = tw_pk_text(file, "file");
        if (!part_there(a, path))
            tw_pk_missing(&a->failed, out, "%s: not there",
                          tw_pk_text(file, "path") ? tw_pk_text(file, "path")
                                                   : "a configuration file");
    }
}

/* A seed that was stated, or a state that was seen. */
static void look_seeds(struct audit *a, const json_t *in, json_t *out)
{
    if (json_array_size(json_object_get(in, "stated")) == 0 &&
        json_object_size(json_object_get(in, "generators")) == 0 &&
        json_array_size(json_object_get(out, "missing")) == 0)
        tw_pk_missing(&a->failed, out, "no seed and no state of a random generator");
}

/* For an auditor: what the finding means. */
static const char *change_words(enum twin_bag_change change)
{
    if (change == TWIN_BAG_MISSING)
        return "missing: a manifest lists it";
    if (change == TWIN_BAG_CHANGED)
        return "changed since it was packed";
    return twin_bag_change_name(change);
}

/* Names the files of the area that are not as the manifests say. name: of the area. */
static void look_findings(struct audit *a, const char *name, json_t *out)
{
    char *prefix = tw_printf("data/%s/", name);
    for (size_t i = 0; prefix && i < a->verdict->findings; i++) {
        const struct twin_bag_finding *f = &a->verdict->finding[i];
        if (tw_starts(f->path, prefix))
            tw_pk_missing(&a->failed, out, "%s: %s", f->path, change_words(f->change));
    }
    a->failed |= !prefix;
    tw_free(prefix);
}

/* Makes one area. A file of the area that cannot be read is "missing", not an error; only
 * TWIN_ENOMEM is returned. */
static int look_at(struct audit *a, enum twin_area which, json_t **to, struct twin_error *err)
{
    assert((unsigned)which < TWIN_AREAS);
    static void (*const looks[TWIN_AREAS])(struct audit *a, const json_t *in, json_t *out) = {
        look_code, look_data, look_environment, look_configuration, look_seeds};
    const char *name = twin_area_name(which);
    struct twin_error inner = TWIN_ERROR_INIT;
    json_t *in = NULL, *out = json_pack("{s:[]}", "missing"), *m;
    char *path = tw_printf("data/%s/%s.json", name, name);
    size_t i;
    char *text = NULL;
    size_t n = 0;
    int rc = path && out ? tw_bag_read_verified(a->root, a->verdict, path, TW_BAG_JSON_MAX, &text,
                                                &n, &inner)
                         : TWIN_ENOMEM;
    rc = rc ? rc : tw_pk_parse(text, n, path, &in, &inner);
    tw_free(text);
    if (rc == TWIN_ENOMEM) {
        json_decref(out);
        tw_free(path);
        return tw_no_memory(err, "auditing a package");
    }
    /* first what verify found, so that it is known whether the area is whole */
    look_findings(a, name, out);
    if (rc) {
        if (json_array_size(json_object_get(out, "missing")) == 0)
            tw_pk_missing(&a->failed, out, "%s: %s", path,
                          rc == TWIN_ENOENT ? "not there" : inner.message);
        tw_pk_holds(&a->failed, out, "nothing that can be read");
    } else {
        const char *holds = tw_pk_text(in, "holds");
        tw_pk_holds(&a->failed, out, "%.500s", holds ? holds : "(not said)");
        bool damaged = json_array_size(json_object_get(out, "missing")) > 0;
        /* what the packer said is a stranger's text: limits in number and length */
        json_array_foreach (json_object_get(in, "missing"), i, m)
            if (json_string_value(m) && i < 10000)
                tw_pk_missing(&a->failed, out, "%.2000s", json_string_value(m));
        if (!damaged) /* else each file is named already */
            looks[which](a, in, out);
    }
    json_decref(in);
    tw_free(path);
    *to = out;
    return 0;
}

/* All five areas, always: an area that cannot be read is one that misses everything. Only no memory
 * and a folder that is not there are errors. */
int twin_audit_package(const char *dir, const struct twin_bag_verdict *verdict,
                       struct twin_packed *out, struct twin_error *err)
{
    struct audit a = {.dir = dir, .verdict = verdict};
    *out = (struct twin_packed){
        .files = verdict->files, .bytes = verdict->bytes, .is_signed = verdict->is_signed};
    memcpy(out->tagmanifest, verdict->tagmanifest, sizeof out->tagmanifest);
    a.root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = a.root < 0 ? twin_error_system(err, "cannot read %s", dir) : 0;
    for (size_t i = 0; i < TWIN_AREAS && rc == 0; i++)
        rc = look_at(&a, (enum twin_area)i, &out->area[i], err);
    if (a.root >= 0)
        close(a.root);
    if (rc == 0 && a.failed)
        rc = tw_no_memory(err, "auditing a package");
    if (rc)
        twin_packed_free(out);
    return rc;
}
