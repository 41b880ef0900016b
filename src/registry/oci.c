/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A version as an OCI image layout, as ORAS lays out a model: a folder that tools of container
 * registries push and pull.
 *
 *     oci-layout, index.json
 *     blobs/sha256/...     the files, the artifact's manifest, the image manifest that names them
 *
 * The config of the image is the artifact's own manifest, so its digest is the artifact's: whoever
 * pulls it can hold what he has against the registry's log.
 */
#include "registry_inside.h"

#include "base.h"
#include "jcs.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define ARTIFACT_TYPE "application/vnd.twinrun.artifact.v1+json"
static const char LAYOUT[] = "{\"imageLayoutVersion\":\"1.0.0\"}";

/* A file below the open folder. */
static int write_text(int root, const char *name, const void *text, size_t n,
                      struct twin_error *err)
{
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    int rc = fd >= 0 && tw_write_all(fd, text, n) == 0 && fsync(fd) == 0
                 ? 0
                 : twin_error_system(err, "cannot write %s", name);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void blob_name(const char *sha256, char out[96])
{
    snprintf(out, 96, "blobs/sha256/%.64s", sha256);
}

/* A content of the store as a blob, digest checked while it is copied. Two files may be one. */
static int copy_blob(struct tw_store *s, const char *sha256, int root, uint64_t *bytes,
                     struct twin_error *err)
{
    char name[96];
    struct stat st;
    blob_name(sha256, name);
    if (fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        *bytes = (uint64_t)st.st_size;
        return 0;
    }
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return twin_error_system(err, "cannot write %s", name);
    int rc = tw_store_get_content(s, sha256, fd, err);
    if (rc == 0 && (fsync(fd) != 0 || fstat(fd, &st) != 0))
        rc = twin_error_system(err, "cannot write %s", name);
    close(fd);
    *bytes = rc ? 0 : (uint64_t)st.st_size;
    return rc;
}

static json_t *descriptor(const char *type, const char *sha256, uint64_t bytes)
{
    return json_pack("{s:s, s:o, s:I}", "mediaType", type, "digest",
                     json_sprintf("sha256:%s", sha256), "size", (json_int_t)bytes);
}

/* The file as a layer, whose title ORAS takes as its path. */
static json_t *layer_of(const struct tw_artifact_file *f)
{
    json_t *o = descriptor("application/octet-stream", f->sha256, f->bytes);
    json_t *notes = json_pack("{s:s}", "org.opencontainers.image.title", f->path);
    int rc = notes && (f->mode & 0111)
                 ? json_object_set_new(notes, "twinrun.executable", json_string("true"))
                 : 0;
    if (o && rc == 0 && json_object_set_new(o, "annotations", notes) == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* The canonical text of a JSON, which is taken over. */
static int text_of(json_t *o, struct tw_buf *out, struct twin_error *err)
{
    int rc = o ? tw_jcs_write(o, out, err) : tw_no_memory(err, "for an OCI layout");
    json_decref(o);
    return rc;
}

/* The image manifest as a blob, and the index that names it by the tag. */
static int write_manifests(const struct tw_artifact *a, uint64_t config_bytes, const char *name,
                           const char *tag, int root, struct twin_error *err)
{
    struct tw_buf manifest = {0}, index = {0};
    char digest[65] = "", path[96];
    json_t *layers = json_array(), *image = NULL;
    int rc = 0;
    for (size_t i = 0; i < a->count && rc == 0; i++)
        rc = json_array_append_new(layers, layer_of(&a->file[i]));
    json_t *config = descriptor(ARTIFACT_TYPE, a->digest, config_bytes);
    json_t *o = json_pack("{s:i, s:s, s:s, s:o, s:o, s:{s:s, s:s}}", "schemaVersion", 2,
                          "mediaType", MANIFEST_TYPE, "artifactType", ARTIFACT_TYPE, "config",
                          config, "layers", layers, "annotations", "org.opencontainers.image.title",
                          name, "org.opencontainers.image.version", tag);
    if (rc != 0) {
        json_decref(o);
        o = NULL;
    }
    rc = text_of(o, &manifest, err);
    if (rc == 0 && !tw_sha256_of(manifest.data, manifest.len, digest))
        rc = tw_no_memory(err, "for an OCI layout");
    blob_name(digest, path);
    rc = rc ? rc : write_text(root, path, manifest.data, manifest.len, err);
    image = rc ? NULL : descriptor(MANIFEST_TYPE, digest, manifest.len);
    if (image &&
        json_object_set_new(image, "annotations",
                            json_pack("{s:s}", "org.opencontainers.image.ref.name", tag)) == 0) {
        rc = text_of(json_pack("{s:i, s:s, s:[o]}", "schemaVersion", 2, "mediaType",
                               "application/vnd.oci.image.index.v1+json", "manifests", image),
                     &index, err);
    } else if (rc == 0) {
        json_decref(image);
        rc = tw_no_memory(err, "for an OCI layout");
    }
    rc = rc ? rc : write_text(root, "index.json", index.data, index.len, err);
    rc = rc ? rc : write_text(root, "oci-layout", LAYOUT, strlen(LAYOUT), err);
    tw_buf_free(&manifest);
    tw_buf_free(&index);
    return rc;
}

static int write_layout(const struct tw_artifact *a, struct tw_store *s, const char *name,
                        const char *tag, int root, struct twin_error *err)
{
    uint64_t config = 0, bytes = 0;
    if (mkdirat(root, "blobs", 0755) != 0 || mkdirat(root, "blobs/sha256", 0755) != 0)
        return twin_error_system(err, "cannot make blobs/sha256");
    int rc = copy_blob(s, a->digest, root, &config, err);
    for (size_t i = 0; i < a->count && rc == 0; i++)
        rc = copy_blob(s, a->file[i].sha256, root, &bytes, err);
    return rc ? rc : write_manifests(a, config, name, tag, root, err);
}

int tw_artifact_oci(const struct tw_artifact *a, struct tw_store *s, const char *name,
                    const char *tag, const char *path, struct twin_error *err)
{
    struct tw_beside place;
    int rc = tw_beside_open(&place, path, err);
    rc = rc ? rc : write_layout(a, s, name, tag, place.root, err);
    return tw_beside_close(&place, path, rc == 0, rc, err);
}
