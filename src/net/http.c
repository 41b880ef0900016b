/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request by libcurl, which is loaded when it is needed: it brings forty libraries along,
 * which no other command should wait for. */
#include "http.h"

#include "base.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#ifdef TWIN_HAVE_CURL
#include <curl/curl.h>
#include <dlfcn.h>

enum { ANSWER_MAX = 1 << 20 };

/* libcurl's functions, as dlsym found them. */
struct curl {
    CURLcode (*global_init)(long flags);
    CURL *(*init)(void);
    CURLcode (*setopt)(CURL *c, CURLoption option, ...);
    CURLcode (*perform)(CURL *c);
    CURLcode (*getinfo)(CURL *c, CURLINFO info, ...);
    void (*cleanup)(CURL *c);
    void (*reset)(CURL *c);
    struct curl_slist *(*append)(struct curl_slist *list, const char *text);
    void (*free_list)(struct curl_slist *list);
    const char *(*text)(CURLcode code);
};

/* Loads libcurl and fills f. The library stays loaded: it is asked once or twice in a process, and
 * unloading it is not safe once it has started. */
static int load_curl(struct curl *f, const char *server, struct twin_error *err)
{
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"curl_global_init", &f->global_init}, {"curl_easy_init", &f->init},
        {"curl_easy_setopt", &f->setopt},      {"curl_easy_perform", &f->perform},
        {"curl_easy_getinfo", &f->getinfo},    {"curl_easy_cleanup", &f->cleanup},
        {"curl_slist_append", &f->append},     {"curl_slist_free_all", &f->free_list},
        {"curl_easy_strerror", &f->text},      {"curl_easy_reset", &f->reset},
    };
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return twin_error_set(err, TWIN_EUNSUPPORTED,
                              "%s is reached by libcurl, which is not there (Debian: libcurl4)",
                              server);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            return twin_error_set(err, TWIN_EUNSUPPORTED,
                                  "libcurl has no %s: expected version 7.85 or later",
                                  wanted[i].name);
        memcpy(wanted[i].to, &symbol, sizeof symbol);
    }
    return f->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? 0
               : twin_error_set(err, TWIN_EIO, "libcurl does not start");
}

/* A request while it is made. */
struct transfer {
    const struct curl *f;
    const struct tw_http_request *q;
    CURL *c;
    struct tw_buf answer;
};

/* A connection that outlives its request: libcurl's handle has it. */
struct tw_http_connection {
    CURL *c;
    void (*cleanup)(CURL *c);
};

void tw_http_close(struct tw_http_connection *c)
{
    if (c)
        c->cleanup(c->c);
    tw_free(c);
}

/* libcurl's callback for a piece of the answer. Less than all of it makes the transfer fail, which
 * is how the limit of the buffer stops an endless answer. */
static size_t take_answer(char *data, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    long status = 0;
    const size_t n = size * count;
    if (t->q->take && t->f->getinfo(t->c, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
        status / 100 == 2)
        return t->q->take(t->q->to, data, n) ? n : 0;
    return tw_buf_append(&t->answer, data, n) == 0 ? n : 0;
}

static size_t take_head(char *data, size_t size, size_t count, void *user)
{
    const struct transfer *t = user;
    size_t n = size * count;
    while (n > 0 && (data[n - 1] == '\r' || data[n - 1] == '\n'))
        n--;
    t->q->head(t->q->to, data, n);
    return size * count;
}

/* libcurl's callback while it waits: anything but 0 ends the transfer. */
static int ask_to_stop(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_put,
                       curl_off_t put)
{
    const struct tw_http_request *q = user;
    (void)to_get, (void)got, (void)to_put, (void)put;
    return q->stop(q->user);
}

/* What is sent, and how. */
static void set_body(const struct curl *f, CURL *c, const struct tw_http_request *q)
{
    if (q->body) {
        f->setopt(c, CURLOPT_POSTFIELDSIZE, (long)strlen(q->body));
        f->setopt(c, CURLOPT_POSTFIELDS, q->body);
    } else if (q->data) {
        f->setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->data_bytes);
        f->setopt(c, CURLOPT_POSTFIELDS, q->data);
    }
    if (q->method && strcmp(q->method, "HEAD") == 0)
        f->setopt(c, CURLOPT_NOBODY, 1L);
    else if (q->method)
        f->setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
}

