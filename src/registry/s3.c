/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signature Version 4, made here: libcurl's own leaves out what S3 asks for (the digest of the
 * payload in a header, a query in order, strict percent-encoding).
 */
#include "s3.h"

#include "base.h"
#include "sha256.h"

#include "src/net/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMEOUT_S = 60, HEADERS = 10 };
static const char SERVER[] = "an S3 store";

struct tw_s3 {
    char *prefix, *base, *path; /* "https://host:port"; "" or "/bucket" before each object */
    char *host, *region, *key, *secret, *token, *ca;
    struct tw_http_connection *connection;
};

void tw_s3_close(struct tw_s3 *s)
{
    if (!s)
        return;
    tw_http_close(s->connection);
    tw_free(s->prefix);
    tw_free(s->base);
    tw_free(s->path);
    tw_free(s->host);
    tw_free(s->region);
    tw_free(s->key);
    tw_free(s->secret);
    tw_free(s->token);
    tw_free(s->ca);
    tw_free(s);
}

const char *tw_s3_prefix(const struct tw_s3 *s)
{
    return s->prefix;
}

/* ---- the place, and who asks */

static const char *variable(const char *name, const char *other)
{
    const char *v = getenv(name);
    if (!(v && *v) && other)
        v = getenv(other);
    return v && *v ? v : NULL;
}

