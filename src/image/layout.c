/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OCI image layout (image-spec 1.0): index.json names a manifest, or an index of manifests for
 * several platforms; the manifest names configuration and layers. Each is a blob whose name is its
 * digest, so the whole hangs on the one digest at the top, and every byte is held against it.
 */
#include "image.h"

#include "base.h"
#include "json_load.h"
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    JSON_MAX = 8 << 20, /* bytes of an index, a manifest, a configuration */
    LAYERS_MAX = 512,
    NAMED_MAX = 4096, /* images that an index names */
    CHUNK = 1 << 18
};

/* ---- values */

bool tw_image_is_digest(const char *text)
{
    return text && tw_starts(text, "sha256:") && tw_is_hex(text + 7, 64);
}

static const char *text_at(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static int bad_image(struct twin_error *err, const char *folder, const char *what)
{
    return twin_error_set(err, TWIN_EFORMAT, "%s: expected %s", folder, what);
}

/* A descriptor: {"digest", "size"}. where: for messages. */
static int read_descriptor(const json_t *o, const char *where, struct tw_blob *out,
                           struct twin_error *err)
{
    const char *digest = text_at(o, "digest");
    const json_t *size = json_object_get(o, "size");
    if (digest && !tw_starts(digest, "sha256:"))
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "%s: expected digests by SHA-256, found %.40s", where, digest);
    if (!tw_image_is_digest(digest) || !json_is_integer(size) || json_integer_value(size) < 0)
        return bad_image(err, where, "a descriptor with \"digest\" (sha256:...) and \"size\"");
    memcpy(out->digest, digest, strlen(digest) + 1);
    out->bytes = (uint64_t)json_integer_value(size);
    return 0;
}

static int parse_object(const char *text, size_t n, const char *where, json_t **out,
                        struct twin_error *err)
{
    json_error_t why;
    *out = tw_json_load(text, n, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(*out))
        return 0;
    json_decref(*out);
    *out = NULL;
    return twin_error_set(err, TWIN_EFORMAT, "%s: expected a JSON object: line %d: %s", where,
                          why.line, why.text);
}

/* ---- blobs */

static void blob_path(const char *digest, char out[96])
{
    snprintf(out, 96, "blobs/sha256/%.64s", digest + strlen("sha256:"));
}

