/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that lie elsewhere, by skopeo (which knows registries, their logins and the archives of
 * docker). Nothing that it brings is believed: a manifest is digested here, a layout is read as any
 * other.
 */
#include "image.h"
#include "provenance_inside.h"
#include "sha256.h"

#include "base.h"

#include <stdio.h>
#include <string.h>

enum { ASK_S = 300, FETCH_S = 24 * 3600, MANIFEST_MAX = 8 << 20 };

bool tw_image_is_local(const char *reference)
{
    static const char *const ways[] = {
        "oci:", "oci-archive:", "docker-archive:", "docker-daemon:", "dir:", "containers-storage:"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (tw_starts(reference, ways[i]))
            return true;
    return false;
}

/* As skopeo wants it; malloc'ed. */
static char *full_reference(const char *reference)
{
    bool plain = !tw_image_is_local(reference) && !tw_starts(reference, "docker://");
    return tw_printf("%s%s", plain ? "docker://" : "", reference);
}

static int call(struct tw_ask *a, const char *reference, struct twin_error *err)
{
    if (tw_ask(a))
        return 0;
    if (a->missing)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "skopeo is not installed: it is needed for %s; make a layout "
                              "elsewhere (`skopeo copy %s oci:DIR`) and name that: oci:DIR",
                              reference, reference);
    return twin_error_set(err, TWIN_EIO, "%s: %s", reference,
                          *a->complaint ? a->complaint : "skopeo could not read it");
}

int tw_image_ask(const char *reference, char **text, size_t *n, char digest[TW_DIGEST_ROOM],
                 struct twin_error *err)
{
    char *full = full_reference(reference), hex[65];
    const char *const argv[] = {"skopeo", "inspect", "--raw", full, NULL};
    struct tw_ask a = {.argv = argv, .dir = "/", .limit_s = ASK_S, .cap = MANIFEST_MAX};
    int rc = full ? call(&a, full, err) : tw_no_memory(err, "asking for an image");
    *text = a.out;
    *n = a.bytes;
    if (rc == 0 && !tw_sha256_of(*text, *n, hex))
        rc = tw_no_memory(err, "asking for an image");
    if (rc == 0)
        snprintf(digest, TW_DIGEST_ROOM, "sha256:%s", hex);
    /* a reference by digest is kept to by skopeo; it costs nothing to look */
    const char *at = strchr(reference, '@');
    if (rc == 0 && at && strcmp(at + 1, digest) != 0)
        rc = twin_error_set(err, TWIN_EFORMAT, "%s: the registry gave %s", reference, digest);
    if (rc) {
        tw_free(*text);
        *text = NULL;
    }
    tw_free(full);
    return rc;
}

int tw_image_fetch(const char *reference, const char *layout, struct twin_error *err)
{
    char *full = full_reference(reference), *to = tw_printf("oci:%s", layout);
    const char *const argv[] = {"skopeo", "copy", "--quiet", full, to, NULL};
    struct tw_ask a = {.argv = argv, .dir = "/", .limit_s = FETCH_S, .cap = 1 << 20};
    int rc = full && to ? call(&a, full, err) : tw_no_memory(err, "fetching an image");
    tw_free(a.out);
    tw_free(full);
    tw_free(to);
    return rc;
}
