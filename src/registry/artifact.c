/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An artifact is named by the SHA-256 of its manifest, a canonical JSON of what it holds:
 *
 *     {"schema": "twinrun.artifact/1", "folder": true,
 *      "files": [{"path": "model.pt", "bytes": 1234, "run": false, "sha256": "...",
 *                 "content": "..."}]}
 *
 * The manifest and the files are contents of the store. A restored artifact was digested while it
 * was written, beside its place, and is renamed when all of it is right.
 */
#include "registry_inside.h"

#include "base.h"
#include "content.h"
#include "jcs.h"
#include "json_load.h"
#include "json_text.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1000000 };

void tw_artifact_free(struct tw_artifact *a)
{
    for (size_t i = 0; i < a->count; i++)
        tw_free(a->file[i].path);
    tw_free(a->file);
    memset(a, 0, sizeof *a);
}

/* ---- manifest */

static json_t *file_json(const struct tw_artifact_file *f)
{
    json_t *o = json_pack("{s:o, s:I, s:b, s:s}", "path", json_string(f->path), "bytes",
                          (json_int_t)f->bytes, "run", (f->mode & 0111) != 0, "sha256", f->sha256);
    if (o && *f->content)
        json_object_set_new(o, "content", json_string(f->content));
    return o;
}

/* The canonical text; malloc'ed. */
static int manifest_text(const struct tw_artifact *a, struct tw_buf *out, struct twin_error *err)
{
    json_t *files = json_array();
    int rc = files ? 0 : TWIN_ENOMEM;
    for (size_t i = 0; i < a->count && rc == 0; i++)
        rc = json_array_append_new(files, file_json(&a->file[i])) == 0 ? 0 : TWIN_ENOMEM;
    json_t *o = json_pack("{s:s, s:b, s:o}", "schema", TW_REGISTRY_ARTIFACT, "folder", a->folder,
                          "files", files);
    if (rc != 0 || !o)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "the artifact has no manifest: a file's name is no UTF-8, or there is "
                            "no memory");
    rc = rc ? rc : tw_jcs_write(o, out, err);
    json_decref(o);
    if (rc == 0 && out->len > TW_REGISTRY_MANIFEST_BYTES)
        rc = twin_error_set(err, TWIN_ELIMIT,
                            "the artifact's manifest has %zu bytes: too many files", out->len);
    return rc;
}

/* One file of a manifest that was read. */
static int file_of(const json_t *o, const char *name, struct tw_artifact_file *f,
                   struct twin_error *err)
{
    const char *path = json_string_value(json_object_get(o, "path"));
    const char *sha256 = json_string_value(json_object_get(o, "sha256"));
    const json_t *content = json_object_get(o, "content"), *run = json_object_get(o, "run");
    const json_int_t bytes = json_integer_value(json_object_get(o, "bytes"));
    const char *text = content ? json_string_value(content) : "";
    if (!path || !tw_path_ok(path) || bytes < 0 || !json_is_boolean(run) ||
        !tw_is_hex(sha256, 64) || !text || (*text && !tw_is_hex(text, 64)) ||
        json_object_size(o) != (content ? 5 : 4))
        return twin_error_set(err, TWIN_EFORMAT,
                              "%s: expected a file with path, bytes, run and sha256", name);
    f->path = tw_strdup(path);
    f->bytes = (uint64_t)bytes;
    f->mode = json_is_true(run) ? 0755 : 0644;
    memcpy(f->sha256, sha256, sizeof f->sha256);
    snprintf(f->content, sizeof f->content, "%s", text);
    return f->path ? 0 : tw_no_memory(err, "reading %s", name);
}