int tw_image_blob(const struct tw_image *image, const struct tw_blob *blob, int *fd,
                  struct twin_error *err)
{
    char path[96];
    struct stat st;
    int rc = 0;
    blob_path(blob->digest, path);
    *fd = tw_open_below(image->root, path, O_RDONLY | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT)
        rc = twin_error_set(err, TWIN_ENOENT, "%s: the blob %s is missing", image->folder,
                            blob->digest);
    else if (*fd < 0 || fstat(*fd, &st) != 0)
        rc = twin_error_system(err, "%s: cannot read the blob %s", image->folder, blob->digest);
    else if (!S_ISREG(st.st_mode))
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: the blob %s: expected a regular file",
                            image->folder, blob->digest);
    else if ((uint64_t)st.st_size != blob->bytes)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: the blob %s: expected %llu bytes, found %lld",
                            image->folder, blob->digest, (unsigned long long)blob->bytes,
                            (long long)st.st_size);
    if (rc != 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* Reads the blob to its end: its digest must be its name. to: gets the bytes; -1: nobody. */
static int pass_blob(const struct tw_image *image, const struct tw_blob *blob, int to,
                     struct twin_error *err)
{
    struct tw_sha256 sum = {0};
    unsigned char raw[32];
    char hex[65] = "";
    int fd, rc = tw_image_blob(image, blob, &fd, err);
    if (rc != 0)
        return rc;
    char *chunk = tw_malloc(CHUNK);
    if (!chunk || !tw_sha256_begin(&sum))
        rc = tw_no_memory(err, "reading an image");
    uint64_t all = 0;
    while (rc == 0) {
        ssize_t n = read(fd, chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = twin_error_system(err, "%s: cannot read the blob %s", image->folder, blob->digest);
        if (n <= 0)
            break;
        tw_sha256_add(&sum, chunk, (size_t)n);
        all += (uint64_t)n;
        if (to >= 0 && tw_write_all(to, chunk, (size_t)n) != 0)
            rc = twin_error_system(err, "cannot write a copy of the blob %s", blob->digest);
    }
    if (rc == 0 && !tw_sha256_end(&sum, raw))
        rc = tw_no_memory(err, "reading an image");
    if (rc == 0) {
        tw_hex(raw, sizeof raw, hex);
        if (all != blob->bytes || strcmp(hex, blob->digest + strlen("sha256:")) != 0)
            rc = twin_error_set(err, TWIN_EFORMAT,
                                "%s: the blob %s is not what it is named: its bytes have sha256:%s",
                                image->folder, blob->digest, hex);
    }
    tw_sha256_free(&sum);
    tw_free(chunk);
    close(fd);
    return rc;
}

/* The JSON object in a blob, whose digest is held against its name. */
static int load_blob(const struct tw_image *image, const struct tw_blob *blob, json_t **out,
                     struct twin_error *err)
{
    char hex[65], path[96];
    *out = NULL;
    if (blob->bytes > JSON_MAX)
        return twin_error_set(err, TWIN_ELIMIT, "%s: the blob %s: expected at most %d bytes",
                              image->folder, blob->digest, JSON_MAX);
    int fd, rc = tw_image_blob(image, blob, &fd, err);
    if (rc != 0)
        return rc;
    char *text = tw_malloc((size_t)blob->bytes + 1);
    if (!text)
        rc = tw_no_memory(err, "reading an image");
    else if (tw_pread_all(fd, text, (size_t)blob->bytes, 0) != (ssize_t)blob->bytes)
        rc = twin_error_system(err, "%s: cannot read the blob %s", image->folder, blob->digest);
    else if (!tw_sha256_of(text, (size_t)blob->bytes, hex))
        rc = tw_no_memory(err, "reading an image");
    else if (strcmp(hex, blob->digest + strlen("sha256:")) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT,
                            "%s: the blob %s is not what it is named: its bytes have sha256:%s",
                            image->folder, blob->digest, hex);
    blob_path(blob->digest, path);
    rc = rc ? rc : parse_object(text, (size_t)blob->bytes, path, out, err);
    tw_free(text);
    close(fd);
    return rc;
}

static int add_blob(struct tw_image *image, const struct tw_blob *blob, struct twin_error *err)
{
    struct tw_blob *grown = tw_reallocarray(image->blob, image->blobs + 1, sizeof *grown);
    if (!grown)
        return tw_no_memory(err, "reading an image");
    image->blob = grown;
    grown[image->blobs++] = *blob;
    image->bytes += blob->bytes;
    return 0;
}

/* ---- which image */

/* This machine's processor, as images name it. */
static const char *architecture(void)
{
    static const struct {
        const char *machine, *image;
    } names[] = {{"x86_64", "amd64"},    {"aarch64", "arm64"}, {"armv7l", "arm"},
                 {"ppc64le", "ppc64le"}, {"s390x", "s390x"},   {"riscv64", "riscv64"}};
    static struct utsname u;
    if (uname(&u) != 0)
        return "?";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].machine, u.machine) == 0)
            return names[i].image;
    return u.machine;
}

/* Is this entry of an index for this kind of machine? One that names no platform may be. */
static bool is_for_here(const json_t *entry)
{
    const json_t *platform = json_object_get(entry, "platform");
    const char *os = text_at(platform, "os"), *arch = text_at(platform, "architecture");
    return (!os || strcmp(os, "linux") == 0) && (!arch || strcmp(arch, architecture()) == 0);
}

/* The first manifest of an image index that is for this machine; *chosen: its entry. */
static int choose_platform(const json_t *index, const char *where, const json_t **chosen,
                           struct tw_blob *out, struct twin_error *err)
{
    const json_t *list = json_object_get(index, "manifests"), *entry;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) > NAMED_MAX)
        return bad_image(err, where, "an index with \"manifests\"");
    json_array_foreach (list, i, entry)
        if (is_for_here(entry)) {
            *chosen = entry;
            return read_descriptor(entry, where, out, err);
        }
    return twin_error_set(err, TWIN_EUNSUPPORTED, "%s: no image for linux/%s among its %zu", where,
                          architecture(), json_array_size(list));
}

