/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container image that the run was made in, by its digests; a tag is a name that moves. Whoever
 * packs says which image it was. Where the run's record names a digest, too, the two are held
 * against each other, and a tag that has moved since is found.
 *
 * --image-inside puts the image's layout into the package, --image-beside into OUT.image.
 */
#include "pack.h"

#include "base.h"
#include "json_load.h"

#include "src/image/image.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The image, as far as it is known. */
struct named {
    char reference[512]; /* REPOSITORY, without tag and digest; "": it came from no registry */
    char tag[160];
    char digest[TW_DIGEST_ROOM], manifest[TW_DIGEST_ROOM], id[TW_DIGEST_ROOM];
    /* as a registry, an archive or an engine has it: a layout that was made of docker's form has
     * others in `manifest` and `id`. "": a layout was named, or nobody asked */
    char served_manifest[TW_DIGEST_ROOM], served_id[TW_DIGEST_ROOM];
    json_t *layers; /* their digests, as served; owned */
    bool docker_form;
    char platform[64];
    uint64_t bytes;
};

/* ---- what the record says */

/* The digest in a text, as "sha256:...". False: there is none. */
static bool digest_in(const char *text, char out[TW_DIGEST_ROOM])
{
    const char *at = text ? strstr(text, "sha256:") : NULL;
    if (!at || tw_hex_span(at + 7) < 64)
        return false;
    snprintf(out, TW_DIGEST_ROOM, "%.71s", at);
    return true;
}

bool tw_pack_recorded_image(const json_t *provenance, char out[TW_DIGEST_ROOM])
{
    json_t *container = TW_PK_AT((json_t *)provenance, "environment", "container"), *hint;
    const char *image = tw_pk_text(container, "image"), *name;
    if (image && tw_is_hex(image, 64)) {
        snprintf(out, TW_DIGEST_ROOM, "sha256:%s", image);
        return true;
    }
    json_object_foreach (json_object_get(container, "hints"), name, hint)
        if (digest_in(json_string_value(hint), out))
            return true;
    return false;
}

/* ---- which image */

/* "docker://repo:tag@sha256:..." in its parts. */
static void split_reference(const char *reference, struct named *n)
{
    static const char scheme[] = "docker://";
    const char *start = reference + (tw_starts(reference, scheme) ? sizeof scheme - 1 : 0);
    const char *at = strchr(start, '@');
    const char *end = at ? at : start + strlen(start);
    const char *colon = NULL;
    /* a colon behind the last slash begins a tag; one before it, a port */
    for (const char *p = start; p < end; p++) {
        if (*p == '/')
            colon = NULL;
        else if (*p == ':')
            colon = p;
    }
    snprintf(n->reference, sizeof n->reference, "%.*s", (int)((colon ? colon : end) - start),
             start);
    if (colon)
        snprintf(n->tag, sizeof n->tag, "%.*s", (int)(end - colon - 1), colon + 1);
}

static void take_image(const struct tw_image *image, struct named *n)
{
    /* of a registry its own answer is kept: the layout may have another manifest */
    if (!*n->digest)
        snprintf(n->digest, sizeof n->digest, "%s", image->named);
    snprintf(n->manifest, sizeof n->manifest, "%s", image->manifest);
    snprintf(n->id, sizeof n->id, "%s", image->config);
    snprintf(n->platform, sizeof n->platform, "%s", image->platform);
    n->docker_form |= image->docker_form;
    n->bytes = image->bytes;
}

/* The digests of a manifest's layers; the caller's. An empty list: it is an index. */
static json_t *layers_of(const char *text, size_t bytes)
{
    json_t *o = tw_json_load(text, bytes, 0, NULL), *out = json_array(), *layer;
    size_t i;
    json_array_foreach (json_object_get(o, "layers"), i, layer)
        json_array_append(out, json_object_get(layer, "digest"));
    json_decref(o);
    return out;
}