static int files_of(const json_t *list, const char *name, struct tw_artifact *a,
                    struct twin_error *err)
{
    const size_t n = json_array_size(list);
    if (n < 1 || n > FILES_MAX || (!a->folder && n != 1))
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected 1 to %d files, found %zu", name,
                              a->folder ? FILES_MAX : 1, n);
    a->file = tw_calloc(n, sizeof *a->file);
    if (!a->file)
        return tw_no_memory(err, "reading %s", name);
    for (size_t i = 0; i < n; i++) {
        int rc = file_of(json_array_get(list, i), name, &a->file[i], err);
        a->count += rc == 0;
        if (rc != 0)
            return rc;
        a->bytes += a->file[i].bytes;
        if (i > 0 && strcmp(a->file[i - 1].path, a->file[i].path) >= 0)
            return twin_error_set(err, TWIN_EFORMAT, "%s: its files are not in order", name);
    }
    return 0;
}

int tw_artifact_read(struct tw_store *s, const char *digest, struct tw_artifact *out,
                     struct twin_error *err)
{
    char *text = NULL, name[96];
    size_t n = 0;
    snprintf(name, sizeof name, "the manifest of artifact %.12s", digest);
    memset(out, 0, sizeof *out);
    int rc = tw_store_read_content(s, digest, TW_REGISTRY_MANIFEST_BYTES, &text, &n, err);
    if (rc != 0)
        return rc;
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const char *schema = json_string_value(json_object_get(o, "schema"));
    const json_t *folder = json_object_get(o, "folder");
    tw_free(text);
    if (!schema || strcmp(schema, TW_REGISTRY_ARTIFACT) != 0 || !json_is_boolean(folder)) {
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: expected JSON with schema " TW_REGISTRY_ARTIFACT, name);
    } else {
        out->folder = json_is_true(folder);
        memcpy(out->digest, digest, sizeof out->digest);
        rc = files_of(json_object_get(o, "files"), name, out, err);
    }
    json_decref(o);
    if (rc != 0)
        tw_artifact_free(out);
    return rc;
}

/* ---- taking */

/* Digest of the tensors, where the file holds any: it is equal for equal tensors in another
 * container, and so what a rerun is held against. */
static void take_content(const char *path, struct tw_artifact_file *f)
{
    struct twin_content c;
    struct twin_error none = TWIN_ERROR_INIT;
    if (twin_content_read_tensors(path, &c, &none) != 0)
        return;
    if (c.count > 0)
        memcpy(f->content, c.content, sizeof f->content);
    twin_content_free(&c);
}

static int take_file(const char *path, const char *name, const char *sha256,
                     struct tw_artifact_file *f, struct twin_error *err)
{
    struct stat st;
    if (!tw_path_ok(name))
        return twin_error_set(err, TWIN_EINVAL, "%s: a registry takes no file of this name", path);
    if (lstat(path, &st) != 0)
        return twin_error_system(err, "cannot look at %s", path);
    f->path = tw_strdup(name);
    if (!f->path)
        return tw_no_memory(err, "reading %s", path);
    f->bytes = (uint64_t)st.st_size;
    f->mode = st.st_mode & 0111 ? 0755 : 0644;
    memcpy(f->sha256, sha256, sizeof f->sha256);
    take_content(path, f);
    return 0;
}

static int take_files(const char *path, const struct twin_subjects *s, struct tw_artifact *a,
                      struct twin_error *err)
{
    if (s->count < 1 || s->count > FILES_MAX)
        return twin_error_set(err, TWIN_EINVAL, "%s: expected 1 to %d files, found %zu", path,
                              FILES_MAX, s->count);
    a->file = tw_calloc(s->count, sizeof *a->file);
    if (!a->file)
        return tw_no_memory(err, "reading %s", path);
    for (size_t i = 0; i < s->count; i++) {
        const struct twin_subject *x = &s->item[i];
        char *full = a->folder ? tw_path_join(path, x->name) : tw_strdup(path);
        int rc = full ? take_file(full, x->name, x->digest[0].value, &a->file[i], err)
                      : tw_no_memory(err, "reading %s", path);
        tw_free(full);
        if (rc != 0)
            return rc;
        a->count++;
        a->bytes += a->file[i].bytes;
    }
    return 0;
}

