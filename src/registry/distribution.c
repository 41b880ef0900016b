/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a container registry: where it goes, with whose name, and what to do when the
 * answer is "later", "who are you" or "elsewhere". */
#include "distribution.h"

#include "base.h"
#include "json_load.h"

#include "src/net/http.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TIMEOUT_S = 60, PATIENCE_S = 60, HEADERS = 8, NAME_BYTES = 255 };
static const char SERVER[] = "a container registry";

struct tw_dist {
    char *base, *host, *name; /* "https://host:port", "host:port", "team/models" */
    char *ca, *authorization; /* NULL: none */
    bool plain;               /* by HTTP, to this machine */
    struct tw_http_connection *connection;
};

void tw_dist_close(struct tw_dist *d)
{
    if (!d)
        return;
    tw_http_close(d->connection);
    tw_free(d->base);
    tw_free(d->host);
    tw_free(d->name);
    tw_free(d->ca);
    tw_free(d->authorization);
    tw_free(d);
}

/* ---- the place */

/* One part of a repository's name: small letters and digits, with . _ __ or - between them. */
static bool part_ok(const char *p, size_t n)
{
    bool letter = false;
    for (size_t i = 0; i < n; i++) {
        const bool now = (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= '0' && p[i] <= '9');
        const bool twice = i > 1 && p[i] == '_' && p[i - 1] == '_' && p[i - 2] != '_';
        if (!now && (!strchr("._-", p[i]) || (!letter && !twice && p[i] != '-') || i == 0))
            return false;
        letter = now;
    }
    return letter;
}

static bool name_ok(const char *name)
{
    if (strlen(name) > NAME_BYTES)
        return false;
    for (;;) {
        const size_t n = strcspn(name, "/");
        if (!part_ok(name, n))
            return false;
        if (!name[n])
            return true;
        name += n + 1;
    }
}

static bool host_ok(const char *host, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((host[i] >= 'a' && host[i] <= 'z') || (host[i] >= 'A' && host[i] <= 'Z') ||
              (host[i] >= '0' && host[i] <= '9') || strchr(".-:[]", host[i])))
            return false;
    return n > 0;
}

int tw_dist_open(const char *spec, struct tw_dist **out, struct twin_error *err)
{
    const bool plain = tw_starts(spec, "oci+http://");
    const char *host = spec + strlen(plain ? "oci+http://" : "oci://");
    const char *slash = strchr(host, '/'), *ca = getenv("TWINRUN_OCI_CA");
    const size_t n = slash ? (size_t)(slash - host) : 0;
    if (!slash || !host_ok(host, n) || !name_ok(slash + 1))
        return twin_error_set(err, TWIN_EINVAL,
                              "%.200s: expected oci://HOST:PORT/NAME, a name of small letters, "
                              "digits and . _ - between them, in parts with / between them",
                              spec);
    int rc = tw_http_ready(SERVER, err);
    struct tw_dist *d = rc ? NULL : tw_calloc(1, sizeof *d);
    if (!d)
        return rc ? rc : tw_no_memory(err, "for a container registry");
    d->plain = plain;
    d->host = tw_strndup(host, n);
    d->base = tw_printf("%s://%.*s", plain ? "http" : "https", (int)n, host);
    d->name = tw_strdup(slash + 1);
    d->ca = ca && *ca ? tw_strdup(ca) : NULL;
    if (!d->host || !d->base || !d->name || (ca && *ca && !d->ca))
        rc = tw_no_memory(err, "for a container registry");
    else if (plain && !tw_http_is_loopback(d->host))
        rc = twin_error_set(err, TWIN_EINVAL,
                            "%.200s: plain HTTP is for this machine only (127.0.0.1, localhost, "
                            "[::1]): expected oci://, which goes by HTTPS",
                            spec);
    if (rc != 0)
        tw_dist_close(d);
    else
        *out = d;
    return rc;
}

/* Does the URL go to the registry itself? */
static bool is_own(const struct tw_dist *d, const char *url)
{
    const size_t n = strlen(d->base);
    return strncmp(url, d->base, n) == 0 && (url[n] == '/' || url[n] == '\0');
}

int tw_dist_location(const struct tw_dist *d, const char *given, char **url, struct twin_error *err)
{
    const bool whole = tw_starts(given, "https://") || tw_starts(given, "http://");
    bool ok = whole || (*given == '/' && given[1] != '/');
    for (const char *c = given; *c; c++)
        ok &= *c > ' ' && *c <= '~';
    if (ok && tw_starts(given, "http://"))
        ok = d->plain && tw_http_is_loopback(given + strlen("http://"));
    if (!ok)
        return twin_error_set(err, TWIN_EFORMAT,
                              "the container registry leads to \"%.200s\": expected a path, or a "
                              "place by https",
                              given);
    *url = whole ? tw_strdup(given) : tw_printf("%s%s", d->base, given);
    return *url ? 0 : tw_no_memory(err, "for a container registry");
}