/* What a registry says, without the layers. */
static int ask_registry(const char *reference, struct named *n, struct twin_error *err)
{
    char *text = NULL, id[TW_DIGEST_ROOM] = "";
    size_t bytes = 0;
    split_reference(reference, n);
    int rc = tw_image_ask(reference, &text, &bytes, n->digest, err);
    rc = rc ? rc : tw_image_manifest_of(text, bytes, n->manifest, id, err);
    n->docker_form = rc == 0 && tw_image_is_docker_form(text, bytes);
    n->layers = rc == 0 ? layers_of(text, bytes) : NULL;
    tw_free(text);
    text = NULL;
    /* an index for several platforms names manifests, and only those name configurations */
    if (rc == 0 && !*id) {
        char *one = tw_printf("%s@%s", n->reference, n->manifest), again[TW_DIGEST_ROOM];
        rc = one ? tw_image_ask(one, &text, &bytes, again, err)
                 : tw_no_memory(err, "for a package");
        rc = rc ? rc : tw_image_manifest_of(text, bytes, again, id, err);
        n->docker_form |= rc == 0 && tw_image_is_docker_form(text, bytes);
        json_decref(n->layers);
        n->layers = rc == 0 ? layers_of(text, bytes) : NULL;
        tw_free(one);
        tw_free(text);
    }
    snprintf(n->id, sizeof n->id, "%s", id);
    memcpy(n->served_id, n->id, sizeof n->served_id);
    memcpy(n->served_manifest, n->manifest, sizeof n->served_manifest);
    return rc;
}

int tw_image_open_reference(const char *reference, const char *wanted, struct tw_image *image,
                            struct twin_error *err)
{
    char *folder = tw_strdup(reference + strlen("oci:"));
    char *colon = folder ? strrchr(folder, ':') : NULL;
    const char *tag = NULL;
    if (!folder)
        return tw_no_memory(err, "reading an image");
    if (colon && !strchr(colon, '/')) {
        *colon = '\0';
        tag = colon + 1;
    }
    int rc = tw_image_open(folder, tag, wanted, image, err);
    tw_free(folder);
    return rc;
}

/* ---- its layout */

/* Copies the layout to its place in the package, and lists its files. */
static int put_inside(struct tw_pack *p, const struct tw_image *image, struct twin_error *err)
{
    static const char below[] = "data/" TW_PACKAGE_IMAGE;
    char *place = tw_bag_place(&p->w, below, err), path[160];
    int rc = place ? 0 : TWIN_ENOMEM;
    if (rc == 0 && mkdir(place, 0777) != 0)
        rc = twin_error_system(err, "cannot make %s", place);
    rc = rc ? rc : tw_image_copy(image, place, err);
    tw_free(place);
    static const char *const names[] = {"oci-layout", "index.json"};
    for (size_t i = 0; i < 2 && rc == 0; i++) {
        snprintf(path, sizeof path, "%s/%s", below, names[i]);
        rc = tw_bag_adopt(&p->w, path, err);
    }
    for (size_t i = image->first_layer - 2; i < image->blobs && rc == 0; i++) {
        bool twice = false;
        for (size_t k = image->first_layer - 2; k < i; k++)
            twice |= strcmp(image->blob[k].digest, image->blob[i].digest) == 0;
        snprintf(path, sizeof path, "%s/blobs/sha256/%s", below,
                 image->blob[i].digest + strlen("sha256:"));
        rc = twice ? 0 : tw_bag_adopt(&p->w, path, err);
    }
    return rc;
}

/* To OUT.part-PID.image; pack.c gives it its name when the package has its own. */
static int put_beside(struct tw_pack *p, const struct tw_image *image, struct twin_error *err)
{
    p->image_beside = tw_printf("%s.image", p->w.dir);
    if (!p->image_beside)
        return tw_no_memory(err, "for a package");
    if (mkdir(p->image_beside, 0777) != 0)
        return twin_error_system(err, "cannot make %s", p->image_beside);
    return tw_image_copy(image, p->image_beside, err);
}

