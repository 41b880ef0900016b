/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_NET_HTTP_H
#define TW_NET_HTTP_H
/*
 * One request by HTTP to a server that the user named: a Vault, an Alertmanager. Room: src/net. It
 * is all that twinrun asks of a network by itself. Functions may be called by one thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <twin/error.h>

/* What is asked of a server. All texts are borrowed for the length of the call. */
struct tw_http_request {
    const char *url;
    const char *body;                /* POST of JSON; NULL: GET */
    const char *const *headers;      /* "Name: value", NULL-terminated */
    const char *ca_file, *ca_folder; /* NULL: the system's */
    long timeout_s;
    const char *server; /* what is asked, for messages: "a Vault" */
    /* asked about once a second; true ends the request (TWIN_EIO). NULL: it is never ended */
    bool (*stop)(void *user);
    void *user; /* of stop */
};
/* Certificates are verified; redirects are not followed. The answer, at most 1 MiB, NUL-terminated,
 * malloc'ed. TWIN_EUNSUPPORTED: built without libcurl's header, or the library is not there.
 * TWIN_EIO: no answer. */
int tw_http(const struct tw_http_request *q, long *status, char **answer, size_t *bytes,
            struct twin_error *err);
/* Is there a libcurl? Else TWIN_EUNSUPPORTED, with what to install. server: as in a request. */
int tw_http_ready(const char *server, struct twin_error *err);
#endif
