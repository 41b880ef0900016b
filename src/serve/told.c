/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a server that is told something, with its token and its certificates. */
#include "told.h"

#include "base.h"

#include <string.h>

enum { TIMEOUT_S = 10, TOKEN_MOST = 4096, WHY_BYTES = 200 };

/* Does the URL lead to this machine? Then nobody between reads a token. */
static bool is_near(const char *host)
{
    static const char *const near[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        const size_t n = strlen(near[i]);
        if (strncmp(host, near[i], n) == 0 && strchr(":/", host[n]))
            return true;
    }
    return false;
}

int serve_told_check(const struct serve_told *t, struct twin_error *err)
{
    const char *host = strstr(t->url, "://");
    const bool is_tls = tw_starts(t->url, "https://");
    host = host ? host + 3 : "";
    bool ok = (is_tls || tw_starts(t->url, "http://")) && *host && *host != '/';
    for (const char *c = t->url; ok && *c; c++)
        ok = *c > ' ' && *c <= '~' && !strchr("?#@", *c);
    if (!ok)
        return twin_error_set(err, TWIN_EINVAL,
                              "--%s: expected http://HOST:PORT or https://HOST:PORT, without a "
                              "password (that is what --%s-token-file is for), found \"%s\"",
                              t->option, t->option, t->url);
    if (t->token_file && !is_tls && !is_near(host))
        return twin_error_set(err, TWIN_EINVAL,
                              "--%s %s: expected https:// where a token is sent to another machine",
                              t->option, t->url);
    return 0;
}

int serve_told_token(const struct serve_told *t, char **out, struct twin_error *err)
{
    char *text = NULL;
    size_t n = 0;
    int rc = t->token_file ? tw_read_file(t->token_file, TOKEN_MOST, &text, &n, err) : 0;
    while (rc == 0 && n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            rc = twin_error_set(err, TWIN_EINVAL,
                                "%s: expected one line of ASCII without blanks as the token of %s",
                                t->token_file, t->name);
    if (rc == 0 && t->token_file && !n)
        rc = twin_error_set(err, TWIN_EINVAL, "%s: expected a token, found an empty file",
                            t->token_file);
    if (rc == 0)
        *out = t->token_file ? tw_printf("Authorization: Bearer %.*s", (int)n, text)
                             : tw_strdup("");
    if (text) {
        explicit_bzero(text, n);
        tw_free(text);
    }
    if (rc == 0 && !*out)
        rc = tw_no_memory(err, "for the token");
    return rc;
}

void serve_told_token_free(char *token)
{
    if (token)
        explicit_bzero(token, strlen(token));
    tw_free(token);
}

int serve_told_send(const struct serve_told *t, struct tw_http_request *q, const char *content_type,
                    struct twin_error *err)
{
    char *token = NULL, *answer = NULL;
    size_t bytes = 0;
    long status = 0;
    int rc = serve_told_token(t, &token, err);
    const char *const headers[] = {content_type, "Expect:", rc == 0 && *token ? token : NULL, NULL};
    q->headers = headers;
    q->ca_file = t->ca_file;
    q->timeout_s = TIMEOUT_S;
    q->server = t->name;
    rc = rc ? rc : tw_http(q, &status, &answer, &bytes, err);
    if (rc == 0 && (status < 200 || status > 299)) {
        char *why = tw_printable(answer, bytes < WHY_BYTES ? bytes : WHY_BYTES);
        rc = twin_error_set(err, TWIN_EIO, "%s: expected status 200, found %ld%s%s", q->url, status,
                            why && *why ? ": " : "", why ? why : "");
        tw_free(why);
    }
    q->headers = NULL;
    serve_told_token_free(token);
    tw_free(answer);
    return rc;
}