/* With a layout at hand: verified, and copied to where it is to be. */
static int take_layout(struct tw_pack *p, const struct tw_image *image, struct named *n,
                       struct twin_error *err)
{
    int rc = 0;
    take_image(image, n);
    if (!p->o->image_inside && !p->o->image_beside)
        return tw_image_verify(image, err);
    if (p->o->image_inside)
        rc = put_inside(p, image, err);
    if (rc == 0 && p->o->image_beside)
        rc = put_beside(p, image, err);
    return rc;
}

/* Has skopeo make a layout of what is no layout yet; it is removed again. */
static int fetch_layout(struct tw_pack *p, const char *reference, struct named *n,
                        struct twin_error *err)
{
    struct tw_image image = {.root = -1};
    char *layout = tw_printf("%s.fetched", p->w.dir);
    int rc = layout ? tw_image_fetch(reference, layout, err) : tw_no_memory(err, "for a package");
    rc = rc ? rc : tw_image_open(layout, NULL, NULL, &image, err);
    rc = rc ? rc : take_layout(p, &image, n, err);
    tw_image_close(&image);
    struct stat st;
    if (layout && lstat(layout, &st) == 0)
        tw_remove_tree(layout, NULL, NULL);
    tw_free(layout);
    return rc;
}

/* An archive, or the image of an engine here, as it was before skopeo wrote it anew for a layout:
 * a run that was made in it knows it by that id. */
static int ask_local(const char *reference, struct named *n, struct twin_error *err)
{
    char *text = NULL, digest[TW_DIGEST_ROOM];
    size_t bytes = 0;
    int rc = tw_image_ask(reference, &text, &bytes, digest, err);
    rc = rc ? rc : tw_image_manifest_of(text, bytes, n->served_manifest, n->served_id, err);
    n->docker_form = rc == 0 && tw_image_is_docker_form(text, bytes);
    tw_free(text);
    return rc;
}

/* recorded: does the run's record name one, too? */
static int find_image(struct tw_pack *p, bool recorded, struct named *n, struct twin_error *err)
{
    const char *reference = p->o->image;
    struct tw_image image = {.root = -1};
    if (tw_starts(reference, "oci:")) {
        int rc = tw_image_open_reference(reference, NULL, &image, err);
        rc = rc ? rc : take_layout(p, &image, n, err);
        tw_image_close(&image);
        return rc;
    }
    if (tw_image_is_local(reference)) {
        const int asked = recorded ? ask_local(reference, n, err) : 0;
        return asked ? asked : fetch_layout(p, reference, n, err);
    }
    int rc = ask_registry(reference, n, err);
    if (rc || (!p->o->image_inside && !p->o->image_beside))
        return rc;
    /* by the digest that was asked for: the tag may move between the two */
    char *exact = tw_printf("%s@%s", n->reference, n->digest);
    rc = exact ? fetch_layout(p, exact, n, err) : tw_no_memory(err, "for a package");
    tw_free(exact);
    return rc;
}

/* ---- is it the image of the run? */

enum moved { STAYED, MOVED, MOVED_UNKNOWN };

/* Has the registry a manifest of this digest, and is it another image than the tag's? The same
 * configuration is the same image; the same layers under another one may be. */
static enum moved ask_for_recorded(const struct named *n, const char *recorded)
{
    char *one = tw_printf("%s@%s", n->reference, recorded), *text = NULL;
    char digest[TW_DIGEST_ROOM], manifest[TW_DIGEST_ROOM], id[TW_DIGEST_ROOM] = "";
    size_t bytes = 0;
    enum moved m = MOVED_UNKNOWN;
    if (one && tw_image_ask(one, &text, &bytes, digest, NULL) == 0 &&
        tw_image_manifest_of(text, bytes, manifest, id, NULL) == 0) {
        json_t *layers = layers_of(text, bytes);
        if (strcmp(id, n->served_id) == 0 || strcmp(manifest, n->served_manifest) == 0)
            m = STAYED;
        else if (json_array_size(layers) && !json_equal(layers, n->layers))
            m = MOVED;
        json_decref(layers);
    }
    tw_free(text);
    tw_free(one);
    return m;
}

