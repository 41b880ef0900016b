/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_DISTRIBUTION_H
#define TW_REGISTRY_DISTRIBUTION_H
/*
 * Requests to a container registry, by the OCI distribution specification 1.1. What they are for
 * is store_oci.c's. Certificates are verified; plain HTTP goes to this machine only.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct tw_dist;
struct tw_http_connection;

enum { TW_DIST_URL_BYTES = 4096 };

/*
 * spec: oci://HOST[:PORT]/NAME by HTTPS, or oci+http://HOST[:PORT]/NAME where HOST is this machine
 * (localhost, 127.x.x.x, [::1]). TWIN_EINVAL: another. Asks nothing yet. Needs tw_dist_close.
 * Environment: TWINRUN_OCI_CA, a file of certificates in place of the system's; credentials, as
 * tw_dist_credentials finds them.
 */
int tw_dist_open(const char *spec, struct tw_dist **out, struct twin_error *err);
void tw_dist_close(struct tw_dist *d); /* NULL is allowed */

/* One request, and what came of it. Texts are borrowed. */
struct tw_dist_call {
    const char *method;
    const char *path; /* below /v2/NAME/: "blobs/sha256:..." */
    const char *url;  /* in place of path: where an upload goes on, as tw_dist_location gave it */
    const char *type, *accept, *range; /* Content-Type, Accept, Content-Range; NULL: none */
    const void *data;
    size_t bytes;
    bool once; /* is not tried again, but for a 429: then nothing was done */
    /* takes the answer of a success, piece by piece; NULL: it goes into `answer` */
    bool (*take)(void *to, const char *data, size_t n);
    void *to;
    /* out */
    long status;
    char *answer; /* NUL-terminated, tw_dist_call_free */
    size_t answer_bytes;
    char location[TW_DIST_URL_BYTES], link[TW_DIST_URL_BYTES]; /* "" without */
    char digest[80];                                           /* Docker-Content-Digest */
    bool cut;             /* Location or Link was longer than its room */
    char challenge[1024]; /* WWW-Authenticate */
    uint64_t length;      /* of Content-Length */
    uint64_t later_s;     /* of Retry-After; 0: none */
    uint64_t taken;       /* bytes that `take` was given */
};
/* Makes it. Status 401 is answered with credentials, and a redirected GET is followed once, without
 * them. A trouble that may pass (no answer, 429, 500 and above) is tried again, twice, unless
 * something was taken; after as many seconds as the registry asks for, and not if they are more
 * than
 * 60. 0 with any other status; TWIN_EIO: no answer, 429, or 500 and above. */
int tw_dist_do(struct tw_dist *d, struct tw_dist_call *call, struct twin_error *err);
/* The error of a status that is no success, in the registry's words: TWIN_ENOENT of 404, else
 * TWIN_EIO. */
int tw_dist_refused(const struct tw_dist_call *call, const char *shown, struct twin_error *err);
void tw_dist_call_free(struct tw_dist_call *call);

/* Where a list goes on: the link of the answer whose own rel is "next", as a whole URL (tw_free);
 * NULL with 0: it ends here. TWIN_EFORMAT as of tw_dist_location. */
int tw_dist_next_page(const struct tw_dist *d, const struct tw_dist_call *call, char **url,
                      struct twin_error *err);
/* Did the Location and the Link of the answer fit? Else TWIN_EFORMAT. */
int tw_dist_whole(const struct tw_dist_call *call, struct twin_error *err);
/* A Location of an answer as a whole URL (tw_free). TWIN_EFORMAT: it is none, or leads to
 * where nothing may be sent (plain HTTP to another machine). */
int tw_dist_location(const struct tw_dist *d, const char *given, char **url,
                     struct twin_error *err);

/* ---- inside (distribution_auth.c) */

/* "USER:PASSWORD" for a host (tw_free), from TWINRUN_OCI_USERNAME and TWINRUN_OCI_PASSWORD, else
 * from the file of docker, podman or skopeo: $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json,
 * $HOME/.docker/config.json, $XDG_RUNTIME_DIR/containers/auth.json. NULL with 0: there are none;
 * *why then says where was looked (tw_free). */
int tw_dist_credentials(const char *host, char **out, char **why, struct twin_error *err);
/* The value of an Authorization header for this challenge (tw_free). kept: see http.h. */
int tw_dist_authorize(const char *host, const char *ca, bool plain, const char *challenge,
                      char **out, struct twin_error *err);
#endif
