/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any answers of an object store and of a container registry: listings, pages, heads, manifests,
 * contents. The first byte says which of the two, the second one what is asked; behind the first
 * line end stand the answers, one after the other, as HTTP has them, and between them a line of
 * four equals signs. Behind the last one the server is gone, or with a third byte * it says the
 * last one again and again. Nothing crashes or goes on for ever; what is said to be a content has
 * its digest. Built with libFuzzer (-Dfuzz=true), or with replay.c.
 */
#include "src/net/http.h"

#include "store_inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The SHA-256 of "weights". */
#define WEIGHTS "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"

static void must(int yes)
{
    if (!yes)
        abort();
}

/* ---- a server, in place of src/net/http.c */

static const char *left; /* of the answers; NUL-terminated */
static unsigned asked;
static bool again; /* the last one */

int tw_http_ready(const char *server, struct twin_error *err)
{
    (void)server, (void)err;
    return 0;
}

void tw_http_close(struct tw_http_connection *c)
{
    must(c == NULL);
}

/* The next answer; false: none is left. */
static bool next_answer(const char **text, size_t *n)
{
    static const char between[] = "\n====\n";
    if (!*left)
        return false;
    const char *end = strstr(left, between);
    *text = left;
    *n = end ? (size_t)(end - left) : strlen(left);
    if (end || !again)
        left += *n + (end ? strlen(between) : 0);
    return true;
}

int tw_http(const struct tw_http_request *q, long *status, char **answer, size_t *bytes,
            struct twin_error *err)
{
    const char *text;
    size_t n;
    /* wherever a store leads: never in the clear to another machine */
    must(tw_starts(q->url, "https://") ||
         (tw_starts(q->url, "http://") && tw_http_is_loopback(q->url + 7)));
    must(++asked < 100000);
    if (!next_answer(&text, &n))
        return twin_error_set(err, TWIN_EIO, "nobody is there");
    const char *end = text + n;
    *status = strtol(text, NULL, 10);
    if (*status < 100 || *status > 599)
        *status = 200;
    while (text < end) { /* the head, up to an empty line */
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        line_end = line_end ? line_end : end;
        if (line_end == text) {
            text++;
            break;
        }
        if (q->head)
            q->head(q->to, text, (size_t)(line_end - text));
        text = line_end < end ? line_end + 1 : end;
    }
    const size_t body = (size_t)(end - text);
    const bool taken = q->take && *status / 100 == 2;
    /* in two pieces, as they come */
    if (taken &&
        (!q->take(q->to, text, body / 2) || !q->take(q->to, text + body / 2, body - body / 2)))
        return twin_error_set(err, TWIN_EIO, "it was not taken");
    *answer = taken ? tw_strdup("") : tw_strndup(text, body);
    *bytes = taken ? 0 : body;
    return *answer ? 0 : tw_no_memory(err, "for an answer");
}

/* Nobody waits here. */
int nanosleep(const struct timespec *wanted, struct timespec *rest)
{
    (void)wanted, (void)rest;
    return 0;
}

/* ---- what is asked */

static int visit(void *user, const struct tw_store_piece *p)
{
    size_t *seen = user;
    must(p->name != NULL);
    *seen += strlen(p->name);
    return 0;
}

static void ask(struct tw_store *s, char what, struct twin_error *err)
{
    static const char name[] = "log/00000001.dsse.json";
    char *data = NULL, hex[65];
    size_t n = 0;
    uint64_t count = 0;
    int rc = 0;
    switch (what) {
    case 'l': rc = tw_store_list(s, "log", visit, &n, err); break;
    case 'c': rc = tw_store_list(s, "contents", visit, &n, err); break;
    case 'g':
        rc = tw_store_get(s, name, 1 << 16, &data, &n, err);
        must(rc != 0 || (data && strlen(data) <= n && n <= 1 << 16));
        break;
    case 'p': rc = tw_store_put(s, name, "{}", 2, err); break;
    case 'r':
        rc = tw_store_read_content(s, WEIGHTS, 1 << 16, &data, &n, err);
        if (rc == 0)
            must(tw_sha256_of(data, n, hex) && strcmp(hex, WEIGHTS) == 0);
        break;
    case 's': rc = tw_store_get_stored(s, WEIGHTS, -1, err); break;
    case 'b': rc = tw_store_content_bytes(s, WEIGHTS, &count, err); break;
    case 't': rc = tw_store_put_text(s, "weights", 7, WEIGHTS, "weights", err); break;
    case 'x': rc = tw_store_remove_content(s, WEIGHTS, err); break;
    case 'w': rc = tw_store_sweep(s, INT64_MAX, &count, err); break;
    default: rc = tw_store_hold(s, what == 'h', err); break;
    }
    must(rc == 0 || (rc < 0 && err->code == rc && err->message[0]));
    tw_free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_store *s = NULL;
    if (size < 3)
        return 0;
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    left = text + size;
    asked = 0;
    again = text[2] == '*';
    const char *first = strchr(text, '\n');
    setenv("AWS_ACCESS_KEY_ID", "k", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
    setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1", 1);
    setenv("TWINRUN_OCI_USERNAME", "u", 1);
    setenv("TWINRUN_OCI_PASSWORD", "p", 1);
    must(tw_store_open(text[0] == 's' ? "s3://models/place" : "oci+http://127.0.0.1:1/place", false,
                       &s, &err) == 0);
    left = first ? first + 1 : text + size;
    ask(s, text[1], &err);
    tw_store_close(s);
    free(text);
    return 0;
}
