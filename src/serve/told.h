/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SERVE_TOLD_H
#define TW_SERVE_TOLD_H
/* A server of somebody else's that is told something: an Alertmanager, a Pushgateway. */
#include "src/net/http.h"

/* As the command line has it. All texts are borrowed. */
struct serve_told {
    const char *option; /* "alertmanager": of --alertmanager, --alertmanager-token-file */
    const char *name;   /* "an Alertmanager", for messages */
    const char *url, *token_file, *ca_file; /* the last two may be NULL */
};
/* Is the URL one, without a password, and by https where a token goes to another machine?
 * TWIN_EINVAL. */
int serve_told_check(const struct serve_told *t, struct twin_error *err);
/* The token's header, read anew each time, since tokens are replaced while servers run; "" without
 * one. Malloc'ed: serve_told_token_free. */
int serve_told_token(const struct serve_told *t, char **out, struct twin_error *err);
void serve_told_token_free(char *token); /* overwrites it; NULL is allowed */
/* Sends q, to which headers, certificates and names are added. TWIN_EIO also of an answer that is
 * no 2xx, with its first words. */
int serve_told_send(const struct serve_told *t, struct tw_http_request *q, const char *content_type,
                    struct twin_error *err);

#endif