/* Configuration, layers and what the manifest names them by. */
static int read_manifest(struct tw_image *image, const json_t *manifest, struct twin_error *err)
{
    const json_t *layers = json_object_get(manifest, "layers"), *layer;
    struct tw_blob blob = {0};
    size_t i;
    if (!json_is_array(layers) || json_array_size(layers) > LAYERS_MAX)
        return bad_image(err, image->folder, "a manifest with \"layers\", at most 512");
    int rc = read_descriptor(json_object_get(manifest, "config"), image->folder, &blob, err);
    memcpy(image->config, blob.digest, sizeof image->config);
    rc = rc ? rc : add_blob(image, &blob, err);
    image->first_layer = image->blobs;
    json_array_foreach (layers, i, layer) {
        rc = rc ? rc : read_descriptor(layer, image->folder, &blob, err);
        rc = rc ? rc : add_blob(image, &blob, err);
    }
    return rc;
}

static bool are_texts(const json_t *list)
{
    const json_t *item;
    size_t i;
    json_array_foreach (list, i, item)
        if (!json_is_string(item))
            return false;
    return true;
}

/* Platform, variables and the digests of the layers' contents. */
static int read_config(struct tw_image *image, struct twin_error *err)
{
    json_t *config = NULL;
    int rc = load_blob(image, &image->blob[image->first_layer - 1], &config, err);
    const char *os = text_at(config, "os"), *arch = text_at(config, "architecture");
    json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    json_t *env = json_object_get(json_object_get(config, "config"), "Env"), *id;
    size_t i, layers = image->blobs - image->first_layer;
    snprintf(image->platform, sizeof image->platform, "%.20s/%.20s", os ? os : "?",
             arch ? arch : "?");
    if (rc == 0 && (!os || strcmp(os, "linux") != 0 || !arch || strcmp(arch, architecture()) != 0))
        rc = twin_error_set(err, TWIN_EUNSUPPORTED,
                            "%s: the image is for %s, and this machine is linux/%s", image->folder,
                            image->platform, architecture());
    if (rc == 0 && (!json_is_array(ids) || json_array_size(ids) != layers))
        rc = bad_image(err, image->folder,
                       "a configuration with a \"diff_ids\" for each layer: it may be no image "
                       "that programs run in");
    json_array_foreach (ids, i, id)
        if (rc == 0 && !tw_image_is_digest(json_string_value(id)))
            rc = bad_image(err, image->folder, "\"diff_ids\" by SHA-256");
    if (rc == 0 && env && !json_is_null(env) && (!json_is_array(env) || !are_texts(env)))
        rc = bad_image(err, image->folder, "\"Env\" as a list of texts");
    image->diff_id = json_incref(ids);
    image->env = json_is_array(env) ? json_incref(env) : json_array();
    json_decref(config);
    return rc;
}

/* Is the manifest of docker's types? entry: what names it, for a manifest that does not say. */
static bool is_docker_form(const json_t *manifest, const json_t *entry)
{
    const char *own = text_at(manifest, "mediaType"),
               *type = own ? own : text_at(entry, "mediaType");
    return type && tw_starts(type, "application/vnd.docker.");
}

/* Goes down from one entry of index.json to the configuration. */
static int descend(struct tw_image *image, const json_t *entry, struct twin_error *err)
{
    json_t *o = NULL;
    struct tw_blob blob;
    int rc = read_descriptor(entry, image->folder, &blob, err);
    if (rc != 0)
        return rc;
    memcpy(image->named, blob.digest, sizeof image->named);
    rc = load_blob(image, &blob, &o, err);
    /* an index of indexes is not made by anybody: one step is all */
    if (rc == 0 && json_object_get(o, "manifests")) {
        json_t *index = o;
        o = NULL;
        rc = add_blob(image, &blob, err);
        rc = rc ? rc : choose_platform(index, image->folder, &entry, &blob, err);
        rc = rc ? rc : load_blob(image, &blob, &o, err);
        image->docker_form = rc == 0 && is_docker_form(o, entry);
        json_decref(index);
    } else if (rc == 0) {
        image->docker_form = is_docker_form(o, entry);
    }
    memcpy(image->manifest, blob.digest, sizeof image->manifest);
    rc = rc ? rc : add_blob(image, &blob, err);
    rc = rc ? rc : read_manifest(image, o, err);
    json_decref(o);
    return rc ? rc : read_config(image, err);
}

