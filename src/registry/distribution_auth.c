/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks a container registry: credentials from the environment or from the file that docker,
 * podman and skopeo log in to, and a token where the registry sends us to a server of tokens. No
 * password stands on a command line or in a message.
 */
#include "distribution.h"

#include "base.h"
#include "json_load.h"

#include "src/net/http.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_BYTES = 1 << 20, TIMEOUT_S = 60 };
static const char SERVER[] = "a container registry";

/* ---- credentials */

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* What a file says of the host. TWIN_ENOENT: there is no such file. */
static int read_login(const char *path, const char *host, char **out, bool *helper,
                      struct twin_error *err)
{
    struct twin_error why = TWIN_ERROR_INIT;
    char *text = NULL;
    size_t n = 0;
    int rc = tw_read_file(path, FILE_BYTES, &text, &n, &why);
    if (rc != 0)
        return rc == TWIN_ENOENT ? rc : twin_error_set(err, rc, "%s", why.message);
    json_t *o = tw_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    tw_free(text);
    if (!o)
        return twin_error_set(err, TWIN_EFORMAT, "%s: expected JSON, as docker login writes it",
                              path);
    char *long_name = tw_printf("https://%s", host);
    const json_t *logins = json_object_get(o, "auths");
    const json_t *login = json_object_get(logins, host);
    if (!login && long_name)
        login = json_object_get(logins, long_name);
    const char *encoded = json_string_value(json_object_get(login, "auth"));
    *helper |= json_object_get(o, "credsStore") || json_object_get(o, "credHelpers");
    if (!long_name)
        rc = tw_no_memory(err, "reading %s", path);
    if (rc == 0 && encoded && *encoded) {
        size_t bytes = 0;
        char *pair = (char *)tw_base64_read(encoded, true, &bytes);
        if (pair && strlen(pair) == bytes && strchr(pair, ':'))
            *out = pair;
        else {
            tw_free(pair);
            rc = twin_error_set(err, TWIN_EFORMAT, "%s: auth of %s: expected base64 of NAME:WORD",
                                path, host);
        }
    }
    tw_free(long_name);
    json_decref(o);
    return rc;
}

int tw_dist_credentials(const char *host, char **out, char **why, struct twin_error *err)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"REGISTRY_AUTH_FILE", ""},
                  {"DOCKER_CONFIG", "/config.json"},
                  {"HOME", "/.docker/config.json"},
                  {"XDG_RUNTIME_DIR", "/containers/auth.json"}};
    const char *user = variable("TWINRUN_OCI_USERNAME"), *word = variable("TWINRUN_OCI_PASSWORD");
    bool helper = false;
    *out = *why = NULL;
    if (!!user != !!word || (user && strchr(user, ':')))
        return twin_error_set(err, TWIN_EINVAL,
                              "expected both TWINRUN_OCI_USERNAME (without a colon) and "
                              "TWINRUN_OCI_PASSWORD in the environment, or neither");
    if (user) {
        *out = tw_printf("%s:%s", user, word);
        return *out ? 0 : tw_no_memory(err, "for credentials");
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !*out; i++) {
        const char *root = variable(places[i].variable);
        char *path = root ? tw_printf("%s%s", root, places[i].below) : NULL;
        int rc = path ? read_login(path, host, out, &helper, err) : TWIN_ENOENT;
        tw_free(path);
        if (rc != 0 && rc != TWIN_ENOENT)
            return rc;
    }
    if (!*out)
        *why = tw_printf("expected TWINRUN_OCI_USERNAME and TWINRUN_OCI_PASSWORD, or a login of "
                         "docker, podman or skopeo for %s%s",
                         host,
                         helper ? "; credential helpers, which one of their files names, are not "
                                  "called"
                                : "");
    return *out || *why ? 0 : tw_no_memory(err, "for credentials");
}

/* ---- the challenge */

/* A parameter of the challenge, name="value". False: there is none, or it is too long. */
static bool parameter(const char *challenge, const char *name, char *out, size_t room)
{
    const size_t n = strlen(name);
    for (const char *at = challenge; *at;) {
        at += strspn(at, " ,");
        const char *equals = strchr(at, '=');
        if (!equals)
            return false;
        const bool quoted = equals[1] == '"';
        const char *value = equals + 1 + quoted;
        const size_t length = strcspn(value, quoted ? "\"" : " ,");
        if ((size_t)(equals - at) == n && strncasecmp(at, name, n) == 0) {
            snprintf(out, room, "%.*s", (int)length, value);
            return length < room && length > 0;
        }
        at = value + length;
        at += *at == '"';
    }
    return false;
}

