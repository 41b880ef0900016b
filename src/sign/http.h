/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_HTTP_H
#define TW_SIGN_HTTP_H
/* One request by HTTP, for keys that a server holds: all that this room does with a network. */
#include <stddef.h>
#include <twin/error.h>

/* What is asked of a server. All texts are borrowed for the length of the call. */
struct tw_http_request {
    const char *url;
    const char *body;                /* POST of JSON; NULL: GET */
    const char *const *headers;      /* "Name: value", NULL-terminated */
    const char *ca_file, *ca_folder; /* NULL: the system's */
    long timeout_s;
};
/* Certificates are verified; redirects are not followed. The answer, at most 1 MiB, NUL-terminated,
 * malloc'ed. TWIN_EUNSUPPORTED: built without libcurl's header, or the library is not there.
 * TWIN_EIO: no answer. */
int tw_http(const struct tw_http_request *q, long *status, char **answer, size_t *bytes,
            struct twin_error *err);
#endif