bool tw_image_has_digest(const struct tw_image *image, const char *digest)
{
    return strcmp(image->config, digest) == 0 || strcmp(image->manifest, digest) == 0 ||
           strcmp(image->named, digest) == 0;
}

/* Forgets what was read of one image, so that another one of the layout can be tried. */
static void forget(struct tw_image *image)
{
    tw_free(image->blob);
    json_decref(image->diff_id);
    json_decref(image->env);
    image->blob = NULL;
    image->diff_id = image->env = NULL;
    image->blobs = image->first_layer = 0;
    image->bytes = 0;
}

/* Does index.json give this entry the tag? A name may stand before it: "python:3.11". */
static bool has_tag(const json_t *entry, const char *tag)
{
    const char *name = text_at(json_object_get(entry, "annotations"),
                               "org.opencontainers.image.ref.name");
    const char *colon = name ? strrchr(name, ':') : NULL;
    return name && (strcmp(name, tag) == 0 || (colon && strcmp(colon + 1, tag) == 0));
}

static bool fits(const json_t *entry, const char *tag)
{
    return (!tag || has_tag(entry, tag)) && is_for_here(entry);
}

/* Tries the entries of index.json that fit tag and platform. */
static int choose(struct tw_image *image, const json_t *index, const char *tag, const char *wanted,
                  struct twin_error *err)
{
    const json_t *list = json_object_get(index, "manifests"), *entry;
    size_t i, fit = 0;
    if (!json_is_array(list) || json_array_size(list) > NAMED_MAX)
        return bad_image(err, image->folder, "an index.json with \"manifests\"");
    json_array_foreach (list, i, entry)
        fit += fits(entry, tag);
    if (!tag && !wanted && fit > 1)
        return twin_error_set(err, TWIN_ENOENT,
                              "%s: holds %zu images: name one by its tag (oci:DIR:TAG)",
                              image->folder, fit);
    json_array_foreach (list, i, entry) {
        if (!fits(entry, tag))
            continue;
        forget(image);
        const int rc = descend(image, entry, err);
        if (rc || !wanted || tw_image_has_digest(image, wanted))
            return rc;
    }
    if (fit)
        return twin_error_set(err, TWIN_ENOENT, "%s: holds no image %s", image->folder, wanted);
    return twin_error_set(err, TWIN_ENOENT, "%s: holds no image%s%s for linux/%s", image->folder,
                          tag ? " tagged " : "", tag ? tag : "", architecture());
}

/* Is it a layout at all? */
static int check_mark(const struct tw_image *image, struct twin_error *err)
{
    char text[256] = "";
    int fd = tw_open_below(image->root, "oci-layout", O_RDONLY | O_NONBLOCK);
    ssize_t n = fd >= 0 ? tw_pread_all(fd, text, sizeof text - 1, 0) : -1;
    if (fd >= 0)
        close(fd);
    if (n < 0 || !strstr(text, "imageLayoutVersion"))
        return twin_error_set(
            err, TWIN_ENOENT,
            "%s: expected an OCI image layout (a folder with oci-layout, "
            "index.json and blobs); `skopeo copy docker://IMAGE oci:%s` makes one",
            image->folder, image->folder);
    return 0;
}

int tw_image_open(const char *folder, const char *tag, const char *wanted, struct tw_image *out,
                  struct twin_error *err)
{
    json_t *index = NULL;
    char *text = NULL, *path = tw_path_join(folder, "index.json");
    size_t n = 0;
    *out = (struct tw_image){.root = -1};
    out->folder = tw_path_absolute(folder, err);
    out->tag = tag ? tw_strdup(tag) : NULL;
    if (!out->folder || !path || (tag && !out->tag)) {
        tw_free(path);
        return tw_no_memory(err, "reading an image");
    }
    out->root = open(out->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = out->root >= 0 ? 0 : twin_error_system(err, "%s: expected an image's layout", folder);
    rc = rc ? rc : check_mark(out, err);
    rc = rc ? rc : tw_read_file(path, JSON_MAX, &text, &n, err);
    rc = rc ? rc : parse_object(text, n, path, &index, err);
    rc = rc ? rc : choose(out, index, tag, wanted, err);
    json_decref(index);
    tw_free(text);
    tw_free(path);
    return rc;
}

void tw_image_close(struct tw_image *image)
{
    if (image->folder && image->root >= 0)
        close(image->root);
    forget(image);
    tw_free(image->folder);
    tw_free(image->tag);
    *image = (struct tw_image){.root = -1};
}

int tw_image_verify(const struct tw_image *image, struct twin_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < image->blobs && rc == 0; i++)
        rc = pass_blob(image, &image->blob[i], -1, err);
    return rc;
}