/*
 * The run's record names one digest, of whatever form its engine had the image in: as the registry
 * served it, or, of docker's form, written anew in OCI's. So only what is none of all that are
 * known here is another image, and of docker's form not even that, unless the registry has both.
 */
static enum moved has_moved(const struct named *n, const char *recorded)
{
    const char *const known[] = {n->digest, n->manifest, n->id, n->served_manifest, n->served_id};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(recorded, known[i]) == 0)
            return STAYED;
    if (!n->docker_form)
        return MOVED;
    return *n->reference ? ask_for_recorded(n, recorded) : MOVED_UNKNOWN;
}

/* ---- the area */

static const char *layout_word(const struct twin_pack_options *o)
{
    if (o->image_inside)
        return "inside";
    return o->image_beside ? "beside" : "elsewhere";
}

/* Names what is missing, or does not fit. recorded: "" where the run's record names no image. */
static void say_missing(struct tw_pack *p, json_t *area, const struct named *n,
                        const char *recorded, enum moved moved)
{
    if (moved == MOVED_UNKNOWN && !*n->reference)
        tw_pk_missing(
            &p->failed, area,
            "the image: %s was named, an image in docker's form, and the run's record says "
            "that it was made in %s: the same image in another form, or another image",
            n->digest, recorded);
    else if (moved == MOVED_UNKNOWN)
        tw_pk_missing(
            &p->failed, area,
            "the image: %s is %s in docker's form, and the run's record says that it was made in "
            "%s: the same image in another form, or another image%s",
            n->reference, n->digest, recorded,
            p->o->image_inside || p->o->image_beside
                ? ""
                : "; --image-inside or --image-beside make OCI's form of it, which may tell");
    else if (moved == MOVED && *n->tag)
        tw_pk_missing(
            &p->failed, area,
            "the image: %s:%s names %s now, and the run was made in %s: the tag has moved "
            "since; name the image by its digest",
            n->reference, n->tag, n->digest, recorded);
    else if (moved == MOVED)
        tw_pk_missing(&p->failed, area,
                      "the image: %s was named, and the run's record says that it was made in %s",
                      n->digest, recorded);
    if (!*n->reference && !p->o->image_inside && !p->o->image_beside)
        tw_pk_missing(&p->failed, area,
                      "the image %s: it came from no registry, so nobody else can fetch it: pack "
                      "it, too (--image-inside), or hand it on (--image-beside)",
                      n->id);
}

int tw_pack_image(struct tw_pack *p, json_t *area, struct twin_error *err)
{
    struct named n = {.bytes = 0};
    char recorded[TW_DIGEST_ROOM] = "";
    const bool says = tw_pack_recorded_image(p->provenance, recorded);
    if (!p->o || !p->o->image) {
        /* what the record says is kept where nobody says more */
        if (says)
            tw_pk_put(&p->failed, area, "image",
                      json_pack("{s:n, s:s, s:s}", "reference", "recorded", recorded, "layout",
                                "elsewhere"));
        return 0;
    }
    int rc = find_image(p, says, &n, err);
    if (rc) {
        json_decref(n.layers);
        return rc;
    }
    const enum moved moved = says ? has_moved(&n, recorded) : STAYED;
    tw_pk_put(&p->failed, area, "image",
              json_pack("{s:o, s:o, s:s, s:s, s:s, s:o, s:I, s:s, s:o, s:o}", "reference",
                        *n.reference ? tw_pk_printable(n.reference) : json_null(), "tag",
                        *n.tag ? tw_pk_printable(n.tag) : json_null(), "digest", n.digest,
                        "manifest", n.manifest, "id", n.id, "platform",
                        *n.platform ? json_string(n.platform) : json_null(), "bytes",
                        (json_int_t)n.bytes, "layout", layout_word(p->o), "recorded",
                        says ? json_string(recorded) : json_null(), "moved",
                        moved == MOVED_UNKNOWN ? json_null() : json_boolean(moved == MOVED)));
    say_missing(p, area, &n, recorded, moved);
    json_decref(n.layers);
    return 0;
}