int tw_dist_whole(const struct tw_dist_call *call, struct twin_error *err)
{
    return call->cut ? twin_error_set(err, TWIN_EFORMAT,
                                      "the container registry leads to a place of more than %d "
                                      "bytes",
                                      TW_DIST_URL_BYTES - 1)
                     : 0;
}

/* Is "next" one of the words of this rel? */
static bool says_next(const char *words, size_t n)
{
    for (size_t at = 0, end; at < n; at = end + 1) {
        for (end = at; end < n && words[end] != ' ';)
            end++;
        if (end - at == 4 && strncasecmp(words + at, "next", 4) == 0)
            return true;
    }
    return false;
}

/* The parameters of one link, `; title="a,b"; rel="next"`, up to its comma. Where they end. */
static const char *read_parameters(const char *at, bool *next)
{
    while (*at && *at != ',') {
        at += strspn(at, "; \t");
        const char *name = at;
        at += strcspn(at, "=;,");
        if (*at != '=')
            continue;
        const bool is_rel = at - name == 3 && strncasecmp(name, "rel", 3) == 0;
        const bool quoted = *++at == '"';
        at += quoted;
        const size_t n = strcspn(at, quoted ? "\"" : ";, \t");
        *next |= is_rel && says_next(at, n);
        at += n;
        at += quoted && *at;
    }
    return at;
}

int tw_dist_next_page(const struct tw_dist *d, const struct tw_dist_call *call, char **url,
                      struct twin_error *err)
{
    int rc = tw_dist_whole(call, err);
    *url = NULL;
    for (const char *at = call->link; *at && rc == 0 && !*url;) {
        at += strspn(at, ", \t");
        const char *end = *at == '<' ? strchr(at, '>') : NULL;
        if (!end && *at)
            return twin_error_set(err, TWIN_EFORMAT,
                                  "the container registry links to \"%.200s\": expected <PLACE>; "
                                  "rel=\"next\"",
                                  at);
        bool next = false;
        const char *begin = at;
        at = end ? read_parameters(end + 1, &next) : at;
        char *given = next ? tw_strndup(begin + 1, (size_t)(end - begin - 1)) : NULL;
        if (next)
            rc = given ? tw_dist_location(d, given, url, err) : tw_no_memory(err, "for a list");
        tw_free(given);
    }
    return rc;
}

/* ---- one request */

static bool take_piece(void *to, const char *data, size_t n)
{
    struct tw_dist_call *call = to;
    call->taken += n;
    return call->take(call->to, data, n);
}

/* A second Link goes on behind the first; of all others the first counts. */
static void take_head(void *to, const char *line, size_t n)
{
    struct tw_dist_call *call = to;
    const struct {
        const char *name;
        char *out;
        size_t room;
    } wanted[] = {{"location", call->location, sizeof call->location},
                  {"link", call->link, sizeof call->link},
                  {"docker-content-digest", call->digest, sizeof call->digest},
                  {"www-authenticate", call->challenge, sizeof call->challenge}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        size_t bytes = 0;
        const char *value = tw_http_value(line, n, wanted[i].name, &bytes);
        const size_t had = strlen(wanted[i].out), room = wanted[i].room - had;
        if (!value || (had && wanted[i].out != call->link))
            continue;
        const int length = snprintf(wanted[i].out + had, room, "%s%.*s", had ? ", " : "",
                                    (int)bytes, value);
        call->cut |= wanted[i].room == TW_DIST_URL_BYTES && (size_t)length >= room;
    }
    tw_http_given_number(line, n, "content-length", UINT64_MAX, &call->length);
    /* as seconds; as a date it is left to our own patience */
    tw_http_given_number(line, n, "retry-after", UINT32_MAX, &call->later_s);
}

void tw_dist_call_free(struct tw_dist_call *call)
{
    tw_free(call->answer);
    call->answer = NULL;
    call->answer_bytes = 0;
    call->location[0] = call->link[0] = call->digest[0] = call->challenge[0] = '\0';
    call->cut = false;
    call->later_s = 0;
    call->length = 0;
    call->status = 0;
}