/* May be sent in a header: printable, no blank. */
static bool token_ok(const char *t)
{
    if (!t || !*t)
        return false;
    for (; *t; t++)
        if (*t <= ' ' || *t > '~')
            return false;
    return true;
}

static int basic_header(const char *pair, char **out, struct twin_error *err)
{
    char *encoded = tw_base64(pair, strlen(pair));
    *out = encoded ? tw_printf("Authorization: Basic %s", encoded) : NULL;
    tw_free(encoded);
    return *out ? 0 : tw_no_memory(err, "for credentials");
}

/* Where tokens are given: the registry names it, so credentials go there only by HTTPS, or where
 * the registry itself is this machine by plain HTTP to this machine. */
static int token_url(const char *challenge, bool plain, char **out, struct twin_error *err)
{
    char realm[1024], value[512];
    struct tw_buf b = {0};
    const bool given = parameter(challenge, "realm", realm, sizeof realm);
    const bool local = given && plain && tw_starts(realm, "http://") &&
                       tw_http_is_loopback(realm + 7);
    if (!given || (!local && strncmp(realm, "https://", 8) != 0))
        return twin_error_set(err, TWIN_EFORMAT,
                              "the container registry sends for a token to \"%.200s\": expected a "
                              "place by https",
                              given ? realm : "");
    tw_buf_puts(&b, realm);
    const char *before = strchr(realm, '?') ? "&" : "?";
    static const char *const names[] = {"service", "scope"};
    for (size_t i = 0; i < 2; i++) {
        if (!parameter(challenge, names[i], value, sizeof value))
            continue;
        tw_buf_printf(&b, "%s%s=", before, names[i]);
        tw_http_encode(&b, value, false);
        before = "&";
    }
    *out = tw_buf_steal(&b);
    return *out ? 0 : tw_no_memory(err, "for a token");
}

static int bearer_header(const char *ca, const char *challenge, bool plain, const char *pair,
                         char **out, struct twin_error *err)
{
    char *url = NULL, *basic = NULL, *answer = NULL;
    long status = 0;
    size_t n = 0;
    int rc = token_url(challenge, plain, &url, err);
    if (rc == 0 && pair)
        rc = basic_header(pair, &basic, err);
    const char *headers[] = {basic, NULL};
    const struct tw_http_request q = {
        .url = url, .headers = headers, .ca_file = ca, .timeout_s = TIMEOUT_S, .server = SERVER};
    rc = rc ? rc : tw_http(&q, &status, &answer, &n, err);
    json_t *o = rc ? NULL : tw_json_load(answer, n, JSON_REJECT_DUPLICATES, NULL);
    const char *token = json_string_value(json_object_get(o, "token"));
    if (!token)
        token = json_string_value(json_object_get(o, "access_token"));
    if (rc == 0 && (status / 100 != 2 || !token_ok(token)))
        rc = twin_error_set(err, TWIN_EIO, "%.200s: status %ld and %s token: expected one", url,
                            status, token ? "a strange" : "no");
    if (rc == 0 && !(*out = tw_printf("Authorization: Bearer %s", token)))
        rc = tw_no_memory(err, "for a token");
    json_decref(o);
    tw_free(answer);
    tw_free(basic);
    tw_free(url);
    return rc;
}

int tw_dist_authorize(const char *host, const char *ca, bool plain, const char *challenge,
                      char **out, struct twin_error *err)
{
    char *pair = NULL, *why = NULL;
    int rc = tw_dist_credentials(host, &pair, &why, err);
    if (rc == 0 && strncasecmp(challenge, "bearer ", 7) == 0)
        rc = bearer_header(ca, challenge + 7, plain, pair, out, err);
    else if (rc == 0 && strncasecmp(challenge, "basic", 5) != 0)
        rc = twin_error_set(
            err, TWIN_EUNSUPPORTED,
            "%s asks for credentials in the way \"%.60s\": expected Basic or Bearer", host,
            challenge);
    else if (rc == 0 && !pair)
        rc = twin_error_set(err, TWIN_EINVAL, "%s asks for credentials: %s", host, why);
    else if (rc == 0)
        rc = basic_header(pair, out, err);
    tw_free(pair);
    tw_free(why);
    return rc;
}