static bool bucket_ok(const char *b, size_t n)
{
    if (n < 3 || n > 63 || b[0] == '.' || b[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((b[i] >= 'a' && b[i] <= 'z') || (b[i] >= '0' && b[i] <= '9') || b[i] == '.' ||
              b[i] == '-'))
            return false;
    return true;
}

/* An endpoint of the user's gets the bucket in the path; Amazon's in the host, but for names with
 * dots, whose certificates would not fit. */
static int set_place(struct tw_s3 *s, const char *bucket, size_t n, struct twin_error *err)
{
    const char *endpoint = variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    const bool in_path = endpoint || memchr(bucket, '.', n);
    if (endpoint) {
        const char *host = strstr(endpoint, "://");
        size_t bytes = strlen(endpoint);
        while (bytes > 0 && endpoint[bytes - 1] == '/')
            bytes--;
        if (!host ||
            (strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0) ||
            memchr(host + 3, '/', bytes - (size_t)(host + 3 - endpoint)))
            return twin_error_set(err, TWIN_EINVAL,
                                  "AWS_ENDPOINT_URL: expected http://HOST:PORT or "
                                  "https://HOST:PORT, found \"%.200s\"",
                                  endpoint);
        s->base = tw_strndup(endpoint, bytes);
    } else {
        s->base = in_path
                      ? tw_printf("https://s3.%s.amazonaws.com", s->region)
                      : tw_printf("https://%.*s.s3.%s.amazonaws.com", (int)n, bucket, s->region);
    }
    s->path = in_path ? tw_printf("/%.*s", (int)n, bucket) : tw_strdup("");
    s->host = s->base ? tw_strdup(strstr(s->base, "://") + 3) : NULL;
    return s->base && s->path && s->host ? 0 : tw_no_memory(err, "for an object store");
}

/* Without slashes at its ends; then with one behind it. */
static char *clean_prefix(const char *slash)
{
    size_t n = slash ? strlen(slash) : 0;
    while (n > 0 && slash[n - 1] == '/')
        n--;
    while (n > 0 && *slash == '/') {
        slash++;
        n--;
    }
    return n ? tw_printf("%.*s/", (int)n, slash) : tw_strdup("");
}

int tw_s3_open(const char *spec, struct tw_s3 **out, struct twin_error *err)
{
    const char *bucket = spec + strlen("s3://"), *slash = strchr(bucket, '/');
    const size_t n = slash ? (size_t)(slash - bucket) : strlen(bucket);
    const char *key = variable("AWS_ACCESS_KEY_ID", NULL);
    const char *secret = variable("AWS_SECRET_ACCESS_KEY", NULL);
    const char *region = variable("AWS_REGION", "AWS_DEFAULT_REGION");
    const char *token = variable("AWS_SESSION_TOKEN", NULL), *ca = variable("AWS_CA_BUNDLE", NULL);
    if (!bucket_ok(bucket, n))
        return twin_error_set(err, TWIN_EINVAL,
                              "%.200s: expected s3://BUCKET/PREFIX, a bucket of 3 to 63 small "
                              "letters, digits, dots and hyphens",
                              spec);
    if (!key || !secret)
        return twin_error_set(err, TWIN_EINVAL,
                              "%s: expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
                              "environment",
                              spec);
    int rc = tw_http_ready(SERVER, err);
    struct tw_s3 *s = rc ? NULL : tw_calloc(1, sizeof *s);
    if (!s)
        return rc ? rc : tw_no_memory(err, "for an object store");
    s->region = tw_strdup(region ? region : "us-east-1");
    s->key = tw_strdup(key);
    s->secret = tw_strdup(secret);
    s->token = token ? tw_strdup(token) : NULL;
    s->ca = ca ? tw_strdup(ca) : NULL;
    s->prefix = clean_prefix(slash);
    if (!s->region || !s->key || !s->secret || (token && !s->token) || (ca && !s->ca) || !s->prefix)
        rc = tw_no_memory(err, "for an object store");
    rc = rc ? rc : set_place(s, bucket, n, err);
    if (rc != 0)
        tw_s3_close(s);
    else
        *out = s;
    return rc;
}

/* ---- the signature */

/* HMAC-SHA256. False: no memory. */
static bool hmac(const void *key, size_t key_bytes, const void *text, size_t n,
                 unsigned char out[32])
{
    struct tw_sha256 sum = {0};
    unsigned char pad[64] = {0}, inner[32];
    bool ok = true;
    if (key_bytes > sizeof pad) {
        ok = tw_sha256_begin(&sum);
        if (ok)
            tw_sha256_add(&sum, key, key_bytes);
        ok = ok && tw_sha256_end(&sum, pad);
    } else {
        memcpy(pad, key, key_bytes);
    }
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36;
    ok = ok && tw_sha256_begin(&sum);
    if (ok) {
        tw_sha256_add(&sum, pad, sizeof pad);
        tw_sha256_add(&sum, text, n);
    }
    ok = ok && tw_sha256_end(&sum, inner);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    ok = ok && tw_sha256_begin(&sum);
    if (ok) {
        tw_sha256_add(&sum, pad, sizeof pad);
        tw_sha256_add(&sum, inner, sizeof inner);
    }
    ok = ok && tw_sha256_end(&sum, out);
    tw_sha256_free(&sum);
    return ok;
}

/* What a request is signed with. */
struct signing {
    char date[9], stamp[17], payload[65]; /* 20261126, 20261126T112000Z, digest of what is sent */
    const char *url_path, *query;
};

/* The signature of the request, in hex. False: no memory. */
static bool signature_of(const struct tw_s3 *s, const struct tw_s3_call *call,
                         const struct signing *g, char out[65])
{
    struct tw_buf b = {0};
    char digest[65];
    unsigned char key[32];
    tw_buf_printf(&b, "%s\n%s\n%s\nhost:%s\n%sx-amz-content-sha256:%s\nx-amz-date:%s\n",
                  call->method, g->url_path, g->query, s->host,
                  call->if_new ? "if-none-match:*\n" : "", g->payload, g->stamp);
    if (s->token)
        tw_buf_printf(&b, "x-amz-security-token:%s\n", s->token);
    tw_buf_printf(&b, "\nhost;%sx-amz-content-sha256;x-amz-date%s\n%s",
                  call->if_new ? "if-none-match;" : "", s->token ? ";x-amz-security-token" : "",
                  g->payload);
    bool ok = !b.failed && tw_sha256_of(b.data, b.len, digest);
    b.len = 0;
    tw_buf_printf(&b, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", g->stamp, g->date,
                  s->region, digest);
    char *first = tw_printf("AWS4%s", s->secret);
    ok = ok && first && hmac(first, strlen(first), g->date, strlen(g->date), key) &&
         hmac(key, sizeof key, s->region, strlen(s->region), key) &&
         hmac(key, sizeof key, "s3", 2, key) &&
         hmac(key, sizeof key, "aws4_request", strlen("aws4_request"), key) && !b.failed &&
         hmac(key, sizeof key, b.data, b.len, key);
    if (ok)
        tw_hex(key, sizeof key, out);
    tw_free(first);
    tw_buf_free(&b);
    return ok;
}

/* ---- one request */

/* Counts what the caller's function takes. */
static bool take_piece(void *to, const char *data, size_t n)
{
    struct tw_s3_call *call = to;
    call->taken += n;
    return call->take(call->to, data, n);
}

static void take_head(void *to, const char *line, size_t n)
{
    struct tw_s3_call *call = to;
    if (!tw_http_given(line, n, "etag", call->etag, sizeof call->etag))
        tw_http_given_number(line, n, "content-length", UINT64_MAX, &call->length);
}

/* The request as it is now: a signature holds for some minutes. */
static int ask_once(struct tw_s3 *s, struct tw_s3_call *call, const struct signing *given,
                    struct twin_error *err)
{
    struct signing g = *given;
    char sig[65], *text[HEADERS] = {NULL};
    const time_t now = (time_t)(tw_realtime_ns() / 1000000000);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(g.date, sizeof g.date, "%Y%m%d", &tm);
    strftime(g.stamp, sizeof g.stamp, "%Y%m%dT%H%M%SZ", &tm);
    size_t n = 0;
    if (!signature_of(s, call, &g, sig))
        return tw_no_memory(err, "for a request to an object store");
    char *url = tw_printf("%s%s%s%s", s->base, g.url_path, *g.query ? "?" : "", g.query);
    text[n++] = tw_printf("Host: %s", s->host);
    text[n++] = tw_printf("x-amz-content-sha256: %s", g.payload);
    text[n++] = tw_printf("x-amz-date: %s", g.stamp);
    text[n++] = tw_printf("Authorization: AWS4-HMAC-SHA256 Credential=%s/%s/%s/s3/aws4_request, "
                          "SignedHeaders=host;%sx-amz-content-sha256;x-amz-date%s, Signature=%s",
                          s->key, g.date, s->region, call->if_new ? "if-none-match;" : "",
                          s->token ? ";x-amz-security-token" : "", sig);
    text[n++] = tw_strdup("Content-Type:");
    text[n++] = tw_strdup("Expect:");
    if (s->token)
        text[n++] = tw_printf("x-amz-security-token: %s", s->token);
    if (call->if_new)
        text[n++] = tw_strdup("If-None-Match: *");
    bool whole = url != NULL;
    for (size_t i = 0; i < n; i++)
        whole &= text[i] != NULL;
    const struct tw_http_request q = {.url = url,
                                      .method = call->method,
                                      .data = call->data,
                                      .data_bytes = call->bytes,
                                      .headers = (const char *const *)text,
                                      .ca_file = s->ca,
                                      .timeout_s = TIMEOUT_S,
                                      .server = SERVER,
                                      .take = call->take ? take_piece : NULL,
                                      .head = take_head,
                                      .to = call,
                                      .kept = &s->connection};
    int rc = whole ? tw_http(&q, &call->status, &call->answer, &call->answer_bytes, err)
                   : tw_no_memory(err, "for a request to an object store");
    for (size_t i = 0; i < n; i++)
        tw_free(text[i]);
    tw_free(url);
    return rc;
}

/* One request of tw_s3_do. */
struct asked {
    struct tw_s3 *s;
    struct tw_s3_call *call;
    struct signing signing; /* without date and time */
};

static int attempt(void *user, struct tw_http_try *out, struct twin_error *err)
{
    const struct asked *a = user;
    tw_s3_call_free(a->call);
    int rc = ask_once(a->s, a->call, &a->signing, err);
    if (rc == 0 && a->call->status >= 500)
        rc = tw_s3_refused(a->call, a->call->name ? a->call->name : "the bucket", err);
    out->passes = rc == TWIN_EIO && a->call->taken == 0;
    return rc;
}

int tw_s3_do(struct tw_s3 *s, struct tw_s3_call *call, struct twin_error *err)
{
    struct asked a = {.s = s, .call = call, .signing.query = call->query ? call->query : ""};
    struct tw_buf path = {0};
    const char *where = call->name ? s->prefix : "";
    tw_http_encode(&path, s->path, true);
    tw_buf_puts(&path, "/");
    tw_http_encode(&path, where, true);
    tw_http_encode(&path, call->name ? call->name : "", true);
    a.signing.url_path = path.data;
    int rc = !path.failed &&
                     tw_sha256_of(call->data ? call->data : "", call->bytes, a.signing.payload)
                 ? tw_http_persist(attempt, &a, err)
                 : tw_no_memory(err, "for a request to an object store");
    tw_buf_free(&path);
    return rc;
}

void tw_s3_call_free(struct tw_s3_call *call)
{
    tw_free(call->answer);
    call->answer = NULL;
    call->answer_bytes = 0;
    call->etag[0] = '\0';
    call->length = 0;
}

/* ---- answers */

bool tw_s3_tag(const char **at, const char *name, char *out, size_t room)
{
    char open[48], close[48];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *begin = strstr(*at, open);
    const char *end = begin ? strstr(begin, close) : NULL;
    if (!end)
        return false;
    begin += strlen(open);
    snprintf(out, room, "%.*s", (int)(end - begin), begin);
    *at = end + strlen(close);
    return true;
}

int tw_s3_refused(const struct tw_s3_call *call, const char *shown, struct twin_error *err)
{
    char code[80] = "", message[240] = "";
    const char *at = call->answer ? call->answer : "";
    if (!tw_s3_tag(&at, "Code", code, sizeof code))
        snprintf(code, sizeof code, "no reason given");
    at = call->answer ? call->answer : "";
    tw_s3_tag(&at, "Message", message, sizeof message);
    if (call->status == 404)
        return twin_error_set(err, TWIN_ENOENT, "%s: the store has no such thing (%s)", shown,
                              code);
    return twin_error_set(err, TWIN_EIO, "%s: the store answers %ld, %s%s%s%s", shown, call->status,
                          code, *message ? ": " : "", message,
                          call->status == 403
                              ? "; is it the right key, and may it do that? (AWS_ACCESS_KEY_ID)"
                              : "");
}