/* The request to this URL, with our name only where that is the registry. */
static int ask_once(struct tw_dist *d, struct tw_dist_call *call, const char *url,
                    struct twin_error *err)
{
    char *text[HEADERS] = {NULL};
    size_t n = 0;
    tw_dist_call_free(call);
    text[n++] = call->type ? tw_printf("Content-Type: %s", call->type) : tw_strdup("Content-Type:");
    text[n++] = tw_strdup("Expect:");
    if (call->accept)
        text[n++] = tw_printf("Accept: %s", call->accept);
    if (call->range)
        text[n++] = tw_printf("Content-Range: %s", call->range);
    if (d->authorization && is_own(d, url))
        text[n++] = tw_strdup(d->authorization);
    bool whole = true;
    for (size_t i = 0; i < n; i++)
        whole &= text[i] != NULL;
    const struct tw_http_request q = {.url = url,
                                      .method = call->method,
                                      .data = call->data,
                                      .data_bytes = call->bytes,
                                      .headers = (const char *const *)text,
                                      .ca_file = d->ca,
                                      .timeout_s = TIMEOUT_S,
                                      .server = SERVER,
                                      .take = call->take ? take_piece : NULL,
                                      .head = take_head,
                                      .to = call,
                                      .kept = &d->connection};
    int rc = whole ? tw_http(&q, &call->status, &call->answer, &call->answer_bytes, err)
                   : tw_no_memory(err, "for a request to a container registry");
    for (size_t i = 0; i < n; i++)
        tw_free(text[i]);
    return rc;
}

/* As ask_once, with credentials where the registry asks for them. */
static int ask_as_somebody(struct tw_dist *d, struct tw_dist_call *call, const char *url,
                           struct twin_error *err)
{
    char *authorization = NULL;
    int rc = ask_once(d, call, url, err);
    if (rc != 0 || call->status != 401 || !is_own(d, url) || !*call->challenge)
        return rc;
    rc = tw_dist_authorize(d->host, d->ca, d->plain, call->challenge, &authorization, err);
    if (rc != 0)
        return rc;
    tw_free(d->authorization);
    d->authorization = authorization;
    return ask_once(d, call, url, err);
}

/* As that, and a GET or HEAD that is sent elsewhere goes there: contents often lie with another
 * server. */
static int ask_and_follow(struct tw_dist *d, struct tw_dist_call *call, const char *url,
                          struct twin_error *err)
{
    int rc = ask_as_somebody(d, call, url, err);
    const bool reads = strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0;
    if (rc != 0 || call->status / 100 != 3 || !reads || !*call->location)
        return rc;
    char *there = NULL;
    rc = tw_dist_whole(call, err);
    rc = rc ? rc : tw_dist_location(d, call->location, &there, err);
    rc = rc ? rc : ask_as_somebody(d, call, there, err);
    tw_free(there);
    return rc;
}

/* May it be asked again? What was sent once may have been done, but not where the registry says
 * that it has too much to do; and who is to come back in an hour is told so now. */
static bool may_again(const struct tw_dist_call *call, int rc)
{
    const bool busy = call->status == 429;
    return rc == TWIN_EIO && call->taken == 0 && (busy || !call->once) &&
           call->later_s <= PATIENCE_S;
}

/* One request of tw_dist_do. */
struct asked {
    struct tw_dist *d;
    struct tw_dist_call *call;
    const char *url;
};

static int attempt(void *user, struct tw_http_try *out, struct twin_error *err)
{
    const struct asked *a = user;
    struct tw_dist_call *call = a->call;
    int rc = ask_and_follow(a->d, call, a->url, err);
    if (rc == 0 && (call->status >= 500 || call->status == 429))
        rc = tw_dist_refused(call, call->path ? call->path : "an upload", err);
    out->passes = may_again(call, rc);
    out->later_s = call->later_s;
    return rc;
}

int tw_dist_do(struct tw_dist *d, struct tw_dist_call *call, struct twin_error *err)
{
    char *url = call->url ? tw_strdup(call->url)
                          : tw_printf("%s/v2/%s/%s", d->base, d->name, call->path);
    struct asked a = {.d = d, .call = call, .url = url};
    int rc = url ? tw_http_persist(attempt, &a, err)
                 : tw_no_memory(err, "for a request to a container registry");
    tw_free(url);
    return rc;
}

int tw_dist_refused(const struct tw_dist_call *call, const char *shown, struct twin_error *err)
{
    json_t *o = call->answer
                    ? tw_json_load(call->answer, call->answer_bytes, JSON_REJECT_DUPLICATES, NULL)
                    : NULL;
    const json_t *first = json_array_get(json_object_get(o, "errors"), 0);
    const char *code = json_string_value(json_object_get(first, "code"));
    const char *message = json_string_value(json_object_get(first, "message"));
    int rc = call->status == 404 ? TWIN_ENOENT : TWIN_EIO;
    const char *hint = "";
    char later[64];
    if (call->later_s > 0) {
        snprintf(later, sizeof later, "; it asks to come back in %" PRIu64 " s", call->later_s);
        hint = later;
    } else if (call->status == 401 || call->status == 403)
        hint = "; is it the right name and password, and may it do that? (TWINRUN_OCI_USERNAME)";
    else if (call->status == 405)
        hint = "; the registry forbids it (docker-registry: storage: delete: enabled: true)";
    twin_error_set(err, rc, "%s: the container registry answers %ld, %.80s%s%.240s%s", shown,
                   call->status, code ? code : "no reason given", message ? ": " : "",
                   message ? message : "", hint);
    json_decref(o);
    return rc;
}