int tw_artifact_take(const char *path, struct tw_artifact *out, struct twin_error *err)
{
    struct twin_subjects s = {0};
    struct tw_buf text = {0};
    struct stat st;
    memset(out, 0, sizeof *out);
    if (lstat(path, &st) != 0)
        return twin_error_system(err, "cannot look at %s", path);
    out->folder = S_ISDIR(st.st_mode);
    int rc = out->folder ? twin_subject_folder(path, NULL, 0, false, &s, err)
                         : twin_subject_file(path, tw_base_name(path), &s, err);
    rc = rc ? rc : take_files(path, &s, out, err);
    rc = rc ? rc : manifest_text(out, &text, err);
    if (rc == 0 && !tw_sha256_of(text.data, text.len, out->digest))
        rc = tw_no_memory(err, "reading %s", path);
    twin_subjects_free(&s);
    tw_buf_free(&text);
    if (rc != 0)
        tw_artifact_free(out);
    return rc;
}

/* ---- storing */

static int store_file(const struct tw_artifact_file *f, const char *path, struct tw_store *s,
                      struct twin_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return twin_error_system(err, "cannot open %s", path);
    int rc = tw_store_put_file(s, fd, f->sha256, f->bytes, path, err);
    close(fd);
    return rc;
}

int tw_artifact_store(const struct tw_artifact *a, const char *path, struct tw_store *s,
                      struct twin_error *err)
{
    struct tw_buf text = {0};
    int rc = 0;
    for (size_t i = 0; i < a->count && rc == 0; i++) {
        char *full = a->folder ? tw_path_join(path, a->file[i].path) : tw_strdup(path);
        rc = full ? store_file(&a->file[i], full, s, err) : tw_no_memory(err, "reading %s", path);
        tw_free(full);
    }
    rc = rc ? rc : manifest_text(a, &text, err);
    rc = rc ? rc : tw_store_put_text(s, text.data, text.len, a->digest, "a manifest", err);
    tw_buf_free(&text);
    return rc;
}

/* ---- restoring */

/* One file below the open folder; its parents are made, no link is followed. */
static int restore_file(const struct tw_artifact_file *f, struct tw_store *s, int root,
                        struct twin_error *err)
{
    const char *slash = strrchr(f->path, '/');
    char *parent = slash ? tw_strndup(f->path, (size_t)(slash - f->path)) : NULL;
    int folder = -1;
    if (!slash)
        folder = dup(root);
    else if (parent)
        folder = tw_folder_below(root, parent);
    tw_free(parent);
    if (folder < 0)
        return twin_error_system(err, "cannot make the folder of %s", f->path);
    int rc = 0, fd = openat(folder, slash ? slash + 1 : f->path,
                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, f->mode);
    if (fd < 0)
        rc = twin_error_system(err, "cannot write %s", f->path);
    rc = rc ? rc : tw_store_get_content(s, f->sha256, fd, err);
    if (rc == 0 && (fsync(fd) != 0 || fsync(folder) != 0))
        rc = twin_error_system(err, "cannot write %s", f->path);
    if (fd >= 0)
        close(fd);
    close(folder);
    return rc;
}

int tw_artifact_restore(const struct tw_artifact *a, struct tw_store *s, const char *path,
                        struct twin_error *err)
{
    struct tw_beside place;
    int rc = tw_beside_open(&place, path, err);
    for (size_t i = 0; i < a->count && rc == 0; i++)
        rc = restore_file(&a->file[i], s, place.root, err);
    /* RENAME_NOREPLACE by hand: a folder never replaces what is not empty, a file is linked. */
    if (rc == 0 && !a->folder && linkat(place.root, a->file[0].path, AT_FDCWD, path, 0) != 0)
        rc = twin_error_system(err, "cannot put %s in place", path);
    return tw_beside_close(&place, path, rc == 0 && a->folder, rc, err);
}
