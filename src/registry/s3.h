/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_REGISTRY_S3_H
#define TW_REGISTRY_S3_H
/*
 * Signed requests to an object store that speaks S3 (AWS Signature Version 4). What they are for is
 * store_s3.c's. Each request carries the SHA-256 of what it sends, which the store checks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

struct tw_s3;

/*
 * spec: s3://BUCKET or s3://BUCKET/PREFIX. From the environment: AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION (or AWS_DEFAULT_REGION; else us-east-1),
 * AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (of other stores than Amazon's), AWS_CA_BUNDLE.
 * TWIN_EINVAL: one that is needed is missing. Needs tw_s3_close.
 */
int tw_s3_open(const char *spec, struct tw_s3 **out, struct twin_error *err);
void tw_s3_close(struct tw_s3 *s);

/* One request, and what came of it. */
struct tw_s3_call {
    const char *method;
    const char *name; /* of the object, below the prefix; NULL: the bucket */
    const char
        *query; /* "a=b&c=", names in the order of bytes, values by tw_http_encode; NULL: none */
    const void *data;
    size_t bytes;
    bool if_new; /* only if there is no such object: else status 412 */
    /* takes the answer of a success, piece by piece; NULL: it goes into `answer` */
    bool (*take)(void *to, const char *data, size_t n);
    void *to;
    /* out */
    long status;
    char *answer; /* NUL-terminated, tw_s3_call_free */
    size_t answer_bytes;
    char etag[160];  /* "" without */
    uint64_t length; /* what the answer's head says of the object's length */
    uint64_t taken;  /* bytes that `take` was given */
};
/* Makes it. A trouble that may pass (no answer, status 500 and above) is tried again, twice, unless
 * something was taken. 0 with any status below 500; TWIN_EIO: no answer, or status 500 and above.
 */
int tw_s3_do(struct tw_s3 *s, struct tw_s3_call *call, struct twin_error *err);
/* The error of a status that is no success, in the store's words: TWIN_ENOENT of 404, else
 * TWIN_EIO. */
int tw_s3_refused(const struct tw_s3_call *call, const char *shown, struct twin_error *err);
void tw_s3_call_free(struct tw_s3_call *call);

/* The text between <name> and </name> behind *at, at most room - 1 bytes of it; *at moves behind.
 * False: there is none. Entities are left as they are. */
bool tw_s3_tag(const char **at, const char *name, char *out, size_t room);
const char *tw_s3_prefix(const struct tw_s3 *s); /* "" or "some/folder/" */
#endif