/* Sets what a request needs and makes it. why gets libcurl's own words on a failure. */
static CURLcode perform_request(struct transfer *t, struct curl_slist *headers, char *why)
{
    const struct curl *f = t->f;
    const struct tw_http_request *q = t->q;
    CURL *c = t->c;
    f->setopt(c, CURLOPT_ERRORBUFFER, why);
    f->setopt(c, CURLOPT_URL, q->url);
    f->setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    f->setopt(c, CURLOPT_HTTPHEADER, headers);
    f->setopt(c, CURLOPT_NOSIGNAL, 1L);
    f->setopt(c, CURLOPT_CONNECTTIMEOUT, q->timeout_s < 10 ? q->timeout_s : 10L);
    if (q->kept) {
        f->setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        f->setopt(c, CURLOPT_LOW_SPEED_TIME, q->timeout_s);
    } else {
        f->setopt(c, CURLOPT_TIMEOUT, q->timeout_s);
    }
    /* a proxy would get it, and the password in it, in the clear; none stands between us and us */
    if (strncasecmp(q->url, "http://", 7) == 0 && tw_http_is_loopback(q->url + 7))
        f->setopt(c, CURLOPT_PROXY, "");
    f->setopt(c, CURLOPT_FOLLOWLOCATION, 0L); /* a token is for one server */
    f->setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
    f->setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
    if (q->ca_file)
        f->setopt(c, CURLOPT_CAINFO, q->ca_file);
    if (q->ca_folder)
        f->setopt(c, CURLOPT_CAPATH, q->ca_folder);
    f->setopt(c, CURLOPT_WRITEFUNCTION, take_answer);
    f->setopt(c, CURLOPT_WRITEDATA, t);
    if (q->head) {
        f->setopt(c, CURLOPT_HEADERFUNCTION, take_head);
        f->setopt(c, CURLOPT_HEADERDATA, t);
    }
    set_body(f, c, q);
    if (q->stop) {
        f->setopt(c, CURLOPT_NOPROGRESS, 0L);
        f->setopt(c, CURLOPT_XFERINFOFUNCTION, ask_to_stop);
        f->setopt(c, CURLOPT_XFERINFODATA, (void *)q);
    }
    return f->perform(c);
}

/* The handle of the connection that is kept, or a new one, which is kept if it is to be. NULL: no
 * memory. */
static CURL *take_handle(const struct curl *f, const struct tw_http_request *q)
{
    if (q->kept && *q->kept) {
        f->reset((*q->kept)->c);
        return (*q->kept)->c;
    }
    CURL *c = f->init();
    if (c && q->kept) {
        *q->kept = tw_calloc(1, sizeof **q->kept);
        if (!*q->kept) {
            f->cleanup(c);
            return NULL;
        }
        **q->kept = (struct tw_http_connection){c, f->cleanup};
    }
    return c;
}

int tw_http(const struct tw_http_request *q, long *status, char **answer, size_t *bytes,
            struct twin_error *err)
{
    struct curl f;
    struct curl_slist *headers = NULL;
    struct transfer t = {.f = &f, .q = q, .answer = {.cap = ANSWER_MAX}};
    char why[CURL_ERROR_SIZE] = "";
    int rc = load_curl(&f, q->server, err);
    if (rc != 0)
        return rc;
    t.c = take_handle(&f, q);
    for (size_t i = 0; q->headers && q->headers[i]; i++) {
        struct curl_slist *longer = f.append(headers, q->headers[i]);
        if (!longer)
            rc = TWIN_ENOMEM;
        else
            headers = longer;
    }
    if (!t.c || rc != 0)
        rc = tw_no_memory(err, "for a request to %s", q->url);
    else {
        tw_buf_puts(&t.answer, "");
        const CURLcode code = perform_request(&t, headers, why);
        if (code != CURLE_OK && t.answer.failed)
            rc = twin_error_set(err, TWIN_ELIMIT, "%s: an answer of more than %d KiB", q->url,
                                ANSWER_MAX >> 10);
        else if (code != CURLE_OK)
            rc = twin_error_set(err, TWIN_EIO, "%s: no answer: %s", q->url,
                                why[0] ? why : f.text(code));
        else if (f.getinfo(t.c, CURLINFO_RESPONSE_CODE, status) != CURLE_OK)
            rc = twin_error_set(err, TWIN_EIO, "%s: an answer without a status", q->url);
    }
    if (rc == 0) {
        *bytes = t.answer.len;
        if (!(*answer = tw_buf_steal(&t.answer)))
            rc = tw_no_memory(err, "for the answer of %s", q->url);
    }
    tw_buf_free(&t.answer);
    if (t.c && q->kept)
        f.reset(t.c); /* it holds pointers of this request */
    f.free_list(headers);
    if (t.c && !q->kept)
        f.cleanup(t.c);
    return rc;
}

int tw_http_ready(const char *server, struct twin_error *err)
{
    struct curl f;
    return load_curl(&f, server, err);
}
#else
void tw_http_close(struct tw_http_connection *c)
{
    (void)c;
}

int tw_http(const struct tw_http_request *q, long *status, char **answer, size_t *bytes,
            struct twin_error *err)
{
    (void)status, (void)answer, (void)bytes;
    return tw_http_ready(q->server, err);
}

int tw_http_ready(const char *server, struct twin_error *err)
{
    return twin_error_set(err, TWIN_EUNSUPPORTED,
                          "this twinrun was built without libcurl (Debian: libcurl4-openssl-dev), "
                          "by which %s is reached",
                          server);
}
#endif
