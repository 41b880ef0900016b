/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_NET_HTTP_H
#define TW_NET_HTTP_H
/*
 * One request by HTTP to a server that the user named: a Vault, an Alertmanager. Room: src/net. It
 * is all that twinrun asks of a network by itself. Functions may be called by one thread at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <twin/error.h>

/* What is asked of a server. All texts are borrowed for the length of the call. */
struct tw_http_request {
    const char *url;
    const char *body;   /* POST of JSON; NULL: GET */
    const char *method; /* NULL: as the body says */
    const void *data;   /* in place of body: bytes, with a method */
    size_t data_bytes;
    const char *const *headers;      /* "Name: value", NULL-terminated */
    const char *ca_file, *ca_folder; /* NULL: the system's */
    long timeout_s;
    const char *server; /* what is asked, for messages: "a Vault" */
    /* asked about once a second; true ends the request (TWIN_EIO). NULL: it is never ended */
    bool (*stop)(void *user);
    void *user; /* of stop */
    /* Takes the answer of a status from 200 to 299 piece by piece, in place of the buffer; false
     * ends the request. NULL: all answers go into the buffer. */
    bool (*take)(void *to, const char *data, size_t n);
    /* Sees each line of the answer's head, "Name: value", without its end. May be NULL. */
    void (*head)(void *to, const char *line, size_t n);
    void *to; /* of take and head */
    /* Keeps the connection for the next request; starts as NULL, ends by tw_http_close. NULL: none
     * is kept. With it timeout_s bounds a silence, not the whole. */
    struct tw_http_connection **kept;
};
/* Certificates are verified; redirects are not followed; the proxy of the environment is taken, but
 * for plain HTTP to this machine. The answer, at most 1 MiB, NUL-terminated,
 * malloc'ed. TWIN_EUNSUPPORTED: built without libcurl's header, or the library is not there.
 * TWIN_EIO: no answer. */
int tw_http(const struct tw_http_request *q, long *status, char **answer, size_t *bytes,
            struct twin_error *err);
void tw_http_close(struct tw_http_connection *c); /* NULL is allowed */

/* How one try to get an answer ended, where it is an error. */
struct tw_http_try {
    bool passes;      /* the trouble may pass: the same may be asked again */
    uint64_t later_s; /* the server asks to wait so long first; 0: it does not */
};
/* Tries until there is an answer, a trouble that does not pass, or the third try has failed. *out
 * is zeroed before each. The last try's code; its message is in err. */
int tw_http_persist(int (*attempt)(void *user, struct tw_http_try *out, struct twin_error *err),
                    void *user, struct twin_error *err);
/* Is what stands behind "http://" this machine: localhost, 127.x.y.z or [::1], with a port or
 * without, then the end or a path? False also for what would take a second look, such as a user. */
bool tw_http_is_loopback(const char *authority);
/* The value of a line of a head, "Name: value", if this is its name: *bytes of it, without the
 * blanks around. NULL: another name. */
const char *tw_http_value(const char *line, size_t n, const char *name, size_t *bytes);
/* The same as a text. False: another name, or it is longer than its room (out then has what fits).
 */
bool tw_http_given(const char *line, size_t n, const char *name, char *out, size_t room);
/* The same as a number up to max; 0: it is none. */
bool tw_http_given_number(const char *line, size_t n, const char *name, uint64_t max,
                          uint64_t *out);
/* Appends the text with all but letters, digits and - . _ ~ (and "/", if slash) as %XX. */
struct tw_buf;
void tw_http_encode(struct tw_buf *b, const char *text, bool slash);
/* Is there a libcurl? Else TWIN_EUNSUPPORTED, with what to install. server: as in a request. */
int tw_http_ready(const char *server, struct twin_error *err);
#endif