int tw_image_manifest_of(const char *text, size_t n, char manifest[TW_DIGEST_ROOM],
                         char config[TW_DIGEST_ROOM], struct twin_error *err)
{
    static const char where[] = "what the registry names";
    json_t *o = NULL;
    const json_t *entry;
    struct tw_blob blob = {0};
    char hex[65];
    config[0] = '\0';
    int rc = parse_object(text, n, where, &o, err);
    if (rc == 0 && json_object_get(o, "manifests")) {
        rc = choose_platform(o, where, &entry, &blob, err);
        snprintf(manifest, TW_DIGEST_ROOM, "%s", blob.digest);
    } else if (rc == 0) {
        rc = read_descriptor(json_object_get(o, "config"), where, &blob, err);
        snprintf(config, TW_DIGEST_ROOM, "%s", blob.digest);
        if (rc == 0 && !tw_sha256_of(text, n, hex))
            rc = tw_no_memory(err, "reading an image");
        else if (rc == 0)
            snprintf(manifest, TW_DIGEST_ROOM, "sha256:%s", hex);
    }
    json_decref(o);
    return rc;
}

bool tw_image_is_docker_form(const char *text, size_t n)
{
    json_t *o = NULL;
    const bool read = parse_object(text, n, "a manifest", &o, NULL) == 0;
    const bool is = read && is_docker_form(o, NULL);
    json_decref(o);
    return is;
}

/* ---- a copy */

static int write_text(int root, const char *name, const char *text, size_t n,
                      struct twin_error *err)
{
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    int rc = fd >= 0 && tw_write_all(fd, text, n) == 0
                 ? 0
                 : twin_error_system(err, "cannot write %s of an image's copy", name);
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s of an image's copy", name);
    return rc;
}

/* Two layers may be one blob. */
static int copy_blob(const struct tw_image *image, const struct tw_blob *blob, int root,
                     struct twin_error *err)
{
    char path[96];
    blob_path(blob->digest, path);
    int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EEXIST)
        return 0;
    if (fd < 0)
        return twin_error_system(err, "cannot write %s of an image's copy", path);
    int rc = pass_blob(image, blob, fd, err);
    if (close(fd) != 0 && rc == 0)
        rc = twin_error_system(err, "cannot write %s of an image's copy", path);
    return rc;
}

/* index.json of the copy: the one manifest, without a tag, since its digest is its name. */
static int write_index(const struct tw_image *image, int root, struct twin_error *err)
{
    const struct tw_blob *manifest = &image->blob[image->first_layer - 2];
    json_t *o = json_pack("{s:i, s:s, s:[{s:s, s:s, s:I}]}", "schemaVersion", 2, "mediaType",
                          "application/vnd.oci.image.index.v1+json", "manifests", "mediaType",
                          image->docker_form
                              ? "application/vnd.docker.distribution.manifest.v2+json"
                              : "application/vnd.oci.image.manifest.v1+json",
                          "digest", manifest->digest, "size", (json_int_t)manifest->bytes);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    int rc = text ? write_text(root, "index.json", text, strlen(text), err)
                  : tw_no_memory(err, "copying an image");
    free(text);
    json_decref(o);
    return rc;
}

int tw_image_copy(const struct tw_image *image, const char *to, struct twin_error *err)
{
    static const char mark[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
    int root = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    if (root < 0 || mkdirat(root, "blobs", 0755) != 0 || mkdirat(root, "blobs/sha256", 0755) != 0)
        rc = twin_error_system(err, "cannot make blobs/sha256 in %s", to);
    /* the index for several platforms stays behind: what it names is not all here */
    for (size_t i = image->first_layer - 2; i < image->blobs && rc == 0; i++)
        rc = copy_blob(image, &image->blob[i], root, err);
    rc = rc ? rc : write_index(image, root, err);
    rc = rc ? rc : write_text(root, "oci-layout", mark, strlen(mark), err);
    if (root >= 0)
        close(root);
    return rc;
}
